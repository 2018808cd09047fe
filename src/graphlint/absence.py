"""Which parts of an object can be missing while others of it are there: what a constructor makes under tests of its own.

A worker that encodes, decodes or does both has towers, a decode graph or both; `if self.decode is None: return` in its
shutdown is then no test of whether there is anything to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphlint import flow
from graphlint.assignments import is_field, is_record
from graphlint.bindings import Binding
from graphlint.conditions import THERE, Asked, Condition, asked_around, conditions, implied, is_of_order, names_in
from graphlint.effects import Effect
from graphlint.facts import Param
from graphlint.flow import Expr
from graphlint.ownership import Holding, keepers
from graphlint.project import FunctionEntry
from graphlint.source import Span
from graphlint.summaries import Analysis, Site
from graphlint.teardowns import attributes_in
from graphlint.values import Place

_NAMES = frozenset(("id", "int", "len", "repr", "str"))
"""Functions whose results are something."""


def can_lack(analysis: Analysis, class_name: str, holding: Holding, name: str, said: Condition) -> bool:
    """Whether an object can have captured the graphs in one of its attributes where something is not so of another one.

    The other one is made at one place, under tests, or is what the constructor was told; and neither where the graphs are made
    nor where they are captured anything asks for it.

    Args:
        analysis: the project.
        class_name: of the object.
        holding: the attribute that holds the graphs.
        name: of the other attribute.
        said: what may not be so: that it is there, or one of some values.
    """
    given = [each for each in _bindings(analysis, class_name, name) if not _is_none(each[1])]
    if len(given) > 1 or any(how != "set" for _, _, how in given) or _is_read(analysis, holding, name):
        return False
    own, wanted = {name}, [said]
    if given:
        function, expr, _ = given[0]
        if function.name != holding.function.name and function.facts.name != "__init__":
            return False
        me = function.facts.params[0].name if function.facts.params else ""
        around = [each for each in _around(function, _part(expr)) if name not in attributes_in(each.expr, me)]
        told = _told(function, expr)
        own |= names_in(expr) if told else set()
        wanted = list(_said(function, around)) if said.values == THERE else []
        if said.values != THERE or (told and _can_be_false(function, expr)):
            wanted += [said._replace(subject=flow.last_name(expr))] if told else []
        if not wanted or any(map(is_of_order, around)):
            return False
    elif not _is_optional_field(analysis, class_name, name):
        return False
    for maker, value, how in _bindings(analysis, class_name, holding.name):
        span = _part(value)
        if how == "set" and maker.name == holding.function.name and not _is_coupled(maker, span, own, wanted, ()):
            known = tuple(_said(maker, list(_around(maker, span))))
            if any(
                not any(_is_coupled(each, at, own, wanted, known) for each, at in way)
                for way in _captures(analysis, class_name, holding, maker, span)
            ):
                return True
    return False


def _told(function: FunctionEntry, expr: Expr) -> bool:
    """Whether a value is a parameter, or an attribute of one: `config.rank`."""
    while isinstance(expr, flow.Attr):
        expr = expr.base
    return isinstance(expr, flow.Name) and any(param.name == expr.id for param in function.facts.params[1:])


def _can_be_false(function: FunctionEntry, expr: Expr) -> bool:
    """Whether a parameter can be None or false."""
    for param in function.facts.params:
        if isinstance(expr, flow.Name) and expr.id == param.name:
            said = _words(param.annotation) if param.annotation is not None else frozenset[str]()
            return _can_be_none(param) or "bool" in said
    return False


def _is_optional_field(analysis: Analysis, class_name: str, name: str) -> bool:
    """Whether a record is made with an attribute that may be None."""
    for each in analysis.project.mro(class_name):
        entry = analysis.project.classes.get(each)
        attribute = entry.attributes.get(name) if entry is not None else None
        if entry is not None and attribute is not None and is_record(entry) and is_field(entry, name):
            said = _words(attribute.annotation) if attribute.annotation is not None else frozenset[str]()
            return bool(said & {"None", "Optional"}) or (attribute.value is not None and _is_none(attribute.value))
    return False


def is_never_none(analysis: Analysis, function: FunctionEntry, place: Place) -> bool:
    """Whether a parameter of a method, or an attribute of its object, is always given something."""
    if len(place) == 1 and place[0].startswith("$"):
        return any(param.name == place[0][1:] and not _can_be_none(param) for param in function.facts.params)
    me = function.facts.params[0].name if function.facts.params else ""
    if function.owner is None or len(place) != 2 or place[0] != f"${me}":
        return False
    given = _bindings(analysis, function.owner, place[1])
    return bool(given) and all(_is_something(maker, expr) for maker, expr, how in given if how == "set")


def _is_something(function: FunctionEntry, expr: Expr) -> bool:
    match expr:
        case flow.Lit(value=value):
            return value is not None
        case flow.Name(id=name):
            return any(param.name == name and not _can_be_none(param) for param in function.facts.params)
        case flow.Call(callee=flow.Name(id=name)):
            return name in _NAMES
    return isinstance(expr, flow.Text | flow.Group)


def _can_be_none(param: Param) -> bool:
    said = _words(param.annotation) if param.annotation is not None else frozenset[str]()
    return (param.default is not None and _is_none(param.default)) or bool(said & {"Optional", "None"})


def _words(annotation: Expr) -> frozenset[str]:
    """The names in an annotation; None is one."""
    found = set(names_in(annotation))
    for part in flow.parts(annotation):
        if isinstance(part, flow.Lit):
            found |= {"None"} if part.value is None else {str(part.value).partition("[")[0]}
    return frozenset(found)


def _bindings(analysis: Analysis, class_name: str, name: str) -> Sequence[Binding]:
    return [
        each
        for owner in analysis.project.mro(class_name)
        if owner in analysis.project.classes
        for each in analysis.behaviors.field_bindings(owner).get(name, ())
        if each[2] != "annotation"
    ]


def _is_none(expr: Expr) -> bool:
    return isinstance(expr, flow.Lit) and expr.value in (None, False)


def _part(expr: Expr) -> Span:
    """Where the value is made that is not None."""
    if isinstance(expr, flow.Choice) and (_is_none(expr.then) or _is_none(expr.other)):
        return expr.other.span if _is_none(expr.then) else expr.then.span
    return expr.span


def _around(function: FunctionEntry, span: Span) -> Iterator[Asked]:
    return asked_around(function.lowered.flow, span)


def _said(function: FunctionEntry, tests: Sequence[Asked]) -> Iterator[Condition]:
    for each in tests:
        yield from conditions(each, function.module.source)


def _is_read(analysis: Analysis, holding: Holding, name: str) -> bool:
    """Whether the captured code of what holds the graphs reads an attribute."""
    owners = {each for keeper in (holding.owner, *keepers(analysis, holding)) for each in analysis.project.mro(keeper)}
    return any(slot[1] == name for owner in owners for slot in analysis.captured_reads.get(owner, ()))


def _is_coupled(
    function: FunctionEntry, span: Span, names: set[str], wanted: Sequence[Condition], known: Sequence[Condition]
) -> bool:
    """Whether what stands at a place uses what may be missing, or runs only where it is there."""
    tests = list(_around(function, span))
    if any(not names.isdisjoint(names_in(each.expr)) for each in tests) or any(map(is_of_order, tests)):
        return True
    parts = [each for each in flow.expressions(function.lowered.flow) if each.span == span]
    if any(not names.isdisjoint(names_in(each)) for each in parts):
        return True
    said = (*known, *_said(function, tests))
    return all(implied(each, said) for each in wanted)


def _captures(
    analysis: Analysis, class_name: str, holding: Holding, maker: FunctionEntry, made: Span
) -> Iterator[list[tuple[FunctionEntry, Span]]]:
    """The ways through methods of an object to captures of the graphs in its attribute: methods, and places in them."""
    family = analysis.project.mro(class_name)
    for root in analysis.roots():
        first = analysis.project.functions[root.function]
        if first.owner not in family or Effect.CAPTURE not in analysis.kinds[root.key]:
            continue
        path = (f"${root.receiver}", holding.name)
        for site in analysis.sites(root):
            if site.effect is Effect.CAPTURE and _is_through(site, path, maker, made):
                functions = [analysis.project.functions[frame.function] for frame in site.event.stack]
                yield [
                    (each, frame.span)
                    for each, frame in zip(functions, site.event.stack, strict=True)
                    if each.owner in family
                ]


def _is_through(site: Site, path: Place, maker: FunctionEntry, made: Span) -> bool:
    """Whether a capture is of the graphs in an attribute: by a method of what is there, or as that is made."""
    event = site.event
    return (
        any(place[:2] == path for place in site.places)
        or any(place[:2] == path for frame in event.stack for place in frame.receiver)
        or any(frame.function == maker.name and made.contains(frame.span) for frame in event.stack)
    )
