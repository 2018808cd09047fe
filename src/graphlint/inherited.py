"""Graphs and memory of one object that different classes of its family look after: neither knows when the other's end.

What a class says of its own graphs and of their inputs is one thing: it may give up an input first, which the graphs' owner knows
to be idle. What the class below it, above it or beside it made, and gives up, is another: that was never meant for graphs.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import flow
from graphlint.effects import Effect
from graphlint.flow import Expr
from graphlint.paths import Event
from graphlint.project import FunctionEntry
from graphlint.summaries import Analysis, Site
from graphlint.values import Place

_FILLS = frozenset(("copy_", "fill_", "zero_", "index_copy_", "masked_fill_", "scatter_"))
"""Methods of a tensor that put something into it."""


def is_of_another_class(analysis: Analysis, release: Site, death: Site, holder: Place) -> bool:
    """Whether a class of an object's family gives up memory, and another one ends the graphs of the same object."""
    one, other = (_class_at_work(analysis, site.event, holder) for site in (release, death))
    return one is not None and other is not None and one != other


def _class_at_work(analysis: Analysis, event: Event, holder: Place) -> str | None:
    """The class whose method does something to an object: of the innermost call on that object."""
    for frame in reversed(event.stack):
        if frame.receiver == (holder,):
            return analysis.project.functions[frame.function].owner
    return None


def is_input(analysis: Analysis, release: Site, death: Site, holder: Place, name: str) -> bool:
    """Whether what replays an object's graphs, or what that calls, puts something into an attribute of the object first."""
    classes = {_class_at_work(analysis, site.event, holder) for site in (release, death)} - {None}
    family = {each for one in classes if one is not None for each in analysis.project.mro(one)}
    key = "inputs", " ".join(sorted(family))
    if key not in analysis.known:
        functions = _replaying(analysis, family)
        analysis.known[key] = frozenset(found for each in functions for found in _filled(each))
    return name in analysis.known[key]


def _replaying(analysis: Analysis, family: set[str]) -> Iterator[FunctionEntry]:
    """Methods of a family of classes that replay, and those of them that they call outside of captures."""
    waiting = [
        key
        for key, each in analysis.effectful.items()
        if analysis.project.functions[each.function].owner in family and Effect.REPLAY in analysis.kinds[key]
    ]
    seen: set[str] = set()
    while waiting:
        key = waiting.pop()
        if key in seen or key in analysis.captured or (built := analysis.behaviors.built(key)) is None:
            continue
        seen.add(key)
        function = analysis.project.functions[built.function]
        if function.owner in family:
            yield function
            waiting += built.callees


def _filled(function: FunctionEntry) -> Iterator[str]:
    """Attributes that a function puts something into: `self.x[:n].copy_(x)`, `self.x[:n] = x`, a variable for one included."""
    filled = [
        call.callee.base for call in function.calls if isinstance(call.callee, flow.Attr) and call.callee.name in _FILLS
    ]
    filled += [value for call in function.calls for name, value in call.keywords if name == "out"]
    bound = [each for each in flow.statements(function.lowered.flow) if isinstance(each, flow.Bind)]
    filled += [each.target for each in bound if isinstance(each.target, flow.Item)]
    variables = set[str]()
    for each in filled:
        base = _base(each)
        if isinstance(base, flow.Attr):
            yield base.name
        elif isinstance(base, flow.Name):
            variables.add(base.id)
    for bind in bound if variables else ():
        if bind.value is not None and not variables.isdisjoint(flow.variables(bind.target)):
            yield from (part.name for part in flow.parts(bind.value) if isinstance(part, flow.Attr))


def _base(expr: Expr) -> Expr:
    """The variable, or the attribute of one, that an expression is a part or a view of."""
    while True:
        match expr:
            case flow.Item(base=base) | flow.Attr(base=flow.Attr() | flow.Item() | flow.Call() as base):
                expr = base
            case flow.Call(callee=callee):
                expr = callee
            case _:
                return expr
