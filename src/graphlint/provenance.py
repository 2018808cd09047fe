"""Reads functions for what their values depend on, what they take out of stores and put there, and whom they ask.

Reading a function walks its flow once, in order, and gives every expression a `Dependent`: the sources that it is
computed from, the memory that it allocates, the store (an attribute, a module variable, a table in one) that it came
out of. Callees of the project are read first, as far as they are short; what they do is put into the caller's terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from graphlint import flow
from graphlint.dependence import (
    NO_SOURCES,
    NOTHING,
    Ask,
    Dependent,
    Held,
    Kept,
    Memory,
    Reading,
    derived,
    element,
    lossy,
    lowered,
    union,
)
from graphlint.effects import Effect
from graphlint.evaluate import Behaviors
from graphlint.facts import MODULE
from graphlint.flow import Expr, Flow
from graphlint.frame import last_word
from graphlint.obtained import Obtained
from graphlint.origins import Readings
from graphlint.project import FunctionEntry
from graphlint.source import Span

_LOSSY = frozenset(("//", ">>", "<", ">", "<=", ">=", "==", "!=", "is", "is not", "in", "not in"))
_COMPARES = frozenset(("<", ">", "<=", ">=", "==", "!=", "is", "is not"))
_DEEPEST = 3
_LONGEST = 4_000
"""Bytes of the longest callee that is read for its caller's sake."""
_SHORT = 1_200
"""Bytes up to which it need not allocate anything for that."""


class Dependences(Readings):
    """The readings of a project, made when asked for."""

    def __init__(self, behaviors: Behaviors) -> None:
        super().__init__(behaviors)
        self._readings: dict[str, Reading] = {}
        self._depth = 0
        self._readers: dict[str, _Reader] = {}

    def reading(self, name: str) -> Reading:
        """The dependences in a function of the project; empty while it is being read, which ends a recursion."""
        known = self._readings.get(name)
        if known is not None:
            return known
        entry = self.project.functions[name]
        if entry.parent is not None and entry.parent not in self.busy:
            self.reading(entry.parent)
            if name in self._readings:
                return self._readings[name]
        if name in self.busy:
            return Reading(name)
        self.busy.add(name)
        try:
            parent = self._readers.get(entry.parent) if entry.parent is not None else None
            reader = _Reader(self, entry, parent)
            self._readers[name] = reader
            reader.read()
        finally:
            self.busy.discard(name)
        self._readings[name] = reader.result
        return reader.result

    def value(self, name: str, expr: Expr) -> Dependent:
        """What an expression of a function depends on, by the variables as they stand at the function's end."""
        self.reading(name)
        reader = self._readers[name]
        reader.quiet = True
        return reader.value(expr)

    def callee(self, name: str) -> Reading | None:
        """The reading of a function for one that calls it; None where that leads too far."""
        if name in self._readings:
            return self._readings[name]
        entry = self.project.functions.get(name)
        if entry is None or name in self.busy or self._depth >= _DEEPEST:
            return None
        length = entry.facts.span.end - entry.facts.span.start
        if length > (_SHORT if self.allocating_words.isdisjoint(entry.facts.words) else _LONGEST):
            return None
        self._depth += 1
        try:
            return self.reading(name)
        finally:
            self._depth -= 1


