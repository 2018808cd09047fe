"""What the methods of a class assign to attributes of their instance; only methods that assign to one are lowered for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from graphlint import flow
from graphlint.assignments import assigned
from graphlint.flow import Expr
from graphlint.project import FunctionEntry


class Binding(NamedTuple):
    """One assignment."""

    function: FunctionEntry
    value: Expr
    how: str
    """set | item | annotation."""


class FieldBindings:
    """By attribute, in the order of the methods: a mapping that finds out when it is asked."""

    def __init__(self, class_name: str, methods: Sequence[FunctionEntry]) -> None:
        self._class = class_name.rpartition(".")[2]
        self._found: dict[str, list[Binding]] = {}
        self._told: dict[str, dict[str, list[Binding]]] = {}
        """By method, what its flow says."""
        self._methods: dict[str, list[FunctionEntry]] = {}
        """By attribute, those that assign to it."""
        for method in methods:
            for name in self._attributes(method):
                self._methods.setdefault(name, []).append(method)

    def get(self, name: str, default: Sequence[Binding] = ()) -> Sequence[Binding]:
        return self[name] if name in self._methods else default

    def items(self) -> Iterator[tuple[str, Sequence[Binding]]]:
        return ((name, self[name]) for name in self._methods)

    def __getitem__(self, name: str) -> Sequence[Binding]:
        known = self._found.get(name)
        if known is None:
            known = [binding for method in self._methods[name] for binding in self._in(method).get(name, ())]
            self._found[name] = known
        return known

    def __contains__(self, name: object) -> bool:
        return name in self._methods

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def _attributes(self, method: FunctionEntry) -> Sequence[str]:
        assigns = method.facts.assigns
        if assigns is None or method.facts.name == "__new__":
            return list(self._in(method))
        me = _instance(method)
        found: set[str] = set()
        for each in assigns:
            base, _, name = each.partition(".")
            if name and base == me:
                found.add(name.removesuffix("[]"))
            elif base == self._class and name.endswith("[]"):
                found.add(name[:-2])
        return sorted(found)

    def _in(self, method: FunctionEntry) -> Mapping[str, Sequence[Binding]]:
        known = self._told.get(method.name)
        if known is None:
            known = self._told[method.name] = {}
            me = _instance(method)
            made = _made(method)
            for target, value, how in assigned(method.lowered.flow):
                match target:
                    case flow.Attr(base=flow.Name(id=base), name=name) if base == me:
                        known.setdefault(name, []).append(Binding(method, value, how))
                    case flow.Attr(base=base, name=name) if made and flow.dotted_text(base) in made:
                        known.setdefault(name, []).append(Binding(method, value, how))
                    case flow.Item(base=flow.Attr(base=flow.Name(id=base), name=name)) if base in (me, self._class):
                        known.setdefault(name, []).append(Binding(method, value, "item"))
                    case flow.Item(
                        base=flow.Item(base=flow.Attr(base=flow.Name(id=base), name=name))
                        | flow.Call(
                            callee=flow.Attr(base=flow.Attr(base=flow.Name(id=base), name=name), name="setdefault")
                        )
                    ) if base in (me, self._class):
                        item = flow.Group("list", (value,), value.span)  # of a table of lists
                        known.setdefault(name, []).append(Binding(method, item, "item"))
        return known


def _made(method: FunctionEntry) -> frozenset[str]:
    """What `__new__` knows the new instance by: `me = super().__new__(cls)`, `cls.only = object.__new__(cls)`."""
    if method.facts.name != "__new__":
        return frozenset()
    return frozenset(
        flow.dotted_text(target)
        for target, value, _ in assigned(method.lowered.flow)
        if isinstance(value, flow.Call) and flow.last_name(value.callee) == "__new__"
    ) - {""}


def _instance(method: FunctionEntry) -> str:
    """The name by which a method knows its instance."""
    return method.facts.params[0].name if method.facts.params and method.kind != "staticmethod" else ""
