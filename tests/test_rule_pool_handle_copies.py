"""Handles that each part of an engine has a copy of: to renew the engine's own renews none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PARTS = """
import dataclasses
from typing import Any

import torch


class Part:
    def __init__(self, net, handle):
        self.net = net
        self.handle = handle
        self.steps = {{}}

    def record(self, x):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.handle):
            out = self.net(x)
        self.steps[len(x)] = (graph, out)

    def forget(self):
        for graph, _ in self.steps.values():
            graph.reset()
        self.steps.clear()


@dataclasses.dataclass
class Piece(Part):
    net: Any
    handle: Any
    steps: dict = dataclasses.field(default_factory=dict)


class Engine:
    def __init__(self, nets, x):
        self.handle = torch.cuda.graph_pool_handle()
        {made}
        {first}

    def start(self, x):
        for part in {each}:
            part.record(x)

    def stop(self):
        for part in {each}:
            {ended}
        {renewed}

    def _stop(self):
        for part in {each}:
            {ended}
        {renewed}

    def again(self, x):
        self._stop()
        self.start(x)
"""
LISTED = "self.parts = [Part(net, self.handle) for net in nets]"
ADDED = "self.parts = []\n        for net in nets:\n            self.parts.append(Part(net, handle=self.handle))"
FIELDS = "self.parts = [Piece(net, self.handle) for net in nets]"
KEYED = "self.parts = {name: Part(net, self.handle) for name, net in nets.items()}"
LOCAL = "handle = torch.cuda.graph_pool_handle()\n        self.parts = [Part(net, handle) for net in nets]"
NEW = "self.handle = torch.cuda.graph_pool_handle()"
GIVEN = NEW + "\n        for part in self.parts:\n            part.handle = self.handle"
MADE = NEW + "\n        self.parts = [Part(part.net, self.handle) for part in self.parts]"
ANCHOR = (
    LISTED
    + "\n        self.main = torch.cuda.CUDAGraph()\n        with torch.cuda.graph(self.main, pool=self.handle):\n"
    "            self.out = nets(x)"
)
ENDED = "part.forget()"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(text: str) -> list[str]:
    text = text.lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("pool-handle",))).findings
    return [text.encode()[slice(*each.span)].decode() for each in findings]


def engine(
    made: str = LISTED, each: str = "self.parts", renewed: str = NEW, ended: str = ENDED, first: str = "self.start(x)"
) -> str:
    return PARTS.format(made=made, each=each, renewed=renewed, ended=ended, first=first)


@pytest.mark.parametrize(
    ("made", "each"),
    [(LISTED, "self.parts"), (ADDED, "self.parts"), (FIELDS, "self.parts"), (KEYED, "self.parts.values()")],
)
@pytest.mark.parametrize("first", ["self.start(x)", "pass"])
@pytest.mark.parametrize("renewed", [NEW, "self.handle = None"])
def test_each_part_keeps_its_copy(made: str, each: str, first: str, renewed: str) -> None:
    assert ENDED in reported(engine(made, each, renewed, first=first))


@pytest.mark.parametrize("renewed", [GIVEN, MADE, "self.parts.clear()"])
def test_each_part_is_given_the_new_one(renewed: str) -> None:
    assert reported(engine(renewed=renewed)) == []


def test_a_graph_of_the_engine_stays_in_the_pool() -> None:
    assert reported(engine(made=ANCHOR, renewed="pass")) == []


def test_some_parts_stay() -> None:
    assert reported(engine(ended="if len(part.steps) > 4:\n                part.forget()", renewed="pass")) == []


ALONE = """
import torch


class Engine:
    def __init__(self, net, x):
        self.net = net
        self.x = x
        self.handle = torch.cuda.graph_pool_handle()
        self.steps = []
        self._record()

    def _record(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.handle):
            self.out = self.net(self.x)
        self.steps.append(graph)

    def again(self):
        for graph in self.steps:
            graph.reset()
        self.steps = []
        {renewed}
        self._record()
"""


@pytest.mark.parametrize(("renewed", "expected"), [("pass", ["graph.reset()"]), (NEW, [])])
def test_one_method_ends_graphs_and_captures_anew(renewed: str, expected: list[str]) -> None:
    assert reported(ALONE.format(renewed=renewed)) == expected
