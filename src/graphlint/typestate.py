"""Ordering rules: an automaton over the effects on one subject, run along the paths of every function.

A subject is what an automaton's state is about. What it hears of the effects on a path depends on its kind:

* graphs      one place that holds graphs: deaths of exactly these; every capture.
* workspace   memory in a pool, with the graphs of that pool: deaths of those graphs, releases of this memory; every erase
              and every capture.
* memory      memory that graphs read, with these graphs: their deaths, releases of this memory; every capture.
* pool        one place that holds a pool handle: retirements of exactly this; the first death of any graphs, so that a
              rotation counts from a release on; every capture.
* process     everything.

A hazard is reported once, in the innermost function that holds all of its path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from graphlint import behavior as b
from graphlint import flow
from graphlint.absence import is_never_none
from graphlint.automaton import EXIT, HAZARD, RAISE, Automaton
from graphlint.behavior import Behavior
from graphlint.effects import Effect
from graphlint.engines import Repetition, has_others, repeated
from graphlint.enrolled import members_of
from graphlint.filling import filled_with, is_direct
from graphlint.findings import MAX_STEPS, Precision, Severity, Step, Suspect
from graphlint.identity import (
    is_left_out,
    is_of_a_slice,
    is_of_new_object,
    is_one_object,
    unknown_between,
    unknown_within,
    yields_between,
)
from graphlint.likeness import (
    alike_text,
    goes_over_twice,
    has_doubled,
    is_by_two_ways,
    is_doubled,
    is_for_both,
    is_unasked,
    may_be_alike,
    picked,
)
from graphlint.moving import is_moved, moves
from graphlint.outliving import event_taken_back, taken_back
from graphlint.paths import Config, Event, Frame, atoms
from graphlint.platforms import is_on_one_platform
from graphlint.readers import RELEASES, Evidence, container, is_drop, is_item_of_another, read_memory
from graphlint.rule import Rule
from graphlint.source import Span
from graphlint.summaries import Analysis, Site
from graphlint.values import ELEMENT, MEMO, Place, Test, negated
from graphlint.variables import in_any_round, is_local
from graphlint.vocabulary import Entry
from graphlint.workspaces import ended_by_others, evidence, nowhere, store_of, workspaces

_POOL = "<pool>"
"""Ends the place of graphs that stand for the pool whose handle that place holds."""
_MOVED = "~"
"""Begins the state of graphs that only a variable has: the attribute was given something else."""
_MOST_UNKNOWN = 3
"""Most calls that are named of those between two events that nobody knows."""


@dataclass(frozen=True)
class Subject:
    """What one run of an automaton is about."""

    place: Place
    graphs: Place = ()
    """workspace: the graphs whose pool it lies in; memory: those that read it, all graphs where it is empty."""
    by_name: bool = False
    """Known by a name or a reference alone."""
    entry: Entry | None = None
    """workspace: the vocabulary's word that it is allocated while capturing."""
    dropped: bool = False
    """memory: the graphs die where a reference to their owner goes; any release before may have been theirs."""
    release: str = ""
    """workspace: dotted name of what gives it up."""
    held: bool = False
    """workspace: it is held at the end of the path unless it was released on it."""
    pool_object: Place = ()
    """workspace: the object of the pool, if one is kept: its end is what makes the pool one that can be erased."""
    later: frozenset[Place] = frozenset()
    """graphs: their places where a variable has on what the attribute had that led to them."""

    def read(self, effect: Effect, event: Event) -> Effect:
        """What an effect is to it: where the pool has an object, the end of that counts, and not the graphs'."""
        if not self.pool_object or effect not in (Effect.GRAPH_DEATH, Effect.POOL_RETIRE):
            return effect
        return Effect.GRAPH_DEATH if effect is Effect.POOL_RETIRE and self.pool_object in event.places else Effect.SYNC


def suspects(analysis: Analysis, rule: Rule) -> Iterator[Suspect]:
    """Every place where a rule's automaton reaches its hazard."""
    automaton = rule.automaton
    if automaton is None:
        return
    runs = _Repetitions(analysis)
    cut: set[str] = set()
    found: dict[tuple[str, Span], list[tuple[Suspect, list[tuple[str, Span]]]]] = {}
    finalized = analysis.finalized() if automaton.subject == "graphs" else ()
    for root in (*analysis.roots(), *finalized):
        effects = {effect.value for effect in analysis.kinds[root.key]}
        if not _reachable(automaton, effects) or (analysis.is_wrapper(root) and not has_doubled(analysis, root)):
            continue
        sites = analysis.sites(root)
        twice = automaton.subject == "graphs" and may_be_alike(analysis, root, sites)
        worlds = (False, True) if twice else (False,)
        for subject in _subjects(analysis, automaton, root, sites):
            if root.key in cut:
                break  # what made its paths too many for one subject does so for all
            for alike in worlds:
                for trace in _hazards(analysis, rule, root, subject, cut, alike=alike):
                    suspect, below = _suspect(analysis, rule, root, subject, trace, runs, alike=alike)
                    found.setdefault((suspect.path, suspect.at), []).append((suspect, below))
    for place in sorted(found):
        # what a callee is reported for is not reported again where it is called
        own = [suspect for suspect, below in found[place] if found.keys().isdisjoint(below)]
        if own:
            yield min(own, key=_rank)


