"""Memory that is allocated while capturing, and kept: the test, its polarity, the place."""

from __future__ import annotations

import re

import pytest
from cpp_cases import as_files, ids, marked, reported

# Every body stands in a method `step` of a class that keeps these members.
CLASS = """
#include <torch/torch.h>

namespace engine {

struct Slot { torch::Tensor block{}; void* map{}; };

static std::map<int64_t, at::Tensor> shared_blocks;

class Runner {
 public:
  at::Tensor step(at::Tensor const& input, int64_t n, cudaStream_t stream) {
BODY
  }

 private:
  std::map<cudaStream_t, Slot> slots_;
  std::unordered_map<int64_t, at::Tensor> blocks_;
  std::vector<at::Tensor> list_;
  at::Tensor scratch_;
  at::Tensor spare_;
  std::optional<at::Tensor> maybe_;
  std::shared_ptr<Slot> held_;
  void* raw_ = nullptr;
  static at::Tensor pool_;
  bool in_capture_ = false;
};

}  // namespace engine
"""
CUDA = "torch::dtype(torch::kInt8).device(torch::kCUDA)"

FOUND = [
    (
        "a test in the condition",
        "if (isCapturing(stream)) { scratch_ = torch::empty({n}, CUDA); } // !kept-under-capture",
    ),
    (
        "a test through a local",
        """
        bool const capturing = engine::common::isCapturing(stream);
        if (capturing) {
          scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
        }
        """,
    ),
    (
        "a test or a size",
        """
        bool const capturing = isCapturing(stream);
        auto& slot = slots_[stream];
        if (capturing || slot.block.numel() < n) {
          slot = Slot();
          slot.block = torch::empty({n}, CUDA); // !kept-under-capture
        }
        return slot.block;
        """,
    ),
    (
        "the whole condition through a local",
        """
        bool grow = isCapturing(stream) || scratch_.numel() < n;
        if (grow) scratch_ = at::empty({n}, CUDA); // !kept-under-capture
        """,
    ),
    (
        "a test and another condition",
        "if (n > 0 && isCapturing(stream)) { scratch_ = at::zeros({n}, CUDA); } // !kept-under-capture",
    ),
    (
        "the else of a negated test",
        """
        if (!isCapturing(stream)) {
          return scratch_;
        } else {
          scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
        }
        """,
    ),
    (
        "after an early return of the other polarity",
        """
        if (not isCapturing(stream)) return scratch_;
        scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
        """,
    ),
    (
        "after an early return for what is there already and no capture",
        """
        if (!isCapturing(stream) && scratch_.defined()) { return scratch_; }
        scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
        """,
    ),
    (
        "a fallback inside a reserve path",
        """
        if (isCapturing(stream)) {
          if (spare_.numel() >= n) {
            scratch_ = spare_;
          } else {
            scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
          }
        }
        """,
    ),
    (
        "the status of CUDA's own query",
        """
        cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        C10_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
        if (status != cudaStreamCaptureStatusNone) {
          scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
        }
        """,
    ),
    (
        "the status of CUDA's query for more",
        """
        cudaStreamCaptureStatus status;
        unsigned long long id = 0;
        cudaStreamGetCaptureInfo(stream, &status, &id);
        bool const active = status == cudaStreamCaptureStatusActive;
        if (active) { scratch_ = torch::empty({n}, CUDA); } // !kept-under-capture
        """,
    ),
    (
        "the status of torch's query",
        """
        if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None) {
          scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
        }
        """,
    ),
    (
        "torch's status in a local",
        """
        auto status = at::cuda::currentStreamCaptureStatusMayInitCtx();
        if (status == at::cuda::CaptureStatus::None) { return scratch_; }
        scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
        """,
    ),
    (
        "a flag that a branch sets",
        """
        bool active = false;
        cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        auto err = cudaStreamIsCapturing(stream, &status);
        if (err == cudaSuccess && status != cudaStreamCaptureStatusNone) { active = true; }
        if (active) { scratch_ = torch::empty({n}, CUDA); } // !kept-under-capture
        """,
    ),
    (
        "a test compared with a literal",
        "if (isCapturing(stream) == true) scratch_ = torch::empty({n}, CUDA); // !kept-under-capture",
    ),
    (
        "a conditional expression",
        "scratch_ = isCapturing(stream) ? torch::empty({n}, CUDA) : spare_; // !kept-under-capture",
    ),
    (
        "allocated before, kept while capturing",
        """
        auto block = torch::empty({n}, CUDA); // !kept-under-capture
        if (isCapturing(stream)) { blocks_[n] = block; }
        """,
    ),
    (
        "moved into a container",
        """
        if (isCapturing(stream)) {
          at::Tensor block = torch::empty({n}, CUDA); // !kept-under-capture
          list_.push_back(std::move(block));
        }
        """,
    ),
    (
        "emplaced",
        "if (isCapturing(stream)) { blocks_.emplace(n, torch::empty({n}, CUDA)); } // !kept-under-capture",
    ),
    (
        "inserted or assigned",
        "if (isCapturing(stream)) { blocks_.insert_or_assign(n, at::empty({n}, CUDA)); } // !kept-under-capture",
    ),
    (
        "through an iterator",
        """
        auto it = blocks_.find(n);
        if (isCapturing(stream)) { it->second = torch::empty({n}, CUDA); } // !kept-under-capture
        """,
    ),
    (
        "through a structured binding",
        """
        auto [it, is_new] = blocks_.try_emplace(n);
        if (is_new && isCapturing(stream)) { it->second = torch::empty({n}, CUDA); } // !kept-under-capture
        """,
    ),
    (
        "a local object that is put away",
        """
        if (isCapturing(stream)) {
          Slot slot;
          slot.block = torch::empty({n}, CUDA); // !kept-under-capture
          slots_[stream] = slot;
        }
        """,
    ),
    (
        "an aggregate",
        "if (isCapturing(stream)) { slots_[stream] = Slot{torch::empty({n}, CUDA), nullptr}; } // !kept-under-capture",
    ),
    (
        "through a smart pointer",
        "if (isCapturing(stream)) { held_->block = torch::empty({n}, CUDA); } // !kept-under-capture",
    ),
    (
        "through a copied smart pointer",
        """
        auto held = held_;
        if (isCapturing(stream)) { held->block = torch::empty({n}, CUDA); } // !kept-under-capture
        """,
    ),
    (
        "through a pointer to a member",
        """
        at::Tensor* target = &scratch_;
        if (isCapturing(stream)) { *target = torch::empty({n}, CUDA); } // !kept-under-capture
        """,
    ),
    (
        "cudaMalloc into a member",
        "if (isCapturing(stream)) { cudaMalloc(&raw_, n); } // !kept-under-capture",
    ),
    (
        "cudaMallocAsync in a check, with a cast",
        "if (isCapturing(stream)) C10_CUDA_CHECK(cudaMallocAsync((void**) &raw_, n, stream)); // !kept-under-capture",
    ),
    (
        "a static of the function",
        """
        static at::Tensor block;
        if (isCapturing(stream)) { block = torch::empty({n}, CUDA); } // !kept-under-capture
        return block;
        """,
    ),
    (
        "a thread-local map",
        """
        thread_local std::unordered_map<cudaStream_t, at::Tensor> cache;
        if (isCapturing(stream)) { cache[stream] = torch::empty({n}, CUDA); } // !kept-under-capture
        """,
    ),
    (
        "a variable of the namespace",
        "if (isCapturing(stream)) { shared_blocks[n] = torch::empty({n}, CUDA); } // !kept-under-capture",
    ),
    ("a static member", "if (isCapturing(stream)) { pool_ = torch::empty({n}, CUDA); } // !kept-under-capture"),
    ("an optional", "if (isCapturing(stream)) { maybe_ = torch::empty({n}, CUDA); } // !kept-under-capture"),
    ("like an input", "if (isCapturing(stream)) { scratch_ = at::empty_like(input); } // !kept-under-capture"),
    (
        "by a tensor's own method",
        "if (isCapturing(stream)) { scratch_ = input.new_empty({n}); } // !kept-under-capture",
    ),
    (
        "a view of it",
        "if (isCapturing(stream)) { scratch_ = torch::empty({n}, CUDA).view({-1, 2}); } // !kept-under-capture",
    ),
    ("by resizing", "if (isCapturing(stream)) { scratch_.resize_({n}); } // !kept-under-capture"),
    (
        "this, spelt out",
        "if (isCapturing(stream)) { this->scratch_ = torch::empty({n}, CUDA); } // !kept-under-capture",
    ),
    (
        "in one branch of a directive",
        """
        #ifdef USE_CAPTURE_BLOCK
        if (isCapturing(stream)) {
          scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
        }
        #else
        launch(stream);
        #endif
        """,
    ),
    (
        "in the other branch of a directive",
        """
        #ifdef USE_ROCM
        launch(stream);
        #else
        if (isCapturing(stream)) {
          scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
        }
        #endif
        """,
    ),
    (
        "where a directive splits a condition",
        """
        #ifdef USE_ROCM
        if (isCapturing(stream)) {
        #else
        if (isCapturing(stream) || n > 1) {
        #endif
          scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
        }
        """,
    ),
    (
        "in a lambda that is called",
        """
        auto grow = [&](at::Tensor& target) { target = torch::empty({n}, CUDA); }; // !kept-under-capture
        if (isCapturing(stream)) { grow(scratch_); }
        """,
    ),
    (
        "in a lambda that is run once",
        """
        if (isCapturing(stream)) {
          std::call_once(flag, [&] {
            scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
          });
        }
        """,
    ),
    (
        "in a switch",
        """
        switch (isCapturing(stream)) {
          case true:
            scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
            break;
          default: break;
        }
        """,
    ),
    (
        "next to a launch",
        """
        fill<<<grid, dim3{256, 1, 1}, 0, stream>>>(raw_, n);
        if (isCapturing(stream)) { scratch_ = torch::empty({n}, CUDA); } // !kept-under-capture
        """,
    ),
    (
        "a miss between the begin and the end of a capture",
        """
        at::cuda::CUDAGraph graph;
        graph.capture_begin();
        if (!scratch_.defined()) {
          scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
        }
        graph.capture_end();
        """,
    ),
    (
        "a status in the head of the condition",
        """
        if (auto now = c10::cuda::currentStreamCaptureStatusMayInitCtx(); now != c10::cuda::CaptureStatus::None) {
          scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
        }
        """,
    ),
    (
        "a lambda that is called at once",
        """
        bool const capturing = [&] { return isCapturing(stream); }();
        if (capturing) { scratch_ = torch::empty({n}, CUDA); } // !kept-under-capture
        """,
    ),
    (
        "a local lambda that tests",
        """
        auto busy = [](cudaStream_t s) {
          cudaStreamCaptureStatus st = cudaStreamCaptureStatusNone;
          cudaStreamIsCapturing(s, &st);
          return st != cudaStreamCaptureStatusNone;
        };
        if (busy(stream)) { scratch_ = torch::empty({n}, CUDA); } // !kept-under-capture
        """,
    ),
    (
        "a double negation",
        "if (!(!isCapturing(stream))) { scratch_ = torch::empty({n}, CUDA); } // !kept-under-capture",
    ),
    (
        "a switch over the status",
        """
        cudaStreamCaptureStatus status;
        cudaStreamIsCapturing(stream, &status);
        switch (status) {
          case cudaStreamCaptureStatusNone: launch(stream); break;
          case cudaStreamCaptureStatusActive:
            scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
            break;
        }
        """,
    ),
    (
        "in a dispatch",
        """
        AT_DISPATCH_ALL_TYPES(input.scalar_type(), "step", [&] {
          if (isCapturing(stream)) { scratch_ = torch::empty({n}, CUDA); } // !kept-under-capture
        });
        """,
    ),
    (
        "at a key",
        "if (isCapturing(stream)) { slots_.at(stream).block = torch::empty({n}, CUDA); } // !kept-under-capture",
    ),
    (
        "through a pointer to an element",
        """
        auto* slot = &slots_[stream];
        if (isCapturing(stream)) { slot->block = torch::empty({n}, CUDA); } // !kept-under-capture
        """,
    ),
    ("a pair", "if (isCapturing(stream)) { blocks_.insert({n, torch::empty({n}, CUDA)}); } // !kept-under-capture"),
    (
        "a made pair",
        "if (isCapturing(stream)) blocks_.emplace(std::make_pair(n, torch::empty({n}, CUDA))); // !kept-under-capture",
    ),
    (
        "a list of values",
        "if (isCapturing(stream)) { slots_[stream] = {torch::empty({n}, CUDA), nullptr}; } // !kept-under-capture",
    ),
    (
        "a made pointer",
        "if (isCapturing(stream)) { held_ = std::make_shared<Slot>(torch::empty({n}, CUDA)); } // !kept-under-capture",
    ),
    (
        "an iterator out of an insertion",
        """
        if (isCapturing(stream)) {
          auto done = blocks_.try_emplace(n);
          done.first->second = torch::empty({n}, CUDA); // !kept-under-capture
        }
        """,
    ),
    (
        "swapped in",
        "if (isCapturing(stream)) { auto t = torch::empty({n}, CUDA); std::swap(scratch_, t); } // !kept-under-capture",
    ),
    (
        "a flag in a struct of a helper",
        """
        struct Context { bool busy; int device; };
        auto look = [&] { Context context; context.busy = isCapturing(stream); return context; };
        auto context = look();
        if (context.busy) { scratch_ = torch::empty({n}, CUDA); } // !kept-under-capture
        """,
    ),
    (
        "under a lock",
        """
        {
          std::lock_guard<std::mutex> lock(mutex_);
          if (isCapturing(stream)) { scratch_ = torch::empty({n}, CUDA); } // !kept-under-capture
        }
        """,
    ),
    (
        "inside try",
        """
        try {
          if (isCapturing(stream)) { scratch_ = torch::empty({n}, CUDA); } // !kept-under-capture
        } catch (std::exception const& error) { LOG(ERROR) << error.what(); }
        """,
    ),
    (
        "a loop over ranks",
        """
        for (int rank = 0; rank < 8; ++rank) {
          if (isCapturing(stream)) { list_.emplace_back(torch::empty({n}, CUDA)); } // !kept-under-capture
        }
        """,
    ),
    (
        "returned and kept at once",
        "if (isCapturing(stream)) { return scratch_ = torch::empty({n}, CUDA); } // !kept-under-capture",
    ),
    (
        "the caching allocator itself",
        """
        if (isCapturing(stream)) {
          raw_ = c10::cuda::CUDACachingAllocator::raw_alloc(n); // !kept-under-capture
        }
        """,
    ),
    (
        "the stream's own method",
        """
        auto now_stream = at::cuda::getCurrentCUDAStream();  // a stream
        if (now_stream.is_capturing()) scratch_ = torch::empty({n}, CUDA); // !kept-under-capture
        """,
    ),
]

