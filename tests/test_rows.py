"""Where the rows of a changed text stood before."""

from __future__ import annotations

import pytest

from graphlint.rows import Rows
from graphlint.source import Source, Span

BEFORE = "a\n\nb = 1\n    c(2)\nd\ne\n"


def was(before: str, after: str, text: str) -> tuple[int, str]:
    """The row, and the text, of what `text` in the new file was in the old one."""
    old, new = Source("a.py", before.encode()), Source("a.py", after.encode())
    start = after.index(text)
    span = Rows(old, new).span(Span(start, start + len(text)))
    return old.row(span.start), old.text(span)


def test_the_same_text_has_the_same_places() -> None:
    assert was(BEFORE, BEFORE, "c(2)") == (4, "c(2)")


@pytest.mark.parametrize(
    ("after", "text", "expected"),
    [
        ("new\n" + BEFORE, "c(2)", (4, "c(2)")),
        ("new\n" + BEFORE, "1\n    c", (3, "1\n    c")),
        ("new\n" + BEFORE, "new", (1, "a")),
        (BEFORE.replace("a\n\n", ""), "(2)", (4, "(2)")),
        (BEFORE.replace("c(2)", "other(2)"), "(2)", (4, "c(2)")),
        (BEFORE.replace("    c(2)\n", "    x\n    y\n    z\n"), "z", (4, "c(2)")),
        (BEFORE + "more\n", "more", (7, "")),
        ("x\ny\n", "y", (1, "a")),
    ],
)
def test_a_row_is_found_again(after: str, text: str, expected: tuple[int, str]) -> None:
    assert was(BEFORE, after, text) == expected


def test_an_empty_text_has_one_row() -> None:
    assert was("", "x\n", "x") == (1, "")
