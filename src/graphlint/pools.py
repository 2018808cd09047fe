"""Lifetimes of pool handles, over all calls that a program can make of an object.

A pool lives as long as some graph that was captured into it. A handle that is kept when the last of these graphs dies names a
pool without users; the next capture into it is the hazard. No single function shows that: one method captures, one
releases, one captures again. So the automaton runs along sequences of an object's public methods: its constructor, one that
captures, one that releases, one that captures. For a handle that outlives the object (a class attribute, a module
variable) a new object may be made in between.

The state remembers which places hold a live graph of the pool, so that a release that spares one (an anchor) is none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from graphlint import behavior as b
from graphlint import flow
from graphlint.automaton import HAZARD
from graphlint.behavior import Behavior, Slot
from graphlint.effects import Effect
from graphlint.execution import Execution, ExhaustedError
from graphlint.findings import MAX_STEPS, Precision, Severity, Step, Suspect
from graphlint.fleeting import is_fleeting
from graphlint.learned import NOTHING_LEARNED
from graphlint.paths import Config, Event, Frame, atoms
from graphlint.portions import MAYBE, SOME, is_kept, portion
from graphlint.readers import is_drop, owners
from graphlint.rule import Rule
from graphlint.source import Span
from graphlint.summaries import Analysis, Site
from graphlint.typestate import place_text, step
from graphlint.values import ELEMENT, MEMO, Place, Test

_MOST_CAPTURES = 2
"""Most capturing methods that a release is tried between."""
_MOST_METHODS = 8
_NEAR = 2
"""Deepest call, from the method on, in which a capture into a shared handle is the object's own."""
_MOST_STEPS = 24_000
"""Most nodes visited for one object and one pool."""
_MOST_CONFIGURATIONS = 64
_TAKES = frozenset(("clear", "drop", "pop"))
_USES = frozenset((Effect.CAPTURE, Effect.GRAPH_DEATH, Effect.POOL_RETIRE))
_SHARED = ("class:", "mod:")
_KEPT: Place = ("<kept>",)
"""Stands for whatever keeps a graph that was taken out of its table."""


class _State(NamedTuple):
    """The automaton's state, and the places that hold live graphs of the pool."""

    name: str
    live: frozenset[Place] = frozenset()


def suspects(analysis: Analysis, rule: Rule) -> Iterator[Suspect]:
    """Every place that kills the last graphs of a pool whose handle is then captured into again."""
    cut: set[str] = set()
    best: dict[tuple[str, Span], Suspect] = {}
    kept: set[Slot] = set()
    run: set[tuple[Place, tuple[str, ...]]] = set()
    for store in stores(analysis):
        suspect = _store_suspect(analysis, rule, store)
        kept.add(store.slot)
        best[suspect.path, suspect.at] = suspect
    for owner in sorted(analysis.project.classes):
        methods = _methods(analysis, owner)
        kinds = {effect for each in methods for effect in analysis.kinds[each.key]}
        if not {Effect.CAPTURE, Effect.GRAPH_DEATH} <= kinds:
            continue
        fleeting = is_fleeting(analysis, owner)
        for pool in _pools(analysis, methods):
            if fleeting and not pool[0].startswith(_SHARED):
                continue
            held = _slot(analysis, owner, pool)
            if held is not None and any("mempool" in analysis.holds(each) for each in _sources(analysis, held)):
                continue  # the pool object beside the handle uses the pool
            if held is not None and not pool[0].startswith(_SHARED) and _is_one_sharer(analysis, held):
                continue  # the others that share it live on
            sequence = pool, tuple(each.key for each in methods)
            if sequence in run:
                continue  # a class inherits all of it: what it does was seen there
            run.add(sequence)
            for trace in _Runs(analysis, rule, owner, methods, pool, cut).hazards():
                if held is not None and kept & {held, *_sources(analysis, held)}:
                    continue  # told at its store
                suspect = _suspect(analysis, rule, methods[0], pool, held, trace)
                key = (suspect.path, suspect.at)
                if key not in best or len(suspect.trace) < len(best[key].trace):
                    best[key] = suspect
    for pool, functions in _functions(analysis):
        for trace in _Runs(analysis, rule, "", functions, pool, cut).hazards():
            suspect = _suspect(analysis, rule, functions[0], pool, None, trace)
            key = (suspect.path, suspect.at)
            if key not in best or len(suspect.trace) < len(best[key].trace):
                best[key] = suspect
    yield from (best[key] for key in sorted(best))


