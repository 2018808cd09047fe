"""Releases workspaces between the last graph's death and the erasure of their pool.

A suspect's path holds the graphs' deaths (`graph_death`), the erasure (`erase`) and, where one runs too late, the
release (`ws_release`); their spans are the calls or statements of the reported function through which these effects
happen. Its values:

    place      text of the workspace, as the message names it
    release    qualified name of what releases it, callable without arguments: `package.module.Class.method`, or
               `self.method` of the reported function's own object; absent where nothing is known that could be inserted
    loop       `path:row` of the loop over engines that reaches the function; absent where there is none
    defined    `path:start:end`, the file and the bytes of the definition of `release`; absent where it was not read
    pool_object  text of the object of their pool, where one is kept: its own end erases the pool; absent where there is none
    sharers    what else may hold graphs that use the workspace, as text; absent where one owner is known
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import libcst as cst

from graphlint.codemod import (
    Block,
    Loop,
    Module,
    Modules,
    Rewrite,
    Tree,
    Unit,
    asserts,
    confirmed,
    deeds,
    done,
    dotted,
    entered,
    exclusive,
    is_passive,
    is_pure,
    mentions,
    other_names,
    reference,
    swap,
    units,
    uses,
    with_supply,
)
from graphlint.edits import Applicability, Edit, Fix
from graphlint.findings import Finding, Suspect
from graphlint.source import Span

_REASON = "# Workspaces that were allocated in the graphs' pool go after the graphs and before the pool."


def confirm(suspect: Suspect, module: Module) -> Finding | None:
    """The finding, unless the syntax says that no run passes a graph's death and then the erasure."""
    tree = module.tree(suspect.function)
    erase = tree.statement(suspect.at)
    if erase is None:
        return None
    deaths = _statements(suspect, tree, "graph_death")
    if deaths and all(exclusive(tree, death, erase) for death in deaths):
        return None
    return confirmed(suspect, module)


def fix(finding: Finding, modules: Modules) -> Fix | None:
    """Move the late release in front of the erasure, or insert one where there is none."""
    tree = modules[finding.path].tree(finding.function)
    erase = tree.statement(finding.span)
    deaths = _statements(finding, tree, "graph_death")
    if "pool_object" in finding.values:
        return None  # what lies in the pool goes before its object
    if erase is None or not deaths or any(tree.function(each) is not tree.function(erase) for each in deaths):
        return None
    late = [
        unit
        for unit in _statements(finding, tree, "ws_release")
        if tree.spans[unit].start >= tree.spans[erase].end and tree.function(unit) is tree.function(erase)
    ]
    conditions = list(_costs(finding, tree, deaths, erase))
    known = [*late, *deaths, *([erase] if _is_plain(finding, modules, tree, erase, late) else [])]
    edits = (
        _move(tree, late, erase, deaths, known, conditions)
        if late
        else _insert(finding, modules, tree, erase, deaths, conditions)
    )
    if not edits:
        return None
    return Fix(
        title="release the workspaces before the pool is erased",
        applicability=Applicability.UNSAFE if conditions else Applicability.SAFE,
        edits=edits,
        conditions=tuple(conditions),
    )


def _statements(found: Suspect | Finding, tree: Tree, effect: str) -> list[Unit]:
    """The statements of the reported function through which an effect happens."""
    spans = [
        step.span
        for step in found.trace
        if step.effect == effect and step.path == found.path and found.function.contains(step.span)
    ]
    return [unit for unit in map(tree.statement, dict.fromkeys(spans)) if unit is not None]


def _costs(finding: Finding, tree: Tree, deaths: Sequence[Unit], erase: Unit) -> Iterator[str]:
    """Why a release at this place may be too early for somebody."""
    loop = finding.values.get("loop")
    around_both = [outer for outer in _around(tree, deaths) if outer in tree.ancestors(erase)]
    if loop is None and any(isinstance(outer, Loop) for outer in around_both):
        loop = f"{finding.path}:{tree.source.row(finding.span.start)}"
    if loop is not None:
        yield (
            f"{loop} runs this once an engine: the first release takes the workspaces from under the "
            "graphs of the engines that follow, until it is split from the teardown of one engine (shared-release)"
        )
    if sharers := finding.values.get("sharers"):
        yield f"the graphs of {sharers} must be dead too: the release takes their workspaces as well"


