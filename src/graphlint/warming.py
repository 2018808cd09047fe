"""What a function that captures has run before the capture begins: memory that was missing is made there, outside of the pool."""

from __future__ import annotations

from collections.abc import Collection

from graphlint import behavior as b
from graphlint.behavior import Behavior, Slot
from graphlint.conditions import asked_around
from graphlint.effects import Effect
from graphlint.keeping import Store, all_runs, is_miss, stores
from graphlint.paths import Event
from graphlint.source import Span
from graphlint.summaries import Analysis


def is_warmed(analysis: Analysis, root: Behavior, event: Event) -> bool:
    """Whether the function that captures makes the very same call before: what is missing is made there."""
    return _twin(analysis, root, event.stack[0].span) is not None


def _twin(analysis: Analysis, root: Behavior, at: Span) -> Span | None:
    """The call before a function's first capture that reads as the one in it at a place."""
    entry = analysis.project.functions[root.function]
    text = entry.module.source.text
    inside = [each for each in entry.calls if each.span.contains(at) or at.contains(each.span)]
    begins = min((span.start for span in _captures(root)), default=at.start)
    words = {"".join(text(each.span).split()) for each in inside if each.span.start > begins}
    return next(
        (each.span for each in entry.calls if each.span.end <= begins and "".join(text(each.span).split()) in words),
        None,
    )


def _captures(root: Behavior) -> list[Span]:
    return [node.span for node in root.nodes if isinstance(node, b.Happens) and node.effect is Effect.CAPTURE]


def is_made_before(analysis: Analysis, slot: Slot | None) -> bool:
    """Whether what a place keeps is made where it is missing, and no capture comes there without it: it has run the same before."""
    if slot is None:
        return False
    key = "made before", ".".join(slot)
    if key not in analysis.known:
        analysis.known[key] = _is_made_before(analysis, slot)
    found: bool = analysis.known[key]
    return found


def _is_made_before(analysis: Analysis, slot: Slot) -> bool:
    if any("captured" in analysis.owns(name) for name in _records(analysis, slot)):
        return False  # beside what was there before, each keeps what its capture made
    mine = [store for store in stores(analysis) if store.node.slot == slot and not store.event.in_constructor]
    if not mine or not all(is_miss(analysis, store) for store in mine):
        return False
    runs = all_runs(analysis)
    known = {id(store) for store in mine}
    if not all(id(store) in (runs.reached(store.root, capturing=False) or {}) for store in mine):
        return False  # it is made in a capture alone
    tables = {store.function for store in mine if not _asks_for_itself(store)}
    for root in analysis.roots():
        if not root.calls_in_capture and not _captures(root):
            continue
        reached = runs.reached(root, capturing=None)
        if reached is None or not all(
            _is_surely_warmed(analysis, root, event.stack[0].span, slot)
            for identity, event in reached.items()
            if identity in known
        ):
            return False
        for node in root.nodes if tables else ():
            if isinstance(node, b.Calls) and node.span.start > min((span.start for span in _captures(root)), default=0):
                if _leads_to(analysis, node, tables) and not _is_surely_warmed(analysis, root, node.span, slot):
                    return False
    return True


def _records(analysis: Analysis, slot: Slot) -> list[str]:
    """The records that a place keeps, and other objects that are no more than that."""
    notes = analysis.behaviors.slots.get(slot)
    classes = analysis.project.classes
    return [name for name in notes.types if name in classes and analysis.is_carrier(name)] if notes is not None else []


def _asks_for_itself(store: Store) -> bool:
    """Whether a store happens only where its place holds nothing, so that a run knows when it does not happen."""
    return any(guard[0] == "atom" and guard[2] in store.event.places for guard in store.event.guards)


def _leads_to(analysis: Analysis, call: b.Calls, functions: Collection[str]) -> bool:
    """Whether a call comes to one of some functions."""
    waiting, seen = list(call.behaviors), set[str]()
    while waiting:
        key = waiting.pop()
        if key.partition("|")[0] in functions:
            return True
        behavior = analysis.effectful.get(key)
        if key not in seen and behavior is not None:
            seen.add(key)
            waiting += behavior.callees
    return False


def _is_surely_warmed(analysis: Analysis, root: Behavior, at: Span, slot: Slot) -> bool:
    """Whether the same call stands before, under no other tests, and nothing is released between the two."""
    twin = _twin(analysis, root, at)
    if twin is None:
        return False
    entry = analysis.project.functions[root.function]
    text, body = entry.module.source.text, entry.lowered.flow
    around = {text(asked.expr.span) for asked in asked_around(body, at)}
    return around >= {text(asked.expr.span) for asked in asked_around(body, twin)} and not any(
        site.effect is Effect.WS_RELEASE
        and site.event.node.slot == slot
        and twin.end <= site.event.stack[0].span.start < at.start
        for site in analysis.sites(root)
    )
