"""Methods of containers and graphs that are handed on without a call, `hooks.append(self.rooms.clear)`, as functions.

Each becomes a function that makes the call: a method of the object whose attribute it is, so that what is known of bound methods
of the project's own holds for it.
"""

from __future__ import annotations

from graphlint import flow
from graphlint.facts import Function, Param
from graphlint.project import FunctionEntry, Project

METHODS = frozenset(("clear", "reset"))


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
    if name not in project.functions:
        call = flow.Call(flow.Attr(base, attribute.name, attribute.span), (), (), attribute.span)
        facts = Function(
            qualname=name.removeprefix(f"{around.module.name}."),
            params=(Param("self", None, None, "positional"),) if owner is not None else (),
            returns=None,
            decorators=(),
            span=attribute.span,
            header=attribute.span,
            owner=project.classes[owner].facts.qualname if owner is not None else None,
            words=frozenset((attribute.name, flow.last_name(base))),
            flow=flow.Eval(call, attribute.span),
        )
        project.functions[name] = FunctionEntry(name, around.module, facts)
    return name
