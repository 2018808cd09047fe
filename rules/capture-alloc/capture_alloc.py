"""Refuses to allocate while capturing what outlives the graph, or allocates it ahead of the capture.

The reported place is the allocation. Where it stands in the block of a capture, the suspect's path holds that capture
(`capture`) with the span of its context in the same function. A suspect's values:

    place           what keeps the memory, as the message names it
    before          `start-end` of what a refusal must precede in the function: the first allocation or collective where
                    the memory is missing; absent where that is the reported allocation
    capturing       qualified name of the project's own test of a capture, callable without arguments; absent where it
                    has none
    unconditional   "yes" where every run allocates, so that a refusal would end every capture
"""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import behavior as b
from graphlint import codemod, flow
from graphlint.edits import Applicability, Edit, Fix
from graphlint.effects import Effect
from graphlint.facts import MODULE
from graphlint.findings import MAX_STEPS, Finding, Precision, Severity, Step, Suspect
from graphlint.keeping import Runs, Store, all_runs, is_miss, own_test, read_by, related, stores
from graphlint.options import asked_for
from graphlint.paths import Event
from graphlint.source import Span
from graphlint.summaries import Analysis
from graphlint.typestate import place_text, step
from graphlint.values import ELEMENT, Test, asks_capture
from graphlint.vocabulary import words_in
from graphlint.warming import is_warmed

_TEST = "torch.cuda.is_current_stream_capturing"
_ADDS = ("append", "extend", "add", "appendleft")


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    """Stores of memory that is allocated while a stream is captured.

    Four kinds of evidence: the store is come to inside a capture that the project begins; the key that it is stored
    under names the stream, which is new in a capture; a test of the capture lets it happen there and nowhere else; or it
    is refused in a capture, but only where an option asks for that.
    """
    found = stores(analysis)
    runs = all_runs(analysis)
    best: dict[tuple[str, Span], Suspect] = {}
    for suspect in (
        *_inside_captures(analysis, runs, found),
        *_by_stream(analysis, runs, found),
        *_behind_tests(analysis, runs, found),
        *_behind_options(analysis, runs, found),
    ):
        place = (suspect.path, suspect.at)
        if place not in best or _rank(suspect) < _rank(best[place]):
            best[place] = suspect
    yield from (best[place] for place in sorted(best))


def _rank(suspect: Suspect) -> tuple[int, int]:
    return (0 if suspect.severity is Severity.ERROR else 1, len(suspect.trace))


def _inside_captures(analysis: Analysis, runs: Runs, found: tuple[Store, ...]) -> Iterator[Suspect]:
    """Misses that are come to in the block of a capture, however deep in what it calls."""
    known = {id(store): store for store in found}
    for root in analysis.roots():
        captures = [node for node in root.nodes if isinstance(node, b.Happens) and node.effect is Effect.CAPTURE]
        if not captures and not root.calls_in_capture:
            continue
        for identity, event in (runs.reached(root, capturing=None) or {}).items():
            store = known[identity]
            if _is_record(analysis, store, event) or event.in_constructor or not is_miss(analysis, store):
                continue
            if not runs.survives(root, store, capturing=None):
                continue
            own = len(event.stack) == len(store.event.stack)
            severity = Severity.ERROR if own and captures else Severity.WARNING
            if is_warmed(analysis, root, event) and not _names_stream(analysis, store):
                severity = Severity.NOTE
            yield _suspect(analysis, store, severity, _way_in(analysis, root, event))


def _by_stream(analysis: Analysis, runs: Runs, found: tuple[Store, ...]) -> Iterator[Suspect]:
    """Misses of a table that has an entry for each stream: the stream of a capture has none.

    Where the files capture, and none of their captures is seen to come to the table, that is a note: whoever captures may
    run everything on the stream of the capture first, and then there is an entry.
    """
    captures = any(Effect.CAPTURE in kinds for kinds in analysis.kinds.values())
    captured = {key.partition("|")[0] for key in analysis.captured}
    for store in found:
        if not _names_stream(analysis, store) or not is_miss(analysis, store) or store.event.in_constructor:
            continue
        reached = runs.reached(store.root, capturing=True)
        if reached is None or (id(store) in reached and runs.survives(store.root, store, capturing=True)):
            asks = any(isinstance(node, b.Either) and asks_capture(node.test) for node in store.root.nodes)
            shown = (not captures or store.function in captured or asks) and not _is_of_one_capture(analysis, store)
            yield _suspect(analysis, store, Severity.WARNING if shown else Severity.NOTE, (), Precision.MEDIUM)


