"""Which graphs of an object its teardowns have to end, and which of those that they end these can be.

A teardown need not go through the attribute that holds the graphs: it may go through another one that has them too, through
what was told of them, through a registry that their owner enters, or through a variable that nothing is known of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphlint import flow
from graphlint.conditions import names_in
from graphlint.entering import entrants, lives, table_of
from graphlint.ownership import Holding, holdings, keepers
from graphlint.project import FunctionEntry
from graphlint.readers import holds_class
from graphlint.summaries import Analysis
from graphlint.teardowns import Death, attributes_in
from graphlint.values import Place

_SHARED = ("class:", "mod:")


def is_owned(
    analysis: Analysis, class_name: str, holding: Holding, held: Sequence[Holding], ended: Sequence[Death]
) -> bool:
    """Whether the object has to release what an attribute holds.

    It does if it made it. What was handed to it, it has to release if it releases another thing that was.
    """
    if holding.classes and not keepers(analysis, holding):
        return False  # what is there only refers to others' graphs
    if holding.is_made:
        return True
    if not holding.is_handed:
        return False
    if any(holds_class(analysis, each, class_name) for each in holding.classes):
        return False  # its own holder
    handed = {each.name for each in held if each.is_handed and not each.is_made and each.name != holding.name}
    return any(death.attribute in handed for death in ended)


def reaching_deaths(
    analysis: Analysis, class_name: str, holding: Holding, held: Sequence[Holding], ended: Sequence[Death]
) -> tuple[list[Death], list[str]]:
    """The deaths that can be of graphs which an attribute holds, and the classes there whose graphs none can be of."""
    aliases = {holding.name, *(each.name for each in held if holding.name in each.repeats), *holding.repeats}
    aliases |= _other_owners(analysis, class_name, holding)
    if named := [death for death in ended if death.attribute in aliases]:
        return named, []
    # through a registry, a collection of somebody else's, or a variable that nothing is known of
    told = _given_to(analysis, class_name, holding.name)
    handed = _handed_to(analysis, class_name, holding.name)
    entering = entrants(analysis)
    others = [
        death
        for death in ended
        if not death.attribute
        or death.attribute in told
        or (death.attribute in handed and table_of(death.place) in entering)
    ]
    found: dict[int, Death] = {}
    missed: list[str] = []
    for keeper in keepers(analysis, holding) or (class_name,):
        fitting = [death for death in others if _covers(analysis, death, keeper, is_told=death.attribute in told)]
        found.update((id(death), death) for death in fitting)
        if not fitting:
            missed.append(keeper)
    return list(found.values()), missed


def _other_owners(analysis: Analysis, class_name: str, holding: Holding) -> set[str]:
    """Attributes whose objects have all graphs that another attribute leads to: it was made with them."""
    ways = {
        way[1]: target[0]
        for way, target in analysis.behaviors.ways_of(class_name).items()
        if len(way) > 1 and way[0] == holding.name and target
    }
    inner = {each.name for kind in holding.classes for each in holdings(analysis, kind)} if ways else set[str]()
    return {ways[name] for name in inner} if inner and inner <= ways.keys() else set[str]()


def _covers(analysis: Analysis, death: Death, class_name: str, *, is_told: bool) -> bool:
    """Whether a teardown can end graphs of a class there: those of its objects, or of all that enter a registry."""
    is_registry = not is_told and (bool(death.attribute) or (death.place[:1] and death.place[0].startswith(_SHARED)))
    entering = entrants(analysis).get(table_of(death.place)) if is_registry else None
    if entering:
        return not entering.isdisjoint(lives(analysis, class_name))
    return not death.owners.isdisjoint(analysis.project.mro(class_name))


def _given_to(analysis: Analysis, class_name: str, name: str) -> frozenset[str]:
    """Attributes of an object whose contents were made with, told of, or asked for those of another of its attributes."""
    found: set[str] = set()
    for each in analysis.project.mro(class_name):
        entry = analysis.project.classes.get(each)
        if entry is None:
            continue
        made: dict[str, set[Place]] = {}
        for attribute, bindings in analysis.behaviors.field_bindings(each).items():
            for function, expr, _ in bindings:
                me = function.facts.params[0].name if function.facts.params else ""
                if name in attributes_in(expr, me):
                    found.add(attribute)
                if attribute == name:
                    places = made.setdefault(function.name, {(f"${me}", name)})
                    places |= {p for p in analysis.behaviors.typed(function, expr).places if p[0].startswith("@")}
                    if isinstance(expr, flow.Call):
                        found |= set(attributes_in(expr.callee, me))
        for method in entry.methods.values():
            function = analysis.project.functions[method]
            me = function.facts.params[0].name if function.facts.params else ""
            for call in function.calls:
                parts = (*call.args, *(value for _, value in call.keywords))
                if any(name in attributes_in(part, me) or _is_of(analysis, function, part, made) for part in parts):
                    found |= set(attributes_in(call.callee, me))
    return frozenset(found - {name})


def _is_of(analysis: Analysis, function: FunctionEntry, part: flow.Expr, made: Mapping[str, set[Place]]) -> bool:
    """Whether a variable has one of the objects that were made for an attribute."""
    places = made.get(function.name)
    if not places or not isinstance(part, flow.Name):
        return False
    return not places.isdisjoint(analysis.behaviors.typed(function, part).places)


def _handed_to(analysis: Analysis, class_name: str, name: str) -> frozenset[str]:
    """Attributes of an object, or variables that they are, that what another attribute holds was made with."""
    found: set[str] = set()
    for each in analysis.project.mro(class_name):
        if each not in analysis.project.classes:
            continue
        fields = analysis.behaviors.field_bindings(each)
        for function, expr, _ in fields.get(name, ()):
            me = function.facts.params[0].name if function.facts.params else ""
            found |= set(attributes_in(expr, me))
            variables = [flow.Name(local, expr.span) for local in names_in(expr)]
            places = {place for each in variables for place in analysis.behaviors.typed(function, each).places}
            found |= {place[1] for place in places if len(place) == 2 and place[0] == f"${me}"}
            made = {place for place in places if place[0].startswith("@")}
            for other, bindings in fields.items() if made else ():
                if any(
                    where is function and not made.isdisjoint(analysis.behaviors.typed(function, value).places)
                    for where, value, _ in bindings
                ):
                    found.add(other)
    return frozenset(found - {name})
