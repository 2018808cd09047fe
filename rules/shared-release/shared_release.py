"""Reports a release of a whole class or process that runs once an engine.

A suspect's values:

    place   what is released, as the message names it
    scope   `class` or `process`, or the class of the object that handed it to all of them
    loop    `path:row` of the loop over engines, or of the second call, that makes it run more than once, or of what shows
            that there are other users
    ways    the functions between those that run it for several objects and the release (`graphlint.descents`), as JSON
    whole   instead: why they cannot be parted there, as a clause
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from graphlint import behavior as b
from graphlint import flow
from graphlint.absence import is_never_none
from graphlint.arenas import kinds_of, reads_of, sites_of
from graphlint.cohabitants import (
    asks_of_all,
    beside,
    failures,
    in_common,
    is_of_process,
    newcomers,
    parts_on_way,
    told_apart,
)
from graphlint.descents import NotPartedError, descent, described
from graphlint.edits import Applicability, Fix
from graphlint.effects import Effect
from graphlint.engines import Repetition, has_sibling, joining, releasing_frame, repeated
from graphlint.findings import Precision, Severity, Step, Suspect
from graphlint.paths import Event, Frame, atoms
from graphlint.project import FunctionEntry
from graphlint.readers import cannot_read, keeps_items, owners, reads_within, shares
from graphlint.summaries import Analysis, Site
from graphlint.takings import is_wide
from graphlint.typestate import place_text, step
from graphlint.values import ELEMENT, Place, Test
from graphlint.visiting import visit

if TYPE_CHECKING:
    from graphlint.codemod import Module, Modules
    from graphlint.findings import Finding
    from graphlint.source import Span

_TITLE = "destroy the graphs of all, release once, then erase"
_BY_HAND = "release it once for all of them"
_ANEW = "each new one replaces it"
_SHARED = ("class:", "mod:")
_ALIVE = (Effect.GRAPH_DEATH, Effect.CAPTURE)


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    """Releases of a class's or the process's memory that a method makes for one object among several.

    Some function runs the method for several objects while the graphs of a later one live, or for one beside an object of
    another class that uses the memory, too; or the table keeps the memory under the names of those who use it. The same, of
    what one object has handed to all of them; or a loop resets one graph after another and releases what all share in between.
    """
    best: dict[tuple[str, Span], Suspect] = {}
    runs = repeated(analysis)
    for suspect in (
        *_per_engine(analysis, runs),
        *_beside_others(analysis),
        *_of_one_name(analysis, runs),
        *_handed_to_all(analysis, runs),
        *_of_holder(analysis, runs),
        *_with_item(analysis),
        *_made_anew(analysis, runs),
        *_per_graph(analysis),
        *_with_one(analysis),
        *_again(analysis, runs),
        *_beside_table(analysis),
    ):
        key = (suspect.path, suspect.at)
        if key not in best or len(suspect.trace) < len(best[key].trace):
            best[key] = suspect
    yield from (best[key] for key in sorted(best))


def _per_engine(analysis: Analysis, runs: Mapping[str, tuple[Repetition, ...]]) -> Iterator[Suspect]:
    for root in analysis.roots():
        function = analysis.project.functions[root.function]
        repeated_in = [repetition.root for repetition in runs.get(root.function, ())]
        for repetition in runs.get(root.function, ()):
            if function.owner is None:
                continue
            owns = _owns_graphs(analysis, function.owner, root)
            for site in sites_of(analysis, root):
                event = site.event
                slot = event.node.slot
                is_read = slot in reads_of(analysis, function.owner)
                if not owns and not is_read:
                    continue  # a part of an object that owns graphs releases what these read
                is_variable = isinstance(event.node, b.Touches) and all(len(place) == 2 for place in site.places)
                if site.effect is Effect.WS_RELEASE and slot is not None and is_variable:
                    if not is_read and cannot_read(analysis, function.owner, slot):
                        continue
                if not _is_of_everybody(analysis, root, function.owner, site):
                    continue
                if not _is_of_all(analysis, function, repetition, event):
                    continue
                if not _others_live(analysis, repetition, root.function, event):
                    continue
                yield _suspect(analysis, root, site, repeated_in, repetition)


def _is_of_everybody(analysis: Analysis, root: b.Behavior, owner: str, site: Site) -> bool:
    """Whether an object's own method gives up what belongs to all, with no question who else is there."""
    event = site.event
    if not is_wide(analysis, site) or not _is_own(analysis, owner, event) or _is_last_user(analysis, site):
        return False
    if _is_item_taken(event) and Effect.GRAPH_DEATH not in kinds_of(analysis, root):
        return False  # a table that makes room, not an engine that ends
    if isinstance(event.node, b.Touches) and "storage" in event.node.tags:
        return True  # who has a reference to the tensor loses its memory all the same
    return event.node.slot is None or not keeps_items(analysis, owner, event.node.slot)  # else it is a reference


