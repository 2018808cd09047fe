"""Functions to behaviors: names become places, calls become effects or calls of other behaviors.

Two readings share one evaluator. Building a behavior walks the flow in order, with the local variables as they stand at each
point. Typing asks what an attribute or a return value can be, anywhere, and looks local variables up by all their bindings.
Types come first from annotations, then from what is assigned, then from who calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from graphlint import behavior as b
from graphlint import flow
from graphlint.behavior import Behavior, Node, Slot
from graphlint.effects import Effect
from graphlint.facts import MODULE
from graphlint.flow import Expr, Flow
from graphlint.project import ClassEntry, FunctionEntry, Module, Project
from graphlint.source import Span
from graphlint.values import (
    CAPTURING,
    CONTAINERS,
    DEVICE,
    ELEMENT,
    NOTHING_KNOWN,
    UNKNOWN,
    WIDEST,
    Bound,
    Origin,
    Place,
    Symbol,
    Test,
    Type,
    Value,
    negated,
    union,
)
from graphlint.vocabulary import Entry, Vocabulary

GRAPH = "torch.cuda.CUDAGraph"
TENSOR = "torch.Tensor"
MEMPOOL = "torch.cuda.MemPool"
STREAM = "torch.cuda.Stream"
MODULE_CLASS = "torch.nn.Module"

_DEEPEST = 24
"""Deepest nesting of typing questions; past it nothing is known."""
_LONGEST_UNROLLED = 8
_LARGEST_NAMESPACE = 24
"""Most attributes, of those that can matter, that a loop over `vars(x)` visits one by one."""
_MOST_VARIANTS = 8
_MOST_CALLERS = 24

TRUE: Test = ("const", True)
FALSE: Test = ("const", False)

_KEEPERS = frozenset(("append", "add", "extend", "insert", "appendleft", "setdefault", "update", "push"))
_TAKERS = frozenset(("pop", "popitem", "popleft", "discard", "remove"))
_VIEWS = frozenset(("values", "copy"))
_SAME = frozenset(("list", "tuple", "set", "sorted", "reversed", "iter", "frozenset", "dict", "deque"))
_DICTS = frozenset(("dict", "OrderedDict", "defaultdict", "WeakValueDictionary", "WeakKeyDictionary"))
_FRESH_METHODS = frozenset(("new_empty", "new_zeros", "new_ones", "new_full", "new_tensor"))
_TO_HOST = frozenset(("cpu", "data_ptr", "dim", "element_size", "is_contiguous", "item", "nelement", "numel", "numpy", "pin_memory",
                      "size", "storage_offset", "stride", "tolist"))  # fmt: skip
"""Methods of a tensor that give no device memory."""
_ON_DEVICE = frozenset(("is_available", "is_initialized", "is_cuda", "is_cuda_alike"))
_COMPILING = frozenset(("is_compiling", "is_dynamo_compiling", "is_exporting"))
_MISSES = frozenset(("KeyError", "AttributeError", "LookupError", "IndexError"))
MEMO = "<cache>"
"""Name of the variable in which a function that is decorated with `lru_cache` keeps what it returns."""
_MOST_READ = 12
_DEEPEST_DISPLAY = 3
_CONSTANTS = frozenset(("none", "true", "false"))
_HELD = frozenset(("tensor", "captured", "graph", "pool", "mempool"))
"""Tags that say what an attribute or a variable holds."""


@dataclass
class SlotNotes:
    """What is known of an attribute of a class or a variable of a module, over all of its uses."""

    tags: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    sources: set[Slot] = field(default_factory=set)
    """Slots whose values were put here as they are: both hold on to the same objects."""


class Known(NamedTuple):
    """What an attribute, a variable or a parameter can be, over all of its bindings; nothing of where that lives."""

    types: tuple[Type, ...] = ()
    calls: tuple[Bound, ...] = ()
    symbol: Symbol | None = None
    """A module, class or function that every binding names."""


class Behaviors:
    """The behaviors of a project, built when asked for."""

    def __init__(self, project: Project, vocabulary: Vocabulary) -> None:
        self.project = project
        self.vocabulary = vocabulary
        self.slots: dict[Slot, SlotNotes] = {}
        self.given: dict[str, set[str]] = {}
        """By function, its parameters that are given device memory as it is allocated."""
        self.streams: set[tuple[str, str]] = set()
        """Functions and their parameters that are given the identity of a stream."""
        self.capture_allocations: dict[str, Entry] = {}
        """Vocabulary entries, by name, whose call was seen or whose release is known, that allocate while capturing."""
        self._built: dict[str, Behavior | None] = {}
        self._variants: dict[str, list[str]] = {}
        self._known: dict[tuple[str, str], Known] = {}
        self._bindings: dict[str, dict[str, list[tuple[FunctionEntry, Expr, str]]]] = {}
        self._returns: dict[str, Value] = {}
        self._aliases: dict[str, dict[str, str]] = {}
        self._locals: dict[str, dict[str, list[tuple[Expr, str]]]] = {}
        self._raising: dict[str, bool] = {}
        self._busy: set[object] = set()
        self._outside: dict[str, bool] = {}
        self._depth = 0
        self.closures: dict[str, _Frame] = {}
        self.candidates: set[str] | None = None
        """Functions that may be built; None: all. A call of another is kept by name and does nothing until it is built."""
        self._by_word: dict[str, list[FunctionEntry]] | None = None
        self._typing: dict[str, _Frame] = {}
        self.started: dict[str, dict[str, Value]] = {}
        """By function, what its parameters can be, and its local variables over all of their bindings."""
        self.cut = 0
        """How often a question was not followed further, so that an answer may be less than whole."""
        self._calling: dict[str, tuple[tuple[FunctionEntry, flow.Call], ...]] = {}

    # ------------------------------------------------------------------------------------------------ behaviors

    def build(self, name: str, types: Mapping[str, tuple[Type, ...]] | None = None) -> Behavior | None:
        """Behavior of a function; `types` are those of parameters that say none themselves.

        None while it is being built, which ends a recursion, and for a function that is no candidate.
        """
        if self.candidates is not None and name not in self.candidates and ".<locals>." not in name:
            return None
        key = name
        if types:
            key += "|" + ",".join(f"{p}:{'/'.join(t.name for t in ts)}" for p, ts in sorted(types.items()))
            variants = self._variants.setdefault(name, [])
            if key not in variants:
                if len(variants) >= _MOST_VARIANTS:
                    key, types = name, None
                else:
                    variants.append(key)
        if key not in self._built:
            self._built[key] = None
            entry = self.project.functions[name]
            frame = _Frame(self, entry, types or {}, emitting=True)
            self._built[key] = frame.behavior(key)
        return self._built[key]

    def typed(self, function: FunctionEntry, expr: Expr) -> Value:
        """What an expression of a function can be, wherever in it; nothing is emitted."""
        frame = self._typing.get(function.name)
        if frame is None:
            frame = self._typing[function.name] = _Frame.typing(self, function)
        return frame.value(expr)

    def built(self, key: str) -> Behavior | None:
        """The behavior of a key, if it is built."""
        return self._built.get(key)

    def allocates(self, class_name: str) -> bool:
        """Whether the constructor of a class allocates device memory and keeps it in the object."""
        init = self.project.method(class_name, "__init__")
        built = self.build(init) if init is not None else None
        if built is None:
            return False
        me = f"${built.receiver}"
        return any(
            isinstance(node, b.Touches) and node.fresh and node.places and node.places[0][0] == me
            for node in built.nodes
        )

    def runs_outside(self, name: str) -> bool:
        """Whether a decorator has a function run outside of the capture that calls it."""
        known = self._outside.get(name)
        if known is None:
            known = self._outside[name] = any(map(self.vocabulary.decorated, self._decorators(name)))
        return known

    def _decorators(self, name: str) -> Iterator[list[str]]:
        """Canonical names of what decorates a function."""
        entry = self.project.functions[name]
        for decorator in entry.facts.decorators:
            while isinstance(decorator, flow.Call):
                decorator = decorator.callee
            dotted = self.project.dotted(entry.module, decorator)
            if dotted is not None:
                yield [self.vocabulary.canonical(self.project.resolve(dotted).name)]

    def is_built(self, name: str) -> bool:
        return name in self._built

    def forget(self, keys: Iterable[str]) -> None:
        """Drop behaviors that were built before a callee of theirs became a candidate."""
        for key in keys:
            self._built.pop(key, None)

    def all(self) -> Iterator[Behavior]:
        """Every behavior built so far."""
        return (each for each in list(self._built.values()) if each is not None)

    def note(self, slot: Slot | None) -> SlotNotes:
        """Notes on a slot, to be added to."""
        if slot is None:
            return SlotNotes()
        return self.slots.setdefault(slot, SlotNotes())

    # --------------------------------------------------------------------------------------------------- typing

    def field_types(self, class_name: str, name: str) -> tuple[Type, ...]:
        """Types that an attribute of a class's instances can have."""
        return self.field(class_name, name).types

    def field(self, class_name: str, name: str) -> Known:
        """What an attribute of a class's instances can be; receivers in it are over the instance, `$self`."""
        key = (class_name, name)
        known = self._known.get(key)
        if known is None:
            if key in self._busy or self._depth > _DEEPEST:
                self.cut += 1
                return Known()
            self._busy.add(key)
            self._depth += 1
            try:
                known = self._known[key] = self._field(class_name, name)
            finally:
                self._busy.discard(key)
                self._depth -= 1
        return known

    def _field(self, class_name: str, name: str) -> Known:
        found: list[Type] = []
        items: list[Type] = []
        values: list[tuple[Value, str]] = []
        for each in self.project.mro(class_name):
            entry = self.project.classes.get(each)
            if entry is None:
                continue
            attribute = entry.attributes.get(name)
            if attribute is not None:
                if attribute.annotation is not None:
                    found += self.project.annotation(entry.module, attribute.annotation)
                if attribute.value is not None:
                    value = _Frame.at_module(self, entry.module).value(attribute.value)
                    found += value.types
                    values.append((value, ""))
                    self.note((each, name)).tags |= value.tags & _HELD
            for function, expr, how in self.field_bindings(each).get(name, ()):
                if how == "annotation":
                    found += self.project.annotation(function.module, expr)
                    continue
                value = _Frame.typing(self, function).value(expr)
                if how == "item":
                    items += value.types
                    value = Value(calls=value.calls)
                else:
                    found += value.types
                values.append((value, function.facts.params[0].name if function.facts.params else ""))
        return _known(_merge(found, items), values)

    def field_bindings(self, class_name: str) -> dict[str, list[tuple[FunctionEntry, Expr, str]]]:
        """What the methods of a class assign to attributes of their instance: function, value, set | item | annotation."""
        known = self._bindings.get(class_name)
        if known is not None:
            return known
        result: dict[str, list[tuple[FunctionEntry, Expr, str]]] = {}
        self._bindings[class_name] = result
        entry = self.project.classes.get(class_name)
        short = class_name.rpartition(".")[2]
        for method in entry.methods.values() if entry is not None else ():
            function = self.project.functions[method]
            me = function.facts.params[0].name if function.facts.params and function.kind != "staticmethod" else ""
            for target, value, how in _bindings(function.lowered.flow):
                match target:
                    case flow.Attr(base=flow.Name(id=base), name=name) if base == me:
                        result.setdefault(name, []).append((function, value, how))
                    case flow.Item(base=flow.Attr(base=flow.Name(id=base), name=name)) if base in (me, short):
                        result.setdefault(name, []).append((function, value, "item"))
        return result

    def is_shared(self, class_name: str, name: str) -> str | None:
        """The class that holds `instance.name`, where it is a class attribute that no instance overrides."""
        holder = None
        for each in self.project.mro(class_name):
            entry = self.project.classes.get(each)
            if entry is None:
                continue
            for function, _, how in self.field_bindings(each).get(name, ()):
                if function.kind != "classmethod" and how != "item":
                    return None
            if holder is None and name in entry.attributes and not _is_field(entry, name):
                holder = each
        return holder

    def variable_types(self, dotted: str) -> tuple[Type, ...]:
        """Types of a module-level variable."""
        return self.variable(dotted).types

    def variable(self, dotted: str) -> Known:
        """What a module-level variable can be."""
        module_name, _, name = dotted.rpartition(".")
        key = ("mod:" + module_name, name)
        known = self._known.get(key)
        if known is None:
            module = self.project.modules.get(module_name)
            if module is None:
                return Known()
            if key in self._busy:
                self.cut += 1
                return Known()
            self._busy.add(key)
            try:
                known = self._known[key] = self._variable(module, name)
            finally:
                self._busy.discard(key)
        return known

    def _variable(self, module: Module, name: str) -> Known:
        found: list[Type] = []
        items: list[Type] = []
        values: list[tuple[Value, str]] = []
        binds = module.variables.get(name, ())
        for bind in binds:
            found += self.project.annotation(module, bind.annotation)
            if bind.value is not None:
                value = _Frame.at_module(self, module).value(bind.value)
                found += value.types
                values.append((value, ""))
        if any(bind.value is not None and _starts_empty(bind.value) for bind in binds):
            for function, expr, how in self._later_bindings(module, name):
                value = _Frame.typing(self, function).value(expr)
                if how == "item":
                    items += value.types
                    value = Value(calls=value.calls)
                else:
                    found += value.types
                values.append((value, ""))
        return _known(_merge(found, items), values)

    def _later_bindings(self, module: Module, name: str) -> Iterator[tuple[FunctionEntry, Expr, str]]:
        """What functions of a module give a variable of it, or put into it."""
        for function in self.functions_with(name):
            if function.module is not module or function.facts.qualname == MODULE:
                continue
            for target, value, how in _bindings(function.lowered.flow):
                match target:
                    case flow.Name(id=target_name) if target_name == name and name in function.lowered.globals:
                        yield function, value, how
                    case flow.Item(base=flow.Name(id=target_name)) if target_name == name and how == "item":
                        yield function, value, how

    def return_value(self, name: str) -> Value:
        """What a function returns, over its own parameters, by all of its return statements."""
        known = self._returns.get(name)
        if known is None:
            key = ("return", name)
            if key in self._busy or self._depth > _DEEPEST:
                self.cut += 1
                return NOTHING_KNOWN
            self._busy.add(key)
            self._depth += 1
            try:
                entry = self.project.functions[name]
                frame = _Frame.typing(self, entry)
                values = [frame.value(e.value) for e in _exits(entry.lowered.flow) if e.value is not None]
                value = union(values)
                declared = self.project.annotation(entry.module, entry.facts.returns)
                if declared and not value.types:
                    value = value._replace(types=declared)
                known = self._returns[name] = value
            finally:
                self._busy.discard(key)
                self._depth -= 1
        return known

    def only_raises(self, name: str) -> bool:
        """Whether a function never returns; a method that only raises is one for subclasses to define."""
        known = self._raising.get(name)
        if known is None:
            entry = self.project.functions[name]
            body = entry.lowered.flow
            known = self._raising[name] = not (
                entry.lowered.is_generator
                or _falls_through(body)
                or any(_exits(body))
                or (entry.owner is not None and _is_abstract(entry))
            )
        return known

    def constructor_aliases(self, class_name: str) -> dict[str, str]:
        """Attribute -> constructor parameter that it is, unchanged."""
        known = self._aliases.get(class_name)
        if known is not None:
            return known
        result: dict[str, str] = {}
        self._aliases[class_name] = result
        init = self.project.method(class_name, "__init__")
        if init is None:
            for each in reversed(self.project.mro(class_name)):
                entry = self.project.classes.get(each)
                if entry is not None and _is_record(entry):
                    result.update((name, name) for name, a in entry.attributes.items() if a.annotation is not None)
            return result
        function = self.project.functions[init]
        params = {param.name for param in function.facts.params}
        me = function.facts.params[0].name if function.facts.params else ""
        for target, value, how in _bindings(function.lowered.flow):
            match target, value:
                case flow.Attr(base=flow.Name(id=base), name=name), flow.Name(id=param) if (
                    base == me and param in params and how == "set"
                ):
                    result.setdefault(name, param)
        return result

    def record_fields(self, class_name: str) -> list[str]:
        """Fields of a dataclass or NamedTuple in the order of its constructor's parameters."""
        names: dict[str, None] = {}
        for each in reversed(self.project.mro(class_name)):
            entry = self.project.classes.get(each)
            if entry is not None and _is_record(entry):
                names.update((name, None) for name, a in entry.attributes.items() if a.annotation is not None)
        return list(names)

    def parameter(self, function: FunctionEntry, name: str) -> Known:
        """What a parameter without annotation can be, by the calls that the project makes."""
        key = (function.name, name)
        known = self._known.get(key)
        if known is not None:
            return known
        if key in self._busy or self._depth > 6:
            self.cut += 1
            return Known()
        self._busy.add(key)
        self._depth += 1
        try:
            found: list[Type] = []
            values: list[tuple[Value, str]] = []
            for caller, call in self._callers(function):
                argument = _argument(function, call, name)
                if argument is not None:
                    value = _Frame.typing(self, caller).value(argument)
                    found += value.types
                    values.append((value, ""))
            known = self._known[key] = _known(_merge(found, []), values)
        finally:
            self._busy.discard(key)
            self._depth -= 1
        return known

    def reads(self, slot: Slot) -> Iterator[tuple[FunctionEntry, Expr]]:
        """Expressions that read an attribute or variable, but for those that only ask whether it is None."""
        for entry in self.functions_with(slot[1]):
            frame = _Frame.typing(self, entry)
            for expr in _read_expressions(entry.lowered.flow):
                named = expr.name if isinstance(expr, flow.Attr) else expr.id if isinstance(expr, flow.Name) else ""
                if named == slot[1] and frame.value(expr).slot == slot:
                    yield entry, expr

    def local_bindings(self, entry: FunctionEntry) -> dict[str, list[tuple[Expr, str]]]:
        """By local variable, the values that it is given anywhere in a function."""
        known = self._locals.get(entry.name)
        if known is None:
            known = self._locals[entry.name] = {}
            for target, value, how in _local_bindings(entry.lowered.flow):
                known.setdefault(target, []).append((value, how))
        return known

    def _callers(self, function: FunctionEntry) -> tuple[tuple[FunctionEntry, flow.Call], ...]:
        """Calls, anywhere in the project, whose callee ends in the function's (or its class's) name and can mean it."""
        known = self._calling.get(function.name)
        if known is None:
            known = self._calling[function.name] = tuple(self._calls_of(function))
        return known

    def _calls_of(self, function: FunctionEntry) -> Iterator[tuple[FunctionEntry, flow.Call]]:
        facts = function.facts
        word = facts.name
        if word == "__init__" and facts.owner is not None:
            word = facts.owner.rpartition(".")[2]
        elif len(self.project.methods_named.get(word, ())) > 2:
            return
        candidates = self.functions_with(word)
        if len(candidates) > _MOST_CALLERS:
            return
        for caller in candidates:
            if caller is function:
                continue
            for call in caller.calls:
                callee = call.callee
                last = callee.name if isinstance(callee, flow.Attr) else getattr(callee, "id", None)
                if last != word:
                    continue
                if isinstance(callee, flow.Name):
                    symbol = self.project.lookup(caller.module, callee.id)
                    if symbol is not None and symbol.name not in (function.name, function.owner):
                        continue
                yield caller, call

    def functions_with(self, word: str) -> list[FunctionEntry]:
        """Functions and module levels whose text has an identifier."""
        if self._by_word is None:
            self._by_word = {}
            for entry in self.project.functions.values():
                if entry.facts.qualname != MODULE:
                    for each in entry.facts.words:
                        self._by_word.setdefault(each, []).append(entry)
            for module in self.project.modules.values():
                top = self.project.functions[f"{module.name}.{MODULE}"]
                for each in {e.callee.id for e in top.calls if isinstance(e.callee, flow.Name)}:
                    self._by_word.setdefault(each, []).append(top)
        return self._by_word.get(word, [])


