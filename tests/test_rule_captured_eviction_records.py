"""Caches whose entries are device memory by their types alone: records, tuples, and what somebody else makes."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "captured-eviction"

PROGRAM = """
    import itertools
    from collections import OrderedDict, deque
    from dataclasses import dataclass
    from typing import Callable, Deque, Dict, Set, Tuple

    import torch

    CAP = 1 << 20


    @dataclass
    class Entry:
        value: torch.Tensor
        nbytes: int = 0
        used: int = 0
        pinned: bool = False


    class Budget:
        def __init__(self):
            self.used = 0
            self.most = 9


    class Shelf:
        def __init__(self, make: Callable[[str], Entry], leaving=None, stay=()):
            self._make = make
            self._leaving = leaving
            self._table: {table}
            self._pinned: Set[str] = set()
            self._apart: Dict[str, Entry] = {{}}
            self._clock = itertools.count()
            self._seen: Dict[str, int] = {{}}
            self._budget = Budget()
            self._stay = frozenset(stay)

        def get(self, name: str) -> Entry:
            {before}
            entry = self._table.get(name)
            if entry is None:
                if torch.cuda.is_current_stream_capturing():
                    raise RuntimeError(name)
                entry = self._make(name)
                {room}
                self._table[name] = entry
            {after}
            return entry

        def _room(self):
            {evict}

        {more}


    class Steps:
        def __init__(self, make):
            self.shelf = Shelf(make{leaving})
            self.graphs = {{}}
            self.kept = {{}}

        def body(self, name, x):
            return x * self.shelf.get(name).value

        def record(self, name, x):
            {warm}
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = self.body(name, x)
            self.graphs[name] = graph, out

        def forget(self, name):
            torch.cuda.synchronize()
            self.graphs.pop(name)[0].reset()
"""

PLAIN = {
    "table": "Dict[str, Entry] = OrderedDict()",
    "before": "pass",
    "after": "pass",
    "room": "self._room()",
    "evict": "if len(self._table) >= 4:\n    self._table.popitem(last=False)",
    "more": "",
    "leaving": "",
    "warm": "self.body(name, x)",
}
OLDEST = "coldest = min(self._table, key=lambda name: self._table[name].used)\n"
BYTES = "total = sum(entry.nbytes for entry in self._table.values())\n"
REPORTED = {
    "a count": ({}, "self._table.popitem(last=False)"),
    "bytes": (
        {"evict": f"{BYTES}while total > CAP:\n    {OLDEST}    total -= self._table.pop(coldest).nbytes"},
        "total -= self._table.pop(coldest).nbytes",
    ),
    "a loop that ends": (
        {"evict": f"{BYTES}for name in sorted(self._table):\n    if total <= CAP:\n        break\n"
                  "    total -= self._table.pop(name).nbytes"},
        "total -= self._table.pop(name).nbytes",
    ),
    "a call where it is full": (
        {"room": "while len(self._table) >= 4:\n    self._room()", "evict": "self._table.popitem(last=False)"},
        "self._table.popitem(last=False)",
    ),
    "what a filter finds too old": (
        {"evict": "now = next(self._clock)\nold = [name for name, entry in self._table.items() if now - entry.used > 9]\n"
                  "for name in old:\n    del self._table[name]"},
        "del self._table[name]",
    ),
    "a surplus": (
        {"evict": "surplus = len(self._table) - 4\nfor name in list(self._table)[:surplus]:\n    self._table.pop(name)"},
        "self._table.pop(name)",
    ),
    "as often as there are too many": (
        {"evict": "for _ in range(len(self._table) - 4):\n    self._table.popitem(last=False)"},
        "self._table.popitem(last=False)",
    ),
    "what is noted beside it is old": (
        {"after": "self._seen[name] = next(self._clock)",
         "evict": "limit = next(self._clock) - 9\nfor name, at in list(self._seen.items()):\n    if at < limit:\n"
                  "        self._table.pop(name, None)"},
        "self._table.pop(name, None)",
    ),
    "a budget says so": (
        {"evict": "while self._budget.used > self._budget.most:\n    self._table.popitem(last=False)"},
        "self._table.popitem(last=False)",
    ),
    "little memory is left": (
        {"evict": "free, _ = torch.cuda.mem_get_info()\nif free < CAP:\n    self._table.clear()"},
        "self._table.clear()",
    ),
    "everything is listed": (
        {"after": "self._pinned.add(name)",
         "evict": "for name in list(self._table):\n    if len(self._table) > 4 and name not in self._pinned:\n"
                  "        del self._table[name]"},
        "del self._table[name]",
    ),
}  # fmt: skip
PIN = "def pin(self, name):\n    self._pinned.add(name)"
SILENT = {
    "no bound": {"evict": "pass"},
    "memory is looked at": {"evict": "free, _ = torch.cuda.mem_get_info()\nif free < CAP:\n    print(free)"},
    "what nobody uses": {
        "evict": "idle = [name for name, entry in self._table.items() if entry.used <= 0]\n"
        "for name in idle:\n    del self._table[name]",
    },
    "one that is named": {"evict": "pass", "more": "def drop(self, name):\n    self._table.pop(name, None)"},
    "what is set aside stays": {
        "evict": "for name in list(self._table):\n    if len(self._table) > 4 and name not in self._pinned:\n"
        "        del self._table[name]",
        "more": PIN,
        "warm": "self.shelf.pin(name)",
    },
    "a filter leaves it out": {
        "evict": "spare = [name for name in self._table if name not in self._pinned]\n"
        "while len(self._table) > 4 and spare:\n    del self._table[spare.pop(0)]",
        "more": PIN,
        "warm": "self.shelf.pin(name)",
    },
    "what a graph is given has a table of its own": {
        "before": "if name in self._apart:\n    return self._apart[name]",
        "more": "def fix(self, name):\n    self._apart[name] = self._make(name)",
        "warm": "self.shelf.fix(name)",
    },
    "what was said at first stays": {
        "evict": "for name in list(self._table):\n    if len(self._table) > 4 and name not in self._stay:\n"
        "        del self._table[name]",
    },
    "nobody counts on it any more": {
        "evict": "for name, users in list(self._seen.items()):\n    if users <= 0:\n        self._table.pop(name)",
    },
    "its graphs go first": {
        "evict": "if len(self._table) >= 4:\n    name = next(iter(self._table))\n    self._leaving(name)\n"
        "    del self._table[name]",
        "leaving": ", leaving=self.forget",
    },
    "who captures keeps it": {"warm": "self.kept[name] = self.shelf.get(name)"},
    "numbers": {"table": "Dict[str, int] = OrderedDict()"},
}


def reported(**parts: str) -> list[str]:
    """The reported lines of the program with other parts."""
    text = textwrap.dedent(PROGRAM)
    for name, part in {**PLAIN, **parts}.items():
        line = next(each for each in text.splitlines() if f"{{{name}}}" in each)
        indent = " " * (len(line) - len(line.lstrip())) if line.strip() == f"{{{name}}}" else ""
        text = text.replace(f"{{{name}}}", textwrap.indent(part, indent).lstrip())
    Path("m.py").write_text(text.replace("{{}}", "{}"))
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    content = Path("m.py").read_bytes()
    return [content.splitlines()[content[: each.span.start].count(b"\n")].strip().decode() for each in findings]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("parts", "line"), REPORTED.values(), ids=REPORTED.keys())
def test_entries_that_captured_code_reads(parts: dict[str, str], line: str) -> None:
    assert reported(**parts) == [line]


@pytest.mark.parametrize("parts", SILENT.values(), ids=SILENT.keys())
def test_entries_that_no_graph_can_miss(parts: dict[str, str]) -> None:
    assert reported(**parts) == []


SEARCHED = """
    from collections import deque
    from typing import Deque

    import torch


    class Plans:
        def __init__(self):
            self.recent: Deque = deque(maxlen=8)

        def find(self, n):
            {first}
            for rows, plan in self.recent:
                if rows == n:
                    return plan
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError(n)
            plan = torch.arange(n, device="cuda")
            self.recent.append((n, plan))
            return plan


    class Runner:
        def __init__(self):
            self.plans = Plans()
            self.graph = torch.cuda.CUDAGraph()

        def record(self, x):
            self.plans.find(x.shape[0])
            with torch.cuda.graph(self.graph):
                self.y = x[self.plans.find(x.shape[0])]
