"""Shows every event that a behavior can come to, with the tests around it, paths aside: each way of calls once."""

from __future__ import annotations

from collections.abc import Callable

from graphlint import behavior as b
from graphlint.activation import Activation, constructs, decided, rebased
from graphlint.behavior import Behavior, Node
from graphlint.paths import MAX_DEPTH, MAX_STEPS, Branch, Event, Frame, Refusal
from graphlint.values import Place, Test, negated


def visit(
    root: Behavior,
    select: Callable[[str], Behavior | None],
    see: Callable[[Event], None],
    refuse: Callable[[Refusal], None] = lambda _: None,
    ways: int = MAX_STEPS,
    steps: int = MAX_STEPS,
) -> bool:
    """Show every event that a behavior can come to, callees included, once for each way of calls; False if cut short.

    Args:
        root: where to begin.
        select: gives the callees' behaviors.
        see: is shown the events.
        refuse: is shown every `raise`.
        ways: most ways to one function with the same arguments.
        steps: most nodes visited.
    """
    left = steps
    come: dict[tuple[str, tuple[tuple[str, tuple[Place, ...]], ...]], int] = {}
    serial = 0
    passing: dict[int, bool] = {}
    caught: list[b.Handler] = []

    def passes(node: Node) -> bool:
        known = passing.get(id(node))
        if known is None:
            known = passing[id(node)] = b.falls_through(node)
        return known

    def implied(node: Node, scope: Activation) -> tuple[Test, ...]:
        """What must have been the case where control is past a node."""
        match node:
            case b.Either(test=test, then=then, other=other) if passes(then) != passes(other):
                positive = rebased(test, scope)
                return (positive if passes(then) else negated(positive),)
            case b.Guarded(lookups=lookups) if lookups and not passes(node.body):
                return (negated(("compare", "in", scope.rebase(lookups), "")),)
        return ()

    def walk(
        node: Node, scope: Activation, guards: tuple[Test, ...], branches: tuple[Branch, ...], loops: tuple[Frame, ...]
    ) -> None:
        nonlocal left, serial
        left -= 1
        if left < 0:
            return
        match node:
            case b.Happens() | b.Touches():
                made = bool(node.places) and constructs(scope.behavior, node.places[0])
                stack = (*scope.stack, scope.frame(node.span))
                event = Event(node, scope.rebase(node.places), (), stack, guards=guards, branches=branches, loops=loops)
                if isinstance(node, b.Touches):
                    see(event._replace(in_constructor=made, value_places=scope.rebase_read(node.value_places)))
                else:
                    see(event._replace(pool=scope.rebase(node.pool)))
            case b.Either(test=("const", truth)):
                walk(node.then if truth else node.other, scope, guards, branches, loops)
            case b.Either(test=test):
                positive = rebased(test, scope)
                if (truth := decided(test, scope)) is not None:  # by a constant that the caller gives
                    walk(node.then if truth else node.other, scope, guards, branches, loops)
                    return
                frame = scope.frame(node.span)
                walk(node.then, scope, (*guards, positive), (*branches, Branch(frame, taken=True)), loops)
                walk(node.other, scope, (*guards, negated(positive)), (*branches, Branch(frame, taken=False)), loops)
            case b.Order(items=items):
                for item in items:
                    walk(item, scope, guards, branches, loops)
                    if isinstance(item, b.Either) and (truth := decided(item.test, scope)) is not None:
                        if not passes(item.then if truth else item.other):
                            return
                        continue
                    guards = (*guards, *implied(item, scope))
                    if isinstance(item, b.Either) and passes(item.then) != passes(item.other):
                        branches = (*branches, Branch(scope.frame(item.span), taken=passes(item.then)))
            case b.Guarded(lookups=lookups):
                missed = (negated(("compare", "in", scope.rebase(lookups), "")),) if lookups else ()
                caught.extend(node.handlers)
                walk(node.body, scope, guards, branches, loops)
                del caught[len(caught) - len(node.handlers) :]
                for handler in node.handlers:
                    walk(handler.node, scope, (*guards, *missed), branches, loops)
                walk(node.other, scope, guards, branches, loops)
                walk(node.final, scope, guards, branches, loops)
            case b.Repeat(body=body, other=other):
                walk(body, scope, guards, branches, (*loops, scope.frame(node.span)))
                walk(other, scope, guards, branches, loops)
            case b.Each(bodies=bodies, other=other):
                for body in bodies:
                    walk(body, scope, guards, branches, (*loops, scope.frame(node.span)))
                walk(other, scope, guards, branches, loops)
            case b.Calls():
                active = {frame.function for frame in scope.stack} | {scope.behavior.function}
                for key in node.behaviors:
                    built = select(key)
                    if built is None or built.function in active or len(scope.stack) >= MAX_DEPTH:
                        continue
                    bindings = {param: scope.rebase(places) for param, places in node.bindings}
                    way = key, tuple(bindings.items())
                    come[way] = come.get(way, 0) + 1
                    if come[way] > ways:
                        continue
                    serial += 1
                    stack = (*scope.stack, scope.frame(node.span))
                    inner = Activation(built, bindings, stack, serial, aliases=scope.aliases, ways=scope.ways)
                    inner.returns(node, scope)
                    walk(built.node, inner, guards, branches, loops)
            case b.Leaves(kind="raise", span=span):
                refuse(Refusal(node, guards, (*scope.stack, scope.frame(span)), tuple(caught)))
            case _:
                for part in b.parts(node):
                    walk(part, scope, guards, branches, loops)

    walk(root.node, Activation(root, {}, (), 0, is_root=True), (), (), ())
    return left >= 0