_ONCE_MORE = {
    b.FINALIZED: "the object's finalizer is alive and does it once more",
    b.CLEANED: "a cleanup of the test, which runs behind this, does it too",
    b.EXITED: "`atexit` does it once more at the end of the process",
}


class _Repetitions:
    """Per-engine loops, looked for when the first suspect asks."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._found: Mapping[str, tuple[Repetition, ...]] | None = None

    def loop(self, function: str) -> str:
        """`path:row` of the loop over objects that reaches a function; empty where none does."""
        if self._found is None:
            self._found = repeated(self._analysis)
        for repetition in self._found.get(function, ()):
            source = self._analysis.project.functions[repetition.root].module.source
            return f"{source.path}:{source.row(repetition.frames[-1].span.start)}"
        return ""


def _rank(suspect: Suspect) -> tuple[object, ...]:
    """Better suspects first: surer, then shorter."""
    order = [None, Precision.HIGH, Precision.MEDIUM, Precision.LOW]
    return (order.index(suspect.precision), len(suspect.trace), [(s.path, s.span) for s in suspect.trace])


def _reachable(automaton: Automaton, effects: set[str]) -> bool:
    """Whether these effects, in the best order, lead to the hazard."""
    found = {automaton.start}
    waiting = [automaton.start]
    while waiting:
        state = waiting.pop()
        if state == HAZARD:
            return True
        for read, target in automaton.states[state].items():
            if (read in effects or read in (EXIT, RAISE)) and target not in found:
                found.add(target)
                waiting.append(target)
    return False


# ------------------------------------------------------------------------------------------------------------ subjects


def _subjects(analysis: Analysis, automaton: Automaton, root: Behavior, sites: Sequence[Site]) -> Iterator[Subject]:
    deaths = {container(p): site for site in sites if site.effect is Effect.GRAPH_DEATH for p in site.places}
    match automaton.subject:
        case "graphs":
            explicit = [
                site for site in sites if site.effect is Effect.GRAPH_DEATH and isinstance(site.event.node, b.Happens)
            ]
            seen = dict.fromkeys(container(place) for site in explicit for place in site.places)
            later: dict[Place, set[Place]] = {}
            for place in (each for site in explicit for each in site.places):
                if (before := taken_back(place, analysis.outlived)) != place:
                    later.setdefault(container(before), set()).add(place)
            yield from (Subject(place, later=frozenset(later.get(place, ()))) for place in seen)
            retired = {p: None for site in sites if site.effect is Effect.POOL_RETIRE for p in site.places}
            yield from (Subject((*place, _POOL)) for place in retired)
        case "pool":
            retired = {p: None for site in sites if site.effect is Effect.POOL_RETIRE for p in site.places}
            yield from (Subject(place) for place in retired)
        case "process":
            yield Subject(())
        case "workspace":
            for found in workspaces(analysis, root, sites, deaths):
                yield Subject(
                    found.place,
                    found.graphs,
                    by_name=found.by_name,
                    entry=found.entry,
                    release=found.release,
                    held=found.held,
                    pool_object=found.pool_object,
                )
        case "memory":
            for memory in read_memory(analysis, root, sites):
                by_name = memory.evidence is not Evidence.READ
                yield Subject(memory.place, memory.graphs, by_name=by_name, dropped=memory.dropped)
            for graphs, death in deaths.items():
                for entry in evidence(analysis, death):
                    if (store := store_of(entry)) is not None:
                        yield Subject(store, graphs, entry=entry, dropped=is_drop(analysis, death))


# ---------------------------------------------------------------------------------------------------------------- runs


def _hazards(
    analysis: Analysis, rule: Rule, root: Behavior, subject: Subject, cut: set[str], *, alike: bool
) -> Iterator[tuple[Event, ...]]:
    """Shortest paths to the hazard, one for each way of leaving and for each place that would be reported.

    A root with too many paths is put into `cut`. `alike`: attributes that may be one object are one.
    """
    automaton = rule.automaton
    assert automaton is not None
    hears = _ears(automaton, subject)
    members = _members(analysis, root) if automaton.subject in ("graphs", "memory") else {}
    members = {**picked(analysis, root), **members} if alike else members
    filled = filled_with(root, subject.place[0]) if automaton.subject == "graphs" else {}
    members = {**members, **filled}
    moved = moves(analysis, root, analysis.sites(root)) if automaton.subject == "graphs" else {}
    is_known = alike or bool(members) or bool(moved) or is_doubled(analysis, subject.place)
    same = automaton.subject == "graphs" and is_known
    if not (same or _possible(automaton, subject, hears, analysis.sites(root))):
        return
    if alike and not _comes_again(automaton, hears, analysis.sites(root)):
        return

    elsewhere = frozenset(site.event.stack for site in analysis.sites(root) if is_left_out(analysis, site.event))
    if automaton.subject == "memory":
        elsewhere |= _items_of_others(analysis, root, subject)
    if automaton.subject == "workspace" and subject.place:
        elsewhere |= ended_by_others(analysis.sites(root), subject.place)

    def monitor(state: str, event: Event, config: Config) -> tuple[str, Effect] | None:
        after, _, where = state.partition(" ")
        moved = _MOVED if after.startswith(_MOVED) else ""
        after = after.removeprefix(_MOVED)
        if after == HAZARD or any(event.stack == earlier.stack for earlier in _since_start(automaton, config.trace)):
            return None  # the same line again is the next round of a loop, over other objects
        if _is_others_share(event, config.trace) or _is_left_empty(event, config.trace) or event.stack in elsewhere:
            return None
        if after != automaton.start and any(config.fact(("failed", (f.function,))) for f in event.stack[1:]):
            return None  # the same call again, after it failed in the middle
        if subject.later and after != automaton.start and _is_moved_on(subject, event):
            return f"{_MOVED}{after}", Effect.SYNC
        heard = None
        for effect in analysis.effects(event, config):
            if effect is Effect.ERASE and subject.place and _holds_nothing(subject, config):
                continue
            read = subject.read(effect, event)
            if hears(read, event, moved + after) and automaton.step(after, read.value) != after:
                after, heard = automaton.step(after, read.value), read
        if heard is None:
            return None
        if heard.value == rule.reported_at or (after == HAZARD and not where):  # two places to report are two hazards
            where = " ".join(f"{frame.function}@{frame.span.start}" for frame in event.stack)
        if after not in (automaton.start, HAZARD):
            after = moved + after
        return (f"{after} {where}" if where else after), heard

    def renewed(config: Config, is_made: Callable[[str], bool]) -> Config:
        if subject.place and is_made(subject.place[0]) and not config.state.startswith(HAZARD):
            return Config(automaton.start, config.facts)
        return config

    again = automaton.subject == "graphs"
    effects = automaton.effects | {Effect.POOL_RETIRE} if subject.pool_object else automaton.effects
    outcome = analysis.run(
        root, automaton.start, monitor, effects, again=again, alike=alike, members=members, moves=moved, renewed=renewed
    )
    if outcome is None:
        cut.add(root.key)
        return
    found: list[tuple[Event, ...]] = []
    for kind, configs in outcome.items():
        for config in configs:
            end = RAISE if kind == "raise" else EXIT
            state = config.state.partition(" ")[0].removeprefix(_MOVED)
            hazard = state == HAZARD
            if not hazard and (subject.held or automaton.subject != "workspace"):
                empty = config.fact(("true", subject.place)) is False
                hazard = automaton.step(state, end) == HAZARD and not empty
            trace = tuple(event for event in config.trace if event.effect is not Effect.SYNC)
            if hazard and trace and not (automaton.subject == "memory" and _is_one_step(trace)):
                found.append(_since_start(automaton, trace) or trace)
    found.sort(key=lambda trace: (len(trace), [frame.span for event in trace for frame in event.stack]))
    seen: set[tuple[tuple[Frame, ...], ...]] = set()
    for trace in found:
        if automaton.subject in ("graphs", "pool") and not _is_about_one(analysis, root, subject, trace):
            continue
        if alike and not is_unasked(analysis, root, trace):
            continue
        if automaton.subject == "graphs" and is_by_two_ways(analysis, trace) and not is_for_both(analysis, root, trace):
            continue
        if filled and not any(is_direct(analysis, root, event, subject.place[0]) for event in (trace[0], trace[-1])):
            continue
        if automaton.subject == "memory" and (
            is_of_a_slice(analysis, trace[0], trace[-1])
            or _is_for_last_user(analysis, root, trace)
            or is_of_new_object(analysis, root, trace[0])
            or _is_of_idle_owner(analysis, root, trace)
            or _is_where_nobody_is_named(analysis, root, trace[0])
            or (subject.by_name and _is_chosen_entry(trace[-1]))
        ):
            continue
        key = tuple(event.stack for event in trace)
        if automaton.subject == "memory":
            key = key[:-1]  # what dies first after the release says it all
        if key not in seen:
            seen.add(key)
            yield trace


def _is_for_last_user(analysis: Analysis, root: Behavior, trace: Sequence[Event]) -> bool:
    """Whether memory goes with the last of its users, while the same method of another one of them is still to count down."""
    first, last = trace[0], trace[-1]
    others = {frame.function: frame.receiver for frame in last.stack[1:]}
    if not any(others.get(frame.function, frame.receiver) != frame.receiver for frame in first.stack[1:]):
        return False
    counters = {name for _, name in analysis.counters}
    guards = (site.event.guards for site in analysis.sites(root) if site.event.stack == first.stack)
    return any(
        kind.startswith("=") and place[-1] in counters
        for each in guards
        for guard in each
        for kind, place in atoms(guard)
        if place
    )


def _is_chosen_entry(event: Event) -> bool:
    """Whether graphs are taken out of a table of the process under a key: which of them used the memory, nobody knows."""
    node = event.node
    taken = isinstance(node, b.Touches) and node.how == "pop" and "keyed" in node.tags
    return taken and all(place[0].startswith(("class:", "mod:")) for place in event.places)


def _is_where_nobody_is_named(analysis: Analysis, root: Behavior, event: Event) -> bool:
    """Whether all of a table goes only where an object has no name, which it always has: `release(self.tag)`."""
    guards = next((site.event.guards for site in analysis.sites(root) if site.event.stack == event.stack), ())
    for kind, place in (atom for guard in guards for atom in atoms(guard)):
        for frame in event.stack if kind == "none" and ("atom", kind, place) in guards else ():
            function = analysis.project.functions[frame.function]
            if frame.receiver == (place[:-1],) and function.facts.params:
                if is_never_none(analysis, function, (f"${function.facts.params[0].name}", place[-1])):
                    return True
    return False


def _is_of_idle_owner(analysis: Analysis, root: Behavior, trace: Sequence[Event]) -> bool:
    """Whether graphs go with their owner only where it has said before, by an attribute of its own, that it has none."""
    first, last = trace[0], trace[-1]
    if not isinstance(last.node, b.Touches):
        return False
    sites = analysis.sites(root)
    at = next((index for index, site in enumerate(sites) if site.event.stack == first.stack), 0)
    for site in sites[:at]:
        event = site.event
        if site.effect is not Effect.GRAPH_DEATH or not isinstance(event.node, b.Happens) or len(event.stack) == 1:
            continue
        if not any(place[: len(dead)] == dead for place in event.places for dead in last.places):
            continue
        objects = [at for frame in event.stack[1:] for at in frame.receiver]
        asked = [place for guard in event.guards for _, place in atoms(guard)]
        if any(place[:-1] in objects for place in asked):
            return True
    return False


def _members(analysis: Analysis, root: Behavior) -> Mapping[Place, tuple[Place, ...]]:
    """Tables of the object of a method, and the attributes of it that stand in them."""
    owner = analysis.project.functions[root.function].owner
    if owner is None or root.receiver is None:
        return {}
    me = f"${root.receiver}"
    known = members_of(analysis, owner, root)
    return {
        way if ":" in way[0] else (me, *way): tuple((me, *each) for each in members) for way, members in known.items()
    }


def _holds_nothing(subject: Subject, config: Config) -> bool:
    """Whether a path knows that a workspace holds nothing; of a variable, whether it was not given any."""
    known = config.fact(("true", subject.place))
    if any(config.fact(("none", subject.place[:size])) for size in range(2, len(subject.place))):
        return True
    return known is not True if subject.place[0][0] == "%" else known is False


def _items_of_others(analysis: Analysis, root: Behavior, subject: Subject) -> frozenset[tuple[Frame, ...]]:
    """The ways to releases of single items that belong to other objects than those whose graphs a subject is about."""
    return frozenset(
        site.event.stack
        for site in analysis.sites(root)
        if subject.graphs and site.effect in RELEASES and is_item_of_another(analysis, site, subject.graphs)
    )


def _is_about_one(analysis: Analysis, root: Behavior, subject: Subject, trace: tuple[Event, ...]) -> bool:
    """Whether a path that ends something twice is about one object, and all of it is here to be seen."""
    if len(trace) < 2 or trace[-1].effect is Effect.CAPTURE:
        return True
    last = trace[-1]
    first = next((event for event in reversed(trace[:-1]) if event.effect is last.effect), trace[0])
    if first.stack == last.stack:
        return False  # the same line again is the next round of a loop, over other objects
    if first.stack[: len(last.stack)] == last.stack and not goes_over_twice(analysis, last.stack[-1]):
        return False
    place = subject.place[:-1] if subject.place[-1:] == (_POOL,) else subject.place
    is_later = subject.later.isdisjoint(first.places) and not subject.later.isdisjoint(last.places)
    now = event_taken_back(last, analysis.outlived) if is_later else last
    is_one = is_moved(analysis, root, first, last) or is_one_object(analysis, root, place, first, now)
    return is_one and not yields_between(analysis, first, last)


def _is_moved_on(subject: Subject, event: Event) -> bool:
    """Whether a variable alone has from here on what led to the subject."""
    node = event.node
    if not isinstance(node, b.Touches) or "saved" not in node.tags:
        return False
    return any(
        subject.place[: len(place)] == place
        and any(each[: len(place) + 1] == (*place, ELEMENT) for each in subject.later)
        for place in event.places
    )


def _since_start(automaton: Automaton, trace: tuple[Event, ...]) -> tuple[Event, ...]:
    """The part of a path since its automaton was last in its first state: what was before has nothing to do with it."""
    state, begin = automaton.start, 0
    for index, event in enumerate(trace):
        state = automaton.step(state, event.effect.value if event.effect is not None else "")
        if state == automaton.start:
            begin = index + 1
    return trace[begin:]


def _comes_again(automaton: Automaton, hears: Callable[[Effect, Event, str], bool], sites: Sequence[Site]) -> bool:
    """Whether what a subject hears happens in another place, too: to an object of that kind, which may be the same."""
    ends = [site for site in sites if site.effect in (Effect.GRAPH_DEATH, Effect.POOL_RETIRE)]
    mine = [site for site in ends if any(hears(site.effect, site.event, state) for state in automaton.states)]
    nodes = {id(site.event.node) for site in mine}
    slots = {site.event.node.slot for site in mine} - {None}
    again = {site.event.stack for site in ends if id(site.event.node) in nodes or site.event.node.slot in slots}
    return len(again) > 1


def _possible(
    automaton: Automaton, subject: Subject, hears: Callable[[Effect, Event, str], bool], sites: Sequence[Site]
) -> bool:
    """Whether the effects that a subject hears, each as often as it stands in the text, can lead to the hazard at all.

    Most subjects of most functions end here, before any path is run.
    """
    counts: dict[str, int] = {}
    ways = ("", _MOVED) if subject.later else ("",)
    for site in sites:
        effect = subject.read(site.effect, site.event)
        if any(hears(effect, site.event, moved + state) for state in automaton.states for moved in ways):
            counts[effect.value] = counts.get(effect.value, 0) + 1
    waiting = [(automaton.start, tuple(sorted((effect, min(n, 3)) for effect, n in counts.items())))]
    seen = set(waiting)
    while waiting:
        state, left = waiting.pop()
        if state == HAZARD:
            return True
        remaining = dict(left)
        for read, target in automaton.states[state].items():
            if read in (EXIT, RAISE):
                following = (target, left)
            elif remaining.get(read, 0):
                following = (target, tuple((effect, n - (effect == read)) for effect, n in left))
            else:
                continue
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return False


def _is_others_share(event: Event, trace: tuple[Event, ...]) -> bool:
    """Whether an event gives up one share of a counted resource, after another user has given up its own."""
    node = event.node
    if not isinstance(node, b.Touches) or node.how != "count":
        return False
    mine = _user(event)
    return any(each.node.span == node.span and each.places == event.places and _user(each) != mine for each in trace)


def _is_left_empty(event: Event, trace: tuple[Event, ...]) -> bool:
    """Whether a write of None follows the deletion of the same attribute in one call, whichever object that runs for."""
    node = event.node
    return (
        isinstance(node, b.Touches)
        and node.how == "write"
        and "none" in node.tags
        and any(
            isinstance(each.node, b.Touches)
            and each.node.how == "drop"
            and (each.places, each.node.slot, each.stack[:-1]) == (event.places, node.slot, event.stack[:-1])
            for each in trace
        )
    )


def _user(event: Event) -> tuple[Place, ...]:
    """The object, not the one that counts and none of the process's own, whose method leads to an event most directly."""
    counted = event.places[0][:-1] if event.places else ()
    receivers = (frame.receiver for frame in reversed(event.stack) if frame.receiver and frame.receiver[0] != counted)
    return next((each for each in receivers if each[0][0][0] in "$@%"), ())


