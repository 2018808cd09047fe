"""The language that functions are lowered to: what can run, in which order, on which names. It knows no rule and no engine.

A function body becomes one `Flow`:

    def clear(self):                          Seq(
        for graph in self.graphs.values():      Star(graph, self.graphs.values(),
            graph.reset()                           Eval(graph.reset())),
        if self.pool is not None:               Alt(self.pool is not None,
            del self.pool                           Drop(self.pool), Seq()),
        torch.cuda.empty_cache()                Eval(torch.cuda.empty_cache()))

Expressions keep only what decides about lifetimes: names, attributes, items, calls, literals, formatted strings, boolean
structure. Everything else is an `Op` over its operands. Operands stand in the order of evaluation, so walking a flow from
left to right visits the calls in the order in which Python runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeGuard, get_args

from graphlint.source import Span

# ------------------------------------------------------------------------------------------------------- expressions


class Name(NamedTuple):
    """A variable."""

    id: str
    span: Span


class Attr(NamedTuple):
    """`base.name`."""

    base: Expr
    name: str
    span: Span


class Item(NamedTuple):
    """`base[index]`."""

    base: Expr
    key: Expr
    span: Span


class Lit(NamedTuple):
    """A literal: None, a bool, a number, a string, bytes or `...`."""

    value: object
    span: Span


class Group(NamedTuple):
    """A tuple, list, set or dict display; a dict's items are its values, and `keys` its keys (None before `**x`)."""

    kind: str
    items: tuple[Expr, ...]
    span: Span
    keys: tuple[Expr | None, ...] = ()


class Text(NamedTuple):
    """A formatted string: the expressions and literal pieces in it."""

    parts: tuple[Expr, ...]
    span: Span


class Op(NamedTuple):
    """An operator: `and`, `or`, `not`, `is`, `is not`, `in`, `==`, `<`, `+`, `await`, `yield`, `*` (unpacking), ... ."""

    op: str
    operands: tuple[Expr, ...]
    span: Span


class Choice(NamedTuple):
    """`then if test else other`."""

    test: Expr
    then: Expr
    other: Expr
    span: Span


class Call(NamedTuple):
    """A call. A keyword None is `**mapping`; `*sequence` among the arguments is an `Op("*", ...)`."""

    callee: Expr
    args: tuple[Expr, ...]
    keywords: tuple[tuple[str | None, Expr], ...]
    span: Span


class Each(NamedTuple):
    """A comprehension with one `for`; further ones nest as its element. `kind` is list, set, dict or generator.

    A dict comprehension's element is its value, `key` its key.
    """

    kind: str
    target: Expr
    iterable: Expr
    tests: tuple[Expr, ...]
    element: Expr
    span: Span
    key: Expr | None = None


class Walrus(NamedTuple):
    """`name := value`."""

    target: Name
    value: Expr
    span: Span


class Func(NamedTuple):
    """A lambda or a nested `def`: `id` names it among the functions that its parent's lowering gives."""

    id: str
    span: Span


class Imported(NamedTuple):
    """The value of a function-local import: `module` (relative by `level` dots) or the `name` in it."""

    module: str
    name: str | None
    level: int
    span: Span


Expr: TypeAlias = Name | Attr | Item | Lit | Group | Text | Op | Choice | Call | Each | Walrus | Func | Imported

# -------------------------------------------------------------------------------------------------------------- flows


class Eval(NamedTuple):
    """An expression statement."""

    value: Expr
    span: Span


class Bind(NamedTuple):
    """`target = value`. `op` is the operator of an augmented assignment, else empty.

    Value None is an annotation without a value. Several targets are several binds of one value.
    """

    target: Expr
    value: Expr | None
    span: Span
    op: str = ""
    annotation: Expr | None = None


class Drop(NamedTuple):
    """`del target`."""

    target: Expr
    span: Span


class Seq(NamedTuple):
    """One after the other."""

    items: tuple[Flow, ...]


class Alt(NamedTuple):
    """`if test: then else: other`."""

    test: Expr
    then: Flow
    other: Flow
    span: Span


class Star(NamedTuple):
    """A loop. A `while` has a test and neither target nor iterable. `other` runs where the loop ends without `break`."""

    target: Expr | None
    iterable: Expr | None
    test: Expr | None
    body: Flow
    other: Flow
    span: Span


