"""How much of a shared table a release takes: all of it, whichever comes first, or what somebody has named.

What one owner names is his own. What is chosen by a word that is the same for all who come there is everybody's.
"""

from __future__ import annotations

from itertools import pairwise

from graphlint import behavior as b
from graphlint import flow
from graphlint.assignments import argument_for, given_locally
from graphlint.conditions import asked_around
from graphlint.effects import Effect
from graphlint.paths import Event, Frame
from graphlint.project import FunctionEntry
from graphlint.source import Span
from graphlint.summaries import Analysis, Site
from graphlint.values import ELEMENT, Place, Test

_SHARED = ("class:", "mod:")


def is_wide(analysis: Analysis, site: Site) -> bool:
    """Whether an effect releases more than one object's memory or graphs."""
    node = site.event.node
    if site.effect not in (Effect.WS_RELEASE, Effect.GRAPH_DEATH):
        return False
    if isinstance(node, b.Happens) and node.effect is Effect.WS_RELEASE and node.scope == "process":
        return True
    if isinstance(node, b.Touches) and node.how == "pop":
        if not (_is_until_empty(analysis, site) or _is_any(analysis, site) or _is_of_a_kind(analysis, site)):
            return False  # one entry, chosen by its key
    if any(_is_down_to_a_mark(analysis, site.event, loop) for loop in site.event.loops):
        return False
    shared = [place for place in site.places if place[0].startswith(_SHARED)]
    if any(_asks_whose(guard, place) for guard in site.event.guards for place in shared if ELEMENT in place):
        return False
    if shared and site.event.loops and _is_chosen(analysis, site.event):
        return False
    if isinstance(node, b.Touches) and all(ELEMENT in place for place in site.places):
        return any(_runs_over(analysis, site.event, loop, place) for loop in site.event.loops for place in shared)
    return bool(shared)


def _asks_whose(guard: Test, place: Place) -> bool:
    """Whether a test compares what an item says of itself with what whoever releases says of himself."""
    item = place[: place.index(ELEMENT) + 1]
    match guard:
        case ("compare", _, read, _):
            return any(each[: len(item)] == item for each in read) and any(each[0].startswith("$") for each in read)
        case ("not", inner):
            return _asks_whose(inner, place)
        case ("and", *inner):
            return any(_asks_whose(each, place) for each in inner)
    return False


def _is_chosen(analysis: Analysis, event: Event) -> bool:
    """Whether a loop asks of each item something of what the caller gives: `if name.startswith(prefix)`."""
    loop = event.loops[-1]
    depth = next((depth for depth, frame in enumerate(event.stack) if frame.function == loop.function), 0)
    function = analysis.project.functions[loop.function]
    if not depth:
        return False
    call = _call_at(analysis, event.stack[depth - 1])
    params = function.facts.params if call is not None else ()
    named = {param.name: argument_for(function, call, param.name) for param in params if call is not None}
    caller = analysis.project.functions[event.stack[depth - 1].function]
    given = {name for name, value in named.items() if value is not None and not _is_same(analysis, caller, value)}
    for statement in flow.statements(function.lowered.flow) if given else ():
        if isinstance(statement, flow.Star) and statement.span == loop.span and statement.target is not None:
            items = flow.variables(statement.target)
            for asked in asked_around(statement.body, event.stack[depth].span):
                names = flow.variables(asked.expr)
                asks_none = any(
                    isinstance(part, flow.Op) and part.op in ("is", "is not") for part in flow.parts(asked.expr)
                )
                if not asks_none and not names.isdisjoint(items) and not names.isdisjoint(given):
                    return True
    return False


