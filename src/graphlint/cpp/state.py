"""What a walk carries along, and what it finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from graphlint.cpp import conditions
from graphlint.cpp.conditions import TRUE, Formula
from graphlint.cpp.facts import Function
from graphlint.cpp.places import NOTHING, Call, Cell, Fresh, Guard, Place, Value
from graphlint.cpp.program import is_lambda
from graphlint.effects import Effect
from graphlint.source import Span

MAX_TRACES = 48
"""Orders of events that a walk keeps apart; further ones are left out."""
MAX_HAPPENINGS = 40
"""Events in one order; what comes after them is left out."""


class Kept(NamedTuple):
    """Device memory is put where it outlives the function."""

    place: Place
    fresh: Fresh
    path: str
    span: Span
    guards: tuple[Guard, ...]
    parked: bool
    """Whether what was there before went to another place that keeps it."""
    in_place: bool
    """Whether the memory of one object grows (`resize_`), not one object gives way to another."""


class Happening(NamedTuple):
    """One step of what happens to graphs and workspaces, in order."""

    effect: Effect
    place: Place | None
    path: str
    span: Span
    function: Span
    symbol: str
    guards: tuple[Guard, ...]
    calls: tuple[Call, ...]
    operation: str
    once: bool = False
    is_sure: bool = True
    """Whether the type says that it is a graph, not its name alone."""


@dataclass
class Walked:
    """What a walk from one function found."""

    function: Function
    kept: list[Kept] = field(default_factory=list)
    traces: tuple[tuple[Happening, ...], ...] = ((),)
    """The orders in which things can happen."""
    latches: set[Cell] = field(default_factory=set)
    """Flags that are set while capturing."""
    bound: dict[Cell, list[tuple[Guard, ...]]] = field(default_factory=dict)
    """Scalars that are assigned, and under which conditions."""
    entered: set[Function] = field(default_factory=set)
    """Functions that calls led into."""


class Env:
    """What places hold, by root and path. A copy shares what neither side changes."""

    def __init__(self, roots: dict[str, dict[tuple[str, ...], Value]] | None = None) -> None:
        self._roots = roots or {}

    def get(self, root: str, path: tuple[str, ...] = (), default: Value = NOTHING) -> Value:
        """What is known about a place; `default` where nothing is."""
        parts = self._roots.get(root)
        return default if parts is None else parts.get(path, default)

    def put(self, root: str, path: tuple[str, ...], value: Value) -> None:
        """Say what a place holds."""
        self._roots[root] = {**self._roots.get(root, {}), path: value}

    def drop(self, root: str, path: tuple[str, ...]) -> None:
        """Forget what a place holds."""
        if path in self._roots.get(root, ()):
            self._roots[root] = {key: value for key, value in self._roots[root].items() if key != path}

    def below(self, root: str, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Value]]:
        """What the parts of a place hold, by the path from the place on; the place itself is not among them."""
        size = len(path)
        parts = self._roots.get(root, {})
        return [(key[size:], value) for key, value in parts.items() if len(key) > size and key[:size] == path]

    def copy(self) -> Env:
        """One that changes without this one."""
        return Env(dict(self._roots))

    def joined(self, other: Env, test: Formula) -> Env:
        """What places can hold where two ways meet; this is the way on which `test` holds."""
        roots = dict(self._roots)
        for root, theirs in other._roots.items():
            mine = roots.get(root)
            if mine is None:
                roots[root] = theirs
            elif mine is not theirs:
                roots[root] = {
                    path: join_values(mine[path], theirs[path], test)
                    if path in mine and path in theirs
                    else mine.get(path) or theirs[path]
                    for path in mine.keys() | theirs.keys()
                }
        return Env(roots)


@dataclass
class State:
    """What holds at one point of the walk."""

    env: Env = field(default_factory=Env)
    guards: tuple[Guard, ...] = ()
    in_capture: bool | None = None
    is_scoped: bool = False
    parked: frozenset[Cell] = frozenset()
    traces: tuple[tuple[Happening, ...], ...] = ((),)

    def copy(self) -> State:
        """The same, to go another way from here."""
        return replace(self, env=self.env.copy())

    @property
    def is_dead(self) -> bool:
        """Whether nothing comes after this: a call that was entered never returns."""
        return not self.traces

    def kill(self) -> None:
        """Say that nothing comes after this."""
        self.traces = ()

    def become(self, other: State) -> None:
        """Take over what holds in another state."""
        for name in ("env", "guards", "in_capture", "is_scoped", "parked", "traces"):
            setattr(self, name, getattr(other, name))


@dataclass
class Frame:
    """One function under way."""

    function: Function
    number: int
    this: Place | None
    parent: Frame | None
    calls: tuple[Call, ...]
    types: dict[str, str] = field(default_factory=dict)
    """Declared types of its variables."""
    returns: list[tuple[State, Value]] = field(default_factory=list)
    breaks: list[State] = field(default_factory=list)

    @property
    def owner(self) -> str:
        """Qualified name of the class that it is a method of."""
        return self.function.owner

    @property
    def symbol(self) -> str:
        """Qualified name of the function, or of the function that a lambda stands in."""
        scope = self
        while is_lambda(scope.function) and scope.parent is not None:
            scope = scope.parent
        return scope.function.name

    def key(self, name: str) -> str:
        """The root of a variable's place."""
        return f"{self.number}/{name}"


