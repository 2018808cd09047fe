"""Items that go from one table into another: whoever released one before may release it there again.

`runner = self.active.pop(); runner.free(); self.leaving.append(runner)`, and what goes over `self.leaving` frees it once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphlint import behavior as b
from graphlint import flow
from graphlint.assignments import given_locally
from graphlint.behavior import Behavior
from graphlint.effects import Effect
from graphlint.paths import Event, Frame
from graphlint.summaries import Analysis, Site
from graphlint.values import ELEMENT, Place
from graphlint.visiting import visit

_STEPS = 1_500


def moves(analysis: Analysis, root: Behavior, sites: Sequence[Site]) -> Mapping[Place, tuple[Place, ...]]:
    """Tables whose items a function releases, and the items of others that it puts there."""
    key = "moves", root.key
    if key not in analysis.known:
        analysis.known[key] = _moves(analysis, root, sites)
    known: Mapping[Place, tuple[Place, ...]] = analysis.known[key]
    return known


def _moves(analysis: Analysis, root: Behavior, sites: Sequence[Site]) -> Mapping[Place, tuple[Place, ...]]:
    ended = (place for site in sites if site.effect is Effect.GRAPH_DEATH for place in site.places)
    tables = {place[: place.index(ELEMENT)] for place in ended if ELEMENT in place}
    if len(tables) < 2:
        return {}
    found: dict[Place, dict[Place, None]] = {}
    for event in _put(analysis, root):
        for table in tables.intersection(event.places):
            for item in event.value_places[:1]:
                if item[-1] == ELEMENT and item[:-1] in tables - {table}:
                    found.setdefault(table, {})[item] = None
    return {table: tuple(items) for table, items in found.items()}


def is_moved(analysis: Analysis, root: Behavior, first: Event, last: Event) -> bool:
    """Whether what the first of two events is about was put, as the same variable, into a table that the second goes over."""
    for put in _put(analysis, root) if analysis.known.get(("moves", root.key)) else ():
        depth = len(put.stack) - 1
        if first.stack[:depth] != put.stack[:depth] or len(first.stack) <= depth:
            continue
        released, frame = first.stack[depth], put.stack[depth]
        if released.function != frame.function:
            continue
        given = _given(analysis, frame)
        if given and given == _released(analysis, released) and not _is_rebound(analysis, given, released, frame):
            names = {b.last_name(place) for place in put.places}
            functions = (analysis.project.functions[each.function] for each in last.stack[depth:])
            if any(not names.isdisjoint(each.facts.words) for each in functions):
                return True
    return False


def _put(analysis: Analysis, root: Behavior) -> Iterable[Event]:
    """What a function puts into tables, callees included."""
    key = "put", root.key
    if key not in analysis.known:
        found: list[Event] = []

        def see(event: Event) -> None:
            if isinstance(event.node, b.Touches) and event.node.how == "add" and event.value_places:
                found.append(event)

        visit(analysis.effectful.get(root.key, root), analysis.effectful.get, see, ways=4, steps=_STEPS)
        analysis.known[key] = found
    known: list[Event] = analysis.known[key]
    return known


def _call(analysis: Analysis, frame: Frame) -> flow.Call | None:
    return next((c for c in analysis.project.functions[frame.function].calls if c.span == frame.span), None)


def _given(analysis: Analysis, frame: Frame) -> str:
    """The variable that is put into a table."""
    call = _call(analysis, frame)
    last = call.args[-1] if call is not None and call.args else None
    if last is None:
        body = analysis.project.functions[frame.function].lowered.flow
        binds = (each for each in flow.statements(body) if isinstance(each, flow.Bind) and each.span == frame.span)
        last = next((each.value for each in binds), None)
    return last.id if isinstance(last, flow.Name) else ""


def _released(analysis: Analysis, frame: Frame) -> str:
    """The variable whose method is called."""
    call = _call(analysis, frame)
    expr = call.callee if call is not None else None
    while isinstance(expr, flow.Attr):
        expr = expr.base
    return expr.id if isinstance(expr, flow.Name) else ""


def _is_rebound(analysis: Analysis, name: str, one: Frame, other: Frame) -> bool:
    """Whether a variable is given something else between two calls in a function."""
    start, end = min(one.span.start, other.span.start), max(one.span.start, other.span.start)
    body = analysis.project.functions[one.function].lowered.flow
    return any(target == name and start < value.span.start < end for target, value, _ in given_locally(body))
