"""Other names for what a program calls by names of its own."""

from __future__ import annotations

import ast
import builtins
import hashlib
import io
import keyword
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from graphlint import vocabulary

WORDS = frozenset(
    (
        "name",
        "label",
        "tag",
        "role",
        "id",
        "index",
        "key",
        "reserve",
        "keep",
        "retain",
        "pin",
        "lock",
        "hold",
        "sleep",
        "suspend",
    )
)
"""Words that rules read in the names of parameters, flags and methods."""

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|_+")
_SYLLABLES = tuple(consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou")


def own_names(programs: Iterable[str]) -> set[str]:
    """Names that programs give: to classes, functions, parameters, variables and attributes."""
    found: set[str] = set()
    for program in programs:
        for node in ast.walk(ast.parse(program)):
            found.update(_given(node))
    return {name for name in found if not name.startswith("__")}


def _given(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.alias(asname=str(name)):
            yield name


def foreign_names(programs: Iterable[str], own: Collection[str]) -> set[str]:
    """Names of a program that libraries know as well: a keyword of their calls, a method of their objects, a module."""
    found = {*dir(builtins), *keyword.kwlist, *keyword.softkwlist, "self", "cls"}
    for kind in (dict, list, set, str, bytes, int, float, tuple, object, type):
        found.update(dir(kind))
    for program in programs:
        tree = ast.parse(program)
        imported = {alias.asname or alias.name.partition(".")[0] for node in ast.walk(tree) for alias in _aliases(node)}
        for node in ast.walk(tree):
            found.update(part for alias in _aliases(node) for part in alias.name.split("."))
            if isinstance(node, ast.Attribute) and _root(node) in imported - set(own):
                found.add(node.attr)
            if isinstance(node, ast.Call) and _last(node.func) not in own:
                found.update(word.arg for word in node.keywords if word.arg is not None)
    return found


def _aliases(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def other_names(names: Iterable[str], salt: str, kept: Collection[str] = ()) -> dict[str, str]:
    """Another name for each, in the same case style; one word is always the same other word, words in `kept` stay."""
    return {name: "".join(_other(piece, salt, kept) for piece in _WORDS.findall(name)) for name in sorted(names)}


def _other(word: str, salt: str, kept: Collection[str]) -> str:
    low = word.lower()
    if not low.isalpha() or low in kept or low.removesuffix("s") in kept:
        return word
    digest = hashlib.sha256(f"{salt} {low.removesuffix('s')}".encode()).digest()
    new = "".join(_SYLLABLES[byte % len(_SYLLABLES)] for byte in digest[:4])
    new += "s" if low.endswith("s") else "x"
    return new.upper() if len(word) > 1 and word.isupper() else new.capitalize() if word[0].isupper() else new


def renamed(program: str, names: Mapping[str, str]) -> str:
    """A program with other names, and every byte besides as it was; strings that are one of the names change as well."""
    lines = program.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(program).readline))):
        new = None
        if token.type == tokenize.NAME:
            new = names.get(token.string)
        elif token.type == tokenize.STRING and token.string[1:-1] in names:
            new = token.string[0] + names[token.string[1:-1]] + token.string[-1]
        elif token.type == tokenize.STRING and token.string[:1] in "fF":
            new = re.sub(
                r"(?<=\{)[^{}]*(?=\})", lambda m: re.sub(r"\w+", lambda w: names.get(w[0], w[0]), m[0]), token.string
            )
        if new is not None and token.start[0] == token.end[0]:
            row = token.start[0] - 1
            lines[row] = lines[row][: token.start[1]] + new + lines[row][token.end[1] :]
    return "".join(lines)


def kept_words() -> frozenset[str]:
    """Words that tell what an object is where nothing else does: those of the vocabulary, and the rules' own."""
    names = vocabulary.load().names
    lists = (word for field in names.__dataclass_fields__ for word in getattr(names, field))
    return WORDS.union(part for word in lists for part in re.findall(r"[a-z]+", word.lower()))


def other(files: Mapping[str, str], salt: str) -> tuple[dict[str, str], dict[str, str]]:
    """The modules with other names, and which name became which."""
    own = own_names(files.values()) - {"observe"}
    known = {name.rpartition(".")[2] for name in vocabulary.load().calls} | {Path(name).stem for name in files}
    names = other_names(own - foreign_names(files.values(), own) - known, salt, kept_words())
    return {name: renamed(text, names) for name, text in files.items()}, names
