"""C++ across functions and files: helpers that test, that allocate, that refuse; growth; the orders of a teardown."""

from __future__ import annotations

import pytest
from cpp_cases import analysis, as_files, ids, marked, reported, suspects

from graphlint.findings import Severity

CUDA = "torch::dtype(torch::kInt8).device(torch::kCUDA)"

CAPTURE = [
    (
        "a helper that tests",
        """
        bool capturing(cudaStream_t stream) {
          cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
          C10_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
          return status != cudaStreamCaptureStatusNone;
        }
        at::Tensor kept;
        void step(int64_t n, cudaStream_t stream) {
          if (capturing(stream)) { kept = torch::empty({n}, CUDA); } // !kept-under-capture
        }
        """,
    ),
    (
        "a helper that says the opposite",
        """
        bool is_eager(cudaStream_t stream) { return !isCapturing(stream); }
        at::Tensor kept;
        void step(int64_t n, cudaStream_t stream) {
          if (is_eager(stream)) { kept = torch::empty({n}, CUDA); }
        }
        """,
    ),
    (
        "a helper that answers through a reference",
        """
        cudaError_t query(cudaStream_t stream, bool& is_active) {
          cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
          cudaError_t const error = cudaStreamIsCapturing(stream, &status);
          if (error == cudaSuccess) { is_active = status != cudaStreamCaptureStatusNone; }
          return error;
        }
        static std::map<int, at::Tensor> kept;
        void step(int64_t n, cudaStream_t stream) {
          bool active = false;
          query(stream, active);
          if (active) { kept[0] = torch::empty({n}, CUDA); } // !kept-under-capture
        }
        """,
    ),
    (
        "a helper in another file",
        {
            "query.h": """
                #pragma once
                namespace util {
                inline bool inGraph(cudaStream_t stream) {
                  cudaStreamCaptureStatus status;
                  cudaStreamIsCapturing(stream, &status);
                  return status == cudaStreamCaptureStatusActive;
                }
                }
                """,
            "step.cu": """
                static at::Tensor kept;
                void step(int64_t n, cudaStream_t stream) {
                  if (util::inGraph(stream)) { kept = at::empty({n}, CUDA); } // !kept-under-capture
                }
                """,
        },
    ),
    (
        "a helper that refuses",
        """
        class Runner {
          void refuse(cudaStream_t stream) const {
            bool const capturing = stream != nullptr && isCapturing(stream);
            if (!capturing) { return; }
            TORCH_CHECK(false, "warm up first");
          }
          void step(int64_t n, cudaStream_t stream) {
            if (kept_.numel() < n) { refuse(stream); kept_ = torch::empty({n}, CUDA); }
          }
          at::Tensor kept_;
        };
        """,
    ),
    (
        "a helper that refuses after the first capture too",
        """
        class Runner {
          void refuse(cudaStream_t stream) const {
            bool const capturing = stream != nullptr && isCapturing(stream);
            if (capturing) { seen_ = true; }
            if (!capturing && !seen_) { return; }
            TORCH_CHECK(false, "warm up first");
          }
          void grow(int64_t n) { kept_ = torch::empty({n}, CUDA); }
          void step(int64_t n, cudaStream_t stream) {
            if (n > capacity_) { refuse(stream); grow(n); capacity_ = n; }
          }
          at::Tensor kept_;
          int64_t capacity_ = 0;
          mutable bool seen_ = false;
        };
        """,
    ),
    (
        "a helper that allocates",
        """
        at::Tensor make(int64_t n) { return torch::empty({n}, CUDA); } // !kept-under-capture
        class Runner {
          void step(int64_t n, cudaStream_t stream) { if (isCapturing(stream)) { kept_ = make(n); } }
          at::Tensor kept_;
        };
        """,
    ),
    (
        "a helper that allocates and keeps",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) { if (isCapturing(stream)) { grow(n); } }
          void grow(int64_t n) {
            kept_ = torch::empty({n}, CUDA); // !kept-under-capture
          }
          at::Tensor kept_;
        };
        """,
    ),
    (
        "a helper that keeps what it is given",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) {
            if (isCapturing(stream)) { keep(torch::empty({n}, CUDA)); } // !kept-under-capture
          }
          void keep(at::Tensor block) { kept_ = std::move(block); }
          at::Tensor kept_;
        };
        """,
    ),
    (
        "a helper that fills what it is given, which is kept",
        """
        struct Slot { at::Tensor block; };
        void fill(Slot& slot, int64_t n, cudaStream_t stream) {
          if (isCapturing(stream)) { slot.block = torch::empty({n}, CUDA); } // !kept-under-capture
        }
        class Runner {
          void step(int64_t n, cudaStream_t stream) { fill(slots_[stream], n, stream); }
          std::map<cudaStream_t, Slot> slots_;
        };
        """,
    ),
    (
        "a helper that fills what it is given, which is local",
        """
        struct Slot { at::Tensor block; };
        void fill(Slot& slot, int64_t n, cudaStream_t stream) {
          if (isCapturing(stream)) { slot.block = torch::empty({n}, CUDA); }
        }
        void step(int64_t n, cudaStream_t stream) { Slot slot; fill(slot, n, stream); launch(slot.block); }
        """,
    ),
    (
        "a flag that is passed on",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) { prepare(n, isCapturing(stream)); }
          void prepare(int64_t n, bool flag) {
            if (flag || kept_.numel() < n) {
              kept_ = torch::empty({n}, CUDA); // !kept-under-capture
            }
          }
          at::Tensor kept_;
        };
        """,
    ),
    (
        "an accessor that gives a reference",
        """
        struct State { at::Tensor block; };
        State& state() { static State one; return one; }
        void step(int64_t n, cudaStream_t stream) {
          if (isCapturing(stream)) { state().block = torch::empty({n}, CUDA); } // !kept-under-capture
        }
        """,
    ),
    (
        "a class declared in a header, its method elsewhere",
        {
            "runner.h": """
                class Runner { public: void step(int64_t n, cudaStream_t stream); private: at::Tensor kept_; };
                """,
            "runner.cpp": """
                #include "runner.h"
                void Runner::step(int64_t n, cudaStream_t stream) {
                  if (isCapturing(stream)) { kept_ = torch::empty({n}, CUDA); } // !kept-under-capture
                }
                """,
        },
    ),
    (
        "a method whose class is not there",
        """
        void engine::Runner::step(int64_t n, cudaStream_t stream) {
          if (isCapturing(stream)) { kept_ = torch::empty({n}, CUDA); } // !kept-under-capture
        }
        """,
    ),
    (
        "a member of another class",
        """
        class Cache { public: void put(int64_t n) { blocks_.push_back(torch::empty({n}, CUDA)); } // !kept-under-capture
          std::vector<at::Tensor> blocks_; };
        class Runner {
          void step(int64_t n, cudaStream_t stream) { if (isCapturing(stream)) { cache_->put(n); } }
          std::unique_ptr<Cache> cache_;
        };
        """,
    ),
    (
        "a template",
        """
        template <typename T, int kSize>
        class Runner {
          template <typename U>
          void step(int64_t n, cudaStream_t stream) {
            if constexpr (kSize > 0) {
              if (isCapturing(stream)) { kept_ = torch::empty({n}, CUDA); } // !kept-under-capture
            }
          }
          at::Tensor kept_;
        };
        """,
    ),
    (
        "functions that call each other",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) { if (n > 0) { other(n - 1, stream); } }
          void other(int64_t n, cudaStream_t stream) {
            step(n, stream);
            if (isCapturing(stream)) { kept_ = torch::empty({n}, CUDA); } // !kept-under-capture
          }
          at::Tensor kept_;
        };
        """,
    ),
]

