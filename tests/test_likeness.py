"""Second releases of one object that has two names: two attributes of its owner, two keys of a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RUNNER = """
from typing import NamedTuple

import torch


class Runner:
    def __init__(self, net):
        self.net = net
        self.graphs = {}

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net(n)
        self.graphs[n] = graph

    def free(self):
        assert self.graphs is not None
        for graph in self.graphs.values():
            graph.reset()
        self.graphs = None

"""
PAIR = """
class Pair:
    def __init__(self, main: Runner, side: Runner | None = None):
        self.main = main
        {given}

    def close(self):
        {close}
"""
OR = "self.side = side or main"
CHOICE = "self.side = main if side is None else side"
BRANCH = "if side is None: self.side = self.main\n        else: self.side = side"
SAME = "self.side = main"
OTHER = "self.side = Runner(main.net)"
BOTH = "self.main.free()\n        self.side.free()"
UNLESS = "self.main.free()\n        if self.side is not self.main: self.side.free()"
FLAG = "self.own = side is not None\n        self.side = side or main"
FLAGGED = "self.main.free()\n        if self.own: self.side.free()"
SET = "for each in {self.main, self.side}: each.free()"
LISTED = "for each in (self.main, self.side): each.free()"
SIDE = "self.side.free()"

ALIVE = """
    def free(self):
        assert self.alive, "gone"
        self.alive = False
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
"""
PAIRS = {
    "or": (OR, BOTH, 1),
    "a choice": (CHOICE, BOTH, 1),
    "a branch": (BRANCH, BOTH, 1),
    "one object": (SAME, BOTH, 1),
    "a loop over both": (OR, LISTED, 1),
    "two objects": (OTHER, BOTH, 0),
    "unless they are one": (OR, UNLESS, 0),
    "a flag says whose it is": (FLAG, FLAGGED, 0),
    "a set of both": (OR, SET, 0),
    "one of them": (OR, SIDE, 0),
}

TABLE = """
class Table:
    def __init__(self):
        self.runners: dict[str, Runner] = {{}}
        self.others: dict[str, Runner] = {{}}

    def of(self, net):
        for runner in self.runners.values():
            if runner.net == net:
                return runner
        return Runner(net)

    def enter(self, net, *names: str):
        {enter}

    def close(self):
        {close}
