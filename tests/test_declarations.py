from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphlint.declarations import DeclarationError, Key, ListOf, MapOf, OneOf, Table, parse, read, suggestion

ENTRY = Table(required={"call": str, "does": OneOf(("replay", "erase"))}, optional={"of": str})
SCHEMA = Table(
    optional={
        "effect": ListOf(ENTRY),
        "cycle": MapOf(str),
        "limit": int,
        "strict": bool,
        "words": ListOf(str),
        "states": MapOf(MapOf(str)),
    }
)

DOCUMENT = """\
# a comment with [a.header] and key = "value"
limit = 3
words = [
    "one",  # ]
    "two, [three]",
    'four',
]

[[effect]]
call = "a"
does = "replay"

[[effect]]
call = \"\"\"
[not.a.header]
does = "erase"
\"\"\"
does = 'erase'

[cycle]
"a.b" = "x"
'c "d"' = "y"
"\\u00e9" = "z"

[states]
free.a = "b"
held = { c = "d", e = "f" }

[states."odd name"]
g = "h"
"""


@pytest.mark.parametrize(
    ("key", "row"),
    [
        (("limit",), 2),
        (("words",), 3),
        (("words", 0), 4),
        (("words", 1), 5),
        (("words", 2), 6),
        (("effect",), 9),
        (("effect", 0), 9),
        (("effect", 0, "does"), 11),
        (("effect", 1), 13),
        (("effect", 1, "call"), 14),
        (("effect", 1, "does"), 18),
        (("cycle", "a.b"), 21),
        (("cycle", 'c "d"'), 22),
        (("cycle", "é"), 23),
        (("states", "free"), 26),
        (("states", "free", "a"), 26),
        (("states", "held", "e"), 27),
        (("states", "odd name"), 29),
        (("states", "odd name", "g"), 30),
        (("states", "odd name", "missing"), 29),
        (("missing",), 1),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_key_has_its_row(key: Key, row: int, newline: str) -> None:
    document = parse(DOCUMENT.replace("\n", newline).encode(), "x.toml").check(SCHEMA)
    assert document.row(*key) == row


@pytest.mark.parametrize(
    ("text", "row", "message"),
    [
        ("limit = 1\nlimits = 2", 2, "unknown key 'limits'; did you mean 'limit'?"),
        ("limit = 1\nzzz = 2", 2, "unknown key 'zzz'; known here: cycle, effect, limit, states, strict, words"),
        ("limit = 'x'", 1, "'limit' must be a whole number, not text"),
        ("limit = true", 1, "'limit' must be a whole number, not true or false"),
        ("limit = 1.5", 1, "'limit' must be a whole number, not a number"),
        ("limit = 1979-05-27 07:32:00", 1, "'limit' must be a whole number, not a date or time"),
        ("strict = 1", 1, "'strict' must be true or false, not a whole number"),
        ("words = 'one'", 1, "'words' must be an array, not text"),
        ("words = [\n'one',\n2]", 3, "'words.1' must be text, not a whole number"),
        ("cycle = []", 1, "'cycle' must be a table, not an array"),
        ("\n[effect]\ncall = 'a'", 2, "'effect' must be an array, not a table"),
        ("[[effect]]\ncall = 'a'\ndoes = 'erase'\n\n[[effect]]\ncall = 'b'", 5, "key 'does' is missing"),
        (
            "[[effect]]\ndoes = 'reply'\ncall = 'a'",
            2,
            "'effect.0.does' must be one of replay, erase, not 'reply'",
        ),
        ("effect = [\n  { call = 'a', does = 'erase' },\n  { call = 'b', duz = 'erase' },\n]", 3, "unknown key 'duz'"),
        ("[states.a]\nb = 'c'\n[states.d]\ne = 1", 4, "'states.d.e' must be text, not a whole number"),
        ("states.a.b = 'c'\nstates.d.e = 1", 2, "'states.d.e' must be text, not a whole number"),
        ("a = 1\na = 2", 2, "not valid TOML: "),
        ("a = 1\n\nb = ", 3, "not valid TOML: "),
        ("a = '''\n\n", 3, "not valid TOML: "),
        ("a = " + "[" * 100_000, 0, "not valid TOML: "),
    ],
)
def test_an_error_says_what_is_wrong_and_in_which_row(text: str, row: int, message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse(text.encode(), "x.toml").check(SCHEMA)
    assert caught.value.row == row
    assert caught.value.message.startswith(message)
    assert str(caught.value).startswith(f"x.toml:{row}: {message}" if row else f"x.toml: {message}")


def test_a_table_that_other_headers_imply_has_the_row_of_its_own_header() -> None:
    document = parse(b"[a.b]\nx = 1\n[a]\ny = 1\n[c.d]\n", "x.toml")
    assert [document.row("a"), document.row("a", "b"), document.row("c")] == [3, 1, 5]


def test_a_file_that_is_not_utf8_is_an_error_with_its_row() -> None:
    with pytest.raises(DeclarationError, match=r"^x\.toml:2: not UTF-8$"):
        parse(b"a = 1\nb = '\xff'\n", "x.toml")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"absent\.toml: cannot be read: No such file"):
        read(tmp_path / "absent.toml")


def test_a_table_of_a_file_keeps_the_rows_of_the_file() -> None:
    document = parse(b"[build]\nx = 1\n\n[tool.other]\ny = 1\n\n[tool.graphlint]\nlimit = 'x'\n", "pyproject.toml")
    assert document.table("tool", "absent") is None
    table = document.table("tool", "graphlint")
    assert table is not None
    assert dict(table) == {"limit": "x"}
    with pytest.raises(DeclarationError, match=r"^pyproject\.toml:8: 'limit' must be a whole number"):
        table.check(SCHEMA)
    with pytest.raises(DeclarationError, match=r"^pyproject\.toml:7: here$"):
        raise table.error("here")


def test_a_value_where_a_table_should_be_is_an_error() -> None:
    with pytest.raises(DeclarationError, match=r"^x:2: 'graphlint' must be a table, not true or false$"):
        parse(b"[tool]\ngraphlint = true\n", "x").table("tool", "graphlint")


def test_a_suggestion_names_a_near_word_only() -> None:
    assert suggestion("ersae", ["replay", "erase"]) == "; did you mean 'erase'?"
    assert suggestion("capture", ["replay", "erase"]) == ""


# A document is written together with the rows of its keys and items, so it knows the right answers.

KEYS = st.text(st.sampled_from("ab1-_.é \"'\\#[]=,\n"), min_size=1, max_size=3)
LEAVES = st.sampled_from(["1", "true", "1979-05-27 07:32:00", '"a # b"', "'[x]'", '"\\"]"'])
LONG = st.sampled_from(
    ['"""\na = 1\n[b]\n"""', "'''\n# \"\"\"\n'''", '"""x"""""', '"""\\""""', "''''a'''", "'''a'''''"]
)
VALUES = st.recursive(
    LEAVES | LONG,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=3)


class Writer:
    """Writes TOML and notes the row of every key and item."""

    def __init__(self) -> None:
        self.text = ""
        self.rows: dict[Key, int] = {}

    def note(self, key: Key) -> None:
        self.rows[key] = self.text.count("\n") + 1

    def pairs(self, table: dict[str, object], key: Key) -> None:
        for name, value in table.items():
            self.note((*key, name))
            self.text += f"{quoted(name)} = "
            self.value(value, (*key, name))
            self.text += "  # ] }\n"

    def value(self, value: object, key: Key) -> None:
        if isinstance(value, list):
            self.text += "[ # [\n"
            for index, item in enumerate(value):
                self.note((*key, index))
                self.value(item, (*key, index))
                self.text += ",\n"
            self.text += "]"
        elif isinstance(value, dict):
            self.text += "{ "
            for index, (name, item) in enumerate(value.items()):
                self.text += ", " if index else ""
                self.note((*key, name))
                self.text += f"{quoted(name)}= "
                self.value(item, (*key, name))
            self.text += " }"
        else:
            self.text += str(value)


def quoted(name: str) -> str:
    bare = name.replace("-", "").replace("_", "").isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else json.dumps(name)


@given(
    TABLES, st.lists(TABLES, max_size=3), st.lists(st.tuples(KEYS, TABLES), max_size=2, unique_by=lambda pair: pair[0])
)
def test_the_rows_of_any_document(
    top: dict[str, object], items: list[dict[str, object]], subtables: list[tuple[str, dict[str, object]]]
) -> None:
    writer = Writer()
    writer.pairs({name: value for name, value in top.items() if name != "z"}, ())
    for index, item in enumerate(items):
        writer.note(("zz", index))
        writer.text += "[[ zz ]]\n"
        writer.pairs(item, ("zz", index))
        for name, table in subtables:
            if name in item:
                continue
            writer.note(("zz", index, name, "t"))
            writer.text += f"[zz . {quoted(name)}.t] # [x]\n"
            writer.pairs(table, ("zz", index, name, "t"))
    document = parse(writer.text.encode(), "x.toml")
    assert {key: document.row(*key) for key in writer.rows} == writer.rows
