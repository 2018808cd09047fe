"""Functions to behaviors: names become places, calls become effects or calls of other behaviors.

Two readings share one evaluator. Building a behavior walks the flow in order, with the local variables as they stand at each
point. Typing asks what an attribute or a return value can be, anywhere, and looks local variables up by all their bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from graphlint import behavior as b
from graphlint import flow
from graphlint.assignments import falls_through, given_locally
from graphlint.behavior import Behavior, Node
from graphlint.effects import Effect
from graphlint.emptying import emptying
from graphlint.expressions import Expressions
from graphlint.facts import MODULE
from graphlint.flow import Expr, Flow
from graphlint.frame import keyed, last_word
from graphlint.handing import is_handed, is_of_handed
from graphlint.knowledge import Knowledge
from graphlint.lookups import unrolled
from graphlint.project import FunctionEntry, Project
from graphlint.rebasing import holds_captured
from graphlint.source import Span
from graphlint.values import (
    CONSTANTS,
    CONTAINERS,
    ELEMENT,
    FALSE,
    GRAPH,
    MEMO,
    NOTHING_KNOWN,
    TENSOR,
    TRUE,
    Bound,
    Origin,
    Place,
    Test,
    Type,
    Value,
    flat,
    implies_capture,
    met,
    negated,
    union,
)
from graphlint.vocabulary import Vocabulary

_MOST_VARIANTS = 8
_MOST_HANDED = 24
"""Most variants of a function that is handed other functions."""
_MOST_ASKED = 40
"""Most functions that are asked whether one that is handed over does something, itself or through them."""
_SHORT = 300
"""Bytes of a function that is built whoever calls it."""
_TAKES = frozenset(("clear", "drop", "pop"))
_MISSES = frozenset(("KeyError", "AttributeError", "LookupError", "IndexError"))


class Behaviors(Knowledge):
    """The behaviors of a project, built when asked for."""

    def __init__(self, project: Project, vocabulary: Vocabulary) -> None:
        super().__init__(project, vocabulary)
        self.candidates: set[str] | None = None
        """Functions that may be built; None: all. A call of another is kept by name and does nothing until it is built."""
        self._built: dict[str, Behavior | None] = {}
        self._variants: dict[str, list[str]] = {}
        self._types: dict[str, Mapping[str, tuple[Type, ...]]] = {}
        self._typing: dict[str, Evaluation] = {}

    def build(self, name: str, types: Mapping[str, tuple[Type, ...]] | None = None) -> Behavior | None:
        """Behavior of a function; `types` are those of parameters that say none themselves.

        None while it is being built, which ends a recursion, and for a function that is no candidate.
        """
        handed = types is not None and is_handed(types)
        if not handed and not self._is_candidate(name):
            return None
        key = name
        if types:
            key += "|" + ",".join(f"{p}:{'/'.join(map(_text, ts))}" for p, ts in sorted(types.items()))
            variants = self._variants.setdefault(name, [])
            if key not in variants:
                if len(variants) >= (_MOST_HANDED if handed else _MOST_VARIANTS):
                    key, types = name, None
                else:
                    variants.append(key)
                    self._types[key] = types
        if key not in self._built:
            self._built[key] = None
            entry = self.project.functions[name]
            try:
                self._built[key] = Evaluation(self, entry, types or {}, emitting=True).behavior(key)
            except RecursionError:  # of hundreds of functions that call one another the innermost are left out
                del self._built[key]
                return None
        return self._built[key]

    def _is_candidate(self, name: str) -> bool:
        """Whether a function may be built: a short one costs little, and says what a test in its caller means."""
        if self.candidates is None or name in self.candidates or ".<locals>." in name:
            return True
        start, end = self.project.functions[name].facts.span
        return end - start <= _SHORT

    def reader(self, function: FunctionEntry, *, handing: bool = False) -> Callable[[Expr], Value]:
        """What tells the value of an expression of a function, wherever in it; nothing is emitted."""
        frame = Evaluation(self, function, {}, emitting=False)
        return frame.argument if handing else frame.value

    def typed(self, function: FunctionEntry, expr: Expr) -> Value:
        """What an expression of a function can be, wherever in it; nothing is emitted."""
        frame = self._typing.get(function.name)
        if frame is None:
            frame = self._typing[function.name] = Evaluation(self, function, {}, emitting=False)
        return frame.value(expr)

    def does_something(self, name: str) -> bool:
        """Whether something happens in a function, or it gives something up, as far as it is built; where all are, nobody asks."""
        if self.candidates is None:
            return True
        first = self.build(name)
        waiting, seen = [first] if first is not None else [], {name}
        while waiting:
            behavior = waiting.pop()
            if (
                behavior.acts
                or behavior.emptied
                or any(isinstance(node, b.Touches) and node.how == "pop" for node in behavior.nodes)
            ):
                return True
            for key in sorted(behavior.callees - seen):
                seen.add(key)
                if (callee := self._built.get(key)) is not None and len(seen) <= _MOST_ASKED:
                    waiting.append(callee)
        return False

    def built(self, key: str) -> Behavior | None:
        """The behavior of a key, if it is built."""
        return self._built.get(key)

    def put(self, behavior: Behavior) -> None:
        self._built[behavior.key] = behavior

    def is_built(self, name: str) -> bool:
        return name in self._built

    def forget(self, keys: Iterable[str]) -> None:
        """Drop behaviors that were built before a callee of theirs became a candidate."""
        for key in keys:
            self._built.pop(key, None)

    def renew(self, keys: Iterable[str]) -> None:
        """Build again what was dropped and is one of several readings of a function: its callers know it by its key."""
        for key in keys:
            types = self._types.get(key)
            if types is not None:
                self.build(key.partition("|")[0], types)

    def all(self) -> Iterator[Behavior]:
        """Every behavior built so far."""
        return (each for each in list(self._built.values()) if each is not None)


class Evaluation(Expressions):
    """The evaluation of one function: its statements, on top of its expressions."""

    def behavior(self, key: str) -> Behavior:
        lowered = self.entry.lowered
        self.globals = lowered.globals
        for nested in lowered.nested:
            name = f"{self.module.name}.{nested.qualname}"
            self.project.functions.setdefault(name, FunctionEntry(name, self.module, nested, self.entry.name))
        self.run(lowered.flow)
        node = b.order(self.out)
        if self.remembered is not None:  # what is kept already is given without running it again
            span = self.entry.facts.span
            node = b.Either(("atom", "none", self.remembered), node, b.Leaves("return", span), span)
        self.note_ways(node)
        self._note_put_again(node)
        self.keep_exits(node)
        self._note_cells()
        returns = union(self.returns) if self.returns else self._declared_return()
        if returns.fresh:  # what is kept here is no new memory of the caller's
            kept = {
                origin
                for each in b.walk(node)
                if isinstance(each, b.Touches)
                and each.fresh
                and each.places
                and not each.places[0][0].startswith(("@", "%"))
                for origin in each.fresh
            }
            returns = returns._replace(fresh=tuple(origin for origin in returns.fresh if origin not in kept))
        return Behavior(
            key,
            self.entry.name,
            node,
            returns,
            union(self.yields),
            self.entry.facts.params[0].name
            if self.entry.owner is not None and self.entry.kind in ("method", "property") and self.entry.facts.params
            else None,
            self.aliases,
            tuple(self.unresolved),
            frozenset(self.captured_calls) if not is_of_handed(key) else frozenset(),
            frozenset(self.reads),
            reads_in_capture=frozenset(self.captured_reads) if not is_of_handed(key) else frozenset(),
            given=self.given,
            asks_capture=_asks_capture(self.return_tests),
            yields_in_capture=self.yields_in_capture,
            yields_in_pool=self.yields_in_pool,
            gives_pooled=any(place[0] in self.pooled for place in returns.places),
            computed=frozenset(self.computed),
            many=frozenset(self.many),
            params_in_capture=frozenset(self.captured_params) if not is_of_handed(key) else frozenset(),
            fills=self.fills,
            yielded=tuple(self.yields) if lowered.is_generator and _only_yields(lowered.flow) else None,
        )

    def _declared_return(self) -> Value:
        return Value(types=self.project.annotation(self.module, self.entry.facts.returns))

    def _note_cells(self) -> None:
        """What the variables are that functions in this one read, where each is given one object that is made here, once."""
        lowered = self.entry.lowered
        if not lowered.nested or not any(map(self.is_object, self.env.values())):
            return
        words = frozenset(word for each in lowered.nested for word in each.words)
        flows = [lowered.flow, *(each.flow for each in lowered.nested if each.flow is not None)]
        given = [name for each in flows for name, _, _ in given_locally(each)]
        for name, value in self.env.items():
            if name not in words:
                continue
            if self.is_object(value) and value.places[0][0][0] == "@" and given.count(name) == 1:
                self.aliases[f"cell:{self.entry.name}", name] = value.places

    def _note_put_again(self, node: Node) -> None:
        """Note which tables keep what a search in them came by, under one more key; where nothing is taken out, it has both."""
        if self.put_again:
            taken = {each.slot for each in b.walk(node) if isinstance(each, b.Touches) and each.how in _TAKES}
            self.all.doubled |= self.put_again - taken

    def run(self, body: Flow) -> None:
        match body:
            case flow.Eval(value=value):
                self.value(value)
            case flow.Bind():
                self.bind_statement(body)
            case flow.Drop(target=target, span=span):
                self.drop(target, span)
            case flow.Seq(items=items):
                before = len(self.out)
                for item in items:
                    start = len(self.out)
                    self.run(item)
                    if start > before and _cannot_fail(item):
                        self.follow_at_once(start)
                    before = start
            case flow.Alt(test=test, then=then, other=other, span=span):
                self.branch(self.test(test), then, other, span, *self.narrowed(test))
            case flow.Star():
                self.loop(body)
            case flow.Scope():
                self.scope(body)
            case flow.Try():
                self.try_(body)
            case flow.Exit(kind=kind, value=value, span=span):
                result = self.value(value) if value is not None else Value(tags=frozenset(("none",)))
                if kind == "return":
                    self.returns.append(result)
                    said = self.truth(result, span)
                    self.return_tests.append(said)
                    self.remember(result, span)
                    self.emit(b.Leaves(kind, span, said))
                else:
                    self.emit(b.Leaves(kind, span, raises=self.exception(value) if kind == "raise" else ""))

    def follow_at_once(self, start: int) -> None:
        """Note of a write what stands right before it, so that nothing can fail between the two."""
        while start and isinstance(node := self.out[start - 1], b.Touches) and _is_variable(node):
            start -= 1
        before = [node for node in self.out[max(start - 1, 0) : start] if not isinstance(node, b.Order)]
        for at, each in enumerate(self.out[start:], start):
            if isinstance(each, b.Touches):
                self.out[at] = each._replace(tags=each.tags | {b.behind(node.span) for node in before})
                before.append(each)

    def block(self, body: Flow) -> Node:
        """What a part of the function does, taken by itself."""
        return self.nodes(lambda: self.run(body))

    def remember(self, result: Value, span: Span) -> None:
        """Keep what a function with a cache around it returns: for the process, a property for its object."""
        if not result.fresh and self.entry.memo and self._says_device_memory():
            result = result._replace(fresh=(Origin(self.entry.name, span),), tags=result.tags | {"tensor"})
        keeper = self.entry.memo
        kept = result.fresh or result.tags & {"pool", "plan"} or (keeper == "function" and self._is_graph(result))
        if not kept or not self.emitting:
            return
        params = [param.name for param in self.entry.facts.params]
        if keeper == "property" and self.entry.owner is not None:
            place = self.remembered = (f"${params[0]}", self.entry.facts.name)
            self.touch("write", (place,), (self.entry.owner, self.entry.facts.name), span, result)
        elif keeper == "function":
            slot = (f"mod:{self.entry.name}", MEMO)
            self.remembered = (*slot, ELEMENT)
            key = Value(items=tuple(self.env.get(name, NOTHING_KNOWN) for name in params))
            reads = frozenset((f"${name}",) for name in params)
            self.touch("add", (slot,), slot, span, result, key=key._replace(reads=reads))

    def _is_graph(self, value: Value) -> bool:
        """Whether a value is a graph, or holds one among its items."""
        types = (self.vocabulary.canonical(t.name) for t in flat(value.types))
        return "graph" in value.tags or GRAPH in types or any(map(self._is_graph, value.items or ()))

    def _says_device_memory(self) -> bool:
        """Whether a function is declared to return a tensor, and has to do with a device."""
        returned = self.project.annotation(self.module, self.entry.facts.returns)
        tensors = bool(returned) and all(self.vocabulary.canonical(t.name) == TENSOR for t in returned)
        return tensors and not self.used_pool and not self.entry.facts.words.isdisjoint(("device", "cuda"))

    def branch(
        self,
        test: Test,
        then: Flow,
        other: Flow,
        span: Span,
        if_true: Mapping[str, Value] = {},
        if_false: Mapping[str, Value] = {},
    ) -> None:
        before = dict(self.env)
        self.env.update(if_true)
        then_node = self.block(then)
        after_then, self.env = self.env, {**before, **if_false}
        other_node = self.block(other)
        if not falls_through(other):
            self.env = after_then
        elif falls_through(then):
            kept = {name: before[name] for name, value in if_true.items() if after_then.get(name) is value}
            self.env = _join({**after_then, **kept}, self.env)
        if then_node != b.NOTHING or other_node != b.NOTHING:
            self.emit(b.Either(test, then_node, other_node, span))

    def loop(self, star: flow.Star) -> None:
        self.went_round.append(star.span)
        if star.iterable is None:
            self.while_(star)
            return
        value = self.value(star.iterable)
        known = self.listed(value, star.span)
        if known is not None and len(known) <= unrolled(value):
            bodies = []
            for item in known:

                def once(item: Value = item) -> None:
                    self.come_round(star, item)
                    self.run(star.body)

                bodies.append(self.nodes(once))
            other = self.block(star.other)
            each = b.Each(tuple(bodies), other, star.span)
            constant = bool(known) and all(item.literal is not None for item in known)
            kept = value.slot is not None and len(value.places) == 1 and not constant  # somebody may have emptied it
            self.emit(b.Either(("atom", "true", value.places[0]), each, b.NOTHING, star.span) if kept else each)
            return
        found = emptying(star, self.entry.lowered.flow, self.all.local_bindings(self.entry)) if self.emitting else None
        pair = (found.table, found.key) if found is not None else None
        if found is None or not found.tests:
            self.rounds(star, value, pair)
            return
        tests = tuple(self.test(each.expr) if each.truth else negated(self.test(each.expr)) for each in found.tests)
        before = dict(self.env)
        whole = self.nodes(lambda: self.rounds(star, value, pair))
        self.env = before
        some = self.nodes(lambda: self.rounds(star, value, None))
        if whole != b.NOTHING or some != b.NOTHING:
            self.emit(b.Either(tests[0] if len(tests) == 1 else ("and", *tests), whole, some, star.span))

    def come_round(self, star: flow.Star, item: Value) -> None:
        """The variable of a loop is given the next item."""
        if star.target is not None:
            outer, self.passing = self.passing, True
            self.bind(star.target, item, star.span)
            self.passing = outer

    def rounds(self, star: flow.Star, value: Value, emptied: tuple[str, str] | None) -> None:
        """A loop over any items; `emptied`: the table that every one is taken out of, and the variable with the key."""
        before = dict(self.env)

        def body() -> None:
            self.come_round(star, met(value.element))
            self.run(star.body)

        self.loosened(star.body)
        self.emptied |= {emptied} if emptied is not None else set()
        self.loops.append(star.span)
        node = self.nodes(body)
        self.loops.pop()
        self.emptied -= {emptied} if emptied is not None else set()
        self.env = _join(before, self.env)
        other = self.block(star.other)
        if node != b.NOTHING or other != b.NOTHING:
            self.emit(b.Repeat(node, other, value.places[:1], star.span, sole=len(value.places) == 1))

    def while_(self, star: flow.Star) -> None:
        self.loosened(star.body)
        before = dict(self.env)
        certain = isinstance(star.test, flow.Lit) and bool(star.test.value)

        def body() -> None:
            test = self.test(star.test) if star.test is not None else TRUE
            inner = self.block(star.body)
            self.emit(b.Either(test, inner, b.Leaves("break", star.span), star.span))

        self.loops.append(star.span)
        node = self.nodes(body)
        self.loops.pop()
        self.env = _join(before, self.env)
        other = self.block(star.other)
        self.emit(b.Repeat(node, other, (), star.span, certain))

    def try_(self, body: flow.Try) -> None:
        before = dict(self.env)
        outer, self.lookups = self.lookups, []
        main = self.block(body.body)
        looked, self.lookups = self.lookups, outer
        after = self.env
        handlers = []
        ends = [after] if falls_through(body.body) else []
        every = [after]
        misses = False
        for handler in body.handlers:
            self.env = _join(dict(before), after)
            if handler.name:
                self.env[handler.name] = NOTHING_KNOWN
            named = self.caught(handler.types)
            types = tuple(map(self.exception, named))
            misses |= not _MISSES.isdisjoint(types)
            node = self.block(handler.body)
            everything = handler.types is None or any(map(self.catches_all, named))
            handlers.append(b.Handler(everything, node, types, handler.span))
            every.append(self.env)
            if falls_through(handler.body):
                ends.append(self.env)
        self.env = ends[0] if ends else after
        for each in ends[1:]:
            self.env = _handled(self.env, each)
        main, held = _held_at_end(main)
        other = b.order([*held, self.block(body.other)])
        final = self._final(body.final, every)
        lookups = tuple(dict.fromkeys(looked)) if misses else ()
        self.emit(b.Guarded(main, tuple(handlers), other, final, body.span, lookups, _last_call(body.body)))

    def _final(self, body: Flow, every: Sequence[dict[str, Value]]) -> Node:
        """A `finally`, which also runs where a handler raises: the variables are then what this one gave them."""
        ended = self.env
        if body == flow.NOTHING:
            return b.NOTHING
        joined = dict(ended)
        for each in every:
            joined = _handled(joined, each)
        self.env = dict(joined)
        node = self.block(body)
        self.env = {**ended, **{name: value for name, value in self.env.items() if joined.get(name) is not value}}
        return node

    def caught(self, types: Expr | None) -> tuple[Expr, ...]:
        """The classes that a handler names, if by way of a tuple that the module has a name for."""
        symbol = self.project.lookup(self.module, types.id) if isinstance(types, flow.Name) else None
        if symbol is not None and symbol.kind == "variable":
            module, _, name = symbol.name.rpartition(".")
            values = [bind.value for bind in self.project.modules[module].variables.get(name, ())]
            if len(values) == 1 and isinstance(values[0], flow.Group):
                return values[0].items
        return types.items if isinstance(types, flow.Group) else (types,) if types is not None else ()

    @staticmethod
    def catches_all(types: Expr | None) -> bool:
        return types is None or (isinstance(types, flow.Name) and types.id in ("Exception", "BaseException"))

    def bind_statement(self, bind: flow.Bind) -> None:
        if bind.value is None:
            if isinstance(bind.target, flow.Name):
                types = self.project.annotation(self.module, bind.annotation)
                self.env.setdefault(bind.target.id, Value(((f"@{bind.span.start}",),), types))
            return
        if not bind.op and (added := _added_to(bind.target, bind.value)):
            before = self.value(bind.target)
            for each in added:
                self.touch("add", before.places, before.slot, bind.span, self.value(each))
            return
        if not bind.op and (kept := _kept_or(bind)) is not None:
            test, new, when = kept
            then: Flow = new if when else flow.NOTHING
            other: Flow = flow.NOTHING if when else new
            self.branch(self.test(test), then, other, bind.span)
            return
        if not bind.op and (table := _thinned(bind.target, bind.value)) is not None:
            if not isinstance(table, flow.Name) or self.variable(table.id).slot is not None:
                self.value(bind.value)
                held = self.value(table)
                self.touch("pop", held.places, held.slot, bind.span, held=held.types)
                return
        start = len(self.out)
        value = self.value(bind.value)
        if value.slot is not None and _is_under_another(bind):
            self.put_again.add(value.slot)
        is_copy = isinstance(bind.target, flow.Name) and _is_copy(bind.value) and not bind.op
        if bind.op:
            before = self.value(bind.target)
            how = "count" if bind.op == "-" else "write"
            if isinstance(bind.target, flow.Name) and bind.op == "+" and isinstance(bind.value, flow.Group):
                self.touch("add", before.places, before.slot, bind.span, value.element)
                self.filled(bind.target, before, value.element, "list", one=False)
            elif isinstance(bind.target, flow.Name) and bind.target.id not in self.globals:
                self.env[bind.target.id] = Value(((f"@{bind.span.start}",),), before.types)
            elif bind.op == "+" and isinstance(bind.value, flow.Group) and bind.value.items:
                self.touch("add", before.places, before.slot, bind.span, value.element)
            elif bind.op == "|" and isinstance(bind.value, flow.Group) and bind.value.kind == "dict":
                self.updated(before, bind.value, value, bind.span)
            else:
                tags = frozenset(("raised",)) if bind.op == "+" else frozenset[str]()
                self.emit(b.Touches(how, before.places, before.slot, bind.span, tags, value.places))
            return
        if bind.annotation is not None and not value.types:
            value = value._replace(types=self.project.annotation(self.module, bind.annotation))
        taken = self.taken_at(start, bind)
        self.bind(bind.target, value, bind.span)
        if is_copy:
            self.copies.add(bind.target.id)  # type: ignore[union-attr]
        if taken is not None and not self.loops:  # else it has but the last of many
            self.hold_taken(bind.target, taken.places, taken.slot, bind.span)

    def taken_at(self, start: int, bind: flow.Bind) -> b.Touches | None:
        """What takes an item out of an attribute's container, where that is what a variable is given."""
        at = len(self.out) - 1
        if at < start or bind.value is None:
            return None
        node = self.out[at]
        if not isinstance(node, b.Touches) or node.how != "pop" or node.slot is None:
            return None
        if not isinstance(bind.target, flow.Name | flow.Group):
            return None
        again = any(isinstance(each, b.Touches) and each.span == node.span for each in self.out[:start])
        if again or node.span != bind.value.span:
            return None  # `self.steps[n] = step = self.steps.pop(0)` says it twice
        self.out[at] = node = node._replace(tags=node.tags | {"taken"})
        return node

    def bind(self, target: Expr, value: Value, span: Span) -> None:
        """Give a target a value."""
        match target:
            case flow.Name(id=name) if name in self.globals and (kept := self.cell(name)) is not None:
                self.touch("write", (kept,), kept, span, value)
            case flow.Name(id=name) if name in self.globals or self.entry.facts.qualname == MODULE:
                place = (f"mod:{self.module.name}", name)
                self.touch("write", (place,), (f"mod:{self.module.name}", name), span, value)
                if self.entry.facts.qualname == MODULE:
                    self.env[name] = value._replace(places=(place,), slot=place)
            case flow.Name(id=name):
                self.let_go(name, span)
                self.copies.discard(name)
                (self.passed.add if self.passing else self.passed.discard)(name)
                if value.tags & CONSTANTS:
                    local: Place = (f"%{name}",)
                    self.emit(b.Touches("write", (local,), None, span, value.tags))
                    value = value._replace(places=(local,))
                elif not value.places and value.symbol is None:
                    value = value._replace(places=((f"@{span.start}",),))
                self.env[name] = value
                if holds_captured(value) and not self.is_plain(value):
                    if self.in_capture:
                        self.given_here.append(name)
                    else:
                        self.hold(name, self.graphs_of(value), span)
                else:
                    self.hold_object(name, value, span)
            case flow.Attr(base=base, name=name):
                owner = self.value(base)
                if name == "data" and owner.places and self.is_tensor(owner):
                    self.touch("write", owner.places, owner.slot, span, value, owner.types)
                    return
                if name == "data" and "empty" in value.tags and owner.slot is not None:
                    self.touch("write", owner.places, owner.slot, span, value, owner.types)
                    return
                setters = [each for t in owner.types if (each := self.project.setter(t.name, name)) is not None]
                if setters:
                    self.call_functions(tuple(Bound(each, owner) for each in setters), (value,), (), span)
                    return
                held = self.attribute(owner, name, span, quiet=True)
                self.touch("write", held.places, held.slot, span, value, held.types)
                if isinstance(base, flow.Name) and len(owner.places) == 1 and len(owner.places[0]) == 1:
                    self.given_attribute(base.id, name, value, span)
                if self.holding and value.tags & {"none", "empty"}:
                    self.part_gone(owner, name, span)
            case flow.Item(base=base, key=index):
                container = self.value(base)
                entry = self.entry_of(base, container, index)
                if entry is not None:
                    self.touch("write", entry.places, entry.slot, span, value, entry.types)
                    return
                key = self.value(index)
                if flow.is_region(index):  # of a tensor: what was there stays, and is written to
                    return
                if methods := self.item_methods(container, "__setitem__"):
                    self.call_functions(methods, (key, value), (), span)
                    if not self.is_own_container(container):
                        return
                if not (isinstance(index, flow.Op) and index.op == "Slice"):
                    self.touch("add", container.places, container.slot, span, value, key=key)
                    self.filled(base, container, value)
                elif "empty" in value.tags:
                    self.let_go(base.id if isinstance(base, flow.Name) else "", span)
                    self.touch("clear", container.places, container.slot, span, held=container.types)
            case flow.Group(items=items):
                values = value.items if value.items is not None and len(value.items) == len(items) else None
                taken = {place for each in values or () for place in each.places}
                moved: dict[int, b.Touches] = {}
                parts: list[Value] = []
                for i, item in enumerate(items):
                    part = values[i] if values is not None else self.part(value, i, span)
                    self.compute((value,), part)
                    parts.append(part)
                    before = len(self.out)
                    self.bind(item, part, span)
                    for at in range(before, len(self.out)):  # `old, self.x = self.x, {}` moves, it gives nothing up
                        node = self.out[at]
                        if isinstance(node, b.Touches) and node.how == "write" and taken.intersection(node.places):
                            moved[at] = node
                self.hold_parts(items, value, parts, span, known=values is not None)
                for at, node in moved.items():
                    late = {"saved"} if self.outlived(node.places, span) else set()  # the variable may stand behind it
                    self.out[at] = node._replace(tags=node.tags | {"moved"} | late)
            case flow.Op(op="*", operands=operands):
                self.bind(operands[0], value._replace(items=None), span)

    def item_methods(self, held: Value, name: str) -> tuple[Bound, ...]:
        """What an object of the project does where an item of it is assigned, or deleted."""
        methods = (self.project.method(t.name, name) for t in held.types[:1] if t.name in self.project.classes)
        return tuple(Bound(method, held) for method in methods if method is not None)

    def is_own_container(self, held: Value) -> bool:
        """Whether an object of the project is a dictionary, or another container, itself: the method may call what that does."""
        bases = (each for t in held.types[:1] for each in self.project.mro(t.name)[1:])
        return any(each.rpartition(".")[2] in CONTAINERS or each.endswith("UserDict") for each in bases)

    def drop(self, target: Expr, span: Span) -> None:
        match target:
            case flow.Name(id=name):
                self.let_go(name, span)
                value = self.env.pop(name, NOTHING_KNOWN)
                if value.places and value.places[0][0].startswith("@"):
                    self.touch("drop", value.places, None, span, held=value.types)
            case flow.Attr():
                owner = self.value(target.base)
                held = self.attribute(owner, target.name, span, quiet=True)
                self.touch("drop", held.places, held.slot, span, held=held.types)
                self.part_gone(owner, target.name, span)
            case flow.Item(base=base, key=key):
                held = self.value(base)
                if isinstance(base, flow.Name):
                    self.let_go(base.id, span)
                if (entry := self.entry_of(base, held, key)) is not None:
                    self.touch("drop", entry.places, entry.slot, span, held=entry.types)
                    return
                if flow.is_whole(key):  # `del self.graphs[:]`
                    self.touch("clear", held.places, held.slot, span, held=held.types)
                    return
                if methods := self.item_methods(held, "__delitem__"):
                    self.call_functions(methods, (self.value(key),), (), span)
                    if not self.is_own_container(held):
                        return
                how = "clear" if (flow.dotted_text(base), flow.dotted_text(key)) in self.emptied else "pop"
                gone = NOTHING_KNOWN if how == "clear" else None
                self.touch(how, held.places, held.slot, span, held=held.types, key=gone, strict=True, named=keyed(key))
                if how == "pop":
                    element = held.element
                    self.destroyed(element.types, element.places, span)

    def scope(self, scope: flow.Scope) -> None:
        """`with`: a capture, a context manager of the project, an object with `__enter__`, or nothing that matters."""
        if isinstance(scope.context, flow.Choice):
            choice = scope.context
            then, other = (scope._replace(context=each) for each in (choice.then, choice.other))
            self.branch(self.test(choice.test), then, other, choice.span)
            return
        if isinstance(scope.context, flow.Call):
            callee, args, keywords, receiver = self.operands(scope.context)
            for entry in self.vocabulary.entered(self.names_of(callee)):
                if entry.does is Effect.CAPTURE:
                    self.capture(self.context(entry, receiver, args, keywords, scope.span), scope)
                    return
                if entry.makes == "mempool":
                    self.in_pool += 1
                    self.used_pool = True
                    self.run(scope.body)
                    self.in_pool -= 1
                    return
            value = self.invoke(callee, receiver, args, keywords, scope.context)
        else:
            value = self.value(scope.context)
            if any(t.name == GRAPH for t in self.canonical_types(value)):
                span = scope.context.span
                self.emit(b.Happens(Effect.ERASE, (), None, span, "the capture's entry", entry=True))
                self.emit(b.Happens(Effect.CAPTURE, value.places, value.slot, span, "capture"))
                self.inside(scope)
                self.emit(b.Happens(Effect.CAPTURE_END, value.places, value.slot, span, "capture"))
                return
        if value.context is not None:
            self.capture(value.context, scope)
            return
        last = self.out[-1] if self.out else None
        if isinstance(last, b.Calls) and last.span == scope.context.span and self.is_manager(last):
            self.out.pop()
            if scope.target is not None:
                self.bind(scope.target, value, scope.span)
            managers = [each for each in map(self.all.built, last.behaviors) if each is not None]
            own_pool, captures = (
                any(each) for each in ([m.yields_in_pool for m in managers], [m.yields_in_capture for m in managers])
            )
            self.in_pool += own_pool
            self.used_pool |= own_pool
            self.in_capture += captures
            body = self.block(scope.body)
            self.in_pool -= own_pool
            self.in_capture -= captures
            self.emit(b.Within(last, body, scope.span))
            if captures and not self.in_capture:
                self.hold_made(scope.span)
            return
        for t in value.types:
            enter = self.project.method(t.name, "__enter__") or self.project.method(t.name, "__aenter__")
            leave = self.project.method(t.name, "__exit__") or self.project.method(t.name, "__aexit__")
            if enter is None and leave is None:
                continue
            span = scope.context.span
            entered = self.call_functions((Bound(enter, value),), (), (), span) if enter else value
            if scope.target is not None:
                self.bind(scope.target, entered if entered.types else value, scope.span)
            body = self.block(scope.body)
            final = self.left(leave, value, span)
            self.emit(b.Guarded(body, (), b.NOTHING, final, scope.span))
            return
        if isinstance(scope.context, flow.Call) and last_word(scope.context.callee) == "closing" and args:
            close = self.attribute(args[0], "close", scope.span).calls
            if scope.target is not None:
                self.bind(scope.target, args[0], scope.span)
            body = self.block(scope.body)
            final = self.nodes(lambda: close and self.call_functions(close, (), (), scope.context.span))
            self.emit(b.Guarded(body, (), b.NOTHING, final, scope.span))
            return
        if scope.target is not None:
            self.bind(scope.target, value, scope.span)
        if self.is_stack(value):
            body = self.block(scope.body)
            span = scope.context.span
            handlers = self.failing(value, span)
            self.emit(b.Guarded(body, handlers, b.NOTHING, self.unwound(value, span), scope.span))
            return
        suppresses = isinstance(scope.context, flow.Call) and last_word(scope.context.callee) == "suppress"
        body = self.block(scope.body)
        if suppresses:
            named = scope.context.args  # type: ignore[union-attr]
            everything = any(map(self.catches_all, named))
            types = tuple(map(self.exception, named))
            handler = b.Handler(everything, b.NOTHING, () if everything else types, scope.context.span)
            self.emit(b.Guarded(body, (handler,), b.NOTHING, b.NOTHING, scope.span))
        elif (last := self.shut_down(value, scope.context.span)) != b.NOTHING:
            self.emit(b.Guarded(body, (), b.NOTHING, last, scope.span))
        else:
            self.emit(body)

    def left(self, leave: str | None, value: Value, span: Span) -> Node:
        """The call of a context manager's `__exit__`."""
        if leave is None:
            return b.NOTHING
        return self.nodes(lambda: self.call_functions((Bound(leave, value),), (), (), span))

    def is_manager(self, calls: b.Calls) -> bool:
        functions = [self.all.build(key.partition("|")[0]) for key in calls.behaviors]
        return any(f is not None and self.project.functions[f.function].is_context_manager for f in functions)

    def inside(self, scope: flow.Scope) -> None:
        if scope.target is not None:
            self.bind(scope.target, NOTHING_KNOWN, scope.span)
        self.in_capture += 1
        self.run(scope.body)
        self.in_capture -= 1

    def capture(self, context: tuple[Value, Value], scope: flow.Scope) -> None:
        """The block of a capture."""
        graph, pool = context
        span = scope.context.span
        self.all.note(pool.slot).tags.add("pool")
        self.emit(b.Happens(Effect.ERASE, (), None, span, "the capture's entry", entry=True))
        happens = b.Happens(
            Effect.CAPTURE, graph.places, graph.slot, span, self.label(scope.context), "instance",
            () if pool.tags & {"none"} else pool.places, pool.slot,
        )  # fmt: skip
        self.emit(happens)
        self.inside(scope)
        self.emit(happens._replace(effect=Effect.CAPTURE_END))
        if not self.in_capture:
            self.capturing = graph.places
            self.hold_made(span)