def _merge(found: Sequence[Type], items: Sequence[Type]) -> tuple[Type, ...]:
    """Distinct types; bare containers take the item types that were seen, as do bare containers in them."""
    items = tuple(dict.fromkeys(items))[:WIDEST]
    result: dict[Type, None] = {}
    for each in found:
        if each.name in CONTAINERS and not each.items:
            if any(t.name == each.name and t.items for t in found):
                continue
            each = Type(each.name, items)
        elif each.name in CONTAINERS:
            bare = {t for t in each.items if t.name in CONTAINERS and not t.items}
            seen = [t for t in items if t.items and Type(t.name) in bare]
            if seen:
                each = Type(each.name, _merge([*(t for t in each.items if t not in bare), *seen], ())[:WIDEST])
        result[each] = None
    if items and not any(t.name in CONTAINERS for t in result):
        result[Type("dict", items)] = None
    return tuple(result)[:WIDEST]


def _all_of(value: Value, depth: int = 0) -> tuple[Place, ...]:
    """The places of a value and of what is known to be in it: the items of a display, the attributes of an object."""
    if depth > _DEEPEST_DISPLAY:
        return ()
    inside = (*(value.items or ()), *value.fields.values())
    return tuple(dict.fromkeys((*value.places, *(place for each in inside for place in _all_of(each, depth + 1)))))


def _is_vague(types: Sequence[Type]) -> bool:
    """Whether types leave open what is in a container."""
    return any(t.name in CONTAINERS and (not t.items or _is_vague(t.items)) for t in types)


def _known(types: tuple[Type, ...], values: Sequence[tuple[Value, str]]) -> Known:
    """What values have in common. Each comes with the name by which its function knows the instance, or none."""
    bounds = [(bound, me) for value, me in values for bound in value.calls or _items_calls(value)]
    calls = tuple(dict.fromkeys(_kept(bound, me) for bound, me in bounds))[:WIDEST]
    symbols = {None if value.places else value.symbol for value, _ in values}
    symbol = symbols.pop() if len(symbols) == 1 and not types and not calls else None
    return Known(types, calls, symbol)


def _items_calls(value: Value) -> tuple[Bound, ...]:
    """Functions that a display holds."""
    return value.element.calls if any(t.name in CONTAINERS for t in value.types) else ()


def _kept(bound: Bound, me: str) -> Bound:
    """A function that is kept for later: of what is bound to it, only shared places and the instance's mean something."""

    def lasting(value: Value) -> Value:
        places = []
        for place in value.places:
            if place[0].startswith(("class:", "mod:")):
                places.append(place)
            elif me and place[0] == f"${me}":
                places.append(("$self", *place[1:]))
        return Value(tuple(places), value.types, value.symbol, tags=value.tags & _CONSTANTS, exact=value.exact)

    receiver = lasting(bound.receiver) if bound.receiver is not None else None
    args = tuple(map(lasting, bound.args))
    return bound._replace(
        receiver=receiver, args=args, keywords=tuple((name, lasting(value)) for name, value in bound.keywords)
    )


def _over(bound: Bound, instance: Value) -> Bound:
    """A function that an instance keeps, with the instance put in."""

    def over(value: Value) -> Value:
        places = []
        for place in value.places:
            places += [(*base, *place[1:]) for base in instance.places] if place[0] == "$self" else [place]
        return value._replace(places=tuple(places)[:WIDEST])

    receiver = over(bound.receiver) if bound.receiver is not None else None
    args = tuple(map(over, bound.args))
    return bound._replace(
        receiver=receiver, args=args, keywords=tuple((name, over(value)) for name, value in bound.keywords)
    )


