"""Memory of dead graphs that local containers, records and objects of a function still hold when their pool is erased."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

BASE = """
import collections
import torch
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple


class Trial(NamedTuple):
    graph: torch.cuda.CUDAGraph
    out: torch.Tensor


@dataclass
class Step:
    graph: torch.cuda.CUDAGraph | None = None
    out: torch.Tensor | None = None

    def drop(self):
        self.graph = None
        self.out = None


class Owner:
    def __init__(self, body, x):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = body(x)

    def stop(self):
        self.graph.reset()


class Tidy(Owner):
    def stop(self):
        self.graph.reset()
        self.out = None


class Base:
    def __init__(self, body, x, sizes):
        self.body = body
        self.x = x
        self.sizes = sizes

    def pair(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.body(self.x[:n])
        return graph, out

    def trial(self, n):
        return Trial(*self.pair(n))

    def named(self, n):
        graph, out = self.pair(n)
        return Trial(graph, out)

    def step(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.body(self.x[:n])
        return Step(graph=graph, out=out)

    def all(self):
        found = []
        for n in self.sizes:
            found.append(self.named(n))
        return found

    def given(self, n, outs):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outs.append(self.body(self.x[:n]))
        return graph

    def both(self, n, graphs, outs):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outs[n] = self.body(self.x[:n])
        graphs[n] = graph

    def deep(self, graphs, outs):
        for n in self.sizes:
            self.both(n, graphs, outs)


def end(graphs):
    for graph in graphs.values():
        graph.reset()
    graphs.clear()


def end_steps(steps):
    for step in steps:
        step.graph.reset()


class Probe(Base):
    def cost(self):
"""

HELD = {
    "pairs of a comprehension": """
        made = [self.pair(n) for n in self.sizes]
        for graph, _ in made:
            graph.reset()
        LAST
        torch.cuda.empty_cache()
""",
    "pairs by size": """
        made = {n: self.pair(n) for n in self.sizes}
        for graph, _ in made.values():
            graph.reset()
        LAST
        torch.cuda.empty_cache()
""",
    "records that a loop appends": """
        made = []
        for n in self.sizes:
            made.append(self.named(n))
        for each in made:
            each.graph.reset()
        LAST
        torch.cuda.empty_cache()
""",
    "records that a helper gives": """
        made = self.all()
        for each in made:
            each.graph.reset()
        LAST
        torch.cuda.empty_cache()
""",
    "records that a helper ends": """
        made = [self.named(n) for n in self.sizes]
        end_steps(made)
        LAST
        torch.cuda.empty_cache()
""",
    "a single record": """
        made = self.step(8)
        made.graph.reset()
        LAST
        torch.cuda.empty_cache()
""",
    "a list that a helper fills": """
        made = []
        graphs = [self.given(n, made) for n in self.sizes]
        for graph in graphs:
            graph.reset()
        LAST
        torch.cuda.empty_cache()
""",
    "a deque that a helper fills": """
        made, graphs = collections.deque(), collections.deque()
        for n in self.sizes:
            graphs.append(self.given(n, made))
        while graphs:
            graphs.popleft().reset()
        LAST
        torch.cuda.empty_cache()
""",
    "a table that a helper fills, and another one ends": """
        graphs, made = {}, {}
        for n in self.sizes:
            self.both(n, graphs, made)
        end(graphs)
        LAST
        torch.cuda.empty_cache()
""",
    "a table that a helper's helper fills": """
        graphs, made = {}, {}
        self.deep(graphs, made)
        end(graphs)
        LAST
        torch.cuda.empty_cache()
""",
    "lists in a table": """
        graphs, made = {}, collections.defaultdict(list)
        for n in self.sizes:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                made[n].append(self.body(self.x[:n]))
            graphs[n] = graph
        end(graphs)
        LAST
        torch.cuda.empty_cache()
""",
    "a table that a function in it fills": """
        graphs, made = [], {}

        def record(n):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                made[n] = self.body(self.x[:n])
            graphs.append(graph)

        for n in self.sizes:
            record(n)
        for graph in graphs:
            graph.reset()
        LAST
        torch.cuda.empty_cache()
""",
    "a namespace": """
        made = SimpleNamespace(graph=torch.cuda.CUDAGraph(), out=None)
        with torch.cuda.graph(made.graph):
            made.out = self.body(self.x)
        made.graph.reset()
        LAST
        torch.cuda.empty_cache()
""",
    "an object of its own": """
        made = Owner(self.body, self.x)
        made.stop()
        LAST
        torch.cuda.empty_cache()
""",
    "objects of its own": """
        made = [Owner(self.body, self.x[:n]) for n in self.sizes]
        for each in made:
            each.stop()
        LAST
        torch.cuda.empty_cache()
""",
}

SAFE = {
    "records that lose their outputs": """
        made = [self.step(n) for n in self.sizes]
        for each in made:
            each.graph.reset()
            each.out = None
        torch.cuda.empty_cache()
""",
    "records that a method empties": """
        made = []
        for n in self.sizes:
            made.append(self.step(n))
        for each in made:
            each.graph.reset()
            each.drop()
        torch.cuda.empty_cache()
""",
    "records that are taken out": """
        made = [self.named(n) for n in self.sizes]
        while made:
            made.pop().graph.reset()
        torch.cuda.empty_cache()
""",
    "an object that gives its output up": """
        made = Tidy(self.body, self.x)
        made.stop()
        torch.cuda.empty_cache()
""",
    "graphs that live on": """
        made = []
        self.graphs = [self.given(n, made) for n in self.sizes]
        torch.cuda.empty_cache()
""",
    "copies on the host": """
        graphs, made = {}, {}
        for n in self.sizes:
            graph, out = self.pair(n)
            made[n] = out.cpu()
            graphs[n] = graph
            del out
        end(graphs)
        torch.cuda.empty_cache()
""",
}


def found(tmp_path: Path, body: str) -> list[str]:
    path = tmp_path / "engines.py"
    path.write_text(BASE + body.lstrip("\n") + "        return torch.cuda.memory_reserved()\n")
    report = check.check([str(path)], Settings(select=("pool-order",)), registry.rules())
    source = report.sources[str(path)]
    return [" ".join(source.text(finding.span).split()) for finding in report.findings]


@pytest.mark.parametrize("name", HELD)
def test_what_the_function_made_is_held_until_it_ends(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, HELD[name].replace("        LAST\n", "")) == ["torch.cuda.empty_cache()"]


@pytest.mark.parametrize("name", HELD)
def test_it_is_not_held_once_the_variable_is_gone(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, HELD[name].replace("LAST", "del made")) == []


@pytest.mark.parametrize("name", HELD)
def test_nor_once_the_variable_is_something_else(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, HELD[name].replace("LAST", "made = None")) == []


@pytest.mark.parametrize("name", SAFE)
def test_what_is_gone_before_is_not_held(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, SAFE[name]) == []


def test_a_record_without_its_graph_still_has_the_output(tmp_path: Path) -> None:
    body = """
        made = [self.step(n) for n in self.sizes]
        for each in made:
            each.graph.reset()
            each.graph = None
        torch.cuda.empty_cache()
"""
    assert found(tmp_path, body) == ["torch.cuda.empty_cache()"]