def _functions(analysis: Analysis) -> Iterator[tuple[Place, list[Behavior]]]:
    """Handles in dictionaries that functions are given as others are given an object, with these functions of a module."""
    found: dict[tuple[str, Place], None] = {}
    by_module: dict[str, list[Behavior]] = {}
    for each in analysis.roots():
        function = analysis.project.functions[each.function]
        if function.owner is not None or function.parent is not None or not analysis.kinds[each.key] & _USES:
            continue
        by_module.setdefault(function.module.name, []).append(each)
        for site in analysis.sites(each) if Effect.CAPTURE in analysis.kinds[each.key] else ():
            node = site.event.node
            given = isinstance(node, b.Happens) and node.pool_slot is not None and node.pool_slot[0].startswith("keys:")
            for place in site.event.pool if given else ():
                if place[0].startswith("$") and len(place) == 2:
                    found[function.module.name, place] = None
    for module, place in found:
        param = place[0][1:]
        functions = [
            each
            for each in by_module[module]
            if param in {p.name for p in analysis.project.functions[each.function].facts.params}
        ]
        yield place, functions[:_MOST_METHODS]


def _methods(analysis: Analysis, owner: str) -> list[Behavior]:
    """Effectful methods that a user of the class may call, constructor first."""
    found: list[Behavior] = []
    for each in reversed(analysis.project.mro(owner)):
        entry = analysis.project.classes.get(each)
        for name, function in entry.methods.items() if entry is not None else ():
            behavior = analysis.effectful.get(function)
            if behavior is None or analysis.project.method(owner, name) != function:
                continue
            if name != "__init__" and _is_step(analysis, behavior):
                continue
            public = not name.startswith("_") or name in ("__init__", "__call__", "__exit__", "__del__")
            if public and behavior.receiver is not None and analysis.kinds[behavior.key] & _USES:
                found.append(behavior)
    found.sort(key=lambda each: not each.function.endswith(".__init__"))
    return found[:_MOST_METHODS]


def _is_step(analysis: Analysis, method: Behavior) -> bool:
    """Whether the project calls a release only as one step of teardowns that retire a handle too.

    Then nobody leaves the handle behind: the method is a part, and the whole is judged where it is called.
    """
    if Effect.GRAPH_DEATH not in analysis.kinds[method.key] or _gives_up(analysis, method):
        return False
    tops = analysis.top_callers(method.key)
    return bool(tops) and all(_gives_up(analysis, analysis.effectful[top]) for top in tops)


def _gives_up(analysis: Analysis, root: Behavior) -> bool:
    """Whether a function retires a handle that there is; to make one where there is none retires nothing."""
    return any(
        site.effect is Effect.POOL_RETIRE
        and not any(place in site.places for guard in site.event.guards for _, place in atoms(guard))
        for site in analysis.sites(root)
    )


def _pools(analysis: Analysis, methods: list[Behavior]) -> list[Place]:
    """Handles that these methods capture into and that the object itself, or the process, keeps."""
    found: dict[Place, None] = {}
    for each in methods:
        for site in analysis.sites(each):
            if site.effect is Effect.CAPTURE:
                for place in site.event.pool:
                    if place[-1] == "id":
                        continue  # of a pool object, which is kept where it is read from
                    own = place[0] == f"${each.receiver}" and (
                        (len(place) in (2, 3) and ELEMENT not in place) or _is_copy_of_items(analysis, site, place)
                    )
                    if own or (place[0].startswith(_SHARED) and len(site.event.stack) <= _NEAR):
                        found[place] = None
    return list(found)


def _is_copy_of_items(analysis: Analysis, site: Site, place: Place) -> bool:
    """Whether the items of a table of an object were each given a handle when they were made: one copy for each."""
    node = site.event.node
    if len(place) != 4 or place[2] != ELEMENT or not isinstance(node, b.Happens) or node.pool_slot is None:
        return False
    owner, name = node.pool_slot
    entry = analysis.project.classes.get(owner)
    bound = analysis.behaviors.field_bindings(owner).get(name, ()) if entry is not None else ()
    if not bound:  # a field of a dataclass
        return entry is not None and name in entry.attributes and entry.attributes[name].value is None
    return all(
        function.facts.name == "__init__"
        and isinstance(value, flow.Name)
        and value.id in {param.name for param in function.facts.params[1:]}
        for function, value, _ in bound
    )