SILENT = [
    ("no test at all", "scratch_ = torch::empty({n}, CUDA);"),
    ("only without a capture", "if (!isCapturing(stream)) { scratch_ = torch::empty({n}, CUDA); }"),
    (
        "the else of the test",
        "if (isCapturing(stream)) { return spare_; } else { scratch_ = torch::empty({n}, CUDA); }",
    ),
    ("after an early return", "if (isCapturing(stream)) { return {}; } scratch_ = torch::empty({n}, CUDA);"),
    ("after a throw", 'if (isCapturing(stream)) throw std::runtime_error("no"); scratch_ = torch::empty({n}, CUDA);'),
    ("after a check", 'TORCH_CHECK(!isCapturing(stream), "no"); scratch_ = torch::empty({n}, CUDA);'),
    ("after a check of both", 'TORCH_CHECK(n > 0 && !isCapturing(stream), "no"); scratch_ = torch::empty({n}, CUDA);'),
    (
        "after a check that streams its message",
        'CHECK(!isCapturing(stream)) << "no"; scratch_ = torch::empty({n}, CUDA);',
    ),
    (
        "after a check that compares",
        """
        cudaStreamCaptureStatus status;
        cudaStreamIsCapturing(stream, &status);
        ENGINE_CHECK_EQ(status, cudaStreamCaptureStatusNone);
        scratch_ = torch::empty({n}, CUDA);
        """,
    ),
    (
        "after an assertion on a status",
        """
        auto& slot = slots_[stream];
        if (not slot.block.defined()) {
          HOST_ASSERT(c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None);
          slot.block = torch::zeros({n}, CUDA);
        }
        """,
    ),
    (
        "after a query that failed or found a capture throws",
        """
        cudaStreamCaptureStatus capture{};
        if (cudaStreamIsCapturing(stream, &capture) != cudaSuccess || capture != cudaStreamCaptureStatusNone)
          throw std::runtime_error("prepare first");
        scratch_ = torch::empty({n}, CUDA);
        """,
    ),
    (
        "a test elsewhere in the function",
        """
        if (isCapturing(stream)) { in_capture_ = true; }
        scratch_ = torch::empty({n}, CUDA);
        """,
    ),
    (
        "a test that only writes a line",
        """
        bool const capturing = isCapturing(stream);
        if (capturing) { LOG_DEBUG("capturing"); } else { LOG_DEBUG("eager"); }
        if (!scratch_.defined()) { scratch_ = torch::empty({n}, CUDA); }
        """,
    ),
    (
        "a local",
        "if (isCapturing(stream)) { auto block = torch::empty({n}, CUDA); launch(block.data_ptr()); return block; }",
    ),
    (
        "a local map",
        """
        std::map<int, at::Tensor> local;
        if (isCapturing(stream)) { local[0] = torch::empty({n}, CUDA); launch(local[0]); }
        """,
    ),
    (
        "a local copy of what is kept",
        """
        auto block = scratch_;
        if (isCapturing(stream)) { block = torch::empty({n}, CUDA); }
        launch(block.data_ptr(), stream);
        """,
    ),
    (
        "kept only without a capture",
        """
        auto block = torch::empty({n}, CUDA);
        if (!isCapturing(stream)) { blocks_[n] = block; }
        return block;
        """,
    ),
    (
        "not cached while capturing",
        """
        if (isCapturing(stream)) return torch::empty({n}, CUDA);
        if (!scratch_.defined()) scratch_ = torch::empty({n}, CUDA);
        return scratch_;
        """,
    ),
    ("a flag that is no state of a stream", "if (in_capture_) { scratch_ = torch::empty({n}, CUDA); }"),
    (
        "memory of the host",
        "if (isCapturing(stream)) { scratch_ = torch::empty({n}, torch::dtype(torch::kInt8).pinned_memory(true)); }",
    ),
    (
        "memory of the host by a local",
        """
        auto opts = torch::TensorOptions().device(torch::kCPU);
        if (isCapturing(stream)) { scratch_ = torch::empty({n}, opts); }
        """,
    ),
    ("a container's own empty()", "if (isCapturing(stream)) { in_capture_ = blocks_.empty(); }"),
    (
        "another tensor's address",
        "if (isCapturing(stream)) { auto block = torch::empty({n}, CUDA); raw_ = nullptr; use(block.data_ptr()); }",
    ),
    (
        "in a pool of its own",
        """
        if (isCapturing(stream)) {
          c10::cuda::MemPoolContext context(keep_pool_.get());
          scratch_ = torch::empty({n}, CUDA);
        }
        """,
    ),
    (
        "the outputs of a capture",
        """
        at::cuda::CUDAGraph graph;
        graph.capture_begin();
        scratch_ = torch::empty({n}, CUDA);
        graph.capture_end();
        """,
    ),
    (
        "after the capture",
        """
        at::cuda::CUDAGraph graph;
        graph.capture_begin();
        launch(stream);
        graph.capture_end();
        if (!scratch_.defined()) { scratch_ = torch::empty({n}, CUDA); }
        """,
    ),
    ("in a comment", "// if (isCapturing(stream)) { scratch_ = torch::empty({n}, CUDA); }\n    return scratch_;"),
    ("in a string", 'log("if (isCapturing(stream)) { scratch_ = torch::empty({n}); }");'),
    (
        "a status that failed",
        """
        cudaStreamCaptureStatus status;
        cudaStreamIsCapturing(stream, &status);
        if (status == cudaStreamCaptureStatusInvalidated) { scratch_ = torch::empty({n}, CUDA); }
        """,
    ),
    (
        "a condition that excludes a capture on the inside",
        """
        bool const capturing = isCapturing(stream);
        if (capturing || scratch_.numel() < n) {
          if (!capturing) { scratch_ = torch::empty({n}, CUDA); launch(capturing); }
        }
        """,
    ),
    (
        "refused by a throwing call",
        'if (isCapturing(stream)) { TLLM_THROW("no"); } scratch_ = torch::empty({n}, CUDA);',
    ),
    ("refused by a fatal line", 'if (isCapturing(stream)) { LOG(FATAL) << "no"; } scratch_ = torch::empty({n}, CUDA);'),
    (
        "refused by a check with a message",
        'TLLM_CHECK_WITH_INFO(!isCapturing(stream), "no"); scratch_ = torch::empty({n}, CUDA);',
    ),
    ("refused by assert", "assert(!isCapturing(stream)); scratch_ = torch::empty({n}, CUDA);"),
    (
        "served from a reserve, checked",
        """
        if (isCapturing(stream)) {
          TORCH_CHECK(spare_.numel() >= n, "warm up first");
          scratch_ = spare_;
          return scratch_;
        }
        scratch_ = torch::empty({n}, CUDA);
        """,
    ),
    (
        "an early return under a further condition",
        "if (isCapturing(stream) && !in_capture_) { return spare_; } scratch_ = torch::empty({n}, CUDA);",
    ),
    ("a choice that is not kept", "return isCapturing(stream) ? torch::empty({n}, CUDA) : scratch_;"),
    ("a phase of another object", "if (graph_.isCapturing()) { scratch_ = torch::empty({n}, CUDA); }"),
    ("a phase of this object", "if (isCapturing()) { scratch_ = torch::empty({n}, CUDA); }"),
    (
        "an empty tensor of the host",
        "if (isCapturing(stream)) { scratch_ = at::empty({0}, input.options().device(at::kCPU)); }",
    ),
    (
        "a pointer to memory of others",
        "if (isCapturing(stream)) { scratch_ = torch::from_blob(raw_, {n}, CUDA); }",
    ),
    (
        "a kernel's argument",
        "if (isCapturing(stream)) { auto t = torch::empty({n}, CUDA); params.scratch = t.data_ptr(); launch(params); }",
    ),
]


