"""What is handed on without a call and is no function of the project, as functions: `hooks.append(self.rooms.clear)`.

Each becomes a function that makes the call, so that what is known of the project's own functions holds for it. A method of a
container or of a graph becomes a method of the object whose attribute that is, or a function that is given what it is about;
what a vocabulary knows, `retry(torch.cuda.empty_cache)`, a function of nothing.
"""

from __future__ import annotations

from graphlint import flow
from graphlint.facts import Function, Param
from graphlint.project import FunctionEntry, Project

METHODS = frozenset(("clear", "reset"))
_IT = "it"


def written_out(project: Project, around: FunctionEntry, attribute: flow.Attr, owner: str | None) -> str | None:
    """The name of a function that calls a method of what an attribute, or a variable of a module, holds.

    Args:
        project: is given the function.
        around: the function that hands the method on.
        attribute: the method as it stands there.
        owner: the class of the object, where it is an attribute of an object; one of another module has none.
    """
    base = attribute.base
    if owner is not None:
        entry = project.classes.get(owner)
        if entry is None or entry.module is not around.module or not isinstance(base, flow.Attr):
            return None
        base = flow.Attr(flow.Name("self", base.span), base.name, base.span)
    name = f"{around.name}.<locals>.{attribute.name}@{attribute.span.start}"
    params = ("self",) if owner is not None else ()
    _add(project, around, name, flow.Attr(base, attribute.name, attribute.span), params, owner)
    return name


def about(project: Project, around: FunctionEntry, expr: flow.Attr) -> str:
    """The name of a function that calls a method of what it is given; of the attribute of what it is given, where it is one's."""
    name = f"{around.name}.<locals>.{expr.name}@{expr.span.start}"
    base: flow.Expr = flow.Name(_IT, expr.base.span)
    if isinstance(expr.base, flow.Attr):
        base = flow.Attr(base, expr.base.name, expr.base.span)
    _add(project, around, name, flow.Attr(base, expr.name, expr.span), (_IT,), None)
    return name


def of_nothing(project: Project, around: FunctionEntry, expr: flow.Name | flow.Attr) -> str:
    """The name of a function that calls what a name of a module means."""
    name = f"{around.name}.<locals>.{flow.last_name(expr)}@{expr.span.start}"
    _add(project, around, name, expr, (), None)
    return name


def _add(
    project: Project, around: FunctionEntry, name: str, callee: flow.Expr, params: tuple[str, ...], owner: str | None
) -> None:
    if name in project.functions:
        return
    facts = Function(
        qualname=name.removeprefix(f"{around.module.name}."),
        params=tuple(Param(each, None, None, "positional") for each in params),
        returns=None,
        decorators=(),
        span=callee.span,
        header=callee.span,
        owner=project.classes[owner].facts.qualname if owner is not None else None,
        words=frozenset(
            part.id if isinstance(part, flow.Name) else part.name
            for part in flow.parts(callee)
            if isinstance(part, flow.Name | flow.Attr)
        ),
        flow=flow.Eval(flow.Call(callee, (), (), callee.span), callee.span),
    )
    project.functions[name] = FunctionEntry(name, around.module, facts)
