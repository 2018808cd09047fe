"""What becomes of a compound statement when a block of it has lost statements.

Where nobody can miss it, it goes, or gives up the part that is empty; else the block holds a `pass`. Comments stay
where the statement was.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeVar

import libcst as cst

from graphlint.codemod.lines import Statement, bare, comment_lines, led_by, left_behind, lines_of, split
from graphlint.codemod.reading import dotted, is_passive, is_pure, negated, reads_outside, uses
from graphlint.codemod.tree import Block, Tree, Unit, units

_Holder = TypeVar("_Holder", bound=cst.CSTNode)


class Settled(NamedTuple):
    """The statements that a statement has turned into, and the comment lines that outlive it behind them."""

    statements: list[Statement]
    lines: list[cst.EmptyLine]


def blocks(statement: cst.BaseCompoundStatement) -> Iterator[cst.CSTNode]:
    """The blocks of a compound statement, those of its `elif`s included."""
    parts: list[cst.CSTNode | None] = [statement]
    while parts:
        part = parts.pop()
        if part is None:
            continue
        if (body := getattr(part, "body", None)) is not None:
            yield body
        parts += [getattr(part, "orelse", None), getattr(part, "finalbody", None)]
        parts += [*getattr(part, "handlers", ()), *getattr(part, "cases", ())]


def settled(tree: Tree, unit: Unit, statement: Statement, shrunk: AbstractSet[cst.CSTNode]) -> Settled:
    """What a statement turns into.

    Args:
        tree: before all changes.
        unit: the statement in it.
        statement: the same after the changes inside it.
        shrunk: blocks of the tree that have lost statements.
    """
    match statement:
        case cst.If():
            assert isinstance(unit, cst.If)
            return _settled_if(tree, unit, statement, shrunk)
        case cst.For() if _is_empty(statement.body):
            assert isinstance(unit, cst.For)
            if is_pure(statement.iter) and not _outlives(tree, unit):
                return _hoisted(statement, statement.orelse)
            return Settled([_passing(statement)], [])
        case cst.With() if _is_empty(statement.body):
            if all(is_passive(item.item) for item in statement.items):
                return _hoisted(statement)
            return Settled([_passing(statement)], [])
        case cst.Try() | cst.TryStar():
            return _settled_try(statement)
        case cst.FunctionDef() | cst.ClassDef() | cst.While() if _is_empty(statement.body):
            return Settled([_passing(statement)], [])
        case cst.Match() if any(_is_empty(case.body) for case in statement.cases):
            cases = [_passing(case) if _is_empty(case.body) else case for case in statement.cases]
            return Settled([statement.with_changes(cases=cases)], [])
    return Settled([statement], [])


def without_guards(body: list[Statement]) -> Settled:
    """A loop's body without `if ...: continue` where that would skip nothing, or one statement alone."""
    lines: list[cst.EmptyLine] = []
    while body and (guard := _guard(body[-1])) is not None and is_pure(guard.test):
        lines = [*left_behind(guard), *lines]
        body = body[:-1]
    if len(body) == 2 and (guard := _guard(body[0])) is not None and isinstance(body[1], cst.SimpleStatementLine):
        only = led_by(bare(body[1]), comment_lines(guard.body))
        body = [guard.with_changes(test=negated(guard.test), body=cst.IndentedBlock([only]))]
    return Settled(body, lines)