def _is_own(analysis: Analysis, owner: str, event: Event) -> bool:
    """Whether an object releases for itself: in the method, or in one of a mixin that has no graphs and is told of nowhere else."""
    depth = releasing_frame(event)
    if not depth:
        return depth == 0
    inner = analysis.project.functions[event.stack[depth].function].owner
    if inner in (None, owner) or event.stack[depth].receiver != event.stack[0].receiver:
        return False
    return "graph" not in analysis.owns(inner or "") and not reads_of(analysis, inner or "")


def _beside_others(analysis: Analysis) -> Iterator[Suspect]:
    """Releases that an object makes while an object of another class, whose graphs read the memory, lies beside it."""
    for caller in analysis.roots():
        if not {Effect.WS_RELEASE, Effect.GRAPH_DEATH} <= kinds_of(analysis, caller):
            continue
        for there, name, found in beside(analysis, caller):
            root = analysis.effectful.get(name)
            owner = analysis.project.functions[name].owner
            if root is None or owner is None or not _owns_graphs(analysis, owner, root):
                continue
            for site in sites_of(analysis, root):
                if site.event.node is there.event.node and _is_of_everybody(analysis, root, owner, site):
                    other = found.other.rpartition(".")[2]
                    more = _told(analysis, found.root, found.frame.span, f"the graphs of a `{other}` live on here")
                    whole = f"the graphs of `{other}` read it, too"
                    yield _suspect(
                        analysis, root, site, (), None, holder=_scope(analysis, root, site), whole=whole, more=more
                    )
                    break


def _of_one_name(analysis: Analysis, runs: Mapping[str, tuple[Repetition, ...]]) -> Iterator[Suspect]:
    """Releases of all that a table holds, by one of those whose names tell the entries apart."""
    for root in analysis.roots():
        function = analysis.project.functions[root.function]
        if function.owner is None or root.function in runs or Effect.GRAPH_DEATH not in kinds_of(analysis, root):
            continue
        for site in sites_of(analysis, root):
            slot = site.event.node.slot
            is_table = isinstance(site.event.node, b.Touches) and any(p[0].startswith(_SHARED) for p in site.places)
            graphs = site.effect is Effect.GRAPH_DEATH and is_table
            tables = [each for each in _within(analysis, slot) if each in reads_of(analysis, function.owner)]
            memory = site.effect is Effect.WS_RELEASE and bool(tables)
            if slot is None or not (graphs or memory):
                continue
            if not _is_of_everybody(analysis, root, function.owner, site) or _missing_is_given(
                analysis, function, site
            ):
                continue
            named = next(filter(None, (told_apart(analysis, function.owner, each) for each in (slot, *tables))), None)
            if named is not None and _owns_graphs(analysis, function.owner, root):
                more = _told(analysis, *named, "each has entries of its own there, under its name")
                whole = "each has entries under its own name"
                yield _suspect(
                    analysis, root, site, (), None, holder=_scope(analysis, root, site), whole=whole, more=more
                )


def _within(analysis: Analysis, slot: b.Slot | None) -> Iterator[b.Slot]:
    """A variable or an attribute, and those of the object that it is."""
    if slot is not None:
        yield slot
        for each in analysis.classes_of(slot):
            yield from analysis.slots_of(each)


