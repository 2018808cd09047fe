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
    return [
        " ".join(source.text(finding.span).split()) for finding in report.findings if finding.rule == "shared-release"
    ]


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


@pytest.mark.parametrize(
    ("after", "expected"),
    [("clear_rooms()", ["clear_rooms()"]), ("pass", []), ("self.main.end()\n            clear_rooms()", [])],
)
def test_one_that_was_made_here_ends_beside_an_attribute(tmp_path: Path, after: str, expected: list[str]) -> None:
    text = f"""
class Gate:
    def __init__(self, net):
        self.main = Singer(net, 4)

    def compare(self, net):
        other = Singer(net, 4)
        try:
            return other.sing() - self.main.sing()
        finally:
            other.end()
            {after}
"""
    assert found(tmp_path, program(text)) == expected


HALL = """
class Hall:
    def __init__(self):
        self.seats = {}

    def seat(self, n):
        if n not in self.seats:
            self.seats[n] = torch.empty(n, device="cuda")
        return self.seats[n]

    def clear(self):
        self.seats.clear()


HALL = Hall()
"""


@pytest.mark.parametrize(
    ("param", "hall", "expected"),
    [
        ("hall=HALL", "hall", ["self.hall.clear()"]),
        ("hall=None", "hall or HALL", ["self.hall.clear()"]),
        ("hall=None", "HALL", ["self.hall.clear()"]),
        ("hall=None", "Hall()", []),  # each has its own
    ],
)
def test_an_object_of_the_module_in_an_attribute(tmp_path: Path, param: str, hall: str, expected: list[str]) -> None:
    text = program(body="self.x * self.hall.seat(4)", end="self.hall.clear()")
    text = text.replace("class Singer:", HALL + "\n\nclass Singer:").replace("net, n):", f"net, n, {param}):", 1)
    text = text.replace("        self.body()\n", f"        self.hall = {hall}\n        self.body()\n", 1)
    assert found(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (
            """
        if cls.only is None:
            cls.only = super().__new__(cls)
            cls.only.seats = {}
        return cls.only""",
            ["Hall().clear()"],
        ),
        (
            """
        if cls.only is None:
            me = object.__new__(cls)
            me.seats = {}
            cls.only = me
        return cls.only""",
            ["Hall().clear()"],
        ),
        (
            """
        me = super().__new__(cls)
        me.seats = {}
        return me""",
            [],
        ),
    ],
)
def test_a_class_that_gives_one_object_only(tmp_path: Path, new: str, expected: list[str]) -> None:
    hall = HALL.replace("def __init__(self):\n        self.seats = {}", f"only = None\n\n    def __new__(cls):{new}")
    text = program(body="self.x * Hall().seat(4)", end="Hall().clear()")
    assert (
        found(tmp_path, text.replace("class Singer:", hall.replace("HALL = Hall()", "") + "\n\nclass Singer:"))
        == expected
    )


def test_a_table_that_is_a_default(tmp_path: Path) -> None:
    seat = """
def seat(n, kept={}):
    if n is None:
        kept.clear()
        return None
    if n not in kept:
        kept[n] = torch.empty(n, device="cuda")
    return kept[n]


class Singer:"""
    text = program(body="self.x * seat(4)", end="seat(None)").replace("class Singer:", seat)
    assert found(tmp_path, text) == ["seat(None)"]
    assert not found(tmp_path, text.replace("        seat(None)", "        pass"))


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("self.users[n] == 0", ["HALL.leave(4)"]),  # there may be users of other sizes
        ("not any(self.users.values())", []),
        ("all(count == 0 for count in self.users.values())", []),
        ("sum(self.users.values()) == 0", []),
        ("not [n for n, count in self.users.items() if count]", []),
        ("not self.users", []),
    ],
)
def test_the_count_of_one_kind_says_nothing_of_the_others(tmp_path: Path, test: str, expected: list[str]) -> None:
    counted = f"""
    def leave(self, n):
        self.users[n] -= 1
        if {test}:
            self.seats.clear()


HALL = Hall()"""
    hall = HALL.replace("self.seats = {}", "self.seats, self.users = {}, {}").replace("\n\nHALL = Hall()", counted)
    text = program(body="self.x * HALL.seat(4)", end="HALL.leave(4)")
    assert found(tmp_path, text.replace("class Singer:", hall + "\n\nclass Singer:")) == expected


