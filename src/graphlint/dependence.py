"""What a value depends on: which parameters and attributes decide about a size, a key, a flag.

A behavior says what happens to places; this says what goes into values. A value's *sources* are places over the
function's own parameters, so what a callee gives reads on in the caller's terms (`Rebase`):

    def key(self, x): return (x.shape[0], self.width)         sources  $x.shape.[0]  $self.width
    table.get(owner.key(batch))                               sources  $batch.shape.[0]  $owner.width

Constants are no sources: literals, module variables, attributes that every instance sets to one literal. What a call
that leads out of the project gives is made from its arguments. `Lossy` marks what a computation throws away: a key that
holds `rows // 64` does not hold `rows`. In a nested function a place of the parent begins with `^`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from graphlint import flow
from graphlint.behavior import Slot
from graphlint.flow import Expr
from graphlint.project import FunctionEntry
from graphlint.source import Span
from graphlint.values import Place

SIZES = frozenset(
    ("shape", "size", "numel", "nelement", "nbytes", "ndim", "dim", "stride", "storage", "untyped_storage")
)
DTYPES = frozenset(("dtype", "element_size", "itemsize", "type", "scalar_type"))
DEVICES = frozenset(("device", "get_device", "is_cuda"))
"""Attributes and methods by which a tensor says its size, dtype and device; one word stands for each of the three."""


class Lossy(NamedTuple):
    """A value that keeps only part of what it is made from: a quotient, a comparison. Two of equal text are equal."""

    text: str
    of: frozenset[Any]
    """Its sources."""
    slots: frozenset[Slot] = frozenset()
    """Stores whose content it tells something of."""


Ingredient: TypeAlias = Place | Lossy

CURRENT: Ingredient = ("@device",)
"""Stands for the current device, where memory is allocated without saying where."""

UNKNOWN: Ingredient = ("?",)
"""Stands for what a computation that nobody can look into may read besides its arguments."""

NO_SOURCES: frozenset[Ingredient] = frozenset()

_MOST = 64
"""Sources of one value that are told apart: of more, nobody could say what a key lacks."""


def lossy(text: str, of: frozenset[Ingredient], slots: frozenset[Slot] = frozenset()) -> frozenset[Ingredient]:
    """The source of what a computation makes of others, which keeps only part of them.

    Two computations in each other are told apart; what lies deeper counts as if they read it themselves. Arithmetic
    that goes on for a hundred lines would be a tree of a hundred levels otherwise.
    """
    if not of:
        return NO_SOURCES
    shallow: set[Ingredient] = set()
    for source in of:
        if isinstance(source, Lossy) and any(isinstance(each, Lossy) for each in source.of):
            source = source._replace(of=frozenset(leaves(source.of)))
        shallow.add(source)
    return frozenset((Lossy(text, bounded(shallow), slots),))


def bounded(sources: Iterable[Ingredient]) -> frozenset[Ingredient]:
    """The sources, or `UNKNOWN` where there are too many."""
    result = frozenset(sources)
    return result if len(result) <= _MOST else frozenset((UNKNOWN,))


def leaves(sources: Iterable[Ingredient]) -> Iterator[Place]:
    """The places that sources are made from."""
    for source in sources:
        if isinstance(source, Lossy):
            yield from leaves(source.of)
        else:
            yield source


class Memory(NamedTuple):
    """Device memory that an expression allocates, and what decides how it turns out.

    Where a function that was handed in makes it, that parameter decides about all of it.
    """

    function: str
    span: Span
    size: frozenset[Ingredient]
    dtype: frozenset[Ingredient]
    device: frozenset[Ingredient]


class Held(NamedTuple):
    """A store, or what came out of it under a key."""

    slot: Slot
    kind: str
    """Who shares the store: instance, class or module."""
    key: frozenset[Ingredient] = NO_SOURCES
    """Of a store in an object it holds the object's own place: what differs between objects differs between stores."""
    keyed: bool = False
    """It is what lies under the key, not the store itself."""
    derived: bool = False
    """It was computed from that."""


