"""The project's behaviors as rules need them: irrelevant parts gone, writes turned into effects, effects gathered by function.

What a place *holds* decides what losing it means: `self.graphs = None` is the death of graphs if some method puts captured
graphs into `self.graphs`, and nothing if it holds numbers. So behaviors keep writes as writes, and this module, which sees
all of them, says which are effects.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from graphlint import behavior as b
from graphlint import facts, flow
from graphlint.assignments import is_record
from graphlint.behavior import Behavior, Node, Slot
from graphlint.effects import Effect
from graphlint.evaluate import Behaviors
from graphlint.execution import Config, Event, Execution, ExhaustedError, Outcome, visit
from graphlint.facts import MODULE, Facts
from graphlint.project import Project, group, module_names
from graphlint.project import load as load_project
from graphlint.sieve import identifiers, keeps_memory
from graphlint.source import Source
from graphlint.syntax import ParseError
from graphlint.values import ELEMENT, GRAPH, MEMPOOL, TENSOR, Place, Test, flat
from graphlint.vocabulary import Entry, Vocabulary
from graphlint.words import COMMON_METHODS

_MANY = 48
"""From this many files on, reading them in several processes pays for starting these."""

_FEW_FUNCTIONS = 1_500
"""Up to this many functions, all are built."""

_GIVES_UP = frozenset(("drop", "clear", "pop"))
_MATTERS = frozenset(("graph", "pool", "captured", "tensor", "mempool", "fresh", "memory"))
_MEMORY = frozenset(("captured", "tensor", "declared", "mempool", "memory"))


class Site(NamedTuple):
    """An effect somewhere in what a function does, paths aside."""

    effect: Effect
    places: tuple[Place, ...]
    event: Event


@dataclass
class Analysis:
    """A project with its behaviors."""

    project: Project
    vocabulary: Vocabulary
    behaviors: Behaviors
    exhausted: set[str] = field(default_factory=set)
    """Functions whose paths were too many to follow each of them to the end."""
    known: dict[tuple[str, str], Any] = field(default_factory=dict)
    """What the modules above have found out: their own key, and a name."""
    releasers: dict[str, list[tuple[str, frozenset[str]]]] = field(default_factory=dict)
    """By vocabulary entry: classes with a method that releases its store, and the words of that method."""
    _owns: dict[str, frozenset[str]] = field(default_factory=dict)
    _holds: dict[Slot, frozenset[str]] = field(default_factory=dict)
    _effectful: dict[str, Behavior] = field(default_factory=dict)
    _sites: dict[str, tuple[Site, ...]] = field(default_factory=dict)

    def prepare(self) -> None:
        """Find out what most rules ask for, before they are looked at by several processes."""
        for _ in (self.kinds, self.remembered, self.memory):
            pass

    # ------------------------------------------------------------------------------------------------- holdings

    def holds(self, slot: Slot | None) -> frozenset[str]:
        """What an attribute or variable holds.

        graph, pool, mempool, captured, tensor, `declared` (a tensor, by its annotation alone), `owner` (an object that
        owns graphs), `memory` (an object that owns device memory).
        """
        if slot is None:
            return frozenset()
        known = self._holds.get(slot)
        if known is None:
            self._holds[slot] = frozenset()
            owner, name = slot
            names: set[str] = set()
            if owner.startswith("mod:"):
                names |= {t.name for t in flat(self.behaviors.variable_types(f"{owner[4:]}.{name}"))}
            elif owner.startswith("keys:"):
                names |= {t.name for t in flat(self.behaviors.known_types(slot))}
            elif owner in self.project.classes:
                names |= {t.name for t in flat(self.behaviors.field_types(owner, name))}
            notes = self.behaviors.slots.get(slot)  # a class body's are made with its types
            found = set(notes.tags) if notes is not None else set()
            for source in notes.sources if notes is not None else ():
                found |= self.holds(source) & {"captured"}
            names |= notes.types if notes is not None else set()
            if name in self._kept_by_word and self.entry_for(slot) is not None:
                found.add("captured")
            for each in names:
                canonical = self.vocabulary.canonical(each)
                if canonical == GRAPH:
                    found.add("graph")
                elif canonical == TENSOR:
                    found.add("declared")
                elif canonical == MEMPOOL:
                    found.add("mempool")
                elif each in self.project.classes:
                    owned = self.owns(each)
                    if "graph" in owned:
                        found.add("graph")
                        found.add("owner")
                    if owned & _MEMORY:
                        found.add("memory")
                    if is_record(self.project.classes[each]):
                        found |= owned & {"captured", "tensor", "pool"}
            known = self._holds[slot] = frozenset(found)
        return known

    def owns(self, class_name: str) -> frozenset[str]:
        """What the attributes of a class's instances hold, the classes of these attributes included."""
        known = self._owns.get(class_name)
        if known is None:
            self._owns[class_name] = frozenset()
            found: set[str] = set()
            for each in self.project.mro(class_name):
                if self.vocabulary.canonical(each) == GRAPH:
                    found.add("graph")
                entry = self.project.classes.get(each)
                if entry is None:
                    continue
                names = {*self.behaviors.field_bindings(each), *entry.attributes}
                for name in names:
                    found |= self.holds((each, name))
            known = self._owns[class_name] = frozenset(found)
        return known

    def is_cache(self, slot: Slot | None) -> bool:
        """Whether an attribute or variable holds the requests' cache: device memory, under a name that says so."""
        held = self.holds(slot)
        if slot is None or not held & _MEMORY or held & {"graph", "pool"}:
            return False
        return self.vocabulary.names.is_cache(slot[1], owned="memory" in held)

    # -------------------------------------------------------------------------------------------------- effects

    def effects(self, event: Event, config: Config | None = None) -> tuple[Effect, ...]:
        """Effects of an event: a vocabulary's, or what the write of a place means for what the place held.

        Where the path is known to have emptied the place before, there is nothing to give up.
        """
        node = event.node
        if isinstance(node, b.Happens):
            return (node.effect,)
        found: list[Effect] = []
        held = self.holds(node.slot)
        replaced = node.how == "write" and bool(node.tags & {"none", "empty", "minted", "tensor"})
        replaced = replaced and "moved" not in node.tags
        gone = (
            config is not None
            and len(event.places) == 1
            and (
                ("owner" in held and self._is_emptied(event.places[0], config))
                or config.fact(("none", event.places[0])) is True
                or (
                    node.how in ("clear", "pop", "write")
                    and config.fact(("true", event.places[0])) is False
                    and "pool" not in held
                )
            )
        )
        if not gone and not event.in_constructor and (node.how in _GIVES_UP or replaced):
            if "graph" in held and "pool" not in node.tags:
                found.append(Effect.GRAPH_DEATH)
            if held & {"captured", "tensor"}:
                found.append(Effect.WS_REPLACE if "tensor" in node.tags else Effect.WS_RELEASE)
            elif "memory" in held and "graph" not in held and _is_shared(event.places) and "tensor" not in node.tags:
                found.append(Effect.WS_RELEASE)  # the process lets go of an object, and of the memory that it owns
            if "pool" in held and node.how != "clear":
                found.append(Effect.POOL_RETIRE)
            if "tensor" not in node.tags and self.is_cache(node.slot):
                found.append(Effect.KV_RELEASE)
        if node.how == "count" and not event.in_constructor and node.slot in self.counters:
            found.append(Effect.POOL_RETIRE)
        if node.how in ("write", "add"):
            if "tensor" in node.tags and node.slot is not None:
                found.append(Effect.WS_ALLOC)
            if "pool" in node.tags and node.slot is not None:
                found.append(Effect.POOL_STORE)
        return tuple(found)

    def _is_emptied(self, owner: Place, config: Config) -> bool:
        """Whether a path knows that an object has lost the graphs of one of its stores, and of no store that it has any."""
        size = len(owner)
        known = {
            value
            for (kind, place), value in config.facts
            if kind == "true" and len(place) > size and place[:size] == owner and _last(place) in self._graph_names
        }
        return known == {False}

    @cached_property
    def _graph_names(self) -> frozenset[str]:
        """Names of attributes and variables that hold graphs."""
        return frozenset(name for owner, name in list(self.behaviors.slots) if "graph" in self.holds((owner, name)))

    def relevant(self, node: b.Touches) -> bool:
        """Whether a touch can be an effect, or decides a test."""
        if node.slot in self.counters and node.how == "count":
            return True
        if "graph" in node.tags or node.fresh:
            return True  # where a captured graph goes, or device memory
        if self.holds(node.slot) & _MATTERS or self.is_cache(node.slot):
            return True
        return any(part in self.tested for place in node.places for part in place[-1:])

    @cached_property
    def tested(self) -> frozenset[str]:
        """Last names of all places that some test asks about, and of containers that loops run over."""
        found: set[str] = set()
        for each in self.behaviors.all():
            for node in each.nodes:
                if isinstance(node, b.Either | b.Leaves) and node.test is not None:
                    found |= _atoms(node.test)
                elif isinstance(node, b.Repeat):
                    found |= {_last(place) for place in node.over}
        return frozenset(found)

    @cached_property
    def remembered(self) -> frozenset[str]:
        """Names that facts are kept about: tested ones, and those of places that hold what matters."""
        held = {
            slot[1]
            for each in self.behaviors.all()
            for node in each.nodes
            if isinstance(node, b.Touches) and (slot := node.slot) is not None and self.holds(slot) & _MATTERS
        }
        return self.tested | held

    @cached_property
    def memory(self) -> frozenset[str]:
        """Names of attributes and variables that device memory is put into."""
        return frozenset(slot[1] for slot, notes in self.behaviors.slots.items() if "fresh" in notes.tags)

    @cached_property
    def counters(self) -> frozenset[Slot]:
        """Counts of users whose end releases something: decremented and tested in a function that gives something up."""
        found: set[Slot] = set()
        for each in self.behaviors.all():
            nodes = list(each.nodes)
            counted = [n for n in nodes if isinstance(n, b.Touches) and n.how == "count" and n.slot is not None]
            if not counted:
                continue
            tested = {name for n in nodes if isinstance(n, b.Either) for name in _atoms(n.test)}
            gives = any(
                isinstance(n, b.Touches)
                and (n.how in _GIVES_UP or n.tags & {"none", "empty", "minted"})
                and self.holds(n.slot) & _MATTERS
                for n in nodes
            )
            if gives:
                found |= {n.slot for n in counted if n.slot is not None and n.slot[1] in tested}
        return frozenset(found)

    # ------------------------------------------------------------------------------------------------- behaviors

    @cached_property
    def acting(self) -> frozenset[str]:
        """Keys of the behaviors that do something of interest, themselves or through a call."""
        everything = {each.key: each for each in self.behaviors.all()}
        for each in everything.values():
            self._note_given(each)
            each.paths = self._paths(each) if self.behaviors.ways else {}
        callers: dict[str, set[str]] = {}
        found: set[str] = set()
        for key, each in everything.items():
            for node in each.nodes:
                if isinstance(node, b.Calls):
                    for callee in node.behaviors:
                        callers.setdefault(callee, set()).add(key)
                elif (
                    isinstance(node, b.Happens)
                    or _refuses(node)
                    or (
                        isinstance(node, b.Touches)
                        and (
                            node.fresh
                            or self.holds(node.slot) & _MATTERS
                            or node.slot in self.counters
                            or self.is_cache(node.slot)
                        )
                    )
                ):
                    found.add(key)
        waiting = list(found)
        while waiting:
            for caller in callers.get(waiting.pop(), ()):
                if caller not in found:
                    found.add(caller)
                    waiting.append(caller)
        return frozenset(found)

    @cached_property
    def effectful(self) -> Mapping[str, Behavior]:
        """The acting behaviors by key, irrelevant nodes gone."""
        everything = {each.key: each for each in self.behaviors.all()}
        return {
            key: replace(everything[key], node=self._simplified(everything[key].node, self.acting))
            for key in sorted(self.acting)
        }

    def _paths(self, behavior: Behavior) -> dict[Place, Place]:
        """Ways through the attributes of the object of a method to what other attributes of it are."""
        owner = self.project.functions[behavior.function].owner
        if behavior.receiver is None or owner is None:
            return {}
        known = self.known.get(("ways", owner))
        if known is None:
            known = self.known["ways", owner] = self.behaviors.ways_of(owner)
        me = f"${behavior.receiver}"
        return {(me, *way): (me, *target) for way, target in known.items()}

    def _note_given(self, behavior: Behavior) -> None:
        """Note that a slot is given device memory which a caller allocates for it."""
        params = self.behaviors.given.get(behavior.function, ())
        for node in behavior.nodes if params else ():
            if isinstance(node, b.Touches) and any(p[0][1:] in params and len(p) == 1 for p in node.value_places):
                self.behaviors.note(node.slot).tags.add("fresh")

    def _simplified(self, node: Node, effectful: frozenset[str]) -> Node:
        def simple(each: Node) -> Node:
            return self._simplified(each, effectful)

        match node:
            case b.Touches():
                return node if self.relevant(node) else b.NOTHING
            case b.Calls():
                return node if effectful.intersection(node.behaviors) else b.NOTHING
            case b.Order(items=items):
                return b.order([simple(item) for item in items])
            case b.Either():
                then, other = simple(node.then), simple(node.other)
                if then == b.NOTHING and other == b.NOTHING:
                    return b.NOTHING
                return node._replace(then=then, other=other)
            case b.Repeat():
                body, other = simple(node.body), simple(node.other)
                if other == b.NOTHING and not _acts(body):
                    return b.NOTHING
                return node._replace(body=body, other=other)
            case b.Each():
                bodies = tuple(simple(body) for body in node.bodies)
                other = simple(node.other)
                if other == b.NOTHING and not any(map(_acts, bodies)):
                    return b.NOTHING
                return node._replace(bodies=bodies, other=other)
            case b.Guarded():
                body = simple(node.body)
                handlers = tuple(handler._replace(node=simple(handler.node)) for handler in node.handlers)
                other, final = simple(node.other), simple(node.final)
                if (
                    body == b.NOTHING
                    and other == b.NOTHING
                    and final == b.NOTHING
                    and not any(_acts(h.node) for h in handlers)
                ):
                    return b.NOTHING
                return node._replace(body=body, handlers=handlers, other=other, final=final)
            case b.Within():
                body = simple(node.body)
                if not effectful.intersection(node.calls.behaviors):
                    return body
                return node._replace(body=body)
        return node

    def roots(self) -> Iterator[Behavior]:
        """Effectful functions as written: no variants for argument types, no module levels."""
        for key, each in self.effectful.items():
            if ("|" not in key or each.is_later) and not key.endswith(MODULE):
                yield each

    def run(
        self, root: Behavior, start: str, monitor: object, *, refusals: bool = False, **facts: bool
    ) -> Outcome | None:
        """Run a behavior; None (and a note) where its paths are too many."""
        execution = Execution(
            self.effectful.get,
            monitor,  # type: ignore[arg-type]
            tested=self.remembered,
            memory=self.memory,
            refusals=refusals,
        )
        if facts.get("capturing"):
            facts.setdefault("device", True)
        try:
            outcome = execution.run(root, start, [((name, ()), value) for name, value in facts.items()])
        except ExhaustedError:
            self.exhausted.add(root.function)
            return None
        if execution.truncated:
            self.exhausted.add(root.function)
        return outcome

    def sites(self, root: Behavior) -> tuple[Site, ...]:
        """All effects in what a function does, callees included, in the order of the text; paths aside."""
        known = self._sites.get(root.key)
        if known is None:
            found: dict[tuple[object, ...], Site] = {}

            def record(event: Event) -> None:
                for effect in self.effects(event):
                    spans = tuple(frame.span for frame in event.stack)
                    found.setdefault(
                        (effect, event.places, spans, event.stack[-1].function), Site(effect, event.places, event)
                    )

            if not visit(root, self.effectful.get, record):
                self.exhausted.add(root.function)
            known = self._sites[root.key] = tuple(found.values())
        return known

    @cached_property
    def kinds(self) -> Mapping[str, frozenset[Effect]]:
        """Which effects each effectful behavior can have, callees included."""
        own: dict[str, set[Effect]] = {}
        callers: dict[str, set[str]] = {}
        for key, each in self.effectful.items():
            mine = own.setdefault(key, set())
            for node in each.nodes:
                if isinstance(node, b.Calls):
                    for callee in node.behaviors:
                        callers.setdefault(callee, set()).add(key)
                elif isinstance(node, b.Happens | b.Touches):
                    mine.update(self.effects(Event(node, node.places, (), ())))
        waiting = list(own)
        while waiting:
            key = waiting.pop()
            for caller in callers.get(key, ()):
                if not own[key] <= own[caller]:
                    own[caller] |= own[key]
                    waiting.append(caller)
        return {key: frozenset(found) for key, found in own.items()}

    def top_callers(self, key: str) -> frozenset[str]:
        """Keys of the functions that reach a behavior and that no effectful function calls; none if nobody calls it."""
        found: set[str] = set()
        seen = {key}
        waiting = [key]
        while waiting:
            current = waiting.pop()
            callers = self.callers.get(current, frozenset()) - {current}
            if not callers and current != key:
                found.add(current)
            for caller in callers - seen:
                seen.add(caller)
                waiting.append(caller)
        return frozenset(found)

    @cached_property
    def callers(self) -> Mapping[str, frozenset[str]]:
        """By key, the effectful behaviors that call it."""
        found: dict[str, set[str]] = {}
        for key, each in self.effectful.items():
            for node in each.nodes:
                if isinstance(node, b.Calls):
                    for callee in node.behaviors:
                        found.setdefault(callee, set()).add(key)
        return {key: frozenset(callers) for key, callers in found.items()}

    def is_wrapper(self, root: Behavior) -> bool:
        """Whether all that a function does happens in one call of it: what there is to say is said of the callee."""
        acting = [node for node in root.nodes if isinstance(node, b.Happens | b.Touches | b.Calls)]
        return len(acting) == 1 and isinstance(acting[0], b.Calls)

    def variable(self, function: str, root: str) -> str:
        """Name of the local variable that holds what the expression of a root `@offset` made; empty if none does."""
        offset = root[1:].partition(".")[0]
        entry = self.project.functions[function]
        if not offset.isdigit():
            return ""
        for bind in binds(entry.lowered.flow):
            if isinstance(bind.target, flow.Name) and bind.value is not None and bind.value.span.start == int(offset):
                return bind.target.id
        return ""

    # --------------------------------------------------------------------------------------------------- capture

    @cached_property
    def captured(self) -> frozenset[str]:
        """Keys of behaviors that code inside a capture calls, whichever way."""
        everything = {each.key: each for each in self.behaviors.all()}
        found: set[str] = set()
        waiting = [key for each in everything.values() for key in each.calls_in_capture]
        while waiting:
            key = waiting.pop()
            if key in found or key not in everything:
                continue
            found.add(key)
            waiting += b.called_inside(everything[key].node)
        return frozenset(found)

    @cached_property
    def captured_reads(self) -> Mapping[str, frozenset[Slot]]:
        """What captured code reads, by the classes and modules that capture it or keep its graphs."""
        everything = {each.key: each for each in self.behaviors.all()}
        found: dict[str, set[Slot]] = {}
        for each in everything.values():
            if not each.reads_in_capture and not each.calls_in_capture:
                continue
            read = set(each.reads_in_capture)
            seen: set[str] = set()
            waiting = list(each.calls_in_capture)
            while waiting:
                key = waiting.pop()
                if key in seen or key not in everything:
                    continue
                seen.add(key)
                read |= everything[key].reads
                waiting += b.called_inside(everything[key].node)
            function = self.project.functions[each.function]
            owners = {function.owner or f"mod:{function.module.name}"}
            for node in each.nodes:
                is_graph = (isinstance(node, b.Touches) and "graph" in node.tags) or (
                    isinstance(node, b.Happens) and node.effect is Effect.CAPTURE
                )
                if is_graph and node.slot is not None:  # type: ignore[union-attr]
                    owners.add(node.slot[0])  # type: ignore[union-attr]
            for owner in owners:
                found.setdefault(owner, set()).update(read)
        return {owner: frozenset(slots) for owner, slots in found.items()}

    @cached_property
    def captured_slots(self) -> frozenset[Slot]:
        """Places that keep memory allocated while a stream is being captured."""
        return frozenset(slot for slots in self._kept_in_capture.values() for slot in slots)

    def keeps_captured(self, slot: Slot | None) -> bool:
        """Whether a place holds an object that keeps memory allocated while a stream is being captured."""
        if slot is None:
            return False
        owner, name = slot
        if owner.startswith("mod:"):
            types = self.behaviors.variable_types(f"{owner[4:]}.{name}")
        else:
            types = self.behaviors.field_types(owner, name) if owner in self.project.classes else ()
        notes = self.behaviors.slots.get(slot)
        classes = {t.name for t in flat(types)} | (notes.types if notes is not None else set())
        return any(kept[0] in classes for kept in self.captured_slots)

    @cached_property
    def _kept_in_capture(self) -> Mapping[str, Mapping[Slot, Place]]:
        """By key of a behavior that captured code calls: where it keeps memory that it allocates then."""
        found: dict[str, dict[Slot, Place]] = {}
        for key in self.captured:
            root = self.effectful.get(key)
            if root is None or not any(
                isinstance(node, b.Touches) and "tensor" in node.tags and node.slot is not None for node in root.nodes
            ):
                continue  # what its callees keep is told of them
            kept = found.setdefault(key, {})

            def record(_state: str, event: Event, _config: Config, kept: dict[Slot, Place] = kept) -> None:
                if Effect.WS_ALLOC in self.effects(event) and event.node.slot is not None and event.places:
                    kept[event.node.slot] = event.places[0]

            self.run(root, "", record, capturing=True)
        return found

    def kept_by_captures(self, owner: str) -> Mapping[Slot, Place]:
        """Shared places that keep memory which the captures of a class allocate: class attributes and module variables."""
        waiting = list(self._called_in_captures.get(owner, ()))
        seen: set[str] = set()
        result: dict[Slot, Place] = {}
        while waiting:
            key = waiting.pop()
            if key in seen:
                continue
            seen.add(key)
            shared = self._kept_in_capture.get(key, {}).items()
            result.update((slot, place) for slot, place in shared if place[0].startswith(("class:", "mod:")))
            behavior = self.effectful.get(key)
            waiting += b.called_inside(behavior.node) if behavior is not None else ()
        return result

    @cached_property
    def _called_in_captures(self) -> Mapping[str | None, Sequence[str]]:
        """By class, the keys of behaviors that run inside the captures of its methods."""
        found: dict[str | None, list[str]] = {}
        for each in self.behaviors.all():
            if each.calls_in_capture:
                owner = self.project.functions[each.function].owner
                found.setdefault(owner, []).extend(sorted(each.calls_in_capture))
        return found

    def releaser(self, slot: Slot) -> str | None:
        """Dotted name of a function that gives up what a shared place holds and needs no argument."""
        for root in self.roots():
            function = self.project.functions[root.function]
            needs = [p for p in function.facts.params if p.default is None and p.kind in ("positional", "keyword")]
            own = 1 if function.kind == "classmethod" else 0
            if function.kind not in ("function", "classmethod", "staticmethod") or len(needs) > own:
                continue
            for node in root.nodes:
                if isinstance(node, b.Touches) and node.slot == slot and node.how in ("clear", "write", "drop"):
                    if Effect.WS_RELEASE in self.effects(Event(node, node.places, (), ())):
                        return root.function
        return None

    @cached_property
    def _kept_by_word(self) -> frozenset[str]:
        """Names of attributes and variables of which a vocabulary says that they keep memory from a capture."""
        return frozenset(
            entry.store.rpartition(".")[2]
            for entries in self.vocabulary.calls.values()
            for entry in entries
            if entry.while_capturing and entry.store is not None
        )

    def entry_for(self, slot: Slot | None) -> Entry | None:
        """The vocabulary's word that a slot keeps memory allocated while capturing."""
        if slot is None:
            return None
        for entries in self.vocabulary.calls.values():
            for entry in entries:
                if entry.while_capturing and entry.store is not None and entry.store.rpartition(".")[2] == slot[1]:
                    owner = entry.store.rpartition(".")[0]
                    if slot[0] in (owner, f"mod:{owner}"):
                        return entry
        return None


