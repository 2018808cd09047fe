"""Where the answers of capture tests go: into attributes, arguments and closures, out of the test and into a captured block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphlint import flow
from graphlint.behavior import Slot
from graphlint.dependence import Called, Dependent, Kept
from graphlint.effects import Effect
from graphlint.flow import Expr
from graphlint.origins import Origins
from graphlint.source import Span

_SILENT = frozenset(
    ("debug", "info", "warning", "error", "exception", "log", "print", "bool", "str", "repr", "format", "RuntimeError",
     "AssertionError", "ValueError", "isinstance", "nullcontext", "is_current_stream_capturing")
)  # fmt: skip
"""Calls that do nothing lasting with what they are told."""


class Answers(Origins):
    """The part of a function's reading that follows what capture tests say."""

    def is_capturing(self, names: Iterable[str], name: str, functions: tuple[str, ...]) -> bool:
        names = {each for name in names for each in (name, *self._bound_to(name))}
        if any(e.does is Effect.IS_CAPTURING for each in names for e in self.all.vocabulary.calls.get(each, ())):
            return True
        if not functions:
            return name in self.all.vocabulary.names.capturing
        reading = self.all.callee(functions[0])
        return reading is not None and reading.returns.capturing

    def _bound_to(self, name: str) -> Iterator[str]:
        """Functions that a module gives a name of its own: `capturing = torch.cuda.is_current_stream_capturing`."""
        owner, _, variable = name.rpartition(".")
        module = self.project.modules.get(owner)
        if module is None:
            return
        for bind in module.variables.get(variable, ()):
            if isinstance(bind.value, flow.Name | flow.Attr):
                dotted = self.project.dotted(module, bind.value)
                if dotted is not None:
                    yield self.all.vocabulary.canonical(dotted)

    def asked(self, expr: Expr) -> Span:
        """Where the capture test stands that an expression's value comes from."""
        if isinstance(expr, flow.Name) and expr.id in self.asked_at:
            return self.asked_at[expr.id]
        quiet, self.quiet = self.quiet, True
        try:
            stack = [expr]
            while stack:
                each = stack.pop(0)
                inner = flow.subexpressions(each)
                asks = isinstance(each, flow.Call) and self.value(each).capturing
                if asks and not any(self.value(e).capturing for e in inner):
                    return each.span
                stack += inner
        finally:
            self.quiet = quiet
        return expr.span

    def keep(self, how: str, value: Dependent, expr: Expr | None, slot: Slot | None = None) -> None:
        if expr is None or value.is_function:
            return
        if value.capturing or value.eager:
            self.result.kept.append(Kept(how, self.asked(expr), slot))
        elif isinstance(expr, flow.Group):
            for item in expr.items:
                self.keep(how, self.value(item), item, slot)

    def keep_early(self, expr: Expr) -> None:
        """Note the answers in an expression that were asked for before the block of a capture that it stands in."""
        if isinstance(expr, flow.Name) and expr.id in self.before:
            self.result.kept.append(Kept("captured", self.asked(expr), argument=expr))
        for inner in flow.subexpressions(expr) if isinstance(expr, flow.Op) else ():
            self.keep_early(inner)

    def keep_arguments(self, called: Called, expr: flow.Call) -> None:
        """Note the answers of capture tests that go into a call."""
        if flow.last_name(expr) in _SILENT:
            return
        keywords = ((value, called.keywords[name]) for name, value in expr.keywords if name is not None)
        for arg, value in (*zip(expr.args, called.args, strict=False), *keywords):
            if not value.capturing or value.is_function:
                continue
            if isinstance(arg, flow.Name) and (asked := self._outer(arg.id)) is not None:
                self.result.kept.append(Kept("closure", asked, None, called, arg))
            elif not called.captured:
                self.result.kept.append(Kept("argument", self.asked(arg), None, called, arg))
            else:
                self.keep_early(arg)

    def keep_outer(self, expr: Expr) -> None:
        """Note the answers in a test that the function around this one asked for."""
        if isinstance(expr, flow.Name) and (asked := self._outer(expr.id)) is not None:
            self.result.kept.append(Kept("closure", asked, None, None, expr))
        for inner in flow.subexpressions(expr) if isinstance(expr, flow.Op) else ():
            self.keep_outer(inner)

    def _outer(self, name: str) -> Span | None:
        """Where the function around this one asked for the answer that a variable of its own holds."""
        if name in self.env or self.parent is None:
            return None
        return self.parent.asked_at.get(name)
