"""What attributes, variables, parameters and return values can be, anywhere in a project.

Types come first from annotations, then from what is assigned, then from who calls. The answers are over all bindings of a name;
what it is at one point of a function, the evaluation of that function knows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, Protocol

from graphlint import behavior as b
from graphlint import flow, records
from graphlint.assignments import (
    argument_for,
    assigned,
    falls_through,
    given_locally,
    is_field,
    is_record,
    read_expressions,
    returning,
    starts_empty,
)
from graphlint.behavior import Behavior, Slot
from graphlint.bindings import FieldBindings
from graphlint.constructors import Given, given_attributes
from graphlint.dispatch import Dispatch
from graphlint.facts import MODULE
from graphlint.flow import Expr
from graphlint.handing import Handing
from graphlint.project import ClassEntry, FunctionEntry, Module, Project
from graphlint.rebasing import kept_bound
from graphlint.records import Records
from graphlint.sieve import identifiers
from graphlint.source import Span
from graphlint.values import CONTAINERS, NOTHING_KNOWN, WIDEST, Bound, Place, Symbol, Type, Value, is_vague, union
from graphlint.vocabulary import Entry, Vocabulary

_DEEPEST = 24
"""Deepest nesting of typing questions; past it nothing is known."""
_GRAPHS = ("graph", "pool", "mempool")
_SMALL_PACKAGE = 12
_MOST_CALLERS = 24
_MOST_SUBCLASSES = 8
_MOST_MIXED = 2
_IN_FRONT = frozenset(("appendleft", "insert"))
"""Methods that put an item in front of others."""
HELD = frozenset(("tensor", "captured", "graph", "pool", "mempool", "plan"))
"""Tags that say what an attribute or a variable holds."""


@dataclass
class SlotNotes:
    """What is known of an attribute of a class or a variable of a module, over all of its uses."""

    tags: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    sources: set[Slot] = field(default_factory=set)
    """Slots whose values were put here as they are: both hold on to the same objects."""
    same: set[Slot] = field(default_factory=set)
    """Those of them that are the very same container: what empties one empties the other."""
    capturers: set[str] = field(default_factory=set)
    """Classes, and modules of functions, that captured what was put here."""
    objects: set[str] = field(default_factory=set)
    """Of a local variable: classes whose objects, made by the function, it stands for."""


class Known(NamedTuple):
    """What an attribute, a variable or a parameter can be, over all of its bindings; nothing of where that lives."""

    types: tuple[Type, ...] = ()
    calls: tuple[Bound, ...] = ()
    symbol: Symbol | None = None
    """A module, class or function that every binding names."""


class Around(Protocol):
    """The evaluation of a function, as those in it see it."""

    entry: FunctionEntry
    env: dict[str, Value]
    params: frozenset[str]
    handed: tuple[str, ...]
    me: str

    @property
    def parent(self) -> Around | None:
        """The evaluation of the function around it."""

    def variable(self, name: str) -> Value:
        """What a name means in it."""


class Knowledge(ABC):
    """What is known of a project's names, found out when asked for."""

    def __init__(self, project: Project, vocabulary: Vocabulary) -> None:
        self.project = project
        self.vocabulary = vocabulary
        self.dispatch = Dispatch(project)
        self.handing = Handing()
        self.slots: dict[Slot, SlotNotes] = {}
        self.given: dict[str, set[str]] = {}
        """By function, its parameters that are given device memory as it is allocated."""
        self.captures_given: dict[tuple[str, str], set[str]] = {}
        """Functions and their parameters that are given what a capture made, with the classes and modules that captured."""
        self.slots_given: dict[tuple[str, str], set[Slot]] = {}
        """Functions and their parameters, with the attributes and variables whose values these are given."""
        self.filled: dict[tuple[str, str], set[Type]] = {}
        """Functions and their parameters, with what is put into the containers that these are given."""
        self.streams: set[tuple[str, str]] = set()
        """Functions and their parameters that are given the identity of a stream."""
        self.capture_allocations: dict[str, Entry] = {}
        """Vocabulary entries, by name, whose call was seen or whose release is known, that allocate while capturing."""
        self.registered: dict[Slot, dict[str, str | None]] = {}
        """By attribute or variable that keeps an exit stack: keys of what it does at its end, with the name that each has
        for the object."""
        self.done: dict[Slot, dict[str, Bound]] = {}
        """By attribute or variable that keeps a task, the functions that run when it is done."""
        self.finalizers: dict[str, dict[str, str]] = {}
        """By class, the same for what runs when an object of it goes."""
        self.at_exit: set[str] = set()
        """Functions of no object that run at the end of the process and give back what they may have given back before."""
        self.cleanups: dict[str, dict[str, tuple[str, Span]]] = {}
        """By class of tests, the methods that run behind the end of each, and where that is said: the function, and the call."""
        self.ways: dict[str, dict[Place, set[Place]]] = {}
        """By class, ways through attributes of an object, and the attributes whose object they lead to."""
        self.alike: dict[str, dict[str, set[str]]] = {}
        """By class, attributes of an object, and the attributes whose object they may be."""
        self.picked: dict[str, dict[Place, set[Place]]] = {}
        """By class, tables, as ways from an object, and the attributes that are items of them: `self.driver = self.workers[0]`."""
        self.doubled: set[Slot] = set()
        """Tables in which one object stands under several keys."""
        self.hooks: dict[Slot, tuple[Bound, ...]] = {}
        """By attribute, the functions that others than its class put into it."""
        self.passed_over: dict[str, set[str]] = {}
        """By function that did nothing when it was handed to another one, the functions that did so."""
        self.steps: dict[Slot, tuple[Value, ...] | None] = {}
        """By attribute or variable that has functions in an order, these."""
        self.served: dict[Slot, tuple[Any, ...]] = {}
        """By attribute that keeps a queue, the calls that are made of what is taken out of it."""
        self.closures: dict[str, Around] = {}
        """By nested function, and by what the function around it was handed, the evaluation of that function which last saw it."""
        self.started: dict[str, dict[str, Value]] = {}
        """By function, what its parameters can be, and its local variables over all of their bindings."""
        self.cut = 0
        """How often a question was not followed further, so that an answer may be less than whole."""
        self._known: dict[tuple[str, str], Known] = {}
        self._members: dict[tuple[str, str, bool], tuple[str | None, tuple[str, ...]]] = {}
        self._definers: dict[tuple[str, str], str | None] = {}
        self._shared: dict[tuple[str, str], str | None] = {}
        self._bindings: dict[str, FieldBindings] = {}
        self._returns: dict[str, Value] = {}
        self._aliases: dict[str, dict[str, str]] = {}
        self._given: dict[str, Mapping[str, Given]] = {}
        self._locals: dict[str, dict[str, list[tuple[Expr, str]]]] = {}
        self._calling: dict[str, tuple[tuple[FunctionEntry, flow.Call], ...]] = {}
        self._raising: dict[str, bool] = {}
        self._outside: dict[str, bool] = {}
        self._mixtures: dict[str, Sequence[str]] = {}
        self._busy: set[object] = set()
        self._depth = 0
        self._listed: dict[tuple[str, str], tuple[str, ...]] = {}
        self._records: dict[str, Records] = {}
        self._by_module: dict[str, list[FunctionEntry]] | None = None
        self._by_word: dict[str, list[FunctionEntry]] | None = None

    @abstractmethod
    def reader(self, function: FunctionEntry, *, handing: bool = False) -> Callable[[Expr], Value]:
        """What tells the value of an expression of a function, wherever in it; nothing is emitted.

        Args:
            function: it.
            handing: what is no function of the project, and is not called, is one that calls it.
        """

    @abstractmethod
    def build(self, name: str, types: Mapping[str, tuple[Type, ...]] | None = None) -> Behavior | None:
        """Behavior of a function, if it can be built now."""

    @abstractmethod
    def does_something(self, name: str) -> bool:
        """Whether something happens in a function, or it gives something up, as far as it is built."""

    @abstractmethod
    def built(self, key: str) -> Behavior | None:
        """The behavior of a key, if it is built."""

    @abstractmethod
    def put(self, behavior: Behavior) -> None:
        """Add a behavior that is a part of another one, which runs later."""

    def at_module(self, module: Module) -> Callable[[Expr], Value]:
        """What tells the value of an expression at a module's own level."""
        return self.reader(self.project.functions[f"{module.name}.{MODULE}"])

    def note(self, slot: Slot | None) -> SlotNotes:
        """Notes on a slot, to be added to."""
        if slot is None:
            return SlotNotes()
        return self.slots.setdefault(slot, SlotNotes())

    def registration(self, class_name: str, function: str) -> tuple[str, Span] | None:
        """The method of a test, and the call in it, that has a function run at the end; None where none has."""
        known = (self.cleanups.get(each, {}) for each in self.project.mro(class_name))
        return next((each[function] for each in known if function in each), None)

    def allocates(self, class_name: str) -> bool:
        """Whether the constructor of a class allocates device memory and keeps it in the object."""
        init = self.project.method(class_name, "__init__")
        built = self.build(init) if init is not None else None
        if built is None:
            return False
        me = f"${built.receiver}"
        return any(
            isinstance(node, b.Touches) and node.fresh and node.places and node.places[0][0] == me
            for node in built.nodes
        )

    def runs_outside(self, name: str) -> bool:
        """Whether a decorator has a function run outside of the capture that calls it."""
        known = self._outside.get(name)
        if known is None:
            known = self._outside[name] = any(map(self.vocabulary.decorated, self._decorators(name)))
        return known

    def _decorators(self, name: str) -> Iterator[list[str]]:
        """Canonical names of what decorates a function."""
        entry = self.project.functions[name]
        for decorator in entry.facts.decorators:
            while isinstance(decorator, flow.Call):
                decorator = decorator.callee
            dotted = self.project.dotted(entry.module, decorator)
            if dotted is not None:
                yield [self.vocabulary.canonical(self.project.resolve(dotted).name)]

    def field_types(self, class_name: str, name: str) -> tuple[Type, ...]:
        """Types that an attribute of a class's instances can have."""
        return self.field(class_name, name).types

    def field(self, class_name: str, name: str) -> Known:
        """What an attribute of a class's instances can be; receivers in it are over the instance, `$self`."""
        return self._asked((class_name, name), lambda: self._field(class_name, name))

    def _asked(self, key: tuple[str, str], find: Callable[[], Known]) -> Known:
        """The answer to a question, found once; nothing is known while it is asked, or past the deepest nesting."""
        known = self._known.get(key)
        if known is None:
            if key in self._busy or self._depth > _DEEPEST:
                self.cut += 1
                return Known()
            self._busy.add(key)
            self._depth += 1
            try:
                known = self._known[key] = find()
            finally:
                self._busy.discard(key)
                self._depth -= 1
        return known

    def _field(self, class_name: str, name: str) -> Known:
        known = self._assigned(self.project.mro(class_name), name)
        if not (known.calls or known.symbol) and (not known.types or is_vague(known.types)):
            later = tuple(self._descendants(class_name))  # what a base declares, its subclasses fill in
            if any(self._speaks_of(each, name) for each in later):
                given = self._assigned((*self.project.mro(class_name), *later), name)
                known = given if given.types or given.calls or given.symbol else known
        return known

    def _descendants(self, class_name: str) -> Iterator[str]:
        for each in self.project.subclasses.get(class_name, ())[:_MOST_SUBCLASSES]:
            yield each
            yield from self._descendants(each)

    def _speaks_of(self, class_name: str, name: str) -> bool:
        entry = self.project.classes.get(class_name)
        return entry is not None and (name in entry.attributes or name in self.field_bindings(class_name))

    def _assigned(self, classes: Sequence[str], name: str) -> Known:
        """What classes and their methods give an attribute of an instance of the first."""
        found: list[Type] = []
        items: list[Type] = []
        values: list[tuple[Value, str]] = []
        for each in classes:
            entry = self.project.classes.get(each)
            if entry is None:
                continue
            attribute = entry.attributes.get(name)
            if attribute is not None:
                if attribute.annotation is not None:
                    declared = self.project.annotation(entry.module, attribute.annotation)
                    found += declared
                    if is_record(entry) and any(t.name.rpartition(".")[2] == "Callable" for t in declared):
                        values += [(each, "") for each in self._given_to_record(entry, name)]
                if attribute.value is not None:
                    value = self.at_module(entry.module)(attribute.value)
                    found += value.types
                    if "none" not in value.tags:  # nothing yet
                        values.append((value, ""))
                    self.note((each, name)).tags |= value.tags & HELD
            for function, expr, how in self.field_bindings(each).get(name, ()):
                if how == "annotation":
                    found += self.project.annotation(function.module, expr)
                    continue
                value = self.reader(function)(expr)
                if how == "item":
                    items += value.types
                    value = Value(calls=value.calls or _tuple_calls(value) or _held_calls(value))
                else:
                    found += value.types
                values.append((value, function.facts.params[0].name if function.facts.params else ""))
        return _known(_merge(found, items), values)

    def _given_to_record(self, entry: ClassEntry, field_name: str) -> Iterator[Value]:
        """What the project's calls of a dataclass or a NamedTuple give one of its fields."""
        short = entry.name.rpartition(".")[2]
        names = self.record_fields(entry.name)
        callers = self.functions_with(short)
        for caller in callers if len(callers) <= _MOST_CALLERS and field_name in names else ():
            for call in caller.calls:
                if flow.last_name(call.callee) != short or any(map(flow.is_spread, call.args)):
                    continue
                keywords = {name: value for name, value in call.keywords if name is not None}
                given = {**dict(zip(names, call.args, strict=False)), **keywords}.get(field_name)
                if given is not None:
                    yield self.reader(caller)(given)

    def field_bindings(self, class_name: str) -> FieldBindings:
        """What the methods of a class assign to attributes of their instance."""
        known = self._bindings.get(class_name)
        if known is None:
            entry = self.project.classes.get(class_name)
            methods = [self.project.functions[each] for each in entry.methods.values()] if entry is not None else []
            known = self._bindings[class_name] = FieldBindings(class_name, methods)
        return known

    def records(self, module: Module) -> Records:
        """The dictionaries that stand for objects, in the package of a module; none where nothing has to do with graphs."""
        package = module.name.rpartition(".")[0]
        known = self._records.get(package)
        if known is None:
            words = identifiers(self.vocabulary)
            tops = [self.project.functions[f"{name}.{MODULE}"] for name in self._packages.get(package, ())]
            near = [top for top in tops if not self._making.isdisjoint(top.facts.words)]
            if near and len(tops) <= _SMALL_PACKAGE:  # others there may end what these make
                near = [top for top in tops if not words.isdisjoint(top.facts.words)]
            known = self._records[package] = records.read(
                (top.module.name, list(self._of_module(top.module.name))) for top in near
            )
        return known

    @cached_property
    def _packages(self) -> Mapping[str, Sequence[str]]:
        """Modules by package."""
        found: dict[str, list[str]] = {}
        for name in self.project.modules:
            found.setdefault(name.rpartition(".")[0], []).append(name)
        return found

    @cached_property
    def _making(self) -> frozenset[str]:
        """Names by which graphs and their pools are made."""
        known = self.vocabulary.calls.items()
        made = {name.rpartition(".")[2] for name, entries in known if any(e.makes in _GRAPHS for e in entries)}
        return frozenset(word for word in made if len(word) > len("graph"))

    def _of_module(self, name: str) -> Iterator[FunctionEntry]:
        """The functions of a module, and its own level."""
        if self._by_module is None:
            self._by_module = {}
            for entry in self.project.functions.values():
                self._by_module.setdefault(entry.module.name, []).append(entry)
        yield from self._by_module.get(name, ())

    def record_entry(self, module: Module, key: str) -> Known:
        """What a key of such dictionaries can hold."""
        package = module.name.rpartition(".")[0]
        return self._asked((f"keys:{package}", key), lambda: self._record_entry(module, key))

    def _record_entry(self, module: Module, key: str) -> Known:
        found: list[Type] = []
        items: list[Type] = []
        values: list[tuple[Value, str]] = []
        for function, expr, how in self.records(module).given.get(key, ()):
            value = self.reader(function)(expr)
            if how == "item":
                items += value.types
                value = Value(calls=value.calls)
            else:
                found += value.types
            if "none" not in value.tags:
                values.append(
                    (value, function.facts.params[0].name if function.owner and function.facts.params else "")
                )
        return _known(_merge(found, items), values)

    def known_types(self, slot: Slot) -> tuple[Type, ...]:
        """Types of what was found out to be in a slot."""
        return self._known.get(slot, Known()).types

    def constant_texts(self, class_name: str, name: str) -> tuple[str, ...]:
        """The strings of a tuple that a class has for an attribute, and that nothing changes."""
        entry = self.project.classes.get(class_name)
        attribute = entry.attributes.get(name) if entry is not None else None
        value = attribute.value if attribute is not None else None
        if not isinstance(value, flow.Group) or value.kind != "tuple" or self.field_bindings(class_name).get(name):
            return ()
        texts = [item.value if isinstance(item, flow.Lit) else None for item in value.items]
        return tuple(text for text in texts if isinstance(text, str)) if all(isinstance(t, str) for t in texts) else ()

    def listed(self, class_name: str, name: str) -> tuple[str, ...]:
        """Attributes whose objects an attribute of a class lists, where it stays as the constructor makes it."""
        key = (class_name, name)
        known = self._listed.get(key)
        if known is None:
            known = self._listed[key] = self._list(class_name, name)
        return known

    def _list(self, class_name: str, name: str) -> tuple[str, ...]:
        bound = [
            each
            for owner in self.project.mro(class_name)
            if owner in self.project.classes
            for each in self.field_bindings(owner).get(name, ())
            if each[2] != "annotation"
        ]
        if not bound or bound[0][2] != "set" or {function.facts.name for function, _, _ in bound} != {"__init__"}:
            return ()
        function, value, _ = bound[0]
        me = function.facts.params[0].name if function.facts.params else ""
        items = value.items if isinstance(value, flow.Group) and value.kind in ("list", "tuple", "dict") else ()
        if len(bound) > 1:  # filled one by one, in this order
            is_list = isinstance(value, flow.Group) and value.kind == "list" and not value.items
            if not is_list or any(each is not function or how != "item" for each, _, how in bound[1:]):
                return ()
            if any(flow.last_name(call) in _IN_FRONT and _is_of(call, name) for call in function.calls):
                return ()
            items = tuple(each for _, each, _ in bound[1:])
        names: list[str] = []
        for item in items:
            match item:
                case flow.Attr(base=flow.Name(id=base), name=attribute) if base == me:
                    names.append(attribute)
                case flow.Name(id=local) if not _is_now_and_then(function, item):
                    given = _given_to(function, local, me)
                    if given is None:
                        return ()
                    names.append(given)
                case _:
                    return ()
        if not all(self.is_set_once(class_name, each) for each in names) or self._is_added_to(name, function.name):
            return ()
        return tuple(names)

    def _is_added_to(self, name: str, but: str) -> bool:
        """Whether any function but one puts something into a container of this name, or updates it in place."""
        item = f"{name}[]"
        for entry in self.functions_with(name):
            if entry.name == but:
                continue
            if entry.facts.assigns is not None:
                if item in entry.facts.assigns:
                    return True
                continue
            for target, _, how in assigned(entry.lowered.flow):
                if how == "item" and isinstance(target, flow.Item) and flow.last_name(target.base) == name:
                    return True
            for each in flow.statements(entry.lowered.flow):
                if isinstance(each, flow.Bind) and each.op and flow.last_name(each.target) == name:
                    return True
        return False

    def ways_of(self, class_name: str) -> dict[Place, Place]:
        """Ways through the attributes of a class's instances, and what they lead to, where that stays as it is made."""
        found: dict[Place, Place] = {}
        for each in self.project.mro(class_name):
            for way, targets in self.ways.get(each, {}).items():
                target = min(targets)
                if len(targets) == 1 and way != target and self.is_set_once(each, way[0]):
                    if not target or (self.is_set_once(each, target[0]) and not self._is_given_up(each, target)):
                        found[way] = target
        return found

    def _is_given_up(self, class_name: str, target: Place) -> bool:
        """Whether an attribute is a handle that methods give up: who has a copy of it does not lose that."""
        notes = self.slots.get((class_name, target[0])) if len(target) == 1 else None
        return (
            notes is not None
            and "pool" in notes.tags
            and any(
                isinstance(expr, flow.Lit) and expr.value is None and function.facts.name != "__init__"
                for function, expr, how in self.field_bindings(class_name).get(target[0], ())
                if how == "set"
            )
        )

    def alike_of(self, class_name: str) -> dict[str, str]:
        """Attributes of a class's instances that may be the object which one other attribute is."""
        found: dict[str, str] = {}
        for each in self.project.mro(class_name):
            for name, targets in self.alike.get(each, {}).items():
                if len(targets) == 1:
                    found[name] = min(targets)
        return {name: target for name, target in found.items() if target not in found}

    def picked_of(self, class_name: str) -> dict[Place, tuple[Place, ...]]:
        """Tables of a class's instances, as ways, and the ways to objects that may be items of them, where that stays as it is made."""
        found: dict[Place, tuple[Place, ...]] = {}
        for each in self.project.mro(class_name):
            for table, members in self.picked.get(each, {}).items():
                lasting = [way for way in sorted(members) if way and self.is_set_once(class_name, way[0])]
                if lasting and self.is_set_once(class_name, table[0]):
                    found[table] = tuple(dict.fromkeys((*found.get(table, ()), *lasting)))
        return found

    def is_set_once(self, class_name: str, name: str) -> bool:
        """Whether one assignment alone gives an attribute of an instance something."""
        given = [
            expr
            for each in self.project.mro(class_name)
            for _, expr, how in self.field_bindings(each).get(name, ())
            if how == "set" and not (isinstance(expr, flow.Lit) and expr.value is None)
        ]
        if given:
            return len(given) == 1
        entry = self.project.classes.get(class_name)
        return entry is not None and name in entry.attributes and is_record(entry) and is_field(entry, name)

    def stays_empty(self, slot: Slot) -> bool:
        """Whether nothing in the project puts anything into a container that an attribute or a variable holds."""
        owner, name = slot
        if owner in self.project.classes:
            bound = [
                (expr, how)
                for each in self.project.mro(owner)
                if each in self.project.classes
                for _, expr, how in self.field_bindings(each).get(name, ())
            ]
            declared = [self.project.classes[each].attributes.get(name) for each in self.project.mro(owner)
                        if each in self.project.classes]  # fmt: skip
            bound += [(each.value, "set") for each in declared if each is not None and each.value is not None]
        else:
            module = self.project.modules.get(owner[4:]) if owner.startswith("mod:") else None
            if module is None:
                return False
            bound = [(bind.value, "set") for bind in module.variables.get(name, ()) if bind.value is not None]
            bound += [(expr, how) for _, expr, how in self._later_bindings(module, name)]
        values = [(expr, how) for expr, how in bound if how != "annotation"]
        return bool(values) and all(how == "set" and starts_empty(expr) for expr, how in values)

    def members(self, class_name: str, name: str, *, exact: bool) -> tuple[str | None, tuple[str, ...]]:
        """What a name is in a class and those above it: a class, or functions of which one runs.

        Args:
            class_name: of the object.
            name: of the attribute.
            exact: whether the object is of no subclass.
        """
        key = class_name, name, exact
        known = self._members.get(key)
        if known is None:
            project = self.project
            nested = (f"{each}.{name}" for each in project.mro(class_name) if f"{each}.{name}" in project.classes)
            method = project.method(class_name, name)
            found = [method] if method is not None else []
            if not exact and (method is None or project.functions[method].facts.is_abstract):
                found += [*project.overriders(class_name, name), *project.implementers(class_name, name)]
            if not found and not exact and self.definer(class_name, name) is None:  # a mixin, and the classes beside it
                mixed = (project.method(each, name) for each in self._mixed(class_name))
                found += [each for each in mixed if each is not None]
            known = self._members[key] = next(nested, None), tuple(dict.fromkeys(found))
        return known

    def definer(self, class_name: str, name: str) -> str | None:
        """The topmost ancestor that assigns an attribute: one slot for a whole hierarchy."""
        key = class_name, name
        if key not in self._definers:
            self._definers[key] = next(
                (
                    each
                    for each in reversed(self.project.mro(class_name))
                    if each in self.project.classes
                    and (name in self.field_bindings(each) or name in self.project.classes[each].attributes)
                ),
                None,
            )
        return self._definers[key]

    def mixed_in(self, class_name: str, name: str) -> str | None:
        """The topmost ancestor of a class made of a mixin and of others that assigns an attribute which the mixin reads."""
        return next(
            (found for each in self._mixed(class_name) if (found := self.definer(each, name)) is not None), None
        )

    def _mixed(self, class_name: str) -> Sequence[str]:
        """Subclasses that have other bases beside a class: the first ones."""
        known = self._mixtures.get(class_name)
        if known is None:
            classes = self.project.classes
            later = islice(self._descendants(class_name), _MOST_SUBCLASSES)
            known = [each for each in later if len(classes[each].facts.bases) > 1][:_MOST_MIXED]
            self._mixtures[class_name] = known
        return known

    def is_shared(self, class_name: str, name: str) -> str | None:
        """The class that holds `instance.name`, where it is a class attribute that no instance overrides."""
        key = class_name, name
        if key not in self._shared:
            self._shared[key] = self._holder(class_name, name)
        return self._shared[key]

    def _holder(self, class_name: str, name: str) -> str | None:
        holder = None
        for each in self.project.mro(class_name):
            entry = self.project.classes.get(each)
            if entry is None:
                continue
            for function, _, how in self.field_bindings(each).get(name, ()):
                if function.kind != "classmethod" and how != "item":
                    return None
            if holder is None and name in entry.attributes and not is_field(entry, name):
                holder = each
        return holder

    def variable_types(self, dotted: str) -> tuple[Type, ...]:
        """Types of a module-level variable."""
        return self.variable(dotted).types

    def variable(self, dotted: str) -> Known:
        """What a module-level variable can be."""
        module_name, _, name = dotted.rpartition(".")
        key = ("mod:" + module_name, name)
        known = self._known.get(key)
        if known is None:
            module = self.project.modules.get(module_name)
            if module is None:
                return Known()
            if key in self._busy:
                self.cut += 1
                return Known()
            self._busy.add(key)
            try:
                known = self._known[key] = self._variable(module, name)
            finally:
                self._busy.discard(key)
        return known

    def _variable(self, module: Module, name: str) -> Known:
        found: list[Type] = []
        items: list[Type] = []
        values: list[tuple[Value, str]] = []
        binds = module.variables.get(name, ())
        for bind in binds:
            found += self.project.annotation(module, bind.annotation)
            if bind.value is not None:
                value = self.at_module(module)(bind.value)
                found += value.types
                values.append((value, ""))
        if any(bind.value is not None and starts_empty(bind.value) for bind in binds):
            for function, expr, how in self._later_bindings(module, name):
                value = self.reader(function)(expr)
                if how == "item":
                    items += value.types
                    value = Value(calls=value.calls or _tuple_calls(value))
                else:
                    found += value.types
                values.append((value, ""))
        return _known(_merge(found, items), values)

    def _later_bindings(self, module: Module, name: str) -> Iterator[tuple[FunctionEntry, Expr, str]]:
        """What functions of a module give a variable of it, or put into it."""
        for function in self._with_nested(name):
            if function.module is not module or function.facts.qualname == MODULE:
                continue
            for target, value, how in assigned(function.lowered.flow):
                match target:
                    case flow.Name(id=target_name) if target_name == name and name in function.lowered.globals:
                        yield function, value, how
                    case flow.Item(base=flow.Name(id=target_name)) if target_name == name and how == "item":
                        yield function, value, how
                    case flow.Item(
                        base=flow.Item(base=flow.Name(id=target_name))
                        | flow.Call(callee=flow.Attr(base=flow.Name(id=target_name), name="setdefault"))
                    ) if target_name == name and how == "item":
                        yield function, value, how  # of a table of lists

    def _with_nested(self, word: str) -> Iterator[FunctionEntry]:
        """Functions whose text has an identifier, and those that they define and that have it, too."""
        for function in self.functions_with(word):
            yield function
            for facts in function.lowered.nested if function.parent is None else ():
                if word in facts.words:
                    name = f"{function.module.name}.{facts.qualname}"
                    entry = FunctionEntry(name, function.module, facts, function.name)
                    yield self.project.functions.setdefault(name, entry)

    def return_value(self, name: str) -> Value:
        """What a function returns, over its own parameters, by all of its return statements."""
        known = self._returns.get(name)
        if known is None:
            key = ("return", name)
            if key in self._busy or self._depth > _DEEPEST:
                self.cut += 1
                return NOTHING_KNOWN
            self._busy.add(key)
            self._depth += 1
            try:
                entry = self.project.functions[name]
                read = self.reader(entry)
                values = [read(e.value) for e in returning(entry.lowered.flow) if e.value is not None]
                value = union(values)
                declared = self.project.annotation(entry.module, entry.facts.returns)
                if declared and not value.types:
                    value = value._replace(types=declared)
                known = self._returns[name] = value
            finally:
                self._busy.discard(key)
                self._depth -= 1
        return known

    def constructor_aliases(self, class_name: str) -> dict[str, str]:
        """Attribute -> constructor parameter that it is, unchanged."""
        known = self._aliases.get(class_name)
        if known is not None:
            return known
        result: dict[str, str] = {}
        self._aliases[class_name] = result
        init = self.project.method(class_name, "__init__")
        if init is None:
            for each in reversed(self.project.mro(class_name)):
                entry = self.project.classes.get(each)
                if entry is not None and is_record(entry):
                    result.update((name, name) for name, a in entry.attributes.items() if a.annotation is not None)
            return result
        function = self.project.functions[init]
        params = {param.name for param in function.facts.params}
        me = function.facts.params[0].name if function.facts.params else ""
        for target, value, how in assigned(function.lowered.flow):
            match target, value:
                case flow.Attr(base=flow.Name(id=base), name=name), flow.Name(id=param) if (
                    base == me and param in params and how == "set"
                ):
                    result.setdefault(name, param)
        return result

    def given_attributes(self, class_name: str, method: str = "") -> Mapping[str, Given]:
        """Attribute -> what of an argument of the constructor it is, or of another method."""
        key = method or class_name
        known = self._given.get(key)
        if known is None:
            known = self._given[key] = given_attributes(self.project, class_name, method)
        return known

    def record_fields(self, class_name: str) -> list[str]:
        """Fields of a dataclass or NamedTuple in the order of its constructor's parameters."""
        names: dict[str, None] = {}
        for each in reversed(self.project.mro(class_name)):
            entry = self.project.classes.get(each)
            if entry is not None and is_record(entry):
                names.update((name, None) for name, a in entry.attributes.items() if a.annotation is not None)
        return list(names)

    def only_raises(self, name: str) -> bool:
        """Whether a function never returns; a method that only raises is one for subclasses to define."""
        known = self._raising.get(name)
        if known is None:
            entry = self.project.functions[name]
            body = entry.lowered.flow
            known = self._raising[name] = not (
                entry.lowered.is_generator
                or falls_through(body)
                or any(returning(body))
                or (entry.owner is not None and entry.facts.is_abstract)
            )
        return known

    def parameter(self, function: FunctionEntry, name: str) -> Known:
        """What a parameter without annotation can be, by the calls that the project makes, and by the function that is its default."""
        key = (function.name, name)
        known = self._known.get(key)
        if known is not None:
            return known
        if key in self._busy or self._depth > 6:
            self.cut += 1
            return Known()
        self._busy.add(key)
        self._depth += 1
        try:
            found: list[Type] = []
            values: list[tuple[Value, str]] = []
            given = [(caller, argument_for(function, call, name)) for caller, call in self._callers(function)]
            for caller, argument in given:
                if argument is not None:
                    value = self.reader(caller)(argument)
                    found += value.types
                    values.append((value, ""))
            default = next((param.default for param in function.facts.params if param.name == name), None)
            if isinstance(default, flow.Name | flow.Attr) and (not given or any(each is None for _, each in given)):
                value = self.at_module(function.module)(default)
                values += [(value, "")] if value.calls or value.symbol is not None else []
            for decorated in self._decorated_by(function, name):
                if decorated in self.project.classes:
                    found.append(Type("type", (Type(decorated),)))
                else:
                    values.append((Value(calls=(Bound(decorated, None),)), ""))
            found += (Type(owner) for owner in self._wrapped_for(function, name))
            known = self._known[key] = _known(_merge(found, []), values)
        finally:
            self._busy.discard(key)
            self._depth -= 1
        return known

    def _wrapped_for(self, function: FunctionEntry, param: str) -> Iterator[str]:
        """Classes of whose objects a function that a decorator puts around methods is given one: its first parameter."""
        first = function.facts.params[0] if function.facts.params else None
        maker = self.project.functions.get(function.parent or "")
        if (
            first is None
            or first.name != param
            or first.kind != "positional"
            or maker is None
            or not maker.facts.params
        ):
            return
        if self._gives(maker, function.facts.name.partition("@")[0]):
            for name in self._decorated_by(maker, maker.facts.params[0].name):
                entry = self.project.functions.get(name)
                if entry is not None and entry.kind == "method" and entry.owner is not None:
                    yield entry.owner

    def is_given(self, function: FunctionEntry, name: str) -> bool:
        """Whether some call in the project gives an argument for a parameter."""
        return any(argument_for(function, call, name) is not None for _, call in self._callers(function))

    def _decorated_by(self, function: FunctionEntry, param: str) -> Iterator[str]:
        """Functions and classes that a decorator is given as its first parameter: itself, or what `@decorator(...)` makes."""
        positional = [p.name for p in function.facts.params if p.kind == "positional"]
        maker = self.project.functions[function.parent] if function.parent is not None else function
        if function is maker and maker.kind in ("method", "classmethod"):
            positional = positional[1:]
        if positional[:1] != [param] or maker.facts.qualname == MODULE:
            return
        if maker is not function and not self._gives(maker, function.facts.name.partition("@")[0]):
            return
        for entry, decorator in self._decorators_named.get(maker.facts.name.partition("@")[0], ()):
            callee = decorator.callee if isinstance(decorator, flow.Call) else decorator
            if (callee is decorator) is (maker is function) and self._names(entry.module, callee, maker):
                yield entry.name

    def _names(self, module: Module, callee: Expr, function: FunctionEntry) -> bool:
        """Whether an expression at a module's own level names a function, or a method of an object that the module has."""
        dotted = self.project.dotted(module, callee)
        if dotted is not None and self.project.resolve(dotted).name == function.name:
            return True
        if function.owner is None or not isinstance(callee, flow.Attr):
            return False
        return any(bound.function == function.name for bound in self.at_module(module)(callee).calls)

    @staticmethod
    def _gives(maker: FunctionEntry, name: str) -> bool:
        """Whether a function returns one that it defines."""
        given = (each.value for each in returning(maker.lowered.flow))
        return any(isinstance(value, flow.Name) and value.id == name for value in given)

    @cached_property
    def _decorators_named(self) -> Mapping[str, Sequence[tuple[FunctionEntry | ClassEntry, Expr]]]:
        """Decorated functions and classes, and their decorators, by the last word of these."""
        found: dict[str, list[tuple[FunctionEntry | ClassEntry, Expr]]] = {}
        entries: list[FunctionEntry | ClassEntry] = [*self.project.functions.values(), *self.project.classes.values()]
        for entry in entries:
            for decorator in entry.facts.decorators:
                callee = decorator.callee if isinstance(decorator, flow.Call) else decorator
                found.setdefault(flow.last_name(callee), []).append((entry, decorator))
        return found

    def reads(self, slot: Slot) -> Iterator[tuple[FunctionEntry, Expr]]:
        """Expressions that read an attribute or variable, but for those that only ask whether it is None."""
        for entry in self.functions_with(slot[1]):
            read = self.reader(entry)
            for expr in read_expressions(entry.lowered.flow):
                named = expr.name if isinstance(expr, flow.Attr) else expr.id if isinstance(expr, flow.Name) else ""
                if named == slot[1] and read(expr).slot == slot:
                    yield entry, expr

    def local_bindings(self, entry: FunctionEntry) -> dict[str, list[tuple[Expr, str]]]:
        """By local variable, the values that it is given anywhere in a function."""
        known = self._locals.get(entry.name)
        if known is None:
            known = self._locals[entry.name] = {}
            for target, value, how in given_locally(entry.lowered.flow):
                known.setdefault(target, []).append((value, how))
        return known

    def _callers(self, function: FunctionEntry) -> tuple[tuple[FunctionEntry, flow.Call], ...]:
        """Calls, anywhere in the project, whose callee ends in the function's (or its class's) name and can mean it."""
        known = self._calling.get(function.name)
        if known is None:
            known = self._calling[function.name] = tuple(self._calls_of(function))
        return known

    def _calls_of(self, function: FunctionEntry) -> Iterator[tuple[FunctionEntry, flow.Call]]:
        facts = function.facts
        word = facts.name
        if word == "__init__" and facts.owner is not None:
            yield from self._from_subclasses(function)
            word = facts.owner.rpartition(".")[2]
        elif len(self.project.methods_named.get(word, ())) > 2:
            return
        candidates = self.functions_with(word)
        if len(candidates) > _MOST_CALLERS:
            return
        for caller in candidates:
            if caller is function:
                continue
            for call in caller.calls:
                callee = call.callee
                last = callee.name if isinstance(callee, flow.Attr) else getattr(callee, "id", None)
                if last != word:
                    continue
                if isinstance(callee, flow.Name):
                    symbol = self.project.lookup(caller.module, callee.id)
                    if symbol is not None and symbol.name not in (function.name, function.owner):
                        continue
                yield caller, call

    def _from_subclasses(self, constructor: FunctionEntry) -> Iterator[tuple[FunctionEntry, flow.Call]]:
        """Calls of a constructor by those of subclasses: `super().__init__(...)`."""
        for each in self.project.subclasses.get(constructor.owner or "", ())[:_MOST_SUBCLASSES]:
            own = self.project.classes[each].methods.get("__init__")
            if own is None:
                continue
            caller = self.project.functions[own]
            for call in caller.calls:
                if isinstance(call.callee, flow.Attr) and call.callee.name == "__init__":
                    if flow.last_name(call.callee.base) == "super":
                        yield caller, call

    def functions_with(self, word: str) -> list[FunctionEntry]:
        """Functions and module levels whose text has an identifier."""
        if self._by_word is None:
            self._by_word = {}
            for entry in self.project.functions.values():
                if entry.facts.qualname != MODULE:
                    for each in entry.facts.words:
                        self._by_word.setdefault(each, []).append(entry)
            for module in self.project.modules.values():
                top = self.project.functions[f"{module.name}.{MODULE}"]
                for each in {e.callee.id for e in top.calls if isinstance(e.callee, flow.Name)}:
                    self._by_word.setdefault(each, []).append(top)
        return self._by_word.get(word, [])


