"""Graphs in records: what captured code reads, the keeper of the records tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
from dataclasses import dataclass
from typing import NamedTuple

import torch


class Pages:
    def __init__(self, n):
        self.rows = torch.zeros(n, device="cuda")

    def give_back(self):
        self.rows = None


{record}


class Table:
    def __init__(self, net):
        self.net = net
        self.steps = {{}}

    def record(self, pages):
        for n in (2, 1):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = self.net(n, {read})
            self.steps[n] = {made}

    def end(self):
        {end}


class Worker:
    def __init__(self, net, n):
        self.pages = Pages(n)
        self.table = Table(net)
        self.table.record(self.pages)

    def resize(self, n):
        {first}
        {second}
        self.pages = Pages(n)
        self.table.record(self.pages)
"""
NAMED = "class Step(NamedTuple):\n    graph: torch.cuda.CUDAGraph\n    out: torch.Tensor"
DATA = NAMED.replace("class Step(NamedTuple)", "@dataclass\nclass Step")
KEEPING = NAMED + "\n    rows: torch.Tensor"
POPPED = "while self.steps:\n            self.steps.popitem()[1].graph.reset()"
LOOPED = "for step in self.steps.values():\n            step.graph.reset()\n        self.steps.clear()"
RELEASE, END = "self.pages.give_back()", "self.table.end()"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(
    record: str, end: str, *, first: str, second: str, read: str = "pages.rows", made: str = "Step(graph, out)"
) -> list[str]:
    text = PROGRAM.format(record=record, end=end, first=first, second=second, read=read, made=made).lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("manager-order",))).findings
    return [text.encode()[slice(*each.span)].decode() for each in findings]


@pytest.mark.parametrize("record", [NAMED, DATA])
@pytest.mark.parametrize("end", [POPPED, LOOPED])
def test_records_that_a_table_keeps(record: str, end: str) -> None:
    assert reported(record, end, first=RELEASE, second=END) == [END]
    assert reported(record, end, first=END, second=RELEASE) == []


def test_graphs_that_read_something_else() -> None:
    assert reported(NAMED, POPPED, first=RELEASE, second=END, read="n") == []


ANEW = """
from dataclasses import dataclass

import torch


@dataclass
class State:
    rows: torch.Tensor | None = None


@dataclass
class Recorded:
    graph: torch.cuda.CUDAGraph | None = None


class Decoder:
    def __init__(self, net):
        self.net = net
        self.state = State()
        self.recorded = Recorded()

    def start(self, n):
        {first}
        self.state.rows = None
        self.recorded = Recorded()

    def begin(self, n):
        self.state = State()
        self.state.rows = torch.zeros(n, device="cuda")
        self.recorded.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.recorded.graph):
            self.net(self.state.rows)
"""


@pytest.mark.parametrize(("first", "count"), [("pass", 1), ("self.state = State()", 0), ("self.begin(n)", 1)])
def test_what_an_object_made_here_gives_up_was_read_by_nobody(tmp_path: Path, first: str, count: int) -> None:
    (tmp_path / "m.py").write_text(ANEW.format(first=first))
    assert len(check.check([str(tmp_path)], Settings(), registry.select(("manager-order",))).findings) == count
