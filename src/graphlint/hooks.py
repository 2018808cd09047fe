"""Functions that others put into an attribute of an object: `runner.at_end = self.note`, `server.hooks.append(self.free)`.

What the methods of a class put into their own attributes is known to `Knowledge.field`; this is the rest, asked for only where
something is called of which nobody knows what it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import flow
from graphlint.assignments import assigned
from graphlint.behavior import Slot
from graphlint.flow import Expr
from graphlint.knowledge import Knowledge
from graphlint.project import FunctionEntry
from graphlint.values import WIDEST, Bound

_MOST_WRITERS = 12
"""An attribute whose name more functions have is not looked up: it says too little."""


def hooked(known: Knowledge, slot: Slot) -> tuple[Bound, ...]:
    """What functions outside of a class put into an attribute of its objects, to be called; of their objects nothing is told."""
    result = known.hooks.get(slot)
    if result is None:
        known.hooks[slot] = ()  # while it is looked for
        found = dict.fromkeys(_without_object(bound) for bound in _given(known, slot))
        result = known.hooks[slot] = tuple(found)[:WIDEST]
    return result


def _given(known: Knowledge, slot: Slot) -> Iterator[Bound]:
    writers = [entry for entry in known.functions_with(slot[1]) if _writes(entry, slot[1])]
    for entry in writers if len(writers) <= _MOST_WRITERS else ():
        for target, value, how in assigned(entry.lowered.flow):
            owner = _owner(target, slot[1]) if how in ("set", "item") else None
            if owner is None or not isinstance(value, flow.Attr | flow.Name):
                continue
            read = known.reader(entry)
            if any(slot[0] in known.project.mro(each.name) for each in read(owner).types):
                yield from read(value).calls


def _writes(entry: FunctionEntry, name: str) -> bool:
    """Whether a function assigns to an attribute of a name, or puts into it, where that is not its own object's."""
    names = entry.facts.assigns
    if names is None:
        return True
    me = entry.facts.params[0].name if entry.owner is not None and entry.facts.params else ""
    is_own = f"{me}.{name}[]" in names
    return any(
        (each.rpartition(".")[2] == name and each != f"{me}.{name}") or (each == f"{name}[]" and not is_own)
        for each in names
    )


def _owner(target: Expr, name: str) -> Expr | None:
    """The object to whose attribute something is given, or into whose container it is put."""
    if isinstance(target, flow.Item):
        target = target.base
    return target.base if isinstance(target, flow.Attr) and target.name == name else None


def _without_object(bound: Bound) -> Bound:
    """A function of which nobody knows here whose method it is."""
    receiver = bound.receiver
    if receiver is None or receiver.symbol is not None:
        return bound
    return bound._replace(receiver=receiver._replace(places=(), slot=None))
