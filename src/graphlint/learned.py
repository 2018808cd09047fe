"""What one path of an execution has learned of places: that this one is None, that that one is true.

Paths learn and forget thousands of times, a few facts each time, and are compared with each other at every branch. So the facts
are kept by the root of their place: a change replaces one small set, and shares all others with the path that it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from graphlint.values import Place

Atom: TypeAlias = tuple[str, Place]
"""A question: its kind, and the place that it is about (the empty place: none)."""
Fact: TypeAlias = tuple[Atom, bool]
"""A question and its answer."""

_NONE: frozenset[Fact] = frozenset()


class Learned:
    """Facts that hold together. Immutable; equal where the facts are."""

    __slots__ = ("_by_root", "_hash")

    def __init__(self, by_root: Mapping[str, frozenset[Fact]]) -> None:
        self._by_root = by_root
        self._hash: int | None = None

    @classmethod
    def of(cls, facts: Iterable[Fact]) -> Learned:
        """These facts."""
        by_root: dict[str, set[Fact]] = {}
        for fact in facts:
            by_root.setdefault(_root(fact[0][1]), set()).add(fact)
        return cls({root: frozenset(each) for root, each in by_root.items()})

    def __iter__(self) -> Iterator[Fact]:
        for facts in self._by_root.values():
            yield from facts

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Learned) and self._by_root == other._by_root)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._by_root.values()))
        return self._hash

    def get(self, atom: Atom) -> bool | None:
        """The answer to a question; None where it is not known."""
        facts = self._by_root.get(_root(atom[1]), _NONE)
        if (atom, True) in facts:
            return True
        if (atom, False) in facts or (atom[0].startswith("=") and _is_another(atom, facts)):
            return False
        return None

    def about(self, root: str) -> frozenset[Fact]:
        """What is known of the places under a root."""
        return self._by_root.get(root, _NONE)

    def put(self, root: str, facts: frozenset[Fact]) -> Learned:
        """The same with other facts under a root."""
        if facts == self._by_root.get(root, _NONE):
            return self
        by_root = dict(self._by_root)
        if facts:
            by_root[root] = facts
        else:
            del by_root[root]
        return Learned(by_root)

    def under(self, keeps: Callable[[str], bool]) -> Learned:
        """Only what is known under some roots."""
        if all(map(keeps, self._by_root)):
            return self
        return Learned({root: facts for root, facts in self._by_root.items() if keeps(root)})

    def with_answer(self, atom: Atom, answer: bool) -> Learned:
        """The same with one answer more, and what follows from it."""
        kind, place = atom
        root = _root(place)
        facts = self._by_root.get(root, _NONE)
        if (atom, answer) in facts:
            return self
        facts = (facts - {(atom, not answer)}) | {(atom, answer)}
        if kind == "none" and answer:
            facts = (facts - {(("true", place), True)}) | {(("true", place), False)}
        elif kind == "true" and answer:
            facts = (facts - {(("none", place), True)}) | {(("none", place), False)}
        elif kind.startswith("=") and answer:  # it equals this, so it equals no other
            facts = frozenset(each for each in facts if each[0][1] != place or each[0] == atom)
        return self.put(root, facts)

    def without(self, atom: Atom) -> Learned:
        """The same with a question open."""
        root = _root(atom[1])
        facts = self._by_root.get(root, _NONE)
        return self.put(root, facts - {(atom, True), (atom, False)}) if facts else self


def _is_another(atom: Atom, facts: frozenset[Fact]) -> bool:
    """Whether a place is known to be another constant of the same kind: of one enumeration, or a string."""
    constant, place = atom
    kind = _kind(constant)
    return bool(kind) and any(
        answer and where == place and is_.startswith("=") and is_ != constant and _kind(is_) == kind
        for (is_, where), answer in facts
    )


def _kind(constant: str) -> str:
    return "str" if constant.startswith(("='", '="')) else constant.rpartition(".")[0]


def _root(place: Place) -> str:
    return place[0] if place else ""


NOTHING_LEARNED = Learned({})
