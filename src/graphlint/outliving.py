"""What a variable has on, once the attribute that it came from was given something else: `old, self.x = self.x, None`.

From there on, what was at the place of the attribute stands at an element of it: `self.x[*]`.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphlint import behavior as b
from graphlint.behavior import Behavior
from graphlint.paths import Event
from graphlint.values import ELEMENT, Place


def outlived(behaviors: Iterable[Behavior]) -> frozenset[str]:
    """Names of the attributes and variables from which a variable has on what was there."""
    return frozenset(
        b.last_name(place)
        for each in behaviors
        for node in each.nodes
        if isinstance(node, b.Touches) and "saved" in node.tags
        for place in node.places
    )


def taken_back(place: Place, names: frozenset[str]) -> Place:
    """Where it stood before; the place itself if nothing says that it stood somewhere else."""
    for at, part in enumerate(place[1:], 1):
        if part == ELEMENT and place[at - 1] in names:
            return (*place[:at], *place[at + 1 :])
    return place


def moved_on(place: Place, names: frozenset[str]) -> Place:
    """Where it stands after; the place itself if nothing of the kind is on the way to it."""
    for at, part in enumerate(place[1:], 2):
        if part in names:
            return (*place[:at], ELEMENT, *place[at:])
    return place


def event_taken_back(event: Event, names: frozenset[str]) -> Event:
    """An event as if nothing had been moved before it."""
    stack = tuple(
        frame._replace(receiver=tuple(taken_back(place, names) for place in frame.receiver)) for frame in event.stack
    )
    return event._replace(places=tuple(taken_back(place, names) for place in event.places), stack=stack)