def _starts_empty(value: Expr) -> bool:
    """Whether a variable gets what it is for later: it begins as None, or as an empty container."""
    match value:
        case flow.Lit(value=None) | flow.Group(items=()):
            return True
        case flow.Call(callee=flow.Name(id=name) | flow.Attr(name=name)):
            return name in CONTAINERS
    return False


def _is_field(entry: ClassEntry, name: str) -> bool:
    """Whether an attribute of the class belongs to its instances."""
    annotation = entry.attributes[name].annotation
    head = annotation.base if isinstance(annotation, flow.Item) else annotation
    last = head.name if isinstance(head, flow.Attr) else getattr(head, "id", "")
    return _is_record(entry) and last != "ClassVar"


def _is_record(entry: ClassEntry) -> bool:
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


def _bindings(body: Flow) -> Iterator[tuple[Expr, Expr, str]]:
    """Targets and values of every assignment in a flow, tuples taken apart, `x.append(v)` as an item."""
    for statement in flow.statements(body):
        if isinstance(statement, flow.Bind):
            if statement.annotation is not None:
                yield statement.target, statement.annotation, "annotation"
            if statement.value is not None:
                yield from _pairs(statement.target, statement.value)
        elif isinstance(statement, flow.Eval):
            match statement.value:
                case flow.Call(callee=flow.Attr(base=base, name=name), args=args) if name in _KEEPERS and args:
                    yield flow.Item(base, args[0], statement.span), args[-1], "item"


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


def _exits(body: Flow) -> Iterator[flow.Exit]:
    for statement in flow.statements(body):
        if isinstance(statement, flow.Exit) and statement.kind == "return":
            yield statement


def _read_expressions(body: Flow) -> Iterator[Expr]:
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
        yield from _read_expressions(child)


def _argument(function: FunctionEntry, call: flow.Call, name: str) -> Expr | None:
    """The argument that a call gives for a parameter."""
    for keyword, value in call.keywords:
        if keyword == name:
            return value
    positional = [p.name for p in function.facts.params if p.kind == "positional"]
    if function.kind in ("method", "classmethod"):
        positional = positional[1:]
    if name in positional:
        index = positional.index(name)
        if index < len(call.args) and not any(isinstance(a, flow.Op) and a.op == "*" for a in call.args[: index + 1]):
            return call.args[index]
    return None


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
            return _falls_through(final) and (
                _falls_through(inner) or any(_falls_through(handler.body) for handler in handlers)
            )
    return True


def store_place(dotted: str) -> Place:
    """Place of a class attribute or module variable by its dotted name."""
    head, _, last = dotted.rpartition(".")
    kind = "class" if head.rpartition(".")[2][:1].isupper() else "mod"
    return (f"{kind}:{head}", last)


