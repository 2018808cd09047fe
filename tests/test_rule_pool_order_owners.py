"""Which emptied caches are reported, by who holds the workspace and where the path runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, config, registry
from graphlint.config import Settings

RULE = "pool-order"

PROGRAM = """
import contextlib

import torch


class Scratch:
    def __init__(self):
        self.blocks = {{}}

    def rows(self, n):
        if n not in self.blocks:
            self.blocks[n] = torch.empty(n, device="cuda")
        return self.blocks[n]


_scratch = None


def scratch():
    global _scratch
    if _scratch is None:
        _scratch = Scratch()
    return _scratch


def forget():
    global _scratch
    _scratch = None


class Base:
    def __init__(self):
        self.graphs = {{}}

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.cuda.graph(graph))
            self.step(n)
        self.graphs[n] = (graph, n)

    def release(self):
        for graph, _ in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        {middle}
        torch.cuda.empty_cache()


class Runner(Base):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def step(self, n):
        self.net(n, scratch().rows(n))

    def release(self):
        super().release()
        {end}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def path(middle: str = "pass", end: str = "pass") -> list[list[str]]:
    """The texts of each finding's steps."""
    text = PROGRAM.format(middle=middle, end=end).lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    return [[text.encode()[slice(*each.span)].decode() for each in finding.trace] for finding in findings]


def test_the_path_leads_into_the_method_that_empties_the_cache() -> None:
    assert path(end="forget()") == [
        ["super().release()", "super().release()", "torch.cuda.empty_cache()", "forget()"],
    ]


def test_an_object_that_keeps_captured_memory_is_let_go_before_the_cache_is_emptied() -> None:
    assert path(middle="forget()") == []


def test_nobody_lets_go_of_it() -> None:
    assert path() == []


OPERATOR = """
import torch


class Bank:
    def __init__(self):
        self.arenas: list[torch.Tensor] = []
        {fill}

    def forward(self, x):
        return torch.ops.some.grouped(x, self.arenas)

    def drop(self):
        self.arenas.clear()


class Runner:
    def __init__(self, bank: Bank):
        self.bank = bank
        self.graph = torch.cuda.CUDAGraph()

    def record(self, x):
        with torch.cuda.graph(self.graph):
            self.bank.forward(x)

    def close(self):
        self.graph.reset()
        torch.cuda.empty_cache()
        self.bank.drop()
"""


def test_an_operator_fills_a_list_that_nothing_else_fills() -> None:
    def found(text: str) -> list[str]:
        Path("m.py").write_text(text)
        findings = check.check(["."], Settings(), registry.select((RULE,))).findings
        return [text.encode()[slice(*each.span)].decode() for each in findings]

    assert found(OPERATOR.format(fill="pass")) == ["torch.cuda.empty_cache()"]
    assert found(OPERATOR.format(fill='self.arenas.append(torch.empty(4, device="cuda"))')) == []


VOCABULARY = """
[[tool.graphlint.vocabulary.effect]]
call = "torch.ops.some.grouped"
does = "ws_alloc"
while = "capturing"
store = "bank.m.Bank.arenas"
released-by = "bank.m.Bank.drop"
scope = "instance"
"""


def test_a_vocabulary_says_what_an_attribute_of_an_object_keeps() -> None:
    Path("pyproject.toml").write_text(VOCABULARY)
    Path("bank").mkdir()
    Path("bank/__init__.py").touch()
    Path("bank/m.py").write_text(OPERATOR.format(fill="pass"))
    settings = config.load("pyproject.toml")
    findings = check.check(["."], settings, registry.select((RULE,))).findings
    assert len(findings) == 1


REBUILD = """
import dataclasses

import torch


@dataclasses.dataclass
class Shot:
    graph: torch.cuda.CUDAGraph
    routed: torch.Tensor


class Table:
    def __init__(self, net):
        self.net = net
        self.shots = {{}}

    def rebuild(self, sizes):
        for shot in self.shots.values():
            shot.graph.reset()
        {between}
        fresh = {{}}
        for n in sizes:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                routed = self.net(n) + 1
            fresh[n] = Shot(graph, routed)
        self.shots = fresh
"""


@pytest.mark.parametrize(
    ("between", "expected"),
    [("pass", ["torch.cuda.graph(graph)"]), ("self.shots = {}", []), ("self.shots.clear()", [])],
)
def test_what_dead_graphs_made_gives_way_after_the_next_capture(between: str, expected: list[str]) -> None:
    text = REBUILD.format(between=between)
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == expected
