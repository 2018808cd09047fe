"""One more argument of a call or parameter of a function, set as the others are: on one line, or each on its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import libcst as cst

_Item = TypeVar("_Item", bound=cst.CSTNode)


def with_argument(call: cst.Call, new: cst.Arg) -> cst.Call:
    """The call with one more argument: behind the positional ones or behind all, but in front of a `**mapping`."""
    arguments = [_set_apart(argument) for argument in call.args]
    last = len(arguments) if new.keyword is not None else sum(1 for old in arguments if old.keyword is None)
    index = min(last, next((at for at, old in enumerate(arguments) if old.star == "**"), last))
    return call.with_changes(
        args=_with_item(arguments, index, new, call.whitespace_before_args, "whitespace_after_arg")
    )


def with_parameter(function: cst.FunctionDef, new: cst.Param) -> cst.FunctionDef:
    """The function with one more parameter: the last positional one, or a keyword where a default or `*` stands before.

    Raises:
        ValueError: the function takes its parameters in a way that leaves no room for another one.
    """
    old = function.params
    if old.posonly_params:
        raise ValueError("positional-only parameters")
    positional = takes_positional(function)
    star = [old.star_arg] if isinstance(old.star_arg, cst.Param | cst.ParamStar) else []
    end = [old.star_kwarg] if old.star_kwarg is not None else []
    items: list[cst.CSTNode] = [*old.params, *star, *old.kwonly_params]
    opening, behind = function.whitespace_before_params, "whitespace_after_param"
    at = len(items)
    items = _with_item([*items, *end], at, new, opening, behind)
    if not positional and not star:
        items = _with_item(items, at, cst.ParamStar(), opening, behind)
    items, end = items[: len(items) - len(end)], items[len(items) - len(end) :]  # type: ignore[assignment]
    count = len(old.params) + positional
    params = old.with_changes(
        params=items[:count],
        star_arg=items[count] if items[count:] else cst.MaybeSentinel.DEFAULT,
        kwonly_params=items[count + 1 :],
        star_kwarg=end[0] if end else None,
    )
    return function.with_changes(params=params)


def takes_positional(function: cst.FunctionDef) -> bool:
    """Whether one more parameter can be positional: no default and no star stands before it."""
    params = function.params
    plain = not isinstance(params.star_arg, cst.Param | cst.ParamStar) and not params.kwonly_params
    return plain and params.star_kwarg is None and all(each.default is None for each in params.params)


def _with_item(
    items: Sequence[_Item], index: int, new: _Item, opening: cst.BaseParenthesizableWhitespace, behind: str
) -> list[_Item]:
    """Items between parentheses with one more.

    Args:
        items: as they are, each with its comma.
        index: of the new one.
        new: without a comma.
        opening: what stands between the parenthesis and the first item.
        behind: name of the attribute that says what stands between an item and the closing parenthesis.
    """
    broken = isinstance(opening, cst.ParenthesizedWhitespace) and all(
        isinstance(comma := getattr(old, "comma", None), cst.Comma)
        and isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace)
        for old in items[:-1]
    )
    gap: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    if broken and isinstance(opening, cst.ParenthesizedWhitespace):
        gap = cst.ParenthesizedWhitespace(indent=opening.indent, last_line=opening.last_line)
    if index < len(items):
        return [*items[:index], new.with_changes(comma=cst.Comma(whitespace_after=gap)), *items[index:]]
    if not items:
        return [new]

    old = items[-1]
    comma = getattr(old, "comma", None)
    closing = comma.whitespace_after if isinstance(comma, cst.Comma) else getattr(old, behind, cst.SimpleWhitespace(""))
    if broken and isinstance(closing, cst.ParenthesizedWhitespace):
        gap = closing.with_changes(indent=gap.indent, last_line=gap.last_line)  # type: ignore[attr-defined]
        closing = cst.ParenthesizedWhitespace(indent=closing.indent, last_line=closing.last_line)
    if isinstance(comma, cst.Comma):
        new = new.with_changes(comma=comma.with_changes(whitespace_after=closing))
    elif hasattr(new, behind):
        new = new.with_changes(**{behind: closing})
    old = old.with_changes(comma=cst.Comma(whitespace_after=gap))
    if hasattr(old, behind):
        old = old.with_changes(**{behind: cst.SimpleWhitespace("")})
    return [*items[:-1], old, new]


def _set_apart(argument: cst.Arg) -> cst.Arg:
    """A generator that is a call's only argument needs parentheses when it is not any more."""
    if isinstance(argument.value, cst.GeneratorExp) and not argument.value.lpar:
        value = argument.value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return argument.with_changes(value=value)
    return argument
