"""Runs a function's flow over abstract values, and says what happens to device memory and graphs on the way.

The walk goes through every statement once, into the calls that it can resolve, and keeps

* what each variable is: the storage it refers to, memory it holds, the condition it stands for (`bool capturing = ...`);
* the conditions that lead to where it is, so that *dominated by a capturing test, with the right polarity* is a question
  about formulas: a branch that throws or returns leaves the opposite of its test behind;
* the orders in which graphs die, pools are erased and workspaces are released.

It finds what can happen on some path, not what must. A loop runs once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from graphlint.cpp import conditions
from graphlint.cpp.conditions import CAPTURING, FALSE, SEEN, TRUE, UNKNOWN, Formula
from graphlint.cpp.facts import Function
from graphlint.cpp.places import NOTHING, Call, Cell, Fresh, Guard, Kind, Place, Value
from graphlint.cpp.program import Program, element_type, is_holder, is_lambda, split_type
from graphlint.cpp.vocabulary import Entry, Vocabulary, has_word
from graphlint.effects import Effect
from graphlint.flow import (
    Alt,
    Attr,
    Bind,
    Choice,
    Drop,
    Each,
    Eval,
    Exit,
    Expr,
    Flow,
    Func,
    Group,
    Item,
    Lit,
    Name,
    Op,
    Scope,
    Seq,
    Star,
    Text,
    Try,
    Walrus,
    subexpressions,
)
from graphlint.flow import Call as CallExpr
from graphlint.source import Span

MAX_DEPTH = 12
MAX_CALLS = 400
"""Calls that one walk goes into; a function from which more are reached is walked as far as that."""
MAX_TRACES = 48
MAX_HAPPENINGS = 40


class Kept(NamedTuple):
    """Device memory is put where it outlives the function."""

    place: Place
    fresh: Fresh
    path: str
    span: Span
    guards: tuple[Guard, ...]
    parked: bool
    """Whether what was there before went to another place that keeps it."""
    in_place: bool
    """Whether the memory of one object grows (`resize_`), not one object gives way to another."""


class Happening(NamedTuple):
    """One step of what happens to graphs and workspaces, in order."""

    effect: Effect
    place: Place | None
    path: str
    span: Span
    function: Span
    symbol: str
    guards: tuple[Guard, ...]
    calls: tuple[Call, ...]
    operation: str
    once: bool = False
    is_sure: bool = True
    """Whether the type says that it is a graph, not its name alone."""


@dataclass
class Walked:
    """What a walk from one function found."""

    function: Function
    kept: list[Kept] = field(default_factory=list)
    traces: tuple[tuple[Happening, ...], ...] = ((),)
    """The orders in which things can happen."""
    latches: set[Cell] = field(default_factory=set)
    """Flags that are set while capturing."""
    bound: dict[Cell, list[tuple[Guard, ...]]] = field(default_factory=dict)
    """Scalars that are assigned, and under which conditions."""
    entered: set[Function] = field(default_factory=set)
    """Functions that calls led into."""


@dataclass
class _State:
    """What holds at one point of the walk."""

    env: dict[tuple[str, tuple[str, ...]], Value] = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()
    in_capture: bool | None = None
    is_scoped: bool = False
    parked: frozenset[Cell] = frozenset()
    traces: tuple[tuple[Happening, ...], ...] = ((),)

    def copy(self) -> _State:
        return replace(self, env=dict(self.env))


@dataclass
class _Frame:
    """One function under way."""

    function: Function
    number: int
    this: Place | None
    parent: _Frame | None
    calls: tuple[Call, ...]
    types: dict[str, str] = field(default_factory=dict)
    """Declared types of its variables."""
    returns: list[tuple[_State, Value]] = field(default_factory=list)
    breaks: list[_State] = field(default_factory=list)

    @property
    def owner(self) -> str:
        return self.function.owner

    def key(self, name: str) -> str:
        return f"{self.number}/{name}"


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
    walker = _Walker(program, vocabulary, relevant, latches, Walked(function))
    try:
        walker.start(function)
    except RecursionError:  # deeper than any code that is written by hand; what was found so far holds
        pass
    return walker.found


class _Walker:
    def __init__(
        self,
        program: Program,
        vocabulary: Vocabulary,
        relevant: frozenset[Function],
        latches: frozenset[Cell],
        found: Walked,
    ) -> None:
        self.program = program
        self.relevant = relevant
        self.vocabulary = vocabulary
        self.words = vocabulary.words
        self.latches = latches
        self.found = found
        self.frames = 0
        self.stack: list[tuple[str, str]] = []
        self._seen_kept: set[tuple[Span, Span, str, tuple[Guard, ...]]] = set()

    # -------------------------------------------------------------------------------------------------- functions

    def start(self, function: Function) -> None:
        state = _State()
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
                state.env[root, ()] = Value(place=outer)
            elif parameter.type.endswith("*"):
                state.env[root, ()] = Value(pointee=outer)
            elif "TensorOptions" in parameter.type or parameter.type.rpartition("::")[2] == "Device":
                state.env[root, ()] = Value(options=frozenset({"device"}))
        self.stack.append((function.path, function.name))
        last = self.run(function.flow, state, frame)
        ends = [*frame.returns, *([(last, NOTHING)] if last is not None else [])]
        traces = tuple(dict.fromkeys(trace for end, _ in ends for trace in end.traces))
        self.found.traces = traces[:MAX_TRACES] or ((),)

    def _frame(self, function: Function, this: Place | None, parent: _Frame | None, calls: tuple[Call, ...]) -> _Frame:
        self.frames += 1
        return _Frame(function, self.frames, this, parent, calls)

    def enter(
        self,
        function: Function,
        this: Place | None,
        arguments: Sequence[Value],
        state: _State,
        frame: _Frame,
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
                state.env[root, ()] = value
            else:
                state.env[root, ()] = value._replace(place=None, pointee=value.pointee or value.place)
        self.stack.append(identity)
        entry = state.guards
        last = self.run(function.flow, state.copy(), inner)
        self.stack.pop()
        ends = [*inner.returns, *([(last, NOTHING)] if last is not None else [])]
        if not ends:
            self._kill(state)
            return NOTHING
        joined, result = ends[0]
        for other, value in ends[1:]:
            joined = self._join(joined, other, entry, UNKNOWN)
            result = _join_values(result, value, UNKNOWN)
        _become(state, joined)
        if not function.result.rstrip().endswith(("&", "*")) and function.result and "auto" not in function.result:
            result = result._replace(place=None, pointee=result.pointee or result.place)
        return result

    # ------------------------------------------------------------------------------------------------------- flow

    def run(self, flow: Flow, state: _State, frame: _Frame) -> _State | None:
        """What holds after a flow; None where nothing comes after it."""
        match flow:
            case Seq(items=items):
                current: _State | None = state
                for item in items:
                    if current is None:
                        return None
                    current = self.run(item, current, frame)
                return current
            case Eval(value=value):
                self.value(value, state, frame)
                return None if self._is_dead(state) else state
            case Bind():
                self._bind(flow, state, frame)
                return None if self._is_dead(state) else state
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
                return self._exit(flow, state, frame)

    def _alternative(self, flow: Alt, state: _State, frame: _Frame) -> _State | None:
        test = self.value(flow.test, state, frame)
        if self._is_dead(state):
            return None
        truth = self._truth(test)
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
        return self._join(then, other, entry, truth, test.asks, before=len(state.traces[0]) if state.traces else 0)

    def _under(self, state: _State, test: Value, formula: Formula, span: Span, frame: _Frame) -> _State:
        branch = state.copy()
        guard = Guard(formula, frame.function.path, span, test.sized, test.asks, test.asked)
        branch.guards = (*state.guards, guard)
        return branch

    def _loop(self, flow: Star, state: _State, frame: _Frame) -> _State | None:
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
            inside = self._under(state, test, self._truth(test), flow.test.span, frame)
        after = self.run(flow.body, inside, frame)
        ends = [one for one in (after, *frame.breaks) if one is not None]
        frame.breaks = breaks
        if not ends:
            return None if isinstance(flow.test, Lit) and flow.iterable is None else state
        joined = ends[0]
        for one in ends[1:]:
            joined = self._join(joined, one, entry, UNKNOWN)
        if isinstance(flow.test, Lit):
            joined.guards = entry if len(ends) > 1 else joined.guards
            return joined
        # What a loop does to graphs and workspaces counts as done: it runs over whatever there is.
        traces = joined.traces
        joined = self._join(joined, state, entry, UNKNOWN)
        joined.traces = traces
        return joined

    def _take_elements(self, target: Expr, over: Value, state: _State, frame: _Frame) -> None:
        whole = over.place or over.pointee
        element = None
        if whole is not None:
            element = whole.part("[*]", None, element_type(whole.type))
        names = target.items if isinstance(target, Group) else (target,)
        for index, name in enumerate(names):
            if isinstance(name, Name):
                # Of `[key, value]` the value is what the container keeps.
                is_key = isinstance(target, Group) and index == 0 and len(names) > 1
                state.env[frame.key(name.id), ()] = NOTHING if is_key or element is None else Value(place=element)
                frame.types.setdefault(name.id, "auto&")

    def _try(self, flow: Try, state: _State, frame: _Frame) -> _State | None:
        entry = state.guards
        before = state.copy()
        ends = [self.run(flow.body, state.copy(), frame)]
        for handler in flow.handlers:
            ends.append(self.run(handler.body, before.copy(), frame))
        alive = [one for one in ends if one is not None]
        if not alive:
            return None
        joined = alive[0]
        for one in alive[1:]:
            joined = self._join(joined, one, entry, UNKNOWN)
        return joined

    def _exit(self, flow: Exit, state: _State, frame: _Frame) -> None:
        value = self.value(flow.value, state, frame) if flow.value is not None else NOTHING
        if self._is_dead(state):
            return
        if flow.kind == "return":
            frame.returns.append((state, value))
        elif flow.kind in ("break", "continue"):
            frame.breaks.append(state)

    def _kill(self, state: _State) -> None:
        """Nothing comes after this: the call that was entered never returns."""
        state.traces = ()

    @staticmethod
    def _is_dead(state: _State) -> bool:
        return not state.traces

    def _join(
        self,
        one: _State,
        other: _State,
        entry: tuple[Guard, ...],
        test: Formula,
        asks: frozenset[Cell] = frozenset(),
        before: int = 0,
    ) -> _State:
        """What holds where two ways meet; `one` is the way on which `test` holds."""
        env: dict[tuple[str, tuple[str, ...]], Value] = {}
        for key in one.env.keys() | other.env.keys():
            mine, theirs = one.env.get(key), other.env.get(key)
            if mine is theirs and mine is not None:
                env[key] = mine
            elif mine is None or theirs is None:
                env[key] = mine or theirs or NOTHING
            else:
                env[key] = _join_values(mine, theirs, test)
        guards = entry
        either = conditions.either(_all(one.guards[len(entry) :]), _all(other.guards[len(entry) :]))
        if conditions.decides(either):
            guards = (*entry, _merged_guard(either, one.guards[len(entry) :], other.guards[len(entry) :]))
        traces = one.traces
        if one.traces != other.traces and not _is_about(one.traces, other.traces, asks):
            traces = tuple(dict.fromkeys((*one.traces, *other.traces)))[:MAX_TRACES]
        in_capture = one.in_capture if one.in_capture == other.in_capture else None
        return _State(env, guards, in_capture, one.is_scoped and other.is_scoped, one.parked | other.parked, traces)

    # ------------------------------------------------------------------------------------------------- assignments

    def _bind(self, flow: Bind, state: _State, frame: _Frame) -> None:
        value = self.value(flow.value, state, frame) if flow.value is not None else NOTHING
        if self._is_dead(state):
            return
        if flow.annotation is not None and isinstance(flow.annotation, Lit):
            self._declare(flow, str(flow.annotation.value), value, state, frame)
            return
        target = self.value(flow.target, state, frame)
        if flow.op:
            return
        self._assign(target, value, flow.value, state, frame, flow.span)

    def _declare(self, flow: Bind, type_text: str, value: Value, state: _State, frame: _Frame) -> None:
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
                state.env[root, ()] = Value(place=place)
                if value.fresh:
                    self._keep(place, value, state, frame, flow.span)
                continue
            if any(has_word(type_text, scope) for scope in self.words.pool_scopes):
                state.is_scoped = True
            if type_text.rstrip().endswith("&") and (value.place or value.pointee):
                state.env[root, ()] = Value(place=value.place or value.pointee)
                continue
            if type_text.rstrip().endswith("&") and value.is_looked_up:
                cell = Cell(frame.function.name, name.id)
                state.env[root, ()] = Value(place=Place(f"*{root}", Kind.POINTEE, (cell,), (), ""))
                continue
            if isinstance(flow.target, Group) and index > 0:
                value = NOTHING
            state.env[root, ()] = self._copied(value, root, name.id, type_text, frame)
            self._copy_parts(value, root, state)

    def _copied(self, value: Value, root: str, name: str, type_text: str, frame: _Frame) -> Value:
        """A value as a variable of its own holds it."""
        pointee = value.pointee or value.place
        if pointee is None and value.is_looked_up and not value.fresh:
            pointee = Place(f"*{root}", Kind.POINTEE, (Cell(frame.function.name, name),), (), "")
        return value._replace(place=None, pointee=pointee)

    def _copy_parts(self, value: Value, root: str, state: _State) -> None:
        """`auto copy = local`: what the parts of a local object hold, the copy's parts hold too."""
        if value.place is None or value.place.kind is not Kind.LOCAL:
            return
        for (other, path), part in list(state.env.items()):
            if (
                other == value.place.root
                and path[: len(value.place.path)] == value.place.path
                and path != value.place.path
            ):
                state.env[root, path[len(value.place.path) :]] = part

    def _assign(
        self, target: Value, value: Value, written: Expr | None, state: _State, frame: _Frame, span: Span
    ) -> None:
        place = target.place
        if place is None:
            return
        if place.kind.is_kept:
            if value.place is not None and value.place.kind.is_kept and value.place.cells != place.cells:
                state.parked |= {value.place.cell}
            if isinstance(written, Lit) and written.value is True and place.cells:
                self._latch(place, state)
            if value.fresh:
                self._keep(place, value, state, frame, span)
            elif value.is_empty:
                self._give_up(target, "=", state, frame, span)
            if place.cells:
                self.found.bound.setdefault(place.cell, []).append(state.guards)
        state.env[place.root, place.path] = value._replace(place=None, pointee=value.pointee or value.place)
        if place.kind is Kind.LOCAL:
            self._copy_parts_below(value, place, state)

    def _copy_parts_below(self, value: Value, place: Place, state: _State) -> None:
        for root, path in list(state.env):
            if root == place.root and len(path) > len(place.path) and path[: len(place.path)] == place.path:
                del state.env[root, path]
        if value.place is not None and value.place.kind is Kind.LOCAL:
            for (root, path), part in list(state.env.items()):
                size = len(value.place.path)
                if root == value.place.root and path[:size] == value.place.path and len(path) > size:
                    state.env[place.root, (*place.path, *path[size:])] = part

    def _latch(self, place: Place, state: _State) -> None:
        if any(conditions.occurs(guard.formula, CAPTURING, positively=True) for guard in state.guards):
            self.found.latches.add(place.cell)

    def _keep(
        self, place: Place, value: Value, state: _State, frame: _Frame, span: Span, *, in_place: bool = False
    ) -> None:
        parked = bool(state.parked.intersection(place.cells))
        for fresh in value.fresh:
            identity = (fresh.span, span, place.root, state.guards)
            if identity not in self._seen_kept:
                self._seen_kept.add(identity)
                self.found.kept.append(Kept(place, fresh, frame.function.path, span, state.guards, parked, in_place))

    def _give_up(self, value: Value, operation: str, state: _State, frame: _Frame, span: Span) -> None:
        """A place is cleared, deleted, or given an empty value."""
        place = value.place or value.pointee
        if place is None or not place.cells:
            return
        is_graph = self._is_graph(place)
        effect = Effect.GRAPH_DEATH if is_graph is not None else Effect.WS_RELEASE
        if effect is Effect.WS_RELEASE and not place.kind.is_kept:
            return
        self._happen(effect, place, operation, state, frame, span, is_sure=is_graph is not False)

    def _is_graph(self, place: Place) -> bool | None:
        """Whether a place holds a captured graph: by its type (True), by its name alone (False), or not (None)."""
        if any(has_word(place.type, word) for word in self.words.graph_types):
            return True
        if place.type or not place.cells:
            return None
        name = place.cell.name.lower()
        return False if "graph" in name and "pool" not in name else None

    def _happen(
        self,
        effect: Effect,
        place: Place | None,
        operation: str,
        state: _State,
        frame: _Frame,
        span: Span,
        *,
        once: bool = False,
        is_sure: bool = True,
    ) -> None:
        function = frame.function
        happening = Happening(
            effect,
            place,
            function.path,
            span,
            function.span,
            _symbol(frame),
            state.guards,
            frame.calls,
            operation,
            once,
            is_sure,
        )
        state.traces = tuple((*trace, happening) if len(trace) < MAX_HAPPENINGS else trace for trace in state.traces)

    # ------------------------------------------------------------------------------------------------- expressions

    def value(self, expr: Expr, state: _State, frame: _Frame) -> Value:
        """What an expression evaluates to; what it does on the way is recorded."""
        match expr:
            case Name():
                return self._name(expr, state, frame)
            case Attr():
                return self._attribute(expr, state, frame)
            case Item(base=base, index=index):
                value = self.value(base, state, frame)
                key = self.value(index, state, frame)
                place = value.place or value.pointee
                if place is None:
                    return Value(fresh=value.fresh)
                return Value(place=place.part(_key(index, key), None, element_type(place.type)))
            case Lit(value=literal):
                if literal is None:
                    return Value(is_empty=True, truth=FALSE)
                return Value(truth=TRUE if literal is True else FALSE if literal is False else UNKNOWN)
            case Group(items=items):
                values = [self.value(item, state, frame) for item in items]
                return Value(fresh=_all_fresh(values), is_empty=not items)
            case CallExpr():
                return self._call(expr, state, frame)
            case Op():
                return self._operator(expr, state, frame)
            case Choice(test=test, then=then, other=other):
                return self._choice(test, then, other, state, frame)
            case Walrus(target=target, value=inner):
                value = self.value(inner, state, frame)
                self._assign(self.value(target, state, frame), value, inner, state, frame, expr.span)
                return value
            case Func(id=name):
                return Value(function=name)
            case Text() | Each():
                for part in subexpressions(expr):
                    self.value(part, state, frame)
        return NOTHING

    def _name(self, expr: Name, state: _State, frame: _Frame) -> Value:
        name = expr.id
        if name == "this":
            this = self._this(frame)
            return Value(place=this, pointee=this)
        scope: _Frame | None = frame
        while scope is not None:
            if name in scope.types:
                return self._local(scope, name, state)
            scope = scope.parent
        if name.rpartition("::")[2] == "nullopt":
            return Value(is_empty=True)
        place = self._outer(name, frame)
        if place is None:
            return Value(options=self._options_of(name))
        return self._stored(place, state)

    def _local(self, frame: _Frame, name: str, state: _State) -> Value:
        root = frame.key(name)
        known = state.env.get((root, ()), NOTHING)
        if known.place is not None:  # a reference, or a static variable
            return self._stored(known.place, state, known)
        type_text = frame.types[name]
        is_parameter = any(parameter.name == name for parameter in frame.function.parameters)
        place = Place(
            root, Kind.PARAMETER if is_parameter else Kind.LOCAL, (Cell(frame.function.name, name),), (), type_text
        )
        return self._with_parts(known._replace(place=place), place, state)

    def _stored(self, place: Place, state: _State, known: Value = NOTHING) -> Value:
        """The value in a place, as far as the walk has seen one put there."""
        value = state.env.get((place.root, place.path), known)._replace(place=place)
        if place.cells and place.cell in self.latches:
            value = value._replace(truth=SEEN)
        value = value._replace(asks=value.asks | frozenset(place.cells))
        return self._with_parts(value, place, state)

    def _with_parts(self, value: Value, place: Place, state: _State) -> Value:
        """With the memory that the parts of an object hold, where the object is a local one."""
        if place.kind not in (Kind.LOCAL, Kind.PARAMETER):
            return value
        size = len(place.path)
        parts = [
            part
            for (root, path), part in state.env.items()
            if root == place.root and len(path) > size and path[:size] == place.path and part.fresh
        ]
        return value._replace(fresh=tuple(dict.fromkeys((*value.fresh, *_all_fresh(parts))))) if parts else value

    def _this(self, frame: _Frame) -> Place | None:
        scope: _Frame | None = frame
        while scope is not None:
            if scope.this is not None:
                return scope.this
            scope = scope.parent
        return None

    def _outer(self, name: str, frame: _Frame) -> Place | None:
        """The member or the variable of a namespace that a name means; None for a constant, a type or a function."""
        owner = frame.owner
        this = self._this(frame)
        last = name.rpartition("::")[2]
        if "::" in name:
            scope = name.rpartition("::")[0]
            if (member := self.program.member(scope, last)) is not None and "static" in member.variable.type.split():
                return _variable(member.record, last, member.variable.type, Kind.CLASS)
            if (variable := self.program.variable(name, frame.function)) is not None:
                return _variable(variable.name.rpartition("::")[0], last, variable.type, Kind.MODULE)
            return None
        if owner and (member := self.program.member(owner, name)) is not None:
            if "static" in member.variable.type.split():
                return _variable(member.record, name, member.variable.type, Kind.CLASS)
            return self._member_of(this, Cell(member.record, name), member.variable.type)
        if (variable := self.program.variable(name, frame.function)) is not None:
            if "constexpr" in variable.type.split():
                return None
            return _variable(variable.name.rpartition("::")[0], name, variable.type, Kind.MODULE)
        if _is_constant(name) or not name.isidentifier() or self.program.named(name):
            return None
        if owner:
            # The header that declares the class is not there: a name that is nothing else is a member.
            return self._member_of(this, Cell(owner, name), "")
        return _variable("", name, "", Kind.MODULE)

    @staticmethod
    def _member_of(this: Place | None, cell: Cell, type_text: str) -> Place:
        if this is None:
            return Place(f"this:{cell.owner}", Kind.INSTANCE, (cell,), (cell.name,), type_text)
        return this.part(cell.name, cell, type_text)

    def _attribute(self, expr: Attr, state: _State, frame: _Frame) -> Value:
        base = self.value(expr.base, state, frame)
        if expr.name == "first" and base.pointee is not None and not isinstance(expr.base, Op):
            # `map.emplace(...).first` is the iterator that leads to the element.
            return Value(pointee=base.pointee, asks=base.asks)
        place = base.place
        if place is None:
            place = base.pointee
        if place is None:
            return Value(fresh=base.fresh) if expr.name in ("first", "second") else NOTHING
        if expr.name == "second" and (place.path and place.path[-1].startswith("[")):
            return self._stored(place, state)
        if expr.name == "first" and (place.path and place.path[-1].startswith("[")):
            return NOTHING
        return self._stored(self._part(place, expr.name, frame), state)

    def _part(self, place: Place, name: str, frame: _Frame) -> Place:
        record = self.program.record(place.type, frame.owner or frame.function.name) if place.type else None
        if record is not None and (member := self.program.member(record.name, name)) is not None:
            return place.part(name, Cell(member.record, name), member.variable.type)
        if not place.cells:  # a member of `this` that no header declares
            return place.part(name, Cell(place.type, name), "")
        outer = place.cell
        return place.part(name, Cell(f"{outer.owner}::{outer.name}" if outer.owner else outer.name, name), "")

    def _choice(self, test: Expr, then: Expr, other: Expr, state: _State, frame: _Frame) -> Value:
        asked = self.value(test, state, frame)
        truth = self._truth(asked)
        guards = state.guards
        values = []
        for branch, formula in ((then, truth), (other, conditions.negate(truth))):
            guard = Guard(formula, frame.function.path, test.span, asked.sized, asked.asks, asked.asked)
            state.guards = (*guards, guard)
            values.append(self.value(branch, state, frame))
        state.guards = guards
        return _join_values(values[0], values[1], truth)

    def _operator(self, expr: Op, state: _State, frame: _Frame) -> Value:
        op = expr.op
        if op in ("and", "or"):
            return self._boolean(expr, state, frame)
        values = [self.value(operand, state, frame) for operand in expr.operands]
        if op == "not" and values:
            return Value(
                truth=conditions.negate(self._truth(values[0])),
                sized=values[0].sized,
                asks=values[0].asks,
                asked=values[0].asked,
            )
        if op == "*" and len(values) == 1:
            return self._dereferenced(values[0], state)
        if op == "&" and len(values) == 1:
            return Value(pointee=values[0].place or values[0].pointee)
        if op in ("==", "!=", "<", ">", "<=", ">=") and len(values) == 2:
            return self._comparison(expr, values, state)
        if op == "=" and len(values) == 2:
            self._assign(values[0], values[1], expr.operands[1], state, frame, expr.span)
            return values[1]
        return Value(
            measures=frozenset().union(*(_measured(*pair) for pair in zip(values, expr.operands, strict=True))),
            sized=frozenset().union(*(value.sized for value in values)),
            asks=frozenset().union(*(value.asks for value in values)),
            options=frozenset().union(*(value.options for value in values)),
            fresh=_all_fresh(values) if op == "," else (),
        )

    def _boolean(self, expr: Op, state: _State, frame: _Frame) -> Value:
        truth: Formula = TRUE if expr.op == "and" else FALSE
        sized: frozenset[Cell] = frozenset()
        asks: frozenset[Cell] = frozenset()
        asked = None
        guards = state.guards
        for operand in expr.operands:
            value = self.value(operand, state, frame)
            mine = self._truth(value)
            truth = conditions.both(truth, mine) if expr.op == "and" else conditions.either(truth, mine)
            sized |= value.sized
            asks |= value.asks
            asked = asked or value.asked
            reached = mine if expr.op == "and" else conditions.negate(mine)
            state.guards = (
                *state.guards,
                Guard(reached, frame.function.path, operand.span, value.sized, value.asks, value.asked),
            )
        state.guards = guards
        return Value(truth=truth, sized=sized, asks=asks, asked=asked)

    def _comparison(self, expr: Op, values: Sequence[Value], state: _State) -> Value:
        one, other = values
        asks = one.asks | other.asks
        asked = one.asked or other.asked
        truth: Formula = UNKNOWN
        for value, literal in ((one, expr.operands[1]), (other, expr.operands[0])):
            if value.is_status:
                truth = self._status(value.truth, expr.op, literal)
            elif isinstance(literal, Lit) and isinstance(literal.value, bool) and expr.op in ("==", "!="):
                same = literal.value == (expr.op == "==")
                truth = value.truth if same else conditions.negate(value.truth)
        sized = _measured(one, expr.operands[0]) | _measured(other, expr.operands[1])
        if any(isinstance(operand, Lit) and operand.value in (0, None) for operand in expr.operands):
            sized = frozenset()  # whether there is anything, not whether it is large enough
        return Value(truth=truth, sized=sized, asks=asks, asked=asked)

    def _status(self, truth: Formula, op: str, literal: Expr) -> Formula:
        """Whether a comparison of a capture status with a constant holds."""
        if op not in ("==", "!=", ">"):
            return UNKNOWN
        is_none = False
        match literal:
            case Name(id=name) | Attr(name=name):
                last = name.rpartition("::")[2]
                is_none = last in self.words.status_none
                if not is_none and last not in self.words.status_active:
                    return UNKNOWN
            case Lit(value=0):
                is_none = True
            case _:
                return UNKNOWN
        capturing = is_none != (op == "==")
        return truth if capturing else conditions.negate(truth)

    def _dereferenced(self, value: Value, state: _State) -> Value:
        if value.pointee is not None and (value.place is None or not value.place.kind.is_kept):
            place = value.pointee
            return self._stored(place, state)
        if value.place is not None:
            inner = element_type(value.place.type) if is_holder(value.place.type) else value.place.type.rstrip("&* ")
            return value._replace(place=value.place._replace(type=inner), pointee=None)
        return value

    # ------------------------------------------------------------------------------------------------------- calls

    def _call(self, expr: CallExpr, state: _State, frame: _Frame) -> Value:
        arguments = [self.value(argument, state, frame) for argument in expr.args]
        callee = expr.callee
        if isinstance(callee, Attr):
            base = self.value(callee.base, state, frame)
            return self._method(expr, callee, base, arguments, state, frame)
        if isinstance(callee, Name):
            return self._function(expr, callee.id, arguments, state, frame)
        held = self.value(callee, state, frame)
        if held.function:
            return self._lambda(held.function, arguments, state, frame, expr.span)
        self._run_lambdas(arguments, state, frame, expr.span)
        return Value(is_looked_up=True)

    def _function(self, expr: CallExpr, name: str, arguments: list[Value], state: _State, frame: _Frame) -> Value:
        last = name.rpartition("::")[2]
        if last in _PASSED_ON and arguments:
            return arguments[0]
        if last in ("swap", "exchange") and len(arguments) == 2:
            return self._exchange(arguments, state, frame, expr.span)
        scope: _Frame | None = frame
        while scope is not None:
            if name in scope.types:
                held = state.env.get((scope.key(name), ()), NOTHING)
                if held.function:
                    return self._lambda(held.function, arguments, state, frame, expr.span)
                break
            scope = scope.parent
        if entries := self._known(name, arguments, name):
            return self._apply(entries, expr, None, arguments, state, frame)
        target = self.program.free(name, len(arguments), frame.function)
        if target is not None and self._is_worth(target, arguments):
            this = self._this(frame) if target.owner and not target.is_static else None
            return self.enter(target, this, arguments, state, frame, expr.span)
        self._run_lambdas(arguments, state, frame, expr.span)
        if any(argument.is_status for argument in arguments) and len(arguments) == 1:
            return arguments[0]
        if last[:1].isupper() or last in _MAKERS or name == "new":
            # A constructor, or what makes an object of its arguments: the object holds what they hold.
            return Value(
                fresh=_all_fresh(arguments),
                is_empty=not arguments and last not in _MAKERS,
                options=self._options(expr, state, frame),
            )
        return Value(
            is_looked_up=True,
            measures=frozenset().union(*(argument.measures for argument in arguments)),
            options=self._options(expr, state, frame),
            asks=frozenset().union(*(argument.asks for argument in arguments)),
        )

    def _known(
        self, name: str, arguments: Sequence[Value], about: str, receiver: str | None = None
    ) -> tuple[Entry, ...]:
        """The vocabulary's entries for a call; `receiver` is given for a method.

        Whether *something* is capturing is a phase of that object. A test is about a stream: it is given one, or its
        name or its object's says so.
        """
        entries = self.vocabulary.entries(name, is_method=receiver is not None, receiver=receiver or "")
        if not arguments and "stream" not in about.lower():
            return tuple(entry for entry in entries if entry.gives != "flag")
        return entries

    def _method(
        self, expr: CallExpr, callee: Attr, base: Value, arguments: list[Value], state: _State, frame: _Frame
    ) -> Value:
        name = callee.name
        place = base.place
        if isinstance(callee.base, Op) and callee.base.op == "*" and place is None:
            place = base.pointee
        if place is None:
            place = base.pointee
        receiver = place.type if place is not None else ""
        if entries := self._known(
            name, arguments, f"{_shown(callee.base)} {receiver}", receiver or _shown(callee.base)
        ):
            return self._apply(entries, expr, place, arguments, state, frame, base)
        target = self._resolve_method(name, place, len(arguments), frame)
        if target is not None and self._is_worth(target, arguments):
            this = None if place is None or (isinstance(callee.base, Name) and callee.base.id == "this") else place
            return self.enter(
                target, this if this is not None else self._this(frame), arguments, state, frame, expr.span
            )
        self._run_lambdas(arguments, state, frame, expr.span)
        if place is not None:
            return self._holder(expr, name, place, base, arguments, state, frame)
        if name in self.words.keep and _all_fresh(arguments) and base.is_looked_up:
            found = Place(
                f"*{frame.number}/{expr.span.start}",
                Kind.POINTEE,
                (Cell(frame.function.name, _shown(callee.base)),),
                (),
                "",
            )
            self._keep(found, Value(fresh=_all_fresh(arguments)), state, frame, expr.span)
        return Value(
            fresh=base.fresh if name in _VIEWS else (),
            is_looked_up=base.is_looked_up or not base.fresh,
            options=base.options | self._options(expr, state, frame),
            measures=base.measures,
            asks=base.asks,
        )

    def _holder(
        self, expr: CallExpr, name: str, place: Place, base: Value, arguments: list[Value], state: _State, frame: _Frame
    ) -> Value:
        """A method of something that holds: a container, a smart pointer, an optional, a tensor."""
        words = self.words
        fresh = _all_fresh(arguments)
        element = place.part(_key_of(expr, arguments), None, element_type(place.type)) if place.cells else place
        if name in words.keep:
            if fresh:
                self._keep(element, Value(fresh=fresh), state, frame, expr.span)
                if element.kind is Kind.LOCAL:
                    known = state.env.get((element.root, element.path), NOTHING)
                    state.env[element.root, element.path] = known._replace(
                        fresh=tuple(dict.fromkeys((*known.fresh, *fresh)))
                    )
            for argument in arguments:
                kept = argument.place or argument.pointee
                if (
                    kept is not None
                    and kept.kind.is_kept
                    and kept.cells
                    and place.kind.is_kept
                    and kept.cells[0] != place.cells[0]
                ):
                    state.parked |= {kept.cell}
        if name in words.drop and place.cells:
            if fresh:  # `pointer.reset(new T)`
                self._keep(place, Value(fresh=fresh), state, frame, expr.span)
            elif not arguments or name in ("erase", "reset"):
                part = place if not arguments or name == "reset" else element
                self._give_up(Value(place=part), name, state, frame, expr.span)
            return NOTHING
        if name in words.look:
            if is_holder(place.type) or (not arguments and name in ("value", "get", "data")):
                inner = place._replace(type=element_type(place.type))
                return self._stored(inner, state, base)._replace(pointee=None if name == "value" else inner)
            value = self._stored(element, state)
            return value._replace(pointee=element, fresh=())
        if name in words.size:
            # The size of a copy of a handle is that of what it was copied from.
            cells = frozenset(place.cells) | (
                frozenset(base.pointee.cells) if base.pointee is not None else frozenset()
            )
            return Value(measures=cells, asks=cells)
        if name in _VIEWS:
            return Value(fresh=base.fresh, asks=base.asks, options=base.options | self._options(expr, state, frame))
        return Value(
            asks=frozenset(place.cells) | base.asks,
            is_looked_up=place.kind.is_kept and bool(place.cells),
            options=base.options | self._options(expr, state, frame),
            truth=UNKNOWN,
        )

    def _is_worth(self, target: Function, arguments: Sequence[Value]) -> bool:
        """Whether going into a call can tell anything: it does something, keeps something, or gives a reference."""
        return (
            target in self.relevant
            or target.result.rstrip().endswith(("&", "*"))
            or any(argument.fresh or argument.is_status for argument in arguments)
        )

    def _resolve_method(self, name: str, place: Place | None, arity: int, frame: _Frame) -> Function | None:
        if place is not None and not place.cells:  # `this`
            return self.program.method(place.type or frame.owner, name, arity)
        if place is not None and place.type:
            inner = element_type(place.type) if is_holder(place.type) else place.type
            record = self.program.record(inner, frame.owner or frame.function.name)
            if record is not None:
                return self.program.method(record.name, name, arity)
            if "auto" not in place.type.split() and split_type(place.type)[0] not in ("auto", ""):
                return self.program.method(split_type(inner)[0], name, arity)
        return self.program.only_method(name, arity)

    def _lambda(self, name: str, arguments: Sequence[Value], state: _State, frame: _Frame, span: Span) -> Value:
        function = self.program.lambda_of(frame.function.path, name)
        if function is None:
            return Value(is_looked_up=True)
        return self.enter(function, None, arguments, state, frame, span)

    def _run_lambdas(self, arguments: Sequence[Value], state: _State, frame: _Frame, span: Span) -> None:
        """A lambda given to a call that nobody can look into counts as run there: `std::call_once(flag, [&] { ... })`."""
        for argument in arguments:
            if argument.function and not self._is_dead(state):
                self._lambda(argument.function, (), state, frame, span)

    def _exchange(self, arguments: Sequence[Value], state: _State, frame: _Frame, span: Span) -> Value:
        for one, other in ((arguments[0], arguments[1]), (arguments[1], arguments[0])):
            if one.place is not None and one.place.kind.is_kept and one.place.cells:
                state.parked |= {one.place.cell}
                if other.fresh:
                    self._keep(one.place, other, state, frame, span)
        return Value(pointee=arguments[0].place)

    def _apply(
        self,
        entries: Iterable[Entry],
        expr: CallExpr,
        place: Place | None,
        arguments: list[Value],
        state: _State,
        frame: _Frame,
        base: Value = NOTHING,
    ) -> Value:
        """What a call of the vocabulary does."""
        result = Value(is_looked_up=True)
        for entry in entries:
            subject = place
            if entry.of.startswith("arg"):
                index = int(entry.of[3:])
                argument = arguments[index] if index < len(arguments) else NOTHING
                subject = argument.place or argument.pointee
            match entry.does:
                case Effect.IS_CAPTURING:
                    result = self._asked(entry, expr, arguments, state, frame)
                case Effect.WS_ALLOC:
                    result = self._allocated(entry, expr, arguments, state, frame)
                case Effect.WS_REPLACE:
                    self._resized(expr, place, base, state, frame)
                    result = base
                case Effect.CAPTURE | Effect.CAPTURE_END:
                    state.in_capture = entry.does is Effect.CAPTURE
                    self._happen(entry.does, subject, "", state, frame, expr.span)
                case Effect.ERASE:
                    self._happen(entry.does, None, "", state, frame, expr.span)
                case Effect.GRAPH_DEATH:
                    operation = expr.callee.name if isinstance(expr.callee, Attr) else _shown(expr.callee)
                    is_drop = place is not None and entry.of == "self" and self._is_held(place)
                    self._happen(
                        entry.does, subject, "drop" if is_drop else operation, state, frame, expr.span, once=entry.once
                    )
                case Effect.WS_RELEASE:
                    if subject is not None and subject.cells:
                        self._happen(entry.does, subject, "free", state, frame, expr.span)
        return result

    @staticmethod
    def _is_held(place: Place) -> bool:
        """Whether a reset is that of a smart pointer or container, not of the graph in it."""
        return bool(split_type(place.type)[1])

    def _asked(self, entry: Entry, expr: CallExpr, arguments: list[Value], state: _State, frame: _Frame) -> Value:
        truth: Formula = CAPTURING if state.in_capture is None else TRUE if state.in_capture else FALSE
        asked = (frame.function.path, expr.span)
        value = Value(truth=truth, is_status=entry.gives == "status", asked=asked)
        if entry.position is None:
            return value
        if entry.position < len(arguments):
            argument = arguments[entry.position]
            place = argument.pointee or argument.place
            if place is not None:
                state.env[place.root, place.path] = value
        return NOTHING

    def _allocated(self, entry: Entry, expr: CallExpr, arguments: list[Value], state: _State, frame: _Frame) -> Value:
        options = self._options(expr, state, frame)
        if "host" in options and entry.position is None:
            return NOTHING
        fresh = Fresh(
            frame.function.path,
            expr.span,
            frame.function.span,
            _symbol(frame),
            _shown(expr.callee),
            state.guards,
            frame.calls,
            is_certain=entry.like or entry.position is not None or "device" in options,
            is_raw=entry.position is not None,
            is_scoped=state.is_scoped,
            in_capture=state.in_capture is True,
        )
        value = Value(fresh=(fresh,))
        if entry.position is None:
            return value
        if entry.position < len(arguments):
            argument = arguments[entry.position]
            place = argument.pointee or argument.place
            if place is not None:
                if place.kind.is_kept:
                    self._keep(place, value, state, frame, expr.span)
                state.env[place.root, place.path] = value
        return NOTHING

    def _resized(self, expr: CallExpr, place: Place | None, base: Value, state: _State, frame: _Frame) -> None:
        if base.pointee is not None and (place is None or not place.kind.is_kept):
            place = base.pointee
        if place is None or not place.cells or place.kind is Kind.LOCAL:
            return
        fresh = Fresh(
            frame.function.path,
            expr.span,
            frame.function.span,
            _symbol(frame),
            _shown(expr.callee),
            state.guards,
            frame.calls,
            is_scoped=state.is_scoped,
            in_capture=state.in_capture is True,
        )
        self._keep(place, Value(fresh=(fresh,)), state, frame, expr.span, in_place=True)

    # ----------------------------------------------------------------------------------------------------- options

    def _options(self, expr: CallExpr, state: _State, frame: _Frame) -> frozenset[str]:
        """Where the words in a call's arguments put a tensor: `host`, `device`."""
        found: set[str] = set()
        pending: list[Expr] = [*expr.args, expr.callee]
        while pending:
            part = pending.pop()
            match part:
                case Name(id=name):
                    found |= self._options_of(name)
                    scope: _Frame | None = frame
                    while scope is not None:
                        found |= state.env.get((scope.key(name), ()), NOTHING).options
                        scope = scope.parent
                case Attr(name=name):
                    found |= self._options_of(name)
            pending += subexpressions(part)
        return frozenset(found)

    def _options_of(self, name: str) -> frozenset[str]:
        last = name.rpartition("::")[2]
        if last in self.words.host_options:
            return frozenset({"host"})
        if last in self.words.device_options:
            return frozenset({"device"})
        return frozenset()

    @staticmethod
    def _truth(value: Value) -> Formula:
        return value.truth


