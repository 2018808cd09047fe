"""One module's bytes to facts: imports, classes, functions, and each function's `Flow`. Knows no rule and no engine.

This is the only module that touches `ast`. Reading is done in two steps, because most functions never matter:

* `read` parses a file once and keeps its outline: imports, classes with their attributes, functions with their spans and
  parameters, and the flow of the module level itself.
* `lower` turns one function's text into its flow when somebody asks. It parses that text alone (`if 1:` in front gives any
  indentation a parent), so nothing of the file's tree has to stay in memory or to travel between processes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphlint import flow
from graphlint.flow import NOTHING, Expr, Flow
from graphlint.source import Source, Span
from graphlint.syntax import ParseError, parse
from graphlint.targets import STACKS, assigned_names, is_abstract

_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")

MODULE = "<module>"
"""Qualified name of the module level, as a function."""

_LARGEST_DISPLAY = 256
"""Displays with more items are data tables; lowering keeps their first items only."""


class Import(NamedTuple):
    """`alias` names `module` (relative by `level` dots), or `name` in it. Alias `*` brings in everything."""

    alias: str
    module: str
    name: str | None
    level: int
    span: Span


class Param(NamedTuple):
    """A parameter: `kind` is positional, keyword, args or kwargs."""

    name: str
    annotation: Expr | None
    default: Expr | None
    kind: str


@dataclass(frozen=True)
class Function:
    """A function's outline. `owner` is the qualified name of the class it is a method of."""

    qualname: str
    params: tuple[Param, ...]
    returns: Expr | None
    decorators: tuple[Expr, ...]
    span: Span
    """Whole definition, decorators included."""
    header: Span
    """From `def` to the end of its header line; what a report underlines."""
    owner: str | None
    words: frozenset[str]
    """Every identifier in its text."""
    flow: Flow | None = None
    """Set where lowering came with the outline: the module level, nested functions, lambdas."""
    is_generator: bool = False
    outer: frozenset[str] = frozenset()
    """With the flow: names that `global` and `nonlocal` give to the function."""
    assigns: frozenset[str] | None = None
    """Of those without a flow: what `targets.assigned_names` says, where it can tell."""
    is_abstract: bool = False
    """Of those without a flow: whether the body only raises, or says nothing."""

    @property
    def name(self) -> str:
        return self.qualname.rpartition(".")[2]


class Attribute(NamedTuple):
    """A name bound in a class body."""

    name: str
    annotation: Expr | None
    value: Expr | None
    span: Span


@dataclass(frozen=True)
class Class:
    """A class's outline."""

    qualname: str
    bases: tuple[Expr, ...]
    decorators: tuple[Expr, ...]
    attributes: tuple[Attribute, ...]
    methods: tuple[str, ...]
    span: Span
    header: Span


@dataclass(frozen=True)
class Facts:
    """What one module says."""

    imports: tuple[Import, ...]
    classes: tuple[Class, ...]
    functions: tuple[Function, ...]
    """Functions and methods, nested ones excluded, plus the module level as `MODULE`."""


@dataclass(frozen=True)
class Lowered:
    """A function's flow, and the functions and lambdas that it holds."""

    flow: Flow
    nested: tuple[Function, ...] = ()
    globals: frozenset[str] = frozenset()
    """Names that `global` declares in it."""
    is_generator: bool = False


def read(source: Source) -> Facts:
    """Outline of a module.

    Raises:
        ParseError: the file is not Python, or not Python that this interpreter reads.
    """
    tree = parse(source)
    return _Outline(source).module(tree)


def lower(source: Source, function: Function) -> Lowered:
    """Flow of one function of the module that `source` holds."""
    first = source.row(function.span.start)
    start = source.line_starts[first - 1]
    text = source.content[start : function.span.end]
    above = 1 if text[:1] in b" \t" else 0  # rows put in front of the text
    try:
        tree = parse(source, b"if 1:\n" * above + text, first - above)
    except ParseError:  # something else stands before the definition in its row: read the whole file instead
        tree = parse(source)
        first = above = 0
    lowering = _Lowering(source, max(first - above - 1, 0), function.qualname)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and lowering.end(node) == function.span.end:
            return lowering.function(node)
    return Lowered(NOTHING)


def annotation(text: str) -> Expr | None:
    """The expression in an annotation that is written as a string; its spans mean nothing."""
    try:
        inner = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return _Lowering(Source("", text.strip().encode()), 0, "").expression(inner)


