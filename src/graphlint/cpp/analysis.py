"""What the walks of all functions of a program say together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from graphlint.cpp import conditions
from graphlint.cpp.conditions import CAPTURING, TRUE, Formula
from graphlint.cpp.facts import Binding, CppFacts, Function
from graphlint.cpp.places import Cell, Guard, Kind
from graphlint.cpp.program import Program, is_lambda
from graphlint.cpp.state import Kept, Walked
from graphlint.cpp.vocabulary import load
from graphlint.cpp.walk import walk
from graphlint.source import Span


class Analysis:
    """The walks over one program, each done once."""

    def __init__(self, facts: Iterable[CppFacts]) -> None:
        self.program = Program(facts)
        self.vocabulary = load()
        drops = {f".{name}" for name in self.vocabulary.words.drop}
        self.relevant = self.program.relevant(self.vocabulary.called | drops | {"="})
        self._latches: frozenset[Cell] = frozenset()
        self._walked: dict[tuple[str, str, Span], Walked] = {}

    @cached_property
    def _roots(self) -> Sequence[Function]:
        """Functions that can do something, by what they call."""
        roots = self.program.relevant(self.vocabulary.called)
        return [one for one in self.program.functions if one in roots and not is_lambda(one)]

    @cached_property
    def walks(self) -> Sequence[Walked]:
        """A walk from every function that can do something.

        Flags that are set while capturing are learnt on the way; where there are any, the walks are done again.
        """
        walks = [self.walk(function) for function in self._roots]
        self._latches = frozenset(cell for one in walks for cell in one.latches)
        if self._latches:
            self._walked.clear()
            walks = [self.walk(function) for function in self._roots]
        return walks

    def walk(self, function: Function) -> Walked:
        """The walk from one function. Ask for `walks` first: they learn what this one has to know."""
        key = (function.path, function.name, function.span)
        if key not in self._walked:
            self._walked[key] = walk(self.program, function, self.vocabulary, self.relevant, self._latches)
        return self._walked[key]

    @cached_property
    def entered(self) -> frozenset[Function]:
        """Functions that a call in the program leads into."""
        return frozenset(function for one in self.walks for function in one.entered)

    @cached_property
    def bound(self) -> Mapping[Function, Sequence[Binding]]:
        """The functions that Python can call."""
        found: dict[Function, list[Binding]] = {}
        for binding in self.program.bindings:
            if (target := self._target(binding)) is not None:
                found.setdefault(target, []).append(binding)
        return found

    def _target(self, binding: Binding) -> Function | None:
        if binding.target.startswith("lambda@"):
            return self.program.lambda_of(binding.path, binding.target)
        found = self.program.named(binding.target)
        near = [one for one in found if one.path == binding.path] or found
        return near[0] if near and len({one.name for one in near}) == 1 else None

    @cached_property
    def captured(self) -> Sequence[tuple[Walked, Kept]]:
        """Memory that is allocated while a capture is under way, by the code's own test, and kept."""
        return [(one, kept) for one in self.walks for kept in one.kept if self.is_captured(one, kept)]

    def is_captured(self, walked: Walked, kept: Kept) -> bool:
        """Whether memory comes from the pool of a graph that is being captured, and stays."""
        if not self.outlives(walked, kept) or kept.fresh.is_scoped or is_refused(kept):
            return False
        if kept.fresh.in_capture:
            # What a capture leaves behind is its outputs; a buffer made on a miss is a cache.
            return any(guard.asks.intersection(kept.place.cells) for guard in guards_of(kept))
        return any(conditions.occurs(guard.formula, CAPTURING, positively=True) for guard in guards_of(kept))

    def outlives(self, walked: Walked, kept: Kept) -> bool:
        """Whether the place is kept. What belongs to a caller is judged from the caller, where there is one."""
        kind, is_entered = kept.place.kind, walked.function in self.entered
        if kind is Kind.PARAMETER:
            return kept.in_place and not is_entered
        if kind is Kind.ARGUMENT:
            return not is_entered
        return kind.is_kept


def guards_of(kept: Kept) -> tuple[Guard, ...]:
    """The conditions under which memory is allocated, then those under which it is kept."""
    return (*kept.fresh.guards, *kept.guards)


def is_refused(kept: Kept) -> bool:
    """Whether allocating and keeping cannot both happen while a capture is under way."""
    formula: Formula = TRUE
    for guard in guards_of(kept):
        formula = conditions.both(formula, guard.formula)
    return not conditions.can_be_true(formula, capturing=True)
