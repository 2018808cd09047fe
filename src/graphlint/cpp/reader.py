"""One C++ or CUDA file to facts, with tree-sitter.

tree-sitter and its C++ grammar are imported when the first file is read, never before: they are an extra
(`cudagraph-lint[cpp]`), and a run over Python alone does not pay for them.

A C++ grammar without a preprocessor cannot read everything. What it trips over is blanked (`graphlint.cpp.blank`);
where braces balance only in one branch of an `#if`, each branch is read by itself; what still fails is counted in
`CppFacts.unread`. Nothing in a file makes `read` raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from graphlint.cpp import blank
from graphlint.cpp.facts import Binding, CppFacts, Function, Record, Variable
from graphlint.cpp.lower import Lowering
from graphlint.cpp.vocabulary import BindingMacro, Vocabulary, load
from graphlint.effects import Lifetime
from graphlint.flow import Attr, Bind, Call, Eval, Expr, Flow, Func, Group, Lit, Name, Op, Seq, children
from graphlint.mentions import mentions
from graphlint.source import CPP, Source, Span

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

SUFFIXES = CPP
"""What a C++ or CUDA source file's name ends with."""

LARGEST = 8 << 20
"""Bytes; a larger file is generated data, and is counted as unread."""


class MissingGrammarError(ImportError):
    """tree-sitter or its C++ grammar is not installed."""

    def __init__(self) -> None:
        super().__init__("reading C++ needs tree-sitter and tree-sitter-cpp: install cudagraph-lint[cpp]")


def wanted(content: bytes) -> bool:
    """Whether a file can have an effect or a binding: whether it holds a name of the vocabulary."""
    return mentions(content, load().tokens)


def read(source: Source) -> CppFacts:
    """The facts of one file.

    Raises:
        MissingGrammarError: the extra `cpp` is not installed.
    """
    content = source.content
    if len(content) > LARGEST or b"\0" in content:
        return CppFacts(source.path, unread=(Span(0, len(content)),))
    prepared = blank.prepared(content)
    whole = _outline(prepared, source)
    if not whole.unread:
        return _united([whole])
    variants = [_outline(variant, source) for variant in blank.branches(prepared)]
    is_better = variants and sum(one.unread_bytes for one in variants) < len(variants) * whole.unread_bytes
    return _united(variants if is_better else [whole])


@cache
def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_cpp
    except ImportError as error:
        raise MissingGrammarError from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))


@dataclass
class _Outline:
    """What has been met so far in one reading of a file."""

    content: bytes
    path: str
    functions: list[Function] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    unread: list[Span] = field(default_factory=list)

    @property
    def unread_bytes(self) -> int:
        """How much could not be read."""
        return sum(span.end - span.start for span in self.unread)


def _united(outlines: Sequence[_Outline]) -> CppFacts:
    """Several readings of one file as one: what is the same in two of them stands in it once."""
    functions: dict[tuple[str, Span, bytes], Function] = {}
    for outline in outlines:
        for function in outline.functions:
            text = outline.content[function.span.start : function.span.end]
            functions.setdefault((function.name, function.span, text), function)
    return CppFacts(
        outlines[0].path,
        tuple(functions.values()),
        tuple(dict.fromkeys(record for outline in outlines for record in outline.records)),
        tuple(dict.fromkeys(variable for outline in outlines for variable in outline.variables)),
        tuple(dict.fromkeys(binding for outline in outlines for binding in outline.bindings)),
        tuple(dict.fromkeys(span for outline in outlines for span in outline.unread)),
    )


def _outline(content: bytes, source: Source) -> _Outline:
    vocabulary = load()
    outline = _Outline(content, source.path)
    tree = _parser().parse(content)
    if tree.root_node.type == "ERROR":
        outline.unread.append(Span(0, len(content)))
    try:
        _Reader(content, source.content, vocabulary, outline).walk(tree.root_node)
    except RecursionError:  # namespaces or classes nested hundreds deep
        outline.unread.append(Span(0, len(content)))
    return outline


