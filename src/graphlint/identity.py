"""Whether two events of a path are about one object, where their places cannot tell.

`runners["draft"]` and `runners["target"]` are both an item of `runners`, and `self.active` is whatever was assigned last.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from graphlint import behavior as b
from graphlint import flow
from graphlint.assignments import argument_for, assigned, given_locally
from graphlint.effects import Effect
from graphlint.flow import Expr
from graphlint.paths import Event, Frame
from graphlint.project import FunctionEntry
from graphlint.source import Span
from graphlint.summaries import Analysis, Site
from graphlint.values import ELEMENT, Place
from graphlint.visiting import visit

_WHOLE = frozenset(("values", "items", "keys", "list", "tuple", "sorted", "reversed", "enumerate", "set"))
"""Calls whose rounds go over all that they are given."""
_TAKERS = frozenset(("pop", "popitem", "popleft"))
_TAKEN = "taken"
"""Text of all items that a loop takes out of a table, one after the other."""
_MAPS = frozenset(("map", "imap", "imap_unordered"))
_SHARED = ("class:", "mod:")
_DEEPEST = 6
_SLICE = re.compile(r"\[[^\[\]]*:[^\[\]]*\]$")
_WORD = re.compile(r"[^\W\d]\w*")


class _Item(NamedTuple):
    """Which of several objects an expression means."""

    frame: Frame
    """Where the expression stands."""
    kind: str
    """all | key | local (what the text says there) | taken (out of the table) | some."""
    text: str = ""
    entry: tuple[str, str, str] = ("", "", "")
    """Of an item under a key: the table's last name, the function that the key comes from, and its text there."""
    variable: str = ""
    """The variable that was given it, where the expression is one."""


def is_one_object(analysis: Analysis, root: b.Behavior, subject: Place, first: Event, last: Event) -> bool:
    """Whether two events on a path, both about a subject of the root, are about one object.

    An item of a table is the same for the same key, and any item is one of those that a loop over the whole table went
    through. An attribute is another object once it was assigned again, and so is all that it leads to.
    """
    if first.places and last.places and not _meet(first.places, last.places):
        return False
    if takes_next(analysis.sites(root), last) and any(
        by_another(first, frame.receiver[0], (frame.function,)) for frame in last.stack[1:] if len(frame.receiver) == 1
    ):
        return False  # each takes what is his
    if _is_made_again(analysis, subject, first, last) or _are_two_of_two(analysis, root, first, last):
        return False
    if last.node is first.node and len(last.stack) < len(first.stack) and _is_told_another(analysis, first, last):
        return False
    if last.node is first.node and len(last.stack) < len(first.stack) and not _is_item(first):
        return True  # the second call of a method, refused for the first
    one, other = _item(analysis, first), _item(analysis, last)
    if other is not None and other.kind != "all" and _is_item(last) and not _is_item(first):
        return False  # it is one of several, of which the first may be another
    if one is not None and (one.kind != "all" or one.text) and not _is_one_item(analysis, one, other, first, last):
        return False
    if (mine := _compared(analysis, root, first)) and (theirs := _compared(analysis, root, last)) and mine != theirs:
        return False  # each ends the items that name the one who asks
    return not _is_replaced(analysis, root, subject, first, last)


def takes_next(sites: Sequence[Site], event: Event) -> bool:
    """Whether what an event is about was taken out of a list that gives the next one, whoever asks: `self.scopes.pop()`."""
    for site in sites:
        node = site.event.node
        if isinstance(node, b.Touches) and node.how == "pop" and node.tags.isdisjoint(("keyed", "named")):
            same = [frame[:2] for frame in site.event.stack[:-1]] == [frame[:2] for frame in event.stack[:-1]]
            if same and any(place[: len(table)] == table for place in event.places for table in site.places):
                return True
    return False


def by_another(event: Event, receiver: Place, functions: Container[str]) -> bool:
    """Whether an event happens in a method of another object than one."""
    return any(
        frame.function in functions and len(frame.receiver) == 1 and frame.receiver[0] != receiver
        for frame in event.stack[1:]
    )


