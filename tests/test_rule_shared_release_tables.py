"""A table of the process: which releases of it are releases of all that is in it, and which free what others read."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
import functools
from typing import NamedTuple, Optional

import torch


class Spaces:
    def __init__(self):
        self.by_owner = {{}}

    def get(self, owner, n):
        key = (owner, n)
        if key not in self.by_owner:
            assert not torch.cuda.is_current_stream_capturing()
            self.by_owner[key] = {made}
        return self.by_owner[key]

    def drop(self, owner=None, force=False):
        {drop}


spaces = Spaces()


class Runner:
    def __init__(self, net, name: str, {param}):
        self.net = net
        self.name = name
        self.group = {group}
        {init}
        self.step()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.step()

    def step(self):
        return self.net(spaces.get(self.name, 4))

    def release(self):
        self.graph.reset()
        {call}


class Server:
    def __init__(self, nets):
        self.runners = [Runner(net, str(i)) for i, net in enumerate(nets)]

    def trim(self):
        for runner in self.runners:
            if runner.idle():
                runner.release()
"""
ALL = "spaces.drop()"
OWN = "spaces.drop(self.name)"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(
    drop: str,
    call: str,
    *,
    param: str = "group=None",
    group: str = "group",
    init: str = "pass",
    made: str = 'torch.empty(n, device="cuda")',
) -> list[str]:
    text = PROGRAM.format(drop=drop, call=call, param=param, group=group, init=init, made=made).lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("shared-release",))).findings
    return [text.encode()[slice(*each.span)].decode() for each in findings]


def lines(*each: str) -> str:
    return "\n        ".join(each)


@pytest.mark.parametrize(
    "drop",
    [
        lines(
            "keys = list(self.by_owner) if owner is None else [k for k in self.by_owner if k[0] == owner]",
            "for key in keys:",
            "    self.by_owner.pop(key, None)",
        ),
        lines(
            "if owner is None:",
            "    keys = list(self.by_owner)",
            "else:",
            "    keys = [k for k in self.by_owner if k[0] == owner]",
            "for key in keys:",
            "    del self.by_owner[key]",
        ),
        lines(
            "for key in list(self.by_owner):",
            "    if owner is None or key[0] == owner:",
            "        del self.by_owner[key]",
        ),
        lines(
            "for key, space in list(self.by_owner.items()):",
            "    if owner is not None and key[0] != owner:",
            "        continue",
            "    self.by_owner.pop(key)",
        ),
        lines(
            "for key in [k for k in self.by_owner if owner is None or k[0] == owner]:",
            "    self.by_owner.pop(key)",
        ),
        lines(
            "if owner is not None:",
            "    for key in [k for k in self.by_owner if k[0] == owner]:",
            "        del self.by_owner[key]",
            "    return",
            "self.by_owner.clear()",
        ),
        lines(
            "if owner is None:",
            "    self.by_owner = {}",
            "else:",
            "    self.by_owner.pop((owner, 4), None)",
        ),
    ],
)
def test_a_release_of_all_by_default(drop: str) -> None:
    assert reported(drop, ALL) == [ALL]
    assert reported(drop, OWN) == []
    assert reported(drop, "spaces.drop(owner=None)") == ["spaces.drop(owner=None)"]
    assert reported(drop, "spaces.drop(self.group)") == ["spaces.drop(self.group)"]  # nobody is given a group
    assert reported(drop, "spaces.drop(self.group)", group="'group'") == []


@pytest.mark.parametrize(
    ("drop", "expected"),
    [
        (
            "for key in list(self.by_owner):\n            if key[0] == owner:\n                del self.by_owner[key]",
            [],
        ),
        (
            "for key in list(self.by_owner):\n            if force or key[0] == owner:\n                del self.by_owner[key]",
            [],
        ),
        ("while self.by_owner:\n            self.by_owner.popitem()", [ALL]),
        ("if self.by_owner:\n            self.by_owner.popitem()", []),
    ],
)
def test_other_ways_to_empty(drop: str, expected: list[str]) -> None:
    assert reported(drop, ALL) == expected


