"""What a function does, as far as lifetimes are concerned: effects, writes to places, calls, and the order of these.

A behavior is a flow with everything irrelevant gone and every name replaced by the place that it stands for. It is written
over the function's own parameters; `execution` runs it for a caller by putting the caller's places in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from graphlint.effects import Effect
from graphlint.source import Span
from graphlint.values import ELEMENT, NOTHING_KNOWN, Origin, Place, Test, Value

Slot: TypeAlias = tuple[str, str]
"""Owner (class or module) and attribute."""


class Happens(NamedTuple):
    """An effect that a vocabulary, or a name, gives a call or a with-block."""

    effect: Effect
    places: tuple[Place, ...]
    slot: Slot | None
    span: Span
    label: str
    """The callee as a reader knows it."""
    scope: str = "process"
    pool: tuple[Place, ...] = ()
    pool_slot: Slot | None = None
    by_name: bool = False
    """Read from the words of an unresolved callee."""
    entry: bool = False
    """The implicit `empty_cache` of a capture's entry."""
    raw: bool = False
    """A capture that begins without that `empty_cache`."""
    types: tuple[str, ...] = ()
    key: Value | None = None


class Touches(NamedTuple):
    """A change of what a place holds.

    `how` is write (assigned), add (an item put in), drop (`del`), clear (emptied), pop (an item taken out),
    count (decremented).
    """

    how: str
    places: tuple[Place, ...]
    slot: Slot | None
    span: Span
    tags: frozenset[str] = frozenset()
    """Of the new value: none, empty, true, false, tensor, captured, graph, pool, mempool, object, capturing (it says whether the
    stream is being captured, or that it was), new (a container that the function made), copy (of a container), raised (something is
    added to what was there); strict (it must be there to be taken out), named (it is known which one), `behind` (nothing that can
    fail comes between it and what is there); and of what was there: moved (it goes elsewhere in the same statement), saved (a
    variable stands for it on, as for an element of the place), taken (a variable has the item that was taken out)."""
    value_places: tuple[Place, ...] = ()
    types: tuple[str, ...] = ()
    """Types of what the place held, by declaration."""
    fresh: tuple[Origin, ...] = ()
    """Allocations of device memory that the new value is, or holds."""
    key: Value | None = None
    """Under which an item is put into a container; of one that is emptied: it is one item after the other."""


class Calls(NamedTuple):
    """A call of a function of the project; several candidates are alternatives. Bindings are parameter -> places."""

    behaviors: tuple[str, ...]
    """Keys of `Behaviors`."""
    bindings: tuple[tuple[str, tuple[Place, ...]], ...]
    span: Span
    id: str
    """Names the result in tests of it."""
    outside: bool = False
    """They run outside of the capture, whatever captures here."""


class Order(NamedTuple):
    """One after the other."""

    items: tuple[Node, ...]


class Either(NamedTuple):
    """A branch."""

    test: Test
    then: Node
    other: Node
    span: Span


class Repeat(NamedTuple):
    """A loop. Over a place, it does not run where the place is known to be empty. `items`: the body, once per known item."""

    body: Node
    other: Node
    over: tuple[Place, ...]
    span: Span
    certain: bool = False
    """It runs at least once (`while True`)."""
    sole: bool = False
    """It runs over the place and over nothing else: where that is None, it raises."""


class Each(NamedTuple):
    """A loop over a display of known length, unrolled."""

    bodies: tuple[Node, ...]
    other: Node
    span: Span


class Handler(NamedTuple):
    """`except`."""

    everything: bool
    """It catches every exception."""
    node: Node
    types: tuple[str, ...]
    """Dotted names of the exceptions that it names; none: it catches everything."""
    span: Span


class Guarded(NamedTuple):
    """`try`. `lookups`: containers and objects that the body reads and a handler takes for empty (`except KeyError`)."""

    body: Node
    handlers: tuple[Handler, ...]
    other: Node
    final: Node
    span: Span
    lookups: tuple[Place, ...] = ()
    last: Span | None = None
    """The call that its body ends with: once that has returned, nothing fails any more."""
    sound: bool = False
    """Nothing fails in it but what says so: the `finally` is what runs behind all of it."""


