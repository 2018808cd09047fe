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


LEFT_OUT = """
from typing import Protocol

import torch


class Part(Protocol):
    def rest(self) -> None: ...


class Store:
    def __init__(self):
        self.rows = torch.zeros(8, device="cuda")

    def rest(self):
        self.rows = None


class Steps:
    def __init__(self, net, store: Store):
        self.store = store
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = net(store.rows)

    def rest(self):
        self.graph.reset()
        self.out = None


class Executor:
    def __init__(self, net):
        store = Store()
        self.steps = Steps(net, store)
        self.store = store
        self.all: dict[str, Part] = {{"store": store, "steps": self.steps}}

    def suspend(self):
        {first}
        for each in self.all.values():
            {test}
                each.rest()
"""


@pytest.mark.parametrize(
    ("first", "test", "count"),
    [
        ("pass", "if True:", 1),
        ("self.steps.rest()", "if True:", 0),  # they are dead before the loop comes to the memory
        ("self.steps.rest()", "if each is not self.steps:", 0),
        ("pass", "if each is not self.store:", 0),
    ],
)
def test_a_loop_that_leaves_one_of_them_out(tmp_path: Path, first: str, test: str, count: int) -> None:
    (tmp_path / "m.py").write_text(LEFT_OUT.format(first=first, test=test))
    found = check.check([str(tmp_path)], Settings(), registry.select(("manager-order",))).findings
    assert len(found) == count


COUNTED = """
import torch


class Attention:
    users = 0
    space = None

    def __init__(self, net):
        if Attention.space is None:
            Attention.space = torch.zeros(8, device="cuda")
        Attention.users += 1
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = net(Attention.space)

    def close(self):
        self.graph.reset()
        {count}
        if {test}:
            Attention.space = None


class Backend:
    def __init__(self, net):
        self.full = Attention(net)
        self.local = Attention(net)

    def close(self):
        self.local.close()
        self.full.close()
"""


@pytest.mark.parametrize(
    ("count", "test", "count_of_findings"),
    [("Attention.users -= 1", "Attention.users == 0", 0), ("pass", "Attention.space is not None", 1)],
)
def test_memory_that_goes_with_the_last_user(tmp_path: Path, count: str, test: str, count_of_findings: int) -> None:
    (tmp_path / "m.py").write_text(COUNTED.format(count=count, test=test))
    found = check.check([str(tmp_path)], Settings(), registry.select(("manager-order",))).findings
    assert len(found) == count_of_findings
