"""The order in which an exit stack that an object keeps ends what was registered on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
import contextlib

import torch


class Cache:
    def __init__(self):
        self.pages = [torch.zeros(4, device="cuda") for _ in range(2)]

    def release(self):
        self.pages.clear()


class Graphs:
    def __init__(self, net):
        self.net = net
        self.steps = {{}}

    def capture(self, n, pages):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net(n, {read})
        self.steps[n] = graph

    def release(self):
        for graph in self.steps.values():
            graph.reset()
        self.steps.clear()


class Session:
    def __init__(self, net):
        self.graphs = Graphs(net)
        self.cache = None
        self.stack = contextlib.ExitStack()

    def open(self):
        {first}
        self.cache = Cache()
        {second}
        self.graphs.capture(1, self.cache.pages)

    def close(self):
        {close}
"""
GRAPHS, CACHE = "self.stack.callback(self.graphs.release)", "self.stack.callback(self.cache.release)"
CLOSES = ["self.stack.close()", "with self.stack:\n            pass", "self.stack.__exit__(None, None, None)"]


def reported(text: str) -> list[str]:
    Path("m.py").write_text(text.lstrip("\n"))
    findings = check.check(["."], Settings(), registry.select(("manager-order",))).findings
    return [text.lstrip("\n").encode()[slice(*each.span)].decode() for each in findings]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("close", CLOSES)
def test_what_is_registered_last_ends_first(close: str) -> None:
    assert reported(PROGRAM.format(read="pages", first=GRAPHS, second=CACHE, close=close)) == [GRAPHS]
    late = PROGRAM.format(read="pages", first="pass", second=f"{CACHE}\n        {GRAPHS}", close=close)
    assert reported(late) == []


def test_a_graph_that_does_not_read_the_memory_may_go_later() -> None:
    text = PROGRAM.format(read="n", first=GRAPHS, second=CACHE, close=CLOSES[0])
    assert reported(text) == []


def test_a_stack_that_is_never_closed_ends_nothing() -> None:
    assert reported(PROGRAM.format(read="pages", first=GRAPHS, second=CACHE, close="pass")) == []
