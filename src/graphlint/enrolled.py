"""Parts of an object that stand in a table too: `Part(self.registry)` enrols itself, `self.store.at_end(self.part.free)` does it.

What a loop over that table does, it does to each of them, also where the table keeps a method of theirs to be called at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from graphlint import behavior as b
from graphlint.behavior import Behavior
from graphlint.effects import Effect
from graphlint.execution import Event, visit
from graphlint.summaries import Analysis
from graphlint.values import ELEMENT, Place

_DEEPEST = 3
"""Most calls between a constructor and what puts its argument into the table."""
_STEPS = 1_500
_SHARED = ("class:", "mod:")
_ROOTS = ("$", *_SHARED)


def members_of(analysis: Analysis, class_name: str) -> Mapping[Place, tuple[Place, ...]]:
    """Tables, as ways from an object of a class or as places of the process, and what of the object stands in them, as ways."""
    found: Mapping[str, Mapping[Place, tuple[Place, ...]]] | None = analysis.known.get(("enrolled", ""))
    if found is None:
        found = analysis.known["enrolled", ""] = _all_members(analysis)
    for each in analysis.project.mro(class_name) if found else ():
        if each in found:
            return found[each]
    return {}


def _all_members(analysis: Analysis) -> dict[str, Mapping[Place, tuple[Place, ...]]]:
    left = {b.last_name(place) for each in analysis.behaviors.all() for place in _left(each)}
    tables = frozenset(_tables(analysis)) - left
    found: dict[str, dict[Place, tuple[Place, ...]]] = {}
    for key in sorted(_registering(analysis, tables)) if tables else ():
        root = analysis.behaviors.built(key)
        owner = analysis.project.functions[root.function].owner if root is not None else None
        if root is None or owner is None or root.receiver is None:
            continue
        for table, members in _members(analysis, root, tables).items():
            known = found.setdefault(owner, {})
            known[table] = tuple(dict.fromkeys((*known.get(table, ()), *members)))
    return found


def _tables(analysis: Analysis) -> Iterator[str]:
    """Names of attributes whose items are told to end graphs."""
    for each in analysis.effectful.values():
        for node in each.nodes:
            if isinstance(node, b.Calls) and any(
                Effect.GRAPH_DEATH in analysis.kinds.get(key, ()) for key in node.behaviors
            ):
                for _, places in node.bindings:
                    for place in places:
                        yield from (before for before, part in pairwise(place) if part == ELEMENT)


def _left(behavior: Behavior) -> Iterator[Place]:
    """The tables out of which a function takes an object that it knows: who has left is in them no more."""
    for node in behavior.nodes:
        if isinstance(node, b.Touches) and "named" in node.tags:
            yield from node.places


def _registering(analysis: Analysis, tables: frozenset[str]) -> set[str]:
    """Keys of the methods that come to put an object into such a table."""
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
    for _ in range(_DEEPEST):
        reached = {caller for key in reached for caller in callers.get(key, ())} - found
        found |= reached
    return {key for key in found if "|" not in key}


def _is_of(node: b.Touches, tables: frozenset[str]) -> bool:
    return bool(node.places) and b.last_name(node.places[0]) in tables and node.places[0][0].startswith(_ROOTS)


def _members(analysis: Analysis, root: Behavior, tables: frozenset[str]) -> dict[Place, tuple[Place, ...]]:
    me, methods = f"${root.receiver}", analysis.project.methods_named
    kept: dict[str, list[Place]] = {}
    entered: dict[Place, list[Place]] = {}

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
        if node.how == "add" and len(place) > 1 and place[-1] in tables and place[0].startswith(_ROOTS):
            first = event.value_places[:1]  # what it was made with comes behind, and says nothing of it
            others = [each for each in event.value_places[1:] if each[0][0] == "@" or each[-1] in methods]
            entered.setdefault(place, []).extend((*first, *others))

    visit(root, analysis.behaviors.built, see, ways=4, steps=_STEPS)
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