class Ask(NamedTuple):
    """A test that compares what a store holds with something else."""

    slot: Slot
    sources: frozenset[Ingredient]
    exact: bool = False
    """It asks for equality, not for enough."""
    identity: bool = False
    """It asks for the very same object."""


@dataclass(frozen=True)
class Dependent:
    """Where a value comes from. Empty means a constant, or that nothing is known."""

    place: Place | None = None
    """It is read from there, unchanged."""
    sources: frozenset[Ingredient] = NO_SOURCES
    held: frozenset[Held] = frozenset()
    memory: frozenset[Memory] = frozenset()
    names: frozenset[str] = frozenset()
    """Dotted names of the functions, classes or modules that it may be."""
    calls: tuple[str, ...] = ()
    """Functions of the project that calling it runs."""
    receiver: Dependent | None = None
    """The object of a method in `calls`."""
    asks: frozenset[Ask] = frozenset()
    """What it compares, where it is a test."""
    chosen: frozenset[Ask] = frozenset()
    """What was compared before this value was taken: `best` after a search for a block that is large enough."""
    capturing: bool = False
    """It is true while the stream is being captured, as asked here."""
    eager: bool = False
    """It is false while the stream is being captured, as asked here."""
    is_display: bool = False
    """It is a new table or list, whatever is in it."""
    literal: Any = ...
    """Its value, where it is a literal; `...` where it is none."""
    items: tuple[Dependent, ...] | None = None
    """Items of a tuple or list display."""
    is_function: bool = False
    """Its `memory` is allocated where it is called."""
    made: str | None = None
    """Dotted name of a class outside of the project that it is an instance of."""
    fields: tuple[tuple[str, Dependent], ...] = ()
    """Attributes of a record made here."""


NOTHING = Dependent()


def union(dependences: Sequence[Dependent]) -> Dependent:
    """What is one of several."""
    if len(dependences) == 1:
        return dependences[0]
    if not dependences:
        return NOTHING
    first = dependences[0]
    if all(each == first for each in dependences[1:]):
        return first
    literals = [each.literal for each in dependences]
    return Dependent(
        None,
        bounded(frozenset().union(*(each.sources for each in dependences))),
        frozenset().union(*(each.held for each in dependences)),
        frozenset().union(*(each.memory for each in dependences)),
        frozenset().union(*(each.names for each in dependences)),
        tuple(dict.fromkeys(call for each in dependences for call in each.calls))[:4],
        next((each.receiver for each in dependences if each.receiver is not None), None),
        frozenset().union(*(each.asks for each in dependences)),
        frozenset().union(*(each.chosen for each in dependences)),
        any(each.capturing for each in dependences),
        any(each.eager for each in dependences),
        all(each.is_display for each in dependences),
        literals[0] if all(type(each) is type(literals[0]) and each == literals[0] for each in literals) else ...,
        is_function=any(each.is_function for each in dependences),
    )


class Look(NamedTuple):
    """A value is taken out of a store."""

    held: Held
    span: Span
    function: str
    key: Expr | None = None
    """The last key as it is written."""
    eager: bool = False
    """It happens only where no stream is being captured."""


class Put(NamedTuple):
    """A value is put into a store."""

    held: Held
    how: str
    """set: in the place of what was there; add: beside it."""
    memory: frozenset[Memory]
    value: Dependent
    asks: frozenset[Ask]
    """Comparisons with the store's content that it depends on."""
    span: Span
    function: str
    flags: frozenset[Ingredient] = NO_SOURCES
    """What is stored along that is no memory: the fields of a record."""
    key: Expr | None = None
    """The last key as it is written."""
    compared: frozenset[Ingredient] = NO_SOURCES
    """What is compared with the content of other stores before it happens."""
    is_field: bool = False
    """It goes into a record that lies in the store, under a constant."""


class Called(NamedTuple):
    """A call, with what goes into it."""

    expr: flow.Call
    functions: tuple[str, ...]
    """Functions of the project that it runs."""
    names: frozenset[str]
    """Dotted names of what it calls outside of the project."""
    receiver: Dependent
    args: tuple[Dependent, ...]
    keywords: Mapping[str, Dependent]
    devices: frozenset[Ingredient]
    """The device that is current there, as far as a with-block sets it."""
    captured: bool
    """It stands in the block of a capture."""
    eager: bool = False
    """It happens only where no stream is being captured."""

    def argument(self, params: Sequence[str], name: str) -> Dependent | None:
        """What is given for a parameter, of positional ones `params`."""
        if name in self.keywords:
            return self.keywords[name]
        if name in params:
            index = params.index(name)
            if index < len(self.args):
                return self.args[index]
        return None


