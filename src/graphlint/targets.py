"""What a function assigns, and whether it does anything, told from its syntax tree: most need not be lowered for that."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

KEEPERS = frozenset(("append", "add", "extend", "insert", "appendleft", "setdefault", "update", "push"))
"""Methods that put their last argument into a container."""
REGISTERING = frozenset(("register_buffer", "register_parameter"))
"""Methods of a module of torch that make their argument an attribute."""
STACKS = frozenset(("ExitStack", "AsyncExitStack"))
"""Contexts whose body is lowered to other statements than it is written with."""


def assigned_names(body: Iterable[ast.stmt]) -> frozenset[str] | None:
    """What the statements of a function assign; None where only its flow tells.

    Returns:
        `self.x` for an attribute of a name, `*.x` for one of anything else, `self.x[]` for an item of the first, put there by
        a method or by assignment, and `x[]` for whatever ends in that name and gets an item, or is updated in place.
        Functions in it do not count.
    """
    found: set[str] = set()
    waiting = list(body)
    while waiting:
        statement = waiting.pop()
        match statement:
            case ast.Assign(targets=targets):
                for target in targets:
                    found.update(_names(target))
            case ast.AnnAssign(target=target):
                found.update(_names(target))
            case ast.AugAssign(target=target):
                found.update(_names(target))
                found.update(_ending(target))
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=base, attr=method), args=[_, *_])) if (
                method in KEEPERS
            ):
                found.update(_item(base))
            case ast.Expr(value=ast.Call() as call):
                found.update(_named(call))
            case ast.If() | ast.For() | ast.AsyncFor() | ast.While():
                waiting += statement.body
                waiting += statement.orelse
            case ast.With() | ast.AsyncWith():
                if any(_last_name(item.context_expr) in STACKS for item in statement.items):
                    return None
                waiting += statement.body
            case ast.Match(cases=cases):
                for case in cases:
                    waiting += case.body
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass
            case _ if isinstance(getattr(statement, "handlers", None), list):  # `try`, and `except*` where there is one
                for block in ("body", "orelse", "finalbody"):
                    waiting += getattr(statement, block)
                for handler in statement.handlers:  # type: ignore[attr-defined]
                    waiting += handler.body
    return frozenset(found)


def is_abstract(body: Iterable[ast.stmt]) -> bool:
    """Whether a body only raises, or says nothing."""
    said = [statement for statement in body if not _is_silent(statement)]
    return not said or (len(said) == 1 and isinstance(said[0], ast.Raise))


def _is_silent(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Global() | ast.Nonlocal() | ast.ClassDef():
            return True
    return False


def _names(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Attribute(value=ast.Name(id=base), attr=name):
            yield f"{base}.{name}"
        case ast.Attribute(attr=name):
            yield f"*.{name}"
        case ast.Subscript(value=base):
            yield from _item(base)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for each in targets:
                yield from _names(each)


def _named(call: ast.Call) -> Iterator[str]:
    """The attribute that a call sets by its name, as `setattr` does."""
    match call:
        case ast.Call(
            func=ast.Name(id="setattr") | ast.Attribute(attr="__setattr__"),
            args=[ast.Name(id=base), ast.Constant(value=str(name)), _],
        ):
            yield f"{base}.{name}"
        case ast.Call(func=ast.Attribute(value=ast.Name(id=base), attr=method)) if method in REGISTERING:
            named = {each.arg: each.value for each in call.keywords}
            given = [*call.args, *(named[each] for each in ("name", "tensor", "param") if each in named)]
            match given:
                case [ast.Constant(value=str(name)), _, *_]:
                    yield f"{base}.{name}"


def _item(container: ast.expr) -> Iterator[str]:
    yield from _ending(container)
    match container:
        case ast.Subscript(value=base) | ast.Call(func=ast.Attribute(value=base, attr="setdefault")):
            container = base  # of a table of lists
    if isinstance(container, ast.Attribute) and isinstance(container.value, ast.Name):
        yield f"{container.value.id}.{container.attr}[]"


def _ending(expr: ast.expr) -> Iterator[str]:
    if name := _last_name(expr):
        yield f"{name}[]"


def _last_name(expr: ast.expr) -> str:
    match expr:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=callee):
            return _last_name(callee)
    return ""
