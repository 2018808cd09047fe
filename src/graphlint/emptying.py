"""Loops that take every item out of a table: `for key in list(table): table.pop(key)`, at once or under a condition.

A release of one owner's entries is often one of all of them too, by a default (`release(owner=None)`). Which of the two a
call is, the tests say that do not look at the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from graphlint import flow
from graphlint.assignments import given_locally
from graphlint.conditions import Asked, asked_around, names_in
from graphlint.flow import Expr, Flow
from graphlint.source import Span

_COPIES = frozenset(("list", "tuple", "sorted", "set"))


class Emptying(NamedTuple):
    """What a loop empties."""

    table: str
    key: str
    """The variable that has the key, as it is written where the item goes."""
    tests: tuple[Asked, ...]
    """What has to be the case for every item to go; none: they always do."""


class _Keys(NamedTuple):
    """Keys that a loop goes over."""

    table: str
    key: str
    tests: tuple[Asked, ...]


def emptying(star: flow.Star, body: Flow, variables: Mapping[str, Sequence[tuple[Expr, str]]]) -> Emptying | None:
    """The table that a loop takes every item out of.

    Args:
        star: the loop.
        body: the function's flow.
        variables: what the function gives its local variables.
    """
    for value, before, at in _values(star.iterable, variables) if star.iterable is not None else ():
        keys = _keys(value, star.target) if star.target is not None else None
        if keys is None or star.target is None:
            continue
        if any(isinstance(each, flow.Exit) and each.kind in ("break", "return") for each in flow.statements(star.body)):
            return None
        varying = names_in(star.target) | {name for name, _, _ in given_locally(star.body)}
        for span in _drops(star.body, keys.table, keys.key):
            free = _without(asked_around(star.body, span), varying, kept=False)
            if free is not None:
                around = list(asked_around(body, star.span))
                given = asked_around(body, at) if at is not None else ()
                return Emptying(
                    keys.table, keys.key, (*(each for each in given if each not in around), *before, *keys.tests, *free)
                )
    return None


def _values(
    iterable: Expr, variables: Mapping[str, Sequence[tuple[Expr, str]]]
) -> Iterator[tuple[Expr, tuple[Asked, ...], Span | None]]:
    """What a loop may go over, under which tests, and where a variable is given it."""
    if not isinstance(iterable, flow.Name):
        yield from ((value, tests, None) for value, tests in _branches(iterable, ()))
        return
    for value, how in variables.get(iterable.id, ()):
        if how == "set":
            yield from ((each, tests, value.span) for each, tests in _branches(value, ()))


def _branches(value: Expr, tests: tuple[Asked, ...]) -> Iterator[tuple[Expr, tuple[Asked, ...]]]:
    if isinstance(value, flow.Choice):
        yield from _branches(value.then, (*tests, Asked(value.test, True)))
        yield from _branches(value.other, (*tests, Asked(value.test, False)))
    else:
        yield value, tests


def _keys(value: Expr, target: Expr) -> _Keys | None:
    """The table whose keys a loop with this target goes over, once they are copied."""
    match value:
        case flow.Call(callee=flow.Name(id=name), args=(inner,)) if name in _COPIES:
            return _keys(inner, target) if isinstance(inner, flow.Each) else _of_table(inner, target)
        case flow.Call(callee=flow.Attr(base=base, name="copy"), args=()):
            return _of_table(base, target)
        case flow.Group(kind="list" | "tuple" | "set", items=(flow.Op(op="*", operands=(inner,)),)):
            return _of_table(inner, target)
        case flow.Each(kind="list" | "set" | "generator", element=flow.Name(id=name)):
            inner_keys = _of_table(value.iterable, value.target)
            if inner_keys is None or inner_keys.key != name or not isinstance(target, flow.Name):
                return None
            tests = _without((Asked(each, True) for each in value.tests), names_in(value.target), kept=True)
            return _Keys(inner_keys.table, target.id, tests) if tests is not None else None
    return None


def _of_table(expr: Expr, target: Expr) -> _Keys | None:
    match expr, target:
        case flow.Call(callee=flow.Attr(base=base, name="items"), args=()), flow.Group(items=(flow.Name(id=key), _)):
            table = flow.dotted_text(base)
        case flow.Call(callee=flow.Attr(base=base, name="keys"), args=()), flow.Name(id=key):
            table = flow.dotted_text(base)
        case _, flow.Name(id=key):
            table = flow.dotted_text(expr)
        case _:
            return None
    return _Keys(table, key, ()) if table else None


def _drops(body: Flow, table: str, key: str) -> Iterator[Span]:
    """Where a loop's body takes out of a table what is under the key."""
    for statement in flow.statements(body):
        if isinstance(statement, flow.Drop) and isinstance(statement.target, flow.Item):
            if (flow.dotted_text(statement.target.base), flow.dotted_text(statement.target.key)) == (table, key):
                yield statement.span
    for call in flow.calls(body):
        match call:
            case flow.Call(callee=flow.Attr(base=base, name="pop"), args=(first, *_)):
                if (flow.dotted_text(base), flow.dotted_text(first)) == (table, key):
                    yield call.span


def _without(tests: Iterator[Asked], varying: frozenset[str], *, kept: bool) -> tuple[Asked, ...] | None:
    """Tests that imply others and look at none of some names; None where nothing does.

    Args:
        tests: the others.
        varying: the names.
        kept: whether tests that look at none of them already are kept.
    """
    found: list[Asked] = []
    for each in tests:
        if varying.isdisjoint(names_in(each.expr)):
            found += [each] if kept else []
        elif (free := _free_of(each, varying)) is not None:
            found.append(free)
        else:
            return None
    return tuple(found)


def _free_of(test: Asked, varying: frozenset[str]) -> Asked | None:
    """A test that implies another one, and looks at none of some names."""
    match test.expr:
        case flow.Op(op="not", operands=(inner,)):
            return _free_of(Asked(inner, not test.truth), varying)
        case flow.Op(op="and" | "or" as op, operands=operands, span=span) if (op == "or") is test.truth:
            free = tuple(each for each in operands if varying.isdisjoint(names_in(each)))
            if free:
                return Asked(free[0] if len(free) == 1 else flow.Op(op, free, span), test.truth)
    return None
