"""Orders that a loop over bound methods decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
import torch


class Kv:
    def __init__(self):
        self.pages = torch.zeros(4, device="cuda")

    def release(self):
        self.pages = None


class Graphs:
    def __init__(self, net, kv: Kv):
        self.kv = kv
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = net(self.kv.pages)

    def drop(self):
        self.graph.reset()


class Engine:
    def __init__(self, net):
        self.kv = Kv()
        self.graphs = Graphs(net, self.kv)

    def close(self):
        for end in ({order}):
            end()
"""


@pytest.mark.parametrize(
    ("order", "expected"),
    [("self.kv.release, self.graphs.drop", ["end()"]), ("self.graphs.drop, self.kv.release", [])],
)
def test_a_loop_over_releases(order: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PROGRAM.format(order=order).lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("manager-order",))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == expected
