"""Who else uses memory of the process while an object that releases it ends.

That there are others need not show in a loop over them: an object of another class may lie beside the one that ends, or the
table itself may tell its users apart by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from graphlint import behavior as b
from graphlint import flow
from graphlint.assignments import given_locally
from graphlint.behavior import Behavior, Slot
from graphlint.conditions import asked_around
from graphlint.effects import Effect
from graphlint.facts import MODULE
from graphlint.flow import Expr
from graphlint.paths import Event, Frame
from graphlint.project import FunctionEntry
from graphlint.readers import keeps_items, reads, reads_within, shares
from graphlint.rebasing import sources
from graphlint.source import Span
from graphlint.summaries import Analysis, Site
from graphlint.values import ELEMENT, Place, flat

_WHOLE = frozenset(("all", "any", "len", "max", "min", "sum", "total"))
"""What asks about all items of a table at once."""
_IDENTITY = frozenset(("id", "key", "label", "name", "namespace", "owner", "prefix", "tag", "uid", "uuid"))
"""Words in the names of attributes that tell one object from the others of its class."""

_MOST_HANDED_ON = 32
"""Most functions that hand a name on to what makes a key of it."""


class Beside(NamedTuple):
    """An object of another class that uses the same memory, where a function runs the release of one of them."""

    root: str
    frame: Frame
    """The call in the function that leads to the release."""
    other: str
    """The class of the other one."""


def beside(analysis: Analysis, root: Behavior) -> Iterator[tuple[Site, str, Beside]]:
    """The releases that a method makes through an object's own method, while its own object keeps another user alive.

    Yields:
        The site, the function of the object that releases, and who is beside it.
    """
    function = analysis.project.functions[root.function]
    if function.owner is None or function.facts.name == "__init__" or root.receiver is None:
        return
    me = f"${root.receiver}"
    sites = analysis.sites(root)
    for index, site in enumerate(sites):
        slot = site.event.node.slot
        if site.effect is not Effect.WS_RELEASE or slot is None:
            continue
        for depth, frame in enumerate(site.event.stack):
            at = frame.receiver[0] if depth and len(frame.receiver) == 1 else ()
            if not at or (at[0] != me and at[0][0] != "@"):
                continue
            owner = analysis.project.functions[frame.function].owner
            if owner is None or at == (me,) or slot not in reads_within(analysis, owner):
                continue
            dead = {
                place
                for each in sites[:index]
                if each.effect is Effect.GRAPH_DEATH and each.event.stack[0] != site.event.stack[0]
                for place in each.places
            }
            for mine, other in _users(analysis, function.owner, owner, slot, me):
                if at[: len(mine)] != mine and not any(place[: len(mine)] == mine for place in dead):
                    yield site, frame.function, Beside(root.function, site.event.stack[0], other)
                    break
            break


def _users(analysis: Analysis, holder: str, owner: str, slot: Slot, me: str) -> Iterator[tuple[Place, str]]:
    """Objects of other classes than one whose graphs read what a slot holds, and these classes: an object, and its attributes."""
    if owner not in analysis.project.mro(holder) and slot in reads(analysis, holder):
        if "graph" in analysis.owns(holder) and not keeps_items(analysis, holder, slot):
            yield (me,), holder
    for each in analysis.project.mro(holder):
        if each not in analysis.project.classes:
            continue
        for name in analysis.behaviors.field_bindings(each):
            for t in analysis.behaviors.field_types(each, name):
                if t.name not in analysis.project.classes or owner in analysis.project.mro(t.name):
                    continue
                if "graph" not in analysis.owns(t.name) or slot not in reads(analysis, t.name):
                    continue
                if not keeps_items(analysis, t.name, slot) and not shares(analysis, t.name, slot):
                    yield (me, name), t.name


def asks_of_all(analysis: Analysis, event: Event) -> bool:
    """Whether a test around an event asks about all items of a table that is not one object's own: `if not any(users.values())`."""
    for frame in event.stack:
        function = analysis.project.functions[frame.function]
        body = function.lowered.flow
        made: dict[str, list[Expr]] | None = None
        own = function.facts.params[0].name if function.owner is not None and function.facts.params else ""
        if not own or function.kind != "method" or "graph" not in analysis.owns(function.owner or ""):
            own = ""
        for asked in asked_around(body, frame.span):
            waiting = [asked.expr]
            for part in flow.parts(asked.expr):
                if isinstance(part, flow.Name):
                    if made is None:
                        made = {}
                        for name, value, how in given_locally(body):
                            made.setdefault(name, []).extend([value] if how == "set" else [])
                    waiting += made.get(part.id, ())
            for expr in waiting:
                for part in flow.parts(expr):
                    if isinstance(part, flow.Each) or (isinstance(part, flow.Call) and _is_of_whole(part)):
                        if any(_root(each) != own for each in flow.parts(part) if isinstance(each, flow.Attr)):
                            return True
                        if any(_is_variable(analysis, function, each) for each in flow.parts(part)):
                            return True
    return False


