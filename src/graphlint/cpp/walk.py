"""Runs a function's flow over abstract values, and says what happens to device memory and graphs on the way.

The walk goes through every statement once, into the calls that it can resolve, and keeps

* what each variable is: the storage it refers to, memory it holds, the condition it stands for (`bool busy = ...`);
* the conditions that lead to where it is, so that *dominated by a capturing test, with the right polarity* is a
  question about formulas: a branch that throws or returns leaves the opposite of its test behind;
* the orders in which graphs die, pools are erased and workspaces are released.

It finds what can happen on some path, not what must. A loop runs once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from graphlint.cpp import conditions
from graphlint.cpp.conditions import FALSE, TRUE, UNKNOWN, Formula
from graphlint.cpp.evaluate import Evaluator
from graphlint.cpp.facts import Function
from graphlint.cpp.places import NOTHING, Call, Cell, Guard, Kind, Place, Value
from graphlint.cpp.program import Program, is_lambda
from graphlint.cpp.state import MAX_TRACES, Frame, State, Walked, join, join_values
from graphlint.cpp.typetext import element_type
from graphlint.cpp.vocabulary import Vocabulary, has_word
from graphlint.flow import (
    Alt,
    Bind,
    Drop,
    Eval,
    Exit,
    Expr,
    Flow,
    Group,
    Lit,
    Name,
    Scope,
    Seq,
    Star,
    Try,
)
from graphlint.source import Span

MAX_DEPTH = 12
"""Calls inside each other that one walk goes into."""
MAX_CALLS = 400
"""Calls that one walk goes into at all; a function that reaches more is walked as far as that."""


def walk(
    program: Program,
    function: Function,
    vocabulary: Vocabulary,
    relevant: frozenset[Function],
    latches: frozenset[Cell] = frozenset(),
) -> Walked:
    """Walk a function from its beginning.

    Args:
        program: what calls are resolved in.
        function: where to start.
        vocabulary: what calls do.
        relevant: functions that are worth going into.
        latches: flags that are known to be set while capturing.
    """
    walker = Walker(program, vocabulary, relevant, latches, Walked(function))
    with suppress(RecursionError):  # deeper than any code that is written by hand; what was found so far holds
        walker.start(function)
    return walker.found


class Walker(Evaluator):
    """Runs flows."""

    def start(self, function: Function) -> None:
        """Walk a function from its beginning."""
        state = State()
        this = None
        if function.owner:
            this = Place(f"this:{function.owner}", Kind.INSTANCE, (), (), function.owner)
        frame = self._frame(function, this, None, ())
        for parameter in function.parameters:
            frame.types[parameter.name] = parameter.type
            root = frame.key(parameter.name)
            cell = Cell(function.name, parameter.name)
            outer = Place(f"*{root}", Kind.ARGUMENT, (cell,), (), parameter.type.rstrip("&*"))
            if parameter.type.endswith("&"):
                state.env.put(root, (), Value(place=outer))
            elif parameter.type.endswith("*"):
                state.env.put(root, (), Value(pointee=outer))
            elif "TensorOptions" in parameter.type or parameter.type.rpartition("::")[2] == "Device":
                state.env.put(root, (), Value(options=frozenset({"device"})))
        self.stack.append((function.path, function.name))
        last = self.run(function.flow, state, frame)
        ends = [*frame.returns, *([(last, NOTHING)] if last is not None else [])]
        traces = tuple(dict.fromkeys(trace for end, _ in ends for trace in end.traces))
        self.found.traces = traces[:MAX_TRACES] or ((),)

    def _frame(self, function: Function, this: Place | None, parent: Frame | None, calls: tuple[Call, ...]) -> Frame:
        self.frames += 1
        return Frame(function, self.frames, this, parent, calls)

    def enter(
        self,
        function: Function,
        this: Place | None,
        arguments: Sequence[Value],
        state: State,
        frame: Frame,
        span: Span,
    ) -> Value:
        """Go into a call."""
        identity = (function.path, function.name + str(function.span.start))
        if identity in self.stack or len(self.stack) > MAX_DEPTH or self.frames > MAX_CALLS:
            return Value(is_looked_up=True)
        self.found.entered.add(function)
        parent = frame if is_lambda(function) else None
        calls = frame.calls if is_lambda(function) else (*frame.calls, Call(frame.function.path, span, function.simple))
        inner = self._frame(function, this, parent, calls)
        for index, parameter in enumerate(function.parameters):
            inner.types[parameter.name] = parameter.type
            value = arguments[index] if index < len(arguments) else NOTHING
            root = inner.key(parameter.name)
            if parameter.type.endswith("&"):
                if value.place is None and not value.fresh and value.truth == UNKNOWN:
                    value = value._replace(
                        place=Place(root, Kind.LOCAL, (Cell(function.name, parameter.name),), (), parameter.type)
                    )
                state.env.put(root, (), value)
            else:
                state.env.put(root, (), value._replace(place=None, pointee=value.pointee or value.place))
        self.stack.append(identity)
        entry = state.guards
        last = self.run(function.flow, state.copy(), inner)
        self.stack.pop()
        ends = [*inner.returns, *([(last, NOTHING)] if last is not None else [])]
        if not ends:
            state.kill()
            return NOTHING
        joined, result = ends[0]
        for other, value in ends[1:]:
            joined = join(joined, other, entry, UNKNOWN)
            result = join_values(result, value, UNKNOWN)
        state.become(joined)
        if not function.result.rstrip().endswith(("&", "*")) and function.result and "auto" not in function.result:
            result = result._replace(place=None, pointee=result.pointee or result.place)
        return result

    def run(self, flow: Flow, state: State, frame: Frame) -> State | None:
        """What holds after a flow; None where nothing comes after it."""
        match flow:
            case Seq(items=items):
                current: State | None = state
                for item in items:
                    if current is None:
                        return None
                    current = self.run(item, current, frame)
                return current
            case Eval(value=value):
                self.value(value, state, frame)
                return None if state.is_dead else state
            case Bind():
                self._bind(flow, state, frame)
                return None if state.is_dead else state
            case Drop(target=target):
                self._give_up(self.value(target, state, frame), "delete", state, frame, flow.span)
                return state
            case Alt():
                return self._alternative(flow, state, frame)
            case Star():
                return self._loop(flow, state, frame)
            case Try():
                return self._try(flow, state, frame)
            case Scope(body=body):
                return self.run(body, state, frame)
            case Exit():
                self._exit(flow, state, frame)
                return None

    def _alternative(self, flow: Alt, state: State, frame: Frame) -> State | None:
        test = self.value(flow.test, state, frame)
        if state.is_dead:
            return None
        truth = test.truth
        entry = state.guards
        then = (
            self.run(flow.then, self._under(state, test, truth, flow.test.span, frame), frame)
            if truth != FALSE
            else None
        )
        other = None
        if truth != TRUE:
            other = self.run(
                flow.other, self._under(state, test, conditions.negate(truth), flow.test.span, frame), frame
            )
        if then is None or other is None:
            return then or other
        return join(then, other, entry, truth, test.asks)

    def _under(self, state: State, test: Value, formula: Formula, span: Span, frame: Frame) -> State:
        branch = state.copy()
        guard = Guard(formula, frame.function.path, span, test.sized, test.asks, test.asked, test.outgrown)
        branch.guards = (*state.guards, guard)
        return branch

    def _loop(self, flow: Star, state: State, frame: Frame) -> State | None:
        breaks = frame.breaks
        frame.breaks = []
        entry = state.guards
        test = NOTHING
        inside = state
        if flow.iterable is not None and flow.target is not None:
            over = self.value(flow.iterable, state, frame)
            inside = state.copy()
            self._take_elements(flow.target, over, inside, frame)
        elif flow.test is not None:
            test = self.value(flow.test, state, frame)
            inside = self._under(state, test, test.truth, flow.test.span, frame)
        after = self.run(flow.body, inside, frame)
        ends = [one for one in (after, *frame.breaks) if one is not None]
        frame.breaks = breaks
        if not ends:
            return None if isinstance(flow.test, Lit) and flow.iterable is None else state
        joined = ends[0]
        for one in ends[1:]:
            joined = join(joined, one, entry, UNKNOWN)
        if isinstance(flow.test, Lit):
            joined.guards = entry if len(ends) > 1 else joined.guards
            return joined
        # What a loop does to graphs and workspaces counts as done: it runs over whatever there is.
        traces = joined.traces
        joined = join(joined, state, entry, UNKNOWN)
        joined.traces = traces
        return joined

    def _take_elements(self, target: Expr, over: Value, state: State, frame: Frame) -> None:
        whole = over.place or over.pointee
        element = None
        if whole is not None:
            element = whole.part("[*]", None, element_type(whole.type))
        names = target.items if isinstance(target, Group) else (target,)
        for index, name in enumerate(names):
            if isinstance(name, Name):
                # Of `[key, value]` the value is what the container keeps.
                is_key = isinstance(target, Group) and index == 0 and len(names) > 1
                state.env.put(frame.key(name.id), (), NOTHING if is_key or element is None else Value(place=element))
                frame.types.setdefault(name.id, "auto&")

    def _try(self, flow: Try, state: State, frame: Frame) -> State | None:
        entry = state.guards
        before = state.copy()
        ends = [self.run(flow.body, state.copy(), frame)]
        ends += [self.run(handler.body, before.copy(), frame) for handler in flow.handlers]
        alive = [one for one in ends if one is not None]
        if not alive:
            return None
        joined = alive[0]
        for one in alive[1:]:
            joined = join(joined, one, entry, UNKNOWN)
        return joined

    def _exit(self, flow: Exit, state: State, frame: Frame) -> None:
        value = self.value(flow.value, state, frame) if flow.value is not None else NOTHING
        if state.is_dead:
            return
        if flow.kind == "return":
            frame.returns.append((state, value))
        elif flow.kind in ("break", "continue"):
            frame.breaks.append(state)

    def _bind(self, flow: Bind, state: State, frame: Frame) -> None:
        value = self.value(flow.value, state, frame) if flow.value is not None else NOTHING
        if state.is_dead:
            return
        if flow.annotation is not None and isinstance(flow.annotation, Lit):
            self._declare(flow, str(flow.annotation.value), value, state, frame)
            return
        target = self.value(flow.target, state, frame)
        if flow.op:
            return
        self._assign(target, value, flow.value, state, frame, flow.span)

    def _declare(self, flow: Bind, type_text: str, value: Value, state: State, frame: Frame) -> None:
        names = flow.target.items if isinstance(flow.target, Group) else (flow.target,)
        for index, name in enumerate(names):
            if not isinstance(name, Name):
                continue
            frame.types[name.id] = type_text
            root = frame.key(name.id)
            words = type_text.replace("&", " ").split()
            if "static" in words or "thread_local" in words:
                cell = Cell(f"{frame.function.name}()", name.id)
                place = Place(
                    f"static:{frame.function.path}:{cell.owner}::{name.id}", Kind.STATIC, (cell,), (), type_text
                )
                state.env.put(root, (), Value(place=place))
                if value.fresh:
                    self._keep(place, value, state, frame, flow.span)
                continue
            if any(has_word(type_text, scope) for scope in self.words.pool_scopes):
                state.is_scoped = True
            if type_text.rstrip().endswith("&") and (value.place or value.pointee):
                state.env.put(root, (), Value(place=value.place or value.pointee))
                continue
            if type_text.rstrip().endswith("&") and value.is_looked_up:
                cell = Cell(frame.function.name, name.id)
                state.env.put(root, (), Value(place=Place(f"*{root}", Kind.POINTEE, (cell,), (), "")))
                continue
            if isinstance(flow.target, Group) and index > 0:
                value = NOTHING
            state.env.put(root, (), self._copied(value, root, name.id, frame))
            self._copy_parts(value, root, state)
