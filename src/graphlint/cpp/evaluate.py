"""What expressions evaluate to, and what their calls do: the part of a walk that knows values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphlint.cpp import conditions
from graphlint.cpp.conditions import CAPTURING, FALSE, TRUE, UNKNOWN, Formula
from graphlint.cpp.facts import Function
from graphlint.cpp.places import NOTHING, Cell, Fresh, Guard, Kind, Place, Value, all_fresh
from graphlint.cpp.state import Frame, State, join_values
from graphlint.cpp.storage import Storage
from graphlint.cpp.typetext import element_type, is_holder, split_type
from graphlint.cpp.vocabulary import Entry
from graphlint.effects import Effect
from graphlint.flow import (
    Attr,
    Choice,
    Each,
    Expr,
    Func,
    Group,
    Item,
    Lit,
    Name,
    Op,
    Text,
    Walrus,
    subexpressions,
)
from graphlint.flow import Call as CallExpr
from graphlint.source import Span


class Evaluator(Storage):
    """Evaluates expressions; going into a call is left to whoever knows flows."""

    def enter(
        self, function: Function, this: Place | None, arguments: Sequence[Value], state: State, frame: Frame, span: Span
    ) -> Value:
        """Go into a call."""
        raise NotImplementedError

    def value(self, expr: Expr, state: State, frame: Frame) -> Value:
        """What an expression evaluates to; what it does on the way is recorded."""
        match expr:
            case Name():
                return self._name(expr, state, frame)
            case Attr():
                return self._attribute(expr, state, frame)
            case Item(base=base, key=index):
                value = self.value(base, state, frame)
                self.value(index, state, frame)
                place = value.place or value.pointee
                if place is None:
                    return Value(fresh=value.fresh)
                return Value(place=place.part(f"[{shown(index)}]", None, element_type(place.type)))
            case Lit(value=literal):
                if literal is None:
                    return Value(is_empty=True, truth=FALSE)
                return Value(truth=TRUE if literal is True else FALSE if literal is False else UNKNOWN)
            case Group(items=items):
                values = [self.value(item, state, frame) for item in items]
                return Value(fresh=all_fresh(values), is_empty=not items)
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

    def _name(self, expr: Name, state: State, frame: Frame) -> Value:
        name = expr.id
        if name == "this":
            this = self._this(frame)
            return Value(place=this, pointee=this)
        scope: Frame | None = frame
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

    def _attribute(self, expr: Attr, state: State, frame: Frame) -> Value:
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

    def _choice(self, test: Expr, then: Expr, other: Expr, state: State, frame: Frame) -> Value:
        asked = self.value(test, state, frame)
        truth = asked.truth
        guards = state.guards
        values = []
        for branch, formula in ((then, truth), (other, conditions.negate(truth))):
            guard = Guard(formula, frame.function.path, test.span, asked.sized, asked.asks, asked.asked, asked.outgrown)
            state.guards = (*guards, guard)
            values.append(self.value(branch, state, frame))
        state.guards = guards
        return join_values(values[0], values[1], truth)

    def _operator(self, expr: Op, state: State, frame: Frame) -> Value:
        op = expr.op
        if op in ("and", "or"):
            return self._boolean(expr, state, frame)
        values = [self.value(operand, state, frame) for operand in expr.operands]
        if op == "not" and values:
            return Value(
                truth=conditions.negate(values[0].truth),
                sized=values[0].sized,
                outgrown=values[0].outgrown,
                asks=values[0].asks,
                asked=values[0].asked,
            )
        if op == "*" and len(values) == 1:
            return self._dereferenced(values[0], state)
        if op == "&" and len(values) == 1:
            return Value(pointee=values[0].place or values[0].pointee)
        if op in ("==", "!=", "<", ">", "<=", ">=") and len(values) == 2:
            return self._comparison(expr, values)
        if op == "=" and len(values) == 2:
            self._assign(values[0], values[1], expr.operands[1], state, frame, expr.span)
            return values[1]
        return Value(
            measures=frozenset().union(*(_measured(*pair) for pair in zip(values, expr.operands, strict=True))),
            sized=frozenset().union(*(value.sized for value in values)),
            outgrown=frozenset().union(*(value.outgrown for value in values)),
            asks=frozenset().union(*(value.asks for value in values)),
            options=frozenset().union(*(value.options for value in values)),
            fresh=all_fresh(values) if op == "," else (),
        )

    def _boolean(self, expr: Op, state: State, frame: Frame) -> Value:
        truth: Formula = TRUE if expr.op == "and" else FALSE
        sized: frozenset[Cell] = frozenset()
        outgrown: frozenset[Cell] = frozenset()
        asks: frozenset[Cell] = frozenset()
        asked = None
        guards = state.guards
        for operand in expr.operands:
            value = self.value(operand, state, frame)
            mine = value.truth
            truth = conditions.both(truth, mine) if expr.op == "and" else conditions.either(truth, mine)
            sized |= value.sized
            outgrown |= value.outgrown
            asks |= value.asks
            asked = asked or value.asked
            reached = mine if expr.op == "and" else conditions.negate(mine)
            state.guards = (
                *state.guards,
                Guard(reached, frame.function.path, operand.span, value.sized, value.asks, value.asked, value.outgrown),
            )
        state.guards = guards
        return Value(truth=truth, sized=sized, asks=asks, asked=asked, outgrown=outgrown)

    def _comparison(self, expr: Op, values: Sequence[Value]) -> Value:
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
        outgrown = sized if expr.op not in ("==", "!=") else frozenset()
        return Value(truth=truth, sized=sized, asks=asks, asked=asked, outgrown=outgrown)

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

    def _dereferenced(self, value: Value, state: State) -> Value:
        if value.pointee is not None and (value.place is None or not value.place.kind.is_kept):
            place = value.pointee
            return self._stored(place, state)
        if value.place is not None:
            inner = element_type(value.place.type) if is_holder(value.place.type) else value.place.type.rstrip("&* ")
            return value._replace(place=value.place._replace(type=inner), pointee=None)
        return value

    def _call(self, expr: CallExpr, state: State, frame: Frame) -> Value:
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

    def _function(self, expr: CallExpr, name: str, arguments: list[Value], state: State, frame: Frame) -> Value:
        last = name.rpartition("::")[2]
        if last in self.words.passed_on and arguments:
            return arguments[0]
        if last in ("swap", "exchange") and len(arguments) == 2:
            return self._exchange(arguments, state, frame, expr.span)
        scope: Frame | None = frame
        while scope is not None:
            if name in scope.types:
                held = state.env.get(scope.key(name))
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
        if last[:1].isupper() or last in self.words.make or name == "new":
            # A constructor, or what makes an object of its arguments: the object holds what they hold.
            return Value(
                fresh=all_fresh(arguments),
                is_empty=not arguments and last not in self.words.make,
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
        self, expr: CallExpr, callee: Attr, base: Value, arguments: list[Value], state: State, frame: Frame
    ) -> Value:
        name = callee.name
        place = base.place
        if isinstance(callee.base, Op) and callee.base.op == "*" and place is None:
            place = base.pointee
        if place is None:
            place = base.pointee
        receiver = place.type if place is not None else ""
        if entries := self._known(name, arguments, f"{shown(callee.base)} {receiver}", receiver or shown(callee.base)):
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
        if name in self.words.keep and all_fresh(arguments) and base.is_looked_up:
            found = Place(
                f"*{frame.number}/{expr.span.start}",
                Kind.POINTEE,
                (Cell(frame.function.name, shown(callee.base)),),
                (),
                "",
            )
            self._keep(found, Value(fresh=all_fresh(arguments)), state, frame, expr.span)
        return Value(
            fresh=base.fresh if name in self.words.view else (),
            is_looked_up=base.is_looked_up or not base.fresh,
            options=base.options | self._options(expr, state, frame),
            measures=base.measures,
            asks=base.asks,
        )

    def _holder(
        self, expr: CallExpr, name: str, place: Place, base: Value, arguments: list[Value], state: State, frame: Frame
    ) -> Value:
        """A method of something that holds: a container, a smart pointer, an optional, a tensor."""
        words = self.words
        fresh = all_fresh(arguments)
        element = place.part(_key_of(expr), None, element_type(place.type)) if place.cells else place
        if name in words.keep:
            if fresh:
                self._keep(element, Value(fresh=fresh), state, frame, expr.span)
                if element.kind is Kind.LOCAL:
                    known = state.env.get(element.root, element.path)
                    fresh = tuple(dict.fromkeys((*known.fresh, *fresh)))
                    state.env.put(element.root, element.path, known._replace(fresh=fresh))
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
        if name in self.words.view:
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

    def _resolve_method(self, name: str, place: Place | None, arity: int, frame: Frame) -> Function | None:
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

    def _lambda(self, name: str, arguments: Sequence[Value], state: State, frame: Frame, span: Span) -> Value:
        function = self.program.lambda_of(frame.function.path, name)
        if function is None:
            return Value(is_looked_up=True)
        return self.enter(function, None, arguments, state, frame, span)

    def _run_lambdas(self, arguments: Sequence[Value], state: State, frame: Frame, span: Span) -> None:
        """A lambda given to a call that nobody can look into counts as run there, as by `std::call_once`."""
        for argument in arguments:
            if argument.function and not state.is_dead:
                self._lambda(argument.function, (), state, frame, span)

    def _exchange(self, arguments: Sequence[Value], state: State, frame: Frame, span: Span) -> Value:
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
        state: State,
        frame: Frame,
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
                    operation = expr.callee.name if isinstance(expr.callee, Attr) else shown(expr.callee)
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

    def _asked(self, entry: Entry, expr: CallExpr, arguments: list[Value], state: State, frame: Frame) -> Value:
        truth: Formula = CAPTURING if state.in_capture is None else TRUE if state.in_capture else FALSE
        asked = (frame.function.path, expr.span)
        value = Value(truth=truth, is_status=entry.gives == "status", asked=asked)
        if entry.position is None:
            return value
        if entry.position < len(arguments):
            argument = arguments[entry.position]
            place = argument.pointee or argument.place
            if place is not None:
                state.env.put(place.root, place.path, value)
        return NOTHING

    def _allocated(self, entry: Entry, expr: CallExpr, arguments: list[Value], state: State, frame: Frame) -> Value:
        options = self._options(expr, state, frame)
        if "host" in options and entry.position is None:
            return NOTHING
        self.has_allocated = True
        fresh = Fresh(
            frame.function.path,
            expr.span,
            frame.function.span,
            frame.symbol,
            shown(expr.callee),
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
                state.env.put(place.root, place.path, value)
        return NOTHING

    def _resized(self, expr: CallExpr, place: Place | None, base: Value, state: State, frame: Frame) -> None:
        if base.pointee is not None and (place is None or not place.kind.is_kept):
            place = base.pointee
        if place is None or not place.cells or place.kind is Kind.LOCAL:
            return
        self.has_allocated = True
        fresh = Fresh(
            frame.function.path,
            expr.span,
            frame.function.span,
            frame.symbol,
            shown(expr.callee),
            state.guards,
            frame.calls,
            is_scoped=state.is_scoped,
            in_capture=state.in_capture is True,
        )
        self._keep(place, Value(fresh=(fresh,)), state, frame, expr.span, in_place=True)

    def _options(self, expr: CallExpr, state: State, frame: Frame) -> frozenset[str]:
        """Where the words in a call's arguments put a tensor: `host`, `device`."""
        found: set[str] = set()
        pending: list[Expr] = [*expr.args, expr.callee]
        while pending:
            part = pending.pop()
            match part:
                case Name(id=name):
                    found |= self._options_of(name)
                    scope: Frame | None = frame
                    while scope is not None:
                        found |= state.env.get(scope.key(name)).options
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


