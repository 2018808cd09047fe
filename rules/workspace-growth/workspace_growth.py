"""Reports workspaces that are replaced by larger ones although a captured graph may read them.

A suspect's values:

    place       what is replaced, as the message names it
    how         `assign`, `item` or `resize`
    captured    "yes" where the project captures code that comes to the replacement
"""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import behavior as b
from graphlint import codemod
from graphlint.behavior import Behavior
from graphlint.edits import Fix
from graphlint.effects import Effect
from graphlint.execution import Event, visit
from graphlint.findings import Finding, Precision, Severity, Step, Suspect
from graphlint.keeping import Runs, Store, asks_capture, read_by, related, stores
from graphlint.source import Span
from graphlint.summaries import Analysis
from graphlint.typestate import place_text, step
from graphlint.values import ELEMENT, Place, Test

_SHARED = ("class:", "mod:", "cell:")
_LOCAL = ("@", "%")
_SIZES = ("<", ">", "<=", ">=")


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    """Stores that displace what a place holds because it is too small, and tensors that are resized in place."""
    found = stores(analysis)
    runs = Runs(analysis, found)
    best: dict[tuple[str, Span], Suspect] = {}
    for growth in (*_replaced(analysis, found), *_resized(analysis)):
        if not _is_handled(analysis, runs, growth):
            suspect = _suspect(analysis, growth)
            best.setdefault((suspect.path, suspect.at), suspect)
    yield from (best[place] for place in sorted(best))


class Growth:
    """A place whose memory gives way to other memory."""

    def __init__(self, analysis: Analysis, root: Behavior, event: Event, place: Place, how: str) -> None:
        self.root = root
        self.whole = whole = analysis.behaviors.built(root.key) or root
        """The behavior with all that it does, relevant or not."""
        self.event = event
        self.place = place
        """The variable or attribute, or the container whose item is replaced."""
        self.how = how
        self.by_name = False

        self.noted = {
            each
            for node in b.walk(whole.node)
            if isinstance(node, b.Touches) and node.how == "write"
            for each in node.places
        }
        """Attributes and variables that the function sets: the capacity beside the buffer, the key beside the slot."""

    @property
    def held(self) -> Place:
        """What a graph may read."""
        return (*self.place, ELEMENT) if self.how == "item" else self.place


def _replaced(analysis: Analysis, found: tuple[Store, ...]) -> Iterator[Growth]:
    for store in found:
        if store.event.in_constructor or store.is_memo or len(store.event.places) != 1:
            continue
        place = store.event.places[0]
        growth = Growth(analysis, store.root, store.event, place, "item" if store.node.how == "add" else "assign")
        growth.by_name = store.by_name
        sizes = [test for guard in store.event.guards for test in _comparisons(guard, growth)]
        same = any(place == growth.held for place in store.event.value_places) and _compares(analysis, store)
        if (sizes or same) and all(_holds_when_present(guard, growth) is not False for guard in store.event.guards):
            yield growth


def _compares(analysis: Analysis, store: Store) -> bool:
    """Whether a function that gives the same memory or new memory decides it by a comparison."""
    makers = {origin.within.function for origin in store.origins if origin.within is not None}
    built = (each for name in makers if (each := analysis.behaviors.built(name)) is not None)
    return any(
        isinstance(node, b.Either) and any(op in _SIZES for op in _operators(node.test))
        for each in built
        for node in b.walk(each.node)
    )


def _operators(test: Test) -> Iterator[str]:
    match test:
        case ("compare", op, _, _):
            yield op
        case ("not" | "and" | "or", *inner):
            for each in inner:
                yield from _operators(each)


def _resized(analysis: Analysis) -> Iterator[Growth]:
    for root in analysis.roots():
        found: list[Event] = []
        visit(root, lambda _: None, found.append)
        for event in found:
            node = event.node
            if not isinstance(node, b.Happens) or node.effect is not Effect.WS_REPLACE or not event.places:
                continue
            place = event.places[0]
            if place[0].startswith(_LOCAL) and len(place) == 1:
                continue
            growth = Growth(analysis, root, event, place, "resize")
            if any(_comparisons(guard, growth) for guard in event.guards):
                yield growth