def _settled_if(tree: Tree, original: cst.If, node: cst.If, shrunk: AbstractSet[cst.CSTNode]) -> Settled:
    is_elif = isinstance(tree.parents.get(original), cst.If)
    left: list[cst.EmptyLine] = []
    if isinstance(node.orelse, cst.If):
        assert isinstance(original.orelse, cst.If)
        others, left = _settled_if(tree, original.orelse, node.orelse, shrunk)
        other = others[0] if others else None
        node = node.with_changes(orelse=other) if other is not node.orelse else node
    elif isinstance(node.orelse, cst.Else) and _is_empty(node.orelse.body):
        left = comment_lines(node.orelse)
        node = node.with_changes(orelse=None)
    if _is_empty(node.body):
        lines = comment_lines(node.body)
        if node.orelse is None and is_pure(node.test):
            return Settled([], [*node.leading_lines, *lines, *left])
        if isinstance(node.orelse, cst.Else) and not is_elif:
            lines += comment_lines(*node.orelse.leading_lines)
            first, *rest = lines_of(node.orelse.body)
            footer = node.orelse.body.footer if isinstance(node.orelse.body, cst.IndentedBlock) else ()
            body = cst.IndentedBlock([led_by(first, lines), *rest], footer=footer)
            return Settled([node.with_changes(test=negated(node.test), body=body, orelse=None)], left)
        return Settled([_passing(node)], left)
    if original.body in shrunk and not is_elif and (line := _needless_gate(node)) is not None:
        return Settled([line], left)
    return Settled([node], left)


def _settled_try(node: cst.Try | cst.TryStar) -> Settled:
    if _is_empty(node.body):
        return _hoisted(node, node.orelse, node.finalbody)
    left: list[cst.EmptyLine] = []
    changes: dict[str, object] = {}
    if any(_is_empty(handler.body) for handler in node.handlers):
        changes["handlers"] = [_passing(handler) if _is_empty(handler.body) else handler for handler in node.handlers]
    if node.orelse is not None and _is_empty(node.orelse.body):
        left += comment_lines(node.orelse)
        changes["orelse"] = None
    if node.finalbody is not None and _is_empty(node.finalbody.body):
        if not node.handlers:
            return _hoisted(node, node)
        left += comment_lines(node.finalbody)
        changes["finalbody"] = None
    return Settled([node.with_changes(**changes)] if changes else [node], left)


def _hoisted(node: Statement, *parts: cst.Try | cst.TryStar | cst.Else | cst.Finally | None) -> Settled:
    """The statements of those parts of a compound statement that outlive it, or its comments alone."""
    kept = [line for part in parts if part is not None for line in lines_of(part.body)]
    lines = [*split(node.leading_lines)[0], *comment_lines(node, without=kept)]
    if not kept:
        return Settled([], lines)
    return Settled([led_by(bare(kept[0]), lines), *kept[1:]], [])


def _outlives(tree: Tree, loop: cst.For) -> bool:
    """Whether somebody may read a loop's variables behind it."""
    function = tree.function(loop) or tree.root
    return bool(uses(loop.target).roots & reads_outside(function, loop))


def _guard(statement: Statement) -> cst.If | None:
    """`if ...: continue`, without an `else`."""
    if isinstance(statement, cst.If) and statement.orelse is None:
        assert isinstance(statement.body, Block)
        inside = list(units(statement.body))
        if len(inside) == 1 and isinstance(inside[0], cst.Continue):
            return statement
    return None


def _needless_gate(node: cst.If) -> cst.SimpleStatementLine | None:
    """`x = None` where `if x is not None:` is all that guards it."""
    test = node.test
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1 or node.orelse is not None:
        return None
    only = test.comparisons[0]
    if not isinstance(only.operator, cst.IsNot) or dotted(only.comparator) != "None" or len(node.body.body) != 1:
        return None
    line = node.body.body[0]
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    small = line.body[0]
    if not isinstance(small, cst.Assign) or len(small.targets) != 1 or dotted(small.value) != "None":
        return None
    place = dotted(small.targets[0].target)
    if place is None or place != dotted(test.left):
        return None
    outer = comment_lines(node.body, without=[line])
    return line.with_changes(leading_lines=[*node.leading_lines, *outer, *split(line.leading_lines)[1]])


def _is_empty(block: cst.BaseSuite) -> bool:
    """Only a deletion leaves a block without statements."""
    return isinstance(block, cst.IndentedBlock) and not block.body


def _passing(holder: _Holder) -> _Holder:
    """The holder of an emptied block, with a `pass` under the block's comments."""
    block = getattr(holder, "body", None)
    assert isinstance(block, cst.IndentedBlock)
    line = cst.SimpleStatementLine([cst.Pass()], block.footer)
    return holder.with_changes(body=block.with_changes(body=[line], footer=()))