class Leaves(NamedTuple):
    """An exit: return, raise, break, continue. `test` is what the truth of a returned value says."""

    kind: str
    span: Span
    test: Test | None = None
    raises: str = ""
    """Dotted name of the exception's class, where it is written out."""


class Yields(NamedTuple):
    """Where a context manager runs the block of its with statement."""

    span: Span


class Within(NamedTuple):
    """A with-block whose context manager is a generator function of the project."""

    calls: Calls
    body: Node
    span: Span


Node: TypeAlias = Happens | Touches | Calls | Order | Either | Repeat | Each | Guarded | Leaves | Yields | Within

NOTHING = Order(())
FINALIZED = "<finalized>"
"""Ends the key of a method together with the finalizer of its object, which does the same once more."""
CLEANED = "<cleaned up>"
"""Ends the key of the end of a test together with the cleanups that run behind it."""
EXITED = "<exited>"
"""Ends the key of a method together with what runs at the end of the process, which does the same once more."""
TWICE = (FINALIZED, CLEANED, EXITED)


@dataclass
class Behavior:
    """One function's behavior, for one choice of parameter types."""

    key: str
    function: str
    node: Node
    returns: Value
    yields: Value
    """What a context manager hands to `as`."""
    receiver: str | None = None
    """Parameter that is the object, of a method."""
    aliases: Mapping[tuple[str, str], tuple[Place, ...]] = field(default_factory=dict)
    """(root, attribute) of an object made here -> the places that this attribute is."""
    unresolved: tuple[tuple[str, Span], ...] = ()
    calls_in_capture: frozenset[str] = frozenset()
    """Keys of behaviors that run inside a capture here."""
    reads: frozenset[Slot] = frozenset()
    """Attributes and variables of the project that it reads."""
    params_in_capture: frozenset[str] = frozenset()
    """Parameters that it reads inside a capture here."""
    reads_in_capture: frozenset[Slot] = frozenset()
    """Those of them that it reads inside a capture here."""
    given: Mapping[str, tuple[Origin, ...]] = field(default_factory=dict)
    """Root of a place -> allocations of device memory in what it stands for, where that is an argument of a call."""
    asks_capture: bool = False
    """It says whether the stream is being captured, or that it is not where there is nothing to capture."""
    yields_in_capture: bool = False
    """A context manager under which the stream is being captured."""
    yields_in_pool: bool = False
    """A context manager under which allocations come from a memory pool of their own."""
    gives_pooled: bool = False
    """What it returns was allocated from a memory pool of its own."""
    paths: Mapping[Place, Place] = field(default_factory=dict)
    """Of the objects that its parameters are: ways through attributes that lead to the object another attribute is."""
    alike: Mapping[Place, Place] = field(default_factory=dict)
    """The same for attributes that may be the object which another attribute is."""
    computed: frozenset[Place] = frozenset()
    """What it computed of its arguments, or of what it computed before, by calls that nobody can read and by operators."""
    many: frozenset[str] = frozenset()
    """Roots of places that stand for any of the objects that a comprehension makes."""
    fills: Mapping[Place, tuple[Place, ...]] = field(default_factory=dict)
    """Containers of others that it puts what a capture made into, with the places of the graphs that this belongs to."""
    yielded: tuple[Value, ...] | None = None
    """Of a generator that does nothing but yield, one after the other: what it yields."""

    @property
    def is_later(self) -> bool:
        """Whether it is a part of its function that runs later: what the function registered on an exit stack."""
        return is_later(self.key)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Everything in it, in the order of the text."""
        return tuple(walk(self.node))

    @cached_property
    def callees(self) -> frozenset[str]:
        """Keys of the behaviors that it calls."""
        return frozenset(key for node in self.nodes if isinstance(node, Calls) for key in node.behaviors)

    @cached_property
    def touched(self) -> frozenset[Slot | None]:
        """Attributes and variables whose content it changes; None stands for all that are nobody's."""
        return frozenset(node.slot for node in self.nodes if isinstance(node, Touches))

    @cached_property
    def emptied(self) -> frozenset[Slot]:
        """Attributes and variables that it empties, or gives nothing in the place of what they had."""
        return frozenset(
            node.slot
            for node in self.nodes
            if isinstance(node, Touches)
            and node.slot is not None
            and (node.how in ("clear", "drop") or (node.how == "write" and not node.tags.isdisjoint(("none", "empty"))))
        )

    @cached_property
    def tested(self) -> frozenset[str]:
        """Last names of the places that its tests ask about, and of the containers that its loops run over."""
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node, Either | Leaves) and node.test is not None:
                found |= last_names(node.test)
            elif isinstance(node, Repeat):
                found |= {last_name(place) for place in node.over}
        return frozenset(found)

    @cached_property
    def effects(self) -> frozenset[Effect]:
        """The effects that happen in it, whatever its places hold."""
        return frozenset(node.effect for node in self.nodes if isinstance(node, Happens))

    @cached_property
    def acts(self) -> bool:
        """Whether something of interest happens in it whatever its places hold: an effect, an allocation, a refusal."""
        return bool(self.effects) or any(
            (isinstance(node, Touches) and bool(node.fresh)) or refuses(node) for node in self.nodes
        )


