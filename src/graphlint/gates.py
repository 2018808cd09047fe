"""Tests for a method by its name, of objects that own graphs and have no method of that name: what stands behind never runs.

`if hasattr(engine, "release_graphs"): engine.release_graphs()` was right until the method was given another name, or was never
right for one of the classes that come there. What such a test may mean instead is the method of a like name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphlint import flow
from graphlint.effects import Effect
from graphlint.ownership import holdings, keepers
from graphlint.platforms import alternatives
from graphlint.project import FunctionEntry
from graphlint.summaries import Analysis
from graphlint.teardowns import is_teardown
from graphlint.values import Value
from graphlint.vocabulary import words_in

_NEAR = 0.75
"""How alike a name that is asked for and that of a method have to be."""


@dataclass(frozen=True)
class Gate:
    """A test for a method by its name, `hasattr(engine, "release")`."""

    function: FunctionEntry
    call: flow.Call
    name: str
    attributes: frozenset[str]
    """Attributes of the function's object that are asked."""
    lacking: tuple[str, ...]
    """Classes of what is asked that own graphs and have no such method; empty where nothing is known of it."""
    near: str
    """A method of theirs that releases graphs and is named much like it; empty where there is none."""
    is_sure: bool


def gates_by_name(analysis: Analysis) -> Iterator[Gate]:
    """Tests for methods that what is asked does not have, although it owns graphs."""
    releasing = _releasing(analysis)
    for function in list(analysis.project.functions.values()):
        if not {"hasattr", "getattr"} & function.facts.words or not analysis.behaviors.is_built(function.name):
            continue
        for call in function.calls:
            gate = _gate(analysis, function, call, releasing)
            if gate is not None:
                yield gate


def _releasing(analysis: Analysis) -> Mapping[str, frozenset[str]]:
    """Names of methods that end graphs, with the classes that define them."""
    found: dict[str, set[str]] = {}
    for behavior in analysis.roots():
        function = analysis.project.functions[behavior.function]
        if function.owner is not None and Effect.GRAPH_DEATH in analysis.kinds[behavior.key]:
            found.setdefault(function.facts.name, set()).add(function.owner)
    return {name: frozenset(owners) for name, owners in found.items()}


def _gate(
    analysis: Analysis, function: FunctionEntry, call: flow.Call, releasing: Mapping[str, frozenset[str]]
) -> Gate | None:
    match call:
        case flow.Call(callee=flow.Name(id="hasattr" | "getattr"), args=(asked, flow.Lit(value=str(name)), *other)) if (
            name.isidentifier()
        ):
            if any(isinstance(e, flow.Group) or (isinstance(e, flow.Lit) and e.value is not None) for e in other):
                return None  # it reads a list or a number, and no method
        case _:
            return None
    value = analysis.behaviors.typed(function, asked)
    me = f"${function.facts.params[0].name}" if function.facts.params else ""
    attributes = frozenset(place[1] for place in value.places if place[0] == me and len(place) > 1)
    family = _family(analysis, value)
    if isinstance(asked, flow.Name) and f"${asked.id}" == me and function.owner is not None:
        return _own_gate(analysis, function, call, name, family)
    if not family:
        near = next(iter(difflib.get_close_matches(name, releasing, 1, _NEAR)), "")
        if value.types or not near or name in releasing or not _is_unheard_of(analysis, function, name):
            return None
        if analysis.vocabulary.names.verbs.isdisjoint(words_in(name)):
            return None  # what it asks for need not release anything: the class may be one of a library
        return Gate(function, call, name, attributes, (), near, is_sure=False)
    owners = tuple(each for each in family if "graph" in analysis.owns(each))
    lacking = tuple(each for each in owners if not _offers(analysis, each, name))
    if not lacking or any(not _is_whole(analysis, each) for each in lacking):
        return None
    if any(
        each.other != flow.NOTHING and each.test.span.contains(call.span)
        for each in alternatives(function.lowered.flow)
    ):
        return None  # who lacks the method is taken care of there
    methods = {
        method
        for method, classes in releasing.items()
        if any(not classes.isdisjoint(analysis.project.mro(each)) for each in lacking)
    }
    near = next(iter(difflib.get_close_matches(name, sorted(methods), 1, _NEAR)), "")
    elsewhere = any(_offers(analysis, each, name) for each in family)
    means = bool(near) or any(
        not releasing.get(name, frozenset()).isdisjoint(analysis.project.mro(each))
        for one in family
        for each in (one, *_wrapped(analysis, one))
    )
    if not means or (not elsewhere and len(lacking) != len(owners)) or _are_ended(analysis, function, lacking, name):
        return None
    return Gate(function, call, name, attributes, lacking, near, is_sure=not elsewhere)


def _wrapped(analysis: Analysis, class_name: str) -> Iterator[str]:
    """Classes of the objects that own graphs and that those of a class are handed."""
    for holding in holdings(analysis, class_name):
        if holding.is_handed:
            yield from holding.classes


def _own_gate(
    analysis: Analysis, function: FunctionEntry, call: flow.Call, name: str, family: Sequence[str]
) -> Gate | None:
    """A test of an object for an attribute of its own that it never has, while one of a like name holds graphs."""
    if not is_teardown(function.facts.name) or any(_offers(analysis, each, name) for each in family):
        return None
    assert function.owner is not None
    names = [each.name for each in holdings(analysis, function.owner)]
    near = next(iter(difflib.get_close_matches(name, names, 1, _NEAR)), "")
    if not near or not _is_whole(analysis, function.owner):
        return None
    return Gate(function, call, name, frozenset((near,)), (function.owner,), near, is_sure=True)


def _family(analysis: Analysis, value: Value) -> tuple[str, ...]:
    """The classes that a value can have, subclasses included."""
    found: dict[str, None] = {}
    waiting = [t.name for t in value.types if t.name in analysis.project.classes]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting += analysis.project.subclasses.get(name, ())
    return tuple(found)


def _offers(analysis: Analysis, class_name: str, name: str) -> bool:
    """Whether instances of a class have an attribute."""
    return analysis.project.method(class_name, name) is not None or any(
        name in analysis.behaviors.field_bindings(each) or name in analysis.project.classes[each].attributes
        for each in analysis.project.mro(class_name)
        if each in analysis.project.classes
    )


def _is_whole(analysis: Analysis, class_name: str) -> bool:
    """Whether all that a class inherits was read, and nothing makes up attributes."""
    known = analysis.project.classes
    return all(
        each in known or each.rpartition(".")[2] in ("object", "ABC", "Protocol", "Generic", "Module")
        for each in analysis.project.mro(class_name)
    ) and not _offers(analysis, class_name, "__getattr__")


def _is_unheard_of(analysis: Analysis, function: FunctionEntry, name: str) -> bool:
    """Whether nothing but one function mentions a name."""
    return all(each.name == function.name for each in analysis.behaviors.functions_with(name))


def _are_ended(analysis: Analysis, function: FunctionEntry, classes: Sequence[str], gated: str) -> bool:
    """Whether a function ends graphs of some class in another way than by the method that a gate asks for."""
    behavior = analysis.effectful.get(function.name)
    if behavior is None:
        return False
    kept_by = {
        keeper
        for each in classes
        for keeper in (each, *(k for h in holdings(analysis, each) for k in keepers(analysis, h)))
    }
    return any(
        site.effect is Effect.GRAPH_DEATH
        and site.event.node.slot is not None
        and all(frame.function.rpartition(".")[2] != gated for frame in site.event.stack[1:])
        and any(site.event.node.slot[0] in analysis.project.mro(each) for each in kept_by)
        for site in analysis.sites(behavior)
    )