def _handed_to_all(analysis: Analysis, runs: Mapping[str, tuple[Repetition, ...]]) -> Iterator[Suspect]:
    """Releases of memory of an object that several objects were made with, by one of these."""
    several = _of_several(analysis, runs)
    for root in analysis.roots():
        owner = analysis.project.functions[root.function].owner
        if (
            owner is None
            or root.receiver is None
            or not {Effect.WS_RELEASE, Effect.GRAPH_DEATH} <= kinds_of(analysis, root)
        ):
            continue
        for site in sites_of(analysis, root):
            node, slot = site.event.node, site.event.node.slot
            if site.effect is not Effect.WS_RELEASE or slot is None or not isinstance(node, b.Touches):
                continue
            place = site.places[0] if len(site.places) == 1 else ()
            is_inside = len(place) > 2 or (len(place) == 2 and node.how == "clear")
            if (
                not is_inside
                or node.how == "pop"
                or ELEMENT in place
                or place[0] != f"${root.receiver}"
                or releasing_frame(site.event) is None
            ):
                continue
            if (
                slot not in reads_of(analysis, owner)
                or keeps_items(analysis, owner, slot)
                or _is_last_user(analysis, site)
            ):
                continue
            if any(
                each[:2] == place[:2] and each[: len(place)] != place for g in site.event.guards for each in _asked(g)
            ):
                continue  # it may count its users
            named = next(
                (
                    found
                    for of, name in parts_on_way(analysis, owner, place)
                    if (found := in_common(analysis, of).get(name))
                ),
                None,
            )
            known = runs.get(root.function, ())
            lasting = [each for each in known if _others_live(analysis, each, root.function, site.event)]
            if known and not lasting:
                continue  # the graphs of all died before
            if named is None and any(is_of_process(analysis, *part) for part in parts_on_way(analysis, owner, place)):
                again = not known and Effect.CAPTURE in kinds_of(analysis, root) and owner in several
                others = [several[owner]] if again else lasting
                named = next(((each.root, each.frames[0].span) for each in others), None)
            if named is not None and _owns_graphs(analysis, owner, root):
                more = _told(analysis, *named, "several are made with it here")
                whole = "several objects were made with it"
                yield _suspect(analysis, root, site, (), None, holder="process", whole=whole, more=more)


def _missing_is_given(analysis: Analysis, function: FunctionEntry, site: Site) -> bool:
    """Whether what is released where nobody is named is not: a name is given."""
    places = list(_missing(site.event))
    return any(is_never_none(analysis, function, place) or len(place) == 1 for place in places)


def _of_holder(analysis: Analysis, runs: Mapping[str, tuple[Repetition, ...]]) -> Iterator[Suspect]:
    """Releases of memory that the objects of a collection were handed by the one that holds them all."""
    for name, repetitions in runs.items():
        function = analysis.project.functions[name]
        root = analysis.effectful.get(name)
        if function.owner is None or root is None or not _owns_graphs(analysis, function.owner, root):
            continue
        read = [slot for slot in reads_of(analysis, function.owner) if not keeps_items(analysis, function.owner, slot)]
        for repetition in repetitions:
            for site in sites_of(analysis, analysis.effectful[repetition.root]):
                if site.effect is Effect.WS_RELEASE and site.event.node.slot in read and _is_common(site, name):
                    own = [each for each in sites_of(analysis, root) if each.event.node is site.event.node]
                    if own and _others_live(analysis, repetition, name, own[0].event):
                        holder = (analysis.project.functions[repetition.root].owner or "process").rpartition(".")[2]
                        whole = f"each was handed it by its {holder}"
                        yield _suspect(analysis, root, own[0], (), repetition, holder=holder, whole=whole)


def _with_item(analysis: Analysis) -> Iterator[Suspect]:
    """Releases of memory that the objects of a table use in common, made where one of them is taken out and ends.

    A hub unloads one model and lets go of what those that it keeps read, too.
    """
    for root in analysis.roots():
        if not {Effect.WS_RELEASE, Effect.GRAPH_DEATH} <= kinds_of(analysis, root):
            continue
        sites = sites_of(analysis, root)
        taken = {
            place
            for site in sites
            if isinstance(site.event.node, b.Touches) and site.event.node.how == "pop" and len(site.event.stack) == 1
            for place in site.places
            if not any(loop.function == root.function for loop in site.event.loops)
            and ("atom", "true", place) not in site.event.guards
        }
        for site in sites if taken else ():
            slot = site.event.node.slot
            if site.effect is not Effect.WS_RELEASE or slot is None or not _is_of_no_item(root, site):
                continue
            for death in sites:
                if death.effect is not Effect.GRAPH_DEATH:
                    continue
                tables = [place for place in taken if any(each[: len(place)] == place for each in death.places)]
                if any(at[: len(table)] == table for f in site.event.stack for at in f.receiver for table in tables):
                    continue  # the one that ends does so itself
                if not tables or _asks_who_is_left(site, tables) or _all_end(analysis, sites, root, tables):
                    continue
                if any(
                    slot in reads_of(analysis, owner) and not keeps_items(analysis, owner, slot)
                    for owner in owners(analysis, death)
                ):
                    whole = "it stands where one of them ends"
                    yield _suspect(
                        analysis, root, site, (), None, death, holder=_scope(analysis, root, site), whole=whole
                    )
                    break


