"""What `graphlint flow` and `graphlint why` show of each kind of statement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from graphlint import check, explain, registry
from graphlint.check import Inputs
from graphlint.config import Settings
from graphlint.explain import UnknownFunctionError, UnknownRowError

RUNNER = """\
import contextlib

import torch


class Runner:
    def __init__(self):
        self.graphs = {}
        self.pool = None
        self.first = torch.cuda.CUDAGraph()

    @contextlib.contextmanager
    def capturing(self, size):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool):
                yield graph
        except RuntimeError:
            graph.reset()
            raise
        finally:
            self.pool = graph.pool()
        self.graphs[size] = graph

    def capture(self, size, model):
        if size in self.graphs:
            return
        with self.capturing(size):
            model(size)

    def clear(self):
        for graph in self.graphs.values():
            graph.reset()
        for one in (self.first, None):
            if one is not None:
                one.reset()
        self.graphs.clear()
        torch.cuda.empty_cache()
"""
CPP_CASE = Path(__file__).parent.parent / "fixtures" / "pool-order" / "cpp-binding" / "bad"


@pytest.fixture
def runner(tmp_path: Path) -> Inputs:
    (tmp_path / "runner.py").write_text(RUNNER)
    return inputs(tmp_path)


def inputs(folder: Path) -> Inputs:
    return check.read((str(folder),), Settings(root=str(folder), src=(".",)), {}, whole=True)


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (
            "capturing",
            """\
   15    try
   16        erase  process  (entry of the capture)
   16        capture  graph
   17        yield
   16        capture_end  graph
   18    except
   19        graph_death  graph
   20        raise
         finally
   22        pool_store  self.pool
   23    add  self.graphs
""",
        ),
        (
            "capture",
            """\
   26    if ?
   27        return
   28    call runner.Runner.capturing
         within
    unresolved: model
""",
        ),
        (
            "clear",
            """\
   32    loop over self.graphs
   33        graph_death  self.graphs[...]
   34    item 1
   35        if self.first is not None
   36            graph_death  self.first
""",
        ),
    ],
)
def test_flow_shows_effects_in_order(runner: Inputs, function: str, shown: str) -> None:
    assert shown in explain.flow(runner, f"Runner.{function}")


def test_flow_of_an_unknown_function_suggests_a_near_name(runner: Inputs) -> None:
    with pytest.raises(UnknownFunctionError, match="did you mean 'capture'"):
        explain.flow(runner, "captur")


def test_flow_shows_what_bound_cpp_does() -> None:
    assert "ws_release  Experts.layers[...]" in explain.flow(inputs(CPP_CASE), "Experts.release_all")
    assert "ws_alloc  Experts.layers" in explain.flow(inputs(CPP_CASE), "GraphRunner.forward")


def test_why_shows_findings_effects_and_what_a_place_holds(runner: Inputs) -> None:
    (path,) = runner.selection.report
    assert explain.why(runner, registry.rules(), path, 33).splitlines()[1:] == [
        "effect: graph_death self.graphs[...]",
        "runner.Runner.graphs holds: graph",
    ]
    assert "nothing on this line has an effect" in explain.why(runner, registry.rules(), path, 7)
    joined = inputs(CPP_CASE)
    path = next(path for path in joined.selection.report if path.endswith(".py"))
    text = (CPP_CASE / "engine.py").read_text()
    row = 1 + text.count("\n", 0, text.index("# hazard: pool-order"))
    assert "\nfinding: pool-order: " in explain.why(joined, registry.rules(), path, row)


def test_flow_suggests_a_name_that_can_be_asked_for(runner: Inputs) -> None:
    with pytest.raises(UnknownFunctionError, match=r"did you mean 'Runner\.capture'"):
        explain.flow(runner, "Engine.capture")


@pytest.mark.parametrize("row", [0, 99])
def test_why_knows_the_rows_of_a_file(runner: Inputs, row: int) -> None:
    (path,) = runner.selection.report
    with pytest.raises(UnknownRowError, match=f"has 38 lines, and none is {row}"):
        explain.why(runner, registry.rules(), path, row)
    assert "self.graphs.clear()" in explain.why(runner, registry.rules(), path, 37)


TWICE = """\
import torch


class Runner:
    def __init__(self):
        self.graph = None

    def capture(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            torch.ones(8, device="cuda")

    def clear(self):
        self.graph.reset()
        self.graph.reset(){comment}
"""


@pytest.mark.parametrize(
    ("comment", "settings", "names", "said"),
    [
        ("", Settings(), (), "finding: duplicate-release: "),
        (
            "  # graphlint: ignore[duplicate-release] it may",
            Settings(),
            (),
            "not reported, silenced by the comment in row 15: duplicate-release: ",
        ),
        (
            "",
            Settings(per_file_ignores=(("twice.py", ("teardown",)),)),
            (),
            "not reported, silenced by per-file-ignores, 'twice.py': duplicate-release: ",
        ),
        ("", Settings(), ("pool-order",), "not reported, the settings leave its rule out: duplicate-release: "),
    ],
)
def test_why_says_why_a_finding_is_not_reported(
    tmp_path: Path, comment: str, settings: Settings, names: tuple[str, ...], said: str
) -> None:
    path = tmp_path / "twice.py"
    path.write_text(TWICE.format(comment=comment))
    read = check.read((str(path),), replace(settings, root=str(tmp_path)), {}, whole=True)
    assert said in explain.why(read, registry.select(names), read.selection.report[0], 15)


@pytest.mark.parametrize("with_extra", [True, False])
def test_why_says_what_of_cpp_is_not_shown(*, with_extra: bool) -> None:
    pytest.importorskip("tree_sitter_cpp")
    read = inputs(CPP_CASE)
    assert read.native is not None
    path = next(iter(read.native.sources))
    if not with_extra:
        vars(read.native)["_read"] = None
    shown = explain.why(read, registry.rules(), path, 1)
    assert ("effects of C++ are not shown" if with_extra else "not read: install the extra") in shown
