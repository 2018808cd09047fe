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
EACH = "self.group.each()\n        self.lead.stop()"
TWO_LEADS = FIRST + "\n        self.tail = self.workers[-1]"

ITEMS = {
    "the first": (FIRST, ALL, 1),
    "before all": (FIRST, LEAD, 1),
    "of a local list": (LOCAL, ALL, 1),
    "of a copy elsewhere": (GROUP.format("workers"), EACH, 1),
    "of a display": (SHOWN, ALL, 1),
    "of a dictionary": (NAMED, VALUES, 1),
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
ENGINES = """
class Pair:
    def __init__(self, engines: list[Main]):
        self.first = engines[0]
        self.other = engines[1]

    def close(self):
        self.first.stop()
        self.other.stop()
"""


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
