"""Which memory captured graphs read, as far as the code shows it: memory that must outlive them.

A captured kernel holds addresses, so nothing in the code names what a replay reads. Three things tell, surest first:

* captured code reads the attribute that holds the memory;
* the object that owns the graphs holds a reference to the object that owns the memory;
* the memory is the requests' cache by its name, or by the name of an unresolved callee that releases it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from graphlint import behavior as b
from graphlint import flow
from graphlint.assignments import is_record
from graphlint.behavior import Behavior, Slot
from graphlint.effects import Effect
from graphlint.flow import Expr
from graphlint.inherited import is_input, is_of_another_class
from graphlint.project import FunctionEntry
from graphlint.summaries import Analysis, Site
from graphlint.values import ELEMENT, GRAPH, MEMO, Place

RELEASES = (Effect.WS_RELEASE, Effect.KV_RELEASE, Effect.COMM_DESTROY)
"""Effects that give up memory which graphs can read."""

_DEEPEST = 5
"""Most objects in each other through which one holds another."""


class Evidence(IntEnum):
    """What tells that graphs read some memory, surest first."""

    READ = 0
    REFERENCE = 1
    NAME = 2


class Memory(NamedTuple):
    """Memory that a function releases, and graphs that read it."""

    place: Place
    graphs: Place
    """Where the graphs are held; empty: which graphs they are is not known, and all count."""
    evidence: Evidence
    dropped: bool = False
    """The graphs die because the last reference to their owner is taken to go."""


def read_memory(analysis: Analysis, root: Behavior, sites: Sequence[Site]) -> Iterator[Memory]:
    """The memory that some effects of a function release while others of them end graphs that read it."""
    deaths = [site for site in sites if site.effect is Effect.GRAPH_DEATH]
    releases = [site for site in sites if site.effect in RELEASES]
    best: dict[tuple[Place, Place], Memory] = {}
    for site in releases if deaths else ():
        for memory in _memories(analysis, site, deaths):
            key = (memory.place, memory.graphs)
            if key not in best or memory.evidence < best[key].evidence:
                best[key] = memory
    twins = _twins(releases), _twins(deaths)
    for (place, graphs), memory in best.items():
        if not graphs and any(known == place and of for known, of in best):
            continue  # known graphs say more than all of them
        if not graphs or _belong(analysis, root, place, graphs, *twins):
            yield memory


_Twins = Mapping[Place, frozenset[Place]]
"""Places, each with the others that hold the like of it."""


def _twins(sites: Sequence[Site]) -> _Twins:
    slots: dict[Slot, set[Place]] = {}
    for site in sites:
        if site.event.node.slot is not None:
            slots.setdefault(site.event.node.slot, set()).update(map(container, site.places))
    return {place: frozenset(places - {place}) for places in slots.values() for place in places}


def _belong(
    analysis: Analysis, root: Behavior, place: Place, graphs: Place, memories: _Twins, captured: _Twins
) -> bool:
    """Whether these graphs read this memory, and not its like that another engine has.

    What lies nearer in the tree of objects belongs together; else what the owner of the graphs was made with.
    """
    place = container(place)
    near = common(place, graphs)
    others = memories.get(place, frozenset())
    if any(common(other, graphs) > near for other in others):
        return False
    if any(common(place, other) > near for other in captured.get(graphs, ())):
        return False
    owner = analysis.project.functions[root.function].owner
    if owner is None or place[:1] != graphs[:1] or len(place) < 2 or len(graphs) < 2:
        return True
    given = _made_with(analysis, owner, graphs[1])
    siblings = {other[1] for other in others if other[:1] == place[:1] and len(other) > 1}
    return place[1] in given or not given & siblings


def common(one: Place, other: Place) -> int:
    """Length of the path that two places share."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _made_with(analysis: Analysis, owner: str, name: str) -> frozenset[str]:
    """Attributes of an object that stand in the expressions which its attribute is assigned from."""
    found: set[str] = set()
    for each in analysis.project.mro(owner):
        for _, value, _ in analysis.behaviors.field_bindings(each).get(name, ()):
            for part in flow.parts(value):
                if isinstance(part, flow.Attr) and isinstance(part.base, flow.Name):
                    found.add(part.name)
    return frozenset(found)