GROWTH = [
    (
        "replaced when too small",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) {
            if (kept_.numel() < n) { kept_ = torch::empty({n}, CUDA); } // !replaced-when-small
          }
          at::Tensor kept_;
        };
        """,
    ),
    (
        "not there or too small",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) {
            bool const fits = kept_.defined() && kept_.nbytes() >= n;
            if (fits) { return; }
            kept_ = torch::empty({n}, CUDA); // !replaced-when-small
          }
          at::Tensor kept_;
        };
        """,
    ),
    (
        "a capacity beside it",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) {
            if (n > capacity_) {
              kept_ = torch::empty({n}, CUDA); // !replaced-when-small
              capacity_ = n;
            }
          }
          at::Tensor kept_;
          int64_t capacity_ = 0;
        };
        """,
    ),
    (
        "a map of them",
        """
        at::Tensor step(int64_t n, int device) {
          static std::map<int, at::Tensor> blocks;
          auto stream = at::cuda::getCurrentCUDAStream();
          auto& block = blocks[device];
          if (!block.defined() || block.size(0) < n) {
            block = torch::empty({n}, CUDA); // !replaced-when-small
          }
          return block;
        }
        """,
    ),
    (
        "resized in place",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) { kept_.resize_({n}); } // !replaced-when-small
          at::Tensor kept_;
        };
        """,
    ),
    (
        "a caller's workspace, resized",
        """
        void attention(at::Tensor q, std::optional<at::Tensor> workspace_, int64_t n, cudaStream_t stream) {
          at::Tensor workspace;
          if (workspace_.has_value()) {
            if (workspace_.value().numel() < n) {
              LOG_WARNING("growing");
              workspace_.value().resize_({n}); // !replaced-when-small
            }
            workspace = workspace_.value();
          } else {
            workspace = torch::empty({n}, CUDA);
          }
          launch(workspace.data_ptr(), stream);
        }
        """,
    ),
    (
        "several of them by one test",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) {
            if (rows_ != n) {
              slot_.one = torch::empty({n}, CUDA); // !replaced-when-small
              slot_.two = torch::empty({n}, CUDA);
              rows_ = n;
            }
          }
          struct Slot { at::Tensor one; at::Tensor two; };
          Slot slot_;
          int64_t rows_ = 0;
        };
        """,
    ),
    (
        "raw memory, freed first",
        """
        class Runner {
          void step(size_t n, cudaStream_t stream) {
            if (n > bytes_) {
              cudaFree(raw_);
              cudaMalloc(&raw_, n); // !replaced-when-small
              bytes_ = n;
            }
          }
          void* raw_ = nullptr;
          size_t bytes_ = 0;
        };
        """,
    ),
    (
        "raw memory that leaks on purpose",
        """
        class Runner {
          void step(size_t n, cudaStream_t stream) {
            if (n > bytes_) { cudaMalloc(&raw_, n); bytes_ = n; }
          }
          void* raw_ = nullptr;
          size_t bytes_ = 0;
        };
        """,
    ),
    (
        "the old one is parked",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) {
            if (kept_.numel() < n) {
              if (kept_.defined()) { parked_.push_back(std::move(kept_)); }
              kept_ = torch::empty({n}, CUDA);
            }
          }
          at::Tensor kept_;
          std::vector<at::Tensor> parked_;
        };
        """,
    ),
    (
        "refused while capturing and after",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) {
            if (isCapturing(stream)) { seen_ = true; }
            if (kept_.numel() >= n) { return; }
            TORCH_CHECK(!seen_, "would move under a graph");
            kept_ = torch::empty({n}, CUDA);
          }
          at::Tensor kept_;
          bool seen_ = false;
        };
        """,
    ),
    (
        "refused while capturing",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) {
            if (kept_.numel() >= n) { return; }
            TORCH_CHECK(!isCapturing(stream), "warm up first");
            kept_ = torch::empty({n}, CUDA);
          }
          at::Tensor kept_;
        };
        """,
    ),
    (
        "made once",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) {
            if (!kept_.defined() || kept_.numel() == 0) { kept_ = torch::empty({n}, CUDA); }
          }
          at::Tensor kept_;
        };
        """,
    ),
    (
        "a larger one for this call alone",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) {
            auto block = kept_;
            if (kept_.numel() < n) { block = torch::empty({n}, CUDA); }
            launch(block.data_ptr(), stream);
          }
          at::Tensor kept_;
        };
        """,
    ),
    (
        "a size that is checked",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) { TORCH_CHECK(kept_.numel() >= n); launch(kept_, stream); }
          at::Tensor kept_;
        };
        """,
    ),
    (
        "a constructor",
        """
        class Runner {
          Runner(int64_t n, cudaStream_t stream) { if (n > size_) { kept_ = torch::empty({n}, CUDA); size_ = n; } }
          at::Tensor kept_;
          int64_t size_ = 0;
        };
        """,
    ),
    (
        "a host buffer",
        """
        class Runner {
          void step(int64_t n, cudaStream_t stream) {
            if (kept_.numel() < n) { kept_ = torch::empty({n}, torch::TensorOptions().pinned_memory(true)); }
          }
          at::Tensor kept_;
        };
        """,
    ),
    (
        "an output, resized",
        "void op(at::Tensor& out, int64_t n, cudaStream_t stream) { out.resize_({n}); launch(out, stream); }",
    ),
    (
        "a vector",
        """
        struct R {
          void f(size_t n, cudaStream_t stream) { if (v_.size() < n) { v_.resize(n); } }
          std::vector<int> v_;
        };
        """,
    ),
]

ORDERS = [
    (
        "the workspaces go after the pool was erased",
        """
        class Runner {
          void run(int64_t n, cudaStream_t stream) {
            auto& block = blocks_[n];
            if (isCapturing(stream)) { block = torch::empty({n}, CUDA); } // !kept-under-capture
          }
          void shutdown() {
            graph_.reset();
            c10::cuda::CUDACachingAllocator::emptyCache(); // !erased-first
            blocks_.clear();
          }
          at::cuda::CUDAGraph graph_;
          std::map<int64_t, at::Tensor> blocks_;
        };
        """,
    ),
    (
        "the workspaces never go",
        """
        class Runner {
          void run(int64_t n, cudaStream_t stream) {
            if (isCapturing(stream)) { block_ = torch::empty({n}, CUDA); } // !kept-under-capture
          }
          void shutdown() {
            for (auto& [size, graph] : graphs_) { graph->reset(); }
            graphs_.clear();
            c10::cuda::CUDACachingAllocator::emptyCache(); // !erased-first
          }
          std::unordered_map<int, std::unique_ptr<at::cuda::CUDAGraph>> graphs_;
          at::Tensor block_;
        };
        """,
    ),
    (
        "through helpers",
        """
        class Runner {
          void run(int64_t n, cudaStream_t stream) {
            if (isCapturing(stream)) { block_ = torch::empty({n}, CUDA); } // !kept-under-capture
          }
          void release_graphs() { for (auto& graph : graphs_) graph.reset(); }
          void trim() {
            c10::cuda::CUDACachingAllocator::emptyCache(); // !erased-first
          }
          void release_blocks() { block_ = at::Tensor(); }
          void shutdown() { release_graphs(); trim(); release_blocks(); }
          std::vector<at::cuda::CUDAGraph> graphs_;
          at::Tensor block_;
        };
        """,
    ),
    (
        "memory of a miss inside the capture",
        """
        class Runner {
          void run(int64_t n) {
            if (!block_.defined()) { block_ = at::empty({n}, CUDA); } // !kept-under-capture
          }
          void capture(int64_t n) { graph_.capture_begin(); run(n); graph_.capture_end(); }
          void shutdown() {
            graph_.reset();
            c10::cuda::CUDACachingAllocator::emptyCache(); // !erased-first
            block_.reset();
          }
          at::cuda::CUDAGraph graph_;
          at::Tensor block_;
        };
        """,
    ),
    (
        "a release too late says it by itself",
        """
        class Runner {
          void shutdown() {
            graph_.reset();
            c10::cuda::CUDACachingAllocator::emptyCache(); // !erased-first
            workspaces_.clear();
          }
          at::cuda::CUDAGraph graph_;
          std::map<cudaStream_t, at::Tensor> workspaces_;
        };
        """,
    ),
    (
        "the right order",
        """
        class Runner {
          void run(int64_t n, cudaStream_t stream) {
            if (isCapturing(stream)) { block_ = torch::empty({n}, CUDA); } // !kept-under-capture
          }
          void shutdown() {
            graph_.reset();
            block_ = at::Tensor();
            c10::cuda::CUDACachingAllocator::emptyCache();
          }
          at::cuda::CUDAGraph graph_;
          at::Tensor block_;
        };
        """,
    ),
    (
        "the right order, each where there is something",
        """
        class Runner {
          void run(int64_t n, cudaStream_t stream) {
            if (isCapturing(stream)) { block_ = torch::empty({n}, CUDA); } // !kept-under-capture
          }
          void shutdown() {
            if (graph_) { graph_->reset(); }
            if (block_.defined()) { block_.reset(); }
            c10::cuda::CUDACachingAllocator::emptyCache();
          }
          std::unique_ptr<at::cuda::CUDAGraph> graph_;
          at::Tensor block_;
        };
        """,
    ),
    (
        "erased while the graphs live",
        """
        class Runner {
          void run(int64_t n, cudaStream_t stream) {
            if (isCapturing(stream)) { block_ = torch::empty({n}, CUDA); } // !kept-under-capture
          }
          void trim() { c10::cuda::CUDACachingAllocator::emptyCache(); block_ = at::Tensor(); }
          at::cuda::CUDAGraph graph_;
          at::Tensor block_;
        };
        """,
    ),
    (
        "no workspace in the pool",
        """
        class Runner {
          void shutdown() { graph_.reset(); c10::cuda::CUDACachingAllocator::emptyCache(); sizes_.clear(); }
          at::cuda::CUDAGraph graph_;
          std::vector<int> sizes_;
        };
        """,
    ),
    (
        "released twice",
        """
        class Runner {
          void shutdown() {
            graph_.reset();
            sync();
            graph_.reset(); // !released-twice
          }
          at::cuda::CUDAGraph graph_;
        };
        """,
    ),
    (
        "released by a helper, then again",
        """
        class Runner {
          void release() { for (auto& graph : graphs_) { graph.reset(); } }
          void shutdown() {
            release();
            stop();
            release(); // !released-twice
          }
          std::vector<at::cuda::CUDAGraph> graphs_;
        };
        """,
    ),
    (
        "a handle destroyed twice",
        """
        class Runner {
          ~Runner() {
            cudaGraphExecDestroy(exec_);
            cleanup(); // !released-twice
          }
          void cleanup() { cudaGraphExecDestroy(exec_); }
          cudaGraphExec_t exec_;
        };
        """,
    ),
    (
        "a handle that is set to nothing in between",
        """
        class Runner {
          void shutdown() {
            cudaGraphExecDestroy(exec_);
            exec_ = nullptr;
            stop();
            cudaGraphExecDestroy(exec_);
          }
          cudaGraphExec_t exec_;
        };
        """,
    ),
    (
        "a handle destroyed twice, under one condition each",
        """
        class Runner {
          void shutdown() {
            if (exec_ != nullptr) { cudaGraphExecDestroy(exec_); exec_ = nullptr; }
            if (exec_ != nullptr) { cudaGraphExecDestroy(exec_); exec_ = nullptr; }
          }
          cudaGraphExec_t exec_;
        };
        """,
    ),
    (
        "a second release that asks first",
        """
        class Runner {
          void shutdown() { graph_.reset(); stop(); if (graph_.is_live()) { graph_.reset(); } }
          at::cuda::CUDAGraph graph_;
        };
        """,
    ),
    (
        "a pool given back twice",
        """
        void drop(c10::DeviceIndex device, c10::cuda::MempoolId_t pool_id) {
          c10::cuda::CUDACachingAllocator::releasePool(device, pool_id);
          sync();
          c10::cuda::CUDACachingAllocator::releasePool(device, pool_id); // !released-twice
        }
        """,
    ),
    (
        "elements by other keys",
        """
        class Runner {
          void drop(int a, int b) { graphs_[a].reset(); graphs_[b].reset(); }
          std::map<int, at::cuda::CUDAGraph> graphs_;
        };
        """,
    ),
    (
        "a local of a loop",
        """
        void all(std::vector<at::cuda::CUDAGraph>& graphs) {
          for (auto it = graphs.begin(); it != graphs.end(); ++it) { it->reset(); }
        }
        """,
    ),
    (
        "an early return after the first",
        """
        class Runner {
          void stop(bool hard) {
            graph_.reset();
            if (hard) { return; }
            finish();
            graph_.reset(); // !released-twice
          }
          at::cuda::CUDAGraph graph_;
        };
        """,
    ),
    (
        "released, captured, released",
        """
        class Runner {
          void again() { graph_.reset(); graph_.capture_begin(); graph_.capture_end(); graph_.reset(); }
          at::cuda::CUDAGraph graph_;
        };
        """,
    ),
    (
        "released, replaced, released",
        """
        class Runner {
          void again() { graph_.reset(); graph_ = at::cuda::CUDAGraph(); graph_.reset(); }
          at::cuda::CUDAGraph graph_;
        };
        """,
    ),
    (
        "two graphs",
        """
        class Runner {
          void shutdown() { one_.reset(); two_.reset(); }
          at::cuda::CUDAGraph one_;
          at::cuda::CUDAGraph two_;
        };
        """,
    ),
    (
        "the second only where the first was skipped",
        """
        class Runner {
          void shutdown(bool early) { if (early) { graph_.reset(); return; } stop(); graph_.reset(); }
          at::cuda::CUDAGraph graph_;
        };
        """,
    ),
    (
        "a flag that guards",
        """
        class Runner {
          void release() { if (done_) { return; } done_ = true; graph_.reset(); }
          void shutdown() { release(); release(); }
          bool done_ = false;
          at::cuda::CUDAGraph graph_;
        };
        """,
    ),
    (
        "the graph, then its holder",
        """
        class Runner {
          void shutdown() { graph_->reset(); graph_.reset(); graph_ = nullptr; }
          std::unique_ptr<at::cuda::CUDAGraph> graph_;
        };
        """,
    ),
    (
        "a destructor and a method",
        """
        class Runner {
          ~Runner() { graph_.reset(); }
          void shutdown() { graph_.reset(); }
          at::cuda::CUDAGraph graph_;
        };
        """,
    ),
]


def _filled(program: str | dict[str, str]) -> dict[str, str]:
    return {path: text.replace("CUDA)", f"{CUDA})") for path, text in as_files(program).items()}


@pytest.mark.parametrize(("name", "program"), [*CAPTURE, *GROWTH, *ORDERS], ids=ids([*CAPTURE, *GROWTH, *ORDERS]))
def test_reported_where_it_is_marked(name: str, program: str | dict[str, str]) -> None:
    files = _filled(program)
    assert reported(files) == marked(files), name


@pytest.mark.parametrize(
    ("test", "severity"),
    [
        ("kept_.numel() < n", Severity.WARNING),
        ("!(kept_.numel() >= n)", Severity.WARNING),
        ("!kept_.defined() || n > capacity_", Severity.WARNING),
        ("kept_.size(1) != n || kept_.numel() < n", Severity.WARNING),
        ("kept_.size(1) != n", Severity.NOTE),
        ("!kept_.defined() || capacity_ != n", Severity.NOTE),
    ],
)
def test_what_is_made_anew_for_other_dimensions_and_not_for_more_is_a_note(test: str, severity: Severity) -> None:
    program = f"""
        class Runner {{
          void step(int64_t n, cudaStream_t stream) {{
            if ({test}) {{
              kept_ = torch::empty({{n}}, CUDA);
              capacity_ = n;
            }}
          }}
          at::Tensor kept_;
          int64_t capacity_ = 0;
        }};
    """
    assert [each.severity for each in suspects(analysis(_filled(program)))] == [severity]
