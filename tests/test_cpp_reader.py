"""Reading C++ and CUDA: nothing in a file makes the reader fail, and what cannot be read is counted."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cpp_cases import analysis, reported, suspects
from hypothesis import given
from hypothesis import strategies as st

from graphlint import cpp
from graphlint.cpp import blank, reader
from graphlint.cpp.facts import Function
from graphlint.effects import Lifetime
from graphlint.flow import Alt, Bind, Call, Drop, Eval, Exit, Flow, Func, Lit, Name, Op, Seq, Star, Try, children
from graphlint.source import Source, Span

PROGRAM = b"""\
#include <torch/torch.h>
namespace a::b {
enum class Mode { kOne, kTwo };
template <typename T> __global__ void kernel(T* __restrict__ p, int n) { if (n > 0) p[threadIdx.x] = T(1); }
struct Base { at::Tensor inherited; };
class Runner final : public Base {
 public:
  Runner(int n, cudaStream_t s) : n_(n), stream_{s} { grow(n); }
  ~Runner() { cudaFree(raw_); delete graph_; }
  static Runner& instance() { static Runner one(1, nullptr); return one; }
  void grow(int n);
 private:
  int n_ = 0;
  cudaStream_t stream_;
  void* raw_ = nullptr;
  at::cuda::CUDAGraph* graph_ = nullptr;
  std::map<cudaStream_t, at::Tensor> blocks_;
  static int count_;
};
void Runner::grow(int n) {
  kernel<float><<<dim3(n), 256, /*shared=*/0, stream_>>>(nullptr, n);
#ifdef USE_ROCM
  if (isCapturing(stream_)) {
#else
  if (isCapturing(stream_) && n > 1) {
#endif
    blocks_[stream_] = torch::empty({n}, torch::kCUDA);
  }
  for (auto& [key, block] : blocks_) { if (!block.defined()) continue; block.zero_(); }
  auto later = [this, n](int more) mutable { return n_ + n + more; };
  try { later(1); } catch (std::exception const& e) { throw; } catch (...) { }
  do { --n; } while (n > 0);
  switch (n) { case 0: grow(1); break; case 1: default: return; }
}
}  // namespace a::b
int b::Runner::count_ = 0;
static at::Tensor shared_block;
TORCH_LIBRARY(engine, m) { m.def("grow(int n) -> ()", [](int64_t n) { a::b::Runner::instance().grow(n); }); }
"""


def read(content: bytes | str) -> cpp.CppFacts:
    return cpp.read(Source("program.cu", content if isinstance(content, bytes) else content.encode()))


def function(facts: cpp.CppFacts, name: str) -> Function:
    return next(one for one in facts.functions if one.name == name)


def flows(flow: Flow) -> list[Flow]:
    return [flow, *(inner for child in children(flow) for inner in flows(child))]


def test_functions_have_their_names_and_classes() -> None:
    found = {(one.name, one.owner) for one in read(PROGRAM).functions if not one.name.startswith("lambda")}
    assert found == {
        ("a::b::Runner::Runner", "a::b::Runner"),
        ("a::b::Runner::~Runner", "a::b::Runner"),
        ("a::b::Runner::instance", "a::b::Runner"),
        ("a::b::Runner::grow", "a::b::Runner"),
    }


def test_a_kernel_is_left_alone() -> None:
    assert not [one for one in read(PROGRAM).functions if one.simple == "kernel"]
    assert read("__host__ __device__ int both(int n) { return n; }").functions


def test_members_have_types_and_lifetimes() -> None:
    (runner,) = [one for one in read(PROGRAM).records if one.name == "a::b::Runner"]
    members = {one.name: (one.type, one.lifetime) for one in runner.members}
    assert members["blocks_"] == ("std::map<cudaStream_t, at::Tensor>", Lifetime.INSTANCE)
    assert members["graph_"] == ("at::cuda::CUDAGraph*", Lifetime.INSTANCE)
    assert members["count_"][1] is Lifetime.CLASS
    assert runner.bases == ("Base",)


def test_variables_of_a_namespace_are_found() -> None:
    (variable,) = read(PROGRAM).variables
    assert (variable.name, variable.type, variable.lifetime) == ("shared_block", "static at::Tensor", Lifetime.MODULE)


def test_spans_are_those_of_the_file() -> None:
    grow = function(read(PROGRAM), "a::b::Runner::grow")
    text = PROGRAM[grow.span.start : grow.span.end]
    assert text.startswith(b"void Runner::grow(int n) {")
    assert text.endswith(b"}")


def test_both_branches_of_a_directive_are_read() -> None:
    conditions = [
        PROGRAM[flow.test.span.start : flow.test.span.end]
        for one in read(PROGRAM).functions
        if one.simple == "grow"
        for flow in flows(one.flow)
        if isinstance(flow, Alt)
    ]
    assert b"(isCapturing(stream_))" in conditions or b"isCapturing(stream_)" in conditions
    assert b"isCapturing(stream_) && n > 1" in conditions or b"(isCapturing(stream_) && n > 1)" in conditions


def test_statements_become_flows() -> None:
    grow = [one for one in read(PROGRAM).functions if one.simple == "grow"][-1]
    kinds = {type(flow) for flow in flows(grow.flow)}
    assert {Alt, Bind, Eval, Exit, Seq, Star, Try} <= kinds
    destructor = function(read(PROGRAM), "a::b::Runner::~Runner")
    assert [flow for flow in flows(destructor.flow) if isinstance(flow, Drop)]


def test_a_lambda_is_a_function_of_its_own() -> None:
    facts = read("void f() { auto twice = [](int n) { return n + n; }; twice(2); }")
    (bind,) = [flow for flow in flows(function(facts, "f").flow) if isinstance(flow, Bind)]
    assert isinstance(bind.value, Func)
    assert function(facts, bind.value.id).parameters[0].name == "n"


def test_a_check_is_a_way_out() -> None:
    (alt,) = [
        flow
        for flow in flows(function(read('void f(int n) { TORCH_CHECK(n > 1, "no"); }'), "f").flow)
        if isinstance(flow, Alt)
    ]
    assert isinstance(alt.other, Exit)
    assert alt.other.kind == "raise"


def test_a_check_of_a_status_is_none() -> None:
    flow = function(read("void f() { C10_CUDA_CHECK(cudaFree(p)); }"), "f").flow
    assert not [one for one in flows(flow) if isinstance(one, Exit)]


def test_a_declaration_with_parentheses_makes_an_object() -> None:
    (bind,) = [
        one
        for one in flows(function(read("void f() { std::lock_guard<std::mutex> lock(mutex_); }"), "f").flow)
        if isinstance(one, Bind)
    ]
    assert bind.target == Name("lock", bind.target.span)
    assert isinstance(bind.value, Call)
    assert bind.value.args[0] == Name("mutex_", bind.value.args[0].span)
    assert isinstance(bind.annotation, Lit)
    assert bind.annotation.value == "std::lock_guard<std::mutex>"


def test_a_long_chain_is_flat() -> None:
    chain = " << ".join(["out", *(f"x{i}" for i in range(3000))])
    (flow,) = [one for one in flows(function(read(f"void f() {{ {chain}; }}"), "f").flow) if isinstance(one, Eval)]
    assert isinstance(flow.value, Op)
    assert len(flow.value.operands) == 3001


# ------------------------------------------------------------------------------------------------------------ bad input


HOSTILE = {
    "empty": b"",
    "not C++": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR isCapturing",
    "text": b"Dear all,\n\nisCapturing(stream) { is { not C++ ((\n",
    "not UTF-8": b"void f(cudaStream_t s) { /* \xff\xfe\xe9 */ if (isCapturing(s)) { x_ = torch::empty({1}); } }",
    "UTF-16": "void f() { isCapturing(s); }".encode("utf-16"),
    "a mark in front": b"\xef\xbb\xbfvoid f(cudaStream_t s) { isCapturing(s); }",
    "carriage returns": PROGRAM.replace(b"\n", b"\r\n"),
    "unclosed": b"namespace a { class B { void f() { if (isCapturing(s)) { x = torch::empty(",
    "unopened": b"}}}} ) isCapturing(s); } #endif",
    "an unclosed string": b'void f() { g("isCapturing( ); }\n',
    "an unclosed comment": b"void f() { isCapturing(s); /* ",
    "directives alone": b"#else\n#endif\n#if 1\n#elif\n#endif\n#if isCapturing\n",
    "deep parentheses": b"void f() { isCapturing(s); x = " + b"(" * 3000 + b"1" + b")" * 3000 + b"; }",
    "deep blocks": b"void f() { isCapturing(s); " + b"{" * 3000 + b"}" * 3000 + b" }",
    "deep conditions": b"void f() { isCapturing(s); " + b"if (a) {} else " * 2000 + b"{} }",
    "deep namespaces": b"".join(b"namespace n%d {" % i for i in range(2000))
    + b"void f() { isCapturing(s); }"
    + b"}" * 2000,
    "deep types": b"void f() { isCapturing(s); " + b"std::vector<" * 500 + b"int" + b">" * 500 + b" v; }",
    "deep calls": b"void f() { isCapturing(s); " + b"g(" * 2000 + b")" * 2000 + b"; }",
    "deep lambdas": b"void f() { isCapturing(s); " + b"[&] { " * 400 + b" } " * 400 + b"; }",
    "a table": b"static int table[] = {" + b"1, " * 200_000 + b"}; void f() { isCapturing(s); }",
    "half a launch": b"void f() { k<<<1, 2>>(x); k<<<g; isCapturing(s); }",
    "Objective-C": b"@interface A : B\n- (void)f; @end void f() { @autoreleasepool { [a b:^(){ isCapturing(s); }]; } }",
    "a linker script": b"SECTIONS { .text : { *(.text) } } /* isCapturing */",
    "assembly": b'void f() { asm volatile("{ .reg .b32 r; }" : "=r"(x) : "l"(p) : "memory"); isCapturing(s); }',
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_no_file_makes_it_fail(content: bytes) -> None:
    facts = cpp.read(Source("program.h", content))
    assert all(0 <= span.start <= span.end <= len(content) for span in facts.unread)
    of = cpp.Analysis([facts])
    assert list(suspects(of)) is not None
    cpp.bound_effects(of)


@pytest.mark.parametrize("name", ["not C++", "UTF-16", "unclosed", "text", "deep parentheses"])
def test_what_was_not_read_is_counted(name: str) -> None:
    assert cpp.read(Source("program.h", HOSTILE[name])).unread


def test_what_was_read_is_not_counted() -> None:
    assert read(PROGRAM).unread == ()


def test_a_large_file_is_counted_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LARGEST", 10)
    assert read(b"void f() { isCapturing(s); }").unread == (Span(0, 28),)


def test_what_stands_around_an_error_is_read() -> None:
    program = """
        class R {
          void broken() { @@@ ??? }
          void step(int64_t n, cudaStream_t s) { if (isCapturing(s)) { kept_ = torch::empty({n}, torch::kCUDA); } }
          at::Tensor kept_;
        };
        """
    assert {place.row for place in reported({"program.cpp": program})} == {4}


@given(
    st.integers(0, len(PROGRAM)),
    st.integers(0, 200),
    st.sampled_from([b"", b"{", b"}", b"(", b"#else\n", b"<<<", b'"', b"\0", b"\xff"]),
)
def test_no_change_makes_it_fail(at: int, length: int, put: bytes) -> None:
    content = PROGRAM[:at] + put + PROGRAM[at + length :]
    facts = cpp.read(Source("program.cu", content))
    assert all(0 <= one.span.start <= one.span.end <= len(content) for one in facts.functions)
    of = cpp.Analysis([facts])
    assert len(list(suspects(of))) < 10
    cpp.bound_effects(of)


@given(st.lists(st.sampled_from([*b"ab<>(){};#\n\r\"' _A", 0xFF]), max_size=60).map(bytes))
def test_blanking_keeps_every_position(content: bytes) -> None:
    for one in (blank.prepared(content), *blank.branches(content)):
        assert len(one) == len(content)
        assert [i for i, c in enumerate(one) if c in b"\r\n"] == [i for i, c in enumerate(content) if c in b"\r\n"]


def test_blanking_takes_what_only_decorates() -> None:
    text = (
        b"class ENGINE_API Runner { __device__ void f(); };\n__global__ void __launch_bounds__(256) k();k<<<1, 2>>>(x);"
    )
    assert blank.prepared(text).split() == b"class Runner { void f(); }; void k();k (x);".split()


# ------------------------------------------------------------------------------------------------------------ the sieve


@pytest.mark.parametrize(
    "content",
    [
        b"isCapturing(s)",
        b"x.resize_({n})",
        b"p->resize_({n})",
        b"TORCH_LIBRARY(a, m)",
        b"torch::empty({n})",
        b"CUDAGraph g;",
    ],
)
def test_a_file_with_a_name_of_the_vocabulary_is_wanted(content: bytes) -> None:
    assert cpp.wanted(b"int x;\n" + content)


@pytest.mark.parametrize(
    "content", [b"", b"int main() { v.resize(3); v.empty(); v.reset(); }", b"at::Tensor x; graph.reset();"]
)
def test_a_file_without_is_not(content: bytes) -> None:
    assert not cpp.wanted(content)


def test_importing_the_package_does_not_import_the_grammar() -> None:
    program = "import sys, graphlint.cpp; print('tree_sitter' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_missing_grammar_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    reader._parser.cache_clear()
    monkeypatch.setitem(sys.modules, "tree_sitter_cpp", None)
    try:
        with pytest.raises(cpp.MissingGrammarError, match=r"cudagraph-lint\[cpp\]"):
            read("int x;")
    finally:
        reader._parser.cache_clear()


def test_two_files_of_one_path_are_no_trouble() -> None:
    of = analysis(
        {
            "a.h": "inline void f(cudaStream_t s) { isCapturing(s); }",
            "b.h": "inline void f(cudaStream_t s) { isCapturing(s); }",
        }
    )
    assert list(suspects(of)) == []
