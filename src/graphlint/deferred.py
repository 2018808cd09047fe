"""What is registered now and runs later: callbacks and contexts on an exit stack.

What a registration will do is evaluated where it stands, with the variables as they are there. A stack that a `with` ends, or
that the same function closes, runs it in place. One that an attribute keeps is closed by another function: each registration
becomes a behavior of its own there, named after the function that registers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from graphlint import behavior as b
from graphlint import flow
from graphlint.behavior import Behavior, Node, Slot
from graphlint.flow import Expr
from graphlint.frame import is_made_in
from graphlint.kinship import Kinship
from graphlint.source import Span
from graphlint.values import NOTHING_KNOWN, Bound, Place, Value

_STACKS = frozenset(("contextlib.ExitStack", "contextlib.AsyncExitStack"))
_CALLBACKS = frozenset(("callback", "push_async_callback"))
_PUSHES = frozenset(("push", "push_async_exit"))
_CONTEXTS = frozenset(("enter_context", "enter_async_context"))
_CLOSES = frozenset(("close", "aclose", "__exit__", "__aexit__"))
_REGISTERS = _CALLBACKS | _PUSHES | _CONTEXTS
_METHODS = _REGISTERS | _CLOSES | {"pop_all"}


class Deferring(Kinship):
    """The evaluation of what runs later."""

    @abstractmethod
    def is_manager(self, calls: b.Calls) -> bool:
        """Whether a call gives a context manager that is a generator function of the project."""

    def on_stack(self, expr: flow.Call) -> Value | None:
        """A call of a method of an exit stack; None for any other call."""
        if not isinstance(expr.callee, flow.Attr) or expr.callee.name not in _METHODS:
            return None
        if not flow.dotted_text(expr.callee.base):
            return None
        found: list[Value] = []
        self.nodes(lambda: found.append(self.value(expr.callee.base)))  # type: ignore[union-attr]
        stack, name = found[0], expr.callee.name
        if not self.is_stack(stack):
            return None
        if name in _REGISTERS and expr.args:
            return self._registered(stack, expr)
        if name in _CLOSES:
            self.emit(self.unwound(stack, expr.span))
            return NOTHING_KNOWN
        if name == "pop_all":
            moved = Value(((f"@{expr.span.start}",),), stack.types)
            self._move(stack, moved.places[0])
            return moved
        return NOTHING_KNOWN

    @staticmethod
    def is_stack(value: Value) -> bool:
        """Whether a value is an exit stack."""
        return any(t.name in _STACKS for t in value.types)

    def _registered(self, stack: Value, expr: flow.Call) -> Value:
        first, *others = expr.args
        name = flow.last_name(expr)
        if name in _CALLBACKS or (name in _PUSHES and self._is_function(first)):
            call = flow.Call(first, tuple(others), expr.keywords, expr.span)
            self._keep_for(stack, self.nodes(lambda: self.value(call)), expr.span)
            return NOTHING_KNOWN
        before = len(self.out)
        manager = self.value(first)
        at = len(self.out) - 1
        last = self.out[at] if at >= before else None
        if isinstance(last, b.Calls) and self.is_manager(last):
            for key in last.behaviors:
                built = self.all.built(key)
                if built is not None:
                    late = self.later(built.function, first.span, b.behind_yield(built.node), built.receiver, built.key)
                    self._keep_for(stack, last._replace(behaviors=(late,), span=expr.span), expr.span)
            self.out[at] = b.NOTHING
            return manager
        return self._entered(stack, manager, first, expr, entered=name in _CONTEXTS)

    def _entered(self, stack: Value, manager: Value, first: Expr, expr: flow.Call, *, entered: bool) -> Value:
        """An object that a stack leaves later."""
        if isinstance(first, flow.Call) and flow.last_name(first) == "closing" and first.args:
            close = flow.Call(flow.Attr(first.args[0], "close", first.span), (), (), expr.span)
            self._keep_for(stack, self.nodes(lambda: self.value(close)), expr.span)
            return self.value(first.args[0])
        result = manager
        for t in manager.types:
            enter, leave = (
                self.project.method(t.name, f"__{word}__") or self.project.method(t.name, f"__a{word}__")
                for word in ("enter", "exit")
            )
            if enter is not None and entered:
                given = self.call_functions((Bound(enter, manager),), (), (), expr.span)
                result = given if given.types else manager
            if leave is not None:
                node = self.nodes(
                    lambda leave=leave: self.call_functions((Bound(leave, manager),), (), (), expr.span)  # type: ignore[misc]
                )
                self._keep_for(stack, node, expr.span)
        return result

    def _is_function(self, expr: Expr) -> bool:
        found: list[Value] = []
        self.nodes(lambda: found.append(self.value(expr)))
        return bool(found[0].calls) or (found[0].symbol is not None and not found[0].types)

    # ------------------------------------------------------------------------------------------------------ keeping

    def _keep_for(self, stack: Value, node: Node, span: Span) -> None:
        """Keep what a stack is to do at its end."""
        if node == b.NOTHING or not self.emitting or not stack.places:
            return
        place = stack.places[0]
        around = [loop for loop in self.loops if len(place) > 1 or not is_made_in(place, loop)]
        if around:  # once for each round
            self.many.update(root for root in _objects(node) if is_made_in((root,), around[-1]))
            node = b.Repeat(node, b.NOTHING, (), around[-1])
        if len(place) == 1:
            self.deferred.setdefault(place[0], []).append((node, span))
            self._say(place[0], span, registered=True)
        elif stack.slot is not None:
            self._keep_in(stack.slot, node, span)

    def _keep_in(self, slot: Slot, node: Node, span: Span) -> None:
        params = self.entry.facts.params
        receiver = params[0].name if self.entry.owner is not None and params else None
        key = self.later(self.entry.name, span, node, receiver, self.entry.name)
        self.all.registered.setdefault(slot, {})[key] = receiver

    def later(self, function: str, span: Span, node: Node, receiver: str | None, of: str) -> str:
        """Key of a behavior that is a part of a function, which runs later."""
        key = f"{of.partition('|')[0]}|<{span.start}>"
        self.all.put(
            Behavior(
                key, function, node, NOTHING_KNOWN, NOTHING_KNOWN, receiver, self.aliases, many=frozenset(self.many)
            )
        )
        return key

    def _move(self, stack: Value, to: Place) -> None:
        """Hand what a stack is to do over to another one."""
        if len(stack.places) == 1 and len(stack.places[0]) == 1:
            root = stack.places[0][0]
            given = self.deferred.pop(root, ())
            self.deferred.setdefault(to[0], []).extend(given)
            self.handed_over.setdefault(root, []).extend(given)
            for _, span in given:
                self._say(root, span, registered=False)

    def _say(self, root: str, span: Span, *, registered: bool) -> None:
        """Note whether a stack has what a statement registers."""
        tags = frozenset(("true" if registered else "false",))
        self.emit(b.Touches("write", ((root, f"<{span.start}>"),), None, span, tags))

    def hand_over(self, value: Value, slot: Slot) -> None:
        """Note that an attribute keeps a stack from here on."""
        for place in value.places:
            for node, span in self.deferred.pop(place[0], ()) if len(place) == 1 else ():
                self._keep_in(slot, node, span)

    # ----------------------------------------------------------------------------------------------------- running it

    def unwound(self, stack: Value, span: Span) -> Node:
        """What a stack does when it ends, the last registration first."""
        found: list[Node] = []
        for place in stack.places[:1]:
            if len(place) == 1:
                found += [node for node, _ in reversed(self.deferred.pop(place[0], []))]
            elif stack.slot is not None:
                keys = self._registrations(stack.slot)
                found += [self.run_later(key, name, (place[:-1],), span) for key, name in reversed(keys)]
        return b.order(found)

    def failing(self, stack: Value, span: Span) -> tuple[b.Handler, ...]:
        """What runs where the block of a stack fails that has handed over, further down, what it is to do."""
        root = stack.places[0][0] if stack.places and len(stack.places[0]) == 1 else ""
        given = self.handed_over.pop(root, [])
        if not given:
            return ()
        unwinding = [
            b.Either(("atom", "true", (root, f"<{at.start}>")), node, b.NOTHING, span) for node, at in reversed(given)
        ]
        for _, at in given:
            self._say(root, at, registered=False)
        return (b.Handler(True, b.order([*unwinding, b.Leaves("raise", span)]), (), span),)

    def _registrations(self, slot: Slot) -> Sequence[tuple[str, str | None]]:
        """What the class, or the module, that has a stack registers on it."""
        self.build_those_with(slot[0], _REGISTERS)
        return tuple(self.all.registered.get(slot, {}).items())

    def build_those_with(self, owner: str, words: frozenset[str]) -> None:
        for each in self.project.mro(owner) if owner in self.project.classes else ():
            entry = self.project.classes.get(each)
            for method in entry.methods.values() if entry is not None else ():
                if method != self.entry.name and not words.isdisjoint(self.project.functions[method].facts.words):
                    self.all.build(method)

    def run_later(self, key: str, receiver: str | None, places: tuple[Place, ...], span: Span) -> Node:
        bindings = ((receiver, places),) if receiver is not None else ()
        return b.Calls((key,), bindings, span, f"{self.entry.name}@{span.start}")


def _objects(node: Node) -> Iterator[str]:
    """Roots of the objects that calls in a node are about."""
    for each in b.walk(node):
        if isinstance(each, b.Calls):
            yield from (place[0] for _, places in each.bindings for place in places if len(place) == 1)
