"""The project's behaviors as rules need them: irrelevant parts gone, run along their paths, effects gathered by function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from graphlint import behavior as b
from graphlint import candidates, facts, flow
from graphlint.behavior import Behavior, Node, Slot
from graphlint.effects import Effect
from graphlint.endings import behind_all
from graphlint.evaluate import Behaviors
from graphlint.execution import Execution, ExhaustedError
from graphlint.facts import MODULE, Facts
from graphlint.handing import is_of_handed
from graphlint.meanings import MATTERS, Meanings
from graphlint.outliving import outlived
from graphlint.paths import Config, Event, Monitor, Outcome
from graphlint.project import Project, group, module_names
from graphlint.project import load as load_project
from graphlint.slices import Slice, pruned, sliced
from graphlint.source import Source
from graphlint.syntax import ParseError
from graphlint.values import ELEMENT, Place, flat
from graphlint.visiting import visit
from graphlint.vocabulary import Vocabulary

FEW_FUNCTIONS = 1_500
"""Up to this many functions, all are built."""

_MOST_NODES = 6_000
"""Most nodes that are visited to find the effects of one function."""
_MOST_WAYS = 3
"""Most ways from one function to another, with the same arguments, that are told apart."""

_GRAPHS = frozenset(("graph", "pool", "captured", "mempool"))
_OF_GRAPHS = frozenset(("graph", "pool", "mempool", "owner"))
_OF_MEMORY = frozenset((Effect.WS_RELEASE, Effect.WS_REPLACE, Effect.WS_ALLOC, Effect.KV_RELEASE))
_CAPTURES = frozenset((Effect.CAPTURE, Effect.CAPTURE_END))
_PASSING = frozenset(
    (
        Effect.SYNC,
        Effect.REPLAY,
        Effect.WS_ALLOC,
        Effect.WS_REPLACE,
        Effect.POOL_MINT,
        Effect.POOL_STORE,
        Effect.CAPTURE_END,
    )
)
_WAITS = frozenset((Effect.SYNC,))


class Site(NamedTuple):
    """An effect somewhere in what a function does, paths aside."""

    effect: Effect
    places: tuple[Place, ...]
    event: Event


@dataclass
class Analysis(Meanings):
    """A project with its behaviors, and what they come to."""

    exhausted: set[str] = field(default_factory=set)
    """Functions whose paths were too many to follow each of them to the end."""
    releasers: dict[str, list[tuple[str, frozenset[str]]]] = field(default_factory=dict)
    """By vocabulary entry: classes with a method that releases its store, and the words of that method."""
    _sites: dict[str, tuple[Site, ...]] = field(default_factory=dict)
    _slices: dict[frozenset[Effect], Slice] = field(default_factory=dict)

    def prepare(self) -> None:
        """Find out what most rules ask for, before they are looked at by several processes."""
        for _ in (self.kinds, self.remembered, self.memory):
            pass

    @cached_property
    def remembered(self) -> frozenset[str]:
        """Names that facts are kept about: tested ones, and those of places that hold what matters."""
        held = {
            slot[1]
            for each in self.behaviors.all()
            for node in each.nodes
            if isinstance(node, b.Touches) and (slot := node.slot) is not None and self.holds(slot) & MATTERS
        }
        return self.tested | held

    @cached_property
    def memory(self) -> frozenset[str]:
        """Names of attributes and variables that device memory is put into."""
        return frozenset(slot[1] for slot, notes in self.behaviors.slots.items() if "fresh" in notes.tags)

    @cached_property
    def _counted(self) -> frozenset[Slot]:
        """Attributes and variables that count down somewhere."""
        return frozenset(
            node.slot
            for each in self.behaviors.all()
            for node in each.nodes
            if isinstance(node, b.Touches) and node.how == "count" and node.slot is not None
        )

    @cached_property
    def lent(self) -> frozenset[Slot]:
        """Lists out of which somebody takes what others put in."""
        taken = {
            node.slot
            for each in self.behaviors.all()
            for node in each.nodes
            if isinstance(node, b.Touches) and node.how == "pop" and node.slot is not None
        }
        return frozenset(slot for slot in taken if {t.name for t in self._types(slot)} & {"list", "deque"})

    # ------------------------------------------------------------------------------------------------- behaviors

    @cached_property
    def acting(self) -> frozenset[str]:
        """Keys of the behaviors that do something of interest, themselves or through a call."""
        everything = {each.key: each for each in self.behaviors.all()}
        self._note_captures_given()
        for each in everything.values():
            self._note_given(each)
            each.paths = self._paths(each) if self.behaviors.ways else {}
            each.alike = self._alike(each) if self.behaviors.alike else {}
        found: set[str] = set()
        for key, each in everything.items():
            if each.acts or any(map(self.is_of_interest, each.touched)):
                found.add(key)
        return self._with_callers(found)

    def leading(self, keeping: frozenset[str]) -> frozenset[str]:
        """Keys of the behaviors whose callers matter too: of those that do more than wait, or that put a tensor somewhere.

        Args:
            keeping: functions that keep memory for the next call, so that it matters who calls them.
        """
        asking = [each.key for each in self.behaviors.all() if each.asks_capture]
        return self._with_callers(asking) | self._with_callers(
            key
            for key in self.acting
            if (each := self.behaviors.built(key)) is not None
            and (each.effects - _WAITS or each.function in keeping or any(map(self._is_of_graphs, each.touched)))
        )

    def _with_callers(self, keys: Iterable[str]) -> frozenset[str]:
        found = set(keys)
        waiting = list(found)
        while waiting:
            for caller in self._calling.get(waiting.pop(), ()):
                if caller not in found:
                    found.add(caller)
                    waiting.append(caller)
        return frozenset(found)

    @cached_property
    def _calling(self) -> Mapping[str, Sequence[str]]:
        """By key, the keys of all behaviors that call it."""
        found: dict[str, list[str]] = {}
        for each in self.behaviors.all():
            for callee in each.callees:
                found.setdefault(callee, []).append(each.key)
        return found

    @cached_property
    def outlived(self) -> frozenset[str]:
        """Names of the attributes from which a variable has on what was there."""
        return outlived(self.effectful.values())

    def _is_of_graphs(self, slot: Slot | None) -> bool:
        """Whether a slot holds graphs, or what belongs to some."""
        return bool(self.holds(slot) & _GRAPHS) or slot in self.counters or self.is_cache(slot)

    @cached_property
    def effectful(self) -> Mapping[str, Behavior]:
        """The acting behaviors by key, irrelevant nodes gone."""
        acting = self.acting
        first = {key: self._kept(key, acting) for key in acting}
        setting = self._setting(first)
        kept = acting | setting
        again = {key for each in setting for key in self._calling.get(each, ()) if key in kept} | setting
        return {key: self._kept(key, kept) if key in again else first[key] for key in sorted(kept)}

    def _kept(self, key: str, keys: frozenset[str]) -> Behavior:
        """A behavior without what is irrelevant, calls of others than those with the keys included."""
        built = self.behaviors.built(key)
        assert built is not None
        return replace(built, node=self._simplified(built.node, keys))

    def _setting(self, acting: Mapping[str, Behavior]) -> frozenset[str]:
        """Keys of behaviors that acting ones call which set what decides whether they act, and do no more than that."""
        asked = frozenset(name for each in acting.values() for name in each.tested)
        found: set[str] = set()
        waiting = [*acting]
        seen = set(waiting)
        while waiting:
            built = self.behaviors.built(waiting.pop())
            for key in built.callees - seen if built is not None else ():
                seen.add(key)
                waiting.append(key)
                callee = self.behaviors.built(key)
                if callee is not None and any(slot is not None and slot[1] in asked for slot in callee.touched):
                    if not callee.function.endswith((".__init__", ".__post_init__")):
                        found.add(key)
        return (self._with_callers(found) & seen) - acting.keys()

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

    def _alike(self, behavior: Behavior) -> dict[Place, Place]:
        """Attributes of the object of a method that may be the object which another attribute is."""
        owner = self.project.functions[behavior.function].owner
        if behavior.receiver is None or owner is None:
            return {}
        me = f"${behavior.receiver}"
        return {(me, name): (me, target) for name, target in self.behaviors.alike_of(owner).items()}

    def _note_given(self, behavior: Behavior) -> None:
        """Note that a slot is given device memory which a caller allocates for it."""
        params = self.behaviors.given.get(behavior.function, ())
        for node in behavior.nodes if params else ():
            if isinstance(node, b.Touches) and any(p[0][1:] in params and len(p) == 1 for p in node.value_places):
                self.behaviors.note(node.slot).tags.add("fresh")

    def _note_captures_given(self) -> None:
        """Note that a slot is given what a capture made: as an argument, through however many calls, or in a container."""
        by_function: dict[str, list[Behavior]] = {}
        for each in self.behaviors.all():
            by_function.setdefault(each.function, []).append(each)
        for each in self.behaviors.all():
            for node in each.nodes if each.calls_in_capture or Effect.CAPTURE in each.effects else ():
                if not isinstance(node, b.Touches) or node.how != "add" or "captured" not in node.tags:
                    continue
                entry = self.project.functions[each.function]
                params = [place[0][1:] for place in node.places if len(place) == 1 and place[0][0] == "$"]
                for slot in {s for param in params for s in self.behaviors.slots_given.get((entry.name, param), ())}:
                    notes = self.behaviors.note(slot)
                    notes.tags.add("captured")
                    notes.capturers.add(entry.owner or f"mod:{entry.module.name}")
        self._note_computed()
        given = self.behaviors.captures_given
        tables = self._note_tables_given(given)
        waiting = list(given)
        while waiting:
            function, param = waiting.pop()
            capturers = given[function, param]
            for each in by_function.get(function, ()):
                for node in each.nodes:
                    if isinstance(node, b.Touches) and node.slot is not None and _is_put(param, node.value_places):
                        notes = self.behaviors.note(node.slot)
                        notes.tags.add("captured")
                        notes.capturers |= capturers
                        if node.how == "write" and "copy" not in node.tags and (f"${param}",) in node.value_places:
                            notes.same |= tables.get((function, param), set()) - {node.slot}
                    elif isinstance(node, b.Calls):
                        for name, places in node.bindings:
                            for key in node.behaviors if (f"${param}",) in places else ():
                                known = given.setdefault((key.partition("|")[0], name), set())
                                if not capturers <= known:
                                    known |= capturers
                                    waiting.append((key.partition("|")[0], name))

    def _note_tables_given(self, given: dict[tuple[str, str], set[str]]) -> Mapping[tuple[str, str], set[Slot]]:
        """Note which parameters are given whole tables of what captures made; returns the attributes that have the tables."""
        found: dict[tuple[str, str], set[Slot]] = {}
        for key, slots in self.behaviors.slots_given.items():
            known = {slot: notes for slot in slots if (notes := self.behaviors.slots.get(slot)) is not None}
            tables = {slot: notes.capturers for slot, notes in known.items() if "captured" in notes.tags}
            if tables:
                found[key] = set(tables)
                given.setdefault(key, set()).update(*tables.values())
        return found

    def _note_computed(self) -> None:
        """Note that slots are given what code that runs in a capture has computed, and what it hands on of that."""
        for owner, keys in self._called_in_captures.items():
            waiting, seen = list(keys), set[str]()
            while waiting:
                key = waiting.pop()
                each = self.behaviors.built(key)
                if key in seen or each is None:
                    continue
                seen.add(key)
                waiting += b.called_inside(each.node)
                for node in each.nodes if each.computed else ():
                    if isinstance(node, b.Touches) and node.slot is not None:
                        if node.how in ("write", "add") and not each.computed.isdisjoint(node.value_places):
                            notes = self.behaviors.note(node.slot)
                            notes.tags.add("captured")
                            notes.capturers |= {owner} if owner is not None else set()
                    elif isinstance(node, b.Calls):
                        for name, places in node.bindings:
                            for callee in node.behaviors if not each.computed.isdisjoint(places) else ():
                                given = self.behaviors.captures_given
                                if owner is not None:
                                    given.setdefault((callee.partition("|")[0], name), set()).add(owner)

    def _simplified(self, node: Node, keys: frozenset[str]) -> Node:
        def visited(each: Node) -> Node:
            match each:
                case b.Touches():
                    return each if self.relevant(each) else b.NOTHING
                case b.Calls():
                    return each if not keys.isdisjoint(each.behaviors) else b.NOTHING
                case b.Within() if keys.isdisjoint(each.calls.behaviors):
                    return visited(each.body)
            return b.simplified(each, visited)

        return visited(node)

    def roots(self) -> Iterator[Behavior]:
        """Effectful functions as written: no variants for argument types, no module levels."""
        for key, each in self.effectful.items():
            if ("|" not in key or each.is_later) and not key.endswith((MODULE, *b.TWICE)):
                yield each

    def finalized(self) -> Iterator[Behavior]:
        """Effectful methods, each with what does the same once more: a finalizer, a cleanup, what runs at exit."""
        for key, each in self.effectful.items():
            if key.endswith(b.TWICE):
                yield each

    def roots_of(self, function: str) -> Sequence[Behavior]:
        """Those of one function."""
        return self._roots_by_function.get(function, ())

    @cached_property
    def _roots_by_function(self) -> Mapping[str, Sequence[Behavior]]:
        found: dict[str, list[Behavior]] = {}
        for each in self.roots():
            found.setdefault(each.function, []).append(each)
        return found

    def sliced(self, effects: frozenset[Effect]) -> Slice:
        """The behaviors that lead to some effects, and what decides whether they do."""
        known = self._slices.get(effects)
        if known is None:
            held = _OF_GRAPHS if effects.isdisjoint(_OF_MEMORY) else _OF_GRAPHS | MATTERS

            def matters(node: b.Happens | b.Touches) -> bool:
                return not effects.isdisjoint(self.effects(Event(node, node.places, (), ())))

            given_up = {
                node.slot
                for each in self.effectful.values()
                for node in (each.nodes if Effect.WS_RELEASE in effects else ())
                if isinstance(node, b.Touches) and node.slot is not None and matters(node)
            }

            entered = {
                id(node)
                for each in self.effectful.values()
                if each.function.rpartition(".")[2] in ("__enter__", "__aenter__")
                for node in each.nodes
                if isinstance(node, b.Touches) and node.how == "write" and "tensor" in node.tags
            }

            def asked(node: b.Happens | b.Touches) -> bool:
                fills = (
                    isinstance(node, b.Touches) and node.slot in given_up and (node.how == "add" or id(node) in entered)
                )  # nothing to give up before
                return fills or matters(node)

            def belongs(node: b.Happens | b.Touches) -> bool:
                if isinstance(node, b.Happens):
                    return node.effect in effects or node.effect in _CAPTURES
                return asked(node) or not held.isdisjoint(node.tags) or not held.isdisjoint(self.holds(node.slot))

            known = self._slices[effects] = sliced(self.effectful, asked, belongs)
        return known

    def run(
        self,
        root: Behavior,
        start: str,
        monitor: Monitor,
        effects: frozenset[Effect] | None = None,
        *,
        again: bool = False,
        alike: bool = False,
        members: Mapping[Place, tuple[Place, ...]] | None = None,
        moves: Mapping[Place, tuple[Place, ...]] | None = None,
        renewed: Callable[[Config, Callable[[str], bool]], Config] = lambda config, _: config,
        **facts: bool,
    ) -> Outcome | None:
        """Run a behavior; None (and a note) where its paths are too many.

        Args:
            root: what to run.
            start: the monitor's first state.
            monitor: is told of the events.
            effects: those that the monitor listens to; None: all.
            again: whether a release that does harm because it is the second one counts as one, if it ends nothing.
            alike: attributes that may be one object are one.
            members: places of tables, and of the objects that stand in them.
            renewed: is told where new objects take the names of those that were made before: of which roots of places.
            moves: places of tables, and of the items of others that are put there.
            facts: what is known before, about the run itself: `capturing`, `device`.
        """
        select, remembered = self.effectful.get, self.remembered
        if effects is not None:
            part = self.sliced(effects)
            root, select, remembered = part.of(root), part.behaviors.get, part.remembered
        execution = Execution(
            select,
            monitor,
            tested=remembered,
            memory=self.memory,
            whole=self.behaviors.built if again else None,
            counted=self._counted if again else frozenset(),
            lent=self.lent if again else frozenset(),
            doubled=frozenset(name for _, name in self.behaviors.doubled) if again else frozenset(),
            alike=alike,
            members=members or {},
            moves=moves or {},
            captured=self._captured_functions,
            outlived=self.outlived if again else frozenset(),
            renewed=renewed,
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
        """All effects in what a function does, callees included, in the order of the text; paths aside.

        Callees that at most allocate, wait or replay are left out: their effects change nothing for what their callers hold.
        """
        known = self._sites.get(root.key)
        if known is None:
            found: dict[tuple[object, ...], Site] = {}

            def record(event: Event) -> None:
                for effect in self.effects(event):
                    spans = tuple(frame.span for frame in event.stack)
                    found.setdefault(
                        (effect, event.places, spans, event.stack[-1].function), Site(effect, event.places, event)
                    )

            whole = self._lasting.get(root.key, root)
            if not visit(whole, self._lasting.get, record, ways=_MOST_WAYS, steps=_MOST_NODES):
                self.exhausted.add(root.function)
            known = self._sites[root.key] = tuple(found.values())
        return known

    @cached_property
    def _lasting(self) -> Mapping[str, Behavior]:
        """The effectful behaviors with an effect that says something of what others hold, and the touches that are effects."""
        keys = {key for key, kinds in self.kinds.items() if not kinds <= _PASSING}

        def keeps(node: b.Happens | b.Touches) -> bool:
            return isinstance(node, b.Happens) or bool(self.effects(Event(node, node.places, (), ())))

        return {key: pruned(self.effectful[key], keys, keeps) for key in sorted(keys)}

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
        """Whether all that a function does happens in one call of it: what there is to say is said of the callee.

        It is not where the callee does what the function hands it.
        """
        acting = [node for node in root.nodes if isinstance(node, b.Happens | b.Touches | b.Calls)]
        if len(acting) != 1 or not isinstance(acting[0], b.Calls):
            return False
        return not any(map(is_of_handed, acting[0].behaviors))

    def variable(self, function: str, root: str) -> str:
        """Name of the local variable that holds what the expression of a root `@offset` made; empty if none does."""
        offset = root[1:].partition(".")[0]
        entry = self.project.functions[function]
        if not offset.isdigit():
            return ""
        for each in flow.statements(entry.lowered.flow):
            match each:
                case (
                    flow.Bind(target=flow.Name(id=name), value=made)
                    | flow.Scope(target=flow.Name(id=name), context=made)
                ):
                    if made is not None and made.span.start == int(offset):
                        return name
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
    def _captured_functions(self) -> frozenset[str]:
        return frozenset(key.partition("|")[0] for key in self.captured)

    @cached_property
    def captured_slots(self) -> frozenset[Slot]:
        """Places that keep memory allocated while a stream is being captured."""
        return frozenset(slot for slots in self._kept_in_capture.values() for slot in slots)

    def keeps_captured(self, slot: Slot | None) -> bool:
        """Whether a place holds an object that keeps memory allocated while a stream is being captured."""
        if slot is None:
            return False
        notes = self.behaviors.slots.get(slot)
        classes = {t.name for t in flat(self._types(slot))} | (notes.types if notes is not None else set())
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


def binds(body: flow.Flow) -> Iterator[flow.Bind]:
    """Every assignment in a flow."""
    if isinstance(body, flow.Bind):
        yield body
    for child in flow.children(body):
        yield from binds(child)


def _is_put(param: str, places: Iterable[Place]) -> bool:
    """Whether an argument, or an item of it, is what is put somewhere."""
    return any(
        place[0] == f"${param}" and all(part == ELEMENT or part.isdigit() for part in place[1:]) for place in places
    )


def _keep_exits(behaviors: Behaviors) -> None:
    """Keep functions once more together with what runs at the end of the process."""
    if behaviors.at_exit:
        for each in list(behind_all(behaviors.all(), frozenset(behaviors.at_exit), behaviors.project)):
            behaviors.put(each)


def analyse(project: Project, vocabulary: Vocabulary) -> Analysis:
    """Build the behaviors of a project: of all functions where they are few, else of those that effects can reach.

    The search begins at functions whose text says something. It goes on to the callers, by name, of what turned out to have
    an effect; to what such functions name nearby; and to functions that mention what was found to hold graphs or memory.
    """
    behaviors = Behaviors(project, vocabulary)
    if len(project.functions) <= FEW_FUNCTIONS:
        for name in list(project.functions):
            behaviors.build(name)
        for name in [name for name in project.functions if not behaviors.is_built(name)]:
            behaviors.build(name)  # nested functions, known now that their parents are built
        _keep_exits(behaviors)
        return Analysis(project, vocabulary, behaviors)
    first = candidates.first(project, vocabulary)
    telling = first.speaking | first.keeping
    waiting = set(telling)
    behaviors.candidates = set()
    mates, callers = candidates.Mates(project), candidates.Callers(behaviors)
    asked: set[str] = set()
    followed: set[Slot] = set()
    while True:
        behaviors.candidates |= waiting
        stale = {each.key for each in behaviors.all() if not waiting.isdisjoint(each.callees)}
        acting = {name for key in stale for name in behaviors.passed_over.pop(key, ())}.union(
            *(behaviors.passed_over.pop(name, ()) for name in waiting)
        )
        stale |= {each.key for each in behaviors.all() if each.function in acting}
        behaviors.forget(stale)
        for name in sorted(waiting | {key.partition("|")[0] for key in stale}):
            behaviors.build(name)
        behaviors.renew(sorted(stale))
        for name in [name for name in project.functions if ".<locals>." in name and not behaviors.is_built(name)]:
            behaviors.build(name)
        _keep_exits(behaviors)
        analysis = Analysis(project, vocabulary, behaviors)
        leading = [each for each in map(behaviors.built, sorted(analysis.leading(first.keeping))) if each is not None]
        new = {each.function for each in leading} - asked
        held = {slot for slot in list(behaviors.slots) if slot not in followed and analysis.holds(slot) & MATTERS}
        waiting = {caller for name in sorted(new) for caller in callers.of(name)}
        waiting |= {name for slot in sorted(held) for name in mates.mentioning(slot)}
        for each in leading:
            if each.function in new & telling:
                waiting |= mates.named(each.function, far=Effect.CAPTURE in each.effects)
        reading = (each for each in leading if each.function in new)
        waiting |= set(candidates.binders(reading, behaviors, analysis.is_declared))
        waiting -= behaviors.candidates
        followed |= held
        asked |= new
        if not waiting:
            return analysis


def load(sources: Sequence[Source], vocabulary: Vocabulary, roots: Sequence[str] = ()) -> list[Analysis]:
    """Read files and analyse the projects that they make up."""
    names = module_names(sources, roots)
    read = {source.path: _read(source) for source in sources}
    by_path = {source.path: source for source in sources}
    return [
        analyse(load_project([(by_path[path], read[path]) for path in paths], names), vocabulary)
        for paths in group(names)
    ]


def _read(source: Source) -> Facts | ParseError:
    try:
        return facts.read(source)
    except ParseError as error:
        return error
