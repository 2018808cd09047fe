"""Local variables that hold on to what a capture made while its graphs die: they end with the function, and not before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from graphlint import behavior as b
from graphlint.behavior import Behavior, Slot
from graphlint.readers import container
from graphlint.summaries import Analysis, Site
from graphlint.values import Place


def held_by_variables(
    analysis: Analysis, root: Behavior, deaths: Mapping[Place, Site], together: Callable[[Slot, Slot], bool]
) -> Iterator[tuple[Place, Place]]:
    """Variables of a function, as places, each with the place of graphs that die in it and that made what it holds.

    `together`: whether one function has filled two attributes.
    """
    owner = f"local:{root.function}"
    held = [
        node
        for node in root.nodes
        if isinstance(node, b.Touches) and node.how == "add" and node.slot is not None and node.slot[0] == owner
    ]
    kept = _kept(root) if held else {}
    moved = {place for node in held for place in node.value_places if len(place) > 1}
    for node in held:
        if "captured" not in analysis.holds(node.slot):
            continue
        for graphs, death in deaths.items():
            new = _given_instead(death)
            if not new.isdisjoint(node.value_places):
                continue  # what dies makes room for the graphs that it belongs to
            known = {graphs, *_as_written(death)}
            later = known - moved  # the old graphs of a moved table die, and not those that were put there since
            is_owner = "object" in node.tags
            if any(
                container(place) in known
                or not later.isdisjoint(kept.get(place, ()))
                or (is_owner and graphs[: len(place)] == place)
                for place in node.value_places
            ) or _is_taken_beside(analysis, node, graphs, death, together):
                yield node.places[0], graphs


def _is_taken_beside(
    analysis: Analysis, node: b.Touches, graphs: Place, death: Site, together: Callable[[Slot, Slot], bool]
) -> bool:
    """Whether a variable has what it holds from an attribute beside that of the graphs, in one object."""
    slot, notes = death.event.node.slot, analysis.behaviors.slots.get(node.slot) if node.slot is not None else None
    if slot is None or notes is None or len(graphs) < 2:
        return False
    beside = any(len(place) == len(graphs) and place[:-1] == graphs[:-1] for place in node.value_places)
    return beside and any(together(source, slot) for source in notes.sources)


def is_local(place: Place) -> bool:
    """Whether a place is a local variable."""
    return place[0][0] == "%"


def in_any_round(place: Place) -> Place:
    """A place for all rounds of the loop that calls what makes its object."""
    return (place[0].partition("#")[0], *place[1:]) if place and place[0][0] == "@" else place


def is_variable(slot: Slot | None) -> bool:
    """Whether a slot is a local variable, which is one while its function runs."""
    return slot is not None and slot[0].startswith("local:")


def _given_instead(death: Site) -> frozenset[Place]:
    """What takes the place of what dies, where the function itself gives it."""
    node = death.event.node
    if not isinstance(node, b.Touches) or len(death.event.stack) > 1:
        return frozenset()
    return frozenset(node.value_places)


def _as_written(death: Site) -> Iterator[Place]:
    """What dies, as the function itself writes it: what a call gave it is also what the callee made."""
    if len(death.event.stack) == 1:
        yield from map(container, death.event.node.places)


def _kept(root: Behavior) -> Mapping[Place, frozenset[Place]]:
    """By place of what a function made, the containers and attributes that it has put that into."""
    found: dict[Place, set[Place]] = {}
    for node in root.nodes:
        if isinstance(node, b.Touches) and node.how in ("add", "write") and node.places:
            for place in node.value_places if not is_variable(node.slot) else ():
                found.setdefault(place, set()).add(container(node.places[0]))
    return {place: frozenset(each) for place, each in found.items()}
