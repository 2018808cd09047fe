"""Second releases of one object that is reached by several names: parts of what it was made with, items of a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

BOOK = """
from typing import Any

import torch

listed = {}


class Book:
    def __init__(self, name):
        self.name = name
        self.pages = {}
        listed[name] = self

    def write(self, n, net):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(n)
        self.pages[n] = graph

    def burn(self):
        for graph in self.pages.values():
            graph.reset()
        self.pages.clear()
        del listed[self.name]

"""
READERS = """
class Main:
    def __init__(self, name):
        self.book = Book(name)

    def stop(self):
        self.book.burn()


class Stops:
    owns = gone = False

    def stop(self):
        {stop}


class Base(Stops):
    def __init__(self, book, owns=False):
        self.book = book
        self.owns = owns
        self.gone = False


class Side({base}):
    def __init__(self, net, {param}):
        {init}
        self.net = net


class Both:
    def __init__(self, net, name):
        {made}
        self.closed = False

    def close(self):
        if self.closed:
            return
        self.closed = True
        {close}
"""
BURN = "self.book.burn()"
IF_OWNS = "if self.owns:\n            self.book.burn()"
ONCE = "if self.gone:\n            return\n        self.gone = True\n        self.book.burn()"
MAIN = "self.main = Main(name)\n        self.side = Side(net, {})"
TWO = "book = Book(name)\n        self.main = Side(net, book)\n        self.side = Side(net, book)"
APART = "self.main = Side(net, Book(name))\n        self.side = Side(net, Book(name))"
BOTH = "self.main.stop()\n        self.side.stop()"
ONE = "self.main.stop()\n        self.side.net = None"
UNLESS = "self.main.stop()\n        if self.side.book is not self.main.book:\n            self.side.stop()"
SUPER = "super().__init__(book)"

PARTS = {
    "of an argument": ("main", "self.book = main.book", BURN, MAIN.format("self.main"), BOTH, 1),
    "handed to the base": ("main", "super().__init__(main.book)", BURN, MAIN.format("self.main"), BOTH, 1),
    "two were given it": ("book", SUPER, BURN, TWO, BOTH, 1),
    "by name": ("book", "super().__init__(book=book)", BURN, MAIN.format("book=self.main.book"), BOTH, 1),
    "or another": ("book=None", "super().__init__(book or Book('side'))", BURN, TWO, BOTH, 1),
    "a choice": ("book=None", "super().__init__(Book('x') if book is None else book)", BURN, TWO, BOTH, 1),
    "unless given": ("book=None", "if book is None: book = Book('x')\n        " + SUPER, BURN, TWO, BOTH, 1),
    "each stops once": ("book", SUPER, ONCE, TWO, BOTH, 1),
    "no argument": ("book=None", "super().__init__(book or Book('side'))", BURN, MAIN.format(""), BOTH, 0),
    "another one": ("book", "super().__init__(Book(book.name))", BURN, TWO, BOTH, 0),
    "two of them": ("book", SUPER, BURN, APART, BOTH, 0),
    "one stops": ("book", SUPER, BURN, TWO, ONE, 0),
    "unless they have one": ("book", SUPER, BURN, TWO, UNLESS, 0),
    "a flag says whose it is": ("book, owns=False", "super().__init__(book, owns)", IF_OWNS, TWO, BOTH, 0),
}

CREW = """
class Worker:
    def __init__(self, rank):
        self.rank = rank
        self.book = Book(rank)

    def stop(self):
        self.book.burn()


class Group:
    def __init__(self, workers):
        self.workers = list(workers)

    def each(self):
        for worker in self.workers:
            worker.stop()


class Crew:
    def __init__(self, n):
        {made}

    def close(self):
        {close}