def binds(body: flow.Flow) -> Iterator[flow.Bind]:
    """Every assignment in a flow."""
    if isinstance(body, flow.Bind):
        yield body
    for child in flow.children(body):
        yield from binds(child)


def _refuses(node: Node) -> bool:
    """Whether a branch raises where the stream is being captured."""
    if not isinstance(node, b.Either) or not _asks(node.test):
        return False
    return any(
        isinstance(each, b.Leaves) and each.kind == "raise" for part in (node.then, node.other) for each in b.walk(part)
    )


def _asks(test: Test) -> bool:
    match test:
        case ("atom", "capturing", _):
            return True
        case ("not" | "and" | "or", *inner):
            return any(map(_asks, inner))
    return False


def _acts(node: Node) -> bool:
    """Whether a node does anything but leave."""
    return any(isinstance(each, b.Happens | b.Touches | b.Calls | b.Yields) for each in b.walk(node)) or any(
        isinstance(each, b.Leaves) and each.kind in ("return", "raise") for each in b.walk(node)
    )


def _is_shared(places: Sequence[Place]) -> bool:
    """Whether these are attributes of classes and variables of modules."""
    return bool(places) and all(place[0].startswith(("class:", "mod:")) for place in places)


def _atoms(test: tuple[object, ...]) -> set[str]:
    """Last names of the places in a test."""
    match test:
        case ("atom", _, place) if place:
            return {_last(place)}  # type: ignore[arg-type]
        case ("not" | "and" | "or", *inner):
            return {name for each in inner for name in _atoms(each)}  # type: ignore[arg-type]
    return set()


