"""Releases that a class inherits, mixes in, or writes as another value; graphs of functions in a function."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

MIXED = """
import torch


class Base:
    def __init__(self, net):
        self.net = net
        self.kv_rows = torch.zeros(8, device="cuda")
        self.prepare()

    def forward(self):
        return self.net(self.kv_rows)

    def close(self):
        {give}


class Recording:
    def prepare(self):
        self.graph = torch.cuda.CUDAGraph()
        self.forward()
        with torch.cuda.graph(self.graph):
            self.out = self.forward()

    def forget(self):
        self.graph.reset()


class Runner(Recording, Base):
    def close(self):
        {first}
        {second}
"""
ABOVE, FORGET = "super().close()", "self.forget()"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(text: str) -> list[str]:
    text = text.lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("manager-order",))).findings
    return [text.encode()[slice(*each.span)].decode() for each in findings]


@pytest.mark.parametrize(
    ("give", "expected"),
    [
        ("self.kv_rows = None", [FORGET]),
        ("del self.kv_rows", [FORGET]),
        ("self.kv_rows = torch.empty(0)", [FORGET]),
        ("self.kv_rows = torch.tensor([])", [FORGET]),
        ("self.kv_rows.data = torch.empty(0)", [FORGET]),
        ("self.kv_rows.resize_(0)", [FORGET]),
        ("self.kv_rows.zero_()", []),
    ],
)
def test_a_mixin_and_the_class_beside_it(give: str, expected: list[str]) -> None:
    assert reported(MIXED.format(give=give, first=ABOVE, second=FORGET)) == expected
    assert reported(MIXED.format(give=give, first=FORGET, second=ABOVE)) == []


def test_a_mixin_that_stands_behind_the_class() -> None:
    text = MIXED.format(give="self.kv_rows = None", first=ABOVE, second=FORGET)
    assert reported(text.replace("(Recording, Base)", "(Base, Recording)")) == [FORGET]


UPDATED = """
import torch


class Layer:
    def __init__(self):
        self.k_cache = torch.zeros(8, device="cuda")

    def unbind(self):
        self.k_cache = None


class Step:
    def __init__(self, layer):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = layer.k_cache * 2

    def free(self):
        self.graph.reset()


class Runner:
    def __init__(self):
        self.layer = Layer()
        self.steps = {{}}
        self.steps.update({{n: Step(self.layer) for n in (2, 1)}})

    def close(self):
        {first}
        {second}
"""
LOOP = "for step in self.steps.values():\n            step.free()"


def test_what_an_update_puts_into_a_table() -> None:
    assert reported(UPDATED.format(first="self.layer.unbind()", second=LOOP)) == ["step.free()"]
    assert reported(UPDATED.format(first=LOOP, second="self.layer.unbind()")) == []


CLOSURE = """
import torch


def make(net, n):
    kv_cache = {{"rows": torch.zeros(n, device="cuda")}}
    graphs = {{}}

    def record(size):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(kv_cache["rows"][:size])
        graphs[size] = graph

    def close():
        {first}
        {second}

    return record, close
"""
DEATHS = "for graph in graphs.values():\n            graph.reset()"


def test_functions_in_a_function() -> None:
    assert reported(CLOSURE.format(first="kv_cache.clear()", second=DEATHS)) == ["graph.reset()"]
    assert reported(CLOSURE.format(first=DEATHS, second="kv_cache.clear()")) == []


LISTED = """
import torch


class Pages:
    def __init__(self):
        self.rows = torch.zeros(8, device="cuda")

    def release(self):
        self.rows = None


class Graphs:
    def __init__(self, pages):
        self.pages = pages
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = pages.rows * 2

    def release(self):
        self.graph.reset()


class Engine:
    def __init__(self):
        self.pages = Pages()
        self.graphs = Graphs(self.pages)
        self.parts = {empty}
        self.parts.append({first})
        self.parts.{method}{second})

    def close(self):
        for part in {order}:
            part.release()