"""


def test_a_search_comes_before_the_refusal() -> None:
    own = "if torch.cuda.is_current_stream_capturing():\n                return torch.arange(n, device='cuda')"
    for first, expected in (("pass", 1), (own, 0)):
        Path("m.py").write_text(textwrap.dedent(SEARCHED).format(first=first))
        assert len(check.check(["."], Settings(), registry.select((RULE,))).findings) == expected


KINDS = """
    from collections import OrderedDict
    from typing import Dict

    import torch
    from torch import nn


    class Lru(OrderedDict):
        def __init__(self, most):
            super().__init__()
            self.most = most

        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            if {full}:
                self.popitem(last=False)


    class Bias:
        def __init__(self):
            self.table = Lru(8)

        def of(self, n):
            if n not in self.table:
                self.table[n] = torch.zeros(n, device="cuda")
            return self.table[n]


    class Head(nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.weight = nn.Parameter(weight)

        def forward(self, x):
            return x @ self.weight


    class Heads:
        def __init__(self, make):
            self.make = make
            self.live: Dict[str, {kind}] = {{}}

        def __getitem__(self, name):
            if name not in self.live:
                if len(self.live) >= 4:
                    del self.live[next(iter(self.live))]
                self.live[name] = self.make(name)
            return self.live[name]


    def bounded(most):
        def around(function):
            store = OrderedDict()

            def inner(*key):
                if key not in store:
                    store[key] = function(*key)
                    if len(store) > {most}:
                        store.popitem()
                return store[key]

            return inner

        return around


    @bounded(8)
    def mask(n):
        return torch.ones(n, n, device="cuda")


    class Runner:
        def __init__(self, make):
            self.bias = Bias()
            self.heads = Heads(make)
            self.graph = torch.cuda.CUDAGraph()

        def step(self, name, x):
            return mask(x.shape[0]) @ (self.heads[name](x) + self.bias.of(x.shape[1]))

        def record(self, name, x):
            self.step(name, x)
            with torch.cuda.graph(self.graph):
                self.y = self.step(name, x)
"""


def test_other_kinds_of_caches() -> None:
    parts = {"full": "len(self) > self.most", "kind": "Head", "most": "most"}
    lines = ["self.popitem(last=False)", "del self.live[next(iter(self.live))]", "store.popitem()"]
    assert _lines(**parts) == lines
    assert _lines(**{**parts, "full": "key is None"}) == lines[1:]
    assert _lines(**{**parts, "kind": "int"}) == [lines[0], lines[2]]


def _lines(**parts: str) -> list[str]:
    text = textwrap.dedent(KINDS).format(**parts)
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    return [text.splitlines()[text[: each.span.start].count("\n")].strip() for each in findings]
