"""Memory that lies in the pool of graphs that die, or may: what captures made, and whoever still holds it.

A graph's outputs are blocks of its pool, and so is what the captured code allocates where nobody sees it. Each question here
is about one way of holding such a block longer than its graphs live.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from graphlint import behavior as b
from graphlint.assignments import is_record
from graphlint.behavior import Behavior
from graphlint.effects import Effect
from graphlint.engines import releasing_frame
from graphlint.identity import by_another, takes_next
from graphlint.paths import Event, Frame
from graphlint.readers import common, container, holds_class
from graphlint.summaries import Analysis, Site
from graphlint.values import ELEMENT, GRAPH, Place, store_place
from graphlint.variables import held_by_variables, is_variable
from graphlint.visiting import visit
from graphlint.vocabulary import Entry
from graphlint.warming import is_made_before

_OWN = 2
"""Parts of the place of an attribute of the object itself: `self.graphs`."""


class Workspace(NamedTuple):
    """Memory in the pool of graphs, and what is known of it."""

    place: Place
    graphs: Place
    """Those in whose pool it lies."""
    by_name: bool = False
    """Known by a name or a reference alone."""
    entry: Entry | None = None
    """The vocabulary's word that it is allocated while capturing."""
    release: str = ""
    """Dotted name of what gives it up."""
    held: bool = False
    """It is held at the end of the path unless it was released on it."""
    pool_object: Place = ()
    """The object of the pool, which has to go, too, before anybody can erase it."""


def workspaces(
    analysis: Analysis, root: Behavior, sites: Sequence[Site], deaths: Mapping[Place, Site]
) -> Iterator[Workspace]:
    """Memory that lies, or may lie, in the pool of graphs that die here."""
    for found in _workspaces(analysis, root, sites, deaths):
        name = _pool_object(analysis, deaths[found.graphs])
        if name is None:
            yield found
        elif not found.by_name and found.entry is None and not found.release:
            yield found._replace(pool_object=(*found.graphs[:-1], name))
    for graphs, death in deaths.items():
        name = _pool_object(analysis, death)
        if name is not None:
            owner, pool_object = graphs[:-1], (*graphs[:-1], name)
            mine = analysis.project.functions[root.function].owner if owner == (f"${root.receiver}",) else None
            slot = death.event.node.slot
            for pooled in sorted(_pooled(analysis, mine or (slot[0] if slot is not None else ""))):
                yield Workspace((*owner, pooled), graphs, held=True, pool_object=pool_object)


def _goes_along(sites: Sequence[Site], graphs: Place, place: Place) -> bool:
    """Whether memory in items of a table goes with its item: graphs die only where whole items are taken out, one at a time."""
    deaths = [
        site.event.node for site in sites if site.effect is Effect.GRAPH_DEATH and graphs in map(container, site.places)
    ]
    taken = all(isinstance(node, b.Touches) and node.how == "pop" for node in deaths)
    return taken and place[: len(graphs) + 1] == (*graphs, ELEMENT)


def ended_by_others(sites: Sequence[Site], place: Place) -> frozenset[tuple[Frame, ...]]:
    """The ways to deaths of what was taken out of a common list, in methods of other objects than the one that has some memory.

    Each of them takes what is its own.
    """
    users = {frame.function for site in sites for frame in site.event.stack[1:] if frame.receiver == (place[:-1],)}
    return frozenset(
        site.event.stack
        for site in sites
        if users and site.effect is Effect.GRAPH_DEATH
        if by_another(site.event, place[:-1], users) and takes_next(sites, site.event)
    )


def _pool_object(analysis: Analysis, death: Site) -> str | None:
    """Name of the attribute with the object of the pool that graphs of an object were captured in; None for other pools."""
    slot = death.event.node.slot
    if slot is None or not any(len(place) > 1 for place in death.places):
        return None
    return _pool_objects(analysis).get(slot[0])


