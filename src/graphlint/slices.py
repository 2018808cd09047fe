"""The part of a project's behaviors that a question about some effects can depend on.

A rule that follows paths asks about a handful of effects. Most of what large functions do has none of them, and branches
around it only multiply paths. A slice keeps the effects that are asked for and what decides whether they are reached: the
tests around them, the exits before them, and the writes of whatever these tests ask about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from graphlint import behavior as b
from graphlint.behavior import Behavior, Node


@dataclass(frozen=True)
class Slice:
    """Behaviors by key, with nothing in them but what a question depends on."""

    behaviors: Mapping[str, Behavior]
    remembered: frozenset[str]
    """Last names of the places that facts are worth keeping about."""

    def of(self, root: Behavior) -> Behavior:
        """What is left of a behavior."""
        return self.behaviors.get(root.key) or replace(root, node=b.NOTHING)


def sliced(
    behaviors: Mapping[str, Behavior],
    starts: Callable[[b.Happens | b.Touches], bool],
    belongs: Callable[[b.Happens | b.Touches], bool],
) -> Slice:
    """The slice of behaviors.

    Args:
        behaviors: by key.
        starts: whether an event is asked for; the functions that come to none of these are left out.
        belongs: whether an event is kept where its function is.
    """
    asked = {
        key
        for key, each in behaviors.items()
        if any(isinstance(node, b.Happens | b.Touches) and starts(node) for node in each.nodes)
    }
    kept: dict[int, bool] = {}
    callers: dict[str, set[str]] = {}
    touching: dict[str, set[str]] = {}
    for key, each in behaviors.items():
        for callee in each.callees:
            callers.setdefault(callee, set()).add(key)
        for node in each.nodes:
            if isinstance(node, b.Touches):
                for place in node.places:
                    touching.setdefault(b.last_name(place), set()).add(key)
    tested: set[str] = set()

    def keeps(node: b.Happens | b.Touches) -> bool:
        known = kept.get(id(node))
        if known is None:
            known = kept[id(node)] = belongs(node)
        return known or (isinstance(node, b.Touches) and any(b.last_name(place) in tested for place in node.places))

    keys: set[str] = set()
    waiting = asked
    found: dict[str, Behavior] = {}
    while waiting:
        reached = list(waiting)
        while reached:
            for caller in callers.get(reached.pop(), ()):
                if caller not in waiting:
                    waiting.add(caller)
                    reached.append(caller)
        keys |= waiting
        found = {key: pruned(behaviors[key], keys, keeps) for key in sorted(keys)}
        more = {name for each in found.values() for name in each.tested} - tested
        tested |= more
        waiting = {key for name in more for key in touching.get(name, ())} - keys
        if more and not waiting:
            waiting = set(keys)
    held = frozenset(
        node.slot[1]
        for each in found.values()
        for node in each.nodes
        if isinstance(node, b.Touches) and node.slot is not None and kept.get(id(node))
    )
    return Slice(found, held | tested)


def pruned(behavior: Behavior, keys: set[str], keeps: Callable[[b.Happens | b.Touches], bool]) -> Behavior:
    """A behavior without the events that are not kept, and without the calls of behaviors that are not among the keys."""

    def visited(each: Node) -> Node:
        match each:
            case b.Happens() | b.Touches():
                return each if keeps(each) else b.NOTHING
            case b.Calls():
                return each if not keys.isdisjoint(each.behaviors) else b.NOTHING
            case b.Within() if keys.isdisjoint(each.calls.behaviors):
                return visited(each.body)
        return b.simplified(each, visited)

    return replace(behavior, node=visited(behavior.node))
