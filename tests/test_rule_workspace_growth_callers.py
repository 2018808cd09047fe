"""Whose growth is reported, where captured code reads the memory and other code makes it larger."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "workspace-growth"

TABLE = """
import torch


class Table:
    def __init__(self, device):
        self.device = device
        self.make(64)

    def make(self, rows):
        self.rows = rows
        self.data = torch.zeros(rows, device=self.device)

    def ensure(self, rows):
        {ensure}


class Steps:
    def __init__(self, net, table: Table):
        self.net = net
        self.table = table
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.step()

    def step(self):
        return self.net({read})

    def admit(self, rows):
        self.table.ensure(rows)
"""

AGAIN = "if rows > self.rows:\n            self.make(rows)"
BEHIND = (
    "have = self.data.shape[0]\n        if rows <= have:\n            return\n"
    "        larger = torch.zeros(rows, device=self.device)\n        self.data = larger"
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(text: str) -> list[str]:
    text = text.lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    return [text.encode()[slice(*each.span)].decode() for each in findings]


@pytest.mark.parametrize(
    ("ensure", "read", "expected"),
    [
        (AGAIN, "self.table.data", ["self.make(rows)"]),
        (BEHIND, "self.table.data", ["self.data = larger"]),
        (AGAIN, "1", []),
        (BEHIND, "1", []),
        ("assert rows <= self.rows", "self.table.data", []),
    ],
)
def test_memory_that_captured_code_reads(ensure: str, read: str, expected: list[str]) -> None:
    assert reported(TABLE.format(ensure=ensure, read=read)) == expected


SHARED = """
import torch

_block = None


def block(n):
    global _block
    if _block is None or _block.numel() < n:
        _block = torch.empty(n, device="cuda")
    return _block


class Steps:
    def __init__(self, net, n):
        self.net = net
        {given}
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.net(part)

    def eager(self, n):
        return self.net(block(n))
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("self.part = part = block(n)", []),
        ("part = block(n)", ['_block = torch.empty(n, device="cuda")']),
    ],
)
def test_who_captures_keeps_the_block_and_who_runs_eagerly_need_not(given: str, expected: list[str]) -> None:
    assert reported(SHARED.format(given=given)) == expected


KEPT = """
import torch


class Space:
    def __init__(self):
        self.block = torch.empty(4, device="cuda")
        self.before = []

    def get(self, n):
        if self.block.numel() < n:
            {keep}
            self.block = torch.empty(n, device="cuda")
        return self.block


def record(space: Space, net):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = net(space.get(4))
    return graph, out
"""


@pytest.mark.parametrize(
    ("keep", "lines"),
    [
        ("self.before += [self.block]", 0),
        ("self.before.append((4, self.block))", 0),
        ("self.before.append(dict(n=4, block=self.block))", 0),
        ("self.before += [4]", 1),
    ],
)
def test_how_what_was_there_is_kept(keep: str, lines: int) -> None:
    assert len(reported(KEPT.format(keep=keep))) == lines


LAUNCHES = """
import torch


class Plan:
    def __init__(self, rows):
        self.rows = rows
        self.index = torch.empty(rows, device="cuda")

    def launch(self):
        if self.rows:
            self.index = torch.empty(self.rows, device="cuda")


class Launches:
    def __init__(self):
        self.plan = Plan(8)

    def run(self, rows):
        if torch.cuda.is_current_stream_capturing() and not rows:
            raise RuntimeError("nothing to capture")
        if self.plan.rows != rows:
            self.plan.rows = rows
            self.plan.launch()
            {other}
"""


@pytest.mark.parametrize(
    ("other", "expected"), [("return\n        self.plan.launch()", []), ("return", ["self.plan.launch()"])]
)
def test_what_is_made_again_either_way_is_not_made_for_being_too_small(other: str, expected: list[str]) -> None:
    assert reported(LAUNCHES.format(other=other)) == expected