def _is_one_step(trace: tuple[Event, ...]) -> bool:
    """Whether a path begins and ends in one statement, which runs for several objects: there is no order to change."""
    depth = common_depth(trace)
    first, last = trace[0].stack[depth], trace[-1].stack[depth]
    called = [
        event.stack[depth + 1].function if len(event.stack) > depth + 1 else "" for event in (trace[0], trace[-1])
    ]
    return (first.span == last.span and called[0] == called[1]) or (
        first.function == last.function and first.receiver != last.receiver
    )


def _is_within(graphs: Place, died: Place) -> bool:
    """Whether the death of what a place holds ends some of these graphs: one place is part of the other."""
    return container(died)[: len(graphs)] == graphs or graphs[: len(died)] == died


def _is_saved(event: Event) -> bool:
    """Whether what a place loses stays alive, by a variable that stands for it."""
    return isinstance(event.node, b.Touches) and bool(event.node.tags & {"moved", "saved", "taken"})


def _ears(automaton: Automaton, subject: Subject) -> Callable[[Effect, Event, str], bool]:
    """Which effects a subject hears."""

    def hears(effect: Effect, event: Event, state: str) -> bool:
        if effect is Effect.CAPTURE or automaton.subject == "process":
            return True
        if automaton.subject in ("workspace", "memory"):
            if effect is Effect.GRAPH_DEATH and automaton.subject == "memory":
                first = state == automaton.start and (subject.dropped or not subject.graphs)
                return first or not subject.graphs or any(_is_within(subject.graphs, each) for each in event.places)
            if effect is Effect.GRAPH_DEATH and not subject.pool_object:
                if subject.place[:1] and is_local(subject.place):
                    if _is_saved(event):
                        return False  # the variable has the graphs, too
                    return any(in_any_round(container(each)) == in_any_round(subject.graphs) for each in event.places)
                return any(container(each) == subject.graphs for each in event.places)
            if effect in (Effect.WS_RELEASE, Effect.KV_RELEASE, Effect.COMM_DESTROY):
                if not event.places:
                    return nowhere(event.node) == subject.place
                return any(
                    each[: len(subject.place)] == subject.place or container(each) == subject.place
                    for each in event.places
                )
            return True
        if state != automaton.start and any(frame.function.endswith(".__del__") for frame in event.stack[1:]):
            return False  # a destructor is the net under a release, not a second one
        if subject.place and subject.place[-1] == _POOL:
            if effect is Effect.GRAPH_DEATH:
                return state == automaton.start
            return effect is Effect.POOL_RETIRE and subject.place[:-1] in event.places
        if effect is Effect.GRAPH_DEATH:
            if automaton.subject == "pool":
                return state == automaton.start
            if state.startswith(_MOVED) and not subject.later.isdisjoint(event.places):
                return isinstance(event.node, b.Happens)
            return isinstance(event.node, b.Happens) and subject.place in map(container, event.places)
        if effect is Effect.POOL_RETIRE:
            return automaton.subject == "pool" and subject.place in event.places
        return True

    return hears