def _memories(analysis: Analysis, release: Site, deaths: Sequence[Site]) -> Iterator[Memory]:
    node = release.event.node
    if isinstance(node, b.Happens):
        for place in release.places or ((f"<{node.label}>",),):
            if node.effect is not Effect.WS_RELEASE:
                yield Memory(place, (), Evidence.NAME)
        return
    if node.slot is None or "graph" in analysis.holds(node.slot):
        return
    pairs = [(death, owner) for death in deaths for owner in owners(analysis, death)]
    if node.how in ("write", "drop") and any(shares(analysis, owner, node.slot) for _, owner in pairs):
        return  # the owner of the graphs holds on to it
    if (node.how in ("clear", "pop") or node.slot[1] == MEMO) and any(
        keeps_items(analysis, owner, node.slot) for _, owner in pairs
    ):
        return
    for death, owner in pairs:
        evidence = _relation(analysis, owner, node, release, death)
        if evidence is None:
            continue
        for place in release.places:
            for graphs in death.places:
                yield Memory(place, container(graphs), evidence, is_drop(analysis, death))
    if release.effect is Effect.KV_RELEASE:
        for place in release.places:
            yield Memory(place, (), Evidence.NAME)


def is_item_of_another(analysis: Analysis, release: Site, graphs: Place) -> bool:
    """Whether an object that owns graphs takes one item out of a table, and some graphs are another object's.

    What an object takes out when it ends is its own.
    """
    node = release.event.node
    if not isinstance(node, b.Touches) or node.how != "pop":
        return False
    if any(("atom", "true", place) in release.event.guards for place in release.places):
        return False  # one after the other, for as long as there are any
    takers = (
        frame.receiver[0]
        for frame in release.event.stack
        if len(frame.receiver) == 1 and "graph" in analysis.owns(analysis.project.functions[frame.function].owner or "")
    )
    return any(graphs[: len(taker)] != taker for taker in takers)


def is_drop(analysis: Analysis, death: Site) -> bool:
    """Whether graphs die because a reference to their owner is given up."""
    return isinstance(death.event.node, b.Touches) and "owner" in analysis.holds(death.event.node.slot)


def owners(analysis: Analysis, death: Site) -> Iterator[str]:
    """Classes and modules whose graphs an effect ends; none where a name alone says that it ends any."""
    node = death.event.node
    if isinstance(node, b.Happens):
        if node.by_name:
            return
        if node.types and analysis.vocabulary.canonical(node.types[0]) != GRAPH:
            yield node.types[0]
            return
    elif "owner" in analysis.holds(node.slot):
        yield from (name for name in node.types if "graph" in analysis.owns(name))
        return
    if node.slot is not None:
        yield node.slot[0]


def _relation(analysis: Analysis, owner: str, release: b.Touches, site: Site, death: Site) -> Evidence | None:
    """How it is known that the graphs of an owner read what a write gives up; None if it is not."""
    slot = release.slot
    assert slot is not None
    is_read = slot in reads(analysis, owner)
    holder = next((p[:-1] for p in site.places for g in death.places if p[:-1] == container(g)[:-1]), None)
    if holder is not None:
        # one object's: its static inputs and outputs may go, its cache may not, nor what another class of it keeps
        if not is_read:
            return None
        is_apart = not analysis.is_cache(slot) and is_of_another_class(analysis, site, death, holder)
        is_own = is_input(analysis, site, death, holder, slot[1]) if is_apart else not analysis.is_cache(slot)
        return None if is_own else Evidence.READ
    if is_read:
        return Evidence.READ
    if slot[0] not in analysis.project.classes or "graph" in analysis.owns(slot[0]):
        return None  # whoever owns graphs releases what belongs to them
    if holds_class(analysis, owner, slot[0]):
        return Evidence.REFERENCE
    return None


def reads(analysis: Analysis, owner: str) -> frozenset[Slot]:
    """What the captured code of a class or a module reads; of a record of graphs, that of whoever keeps such records."""
    family = analysis.project.mro(owner)
    found = _read_by(analysis, family)
    return found or _read_by(analysis, {keeper for each in family for keeper in _keeping(analysis).get(each, ())})


