"""Whether whoever replaces memory that graphs read captures these graphs anew, in the same call.

A runner that outgrows its buffer may well allocate a larger one: if it then captures all of its graphs again, none is left
that reads the old one. That takes all of them. Graphs that lie in a table under keys are all renewed only where the table
is emptied, or where table and memory have the same keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from graphlint import behavior as b
from graphlint.behavior import Behavior
from graphlint.effects import Effect
from graphlint.keeping import read_by
from graphlint.paths import Event
from graphlint.summaries import Analysis
from graphlint.values import ELEMENT, Place, Test
from graphlint.visiting import visit

_EMPTIED = frozenset(("none", "empty", "new"))


class _Renewal(NamedTuple):
    """Graphs that are captured, or given up, where the memory is replaced."""

    place: Place
    """Where they are kept."""
    asked: frozenset[Test]
    """What must be the case for it, besides what lets the memory be replaced."""
    at: int
    """Position among the events of the function."""


@dataclass(frozen=True)
class _Graphs:
    """The graphs that the objects of a class keep."""

    kept: frozenset[Place]
    replayed: tuple[tuple[Place, frozenset[Test]], ...]
    """Where which of them are replayed: the place, and what is asked before."""
    owners: frozenset[str]
    """Classes of which captures or graphs are an attribute, or a method's affair."""


def renews_graphs(analysis: Analysis, root: Behavior, replaced: Event) -> bool:
    """Whether a method that replaces memory of its object captures anew all graphs of the object, which alone read it.

    Args:
        analysis: the project.
        root: the method that decides to replace it.
        replaced: the event, in the places of that method.
    """
    owner = analysis.project.functions[root.function].owner
    slot = replaced.node.slot
    if owner is None or slot is None or not replaced.places:
        return False
    if replaced.places[0][0] != f"${root.receiver}" or len(replaced.places[0]) != 2:
        return False  # what another object keeps may be shared
    if analysis.kinds.get(root.key, frozenset()).isdisjoint((Effect.CAPTURE, Effect.GRAPH_DEATH)):
        return False
    graphs = _graphs(analysis, owner)
    if graphs is None:
        return False
    readers = {each for each, slots in analysis.captured_reads.items() if slot in slots}
    if any(slot[0] not in analysis.project.mro(each) for each in readers - graphs.owners):  # others than of its kind
        return False
    events: list[Event] = []
    visit(analysis.effectful[root.key], analysis.effectful.get, events.append)
    start = next((at for at, each in enumerate(events) if _is_same(each, replaced)), None)
    if start is None:
        return False
    renewals = list(_renewals(events, start, f"${root.receiver}", is_read=bool(readers)))
    at = {each.at for each in renewals}
    renewals = [each for each in renewals if not _may_fail(analysis, events[each.at], [events[other] for other in at])]
    if not renewals or any(_is_replay(each) for each in events[start : max(each.at for each in renewals)]):
        return False
    return all(_is_renewed(place, renewals, graphs) for place in graphs.kept) and all(
        _ends_with(analysis, root, name, slot) for each in renewals for name in _names(each.asked)
    )


def _renewals(events: Sequence[Event], start: int, me: str, *, is_read: bool) -> Iterator[_Renewal]:
    """What is captured anew, or given up, behind the replacement.

    Under the key of new memory a graph of it may be put into its table before: unless graphs read what is replaced where
    it is kept, they are given what the function has made.
    """
    replaced = events[start]
    known = set(map(_plain, replaced.guards))
    first = start + 1 if is_read or _key(replaced) is None else 0
    captures = False
    for at, event in enumerate(events[first:], first):
        node = event.node
        asked = frozenset(map(_plain, event.guards))
        captures |= isinstance(node, b.Happens) and node.effect is Effect.CAPTURE
        if not known <= asked or not event.places or event.places[0][0] != me:
            continue
        place, asked = ("", *event.places[0][1:]), asked - known
        if isinstance(node, b.Happens):
            if node.effect is Effect.CAPTURE and ELEMENT not in place:
                yield _Renewal(place, asked, at)
            continue
        is_set = node.how == "write" and "graph" in node.tags and captures
        is_gone = at > start and (node.how == "clear" or (node.how == "write" and bool(node.tags & _EMPTIED)))
        if is_set or is_gone:
            yield _Renewal(place, asked, at)
        elif node.how == "add" and "graph" in node.tags and captures and _has_key_of(event, replaced):
            yield _Renewal((*place, ELEMENT), asked, at)


def _may_fail(analysis: Analysis, event: Event, others: Sequence[Event]) -> bool:
    """Whether what captures may fail, and the graph that was there stays: a handler goes on, and renews nothing itself."""
    for depth, frame in enumerate(event.stack):
        built = analysis.behaviors.built(frame.function)
        for node in built.nodes if built is not None else ():
            if not isinstance(node, b.Guarded) or not node.span.contains(frame.span):
                continue
            if any(handler.span.contains(frame.span) for handler in node.handlers):
                continue
            renewing = [each.stack[depth].span for each in others if len(each.stack) > depth]
            for handler in node.handlers:
                raises = any(isinstance(each, b.Leaves) and each.kind == "raise" for each in b.walk(handler.node))
                ends = raises and not b.falls_through(handler.node)
                if not ends and not any(handler.span.contains(span) for span in renewing):
                    return True
    return False


def _key(event: Event) -> tuple[Place, ...] | None:
    """The key under which an event puts something into a container, as its function writes it."""
    node = event.node
    if isinstance(node, b.Touches) and node.how == "add" and node.key is not None:
        return node.key.places or None
    return None


def _has_key_of(event: Event, other: Event) -> bool:
    same = [frame.function for frame in event.stack] == [frame.function for frame in other.stack]
    return same and event.activations == other.activations and _key(event) is not None and _key(event) == _key(other)