def _are_two_of_two(analysis: Analysis, root: b.Behavior, first: Event, last: Event) -> bool:
    """Whether two items are taken out of a table into which the function has put two before: each its own."""
    if not first.places or not last.places:
        return False
    place = last.places[0]
    table = place[: place.index(ELEMENT)] if ELEMENT in place else place
    put: set[Span] = set()
    taken: set[Span] = set()

    def see(event: Event) -> None:
        node = event.node
        if isinstance(node, b.Touches) and table in event.places and node.how in ("add", "pop"):
            (put if node.how == "add" else taken).add(event.stack[0].span)

    visit(analysis.effectful.get(root.key, root), analysis.effectful.get, see)
    end = last.stack[0].span
    return {first.stack[0].span, end} <= taken and sum(span.start < end.start for span in put) > 1


def _compared(analysis: Analysis, root: b.Behavior, event: Event) -> frozenset[Place]:
    """What the items of a table are compared with that an event is about: `if item.owner == self.name`."""
    found: set[Place] = set()
    if not event.places or ELEMENT not in event.places[0]:
        return frozenset()
    item = event.places[0][: event.places[0].index(ELEMENT) + 1]
    for site in analysis.sites(root):
        if site.event.node is event.node and site.event.stack == event.stack:
            for guard in site.event.guards:
                read = guard[2] if guard[0] == "compare" and guard[1] in ("==", "is") else ()
                if any(place[: len(item)] == item for place in read):
                    found.update(place for place in read if place[: len(item)] != item)
    return frozenset(found)


def is_of_new_object(analysis: Analysis, root: b.Behavior, event: Event) -> bool:
    """Whether what an event gives up belongs to an object that the same path has just put there: no graph has read it."""
    seen: list[Event] = []
    visit(analysis.effectful.get(root.key, root), analysis.effectful.get, seen.append)
    is_new = False
    for each in seen:
        if each.node is event.node and each.stack == event.stack:
            break
        if isinstance(each.node, b.Happens):
            is_new = is_new and each.node.effect is not Effect.CAPTURE
        elif each.node.how == "write" and each.value_places[:1]:
            is_made = len(each.value_places[0]) == 1 and each.value_places[0][0][0] == "@"
            holders = (place for place in each.places if len(place) > 1)
            is_new |= is_made and any(place[: len(p)] == p != place for p in holders for place in event.places)
    return is_new


def is_left_out(analysis: Analysis, event: Event) -> bool:
    """Whether a loop leaves out the one object of its class that has the method: `if manager is not self.graphs`."""
    for guard in event.guards:
        match guard:
            case ("not", ("compare", "is" | "==", read, _)) | ("compare", "is not" | "!=", read, _) if len(read) == 2:
                for item, other in (read, read[::-1]):
                    owners = [
                        analysis.project.functions[f.function].owner for f in event.stack if f.receiver == (item,)
                    ]
                    if item[-1] == ELEMENT and owners and owners[0] in _classes(analysis, event.stack[0], other):
                        return True
    return False


def _classes(analysis: Analysis, frame: Frame, place: Place) -> frozenset[str]:
    """Classes of an attribute of the object whose method a path begins in."""
    owner = analysis.project.functions[frame.function].owner
    if owner is None or len(place) != 2 or place[:1] not in frame.receiver:
        return frozenset()
    return frozenset(t.name for t in analysis.behaviors.field_types(owner, place[1]))


def _is_told_another(analysis: Analysis, first: Event, last: Event) -> bool:
    """Whether the second call of a method names something else than the first: `drop("decode")` behind `drop("prefill")`."""
    second, methods = _call_at(analysis, last.stack[-1]), analysis.project.methods_named.keys()
    if second is None:
        return False
    for frame in first.stack:
        call = _call_at(analysis, frame)
        if call is not None and flow.last_name(call) == flow.last_name(second):
            names = zip(map(_name_of, call.args), map(_name_of, second.args), strict=False)
            if any(one and other and one != other and not {one, other} <= methods for one, other in names):
                return True
    return False


def _call_at(analysis: Analysis, frame: Frame) -> flow.Call | None:
    return next((c for c in analysis.project.functions[frame.function].calls if c.span == frame.span), None)


