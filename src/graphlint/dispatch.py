"""Functions that are given the name of a method to call: `collective_rpc("sleep")`, down to `getattr(worker, method)`.

What such a function does depends on the text that its caller gives, so it is evaluated for each text by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import flow
from graphlint.assignments import argument_for
from graphlint.flow import Expr
from graphlint.project import FunctionEntry, Project
from graphlint.values import Type

_ASKING = frozenset(("getattr", "methodcaller"))
_MARK = "'"


def named_type(text: str) -> Type:
    """Stands for the one text that an argument is."""
    return Type(f"{_MARK}{text}")


def text_of(types: tuple[Type, ...]) -> str | None:
    """The text that a type stands for; None for other types."""
    if len(types) == 1 and types[0].name.startswith(_MARK):
        return types[0].name[len(_MARK) :]
    return None


class Dispatch:
    """Which parameters of which functions name a method."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[str, frozenset[str]] = {}

    def params(self, function: FunctionEntry) -> frozenset[str]:
        """The parameters of a function that name a method which it calls, itself or through functions that it passes them to."""
        known = self._known.get(function.name)
        if known is None:
            self._known[function.name] = frozenset()  # of a recursion
            own = {param.name for param in function.facts.params}
            known = self._known[function.name] = frozenset(own.intersection(self._naming(function, own)))
        return known

    def _naming(self, function: FunctionEntry, own: set[str]) -> Iterator[str]:
        asks = not _ASKING.isdisjoint(function.facts.words)
        for call in function.calls:
            given = {name for each in (*call.args, *(v for _, v in call.keywords)) if (name := _name(each)) in own}
            if not given:
                continue
            last = flow.last_name(call)
            if asks and last in _ASKING:
                yield from map(_name, call.args[1:2] if last == "getattr" else call.args[:1])
                continue
            for callee in self._called(function, call, last):
                for param in self.params(callee):
                    argument = argument_for(callee, call, param)
                    if argument is not None:
                        yield _name(argument)

    def _called(self, function: FunctionEntry, call: flow.Call, last: str) -> Iterator[FunctionEntry]:
        functions = self._project.functions
        if isinstance(call.callee, flow.Name):
            symbol = self._project.lookup(function.module, last)
            if symbol is not None and (name := self._project.resolve(symbol.name).name) in functions:
                yield functions[name]
            return
        for owner in self._project.methods_named.get(last, ()):
            yield functions[self._project.classes[owner].methods[last]]


def _name(expr: Expr) -> str:
    return expr.id if isinstance(expr, flow.Name) else ""