def _is_under_another(bind: flow.Bind) -> bool:
    """Whether a table is given an entry of it under another key: `self.runners[alias] = self.runners[name]`."""
    match bind.target, bind.value:
        case flow.Item(base=table, key=key), (
            flow.Item(base=other, key=old) | flow.Call(callee=flow.Attr(base=other, name="get"), args=(old, *_))
        ):
            keys = [repr(each.value) if isinstance(each, flow.Lit) else flow.dotted_text(each) for each in (key, old)]
            return flow.dotted_text(table) == flow.dotted_text(other) and all(keys) and keys[0] != keys[1]
    return False


def _thinned(target: Expr, value: Expr) -> Expr | None:
    """The container that some items are left out of: `self.steps = {k: v for k, v in self.steps.items() if k != n}`."""
    if isinstance(target, flow.Item) and flow.is_whole(target.key):
        target = target.base
    if not isinstance(value, flow.Each) or not value.tests or not isinstance(target, flow.Name | flow.Attr):
        return None
    if not isinstance(value.element, flow.Name) or value.element.id not in flow.variables(value.target):
        return None  # what stays becomes something else
    over = value.iterable
    while isinstance(over, flow.Call):
        method = over.callee.name if isinstance(over.callee, flow.Attr) else ""
        if method in ("items", "values", "copy") and isinstance(over.callee, flow.Attr):
            over = over.callee.base
        elif flow.last_name(over.callee) in ("list", "tuple") and len(over.args) == 1:
            over = over.args[0]
        else:
            return None
    text = flow.dotted_text(target)
    return target if text and text == flow.dotted_text(over) else None