class _Runs:
    """Sequences of public calls for one class and one pool."""

    def __init__(
        self, analysis: Analysis, rule: Rule, owner: str, methods: list[Behavior], pool: Place, cut: set[str]
    ) -> None:
        assert rule.automaton is not None
        self.analysis = analysis
        self.automaton = rule.automaton
        self.owner = owner
        self.methods = methods
        self.pool = pool
        self.steps = 0
        self.cut = cut
        """Keys of methods whose paths are too many; what made them so for one pool does so for all."""
        self.portions: dict[tuple[object, ...], int] = {}
        self.part = analysis.sliced(_USES)
        self.execution = Execution(self.part.behaviors.get, self.monitor, tested=self.part.remembered)
        self.origins = frozenset(self.copied_from()) if ELEMENT in pool else frozenset[Place]()
        """What the object keeps the handle in that its items have copies of."""
        self.inside: dict[Place, set[Place]] = {}
        """By object that a function makes, what it is made with."""
        for each in self.part.behaviors.values():
            for (made, _), places in each.aliases.items():
                self.inside.setdefault((made,), set()).update(place for place in places if place[0].startswith("@"))

    def copied_from(self) -> Iterator[Place]:
        slots = {
            site.event.node.pool_slot
            for method in self.methods
            for site in self.analysis.sites(method)
            if isinstance(site.event.node, b.Happens) and self.pool in site.event.pool
        }
        for slot in slots - {None}:
            for owner, name in _sources(self.analysis, slot) if slot is not None else ():
                if owner in self.analysis.project.mro(self.owner):
                    yield (self.pool[0], name)

    def hazards(self) -> Iterator[tuple[Event, ...]]:
        """Paths to a capture into a pool without users, shortest first: capture, release, capture."""
        releases = [each for each in self.methods if self.leaves(each)]
        if not releases:
            return
        capturing = [each for each in self.methods if self.uses(each, Effect.CAPTURE)]
        capturing.sort(key=lambda each: len(self.analysis.sites(each)))
        made = self.constructed([Config(_State(self.automaton.start), NOTHING_LEARNED)])
        used = {
            each.key: [config for config in self.called(each, made) if config.state.name != self.automaton.start]
            for each in capturing[:_MOST_CAPTURES]
        }  # a path that captured nothing leaves nothing to release
        found = [config.trace for configs in used.values() for config in configs if config.state.name == HAZARD]
        for release in releases:
            dead = self.called(release, made) if release in capturing else []
            for configs in used.values():
                dead += self.called(release, configs)
            found += [config.trace for config in dead if config.state.name == HAZARD]  # it captures, too
            dead = [config for config in self.distinct(dead) if config.state.name not in (self.automaton.start, HAZARD)]
            if self.pool[0].startswith(_SHARED):
                dead += self.constructed([self.forgotten(config) for config in dead])
            for capture in capturing[:_MOST_CAPTURES]:
                if not self.pool[0].startswith(_SHARED) and self.is_begun(capture):
                    continue
                found += [c.trace for c in self.called(capture, self.distinct(dead)) if c.state.name == HAZARD]
        found.sort(key=lambda trace: (len(trace), [frame.span for event in trace for frame in event.stack]))
        yield from found

    def uses(self, method: Behavior, effect: Effect) -> bool:
        """Whether a method, constructor aside, captures into the pool, or gives its handle up."""
        if method.function.endswith(".__init__"):
            return False
        return any(
            site.effect is effect
            and (self.pool in site.event.pool if effect is Effect.CAPTURE else self.is_given_up(site.event))
            for site in self.analysis.sites(method)
        )

    def is_begun(self, method: Behavior) -> bool:
        """Whether the project captures only while it makes the object that has this one: what has captured never does again."""
        key = "calling", ""
        if key not in self.analysis.known:
            found: dict[str, set[str]] = {}
            for called, callers in self.analysis.callers.items():
                found.setdefault(called.partition("|")[0], set()).update(each.partition("|")[0] for each in callers)
            self.analysis.known[key] = found
        calling: set[str] = self.analysis.known[key].get(method.function, set())
        own = {f"{each}.__init__" for each in self.analysis.project.mro(self.owner)}
        return bool(calling) and all(each.endswith(".__init__") and each not in own for each in calling)

    def leaves(self, method: Behavior) -> bool:
        """Whether a method kills graphs, and need not give the handle up in the same breath."""
        if Effect.GRAPH_DEATH not in self.analysis.kinds[method.key] or method.function.endswith(".__init__"):
            return False
        if method.function.endswith(".__del__") and not self.pool[0].startswith(_SHARED):
            return False  # the handle ends with its object
        retired = [
            site.event
            for site in self.analysis.sites(method)
            if site.effect is Effect.POOL_RETIRE and self.is_given_up(site.event)
        ]
        deaths = [site.event.guards for site in self.analysis.sites(method) if site.effect is Effect.GRAPH_DEATH]
        return not any(_is_for_last_user(event.guards, deaths) for event in retired)

    def constructed(self, configs: list[Config]) -> list[Config]:
        for method in self.methods:
            if method.function.endswith(".__init__"):
                return self.called(method, configs)
        return configs

    def called(self, method: Behavior, configs: list[Config]) -> list[Config]:
        if not configs or self.steps > _MOST_STEPS or method.key in self.cut:
            return []
        try:
            outcome = self.execution.run_on(self.part.of(method), configs)
            self.steps += self.execution.steps
        except ExhaustedError:
            self.analysis.exhausted.add(method.function)
            self.cut.add(method.key)
            return []
        return self.distinct([self.lasting(method, config) for each in outcome.values() for config in each])

    def lasting(self, method: Behavior, config: Config) -> Config:
        """The configuration between two calls: only the object's attributes and shared places are still there."""
        own = f"${method.receiver}" if method.receiver is not None else self.pool[0]
        roots = (own, *_SHARED)
        return config._replace(facts=config.facts.under(lambda root: root.startswith(roots)))

    @staticmethod
    def forgotten(config: Config) -> Config:
        """The configuration for a new object: what was known of the old one's attributes says nothing."""
        return config._replace(facts=config.facts.under(lambda root: not root.startswith(("$", "@", "%"))))

    @staticmethod
    def distinct(configs: list[Config]) -> list[Config]:
        """One configuration for each state and facts, hazards first, then by the length of the path."""
        best: dict[object, Config] = {}
        for config in sorted(configs, key=lambda each: (each.state.name != HAZARD, len(each.trace))):
            best.setdefault(config[:2], config)
        return list(best.values())[:_MOST_CONFIGURATIONS]

    def monitor(self, state: _State, event: Event, config: Config) -> tuple[_State, Effect] | None:
        if state.name == HAZARD:
            return None
        before = state
        moved: Effect | None = None
        for effect in self.analysis.effects(event, config):
            if effect is Effect.GRAPH_DEATH and isinstance(event.node, b.Touches) and "new" in event.node.tags:
                continue  # others, captured since, take their place
            following = self.after(state, effect, event)
            if following.name != state.name:
                moved = effect
            state = following
        node = event.node
        if self.is_replaced(event) or self.is_copied_anew(event):
            state = _State(self.automaton.start)
        elif isinstance(node, b.Touches) and node.how in ("write", "add") and event.value_places:
            state = self.moved(state, event)
            given = {place[:-1] if place[-1] == ELEMENT else place for place in event.value_places}
            back = self.pool in event.places and self.pool in given and not event.in_constructor
            if back and "minted" not in node.tags:
                state = _State(self.automaton.start)  # what was saved of it comes back: another pool than this one
        if state == before:
            return None
        return state, moved or Effect.CAPTURE

    def after(self, state: _State, effect: Effect, event: Event) -> _State:
        if effect is Effect.CAPTURE and self.pool in event.pool:
            live = state.live | {_holder(place) for place in event.places}
            return _State(self.automaton.step(state.name, effect.value), live)
        if effect is Effect.CAPTURE and not self.origins.isdisjoint(event.pool) and not self.is_dead(state):
            return self.after(state, effect, event._replace(pool=(self.pool,)))  # the same pool, until it is renewed
        if effect is Effect.GRAPH_DEATH and state.live:
            dying = [_holder(place) for place in event.places if self.portion(event, place) != SOME]
            live = frozenset(each for each in state.live if not any(each[: len(dead)] == dead for dead in dying))
            if not dying and is_kept(self.analysis, event):
                live |= {_KEPT}
            if live == state.live:
                return state
            return _State(state.name if live else self.automaton.step(state.name, effect.value), live)
        if effect is Effect.POOL_RETIRE and self.is_given_up(event):
            return _State(self.automaton.step(state.name, effect.value))
        return state

    def is_given_up(self, event: Event) -> bool:
        """Whether an event gives up the handle, or takes a handle out of the table that has it."""
        table = self.pool[:-1] if self.pool[-1] == ELEMENT else self.pool
        taken = isinstance(event.node, b.Touches) and event.node.how in _TAKES
        return self.pool in event.places or (taken and table in event.places)

    def portion(self, event: Event, place: Place) -> int:
        """How much of what lies at a place an event ends."""
        key = (event.node, place, *((frame.function, frame.span) for frame in event.stack))
        if key not in self.portions:
            self.portions[key] = portion(self.analysis, event, place)
        return self.portions[key]

    def is_replaced(self, event: Event) -> bool:
        """Whether another object, with a handle of its own, takes the place of the one that keeps the handle."""
        how = event.node.how if isinstance(event.node, b.Touches) else ""
        size = len(self.pool)
        return how in ("write", "drop") and any(
            1 < len(place) < size and self.pool[: len(place)] == place for place in event.places
        )

    def is_dead(self, state: _State) -> bool:
        """Whether a capture into the pool would be the hazard."""
        return self.automaton.step(state.name, Effect.CAPTURE.value) == HAZARD

    def is_copied_anew(self, event: Event) -> bool:
        """Whether an item of a table is given a handle anew, or an item with a handle of its own is put there."""
        if ELEMENT not in self.pool or not isinstance(event.node, b.Touches):
            return False
        how, table = event.node.how, self.pool[: self.pool.index(ELEMENT)]
        return (how == "write" and self.pool in event.places) or (
            how in ("add", *_TAKES) and table in event.places and "captured" not in event.node.tags
        )

    def moved(self, state: _State, event: Event) -> _State:
        """A live graph that is put into a container, itself or in an object made with it, is from then on the container's."""
        kept = {_holder(place) for place in event.value_places}
        kept |= {inner for place in kept for inner in self.inside.get(place, ())}
        stored = {each for each in state.live if any(each[: len(place)] == place for place in kept)}
        if not stored:
            return state
        return state._replace(live=(state.live - stored) | {_holder(place) for place in event.places})