class _Reader(Obtained):
    """Walks one function."""

    def read(self) -> None:
        lowered = self.entry.lowered
        self.globals = lowered.globals
        for nested in lowered.nested:
            name = f"{self.module.name}.{nested.qualname}"
            self.project.functions.setdefault(name, FunctionEntry(name, self.module, nested, self.entry.name))
        for param in self.entry.facts.params:
            if param.default is not None:
                default = self.value(param.default)
                if default.capturing:
                    self.result.kept.append(Kept("default", param.default.span))
        self.run(lowered.flow)
        self.result.returns = union(self.returned)

    # ----------------------------------------------------------------------------------------------- statements

    def run(self, body: Flow) -> None:
        match body:
            case flow.Eval(value=value):
                given = self.value(value)
                if isinstance(value, flow.Op) and value.op == "yield":
                    self._gives(given, *value.operands[:1])
            case flow.Bind():
                self.bind_statement(body)
            case flow.Drop(target=target):
                self.drop(target)
            case flow.Seq(items=items):
                before, eager = len(self.guards), self.eager
                for item in items:
                    self.run(item)
                del self.guards[before:]
                self.eager = eager
            case flow.Alt():
                self.branch(body)
            case flow.Star():
                self.loop(body)
            case flow.Scope():
                self.scope(body)
            case flow.Try():
                self.try_(body)
            case flow.Exit(kind=kind, value=value):
                result = self.value(value) if value is not None else Dependent(literal=None)
                if kind == "return":
                    self.returned.append(result)
                    self._gives(result, value)

    def _gives(self, value: Dependent, expr: Expr | None = None) -> None:
        """Note the answers in a display that the function gives."""
        if isinstance(expr, flow.Group):
            self.keep("made", value, expr)

    def branch(self, alt: flow.Alt) -> None:
        test = self.test(alt.test)
        asks = test.asks | test.chosen
        self.pin(alt)
        before = dict(self.env)
        leaves: list[bool] = []
        eager = self.eager
        for index, side in enumerate((alt.then, alt.other)):
            self.env = dict(before)
            puts, returned = len(self.result.puts), len(self.returned)
            self.guards.append(asks)
            self.eager = eager or (test.eager, test.capturing)[index]
            self.run(side)
            self.guards.pop()
            leaves.append(not _falls_through(side))
            if index == 0:
                after = self.env
            if not leaves[-1] or not asks:
                continue
            slots = {ask.slot for ask in asks}
            stored = any(put.held.slot in slots for put in self.result.puts[puts:])
            given = any(held.slot in slots for each in self.returned[returned:] for held in each.held)
            if not stored and not given and not _loops_on(side):
                for ask in asks:
                    self.result.checked.setdefault(ask.slot, set()).update(ask.sources)
                asks = frozenset()
            elif given and not stored:
                for ask in asks:
                    self.result.accepted.setdefault(ask.slot, set()).add(ask)
        self.eager = eager
        if test.capturing and _acts(alt.then):
            self.result.kept.append(Kept("branch", self.asked(alt.test)))
        if self.captures and (test.capturing or test.eager):
            self.keep_early(alt.test)
        if (test.capturing and not _raises(alt.then)) or (test.eager and not _raises(alt.other)):
            self.keep_outer(alt.test)
        if (leaves[0] and test.capturing) or (leaves[1] and test.eager):
            self.eager = True  # for the rest of the block that this stands in
        if leaves == [True, False]:
            pass
        elif leaves == [False, True]:
            self.env = after
        elif leaves == [False, False]:
            self.env = _join(after, self.env)
        if any(leaves) and asks:
            if self.loop_asks and _loops_on(alt.then if leaves[0] else alt.other):
                self.loop_asks[-1] |= asks
            else:
                self.guards.append(asks)  # for the rest of the block that this stands in
        elif asks and self.loop_asks:
            self.loop_asks[-1] |= asks

    def pin(self, alt: flow.Alt) -> None:
        """Note what an assertion, or a test that raises, holds to a constant."""
        if _raises(alt.other):
            holds, op = alt.test, "=="
        elif _raises(alt.then):
            holds, op = alt.test, "!="
        else:
            return
        stack = [holds]
        while stack:
            each = stack.pop()
            if isinstance(each, flow.Op) and each.op == ("and" if op == "==" else "or"):
                stack += each.operands
            elif (
                isinstance(each, flow.Op)
                and each.op in (op, "is" if op == "==" else "is not")
                and len(each.operands) == 2
            ):
                one, other = map(self.value, each.operands)
                for this, that in ((one, other), (other, one)):
                    if this.place is not None and not that.sources and that.place is None:
                        self.result.pinned.add(this.place)

    def loop(self, star: flow.Star) -> None:
        if star.iterable is not None:
            iterable = self.value(star.iterable)
            if star.target is not None:
                self.bind(star.target, element(iterable), star.span)
        if star.test is not None:
            self.test(star.test)
        before = dict(self.env)
        self.loop_asks.append(set())
        self.run(star.body)
        asks = frozenset(self.loop_asks.pop())
        self.env = _join(before, self.env)
        if asks:
            self.guards.append(asks)
        self.run(star.other)

    def scope(self, scope: flow.Scope) -> None:
        context = self.value(scope.context)
        if scope.target is not None:
            self.bind(scope.target, context, scope.span)
        device = NO_SOURCES
        captures = False
        if isinstance(scope.context, flow.Call):
            quiet, self.quiet = self.quiet, True
            names = self.canonical(self.value(scope.context.callee).names)
            captures = any(
                entry.does is Effect.CAPTURE for name in names for entry in self.all.vocabulary.contexts.get(name, ())
            )
            if last_word(scope.context.callee) in ("device", "device_of", "use_device") and scope.context.args:
                device = self.value(scope.context.args[0]).sources
            self.quiet = quiet
        if captures:
            self.captures += 1
        if device:
            self.devices.append(device)
        self.run(scope.body)
        if device:
            self.devices.pop()
        if captures:
            self.captures -= 1

    def try_(self, body: flow.Try) -> None:
        before = dict(self.env)
        self.run(body.body)
        after = self.env
        ends = [after] if _falls_through(body.body) else []
        for handler in body.handlers:
            self.env = _join(before, after)
            self.run(handler.body)
            if _falls_through(handler.body):
                ends.append(self.env)
        self.env = ends[0] if ends else after
        for each in ends[1:]:
            self.env = _join(self.env, each)
        self.run(body.other)
        self.run(body.final)

    def bind_statement(self, bind: flow.Bind) -> None:
        if bind.value is None:
            return
        value = self.value(bind.value)
        if bind.op:
            value = union([self.value(bind.target), value])
            value = replace(value, place=None, literal=..., items=None)
        self.bind(bind.target, value, bind.span, bind.value)

    def bind(self, target: Expr, value: Dependent, span: Span, expr: Expr | None = None) -> None:
        """Give a target a value."""
        match target:
            case flow.Name(id=name):
                if (value.capturing or value.eager) and expr is not None:
                    self.asked_at[name] = self.asked(expr)
                    self.before.discard(name)
                    if not self.captures:
                        self.before.add(name)
                    if self.entry.facts.qualname == MODULE:
                        self.keep("attribute", value, expr, (f"mod:{self.module.name}", name))
                if isinstance(expr, flow.Group):
                    self.keep("made", value, expr)
                if name in self.globals:
                    held = Held((f"mod:{self.module.name}", name), "module")
                    self.put(held, "set", value, span)
                    self.keep("attribute", value, expr, held.slot)
                    return
                asks = frozenset().union(*self.guards) if self.guards else frozenset()
                self.env[name] = replace(value, chosen=value.chosen | asks) if asks else value
            case flow.Attr(base=base, name=name):
                holders = self.attribute(self.value(base), name, plain=True).held
                for held in holders:
                    self.put(held, "set", value, span)
                    self.keep("attribute", value, expr, held.slot)
                if not holders and (value.capturing or value.eager):
                    for known in self.all.behaviors.typed(self.entry, base).types:
                        self.keep("attribute", value, expr, (known.name, name))
            case flow.Item(base=base, key=index):
                container = self.value(base)
                if isinstance(index, flow.Op) and index.op == "Slice":
                    if isinstance(expr, flow.Each) and expr.tests:  # what the tests leave out goes
                        self.result.removes |= {each.slot for each in container.held if each.keyed}
                    return
                key = self.value(index)
                for held in container.held if not container.is_display else ():
                    is_field = held.keyed and key.literal is not ...
                    held_there = held._replace(key=held.key | key.sources, keyed=True)
                    self.put(held_there, "set", value, span, index, is_field=is_field)
            case flow.Group(items=items):
                parts = value.items if value.items is not None and len(value.items) == len(items) else None
                for number, item in enumerate(items):
                    self.bind(item, parts[number] if parts is not None else self.part(value, number), span)
            case flow.Op(op="*", operands=operands):
                self.bind(operands[0], replace(value, items=None), span)

    @staticmethod
    def part(value: Dependent, index: int) -> Dependent:
        if value.place is not None:
            place = (*value.place, f"[{index}]")
            return Dependent(place, frozenset((place,)), value.held)
        return replace(value, items=None, literal=...)

    def drop(self, target: Expr) -> None:
        match target:
            case flow.Name(id=name):
                self.env.pop(name, None)
            case flow.Attr(base=base) | flow.Item(base=base):
                held = self.value(base).held
                self.result.removes |= {each.slot for each in held if isinstance(target, flow.Item) or each.keyed}

    # ---------------------------------------------------------------------------------------------------- tests

    def test(self, expr: Expr) -> Dependent:
        """A test, whose plain names are noted as tested."""
        stack = [expr]
        while stack:
            each = stack.pop()
            if isinstance(each, flow.Op) and each.op in ("and", "or", "not"):
                stack += each.operands
            elif isinstance(each, flow.Name | flow.Attr):
                place = self.value(each).place
                if place is not None:
                    self.result.tested.add(place)
        return self.value(expr)

    def compared(self, op: str, operands: tuple[Expr, ...], expr: Expr) -> Dependent:
        values = [self.value(operand) for operand in operands]
        sources = frozenset().union(*(value.sources for value in values))
        slots = frozenset(held.slot for value in values for held in value.held)
        partial = lossy(self.text(expr), sources, slots)
        if any(isinstance(each, flow.Lit) and each.value is None for each in operands):
            chosen = frozenset().union(*(value.chosen for value in values))
            return Dependent(sources=partial, asks=chosen)
        asks = set[Ask]().union(*(value.asks for value in values))
        for index, value in enumerate(values):
            others = frozenset().union(*(each.sources for i, each in enumerate(values) if i != index))
            exact, identity = op in ("==", "!=", "is", "is not"), op in ("is", "is not")
            asks |= {Ask(held.slot, others, exact, identity) for held in value.held}
        capturing = len(operands) == 2 and values[0].capturing and isinstance(operands[1], flow.Lit)
        return Dependent(sources=partial, asks=frozenset(asks), capturing=capturing and operands[1].value is True)  # type: ignore[union-attr]

    # --------------------------------------------------------------------------------------------------- values

    def value(self, expr: Expr) -> Dependent:
        """Dependent of an expression."""
        match expr:
            case flow.Name(id=name):
                return self.variable(name)
            case flow.Attr(base=base, name="__dict__") if (table := self.namespace(base)) is not None:
                return table
            case flow.Attr(base=base, name=name):
                return self.aspect_of(self.attribute(self.value(base), name), name, expr)
            case flow.Call():
                return self.call(expr)
            case flow.Item(base=flow.Attr(base=flow.Name(id="sys"), name="modules"), key=flow.Name(id="__name__")):
                return Dependent(names=frozenset((self.module.name,)))
            case flow.Item(base=base, key=index):
                return self.item(self.value(base), index, expr)
            case flow.Lit(value=literal):
                return Dependent(literal=literal)
            case flow.Group(kind=kind, items=items):
                keys = [self.value(key) for key in expr.keys if key is not None]
                values = [self.value(item) for item in items]
                result = union([*values, *keys]) if values else NOTHING
                starred = any(map(flow.is_spread, items))
                ordered = kind in ("tuple", "list") and not starred and values
                return replace(
                    result,
                    place=None,
                    literal=...,
                    capturing=False,
                    eager=False,
                    is_display=True,
                    asks=frozenset[Ask]().union(*(v.asks for v in values)),
                    items=tuple(values) if ordered else None,
                )
            case flow.Text(parts=parts):
                return Dependent(sources=frozenset().union(*(self.value(part).sources for part in parts)))
            case flow.Op(op="and" | "or", operands=operands):
                return union([self.value(operand) for operand in operands])
            case flow.Op(op="not", operands=operands):
                value = self.value(operands[0])
                return Dependent(
                    sources=value.sources, asks=value.asks | value.chosen, eager=value.capturing, capturing=value.eager
                )
            case flow.Op(op="in" | "not in", operands=(key, container)):
                sources = self.value(key).sources
                for held in self.value(container).held:
                    self.look(held, sources, expr.span, key)
                return Dependent(sources=lossy(self.text(expr), sources))
            case flow.Op(op=op, operands=operands) if op in _COMPARES:
                return self.compared(op, operands, expr)
            case flow.Op(op=op, operands=operands):
                return self.computed(op, operands, expr)
            case flow.Choice(test=test, then=then, other=other):
                condition = self.value(test)
                result = union([self.value(then), self.value(other)])
                return replace(
                    result, place=None, sources=result.sources | condition.sources,
                    capturing=result.capturing or condition.capturing, literal=...,
                )  # fmt: skip
            case flow.Each():
                return self.comprehension(expr)
            case flow.Walrus(target=target, value=inner):
                value = self.value(inner)
                self.bind(target, value, expr.span, inner)
                return value
            case flow.Func(id=name):
                return self.function_value(name)
            case flow.Imported():
                dotted = self.project.absolute(self.module, expr.module, expr.level)
                return self.symbol(self.project.resolve(f"{dotted}.{expr.name}" if expr.name is not None else dotted))

    def computed(self, op: str, operands: tuple[Expr, ...], expr: Expr) -> Dependent:
        values = [self.value(operand) for operand in operands]
        if op in ("await", "*", "pos", "yield", "yield from") and len(values) < 2:  # `*` is unpacking, or a product
            return values[0] if values else NOTHING
        result = union(values)
        if op == "Slice":
            return Dependent(sources=result.sources)
        sources = result.sources
        is_format = op == "%" and isinstance(values[0].literal, str)
        if sources and (op in _LOSSY or (op == "%" and not is_format)):
            sources = lossy(self.text(expr), sources)
        return Dependent(sources=sources, held=derived(result.held), memory=result.memory, asks=result.asks)

    def item(self, base: Dependent, index: Expr, expr: Expr) -> Dependent:
        if isinstance(index, flow.Op) and index.op == "Slice":
            inner = self.value(index)
            return replace(
                base, place=None, sources=base.sources | inner.sources, items=None, literal=..., names=frozenset()
            )
        key = self.value(index)
        number = key.literal if isinstance(key.literal, int) and not isinstance(key.literal, bool) else None
        if number is not None and base.items is not None and -len(base.items) <= number < len(base.items):
            return base.items[number]
        is_field = number is not None or isinstance(key.literal, str)  # of a record that a table keeps
        held = frozenset(
            each if each.keyed and is_field else self.look(each, key.sources, expr.span, index) for each in base.held
        )
        if base.place is not None and number is not None:
            place = (*base.place, f"[{number}]")
            return Dependent(place, frozenset((place,)), held, memory=base.memory)
        return Dependent(sources=base.sources | key.sources, held=held, memory=base.memory)

    def comprehension(self, expr: flow.Each) -> Dependent:
        iterable = self.value(expr.iterable)
        saved = dict(self.env)
        self.bind(expr.target, element(iterable), expr.span)
        tests = [test.asks for test in map(self.test, expr.tests)]
        parts = [self.value(e) for e in (expr.key, expr.element) if e is not None]
        self.env = saved
        result = union([*parts, Dependent(sources=iterable.sources)])
        return replace(result, place=None, literal=..., items=None, asks=result.asks.union(*tests), capturing=False)

    def function_value(self, qualname: str) -> Dependent:
        name = f"{self.module.name}.{qualname}"
        if name not in self.project.functions:
            return NOTHING
        entry = self.project.functions[name]
        memory: frozenset[Memory] = frozenset()
        sources = NO_SOURCES
        if name not in self.all.busy:
            reader = _Reader(self.all, entry, self)
            self.all.busy.add(name)
            reader.read()
            self.all.busy.discard(name)
            returns = lowered(reader.result.returns)
            sources, memory = returns.sources, returns.memory
        return Dependent(sources=sources, memory=memory, calls=(name,), is_function=True, names=frozenset((name,)))


