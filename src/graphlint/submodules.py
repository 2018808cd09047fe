"""Modules that a walk over the modules in a module passes over: those in a plain list or dictionary, which registers none."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import flow
from graphlint.bindings import Binding
from graphlint.ownership import Holding, holdings
from graphlint.project import FunctionEntry
from graphlint.source import Span
from graphlint.summaries import Analysis
from graphlint.teardowns import attributes_in
from graphlint.values import MODULE_CLASS

_WALKS = frozenset(("children", "modules", "named_children", "named_modules"))
"""Methods of a module that give those which are registered in it."""
_REGISTERS = frozenset(("add_module", "register_module", "setattr", "__setattr__"))


def module_walks(function: FunctionEntry, loop: Span) -> Iterator[flow.Attr]:
    """What gives the modules that a loop goes over: `self.model.modules`."""
    if function.facts.words.isdisjoint(_WALKS):
        return
    for statement in flow.statements(function.lowered.flow):
        if isinstance(statement, flow.Star) and statement.span == loop and statement.iterable is not None:
            for call in flow.calls(flow.Eval(statement.iterable, statement.iterable.span)):
                if isinstance(call.callee, flow.Attr) and call.callee.name in _WALKS:
                    yield call.callee


def passed_over(analysis: Analysis, function: FunctionEntry, walk: flow.Attr) -> Iterator[Holding]:
    """Attributes of the walked module that hold modules with graphs in a container which registers none of them."""
    for t in analysis.behaviors.typed(function, walk.base).types:
        if MODULE_CLASS not in analysis.project.mro(t.name) or _registers(analysis, t.name):
            continue
        for holding in holdings(analysis, t.name):
            given = [expr for _, expr, how in _given(analysis, t.name, holding.name) if how == "set"]
            are_modules = all(MODULE_CLASS in analysis.project.mro(each) for each in holding.classes)
            if holding.is_made and holding.classes and are_modules and given and all(map(_is_plain, given)):
                if not _is_given_on(analysis, t.name, holding.name):
                    yield holding


def _given(analysis: Analysis, class_name: str, name: str) -> Iterator[Binding]:
    """What an attribute of a class's instances is given."""
    for each in analysis.project.mro(class_name):
        yield from analysis.behaviors.field_bindings(each).get(name, ())


def _is_given_on(analysis: Analysis, class_name: str, name: str) -> bool:
    """Whether what an attribute holds goes into another one, in which it may be registered."""
    return any(
        other != name and function.facts.params and name in attributes_in(expr, function.facts.params[0].name)
        for each in analysis.project.mro(class_name)
        if each in analysis.project.classes
        for other, bindings in analysis.behaviors.field_bindings(each).items()
        for function, expr, _ in bindings
    )


def _is_plain(expr: flow.Expr) -> bool:
    """Whether a value is a list, a tuple or a dictionary as Python has them."""
    match expr:
        case flow.Group() | flow.Each():
            return True
        case flow.Call(callee=flow.Name(id="dict" | "list" | "tuple")):
            return True
    return False


def _registers(analysis: Analysis, class_name: str) -> bool:
    """Whether a method of a module names modules that it registers itself."""
    return any(
        not analysis.project.functions[method].facts.words.isdisjoint(_REGISTERS)
        for each in analysis.project.mro(class_name)
        if each in analysis.project.classes
        for method in analysis.project.classes[each].methods.values()
    )