# --------------------------------------------------------------------------------------------------------------- tests


def _comparisons(test: Test, growth: Growth) -> list[Test]:
    """Comparisons in a test with what the place holds, or with what the function notes beside it."""
    match test:
        case ("compare", op, read, _) if op in (*_SIZES, "==", "is"):
            return [test] if any(_is_of(place, growth) for place in read) else []
        case ("not" | "and" | "or", *inner):
            return [found for each in inner for found in _comparisons(each, growth)]
    return []


def _is_of(place: Place, growth: Growth) -> bool:
    held = growth.held
    if place[: len(held)] == held or place[: len(growth.place)] == growth.place:
        return True
    beside = growth.place[:-1]
    return len(place) > 1 and place[: len(beside)] == beside and place in growth.noted


def _holds_when_present(test: Test, growth: Growth) -> bool | None:
    """Whether a test holds while something is in the place, as far as that says."""
    match test:
        case ("const", value):
            return bool(value)
        case ("atom", kind, place) if place in (growth.held, growth.place):
            return kind != "none" if kind in ("none", "true") else None
        case ("compare", "in", read, _) if any(place[: len(growth.place)] == growth.place for place in read):
            return True
        case ("not", inner):
            value = _holds_when_present(inner, growth)
            return None if value is None else not value
        case ("and" | "or" as op, *inner):
            values = [_holds_when_present(each, growth) for each in inner]
            decided = op == "or"
            if decided in values:
                return decided
            return None if None in values else not decided
    return None


# ------------------------------------------------------------------------------------------------------- what handles it


def _is_handled(analysis: Analysis, runs: Runs, growth: Growth) -> bool:
    return (
        _is_kept(analysis, growth)
        or _is_locked(analysis, runs, growth)
        or _follows_graph_death(analysis, growth)
        or _is_for_one_object(analysis, runs, growth)
        or _consumers_keep(analysis, runs, growth)
    )


def _is_kept(analysis: Analysis, growth: Growth) -> bool:
    """Whether what was there is put into something else that outlives the function."""
    kept = False
    same = {place for guard in growth.event.guards for place in _identical(guard, growth)}

    def see(event: Event) -> None:
        nonlocal kept
        node = event.node
        if not isinstance(node, b.Touches) or node.how != "add" or not event.places:
            return
        into = event.places[0]
        outlives = len(into) > 1 or not into[0].startswith(_LOCAL)
        if outlives and not related(into, growth.place):
            kept = kept or any(
                place[: len(growth.held)] == growth.held or place in same for place in event.value_places
            )

    visit(growth.whole, analysis.behaviors.built, see)
    return kept


def _identical(test: Test, growth: Growth) -> Iterator[Place]:
    """Places that a test says are the same object as what is replaced."""
    match test:
        case ("compare", "is", read, _) if any(_is_of(place, growth) for place in read):
            yield from read
        case ("and", *inner):
            for each in inner:
                yield from _identical(each, growth)


def _is_locked(analysis: Analysis, runs: Runs, growth: Growth) -> bool:
    """Whether the growth is refused from some point on: a flag that somebody sets makes it raise.

    That it is refused inside a capture does not count: growth outside of it, later, is what takes the memory away.
    """
    locks: list[Place] = []

    def refuse(guards: tuple[Test, ...], stack: object) -> None:
        for guard in guards:
            if not asks_capture(guard):
                locks.extend(place for place in _flags(guard) if not _is_of(place, growth))

    visit(growth.whole, analysis.behaviors.built, lambda event: None, refuse)
    return any(_is_taken(analysis, runs, growth, place) for place in locks)


def _flags(test: Test) -> Iterator[Place]:
    match test:
        case ("atom", "true", place) if len(place) > 1:
            yield place
        case ("and" | "or", *inner):
            for each in inner:
                yield from _flags(each)
        case ("not", inner):
            yield from _flags(inner)


