"""What the walks of all functions of a program say together: the hazards of C++, and what bound functions do.

Each kind of hazard is a function of a `Program`'s analysis that yields places, with the path of effects that shows them.
Which rule reports a kind is the rule's affair: it names the kind in its `rule.toml`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from graphlint.cpp import conditions
from graphlint.cpp.conditions import CAPTURING, SEEN, TRUE, Formula
from graphlint.cpp.facts import Binding, CppFacts, Function
from graphlint.cpp.places import Call, Cell, Fresh, Guard, Kind
from graphlint.cpp.program import Program, is_lambda
from graphlint.cpp.vocabulary import has_word, load
from graphlint.cpp.walk import Happening, Kept, Walked, walk
from graphlint.effects import Effect
from graphlint.findings import MAX_STEPS, Precision, Severity, Step, Suspect
from graphlint.source import Span


@dataclass(frozen=True)
class BoundEffect:
    """What calling a bound function from Python does, in the terms of a vocabulary's `[[effect]]`."""

    call: str
    """As Python spells it; `?` is a part that the source does not say."""
    does: Effect
    while_capturing: bool
    store: str
    """The C++ place that keeps the memory: `Runner::mWorkspaces`."""
    released_by: tuple[str, ...]
    """Calls from Python that give it up."""
    scope: str
    """Whose memory it is: instance | class | process."""
    is_method: bool
    """Whether the memory hangs on the object that the method is called on (`of = "self"`)."""
    path: str
    span: Span
    """Where it happens: the allocation, or the release."""
    trace: tuple[Step, ...]
    """From the binding to there: the part of a witness that lies in C++."""


class Analysis:
    """The walks over one program."""

    def __init__(self, facts: Iterable[CppFacts]) -> None:
        self.program = Program(facts)
        self.vocabulary = load()
        self.relevant = self.program.relevant(self.vocabulary.last_words)
        self._walks: dict[tuple[str, str, Span], Walked] = {}
        self._latches: frozenset[Cell] = frozenset()

    @cached_property
    def walks(self) -> Sequence[Walked]:
        """A walk from every function that can do something. Flags set while capturing are learnt in a first round."""
        roots = [function for function in self.program.functions if function in self.relevant and not is_lambda(function)]
        walks = [self.walk(function) for function in roots]
        if latches := frozenset(cell for one in walks for cell in one.latches):
            self._latches = latches
            self._walks.clear()
            walks = [self.walk(function) for function in roots]
        return walks

    def walk(self, function: Function) -> Walked:
        """The walk from one function."""
        key = (function.path, function.name, function.span)
        if key not in self._walks:
            self._walks[key] = walk(self.program, function, self.vocabulary, self.relevant, self._latches)
        return self._walks[key]

    @cached_property
    def entered(self) -> frozenset[Function]:
        """Functions that a call in the program leads into."""
        return frozenset(function for one in self.walks for function in one.entered)

    @cached_property
    def bound(self) -> Mapping[Function, Sequence[Binding]]:
        """The functions that Python can call."""
        found: dict[Function, list[Binding]] = {}
        for binding in self.program.bindings:
            target = self._target(binding)
            if target is not None:
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
        return [(one, kept) for one in self.walks for kept in one.kept if self._is_captured(one, kept)]

    def _is_captured(self, walked: Walked, kept: Kept) -> bool:
        if not self._outlives(walked, kept) or kept.fresh.is_scoped or _is_refused(kept):
            return False
        if kept.fresh.in_capture:
            # What a capture leaves behind is its outputs; a buffer made on a miss is a cache.
            return any(guard.asks.intersection(kept.place.cells) for guard in _guards(kept))
        return any(conditions.occurs(guard.formula, CAPTURING, positively=True) for guard in _guards(kept))

    def _outlives(self, walked: Walked, kept: Kept) -> bool:
        """Whether the place is kept. What belongs to a caller is judged from the caller, where there is one."""
        if kept.place.kind is Kind.PARAMETER:
            return kept.in_place and walked.function not in self.entered
        if kept.place.kind is Kind.ARGUMENT and not walked.function.owner:
            return walked.function not in self.entered
        return kept.place.kind is not Kind.ARGUMENT or len(kept.place.cells) > 1 or walked.function not in self.entered


