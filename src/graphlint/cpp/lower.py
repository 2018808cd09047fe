"""From a syntax tree of C++ to `Flow`: one function's body at a time.

Nodes are duck-typed (`tree_sitter.Node`), so nothing here imports tree-sitter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from graphlint.cpp.facts import Parameter
from graphlint.cpp.vocabulary import Vocabulary
from graphlint.flow import (
    NOTHING,
    Alt,
    Attr,
    Bind,
    Call,
    Choice,
    Drop,
    Eval,
    Exit,
    Expr,
    Flow,
    Func,
    Group,
    Handler,
    Item,
    Lit,
    Name,
    Op,
    Seq,
    Star,
    Try,
    Walrus,
)
from graphlint.source import Span

if TYPE_CHECKING:
    from tree_sitter import Node

_LARGEST_DISPLAY = 64
"""Initializer lists with more items are data tables; lowering keeps their first items only."""

_OPERATORS = {"&&": "and", "||": "or", "and": "and", "or": "or", "!": "not", "not": "not"}

_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast", "bit_cast"})

_SKIPPED = frozenset({"comment", "using_declaration", "alias_declaration", "static_assert_declaration"})
_SKIPPED_ENDINGS = ("_definition", "_specifier", "_def", "_include", "_call", "template_declaration")
"""Nodes inside a function that run nothing: types, macros, functions of their own."""

_EXPRESSIONS = frozenset({"identifier", "initializer_list", "concatenated_string", "template_function", "this", "null"})
_EXPRESSION_ENDINGS = ("_expression", "_literal", "_identifier")

_COMPARES = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}

OnLambda: TypeAlias = "Callable[[str, Node], None]"


class Lowering:
    """Lowers nodes of one file. `on_lambda` is called with the id and the node of every lambda met."""

    def __init__(self, content: bytes, vocabulary: Vocabulary, on_lambda: OnLambda) -> None:
        self._content = content
        self._words = vocabulary.words
        self._on_lambda = on_lambda
        self.called: set[str] = set()
        """Last words of the names called since somebody emptied the set, as in `Function.calls`."""

    # ------------------------------------------------------------------------------------------------------ text

    def text(self, node: Node) -> str:
        """The text of a node, on one line, with single blanks."""
        raw = self._content[node.start_byte : node.end_byte]
        return " ".join(raw.decode("utf-8", "replace").split())

    def type_text(self, node: Node, declarator: Node | None = None) -> str:
        """The declared type of a declaration or parameter: specifiers, type, and the `&` and `*` of the declarator."""
        words: list[str] = []
        for child in node.children:
            if child.type in ("storage_class_specifier", "type_qualifier"):
                words.append(self.text(child))
            elif (kind := node.child_by_field_name("type")) is not None and child == kind:
                words.append(self.text(child) if child.type not in _RECORDS else _record_name(child, self))
        marks = ""
        while declarator is not None:
            if declarator.type in ("reference_declarator", "abstract_reference_declarator"):
                marks += "&&" if any(child.type == "&&" for child in declarator.children) else "&"
            elif declarator.type in ("pointer_declarator", "abstract_pointer_declarator"):
                marks += "*"
            elif declarator.type in ("array_declarator", "abstract_array_declarator"):
                marks += "[]"
            declarator = _inner(declarator)
        return " ".join(words) + marks

    def parameters(self, node: Node | None) -> tuple[Parameter, ...]:
        """The parameters of a function declarator, or of a lambda's."""
        found: list[Parameter] = []
        listed = node.child_by_field_name("parameters") if node is not None else None
        for child in listed.named_children if listed is not None else ():
            if child.type in ("parameter_declaration", "optional_parameter_declaration"):
                declarator = child.child_by_field_name("declarator")
                found.append(Parameter(self.declared(declarator), self.type_text(child, declarator)))
            elif child.type == "variadic_parameter_declaration":
                found.append(Parameter("...", ""))
        return tuple(found)

    def declared(self, declarator: Node | None) -> str:
        """The name that a declarator declares; empty for none."""
        while declarator is not None:
            if declarator.type in (
                "identifier",
                "field_identifier",
                "type_identifier",
                "qualified_identifier",
                "destructor_name",
                "operator_name",
                "template_function",
            ):
                return self.text(declarator)
            declarator = _inner(declarator)
        return ""

    # ------------------------------------------------------------------------------------------------ statements

    def block(self, nodes: Iterable[Node]) -> Flow:
        """Statements, one after the other."""
        items = [item for node in nodes if (item := self.statement(node)) is not NOTHING]
        return items[0] if len(items) == 1 else Seq(tuple(items))

    def statement(self, node: Node | None) -> Flow:
        """One statement; what is not known as one gives the flow of the statements in it."""
        if node is None or node.type in _SKIPPED or node.type.endswith(_SKIPPED_ENDINGS):
            return NOTHING
        if handler := _STATEMENTS.get(node.type):
            lowered: Flow = getattr(self, handler)(node)
            return lowered
        if node.type in _EXPRESSIONS or node.type.endswith(_EXPRESSION_ENDINGS):
            return self._effect(node)
        return self.block(node.named_children)

    def _expression_statement(self, node: Node) -> Flow:
        return self.block(node.named_children)

    def _effect(self, node: Node) -> Flow:
        """An expression that stands as a statement."""
        span = _span(node)
        if node.type == "parenthesized_expression":
            return self.block(node.named_children)
        if node.type == "comma_expression":
            return self.block(node.named_children)
        if node.type == "assignment_expression":
            target, value = self._field(node, "left"), self._field(node, "right")
            operator = self.text(node.child_by_field_name("operator") or node)
            if operator == "=" and _is_empty(value):
                self.called.add("=")
            return Bind(target, value, span, "" if operator == "=" else operator)
        if node.type == "delete_expression":
            return Drop(self.expression(node.named_children[-1]), span) if node.named_children else NOTHING
        if node.type == "conditional_expression":
            test = self._field(node, "condition")
            then, other = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
            return Alt(test, self.statement(then), self.statement(other), span)
        if node.type == "cast_expression":  # `(void)call();`
            return self.statement(node.child_by_field_name("value"))
        if (refusal := self._refusal(node)) is not None:
            return refusal
        return Eval(self.expression(node), span)

    def _refusal(self, node: Node) -> Flow | None:
        """A macro that throws where its condition fails, or a call that does not come back; None if it is neither."""
        outer = node
        while node.type == "binary_expression" and self._operator(node) == "<<":
            left = node.child_by_field_name("left")
            if left is None:
                return None
            node = left
        if node.type != "call_expression":
            return None
        callee = node.child_by_field_name("function")
        name = self.text(callee).rpartition("::")[2] if callee is not None else ""
        span = _span(outer)
        arguments = self._arguments(node)
        if name in self._words.refusals or (name == "LOG" and self._is_fatal(arguments)):
            return Seq((Eval(self.expression(node), span), Exit("raise", None, span)))
        if name != "assert" and not (name.isupper() and self._words.conditions.intersection(name.split("_"))):
            return None
        parts = frozenset(name.split("_"))
        if not arguments or parts & self._words.statuses:
            return Eval(self.expression(node), span)
        test = arguments[0]
        if (compare := _COMPARES.get(name.rpartition("_")[2])) and len(arguments) > 1:
            test = Op(compare, (arguments[0], arguments[1]), span)
        return Alt(test, NOTHING, Exit("raise", None, span), span)

    @staticmethod
    def _is_fatal(arguments: Sequence[Expr]) -> bool:
        return bool(arguments) and isinstance(arguments[0], Name) and arguments[0].id == "FATAL"

    def _declaration(self, node: Node) -> Flow:
        binds: list[Flow] = []
        for index, child in enumerate(node.children):
            if node.field_name_for_child(index) != "declarator":
                continue
            binds.extend(self._declarator(node, child))
        return binds[0] if len(binds) == 1 else Seq(tuple(binds))

    def _declarator(self, node: Node, child: Node) -> Iterator[Flow]:
        span = _span(child)
        if child.type == "init_declarator":
            declarator = child.child_by_field_name("declarator")
            value_node = child.child_by_field_name("value")
        else:
            declarator, value_node = child, None
        type_text = self.type_text(node, declarator)
        annotation = Lit(type_text, span)
        structured = declarator
        while structured is not None and structured.type != "structured_binding_declarator":
            structured = _inner(structured)
        if structured is not None:
            names = tuple(Name(self.text(name), _span(name)) for name in structured.named_children)
            yield Bind(
                Group("tuple", names, _span(structured)), self.expression(value_node), span, annotation=annotation
            )
            return
        if declarator is not None and (function := _function_declarator(declarator)) is not None:
            # `lock_guard lock(mutex);` reads as the declaration of a function: inside a body it never is one.
            name = self.declared(function.child_by_field_name("declarator"))
            listed = function.child_by_field_name("parameters")
            written = listed.named_children if listed is not None else ()
            arguments: tuple[Expr, ...] = tuple(Name(self.text(one), _span(one)) for one in written)
            if name:
                value: Expr = Call(Name(_bare(type_text), span), arguments, (), span)
                yield Bind(Name(name, span), value, span, annotation=annotation)
            return
        name = self.declared(declarator)
        if not name or declarator is None:
            return
        target = Name(name, _span(declarator))
        if value_node is None:
            yield Bind(target, None, span, annotation=annotation)
        elif value_node.type == "argument_list" or (
            value_node.type == "initializer_list" and "auto" not in type_text.split()
        ):
            arguments = tuple(self.expression(one) for one in value_node.named_children[:_LARGEST_DISPLAY])
            yield Bind(
                target,
                Call(Name(_bare(type_text), span), arguments, (), _span(value_node)),
                span,
                annotation=annotation,
            )
        else:
            yield Bind(target, self.expression(value_node), span, annotation=annotation)

    def _condition(self, node: Node) -> tuple[Flow, Expr]:
        """What runs before a condition is asked, and the condition."""
        clause = node.child_by_field_name("condition")
        if clause is None:
            return NOTHING, Op("?", (), _span(node))
        if clause.type != "condition_clause":
            return NOTHING, self.expression(clause)
        first = self.statement(clause.child_by_field_name("initializer"))
        value = clause.child_by_field_name("value")
        if value is not None and value.type == "declaration":  # `while (auto x = next())`
            names = [child for child in value.children if child.type == "init_declarator"]
            asked: Expr = Op("?", (), _span(value))
            if names:
                asked = Name(self.declared(names[0].child_by_field_name("declarator")), _span(names[0]))
            return Seq((first, self._declaration(value))), asked
        return first, self.expression(value)

    def _if(self, node: Node) -> Flow:
        first, test = self._condition(node)
        then = self.statement(node.child_by_field_name("consequence"))
        other = self.statement(node.child_by_field_name("alternative"))
        alt = Alt(test, then, other, _span(node))
        return alt if first is NOTHING else Seq((first, alt))

    def _while(self, node: Node) -> Flow:
        first, test = self._condition(node)
        body = self.statement(node.child_by_field_name("body"))
        star = Star(None, None, test, body, NOTHING, _span(node))
        return star if first is NOTHING else Seq((first, star))

    def _do(self, node: Node) -> Flow:
        body = self.statement(node.child_by_field_name("body"))
        clause = node.child_by_field_name("condition")
        once = _always(node)
        # The body runs first: a loop that is entered in any case.
        return Star(None, None, once, Seq((body, Eval(self.expression(clause), _span(node)))), NOTHING, _span(node))

    def _for(self, node: Node) -> Flow:
        first = self.statement(node.child_by_field_name("initializer"))
        condition = node.child_by_field_name("condition")
        update = node.child_by_field_name("update")
        body = self.statement(node.child_by_field_name("body"))
        steps = [body] if update is None else [body, self._effect(update)]
        test = self.expression(condition) if condition is not None else _always(node)
        return Seq((first, Star(None, None, test, Seq(tuple(steps)), NOTHING, _span(node))))

    def _range_for(self, node: Node) -> Flow:
        declarator = node.child_by_field_name("declarator")
        structured = declarator
        while structured is not None and structured.type != "structured_binding_declarator":
            structured = _inner(structured)
        if structured is not None:
            names = tuple(Name(self.text(name), _span(name)) for name in structured.named_children)
            target: Expr = Group("tuple", names, _span(structured))
        else:
            target = Name(self.declared(declarator), _span(declarator or node))
        first = self.statement(node.child_by_field_name("initializer"))
        over = self._field(node, "right")
        star = Star(target, over, None, self.statement(node.child_by_field_name("body")), NOTHING, _span(node))
        return star if first is NOTHING else Seq((first, star))

    def _switch(self, node: Node) -> Flow:
        first, value = self._condition(node)
        body = node.child_by_field_name("body")
        bodies: list[tuple[Expr, list[Flow]]] = []
        for child in body.named_children if body is not None else ():
            if child.type != "case_statement":
                continue
            label = child.child_by_field_name("value")
            test: Expr = (
                Op("default", (), _span(child))
                if label is None
                else Op("==", (value, self.expression(label)), _span(label))
            )
            inner = [one for one in child.named_children if label is None or one != label]
            bodies.append((test, [item for one in inner if (item := self.statement(one)) is not NOTHING]))
        flow: Flow = NOTHING
        for index in range(len(bodies) - 1, -1, -1):
            # A case that does not leave runs on into the next ones.
            items: list[Flow] = []
            for _, following in bodies[index:]:
                items += following
                if following and isinstance(following[-1], Exit):
                    break
            if items and isinstance(items[-1], Exit) and items[-1].kind == "break":
                items.pop()
            span = bodies[index][0].span
            flow = Alt(bodies[index][0], Seq(tuple(items)), flow, span)
        if any(_has_break(items) for _, items in bodies):
            # A `break` further inside leaves the switch: a loop that runs once.
            flow = Star(None, None, _always(node), Seq((flow, Exit("break", None, _span(node)))), NOTHING, _span(node))
        return flow if first is NOTHING else Seq((first, flow))

    def _return(self, node: Node) -> Flow:
        values = [self.expression(child) for child in node.named_children if child.type != "comment"]
        return Exit("return", values[0] if values else None, _span(node))

    def _throw(self, node: Node) -> Flow:
        values = [self.expression(child) for child in node.named_children if child.type != "comment"]
        return Exit("raise", values[0] if values else None, _span(node))

    def _break(self, node: Node) -> Flow:
        return Exit("break", None, _span(node))

    def _continue(self, node: Node) -> Flow:
        return Exit("continue", None, _span(node))

    def _try(self, node: Node) -> Flow:
        handlers = []
        for child in node.named_children:
            if child.type != "catch_clause":
                continue
            listed = child.child_by_field_name("parameters")
            caught = [
                one
                for one in (listed.named_children if listed is not None else ())
                if one.type == "parameter_declaration"
            ]
            types = Name(self.type_text(caught[0]), _span(caught[0])) if caught else None
            name = self.declared(caught[0].child_by_field_name("declarator")) or None if caught else None
            handlers.append(Handler(types, name, self.statement(child.child_by_field_name("body")), _span(child)))
        return Try(self.statement(node.child_by_field_name("body")), tuple(handlers), NOTHING, NOTHING, _span(node))

    def _preprocessor(self, node: Node) -> Flow:
        """Both branches of an `#if`: either may be compiled."""
        alternative = node.child_by_field_name("alternative")
        apart = [
            part
            for name in ("alternative", "condition", "name")
            if (part := node.child_by_field_name(name)) is not None
        ]
        body = [child for child in node.named_children if not any(child == part for part in apart)]
        return Alt(Op("#if", (), _span(node)), self.block(body), self.statement(alternative), _span(node))

    def _preprocessor_else(self, node: Node) -> Flow:
        return self.block(node.named_children)

    # ----------------------------------------------------------------------------------------------- expressions

    def expression(self, node: Node | None) -> Expr:
        """An expression; what is not known as one is an `Op` over the expressions in it."""
        if node is None:
            return Op("?", (), Span(0, 0))
        span = _span(node)
        kind = node.type
        if kind in ("identifier", "field_identifier", "type_identifier", "namespace_identifier", "primitive_type"):
            return Name(self.text(node), span)
        if kind == "this":
            return Name("this", span)
        if kind in ("qualified_identifier", "template_function", "template_type", "dependent_name", "template_method"):
            return Name(self._plain_name(node), span)
        if handler := _VALUES.get(kind):
            lowered: Expr = getattr(self, handler)(node, span)
            return lowered
        return Op(
            kind,
            tuple(
                self.expression(child) for child in node.named_children[:_LARGEST_DISPLAY] if child.type != "comment"
            ),
            span,
        )

    def _field(self, node: Node, name: str) -> Expr:
        child = node.child_by_field_name(name)
        return self.expression(child) if child is not None else Op("?", (), _span(node))

    def _plain_name(self, node: Node) -> str:
        """A name without template arguments: `std::make_shared<T>` is `std::make_shared`."""
        if node.type == "qualified_identifier":
            scope, name = node.child_by_field_name("scope"), node.child_by_field_name("name")
            parts = [self._plain_name(part) for part in (scope, name) if part is not None]
            return "::".join(parts)
        if node.type in ("template_function", "template_type", "template_method"):
            name = node.child_by_field_name("name")
            return self.text(name) if name is not None else self.text(node)
        if node.type == "dependent_name":
            return self._plain_name(node.named_children[-1]) if node.named_children else self.text(node)
        return self.text(node)

    def _literal(self, node: Node, span: Span) -> Expr:
        text = self.text(node)
        if node.type in ("true", "false"):
            return Lit(node.type == "true", span)
        if node.type in ("nullptr", "null"):
            return Lit(None, span)
        if node.type == "number_literal":
            digits = text.replace("'", "").rstrip("uUlLfFzZ")
            try:
                return Lit(int(digits, 0), span)
            except ValueError:
                return Lit(text, span)
        return Lit(text[1:-1] if text[:1] in "\"'" and len(text) > 1 else text, span)

    def _raw_string(self, node: Node, span: Span) -> Expr:
        return Lit(
            "".join(self.text(child) for child in node.named_children if child.type == "raw_string_content"), span
        )

    def _strings(self, node: Node, span: Span) -> Expr:
        return Lit(
            "".join(
                str(part.value) for child in node.named_children if isinstance(part := self.expression(child), Lit)
            ),
            span,
        )

    def _attribute(self, node: Node, span: Span) -> Expr:
        base = self._field(node, "argument")
        field = node.child_by_field_name("field")
        operator = node.child_by_field_name("operator")
        if operator is not None and operator.type == "->":
            base = Op("*", (base,), base.span)
        return Attr(base, self._plain_name(field) if field is not None else "", span)

    def _item(self, node: Node, span: Span) -> Expr:
        indices = node.child_by_field_name("indices")
        index = [self.expression(child) for child in (indices.named_children if indices is not None else ())]
        return Item(self._field(node, "argument"), index[0] if index else Op("?", (), span), span)

    def _arguments(self, node: Node) -> tuple[Expr, ...]:
        listed = node.child_by_field_name("arguments")
        children = listed.named_children if listed is not None else ()
        return tuple(self.expression(child) for child in children[:_LARGEST_DISPLAY] if child.type != "comment")

    def _call(self, node: Node, span: Span) -> Expr:
        arguments = self._arguments(node)
        callee = node.child_by_field_name("function")
        if (
            callee is not None
            and callee.type == "template_function"
            and len(arguments) == 1
            and self._plain_name(callee) in _CASTS
        ):
            return arguments[0]
        if callee is not None and callee.type == "primitive_type" and len(arguments) == 1:
            return arguments[0]
        called = self.expression(callee)
        match called:
            case Attr(name=name):
                self.called.add(f".{name}")
            case Name(id=name):
                self.called.add(name.rpartition("::")[2])
        return Call(called, arguments, (), span)

    def _cast(self, node: Node, _: Span) -> Expr:
        return self._field(node, "value")

    def _parenthesized(self, node: Node, span: Span) -> Expr:
        inner = [child for child in node.named_children if child.type != "comment"]
        return self.expression(inner[0]) if inner else Op("?", (), span)

    def _pointer(self, node: Node, span: Span) -> Expr:
        return Op(self._operator(node), (self._field(node, "argument"),), span)

    def _unary(self, node: Node, span: Span) -> Expr:
        return Op(self._operator(node), (self._field(node, "argument"),), span)

    def _binary(self, node: Node, span: Span) -> Expr:
        operator = self._operator(node)
        # Left-deep chains (`oss << a << b`) are flat: they can be thousands long.
        operands: list[Expr] = []
        while True:
            operands.append(self._field(node, "right"))
            left = node.child_by_field_name("left")
            if left is None or left.type != "binary_expression" or self._operator(left) != operator:
                operands.append(self.expression(left))
                break
            node = left
        return Op(operator, tuple(reversed(operands)), span)

    def _operator(self, node: Node) -> str:
        operator = node.child_by_field_name("operator")
        text = self.text(operator) if operator is not None else "?"
        return _OPERATORS.get(text, text)

    def _assignment(self, node: Node, span: Span) -> Expr:
        target, value = self._field(node, "left"), self._field(node, "right")
        if isinstance(target, Name):
            return Walrus(target, value, span)
        return Op("=", (target, value), span)

    def _conditional(self, node: Node, span: Span) -> Expr:
        return Choice(
            self._field(node, "condition"), self._field(node, "consequence"), self._field(node, "alternative"), span
        )

    def _new(self, node: Node, span: Span) -> Expr:
        kind = node.child_by_field_name("type")
        name = self._plain_name(kind) if kind is not None else ""
        callee = Name("new", span)
        return Call(callee, (Call(Name(name, span), self._arguments(node), (), span),), (), span)

    def _list(self, node: Node, span: Span) -> Expr:
        return Group(
            "list",
            tuple(
                self.expression(child) for child in node.named_children[:_LARGEST_DISPLAY] if child.type != "comment"
            ),
            span,
        )

    def _compound(self, node: Node, span: Span) -> Expr:
        kind = node.child_by_field_name("type")
        value = node.child_by_field_name("value")
        items = value.named_children[:_LARGEST_DISPLAY] if value is not None else ()
        name = Name(self._plain_name(kind) if kind is not None else "", span)
        return Call(name, tuple(self.expression(item) for item in items if item.type != "comment"), (), span)

    def _designated(self, node: Node, _: Span) -> Expr:  # `.member = value` in an initializer list
        return self._field(node, "value")

    def _lambda(self, node: Node, span: Span) -> Expr:
        name = f"lambda@{span.start}"
        self.called.add(name)
        self._on_lambda(name, node)
        return Func(name, span)

    def _opaque(self, node: Node, span: Span) -> Expr:
        return Op(node.type, (), span)


