"""Hypothesis strategies for the interpreter's programs."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from hypothesis import strategies as st
from interpreter import (
    TESTS,
    Block,
    Call,
    Capture,
    Close,
    Empty,
    Erase,
    If,
    Leave,
    Loop,
    Manager,
    Pool,
    Program,
    Reset,
    Statement,
    Try,
    With,
)

RUNNER_METHODS = 2
ENGINE_METHODS = 1
PARTS = ("left", "right")


class Place(NamedTuple):
    """Where a block stands, and what may stand in it."""

    owner: str
    """Runner (a function whose `self` is one, too), Engine, session (an object that holds a runner), or nothing."""
    number: int
    """Of the method; it calls those behind it."""
    manages: bool = True
    """The context manager may be used."""
    in_loop: bool = False
    leaves: bool = True
    """It may return, raise, break and continue."""
    asked: bool = True
    """The function has the parameter; the context manager has none."""


@cache
def statements(place: Place, depth: int) -> st.SearchStrategy[Statement]:
    """One statement that may stand at a place; `depth` is how deep blocks may still nest."""
    simple: list[st.SearchStrategy[Statement]] = [st.builds(Erase)]
    calls = [("", "flush")] if place.owner else []
    if place.owner == "Runner":
        simple += [
            st.builds(Reset, st.booleans()),
            st.builds(Reset, st.just(False)),
            st.builds(Empty, st.sampled_from(("graphs", "outputs")), st.booleans()),
            st.builds(Empty, st.just("outputs"), st.booleans()),
            st.builds(Pool, st.booleans()),
            st.builds(Capture),
        ]
        calls += [("self", f"do_{i}") for i in range(place.number + 1, RUNNER_METHODS)]
    elif place.owner == "Engine":
        names = [*PARTS, *(["it"] if place.in_loop else [])]
        calls += [(on, f"do_{i}") for on in names for i in range(RUNNER_METHODS)]
        calls += [("self", f"run_{i}") for i in range(place.number + 1, ENGINE_METHODS)]
    elif place.owner == "session":
        calls += [("runner", f"do_{i}") for i in range(RUNNER_METHODS)]
    if place.owner in ("Runner", "Engine"):
        simple.append(st.builds(Close, st.booleans()))
    if calls:
        argument = st.sampled_from(("True", "False", *(["hard"] if place.asked else [])))
        call = st.sampled_from(calls).flatmap(lambda c: st.builds(Call, st.just(c[0]), st.just(c[1]), argument))
        simple += [call] * (3 if place.owner == "Engine" else 1)
    if place.leaves:
        kinds = ["return", "raise", *(["break", "continue"] if place.in_loop else [])]
        simple.append(st.builds(Leave, st.sampled_from(kinds)))
    if not depth:
        return st.one_of(simple)
    return st.one_of(*simple, *simple, *compounds(place, depth - 1))


def compounds(place: Place, depth: int) -> list[st.SearchStrategy[Statement]]:
    """Statements with blocks."""
    inner = blocks(place, depth)
    maybe = st.one_of(st.just(()), inner)
    outside = blocks(place._replace(leaves=False), depth)
    final = st.one_of(st.just(()), outside)
    found: list[st.SearchStrategy[Statement]] = [
        st.builds(If, st.sampled_from(tests(place)), inner, maybe),
        st.builds(Try, inner, st.sampled_from(("Exception", "RuntimeError")), maybe, maybe, final),
        st.builds(Try, inner, st.just(""), st.just(()), st.just(()), outside),
    ]
    if place.owner == "Engine":
        looped = blocks(place._replace(in_loop=True), depth)
        over = st.sampled_from((PARTS, PARTS[::-1], PARTS[:1]))
        found.append(st.builds(Loop, over, looped, maybe))
    if place.manages and place.owner in ("Runner", "Engine"):
        on = ("self",) if place.owner == "Runner" else PARTS
        found.append(st.builds(With, st.sampled_from(on), inner))
    return found


@cache
def blocks(place: Place, depth: int) -> st.SearchStrategy[Block]:
    return st.lists(statements(place, depth), min_size=1, max_size=3 if depth else 2).map(tuple)


def tests(place: Place) -> tuple[str, ...]:
    if place.owner == "Runner":
        return tuple(name for name in TESTS if place.asked or name not in ("hard", "soft"))
    flags = ("closed", "open") if place.owner == "Engine" else ()
    return (*flags, "unknown", *(("hard", "soft") if place.asked else ()))


_IN_MANAGER = -1
"""The index of the context manager: it may call all methods, which then do not use it."""


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program. Its context manager calls methods, or methods use it; not both, for nothing calls itself."""
    manages = draw(st.booleans())
    runner = [draw(blocks(Place("Runner", i, manages), 2)) for i in range(RUNNER_METHODS)]
    engine = [draw(blocks(Place("Engine", i), 2)) for i in range(ENGINE_METHODS)]
    function = draw(blocks(Place("", 0), 0))
    is_class = draw(st.booleans()) and not manages
    inside = Place("session" if is_class else "Runner", RUNNER_METHODS if manages else _IN_MANAGER, leaves=False)
    inside = inside._replace(manages=False, asked=False)
    before = () if is_class else draw(st.one_of(st.just(()), blocks(inside, 0)))
    manager = Manager(is_class, before, draw(blocks(inside, 1)), draw(st.booleans()))
    return Program(tuple(runner), tuple(engine), function, manager)
