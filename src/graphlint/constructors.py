"""What a constructor makes of its arguments: `self.steps = target.steps`, `super().__init__(net, exchange)`, `list(workers)`.

Two objects that were made with one have a part in common, and whoever releases it by way of both releases it twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from graphlint import flow
from graphlint.assignments import argument_for, assigned
from graphlint.flow import Expr, Flow
from graphlint.project import FunctionEntry, Project

_COPYING = frozenset(("deque", "list", "tuple"))
_DEEPEST = 4
"""Most classes above each other whose constructors call one another."""


class Given(NamedTuple):
    """What an attribute is: an argument, or what is read from it."""

    param: str
    way: tuple[str, ...] = ()
    """Attributes, from the argument on."""
    copied: bool = False
    """It is another container, with the items of that one."""
    or_other: bool = False
    """Where the argument is nothing, it is something else."""


def given_attributes(project: Project, class_name: str, method: str = "") -> Mapping[str, Given]:
    """The attributes that a method gives what its arguments say, by name; those that it gives something else as well left out.

    Args:
        project: the project.
        class_name: of the object.
        method: the method; its constructor, where it is empty.
    """
    init = method or project.method(class_name, "__init__")
    return _given(project, class_name, project.functions[init], 0) if init else {}


def _given(project: Project, class_name: str, init: FunctionEntry, depth: int) -> dict[str, Given]:
    params = {param.name for param in init.facts.params[1:]}
    me = init.facts.params[0].name if init.facts.params else ""
    body = init.lowered.flow
    written: dict[str, list[Expr]] = {}
    replaced: set[str] = set()
    for target, value, how in assigned(body):
        match target:
            case flow.Attr(base=flow.Name(id=base), name=name) if base == me and how == "set":
                written.setdefault(name, []).append(value)
            case flow.Name(id=name):
                replaced.add(name)
    fallbacks = set(_fallbacks(body)) if replaced & params else set()
    known = {name: name in fallbacks for name in params if name not in replaced or name in fallbacks}
    found: dict[str, Given] = {}
    for name, values in written.items():
        each = _said(values[0], known) if len(values) == 1 else None
        if each is not None:
            found[name] = each
    for call in init.calls if depth < _DEEPEST else ():
        above = _above(project, class_name, init) if _is_of_base(call) else None
        for name, inner in _given(project, class_name, above, depth + 1).items() if above is not None else ():
            argument = argument_for(above, call, inner.param) if above is not None else None
            outer = _said(argument, known) if argument is not None and name not in written else None
            if outer is not None:
                found[name] = Given(
                    outer.param,
                    (*outer.way, *inner.way),
                    outer.copied or inner.copied,
                    outer.or_other or inner.or_other,
                )
    return found


def _is_of_base(call: flow.Call) -> bool:
    """Whether a call is `super().__init__(...)`."""
    match call:
        case flow.Call(callee=flow.Attr(base=flow.Call(callee=flow.Name(id="super")), name="__init__")):
            return True
    return False


def _above(project: Project, class_name: str, init: FunctionEntry) -> FunctionEntry | None:
    """The constructor that comes behind one, for an object of a class."""
    line = list(project.mro(class_name))
    behind = line[line.index(init.owner) + 1 :] if init.owner in line else []
    names = (f"{each}.__init__" for each in behind)
    return next((project.functions[name] for name in names if name in project.functions), None)


def _said(value: Expr, params: Mapping[str, bool]) -> Given | None:
    """What an expression is of an argument; None where it is none. `params`: with whether something else may have taken their place."""
    match value:
        case flow.Name(id=name) if name in params:
            return Given(name, or_other=params[name])
        case flow.Attr(base=base, name=name):
            inner = _said(base, params)
            return inner._replace(way=(*inner.way, name)) if inner is not None and not inner.copied else None
        case flow.Op(op="or", operands=(first, *_)):
            inner = _said(first, params)
            return inner._replace(or_other=True) if inner is not None else None
        case flow.Choice(test=test, then=then, other=other):
            name = _asked(test)
            for each in (then, other):
                inner = _said(each, params)
                if inner is not None and inner.param == name and not inner.way:
                    return inner._replace(or_other=True)
        case flow.Call(callee=flow.Name(id=name), args=(first,), keywords=()) if name in _COPYING:
            inner = _said(first, params)
            return inner._replace(copied=True) if inner is not None else None
        case flow.Item(base=base, key=key) if flow.is_whole(key):
            inner = _said(base, params)
            return inner._replace(copied=True) if inner is not None else None
    return None


def _asked(test: Expr) -> str:
    """The variable of which a test asks whether it is something at all; empty for another test."""
    match test:
        case flow.Name(id=name):
            return name
        case flow.Op(op="not", operands=(inner,)):
            return _asked(inner)
        case flow.Op(op="is" | "is not" | "==" | "!=", operands=(flow.Name(id=name), flow.Lit(value=None))):
            return name
    return ""


def _fallbacks(body: Flow) -> Iterator[str]:
    """Parameters that are given something else only where they are nothing: `if steps is None: steps = Steps()`."""
    given: dict[str, int] = {}
    for each in flow.statements(body):
        if isinstance(each, flow.Bind) and isinstance(each.target, flow.Name):
            given[each.target.id] = given.get(each.target.id, 0) + 1
            match each.value:
                case flow.Op(op="or", operands=(flow.Name(id=name), *_)) if name == each.target.id:
                    given[name] -= 1
                    yield name
    for each in flow.statements(body):
        if isinstance(each, flow.Alt) and (name := _asked(each.test)) and given.get(name) == 1:
            part = each.then if _is_nothing(each.test) else each.other
            if any(isinstance(s, flow.Bind) and flow.last_name(s.target) == name for s in flow.statements(part)):
                yield name


def _is_nothing(test: Expr) -> bool:
    """Whether such a test is true where there is nothing."""
    match test:
        case flow.Op(op="not", operands=(inner,)):
            return not _is_nothing(inner)
        case flow.Op(op="is" | "=="):
            return True
    return False
