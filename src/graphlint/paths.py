"""What a path through the program is: the events on it, and what it has learned by its tests and writes.

A *configuration* is a monitor's state, the facts that the path has learned, and the events that brought it there. Facts are
about places: that one is None, that one is true (a container: not empty). A write sets them, a test asks them. Two
configurations with equal state and facts are one; the one with the shorter path is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from graphlint import behavior as b
from graphlint.effects import Effect
from graphlint.learned import Atom, Fact, Learned
from graphlint.source import Span
from graphlint.values import ELEMENT, Place, Test

MAX_DEPTH = 14
"""Most calls in each other."""
MAX_STEPS = 12_000
"""Most nodes visited in one run, counted for each configuration; a run that needs more is cut and says so."""


class Frame(NamedTuple):
    """One call on the way to an event: the function, and the span in it where the way goes on."""

    function: str
    span: Span
    receiver: tuple[Place, ...] = ()
    """Of a method, the object that it runs on."""


class Branch(NamedTuple):
    """A branch that was taken, or left untaken, on the way to an event."""

    frame: Frame
    """The function, and its `if`."""
    taken: bool
    """Whether its test was true."""


class Event(NamedTuple):
    """A node that happened, with the places of the function that the run started in."""

    node: b.Happens | b.Touches
    places: tuple[Place, ...]
    pool: tuple[Place, ...]
    stack: tuple[Frame, ...]
    value_places: tuple[Place, ...] = ()
    in_constructor: bool = False
    effect: Effect | None = None
    """The effect by which it moved the monitor."""
    guards: tuple[Test, ...] = ()
    """From `visit`: the tests that let it happen: branches around it, and branches before it that leave."""
    branches: tuple[Branch, ...] = ()
    """From `visit`: where the branches among these tests stand."""
    loops: tuple[Frame, ...] = ()
    """From `visit`: the loops around it, outermost first."""
    activations: tuple[int, ...] = (0,)
    """For each frame of the stack, which activation of its function it is: two rounds of a loop make two."""


class Refusal(NamedTuple):
    """A `raise` that a behavior can come to, as `visit` shows it."""

    node: b.Leaves
    guards: tuple[Test, ...]
    stack: tuple[Frame, ...]
    caught: tuple[b.Handler, ...]
    """The handlers around it, outermost first."""


State: TypeAlias = Any
"""Whatever a monitor keeps; it can be hashed."""


class Config(NamedTuple):
    """Where one path stands."""

    state: State
    facts: Learned
    trace: tuple[Event, ...] = ()

    def fact(self, atom: Atom) -> bool | None:
        """The answer to a question about a place; None where this path has not learned it."""
        return self.facts.get(atom)


Monitor: TypeAlias = Callable[[State, Event, Config], "tuple[State, Effect] | None"]
"""Next state for an event, and the effect that led there; None: nothing changes, and the event is not recorded."""
Outcome: TypeAlias = dict[str, list[Config]]
"""Configurations by how control left: next, return, raise, break, continue."""
CAPTURED: Atom = ("capturing", ())
DEVICE: Atom = ("device", ())
NO_FACTS: frozenset[Fact] = frozenset()
_CONSTANT = frozenset(("device", "dtype", "type", "index"))
"""Attributes of tensors that are the same for all that a model works on."""
MAX_CONFIGURATIONS = 24
"""Most configurations kept at one point."""


def knowing(config: Config, facts: Learned) -> Config:
    """The configuration with other facts."""
    return config if facts is config.facts else Config(config.state, facts, config.trace)


def with_fact(config: Config, atom: Atom, value: bool) -> Config:
    """The configuration with one fact more, and what follows from it."""
    return knowing(config, config.facts.with_answer(atom, value))


def without_fact(config: Config, atom: Atom) -> Config:
    """The configuration with one question open again."""
    return knowing(config, config.facts.without(atom))


def distinct(configs: list[Config], *, spread: bool = False) -> list[Config]:
    """One configuration for each state and facts, the one with the shortest path.

    Of too many the first ones are kept, or with `spread` some of all along.
    """
    if len(configs) < 2:
        return configs
    best: dict[tuple[State, Learned], Config] = {}
    for config in configs:
        key = config[:2]
        known = best.setdefault(key, config)
        if known is not config and len(config.trace) < len(known.trace):
            best[key] = config
    kept = list(best.values())
    if len(kept) <= MAX_CONFIGURATIONS:
        return kept
    if not spread:
        return kept[:MAX_CONFIGURATIONS]
    return [kept[at * len(kept) // MAX_CONFIGURATIONS] for at in range(MAX_CONFIGURATIONS)]


def merge(out: Outcome, more: Outcome) -> None:
    """Put the configurations of an outcome into another one."""
    for kind, configs in more.items():
        if configs:
            out.setdefault(kind, []).extend(configs)


def joined(one: Outcome, other: Outcome) -> Outcome:
    """Two outcomes as one, each configuration once."""
    result: Outcome = {kind: list(configs) for kind, configs in one.items()}
    merge(result, other)
    return {kind: distinct(configs) for kind, configs in result.items()}


def as_before(config: Config, before: Sequence[Config]) -> Config:
    """What is known of the capture again, after a call that ran outside of it."""
    known = {each.fact(CAPTURED) for each in before}
    value = known.pop() if len(known) == 1 else None
    return without_fact(config, CAPTURED) if value is None else with_fact(config, CAPTURED, value)


def said_of(node: b.Touches, place: Place) -> frozenset[Fact]:
    """What a touch of one place says of it."""
    none, true = ("none", place), ("true", place)
    tags = node.tags
    match node.how:
        case "write" if "none" in tags:
            return frozenset(((none, True), (true, False)))
        case "write" if "true" in tags:
            return frozenset(((none, False), (true, True)))
        case "write" if tags & {"false", "empty"}:
            return frozenset(((none, False), (true, False)))
        case "write" if tags & {"tensor", "graph", "pool", "object"}:
            return frozenset(((none, False),))
        case "write" if constant := next((each for each in tags if each.startswith("=")), None):
            return frozenset(((none, False), ((constant, place), True)))
        case "drop":
            return frozenset(((none, True), (true, False), (("gone", place), True)))
        case "clear":
            return frozenset(((true, False), (none, False)))
        case "add":
            return frozenset(((true, True), (none, False)))
    return NO_FACTS


def as_element(facts: frozenset[Fact], place: Place) -> frozenset[Fact]:
    """What is known of a place, for what was there and stands for an element from now on."""
    size = len(place)
    return frozenset(
        [((kind, (*place, ELEMENT, *where[size:])), value) for (kind, where), value in facts if where[:size] == place]
    )


def without_single(facts: Learned) -> Learned:
    """What is known at the start of rounds that each ask under a key of their own: one entry that is there says nothing."""
    for (kind, element), value in tuple(facts):
        if kind == "one" and value:
            about = facts.about(element[0])
            kept = [
                f
                for f in about
                if f[0][1] != element and not (f[0][0].startswith("compare") and f[0][1] == element[:-1])
            ]
            facts = facts.put(element[0], frozenset(kept))
    return facts


def varies(place: Place) -> bool:
    """Whether what is read there is another thing at another time: the length of a tensor, an item of several."""
    if place[-1] in _CONSTANT:
        return False
    if "shape" in place:
        return place[-2:] == ("shape", "0")
    return ELEMENT in place or (len(place) == 1 and place[0].startswith("@"))


def last_part(place: Place) -> str:
    """The attribute or variable that a place, or what it is an item of, is known by."""
    for part in reversed(place):
        if part != ELEMENT:
            return part.partition("#")[0]
    return ""


def atoms(test: Test) -> Iterator[tuple[str, Place]]:
    """The questions about places in a test."""
    match test:
        case ("atom", kind, place) if place:
            yield kind, place
        case ("not" | "and" | "or", *inner):
            for each in inner:
                yield from atoms(each)