def _falls_through(body: Flow) -> bool:
    """Whether control can leave a flow at its end."""
    match body:
        case flow.Exit():
            return False
        case flow.Seq(items=items):
            return all(map(_falls_through, items))
        case flow.Alt(then=then, other=other):
            return _falls_through(then) or _falls_through(other)
        case flow.Scope(body=inner):
            return _falls_through(inner)
        case flow.Try(body=inner, handlers=handlers, final=final):
            return _falls_through(final) and (_falls_through(inner) or any(_falls_through(h.body) for h in handlers))
    return True


def _loops_on(body: Flow) -> bool:
    """Whether a flow leaves by `break` or `continue`."""
    if isinstance(body, flow.Exit):
        return body.kind in ("break", "continue")
    if isinstance(body, flow.Star):
        return False
    return any(map(_loops_on, flow.children(body)))


def _raises(body: Flow) -> bool:
    """Whether a flow does nothing but raise."""
    if isinstance(body, flow.Seq):
        return bool(body.items) and _raises(body.items[-1])
    return isinstance(body, flow.Exit) and body.kind == "raise"


def _acts(body: Flow) -> bool:
    """Whether a flow writes an attribute, and is no mere refusal."""
    if isinstance(body, flow.Bind):
        return isinstance(body.target, flow.Attr) and _is_named_constant(body.value)
    return any(map(_acts, flow.children(body)))


def _is_named_constant(value: Expr | None) -> bool:
    """Whether an expression is a literal, or a constant that a module or a class has a name for: `GRAPH`, `Mode.GRAPH`."""
    match value:
        case flow.Name(id=name):
            return name.isupper()
        case flow.Attr(base=flow.Name(id=base), name=name):
            return name.isupper() or base.lstrip("_")[:1].isupper()
    return isinstance(value, flow.Lit)


def _join(one: Mapping[str, Dependent], other: Mapping[str, Dependent]) -> dict[str, Dependent]:
    result = dict(one)
    for name, value in other.items():
        known = result.get(name)
        result[name] = value if known is None or known == value else union([known, value])
    return result