class _Outline:
    """Statement-level pass over a module: definitions and imports, no expression that is not kept."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.lowering = _Lowering(source, 0, MODULE)
        self.words = {word: word.decode() for word in set(_WORD.findall(source.content))}
        self.imports: list[Import] = []
        self.classes: list[Class] = []
        self.functions: list[Function] = []

    def module(self, tree: ast.Module) -> Facts:
        level = [statement for statement in tree.body if not self.definition(statement, None)]
        body = self.lowering.block(level)
        whole = Span(0, len(self.source.content))
        words = frozenset(self.words.values())
        self.functions.append(Function(MODULE, (), None, (), whole, Span(0, 0), None, words, body))
        return Facts(tuple(self.imports), tuple(self.classes), (*self.functions, *self.lowering.nested))

    def definition(self, node: ast.stmt, owner: str | None) -> bool:
        """Take in a definition or an import, also those under `if`, `try` and `with`; False where it is none."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions.append(self.outline(node, owner))
            case ast.ClassDef():
                self.class_(node, owner)
            case ast.Import() | ast.ImportFrom():
                self.imports += self.lowering.imports(node)
            case ast.If() | ast.Try() | ast.With():
                for block in (node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])):
                    for statement in block:
                        self.definition(statement, owner)
                for handler in getattr(node, "handlers", []):
                    for statement in handler.body:
                        self.definition(statement, owner)
                return False
            case _:
                return False
        return True

    def outline(self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str | None) -> Function:
        span = self.lowering.whole(node)
        return Function(
            f"{owner}.{node.name}" if owner else node.name,
            self.lowering.params(node.args),
            self.lowering.optional(node.returns),
            tuple(map(self.lowering.expression, node.decorator_list)),
            span,
            self.lowering.header(node),
            owner,
            frozenset(map(self.words.__getitem__, set(_WORD.findall(self.source.content, span.start, span.end)))),
            assigns=assigned_names(node.body),
            is_abstract=is_abstract(node.body),
        )

    def class_(self, node: ast.ClassDef, owner: str | None) -> None:
        qualname = f"{owner}.{node.name}" if owner else node.name
        attributes: list[Attribute] = []
        before = len(self.functions)
        for statement in node.body:
            self.class_statement(statement, qualname, attributes)
        methods = tuple(f.name for f in self.functions[before:] if f.owner == qualname)
        self.classes.append(
            Class(
                qualname,
                tuple(map(self.lowering.expression, node.bases)),
                tuple(map(self.lowering.expression, node.decorator_list)),
                tuple(attributes),
                methods,
                self.lowering.whole(node),
                self.lowering.header(node),
            )
        )

    def class_statement(self, node: ast.stmt, owner: str, attributes: list[Attribute]) -> None:
        lowering = self.lowering
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)):
                value = lowering.optional(node.value)
                attributes.append(Attribute(name, lowering.expression(node.annotation), value, lowering.span(node)))
            case ast.Assign():
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        value = lowering.expression(node.value)
                        attributes.append(Attribute(target.id, None, value, lowering.span(node)))
            case ast.If(body=body, orelse=orelse):
                for statement in (*body, *orelse):
                    self.class_statement(statement, owner, attributes)
            case _:
                self.definition(node, owner)


_OPERATORS: dict[type[ast.AST], str] = {
    ast.And: "and",
    ast.Or: "or",
    ast.Not: "not",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitOr: "|",
    ast.BitAnd: "&",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.MatMult: "@",
    ast.USub: "neg",
    ast.UAdd: "pos",
    ast.Invert: "~",
}

_DefNode = ast.FunctionDef | ast.AsyncFunctionDef