def test_what_came_behind_a_mark_is_not_all() -> None:
    drop = "while len(self.by_owner) > owner:\n            self.by_owner.popitem()"
    assert reported(drop, "spaces.drop(self.group)", group="len(spaces.by_owner)") == []
    assert reported(drop, "spaces.drop(0)") == ["spaces.drop(0)"]


def test_a_reference_that_goes_with_the_graphs_held_until_then() -> None:
    init = "self.space = spaces.get(name, 4)"
    assert reported("self.by_owner.clear()", f"self.space = None\n        {ALL}", init=init) == []


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        ("pass", [ALL]),
        ("self.space = spaces.get(name, 4)", []),
        ("self.mine = {}\n        self.mine[4] = spaces.get(name, 4)", []),
        ("for n in (1, 4):\n            self.space = spaces.get(name, n)", [ALL]),
        ("self.spaces = spaces.by_owner", [ALL]),
    ],
)
def test_who_has_a_reference_of_its_own_loses_nothing(init: str, expected: list[str]) -> None:
    assert reported("self.by_owner.clear()", ALL, init=init) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ('torch.outer(torch.arange(n, device="cuda"), torch.ones(n, device="cuda")).cos()', [ALL]),
        ('torch.nn.functional.pad(torch.ones(n, device="cuda"), (0, 1))', [ALL]),
        ('torch.numel(torch.ones(n, device="cuda"))', []),
    ],
)
def test_what_torch_computes_is_memory(made: str, expected: list[str]) -> None:
    assert reported("self.by_owner.clear()", ALL, made=made) == expected


MEMO = """
import functools
from typing import NamedTuple

import torch


@functools.lru_cache(maxsize=None)
def table(n, device):
    return torch.arange(n, device=device)


class Entry(NamedTuple):
    graph: torch.cuda.CUDAGraph
    {field}: torch.Tensor


class Runner:
    def __init__(self, net):
        self.net = net
        self.entries = {{}}

    def capture(self, n):
        {before}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.net({read})
        self.entries[n] = Entry(graph, {field})

    def release(self):
        for entry in self.entries.values():
            entry.graph.reset()
        self.entries.clear()
        table.cache_clear()


class Server:
    def __init__(self, nets):
        self.runners = [Runner(net) for net in nets]

    def trim(self):
        for runner in self.runners:
            if runner.idle():
                runner.release()
"""


def test_a_memo_whose_results_the_records_of_graphs_keep() -> None:
    def found(**parts: str) -> int:
        Path("m.py").write_text(MEMO.format(**parts).lstrip("\n"))
        return len(check.check(["."], Settings(), registry.select(("shared-release",))).findings)

    assert found(before="pass", read='table(n, "cuda")', field="out") == 1
    assert found(before='rows = table(n, "cuda")', read="rows", field="rows") == 0
    assert found(before='rows = table(n, "cuda")', read="rows", field="out") == 1


@pytest.mark.parametrize(
    "loop",
    [
        "while _graphs:\n        _, graph = _graphs.popitem()\n        graph.reset()",
        "for n in list(_graphs):\n        _graphs.pop(n).reset()",
        "for n in sorted(_graphs):\n        _graphs[n].reset()\n        del _graphs[n]",
    ],
)
def test_a_loop_that_ends_one_graph_after_the_other(loop: str) -> None:
    text = f"""
import torch

_graphs = {{}}


def record(net, sizes):
    for n in sizes:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(n)
        _graphs[n] = graph


def finalize():
    {loop}
"""
    Path("m.py").write_text(text.lstrip("\n"))
    assert check.check(["."], Settings(), registry.select(("shared-release",))).findings == ()


