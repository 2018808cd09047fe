"""The functions that a tuple has, in their order, where it stays what it was made: `STEPS = (drop, trim, forget)`."""

from __future__ import annotations

from collections.abc import Callable

from graphlint import flow
from graphlint.behavior import Slot
from graphlint.flow import Expr
from graphlint.knowledge import Knowledge, Known
from graphlint.rebasing import bound_over, kept_bound
from graphlint.values import Type, Value

_MOST = 16
_ORDERED = frozenset((Type("tuple"), Type("list")))


def of_variable(known: Knowledge, slot: Slot, value: Known) -> tuple[Value, ...] | None:
    """The items of a variable of a module; None where they are not all known to be what they were made."""
    if not value.calls or not _ORDERED.issuperset(value.types):
        return None
    if slot not in known.steps:
        known.steps[slot] = None  # while it is looked for
        module = known.project.modules[slot[0].removeprefix("mod:")]
        binds = module.variables.get(slot[1], ())
        made = binds[0].value if len(binds) == 1 else None
        read = known.reader(known.project.functions[f"{module.name}.<module>"], handing=True)
        known.steps[slot] = _items(made, read, "") if made is not None else None
    return known.steps[slot]


def of_attribute(known: Knowledge, slot: Slot, value: Known, owner: Value) -> tuple[Value, ...] | None:
    """The same of an attribute that its constructor gives an object."""
    if not value.calls or not _ORDERED.issuperset(value.types):
        return None
    if slot not in known.steps:
        known.steps[slot] = None
        given = [
            each
            for name in known.project.mro(slot[0])
            if name in known.project.classes
            for each in known.field_bindings(name).get(slot[1], ())
            if each[2] != "annotation"
        ]
        if len(given) == 1 and given[0][2] == "set" and given[0][0].facts.name == "__init__":
            function, made, _ = given[0]
            read = known.reader(function, handing=True)
            known.steps[slot] = _items(made, read, function.facts.params[0].name)
    items = known.steps[slot]
    if items is None:
        return None
    return tuple(each._replace(calls=tuple(bound_over(bound, owner) for bound in each.calls)) for each in items)


def _items(made: Expr, read: Callable[[Expr], Value], me: str) -> tuple[Value, ...] | None:
    if not isinstance(made, flow.Group) or made.kind not in ("tuple", "list") or not 1 < len(made.items) <= _MOST:
        return None
    if any(map(flow.is_spread, made.items)):
        return None
    return tuple(_kept(read(each), me) for each in made.items)


def _kept(item: Value, me: str) -> Value:
    """An item, and the items of the tuple that it is, as far as they are functions or texts."""
    inner = tuple(_kept(each, me) for each in item.items) if item.items is not None else None
    calls = tuple(kept_bound(bound, me) for bound in item.calls)
    return Value(types=item.types, calls=calls, literal=item.literal, items=inner)