class _Frame:
    """Evaluation inside one function."""

    def __init__(
        self, behaviors: Behaviors, entry: FunctionEntry, types: Mapping[str, tuple[Type, ...]], *, emitting: bool
    ) -> None:
        self.all = behaviors
        self.project = behaviors.project
        self.vocabulary = behaviors.vocabulary
        self.entry = entry
        self.module: Module = entry.module
        self.emitting = emitting
        self.out: list[Node] = []
        self.env: dict[str, Value] = {}
        self.returns: list[Value] = []
        self.yields: list[Value] = []
        self.aliases: dict[tuple[str, str], tuple[Place, ...]] = {}
        self.unresolved: list[tuple[str, Span]] = []
        self.in_capture = 0
        self.in_pool = 0
        self.used_pool = False
        self.remembered: Place | None = None
        """Where a decorator keeps what the function returns."""
        self.captured_calls: set[str] = set()
        self.given: dict[str, tuple[Origin, ...]] = {}
        self.return_tests: list[Test] = []
        self.yields_in_pool = False
        self.yields_in_capture = False
        self.lookups: list[Place] = []
        self.reads: set[Slot] = set()
        self.captured_reads: set[Slot] = set()
        self.keepers: dict[Place, set[Slot]] = {}
        """Slots that keep what a place of this function stands for."""
        self.parent = behaviors.closures.get(entry.name)
        self.globals: frozenset[str] = frozenset()
        self.siblings: dict[str, tuple[str, str]] = {}
        """Method name -> class and function, of receivers whose type is known."""
        self._pending: dict[str, list[tuple[Expr, str]]] | None = None
        self._looking: set[str] = set()
        self._inside = 0
        """Comprehensions around the expression at hand, and assignments in expressions before it: they hide variables."""
        self.params = frozenset(param.name for param in entry.facts.params)
        self._start(types)

    @classmethod
    def typing(cls, behaviors: Behaviors, entry: FunctionEntry) -> _Frame:
        """A frame that answers what an expression of the function can be, wherever in it."""
        return cls(behaviors, entry, {}, emitting=False)

    @classmethod
    def at_module(cls, behaviors: Behaviors, module: Module) -> _Frame:
        return cls(behaviors, behaviors.project.functions[f"{module.name}.{MODULE}"], {}, emitting=False)

    def _start(self, types: Mapping[str, tuple[Type, ...]]) -> None:
        entry = self.entry
        known = self.all.started.get(entry.name) if not types else None
        if known is not None:
            self.env = {name: value for name, value in known.items() if not self.emitting or name in self.params}
            return
        before = self.all.cut
        self._bind_params(types)
        if not types and self.all.cut == before:
            self.all.started[entry.name] = dict(self.env)

    def _bind_params(self, types: Mapping[str, tuple[Type, ...]]) -> None:
        entry = self.entry
        for index, param in enumerate(entry.facts.params):
            place = ((f"${param.name}",),)
            if index == 0 and entry.owner is not None and entry.kind in ("method", "property", "classmethod"):
                owner = types.get(param.name, (Type(entry.owner),))
                if entry.kind == "classmethod":
                    self.env[param.name] = Value(symbol=Symbol("class", owner[0].name))
                else:
                    self.env[param.name] = Value(place, owner, exact=param.name in types)
                continue
            declared = self.project.annotation(self.module, param.annotation)
            called = bool(declared) and all(t.name.rpartition(".")[2] == "Callable" for t in declared)
            if called:
                declared = ()  # which function it is, the calls say
            if not declared or _is_vague(declared):
                declared = types.get(param.name, declared)
            calls: tuple[Bound, ...] = ()
            if not declared and param.kind == "positional" and (param.annotation is None or called):
                declared, calls, _ = self.all.parameter(entry, param.name)
            if not declared and isinstance(param.default, flow.Lit) and type(param.default.value) in (bool, int, str):
                declared = (Type(type(param.default.value).__name__),)
            named = {t.name for t in declared} <= {"str", "bool"} and declared
            tags = frozenset[str]() if named else self.vocabulary.names.is_stream(param.name)
            self.env[param.name] = Value(place, declared, calls=calls, tags=tags)

    # ------------------------------------------------------------------------------------------------ the build

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
            frozenset(self.captured_calls),
            frozenset(self.reads),
            frozenset(self.captured_reads),
            self.given,
            _asks_capture(self.return_tests),
            self.yields_in_capture,
            self.yields_in_pool,
        )

    def _declared_return(self) -> Value:
        return Value(types=self.project.annotation(self.module, self.entry.facts.returns))

    def emit(self, node: Node) -> None:
        if self.emitting:
            self.out.append(node)

    def nodes(self, action: Callable[[], object]) -> Node:
        """Run an action and take what it emitted."""
        saved, self.out = self.out, []
        try:
            action()
            return b.order(self.out)
        finally:
            self.out = saved

    # ----------------------------------------------------------------------------------------------- statements

    def run(self, body: Flow) -> None:
        match body:
            case flow.Eval(value=value):
                self.value(value)
            case flow.Bind():
                self.bind_statement(body)
            case flow.Drop(target=target, span=span):
                self.drop(target, span)
            case flow.Seq(items=items):
                for item in items:
                    self.run(item)
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
                    test = self.truth(result, span)  # type: ignore[assignment]
                    self.return_tests.append(test)
                    self.remember(result, span)
                    self.emit(b.Leaves(kind, span, test))
                else:
                    self.emit(b.Leaves(kind, span, raises=self.exception(value) if kind == "raise" else ""))

    def remember(self, result: Value, span: Span) -> None:
        """Keep what a function with a cache around it returns: for the process, a property for its object."""
        if not result.fresh and self.entry.memo and self._says_device_memory():
            result = result._replace(fresh=(Origin(self.entry.name, span),), tags=result.tags | {"tensor"})
        if not (result.fresh or "pool" in result.tags) or not self.emitting:
            return
        keeper = self.entry.memo
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

    def _says_device_memory(self) -> bool:
        """Whether a function is declared to return a tensor, and has to do with a device."""
        returned = self.project.annotation(self.module, self.entry.facts.returns)
        tensors = bool(returned) and all(self.vocabulary.canonical(t.name) == TENSOR for t in returned)
        return tensors and not self.used_pool and not self.entry.facts.words.isdisjoint(("device", "cuda"))

    def exception(self, value: Expr | None) -> str:
        """Dotted name of the class of what is raised or caught."""
        callee = value.callee if isinstance(value, flow.Call) else value
        local = self.env.get(callee.id) if isinstance(callee, flow.Name) else None
        if local is not None:
            return local.symbol.name if local.symbol is not None else ""
        named = self.project.dotted(self.module, callee) if isinstance(callee, flow.Name | flow.Attr) else None
        return self.project.resolve(named).name if named is not None else ""

    def narrowed(self, test: Expr) -> tuple[dict[str, Value], dict[str, Value]]:
        """What `isinstance` says of variables where a test is true, and where it is false."""
        match test:
            case flow.Op(op="not", operands=(operand,)):
                yes, no = self.narrowed(operand)
                return no, yes
            case flow.Op(op="and", operands=operands):
                return {name: value for each in operands for name, value in self.narrowed(each)[0].items()}, {}
            case flow.Call(callee=flow.Name(id="isinstance"), args=(flow.Name(id=name), kinds)) if name in self.env:
                named = kinds.items if isinstance(kinds, flow.Group) else (kinds,)
                types = tuple(t for kind in named for t in self.project.annotation(self.module, kind))
                known = self.env[name]
                mine = tuple(t for t in known.types if any(each.name in self.project.mro(t.name) for each in types))
                return {name: known._replace(types=mine or types)}, {}
        return {}, {}

    def is_no(self, value: Value, kinds: Expr) -> bool:
        """Whether a value is known to be no instance of some classes."""
        named = kinds.items if isinstance(kinds, flow.Group) else (kinds,)
        asked = [t.name for kind in named for t in self.project.annotation(self.module, kind)]
        mine = [t.name for t in value.types]
        if not asked or not mine or len(mine) >= WIDEST:
            return False
        known = {self.vocabulary.canonical(each) for each in mine} <= {GRAPH, TENSOR, *self.project.classes}
        return known and not any(
            self.vocabulary.canonical(one) == self.vocabulary.canonical(other)
            or one in self.project.mro(other)
            or other in self.project.mro(one)
            for one in asked
            for other in mine
        )

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
        then_node = self.nodes(lambda: self.run(then))
        after_then, self.env = self.env, {**before, **if_false}
        other_node = self.nodes(lambda: self.run(other))
        if not _falls_through(other):
            self.env = after_then
        elif _falls_through(then):
            kept = {name: before[name] for name, value in if_true.items() if after_then.get(name) is value}
            self.env = _join({**after_then, **kept}, self.env)
        if then_node != b.NOTHING or other_node != b.NOTHING:
            self.emit(b.Either(test, then_node, other_node, span))

    def loop(self, star: flow.Star) -> None:
        if star.iterable is None:
            self.while_(star)
            return
        value = self.value(star.iterable)
        known = value.items
        if known is not None and len(known) <= _unrolled(value):
            bodies = []
            for item in known:

                def once(item: Value = item) -> None:
                    if star.target is not None:
                        self.bind(star.target, item, star.span)
                    self.run(star.body)

                bodies.append(self.nodes(once))
            other = self.nodes(lambda: self.run(star.other))
            self.emit(b.Each(tuple(bodies), other, star.span))
            return
        before = dict(self.env)

        def body() -> None:
            if star.target is not None:
                self.bind(star.target, value.element, star.span)
            self.run(star.body)

        node = self.nodes(body)
        self.env = _join(before, self.env)
        other = self.nodes(lambda: self.run(star.other))
        if node != b.NOTHING or other != b.NOTHING:
            self.emit(b.Repeat(node, other, value.places[:1], star.span))

    def while_(self, star: flow.Star) -> None:
        before = dict(self.env)
        certain = isinstance(star.test, flow.Lit) and bool(star.test.value)

        def body() -> None:
            test = self.test(star.test) if star.test is not None else TRUE
            inner = self.nodes(lambda: self.run(star.body))
            self.emit(b.Either(test, inner, b.Leaves("break", star.span), star.span))

        node = self.nodes(body)
        self.env = _join(before, self.env)
        other = self.nodes(lambda: self.run(star.other))
        self.emit(b.Repeat(node, other, (), star.span, certain))

    def try_(self, body: flow.Try) -> None:
        before = dict(self.env)
        outer, self.lookups = self.lookups, []
        main = self.nodes(lambda: self.run(body.body))
        looked, self.lookups = self.lookups, outer
        after = self.env
        handlers = []
        ends = [after] if _falls_through(body.body) else []
        misses = False
        for handler in body.handlers:
            self.env = _join(dict(before), after)
            if handler.name:
                self.env[handler.name] = NOTHING_KNOWN
            named = handler.types.items if isinstance(handler.types, flow.Group) else (handler.types,)
            types = tuple(self.exception(each) for each in named if each is not None)
            misses |= not _MISSES.isdisjoint(types)
            node = self.nodes(lambda h=handler: self.run(h.body))  # type: ignore[misc]
            handlers.append(b.Handler(self.catches_all(handler.types), node, types, handler.span))
            if _falls_through(handler.body):
                ends.append(self.env)
        self.env = ends[0] if ends else after
        for each in ends[1:]:
            self.env = _join(self.env, each)
        other = self.nodes(lambda: self.run(body.other))
        final = self.nodes(lambda: self.run(body.final))
        lookups = tuple(dict.fromkeys(looked)) if misses else ()
        self.emit(b.Guarded(main, tuple(handlers), other, final, body.span, lookups))

    @staticmethod
    def catches_all(types: Expr | None) -> bool:
        return types is None or (isinstance(types, flow.Name) and types.id in ("Exception", "BaseException"))

    def bind_statement(self, bind: flow.Bind) -> None:
        if bind.value is None:
            if isinstance(bind.target, flow.Name):
                types = self.project.annotation(self.module, bind.annotation)
                self.env.setdefault(bind.target.id, Value(((f"@{bind.span.start}",),), types))
            return
        value = self.value(bind.value)
        if bind.op:
            before = self.value(bind.target)
            how = "count" if bind.op == "-" else "write"
            if not isinstance(bind.target, flow.Name) or bind.target.id in self.globals:
                self.emit(b.Touches(how, before.places, before.slot, bind.span))
            else:
                self.env[bind.target.id] = Value(((f"@{bind.span.start}",),), before.types)
            return
        if bind.annotation is not None and not value.types:
            value = value._replace(types=self.project.annotation(self.module, bind.annotation))
        self.bind(bind.target, value, bind.span)

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
                if value.tags & _CONSTANTS:
                    place = (f"%{name}",)  # type: ignore[assignment]
                    self.emit(b.Touches("write", (place,), None, span, value.tags))
                    value = value._replace(places=(place,))
                elif not value.places and value.symbol is None:
                    value = value._replace(places=((f"@{span.start}",),))
                self.env[name] = value
            case flow.Attr(base=base, name=name):
                owner = self.value(base)
                setters = [each for t in owner.types if (each := self.project.setter(t.name, name)) is not None]
                if setters:
                    self.call_functions(tuple(Bound(each, owner) for each in setters), (value,), (), span)
                    return
                held = self.attribute(owner, name, span, quiet=True)
                self.touch("write", held.places, held.slot, span, value, held.types)
            case flow.Item(base=base, key=index):
                container = self.value(base)
                key = self.value(index)
                if not (isinstance(index, flow.Op) and index.op == "Slice"):
                    self.touch("add", container.places, container.slot, span, value, key=key)
                    self.filled(base, container, value)
                elif "empty" in value.tags:
                    self.touch("clear", container.places, container.slot, span, held=container.types)
            case flow.Group(items=items):
                values = value.items if value.items is not None and len(value.items) == len(items) else None
                taken = {place for each in values or () for place in each.places}
                for i, item in enumerate(items):
                    part = values[i] if values is not None else self.part(value, i, span)
                    before = len(self.out)
                    self.bind(item, part, span)
                    for at in range(before, len(self.out)):  # `old, self.x = self.x, {}` moves, it gives nothing up
                        node = self.out[at]
                        if isinstance(node, b.Touches) and node.how == "write" and taken.intersection(node.places):
                            self.out[at] = node._replace(tags=node.tags | {"moved"})
            case flow.Op(op="*", operands=operands):
                self.bind(operands[0], value._replace(items=None), span)

    def filled(self, base: Expr, container: Value, item: Value) -> None:
        """A local container that an item was put into is not empty any more, and holds what was put in."""
        if not isinstance(base, flow.Name) or base.id not in self.env or not self.emitting:
            return
        kinds = [t for t in container.types if t.name in CONTAINERS] or [Type("dict")]
        types = tuple(Type(t.name, tuple(dict.fromkeys((*t.items, *item.types)))[:WIDEST]) for t in kinds)
        self.env[base.id] = container._replace(types=types, tags=container.tags - {"empty"}, items=None)

    @staticmethod
    def part(value: Value, index: int, span: Span) -> Value:
        """Item of a value that is unpacked."""
        types = tuple(t.items[index] for t in value.types if t.name == "tuple" and len(t.items) > index)
        types = tuple(t for t in types if t != UNKNOWN)
        tags = value.tags & {"captured", "stream"}
        reads = frozenset(_sources(value))
        kept = tuple((*place, str(index)) for place in value.places if ELEMENT in place and place[0][0] not in "@%")
        places = kept or ((f"@{span.start}.{index}",),)
        slot = value.slot if kept else None  # of a table of tuples, the item is found through the table
        return Value(places, types, slot=slot, tags=tags, reads=reads, fresh=value.fresh)

    def touch(
        self,
        how: str,
        places: tuple[Place, ...],
        slot: Slot | None,
        span: Span,
        value: Value = NOTHING_KNOWN,
        held: tuple[Type, ...] = (),
        key: Value | None = None,
    ) -> None:
        value = self.whole(value)
        tags = value.tags & {
            "none",
            "empty",
            "true",
            "false",
            "tensor",
            "captured",
            "graph",
            "pool",
            "mempool",
            "minted",
        }
        if self.emitting and slot is not None and how in ("write", "add"):
            notes = self.all.note(slot)
            notes.tags |= tags & _HELD
            if value.fresh:
                notes.tags.add("fresh")
            notes.types |= {t.name for t in _flat(value.types)}
            self.keep(slot, value)
        names = tuple(dict.fromkeys(t.name for t in _flat(held)))
        if self.emitting and (how in ("drop", "clear") or (how == "write" and tags & {"none", "empty"})):
            self.destroyed(held, places, span)
        self.emit(b.Touches(how, places, slot, span, tags, _all_of(value), names, value.fresh, key))

    def whole(self, value: Value) -> Value:
        """What is kept with a value: a method of a graph keeps the graph that it is of."""
        if value.symbol is None or value.symbol.kind != "external" or not value.places:
            return value
        owner = value.symbol.name.rpartition(".")[0]
        if self.vocabulary.canonical(owner) != GRAPH:
            return value
        return Value(tuple(place[:-1] for place in value.places), (Type(owner),), tags=frozenset(("graph",)))

    def destroyed(self, held: tuple[Type, ...], places: tuple[Place, ...], span: Span) -> None:
        """Run the destructors of what a place held, as if nothing else held it."""
        for t in held:
            method = self.project.method(t.name, "__del__")
            if method is not None:
                self.call_functions((Bound(method, Value(places, (t,))),), (), (), span)
            if t.name in CONTAINERS:
                self.destroyed(t.items, tuple((*place, ELEMENT) for place in places), span)

    def drop(self, target: Expr, span: Span) -> None:
        match target:
            case flow.Name(id=name):
                value = self.env.pop(name, NOTHING_KNOWN)
                if value.places and value.places[0][0].startswith("@"):
                    self.touch("drop", value.places, None, span, held=value.types)
            case flow.Attr():
                held = self.attribute(self.value(target.base), target.name, span, quiet=True)
                self.touch("drop", held.places, held.slot, span, held=held.types)
            case flow.Item(base=base):
                held = self.value(base)
                self.touch("pop", held.places, held.slot, span, held=held.types)

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
                span = _span(scope.context)
                self.emit(b.Happens(Effect.ERASE, (), None, span, "the capture's entry", entry=True))
                self.emit(b.Happens(Effect.CAPTURE, value.places, value.slot, span, "capture"))
                self.inside(scope)
                self.emit(b.Happens(Effect.CAPTURE_END, value.places, value.slot, span, "capture"))
                return
        if value.context is not None:
            self.capture(value.context, scope)
            return
        last = self.out[-1] if self.out else None
        if isinstance(last, b.Calls) and last.span == _span(scope.context) and self._is_manager(last):
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
            body = self.nodes(lambda: self.run(scope.body))
            self.in_pool -= own_pool
            self.in_capture -= captures
            self.emit(b.Within(last, body, scope.span))
            return
        for t in value.types:
            enter = self.project.method(t.name, "__enter__") or self.project.method(t.name, "__aenter__")
            leave = self.project.method(t.name, "__exit__") or self.project.method(t.name, "__aexit__")
            if enter is None and leave is None:
                continue
            span = _span(scope.context)
            entered = self.call_functions((Bound(enter, value),), (), (), span) if enter else value
            if scope.target is not None:
                self.bind(scope.target, entered if entered.types else value, scope.span)
            body = self.nodes(lambda: self.run(scope.body))
            final = self.left(leave, value, span)
            self.emit(b.Guarded(body, (), b.NOTHING, final, scope.span))
            return
        if isinstance(scope.context, flow.Call) and self._last(scope.context.callee) == "closing" and args:
            close = self.attribute(args[0], "close", scope.span).calls
            if scope.target is not None:
                self.bind(scope.target, args[0], scope.span)
            body = self.nodes(lambda: self.run(scope.body))
            final = self.nodes(lambda: close and self.call_functions(close, (), (), _span(scope.context)))
            self.emit(b.Guarded(body, (), b.NOTHING, final, scope.span))
            return
        if scope.target is not None:
            self.bind(scope.target, value, scope.span)
        suppresses = isinstance(scope.context, flow.Call) and self._last(scope.context.callee) == "suppress"
        body = self.nodes(lambda: self.run(scope.body))
        if suppresses:
            handler = b.Handler(True, b.NOTHING, (), _span(scope.context))
            self.emit(b.Guarded(body, (handler,), b.NOTHING, b.NOTHING, scope.span))
        else:
            self.emit(body)

    @staticmethod
    def _last(expr: Expr) -> str:
        return expr.name if isinstance(expr, flow.Attr) else expr.id if isinstance(expr, flow.Name) else ""

    def left(self, leave: str | None, value: Value, span: Span) -> Node:
        """The call of a context manager's `__exit__`."""
        if leave is None:
            return b.NOTHING
        return self.nodes(lambda: self.call_functions((Bound(leave, value),), (), (), span))

    def _is_manager(self, calls: b.Calls) -> bool:
        functions = [self.all.build(key.partition("|")[0]) for key in calls.behaviors]
        return any(f is not None and self.project.functions[f.function].is_context_manager for f in functions)

    def inside(self, scope: flow.Scope) -> None:
        if scope.target is not None:
            self.bind(scope.target, NOTHING_KNOWN, scope.span)
        self.in_capture += 1
        self.run(scope.body)
        self.in_capture -= 1

    def context(
        self, entry: Entry, receiver: Value, args: Sequence[Value], keywords: Mapping[str, Value], span: Span
    ) -> tuple[Value, Value]:
        """The graph and the pool of a capture's context."""
        return self.subject(entry.of, receiver, args, keywords, span), self._named(entry.pool, args, keywords)

    def capture(self, context: tuple[Value, Value], scope: flow.Scope) -> None:
        """The block of a capture."""
        graph, pool = context
        span = _span(scope.context)
        self.all.note(pool.slot).tags.add("pool")
        self.emit(b.Happens(Effect.ERASE, (), None, span, "the capture's entry", entry=True))
        happens = b.Happens(
            Effect.CAPTURE, graph.places, graph.slot, span, self.label(scope.context), "instance",
            () if pool.tags & {"none"} else pool.places, pool.slot,
        )  # fmt: skip
        self.emit(happens)
        self.inside(scope)
        self.emit(happens._replace(effect=Effect.CAPTURE_END))

    def _named(self, spec: str | None, args: Sequence[Value], keywords: Mapping[str, Value]) -> Value:
        """An argument by `name:position`."""
        if spec is None:
            return NOTHING_KNOWN
        name, _, position = spec.partition(":")
        if name in keywords:
            return keywords[name]
        if position and int(position) < len(args):
            return args[int(position)]
        return NOTHING_KNOWN

    def label(self, expr: Expr) -> str:
        """Source text of a callee, for messages."""
        callee = expr.callee if isinstance(expr, flow.Call) else expr
        return " ".join(self.module.source.text(_span(callee)).split())

    # ---------------------------------------------------------------------------------------------------- tests

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
            ) if self._last(left.callee) == "len" and left.args:
                test = self.truth(self.value(left.args[0]), expr.span)
                return test if (op, n) in ((">", 0), (">=", 1)) else negated(test)
            case flow.Call() if self._last(expr.callee) == "bool" and len(expr.args) == 1:
                return self.test(expr.args[0])
            case flow.Walrus(target=target, value=inner):
                self._inside += 1
                self.bind(target, self.value(inner), expr.span)
                return self.test(target)
            case flow.Call(callee=flow.Name(id="isinstance"), args=(flow.Name() as one, kinds)) if self.is_no(
                self.value(one), kinds
            ):
                return FALSE
        return self.truth(self.value(expr), _span(expr))

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
            case (flow.Call(args=(argument,)) as call, flow.Lit(value=0)) if self._last(call.callee) == "len":
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
        text = self.module.source.text(_span(right))
        if len(one.places) == 1 and (other.symbol is not None or isinstance(right, flow.Lit) or not other.places):
            return ("atom", f"={text}", one.places[0])
        return self.compare(op, (one, other), span)

    def compare(self, op: str, values: Sequence[Value], span: Span) -> Test:
        """A test that compares what was read somewhere; `unknown` where it was read nowhere."""
        identity = f"{self.entry.name}@{span.start}"
        places = tuple(dict.fromkeys(place for value in values for place in _sources(value)))[:_MOST_READ]
        return ("compare", op, places, identity) if places else ("unknown", identity)

    def is_none(self, value: Value, span: Span) -> Test:
        if "none" in value.tags:
            return TRUE
        known = value.symbol is not None and not value.places
        if known or value.tags & {"tensor", "graph", "pool", "true", "false", "empty", "object"}:
            return FALSE
        if len(value.places) == 1:
            return ("atom", "none", value.places[0])
        return ("unknown", f"{self.entry.name}@{span.start}")

    def truth(self, value: Value, span: Span) -> Test:
        """What it says that a value is true."""
        if value.test is not None:
            return value.test
        if value.tags & {"none", "false", "empty"}:
            return FALSE
        if "true" in value.tags:
            return TRUE
        if value.symbol is not None and value.symbol.kind != "external" and not value.places:
            return TRUE  # a module, a class, a function
        if len(value.places) == 1:
            return DEVICE if value.places[0][-1] == "is_cuda" else ("atom", "true", value.places[0])
        return self.compare("true", (value,), span)

    # -------------------------------------------------------------------------------------------------- values

    def value(self, expr: Expr) -> Value:
        """Value of an expression; calls in it are emitted."""
        match expr:
            case flow.Name(id=name):
                return self.read(self.variable(name))
            case flow.Attr(base=base, name=name):
                read = self.read(self.attribute(self.value(base), name, expr.span))
                named = self.vocabulary.names.is_stream(name)
                return read._replace(tags=read.tags | named) if named and not read.calls else read
            case flow.Call():
                return self.call(expr)
            case flow.Item(base=base, key=index):
                return self.item(self.value(base), index, expr.span)
            case flow.Lit(value=literal):
                return _literal(literal)
            case flow.Group(kind=kind, items=items, span=span):
                return self.group(kind, items, span, expr.keys)
            case flow.Op(op="and" | "or" as op, operands=operands):
                return self.either_value(op, operands, expr)
            case flow.Op(op="not" | "is" | "is not" | "==" | "!=" | "in" | "not in" | "<" | ">" | "<=" | ">=" as op):
                if op in ("in", "not in", "<", ">", "<=", ">="):
                    compared = [self.value(operand) for operand in expr.operands]
                    test = self.compare(op.removeprefix("not "), compared, expr.span)
                    return Value(test=negated(test) if op == "not in" else test, types=(Type("bool"),))
                return Value(test=self.test(expr), types=(Type("bool"),))
            case flow.Op(op="await" | "yield from", operands=operands):
                return self.value(operands[0]) if operands else NOTHING_KNOWN
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
                types = tuple(dict.fromkeys(t for v in values for t in v.types if t.name == TENSOR))
                return self.made_of(values, Value(((f"@{expr.span.start}",),), types, tags=tags))
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
        return NOTHING_KNOWN  # type: ignore[unreachable]

    def made_of(self, values: Sequence[Value], result: Value) -> Value:
        """A result with what went into it."""
        if not self.emitting:
            return result
        reads = frozenset(tuple(dict.fromkeys(place for value in values for place in _sources(value)))[:_MOST_READ])
        fresh = tuple(dict.fromkeys(origin for value in values for origin in value.fresh))[:WIDEST]
        tags = result.tags | {"stream"} if any("stream" in value.tags for value in values) else result.tags
        return result._replace(reads=result.reads | reads, fresh=result.fresh or fresh, tags=tags)

    def cell(self, name: str) -> Slot | None:
        """Place of a variable that belongs to a function around this one, where that function gives it a value."""
        frame = self.parent
        while frame is not None:
            if name in frame.env and frame.entry.facts.qualname != MODULE:
                return (f"cell:{frame.entry.name}", name)
            frame = frame.parent
        return None

    def read(self, value: Value) -> Value:
        """The value, noted as read if an attribute or a variable of the project holds it."""
        slot = value.slot
        if self.emitting and slot is not None and (slot[0] in self.project.classes or slot[0].startswith("mod:")):
            self.reads.add(slot)
            if self.in_capture:
                self.captured_reads.add(slot)
        return value

    def keep(self, slot: Slot, value: Value) -> None:
        """Note that a slot holds the same objects as others do."""
        notes = self.all.note(slot)
        if value.slot is not None and value.slot != slot:
            notes.sources.add(value.slot)
        for place in value.places:
            if place[0].startswith("@") and not value.tags & _CONSTANTS:
                others = self.keepers.setdefault(place, set())
                for other in others - {slot}:
                    notes.sources.add(other)
                    self.all.note(other).sources.add(slot)
                others.add(slot)

    def variable(self, name: str) -> Value:
        known = self.env.get(name)
        if known is not None:
            return known
        if not self.emitting:
            found = self._looked_up(name)
            if found is not None:
                return found
        if self.parent is not None:
            value = self.parent.variable(name)
            cell = self.cell(name)
            if cell is None or not value.places or not value.places[0][0].startswith(("@", "%")):
                return value
            return value._replace(places=(cell,), slot=cell, tags=value.tags - _CONSTANTS - {"empty"}, fresh=())
        symbol = self.project.lookup(self.module, name)
        if symbol is None:
            if name == "__class__" and self.entry.owner:
                return Value(symbol=Symbol("class", self.entry.owner))
            return Value(symbol=Symbol("external", name))
        return self.of_symbol(symbol)

    def _looked_up(self, name: str) -> Value | None:
        """A local variable by all of its bindings, for typing."""
        if self._pending is None:
            self._pending = self.all.local_bindings(self.entry)
        bindings = self._pending.get(name)
        if not bindings:
            return None
        if name in self._looking:
            self.all.cut += 1
            return None
        before = self.all.cut
        self._looking.add(name)
        try:
            values = []
            for value, how in bindings:
                if how == "annotation":
                    values.append(Value(types=self.project.annotation(self.module, value)))
                elif how == "each":
                    values.append(self.value(value).element)
                else:
                    values.append(self.value(value))
            result = union(values)
        finally:
            self._looking.discard(name)
        self.env[name] = result
        kept = self.all.started.get(self.entry.name)
        if kept is not None and self.all.cut == before and not self._inside:
            kept[name] = result
        return result

    def of_symbol(self, symbol: Symbol) -> Value:
        match symbol.kind:
            case "function":
                return Value(calls=(Bound(symbol.name, None),), symbol=symbol)
            case "variable":
                module, _, name = symbol.name.rpartition(".")
                place = (f"mod:{module}", name)
                known = self.all.variable(symbol.name)
                return Value((place,), known.types, known.symbol, known.calls, slot=place)
            case "attribute":
                owner, _, name = symbol.name.rpartition(".")
                return self.class_attribute(owner, name)
            case "external" if (held := self.vocabulary.object(symbol.name)) is not None:
                module, _, name = symbol.name.rpartition(".")
                place = (f"mod:{module}", name)
                return Value((place,), (Type(held),), slot=place)
        return Value(symbol=symbol)

    def class_attribute(self, owner: str, name: str) -> Value:
        for each in self.project.mro(owner):
            entry = self.project.classes.get(each)
            if entry is not None and name in entry.attributes:
                owner = each
                break
        known = self.all.field(owner, name)
        calls = tuple(_over(bound, Value(symbol=Symbol("class", owner))) for bound in known.calls)
        return Value(((f"class:{owner}", name),), known.types, known.symbol, calls, slot=(owner, name))

    def attribute(self, base: Value, name: str, span: Span, *, quiet: bool = False) -> Value:
        """`base.name`. `quiet`: it is a target; a property's getter does not run."""
        if name in base.fields:
            return base.fields[name]
        if base.symbol is not None:
            symbol = self.project.member(base.symbol, name)
            if symbol.kind == "function":
                function = self.project.functions[symbol.name]
                receiver = base if function.kind == "classmethod" else None
                return Value(calls=(Bound(symbol.name, receiver),), symbol=symbol)
            value = self.of_symbol(symbol)
            if not value.places and base.places:
                value = value._replace(places=tuple((*place, name) for place in base.places))
            return value
        results: list[Value] = []
        for t in base.types:
            found = self.instance_attribute(base, t, name, span, quiet)
            if found is not None:
                results.append(found)
        if len(results) > 1 and not any(each.calls or each.types for each in results):
            # items of several kinds: who is asked for a method has one
            known = [
                r for r in results if r.symbol and self.vocabulary.called([self.vocabulary.canonical(r.symbol.name)])
            ]
            results = known[:1] or results
        if results:
            return union(results)
        places = tuple((*place, name) for place in base.places)
        slot = (base.types[0].name, name) if base.types else None
        return Value(places, slot=slot)

    def instance_attribute(self, base: Value, t: Type, name: str, span: Span, quiet: bool) -> Value | None:
        places = tuple((*place, name) for place in base.places)
        if t.name == "type" and t.items:
            return self.attribute(Value(symbol=Symbol("class", t.items[0].name)), name, span)
        entry = self.project.classes.get(t.name)
        if entry is None:
            if t.name in CONTAINERS:
                return None
            if self.vocabulary.canonical(t.name) == MEMPOOL and name == "id":
                return Value(places, tags=frozenset(("pool", "retained")), slot=base.slot)
            return Value(places, symbol=Symbol("external", f"{t.name}.{name}"), slot=(t.name, name))
        if name == "__class__":
            return Value(symbol=Symbol("class", t.name))
        if name == "__dict__":
            return self.namespace(base, span)
        for each in self.project.mro(t.name):
            if f"{each}.{name}" in self.project.classes:
                return Value(symbol=Symbol("class", f"{each}.{name}"))
        method = self.project.method(t.name, name)
        candidates = [method] if method is not None else []
        if not base.exact and (method is None or _is_abstract(self.project.functions[method])):
            others = (*self.project.overriders(t.name, name), *self.project.implementers(t.name, name))
            candidates += [each for each in others if each not in candidates]
        if candidates:
            first = self.project.functions[candidates[0]]
            if first.kind == "property" and not quiet:
                return self.call_functions((Bound(candidates[0], base),), (), (), span)
            receivers = [base if self.project.functions[c].kind != "staticmethod" else None for c in candidates]
            return Value(calls=tuple(map(Bound, candidates[:WIDEST], receivers)), places=places)
        holder = self.all.is_shared(t.name, name)
        if holder is not None:
            return self.class_attribute(holder, name)
        known = self.all.field(t.name, name)
        if not known.types and not self._has_field(t.name, name):
            for each in self.project.mro(t.name):  # what `__getattr__` gives
                if self.vocabulary.knows(f"{each}.{name}"):
                    return Value(places, symbol=Symbol("external", f"{each}.{name}"), slot=(t.name, name))
            bases = [each for each in self.project.mro(t.name) if each not in self.project.classes]
            for each in bases:  # an attribute of a base that was not read
                return Value(places, symbol=Symbol("external", f"{each}.{name}"), slot=(t.name, name))
        calls = tuple(_over(bound, base) for bound in known.calls)
        return Value(places, known.types, known.symbol, calls, slot=(self._definer(t.name, name), name))

    def _has_field(self, class_name: str, name: str) -> bool:
        return any(
            name in self.all.field_bindings(each) or name in self.project.classes[each].attributes
            for each in self.project.mro(class_name)
            if each in self.project.classes
        )

    def _definer(self, class_name: str, name: str) -> str:
        """The topmost ancestor that assigns the attribute: one slot for a whole hierarchy."""
        for each in reversed(self.project.mro(class_name)):
            if each in self.project.classes and (
                name in self.all.field_bindings(each) or name in self.project.classes[each].attributes
            ):
                return each
        return class_name

    def item(self, base: Value, index: Expr, span: Span) -> Value:
        if isinstance(index, flow.Lit) and isinstance(index.value, int) and base.items is not None:
            if -len(base.items) <= index.value < len(base.items):
                return base.items[index.value]
        key = self.value(index)
        if isinstance(index, flow.Op) and index.op == "Slice":
            return base._replace(items=None)
        if self.emitting:
            self.lookups += base.places
        for t in base.types[:1]:
            methods = (self.project.method(t.name, name) for name in ("__getitem__", "__missing__"))
            if method := next((each for each in methods if each is not None), None):
                return self.call_functions((Bound(method, base),), (key,), (), span)
        if isinstance(index, flow.Lit) and isinstance(index.value, int):
            for t in base.types:
                if t.name == "tuple" and 0 <= index.value < len(t.items) and t.items[index.value] != UNKNOWN:
                    places = tuple((*place, ELEMENT) for place in base.places)
                    return Value(places, (t.items[index.value],), slot=base.slot)
        if base.symbol is not None and not base.places:
            return Value(symbol=base.symbol)  # Generic[T]
        return base.element

    def group(self, kind: str, items: tuple[Expr, ...], span: Span, keys: tuple[Expr | None, ...]) -> Value:
        named = [self.value(key) for key in keys if key is not None]
        values = tuple(self.value(item) for item in items)
        starred = any(isinstance(item, flow.Op) and item.op == "*" for item in items)
        types = tuple(dict.fromkeys(t for value in values for t in value.types))[:WIDEST]
        if kind == "tuple" and types:
            types = tuple(value.types[0] if value.types else UNKNOWN for value in values)
        tags = {"empty"} if not items else {tag for value in values for tag in value.tags if tag == "captured"}
        ordered = kind in ("tuple", "list") and not starred and len(items) <= 2 * _LONGEST_UNROLLED
        result = Value(
            ((f"@{span.start}",),),
            (Type(kind, types),),
            tags=frozenset(tags),
            items=values if ordered else None,
            each=union(values) if values and not ordered else None,
        )
        return self.made_of([*named, *values], result)

    def either_value(self, op: str, operands: tuple[Expr, ...], expr: flow.Op) -> Value:
        first = self.value(operands[0])
        test = self.truth(first, _span(operands[0]))
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
            self.bind(expr.target, item, expr.span)
            if FALSE in [self.test(test) for test in expr.tests]:
                return
            if expr.key is not None:
                self.value(expr.key)
            values.append(self.value(expr.element))

        if iterable.items is not None and len(iterable.items) <= _unrolled(iterable) and self.emitting:
            bodies = tuple(self.nodes(lambda item=item: once(item)) for item in iterable.items)  # type: ignore[misc]
            self.env = saved
            if any(body != b.NOTHING for body in bodies):
                self.emit(b.Each(bodies, b.NOTHING, expr.span))
            types = (Type("list", union(values).types),)
            tags = iterable.tags & {"namespace"}
            listed = Value(((f"@{expr.span.start}",),), types, items=tuple(values), tags=tags)
            return self.made_of(values, listed)
        node = self.nodes(lambda: once(iterable.element))
        self.env = saved
        if node != b.NOTHING:
            self.emit(b.Repeat(node, b.NOTHING, iterable.places[:1], expr.span))
        element = union(values)
        kind = "iterator" if expr.kind == "generator" else expr.kind
        result = Value(
            ((f"@{expr.span.start}",),), (Type(kind, element.types),), each=element, tags=element.tags & {"captured"}
        )
        return self.made_of(values, result)

    def function_value(self, name: str) -> Value:
        full = f"{self.module.name}.{name}"
        if full not in self.project.functions:
            for nested in self.entry.lowered.nested:
                self.project.functions.setdefault(
                    f"{self.module.name}.{nested.qualname}",
                    FunctionEntry(f"{self.module.name}.{nested.qualname}", self.module, nested, self.entry.name),
                )
        if full not in self.project.functions:
            return NOTHING_KNOWN
        self.all.closures[full] = self
        return Value(calls=(Bound(full, None),), symbol=Symbol("function", full))

    def imported(self, expr: flow.Imported) -> Value:
        dotted = self.project.absolute(self.module, expr.module, expr.level)
        if expr.name is not None:
            dotted = f"{dotted}.{expr.name}"
        return self.of_symbol(self.project.resolve(dotted))

    # --------------------------------------------------------------------------------------------------- calls

    def operands(self, expr: flow.Call) -> tuple[Value, list[Value], dict[str, Value], Value]:
        """Callee, arguments, keywords and receiver of a call, evaluated in order."""
        receiver = NOTHING_KNOWN
        if isinstance(expr.callee, flow.Attr):
            receiver = self.value(expr.callee.base)
            callee = self.attribute(receiver, expr.callee.name, expr.span)
            if flow.last_name(expr.callee.base) == "super" and self.entry.facts.params:
                me = self.env.get(self.entry.facts.params[0].name, receiver)  # `super()` there asks for its class again
                own = tuple(
                    each._replace(receiver=me) if each.receiver == receiver and me.types else each
                    for each in callee.calls
                )
                callee = callee._replace(calls=own)
        else:
            callee = self.value(expr.callee)
        args: list[Value] = []
        for arg in expr.args:
            if isinstance(arg, flow.Op) and arg.op == "*":
                inner = self.value(arg.operands[0])
                args += inner.items if inner.items is not None else ()
            else:
                args.append(self.value(arg))
        keywords = {name: self.value(value) for name, value in expr.keywords if name is not None}
        for name, value in expr.keywords:
            if name is None:
                self.value(value)
        return callee, args, keywords, receiver

    def call(self, expr: flow.Call) -> Value:
        special = self.special(expr)
        if special is not None:
            return special
        callee, args, keywords, receiver = self.operands(expr)
        value = self.invoke(callee, receiver, args, keywords, expr)
        return _captured(value) if self.in_capture else value

    def special(self, expr: flow.Call) -> Value | None:
        """Builtins that name things: getattr, setattr, hasattr, super, type, partial, and those that pass items on."""
        if not isinstance(expr.callee, flow.Name | flow.Attr):
            return None
        name = self._last(expr.callee)
        args = expr.args
        if isinstance(expr.callee, flow.Attr):
            if name == "cache_clear":
                for bound in self.value(expr.callee.base).calls:
                    slot = (f"mod:{bound.function}", MEMO)
                    self.touch("drop", (slot,), slot, expr.span)
                return NOTHING_KNOWN
            if name not in ("partial", "finalize", "import_module", "ref", "WeakMethod") or not args:
                return None
        elif name in self.env:
            return None
        match name, args:
            case "getattr", (base, key, *_):
                literal = self.value(key).literal
                if literal is not None:
                    return self.attribute(self.value(base), literal, expr.span)
                self.unresolved.append((name, expr.span))
                return NOTHING_KNOWN
            case "vars", (base,):
                return self.namespace(self.value(base), expr.span)
            case "hasattr", (base, key):
                literal = self.value(key).literal
                return Value(test=self.has(self.value(base), literal, expr.span))
            case "setattr", (base, key, new):
                owner, literal, value = self.value(base), self.value(key).literal, self.value(new)
                if literal is not None:
                    held = self.attribute(owner, literal, expr.span, quiet=True)
                    self.touch("write", held.places, held.slot, expr.span, value, held.types)
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
            case "super", _:
                return self.super_()
            case "type", (one,):
                value = self.value(one)
                return Value(symbol=Symbol("class", value.types[0].name)) if value.types else NOTHING_KNOWN
            case ("partial", (first, *rest)) | ("finalize", (_, first, *rest)):
                function = self.value(first)
                given = tuple(self.value(each) for each in rest)
                named = tuple((k, self.value(v)) for k, v in expr.keywords if k is not None)
                bound = tuple(c._replace(args=given, keywords=named) for c in function.calls)
                return Value(calls=bound, symbol=function.symbol if not function.calls else None)
            case ("enumerate", (one, *_)):
                return Value(each=Value(items=(NOTHING_KNOWN, self.value(one).element)))
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
                is_dict = bool(value.types) and all(t.name in _DICTS for t in value.types)
                if is_dict and isinstance(one, flow.Name | flow.Attr) and name not in ("dict", *_DICTS):
                    return Value(
                        ((f"@{expr.span.start}",),), (Type(name if name in CONTAINERS else "list"),)
                    )  # its keys
                return value
            case ("dict", ()) if expr.keywords and all(key is not None for key, _ in expr.keywords):
                return self.group("dict", tuple(value for _, value in expr.keywords), expr.span, ())
            case (_, ()) if name in _SAME and not expr.keywords:
                return Value(
                    ((f"@{expr.span.start}",),),
                    (Type(name if name in CONTAINERS else "list"),),
                    tags=frozenset(("empty",)),
                )
        return None

    def mapped(self, function: Value, items: Value, expr: flow.Call) -> Value:
        """`map(function, items)`, as if it ran at once."""
        results: list[Value] = []

        def call() -> None:
            results.append(self.call_functions(function.calls, (items.element,), (), expr.span))

        if function.calls:
            self.emit(b.Repeat(self.nodes(call), b.NOTHING, items.places[:1], expr.span))
        return Value(((f"@{expr.span.start}",),), (Type("iterator"),), each=union(results))

    def has(self, value: Value, name: str | None, span: Span) -> Test:
        """`hasattr(value, name)`: decided where all classes are known and agree."""
        unknown: Test = ("unknown", f"{self.entry.name}@{span.start}")
        if name is None or not value.types:
            return unknown
        answers = set()
        for t in value.types:
            if t.name not in self.project.classes:
                return unknown
            has = self.project.method(t.name, name) is not None or self._has_field(t.name, name)
            subclasses = any(True for _ in self.project.overriders(t.name, name))
            whole = all(each in self.project.classes or each == "object" for each in self.project.mro(t.name))
            if has and self._set_later(t.name, name):
                held = self.attribute(value, name, span, quiet=True)
                return negated(("atom", "none", held.places[0])) if len(held.places) == 1 else unknown
            if has:
                answers.add(True)
            elif whole and not subclasses and value.exact:
                answers.add(False)
            else:
                return unknown
        return ("const", answers.pop()) if len(answers) == 1 else unknown

    def _set_later(self, class_name: str, name: str) -> bool:
        """Whether an attribute is not there yet when the object is made."""
        if self.project.method(class_name, name) is not None:
            return False
        for each in self.project.mro(class_name):
            entry = self.project.classes.get(each)
            if entry is None:
                continue
            makers = {function.facts.name for function, _, _ in self.all.field_bindings(each).get(name, ())}
            if name in entry.attributes or makers & {"__init__", "__new__", "__post_init__"}:
                return False
        return True

    def super_(self) -> Value:
        owner = self.entry.owner
        if owner is None:
            return NOTHING_KNOWN
        me = self.entry.facts.params[0].name if self.entry.facts.params else "self"
        value = self.env.get(me, NOTHING_KNOWN)
        dynamic = value.types[0].name if value.types else owner
        order = self.project.mro(dynamic)
        after = order[order.index(owner) + 1 :] if owner in order else self.project.mro(owner)[1:]
        if self.entry.kind == "classmethod":
            return Value(symbol=Symbol("class", after[0])) if after else NOTHING_KNOWN
        return Value(value.places, tuple(Type(each) for each in after[:1]), exact=True)

    def names_of(self, callee: Value) -> list[str]:
        """Canonical dotted names under which a vocabulary may know a callee."""
        names = []
        if callee.symbol is not None:
            names.append(callee.symbol.name)
        for bound in callee.calls:
            names.append(bound.function)
            function = self.project.functions[bound.function]
            if bound.receiver is not None and bound.receiver.types:
                owners = self.project.mro(bound.receiver.types[0].name)
                names += [f"{each}.{function.facts.name}" for each in owners]
        return list(dict.fromkeys(map(self.vocabulary.canonical, names)))

    def canonical_types(self, value: Value) -> list[Type]:
        result = []
        for t in value.types:
            names = [self.vocabulary.canonical(each) for each in self.project.mro(t.name)]
            result.append(Type(GRAPH) if GRAPH in names else t)
        return result

    def subject(
        self, of: str, receiver: Value, args: Sequence[Value], keywords: Mapping[str, Value], span: Span
    ) -> Value:
        """What an effect is about."""
        if of == "self":
            return receiver
        if of == "result":
            return Value(((f"@{span.start}",),))
        if of == "process":
            return NOTHING_KNOWN
        if of.startswith("arg") and of[3:].isdigit():
            index = int(of[3:])
            if index < len(args):
                return args[index]
            return next(iter(keywords.values()), NOTHING_KNOWN) if index == 0 else NOTHING_KNOWN
        if "." in of:
            place = store_place(of)
            return Value(
                (place,), slot=(place[0].partition(":")[2] if place[0].startswith("class:") else place[0], place[1])
            )
        return keywords.get(of, NOTHING_KNOWN)

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
        names = self.names_of(callee)
        if self.vocabulary.decorated(names):
            functions = args[0].calls if args else ()  # without one, these are options: its result decorates
            decorator = Symbol("external", names[0]) if not functions else None
            return Value(calls=tuple(each._replace(outside=True) for each in functions), symbol=decorator)
        known = self.vocabulary.called(names)
        external = self.effects(known, callee, receiver, args, keywords, expr) if known else None
        if callee.calls:
            self._remember(callee.calls[0])
            return self.call_functions(callee.calls, args, tuple(keywords.items()), span, external)
        if callee.symbol is not None and callee.symbol.kind == "class":
            return self.construct(callee.symbol.name, args, keywords, expr)
        if any(t.name == "ref" for t in callee.types):  # a weak reference, called for what it refers to
            return callee.each or Value(callee.places, tuple(item for t in callee.types for item in t.items))
        if callee.types and (called := self.instance_call(callee)):
            return self.call_functions(called, args, tuple(keywords.items()), span, external)
        if external is not None:
            return external
        for entry in self.vocabulary.entered(names):
            if entry.does is Effect.CAPTURE:
                return Value(((f"@{span.start}",),), context=self.context(entry, receiver, args, keywords, span))
        name = self._last(expr.callee)
        if isinstance(expr.callee, flow.Attr):
            found = self.container_method(receiver, name, args, expr)
            if found is not None:
                return found
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
            return self.made_of((*args, *keywords.values()), self.by_name(name, made, span))
        unread = symbol is not None and bool(receiver.places) and not receiver.types
        if (symbol is None or unread) and isinstance(
            expr.callee, flow.Attr
        ):  # unread: by way of a base outside the tree
            sole = self.siblings.get(name) or self.project.sole_method(name)
            if sole is not None:
                owner = receiver._replace(types=(Type(sole[0]),))
                candidates = [sole[1], *self.project.overriders(sole[0], name)]
                return self.call_functions(
                    tuple(Bound(c, owner) for c in candidates[:WIDEST]), args, tuple(keywords.items()), span
                )
        return self.unresolved_call(name, receiver, args, keywords, expr, callee)

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
            subject = self._last(expr.callee.base) or (receiver.slot[1] if receiver.slot else "")
        if name == "resize_" and receiver.places:  # the storage moves where it grows
            self.emit(
                b.Happens(Effect.WS_REPLACE, receiver.places, receiver.slot, expr.span, self.label(expr), "instance")
            )
        effect = None if torch else self.vocabulary.names.effect(name, subject)
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
        if not torch and name:
            self.unresolved.append((self.label(expr), expr.span))
        fields = {key: value for key, value in keywords.items() if value.places}
        for key, value in fields.items():
            self.aliases[(f"@{expr.span.start}", key)] = value.places
        symbol = callee.symbol.name if callee.symbol is not None else ""
        if symbol == "torch.device" and args:
            return self.made_of(
                args, Value(((f"@{expr.span.start}",),), (Type("torch.device"),), literal=args[0].literal)
            )
        result = self.by_name(name, Value(((f"@{expr.span.start}",),), fields=fields), expr.span)
        named = self.vocabulary.names.is_stream(name)
        result = self.made_of((receiver, *args, *keywords.values()), result._replace(tags=result.tags | named))
        if isinstance(expr.callee, flow.Attr) and receiver.fresh and name not in _TO_HOST:
            tags = result.tags | receiver.tags & {"tensor"}
            return result._replace(fresh=receiver.fresh, tags=tags, types=receiver.types)
        return result if result.fresh and result.fresh[0].by_name else result._replace(fresh=())

    def by_name(self, name: str, value: Value, span: Span) -> Value:
        """The result of a callee that nobody can read, as device memory if the name says that it makes some."""
        if not self.emitting or self.in_pool or not self.vocabulary.names.makes_memory(name):
            return value
        return value._replace(fresh=(Origin(self.entry.name, span, by_name=True),))

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
        return result._replace(fresh=fresh, tags=result.tags - {"stream"})

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
        if made == "mempool":
            return Value(place, (Type(MEMPOOL),), tags=frozenset(("mempool",)))
        if entry.store is not None:
            return self.subject(entry.store, receiver, args, keywords, span)._replace(tags=frozenset(("pool",)))
        minted = entry.of != "self"
        if minted:
            self.emit(b.Happens(Effect.POOL_MINT, place, None, span, entry.name))
        return Value(place, tags=frozenset(("pool", "minted") if minted else ("pool",)))

    def container_method(self, receiver: Value, name: str, args: Sequence[Value], expr: flow.Call) -> Value | None:
        """A method of a dict, list, set or deque, on a receiver that is one or may be one."""
        kinds = {t.name for t in receiver.types}
        if kinds and not kinds & CONTAINERS:
            return None
        if not kinds and (receiver.symbol is not None or not receiver.places):
            return None
        span = expr.span
        if name == "clear" and not args:
            if not kinds and self.vocabulary.names.is_object(self._last(_base(expr.callee))):
                return None
            self.touch("clear", receiver.places, receiver.slot, span, held=receiver.types)
            return Value(tags=frozenset(("none",)))
        if name in _TAKERS and (kinds or receiver.slot is not None):
            self.touch("pop", receiver.places, receiver.slot, span, held=receiver.types)
            if name == "popitem":
                return Value(items=(NOTHING_KNOWN, receiver.element))
            return receiver.element
        if name in _KEEPERS and args and (kinds or receiver.slot is not None or name in ("append", "setdefault")):
            if name == "setdefault":
                missing = negated(self.compare("in", (receiver,), span))
                added = self.nodes(
                    lambda: self.touch("add", receiver.places, receiver.slot, span, args[-1], key=args[0])
                )
                self.emit(b.Either(missing, added, b.NOTHING, span))
            else:
                self.touch("add", receiver.places, receiver.slot, span, args[-1])
            return union([receiver.element, args[-1]]) if name == "setdefault" else NOTHING_KNOWN
        if name in _VIEWS and (kinds or not args):
            return receiver._replace(items=None)
        if "namespace" in receiver.tags and not args and name in ("items", "values", "copy", "keys"):
            return self.part_of_namespace(receiver, name)
        if name == "items" and not args:
            return Value(receiver.places, each=Value(items=(NOTHING_KNOWN, receiver.element)))
        if name == "keys" and kinds:
            return Value(receiver.places, each=NOTHING_KNOWN)
        if name in ("get", "__getitem__") and args:
            if not kinds & {"dict", "OrderedDict", "defaultdict"} and kinds:
                return None
            return receiver.element
        return NOTHING_KNOWN if kinds else None

    def namespace(self, owner: Value, span: Span) -> Value:
        """`vars(owner)`: its attributes by name, as far as they can hold graphs or memory."""
        entries = [
            self.project.classes[each]
            for t in owner.types[:1]
            for each in self.project.mro(t.name)
            if each in self.project.classes
        ]
        names = dict.fromkeys(
            name
            for entry in entries
            for name in (*self.all.field_bindings(entry.name), *entry.attributes)
            if not name.startswith("__")  # a class that sets its `__dict__` has no more names for that
        )
        fields: dict[str, Value] = {}
        for name in names:
            value = self.attribute(owner, name, span, quiet=True)
            if any(
                t.name in self.project.classes or self.vocabulary.canonical(t.name) in (GRAPH, TENSOR)
                for t in _flat(value.types)
            ):
                fields[name] = value
        if not fields:
            self.unresolved.append(("vars", span))
            return NOTHING_KNOWN
        literals = tuple(map(_literal, fields))
        return Value((), (Type("dict"),), items=literals, fields=fields, tags=frozenset(("namespace",)))

    @staticmethod
    def part_of_namespace(namespace: Value, method: str) -> Value:
        """What a method of a dictionary of attributes gives."""
        if method == "copy":
            return namespace
        items = namespace.items or ()
        if method == "values":
            items = tuple(namespace.fields.values())
        elif method == "items":
            items = tuple(Value(items=(_literal(name), value)) for name, value in namespace.fields.items())
        return Value((), (Type("list"),), items=items, tags=namespace.tags)

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
                notes.tags |= value.tags & _HELD
                notes.types |= {t.name for t in _flat(value.types)}
                self.keep((name, attribute), value)
        types = (Type(name),)
        canonical = [self.vocabulary.canonical(each) for each in self.project.mro(name)]
        tags = frozenset(("graph", "object")) if GRAPH in canonical else frozenset(("object",))
        value = Value((place,), types, tags=tags, fields=fields, exact=True)
        if self.emitting:
            value = self.made_of((*args, *keywords.values()), value)
            if self.all.allocates(name):
                value = value._replace(fresh=(Origin(self.entry.name, span), *value.fresh)[:WIDEST])
        for method in (init, self.project.method(name, "__post_init__")):
            if method is not None:
                rest = (tuple(args), tuple(keywords.items())) if method == init else ((), ())
                self.call_functions((Bound(method, value),), rest[0], rest[1], span)
        return value

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
        for bound in bounds:
            function = self.project.functions[bound.function]
            bindings = self.bindings(bound, args, keywords)
            types = self.variant(function, bindings)
            built = self.all.build(bound.function, types)
            results.append(self.returned(bound, bindings, span, built))
            key = built.key if built is not None else bound.function
            keys.append(key)
            for param, value in bindings.items():
                merged[param] = tuple(dict.fromkeys((*merged.get(param, ()), *_passed(value))))[:WIDEST]
                if value.fresh and value.places and value.places[0][0].startswith("@"):
                    self.given[value.places[0][0]] = value.fresh
                if value.fresh:
                    self.all.given.setdefault(bound.function, set()).add(param)
                if "stream" in value.tags:
                    self.all.streams.add((bound.function, param))
        outside = any(bound.outside or self.all.runs_outside(bound.function) for bound in bounds)
        if self.in_capture and not outside:
            self.captured_calls.update(keys)
        identity = f"{self.entry.name}@{span.start}"
        self.emit(b.Calls(tuple(keys), tuple(merged.items()), span, identity, outside))
        if all(self.all.only_raises(bound.function) for bound in bounds):
            self.emit(b.Leaves("raise", span))
        result = union(results)
        if external is not None and external.test is not None:
            return external
        if all(each is not None and each.asks_capture for each in map(self.all.built, keys)):
            return Value(test=CAPTURING, types=(Type("bool"),))
        if (result.test is None and result.tags & _CONSTANTS != result.tags) or len(results) > 1:
            pass
        if (
            result.test is None
            and not result.places
            and result.symbol is None
            and not result.tags & {"pool", "graph", "object"}
        ):
            result = result._replace(test=("returned", identity))
        return result

    def variant(self, function: FunctionEntry, bindings: Mapping[str, Value]) -> dict[str, tuple[Type, ...]]:
        """Types of arguments that decide what the callee does: the receiver's own class, and parameters without annotation."""
        types: dict[str, tuple[Type, ...]] = {}
        for index, param in enumerate(function.facts.params):
            value = bindings.get(param.name)
            if value is None:
                continue
            if index == 0 and function.kind in ("method", "property"):
                mine = value.types[:1]
                if mine and mine[0].name != function.owner and function.owner in self.project.mro(mine[0].name):
                    types[param.name] = mine
                continue
            if param.annotation is None and param.kind == "positional":
                named = tuple(t for t in value.types if t.name in self.project.classes or t.name == GRAPH)
                if named:
                    types[param.name] = named
            elif param.annotation is not None and any(t.name == GRAPH for t in _flat(value.types)):
                if _is_vague(self.project.annotation(function.module, param.annotation)):
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
            if param.name not in result and isinstance(param.default, flow.Lit):
                result[param.name] = _literal(param.default.value)
        if function.parent is not None:  # a closure reads its parent's parameters
            closure = self.all.closures.get(function.name)
            for name in closure.env if closure is not None else ():
                if name not in result and name in {p.name for p in closure.entry.facts.params}:  # type: ignore[union-attr]
                    result[name] = Value(((f"${name}",),))
        return result

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
            return Value(((f"@{span.start}",),), self.project.annotation(function.module, function.facts.returns))
        else:
            value = built.returns if built is not None else self.all.return_value(bound.function)
        kept = built is not None and function.memo is not None
        value = _rebased(value, bindings, span, 0)
        if kept and "pool" in value.tags and function.memo == "function":
            slot = (f"mod:{bound.function}", MEMO)
            value = value._replace(places=(slot,), slot=slot)
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
    if value.tags & {"pool", "graph"} or value.test is not None:
        return value
    items = tuple(map(_captured, value.items)) if value.items is not None else None
    return value._replace(tags=value.tags | {"captured"}, items=items)