class Kept(NamedTuple):
    """A capture test's answer that outlives the moment: it goes into an attribute, a variable, a call, a default."""

    how: str
    """attribute, argument, branch, default, made (it goes into a display that a variable holds), captured (read before a
    capture's block, used in it) or closure (a variable of the function around this one)."""
    span: Span
    """Where the answer is asked for."""
    slot: Slot | None = None
    call: Called | None = None
    argument: Expr | None = None
    """What is given to the call."""


@dataclass
class Reading:
    """One function's dependences."""

    function: str
    returns: Dependent = NOTHING
    looks: list[Look] = field(default_factory=list)
    puts: list[Put] = field(default_factory=list)
    removes: set[Slot] = field(default_factory=set)
    """Stores from which something is taken out and dropped."""
    checked: dict[Slot, set[Ingredient]] = field(default_factory=dict)
    """What a value out of a store is compared with before it is used, and refused where it differs."""
    accepted: dict[Slot, set[Ask]] = field(default_factory=dict)
    """What a value out of a store is compared with before it is handed out; else another one takes its place."""
    retired: set[Slot] = field(default_factory=set)
    """Stores whose former content is kept elsewhere."""
    pinned: set[Place] = field(default_factory=set)
    """What has to equal a constant, or it raises."""
    calls: list[Called] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    tested: set[Place] = field(default_factory=set)
    """Parameters and attributes that a test asks for their truth."""


def _is_constant(expr: flow.Expr | None) -> bool:
    """Whether an expression is made of literals alone: `1 << 24`."""
    if isinstance(expr, flow.Op):
        return all(map(_is_constant, expr.operands))
    return isinstance(expr, flow.Lit)


def bindings(function: FunctionEntry, receiver: Dependent, called: Called) -> dict[str, Dependent]:
    """Parameter -> argument."""
    params = function.facts.params
    positional = [p.name for p in params if p.kind == "positional"]
    given = list(called.args)
    if function.kind in ("method", "property"):
        given.insert(0, receiver)
    elif function.kind == "classmethod":
        given.insert(0, NOTHING)
    result = dict(zip(positional, given, strict=False))
    accepted = {p.name for p in params}
    result.update((k, v) for k, v in called.keywords.items() if k in accepted)
    spare = [v for k, v in called.keywords.items() if k not in accepted] + given[len(positional) :]
    for param in params:
        if param.kind in ("args", "kwargs"):
            result[param.name] = union(spare) if spare else NOTHING
        elif param.name not in result:
            result[param.name] = (
                Dependent(literal=param.default.value if isinstance(param.default, flow.Lit) else param.default)
                if _is_constant(param.default)
                else NOTHING
            )
    return result