"""
FIRST = "self.workers = [Worker(i) for i in range(n)]\n        self.lead = self.workers[0]"
LOCAL = "workers = [Worker(i) for i in range(n)]\n        self.lead = workers[0]\n        self.workers = workers"
GROUP = "workers = [Worker(i) for i in range(n)]\n        self.lead = workers[0]\n        self.group = Group({})"
SHOWN = "self.lead = Worker(0)\n        self.workers = [self.lead, Worker(1)]"
NAMED = "lead = Worker(0)\n        self.lead = lead\n        self.workers = {'lead': lead, 'other': Worker(1)}"
POPPED = "self.workers = [Worker(i) for i in range(n)]\n        self.lead = self.workers.pop(0)"
CHOSEN = "workers = [Worker(i) for i in range(n)]\n        self.lead = workers[0]\n        self.workers = {}"
ALL = "for worker in self.workers:\n            worker.stop()\n        self.lead.stop()"
LEAD = "self.lead.stop()\n        for worker in self.workers:\n            worker.stop()"
VALUES = "for worker in self.workers.values():\n            worker.stop()\n        self.lead.stop()"
REST = "for worker in self.workers[1:]:\n            worker.stop()\n        self.lead.stop()"
OTHERS = "for worker in self.workers:\n            if {}:\n                worker.stop()\n        self.lead.stop()"
LISTED = "[worker.stop() for worker in self.workers if worker is not self.lead]\n        self.lead.stop()"
NUMBERED = "for i in range({}):\n            self.workers[i].stop()\n        self.lead.stop()"
BESIDE = "for i, worker in zip('abc', self.workers{}):\n            worker.stop()\n        self.lead.stop()"
EACH = "self.group.each()\n        self.lead.stop()"
TWO_LEADS = FIRST + "\n        self.tail = self.workers[-1]"

ITEMS = {
    "the first": (FIRST, ALL, 1),
    "before all": (FIRST, LEAD, 1),
    "of a local list": (LOCAL, ALL, 1),
    "of a copy elsewhere": (GROUP.format("workers"), EACH, 1),
    "of a display": (SHOWN, ALL, 1),
    "of a dictionary": (NAMED, VALUES, 1),
    "by number": (FIRST, NUMBERED.format("len(self.workers)"), 1),
    "beside others": (FIRST, BESIDE.format(""), 1),
    "from the second on": (FIRST, NUMBERED.format("1, len(self.workers)"), 0),
    "the others beside others": (FIRST, BESIDE.format("[1:]"), 0),
    "the others": (FIRST, REST, 0),
    "who is no lead": (FIRST, OTHERS.format("worker is not self.lead"), 0),
    "who has another rank": (FIRST, OTHERS.format("worker.rank != 0"), 0),
    "who has one": (FIRST, OTHERS.format("worker.rank"), 0),
    "a choice of them": (FIRST, LISTED, 0),
    "taken out": (POPPED, ALL, 0),
    "a list of the others": (CHOSEN.format("workers[1:]"), ALL, 0),
    "a list without it": (CHOSEN.format("[w for w in workers if w is not self.lead]"), ALL, 0),
    "a copy of the others": (GROUP.format("workers[1:]"), EACH, 0),
    "two items": (TWO_LEADS, "self.lead.stop()\n        self.tail.stop()", 0),
}
EITHER = """
class Crew:
    def __init__(self, n):
        self.workers = []
        for i in range(n):
            worker = Worker(i)
            if i == 0:
                self.lead = worker
            {other}
                self.workers.append(worker)

    def close(self):
        for worker in self.workers:
            worker.stop()
        self.lead.stop()
"""
ENGINES = """
class Pair:
    def __init__(self, engines: list[Main]):
        self.first = engines[0]
        self.other = engines[1]

    def close(self):
        self.first.stop()
        self.other.stop()
"""


KNOT = """
from dataclasses import dataclass


@dataclass
class Two:
    main: Main
    side: Main | None = None

    def __post_init__(self):
        {filled}

    def close(self):
        self.main.stop()
        self.side.stop()


class Above:
    def __init__(self, part):
        self.part = part

    def close(self):
        self.part.stop()


class Below(Above):
    def __init__(self, name):
        self.own = Main(name)
        super().__init__({handed})

    def close(self):
        self.own.stop()
        super().close()


class Taker:
    def __init__(self):
        self.book = None

    def take(self, book):
        self.book = book

    def close(self):
        if self.book is not None:
            self.book.burn()
            self.book = None


