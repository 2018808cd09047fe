"""Releases workspaces between the last graph's death and the erasure of their pool.

A suspect's path holds the graphs' deaths (`graph_death`), the erasure (`erase`) and, where one runs too late, the
release (`ws_release`); their spans are the calls or statements of the reported function through which these effects
happen. Its values:

    place      text of the workspace, as the message names it
    release    qualified name of what releases it, callable without arguments: `package.module.Class.method`, or
               `self.method` of the reported function's own object; absent where nothing is known that could be inserted
    loop       `path:row` of the loop over engines that reaches the function; absent where there is none
    sharers    what else may hold graphs that use the workspace, as text; absent where one owner is known
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from graphlint.codemod import (
    Block,
    Loop,
    Module,
    Modules,
    Rewrite,
    Tree,
    Unit,
    confirmed,
    exclusive,
    is_passive,
    is_pure,
    reference,
    swap,
    units,
    uses,
    with_supply,
)
from graphlint.edits import Applicability, Edit, Fix
from graphlint.findings import Finding, Suspect

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
    if erase is None or not deaths or any(tree.function(each) is not tree.function(erase) for each in deaths):
        return None
    late = [
        unit
        for unit in _statements(finding, tree, "ws_release")
        if tree.spans[unit].start >= tree.spans[erase].end and tree.function(unit) is tree.function(erase)
    ]
    conditions = list(_costs(finding, tree, deaths, erase))
    edits = _move(tree, late, erase, deaths, conditions) if late else _insert(finding, modules, tree, erase, deaths)
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
            f"the loop at {loop} runs this once an engine: the first release takes the workspaces from under the "
            "graphs of the engines that follow, until it is split from the teardown of one engine (shared-release)"
        )
    if sharers := finding.values.get("sharers"):
        yield f"the graphs of {sharers} must be dead too: the release takes their workspaces as well"


def _around(tree: Tree, nodes: Sequence[Unit]) -> list[cst.CSTNode]:
    return [outer for node in nodes for outer in tree.ancestors(node)]


# ------------------------------------------------------------------------------------------------------- to insert one


def _insert(finding: Finding, modules: Modules, tree: Tree, erase: Unit, deaths: Sequence[Unit]) -> tuple[Edit, ...]:
    """A call of the known release, with the import that it needs."""
    release = finding.values.get("release")
    if release is None or erase in deaths or not all(_precedes(tree, death, erase) for death in deaths):
        return ()
    # an erasure in a loop behind the deaths runs more than once, and what is captured in between must keep its memory
    loops = [unit for _, unit in tree.path(erase) if isinstance(unit, Loop) and unit not in _around(tree, deaths)]
    target = loops[0] if loops else erase
    used = uses(tree.function(erase) or tree.root)
    column = tree.source.position(tree.spans[target].start).column - 1
    named = reference(modules, finding.path, release, used, column)
    if named is None:
        return ()
    lines = [_REASON, *([named.statement, ""] if named.statement else []), f"{named.expression}()"]
    rewrite = Rewrite(tree)
    rewrite.insert_before(target, "\n".join(lines) + "\n")
    return rewrite.edits()


def _precedes(tree: Tree, first: Unit, second: Unit) -> bool:
    """Whether one statement has run, or was skipped by a branch, when the other begins."""
    return tree.spans[first].end <= tree.spans[second].start and not exclusive(tree, first, second)


# --------------------------------------------------------------------------------------------------------- to move one


def _move(
    tree: Tree, late: Sequence[Unit], erase: Unit, deaths: Sequence[Unit], conditions: list[str]
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
        if used.suspends or used.exits:
            return ()
        if isinstance(unit, cst.BaseCompoundStatement) and not _only_releases(tree, unit, late):
            first, last = (tree.source.row(offset) for offset in tree.spans[unit])
            conditions.append(f"rows {first} to {last} do more than release, and now run before the pool is erased")
        for other in dict.fromkeys(passed):
            if tree.spans[other].start < tree.spans[unit].start and not swap(tree, used, other, conditions):
                return ()
    rewrite = Rewrite(tree)
    rewrite.move_before(order, target)
    return rewrite.edits()


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
    for entered, unit in one[depth + 1 :]:
        if not isinstance(outer, cst.With) or not all(is_passive(item.item) for item in outer.items):
            break
        assert isinstance(entered, Block)
        target = outer = unit
    statements = list(units(block))
    first, last = statements.index(one[depth][1]), statements.index(holder)
    return target, holder, statements[first:last]
