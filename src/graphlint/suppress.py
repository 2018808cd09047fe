"""Comments that silence a finding: `# graphlint: ignore[rule, other-rule] why it is right here`.

The comment stands on any line of the statement that the finding is reported in, or on lines of its own directly above
it. Of a compound statement (`def`, `with`, `for`, ...) only the header counts, its decorators included: a comment there
says nothing about the body.

    self.pool.empty()  # graphlint: ignore[some-rule] the workspaces were released by stop()

    # graphlint: ignore[other-rule] one engine a process
    release_all(
        engines,
    )

Rules are always named, one by one or as a group: a comment that silences whatever may come says nothing to its next
reader. Text in strings is no comment, which is why files are read with `tokenize`, and only those that have the marker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from graphlint.comments import tokens
from graphlint.source import Source, Span

MARKER = "graphlint:"

_PRAGMA = re.compile(r"#\s*graphlint:\s*(?P<verb>[\w-]*)\s*(?:\[(?P<rules>[^\]]*)\])?", re.IGNORECASE)


@dataclass(frozen=True)
class Pragma:
    """One comment that is addressed to this tool."""

    row: int
    covers: Span
    """The rows of the statement or header that it stands at: what starts there is meant."""
    rules: tuple[str, ...]
    """The rules it names, as written."""
    error: str | None = None
    """Why it silences nothing, where that can be told from the comment alone."""

    def silences(self, span: Span) -> bool:
        """Whether what is reported at `span` is meant, if its rule is."""
        return self.error is None and self.covers.start <= span.start < self.covers.end


def mentions(source: Source) -> bool:
    """Whether a file can hold such a comment."""
    return MARKER.encode() in source.content.lower()


def pragmas(source: Source) -> tuple[Pragma, ...]:
    """The comments of a file that are addressed to this tool, in order of their statements.

    A file that `tokenize` cannot read to its end has those that stand before the fault.
    """
    if not mentions(source):
        return ()
    return tuple(pragma for pragma in _pragmas(source) if pragma is not None)


def _pragmas(source: Source) -> Iterator[Pragma | None]:
    import tokenize

    layout = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    pending: list[tuple[int, str]] = []  # comments whose statement has not ended yet, with their rows
    first = 0  # row in which the statement begins, its decorators included; 0 between statements
    is_decorator = False
    begins_line = True
    for token in tokens(source):
        row = token.start[0]
        if token.type == tokenize.COMMENT:
            if MARKER in token.string.lower():
                pending.append((row, token.string))
        elif token.type == tokenize.NEWLINE:
            begins_line = True
            if not is_decorator:
                yield from (_pragma(source, place, comment, first, row) for place, comment in pending)
                pending.clear()
                first = 0
        elif token.type not in layout:
            if begins_line:
                is_decorator = token.string == "@"
                begins_line = False
            first = first or row
        elif token.type == tokenize.NL and not first and not token.line.strip():
            yield from (_pragma(source, place, comment, 0, 0) for place, comment in pending)
            pending.clear()
    yield from (_pragma(source, place, comment, 0, 0) for place, comment in pending)


def _pragma(source: Source, row: int, comment: str, first: int, last: int) -> Pragma | None:
    """The pragma in a comment, for the statement in the rows `first` to `last`, 0 where there is none."""
    match = _PRAGMA.search(comment)
    if match is None:
        return None
    rules = tuple(word.strip() for word in (match["rules"] or "").split(","))
    error = None
    if match["verb"].lower() != "ignore":
        error = f"{match['verb']!r} means nothing here; write `# graphlint: ignore[rule] reason`"
    elif not all(rules):
        error = "the rule that it ignores is missing; write `# graphlint: ignore[rule] reason`"
    elif not first:
        error = "it stands at no statement, so it ignores nothing"
    starts = (*source.line_starts, len(source.content))
    covers = Span(starts[first - 1], max(starts[last], starts[first - 1] + 1)) if first else Span(0, 0)
    return Pragma(row, covers, rules if error is None else (), error)
