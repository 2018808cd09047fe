"""What an attribute of an object was given last before a place in a method, where all ways there give it the same constant.

A shutdown that says `self.phase = Phase.DRAINING` first and asks `if self.phase is Phase.SERVING` afterwards releases nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from graphlint import flow
from graphlint.conditions import THERE, Condition, names_in
from graphlint.flow import Expr, Flow
from graphlint.paths import Frame
from graphlint.project import FunctionEntry, Project
from graphlint.source import Span


class Given(NamedTuple):
    """An assignment of a constant to an attribute."""

    function: FunctionEntry
    bind: flow.Bind
    value: Expr


def last_given(project: Project, frames: Sequence[Frame], span: Span, name: str) -> Given | None:
    """What an attribute was given last on the way through some methods of its object.

    Args:
        project: where the methods are.
        frames: calls from one method to the next; of the last, the function alone counts.
        span: the place in the last method.
        name: of the attribute.
    """
    known: Given | None = None
    for index, frame in enumerate(frames):
        if frame.receiver != frames[-1].receiver:
            known = None  # another object
            continue
        function = project.functions[frame.function]
        way = _Way(project, function, name, known)
        way.come(function.lowered.flow, span if index == len(frames) - 1 else frame.span)
        known = way.known
    return known


def excludes(given: Given, asked: Condition) -> bool:
    """Whether what an attribute was given makes a condition about it false."""
    match given.value:
        case flow.Lit(value=value):
            text, truth = repr(value), bool(value)
        case flow.Attr(name=text):
            truth = True
        case _:
            return False
    if asked.values == THERE:
        return truth is not asked.is_one and (isinstance(given.value, flow.Lit) or not asked.is_one)
    if not asked.is_one:
        return text in asked.values
    return text not in asked.values and all(_is_constant(value) for value in asked.values)


def _is_constant(text: str) -> bool:
    """Whether the last name of a value is that of a constant, or it is a literal."""
    return text.isupper() or not text.isidentifier() or text in ("True", "False", "None")


class _Way:
    """The way to a place in one method."""

    def __init__(self, project: Project, function: FunctionEntry, name: str, known: Given | None) -> None:
        self._project = project
        self._function = function
        self._name = name
        self._me = function.facts.params[0].name if function.facts.params else ""
        self.known = known

    def come(self, body: Flow, span: Span) -> None:
        """Go through what runs before a place that is in a flow."""
        if isinstance(body, flow.Seq):
            for item in body.items:
                if _contains(item, span):
                    self.come(item, span)
                    return
                self._pass(item)
            return
        if isinstance(body, flow.Star | flow.Try) and self._binds(body):
            self.known = None  # an earlier round, or a part of the body that failed
        for child in flow.children(body):
            if _contains(child, span):
                self.come(child, span)
                return

    def _pass(self, item: Flow) -> None:
        match item:
            case flow.Seq(items=items):
                for each in items:
                    self._pass(each)
            case flow.Scope(body=body):
                self._pass(body)
            case flow.Bind(target=flow.Attr(base=flow.Name(id=base), name=name), value=value, op="") if (
                base == self._me and name == self._name
            ):
                is_constant = isinstance(value, flow.Lit) or (isinstance(value, flow.Attr) and _is_constant(value.name))
                self.known = Given(self._function, item, value) if value is not None and is_constant else None
            case _:
                if self._binds(item):
                    self.known = None

    def _binds(self, body: Flow) -> bool:
        """Whether something in a flow, or in a method of the object that it calls, may change the attribute."""
        seen: set[str] = set()
        waiting = [body]
        while waiting:
            part = waiting.pop()
            for each in flow.statements(part):
                if isinstance(each, flow.Bind) and self._name in names_in(each.target):
                    return True
            for call in flow.calls(part):
                match call.callee:
                    case flow.Attr(base=flow.Name(), name=method) if self._function.owner is not None:
                        found = self._project.method(self._function.owner, method)
                        if found is not None and found not in seen:
                            seen.add(found)
                            waiting.append(self._project.functions[found].lowered.flow)
        return False


def _contains(body: Flow, span: Span) -> bool:
    if isinstance(body, flow.Seq):
        return any(_contains(item, span) for item in body.items)
    return body.span.contains(span)