class _Lowering:
    """Expressions and statements of one function (or the module level) to the flow language.

    `shift` is added to a node's row to get the row in the file.
    """

    def __init__(self, source: Source, shift: int, qualname: str) -> None:
        self.source = source
        self.starts = source.line_starts
        self.shift = shift
        self.qualname = qualname
        self.nested: list[Function] = []
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.yields = False
        self.plain = source.encoding == "utf-8"
        self.bom = 3 if source.encoding == "utf-8-sig" else 0

    # ------------------------------------------------------------------------------------------------- positions

    def offset(self, row: int, column: int) -> int:
        row += self.shift
        start = self.starts[row - 1]
        if self.plain:
            return start + column
        if self.bom:
            return start + column + (self.bom if row == 1 else 0)
        # ast counts columns in UTF-8 bytes whatever the file's encoding is
        encoding = self.source.encoding
        end = self.starts[row] if row < len(self.starts) else len(self.source.content)
        text = self.source.content[start:end].decode(encoding, "replace")
        return start + len(text.encode()[:column].decode(errors="replace").encode(encoding, "replace"))

    def span(self, node: Any) -> Span:
        if self.plain:
            starts, shift = self.starts, self.shift - 1
            return Span(
                starts[node.lineno + shift] + node.col_offset, starts[node.end_lineno + shift] + node.end_col_offset
            )
        return Span(self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset))

    def end(self, node: Any) -> int:
        return self.offset(node.end_lineno, node.end_col_offset)

    def whole(self, node: _DefNode | ast.ClassDef) -> Span:
        """Span with decorators, from the first `@`."""
        span = self.span(node)
        if not node.decorator_list:
            return span
        first = self.span(node.decorator_list[0]).start
        return Span(self.source.content.rfind(b"@", 0, first), span.end)

    def header(self, node: _DefNode | ast.ClassDef) -> Span:
        start = self.span(node).start
        text = self.source.content
        name = text.find(node.name.encode(self.source.encoding.replace("-sig", "")), start)
        return Span(start, name + len(node.name.encode()))

    # ------------------------------------------------------------------------------------------------- functions

    def function(self, node: _DefNode) -> Lowered:
        body = self.block(node.body)
        return Lowered(body, tuple(self.nested), frozenset(self.globals), self.yields)

    def params(self, args: ast.arguments) -> tuple[Param, ...]:
        result: list[Param] = []
        positional = [*args.posonlyargs, *args.args]
        missing: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults))
        for arg, default in zip(positional, [*missing, *args.defaults], strict=True):
            result.append(Param(arg.arg, self.annotation(arg.annotation), self.optional(default), "positional"))
        if args.vararg:
            result.append(Param(args.vararg.arg, self.annotation(args.vararg.annotation), None, "args"))
        for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            result.append(Param(arg.arg, self.annotation(arg.annotation), self.optional(default), "keyword"))
        if args.kwarg:
            result.append(Param(args.kwarg.arg, self.annotation(args.kwarg.annotation), None, "kwargs"))
        return tuple(result)

    def annotation(self, node: ast.expr | None) -> Expr | None:
        """An annotation; one that is written as a string is read as the expression it holds."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return annotation(node.value)
        return self.optional(node)

    def inner(self, node: _DefNode | ast.Lambda, name: str) -> flow.Func:
        """A nested function or lambda, lowered with its parent."""
        span = self.whole(node) if not isinstance(node, ast.Lambda) else self.span(node)
        qualname = f"{self.qualname}.<locals>.{name}@{span.start}"
        lowering = _Lowering(self.source, self.shift, qualname)
        decorators: tuple[Expr, ...] = ()
        returns: Expr | None = None
        if isinstance(node, ast.Lambda):
            body: Flow = flow.Exit("return", lowering.expression(node.body), span)
            header = span
        else:
            body = lowering.block(node.body)
            decorators = tuple(map(self.expression, node.decorator_list))
            returns = self.annotation(node.returns)
            header = self.header(node)
        words = frozenset(word.decode() for word in _WORD.findall(self.source.content, span.start, span.end))
        params = self.params(node.args)
        outer = frozenset(lowering.globals | lowering.nonlocals)
        function = Function(
            qualname, params, returns, decorators, span, header, None, words, body, lowering.yields, outer
        )
        self.nested += (function, *lowering.nested)
        return flow.Func(qualname, span)

    def imports(self, node: ast.Import | ast.ImportFrom) -> Iterator[Import]:
        span = self.span(node)
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    yield Import(alias.asname, alias.name, None, 0, span)
                else:
                    yield Import(alias.name.partition(".")[0], alias.name.partition(".")[0], None, 0, span)
        else:
            for alias in node.names:
                yield Import(alias.asname or alias.name, node.module or "", alias.name, node.level, span)

    # ------------------------------------------------------------------------------------------------ statements

    def block(self, body: Iterable[ast.stmt]) -> Flow:
        items: list[Flow] = []
        for statement in body:
            handler = _STATEMENTS.get(type(statement))
            if handler is not None:
                handler(self, statement, items)
        return items[0] if len(items) == 1 else flow.Seq(tuple(items))

    def expr_statement(self, node: ast.Expr, out: list[Flow]) -> None:
        if not isinstance(node.value, ast.Constant):
            out.append(flow.Eval(self.expression(node.value), self.span(node)))

    def assign(self, node: ast.Assign, out: list[Flow]) -> None:
        value, span = self.expression(node.value), self.span(node)
        for target in map(self.expression, node.targets):
            out.append(flow.Bind(target, value, span))
            if isinstance(target, flow.Name | flow.Attr) and not isinstance(value, flow.Lit):
                value = target  # `a = b = f()` calls f once

    def annotated(self, node: ast.AnnAssign, out: list[Flow]) -> None:
        annotation = self.annotation(node.annotation)
        out.append(flow.Bind(self.expression(node.target), self.optional(node.value), self.span(node), "", annotation))

    def augmented(self, node: ast.AugAssign, out: list[Flow]) -> None:
        operator = _OPERATORS.get(type(node.op), "?")
        out.append(flow.Bind(self.expression(node.target), self.expression(node.value), self.span(node), operator))

    def delete(self, node: ast.Delete, out: list[Flow]) -> None:
        span = self.span(node)
        for target in node.targets:
            lowered = self.expression(target)
            targets = lowered.items if isinstance(lowered, flow.Group) else (lowered,)
            out += (flow.Drop(each, span) for each in targets)

    def if_(self, node: ast.If, out: list[Flow]) -> None:
        test = self.expression(node.test)
        out.append(flow.Alt(test, self.block(node.body), self.block(node.orelse), self.span(node)))

    def for_(self, node: ast.For | ast.AsyncFor, out: list[Flow]) -> None:
        target, iterable = self.expression(node.target), self.expression(node.iter)
        body, other = self.block(node.body), self.block(node.orelse)
        out.append(flow.Star(target, iterable, None, body, other, self.span(node)))

    def while_(self, node: ast.While, out: list[Flow]) -> None:
        test = self.expression(node.test)
        out.append(flow.Star(None, None, test, self.block(node.body), self.block(node.orelse), self.span(node)))

    def with_(self, node: ast.With | ast.AsyncWith, out: list[Flow]) -> None:
        body, span = self.block(node.body), self.span(node)
        for item in reversed(node.items):
            context, target = self.expression(item.context_expr), self.optional(item.optional_vars)
            if isinstance(target, flow.Name) and flow.last_name(context) in STACKS:
                handed = any(flow.last_name(call) == "pop_all" for call in flow.calls(body))
                body = body if handed else flow.stacked(body, target.id)
            body = flow.Scope(context, target, body, span)
        out.append(body)

    def try_(self, node: Any, out: list[Flow]) -> None:
        handlers = tuple(
            flow.Handler(self.optional(h.type), h.name, self.block(h.body), self.span(h)) for h in node.handlers
        )
        body, other, final = self.block(node.body), self.block(node.orelse), self.block(node.finalbody)
        out.append(flow.Try(body, handlers, other, final, self.span(node)))

    def return_(self, node: ast.Return, out: list[Flow]) -> None:
        out.append(flow.Exit("return", self.optional(node.value), self.span(node)))

    def raise_(self, node: ast.Raise, out: list[Flow]) -> None:
        out.append(flow.Exit("raise", self.optional(node.exc), self.span(node)))

    def break_(self, node: ast.Break, out: list[Flow]) -> None:
        out.append(flow.Exit("break", None, self.span(node)))

    def continue_(self, node: ast.Continue, out: list[Flow]) -> None:
        out.append(flow.Exit("continue", None, self.span(node)))

    def assert_(self, node: ast.Assert, out: list[Flow]) -> None:
        span = self.span(node)
        out.append(flow.Alt(self.expression(node.test), NOTHING, flow.Exit("raise", None, span), span))

    def local_import(self, node: ast.Import | ast.ImportFrom, out: list[Flow]) -> None:
        for alias, module, name, level, span in self.imports(node):
            out.append(flow.Bind(flow.Name(alias, span), flow.Imported(module, name, level, span), span))

    def local_function(self, node: _DefNode, out: list[Flow]) -> None:
        function = self.inner(node, node.name)
        out.append(flow.Bind(flow.Name(node.name, function.span), function, function.span))

    def scope_names(self, node: ast.Global | ast.Nonlocal, _out: list[Flow]) -> None:
        (self.globals if isinstance(node, ast.Global) else self.nonlocals).update(node.names)

    def match_(self, node: ast.Match, out: list[Flow]) -> None:
        """`match` as a chain of tests."""
        subject, span = self.expression(node.subject), self.span(node)
        chain: Flow = NOTHING
        for case in reversed(node.cases):
            test = self.pattern(subject, case.pattern)
            if case.guard is not None:
                test = flow.Op("and", (test, self.expression(case.guard)), span)
            chain = flow.Alt(test, self.block(case.body), chain, span)
        out.append(chain)

    def pattern(self, subject: Expr, pattern: ast.pattern) -> Expr:
        """The test of a pattern: a comparison for a value or several, and nothing known for what takes things apart."""
        span = self.span(pattern)
        match pattern:
            case ast.MatchValue(value=value):
                return flow.Op("==", (subject, self.expression(value)), span)
            case ast.MatchSingleton(value=value):
                return flow.Op("is", (subject, flow.Lit(value, span)), span)
            case ast.MatchOr(patterns=patterns):
                return flow.Op("or", tuple(self.pattern(subject, each) for each in patterns), span)
            case ast.MatchAs(pattern=None, name=None):
                return flow.Lit(value=True, span=span)
        return flow.Op("match", (subject,), span)

    # ----------------------------------------------------------------------------------------------- expressions

    def optional(self, node: ast.expr | None) -> Expr | None:
        return None if node is None else self.expression(node)

    def expression(self, node: ast.expr) -> Expr:
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            operands = tuple(self.expression(c) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr))
            return flow.Op(type(node).__name__, operands, self.span(node))
        return handler(self, node)

    def name(self, node: ast.Name) -> Expr:
        return flow.Name(node.id, self.span(node))

    def attribute(self, node: ast.Attribute) -> Expr:
        return flow.Attr(self.expression(node.value), node.attr, self.span(node))

    def constant(self, node: ast.Constant) -> Expr:
        return flow.Lit(node.value, self.span(node))

    def call(self, node: ast.Call) -> Expr:
        callee = self.expression(node.func)
        args = tuple([self.expression(arg) for arg in node.args])
        keywords = tuple([(keyword.arg, self.expression(keyword.value)) for keyword in node.keywords])
        return flow.Call(callee, args, keywords, self.span(node))

    def subscript(self, node: ast.Subscript) -> Expr:
        return flow.Item(self.expression(node.value), self.expression(node.slice), self.span(node))

    def group(self, node: ast.Tuple | ast.List | ast.Set) -> Expr:
        items = tuple([self.expression(item) for item in node.elts[:_LARGEST_DISPLAY]])
        return flow.Group(type(node).__name__.lower(), items, self.span(node))

    def dict_(self, node: ast.Dict) -> Expr:
        items = tuple([self.expression(value) for value in node.values[:_LARGEST_DISPLAY]])
        keys = tuple([self.optional(key) for key in node.keys[:_LARGEST_DISPLAY]])
        return flow.Group("dict", items, self.span(node), keys)

    def formatted(self, node: ast.JoinedStr) -> Expr:
        parts = [self.expression(p.value if isinstance(p, ast.FormattedValue) else p) for p in node.values]
        return flow.Text(tuple(parts), self.span(node))

    def boolean(self, node: ast.BoolOp) -> Expr:
        return flow.Op(_OPERATORS[type(node.op)], tuple(map(self.expression, node.values)), self.span(node))

    def unary(self, node: ast.UnaryOp) -> Expr:
        return flow.Op(_OPERATORS[type(node.op)], (self.expression(node.operand),), self.span(node))

    def binary(self, node: ast.BinOp) -> Expr:
        operands = (self.expression(node.left), self.expression(node.right))
        return flow.Op(_OPERATORS[type(node.op)], operands, self.span(node))

    def compare(self, node: ast.Compare) -> Expr:
        span = self.span(node)
        values = [self.expression(node.left), *map(self.expression, node.comparators)]
        tests = [flow.Op(_OPERATORS[type(op)], (values[i], values[i + 1]), span) for i, op in enumerate(node.ops)]
        return tests[0] if len(tests) == 1 else flow.Op("and", tuple(tests), span)

    def choice(self, node: ast.IfExp) -> Expr:
        test, then, other = map(self.expression, (node.test, node.body, node.orelse))
        return flow.Choice(test, then, other, self.span(node))

    def starred(self, node: ast.Starred) -> Expr:
        return flow.Op("*", (self.expression(node.value),), self.span(node))

    def await_(self, node: ast.Await) -> Expr:
        return flow.Op("await", (self.expression(node.value),), self.span(node))

    def yield_(self, node: ast.Yield | ast.YieldFrom) -> Expr:
        self.yields = True
        operands = () if node.value is None else (self.expression(node.value),)
        return flow.Op("yield" if isinstance(node, ast.Yield) else "yield from", operands, self.span(node))

    def walrus(self, node: ast.NamedExpr) -> Expr:
        target = flow.Name(node.target.id, self.span(node.target))
        return flow.Walrus(target, self.expression(node.value), self.span(node))

    def lambda_(self, node: ast.Lambda) -> Expr:
        return self.inner(node, "<lambda>")

    def comprehension(self, node: Any) -> Expr:
        key = self.expression(node.key) if isinstance(node, ast.DictComp) else None
        element = self.expression(node.value if isinstance(node, ast.DictComp) else node.elt)
        kind = {"ListComp": "list", "SetComp": "set", "DictComp": "dict"}.get(type(node).__name__, "generator")
        for index, generator in enumerate(reversed(node.generators)):
            target, iterable = self.expression(generator.target), self.expression(generator.iter)
            tests = tuple(map(self.expression, generator.ifs))
            element = flow.Each(kind, target, iterable, tests, element, self.span(node), key if index == 0 else None)
        return element


_STATEMENTS: dict[type[ast.AST], Callable[[_Lowering, Any, list[Flow]], None]] = {
    ast.Expr: _Lowering.expr_statement,
    ast.Assign: _Lowering.assign,
    ast.AnnAssign: _Lowering.annotated,
    ast.AugAssign: _Lowering.augmented,
    ast.Delete: _Lowering.delete,
    ast.If: _Lowering.if_,
    ast.For: _Lowering.for_,
    ast.AsyncFor: _Lowering.for_,
    ast.While: _Lowering.while_,
    ast.With: _Lowering.with_,
    ast.AsyncWith: _Lowering.with_,
    ast.Try: _Lowering.try_,
    ast.Return: _Lowering.return_,
    ast.Raise: _Lowering.raise_,
    ast.Break: _Lowering.break_,
    ast.Continue: _Lowering.continue_,
    ast.Assert: _Lowering.assert_,
    ast.Import: _Lowering.local_import,
    ast.ImportFrom: _Lowering.local_import,
    ast.FunctionDef: _Lowering.local_function,
    ast.AsyncFunctionDef: _Lowering.local_function,
    ast.Global: _Lowering.scope_names,
    ast.Nonlocal: _Lowering.scope_names,
    ast.Match: _Lowering.match_,
}
if hasattr(ast, "TryStar"):
    _STATEMENTS[ast.TryStar] = _Lowering.try_

_EXPRESSIONS: dict[type[ast.AST], Callable[[_Lowering, Any], Expr]] = {
    ast.Name: _Lowering.name,
    ast.Attribute: _Lowering.attribute,
    ast.Constant: _Lowering.constant,
    ast.Call: _Lowering.call,
    ast.Subscript: _Lowering.subscript,
    ast.Tuple: _Lowering.group,
    ast.List: _Lowering.group,
    ast.Set: _Lowering.group,
    ast.Dict: _Lowering.dict_,
    ast.JoinedStr: _Lowering.formatted,
    ast.BoolOp: _Lowering.boolean,
    ast.UnaryOp: _Lowering.unary,
    ast.BinOp: _Lowering.binary,
    ast.Compare: _Lowering.compare,
    ast.IfExp: _Lowering.choice,
    ast.Starred: _Lowering.starred,
    ast.Await: _Lowering.await_,
    ast.Yield: _Lowering.yield_,
    ast.YieldFrom: _Lowering.yield_,
    ast.NamedExpr: _Lowering.walrus,
    ast.Lambda: _Lowering.lambda_,
    ast.ListComp: _Lowering.comprehension,
    ast.SetComp: _Lowering.comprehension,
    ast.DictComp: _Lowering.comprehension,
    ast.GeneratorExp: _Lowering.comprehension,
}
