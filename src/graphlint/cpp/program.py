"""The files of a run as one program: which function a call means, which class a name, where a variable lives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from graphlint.cpp.facts import Binding, CppFacts, Function, Record, Variable
from graphlint.cpp.typetext import plain_type
from graphlint.cpp.vocabulary import load


class Member(NamedTuple):
    """A data member and the class that declares it."""

    record: str
    variable: Variable


class Program:
    """Facts of several files, with the indices that resolve names in them."""

    def __init__(self, facts: Iterable[CppFacts]) -> None:
        self.facts: Sequence[CppFacts] = tuple(facts)
        self.functions: list[Function] = [function for one in self.facts for function in one.functions]
        self.bindings: list[Binding] = [binding for one in self.facts for binding in one.bindings]

    @cached_property
    def _by_simple(self) -> dict[str, list[Function]]:
        found: dict[str, list[Function]] = {}
        for function in self.functions:
            found.setdefault(function.simple, []).append(function)
        return found

    @cached_property
    def _lambdas(self) -> dict[tuple[str, str], Function]:
        return {(function.path, function.name): function for function in self.functions if is_lambda(function)}

    @cached_property
    def _records(self) -> dict[str, list[Record]]:
        found: dict[str, list[Record]] = {}
        for one in self.facts:
            for record in one.records:
                found.setdefault(record.name.rpartition("::")[2], []).append(record)
        return found

    @cached_property
    def _variables(self) -> dict[str, list[Variable]]:
        found: dict[str, list[Variable]] = {}
        for one in self.facts:
            for variable in one.variables:
                found.setdefault(variable.name.rpartition("::")[2], []).append(variable)
        return found

    def relevant(self, words: frozenset[str]) -> frozenset[Function]:
        """Functions that call something named in `words`, or a function that does, as far as names tell."""
        found: dict[int, Function] = {}
        names = set(words)
        while True:
            more = [one for one in self.functions if id(one) not in found and not names.isdisjoint(one.calls)]
            if not more:
                return frozenset(found.values())
            found |= {id(one): one for one in more}
            names |= {name for one in more for name in (one.simple, f".{one.simple}")}

    # --------------------------------------------------------------------------------------------------- functions

    def named(self, name: str) -> list[Function]:
        """Functions whose qualified name ends in `name`.

        Where a macro opens the outer namespace, the written name is the longer one.
        """
        return [
            one
            for one in self._by_simple.get(name.rpartition("::")[2], ())
            if ends_with(one.name, name) or ("::" in one.name and ends_with(name, one.name))
        ]

    def lambda_of(self, path: str, name: str) -> Function | None:
        """The lambda of that id in a file."""
        return self._lambdas.get((path, name))

    def free(self, name: str, arity: int, near: Function) -> Function | None:
        """The function that a call by name means, written in the body of `near`."""
        if near.owner and "::" not in name and (method := self.method(near.owner, name, arity)) is not None:
            return method
        found = [one for one in self.named(name) if ("::" in name or not one.owner) and not one.is_constructor]
        return _best(found, arity, near)

    def method(self, record: str, name: str, arity: int) -> Function | None:
        """The method of a class or of a class it derives from."""
        for owner in self._lineage(record):
            found = [one for one in self._by_simple.get(name, ()) if one.owner and _is_one(one.owner, owner)]
            if found:
                return _best(found, arity, None)
        return None

    def only_method(self, name: str, arity: int) -> Function | None:
        """The method of that name where one class alone has one, and the name is no word that any class may use."""
        if name in load().words.generic:
            return None
        found = [one for one in self._by_simple.get(name, ()) if one.owner]
        return _best(found, arity, None) if len({one.owner for one in found}) == 1 else None

    # ------------------------------------------------------------------------------------------ classes and variables

    def record(self, type_text: str, scope: str) -> Record | None:
        """The class that a type names, as seen from the class or namespace `scope`."""
        name = plain_type(type_text)
        found = [one for one in self._records.get(name.rpartition("::")[2], ()) if ends_with(one.name, name)]
        if len(found) < 2:
            return found[0] if found else None
        while scope:
            for one in found:
                if one.name == f"{scope}::{name}":
                    return one
            scope = scope.rpartition("::")[0]
        return found[0] if len({one.name for one in found}) == 1 else None

    def member(self, record: str, name: str) -> Member | None:
        """A data member of a class or of a class it derives from."""
        for owner in self._lineage(record):
            for one in self._records.get(owner.rpartition("::")[2], ()):
                if _is_one(one.name, owner):
                    for variable in one.members:
                        if variable.name == name:
                            return Member(one.name, variable)
        return None

    def variable(self, name: str, near: Function) -> Variable | None:
        """A variable of a namespace, by its name as written in the body of `near`."""
        found = [one for one in self._variables.get(name.rpartition("::")[2], ()) if ends_with(one.name, name)]
        for one in found:
            if one.name.rpartition("::")[0] == "" or near.name.startswith(one.name.rpartition("::")[0] + "::"):
                return one
        return found[0] if found and "::" in name else None

    def _lineage(self, record: str) -> list[str]:
        """A class and the classes it derives from, nearest first."""
        found = [record]
        for name in found:
            for one in self._records.get(name.rpartition("::")[2], ()):
                if _is_one(one.name, name):
                    found += [base for text in one.bases if (base := plain_type(text)) not in found and len(found) < 32]
        return found


def is_lambda(function: Function) -> bool:
    """Whether a function is a lambda."""
    return function.name.startswith("lambda@")


def ends_with(name: str, ending: str) -> bool:
    """Whether a qualified name ends in another one: `a::b::c` ends in `b::c`."""
    ending = ending.removeprefix("::")
    return name == ending or name.endswith("::" + ending)


def _is_one(name: str, other: str) -> bool:
    """Whether two names of classes mean one: either may be written without its outer namespaces."""
    return ends_with(name, other) or ends_with(other, name)


def _best(found: Sequence[Function], arity: int, near: Function | None) -> Function | None:
    """Of functions of one name the one that a call with that many arguments means; None if it could be several."""
    if len(found) > 1 and near is not None:
        same = [one for one in found if one.path == near.path]
        found = same or found
    if len(found) > 1:
        fitting = [one for one in found if len(one.parameters) >= arity]
        exact = [one for one in fitting if len(one.parameters) == arity]
        found = exact or fitting
    # The two branches of an `#if` define one function twice: either will do.
    if len({(one.name, len(one.parameters)) for one in found}) == 1:
        return found[0]
    return None