def _is_for_last_user(guards: Sequence[Test], deaths: Sequence[Sequence[Test]]) -> bool:
    """Whether a handle is retired wherever graphs die, unless a count says that it has users left."""
    counts = {place for guard in guards for kind, place in atoms(guard) if kind == "=0"}

    def asks_users(guard: Test) -> bool:
        return any(kind == "=0" for kind, _ in atoms(guard)) or (guard[0] == "compare" and set(guard[2]) <= counts)

    return all(asks_users(guard) or all(guard in each for each in deaths) for guard in guards)


def _holder(place: Place) -> Place:
    """The container of an element, the place itself otherwise; all rounds of a loop make one place."""
    place = place[: place.index(ELEMENT)] if ELEMENT in place else place
    return (place[0].partition("#")[0], *place[1:])


def _suspect(
    analysis: Analysis, rule: Rule, root: Behavior, pool: Place, slot: Slot | None, trace: tuple[Event, ...]
) -> Suspect:
    told = [event for event in trace if event.effect in _USES and _tells(event)]
    deaths = [event for event in told if event.effect is Effect.GRAPH_DEATH]
    event = deaths[-1] if deaths else trace[-1]
    frame = event.stack[_ending(event)]
    function = analysis.project.functions[frame.function]
    path = function.module.source.path
    capture = trace[-1].node
    raw = isinstance(capture, b.Happens) and capture.raw
    if deaths:
        after = told.index(event) + 1
        told[after:after] = _beside(analysis, event)
    steps = tuple(step(analysis, each, _innermost(each)) for each in told[:MAX_STEPS])
    values = {"place": place_text(pool, analysis, root), **_known(analysis, slot)}
    if slot is not None:
        holders = [] if pool[0].startswith(_SHARED) else [f"self.{slot[1]}"]
        values["retire"] = json.dumps([{"path": path, "span": list(frame.span), "holders": holders}])
    if any(portion(analysis, each, place) == MAYBE for each in deaths for place in each.places):
        values["rest"] = "yes"
    severity = None if raw or _survivors(analysis, event) else Severity.WARNING
    return Suspect(rule.name, path, function.facts.span, frame.span, steps, values, severity)


