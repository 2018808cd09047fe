"""Paths of effects in C++, as a report shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from graphlint.cpp import conditions
from graphlint.cpp.analysis import guards_of
from graphlint.cpp.conditions import CAPTURING
from graphlint.cpp.places import Call
from graphlint.cpp.state import Kept
from graphlint.effects import Effect
from graphlint.findings import MAX_STEPS, Step
from graphlint.source import Span

CALL = "call"
"""What stands in place of an effect where a step only leads into a function."""


def step(path: str, span: Span, effect: Effect, message: str) -> Step:
    """One effect on the way."""
    return Step(path, span, effect.value, message)


def calls(way: Iterable[Call]) -> list[Step]:
    """The calls that lead somewhere."""
    return [Step(call.path, call.span, CALL, f"calls {call.name}") for call in way]


def kept(what: Kept) -> list[Step]:
    """Memory is allocated and put where it stays."""
    fresh = what.fresh
    steps = [
        *calls(fresh.calls),
        step(fresh.path, fresh.span, Effect.WS_ALLOC, f"{fresh.name} allocates device memory"),
    ]
    if what.in_place:
        steps[-1] = step(fresh.path, fresh.span, Effect.WS_ALLOC, f"{fresh.name} gives {what.place} new device memory")
    elif what.path == fresh.path and what.span.contains(fresh.span):
        steps[-1] = replace(steps[-1], message=f"{steps[-1].message}, {what.place} keeps it")
    else:
        steps.append(step(what.path, what.span, Effect.WS_ALLOC, f"{what.place} keeps it"))
    return steps


def captured(what: Kept) -> list[Step]:
    """The test for a capture, then the memory that is allocated under it and stays."""
    for guard in guards_of(what):
        if guard.asked is not None and conditions.occurs(guard.formula, CAPTURING, positively=True):
            message = "asks whether the stream is being captured, and goes on where it is"
            asks = step(*guard.asked, Effect.IS_CAPTURING, message)
            steps = kept(what)
            # The test stands before the call that leads to the allocation, or in the function that allocates.
            is_inside = guard.asked[0] == what.fresh.path and what.fresh.function.contains(guard.asked[1])
            at = len(what.fresh.calls) if is_inside else 0
            return [*steps[:at], asks, *steps[at:]]
    return kept(what)


def shortened(steps: Sequence[Step]) -> tuple[Step, ...]:
    """At most as many steps as a report shows: calls go first."""
    left = list(steps)
    while len(left) > MAX_STEPS:
        del left[next((index for index, one in enumerate(left) if one.effect == CALL), 1)]
    return tuple(left)
