"""What stands beside a workspace and says that it does not grow: a twin that is there, a flag that whoever captures sets."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "workspace-growth"

PAIR = """
    import torch


    class Rows:
        def __init__(self):
            self.most = 0
            self.sums = None
            self.scales = None

        def make(self, n):
            {made}
            self.scales = torch.empty(n, 1, device="cuda")
            self.most = n

        def drop(self):
            {dropped}
            self.scales = None
            self.most = 0


    def fit(rows, n):
        if n <= rows.most:
            return True
        {test}
        rows.make(n)
        return True


    class Runner:
        def __init__(self):
            self.rows = Rows()
            self.graph = torch.cuda.CUDAGraph()

        def step(self, x):
            if not fit(self.rows, x.shape[0]):
                return x * 2
            return x * self.rows.scales[:x.shape[0]]

        def record(self, x):
            self.step(x)
            with torch.cuda.graph(self.graph):
                self.y = self.step(x)
"""
MADE = "self.sums = torch.empty(n, 8, device='cuda')"


@pytest.mark.parametrize(
    ("made", "dropped", "test", "expected"),
    [
        (MADE, "self.sums = None", "if rows.sums is not None:\n            return False", 0),
        (MADE, "self.sums = None", "rows.drop()", 1),
        (MADE, "pass", "if rows.sums is None:\n            return False", 1),
        ("pass", "self.sums = None", "if rows.sums is not None:\n            return False", 1),
    ],
)
def test_a_twin_that_is_there(made: str, dropped: str, test: str, expected: int) -> None:
    assert len(found(PAIR.format(made=made, dropped=dropped, test=test))) == expected


FLAG = """
    import torch


    class Room:
        def __init__(self):
            self.block = None
            self.taken = False

        def take(self):
            self.taken = True

        def fit(self, n):
            if self.block is None or self.block.numel() < n:
                if {flag}:
                    return None
                self.block = torch.empty(n, device="cuda")
            return self.block[:n]


    class Runner:
        def __init__(self, x):
            self.room = Room()
            self.graph = torch.cuda.CUDAGraph()
            self.step(x)
            with torch.cuda.graph(self.graph):
                self.y = self.step(x)
            {call}

        def step(self, x):
            block = self.room.fit(x.numel())
            return x * 2 if block is None else x + block
"""


@pytest.mark.parametrize(
    ("flag", "call", "expected"),
    [
        ("self.taken", "self.room.take()", 0),
        ("self.taken", "pass", 1),
        ("n > 1 << 20", "self.room.take()", 1),
    ],
)
def test_a_flag_that_whoever_captures_sets(flag: str, call: str, expected: int) -> None:
    assert len(found(FLAG.format(flag=flag, call=call))) == expected


def found(text: str) -> list[str]:
    Path("m.py").write_text(textwrap.dedent(text))
    return [each.rule for each in check.check(["."], Settings(), registry.select((RULE,))).findings]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