def _ending(event: Event) -> int:
    """The call that ends all graphs of a pool: in a loop over their owners, the one there."""
    items = [i for i, frame in enumerate(event.stack) if i and any(ELEMENT in place for place in frame.receiver)]
    return items[0] - 1 if items else _innermost(event)


def _beside(analysis: Analysis, death: Event) -> list[Event]:
    """Where the function that ends graphs goes on to drop them from the same place."""
    root = analysis.effectful.get(death.stack[-1].function)
    sites = analysis.sites(root) if root is not None and death.node.slot is not None else ()
    return [
        site.event._replace(effect=Effect.GRAPH_DEATH)
        for site in sites
        if site.effect is Effect.GRAPH_DEATH
        and site.event.node.slot == death.node.slot
        and site.event.node.span.start > death.node.span.start
        and len(site.event.stack) == 1
    ][:1]


def _innermost(event: Event) -> int:
    """The innermost call on the way to an event that somebody writes: no destructor."""
    written = [i for i, frame in enumerate(event.stack) if not frame.function.endswith(".__del__")]
    return written[-1] if written else len(event.stack) - 1


def _is_one_sharer(analysis: Analysis, held: Slot) -> bool:
    """Whether a handle is given to each of several objects that another one keeps together."""
    return any(
        way[-2] == ELEMENT and way[-1] == held[1] and held in _given_from(analysis, owner, target)
        for owner, ways in analysis.behaviors.ways.items()
        for way in ways
        for target in ways[way]
        if len(way) > 1
    )


