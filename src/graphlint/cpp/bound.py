"""The border between Python and C++: what a bound function does to workspaces, as the entries of a vocabulary say it.

A binding (`m.def("run", &Runner::run)`) makes a C++ function callable from Python. If it allocates while capturing and
keeps what it allocated, Python's rules have to know: they see the call and nothing of what it does. Here that knowledge
is read from the code instead of being written down, with the C++ part of the witness.

The border has two sides. C++ says that `Runner.run` allocates into the runner and that `Runner.clear` gives it up
(`BoundEffect.entry`). Which Python variable keeps the runners, and which Python function clears them all, is Python's
to say: `kept_by` asks its analysis, once that knows the calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from graphlint.cpp import witness
from graphlint.cpp.analysis import Analysis
from graphlint.cpp.facts import Binding
from graphlint.cpp.places import Kind
from graphlint.cpp.state import Happening, Kept
from graphlint.effects import Effect
from graphlint.findings import Step, Suspect
from graphlint.source import Span
from graphlint.summaries import Analysis as Python
from graphlint.summaries import Site
from graphlint.values import ELEMENT, Place
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

    def entry(self) -> Entry:
        """The same as an entry of the vocabulary."""
        if self.is_method:
            store, of = "self", "self"
        else:
            # No name in Python is that of the memory: the library's with the C++ variable's stands for it.
            store = of = f"{self.call.rpartition('.')[0]}.{self.keeps.rpartition('::')[2]}"
        if self.does is Effect.WS_RELEASE:
            is_given = self.scope == "instance" and not self.is_method  # `clear(runner)`
            return Entry(self.call, self.does, of="arg0" if is_given else of, scope=self.scope)
        return Entry(
            self.call,
            self.does,
            of=of if self.is_method else "process",
            while_capturing=True,
            store=store,
            released_by=self.released_by[0] if self.released_by else None,
            scope=self.scope,
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
                    if one.place is not None and one.place.cell in kept.place.cells
                ]
                found.append(_allocation(binding, kept, tuple(sorted({other.call for other, _ in matching}))))
                found += [_release(other, one) for other, one in matching]
    unique: dict[tuple[str, Effect, str, Span], BoundEffect] = {}
    for effect in found:
        unique.setdefault((effect.call, effect.does, effect.path, effect.span), effect)
    return tuple(sorted(unique.values(), key=lambda one: (one.call, one.does.value, one.path, one.span)))


class Joined(NamedTuple):
    """What a bound function does, in the words of a vocabulary and with its witness."""

    entry: Entry
    effect: BoundEffect


def kept_by(effects: Iterable[BoundEffect], python: Python) -> tuple[Joined, ...]:
    """The effects as entries of the vocabulary, with the Python variables that keep the objects that allocate.

    An object of a bound class holds its workspaces as long as it lives; one that a class attribute or a module variable
    keeps holds them as long as the process lives. Such a variable is the store, and the Python function that has all
    objects in it give up their workspaces is the release. These entries stand in for `BoundEffect.entry`.

    Args:
        effects: of the bound functions.
        python: the analysis of the project that calls them, with `BoundEffect.entry` of each in its vocabulary.
    """
    sites = [(root.key, site) for root in python.roots() for site in python.sites(root)]
    return tuple(Joined(entry, effect) for effect in effects for entry in _kept_by(effect, sites))


def crossed(suspect: Suspect, joined: Iterable[Joined]) -> Suspect:
    """A suspect of Python with the part of its witness that lies in C++, if what it is about was allocated there."""
    release = suspect.values.get("release")
    for entry, effect in joined:
        if release and entry.while_capturing and entry.released_by == release:
            return replace(suspect, trace=witness.shortened((*effect.trace, *suspect.trace)))
    return suspect


def _kept_by(effect: BoundEffect, sites: Sequence[tuple[str, Site]]) -> Sequence[Entry]:
    calls = [site for _, site in sites if _is_call(site, effect.does, (effect.call,))]
    stores = sorted({place for site in calls for place in map(_variable, site.places) if place})
    if effect.does is not Effect.WS_ALLOC or not effect.is_method or not stores:
        return (effect.entry(),)
    found: list[Entry] = []
    for store in stores:
        owner = store[0].partition(":")[2]
        # A release of the class or module that has the variable comes before one that reaches into it.
        releasing = sorted(
            (owner != key.rpartition(".")[0], key)
            for key, site in sites
            if _is_call(site, Effect.WS_RELEASE, effect.released_by) and store in map(_variable, site.places)
        )
        by = releasing[0][1] if releasing else None
        name = ".".join((owner, *store[1:]))
        found.append(Entry(effect.call, effect.does, while_capturing=True, store=name, released_by=by, scope="process"))
    return found


def _is_call(site: Site, effect: Effect, calls: Sequence[str]) -> bool:
    """Whether an effect is that of calling one of the bound methods."""
    label = getattr(site.event.node, "label", None)
    last = label.rpartition(".")[2] if isinstance(label, str) else ""
    return site.effect is effect and any(call.rpartition(".")[2] == last for call in calls)


def _variable(place: Place) -> Place:
    """The class attribute or module variable that a place lies in; nothing if it lies in none."""
    if not place or not place[0].startswith(("class:", "mod:")):
        return ()
    return place[: place.index(ELEMENT)] if ELEMENT in place else place


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
