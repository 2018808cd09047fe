"""What the tests around a place say, and which of them imply which."""

from __future__ import annotations

import textwrap

import pytest

from graphlint import facts
from graphlint.conditions import Condition, asked_around, conditions, implied
from graphlint.facts import Facts
from graphlint.source import Source, Span

MARK = "here()"


def said(body: str) -> set[tuple[str, bool, frozenset[str]]]:
    """What is known where the mark stands."""
    text = "def f(self, a, b, mode):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    source = Source("m.py", text.encode())
    read = facts.read(source)
    assert isinstance(read, Facts)
    function = next(each for each in read.functions if each.name == "f")
    body_flow = function.flow or facts.lower(source, function).flow
    at = text.index(MARK)
    around = asked_around(body_flow, Span(at, at + len(MARK)))
    return {(c.subject, c.is_one, c.values) for each in around for c in conditions(each, source)}


THERE = frozenset(("<there>",))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("here()", set()),
        ("if a:\n    here()", {("a", True, THERE)}),
        ("if a:\n    pass\nelse:\n    here()", {("a", False, THERE)}),
        ("if not self.a:\n    return\nhere()", {("a", True, THERE)}),
        ("if a is None or b:\n    return\nhere()", {("a", True, THERE), ("b", False, THERE)}),
        ("if a is not None and b:\n    here()", {("a", True, THERE), ("b", True, THERE)}),
        ("if mode != 'x':\n    here()", {("mode", False, frozenset(("'x'",)))}),
        ("if mode == 'x' or mode == 'y':\n    here()", {("mode", True, frozenset(("'x'", "'y'")))}),
        ("if mode not in ('x', 'y'):\n    return\nhere()", {("mode", True, frozenset(("'x'", "'y'")))}),
        ("if mode is not Mode.X:\n    return\nhere()", {("mode", True, frozenset(("X",)))}),
        ("for x in a:\n    if not b:\n        continue\n    here()", {("b", True, THERE)}),
        ("try:\n    if a:\n        here()\nfinally:\n    pass", {("a", True, THERE)}),
        ("x = here() if a else None", {("a", True, THERE)}),
        ("if a:\n    b = 1\nhere()", set()),
    ],
)
def test_what_is_known_at_a_place(body: str, expected: set[tuple[str, bool, frozenset[str]]]) -> None:
    assert said(body) == expected


def one(is_one: bool, *values: str) -> Condition:
    return Condition("mode", is_one, frozenset(values))


@pytest.mark.parametrize(
    ("known", "wanted", "expected"),
    [
        (one(True, "a"), one(True, "a", "b"), True),
        (one(True, "a", "b"), one(True, "a"), False),
        (one(True, "a"), one(False, "b"), True),
        (one(True, "a"), one(False, "a"), False),
        (one(False, "a", "b"), one(False, "a"), True),
        (one(False, "a"), one(False, "b"), False),
        (one(False, "a"), one(True, "b"), False),
        (one(True, "a"), Condition("mode", True, THERE), True),
        (one(True, "a"), Condition("kind", True, frozenset(("a",))), False),
    ],
)
def test_what_implies_what(known: Condition, wanted: Condition, *, expected: bool) -> None:
    assert implied(wanted, [known]) is expected