"""
LOOP = "runner = Runner(net)\n        for name in names: self.runners[name] = runner"
OWN = "for name in names: self.runners[name] = Runner(net)"
TWO = 'runner = Runner(net)\n        self.runners["a"] = runner\n        self.runners["b"] = runner'
DISPLAY = 'runner = Runner(net)\n        self.runners = {"a": runner, "b": runner}'
DISPLAY_OF_TWO = 'self.runners = {"a": Runner(net), "b": Runner(net)}'
EACH = "for runner in self.runners.values(): runner.free()"
ONCE = "for runner in set(self.runners.values()): runner.free()"
SEEN = (
    "seen = []\n        for runner in self.runners.values():\n"
    "            if runner in seen: continue\n            runner.free(); seen.append(runner)"
)

TABLES = {
    "in a loop over numbers": ("runner = Runner(net)\n        for n in range(4): self.runners[n] = runner", EACH, 1),
    "a name for what is there": (OWN + "\n        self.runners['b'] = self.runners[net]", EACH, 1),
    "what is there, taken out": (OWN + "\n        self.runners[names[0]] = self.runners.pop(net)", EACH, 0),
    "renamed": (OWN + "\n        self.runners['b'] = self.runners[net]\n        del self.runners[net]", EACH, 0),
    "what a loop finds": (
        "for each in self.runners.values():\n            if each.net == net: self.runners[names[0]] = each; break",
        EACH,
        1,
    ),
    "the next that fits": (
        "self.runners[net] = next((e for e in self.runners.values() if e.net == net), None) or Runner(net)",
        EACH,
        1,
    ),
    "what a search gives": ("self.runners[names[0]] = self.of(net)", EACH, 1),
    "what a search gives, elsewhere": ("self.others[names[0]] = self.of(net)", EACH, 0),
    "one for all keys": ("self.runners = dict.fromkeys(names, Runner(net))", EACH, 1),
    "none for all keys": ("self.runners = dict.fromkeys(names)", EACH, 0),
    "a list of one": ("self.all = [Runner(net)] * 4", "for each in self.all: each.free()", 1),
    "a padded table": (
        (
            "made = {n: Runner(n) for n in names}\n        for rows in range(9):\n"
            "            self.runners[rows] = made[min(n for n in names if n >= rows)]"
        ),
        EACH,
        1,
    ),
    "a padded list": (
        (
            "made = [Runner(n) for n in names]\n        self.all = []\n        for rows in range(9):\n"
            "            self.all.append(made[bisect_left(names, rows)])"
        ),
        "for each in self.all: each.free()",
        1,
    ),
    "a padded list, once each": (
        (
            "made = [Runner(n) for n in names]\n        self.all = []\n        for rows in range(9):\n"
            "            self.all.append(made[bisect_left(names, rows)])"
        ),
        "for each in dict.fromkeys(self.all): each.free()",
        0,
    ),
    "by the half": (
        "made = [Runner(n) for n in names]\n        self.all = [made[n // 2] for n in range(9)]",
        "for each in self.all: each.free()",
        1,
    ),
    "one by one, by number": (
        "made = [Runner(n) for n in names]\n        self.all = [made[n] for n in range(len(names))]",
        "for each in self.all: each.free()",
        0,
    ),
    "made anew in each round": (
        "for rows in range(9): self.runners[rows] = Runner(min(n for n in names if n >= rows))",
        EACH,
        0,
    ),
    "in a loop": (LOOP, EACH, 1),
    "one by one": (TWO, EACH, 1),
    "in a display": (DISPLAY, EACH, 1),
    "each its own": (OWN, EACH, 0),
    "a display of two": (DISPLAY_OF_TWO, EACH, 0),
    "the set of them": (LOOP, ONCE, 0),
    "what was there is left out": (LOOP, SEEN, 0),
}


def found(path: Path, text: str) -> int:
    """How many findings a program has; none of them has a fix."""
    (path / "m.py").write_text(text)
    report = check.check([str(path)], Settings(), registry.select(("duplicate-release",)))
    assert not any("alike" in each.values and each.fix for each in report.findings)
    return len(report.findings)


@pytest.mark.parametrize("name", PAIRS)
def test_two_attributes_that_may_be_one_object(tmp_path: Path, name: str) -> None:
    given, close, expected = PAIRS[name]
    assert found(tmp_path, RUNNER + PAIR.format(given=given, close=close)) == expected


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_has_one_object_twice(tmp_path: Path, name: str) -> None:
    enter, close, expected = TABLES[name]
    assert found(tmp_path, RUNNER + TABLE.format(enter=enter, close=close)) == expected


def test_the_fields_of_a_named_tuple_are_released_one_by_one(tmp_path: Path) -> None:
    text = """
class Parts(NamedTuple):
    main: Runner
    side: Runner


class Pair:
    def __init__(self, net):
        self.parts = Parts(Runner(net), Runner(net))

    def close(self):
        for part in self.parts:
            part.free()
"""
    assert found(tmp_path, RUNNER + text) == 0
    assert found(tmp_path, RUNNER + text + "        self.parts.side.free()\n") == 1


GENERATED = """
class Pair:
    def __init__(self, net):
        self.main = Runner(net)
        self.side = Runner(net)
        self.rest = Runner(net)

    def each(self):
        yield self.main
        yield self.side

    def close(self):
        for runner in self.each():
            runner.free()
        {then}
"""


def test_what_a_generator_yields_is_released_one_by_one(tmp_path: Path) -> None:
    assert found(tmp_path, RUNNER + GENERATED.format(then="self.side.free()")) == 1
    assert found(tmp_path, RUNNER + GENERATED.format(then="self.rest.free()")) == 0


HELPED = """
class Share:
    def __init__(self):
        self.users = 0