def reads_within(analysis: Analysis, owner: str) -> frozenset[Slot]:
    """What the captured code of a class and of the objects that it holds reads."""
    key = "reads within", owner
    if key not in analysis.known:
        inner = (_read_by(analysis, analysis.project.mro(each)) for each in _held_by(analysis, owner))
        analysis.known[key] = reads(analysis, owner).union(*inner)
    found: frozenset[Slot] = analysis.known[key]
    return found


def cannot_read(analysis: Analysis, owner: str, slot: Slot) -> bool:
    """Whether captured code of a class is known not to read what a slot holds.

    It calls nothing that nobody knows; no function that captures, or what that calls, asks for it; and no attribute that captured
    code reads was given any of it.
    """
    key = "reads known", ""
    if key not in analysis.known:
        analysis.known[key] = _asked_by_capturing(analysis)
    asked: Mapping[str, frozenset[Slot] | None] = analysis.known[key]
    family = [asked[each] for each in analysis.project.mro(owner) if each in asked]
    if not family or any(slots is None or slot in slots for slots in family):
        return False
    notes = (analysis.behaviors.slots.get(each) for each in reads(analysis, owner))
    return not any(slot in each.sources for each in notes if each is not None)


def _asked_by_capturing(analysis: Analysis) -> dict[str, frozenset[Slot] | None]:
    """By class, all that functions that capture read, also outside of the capture; None where it is not known."""
    found: dict[str, frozenset[Slot] | None] = {}
    for each in analysis.behaviors.all():
        of = analysis.project.functions[each.function].owner
        if of is None or not (each.calls_in_capture or Effect.CAPTURE in each.effects):
            continue
        begun = [n.span.start for n in each.nodes if isinstance(n, b.Happens) and n.effect is Effect.CAPTURE]
        before = found.get(of, frozenset())
        is_known = bool(begun) and not any(span.start > min(begun) for _, span in each.unresolved)
        read = _asked(analysis, each) if is_known and before is not None else None
        found[of] = before | read if before is not None and read is not None else None
    return found


def _asked(analysis: Analysis, capturing: Behavior) -> frozenset[Slot] | None:
    """What a function reads, and all that it calls; None where captured code calls what nobody knows."""
    read: set[Slot] = set()
    waiting, seen = [capturing.key], set[str]()
    while waiting:
        key = waiting.pop()
        built = analysis.behaviors.built(key)
        if key in seen or built is None:
            continue
        seen.add(key)
        if built.unresolved and key in analysis.captured:
            return None
        read |= built.reads
        waiting += built.callees
    return frozenset(read)


def _read_by(analysis: Analysis, owners: Iterable[str]) -> frozenset[Slot]:
    return frozenset[Slot]().union(*(analysis.captured_reads.get(each, ()) for each in owners))


def _keeping(analysis: Analysis) -> Mapping[str, frozenset[str]]:
    """By class, the classes and modules that capture and put objects of it into their attributes or variables."""
    key = "keeping", ""
    if key not in analysis.known:
        found: dict[str, set[str]] = {}
        for (owner, _), notes in list(analysis.behaviors.slots.items()):
            for name in notes.types if owner in analysis.captured_reads else ():
                found.setdefault(name, set()).add(owner)
        analysis.known[key] = {name: frozenset(owners) for name, owners in found.items()}
    result: Mapping[str, frozenset[str]] = analysis.known[key]
    return result


def shares(analysis: Analysis, owner: str, slot: Slot) -> bool:
    """Whether an attribute of a class holds the very objects that a slot elsewhere does."""
    key = "shared sources", owner
    if key not in analysis.known:
        analysis.known[key] = _sources(analysis, owner)
    return slot in analysis.known[key]


def _sources(analysis: Analysis, owner: str) -> frozenset[Slot]:
    """Slots whose values the attributes of a class were given as they are, at any distance."""
    waiting: list[Slot] = [
        (each, name)
        for each in analysis.project.mro(owner)
        if each in analysis.project.classes
        for name in analysis.behaviors.field_bindings(each)
    ]
    found: set[Slot] = set()
    while waiting:
        notes = analysis.behaviors.slots.get(waiting.pop())
        new = notes.sources - found if notes is not None else set[Slot]()
        found |= new
        waiting += new
    return frozenset(found)


