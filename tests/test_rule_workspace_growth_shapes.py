"""In which shapes of code memory that grows under captured graphs is seen, whoever holds it and however it is made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "workspace-growth"

RUNNER = """

class Runner:
    def __init__(self, op: "Op", sizes, width):
        self.op = op
        self.steps = {}
        for n in sizes:
            x = torch.zeros(n, width, device="cuda")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = self.op(x)
            self.steps[n] = (graph, x, out)

    def prefill(self, x):
        return self.op(x)
"""

INIT = """
class Op:
    def __init__(self, width):
        self.width = width
        self.room = torch.empty(8, width, device="cuda")

    def __call__(self, x):
        n = x.shape[0]
"""


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(text: str) -> list[str]:
    Path("m.py").write_text("import torch\n" + text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    whole = Path("m.py").read_bytes()
    return [whole[slice(*each.span)].decode() for each in findings]


ROOM = """
        torch.mul(x, 2, out=self.room[:n])
        return self.room[:n].sum(0)
"""

IN_PLACE: Mapping[str, tuple[str, list[str]]] = {
    "a choice that keeps what is there": (
        "self.room = self.room if self.room.shape[0] >= n else torch.empty_like(x)",
        ["self.room = self.room if self.room.shape[0] >= n else torch.empty_like(x)"],
    ),
    "other data": (
        "if n > self.room.shape[0]:\n            self.room.data = torch.empty_like(x)",
        ["self.room.data = torch.empty_like(x)"],
    ),
    "other storage": (
        "if n > self.room.shape[0]:\n            self.room.set_(torch.empty_like(x))",
        ["self.room.set_(torch.empty_like(x))"],
    ),
    "set by its name": (
        'if n > self.room.shape[0]:\n            object.__setattr__(self, "room", torch.empty_like(x))',
        ['object.__setattr__(self, "room", torch.empty_like(x))'],
    ),
    "another size": (
        "if n != self.room.shape[0]:\n            self.room = torch.empty_like(x)",
        ["self.room = torch.empty_like(x)"],
    ),
    "repeated": (
        "if n > self.room.shape[0]:\n            self.room = self.room[:1].repeat(n, 1)",
        ["self.room = self.room[:1].repeat(n, 1)"],
    ),
    "computed of new memory": (
        "if n > self.room.shape[0]:\n            self.room = torch.outer(torch.arange(n, device=x.device), x[0]).cos()",
        ["self.room = torch.outer(torch.arange(n, device=x.device), x[0]).cos()"],
    ),
    "padded": (
        "if n > self.room.shape[0]:\n            self.room = torch.nn.functional.pad(self.room, (0, 0, 0, n))",
        ["self.room = torch.nn.functional.pad(self.room, (0, 0, 0, n))"],
    ),
    "a choice of the call's own": ("room = self.room if self.room.shape[0] >= n else torch.empty_like(x)", []),
    "written into what is there": ("self.room.data[:n] = 0\n        self.room.data.copy_(x)", []),
    "kept before": (
        "if n > self.room.shape[0]:\n            OLD.append(self.room)\n            self.room.data = torch.empty_like(x)",
        [],
    ),
}


@pytest.mark.parametrize(("grow", "expected"), IN_PLACE.values(), ids=IN_PLACE)
def test_how_the_memory_is_replaced(grow: str, expected: list[str]) -> None:
    assert reported(f"OLD = []\n{INIT}        {grow}{ROOM}{RUNNER}") == expected


HELD: Mapping[str, tuple[str, str]] = {
    "an object of the layer below": (
        """
class Layer:
    def __init__(self, width):
        self.partial = torch.empty(8, width, device="cuda")

class Op:
    def __init__(self, depth, width):
        self.layers = [Layer(width) for _ in range(depth)]
        self.rows = 8
        self.width = width

    def __call__(self, x):
        self.reserve(x.shape[0])
        for layer in self.layers:
            x = torch.mul(x, 2, out=layer.partial[: x.shape[0]])
        return x

    def reserve(self, rows):
        if rows <= self.rows:
            return
        self.rows = rows
        for layer in self.layers:
            layer.partial = torch.empty(rows, self.width, device="cuda")
""",
        'layer.partial = torch.empty(rows, self.width, device="cuda")',
    ),
    "a record that is replaced": (
        """
from typing import NamedTuple

class Work(NamedTuple):
    buffer: torch.Tensor
    rows: int

class Op:
    def __init__(self, width):
        self.work = Work(torch.empty(8, width, device="cuda"), 8)

    def __call__(self, x):
        if x.shape[0] > self.work.rows:
            self.work = self.work._replace(buffer=torch.empty_like(x), rows=x.shape[0])
        return torch.mul(x, 2, out=self.work.buffer[: x.shape[0]]).sum(0)
""",
        "self.work = self.work._replace(buffer=torch.empty_like(x), rows=x.shape[0])",
    ),
    "a dictionary that takes a display in": (
        """
