"""Classes whose objects end with the function that makes them: nobody is there who could call them once more."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import flow
from graphlint.effects import Effect
from graphlint.flow import Expr, Flow
from graphlint.summaries import Analysis


def is_fleeting(analysis: Analysis, owner: str) -> bool:
    """Whether the project makes objects of a class for a moment only, and makes some.

    Either for one call each, as in `_Recorder(pool).record(f)`, where the class is private; or in a local variable of which
    nothing but methods is asked, and whose last method releases its graphs.
    """
    name = owner.rpartition(".")[2]
    made = ended = 0
    for entry in analysis.behaviors.functions_with(name):
        body = entry.lowered.flow
        for expr in flow.expressions(body):
            made += _makes(expr, name)
            if isinstance(expr, flow.Call) and isinstance(expr.callee, flow.Attr):
                ended += name.startswith("_") and _makes(expr.callee.base, name)
        ended += sum(_ends(analysis, owner, body, variable) for variable in _locals(body, name))
    return 0 < made <= ended


def _makes(expr: Expr, name: str) -> bool:
    """Whether an expression calls a class of this name."""
    match expr:
        case flow.Call(callee=flow.Name(id=word) | flow.Attr(name=word)):
            return word == name
    return False


def _locals(body: Flow, name: str) -> Iterator[str]:
    """The local variables that are given new objects of a class, once for each time."""
    for statement in flow.statements(body):
        match statement:
            case flow.Bind(target=flow.Name(id=variable), value=value) if value is not None and _makes(value, name):
                yield variable


def _ends(analysis: Analysis, owner: str, body: Flow, variable: str) -> bool:
    """Whether only methods of a variable are used, and the last of them releases graphs."""
    bound = sum(isinstance(s, flow.Bind) and _is(s.target, variable) for s in flow.statements(body))
    uses = sum(_is(expr, variable) for expr in flow.expressions(body))
    methods: list[tuple[int, str]] = []
    for call in flow.calls(body):
        match call.callee:
            case flow.Attr(base=base, name=name) if _is(base, variable):
                methods.append((call.span.start, name))
    if not methods or uses != bound + len(methods):
        return False
    last = analysis.project.method(owner, max(methods)[1])
    return last is not None and Effect.GRAPH_DEATH in analysis.kinds.get(last, frozenset())


def _is(expr: Expr, variable: str) -> bool:
    return isinstance(expr, flow.Name) and expr.id == variable