def _program(body: str) -> str:
    lines = body.replace("CUDA)", f"{CUDA})").splitlines() or [""]
    return CLASS.replace("BODY", "\n".join(lines))


@pytest.mark.parametrize(("name", "body"), FOUND, ids=ids(FOUND))
def test_found(name: str, body: str) -> None:
    files = as_files(_program(body))
    assert marked(files), name
    assert reported(files) == marked(files)


@pytest.mark.parametrize(("name", "body"), SILENT, ids=ids(SILENT))
def test_silent(name: str, body: str) -> None:
    files = as_files(_program(body))
    assert {place for place in reported(files) if place.rule == "kept-under-capture"} == set(), name


RENAMED = {
    "scratch": "zeta",
    "blocks": "omega",
    "slot": "kappa",
    "Slot": "Kappa",
    "Runner": "Qux",
    "step": "frob",
    "spare": "rho",
    "held": "tau",
    r"\bstatus\b": "psi",
    r"\bcapturing\b": "chi",
    r"\bactive\b": "phi",
    r"\bbusy\b": "mu",
}


@pytest.mark.parametrize(("name", "body"), FOUND, ids=ids(FOUND))
def test_names_do_not_matter(name: str, body: str) -> None:
    program = _program(body)
    for before, after in RENAMED.items():
        program = re.sub(before, after, program)
    files = as_files(program)
    assert reported(files) == marked(files), name
