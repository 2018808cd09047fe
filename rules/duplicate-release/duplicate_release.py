"""Deletes the second of two releases of the same graphs, and keeps what else its block does.

The reported place is the call of the second release. A suspect's values:

    place       what is released twice, as the message names it
    dominates   "yes" where every path to the second release has run the first
    skips       the paths that reach the second release without the first, one a line, each a sentence without a period
    beyond      name of the second release, where the first was another function
    between     calls between the two that nobody knows, one a line
    alike       which names stand for one object, where they need not, as a sentence without a period; absent otherwise
    again       what the second release does beyond the first, as a sentence without a period (`it retires the handle
                that the next capture uses`); absent where it does nothing
"""

from __future__ import annotations

import libcst as cst

from graphlint.codemod import Block, Module, Modules, Rewrite, Tree, Unit, confirmed, is_pure, units, uses
from graphlint.edits import Applicability, Fix
from graphlint.findings import Finding, Suspect


def confirm(suspect: Suspect, module: Module) -> Finding | None:
    """The finding, unless the reported place is no statement of the function any more."""
    tree = module.tree(suspect.function)
    if tree.statement(suspect.at) is None:
        return None
    notes = [suspect.values[key] for key in ("again", "alike") if key in suspect.values]
    return confirmed(suspect, module, *notes)


def fix(finding: Finding, modules: Modules) -> Fix | None:
    """Delete the second release, and the gates, loops and imports that nothing else needs."""
    tree = modules[finding.path].tree(finding.function)
    release = tree.statement(finding.span)
    if release is None or not _is_release_alone(tree, release, finding):
        return None
    if "alike" in finding.values:
        return None  # where they are two objects, each needs its release
    rewrite = Rewrite(tree)
    rewrite.delete(release)
    for statement in _needless_imports(tree, release):
        rewrite.delete(statement)
    conditions: list[str] = []
    if finding.values.get("dominates") != "yes":
        skips = [line for line in finding.values.get("skips", "").splitlines() if line]
        if not skips:
            return None  # some path needs this release, and which one that is has no name
        conditions += [f"nothing releases where {skip}" for skip in skips]
    if beyond := finding.values.get("beyond"):
        conditions.append(f"what else {beyond}() does is done elsewhere")
    conditions += [f"`{call}` captures nothing" for call in finding.values.get("between", "").splitlines()]
    return Fix(
        title="remove the second release",
        applicability=Applicability.UNSAFE if conditions else Applicability.SAFE,
        edits=rewrite.edits(),
        conditions=tuple(conditions),
    )


def _is_release_alone(tree: Tree, statement: Unit, finding: Finding) -> bool:
    """Whether the statement is the release and nothing else, so that deleting it loses nothing."""
    if not isinstance(statement, cst.Expr):
        return False
    value = statement.value
    if isinstance(value, cst.Await):
        value = value.expression
    if isinstance(value, cst.BaseComp):
        if not all(is_pure(part) for part in (value.for_in.iter, *(each.test for each in value.for_in.ifs))):
            return False
        value = value.elt  # type: ignore[attr-defined] # all but a dict's have one
    if not isinstance(value, cst.Call):
        return False
    return tree.spans[value].contains(finding.span) and all(is_pure(argument.value) for argument in value.args)


def _needless_imports(tree: Tree, deleted: Unit) -> list[Unit]:
    """Imports inside the function whose names only the deleted statement reads."""
    function = tree.function(deleted)
    if function is None:
        return []
    found: list[Unit] = []
    for block, unit in tree.path(deleted):
        for other in units(block):
            if other is unit:
                break
            if isinstance(other, cst.Import | cst.ImportFrom) and tree.function(other) is function:
                bound = uses(other).binds
                if bound & uses(deleted).roots and not bound & _roots_without(function, deleted):
                    found.append(other)
    return found


def _roots_without(function: cst.FunctionDef, deleted: Unit) -> frozenset[str]:
    rest = function.deep_remove(deleted)
    assert isinstance(rest, cst.FunctionDef)
    assert isinstance(rest.body, Block)
    return uses(rest.body).roots
