"""Other ways to write where outputs of dead graphs are kept: several names at once, columns of pairs, hooks, blank records."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

ERASE = "torch.cuda.empty_cache()"

MODULE = """
import torch

KEPT


def record(body, x):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs[x.shape[0]] = body(x)
    graphs[x.shape[0]] = graph


def sleep():
    for graph in graphs.values():
        graph.reset()
    graphs.clear()
    FIRST
    THEN
"""

PROBE = """
import torch


class Probe:
    def __init__(self, body, x, sizes):
        self.body = body
        self.x = x
        self.sizes = sizes

    def one(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.body(self.x[:n])
        return graph, out

    def cost(self):
        TAKE
        for graph in graphs:
            graph.reset()
        LAST
        torch.cuda.empty_cache()
        return 8
"""

BLANK = """
import torch
from dataclasses import dataclass


@dataclass
class State:
    logits: torch.Tensor | None = None


class Tap:
    def __init__(self):
        self.seen = []

    def __call__(self, module, args, out):
        self.seen.append(out)


class Runner:
    def __init__(self, body: torch.nn.Module, x):
        self.body = body
        self.x = x
        self.graph = None
        self.state = State()
        self.tap = Tap()
        body.register_forward_hook(self.tap)

    def record(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.state.logits = self.body(self.x)

    def sleep(self):
        self.graph.reset()
        self.graph = None
        FIRST
        THEN
"""


def found(tmp_path: Path, text: str, **parts: str) -> list[str]:
    for name, part in parts.items():
        text = text.replace(name, part)
    path = tmp_path / "engines.py"
    path.write_text(text)
    report = check.check([str(path)], Settings(), registry.select(("pool-order",)))
    source = report.sources[str(path)]
    return [" ".join(source.text(finding.span).split()) for finding in report.findings]


@pytest.mark.parametrize("kept", ["graphs, outs = {}, {}", "(graphs, outs) = ({}, {})", "graphs = {}\nouts = {}"])
def test_variables_of_a_module(tmp_path: Path, kept: str) -> None:
    assert found(tmp_path, MODULE, KEPT=kept, FIRST=ERASE, THEN="outs.clear()") == [ERASE]
    assert found(tmp_path, MODULE, KEPT=kept, FIRST="outs.clear()", THEN=ERASE) == []


@pytest.mark.parametrize(
    "take",
    [
        "graphs, outs = zip(*[self.one(n) for n in self.sizes])",
        "graphs, outs = [], {}; for n in self.sizes:;     graph, outs[n] = self.one(n);     graphs.append(graph)",
        "graphs, outs = [], []; for n in self.sizes:;     graph, out = self.one(n);     graphs += [graph];     outs += [out]; del out",
    ],
)
def test_pairs_that_are_parted(tmp_path: Path, take: str) -> None:
    take = take.replace("; ", "\n        ")
    assert found(tmp_path, PROBE, TAKE=take, LAST="pass") == [ERASE]
    assert found(tmp_path, PROBE, TAKE=take, LAST="del outs") == []


def test_a_blank_record_in_the_place_of_one_with_outputs(tmp_path: Path) -> None:
    rest = "self.tap.seen.clear()\n        "
    assert found(tmp_path, BLANK, FIRST=rest + ERASE, THEN="self.state = State()") == [ERASE]
    assert found(tmp_path, BLANK, FIRST=rest + "self.state = State()", THEN=ERASE) == []


def test_an_object_that_is_called_after_each_module(tmp_path: Path) -> None:
    rest = "self.state.logits = None\n        "
    assert found(tmp_path, BLANK, FIRST=rest + ERASE, THEN="self.tap.seen.clear()") == [ERASE]
    assert found(tmp_path, BLANK, FIRST=rest + "self.tap.seen.clear()", THEN=ERASE) == []