def _made_anew(analysis: Analysis, runs: Mapping[str, tuple[Repetition, ...]]) -> Iterator[Suspect]:
    """Memory of a class or the process that each new object replaces: what the older ones' graphs read has no owner then."""
    for owner in analysis.project.classes:
        name = analysis.project.method(owner, "__init__")
        root = analysis.effectful.get(name) if name is not None else None
        if (
            root is None
            or analysis.project.functions[root.function].owner != owner
            or "graph" not in analysis.owns(owner)
        ):
            continue
        repetition = next(iter(runs.get(root.function, ())), None)
        other = joining(analysis, owner) if repetition is None else None
        if repetition is None and other is None:
            continue
        more = _told(analysis, *other, "one more is made here") if other is not None else None
        read = reads_of(analysis, owner)
        writes: dict[b.Slot, list[Event]] = {}

        def see(event: Event, writes: dict[b.Slot, list[Event]] = writes, read: frozenset[b.Slot] = read) -> None:
            node = event.node
            if isinstance(node, b.Touches) and node.how == "write" and node.slot in read and node.slot is not None:
                writes.setdefault(node.slot, []).append(event)

        visit(root, analysis.effectful.get, see)
        for slot, (event, *others) in writes.items():
            if others or not _is_new(event) or keeps_items(analysis, owner, slot) or shares(analysis, owner, slot):
                continue  # it is put back as it was, or the objects themselves hold on to it
            if analysis.holds(slot) & {"memory", "tensor"} and not any(_asked_about(event)):
                site = Site(Effect.WS_REPLACE, event.places, event)
                holder = _scope(analysis, root, site)
                yield _suspect(analysis, root, site, (), repetition, holder=holder, whole=_ANEW, more=more)


def _is_new(event: Event) -> bool:
    """Whether a shared place is given what was made for it."""
    node = event.node
    if not isinstance(node, b.Touches) or not all(place[0].startswith(_SHARED) for place in event.places):
        return False
    if not set(event.places).isdisjoint(event.value_places):
        return False  # it may be what was there
    made = any(len(place) == 1 and place[0].startswith("@") for place in event.value_places)
    return made or bool(node.tags & {"empty", "new", "tensor"})


def _asked_about(event: Event) -> Iterator[Place]:
    """Shared places that the tests around an event ask about: what is there already may stay."""
    for guard in event.guards:
        yield from (place for place in _asked(guard) if place[:1] and place[0].startswith(_SHARED))


def _is_of_no_item(root: b.Behavior, site: Site) -> bool:
    """Whether what is released belongs to the process, or to the object of the function and to nothing that it holds many of."""
    node = site.event.node
    if isinstance(node, b.Touches) and node.how == "pop":
        return False
    return bool(site.places) and all(
        ELEMENT not in place and (place[0].startswith(_SHARED) or place[0] == f"${root.receiver}")
        for place in site.places
    )


def _all_end(analysis: Analysis, sites: Sequence[Site], root: b.Behavior, tables: Sequence[Place]) -> bool:
    """Whether the function ends the graphs of all that are left in a table, too."""
    body = analysis.project.functions[root.function].lowered.flow
    loops = [each for each in flow.statements(body) if isinstance(each, flow.Star) and each.iterable is not None]
    whole = {each.span for each in loops if each.iterable is not None and not flow.is_slice(each.iterable)}
    return any(
        site.effect is Effect.GRAPH_DEATH
        and any(loop.function == root.function and loop.span in whole for loop in site.event.loops)
        and any(place[: len(table)] == table for place in site.places for table in tables)
        for site in sites
    )


def _scope(analysis: Analysis, root: b.Behavior, site: Site) -> str:
    """Whose memory is released: the process's, or a class's, or of the object of the function."""
    kind = site.places[0][0].partition(":")[0]
    owner = analysis.project.functions[root.function].owner or ""
    return {"class": "class", "mod": "process"}.get(kind, owner.rpartition(".")[2] or "process")


def _asks_who_is_left(site: Site, tables: Sequence[Place]) -> bool:
    """Whether a release is made under a test of a table, or of a count, and so perhaps when nobody is left."""
    for guard in site.event.guards:
        match guard:
            case ("atom", "true", _) | ("compare", "in", _, _):
                continue
            case ("not", ("compare", "in", _, _) | ("atom", "none", _)):
                continue
            case ("not", ("atom", "true", place)) if place not in tables and any(place[:1] == t[:1] for t in tables):
                return True
        return True
    return False


