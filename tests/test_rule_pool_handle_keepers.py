"""Which kept handles of dead pools are reported, by how the graphs and the handle are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "pool-handle"

ENGINE = """
import dataclasses
import functools
from typing import Any, NamedTuple

import torch


class Recorded(NamedTuple):
    graph: torch.cuda.CUDAGraph
    out: torch.Tensor


@dataclasses.dataclass
class Context:
    stream: Any = dataclasses.field(default_factory=torch.cuda.Stream)
    pool: Any = dataclasses.field(default_factory=torch.cuda.graph_pool_handle)


@functools.lru_cache(maxsize=None)
def shared(device: int):
    return torch.cuda.graph_pool_handle()


class Engine:
    def __init__(self, net, context: Context):
        self.net = net
        self.context = context
        self.kept = torch.cuda.MemPool()
        self.inside = self.kept.id
        self.own = torch.cuda.graph_pool_handle()
        self.table{declared} = {{}}

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool={pool}):
            out = self.net(n)
        self.table[n] = {item}

    def release(self):
        {release}
"""

LOOP = "for graph, _ in self.table.values():\n            graph.reset()\n        self.table.clear()"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(
    pool: str = "self.own", release: str = LOOP, declared: str = "", item: str = "(graph, out)"
) -> list[tuple[str, str]]:
    """The reported text and the kept place, of the engine with these parts."""
    text = ENGINE.format(pool=pool, release=release, declared=declared, item=item).lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    return [(text.encode()[slice(*each.span)].decode(), each.values["place"]) for each in findings]


@pytest.mark.parametrize("declared", ["", ": dict[int, tuple]", ": dict[int, Any]", ": dict"])
def test_graphs_in_tuples_are_found_through_their_table(declared: str) -> None:
    assert reported(declared=declared) == [("graph.reset()", "self.own")]


def test_graphs_in_records_are_found_through_their_table() -> None:
    found = reported(release="self.table.clear()", declared=": dict[int, Recorded]", item="Recorded(graph, out)")
    assert found == [("self.table.clear()", "self.own")]


def test_a_remembered_handle_is_kept_by_its_function() -> None:
    assert reported("shared(0)") == [("return torch.cuda.graph_pool_handle()", "shared()")]


def test_a_function_that_is_told_to_forget_keeps_nothing() -> None:
    assert reported("shared(0)", f"{LOOP}\n        shared.cache_clear()") == []


def test_a_handle_is_kept_by_an_attribute_of_an_attribute() -> None:
    assert reported("self.context.pool") == [("graph.reset()", "self.context.pool")]


def test_a_new_object_brings_a_new_handle() -> None:
    assert reported("self.context.pool", f"{LOOP}\n        self.context = Context()") == []


def test_a_pool_object_beside_its_handle_keeps_the_pool_in_use() -> None:
    assert reported("self.inside") == []


PROBE = """
import torch


class Engine:
    def __init__(self, net):
        self.net = net
        self.pool = torch.cuda.graph_pool_handle()
        self.table = {{}}

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            out = self.net(n)
        self.table[n] = (graph, out)

    def probe(self):
        {before}
        self.record(1)
        for graph, _ in self.table.values():
            graph.reset()
        self.table.clear()
        {after}
"""


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("saved, self.pool = self.pool, torch.cuda.graph_pool_handle()", "self.pool = saved", 0),
        ("pass", "pass", 1),
    ],
)
def test_a_throwaway_handle_gives_way_to_the_one_that_was_saved(before: str, after: str, lines: int) -> None:
    Path("m.py").write_text(PROBE.format(before=before, after=after))
    assert len(check.check(["."], Settings(), registry.select((RULE,))).findings) == lines


SHARED = """
import torch

_pool = None
_users = 0


def join():
    global _pool, _users
    if _pool is None:
        _pool = torch.cuda.graph_pool_handle()
    _users += 1
    return _pool


def retire():
    global _pool
    _pool = None


class Engine:
    def __init__(self, net):
        self.table = []
        self.record(net)

    def record(self, net):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=join()):
            net()
        self.table.append(graph)

    def close(self):
        global _users
        while self.table:
            self.table.pop().reset()
        {rest}
