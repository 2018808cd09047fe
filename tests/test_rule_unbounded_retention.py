"""What is noted as a list of retired memory that only grows, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings
from graphlint.findings import Severity

RULE = "unbounded-retention"

PROGRAM = """
import torch


class Scratch:
    def __init__(self):
        self.buffer = torch.empty(4, device="cuda")
        self.retired = []

    def get(self, n):
        if self.buffer.numel() < n:
            self.retired.append(self.buffer)
            self.buffer = torch.empty(n, device="cuda")
        return self.buffer[:n]
{method}

class Runner:
    def __init__(self, scratch: Scratch):
        self.scratch = scratch
        self.graph = None

    def step(self, x):
        return x + self.scratch.get(x.shape[0])

    def record(self, x):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step(x)

    def release(self):
        {release}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def noted(release: str = "self.graph.reset()", method: str = "") -> list[str]:
    """The noted lines of the program, with this release and this further method of the scratch."""
    text = PROGRAM.replace("{release}", release).replace("{method}", method).lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert all(each.severity is Severity.NOTE for each in findings)
    return [text.encode()[slice(*each.span)].decode() for each in findings]


def test_a_list_that_nothing_takes_from_is_noted() -> None:
    assert noted() == ["self.retired.append(self.buffer)"]


@pytest.mark.parametrize(
    "method",
    [
        "\n    def free(self):\n        self.retired.clear()\n",
        "\n    def free(self):\n        self.retired = []\n",
        "\n    def free(self):\n        while self.retired:\n            self.retired.pop()\n",
        "\n    def free(self):\n        del self.retired[:]\n",
    ],
)
def test_a_list_that_something_empties_is_not(method: str) -> None:
    assert noted(method=method) == []


def test_a_list_that_its_owner_empties_is_not() -> None:
    assert noted(release="self.graph.reset()\n        self.scratch.retired.clear()") == []


def test_nothing_is_noted_where_no_graph_is_reset() -> None:
    assert noted(release="pass") == []


def test_nothing_is_noted_where_nothing_captures_it() -> None:
    text = (
        PROGRAM.replace("{release}", "self.graph.reset()")
        .replace("{method}", "")
        .replace("self.step(x)\n\n", "pass\n\n")
    )
    Path("m.py").write_text(text)
    assert check.check(["."], Settings(), registry.select((RULE,))).findings == ()


READ = """
import torch


class Bank:
    def __init__(self):
        self.table = torch.zeros(8, 4, device="cuda")
        self.count = 0
        self.former = []

    def add(self, row):
        if self.count == self.table.shape[0]:
            self.double()
        self.table[self.count].copy_(row)
        self.count += 1

    def double(self):
        former = self.table
        self.former.append(former)
        self.table = torch.zeros(2 * former.shape[0], 4, device="cuda")


class Runner:
    def __init__(self, bank: Bank):
        self.bank = bank
        self.graph = torch.cuda.CUDAGraph()

    def record(self, net, x):
        with torch.cuda.graph(self.graph):
            net(x, {table})

    def release(self):
        self.graph.reset()
"""


@pytest.mark.parametrize(("table", "expected"), [("self.bank.table", ["self.former.append(former)"]), ("x", [])])
def test_what_grows_outside_of_captures_and_is_read_in_them(table: str, expected: list[str]) -> None:
    text = READ.format(table=table)
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == expected


NAMED = """
import collections

import torch


class Spaces:
    def __init__(self):
        self.current = {{}}
        self.parked = collections.defaultdict(list)

    def at_least(self, name: str, n):
        have = self.current.get(name)
        if have is not None and have.numel() >= n:
            return have[:n]
        if have is not None:
            self.parked[name].append(have)
        self.current[name] = torch.empty(n, device="cuda")
        return self.current[name]


class Runner:
    def __init__(self, spaces: Spaces):
        self.spaces = spaces
        self.graph = torch.cuda.CUDAGraph()

    def record(self, x):
        with torch.cuda.graph(self.graph):
            x + self.spaces.at_least("states", x.numel())

    def release(self):
        self.graph.reset()
        {end}
"""


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("pass", ["self.parked[name].append(have)"]),
        ("self.spaces.parked.clear()", []),
        ("for old in self.spaces.parked.values():\n            old.clear()", []),
    ],
)
def test_lists_by_name(end: str, expected: list[str]) -> None:
    text = NAMED.format(end=end)
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == expected


@pytest.mark.parametrize(
    ("start", "keep", "kept"),
    [
        ("()", "self.retired = (*self.retired, self.buffer)", True),
        ("[]", "self.retired = self.retired + [self.buffer]", True),
        ("[]", "self.retired = [*self.retired, self.buffer]", True),
        ("[]", "self.retired = [self.buffer]", False),
    ],
)
def test_a_container_that_is_made_longer(start: str, keep: str, kept: bool) -> None:
    program = PROGRAM.replace("self.retired = []", f"self.retired = {start}")
    text = program.replace("self.retired.append(self.buffer)", keep)
    text = text.replace("{release}", "self.graph.reset()").replace("{method}", "").lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == ([keep] if kept else [])