def _is_of_a_kind(analysis: Analysis, site: Site) -> bool:
    """Whether a loop takes out of a table every entry whose key has in it what is the same for all who come there."""
    event = site.event
    if not event.loops:
        return False
    loop = event.loops[-1]
    depth = next((depth for depth, frame in enumerate(event.stack) if frame.function == loop.function), 0)
    function = analysis.project.functions[loop.function]
    body = function.lowered.flow
    for star in flow.statements(body):
        if not isinstance(star, flow.Star) or star.span != loop.span or star.iterable is None or star.target is None:
            continue
        keys, chooser, at = star.iterable, function, depth
        if isinstance(keys, flow.Name) and depth and (call := _call_at(analysis, event.stack[depth - 1])) is not None:
            given = argument_for(function, call, keys.id)  # whoever calls has chosen them
            if given is not None:
                keys, chooser, at = given, analysis.project.functions[event.stack[depth - 1].function], depth - 1
        if isinstance(keys, flow.Name):
            values = [
                value for value, how in analysis.behaviors.local_bindings(chooser).get(keys.id, ()) if how == "set"
            ]
            keys = values[0] if len(values) == 1 else keys
        tests: list[tuple[FunctionEntry, int, flow.Expr, frozenset[str]]] = []
        for each in flow.parts(keys):
            if isinstance(each, flow.Each):
                tests += [(chooser, at, test, flow.variables(each.target)) for test in each.tests]
        if chooser is function:
            items = flow.variables(star.target)
            tests += [(function, depth, each.expr, items) for each in asked_around(star.body, event.stack[depth].span)]
        if tests and all(_asks_kind(analysis, event, *test) for test in tests):
            return True
    return False


def _asks_kind(
    analysis: Analysis, event: Event, function: FunctionEntry, depth: int, test: flow.Expr, items: frozenset[str]
) -> bool:
    """Whether a test compares a part of an item with what is the same for all who come to an event."""
    match test:
        case (
            flow.Op(op="==", operands=(flow.Item() | flow.Attr() as part, other))
            | flow.Op(op="==", operands=(other, flow.Item() | flow.Attr() as part))
        ):
            if items.isdisjoint(flow.variables(part)) or not items.isdisjoint(flow.variables(other)):
                return False
            while isinstance(other, flow.Name) and any(other.id == param.name for param in function.facts.params):
                call = _call_at(analysis, event.stack[depth - 1]) if depth else None
                given = argument_for(function, call, other.id) if call is not None else None
                if given is None:
                    return False
                depth -= 1
                function, other = analysis.project.functions[event.stack[depth].function], given
            return _is_same(analysis, function, other)
    return False


def _is_same(analysis: Analysis, function: FunctionEntry, expr: flow.Expr) -> bool:
    """Whether an expression of a function says the same for all objects: written out, or so in a module or a class."""
    match expr:
        case flow.Lit():
            return True
        case flow.Name(id=name):
            symbol = analysis.project.lookup(function.module, name)
            if symbol is None or symbol.kind != "variable" or name in analysis.behaviors.local_bindings(function):
                return False
            module, _, variable = symbol.name.rpartition(".")
            binds = analysis.project.modules[module].variables.get(variable, ())
            return len(binds) == 1 and isinstance(binds[0].value, flow.Lit)
        case flow.Attr(base=flow.Name(id=base), name=name):
            own = function.owner if function.facts.params and base == function.facts.params[0].name else None
            symbol = analysis.project.lookup(function.module, base) if own is None else None
            owner = own or (symbol.name if symbol is not None and symbol.kind == "class" else "")
            for each in analysis.project.mro(owner):
                entry = analysis.project.classes.get(each)
                if entry is None or name in analysis.behaviors.field_bindings(each):
                    return False
                if name in entry.attributes:
                    return isinstance(entry.attributes[name].value, flow.Lit)
    return False


def _is_until_empty(analysis: Analysis, site: Site) -> bool:
    """Whether entries are taken out of a table for as long as there are any: `while table: table.popitem()`."""
    event = site.event
    if not event.loops or not any(("atom", "true", place) in event.guards for place in site.places):
        return False
    loop = event.loops[-1]
    return any(
        isinstance(each, flow.Star) and each.span == loop.span and each.iterable is None
        for each in flow.statements(analysis.project.functions[loop.function].lowered.flow)
    )


