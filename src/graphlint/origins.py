"""What names and attributes in a function are computed from, and the state of the function's reading.

The reading itself is in three layers over this one, each in a module of its own: `answers` (capture tests), `obtained` (calls) and
`provenance` (the rest of expressions, and statements). A lower one asks a higher one through the methods that are abstract here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from graphlint import flow
from graphlint.behavior import Slot
from graphlint.dependence import (
    NO_SOURCES,
    NOTHING,
    Ask,
    Dependent,
    Held,
    Ingredient,
    Reading,
    aspect,
    extended,
    lifted,
    lossy,
    shared_kind,
    union,
)
from graphlint.evaluate import Behaviors
from graphlint.flow import Expr
from graphlint.project import FunctionEntry
from graphlint.source import Span
from graphlint.values import Symbol, Type

_CURRENT = frozenset(("current_device", "current_stream", "device", "get_rank", "get_world_size"))
"""Calls whose answer changes with who is current."""
_SELDOM_BUFFERS = frozenset(
    (
        "clone",
        "tensor",
        "new_tensor",
        "rand",
        "randn",
        "randint",
        "rand_like",
        "randn_like",
        "eye",
        "linspace",
        "arange",
    )
)


class Readings(ABC):
    """What the reading of one function has from those of others."""

    def __init__(self, behaviors: Behaviors) -> None:
        self.behaviors = behaviors
        self.project = behaviors.project
        self.vocabulary = behaviors.vocabulary
        self.busy: set[str] = set()
        self._constant: dict[Slot, bool] = {}

    @abstractmethod
    def callee(self, name: str) -> Reading | None:
        """The reading of a function for one that calls it; None where that leads too far."""

    @cached_property
    def allocators(self) -> frozenset[str]:
        """Dotted names of what makes device memory."""
        return frozenset(
            name
            for name, entries in self.vocabulary.calls.items()
            if any(e.makes in ("tensor", "memory") for e in entries)
        )

    @cached_property
    def allocating_words(self) -> frozenset[str]:
        """The last words of those of them that make buffers."""
        return frozenset(name.rpartition(".")[2] for name in self.allocators) - _SELDOM_BUFFERS

    def is_constant(self, owner: str, name: str) -> bool:
        """Whether every instance of a class sets an attribute to one and the same value, as far as one process goes."""
        key = (owner, name)
        known = self._constant.get(key)
        if known is None:
            bound = [
                (function, value)
                for each in self.project.mro(owner)
                if each in self.project.classes
                for function, value, how in self.behaviors.field_bindings(each).get(name, ())
                if how != "annotation"
            ]
            values = [value for _, value in bound]
            literals = {(type(v.value), v.value) for v in values if isinstance(v, flow.Lit) and v.value is not None}
            known = self._constant[key] = (
                bool(values) and len(literals) == 1 and all(isinstance(v, flow.Lit) for v in values)
            ) or (len(bound) == 1 and not isinstance(values[0], flow.Lit) and _is_fixed(*bound[0]))
        return known


def _is_fixed(function: FunctionEntry, expr: Expr) -> bool:
    """Whether a process gives an expression one value: module constants, and what functions answer that are told nothing."""
    match expr:
        case flow.Lit():
            return True
        case flow.Name(id=name):
            return name in function.module.scope and name not in _own(function)
        case flow.Attr(base=base):
            return _is_fixed(function, base)
        case flow.Call(callee=callee, args=args, keywords=keywords):
            given = (*args, *(value for _, value in keywords))
            return flow.last_name(callee) not in _CURRENT and all(_is_fixed(function, e) for e in (callee, *given))
        case flow.Op(op=op, operands=operands) if op != "Slice":
            return all(_is_fixed(function, each) for each in operands)
    return False


def _own(function: FunctionEntry) -> frozenset[str]:
    """Names that a function binds itself."""
    binds = (each for each in flow.statements(function.lowered.flow) if isinstance(each, flow.Bind))
    names = {each.target.id for each in binds if isinstance(each.target, flow.Name)}
    return frozenset(names | {param.name for param in function.facts.params})


class Origins(ABC):
    """The part of a function's reading that knows what a name or an attribute is."""

    def __init__(self, dependences: Readings, entry: FunctionEntry, parent: Origins | None) -> None:
        self.all = dependences
        self.project = dependences.project
        self.entry = entry
        self.module = entry.module
        self.parent = parent
        self.result = Reading(entry.name)
        self.env: dict[str, Dependent] = {}
        self.guards: list[frozenset[Ask]] = []
        self.loop_asks: list[set[Ask]] = []
        self.devices: list[frozenset[Ingredient]] = []
        self.captures = 0
        self.eager = False
        """No stream is being captured where the statement at hand runs."""
        self.globals: frozenset[str] = frozenset()
        self.returned: list[Dependent] = []
        self.quiet = False
        """It only looks again at what was read before."""
        self.asked_at: dict[str, Span] = {}
        """Local variable -> where the capture test was asked whose answer it holds."""
        self.before: set[str] = set()
        """Those of them that were asked outside of the block of a capture."""
        for index, param in enumerate(entry.facts.params):
            if index == 0 and entry.kind == "classmethod" and entry.owner is not None:
                self.env[param.name] = Dependent(names=frozenset((entry.owner,)))
                continue
            place = (f"${param.name}",)
            self.env[param.name] = Dependent(place, frozenset((place,)))
        params = entry.facts.params
        self.me = (
            params[0].name if params and entry.owner is not None and entry.kind in ("method", "property") else None
        )

    @abstractmethod
    def value(self, expr: Expr) -> Dependent:
        """Dependent of an expression."""

    @abstractmethod
    def inlined(self, name: str, bindings: Mapping[str, Dependent]) -> Dependent | None:
        """What a function of the project gives, and does to stores, in this function's terms."""

    def variable(self, name: str) -> Dependent:
        known = self.env.get(name)
        if known is not None:
            return known
        if self.parent is not None:
            outer = self.parent.variable(name)
            return lifted(outer)
        symbol = self.project.lookup(self.module, name)
        if symbol is None:
            return Dependent(names=frozenset((name,)))
        return self.symbol(symbol)

    def symbol(self, symbol: Symbol) -> Dependent:
        match symbol.kind:
            case "function":
                return Dependent(names=frozenset((symbol.name,)), calls=(symbol.name,))
            case "variable":
                module, _, name = symbol.name.rpartition(".")
                held = Held((f"mod:{module}", name), "module")
                return Dependent(
                    held=frozenset((held,)), names=frozenset((symbol.name,)), literal=self.constant(module, name)
                )
            case "attribute":
                owner, _, name = symbol.name.rpartition(".")
                return self.class_attribute(owner, name)
        return Dependent(names=frozenset((symbol.name,)))

    def constant(self, module: str, name: str) -> Any:
        """The literal that a module variable is bound to, once."""
        binds = self.project.modules[module].variables.get(name, [])
        if len(binds) == 1 and isinstance(binds[0].value, flow.Lit) and binds[0].value.value is not None:
            return binds[0].value.value
        return ...

    def class_attribute(self, owner: str, name: str) -> Dependent:
        for each in self.project.mro(owner):
            entry = self.project.classes.get(each)
            if entry is not None and name in entry.attributes:
                owner = each
                break
        return Dependent(held=frozenset((Held((owner, name), "class"),)))

    def attribute(self, base: Dependent, name: str, *, plain: bool = False) -> Dependent:
        """`base.name`; `plain`: it is a target."""
        if not plain and (field := dict(base.fields).get(name)) is not None:
            return field
        if base.names and base.place is None:
            results = []
            for dotted in sorted(base.names):
                known = dotted in self.project.classes or dotted in self.project.modules
                kind = "class" if dotted in self.project.classes else "module" if known else "external"
                if not known and self._is_variable(dotted):
                    continue
                results.append(self.symbol(self.project.member(Symbol(kind, dotted), name)))
            if results:
                return union(results)
        owners = self.owners(base)
        for owner in owners:
            method = self.project.method(owner, name)
            if method is not None:
                function = self.project.functions[method]
                if function.kind == "property" and not plain:
                    return self.inlined(method, {function.facts.params[0].name: base}) or NOTHING
                return Dependent(calls=(method,), receiver=base, names=frozenset((f"{owner}.{name}",)))
            holder = self.all.behaviors.is_shared(owner, name)
            if holder is not None:
                return self.class_attribute(holder, name)
        slot = (self.all.behaviors.definer(owners[0], name) or owners[0], name) if owners else None
        if base.place is not None:
            place = extended(base.place, name)
            sources = frozenset[Ingredient]((place,))
            if owners and self.all.is_constant(owners[0], name):
                sources = NO_SOURCES
            own = frozenset((Held(slot or ("?", name), "instance", frozenset((base.place,))),))
            names = self.external_member(base, name)
            return Dependent(place, sources, own if slot is not None else frozenset(), names=names)
        held = frozenset(each for each in base.held if each.keyed) or base.held
        if slot is not None and not any(each.keyed for each in base.held):
            held = frozenset((Held(slot, shared_kind(base.held), base.sources),))
        return Dependent(
            sources=base.sources,
            held=held,
            memory=base.memory,
            chosen=base.chosen,
            names=self.external_member(base, name),
        )

    def aspect_of(self, value: Dependent, name: str, expr: Expr) -> Dependent:
        """The shape, dtype or device of what is no plain place: part of what that is made from."""
        word = extended(("",), name)[-1]
        if value.place is not None or not value.sources or word not in ("shape", "dtype", "device"):
            return value
        if value.memory:
            return replace(value, sources=aspect(value, word), memory=frozenset())
        callee = expr.callee if isinstance(expr, flow.Call) else expr
        slots = frozenset(held.slot for held in value.held)
        return replace(value, sources=lossy(self.text(callee), value.sources, slots))

    def _is_variable(self, dotted: str) -> bool:
        module, _, name = dotted.rpartition(".")
        return module in self.project.modules and name in self.project.modules[module].variables

    def owners(self, base: Dependent) -> list[str]:
        """Classes of the project that a value may be an instance of."""
        return [t for t in self.types(base) if t in self.project.classes]

    def types(self, base: Dependent) -> list[str]:
        if base.place is not None and len(base.place) == 1:
            name = base.place[0].lstrip("^").removeprefix("$")
            if name == self.me and not base.place[0].startswith("^"):
                return [self.entry.owner] if self.entry.owner is not None else []
            param = next((p for p in self.entry.facts.params if p.name == name), None)
            if param is not None:
                declared = self.project.annotation(self.module, param.annotation)
                found = declared or self.all.behaviors.parameter(self.entry, name).types
                return [t.name for t in found]
            reader = self.parent
            if reader is not None:
                return reader.types(replace(base, place=(base.place[0].removeprefix("^"),)))
            return []
        result: list[str] = []
        for held in base.held:
            if held.kind == "module" and not held.keyed:
                result += [t.name for t in self.all.behaviors.variable_types(f"{held.slot[0][4:]}.{held.slot[1]}")]
                result += self._noted(held.slot)
            elif not held.keyed and held.slot[0] in self.project.classes:
                result += [t.name for t in self.all.behaviors.field_types(*held.slot)]
            elif held.keyed:
                result += [t.name for t in self._element_types(held.slot)]
        return list(dict.fromkeys(result))

    def _noted(self, slot: Slot) -> list[str]:
        """Types of what functions assign to a module variable."""
        notes = self.all.behaviors.slots.get(slot)
        return sorted(notes.types & self.project.classes.keys()) if notes is not None else []

    def _element_types(self, slot: Slot) -> Iterator[Type]:
        if slot[0].startswith("mod:"):
            types = self.all.behaviors.variable_types(f"{slot[0][4:]}.{slot[1]}")
        else:
            types = self.all.behaviors.field_types(*slot) if slot[0] in self.project.classes else ()
        for each in types:
            stack = list(each.items)
            while stack:
                inner = stack.pop()
                if inner.name in self.project.classes:
                    yield inner
                stack += inner.items

    def external_member(self, base: Dependent, name: str) -> frozenset[str]:
        """`Type.name` for what a value of a type outside of the project is asked for."""
        if base.made is not None:
            return frozenset((f"{base.made}.{name}",))
        if base.place is not None and len(base.place) == 1 and base.place[0] == f"${self.me}":
            owner = self.entry.owner or ""
            outside = [each for each in self.project.mro(owner) if each not in self.project.classes]
            return frozenset(f"{each}.{name}" for each in outside)
        return frozenset(
            f"{each}.{name}" for each in self.types(base) if "." in each and each not in self.project.classes
        )

    def text(self, expr: Expr) -> str:
        return " ".join(self.module.source.text(expr.span).split())

    def canonical(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(map(self.all.vocabulary.canonical, names))
