"""Lines of statements with what stands above and behind them: blank lines and comments find a place when code moves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import libcst as cst

from graphlint.codemod.reading import comments
from graphlint.codemod.tree import Unit

Statement: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement
"""What LibCST keeps in a block: a line of small statements, or a compound one."""

BLANK = cst.EmptyLine(indent=False)

_TOOLS = (
    "fmt",
    "graphlint",
    "isort",
    "mypy",
    "noqa",
    "nosec",
    "pragma",
    "pylint",
    "pyright",
    "ruff",
    r"type:\s*ignore",
)
_PRAGMA = re.compile(rf"#\s*({'|'.join(_TOOLS)})\b", re.IGNORECASE)


def spread(old: Sequence[cst.BaseSmallStatement], line: cst.SimpleStatementLine) -> list[tuple[Unit, Statement]]:
    """Each statement of a line on a line of its own; `old` are the statements as they were before any change."""
    last = len(old) - 1
    return [
        (
            unit,
            cst.SimpleStatementLine(
                [small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)],
                line.leading_lines if index == 0 else (),
                line.trailing_whitespace if index == last else cst.TrailingWhitespace(),
            ),
        )
        for index, (unit, small) in enumerate(zip(old, line.body, strict=True))
    ]


def lines_of(block: cst.BaseSuite) -> list[Statement]:
    """The statements of a block, each on a line of its own."""
    if isinstance(block, cst.SimpleStatementSuite):
        line = cst.SimpleStatementLine(block.body, (), block.trailing_whitespace)
        return [statement for _, statement in spread(block.body, line)]
    assert isinstance(block, cst.IndentedBlock)
    return list(block.body)  # type: ignore[arg-type] # LibCST declares a base class of the two kinds of statement


def split(lines: Sequence[cst.EmptyLine]) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """Blank lines in front, and the rest."""
    count = next((index for index, line in enumerate(lines) if line.comment is not None), len(lines))
    return list(lines[:count]), list(lines[count:])


def flush(statement: Statement) -> Statement:
    """The statement with nothing in the blank lines above it, wherever it will stand."""
    lines = [BLANK if line.comment is None else line for line in statement.leading_lines]
    return statement.with_changes(leading_lines=lines)


def led_by(statement: Statement, lines: Sequence[cst.EmptyLine]) -> Statement:
    """The statement with more lines above its own; one run of blank lines is enough between two."""
    own = list(statement.leading_lines)
    if not any(line.comment is not None for line in lines):
        lines = [] if own and own[0].comment is None else list(lines)
    return statement.with_changes(leading_lines=[*lines, *own]) if lines else statement


def bare(statement: Statement) -> Statement:
    """The statement without blank lines above its comments."""
    return statement.with_changes(leading_lines=split(statement.leading_lines)[1])


def comment_lines(*nodes: cst.CSTNode, without: Sequence[cst.CSTNode] = ()) -> list[cst.EmptyLine]:
    """The comments in some nodes as lines, without those of other nodes, and without what a line's end tells a tool."""
    surviving = {comment for comment, _ in comments(*without)}
    return [
        cst.EmptyLine(comment=comment)
        for comment, ends_line in comments(*nodes)
        if comment not in surviving and not (ends_line and _PRAGMA.match(comment.value))
    ]


def left_behind(statement: Statement) -> list[cst.EmptyLine]:
    """The lines that outlive a statement: what stands above it, and its comments."""
    return [*statement.leading_lines, *comment_lines(statement, without=statement.leading_lines)]
