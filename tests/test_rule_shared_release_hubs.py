"""Memory that several engines read in common, released or replaced where one of them ends or begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings


def reported(tmp_path: Path, text: str) -> list[str]:
    """The statements that are reported."""
    (tmp_path / "m.py").write_text(text.lstrip("\n"))
    findings = check.check([str(tmp_path)], Settings(), registry.select(("shared-release",))).findings
    return [text.lstrip("\n").encode()[slice(*each.span)].decode() for each in findings]


HUB = """
import functools

import torch


@functools.cache
def room(rows):
    return torch.empty(rows, device="cuda")


class Pages:
    def __init__(self):
        self.pages = torch.zeros(4, device="cuda")

    def free(self):
        self.pages = None


class Model:
    def __init__(self, net, pages: Pages):
        self.pages = pages
        self.graphs = {}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(room(4), pages.pages)
        self.graphs[4] = graph

    def drop(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()


class Hub:
    def __init__(self):
        self.pages = Pages()
        self.models: dict[str, Model] = {}

    def load(self, name, net):
        self.models[name] = Model(net, self.pages)

    def unload(self, name):
        model = self.models.pop(name)
        model.drop()
        RELEASE
        torch.cuda.empty_cache()
"""


@pytest.mark.parametrize(
    "release", ["room.cache_clear()", "self.pages.free()", "if name in self.models:\n            room.cache_clear()"]
)
def test_a_hub_that_unloads_one_of_its_models(tmp_path: Path, release: str) -> None:
    assert reported(tmp_path, HUB.replace("RELEASE", release)) == [release.rpartition(" ")[2]]


@pytest.mark.parametrize(
    "release",
    [
        "if not self.models:\n            room.cache_clear()",
        "if len(self.models) == 0:\n            self.pages.free()",
        "if self.models:\n            return\n        room.cache_clear()",
        "pass",
    ],
)
def test_a_hub_that_asks_who_is_left(tmp_path: Path, release: str) -> None:
    assert reported(tmp_path, HUB.replace("RELEASE", release)) == []


def test_a_hub_that_unloads_all_of_them(tmp_path: Path) -> None:
    text = HUB.replace("RELEASE", "room.cache_clear()").replace(
        "        model = self.models.pop(name)\n        model.drop()",
        "        while self.models:\n            self.models.popitem()[1].drop()",
    )
    assert reported(tmp_path, text) == []


def test_a_hub_that_ends_the_graphs_of_those_that_are_left(tmp_path: Path) -> None:
    release = "for each in self.models.values():\n            each.drop()\n        room.cache_clear()"
    assert reported(tmp_path, HUB.replace("RELEASE", release)) == []


def test_a_model_that_releases_it_at_its_own_end(tmp_path: Path) -> None:
    text = HUB.replace("        model.drop()\n        RELEASE", "        model.drop()")
    text = text.replace("self.graphs.clear()", "self.graphs.clear()\n        room.cache_clear()")
    assert reported(tmp_path, text) == ["room.cache_clear()"]


def test_models_that_do_not_read_what_is_released(tmp_path: Path) -> None:
    text = HUB.replace("net(room(4), pages.pages)", "net()")
    assert reported(tmp_path, text.replace("RELEASE", "room.cache_clear()")) == []


PART = """
import torch

_rooms = {}


def clear_rooms():
    _rooms.clear()


class Reducer:
    def __init__(self, name):
        self.name = name
        _rooms[name] = torch.zeros(4, device="cuda")

    def __call__(self, x):
        return _rooms[self.name].add_(x)

    def close(self):
        CLOSE


class Runner:
    def __init__(self, name, x):
        self.reducer = Reducer(name)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.reducer(x)

    def close(self):
        self.graph.reset()
        self.reducer.close()


class Pair:
    def __init__(self, x):
        self.one = Runner("one", x)
        self.two = Runner("two", x)

    def close(self):
        self.one.close()
        self.two.close()
"""


@pytest.mark.parametrize(
    ("close", "expected"),
    [
        ("clear_rooms()", ["clear_rooms()"]),
        ("_rooms.clear()", ["_rooms.clear()"]),
        ("_rooms.pop(self.name, None)", []),
        ("self.name = None", []),
    ],
)
def test_a_part_of_an_engine_releases_the_memory_of_all(tmp_path: Path, close: str, expected: list[str]) -> None:
    assert reported(tmp_path, PART.replace("CLOSE", close)) == expected


ARENA = """
import torch


class Arena:
    def __init__(self):
        self.blocks = {}

    def like(self, x):
        if x.shape not in self.blocks:
            self.blocks[x.shape] = torch.empty_like(x)
        return self.blocks[x.shape]


_arena = None


def init():
    global _arena
    GUARD_arena = Arena()


class Worker:
    def __init__(self, net, x):
        init()
        self.graphs = []
        ARENA
        net(_arena.like(x))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(_arena.like(x))
        self.graphs.append(graph)


WORKERS = {}


def add(name, net, x):
    WORKERS[name] = Worker(net, x)


def stop():
    while WORKERS:
        WORKERS.popitem()[1].graphs.clear()
"""


def test_each_new_engine_replaces_what_the_others_read(tmp_path: Path) -> None:
    text = ARENA.replace("GUARD", "").replace("ARENA", "pass")
    assert reported(tmp_path, text) == ["init()"]


def test_what_is_there_stays(tmp_path: Path) -> None:
    guard = "if _arena is None:\n        "
    assert reported(tmp_path, ARENA.replace("GUARD", guard).replace("ARENA", "pass")) == []


def test_an_engine_that_holds_on_to_what_is_replaced(tmp_path: Path) -> None:
    assert reported(tmp_path, ARENA.replace("GUARD", "").replace("ARENA", "self.arena = _arena")) == []


def test_an_engine_that_is_made_once(tmp_path: Path) -> None:
    text = (
        ARENA.replace("GUARD", "")
        .replace("ARENA", "pass")
        .replace("WORKERS[name] = Worker(net, x)", "return Worker(net, x)")
    )
    assert reported(tmp_path, text) == []


JOINED = """
import torch


class Spaces:
    def __init__(self):
        self.held = {}

    def get(self, n):
        if n not in self.held:
            self.held[n] = torch.empty(n, device="cuda")
        return self.held[n]


_spaces = None


def start():
    global _spaces
    START


class Runner:
    def __init__(self, net):
        start()
        self.graphs = {}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(_spaces.get(4))
        self.graphs[4] = graph


class Server:
    def __init__(self, net):
        self.target = Runner(net)
        self.draft = None

    def add(self, net):
        ADD
"""


@pytest.mark.parametrize(
    ("start", "add", "is_reported"),
    [
        ("_spaces = Spaces()", "self.draft = Runner(net)", True),
        ("_spaces = _spaces or Spaces()", "self.draft = Runner(net)", False),
        ("if _spaces is None:\n        _spaces = Spaces()", "self.draft = Runner(net)", False),
        ("_spaces = Spaces()", "self.target = Runner(net)", False),
        ("_spaces = Spaces()", "self.draft = net", False),
    ],
)
def test_one_more_is_made_beside_the_first(tmp_path: Path, start: str, add: str, is_reported: bool) -> None:
    text = JOINED.replace("START", start).replace("ADD", add)
    assert reported(tmp_path, text) == (["start()"] if is_reported else [])


SHRUNK = """
import torch

PARTS = {}


def part(n):
    if n not in PARTS:
        PARTS[n] = torch.empty(n, device="cuda")
    return PARTS[n]


class Replica:
    def __init__(self, net):
        self.graphs = {}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(part(4))
        self.graphs[4] = graph

    def retire(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()


class Fleet:
    def __init__(self):
        self.replicas: list[Replica] = []

    def grow(self, net):
        self.replicas.append(Replica(net))

    def shrink(self, count):
        for replica in self.replicas[FROM]:
            replica.retire()
        del self.replicas[FROM]
        FREE
"""


@pytest.mark.parametrize(
    ("begin", "free", "is_reported"),
    [
        ("count:", "PARTS.clear()", True),
        (":", "PARTS.clear()", False),
        ("count:", "if not self.replicas:\n            PARTS.clear()", False),
        ("count:", "print(PARTS)", False),
    ],
)
def test_some_of_them_end(tmp_path: Path, begin: str, free: str, is_reported: bool) -> None:
    text = SHRUNK.replace("FROM", begin).replace("FREE", free)
    assert reported(tmp_path, text) == ([free] if is_reported else [])


ROUNDS = """
import functools

import torch


class Rows:
    blocks = {}

    @classmethod
    def get(cls, n):
        if n not in cls.blocks:
            cls.blocks[n] = torch.empty(n, device="cuda")
        return cls.blocks[n]

    @classmethod
    def drop(cls):
        cls.blocks.clear()


class Plans:
    def __init__(self):
        self.plans = {}

    def get(self, n):
        if n not in self.plans:
            self.plans[n] = torch.arange(n, device="cuda")
        return self.plans[n]

    def drop(self):
        self.plans.clear()


@functools.lru_cache(maxsize=None)
def plans():
    return Plans()


class Engine:
    def __init__(self, net):
        self.net = net
        self.graphs = {}
        self.record()

    def record(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net(Rows.get(4), plans().get(4))
        self.graphs[4] = graph

    def end(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()


class Pair:
    def __init__(self, net):
        self.target = Engine(net)
        self.draft = Engine(net)

    def exchange(self, net):
        ONE

    def choose(self, first):
        loser = self.target if first else self.draft
        LOSER


def reload(engines: list[Engine]):
    for engine in engines:
        EACH
    THEN
"""


@pytest.mark.parametrize("release", ["Rows.drop()", "plans().drop()"])
@pytest.mark.parametrize(
    ("one", "each", "then", "is_reported"),
    [
        ("self.draft.end()\n        RELEASE", "pass", "pass", True),
        ("self.draft.end()\n        self.target.end()\n        RELEASE", "pass", "pass", False),
        ("RELEASE", "pass", "pass", False),
        ("pass", "engine.end()\n        RELEASE\n        engine.record()", "pass", True),
        ("pass", "engine.end()", "RELEASE", False),
    ],
)
def test_a_function_ends_one_of_several_and_releases(
    tmp_path: Path, release: str, one: str, each: str, then: str, is_reported: bool
) -> None:
    text = ROUNDS.replace("ONE", one).replace("EACH", each).replace("THEN", then).replace("LOSER", "pass")
    assert reported(tmp_path, text.replace("RELEASE", release)) == ([release] if is_reported else [])


@pytest.mark.parametrize("end", ["loser.end()", "print(loser)"])
def test_the_one_that_ends_may_be_either(tmp_path: Path, end: str) -> None:
    text = ROUNDS.replace("ONE", "pass").replace("EACH", "pass").replace("THEN", "pass").replace("LOSER", end)
    text = text.replace("        self.graphs.clear()\n", "        self.graphs.clear()\n        Rows.drop()\n")
    assert reported(tmp_path, text) == (["Rows.drop()"] if end == "loser.end()" else [])


@pytest.mark.parametrize(("after", "is_reported"), [("self.record()", True), ("pass", False)])
@pytest.mark.parametrize("several", ["for engine in engines:\n        engine.end()", "print(engines)"])
def test_one_of_several_captures_again(tmp_path: Path, after: str, several: str, is_reported: bool) -> None:
    text = ROUNDS.replace("ONE", "pass").replace("LOSER", "pass").replace("THEN", "pass")
    text = text.replace("for engine in engines:\n        EACH", several)
    text = text.replace("        self.graphs.clear()\n", "        self.graphs.clear()\n\n    def again(self):\n"
                        f"        self.end()\n        Rows.drop()\n        {after}\n", 1)  # fmt: skip
    text = text.replace("self.draft = Engine(net)", "pass")
    assert reported(tmp_path, text) == (["Rows.drop()"] if is_reported and several.startswith("for") else [])


TOWERS = """
import functools

import torch


@functools.lru_cache(maxsize=None)
def table(n):
    angle = torch.arange(n, device="cuda")
    return angle.cos(), angle.sin()


class Tower:
    def __init__(self, net):
        INIT
        self.graphs = {}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(self.pair())
        self.graphs[4] = graph

    def pair(self):
        return PAIR

    def unload(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        table.cache_clear()


class Server:
    def __init__(self, net):
        self.text = Tower(net)
        self.vision = Tower(net)

    def drop(self):
        self.vision.unload()
"""


@pytest.mark.parametrize(
    ("init", "pair", "is_reported"),
    [
        ("self.cos, self.sin = table(4)", "self.cos, self.sin", False),
        ("self.both = table(4)", "self.both", False),
        ("table(4)", "table(4)", True),
    ],
)
def test_who_keeps_what_a_cached_function_gave_loses_nothing(
    tmp_path: Path, init: str, pair: str, is_reported: bool
) -> None:
    text = TOWERS.replace("INIT", init).replace("PAIR", pair)
    assert reported(tmp_path, text) == (["table.cache_clear()"] if is_reported else [])


def test_a_cache_is_named_after_its_function(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(TOWERS.replace("INIT", "table(4)").replace("PAIR", "table(4)"))
    (finding,) = check.check([str(tmp_path)], Settings(), registry.select(("shared-release",))).findings
    assert finding.message.startswith("the cache of table is released here")