def _name_of(expr: Expr) -> str:
    """The text of an argument that is a name of something: a literal, a member of an enumeration."""
    match expr:
        case flow.Lit(value=str() | int() as value) if not isinstance(value, bool):
            return str(value)
        case flow.Attr(base=flow.Name(id=base), name=name) if base[:1].isupper():
            return f"{base}.{name}"
    return ""


def is_of_a_slice(analysis: Analysis, first: Event, last: Event) -> bool:
    """Whether the first of two events is about the items of a slice, and another loop leads to the second: over the rest of them."""
    one, other = _item(analysis, first), _item(analysis, last)
    return one is not None and one.kind == "some" and bool(_SLICE.search(one.text)) and one != other


def _meet(some: Sequence[Place], others: Sequence[Place]) -> bool:
    """Whether one of some places is one of the others, or leads there: `[*].target` is not `[*].draft`."""
    return any(a[: len(c)] == c[: len(a)] for a in some for c in others)


def _is_made_again(analysis: Analysis, subject: Place, first: Event, last: Event) -> bool:
    """Whether a path goes around the loop that makes an object, between two events on it: then they are about two objects."""
    made = subject[0][1:] if subject and subject[0][0] == "@" else ""
    if not made.isdigit() or first.stack[0].function != last.stack[0].function:
        return False
    one, other = first.stack[0].span, last.stack[0].span
    body = analysis.project.functions[first.stack[0].function].lowered.flow
    around = any(
        isinstance(each, flow.Star) and each.span.contains(one) and each.span.contains(other)
        and each.span.start <= int(made) < each.span.end
        for each in flow.statements(body)
    )  # fmt: skip
    return around and (other.start < one.start or _goes_on(body, one, other))


def _goes_on(body: flow.Flow, one: Span, other: Span) -> bool:
    """Whether a block that has the first of two statements, and not the other, ends in a `continue` or a `break`."""
    for each in flow.statements(body):
        if isinstance(each, flow.Try) and _spans(each.final, other):
            return False  # the `finally` runs all the same
        if isinstance(each, flow.Seq) and each.items and _spans(each, one) and not _spans(each, other):
            last = each.items[-1]
            if isinstance(last, flow.Exit) and last.kind in ("continue", "break"):
                return True
    return False


def _spans(body: flow.Flow, span: Span) -> bool:
    """Whether a statement lies in a part of a function."""
    return any(expr.span.contains(span) or expr.span == span for expr in flow.expressions(body))


def _is_one_item(analysis: Analysis, one: _Item, other: _Item | None, first: Event, last: Event) -> bool:
    if other is None:
        return False
    function = analysis.project.functions[one.frame.function]
    if one.text == other.text == _TAKEN:
        return False  # each round takes out another one
    if (
        one.kind == "taken"
        and _is_one_variable(one, other, first, last)
        and not _is_rebound(analysis, one, first, last)
    ):
        return True
    if one.kind == "taken" and one.entry[0] and one.entry == other.entry and _puts_back(analysis, one.frame):
        return not _is_rebound(
            analysis, one, first, last
        )  # there is nothing to end any more, and it is done all the same
    if one.frame == other.frame and first.activations != last.activations:  # one method of one object, run twice
        params = {param.name for param in function.facts.params[1 if function.owner is not None else 0 :]}
        return params.isdisjoint(_words(one.text))
    if one.entry[0] and one.entry == other.entry and one.kind != "taken":
        return not _is_rebound(analysis, one, first, last)
    if one.kind in ("taken", "some") or (one.kind, one.text) != (other.kind, other.text):
        return False
    return one.kind in ("all", "key") or (
        one.frame.function == other.frame.function and not _is_rebound(analysis, one, first, last)
    )


def _is_one_variable(one: _Item, other: _Item, first: Event, last: Event) -> bool:
    """Whether two events, the second further down in one run of a function, are about what one variable has."""
    if not one.variable or one.variable != other.variable or one.frame.function != other.frame.function:
        return False
    mine, its = (event.activations[event.stack.index(item.frame)] for item, event in ((one, first), (other, last)))
    return mine == its and one.frame.span.start < other.frame.span.start