def _added_to(target: Expr, value: Expr) -> tuple[Expr, ...]:
    """Items that a container is made longer by: `self.old = [*self.old, new]`, `self.old = self.old + [new]`."""
    name = flow.dotted_text(target) if isinstance(target, flow.Attr) else ""
    match value:
        case flow.Group(items=(flow.Op(op="*", operands=(first,)), *others)) if (
            name and flow.dotted_text(first) == name
        ):
            return tuple(others)
        case flow.Op(op="+", operands=(first, flow.Group(items=others))) if name and flow.dotted_text(first) == name:
            return others
    return ()


def _text(t: Type) -> str:
    """A type as a part of a key."""
    return f"{t.name}[{','.join(map(_text, t.items))}]" if t.items else t.name


def _held_at_end(node: Node) -> tuple[Node, list[Node]]:
    """A block, and what it says at its end of local variables: nothing can fail behind that."""
    items: list[Node] = [*node.items] if isinstance(node, b.Order) else [node]
    held: list[Node] = []
    for at in range(len(items) - 1, -1, -1):
        each = items[at]
        if not isinstance(each, b.Touches):
            break
        if each.slot is not None and each.slot[0].startswith("local:"):
            held.insert(0, items.pop(at))
    return (b.order(items) if held else node), held


def _last_call(body: Flow) -> Span | None:
    """The call that a block ends with, or that only a constant is returned after."""
    items = body.items if isinstance(body, flow.Seq) else (body,)
    match items[-1:]:
        case [flow.Exit(kind="return", value=None | flow.Lit() | flow.Name())]:
            items = items[:-1]
    match items[-1:]:
        case [flow.Eval(value=flow.Call(span=span) | flow.Op(op="await", operands=(flow.Call(span=span),)))]:
            return span
    return None


