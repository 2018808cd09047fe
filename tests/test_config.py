from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from graphlint import config, registry
from graphlint.config import Settings
from graphlint.declarations import DeclarationError
from graphlint.findings import Severity

RULE = """\
summary = "a thing is kept"
message = "a thing is kept"
group = "teardown"
severity = "error"
precision = "high"
kind = "shape"
reported-at = "the binding"
fix = "none"
since = "0.1"
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory, and a folder of rules with `kept-thing` and `lost-thing`."""
    for name in ("kept-thing", "lost-thing"):
        (tmp_path / "rules" / name).mkdir(parents=True)
        (tmp_path / "rules" / name / "rule.toml").write_text(RULE)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(import_module("graphlint.rules"), "__path__", [str(tmp_path / "rules")])
    registry.rules.cache_clear()
    registry.folder.cache_clear()
    yield tmp_path / "work"
    registry.rules.cache_clear()
    registry.folder.cache_clear()


def write(text: str, path: str = "pyproject.toml") -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    return path


def wrong(text: str) -> DeclarationError:
    path = write(text)
    with pytest.raises(DeclarationError) as caught:
        config.load(path)
    assert caught.value.path == "pyproject.toml"
    return caught.value


def test_every_setting_is_read(here: Path) -> None:
    Path("lib").mkdir()
    path = write(
        """\
[tool.graphlint]
select = ["teardown"]
ignore = ["lost-thing"]
exclude = ["third_party", "*_pb2.py"]
src = ["lib"]
preview = true
fail-on = "note"

[tool.graphlint.per-file-ignores]
"tests/*" = ["teardown"]

[tool.graphlint.vocabulary]
aliases = { a = "b" }
"""
    )
    settings = config.load(path)
    assert settings.vocabulary is not None
    assert settings.vocabulary.data == {"aliases": {"a": "b"}}
    assert settings.vocabulary.path == "pyproject.toml"
    assert settings == Settings(
        root=str(here),
        select=("teardown",),
        ignore=("lost-thing",),
        exclude=("third_party", "*_pb2.py"),
        src=("lib",),
        preview=True,
        fail_on=Severity.NOTE,
        per_file_ignores=(("tests/*", ("teardown",)),),
        vocabulary=settings.vocabulary,
    )


def test_an_empty_table_changes_nothing(here: Path) -> None:
    assert config.load(write("[tool.graphlint]\n")) == Settings(root=str(here))


@pytest.mark.parametrize(
    ("text", "row", "message"),
    [
        ("\nselct = []", 3, "unknown key 'selct'; did you mean 'select'?"),
        ("preview = 1", 2, "'preview' must be true or false, not a whole number"),
        ("fail-on = 'fatal'", 2, "'fail-on' must be one of error, warning, note, not 'fatal'"),
        ("select = 'kept-thing'", 2, "'select' must be an array, not text"),
        ("select = [\n  'lost-thing',\n  'kept-thin',\n]", 4, "'kept-thin'; did you mean 'kept-thing'?"),
        ("ignore = ['teardwn']", 2, "no rule or group is named 'teardwn'; did you mean 'teardown'?"),
        ("[tool.graphlint.per-file-ignores]\n'a.py' = []\n'b.py' = ['x']", 4, "no rule or group is named 'x'"),
        ("[tool.graphlint.per-file-ignores]\n'!' = []", 3, "'!' is no pattern of files"),
        ("exclude = ['ok', '[z-a]']", 2, "'[z-a]' is no pattern of files"),
        ("exclude = ['']", 2, "'' is no pattern of files"),
        ("src = ['nowhere']", 2, "'nowhere' is no folder"),
        (
            "[tool.graphlint.colour]",
            2,
            "unknown key 'colour'; known here: exclude, fail-on, ignore, per-file-ignores, preview, select, src, vocabulary",
        ),
        ("vocabulary = 1", 2, "'vocabulary' must be a table, not a whole number"),
    ],
)
def test_a_wrong_setting_is_an_error_with_its_row(text: str, row: int, message: str) -> None:
    error = wrong(f"[tool.graphlint]\n{text}\n")
    assert message in error.message
    assert error.row == row


def test_a_file_without_the_table_has_no_settings() -> None:
    assert wrong("[tool.other]\n").message == "has no [tool.graphlint]"


def test_a_file_that_is_not_toml_is_an_error_with_its_row() -> None:
    assert wrong("[tool.graphlint]\nselect = [\n").row >= 2


def test_a_file_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(DeclarationError, match=r"^nowhere.toml: cannot be read: No such file"):
        config.load("nowhere.toml")


# -------------------------------------------------------------------------------------------------- which file counts


def test_the_nearest_file_with_the_table_counts(here: Path) -> None:
    write("[tool.graphlint]\n")
    write("[project]\nname = 'x'\n", "a/pyproject.toml")
    write("[project]\nname = 'graphlint-like'\n", "a/b/pyproject.toml")
    write("[tool.graphlint]\n", "a/b/c/pyproject.toml")
    write("", "a/b/c/x.py")
    assert config.find(["a/b/c/x.py"]) == str(here / "a/b/c/pyproject.toml")
    assert config.find(["a/b/c"]) == str(here / "a/b/c/pyproject.toml")
    assert config.find(["a/b"]) == str(here / "pyproject.toml")
    assert config.find(["a/b/c", "a"]) == str(here / "pyproject.toml")
    assert config.find(["a/new.py"]) == str(here / "pyproject.toml")


def test_the_table_may_be_spelled_in_any_way(here: Path) -> None:
    write('tool = { "graphlint" = { preview = true } }\n')
    assert config.find(["."]) == str(here / "pyproject.toml")


def test_no_file_means_the_defaults() -> None:
    write("[tool.ruff]\n")
    assert config.find(["."]) is None


def test_a_broken_file_on_the_way_is_an_error_if_it_speaks_of_this_tool() -> None:
    write("[tool.graphlint]\n")
    write("[tool.ruff\n", "a/pyproject.toml")
    assert config.find(["a"]) is not None
    write("[tool.graphlint\n", "a/pyproject.toml")
    with pytest.raises(DeclarationError):
        config.find(["a"])


# ---------------------------------------------------------------------------------------------------- ignores by file


def test_per_file_ignores_are_patterns_relative_to_the_settings(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        root=str(here),
        per_file_ignores=(("tests/", ("kept-thing",)), ("*_old.py", ("lost-thing",)), ("/a.py", ("teardown",))),
    )
    tests, old, top = settings.per_file_ignores
    assert config.ignored_in("tests/deep/x_old.py", settings) == (tests, old)
    assert config.ignored_in("a.py", settings) == (top,)
    assert config.ignored_in("sub/a.py", settings) == ()
    assert config.idle_patterns(["tests/deep/x_old.py", "sub/a.py"], settings) == ("/a.py",)
    Path("sub").mkdir()
    monkeypatch.chdir("sub")
    assert config.ignored_in(str(here / "a.py"), settings) == (top,)
    assert config.ignored_in("x_old.py", settings) == (old,)
