"""TOML files whose every error has a place: parsed by tomli, checked against a closed schema, located by row.

A declaration is total and closed: a key that its schema does not name, a missing key, a value of another type is an
error that names the file and the row, never a default that hides a slip of the pen.

A schema has the shape of the document it describes:

    EFFECT = Table(required={"call": str, "does": OneOf(("replay", "erase"))}, optional={"of": str})
    SCHEMA = Table(optional={"effect": ListOf(EFFECT), "lifecycle": MapOf(str)})

    document = read(path).check(SCHEMA)
    for index, effect in enumerate(document.get("effect", ())):
        if effect["call"] in seen:
            raise document.error("this call stands twice", "effect", index, "call")
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import tomli

Key: TypeAlias = tuple["str | int", ...]
"""Where a value stands in a document: keys of tables and indices of arrays, outermost first."""


class DeclarationError(ValueError):
    """A declaration is wrong; `row` counts from 1 and is 0 where the fault is the file itself."""

    def __init__(self, path: str, row: int, message: str) -> None:
        super().__init__(f"{path}:{row}: {message}" if row else f"{path}: {message}")
        self.path = path
        self.row = row
        self.message = message


# ------------------------------------------------------------------------------------------------------------ schemas


@dataclass(frozen=True)
class OneOf:
    """One word of a closed list."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class ListOf:
    """An array whose items all follow one schema; an array of tables is one too."""

    item: Schema


@dataclass(frozen=True)
class MapOf:
    """A table with free keys whose values all follow one schema."""

    value: Schema


@dataclass(frozen=True)
class Table:
    """A table with these keys and no others."""

    required: Mapping[str, Schema] = field(default_factory=dict)
    optional: Mapping[str, Schema] = field(default_factory=dict)


Schema: TypeAlias = "type[str | int | bool] | OneOf | ListOf | MapOf | Table"

_KINDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "an array",
    dict: "a table",
}


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: `; did you mean 'erase'?`, or nothing where no known word is near."""
    from difflib import get_close_matches  # an error is the only reader: start-up does not pay for it

    near = get_close_matches(word, sorted(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


# ---------------------------------------------------------------------------------------------------------- documents


@dataclass(frozen=True, eq=False)
class Document(Mapping[str, Any]):
    """A parsed TOML file, or one table of it: a mapping whose keys know their rows."""

    path: str
    text: str
    data: Mapping[str, Any]
    prefix: Key = ()
    """Where the table stands in the file."""

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def table(self, *key: str) -> Document | None:
        """The table under a key, such as `tool`, `graphlint` of a pyproject.toml; None if the file has none.

        Raises:
            DeclarationError: the key leads to a value that is no table.
        """
        data: Any = self.data
        for depth, part in enumerate(key):
            if part not in data:
                return None
            data = data[part]
            if not isinstance(data, dict):
                raise self.error(f"{part!r} must be a table, not {_kind(data)}", *key[: depth + 1])
        return Document(self.path, self.text, data, (*self.prefix, *key))

    def check(self, schema: Table) -> Document:
        """The document itself, if its values follow the schema.

        Raises:
            DeclarationError: they do not; the error is the first one met.
        """
        self._check(self.data, schema, ())
        return self

    def error(self, message: str, *key: str | int) -> DeclarationError:
        """An error at the row of a key, or of the nearest table around it that the file spells out."""
        return DeclarationError(self.path, self.row(*key), message)

    def row(self, *key: str | int) -> int:
        """Row of a key, an array's item or a table's header, from 1."""
        place = (*self.prefix, *key)
        while place and place not in self._rows:
            place = place[:-1]
        return self._rows.get(place, 1)

    @cached_property
    def _rows(self) -> Mapping[Key, int]:
        return _locate(self.text)

    def _check(self, value: object, schema: Schema, key: Key) -> None:
        name = ".".join(str(part) for part in key)
        match schema:
            case Table(required=required, optional=optional):
                table = self._typed(value, dict, name, key)
                known = {**required, **optional}
                for part, inner in table.items():
                    if part not in known:
                        hint = suggestion(part, known) or f"; known here: {', '.join(sorted(known))}"
                        raise self.error(f"unknown key {part!r}{hint}", *key, part)
                    self._check(inner, known[part], (*key, part))
                for part in required:
                    if part not in table:
                        raise self.error(f"key {part!r} is missing", *key)
            case MapOf(value=inner_schema):
                for part, inner in self._typed(value, dict, name, key).items():
                    self._check(inner, inner_schema, (*key, part))
            case ListOf(item=inner_schema):
                for index, inner in enumerate(self._typed(value, list, name, key)):
                    self._check(inner, inner_schema, (*key, index))
            case OneOf(words=words):
                word = self._typed(value, str, name, key)
                if word not in words:
                    raise self.error(f"{name!r} must be one of {', '.join(words)}, not {word!r}", *key)
            case _:
                self._typed(value, schema, name, key)

    def _typed(self, value: object, kind: type, name: str, key: Key) -> Any:
        if type(value) is not kind:  # `isinstance` would take true for a whole number
            raise self.error(f"{name!r} must be {_KINDS[kind]}, not {_kind(value)}", *key)
        return value


def read(path: str | os.PathLike[str]) -> Document:
    """Read a TOML file.

    Raises:
        DeclarationError: it cannot be read, is not UTF-8, or is not TOML.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise DeclarationError(str(path), 0, f"cannot be read: {error.strerror}") from error
    return parse(content, str(path))


