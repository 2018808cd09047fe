"""The vocabulary as a list, and what of it matches nothing in a tree: engines move, names rot."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from graphlint import check, files, project
from graphlint.config import Settings
from graphlint.declarations import Document
from graphlint.evaluate import Behaviors
from graphlint.project import Project
from graphlint.source import Source
from graphlint.vocabulary import Vocabulary


class Item(NamedTuple):
    """One name in a vocabulary."""

    file: str
    row: int
    kind: str
    """call, with, decorator, alias, object or lifecycle; store and released-by for the further names of an effect."""
    name: str
    says: str
    """What is said of it, in the words of the file."""


def items(vocabulary: Vocabulary) -> list[Item]:
    """Every name of a vocabulary, file by file and row by row."""
    return [item for document in vocabulary.documents for item in _items(document)]


def unused(paths: Sequence[str], settings: Settings, vocabulary: Vocabulary) -> list[Item] | None:
    """The names that match nothing in a tree: neither is such a thing defined there, nor does a call come to it.

    Looked for are the names of the vocabularies that are about the tree: those that name one of its packages, and the
    project's own.

    Returns:
        The names; None where no vocabulary is about the tree.

    Raises:
        PathError: a path is missing.
    """
    selection = files.project_files(paths, settings)
    modules = project.module_names([Source(path, b"") for path in selection.context], selection.roots)
    packages = {name.partition(".")[0] for _, name in modules.values()}
    wanted = [item for document in vocabulary.documents if _is_about(document, packages) for item in _items(document)]
    if not wanted:
        return None
    inputs = check.Inputs(selection, _telling(wanted, modules), {}, (), settings, vocabulary)
    missing = wanted
    for each in check.projects(inputs):
        behaviors = _built(each, vocabulary, missing)
        missing = [
            item for item in missing if item.name not in vocabulary.matched and not _is_defined(item.name, behaviors)
        ]
    return missing


def _items(document: Document) -> Iterator[Item]:
    file = document.path if document.prefix else os.path.basename(document.path)  # a table of the project's settings
    found = [
        Item(file, document.row("aliases", name), "alias", name, other)
        for name, other in document.get("aliases", {}).items()
    ]
    found += [
        Item(file, document.row("objects", name), "object", name, other)
        for name, other in document.get("objects", {}).items()
    ]
    for index, effect in enumerate(document.get("effect", ())):
        says = _says(effect)
        found += [
            Item(file, document.row("effect", index, "calls", number), "call", name, says)
            for number, name in enumerate(effect.get("calls", ()))
        ]
        for key in ("call", "with", "decorator", "store", "released-by"):
            if key in effect:
                found.append(Item(file, document.row("effect", index, key), key, effect[key], says))
    found += [
        Item(file, document.row("lifecycle", name), "lifecycle", name, expression)
        for name, expression in document.get("lifecycle", {}).items()
    ]
    return iter(sorted(found, key=lambda item: item.row))


def _says(effect: Mapping[str, Any]) -> str:
    words = [effect["does"] if "does" in effect else f"makes {effect['makes']}"]
    words += [
        f"{word} {effect[key]}" for word, key in (("of", "of"), ("while", "while"), ("in", "scope")) if key in effect
    ]
    return " ".join(words)


def _is_about(document: Document, packages: set[str]) -> bool:
    return bool(document.prefix) or any(item.name.partition(".")[0] in packages for item in _items(document))


def _telling(wanted: Iterable[Item], modules: Mapping[str, tuple[str, str]]) -> dict[str, Source]:
    """The files that can define or use what is named: those that mention it, and the modules on the way to it."""
    names = {item.name for item in wanted}
    words = {_last(name) for name in names}
    on_the_way = {
        ".".join(parts[:end]) for parts in (name.split(".") for name in names) for end in range(1, len(parts))
    }
    found: dict[str, Source] = {}
    for path, (_, module) in sorted(modules.items()):
        source = files.read(path)
        if source is not None and (module in on_the_way or any(word.encode() in source.content for word in words)):
            found[path] = source
    return found


def _built(each: Project, vocabulary: Vocabulary, missing: Iterable[Item]) -> Behaviors:
    """The behaviors of the functions that mention what is named; building them notes what calls come to."""
    words = {_last(item.name) for item in missing}
    behaviors = Behaviors(each, vocabulary)
    behaviors.candidates = {
        name for name, function in each.functions.items() if not words.isdisjoint(function.facts.words)
    }
    for name in sorted(behaviors.candidates):
        behaviors.build(name)
    return behaviors


def _is_defined(name: str, behaviors: Behaviors) -> bool:
    symbol = behaviors.project.resolve(name)
    if symbol.kind == "external":
        return False
    if symbol.kind != "attribute":
        return True
    owner, _, attribute = symbol.name.rpartition(".")
    return any(
        attribute in behaviors.project.classes[each].attributes or attribute in behaviors.field_bindings(each)
        for each in behaviors.project.mro(owner)
        if each in behaviors.project.classes
    )


def _last(name: str) -> str:
    return name.rpartition(".")[2]