_DECLARATIVE = frozenset(
    {"function_definition", "namespace_definition", "access_specifier", "template_declaration", "linkage_specification"}
)


class _Reader:
    """Walks the declarations of one tree."""

    def __init__(self, content: bytes, original: bytes, vocabulary: Vocabulary, outline: _Outline) -> None:
        self._content = content
        self._original = original
        self._vocabulary = vocabulary
        self._outline = outline
        self._lambdas: list[tuple[str, Node]] = []
        self._lowering = Lowering(content, vocabulary, lambda name, node: self._lambdas.append((name, node)))

    def walk(self, node: Node, scope: str = "", owner: str = "") -> None:
        """Declarations below `node`; `scope` is the qualified name around them, `owner` the class if it is one."""
        for child in node.named_children:
            self._declaration(child, scope, owner)

    def _declaration(self, node: Node, scope: str, owner: str) -> None:
        kind = node.type
        if kind == "function_definition":
            self._function(node, scope, owner)
        elif kind == "namespace_definition":
            name = node.child_by_field_name("name")
            body = node.child_by_field_name("body")
            if body is not None:
                self.walk(body, _join(scope, self._lowering.text(name) if name is not None else ""), "")
        elif kind in ("class_specifier", "struct_specifier", "union_specifier"):
            self._record(node, scope)
        elif kind in ("declaration", "field_declaration"):
            self._variables(node, scope, owner)
        elif kind == "ERROR":
            self._outline.unread.append(Span(node.start_byte, node.end_byte))
            self.walk(node, scope, owner)
        elif kind == "expression_statement" and not owner:
            self._static_binding(node)
        elif node.named_child_count and kind not in ("comment", "preproc_def", "preproc_include", "enum_specifier"):
            self.walk(node, scope, owner)

    # ------------------------------------------------------------------------------------------------ definitions

    def _record(self, node: Node, scope: str) -> None:
        body = node.child_by_field_name("body")
        if body is None:
            return
        name_node = node.child_by_field_name("name")
        named = self._lowering.expression(name_node) if name_node is not None else None
        name = _join(scope, named.id if isinstance(named, Name) else f"struct@{node.start_byte}")
        bases = tuple(
            self._lowering.text(base)
            for clause in node.named_children
            if clause.type == "base_class_clause"
            for base in clause.named_children
            if base.type not in ("access_specifier", "virtual")
        )
        members: list[Variable] = []
        for child in _fields(body):
            members.extend(self._members(child))
        self._outline.records.append(Record(name, bases, tuple(members), Span(node.start_byte, node.end_byte)))
        self.walk(body, name, name)

    def _members(self, node: Node) -> Iterator[Variable]:
        for index, child in enumerate(node.children):
            if node.field_name_for_child(index) != "declarator":
                continue
            if _is_function(child):
                continue
            name = self._lowering.declared(child)
            if name:
                type_text = self._lowering.type_text(node, child)
                lifetime = Lifetime.CLASS if "static" in type_text.split() else Lifetime.INSTANCE
                yield Variable(name, type_text, lifetime, Span(child.start_byte, child.end_byte))

    def _variables(self, node: Node, scope: str, owner: str) -> None:
        kind = node.child_by_field_name("type")
        if kind is not None and kind.type in ("class_specifier", "struct_specifier", "union_specifier"):
            self._record(kind, scope)
        if owner:
            return  # members: the class has them
        flow = self._guarded(lambda: self._lowering.statement(node), node)
        self._lambda_functions("")
        for bind in _binds(flow):
            if isinstance(bind.target, Name) and isinstance(bind.annotation, Lit):
                is_static_member = "::" in bind.target.id
                if not is_static_member:
                    variable = Variable(
                        _join(scope, bind.target.id), str(bind.annotation.value), Lifetime.MODULE, bind.span
                    )
                    self._outline.variables.append(variable)
            if bind.value is not None:
                self._bindings_of(bind.value, "", None)

    def _function(self, node: Node, scope: str, owner: str) -> None:
        declarator = node.child_by_field_name("declarator")
        function = declarator
        while function is not None and function.type != "function_declarator":
            function = function.child_by_field_name("declarator") or next(
                (child for child in function.named_children if child.type.endswith("declarator")), None
            )
        if function is None:
            self._odd_definition(node, scope, owner)
            return
        inner = function.child_by_field_name("declarator")
        written = self._lowering.expression(inner) if inner is not None else None
        name = written.id if isinstance(written, Name) else self._lowering.declared(inner)
        if macro := self._vocabulary.bindings.get(name):
            self._binding_block(node, function, macro)
            return
        body = node.child_by_field_name("body")
        if body is None:  # `= default`, `= delete`
            return
        qualified = _join(scope, name)
        if not owner and "::" in name:
            owner = qualified.rpartition("::")[0]
        type_text = self._lowering.type_text(node, declarator)
        span = _with_template(node)
        if _runs_on_device(self._original[span.start : body.start_byte]):
            return
        self._lowering.called.clear()
        flow = self._guarded(lambda: Seq((self._initializers(node), self._lowering.block([body]))), node)
        made = Function(
            qualified,
            owner,
            self._lowering.parameters(function),
            type_text,
            flow,
            span,
            self._outline.path,
            "static" in type_text.split(),
            frozenset(self._lowering.called),
        )
        self._outline.functions.append(made)
        self._errors(node)
        self._lambda_functions(owner)
        self._local_records(body, qualified)

    def _odd_definition(self, node: Node, scope: str, owner: str) -> None:
        """A definition whose declarator is no function's: a macro took its place. Its body may still be read."""
        body = node.child_by_field_name("body")
        if body is None:
            return
        if any(child.type in _DECLARATIVE for child in body.named_children):
            # `SOME_MACRO namespace engine { ... }`: what looks like a body holds declarations.
            self.walk(body, scope, owner)
            return
        self._lowering.called.clear()
        flow = self._guarded(lambda: self._lowering.block([body]), node)
        name = _join(scope, f"macro@{node.start_byte}")
        span, calls = Span(node.start_byte, node.end_byte), frozenset(self._lowering.called)
        function = Function(name, owner, (), "", flow, span, self._outline.path, calls=calls)
        self._outline.functions.append(function)
        self._errors(node)
        self._lambda_functions(owner)

    def _initializers(self, node: Node) -> Flow:
        """A constructor's member initializers, as binds."""
        binds: list[Flow] = []
        for child in node.named_children:
            if child.type != "field_initializer_list":
                continue
            for one in child.named_children:
                parts = [part for part in one.named_children if part.type != "comment"]
                if one.type != "field_initializer" or len(parts) < 2:
                    continue
                span = Span(one.start_byte, one.end_byte)
                values = tuple(self._lowering.expression(part) for part in parts[1].named_children)
                value: Expr = values[0] if len(values) == 1 else Group("list", values, span)
                binds.append(Bind(Name(self._lowering.text(parts[0]), span), value, span))
        return Seq(tuple(binds))

    def _lambda_functions(self, owner: str) -> None:
        """The lambdas met since the last call, as functions of their own."""
        while self._lambdas:
            name, node = self._lambdas.pop()
            body = node.child_by_field_name("body")
            declarator = node.child_by_field_name("declarator")
            self._lowering.called.clear()
            flow = self._guarded(lambda: self._lowering.statement(body), node)  # noqa: B023 - called at once
            span, calls = Span(node.start_byte, node.end_byte), frozenset(self._lowering.called)
            parameters = self._lowering.parameters(declarator)
            function = Function(name, owner, parameters, "", flow, span, self._outline.path, calls=calls)
            self._outline.functions.append(function)

    def _local_records(self, body: Node, scope: str) -> None:
        """Classes that a function defines in its body."""
        if (
            b"struct" not in self._content[body.start_byte : body.end_byte]
            and b"class" not in self._content[body.start_byte : body.end_byte]
        ):
            return
        pending = list(body.named_children)
        while pending:
            node = pending.pop()
            if node.type in ("class_specifier", "struct_specifier") and node.child_by_field_name("body") is not None:
                self._record(node, scope)
            elif node.type not in ("expression_statement", "return_statement"):
                pending.extend(node.named_children)

    def _guarded(self, make: Callable[[], Flow], node: Node) -> Flow:
        """The flow that `make` gives; nothing, and the node counted as unread, where it is nested too deeply."""
        try:
            return make()
        except RecursionError:
            self._outline.unread.append(Span(node.start_byte, node.end_byte))
            return Seq(())

    def _errors(self, node: Node) -> None:
        """Count what a definition holds that could not be read."""
        if not node.has_error:
            return
        pending = [node]
        while pending:
            inner = pending.pop()
            if inner.type == "ERROR":
                self._outline.unread.append(Span(inner.start_byte, inner.end_byte))
            elif inner.has_error:
                pending.extend(inner.children)

    # ---------------------------------------------------------------------------------------------------- bindings

    def _binding_block(self, node: Node, function: Node, macro: BindingMacro) -> None:
        """`TORCH_LIBRARY(ns, m) { m.def("step", &step); }`, and pybind11's modules."""
        parameters = self._lowering.parameters(function)
        names = [parameter.name or parameter.type for parameter in parameters]
        if len(names) <= macro.handle:
            return
        namespace = names[0] if names[0] and not names[0].isupper() else "?"
        body = node.child_by_field_name("body")
        flow = self._guarded(lambda: self._lowering.block([body] if body is not None else []), node)
        self._lambda_functions("")
        prefixes = _Prefixes(
            _dotted(macro.functions, namespace), _dotted(macro.classes, namespace), names[macro.handle]
        )
        handles = {names[macro.handle]: ""}
        for statement in _statements(flow):
            value = statement.value
            if value is None:
                continue
            owner = self._bindings_of(value, "", (prefixes, handles))
            # `auto cls = py::class_<T>(m, "T"); cls.def(...)`
            if isinstance(statement, Bind) and isinstance(statement.target, Name) and owner:
                handles[statement.target.id] = owner

    def _static_binding(self, node: Node) -> None:
        flow = self._guarded(lambda: self._lowering.statement(node), node)
        self._lambda_functions("")
        for statement in _statements(flow):
            if statement.value is not None:
                self._bindings_of(statement.value, "", None)

    def _bindings_of(self, expr: Expr, owner: str, context: _Context | None) -> str:
        """Record what a chain of `.def(...)` binds; the class that the chain is about, if it is about one."""
        words = self._vocabulary.words
        match expr:
            case Call(callee=Attr(base=base, name=name), args=args):
                owner = self._bindings_of(base, owner, context)
                if name in words.class_binders and args and isinstance(args[0], Lit) and context is not None:
                    return f"{context[0].classes}.{args[0].value}"
                if name in words.binders and args:
                    self._bind(args, owner, context)
                return owner
            case Call(callee=Name(id=name), args=args) if name.rpartition("::")[2] in words.class_binders:
                texts = [str(arg.value) for arg in args if isinstance(arg, Lit) and isinstance(arg.value, str)]
                if len(texts) >= 2:  # `torch::class_<T>("ns", "Name")`
                    return f"torch.classes.{texts[0]}.{texts[1]}"
                if texts and context is not None:  # `py::class_<T>(m, "Name")`
                    return f"{context[0].classes}.{texts[0]}"
                return ""
            case Name(id=name) if context is not None:
                return context[1].get(name, "")
        return owner

    def _bind(self, args: tuple[Expr, ...], owner: str, context: _Context | None) -> None:
        first = args[0]
        if not isinstance(first, Lit) or not isinstance(first.value, str):
            return
        # A schema may stand where the name does: `m.def("step(Tensor x) -> Tensor")`.
        name = first.value.partition("(")[0].strip().rpartition("::")[2].partition(".")[0]
        prefix = owner or (context[0].functions if context is not None else "")
        if not prefix and context is None:
            return
        target = _target(args[1:])
        if target is None or not name:
            return
        call = ".".join(part for part in (prefix, name) if part)
        self._outline.bindings.append(
            Binding(call, target, owner, Span(first.span.start, args[-1].span.end), self._outline.path)
        )