def _pool_objects(analysis: Analysis) -> Mapping[str, str]:
    """By class all of whose captures name one pool of which an attribute has the object, that attribute."""
    key = "pool objects", ""
    if key not in analysis.known:
        found: dict[str, set[str | None]] = {}
        for each in analysis.effectful.values():
            owner = analysis.project.functions[each.function].owner
            for node in each.nodes if owner is not None else ():
                if isinstance(node, b.Happens) and node.effect is Effect.CAPTURE:
                    found.setdefault(owner or "", set()).add(_object_of_pool(analysis, owner or "", node.pool_slot))
        analysis.known[key] = {
            owner: name for owner, names in found.items() if len(names) == 1 and (name := next(iter(names))) is not None
        }
    objects: Mapping[str, str] = analysis.known[key]
    return objects


def _object_of_pool(analysis: Analysis, owner: str, pool: b.Slot | None) -> str | None:
    notes = analysis.behaviors.slots.get(pool) if pool is not None else None
    for slot in (pool, *sorted(notes.sources if notes is not None else ())):
        if slot is not None and "mempool" in analysis.holds(slot) and slot[0] in analysis.project.mro(owner):
            return slot[1]
    return None


def _pooled(analysis: Analysis, owner: str) -> Iterator[str]:
    """Attributes of a class that have what was allocated from a memory pool."""
    for each in analysis.project.mro(owner):
        for name in analysis.behaviors.field_bindings(each) if each in analysis.project.classes else ():
            notes = analysis.behaviors.slots.get((each, name))
            if notes is not None and "pooled" in notes.tags:
                yield name


def _workspaces(
    analysis: Analysis, root: Behavior, sites: Sequence[Site], deaths: Mapping[Place, Site]
) -> Iterator[Workspace]:
    """Memory that lies, or may lie, in the pool of graphs that die here."""
    released: dict[tuple[Place, Place], Workspace] = {}
    variables: dict[Place, list[Place]] = {}
    for place, graphs in held_by_variables(analysis, root, deaths, partial(_are_put_together, analysis)):
        variables.setdefault(graphs, []).append(place)
    for graphs, death in deaths.items():
        for site in sites:
            if site.effect is not Effect.WS_RELEASE:
                continue
            node = site.event.node
            if is_variable(node.slot) or _is_emptied_elsewhere(analysis, site, sites):
                continue
            by_name = isinstance(node, b.Happens) and node.by_name
            places = site.places or (nowhere(node),)
            for place in places:
                entry = analysis.entry_for(node.slot)
                inside = entry is not None or (
                    (
                        (node.slot in analysis.captured_slots)
                        or (isinstance(node, b.Touches) and analysis.keeps_captured(node.slot))
                        or (
                            "captured" in analysis.holds(node.slot)
                            and (
                                place[: len(place) - 1] == graphs[: len(place) - 1]
                                or _is_of_one_record(analysis, node.slot, place, death)
                            )
                        )
                        or (_is_of_captures(analysis, node.slot, death) and _is_nearest(place, graphs, death, deaths))
                    )
                    and not is_made_before(analysis, node.slot)
                )
                if inside and _goes_along(sites, graphs, place):
                    continue
                if by_name or inside:
                    released.setdefault(
                        (graphs, place), Workspace(place, graphs, by_name=by_name and not inside, entry=entry)
                    )
        for place in (
            *_filled_again(analysis, root, graphs, death, sites),
            *_left_to_others(analysis, root, graphs, death, sites),
            *_left_to_owner(analysis, root, graphs, death, sites),
        ):
            released.setdefault((graphs, place), Workspace(place, graphs, held=True))
        for place in variables.get(graphs, ()):
            released.setdefault((graphs, place), Workspace(place, graphs, held=True))
        for entry in evidence(analysis, death):
            store = store_of(entry)
            if store is not None:
                released[graphs, store] = Workspace(store, graphs, entry=entry, held=True)
        node = death.event.node
        for slot, place in analysis.kept_by_captures(node.slot[0] if node.slot is not None else "").items():
            release = analysis.releaser(slot)
            if release is not None and not is_made_before(analysis, slot):
                released[graphs, place] = Workspace(place, graphs, release=release, held=True)
    yield from released.values()


def _is_emptied_elsewhere(analysis: Analysis, release: Site, sites: Sequence[Site]) -> bool:
    """Whether what is released is the container of another attribute, and that has emptied it before."""
    notes = analysis.behaviors.slots.get(release.event.node.slot) if release.event.node.slot is not None else None
    return notes is not None and any(
        isinstance(site.event.node, b.Touches) and site.event.node.how == "clear" and site.event.node.slot in notes.same
        for site in sites[: sites.index(release)]
    )


