"""Two names that may stand for one object: attributes that a constructor may give the same, keys of one table.

`self.draft = draft or target` is another runner where there is a draft, and the target itself where there is none. A path that
takes the two for one object says something only where nothing on it asks whether they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphlint import flow
from graphlint.behavior import Behavior, Repeat, last_name
from graphlint.enrolled import left_tables
from graphlint.flow import Expr
from graphlint.paths import Event, Frame, atoms
from graphlint.summaries import Analysis, Site
from graphlint.values import ELEMENT, Place, Test

_APART = frozenset(("fromkeys", "frozenset", "id", "seen", "set", "unique"))
"""Words of what visits each object once, whatever names it has."""
_CHOOSING = frozenset(("filter", "islice"))
_BOTH = 2
_OWN = 2
"""Parts of the place of an attribute of the object itself: `self.draft`."""


def may_be_alike(analysis: Analysis, root: Behavior, sites: Sequence[Site]) -> bool:
    """Whether objects on the paths of a function have attributes that may be one object."""
    if any(len(frame.receiver) == _BOTH for site in sites for frame in site.event.stack[1:]):
        return True  # a variable that is one of two
    if not analysis.behaviors.alike and not analysis.behaviors.picked:
        return False
    functions = {root.function, *(frame.function for site in sites for frame in site.event.stack)}
    owners = {analysis.project.functions[name].owner for name in functions}
    return any(
        _has_alike(analysis, each) for owner in owners if owner is not None for each in analysis.project.mro(owner)
    )


def _has_alike(analysis: Analysis, class_name: str) -> bool:
    """Whether a class has attributes that may be one object, of a class of the project."""
    names = [*analysis.behaviors.alike.get(class_name, ())]
    names += [way[0] for ways in analysis.behaviors.picked.get(class_name, {}).values() for way in ways if way]
    types = (t.name for name in names for t in analysis.behaviors.field_types(class_name, name))
    return any(each in analysis.project.classes for each in types)


def picked(analysis: Analysis, root: Behavior) -> Mapping[Place, tuple[Place, ...]]:
    """Tables of the object of a method, with any item and the attributes that may be items of them."""
    owner = analysis.project.functions[root.function].owner
    if owner is None or root.receiver is None or not analysis.behaviors.picked:
        return {}
    me = f"${root.receiver}"
    known = analysis.behaviors.picked_of(owner)
    left = left_tables(analysis, root)
    return {
        (me, *table): ((me, *table, ELEMENT), *((me, *way) for way in ways))
        for table, ways in known.items()
        if last_name(table) not in left
    }


def is_unasked(analysis: Analysis, root: Behavior, trace: Sequence[Event]) -> bool:
    """Whether nothing around the events of a path may depend on whether two names are one object's."""
    asked: set[frozenset[Test]] = set()
    for event in trace:
        sites = [site for site in analysis.sites(root) if _is_at(site.event, event)]
        site = next((site for site in sites if site.effect is event.effect), sites[0] if sites else None)
        own = _asked_of_itself(analysis, site.event) if site is not None else None
        if own is None or any(_is_of_some(analysis, frame) or _is_some_item(analysis, frame) for frame in event.stack):
            return False
        asked.add(own)
    if len(asked) > 1:
        return False  # one of them is released only if it is such a one
    functions = {frame.function for event in trace for frame in event.stack[:-1]} | {root.function}
    return not any(_tells_apart(analysis, name) for name in functions)


def _is_some_item(analysis: Analysis, frame: Frame) -> bool:
    """Whether a method is called of an item under a key that is not written out: of which one, nobody knows."""
    call = next((call for call in analysis.project.functions[frame.function].calls if call.span == frame.span), None)
    match call:
        case flow.Call(callee=flow.Attr(base=flow.Item(base=flow.Name(), key=key))):
            return not isinstance(key, flow.Lit)
    return False


def is_by_two_ways(analysis: Analysis, trace: Sequence[Event]) -> bool:
    """Whether a path reaches an object by way of one that was made with it, and another time by another way."""
    borrowers = {way[-2] for known in analysis.behaviors.ways.values() for way in known if len(way) > 1}
    used = {
        tuple(
            place
            for frame in event.stack
            for place in frame.receiver
            if place[-1] in borrowers and not any(each[: len(place)] == place for each in event.places)
        )
        for event in trace
        if event.effect is trace[-1].effect
    }
    return bool(borrowers) and len(used) > 1


def is_for_both(analysis: Analysis, root: Behavior, trace: Sequence[Event]) -> bool:
    """Whether no flag on the ways to an object says whose it is: `if self.owns: self.steps.release()`."""
    for event in trace:
        for site in analysis.sites(root):
            if site.effect is event.effect and _is_at(site.event, event):
                ways = (*site.event.places, *(place for frame in site.event.stack for place in frame.receiver))
                for place in (place for guard in site.event.guards for place in _read(guard)):
                    is_flag = len(place) > 1 and not any(each[: len(place)] == place for each in ways)
                    if is_flag and not _is_noted(analysis, site.event, place):
                        return False
    return True


def _read(guard: Test) -> Iterator[Place]:
    """The places that a test reads, of which more or less is no question of whose something is."""
    match guard:
        case ("compare", op, read, _) if op not in ("<", ">", "<=", ">="):
            yield from read
        case ("atom", _, place):
            yield place
        case ("not" | "and" | "or", *inner):
            for each in inner:
                yield from _read(each)


