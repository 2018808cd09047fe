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
    written = set[str]().union(*(project.functions[f"{each}.{MODULE}"].facts.words for each in project.modules))
    makes = frozenset(word for word in written if word.islower() and names.makes_memory(word))
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
        self._known: dict[str, dict[str, list[FunctionEntry]]] = {}
        """By module or owner, and by the word that names them there."""
        self._given: set[tuple[str, str]] = set()
        """Places and words whose functions were named before."""
        self._lives: dict[str, list[FunctionEntry]] = {}
        """What is part of the life of a class's objects."""
        for entry in project.functions.values():
            if entry.facts.qualname != MODULE:
                owner, module = entry.owner or f"mod:{entry.module.name}", f"in:{entry.module.name}"
                self._by_owner.setdefault(owner, []).append(entry)
                word = entry.facts.name
                if entry.owner is not None and word in _LIFETIME:
                    word = entry.owner.rpartition(".")[2]
                    self._lives.setdefault(entry.owner, []).append(entry)
                for place in (owner, module):
                    self._known.setdefault(place, {}).setdefault(word, []).append(entry)
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
        """What a function names in its module, with lifetimes of objects, but for what was given for another one.

        Args:
            name: of the function.
            far: whether to go on to what those name in their classes, and so on; all of it is given then.
        """
        found: set[str] = set()
        given: set[tuple[str, str]] = set() if far else self._given
        namer = self._project.functions[name]
        waiting = [*self._near(namer, given), *self._named_in(f"in:{namer.module.name}", namer, given)]
        following: list[FunctionEntry] = []
        while True:
            for mate in waiting:
                if mate.name not in found:
                    found.add(mate.name)
                    following.append(mate)
            if not far or not following:
                return found
            namer = following.pop()
            waiting = list(self._near(namer, given))

    def _near(self, entry: FunctionEntry, given: set[tuple[str, str]]) -> Iterator[FunctionEntry]:
        """What a function names in its class and among the functions of its module, with the life of its own object."""
        if entry.owner is not None:
            yield from self._lives.get(entry.owner, ())
            for owner in self._project.mro(entry.owner):
                yield from self._named_in(owner, entry, given)
        yield from self._named_in(f"mod:{entry.module.name}", entry, given)

    def _named_in(self, place: str, entry: FunctionEntry, given: set[tuple[str, str]]) -> Iterator[FunctionEntry]:
        known, said = self._known.get(place, {}), entry.facts.words
        for word in [each for each in known if each in said] if len(known) < len(said) else said:
            if word in known and (place, word) not in given:
                given.add((place, word))
                yield from known[word]


def binders(behaviors: Iterable[Behavior], known: Behaviors, is_declared: Callable[[Slot], bool]) -> Iterator[str]:
    """Functions that give their values to the attributes that behaviors test, or read as tensors that nobody has made yet."""
    wanted = {slot for each in behaviors for slot in each.reads if slot[1] in each.tested or is_declared(slot)}
    for owner, name in sorted(wanted):
        for holder in known.project.mro(owner) if owner in known.project.classes else ():
            if holder in known.project.classes:
                yield from (function.name for function, _, _ in known.field_bindings(holder).get(name, ()))


class Callers:
    """The functions that may call others, by their names."""

    def __init__(self, behaviors: Behaviors) -> None:
        self._behaviors = behaviors
        self._by_word: dict[str, dict[str, list[str]]] = {}
        self._given: set[tuple[str, str]] = set()
        """Words and modules whose functions were given before."""

    def of(self, name: str) -> Iterator[str]:
        """Those of a function, but for what was given for another one.

        For a name that says little its class or module is mentioned too.
        """
        project = self._behaviors.project
        entry = project.functions[name]
        owner = entry.facts.owner.rpartition(".")[2] if entry.facts.owner else None
        word = entry.facts.name
        mention = owner or entry.module.name.rpartition(".")[2]
        if word in ("__init__", "__post_init__", "__enter__", "__exit__", "__aenter__", "__aexit__") and owner:
            word = owner
            mention = owner
        elif word.startswith("__") and owner:
            yield from _users(project, self._behaviors, owner)
            return
        elif word.startswith("__") or ".<locals>." in name:
            return
        telling = "_" in word.strip("_") and word not in COMMON_METHODS
        for module, names in self._with(word).items():
            if (word, module) in self._given:
                continue
            if telling or mention in project.functions[f"{module}.{MODULE}"].facts.words:
                self._given.add((word, module))
                yield from names

    def _with(self, word: str) -> dict[str, list[str]]:
        """The functions whose text has a word, by module."""
        if word not in self._by_word:
            found: dict[str, list[str]] = {}
            for each in self._behaviors.functions_with(word):
                if each.facts.qualname != MODULE:
                    found.setdefault(each.module.name, []).append(each.name)
            self._by_word[word] = found
        return self._by_word[word]


def _users(project: Project, behaviors: Behaviors, owner: str) -> Iterator[str]:
    """Functions that mention a variable of a module which is made of a class: what Python calls of it has no name there."""
    for module in project.modules.values():
        if owner in project.functions[f"{module.name}.{MODULE}"].facts.words:
            for name, binds in module.variables.items():
                if any(
                    isinstance(bind.value, flow.Call) and flow.last_name(bind.value.callee) == owner for bind in binds
                ):
                    yield from (user.name for user in behaviors.functions_with(name) if user.facts.qualname != MODULE)
