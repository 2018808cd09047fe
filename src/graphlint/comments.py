"""The comments of a file, wherever they stand."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphlint.source import Source

if TYPE_CHECKING:
    from tokenize import TokenInfo


def tokens(source: Source) -> Iterator[TokenInfo]:
    """The tokens of a file, up to where it cannot be read any further. Their rows are those of `Source`."""
    import tokenize

    # `Source` ends a row after a lone CR too, as Python does; so does universal newline translation.
    text = io.StringIO(source.content.decode(source.encoding, "replace"), newline=None)
    try:
        yield from tokenize.generate_tokens(text.readline)
    except (tokenize.TokenError, SyntaxError):
        return


def lost(before: Source, after: Source) -> tuple[str, ...]:
    """The comments that `before` has more often than `after`, in their order."""
    missing = Counter(_comments(before)) - Counter(_comments(after))
    return tuple(missing.elements())


def _comments(source: Source) -> Iterator[str]:
    import tokenize

    return (token.string for token in tokens(source) if token.type == tokenize.COMMENT)
