"""Ordering rules in C++: the automata that read Python's effects read these too.

Of an automaton's subjects C++ has two:

* `graphs`     one place that holds a graph, or a graph's pool: its releases, and every capture;
* `workspace`  memory that is known to lie in the pool of graphs, by a test of the code's own, or because it is given up
               after the pool was erased: its releases, deaths of graphs beside it, every erase, every capture, and the
               end of the path where the memory is known to be in the pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graphlint.automaton import EXIT, HAZARD, Automaton
from graphlint.cpp import witness
from graphlint.cpp.analysis import Analysis
from graphlint.cpp.places import Cell, Kind, Place
from graphlint.cpp.state import Happening, Kept
from graphlint.cpp.vocabulary import has_word
from graphlint.effects import Effect
from graphlint.findings import Precision, Severity, Step, Suspect
from graphlint.source import Span

_DROPS = frozenset({"drop", "=", "clear", "erase", "pop", "pop_back", "delete", "release"})
"""Releases that leave nothing behind to release: the holder is empty then."""


class _Subject(NamedTuple):
    """What an automaton runs about, on one trace."""

    name: str
    heard: tuple[Happening, ...]
    is_sure: bool
    """Whether the types say that these are graphs."""
    kept: Kept | None = None
    """The memory, where its allocation is known."""
    is_held: bool = False
    """Whether it is held at the end of the path, unless it was released on it."""


def suspects(analysis: Analysis, automaton: Automaton, rule: str, reported_at: str) -> Iterator[Suspect]:
    """Every place where an automaton reaches its hazard; `reported_at` is the effect of the step that is reported."""
    subjects = {"graphs": _graphs, "workspace": _workspaces}.get(automaton.subject)
    if subjects is None:
        return
    best: dict[tuple[str, Span], Suspect] = {}
    for walked in analysis.walks:
        for trace in walked.traces:
            for subject in subjects(analysis, trace):
                way = _way(automaton, subject)
                if way is None:
                    continue
                suspect = _suspect(rule, reported_at, subject, way)
                key = (suspect.path, suspect.at)
                if key not in best or _rank(suspect) < _rank(best[key]):
                    best[key] = suspect
    yield from best.values()


def _rank(suspect: Suspect) -> tuple[bool, int]:
    return (suspect.precision is not Precision.HIGH, len(suspect.trace))


def _way(automaton: Automaton, subject: _Subject) -> tuple[Happening, ...] | None:
    """The steps that move the automaton to its hazard; None if it does not get there."""
    state = automaton.start
    way: list[Happening] = []
    for one in subject.heard:
        after = automaton.step(state, one.effect.value)
        if after == state:
            continue
        way = [] if after == automaton.start else [*way, one]
        state = after
        if state == HAZARD:
            return tuple(way)
    if subject.is_held and automaton.step(state, EXIT) == HAZARD:
        return tuple(way)
    return None


def _graphs(_: Analysis, trace: Sequence[Happening]) -> Iterator[_Subject]:
    for index, second in enumerate(trace):
        if second.effect is not Effect.GRAPH_DEATH or second.place is None or second.operation in _DROPS:
            continue
        heard: list[Happening] = []
        for one in trace[:index]:
            if one.effect is Effect.CAPTURE:
                heard.append(one)
            elif one.effect is Effect.GRAPH_DEATH and one.place is not None:
                if _empties(one, second):
                    heard.clear()  # nothing is left in it, or something new is
                elif _repeats(one, second):
                    heard.append(one)
        if heard:
            yield _Subject(str(second.place), (*heard, second), second.is_sure)


def _empties(one: Happening, second: Happening) -> bool:
    """Whether a release in between leaves the second nothing to do, in the same function."""
    assert one.place is not None
    assert second.place is not None
    return one.operation in _DROPS and one.place.cell in second.place.cells and not one.calls and not second.calls


def _repeats(one: Happening, second: Happening) -> bool:
    """Whether the second releases what the first did, and asks no member first whether there is anything to release."""
    assert one.place is not None
    assert second.place is not None
    if (one.place.root, one.place.path, one.operation) != (second.place.root, second.place.path, second.operation):
        return False
    if one.calls[:1] and one.calls[:1] == second.calls[:1]:
        return False  # both in one call: the function that it leads to is looked at by itself
    known = {(guard.path, guard.span) for guard in one.guards}
    return all(not guard.asks or (guard.path, guard.span) in known for guard in second.guards)


def _workspaces(analysis: Analysis, trace: Sequence[Happening]) -> Iterator[_Subject]:
    deaths = [one for one in trace if one.effect is Effect.GRAPH_DEATH]
    erased = next((index for index, one in enumerate(trace) if one.effect is Effect.ERASE), None)
    if not deaths or erased is None:
        return
    is_sure = all(one.is_sure for one in deaths)
    known: set[Cell] = set()
    released = {one.place.cell for one in trace[:erased] if one.effect is Effect.WS_RELEASE and one.place is not None}
    for _, kept in analysis.captured:
        beside = [one for one in deaths if _belong_together(analysis, kept, one)]
        if beside:
            known |= set(kept.place.cells)
        if beside and not released.intersection(kept.place.cells):
            yield _Subject(str(kept.place), tuple(_heard(trace, beside, kept.place)), is_sure, kept, is_held=True)
    memory = {cell for one in analysis.walks for kept in one.kept for cell in kept.place.cells}
    for late in trace[erased:]:
        place = late.place
        if late.effect is not Effect.WS_RELEASE or place is None or place.cell in known | released:
            continue
        if place.cell in memory or any(has_word(place.type, word) for word in analysis.vocabulary.words.memory_types):
            yield _Subject(str(place), tuple(_heard(trace, deaths, place)), is_sure)


def _heard(trace: Sequence[Happening], deaths: Sequence[Happening], place: Place) -> Iterator[Happening]:
    for one in trace:
        if (
            one.effect in (Effect.CAPTURE, Effect.ERASE)
            or one in deaths
            or (one.effect is Effect.WS_RELEASE and one.place is not None and one.place.cell in place.cells)
        ):
            yield one


def _belong_together(analysis: Analysis, kept: Kept, death: Happening) -> bool:
    """Whether memory can be in the pool of the graphs that die: one class has both, or one holds the other."""
    if death.place is None:
        return kept.fresh.path == death.path
    if kept.place.kind in (Kind.MODULE, Kind.STATIC):
        return kept.fresh.path == death.path
    owners = {cell.owner for cell in kept.place.cells}
    others = {cell.owner for cell in death.place.cells}
    return bool(owners & others) or any(
        _holds(analysis, one, other) or _holds(analysis, other, one) for one in owners for other in others
    )


def _holds(analysis: Analysis, holder: str, held: str) -> bool:
    """Whether a class has a member of another class's type."""
    record = analysis.program.record(holder, "")
    word = held.rpartition("::")[2]
    return record is not None and bool(word) and any(has_word(member.type, word) for member in record.members)