def keeps_items(analysis: Analysis, owner: str, slot: Slot) -> bool:
    """Whether objects of a class hold on to the items of a table that they have from it, so that its end frees none of these.

    They do in an attribute that the constructor gives such an item, in a table of their own, and in records of graphs.
    """
    key = "kept items", owner
    if key not in analysis.known:
        found: set[Slot] = set()
        for each in (*analysis.project.mro(owner), *_records(analysis, owner)):
            entry = analysis.project.classes.get(each)
            for name in {*analysis.behaviors.field_bindings(each), *entry.attributes} if entry is not None else ():
                notes = analysis.behaviors.slots.get((each, name))
                if notes is not None:
                    found |= {source for source in notes.sources if _lasts(analysis, each, name, source)}
        analysis.known[key] = frozenset(found)
    return slot in analysis.known[key]


def _records(analysis: Analysis, owner: str) -> Iterator[str]:
    """Records of graphs that the attributes of a class hold."""
    for each in sorted(_attribute_classes(analysis, owner)):
        if each in analysis.project.classes and "graph" in analysis.owns(each):
            if is_record(analysis.project.classes[each]):
                yield each


def _lasts(analysis: Analysis, owner: str, name: str, source: Slot) -> bool:
    """Whether an attribute keeps each item that it is given: it is given one alone, or has a table for them."""
    bound = [each for each in analysis.behaviors.field_bindings(owner).get(name, ()) if each[2] != "annotation"]
    if any(how == "item" for _, _, how in bound):
        return True
    if analysis.is_container((owner, name)) and source[1] != MEMO:
        return False  # it may be the table itself
    given = [(function, value) for function, value, _ in bound if not _is_given_up(analysis, function, value)]
    return all(
        function.facts.name in ("__init__", "__post_init__")
        and not any(
            isinstance(each, flow.Star) and each.span.contains(value.span)
            for each in flow.statements(function.lowered.flow)
        )
        for function, value in given
    )


def _is_given_up(analysis: Analysis, function: FunctionEntry, value: Expr) -> bool:
    """Whether an attribute is given None where the object ends its graphs, which are all that reads what it held."""
    is_none = isinstance(value, flow.Lit) and value.value is None
    return is_none and Effect.GRAPH_DEATH in analysis.kinds.get(function.name, ())


def holds_class(analysis: Analysis, holder: str, owned: str) -> bool:
    """Whether instances of a class hold, also through others, instances of another."""
    key = "holds", f"{holder} {owned}"
    known = analysis.known.get(key)
    if known is None:
        known = analysis.known[key] = any(owned in analysis.project.mro(each) for each in _held_by(analysis, holder))
    return bool(known)


def _held_by(analysis: Analysis, holder: str) -> frozenset[str]:
    """Classes whose instances those of a class hold, also through others."""
    key = "held by", holder
    if key not in analysis.known:
        found: set[str] = set()
        level = {holder}
        for _ in range(_DEEPEST):
            level = {each for owner in level for each in _attribute_classes(analysis, owner)} - found
            found |= level
        analysis.known[key] = frozenset(found)
    classes: frozenset[str] = analysis.known[key]
    return classes


def _attribute_classes(analysis: Analysis, holder: str) -> frozenset[str]:
    """Classes of what the attributes of a class's instances, or the items of these, can be."""
    key = "attribute classes", holder
    if key not in analysis.known:
        found: set[str] = set()
        for each in analysis.project.mro(holder):
            entry = analysis.project.classes.get(each)
            for name in {*analysis.behaviors.field_bindings(each), *entry.attributes} if entry is not None else ():
                for t in analysis.behaviors.field_types(each, name):
                    found |= {t.name, *(item.name for item in t.items)}
        analysis.known[key] = frozenset(found)
    classes: frozenset[str] = analysis.known[key]
    return classes


def container(place: Place) -> Place:
    """The place without what follows its last element step: one subject for a container and what is in it."""
    if ELEMENT in place:
        return place[: place.index(ELEMENT)]
    return place
