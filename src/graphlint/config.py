"""The settings of a project: the table `[tool.graphlint]` of its pyproject.toml.

    [tool.graphlint]
    select = ["teardown", "some-rule"]        # rules or groups to run; all where it is missing
    ignore = ["other-rule"]                   # rules or groups not to run; wins over select
    exclude = ["third_party", "tests/data"]   # patterns as in .gitignore, relative to this file's folder
    src = ["src", "benchmarks"]               # folders that imports start from; else found by __init__.py
    preview = true                            # report findings of low precision too
    fail-on = "note"                          # the least severity that makes the exit code 1: error | warning | note

    [tool.graphlint.per-file-ignores]
    "tests/*" = ["some-rule"]

    [tool.graphlint.vocabulary]               # the project's own wrappers; see graphlint.vocabulary

The nearest pyproject.toml that has the table counts, from the given paths upwards; settings of several files are never
mixed. A setting that does not exist, a value of another type and the name of an unknown rule are errors with their row.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphlint.findings import Severity

if TYPE_CHECKING:
    from graphlint.declarations import Document


@dataclass(frozen=True)
class Settings:
    """What a project, or a command line, says about a run."""

    root: str = ""
    """Folder that `exclude`, `src` and `per_file_ignores` are relative to: that of the file with the settings."""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    src: tuple[str, ...] = ()
    preview: bool = False
    fail_on: Severity = Severity.WARNING
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Patterns of files, each with the rules or groups that are not reported in them."""
    vocabulary: Document | None = None
    """The table `vocabulary`, as written."""


def find(paths: Iterable[str]) -> str | None:
    """The pyproject.toml with settings that is nearest above all of the paths; None where there is none.

    Raises:
        DeclarationError: a file that mentions this tool on the way is not TOML.
    """
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in map(os.path.abspath, paths)]
    folder = os.path.commonpath(folders or [os.getcwd()])
    while True:
        path = os.path.join(folder, "pyproject.toml")
        if (document := _document(path)) is not None and document.table("tool", "graphlint") is not None:
            return path
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def load(path: str) -> Settings:
    """The settings in one file.

    Raises:
        DeclarationError: the file cannot be read or has no `[tool.graphlint]`, or a setting is wrong.
    """
    from graphlint import declarations, registry
    from graphlint.declarations import DeclarationError, Document, ListOf, MapOf, OneOf, Table

    shown = os.path.relpath(path)
    document = declarations.read(path if shown.startswith(os.pardir) else shown)
    table = document.table("tool", "graphlint")
    if table is None:
        raise DeclarationError(document.path, 0, "has no [tool.graphlint]")
    vocabulary = table.table("vocabulary")
    names = ListOf(str)
    schema = Table(
        optional={
            "select": names,
            "ignore": names,
            "exclude": names,
            "src": names,
            "preview": bool,
            "fail-on": OneOf(tuple(severity.value for severity in Severity)),
            "per-file-ignores": MapOf(names),
            "vocabulary": Table(),  # checked where it is read
        }
    )
    rest = {key: value for key, value in table.data.items() if key != "vocabulary"}
    values = Document(table.path, table.text, rest, table.prefix).check(schema)

    def check_rules(*key: str) -> None:
        words = values
        for part in key:
            words = words.get(part, ())
        for index, word in enumerate(words):
            try:
                registry.select(select=(word,))
            except registry.UnknownRuleError as error:
                raise table.error(str(error), *key, index) from None

    check_rules("select")
    check_rules("ignore")
    for index, pattern in enumerate(values.get("exclude", ())):
        if not is_pattern(pattern):
            raise table.error(f"{pattern!r} is no pattern of files", "exclude", index)
    for index, folder in enumerate(values.get("src", ())):
        if not os.path.isdir(os.path.join(os.path.dirname(path), folder)):
            raise table.error(f"{folder!r} is no folder", "src", index)
    for pattern in values.get("per-file-ignores", ()):
        if not is_pattern(pattern):
            raise table.error(f"{pattern!r} is no pattern of files", "per-file-ignores", pattern)
        check_rules("per-file-ignores", pattern)
    return Settings(
        root=os.path.dirname(os.path.abspath(path)),
        select=tuple(values.get("select", ())),
        ignore=tuple(values.get("ignore", ())),
        exclude=tuple(values.get("exclude", ())),
        src=tuple(values.get("src", ())),
        preview=values.get("preview", False),
        fail_on=Severity(values.get("fail-on", Severity.WARNING.value)),
        per_file_ignores=tuple(
            (pattern, tuple(words)) for pattern, words in values.get("per-file-ignores", {}).items()
        ),
        vocabulary=vocabulary,
    )


def ignored_in(path: str, settings: Settings) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The patterns of `per-file-ignores` that a file matches, each with the rules and groups that it silences."""
    return tuple(each for each in settings.per_file_ignores if _matching([path], each[0], settings))


def idle_patterns(paths: Sequence[str], settings: Settings) -> tuple[str, ...]:
    """The patterns of `per-file-ignores` that no file of the project matches, if these are its files."""
    return tuple(pattern for pattern, _ in settings.per_file_ignores if not _matching(paths, pattern, settings))


def _matching(paths: Iterable[str], pattern: str, settings: Settings) -> bool:
    """Whether one of some files matches a pattern."""
    from pathspec import GitIgnoreSpec

    spec, root = GitIgnoreSpec.from_lines([pattern]), settings.root or "."
    return any(spec.match_file(os.path.relpath(path, root)) for path in paths)


def is_pattern(line: str) -> bool:
    """Whether a line is a pattern of files as Git's ignore files have them."""
    from pathspec import GitIgnoreSpec

    try:
        return bool(GitIgnoreSpec.from_lines([line])) and bool(line.strip())
    except (ValueError, re.error):
        return False


def _document(path: str) -> Document | None:
    """A TOML file that mentions this tool; None where it is missing or does not."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return None
    if b"graphlint" not in content:
        return None
    from graphlint import declarations

    return declarations.parse(content, path)