# ------------------------------------------------------------------------------------------------------------- hazards


def kept_under_capture(analysis: Analysis, rule: str) -> Iterator[Suspect]:
    """Memory is allocated where the code knows that a capture is under way, and kept in a place that outlives the graph."""
    best: dict[tuple[str, Span], tuple[int, Suspect]] = {}
    for walked, kept in analysis.captured:
        is_own = kept.place.kind not in (Kind.ARGUMENT, Kind.POINTEE, Kind.PARAMETER)
        suspect = _suspect(
            rule,
            kept.fresh,
            _capture_steps(kept),
            kept,
            severity=Severity.ERROR,
            precision=Precision.HIGH if is_own else Precision.MEDIUM,
        )
        _offer(best, suspect, len(kept.fresh.calls) + 100 * (not is_own))
    for walked in analysis.walks:
        for kept in walked.kept:
            if (kept.fresh.path, kept.fresh.span) in best or not _is_keyed_by_stream(kept):
                continue
            if analysis._outlives(walked, kept) and not _is_refused(kept) and not kept.fresh.is_scoped:
                suspect = _suspect(
                    rule, kept.fresh, _steps(kept), kept, severity=Severity.WARNING, precision=Precision.LOW
                )
                _offer(best, suspect, 1000 + len(kept.fresh.calls))
    yield from (suspect for _, suspect in best.values())


def replaced_when_small(analysis: Analysis, rule: str) -> Iterator[Suspect]:
    """Kept memory gives way to a larger block when a size test asks for one, though a captured graph may hold the old one."""
    best: dict[tuple[str, Span], tuple[int, Suspect]] = {}
    captured = {(kept.fresh.path, kept.fresh.span) for _, kept in analysis.captured}
    for walked in analysis.walks:
        for kept in walked.kept:
            if (kept.fresh.path, kept.fresh.span) in captured or not _grows(walked, kept):
                continue
            if not analysis._outlives(walked, kept) or _is_handled(kept):
                continue
            is_step = _runs_on_stream(analysis, walked)
            suspect = _suspect(
                rule,
                kept.fresh,
                _growth_steps(kept),
                kept,
                severity=Severity.WARNING,
                precision=Precision.MEDIUM if is_step else Precision.LOW,
            )
            _offer(best, suspect, len(kept.fresh.calls) + 100 * (not is_step))
    yield from (suspect for _, suspect in best.values())


def erased_before_release(analysis: Analysis, rule: str) -> Iterator[Suspect]:
    """Graphs die and their pool is erased, while workspaces that were allocated in it are held, or are released after."""
    best: dict[tuple[str, Span], tuple[int, Suspect]] = {}
    for walked in analysis.walks:
        for trace in walked.traces:
            for index, erase in enumerate(trace):
                if erase.effect is Effect.ERASE:
                    for suspect in _erased(analysis, rule, trace, index):
                        _offer(best, suspect, len(suspect.trace))
    yield from (suspect for _, suspect in best.values())


def _erased(analysis: Analysis, rule: str, trace: Sequence[Happening], index: int) -> Iterator[Suspect]:
    erase = trace[index]
    begins = [at for at, one in enumerate(trace[:index]) if one.effect is Effect.CAPTURE]
    start = begins[-1] if begins else 0
    deaths = [one for one in trace[start:index] if one.effect is Effect.GRAPH_DEATH]
    if not deaths:
        return
    death = deaths[-1]
    released = {one.place.cell for one in trace[:index] if one.effect is Effect.WS_RELEASE and one.place is not None}
    late = [one for one in trace[index:] if one.effect is Effect.WS_RELEASE and one.place is not None]
    is_sure = all(one.is_sure for one in deaths)
    for _, kept in analysis.captured:
        if released.intersection(kept.place.cells) or not _belong_together(kept, death):
            continue
        after = next((one for one in late if one.place is not None and one.place.cell in kept.place.cells), None)
        steps = [
            _step(kept.fresh.path, kept.fresh.span, Effect.WS_ALLOC, f"allocated while capturing, kept in {kept.place}"),
            *_order_steps(death, erase, after),
        ]
        yield _order_suspect(rule, erase, steps, str(kept.place), Severity.ERROR, Precision.HIGH if is_sure else Precision.MEDIUM)
        return
    memory = {cell for one in analysis.walks for kept in one.kept for cell in kept.place.cells}
    words = analysis.vocabulary.words.memory_types
    for after in late:
        place = after.place
        if place is None or place.cell in released:
            continue
        if place.cell in memory or any(has_word(place.type, word) for word in words):
            yield _order_suspect(rule, erase, _order_steps(death, erase, after), str(place), Severity.WARNING, Precision.MEDIUM)
            return


