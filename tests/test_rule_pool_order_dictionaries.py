"""Programs of functions that pass a dictionary around, or keep one in the module, where others have an object."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

STATE = """
import torch

_rows = {{}}


def rows(n):
    if n not in _rows:
        _rows[n] = torch.empty(n, 64, device="cuda")
    return _rows[n]


{made}


def record({given}n):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=state["pool"]):
        out = state["model"](rows(n))
    state["graphs"][n] = graph
    state["outs"][n] = out


def replay({given}n):
    state["graphs"][n].replay()
    return state["outs"][n].clone()


def down({alone}):
    for graph in state["graphs"].values():
        graph.reset()
    state["graphs"].clear()
    state["outs"].clear()
    {end}
"""
MADE = {
    "passed": {
        "made": 'def make(model):\n    return {"model": model, "pool": None, "graphs": {}, "outs": {}}',
        "given": "state, ",
        "alone": "state",
    },
    "made by dict()": {
        "made": "def make(model):\n    return dict(model=model, pool=None, graphs=dict(), outs=dict())",
        "given": "state: dict, ",
        "alone": "state: dict",
    },
    "filled step by step": {
        "made": "def make(model):\n    state = {}\n    state['model'], state['pool'] = model, None\n"
        "    state['graphs'], state['outs'] = {}, {}\n    return state",
        "given": "state, ",
        "alone": "state",
    },
    "kept in the module": {
        "made": 'state = {"model": print, "pool": None, "graphs": {}, "outs": {}}',
        "given": "",
        "alone": "",
    },
}
LATE = "torch.cuda.empty_cache()\n    _rows.clear()"
EARLY = "_rows.clear()\n    torch.cuda.empty_cache()"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(rule: str, text: str) -> list[str]:
    text = text.lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((rule,))).findings
    return [text.encode()[slice(*each.span)].decode() for each in findings]


@pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())
def test_a_pool_is_erased_while_memory_of_it_is_held(made: dict[str, str]) -> None:
    assert reported("pool-order", STATE.format(**made, end=LATE)) == ["torch.cuda.empty_cache()"]
    assert reported("pool-order", STATE.format(**made, end=EARLY)) == []


@pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())
def test_a_loop_over_the_graphs_of_a_module_is_no_loop_over_engines(made: dict[str, str]) -> None:
    assert reported("shared-release", STATE.format(**made, end=EARLY)) == []


HANDLE = """
import torch


{made}


def record(model, {given}n):
    if state["pool"] is None:
        state["pool"] = torch.cuda.graph_pool_handle()
    x = torch.zeros(n, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=state["pool"]):
        model(x)
    state["graphs"][n] = graph, x


def reset({alone}):
    for graph, _ in state["graphs"].values():
        graph.reset()
    state["graphs"].clear()
    {end}
"""


@pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())
def test_a_handle_outlives_the_graphs(made: dict[str, str]) -> None:
    (found,) = reported("pool-handle", HANDLE.format(**made, end="pass"))
    assert found in ("graph.reset()", 'state["pool"] = torch.cuda.graph_pool_handle()')
    assert reported("pool-handle", HANDLE.format(**made, end='state["pool"] = None')) == []
    assert reported("pool-handle", HANDLE.format(**made, end='del state["pool"]')) == []


MODULE = """
import torch

_graphs = {{}}
_pool = None


def record(model, n):
    global _pool
    if _pool is None:
        _pool = torch.cuda.graph_pool_handle()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=_pool):
        model(n)
    _graphs[n] = graph


def reset():
    global _pool
    {reset}
    {end}
"""
ALL = "for graph in _graphs.values():\n        graph.reset()\n    _graphs.clear()"


@pytest.mark.parametrize(
    ("reset", "end", "expected"),
    [
        (ALL, "pass", ["_pool = torch.cuda.graph_pool_handle()"]),
        (ALL, "_pool = None", []),
        ("print(_graphs)", "pass", []),
    ],
)
def test_a_module_keeps_graphs_and_their_handle(reset: str, end: str, expected: list[str]) -> None:
    assert reported("pool-handle", MODULE.format(reset=reset, end=end)) == expected
    assert reported("shared-release", MODULE.format(reset=reset, end=end)) == []


TABLE = """
import torch

tables = {{"a": {{}}, "b": {{}}}}


def record(n, name):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        n + 1
    tables[{key}][n] = graph


def reset():
    for graph in tables["a"].values():
        graph.reset()
    for graph in tables[{key}].values():
        graph.reset()
"""


def test_what_is_read_by_computed_keys_is_a_table() -> None:
    second = "graph.reset()"
    assert reported("duplicate-release", TABLE.format(key='"a"')) == [second]
    assert reported("duplicate-release", TABLE.format(key='"b"')) == []


SHARED = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, net, pool):
        super().__init__()
        self.net = net
        self.pool = pool
        self.graph = None

    def forward(self, x):
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, pool=self.pool):
                self.net(x)
        self.graph.replay()

    def forget(self):
        self.graph = None


class Net(nn.Module):
    def __init__(self, nets):
        super().__init__()
        self.pool = torch.cuda.graph_pool_handle()
        self.blocks = nn.ModuleList(Block(net, self.pool) for net in nets)

    def forward(self, x):
        for block in self.blocks:
            block(x)

    def reload(self):
        for block in self.blocks:
            block.forget()
        {end}
"""


def test_a_handle_that_several_objects_share_is_left_behind_where_all_of_them_forget_their_graphs() -> None:
    assert reported("pool-handle", SHARED.format(end="pass")) == ["block.forget()"]