def _is_common(site: Site, method: str) -> bool:
    """Whether a method that runs for any of several objects releases what is not of that one: it is the same for all."""
    event = site.event
    runs = [frame.receiver for frame in event.stack if frame.function == method]
    if not runs or not runs[0] or len(site.places) != 1 or ELEMENT not in runs[0][0]:
        return False
    place, receiver = site.places[0], runs[0][0]
    if ELEMENT in place or place[0] != receiver[0] or not place[0].startswith("$") or len(place) < 2:
        return False
    asked = [each for guard in event.guards for each in _asked(guard)]
    return not any(each[:2] == place[:2] and each[: len(place)] != place for each in asked)  # it may count its users


def _asked(test: Test) -> Iterator[Place]:
    """The places that a test asks about, or compares."""
    match test:
        case ("atom", _, place):
            yield place
        case ("compare", _, read, _):
            yield from read
        case ("not" | "and" | "or", *inner):
            for each in inner:
                yield from _asked(each)


def _per_graph(analysis: Analysis) -> Iterator[Suspect]:
    for root in analysis.roots():
        if Effect.GRAPH_DEATH not in root.effects:
            continue
        sites = sites_of(analysis, root)
        deaths = [site for site in sites if site.effect is Effect.GRAPH_DEATH and _is_one_of_many(site)]
        for site in sites:
            loop = _own_loop(site.event)
            if (
                not is_wide(analysis, site)
                or _is_item(site)
                or _goes_by_items(site)
                or loop is None
                or releasing_frame(site.event) not in (0, None)
            ):
                continue
            for death in deaths:
                if death.event.loops[-1:] == (loop,) and len(death.event.stack) == 1:
                    yield _suspect(analysis, root, site, [root.function], None, death)
                    break


def _with_one(analysis: Analysis) -> Iterator[Suspect]:
    """Releases that a function makes itself once it has ended one of several objects that use the memory.

    Either in every round of a loop over all of them, or beside an attribute of its own object that keeps another one.
    """
    for root in analysis.roots():
        if not {Effect.WS_RELEASE, Effect.GRAPH_DEATH} <= kinds_of(analysis, root):
            continue
        sites = sites_of(analysis, root)
        deaths = [site for site in sites if site.effect is Effect.GRAPH_DEATH and len(site.event.stack) > 1]
        for site in sites if deaths else ():
            slot = site.event.node.slot
            if site.effect is not Effect.WS_RELEASE or slot is None or not is_wide(analysis, site):
                continue
            if releasing_frame(site.event) not in (0, None) or any(_asked_about(site.event)):
                continue
            for death in deaths:
                frame = death.event.stack[1]
                owner = analysis.project.functions[frame.function].owner
                if owner is None or len(frame.receiver) != 1 or slot not in reads_of(analysis, owner):
                    continue
                if keeps_items(analysis, owner, slot) or shares(analysis, owner, slot):
                    continue
                mine = frame.receiver[0]
                if any(place[: len(mine)] == mine for place in site.places):
                    continue  # it is of the one that ends
                if _is_round(site, death, frame) or _is_beside(analysis, root, site, deaths, frame):
                    whole = "it stands where one of them ends"
                    holder = _scope(analysis, root, site)
                    yield _suspect(analysis, root, site, (), None, death, holder=holder, whole=whole)
                    break


def _again(analysis: Analysis, runs: Mapping[str, tuple[Repetition, ...]]) -> Iterator[Suspect]:
    """Releases by a method that ends the graphs of its object and captures them again: the others of its class live on."""
    several = _of_several(analysis, runs)
    for root in analysis.roots():
        owner = analysis.project.functions[root.function].owner
        repetition = several.get(owner or "")
        kinds = kinds_of(analysis, root)
        if owner is None or repetition is None or root.function in runs or root.function.endswith(".__init__"):
            continue
        if not {Effect.WS_RELEASE, Effect.GRAPH_DEATH, Effect.CAPTURE} <= kinds or not _owns_graphs(
            analysis, owner, root
        ):
            continue
        for site in sites_of(analysis, root):
            slot = site.event.node.slot
            if site.effect is not Effect.WS_RELEASE or slot is None or slot not in reads_of(analysis, owner):
                continue
            if not _is_of_everybody(analysis, root, owner, site) or any(_asked_about(site.event)):
                continue
            if not shares(analysis, owner, slot):
                frame = repetition.frames[0]
                more = _told(analysis, repetition.root, frame.span, "there are several of the class")
                whole = "the others do not capture again with it"
                holder = _scope(analysis, root, site)
                yield _suspect(analysis, root, site, (), None, holder=holder, whole=whole, more=more)