def _last(place: Place) -> str:
    for part in reversed(place):
        if part != ELEMENT:
            return part
    return ""


def analyse(project: Project, vocabulary: Vocabulary) -> Analysis:
    """Build the behaviors of a project: of all functions where they are few, else of those that effects can reach.

    The search begins at functions that mention a distinctive name of the vocabulary, with the classes they belong to, and
    goes on to the callers, by name, of what turned out to have an effect.
    """
    behaviors = Behaviors(project, vocabulary)
    if len(project.functions) <= _FEW_FUNCTIONS:
        for name in list(project.functions):
            behaviors.build(name)
        for name in [name for name in project.functions if not behaviors.is_built(name)]:
            behaviors.build(name)  # nested functions, known now that their parents are built
        return Analysis(project, vocabulary, behaviors)
    waiting = set(_first(project, vocabulary))
    behaviors.candidates = set()
    asked: set[str] = set()
    while True:
        behaviors.candidates |= waiting
        stale = {
            each.key
            for each in behaviors.all()
            for node in each.nodes
            if isinstance(node, b.Calls) and waiting.intersection(node.behaviors)
        }
        behaviors.forget(stale)
        for name in sorted(waiting | {key.partition("|")[0] for key in stale}):
            behaviors.build(name)
        for name in [name for name in project.functions if ".<locals>." in name and not behaviors.is_built(name)]:
            behaviors.build(name)
        analysis = Analysis(project, vocabulary, behaviors)
        effectful = {key.partition("|")[0] for key in analysis.acting}
        waiting = {
            caller for name in sorted(effectful - asked) for caller in _callers(behaviors, project, name)
        } - behaviors.candidates
        asked |= effectful
        if not waiting:
            return analysis