"""


@pytest.mark.parametrize(
    ("rest", "lines"),
    [("_users -= 1\n        if _users == 0:\n            retire()", 0), ("_users -= 1", 1)],
)
def test_the_last_user_retires_the_handle(rest: str, lines: int) -> None:
    Path("m.py").write_text(SHARED.format(rest=rest))
    assert len(check.check(["."], Settings(), registry.select((RULE,))).findings) == lines


PASSED = """
import torch


class Worker:
    def __init__(self, net):
        self.net = net
        self.pool = torch.cuda.graph_pool_handle()

    def _into(self, live):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            y = self.net()
        live.append((graph, y))

    def estimate(self):
        live = []
        self._into(live)
        for graph, _ in live:
            {end}

    def start(self):
        self.live = []
        self._into(self.live)
"""


@pytest.mark.parametrize(("end", "lines"), [("graph.reset()", 1), ("graph.replay()", 0)])
def test_graphs_that_a_callee_puts_into_a_list(end: str, lines: int) -> None:
    Path("m.py").write_text(PASSED.format(end=end))
    assert len(check.check(["."], Settings(), registry.select((RULE,))).findings) == lines


@pytest.mark.parametrize("path", ["v1.2/program.py", "1st/program.py", "a/1st-try.py", "a/v1.2.py"])
def test_a_file_that_no_import_can_name(path: str, tmp_path: Path) -> None:
    """Its own functions need no import."""
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(SHARED.format(rest="pass"))
    for where in (tmp_path, file.parent):
        findings = check.check([str(where)], Settings(), registry.select((RULE,))).findings
        assert [each.fix is not None for each in findings] == [True]


HELPED = """
import dataclasses
from typing import Any, NamedTuple

import torch


class Pair(NamedTuple):
    graph: torch.cuda.CUDAGraph
    out: torch.Tensor


@dataclasses.dataclass
class Data:
    graph: torch.cuda.CUDAGraph
    out: Any


class Plain:
    def __init__(self, graph, out):
        self.graph = graph
        self.out = out


class Engine:
    def __init__(self, net):
        self.net = net
        self.table = {{}}
        self.pool = torch.cuda.graph_pool_handle()

    def _record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            out = self.net(n)
        return {kind}(graph, out)

    def run(self, n):
        if n not in self.table:
            self.table[n] = self._record(n)
        self.table[n].graph.replay()

    def attach(self):
        for step in self.table.values():
            step.graph.reset()
        self.table.clear()
        {then}
"""


@pytest.mark.parametrize("kind", ["Pair", "Data", "Plain"])
@pytest.mark.parametrize(
    ("then", "count"), [("pass", 1), ("self.pool = torch.cuda.graph_pool_handle()", 0), ("self.pool = None", 0)]
)
def test_graphs_in_records_that_a_helper_makes(kind: str, then: str, count: int) -> None:
    Path("m.py").write_text(HELPED.format(kind=kind, then=then))
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert len(findings) == count


POOLS = """
import torch

POOLS: dict[str, tuple[int, int]] = {{}}


def pool_of(role):
    if role not in POOLS:
        POOLS[role] = torch.cuda.graph_pool_handle()
    return POOLS[role]


def retire(role):
    {retire}


class Engine:
    def __init__(self, net):
        self.net = net
        self.table: dict[int, torch.cuda.CUDAGraph] = {{}}

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool_of("decode")):
            self.net(n)
        self.table[n] = graph

    def again(self, n):
        for graph in self.table.values():
            graph.reset()
        self.table.clear()
        retire("decode")
        self.record(n)
"""


@pytest.mark.parametrize(
    ("retire", "count"),
    [
        ("pass", 1),
        ("POOLS.pop(role, None)", 0),
        ("POOLS.pop(role)", 0),
        ("del POOLS[role]", 0),
        ("POOLS.clear()", 0),
        ("POOLS.get(role)", 1),
    ],
)
def test_a_handle_that_is_taken_out_of_its_table_is_given_up(tmp_path: Path, retire: str, count: int) -> None:
    (tmp_path / "m.py").write_text(POOLS.format(retire=retire))
    findings = check.check([str(tmp_path)], Settings(), registry.select((RULE,))).findings
    assert bool(findings) is bool(count)
