"""Holders of graphs that put themselves into a registry, which a teardown empties."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
from typing import Protocol

import torch


class Ending(Protocol):
    def end(self) -> None: ...


class Book:
    def __init__(self):
        self._entered: list[Ending] = []
        self.pool = torch.cuda.graph_pool_handle()

    def enter(self, one: Ending):
        self._entered.append(one)

    def end_all(self):
        while self._entered:
            self._entered.pop().end()


class Decode:
    def __init__(self, book: Book, net):
        self.book = book
        self.graphs = {{}}
        {enters}
        self.record(net)

    def record(self, net):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.book.pool):
            net()
        self.graphs[1] = graph
        {later}

    def end(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()


class Verify({base}):
    def __init__(self, book: Book, net):
        {made}


class Runner:
    def __init__(self, net):
        {book}
        self.decode = Decode(book, net)
        self.verify = Verify(book, net)

    def shutdown(self):
        torch.cuda.synchronize()
        self.book.end_all()
        torch.cuda.empty_cache()
"""
DEFAULTS = {
    "enters": "book.enter(self)",
    "later": "pass",
    "base": "Decode",
    "made": "super().__init__(book, net)",
    "book": "self.book = book = Book()",
}


def missed(tmp_path: Path, **parts: str) -> list[str]:
    """The attributes whose graphs are said to be left alive."""
    (tmp_path / "m.py").write_text(PROGRAM.format(**DEFAULTS | parts).lstrip("\n"))
    findings = check.check([str(tmp_path)], Settings(), registry.select(("orphan-graphs",))).findings
    return [each.values["place"] for each in findings]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"enters": "self.book.enter(self)"},
        {"enters": "pass", "later": "self.book.enter(self)"},
        {"book": "book = Book()\n        self.book = book"},
        {"made": "self.book, self.graphs = book, {}\n        book.enter(self)\n        self.record(net)"},
    ],
)
def test_holders_that_enter_the_registry_that_they_are_handed(tmp_path: Path, parts: dict[str, str]) -> None:
    assert missed(tmp_path, **parts) == []


def test_a_holder_that_is_handed_the_registry_and_does_not_enter(tmp_path: Path) -> None:
    assert missed(tmp_path, made="self.book, self.graphs = book, {}\n        self.record(net)") == ["self.verify"]
    assert missed(tmp_path, enters="pass", made="super().__init__(book, net)\n        book.enter(self)") == [
        "self.decode"
    ]


def test_a_registry_that_nobody_enters(tmp_path: Path) -> None:
    assert missed(tmp_path, enters="pass") == ["self.decode", "self.verify"]


WEAK = """
import weakref

import torch


class Book:
    def __init__(self):
        self.by_id = weakref.WeakValueDictionary()

    def end_all(self):
        for each in list(self.by_id.values()):
            each.end()


class Steps:
    def __init__(self, book: Book, net):
        ENTER
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            net()

    def end(self):
        self.graph.reset()


class Runner:
    def __init__(self, net):
        self.book = Book()
        self.steps = Steps(self.book, net)

    def shutdown(self):
        self.book.end_all()
        torch.cuda.empty_cache()
"""


@pytest.mark.parametrize(("enter", "expected"), [("book.by_id[id(self)] = self", []), ("pass", ["self.steps"])])
def test_a_registry_that_keeps_nobody_alive(tmp_path: Path, enter: str, expected: list[str]) -> None:
    (tmp_path / "m.py").write_text(WEAK.replace("ENTER", enter).lstrip("\n"))
    findings = check.check([str(tmp_path)], Settings(), registry.select(("orphan-graphs",))).findings
    assert [each.values["place"] for each in findings] == expected


GROUP = """
import torch


class Steps:
    def __init__(self, net):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            net()

    def end(self):
        self.graph.reset()


class Group:
    def __init__(self):
        self.members = []

    def join(self, member):
        self.members.append(member)
        return member

    def close(self):
        for each in self.members:
            each.end()


class Host:
    def __init__(self, net):
        self.group = Group()
        JOIN
        self.verify = Steps(net)

    def close(self):
        self.group.close()
        torch.cuda.empty_cache()
"""


@pytest.mark.parametrize(
    "join",
    [
        "self.decode = self.group.join(Steps(net))",
        "self.decode = steps = Steps(net)\n        self.group.join(steps)",
        "steps = Steps(net)\n        self.group.join(steps)\n        self.decode = steps",
    ],
)
def test_a_holder_that_its_owner_enters(tmp_path: Path, join: str) -> None:
    (tmp_path / "m.py").write_text(GROUP.replace("JOIN", join).lstrip("\n"))
    findings = check.check([str(tmp_path)], Settings(), registry.select(("orphan-graphs",))).findings
    assert [each.values["place"] for each in findings] == ["self.verify"]


PARTS = """
import torch


class Steps:
    def __init__(self, net):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            net()

    def end(self):
        self.graph.reset()


class Host:
    def __init__(self, net):
        self.decode = Steps(net)

    def parts(self):
        OWN

    def close(self):
        for each in self.parts():
            each.end()
        torch.cuda.empty_cache()


class Wider(Host):
    def __init__(self, net):
        super().__init__(net)
        self.verify = Steps(net)

    def parts(self):
        MORE
"""


@pytest.mark.parametrize(
    ("own", "more", "expected"),
    [
        ("yield self.decode", "yield from super().parts()\n        yield self.verify", []),
        ("return [self.decode]", "return [*super().parts(), self.verify]", []),
        ("return [self.decode]", "return super().parts()", ["self.verify"]),
    ],
)
def test_what_a_subclass_gives_to_the_teardown_that_it_inherits(
    tmp_path: Path, own: str, more: str, expected: list[str]
) -> None:
    (tmp_path / "m.py").write_text(PARTS.replace("OWN", own).replace("MORE", more).lstrip("\n"))
    findings = check.check([str(tmp_path)], Settings(), registry.select(("orphan-graphs",))).findings
    assert [each.values["place"] for each in findings] == expected
