"""Puts into a buffer's key what its memory depends on.

The reported place is the request. A suspect's values:

    place       what is asked for, as the message names it
    missing     what the key lacks, as the message names it
    kind        `text` where the registry takes names only, `any` where it takes what can be hashed
    requests    JSON: every place of the reported function whose key has to change, in their order, each an object with
                  key      [start, end] of the expression that is the key, or of the tuple that it is bound to, or of
                           the items of `table[a, b]`
                  parts    texts of expressions to add, in their order; they mean the right thing at that place
                  call     [start, end] of the call that requests; absent for an item of a dictionary
                  reserve  [start, end] of the argument that keeps the buffer from being displaced, or its keyword where
                           the call has none; absent where it is right
    device      text of the device that the registry has to allocate on; absent where the request says it
    parameter   name of a parameter that `parts` and `device` use and the function lacks; absent where it lacks none
    calls       JSON: all calls of the function, each an object with path, call ([start, end]) and value (text to pass)
    capturing   qualified name of the project's own test of a capture; absent where it has none
    constant    "yes" where the missing parts never change for one owner
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graphlint import codemod
from graphlint.edits import Applicability, Fix
from graphlint.findings import Finding, Suspect
from graphlint.source import Span
from graphlint.summaries import Analysis

_TEST = "torch.cuda.is_current_stream_capturing"
_DEVICE = "torch.cuda.device"


class _Request(NamedTuple):
    """A place whose key has to change."""

    key: Span
    parts: tuple[str, ...]
    call: Span | None
    reserve: Span | str | None

    @property
    def place(self) -> Span:
        return self.call or self.key


class _NoTextError(Exception):
    """There is no right text for a part of the rewrite."""


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    """Nothing yet: the analysis fills in what the module's docstring lists."""
    return iter(())


def confirm(suspect: Suspect, module: codemod.Module) -> Finding | None:
    """The finding, unless the reported place is no statement any more."""
    if module.tree(suspect.function).statement(suspect.at) is None:
        return None
    return codemod.confirmed(suspect, module)


def fix(finding: Finding, modules: codemod.Modules) -> Fix | None:
    """Extend the keys, allocate on the right device, and keep what a capture has seen."""
    requests = list(_requests(finding))
    if not requests:
        return None
    rewrites = codemod.Rewrites(modules)
    try:
        _extend_keys(rewrites[finding.path], requests, takes_any=finding.values.get("kind") == "any")
        _reserve(finding, modules, rewrites[finding.path], requests)
        _change_device(finding, modules, rewrites[finding.path], requests)
        _pass_parameter(finding, rewrites)
    except _NoTextError:
        return None
    is_safe = finding.values.get("constant") == "yes"
    return Fix(
        title="name the buffer by all that its memory depends on",
        applicability=Applicability.SAFE if is_safe else Applicability.UNSAFE,
        edits=rewrites.edits(),
        conditions=() if is_safe else ("every size that is asked for keeps a buffer of its own for the process",),
    )


def _requests(finding: Finding) -> Iterator[_Request]:
    for each in json.loads(finding.values.get("requests", "[]")):
        call, reserve = each.get("call"), each.get("reserve")
        yield _Request(
            Span(*each["key"]),
            tuple(each["parts"]),
            Span(*call) if call is not None else None,
            Span(*reserve) if isinstance(reserve, list) else reserve,
        )


def _statement(tree: codemod.Tree, span: Span) -> codemod.Unit:
    """The statement of a function that holds a place."""
    unit = tree.statement(span)
    if unit is None or tree.function(unit) is None:
        raise _NoTextError
    return unit


def _used(tree: codemod.Tree, unit: codemod.Unit) -> codemod.Uses:
    return codemod.uses(tree.function(unit) or tree.root)


def _expression(tree: codemod.Tree, span: Span) -> codemod.cst.BaseExpression:
    node = tree.node_at(span, codemod.cst.BaseExpression)  # type: ignore[type-abstract] # any expression
    if node is None:
        raise _NoTextError
    return node


# ---------------------------------------------------------------------------------------------------------------- keys


def _extend_keys(rewrite: codemod.Rewrite, requests: Sequence[_Request], *, takes_any: bool) -> None:
    tree = rewrite.tree
    if any(_items(tree, request.key) is not None for request in requests):
        for request in requests:
            item = _items(tree, request.key)
            if item is None or not takes_any:
                raise _NoTextError
            for part in request.parts:
                rewrite.add_index(item, part)
        return
    keys = [(_expression(tree, request.key), request.parts) for request in requests]
    shared = {(_text(tree, key), parts) for key, parts in keys}
    if takes_any and len(keys) > 1 and len(shared) == 1 and not isinstance(keys[0][0], codemod.cst.Tuple):
        first = _statement(tree, requests[0].key)
        used = _used(tree, first)
        ((text, parts),) = shared
        name = next(name for name in ("key", "buffer_key", "whole_key") if name not in used.roots | used.binds)
        rewrite.insert_before(first, f"{name} = ({', '.join((text, *parts))})\n")
        for key, _ in keys:
            rewrite.replace(key, name)
        return
    for key, parts in keys:
        rewrite.replace(key, _tuple(tree, key, parts) if takes_any else _name(tree, key, parts))


