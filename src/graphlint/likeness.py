"""Two names that may stand for one object: attributes that a constructor may give the same, keys of one table.

`self.draft = draft or target` is another runner where there is a draft, and the target itself where there is none. A path that
takes the two for one object says something only where nothing on it asks whether they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphlint import flow
from graphlint.behavior import Behavior, Repeat
from graphlint.flow import Expr
from graphlint.paths import Event, Frame, atoms
from graphlint.summaries import Analysis, Site
from graphlint.values import Place, Test

_APART = frozenset(("fromkeys", "frozenset", "id", "seen", "set", "unique"))
"""Words of what visits each object once, whatever names it has."""
_OWN = 2
"""Parts of the place of an attribute of the object itself: `self.draft`."""


def may_be_alike(analysis: Analysis, root: Behavior, sites: Sequence[Site]) -> bool:
    """Whether objects on the paths of a function have attributes that may be one object."""
    known = analysis.behaviors.alike
    if not known:
        return False
    functions = {root.function, *(frame.function for site in sites for frame in site.event.stack)}
    owners = {analysis.project.functions[name].owner for name in functions}
    return any(not known.keys().isdisjoint(analysis.project.mro(owner)) for owner in owners if owner is not None)


def is_unasked(analysis: Analysis, root: Behavior, trace: Sequence[Event]) -> bool:
    """Whether nothing around the events of a path may depend on whether two attributes are one object."""
    for event in trace:
        site = next((site for site in analysis.sites(root) if _is_at(site.event, event)), None)
        if site is None or not all(_is_plain(guard, site.event.places) for guard in site.event.guards):
            return False
    functions = {frame.function for event in trace for frame in event.stack[:-1]} | {root.function}
    return not any(_tells_apart(analysis, name) for name in functions)


def alike_text(analysis: Analysis, trace: Sequence[Event]) -> str:
    """Which attributes a path takes for one object, as a reader writes it."""
    for event in reversed(trace):
        for frame in event.stack:
            function = analysis.project.functions[frame.function]
            known = analysis.behaviors.alike_of(function.owner) if function.owner is not None else {}
            me = function.facts.params[0].name if function.facts.params else ""
            for name, target in known.items():
                if name in function.facts.words and target in function.facts.words:
                    return f"{me}.{name} is {me}.{target}"
    return ""


def is_doubled(analysis: Analysis, place: Place) -> bool:
    """Whether a place leads through a table in which one object stands under several keys."""
    doubled = {name for _, name in analysis.behaviors.doubled}
    return not doubled.isdisjoint(place)


def has_doubled(analysis: Analysis, root: Behavior) -> bool:
    """Whether a function goes over such a table."""
    return bool(analysis.behaviors.doubled) and any(
        isinstance(node, Repeat) and any(is_doubled(analysis, place) for place in node.over) for node in root.nodes
    )


def goes_over_twice(analysis: Analysis, frame: Frame) -> bool:
    """Whether the loop around a call goes over all of a table, and no object of it is left out for having been there."""
    function = analysis.project.functions[frame.function]
    loops = [
        each
        for each in flow.statements(function.lowered.flow)
        if isinstance(each, flow.Star) and each.span.contains(frame.span) and each.iterable is not None
    ]
    if not loops or _APART & set(_words(loops[-1].iterable)):
        return False
    return not any(_asks(expr) for expr in flow.expressions(loops[-1].body))


def _is_at(event: Event, other: Event) -> bool:
    """Whether an event happens in what another one, of a path that takes two objects for one, stands for."""
    return [frame[:2] for frame in event.stack[: len(other.stack)]] == [frame[:2] for frame in other.stack]


def _is_plain(guard: Test, places: Sequence[Place]) -> bool:
    """Whether a test asks only whether there is something on the way to what an event is about, or how the object itself is."""
    if guard[0] in ("compare", "unknown"):
        return False
    return all(
        any(each[: len(way)] == way for each in places) for _, place in atoms(guard) for way in (_object_of(place),)
    )


def _object_of(place: Place) -> Place:
    """The object whose attribute a place is, where that is an attribute of the function's own object."""
    return place[:-1] if len(place) > _OWN else place


def _tells_apart(analysis: Analysis, name: str) -> bool:
    function = analysis.project.functions[name]
    return bool(_APART & function.facts.words) or any(
        isinstance(expr, flow.Group) and expr.kind == "set" for expr in flow.expressions(function.lowered.flow)
    )


def _asks(expr: Expr) -> bool:
    """Whether an expression asks whether something was there before."""
    return (isinstance(expr, flow.Op) and expr.op in ("in", "not in", "is", "is not")) or (
        isinstance(expr, flow.Call) and flow.last_name(expr) in ("id", "add")
    )


def _words(expr: Expr | None) -> Iterator[str]:
    for part in flow.parts(expr) if expr is not None else ():
        if isinstance(part, flow.Name):
            yield part.id
        elif isinstance(part, flow.Attr):
            yield part.name
