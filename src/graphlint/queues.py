"""Functions that are put into a queue out of which a loop of the project takes and calls them: `jobs.put((fn, args, future))`.

The loop runs beside whoever puts something there. One way in which it can go is that it takes each at once, so what it does with
what is put there happens where that is put.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from graphlint import flow
from graphlint.assignments import given_locally
from graphlint.awaiting import Awaiting
from graphlint.behavior import Slot
from graphlint.flow import Expr
from graphlint.frame import last_word
from graphlint.handing import hands
from graphlint.knowledge import Knowledge
from graphlint.project import FunctionEntry
from graphlint.values import NOTHING_KNOWN, Value

_PUTS = frozenset(("put", "put_nowait", "append", "appendleft"))
_WAITS = frozenset(("get",))
"""Methods that wait for something to come: whoever asks has nothing else to do."""
_TAKES = _WAITS | {"get_nowait", "pop", "popleft"}
_STARTS = frozenset(
    ("Thread", "create_task", "ensure_future", "run_in_executor", "start_new_thread", "submit", "gather")
)
"""Makers of what runs beside the function that starts it."""
_MOST_SERVERS = 6
"""A queue whose name more functions have is not looked into."""


class Served(NamedTuple):
    """A call that a loop makes of what it takes out of a queue."""

    call: flow.Call
    names: tuple[tuple[str, int | None], ...]
    """Variables that have what is taken, or an item of it."""


class Queueing(Awaiting):
    """The evaluation of what is put into queues."""

    def queued(self, name: str, receiver: Value, args: Sequence[Value], expr: flow.Call) -> None:
        """`queue.put(item)`: what a loop calls that takes it out."""
        if name not in _PUTS or not self.emitting or receiver.slot is None or not args or not hands(args[0]):
            return
        for each in served(self.all, receiver.slot):
            self.emit(self.nodes(partial(self._serve, each, args[0], expr)))

    def _serve(self, served: Served, item: Value, expr: flow.Call) -> None:
        def part(at: int | None) -> Value:
            if at is None:
                return item
            return item.items[at] if item.items is not None and at < len(item.items) else NOTHING_KNOWN

        known = {name: part(at) for name, at in served.names}

        def value(given: Expr) -> Value:
            return known.get(given.id, NOTHING_KNOWN) if isinstance(given, flow.Name) else NOTHING_KNOWN

        callee = served.call.callee
        function = (
            self.attribute(value(callee.base), callee.name, expr.span)
            if isinstance(callee, flow.Attr)
            else value(callee)
        )
        args: list[Value] = []
        for each in served.call.args:
            args += (value(each.operands[0]).items or ()) if flow.is_spread(each) else (value(each),)
        keywords = {key: value(each) for key, each in served.call.keywords if key is not None}
        for key, each in served.call.keywords:
            if key is None:
                keywords.update(value(each).fields)
        if function.calls:
            self.call_functions(function.calls, args, tuple(keywords.items()), expr.span)


def served(known: Knowledge, slot: Slot) -> tuple[Served, ...]:
    """What the loops of the project call of what they take out of a queue."""
    found = known.served.get(slot)
    if found is None:
        entries = known.functions_with(slot[1])
        few = entries if len(entries) <= _MOST_SERVERS else ()
        found = tuple(each for entry in few for each in _calls(entry, slot[1], runs_beside(known, entry)))
        known.served[slot] = found
    return found


def runs_beside(known: Knowledge, entry: FunctionEntry) -> bool:
    """Whether a function is started as a thread or a task somewhere, or is what a class of threads runs."""
    name = entry.facts.name
    if name == "run" and entry.owner is not None and "threading.Thread" in known.project.mro(entry.owner):
        return True
    for each in known.functions_with(name):
        for call in each.calls:
            if last_word(call.callee) in _STARTS:
                given = (*call.args, *(value for _, value in call.keywords))
                if any(flow.last_name(value) == name for value in given):
                    return True
    return False


def _calls(entry: FunctionEntry, queue: str, beside: bool) -> Iterator[Served]:
    """What a function calls of what it takes; where it neither waits for that nor runs beside others, it does so later."""
    names: dict[str, int | None] = {}
    for target, value in _given(entry):
        source, at = (value.base, value.key) if isinstance(value, flow.Item) else (value, None)
        position: Expr | None
        if isinstance(source, flow.Name) and names.get(source.id, 0) is None and at is not None:
            position = at  # of what was taken before
        elif _takes(source, queue, beside):
            position = at
        else:
            continue
        if isinstance(position, flow.Lit) and isinstance(position.value, int):
            names[target] = position.value
        elif position is None:
            names[target] = None
    for call in entry.calls if names else ():
        callee = call.callee.base if isinstance(call.callee, flow.Attr) else call.callee
        if isinstance(callee, flow.Name) and callee.id in names:
            yield Served(call, tuple(names.items()))


def _given(entry: FunctionEntry) -> Iterator[tuple[str, Expr]]:
    """The local variables of a function, and what they are given: by assignments, by those in expressions, by loops."""
    for target, value, how in given_locally(entry.lowered.flow):
        if how in ("set", "each"):
            yield target, value
    for statement in flow.statements(entry.lowered.flow):
        if isinstance(statement, flow.Star) and statement.test is not None:
            for part in flow.parts(statement.test):
                if isinstance(part, flow.Walrus):
                    yield part.target.id, part.value


def _takes(value: Expr, queue: str, beside: bool) -> bool:
    """Whether an expression takes something out of a queue: `q.get()`, any of `iter(q.get, None)`."""
    if isinstance(value, flow.Op) and value.op == "await" and value.operands:
        value = value.operands[0]
    if not isinstance(value, flow.Call):
        return False
    if last_word(value.callee) == "iter" and value.args:
        return _is_take(value.args[0], queue, beside)
    return _is_take(value.callee, queue, beside)


def _is_take(method: Expr, queue: str, beside: bool) -> bool:
    takes = _TAKES if beside else _WAITS
    return isinstance(method, flow.Attr) and method.name in takes and last_word(method.base) == queue
