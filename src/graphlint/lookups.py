"""What names, attributes and items mean inside a function."""

from __future__ import annotations

from graphlint import flow, steps
from graphlint.flow import Expr
from graphlint.frame import Frame
from graphlint.handing import nested as nested_in
from graphlint.knowledge import HELD
from graphlint.project import FunctionEntry
from graphlint.rebasing import bound_over
from graphlint.source import Span
from graphlint.values import (
    CONSTANTS,
    CONTAINERS,
    ELEMENT,
    GRAPH,
    MEMPOOL,
    NOTHING_KNOWN,
    TENSOR,
    UNKNOWN,
    WIDEST,
    Bound,
    Symbol,
    Test,
    Type,
    Value,
    at_position,
    flat,
    literal_value,
    negated,
    searched,
    union,
)

_DICTIONARIES = frozenset(
    ("dict", "Dict", "typing.Dict", "Any", "typing.Any", "MutableMapping", "typing.MutableMapping")
)
_LISTS = frozenset(("list", "tuple"))
LONGEST_UNROLLED = 8
"""Most items of a display that a loop visits one by one."""
_SPELLED = "__dict__"
"""Names the table of the attributes whose names a function puts together."""
_LARGEST_NAMESPACE = 24
"""Most attributes, of those that can matter, that a loop over `vars(x)` visits one by one."""


