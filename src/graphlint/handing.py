"""Functions that are handed to one which calls them: `self._on_device(self.graphs.retire)`, `retry(lambda: graph.reset())`.

What such a function does depends on what it is handed, so it is evaluated for each by itself. It knows there which functions these
are. What is bound to them in the caller (their objects, the arguments that `partial` gave, the variables that a lambda sees) has
names of its own there, `action.0.self`, and the call gives them as it gives arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from graphlint import flow
from graphlint.project import FunctionEntry
from graphlint.values import CONSTANTS, NOTHING_KNOWN, Bound, Symbol, Type, Value

INSIDE = "(inside)"
"""Stands among the types of parameters for what the function around one was handed."""
_MARK = ">"
_DEEPEST = 3
_LONGEST = 8
"""Most objects in a display that is handed over together with a function, to be told apart."""
_FUNCTION = frozenset(("object",))
_TAGS = CONSTANTS | {"stream", "graph", "pool"}

Around: TypeAlias = Callable[[Bound], Sequence[tuple[str, Value]]]
"""What tells the variables of the functions around one, by name."""


class Handed(NamedTuple):
    """What a parameter is in the function that it is handed to."""

    value: Value
    names: tuple[str, ...]
    """Names there of what is bound to the functions in it."""


class Handing:
    """Which functions are handed to which parameters."""

    def __init__(self) -> None:
        self._calling: dict[str, frozenset[str]] = {}
        self._known: dict[str, Handed] = {}

    def params(self, function: FunctionEntry) -> frozenset[str]:
        """The parameters of a function that it calls, or goes through, or hands on."""
        known = self._calling.get(function.name)
        if known is None:
            known = self._calling[function.name] = frozenset(_calling(function))
        return known

    def given(
        self, function: FunctionEntry, bindings: dict[str, Value], around: Around, acts: Callable[[Bound], bool]
    ) -> dict[str, tuple[Type, ...]]:
        """Types that tell which functions the parameters of one are; what is bound to them comes to the bindings.

        Args:
            function: it.
            bindings: what its parameters are given.
            around: what tells the variables around a function.
            acts: whether a function that is handed over does anything.
        """
        result: dict[str, tuple[Type, ...]] = {}
        me = function.facts.params[0].name if function.owner is not None and function.facts.params else ""
        handing = [
            name
            for name, value in bindings.items()
            if (value.calls or value.items or value.each is not None or value.fields)
            and hands(value)
            and (name != me or _is_job(function, value))
        ]
        if not handing:
            return result
        calling = self.params(function)
        taken = [name for name in handing if name in calling]
        if not any(acts(bound) for name in taken for bound in handed_in(bindings[name])):
            return result
        rest = [
            p.name
            for p in function.facts.params
            if p.name in calling and (p.kind in ("args", "kwargs") or _is_display(bindings.get(p.name)))
        ]
        for name in dict.fromkeys((*taken, *(rest if taken else ()))):
            if name in bindings:
                bound: dict[str, Value] = {}
                value = _over(bindings[name], name, bound, around, 0)
                text = f"{_MARK}{_text(value)}"
                self._known[f"{name}{text}"] = Handed(value, tuple(bound))
                result[name] = (Type(text),)
                bindings.update(bound)
        return result

    def seen(self, name: str, types: tuple[Type, ...]) -> Handed | None:
        """What a parameter is, by the types that it was given; None for other types."""
        return self._known.get(f"{name}{types[0].name}") if len(types) == 1 else None


def is_handed(types: Mapping[str, tuple[Type, ...]]) -> bool:
    """Whether types of parameters say which functions these are."""
    return any(name == INSIDE or (ts and ts[0].name.startswith(_MARK)) for name, ts in types.items())


def is_of_handed(key: str) -> bool:
    """Whether a key is that of a function for what it is handed."""
    return f":{_MARK}" in key.partition("|")[2]


def inside(types: Mapping[str, tuple[Type, ...]]) -> str:
    """What a function was handed, as a text by which those in it are told apart."""
    return ",".join(
        ts[0].name for name, ts in sorted(types.items()) if name == INSIDE or (ts and ts[0].name.startswith(_MARK))
    )


def nested(function: str, around: str) -> str:
    """A function in another one, told apart by what that was handed."""
    return f"{function}|{around}" if around else function


def hands(value: Value, depth: int = 0) -> bool:
    """Whether a value is a function, or a display or an object made here that has some in it; what a table keeps, all know."""
    if value.calls and not value.types:
        return True
    if depth == _DEEPEST or (value.items is None and value.each is None and not value.fields):
        return False
    parts = (*(value.items or ()), *value.fields.values(), *((value.each,) if value.each is not None else ()))
    return any(hands(part, depth + 1) for part in parts)


def _is_display(value: Value | None) -> bool:
    """Whether a value is a list or a tuple of a few objects, that was written out for the call."""
    return value is not None and value.slot is None and 0 < len(value.items or ()) <= _LONGEST


def _is_job(function: FunctionEntry, receiver: Value) -> bool:
    """Whether the object of a method was made here, with functions."""
    return bool(receiver.fields) and function.facts.name not in ("__init__", "__post_init__")


def handed_in(value: Value, depth: int = 0) -> Iterator[Bound]:
    """The functions that a value is, or has in it, and those that are bound to these."""
    yield from value.calls
    if depth == _DEEPEST:
        return
    for bound in value.calls:
        for each in (*bound.args, *(given for _, given in bound.keywords)):
            yield from handed_in(each, depth + 1)
    parts = (*(value.items or ()), *value.fields.values(), *((value.each,) if value.each is not None else ()))
    for part in parts:
        yield from handed_in(part, depth + 1)


def _calling(function: FunctionEntry) -> Iterator[str]:
    own = {param.name for param in function.facts.params}
    for call in function.calls:
        yield from own & flow.variables(call)
    for statement in flow.statements(function.lowered.flow):
        if isinstance(statement, flow.Star) and statement.iterable is not None:
            yield from own & flow.variables(statement.iterable)
    for nested in function.lowered.nested:
        yield from own & nested.words


def _over(value: Value, name: str, bound: dict[str, Value], around: Around, depth: int) -> Value:
    """A value with functions in it, as the function sees it that it is handed to."""
    calls = tuple(_bound_over(each, f"{name}.{at}", bound, around, depth + 1) for at, each in enumerate(value.calls))
    if depth:
        bound[name] = value
    if not value.types and value.items is None and value.each is None:
        symbol = Symbol("function", calls[0].function) if len(calls) == 1 else None
        return Value(((f"${name}",),) if value.places else (), symbol=symbol, calls=calls, tags=_FUNCTION)

    is_dict = value.types == (Type("dict"),)

    def part(key: str, each: Value) -> Value:
        return _argument(each, f"{name}.{key}", bound, around, depth + 1)

    return Value(
        ((f"${name}",),) if value.places else (),
        value.types,
        calls=calls,
        tags=value.tags & _TAGS,
        items=tuple(part(str(at), each) for at, each in enumerate(value.items)) if value.items is not None else None,
        each=part("each", value.each) if value.each is not None else None,
        fields={key: part(key, each) for key, each in value.fields.items() if is_dict or hands(each)},
        exact=value.exact,
    )


def _bound_over(each: Bound, name: str, bound: dict[str, Value], around: Around, depth: int) -> Bound:
    def over(key: str, value: Value) -> Value:
        return _argument(value, f"{name}.{key}", bound, around, depth)

    return each._replace(
        receiver=over("self", each.receiver) if each.receiver is not None else None,
        args=tuple(over(str(at), value) for at, value in enumerate(each.args)),
        keywords=tuple((key, over(key, value)) for key, value in each.keywords),
        around=tuple((key, over(f"<{key}>", value)) for key, value in around(each)),
    )


def _argument(value: Value, name: str, bound: dict[str, Value], around: Around, depth: int) -> Value:
    """What goes with a function that is handed on: its object, an argument, an item beside it."""
    if depth < _DEEPEST and hands(value):
        return _over(value, name, bound, around, depth)
    if value == NOTHING_KNOWN:
        return value
    bound[name] = value
    return Value(
        ((f"${name}",),) if value.places else (),
        value.types,
        value.symbol,
        tags=value.tags & _TAGS,
        literal=value.literal,
        exact=value.exact,
    )


def _text(value: Value) -> str:
    """A value of a parameter as a part of a key."""
    said = [
        "/".join(map(_type_text, value.types)),
        value.symbol.name if value.symbol is not None and not value.calls else "",
        "/".join(f"{each.function}({_bound_text(each)})" for each in value.calls),
        f"[{';'.join(map(_text, value.items))}]" if value.items is not None else "",
        f"*{_text(value.each)}" if value.each is not None else "",
        ";".join(f"{name}={_text(each)}" for name, each in sorted(value.fields.items())),
        repr(value.literal) if value.literal is not None else "",
        "+".join(sorted(value.tags)),
        "" if value.places else "-",
        "!" if value.exact else "",
    ]
    return ":".join(filter(None, said))


def _bound_text(each: Bound) -> str:
    given = [each.receiver or NOTHING_KNOWN, *each.args]
    named = [f"{name}={_text(value)}" for name, value in (*each.keywords, *each.around)]
    return ";".join((*map(_text, given), *named, each.inside))


def _type_text(t: Type) -> str:
    return f"{t.name}({','.join(map(_type_text, t.items))})" if t.items else t.name