def parse(content: bytes, path: str) -> Document:
    """Read a TOML file's content; `path` is how errors name it.

    Raises:
        DeclarationError: it is not UTF-8, or not TOML.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise DeclarationError(path, content.count(b"\n", 0, error.start) + 1, "not UTF-8") from error
    try:
        return Document(path, text, tomli.loads(text))
    except tomli.TOMLDecodeError as error:
        raise DeclarationError(path, error.lineno, f"not valid TOML: {error.msg}") from error
    except RecursionError as error:
        raise DeclarationError(path, 0, "not valid TOML: nested too deeply") from error


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a date or time")


# --------------------------------------------------------------------------------------------------------------- rows

_BLANK = re.compile(r"(?:[\s,]|#[^\n]*)*")
_BARE = re.compile(r"[\w-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?""""{0,2}'  # a multi-line string may end in quotes of its own
    r"|'''.*?''''{0,2}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^\s,\]}#][^,\]}#\n]*")


def _locate(text: str) -> dict[Key, int]:
    """Rows of all keys, items and headers of a text that is known to be valid TOML.

    A table that is only implied (`a` in `[a.b]`) has the row of the first key or header that implies it.
    """
    rows: dict[Key, int] = {}
    last: dict[Key, int] = {}  # arrays of tables: index of the table that a header added last
    table: Key = ()
    open_brackets: list[tuple[Key, int | None]] = []  # key of an inline table, or of an array and its next index
    position, row, counted = 0, 1, 0

    def note(key: Key, *, explicit: bool) -> None:
        nonlocal row, counted
        row, counted = row + text.count("\n", counted, position), position
        for end in range(1, len(key)):
            rows.setdefault(key[:end], row)
        if explicit:
            rows[key] = row
        else:
            rows.setdefault(key, row)

    while (position := _end(_BLANK, text, position)) < len(text):
        char = text[position]
        if open_brackets and char in "]}":
            open_brackets.pop()
            position += 1
            continue
        if not open_brackets and char == "[":
            is_array = text.startswith("[[", position)
            parts, end = _dotted(text, position + 1 + is_array)
            table = ()
            for part in parts[:-1]:
                table += (part,)
                if table in last:
                    table += (last[table],)
            table += parts[-1:]
            if is_array:
                last[table] = last.get(table, -1) + 1
                table += (last[table],)
            note(table, explicit=True)
            position = end + 1 + is_array
            continue
        parent, index = open_brackets[-1] if open_brackets else (table, None)
        if index is None:
            parts, end = _dotted(text, position)
            key = parent + parts
            note(key, explicit=False)
            position = _end(_BLANK, text, end + 1)
        else:
            key = (*parent, index)
            open_brackets[-1] = (parent, index + 1)
            note(key, explicit=False)
        if text[position] in "[{":
            open_brackets.append((key, 0 if text[position] == "[" else None))
            position += 1
        else:
            position = _end(_STRING if text[position] in "\"'" else _SCALAR, text, position)
    return rows


def _dotted(text: str, position: int) -> tuple[Key, int]:
    """A bare, quoted or dotted key, and the position of the `=` or `]` after it."""
    parts: list[str] = []
    while True:
        position = _end(_BLANK, text, position)
        quoted = text[position] in "\"'"
        end = _end(_STRING if quoted else _BARE, text, position)
        spelled = text[position:end]
        parts.append(str(tomli.loads(f"key = {spelled}")["key"]) if quoted else spelled)
        position = _end(_BLANK, text, end)
        if text[position] != ".":
            return tuple(parts), position
        position += 1


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    assert match is not None, f"not TOML at character {position}"
    return match.end()