def _merge(found: Sequence[Type], items: Sequence[Type]) -> tuple[Type, ...]:
    """Distinct types; bare containers take the item types that were seen, as do bare containers in them."""
    items = tuple(dict.fromkeys(items))[:WIDEST]
    result: dict[Type, None] = {}
    for each in found:
        if each.name in CONTAINERS and not each.items:
            if any(t.name == each.name and t.items for t in found):
                continue
            each = Type(each.name, items)
        elif each.name in CONTAINERS:
            bare = {t for t in each.items if t.name in CONTAINERS and not t.items}
            seen = [t for t in items if t.items and Type(t.name) in bare]
            if seen:
                each = Type(each.name, _merge([*(t for t in each.items if t not in bare), *seen], ())[:WIDEST])
        result[each] = None
    if items and not any(t.name in CONTAINERS for t in result):
        result[Type("dict", items)] = None
    return tuple(result)[:WIDEST]


def _known(types: tuple[Type, ...], values: Sequence[tuple[Value, str]]) -> Known:
    """What values have in common. Each comes with the name by which its function knows the instance, or none."""
    bounds = [(bound, me) for value, me in values for bound in value.calls or _held_calls(value)]
    calls = tuple(dict.fromkeys(kept_bound(bound, me) for bound, me in bounds))[:WIDEST]
    symbols = {None if value.places else value.symbol for value, _ in values}
    symbol = symbols.pop() if len(symbols) == 1 and not types and not calls else None
    return Known(types, calls, symbol)