def _of_several(analysis: Analysis, runs: Mapping[str, tuple[Repetition, ...]]) -> dict[str, Repetition]:
    """By class, where something runs for several of its objects."""
    several: dict[str, Repetition] = {}
    for name, repetitions in runs.items():
        owner = analysis.project.functions[name].owner
        if owner is not None:
            several.setdefault(owner, repetitions[0])
    return several


def _beside_table(analysis: Analysis) -> Iterator[Suspect]:
    """Releases that a function makes where it puts one more object into a table, or where one of a table has failed."""
    for root in analysis.roots():
        if Effect.WS_RELEASE not in kinds_of(analysis, root) or root.function.endswith(".__init__"):
            continue
        sites = sites_of(analysis, root)
        for site in sites:
            slot = site.event.node.slot
            if slot is None or site.effect is not Effect.WS_RELEASE:
                continue
            if not is_wide(analysis, site) and not _is_of_no_item(root, site):
                continue
            users = (analysis.project.functions[frame.function].owner for frame in site.event.stack[1:])
            if any("graph" in analysis.owns(user) for user in users if user is not None):
                continue  # one of them does it
            for table in (*newcomers(analysis, root), *failures(analysis, root, site.event.stack[0].span)):
                read = reads_within(analysis, table.of) | reads_of(analysis, table.of)
                if slot not in read or _all_may_end(sites, table.place):
                    continue
                if keeps_items(analysis, table.of, slot) or shares(analysis, table.of, slot):
                    continue
                if any(map(partial(_asks_about_users, table.place), site.event.guards)):
                    continue
                more = _told(analysis, root.function, table.span, "the others of the table live on here")
                holder = _scope(analysis, root, site)
                yield _suspect(analysis, root, site, (), None, holder=holder, whole=table.why, more=more)
                break


def _all_may_end(sites: Sequence[Site], table: Place) -> bool:
    """Whether a function ends the graphs of more than one object of a table."""
    return any(
        site.effect is Effect.GRAPH_DEATH
        and place[: len(table)] == table
        and (bool(site.event.loops) or not isinstance(site.event.node, b.Touches) or site.event.node.how != "pop")
        and not (len(place) > len(table) and not site.event.loops)
        for site in sites
        for place in site.places
    )


def _asks_about_users(table: Place, guard: Test) -> bool:
    """Whether a test asks about a table, other than for a name in it, or about what all share: perhaps who is there."""
    match guard:
        case ("compare", "in", _, _) | ("not", ("compare", "in", _, _)):
            return False
    return any(each[: len(table)] == table or (each[:1] and each[0].startswith(_SHARED)) for each in _asked(guard))


def _is_round(site: Site, death: Site, frame: Frame) -> bool:
    """Whether each round of a loop over objects ends one of them, and releases."""
    loop = _own_loop(site.event)
    return loop is not None and loop in death.event.loops and ELEMENT in frame.receiver[0]


def _is_beside(analysis: Analysis, root: b.Behavior, site: Site, deaths: Sequence[Site], frame: Frame) -> bool:
    """Whether an attribute keeps another object of the kind that ends, in one or made here, and the function ends none but this one."""
    ended = {each.event.stack[1].receiver for each in deaths}
    mine = frame.receiver[0]
    is_own = (len(mine) == 2 and mine[0] == f"${root.receiver}") or (len(mine) == 1 and mine[0][0] == "@")
    return (
        is_own
        and ended == {(mine,)}
        and not site.event.guards
        and has_sibling(analysis, root.function, frame.function, mine)
    )


def _own_loop(event: Event) -> Frame | None:
    """The innermost loop of the function itself around what happens."""
    own = [loop for loop in event.loops if loop.function == event.stack[0].function]
    return next((loop for loop in reversed(own) if loop.span.contains(event.stack[0].span)), None)


def _is_item(site: Site) -> bool:
    """Whether one graph of those in a shared table dies, which is no release of them all."""
    return site.effect is Effect.GRAPH_DEATH and all(ELEMENT in place for place in site.places)


def _goes_by_items(site: Site) -> bool:
    """Whether each round of a loop takes one item out of a table."""
    node = site.event.node
    return isinstance(node, b.Touches) and (node.how == "pop" or (node.how == "clear" and node.key is not None))


def _is_one_of_many(site: Site) -> bool:
    node = site.event.node
    return isinstance(node, b.Happens) and any(ELEMENT in place or place[0].startswith("@") for place in site.places)