def _behind_tests(analysis: Analysis, runs: Runs, found: tuple[Store, ...]) -> Iterator[Suspect]:
    """Stores that happen in a capture and are avoided outside of one."""
    for store in found:
        if (
            store.event.in_constructor
            or _is_record(analysis, store, store.event)
            or store.event.places[0][0].startswith("@")
        ):
            continue
        if store.node.how == "add" and store.node.key is None:
            if not is_miss(analysis, store) or _is_only_added_to(analysis, store):
                continue  # kept for good in a list, and never given out again
        if not any(isinstance(node, b.Either) and asks_capture(node.test) for node in store.root.nodes):
            continue
        inside = runs.reached(store.root, capturing=True)
        outside = runs.reached(store.root, capturing=False)
        if inside is not None and outside is not None and id(store) in inside and id(store) not in outside:
            doubted = _is_let_go(analysis, store) or _is_of_one_capture(analysis, store)
            yield _suspect(analysis, store, Severity.NOTE if doubted else Severity.ERROR, ())


def _behind_options(analysis: Analysis, runs: Runs, found: tuple[Store, ...]) -> Iterator[Suspect]:
    """Misses that are refused in a capture, so that captured code is known to come there, but only where an option says so."""
    for store in found:
        if store.event.in_constructor or store.is_memo or _is_record(analysis, store, store.event):
            continue
        refusal = asked_for(analysis, store) if is_miss(analysis, store) else None
        if refusal is None or id(store) not in (runs.reached(store.root, capturing=True) or {}):
            continue
        if runs.survives(store.root, store, capturing=True):
            source = analysis.project.functions[store.function].module.source
            text = "refuses in a capture, where an option asks for that"
            way = (Step(source.path, refusal.stack[0].span, Effect.IS_CAPTURING.value, text),)
            yield _suspect(analysis, store, Severity.WARNING, way, Precision.MEDIUM)


def _is_of_one_capture(analysis: Analysis, store: Store) -> bool:
    """Whether the number of the capture is kept with the memory: another capture is not given it."""
    entry = analysis.project.functions[store.function]
    numbers: set[str] = set()
    for each in flow.statements(entry.lowered.flow):
        match each:
            case flow.Bind(target=flow.Name(id=name), value=flow.Call() as call) if {"capture", "id"} <= set(
                words_in(flow.last_name(call))
            ):
                numbers.add(name)
            case flow.Bind(value=flow.Group(items=items)) if each.span == store.span:
                return any(isinstance(item, flow.Name) and item.id in numbers for item in items)
    return False


def _is_only_added_to(analysis: Analysis, store: Store) -> bool:
    """Whether nothing reads the list that the memory is put into."""
    slot = store.node.slot
    if slot is None:
        return False
    adding: set[Span] = set()
    for entry in analysis.behaviors.functions_with(slot[1]):
        for call in entry.calls:
            if isinstance(call.callee, flow.Attr) and call.callee.name in _ADDS:
                adding.add(call.callee.base.span)
    return all(expr.span in adding for _, expr in analysis.behaviors.reads(slot))


def _is_let_go(analysis: Analysis, store: Store) -> bool:
    """Whether everybody who asks an object for the memory lets it go again at once: it is gone before the capture ends.

    That is so where the function that asks also calls a method of the very same object which empties the attribute.
    """
    entry = analysis.project.functions[store.function]
    place = store.event.places[0]
    if entry.owner is None or len(place) != 2 or place[0] != f"${store.root.receiver}":
        return False
    givers = _emptying(analysis, entry.owner, store.node.slot) - {entry.facts.name}
    asked = _receivers(analysis, entry.facts.name)
    given = {(owner, text) for name in givers for owner, text in _receivers(analysis, name)}
    return bool(asked) and asked <= given


def _emptying(analysis: Analysis, owner: str, slot: b.Slot | None) -> set[str]:
    """Methods of a class that set an attribute to None, whatever happens, and put nothing else there."""
    found: set[str] = set()
    for each in analysis.project.mro(owner):
        entry = analysis.project.classes.get(each)
        for name, function in entry.methods.items() if entry is not None else ():
            built = analysis.behaviors.built(function)
            nodes = built.nodes if built is not None and name != "__init__" else ()
            touched = [node for node in nodes if isinstance(node, b.Touches) and node.slot == slot]
            writes = [node for node in touched if node.how in ("write", "drop")]
            if writes and all(node.how == "drop" or node.tags == {"none"} for node in writes):
                found.add(name)
    return found


