"""Which second releases are reported, by the way that leads to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "duplicate-release"

OWNER = """
import contextlib
from typing import Any

import torch


class Owner:
    def __init__(self, net):
        self.net = net
        self.table: dict[int, Any] = {}

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = self.net(n)
        self.table[n] = dict(graph=graph, y=y, x=torch.zeros(n))

    def free(self):
        for entry in self.table.values():
            entry["graph"].reset()

    def close(self):
        self.free()


class Told:
    def close(self):
        print("closing")
        super().close()

"""

CASES = {
    "a mixin passes the call on": (
        """
class Backend(Told, Owner):
    def close(self):
        super().close()
        self.free()
""",
        ["self.free()"],
    ),
    "a mixin passes the call on, and nothing else releases": (
        """
class Backend(Told, Owner):
    def close(self):
        super().close()
        self.net = None
""",
        [],
    ),
    "a stack calls back": (
        """
def use(net):
    with contextlib.ExitStack() as stack:
        owner = Owner(net)
        stack.callback(owner.free)
        owner.record(1)
        owner.free()
""",
        ["stack.callback(owner.free)"],
    ),
    "a stack alone calls back": (
        """
def use(net):
    with contextlib.ExitStack() as stack:
        owner = Owner(net)
        stack.callback(owner.free)
        owner.record(1)
""",
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_second_release(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rest, expected = CASES[case]
    text = OWNER.lstrip("\n") + rest
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == expected
