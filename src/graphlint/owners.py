"""Who owns what: every container of graphs, pool handle and workspace of a project, with whoever makes and releases it.

What has one owner is released by one: nobody is an orphan, and two releases of it on one path are one too many.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphlint import behavior as b
from graphlint import check
from graphlint.behavior import Behavior, Slot
from graphlint.check import Inputs
from graphlint.effects import Effect
from graphlint.facts import MODULE
from graphlint.keeping import is_miss, stores
from graphlint.ownership import holdings
from graphlint.paths import Config, Event
from graphlint.readers import container
from graphlint.source import Source, Span
from graphlint.summaries import Analysis
from graphlint.teardowns import is_teardown
from graphlint.typestate import place_text
from graphlint.values import Place
from graphlint.visiting import visit

_ENDS = {"graphs": Effect.GRAPH_DEATH, "pool": Effect.POOL_RETIRE, "workspace": Effect.WS_RELEASE}
"""What gives up a thing of each kind."""
_NOTHING = frozenset(("none", "empty", "false"))


class Site(NamedTuple):
    """Where something happens to a thing."""

    path: str
    span: Span
    function: str
    """Qualified name in its module."""
    note: str = ""
    """captured: the pool."""


@dataclass(frozen=True)
class Owned:
    """A container of graphs, a pool handle or a workspace."""

    kind: str
    """graphs, pool or workspace."""
    name: str
    """`Runner.graphs`; of a module's variable `module.name`."""
    made: tuple[Site, ...]
    captured: tuple[Site, ...]
    """Where graphs are captured that go there, or (of a pool) that come from it."""
    released: tuple[Site, ...]
    erased: tuple[Site, ...]
    """Where the allocator's cache is emptied by what releases it."""
    twice: tuple[Site, ...]
    """Two releases on one path, outermost calls first; empty where there are no two."""
    borrowed: bool = False
    """A pool handle that is only ever given here: who made it owns the pool."""

    @property
    def verdict(self) -> str:
        """What its releases say: orphan (there are none), duplicate (two on one path), owned, or borrowed."""
        if not self.released:
            return "borrowed" if self.borrowed else "orphan"
        return "duplicate" if self.twice else "owned"


def owners(inputs: Inputs) -> list[Owned]:
    """What the files of a run own, by the place where it is made."""
    reported = frozenset(inputs.selection.report)
    found = [
        each
        for analysis, _ in check.analyses(inputs)
        for each in _owned(analysis)
        if each.made and each.made[0].path in reported
    ]
    return sorted(found, key=lambda each: (each.made[0].path, each.made[0].span, each.kind))


def text(found: Sequence[Owned], sources: Inputs) -> str:
    """The list for people."""
    return "\n".join(_described(each, sources) for each in found)


def _described(owned: Owned, inputs: Inputs) -> str:
    head = {
        "orphan": f"{owned.kind} {owned.name}: orphan, nothing releases it",
        "duplicate": f"{owned.kind} {owned.name}: duplicate, released twice on one path",
        "borrowed": f"{owned.kind} {owned.name}: borrowed",
        "owned": f"{owned.kind} {owned.name}",
    }[owned.verdict]
    rows = [("made", owned.made), ("captured", owned.captured), ("released", owned.released), ("erased", owned.erased)]
    if owned.twice:
        rows.append(("twice", owned.twice))
    lines = [head]
    for word, sites in rows:
        for index, site in enumerate(sites):
            row = inputs.sources[site.path].row(site.span.start)
            note = f", {site.note}" if site.note else ""
            lines.append(f"    {word if not index else '':9} {site.path}:{row}  {site.function}{note}".rstrip())
    return "\n".join(lines) + "\n"


def described(found: Sequence[Owned], inputs: Inputs) -> list[dict[str, Any]]:
    """The list for machines."""
    return [
        {
            "kind": each.kind,
            "name": each.name,
            "verdict": each.verdict,
            **{
                word: [_site(site, inputs.sources[site.path]) for site in sites]
                for word, sites in (
                    ("made", each.made),
                    ("captured", each.captured),
                    ("released", each.released),
                    ("erased", each.erased),
                    ("twice", each.twice),
                )
            },
        }
        for each in found
    ]


def _site(site: Site, source: Source) -> dict[str, Any]:
    row, column = source.position(site.span.start)
    found: dict[str, Any] = {
        "filename": site.path,
        "location": {"row": row, "column": column},
        "function": site.function,
    }
    return {**found, "pool": site.note} if site.note else found


# ------------------------------------------------------------------------------------------------------- the analysis


