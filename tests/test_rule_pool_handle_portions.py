"""A handle outlives its graphs where all of them die; where a few do, the others keep their pool in use."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from graphlint import check, fixing, registry
from graphlint.config import Settings
from graphlint.edits import Applicability
from graphlint.findings import Finding

RULE = "pool-handle"

RUNNER = """
from collections import OrderedDict

import torch

SIZES = (1, 2, 4)


class Runner:
    def __init__(self, model, sizes):
        self.model = model
        self.sizes = sizes
        self.graphs = OrderedDict()
        self.pool = torch.cuda.graph_pool_handle()

    def capture(self, n):
{before}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self.model(n)
        self.graphs[n] = graph
{after}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def find(method: str = "", before: str = "", after: str = "") -> Sequence[Finding]:
    text = RUNNER.format(before=textwrap.indent(before, " " * 8), after=textwrap.indent(after, " " * 8))
    Path("m.py").write_text(text + "\n" + textwrap.indent(textwrap.dedent(method).strip("\n"), "    ") + "\n")
    return check.check(["m.py"], Settings(), registry.select((RULE,))).findings


PARTIAL = [
    """
    def keep_only(self, n):
        kept = self.graphs.pop(n)
        for graph in self.graphs.values():
            graph.reset()
        self.graphs = {n: kept}
    """,
    """
    def drop_some(self, cold):
        for n in list(self.graphs):
            if n in cold:
                self.graphs.pop(n).reset()
    """,
    """
    def drop_others(self, kept):
        for n in list(self.graphs):
            if n not in kept:
                self.graphs.pop(n).reset()
    """,
    """
    def drop_empty(self):
        for n in [n for n, graph in self.graphs.items() if graph is None]:
            del self.graphs[n]
    """,
    """
    def drop_half(self):
        for i, n in enumerate(list(self.graphs)):
            if i % 2:
                self.graphs.pop(n).reset()
    """,
    """
    def drop_except(self, kept):
        for n in list(self.graphs):
            if n == kept:
                continue
            self.graphs.pop(n).reset()
    """,
    """
    def capture_again(self):
        for n in list(self.graphs):
            self.graphs[n].reset()
            self.capture(n)
    """,
    """
    def drop(self, n):
        graph = self.graphs.pop(n, None)
        if graph is not None:
            graph.reset()
    """,
    """
    def drop(self, n):
        self.graphs.pop(n).reset()
    """,
    """
    def drop(self, n):
        self.graphs[n].reset()
        del self.graphs[n]
    """,
    """
    def drop_large(self, limit):
        for n in list(self.graphs):
            if n > limit:
                del self.graphs[n]
    """,
    """
    def drop_cold(self):
        for n, graph in list(self.graphs.items()):
            if graph.uses == 0:
                graph.reset()
                self.graphs.pop(n)
    """,
    """
    def drop_cold(self):
        cold = [n for n in self.graphs if self.uses[n] == 0]
        for n in cold:
            self.graphs.pop(n).reset()
    """,
    """
    def drop_many(self, names):
        for n in names:
            self.graphs.pop(n).reset()
    """,
    """
    def shrink(self):
        while len(self.graphs) > 8:
            _, graph = self.graphs.popitem(last=False)
            graph.reset()
    """,
    """
    def drop_first(self):
        for graph in self.graphs.values():
            graph.reset()
            break
    """,
    """
    def drop(self, n):
        self.graphs[n] = None
    """,
    """
    def drop(self, n):
        if (graph := self.graphs.get(n)) is not None:
            graph.reset()
    """,
    """
    def keep_hot(self):
        self.graphs = {n: graph for n, graph in self.graphs.items() if self.uses[n] > 3}
    """,
    """
    def drop_cold(self):
        for graph in self.cold():
            graph.reset()

    def cold(self):
        return [graph for n, graph in self.graphs.items() if self.uses[n] == 0]
    """,
    """
    def drop_old(self):
        for n in list(self.graphs)[:-2]:
            del self.graphs[n]
    """,
    """
    def drop_others(self, kept):
        for n in set(self.graphs) - {kept}:
            self.graphs.pop(n).reset()
    """,
    """
    def drop_some(self):
        try:
            self.graphs.popitem(last=False)[1].reset()
        finally:
            self.uses = {}
    """,
    """
    def keep_last(self):
        for graph in list(self.graphs.values())[:-1]:
            graph.reset()
    """,
]

