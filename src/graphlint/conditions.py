"""What the text around a place in a function says must be the case for it to run, and whether one such test implies another.

A test is a conjunction of *conditions*: what something is, or is not. `mode != "decode"` says that `mode` is none of
{"decode"}, `self.decode is not None` and `if decode:` both say that `decode` is there. A name and an attribute of one last
name count as one thing: an object keeps its settings under the names under which it got them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from graphlint import flow
from graphlint.assignments import falls_through
from graphlint.flow import Expr, Flow
from graphlint.source import Source, Span

_OPPOSITE = {"!=": "==", "is not": "is", "not in": "in"}
THERE = frozenset(("<there>",))
"""Stands for whatever is true."""
_ORDERS = frozenset(("<", "<=", ">", ">="))


class Condition(NamedTuple):
    """Something is one of some values, or none of them."""

    subject: str
    is_one: bool
    values: frozenset[str]


class Asked(NamedTuple):
    """A branch around a place: its test, and what that has to say."""

    expr: Expr
    truth: bool


def asked_around(body: Flow, span: Span) -> Iterator[Asked]:
    """The tests that let control come to a place: of branches around it, and of branches before it that leave."""
    match body:
        case flow.Seq(items=items):
            passed: list[Asked] = []
            for item in items:
                if _contains(item, span):
                    yield from passed
                    yield from asked_around(item, span)
                    return
                if isinstance(item, flow.Alt) and falls_through(item.then) != falls_through(item.other):
                    passed.append(Asked(item.test, falls_through(item.then)))
        case flow.Alt(test=test, then=then, other=other):
            for part, truth in ((then, True), (other, False)):
                if _contains(part, span):
                    yield Asked(test, truth)
                    yield from asked_around(part, span)
        case flow.Bind(value=flow.Choice(test=test, then=then, other=other)):
            for branch, truth in ((then, True), (other, False)):
                if branch.span.contains(span):
                    yield Asked(test, truth)
        case _:
            for child in flow.children(body):
                if _contains(child, span):
                    yield from asked_around(child, span)


def _contains(body: Flow, span: Span) -> bool:
    if isinstance(body, flow.Seq):
        return any(_contains(item, span) for item in body.items)
    return body.span.contains(span)


def conditions(test: Asked, source: Source) -> Iterator[Condition]:
    """What a test says."""
    match test:
        case Asked(flow.Op(op="not", operands=(inner,)), truth):
            yield from conditions(Asked(inner, not truth), source)
        case Asked(flow.Op(op="and" | "or" as op, operands=operands), truth) if (op == "and") is truth:
            for each in operands:
                yield from conditions(Asked(each, truth), source)
        case Asked(flow.Op(op="and" | "or", operands=operands), truth):
            parts = [list(conditions(Asked(each, truth), source)) for each in operands]
            alike = {(each.subject, each.is_one) for part in parts for each in part}
            if len(alike) == 1 and all(len(part) == 1 for part in parts) and parts[0][0].is_one:
                yield parts[0][0]._replace(values=frozenset().union(*(part[0].values for part in parts)))
            else:
                yield Condition(source.text(test.expr.span), test.truth, THERE)
        case Asked(flow.Op(op="==" | "!=" | "is" | "is not" as op, operands=(left, flow.Lit(value=None))), truth):
            is_none = (op in ("==", "is")) is truth
            yield Condition(_subject(left, source), not is_none, THERE)
        case Asked(flow.Op(op="==" | "!=" | "is" | "is not" as op, operands=(left, right)), truth):
            yield Condition(_subject(left, source), (op not in _OPPOSITE) is truth, frozenset((_value(right, source),)))
        case Asked(flow.Op(op="in" | "not in" as op, operands=(left, flow.Group(items=items))), truth):
            values = frozenset(_value(each, source) for each in items)
            yield Condition(_subject(left, source), (op not in _OPPOSITE) is truth, values)
        case Asked(expr, truth):
            yield Condition(_subject(expr, source), truth, THERE)


def implied(wanted: Condition, known: Collection[Condition]) -> bool:
    """Whether something is the case wherever some conditions hold."""
    return any(_implies(each, wanted) for each in known)


def _implies(one: Condition, other: Condition) -> bool:
    if one.subject != other.subject:
        return False
    if one.is_one and other.is_one:
        return one.values <= other.values or other.values == THERE
    if one.is_one:
        return one.values.isdisjoint(other.values)
    return not other.is_one and other.values <= one.values


def is_of_order(test: Asked) -> bool:
    """Whether a test compares sizes, so that what it implies is not told here."""
    return any(isinstance(part, flow.Op) and part.op in _ORDERS for part in flow.parts(test.expr))


def names_in(expr: Expr) -> frozenset[str]:
    """Last names of all variables and attributes in an expression."""
    return frozenset(flow.last_name(part) for part in flow.parts(expr) if isinstance(part, flow.Name | flow.Attr))


def _subject(expr: Expr, source: Source) -> str:
    if isinstance(expr, flow.Walrus):
        expr = expr.value
    if flow.dotted_text(expr):
        return flow.last_name(expr)
    match expr:
        case flow.Call(callee=flow.Name(id="getattr"), args=(_, flow.Lit(value=str(name)), *_)):
            return name
    return " ".join(source.text(expr.span).split())


def _value(expr: Expr, source: Source) -> str:
    if isinstance(expr, flow.Lit):
        return repr(expr.value)
    return flow.last_name(expr) if flow.dotted_text(expr) else " ".join(source.text(expr.span).split())
