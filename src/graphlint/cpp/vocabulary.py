"""The names that C++ and CUDA sources use, from `vocabularies/cpp.toml`: what is called, tested, kept and bound.

Format (unknown keys are errors, with file and row):

    [[effect]]
    call = ["cudaMalloc", ".resize_"]   names by their end; a leading dot asks for a method
    type = "CUDAGraph"                  only on a receiver whose declared type holds this word
    does = "ws_alloc"                   an effect of graphlint.effects
    of = "self"                         what it is about: self | process | argN
    gives = "result"                    result: the call's value is the new memory; result:N: it goes where argument
                                        N points; flag: the value is true while capturing; status: the value is a
                                        capture status; status:N: the status goes where argument N points
    like = true                         the new memory is where another tensor is, on the device
    once = true                         doing it twice is an error, not a waste

    [[binding]]                         a macro with a body that binds functions: `TORCH_LIBRARY(ns, m) { m.def(...); }`
    macro = ["TORCH_LIBRARY"]
    handle = 1                          position of the handle; the name comes first
    functions = "torch.ops"             what Python finds its functions and its classes under
    classes = "torch.classes"

`[status] [types] [options] [holders] [refusals] [binders]` are lists of words, described in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources

from graphlint import declarations
from graphlint.declarations import Document, ListOf, OneOf, Table
from graphlint.effects import Effect
from graphlint.mentions import Groups, grouped


@dataclass(frozen=True)
class Entry:
    """One effect of one call."""

    name: str
    does: Effect
    of: str = "process"
    gives: str = ""
    """`result`, `flag`, `status` or nothing; `position` says where, if not in the call's value."""
    position: int | None = None
    type: str = ""
    like: bool = False
    once: bool = False


@dataclass(frozen=True)
class BindingMacro:
    """A macro whose body makes C++ functions callable from Python."""

    handle: int
    functions: str
    classes: str


@dataclass(frozen=True)
class Words:
    """Lists of words; the TOML file says what each is for."""

    status_none: frozenset[str]
    status_active: frozenset[str]
    memory_types: frozenset[str]
    graph_types: frozenset[str]
    pool_scopes: frozenset[str]
    transparent: frozenset[str]
    host_options: frozenset[str]
    device_options: frozenset[str]
    keep: frozenset[str]
    look: frozenset[str]
    drop: frozenset[str]
    size: frozenset[str]
    view: frozenset[str]
    make: frozenset[str]
    passed_on: frozenset[str]
    generic: frozenset[str]
    refusals: frozenset[str]
    conditions: frozenset[str]
    statuses: frozenset[str]
    class_binders: frozenset[str]
    binders: frozenset[str]


@dataclass(frozen=True)
class Vocabulary:
    """Everything that is known about names in C++."""

    effects: Mapping[str, tuple[Entry, ...]]
    """By last word, without the leading dot."""
    bindings: Mapping[str, BindingMacro]
    words: Words
    tokens: Groups = field(default_factory=dict)
    """A file without any of the tokens has no effect and no binding in it."""

    def entries(self, name: str, *, is_method: bool, receiver: str = "") -> tuple[Entry, ...]:
        """The effects of calling `name`, which may be qualified; `receiver` is the type of a method's object."""
        last = name.rpartition("::")[2]
        return tuple(
            entry
            for entry in self.effects.get(last, ())
            if _matches(entry.name, name, is_method=is_method) and (not entry.type or has_word(receiver, entry.type))
        )

    @cached_property
    def called(self) -> frozenset[str]:
        """What `Function.calls` holds where a function may have an effect."""
        names = {entry.name for entries in self.effects.values() for entry in entries}
        found = {name.rpartition("::")[2] for name in names}
        return frozenset(found | {f".{name}" for name in names if not name.startswith(".") and "::" not in name})


def has_word(type_text: str, word: str) -> bool:
    """Whether a type is, holds or points to a type of that name: `std::vector<at::cuda::CUDAGraph>` has `CUDAGraph`."""
    start = type_text.find(word)
    while start >= 0:
        end = start + len(word)
        if not (type_text[start - 1 : start].isalnum() or type_text[start - 1 : start] == "_") and not (
            type_text[end : end + 1].isalnum() or type_text[end : end + 1] == "_"
        ):
            return True
        start = type_text.find(word, start + 1)
    return False