def _held_calls(value: Value) -> tuple[Bound, ...]:
    """Functions that a display holds, in its items or in the tuples that these are."""
    if not any(t.name in CONTAINERS for t in value.types):
        return ()
    if value.element.calls:
        return value.element.calls
    inner = value.items if value.items is not None else (value.each,) if value.each is not None else ()
    return tuple(
        bound._replace(at=at)
        for item in inner
        if any(t.name == "tuple" for t in item.types)
        for at, part in enumerate(item.items or ())
        for bound in part.calls
    )


def _tuple_calls(value: Value) -> tuple[Bound, ...]:
    """Functions that a tuple holds, with their places in it."""
    is_tuple = any(t.name == "tuple" for t in value.types)
    parts = enumerate(value.items or ()) if is_tuple else ()
    return tuple(bound._replace(at=at) for at, part in parts for bound in part.calls)


def _given_to(constructor: FunctionEntry, local: str, me: str) -> str | None:
    """The attribute that a constructor gives a local variable, or a parameter, as it is."""
    for target, value, how in assigned(constructor.lowered.flow):
        if how == "set" and isinstance(value, flow.Name) and value.id == local and isinstance(target, flow.Attr):
            if isinstance(target.base, flow.Name) and target.base.id == me:
                return target.name
    return None


def _is_now_and_then(constructor: FunctionEntry, item: Expr) -> bool:
    """Whether an expression is evaluated in each round of a loop, or in one of two branches: it need not mean what it meant before."""
    return any(
        isinstance(each, flow.Star | flow.Alt) and each.span.contains(item.span)
        for each in flow.statements(constructor.lowered.flow)
    )


def _is_of(call: flow.Call, name: str) -> bool:
    """Whether a call is one of a method of what has a name."""
    return isinstance(call.callee, flow.Attr) and flow.last_name(call.callee.base) == name
