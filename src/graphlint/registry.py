"""Finds the rules: every folder of the package `graphlint.rules` that holds a `rule.toml` is one; there is no list.

The package is the repository's top-level `rules/`; packaging maps it there, so it is found in the same way in a wheel
and in an editable install. Rules are read once a process, a rule's Python file only when its code is wanted.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType

from graphlint import declarations, rule
from graphlint.declarations import suggestion
from graphlint.rule import Group, Rule


class UnknownRuleError(LookupError):
    """Nothing has the name that somebody asked for."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"no {kind} is named {name!r}{suggestion(name, known)}")
        self.name = name


@functools.cache
def folder() -> str:
    """The folder that holds the rules' folders.

    Raises:
        ModuleNotFoundError: the package of the rules is missing, as in a checkout that is not installed.
    """
    try:
        package = import_module("graphlint.rules")
    except ModuleNotFoundError as error:
        if error.name != "graphlint.rules":
            raise
        raise ModuleNotFoundError(
            "the rules are not installed; in a checkout run: pip install -e .", name=error.name
        ) from error
    # `importlib.resources` would take as long to import as the command line does
    return str(next(iter(package.__path__)))


@functools.cache
def rules() -> tuple[Rule, ...]:
    """All rules, sorted by name.

    Raises:
        DeclarationError: a `rule.toml` is wrong, two rules claim one name, or one names a rule that does not exist.
    """
    return load(folder())


def load(place: str | os.PathLike[str]) -> tuple[Rule, ...]:
    """The rules in the folders of a place, sorted by name.

    Raises:
        DeclarationError: as `rules`.
    """
    files = {name: os.path.join(place, name, "rule.toml") for name in sorted(os.listdir(place))}
    documents = {name: declarations.read(file) for name, file in files.items() if os.path.isfile(file)}
    loaded = {name: rule.load(name, document) for name, document in documents.items()}
    owners = {name: name for name in loaded}
    for name, found in loaded.items():
        for index, other in enumerate(found.trades_for):
            if other not in loaded:
                message = f"no rule is named {other!r}{suggestion(other, loaded)}"
                raise documents[name].error(message, "trades-for", index)
        for index, former in enumerate(found.former_names):
            if former in owners:
                message = f"{former!r} is a name of {owners[former]!r} already"
                raise documents[name].error(message, "former-names", index)
            owners[former] = name
    return tuple(loaded[name] for name in sorted(loaded))


def by_name(name: str) -> Rule:
    """The rule that has this name, or once had it.

    Raises:
        UnknownRuleError: there is none; the message suggests a near name.
    """
    for found in rules():
        if name == found.name or name in found.former_names:
            return found
    raise UnknownRuleError("rule", name, (found.name for found in rules()))


def select(names: Iterable[str] = (), select: Iterable[str] = (), ignore: Iterable[str] = ()) -> tuple[Rule, ...]:
    """The rules to run, sorted by name: those named or selected, all where nothing is; less the ignored ones.

    Args:
        names: rules.
        select: rules or groups of rules.
        ignore: rules or groups of rules; wins over the other two.

    Raises:
        UnknownRuleError: no rule has such a name, and where groups are allowed no group either.
    """
    asked = [*({by_name(name)} for name in names), *map(_members, select)]
    wanted = set[Rule]().union(*asked) if asked else set(rules())
    return tuple(found for found in rules() if found in wanted.difference(*map(_members, ignore)))


def code(found: Rule) -> ModuleType:
    """The rule's Python file as a module; importing it may import LibCST."""
    return import_module(f"graphlint.rules.{found.name}.{found.name.replace('-', '_')}")


def page(found: Rule) -> str:
    """The rule's page, in Markdown."""
    with open(os.path.join(folder(), found.name, "README.md"), encoding="utf-8") as file:
        return file.read()


def _members(word: str) -> set[Rule]:
    """The rules of a group, or the one rule that a word names."""
    groups = [group.value for group in Group]
    if word in groups:
        return {found for found in rules() if found.group.value == word}
    try:
        return {by_name(word)}
    except UnknownRuleError:
        raise UnknownRuleError("rule or group", word, (*groups, *(found.name for found in rules()))) from None
