"""Values that cross a call or outlive it: a callee's in the caller's terms, a kept function's in those of who keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from graphlint.source import Span
from graphlint.values import (
    CONSTANTS,
    ELEMENT,
    WIDEST,
    Bound,
    Place,
    Test,
    Value,
    excludes_capture,
    implies_capture,
    negated,
)

MOST_READ = 12
"""Most places that a value is said to be made of."""
_DEEPEST_DISPLAY = 3


def sources(value: Value, depth: int = 0) -> Iterator[Place]:
    """Places that a value was read from: its own, or what went into it."""
    for place in value.places:
        if len(place) > 1 or not place[0].startswith(("@", "%")):
            yield place
    yield from sorted(value.reads)  # in an order of its own: what comes after the first few is dropped
    if depth < 3:
        for item in value.items or ():
            yield from sources(item, depth + 1)


def all_of(value: Value, depth: int = 0) -> tuple[Place, ...]:
    """The places of a value and of what is known to be in it: the items of a display, the attributes of an object."""
    if depth > _DEEPEST_DISPLAY:
        return ()
    inside = (place for part in _parts(value, depth) for place in all_of(part, depth + 1))
    return tuple(dict.fromkeys((*value.places, *inside)))


def holds_captured(value: Value, depth: int = 0) -> bool:
    """Whether a value is, or has in it, what a capture made."""
    if "captured" in value.tags:
        return True
    if value.each is None and not value.items and not value.fields:
        return False
    return any(holds_captured(part, depth + 1) for part in _parts(value, depth))


def graphs_in(value: Value, depth: int = 0) -> tuple[Place, ...]:
    """The places of the graphs that are known to be in a value: in a display, in a record, in the records of a list."""
    found: dict[Place, None] = {}
    for part in _parts(value, depth):
        found.update(dict.fromkeys(part.places if "graph" in part.tags else graphs_in(part, depth + 1)))
    return tuple(found)


def _parts(value: Value, depth: int) -> tuple[Value, ...]:
    if depth > _DEEPEST_DISPLAY:
        return ()
    each = (value.each,) if value.each is not None else ()
    return (*(value.items or ()), *value.fields.values(), *each)


def given_to(value: Value, lasts: Callable[[str, str], bool], depth: int = 0) -> Iterator[tuple[Place, Place]]:
    """The ways through the attributes of an object made here to what it was made with, and the places of that.

    Args:
        value: the object.
        lasts: whether an attribute of a class stays what the constructor made it.
        depth: how many objects are around it.
    """
    if value.each is not None and depth < _DEEPEST_DISPLAY:
        for way, place in given_to(value.each, lasts, depth + 1):
            yield (ELEMENT, *way), place
    if "part" not in value.tags and (value.each is not None or value.items):
        items = (*(value.items or ()), *((value.each,) if value.each is not None else ()))
        yield from (((ELEMENT,), place) for item in items for place in item.places)
    kind = value.types[0].name if len(value.types) == 1 else ""
    for name, each in value.fields.items() if kind and depth < _DEEPEST_DISPLAY else ():
        if not lasts(kind, name):
            continue
        if len(each.places) == 1 and ELEMENT not in each.places[0] and "part" not in each.tags:
            yield (name,), each.places[0]
        for way, place in given_to(each, lasts, depth + 1):
            yield (name, *way), place


def passed(value: Value) -> tuple[Place, ...]:
    """Places that stand for an argument; a constant is one of its own."""
    for tag in ("none", "true", "false"):
        if tag in value.tags:
            return ((f"!{tag}",),)
    if value.test is not None and not value.places:
        if implies_capture(value.test):
            return (("!capturing",),)
        if excludes_capture(value.test):
            return (("!eager",),)
    if value.symbol is not None and value.symbol.kind == "class":
        return ((f"class:{value.symbol.name}",),)
    return value.places


def rebased(value: Value, bindings: Mapping[str, Value], span: Span, depth: int) -> Value:
    """A callee's value in the caller's terms."""
    if depth > 4:
        return Value(types=value.types, tags=value.tags)
    places: list[Place] = []
    inherited: Value | None = None
    for place in value.places:
        root = place[0]
        if root.startswith("$"):
            argument = bindings.get(root[1:])
            if argument is None:
                continue
            if len(place) == 1:
                inherited = argument
            places += [(*base, *place[1:]) for base in argument.places]
        elif root.startswith(("@", "%")):
            places.append((f"@{span.start}", *place[1:]))
        else:
            places.append(place)
    test = _rebased_test(value.test, bindings) if value.test is not None else None
    if inherited is not None and len(value.places) == 1:
        return inherited._replace(test=inherited.test or test)
    reads = _rebased_reads(value.reads, bindings)
    fields = {name: rebased(each, bindings, span, depth + 1) for name, each in value.fields.items()}
    items = tuple(rebased(each, bindings, span, depth + 1) for each in value.items) if value.items is not None else None
    each = rebased_element(value.each, bindings, span, depth + 1) if value.each is not None else None
    calls = value.calls and tuple(_rebased_bound(bound, bindings, span, depth + 1) for bound in value.calls)
    context: tuple[Value, Value] | None = None
    if value.context is not None:
        graph, pool = value.context
        context = (rebased(graph, bindings, span, depth + 1), rebased(pool, bindings, span, depth + 1))
    unique = tuple(dict.fromkeys(places))[:WIDEST]
    return value._replace(
        places=unique, fields=fields, items=items, test=test, each=each, reads=reads, context=context, calls=calls
    )


def _rebased_bound(bound: Bound, bindings: Mapping[str, Value], span: Span, depth: int) -> Bound:
    """A function that a callee gives, in the caller's terms."""
    if bound.receiver is None and not (bound.args or bound.keywords or bound.around):
        return bound
    return bound._replace(
        receiver=rebased(bound.receiver, bindings, span, depth) if bound.receiver is not None else None,
        args=tuple(rebased(each, bindings, span, depth) for each in bound.args),
        keywords=tuple((name, rebased(each, bindings, span, depth)) for name, each in bound.keywords),
        around=tuple((name, rebased(each, bindings, span, depth)) for name, each in bound.around),
    )