# --------------------------------------------------------------------------------------------------------------- helpers

_PASSED_ON = frozenset({"move", "forward", "ref", "cref", "as_const", "addressof", "ensure_contiguous"})
_MAKERS = frozenset(
    {
        "make_shared",
        "make_unique",
        "make_pair",
        "make_tuple",
        "make_intrusive",
        "make_optional",
        "pair",
        "tuple",
        "optional",
        "tie",
        "vector",
        "new",
        "shared_ptr",
        "unique_ptr",
    }
)
_VIEWS = frozenset(
    [
        "alias",
        "as_strided",
        "contiguous",
        "cuda",
        "detach",
        "expand",
        "fill_",
        "flatten",
        "narrow",
        "permute",
        "requires_grad_",
        "reshape",
        "select",
        "set_requires_grad",
        "slice",
        "squeeze",
        "to",
        "transpose",
        "unsqueeze",
        "view",
        "view_as",
        "zero_",
        "copy_",
        "clone",
    ]
)
"""Methods whose result is, or holds, the tensor that they are called on."""


def _symbol(frame: _Frame) -> str:
    scope: _Frame = frame
    while is_lambda(scope.function) and scope.parent is not None:
        scope = scope.parent
    return scope.function.name


def _variable(owner: str, name: str, type_text: str, kind: Kind) -> Place:
    return Place(f"{kind.value}:{owner}::{name}", kind, (Cell(owner, name),), (), type_text)