def _given_from(analysis: Analysis, owner: str, target: Place) -> set[Slot]:
    """Attributes that hold what an attribute of a class does."""
    slot = (owner, target[0])
    return {each for each in list(analysis.behaviors.slots) if slot in _sources(analysis, each)}


def _slot(analysis: Analysis, owner: str, pool: Place) -> Slot | None:
    """The attribute or variable that a handle's place is, seen from methods of a class."""
    if len(pool) != 2:
        return None
    if pool[0].startswith("class:"):
        return (pool[0].removeprefix("class:"), pool[1])
    if pool[0].startswith("mod:"):
        return (pool[0], pool[1])
    for each in reversed(analysis.project.mro(owner)):
        if pool[1] in analysis.behaviors.field_bindings(each):
            return (each, pool[1])
    return None


def _store_suspect(analysis: Analysis, rule: Rule, store: Store) -> Suspect:
    frame = store.write.stack[0]
    function = analysis.project.functions[frame.function]
    source = function.module.source
    owner, name = store.slot
    short = owner.rpartition(".")[2] if not owner.startswith("mod:") else ""
    kept = f"{owner.rpartition('.')[2]}()" if name == MEMO else f"{short}.{name}".lstrip(".")
    values = {"place": kept, **_known(analysis, store.slot)}
    ways = list(_ways_down(analysis, store))
    values["retire"] = json.dumps(ways)
    steps = list(_declared(analysis, store.slot))
    steps.append(step(analysis, store.write._replace(effect=Effect.POOL_STORE), 0))
    steps += [step(analysis, each, len(each.stack) - 1) for each in (*store.captures[:2], *store.deaths[:2])]
    if store.deaths:
        return Suspect(rule.name, source.path, function.facts.span, frame.span, tuple(steps), values)
    # graphs that die with their objects alone: whether these go before the process does, nobody may ever say
    severity = Severity.WARNING if _are_given_up(analysis, store) else Severity.NOTE
    return Suspect(
        rule.name, source.path, function.facts.span, frame.span, tuple(steps), values, severity, Precision.MEDIUM
    )


def _are_given_up(analysis: Analysis, store: Store) -> bool:
    """Whether somebody drops an object whose graphs were captured into a shared pool."""
    mine = {analysis.project.functions[event.stack[0].function].owner for event in store.captures}
    return any(
        site.effect is Effect.GRAPH_DEATH
        and is_drop(analysis, site)
        and any(not mine.isdisjoint(analysis.project.mro(each)) for each in owners(analysis, site))
        for root in analysis.roots()
        if Effect.GRAPH_DEATH in analysis.kinds[root.key]
        for site in analysis.sites(root)
    )


def _known(analysis: Analysis, slot: Slot | None) -> dict[str, str]:
    """What a rewrite wants to know of a kept handle."""
    if slot is None:
        return {}
    owner, name = slot
    kind = "instance"
    writes = list(_writes(analysis, slot))
    if owner.startswith("mod:"):
        kind, owner = "cached" if name == MEMO else "module", owner[4:]
    elif writes and all(_is_shared(node) for _, node in writes):
        kind = "class"
    values = {"kind": kind, "name": name}
    if kind == "cached":
        return {"kind": kind, "owner": owner}
    if kind != "instance":
        values["owner"] = owner
        store = _definition(analysis, slot)
        if store is not None:
            values["store"] = json.dumps(store)
    minted = [(root, node) for root, node in writes if "pool" in node.tags]
    if any(_is_lazy(root, node) for root, node in minted):
        values["lazy"] = "yes"
    values["mints"] = json.dumps(
        [_place(analysis, root.function, node.span) for root, node in minted if "minted" in node.tags]
    )
    if kind != "instance":
        values["reads"] = json.dumps(list(_reads(analysis, slot)))
    return values


def _place(analysis: Analysis, function: str, span: Span) -> dict[str, object]:
    return {"path": analysis.project.functions[function].module.source.path, "span": list(span)}


def _writes(analysis: Analysis, slot: Slot) -> Iterator[tuple[Behavior, b.Touches]]:
    seen: set[Span] = set()
    for root in analysis.behaviors.all():
        for node in root.nodes:
            if isinstance(node, b.Touches) and node.slot == slot and node.how == "write" and node.span not in seen:
                seen.add(node.span)
                yield root, node


def _is_lazy(root: Behavior, node: b.Touches) -> bool:
    """Whether a handle is made only where there is none, away from the constructor, or is a captured graph's own."""
    if "minted" not in node.tags:
        return True
    if root.function.endswith(".__init__") and not _is_shared(node):
        return False
    return any(
        isinstance(each, b.Either) and node in list(b.walk(each)) and _asks_for(each.test, node) for each in root.nodes
    )