def rebased_element(value: Value, bindings: Mapping[str, Value], span: Span, depth: int = 0) -> Value:
    """Any item of what a callee gives, in the caller's terms: one that it made is an element of the call's result."""
    made = tuple(
        (*place, ELEMENT) if place[0].startswith(("@", "%")) and len(place) == 1 else place for place in value.places
    )
    return rebased(value._replace(places=made), bindings, span, depth)


def _rebased_reads(reads: Iterable[Place], bindings: Mapping[str, Value]) -> frozenset[Place]:
    """What a callee read, in the caller's terms."""
    found: dict[Place, None] = {}
    for place in sorted(reads):
        if not place[0].startswith("$"):
            found[place] = None
            continue
        argument = bindings.get(place[0][1:])
        for base in argument.places if argument is not None else ():
            if not base[0].startswith(("@", "%")) or len(place) > 1:
                joined: Place = (*base, *place[1:])
                found[joined] = None
        if argument is not None and len(place) == 1:
            found.update(dict.fromkeys(sources(argument)))
    return frozenset(tuple(found)[:MOST_READ])


def _rebased_test(test: Test, bindings: Mapping[str, Value]) -> Test | None:
    """A callee's test in the caller's terms; None if it does not survive."""
    match test:
        case ("atom", "capturing" | "device", _) | ("const", _):
            return test
        case ("compare", op, read, identity):
            return ("compare", op, tuple(_rebased_reads(read, bindings)), identity)
        case ("atom", kind, place):
            root = place[0]
            if root.startswith("$"):
                argument = bindings.get(root[1:])
                if argument is not None and len(argument.places) == 1:
                    return ("atom", kind, (*argument.places[0], *place[1:]))
                return None
            return None if root.startswith(("@", "%")) else test
        case ("not", inner):
            inner = _rebased_test(inner, bindings)
            return negated(inner) if inner is not None else None
        case ("and" | "or" as op, *inner):
            parts = [_rebased_test(each, bindings) for each in inner]
            return (op, *parts) if all(part is not None for part in parts) else None
    return None


def kept_bound(bound: Bound, me: str) -> Bound:
    """A function that is kept for later: of what is bound to it, only shared places and the instance's mean something."""

    def lasting(value: Value) -> Value:
        places = []
        for place in value.places:
            if place[0].startswith(("class:", "mod:")):
                places.append(place)
            elif me and place[0] == f"${me}":
                places.append(("$self", *place[1:]))
        return Value(tuple(places), value.types, value.symbol, tags=value.tags & CONSTANTS, exact=value.exact)

    receiver = lasting(bound.receiver) if bound.receiver is not None else None
    args = tuple(map(lasting, bound.args))
    return bound._replace(
        receiver=receiver,
        args=args,
        keywords=tuple((name, lasting(value)) for name, value in bound.keywords),
        around=(),
        inside="",
    )


def bound_over(bound: Bound, instance: Value) -> Bound:
    """A function that an instance keeps, with the instance put in."""

    def over(value: Value) -> Value:
        places = []
        for place in value.places:
            places += [(*base, *place[1:]) for base in instance.places] if place[0] == "$self" else [place]
        return value._replace(places=tuple(places)[:WIDEST])

    receiver = over(bound.receiver) if bound.receiver is not None else None
    args = tuple(map(over, bound.args))
    return bound._replace(
        receiver=receiver, args=args, keywords=tuple((name, over(value)) for name, value in bound.keywords)
    )