def _is_renewed(place: Place, renewals: Sequence[_Renewal], graphs: _Graphs) -> bool:
    """Whether no graph of a place is replayed that was captured before."""
    mine = [each.asked for each in renewals if place[: len(each.place)] == each.place]
    if frozenset() in mine:
        return True
    asking = [asked for each, asked in graphs.replayed if each[: len(place)] == place]
    return bool(mine) and bool(asking) and all(any(one <= asked for one in mine) for asked in asking)


def _graphs(analysis: Analysis, owner: str) -> _Graphs | None:
    """The graphs of a class; None where it is not known where all of them are kept."""
    key = "graphs of", owner
    if key not in analysis.known:
        analysis.known[key] = _read(analysis, owner)
    found: _Graphs | None = analysis.known[key]
    return found


def _read(analysis: Analysis, owner: str) -> _Graphs | None:
    family = frozenset((*analysis.project.mro(owner), *_heirs(analysis, owner)))
    kept: set[Place] = set()
    replayed: list[tuple[Place, frozenset[Test]]] = []
    owners = set(family)
    for method in (each for name in family for each in _methods(analysis, name)):
        me = f"${method.receiver}"
        made: set[Place] = set()
        for node in method.nodes:
            if isinstance(node, b.Happens) and node.effect is Effect.CAPTURE:
                mine = [place for place in node.places if place[0] == me]
                kept.update(("", *place[1:]) for place in mine)
                made.update(place for place in node.places if place not in mine)
                owners.update(node.slot[:1] if node.slot is not None else ())
                if not node.places:
                    return None
            elif isinstance(node, b.Touches) and node.how in ("write", "add") and "graph" in node.tags:
                inside = (ELEMENT,) if node.how == "add" else ()
                mine = [place for place in node.places if place[0] == me]
                kept.update(("", *place[1:], *inside) for place in mine)
                made.difference_update(node.value_places if mine else ())
        if made:
            return None  # given to somebody else
        if Effect.REPLAY in method.effects:
            seen: list[Event] = []
            visit(method, lambda _: None, seen.append)
            for event in filter(_is_replay, seen):
                if not event.places or event.places[0][0] != me:
                    return None
                replayed.append((("", *event.places[0][1:]), frozenset(map(_plain, event.guards))))
    known = all(any(place[: len(each)] == each for each in kept) for place, _ in replayed)
    return _Graphs(frozenset(kept), tuple(replayed), frozenset(owners)) if kept and known else None


def _heirs(analysis: Analysis, owner: str) -> Iterator[str]:
    """The classes that a class is a base of, near and far."""
    for each in analysis.project.subclasses.get(owner, ()):
        yield each
        yield from _heirs(analysis, each)


def _methods(analysis: Analysis, owner: str) -> Iterator[Behavior]:
    entry = analysis.project.classes.get(owner)
    for function in entry.methods.values() if entry is not None else ():
        built = analysis.behaviors.built(function)
        if built is not None:
            yield built


def _is_replay(event: Event) -> bool:
    return isinstance(event.node, b.Happens) and event.node.effect is Effect.REPLAY


def _is_same(one: Event, other: Event) -> bool:
    return one.node is other.node and [f[:2] for f in one.stack] == [f[:2] for f in other.stack]


def _plain(test: Test) -> Test:
    """A test without where it stands: two that ask the same are equal."""
    match test:
        case ("compare", op, read, _):
            return ("compare", op, read, "")
        case ("not" | "and" | "or" as op, *inner):
            return (op, *map(_plain, inner))
    return test


def _names(asked: frozenset[Test]) -> Iterator[str]:
    """Attributes of the object on which it depends which graphs are captured."""
    for test in asked:
        for place in read_by(test):
            if place[0].startswith("$") and len(place) == 2:
                yield place[1]


def _setting(analysis: Analysis) -> Mapping[str, Sequence[tuple[Behavior, bool]]]:
    """By name of an attribute, who sets it, constructors apart: each with whether it is one of his own object."""
    key = "setting", ""
    if key not in analysis.known:
        found: dict[str, list[tuple[Behavior, bool]]] = {}
        for each in analysis.behaviors.all():
            for node in each.nodes if "|" not in each.key and not each.function.endswith(".__init__") else ():
                if isinstance(node, b.Touches) and node.how == "write":
                    for place in node.places:
                        found.setdefault(place[-1], []).append((each, place[0] == f"${each.receiver}"))
        analysis.known[key] = found
    setting: Mapping[str, Sequence[tuple[Behavior, bool]]] = analysis.known[key]
    return setting


def _ends_with(analysis: Analysis, root: Behavior, name: str, slot: b.Slot) -> bool:
    """Whether whoever sets an attribute, constructors and what replaces the memory apart, gives up the memory as well."""
    owner = analysis.project.functions[root.function].owner or ""
    family = analysis.project.mro(owner)

    def is_kin(other: str | None) -> bool:
        return other is not None and (other in family or owner in analysis.project.mro(other))

    setting = {
        each.function: each
        for each, is_own in _setting(analysis).get(name, ())
        if not is_own or is_kin(analysis.project.functions[each.function].owner)
    }
    inside: list[Event] = []
    visit(root, analysis.behaviors.built, inside.append)
    for function in {frame.function for event in inside for frame in event.stack}:
        setting.pop(function, None)
    for each in setting.values():
        seen: list[Event] = []
        visit(each, analysis.behaviors.built, seen.append)
        if not any(
            isinstance(event.node, b.Touches)
            and event.node.slot is not None
            and event.node.slot[1] == slot[1]
            and (event.node.how == "drop" or "none" in event.node.tags)
            for event in seen
        ):
            return False
    return True
