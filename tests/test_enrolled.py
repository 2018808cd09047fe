"""Parts that put themselves, or a method of theirs, into a table of another part, and who goes over that table."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PART = """
from typing import Callable

import torch

LIVE = set()
HOOKS: dict[str, list] = {{}}


def on(event):
    def keep(function):
        HOOKS.setdefault(event, []).append(function)
        return function
    return keep


class Hub:
    def __init__(self):
        self.parts = []
        self.others = []

    def enrol(self, part):
        self.parts.append(part)

    def name(self, name, part):
        self.{named}.append((name, part))

    def end(self):
        {end}


class Part:
    def __init__(self, net, hub: Hub):
        self.net = net
        self.graphs = []
        self.record()
        {enrol}

    def record(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net()
        self.graphs.append(graph)

    def free(self):
        assert self.graphs is not None
        for graph in self.graphs:
            graph.reset()
        self.graphs = None


class Engine:
    def __init__(self, left, right):
        self.hub = Hub()
        self.left = Part(left, self.hub)
        self.right = Part(right, self.hub)

    def close(self):
        self.hub.end()
        {then}
"""
WAYS = {
    "itself": ("for part in self.parts: part.free()", "hub.enrol(self)"),
    "itself, directly": ("for part in self.parts: part.free()", "hub.parts.append(self)"),
    "itself, in a set of the process": ("for part in list(LIVE): part.free()", "LIVE.add(self)"),
    "a method": ("for free in self.parts: free()", "hub.enrol(self.free)"),
    "a method, taken out": ("while self.parts: self.parts.pop()()", "hub.enrol(self.free)"),
    "a name and a method": (
        "while self.parts:\n            name, free = self.parts.pop()\n            free()",
        'hub.name("part", self.free)',
    ),
}


def rules_of(path: Path, text: str) -> list[str]:
    (path / "m.py").write_text(text)
    rules = registry.select(("duplicate-release", "manager-order", "orphan-graphs"))
    return [each.rule for each in check.check([str(path)], Settings(), rules).findings]


@pytest.mark.parametrize("name", WAYS)
def test_each_enrolled_part_is_released_by_the_table(tmp_path: Path, name: str) -> None:
    def rules(enrol: str, then: str) -> list[str]:
        named = "parts" if "hub.name" in WAYS[name][1] else "others"
        return rules_of(tmp_path, PART.format(end=WAYS[name][0], enrol=enrol, then=then, named=named))

    assert rules(WAYS[name][1], "self.left = None") == []
    assert rules(WAYS[name][1], "self.right.free()") == ["duplicate-release"]
    assert rules("pass", "self.right.free(); self.left.free()") == []


def test_what_a_decorator_registers_is_run_by_who_goes_over_it(tmp_path: Path) -> None:
    part = PART.format(end="pass", enrol="pass", then="self.left.free(); self.right.free()", named="others")
    told = """
    def tell(self, event):
        for function in HOOKS.get(event, ()):
            function(self)

    def stop(self):
        self.tell("stop")
        {then}


@on("stop")
def free_all(engine: Engine):
    engine.left.free()
    engine.right.free()
"""
    assert rules_of(tmp_path, part + told.format(then="pass")) == []
    assert rules_of(tmp_path, part + told.format(then="self.right.free()")) == ["duplicate-release"]