def _is_constant(name: str) -> bool:
    """Whether a name is spelled like a constant or a macro: `MAX_SIZE`, `kAlignment`."""
    return (
        name.isupper() or (len(name) > 1 and name[0] == "k" and name[1].isupper()) or name in ("std", "true", "false")
    )


def _measured(value: Value, written: Expr) -> frozenset[Cell]:
    """Whose size a compared value is: what was measured, or a number that is kept."""
    if value.measures:
        return value.measures
    place = value.place
    if isinstance(written, (Name, Attr)) and place is not None and place.kind.is_kept and place.cells:
        if not place.type.endswith("*") and not split_type(place.type)[1]:
            return frozenset({place.cell})
    return frozenset()


def _all_fresh(values: Iterable[Value]) -> tuple[Fresh, ...]:
    return tuple(dict.fromkeys(fresh for value in values for fresh in value.fresh))


def _all(guards: Iterable[Guard]) -> Formula:
    formula: Formula = TRUE
    for guard in guards:
        formula = conditions.both(formula, guard.formula)
    return formula


def _merged_guard(formula: Formula, one: Sequence[Guard], other: Sequence[Guard]) -> Guard:
    guards = (*one, *other)
    asked = next((guard.asked for guard in guards if guard.asked is not None), None)
    return Guard(formula, guards[0].path, guards[0].span, frozenset(), frozenset(), asked)


