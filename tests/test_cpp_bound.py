"""The border: what Python calls, which C++ that is, and what it does to workspaces; suppression; the vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest
from cpp_cases import analysis, as_files, sources

from graphlint import cpp, declarations
from graphlint.cpp import vocabulary
from graphlint.cpp.pragmas import pragmas
from graphlint.declarations import DeclarationError
from graphlint.effects import Effect
from graphlint.source import Source, Span

RUNNER = """
namespace engine {
class Runner : public torch::CustomClassHolder {
 public:
  at::Tensor step(at::Tensor x, int64_t n) {
    auto stream = at::cuda::getCurrentCUDAStream();
    return block(n, stream);
  }
  void clear() { blocks_.clear(); }
  int64_t size() const { return blocks_.size(); }
 private:
  at::Tensor block(int64_t n, cudaStream_t stream) {
    auto& slot = blocks_[stream];
    if (isCapturing(stream) || slot.numel() < n) {
      slot = torch::empty({n}, torch::dtype(torch::kInt8).device(torch::kCUDA));
    }
    return slot;
  }
  std::map<cudaStream_t, at::Tensor> blocks_;
};

static std::map<cudaStream_t, at::Tensor> shared;
at::Tensor fused(at::Tensor x, cudaStream_t stream) {
  if (isCapturing(stream)) { shared[stream] = torch::empty_like(x); }
  return shared[stream];
}
void drop_all() { shared.clear(); }
at::Tensor plain(at::Tensor x) { return torch::empty_like(x); }
}  // namespace engine
"""

BINDINGS = [
    (
        "a class in a library",
        """
        TORCH_LIBRARY(eng, m) {
          m.class_<engine::Runner>("FusedRunner")
              .def(torch::init<>())
              .def("run", &engine::Runner::step)
              .def("num", &engine::Runner::size)
              .def("clear_blocks", &engine::Runner::clear);
        }
        """,
        {
            ("torch.classes.eng.FusedRunner.run", "ws_alloc", ("torch.classes.eng.FusedRunner.clear_blocks",)),
            ("torch.classes.eng.FusedRunner.clear_blocks", "ws_release", ()),
        },
    ),
    (
        "a class by itself",
        """
        static auto registered = torch::class_<engine::Runner>("eng", "Runner")
            .def("run", &engine::Runner::step)
            .def("clear", [](c10::intrusive_ptr<engine::Runner> const& self) { self->clear(); });
        """,
        {
            ("torch.classes.eng.Runner.run", "ws_alloc", ("torch.classes.eng.Runner.clear",)),
            ("torch.classes.eng.Runner.clear", "ws_release", ()),
        },
    ),
    (
        "functions of a library",
        """
        TORCH_LIBRARY_FRAGMENT(eng, m) {
          m.def("fused(Tensor x) -> Tensor", &engine::fused);
          m.def("drop_all", engine::drop_all);
          m.def("plain(Tensor x) -> Tensor", &engine::plain);
        }
        """,
        {
            ("torch.ops.eng.fused", "ws_alloc", ("torch.ops.eng.drop_all",)),
            ("torch.ops.eng.drop_all", "ws_release", ()),
        },
    ),
    (
        "a schema here, the function there",
        """
        TORCH_LIBRARY(eng, m) { m.def("fused(Tensor x) -> Tensor"); m.def("drop_all() -> ()"); }
        TORCH_LIBRARY_IMPL(eng, CUDA, m) {
          m.impl("fused", TORCH_FN(engine::fused));
          m.impl("drop_all", torch::dispatch(c10::DispatchKey::CUDA, TORCH_FN(engine::drop_all)));
        }
        """,
        {
            ("torch.ops.eng.fused", "ws_alloc", ("torch.ops.eng.drop_all",)),
            ("torch.ops.eng.drop_all", "ws_release", ()),
        },
    ),
    (
        "a library whose name the build gives",
        """
        TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
          ops.def("fused(Tensor x) -> Tensor");
          ops.impl("fused", torch::kCUDA, &engine::fused);
        }
        """,
        {("torch.ops.?.fused", "ws_alloc", ())},
    ),
    (
        "a module of pybind11",
        """
        PYBIND11_MODULE(_engine, m) {
          m.def("fused", &engine::fused, "doc", py::arg("x"));
          py::class_<engine::Runner, std::shared_ptr<engine::Runner>>(m, "Runner")
              .def(py::init<>())
              .def("run", &engine::Runner::step, py::call_guard<py::gil_scoped_release>())
              .def("clear", &engine::Runner::clear);
        }
        """,
        {
            ("_engine.fused", "ws_alloc", ()),
            ("_engine.Runner.run", "ws_alloc", ("_engine.Runner.clear",)),
            ("_engine.Runner.clear", "ws_release", ()),
        },
    ),
    (
        "a class under a name of its own",
        """
        PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
          auto cls = py::class_<engine::Runner>(m, "Runner");
          cls.def("run", [](engine::Runner& self, at::Tensor x, int64_t n) { return self.step(x, n); });
          cls.def("clear", &engine::Runner::clear);
        }
        """,
        {("?.Runner.run", "ws_alloc", ("?.Runner.clear",)), ("?.Runner.clear", "ws_release", ())},
    ),
    (
        "a function that clears an object it is given",
        """
        PYBIND11_MODULE(_engine, m) {
          py::class_<engine::Runner>(m, "Runner").def("run", &engine::Runner::step);
          m.def("clear", [](engine::Runner& runner) { runner.clear(); });
        }
        """,
        {("_engine.Runner.run", "ws_alloc", ("_engine.clear",)), ("_engine.clear", "ws_release", ())},
    ),
    ("nothing bound", "", set()),
    ("something else bound", 'TORCH_LIBRARY(eng, m) { m.def("plain", &engine::plain); }', set()),
]


@pytest.mark.parametrize(("name", "block", "expected"), BINDINGS, ids=[name for name, _, _ in BINDINGS])
def test_what_python_calls(name: str, block: str, expected: set[tuple[str, str, tuple[str, ...]]]) -> None:
    found = cpp.bound_effects(analysis({"engine.cpp": RUNNER, "bindings.cpp": f"#include <engine.h>\n{block}"}))
    assert {(one.call, one.does.value, one.released_by) for one in found} == expected, name


def bound(call: str, files: dict[str, str]) -> cpp.BoundEffect:
    return next(one for one in cpp.bound_effects(analysis(files)) if one.call == call)


def test_the_witness_leads_from_the_binding_to_the_allocation() -> None:
    files = {"engine.cpp": RUNNER, "bindings.cpp": BINDINGS[0][1]}
    effect = bound("torch.classes.eng.FusedRunner.run", files)
    texts = sources(files)
    assert [(step.path, texts[step.path].row(step.span.start), step.effect) for step in effect.trace] == [
        ("bindings.cpp", 5, "ws_alloc"),
        ("engine.cpp", 7, "call"),
        ("engine.cpp", 14, "is_capturing"),
        ("engine.cpp", 15, "ws_alloc"),
    ]
    assert texts["engine.cpp"].text(effect.span).startswith("torch::empty(")


def test_it_says_what_a_vocabulary_would() -> None:
    files = {"engine.cpp": RUNNER, "bindings.cpp": BINDINGS[0][1]}
    method = bound("torch.classes.eng.FusedRunner.run", files).entry()
    assert (method.name, method.does, method.while_capturing) == (
        "torch.classes.eng.FusedRunner.run",
        Effect.WS_ALLOC,
        True,
    )
    assert (method.of, method.store, method.scope) == ("self", "self", "instance")
    assert method.released_by == "torch.classes.eng.FusedRunner.clear_blocks"
    function = bound("torch.ops.eng.fused", {"engine.cpp": RUNNER, "bindings.cpp": BINDINGS[2][1]}).entry()
    assert (function.of, function.store, function.scope) == ("process", "torch.ops.eng.shared", "process")


def test_a_function_releases_what_it_is_given() -> None:
    name, block, _ = next(one for one in BINDINGS if one[0] == "a function that clears an object it is given")
    entry = bound("_engine.clear", {"engine.cpp": RUNNER, "bindings.cpp": block}).entry()
    assert (entry.does, entry.of) == (Effect.WS_RELEASE, "arg0"), name


def test_a_reserve_path_has_no_effect() -> None:
    program = RUNNER.replace(
        "if (isCapturing(stream) || slot.numel() < n) {", "if (!isCapturing(stream) && slot.numel() < n) {"
    )
    assert cpp.bound_effects(analysis({"engine.cpp": program, "bindings.cpp": BINDINGS[0][1]})) == ()


# ---------------------------------------------------------------------------------------------------------- suppression


IGNORE = "// graphlint: ignore[some-rule] why"

SILENT = [
    ("on its line", "void f() {\n  g(1); IGNORE\n}\n", "g(1)"),
    ("above it", "void f() {\n  IGNORE\n  g(1);\n}\n", "g(1)"),
    ("above it, in a block", "void f() {\n  /* graphlint: ignore[some-rule]\n     why */\n  g(1);\n}\n", "g(1)"),
    ("on another line of the statement", "void f() {\n  x = h(\n    g(1)); IGNORE\n}\n", "x = h"),
    ("at the header, for what is in it", "void f() {\n  if (g(1)) { IGNORE\n  }\n}\n", "g(1)"),
    ("in a lambda", "void f() {\n  run([&] {\n    g(1); IGNORE\n  });\n}\n", "g(1)"),
    ("at the end of a lambda's statement", "void f() {\n  run([&] {\n    g(1);\n  }); IGNORE\n}\n", "g(1)"),
    ("with an initializer", "void f() {\n  T x{1,\n    g(1)}; IGNORE\n}\n", "T x"),
    ("in a for", "void f() {\n  for (i = 0; i < g(1); ++i) { IGNORE\n  }\n}\n", "g(1)"),
    ("after a directive", "#define A 1\nIGNORE\nint g(1);\n", "int g"),
]
HEARD = [
    ("after the statement before", "void f() {\n  h(); IGNORE\n  g(1);\n}\n", "g(1)"),
    ("with a blank line between", "void f() {\n  IGNORE\n\n  g(1);\n}\n", "g(1)"),
    ("at the header", "void f() {\n  if (a) { IGNORE\n    g(1);\n  }\n}\n", "g(1)"),
    ("at the function", "IGNORE\nvoid f() {\n  g(1);\n}\n", "g(1)"),
    ("in a string", 'void f() {\n  g(1); h("IGNORE");\n}\n', "g(1)"),
    ("in a raw string", 'void f() {\n  g(1); h(R"x(\nIGNORE\n)x"); g(2);\n}\n', "g(2)"),
    ("in a class", "class A {\n  int n = 0; IGNORE\n  int m = 0;\n};\n", "int m"),
]


def silencing(text: str, at: str) -> list[tuple[str, ...]]:
    """The rules of the comments that are meant where `at` begins."""
    text = text.replace("IGNORE", IGNORE)
    start = text.index(at)
    found = pragmas(Source("program.cpp", text.encode()))
    return [one.rules for one in found if one.silences(Span(start, start + len(at)))]


@pytest.mark.parametrize(("name", "text", "at"), SILENT, ids=[one[0] for one in SILENT])
def test_a_comment_silences_its_statement(name: str, text: str, at: str) -> None:
    assert silencing(text, at) == [("some-rule",)], name


@pytest.mark.parametrize(("name", "text", "at"), HEARD, ids=[one[0] for one in HEARD])
def test_a_comment_silences_nothing_else(name: str, text: str, at: str) -> None:
    assert silencing(text, at) == [], name


@pytest.mark.parametrize(
    ("comment", "error"),
    [
        ("// graphlint: ignore", "the rule that it ignores is missing"),
        ("// graphlint: ignore[]", "the rule that it ignores is missing"),
        ("// graphlint: disable[some-rule]", "'disable' means nothing here"),
    ],
)
def test_a_wrong_comment_says_why(comment: str, error: str) -> None:
    (pragma,) = pragmas(Source("program.cpp", f"void f() {{\n  g(); {comment}\n}}\n".encode()))
    assert pragma.error is not None
    assert error in pragma.error
    assert pragma.row == 2


def test_a_comment_at_no_statement_says_so() -> None:
    (pragma,) = pragmas(Source("program.cpp", b"void f() {\n  g();\n}\n// graphlint: ignore[some-rule]\n"))
    assert pragma.error is not None


def test_several_rules_in_one_comment() -> None:
    (pragma,) = pragmas(Source("program.cpp", b"int x; // graphlint: ignore[one-rule, other-rule] why\n"))
    assert pragma.rules == ("one-rule", "other-rule")


# ----------------------------------------------------------------------------------------------------------- vocabulary


def vocabulary_text() -> str:
    return (Path(vocabulary.__file__).parent.parent / "vocabularies" / "cpp.toml").read_text()


def parsed(text: str) -> vocabulary.Vocabulary:
    return vocabulary.parse(declarations.parse(text.encode(), "cpp.toml"))


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ('does = "is_capturing"', 'does = "is_capturin"', "is_capturin"),
        ('gives = "flag"', 'gives = "truth"', "'gives' must be one of result, flag, status"),
        ('gives = "status:1"', 'gives = "status:one"', "'gives' must be one of result, flag, status"),
        ('of = "self"', 'of = "me"', "'of' must be self, process or argN"),
        ("once = true", 'once = "yes"', "once"),
        ('of = "self"', 'off = "self"', "unknown key 'off'"),
        ("[status]\nnone =", "[status]\nnil =", "nil"),
    ],
)
def test_a_wrong_vocabulary_says_where(before: str, after: str, error: str) -> None:
    text = vocabulary_text()
    assert before in text
    with pytest.raises(DeclarationError, match=error) as caught:
        parsed(text.replace(before, after, 1))
    row = text[: text.index(before)].count("\n") + 1
    assert row <= caught.value.row <= row + 1


def entries(call: str, receiver: str) -> list[Effect]:
    """What a call does; a method's begins with a dot."""
    is_method = call.startswith(".")
    return [
        one.does for one in vocabulary.load().entries(call.removeprefix("."), is_method=is_method, receiver=receiver)
    ]


