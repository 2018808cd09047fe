"""The state of one function's evaluation, and what every part of it needs: what is emitted, noted and tested.

The evaluation itself is in four layers over this one, each in a module of its own: `lookups` (names and attributes), `calls`,
`expressions`, and `evaluate` (statements). A lower one asks a higher one through the methods that are abstract here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from graphlint import behavior as b
from graphlint import flow, handing
from graphlint.assignments import assigned, is_key, is_record, starts_empty
from graphlint.behavior import Node, Slot
from graphlint.dispatch import text_of
from graphlint.facts import MODULE, Param
from graphlint.flow import Expr
from graphlint.holding import Holding
from graphlint.knowledge import HELD, Around, Knowledge
from graphlint.project import FunctionEntry, Module
from graphlint.rebasing import MOST_READ, all_of, given_to, holds_captured, sources
from graphlint.source import Span
from graphlint.values import (
    CONSTANTS,
    CONTAINERS,
    DEVICE,
    ELEMENT,
    FALSE,
    GRAPH,
    NOTHING_KNOWN,
    TENSOR,
    TRUE,
    UNKNOWN,
    WIDEST,
    Bound,
    Origin,
    Place,
    Symbol,
    Test,
    Type,
    Value,
    any_of,
    asks_capture,
    at_position,
    flat,
    is_vague,
    store_place,
)

_DEEPEST_DISPLAY = 2
_INHERITED = frozenset(("stream", "coarse"))
_MOST_ITEMS = 16
"""Most items of a container that is filled one by one, to be told apart."""


class Frame(Holding):
    """Evaluation inside one function."""

    def __init__(
        self, knowledge: Knowledge, entry: FunctionEntry, types: Mapping[str, tuple[Type, ...]], *, emitting: bool
    ) -> None:
        super().__init__()
        self.all = knowledge
        self.project = knowledge.project
        self.vocabulary = knowledge.vocabulary
        self.entry = entry
        self.module: Module = entry.module
        self.emitting = emitting
        self.out: list[Node] = []
        self.env: dict[str, Value] = {}
        self.returns: list[Value] = []
        self.yields: list[Value] = []
        self.aliases: dict[tuple[str, str], tuple[Place, ...]] = {}
        self.unresolved: list[tuple[str, Span]] = []
        self.in_capture = 0
        self.in_pool = 0
        self.used_pool = False
        self.emptied: set[tuple[str, str]] = set()
        """Containers that loops take every item out of, and the variables that have the keys."""
        self.remembered: Place | None = None
        """Where a decorator keeps what the function returns."""
        self.captured_calls: set[str] = set()
        self.given: dict[str, tuple[Origin, ...]] = {}
        self.captured_by: dict[str, set[str]] = {}
        """By root of a place that a call gave, the classes and modules whose captures made it."""
        self.return_tests: list[Test] = []
        self.pooled: set[str] = set()
        """Roots of the places of what was allocated from a memory pool of its own."""
        self.yields_in_pool = False
        self.yields_in_capture = False
        self.many: set[str] = set()
        self.passed_in: list[tuple[Slot, Place, Place]] = []
        """Attribute that was given an object, the way through that object to what it was made with, and what that is."""
        self.initial: list[tuple[Slot, tuple[Place, ...]]] = []
        """Attributes of the object, and what the constructor gives them."""
        self.entered: dict[Slot, dict[Place, str]] = {}
        """Tables, what was put into them, and the key under which it was put there first, where that is written out."""
        self.put_again: set[Slot] = set()
        """Tables that are given what they have, under one more key."""
        self.loops: list[Span] = []
        self.submitted: dict[Place, list[Bound]] = {}
        """By executor, what it was given to run and nobody has waited for yet."""
        self.exits: list[tuple[Node, Span]] = []
        """What `atexit`, or a finalizer, is to do with objects that the function makes, and the calls that say so."""
        self.handed_over: dict[str, list[tuple[Node, Span]]] = {}
        """The same for what it would have done, had `pop_all` not given that to another stack."""
        self.went_round: list[Span] = []
        """Every loop up to here."""
        self.deferred: dict[str, list[tuple[Node, Span]]] = {}
        """By root of an exit stack's place, what it does at its end: nodes, and the spans that registered them."""
        self.lookups: list[Place] = []
        self.reads: set[Slot] = set()
        self.captured_reads: set[Slot] = set()
        self.captured_params: set[str] = set()
        self.keepers: dict[Place, set[Slot]] = {}
        """Slots that keep what a place of this function stands for."""
        within = types.get(handing.INSIDE) if types else None
        self.parent: Around | None = knowledge.closures.get(
            handing.nested(entry.name, within[0].name if within is not None else "")
        )
        self.told = handing.inside(types) if types else ""
        """What it was handed, where that was functions, and what those around it were."""
        self.handing = False
        """It evaluates an argument: what stands there without a call is handed on."""
        self.handed: tuple[str, ...] = ()
        """Names of what is bound to the functions that it was handed."""
        self.globals: frozenset[str] = frozenset()
        self.siblings: dict[str, tuple[str, str]] = {}
        """Method name -> class and function, of receivers whose type is known."""
        self.computed: set[Place] = set()
        """Places of what was computed of the arguments by calls that nobody can read, and by operators."""
        self._pending: dict[str, list[tuple[Expr, str]]] | None = None
        self._looking: set[str] = set()
        self._inside = 0
        """Comprehensions around the expression at hand, and assignments in expressions before it: they hide variables."""
        self.params = frozenset(param.name for param in entry.facts.params)
        own = entry.owner is not None and entry.kind in ("method", "property") and bool(entry.facts.params)
        self.is_first = entry.facts.name == "__init__"
        """It is a constructor."""
        self.owner = entry.owner or f"mod:{entry.module.name}"
        """The class of a method, the module of a function."""
        self.me = f"${entry.facts.params[0].name}" if own else ""
        self._start(types)

    def filled_in(self, declared: tuple[Type, ...], name: str) -> tuple[Type, ...]:
        """A container of whose items its annotation says nothing, with what the callers of a constructor put into it."""
        given = self.all.parameter(self.entry, name).types
        items = tuple(dict.fromkeys(item for t in given if t.name in CONTAINERS for item in t.items if item != UNKNOWN))
        known = items and all(item.name in self.project.classes for item in items)
        return tuple(t._replace(items=items) if t.name in CONTAINERS else t for t in declared) if known else declared

    @abstractmethod
    def value(self, expr: Expr) -> Value:
        """Value of an expression; calls in it are emitted."""

    @abstractmethod
    def of_symbol(self, symbol: Symbol) -> Value:
        """What a name of a module means."""

    @abstractmethod
    def call_functions(
        self,
        bounds: tuple[Bound, ...],
        args: Sequence[Value],
        keywords: Sequence[tuple[str, Value]],
        span: Span,
        external: Value | None = None,
    ) -> Value:
        """Calls of functions of the project; several are alternatives."""

    @abstractmethod
    def bind(self, target: Expr, value: Value, span: Span) -> None:
        """Give a target a value."""

    def _start(self, types: Mapping[str, tuple[Type, ...]]) -> None:
        entry = self.entry
        known = self.all.started.get(entry.name) if not types else None
        if known is not None:
            self.env = {name: value for name, value in known.items() if not self.emitting or name in self.params}
            return
        before = self.all.cut
        self._bind_params(types)
        if not types and self.all.cut == before:
            self.all.started[entry.name] = dict(self.env)

    def _bind_params(self, types: Mapping[str, tuple[Type, ...]]) -> None:
        entry = self.entry
        for index, param in enumerate(entry.facts.params):
            place = ((f"${param.name}",),)
            given = types.get(param.name)
            if given is not None and (handed := self.all.handing.seen(param.name, given)) is not None:
                self.env[param.name] = handed.value
                self.handed += handed.names
                continue
            if index == 0 and entry.owner is not None and entry.kind in ("method", "property", "classmethod"):
                owner = types.get(param.name, (Type(entry.owner),))
                if entry.kind == "classmethod":
                    self.env[param.name] = Value(symbol=Symbol("class", owner[0].name))
                else:
                    self.env[param.name] = Value(place, owner, exact=param.name in types)
                continue
            if (text := text_of(types.get(param.name, ()))) is not None:
                self.env[param.name] = Value(place, (Type("str"),), literal=text)
                continue
            declared = self.project.annotation(self.module, param.annotation)
            called = bool(declared) and all(t.name.rpartition(".")[2] == "Callable" for t in declared)
            if called:
                declared = ()  # which function it is, the calls say
            if not declared or is_vague(declared):
                declared = types.get(param.name, declared)
            calls: tuple[Bound, ...] = ()
            is_wrapper = index == 0 and entry.parent is not None  # of a method, as far as its decorator says
            says_nothing = param.annotation is None or (is_wrapper and last_word(param.annotation) in ("Any", "object"))
            unknown = not declared or (says_nothing and param.name not in types)
            if unknown and param.kind == "positional" and (says_nothing or called):
                declared, calls, _ = self.all.parameter(entry, param.name)
            elif entry.facts.name == "__init__" and declared and param.name not in types and is_vague(declared):
                declared = self.filled_in(declared, param.name)
            if (shared := self.shared_default(param)) is not None:
                self.env[param.name] = shared
                continue
            if not declared and isinstance(param.default, flow.Lit) and type(param.default.value) in (bool, int, str):
                declared = (Type(type(param.default.value).__name__),)
            named = {t.name for t in declared} <= {"str", "bool"} and declared
            tags = frozenset[str]() if named else self.vocabulary.names.is_stream(param.name)
            self.env[param.name] = Value(place, declared, calls=calls, tags=tags)

    def shared_default(self, param: Param) -> Value | None:
        """What a parameter is that nobody gives an argument for: a variable of a module, or an object that is made once."""
        match param.default:
            case flow.Name(id=name):
                symbol = self.project.lookup(self.module, name)
                symbol = self.project.resolve(symbol.name) if symbol is not None and symbol.kind == "import" else symbol
                if symbol is None or symbol.kind != "variable" or self.all.is_given(self.entry, param.name):
                    return None
                value = self.of_symbol(symbol)
                is_object = any(t.name in self.project.classes for t in value.types)
                return value if is_object or self.is_container(symbol) else None
            case flow.Group(items=()) | flow.Call(args=()) as made if starts_empty(made):
                if self.all.is_given(self.entry, param.name):
                    return None
                slot = (f"mod:{self.entry.name}", param.name)
                value = self.all.at_module(self.module)(made)
                return value._replace(places=(slot,), slot=slot, tags=value.tags - {"empty"})
        return None

    def is_container(self, symbol: Symbol) -> bool:
        """Whether a variable of a module is made as an empty container."""
        module, _, name = symbol.name.rpartition(".")
        found = self.project.modules.get(module)
        given = [bind.value for bind in found.variables.get(name, ()) if bind.value is not None] if found else []
        return any(starts_empty(each) and not isinstance(each, flow.Lit) for each in given)

    def emit(self, node: Node) -> None:
        if self.emitting:
            self.out.append(node)

    def nodes(self, action: Callable[[], object]) -> Node:
        """Run an action and take what it emitted."""
        saved, self.out = self.out, []
        try:
            action()
            return b.order(self.out)
        finally:
            self.out = saved

    def touch(
        self,
        how: str,
        places: tuple[Place, ...],
        slot: Slot | None,
        span: Span,
        value: Value = NOTHING_KNOWN,
        held: tuple[Type, ...] = (),
        key: Value | None = None,
        *,
        strict: bool = False,
        named: str = "",
    ) -> None:
        value = self.whole(value)
        tags = value.tags & {
            "none",
            "empty",
            "true",
            "false",
            "tensor",
            "captured",
            "graph",
            "pool",
            "mempool",
            "minted",
            "plan",
            "copy",
            "storage",
        }
        if value.test is not None and asks_capture(value.test):
            tags |= {"capturing"}
        tags |= {word for word, holds in (("strict", strict), (named, named)) if holds}
        if how == "write" and (constant := self.constant(value)) is not None:
            tags |= {f"={constant}"}
        if how == "write" and value.exact and not value.fields and self._is_made_of_nothing(value):
            tags |= {"new"} if self._is_record(value) else {"renewed"} if not value.reads else set()
        is_new = how == "write" and value.slot is None and bool(value.types) and "empty" not in tags
        if is_new and all(t.name in CONTAINERS for t in value.types):
            if value.places and all(len(place) == 1 and place[0][0] == "@" for place in value.places):
                tags |= {"new"}
        if self.emitting and how == "add" and value.types and len(places) == 1 and len(places[0]) == 1:
            root = places[0][0]
            if any(t.name == GRAPH for t in flat(value.types)):
                tags |= {"graph"}
            if root[0] == "$":
                self.all.filled.setdefault((self.entry.name, root[1:]), set()).update(value.types)
        if self.emitting and how == "add" and slot is not None and slot[0].startswith("cell:"):
            self.all.filled.setdefault(slot, set()).update(value.types)
        if self.emitting and how == "add":
            self.put_in(places, value)
        if self.emitting and slot is not None and self._is_doubled(how, slot, value, key):
            self.all.doubled.add(slot)
        if self.emitting and slot is not None and key is not None and "met" in value.tags and len(places) == 1:
            self.put_again |= {slot} if (*places[0], ELEMENT) in value.places else set()
        if self.emitting and slot is not None and how in ("write", "add"):
            notes = self.all.note(slot)
            notes.tags |= tags & HELD
            if "captured" in tags:
                notes.capturers |= self.capturers(value)
            if "tensor" in tags and (self.in_pool or any(place[0] in self.pooled for place in all_of(value))):
                notes.tags.add("pooled")
            if value.fresh:
                notes.tags.add("fresh")
                if any(t.name == TENSOR for t in flat(value.types)):
                    notes.tags.add("tensor")  # items of a display, a comprehension
            notes.types |= {t.name for t in flat(value.types)}
            self.keep(slot, value)
            self.hand_over(value, slot)
            if how == "write" and len(places) == 1 and places[0][0] == self.me:
                if len(places[0]) == 2 and self._is_lasting(value):
                    self.initial.append((slot, value.places if "part" not in value.tags else ()))
                self.passed_in += [(slot, way, place) for way, place in given_to(value, self.all.is_set_once)]
                if "copy" not in tags and (way := self._way_to(slot[0], value)) is not None:
                    self.passed_in.append(((slot[0], way[0]), way[1:], places[0]))
                self.hand_out(places[0], value)
                if len(places[0]) == 3 and self.is_first and self.is_object(value):
                    self.passed_in.append(((self.owner, places[0][1]), places[0][2:], value.places[0]))
            elif how == "add" and len(places) == 1 and len(places[0]) == 2 and places[0][0] == self.me:
                ways = given_to(value, self.all.is_set_once)
                self.passed_in += [(slot, (ELEMENT, *way), place) for way, place in ways]
        if self.emitting and how in ("write", "drop") and self.outlived(places, span):
            tags |= {"saved"}
        emptied = how in ("clear", "drop") or (how == "write" and not tags.isdisjoint(("none", "empty")))
        if self.emitting and slot is not None and emptied:
            self.hold_items(places, span, slot)
        names = tuple(dict.fromkeys(t.name for t in flat(held)))
        first = self.entry.facts.name == "__init__" and bool(places) and places[0][0] == self.me  # nothing was there
        if self.emitting and (how in ("drop", "clear") or (how == "write" and tags & {"none", "empty"} and not first)):
            self.destroyed(held, places, span)
        inside = value.places if _is_weak(value) else all_of(value)
        self.emit(b.Touches(how, places, slot, span, tags, inside, names, value.fresh, key))

    def _is_made_of_nothing(self, value: Value) -> bool:
        """Whether a value is an object that is made here of nothing."""
        classes = [self.project.classes.get(t.name) for t in value.types]
        made = len(value.places) == 1 and len(value.places[0]) == 1 and value.places[0][0][0] == "@"
        return made and bool(classes) and all(each is not None for each in classes)

    def _is_record(self, value: Value) -> bool:
        return all(is_record(self.project.classes[t.name]) for t in value.types)

    def _is_doubled(self, how: str, slot: Slot, value: Value, key: Value | None) -> bool:
        """Whether a table is given one object under several keys: in a loop over the names, one after the other, in a display."""
        if how == "write" and "doubled" in value.tags:
            return True
        if how == "add" and self.loops and is_shared_out(value, self.loops[-1]):
            return True
        if how != "add" or key is None or not self.is_object(value):
            return False
        if key.literal is not None:
            return self.entered.setdefault(slot, {}).setdefault(value.places[0], key.literal) != key.literal
        outside = bool(self.loops) and not is_made_in(value.places[0], self.loops[-1])
        return outside and any(ELEMENT in each or is_made_in(each, self.loops[-1]) for each in key.places)

    def _is_lasting(self, value: Value) -> bool:
        """Whether an attribute is given what it has from the constructor on, or an object that another attribute has since then."""
        if self.is_first:
            return True
        if not 0 < len(value.places) <= 2 or not any(t.name in self.project.classes for t in value.types):
            return False
        others = [place for place in value.places if len(place) == 2 and place[0] == self.me]
        return len(others) == 1 and self.all.is_set_once(self.owner, others[0][1])

    def is_object(self, value: Value) -> bool:
        """Whether a value is one object of a class of the project."""
        one = len(value.places) == 1 and ELEMENT not in value.places[0]
        return one and any(t.name in self.project.classes for t in value.types)

    def _way_to(self, owner: str, value: Value) -> Place | None:
        """The way through lasting attributes of the object by which a value was reached: `self.runner = self.worker.runner`."""
        if len(value.places) != 1 or value.places[0][0] != self.me or len(value.places[0]) < 3:
            return None
        way = value.places[0][1:]
        for before, name in pairwise(way):
            types = self.all.field_types(owner, before)
            if ELEMENT in (before, name) or len(types) != 1 or not self.all.is_set_once(types[0].name, name):
                return None
            owner = types[0].name
        return way

    def hand_out(self, place: Place, value: Value) -> None:
        """Note whose method another object is given to call: `self.store.at_end = self.free` stands for the object itself."""
        receivers = [bound.receiver.places for bound in value.calls if bound.receiver is not None]
        if (
            len(place) > 2
            and ELEMENT not in place
            and len(receivers) == len(value.calls) == 1
            and len(receivers[0]) == 1
        ):
            if receivers[0][0][0] == self.me and ELEMENT not in receivers[0][0]:
                self.passed_in.append(((self.owner, place[1]), place[2:], receivers[0][0]))

    def outlived(self, places: tuple[Place, ...], span: Span) -> bool:
        """Have variables that stand for what a place held go on doing so: `old = self.graph; self.graph = None`."""
        if len(places) != 1 or places[0][0].startswith(("@", "%")) or len(places[0]) < 2:
            return False
        mine = [name for name, value in self.env.items() if value.places == places]
        for name in mine:
            slot = self.env[name].slot
            if slot is not None:
                self.hold(name, places, span, slot)
            self.env[name] = self.env[name]._replace(places=((*places[0], ELEMENT),))
        return bool(mine)

    def capturers(self, value: Value) -> set[str]:
        """The classes or modules that captured what a value is: those of the function that gave it, else the own one."""
        made = [self.captured_by[place[0]] for place in value.places if place[0] in self.captured_by]
        return set[str]().union(*made) if made else {self.owner}

    def compute(self, values: Sequence[Value], result: Value) -> None:
        """Note that a result was computed of what the function was given, or has computed: of tensors, if it is captured."""
        if any(
            place in self.computed
            or (len(place) == 1 and place[0][0] == "$" and place[0] != self.me and not is_key(self.entry, place[0][1:]))
            for value in values
            for place in value.places
        ):
            self.computed.update(place for place in result.places if len(place) == 1 and place[0][0] == "@")

    def whole(self, value: Value) -> Value:
        """What is kept with a value: a method of a graph keeps the graph that it is of."""
        if value.symbol is None or value.symbol.kind != "external" or not value.places:
            return value
        owner = value.symbol.name.rpartition(".")[0]
        if self.vocabulary.canonical(owner) != GRAPH:
            return value
        return Value(tuple(place[:-1] for place in value.places), (Type(owner),), tags=frozenset(("graph",)))

    @abstractmethod
    def hand_over(self, value: Value, slot: Slot) -> None:
        """Note that an attribute keeps an exit stack from here on."""

    @abstractmethod
    def finalized(self, class_name: str, places: tuple[Place, ...], span: Span) -> Iterator[Node]:
        """What the finalizers of an object do."""

    def destroyed(self, held: tuple[Type, ...], places: tuple[Place, ...], span: Span) -> None:
        """Run the destructors of what a place held, as if nothing else held it."""
        for t in held:
            method = self.project.method(t.name, "__del__")
            if method is not None:
                self.call_functions((Bound(method, Value(places, (t,))),), (), (), span)
            for node in self.finalized(t.name, places, span) if t.name in self.project.classes else ():
                self.emit(node)
            if t.name in CONTAINERS:
                self.destroyed(t.items, tuple((*place, ELEMENT) for place in places), span)

    def keep(self, slot: Slot, value: Value) -> None:
        """Note that a slot holds the same objects as others do."""
        notes = self.all.note(slot)
        notes.sources |= {each for each in _slots(value) if each != slot}
        if (
            value.slot is not None
            and value.slot != slot
            and value.places
            and "copy" not in value.tags
            and not any(ELEMENT in p for p in value.places)
        ):
            notes.same.add(value.slot)
        for place in value.places:
            if place[0].startswith("@") and not value.tags & CONSTANTS:
                others = self.keepers.setdefault(place, set())
                for other in others - {slot}:
                    notes.sources.add(other)
                    self.all.note(other).sources.add(slot)
                others.add(slot)

    def read(self, value: Value) -> Value:
        """The value, noted as read if an attribute or a variable of the project holds it."""
        slot = value.slot
        if self.emitting and self.in_capture and len(value.places) == 1 and len(value.places[0]) == 1:
            root = value.places[0][0]
            if root[0] == "$" and root != self.me:
                self.captured_params.add(root[1:])
        if (
            self.emitting
            and slot is not None
            and (slot[0] in self.project.classes or slot[0].startswith(("mod:", "cell:", "keys:")))
        ):
            self.reads.add(slot)
            if self.in_capture:
                self.captured_reads.add(slot)
        return value

    def filled(self, base: Expr, container: Value, item: Value, kind: str = "dict", *, one: bool = True) -> None:
        """A local container that an item was put into is not empty any more, and holds what was put in.

        Args:
            base: the container's expression.
            container: what it is so far.
            item: what was put in, or any item of that.
            kind: what it is if nothing says so.
            one: whether it is one item at the end.
        """
        if isinstance(base, flow.Item) and isinstance(base.base, flow.Name):
            self.filled_inside(base.base.id, item, base.span)
        if not isinstance(base, flow.Name) or base.id not in self.env or not self.emitting:
            return
        kinds = [t for t in container.types if t.name in CONTAINERS] or [Type(kind)]
        types = tuple(Type(t.name, tuple(dict.fromkeys((*t.items, *item.types)))[:WIDEST]) for t in kinds)
        calls = tuple(dict.fromkeys((*container.calls, *item.calls)))[:WIDEST]
        tags = (container.tags - {"empty"}) | ({"captured"} if holds_captured(item) else set())
        result = container._replace(types=types, tags=tags, items=None, calls=calls)
        if container.places and all(place[0].startswith("@") and len(place) == 1 for place in container.places):
            result = self._holding(result, container, item, one=one and kind == "list")
        self.env[base.id] = result
        self.filled_inside(base.id, item, base.span)

    def _holding(self, result: Value, container: Value, item: Value, *, one: bool) -> Value:
        """A container made here, with what it is known to hold: its items in order, or any of them."""
        if one and container.items is not None and not self.loops and len(container.items) < _MOST_ITEMS:
            return result._replace(items=(*container.items, item))
        is_made = not item.items and all(len(place) == 1 and place[0].startswith("@") for place in item.places)
        if is_made or ("empty" not in container.tags and container.each is None):
            return result._replace(each=None)  # any is an element of its own
        each = item if container.each in (None, NOTHING_KNOWN) else any_of([container.each, item])
        if each is not None:
            self.many.update(place[0] for place in all_of(each) if len(place) == 1 and place[0][0] == "@")
        return result._replace(each=each)

    def loosened(self, body: flow.Flow) -> None:
        """Local containers that a loop fills may hold something when it comes round again."""
        unfilled = {name for name, value in self.env.items() if "empty" in value.tags or value.items is not None}
        for target, _, how in assigned(body) if unfilled else ():
            if how == "item" and isinstance(target, flow.Item) and isinstance(target.base, flow.Name):
                name = target.base.id
                if name in unfilled and self.env[name].places and self.env[name].places[0][0].startswith("@"):
                    unfilled.discard(name)
                    held = self.env[name]
                    each = NOTHING_KNOWN if "empty" in held.tags else None
                    self.env[name] = held._replace(tags=held.tags - {"empty"}, items=None, each=each)

    @staticmethod
    def part(value: Value, index: int, span: Span) -> Value:
        """Item of a value that is unpacked."""
        if value.each is not None and not any(t.name == "tuple" for t in value.types):
            return value.each._replace(places=((f"@{span.start}.{index}",),))  # any is like the other, and itself
        types = tuple(t.items[index] for t in value.types if t.name == "tuple" and len(t.items) > index)
        types = tuple(t for t in types if t != UNKNOWN)
        tags = value.tags & {"captured", "stream", "plan"}
        reads = frozenset(sources(value))
        kept = tuple((*place, str(index)) for place in value.places if ELEMENT in place)
        places = kept or ((f"@{span.start}.{index}",),)
        slot = value.slot if kept else None  # of a table of tuples, the item is found through the table
        calls = at_position(value.calls, index)
        return Value(places, types, calls=calls, slot=slot, tags=tags, reads=reads, fresh=value.fresh)

    def made_of(self, values: Sequence[Value], result: Value) -> Value:
        """A result with what went into it."""
        if not self.emitting:
            return result
        reads = frozenset(tuple(dict.fromkeys(place for value in values for place in sources(value)))[:MOST_READ])
        fresh = tuple(dict.fromkeys(origin for value in values for origin in value.fresh))[:WIDEST]
        tags = result.tags.union(*(value.tags & _INHERITED for value in values))
        return result._replace(reads=result.reads | reads, fresh=result.fresh or fresh, tags=tags)

    def is_tensor(self, value: Value) -> bool:
        """Whether a value is known to be a tensor."""
        return any(self.vocabulary.canonical(t.name) == TENSOR for t in value.types)

    def by_name(self, name: str, value: Value, span: Span) -> Value:
        """The result of a callee that nobody can read, as device memory if the name says that it makes some."""
        if not self.emitting or self.in_pool or not self.vocabulary.names.makes_memory(name):
            return value
        return value._replace(fresh=(Origin(self.entry.name, span, by_name=True),))

    def label(self, expr: Expr) -> str:
        """Source text of a callee, for messages."""
        callee = expr.callee if isinstance(expr, flow.Call) else expr
        return " ".join(self.module.source.text(callee.span).split())

    def exception(self, value: Expr | None) -> str:
        """Dotted name of the class of what is raised or caught."""
        callee = value.callee if isinstance(value, flow.Call) else value
        local = self.env.get(callee.id) if isinstance(callee, flow.Name) else None
        if local is not None:
            return local.symbol.name if local.symbol is not None else ""
        named = self.project.dotted(self.module, callee) if isinstance(callee, flow.Name | flow.Attr) else None
        return self.project.resolve(named).name if named is not None else ""

    def cell(self, name: str) -> Slot | None:
        """Place of a variable that belongs to a function around this one, where that function gives it a value."""
        frame = self.parent
        while frame is not None:
            if name in frame.env and frame.entry.facts.qualname != MODULE:
                return (f"cell:{frame.entry.name}", name)
            frame = frame.parent
        return None

    def names_of(self, callee: Value) -> list[str]:
        """Canonical dotted names under which a vocabulary may know a callee."""
        names = []
        if callee.symbol is not None:
            names.append(callee.symbol.name)
        for bound in callee.calls:
            names.append(bound.function)
            function = self.project.functions[bound.function]
            if bound.receiver is not None and bound.receiver.types:
                owners = self.project.mro(bound.receiver.types[0].name)
                names += [f"{each}.{function.facts.name}" for each in owners]
        return list(dict.fromkeys(map(self.vocabulary.canonical, names)))

    def canonical_types(self, value: Value) -> list[Type]:
        result = []
        for t in value.types:
            names = [self.vocabulary.canonical(each) for each in self.project.mro(t.name)]
            result.append(Type(GRAPH) if GRAPH in names else t)
        return result

    def subject(
        self, of: str, receiver: Value, args: Sequence[Value], keywords: Mapping[str, Value], span: Span
    ) -> Value:
        """What an effect is about."""
        if of == "self":
            return receiver
        if of == "result":
            return Value(((f"@{span.start}",),))
        if of == "process":
            return NOTHING_KNOWN
        if of.startswith("arg") and of[3:].isdigit():
            index = int(of[3:])
            if index < len(args):
                return args[index]
            return next(iter(keywords.values()), NOTHING_KNOWN) if index == 0 else NOTHING_KNOWN
        if "." in of:
            place = store_place(of)
            return Value(
                (place,), slot=(place[0].partition(":")[2] if place[0].startswith("class:") else place[0], place[1])
            )
        return keywords.get(of, NOTHING_KNOWN)

    def _named(self, spec: str | None, args: Sequence[Value], keywords: Mapping[str, Value]) -> Value:
        """An argument by `name:position`."""
        if spec is None:
            return NOTHING_KNOWN
        name, _, position = spec.partition(":")
        if name in keywords:
            return keywords[name]
        if position and int(position) < len(args):
            return args[int(position)]
        return NOTHING_KNOWN

    def compare(self, op: str, values: Sequence[Value], span: Span) -> Test:
        """A test that compares what was read somewhere; `unknown` where it was read nowhere."""
        identity = f"{self.entry.name}@{span.start}"
        places = tuple(dict.fromkeys(place for value in values for place in sources(value)))[:MOST_READ]
        return ("compare", op, places, identity) if places else ("unknown", identity)

    def constant(self, value: Value) -> str | None:
        """What a constant is called, so that no other is called so: a member of an enumeration, or a string."""
        if value.literal is not None:
            return repr(value.literal)
        match value.places:
            case ((root, name),) if root.startswith("class:") and self.project.is_enumeration(root[6:]):
                return f"{root[6:]}.{name}"
        return None

    def truth(self, value: Value, span: Span) -> Test:
        """What it says that a value is true."""
        if value.test is not None:
            return value.test
        if value.tags & {"none", "false", "empty"}:
            return FALSE
        if "true" in value.tags:
            return TRUE
        if value.symbol is not None and value.symbol.kind != "external" and not value.places:
            return TRUE  # a module, a class, a function
        if len(value.places) == 1:
            return DEVICE if value.places[0][-1] == "is_cuda" else ("atom", "true", value.places[0])
        return self.compare("true", (value,), span)

    def is_none(self, value: Value, span: Span) -> Test:
        if "none" in value.tags:
            return TRUE
        if "optional" in value.tags and (named := [each for each in value.places if each[0][0] == "%"]):
            return ("atom", "none", named[0])  # a variable that was given an object, and None on another path
        known = value.symbol is not None and value.symbol.kind != "external" and not value.places
        if known or value.tags & {"tensor", "graph", "pool", "true", "false", "empty", "object"}:
            return FALSE
        if len(value.places) == 1:
            return ("atom", "none", value.places[0])
        return ("unknown", f"{self.entry.name}@{span.start}")