def _is_taken(analysis: Analysis, runs: Runs, growth: Growth, lock: Place) -> bool:
    """Whether somebody sets the flag; a setter that nobody calls counts where nobody captures in these files either."""
    setters = {
        root.function
        for root in analysis.behaviors.all()
        for node in b.walk(root.node)
        if isinstance(node, b.Touches)
        and node.how == "write"
        and node.tags != {"none"}
        and any(place[-1] == lock[-1] for place in node.places)
    }
    makers = {name for name in setters if name.rpartition(".")[2] in ("__init__", "__post_init__")}
    if setters <= makers:
        return True  # it is set once and for all: another kind of object, or not ours to see
    return not _is_captured(analysis, growth) or any(runs.callers(name) for name in setters - makers)


def _is_captured(analysis: Analysis, growth: Growth) -> bool:
    return any(key.partition("|")[0] == growth.root.function for key in analysis.captured)


def _follows_graph_death(analysis: Analysis, growth: Growth) -> bool:
    here = growth.event.stack[0].span.start
    return any(
        site.effect is Effect.GRAPH_DEATH and site.event.stack[0].span.start < here
        for site in analysis.sites(growth.root)
    )


def _is_for_one_object(analysis: Analysis, runs: Runs, growth: Growth) -> bool:
    """Whether only the constructor of the object asks for it."""
    if not growth.place[0].startswith("$"):
        return False
    callers = runs.callers(growth.root.function)
    owner = analysis.project.functions[growth.root.function].owner
    return bool(callers) and all(
        each.function.endswith(".__init__") and analysis.project.functions[each.function].owner == owner
        for each in callers
    )


def _consumers_keep(analysis: Analysis, runs: Runs, growth: Growth) -> bool:
    """Whether everybody who asks for the memory keeps what he was given in an object of his own."""
    if not growth.place[0].startswith(_SHARED):
        return False
    callers = runs.callers(growth.root.function)
    return bool(callers) and all(_keeps(each, growth, runs, 0) for each in callers)


def _keeps(root: Behavior, growth: Growth, runs: Runs, depth: int) -> bool:
    for node in b.walk(root.node):
        if isinstance(node, b.Touches) and node.how in ("write", "add") and node.places:
            if node.places[0][0].startswith("$") and any(
                place[: len(growth.place)] == growth.place for place in node.value_places
            ):
                return True
    passed_on = any(place[: len(growth.place)] == growth.place for place in root.returns.places)
    callers = runs.callers(root.function) if passed_on and depth < 3 else []
    return bool(callers) and all(_keeps(each, growth, runs, depth + 1) for each in callers)


# ------------------------------------------------------------------------------------------------------------- suspects


def _suspect(analysis: Analysis, growth: Growth) -> Suspect:
    entry = analysis.project.functions[growth.root.function]
    path = entry.module.source.path
    captured = _is_captured(analysis, growth)
    steps: list[Step] = [step(analysis, growth.event._replace(effect=Effect.WS_REPLACE), 0)]
    equal = all(test[1] == "==" for guard in growth.event.guards for test in _comparisons(guard, growth))
    precision = Precision.MEDIUM if growth.by_name or equal else None
    severity = Severity.ERROR if growth.how == "resize" or captured else None
    values = {
        "place": place_text(growth.place, analysis, growth.root),
        "how": growth.how,
        **({"captured": "yes"} if captured else {}),
    }
    return Suspect(
        "workspace-growth",
        path,
        entry.facts.span,
        growth.event.stack[0].span,
        tuple(steps),
        values,
        severity,
        precision,
    )


# ------------------------------------------------------------------------------------------------------------------ fix


def confirm(suspect: Suspect, module: codemod.Module) -> Finding | None:
    """The finding, unless the reported place is no statement any more."""
    if module.tree(suspect.function).statement(suspect.at) is None:
        return None
    return codemod.confirmed(suspect, module)


def fix(finding: Finding, modules: codemod.Modules) -> Fix | None:
    """None yet."""
    return None