def _owns_graphs(analysis: Analysis, owner: str, root: b.Behavior) -> bool:
    """Whether the object holds graphs, or a method of it captures, is said to, or lets something capture."""
    if "graph" in analysis.owns(owner):
        return True
    methods = {name for each in analysis.project.mro(owner) for name in _methods(analysis, each)}
    return any(
        Effect.CAPTURE in kinds or Effect.GRAPH_DEATH in kinds
        for key, kinds in analysis.kinds.items()
        if key.partition("|")[0] in methods and key != root.key
    )


def _methods(analysis: Analysis, owner: str) -> tuple[str, ...]:
    entry = analysis.project.classes.get(owner)
    return tuple(entry.methods.values()) if entry is not None else ()


def _is_last_user(analysis: Analysis, site: Site) -> bool:
    """Whether a test around the release asks who else is there, or which of the objects this one is.

    How many there are of one kind says nothing of those whose memory goes with it: `if users[key] == 0: table.clear()`.
    """
    node = site.event.node
    is_whole = (
        isinstance(node, b.Touches) and node.how == "clear" and not any(ELEMENT in place for place in site.places)
    )
    for guard in site.event.guards:
        for kind, place in atoms(guard):
            if (is_whole and ELEMENT in place) or (kind == "none" and _is_of_item(site, place)):
                continue
            if kind == "true" and _is_list_of_users(analysis, site, place):
                return True
            if place[0].startswith(_SHARED) and not any(
                place[: len(p)] == p or p[: len(place)] == place for p in site.places
            ):
                return True
            if kind == "true" and place[0].startswith("$") and _is_flag(analysis, site.event, place):
                return True
    return asks_of_all(analysis, site.event)


def _is_list_of_users(analysis: Analysis, site: Site, place: Place) -> bool:
    """Whether a place is a container of the object that is given up: `if not cls.slab.leases: cls.slab = None`."""
    slot = site.event.node.slot
    if slot is None or not any(place[:-1] == each for each in site.places):
        return False
    kinds = [t.name for t in analysis.behaviors.field_types(*slot)]
    return any(analysis.is_container((kind, place[-1])) for kind in kinds)


def _is_of_item(site: Site, place: Place) -> bool:
    """Whether a place is an attribute of an item of which another attribute is released: what it says is how the item is."""
    item = place[:-1]
    return item[-1:] == (ELEMENT,) and any(each[: len(item)] == item for each in site.places)


def _is_of_all(analysis: Analysis, function: FunctionEntry, repetition: Repetition, event: Event) -> bool:
    """Whether what is released if nobody is named, `release(owner=None)`, is: no name is given, there and where it is run."""
    if any(is_never_none(analysis, function, place) for place in _missing(event)):
        return False
    if not any(len(place) == 1 and place[0].startswith("$") for place in _missing(event)):
        return True
    caller = analysis.project.functions[repetition.root]
    return any(
        not any(is_never_none(analysis, caller, place) for place in _missing(site.event))
        for site in sites_of(analysis, analysis.effectful[repetition.root])
        if site.event.node is event.node
    )


def _missing(event: Event) -> Iterator[Place]:
    """Places that have to be None for something to happen to all."""
    waiting = list(event.guards)
    while waiting:
        match waiting.pop():
            case ("atom", "none", place) if place:
                yield place
            case ("or", ("atom", "none", place), ("compare", "==", read, _)) if place in read:
                yield place  # of those under other names it does not happen
            case ("and", *inner):
                waiting += inner


def _is_flag(analysis: Analysis, event: Event, place: Place) -> bool:
    """Whether a place says for good which of the objects one is: only its constructor sets it."""
    owner = analysis.project.functions[event.stack[0].function].owner
    if owner is None or len(place) != 2:
        return False
    return any(t.name == "bool" for t in analysis.behaviors.field_types(owner, place[1])) and not any(
        isinstance(node, b.Touches) and node.slot == (owner, place[1]) and node.how == "write"
        for behavior in analysis.effectful.values()
        if not behavior.function.endswith(".__init__")
        for node in b.walk(behavior.node)
    )