def nowhere(node: b.Happens | b.Touches) -> Place:
    """Stands for the place of what is released where nobody knows which object's it is."""
    if isinstance(node, b.Happens):
        return (f"<{node.label}>",)
    owner, name = node.slot or ("", "")
    return (f"<{owner.rpartition('.')[2]}.{name}>",)


def _filled_again(
    analysis: Analysis, root: Behavior, graphs: Place, death: Site, sites: Sequence[Site]
) -> Iterator[Place]:
    """Tables beside graphs that die all, where later captures put what they make instead of what the dead ones made.

    The object itself captures again: who asks it to end its graphs, and later to capture, may read the last outputs between.
    """
    node = death.event.node
    of_all = ELEMENT not in death.places[0] if isinstance(node, b.Happens) else node.how != "pop"
    if not (of_all or death.event.loops) or not any(site.effect is Effect.CAPTURE for site in sites):
        return
    if root.key not in _filling(analysis):
        return
    found: list[Event] = []
    visit(root, analysis.effectful.get, found.append)
    for event in found:
        node = event.node
        if not isinstance(node, b.Touches) or node.how != "add" or "captured" not in node.tags:
            continue
        if not event.places or event.in_constructor:
            continue
        place = container(event.places[0])
        held = analysis.holds(node.slot)
        own = root.receiver is not None and place[0] == f"${root.receiver}"
        if own and "captured" in held and "graph" not in held and place[:-1] == graphs[:-1] and len(place) > 1:
            yield place


def _left_to_others(
    analysis: Analysis, root: Behavior, graphs: Place, death: Site, sites: Sequence[Site]
) -> Iterator[Place]:
    """Attributes beside graphs that die all, with what captures made, which another method of their object empties later."""
    node = death.event.node
    of_all = ELEMENT not in death.places[0] if isinstance(node, b.Happens) else node.how != "pop"
    found = _object_of(analysis, root, graphs, death) if of_all or death.event.loops else None
    if found is None:
        return
    object_, owner, store = found
    touched = {
        place[len(object_)]
        for site in sites
        for place in site.places
        if len(place) > len(object_) and place[: len(object_)] == object_
    }
    callers = {key.partition("|")[0] for key in analysis.callers.get(root.key, ())}
    above = {root.function, *callers, *(frame.function for frame in death.event.stack)}
    by_method = _emptied(analysis, owner)
    for name in sorted({name for other, names in by_method.items() if other not in above for name in names} - touched):
        together = _puts(analysis, (owner, name)) & _puts(analysis, (owner, store))
        emptying = {other for other, names in by_method.items() if name in names}
        if together and above.isdisjoint(emptying) and not _is_called_by(analysis, emptying, callers):
            yield *object_, name


def _object_of(analysis: Analysis, root: Behavior, graphs: Place, death: Site) -> tuple[Place, str, str] | None:
    """The object whose graphs die, its class and the attribute: of a method itself, or one of a table by a method of its own."""
    last, dead = death.event.stack[-1], death.places[0]
    while dead[-1] == ELEMENT:
        dead = dead[:-1]
    owner = analysis.project.functions[last.function].owner
    if owner is not None and last.receiver == (dead[:-1],) and ELEMENT in dead:
        return (dead[:-1], owner, dead[-1]) if container(dead) == graphs else None
    owner = analysis.project.functions[root.function].owner
    if owner is not None and len(graphs) == _OWN and graphs[0] == f"${root.receiver}":
        return graphs[:-1], owner, graphs[-1]
    return None


def _is_called_by(analysis: Analysis, functions: set[str], callers: set[str]) -> bool:
    """Whether one of the callers calls one of some functions, too: then it is the one who says in which order."""
    for caller in callers:
        for built in analysis.roots_of(caller):
            if any(key.partition("|")[0] in functions for key in built.callees):
                return True
    return False