def _around(tree: Tree, nodes: Sequence[Unit]) -> list[cst.CSTNode]:
    return [outer for node in nodes for outer in tree.ancestors(node)]


# ------------------------------------------------------------------------------------------------------- to insert one


def _insert(
    finding: Finding, modules: Modules, tree: Tree, erase: Unit, deaths: Sequence[Unit], conditions: list[str]
) -> tuple[Edit, ...]:
    """A call of the known release, with the import that it needs; none where the function has one of its own already."""
    release = finding.values.get("release")
    if release is None or erase in deaths or not all(_precedes(tree, death, erase) for death in deaths):
        return ()
    if any(_calls_of(tree.function(erase) or tree.root, release)):
        return ()  # it stands behind a count, a flag or a lock, which a second one would pass by
    # an erasure in a loop behind the deaths runs more than once, and what is captured in between must keep its memory
    loops = [unit for _, unit in tree.path(erase) if isinstance(unit, Loop) and unit not in _around(tree, deaths)]
    target = loops[0] if loops else erase
    used = uses(tree.function(erase) or tree.root)
    column = tree.source.position(tree.spans[target].start).column - 1
    named = reference(modules, finding.path, release, used, column)
    if named is None:
        return ()
    conditions += _doubts(finding, modules, tree, target, release)
    lines = [_REASON, *([named.statement, ""] if named.statement else []), f"{named.expression}()"]
    rewrite = Rewrite(tree)
    rewrite.insert_before(target, "\n".join(lines) + "\n")
    return rewrite.edits()


def _doubts(finding: Finding, modules: Modules, tree: Tree, target: Unit, release: str) -> Iterator[str]:
    """What must hold of a release, that one more call of it is right here."""
    name = f"`{'.'.join(_ends(release))}`"
    is_known = False
    if defined := finding.values.get("defined"):
        path, start, end = defined.rsplit(":", 2)
        there = modules[path].tree(Span(int(start), int(end)))
        bodies = [node.body for node in there.spans if isinstance(node, cst.FunctionDef)]
        more = [*deeds(there, *bodies), *_counts(there)]
        yield from (f"{name} does more than release ({path}: {each}): it does so here, too" for each in more)
        is_known = not more
    for outer in tree.ancestors(target):
        if isinstance(outer, cst.With) and not is_known:
            row = tree.source.row(tree.spans[outer].start)
            yield from (f"row {row} {each}: {name} runs in there, and may not wait for it" for each in entered(outer))
    for path, guard in _guarded(modules, release):
        yield f"{path} calls {name} only {guard}: that must be so here, too"


def _counts(tree: Tree) -> Iterator[str]:
    for node in tree.spans:
        if isinstance(node, cst.AugAssign | cst.Raise | cst.Assert):
            does = "counts" if isinstance(node, cst.AugAssign) else "can fail"
            yield f"row {tree.source.row(tree.spans[node].start)} {does}"


def _guarded(modules: Modules, release: str) -> Iterator[tuple[str, str]]:
    """Where the project calls a release under a lock, or where a test of its own says so: the place and what is asked."""
    owner, name = _ends(release) if "." in release else ("", release)
    for path, source in modules.sources.items():
        if f"{name}(".encode() not in source.content or (_is_class(owner) and owner.encode() not in source.content):
            continue
        tree = modules[path].tree()
        for call in _calls_of(tree.root, release):
            place = f"{path}:{source.row(tree.spans[call].start)}"
            for guard in dict.fromkeys(_guards(tree, call)):
                yield place, guard


def _guards(tree: Tree, call: cst.Call) -> Iterator[str]:
    for outer in tree.ancestors(call):
        if isinstance(outer, cst.FunctionDef):
            return
        if isinstance(outer, cst.With):
            yield from (f"where it {each}" for each in entered(outer))
        elif isinstance(outer, cst.If) and not _asks_what_there_is(outer.test):
            yield f"behind the test `{tree.root.code_for_node(outer.test)}`"
        if isinstance(outer, Block):
            for unit in units(outer):
                if tree.spans[unit].start >= tree.spans[call].start:
                    break
                if isinstance(unit, cst.If) and uses(unit).exits and not _asks_what_there_is(unit.test):
                    yield f"behind the test `{tree.root.code_for_node(unit.test)}`"