def released_twice(analysis: Analysis, rule: str) -> Iterator[Suspect]:
    """The same graph or pool is released twice on one path."""
    best: dict[tuple[str, Span], tuple[int, Suspect]] = {}
    for walked in analysis.walks:
        for trace in walked.traces:
            for index, second in enumerate(trace):
                first = _released_before(trace, index)
                if first is not None:
                    suspect = _twice(rule, first, second)
                    _offer(best, suspect, len(suspect.trace))
    yield from (suspect for _, suspect in best.values())


def _released_before(trace: Sequence[Happening], index: int) -> Happening | None:
    """The release that this one repeats."""
    second = trace[index]
    if second.effect is not Effect.GRAPH_DEATH or second.place is None or second.operation in _DROPS:
        return None
    for at in range(index - 1, -1, -1):
        one = trace[at]
        if one.effect is Effect.CAPTURE:
            return None
        if one.effect is not Effect.GRAPH_DEATH or one.place is None:
            continue
        if (one.place.root, one.place.path) == (second.place.root, second.place.path) and one.operation == second.operation:
            if one.calls[:1] and one.calls[:1] == second.calls[:1]:
                return None  # both in one call: the function that it leads to is looked at by itself
            known = {(guard.path, guard.span) for guard in one.guards}
            is_conditional = any((guard.path, guard.span) not in known for guard in second.guards)
            return None if is_conditional else one
        if one.operation in _DROPS and one.place.cell in second.place.cells and not (one.calls or second.calls):
            return None  # nothing is left in it, or something new is
    return None


_DROPS = ("drop", "=", "clear", "erase", "pop", "pop_back", "delete", "release")


def _twice(rule: str, first: Happening, second: Happening) -> Suspect:
    place = str(second.place)
    steps = [
        *_call_steps(first.calls),
        _step(first.path, first.span, Effect.GRAPH_DEATH, f"{place} is released"),
        *_call_steps(second.calls),
        _step(second.path, second.span, Effect.GRAPH_DEATH, f"{place} is released again"),
    ]
    at = second.calls[0] if second.calls else None
    return Suspect(
        rule,
        at.path if at is not None else second.path,
        second.function if at is None else at.span,
        at.span if at is not None else second.span,
        _shortened(steps),
        _values(place, second.symbol, second.operation),
        Severity.ERROR if second.once else Severity.WARNING,
        Precision.HIGH if second.is_sure and not second.guards else Precision.MEDIUM,
    )


HAZARDS: Mapping[str, Callable[[Analysis, str], Iterator[Suspect]]] = {
    "kept-under-capture": kept_under_capture,
    "replaced-when-small": replaced_when_small,
    "erased-before-release": erased_before_release,
    "released-twice": released_twice,
}
"""The kinds of hazards, by the name that a rule asks for them with."""


# -------------------------------------------------------------------------------------------------------------- bindings


