"""Which statements may change places: what has to come along with one, and what another one rests on."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from graphlint.codemod.reading import Uses, clash, is_pure, overlap, uses
from graphlint.codemod.tree import Block, Tree, Unit, units


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
    if other.exits:
        conditions.append(f"row {row} can leave before the release was reached so far; it now runs on that path too")
    shared = sorted(place for place in moved.receivers if place not in ("self", "cls") and _mentions(other, place))
    if "self" in moved.receivers and any(place.startswith("self.") for place in other.binds):
        shared.append("self")
    if shared:
        conditions.append(f"row {row} uses {', '.join(shared)}, and now does so after the release")
    return True


def _mentions(used: Uses, place: str) -> bool:
    return any(overlap(place, other) for other in used.reads | used.binds)
