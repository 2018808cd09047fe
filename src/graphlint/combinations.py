"""Whether any call in a project gives parameters the values that a place in a function needs.

A branch on a flag is code that nobody runs where every call leaves the flag off, and two flags that are never on
together guard a place that is never reached:

    def gather(x, splits=None, shared=False):
        if splits is not None:
            if shared:
                here                     splits must be something and shared true
    gather(x, shared=True)               gives one of the two

What nobody can tell counts as given: a value that is computed, a function that is handed on, a caller that is not among
the files and has to say something because there is no default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from graphlint import flow
from graphlint.evaluate import Behaviors
from graphlint.project import FunctionEntry
from graphlint.source import Span

NONE, SOME, TRUE, FALSE = "none", "some", "true", "false"
"""What a test asks of a parameter: to be None or not, to be true or false."""

_OPPOSITE = {NONE: SOME, SOME: NONE, TRUE: FALSE, FALSE: TRUE}
_AUTOGRAD = "torch.autograd.Function"
_MOST_CALLERS = 64
_HIGHEST = 6
"""Most callers in each other that a parameter is followed through."""


class Combinations:
    """Asks the calls of a project for what they give."""

    def __init__(self, behaviors: Behaviors) -> None:
        self.behaviors = behaviors
        self.project = behaviors.project
        self.vocabulary = behaviors.vocabulary
        self._made: dict[tuple[str, frozenset[tuple[str, str]]], bool] = {}

    def reaches(self, function: str, span: Span) -> bool:
        """Whether a call in the project may reach a place, as far as tests of the function's own parameters decide.

        A function that nobody calls is somebody else's to call: there everything may be given.
        """
        entry = self.project.functions[function]
        needs = frozenset(self._needs(entry, span))
        if not needs or not any(True for _ in self._sites(entry)):
            return True
        return self._is_made(entry, needs, 0)

    def allows(self, caller: FunctionEntry, call: flow.Call, function: str, span: Span) -> bool:
        """Whether one call of a function may come to a place in it, as far as tests of its own parameters decide."""
        entry = self.project.functions[function]
        arguments = self._arguments(entry, call, 0 if entry.kind in ("function", "staticmethod") else 1)
        needs = frozenset(self._needs(entry, span))
        return arguments is None or self._meets(caller, self._given(entry, arguments), needs, 0)

    def _needs(self, entry: FunctionEntry, span: Span) -> Iterator[tuple[str, str]]:
        """What the tests around a place ask of parameters that stay what they are."""
        fixed = _fixed(entry)
        for statement in flow.statements(entry.lowered.flow):
            if not isinstance(statement, flow.Alt):
                continue
            for side, holds in ((statement.then, True), (statement.other, False)):
                if _contains(side, span):
                    yield from (need for need in _asked(statement.test, holds=holds) if need[0] in fixed)

    def _is_made(self, entry: FunctionEntry, needs: frozenset[tuple[str, str]], depth: int) -> bool:
        """Whether some call of a function meets all that is asked of its parameters."""
        key = (entry.name, needs)
        if key not in self._made:
            self._made[key] = False  # a way around in a circle gives nothing new
            self._made[key] = depth >= _HIGHEST or self._find(entry, needs, depth)
        return self._made[key]

    def _find(self, entry: FunctionEntry, needs: frozenset[tuple[str, str]], depth: int) -> bool:
        called = False
        for caller, arguments in self._sites(entry):
            called = True
            if arguments is None or self._meets(caller, self._given(entry, arguments), needs, depth):
                return True
        return not called and self._meets(None, self._given(entry, {}), needs, depth)

    def _given(self, entry: FunctionEntry, arguments: Mapping[str, flow.Expr]) -> dict[str, flow.Expr]:
        defaults = {param.name: param.default for param in entry.facts.params if param.default is not None}
        return {**defaults, **arguments}

    def _meets(
        self,
        caller: FunctionEntry | None,
        given: Mapping[str, flow.Expr],
        needs: Iterable[tuple[str, str]],
        depth: int,
    ) -> bool:
        """Whether one call may meet all needs: at once, or by what its own function is given."""
        further: dict[str, set[tuple[str, str]]] = {}
        for name, need in needs:
            if name not in given:
                continue
            value: flow.Expr | None = given[name]
            place = self._place(caller, value) if caller is not None and value is not None else None
            if isinstance(place, flow.Lit):
                value = place
            elif place is not None:
                further.setdefault(place[0], set()).add((place[1], need))
                continue
            if isinstance(value, flow.Lit) and not _holds(value.value, need):
                return False
        functions = self.project.functions
        return all(self._is_made(functions[each], frozenset(asked), depth + 1) for each, asked in further.items())

    def _place(self, caller: FunctionEntry, value: flow.Expr) -> tuple[str, str] | flow.Lit | None:
        """The function and its parameter that a value is, or the literal that it is; None for anything else."""
        for _ in range(3):
            match value:
                case flow.Lit():
                    return value
                case flow.Name(id=name) if name in _fixed(caller):
                    return caller.name, name
                case flow.Name(id=name):
                    bound = _bound(caller, name)
                    if bound is None:
                        return None
                    value = bound
                case flow.Attr(base=flow.Name(id=name), name=attribute) if _is_context(caller, name):
                    return self._kept(caller, attribute)
                case _:
                    return None
        return None

    def _kept(self, caller: FunctionEntry, attribute: str) -> tuple[str, str] | None:
        """The parameter that another method of the class puts into an attribute of the object that both are handed."""
        found: list[tuple[str, str]] = []
        methods = self.project.classes[caller.owner].methods if caller.owner in self.project.classes else {}
        for name in methods.values():
            entry = self.project.functions[name]
            first = entry.facts.params[0].name if entry.facts.params else ""
            for statement in flow.statements(entry.lowered.flow):
                match statement:
                    case flow.Bind(target=flow.Attr(base=flow.Name(id=base), name=bound), value=flow.Name(id=param)):
                        if base == first and bound == attribute:
                            found.append((name, param) if param in _fixed(entry) else ("", ""))
                    case flow.Bind(target=flow.Attr(base=flow.Name(id=base), name=bound)):
                        if base == first and bound == attribute:
                            found.append(("", ""))
        return found[0] if len(found) == 1 and found[0][0] else None

    # -------------------------------------------------------------------------------------------------------- calls

    def _sites(self, entry: FunctionEntry) -> Iterator[tuple[FunctionEntry, Mapping[str, flow.Expr] | None]]:
        """Functions that call a function, and what they give by parameter; None where that cannot be told."""
        word, skip = entry.facts.name, 0 if entry.kind in ("function", "staticmethod") else 1
        if word == "forward":
            if not self._is_autograd(entry):
                yield entry, None
                return
            word, skip = "apply", 1
        short = (entry.owner or "").rpartition(".")[2]
        seen = 0
        for caller in self.behaviors.functions_with(short if word == "apply" else word):
            if caller.name == entry.name:
                continue
            called: set[Span] = set()
            for call in flow.calls(caller.lowered.flow):
                if flow.last_name(call.callee) != word:
                    continue
                if word == "apply" and not (
                    isinstance(call.callee, flow.Attr) and flow.last_name(call.callee.base) == short
                ):
                    continue
                called.add(call.callee.span)
                seen += 1
                yield caller, self._arguments(entry, call, skip) if seen <= _MOST_CALLERS else None
            if any(_mentions(each, word, short) and each.span not in called for each in _expressions(caller)):
                yield caller, None  # it is handed on

    @staticmethod
    def _arguments(entry: FunctionEntry, call: flow.Call, skip: int) -> Mapping[str, flow.Expr] | None:
        """What a call gives by parameter; None where it gives more than is written."""
        if any(map(flow.is_spread, call.args)):
            return None
        if any(name is None for name, _ in call.keywords):
            return None
        positional = [param.name for param in entry.facts.params if param.kind == "positional"][skip:]
        named = {name: value for name, value in call.keywords if name is not None}
        return {**dict(zip(positional, call.args, strict=False)), **named}

    def _is_autograd(self, entry: FunctionEntry) -> bool:
        return entry.owner is not None and any(
            self.vocabulary.canonical(base) == _AUTOGRAD for base in self.project.mro(entry.owner)
        )


def _mentions(expr: flow.Expr, word: str, short: str) -> bool:
    """Whether an expression is a function, or the method `apply` of a class."""
    match expr:
        case flow.Name(id=name):
            return name == word
        case flow.Attr(base=base, name=name):
            return name == word and (word != "apply" or flow.last_name(base) == short)
    return False


def _expressions(entry: FunctionEntry) -> Iterator[flow.Expr]:
    """Values in a function; the variables that it binds are none of them."""
    for statement in flow.statements(entry.lowered.flow):
        if isinstance(statement, flow.Bind) and isinstance(statement.target, flow.Name):
            waiting = [statement.value] if statement.value is not None else []
        else:
            waiting = list(flow.operands(statement))
        while waiting:
            expr = waiting.pop()
            yield expr
            waiting += flow.subexpressions(expr)


def _contains(side: flow.Flow, span: Span) -> bool:
    return any(expr.span.contains(span) for each in flow.statements(side) for expr in flow.operands(each))


def _asked(test: flow.Expr, *, holds: bool) -> Iterator[tuple[str, str]]:
    """What a test that turns out so says of variables."""
    match test:
        case flow.Op(op="not", operands=(inner,)):
            yield from _asked(inner, holds=not holds)
        case flow.Op(op="and" | "or" as op, operands=operands) if (op == "and") == holds:
            for each in operands:
                yield from _asked(each, holds=holds)
        case flow.Op(op="is" | "is not" as op, operands=(flow.Name(id=name), flow.Lit(value=None))):
            yield name, NONE if (op == "is") == holds else SOME
        case flow.Name(id=name):
            yield name, TRUE if holds else FALSE


def _holds(value: object, need: str) -> bool:
    return {NONE: value is None, SOME: value is not None, TRUE: bool(value), FALSE: not value}[need]


def _fixed(entry: FunctionEntry) -> frozenset[str]:
    """Parameters that a function does not set again."""
    names = {param.name for param in entry.facts.params}
    for statement in flow.statements(entry.lowered.flow):
        if isinstance(statement, flow.Bind) and isinstance(statement.target, flow.Name):
            names.discard(statement.target.id)
    return frozenset(names)


def _bound(entry: FunctionEntry, name: str) -> flow.Expr | None:
    """What a variable is bound to, where that is one thing."""
    binds = [
        each
        for each in flow.statements(entry.lowered.flow)
        if isinstance(each, flow.Bind) and isinstance(each.target, flow.Name) and each.target.id == name
    ]
    params = {param.name for param in entry.facts.params}
    return binds[0].value if len(binds) == 1 and not binds[0].op and name not in params else None


def _is_context(entry: FunctionEntry, name: str) -> bool:
    """Whether a name is the object that the static methods of an autograd function hand to each other."""
    params = entry.facts.params
    return bool(params) and entry.kind == "staticmethod" and entry.owner is not None and params[0].name == name