def _items(tree: codemod.Tree, key: Span) -> codemod.cst.Subscript | None:
    """The item whose several parts are the key: `table[a, b]`."""
    item = tree.enclosing(key, codemod.cst.Subscript)
    if item is None or len(item.slice) < 2:
        return None
    parts = [tree.spans[element] for element in item.slice]
    return item if parts[0].start == key.start and tree.spans[item.slice[-1].slice].end == key.end else None


def _text(tree: codemod.Tree, node: codemod.cst.CSTNode) -> str:
    return tree.source.text(tree.spans[node])


def _tuple(tree: codemod.Tree, key: codemod.cst.BaseExpression, parts: Sequence[str]) -> str:
    """The key as a tuple with more items."""
    if isinstance(key, codemod.cst.Tuple):
        text = ", ".join((*(_text(tree, element) for element in key.elements), *parts))
        return text if key.lpar else f"({text})"
    return f"({', '.join((_text(tree, key), *parts))})"


def _name(tree: codemod.Tree, key: codemod.cst.BaseExpression, parts: Sequence[str]) -> str:
    """The key as a text with more parts.

    Raises:
        _NoTextError: its quotes would end inside of a part, which Python before 3.12 cannot read.
    """
    tail = "".join(f"_{{{part}}}" for part in parts)
    text = _text(tree, key)
    if isinstance(key, codemod.cst.SimpleString) and "b" not in key.prefix:
        prefix, quote = f"f{key.prefix.replace('u', '')}", key.quote
        inside = key.raw_value.replace("{", "{{").replace("}", "}}")
    elif isinstance(key, codemod.cst.FormattedString):
        prefix, quote = key.prefix, key.end
        inside = text[len(key.start) : len(text) - len(key.end)]
    else:
        prefix, quote, inside = "f", "'" if '"' in text else '"', ""
        tail = f"{{{text}}}{tail}"
    if quote[0] in tail or "\\" in tail:
        raise _NoTextError
    return f"{prefix}{quote}{inside}{tail}{quote}"


# ----------------------------------------------------------------------------------------------- reservation and device


def _reserve(
    finding: Finding, modules: codemod.Modules, rewrite: codemod.Rewrite, requests: Sequence[_Request]
) -> None:
    """Keep what a capture asks for: the capture is asked at the request, and once for all of several."""
    tree = rewrite.tree
    changing = [request for request in requests if request.reserve is not None]
    if not changing:
        return
    first = _statement(tree, changing[0].place)
    used = _used(tree, first)
    test = codemod.reference(modules, finding.path, finding.values.get("capturing", _TEST), used)
    if test is None:
        raise _NoTextError
    if test.statement:
        rewrite.insert_before(first, f"{test.statement}\n\n")
    flag = f"{test.expression}()"
    if len(changing) > 1 and "capturing" not in used.roots | used.binds:
        rewrite.insert_before(first, f"capturing = {flag}\n")
        flag = "capturing"
    for request in changing:
        if isinstance(request.reserve, Span):
            rewrite.replace(_expression(tree, request.reserve), flag)
        elif isinstance(call := _expression(tree, request.place), codemod.cst.Call):
            rewrite.add_argument(call, flag, request.reserve)


def _change_device(
    finding: Finding, modules: codemod.Modules, rewrite: codemod.Rewrite, requests: Sequence[_Request]
) -> None:
    """Put the requests under their device: under one header if they share a block."""
    device = finding.values.get("device")
    if device is None:
        return
    tree = rewrite.tree
    statements = list(dict.fromkeys(_statement(tree, request.place) for request in requests))
    context = codemod.reference(modules, finding.path, _DEVICE, _used(tree, statements[0]))
    if context is None or context.statement is not None:
        raise _NoTextError
    header = f"with {context.expression}({device}):"
    if len({tree.path(unit)[-1][0] for unit in statements}) == 1:
        rewrite.wrap(statements[0], statements[-1], header)
        return
    for unit in statements:
        rewrite.wrap(unit, unit, header)


def _pass_parameter(finding: Finding, rewrites: codemod.Rewrites) -> None:
    """Give the function the parameter that it lacks, and pass it in all calls."""
    name = finding.values.get("parameter")
    if name is None:
        return
    rewrite = rewrites[finding.path]
    function = rewrite.tree.function(_statement(rewrite.tree, finding.span))
    assert function is not None
    keyword = None if codemod.takes_positional(function) else name
    try:
        rewrite.add_parameter(function, name)
    except ValueError as error:
        raise _NoTextError from error
    for each in json.loads(finding.values.get("calls", "[]")):
        call = _expression(rewrites[each["path"]].tree, Span(*each["call"]))
        if not isinstance(call, codemod.cst.Call) or any(argument.star for argument in call.args):
            raise _NoTextError
        rewrites[each["path"]].add_argument(call, each["value"], keyword)