def _left_to_owner(
    analysis: Analysis, root: Behavior, graphs: Place, death: Site, sites: Sequence[Site]
) -> Iterator[Place]:
    """Attributes beside graphs that die all, with what captures made, which go with their object: the function drops it."""
    slot, owner = death.event.node.slot, graphs[:-1]
    if len(owner) < 2 or ELEMENT in owner or slot is None or slot[0] not in analysis.project.classes:
        return
    if not any(
        isinstance(node, b.Touches) and owner in node.places and (node.how == "drop" or node.tags & {"none"})
        for node in root.nodes
    ):
        return
    touched = {place for site in sites for place in site.places}
    for each in analysis.project.mro(slot[0]):
        for name in analysis.behaviors.field_bindings(each) if each in analysis.project.classes else ():
            together = _puts(analysis, (each, name)) & _puts(analysis, slot)
            if together and _is_output(analysis, (each, name)) and (*owner, name) not in touched:
                yield *owner, name


def _is_of_one_record(analysis: Analysis, slot: b.Slot | None, place: Place, death: Site) -> bool:
    """Whether an attribute lies beside a graph that dies, in one object, and one function has put both there."""
    graph = death.event.node.slot
    if slot is None or graph is None or not any(len(dead) > 1 and place[:-1] == dead[:-1] for dead in death.places):
        return False
    return _are_put_together(analysis, slot, graph)


def _are_put_together(analysis: Analysis, one: b.Slot, other: b.Slot) -> bool:
    """Whether one function puts something into both of two attributes."""
    return not _puts(analysis, one).isdisjoint(_puts(analysis, other))


def _puts(analysis: Analysis, slot: b.Slot) -> frozenset[str]:
    """The functions that put something into an attribute."""
    known = analysis.known.get(("putting into", ""))
    if known is None:
        known = {}
        for each in analysis.behaviors.all():
            for node in each.nodes:
                if isinstance(node, b.Touches) and node.slot is not None and node.how in ("add", "write"):
                    if not node.tags & {"none", "empty"}:
                        known.setdefault(node.slot, set()).add(each.function)
        analysis.known["putting into", ""] = known
    return frozenset(known.get(slot, ()))


def _emptied(analysis: Analysis, owner: str) -> Mapping[str, frozenset[str]]:
    """By method of a class, the attributes with what captures made that it empties."""
    known = analysis.known.get(("emptied", owner))
    if known is None:
        by_method: dict[str, set[str]] = {}
        for root in analysis.roots():
            if (
                root.function.endswith((".__init__", ".__del__"))
                or analysis.project.functions[root.function].owner != owner
            ):
                continue
            names = by_method.setdefault(root.function, set())
            for site in analysis.sites(root) if Effect.WS_RELEASE in analysis.kinds[root.key] else ():
                slot = site.event.node.slot
                if site.effect is not Effect.WS_RELEASE or slot is None or not _is_output(analysis, slot):
                    continue
                if not (_is_record(analysis, slot) and slot in root.reads):  # it takes over what another call has left
                    names.update(place[1] for place in site.places if place == (f"${root.receiver}", slot[1]))
        known = analysis.known["emptied", owner] = {name: frozenset(each) for name, each in by_method.items()}
    emptied: Mapping[str, frozenset[str]] = known
    return emptied


def _is_record(analysis: Analysis, slot: b.Slot) -> bool:
    """Whether an attribute holds a record, and no table of some."""
    classes = (analysis.project.classes.get(t.name) for t in analysis.behaviors.field_types(*slot))
    return any(each is not None and is_record(each) for each in classes)


def _is_output(analysis: Analysis, slot: b.Slot) -> bool:
    """Whether an attribute holds what captures made, and no graph."""
    held = analysis.holds(slot)
    return "captured" in held and "graph" not in held and not is_made_before(analysis, slot)


def _filling(analysis: Analysis) -> frozenset[str]:
    """Keys of the behaviors that put what a capture made into a table, themselves or through a call."""
    known = analysis.known.get(("filling", ""))
    if known is None:
        found: set[str] = set()
        waiting = [
            key
            for key, each in analysis.effectful.items()
            if any(
                isinstance(n, b.Touches) and n.how == "add" and "captured" in n.tags and not is_variable(n.slot)
                for n in each.nodes
            )
        ]
        while waiting:
            key = waiting.pop()
            if key not in found:
                found.add(key)
                waiting += analysis.callers.get(key, ())
        known = analysis.known["filling", ""] = frozenset(found)
    filling: frozenset[str] = known
    return filling