SHARE = Share()


def give(runner: Runner):
    for graph in runner.graphs.values():
        graph.reset()
    runner.graphs.clear()
    SHARE.users -= 1


class Pair:
    def __init__(self, net):
        self.main = Runner(net)
        self.side = Runner(net)

    def close(self):
        give(self.main)
        give(self.{which})
"""


def test_a_function_is_run_again_where_it_is_given_the_same(tmp_path: Path) -> None:
    assert found(tmp_path, RUNNER + HELPED.format(which="main")) == 1
    assert found(tmp_path, RUNNER + HELPED.format(which="side")) == 0


def test_what_an_object_asks_of_itself_tells_nothing_of_its_name(tmp_path: Path) -> None:
    """A second release that the object itself refuses is one, whether it has two names or not."""
    runner = RUNNER[: RUNNER.index("    def free(self):")].replace(
        "self.graphs = {}", "self.graphs = {}\n        self.alive = True"
    )

    def found(given: str, close: str) -> int:
        (tmp_path / "m.py").write_text(runner + ALIVE + PAIR.format(given=given, close=close))
        return len(check.check([str(tmp_path)], Settings(), registry.select(("duplicate-release",))).findings)

    assert found(OR, BOTH) == 1
    assert found(OR, UNLESS) == 0
    assert found(FLAG, FLAGGED) == 0
    assert found(OTHER, BOTH) == 0


STACK = """
import torch


class Scopes:
    def __init__(self):
        self.scopes = []

    def open(self):
        self.scopes.append(Scope())
        return self.scopes[-1]

    def close_last(self):
        scope = self.scopes.pop()
        for graph in scope.graphs:
            graph.reset()


class Scope:
    def __init__(self):
        self.graphs = []


class Runner:
    def __init__(self, net, scopes: Scopes):
        self.net, self.scopes = net, scopes
        self.outputs = []

    def record(self, n):
        scope = self.scopes.open()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.outputs.append(self.net(n))
        scope.graphs.append(graph)

    def discard(self):
        self.scopes.close_last()
        self.outputs.clear()


class Pair:
    def __init__(self, net):
        scopes = Scopes()
        self.main, self.side = Runner(net, scopes), Runner(net, scopes)

    def park(self):
        self.side.discard()
        torch.cuda.empty_cache()

    def end(self):
        self.park()
        {end}
        torch.cuda.empty_cache()
"""


@pytest.mark.parametrize(("end", "expected"), [("self.main.discard()", 0), ("self.side.discard()", 1)])
def test_each_takes_the_last_of_a_common_list_once(tmp_path: Path, end: str, expected: int) -> None:
    (tmp_path / "m.py").write_text(STACK.format(end=end))
    found = check.check([str(tmp_path)], Settings(), registry.select(("duplicate-release", "pool-order"))).findings
    assert len(found) == expected


DELETED = """
import torch


class Steps:
    def __init__(self, net):
        self.net = net
        self.graphs = {{}}
        self.record()

    def record(self):
        self.pool = torch.cuda.MemPool()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool.id):
            self.net()
        self.graphs[0] = graph

    def free(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        {drop}


class Worker:
    def __init__(self, net):
        self.steps = Steps(net)

    def sleep(self):
        self.steps.free()

    def load(self):
        {load}

    def swap(self):
        self.sleep()
        self.load()
"""


@pytest.mark.parametrize(
    ("drop", "load", "expected"),
    [
        ("del self.pool", "self.steps.free()", 1),
        ("self.pool = None", "self.steps.free()", 0),
        ("del self.pool", "self.steps.record(); self.steps.free()", 0),
        ("if hasattr(self, 'pool'): del self.pool", "self.steps.free()", 0),
    ],
)
def test_what_is_deleted_is_not_there_to_be_deleted_again(tmp_path: Path, drop: str, load: str, expected: int) -> None:
    assert found(tmp_path, DELETED.format(drop=drop, load=load)) == expected
