"""Values of expressions, and what their truth says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from graphlint import behavior as b
from graphlint import flow
from graphlint.calls import Calling
from graphlint.effects import Effect
from graphlint.flow import Expr
from graphlint.frame import is_made_in, is_shared_out, last_word
from graphlint.handed import METHODS, about, of_nothing, written_out
from graphlint.lookups import unrolled
from graphlint.rebasing import all_of
from graphlint.source import Span
from graphlint.values import (
    CONTAINERS,
    DEVICE,
    FALSE,
    GRAPH,
    NOTHING_KNOWN,
    TENSOR,
    TRUE,
    Bound,
    Test,
    Type,
    Value,
    is_of_elements,
    literal_value,
    met,
    negated,
    union,
)

_HANDED = frozenset((Effect.ERASE, Effect.GRAPH_DEATH, Effect.POOL_RETIRE, Effect.SYNC, Effect.WS_RELEASE))
"""What a function of a vocabulary does that matters where it is handed on."""


class Expressions(Calling):
    """The evaluation of expressions."""

    def value(self, expr: Expr) -> Value:
        """Value of an expression; calls in it are emitted."""
        match expr:
            case flow.Name(id=name):
                named = self.read(self.variable(name))
                if not self.handing or named.calls or named.symbol is None or named.symbol.kind != "external":
                    return named
                acting = named.symbol.name.rpartition(".")[2] in self.vocabulary.acting
                return self.as_function(expr, named) if acting and name not in self.params else named
            case flow.Attr(base=base, name=name):
                owner = self.value(base)
                read = self.read(self.attribute(owner, name, expr.span))
                if name in METHODS and not read.calls and (handed := self.handed_on(expr, owner)) is not None:
                    return handed
                if self.handing and name in self.vocabulary.acting and not read.calls:
                    return self.as_function(expr, read)
                stream = self.vocabulary.names.is_stream(name)
                return read._replace(tags=read.tags | stream) if stream and not read.calls else read
            case flow.Call():
                return self.call(expr)
            case flow.Item(base=base, key=index):
                value = self.value(base)
                entry = self.entry_of(base, value, index)
                return self.read(entry) if entry is not None else self.item(value, index, expr.span)
            case flow.Lit(value=literal):
                return literal_value(literal)
            case flow.Group(kind=kind, items=items, span=span):
                return self.group(kind, items, span, expr.keys)
            case flow.Op(op="and" | "or" as op, operands=operands):
                return self.either_value(op, operands, expr)
            case flow.Op(op="not" | "is" | "is not" | "==" | "!=" | "in" | "not in" | "<" | ">" | "<=" | ">=" as op):
                if op in ("in", "not in", "<", ">", "<=", ">="):
                    compared = [self.value(operand) for operand in expr.operands]
                    test = self.one_of(compared[0], expr.operands[1]) if op.endswith("in") else None
                    test = test or self.compare(op.removeprefix("not "), compared, expr.span)
                    tags = frozenset(("captured",)) if self.in_capture and is_of_elements(test) else frozenset[str]()
                    said = negated(test) if op == "not in" else test
                    return Value(test=said, types=(Type("bool"),), tags=tags)
                return Value(test=self.test(expr), types=(Type("bool"),))
            case flow.Op(op="await", operands=operands):
                awaited = self.value(operands[0]) if operands else NOTHING_KNOWN
                if operands and self.is_started(operands[0]):
                    self.ended(awaited, expr.span)
                return awaited
            case flow.Op(op="yield from", operands=(operand,)):
                given = self.value(operand)
                self.yields.append(given.element)
                return given
            case flow.Op(op="yield", operands=operands):
                value = self.value(operands[0]) if operands else NOTHING_KNOWN
                self.yields.append(value)
                self.yields_in_pool |= self.in_pool > 0
                self.yields_in_capture |= self.in_capture > 0
                self.emit(b.Yields(expr.span))
                return NOTHING_KNOWN
            case flow.Op(operands=operands):
                values = [self.value(operand) for operand in operands]
                tags = frozenset(("captured",)) if self.in_capture else frozenset[str]()
                tags |= {"coarse"} if expr.op in ("//", "%") else frozenset[str]()
                types = tuple(dict.fromkeys(t for v in values for t in v.types if t.name == TENSOR))
                if expr.op == "*" and any(isinstance(each, flow.Group) and each.kind == "list" for each in operands):
                    return self.repeated(values, expr.span)
                result = self.made_of(values, Value(((f"@{expr.span.start}",),), types, tags=tags))
                if not any(isinstance(operand, flow.Lit) for operand in operands):  # a count grows by numbers
                    self.compute(values, result)
                return result
            case flow.Choice(test=test, then=then, other=other):
                condition = self.test(test)
                results: list[Value] = []
                one = self.nodes(lambda: results.append(self.value(then)))
                two = self.nodes(lambda: results.append(self.value(other)))
                if one != b.NOTHING or two != b.NOTHING:
                    self.emit(b.Either(condition, one, two, expr.span))
                if condition in (TRUE, FALSE):
                    return results[0] if condition == TRUE else results[1]
                return union(results)
            case flow.Each():
                return self.comprehension(expr)
            case flow.Walrus(target=target, value=inner):
                self._inside += 1
                value = self.value(inner)
                self.bind(target, value, expr.span)
                return self.variable(target.id) if self.emitting else value
            case flow.Func(id=name):
                return self.function_value(name)
            case flow.Imported():
                return self.imported(expr)
            case flow.Text(parts=parts):
                return self.made_of([self.value(part) for part in parts], Value(types=(Type("str"),)))

    def repeated(self, values: Sequence[Value], span: Span) -> Value:
        """A list of the same items many times: `[None] * n`."""
        tags = frozenset(("captured",)) if self.in_capture else frozenset[str]()
        items = [item for value in values for item in value.items or ()]
        each = items[0] if len(items) == 1 and self.is_object(items[0]) else None
        types = (Type("list", each.types if each is not None else ()),)
        tags |= {"doubled"} if each is not None else frozenset()
        result = self.made_of(values, Value(((f"@{span.start}",),), types, tags=tags, each=each))
        self.compute(values, result)
        return result

    def handed_on(self, expr: flow.Attr, held: Value) -> Value | None:
        """A method of a container, or of a graph, that is not called here: the function that calls it."""
        known = {t.name for t in held.types}
        if held.slot is None or not known or not (known <= CONTAINERS if expr.name == "clear" else known == {GRAPH}):
            return None
        if held.slot[0].startswith("mod:") and isinstance(expr.base, flow.Name):
            name = written_out(self.project, self.entry, expr, None)
            return Value(calls=(Bound(name, None),)) if name is not None else None
        if not isinstance(expr.base, flow.Attr) or not isinstance(expr.base.base, flow.Name):
            return None
        owner = self.variable(expr.base.base.id)
        if not owner.types:
            return None
        name = written_out(self.project, self.entry, expr, owner.types[0].name)
        return Value(calls=(Bound(name, owner),)) if name is not None else None

    def argument(self, expr: Expr) -> Value:
        """An argument: what is handed on without a call is a function there."""
        outer, self.handing = self.handing, True
        try:
            value = self.value(expr)
        finally:
            self.handing = outer
        return value

    def as_function(self, expr: flow.Name | flow.Attr, value: Value) -> Value:
        """What is handed on: a function that calls it, where that is known to do something and no function of the project."""
        if value.calls or value.symbol is None or value.symbol.kind != "external":
            return value
        entries = self.vocabulary.called(self.names_of(value))
        if not any(each.does in _HANDED for each in entries):
            return value
        if all(each.of != "self" for each in entries):
            return value._replace(calls=(Bound(of_nothing(self.project, self.entry, expr), None),))
        if not isinstance(expr, flow.Attr):
            return value
        subject = expr.base.base if isinstance(expr.base, flow.Attr) else expr.base
        found: list[Value] = []
        self.nodes(lambda: found.append(self.value(subject)))
        return value._replace(calls=(Bound(about(self.project, self.entry, expr), None, (found[0],)),))

    def either_value(self, op: str, operands: tuple[Expr, ...], expr: flow.Op) -> Value:
        first = self.value(operands[0])
        test = self.truth(first, operands[0].span)
        rest: list[Value] = []
        node = self.nodes(lambda: rest.append(self.value(self._rest(expr))))
        if node != b.NOTHING:
            go, skip = (node, b.NOTHING) if op == "and" else (b.NOTHING, node)
            self.emit(b.Either(test, go, skip, expr.span))
        result = union([first, rest[0]]) if op == "or" else rest[0]
        second = self.truth(rest[0], expr.span)
        return result._replace(test=(op, test, second))

    def comprehension(self, expr: flow.Each) -> Value:
        iterable = self.value(expr.iterable)
        saved = dict(self.env)
        self._inside += 1
        try:
            return self._comprehended(expr, iterable, saved)
        finally:
            self._inside -= 1

    def _comprehended(self, expr: flow.Each, iterable: Value, saved: dict[str, Value]) -> Value:
        values: list[Value] = []

        def once(item: Value) -> None:
            outer, self.passing = self.passing, True
            self.bind(expr.target, item, expr.span)
            self.passing = outer
            if FALSE in [self.test(test) for test in expr.tests]:
                return
            if expr.key is not None:
                self.value(expr.key)
            values.append(self.value(expr.element))

        items = self.listed(iterable, expr.span)
        if items is not None and len(items) <= unrolled(iterable) and self.emitting:
            bodies = tuple(self.nodes(partial(once, item)) for item in items)
            self.env = saved
            if any(body != b.NOTHING for body in bodies):
                self.emit(b.Each(bodies, b.NOTHING, expr.span))
            types = (Type("list", union(values).types),)
            tags = iterable.tags & {"namespace"}
            listed = Value(((f"@{expr.span.start}",),), types, items=tuple(values), tags=tags)
            return self.made_of(values, listed)
        node = self.nodes(lambda: once(met(iterable.element)))
        self.env = saved
        if node != b.NOTHING:
            self.emit(b.Repeat(node, b.NOTHING, iterable.places[:1], expr.span))
        element = union(values)
        self.many.update(place[0] for place in all_of(element) if len(place) == 1 and place[0][0] == "@")
        kind = "iterator" if expr.kind == "generator" else expr.kind
        tags = element.tags & {"captured"}
        if expr.key is not None and self.is_object(element) and not is_made_in(element.places[0], expr.span):
            tags |= {"doubled"}
        if is_shared_out(element, expr.span):
            tags |= {"doubled"}
        tags |= {"part"} if expr.tests else set[str]()
        result = Value(((f"@{expr.span.start}",),), (Type(kind, element.types),), each=element, tags=tags)
        return self.made_of(values, result)

    def test(self, expr: Expr) -> Test:
        """What an expression's truth says; calls in it are emitted."""
        match expr:
            case flow.Op(op="not", operands=(operand,)):
                return negated(self.test(operand))
            case flow.Op(op="and" | "or" as op, operands=operands):
                first = self.test(operands[0])
                rest: list[Test] = []
                node = self.nodes(lambda: rest.append(self.test(self._rest(expr))))
                if node != b.NOTHING:
                    go, skip = (node, b.NOTHING) if op == "and" else (b.NOTHING, node)
                    self.emit(b.Either(first, go, skip, expr.span))
                return (op, first, rest[0])
            case flow.Op(op="is" | "is not" | "==" | "!=" as op, operands=(left, right)):
                result = self.comparison("is" if op.startswith("is") else "==", left, right, expr.span)
                return negated(result) if op in ("is not", "!=") else result
            case flow.Op(
                op=">" | "<" | ">=" | "<=" as op, operands=(flow.Call() as left, flow.Lit(value=0 | 1 as n))
            ) if last_word(left.callee) == "len" and left.args:
                test = self.truth(self.value(left.args[0]), expr.span)
                return test if (op, n) in ((">", 0), (">=", 1)) else negated(test)
            case flow.Call() if last_word(expr.callee) == "bool" and len(expr.args) == 1:
                return self.test(expr.args[0])
            case flow.Walrus(target=target, value=inner):
                self._inside += 1
                self.bind(target, self.value(inner), expr.span)
                return self.test(target)
            case flow.Call(callee=flow.Name(id="isinstance"), args=(flow.Name() as one, kinds)) if self.is_no(
                self.value(one), kinds
            ):
                return FALSE
        return self.truth(self.value(expr), expr.span)

    def one_of(self, value: Value, display: Expr) -> Test | None:
        """`state in (State.ASLEEP, State.DOWN)`; None where it asks for something else."""
        items = display.items if isinstance(display, flow.Group) else ()
        if len(value.places) != 1 or not items or not all(isinstance(each, flow.Attr | flow.Lit) for each in items):
            return None
        constants = [self.constant(self.value(each)) for each in items]
        if None in constants:
            return None
        tests = tuple(("atom", f"={constant}", value.places[0]) for constant in constants)
        return tests[0] if len(tests) == 1 else ("or", *tests)

    @staticmethod
    def _rest(expr: flow.Op) -> Expr:
        return expr.operands[1] if len(expr.operands) == 2 else expr._replace(operands=expr.operands[1:])

    def comparison(self, op: str, left: Expr, right: Expr, span: Span) -> Test:
        """`left is right`, `left == right`."""
        match left, right:
            case (_, flow.Lit(value=None)):
                return self.is_none(self.value(left), span)
            case (_, flow.Lit(value=bool(truth))):
                test = self.test(left)
                return test if truth else negated(test)
            case (flow.Call(args=(argument,)) as call, flow.Lit(value=0)) if last_word(call.callee) == "len":
                return negated(self.truth(self.value(argument), span))
        if (
            isinstance(left, flow.Attr)
            and left.name == "type"
            and isinstance(right, flow.Lit)
            and right.value == "cuda"
        ):
            self.value(left)
            return DEVICE
        one, other = self.value(left), self.value(right)
        if op == "is" and self.is_object(one) and one.places == other.places and one.places[0][0] == self.me:
            return TRUE  # one attribute under two names
        if self.constant(one) is not None:
            one, other = other, one
        if (constant := self.constant(other)) is not None and len(one.places) == 1:
            return ("atom", f"={constant}", one.places[0])
        text = self.module.source.text(right.span)
        if len(one.places) == 1 and (other.symbol is not None or isinstance(right, flow.Lit) or not other.places):
            return ("atom", f"={text}", one.places[0])
        return self.compare(op, (one, other), span)