def _matches(entry: str, name: str, *, is_method: bool) -> bool:
    if entry.startswith("."):
        return is_method
    if is_method:
        # An allocator may hang on an object: `allocator->emptyCache()`. A qualified name never does.
        return "::" not in entry
    return name == entry or name.endswith("::" + entry)


# -------------------------------------------------------------------------------------------------------------- loading

_WORD_LISTS = {
    "status": ("none", "active"),
    "types": ("memory", "graph", "pool-scope", "transparent"),
    "options": ("host", "device"),
    "holders": ("keep", "look", "drop", "size", "view", "make", "pass", "generic"),
    "refusals": ("calls", "conditions", "statuses"),
    "binders": ("class", "define"),
}
_SCHEMA = Table(
    required={
        "effect": ListOf(
            Table(
                required={"call": ListOf(str), "does": OneOf(tuple(effect.value for effect in Effect))},
                optional={"of": str, "gives": str, "type": str, "like": bool, "once": bool},
            )
        ),
        "binding": ListOf(
            Table(required={"macro": ListOf(str), "functions": str, "classes": str}, optional={"handle": int})
        ),
        **{name: Table(required={key: ListOf(str) for key in keys}, optional={}) for name, keys in _WORD_LISTS.items()},
    }
)
_GIVES = ("result", "flag", "status")


def parse(document: Document) -> Vocabulary:
    """The vocabulary that a document declares.

    Raises:
        DeclarationError: it does not follow the format above, with file and row.
    """
    document.check(_SCHEMA)
    effects: dict[str, list[Entry]] = {}
    for index, item in enumerate(document["effect"]):
        gives, position = _gives(document, index, item.get("gives", ""))
        for name in item["call"]:
            entry = Entry(
                name,
                Effect(item["does"]),
                _of(document, index, item.get("of", "process")),
                gives,
                position,
                item.get("type", ""),
                item.get("like", False),
                item.get("once", False),
            )
            effects.setdefault(name.rpartition("::")[2].removeprefix("."), []).append(entry)
    bindings = {
        macro: BindingMacro(item.get("handle", 1), item["functions"], item["classes"])
        for item in document["binding"]
        for macro in item["macro"]
    }
    lists = {(table, key): frozenset(document[table][key]) for table, keys in _WORD_LISTS.items() for key in keys}
    words = Words(*lists.values())
    found = {name: tuple(entries) for name, entries in effects.items()}
    return Vocabulary(found, bindings, words, grouped(_tokens(found, bindings, words)))


@cache
def load() -> Vocabulary:
    """The vocabulary that comes with graphlint."""
    file = resources.files("graphlint") / "vocabularies" / "cpp.toml"
    return parse(declarations.parse(file.read_bytes(), str(file)))


def _gives(document: Document, index: int, text: str) -> tuple[str, int | None]:
    kind, _, position = text.partition(":")
    if text and (kind not in _GIVES or (position and not position.isdecimal())):
        raise document.error(f"'gives' must be one of {', '.join(_GIVES)}, not {text!r}", "effect", index, "gives")
    return kind, int(position) if position else None


def _of(document: Document, index: int, text: str) -> str:
    if text not in ("self", "process") and not (text.startswith("arg") and text[3:].isdecimal()):
        raise document.error(f"'of' must be self, process or argN, not {text!r}", "effect", index, "of")
    return text


_WEAK = frozenset({".reset", ".allocate"})
"""Too common to tell a file by: their type's name tells it."""


def _tokens(
    effects: Mapping[str, Iterable[Entry]], bindings: Mapping[str, BindingMacro], words: Words
) -> tuple[bytes, ...]:
    names = {entry.name for entries in effects.values() for entry in entries} - _WEAK
    methods = {name[1:] for name in names if name.startswith(".")}
    found = {name for name in names if not name.startswith(".")} | words.graph_types | frozenset(bindings)
    found |= {entry.type for entries in effects.values() for entry in entries if entry.name in _WEAK}
    found |= {f"::{name}<" for name in words.class_binders}
    found |= {f"{arrow}{name}(" for name in methods for arrow in (".", ">")}
    # A token that holds another one finds nothing new.
    return tuple(sorted(one.encode() for one in found if not any(other != one and other in one for other in found)))