class Scope(NamedTuple):
    """`with context as target: body`; several contexts nest."""

    context: Expr
    target: Expr | None
    body: Flow
    span: Span


class Handler(NamedTuple):
    """`except types as name: body`; `types` None catches everything."""

    types: Expr | None
    name: str | None
    body: Flow
    span: Span


class Try(NamedTuple):
    """`try`: `other` runs where the body ended normally, `final` always."""

    body: Flow
    handlers: tuple[Handler, ...]
    other: Flow
    final: Flow
    span: Span


class Exit(NamedTuple):
    """Leave: `kind` is return, raise, break or continue. A failed `assert` is a raise under an `Alt`."""

    kind: str
    value: Expr | None
    span: Span


Flow: TypeAlias = Eval | Bind | Drop | Seq | Alt | Star | Scope | Try | Exit

NOTHING = Seq(())
"""The flow that does nothing."""


_OPERANDS: Mapping[type, Callable[[Any], tuple[Expr, ...]]] = {
    Attr: lambda expr: (expr.base,),
    Item: lambda expr: (expr.base, expr.key),
    Group: lambda expr: (*[key for key in expr.keys if key is not None], *expr.items),
    Text: lambda expr: expr.parts,
    Op: lambda expr: expr.operands,
    Choice: lambda expr: (expr.test, expr.then, expr.other),
    Call: lambda expr: (expr.callee, *expr.args, *[value for _, value in expr.keywords]),
    Each: lambda expr: (expr.iterable, *expr.tests, *((expr.key,) if expr.key is not None else ()), expr.element),
    Walrus: lambda expr: (expr.value,),
}
_CHILDREN: Mapping[type, Callable[[Any], tuple[Flow, ...]]] = {
    Seq: lambda flow: flow.items,
    Alt: lambda flow: (flow.then, flow.other),
    Star: lambda flow: (flow.body, flow.other),
    Scope: lambda flow: (flow.body,),
    Try: lambda flow: (flow.body, *[handler.body for handler in flow.handlers], flow.other, flow.final),
}


def subexpressions(expr: Expr) -> tuple[Expr, ...]:
    """Direct operands of an expression, in the order of evaluation."""
    find = _OPERANDS.get(type(expr))
    return find(expr) if find is not None else ()


def parts(expr: Expr) -> Iterator[Expr]:
    """An expression and everything in it."""
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += subexpressions(part)


def variables(expr: Expr) -> frozenset[str]:
    """The variables in an expression."""
    return frozenset(part.id for part in parts(expr) if isinstance(part, Name))


def children(flow: Flow) -> tuple[Flow, ...]:
    """Direct parts of a flow that are flows."""
    find = _CHILDREN.get(type(flow))
    return find(flow) if find is not None else ()


def statements(flow: Flow) -> Iterator[Flow]:
    """A flow and everything in it that is a flow, in the order of the text."""
    waiting = [flow]
    while waiting:
        flow = waiting.pop()
        yield flow
        find = _CHILDREN.get(type(flow))
        if find is not None:
            waiting.extend(reversed(find(flow)))


def operands(flow: Flow) -> Iterator[Expr]:
    """Expressions that stand directly in a statement, targets included."""
    match flow:
        case Eval(value=value):
            yield value
        case Bind(target=target, value=value):
            yield target
            if value is not None:
                yield value
        case Drop(target=target):
            yield target
        case Alt(test=test):
            yield test
        case Star(iterable=iterable, test=test):
            yield from (each for each in (iterable, test) if each is not None)
        case Scope(context=context):
            yield context
        case Exit(value=value) if value is not None:
            yield value


def calls(flow: Flow) -> Iterator[Call]:
    """Every call in a flow, those in other calls too."""
    stack = [expr for statement in statements(flow) for expr in operands(statement)]
    while stack:
        expr = stack.pop()
        if isinstance(expr, Call):
            yield expr
        find = _OPERANDS.get(type(expr))
        if find is not None:
            stack += find(expr)


def expressions(flow: Flow) -> Iterator[Expr]:
    """Every expression in a flow, those in other expressions too."""
    for statement in statements(flow):
        parts: tuple[object, ...] = () if isinstance(statement, Seq) else statement
        stack = [part for part in parts if isinstance(part, _EXPRESSIONS)]
        while stack:
            expr = stack.pop()
            yield expr
            stack += subexpressions(expr)