def _asks_what_there_is(test: cst.BaseExpression) -> bool:
    """Whether a test asks for no more than whether there is something: an object, a device."""
    if isinstance(test, cst.UnaryOperation):
        test = test.expression
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        only = test.comparisons[0]
        return isinstance(only.operator, cst.Is | cst.IsNot) and dotted(only.comparator) == "None"
    return isinstance(test, cst.Call) and (dotted(test.func) or "").rpartition(".")[2] in ("hasattr", "is_available")


def _ends(release: str) -> tuple[str, str]:
    """The class, or the module, of a release and its name."""
    before, _, name = release.rpartition(".")
    return before.rpartition(".")[2], name


def _is_class(name: str) -> bool:
    return name.lstrip("_")[:1].isupper()


def _calls_of(node: cst.CSTNode, release: str) -> Iterator[cst.Call]:
    """The calls of a release, by its name and that of its class."""
    owner, name = _ends(release)
    waiting = [node]
    while waiting:
        each = waiting.pop()
        waiting += each.children
        if not isinstance(each, cst.Call) or (called := dotted(each.func)) is None:
            continue
        base, last = _ends(called)
        if last == name and (not _is_class(owner) or base == "cls" or _is_class(base)):
            yield each


def _precedes(tree: Tree, first: Unit, second: Unit) -> bool:
    """Whether one statement has run, or was skipped by a branch, when the other begins."""
    return tree.spans[first].end <= tree.spans[second].start and not exclusive(tree, first, second)


# --------------------------------------------------------------------------------------------------------- to move one


def _move(
    tree: Tree,
    late: Sequence[Unit],
    erase: Unit,
    deaths: Sequence[Unit],
    known: Sequence[cst.CSTNode],
    conditions: list[str],
) -> tuple[Edit, ...]:
    """The late releases in front of the erasure, with what they cannot do without; empty where that is not proved."""
    meetings = [_meeting(tree, erase, release) for release in late]
    targets = {meeting[0] for meeting in meetings if meeting is not None}
    if None in meetings or len(targets) != 1:
        return ()
    target = targets.pop()
    moved: set[Unit] = set()
    for _, holder, between in filter(None, meetings):
        chosen = with_supply(holder, between)
        if chosen is None:
            return ()
        moved.update(chosen)
    order = sorted(moved, key=lambda unit: tree.spans[unit])
    passed = [unit for _, _, between in filter(None, meetings) for unit in between if unit not in moved]
    if not all(_precedes(tree, death, target) for death in deaths):
        return ()
    for unit in order:
        used = uses(unit)
        if used.suspends or used.exits or asserts(unit):
            return ()
        if isinstance(unit, cst.BaseCompoundStatement) and not _only_releases(tree, unit, late):
            first, last = (tree.source.row(offset) for offset in tree.spans[unit])
            conditions.append(f"rows {first} to {last} do more than release, and now run before the pool is erased")
        for other in dict.fromkeys(passed):
            if tree.spans[other].start < tree.spans[unit].start and not swap(tree, used, other, conditions):
                return ()
    known = [*known, *(outer for outer in tree.ancestors(target) if isinstance(outer, cst.With))]
    conditions += _trusted(tree, late, dict.fromkeys(passed), known, conditions)
    for deed in done(tree, *order):
        if deed.suspends:
            row = tree.source.row(tree.spans[deed.node].start)
            conditions.append(f"row {row} {deed.text}: now that is between the graphs' death and the erasure")
    if any(done(tree, *order)):
        conditions += _entered(tree, late, target)
    rewrite = Rewrite(tree)
    rewrite.move_before(order, target)
    return rewrite.edits()


