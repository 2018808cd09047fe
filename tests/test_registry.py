from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from graphlint import registry
from graphlint.declarations import DeclarationError
from graphlint.registry import UnknownRuleError

RULE = """\
summary = "a thing is kept"
message = "{{thing}} is kept"
group = "{group}"
severity = "error"
precision = "high"
kind = "shape"
reported-at = "the binding"
fix = "none"
since = "0.1"
{more}
"""


def write(place: Path, name: str, group: str = "lifetime", more: str = "") -> None:
    (place / name).mkdir()
    (place / name / "rule.toml").write_text(RULE.format(group=group, more=more))
    (place / name / "README.md").write_text(f"# {name}\n\ncafé\n", encoding="utf-8")
    (place / name / f"{name.replace('-', '_')}.py").write_text(f"NAME = {name!r}\n")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that stands in for the package of the rules."""
    write(tmp_path, "gone-weight", "input")
    write(tmp_path, "kept-thing", more='former-names = ["old-thing"]\ntrades-for = ["lost-thing"]')
    write(tmp_path, "lost-thing")
    (tmp_path / "__pycache__").mkdir()
    monkeypatch.setattr(import_module("graphlint.rules"), "__path__", [str(tmp_path)])
    clear()
    yield tmp_path
    clear()


def clear() -> None:
    registry.rules.cache_clear()
    registry.folder.cache_clear()


def selected(**words: list[str]) -> list[str]:
    return [rule.name for rule in registry.select(**words)]


@pytest.mark.usefixtures("place")
def test_every_folder_with_a_declaration_is_a_rule() -> None:
    assert [rule.name for rule in registry.rules()] == ["gone-weight", "kept-thing", "lost-thing"]


def test_a_new_folder_is_all_that_a_new_rule_takes(place: Path) -> None:
    write(place, "added-thing")
    assert registry.by_name("added-thing") == registry.rules()[0]


@pytest.mark.usefixtures("place")
def test_former_names_still_name_a_rule() -> None:
    assert registry.by_name("old-thing") is registry.by_name("kept-thing")


@pytest.mark.usefixtures("place")
def test_an_unknown_name_is_an_error_that_suggests_a_near_one() -> None:
    with pytest.raises(UnknownRuleError, match=r"^no rule is named 'kept-thin'; did you mean 'kept-thing'\?$"):
        registry.by_name("kept-thin")
    with pytest.raises(UnknownRuleError, match=r"^no rule is named 'lifetime'$"):
        registry.select(names=["lifetime"])
    with pytest.raises(UnknownRuleError, match=r"^no rule or group is named 'lifetimes'; did you mean 'lifetime'\?$"):
        registry.select(select=["lifetimes"])
    with pytest.raises(UnknownRuleError, match=r"^no rule or group is named 'lost-thin'; did you mean 'lost-thing'\?$"):
        registry.select(ignore=["lost-thin"])


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("words", "names"),
    [
        ({}, ["gone-weight", "kept-thing", "lost-thing"]),
        ({"names": ["lost-thing", "old-thing"]}, ["kept-thing", "lost-thing"]),
        ({"select": ["input"]}, ["gone-weight"]),
        ({"select": ["lifetime"]}, ["kept-thing", "lost-thing"]),
        ({"select": ["capture"]}, []),
        ({"select": ["input"], "names": ["lost-thing"]}, ["gone-weight", "lost-thing"]),
        ({"ignore": ["lifetime"]}, ["gone-weight"]),
        ({"ignore": ["old-thing"]}, ["gone-weight", "lost-thing"]),
        ({"select": ["lifetime"], "ignore": ["lost-thing", "input"]}, ["kept-thing"]),
        ({"names": ["lost-thing"], "ignore": ["lifetime"]}, []),
    ],
)
def test_a_selection(words: dict[str, list[str]], names: list[str]) -> None:
    assert selected(**words) == names


@pytest.mark.usefixtures("place")
def test_a_rules_code_and_page_are_found_by_its_name() -> None:
    found = registry.by_name("kept-thing")
    assert registry.code(found).NAME == "kept-thing"
    assert registry.page(found) == "# kept-thing\n\ncafé\n"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('trades-for = ["lost-thin"]', "no rule is named 'lost-thin'; did you mean 'lost-thing'?"),
        ('trades-for = ["lost-thing", "old-thing"]', "no rule is named 'old-thing'"),
        ('former-names = ["lost-thing"]', "'lost-thing' is a name of 'lost-thing' already"),
        ('former-names = ["old-thing"]', "'old-thing' is a name of 'kept-thing' already"),
        ('former-names = ["new-thing"]', "'new-thing' is a name of 'new-thing' already"),
    ],
)
def test_names_of_other_rules_are_checked(place: Path, more: str, message: str) -> None:
    write(place, "new-thing", more=more)
    with pytest.raises(DeclarationError) as caught:
        registry.rules()
    assert caught.value.message.startswith(message)
    assert (caught.value.path, caught.value.row) == (str(place / "new-thing" / "rule.toml"), 10)


def test_a_checkout_that_is_not_installed_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    clear()
    monkeypatch.setitem(sys.modules, "graphlint.rules", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install -e \."):
        registry.folder()
    clear()