def _puts_back(analysis: Analysis, frame: Frame) -> bool:
    """Whether a function that takes something out under a key puts a place back into a list, found or not."""
    built = analysis.behaviors.built(frame.function)
    items = built.node.items if built is not None and isinstance(built.node, b.Order) else ()
    return any(
        isinstance(node, b.Touches) and node.how == "add" and node.slot in analysis.lent
        and any(place[0].startswith("$") for place in node.value_places)
        for node in items
    )  # fmt: skip


def yields_between(analysis: Analysis, first: Event, last: Event) -> bool:
    """Whether the function that a path begins in hands control to its caller, of whom nothing is known, between two events."""
    if _together(first, last) > 0:
        return False  # the caller is in sight: what it does in between is part of the path
    start, end = first.stack[0].span.end, last.stack[0].span.start
    body = analysis.project.functions[first.stack[0].function].lowered.flow
    return any(
        isinstance(expr, flow.Op) and expr.op in ("yield", "yield from") and start <= expr.span.start < end
        for expr in flow.expressions(body)
    )


def unknown_between(analysis: Analysis, first: Event, last: Event) -> Sequence[str]:
    """The calls between two events, in the function that both stand in, of which nobody knows what they do."""
    depth = _together(first, last)
    start, end = first.stack[depth].span.end, last.stack[depth].span.start
    name = first.stack[depth].function
    built = analysis.behaviors.built(name)
    if built is None:
        return ()
    source = analysis.project.functions[name].module.source
    spans = sorted(span for _, span in built.unresolved if start <= span.start < end)
    return tuple(dict.fromkeys(" ".join(source.text(span).split()) for span in spans))


def unknown_within(analysis: Analysis, events: Sequence[Event], depth: int) -> Sequence[str]:
    """The calls that nobody knows in the functions which events happen in, below a depth of their stacks."""
    found: dict[str, None] = {}
    for name in dict.fromkeys(frame.function for event in events for frame in event.stack[depth + 1 :]):
        built = analysis.behaviors.built(name)
        source = analysis.project.functions[name].module.source
        for _, span in sorted(built.unresolved if built is not None else (), key=lambda each: each[1]):
            found[f"`{' '.join(source.text(span).split())}` in {name.rpartition('.')[2]}()"] = None
    return tuple(found)


def _together(first: Event, last: Event) -> int:
    """Depth of the innermost function that both events stand in."""
    depth = 0
    while (
        len(first.stack) > depth + 1
        and len(last.stack) > depth + 1
        and first.stack[depth] == last.stack[depth]
        and first.activations[depth + 1 : depth + 2] == last.activations[depth + 1 : depth + 2]
    ):
        depth += 1
    return depth


def _is_item(event: Event) -> bool:
    """Whether the object whose method leads to an event is one of a table, or one of several."""
    return not _is_exact(event) and any(map(_is_one_of_several, event.stack))


def _is_exact(event: Event) -> bool:
    """Whether the method that an event happens in is one object's, whichever of several others led to it."""
    receiver = next((frame.receiver for frame in reversed(event.stack) if frame.receiver), ())
    return len(receiver) == 1 and ELEMENT not in receiver[0] and not receiver[0][0].startswith(_SHARED)


def _is_one_of_several(frame: Frame) -> bool:
    return len(frame.receiver) > 1 or any(ELEMENT in place for place in frame.receiver)


def _item(analysis: Analysis, event: Event) -> _Item | None:
    """Which item of a table an event is about; None where it is about none."""
    if not any(ELEMENT in place for place in event.places) and not _is_item(event):
        return None
    within = len(event.stack)
    if not _is_exact(event):
        within = next((depth for depth, frame in enumerate(event.stack) if _is_one_of_several(frame)), within)
    if within == 0:
        return None
    frame = event.stack[within - 1]
    function = analysis.project.functions[frame.function]
    call = next((call for call in function.calls if call.span == frame.span), None)
    if call is not None and flow.last_name(call) in _MAPS and len(call.args) == 2:
        return _Item(frame, "all" if _table(call.args[1]) is not None else "some")
    if call is None or not isinstance(call.callee, flow.Attr):
        is_each = _is_each(function, call.callee, frame) if call is not None else frame.span == function.facts.header
        return _Item(frame, "all" if is_each else "some")  # what a framework runs around the function, it runs for all
    named = flow.dotted_text(call.callee.base).partition(".")[0]
    return _Item(
        frame,
        *_meant(function, call.callee.base, frame, 0),
        _entry(analysis, event, within - 1, call.callee.base),
        named,
    )