_RECORDS = ("class_specifier", "struct_specifier", "union_specifier", "enum_specifier")


def _record_name(node: Node, lowering: Lowering) -> str:
    name = node.child_by_field_name("name")
    return lowering.text(name) if name is not None else ""


def _bare(type_text: str) -> str:
    """A type's name without storage, qualifiers and template arguments: what a constructor is called by."""
    words = [
        word
        for word in type_text.split()
        if word not in ("static", "const", "constexpr", "thread_local", "inline", "mutable")
    ]
    return " ".join(words).partition("<")[0].rstrip("&* ")


def _inner(declarator: Node) -> Node | None:
    """The declarator inside a pointer, reference, array or function declarator."""
    inner: Node | None = declarator.child_by_field_name("declarator")
    if inner is not None:
        return inner
    for child in declarator.named_children:
        if child.type.endswith("declarator") or child.type in (
            "identifier",
            "field_identifier",
            "qualified_identifier",
        ):
            return child
    return None


def _function_declarator(declarator: Node | None) -> Node | None:
    while declarator is not None and declarator.type != "function_declarator":
        if declarator.type in ("parenthesized_declarator", "init_declarator"):
            return None
        declarator = _inner(declarator)
    return declarator


def _has_break(items: Sequence[Flow]) -> bool:
    """Whether a case leaves its switch from inside another statement."""
    return any(_breaks(item) for item in items if not isinstance(item, Exit))


