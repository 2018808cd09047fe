"""Objects that are made more than once in a process, and what runs once for each of them.

An engine, a runner, a backend: whatever owns graphs and has siblings. That one has siblings is read from the calls: one
function of the project calls a method on two receivers, or on every item of a collection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphlint.execution import Event, Frame
from graphlint.summaries import Analysis
from graphlint.values import ELEMENT, Place


@dataclass(frozen=True)
class Repetition:
    """Where a method runs for several receivers."""

    root: str
    """The function that calls it for all of them."""
    receivers: tuple[Place, ...]
    """In the order of the calls, in the root's places; one alone is any item of a collection."""
    frames: tuple[Frame, ...]
    """The last of the calls, in the root."""


def repeated(analysis: Analysis) -> Mapping[str, tuple[Repetition, ...]]:
    """Methods that some function runs for two receivers or more, with the functions that do."""
    found: dict[str, list[Repetition]] = {}
    for root in analysis.roots():
        receivers: dict[str, dict[Place, Frame]] = {}
        for site in analysis.sites(root):
            for depth, frame in enumerate(site.event.stack):
                if depth and frame.receiver and len(frame.receiver) == 1:
                    receivers.setdefault(frame.function, {}).setdefault(frame.receiver[0], site.event.stack[0])
        for function, places in receivers.items():
            looped = [place for place in places if ELEMENT in place]
            own = {place for place in places if place[0].startswith(("$", "@", "mod:", "class:"))}
            if looped or len(own) > 1:
                repetition = Repetition(root.function, tuple(places), tuple(places.values()))
                found.setdefault(function, []).append(repetition)
    return {function: tuple(each) for function, each in found.items()}


def releasing_frame(event: Event) -> int | None:
    """Depth of the innermost method on an object of its own around an event: what an engine does for itself."""
    for depth in range(len(event.stack) - 1, -1, -1):
        receiver = event.stack[depth].receiver
        if len(receiver) == 1 and not receiver[0][0].startswith(("class:", "mod:")):
            return depth
    return None
