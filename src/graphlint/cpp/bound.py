"""The border between Python and C++: what a bound function does to workspaces, as the entries of a vocabulary say it.

A binding (`m.def("run", &Runner::run)`) makes a C++ function callable from Python. If it allocates while capturing and
keeps what it allocated, Python's rules have to know: they see the call and nothing of what it does. Here that knowledge
is read from the code instead of being written down, with the C++ part of the witness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphlint.cpp import witness
from graphlint.cpp.analysis import Analysis
from graphlint.cpp.facts import Binding
from graphlint.cpp.places import Kind
from graphlint.cpp.state import Happening, Kept
from graphlint.effects import Effect
from graphlint.findings import Step
from graphlint.source import Span
from graphlint.vocabulary import Entry


@dataclass(frozen=True)
class BoundEffect:
    """What calling a bound function from Python does."""

    call: str
    """As Python spells it: `torch.ops.engine.step`, `torch.classes.engine.Runner.run`, `module.function`.

    A part that the source leaves to the build is `?`.
    """
    does: Effect
    """`ws_alloc` (while capturing) or `ws_release`."""
    keeps: str
    """The C++ place that keeps the memory: `Runner::mWorkspaces`."""
    released_by: tuple[str, ...]
    """What Python can call to have it given up; of an allocation only."""
    scope: str
    """Whose memory it is: instance | class | process."""
    is_method: bool
    """Whether the object that the method is called on holds the memory."""
    path: str
    span: Span
    """Where it happens in C++: the allocation, or the release."""
    trace: tuple[Step, ...]
    """From the binding to there: the part of a witness that lies in C++."""

    def entry(self, row: int) -> Entry:
        """The same as an entry of the vocabulary; `row` is that of `span`."""
        return Entry(
            name=self.call,
            does=self.does,
            of="self" if self.is_method else "process",
            while_capturing=self.does is Effect.WS_ALLOC,
            store="self" if self.is_method else self.keeps,
            released_by=self.released_by[0] if self.released_by else None,
            scope=self.scope,
            file=self.path,
            row=row,
        )


def bound_effects(analysis: Analysis) -> tuple[BoundEffect, ...]:
    """The bound functions that allocate while capturing and keep it, and those that release that memory again."""
    _ = analysis.walks
    releases = list(_releases(analysis))
    found: list[BoundEffect] = []
    for function, bindings in analysis.bound.items():
        walked = analysis.walk(function)
        for kept in walked.kept:
            if not analysis.is_captured(walked, kept) or kept.place.kind is Kind.PARAMETER:
                continue
            for binding in bindings:
                matching = [
                    (other, one)
                    for other, one in releases
                    if other.owner == binding.owner and one.place is not None and one.place.cell in kept.place.cells
                ]
                found.append(_allocation(binding, kept, tuple(sorted({other.call for other, _ in matching}))))
                found += [_release(other, one) for other, one in matching]
    unique: dict[tuple[str, Effect, str, Span], BoundEffect] = {}
    for effect in found:
        unique.setdefault((effect.call, effect.does, effect.path, effect.span), effect)
    return tuple(sorted(unique.values(), key=lambda one: (one.call, one.does.value, one.path, one.span)))


def _releases(analysis: Analysis) -> Iterator[tuple[Binding, Happening]]:
    """What bound functions give up, and do not take again."""
    for function, bindings in analysis.bound.items():
        walked = analysis.walk(function)
        taken = {cell for kept in walked.kept for cell in kept.place.cells}
        happenings: Sequence[Happening] = [one for trace in walked.traces for one in trace]
        for one in dict.fromkeys(happenings):
            if one.effect is Effect.WS_RELEASE and one.place is not None and one.place.cell not in taken:
                yield from ((binding, one) for binding in bindings)


def _allocation(binding: Binding, kept: Kept, released_by: tuple[str, ...]) -> BoundEffect:
    place = kept.place
    steps = [
        witness.step(binding.path, binding.span, Effect.WS_ALLOC, f"{binding.call} is bound here"),
        *witness.captured(kept),
    ]
    cell = place.cells[-1] if place.kind is Kind.ARGUMENT else place.cells[0]
    return BoundEffect(
        binding.call,
        Effect.WS_ALLOC,
        str(cell),
        released_by,
        place.kind.scope,
        bool(binding.owner) and place.kind.scope == "instance",
        kept.fresh.path,
        kept.fresh.span,
        witness.shortened(steps),
    )


def _release(binding: Binding, one: Happening) -> BoundEffect:
    assert one.place is not None
    steps = [
        witness.step(binding.path, binding.span, Effect.WS_RELEASE, f"{binding.call} is bound here"),
        *witness.calls(one.calls),
        witness.step(one.path, one.span, Effect.WS_RELEASE, f"{one.place} is given up"),
    ]
    scope = one.place.kind.scope
    is_method = bool(binding.owner) and scope == "instance"
    return BoundEffect(
        binding.call,
        Effect.WS_RELEASE,
        str(one.place.cell),
        (),
        scope,
        is_method,
        one.path,
        one.span,
        witness.shortened(steps),
    )
