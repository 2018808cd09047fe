"""Where else a project names the buffer that a request asks for: other requests, releases, looks into the store.

A rewrite that gives the buffer another name has to know them: under the old name they would find nothing, or another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from graphlint import flow
from graphlint.flow import Expr
from graphlint.project import FunctionEntry
from graphlint.requests import Request, Requests
from graphlint.source import Span

_KEYED = frozenset(("get", "pop", "setdefault", "__contains__", "__getitem__", "__delitem__", "move_to_end", "has_key"))
_MOST_PLACES = 8


def namings(asked: Requests, request: Request) -> list[tuple[str, Span]]:
    """Functions, and places in them, that name the buffer of a request by themselves; not the request."""
    found: dict[tuple[str, Span], None] = {}
    accessors = {function: None for function, _ in request.calls}
    accessors.setdefault(request.registry.function or "")
    for entry, key, span in _keyed(asked, request):
        if entry.name in (request.registry.function, request.function):
            continue
        if request.called is None or _is_same(asked, request, entry, key):
            found.setdefault((entry.name, span))
    slot = request.registry.slot
    for entry in asked.behaviors.functions_with(slot[1]) if slot is not None and request.called is not None else ():
        if entry.facts.params[entry.owner is not None :]:  # it may be given a name
            accessors.setdefault(entry.name)
    if request.called is not None:
        found |= dict.fromkeys(_called(asked, request, [name for name in accessors if name != request.function]))
    return list(found)[:_MOST_PLACES]


def _keyed(asked: Requests, request: Request) -> Iterator[tuple[FunctionEntry, Expr, Span]]:
    """Keys under which functions look into the store of a request, put something there or take it out."""
    slot = request.registry.slot
    for entry in asked.behaviors.functions_with(slot[1]) if slot is not None else ():
        read = asked.behaviors.reader(entry)
        for expr in flow.expressions(entry.lowered.flow):
            match expr:
                case flow.Item(base=base, key=key):
                    pass
                case flow.Call(callee=flow.Attr(base=base, name=name), args=(key, *_)) if name in _KEYED:
                    pass
                case flow.Op(op="in" | "not in", operands=(key, base)):
                    pass
                case _:
                    continue
            if slot is not None and flow.last_name(base) == slot[1] and read(base).slot == slot:
                yield entry, key, expr.span


def _called(asked: Requests, request: Request, accessors: Collection[str]) -> Iterator[tuple[str, Span]]:
    """Calls of functions that work with the store, with the name of a request, or beside that name."""
    here = request.function, request.span
    for accessor in accessors:
        word = asked.project.functions[accessor].facts.name if accessor in asked.project.functions else ""
        for caller in asked.behaviors.functions_with(word) if word else ():
            calls = [call for call in caller.calls if flow.last_name(call.callee) == word]
            calls = [call for call in calls if (caller.name, call.span) != here]
            if not calls:
                continue
            for expr in flow.expressions(caller.lowered.flow):
                if caller.name == request.function and request.span.contains(expr.span):
                    continue
                if isinstance(expr, flow.Lit | flow.Name | flow.Attr | flow.Text) and _is_same(
                    asked, request, caller, expr
                ):
                    call = next((call for call in calls if call.span.contains(expr.span)), None)
                    yield caller.name, call.span if call is not None else expr.span


def _is_same(asked: Requests, request: Request, entry: FunctionEntry, key: Expr) -> bool:
    """Whether an expression of a function is the name that a request gives."""
    name = request.arguments.get("name")
    if name is None:
        return False
    if isinstance(name, flow.Lit):
        return isinstance(key, flow.Lit) and key.value == name.value
    here = asked.project.functions[request.function]
    word = flow.last_name(name)
    if word.isupper():
        return flow.last_name(key) == word
    if entry.module is not here.module or (entry.owner != here.owner and entry.name != here.name):
        return False
    source = here.module.source
    return source.text(key.span) == source.text(name.span)