class Op:
    def __init__(self):
        self.rooms = {}

    def __call__(self, x):
        have = self.rooms.get(x.dtype)
        if have is None or len(have) < x.shape[0]:
            self.rooms.update({x.dtype: torch.empty_like(x)})
        return torch.mul(x, 2, out=self.rooms[x.dtype][: x.shape[0]]).sum(0)
""",
        "self.rooms.update({x.dtype: torch.empty_like(x)})",
    ),
    "a dictionary that is united with one": (
        """
class Op:
    def __init__(self):
        self.rooms = {}

    def __call__(self, x):
        have = self.rooms.get(x.dtype)
        if have is None or len(have) < x.shape[0]:
            self.rooms |= {x.dtype: torch.empty_like(x)}
        return torch.mul(x, 2, out=self.rooms[x.dtype][: x.shape[0]]).sum(0)
""",
        "self.rooms |= {x.dtype: torch.empty_like(x)}",
    ),
    "attributes that a loop names": (
        """
class Op:
    PARTS = ("maxes", "sums")

    def __init__(self, width):
        self.width = width
        self.grow(8)

    def grow(self, rows):
        for part in self.PARTS:
            setattr(self, part, torch.empty(rows, self.width, device="cuda"))
        self.rows = rows

    def __call__(self, x):
        if x.shape[0] > self.rows:
            self.grow(x.shape[0])
        torch.mul(x, 2, out=self.maxes[: x.shape[0]])
        return torch.mul(x, 2, out=self.sums[: x.shape[0]])
""",
        "self.grow(x.shape[0])",
    ),
    "a buffer of a module": (
        """
class Op(torch.nn.Module):
    room: torch.Tensor

    def __init__(self, width):
        super().__init__()
        self.register_buffer("room", torch.empty(8, width), persistent=False)

    def forward(self, x):
        if x.shape[0] > len(self.room):
            self.register_buffer(name="room", tensor=torch.empty_like(x))
        return torch.mul(x, 2, out=self.room[: x.shape[0]]).sum(0)
""",
        'self.register_buffer(name="room", tensor=torch.empty_like(x))',
    ),
    "a default that everybody shares": (
        """
def scratch(x, *, kept={}):
    have = kept.get(x.dtype)
    if have is None or have.shape[0] < x.shape[0]:
        kept[x.dtype] = torch.empty_like(x)
    return kept[x.dtype][: x.shape[0]]

class Op:
    def __call__(self, x):
        return torch.mul(x, 2, out=scratch(x)).sum(0)
""",
        "kept[x.dtype] = torch.empty_like(x)",
    ),
    "a default that is a table of the module": (
        """
TABLE = {}

def scratch(x, kept=TABLE):
    have = kept.get(x.dtype)
    if have is None or have.shape[0] < x.shape[0]:
        have = kept[x.dtype] = torch.empty_like(x)
    return have[: x.shape[0]]

class Op:
    def __call__(self, x):
        return torch.mul(x, 2, out=scratch(x)).sum(0)
""",
        "have = kept[x.dtype] = torch.empty_like(x)",
    ),
}


@pytest.mark.parametrize(("op", "expected"), HELD.values(), ids=HELD)
def test_what_holds_the_memory(op: str, expected: str) -> None:
    assert reported(op + RUNNER) == [expected]


def test_a_table_that_every_caller_gives_is_the_caller_s() -> None:
    given = HELD["a default that everybody shares"][0].replace("scratch(x))", "scratch(x, kept={}))")
    assert reported(given + RUNNER) == []


def test_a_method_of_the_project_registers_what_it_likes() -> None:
    own = """
class Op:
    def __init__(self):
        self.room = torch.empty(8, 8, device="cuda")

    def register_buffer(self, name, tensor):
        print(name, tensor.shape)

    def __call__(self, x):
        if x.shape[0] > len(self.room):
            self.register_buffer("room", torch.empty_like(x))
        return torch.mul(x, 2, out=self.room[:1])
"""
    assert reported(own + RUNNER) == []


TABLE = """
class Table:
    def __init__(self, rows):
        self.ids = torch.zeros(rows, dtype=torch.int64, device="cuda")

    def widen(self, rows):
        if rows > self.ids.shape[0]:
            self.ids = torch.cat([self.ids, self.ids.new_zeros(rows - self.ids.shape[0])])


class Steps:
    def __init__(self, sizes):
        self.table = Table(max(sizes))
        self.sizes = sizes
        self.graphs = {{}}
        self.record()

    def record(self):
        for n in self.sizes:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = self.table.ids[:n] + 1
            self.graphs[n] = (graph, out)

    def drop(self):
        while self.graphs:
            self.graphs.popitem()[1][0].reset()

    def admit(self, rows):
        {before}
        {grow}
        self.record()
"""


@pytest.mark.parametrize(
    ("before", "grow", "count"),
    [
        ("pass", "self.table.widen(rows)", 1),
        ("self.drop()", "self.table.widen(rows)", 0),
        ("self.drop()", "for n in rows:\n            self.table.widen(n)\n            self.record()", 1),
    ],
)
def test_who_widens_the_table_may_have_dropped_the_graphs(before: str, grow: str, count: int) -> None:
    assert len(reported(TABLE.format(before=before, grow=grow))) == count