def _receivers(analysis: Analysis, method: str) -> set[tuple[str, str]]:
    """Functions that call a method of this name, those in them included, each with the text of the object."""
    found: set[tuple[str, str]] = set()
    for entry in analysis.behaviors.functions_with(method):
        if entry.parent is not None and not entry.parent.endswith(MODULE):
            continue
        nested = (each.flow for each in entry.lowered.nested if each.flow is not None)
        for call in (each for body in (entry.lowered.flow, *nested) for each in flow.calls(body)):
            if isinstance(call.callee, flow.Attr) and call.callee.name == method:
                found.add((entry.name, "".join(entry.module.source.text(call.callee.base.span).split())))
    return found


def _is_record(analysis: Analysis, store: Store, event: Event) -> bool:
    """Whether the memory goes into a record that holds the graph itself, and dies with it."""
    slot = store.node.slot
    if slot is None or not event.places:
        return False
    place = event.places[0]
    one_of_many = ELEMENT in place[:-1] or place[0].startswith("@")
    return one_of_many and "graph" in analysis.owns(slot[0])


def _names_stream(analysis: Analysis, store: Store) -> bool:
    key = store.node.key
    if key is None:
        return False
    given = {(store.function, param) for function, param in analysis.behaviors.streams if function == store.function}
    read = {
        place[0][1:]
        for value in (key, *(key.items or ()))
        for place in (*value.places, *value.reads)
        if len(place) == 1
    }
    values = (key, *(key.items or ()))
    return any("stream" in value.tags for value in values) or any((store.function, name) in given for name in read)


def _way_in(analysis: Analysis, root: b.Behavior, event: Event) -> tuple[Step, ...]:
    """The capture, and the calls that lead from its block to the store."""
    steps: list[Step] = []
    inside = [node for node in root.nodes if isinstance(node, b.Happens) and node.effect is Effect.CAPTURE]
    source = analysis.project.functions[root.function].module.source
    if inside:
        before = [node for node in inside if node.span.start <= event.stack[0].span.start] or inside[:1]
        steps.append(Step(source.path, before[-1].span, Effect.CAPTURE.value, f"a capture begins: {before[-1].label}"))
    for frame in event.stack[:-1]:
        module = analysis.project.functions[frame.function].module
        text = " ".join(module.source.text(frame.span).split())[:60]
        steps.append(Step(module.source.path, frame.span, "call", f"captured code calls {text}"))
    return tuple(steps)


def _suspect(
    analysis: Analysis, store: Store, severity: Severity, way: tuple[Step, ...], precision: Precision | None = None
) -> Suspect:
    entry = analysis.project.functions[store.function]
    path = entry.module.source.path
    origin = store.origin
    at = origin.span if origin is not None else store.span
    steps = [*way[-(MAX_STEPS - 3) :]]
    within = next((each.within or each for each in store.origins), None)
    if within is not None and not (within.function == store.function and store.span.contains(within.span)):
        made = analysis.project.functions[within.function].module.source
        text = " ".join(made.text(within.span).split())[:60]
        steps.append(Step(made.path, within.span, Effect.WS_ALLOC.value, f"memory is allocated: {text}"))
    kept = step(analysis, store.event._replace(effect=Effect.WS_ALLOC), 0)
    steps.append(kept)
    values = {"place": _kept_in(analysis, store)}
    before = _first_of_miss(analysis, store, at)
    if before is not None:
        values["before"] = f"{before.start}-{before.end}"
    if not is_miss(analysis, store):
        values["unconditional"] = "yes"
    test = own_test(analysis, store.function)
    if test is not None:
        values["capturing"] = test
    if precision is None and store.by_name:
        precision = Precision.MEDIUM
    return Suspect("capture-alloc", path, entry.facts.span, at, tuple(steps), values, severity, precision)


def _kept_in(analysis: Analysis, store: Store) -> str:
    if store.is_memo:
        return f"the cache of {store.function.rpartition('.')[2]}"
    return place_text(store.event.places[0], analysis, store.root)


def _first_of_miss(analysis: Analysis, store: Store, at: Span) -> Span | None:
    """The first statement that runs only where the memory is missing; None where it is the allocation's own."""
    entry = analysis.project.functions[store.function]
    misses = {node.span for node in store.root.nodes if isinstance(node, b.Either) and _asks_for(node.test, store)}
    first = _first_in(entry.lowered.flow, at, misses)
    return None if first is None or first.contains(at) else first


def _asks_for(test: Test, store: Store) -> bool:
    return any(related(read, place) for read in read_by(test) for place in store.event.places)