def _owned(analysis: Analysis) -> Iterator[Owned]:
    behaviors = [each for each in analysis.behaviors.all() if "|" not in each.key]
    shared = _shared(analysis)
    for slot in sorted({*analysis.behaviors.slots, *shared}):
        kind = _kind(analysis, slot) or ("workspace" if slot in shared else None)
        if kind is None or slot[0].startswith("local:"):
            continue
        slots = {slot, *_record_slots(analysis, slot)} if kind == "graphs" else {slot}
        yield Owned(
            kind,
            _name(slot),
            _in_order(_made(analysis, behaviors, slot)),
            _in_order(_captured(analysis, behaviors, kind, slots)),
            _in_order(_released(analysis, behaviors, kind, slots)),
            _in_order(_erased(analysis, kind, slots)),
            _twice(analysis, slots) if kind == "graphs" else (),
            kind == "pool" and not any("pool" in node.tags for _, node in _writes(behaviors, slot)),
        )


def _in_order(sites: Iterable[Site]) -> tuple[Site, ...]:
    return tuple(sorted(set(sites)))


def _shared(analysis: Analysis) -> set[Slot]:
    """Class attributes and module variables that keep device memory for whoever asks: workspaces of the whole process."""
    return {
        store.node.slot
        for store in stores(analysis)
        if store.node.slot is not None
        and not store.is_memo
        and store.event.places[0][0].startswith(("class:", "mod:"))
        and is_miss(analysis, store)
    }


def _kind(analysis: Analysis, slot: Slot) -> str | None:
    owner, name = slot
    held = analysis.holds(slot)
    if "pool" in held and "graph" not in held:
        return "pool"
    if "graph" in held:
        if owner.startswith("mod:"):
            return None if "owner" in held else "graphs"
        own = next((each for each in holdings(analysis, owner) if each.name == name), None)
        bare = own is not None and (not own.classes or any(not holdings(analysis, kind) for kind in own.classes))
        return "graphs" if own is not None and bare and (own.is_made or not own.repeats) else None
    if slot in analysis.captured_slots or analysis.entry_for(slot) is not None or "captured" in held:
        return "workspace"
    return None


def _record_slots(analysis: Analysis, slot: Slot) -> Iterator[Slot]:
    """Fields with a graph of the records that a container holds."""
    own = next((each for each in holdings(analysis, slot[0]) if each.name == slot[1]), None)
    for kind in own.classes if own is not None else ():
        entry = analysis.project.classes.get(kind)
        for name in entry.attributes if entry is not None else ():
            if "graph" in analysis.holds((kind, name)):
                yield (kind, name)


def _name(slot: Slot) -> str:
    return f"{slot[0].rpartition('.')[2].removeprefix('mod:')}.{slot[1]}"


def _at(analysis: Analysis, function: str, span: Span, note: str = "") -> Site:
    entry = analysis.project.functions[function]
    return Site(entry.module.source.path, span, re.sub(r"@\d+", "", entry.facts.qualname), note)


def _writes(behaviors: Sequence[Behavior], slot: Slot) -> Iterator[tuple[Behavior, b.Touches]]:
    for each in behaviors:
        for node in each.nodes:
            if isinstance(node, b.Touches) and node.slot == slot and node.how in ("write", "add"):
                yield each, node


def _made(analysis: Analysis, behaviors: Sequence[Behavior], slot: Slot) -> Iterator[Site]:
    """Where something is put there; where only nothing is, that."""
    written = list(_writes(behaviors, slot))
    filled = [(each, node) for each, node in written if not node.tags & _NOTHING]
    for each, node in filled or written[:1]:
        yield _at(analysis, each.function, node.span)


def _captured(analysis: Analysis, behaviors: Sequence[Behavior], kind: str, slots: set[Slot]) -> Iterator[Site]:
    for each in behaviors:
        nodes = list(each.nodes)
        stores = any(isinstance(n, b.Touches) and n.slot in slots and not n.tags & _NOTHING for n in nodes)
        seen: set[Span] = set()
        for node in nodes:
            if not isinstance(node, b.Happens) or node.effect is not Effect.CAPTURE or node.span in seen:
                continue
            if node.pool_slot in slots if kind == "pool" else (node.slot in slots or (stores and node.slot is None)):
                seen.add(node.span)
                yield _at(analysis, each.function, node.span, _pool(analysis, each, node) if kind != "pool" else "")


def _pool(analysis: Analysis, behavior: Behavior, node: b.Happens) -> str:
    """The pool of a capture, as its reader knows it."""
    if not node.pool and node.pool_slot is None:
        return "a pool of its own"
    if node.pool_slot is not None:
        return f"pool {_name(node.pool_slot)}"
    return f"pool {place_text(node.pool[0], analysis, behavior)}"


