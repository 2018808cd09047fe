"""Conditions as far as they ask whether a stream is being captured.

A formula is built from three kinds of atoms: a capture is under way, a capture was seen before (a flag that code sets
while capturing), and anything else. Of the last kind each occurrence may be true or false, whatever the others are.
"""

from __future__ import annotations

from typing import TypeAlias

Formula: TypeAlias = "str | tuple[str, Formula] | tuple[str, Formula, Formula]"

TRUE = "true"
FALSE = "false"
UNKNOWN = "?"
CAPTURING = "capturing"
SEEN = "seen"
"""A flag that is set while capturing is set."""

_LARGEST = 200


def negate(formula: Formula) -> Formula:
    """The opposite, with `not` at the atoms alone."""
    if isinstance(formula, str):
        return {TRUE: FALSE, FALSE: TRUE, UNKNOWN: UNKNOWN}.get(formula) or ("not", formula)
    if formula[0] == "not":
        return formula[1]
    if len(formula) == 3:
        one, other = negate(formula[1]), negate(formula[2])
        return either(one, other) if formula[0] == "and" else both(one, other)
    return UNKNOWN


def both(one: Formula, other: Formula) -> Formula:
    """`one` and `other`."""
    if one in (TRUE, other):
        return other
    if other == TRUE:
        return one
    if FALSE in (one, other):
        return FALSE
    return _bounded(("and", one, other))


def either(one: Formula, other: Formula) -> Formula:
    """`one` or `other`."""
    if one in (FALSE, other):
        return other
    if other == FALSE:
        return one
    if TRUE in (one, other):
        return TRUE
    return _bounded(("or", one, other))


def choice(test: Formula, then: Formula, other: Formula) -> Formula:
    """`then` where the test holds, else `other`."""
    if then == other:
        return then
    return either(both(test, then), both(negate(test), other))


def occurs(formula: Formula, atom: str, *, positively: bool) -> bool:
    """Whether an atom stands in a formula, as it is (`positively`) or negated."""
    if isinstance(formula, str):
        return positively and formula == atom
    if formula[0] == "not":
        return not positively and formula[1] == atom
    return any(occurs(part, atom, positively=positively) for part in formula[1:])


def can_be_true(formula: Formula, *, capturing: bool) -> bool:
    """Whether a formula can hold while a capture is under way, or while none is."""
    if isinstance(formula, str):
        return formula != FALSE and (formula != CAPTURING or capturing)
    if formula[0] == "not":
        return formula[1] != CAPTURING or not capturing
    if len(formula) == 3:
        one = can_be_true(formula[1], capturing=capturing)
        if formula[0] == "and":
            return one and can_be_true(formula[2], capturing=capturing)
        return one or can_be_true(formula[2], capturing=capturing)
    return True


def decides(formula: Formula) -> bool:
    """Whether a formula tells a capture from no capture: it cannot hold in one of the two."""
    return not (can_be_true(formula, capturing=True) and can_be_true(formula, capturing=False))


def _bounded(formula: Formula) -> Formula:
    return formula if _size(formula) <= _LARGEST else UNKNOWN


def _size(formula: Formula) -> int:
    return 1 if isinstance(formula, str) else 1 + sum(_size(part) for part in formula[1:])