def _asks_for(test: Test, node: b.Touches) -> bool:
    return any(place in node.places for _, place in atoms(test))


def _definition(analysis: Analysis, slot: Slot) -> dict[str, object] | None:
    owner, name = slot
    if owner.startswith("mod:"):
        module = analysis.project.modules.get(owner[4:])
        binds = module.variables.get(name, []) if module is not None else []
        return {"path": module.source.path, "span": list(binds[0].span)} if module is not None and binds else None
    entry = analysis.project.classes.get(owner)
    attribute = entry.attributes.get(name) if entry is not None else None
    if entry is None or attribute is None:
        return None
    return {"path": entry.module.source.path, "span": list(attribute.span)}


def _declared(analysis: Analysis, slot: Slot) -> Iterator[Step]:
    """Where a shared handle's variable is, which outlives every graph."""
    owner, name = slot
    attribute = analysis.project.classes[owner].attributes.get(name) if owner in analysis.project.classes else None
    if attribute is not None:
        path = analysis.project.classes[owner].module.source.path
        yield Step(path, attribute.span, "kept", f"{name} belongs to the class: it outlives every graph")


def _reads(analysis: Analysis, slot: Slot) -> Iterator[dict[str, object]]:
    """Expressions that read a shared handle, but for those that only ask whether there is one."""
    for entry, expr in analysis.behaviors.reads(slot):
        yield {"path": entry.module.source.path, "span": list(expr.span)}


def _ways_down(analysis: Analysis, store: Store) -> Iterator[dict[str, object]]:
    """Where the last graphs die: the innermost functions that kill the graphs of all who share the handle, else of each."""
    wanted = {event.node.slot for event in store.deaths}
    if not wanted:
        return
    covering = {
        root.function: root
        for root in analysis.roots()
        if Effect.GRAPH_DEATH in analysis.kinds[root.key]
        and wanted <= {site.event.node.slot for site in analysis.sites(root) if site.effect is Effect.GRAPH_DEATH}
    }
    for name, root in sorted(covering.items()):
        deaths = [site.event for site in analysis.sites(root) if site.effect is Effect.GRAPH_DEATH]
        if any(frame.function in covering for event in deaths for frame in event.stack[1:]):
            continue
        function = analysis.project.functions[name]
        last = max((event.stack[0].span for event in deaths), key=lambda span: span.start)
        holders = []
        for owner, attribute in sorted(analysis.behaviors.slots):
            shared = store.slot in _sources(analysis, (owner, attribute))
            if shared and function.owner is not None and owner in analysis.project.mro(function.owner):
                holders.append(f"self.{attribute}")
        yield {"path": function.module.source.path, "span": list(last), "holders": holders}


def _tells(event: Event) -> bool:
    """Whether an event is worth a step: a capture, a death, a retirement; not the move of a graph into its container."""
    return not (isinstance(event.node, b.Touches) and event.effect is Effect.CAPTURE)


def _survivors(analysis: Analysis, death: Event) -> bool:
    """Whether memory of the pool is kept where the graphs died, which pins the pool: outputs and the like."""
    slot = death.node.slot
    if slot is None:
        return False
    return any(
        owner == slot[0] and "captured" in analysis.holds((owner, name))
        for owner, name in list(analysis.behaviors.slots)
    )


# ------------------------------------------------------------------------------------------------------ shared handles


@dataclass(frozen=True)
class Store:
    """A class attribute or module variable that a pool handle is kept in for the whole process."""

    slot: Slot
    write: Event
    """Where it is filled."""
    captures: tuple[Event, ...]
    deaths: tuple[Event, ...]
    """Of graphs that were captured into it, the innermost statements; empty where they die with their object alone."""


def stores(analysis: Analysis) -> Iterator[Store]:
    """Shared handles that are captured into, whose graphs die somewhere, and that nothing ever gives up."""
    retired: set[Slot] = set()
    minted: dict[Slot, Event] = {}
    captures: dict[Slot, list[Event]] = {}
    for root in analysis.roots():
        function = analysis.project.functions[root.function]
        for node in root.nodes:
            if isinstance(node, b.Happens) and node.effect is Effect.CAPTURE and node.pool_slot is not None:
                event = Event(node, node.places, node.pool, (Frame(root.function, node.span),), effect=Effect.CAPTURE)
                captures.setdefault(node.pool_slot, []).append(event)
            if not isinstance(node, b.Touches) or node.slot is None or not _is_shared(node):
                continue
            if "pool" in node.tags:
                minted.setdefault(node.slot, Event(node, node.places, (), (Frame(root.function, node.span),)))
            elif (node.how in _TAKES or "none" in node.tags) and function.facts.name != "__init__":
                retired.add(node.slot)
    for slot in sorted(set(minted) - retired):
        users = [each for each in captures if each == slot or slot in _sources(analysis, each)]
        if not users or _is_retained(analysis, slot) or _is_anchored(analysis, slot):
            continue
        events = tuple(event for user in users for event in captures[user])
        functions = [analysis.project.functions[event.stack[0].function] for event in events]
        owners = {function.owner for function in functions}
        deaths = tuple(event for owner in sorted(filter(None, owners)) for event in _deaths(analysis, owner))
        modules = {function.module.name for function in functions if function.owner is None}
        deaths += tuple(event for module in sorted(modules) for event in _deaths_by_functions(analysis, module))
        if deaths or any(_keeps_graphs(analysis, owner) for owner in filter(None, owners)):
            yield Store(slot, minted[slot], events, deaths)


