"""Which second release is of the same object, and what its removal depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings
from graphlint.edits import Applicability
from graphlint.findings import Finding

ENGINE = """
from __future__ import annotations

import contextlib

import torch


class Steps:
    def __init__(self):
        self.table = {}

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.ones(n, device="cuda")
        self.table[n] = graph

    def release(self):
        for graph in self.table.values():
            graph.reset()
        self.ready = False


class Server:
    def __init__(self, names):
        self.by_name: dict[str, Steps] = {name: Steps() for name in names}
        self.in_order: list[Steps] = [Steps(), Steps()]
        self.main = Steps()
        self.draft = Steps()
        self.active = self.main

"""

OTHERS = {
    "under another literal key": 'self.by_name["a"].release()\nself.by_name["b"].release()',
    "under another index": "self.in_order[i].release()\nself.in_order[j].release()",
    "the rest of a list": "self.in_order[0].release()\nfor each in self.in_order[1:]:\n    each.release()",
    "one, then all": "self.by_name[i].release()\nfor each in self.by_name.values():\n    each.release()",
    "taken out one by one": "self.in_order.pop().release()\nself.in_order.pop().release()",
    "an index that moves": "self.in_order[i].release()\ni = j\nself.in_order[i].release()",
    "items that change places": (
        "self.by_name[i].release()\n"
        "self.by_name[i], self.by_name[j] = self.by_name[j], self.by_name[i]\n"
        "self.by_name[i].release()"
    ),
    "an attribute that is assigned": "self.active.release()\nself.active = self.draft\nself.active.release()",
    "an attribute that is made again": "self.main.release()\nself.main = Steps()\nself.main.release()",
    "an attribute that something gives": "self.main.release()\nself.main = replacement()\nself.main.release()",
    "a variable that is another now": "steps = self.main\nsteps.release()\nsteps = self.draft\nsteps.release()",
    "the caller goes on in between": "self.main.release()\nyield self\nself.main.release()",
    "two attributes of each": "for each in servers:\n    each.main.release()\n    each.draft.release()",
    "one of a list of both, then one of them": "both = [self.main, self.draft]\nboth[i].release()\nself.main.release()",
    "one of them, then one of a list of both": "both = [self.main, self.draft]\nself.main.release()\nboth[i].release()",
    "a method that is told which": "self.drop(i)\nself.drop(j)",
}
SAME = {
    "under one literal key": 'self.by_name["a"].release()\nself.by_name["a"].release()',
    "under one index": "self.in_order[i].release()\nself.in_order[i].release()",
    "all, then all": (
        "for each in self.in_order:\n    each.release()\nfor one in list(self.in_order):\n    one.release()"
    ),
    "one variable": "steps = self.by_name[i]\nsteps.release()\nsteps.release()",
    "an attribute": "self.main.release()\nself.main.release()",
    "an attribute that another name has": "steps = self.main\nself.main.release()\nsteps.release()",
    "a method that does it twice": "self.drop_all()\nself.drop_all()",
}


def found(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    monkeypatch.chdir(tmp_path)
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    helpers = (
        "    def drop(self, which):\n        self.by_name[which].release()\n\n"
        "    def drop_all(self):\n        for each in self.by_name.values():\n            each.release()\n\n"
    )
    text = f"{ENGINE.lstrip()}{helpers}    def stop(self, i, j, servers: list[Server], known=None):\n{lines}\n"
    Path("m.py").write_text(text)
    return list(check.check(["."], Settings(), registry.select(("duplicate-release",))).findings)


@pytest.mark.parametrize("body", OTHERS.values(), ids=list(OTHERS))
def test_other_objects(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(body, tmp_path, monkeypatch) == []


@pytest.mark.parametrize("body", SAME.values(), ids=list(SAME))
def test_one_object(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = found(body, tmp_path, monkeypatch)
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.SAFE


def test_all_of_a_table_and_then_one_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "for each in self.by_name.values():\n    each.release()\nself.by_name[i].release()"
    (finding,) = found(body, tmp_path, monkeypatch)
    assert finding.fix is not None
    assert finding.fix.conditions == ("nothing releases where the loop over self.by_name.values() has no round",)


@pytest.mark.parametrize("call", ["known()", "self.refill(i)", "self.pending.wait()", "unknown.step(self)"])
def test_a_call_that_nobody_knows_may_capture(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = found(f"self.main.release()\n{call}\nself.main.release()", tmp_path, monkeypatch)
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.UNSAFE
    assert finding.fix.conditions == (f"`{call}` captures nothing",)


def test_a_path_that_needs_the_second_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        "try:\n    self.main.record(i)\nexcept ValueError:\n    self.main.release()\nfinally:\n    self.main.release()"
    )
    assert [finding.fix for finding in found(body, tmp_path, monkeypatch)] == [None]


def test_a_stack_of_owners_of_pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = """
import torch


