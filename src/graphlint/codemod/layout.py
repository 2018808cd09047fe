"""Keeps changed lines within the width of their file, broken where ruff and black break them."""

from __future__ import annotations

import re

import libcst as cst

_WIDTHS = (88, 100, 120)
_BREAKABLE = re.compile(r"^[^\"'#\r\n]*[\[\](){}:,]$", re.MULTILINE)
"""Lines that a formatter would have broken, had they been too long: no text in them, a bracket or comma at the end."""


def line_width(text: str) -> int:
    """The width that a file's lines keep to: the least of 88, 100, 120 that holds all that could have been broken."""
    longest = max((len(match[0]) for match in _BREAKABLE.finditer(text)), default=0)
    return next((width for width in _WIDTHS if longest <= width), _WIDTHS[-1])


def fitted(line: cst.SimpleStatementLine, column: int, width: int, unit: str) -> cst.SimpleStatementLine:
    """A statement that is too long for one line, with the arguments of its call on lines of their own.

    Args:
        line: the statement.
        column: where it begins.
        width: that the lines shall keep to.
        unit: one level of indentation.
    """
    text = cst.Module([line.with_changes(leading_lines=(), trailing_whitespace=cst.TrailingWhitespace())]).code
    small = line.body[-1]
    call = _call(small)
    if text.count("\n") != 1 or column + len(text) - 1 <= width or call is None:
        return line
    inner = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(unit))
    outer = cst.ParenthesizedWhitespace(indent=True)
    arguments = [*call.args[:-1], call.args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
    code = cst.Module([])
    together = sum(len(code.code_for_node(argument)) for argument in arguments)
    if column + len(unit) + together <= width:
        arguments[-1] = arguments[-1].with_changes(whitespace_after_arg=outer)
    else:
        gap = cst.Comma(whitespace_after=inner)
        arguments = [*(argument.with_changes(comma=gap) for argument in arguments[:-1]), arguments[-1]]
        arguments[-1] = arguments[-1].with_changes(comma=cst.Comma(whitespace_after=outer))
    broken = call.with_changes(whitespace_before_args=inner, args=arguments)
    changed = small.with_deep_changes(call, whitespace_before_args=broken.whitespace_before_args, args=broken.args)
    return line.with_changes(body=[*line.body[:-1], changed])


def _call(small: cst.BaseSmallStatement) -> cst.Call | None:
    """The call whose parentheses end a statement."""
    value: cst.CSTNode | None = None
    if isinstance(small, cst.Assign | cst.AnnAssign | cst.AugAssign | cst.Return | cst.Expr):
        value = small.value
    while isinstance(value, cst.Await):
        value = value.expression
    return value if isinstance(value, cst.Call) and value.args and not value.lpar else None