def _is_each(function: FunctionEntry, method: Expr, frame: Frame) -> bool:
    """Whether what is called is each of a table in turn, or a method of each: `for f in hooks: f()`, `hooks.pop()()`."""
    match method:
        case flow.Name(id=name) | flow.Call(callee=flow.Name(id="getattr"), args=(flow.Name(id=name), *_)):
            loop = _loop(function, name, frame)
            return loop is not None and (_table(loop) is not None or _is_list_under_key(loop))
        case flow.Call(callee=flow.Attr(name=name), args=()) if name in _TAKERS:
            return _is_in_loop(function, frame)
    return False


def _is_list_under_key(iterable: Expr) -> bool:
    """Whether a loop goes over all that a table of lists has under a key."""
    match iterable:
        case flow.Call(callee=flow.Name(id=name), args=(first,)) if name in _WHOLE:
            return _is_list_under_key(first)
        case flow.Item(base=flow.Attr() | flow.Name(), key=key):
            return not (isinstance(key, flow.Op) and key.op == "Slice")
        case flow.Call(callee=flow.Attr(name="get")):
            return True
    return False


def _entry(analysis: Analysis, event: Event, depth: int, expr: Expr) -> tuple[str, str, str]:
    """The table and the key of the item that an expression means, the key as the function writes it that chooses it."""
    function = analysis.project.functions[event.stack[depth].function]
    found = _keyed(function, expr, event.stack[depth], 0)
    if found is None:
        return "", "", ""
    table, key = found
    while depth and isinstance(key, flow.Name):
        above = analysis.project.functions[event.stack[depth - 1].function]
        call = next((call for call in above.calls if call.span == event.stack[depth - 1].span), None)
        given = argument_for(function, call, key.id) if call is not None else None
        if given is None:
            break
        depth, function, key = depth - 1, above, given
    return flow.last_name(table), function.name, function.module.source.text(key.span)


def _keyed(function: FunctionEntry, expr: Expr, frame: Frame, depth: int) -> tuple[Expr, Expr] | None:
    """The table and the key of `table[key]`, `table.get(key)` or `table.pop(key)`, also by way of a variable or an attribute."""
    match expr:
        case flow.Item(base=base, key=key):
            return (base, key) if not isinstance(base, flow.Call) else None
        case flow.Call(callee=flow.Attr(base=base, name="get" | "pop"), args=(key, *_)):
            return base, key
        case flow.Attr(base=base) if depth < _DEEPEST:
            return _keyed(function, base, frame, depth + 1)
        case flow.Name(id=name) if depth < _DEEPEST and _loop(function, name, frame) is None:
            given = [value for target, value, _ in given_locally(function.lowered.flow) if target == name]
            if len(given) == 1:
                return _keyed(function, given[0], frame, depth + 1)
    return None


def _meant(function: FunctionEntry, expr: Expr, frame: Frame, depth: int) -> tuple[str, str]:
    """Kind and text of the item that an expression means."""
    text = function.module.source.text(expr.span)
    if depth >= _DEEPEST:
        return "some", ""
    match expr:
        case flow.Item(base=flow.Call(callee=flow.Attr(name=name)) as base) if name in _TAKERS:
            return _meant(function, base, frame, depth + 1)
        case flow.Item(key=flow.Lit(value=value)):
            return "key", repr(value)
        case flow.Call(callee=flow.Attr(name="get"), args=(flow.Lit(value=value), *_)):
            return "key", repr(value)
        case flow.Attr(base=base):
            return _meant(function, base, frame, depth + 1)
        case flow.Call(callee=flow.Attr(name=name), args=args) if name in _TAKERS:
            return ("all", _TAKEN if not args else "") if _is_in_loop(function, frame) else ("taken", text)
        case flow.Item(base=flow.Call() as base):
            return _meant(function, base, frame, depth + 1)
        case flow.Item() | flow.Call():
            return "local", text
        case flow.Name(id=name):
            loop = _loop(function, name, frame)
            if loop is not None:
                table = _table(loop)
                if table is None:
                    return "some", function.module.source.text(loop.span)
                return "all", function.module.source.text(table.span) if isinstance(table, flow.Item) else ""
            given = [value for target, value, _ in given_locally(function.lowered.flow) if target == name]
            before = [value for value in given if value.span.end <= frame.span.start]
            if before:
                return _meant(function, max(before, key=lambda value: value.span.start), frame, depth + 1)
            return "local", name
    return "some", ""


