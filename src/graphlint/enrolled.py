"""Parts of an object that enrol in a table of another part: `Part(..., self.registry)` whose constructor appends itself.

What a loop over that table does, it does to each of them, also where the table keeps a method of theirs to be called at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def members_of(analysis: Analysis, class_name: str) -> Mapping[Place, tuple[str, ...]]:
    """Tables, as ways from an object of a class or as places of the process, and the object's attributes that stand in them."""
    found: Mapping[str, Mapping[Place, tuple[str, ...]]] | None = analysis.known.get(("enrolled", ""))
    if found is None:
        found = analysis.known["enrolled", ""] = _all_members(analysis)
    for each in analysis.project.mro(class_name) if found else ():
        if each in found:
            return found[each]
    return {}


def _all_members(analysis: Analysis) -> dict[str, Mapping[Place, tuple[str, ...]]]:
    left = {b.last_name(place) for each in analysis.behaviors.all() for place in _left(each)}
    tables = frozenset(_tables(analysis)) - left
    found: dict[str, Mapping[Place, tuple[str, ...]]] = {}
    for key in sorted(_constructors(analysis, tables)) if tables else ():
        root = analysis.behaviors.built(key)
        owner = analysis.project.functions[root.function].owner if root is not None else None
        if root is not None and owner is not None and (members := _members(analysis, root, tables)):
            found[owner] = members
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


def _constructors(analysis: Analysis, tables: frozenset[str]) -> set[str]:
    """Keys of the constructors that come to put an object which they did not make there into such a table."""
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
    return {key for key in found if key.endswith(".__init__")}


def _is_of(node: b.Touches, tables: frozenset[str]) -> bool:
    return bool(node.places) and b.last_name(node.places[0]) in tables and node.places[0][0].startswith(_ROOTS)


def _members(analysis: Analysis, root: Behavior, tables: frozenset[str]) -> dict[Place, tuple[str, ...]]:
    me = f"${root.receiver}"
    kept: dict[str, str] = {}
    entered: dict[Place, list[str]] = {}

    def see(event: Event) -> None:
        node = event.node
        if not isinstance(node, b.Touches) or not event.places:
            return
        place = event.places[0]
        if node.how == "write" and len(place) == 2 and place[0] == me:
            for value in event.value_places:
                if len(value) == 1 and value[0].startswith("@"):
                    kept[value[0]] = place[1]
        elif node.how == "add" and len(place) > 1 and place[-1] in tables and place[0].startswith((me, *_SHARED)):
            way = place[1:] if place[0] == me else place
            entered.setdefault(way, []).extend(v[0] for v in event.value_places if v[0].startswith("@"))

    visit(root, analysis.behaviors.built, see, ways=4, steps=_STEPS)
    found = {
        path: tuple(dict.fromkeys(kept[each] for each in roots if each in kept)) for path, roots in entered.items()
    }
    return {path: names for path, names in found.items() if names}