class Rebase:
    """A callee's dependences in the caller's terms."""

    def __init__(
        self, bindings: Mapping[str, Dependent], devices: frozenset[Ingredient] = NO_SOURCES, *, nested: bool
    ) -> None:
        """How the callee is called.

        Args:
            bindings: parameter -> argument.
            devices: the device that is current at the call, as far as a with-block sets it.
            nested: whether the callee is defined in the caller.
        """
        self.bindings = bindings
        self.nested = nested
        self.devices = devices
        self._known: dict[tuple[Ingredient, str], frozenset[Ingredient]] = {}

    def sources(self, sources: Iterable[Ingredient], aspect: str = "") -> frozenset[Ingredient]:
        """Sources of a value, or of its shape, dtype or device where it is memory that the caller allocates."""
        result: set[Ingredient] = set()
        for source in sources:
            result |= self.source(source, aspect)
        return bounded(result)

    def source(self, source: Ingredient, aspect: str = "") -> frozenset[Ingredient]:
        """What one source is made from; nothing where a constant is given for it."""
        known = self._known.get((source, aspect))
        if known is None:
            known = self._known[source, aspect] = self._source(source, aspect)
        return known

    def _source(self, source: Ingredient, aspect: str) -> frozenset[Ingredient]:
        if isinstance(source, Lossy):
            return lossy(source.text, self.sources(source.of), source.slots)
        root = source[0]
        if source == CURRENT and self.devices:
            return self.devices
        if root.startswith("^"):
            return frozenset(((root[1:], *source[1:]),)) if self.nested else frozenset((source,))
        if not root.startswith("$"):
            return frozenset((source,))
        bound = self.bindings.get(root[1:])
        if bound is None:
            return NO_SOURCES
        if bound.place is not None:
            place = bound.place
            for part in source[1:]:
                place = extended(place, part)
            return frozenset((place,)) if bound.sources else NO_SOURCES
        if len(source) > 1 and (field := dict(bound.fields).get(source[1])) is not None:
            return Rebase({"": field}, self.devices, nested=self.nested).source(("$", *source[2:]), aspect)
        if bound.items is not None and len(source) > 1 and source[1][:1] == "[":
            index = int(source[1][1:-1]) if source[1][1:-1].lstrip("-").isdigit() else None
            if index is not None and -len(bound.items) <= index < len(bound.items):
                return bound.items[index].sources
        what = source[1] if len(source) > 1 else aspect
        if bound.memory and what in ("shape", "dtype", "device"):
            name = {"shape": "size"}.get(what, what)
            return frozenset().union(*(getattr(memory, name) for memory in bound.memory))
        return bound.sources

    def content(self, sources: Iterable[Ingredient]) -> frozenset[Held]:
        """What came out of a store and goes into a value."""
        found: set[Held] = set()
        for source in sources:
            if isinstance(source, Lossy):
                found |= self.content(source.of)
            elif source[0].startswith("$") and source[0][1:] in self.bindings:
                bound = self.bindings[source[0][1:]]
                found |= derived(held for held in bound.held if held.keyed or bound.place is None)
        return frozenset(found)

    def held(self, held: Held) -> Held:
        """A store, its key in the caller's terms."""
        return held._replace(key=self.sources(held.key))

    def memories(self, memories: Iterable[Memory]) -> frozenset[Memory]:
        """Allocations in the caller's terms; one by a function that was handed in is that function's."""
        result: set[Memory] = set()
        for memory in memories:
            only = next(iter(memory.size), None) if memory.size == memory.dtype == memory.device else None
            if only is None or isinstance(only, Lossy) or len(only) != 1 or only[0][:1] != "$":
                result.add(self.memory(memory))
                continue
            bound = self.bindings.get(only[0][1:], NOTHING)
            if bound.place is not None:
                result.add(self.memory(memory))
            result |= bound.memory
        return frozenset(result)

    def memory(self, memory: Memory) -> Memory:
        """One allocation in the caller's terms."""
        return memory._replace(
            size=self.sources(memory.size, "shape"),
            dtype=self.sources(memory.dtype, "dtype"),
            device=self.sources(memory.device, "device"),
        )

    def ask(self, ask: Ask) -> Ask:
        """A comparison in the caller's terms."""
        return ask._replace(sources=self.sources(ask.sources))

    def put(self, put: Put) -> Put:
        """What is put into a store, in the caller's terms."""
        return put._replace(
            held=self.held(put.held),
            memory=self.memories(put.memory),
            value=NOTHING,
            asks=frozenset(map(self.ask, put.asks)),
            flags=self.sources(put.flags),
            compared=self.sources(put.compared),
        )

    def dependent(self, dependent: Dependent) -> Dependent:
        """A value in the caller's terms."""
        if dependent.place is not None and dependent.place[0].startswith("$"):
            bound = self.bindings.get(dependent.place[0][1:])
            if bound is not None and len(dependent.place) == 1:
                return bound
        place: Place | None = None
        sources = self.sources(dependent.sources)
        if dependent.place is not None and len(sources) == 1:
            only = next(iter(sources))
            place = only if not isinstance(only, Lossy) else None
        return replace(
            dependent,
            place=place,
            sources=sources,
            held=frozenset(map(self.held, dependent.held)) | self.content(dependent.sources),
            memory=self.memories(dependent.memory),
            asks=frozenset(map(self.ask, dependent.asks)),
            chosen=frozenset(map(self.ask, dependent.chosen)),
            items=tuple(map(self.dependent, dependent.items)) if dependent.items is not None else None,
            receiver=None,
        )


