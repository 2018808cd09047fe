"""Which local variables of a function hold on to what captures made, from where and until where: said in what it emits.

A variable is given it by an assignment, as an item of a container of its own, or by a function that it is handed to and that
puts it in. It has it no more where it is bound anew, deleted or emptied, by a function that it is handed to as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from graphlint import behavior as b
from graphlint import flow
from graphlint.behavior import Behavior, Node, Slot
from graphlint.flow import Expr
from graphlint.knowledge import Knowledge
from graphlint.project import FunctionEntry
from graphlint.rebasing import all_of, graphs_in, holds_captured
from graphlint.source import Span
from graphlint.values import CONTAINERS, ELEMENT, GRAPH, NOTHING_KNOWN, Place, Type, Value
from graphlint.vocabulary import Vocabulary

_DEEPEST_CALL = 3
_DEEPEST_RECORD = 3


class Holding(ABC):
    """The part of a function's evaluation that knows what its local variables hold of captures."""

    all: Knowledge
    vocabulary: Vocabulary
    entry: FunctionEntry
    emitting: bool
    env: dict[str, Value]
    globals: frozenset[str]
    in_capture: int

    def __init__(self) -> None:
        self.holding: dict[str, tuple[Place, ...]] = {}
        """Local variables that were seen to hold what a capture made, with the places of the graphs that it belongs to."""
        self.capturing: tuple[Place, ...] = ()
        """Places of the graph of the capture around."""
        self.given_here: list[str] = []
        """Local variables that were given what the capture around has made."""
        self.copies: set[str] = set()
        """Local variables that hold a copy of a table: it outlives what empties the table."""
        self.put_here: list[Place] = []
        """The same for containers of others."""
        self.fills: dict[Place, tuple[Place, ...]] = {}
        """Containers of others that what a capture made is put into, with the graphs that it belongs to."""
        self.found: dict[str, Value] = {}
        """Local variables whose item of a table was said to be held on: once that is empty, nothing tells whether there was one."""
        self.passing = False
        """A loop gives its variable the next item."""
        self.passed: set[str] = set()
        """Local variables that have the last item of a loop."""

    @abstractmethod
    def emit(self, node: Node) -> None:
        """Add to what the function does."""

    @abstractmethod
    def nodes(self, action: Callable[[], None]) -> Node:
        """Run an action and take what it emitted."""

    def hold(self, name: str, graphs: tuple[Place, ...], span: Span, source: Slot | None = None) -> None:
        """Say that a local variable holds what a capture made from here on, or what a slot held that has been given up."""
        if not self.emitting or not graphs or name in self.globals or name == "_":
            return
        slot = (f"local:{self.entry.name}", f"%{name}")
        notes = self.all.note(slot)
        if source is None:
            notes.tags.add("captured")
        else:
            notes.sources.add(source)
        self.holding[name] = graphs
        self.emit(b.Touches("add", ((slot[1],),), slot, span, frozenset(("captured",)), graphs))

    def hold_object(self, name: str, value: Value, span: Span) -> None:
        """Say that a local variable holds objects that were made here and that may own graphs, with all that they keep."""
        if not self.emitting or self.passing or self.in_capture or name in self.globals:
            return
        if not value.exact and value.each is None and not value.items:
            return
        objects = [each for each in (value, value.each, *(value.items or ())) if each is not None and each.exact]
        classes = {t.name for each in objects for t in each.types if self._speaks_of_graphs(t.name)}
        if not classes:
            return
        slot = (f"local:{self.entry.name}", f"%{name}")
        self.all.note(slot).objects |= classes
        places = tuple(place for each in (value, *objects) for place in each.places)
        self.holding[name] = places
        self.emit(b.Touches("add", ((slot[1],),), slot, span, frozenset(("object",)), places))

    def _speaks_of_graphs(self, name: str) -> bool:
        """Whether a class of the project makes graphs, by the words of its methods."""
        found = self.all.project.classes.get(name)
        word = GRAPH.rpartition(".")[2]
        functions = self.all.project.functions
        return found is not None and any(word in functions[each].facts.words for each in found.methods.values())

    def let_go(self, name: str, span: Span) -> None:
        """Say that a local variable holds it no more."""
        if name in self.holding and self.emitting:
            slot = (f"local:{self.entry.name}", f"%{name}")
            self.emit(b.Touches("clear", ((slot[1],),), slot, span))

    def hold_made(self, span: Span) -> None:
        """The same for what a capture has made, once it has ended."""
        made, self.given_here = self.given_here, []
        for name in dict.fromkeys(made):
            if name in self.env:
                self.hold(name, self.capturing, span)
        filled, self.put_here = self.put_here, []
        for place in filled:
            self._fill(place, self.capturing)

    def graphs_of(self, value: Value) -> tuple[Place, ...]:
        """The graphs that what is in a value belongs to: those beside it there, or where a local variable is known to hold it.

        The variable of a loop over records of graphs has but the last of them, and is not asked for it.
        """
        inside = set(all_of(value))
        known = [
            graphs for name, graphs in self.holding.items() if inside & set(self.env.get(name, NOTHING_KNOWN).places)
        ]
        if self.passing:
            known += [item.places for item in value.items or () if "graph" in item.tags]
        else:
            known.append(graphs_in(value))
            if holds_captured(value) and self.has_graphs(value.types):
                known.append(value.places)
        return tuple(dict.fromkeys(place for graphs in known for place in graphs))

    def hold_items(self, places: tuple[Place, ...], span: Span, slot: Slot) -> None:
        """A container is emptied: variables that have an item of it, or a copy of it, hold that on."""
        items = tuple((*place, ELEMENT) for place in places)
        for name in sorted(self.env.keys() - self.passed):
            value = self.env[name]
            if (value.places == items and value.slot == slot) or (name in self.copies and value.places == places):
                self.hold(name, places, span, slot)

    def hold_found(self, keys: Sequence[str], span: Span) -> None:
        """A call is about to empty a table: variables that have an item of it hold that on; a lookup may have found none."""
        if self.in_capture or not self.emitting:
            return
        items = {
            name: value.slot
            for name, value in self.env.items()
            if value.slot is not None and name not in self.passed and self._is_item(value)
            if self.found.get(name) is not value
        }
        emptied = self._emptied(keys, 0) if items else frozenset[Slot]()
        for name in sorted(items):
            if items[name] in emptied:
                self.found[name] = self.env[name]
                self._hold_item(name, span)

    def _hold_item(self, name: str, span: Span) -> None:
        value = self.env[name]
        tables = tuple(place[:-1] for place in value.places)
        node = self.nodes(lambda: self.hold(name, tables, span, value.slot))
        if node != b.NOTHING:
            self.emit(b.Either(("atom", "none", value.places[0]), b.NOTHING, node, span))

    def hold_emptied(self, keys: Sequence[str], span: Span) -> None:
        """A call has emptied a table: variables that have a copy of it hold that on."""
        if self.in_capture:
            return
        copies = {name: slot for name in self.copies if name in self.env and (slot := self.env[name].slot) is not None}
        emptied = self._emptied(keys, 0) if copies else frozenset[Slot]()
        for name in sorted(copies):
            if copies[name] in emptied:
                self.hold(name, self.env[name].places, span, copies[name])

    def _is_item(self, value: Value) -> bool:
        """Whether a value is an item of a table that others can empty, and no graph."""
        return (
            "graph" not in value.tags
            and not value.calls
            and bool(value.places)
            and all(len(place) > 2 and place[-1] == ELEMENT and place[0][0] not in "@%" for place in value.places)
            and not self.is_plain(value)
        )

    def _emptied(self, keys: Iterable[str], depth: int) -> frozenset[Slot]:
        found: frozenset[Slot] = frozenset()
        for built in map(self.all.built, keys):
            if built is not None:
                found |= built.emptied
                found |= self._emptied(built.callees, depth + 1) if depth < _DEEPEST_CALL else frozenset()
        return found

    def hold_parts(
        self, targets: Sequence[Expr], value: Value, parts: Sequence[Value], span: Span, *, known: bool
    ) -> None:
        """Of what a call gave, what a capture made belongs to the graphs that it gave beside that."""
        if self.in_capture or not self.emitting or (not known and "captured" not in value.tags):
            return
        graphs = tuple(dict.fromkeys(place for part in parts for place in all_of(part)))
        for target, part in zip(targets, parts, strict=True):
            base = target.base if isinstance(target, flow.Item) else target
            if not isinstance(base, flow.Name) or "captured" not in part.tags or self.is_plain(part):
                continue
            is_item = base is not target and self.env.get(base.id, NOTHING_KNOWN).places[:1] != ()
            if (is_item and self._known_as(self.env[base.id].places[0])) or (
                base is target and base.id in self.env and base.id not in self.holding
            ):
                self.hold(base.id, graphs, span)

    def hold_taken(self, target: Expr, places: tuple[Place, ...], source: Slot | None, span: Span) -> None:
        """Of what was taken out of a container, what a capture made is held by the variables that are given it now."""
        items = target.items if isinstance(target, flow.Group) else (target,)
        names = [item.id for item in items if isinstance(item, flow.Name)]
        values = {name: self.env.get(name, NOTHING_KNOWN) for name in names}
        graphs = {name for name, value in values.items() if self._is_graph_or_plain(value)}
        for name, value in values.items():
            is_record = any(self._is_graphs(t, 0) for t in value.types)
            if name not in graphs and (is_record or graphs or len(names) == 1):
                self.hold(name, places, span, source)

    def _is_graph_or_plain(self, value: Value) -> bool:
        return "graph" in value.tags or self.is_plain(value)

    def is_plain(self, value: Value) -> bool:
        """Whether a value is known to be a number, a text or a graph."""
        names = {self.vocabulary.canonical(t.name) for t in value.types}
        return bool(names) and names <= {"bool", "int", "float", "str", GRAPH}

    def has_graphs(self, types: Iterable[Type]) -> bool:
        """Whether items of containers are graphs, or records with a graph in them."""
        return any(self._is_graphs(item, 0) for t in types if t.name in CONTAINERS for item in t.items)

    def _is_graphs(self, t: Type, depth: int) -> bool:
        if self.vocabulary.canonical(t.name) == GRAPH:
            return True
        if depth > _DEEPEST_RECORD:
            return False
        if t.name in CONTAINERS:
            return any(self._is_graphs(item, depth + 1) for item in t.items)
        fields = self.all.record_fields(t.name) if t.name in self.all.project.classes else ()
        inside = (each for name in fields for each in self.all.field_types(t.name, name))
        return any(self._is_graphs(each, depth + 1) for each in inside)

    def put_in(self, places: tuple[Place, ...], value: Value) -> None:
        """Note that a container, a parameter or a variable of the function around, is given what a capture made."""
        if len(places) != 1 or not holds_captured(value):
            return
        place = _container(places[0])
        if (place[0][0] == "$" and len(place) == 1) or (place[0].startswith("cell:") and len(place) == 2):
            if self.in_capture:
                self.put_here.append(place)
            else:
                self._fill(place, self.graphs_of(value))

    def filled_inside(self, name: str, item: Value, span: Span) -> None:
        """A local container, or one in it, is given an item."""
        places = self.env.get(name, NOTHING_KNOWN).places
        if self.emitting and holds_captured(item) and len(places) == 1 and places[0][0][0] == "@":
            if self.in_capture:
                self.given_here.append(name)
            else:
                self.hold(name, self.graphs_of(item), span)

    def given_attribute(self, name: str, attribute: str, value: Value, span: Span) -> None:
        """A local object is given an attribute."""
        if self.emitting and name in self.env and holds_captured(value):
            known = self.env[name]
            self.env[name] = known._replace(fields={**known.fields, attribute: value})
            self.filled_inside(name, value, span)

    def _fill(self, place: Place, graphs: tuple[Place, ...]) -> None:
        if graphs:
            self.fills[place] = tuple(dict.fromkeys((*self.fills.get(place, ()), *graphs)))

    def filled_by(self, built: Behavior, bindings: Mapping[str, Value], span: Span) -> None:
        """Have containers that a call fills with what it, or the capture around, made hold that."""
        for param in _given_in_capture(built) if self.in_capture else ():
            for place in bindings.get(param, NOTHING_KNOWN).places:
                self.given_here += self._known_as(place)
                if len(place) == 1 and place[0][0] == "$":
                    self.put_here.append(place)
        for filled, graphs in built.fills.items():
            inside = [each for graph in graphs for each in _outside(graph, built, span)]
            known = tuple(dict.fromkeys(here for each in inside for here in self._here(each, bindings)))
            for place in self._here(filled, bindings) if known else ():
                for name in self._known_as(place):
                    self.env[name] = self.env[name]._replace(tags=self.env[name].tags | {"captured"})
                    self.hold(name, known, span)
                if place[0][0] == "$" or place[0].startswith("cell:"):
                    self._fill(place, known)

    def _here(self, place: Place, bindings: Mapping[str, Value]) -> Iterator[Place]:
        """A place of a callee as one of the function at hand."""
        bases: Sequence[Place] = (place[:1],)
        rest = place[1:]
        if place[0][0] == "$":
            bases = bindings.get(place[0][1:], NOTHING_KNOWN).places
        elif place[0] == f"cell:{self.entry.name}":
            bases, rest = self.env.get(place[1], NOTHING_KNOWN).places, place[2:]
        for base in bases:
            yield (*base, *rest)

    def _known_as(self, place: Place) -> list[str]:
        """The local variables whose container, made here, a place is."""
        is_made = len(place) == 1 and place[0][0] == "@"
        return [name for name, each in self.env.items() if each.places == (place,)] if is_made else []

    def gone_by(self, param: str, value: Value, built: Behavior, span: Span) -> None:
        """What a local variable holds is gone where a callee empties it, or a part of it."""
        if not value.places or not any(self._given_up(param, built, 0)):
            return
        for name in list(self.holding):
            if value.places in self._places_of(self.env.get(name, NOTHING_KNOWN)):
                self.let_go(name, span)

    def part_gone(self, owner: Value, attribute: str, span: Span) -> None:
        """What a local variable holds is gone where the attribute is emptied that has it, in a record of its own or each."""
        if not owner.places:
            return
        for name in list(self.holding):
            held = self.env.get(name, NOTHING_KNOWN)
            if owner.places in self._places_of(held):
                record = held.each if held.each is not None and held.each.fields else held
                part = record.fields.get(attribute, owner.fields.get(attribute))
                if part is not None and ("graph" in part.tags or not holds_captured(part)):
                    continue
                if part is not None or not self._keeps_graph(owner, attribute):
                    self.let_go(name, span)

    def _keeps_graph(self, owner: Value, attribute: str) -> bool:
        types = (each for t in owner.types for each in self.all.field_types(t.name, attribute))
        return any(self.vocabulary.canonical(each.name) == GRAPH for each in types)

    @staticmethod
    def _places_of(value: Value) -> tuple[tuple[Place, ...], ...]:
        """The places of a value, and those of any item of it."""
        each = value.each.places if value.each is not None else ()
        return value.places, tuple((*place, ELEMENT) for place in value.places), each

    def _given_up(self, param: str, built: Behavior, depth: int) -> Iterator[bool]:
        """For each time that a function gives up what an argument holds, itself or in a call."""
        root = f"${param}"
        for node in built.nodes:
            if isinstance(node, b.Touches):
                ends = node.how in ("clear", "pop", "drop")
                part = ends or (node.how == "write" and not node.tags.isdisjoint(("none", "empty")))
                if (ends and (root,) in node.places) or (part and self._is_part(node, root)):
                    yield True
            elif isinstance(node, b.Calls) and depth < _DEEPEST_CALL:
                for inner, places in node.bindings:
                    for callee in map(self.all.built, node.behaviors) if (root,) in places else ():
                        if callee is not None:
                            yield from self._given_up(inner, callee, depth + 1)

    def _is_part(self, node: b.Touches, root: str) -> bool:
        """Whether an attribute, no graph, of an argument or of the items of it is what a change is about."""
        if not any(place[0] == root and len(place) > 1 for place in node.places):
            return False
        types = self.all.field_types(*node.slot) if node.slot is not None and ":" not in node.slot[0] else ()
        return not any(self.vocabulary.canonical(each.name) == GRAPH for each in types)


def _given_in_capture(built: Behavior) -> Iterator[str]:
    """Parameters that a function puts into what it allocates or computes: it runs in a capture."""
    for node in built.nodes:
        if isinstance(node, b.Touches) and node.how == "add" and len(node.places) == 1 and len(node.places[0]) == 1:
            made = "tensor" in node.tags or not built.computed.isdisjoint(node.value_places)
            if made and node.places[0][0][0] == "$":
                yield node.places[0][0][1:]


def _outside(graph: Place, built: Behavior, span: Span) -> Iterator[Place]:
    """Where the caller of a function finds a graph of it: in what it is given back, or where the function has put it."""
    if graph in all_of(built.returns):
        yield (f"@{span.start}",)
    kept = (
        _container(node.places[0])
        for node in built.nodes
        if isinstance(node, b.Touches) and node.how in ("add", "write") and graph in node.value_places and node.places
    )
    for place in (graph, *kept):
        if place[0][0] == "$" or ":" in place[0]:
            yield place


def _container(place: Place) -> Place:
    return place[: place.index(ELEMENT)] if ELEMENT in place else place