def _unrolled(value: Value) -> int:
    """How many items a loop over a value visits one by one."""
    return _LARGEST_NAMESPACE if "namespace" in value.tags else _LONGEST_UNROLLED


def _base(expr: Expr) -> Expr:
    return expr.base if isinstance(expr, flow.Attr) else expr


def _passed(value: Value) -> tuple[Place, ...]:
    """Places that stand for an argument; a constant is one of its own."""
    for tag in ("none", "true", "false"):
        if tag in value.tags:
            return ((f"!{tag}",),)
    if value.test is not None and not value.places:
        if implies_capture(value.test):
            return (("!capturing",),)
        if excludes_capture(value.test):
            return (("!eager",),)
    if value.symbol is not None and value.symbol.kind == "class":
        return ((f"class:{value.symbol.name}",),)
    return value.places


def _rebased(value: Value, bindings: Mapping[str, Value], span: Span, depth: int) -> Value:
    """A callee's value in the caller's terms."""
    if depth > 4:
        return Value(types=value.types, tags=value.tags)
    places: list[Place] = []
    inherited: Value | None = None
    for place in value.places:
        root = place[0]
        if root.startswith("$"):
            argument = bindings.get(root[1:])
            if argument is None:
                continue
            if len(place) == 1:
                inherited = argument
            places += [(*base, *place[1:]) for base in argument.places]
        elif root.startswith(("@", "%")):
            places.append((f"@{span.start}", *place[1:]))
        else:
            places.append(place)
    test = _rebased_test(value.test, bindings) if value.test is not None else None
    if inherited is not None and len(value.places) == 1:
        return inherited._replace(test=inherited.test or test)
    reads = _rebased_reads(value.reads, bindings)
    fields = {name: _rebased(each, bindings, span, depth + 1) for name, each in value.fields.items()}
    items = (
        tuple(_rebased(each, bindings, span, depth + 1) for each in value.items) if value.items is not None else None
    )
    each = _rebased(value.each, bindings, span, depth + 1) if value.each is not None else None
    context: tuple[Value, Value] | None = None
    if value.context is not None:
        graph, pool = value.context
        context = (_rebased(graph, bindings, span, depth + 1), _rebased(pool, bindings, span, depth + 1))
    unique = tuple(dict.fromkeys(places))[:WIDEST]
    return value._replace(places=unique, fields=fields, items=items, test=test, each=each, reads=reads, context=context)


