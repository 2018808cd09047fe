"""Ways to memory that captured code of several reads, and places where one of them gives it up."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

ROOM = """
import functools

import torch

rooms = {}


def room(n):
    if n not in rooms:
        rooms[n] = torch.empty(n, device="cuda")
    return rooms[n]


def clear_rooms():
    rooms.clear()


class Singer:
    def __init__(self, net, n):
        self.net, self.x = net, torch.zeros(n, device="cuda")
        self.body()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.body()

    def body(self):
        return BODY

    def sing(self):
        self.graph.replay()
        return self.y.clone()

    def end(self):
        self.graph.reset()
        self.graph = None
        END

"""

CHOIR = """
class Choir:
    def __init__(self):
        self.singers: dict[str, Singer] = {}

    def join(self, name, net, n):
        self.singers[name] = Singer(net, n)

    def leave(self, name):
        self.singers.pop(name).end()
"""


def program(rest: str = CHOIR, body: str = "self.net(self.x * room(self.x.numel()))", end: str = "pass") -> str:
    return ROOM.replace("BODY", body).replace("END", end) + rest


def found(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "choir.py"
    path.write_text(text)
    report = check.check([str(path)], Settings(select=("shared-release",)), registry.rules())
    source = report.sources[str(path)]
    return [" ".join(source.text(finding.span).split()) for finding in report.findings]


GATE = """
class Trial:
    def __init__(self, net):
        self.net = net

    def __enter__(self):
        self.singer = Singer(self.net, 4)
        return self.singer

    def __exit__(self, *error):
        self.singer.end()
        AFTER


class Gate:
    def __init__(self, net):
        MAIN

    def compare(self, net):
        with Trial(net) as other:
            return other.sing()
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.net(self.x * room(self.x.numel()))", ["clear_rooms()"]),  # a product, and no `*sequence`
        ("self.net(*(self.x, room(self.x.numel())))", ["clear_rooms()"]),
        ("self.net(self.x * self.x)", []),
    ],
)
def test_arguments_of_what_nobody_can_read(tmp_path: Path, body: str, expected: list[str]) -> None:
    gate = GATE.replace("AFTER", "clear_rooms()").replace("MAIN", "self.main = Singer(net, 4)")
    assert found(tmp_path, program(gate, body)) == expected


def test_a_function_as_a_default(tmp_path: Path) -> None:
    gate = GATE.replace("AFTER", "clear_rooms()").replace("MAIN", "self.main = Singer(net, 4)")
    text = program(gate, "self.x * space(self.x.numel())").replace("def body(self):", "def body(self, space=room):")
    assert found(tmp_path, text) == ["clear_rooms()"]
    assert not found(tmp_path, text.replace("self.body()", "self.body(torch.zeros)"))  # every call gives another one


def test_who_holds_one_that_reads_ends_beside_another(tmp_path: Path) -> None:
    main = "self.main = Singer(net, 4)"
    assert found(tmp_path, program(GATE.replace("AFTER", "clear_rooms()").replace("MAIN", main))) == ["clear_rooms()"]
    assert not found(tmp_path, program(GATE.replace("AFTER", "pass").replace("MAIN", main)))
    assert not found(tmp_path, program(GATE.replace("AFTER", "clear_rooms()").replace("MAIN", "self.main = net")))
    copy = program(GATE.replace("AFTER", "clear_rooms()").replace("MAIN", main), "self.x * self.mine")
    keeper = copy.replace("torch.zeros(n, device=", "torch.zeros(n, device=", 1).replace(
        "        self.body()\n", "        self.mine = room(n)\n        self.body()\n", 1
    )
    assert not found(tmp_path, keeper)  # each has a reference of its own


HANDLED = """
class Choir:
    def __init__(self):
        self.singers: dict[str, Singer] = {}

    def join(self, name, net, n):
        if name in self.singers:
            raise ValueError(name)
        BEFORE
        try:
            singer = Singer(net, n)
        except torch.OutOfMemoryError:
            HANDLER
            raise
        self.singers[name] = singer

    def sing(self, name):
        try:
            return self.singers[name].sing()
        except RuntimeError:
            FAILED
            raise
"""


@pytest.mark.parametrize(
    ("before", "handler", "failed", "expected"),
    [
        ("pass", "clear_rooms()", "pass", ["clear_rooms()"]),
        ("pass", "pass", "clear_rooms()", ["clear_rooms()"]),
        ("rooms.clear()", "pass", "pass", ["rooms.clear()"]),
        ("pass", "rooms.pop(n, None)", "pass", []),  # what the caller names
        ("pass", "pass", "pass", []),
        ("pass", "self.quit()", "pass", []),
        ("pass", "pass", "self.quit()", []),
        ("pass", "if not self.singers:\n                clear_rooms()", "pass", []),
    ],
)
def test_where_one_more_is_made_or_one_has_failed(
    tmp_path: Path, before: str, handler: str, failed: str, expected: list[str]
) -> None:
    text = HANDLED.replace("BEFORE", before).replace("HANDLER", handler).replace("FAILED", failed)
    quits = """
    def quit(self):
        for singer in self.singers.values():
            singer.end()
        self.singers.clear()
        clear_rooms()
"""
    assert found(tmp_path, program(text + quits)) == expected
