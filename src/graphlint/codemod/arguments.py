"""One more argument of a call."""

from __future__ import annotations

import libcst as cst


def with_argument(call: cst.Call, new: cst.Arg) -> cst.Call:
    """The call with one more argument, set as the others are: all on one line, or each on its own."""
    arguments = [_set_apart(argument) for argument in call.args]
    last = len(arguments) if new.keyword is not None else sum(1 for old in arguments if old.keyword is None)
    index = next((at for at, old in enumerate(arguments) if old.star == "**"), last)
    index = min(index, last)
    opening = call.whitespace_before_args
    broken = isinstance(opening, cst.ParenthesizedWhitespace) and all(
        isinstance(old.comma, cst.Comma) and isinstance(old.comma.whitespace_after, cst.ParenthesizedWhitespace)
        for old in arguments[:-1]
    )
    gap: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    if broken and isinstance(opening, cst.ParenthesizedWhitespace):
        gap = cst.ParenthesizedWhitespace(indent=opening.indent, last_line=opening.last_line)
    if index < len(arguments) or not arguments:
        comma = cst.Comma(whitespace_after=gap) if arguments else cst.MaybeSentinel.DEFAULT
        return call.with_changes(args=[*arguments[:index], new.with_changes(comma=comma), *arguments[index:]])

    old = arguments[-1]
    comma, closing = old.comma, old.whitespace_after_arg
    if isinstance(comma, cst.Comma):
        closing = comma.whitespace_after
    if broken and isinstance(closing, cst.ParenthesizedWhitespace):
        gap = closing.with_changes(indent=gap.indent, last_line=gap.last_line)  # type: ignore[attr-defined]
        closing = cst.ParenthesizedWhitespace(indent=closing.indent, last_line=closing.last_line)
    if isinstance(comma, cst.Comma):
        new = new.with_changes(comma=comma.with_changes(whitespace_after=closing))
    else:
        new = new.with_changes(whitespace_after_arg=closing)
    before = old.with_changes(comma=cst.Comma(whitespace_after=gap), whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*arguments[:-1], before, new])


def _set_apart(argument: cst.Arg) -> cst.Arg:
    """A generator that is a call's only argument needs parentheses when it is not any more."""
    if isinstance(argument.value, cst.GeneratorExp) and not argument.value.lpar:
        return argument.with_changes(value=argument.value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()]))
    return argument
