"""Refuses to allocate while capturing what outlives the graph, or allocates it ahead of the capture.

The reported place is the allocation. Where it stands in the block of a capture, the suspect's path holds that capture
(`capture`) with the span of its context in the same function. A suspect's values:

    place           what keeps the memory, as the message names it
    before          `start-end` of what a refusal must precede in the function: the first allocation or collective where
                    the memory is missing; absent where that is the reported allocation
    capturing       qualified name of the project's own test of a capture, callable without arguments; absent where it
                    has none
    unconditional   "yes" where every run allocates, so that a refusal would end every capture
    swallowed       `path:row` of a handler on the way to captured code that would swallow the refusal; absent if none
"""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import codemod
from graphlint.edits import Applicability, Edit, Fix
from graphlint.findings import Finding, Suspect
from graphlint.source import Span
from graphlint.summaries import Analysis

_TEST = "torch.cuda.is_current_stream_capturing"


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    """Nothing yet: the analysis fills in what the module's docstring lists."""
    return iter(())


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
        if handler := finding.values.get("swallowed"):
            conditions.append(f"the handler at {handler} must let the error through")
    if not edits:
        return None
    return Fix(title, Applicability.UNSAFE, edits, tuple(conditions))


def _capture_around(finding: Finding, tree: codemod.Tree) -> codemod.cst.With | None:
    """The capture whose block holds the allocation."""
    for step in finding.trace:
        if step.effect == "capture" and step.path == finding.path and finding.function.contains(step.span):
            block = tree.statement(step.span)
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

    before = finding.values.get("before")
    if before is None:
        return tree.statement(finding.span)
    start, _, end = before.partition("-")
    return tree.statement(Span(int(start), int(end)))