class Lookups(Frame):
    """The evaluation of names."""

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
            if self.emitting:
                notes = self.all.note(cell)
                notes.tags |= value.tags & HELD | ({"fresh", "tensor"} if value.fresh else set())
                notes.types |= {t.name for t in flat(value.types)}
            return value._replace(places=(cell,), slot=cell, tags=value.tags - CONSTANTS - {"empty"}, fresh=())
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
                listed = steps.of_variable(self.all, place, known) if known.calls else None
                return Value((place,), known.types, known.symbol, known.calls, slot=place, items=listed)
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
        calls = tuple(bound_over(bound, Value(symbol=Symbol("class", owner))) for bound in known.calls)
        value = Value(((f"class:{owner}", name),), known.types, known.symbol, calls, slot=(owner, name))
        texts = self.all.constant_texts(owner, name)
        return value._replace(items=tuple(map(literal_value, texts))) if texts else value

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
        nested, candidates = self.all.members(t.name, name, exact=base.exact)
        if nested is not None:
            return Value(symbol=Symbol("class", nested))
        if candidates:
            first = self.project.functions[candidates[0]]
            if first.kind == "property" and not quiet:
                return self.call_functions((Bound(candidates[0], base),), (), (), span)
            receivers = [base if self.project.functions[c].kind != "staticmethod" else None for c in candidates]
            return Value(calls=tuple(map(Bound, candidates[:WIDEST], receivers)), places=places)
        holder = self.all.is_shared(t.name, name)
        if holder is not None and not quiet:  # what is assigned to an object is its own
            return self.class_attribute(holder, name)
        known = self.all.field(t.name, name)
        definer = self.all.definer(t.name, name)
        if definer is None and self.emitting:
            definer = self.all.mixed_in(t.name, name)
        if not known.types and definer is None:
            for each in self.project.mro(t.name):  # what `__getattr__` gives
                if self.vocabulary.knows(f"{each}.{name}"):
                    return Value(places, symbol=Symbol("external", f"{each}.{name}"), slot=(t.name, name))
            bases = [each for each in self.project.mro(t.name) if each not in self.project.classes]
            for each in bases:  # an attribute of a base that was not read
                return Value(places, symbol=Symbol("external", f"{each}.{name}"), slot=(t.name, name))
        calls = tuple(bound_over(bound, base) for bound in known.calls)
        value = Value(places, known.types, known.symbol, calls, slot=(definer or t.name, name))
        if calls and not quiet and (ordered := steps.of_attribute(self.all, (t.name, name), known, base)) is not None:
            return value._replace(items=ordered)
        listed = self.all.listed(t.name, name) if self.emitting and any(k.name in _LISTS for k in known.types) else ()
        if not listed or quiet or name in listed:
            return value
        return value._replace(items=tuple(self.attribute(base, each, span) for each in listed))

    def listed_values(self, table: Value, span: Span) -> tuple[Value, ...]:
        """The values of a dictionary that lists other attributes of the object that has it."""
        if not self.emitting or table.slot is None or len(table.places) != 1 or table.places[0][-1] != table.slot[1]:
            return ()
        names = self.all.listed(*table.slot)
        owner = Value((table.places[0][:-1],), (Type(table.slot[0]),))
        return tuple(self.attribute(owner, each, span) for each in names if each != table.slot[1])

    def listed(self, value: Value, span: Span) -> tuple[Value, ...] | None:
        """The items of a value, where it is known how many it has: of a display, and the fields of a NamedTuple."""
        entry = self.project.classes.get(value.types[0].name) if value.items is None and len(value.types) == 1 else None
        if entry is None or not any(flow.last_name(each) == "NamedTuple" for each in entry.facts.bases):
            return value.items
        return tuple(self.attribute(value, name, span) for name in self.all.record_fields(value.types[0].name))

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

    def has(self, value: Value, name: str | None, span: Span) -> Test:
        """`hasattr(value, name)`: decided where all classes are known and agree."""
        unknown: Test = ("unknown", f"{self.entry.name}@{span.start}")
        if name is None or not value.types:
            return unknown
        if self.me and value.places == ((self.me,),) and self.project.method(value.types[0].name, name) is None:
            if self.all.definer(value.types[0].name, name) is None:  # something sets it as the object is used
                unknown = negated(("atom", "none", (self.me, name)))
        answers = set()
        for t in value.types:
            if t.name not in self.project.classes:
                return unknown
            has = self.project.method(t.name, name) is not None or self.all.definer(t.name, name) is not None
            subclasses = bool(self.project.overriders(t.name, name))
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

    def entry_of(self, base: Expr, value: Value, key: Expr) -> Value | None:
        """`state["graphs"]`, of a dictionary that stands for an object; None for any other item."""
        if not isinstance(key, flow.Lit) or not isinstance(key.value, str):
            return None
        for t in value.types:
            entry = self.project.classes.get(t.name)
            if entry is not None:
                typed = any(flow.last_name(each) == "TypedDict" for each in entry.facts.bases)
                return self.attribute(value, key.value, base.span, quiet=True) if typed else None
        text = flow.dotted_text(base)
        whole = len(value.places) == 1 and ELEMENT not in value.places[0]
        if not text or not whole or value.symbol is not None or any(t.name not in _DICTIONARIES for t in value.types):
            return None
        if value.slot is not None and value.places[0][-1] != value.slot[1]:
            return None  # an item of something
        records = self.all.records(self.module)
        if text not in records.names.get(self.module.name, ()) or key.value not in records.given:
            return None
        known = self.all.record_entry(self.module, key.value)
        slot = (f"keys:{self.module.name.rpartition('.')[0]}", key.value)
        makers = {function.owner for function, _, _ in records.given[key.value]}
        own = value.slot is not None and makers == {value.slot[0]} and len(value.places[0]) > 1
        holder = Value((value.places[0][:-1],)) if own else NOTHING_KNOWN  # its methods are the dictionary's
        calls = tuple(bound_over(bound, holder) for bound in known.calls)
        return Value(((*value.places[0], key.value),), known.types, known.symbol, calls, slot=slot)

    def item(self, base: Value, index: Expr, span: Span) -> Value:
        """What an index or a key gives."""
        key = self.value(index)
        value = self._item(base, key, index, span)
        return searched(value) if "coarse" in key.tags else value

    def _item(self, base: Value, key: Value, index: Expr, span: Span) -> Value:
        if isinstance(index, flow.Lit) and isinstance(index.value, int) and base.items is not None:
            if -len(base.items) <= index.value < len(base.items):
                return base.items[index.value]
        if isinstance(index, flow.Op) and index.op == "Slice":
            return base._replace(items=None, tags=base.tags if flow.is_whole(index) else base.tags | {"part"})
        if base.fresh and any(self.vocabulary.canonical(t.name) == TENSOR for t in base.types):
            return base._replace(items=None)  # a view
        if isinstance(index, flow.Lit) and type(index.value) is int and all(p[-1] == "shape" for p in base.places):
            if base.places:
                return Value(tuple((*place, str(index.value)) for place in base.places), (Type("int"),), slot=base.slot)
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
                    calls = at_position(base.calls, index.value)
                    return Value(places, (t.items[index.value],), calls=calls, slot=base.slot)
            if any(bound.at is not None for bound in base.calls):
                return base.element._replace(calls=at_position(base.calls, index.value))
        if base.symbol is not None and not base.places:
            return Value(symbol=base.symbol)  # Generic[T]
        return base.element

    def group(self, kind: str, items: tuple[Expr, ...], span: Span, keys: tuple[Expr | None, ...]) -> Value:
        named = [self.value(key) for key in keys if key is not None]
        values = tuple(
            self.value(item.operands[0]).element
            if flow.is_spread(item)
            else self.value(item).element
            if kind == "dict" and keys[at : at + 1] == (None,)
            else self.value(item)
            for at, item in enumerate(items)
        )
        starred = any(map(flow.is_spread, items))
        types = tuple(dict.fromkeys(t for value in values for t in value.types))[:WIDEST]
        if kind == "tuple" and types:
            types = tuple(value.types[0] if value.types else UNKNOWN for value in values)
        tags = {"empty"} if not items else {tag for value in values for tag in value.tags if tag == "captured"}
        objects = [value.places for value in values if self.is_object(value)] if kind != "set" else []
        if len(set(objects)) < len(objects):
            tags |= {"doubled"}
        ordered = kind in ("tuple", "list") and not starred and len(items) <= 2 * LONGEST_UNROLLED
        result = Value(
            ((f"@{span.start}",),),
            (Type(kind, types),),
            tags=frozenset(tags),
            items=values if ordered else None,
            each=union(values) if values and not ordered else None,
        )
        return self.made_of([*named, *values], result)

    def spelled(self, owner: Value) -> Value | None:
        """The attributes of an object whose names a function puts together, as a table; None where it sets none of them."""
        if "setattr" not in self.entry.facts.words or not owner.places:
            return None
        named = next((t.name for t in owner.types[:1] if t.name in self.project.classes), None)
        if named is not None:
            slot = (named, _SPELLED)
        elif owner.slot is not None and owner.slot[0].startswith("mod:"):
            slot = (owner.slot[0], f"{owner.slot[1]}.{_SPELLED}")
            return Value(((*slot,),), (Type("dict"),), slot=slot)
        else:
            return None
        return Value(tuple((*place, _SPELLED) for place in owner.places), (Type("dict"),), slot=slot)

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
                for t in flat(value.types)
            ):
                fields[name] = value
        if not fields:
            self.unresolved.append(("vars", span))
            return NOTHING_KNOWN
        literals = tuple(map(literal_value, fields))
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
            items = tuple(Value(items=(literal_value(name), value)) for name, value in namespace.fields.items())
        return Value((), (Type("list"),), items=items, tags=namespace.tags)

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
        self.all.closures[nested_in(full, self.told)] = self
        return Value(calls=(Bound(full, None, inside=self.told),), symbol=Symbol("function", full))

    def imported(self, expr: flow.Imported) -> Value:
        dotted = self.project.absolute(self.module, expr.module, expr.level)
        if expr.name is not None:
            dotted = f"{dotted}.{expr.name}"
        return self.of_symbol(self.project.resolve(dotted))

    def super_(self, name: str = "") -> Value:
        """What `super()` stands for: an object of the next class that has what it is asked for, if that is given."""
        owner = self.entry.owner
        if owner is None:
            return NOTHING_KNOWN
        me = self.entry.facts.params[0].name if self.entry.facts.params else "self"
        value = self.env.get(me, NOTHING_KNOWN)
        dynamic = value.types[0].name if value.types else owner
        order = self.project.mro(dynamic)
        above = order[order.index(owner) + 1 :] if owner in order else self.project.mro(owner)[1:]
        after = [each for each in above if self.project.defines(each, name)] or list(above)
        if self.entry.kind == "classmethod":
            return Value(symbol=Symbol("class", after[0])) if after else NOTHING_KNOWN
        return Value(value.places, tuple(Type(each) for each in after[:1]), exact=True)

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


def unrolled(value: Value) -> int:
    """How many items a loop over a value visits one by one."""
    return _LARGEST_NAMESPACE if "namespace" in value.tags else LONGEST_UNROLLED
