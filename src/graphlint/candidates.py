"""Which functions of a large project are worth a behavior: by their words, then by who shares what with those that matter.

A project of ten thousand functions has a few hundred in which something happens to graphs or to their memory. Some say so
in their text. The others call one of these, are called by one where it stands, or touch what one has put somewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from graphlint import flow
from graphlint.behavior import Behavior, Slot
from graphlint.effects import Effect
from graphlint.evaluate import Behaviors
from graphlint.facts import MODULE
from graphlint.project import FunctionEntry, Project
from graphlint.sieve import identifiers, keeps_memory
from graphlint.vocabulary import Vocabulary, words_in
from graphlint.words import COMMON_METHODS

_LIFETIME = frozenset(("__init__", "__post_init__", "__new__", "__enter__", "__exit__", "__del__"))
_TELLING = frozenset((Effect.GRAPH_DEATH, Effect.CAPTURE, Effect.WS_RELEASE))

_MISSING = rb"(?:is None|not in \w[\w.]*|hasattr\([^()]*\))\s*\)?\s*or\b[^:]{0,200}?"
_KEEPS = re.compile(
    rb"popitem\(|__missing__|next\(iter\(|(?:\.numel\(\)|\.shape\[0\]|\.shape|\.size\(0\)|nbytes) !=|"
    + _MISSING
    + rb"[^-<>=]<[^<]"
)
"""What a function does that keeps memory for the next call: an item too many or missing, a wrong size, one too small."""


class First(NamedTuple):
    """Where the search begins."""

    speaking: frozenset[str]
    """Functions that name an effect, or a release of something that works with graphs."""
    keeping: frozenset[str]
    """Functions that keep memory for the next call, as their text says."""


def first(project: Project, vocabulary: Vocabulary) -> First:
    """Functions that say in their text that something may matter in them."""
    names = vocabulary.names
    spoken = {word for entry in project.functions.values() for word in entry.facts.words}
    words = identifiers(vocabulary) | {
        word for word in spoken if "_" in word.strip("_") and names.effect(word, "") in _TELLING
    }
    graphs = {word for word in spoken if not names.graph.isdisjoint(words_in(word))}
    verbs = {word for word in spoken if word in names.captures or not names.verbs.isdisjoint(words_in(word))}
    libraries = {name for name, entries in vocabulary.calls.items() if any(each.makes == "memory" for each in entries)}
    makes = frozenset(
        word
        for module in project.modules.values()
        for word in project.functions[f"{module.name}.{MODULE}"].facts.words
        if word.islower() and vocabulary.names.makes_memory(word)
    )
    within: dict[str, list[FunctionEntry]] = {}
    for entry in project.functions.values():
        if entry.facts.qualname != MODULE:
            within.setdefault(entry.module.name, []).append(entry)
    speaking: set[str] = set()
    keeping: set[str] = set()
    for name, entries in within.items():
        module = project.modules[name]
        makers = makes | {
            alias
            for alias, symbol in module.scope.items()
            if symbol.kind == "import" and vocabulary.canonical(symbol.name) in libraries
        }
        for entry in entries:
            said = entry.facts.words
            text = module.source.content[slice(*entry.facts.span)]
            if not words.isdisjoint(said) or not (graphs.isdisjoint(said) or verbs.isdisjoint(said)):
                speaking.add(entry.name)
            if not makers.isdisjoint(said) or keeps_memory(text) or _KEEPS.search(text) is not None:
                keeping.add(entry.name)
    return First(frozenset(speaking), frozenset(keeping))


class Mates:
    """The functions that share attributes or variables: those of a class and its relatives, and of a module."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._by_owner: dict[str, list[FunctionEntry]] = {}
        self._by_module: dict[str, list[FunctionEntry]] = {}
        for entry in project.functions.values():
            if entry.facts.qualname != MODULE:
                self._by_owner.setdefault(entry.owner or f"mod:{entry.module.name}", []).append(entry)
                self._by_module.setdefault(entry.module.name, []).append(entry)
        self._below: dict[str, list[str]] = {}
        for name in project.classes:
            for each in project.mro(name):
                self._below.setdefault(each, []).append(name)

    def mentioning(self, slot: Slot) -> Iterator[str]:
        """Those that mention an attribute of a class, or a variable of a module."""
        owner, name = slot
        owners = {owner, *self._below.get(owner, ())}
        if owner in self._project.classes:
            owners.update(self._project.mro(owner))
        for each in owners:
            yield from (entry.name for entry in self._by_owner.get(each, ()) if name in entry.facts.words)

    def named(self, name: str, *, far: bool) -> set[str]:
        """What a function names in its module, with lifetimes of objects.

        Args:
            name: of the function.
            far: whether to go on to what those name in their classes, and so on.
        """
        found: set[str] = set()
        entry = self._project.functions[name]
        waiting = [*self._near(entry), *self._by_module[entry.module.name]]
        namer = entry
        following: list[FunctionEntry] = []
        while True:
            for mate in waiting:
                if mate.name not in found and _names(namer, mate):
                    found.add(mate.name)
                    following.append(mate)
            if not far or not following:
                return found
            namer = following.pop()
            waiting = list(self._near(namer))

    def _near(self, entry: FunctionEntry) -> Iterator[FunctionEntry]:
        for owner in self._project.mro(entry.owner) if entry.owner is not None else ():
            yield from self._by_owner.get(owner, ())
        yield from self._by_owner.get(f"mod:{entry.module.name}", ())


