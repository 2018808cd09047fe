"""What a variable stands for after its attribute was given something else: graphs that are taken out and reset then."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
import torch


class Kv:
    def __init__(self):
        self.pages = [torch.zeros(4, device="cuda") for _ in range(2)]

    def release(self):
        self.pages.clear()


class Engine:
    def __init__(self, net, kv: Kv):
        self.net = net
        self.kv = kv
        self.graph = None
        self.graphs = {{}}

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net(self.kv.pages)
        self.graph = graph
        self.graphs[n] = graph

    def drop(self):
        {drop}

    def early(self):
        self.kv.release()
        self.drop()

    def late(self):
        self.drop()
        self.kv.release()

    def twice(self):
        self.drop()
        self.drop()
"""
ONE = """
        if graph is not None:
            graph.reset()"""
ALL = """
        for graph in graphs.values():
            graph.reset()"""
DROPS = {
    "moved in one statement": "graph, self.graph = self.graph, None" + ONE,
    "moved, the attribute first": "self.graph, graph = None, self.graph" + ONE,
    "moved in two": "graph = self.graph\n        self.graph = None" + ONE,
    "a table, moved in one statement": "graphs, self.graphs = self.graphs, {}" + ALL,
    "a table, moved in two": "graphs = self.graphs\n        self.graphs = {}" + ALL,
}


@pytest.mark.parametrize("drop", DROPS.values(), ids=DROPS.keys())
def test_what_was_taken_out_is_reset(drop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PROGRAM.format(drop=drop).lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("manager-order", "duplicate-release"))).findings
    assert [each.rule for each in findings] == ["manager-order"]  # once: the second drop finds nothing to reset
    (release, *_) = findings[0].trace
    assert text.encode()[slice(*release.span)].decode() == "self.kv.release()"
    assert findings[0].symbol.endswith("early")


def test_what_was_deleted_is_not_there_for_the_second_drop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    drop = "graph = self.graph\n        del self.graph" + ONE
    Path("m.py").write_text(PROGRAM.format(drop=drop).lstrip("\n"))
    findings = check.check(["."], Settings(), registry.select(("manager-order", "duplicate-release"))).findings
    assert [each.rule for each in findings] == ["manager-order", "duplicate-release"]


def test_what_was_reset_before_is_reset_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PROGRAM.format(drop="self.graph.reset()\n        graph = self.graph\n        self.graph = None" + ONE)
    Path("m.py").write_text(text.lstrip("\n"))
    findings = check.check(["."], Settings(), registry.select(("duplicate-release",))).findings
    assert [each.symbol.rpartition(".")[2] for each in findings] == ["drop", "twice"]