def _is_of_captures(analysis: Analysis, slot: b.Slot | None, death: Site) -> bool:
    """Whether an object of another class holds what the class, or the module, that keeps the dying graphs has captured."""
    notes = analysis.behaviors.slots.get(slot) if slot is not None else None
    owner = death.event.node.slot
    if slot is None or notes is None or owner is None or "captured" not in analysis.holds(slot):
        return False
    owners = (owner[0], *analysis.project.mro(owner[0]))
    known = [notes, *(analysis.behaviors.note(source) for source in sorted(notes.sources))]
    return slot[0] not in owners and any(not each.capturers.isdisjoint(owners) for each in known)


def _is_nearest(place: Place, graphs: Place, death: Site, deaths: Mapping[Place, Site]) -> bool:
    """Whether no graphs of the same attribute of another object lie nearer to a place."""
    slot = death.event.node.slot
    alike = [each for each, other in deaths.items() if other.event.node.slot == slot]
    return common(place, graphs) == max(common(place, each) for each in alike)


def store_of(entry: Entry) -> Place | None:
    """Where an entry of the vocabulary says that what it allocates is kept; None where it says nothing."""
    return store_place(entry.store) if entry.store is not None else None


def evidence(analysis: Analysis, death: Site) -> Iterator[Entry]:
    """Vocabulary's allocations under capture that the graphs that die here are known to contain.

    Either the captured code calls one, or a class that owns the graphs' owner releases its store: an engine that gives
    workspaces back around its warm-up runs the operator that takes them.
    """
    node = death.event.node
    owner = node.slot[0] if node.slot is not None else None
    if isinstance(node, b.Happens) and node.types and analysis.vocabulary.canonical(node.types[0]) != GRAPH:
        owner = node.types[0]  # a release of an object that owns graphs
    for entries in analysis.vocabulary.calls.values():
        for entry in entries:
            if not entry.while_capturing or entry.released_by is None:
                continue
            if owner is not None and _owner_releases(analysis, owner, entry):
                yield entry


def _owner_releases(analysis: Analysis, owner: str, entry: Entry) -> bool:
    """Whether a class that holds instances of `owner` releases the entry's store somewhere."""
    return any(_fields_of(analysis, holder, owner) & words for holder, words in _releasers(analysis, entry))


def _releasers(analysis: Analysis, entry: Entry) -> Sequence[tuple[str, frozenset[str]]]:
    """Classes with a method that itself releases the entry's store, and the words of that method."""
    known = analysis.releasers.get(entry.name)
    if known is None:
        store = store_of(entry)
        known = analysis.releasers[entry.name] = []
        if store is None or not _is_mentioned(analysis, store):
            return known
        for root in analysis.roots():
            function = analysis.project.functions[root.function]
            if function.owner is None or Effect.WS_RELEASE not in analysis.kinds[root.key]:
                continue
            for site in analysis.sites(root):
                if (
                    site.effect is Effect.WS_RELEASE
                    and store in map(container, site.places)
                    and releasing_frame(site.event) == 0
                ):
                    known.append((function.owner, function.facts.words))
                    break
    return known


def _is_mentioned(analysis: Analysis, store: Place) -> bool:
    """Whether anything in the project touches a store of the process, or passes it on."""
    return any(
        store in map(container, places)
        for each in analysis.effectful.values()
        for node in each.nodes
        for places in _mentioned(node)
    )


def _mentioned(node: b.Node) -> Iterator[Sequence[Place]]:
    if isinstance(node, b.Happens | b.Touches):
        yield node.places
    elif isinstance(node, b.Calls):
        yield from (places for _, places in node.bindings)


def _fields_of(analysis: Analysis, holder: str, owned: str) -> set[str]:
    """Attributes of a class through which its instances hold instances of another."""
    found: set[str] = set()
    for each in analysis.project.mro(holder):
        entry = analysis.project.classes.get(each)
        if entry is None:
            continue
        for name in {*analysis.behaviors.field_bindings(each), *entry.attributes}:
            for t in analysis.behaviors.field_types(each, name):
                for kind in (t, *t.items):
                    if owned in analysis.project.mro(kind.name) or holds_class(analysis, kind.name, owned):
                        found.add(name)
    return found
