"""What the analysis knows of a value: where it lives, what type it has, what it is good for.

A *place* is an access path: a root and what is read from it. Roots are

    $name          a parameter of the function at hand
    @123           what the expression at byte 123 of the function's file made
    class:a.b.C    a class; its attributes are shared by all instances
    mod:a.b        a module; its variables are shared by the whole process
    cell:a.b.f     the variables of a function that the functions in it keep

and an element of a container, whichever, is the segment `[*]`: `self.graphs[key]` is `("$self", "graphs", "[*]")`.
Places of a callee are written over the callee's own parameters; at a call they are rebased onto the arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from graphlint.source import Span

Place: TypeAlias = tuple[str, ...]

ELEMENT = "[*]"

WIDEST = 4
"""Most alternatives that a value keeps apart; what comes after is dropped."""


class Type(NamedTuple):
    """A class by dotted name, or a builtin container with the types of its items (for a dict: of its values)."""

    name: str
    items: tuple[Type, ...] = ()


UNKNOWN = Type("")
"""Stands for an item of a tuple of which nothing is known, so that the others keep their places."""

CONTAINERS = frozenset(
    (
        "dict",
        "list",
        "set",
        "frozenset",
        "tuple",
        "deque",
        "OrderedDict",
        "defaultdict",
        "WeakSet",
        "WeakKeyDictionary",
        "WeakValueDictionary",
        "Counter",
        "iterator",
    )
)


GRAPH = "torch.cuda.CUDAGraph"
TENSOR = "torch.Tensor"
MEMPOOL = "torch.cuda.MemPool"
STREAM = "torch.cuda.Stream"
MODULE_CLASS = "torch.nn.Module"

MEMO = "<cache>"
"""Name of the variable in which a function that is decorated with `lru_cache` keeps what it returns."""


class Symbol(NamedTuple):
    """A name that is not a variable: kind is module, class, function or external, and its dotted name."""

    kind: str
    name: str


# What a test says, as nested tuples: ("atom", kind, place), ("not", test), ("and" | "or", tests...), ("unknown", id),
# ("compare", operator, places, id): it compares what is read from these places.
# Atoms: "none" (the place is None), "true" (it is truthy), "capturing" (the current stream is being captured; no place),
# "device" (kernels run on a device now, which a stream that is being captured implies; no place).
Test: TypeAlias = tuple[Any, ...]

CAPTURING: Test = ("atom", "capturing", ())
DEVICE: Test = ("atom", "device", ())
TRUE: Test = ("const", True)
FALSE: Test = ("const", False)


def negated(test: Test) -> Test:
    """The opposite of a test."""
    return test[1] if test[0] == "not" else ("not", test)


def implies_capture(test: Test) -> bool:
    """Whether a test can be true only while the stream is being captured."""
    match test:
        case ("atom", "capturing", _):
            return True
        case ("and", *inner):
            return any(map(implies_capture, inner))
        case ("or", *inner):
            return all(map(implies_capture, inner))
    return False


def asks_capture(test: Test) -> bool:
    """Whether a test asks, in any of its parts, whether the stream is being captured."""
    match test:
        case ("atom", "capturing", _):
            return True
        case ("not" | "and" | "or", *inner):
            return any(map(asks_capture, inner))
    return False


def excludes_capture(test: Test) -> bool:
    """Whether a test can be true only while the stream is not being captured."""
    match test:
        case ("not", ("atom", "capturing", _)):
            return True
        case ("not", ("or", *inner)):
            return any(each == CAPTURING or excludes_capture(negated(each)) for each in inner)
        case ("not", ("and", *inner)):  # `x.is_cuda and capturing`: what a capture works on lies on the device
            return [each for each in inner if each[:2] != ("atom", "device")] == [CAPTURING]
        case ("and", *inner):
            return any(map(excludes_capture, inner))
        case ("or", *inner):
            return all(map(excludes_capture, inner))
    return False


def is_of_elements(test: Test) -> bool:
    """Whether a test may be no yes or no, but that of each element: tensors are compared to give another one."""
    return test[0] == "compare" and test[1] in ("<", ">", "<=", ">=")


class Origin(NamedTuple):
    """Where device memory was allocated: the function, and the span of the call in its file."""

    function: str
    span: Span
    by_name: bool = False
    """Only the name of what was called says so."""
    within: Origin | None = None
    """The allocation itself, where the call is one of a function that makes it for its caller."""


class Bound(NamedTuple):
    """A function with its receiver, and the arguments that `partial` already gave."""

    function: str
    receiver: Value | None
    args: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()
    outside: bool = False
    """A decorator has it run outside of the capture."""
    around: tuple[tuple[str, Value], ...] = ()
    """Of a function in another one, that was handed on: the variables of those around it, by name."""
    inside: str = ""
    """What the function around it was handed, where that was functions."""
    at: int | None = None
    """Where it stands in the tuples that are what is meant."""


def at_position(calls: Sequence[Bound], index: int) -> tuple[Bound, ...]:
    """Functions at one place of the tuples that hold them."""
    return tuple(bound._replace(at=None) for bound in calls if bound.at == index)


_NO_FIELDS: Mapping[str, Value] = MappingProxyType({})


class Value(NamedTuple):
    """What an expression gives. Empty means that nothing is known."""

    places: tuple[Place, ...] = ()
    types: tuple[Type, ...] = ()
    symbol: Symbol | None = None
    calls: tuple[Bound, ...] = ()
    """Functions of the project that a call of it may run."""
    tags: frozenset[str] = frozenset()
    """tensor (fresh device memory), captured (made inside a capture), graph, pool, mempool, none, empty, true, false,
    stream (it is, or is made of, the identity of a stream), copy (another container, with the items of this one), namespace
    (an object's attributes by name), doubled (a container that has one object under several keys), coarse (a key that is the
    same for several questions, or what is found under one), met (an item that a loop or a search has come by), optional
    (a handler made it None), and part (some of the items of a container: a slice, what a comprehension chose)."""
    slot: tuple[str, str] | None = None
    """Owner (class or module) and attribute that it was read from."""
    test: Test | None = None
    """What its truth says."""
    items: tuple[Value, ...] | None = None
    """Items of a display of known length."""
    fields: Mapping[str, Value] = _NO_FIELDS
    """Attributes of an object made here that are known to be other values."""
    exact: bool = False
    """Its types are not only declared: it was made with this class."""
    each: Value | None = None
    """Any item of it, where that is not an element of its places (`zip`, `enumerate`, `dict.items`)."""
    context: tuple[Value, Value] | None = None
    """Of the context manager of a capture: the graph, and the pool."""
    literal: str | None = None
    """Its text, where it is a string literal."""
    reads: frozenset[Place] = frozenset()
    """Places that went into it."""
    fresh: tuple[Origin, ...] = ()
    """Allocations of device memory that it is, or holds."""

    def __hash__(self) -> int:
        return hash((self.places, self.types, self.symbol, self.calls, self.tags, self.slot, self.test, self.items))

    @property
    def element(self) -> Value:
        """Any item of it."""
        if self.each is not None:
            return self.each
        if self.items is not None:
            return union(self.items)
        types = tuple(item for t in self.types if t.name in CONTAINERS for item in t.items if item != UNKNOWN)
        places = tuple((*place, ELEMENT) for place in self.places)
        tags = self.tags & {"captured", "pool"}
        return Value(places, types, slot=self.slot, tags=tags, calls=self.calls)


NOTHING_KNOWN = Value()
_MET = frozenset(("met",))
_SEARCHED = frozenset(("met", "coarse"))


def met(value: Value) -> Value:
    """An item as a loop comes by it."""
    return value._replace(tags=value.tags | _MET) if value.places else value


def searched(value: Value) -> Value:
    """An item as a search gives it: the same one may be given to several who ask."""
    return value._replace(tags=value.tags | _SEARCHED) if value.places else value


def union(values: tuple[Value, ...] | list[Value]) -> Value:
    """A value that is one of several."""
    if len(values) == 1:
        return values[0]
    distinct = [value for i, value in enumerate(values) if value not in values[:i]]
    if len(distinct) == 1:
        return distinct[0]
    if not distinct:
        return NOTHING_KNOWN
    places = tuple(dict.fromkeys(place for value in distinct for place in value.places))[:WIDEST]
    classes = dict.fromkeys(v.symbol.name for v in distinct if v.symbol is not None and v.symbol.kind == "class")
    named_types = [Type("type", (Type(name),)) for name in classes] if len(classes) > 1 else []
    types = tuple(dict.fromkeys([*(t for value in distinct for t in value.types), *named_types]))[:WIDEST]
    calls = tuple(dict.fromkeys(call for value in distinct for call in value.calls))[:WIDEST]
    tags = frozenset(tag for value in distinct for tag in value.tags if tag not in ("none", "empty", "true", "false"))
    slots = {value.slot for value in distinct if value.slot is not None}
    exact = all(value.exact for value in distinct if value.types)
    reads = frozenset(place for value in distinct for place in value.reads)
    fresh = tuple(dict.fromkeys(origin for value in distinct for origin in value.fresh))[:WIDEST]
    objects = [value for value in distinct if not value.tags & {"none", "true", "false"}]
    named = set.intersection(*(set(value.fields) for value in objects)) if objects else set()
    attributes = {name: union([value.fields[name] for value in objects]) for name in sorted(named)}
    known = [value for value in distinct if value.symbol or value.types or value.calls or value.tags]
    symbols = {value.symbol for value in known}  # a value of which nothing is known may be the same thing
    return Value(
        places,
        types,
        symbol=symbols.pop() if len(symbols) == 1 else None,
        calls=calls,
        tags=tags,
        slot=slots.pop() if len(slots) == 1 else None,
        fields=attributes,
        exact=exact,
        items=_merged(objects),
        each=any_of([value.each for value in objects if "empty" not in value.tags]),
        reads=reads,
        fresh=fresh,
    )


def _merged(values: Sequence[Value]) -> tuple[Value, ...] | None:
    """Items of one of several tuples of one length."""
    items = [value.items for value in values]
    if not items or any(each is None or len(each) != len(items[0] or ()) for each in items):
        return None
    if not all(any(t.name == "tuple" for t in value.types) for value in values):
        return None
    return tuple(union(column) for column in zip(*(each or () for each in items), strict=True))


def any_of(items: Sequence[Value | None]) -> Value | None:
    """Any item of one of several containers, of which items are known; None where that is only an element of their places."""
    known = [value for value in items if value is not None and value != NOTHING_KNOWN]
    if len(known) < len(items) and any(value is None for value in items):
        return None
    distinct = [value for i, value in enumerate(known) if value not in known[:i]]
    found = union(distinct) if distinct else None
    if found is not None and found.items is None and any(value.items is not None for value in distinct):
        return None
    return found


CONSTANTS = frozenset(("none", "true", "false"))
"""Tags of values that are one constant."""


def literal_value(value: object) -> Value:
    """The value of a literal."""
    match value:
        case None:
            return Value(tags=frozenset(("none",)))
        case True | False:
            return Value(tags=frozenset((str(value).lower(),)), types=(Type("bool"),))
        case str():
            return Value(types=(Type("str"),), literal=value)
        case int() | float():
            return Value(types=(Type(type(value).__name__),))
    return NOTHING_KNOWN


def flat(types: Sequence[Type]) -> Iterator[Type]:
    """Types, each with those of its items."""
    for t in types:
        if t != UNKNOWN:
            yield t
            yield from flat(t.items)


def is_vague(types: Sequence[Type]) -> bool:
    """Whether types leave open what is in a container."""
    return any(t.name in CONTAINERS and (not t.items or is_vague(t.items)) for t in types)


def store_place(dotted: str) -> Place:
    """Place of a class attribute or module variable by its dotted name."""
    head, _, last = dotted.rpartition(".")
    kind = "class" if head.rpartition(".")[2][:1].isupper() else "mod"
    return (f"{kind}:{head}", last)
