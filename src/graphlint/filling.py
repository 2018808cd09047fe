"""Lists that a function fills itself with objects that it makes: `runners.append(runner)`, and a loop over them further down."""

from __future__ import annotations

from collections.abc import Mapping

from graphlint import behavior as b
from graphlint.behavior import Behavior
from graphlint.paths import Event
from graphlint.summaries import Analysis
from graphlint.values import ELEMENT, Place


def filled_with(root: Behavior, object_: str) -> Mapping[Place, tuple[Place, ...]]:
    """The local lists that have an object which a function makes, by the root of its place, where it goes over them."""
    if object_[0] != "@" or "#" in object_:
        return {}
    lists = {place for node in root.nodes if isinstance(node, b.Repeat) for place in node.over[:1] if _is_local(place)}
    found: dict[Place, set[Place]] = {}
    for node in root.nodes if lists else ():
        if isinstance(node, b.Touches) and node.how == "add" and node.places[:1] and node.places[0] in lists:
            found.setdefault(node.places[0], set()).update(node.value_places[:1])
    return {table: ((object_,),) for table, objects in found.items() if objects == {(object_,)}}


def is_direct(analysis: Analysis, root: Behavior, event: Event, object_: str) -> bool:
    """Whether an event on a path is about an object under its own name, and not as an item of a list."""
    spans = [frame[:2] for frame in event.stack]
    return any(
        place[0] == object_
        for site in analysis.sites(root)
        if [frame[:2] for frame in site.event.stack] == spans
        for place in site.places
    )


def _is_local(place: Place) -> bool:
    return len(place) == 1 and place[0][0] in "@%" and ELEMENT not in place
