"""What runs beside the function that starts it, and is waited for: threads, tasks of an event loop, futures.

A thread that serves until it is told to stop does the rest of its work where somebody joins it: what stands behind its loop,
and in the `finally` around it. So does a task that is awaited. One without such a loop has run by then: a thread where the function
that made it joins it, a task where it was made.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from graphlint import behavior as b
from graphlint import flow
from graphlint.behavior import Node
from graphlint.endings import Ending
from graphlint.flow import Expr
from graphlint.frame import last_word
from graphlint.rebasing import passed
from graphlint.source import Span
from graphlint.values import Bound, Type, Value

_TASK = "asyncio.Task"
_FUTURE = "concurrent.futures.Future"
_THREADS = frozenset(("threading.Thread", "Thread"))
_TASKS = frozenset((_TASK, "asyncio.Future", "Task"))
_MAKERS = frozenset(("create_task", "ensure_future"))
_WAITERS = frozenset(("gather", "shield", "wait", "wait_for"))
_WHEN_DONE = "add_done_callback"
_ENDS = {"join": _THREADS, "result": frozenset((_FUTURE, "Future"))}


class Awaiting(Ending):
    """The evaluation of what is started now and waited for later."""

    @abstractmethod
    def operands(self, expr: flow.Call) -> tuple[Value, list[Value], dict[str, Value], Value]:
        """Callee, arguments, keywords and receiver of a call, evaluated in order."""

    @abstractmethod
    def bindings(self, bound: Bound, args: Sequence[Value], keywords: Sequence[tuple[str, Value]]) -> dict[str, Value]:
        """Parameter -> argument, defaults that are constants included."""

    def task(self, expr: flow.Call) -> Value | None:
        """A task that is made of a coroutine; None for any other call."""
        if last_word(expr.callee) not in _MAKERS or not expr.args or not isinstance(expr.args[0], flow.Call):
            return None
        run = expr.args[0]
        calls = self._bound(run)
        for bound in calls:
            built = self.all.build(bound.function) if self.emitting else None
            served = b.served(built.node) if built is not None else None
            if served is not None:
                self._emit_part(bound, served[0], "start", expr.span)
                break
        else:
            self.value(run)
        return Value(((f"@{expr.span.start}",),), (Type(_TASK),), calls=calls, tags=frozenset(("object",)))

    def started(self, made: Value, name: str, args: Sequence[Value], keywords: Sequence[tuple[str, Value]]) -> Value:
        """What a constructor or an executor made, with the function that it runs."""
        given = dict(keywords)
        if name == "Thread" and (target := given.get("target")) is not None:
            rest = given.get("args")
            items = rest.items or () if rest is not None else ()
            return made._replace(calls=tuple(each._replace(args=(*each.args, *items)) for each in target.calls))
        if name == "submit" and args and args[0].calls:
            calls = tuple(each._replace(args=(*each.args, *args[1:])) for each in args[0].calls)
            return Value(made.places, (Type(_FUTURE),), calls=calls, tags=frozenset(("object",)))
        return made

    def submit(self, executor: Value, args: Sequence[Value]) -> None:
        """Note what an executor is given to run: it has run by the end of the executor at the latest."""
        if self.emitting and len(executor.places) == 1:
            calls = [each._replace(args=(*each.args, *args[1:])) for each in args[0].calls]
            self.submitted.setdefault(executor.places[0], []).extend(calls)

    def shut_down(self, executor: Value, span: Span) -> Node:
        """What an executor still runs that is waited for, all of it."""
        calls = self.submitted.pop(executor.places[0], []) if len(executor.places) == 1 else []
        return self.nodes(lambda: self._end(calls, span, whole=True))

    def waited(self, name: str, receiver: Value, args: Sequence[Value], expr: flow.Call) -> None:
        """A call that waits for what was started: `thread.join()`, `future.result()`, `asyncio.gather(*tasks)`."""
        if name == _WHEN_DONE and args and receiver.slot is not None and self.emitting:
            self.all.done.setdefault(receiver.slot, {}).update((bound.function, bound) for bound in args[0].calls)
        elif name in _WAITERS:
            for given, value in zip(expr.args, args, strict=False):
                if not isinstance(given, flow.Call):
                    self.ended(value, expr.span)
                    self.ended(value.element, expr.span)
                for each in value.items or ():
                    self._result(each, name, expr.span)
        elif name == "shutdown":
            waits = [*expr.args[:1], *(value for word, value in expr.keywords if word == "wait")]
            if not any(isinstance(each, flow.Lit) and each.value is False for each in waits):
                self.emit(self.shut_down(receiver, expr.span))
        elif name in _ENDS and not (name == "join" and args):
            self._result(receiver, name, expr.span)
            for t in receiver.types:
                if t.name in self.project.classes and not _THREADS.isdisjoint(self.project.mro(t.name)):
                    run = self.project.method(t.name, "run")
                    self._end((Bound(run, receiver),) if run is not None else (), expr.span, whole=False)

    def _result(self, value: Value, name: str, span: Span) -> None:
        """A thread or a future that one waits for."""
        ended = {bound.function for bound in value.calls}
        for place, calls in self.submitted.items():
            self.submitted[place] = [bound for bound in calls if bound.function not in ended]
        if any(t.name in _ENDS.get(name, _ENDS["result"]) for t in value.types):
            here = all(place[0].startswith("@") for place in value.places)  # else it may have ended long ago
            self._end(value.calls, span, whole=here)

    def ended(self, value: Value, span: Span) -> None:
        """`await value`: a task that was started before ends."""
        if not any(t.name in _TASKS for t in value.types):
            return
        self._end(value.calls, span, whole=False)
        if value.slot is not None and self.emitting:
            self.build_those_with(value.slot[0], frozenset((_WHEN_DONE,)))
            calls = tuple(self.all.done.get(value.slot, {}).values())
            if calls and value.slot[0] in self.project.mro(self.owner):
                self.call_functions(calls, (value,), (), span)

    def _end(self, calls: Sequence[Bound], span: Span, *, whole: bool) -> None:
        for bound in calls if self.emitting and not self.in_capture else ():
            built = self.all.build(bound.function)
            served = b.served(built.node) if built is not None else None
            if served is not None:
                self._emit_part(bound, served[1], "end", span)
            elif whole:
                self.call_functions((bound,), (), (), span)

    def _emit_part(self, bound: Bound, node: b.Node, part: str, span: Span) -> None:
        """A call of a part of a function."""
        built = self.all.build(bound.function)
        if built is None or node == b.NOTHING:
            return
        key = f"{bound.function}|<{part}>"
        self.all.put(b.partial(built, key, node))
        bindings = tuple((name, passed(value)) for name, value in self.bindings(bound, (), ()).items())
        self.emit(b.Calls((key,), bindings, span, f"{self.entry.name}@{span.start}"))

    def _bound(self, run: flow.Call) -> tuple[Bound, ...]:
        """The functions that a call runs, with the arguments that it gives."""
        found: list[tuple[Bound, ...]] = []

        def look() -> None:
            callee, args, keywords, _ = self.operands(run)
            named = tuple(keywords.items())
            found.append(
                tuple(
                    each._replace(args=(*each.args, *args), keywords=(*each.keywords, *named)) for each in callee.calls
                )
            )

        self.nodes(look)
        return found[0]

    def is_started(self, expr: Expr) -> bool:
        """Whether an awaited expression is something that was started before."""
        return isinstance(expr, flow.Name | flow.Attr | flow.Item)
