"""The calls that lead from where something runs for several objects down to one statement, function by function.

A release inside the teardown of one engine is reached from a loop over the engines, through a method of the engine and
one of its runner. To let it run once for all of them, each of these functions has to be parted at the statement through
which the way goes on. This module says which functions these are, and whether the order of their effects allows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphlint import behavior as b
from graphlint import flow
from graphlint.effects import Effect
from graphlint.paths import Event
from graphlint.project import FunctionEntry
from graphlint.source import Span
from graphlint.summaries import Analysis, Site
from graphlint.values import ELEMENT, Place
from graphlint.visiting import visit

_IDLE = frozenset(("count",))


class NotPartedError(Exception):
    """The functions on the way cannot be parted; the message says why, without a period."""


@dataclass(frozen=True)
class Change:
    """What code does to a place: write, add, drop, clear or pop."""

    how: str
    place: str
    """Dotted; it begins with `self` for the object of the function that is looked at, with `?` for any other root."""


@dataclass(frozen=True)
class Target:
    """A statement through which the way goes on: the release, or a call of functions that lead to it."""

    span: Span
    callees: tuple[str, ...]
    """Functions of the project that the call may run, all of them parted too; none: this is the release."""


@dataclass(frozen=True)
class Part:
    """A function on the way."""

    function: FunctionEntry
    targets: tuple[Target, ...]
    """In the order of the text."""
    changes: tuple[Change, ...]
    """What it and its callees do before the last target is done."""
    erasures: tuple[Span, ...]
    """Its statements that empty the allocator's cache."""


@dataclass(frozen=True)
class Descent:
    """All ways to one statement."""

    tops: tuple[Part, ...]
    """The functions that run the rest for several objects."""
    steps: tuple[Part, ...]
    """The methods below them, down to the one that holds the statement."""
    called: str
    """Qualified name of what the statement calls; empty where that is no function that can be named from elsewhere."""
    shared: tuple[str, ...]
    """Attributes of its class that the statement releases."""


def descent(analysis: Analysis, holder: str, release: Event, repeated_in: Iterable[str]) -> Descent:
    """The functions between some that run a release for several objects and the release.

    Args:
        analysis: of the project.
        holder: the function whose own statement releases.
        release: the release, as a run of that function meets it.
        repeated_in: the functions that run it for several objects, at any distance.

    Raises:
        NotPartedError: the effects of one of them are in another order, or who is called is not known.
    """
    finder = _Finder(analysis, holder, release.stack[0].span)
    tops = finder.tops(sorted(set(repeated_in)))
    steps: dict[str, Part] = {}
    waiting = [callee for top in tops for target in top.targets for callee in target.callees]
    if not all(finder.ends_graphs(function) for function in dict.fromkeys(waiting)):
        raise NotPartedError("no graphs die before the release")
    while waiting:
        name = waiting.pop()
        if name not in steps:
            steps[name] = finder.step(name)
            waiting += [callee for target in steps[name].targets for callee in target.callees]
    for name in steps:
        finder.check_overrides(name, steps)
    return Descent(tops, tuple(steps[name] for name in sorted(steps)), _called(analysis, release), _shared(release))