def _keeps_graphs(analysis: Analysis, owner: str) -> bool:
    """Whether graphs of a class lie in its instances, and die with the last of these."""
    lie = [
        (each, name)
        for each, name in list(analysis.behaviors.slots)
        if each in analysis.project.mro(owner) and "graph" in analysis.holds((each, name))
    ]
    return bool(lie) and all(analysis.behaviors.is_shared(*slot) is None for slot in lie)


def _is_shared(node: b.Touches) -> bool:
    return bool(node.places) and all(place[0].startswith(_SHARED) for place in node.places)


def _sources(analysis: Analysis, slot: Slot) -> set[Slot]:
    """Slots whose value may have ended up in a slot."""
    found: set[Slot] = set()
    waiting = [slot]
    while waiting:
        notes = analysis.behaviors.slots.get(waiting.pop())
        for source in notes.sources if notes is not None else ():
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found


def _is_retained(analysis: Analysis, slot: Slot) -> bool:
    """Whether a pool object is kept beside the handle, for as long: then the pool always has a user."""
    return any(
        owner == slot[0] and "mempool" in analysis.holds((owner, name))
        for owner, name in list(analysis.behaviors.slots)
    )


def _ended(analysis: Analysis) -> frozenset[Slot]:
    """Attributes and variables whose graphs something resets or drops."""
    known = analysis.known.get(("ended graphs", ""))
    if known is None:
        found = {
            node.slot
            for root in analysis.roots()
            for node in root.nodes
            if isinstance(node, b.Happens | b.Touches) and node.slot is not None
            for effect in analysis.effects(Event(node, node.places, (), ()))
            if effect is Effect.GRAPH_DEATH
        }
        known = analysis.known["ended graphs", ""] = frozenset(found)
    return known


def _is_anchored(analysis: Analysis, slot: Slot) -> bool:
    """Whether a graph is kept beside the handle, for as long, and nothing ends it."""
    shared = ("class:", "mod:")
    ended = _ended(analysis)
    for root in analysis.roots():
        for node in root.nodes:
            if (
                isinstance(node, b.Touches)
                and node.slot is not None
                and node.slot[0] == slot[0]
                and node.slot not in ended
                and "graph" in node.tags
                and all(place[0].startswith(shared) for place in node.places)
            ):
                return True
    return False


def _deaths_by_functions(analysis: Analysis, module: str) -> Iterator[Event]:
    """Where functions of a module release graphs that it keeps."""
    for root in analysis.roots():
        function = analysis.project.functions[root.function]
        if function.owner is None and function.module.name == module:
            for site in analysis.sites(root) if Effect.GRAPH_DEATH in analysis.kinds[root.key] else ():
                kept = any(place[0].startswith(_SHARED) for place in site.places)
                if (
                    site.effect is Effect.GRAPH_DEATH
                    and kept
                    and len(site.event.stack) == 1
                    and _is_of_all(analysis, site)
                ):
                    yield site.event._replace(effect=Effect.GRAPH_DEATH)


def _is_of_all(analysis: Analysis, site: Site) -> bool:
    return any(portion(analysis, site.event, place) != SOME for place in site.places)


def _deaths(analysis: Analysis, owner: str) -> Iterator[Event]:
    """Where methods of a class release graphs of their instance."""
    for each in analysis.project.mro(owner):
        entry = analysis.project.classes.get(each)
        for function in entry.methods.values() if entry is not None else ():
            root = analysis.effectful.get(function)
            if root is None or Effect.GRAPH_DEATH not in analysis.kinds[function]:
                continue
            for site in analysis.sites(root):
                if site.effect is Effect.GRAPH_DEATH and len(site.event.stack) == 1 and _is_of_all(analysis, site):
                    yield site.event._replace(effect=Effect.GRAPH_DEATH)
