"""Arenas: objects that give out one region of their memory after the other, and take all of them back at once.

`self.top += n` where a region of `self.block` is returned makes `top` a *cursor*; `self.top = 0` gives up what anybody was given:
whoever asks next gets the same memory. No memory is freed by that, so it is no effect for the other rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from graphlint import behavior as b
from graphlint import flow
from graphlint.assignments import assigned
from graphlint.behavior import Behavior, Slot
from graphlint.effects import Effect
from graphlint.facts import MODULE
from graphlint.paths import Event
from graphlint.readers import reads
from graphlint.summaries import Analysis, Site
from graphlint.visiting import visit

_STEPS = 4_000
_WAYS = 3


class _Arenas(NamedTuple):
    """All of a project."""

    givers: Mapping[str, Slot]
    """By name of a function that gives out a region: the memory."""
    rewinds: Mapping[int, b.Touches]
    """By identity of a change of a cursor: what it gives up."""
    reaching: frozenset[str]
    """Keys of the behaviors that lead to one of them."""


def sites_of(analysis: Analysis, root: Behavior) -> tuple[Site, ...]:
    """All effects in what a function does, in the order of the text, among them that an arena takes all of its memory back."""
    arenas = _arenas(analysis)
    if root.key not in arenas.reaching:
        return analysis.sites(root)
    known: tuple[Site, ...] | None = analysis.known.get(("with arenas", root.key))
    if known is None:
        found: list[Site] = []

        def see(event: Event) -> None:
            node = arenas.rewinds.get(id(event.node))
            if node is not None:
                places = tuple((*place[:-1], *node.places[0][-1:]) for place in event.places)
                found.append(Site(Effect.WS_RELEASE, places, event._replace(node=node, places=places)))
            else:
                found.extend(Site(effect, event.places, event) for effect in analysis.effects(event))

        whole = analysis.behaviors.built(root.key)
        if whole is not None:
            visit(whole, analysis.behaviors.built, see, ways=_WAYS, steps=_STEPS)
        known = analysis.known["with arenas", root.key] = tuple(found)
    return known


def kinds_of(analysis: Analysis, root: Behavior) -> frozenset[Effect]:
    """Which of these effects a function can have."""
    more = {Effect.WS_RELEASE} if root.key in _arenas(analysis).reaching else frozenset[Effect]()
    return analysis.kinds[root.key] | more


def reads_of(analysis: Analysis, owner: str) -> frozenset[Slot]:
    """What the captured code of a class reads, among it the memory of the arenas that gave it regions."""
    found = reads(analysis, owner)
    givers = _arenas(analysis).givers
    if not givers or not found:
        return found
    key = "drawn", owner
    if key not in analysis.known:
        by_word = {name.rpartition(".")[2]: slot for name, slot in givers.items()}
        analysis.known[key] = (
            found
            | {_regions(block) for block in givers.values() if block in found}
            | {
                _regions(by_word[word])
                for of, attribute in found
                if of in analysis.project.classes
                for _, value, _ in analysis.behaviors.field_bindings(of).get(attribute, ())
                for part in flow.parts(value)
                if isinstance(part, flow.Call) and (word := flow.last_name(part.callee)) in by_word
            }
        )
    known: frozenset[Slot] = analysis.known[key]
    return known


def _regions(block: Slot) -> Slot:
    """Stands for what an arena has given out of its memory: who holds on to that has it taken away all the same."""
    return block[0], f"{block[1]}[:]"


def _arenas(analysis: Analysis) -> _Arenas:
    known: _Arenas | None = analysis.known.get(("arenas", ""))
    if known is None:
        known = analysis.known["arenas", ""] = _all_of(analysis)
    return known


def _all_of(analysis: Analysis) -> _Arenas:
    everything = list(analysis.behaviors.all())
    givers: dict[str, Slot] = {}
    cursors: dict[Slot, Slot] = {}
    for each in everything:
        for node in each.nodes:
            if isinstance(node, b.Touches) and node.slot is not None and _raises(analysis, each, node):
                block = _given_out(analysis, each, node.slot)
                if block is not None:
                    givers[each.function] = cursors[node.slot] = block
    rewinds: dict[int, b.Touches] = {}
    reaching: set[str] = set()
    for each in everything if cursors else ():
        for node in each.nodes:
            if isinstance(node, b.Touches) and node.slot in cursors and _starts_over(analysis, each, node):
                regions = _regions(cursors[node.slot])
                places = tuple((*place[:-1], regions[1]) for place in node.places)
                rewinds[id(node)] = node._replace(how="clear", slot=regions, places=places)
                reaching.add(each.key)
    waiting = list(reaching)
    callers: dict[str, list[str]] = {}
    for each in everything if waiting else ():
        for callee in each.callees:
            callers.setdefault(callee, []).append(each.key)
    while waiting:
        for caller in callers.get(waiting.pop(), ()):
            if caller not in reaching:
                reaching.add(caller)
                waiting.append(caller)
    return _Arenas(givers, rewinds, frozenset(reaching))


def _raises(analysis: Analysis, behavior: Behavior, node: b.Touches) -> bool:
    """Whether a write makes a number larger: `self.top += n`, `end = self.top + n` and `self.top = end`."""
    if "raised" in node.tags or node.how != "write" or node.tags or node.types != ("int",):
        return "raised" in node.tags
    name = b.last_name(node.places[0]) if node.places else ""
    given = list(assigned(analysis.project.functions[behavior.function].lowered.flow))
    made = {target.id: value for target, value, _ in given if isinstance(target, flow.Name)}
    return any(
        isinstance(part, flow.Op) and part.op == "+" and any(flow.last_name(each) == name for each in part.operands)
        for target, value, _ in given
        if flow.last_name(target) == name
        for part in _with_made(value, made)
    )


def _given_out(analysis: Analysis, giver: Behavior, cursor: Slot) -> Slot | None:
    """The memory of which a function returns a region, next to a cursor that it raises."""
    body = analysis.project.functions[giver.function].lowered.flow
    made = {target.id: value for target, value, _ in assigned(body) if isinstance(target, flow.Name)}
    for each in flow.statements(body):
        if not isinstance(each, flow.Exit) or each.kind != "return" or each.value is None:
            continue
        for part in _with_made(each.value, made):
            base = _region(part)
            if base is not None and flow.last_name(base) != cursor[1]:
                block = (cursor[0], flow.last_name(base))
                if analysis.holds(block) & {"tensor", "declared"}:
                    return block
    return None


def _with_made(expr: flow.Expr, made: Mapping[str, flow.Expr]) -> Iterator[flow.Expr]:
    """The parts of an expression, and those of what the variables in it were given."""
    for part in flow.parts(expr):
        yield part
        if isinstance(part, flow.Name) and part.id in made:
            yield from flow.parts(made[part.id])


def _region(expr: flow.Expr) -> flow.Expr | None:
    """What an expression is a region of."""
    match expr:
        case flow.Item(base=base, key=flow.Op(op="Slice", operands=(_, *_))):
            return base
        case flow.Call(callee=flow.Attr(base=base, name="narrow")):
            return base
    return None


def _starts_over(analysis: Analysis, behavior: Behavior, node: b.Touches) -> bool:
    """Whether a function, no constructor, sets a cursor to zero."""
    function = analysis.project.functions[behavior.function]
    if node.how != "write" or "raised" in node.tags or function.facts.name in ("__init__", "__post_init__", MODULE):
        return False
    return any(
        flow.last_name(target) == b.last_name(node.places[0]) and isinstance(value, flow.Lit) and value.value == 0
        for target, value, how in assigned(function.lowered.flow)
        if how == "set"
    )
