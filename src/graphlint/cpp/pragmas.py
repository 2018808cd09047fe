"""Comments in C++ that silence a finding: `// graphlint: ignore[rule, other-rule] why it is right here`.

They mean what they mean in Python (`graphlint.suppress`): the comment stands on any line of the statement that the
finding is reported in, or on lines of its own directly above it; of a compound statement (`if`, `for`, a function) only
the header counts, up to its brace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from graphlint.source import Source, Span
from graphlint.suppress import MARKER, Pragma, mentions

_PRAGMA = re.compile(r"graphlint:\s*(?P<verb>[\w-]*)\s*(?:\[(?P<rules>[^\]]*)\])?", re.IGNORECASE)
_TOKEN = re.compile(
    rb"(?P<comment>//(?:[^\n\\]|\\\r?\n|\\.)*|/\*.*?(?:\*/|\Z))"
    rb'|R"(?P<raw>[^()\\\s]{0,16})\(.*?\)(?P=raw)"'
    rb'|"(?:\\.|[^"\\\n])*"'
    rb"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'"
    rb"|(?P<directive>^[ \t]*\#(?:[^\n\\]|\\\r?\n|\\.)*)"
    rb"|(?P<word>[A-Za-z_]\w*)"
    rb"|[^\s]",
    re.DOTALL | re.MULTILINE,
)
_BLOCK_WORDS = frozenset({b"class", b"struct", b"union", b"enum", b"namespace", b"extern", b"else", b"do", b"try"})
_BEFORE_BLOCK = frozenset(
    {b")", b"else", b"do", b"try", b"const", b"override", b"final", b"noexcept", b"mutable", b":"}
)


def pragmas(source: Source) -> tuple[Pragma, ...]:
    """The comments of a file that are addressed to this tool, in order of their statements."""
    if not mentions(source):
        return ()
    return tuple(_Scan(source).pragmas())


@dataclass
class _Statement:
    """What is known about the statement at hand; `first` is the row it begins in, 0 between statements."""

    first: int = 0
    opened: list[bytes] = field(default_factory=list)
    """Brackets that are open in it."""
    begins_with: bytes = b""
    last_token: bytes = b""


class _Scan:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.outer: list[_Statement] = []
        """Statements around the one at hand, where it stands in the body of a lambda among their arguments."""
        self.at = _Statement()
        self.pending: list[tuple[int, int, str]] = []
        """Comments whose statement has not ended yet: their first and last row, and their text."""
        self.ended = (0, 0)
        """Rows of the statement that ended last."""

    def pragmas(self) -> Iterator[Pragma]:
        content = self.source.content
        for match in _TOKEN.finditer(content):
            row = self.source.row(match.start())
            if match["comment"] is not None:
                text = match.group().decode("utf-8", "replace")
                if MARKER in text.lower():
                    last = self.source.row(match.end() - 1)
                    if not self.at.first and self.ended[1] == row:
                        yield from self._pragma(row, text, *self.ended)
                    else:
                        self.pending.append((row, last, text))
            elif match["directive"] is None:
                yield from self._token(match.group(), row)
        yield from self._flush(0, 0)

    def _token(self, token: bytes, row: int) -> Iterator[Pragma]:
        at = self.at
        if not at.first and self.pending and row > self.pending[-1][1] + 1:
            yield from self._flush(0, 0)  # a blank line parts a comment from what follows
        if token == b"}" and not at.opened:
            yield from self._flush(at.first, row if at.first else 0)
            self._end(at.first or row, row)
            if self.outer:
                self.at = self.outer.pop()
                self.at.last_token = token
            return
        at.first = at.first or row
        at.begins_with = at.begins_with or token
        if token == b";" and not at.opened:
            yield from self._flush(at.first, row)
            self._end(at.first, row)
        elif token == b"{" and self._opens_block():
            yield from self._flush(at.first, row)
            self.ended = (at.first, row)
            if at.opened:
                self.outer.append(at)
            self.at = _Statement()
        elif token in (b"(", b"[", b"{"):
            at.opened.append(token)
            at.last_token = token
        elif token in (b")", b"]", b"}"):
            if at.opened:
                at.opened.pop()
            at.last_token = token
        else:
            at.last_token = token

    def _opens_block(self) -> bool:
        """Whether a brace begins statements, not an initializer."""
        at = self.at
        if at.last_token in _BEFORE_BLOCK or (at.opened and at.last_token == b"]"):
            return True
        return not at.opened and (not at.last_token or at.begins_with in _BLOCK_WORDS)

    def _end(self, first: int, last: int) -> None:
        self.ended = (first, last)
        self.at = _Statement()

    def _flush(self, first: int, last: int) -> Iterator[Pragma]:
        pending, self.pending = self.pending, []
        for row, _, text in pending:
            yield from self._pragma(row, text, first, last)

    def _pragma(self, row: int, comment: str, first: int, last: int) -> Iterator[Pragma]:
        """The pragma in a comment, for the statement in the rows `first` to `last`, 0 where there is none."""
        match = _PRAGMA.search(comment)
        if match is None:
            return
        rules = tuple(word.strip() for word in (match["rules"] or "").split(","))
        error = None
        if match["verb"].lower() != "ignore":
            error = f"{match['verb']!r} means nothing here; write `// graphlint: ignore[rule] reason`"
        elif not all(rules):
            error = "the rule that it ignores is missing; write `// graphlint: ignore[rule] reason`"
        elif not first:
            error = "it stands at no statement, so it ignores nothing"
        starts = (*self.source.line_starts, len(self.source.content))
        covers = Span(starts[first - 1], max(starts[last], starts[first - 1] + 1)) if first else Span(0, 0)
        yield Pragma(row, covers, rules if error is None else (), error)