def _is_variable(node: b.Touches) -> bool:
    """Whether a touch says what a local variable holds, or what a stack has to do."""
    return len(node.places) == 1 and (node.places[0][0][0] == "%" or node.places[0][-1][0] == "<")


def _cannot_fail(statement: Flow) -> bool:
    """Whether a statement gives something a constant, or takes over what an exit stack is to do."""
    match statement:
        case flow.Bind(target=flow.Name() | flow.Attr(), value=flow.Lit(), op=""):
            return True
        case flow.Bind(value=flow.Call() as call) | flow.Eval(value=flow.Call() as call):
            return flow.last_name(call) == "pop_all"
    return False


def _is_copy(value: Expr) -> bool:
    """`list(table)`, `table.copy()`: it keeps the items when the table loses them."""
    match value:
        case flow.Call(callee=flow.Name(id="dict" | "list" | "tuple" | "set"), args=(_,)):
            return True
        case flow.Call(callee=flow.Attr(name="copy"), args=()):
            return True
    return False


def _kept_or(bind: flow.Bind) -> tuple[Expr, flow.Bind, bool] | None:
    """`x = x if test else new`: the test, the assignment that remains, and whether it is made where the test holds."""
    name = flow.dotted_text(bind.target)
    match bind.value:
        case flow.Choice(test=test, then=then, other=other) if name and "." in name:
            if flow.dotted_text(then) == name:
                return test, bind._replace(value=other), False
            if flow.dotted_text(other) == name:
                return test, bind._replace(value=then), True
    return None