HOOKS = """
hooks = MADE


def at_end(member, hook):
    PUT


def run_hooks(member):
    RUN


class Singer:"""


def hooked(hook: str, made: str, put: str, run: str) -> str:
    text = program(body="self.x * self.own[0]", end="run_hooks(self.n)")
    text = text.replace("class Singer:", HOOKS.replace("MADE", made).replace("PUT", put).replace("RUN", run))
    text = text.replace("self.net, self.x = net, torch", "self.n, self.net, self.x = n, net, torch")
    new = '        self.own = [torch.empty(n, device="cuda")]\n' + f"        at_end(n, {hook})\n        self.body()\n"
    return text.replace("        self.body()\n", new, 1) + "\n\n"


@pytest.mark.parametrize("hook", ["self.own.clear", "self.forget", "lambda: self.own.clear()"])
@pytest.mark.parametrize(
    ("made", "put", "run", "ends_all"),
    [
        ("[]", "hooks.append(hook)", "for hook in hooks:\n        hook()\n    hooks.clear()", True),
        ("[]", "hooks.append(hook)", "while hooks:\n        hooks.pop()()", True),
        ("[]", "hooks.append((member, hook))", "while hooks:\n        hooks.pop()[1]()", True),
        ("{}", "hooks.setdefault('end', []).append(hook)", "for hook in hooks['end']:\n        hook()", True),
        ("{}", "hooks.setdefault(member, []).append(hook)", "for hook in hooks[member]:\n        hook()", False),
        (
            "{}",
            "hooks.setdefault(member, []).append(hook)",
            "for hook in hooks.pop(member, ()):\n        hook()",
            False,
        ),
        ("{}", "hooks[member] = hook", "hooks.pop(member)()", False),
        (
            "[]",
            "hooks.append((member, hook))",
            "for entry in [each for each in hooks if each[0] == member]:\n        entry[1]()",
            False,
        ),
    ],
)
def test_hooks_of_all_run_for_one(tmp_path: Path, hook: str, made: str, put: str, run: str, *, ends_all: bool) -> None:
    text = hooked(hook, made, put, run).replace(
        "    def sing(self):", "    def forget(self):\n        self.own.clear()\n\n    def sing(self):"
    )
    assert found(tmp_path, text) == (["run_hooks(self.n)"] if ends_all else [])


@pytest.mark.parametrize(
    ("body", "init", "expected"),
    [
        ("self.x * 2", "pass", []),  # the table is for something else
        ("self.net(self.x)", "pass", ["clear_rooms()"]),  # which may ask for it
        ("self.x * room(4)", "pass", ["clear_rooms()"]),
        ("torch.mul(self.x, 2, out=self.room)", "self.room = room(4).view(-1)", []),  # it keeps that
    ],
)
def test_what_captured_code_cannot_read(tmp_path: Path, body: str, init: str, expected: list[str]) -> None:
    text = program(body=body, end="clear_rooms()").replace(
        "        self.body()\n", f"        {init}\n        self.body()\n", 1
    )
    assert found(tmp_path, text) == expected


@pytest.mark.parametrize(("given", "expected"), [("", ["close_rooms()"]), ("self.name", [])])
def test_items_that_the_caller_chooses(tmp_path: Path, given: str, expected: list[str]) -> None:
    rooms = """
class Room:
    def __init__(self, name):
        self.air = torch.empty(4, device="cuda")
        rooms[name] = self

    def empty(self):
        self.air = None


def of(name):
    return rooms.get(name) or Room(name)


def close_rooms(prefix=""):
    for name, each in list(rooms.items()):
        if name.startswith(prefix):
            each.empty()
            del rooms[name]


class Singer:"""
    text = program(body="self.x * of(self.name).air", end=f"close_rooms({given})")
    text = text.replace("class Singer:", rooms).replace("net, self.x = net,", "net, self.name, self.x = net, str(n),")
    assert found(tmp_path, text) == expected