WHOLE = [
    """
    def clear(self):
        first = self.graphs.pop(1)
        first.reset()
        for graph in self.graphs.values():
            graph.reset()
        self.graphs = {}
    """,
    """
    def clear(self):
        for n in list(self.graphs):
            if self.graphs[n] is None:
                continue
            self.graphs[n].reset()
    """,
    """
    def clear(self):
        for n in self.sizes + list(self.graphs):
            pass
        for n in list(self.graphs):
            if n in self.graphs:
                self.graphs.pop(n).reset()
    """,
    """
    def clear(self):
        for graph in self.graphs.values():
            graph.reset()
    """,
    """
    def clear(self):
        for n in list(self.graphs):
            self.graphs[n].reset()
    """,
    """
    def clear(self):
        for n in list(self.graphs):
            self.drop(n)

    def drop(self, n):
        self.graphs.pop(n).reset()
    """,
    """
    def clear(self):
        while self.graphs:
            _, graph = self.graphs.popitem()
            graph.reset()
    """,
    """
    def clear(self):
        while len(self.graphs) > 0:
            self.graphs.popitem()
    """,
    """
    def clear(self):
        graphs = list(self.graphs.values())
        for graph in graphs:
            if graph is not None:
                graph.reset()
    """,
    """
    def clear(self):
        [graph.reset() for graph in self.graphs.values()]
    """,
    """
    def clear(self):
        self.graphs.clear()
    """,
    """
    def clear(self):
        self.graphs = {}
    """,
    """
    def clear(self):
        for n in sorted(self.graphs.keys(), reverse=True):
            del self.graphs[n]
    """,
]


@pytest.mark.parametrize("method", PARTIAL)
def test_a_few_graphs_die(method: str) -> None:
    assert not find(method)


@pytest.mark.parametrize("method", WHOLE)
def test_all_graphs_die(method: str) -> None:
    (found,) = find(method)
    assert found.fix is not None
    assert found.fix.applicability is Applicability.SAFE


@pytest.mark.parametrize("loop", ["for n in self.sizes:", "for n in SIZES:"])
def test_a_loop_that_names_them_all(loop: str) -> None:
    """Whether it does, the loop does not say."""
    (found,) = find(f"def clear(self):\n    {loop}\n        self.graphs[n].reset()")
    assert found.fix is not None
    assert found.fix.applicability is Applicability.UNSAFE
    assert "no graph" in found.fix.conditions[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "if len(self.graphs) > 32:\n    self.graphs.popitem(last=False)"),
        ("if n in self.graphs:\n    self.graphs.pop(n).reset()", ""),
        ("if len(self.graphs) == 8:\n    self.evict()", ""),
    ],
)
def test_a_capture_that_makes_room(before: str, after: str) -> None:
    method = """
    def evict(self):
        _, graph = self.graphs.popitem(last=False)
        graph.reset()

    def warm_up(self):
        for n in self.sizes:
            self.capture(n)
    """
    assert not find(method, before, after)


RUNNERS = """
import torch


class Runner:
    def __init__(self):
        self.graphs = {{}}

    def capture(self, n, pool):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            torch.ones(n, device="cuda")
        self.graphs[n] = graph

    def release(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()


class Server:
    def __init__(self):
        self.pool = torch.cuda.graph_pool_handle()
        self.runners = {{name: Runner() for name in ("draft", "target")}}

    def warm_up(self):
        for runner in self.runners.values():
            runner.capture(8, self.pool)

    def sleep(self):
        {release}
"""


