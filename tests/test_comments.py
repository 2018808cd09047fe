"""Which comments a rewrite costs."""

from __future__ import annotations

import pytest

from graphlint.comments import lost
from graphlint.edits import Edit
from graphlint.source import Source, Span

TEXT = """\
s = '''
# no comment
def f():
'''

def f(x):
    # kept
    a(x)  # gone
    b("# no comment")
    # twice

def g():
    # twice
    return (lambda: 1,  # after
            '''
            # no comment
            ''')
"""
SOURCE = Source("m.py", TEXT.encode())


def span(first: str, last: str) -> Span:
    start = TEXT.index(first)
    return Span(start, TEXT.index(last, start) + len(last))


def edit(first: str, last: str, content: str = "") -> Edit:
    return Edit("m.py", span(first, last), content.encode())


FUNCTION = span("def f(x):", 'comment")')
"""As `ast` has it: without the comment at its end."""


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([edit("    a(x)", "gone\n")], ("# gone",)),
        ([edit("    a(x)", "gone\n", "    c(x)  # gone\n")], ()),
        ([edit("    b(", 'comment")\n')], ()),
        ([edit("    a(x)", "gone\n"), edit("    # kept", "kept\n")], ("# kept", "# gone")),
        ([edit("    # twice", "twice\n")], ("# twice",)),
        ([edit("    a(x)", "gone\n"), edit("    return", "after\n", "    return (\n")], ("# gone", "# after")),
        ([edit("    a(x)", "gone\n", "    a('''\n")], ("# gone", "# twice", "# twice", "# after")),
    ],
)
@pytest.mark.parametrize("function", [None, FUNCTION, span("lambda: 1", "lambda: 1")])
def test_comments_are_lost(edits: list[Edit], expected: tuple[str, ...], function: Span | None) -> None:
    assert lost(SOURCE, edits, function) == expected


def test_a_file_in_another_encoding() -> None:
    source = Source("m.py", "# coding: latin-1\ndef f():\n    a()  # é\n".encode("latin-1"))
    start = source.content.index(b"    a()")
    assert lost(source, [Edit("m.py", Span(start, len(source.content)), b"")], Span(18, start + 7)) == ("# é",)
