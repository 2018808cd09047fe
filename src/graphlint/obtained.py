"""What calls give: an item of a store, memory that is allocated, what a function of the project returns, or what goes in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from graphlint import flow
from graphlint.dependence import (
    CURRENT,
    DEVICES,
    DTYPES,
    NO_SOURCES,
    NOTHING,
    SIZES,
    UNKNOWN,
    Ask,
    Called,
    Dependent,
    Memory,
    Reading,
    Rebase,
    aspect,
    bindings,
    derived,
    extended,
    sources_of,
)
from graphlint.frame import last_word
from graphlint.spelled import Spelled

_WINDOWS = frozenset(
    (
        "view",
        "reshape",
        "narrow",
        "as_strided",
        "flatten",
        "unsqueeze",
        "squeeze",
        "expand",
        "view_as",
        "t",
        "transpose",
        "zero_",
        "fill_",
    )
)
"""Methods that give the same memory again."""
_SAME = frozenset(("contiguous", "detach", "data", "requires_grad_"))
"""Methods that leave a tensor's shape, dtype and device as they are."""
_LOOKS = frozenset(("get", "__getitem__", "setdefault", "pop"))
_ADDS = frozenset(("append", "add", "extend", "insert", "appendleft", "push"))
_REMOVES = frozenset(("remove", "discard", "pop", "popitem", "popleft", "clear"))
_VIEWS = frozenset(("values", "items", "keys", "copy"))
_PRESENCE = frozenset(("isinstance", "bool", "hasattr", "callable"))
_LIKE = "_like"
_OPTIONS = frozenset(
    ("dtype", "device", "requires_grad", "pin_memory", "layout", "memory_format", "out", "generator", "fill_value")
)