"""


@pytest.mark.parametrize(
    ("first", "second", "method", "order", "expected"),
    [
        ("self.pages", "self.graphs", "append(", "self.parts", ["part.release()"]),
        ("self.graphs", "self.pages", "append(", "self.parts", []),
        ("self.pages", "self.graphs", "append(", "reversed(self.parts)", []),
        ("self.graphs", "self.pages", "append(", "reversed(self.parts)", ["part.release()"]),
        ("self.pages", "self.graphs", "insert(0, ", "self.parts", []),
    ],
)
def test_a_list_that_the_constructor_fills(
    first: str, second: str, method: str, order: str, expected: list[str]
) -> None:
    text = LISTED.format(empty="[]", first=first, second=second, method=method, order=order)
    assert reported(text) == expected


PARTED = """
import torch


class Worker:
    def __init__(self):
        self.table = torch.randn(8, 8, device="cuda")
        self.rows = torch.zeros(8, device="cuda")

    def fill(self, rows):
        {filled}

    def stopped(self):
        pass

    def close(self):
        {give}
        self.stopped()


class Recorded(Worker):
    def __init__(self):
        super().__init__()
        self.graph = torch.cuda.CUDAGraph()
        self.forward()
        with torch.cuda.graph(self.graph):
            self.out = self.forward()

    def forward(self):
        return self.rows @ self.table

    def eager(self, rows):
        return rows @ self.table

    def run(self, rows):
        self.fill(rows)
        self.graph.replay()
        return self.out.clone()

    def {name}(self):
        {first}
        {second}
"""
COPIED = "self.rows[: len(rows)].copy_(rows)"


def parted(
    first: str, second: str, *, give: str = "self.table = None", filled: str = COPIED, name: str = "close"
) -> str:
    return PARTED.format(first=first, second=second, give=give, filled=filled, name=name)


RESET = "self.graph.reset()"


@pytest.mark.parametrize("base", ["super().close()", "Worker.close(self)", "super(Recorded, self).close()"])
@pytest.mark.parametrize("give", ["self.table = None", "del self.table", "delattr(self, 'table')"])
def test_a_base_class_gives_up_what_the_graphs_of_its_heir_read(base: str, give: str) -> None:
    assert reported(parted(base, RESET, give=give)) == [RESET]
    assert reported(parted(RESET, base, give=give)) == []


def test_a_hook_of_the_base_class_comes_too_late() -> None:
    assert reported(parted("torch.cuda.synchronize()", RESET, name="stopped")) == ["self.stopped()"]


@pytest.mark.parametrize(
    "filled",
    [
        COPIED,
        "self.rows[:] = rows",
        "held = self.rows[: len(rows)]\n        held.copy_(rows)",
        "torch.mul(rows, 2, out=self.rows)",
    ],
)
def test_a_base_class_may_give_up_an_input(filled: str) -> None:
    assert reported(parted("super().close()", RESET, give="self.rows = None", filled=filled)) == []


def test_what_no_replay_fills_is_no_input() -> None:
    text = parted("super().close()", RESET, give="self.rows = None", filled="self.rows = self.rows")
    assert reported(text) == [RESET]


def test_what_captured_code_does_not_read_may_go() -> None:
    text = parted("super().close()", RESET).replace("return self.rows @ self.table", "return self.rows * 2")
    assert reported(text) == []


def test_one_class_alone_knows_what_it_does() -> None:
    text = parted("self.table = None", RESET)
    assert reported(text) == []


def test_a_class_gives_up_its_own_before_its_base_ends_the_graphs() -> None:
    text = (
        parted("pass", "self.table = None")
        .replace("class Worker:", "class Recorded:")
        .replace("class Recorded(Worker)", "class Runner(Recorded)")
    )
    text = text.replace("        self.table = None\n        self.stopped()", "        self.graph.reset()")
    assert reported(text.replace("pass\n        self.table = None", "self.table = None\n        super().close()")) == [
        "super().close()"
    ]
