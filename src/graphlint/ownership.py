"""Which objects hold graphs through which attributes, and what each attribute is to its object.

An object owns what it made. What was handed to it belongs to somebody else, unless it tears that down as well; and an
attribute may only repeat what another one of the same object holds (`self.steps = [self.decode, self.prefill]`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphlint.project import FunctionEntry
from graphlint.source import Span
from graphlint.summaries import Analysis
from graphlint.values import ELEMENT, GRAPH, Value, flat


@dataclass(frozen=True)
class Holding:
    """An attribute that holds graphs, or objects that own some."""

    owner: str
    """The class whose method, or body, assigns it."""
    name: str
    classes: frozenset[str]
    """Classes of the objects there; empty where the graphs themselves are there."""
    is_made: bool
    """Some of what is there was made by the object itself."""
    is_handed: bool
    """Some of what is there was handed to the object."""
    repeats: frozenset[str]
    """Attributes of the same object whose contents are there too."""
    function: FunctionEntry
    """Where it is assigned first, and the value there."""
    span: Span


def holdings(analysis: Analysis, class_name: str) -> tuple[Holding, ...]:
    """The attributes of a class's instances that hold graphs, those of its ancestors included."""
    key = ("holdings", class_name)
    if key not in analysis.known:
        analysis.known[key] = _holdings(analysis, class_name)
    result: tuple[Holding, ...] = analysis.known[key]
    return result


def keepers(analysis: Analysis, holding: Holding) -> tuple[str, ...]:
    """Classes that keep the very graphs, among the objects that an attribute leads to through what each made."""
    seen: set[str] = set()
    found: dict[str, None] = {}
    waiting = sorted(holding.classes)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        own = [each for each in holdings(analysis, name) if each.is_made]
        if any(not each.classes or any(_is_bare(analysis, kind) for kind in each.classes) for each in own):
            found[name] = None
        waiting += [kind for each in own for kind in each.classes]
    if not found and any(_is_bare(analysis, kind) for kind in holding.classes):
        found[holding.owner] = None
    return tuple(found)


def _is_bare(analysis: Analysis, class_name: str) -> bool:
    """Whether a class is a record: it has graphs in it, and no method of its own puts any there."""
    return "graph" in analysis.owns(class_name) and not holdings(analysis, class_name)


def _holdings(analysis: Analysis, class_name: str) -> tuple[Holding, ...]:
    found: dict[str, list[Holding]] = {}
    for each in analysis.project.mro(class_name):
        for name in analysis.behaviors.field_bindings(each):
            if "graph" in analysis.holds((each, name)):
                holding = _holding(analysis, each, name)
                if holding is not None:
                    found.setdefault(name, []).append(holding)
    return tuple(
        Holding(
            each[0].owner,
            name,
            frozenset().union(*(one.classes for one in each)),
            any(one.is_made for one in each),
            any(one.is_handed for one in each),
            frozenset().union(*(one.repeats for one in each)),
            each[0].function,
            each[0].span,
        )
        for name, each in found.items()
    )


def _holding(analysis: Analysis, owner: str, name: str) -> Holding | None:
    classes: set[str] = set()
    repeats: set[str] = set()
    is_made = is_handed = is_declared = False
    first: tuple[FunctionEntry, Span] | None = None
    for function, expr, how in analysis.behaviors.field_bindings(owner).get(name, ()):
        if how == "annotation":
            declared = {t.name for t in flat(analysis.project.annotation(function.module, expr))}
            kinds = set(_graph_kinds(analysis, declared))
            is_declared |= bool(kinds)
            classes |= kinds - {GRAPH}
            continue
        me = f"${function.facts.params[0].name}" if function.facts.params else ""
        for part in _leaves(analysis.behaviors.typed(function, expr)):
            names = set(_graph_kinds(analysis, {t.name for t in flat(part.types)}))
            if "graph" in part.tags:
                names.add(GRAPH)
            origins = {_origin(place, me) for place in part.places} or {"@"}
            repeated = {origin for origin in origins if origin.startswith(".")}
            if not names and not (repeated and "graph" in _held(analysis, owner, repeated)):
                continue
            classes |= names - {GRAPH}
            repeats |= {origin[1:] for origin in repeated}
            is_made |= "@" in origins
            is_handed |= "$" in origins
            first = first or (function, expr.span)
    if first is None:
        if not is_declared:
            return None
        function, expr, _ = analysis.behaviors.field_bindings(owner)[name][0]
        is_next = owner in classes  # of several in a row, which whoever makes them has
        first, is_made, is_handed = (function, expr.span), not is_next, is_next
    return Holding(owner, name, frozenset(classes), is_made, is_handed, frozenset(repeats - {name}), *first)


def _held(analysis: Analysis, owner: str, names: set[str]) -> frozenset[str]:
    return frozenset().union(*(analysis.holds((owner, name[1:])) for name in names))


def _graph_kinds(analysis: Analysis, names: set[str]) -> Iterator[str]:
    """Of these types the graph's, and the project's classes that own graphs."""
    for name in names:
        if analysis.vocabulary.canonical(name) == GRAPH:
            yield GRAPH
        elif name in analysis.project.classes and "graph" in analysis.owns(name):
            yield name


def _leaves(value: Value, depth: int = 0) -> Iterator[Value]:
    """The parts of a display, or the value itself."""
    if depth < 4 and value.items is not None:
        for item in value.items:
            yield from _leaves(item, depth + 1)
    elif depth < 4 and value.each is not None:
        yield from _leaves(value.each, depth + 1)
    else:
        yield value


def _origin(place: tuple[str, ...], me: str) -> str:
    """Where a value comes from: `@` made here, `$` handed in, `.name` an attribute of the same object."""
    if place[0] == me and len(place) > 1:
        return f".{place[1]}"
    if place[0].startswith(("@", "%")):
        return "@" if ELEMENT not in place and len(place) == 1 else "$"
    return "$"
