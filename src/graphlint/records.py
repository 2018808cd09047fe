"""Dictionaries that stand for objects: `state["graphs"]`, with a literal key where others write an attribute.

A name is taken for such a dictionary where a module reads or writes two literal keys of it or more, and nothing there uses it
as a table: with keys that are computed, or item by item. What its keys hold is found over all functions of a package that
speak of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from graphlint import flow
from graphlint.assignments import assigned
from graphlint.flow import Expr, Flow
from graphlint.project import FunctionEntry

_TABLE_METHODS = frozenset(("items", "keys", "values", "popitem", "clear", "update"))
_KEYED_METHODS = frozenset(("get", "pop", "setdefault"))
_FEWEST = 2
"""Fewest literal keys that a dictionary of this kind has."""


_KEY = re.compile(rb"""[\[{(]\s*[rbuRBU]?["']|\bdict\(""")
"""What a function has in its text that writes a literal key."""


@dataclass
class Records:
    """The dictionaries of one package that stand for objects."""

    names: dict[str, set[str]] = field(default_factory=dict)
    """By module, the names and attributes that are such dictionaries."""
    given: dict[str, list[tuple[FunctionEntry, Expr, str]]] = field(default_factory=dict)
    """By key, what it is given: the function, the value, and whether that is the value (set) or an item of it (item)."""


def read(modules: Iterable[tuple[str, list[FunctionEntry]]]) -> Records:
    """Find them in the functions of modules, which come by name."""
    found = Records()
    for module, functions in modules:
        keys: dict[str, set[str]] = {}
        tables: set[str] = set()
        given: list[tuple[str, str, FunctionEntry, Expr, str]] = []
        speaking = {function.name for function in functions if _KEY.search(_text(function))}
        for function in functions:
            for name, key, value, how in _given(function.lowered.flow) if function.name in speaking else ():
                given.append((name, key, function, value, how))
                keys.setdefault(name, set()).add(key)
        words = {name.rpartition(".")[2] for name in keys}
        for function in functions:
            if function.name not in speaking and words.isdisjoint(function.facts.words):
                continue
            for name, read_key in _used(function.lowered.flow):
                if read_key is None:
                    tables.add(name)
                else:
                    keys.setdefault(name, set()).add(read_key)
        names = {name for name, each in keys.items() if name and len(each) >= _FEWEST and name not in tables}
        found.names[module] = names
        for name, key, function, value, how in given:
            if name in names or not name:
                found.given.setdefault(key, []).append((function, value, how))
    return found


def _text(function: FunctionEntry) -> bytes:
    return function.module.source.content[slice(*function.facts.span)]


def _given(body: Flow) -> Iterator[tuple[str, str, Expr, str]]:
    """Names of dictionaries, literal keys, and what a flow gives these; no name for a display that has none of two kinds."""
    named: set[int] = set()
    for target, value, how in assigned(body):
        if how == "annotation":
            continue
        display = _display(value)
        if display and (name := flow.dotted_text(target)):
            named.add(value.span.start)
            yield from ((name, key, each, "set") for key, each in display)
        match target:
            case flow.Item(base=flow.Item(base=base, key=flow.Lit(value=str(key)))):
                yield flow.dotted_text(base) or "?", key, value, "item"
            case flow.Item(base=base, key=flow.Lit(value=str(key))) if how == "item":
                yield flow.dotted_text(base) or "?", key, value, "set"
    for expr in flow.expressions(body):
        display = _display(expr) if expr.span.start not in named else ()
        if len({_kind(each) for _, each in display}) > 1:
            yield from (("", key, each, "set") for key, each in display)


def _display(expr: Expr) -> tuple[tuple[str, Expr], ...]:
    """Keys and values of a dictionary that is written out, all keys literal; nothing for anything else."""
    match expr:
        case flow.Group(kind="dict", items=items, keys=keys) if items and len(keys) == len(items):
            texts = [key.value if isinstance(key, flow.Lit) else None for key in keys]
            if all(isinstance(text, str) for text in texts):
                return tuple((str(text), item) for text, item in zip(texts, items, strict=True))
        case flow.Call(callee=flow.Name(id="dict"), args=(), keywords=keywords) if keywords:
            if all(name is not None for name, _ in keywords):
                return tuple((str(name), value) for name, value in keywords)
    return ()


def _kind(expr: Expr) -> str:
    """What an expression looks like: nothing, a table, a call, a name."""
    match expr:
        case flow.Lit(value=value):
            return type(value).__name__
        case flow.Group(kind=kind):
            return kind
    return type(expr).__name__


def _used(body: Flow) -> Iterator[tuple[str, str | None]]:
    """Names that a flow reads by a key: with the literal key, or None where they are used as tables."""
    for expr in flow.expressions(body):
        match expr:
            case flow.Item(base=base, key=flow.Lit(value=str(key))):
                yield flow.dotted_text(base), key
            case flow.Item(base=base):
                yield flow.dotted_text(base), None
            case flow.Call(callee=flow.Attr(base=base, name=name), args=(flow.Lit(value=str(key)), *_)) if (
                name in _KEYED_METHODS
            ):
                yield flow.dotted_text(base), key
            case flow.Call(callee=flow.Attr(base=base, name=name)) if name in _TABLE_METHODS | _KEYED_METHODS:
                yield flow.dotted_text(base), None
            case flow.Op(op="in" | "not in", operands=(key, base)) if not isinstance(key, flow.Lit):
                yield flow.dotted_text(base), None
            case flow.Each(iterable=base):
                yield flow.dotted_text(base), None
    for statement in flow.statements(body):
        match statement:
            case flow.Star(iterable=iterable) if iterable is not None:
                yield flow.dotted_text(iterable), None
            case flow.Bind(target=flow.Item(base=base, key=key)) | flow.Drop(target=flow.Item(base=base, key=key)):
                literal = key.value if isinstance(key, flow.Lit) and isinstance(key.value, str) else None
                yield flow.dotted_text(base), literal
