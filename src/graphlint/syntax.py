"""Python's own parser, with errors that have a place.

Files that no rule can be about are read for their syntax alone, by this module: what `graphlint.facts` adds to it takes
longer to import than such a file to parse.
"""

from __future__ import annotations

import ast
import re
import warnings

from graphlint.source import Source


class ParseError(Exception):
    """A file that does not parse; `offset` is where Python gave up, `newer` says that a newer Python may read it."""

    def __init__(self, message: str, offset: int, newer: bool) -> None:
        super().__init__(message, offset, newer)
        self.message = message
        self.offset = offset
        self.newer = newer


def parse(source: Source, content: bytes | None = None, row: int = 1) -> ast.Module:
    """The syntax tree of a file, or of a piece of it.

    Args:
        source: the file.
        content: the piece; all of the file where it is missing.
        row: where the piece starts in the file.

    Raises:
        ParseError: the text is not Python, or not Python that this interpreter reads.
    """
    content = source.content if content is None else content
    encoding = source.encoding
    text: bytes | str = content if encoding == "utf-8" else content.decode(encoding, "replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        column = max(0, (getattr(error, "offset", None) or 1) - 1)
        line = min(line + row - 1, len(source.line_starts))
        offset = min(source.line_starts[line - 1] + column, len(source.content))
        message = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise ParseError(message, offset, _looks_newer(source)) from None


def _looks_newer(source: Source) -> bool:
    """Whether the file uses syntax that a later Python added than the oldest this tool runs on.

    A `type` statement and type parameters (3.12), template strings (3.14), `except` without parentheses (3.14): if the
    text has one of them, the file is more likely new than wrong.
    """
    return bool(re.search(_NEWER, source.content, re.MULTILINE))


_NEWER = (
    rb"^[ \t]*(?:type[ \t]+\w+(?:\[[^\]\n]*\])?[ \t]*="
    rb"|(?:async[ \t]+)?(?:def|class)[ \t]+\w+\["
    rb"|except\*?[ \t]+[\w.]+[ \t]*,[ \t]*[\w.]+)"
    rb"|\bt[rR]?[\"']"
)
"""Compiled where it is needed: a file that parses never asks."""