def behind(span: Span) -> str:
    """The tag of a touch that follows at once on what happens in a span."""
    return f"behind {span.start}"


def is_later(key: str) -> bool:
    """Whether a key is that of a part of a function which runs later."""
    return "|<" in key


_PARTS: Mapping[type, Callable[[Any], tuple[Node, ...]]] = {
    Order: lambda node: node.items,
    Either: lambda node: (node.then, node.other),
    Repeat: lambda node: (node.body, node.other),
    Each: lambda node: (*node.bodies, node.other),
    Guarded: lambda node: (node.body, *[handler.node for handler in node.handlers], node.other, node.final),
    Within: lambda node: (node.calls, node.body),
}


def parts(node: Node) -> tuple[Node, ...]:
    """Direct parts of a node."""
    find = _PARTS.get(type(node))
    return find(node) if find is not None else ()


def walk(node: Node) -> Iterator[Node]:
    """The node and everything in it, in the order of the text."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        find = _PARTS.get(type(node))
        if find is not None:
            waiting.extend(reversed(find(node)))


def simplified(node: Node, visited: Callable[[Node], Node]) -> Node:
    """A node with what becomes of its parts; nothing where none of them does anything any more."""
    match node:
        case Order(items=items):
            return order([visited(item) for item in items])
        case Either():
            then, other = visited(node.then), visited(node.other)
            return NOTHING if then == NOTHING and other == NOTHING else node._replace(then=then, other=other)
        case Repeat():
            body, other = visited(node.body), visited(node.other)
            if other == NOTHING and not _acts(body):
                return NOTHING
            return node._replace(body=body, other=other)
        case Each():
            bodies, other = tuple(map(visited, node.bodies)), visited(node.other)
            if other == NOTHING and not any(map(_acts, bodies)):
                return NOTHING
            return node._replace(bodies=bodies, other=other)
        case Guarded():
            body, other, final = visited(node.body), visited(node.other), visited(node.final)
            handlers = tuple(handler._replace(node=visited(handler.node)) for handler in node.handlers)
            if body == other == final == NOTHING and not any(_acts(handler.node) for handler in handlers):
                return NOTHING
            return node._replace(body=body, handlers=handlers, other=other, final=final)
        case Within():
            return node._replace(body=visited(node.body))
    return node


def _acts(node: Node) -> bool:
    """Whether a node does anything but go on."""
    return any(
        isinstance(each, Happens | Touches | Calls | Yields)
        or (isinstance(each, Leaves) and each.kind in ("return", "raise"))
        for each in walk(node)
    )


def called_inside(node: Node) -> list[str]:
    """Keys of the behaviors that a node calls and that run inside the capture that it runs in."""
    return [key for each in walk(node) if isinstance(each, Calls) and not each.outside for key in each.behaviors]


def last_names(test: Test) -> set[str]:
    """Last names of the places in a test."""
    match test:
        case ("atom", _, place) if place:
            return {last_name(place)}
        case ("not" | "and" | "or", *inner):
            return {name for each in inner for name in last_names(each)}
    return set()


def last_name(place: Place) -> str:
    """The last name in a place; none where it is all elements."""
    for part in reversed(place):
        if part != ELEMENT:
            return part
    return ""


def refuses(node: Node) -> bool:
    """Whether a branch raises where the stream is being captured."""
    if not isinstance(node, Either) or not _asks(node.test):
        return False
    return any(
        isinstance(each, Leaves) and each.kind == "raise" for part in (node.then, node.other) for each in walk(part)
    )


def _asks(test: Test) -> bool:
    match test:
        case ("atom", "capturing", _):
            return True
        case ("not" | "and" | "or", *inner):
            return any(map(_asks, inner))
    return False


def falls_through(node: Node) -> bool:
    """Whether control can leave a node at its end."""
    match node:
        case Leaves():
            return False
        case Order(items=items):
            return all(map(falls_through, items))
        case Either(then=then, other=other):
            return falls_through(then) or falls_through(other)
        case Within(body=body):
            return falls_through(body)
        case Guarded():
            ends = falls_through(node.body) and falls_through(node.other)
            return falls_through(node.final) and (ends or any(falls_through(handler.node) for handler in node.handlers))
    return True


def behind_yield(node: Node) -> Node:
    """What a context manager does once the block of its with statement has ended normally."""
    found = _behind_yield(node)
    return found if found is not None else NOTHING


def _behind_yield(node: Node) -> Node | None:
    """The same for a part of it; None where nothing in it yields."""
    match node:
        case Yields():
            return NOTHING
        case Order(items=items):
            for index, item in enumerate(items):
                if (rest := _behind_yield(item)) is not None:
                    return order([rest, *items[index + 1 :]])
        case Guarded(body=body, other=other, final=final):
            if (rest := _behind_yield(body)) is not None:
                return order([rest, other, final])
        case _:
            return next((rest for part in parts(node) if (rest := _behind_yield(part)) is not None), None)
    return None


def served(node: Node) -> tuple[Node, Node] | None:
    """A function that serves in a `while` loop, as what it does up to there and what it does once the loop has ended."""
    match node:
        case Repeat(over=()):
            return node, _last_words(node.body)
        case Order(items=items):
            for index, item in enumerate(items):
                if (found := served(item)) is not None:
                    return order([*items[:index], found[0]]), order([found[1], *items[index + 1 :]])
        case Guarded(body=body):
            if (found := served(body)) is not None:
                handlers = tuple(handler._replace(node=_quiet(handler.node)) for handler in node.handlers)
                start = node._replace(body=found[0], handlers=(), other=NOTHING, final=NOTHING)
                return start, node._replace(body=found[1], handlers=handlers)
        case Either(then=then, other=other):
            one, two = served(then), served(other)
            if one is not None or two is not None:
                (a, b), (c, d) = one or (then, NOTHING), two or (other, NOTHING)
                return node._replace(then=a, other=c), node._replace(then=b, other=d)
        case Within(body=body):
            if (found := served(body)) is not None:
                return node._replace(body=found[0]), node._replace(body=found[1])
    return None


def _quiet(node: Node) -> Node:
    """A node that ends where it would raise: nobody is there to be told."""
    if isinstance(node, Leaves) and node.kind == "raise":
        return node._replace(kind="return", raises="")
    return simplified(node, _quiet)


def _last_words(body: Node) -> Node:
    """What a loop does in the one place where it decides to end: `if item is None: self.close(); return`."""
    ends = [order(list(each.items[:-1])) for each in walk(body) if isinstance(each, Order) and _leaves(each.items[-1:])]
    return ends[0] if len(ends) == 1 else NOTHING


def _leaves(last: tuple[Node, ...]) -> bool:
    return bool(last) and isinstance(last[0], Leaves) and last[0].kind in ("return", "break")


def partial(behavior: Behavior, key: str, node: Node) -> Behavior:
    """A part of a function as a behavior of its own, that runs later."""
    return replace(behavior, key=key, node=node, returns=NOTHING_KNOWN, yields=NOTHING_KNOWN)


def order(items: list[Node]) -> Node:
    """One after the other, flattened."""
    flat: list[Node] = []
    for item in items:
        if isinstance(item, Order):
            flat += item.items
        else:
            flat.append(item)
    return flat[0] if len(flat) == 1 else Order(tuple(flat)) if flat else NOTHING