def _is_of_whole(call: flow.Call) -> bool:
    return flow.last_name(call.callee) in _WHOLE


def _root(expr: Expr) -> str:
    """The name that a chain of attributes begins with."""
    while isinstance(expr, flow.Attr | flow.Item):
        expr = expr.base
    return expr.id if isinstance(expr, flow.Name) else ""


def _is_variable(analysis: Analysis, function: FunctionEntry, expr: Expr) -> bool:
    """Whether a name is that of a variable of a module."""
    if not isinstance(expr, flow.Name):
        return False
    symbol = analysis.project.lookup(function.module, expr.id)
    return symbol is not None and symbol.kind in ("variable", "import")


class Table(NamedTuple):
    """A table of objects, where a function does something for one of them."""

    place: Place
    of: str
    """A class of the objects in it."""
    span: Span
    why: str
    """What the function does, as a clause."""


def newcomers(analysis: Analysis, root: Behavior) -> Iterator[Table]:
    """The tables that a function puts one more object with graphs into, which it made."""
    for node in root.nodes:
        if isinstance(node, b.Touches) and node.how == "add" and "owner" in analysis.holds(node.slot):
            if len(node.places) == 1 and any(place[0][0] == "@" for place in node.value_places):
                for each in _classes_in(analysis, node.slot):
                    if not any(base in analysis.captured_reads for base in analysis.project.mro(each)):
                        continue  # a record of what the function captures
                    yield Table(node.places[0], each, node.span, "one more is made there, beside the others")


def failures(analysis: Analysis, root: Behavior, at: Span) -> Iterator[Table]:
    """The tables of which one object does something that may raise, where a place in the function handles that."""
    for node in root.nodes:
        if not isinstance(node, b.Guarded) or not any(each.span.contains(at) for each in node.handlers):
            continue
        for inner in (each for each in b.walk(node.body) if isinstance(each, b.Calls)):
            for _, places in inner.bindings[:1]:
                if len(places) == 1 and places[0][-1] == ELEMENT:
                    for key in inner.behaviors:
                        owner = analysis.project.functions[key.partition("|")[0]].owner
                        if owner is not None:
                            yield Table(places[0][:-1], owner, inner.span, "it stands where one of them has failed")


def _classes_in(analysis: Analysis, slot: Slot | None) -> Iterator[str]:
    """Classes with graphs, of what an attribute or a variable holds, or has in it."""
    if slot is None:
        return
    owner, name = slot
    if owner.startswith("mod:"):
        types = analysis.behaviors.variable_types(f"{owner[4:]}.{name}")
    else:
        types = analysis.behaviors.field_types(owner, name) if owner in analysis.project.classes else ()
    notes = analysis.behaviors.slots.get(slot)
    for each in sorted({t.name for t in flat(types)} | (notes.types if notes is not None else set())):
        if each in analysis.project.classes and "graph" in analysis.owns(each):
            yield each


def in_common(analysis: Analysis, owner: str) -> Mapping[str, tuple[str, Span]]:
    """Attributes of a class for which several of its objects were given one object, and where: the function, and the call."""
    known = analysis.known.get(("in common", ""))
    if known is None:
        known = analysis.known["in common", ""] = {}
        for each in analysis.behaviors.all():
            if "|" not in each.key:
                for name, param, span in _given_to_several(analysis, each):
                    known.setdefault(name, {}).setdefault(param, (each.function, span))
    found: dict[str, tuple[str, Span]] = {}
    aliases = analysis.behaviors.constructor_aliases(owner) if analysis.project.method(owner, "__init__") else {}
    for base in analysis.project.mro(owner):
        for attribute, param in aliases.items():
            if (where := known.get(base, {}).get(param)) is not None:
                found[attribute] = where
    return found


def parts_on_way(analysis: Analysis, owner: str, place: Place) -> Iterator[Slot]:
    """The attributes through which a place of an object is reached, each with the class that has it."""
    classes = [owner]
    for name in place[1 : max(2, len(place) - 1)]:
        yield from ((each, name) for each in classes)
        held = {t.name for each in classes for t in analysis.behaviors.field_types(each, name)}
        classes = sorted(held & analysis.project.classes.keys())