def _others_live(analysis: Analysis, repetition: Repetition, method: str, release: Event) -> bool:
    """Whether another object's graphs can live when one of the runs releases.

    They do unless all of them died in an earlier loop or an earlier call of the same function.
    """
    root = analysis.effectful[repetition.root]
    sites = sites_of(analysis, root)
    runs = [
        index
        for index, site in enumerate(sites)
        if site.event.node is release.node and any(frame.function == method for frame in site.event.stack)
    ]
    if not runs:
        return True
    first = sites[runs[0]].event
    before = [site for site in sites[: runs[0]] if site.effect is Effect.GRAPH_DEATH and not _is_one_taken(site.event)]
    earlier = [
        site for site in before if site.event.stack[0] != first.stack[0] and site.event.loops[:1] != first.loops[:1]
    ]
    later = [site for site in sites[runs[0] :] if site.effect in _ALIVE]
    return not earlier or any(site.effect is Effect.CAPTURE for site in later)


def _is_item_taken(event: Event) -> bool:
    """Whether items are taken out of a table one by one."""
    return isinstance(event.node, b.Touches) and event.node.how == "pop"


def _is_one_taken(event: Event) -> bool:
    """Whether one object is taken out of a table, and those that stay there live on."""
    return isinstance(event.node, b.Touches) and event.node.how == "pop" and not event.loops


def _suspect(
    analysis: Analysis,
    root: b.Behavior,
    site: Site,
    repeated_in: Sequence[str],
    repetition: Repetition | None,
    death: Site | None = None,
    holder: str = "",
    whole: str = "",
    more: tuple[Step, str] | None = None,
) -> Suspect:
    function = analysis.project.functions[root.function]
    module = function.module
    event = site.event._replace(effect=site.effect)
    node = event.node
    by_name = isinstance(node, b.Happens) and node.by_name
    steps: list[Step] = [step(analysis, event, 0)]
    if len(event.stack) > 1:
        steps.append(step(analysis, event, len(event.stack) - 1))
    loop = ""
    if repetition is not None:
        caller = analysis.project.functions[repetition.root].module.source
        for frame in dict.fromkeys(repetition.frames):
            text = " ".join(caller.text(frame.span).split())[:60]
            steps.append(Step(caller.path, frame.span, "per_engine", f"it runs for each of several objects: {text}"))
            loop = f"{caller.path}:{caller.row(frame.span.start)}"
    elif death is not None:
        steps.insert(0, step(analysis, death.event._replace(effect=death.effect), 0))
        if event.loops:
            loop = f"{module.source.path}:{module.source.row(event.loops[-1].span.start)}"
    if more is not None:
        steps.append(more[0])
        loop = more[1]
    what = place_text(site.places[0], analysis, root) if site.places else ""
    if not what:
        what = node.label if isinstance(node, b.Happens) else "memory"
    values = {
        "place": what,
        "loop": loop,
        "scope": "class" if what and site.places and site.places[0][0].startswith("class:") else "process",
    }
    if holder:
        values |= {"scope": holder, "whole": whole}
    try:
        if not holder:
            values["ways"] = described(descent(analysis, root.function, site.event, repeated_in))
    except NotPartedError as error:
        values["whole"] = str(error)
    return Suspect(
        "shared-release",
        module.source.path,
        function.facts.span,
        event.stack[0].span,
        tuple(steps[:8]),
        values,
        Severity.NOTE if _is_of_each(site) else Severity.WARNING if by_name else None,
        Precision.MEDIUM if by_name else None,
    )


def _told(analysis: Analysis, function: str, span: Span, message: str) -> tuple[Step, str]:
    """A step in a function that says who else there is, and `path:row` of it."""
    source = analysis.project.functions[function].module.source
    return Step(source.path, span, "per_engine", message), f"{source.path}:{source.row(span.start)}"


def _is_of_each(site: Site) -> bool:
    """Whether every object of a table loses its own graphs: who looks for them again may capture them again."""
    return site.effect is Effect.GRAPH_DEATH and isinstance(site.event.node, b.Touches) and _is_item(site)


def confirm(suspect: Suspect, module: Module) -> Finding | None:
    """The finding, unless the reported place is no statement any more."""
    from graphlint.codemod import confirmed

    if module.tree(suspect.function).statement(suspect.at) is None:
        return None
    return confirmed(suspect, module)


def fix(finding: Finding, modules: Modules) -> Fix | None:
    """Part the teardown of one engine at the release, and let who runs it for several do it in three rounds."""
    from graphlint.codemod import PartingError, once_for_all

    reason = finding.values.get("whole")
    if reason is None:
        if "ways" not in finding.values:
            return None
        try:
            edits, conditions = once_for_all(finding.values["ways"], modules)
        except PartingError as error:
            reason = str(error)
        else:
            return Fix(_TITLE, Applicability.UNSAFE, edits, conditions)
    return Fix(_BY_HAND, Applicability.SUGGEST, (), (f"this is left to the author: {reason}",))
