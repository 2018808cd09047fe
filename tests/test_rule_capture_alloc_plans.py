"""Memory on first use that the warm-up goes around: what decides about it is set between the warm-up and the capture."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PLANNED = """
import functools

import torch


class Attention:
    def __init__(self, rows):
        self.rows = rows
        self.parts = 1
        self._made = {{}}
        self._block = None

    {lazy}

    def plan(self, context):
        self.parts = (context + 63) // 64

    def replan(self, context):
        self.plan(context)

    def __call__(self, x):
        if self.parts == 1:
            return x * 2
        block = {read}
        torch.mul(x, 2, out=block)
        return block.sum()


class Decoder:
    def __init__(self, attention: Attention, x):
        self.attention = attention
        self.x = x
        {before}
        self.attention(x)
        torch.cuda.synchronize()
        {between}
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.attention(self.x)
"""
NEW = "torch.empty(self.rows, device='cuda')"
CACHED = "@functools.cached_property\n    def block(self):\n        return " + NEW
LAZY = (
    "@property\n    def block(self):\n        if self._block is None:\n            self._block = " + NEW + "\n"
    "        return self._block"
)
MEMO = "@functools.lru_cache\n    def made(self, parts):\n        return " + NEW
TABLE = (
    "def made(self, parts):\n        if parts not in self._made:\n            self._made[parts] = " + NEW + "\n"
    "        return self._made[parts]"
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(text: str) -> list[str]:
    text = text.lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("capture-alloc",))).findings
    return [f"{text.encode()[slice(*each.span)].decode()} {each.severity.value}" for each in findings]


def planned(lazy: str, read: str, before: str, between: str) -> str:
    return PLANNED.format(lazy=lazy, read=read, before=before, between=between)


@pytest.mark.parametrize(
    ("lazy", "read"),
    [(CACHED, "self.block"), (LAZY, "self.block"), (MEMO, "self.made(self.parts)"), (TABLE, "self.made(self.parts)")],
)
@pytest.mark.parametrize(
    "plan", ["self.attention.plan(4096)", "self.attention.replan(4096)", "self.attention.parts = 64"]
)
def test_a_plan_that_is_changed_behind_the_warm_up(lazy: str, read: str, plan: str) -> None:
    found = reported(planned(lazy, read, "self.attention.plan(1)", plan))
    assert [each.rpartition(" ")[0] for each in found] == [NEW]


@pytest.mark.parametrize("lazy", [CACHED, LAZY])
def test_memory_that_is_asked_for_before_under_no_test(lazy: str) -> None:
    assert reported(planned(lazy, "self.block", "self.attention.block", "self.attention.plan(4096)")) == []


def test_one_plan_for_both() -> None:
    assert reported(planned(CACHED, "self.block", "self.attention.plan(4096)", "pass")) == []