def stacked(body: Flow, stack: str) -> Flow:
    """The body of a `with ExitStack() as stack` with what it enters and registers written as nested blocks.

    What runs after `stack.enter_context(manager)` runs inside that manager; what `stack.callback(f)` registers runs when
    the rest has run, the last one first. A context that is entered on one branch counts as entered.
    """
    items = body.items if isinstance(body, Seq) else (body,)
    for at, item in enumerate(items):
        before, rest = items[:at], Seq(items[at + 1 :])
        if isinstance(item, Alt) and (entered := next(_entries(item, stack), None)) is not None:
            branch = Alt(item.test, _without(item.then, entered), _without(item.other, entered), item.span)
            return Seq((*before, branch, stacked(Seq((entered, *rest.items)), stack)))
        call = _stack_call(item, stack)
        if call is None or not isinstance(call.callee, Attr):
            continue
        first, *others = call.args
        if call.callee.name.startswith("enter"):
            target = item.target if isinstance(item, Bind) else None
            return Seq((*before, Scope(first, target, stacked(rest, stack), call.span)))
        last = Eval(Call(first, tuple(others), call.keywords, call.span), call.span)
        return Seq((*before, Try(stacked(rest, stack), (), NOTHING, last, call.span)))
    return body


def _entries(branch: Alt, stack: str) -> Iterator[Flow]:
    """Statements of a branch that enter a context."""
    for block in (branch.then, branch.other):
        for item in block.items if isinstance(block, Seq) else (block,):
            if _stack_call(item, stack) is not None:
                yield item


def _without(block: Flow, statement: Flow) -> Flow:
    items = block.items if isinstance(block, Seq) else (block,)
    return Seq(tuple(item for item in items if item is not statement))


def _stack_call(item: Flow, stack: str) -> Call | None:
    """The call of a statement that enters a context by a stack, or registers a function with it."""
    value = item.value if isinstance(item, Eval | Bind) else None
    if isinstance(value, Op) and value.op == "await":
        value = value.operands[0]
    match value:
        case Call(callee=Attr(base=Name(id=name), name=method), args=(_, *_)) if name == stack and method in _STACKED:
            return value
    return None


def is_whole(key: Expr) -> bool:
    """Whether a key names all items of a sequence: `items[:]`."""
    return isinstance(key, Op) and key.op == "Slice" and not key.operands


def is_spread(expr: Expr) -> TypeGuard[Op]:
    """Whether an expression stands for all items of a sequence, among arguments or in a display: `*items`, no product."""
    return isinstance(expr, Op) and expr.op == "*" and len(expr.operands) == 1


def parted(bind: Bind) -> tuple[Bind, ...]:
    """An assignment as one for each name: `graphs, outs = {}, {}`."""
    match bind:
        case Bind(target=Group(items=names), value=Group(items=values)) if len(names) == len(values):
            if not any(map(is_spread, (*names, *values))):
                return tuple(bind._replace(target=name, value=value) for name, value in zip(names, values, strict=True))
    return (bind,)


def is_slice(expr: Expr) -> bool:
    """Whether an expression is some of the items of a sequence, in their order: `items[2:]`, and not `items[:]`."""
    return isinstance(expr, Item) and isinstance(expr.key, Op) and expr.key.op == "Slice" and bool(expr.key.operands)


def dotted_text(expr: Expr) -> str:
    """A name or a chain of attributes as it is written; empty for anything else."""
    match expr:
        case Name(id=name):
            return name
        case Attr(base=base, name=name):
            return f"{text}.{name}" if (text := dotted_text(base)) else ""
    return ""


def last_name(expr: Expr) -> str:
    """The last word of a name or an attribute, or of the callee of a call."""
    match expr:
        case Name(id=name) | Attr(name=name):
            return name
        case Call(callee=callee):
            return last_name(callee)
    return ""


def is_region(key: Expr) -> bool:
    """Whether a key names a region of a tensor: several dimensions, with a slice or `...` among them."""
    return isinstance(key, Group) and any(
        (isinstance(each, Op) and each.op == "Slice") or (isinstance(each, Lit) and each.value is ...)
        for each in key.items
    )


_STACKED = frozenset(("enter_context", "enter_async_context", "callback", "push_async_callback"))
_EXPRESSIONS = get_args(Expr)
