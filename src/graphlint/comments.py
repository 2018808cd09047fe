"""The comments of a file, wherever they stand."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from graphlint.edits import Edit, apply
from graphlint.source import Source, Span

if TYPE_CHECKING:
    from tokenize import TokenInfo


def tokens(source: Source) -> Iterator[TokenInfo]:
    """The tokens of a file, up to where it cannot be read any further. Their rows are those of `Source`."""
    import tokenize

    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        yield from _tokens(source.content, source.encoding)


def lost(source: Source, edits: Sequence[Edit], function: Span | None = None) -> tuple[str, ...]:
    """The comments that a file has less often after edits, in their order.

    Args:
        source: the file before.
        edits: of it.
        function: where they may all be; the lines of others are not read then.

    Raises:
        OverlapError: the edits do not go together.
    """
    lines = function and _lines(source, function)
    if lines is not None and all(lines.contains(edit.span) for edit in edits):
        moved = [replace(edit, span=Span(*(offset - lines.start for offset in edit.span))) for edit in edits]
        before = source.content[slice(*lines)]
        found = _missing(before, apply(moved, before), source.encoding)
        if found is not None:
            return found
    after = Source(source.path, apply(edits, source.content))
    return _fewer(_comments(tokens(source)), _comments(tokens(after)))


def _lines(source: Source, function: Span) -> Span | None:
    """The lines of a function; None where something else stands in front of it on its first."""
    starts = source.line_starts
    start = starts[source.row(function.start) - 1]
    if source.content[start : function.start].strip():
        return None
    following = source.row(max(function.start, function.end - 1))
    return Span(start, starts[following] if following < len(starts) else len(source.content))


def _missing(before: bytes, after: bytes, encoding: str) -> tuple[str, ...] | None:
    """The comments that a piece of a file has more often before than after; None where it is not whole lines of code."""
    import tokenize

    try:
        return _fewer(*([*_comments(_tokens(content, encoding))] for content in (before, after)))
    except (tokenize.TokenError, SyntaxError):
        return None


def _fewer(before: Iterable[str], after: Iterable[str]) -> tuple[str, ...]:
    return tuple((Counter(before) - Counter(after)).elements())


def _tokens(content: bytes, encoding: str) -> Iterator[TokenInfo]:
    import tokenize

    # `Source` ends a row after a lone CR too, as Python does; so does universal newline translation.
    return tokenize.generate_tokens(io.StringIO(content.decode(encoding, "replace"), newline=None).readline)


def _comments(found: Iterable[TokenInfo]) -> Iterator[str]:
    import tokenize

    return (token.string for token in found if token.type == tokenize.COMMENT)