def _trusted(
    tree: Tree, late: Sequence[Unit], passed: Iterable[Unit], known: Sequence[cst.CSTNode], said: Sequence[str]
) -> list[str]:
    """What must hold of the statements that a release overtakes, beyond what their names say."""
    function = tree.function(late[0]) or tree.root
    used = uses(*late)
    places = {place for place in used.receivers | used.binds if place not in ("self", "cls")}
    others = other_names(function, places)
    found: list[str] = []
    for unit in passed:
        row = tree.source.row(tree.spans[unit].start)
        meant = sorted(name for name in others if mentions(uses(unit), name))
        if meant and not any(condition.startswith(f"row {row} uses ") for condition in said):
            found.append(
                f"row {row} uses {', '.join(meant)}, which may be what is released, and now does so afterwards"
            )
        found += [f"{deed}: it may not need what is released" for deed in deeds(tree, unit, known=known)]
    found += _holding(tree, function, late, others)
    return list(dict.fromkeys(found))


def _holding(tree: Tree, function: cst.CSTNode, late: Sequence[Unit], others: Collection[str]) -> Iterator[str]:
    """Variables that still hold the memory once it is released: somebody uses them afterwards."""
    last = max(tree.spans[unit].end for unit in late)
    for node in tree.spans:
        if (
            isinstance(node, cst.BaseSmallStatement)
            and tree.spans[node].start >= last
            and tree.function(node) is function
        ):
            for name in sorted(name for name in others if "." not in name and mentions(uses(node), name)):
                row = tree.source.row(tree.spans[node].start)
                yield f"row {row} uses {name}, which may be what is released: then its memory stays where it is"


def _entered(tree: Tree, late: Sequence[Unit], target: Unit) -> Iterator[str]:
    """What must hold of the blocks that a release comes to stand in."""
    for outer in tree.ancestors(target):
        if isinstance(outer, cst.With) and outer not in _around(tree, late):
            row = tree.source.row(tree.spans[outer].start)
            yield from (
                f"row {row} {each}: the release now runs in there, and may not wait for it" for each in entered(outer)
            )
            if any(read.endswith("suppress") for item in outer.items for read in uses(item.item).reads):
                yield f"row {row} hides errors, from now on those of the release, too"


def _is_plain(finding: Finding, modules: Modules, tree: Tree, erase: Unit, late: Sequence[Unit]) -> bool:
    """Whether a statement erases the pool and does nothing else, in the function of the project that it calls."""
    call = erase.value if isinstance(erase, cst.Expr) else None
    inner = [step for step in finding.trace if step.effect == "erase"][-1]
    if not isinstance(call, cst.Call) or (inner.path == finding.path and tree.statement(inner.span) is erase):
        return isinstance(erase, cst.With)
    there = modules[inner.path].tree()
    holder = there.enclosing(inner.span, cst.FunctionDef)
    if (
        holder is None
        or holder.name.value != (dotted(call.func) or "").rpartition(".")[2]
        or any(done(there, holder.body))
    ):
        return False
    used = uses(holder.body)
    named = {place.rpartition(".")[2] for place in used.reads | used.binds}
    return named.isdisjoint(place.rpartition(".")[2] for place in uses(*late).receivers | uses(*late).binds)


def _only_releases(tree: Tree, holder: cst.BaseCompoundStatement, late: Sequence[Unit]) -> bool:
    """Whether nothing but releases and what has no effect of its own stands in a compound statement."""
    small = [node for node in tree.spans if isinstance(node, cst.BaseSmallStatement)]
    return all(node in late or is_pure(node) for node in small if holder in tree.ancestors(node))


def _meeting(tree: Tree, erase: Unit, release: Unit) -> tuple[Unit, Unit, list[Unit]] | None:
    """The statement to put the release in front of, the statement that holds the release, and those between them.

    The two stand in one block. Only blocks that do nothing but hold statements may be entered from there (a lock, a
    device): behind any other header the release would run under other conditions than before.
    """
    one, other = tree.path(erase), tree.path(release)
    both = enumerate(zip(one, other, strict=False))
    depth = next((at for at, ((_, left), (_, right)) in both if left is not right), None)
    if depth is None or one[depth][0] is not other[depth][0]:
        return None
    block, outer = one[depth]
    holder = other[depth][1]
    target = outer
    for block_inside, unit in one[depth + 1 :]:
        if not isinstance(outer, cst.With) or not all(is_passive(item.item) for item in outer.items):
            break
        assert isinstance(block_inside, Block)
        target = outer = unit
    statements = list(units(block))
    first, last = statements.index(one[depth][1]), statements.index(holder)
    return target, holder, statements[first:last]