class Phase:
    def __init__(self):
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs = {}


class Phases:
    def __init__(self):
        self.open: list[Phase] = []

    def begin(self):
        self.open.append(Phase())

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.open[-1].pool):
            torch.ones(n, device="cuda")
        self.open[-1].graphs[n] = graph

    def end(self):
        phase = self.open.pop()
        while phase.graphs:
            phase.graphs.popitem()[1].reset()

    def end_all(self):
        while self.open:
            self.end()
"""
    Path("m.py").write_text(text)
    assert check.check(["."], Settings(), registry.select(("duplicate-release",))).findings == ()


def test_a_manager_whose_block_is_in_sight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "with paused(self.main):\n    torch.cuda.synchronize()"
    monkeypatch.chdir(tmp_path)
    found(body, tmp_path, monkeypatch)
    text = Path("m.py").read_text()
    manager = "@contextlib.contextmanager\ndef paused(steps: Steps):\n    steps.release()\n    yield\n    steps.release()\n\n\n"
    Path("m.py").write_text(text.replace("class Server:", f"{manager}class Server:"))
    (finding,) = check.check(["."], Settings(), registry.select(("duplicate-release",))).findings
    assert finding.rule == "duplicate-release"


def test_a_release_that_has_nothing_left_to_do_on_some_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = """
import torch


class Runner:
    def __init__(self):
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs = []

    def capture(self, step):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            step()
        self.graphs.append(graph)

    def drop_all(self):
        for graph in self.graphs:
            graph.reset()
        self.graphs.clear()
        self.pool = torch.cuda.graph_pool_handle()


class Engine:
    def __init__(self):
        self.runner = Runner()

    def shutdown(self):
        self.runner.drop_all()
        torch.cuda.empty_cache()
        self.runner.drop_all()
"""
    Path("m.py").write_text(text)
    (finding,) = check.check(["."], Settings(), registry.select(("duplicate-release",))).findings
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.SAFE


STACK = """
import torch


class Stack:
    def __init__(self):
        self.sets = []

    def push(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.ones(n, device="cuda")
        self.sets.append({n: graph})

    def pop(self):
        for graph in self.sets.pop().values():
            graph.reset()


class Server:
    def __init__(self):
        self.stack = Stack()
        self.stack.push(1)

    def load(self):
        self.stack.push(2)

    def unload(self):
        self.stack.pop()

    def attempt(self):
        FIRST
        self.load()
        self.unload()
        self.stack.pop()
"""


@pytest.mark.parametrize(("first", "count"), [("self.stack.push(3)", 0), ("pass", 1)])
def test_two_that_were_put_in_are_taken_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, count: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(STACK.replace("FIRST", first))
    findings = check.check(["."], Settings(), registry.select(("duplicate-release",))).findings
    assert len(findings) == count


HOLDERS = """
import torch


class Steps:
    def __init__(self):
        self.table = {}

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.ones(n, device="cuda")
        self.table[n] = graph

    def release(self):
        for graph in self.table.values():
            graph.reset()


class Executor:
    def __init__(self, steps: Steps):
        self.steps = steps

    def shutdown(self):
        self.steps.release()


class Creator:
    def __init__(self, steps: Steps):
        self.steps = steps

    def shutdown(self):
        self.steps.release()


def create(draft, wide):
    steps = Steps()
    steps.record(1)
    holder = Executor(steps) if wide else Creator(steps)
    holder.shutdown()
    for each in [ORDER]:
        if each is None:
            continue
        each.release()
"""


@pytest.mark.parametrize(("order", "count"), [("steps, draft", 1), ("draft", 0)])
def test_either_of_two_holders_leads_to_one_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, count: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(HOLDERS.replace("ORDER", order))
    assert len(check.check(["."], Settings(), registry.select(("duplicate-release",))).findings) == count
