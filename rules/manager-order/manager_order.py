"""Puts the release of graphs in front of the release of memory that they read.

A suspect's path holds the release of the memory (`kv_release`, `ws_release` or `comm_destroy`) and the graphs' death
(`graph_death`), which is reported; their spans are the calls or statements of the reported function through which these
effects happen. Its values:

    place       the memory, as the message names it
    changes     names of attributes that the graphs' release changes, separated by spaces
    within      calls in the functions that release which nobody knows, one a line
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from graphlint.codemod import (
    Module,
    Modules,
    Rewrite,
    Tree,
    Unit,
    asserts,
    clash,
    confirmed,
    deeds,
    done,
    dotted,
    exclusive,
    facing,
    meeting,
    swap,
    uses,
    with_supply,
)
from graphlint.edits import Applicability, Edit, Fix
from graphlint.findings import Finding, Suspect

_RELEASES = ("kv_release", "ws_release", "comm_destroy")


def confirm(suspect: Suspect, module: Module) -> Finding | None:
    """The finding, unless the syntax says that no run passes the release of the memory and then that of the graphs."""
    tree = module.tree(suspect.function)
    death, release = tree.statement(suspect.at), _release(suspect, tree)
    if death is None or (release is not None and exclusive(tree, release, death)):
        return None
    return confirmed(suspect, module)


def fix(finding: Finding, modules: Modules) -> Fix | None:
    """Let the two releases change places, where nothing between or in them speaks against it."""
    tree = modules[finding.path].tree(finding.function)
    death, release = tree.statement(finding.span), _release(finding, tree)
    if death is None or release is None or tree.function(death) is not tree.function(release):
        return None
    conditions = ["nothing else refers to what is dropped, so that its graphs die there"] if _is_drop(death) else []
    conditions += [f"{call} captures nothing" for call in finding.values.get("within", "").splitlines()]
    conditions += _asked(tree, release, death, frozenset(finding.values.get("changes", "").split()))
    edits = _in_one_block(tree, release, death, conditions) or _across_finally(tree, release, death)
    if not edits:
        return None
    return Fix(
        title="release the graphs before the memory that they read",
        applicability=Applicability.UNSAFE if conditions else Applicability.SAFE,
        edits=edits,
        conditions=tuple(conditions),
    )


def _release(found: Suspect | Finding, tree: Tree) -> Unit | None:
    """The statement of the reported function through which the memory is released."""
    for step in found.trace:
        if step.effect in _RELEASES and step.path == found.path and found.function.contains(step.span):
            return tree.statement(step.span)
    return None


def _asked(tree: Tree, release: Unit, death: Unit, changes: frozenset[str]) -> Iterator[str]:
    """Tests in front of the graphs' release that ask, of whatever object, for something that it changes of its own."""
    met = meeting(tree, release, death)
    if met is None:
        return
    first, last, between = met
    inside = [node for node in tree.spans if isinstance(node, cst.If | cst.While | cst.IfExp)]
    for unit in (first, *between):
        for node in inside:
            named = changes & _attributes(node.test)
            if unit is not last and named and tree.spans[unit].contains(tree.spans[node]):
                row = tree.source.row(tree.spans[node].start)
                yield f"row {row} asks for another object's `{min(named)}`, not for what the graphs' release changes"


def _attributes(test: cst.BaseExpression) -> frozenset[str]:
    found: set[str] = set()
    waiting: list[cst.CSTNode] = [test]
    while waiting:
        each = waiting.pop()
        waiting += each.children
        if isinstance(each, cst.Attribute):
            found.add(each.attr.value)
    return frozenset(found)


def _is_drop(death: Unit) -> bool:
    """Whether the graphs die because a reference is given up."""
    return isinstance(death, cst.Del) or (isinstance(death, cst.Assign) and dotted(death.value) == "None")


def _in_one_block(tree: Tree, release: Unit, death: Unit, conditions: list[str]) -> tuple[Edit, ...]:
    """The statement that holds the graphs' release moved up, or the other one down, behind what waits or is not known."""
    met = meeting(tree, release, death)
    if met is None:
        return ()
    first, last, between = met
    around = [
        f"{deed}: it may not need the graphs any more"
        for deed in deeds(tree, first, known=[release])
        if first is not death
    ] + [f"{deed}: it may not need the memory to be gone" for deed in deeds(tree, last, known=[death])]
    if between and not any(done(tree, *between)):  # it may still be a sign to others, such as a flag
        rest, trusted = [*between, last], list[str]()
        if _may_overtake(tree, rest, [first], trusted) and not trusted:
            conditions += around
            rewrite = Rewrite(tree)
            rewrite.move_before(rest, first)
            return rewrite.edits()
    if not any(done(tree, *between)):
        chosen = with_supply(last, [first, *between])
        if chosen is not None and first not in chosen:
            passed = [unit for unit in (first, *between) if unit not in chosen]
            if _may_overtake(tree, chosen, passed, conditions):
                conditions += around
                rewrite = Rewrite(tree)
                rewrite.move_before(chosen, first)
                return rewrite.edits()
    rest = [*between, last]
    if not _may_overtake(tree, rest, [first], conditions):
        return ()
    conditions += around
    conditions += [
        f"row {tree.source.row(tree.spans[deed.node].start)} {deed.text}: it may neither need the memory to be gone nor make it anew"
        for deed in done(tree, *between)
        if not deed.waits
    ]
    rewrite = Rewrite(tree)
    rewrite.move_before(rest, first)
    return rewrite.edits()


def _may_overtake(tree: Tree, moved: Sequence[Unit], passed: Sequence[Unit], conditions: list[str]) -> bool:
    """Whether statements may run before others that stand in front of them; reasons that rest on trust are conditions.

    A statement that is overtaken must not use what the moved ones release.
    """
    found: list[str] = []
    for unit in moved:
        used = uses(unit)
        if used.suspends or used.exits or asserts(unit):
            return False
        for other in passed:
            if tree.spans[other].start < tree.spans[unit].start and not swap(tree, used, other, found):
                return False
    if any(" uses " in condition for condition in found):
        return False
    conditions += found
    return True


def _across_finally(tree: Tree, release: Unit, death: Unit) -> tuple[Edit, ...]:
    """The body of a `try` and its `finally` swapped: whichever fails, the other one still runs."""
    faced = facing(tree, release, death)
    if faced is None:
        return ()
    _, body, final = faced
    one, other = uses(*body), uses(*final)
    if one.exits or one.suspends or other.exits or other.suspends or clash(one, other) is not None:
        return ()
    if any(done(tree, *body, known=[release])) or any(done(tree, *final, known=[death])):
        return ()  # what else they do would change places too
    rewrite = Rewrite(tree)
    rewrite.move_before(final, body[0])
    rewrite.move_before(body, final[0])
    return rewrite.edits()