def _breaks(flow: Flow) -> bool:
    match flow:
        case Exit(kind=kind):
            return kind == "break"
        case Seq(items=items):
            return any(_breaks(item) for item in items)
        case Alt(then=then, other=other):
            return _breaks(then) or _breaks(other)
        case Try(body=body, handlers=handlers):
            return _breaks(body) or any(_breaks(handler.body) for handler in handlers)
    return False


def _is_empty(value: Expr) -> bool:
    """Whether a value holds nothing: `nullptr`, `{}`, `T()`."""
    match value:
        case Lit(value=literal):
            return literal is None
        case Group(items=items):
            return not items
        case Call(args=args):
            return not args
        case Name(id=name):
            return name.endswith("nullopt")
    return False


def _always(node: Node) -> Lit:
    return Lit(value=True, span=_span(node))


def _span(node: Node) -> Span:
    return Span(node.start_byte, node.end_byte)


_STATEMENTS: Mapping[str, str] = {
    "expression_statement": "_expression_statement",
    "declaration": "_declaration",
    "if_statement": "_if",
    "while_statement": "_while",
    "do_statement": "_do",
    "for_statement": "_for",
    "for_range_loop": "_range_for",
    "switch_statement": "_switch",
    "return_statement": "_return",
    "co_return_statement": "_return",
    "throw_statement": "_throw",
    "break_statement": "_break",
    "continue_statement": "_continue",
    "try_statement": "_try",
    "preproc_if": "_preprocessor",
    "preproc_ifdef": "_preprocessor",
    "preproc_elif": "_preprocessor",
    "preproc_elifdef": "_preprocessor",
    "preproc_else": "_preprocessor_else",
}

_VALUES: Mapping[str, str] = {
    "true": "_literal",
    "false": "_literal",
    "nullptr": "_literal",
    "null": "_literal",
    "number_literal": "_literal",
    "string_literal": "_literal",
    "raw_string_literal": "_raw_string",
    "char_literal": "_literal",
    "concatenated_string": "_strings",
    "field_expression": "_attribute",
    "subscript_expression": "_item",
    "call_expression": "_call",
    "cast_expression": "_cast",
    "parenthesized_expression": "_parenthesized",
    "condition_clause": "_parenthesized",
    "pointer_expression": "_pointer",
    "unary_expression": "_unary",
    "update_expression": "_unary",
    "binary_expression": "_binary",
    "assignment_expression": "_assignment",
    "conditional_expression": "_conditional",
    "new_expression": "_new",
    "initializer_list": "_list",
    "compound_literal_expression": "_compound",
    "initializer_pair": "_designated",
    "lambda_expression": "_lambda",
    "sizeof_expression": "_opaque",
    "alignof_expression": "_opaque",
    "co_await_expression": "_parenthesized",
}