def alike_text(analysis: Analysis, trace: Sequence[Event]) -> str:
    """Which attributes a path takes for one object, as a reader writes it."""
    for event in reversed(trace):
        for frame in event.stack:
            function = analysis.project.functions[frame.function]
            known = analysis.behaviors.alike_of(function.owner) if function.owner is not None else {}
            me = function.facts.params[0].name if function.facts.params else ""
            for name, target in known.items():
                if name in function.facts.words and target in function.facts.words:
                    return f"{me}.{name} is {me}.{target}"
            items = analysis.behaviors.picked_of(function.owner) if function.owner is not None else {}
            for table, ways in items.items():
                for way in ways:
                    if way[0] in function.facts.words and table[0] in function.facts.words:
                        return f"{'.'.join((me, *way))} is in {'.'.join((me, *table))}"
    return "two names stand for one object"


def is_doubled(analysis: Analysis, place: Place) -> bool:
    """Whether a place leads through a table in which one object stands under several keys."""
    doubled = {name for _, name in analysis.behaviors.doubled}
    return not doubled.isdisjoint(place)


def has_doubled(analysis: Analysis, root: Behavior) -> bool:
    """Whether a function goes over such a table."""
    return bool(analysis.behaviors.doubled) and any(
        isinstance(node, Repeat) and any(is_doubled(analysis, place) for place in node.over) for node in root.nodes
    )


def goes_over_twice(analysis: Analysis, frame: Frame) -> bool:
    """Whether the loop around a call goes over all of a table, and no object of it is left out for having been there."""
    function = analysis.project.functions[frame.function]
    loops = [
        each
        for each in flow.statements(function.lowered.flow)
        if isinstance(each, flow.Star) and each.span.contains(frame.span) and each.iterable is not None
    ]
    if not loops or _APART & set(_words(loops[-1].iterable)):
        return False
    return not any(_asks(expr) for expr in flow.expressions(loops[-1].body))


def _is_at(event: Event, other: Event) -> bool:
    """Whether an event happens in what another one, of a path that takes two objects for one, stands for."""
    return [frame[:2] for frame in event.stack[: len(other.stack)]] == [frame[:2] for frame in other.stack]


def _asked_of_itself(analysis: Analysis, event: Event) -> frozenset[Test] | None:
    """What the tests around an event ask of the object itself that nothing on the way to it changes; None for other questions.

    Whether there is something on the way, and what a release has noted of itself, says nothing of who else has the object.
    """
    receivers = [place for frame in event.stack for place in frame.receiver]
    ways = (*event.places, *receivers)
    found: set[Test] = set()
    for guard in event.guards:
        if guard[0] in ("compare", "unknown") or _compares(guard):
            return None
        for kind, place in atoms(guard):
            if any(each[: len(place)] == place for each in ways) or _is_noted(analysis, event, place):
                continue
            if len(place) <= _OWN or not any(each[: len(place) - 1] == place[:-1] for each in event.places):
                return None
            found.add((kind, place[-1], guard[0] == "not"))
    return frozenset(found)


def _compares(test: Test) -> bool:
    """Whether a test asks whether something is the same as another thing, or one of several."""
    match test:
        case ("compare", "is" | "==" | "in", _, _):
            return True
        case ("not" | "and" | "or", *inner):
            return any(map(_compares, inner))
    return False


def _is_noted(analysis: Analysis, event: Event, place: Place) -> bool:
    """Whether a function on the way to an event writes what a place holds: `self.closed = True`."""
    name = last_name(place)
    built = (analysis.behaviors.built(frame.function) for frame in event.stack)
    return any(slot is not None and slot[1] == name for each in built if each is not None for slot in each.touched)


def _is_of_some(analysis: Analysis, frame: Frame) -> bool:
    """Whether the innermost loop around a call leaves out some of what is there: a slice, a choice."""
    body = analysis.project.functions[frame.function].lowered.flow
    loops = [
        (each.span.start, each.iterable, False)
        for each in flow.statements(body)
        if isinstance(each, flow.Star) and each.iterable is not None and each.span.contains(frame.span)
    ]
    loops += [
        (expr.span.start, expr.iterable, bool(expr.tests))
        for expr in flow.expressions(body)
        if isinstance(expr, flow.Each) and expr.span.contains(frame.span)
    ]
    if not loops:
        return False
    _, iterable, chooses = max(loops, key=lambda loop: loop[0])
    return chooses or any(_leaves_out(part) for part in flow.parts(iterable))


def _leaves_out(expr: Expr) -> bool:
    if isinstance(expr, flow.Each):
        return bool(expr.tests)
    if isinstance(expr, flow.Call) and flow.last_name(expr) == "range" and len(expr.args) > 1:
        return True
    return flow.is_slice(expr) or (isinstance(expr, flow.Call) and flow.last_name(expr) in _CHOOSING)


def _tells_apart(analysis: Analysis, name: str) -> bool:
    function = analysis.project.functions[name]
    return bool(_APART & function.facts.words) or any(
        isinstance(expr, flow.Group) and expr.kind == "set" for expr in flow.expressions(function.lowered.flow)
    )


def _asks(expr: Expr) -> bool:
    """Whether an expression asks whether something was there before."""
    return (isinstance(expr, flow.Op) and expr.op in ("in", "not in", "is", "is not")) or (
        isinstance(expr, flow.Call) and flow.last_name(expr) in ("id", "add")
    )


def _words(expr: Expr | None) -> Iterator[str]:
    for part in flow.parts(expr) if expr is not None else ():
        if isinstance(part, flow.Name):
            yield part.id
        elif isinstance(part, flow.Attr):
            yield part.name