def bound_effects(analysis: Analysis) -> tuple[BoundEffect, ...]:
    """What the bound functions do to workspaces: which allocate under capture and keep, which release that again."""
    found: list[BoundEffect] = []
    releases: list[tuple[Binding, Happening]] = []
    walks = {id(function): analysis.walk(function) for function in analysis.bound}
    _ = analysis.walks  # so that flags set while capturing are known
    for function, bindings in analysis.bound.items():
        for trace in walks[id(function)].traces:
            releases += [(binding, one) for one in trace if one.effect is Effect.WS_RELEASE for binding in bindings]
    needed: set[tuple[str, Span]] = set()
    for function, bindings in analysis.bound.items():
        walked = walks[id(function)]
        for kept in walked.kept:
            if not analysis._is_captured(walked, kept) or kept.place.kind is Kind.PARAMETER:
                continue
            for binding in bindings:
                by = [
                    (other, one)
                    for other, one in releases
                    if one.place is not None and one.place.cell in kept.place.cells and other.owner == binding.owner
                ]
                needed |= {(other.call, one.span) for other, one in by}
                found.append(_bound_alloc(binding, kept, tuple(sorted({other.call for other, _ in by}))))
    for binding, one in releases:
        if (binding.call, one.span) in needed:
            found.append(_bound_release(binding, one))
    unique = {(one.call, one.does, one.path, one.span): one for one in reversed(found)}
    return tuple(sorted(unique.values(), key=lambda one: (one.call, one.does.value, one.path, one.span)))


def _bound_alloc(binding: Binding, kept: Kept, released_by: tuple[str, ...]) -> BoundEffect:
    steps = [_step(binding.path, binding.span, Effect.WS_ALLOC, f"{binding.call} is bound here"), *_capture_steps(kept)]
    is_method = bool(binding.owner) and kept.place.kind.scope == "instance"
    return BoundEffect(
        binding.call,
        Effect.WS_ALLOC,
        True,
        str(kept.place.cells[0] if kept.place.kind is not Kind.ARGUMENT else kept.place.cells[-1]),
        released_by,
        kept.place.kind.scope,
        is_method,
        kept.fresh.path,
        kept.fresh.span,
        _shortened(steps),
    )


def _bound_release(binding: Binding, one: Happening) -> BoundEffect:
    assert one.place is not None
    steps = [
        _step(binding.path, binding.span, Effect.WS_RELEASE, f"{binding.call} is bound here"),
        *_call_steps(one.calls),
        _step(one.path, one.span, Effect.WS_RELEASE, f"{one.place} is given up"),
    ]
    scope = one.place.kind.scope
    return BoundEffect(
        binding.call,
        Effect.WS_RELEASE,
        False,
        str(one.place.cell),
        (),
        scope,
        bool(binding.owner) and scope == "instance",
        one.path,
        one.span,
        _shortened(steps),
    )


# --------------------------------------------------------------------------------------------------------------- helpers


def _guards(kept: Kept) -> tuple[Guard, ...]:
    return (*kept.fresh.guards, *kept.guards)


def _is_refused(kept: Kept) -> bool:
    """Whether allocating and keeping cannot both happen while a capture is under way."""
    formula: Formula = TRUE
    for guard in _guards(kept):
        formula = conditions.both(formula, guard.formula)
    return not conditions.can_be_true(formula, capturing=True)


def _is_handled(kept: Kept) -> bool:
    """Whether the code keeps growth and captures apart: it parks the old block, or asks before it grows."""
    return kept.parked or kept.fresh.is_scoped or any(
        conditions.occurs(guard.formula, atom, positively=False) for guard in _guards(kept) for atom in (CAPTURING, SEEN)
    )


def _grows(walked: Walked, kept: Kept) -> bool:
    """Whether a size test leads to the replacement."""
    if not kept.fresh.is_certain or walked.function.is_constructor or _is_own_constructor(kept.fresh):
        return False
    if kept.in_place and kept.place.kind not in (Kind.PARAMETER, Kind.ARGUMENT):
        return True
    for guard in _guards(kept):
        if guard.sized.intersection(kept.place.cells):
            return True
        for cell in guard.sized:
            # `if (n > capacity) { buffer = empty(n); capacity = n; }`
            if any(any(one.span == guard.span for one in guards) for guards in walked.bound.get(cell, ())):
                return True
    return False


def _is_own_constructor(fresh: Fresh) -> bool:
    parts = fresh.symbol.split("::")
    return len(parts) > 1 and parts[-1] == parts[-2]


def _runs_on_stream(analysis: Analysis, walked: Walked) -> bool:
    """Whether a function works on a stream, or Python can call it: then a capture can go through it."""
    function = walked.function
    return (
        function in analysis.bound
        or any("stream" in parameter.type.lower() for parameter in function.parameters)
        or any("CurrentCUDAStream" in name or "current_stream" in name for name in function.calls)
    )