# ------------------------------------------------------------------------------------------------------------- reports


_WORDS = {
    Effect.GRAPH_DEATH: "graphs die",
    Effect.ERASE: "the allocator's cache is emptied",
    Effect.WS_RELEASE: "memory is released",
    Effect.WS_ALLOC: "memory is allocated",
    Effect.WS_REPLACE: "memory is replaced",
    Effect.POOL_RETIRE: "the pool handle is given up",
    Effect.POOL_STORE: "a pool handle is kept",
    Effect.POOL_MINT: "a pool handle is made",
    Effect.KV_RELEASE: "cache memory is released",
    Effect.CAPTURE: "a capture begins",
    Effect.COMM_DESTROY: "the process group is destroyed",
}


def step(analysis: Analysis, event: Event, depth: int) -> Step:
    """One event as a step of a path, placed in the function at a depth of its stack."""
    effect = event.effect or Effect.CAPTURE
    frame = event.stack[min(depth, len(event.stack) - 1)]
    module = analysis.project.functions[frame.function].module
    inner = event.stack[-1]
    source = analysis.project.functions[inner.function].module.source
    text = " ".join(source.text(inner.span).split())
    if len(text) > 60:
        text = text[:57] + "..."
    ends_pool = effect is Effect.GRAPH_DEATH and "mempool" in analysis.holds(event.node.slot)
    words = "the pool's object is given up" if ends_pool else _WORDS.get(effect, effect.value)
    message = f"{words}: {text}"
    if len(event.stack) - 1 > depth:
        message += f" ({_name(inner.function)}, {_short(source.path)}:{source.row(inner.span.start)})"
    return Step(module.source.path, frame.span, effect.value, message)