@pytest.mark.parametrize(
    ("release", "count"),
    [
        ("for runner in self.runners.values(): runner.release()", 1),
        ('self.runners["draft"].release()', 0),
        ("next(iter(self.runners.values())).release()", 0),
    ],
)
def test_graphs_of_one_runner_of_several(release: str, count: int) -> None:
    Path("m.py").write_text(RUNNERS.format(release=release))
    assert len(check.check(["m.py"], Settings(), registry.select((RULE,))).findings) == count


DESTRUCTOR = """
import torch


class Step:
    def __init__(self, pool):
        self.pool = pool
        self.graph = torch.cuda.CUDAGraph()

    def capture(self, n):
        with torch.cuda.graph(self.graph, pool=self.pool):
            torch.ones(n, device="cuda")

    def __del__(self):
        del self.graph


class Steps:
    def __init__(self):
        self.pool = torch.cuda.graph_pool_handle()
        self.steps = {{}}

    def capture(self, n):
        step = Step(self.pool)
        step.capture(n)
        self.steps[n] = step

    def end(self, n):
        {end}
"""


@pytest.mark.parametrize(
    ("end", "count"), [("self.steps.clear()", 1), ("self.steps = {}", 1), ("self.steps.pop(n)", 0)]
)
def test_objects_that_end_their_own_graphs(end: str, count: int) -> None:
    Path("m.py").write_text(DESTRUCTOR.format(end=end))
    assert len(check.check(["m.py"], Settings(), registry.select((RULE,))).findings) == count


FLAGS = """
    def clear(self, hard):
        if {test}:
            for graph in self.graphs.values():
                graph.reset()
            self.limit = 8
        self.capture(1)
"""


@pytest.mark.parametrize(
    ("test", "column"),
    [
        ("hard", 12),
        ("len(self.graphs) > 8", 12),
        ("self.limit > 8", 12),
        ("self.graphs and hard", 12),
        ("self.graphs", 8),
        ("len(self.graphs) > 0", 8),
        ("self.graphs is not None", 8),
    ],
)
def test_a_handle_is_retired_where_the_graphs_die(test: str, column: int) -> None:
    find(FLAGS.format(test=test))
    outcome = fixing.fix(check.read(["m.py"], Settings(), {}), registry.select((RULE,)))
    lines = outcome.changes["m.py"].after.decode().splitlines()
    made = [line for line in lines if line.strip() == "self.pool = torch.cuda.graph_pool_handle()"][1]
    assert len(made) - len(made.lstrip()) == column


BEGUN = """
import torch


class Exchange:
    def __init__(self):
        self.handle = torch.cuda.graph_pool_handle()


class Runner:
    def __init__(self, net, exchange):
        self.net, self.exchange = net, exchange
        self.graph = None
        {own}

    def record(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=self.exchange.handle):
            self.out = self.net()

    def drop(self):
        self.graph.reset()
        self.graph = self.out = None


class Worker:
    def __init__(self, target, draft):
        exchange = Exchange()
        self.target, self.draft = Runner(target, exchange), Runner(draft, exchange)
        {made}

    def wake(self):
        {woken}

    def end(self):
        self.target.drop()
        self.draft.drop()
"""
BOTH = "self.target.record(); self.draft.record()"


@pytest.mark.parametrize(
    ("own", "made", "woken", "count"),
    [
        ("pass", BOTH, "pass", 0),
        ("pass", BOTH, BOTH, 1),
        ("self.record()", "pass", "pass", 1),
        ("pass", "pass", BOTH, 1),
    ],
)
def test_what_is_captured_only_where_its_owner_is_made_is_not_captured_again(
    own: str, made: str, woken: str, count: int
) -> None:
    Path("m.py").write_text(BEGUN.format(own=own, made=made, woken=woken))
    assert len(check.check(["m.py"], Settings(), registry.select((RULE,))).findings) == count