class Obtained(Spelled):
    """The part of a function's reading that knows what a call gives, and does to stores."""

    def call(self, expr: flow.Call) -> Dependent:
        if (by_name := self.spelled(expr)) is not None:
            return by_name
        base = NOTHING
        if isinstance(expr.callee, flow.Attr):
            base = self.value(expr.callee.base)
            callee = self.attribute(base, expr.callee.name)
        else:
            callee = self.value(expr.callee)
        args: list[Dependent] = []
        removed = frozenset(self.result.removes)
        for arg in expr.args:
            value = self.value(arg)
            if flow.is_spread(arg) and value.items is not None:
                args += value.items
            else:
                args.append(value)
        keywords = {name: self.value(value) for name, value in expr.keywords if name is not None}
        extra = [self.value(value) for name, value in expr.keywords if name is None]
        name = last_word(expr.callee)
        functions = callee.calls
        if not functions and isinstance(expr.callee, flow.Attr) and not callee.names:
            functions = self.resolved(expr.callee, base, name)
        called = Called(
            expr, functions, callee.names, callee.receiver or base, tuple(args), keywords,
            frozenset().union(*self.devices) if self.devices else NO_SOURCES, self.captures > 0, self.eager,
        )  # fmt: skip
        if not self.quiet:
            self.result.calls.append(called)
            self.keep_arguments(called, expr)
        if name == "capture_begin":
            self.captures += 1
        elif name == "capture_end":
            self.captures = max(0, self.captures - 1)
        if name == "bool" and len(args) == 1 and isinstance(expr.callee, flow.Name):
            return args[0]
        everything = [*args, *keywords.values(), *extra]
        names = self.canonical(callee.names)
        if self.is_capturing(names, name, functions):
            return Dependent(capturing=True)
        if not functions and base.held and name in (*_LOOKS, *_ADDS, *_REMOVES, *_VIEWS):
            found = self.container(base, name, args, expr)
            if name in _ADDS:  # `ready.append(waiting.pop())`: what goes to another place of the store is not gone
                self.result.removes -= {each.slot for each in base.held} - removed
            if found is not None:
                return found
        memory = self.allocated(expr, names, name, base, args, keywords)
        if memory is not None:
            return memory
        if functions:
            return self.project_call(functions, callee, called)
        classes = [each for each in sorted(callee.names) if each in self.project.classes]
        if classes:
            return self.constructed(classes[0], called)
        return self.external(expr, callee, base, name, everything)

    def resolved(self, callee: flow.Attr, base: Dependent, name: str) -> tuple[str, ...]:
        """Functions of the project that a method call may run, by what is known of the receiver's type."""
        if name not in self.project.methods_named:
            return ()
        for owner in self.owners(base):
            method = self.project.method(owner, name)
            if method is not None:
                return (method,)
        value = self.all.behaviors.typed(self.entry, callee)
        if value.calls:
            return tuple(bound.function for bound in value.calls)
        sole = self.project.sole_method(name)
        return (sole[1],) if sole is not None and not value.types and value.symbol is None else ()

    def container(self, base: Dependent, name: str, args: list[Dependent], expr: flow.Call) -> Dependent | None:
        """A method of a dict, list or set in a store."""
        keyed = any(each.keyed for each in base.held)
        if name in _LOOKS and args and not (name == "pop" and keyed):
            held = frozenset(self.look(each, args[0].sources, expr.span, expr.args[0]) for each in base.held)
            if name == "pop":
                self.result.removes |= {each.slot for each in base.held}
            default = args[1] if len(args) > 1 else NOTHING
            if name == "setdefault" and len(args) > 1:
                for each in held:
                    if default.memory:
                        self.put(each, "add", default, expr.span, expr.args[0])
            return Dependent(sources=base.sources | args[0].sources, held=held, memory=default.memory)
        if name in _REMOVES:
            self.result.removes |= {each.slot for each in base.held if each.keyed}
            return Dependent(sources=base.sources, held=frozenset(each._replace(keyed=True) for each in base.held))
        if name in _ADDS and args:
            value = args[-1]
            slots = {each.slot for each in base.held}
            if value.held and not value.memory and not any(each.slot in slots for each in value.held):
                self.result.retired |= {each.slot for each in value.held}
            for each in base.held:
                self.put(each, "add", value, expr.span)
            return Dependent(literal=None)
        if name in _VIEWS:
            return replace(base, place=None)
        return None

    def allocated(
        self,
        expr: flow.Call,
        names: frozenset[str],
        name: str,
        base: Dependent,
        args: list[Dependent],
        keywords: Mapping[str, Dependent],
    ) -> Dependent | None:
        """A call of the vocabulary that makes device memory."""
        if name == "partial" and args and self.canonical(args[0].names) & self.all.allocators:
            inner = next(iter(sorted(self.canonical(args[0].names))))
            found = self.allocated(expr, frozenset((inner,)), inner.rpartition(".")[2], base, args[1:], keywords)
            return replace(found, is_function=True) if found is not None else None
        method = name in ("new_empty", "new_zeros", "new_ones", "new_full", "new_tensor", "clone") and (
            not names or any(each.startswith("torch.Tensor") for each in names)
        )
        known = names & self.all.allocators
        if not known and not method:
            return None
        like = name.endswith(_LIKE)
        dtype, device = keywords.get("dtype"), keywords.get("device")
        pinned = keywords.get("pin_memory", NOTHING)
        if pinned.literal is True or (device is not None and device.literal in ("cpu", "meta")):
            return Dependent(sources=sources_of([*args, *keywords.values()]))  # of the host: no graph's memory
        positional = list(args)
        model = base if method else positional.pop(0) if like and positional else None
        if like or name == "clone":
            size = aspect(model, "shape")
        elif name in ("full", "new_full"):
            size = sources_of([*positional[:1], *(keywords[k] for k in ("size",) if k in keywords)])
        else:
            given = [v for k, v in keywords.items() if k not in _OPTIONS]
            size = sources_of([*positional, *given])
        if any(e.makes == "memory" for each in known for e in self.all.vocabulary.calls[each]):
            size = sources_of([*args, *keywords.values()])  # an allocator of somebody else: everything may decide
            memory = Memory(self.entry.name, expr.span, size, NO_SOURCES, frozenset((CURRENT,)))
            return Dependent(sources=size, memory=frozenset((memory,)))
        where = device.sources if device is not None else aspect(model, "device")
        if not where and not (device is not None and device.literal in ("cpu", "meta")):
            where = frozenset().union(*self.devices) if self.devices else frozenset((CURRENT,))
        kind = dtype.sources if dtype is not None else aspect(model, "dtype")
        memory = Memory(self.entry.name, expr.span, size, kind, where)
        return Dependent(sources=size | kind | where, memory=frozenset((memory,)))

    def project_call(self, functions: tuple[str, ...], callee: Dependent, called: Called) -> Dependent:
        """A call of the project's own functions: what the first of them gives, in the caller's terms."""
        function = self.project.functions[functions[0]]
        bound = bindings(function, callee.receiver or called.receiver, called)
        found = self.inlined(functions[0], bound)
        if found is not None:
            return found
        own = NO_SOURCES
        if function.kind in ("method", "property") and called.receiver.place is not None:
            own = frozenset((UNKNOWN,))
        return Dependent(sources=sources_of([*called.args, *called.keywords.values()]) | own)

    def inlined(self, name: str, bindings: Mapping[str, Dependent]) -> Dependent | None:
        """What a function of the project gives, and does to stores, in this function's terms."""
        reading = self.all.callee(name)
        if reading is None:
            return None
        nested = self.project.functions[name].parent == self.entry.name
        rebase = Rebase(bindings, frozenset().union(*self.devices) if self.devices else NO_SOURCES, nested=nested)
        result = self.result if not self.quiet else Reading("")
        eager = self.eager
        result.looks += [
            look._replace(held=rebase.held(look.held), eager=look.eager or eager) for look in reading.looks
        ]
        result.puts += [rebase.put(put) for put in reading.puts]
        for put in reading.puts:
            if self.guards:
                asks = frozenset(ask for guard in self.guards for ask in guard if ask.slot == put.held.slot)
                if asks:
                    result.puts.append(rebase.put(put)._replace(asks=asks))
        result.removes |= reading.removes
        for slot, accepted in reading.accepted.items():
            result.accepted.setdefault(slot, set()).update(map(rebase.ask, accepted))
        result.retired |= reading.retired
        for slot, sources in reading.checked.items():
            result.checked.setdefault(slot, set()).update(rebase.sources(frozenset(sources)))
        return rebase.dependent(reading.returns)

    def constructed(self, name: str, called: Called) -> Dependent:
        """An instance of a class of the project: it holds what it is given, and what its constructor allocates."""
        init = self.project.method(name, "__init__")
        everything = [*called.args, *called.keywords.values()]
        memory = (
            frozenset().union(*(each.memory for each in everything if not each.is_function))
            if everything
            else frozenset()
        )
        if init is not None:
            function = self.project.functions[init]
            reading = self.all.callee(init)
            if reading is not None:
                rebase = Rebase(bindings(function, NOTHING, called), nested=False)
                memory |= rebase.memories(m for put in reading.puts for m in put.memory)
        fields = called.keywords if init is None else {}
        if init is None:
            fields = {**dict(zip(self.all.behaviors.record_fields(name), called.args, strict=False)), **fields}
        return Dependent(
            sources=sources_of(everything),
            memory=memory,
            held=frozenset().union(*(e.held for e in everything if e.memory)),
            fields=tuple(fields.items()),
        )

    def external(
        self,
        expr: flow.Call,
        callee: Dependent,
        base: Dependent,
        name: str,
        everything: list[Dependent],
    ) -> Dependent:
        """A call of what is not among the files: it is made from what goes in."""
        sources = sources_of(everything)
        known = [e for each in self.canonical(callee.names) for e in self.all.vocabulary.calls.get(each, ())]
        made = next((e.makes[5:] for e in known if e.makes is not None and e.makes.startswith("type:")), None)
        if made is not None:
            return Dependent(sources=sources, made=made)
        method = isinstance(expr.callee, flow.Attr) and not callee.names - self._members(base, name)
        memory: frozenset[Memory] = frozenset()
        if name[:1].isupper():  # an object that holds what it is given
            memory = frozenset().union(*(each.memory for each in everything if not each.is_function))
        asks = frozenset(
            Ask(held.slot, sources_of([each for each in [*everything, base] if held not in each.held]))
            for each in [*everything, base]
            for held in each.held
            if held.keyed and name not in _PRESENCE
        )
        if callee.place is not None and len(callee.place) == 1 and not method:  # a factory that was handed in
            memory = frozenset((Memory(self.entry.name, expr.span, *[frozenset((callee.place,))] * 3),))
            return Dependent(sources=sources | callee.sources, memory=memory)
        if callee.is_function:
            return Dependent(sources=sources | callee.sources, memory=memory | callee.memory)
        if method:
            if base.place is not None and not everything:
                place = base.place if name in _SAME else extended(base.place, name)
                return Dependent(place, frozenset((place,)), base.held, base.memory)
            if (
                base.place is not None
                and name in SIZES
                and len(everything) == 1
                and isinstance(everything[0].literal, int)
            ):
                place = (*extended(base.place, name), f"[{everything[0].literal}]")
                return Dependent(place, frozenset((place,)), base.held)
            if base.place == (f"${self.me}",):
                sources |= frozenset((UNKNOWN,))
            else:
                sources |= base.sources
            if name in SIZES or name in DTYPES or name in DEVICES:
                return self.aspect_of(
                    Dependent(sources=sources, held=base.held, memory=base.memory, asks=asks), name, expr
                )
            held = base.held if name in _WINDOWS else derived(base.held)
            return Dependent(sources=sources, held=held, memory=memory | base.memory, asks=asks)
        if name == "len" and everything:
            held = frozenset(each for each in everything[0].held if each.keyed)
            return Dependent(sources=sources, held=held)
        if name in ("tuple", "list", "str", "int", "sorted", "Size", "device") and len(everything) == 1:
            return replace(everything[0], literal=..., names=frozenset(), held=everything[0].held)
        return Dependent(sources=sources, memory=memory, asks=asks)

    def _members(self, base: Dependent, name: str) -> frozenset[str]:
        return self.external_member(base, name)