def _measured(value: Value, written: Expr) -> frozenset[Cell]:
    """Whose size a compared value is: what was measured, or a number that is kept."""
    if value.measures:
        return value.measures
    place = value.place
    if not isinstance(written, (Name, Attr)) or place is None or not place.kind.is_kept or not place.cells:
        return frozenset()
    is_number = not place.type.endswith("*") and not split_type(place.type)[1]
    return frozenset({place.cell}) if is_number else frozenset()


def _key_of(expr: CallExpr) -> str:
    """The key in a call on a container, for `find(key)` to be the place of `map[key]`."""
    name = expr.callee.name if isinstance(expr.callee, Attr) else ""
    if name in ("push_back", "emplace_back", "push", "add", "append", "back"):
        return "[back]"
    return f"[{shown(expr.args[0])}]" if expr.args else f"[{name}]"


def shown(expr: Expr) -> str:
    """An expression in short, for keys and messages."""
    match expr:
        case Name(id=name):
            return name
        case Attr(base=base, name=name):
            return f"{shown(base)}.{name}"
        case Item(base=base, key=index):
            return f"{shown(base)}[{shown(index)}]"
        case Lit(value=value):
            return str(value)
        case CallExpr(callee=callee, args=args):
            return f"{shown(callee)}({', '.join(shown(arg) for arg in args)})"
        case Op(op="*", operands=(inner,)):
            return shown(inner)
        case Op(op=op, operands=operands):
            return f" {op} ".join(shown(operand) for operand in operands)
        case Group(items=items):
            return f"{{{', '.join(shown(item) for item in items)}}}"
    return "..."
