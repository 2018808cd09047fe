"""Objects that put themselves into a table, for whoever goes over it to take them all down.

A constructor says `registry.append(self)`, or hands the object to a function that does. A loop over the table ends the graphs of
all that enter it, whatever their classes are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from graphlint import behavior as b
from graphlint.behavior import Behavior
from graphlint.ownership import Holding, keepers
from graphlint.summaries import Analysis
from graphlint.teardowns import Root
from graphlint.values import ELEMENT, Place


def table_of(place: Place) -> str:
    """The name of the first container on the way to a place; empty where there is none."""
    at = place.index(ELEMENT) if ELEMENT in place else len(place)
    return place[at - 1] if at > 1 else ""


def entrants(analysis: Analysis) -> Mapping[str, frozenset[str]]:
    """By the name of a table, the methods that put their own object into it, themselves or through a call."""
    key = "entering", ""
    if key not in analysis.known:
        analysis.known[key] = _entered(analysis.behaviors.all())
    entering: Mapping[str, frozenset[str]] = analysis.known[key]
    return entering


def _entered(behaviors: Iterable[Behavior]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    seen: set[tuple[str, str, str]] = set()
    waiting: list[tuple[Behavior, str, str]] = []
    passing: dict[tuple[str, str], list[tuple[Behavior, str]]] = {}
    for each in behaviors:
        for node in each.nodes:
            if isinstance(node, b.Touches) and node.how == "add" and node.slot is not None:
                waiting += [(each, place[0], node.slot[1]) for place in node.value_places if _is_parameter(place)]
            elif isinstance(node, b.Calls):
                for name, places in node.bindings:
                    for place in filter(_is_parameter, places):
                        for callee in node.behaviors:
                            passing.setdefault((callee, f"${name}"), []).append((each, place[0]))
    while waiting:
        behavior, parameter, table = waiting.pop()
        if (behavior.key, parameter, table) in seen:
            continue
        seen.add((behavior.key, parameter, table))
        if parameter == f"${behavior.receiver}":
            found.setdefault(table, set()).add(behavior.function)
        waiting += [(caller, name, table) for caller, name in passing.get((behavior.key, parameter), ())]
    return {table: frozenset(functions) for table, functions in found.items()}


def _is_parameter(place: Place) -> bool:
    return len(place) == 1 and place[0].startswith("$")


def lives(analysis: Analysis, class_name: str) -> Iterator[str]:
    """The methods of a class, inherited ones included, and what runs when an instance is made.

    All constructors of its ancestors where that is not known.
    """
    project = analysis.project
    names = {
        name for each in project.mro(class_name) if each in project.classes for name in project.classes[each].methods
    }
    yield from filter(None, (project.method(class_name, name) for name in names - {"__init__"}))
    init = project.method(class_name, "__init__")
    if init is None or analysis.behaviors.built(init) is None:
        for each in project.mro(class_name):
            yield from filter(None, (project.method(each, "__init__"),))
        return
    seen: set[str] = set()
    waiting = [init]
    while waiting:
        key = waiting.pop()
        found = analysis.behaviors.built(key)
        if found is None or key in seen:
            continue
        seen.add(key)
        yield found.function
        waiting += [callee for node in found.nodes if isinstance(node, b.Calls) for callee in node.behaviors]


def is_handed_on(analysis: Analysis, roots: Sequence[Root], holding: Holding) -> bool:
    """Whether a teardown comes to a table that all which is held enters, and calls there what nobody can look into."""
    owners = keepers(analysis, holding)
    living = [frozenset(lives(analysis, each)) for each in owners]
    tables = {
        table
        for table, functions in entrants(analysis).items()
        if owners and not any(functions.isdisjoint(each) for each in living)
    }
    seen: set[str] = set()
    waiting = [root.behavior.key for root in roots] if tables else []
    while waiting:
        key = waiting.pop()
        built = analysis.behaviors.built(key)
        if built is None or key in seen:
            continue
        seen.add(key)
        if built.unresolved and not tables.isdisjoint(analysis.project.functions[built.function].facts.words):
            return True
        waiting += built.callees
    return False
