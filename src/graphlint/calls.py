"""What a call does and gives: what a vocabulary says of it, what its body does, what its name says."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from graphlint import behavior as b
from graphlint import flow
from graphlint.assignments import given_by_name
from graphlint.behavior import Behavior
from graphlint.dispatch import named_type
from graphlint.effects import Effect
from graphlint.facts import MODULE
from graphlint.flow import Expr
from graphlint.frame import keyed, last_word
from graphlint.handing import INSIDE, nested
from graphlint.hooks import hooked
from graphlint.knowledge import HELD, Around
from graphlint.project import FunctionEntry
from graphlint.queues import Queueing
from graphlint.rebasing import passed, rebased, rebased_element
from graphlint.source import Span
from graphlint.targets import KEEPERS, REGISTERING
from graphlint.values import (
    CAPTURING,
    CONSTANTS,
    CONTAINERS,
    DEVICE,
    ELEMENT,
    GRAPH,
    MEMO,
    MEMPOOL,
    MODULE_CLASS,
    NOTHING_KNOWN,
    STREAM,
    TENSOR,
    WIDEST,
    Bound,
    Origin,
    Place,
    Symbol,
    Type,
    Value,
    flat,
    is_of_elements,
    is_vague,
    literal_value,
    negated,
    searched,
    union,
)
from graphlint.vocabulary import Entry

_TAKERS = frozenset(("pop", "popitem", "popleft", "discard", "remove"))
_VIEWS = frozenset(("values", "copy"))
_ROUNDING = frozenset(("bisect", "bisect_left", "bisect_right", "ceil", "floor", "max", "min", "round", "searchsorted"))
"""Give the same for several questions."""
_SAME = frozenset(("list", "tuple", "set", "sorted", "reversed", "iter", "frozenset", "dict", "deque"))
_DICTS = frozenset(("dict", "OrderedDict", "defaultdict", "WeakValueDictionary", "WeakKeyDictionary"))
_FRESH_METHODS = frozenset(("new_empty", "new_zeros", "new_ones", "new_full", "new_tensor"))
_SAME_STORAGE = frozenset(("as_strided", "chunk", "detach", "expand", "expand_as", "flatten", "movedim", "mT",
                          "narrow", "permute", "ravel", "reshape", "select", "split", "squeeze", "swapaxes", "t",
                          "tensor_split", "transpose", "unbind", "unflatten", "unsqueeze", "view", "view_as"))  # fmt: skip
"""Methods of a tensor that give it, or parts of it, under another shape: who keeps that keeps its memory."""
_STORAGES = frozenset(("typed_storage", "untyped_storage"))
"""Methods of a tensor that give its memory, by itself."""
_TO_HOST = frozenset(("cpu", "data_ptr", "dim", "element_size", "is_contiguous", "item", "nelement", "numel", "numpy", "pin_memory",
                      "size", "storage_offset", "stride", "tolist"))  # fmt: skip
"""Methods of a tensor that give no device memory."""
_OPERATIONS = frozenset(("torch", "torch.fft", "torch.linalg", "torch.nn.functional", "torch.special"))
"""Modules whose functions give new device memory, where they are given some."""
_ASKING = ("allclose", "equal", "is_", "numel", "result_type", "save")
"""Beginnings of the names of those that do not."""
_BLANKS = frozenset(("empty", "tensor", "zeros"))
_ON_DEVICE = frozenset(("is_available", "is_initialized", "is_cuda", "is_cuda_alike"))
_RUNNERS = frozenset(("map", "imap", "imap_unordered", "starmap", "to_thread", "run_in_executor"))
"""Methods of executors and event loops that run a function with arguments, and that one waits for.