def join(
    one: State,
    other: State,
    entry: tuple[Guard, ...],
    test: Formula,
    asks: frozenset[Cell] = frozenset(),
) -> State:
    """What holds where two ways meet; `one` is the way on which `test` holds."""
    env = one.env.joined(other.env, test)
    guards = entry
    either = conditions.either(_all(one.guards[len(entry) :]), _all(other.guards[len(entry) :]))
    if conditions.decides(either):
        guards = (*entry, _merged_guard(either, one.guards[len(entry) :], other.guards[len(entry) :]))
    traces = one.traces
    if one.traces != other.traces and not _is_about(one.traces, other.traces, asks):
        traces = tuple(dict.fromkeys((*one.traces, *other.traces)))[:MAX_TRACES]
    in_capture = one.in_capture if one.in_capture == other.in_capture else None
    return State(env, guards, in_capture, one.is_scoped and other.is_scoped, one.parked | other.parked, traces)


def _all(guards: Iterable[Guard]) -> Formula:
    formula: Formula = TRUE
    for guard in guards:
        formula = conditions.both(formula, guard.formula)
    return formula


def _merged_guard(formula: Formula, one: Sequence[Guard], other: Sequence[Guard]) -> Guard:
    guards = (*one, *other)
    asked = next((guard.asked for guard in guards if guard.asked is not None), None)
    return Guard(formula, guards[0].path, guards[0].span, frozenset(), frozenset(), asked)


def join_values(one: Value, other: Value, test: Formula) -> Value:
    """What a value can be where two ways meet; `one` is the value where `test` holds."""
    if one == other:
        return one
    return Value(
        place=one.place or other.place,
        pointee=one.pointee or other.pointee,
        fresh=tuple(dict.fromkeys((*one.fresh, *other.fresh))),
        truth=conditions.choice(test, one.truth, other.truth),
        is_status=one.is_status or other.is_status,
        is_empty=one.is_empty and other.is_empty,
        is_looked_up=one.is_looked_up or other.is_looked_up,
        measures=one.measures | other.measures,
        sized=one.sized | other.sized,
        outgrown=one.outgrown | other.outgrown,
        asks=one.asks | other.asks,
        asked=one.asked or other.asked,
        function=one.function or other.function,
        options=one.options | other.options,
    )


def _is_about(
    one: tuple[tuple[Happening, ...], ...], other: tuple[tuple[Happening, ...], ...], asks: frozenset[Cell]
) -> bool:
    """Whether `one` adds to `other` only what happens to what the test asked for: `if (graph) graph->reset();`.

    Where there is nothing to release nothing is left over, so the way around the branch needs no look of its own.
    """
    if not asks or not other:
        return False
    length = len(other[0])
    if any(len(trace) != length for trace in other) or any(trace[:length] not in other for trace in one):
        return False
    added = [happening for trace in one for happening in trace[length:]]
    return bool(added) and all(
        happening.place is not None and asks.intersection(happening.place.cells) for happening in added
    )