def is_of_process(analysis: Analysis, owner: str, attribute: str) -> bool:
    """Whether an attribute of a class's objects is an object that a module, or a class, has for all: `self.arena = ARENA`."""
    for each in analysis.project.mro(owner):
        notes = analysis.behaviors.slots.get((each, attribute))
        for source in notes.sources if notes is not None else ():
            if source[0].startswith("mod:") or analysis.behaviors.is_shared(*source) is not None:
                if "memory" in analysis.holds(source) and not analysis.is_container(source):
                    return True
    return False


def _given_to_several(analysis: Analysis, maker: Behavior) -> Iterator[tuple[str, str, Span]]:
    """The classes of which a function makes several objects with one argument, the parameter, and the last call."""
    calls = [
        (node, name.removesuffix(".__init__"))
        for node in maker.nodes
        if isinstance(node, b.Calls)
        for name in (key.partition("|")[0] for key in node.behaviors)
        if name.endswith(".__init__")
    ]
    if not calls:
        return
    body = analysis.project.functions[maker.function].lowered.flow
    loops = [each.span for each in flow.statements(body) if isinstance(each, flow.Star)]
    loops += [each.span for each in flow.expressions(body) if isinstance(each, flow.Each)]
    before: dict[tuple[str, str, Place], Span] = {}
    listed = {
        place
        for node in maker.nodes
        if isinstance(node, b.Touches) and node.how == "add"
        for place in node.value_places
        if len(place) == 1 and place[0][0] == "@"
    }
    for node, name in calls:
        for param, places in node.bindings:
            if (
                len(places) == 1
                and len(places[0]) == 2
                and places[0][0] == f"${maker.receiver}"
                and ELEMENT not in places[0]
            ):
                if any(place in listed for each, made in node.bindings if each == "self" for place in made):
                    yield name, param, node.span  # each call of the function makes one more
            if param == "self" or len(places) != 1 or places[0][0].startswith(("!", "%")) or ELEMENT in places[0]:
                continue
            start = int(places[0][0][1:]) if places[0][0][1:].isdigit() and places[0][0][0] == "@" else None
            around = [loop for loop in loops if loop.contains(node.span)]
            if around and (start is None or not any(loop.start <= start < loop.end for loop in around)):
                if places[0][0][0] == "@":
                    yield name, param, node.span
            other = before.setdefault((name, param, places[0]), node.span)
            if other != node.span:
                yield name, param, node.span


def told_apart(analysis: Analysis, owner: str, slot: Slot) -> tuple[str, Span] | None:
    """Where objects of a class put what a shared place keeps under a name of their own: the function, and the call or store."""
    for store, keys in _keyed(analysis, slot):
        if not store.key.endswith(MODULE):
            for key in keys:
                if store.receiver is not None and _is_of(analysis, store, owner):
                    if key[0] == f"${store.receiver}" and len(key) == 2 and _names_one(key[1]):
                        return store.function, analysis.project.functions[store.function].facts.span
    waiting = [
        (store.key, frozenset(key[0][1:] for key in keys if len(key) == 1)) for store, keys in _keyed(analysis, slot)
    ]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        called, params = asked = waiting.pop()
        if asked in seen or len(seen) > _MOST_HANDED_ON:
            continue
        seen.add(asked)
        for calling in sorted(analysis.callers.get(called, ())) if params else ():
            caller = analysis.effectful[calling]
            for node in caller.nodes:
                if isinstance(node, b.Calls) and called in node.behaviors:
                    given = [place for name, places in node.bindings if name in params for place in places]
                    me = f"${caller.receiver}"
                    if caller.receiver is not None and _is_of(analysis, caller, owner):
                        if any(len(place) == 2 and place[0] == me and _names_one(place[1]) for place in given):
                            return caller.function, node.span
                    handed = (place[0][1:] for place in given if len(place) == 1 and place[0][0] == "$")
                    waiting.append((calling, frozenset(handed)))
    return None


def _is_of(analysis: Analysis, method: Behavior, owner: str) -> bool:
    return analysis.project.functions[method.function].owner in analysis.project.mro(owner)


def _names_one(attribute: str) -> bool:
    return not _IDENTITY.isdisjoint(attribute.lower().split("_"))


def _keyed(analysis: Analysis, slot: Slot) -> list[tuple[Behavior, tuple[Place, ...]]]:
    """The functions that put items into a shared place, each with what the keys are made of."""
    known = analysis.known.get(("keyed", ""))
    if known is None:
        known = analysis.known["keyed", ""] = {}
        for each in analysis.behaviors.all():
            for node in each.nodes:
                if isinstance(node, b.Touches) and node.how == "add" and node.slot is not None and node.key is not None:
                    if read := tuple(sources(node.key)):
                        known.setdefault(node.slot, []).append((each, read))
    found: list[tuple[Behavior, tuple[Place, ...]]] = known.get(slot, [])
    return found