def _suspect(rule: str, reported_at: str, subject: _Subject, way: tuple[Happening, ...]) -> Suspect:
    steps: list[Step] = []
    if subject.kept is not None:
        fresh = subject.kept.fresh
        message = f"allocated while capturing, kept in {subject.name}"
        steps.append(witness.step(fresh.path, fresh.span, Effect.WS_ALLOC, message))
    for one in way:
        steps += [*witness.calls(one.calls), witness.step(one.path, one.span, one.effect, _message(one))]
    reported = next((one for one in reversed(way) if one.effect.value == reported_at), way[-1])
    # A release that a call leads to is reported at the call: that is the line that can go.
    call = reported.calls[0] if reported.calls and reported.effect is Effect.GRAPH_DEATH else None
    path, at = (call.path, call.span) if call is not None else (reported.path, reported.span)
    graphs = next((str(one.place) for one in way if one.effect is Effect.GRAPH_DEATH and one.place is not None), "")
    values = {"place": subject.name, "graphs": graphs, "symbol": reported.symbol, "call": reported.operation}
    severity, precision = None, Precision.HIGH
    if subject.kept is None and reported.effect is Effect.ERASE:
        severity, precision = Severity.WARNING, Precision.MEDIUM
    elif any(one.once for one in way) and reported.effect is Effect.GRAPH_DEATH:
        severity = Severity.ERROR
    if not subject.is_sure:
        precision = Precision.MEDIUM
    function = reported.function if call is None else at
    return Suspect(rule, path, function, at, witness.shortened(steps), values, severity, precision)


def _message(one: Happening) -> str:
    place = one.place if one.place is not None else "the graph"
    return {
        Effect.GRAPH_DEATH: f"{place} is released",
        Effect.ERASE: "the pool is erased",
        Effect.WS_RELEASE: f"{place} is given up",
        Effect.CAPTURE: "a capture begins",
    }.get(one.effect, one.effect.value)
