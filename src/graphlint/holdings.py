"""What attributes and variables hold: graphs, pools, what a capture made, tensors, objects that own any of these.

Where an attribute can be an object of the project, what its own attributes hold counts, too; and objects hold each other in
circles. So all places that depend on one another are settled together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from graphlint import behavior as b
from graphlint.assignments import is_record
from graphlint.behavior import Slot
from graphlint.effects import Effect
from graphlint.evaluate import Behaviors
from graphlint.project import Project
from graphlint.values import CONTAINERS, GRAPH, MEMPOOL, TENSOR, Type, flat
from graphlint.vocabulary import Entry, Vocabulary

GIVES_UP = frozenset(("drop", "clear", "pop"))
"""How a place is touched that has then lost what it held."""
_MEMORY = frozenset(("captured", "tensor", "declared", "mempool", "memory"))
"""What a place holds that keeps device memory."""


class _Content(NamedTuple):
    """What is said of an attribute or a variable itself."""

    tags: frozenset[str]
    classes: Sequence[str]
    """Of the project, of what it can be."""
    sources: Sequence[Slot]
    """Slots whose values were put there as they are."""
    same: frozenset[Slot]
    """Those of them that are the same container under another name."""


@dataclass
class Holdings:
    """A project with its behaviors, and what its places hold."""

    project: Project
    vocabulary: Vocabulary
    behaviors: Behaviors
    known: dict[tuple[str, str], Any] = field(default_factory=dict)
    """What the modules above have found out: their own key, and a name."""
    _owns: dict[str, frozenset[str]] = field(default_factory=dict)
    _holds: dict[Slot, frozenset[str]] = field(default_factory=dict)
    _attributes: dict[str, Sequence[Slot]] = field(default_factory=dict)

    def holds(self, slot: Slot | None) -> frozenset[str]:
        """What an attribute or variable holds.

        graph, pool, mempool, captured, tensor, `declared` (a tensor, by its annotation alone), `owner` (an object that
        owns graphs), `memory` (an object that owns device memory).
        """
        if slot is None:
            return frozenset()
        known = self._holds.get(slot)
        if known is None:
            self._settle(slot)
            known = self._holds[slot]
        return known

    def _settle(self, slot: Slot) -> None:
        """Find out what a slot holds, and all slots that this depends on: objects that hold each other agree in the end."""
        contents: dict[Slot, _Content] = {}
        waiting = [slot]
        while waiting:
            each = waiting.pop()
            if each not in contents and each not in self._holds:
                content = contents[each] = self._content(each)
                waiting += content.sources
                waiting += [inner for name in content.classes for inner in self.slots_of(name)]
        held = {each: set(content.tags) for each, content in contents.items()}
        is_settled = False
        while not is_settled:
            is_settled = True
            owned: dict[str, set[str]] = {}
            for each, content in contents.items():
                found = held[each]
                before = len(found)
                for source in content.sources:
                    there = held.get(source) or self._holds.get(source, frozenset())
                    found |= there if source in content.same else there & {"captured"}
                for name in content.classes:
                    inside = owned.get(name)
                    if inside is None:
                        slots = self.slots_of(name)
                        inside = owned[name] = {
                            tag for inner in slots for tag in held.get(inner) or self._holds.get(inner, frozenset())
                        } | self._is_graph(name)
                    is_local = each[0].startswith("local:")  # whose end is told of the object itself
                    if "graph" in inside and not is_local:
                        found |= {"graph", "owner"}
                    if inside & _MEMORY and not is_local:
                        found.add("memory")
                    if is_record(self.project.classes[name]):
                        found |= inside & {"captured", "tensor", "pool"}
                    elif "captured" in inside and self.is_carrier(name):
                        found.add("captured")
                is_settled &= len(found) == before
        self._holds.update((each, frozenset(found)) for each, found in held.items())

    def is_carrier(self, class_name: str) -> bool:
        """Whether objects of a class keep what a capture made for as long as they are there: no method gives that up."""
        if is_record(self.project.classes[class_name]):
            return True
        known = self.known.get(("carrier", class_name))
        if known is None:
            family = {each for each in self.project.mro(class_name) if each in self.project.classes}
            methods = (name for each in family for name in self.project.classes[each].methods.values())
            known = self.known["carrier", class_name] = not any(
                node.effect is Effect.ERASE and not node.entry
                if isinstance(node, b.Happens)
                else isinstance(node, b.Touches)
                and node.slot is not None
                and node.slot[0] in family
                and (node.how in GIVES_UP or (node.how == "write" and bool(node.tags & {"none", "empty"})))
                and "captured" in self.behaviors.note(node.slot).tags
                and not name.endswith(".__init__")
                for name in methods
                if (built := self.behaviors.built(name)) is not None
                for node in built.nodes
            )
        return bool(known)

    def _content(self, slot: Slot) -> _Content:
        """What is said of a slot itself."""
        owner, name = slot
        names = {t.name for t in flat(self._types(slot))}
        notes = self.behaviors.slots.get(slot)  # a class body's are made with its types
        tags = set(notes.tags) if notes is not None else set()
        names |= notes.types | notes.objects if notes is not None else set()
        sources = sorted(notes.sources) if notes is not None else []
        if name in self._kept_by_word and self.entry_for(slot) is not None:
            tags.add("captured")
        for each in names:
            canonical = self.vocabulary.canonical(each)
            tags |= {
                kind for of, kind in ((GRAPH, "graph"), (TENSOR, "declared"), (MEMPOOL, "mempool")) if of == canonical
            }
        near = [source for source in sources if source[0] == owner and self.is_container(source)]
        same = frozenset(near) if near and self.is_container(slot) else frozenset[Slot]()  # under another name
        return _Content(
            frozenset(tags), tuple(sorted(each for each in names if each in self.project.classes)), tuple(sources), same
        )

    def classes_of(self, slot: Slot) -> Sequence[str]:
        """Classes of the project that what an attribute or a variable holds can be of."""
        return [t.name for t in self._types(slot) if t.name in self.project.classes]

    def slots_of(self, class_name: str) -> Sequence[Slot]:
        """The attributes of a class's instances."""
        known = self._attributes.get(class_name)
        if known is None:
            known = self._attributes[class_name] = tuple(
                (each, name)
                for each in self.project.mro(class_name)
                if (entry := self.project.classes.get(each)) is not None
                for name in sorted({*self.behaviors.field_bindings(each), *entry.attributes})
            )
        return known

    def _is_graph(self, class_name: str) -> frozenset[str]:
        is_graph = any(self.vocabulary.canonical(each) == GRAPH for each in self.project.mro(class_name))
        return frozenset(("graph",)) if is_graph else frozenset()

    def is_container(self, slot: Slot) -> bool:
        """Whether an attribute or variable holds a container, and nothing else."""
        types = self._types(slot) if not slot[0].startswith("keys:") else ()
        return bool(types) and all(t.name in CONTAINERS for t in types)

    def _types(self, slot: Slot) -> tuple[Type, ...]:
        """Types of what an attribute or a variable can hold."""
        owner, name = slot
        if owner.startswith("mod:"):
            return self.behaviors.variable_types(f"{owner[4:]}.{name}")
        if owner.startswith("keys:"):
            return self.behaviors.known_types(slot)
        return self.behaviors.field_types(owner, name) if owner in self.project.classes else ()

    def owns(self, class_name: str) -> frozenset[str]:
        """What the attributes of a class's instances hold, the classes of these attributes included."""
        known = self._owns.get(class_name)
        if known is None:
            held = (self.holds(slot) for slot in self.slots_of(class_name))
            known = self._owns[class_name] = self._is_graph(class_name).union(*held)
        return known

    def is_declared(self, slot: Slot) -> bool:
        """Whether a slot is known to hold a tensor by its type alone."""
        return "declared" in self.holds(slot)

    def is_cache(self, slot: Slot | None) -> bool:
        """Whether an attribute or variable holds the requests' cache: device memory, under a name that says so."""
        held = self.holds(slot)
        if slot is None or not held & _MEMORY or held & {"graph", "pool"}:
            return False
        return self.vocabulary.names.is_cache(slot[1], owned="memory" in held)

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

    @cached_property
    def _kept_by_word(self) -> frozenset[str]:
        """Names of attributes and variables of which a vocabulary says that they keep memory from a capture."""
        return frozenset(
            entry.store.rpartition(".")[2]
            for entries in self.vocabulary.calls.values()
            for entry in entries
            if entry.while_capturing and entry.store is not None
        )