@pytest.mark.parametrize(
    ("call", "receiver", "does"),
    [
        ("c10::cuda::CUDACachingAllocator::emptyCache", "", Effect.ERASE),
        (".emptyCache", "auto", Effect.ERASE),
        ("::torch::empty", "", Effect.WS_ALLOC),
        (".reset", "std::unique_ptr<at::cuda::CUDAGraph>", Effect.GRAPH_DEATH),
        ("engine::isCapturing", "", Effect.IS_CAPTURING),
    ],
)
def test_names_match_by_their_end(call: str, receiver: str, does: Effect) -> None:
    assert entries(call, receiver) == [does]


@pytest.mark.parametrize(
    ("call", "receiver"),
    [
        ("std::empty", ""),
        (".empty", "std::vector<int>"),
        ("resize_", ""),
        (".reset", "std::unique_ptr<MyCUDAGraphs>"),
        ("myisCapturing", ""),
    ],
)
def test_other_names_do_not(call: str, receiver: str) -> None:
    assert entries(call, receiver) == []


def test_every_token_finds_its_file() -> None:
    for piece, group in vocabulary.load().tokens.items():
        for front, back in group.sides:
            assert cpp.wanted(b"x " + front + piece + back)


def test_as_files_gives_one_file_a_name() -> None:
    assert as_files("int x;") == {"program.cpp": "int x;"}