def _is_any(analysis: Analysis, site: Site) -> bool:
    """Whether a loop takes out of a table whichever entry it comes to, until few enough are left: `next(iter(table))`."""
    event = site.event
    loop = event.loops[-1] if event.loops else None
    if loop is None or loop.function != event.stack[-1].function or not site.places:
        return False
    table = b.last_name(site.places[0])
    body = analysis.project.functions[loop.function].lowered.flow
    for each in flow.statements(body):
        if not isinstance(each, flow.Star) or each.span != loop.span or each.iterable is not None:
            continue
        key = _taken(each.body, event.node.span)
        if key is None:
            return True
        chosen = (made for name, made, how in given_locally(each.body) if how == "set" and name == flow.last_name(key))
        return any(flow.last_name(part) == table for made in (key, *chosen) for part in flow.parts(made))
    return False


def _is_down_to_a_mark(analysis: Analysis, event: Event, loop: Frame) -> bool:
    """Whether what a caller names stays: `while len(table) > mark` takes only what came behind it, unless that is a constant."""
    function = analysis.project.functions[loop.function]
    params = {param.name for param in function.facts.params[1 if function.owner is not None else 0 :]}
    tests = (
        each.test
        for each in flow.statements(function.lowered.flow)
        if isinstance(each, flow.Star) and each.span == loop.span and each.iterable is None and each.test is not None
    )
    tables = {part for place in event.places for part in place if part != ELEMENT}
    parts = [list(flow.parts(test)) for test in tests]
    asked = [
        each
        for each in parts
        if any(isinstance(part, flow.Attr | flow.Name) and flow.last_name(part) in tables for part in each)
    ]
    marks = [part for each in asked for part in each if isinstance(part, flow.Name) and part.id in params]
    return bool(marks) and not any(_is_constant(analysis, event, loop.function, each) for each in marks)


def _taken(body: flow.Flow, at: Span) -> flow.Expr | None:
    """The key under which something is taken out of a table at a place; None where none is named."""
    for call in flow.calls(body):
        if call.span == at:
            return call.args[0] if call.args else None
    drops = (each.target for each in flow.statements(body) if isinstance(each, flow.Drop) and each.span == at)
    return next((target.key for target in drops if isinstance(target, flow.Item)), None)


def _runs_over(analysis: Analysis, event: Event, loop: Frame, place: Place) -> bool:
    """Whether a loop runs over a table, or until it is empty, and not over keys or parts of it that were chosen before."""
    whole = place[: place.index(ELEMENT)]
    for statement in flow.statements(analysis.project.functions[loop.function].lowered.flow):
        if not isinstance(statement, flow.Star) or statement.span != loop.span:
            continue
        if statement.iterable is None:
            return ("atom", "true", whole) in event.guards
        waiting = [statement.iterable]
        while waiting:
            expr = waiting.pop()
            if flow.last_name(expr) == whole[-1]:
                return True
            match expr:
                case flow.Item(base=base, key=key):
                    if flow.last_name(base) == whole[-1]:
                        return _is_constant(analysis, event, loop.function, key)
                case flow.Each(tests=(_, *_)):
                    continue  # it leaves some out
                case flow.Call(callee=flow.Attr(base=base, name="get" | "pop" | "setdefault"), args=(key, *_)):
                    if flow.last_name(base) == whole[-1] and not _is_constant(analysis, event, loop.function, key):
                        return False
            waiting += flow.subexpressions(expr)
    return False


def _is_constant(analysis: Analysis, event: Event, function: str, key: flow.Expr) -> bool:
    """Whether a key says the same for all who come to an event: it is written out, there or in the call that leads there."""
    if not isinstance(key, flow.Name):
        return isinstance(key, flow.Lit) or (isinstance(key, flow.Op) and key.op == "Slice")
    entry = analysis.project.functions[function]
    defaults = {param.name: param.default for param in entry.facts.params}
    for outer, inner in pairwise(event.stack):
        if inner.function == function and (call := _call_at(analysis, outer)) is not None:
            return isinstance(argument_for(entry, call, key.id) or defaults.get(key.id), flow.Lit)
    return False


def _call_at(analysis: Analysis, frame: Frame) -> flow.Call | None:
    """The call by which the way goes on from a function."""
    return next((call for call in analysis.project.functions[frame.function].calls if call.span == frame.span), None)