class _Finder:
    """Looks for the ways to one statement of one function."""

    def __init__(self, analysis: Analysis, holder: str, span: Span) -> None:
        self._analysis = analysis
        self._holder = holder
        self._span = span
        self._sites: dict[str, list[Site]] = {}
        self._changed: dict[str, tuple[Change, ...]] = {}

    # -------------------------------------------------------------------------------------------------------- tops

    def tops(self, names: Iterable[str]) -> tuple[Part, ...]:
        """The outermost functions in which the ways to several objects part."""
        below: set[str] = set()
        parting: list[str] = []
        for name in names:
            through = self._through(name)
            if name == self._holder or len({site.event.stack[0].span for site in through}) > 1 or self._loops(through):
                parting.append(name)
                below |= {frame.function for site in through for frame in site.event.stack[1 : self._depth(site) + 1]}
        found = [self._part(name, is_top=True) for name in parting if name not in below]
        if not found:
            known = ", ".join(f"`{_short(name)}`" for name in names)
            hint = f", only for one each in {known}" if known else ""
            raise NotPartedError(f"no function was found that runs it for all of them{hint}")
        return tuple(found)

    @staticmethod
    def _loops(through: list[Site]) -> bool:
        """Whether a loop of the function itself is around the first call of a way."""
        return any(
            loop.function == site.event.stack[0].function and loop.span.contains(site.event.stack[0].span)
            for site in through
            for loop in site.event.loops
        )

    # ------------------------------------------------------------------------------------------------------- steps

    def step(self, name: str) -> Part:
        """A method on the way."""
        function = self._analysis.project.functions[name]
        if function.kind != "method" or ".<locals>." in name:
            raise NotPartedError(f"`{_short(name)}` is no method of an object")
        return self._part(name)

    def _part(self, name: str, *, is_top: bool = False) -> Part:
        """A function on the way, if the order of its effects is one that can be kept.

        Where the ways to several objects part, what happens to one is behind the release for another: nothing is said.
        """
        analysis = self._analysis
        through = self._through(name)
        if not through:
            raise NotPartedError(f"`{_short(name)}` is called there too, and does not come to this release")
        sites = analysis.sites(analysis.effectful[name])
        spans = dict.fromkeys(site.event.stack[0].span for site in through)
        is_plain = not is_top and len(spans) == 1 and not self._loops(through)
        if is_plain:
            same = set(map(id, through))  # these sites themselves: to compare all that they hold takes long
            positions = [index for index, site in enumerate(sites) if id(site) in same]
            self._check_order(name, sites, positions[0], positions[-1])
        return Part(
            analysis.project.functions[name],
            tuple(Target(span, self._callees(name, span)) for span in sorted(spans)),
            tuple(dict.fromkeys(self._changes(name) if is_plain else self._changes_below(name, spans))),
            tuple(
                dict.fromkeys(
                    site.event.stack[0].span
                    for site in sites
                    if site.effect is Effect.ERASE and len(site.event.stack) == 1
                )
            ),
        )

    def _check_order(self, name: str, sites: tuple[Site, ...], first: int, last: int) -> None:
        ended = [site.places for site in sites[:last] if site.effect is Effect.GRAPH_DEATH]
        for site in sites[:first]:
            if site.effect is Effect.ERASE and not getattr(site.event.node, "entry", False):
                raise NotPartedError(f"`{_short(name)}` erases the pool before the release")
        for site in sites[last + 1 :]:
            if site.effect is Effect.CAPTURE:
                raise NotPartedError(f"`{_short(name)}` captures graphs behind the release")
            if site.effect is Effect.GRAPH_DEATH and not any(_overlap(site.places, places) for places in ended):
                raise NotPartedError(f"graphs die behind the release in `{_short(name)}`")

    def ends_graphs(self, name: str) -> bool:
        """Whether a function ends graphs before it comes to the release for the last time."""
        behavior = self._analysis.effectful.get(name)
        through = self._through(name)
        if behavior is None or not through:
            return True  # what is wrong with it is said when its turn comes
        sites = self._analysis.sites(behavior)
        same = set(map(id, through))
        last = max(index for index, site in enumerate(sites) if id(site) in same)
        return any(site.effect is Effect.GRAPH_DEATH for site in sites[:last])

    def check_overrides(self, name: str, steps: dict[str, Part]) -> None:
        """Refuse where a subclass replaces a method on the way by one that is not on it."""
        function = self._analysis.project.functions[name]
        assert function.owner is not None
        waiting = list(self._analysis.project.subclasses.get(function.owner, ()))
        while waiting:
            each = waiting.pop()
            entry = self._analysis.project.classes[each]
            own = entry.methods.get(function.facts.name)
            if own is not None and own not in steps:
                raise NotPartedError(f"`{_short(own)}` overrides `{_short(name)}`")
            waiting += self._analysis.project.subclasses.get(each, ())

    def _callees(self, name: str, span: Span) -> tuple[str, ...]:
        if name == self._holder and span == self._span:
            return ()
        found: dict[str, None] = {}
        for node in b.walk(self._analysis.effectful[name].node):
            if isinstance(node, b.Calls) and node.span == span:
                if any(map(b.is_later, node.behaviors)):
                    raise NotPartedError(f"`{_short(name)}` runs what was registered on an exit stack")
                found.update(dict.fromkeys(key.partition("|")[0] for key in node.behaviors))
        return tuple(each for each in found if not self._is_declared(each))

    def _is_declared(self, name: str) -> bool:
        """Whether a method is only declared there, and every class that defines it comes to the release."""
        project = self._analysis.project
        function = project.functions[name]
        if function.owner is None or not _is_abstract(function):
            return False
        waiting = list(project.subclasses.get(function.owner, ()))
        while waiting:
            each = waiting.pop()
            own = project.classes[each].methods.get(function.facts.name)
            if own is not None and not self._through(own) and not _is_abstract(project.functions[own]):
                return False
            waiting += project.subclasses.get(each, ())
        return True

    def _through(self, name: str) -> list[Site]:
        """The effects of the release in what a function does."""
        if name not in self._sites:
            behavior = self._analysis.effectful.get(name)
            sites = self._analysis.sites(behavior) if behavior is not None else ()
            self._sites[name] = [site for site in sites if self._is_release(site.event)]
        return self._sites[name]

    def _is_release(self, event: Event) -> bool:
        """Whether an event is of the release, and called by name: a destructor is the net under it."""
        depth = next(
            (
                depth
                for depth, frame in enumerate(event.stack)
                if frame.function == self._holder and frame.span == self._span
            ),
            None,
        )
        return depth is not None and not any(
            frame.function.endswith(".__del__") for frame in event.stack[1 : depth + 1]
        )

    def _depth(self, site: Site) -> int:
        return next(
            depth
            for depth, frame in enumerate(site.event.stack)
            if frame.function == self._holder and frame.span == self._span
        )

    def _changes_below(self, name: str, spans: Iterable[Span]) -> Iterator[Change]:
        """What the functions that a function calls for several objects change of each."""
        for span in spans:
            for callee in self._callees(name, span):
                for change in self._changes(callee):
                    yield Change(change.how, f"?.{change.place.partition('.')[2]}")

    def _changes(self, name: str) -> tuple[Change, ...]:
        """What a function and its callees change before the release is done for the last time."""
        if name not in self._changed:
            self._changed[name] = tuple(dict.fromkeys(self._find_changes(name)))
        return self._changed[name]

    def _find_changes(self, name: str) -> Iterator[Change]:
        behavior = self._analysis.effectful.get(name)
        if behavior is None:
            return
        events: list[Event] = []
        visit(behavior, self._analysis.effectful.get, events.append, ways=1)
        last = max((index for index, event in enumerate(events) if self._is_release(event)), default=-1)
        own = f"${behavior.receiver}"
        for event in events[:last]:
            if isinstance(event.node, b.Touches) and event.node.how not in _IDLE and not self._is_release(event):
                for place in event.places:
                    root = "self" if place[0] == own else "?"
                    parts = [part for part in place[1:] if part != ELEMENT] or [place[0].lstrip("$@")]
                    yield Change(event.node.how, ".".join((root, *parts)))


