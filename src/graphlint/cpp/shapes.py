"""Hazards of C++ that one allocation shows: which memory is kept, and under which conditions it was allocated.

Which rule reports a shape is the rule's affair: it names the shape in its `rule.toml`, as `cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from graphlint.cpp import conditions, witness
from graphlint.cpp.analysis import Analysis, guards_of, is_refused
from graphlint.cpp.conditions import CAPTURING, SEEN
from graphlint.cpp.places import Cell, Guard, Kind
from graphlint.cpp.state import Kept, Walked
from graphlint.effects import Effect
from graphlint.findings import Precision, Severity, Step, Suspect
from graphlint.source import Span


def kept_under_capture(analysis: Analysis, rule: str) -> Iterator[Suspect]:
    """Memory is allocated where the code knows that a capture is under way, and kept where it outlives the graph.

    Of low precision: a cache keyed by stream that nothing keeps from a miss while capturing, since every capture has
    a stream of its own.
    """
    best = _Best()
    for _, kept in analysis.captured:
        is_own = kept.place.kind not in (Kind.ARGUMENT, Kind.POINTEE, Kind.PARAMETER)
        precision = Precision.HIGH if is_own else Precision.MEDIUM
        suspect = _suspect(rule, kept, witness.captured(kept), Severity.ERROR, precision)
        best.offer(suspect, (not is_own, len(kept.fresh.calls)))
    captured = best.places()
    for walked in analysis.walks:
        for kept in walked.kept:
            if (kept.fresh.path, kept.fresh.span) in captured or not _is_keyed_by_stream(kept):
                continue
            if analysis.outlives(walked, kept) and not is_refused(kept) and not kept.fresh.is_scoped:
                suspect = _suspect(rule, kept, witness.kept(kept), Severity.WARNING, Precision.LOW)
                best.offer(suspect, (True, len(kept.fresh.calls)))
    yield from best


def replaced_when_small(analysis: Analysis, rule: str) -> Iterator[Suspect]:
    """Kept memory gives way to another block when a size test asks for it, though a graph may hold the old one."""
    best = _Best()
    captured = {(kept.fresh.path, kept.fresh.span) for _, kept in analysis.captured}
    reported: dict[tuple[str, Span, Cell], tuple[str, Span]] = {}
    for walked in analysis.walks:
        for kept in walked.kept:
            place = (kept.fresh.path, kept.fresh.span)
            if place in captured or not _grows(walked, kept):
                continue
            if not analysis.outlives(walked, kept) or _is_handled(kept):
                continue
            test = _size_test(walked, kept)
            if test is not None and reported.setdefault((test.path, test.span, kept.place.cells[0]), place) != place:
                continue  # several buffers that one test replaces are one fault
            is_step = _runs_on_stream(analysis, walked)
            # Raw memory belongs to code that has no tensors, hence few graphs of torch's.
            precision = Precision.LOW if kept.fresh.is_raw and not is_step else Precision.MEDIUM
            # For other dimensions, not for more of something: those of a model's layers stay as they are.
            severity = Severity.NOTE if test is not None and not test.outgrown else Severity.WARNING
            best.offer(
                _suspect(rule, kept, _growth(kept, test), severity, precision),
                (not is_step, len(kept.fresh.calls)),
            )
    yield from best


SHAPES: Mapping[str, Callable[[Analysis, str], Iterator[Suspect]]] = {
    "kept-under-capture": kept_under_capture,
    "replaced-when-small": replaced_when_small,
}
"""The shapes by the name that a rule asks for them with."""


class _Best:
    """Of several suspects at one place the one that costs a reader least."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Span], tuple[tuple[bool, int], Suspect]] = {}

    def offer(self, suspect: Suspect, cost: tuple[bool, int]) -> None:
        key = (suspect.path, suspect.at)
        if key not in self._found or cost < self._found[key][0]:
            self._found[key] = (cost, suspect)

    def places(self) -> frozenset[tuple[str, Span]]:
        return frozenset(self._found)

    def __iter__(self) -> Iterator[Suspect]:
        return (suspect for _, suspect in self._found.values())


def _suspect(rule: str, kept: Kept, steps: list[Step], severity: Severity, precision: Precision) -> Suspect:
    fresh = kept.fresh
    values = {"place": str(kept.place), "symbol": fresh.symbol, "call": fresh.name}
    return Suspect(rule, fresh.path, fresh.function, fresh.span, witness.shortened(steps), values, severity, precision)


def _is_keyed_by_stream(kept: Kept) -> bool:
    return any(part.startswith("[") and "stream" in part.lower() for part in kept.place.path)


# --------------------------------------------------------------------------------------------------------------- growth


def _is_handled(kept: Kept) -> bool:
    """Whether the code keeps growth and captures apart: it parks the old block, or asks before it grows."""
    return (
        kept.parked
        or kept.fresh.is_scoped
        or any(
            conditions.occurs(guard.formula, atom, positively=False)
            for guard in guards_of(kept)
            for atom in (CAPTURING, SEEN)
        )
    )


def _grows(walked: Walked, kept: Kept) -> bool:
    """Whether one block gives way to another, rather than that the first one is made."""
    parts = kept.fresh.symbol.split("::")
    is_made = len(parts) > 1 and parts[-1] == parts[-2]  # in a constructor
    if not kept.fresh.is_certain or walked.function.is_constructor or is_made:
        return False
    if kept.fresh.is_raw and not _is_freed(walked, kept):
        return False  # the old block leaks, so no graph loses it
    if kept.in_place and kept.place.kind not in (Kind.PARAMETER, Kind.ARGUMENT):
        return True
    return _size_test(walked, kept) is not None


def _is_freed(walked: Walked, kept: Kept) -> bool:
    return any(
        one.effect is Effect.WS_RELEASE and one.place is not None and one.place.cell in kept.place.cells
        for trace in walked.traces
        for one in trace
    )


def _size_test(walked: Walked, kept: Kept) -> Guard | None:
    """The test for size that leads to the replacement."""
    owners = {cell.owner for cell in kept.place.cells}
    for guard in guards_of(kept):
        if guard.sized.intersection(kept.place.cells):
            return guard
        for cell in guard.sized:
            # `if (n > capacity) { buffer = empty(n); capacity = n; }`
            if cell.owner in owners and any(
                any(one.span == guard.span for one in guards) for guards in walked.bound.get(cell, ())
            ):
                return guard
    return None


def _runs_on_stream(analysis: Analysis, walked: Walked) -> bool:
    """Whether a function works on a stream, or Python can call it: then a capture can go through it."""
    function = walked.function
    return (
        function in analysis.bound
        or any("stream" in parameter.type.lower() for parameter in function.parameters)
        or any("CurrentCUDAStream" in name or "current_stream" in name for name in function.calls)
    )


def _growth(kept: Kept, test: Guard | None) -> list[Step]:
    steps = witness.kept(kept)
    last = steps[-1]
    steps[-1] = witness.step(last.path, last.span, Effect.WS_REPLACE, last.message)
    if test is not None:
        steps.insert(0, witness.step(test.path, test.span, Effect.WS_GET, "asks whether the block is large enough"))
    return steps
