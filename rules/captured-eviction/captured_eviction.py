"""Reports caches of a bounded size whose entries a graph can read after they are gone.

A replay asks no cache for anything: what a graph reads is what is asked for least, and goes first.

A suspect's values:

    place     the cache, as the message names it
    cache     its name
    store     `start-end` of the statement, in the same file, that puts a new entry there; absent: there are several
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from graphlint import behavior as b
from graphlint import codemod, flow
from graphlint.behavior import Behavior
from graphlint.edits import Applicability, Fix
from graphlint.effects import Effect
from graphlint.facts import MODULE
from graphlint.findings import Finding, Precision, Severity, Step, Suspect
from graphlint.keeping import Runs, Store, puts, read_by, related, stores
from graphlint.paths import Event
from graphlint.project import BOUNDED, FunctionEntry
from graphlint.source import Span
from graphlint.summaries import Analysis, Site
from graphlint.typestate import place_text, step
from graphlint.values import (
    ELEMENT,
    MEMO,
    MODULE_CLASS,
    Place,
    Test,
    asks_capture,
    excludes_capture,
    flat,
    implies_capture,
)
from graphlint.visiting import visit

_TEST = "torch.cuda.is_current_stream_capturing"
_FEW = ("device", "device_index", "dtype", "stream")
"""Parameters that have few values in a process: a function of these alone makes no entry go."""
_GIVES = ("pop", "drop", "clear")
_MOST_HOPS = 4
"""Most calls between who makes an entry and who puts it away."""
_PRESSURE = ("mem_get_info", "memory_allocated", "memory_reserved")


@dataclass(frozen=True)
class Eviction:
    """Where a cache that is full gives entries up."""

    root: Behavior
    event: Event
    place: Place
    slot: b.Slot | None
    """The attribute or variable that the cache is kept in."""


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    """Evictions from caches of device memory, and of graphs that share a pool."""
    found = stores(analysis)
    runs = Runs(analysis, found)
    captures = any(Effect.CAPTURE in kinds for kinds in analysis.kinds.values())
    best: dict[tuple[str, Span], Suspect] = {}
    for eviction in _evictions(analysis, runs):
        if _share_pool(analysis, eviction):
            suspect = _suspect(analysis, eviction, Precision.MEDIUM)
            # names alone say that these are graphs, or the pool goes with the last of them: somebody has thought of it
            if "graph" not in analysis.holds(eviction.slot) or _retires_pool(eviction):
                suspect = replace(suspect, severity=Severity.NOTE)
        else:
            same = _same(analysis, eviction.slot) if eviction.slot is not None else frozenset()
            mine = [store for store in found if store.node.slot in same and store.node.how == "add"]
            if not mine and _is_read(analysis, eviction.slot):
                mine = [store for slot in sorted(same) for store in puts(analysis, slot)]
            if not mine or _is_in_order(analysis, runs, eviction, mine):
                continue
            suspect = _suspect(analysis, eviction, _precision(analysis, eviction, mine, captures=captures), mine)
            if any(_is_set_aside(analysis, runs, store.function) for store in mine):
                suspect = replace(suspect, severity=Severity.NOTE)
        best.setdefault((suspect.path, suspect.at), suspect)
    for suspect in _bounded(analysis, runs, found, captures=captures):
        best.setdefault((suspect.path, suspect.at), suspect)
    for store in found:
        if store.is_memo and (memo := _memo(analysis, runs, store, captures=captures)) is not None:
            best.setdefault((memo.path, memo.at), memo)
    for memo in _memos_of_launches(analysis, captures=captures):
        best.setdefault((memo.path, memo.at), memo)
    yield from (best[place] for place in sorted(best))


# ----------------------------------------------------------------------------------------------------------- evictions


def _evictions(analysis: Analysis, runs: Runs) -> Iterator[Eviction]:
    """Items taken out of a container because it holds too many."""
    roots = {root.key: root for root in analysis.roots()}
    for root in (*roots.values(), *(each for each in _giving(analysis) if each.key not in roots)):
        whole = analysis.behaviors.built(root.key) or root
        events: list[Event] = []
        visit(whole, lambda _: None, events.append)
        for event in events:
            node = event.node
            if not isinstance(node, b.Touches) or not event.places or not (node.how in _GIVES or _is_cut(event)):
                continue
            slot = (
                node.slot or _slot_given(analysis, root, event.places[0]) or _slot_of(analysis, root, event.places[0])
            )
            held = analysis.holds(slot)
            if node.how not in ("pop", "drop") and "graph" in held:
                continue
            if not held & {"fresh", "tensor", "graph"} and not _is_read(analysis, slot):
                continue
            if _is_bounded(analysis, event, slot):
                yield Eviction(root, event, event.places[0], slot)
            elif node.how in ("pop", "drop"):
                full = next(_full_for_callers(runs, root, event), None)
                if full is not None:
                    yield Eviction(root, event, full.places[0], slot)


def _is_bounded(analysis: Analysis, event: Event, slot: b.Slot | None) -> bool:
    """Whether the function itself gives the entry up because there are too many, or because it is too old."""
    node = event.node
    taken = isinstance(node, b.Touches) and node.how == "pop"
    return (
        any(_is_full(test, event.places[0], taken=taken) for test in event.guards)
        or (isinstance(node, b.Touches) and node.how in ("pop", "drop") and _is_left_over(analysis, event, slot))
        or (_is_read(analysis, slot) and _is_short_of_memory(analysis, event))
    )


def _is_read(analysis: Analysis, slot: b.Slot | None) -> bool:
    """Whether captured code reads a container of what is device memory, as its types say: whoever made it."""
    if slot is None or slot not in _captured_reads(analysis) or "graph" in analysis.holds(slot):
        return False
    return bool(analysis.holds(slot) & {"declared", "memory", "tensor"}) or _is_of_modules(analysis, slot)


def _is_of_modules(analysis: Analysis, slot: b.Slot) -> bool:
    """Whether a container holds modules of torch, whose weights are device memory."""
    types = analysis.behaviors.field_types(*slot) if slot[0] in analysis.project.classes else ()
    return any(t.name != MODULE_CLASS and MODULE_CLASS in analysis.project.mro(t.name) for t in flat(types))


def _captured_reads(analysis: Analysis) -> frozenset[b.Slot]:
    key = "captured reads", ""
    if key not in analysis.known:
        analysis.known[key] = frozenset[b.Slot]().union(*analysis.captured_reads.values())
    found: frozenset[b.Slot] = analysis.known[key]
    return found


def _giving(analysis: Analysis) -> Iterator[Behavior]:
    """Functions that take items out of a container which captured code reads."""
    for each in analysis.behaviors.all() if analysis.captured_reads else ():
        if "|" not in each.key and not each.key.endswith(MODULE):
            nodes = (node for node in each.nodes if isinstance(node, b.Touches) and node.how in _GIVES)
            if any(_is_read(analysis, node.slot or _slot_of(analysis, each, *node.places[:1])) for node in nodes):
                yield each


def _is_cut(event: Event) -> bool:
    """Whether a container gives way to a part of it."""
    node = event.node
    if not isinstance(node, b.Touches) or node.how != "write" or node.tags & {"none", "empty"}:
        return False
    place = event.places[0]
    return len(place) > 1 and any(each[: len(place)] == place for each in event.value_places)


def _slot_given(analysis: Analysis, root: Behavior, place: Place) -> b.Slot | None:
    """The attribute or variable whose container a function is handed, where all who call it hand it the same."""
    given = analysis.behaviors.slots_given.get((root.function, place[0][1:]), set()) if len(place) == 1 else set()
    return next(iter(given)) if len(given) == 1 else None


def _slot_of(analysis: Analysis, root: Behavior, place: Place = ()) -> b.Slot | None:
    """The attribute or variable that holds the object at hand, which is a container itself, where there is only one."""
    owner = analysis.project.functions[root.function].owner
    if owner is None or place != (f"${root.receiver}",):
        return None
    held = [slot for slot, notes in analysis.behaviors.slots.items() if owner in notes.types]
    return held[0] if len(held) == 1 else None


def _is_left_over(analysis: Analysis, event: Event, slot: b.Slot | None) -> bool:
    """Whether a loop takes out the entries that a bound leaves over: those that a comparison chose, or a number of them."""
    body = analysis.project.functions[event.stack[-1].function].lowered.flow
    name = event.places[0][-1]
    loops = [
        each for each in flow.statements(body) if isinstance(each, flow.Star) and each.span.contains(event.node.span)
    ]
    for expr in (part for loop in loops if loop.iterable is not None for part in _written_out(loop.iterable, body)):
        match expr:
            case flow.Item(base=base, key=flow.Op(op="Slice", operands=(_, *_)) as key) if name in _names(base):
                return not _is_behind_a_mark(analysis, event, base, key)
            case flow.Call(callee=flow.Name(id="range"), args=args) if any(name in _names(arg) for arg in args):
                return True
            case flow.Each(iterable=iterable, tests=tests) if _is_read(analysis, slot):
                owner = slot[0] if slot is not None else ""
                beside = any((owner, each) in analysis.behaviors.slots for each in _names(iterable))
                if beside and any(map(_is_of_degree, tests)):
                    return True
    return False


def _is_behind_a_mark(analysis: Analysis, event: Event, whole: flow.Expr, key: flow.Op) -> bool:
    """Whether a caller says behind which entry all are given up, in the order in which they came: he takes back his own."""
    function = analysis.project.functions[event.stack[-1].function]
    is_sorted = isinstance(whole, flow.Call) and flow.last_name(whole) not in ("list", "tuple", "keys")
    text = function.module.source.text(key.span)
    match key.operands:
        case [flow.Name(id=start)] if text.rstrip().endswith(":") and not is_sorted:
            return start in {param.name for param in function.facts.params}
    return False


def _is_short_of_memory(analysis: Analysis, event: Event) -> bool:
    """Whether an entry goes because the device has little memory left."""
    body = analysis.project.functions[event.stack[-1].function].lowered.flow
    tests = [
        each.test
        for each in flow.statements(body)
        if isinstance(each, flow.Alt | flow.Star) and each.test is not None and each.span.contains(event.node.span)
    ]
    return any(
        isinstance(part, flow.Call) and flow.last_name(part) in _PRESSURE
        for test in tests
        for part in _written_out(test, body)
    )


def _written_out(expr: flow.Expr, body: flow.Flow) -> Iterator[flow.Expr]:
    """An expression with its parts, and those of what local variables in it were given."""
    seen: set[str] = set()
    waiting = [expr]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += flow.subexpressions(each)
        if isinstance(each, flow.Name) and each.id not in seen:
            seen.add(each.id)
            waiting += [
                bind.value
                for bind in flow.statements(body)
                if isinstance(bind, flow.Bind) and bind.value is not None and each.id in _bound(bind.target)
            ]


def _bound(target: flow.Expr) -> set[str]:
    """Variables that a statement gives something."""
    items = target.items if isinstance(target, flow.Group) else (target,)
    return {each.id for each in items if isinstance(each, flow.Name)}


def _names(expr: flow.Expr) -> set[str]:
    """Attributes and variables that an expression speaks of."""
    found = {expr.name} if isinstance(expr, flow.Attr) else {expr.id} if isinstance(expr, flow.Name) else set[str]()
    return found.union(*map(_names, flow.subexpressions(expr)))


def _is_of_degree(test: flow.Expr) -> bool:
    """Whether a test compares by order, and with something else than nothing."""
    match test:
        case flow.Op(op="<" | ">" | "<=" | ">=", operands=operands):
            return not any(isinstance(each, flow.Lit) and each.value in (0, None) for each in operands)
        case flow.Op(op="and" | "or" | "not", operands=operands):
            return any(map(_is_of_degree, operands))
    return False


def _full_for_callers(runs: Runs, root: Behavior, event: Event) -> Iterator[Event]:
    """What a function does that lets an entry go, in its callers that call it where the container holds too many."""
    found: list[Event] = []
    for caller in runs.callers(root.function):
        visit(caller, lambda key: root if key == root.key else None, found.append)
    for each in found:
        if each.node is event.node and each.places:
            if any(_is_full(test, each.places[0], taken=True) for test in each.guards):
                yield each


def _bounded(analysis: Analysis, runs: Runs, found: Sequence[Store], *, captures: bool) -> Iterator[Suspect]:
    """Containers that are made for so many items, and let one go for each that comes then."""
    slots = {store.node.slot for store in found if store.node.slot is not None and store.node.how == "add"}
    for slot in sorted(slots | {slot for slot in _captured_reads(analysis) if _is_read(analysis, slot)}):
        made = next(_making(analysis, slot), None)
        if made is None:
            continue
        mine = [store for store in found if store.node.slot == slot and store.node.how == "add"]
        mine = mine or list(puts(analysis, slot))
        if not mine:
            continue
        eviction = Eviction(mine[0].root, mine[0].event, mine[0].event.places[0], slot)
        if _is_in_order(analysis, runs, eviction, mine):
            continue
        entry, span = made
        path = entry.module.source.path
        text = " ".join(entry.module.source.text(span).split())[:60]
        kept = step(analysis, mine[0].event._replace(effect=Effect.WS_ALLOC), 0)
        goes = Step(path, span, Effect.WS_RELEASE.value, f"the oldest goes where there are too many: {text}")
        values = {"place": place_text(eviction.place, analysis, eviction.root), "cache": eviction.place[-1]}
        precision = _precision(analysis, eviction, mine, captures=captures)
        yield Suspect("captured-eviction", path, entry.facts.span, span, (kept, goes), values, None, precision)


def _making(analysis: Analysis, slot: b.Slot) -> Iterator[tuple[FunctionEntry, Span]]:
    """Where an attribute or variable is given a container with a bound."""
    owner, name = slot
    project = analysis.project
    given: list[tuple[FunctionEntry, flow.Expr]] = []
    if owner.startswith("mod:") and owner[4:] in project.modules:
        top = project.functions[f"{owner[4:]}.{MODULE}"]
        given += [(top, bind.value) for bind in top.module.variables.get(name, ()) if bind.value is not None]
    elif owner in project.classes:
        bound = analysis.behaviors.field_bindings(owner).get(name, ())
        given += [(entry, value) for entry, value, how in bound if how == "set"]
        attribute = project.classes[owner].attributes.get(name)
        if attribute is not None and attribute.value is not None:
            module = project.classes[owner].module
            given.append((project.functions[f"{module.name}.{MODULE}"], attribute.value))
    for entry, value in given:
        if isinstance(value, flow.Call) and _has_bound(value):
            dotted = project.dotted(entry.module, value.callee)
            if dotted is None or project.resolve(dotted).name not in project.classes:
                yield entry, value.span


def _has_bound(call: flow.Call) -> bool:
    """Whether a call makes a container that holds so many items and no more."""
    name = flow.last_name(call)
    if name in BOUNDED:
        return True
    given = [value for word, value in call.keywords if word == "maxlen"] or list(call.args[1:2])
    return name == "deque" and bool(given) and not (isinstance(given[0], flow.Lit) and given[0].value is None)


def _same(analysis: Analysis, slot: b.Slot) -> frozenset[b.Slot]:
    """Attributes and variables that hold the same container as one does."""
    known = analysis.known.get(("same containers", "\0".join(slot)))
    if known is None:
        slots = analysis.behaviors.slots
        found = {slot}
        waiting = [slot]
        while waiting:
            one = waiting.pop()
            sources = slots[one].sources if one in slots else set()
            linked = {each for each in sources if each[0] == one[0]}
            linked |= {each for each, notes in slots.items() if each[0] == one[0] and one in notes.sources}
            for each in sorted(linked - found):
                if analysis.is_container(one) and analysis.is_container(each):
                    found.add(each)
                    waiting.append(each)
        known = analysis.known["same containers", "\0".join(slot)] = frozenset(found)
    return known


def _is_full(test: Test, place: Place, *, taken: bool) -> bool:
    """Whether a test compares how much a container, or one beside it, holds."""
    match test:
        case ("compare", "<" | ">" | "<=" | ">=", read, _):
            of_items = len(read) > 1 and any(each[: len(place) + 1] == (*place, ELEMENT) for each in read)
            near = [each for each in read if len(place) > 1 and each[: len(place) - 1] == place[:-1] != each[:-1]]
            noted = taken and any(len(read) > 1 or (each[-1] == ELEMENT and test[1] in ("<", ">")) for each in near)
            return (
                of_items or noted or any(each == place or (each[:-1] == place[:-1] and len(each) > 1) for each in read)
            )
        case ("compare", "==", read, _):  # `len(cache) == limit`
            beside = taken and all(each[:-1] == place[:-1] for each in read)
            return len(read) > 1 and (place in read or beside)
        case ("not" | "and" | "or", *inner):
            return any(_is_full(each, place, taken=taken) for each in inner)
    return False


def _share_pool(analysis: Analysis, eviction: Eviction) -> bool:
    """Whether the container holds graphs, and its owner captures them into one pool."""
    if eviction.slot is None:
        return False
    owner = eviction.slot[0]
    if "graph" not in analysis.holds(eviction.slot):
        return _holds_graphs_by_name(analysis, eviction.slot) and _keeps_pool(analysis, owner)
    for root in analysis.roots():
        function = analysis.project.functions[root.function]
        if owner not in (function.owner, f"mod:{function.module.name}"):
            continue
        if any(map(_is_into_shared_pool, analysis.sites(root))):
            return True
    return False


def _retires_pool(eviction: Eviction) -> bool:
    """Whether the function that evicts also gives the handle of a pool up, where no graph is left."""
    return any(
        isinstance(node, b.Touches) and node.how == "write" and "none" in node.tags and node.slot != eviction.slot
        and node.slot is not None and "pool" in node.slot[1].lower()
        for node in eviction.root.nodes
    )  # fmt: skip


def _holds_graphs_by_name(analysis: Analysis, slot: b.Slot) -> bool:
    """Whether the records in a container have an attribute whose class is named after graphs."""
    notes = analysis.behaviors.slots.get(slot)
    for record in notes.types if notes is not None else ():
        entry = analysis.project.classes.get(record)
        for name in entry.attributes if entry is not None else ():
            types = analysis.behaviors.field_types(record, name)
            if any(analysis.vocabulary.names.is_graph(t.name.rpartition(".")[2]) for t in types):
                return True
    return False


def _keeps_pool(analysis: Analysis, owner: str) -> bool:
    return any(slot[0] == owner and "pool" in notes.tags for slot, notes in analysis.behaviors.slots.items())


# ----------------------------------------------------------------------------------------------------- what is in order


def _neighbours(analysis: Analysis, eviction: Eviction) -> Iterator[Behavior]:
    """Functions of the class, or of the module, that keeps the cache."""
    owner = eviction.slot[0] if eviction.slot is not None else ""
    for each in analysis.behaviors.all():
        function = analysis.project.functions[each.function]
        if "|" not in each.key and owner in (function.owner, f"mod:{function.module.name}"):
            yield each


def _is_in_order(analysis: Analysis, runs: Runs, eviction: Eviction, mine: Sequence[Store]) -> bool:
    """Whether no graph is left with the address of an entry that is gone."""
    return (
        all(_is_bypassed(analysis, each) for each in mine)
        or _is_spared(analysis, eviction)
        or _leaves_out_users(analysis, eviction, mine)
        or _is_kept_by_captures(analysis, eviction, mine)
        or runs.follows_graph_death(eviction.root, eviction.event.stack[0].span)
    )


def _leaves_out_users(analysis: Analysis, eviction: Eviction, mine: Sequence[Store]) -> bool:
    """Whether what somebody has put aside is not evicted, or is given instead: beside the cache, they are listed."""
    beside = eviction.place[:-1]
    absent = {
        place
        for guards in (eviction.event.guards, *(store.event.guards for store in mine))
        for guard in guards
        for place in _absent_from(guard)
        if len(place) > 1 and place[:-1] == beside and place != eviction.place
    }
    function = analysis.project.functions[eviction.root.function]
    names = {place[-1] for place in absent} | {
        name
        for statement in flow.statements(function.lowered.flow)
        for expr in flow.expressions(statement)
        if isinstance(expr, flow.Each)
        for test in expr.tests
        for name in _lists(test)
        if name != eviction.place[-1]
    }
    names |= {
        name
        for statement in flow.statements(function.lowered.flow)
        for expr in flow.expressions(statement)
        for part in flow.parts(expr)
        for name in _taken_off(part, eviction.place[-1])
    }
    return any(_is_filled_by_users(analysis, eviction, name, mine) for name in sorted(names))


def _taken_off(expr: flow.Expr, cache: str) -> Iterator[str]:
    """Attributes and variables whose items are taken off the keys of a cache: `self.table.keys() - self.pinned`."""
    match expr:
        case (
            flow.Op(op="-", operands=(whole, flow.Attr(name=name) | flow.Name(id=name)))
            | flow.Call(
                callee=flow.Attr(base=whole, name="difference"), args=(flow.Attr(name=name) | flow.Name(id=name),)
            )
        ) if cache in _names(whole):
            yield name


def _absent_from(test: Test) -> Iterator[Place]:
    """Containers that something is not in where a test is true."""
    match test:
        case ("not", ("compare", "in", read, _)):
            yield from read
        case ("not", ("or", *inner)):
            for each in inner:
                yield from _absent_from(("not", each))
        case ("and", *inner):
            for each in inner:
                yield from _absent_from(each)


def _lists(test: flow.Expr) -> Iterator[str]:
    """Attributes and variables that a test asks for not having something."""
    match test:
        case flow.Op(op="not in", operands=(_, flow.Attr(name=name) | flow.Name(id=name))):
            yield name
        case flow.Op(op="and", operands=operands):
            for each in operands:
                yield from _lists(each)


def _is_filled_by_users(analysis: Analysis, eviction: Eviction, name: str, mine: Sequence[Store]) -> bool:
    """Whether somebody puts into a container beside the cache what he wants to stay: not whoever makes entries, always."""
    if eviction.slot is not None and _is_given(analysis, (eviction.slot[0], name)):
        return True
    makers = {store.function for store in mine}
    found: list[Event] = []
    for each in _neighbours(analysis, eviction):
        if each.function == eviction.root.function:
            continue
        if any(isinstance(node, b.Touches) and node.how == "add" and node.slot is not None and node.slot[1] == name
               for node in each.nodes):  # fmt: skip
            seen: list[Event] = []
            visit(each, lambda _: None, seen.append)
            found += [event for event in seen if each.function not in makers or _is_asked_for(event, eviction)]
    return any(
        isinstance(event.node, b.Touches) and event.node.how == "add" and any(p[-1] == name for p in event.places)
        for event in found
    )


def _is_given(analysis: Analysis, slot: b.Slot) -> bool:
    """Whether an attribute is what whoever makes the object says."""
    owner, name = slot
    return owner in analysis.project.classes and any(
        param.name in _names(value)
        for entry, value, how in analysis.behaviors.field_bindings(owner).get(name, ())
        if how == "set" and entry.facts.name == "__init__"
        for param in entry.facts.params[1:]
    )


def _is_asked_for(event: Event, eviction: Eviction) -> bool:
    """Whether something other than what the cache has decides that an event happens."""
    return any(
        not any(related(place, eviction.place) for place in read_by(guard)) or asks_capture(guard)
        for guard in event.guards
    )


def _is_spared(analysis: Analysis, eviction: Eviction) -> bool:
    """Whether what a capture was given is marked, or kept elsewhere, or whether all that is evicted is."""
    attribute = eviction.place[-1]
    spared = False

    def see(event: Event) -> None:
        nonlocal spared
        node = event.node
        captured = any(implies_capture(guard) for guard in event.guards)
        if captured and isinstance(node, b.Touches) and node.how == "pop":  # it leaves the order in which they go
            beside = eviction.place[:-1]
            spared = spared or any(place[:-1] == beside and place != eviction.place for place in event.places)
        if not isinstance(node, b.Touches) or node.how not in ("write", "add"):
            return
        marks = node.how == "write" and any(attribute in place[:-1] for place in event.places)
        keeps = any(attribute in place for place in event.value_places) and not any(
            place[-1] == attribute for place in event.places
        )
        spared = spared or (captured and (marks or keeps)) or (node.how == "add" and keeps and _outlives(event))

    for each in _neighbours(analysis, eviction):
        visit(each, analysis.behaviors.built, see)
    return spared or _asks_for_users(analysis, eviction)


def _asks_for_users(analysis: Analysis, eviction: Eviction) -> bool:
    """Whether who evicts leaves out the entries that somebody holds: a mark of theirs says so, which others set."""
    function = analysis.project.functions[eviction.root.function]
    tests = [
        test
        for statement in flow.statements(function.lowered.flow)
        for test in (
            *([statement.test] if isinstance(statement, flow.Alt) else ()),
            *(each for expr in flow.expressions(statement) if isinstance(expr, flow.Each) for each in expr.tests),
        )
    ]
    marks = {name for test in tests for name in _marks(test)}
    return any(
        isinstance(node, b.Touches) and node.how in ("write", "count") and not node.tags & {"none", "false"}
        and any(len(place) > 1 and place[-1] in marks for place in node.places)
        for each in (analysis.behaviors.all() if marks else ())
        if each.function != eviction.root.function and not each.function.endswith(".__init__")
        for node in each.nodes
    )  # fmt: skip


def _marks(test: flow.Expr) -> Iterator[str]:
    """Attributes that a test asks for being set, or zero."""
    match test:
        case flow.Attr(base=flow.Name() | flow.Item(), name=name):
            yield name
        case flow.Op(op="==" | "is" | "<=" | ">" | "!=", operands=(flow.Attr(name=name), flow.Lit(value=0 | None))):
            yield name
        case flow.Op(op="not" | "and" | "or", operands=operands):
            for each in operands:
                yield from _marks(each)


def _is_kept_by_captures(analysis: Analysis, eviction: Eviction, mine: Sequence[Store]) -> bool:
    """Whether everybody who captures code that asks the cache, or asks it for what he captures, keeps what it gives."""
    makers = {store.function for store in mine}
    asking = [each for each in analysis.behaviors.all() if _asks(analysis, each, makers)]
    return bool(asking) and all(_keeps(each, eviction.place[-1]) for each in asking)


def _is_set_aside(analysis: Analysis, runs: Runs, maker: str) -> bool:
    """Whether whoever asks for an entry puts something away while the stream is being captured: it may well be the entry."""
    asking = [maker]
    for _ in range(_MOST_HOPS):
        asking = list(dict.fromkeys(each.function for name in asking for each in runs.callers(name)))
        for name in asking:
            found: list[Event] = []
            if (built := analysis.behaviors.built(name)) is None:
                continue
            visit(built, analysis.behaviors.built, found.append, ways=1)
            if any(_is_put_away(event) for event in found):
                return True
    return False


def _is_put_away(event: Event) -> bool:
    node = event.node
    return (
        isinstance(node, b.Touches)
        and node.how in ("add", "write")
        and any(len(place) > 1 or place[0].startswith("@") for place in event.value_places)
        and _outlives(event)
        and any(map(implies_capture, event.guards))
    )


def _keeps(each: Behavior, attribute: str) -> bool:
    """Whether a function puts what it has from a cache of this name into something of its own object."""
    return any(
        isinstance(node, b.Touches)
        and node.how in ("write", "add")
        and any(place[0] == f"${each.receiver}" for place in node.places)
        and any(attribute in place for place in _put(each, node))
        and not any(attribute in place for place in node.places)
        for node in each.nodes
    )


def _asks(analysis: Analysis, each: Behavior, makers: set[str]) -> bool:
    """Whether a function captures code that comes to one of these, or calls one of them and captures."""
    if each.calls_in_capture and makers & _reached(analysis, each.calls_in_capture):
        return True
    if Effect.CAPTURE not in analysis.kinds.get(each.key, ()):
        return False
    called = {key.partition("|")[0] for node in each.nodes if isinstance(node, b.Calls) for key in node.behaviors}
    return not makers.isdisjoint(called)


def _put(each: Behavior, node: b.Touches) -> Iterator[Place]:
    """What a function puts somewhere, and what the objects that it puts there are made with."""
    for place in node.value_places:
        yield place
        for (root, _), places in each.aliases.items():
            if place == (root,):
                yield from places


def _reached(analysis: Analysis, keys: Iterable[str]) -> set[str]:
    """Functions that run inside a capture which calls these."""
    found: set[str] = set()
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        built = analysis.behaviors.built(key)
        if built is not None and key not in found:
            found.add(key)
            waiting += b.called_inside(built.node)
    return {key.partition("|")[0] for key in found}


def _outlives(event: Event) -> bool:
    place = event.places[0] if event.places else ("@",)
    return len(place) > 1 or not place[0].startswith(("@", "%"))


def _is_bypassed(analysis: Analysis, store: Store) -> bool:
    """Whether a capture is given something else before the cache is looked at."""
    for guard in store.event.guards:
        if any(related(read, place) for read in read_by(guard) for place in store.event.places):
            return False
        if excludes_capture(guard):
            return not _is_searched_before(store)
    return False


def _is_searched_before(store: Store) -> bool:
    """Whether a loop goes through the cache before anybody asks whether the stream is being captured."""
    asking = [node.span for node in store.root.nodes if isinstance(node, b.Either) and asks_capture(node.test)]
    return any(
        isinstance(node, b.Repeat)
        and any(related(over, place) for over in node.over for place in store.event.places)
        and all(node.span.end <= span.start for span in asking)
        for node in store.root.nodes
    )


# ------------------------------------------------------------------------------------------------------------- suspects


def _precision(analysis: Analysis, eviction: Eviction, mine: list[Store], *, captures: bool) -> Precision:
    captured = {key.partition("|")[0] for key in analysis.captured}
    if any(store.function in captured or _decorates(analysis, store, captured) for store in mine):
        return Precision.HIGH
    if _is_read(analysis, eviction.slot):
        return Precision.MEDIUM
    knows = any(isinstance(node, b.Either) and asks_capture(node.test) for store in mine for node in store.root.nodes)
    return Precision.MEDIUM if knows or not captures else Precision.LOW


def _decorates(analysis: Analysis, store: Store, functions: set[str]) -> bool:
    """Whether it is a decorator of one of these functions that stores what they make."""
    outer, nested, _ = store.function.partition(".<locals>")
    name = outer.rpartition(".")[2]
    return bool(nested) and any(
        flow.last_name(each.callee if isinstance(each, flow.Call) else each) == name
        for function in functions
        if function in analysis.project.functions
        for each in analysis.project.functions[function].facts.decorators
    )


def _suspect(analysis: Analysis, eviction: Eviction, precision: Precision, mine: Sequence[Store] = ()) -> Suspect:
    entry = analysis.project.functions[eviction.root.function]
    values = {"place": place_text(eviction.place, analysis, eviction.root), "cache": eviction.place[-1]}
    if len(mine) == 1 and analysis.project.functions[mine[0].function].module is entry.module:
        values["store"] = f"{mine[0].span.start}-{mine[0].span.end}"
    return Suspect(
        "captured-eviction",
        entry.module.source.path,
        entry.facts.span,
        eviction.event.stack[0].span,
        (step(analysis, eviction.event._replace(effect=Effect.WS_RELEASE), 0),),
        values,
        None,
        precision,
    )


def _memo(analysis: Analysis, runs: Runs, store: Store, *, captures: bool) -> Suspect | None:
    """A function whose decorator keeps a bounded number of the tensors that it makes."""
    entry = analysis.project.functions[store.function]
    bound = entry.memo_bound
    if bound is None or "<locals>" in store.function or all(param.name in _FEW for param in entry.facts.params):
        return None
    captured = any(key.partition("|")[0] == store.function for key in analysis.captured)
    reached = runs.reached(store.root, capturing=True)
    if reached is not None and id(store) not in reached and not captured:
        return None  # what refuses to make an entry in a capture gives out those that were made before
    text = entry.module.source.text(bound)
    is_chosen = "(" in text and not text.endswith("()")  # a bound that nobody chose is wide: 128 entries
    precision = Precision.HIGH if captured else Precision.MEDIUM if is_chosen and not store.by_name else Precision.LOW
    kept = Step(entry.module.source.path, store.span, Effect.WS_ALLOC.value, "device memory is kept")
    return _memo_suspect(entry, bound, kept, precision, Severity.NOTE if captures and not captured else None)


def _memos_of_launches(analysis: Analysis, *, captures: bool) -> Iterator[Suspect]:
    """Functions whose decorator keeps a bounded number of graphs of a shared pool, or of plans that a capture runs."""
    for slot in list(analysis.behaviors.slots):
        held = analysis.holds(slot) & {"graph", "plan"} if slot[1] == MEMO else None
        entry = analysis.project.functions[slot[0].removeprefix("mod:")] if held else None
        if held is None or entry is None or (bound := entry.memo_bound) is None:
            continue
        root = analysis.effectful.get(entry.name)
        site = next(filter(_is_into_shared_pool, analysis.sites(root)), None) if root is not None else None
        if "graph" in held and site is not None:
            yield _memo_suspect(entry, bound, step(analysis, site.event, 0), Precision.MEDIUM, None)
        elif "plan" in held:
            kept = Step(entry.module.source.path, entry.facts.span, Effect.WS_ALLOC.value, "what a launch runs is kept")
            captured = any(key.partition("|")[0] == entry.name for key in analysis.captured)
            note = Severity.NOTE if captures and not captured else None
            yield _memo_suspect(entry, bound, kept, Precision.HIGH if captured else Precision.MEDIUM, note)


def _is_into_shared_pool(site: Site) -> bool:
    return site.effect is Effect.CAPTURE and any(len(place) > 1 for place in site.event.pool)


def _memo_suspect(
    entry: FunctionEntry, bound: Span, kept: Step, precision: Precision, severity: Severity | None
) -> Suspect:
    path = entry.module.source.path
    text = " ".join(entry.module.source.text(bound).split())[:60]
    goes = Step(path, bound, Effect.WS_RELEASE.value, f"the oldest goes where there are too many: {text}")
    values = {"place": f"the cache of {entry.facts.name.partition('@')[0]}"}
    return Suspect("captured-eviction", path, entry.facts.span, bound, (kept, goes), values, severity, precision)


# ------------------------------------------------------------------------------------------------------------------ fix


def confirm(suspect: Suspect, module: codemod.Module) -> Finding | None:
    """The finding, unless the reported place is no statement any more."""
    inside = suspect.function.start > 0 and suspect.function.contains(suspect.at)
    tree = module.tree(suspect.function) if inside else module.tree()
    if tree.statement(suspect.at) is None:
        return None
    return codemod.confirmed(suspect, module)


def fix(finding: Finding, modules: codemod.Modules) -> Fix | None:
    """What a capture could be given instead: an entry that no cache owns, so that its graph alone keeps it."""
    cst = codemod.cst
    if "store" not in finding.values:
        return None
    tree = modules[finding.path].tree()
    start, _, end = finding.values["store"].partition("-")
    store = tree.statement(Span(int(start), int(end)))
    function = tree.function(store) if store is not None else None
    if not isinstance(store, cst.Assign) or function is None:
        return None
    block = function.body
    assert isinstance(block, cst.IndentedBlock | cst.SimpleStatementSuite)
    body = list(codemod.units(block))
    made = _made(store, tree)
    lookup = next((unit for unit in body if finding.values["cache"] in tree.root.code_for_node(unit)), None)
    named = codemod.reference(modules, finding.path, _TEST, codemod.uses(function.body))
    if made is None or lookup is None or named is None or named.statement is not None:
        return None
    returned = {tree.root.code_for_node(unit.value) for unit in body if isinstance(unit, cst.Return) and unit.value}
    given = {tree.root.code_for_node(target.target) for target in store.targets}
    given |= {tree.root.code_for_node(store.value)} if isinstance(store.value, cst.Name) else set()
    if not returned & given:
        return None
    before = {name for unit in body[: body.index(lookup)] for name in codemod.uses(unit).binds}
    needed = codemod.uses(made).roots & codemod.uses(function.body).binds
    if not needed <= before | {param.name.value for param in function.params.params}:
        return None
    rewrite = codemod.Rewrite(tree)
    rewrite.insert_before(lookup, f"if {named.expression}():\n    return {tree.root.code_for_node(made)}\n")
    return Fix(
        title="give a capture an entry of its own",
        applicability=Applicability.SUGGEST,
        edits=rewrite.edits(),
        conditions=("the entry lies in the graph's pool then, and lives as long as the graph does",),
    )


def _made(store: codemod.cst.Assign, tree: codemod.Tree) -> codemod.cst.BaseExpression | None:
    """The expression that makes the entry which a statement stores."""
    cst = codemod.cst
    if not isinstance(store.value, cst.Name):
        return store.value
    block, _ = tree.path(store)[-1]
    for unit in codemod.units(block):
        if isinstance(unit, cst.Assign) and any(
            codemod.dotted(each.target) == store.value.value for each in unit.targets
        ):
            return unit.value
    return None
