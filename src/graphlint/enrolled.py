"""Parts of an object that stand in a table too: `Part(self.registry)` enrols itself, `self.store.at_end(self.part.free)` does it.

What a loop over that table does, it does to each of them, also where the table keeps a method of theirs to be called at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from graphlint import behavior as b
from graphlint.behavior import Behavior
from graphlint.effects import Effect
from graphlint.paths import Event
from graphlint.project import FunctionEntry
from graphlint.summaries import Analysis
from graphlint.values import ELEMENT, Place, Type
from graphlint.visiting import visit

_DEEPEST = 3
"""Most calls between a constructor and what puts its argument into the table."""
_STEPS = 1_500
_NAMED = frozenset(("named",))
_KEYED = frozenset(("keyed",))
_SHARED = ("class:", "mod:")
_ROOTS = ("$", *_SHARED)


class _Stranger(NamedTuple):
    """An object of which its constructor puts something into a table of an argument."""

    owner: str
    """Its class."""
    host: str
    """The class of the argument."""
    table: Place
    """The table, as a way from the argument."""
    way: Place
    """What is put there, as a way from the object."""


def members_of(analysis: Analysis, class_name: str, root: Behavior | None = None) -> Mapping[Place, tuple[Place, ...]]:
    """Tables, as ways from an object of a class or as places of the process, and what of the object stands in them, as ways.

    Args:
        analysis: the project.
        class_name: of the object.
        root: where the tables are gone over; None for anywhere. Those are left out of which somebody is taken there by name: who
            has left is in them no more.
    """
    found: Mapping[str, Mapping[Place, tuple[Place, ...]]] | None = analysis.known.get(("enrolled", ""))
    if found is None:
        found = analysis.known["enrolled", ""] = _all_members(analysis)
    for each in analysis.project.mro(class_name) if found else ():
        if each in found:
            left = left_tables(analysis, root)
            return {way: members for way, members in found[each].items() if b.last_name(way) not in left}
    return {}


def left_tables(analysis: Analysis, root: Behavior | None) -> set[str]:
    """Names of the tables out of which functions, or one and those that it calls, take an object that they know."""
    key = "left", root.key if root is not None else ""
    if key in analysis.known:
        known: set[str] = analysis.known[key]
        return known
    behaviors = analysis.behaviors.all() if root is None else _reached(analysis, root)
    telling = _NAMED if root is None else _NAMED | _KEYED
    touches = (
        node
        for each in behaviors
        for node in each.nodes
        if isinstance(node, b.Touches) and not telling.isdisjoint(node.tags)
    )
    found = analysis.known[key] = {b.last_name(place) for node in touches for place in node.places}
    return found


def _reached(analysis: Analysis, root: Behavior) -> Iterator[Behavior]:
    waiting, seen = [root.key], set[str]()
    while waiting:
        key = waiting.pop()
        behavior = analysis.behaviors.built(key)
        if key not in seen and behavior is not None:
            seen.add(key)
            yield behavior
            waiting += behavior.callees


def _all_members(analysis: Analysis) -> Mapping[str, Mapping[Place, tuple[Place, ...]]]:
    tables = frozenset(_tables(analysis))
    found: dict[str, dict[Place, tuple[Place, ...]]] = {}
    strangers: list[_Stranger] = []
    for key in sorted(_registering(analysis, tables)) if tables else ():
        root = analysis.behaviors.built(key)
        function = analysis.project.functions[root.function] if root is not None else None
        if root is None or function is None or function.owner is None or root.receiver is None:
            continue
        kept, entered = _put(analysis, root, tables)
        for table, members in _members(analysis, root, kept, entered).items():
            known = found.setdefault(function.owner, {})
            known[table] = tuple(dict.fromkeys((*known.get(table, ()), *members)))
        strangers += _strangers(analysis, function, kept, entered)
    for owner, table, member in _introduced(analysis, strangers):
        found.setdefault(owner, {}).setdefault(table, (member,))
    return found


def _strangers(
    analysis: Analysis,
    function: FunctionEntry,
    kept: Mapping[str, Sequence[Place]],
    entered: Mapping[Place, Sequence[Place]],
) -> Iterator[_Stranger]:
    """What a constructor puts of its own object into tables of an argument that it does not keep."""
    me = f"${function.facts.params[0].name}"
    for table, values in entered.items() if function.facts.name == "__init__" else ():
        if table[0][0] == "$" and table[0] != me and table[0] not in kept and function.owner is not None:
            types = _types(analysis, function, table[0][1:])
            for value in values if len(types) == 1 else ():
                if value[0] == me:
                    way = _object(analysis, value, me)[1:]
                    yield _Stranger(function.owner, types[0].name, table[1:], way)


def _types(analysis: Analysis, function: FunctionEntry, name: str) -> Sequence[Type]:
    """Types of a parameter: what is said of it, or what it is given."""
    said = next((each.annotation for each in function.facts.params if each.name == name), None)
    return analysis.project.annotation(function.module, said) or analysis.behaviors.parameter(function, name).types


def _introduced(analysis: Analysis, strangers: Sequence[_Stranger]) -> Iterator[tuple[str, Place, Place]]:
    """Classes whose objects have just one of both, the object and whoever has the table: the two are taken to know each other."""
    owners = {analysis.project.functions[root.function].owner for root in analysis.roots()} if strangers else set()
    for owner in sorted(each for each in owners if each is not None):
        attributes: dict[str, list[str]] = {}
        for _, name in analysis.slots_of(owner):
            for kind in analysis.behaviors.field_types(owner, name):
                attributes.setdefault(kind.name, []).append(name)
        for each in strangers:
            mine, its = attributes.get(each.owner, []), attributes.get(each.host, [])
            if len(mine) == len(its) == 1:
                yield owner, (its[0], *each.table), (mine[0], *each.way)


def _tables(analysis: Analysis) -> Iterator[str]:
    """Names of attributes whose items are told to end graphs."""
    for each in analysis.effectful.values():
        for node in each.nodes:
            if isinstance(node, b.Calls) and any(
                Effect.GRAPH_DEATH in analysis.kinds.get(key, ()) for key in node.behaviors
            ):
                for _, places in node.bindings:
                    for place in places:
                        yield from (before for before, part in pairwise(place) if part == ELEMENT != before)


def _registering(analysis: Analysis, tables: frozenset[str]) -> set[str]:
    """Keys of the methods that put an object into such a table, themselves or in a call; of constructors, further down too."""
    reached = {
        each.key
        for each in analysis.behaviors.all()
        for node in each.nodes
        if isinstance(node, b.Touches) and node.how == "add" and _is_of(node, tables)
    }
    found = set(reached)
    callers: dict[str, list[str]] = {}
    for each in analysis.behaviors.all() if reached else ():
        for callee in each.callees:
            callers.setdefault(callee, []).append(each.key)
    for depth in range(_DEEPEST):
        reached = {caller for key in reached for caller in callers.get(key, ())} - found
        found |= {key for key in reached if depth == 0 or key.endswith(".__init__")}
    return {key for key in found if "|" not in key}


def _is_of(node: b.Touches, tables: frozenset[str]) -> bool:
    return bool(node.places) and b.last_name(node.places[0]) in tables and node.places[0][0].startswith(_ROOTS)


def _put(
    analysis: Analysis, root: Behavior, tables: frozenset[str]
) -> tuple[Mapping[str, Sequence[Place]], Mapping[Place, Sequence[Place]]]:
    """What a method keeps, by root: the ways to it from the object; and what it puts into which tables."""
    me, methods = f"${root.receiver}", analysis.project.methods_named
    kept: dict[str, list[Place]] = {}
    entered: dict[Place, list[Place]] = {}
    keeping: dict[str, list[Event]] = {}
    entering: dict[str, list[Event]] = {}

    def see(event: Event) -> None:
        node = event.node
        if not isinstance(node, b.Touches) or not event.places:
            return
        place = event.places[0]
        if node.how in ("write", "add") and len(place) == 2 and place[0] == me:
            way = (place[1], ELEMENT) if node.how == "add" else (place[1],)
            for value in event.value_places[:1]:
                if len(value) == 1 and value[0] != me:
                    kept.setdefault(value[0], []).append(way)
                    if node.how == "write":
                        keeping.setdefault(value[0], []).append(event)
        if node.how == "add" and len(place) > 1 and b.last_name(place) in tables and place[0].startswith(_ROOTS):
            first = event.value_places[:1]  # what it was made with comes behind, and says nothing of it
            others = [each for each in event.value_places[1:] if each[0][0] == "@" or each[-1] in methods]
            entered.setdefault(place, []).extend((*first, *others))
            for value in first:
                entering.setdefault(value[0], []).append(event)

    visit(root, analysis.behaviors.built, see, ways=4, steps=_STEPS)
    for made, events in keeping.items():
        if made in entering and all(_is_either(kept_at, put) for kept_at in events for put in entering[made]):
            kept[made] = [way for way in kept[made] if ELEMENT in way]
    return kept, entered


def _is_either(one: Event, other: Event) -> bool:
    """Whether a function does one of two things and not the other: `if first: self.lead = part` with an `else`."""
    taken = {branch.frame: branch.taken for branch in one.branches}
    return any(taken.get(branch.frame, branch.taken) != branch.taken for branch in other.branches)


def _members(
    analysis: Analysis, root: Behavior, kept: Mapping[str, Sequence[Place]], entered: Mapping[Place, Sequence[Place]]
) -> dict[Place, tuple[Place, ...]]:
    me = f"${root.receiver}"
    found: dict[Place, list[Place]] = {}
    for table, values in entered.items():
        for way in _ways(table, me, kept):
            members = (_other_way(way, _ways(_object(analysis, value, me), me, kept)) for value in values)
            found.setdefault(way, []).extend(each for each in members if each is not None)
    return {table: tuple(dict.fromkeys(members)) for table, members in found.items() if members}


def _other_way(table: Place, ways: Sequence[Place]) -> Place | None:
    """How else than through a table an object of it is reached: as an attribute, or in another table that had it before."""
    others = [way for way in ways if way[: len(table)] != table]
    single = next((way for way in others if ELEMENT not in way), None)
    return single if single is not None else next((way for way in ways[:1] if way in others), None)


def _object(analysis: Analysis, value: Place, me: str) -> Place:
    """What is put into a table, or the object whose method is."""
    is_method = len(value) > 1 and value[-1] in analysis.project.methods_named
    return value[:-1] if is_method and value[0] == me else value[: 2 if value[0] == me else 1]


def _ways(place: Place, me: str, kept: Mapping[str, Sequence[Place]]) -> Sequence[Place]:
    """How an object leads to a place, where it is known to: what it keeps comes first by the name that it was given first."""
    if place[0] == me:
        return (place[1:],)
    if place[0].startswith(_SHARED):
        return (place,)
    return [(*way, *place[1:]) for way in kept.get(place[0], ())]