def _join_values(one: Value, other: Value, test: Formula) -> Value:
    if one == other:
        return one
    return Value(
        place=one.place or other.place,
        pointee=one.pointee or other.pointee,
        fresh=tuple(dict.fromkeys((*one.fresh, *other.fresh))),
        truth=conditions.choice(test, one.truth, other.truth),
        is_status=one.is_status or other.is_status,
        is_empty=one.is_empty and other.is_empty,
        is_looked_up=one.is_looked_up or other.is_looked_up,
        measures=one.measures | other.measures,
        sized=one.sized | other.sized,
        asks=one.asks | other.asks,
        asked=one.asked or other.asked,
        function=one.function or other.function,
        options=one.options | other.options,
    )


def _is_about(
    one: tuple[tuple[Happening, ...], ...], other: tuple[tuple[Happening, ...], ...], asks: frozenset[Cell]
) -> bool:
    """Whether `one` adds to `other` only what happens to the places that the test asked for: `if (graph) graph->reset();`.

    Where there is nothing to release nothing is left over, so the way around the branch needs no look of its own.
    """
    if not asks or not other:
        return False
    length = len(other[0])
    if any(len(trace) != length for trace in other) or any(trace[:length] not in other for trace in one):
        return False
    added = [happening for trace in one for happening in trace[length:]]
    return bool(added) and all(
        happening.place is not None and asks.intersection(happening.place.cells) for happening in added
    )