def _first(project: Project, vocabulary: Vocabulary) -> Iterator[str]:
    """Functions with a distinctive name in their text, the methods of their classes, the functions of their modules."""
    words = identifiers(vocabulary)
    found = [
        entry
        for entry in project.functions.values()
        if entry.facts.qualname != MODULE and not words.isdisjoint(entry.facts.words)
    ]
    owners = {entry.owner for entry in found if entry.owner is not None}
    modules = {entry.module.name for entry in found if entry.owner is None}
    libraries = {name for name, entries in vocabulary.calls.items() if any(each.makes == "memory" for each in entries)}
    makers = {
        module.name: frozenset(
            alias
            for alias, symbol in module.scope.items()
            if symbol.kind == "import" and vocabulary.canonical(symbol.name) in libraries
        )
        for module in project.modules.values()
    }
    spoken = {
        word for module in project.modules.values() for word in project.functions[f"{module.name}.{MODULE}"].facts.words
    }
    makes = frozenset(word for word in spoken if vocabulary.names.makes_memory(word) and word.islower())
    keepers = {
        entry.name: entry.owner
        for entry in project.functions.values()
        if entry.facts.qualname != MODULE
        and (
            keeps_memory(entry.module.source.content[slice(*entry.facts.span)])
            or not makes.isdisjoint(entry.facts.words)
            or not makers.get(entry.module.name, frozenset()).isdisjoint(entry.facts.words)
        )
    }
    owners |= {owner for owner in keepers.values() if owner is not None}
    for entry in project.functions.values():
        if entry.owner in owners or entry.name in keepers or (entry.owner is None and entry.module.name in modules):
            yield entry.name


