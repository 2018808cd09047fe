"""What the text of a function gives its names, and what leaves it: nothing is evaluated here."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import flow
from graphlint.flow import Expr, Flow
from graphlint.project import ClassEntry, FunctionEntry
from graphlint.targets import KEEPERS, REGISTERING
from graphlint.values import CONTAINERS

_MANY = frozenset(("extend", "update"))
"""Methods that put all items of a container into another one."""


def assigned(body: Flow) -> Iterator[tuple[Expr, Expr, str]]:
    """Targets and values of every assignment in a flow, tuples taken apart, `x.append(v)` as an item."""
    for statement in flow.statements(body):
        if isinstance(statement, flow.Bind):
            if statement.annotation is not None:
                yield statement.target, statement.annotation, "annotation"
            if statement.value is not None:
                yield from _pairs(statement.target, statement.value)
        elif isinstance(statement, flow.Eval):
            match statement.value:
                case flow.Call(callee=flow.Attr(base=base, name=name), args=args) if name in KEEPERS and args:
                    new = args[-1]
                    if name in _MANY:
                        new = flow.Item(new, flow.Lit(None, new.span), new.span)
                    yield flow.Item(base, args[0], statement.span), new, "item"
                case flow.Call() as call if (given := given_by_name(call)) is not None:
                    owner, name, value = given
                    yield flow.Attr(owner, name, statement.span), value, "set"


def given_by_name(call: flow.Call) -> tuple[Expr, str, Expr] | None:
    """The object, the attribute and the value of a call that sets an attribute by its name: `setattr(x, "name", value)`."""
    keywords = dict(call.keywords)
    match call:
        case flow.Call(callee=flow.Name(id="setattr"), args=(owner, flow.Lit(value=str(name)), value)):
            return owner, name, value
        case flow.Call(callee=flow.Attr(name="__setattr__"), args=(owner, flow.Lit(value=str(name)), value)):
            return owner, name, value
        case flow.Call(callee=flow.Attr(base=owner, name=setter), args=args) if setter in REGISTERING:
            named = [*args, *(keywords[each] for each in ("name", "tensor", "param") if each in keywords)]
            match named:
                case [flow.Lit(value=str(name)), value, *_]:
                    return owner, name, value
    return None


def _pairs(target: Expr, value: Expr) -> Iterator[tuple[Expr, Expr, str]]:
    if isinstance(target, flow.Group):
        if isinstance(value, flow.Group) and len(value.items) == len(target.items):
            for each, part in zip(target.items, value.items, strict=True):
                yield from _pairs(each, part)
        else:
            for index, each in enumerate(target.items):
                yield from _pairs(each, flow.Item(value, flow.Lit(index, target.span), target.span))
    else:
        yield target, value, "item" if isinstance(target, flow.Item) else "set"


def given_locally(body: Flow) -> Iterator[tuple[str, Expr, str]]:
    """Every way in which a flow gives a local variable a value."""
    for statement in flow.statements(body):
        match statement:
            case flow.Star(target=target, iterable=iterable) if target is not None and iterable is not None:
                yield from _targets(target, iterable, "each")
            case flow.Scope(target=target, context=context) if target is not None:
                yield from _targets(target, context, "set")
            case flow.Bind():
                for target, value, how in assigned(statement):
                    if isinstance(target, flow.Name):
                        yield target.id, value, how
        stack = list(flow.operands(statement)) if not flow.children(statement) else []
        while stack:
            each = stack.pop()
            if isinstance(each, flow.Walrus):
                yield each.target.id, each.value, "set"
            elif isinstance(each, flow.Each):
                yield from _targets(each.target, each.iterable, "each")
            stack += flow.subexpressions(each)


def _targets(target: Expr, value: Expr, how: str) -> Iterator[tuple[str, Expr, str]]:
    match target:
        case flow.Name(id=name):
            yield name, value, how
        case flow.Group(items=items):
            span = target.span
            if (
                how == "each"
                and isinstance(value, flow.Call)
                and isinstance(value.callee, flow.Attr)
                and value.callee.name == "items"
                and len(items) == 2
            ):
                yield from _targets(
                    items[1], flow.Call(flow.Attr(value.callee.base, "values", span), (), (), span), how
                )
                return
            for index, item in enumerate(items):
                yield from _targets(item, flow.Item(value, flow.Lit(index, span), span), how)


def returning(body: Flow) -> Iterator[flow.Exit]:
    """Every return statement of a flow."""
    for statement in flow.statements(body):
        if isinstance(statement, flow.Exit) and statement.kind == "return":
            yield statement


def read_expressions(body: Flow) -> Iterator[Expr]:
    """Every expression that a flow reads: targets of assignments and comparisons with None left out."""
    stack: list[Expr] = []
    match body:
        case flow.Bind(value=value):
            stack += [value] if value is not None else []
        case flow.Drop():
            pass
        case _:
            own = list(flow.operands(body)) if not flow.children(body) else []
            stack += own
    match body:
        case flow.Alt(test=test):
            stack.append(test)
        case flow.Star(iterable=iterable, test=test):
            stack += [each for each in (iterable, test) if each is not None]
        case flow.Scope(context=context):
            stack.append(context)
    while stack:
        expr = stack.pop()
        if isinstance(expr, flow.Op) and expr.op in ("is", "is not") and isinstance(expr.operands[-1], flow.Lit):
            continue
        yield expr
        stack += flow.subexpressions(expr)
    for child in flow.children(body):
        yield from read_expressions(child)


def argument_for(function: FunctionEntry, call: flow.Call, name: str) -> Expr | None:
    """The argument that a call gives for a parameter."""
    for keyword, value in call.keywords:
        if keyword == name:
            return value
    positional = [p.name for p in function.facts.params if p.kind == "positional"]
    if function.kind in ("method", "classmethod"):
        positional = positional[1:]
    if name in positional:
        index = positional.index(name)
        if index < len(call.args) and not any(map(flow.is_spread, call.args[: index + 1])):
            return call.args[index]
    return None


def falls_through(body: Flow) -> bool:
    """Whether control can leave a flow at its end."""
    match body:
        case flow.Exit():
            return False
        case flow.Seq(items=items):
            return all(map(falls_through, items))
        case flow.Alt(then=then, other=other):
            return falls_through(then) or falls_through(other)
        case flow.Scope(body=inner):
            return falls_through(inner)
        case flow.Try(body=inner, handlers=handlers, final=final):
            return falls_through(final) and (
                falls_through(inner) or any(falls_through(handler.body) for handler in handlers)
            )
    return True


def starts_empty(value: Expr) -> bool:
    """Whether a variable gets what it is for later: it begins as None, or as an empty container."""
    match value:
        case flow.Lit(value=None) | flow.Group(items=()):
            return True
        case flow.Call(callee=flow.Name(id=name) | flow.Attr(name=name)):
            return name in CONTAINERS
    return False


def is_record(entry: ClassEntry) -> bool:
    """Whether the class is a dataclass, a NamedTuple or the like: its annotated attributes belong to instances."""
    for decorator in entry.facts.decorators:
        callee = decorator.callee if isinstance(decorator, flow.Call) else decorator
        last = callee.name if isinstance(callee, flow.Attr) else getattr(callee, "id", "")
        if last in ("dataclass", "define", "frozen", "attrs", "s"):
            return True
    for base in entry.facts.bases:
        last = base.name if isinstance(base, flow.Attr) else getattr(base, "id", "")
        if last in ("NamedTuple", "TypedDict", "BaseModel", "Struct"):
            return True
    return False


def is_field(entry: ClassEntry, name: str) -> bool:
    """Whether an attribute of the class belongs to its instances."""
    annotation = entry.attributes[name].annotation
    head = annotation.base if isinstance(annotation, flow.Item) else annotation
    last = head.name if isinstance(head, flow.Attr) else getattr(head, "id", "")
    return is_record(entry) and last != "ClassVar"


_LOOKUPS = (b"get(%b)", b"get(%b,", b"pop(%b)", b"pop(%b,", b"setdefault(%b,", b"if %b in ", b" %b not in ")


def is_key(function: FunctionEntry, name: str) -> bool:
    """Whether the text of a function looks something up under a variable: a tensor is no key."""
    start, end = function.facts.span
    text, word = function.module.source.content, name.encode()
    return any(text.find(form % word, start, end) >= 0 for form in _LOOKUPS)
