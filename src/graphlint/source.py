"""Source files as bytes, and the positions in them.

Every position inside graphlint is a `Span`: two byte offsets into one file, half open. Byte offsets are the only
coordinate that `ast` and LibCST agree on exactly, so a span found by the analysis names the same node in the syntax tree
that a fix edits. Rows and columns exist only in reports; both count from 1, columns in code points.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

CPP = (".cpp", ".cc", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl")
"""What a C++ or CUDA source file's name ends with; any other file is Python."""

_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


class Span(NamedTuple):
    """Bytes `start` (inclusive) to `end` (exclusive) of one file."""

    start: int
    end: int

    def contains(self, other: Span) -> bool:
        """Whether `other` lies inside this span (the span itself counts)."""
        return self.start <= other.start and other.end <= self.end


class Position(NamedTuple):
    """A place as an editor shows it: row and column count from 1, the column in code points."""

    row: int
    column: int


@dataclass(frozen=True)
class Source:
    """One file: the path it is reported under and its content as read from disk."""

    path: str
    content: bytes

    @cached_property
    def encoding(self) -> str:
        """Encoding by PEP 263: a byte-order mark, else a coding comment in the first two lines, else UTF-8."""
        if self.content.startswith(codecs.BOM_UTF8):
            return "utf-8-sig"
        for line in self.content.split(b"\n", 2)[:2]:
            if match := _CODING.match(line):
                name = match.group(1).decode("ascii")
                try:
                    return codecs.lookup(name).name
                except LookupError:
                    return "utf-8"
        return "utf-8"

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Offset of the first byte of every line. A line ends after LF, CR LF or a lone CR, as Python reads it."""
        return (0, *(match.end() for match in re.finditer(rb"\r\n|\n|\r", self.content)))

    def row(self, offset: int) -> int:
        """Row of a byte offset, from 1."""
        return bisect_right(self.line_starts, offset)

    def position(self, offset: int) -> Position:
        """Row and column of a byte offset."""
        row = self.row(offset)
        before = self.content[self.line_starts[row - 1] : offset]
        return Position(row, len(before.decode(self.encoding, "replace")) + 1)

    def line(self, row: int) -> str:
        """Text of a row without its line ending; empty past the end of the file."""
        if not 1 <= row <= len(self.line_starts):
            return ""
        start = self.line_starts[row - 1]
        end = self.line_starts[row] if row < len(self.line_starts) else len(self.content)
        return self.content[start:end].decode(self.encoding, "replace").rstrip("\r\n")

    def text(self, span: Span) -> str:
        """The text under a span."""
        return self.content[span.start : span.end].decode(self.encoding, "replace")