def _rebased_reads(reads: Iterable[Place], bindings: Mapping[str, Value]) -> frozenset[Place]:
    """What a callee read, in the caller's terms."""
    found: dict[Place, None] = {}
    for place in sorted(reads):
        if not place[0].startswith("$"):
            found[place] = None
            continue
        argument = bindings.get(place[0][1:])
        for base in argument.places if argument is not None else ():
            if not base[0].startswith(("@", "%")) or len(place) > 1:
                joined: Place = (*base, *place[1:])
                found[joined] = None
        if argument is not None and len(place) == 1:
            found.update(dict.fromkeys(_sources(argument)))
    return frozenset(tuple(found)[:_MOST_READ])


def _sources(value: Value, depth: int = 0) -> Iterator[Place]:
    """Places that a value was read from: its own, or what went into it."""
    for place in value.places:
        if len(place) > 1 or not place[0].startswith(("@", "%")):
            yield place
    yield from sorted(value.reads)  # in an order of its own: what comes after the first few is dropped
    if depth < 3:
        for item in value.items or ():
            yield from _sources(item, depth + 1)


def _asks_capture(tests: Sequence[Test]) -> bool:
    """Whether a function returns whether the stream is being captured, but for where it knows that it is not."""
    said = [test for test in tests if test != FALSE]
    return bool(said) and all(map(implies_capture, said))