KEPT = """
import torch

KEPT: dict[str, list["Kept"]] = {{}}


class Kept:
    def __init__(self, tensor):
        self.tensor = tensor
        self.host = None

    def out(self):
        if self.host is None:
            self.host = self.tensor.cpu()
            {out}


def keep(tag, n):
    tensor = torch.ones(n, device="cuda")
    KEPT.setdefault(tag, []).append(Kept(tensor))
    return tensor


def offload(tag=None):
    for name, entries in KEPT.items():
        if tag is None or name == tag:
            for each in entries:
                each.out()


class Runner:
    def __init__(self, role: str):
        self.role = role
        self.weights = [keep(role, 8) for _ in range(2)]
        self.x = torch.ones(8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.x * self.weights[0] * self.weights[1]

    def sleep(self):
        self.graph.reset()
        {call}


class Server:
    def __init__(self, roles):
        self.runners = [Runner(role) for role in roles]

    def rest(self, role):
        for runner in self.runners:
            if runner.role == role:
                runner.sleep()
"""


@pytest.mark.parametrize(
    ("out", "call", "expected"),
    [
        ("self.tensor.untyped_storage().resize_(0)", "offload()", 1),  # whoever holds the tensor, its memory goes
        ("self.tensor.untyped_storage().resize_(0)", "offload(self.role)", 0),
    ],
)
def test_memory_that_goes_under_a_tensor(out: str, call: str, expected: int) -> None:
    Path("m.py").write_text(KEPT.format(out=out, call=call))
    assert len(check.check(["m.py"], Settings(), registry.select(("shared-release",))).findings) == expected


LEASES = """
import torch


class Slab:
    slab = None

    def __init__(self):
        self.rows = torch.ones(64, device="cuda")
        self.leases: dict[str, int] = {{}}
        self.ready = True

    @classmethod
    def open(cls, name):
        if cls.slab is None:
            cls.slab = cls()
        cls.slab.leases[name] = 1
        return cls.slab

    @classmethod
    def end(cls, name):
        if cls.slab is not None:
            cls.slab.leases.pop(name, None)
            {end}


class Model:
    def __init__(self, name: str):
        self.name = name
        self.x = torch.ones(64, device="cuda")
        Slab.open(name)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.x * Slab.slab.rows

    def suspend(self):
        self.graph.reset()
        Slab.end(self.name)


class Host:
    def __init__(self, names):
        self.models = {{name: Model(name) for name in names}}

    def swap(self, name):
        for each in self.models.values():
            if each.name == name:
                each.suspend()
"""


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("cls.slab = None", 1),
        ("if not cls.slab.leases:\n                cls.slab = None", 0),
        ("if cls.slab.ready:\n                cls.slab = None", 1),
    ],
)
def test_a_table_of_users_in_what_is_given_up(end: str, expected: int) -> None:
    Path("m.py").write_text(LEASES.format(end=end))
    assert len(check.check(["m.py"], Settings(), registry.select(("shared-release",))).findings) == expected


GRAPHS = """
import torch


class Engine:
    recorded: dict[tuple[str, int], torch.cuda.CUDAGraph] = {{}}

    def __init__(self, name: str, net):
        self.{key}, self.net = name, net

    def resume(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net()
        self.recorded[self.{key}, 1] = graph

    def suspend(self):
        for each in {keys}:
            self.recorded.pop(each).reset()
"""


@pytest.mark.parametrize(
    ("key", "keys", "expected"),
    [
        ("name", "list(self.recorded)", 1),
        ("name", "[each for each in self.recorded if each[0] == self.name]", 0),
        ("size", "list(self.recorded)", 0),  # nothing says that there are several
    ],
)
def test_a_table_of_graphs_that_have_names_of_their_owners(key: str, keys: str, expected: int) -> None:
    Path("m.py").write_text(GRAPHS.format(key=key, keys=keys))
    assert len(check.check(["m.py"], Settings(), registry.select(("shared-release",))).findings) == expected
