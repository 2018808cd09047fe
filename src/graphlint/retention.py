"""What makes room for new graphs, or new memory of graphs, by putting what was there into a container.

A *retention* is a place that is given up in the same run of a function that puts what it held somewhere else: appended to a
list, kept under a key. Whether that may last is for rules to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphlint import behavior as b
from graphlint import flow
from graphlint.behavior import Behavior, Slot
from graphlint.keeping import Runs
from graphlint.paths import Event
from graphlint.summaries import Analysis
from graphlint.targets import KEEPERS
from graphlint.values import ELEMENT, Place
from graphlint.visiting import visit

_LOCAL = ("@", "%", "!")
_TAKES = ("pop", "drop", "clear")
_GIVEN_UP = frozenset(("write", "drop", "pop", "clear", "add"))
_HELD = frozenset(("graph", "tensor", "captured", "fresh", "declared", "memory"))
_CONSTRUCTORS = (".__init__", ".__post_init__", ".<module>")
_MOST_CALLERS = 2
_MOST_STEPS = 2_000


@dataclass(frozen=True)
class Retention:
    """What a place held is put into a container that outlives the call, and the place gets something else."""

    root: Behavior
    event: Event
    """What puts it there, in the places of the function."""
    given_up: Slot
    """The place that it came from."""


def retentions(analysis: Analysis, runs: Runs) -> Iterator[Retention]:
    """All of them whose container nothing ever takes from."""
    emptied = _emptied(analysis)
    adding = [
        each
        for each in analysis.behaviors.all()
        if any(
            isinstance(node, b.Touches)
            and node.how == "add"
            and node.slot is not None
            and node.places
            and not node.places[0][0].startswith(_LOCAL)
            and b.last_name(node.places[0]) not in emptied
            for node in each.nodes
        )
    ]
    seen: set[str] = set()
    for each in adding:
        for root in _with_callers(each, runs, 0):
            if root.key not in seen:
                seen.add(root.key)
                yield from _in(analysis, root, emptied)


def _with_callers(root: Behavior, runs: Runs, depth: int) -> Iterator[Behavior]:
    yield root
    for caller in runs.callers(root.function) if depth < _MOST_CALLERS else ():
        yield from _with_callers(caller, runs, depth + 1)


def _in(analysis: Analysis, root: Behavior, emptied: frozenset[str]) -> Iterator[Retention]:
    if root.function.endswith(_CONSTRUCTORS):
        return
    put: list[Event] = []
    given_up: dict[Place, Slot] = {}

    def see(event: Event) -> None:
        node = event.node
        if not isinstance(node, b.Touches) or node.slot is None or not event.places or event.in_constructor:
            return
        place = event.places[0]
        if node.how == "add" and event.value_places and not place[0].startswith(_LOCAL):
            if b.last_name(place) not in emptied:
                put.append(event)
        if node.how in _GIVEN_UP and len(event.places) == 1 and analysis.holds(node.slot) & _HELD:
            given_up.setdefault(place, node.slot)

    visit(root, analysis.behaviors.built, see, ways=1, steps=_MOST_STEPS)
    for event in put:
        for place in event.value_places:
            slot = next((given_up[p] for p in (place, _container(place)) if p in given_up), None)
            if slot is not None and not _is_in(place, event.places[0]):
                yield Retention(root, event, slot)
                break


def _container(place: Place) -> Place:
    """The place without the items that it goes through at its end."""
    while len(place) > 1 and (place[-1] == ELEMENT or place[-1].isdigit()):
        place = place[:-1]
    return place


def _is_in(place: Place, container: Place) -> bool:
    whole = _container(container)
    return place[: len(whole)] == whole


def _emptied(analysis: Analysis) -> frozenset[str]:
    """Names of containers that something takes from, or makes anew after their making."""
    key = "emptied", ""
    if key not in analysis.known:
        found: set[str] = set()
        for each in analysis.behaviors.all():
            makes = each.function.endswith(_CONSTRUCTORS)
            for node in each.nodes:
                if isinstance(node, b.Touches) and (node.how in _TAKES or (node.how == "write" and not makes)):
                    found.update(b.last_name(place) for place in node.places)
        analysis.known[key] = frozenset(found)
    known: frozenset[str] = analysis.known[key]
    return known


def is_looked_at(analysis: Analysis, name: str) -> bool:
    """Whether code asks for what a container of this name holds, and does not only put things in or count them."""
    for entry in analysis.behaviors.functions_with(name):
        body = entry.lowered.flow
        quiet = {_base(bind.target).span for bind in flow.statements(body) if isinstance(bind, flow.Bind)}
        for expr in flow.expressions(body):
            match expr:
                case flow.Call(callee=flow.Attr(base=base, name=method)) if method in KEEPERS:
                    quiet.add(_base(base).span)
                case flow.Call(callee=flow.Name(id="len" | "bool"), args=(one,)):
                    quiet.add(one.span)
        for expr in flow.expressions(body):
            if isinstance(expr, flow.Attr | flow.Name) and flow.last_name(expr) == name and expr.span not in quiet:
                return True
    return False


def _base(expr: flow.Expr) -> flow.Expr:
    while isinstance(expr, flow.Item) or (
        isinstance(expr, flow.Call) and isinstance(expr.callee, flow.Attr) and expr.callee.name == "setdefault"
    ):
        expr = expr.base if isinstance(expr, flow.Item) else expr.callee.base  # type: ignore[union-attr]
    return expr