class Giver:
    def __init__(self, name):
        self.book = Book(name)
        self.taker = Taker()
        {given}

    def close(self):
        self.taker.close()
        self.book.burn()


class Later:
    def __init__(self, name):
        self.main = Main(name)
        self.side = None

    def load(self, name=None):
        self.side = Main(name) if name else {later}

    def close(self):
        self.main.stop()
        if self.side is not None:
            self.side.stop()


class Local:
    def __init__(self, name):
        one = other = Main(name)
        {made}
        self.one = one
        self.other = other

    def close(self):
        self.one.stop()
        self.other.stop()


class Rows:
    def __init__(self, name, n):
        self.book = Book(name)
        self.rows = []
        for _ in range(n):
            self.rows.append(Taker{row}

    def close(self):
        for row in self.rows:
            row.close()
        self.book.burn()
"""
SILENT = {
    "filled": "self.side = self.side or Main('side')",
    "handed": "Main(name)",
    "given": "self.taker.take(Book(name))",
    "later": "Main('side')",
    "made": "other = Main(name)",
    "row": "())",
}
LOUD = {
    "filled": "if self.side is None:\n            self.side = self.main",
    "handed": "self.own",
    "given": "self.taker.take(self.book)",
    "later": "self.main",
    "made": "pass",
}
SET = "self.taker.book = self.book"

CALLED = """
from typing import Sequence


class Hub:
    def __init__(self, members: {said}):
        self.members = tuple(members)

    def tell(self, what, *args):
        return [getattr(member, what)(*args) for member in self.members]


class Head:
    def __init__(self, names):
        members = [Main(name) for name in names]
        self.first = members[0]
        self.hub = Hub(members{part})

    def close(self):
        self.hub.tell("stop")
        self.first.stop()
"""

LEAVING = """
class Pool:
    def __init__(self):
        self.live: list[Main] = []
        self.leaving: list[Main] = []

    def enter(self, name):
        self.live.append(Main(name))

    def shrink(self, n):
        while len(self.live) > n:
            {shrink}
        self.reap()

    def reap(self):
        {reap}
"""
TAKE = "one = self.live.pop()\n            "
REAP = "for one in self.leaving:\n            one.stop()\n        self.leaving.clear()"
TAKING = "while self.leaving:\n            one = self.leaving.pop()\n            one.stop()"
MOVED = {
    "behind": (TAKE + "one.stop()\n            self.leaving.append(one)", REAP, 1),
    "before": (TAKE + "self.leaving.append(one)\n            one.stop()", TAKING, 1),
    "one by one": (TAKE + "one.stop()\n            self.leaving.append(one)", TAKING, 1),
    "only put there": (TAKE + "self.leaving.append(one)", REAP, 0),
    "only released": (TAKE + "one.stop()", REAP, 0),
    "one of both": (
        TAKE + "if n:\n                self.leaving.append(one)\n            else:\n                one.stop()",
        REAP,
        0,
    ),
    "another one": (
        TAKE + "one.stop()\n            other = self.live.pop()\n            self.leaving.append(other)",
        REAP,
        0,
    ),
    "only counted": (TAKE + "one.stop()\n            self.leaving.append(one)", "self.leaving.clear()", 0),
}


def found(path: Path, text: str) -> int:
    """How many findings a program has; where two names need not be one object's, none has a fix."""
    (path / "m.py").write_text(text)
    report = check.check([str(path)], Settings(), registry.select(("duplicate-release",)))
    assert not any("alike" in each.values and each.fix for each in report.findings)
    return len(report.findings)


@pytest.mark.parametrize("name", PARTS)
def test_what_two_objects_were_made_with(tmp_path: Path, name: str) -> None:
    param, init, stop, made, close, expected = PARTS[name]
    base = "Base" if "super()" in init else "Stops"
    text = READERS.format(base=base, param=param, init=init, stop=stop, made=made, close=close)
    assert found(tmp_path, BOOK + text) == expected


@pytest.mark.parametrize("name", ITEMS)
def test_an_attribute_that_is_an_item_of_a_table(tmp_path: Path, name: str) -> None:
    made, close, expected = ITEMS[name]
    assert found(tmp_path, BOOK + CREW.format(made=made, close=close)) == expected


def test_two_items_of_a_list_are_two_objects(tmp_path: Path) -> None:
    text = READERS.format(base="Base", param="book", init=SUPER, stop=BURN, made=TWO, close=ONE)
    assert found(tmp_path, BOOK + text + ENGINES) == 0


@pytest.mark.parametrize("name", [None, *LOUD])
def test_one_object_that_is_handed_on(tmp_path: Path, name: str | None) -> None:
    parts = SILENT if name is None else SILENT | {name: LOUD[name]}
    text = READERS.format(base="Base", param="book", init=SUPER, stop=BURN, made=TWO, close=ONE)
    assert found(tmp_path, BOOK + text + KNOT.format(**parts)) == (name is not None)


def test_an_attribute_of_a_part_that_its_owner_sets(tmp_path: Path) -> None:
    text = READERS.format(base="Base", param="book", init=SUPER, stop=BURN, made=TWO, close=ONE)
    assert found(tmp_path, BOOK + text + KNOT.format(**(SILENT | {"given": SET}))) == 1


@pytest.mark.parametrize("said", ["list", "Sequence[Any]", "Sequence[Main]"])
def test_items_that_only_the_caller_knows(tmp_path: Path, said: str) -> None:
    text = READERS.format(base="Base", param="book", init=SUPER, stop=BURN, made=TWO, close=ONE)
    assert found(tmp_path, BOOK + text + CALLED.format(said=said, part="")) == 1
    assert found(tmp_path, BOOK + text + CALLED.format(said=said, part="[1:]")) == 0


@pytest.mark.parametrize("name", MOVED)
def test_an_item_that_goes_into_another_table(tmp_path: Path, name: str) -> None:
    shrink, reap, expected = MOVED[name]
    text = READERS.format(base="Base", param="book", init=SUPER, stop=BURN, made=TWO, close=ONE)
    assert found(tmp_path, BOOK + text + LEAVING.format(shrink=shrink, reap=reap)) == expected


@pytest.mark.parametrize(("other", "expected"), [("else:", 0), ("if n:", 1)])
def test_who_is_either_the_one_or_one_of_the_others(tmp_path: Path, other: str, expected: int) -> None:
    text = CREW[: CREW.index("class Crew")] + EITHER.format(other=other)
    assert found(tmp_path, BOOK + text) == expected


def test_graphs_that_a_part_was_made_with_are_released_by_their_owner(tmp_path: Path) -> None:
    text = """
class Reader:
    def __init__(self, name, book=None):
        self.book = book if book is not None else Book(name)
        self.lent = book is not None

    def stop(self):
        if not self.lent:
            self.book.burn()


class Both:
    def __init__(self, name):
        self.main = Reader(name)
        self.side = Reader(name, book=self.main.book)

    def close(self):
        self.main.stop()
        self.side.stop()
"""
    (tmp_path / "m.py").write_text(BOOK + text)
    assert not check.check([str(tmp_path)], Settings(), registry.select(("orphan-graphs",))).findings


ONE_OF_TWO = """
class Maybe:
    def __init__(self, name, other=None):
        self._main = Main(name)
        self._side = Main(other) if other else None

    @property
    def side(self):
        return self._side or self._main

    def close(self):
        self._main.stop()
        {side}


def serve(name, other=None):
    main = Main(name)
    side = Main(other) if other is not None else main
    main.stop()
    {local}
"""
OWN_SIDE = "if self._side is not None:\n            self._side.stop()"


@pytest.mark.parametrize(
    ("side", "local", "expected"),
    [
        ("self.side.stop()", "pass", 1),
        ("pass", "side.stop()", 1),
        (OWN_SIDE, "if side is not main: side.stop()", 0),
        ("if self.side is not self._main: self.side.stop()", "if other: side.stop()", 0),
    ],
)
def test_a_variable_that_is_one_of_two(tmp_path: Path, side: str, local: str, expected: int) -> None:
    text = READERS.format(base="Base", param="book", init=SUPER, stop=BURN, made=TWO, close=ONE)
    assert found(tmp_path, BOOK + text + ONE_OF_TWO.format(side=side, local=local)) == expected
