"""Evictions that another function makes than the one that finds the cache full, and entries that somebody holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "captured-eviction"

PROGRAM = """
import torch


class Entry:
    def __init__(self, weight):
        self.weight = weight
        self.asked = 0
        self.users = 0


class Shelf:
    def __init__(self, load, slots, device):
        self.load = load
        self.slots = slots
        self.device = device
        self.held = {{}}

    def fetch(self, name):
        entry = self.held.get(name)
        if entry is None:
            if {test}:
                {make_room}
            entry = Entry({made})
            self.held[name] = entry
        entry.asked += 1
        return entry.weight

    def make_room(self):
        {evict}

    def hold(self, name):
        self.held[name].users += 1


class Runner:
    def __init__(self, shelf: Shelf):
        self.shelf = shelf
        self.graphs = {{}}

    def record(self, name, x):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = x @ self.shelf.fetch(name)
        self.graphs[name] = (graph, out)
"""
FULL = "len(self.held) >= self.slots"
NEW = 'torch.zeros(4, 4, device="cuda")'
COLDEST = "self.held.pop(min(self.held, key=lambda name: self.held[name].asked))"
UNUSED = "self.held.pop(next(name for name, each in self.held.items() if {}))"


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(made: str = NEW, test: str = FULL, make_room: str = "self.make_room()", evict: str = COLDEST) -> list[str]:
    text = PROGRAM.format(made=made, test=test, make_room=make_room, evict=evict)
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    return [text.encode()[slice(*each.span)].decode() for each in findings]


@pytest.mark.parametrize("evict", [COLDEST, "del self.held[next(iter(self.held))]"])
def test_a_function_is_asked_to_make_room(evict: str) -> None:
    assert reported(evict=evict) == [evict]


def test_it_is_asked_for_another_reason() -> None:
    assert reported(test="name is None") == []


def test_a_part_takes_the_place_of_the_whole() -> None:
    cut = "self.held = {key: each for key, each in self.held.items() if each.asked > 3}"
    assert reported(make_room=cut) == [cut]
    assert reported(test="name is None", make_room=cut) == []


def test_who_takes_back_what_came_behind_a_mark_evicts_nothing() -> None:
    def back(keys: str) -> int:
        text = PROGRAM.format(made=NEW, test="False", make_room="pass", evict="pass") + ROLLED.format(keys=keys)
        Path("m.py").write_text(text)
        return len(check.check(["."], Settings(), registry.select((RULE,))).findings)

    assert back("list(shelf.held)[mark:]") == 0
    assert back("list(shelf.held)[:mark]") == 1
    assert back("sorted(shelf.held, key=lambda name: shelf.held[name].asked)[mark:]") == 1


ROLLED = """

def back_to(shelf: Shelf, mark: int):
    for name in {keys}:
        del shelf.held[name]
"""


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ("self.load(name).to(self.device)", 1),
        ('self.load(name).to("cuda:0")', 1),
        ("self.load(name).to(torch.float16)", 0),
        ("self.load(name)", 0),
    ],
)
def test_what_is_loaded_and_moved_to_a_device_is_memory_of_it(made: str, count: int) -> None:
    assert len(reported(made=made)) == count


@pytest.mark.parametrize(
    ("test", "is_reported"), [("each.users == 0", False), ("not each.users", False), ("each.asked < 3", True)]
)
def test_entries_that_somebody_holds_stay(test: str, is_reported: bool) -> None:
    evict = UNUSED.format(test)
    assert reported(evict=evict) == ([evict] if is_reported else [])


BOUNDED = """
from collections import OrderedDict

import torch


class Bounded:
    def __init__(self, most):
        self.most = most
        self.entries = OrderedDict()

    def put(self, key, value):
        self.entries[key] = value
        while len(self.entries) > self.most:
            self.entries.popitem(last=False)
        return value


TABLES = Bounded(64)
KEPT = {{}}


def table(n):
    if torch.cuda.is_current_stream_capturing() and n < 0:
        raise ValueError("no table")
    found = TABLES.entries.get(n)
    return TABLES.put(n, torch.empty(n, device="cuda")) if found is None else found


def launch(n, kernel):
    mine = table(n)
    if torch.cuda.is_current_stream_capturing():
        {aside}
    kernel(mine)
"""


@pytest.mark.parametrize(
    ("aside", "severity"), [("KEPT[n] = (kernel, mine)", "note"), ("print(n)", "warning"), ("n += 1", "warning")]
)
def test_an_entry_may_be_put_away_for_the_capture(aside: str, severity: str) -> None:
    Path("m.py").write_text(BOUNDED.format(aside=aside).lstrip("\n"))
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert [each.severity.value for each in findings] == [severity]
