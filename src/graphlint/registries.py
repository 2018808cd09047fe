"""Registries of buffers: functions that look a buffer up in a store by a key, and on a miss allocate one and keep it.

They are known to a vocabulary (`does = "ws_get"`), or told by their shape. What the allocation depends on and the key
does not hold is *missing*: two requests that differ in it meet in one entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from graphlint import flow
from graphlint.behavior import Slot
from graphlint.dependence import CURRENT, UNKNOWN, Ingredient, Look, Lossy, Memory, Put, Reading, leaves
from graphlint.effects import Effect
from graphlint.facts import MODULE
from graphlint.project import FunctionEntry
from graphlint.provenance import Dependences
from graphlint.source import Span
from graphlint.stores import Stores
from graphlint.summaries import Analysis
from graphlint.vocabulary import Entry

ASPECTS = ("size", "dtype", "device")
"""What a buffer can differ in."""

_IDENTITY = re.compile(r"(^|_)(id|idx|index|name|prefix|uid|uuid|key|tag|layer|ptr|version)s?$")
"""Last words of attributes that tell one object from the others of its class."""
_NAME = re.compile(r"name|label|tag|role|purpose|slot|kind|ident")
"""Words of parameters that name a buffer."""
_RESERVE = re.compile(r"reserv|keep|retain|pin|persist|captur|graph|lock|hold")
"""Words of parameters that keep a buffer from being displaced."""
_DEVICE = re.compile(r"(^\$?|_)dev(ice)?(_(id|idx|index|ordinal))?$")
"""Last words of what tells a device."""
_FACTORY = frozenset(("factory", "Callable", "make", "create", "builder", "alloc", "allocate"))
"""Words of a function that is handed another one, to allocate by."""


@dataclass(frozen=True)
class Registry:
    """A function that hands out buffers by a key, over its own parameters."""

    name: str
    """Of the function, dotted."""
    function: str | None
    """The function, where it is among the files."""
    key: frozenset[Ingredient]
    needs: Mapping[str, frozenset[Ingredient]] = field(hash=False)
    """What size, dtype and device depend on."""
    params: tuple[str, ...] = ()
    """Positional parameters, the receiver excluded."""
    receiver: str | None = None
    """The parameter that is the object that it is asked of."""
    displaces: bool = False
    """A hit that does not fit gives way to a new buffer."""
    reserve: str | None = None
    """Parameter that keeps a buffer from being displaced."""
    slot: Slot | None = None
    look: Span | None = None
    """Where it looks a buffer up."""
    memory: Memory | None = None
    """What it allocates on a miss."""
    entry: Entry | None = None
    single: bool = False
    """The store has one place for one buffer."""
    fitted: frozenset[str] | None = None
    """Parameters that a hit is compared with before it gives way; None where that is not said by a test."""
    outgrown: frozenset[str] = frozenset()
    """Those of them that a hit has to be large enough for, not equal to."""

    @property
    def names(self) -> frozenset[str]:
        """Parameters that only name a buffer: they are in the key, and nothing else depends on them."""
        sizing = roots(source for needed in self.needs.values() for source in needed)
        known = roots(self.key) - sizing - {self.receiver or ""}
        return frozenset(name for name in known if not _DEVICE.search(name))


def roots(sources: Iterable[Ingredient]) -> frozenset[str]:
    """Parameters that sources begin with."""
    found: set[str] = set()
    for source in sources:
        if isinstance(source, Lossy):
            found |= roots(source.of)
        elif source[0].startswith("$"):
            found.add(source[0][1:])
    return frozenset(found)


def missing(needed: Iterable[Ingredient], key: frozenset[Ingredient]) -> frozenset[Ingredient]:
    """Sources that a key does not determine."""
    if UNKNOWN in key:
        return frozenset()
    return frozenset(source for source in needed if source not in (CURRENT, UNKNOWN) and not _covered(source, key))


def _covered(source: Ingredient, key: frozenset[Ingredient]) -> bool:
    if source in key:
        return True
    if isinstance(source, Lossy):
        return all(_covered(each, key) for each in source.of)
    for each in key:
        if isinstance(each, Lossy):
            continue
        if source[: len(each)] == each:
            return True
        if len(each) > 1 and source[: len(each) - 1] == each[:-1] and _IDENTITY.search(each[-1]):
            beside = [k for k in key if k != each and not isinstance(k, Lossy) and k[: len(each) - 1] == each[:-1]]
            if all(_IDENTITY.search(k[-1]) for k in beside):
                return True  # the key tells the object, and with it whatever it holds
    if len(source) > 1 and source[-1] == "shape":
        return sum(1 for each in key if not isinstance(each, Lossy) and each[: len(source)] == source) > 1
    return False


def _refuses(function: FunctionEntry, slot: Slot) -> bool:
    """Whether a function raises where its table has an entry under the key already, or where there is one at all."""
    for each in flow.statements(function.lowered.flow):
        match each:
            case flow.Alt(
                test=flow.Op(op="in", operands=(_, table))
                | flow.Op(op="is not", operands=(table, flow.Lit(value=None))),
                then=then,
            ) if flow.last_name(table) == slot[1]:
                last = then.items[-1] if isinstance(then, flow.Seq) and then.items else then
                return isinstance(last, flow.Exit) and last.kind == "raise"
    return False


def text(source: Ingredient) -> str:
    """A source as a reader writes it."""
    if isinstance(source, Lossy):
        return source.text
    head, *rest = source
    result = head.lstrip("^").removeprefix("$")
    for part in rest:
        result += part if part.startswith("[") else f".{part}"
    return result


class Registries:
    """The registries of a project."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.project = analysis.project
        self.vocabulary = analysis.vocabulary
        self.dependences = Dependences(analysis.behaviors)
        self.stores = Stores(analysis)

    def all(self) -> list[Registry]:
        """Registries of the vocabulary, then those told by their shape."""
        found = list(self._declared())
        taken = {each.function for each in found}
        shaped = [each for name in self._candidates() if name not in taken for each in self._shaped(name)]
        return [*found, *_innermost(shaped)]

    def _declared(self) -> Iterator[Registry]:
        for name, entries in self.vocabulary.calls.items():
            for entry in entries:
                if entry.does is not Effect.WS_GET or entry.request is None:
                    continue
                yield self._from_entry(entry, None)
                for function in list(self.project.functions):
                    if self.is_named(function, name):
                        yield self._from_entry(entry, function)

    def is_named(self, function: str, name: str) -> bool:
        """Whether a function of the project is the one that a vocabulary knows by a name."""
        return function.endswith(f".{name.rpartition('.')[2]}") and self.vocabulary.canonical(function) == name

    def _from_entry(self, entry: Entry, function: str | None) -> Registry:
        request = entry.request
        assert request is not None
        places = {part: spec.partition(":") for part, spec in request.parts.items()}
        params: dict[int, str] = {}
        for name, _, position in places.values():
            if position:
                params[int(position)] = name
        own = {part: frozenset[Ingredient](((f"${name}",),)) for part, (name, _, _) in places.items()}
        nothing = frozenset[Ingredient]()
        return Registry(
            entry.name,
            function,
            frozenset().union(*(own.get(part, nothing) for part in request.key)),
            {
                "size": own.get("shape", nothing),
                "dtype": own.get("dtype", nothing),
                "device": own.get("device", frozenset((CURRENT,))),
            },
            tuple(params.get(i, "") for i in range(max(params, default=-1) + 1)),
            displaces=request.displaces,
            reserve=places["reserve"][0] if "reserve" in places else None,
            entry=entry,
        )

    def _candidates(self) -> Iterator[str]:
        """Functions whose text mentions a table, or a variable that begins as None, and something that allocates."""
        words = self.dependences.allocating_words | {"Tensor"} | _FACTORY
        helpers: dict[str, set[str]] = {}
        accessors: dict[str, set[str]] = {}
        functions = [each for each in list(self.project.functions.values()) if each.facts.qualname != MODULE]
        opening = {entry.name for entry in self.stores.opening()}
        for entry in functions:
            if not words.isdisjoint(entry.facts.words):
                helpers.setdefault(entry.module.name, set()).add(entry.facts.name)
            if entry.name in opening:
                accessors.setdefault(entry.module.name, set()).add(entry.facts.name)
        for entry in functions:
            mine, me = entry.facts.words, {entry.facts.name}
            makes = not mine.isdisjoint(words)
            made = makes or mine & helpers.get(entry.module.name, set()) - me
            opened = entry.name in opening or (makes and mine & accessors.get(entry.module.name, set()) - me)
            if made and opened:
                yield entry.name

    def _shaped(self, name: str) -> Iterator[Registry]:
        """The registries that a function is, by what it does to stores: one for each key that it makes."""
        reading = self.dependences.reading(name)
        entry = self.project.functions[name]
        groups: dict[tuple[Slot, bool, frozenset[Ingredient]], list[Put]] = {}
        for put in reading.puts:
            groups.setdefault((put.held.slot, put.held.keyed, put.held.key), []).append(put)
        for (slot, keyed, key), puts in groups.items():
            looks = [look for look in reading.looks if look.held.slot == slot]
            looks = [look for look in looks if look.held.key == key] or looks
            asked = {look.key.value for look in looks if isinstance(look.key, flow.Lit)}
            puts = [p for p in puts if (p.key.value in asked if isinstance(p.key, flow.Lit) else not p.is_field)]
            making = [(put, memory) for put in puts for memory in self._made(put, entry)]
            if not making:
                continue
            if (keyed and not looks) or (
                not keyed and not any(held.slot == slot and not held.derived for held in reading.returns.held)
            ):
                continue
            if looks and all(look.eager for look in looks):
                continue  # what a graph reads never comes from here
            if _refuses(entry, slot):
                continue  # nobody is given what another one asked for
            putting = making[0][0].function
            if putting != name and (not looks or looks[0].function == putting):
                continue  # another function's
            registry = self._registry(entry, reading, slot, making, looks[0] if looks else None)
            if registry is not None:
                yield registry

    def _made(self, put: Put, entry: FunctionEntry) -> Iterator[Memory]:
        """Device memory in what is put somewhere: allocated, or a tensor that the caller gives."""
        if put.memory:
            yield from sorted(put.memory, key=lambda each: (each.function, each.span))
            return
        place = put.value.place
        if place is not None and len(place) == 1 and place[0].startswith("$"):
            param = next((p for p in entry.facts.params if p.name == place[0][1:]), None)
            types = self.project.annotation(entry.module, param.annotation) if param is not None else ()
            if any(self.vocabulary.canonical(t.name) == "torch.Tensor" for t in types):
                aspects = [frozenset[Ingredient](((*place, word),)) for word in ("shape", "dtype", "device")]
                yield Memory(put.function, put.span, *aspects)

    def _registry(
        self,
        entry: FunctionEntry,
        reading: Reading,
        slot: Slot,
        making: Sequence[tuple[Put, Memory]],
        look: Look | None,
    ) -> Registry | None:
        put = making[0][0]
        receiver = entry.facts.params[0].name if entry.facts.params and entry.kind in ("method", "property") else None
        needs = {
            aspect: frozenset(
                source
                for _, memory in making
                for source in getattr(memory, aspect)
                if not (isinstance(source, Lossy) and slot in source.slots) and source not in reading.pinned
            )
            for aspect in ASPECTS
        }
        replacing = [put for put, _ in making if put.how == "set"]
        asks = {ask for put in replacing for ask in put.asks if ask.slot == slot}
        if replacing:
            asks |= reading.accepted.get(slot, set())
        displaces = slot not in reading.retired and (bool(asks) or slot in reading.removes)
        fitted = roots(source for ask in asks for source in ask.sources) if slot not in reading.removes else None
        outgrown = roots(source for ask in asks if not ask.exact for source in ask.sources)
        kind = put.held.kind
        if slot[0] in self.project.classes and self.analysis.behaviors.is_shared(*slot) is None:
            kind = "module" if slot[0] in self.stores.classes else "instance"
        if kind == "instance":
            return None  # nobody else asks there
        own = (f"${receiver}",)
        single = all(source == own for source in put.held.key)
        if single and not (any(ask.exact for ask in asks) if displaces else roots(needs["size"]) - {receiver or ""}):
            return None  # it only grows, or is as large as its owner says
        if single and any(ask.identity and ask.sources for ask in (*asks, *reading.accepted.get(slot, ()))):
            return None  # it is given again with the very object that it was made from
        key = put.held.key | frozenset(reading.checked.get(slot, ()))
        entries: list[Put | Look] = [*(each for each, _ in making), *reading.looks]
        names = [each.key for each in entries if each.held.slot == slot and each.key is not None]
        if (
            not displaces or single
        ):  # a search for one that fits is as good as a key, and so is a test of the one there is
            asks |= {ask for put, _ in making for ask in put.asks if ask.slot == slot}
            key |= frozenset(source for ask in asks for source in ask.sources) | put.compared
        elif not any(self._is_name(entry, expr) for expr in names):  # it only grows, which is not the key's matter
            exact = {source for ask in asks if ask.exact for source in ask.sources}
            key |= frozenset(source for ask in asks for source in ask.sources) - exact
        if any(_DEVICE.search(each[-1]) for each in leaves(key)):  # `device_index` beside `device`
            needs["device"] = frozenset(e for e in needs["device"] if isinstance(e, Lossy) or not _DEVICE.search(e[-1]))
        params = entry.facts.params[1 if entry.kind in ("method", "classmethod", "property") else 0 :]
        positional = tuple(p.name for p in params if p.kind == "positional")
        flags = roots(source for put, _ in making for source in put.flags) | {
            p[0][1:] for p in reading.tested if len(p) == 1
        }
        used = roots(key) | roots(s for needed in needs.values() for s in needed)
        reserve = [
            p.name
            for p in params
            if p.name in flags and p.name not in used and (_RESERVE.search(p.name) or _is_bool(p.annotation, p.default))
        ]
        return Registry(
            entry.name, entry.name, key, needs, positional, receiver, displaces, reserve[0] if reserve else None, slot,
            look.span if look is not None else put.span, making[0][1], None, single, fitted, outgrown,
        )  # fmt: skip

    def _is_name(self, entry: FunctionEntry, key: flow.Expr) -> bool:
        """Whether a key has a part that names what is kept: a text, or a parameter that is given one."""
        stack = [key]
        seen: set[str] = set()
        while stack:
            expr = stack.pop()
            if isinstance(expr, flow.Name) and expr.id not in seen:
                seen.add(expr.id)
                param = next((p for p in entry.facts.params if p.name == expr.id), None)
                if param is not None and (_NAME.search(expr.id) or _is_text(param.annotation)):
                    return True
                stack += [
                    bind.value
                    for bind in flow.statements(entry.lowered.flow)
                    if isinstance(bind, flow.Bind)
                    and isinstance(bind.target, flow.Name)
                    and bind.target.id == expr.id
                    and bind.value
                ]
            stack += flow.subexpressions(expr)
        return False


def _innermost(found: Sequence[Registry]) -> list[Registry]:
    """Without those that do nothing but call another one of them."""
    seen: set[object] = set()
    result: list[Registry] = []

    def rank(each: Registry) -> tuple[object, ...]:
        outer = each.memory is not None and each.memory.function != each.name
        return (outer, not each.displaces, each.name)

    for each in sorted(found, key=rank):
        assert each.memory is not None
        keys: set[object] = {(each.slot, each.look), (each.name, each.memory.function, each.memory.span)}
        if seen.isdisjoint(keys):
            result.append(each)
        seen |= keys
    return result


def _is_text(annotation: flow.Expr | None) -> bool:
    return isinstance(annotation, flow.Name) and annotation.id == "str"


def _is_bool(annotation: flow.Expr | None, default: flow.Expr | None) -> bool:
    if isinstance(default, flow.Lit) and isinstance(default.value, bool):
        return True
    return isinstance(annotation, flow.Name) and annotation.id == "bool"
