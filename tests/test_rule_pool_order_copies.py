"""Outputs of dead graphs that somebody has besides the table that is emptied: in a table of its own, or in a variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RUNNER = """
import torch
from typing import NamedTuple


class Kept(NamedTuple):
    graph: torch.cuda.CUDAGraph
    out: torch.Tensor


class Runner:
    def __init__(self, body, x, sizes):
        self.body = body
        self.x = x
        self.sizes = sizes
        self.graphs = {}
        self.outs = {}
        self.kept: dict[int, Kept] = {}
        self.pairs = {}

    def record(self):
        for n in self.sizes:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.outs[n] = self.body(self.x[:n])
            self.graphs[n] = graph

    def keep(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.body(self.x[:n])
        self.kept[n] = Kept(graph, out)

    def pair(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.body(self.x[:n])
        self.pairs[n] = (graph, out)

    def stop(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        self.outs.clear()
"""

READER = """
class Reader:
    def __init__(self):
        self.seen = {}

    def attach(self, outs):
        TAKE

    def detach(self):
        self.seen = {}


class Engine:
    def __init__(self, runner: Runner):
        self.runner = runner
        self.reader = Reader()
        self.runner.record()
        self.reader.attach(self.runner.outs)

    def off(self):
        self.runner.stop()
        FIRST
        THEN
"""


def found(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "engines.py"
    path.write_text(RUNNER + text)
    report = check.check([str(path)], Settings(), registry.select(("pool-order",)))
    source = report.sources[str(path)]
    return [" ".join(source.text(finding.span).split()) for finding in report.findings]


ERASE, DETACH = "torch.cuda.empty_cache()", "self.reader.detach()"


@pytest.mark.parametrize(
    "take",
    [
        "self.seen = dict(outs)",
        "self.seen = {**outs}",
        "self.seen = outs.copy()",
        "self.seen = {n: out for n, out in outs.items()}",
        "self.seen = list(outs.values())",
        "self.seen.update(outs)",
        "for n, out in outs.items(): self.seen[n] = out",
    ],
)
def test_a_table_of_its_own_holds_the_outputs(tmp_path: Path, take: str) -> None:
    text = READER.replace("TAKE", take)
    assert found(tmp_path, text.replace("FIRST", ERASE).replace("THEN", DETACH)) == [ERASE]
    assert found(tmp_path, text.replace("FIRST", DETACH).replace("THEN", ERASE)) == []


def test_the_same_table_under_another_name_is_empty_then(tmp_path: Path) -> None:
    text = READER.replace("TAKE", "self.seen = outs")
    assert found(tmp_path, text.replace("FIRST", ERASE).replace("THEN", DETACH)) == []


@pytest.mark.parametrize(
    ("take", "held"),
    [("dict(self.runner.outs)", True), ("self.runner.outs", False), ("self.runner.outs.copy()", True)],
)
def test_an_own_copy_is_no_other_name(tmp_path: Path, take: str, held: bool) -> None:
    text = f"""
class Engine:
    def __init__(self, runner: Runner):
        self.runner = runner
        self.runner.record()
        self.seen = {take}

    def off(self):
        self.runner.stop()
        torch.cuda.empty_cache()
        self.seen.clear()
"""
    assert found(tmp_path, text) == ([ERASE] if held else [])


TAKEN = {
    "a record": ("one = self.kept.pop(8)", "one.graph.reset()"),
    "a record, if there is one": ("one = self.kept.pop(8, None)", "one.graph.reset()"),
    "the last record": ("n, one = self.kept.popitem()", "one.graph.reset()"),
    "a pair": ("graph, one = self.pairs.pop(8)", "graph.reset()"),
    "an output beside its graph": ("graph = self.graphs.pop(8); one = self.outs.pop(8)", "graph.reset()"),
    "the whole table": (
        "graphs, self.graphs = self.graphs, {}; one, self.outs = self.outs, {}",
        "[graph.reset() for graph in graphs.values()]",
    ),
    "a copy of the table": ("one = list(self.outs.values())", "self.stop()"),
    "the table under another name": ("one = self.outs; self.outs = {}", "self.stop()"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_variable_has_what_was_taken(tmp_path: Path, name: str) -> None:
    take, end = TAKEN[name]

    def steps(*each: str) -> str:
        lines = "\n        ".join(text for step in each for text in step.split("; "))
        return f"\nclass Engine(Runner):\n    def evict(self):\n        {lines}\n        return 8\n"

    assert found(tmp_path, steps(take, end, ERASE)) == [ERASE]
    assert found(tmp_path, steps(take, end, "del one", ERASE)) == []
    assert found(tmp_path, steps(take, "del one", end, ERASE)) == []


@pytest.mark.parametrize(
    "body",
    [
        "one = self.kept.pop(8); torch.cuda.empty_cache(); self.last = one",
        "self.kept[4] = one = self.kept.pop(8); torch.cuda.empty_cache()",
        "graph, _ = self.pairs.pop(8); graph.reset(); torch.cuda.empty_cache()",
        "self.kept.pop(8).graph.reset(); torch.cuda.empty_cache()",
        "one = list(self.outs); self.stop(); torch.cuda.empty_cache(); print(one)",
        "one = {n: tuple(out.shape) for n, out in self.outs.items()}; self.stop(); torch.cuda.empty_cache(); print(one)",
    ],
)
def test_what_was_taken_may_live_or_be_no_memory(tmp_path: Path, body: str) -> None:
    lines = "\n        ".join(body.split("; "))
    assert found(tmp_path, f"\nclass Engine(Runner):\n    def evict(self):\n        {lines}\n") == []