def _is_keyed_by_stream(kept: Kept) -> bool:
    return any(part.startswith("[") and "stream" in part.lower() for part in kept.place.path)


def _belong_together(kept: Kept, death: Happening) -> bool:
    """Whether memory can be in the pool of the graphs that die: one class, or one file, has both."""
    if kept.fresh.path == death.path:
        return True
    return death.place is not None and bool({cell.owner for cell in kept.place.cells} & {cell.owner for cell in death.place.cells})


def _offer(best: dict[tuple[str, Span], tuple[int, Suspect]], suspect: Suspect, cost: int) -> None:
    key = (suspect.path, suspect.at)
    if key not in best or cost < best[key][0]:
        best[key] = (cost, suspect)


def _step(path: str, span: Span, effect: Effect, message: str) -> Step:
    return Step(path, span, effect.value, message)


def _call_steps(calls: Iterable[Call]) -> list[Step]:
    return [Step(call.path, call.span, "call", f"calls {call.name}") for call in calls]


def _steps(kept: Kept) -> list[Step]:
    fresh = kept.fresh
    steps = [*_call_steps(fresh.calls), _step(fresh.path, fresh.span, Effect.WS_ALLOC, f"{fresh.name} allocates device memory")]
    if kept.path != fresh.path or not kept.span.contains(fresh.span):
        steps.append(_step(kept.path, kept.span, Effect.WS_ALLOC, f"{kept.place} keeps it"))
    else:
        steps[-1] = replace(steps[-1], message=f"{fresh.name} allocates device memory, {kept.place} keeps it")
    return steps


def _capture_steps(kept: Kept) -> list[Step]:
    asked = next(
        (guard.asked for guard in _guards(kept) if guard.asked and conditions.occurs(guard.formula, CAPTURING, positively=True)), None
    )
    if asked is None:
        return _steps(kept)
    return [_step(*asked, Effect.IS_CAPTURING, "asks whether the stream is being captured, and goes on where it is"), *_steps(kept)]


def _growth_steps(kept: Kept) -> list[Step]:
    guard = next((guard for guard in _guards(kept) if guard.sized), None)
    steps = _steps(kept)
    if guard is not None:
        steps.insert(0, _step(guard.path, guard.span, Effect.WS_GET, "asks whether the block is large enough"))
    steps[-1] = replace(steps[-1], effect=Effect.WS_REPLACE.value)
    return steps


def _order_steps(death: Happening, erase: Happening, after: Happening | None) -> list[Step]:
    steps = [
        *_call_steps(death.calls),
        _step(death.path, death.span, Effect.GRAPH_DEATH, f"{death.place} is released" if death.place else "graphs are released"),
        *_call_steps(erase.calls),
        _step(erase.path, erase.span, Effect.ERASE, "the pool is erased"),
    ]
    if after is not None:
        steps += [*_call_steps(after.calls), _step(after.path, after.span, Effect.WS_RELEASE, f"{after.place} is given up too late")]
    return steps


def _order_suspect(
    rule: str, erase: Happening, steps: list[Step], place: str, severity: Severity, precision: Precision
) -> Suspect:
    values = _values(place, erase.symbol, "emptyCache")
    return Suspect(rule, erase.path, erase.function, erase.span, _shortened(steps), values, severity, precision)


def _suspect(
    rule: str, fresh: Fresh, steps: list[Step], kept: Kept, *, severity: Severity, precision: Precision
) -> Suspect:
    values = _values(str(kept.place), fresh.symbol, fresh.name)
    return Suspect(rule, fresh.path, fresh.function, fresh.span, _shortened(steps), values, severity, precision)


def _values(place: str, symbol: str, call: str) -> dict[str, str]:
    return {"place": place, "symbol": symbol, "call": call}


def _shortened(steps: Sequence[Step]) -> tuple[Step, ...]:
    """At most as many steps as a report shows: calls go first."""
    kept = list(steps)
    while len(kept) > MAX_STEPS:
        calls = [index for index, step in enumerate(kept) if step.effect == "call"]
        del kept[calls[0] if calls else 1]
    return tuple(kept)