def _name(function: str) -> str:
    """The last name of a function, without what tells it from others in the same one."""
    return function.rpartition(".")[2].partition("@")[0]


def _short(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def common_depth(trace: Sequence[Event]) -> int:
    """Depth of the innermost activation of a function that all events of a path pass through."""
    depth = 0
    while all(len(event.stack) > depth + 1 for event in trace):
        frames = {event.stack[depth] for event in trace}
        inner = {(event.stack[depth + 1].function, event.activations[depth + 1 : depth + 2]) for event in trace}
        if len(frames) > 1 or (len(inner) > 1 and not _is_registered(trace, depth + 1)):
            break
        depth += 1
    return depth


def _is_registered(trace: Sequence[Event], depth: int) -> bool:
    """Whether one statement runs several parts of one function, for one object: what this registered on an exit stack."""
    frames = {event.stack[depth] for event in trace}
    alike = {(frame.function, frame.receiver) for frame in frames}
    is_method = all(frame.receiver and ELEMENT not in frame.receiver[0] for frame in frames)
    return len(frames) > 1 and len(alike) == 1 and is_method


def _suspect(
    analysis: Analysis,
    rule: Rule,
    root: Behavior,
    subject: Subject,
    trace: tuple[Event, ...],
    runs: _Repetitions,
    *,
    alike: bool,
) -> tuple[Suspect, list[tuple[str, Span]]]:
    """A path as a suspect, and the places further in that its reported event goes through."""
    depth = common_depth(trace)
    wanted = [event for event in trace if event.effect is not None and event.effect.value == rule.reported_at]
    event = wanted[-1] if wanted else trace[-1]
    if root.key.endswith(b.EXITED) and event.stack[0].span == analysis.project.functions[root.function].facts.header:
        event = trace[0]  # the end of the process has no line of its own
    place = depth + 1 if _is_in_wrapper(analysis, event, depth) else depth
    frame = event.stack[place]
    function = analysis.project.functions[frame.function]
    precision = Precision.MEDIUM if subject.by_name else None
    severity = Severity.WARNING if subject.by_name and rule.severity is Severity.ERROR else None
    bodies = ((analysis.project.functions[each.function].lowered.flow, each.span) for each in event.stack[place:])
    if subject.by_name and any(is_on_one_platform(*each) for each in bodies):
        severity = Severity.NOTE  # a name alone relates the two, and elsewhere they do not even meet
    entry = subject.entry
    dominated, skips = _dominance(analysis, rule, root, subject, trace)
    values = {
        "place": place_text(subject.place, analysis, root),
        "graphs": place_text(subject.graphs, analysis, root),
        "pool_object": place_text(subject.pool_object, analysis, root),
        "release": subject.release or (entry.released_by or "" if entry is not None else ""),
        "defined": _definition(analysis, subject.release),
        "sharers": _sharers(analysis, subject, trace),
        "alike": _alike(analysis, root, trace, assumed=alike),
        "function": function.facts.name,
        "loop": runs.loop(frame.function),
        "dominates": "yes" if dominated else "",
        "skips": skips,
        "beyond": _beyond(trace, event, place),
        "changes": _changes(analysis, event, place),
        "within": "\n".join(unknown_within(analysis, trace, depth)[:_MOST_UNKNOWN]),
        "between": "\n".join(unknown_between(analysis, trace[0], trace[-1])[:_MOST_UNKNOWN]) if len(trace) > 1 else "",
    }
    values = {key: value for key, value in values.items() if value}
    told = [_told(analysis, each, place if each is event else depth) for each in trace[:MAX_STEPS]]
    if event in trace[:MAX_STEPS] and len(event.stack) - 1 > place and len(told) < MAX_STEPS:
        told.insert(trace.index(event) + 1, step(analysis, event, len(event.stack) - 1))
    steps = tuple(told)
    path = function.module.source.path
    suspect = Suspect(rule.name, path, function.facts.span, frame.span, steps, values, severity, precision)
    functions = analysis.project.functions
    return suspect, [(functions[f.function].module.source.path, f.span) for f in event.stack[place + 1 :]]


def _told(analysis: Analysis, event: Event, depth: int) -> Step:
    """An event as a step; what a framework runs is told where it was registered."""
    told = step(analysis, event, depth)
    function = analysis.project.functions[event.stack[depth].function]
    if len(event.stack) == depth + 1 or event.stack[depth].span != function.facts.header or function.owner is None:
        return told
    inner = analysis.project.functions[event.stack[depth + 1].function]
    name, span = analysis.behaviors.registration(function.owner, inner.name) or (inner.name, inner.facts.header)
    return replace(told, path=analysis.project.functions[name].module.source.path, span=span)


def _is_in_wrapper(analysis: Analysis, event: Event, depth: int) -> bool:
    """Whether an event happens in a function that the one at a depth of its stack was put around by a decorator."""
    if len(event.stack) <= depth + 2:
        return False
    functions = analysis.project.functions
    around, inner = functions[event.stack[depth].function], functions[event.stack[depth + 1].function]
    makers = set()
    while around.parent is not None:
        around = functions[around.parent]
        makers.add(around.facts.name)
    return any(flow.last_name(each) in makers for each in inner.facts.decorators)


def _alike(analysis: Analysis, root: Behavior, trace: Sequence[Event], *, assumed: bool) -> str:
    """What of several names a path takes for one object, as text; empty where it is one under one name."""
    if said := next((text for end, text in _ONCE_MORE.items() if root.key.endswith(end)), ""):
        return said
    if assumed:
        return alike_text(analysis, trace)
    first, last = trace[0].stack, trace[-1].stack
    again = len(trace) > 1 and first[: len(last)] == last
    return "one object stands in the table under several keys" if again else ""


def _definition(analysis: Analysis, name: str) -> str:
    """`path:start:end` of a function of the project; empty for others."""
    entry = analysis.project.functions.get(name)
    if entry is None:
        return ""
    return f"{entry.module.source.path}:{entry.facts.span.start}:{entry.facts.span.end}"


def _sharers(analysis: Analysis, subject: Subject, trace: Sequence[Event]) -> str:
    """Who else has graphs that may use memory of the process, as text; empty where there is one owner."""
    if not subject.place or not subject.place[0].startswith(("class:", "mod:")):
        return ""
    nodes = [event.node for event in trace if event.effect is Effect.GRAPH_DEATH]
    owners = dict.fromkeys(node.slot[0] for node in nodes if node.slot is not None)
    owners.update(dict.fromkeys(t for node in nodes if isinstance(node, b.Happens) for t in node.types))
    others = [name for name in owners if name in analysis.project.classes and has_others(analysis, name)]
    return ", ".join(f"any other `{name.rpartition('.')[2]}`" for name in others)


def _changes(analysis: Analysis, event: Event, depth: int) -> str:
    """Names of the attributes and variables that what happens at the reported place gives something else, or empties."""
    built = (analysis.behaviors.built(frame.function) for frame in event.stack[depth + 1 :])
    slots = {slot for each in built if each is not None for slot in each.touched} | {event.node.slot}
    return " ".join(sorted(slot[1] for slot in slots if slot is not None))


def _beyond(trace: Sequence[Event], event: Event, depth: int) -> str:
    """Name of the function that the reported statement calls, where the path has not run it before: it may do more."""
    if len(event.stack) <= depth + 1:
        return ""
    function = event.stack[depth + 1].function
    before = {frame.function for each in trace for frame in each.stack if each is not event}
    return "" if function in before else function.rpartition(".")[2]


def _dominance(
    analysis: Analysis, rule: Rule, root: Behavior, subject: Subject, trace: tuple[Event, ...]
) -> tuple[bool, str]:
    """Whether every path to the last event has passed the first, and which tests let one skip it."""
    automaton = rule.automaton
    assert automaton is not None
    hears = _ears(automaton, subject)
    last = trace[-1]
    depth = common_depth(trace)
    arrived: set[str] = set()

    def monitor(state: str, event: Event, config: Config) -> tuple[str, Effect] | None:
        if event.stack == last.stack if event.node is last.node else event.stack[: len(last.stack)] == last.stack:
            arrived.add(state)  # in a call that can only raise on the path, what it does where it does not
        before, _, ran = state.partition(" ")
        after, moved = before, Effect.SYNC
        for effect in analysis.effects(event, config):
            read = subject.read(effect, event)
            if hears(read, event, before) and automaton.step(before, read.value) != before:
                after, moved = automaton.step(before, read.value), read
                break
        if moved is Effect.CAPTURE:
            ran = ""
        elif len(event.stack) > depth + 1 and event.stack[: depth + 1] == trace[0].stack[: depth + 1]:
            ran = "ran"  # the first call was made, also where it had nothing to release
        now = f"{after} {ran}".strip()
        return (now, moved) if now != state else None

    outcome = analysis.run(root, automaton.start, monitor, automaton.effects)
    if outcome is not None and automaton.start not in arrived:  # of a run that was cut short nobody knows
        return True, ""
    first = next((s.event for s in analysis.sites(root) if s.event.stack == trace[0].stack), None)
    if first is None:
        return False, ""
    texts = [test_text(negated(guard), analysis, root) for guard in first.guards]
    own = (frame for frame in first.loops if frame.function == root.function)
    texts += [f"the loop over {text} has no round" for frame in own if (text := _looped(analysis, frame))]
    return False, "\n".join(dict.fromkeys(text for text in texts if text))


def _looped(analysis: Analysis, loop: Frame) -> str:
    """What a loop goes over, as it is written; empty for a loop that is none over something."""
    function = analysis.project.functions[loop.function]
    for statement in flow.statements(function.lowered.flow):
        if isinstance(statement, flow.Star) and statement.span == loop.span and statement.iterable is not None:
            return " ".join(function.module.source.text(statement.iterable.span).split())
    return ""


def test_text(test: Test, analysis: Analysis, root: Behavior) -> str:
    """A test as a reader writes it; empty where it is about nothing that has a name."""
    match test:
        case ("not", ("atom", "none", place)):
            return f"{text} is not None" if (text := place_text(place, analysis, root)) else ""
        case ("atom", "none", place):
            return f"{text} is None" if (text := place_text(place, analysis, root)) else ""
        case ("not", ("atom", "true", place)):
            return f"{text} is false" if (text := place_text(place, analysis, root)) else ""
        case ("atom", "true", place):
            return f"{text} is true" if (text := place_text(place, analysis, root)) else ""
        case ("not", ("atom", kind, place)) if kind.startswith("="):
            return f"{text} is not {kind[1:]}" if (text := place_text(place, analysis, root)) else ""
        case ("atom", kind, place) if kind.startswith("="):
            return f"{text} is {kind[1:]}" if (text := place_text(place, analysis, root)) else ""
        case ("not", ("and", *inner)):
            parts = [test_text(negated(each), analysis, root) for each in inner]
            return " or ".join(part for part in parts if part)
    return ""


def place_text(place: Place, analysis: Analysis, root: Behavior) -> str:
    """A place as a reader writes it."""
    if not place:
        return ""
    head, *rest = place
    if head.startswith("<"):
        return head.strip("<>")
    if rest and rest[0] == MEMO:
        name = head.rpartition(".")[2]
        return place_text((f"{name}()", *rest[1:]), analysis, root) if len(rest) > 1 else f"the cache of {name}"
    if head.startswith("$"):
        head = head[1:].partition("#")[0]
    elif head.startswith("class:"):
        head = head.rpartition(".")[2] if "." in head else head[6:]
    elif head.startswith(("mod:", "cell:")):
        head = ""
    elif head.startswith("%"):
        head = head[1:].partition("#")[0]
    elif head.startswith("@"):
        head = analysis.variable(root.function, head) if "#" not in head else ""
        head = head or "the object"
    text = head
    for part in rest:
        if part == ELEMENT:
            text += "[...]"
        elif part == _POOL:
            continue
        else:
            text = f"{text}.{part}" if text else part
    return text