def _names(entry: FunctionEntry, mate: FunctionEntry) -> bool:
    """Whether a function names another, or makes objects of its class where that is part of their lives."""
    if mate.owner is not None and mate.facts.name in _LIFETIME:
        return mate.owner == entry.owner or mate.owner.rpartition(".")[2] in entry.facts.words
    return mate.facts.name in entry.facts.words


def binders(behaviors: Iterable[Behavior], known: Behaviors, is_declared: Callable[[Slot], bool]) -> Iterator[str]:
    """Functions that give their values to the attributes that behaviors test, or read as tensors that nobody has made yet."""
    wanted = {slot for each in behaviors for slot in each.reads if slot[1] in each.tested or is_declared(slot)}
    for owner, name in sorted(wanted):
        for holder in known.project.mro(owner) if owner in known.project.classes else ():
            if holder in known.project.classes:
                yield from (function.name for function, _, _ in known.field_bindings(holder).get(name, ()))


def callers(behaviors: Behaviors, name: str) -> Iterator[str]:
    """Functions that may call a function, by its name; for a name that says little its class or module is mentioned too."""
    project = behaviors.project
    entry = project.functions[name]
    owner = entry.facts.owner.rpartition(".")[2] if entry.facts.owner else None
    word = entry.facts.name
    mention = owner or entry.module.name.rpartition(".")[2]
    if word in ("__init__", "__post_init__", "__enter__", "__exit__", "__aenter__", "__aexit__") and owner:
        word = owner
        mention = owner
    elif word.startswith("__") and owner:
        yield from _users(project, behaviors, owner)
        return
    elif word.startswith("__") or ".<locals>." in name:
        return
    telling = "_" in word.strip("_") and word not in COMMON_METHODS
    for caller in behaviors.functions_with(word):
        module = project.functions[f"{caller.module.name}.{MODULE}"]
        if caller.facts.qualname != MODULE and (telling or mention in module.facts.words):
            yield caller.name


def _users(project: Project, behaviors: Behaviors, owner: str) -> Iterator[str]:
    """Functions that mention a variable of a module which is made of a class: what Python calls of it has no name there."""
    for module in project.modules.values():
        if owner in project.functions[f"{module.name}.{MODULE}"].facts.words:
            for name, binds in module.variables.items():
                if any(
                    isinstance(bind.value, flow.Call) and flow.last_name(bind.value.callee) == owner for bind in binds
                ):
                    yield from (user.name for user in behaviors.functions_with(name) if user.facts.qualname != MODULE)