def _only_yields(body: Flow) -> bool:
    """Whether a generator does nothing but yield, one after the other."""
    items = body.items if isinstance(body, flow.Seq) else (body,)
    yields = [
        isinstance(each, flow.Eval) and isinstance(each.value, flow.Op) and each.value.op == "yield" for each in items
    ]
    return any(yields) and all(
        found or (isinstance(each, flow.Eval) and isinstance(each.value, flow.Lit))
        for found, each in zip(yields, items, strict=True)
    )


def _asks_capture(tests: Sequence[Test]) -> bool:
    """Whether a function returns whether the stream is being captured, but for where it knows that it is not."""
    said = [test for test in tests if test != FALSE]
    return bool(said) and all(map(implies_capture, said))


def _handled(one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
    """Variables behind a `try`, those marked that a handler has made None."""
    joined = _join(one, other)
    for name, value in other.items():
        if "none" in value.tags and name in one and not one[name].tags & {"none"}:
            joined[name] = joined[name]._replace(tags=joined[name].tags | {"optional"})
    return joined


def _join(one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
    """Variables after two branches meet."""
    result = {}
    for name in {**one, **other}:
        if name in one and name in other:
            result[name] = one[name] if one[name] is other[name] else union([one[name], other[name]])
        else:
            result[name] = one.get(name) or other[name]
    return result
