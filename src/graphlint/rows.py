"""Where the rows of a changed text stood before it was changed."""

from __future__ import annotations

from functools import cached_property

from graphlint.source import Source, Span


class Rows:
    """The rows of a text, as rows of the one that it was made from."""

    def __init__(self, before: Source, after: Source) -> None:
        self.before = before
        self.after = after

    def span(self, span: Span) -> Span:
        """The place that one of the new text had; where its rows are new, the row of the old text around it."""
        if self.before.content == self.after.content:
            return span
        moved: list[int] = []
        for row in (self.after.row(span.start), self.after.row(max(span.start, span.end - 1))):
            old, is_same = self._found(row)
            if not is_same:
                return _code(self.before, old)
            moved.append(self.before.line_starts[old - 1] - self.after.line_starts[row - 1])
        return Span(span.start + moved[0], max(span.start + moved[0], span.end + moved[1]))

    def _found(self, row: int) -> tuple[int, bool]:
        """A row as it was, and whether it is the same."""
        count = len(self.before.line_starts)
        above = beside = 0
        # What took the place of rows is where they were; what was added is where it was added.
        for before, after, size in (*self._same, (count, len(self.after.line_starts), 0)):
            if row <= after:
                return min(count, before + 1 if before == above else min(above + row - beside, before)), False
            if row <= after + size:
                return before + row - after, True
            above, beside = before + size, after + size
        return count, False

    @cached_property
    def _same(self) -> list[tuple[int, int, int]]:
        """Rows that both texts have: how many stand before them in each, and how many they are."""
        from difflib import SequenceMatcher

        before, after = (
            [each.line(row) for row in range(1, len(each.line_starts) + 1)] for each in (self.before, self.after)
        )
        blocks = SequenceMatcher(None, before, after).get_matching_blocks()
        return [(each.a, each.b, each.size) for each in blocks if each.size]


def _code(source: Source, row: int) -> Span:
    """A row without the white space around it."""
    ends = (*source.line_starts[1:], len(source.content))
    start = source.line_starts[row - 1]
    line = source.content[start : ends[row - 1]]
    text = line.strip()
    start += line.index(text)
    return Span(start, start + len(text))