def _released(analysis: Analysis, behaviors: Sequence[Behavior], kind: str, slots: set[Slot]) -> Iterator[Site]:
    """The first release in each function."""
    seen: set[str] = set()
    for each in behaviors:
        in_constructor = each.function.endswith((".__init__", f".{MODULE}"))
        for node in each.nodes:
            if isinstance(node, b.Happens | b.Touches) and node.slot in slots and each.function not in seen:
                event = Event(node, node.places, (), (), in_constructor=in_constructor)
                ends = _ENDS[kind] in analysis.effects(event) or (kind == "workspace" and _gives_up(event))
                if ends and not (kind == "pool" and _is_first(each, node)):
                    seen.add(each.function)
                    yield _at(analysis, each.function, node.span)


def _gives_up(event: Event) -> bool:
    """Whether an event drops what a store of workspaces holds."""
    node = event.node
    return (
        isinstance(node, b.Touches)
        and not event.in_constructor
        and (node.how in ("drop", "clear", "pop") or (node.how == "write" and bool(node.tags & _NOTHING)))
    )


def _is_first(behavior: Behavior, node: b.Happens | b.Touches) -> bool:
    """Whether a handle is put where the function has found none: it takes the place of no other."""
    if not isinstance(node, b.Touches) or node.how != "write" or node.tags & _NOTHING:
        return False
    met: list[Event] = []
    visit(behavior, lambda _: None, met.append)
    guards = [event.guards for event in met if event.node is node]
    return bool(guards) and all(any(("atom", "none", place) in each for place in node.places) for each in guards)


def _erased(analysis: Analysis, kind: str, slots: set[Slot]) -> Iterator[Site]:
    """The erasures in the teardowns that release a thing."""
    seen: set[tuple[str, Span]] = set()
    for root in analysis.roots():
        if not {_ENDS[kind], Effect.ERASE} <= analysis.kinds[root.key]:
            continue
        name = analysis.project.functions[root.function].facts.name
        sites = analysis.sites(root)
        own = any(site.effect is _ENDS[kind] and site.event.node.slot in slots for site in sites)
        if not own or not (is_teardown(name) or len({site.event.stack[-1].function for site in sites}) == 1):
            continue
        for site in sites:
            node, frame = site.event.node, site.event.stack[-1]
            is_erase = site.effect is Effect.ERASE and isinstance(node, b.Happens) and not node.entry
            if is_erase and (frame.function, frame.span) not in seen:
                seen.add((frame.function, frame.span))
                yield _at(analysis, frame.function, frame.span)


def _twice(analysis: Analysis, slots: set[Slot]) -> tuple[Site, ...]:
    """Two calls of some function that release the same graphs, one after the other on one path."""
    for root in analysis.roots():
        if Effect.GRAPH_DEATH not in analysis.kinds[root.key]:
            continue
        ended: dict[Place, set[object]] = {}
        for site in analysis.sites(root):
            if site.effect is Effect.GRAPH_DEATH and site.event.node.slot in slots:
                for place in site.places:
                    ended.setdefault(container(place), set()).add(_call(site.event))
        for place, calls in ended.items():
            if len(calls) > 1 and (path := _released_twice(analysis, root, place)):
                return tuple(_at(analysis, event.stack[0].function, event.stack[0].span) for event in path)
    return ()


def _call(event: Event) -> object:
    """The call of the function that an event happens in, by the way that leads to it."""
    return tuple((frame.function, frame.span) for frame in event.stack[:-1]), event.stack[-1].function


def _released_twice(analysis: Analysis, root: Behavior, place: Place) -> tuple[Event, ...]:
    """The two releases of the graphs in a place on the shortest path that has two without a capture between."""

    def monitor(state: str, event: Event, config: Config) -> tuple[str, Effect] | None:
        effects = analysis.effects(event, config)
        if Effect.CAPTURE in effects:
            return ("", Effect.CAPTURE) if state == "once" else None
        if Effect.GRAPH_DEATH not in effects or place not in map(container, event.places) or state == "twice":
            return None
        if state == "once" and _call(config.trace[-1]) == _call(event):
            return None  # the same function goes on, or the next round of a loop
        return ("twice" if state == "once" else "once", Effect.GRAPH_DEATH)

    outcome = analysis.run(root, "", monitor)
    found = [config.trace for configs in (outcome or {}).values() for config in configs if config.state == "twice"]
    return min(found, key=len)[-2:] if found else ()