def described(found: Descent) -> str:
    """The functions as JSON, for a rewrite that looks at their syntax; spans are pairs of offsets."""
    return json.dumps(
        {
            "tops": [_part(part) for part in found.tops],
            "steps": [_part(part) for part in found.steps],
            "called": found.called,
            "shared": found.shared,
        }
    )


def _part(part: Part) -> dict[str, object]:
    entry = part.function
    params = entry.facts.params
    return {
        "function": entry.name,
        "path": entry.module.source.path,
        "span": entry.facts.span,
        "owner": entry.owner or "",
        "receiver": params[0].name if entry.kind == "method" and params else "",
        "targets": [{"span": target.span, "callees": target.callees} for target in part.targets],
        "changes": [[change.how, change.place] for change in part.changes],
        "erases": bool(part.erasures),
    }


def _overlap(one: tuple[Place, ...], other: tuple[Place, ...]) -> bool:
    """Whether some place is another one, or holds it."""
    return any(a[: len(c)] == c or c[: len(a)] == a for a in one for c in other)


def _is_abstract(function: FunctionEntry) -> bool:
    """Whether a method has no body of its own."""
    for decorator in function.facts.decorators:
        match decorator:
            case flow.Name(id="abstractmethod") | flow.Attr(name="abstractmethod"):
                return True
    statements = [each for each in flow.statements(function.lowered.flow) if not isinstance(each, flow.Seq)]
    exits = [each for each in statements if isinstance(each, flow.Exit)]
    rest = [each for each in statements if not isinstance(each, flow.Exit)]
    is_refused = bool(exits) and all(each.kind == "raise" for each in exits)
    return is_refused and all(isinstance(each, flow.Eval) and isinstance(each.value, flow.Lit) for each in rest)


def _called(analysis: Analysis, release: Event) -> str:
    """Qualified name of the function that a release calls, if it can be called from anywhere."""
    if len(release.stack) < 2:
        return ""
    frame = release.stack[1]
    function = analysis.project.functions[frame.function]
    if ".<locals>." in function.name:
        return ""
    if function.kind in ("classmethod", "staticmethod", "function"):
        return function.name
    if len(frame.receiver) != 1 or ELEMENT in frame.receiver[0]:
        return ""
    root, *attributes = frame.receiver[0]
    kind, _, owner = root.partition(":")
    if kind not in ("mod", "class") or not attributes:
        return ""
    return ".".join((owner, *attributes, function.facts.name))


def _shared(release: Event) -> tuple[str, ...]:
    places = [place for place in release.places if place[0].startswith("class:") and len(place) > 1]
    return tuple(dict.fromkeys(place[1] for place in places))


def _short(name: str) -> str:
    """Class and method of a qualified name, or the function."""
    parts = name.split(".")
    return ".".join(parts[-2:]) if len(parts) > 1 and parts[-2].lstrip("_")[:1].isupper() else parts[-1]