def _become(state: _State, other: _State) -> None:
    state.env = other.env
    state.guards = other.guards
    state.in_capture = other.in_capture
    state.is_scoped = other.is_scoped
    state.parked = other.parked
    state.traces = other.traces


def _key(index: Expr, value: Value) -> str:
    return f"[{_shown(index)}]"


def _key_of(expr: CallExpr, arguments: Sequence[Value]) -> str:
    """The key in a call on a container, for `find(key)` to be the place of `map[key]`."""
    name = expr.callee.name if isinstance(expr.callee, Attr) else ""
    if name in ("push_back", "emplace_back", "push", "add", "append", "back"):
        return "[back]"
    return f"[{_shown(expr.args[0])}]" if expr.args else f"[{name}]"


def _shown(expr: Expr) -> str:
    """An expression in short, for keys and messages."""
    match expr:
        case Name(id=name):
            return name
        case Attr(base=base, name=name):
            return f"{_shown(base)}.{name}"
        case Item(base=base, index=index):
            return f"{_shown(base)}[{_shown(index)}]"
        case Lit(value=value):
            return str(value)
        case CallExpr(callee=callee, args=args):
            return f"{_shown(callee)}({', '.join(_shown(arg) for arg in args)})"
        case Op(op="*", operands=(inner,)):
            return _shown(inner)
        case Op(op=op, operands=operands):
            return f" {op} ".join(_shown(operand) for operand in operands)
        case Group(items=items):
            return f"{{{', '.join(_shown(item) for item in items)}}}"
    return "..."