def excludes_capture(test: Test) -> bool:
    """Whether a test can be true only while the stream is not being captured."""
    match test:
        case ("not", ("atom", "capturing", _)):
            return True
        case ("not", ("or", *inner)):
            return any(each == CAPTURING or excludes_capture(negated(each)) for each in inner)
        case ("and", *inner):
            return any(map(excludes_capture, inner))
        case ("or", *inner):
            return all(map(excludes_capture, inner))
    return False


def implies_capture(test: Test) -> bool:
    """Whether a test can be true only while the stream is being captured."""
    match test:
        case ("atom", "capturing", _):
            return True
        case ("and", *inner):
            return any(map(implies_capture, inner))
        case ("or", *inner):
            return all(map(implies_capture, inner))
    return False


def _rebased_test(test: Test, bindings: Mapping[str, Value]) -> Test | None:
    """A callee's test in the caller's terms; None if it does not survive."""
    match test:
        case ("atom", "capturing" | "device", _) | ("const", _):
            return test
        case ("compare", op, read, identity):
            return ("compare", op, tuple(_rebased_reads(read, bindings)), identity)
        case ("atom", kind, place):
            root = place[0]
            if root.startswith("$"):
                argument = bindings.get(root[1:])
                if argument is not None and len(argument.places) == 1:
                    return ("atom", kind, (*argument.places[0], *place[1:]))
                return None
            return None if root.startswith(("@", "%")) else test
        case ("not", inner):
            inner = _rebased_test(inner, bindings)
            return negated(inner) if inner is not None else None
        case ("and" | "or" as op, *inner):
            parts = [_rebased_test(each, bindings) for each in inner]
            return (op, *parts) if all(part is not None for part in parts) else None
    return None


