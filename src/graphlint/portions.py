"""Whether the death of graphs that lie in a table is that of all of them, or of a few: an eviction, one that was captured anew.

A place says only that something is an item of a table. Which items go, the loops around say: over the whole table, as long
as there is something in it, or over some keys of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise

from graphlint import behavior as b
from graphlint import flow
from graphlint.assignments import given_locally
from graphlint.conditions import asked_around, names_in
from graphlint.effects import Effect
from graphlint.flow import Expr
from graphlint.paths import Event, Frame
from graphlint.summaries import Analysis
from graphlint.values import ELEMENT, Place

_COPIES = frozenset(("list", "tuple", "sorted", "reversed", "enumerate", "set", "zip", "range", "len", "iter", "max"))
_VIEWS = frozenset(("values", "items", "keys", "copy"))
_ASKING = frozenset(("isinstance", "hasattr", "callable", "getattr"))
_DEEPEST = 6

SOME, MAYBE, ALL = 0, 1, 2
"""How much of a table goes: some items; all, if a loop over something else names them all; all."""


def portion(analysis: Analysis, event: Event, place: Place) -> int:
    """How much of what lies in tables at a place an event ends."""
    node = event.node
    needed = place.count(ELEMENT) + (isinstance(node, b.Touches) and node.how == "pop")
    if isinstance(node, b.Touches) and node.how in ("clear", "pop") and node.key is not None:
        needed -= place[-1:] == (ELEMENT,)  # one after the other, as `emptying` has seen
    needed -= _is_of_all(analysis, event)
    if needed <= 0:
        return ALL
    tables = {place[at - 1] for at, part in enumerate(place) if part == ELEMENT and at} | {place[-1]}
    own: set[str] = set()
    if place[0].startswith("@"):  # made in one of these functions, and in a variable there
        root = place[0].partition("#")[0]
        own = {analysis.variable(frame.function, root) for frame in event.stack} | {place[0]}
    found = sorted((each for frame in event.stack for each in _rounds(analysis, frame, tables, own)), reverse=True)
    return min(found[:needed]) if len(found) >= needed else SOME


def _is_of_all(analysis: Analysis, event: Event) -> bool:
    """Whether a destructor ends the graphs because a whole table is given up."""
    for frame, following in pairwise(event.stack):
        if following.function.endswith(".__del__"):
            root = analysis.effectful.get(frame.function)
            nodes = root.nodes if root is not None else ()
            hows = {node.how for node in nodes if isinstance(node, b.Touches) and node.span == frame.span}
            return bool(hows) and "pop" not in hows
    return False


def _rounds(analysis: Analysis, frame: Frame, tables: set[str], own: set[str]) -> Iterator[int]:
    """How much of the tables each loop around a place in a function goes over."""
    function = analysis.project.functions[frame.function]
    body = function.lowered.flow
    given: dict[str, list[Expr]] = {}
    for name, value, _ in given_locally(body):
        if name not in own:
            given.setdefault(name, []).append(value)
    tables = tables | own
    for statement in flow.statements(body):
        if isinstance(statement, flow.Star) and statement.span.contains(frame.span):
            if statement.iterable is None:
                yield _until(statement, tables)
            elif statement.iterable.span.contains(frame.span):
                continue
            elif _is_cut(statement, frame, tables) or _captures(analysis, statement, frame):
                yield SOME
            else:
                yield _over(statement.iterable, statement.target, frame, given, tables, function.calls)
    for expr in flow.expressions(body):
        if isinstance(expr, flow.Each) and expr.element.span.contains(frame.span):
            if all(_asks_what_there_is(each, tables) for each in expr.tests):
                yield _over(expr.iterable, expr.target, frame, given, tables, function.calls)


def _until(loop: flow.Star, tables: set[str]) -> int:
    """`while self.graphs:` goes on until nothing is left, `while len(self.graphs) > 8:` does not."""
    match loop.test:
        case flow.Lit(value=value):
            return ALL if value else SOME
        case (
            flow.Op(op=">" | "!=", operands=(left, flow.Lit(value=0)))
            | flow.Op(op=">=", operands=(left, flow.Lit(value=1)))
        ):
            return ALL if names_in(left) & tables else SOME
        case flow.Name() | flow.Attr() | flow.Call():
            return ALL if names_in(loop.test) & tables else SOME
    return SOME


def _is_cut(loop: flow.Star, frame: Frame, tables: AbstractSet[str]) -> bool:
    """Whether rounds end early, or leave out some items by what these are."""
    varying = set(names_in(loop.target)) if loop.target is not None else set()
    varying |= {name for name, _, _ in given_locally(loop.body)}
    for statement in flow.statements(loop.body):
        if isinstance(statement, flow.Exit) and statement.kind in ("break", "return"):
            return True
    return any(
        not varying.isdisjoint(names_in(each.expr)) and not _asks_what_there_is(each.expr, tables, truth=each.truth)
        for each in asked_around(loop.body, frame.span)
    )


def _captures(analysis: Analysis, loop: flow.Star, frame: Frame) -> bool:
    """Whether each round captures, too: then the graphs of the other rounds live on."""
    root = analysis.effectful.get(frame.function)
    return root is not None and any(
        site.effect is Effect.CAPTURE and loop.span.contains(site.event.stack[0].span) for site in analysis.sites(root)
    )


def _asks_what_there_is(test: Expr, tables: AbstractSet[str], *, truth: bool = True) -> bool:
    """Whether a test that comes out so says no more than that there is something at all, or that it is in the table."""
    match test:
        case flow.Name():
            return truth
        case flow.Op(op="is" | "==", operands=(_, flow.Lit(value=None))):
            return not truth
        case flow.Op(op="is not" | "!=", operands=(_, flow.Lit(value=None))):
            return truth
        case flow.Op(op="in" | "not in" as op, operands=(_, right)):
            return (op == "in") is truth and not tables.isdisjoint(names_in(right))
        case flow.Op(op="not", operands=(inner,)):
            return _asks_what_there_is(inner, tables, truth=not truth)
        case flow.Op(op="and" | "or" as op, operands=operands):
            return (op == "and") is truth and all(_asks_what_there_is(each, tables, truth=truth) for each in operands)
        case flow.Call(callee=flow.Name(id=name)):
            return truth and name in _ASKING
    return False


def _over(
    iterable: Expr,
    target: Expr | None,
    frame: Frame,
    given: Mapping[str, Sequence[Expr]],
    tables: set[str],
    calls: Sequence[flow.Call],
) -> int:
    """How much of the tables a loop over something goes over."""
    call = next((call for call in calls if call.span == frame.span), None)
    base: Expr | None = call.callee if call is not None else None
    while isinstance(base, flow.Attr | flow.Item):
        base = base.base
    is_item = isinstance(base, flow.Name) and target is not None and base.id in names_in(target)
    return _whole(iterable, given, tables, is_item=is_item, depth=0)


def _whole(expr: Expr, given: Mapping[str, Sequence[Expr]], tables: set[str], *, is_item: bool, depth: int) -> int:
    def inner(part: Expr) -> int:
        return _whole(part, given, tables, is_item=is_item, depth=depth + 1)

    if depth > _DEEPEST:
        return SOME
    match expr:
        case flow.Name(id=name):
            values = [value for value in given.get(name, ()) if not _mentions(value, name)]
            if values:
                return min(map(inner, values))
            return ALL if is_item or name in tables else MAYBE if name.isupper() else SOME
        case flow.Attr(name=name):
            return ALL if is_item or name in tables else MAYBE
        case flow.Call(callee=flow.Name(id="filter")):
            return SOME
        case flow.Call(callee=flow.Name(id=name), args=args) if name in _COPIES and args:
            return max(inner(arg) for arg in args)
        case flow.Call(callee=flow.Attr(base=base, name=name), args=()) if name in _VIEWS:
            return inner(base)
        case flow.Group(items=items) if items:
            return min(map(inner, items))
        case flow.Op(op="*", operands=(one,)):
            return inner(one)
        case flow.Op(op="or", operands=operands):
            return max(map(inner, operands))
        case flow.Each(iterable=iterable, tests=tests):
            return inner(iterable) if all(_asks_what_there_is(each, tables) for each in tests) else SOME
        case flow.Choice(then=then, other=other):
            return max(inner(then), inner(other))
        case flow.Call() if is_item and depth and any(name.startswith("@") for name in tables):
            return ALL  # what a call has made is the table itself
        case flow.Item(base=base):
            return inner(base) if is_item and not isinstance(expr.key, flow.Op | flow.Call) else SOME
    return SOME


def _mentions(value: Expr, name: str) -> bool:
    return name in names_in(value)


def is_kept(analysis: Analysis, event: Event) -> bool:
    """Whether an item that is taken out of a table lives on: put somewhere, passed on or handed out, and not reset."""
    node = event.node
    if not isinstance(node, b.Touches) or node.how != "pop":
        return False
    body = analysis.project.functions[event.stack[-1].function].lowered.flow
    names: set[str] = set()
    for statement in flow.statements(body):
        if isinstance(statement, flow.Bind) and statement.value is not None and statement.span.contains(node.span):
            if isinstance(statement.target, flow.Attr | flow.Item):
                return True
            names |= names_in(statement.target)
        elif isinstance(statement, flow.Exit) and statement.kind == "return" and statement.span.contains(node.span):
            return True
    if not names:
        return False
    called = [call.callee.base for call in flow.calls(body) if isinstance(call.callee, flow.Attr)]
    if any(flow.last_name(base) in names for base in called):
        return False
    for statement in flow.statements(body):
        if isinstance(statement, flow.Seq) or statement.span.start < node.span.end:
            continue
        match statement:
            case flow.Bind(target=flow.Attr() | flow.Item(), value=value) if value is not None:
                given = [value]
            case flow.Exit(kind="return"):
                given = list(flow.operands(statement))
            case flow.Eval(value=flow.Call(args=args)):
                given = list(args)
            case _:
                continue
        if any(names & names_in(each) for each in given):
            return True
    return False
