"""By which ways an answer that was asked for too early is seen to get into a capture."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

HEAD = """
import contextlib
import contextvars

import torch


class Arena:
    def __init__(self):
        self.held = []

    def lend(self, n, hold):
        block = torch.empty(n, device="cuda")
        if hold:
            self.held.append(block)
        return block


class Mode:
    EAGER = 0
    GRAPH = 1


def busy():
    return torch.cuda.is_current_stream_capturing()


def idle():
    return not busy()


"""

WAYS = {
    "a function that was made before tests it": """
def make(arena, net):
    hold = {asked}

    def step(x):
        block = arena.lend(4, False)
        if hold:
            arena.held.append(block)
        return net(x, block)

    return step


def record(arena: Arena, net, x):
    step = make(arena, net)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        return graph, step(x)
""",
    "a mode that a constructor chooses": """
class Lender:
    def __init__(self):
        self.arena = Arena()
        if {asked}:
            self.mode = Mode.GRAPH
        else:
            self.mode = Mode.EAGER

    def lend(self, n):
        return self.arena.lend(n, self.mode == Mode.GRAPH)


class Runner:
    def __init__(self):
        self.lender = Lender()

    def record(self, x):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            return graph, x + self.lender.lend(4)
""",
    "what a context manager yields": """
@contextlib.contextmanager
def step(arena):
    yield {{"arena": arena, "hold": {asked}}}


def forward(x, state):
    return state["arena"].lend(4, state["hold"]) + x


def record(arena: Arena, x):
    with step(arena) as state:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            return graph, forward(x, state)
""",
    "a record in a variable of the module": """
class Now:
    def __init__(self, arena, hold):
        self.arena = arena
        self.hold = hold


_now = None


@contextlib.contextmanager
def entered(arena):
    global _now
    before = _now
    _now = Now(arena, hold={asked})
    try:
        yield
    finally:
        _now = before


def current() -> Now:
    return _now


def forward(x):
    return current().arena.lend(4, current().hold) + x


def record(arena: Arena, x):
    with entered(arena):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            return graph, forward(x)
""",
    "a record in a context variable": """
class Now:
    def __init__(self, arena, hold):
        self.arena = arena
        self.hold = hold


_now = contextvars.ContextVar("now")


def enter(arena):
    _now.set(Now(arena, {asked}))


def forward(x):
    now: Now = _now.get()
    return now.arena.lend(4, now.hold) + x


def record(arena: Arena, x):
    enter(arena)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        return graph, forward(x)
""",
    "a record that is handed to who puts it into a variable": """
class Now:
    def __init__(self, arena, hold):
        self.arena = arena
        self.hold = hold


_now = None


def enter(now):
    global _now
    _now = now


def forward(x):
    now: Now = _now
    return now.arena.lend(4, now.hold) + x


def record(arena: Arena, x):
    enter(Now(arena, {asked}))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        return graph, forward(x)
""",
    "set on each of several layers by a question that is turned round": """
class Layer:
    def __init__(self):
        self.passing = True
        self.arena = Arena()

    def run(self, x):
        return self.arena.lend(4, not self.passing) + x


class Model:
    def __init__(self):
        self.layers = [Layer() for _ in range(4)]

    def prepare(self):
        for layer in self.layers:
            layer.passing = {turned}

    def record(self, x):
        self.prepare()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for layer in self.layers:
                x = layer.run(x)
        return graph, x
""",
}

REFUSED = """
def make(net):
    inside = busy()

    def step(x):
        if inside:
            raise RuntimeError("made inside of a capture")
        return net(x)

    return step


def record(net, x):
    step = make(net)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        return graph, step(x)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(text: str) -> list[str]:
    Path("m.py").write_text((HEAD + text).lstrip("\n"))
    content = Path("m.py").read_bytes()
    findings = check.check(["."], Settings(), registry.select(("stale-capture-flag",))).findings
    return [content[slice(*each.span)].decode() for each in findings]


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_is_followed_into_the_capture(way: str) -> None:
    asked = "idle()" if "turned" in way else "busy()"
    assert found(WAYS[way].format(asked="busy()", turned="idle()")) == [asked]


@pytest.mark.parametrize("way", WAYS)
def test_what_asks_nothing_is_left_alone(way: str) -> None:
    assert found(WAYS[way].format(asked="net_is_static", turned="False")) == []


def test_a_function_that_only_refuses_keeps_no_answer() -> None:
    assert found(REFUSED) == []


def test_a_variable_that_is_set_again_inside_of_the_capture() -> None:
    way = WAYS["a record in a variable of the module"].format(asked="busy()")
    inside = "        with torch.cuda.graph(graph):\n            return graph, forward(x)\n"
    again = "        with torch.cuda.graph(graph), entered(arena):\n            return graph, forward(x)\n"
    assert inside in way
    assert found(way.replace(inside, again)) == []
