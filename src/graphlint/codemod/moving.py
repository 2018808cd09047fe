"""Which statements may change places: what has to come along with one, and what another one rests on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from graphlint.codemod.reading import Uses, clash, dotted, is_pure, overlap, uses
from graphlint.codemod.tree import Block, Tree, Unit, units

_COUNTS = frozenset(
    {"bool", "callable", "float", "hasattr", "id", "int", "isinstance", "len", "repr", "str", "sum", "type"}
)
"""Whose values hold nothing of what they were given."""


def meeting(tree: Tree, one: Unit, other: Unit) -> tuple[Unit, Unit, list[Unit]] | None:
    """The statements of one block that hold two others, and those between them; None where no block does.

    Neither of the two may hold the other, and the first one stands first.
    """
    both = zip(tree.path(one), tree.path(other), strict=False)
    for (block, left), (same, right) in both:
        if block is not same:
            return None
        if left is not right:
            statements = list(units(block))
            first, last = statements.index(left), statements.index(right)
            return (left, right, statements[first + 1 : last]) if first < last else None
    return None


def facing(tree: Tree, one: Unit, other: Unit) -> tuple[cst.Try, Sequence[Unit], Sequence[Unit]] | None:
    """A `try` without handlers that holds one statement in its body and the other in its `finally`, and both blocks."""
    above = set(tree.ancestors(other))
    holder = next((node for node in tree.ancestors(one) if node in above), None)
    if not isinstance(holder, cst.Try) or holder.handlers or holder.orelse is not None or holder.finalbody is None:
        return None
    body, final = holder.body, holder.finalbody.body
    assert isinstance(body, Block)
    assert isinstance(final, Block)
    if body not in tree.ancestors(one) or final not in above:
        return None
    return holder, tuple(units(body)), tuple(units(final))


def with_supply(moved: Unit, between: Sequence[Unit]) -> list[Unit] | None:
    """A statement, and the imports and plain assignments before it that it reads; None where it reads more."""
    chosen = [moved]
    for unit in reversed(between):
        bound = uses(unit).binds
        if not any(overlap(place, read) for place in bound for one in chosen for read in uses(one).reads):
            continue
        is_plain = (
            isinstance(unit, cst.Assign)
            and all(isinstance(target.target, cst.Name) for target in unit.targets)
            and is_pure(unit.value)
        )
        if not is_plain and not isinstance(unit, cst.Import | cst.ImportFrom):
            return None
        chosen.insert(0, unit)
    return chosen


def swap(tree: Tree, moved: Uses, passed: Unit, conditions: list[str]) -> bool:
    """Whether a statement may overtake another one; what that rests on becomes a condition."""
    other = uses(passed)
    if clash(moved, other) is not None or other.suspends:
        return False
    row = tree.source.row(tree.spans[passed].start)
    if other.exits or asserts(passed):
        conditions.append(f"row {row} can leave before the release was reached so far; it now runs on that path too")
    shared = sorted(place for place in moved.receivers if place not in ("self", "cls") and mentions(other, place))
    if "self" in moved.receivers and any(place.startswith("self.") for place in other.binds):
        shared.append("self")
    if shared:
        conditions.append(f"row {row} uses {', '.join(shared)}, and now does so after the release")
    return True


def asserts(node: cst.CSTNode) -> bool:
    """Whether an assertion in some code can fail."""
    return isinstance(node, cst.Assert) or any(map(asserts, node.children))


def other_names(function: cst.CSTNode, places: Collection[str]) -> frozenset[str]:
    """Names of a function under which it may reach what is at these places, or what these names reach besides.

    Assignments give a name, those of loops and of `with` too, unless the value is a number or a truth.
    """
    pairs = [
        (name, place) for name, value in _given(function) for place in _held(value) if place not in ("self", "cls")
    ]
    found = set(places)
    while True:
        more = {b for a, b in pairs if any(overlap(a, place) for place in found)}
        more |= {a for a, b in pairs if any(overlap(b, place) for place in found)}
        if more <= found:
            return frozenset(found - set(places))
        found |= more


def _given(function: cst.CSTNode) -> Iterator[tuple[str, cst.BaseExpression]]:
    """Names that a function gives, with the expressions that they come from."""
    waiting = [function]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        match node:
            case cst.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _paired(target.target, value)
            case (
                cst.AnnAssign(target=name, value=cst.BaseExpression() as value)
                | cst.NamedExpr(target=name, value=value)
            ):
                yield from _paired(name, value)
            case cst.For(target=name, iter=value) | cst.CompFor(target=name, iter=value):
                yield from ((bound, value) for bound in _bound(name))
            case cst.WithItem(item=value, asname=cst.AsName(name=name)):
                yield from ((bound, value) for bound in _bound(name))


def _paired(target: cst.CSTNode, value: cst.BaseExpression) -> Iterator[tuple[str, cst.BaseExpression]]:
    """What a target gets: of `a, b = x, y` each its own, and nothing what takes over from a name that changes hands."""
    if (
        not isinstance(target, cst.Tuple)
        or not isinstance(value, cst.Tuple)
        or len(target.elements) != len(value.elements)
    ):
        yield from ((bound, value) for bound in _bound(target))
        return
    given = _bound(target)
    for one, other in zip(target.elements, value.elements, strict=True):
        if dotted(other.value) not in given:
            yield from ((bound, other.value) for bound in _bound(one.value))


def _bound(target: cst.CSTNode) -> frozenset[str]:
    return uses(cst.AssignTarget(target)).binds if isinstance(target, cst.BaseAssignTargetExpression) else frozenset()


def _held(value: cst.BaseExpression) -> frozenset[str]:
    """The places whose objects an expression's value may be, or hold."""
    match value:
        case cst.Comparison() | cst.UnaryOperation() | cst.BaseString():
            return frozenset()
        case cst.Call(func=cst.Name(value=name)) if name in _COUNTS:
            return frozenset()
        case cst.Call(func=cst.Attribute(value=receiver)):
            return uses(receiver, *(argument.value for argument in value.args)).reads
        case cst.Call():
            return uses(*(argument.value for argument in value.args)).reads
    return uses(value).reads


def mentions(used: Uses, place: str) -> bool:
    """Whether code reads or binds what is at a place, what holds it or a part of it."""
    return any(overlap(place, other) for other in used.reads | used.binds)
