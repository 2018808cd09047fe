"""What an attribute of an object was given last before a place in a method, where all ways there give it the same constant.

A shutdown that says `self.phase = Phase.DRAINING` first and asks `if self.phase is Phase.SERVING` afterwards releases nothing. It may
say so in another method of the object, `self.drain()`, and by an event, `self.running.clear()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from graphlint import flow
from graphlint.conditions import THERE, Condition, names_in
from graphlint.flow import Expr, Flow
from graphlint.paths import Frame
from graphlint.project import FunctionEntry, Project
from graphlint.source import Span

IS_SET = ".is_set()"
"""Ends the name of an event that an attribute holds, where what it says stands for the attribute."""
HAS_ITEMS = "[]"
"""Ends the name of a container that an attribute holds, where what it holds stands for the attribute."""
_SAID = {IS_SET: {"set": True, "clear": False}, HAS_ITEMS: {"clear": False}}
"""What methods of the object that an attribute holds say."""


class Given(NamedTuple):
    """An assignment of a constant to an attribute, or the call that sets an event which it holds."""

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

    def __init__(
        self,
        project: Project,
        function: FunctionEntry,
        name: str,
        known: Given | None,
        *,
        given: Mapping[str, Expr] | None = None,
        within: frozenset[str] = frozenset(),
    ) -> None:
        self._attribute = next((name.removesuffix(each) for each in _SAID if name.endswith(each)), name)
        self._said: Mapping[str, bool] = next((said for each, said in _SAID.items() if name.endswith(each)), {})
        self._given = given or {}
        """Constants that its parameters are."""
        self._within = within | {function.name}
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
                if isinstance(value, flow.Name):
                    value = self._given.get(value.id)
                self.known = Given(self._function, item, value) if value is not None and _says(value) else None
            case flow.Eval(value=flow.Call(callee=flow.Attr(base=held, name=how)), span=span) if (
                how in self._said and flow.dotted_text(held) == f"{self._me}.{self._attribute}"
            ):
                said = flow.Lit(self._said[how], span)
                self.known = Given(self._function, flow.Bind(held, said, span), said)
            case (
                flow.Eval(value=flow.Call() as call)
                | flow.Eval(value=flow.Op(op="await", operands=(flow.Call() as call,)))
            ):
                self._call(call)
            case _:
                if self._binds(item):
                    self.known = None

    def _call(self, call: flow.Call) -> None:
        """Go through a method of the object that is called, where it goes on to its end whatever happens."""
        if not self._binds(flow.Eval(call, call.span)):
            return
        method = self._method(call.callee)
        self.known = None
        if method is None or method.name in self._within or _leaves(method.lowered.flow):
            return
        names = [param.name for param in method.facts.params[1:]]
        given = {name: value for name, value in [*zip(names, call.args, strict=False), *call.keywords] if _says(value)}
        way = _Way(
            self._project,
            method,
            self._name,
            None,
            given={name: value for name, value in given.items() if name is not None},
            within=self._within,
        )
        way._pass(method.lowered.flow)
        self.known = way.known

    def _method(self, callee: Expr) -> FunctionEntry | None:
        """The one method of the object that a call of it, or of a base class's, can mean."""
        owner, found = self._function.owner, None
        match callee:
            case flow.Attr(base=flow.Name(id=base), name=name) if base == self._me and owner is not None:
                heirs, waiting = set[str](), [owner]
                while waiting:
                    each = waiting.pop()
                    heirs.add(each)
                    waiting += [heir for heir in self._project.subclasses.get(each, ()) if heir not in heirs]
                methods = {self._project.method(each, name) for each in heirs}
                found = methods.pop() if len(methods) == 1 else None
            case flow.Attr(base=flow.Call(callee=flow.Name(id="super")), name=name) if owner is not None:
                above = (self._project.classes.get(each) for each in self._project.mro(owner)[1:])
                found = next((each.methods[name] for each in above if each is not None and name in each.methods), None)
        return self._project.functions.get(found) if found is not None else None

    def _binds(self, body: Flow) -> bool:
        """Whether something in a flow, or in a method of the object that it calls, may change the attribute."""
        seen: set[str] = set()
        waiting = [body]
        while waiting:
            part = waiting.pop()
            for each in flow.statements(part):
                if isinstance(each, flow.Bind) and self._attribute in names_in(each.target):
                    return True
            for call in flow.calls(part):
                match call.callee:
                    case flow.Attr(base=held) if self._said and flow.last_name(held) == self._attribute:
                        return True
                    case flow.Attr(base=flow.Call(callee=flow.Name(id="super"))) if self._function.owner is not None:
                        above = self._method(call.callee)
                        if above is not None and above.name not in seen:
                            seen.add(above.name)
                            waiting.append(above.lowered.flow)
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


def _says(value: Expr) -> bool:
    """Whether a value is a constant: a literal, or an attribute of such a name."""
    return isinstance(value, flow.Lit) or (isinstance(value, flow.Attr) and _is_constant(value.name))


def _leaves(body: Flow) -> bool:
    """Whether a method may end before its end."""
    *_, last = body.items if isinstance(body, flow.Seq) and body.items else (body,)
    return any(
        isinstance(each, flow.Exit) and each.kind == "return" and each is not last for each in flow.statements(body)
    )