@dataclass(frozen=True)
class _Prefixes:
    """What Python finds a binding block's functions and classes under."""

    functions: str
    classes: str
    handle: str


_Context: TypeAlias = tuple[_Prefixes, dict[str, str]]
"""Where Python finds what a block binds, and the class that each handle in the block is about."""


def _target(arguments: Sequence[Expr]) -> str | None:
    """The function that the arguments of `def` name: `&f`, `TORCH_FN(f)`, a lambda, or `f` alone."""
    for argument in arguments:
        match argument:
            case Func(id=name):
                return name
            case Op(op="&", operands=(Name(id=name),)):
                return name
            case Call(callee=Name(id=called), args=args) if args and _is_wrapper(called):
                if (found := _target(args)) is not None:
                    return found
    names = [argument.id for argument in arguments if isinstance(argument, Name)]
    return next((name for name in reversed(names) if not _is_constant(name)), None)


def _is_wrapper(name: str) -> bool:
    """Whether a call hands its argument on as a function: `TORCH_FN(f)`, `torch::dispatch(key, f)`."""
    last = name.rpartition("::")[2]
    return last.isupper() or last in (
        "dispatch",
        "overload_cast",
        "call_guard",
        "makeFromUnboxedFunction",
        "select_overload",
    )


def _is_constant(name: str) -> bool:
    """Whether a name is that of a dispatch key or another constant: `torch::kCUDA`, `c10::DispatchKey::CUDA`."""
    scope, _, last = name.rpartition("::")
    return last.isupper() or (last[:1] == "k" and last[1:2].isupper()) or scope.endswith("DispatchKey")