def _first_in(body: flow.Flow, at: Span, misses: set[Span]) -> Span | None:
    """The first statement in a branch of one of these tests, or behind one that leaves, on the way to a place."""
    match body:
        case flow.Seq(items=items):
            for index, item in enumerate(items):
                if _span(item).contains(at):
                    left = [
                        i
                        for i, other in enumerate(items[:index])
                        if isinstance(other, flow.Alt) and other.span in misses
                    ]
                    return _span(items[left[-1] + 1]) if left else _first_in(item, at, misses)
        case flow.Alt(then=then, other=other, span=span):
            branch = next((each for each in (then, other) if each != flow.NOTHING and _span(each).contains(at)), None)
            if branch is not None:
                return _span(_head(branch)) if span in misses else _first_in(branch, at, misses)
        case flow.Star() | flow.Scope() | flow.Try():
            for child in flow.children(body):
                if child != flow.NOTHING and _span(child).contains(at):
                    return _first_in(child, at, misses)
    return None


def _head(body: flow.Flow) -> flow.Flow:
    return body.items[0] if isinstance(body, flow.Seq) else body


def _span(body: flow.Flow) -> Span:
    if isinstance(body, flow.Seq):
        return Span(_span(body.items[0]).start, _span(body.items[-1]).end) if body.items else Span(0, 0)
    return body.span


def confirm(suspect: Suspect, module: codemod.Module) -> Finding | None:
    """The finding, unless the reported place is no statement of a function any more."""
    tree = module.tree(suspect.function)
    statement = tree.statement(suspect.at)
    if statement is None or tree.function(statement) is None:
        return None
    return codemod.confirmed(suspect, module)


def fix(finding: Finding, modules: codemod.Modules) -> Fix | None:
    """Allocate ahead of the capture whose block holds the allocation; anywhere else, refuse to allocate in one."""
    tree = modules[finding.path].tree(finding.function)
    capture = _capture_around(finding, tree)
    if capture is not None:
        edits = _hoist(finding, tree, capture)
        title = "allocate ahead of the capture"
        conditions = ["the memory comes from the default pool then, and every replay finds it as the last one left it"]
    elif finding.values.get("unconditional") == "yes":
        return None
    else:
        edits = _refuse(finding, modules, tree)
        title = "refuse to allocate while capturing"
        conditions = [
            "a shape that has not run outside of a capture raises in it, on every rank alike: run each shape once"
        ]
    if not edits:
        return None
    return Fix(title, Applicability.UNSAFE, edits, tuple(conditions))


def _capture_around(finding: Finding, tree: codemod.Tree) -> codemod.cst.With | None:
    """The capture whose block holds the allocation."""
    for each in finding.trace:
        if each.effect == "capture" and each.path == finding.path and finding.function.contains(each.span):
            block = tree.statement(each.span)
            allocation = tree.statement(finding.span)
            if isinstance(block, codemod.cst.With) and allocation is not None and block in tree.ancestors(allocation):
                return block
    return None


def _hoist(finding: Finding, tree: codemod.Tree, capture: codemod.cst.With) -> tuple[Edit, ...]:
    """The allocation in front of the capture; empty where it needs what the captured block makes."""
    allocation = tree.statement(finding.span)
    block = capture.body
    assert isinstance(block, codemod.cst.IndentedBlock | codemod.cst.SimpleStatementSuite)
    statements = list(codemod.units(block))
    if (
        not isinstance(allocation, codemod.cst.Assign | codemod.cst.AnnAssign | codemod.cst.Expr)
        or allocation not in statements
    ):
        return ()
    used = codemod.uses(allocation)
    passed = [*statements[: statements.index(allocation)], *capture.items]
    if used.suspends or any(codemod.clash(used, codemod.uses(other)) is not None for other in passed):
        return ()
    rewrite = codemod.Rewrite(tree)
    rewrite.move_before([allocation], capture)
    return rewrite.edits()


def _refuse(finding: Finding, modules: codemod.Modules, tree: codemod.Tree) -> tuple[Edit, ...]:
    """A refusal in front of the first allocation."""
    target = _target(finding, tree)
    function = target and tree.function(target)
    if target is None or function is None:
        return ()
    column = tree.source.position(tree.spans[target].start).column - 1
    test = codemod.reference(
        modules, finding.path, finding.values.get("capturing", _TEST), codemod.uses(function), column
    )
    if test is None:
        return ()
    lines = [
        *([test.statement, ""] if test.statement else []),
        f"if {test.expression}():",
        f'    raise RuntimeError("{finding.symbol} cannot allocate while capturing: run this shape once outside")',
    ]
    rewrite = codemod.Rewrite(tree)
    rewrite.insert_before(target, "\n".join(lines) + "\n")
    return rewrite.edits()


def _target(finding: Finding, tree: codemod.Tree) -> codemod.Unit | None:
    """The statement that a refusal has to stand in front of."""
    before = finding.values.get("before")
    if before is None:
        return tree.statement(finding.span)
    start, _, end = before.partition("-")
    return tree.statement(Span(int(start), int(end)))
