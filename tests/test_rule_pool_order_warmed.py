"""Memory that the call which captures has made before the capture began lies outside of the pool."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "pool-order"

RUNNER = """
import torch


class Tables:
    held = {{}}

    @classmethod
    def get(cls, n):
        if n not in cls.held:
            cls.held[n] = torch.empty(n, device="cuda")
        return cls.held[n]

    @classmethod
    def drop(cls):
        cls.held.clear()


class Runner:
    def __init__(self):
        self.graphs = {{}}
        self.rows = None
        self.outs = {{}}

    def forward(self, x):
        if self.rows is None:
            self.rows = torch.arange(4096, device="cuda")
        return x + self.rows[: x.shape[0]]

    def scale(self, x):
        return x * Tables.get(x.shape[0])

    def capture(self, x, warm):
{before}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            {inside}
        self.graphs[x.shape[0]] = graph

    def close(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        torch.cuda.empty_cache()
        {end}
"""


def count(before: str, inside: str, end: str) -> int:
    text = RUNNER.format(before=textwrap.indent(before, " " * 8), inside=inside, end=end)
    Path("m.py").write_text(text)
    return len(check.check(["m.py"], Settings(), registry.select((RULE,))).findings)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("self.forward(x)", 0),
        ("for _ in range(3):\n    self.forward(x)", 0),
        ("with torch.cuda.stream(self.side):\n    self.forward(x)", 0),
        ("", 1),
        ("if warm:\n    self.forward(x)", 1),
        ("self.forward(x)\nself.rows = None", 1),
    ],
)
def test_an_attribute(before: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert count(before, "self.forward(x)", "self.rows = None") == expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("self.scale(x)", 0),
        ("", 1),
        ("self.scale(x[:1])", 1),
        ("if warm:\n    self.scale(x)", 1),
        ("self.scale(x)\nTables.drop()", 1),
    ],
)
def test_a_table(before: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert count(before, "self.scale(x)", "Tables.drop()") == expected


def test_outputs_are_made_anew_in_the_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert count("self.outs[1] = self.forward(x)", "self.outs[1] = self.forward(x)", "self.outs.clear()") == 1