def _mapped(dependent: Dependent, change: Any) -> Dependent:
    def source(each: Ingredient) -> Ingredient:
        if isinstance(each, Lossy):
            return each._replace(of=frozenset(map(source, each.of)))
        return change(each)  # type: ignore[no-any-return]

    def many(each: frozenset[Ingredient]) -> frozenset[Ingredient]:
        return frozenset(map(source, each))

    return replace(
        dependent,
        place=change(dependent.place) if dependent.place is not None else None,
        sources=many(dependent.sources),
        held=frozenset(held._replace(key=many(held.key)) for held in dependent.held),
        memory=frozenset(
            m._replace(size=many(m.size), dtype=many(m.dtype), device=many(m.device)) for m in dependent.memory
        ),
        asks=frozenset(ask._replace(sources=many(ask.sources)) for ask in dependent.asks),
        chosen=frozenset(ask._replace(sources=many(ask.sources)) for ask in dependent.chosen),
        items=tuple(_mapped(each, change) for each in dependent.items) if dependent.items is not None else None,
        receiver=_mapped(dependent.receiver, change) if dependent.receiver is not None else None,
    )


def lifted(dependent: Dependent) -> Dependent:
    """What a nested function sees of its parent's variable."""
    return _mapped(dependent, lambda place: (f"^{place[0]}", *place[1:]) if place[0][:1] in "$^" else place)


def lowered(dependent: Dependent) -> Dependent:
    """The same in the parent's own terms again."""
    return _mapped(dependent, lambda place: (place[0].removeprefix("^"), *place[1:]))


def extended(place: Place, name: str) -> Place:
    """`place.name`, with one word for each of size, dtype and device."""
    word = "shape" if name in SIZES else "dtype" if name in DTYPES else "device" if name in DEVICES else name
    if place[-1] == word and word in ("shape", "dtype", "device"):
        return place
    if name in ("index", "type") and place[-1].lstrip("$^").rpartition("_")[2] in ("device", "dev"):
        return place
    return (*place, word)


def aspect(dependent: Dependent | None, name: str) -> frozenset[Ingredient]:
    """Sources of a tensor's shape, dtype or device."""
    if dependent is None:
        return NO_SOURCES
    if dependent.place is not None:
        return frozenset((extended(dependent.place, name),)) if dependent.sources else NO_SOURCES
    if dependent.memory:
        return frozenset().union(*(getattr(m, {"shape": "size"}.get(name, name)) for m in dependent.memory))
    if name == "shape":
        return dependent.sources
    places = [each for each in dependent.sources if not isinstance(each, Lossy)]
    if len(places) == len(dependent.sources) == 1:
        return frozenset((extended(places[0], name),))
    return NO_SOURCES if len(places) > 1 else dependent.sources  # whose dtype or device it has is anybody's guess


def sources_of(dependences: Iterable[Dependent]) -> frozenset[Ingredient]:
    """Sources of all of them."""
    return bounded(frozenset().union(*(each.sources for each in dependences)))


def derived(held: Iterable[Held]) -> frozenset[Held]:
    """What something has to do with stores that is computed from their content."""
    return frozenset(each._replace(derived=True) for each in held)


def element(iterable: Dependent) -> Dependent:
    """Any item of what a loop runs over."""
    if iterable.items is not None:
        return union(iterable.items)
    held = frozenset(each._replace(keyed=True) for each in iterable.held)
    if iterable.place is not None:
        place = (*iterable.place, "[*]")
        return Dependent(place, frozenset((place,)), held)
    return Dependent(sources=iterable.sources, held=held, memory=iterable.memory)


def shared_kind(held: Iterable[Held]) -> str:
    """Who shares what any of the stores holds."""
    kinds = {each.kind for each in held}
    return "module" if "module" in kinds else "class" if "class" in kinds else "instance"