def _callers(behaviors: Behaviors, project: Project, name: str) -> Iterator[str]:
    """Functions that may call a function, by its name; for a name that says little its class or module is mentioned too."""
    entry = project.functions[name]
    owner = entry.facts.owner.rpartition(".")[2] if entry.facts.owner else None
    word = entry.facts.name
    mention = owner or entry.module.name.rpartition(".")[2]
    if word in ("__init__", "__post_init__", "__enter__", "__exit__", "__aenter__", "__aexit__") and owner:
        word = owner
        mention = owner
    elif word.startswith("__") or ".<locals>." in name:
        return
    telling = "_" in word.strip("_") and word not in COMMON_METHODS
    for caller in behaviors.functions_with(word):
        module = project.functions[f"{caller.module.name}.{MODULE}"]
        if caller.facts.qualname != MODULE and (telling or mention in module.facts.words):
            yield caller.name


def load(sources: Sequence[Source], vocabulary: Vocabulary, roots: Sequence[str] = ()) -> list[Analysis]:
    """Read files and analyse the projects that they make up."""
    names = module_names(sources, roots)
    read = dict(zip((source.path for source in sources), _read_all(sources), strict=True))
    by_path = {source.path: source for source in sources}
    return [
        analyse(load_project([(by_path[path], read[path]) for path in paths], names), vocabulary)
        for paths in group(names)
    ]


def _read_all(sources: Sequence[Source]) -> list[Facts | ParseError]:
    """Outlines of files, by two processes where there are many."""
    if len(sources) < _MANY:
        return [_read(source) for source in sources]
    workers = min(os.cpu_count() or 1, 8)
    with ProcessPoolExecutor(workers, initializer=gc.disable) as pool:
        return list(pool.map(_read, sources, chunksize=max(1, len(sources) // (workers * 8))))


def _read(source: Source) -> Facts | ParseError:
    try:
        return facts.read(source)
    except ParseError as error:
        return error