What is only submitted runs at some time, in no order with what stands behind it.
"""
_MODULE_LISTS = frozenset(("ModuleList", "ModuleDict", "Sequential"))
"""Modules of torch that are lists and dictionaries of modules."""
_SEMAPHORES = frozenset(
    f"{module}.{kind}"
    for module in ("asyncio", "multiprocessing", "threading")
    for kind in ("BoundedSemaphore", "Semaphore")
)
_MEMOS = frozenset(("functools.lru_cache", "functools.cache"))
_NAMING = frozenset(("partial", "finalize", "import_module", "ref", "WeakMethod", "__new__", "__setattr__",
                     *REGISTERING))  # fmt: skip
"""Functions that are known when an attribute gives them, too."""
_COMPILING = frozenset(("is_compiling", "is_dynamo_compiling", "is_exporting"))


class Calling(Queueing):
    """The evaluation of calls."""

    def operands(self, expr: flow.Call) -> tuple[Value, list[Value], dict[str, Value], Value]:
        """Callee, arguments, keywords and receiver of a call, evaluated in order."""
        receiver = NOTHING_KNOWN
        if isinstance(expr.callee, flow.Attr):
            base, name = expr.callee.base, expr.callee.name
            above = isinstance(base, flow.Call) and base.callee == flow.Name("super", base.callee.span)
            receiver = self.super_(name) if above else self.value(base)
            callee = self.attribute(receiver, expr.callee.name, expr.span)
            if flow.last_name(expr.callee.base) == "super" and self.entry.facts.params:
                me = self.env.get(self.entry.facts.params[0].name, receiver)  # `super()` there asks for its class again
                own = tuple(
                    each._replace(receiver=me) if each.receiver == receiver and me.types else each
                    for each in callee.calls
                )
                callee = callee._replace(calls=own)
        else:
            outer, self.handing = self.handing, False
            callee = self.value(expr.callee)
            self.handing = outer
        args, keywords = self.arguments(expr.args, expr.keywords)
        return callee, args, keywords, receiver

    def arguments(
        self, args: Sequence[Expr], keywords: Sequence[tuple[str | None, Expr]]
    ) -> tuple[list[Value], dict[str, Value]]:
        """Arguments and keywords of a call, evaluated in order, `*items` and `**options` as what they are known to be."""
        values: list[Value] = []
        outer, self.handing = self.handing, True
        for arg in args:
            if flow.is_spread(arg):
                inner = self.value(arg.operands[0])
                parts = (inner,) * WIDEST if inner.fresh else ()  # how many there are, the callee says
                values += inner.items if inner.items is not None else parts
            else:
                values.append(self.value(arg))
        named = {name: self.value(value) for name, value in keywords if name is not None}
        for keyword, value in keywords:
            if keyword is None:
                named = {**self.value(value).fields, **named}
        self.handing = outer
        return values, named

    @abstractmethod
    def argument(self, expr: Expr) -> Value:
        """An argument: what is handed on without a call is a function there."""

    def call(self, expr: flow.Call) -> Value:
        special = self.on_stack(expr) or self.ending(expr) or self.task(expr) or self.special(expr)
        if special is not None:
            return special
        callee, args, keywords, receiver = self.operands(expr)
        value = self.invoke(callee, receiver, args, keywords, expr)
        if not self.in_capture:
            return value
        given = {place for each in (*args, *keywords.values()) for place in each.places}
        return (
            value if value.places and given.issuperset(value.places) else _captured(value)
        )  # what was given, given back

    def special(self, expr: flow.Call) -> Value | None:
        """Builtins that name things: getattr, setattr, hasattr, super, type, partial, and those that pass items on."""
        if not isinstance(expr.callee, flow.Name | flow.Attr):
            return None
        name = last_word(expr.callee)
        args = expr.args
        if isinstance(expr.callee, flow.Attr):
            if name == "cache_clear":
                for bound in self.value(expr.callee.base).calls:
                    slot = (f"mod:{bound.function}", MEMO)
                    self.touch("drop", (slot,), slot, expr.span)
                return NOTHING_KNOWN
            if name == "fromkeys" and len(args) > 1:
                self.value(args[0])
                value = self.value(args[1])
                tags = frozenset(("doubled",)) if self.is_object(value) else frozenset[str]()
                return Value(((f"@{expr.span.start}",),), (Type("dict", value.types),), each=value, tags=tags)
            if self._is_nothing(expr):
                return Value(((f"@{expr.span.start}",),), (Type(TENSOR),), tags=frozenset(("empty",)))
            if name not in _NAMING or not (args or expr.keywords):
                return None
        elif name in self.env:
            return None
        match name, args:
            case "getattr", (base, key, *_):
                literal = self.value(key).literal
                if literal is not None:
                    return self.attribute(self.value(base), literal, expr.span)
                if (table := self.spelled(self.value(base))) is not None:
                    return table.element
                self.unresolved.append((name, expr.span))
                return NOTHING_KNOWN
            case word, _ if word in REGISTERING:
                given = given_by_name(expr)
                owner = self.value(given[0]) if given is not None else NOTHING_KNOWN
                if given is None or not any(t.name in self.project.classes for t in owner.types):
                    return None
                if self.project.method(owner.types[0].name, word) is not None:
                    return None  # not torch's
                value = self.value(given[2])
                held = self.attribute(owner, given[1], expr.span, quiet=True)
                slot = held.slot or (owner.types[0].name, given[1])
                self.touch("write", held.places, slot, expr.span, value, held.types)
                return NOTHING_KNOWN
            case "vars", (base,):
                return self.namespace(self.value(base), expr.span)
            case "hasattr", (base, key):
                literal = self.value(key).literal
                if literal is None and (table := self.spelled(self.value(base))) is not None:
                    return Value(test=self.compare("in", (self.value(key), table), expr.span))
                return Value(test=self.has(self.value(base), literal, expr.span))
            case "setattr" | "__setattr__", (base, key, new):
                owner, literal, value = self.value(base), self.value(key).literal, self.value(new)
                if literal is not None:
                    held = self.attribute(owner, literal, expr.span, quiet=True)
                    self.touch("write", held.places, held.slot, expr.span, value, held.types)
                elif (table := self.spelled(owner)) is not None and len(expr.args) == 3:
                    self.touch("add", table.places, table.slot, expr.span, value, key=self.value(key))
                else:
                    self.unresolved.append((name, expr.span))
                return NOTHING_KNOWN
            case "delattr", (base, key):
                owner, literal = self.value(base), self.value(key).literal
                if literal is not None:
                    held = self.attribute(owner, literal, expr.span, quiet=True)
                    self.touch("drop", held.places, held.slot, expr.span, held=held.types)
                else:
                    self.unresolved.append((name, expr.span))
                return NOTHING_KNOWN
            case "__new__", (kind, *_):
                symbol = self.value(kind).symbol
                made = (Type(symbol.name),) if symbol is not None and symbol.kind == "class" else ()
                return Value(((f"@{expr.span.start}",),), made, tags=frozenset(("object",))) if made else None
            case "super", _:
                return self.super_()
            case "type", (one,):
                value = self.value(one)
                return Value(symbol=Symbol("class", value.types[0].name)) if value.types else NOTHING_KNOWN
            case ("partial", (first, *rest)) | ("finalize", (_, first, *rest)):
                if name == "finalize" and flow.last_name(expr.callee) == "finalize":
                    self.finalizer(expr)
                function = self.argument(first)
                more, named = self.arguments(rest, expr.keywords)
                calls = tuple(
                    each._replace(args=(*each.args, *more), keywords=(*each.keywords, *named.items()))
                    for each in function.calls
                )
                return Value(calls=calls, symbol=function.symbol if not function.calls else None)
            case ("enumerate", (one, *_)):
                return Value(each=Value(items=(NOTHING_KNOWN, self.value(one).element)))
            case ("next", (one, *rest)) if isinstance(expr.callee, flow.Name):
                item = searched(self.value(one).element)
                return union([item, *map(self.value, rest)]) if rest else item
            case ("zip", (flow.Op() as spread,)) if flow.is_spread(spread):
                rows = self.value(spread.operands[0]).element.items or ()
                columns = tuple(
                    Value(
                        ((f"@{expr.span.start}.{at}",),), (Type("tuple", cell.types),), tags=cell.tags & HELD, each=cell
                    )
                    for at, cell in enumerate(rows)
                )
                return Value(((f"@{expr.span.start}",),), items=columns or None)
            case ("zip", (_, *_)):
                values = [self.value(each) for each in args]
                return Value(each=Value(items=tuple(value.element for value in values)))
            case "map", (function, one):
                return self.mapped(self.value(function), self.value(one), expr)
            case "filter", (function, one):
                items = self.value(one)
                self.mapped(self.value(function), items, expr)
                return items
            case (("ref" | "WeakMethod"), (one, *_)):
                value = self.value(one)
                return Value(types=(Type("ref", value.types),), calls=value.calls, each=value)
            case (("staticmethod" | "classmethod"), (one,)):
                return self.value(one)
            case "import_module", (one,) if (literal := self.value(one).literal) is not None:
                return self.of_symbol(self.project.resolve(literal))
            case ("cast", (kind, one)):
                types = self.project.annotation(self.module, kind)
                return self.value(one)._replace(types=types)
            case (_, (one, *rest)) if name in _SAME and (name == "sorted" or not (rest or expr.keywords)):
                value = self.value(one)
                if name == "reversed" and value.items is not None:
                    return value._replace(items=value.items[::-1])
                is_dict = bool(value.types) and all(t.name in _DICTS for t in value.types)
                if is_dict and isinstance(one, flow.Name | flow.Attr) and name not in ("dict", *_DICTS):
                    return Value(
                        ((f"@{expr.span.start}",),), (Type(name if name in CONTAINERS else "list"),)
                    )  # its keys
                if isinstance(one, flow.Call) and not value.types and value.items is None and value.each is None:
                    return value._replace(types=(Type(name if name in CONTAINERS else "list"),))
                return value._replace(tags=value.tags | {"copy"}) if name not in ("iter", "reversed") else value
            case ("dict", ()) if expr.keywords and all(key is not None for key, _ in expr.keywords):
                return self.group("dict", tuple(value for _, value in expr.keywords), expr.span, ())
            case (_, ()) if name in _SAME and not expr.keywords:
                return Value(
                    ((f"@{expr.span.start}",),),
                    (Type(name if name in CONTAINERS else "list"),),
                    tags=frozenset(("empty",)),
                )
        return None

    def _is_nothing(self, expr: flow.Call) -> bool:
        """Whether a call makes a tensor of no elements, to have one in the place of another: `self.k = torch.empty(0)`."""
        match expr:
            case flow.Call(callee=flow.Attr(base=flow.Name(id="torch"), name=name), args=(size,)) if name in _BLANKS:
                none = isinstance(size, flow.Lit) and size.value == 0 and size.value is not False
                blank = (isinstance(size, flow.Group) and not size.items) if name == "tensor" else none
                return blank and self.entry.facts.name not in ("__init__", MODULE)
        return False

    def mapped(self, function: Value, items: Value, expr: flow.Call) -> Value:
        """`map(function, items)`, as if it ran at once."""
        results: list[Value] = []

        def call() -> None:
            results.append(self.call_functions(function.calls, (items.element,), (), expr.span))

        if function.calls:
            self.emit(b.Repeat(self.nodes(call), b.NOTHING, items.places[:1], expr.span))
        return Value(((f"@{expr.span.start}",),), (Type("iterator"),), each=union(results))

    def invoke(
        self,
        callee: Value,
        receiver: Value,
        args: Sequence[Value],
        keywords: Mapping[str, Value],
        expr: flow.Call,
    ) -> Value:
        """A call: what a vocabulary says of it, then what its body does, then what its name says."""
        span = expr.span
        if any(bound.at is not None for bound in callee.calls):  # it is in tuples, of which nobody has taken it
            callee = callee._replace(calls=tuple(bound for bound in callee.calls if bound.at is None))
        names = self.names_of(callee)
        if self.vocabulary.decorated(names):
            functions = args[0].calls if args else ()  # without one, these are options: its result decorates
            decorator = Symbol("external", names[0]) if not functions else None
            return Value(calls=tuple(each._replace(outside=True) for each in functions), symbol=decorator)
        if names and names[0] in _MEMOS and not callee.calls:
            functions = args[0].calls if args else ()  # without one, these are options: its result decorates
            return Value(calls=functions, symbol=Symbol("external", names[0]) if not functions else None)
        known = self.vocabulary.called(names)
        external = self.effects(known, callee, receiver, args, keywords, expr) if known else None
        if (
            not (callee.calls or callee.symbol or known)
            and callee.slot is not None
            and callee.slot[0] in self.project.classes
        ):
            callee = callee._replace(calls=hooked(self.all, callee.slot))
        if callee.calls:
            callee = callee._replace(calls=tuple(self.of_keeper(bound, callee.places) for bound in callee.calls))
            self._remember(callee.calls[0])
            seen = {each.function for each in callee.calls}  # beside them, objects that can be called
            objects = tuple(each for each in self.instance_call(callee) if each.function not in seen)
            return self.call_functions((*callee.calls, *objects), args, tuple(keywords.items()), span, external)
        if callee.symbol is not None and callee.symbol.kind == "class":
            return self.construct(callee.symbol.name, args, keywords, expr)
        if any(t.name == "ref" for t in callee.types):  # a weak reference, called for what it refers to
            return callee.each or Value(callee.places, tuple(item for t in callee.types for item in t.items))
        if callee.types and all(t.name == "type" and t.items for t in callee.types):
            return self.construct_one([t.items[0].name for t in callee.types], args, keywords, expr)
        if callee.types and (called := self.instance_call(callee)):
            return self.call_functions(called, args, tuple(keywords.items()), span, external)
        if external is not None:
            return external
        for entry in self.vocabulary.entered(names):
            if entry.does is Effect.CAPTURE:
                return Value(((f"@{span.start}",),), context=self.context(entry, receiver, args, keywords, span))
        name = last_word(expr.callee)
        if name in ("get", "pop") and isinstance(expr.callee, flow.Attr) and expr.args:
            held = self.entry_of(expr.callee.base, receiver, expr.args[0])
            if held is not None:
                if name == "pop":
                    self.touch("drop", held.places, held.slot, span, held=held.types)
                return self.read(held)
        if name == "run_in_executor":
            args = args[1:]
        if any(value.calls or value.symbol for value in args[:1]) and (
            ran := self.run_elsewhere(name, callee, args, keywords, expr)
        ):
            return ran
        if name in _MODULE_LISTS and args and callee.symbol is not None:
            return args[0]._replace(tags=args[0].tags - {"empty"})
        if isinstance(expr.callee, flow.Attr):
            found = self.container_method(receiver, name, args, expr)
            if found is not None:
                return found
            if name == "_replace" and not args and receiver.types and receiver.types[0].name in self.project.classes:
                return self.construct(receiver.types[0].name, (), keywords, expr)
            if name in _SAME_STORAGE and (
                self.is_given(receiver) or (self.is_tensor(receiver) and receiver.slot is not None)
            ):
                return receiver._replace(items=None, each=None)
            if name in _STORAGES and not args and receiver.places:
                return receiver
            if name in _FRESH_METHODS:
                return self.tensor((*args, receiver), keywords, span)
        if name in self.vocabulary.names.capturing:
            return Value(test=CAPTURING, types=(Type("bool"),))
        if name in _ON_DEVICE and not args:
            return Value(test=DEVICE, types=(Type("bool"),))
        if name in _COMPILING:
            return Value(test=negated(DEVICE), types=(Type("bool"),))
        symbol = callee.symbol
        if symbol is not None and symbol.kind == "external" and name.lstrip("_")[:1].isupper() and not callee.places:
            made = Value(
                ((f"@{span.start}",),), (Type(symbol.name),), fields=dict(keywords), tags=frozenset(("object",))
            )
            made = self.started(made, name, args, tuple(keywords.items()))
            return self.made_of((*args, *keywords.values()), self.by_name(name, made, span))
        unread = symbol is not None and bool(receiver.places) and not receiver.types
        if (symbol is None or unread) and isinstance(
            expr.callee, flow.Attr
        ):  # unread: by way of a base outside the tree
            sole = self.siblings.get(name) or self.project.sole_method(name)
            if sole is None and isinstance(expr.callee.base, flow.Name | flow.Attr):
                sole = self.project.namesake(last_word(expr.callee.base), name)
            if sole is not None:
                owner = receiver._replace(types=(Type(sole[0]),))
                candidates = [sole[1], *self.project.overriders(sole[0], name)]
                return self.call_functions(
                    tuple(Bound(c, owner) for c in candidates[:WIDEST]), args, tuple(keywords.items()), span
                )
        return self.unresolved_call(name, receiver, args, keywords, expr, callee)

    def run_elsewhere(
        self, name: str, callee: Value, args: Sequence[Value], keywords: Mapping[str, Value], expr: flow.Call
    ) -> Value | None:
        """A function that an executor, or another thread, is given to run, as if it ran at once."""
        if name not in _RUNNERS or not args or callee.calls:
            return None
        function, rest = args[0], args[1:]
        if not function.calls:
            known = self.vocabulary.called(self.names_of(function))
            owner = Value(tuple(place[:-1] for place in function.places), slot=function.slot)
            return self.effects(known, function, owner, rest, keywords, expr) if known else None
        if name in ("map", "imap", "imap_unordered", "starmap"):
            return self.mapped(function, rest[0], expr) if rest else None
        return self.call_functions(function.calls, rest, tuple(keywords.items()), expr.span)

    def instance_call(self, callee: Value) -> tuple[Bound, ...]:
        """What calling an object runs: its `__call__`; for a module of torch without one of its own, `forward`."""
        found = []
        for t in callee.types:
            method = self.project.method(t.name, "__call__")
            if method is None and MODULE_CLASS in self.project.mro(t.name):
                method = self.project.method(t.name, "forward")
            if method is not None:
                found.append(Bound(method, callee))
        return tuple(found)

    def _remember(self, bound: Bound) -> None:
        """A method that one receiver has here: a receiver of no known type that is asked for it is taken for a sibling."""
        function = self.project.functions[bound.function]
        if bound.receiver is not None and bound.receiver.types and function.owner is not None:
            self.siblings.setdefault(function.facts.name, (bound.receiver.types[0].name, bound.function))

    def unresolved_call(
        self,
        name: str,
        receiver: Value,
        args: Sequence[Value],
        keywords: Mapping[str, Value],
        expr: flow.Call,
        callee: Value,
    ) -> Value:
        torch = callee.symbol is not None and callee.symbol.name.partition(".")[0] in (
            "torch",
            "builtins",
            "gc",
            "logging",
        )
        subject = ""
        if isinstance(expr.callee, flow.Attr):
            subject = last_word(expr.callee.base) or (receiver.slot[1] if receiver.slot else "")
        if (
            name == "set_" and receiver.places and args and args[0].fresh and isinstance(expr.args[0], flow.Call)
        ):  # other storage under the same name
            self.touch("write", receiver.places, receiver.slot, expr.span, args[0], receiver.types)
            return receiver
        if name == "resize_" and receiver.places:  # the storage moves where it grows
            if len(expr.args) == 1 and isinstance(expr.args[0], flow.Lit) and expr.args[0].value == 0:
                self.touch(
                    "write", receiver.places, receiver.slot, expr.span, Value(tags=frozenset(("empty", "storage")))
                )
            else:
                slot, label = receiver.slot, self.label(expr)
                self.emit(b.Happens(Effect.WS_REPLACE, receiver.places, slot, expr.span, label, "instance"))
        known = torch or (bool(receiver.types) and all(map(_is_of_standard_library, receiver.types)))
        effect = None if known else self.vocabulary.names.effect(name, subject)
        if effect is not None:
            slot = receiver.slot
            self.emit(
                b.Happens(
                    effect,
                    receiver.places,
                    slot,
                    expr.span,
                    self.label(expr),
                    "instance" if slot else "process",
                    by_name=True,
                )
            )
        if callee.symbol is not None and callee.symbol.name.startswith("torch.ops."):
            for each in (*args, *keywords.values()):
                self.filled_by_operator(each, expr.span)
        self.waited(name, receiver, args, expr)
        self.queued(name, receiver, args, expr)
        if name == "submit" and args and args[0].calls:
            self.submit(receiver, args)
            return self.started(Value(((f"@{expr.span.start}",),)), name, args, tuple(keywords.items()))
        if name == "release" and not args and any(t.name in _SEMAPHORES for t in receiver.types):
            self.emit(b.Touches("count", receiver.places, receiver.slot, expr.span))
        if not torch and name:
            self.unresolved.append((self.label(expr), expr.span))
        fields = {key: value for key, value in keywords.items() if value.places}
        for key, value in fields.items():
            self.aliases[(f"@{expr.span.start}", key)] = value.places
        symbol = callee.symbol.name if callee.symbol is not None else ""
        if symbol == "dataclasses.replace" and args and args[0].types and args[0].types[0].name in self.project.classes:
            return self.construct(args[0].types[0].name, (), keywords, expr)
        if symbol == "torch.device" and args:
            return self.made_of(
                args, Value(((f"@{expr.span.start}",),), (Type("torch.device"),), literal=args[0].literal)
            )
        result = self.by_name(name, Value(((f"@{expr.span.start}",),), fields=fields), expr.span)
        named = self.vocabulary.names.is_stream(name)
        named |= {"coarse"} if name in _ROUNDING else frozenset()
        if name.startswith("register_") and name.endswith("hook") and args:
            self._hook(args[0])
        result = self.made_of((receiver, *args, *keywords.values()), result._replace(tags=result.tags | named))
        if name not in _TO_HOST and (isinstance(expr.callee, flow.Attr) or callee.places):
            self.compute((receiver, *args, *keywords.values()), result)
        if name.lstrip("_")[:1].isupper() and any("captured" in value.tags for value in (*args, *keywords.values())):
            result = result._replace(tags=result.tags | {"captured"})  # a record of them
        if isinstance(expr.callee, flow.Attr) and receiver.fresh and name not in _TO_HOST:
            tags = result.tags | receiver.tags & {"tensor"}
            return result._replace(fresh=receiver.fresh, tags=tags, types=receiver.types)
        if result.fresh and symbol.rpartition(".")[0] in _OPERATIONS and not name.startswith(_ASKING):
            return result._replace(tags=result.tags | {"tensor"}, types=(Type(TENSOR),))
        if self.is_on_host(receiver) and (name == "cuda" or (name == "to" and _names_device(args, keywords))):
            return self.tensor((), {}, expr.span)
        if name == "to" and self.is_unknown(receiver) and _is_device(expr, args, keywords):
            moved = Value(((f"@{expr.span.start}",),), tags=frozenset(("tensor",)))
            return moved._replace(fresh=(Origin(self.entry.name, expr.span, by_name=True),))
        return result if result.fresh and result.fresh[0].by_name else result._replace(fresh=())

    @staticmethod
    def is_given(value: Value) -> bool:
        """Whether a value is what the function was given, or made in a capture, and is of no class that says what it does."""
        roots = all(len(place) == 1 and place[0][0] in "$@" for place in value.places)
        return roots and bool(value.places) and value.symbol is None and not value.calls and value.test is None

    @staticmethod
    def is_unknown(value: Value) -> bool:
        """Whether a value was made by a call that nobody can read."""
        local = bool(value.places) and all(place[0][0] == "@" for place in value.places)
        return local and not value.types and not value.fresh and value.symbol is None and not value.calls

    def is_on_host(self, value: Value) -> bool:
        """Whether a value is a tensor that was made here, and not on the device."""
        local = bool(value.places) and all(len(place) == 1 and place[0][0] == "@" for place in value.places)
        return local and self.is_tensor(value) and not value.fresh

    def filled_by_operator(self, value: Value, span: Span) -> None:
        """A container of tensors that an operator is handed, and that nothing else fills: the operator does."""
        tensors = any(
            t.name in CONTAINERS and any(self.vocabulary.canonical(item.name) == TENSOR for item in t.items)
            for t in value.types
        )
        if not tensors or value.slot is None or not self.emitting or not self.all.stays_empty(value.slot):
            return
        origin = Origin(self.entry.name, span, by_name=True)
        new = Value(((f"@{span.start}",),), (Type(TENSOR),), tags=frozenset(("tensor",)), fresh=(origin,))
        self.touch("add", value.places, value.slot, span, _captured(new) if self.in_capture else new)

    def context(
        self, entry: Entry, receiver: Value, args: Sequence[Value], keywords: Mapping[str, Value], span: Span
    ) -> tuple[Value, Value]:
        """The graph and the pool of a capture's context."""
        return self.subject(entry.of, receiver, args, keywords, span), self._named(entry.pool, args, keywords)

    def effects(
        self,
        entries: Sequence[Entry],
        callee: Value,
        receiver: Value,
        args: Sequence[Value],
        keywords: Mapping[str, Value],
        expr: flow.Call,
    ) -> Value:
        """What the vocabulary says of a call."""
        span = expr.span
        result = Value(((f"@{span.start}",),))
        for entry in entries:
            if entry.makes is not None:
                result = self.made(entry, receiver, args, keywords, span)
                continue
            effect = entry.does
            assert effect is not None
            if effect is Effect.IS_CAPTURING:
                result = Value(test=CAPTURING, types=(Type("bool"),))
                continue
            if entry.while_capturing:
                self.all.capture_allocations.setdefault(entry.name, entry)
            about = self.subject(entry.store or entry.of, receiver, args, keywords, span)
            pool = self._named(entry.pool, args, keywords)
            self.all.note(pool.slot).tags.add("pool")
            types = tuple(t.name for t in about.types)
            node = b.Happens(
                effect, about.places, about.slot, span, self.label(expr), entry.scope,
                () if pool.tags & {"none"} else pool.places, pool.slot, raw=effect is Effect.CAPTURE, types=types,
            )  # fmt: skip
            if effect is Effect.CAPTURE:
                self.in_capture += entry.name.endswith("capture_begin")
            elif effect is Effect.CAPTURE_END:
                self.in_capture = max(0, self.in_capture - 1)
                self.capturing = about.places
                self.hold_made(span)
            if callee.calls and effect in self.body_effects(callee):
                continue  # the body is there to be read, and says the same with more detail
            self.emit(node)
        return result

    def body_effects(self, callee: Value) -> set[Effect]:
        found: set[Effect] = set()
        for bound in callee.calls:
            built = self.all.build(bound.function)
            stack = [built.node] if built is not None else []
            for root in stack:
                for node in b.walk(root):
                    if isinstance(node, b.Happens):
                        found.add(node.effect)
                    elif isinstance(node, b.Calls) and len(stack) < 32:
                        stack += [x.node for x in map(self.all.built, node.behaviors) if x is not None]
        return found

    def made(
        self, entry: Entry, receiver: Value, args: Sequence[Value], keywords: Mapping[str, Value], span: Span
    ) -> Value:
        """What a call makes, by the vocabulary."""
        place = ((f"@{span.start}",),)
        made = entry.makes or ""
        if made.startswith("module:"):
            return Value(symbol=Symbol("external", made[7:]))
        if made.startswith("type:"):
            tags = frozenset(("stream",)) if made[5:] == STREAM else frozenset[str]()
            return Value(place, (Type(made[5:]),), tags=tags)
        if made == "graph":
            return Value(place, (Type(GRAPH),), tags=frozenset(("graph",)), exact=True)
        if made == "memory":
            return Value(place, tags=frozenset(("tensor",)), fresh=(Origin(self.entry.name, span),))
        if made == "tensor":
            return self.tensor(args, keywords, span)
        if made == "plan":
            return Value(place, tags=frozenset(("plan",)))
        if made == "mempool":
            return Value(place, (Type(MEMPOOL),), tags=frozenset(("mempool",)))
        if entry.store is not None:
            return self.subject(entry.store, receiver, args, keywords, span)._replace(tags=frozenset(("pool",)))
        minted = entry.of != "self"
        if minted:
            self.emit(b.Happens(Effect.POOL_MINT, place, None, span, entry.name))
        return Value(place, tags=frozenset(("pool", "minted") if minted else ("pool",)))

    def tensor(self, args: Sequence[Value], keywords: Mapping[str, Value], span: Span) -> Value:
        """A new tensor; on the host it is no device memory, and from a memory pool of its own it is nobody's."""
        place = ((f"@{span.start}",),)
        device = keywords.get("device", NOTHING_KNOWN).literal
        if (device or "").partition(":")[0] in ("cpu", "meta") or "true" in keywords.get(
            "pin_memory", NOTHING_KNOWN
        ).tags:
            return Value(place, (Type(TENSOR),))
        result = self.made_of((*args, *keywords.values()), Value(place, (Type(TENSOR),), tags=frozenset(("tensor",))))
        fresh = (Origin(self.entry.name, span),) if not self.in_pool else ()
        if self.in_pool:
            self.pooled.add(place[0][0])
        return result._replace(fresh=fresh, tags=result.tags - {"stream"})

    def container_method(self, receiver: Value, name: str, args: Sequence[Value], expr: flow.Call) -> Value | None:
        """A method of a dict, list, set or deque, on a receiver that is one or may be one."""
        kinds = {each for t in receiver.types for each in self._kinds(t.name)}
        if kinds and not kinds & CONTAINERS:
            return None
        if not kinds and (receiver.symbol is not None or not receiver.places):
            return None
        span = expr.span
        if "namespace" in receiver.tags and not args and name in ("items", "values", "copy", "keys"):
            return self.part_of_namespace(receiver, name)
        if name == "clear" and not args:
            if not kinds and self.vocabulary.names.is_object(last_word(_base(expr.callee))):
                return None
            self.touch("clear", receiver.places, receiver.slot, span, held=receiver.types)
            base = _base(expr.callee)
            self.let_go(_local(base), span)
            if isinstance(base, flow.Attr) and isinstance(base.base, flow.Name) and self.holding:
                self.part_gone(self.variable(base.base.id), base.name, span)
            return Value(tags=frozenset(("none",)))
        if name in _TAKERS and (kinds or receiver.slot is not None):
            base, key = _base(expr.callee), expr.args[0] if expr.args else None
            self.let_go(_local(base), span)
            whole = key is not None and (flow.dotted_text(base), flow.dotted_text(key)) in self.emptied
            gone = NOTHING_KNOWN if whole else None
            how, strict = "clear" if whole else "pop", name != "discard" and len(args) < 2
            named = "named" if name in ("discard", "remove") else keyed(key)
            self.touch(
                how, receiver.places, receiver.slot, span, held=receiver.types, key=gone, strict=strict, named=named
            )
            if name == "popitem":
                return Value(items=(NOTHING_KNOWN, receiver.element))
            return receiver.element
        if name in KEEPERS and args and (kinds or receiver.slot is not None or name in ("append", "setdefault")):
            if name == "update" and isinstance(expr.args[-1], flow.Group) and expr.args[-1].kind == "dict":
                self.updated(receiver, expr.args[-1], args[-1], span)
            elif name == "setdefault":
                missing = negated(self.compare("in", (receiver,), span))
                added = self.nodes(
                    lambda: self.touch("add", receiver.places, receiver.slot, span, args[-1], key=args[0])
                )
                self.emit(b.Either(missing, added, b.NOTHING, span))
            else:
                self.touch("add", receiver.places, receiver.slot, span, args[-1])
            self.queued(name, receiver, args, expr)
            several = name in ("extend", "update")
            self.filled(
                _base(expr.callee), receiver, args[-1].element if several else args[-1], "list", one=not several
            )
            return union([receiver.element, args[-1]]) if name == "setdefault" else NOTHING_KNOWN
        if (
            name in ("values", "items")
            and not args
            and kinds & _DICTS
            and (listed := self.listed_values(receiver, span))
        ):
            pairs = tuple(Value(items=(NOTHING_KNOWN, each)) for each in listed)
            return Value(
                receiver.places, (Type("list"),), slot=receiver.slot, items=pairs if name == "items" else listed
            )
        if name in _VIEWS and (kinds or not args):
            tags = receiver.tags | {"copy"} if name == "copy" else receiver.tags
            return receiver._replace(items=None, tags=tags)
        if name == "items" and not args:
            return Value(receiver.places, each=Value(items=(NOTHING_KNOWN, receiver.element)))
        if name == "keys" and kinds:
            return Value(receiver.places, each=NOTHING_KNOWN)
        if name == "__setitem__" and len(args) == 2:
            self.touch("add", receiver.places, receiver.slot, span, args[1], key=args[0])
            return NOTHING_KNOWN
        if name in ("get", "__getitem__") and args:
            if not kinds & _DICTS and kinds:
                return None
            return searched(receiver.element) if "coarse" in args[0].tags else receiver.element
        return NOTHING_KNOWN if kinds else None

    def _kinds(self, name: str) -> Iterator[str]:
        """The names of a class and, where it is a container or derives from one, of that."""
        yield name
        for each in self.project.mro(name) if name in self.project.classes else (name,):
            module, _, last = each.rpartition(".")
            if module in ("", "builtins", "collections", "weakref") and last in CONTAINERS:
                yield last

    def updated(self, container: Value, display: flow.Group, items: Value, span: Span) -> None:
        """A dictionary that takes in the items of a display."""
        for key in display.keys[:1]:
            self.touch(
                "add", container.places, container.slot, span, items.element, key=self.value(key) if key else None
            )

    def construct(self, name: str, args: Sequence[Value], keywords: Mapping[str, Value], expr: flow.Call) -> Value:
        """An instance of a class of the project."""
        span = expr.span
        place = (f"@{span.start}",)
        if name not in self.project.classes:
            return Value((place,), (Type(name),), tags=frozenset(("object",)))
        aliases = self.all.constructor_aliases(name)
        init = self.project.method(name, "__init__")
        given: dict[str, Value] = dict(keywords)
        if init is not None:
            positional = [p.name for p in self.project.functions[init].facts.params if p.kind == "positional"][1:]
        else:
            positional = self.all.record_fields(name)
        given.update(zip(positional, args, strict=False))
        fields: dict[str, Value] = {}
        for attribute, param in aliases.items():
            value = given.get(param)
            if value is None:
                continue
            if value.places or value.calls:
                fields[attribute] = value
                self.aliases[(place[0], attribute)] = value.places
            if self.emitting:
                notes = self.all.note((name, attribute))
                notes.tags |= value.tags & HELD
                notes.types |= {t.name for t in flat(value.types)}
                self.keep((name, attribute), value)
        types = (Type(name),)
        if self.emitting:
            fields |= self.parts_given(Value((place,), types, exact=True), given, aliases.keys(), span)
        canonical = [self.vocabulary.canonical(each) for each in self.project.mro(name)]
        tags = frozenset(("graph", "object")) if GRAPH in canonical else frozenset(("object",))
        value = Value((place,), types, tags=tags, fields=fields, exact=True)
        if (new := self.project.method(name, "__new__")) is not None:
            bound = Bound(new, Value(symbol=Symbol("class", name)))
            given_back = self.call_functions((bound,), args, tuple(keywords.items()), span)
            if known := tuple(each for each in given_back.places if each[0].startswith(("class:", "mod:"))):
                value = value._replace(places=known, slot=given_back.slot)  # one that was made before
        if self.emitting:
            value = self.made_of((*args, *keywords.values()), value)
            if self.all.allocates(name):
                value = value._replace(fresh=(Origin(self.entry.name, span), *value.fresh)[:WIDEST])
        for method in (init, self.project.method(name, "__post_init__")):
            if method is not None:
                rest = (tuple(args), tuple(keywords.items())) if method == init else ((), ())
                self.call_functions((Bound(method, value),), rest[0], rest[1], span)
        return value

    def construct_one(
        self, names: Sequence[str], args: Sequence[Value], keywords: Mapping[str, Value], expr: flow.Call
    ) -> Value:
        """An instance of one of several classes."""
        first, *rest = names
        if not rest:
            return self.construct(first, args, keywords, expr)
        made: list[Value] = []
        one = self.nodes(lambda: made.append(self.construct(first, args, keywords, expr)))
        others = self.nodes(lambda: made.append(self.construct_one(rest, args, keywords, expr)))
        if one != b.NOTHING or others != b.NOTHING:
            self.emit(b.Either(("unknown", f"{self.entry.name}@{expr.span.start}"), one, others, expr.span))
        return union(made)

    def call_functions(
        self,
        bounds: tuple[Bound, ...],
        args: Sequence[Value],
        keywords: Sequence[tuple[str, Value]],
        span: Span,
        external: Value | None = None,
    ) -> Value:
        """Calls of functions of the project; several are alternatives."""
        if not self.emitting:
            return union([self.returned(bound, self.bindings(bound, args, keywords), span, None) for bound in bounds])
        keys: list[str] = []
        results: list[Value] = []
        merged: dict[str, tuple[Place, ...]] = {}
        filling: list[tuple[Behavior, dict[str, Value]]] = []
        for bound in bounds:
            function = self.project.functions[bound.function]
            bindings = self.bindings(bound, args, keywords)
            self.hand_in(bound, bindings, span)
            types = {**self.variant(function, bindings), **self.handing_types(bound, bindings)}
            built = self.all.build(bound.function, types)
            result = self.returned(bound, bindings, span, built)
            if built is None:  # what it tests is not known path by path
                result = result._replace(test=None, tags=result.tags - CONSTANTS)
            results.append(result)
            if function.parent == self.entry.name and built is not None:
                self._fill_own(built)
            if built is not None and (built.fills or self.in_capture):
                filling.append((built, bindings))
            key = built.key if built is not None else bound.function
            keys.append(key)
            for param, value in bindings.items():
                merged[param] = tuple(dict.fromkeys((*merged.get(param, ()), *passed(value))))[:WIDEST]
                if value.fresh and value.places and value.places[0][0].startswith("@"):
                    self.given[value.places[0][0]] = value.fresh
                if value.fresh:
                    self.all.given.setdefault(bound.function, set()).add(param)
                if value.slot is not None:
                    self.all.slots_given.setdefault((bound.function, param), set()).add(value.slot)
                if "stream" in value.tags:
                    self.all.streams.add((bound.function, param))
                if "captured" in value.tags:
                    self.all.captures_given.setdefault((bound.function, param), set()).update(self.capturers(value))
                if items := self.all.filled.get((bound.function, param)):
                    self._fill_with(value, items)
                if self.holding and built is not None:
                    self.gone_by(param, value, built, span)
        outside = any(bound.outside or self.all.runs_outside(bound.function) for bound in bounds)
        if self.in_capture and not outside:
            self.captured_calls.update(keys)
        identity = f"{self.entry.name}@{span.start}"
        if any(each is not None and each.gives_pooled for each in map(self.all.built, keys)):
            self.pooled.add(f"@{span.start}")
        self.hold_found(keys, span)
        self.emit(b.Calls(tuple(keys), tuple(merged.items()), span, identity, outside))
        for built, bindings in filling:
            self.filled_by(built, bindings, span)
        if self.copies:
            self.hold_emptied(keys, span)
        if all(self.all.only_raises(bound.function) for bound in bounds):
            self.emit(b.Leaves("raise", span))
        result = union(results)
        if "captured" in result.tags and not self.in_capture:
            made = [self.project.functions[bound.function] for bound in bounds]
            self.captured_by[f"@{span.start}"] = {each.owner or f"mod:{each.module.name}" for each in made}
        if external is not None and external.test is not None:
            return external
        if all(each is not None and each.asks_capture for each in map(self.all.built, keys)):
            return Value(test=CAPTURING, types=(Type("bool"),))
        if (result.test is None and result.tags & CONSTANTS != result.tags) or len(results) > 1:
            pass
        if (
            result.test is None
            and not result.places
            and result.symbol is None
            and not result.tags & {"pool", "graph", "object"}
        ):
            result = result._replace(test=("returned", identity))
        return result

    def _hook(self, function: Value) -> None:
        """A function that a module runs with what it is given and what it gives: in captures too."""
        for bound in (*function.calls, *self.instance_call(function)) if self.emitting else ():
            params = self.project.functions[bound.function].facts.params[1 if bound.receiver is None else 2 :]
            for param in params:
                self.all.captures_given.setdefault((bound.function, param.name), set()).add(self.owner)

    def _fill_with(self, container: Value, items: set[Type]) -> None:
        """A local container that a callee puts items into is not empty any more."""
        for place in container.places:
            if len(place) == 1 and place[0][0] == "$":
                self.all.filled.setdefault((self.entry.name, place[0][1:]), set()).update(items)
        for name, known in list(self.env.items()):
            if known.places and known.places == container.places and known.places[0][0][0] == "@":
                kinds = [t for t in known.types if t.name in CONTAINERS]
                types = tuple(Type(t.name, tuple(dict.fromkeys((*t.items, *sorted(items))))[:WIDEST]) for t in kinds)
                self.env[name] = known._replace(types=types or known.types, tags=known.tags - {"empty"}, items=None)

    def _fill_own(self, built: Behavior) -> None:
        """Local containers that a function in this one puts items into are not empty any more."""
        mine = f"cell:{self.entry.name}"
        for slot in built.touched:
            if slot is not None and slot[0] == mine and (items := self.all.filled.get(slot)) and slot[1] in self.env:
                self._fill_with(self.env[slot[1]], items)

    def variant(self, function: FunctionEntry, bindings: Mapping[str, Value]) -> dict[str, tuple[Type, ...]]:
        """Types of arguments that decide what the callee does: the receiver's own class, and parameters without annotation."""
        types: dict[str, tuple[Type, ...]] = {}
        methods = self.project.methods_named
        texts = {
            name: text for name, value in bindings.items() if (text := value.literal) is not None and text in methods
        }
        naming = self.all.dispatch.params(function).intersection(texts) if texts else frozenset[str]()
        for index, param in enumerate(function.facts.params):
            value = bindings.get(param.name)
            if value is None:
                continue
            if param.name in naming:
                types[param.name] = (named_type(texts[param.name]),)
                continue
            if index == 0 and function.kind in ("method", "property"):
                mine = value.types[:1]
                if mine and mine[0].name != function.owner and function.owner in self.project.mro(mine[0].name):
                    types[param.name] = mine
                continue
            unsaid = param.annotation is None or (
                naming and not self.project.annotation(function.module, param.annotation)
            )
            if unsaid and param.kind == "positional":
                named = tuple(
                    t for t in value.types if t.name in self.project.classes or t.name == GRAPH or self.has_graphs((t,))
                )
                if named:
                    types[param.name] = named
            elif param.annotation is not None and any(t.name == GRAPH for t in flat(value.types)):
                if is_vague(self.project.annotation(function.module, param.annotation)):
                    types[param.name] = value.types
        return types

    def bindings(self, bound: Bound, args: Sequence[Value], keywords: Sequence[tuple[str, Value]]) -> dict[str, Value]:
        """Parameter -> argument, defaults that are constants included."""
        function = self.project.functions[bound.function]
        params = function.facts.params
        result: dict[str, Value] = {}
        positional = [p.name for p in params if p.kind == "positional"]
        given = [*bound.args, *args]
        if function.kind in ("method", "property", "classmethod") and (bound.receiver is not None):
            given.insert(0, bound.receiver)
        elif function.kind == "classmethod" and function.owner:
            given.insert(0, Value(symbol=Symbol("class", function.owner)))
        result.update(zip(positional, given, strict=False))
        accepted = {p.name for p in params}
        result.update((k, v) for k, v in (*bound.keywords, *keywords) if k in accepted)
        for param in params:
            if param.kind == "args" and len(given) > len(positional):
                result[param.name] = Value(types=(Type("tuple"),), items=tuple(given[len(positional) :]))
            elif param.kind == "kwargs":
                others = {k: v for k, v in (*bound.keywords, *keywords) if k not in accepted}
                if others:
                    result[param.name] = Value(types=(Type("dict"),), fields=others)
            elif param.name not in result and isinstance(param.default, flow.Lit):
                result[param.name] = literal_value(param.default.value)
        if function.parent is not None:  # a closure reads its parent's parameters
            around = {name: value for name, value in self.around(bound) if name not in result}
            result.update(around)
            outer = self.project.functions[function.parent].facts.params
            if bound.receiver is not None and function.kind == "function" and outer and outer[0].name in around:
                result[outer[0].name] = bound.receiver  # of a method: its object
        return result

    def around(self, bound: Bound) -> tuple[tuple[str, Value], ...]:
        """What the parameters of the functions around one are, by name, and what is bound to functions that those were handed."""
        if bound.around or self.project.functions[bound.function].parent is None:
            return bound.around
        closure = self.all.closures.get(nested(bound.function, bound.inside))
        found: dict[str, Value] = {}
        while closure is not None:
            for name in (*(name for name in closure.env if name in closure.params), *closure.handed):
                found.setdefault(name, Value((self._closed_over(closure, name),)))
            closure = closure.parent
        return tuple(found.items())

    def acts(self, bound: Bound) -> bool:
        """Whether a function that is handed over does anything, as far as that is known by now."""
        if bound.inside or self.all.does_something(bound.function):
            return True
        self.all.passed_over.setdefault(bound.function, set()).add(self.entry.name)
        return False

    def handing_types(self, bound: Bound, bindings: dict[str, Value]) -> dict[str, tuple[Type, ...]]:
        """Types that tell which functions a call hands on; what is bound to these comes to the bindings."""
        found = self.all.handing.given(self.project.functions[bound.function], bindings, self.around, self.acts)
        return {**found, INSIDE: (Type(bound.inside),)} if bound.inside else found

    def _closed_over(self, closure: Around, name: str) -> Place:
        """What a parameter of the function around a closure is, for a method of the same object that calls it later."""
        maker = closure.entry
        is_later = bool(self.me and closure.me) and maker.owner is not None and maker.name != self.entry.name
        if not is_later or maker.owner not in self.project.mro(self.entry.owner or ""):
            return (f"${name}",)
        if f"${name}" == closure.me:
            return (self.me,)
        kept = self.all.constructor_aliases(maker.owner) if maker.facts.name == "__init__" else {}
        return next(((self.me, attribute) for attribute, param in kept.items() if param == name), (f"${name}",))

    def of_keeper(self, bound: Bound, places: tuple[Place, ...]) -> Bound:
        """A method, or a function in one, that a table or an attribute keeps, where nobody knows of which object it is.

        What keeps it stands for the object; a function in a method that the same object keeps is its own.
        """
        if not places:
            return bound
        owner = tuple(map(_item_of_table, places))
        if bound.receiver is not None:
            unknown = not bound.receiver.places and bound.receiver.symbol is None
            return bound._replace(receiver=bound.receiver._replace(places=owner)) if unknown else bound
        method = self.project.functions.get(self.project.functions[bound.function].parent or "")
        if ELEMENT not in places[0] or method is None or method.kind != "method" or method.owner is None:
            return bound
        is_own = owner[0][:-2] == (self.me,) and method.owner in self.project.mro(self.entry.owner or "")
        if is_own or self.entry.name.startswith(method.name):
            return bound
        return bound._replace(receiver=Value(owner, (Type(method.owner),)))

    def passed_on(self, origin: Origin, span: Span) -> Origin:
        """An allocation of a callee, as one of the call."""
        if origin.function == self.entry.name:
            return origin
        return Origin(self.entry.name, span, origin.by_name, origin.within or origin)

    def returned(self, bound: Bound, bindings: Mapping[str, Value], span: Span, built: Behavior | None) -> Value:
        """What a call gives: the callee's return value with the arguments put in."""
        function = self.project.functions[bound.function]
        if function.is_context_manager:
            value = built.yields if built is not None else NOTHING_KNOWN
        elif function.lowered.is_generator:
            given = built.yields if built is not None else NOTHING_KNOWN
            each = rebased_element(given, bindings, span) if given.places or given.items else None
            types = self.project.annotation(function.module, function.facts.returns)
            if built is not None and built.yielded is not None:
                items = tuple(rebased(each, bindings, span, 0) for each in built.yielded)
                return Value(((f"@{span.start}",),), types or (Type("iterator"),), items=items)
            return Value(((f"@{span.start}",),), types or (Type("iterator"),) if each else types, each=each)
        else:
            value = built.returns if built is not None else self.all.return_value(bound.function)
        kept = built is not None and function.memo is not None
        value = rebased(value, bindings, span, 0)
        if "met" in value.tags:
            value = searched(value)
        if kept and "pool" in value.tags and function.memo == "function":
            slot = (f"mod:{bound.function}", MEMO)
            value = value._replace(places=(slot,), slot=slot)
        elif function.memo == "function" and not function.facts.params and value.types and not value.calls:
            slot = (f"mod:{bound.function}", MEMO)  # one object, which every call gives
            value = value._replace(places=(slot,), slot=slot)
        elif kept and function.memo == "function" and (slot := (f"mod:{bound.function}", MEMO)) in self.all.slots:
            whole = value.items
            parts = tuple(item._replace(slot=slot) for item in whole) if whole is not None else None
            value = self.read(value._replace(slot=slot, items=parts))
        if value.fresh:
            value = value._replace(fresh=() if kept else tuple(self.passed_on(origin, span) for origin in value.fresh))
        declared = self.project.annotation(function.module, function.facts.returns)
        if declared and all(t.name in CONTAINERS and not t.items for t in value.types):
            value = value._replace(types=declared)
        if not value.types and built is not None and not function.is_context_manager:
            value = value._replace(types=self.all.return_value(bound.function).types)
        return value