def _is_in_loop(function: FunctionEntry, frame: Frame) -> bool:
    statements = flow.statements(function.lowered.flow)
    return any(isinstance(each, flow.Star) and each.span.contains(frame.span) for each in statements)


def _loop(function: FunctionEntry, name: str, frame: Frame) -> Expr | None:
    """What the innermost loop around a call goes over, of those that bind a name."""
    found: list[tuple[int, Expr]] = []
    for statement in flow.statements(function.lowered.flow):
        if isinstance(statement, flow.Star) and statement.target is not None and statement.iterable is not None:
            if statement.span.contains(frame.span) and name in _names(statement.target):
                found.append((statement.span.start, statement.iterable))
    found += (
        (expr.span.start, expr.iterable)
        for expr in flow.expressions(function.lowered.flow)
        if isinstance(expr, flow.Each) and expr.span.contains(frame.span) and name in _names(expr.target)
    )
    return max(found, key=lambda each: each[0])[1] if found else None


def _table(iterable: Expr) -> Expr | None:
    """What a loop goes over all of; None where it may leave some out."""
    match iterable:
        case flow.Name() | flow.Attr() | flow.Group():
            return iterable
        case flow.Item(key=flow.Lit(value=str())):
            return iterable
        case flow.Call(callee=flow.Name(id=name), args=(first, *_)) if name in _WHOLE:
            return _table(first)
        case flow.Call(callee=flow.Attr(base=base, name=name), args=()) if name in _WHOLE:
            return _table(base)
    return None


def _names(target: Expr) -> Iterator[str]:
    match target:
        case flow.Name(id=name):
            yield name
        case flow.Group(items=items):
            for each in items:
                yield from _names(each)


def _is_rebound(analysis: Analysis, item: _Item, first: Event, last: Event) -> bool:
    """Whether a name in the text of an item is given something else between two events, or the item itself is."""
    spans = [frame.span for event in (first, last) for frame in event.stack if frame.function == item.frame.function]
    start, end = min(each.end for each in spans), max(each.start for each in spans)
    function = analysis.project.functions[item.frame.function]
    source = function.module.source
    words = _words(item.text) | ({item.variable} if item.kind == "taken" else set())
    for statement in flow.statements(function.lowered.flow):
        match statement:
            case flow.Bind(span=span) if start <= span.start < end:
                targets = [target for target, _, _ in assigned(statement)]
            case flow.Star(target=target, span=span) if target is not None and start <= span.start < end:
                targets = [target]
            case _:
                continue
        for target in targets:
            if source.text(target.span) == item.text or not words.isdisjoint(_names(target)):
                return True
    return False


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))


def _is_replaced(analysis: Analysis, root: b.Behavior, subject: Place, first: Event, last: Event) -> bool:
    """Whether something on the way to the subject is assigned between two events: another object stands there then."""
    seen: list[Event] = []
    visit(analysis.effectful.get(root.key, root), analysis.effectful.get, seen.append)
    stacks = [event.stack for event in seen]
    if first.stack not in stacks or last.stack not in stacks:
        return False
    for event in seen[stacks.index(first.stack) + 1 : stacks.index(last.stack)]:
        node = event.node
        if isinstance(node, b.Touches) and node.how == "write" and not node.tags & {"none", "empty", "false"}:
            if any(1 < len(place) < len(subject) and subject[: len(place)] == place for place in event.places):
                return True
    return False