def _is_weak(value: Value) -> bool:
    """Whether a value only refers to an object that others keep."""
    return any(t.name == "ref" for t in value.types)


def _slots(value: Value, depth: int = 0) -> Iterator[Slot]:
    """Slots that a value, or what is known to be in it, was read from."""
    if value.slot is not None:
        yield value.slot
    if depth < _DEEPEST_DISPLAY and not _is_weak(value):
        for part in (*(value.items or ()), *((value.each,) if value.each is not None else ())):
            yield from _slots(part, depth + 1)


def last_word(expr: Expr) -> str:
    """The name, or the last part of the attribute, that an expression is; nothing for others."""
    return expr.name if isinstance(expr, flow.Attr) else expr.id if isinstance(expr, flow.Name) else ""


def keyed(key: Expr | None) -> str:
    """The word for what is taken out of a table under a key that somebody has given; none for a number, or for any item."""
    return "keyed" if key is not None and flow.dotted_text(key) else ""


def is_shared_out(value: Value, span: Span) -> bool:
    """Whether something may be there before, and be given out again in the next round of a loop."""
    return "coarse" in value.tags and any(not is_made_in(place, span) for place in value.places)


def is_made_in(place: Place, span: Span) -> bool:
    """Whether a place stands for what an expression in a part of the function makes."""
    offset = place[0][1:].partition(".")[0] if place[0][0] == "@" else ""
    return offset.isdigit() and span.start <= int(offset) < span.end
