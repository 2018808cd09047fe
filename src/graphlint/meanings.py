"""What a change of what a place holds means: a write is the death of graphs, the release of memory, or nothing.

`self.graphs = None` ends graphs if some method puts captured graphs there, and is nothing if it holds numbers. So it takes
all behaviors of a project to say what one of them does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from graphlint import behavior as b
from graphlint.behavior import Slot
from graphlint.effects import Effect
from graphlint.holdings import GIVES_UP, Holdings
from graphlint.paths import Config, Event
from graphlint.values import Place

MATTERS = frozenset(("graph", "pool", "captured", "tensor", "mempool", "fresh", "memory"))
"""What a place holds whose change can be an effect."""


class _Meaning(NamedTuple):
    """The effects of a change of what a place holds, over all paths."""

    node: b.Touches
    given_up: tuple[Effect, ...]
    """Where the place is not known to be empty."""
    of_process: bool
    """Where it is the process's, besides, the memory of what it holds is released."""
    always: tuple[Effect, ...]


@dataclass
class Meanings(Holdings):
    """A project with its behaviors, and what each change in them means."""

    _meanings: dict[tuple[int, bool], _Meaning] = field(default_factory=dict)
    """By identity of a change, and whether a constructor makes it."""

    def effects(self, event: Event, config: Config | None = None) -> tuple[Effect, ...]:
        """Effects of an event: a vocabulary's, or what the write of a place means for what the place held.

        Where the path is known to have emptied the place before, there is nothing to give up.
        """
        node = event.node
        if isinstance(node, b.Happens):
            return (node.effect,)
        key = id(node), event.in_constructor
        meaning = self._meanings.get(key)
        if meaning is None:
            meaning = self._meanings[key] = self._meaning(node, in_constructor=event.in_constructor)
        if not (meaning.given_up or meaning.of_process):
            return meaning.always
        if config is not None and self._is_gone(node, event.places, config):
            return meaning.always
        if any(("atom", "none", place) in event.guards for place in event.places):
            return meaning.always  # made where there is none
        if meaning.of_process and _is_shared(event.places):
            return (Effect.WS_RELEASE, *meaning.given_up, *meaning.always)
        return (*meaning.given_up, *meaning.always)

    def _meaning(self, node: b.Touches, *, in_constructor: bool) -> _Meaning:
        held = self.holds(node.slot)
        replaced = node.how == "write" and bool(node.tags & {"none", "empty", "minted", "tensor", "new"})
        replaced = replaced or (node.how == "write" and "renewed" in node.tags and "graph" not in held)
        replaced = replaced and "moved" not in node.tags
        given_up: list[Effect] = []
        of_process = False
        if not in_constructor and (node.how in GIVES_UP or replaced):
            listed = node.slot is not None and self.behaviors.listed(*node.slot)  # other attributes hold them, too
            if "graph" in held and "pool" not in node.tags and not listed:
                given_up.append(Effect.GRAPH_DEATH)
            if held & {"captured", "tensor"} or ("declared" in held and self._is_read_by_graphs(node.slot)):
                given_up.append(Effect.WS_REPLACE if "tensor" in node.tags else Effect.WS_RELEASE)
            else:
                of_process = "memory" in held and "graph" not in held and "tensor" not in node.tags
            if "pool" in held and (node.how != "clear" or "graph" not in held):
                given_up.append(Effect.POOL_RETIRE)
            if "tensor" not in node.tags and self.is_cache(node.slot):
                given_up.append(Effect.KV_RELEASE)
        always: list[Effect] = []
        if node.how == "count" and not in_constructor and node.slot in self.counters:
            always.append(Effect.POOL_RETIRE)
        if node.how in ("write", "add"):
            if "tensor" in node.tags and node.slot is not None:
                always.append(Effect.WS_ALLOC)
            if "pool" in node.tags and node.slot is not None:
                always.append(Effect.POOL_STORE)
        return _Meaning(node, tuple(given_up), of_process, tuple(always))

    def _is_gone(self, node: b.Touches, places: tuple[Place, ...], config: Config) -> bool:
        """Whether a path knows that a place has nothing left to give up."""
        if len(places) != 1:
            return False
        held = self.holds(node.slot)
        return (
            ("owner" in held and self._is_emptied(places[0], config))
            or config.fact(("none", places[0])) is True
            or (
                node.how in ("clear", "pop", "write")
                and config.fact(("true", places[0])) is False
                and "pool" not in held
            )
        )

    def _is_emptied(self, owner: Place, config: Config) -> bool:
        """Whether a path knows that an object has lost the graphs of one of its stores, and of no store that it has any."""
        size = len(owner)
        known = {
            value
            for (kind, place), value in config.facts
            if kind == "true"
            and len(place) > size
            and place[:size] == owner
            and b.last_name(place) in self._graph_names
        }
        return known == {False}

    @cached_property
    def _graph_names(self) -> frozenset[str]:
        """Names of attributes and variables that hold graphs."""
        return frozenset(name for owner, name in list(self.behaviors.slots) if "graph" in self.holds((owner, name)))

    def is_of_interest(self, slot: Slot | None) -> bool:
        """Whether it can be an effect to change what a slot holds."""
        held = self.holds(slot)
        return (
            bool(held & MATTERS)
            or slot in self.counters
            or self.is_cache(slot)
            or ("declared" in held and self._is_read_by_graphs(slot))
        )

    def relevant(self, node: b.Touches) -> bool:
        """Whether a touch can be an effect, or decides a test."""
        if node.slot in self.counters and node.how == "count":
            return True
        if "graph" in node.tags or node.fresh:
            return True  # where a captured graph goes, or device memory
        if self.is_of_interest(node.slot):
            return True
        return any(part in self.tested for place in node.places for part in place[-1:])

    @cached_property
    def tested(self) -> frozenset[str]:
        """Last names of all places that some test asks about, and of containers that loops run over."""
        return frozenset(name for each in self.behaviors.all() for name in each.tested)

    @cached_property
    def counters(self) -> frozenset[Slot]:
        """Counts of users whose end releases something: decremented and tested in a function that gives something up."""
        found: set[Slot] = set()
        for each in self.behaviors.all():
            nodes = list(each.nodes)
            counted = [n for n in nodes if isinstance(n, b.Touches) and n.how == "count" and n.slot is not None]
            if not counted:
                continue
            tested = {name for n in nodes if isinstance(n, b.Either) for name in b.last_names(n.test)}
            gives = any(
                isinstance(n, b.Touches)
                and (n.how in GIVES_UP or n.tags & {"none", "empty", "minted"})
                and self.holds(n.slot) & MATTERS
                for n in nodes
            )
            if gives:
                found |= {n.slot for n in counted if n.slot is not None and n.slot[1] in tested}
        return frozenset(found)

    def _is_read_by_graphs(self, slot: Slot | None) -> bool:
        """Whether captured code reads a container of tensors, so that it holds device memory whatever fills it."""
        return slot is not None and slot in self._read_in_captures and self.is_container(slot)

    @cached_property
    def _read_in_captures(self) -> frozenset[Slot]:
        return frozenset[Slot]().union(*self.captured_reads.values())

    @cached_property
    def captured_reads(self) -> Mapping[str, frozenset[Slot]]:
        """What captured code reads, by the classes and modules that capture it or keep its graphs."""
        everything = {each.key: each for each in self.behaviors.all()}
        found: dict[str, set[Slot]] = {}
        for each in everything.values():
            if not each.reads_in_capture and not each.calls_in_capture and not each.params_in_capture:
                continue
            read = set(each.reads_in_capture)
            for name in each.params_in_capture:
                read |= self.behaviors.slots_given.get((each.function, name), set())
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


def _is_shared(places: Sequence[Place]) -> bool:
    """Whether these are attributes of classes and variables of modules."""
    return bool(places) and all(place[0].startswith(("class:", "mod:")) for place in places)
