from __future__ import annotations

import re
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphlint.source import Source, Span
from graphlint.suppress import Pragma, pragmas


def read(text: str) -> tuple[Source, tuple[Pragma, ...]]:
    source = Source("a.py", textwrap.dedent(text).encode())
    return source, pragmas(source)


def silenced(text: str) -> list[str]:
    """Which of the words `x1`, `x2`, ... in a text a pragma for the rule `a-rule` silences."""
    source, found = read(text)
    words = re.finditer(rb"\bx\d\b", source.content)
    return [
        match[0].decode()
        for match in words
        if any("a-rule" in pragma.rules and pragma.silences(Span(*match.span())) for pragma in found)
    ]


def errors(text: str) -> list[tuple[int, str | None]]:
    return [(pragma.row, pragma.error) for pragma in read(text)[1]]


def test_a_statement_of_one_line() -> None:
    assert silenced("x1\nx2  # graphlint: ignore[a-rule] because\nx3\n") == ["x2"]


def test_a_statement_whose_file_has_no_last_line_ending() -> None:
    assert silenced("x1\nx2  # graphlint: ignore[a-rule]") == ["x2"]


def test_statements_that_share_a_line_share_its_comment() -> None:
    assert silenced("x1; x2  # graphlint: ignore[a-rule]\nx3\n") == ["x1", "x2"]


@pytest.mark.parametrize("row", range(5))
def test_any_line_of_a_statement(row: int) -> None:
    lines = ["x2(", "    x3,", "    x4, x5", "    # end", ")"]
    lines[row] += "  # graphlint: ignore[a-rule]"
    assert silenced("\n".join(["x1", *lines, "x6", ""])) == ["x2", "x3", "x4", "x5"]


def test_a_statement_goes_on_behind_a_backslash() -> None:
    assert silenced("x1 = \\\n    x2 + \\\n    x3  # graphlint: ignore[a-rule]\nx4\n") == ["x1", "x2", "x3"]


@pytest.mark.parametrize("row", range(3))
def test_of_a_compound_statement_the_header_alone(row: int) -> None:
    header = ["with x2(", "    x3", ") as x4:"]
    header[row] += "  # graphlint: ignore[a-rule]"
    assert silenced("\n".join(["x1", *header, "    x5", "x6", ""])) == ["x2", "x3", "x4"]


def test_a_comment_in_the_body_says_nothing_about_the_header() -> None:
    assert silenced("for x1 in x2:\n    x3  # graphlint: ignore[a-rule]\nelse:\n    x4\n") == ["x3"]


def test_a_body_on_the_line_of_its_header_belongs_to_it() -> None:
    assert silenced("if x1: x2  # graphlint: ignore[a-rule]\nx3\n") == ["x1", "x2"]


@pytest.mark.parametrize("row", range(4))
def test_decorators_belong_to_the_header(row: int) -> None:
    lines = ["@x2", "@x3(", "    x4)", "def f(x5):"]
    lines[row] += "  # graphlint: ignore[a-rule]"
    assert silenced("\n".join(["x1", *lines, "    x6", ""])) == ["x2", "x3", "x4", "x5"]


def test_a_matrix_product_is_no_decorator() -> None:
    assert silenced("x1 = (x2\n@ x3)  # graphlint: ignore[a-rule]\nx4\n") == ["x1", "x2", "x3"]


def test_lines_of_its_own_above_the_statement() -> None:
    text = """\
    x1
    # graphlint: ignore[a-rule] a reason that takes
    # a second line
    x2(
        x3)
    x4
    """
    assert silenced(text) == ["x2", "x3"]


def test_a_comment_above_is_at_the_first_statement_of_the_block_it_opens() -> None:
    assert silenced("if x1:\n    # graphlint: ignore[a-rule]\n    x2\n    x3\n") == ["x2"]


def test_a_blank_line_parts_a_comment_from_what_follows() -> None:
    text = "# graphlint: ignore[a-rule]\n\nx1\n"
    assert silenced(text) == []
    assert errors(text) == [(1, "it stands at no statement, so it ignores nothing")]


def test_a_comment_at_the_end_stands_at_no_statement() -> None:
    assert errors("x1\n# graphlint: ignore[a-rule]\n") == [(2, "it stands at no statement, so it ignores nothing")]


def test_several_rules_and_several_comments() -> None:
    _, found = read("x(  # graphlint: ignore[a-rule, b-rule ]why\n)  # noqa: E501  # graphlint:ignore[c-rule]\n")
    assert [pragma.rules for pragma in found] == [("a-rule", "b-rule"), ("c-rule",)]
    assert [pragma.row for pragma in found] == [1, 2]
    assert all(pragma.silences(Span(0, 1)) for pragma in found)


@pytest.mark.parametrize(
    "comment",
    ["# graphlint: ignore", "# graphlint: ignore[]", "# graphlint: ignore[a-rule,]", "# graphlint: ignore[a-rule why"],
)
def test_a_comment_that_names_no_rule_silences_nothing(comment: str) -> None:
    assert silenced(f"x1  {comment}\n") == []
    assert errors(f"x1  {comment}\n") == [
        (1, "the rule that it ignores is missing; write `# graphlint: ignore[rule] reason`")
    ]


def test_another_verb_silences_nothing() -> None:
    text = "x1  # graphlint: disable[a-rule]\n"
    assert silenced(text) == []
    assert errors(text) == [(1, "'disable' means nothing here; write `# graphlint: ignore[rule] reason`")]


def test_text_in_strings_is_no_comment() -> None:
    text = '''\
    x1 = "# graphlint: ignore[a-rule]"
    x2 = """
    # graphlint: ignore[a-rule]
    """
    x3 = f"{x4}  # graphlint: ignore[a-rule]"
    '''
    assert read(text)[1] == ()


def test_prose_about_the_tool_is_no_pragma() -> None:
    assert read("x1  # see the docs of graphlint: they tell\n")[1] == ()


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"# -*- coding: latin-1 -*-\n# \xe9\n"])
def test_line_endings_and_encodings(ending: str, start: bytes) -> None:
    body = "x1\nx2 = 'é'  # graphlint: ignore[a-rule]\nx3\n".replace("\n", ending)
    content = start.replace(b"\n", ending.encode()) + body.encode("latin-1" if b"coding" in start else "utf-8")
    source = Source("a.py", content)
    (pragma,) = pragmas(source)
    silent = [
        word for word in (b"x1", b"x2", b"x3") if pragma.silences(Span(content.index(word), content.index(word) + 2))
    ]
    assert silent == [b"x2"]


def test_a_file_that_ends_early_keeps_what_stands_before() -> None:
    assert silenced("x1  # graphlint: ignore[a-rule]\nx2 = (\n") == ["x1"]


@given(
    st.lists(st.sampled_from(["x", "(", ")", "@", "#", ":", "\n", "    ", "'", '"""', "# graphlint: ignore[a-rule]"]))
)
def test_no_text_makes_it_fail(pieces: list[str]) -> None:
    source = Source("a.py", " ".join(pieces).encode())
    for pragma in pragmas(source):
        assert 1 <= pragma.row <= len(source.line_starts)
        assert 0 <= pragma.covers.start <= pragma.covers.end <= len(source.content) + 1