def _statements(flow: Flow) -> Iterator[Eval | Bind]:
    if isinstance(flow, (Eval, Bind)):
        yield flow
    for child in children(flow):
        yield from _statements(child)


def _binds(flow: Flow) -> Iterator[Bind]:
    return (statement for statement in _statements(flow) if isinstance(statement, Bind))


def _fields(body: Node) -> Iterator[Node]:
    """Declarations of data members, also those under `#if`."""
    for child in body.named_children:
        if child.type == "field_declaration":
            yield child
        elif child.type.startswith("preproc_"):
            yield from _fields(child)


def _is_function(declarator: Node) -> bool:
    inner: Node | None = declarator
    while inner is not None:
        if inner.type == "function_declarator":
            # `void (*callback)(int)` is a pointer, hence data.
            name = inner.child_by_field_name("declarator")
            return name is None or name.type != "parenthesized_declarator"
        inner = inner.child_by_field_name("declarator")
    return False


def _runs_on_device(head: bytes) -> bool:
    """Whether a function's head says that only the device runs it: kernels allocate nothing that outlives them."""
    return b"__global__" in head or (b"__device__" in head and b"__host__" not in head)


def _with_template(node: Node) -> Span:
    parent = node.parent
    start = parent.start_byte if parent is not None and parent.type == "template_declaration" else node.start_byte
    return Span(start, node.end_byte)


def _join(scope: str, name: str) -> str:
    return f"{scope}::{name}" if scope and name else scope or name


def _dotted(prefix: str, namespace: str) -> str:
    return f"{prefix}.{namespace}" if prefix else namespace
