"""Keeps changed lines within the width of their file, broken where ruff and black break them."""

from __future__ import annotations

import re

import libcst as cst

from graphlint.codemod.reading import comments

_WIDTHS = (88, 100, 120)
_BREAKABLE = re.compile(r"^[^\"'#\r\n]*[\[\](){}:,]$", re.MULTILINE)
"""Lines that a formatter would have broken, had they been too long: no text in them, a bracket or comma at the end."""


def line_width(text: str) -> int:
    """The width that a file's lines keep to: the least of 88, 100, 120 that holds all that could have been broken."""
    longest = max((len(match[0]) for match in _BREAKABLE.finditer(text)), default=0)
    return next((width for width in _WIDTHS if longest <= width), _WIDTHS[-1])


def fitted(line: cst.SimpleStatementLine, column: int, width: int, unit: str) -> cst.SimpleStatementLine:
    """A statement whose lines are too long, with the arguments of its call on lines of their own.

    Args:
        line: the statement.
        column: where it begins.
        width: that the lines shall keep to.
        unit: one level of indentation.
    """
    text = cst.Module([line.with_changes(leading_lines=(), trailing_whitespace=cst.TrailingWhitespace())]).code
    small = line.body[-1]
    call = _call(small)
    if call is None or all(column + len(part) <= width for part in text.splitlines()) or any(comments(call)):
        return line
    inner = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(unit))
    outer = cst.ParenthesizedWhitespace(indent=True)
    tight = cst.SimpleWhitespace("")
    gap = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    arguments = [argument.with_changes(comma=gap, whitespace_after_arg=tight) for argument in call.args]
    arguments[-1] = arguments[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    code = cst.Module([])
    together = sum(len(code.code_for_node(argument)) for argument in arguments)
    if len(arguments) == 1 or column + len(unit) + together <= width:
        arguments[-1] = arguments[-1].with_changes(whitespace_after_arg=outer)
    else:
        arguments = [argument.with_changes(comma=cst.Comma(whitespace_after=inner)) for argument in arguments]
        arguments[-1] = arguments[-1].with_changes(comma=cst.Comma(whitespace_after=outer))
    broken = call.with_changes(whitespace_before_args=inner, args=arguments)
    changed = small.with_deep_changes(call, whitespace_before_args=broken.whitespace_before_args, args=broken.args)
    return line.with_changes(body=[*line.body[:-1], changed])


class Fitter(cst.CSTTransformer):
    """Fits all lines of statements that begin at one column."""

    def __init__(self, column: int, width: int, unit: str) -> None:
        super().__init__()
        self._column = column
        self._width = width
        self._unit = unit

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Count a block in."""
        if isinstance(node, cst.IndentedBlock):
            self._column += len(self._unit)
        return True

    def on_leave(  # type: ignore[override] # a node stays of its kind
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        """Fit a line."""
        if isinstance(original_node, cst.IndentedBlock):
            self._column -= len(self._unit)
        if isinstance(updated_node, cst.SimpleStatementLine):
            return fitted(updated_node, self._column, self._width, self._unit)
        return updated_node


def _call(small: cst.BaseSmallStatement) -> cst.Call | None:
    """The call whose parentheses end a statement."""
    value: cst.CSTNode | None = None
    if isinstance(small, cst.Assign | cst.AnnAssign | cst.AugAssign | cst.Return | cst.Expr):
        value = small.value
    elif isinstance(small, cst.Raise):
        value = small.exc
    while isinstance(value, cst.Await):
        value = value.expression
    return value if isinstance(value, cst.Call) and value.args and not value.lpar else None