def _join(one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
    """Variables after two branches meet."""
    result = {}
    for name in {**one, **other}:
        if name in one and name in other:
            result[name] = one[name] if one[name] is other[name] else union([one[name], other[name]])
        else:
            result[name] = one.get(name) or other[name]
    return result


def _literal(value: object) -> Value:
    match value:
        case None:
            return Value(tags=frozenset(("none",)))
        case True | False:
            return Value(tags=frozenset((str(value).lower(),)), types=(Type("bool"),))
        case str():
            return Value(types=(Type("str"),), literal=value)
        case int() | float():
            return Value(types=(Type(type(value).__name__),))
    return NOTHING_KNOWN


def _is_abstract(function: FunctionEntry) -> bool:
    """A body that only raises, or says nothing."""
    body = function.lowered.flow
    if isinstance(body, flow.Seq) and not body.items:
        return True
    return isinstance(body, flow.Exit) and body.kind == "raise"


def _flat(types: Sequence[Type]) -> Iterator[Type]:
    for t in types:
        if t != UNKNOWN:
            yield t
            yield from _flat(t.items)


def _span(expr: Expr) -> Span:
    return expr.span


def _local_bindings(body: Flow) -> Iterator[tuple[str, Expr, str]]:
    """Every way in which a flow gives a local variable a value."""
    for statement in flow.statements(body):
        match statement:
            case flow.Star(target=target, iterable=iterable) if target is not None and iterable is not None:
                yield from _targets(target, iterable, "each")
            case flow.Scope(target=target, context=context) if target is not None:
                yield from _targets(target, context, "set")
            case flow.Bind():
                for target, value, how in _bindings(statement):
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