def _captured(value: Value) -> Value:
    """A value that a call inside a capture made, and its items."""
    if value.tags & {"pool", "graph"} or (value.test is not None and not is_of_elements(value.test)):
        return value
    items = tuple(map(_captured, value.items)) if value.items is not None else None
    return value._replace(tags=value.tags | {"captured"}, items=items)


def _item_of_table(place: Place) -> Place:
    """The item of a table, or of a table in a table, that a place is or leads through; the place itself without one."""
    if ELEMENT not in place:
        return place
    end = place.index(ELEMENT) + 1
    while place[end : end + 1] == (ELEMENT,):
        end += 1
    return place[:end]


def _is_of_standard_library(kind: Type) -> bool:
    """Whether a class is Python's own, so that what its methods are called says nothing of graphs."""
    module, _, name = kind.name.rpartition(".")
    return bool(name) and module.partition(".")[0] in sys.stdlib_module_names


def _names_device(args: Sequence[Value], keywords: Mapping[str, Value]) -> bool:
    """Whether `to` is told a device, as far as that shows, and not a type alone."""
    if "device" in keywords:
        return True
    dtype = bool(args) and args[0].symbol is not None and args[0].symbol.name.startswith("torch.")
    return bool(args) and not dtype and (args[0].literal or "").partition(":")[0] != "cpu"


def _is_device(expr: flow.Call, args: Sequence[Value], keywords: Mapping[str, Value]) -> bool:
    """Whether `to` is given what is named after a device, or names one."""
    given = [*expr.args[:1], *(value for key, value in expr.keywords if key == "device")]
    named = any("device" in flow.last_name(each).lower() for each in given)
    literal = args[0].literal if args else keywords["device"].literal if "device" in keywords else None
    return named or (literal or "").startswith("cuda")


def _local(expr: Expr) -> str:
    return expr.id if isinstance(expr, flow.Name) else ""


def _base(expr: Expr) -> Expr:
    return expr.base if isinstance(expr, flow.Attr) else expr
