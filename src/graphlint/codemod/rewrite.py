"""Changes to statements and expressions: asked for one by one, made in one pass over the tree, handed back as edits.

    rewrite = Rewrite(module.tree(finding.function))
    rewrite.insert_before(erase, "release()")
    rewrite.delete(late_release)
    edits = rewrite.edits()

Nodes are those of the tree; changes inside each other's nodes combine. LibCST writes the new text and only the lines that
differ become edits, so everything else keeps its bytes. Text to insert is written at column 0 with four blanks a level; it
gets the indentation and the line endings of its file.

What is left behind stays tidy. A comment stays where it was when its statement goes, unless it spoke to a tool (`# noqa`). A
block that loses its last statement goes with the `if`, `for`, `with` or `try` around it, if nobody can miss that; where
somebody could, it keeps a `pass`. Lines that are joined by `;` or stand behind a colon are spread out where one of their
statements changes.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import libcst as cst

from graphlint.codemod.reading import comments, dotted, is_passive, is_pure, negated, reads_outside, uses
from graphlint.codemod.tree import Block, Tree, Unit, units, with_deep_stack
from graphlint.edits import Edit
from graphlint.source import Span

Statement: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement
"""What LibCST keeps in a block: a line of small statements, or a compound one."""

_PRAGMA = re.compile(r"#\s*(noqa|type:\s*ignore|pragma|pylint|ruff|fmt|isort|mypy|pyright|nosec|graphlint)\b", re.IGNORECASE)
_DOCSTRING = re.compile(r'"""(?:[^"]|"(?!""))*"""')
_BLANK = cst.EmptyLine(indent=False)
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber, cst.BaseString, cst.BaseList, cst.BaseDict)
_ROOMY = (cst.Arg, cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Return, cst.Expr, cst.Element, cst.DictElement, cst.Index)
"""Around these an expression of any kind needs no parentheses."""
@dataclass
class _Wrap:
    first: Unit
    last: Unit
    header: str


@dataclass
class _Changes:
    """What to do, by the node that it is done to."""

    before: dict[Unit, list[Statement]] = field(default_factory=lambda: defaultdict(list))
    after: dict[Unit, list[Statement]] = field(default_factory=lambda: defaultdict(list))
    deleted: set[Unit] = field(default_factory=set)
    moved: set[Unit] = field(default_factory=set)
    to: dict[Unit, list[Unit]] = field(default_factory=lambda: defaultdict(list))
    wraps: list[_Wrap] = field(default_factory=list)
    nodes: dict[cst.CSTNode, Callable[[cst.CSTNode], cst.CSTNode]] = field(default_factory=dict)

    def touch(self, unit: Unit) -> bool:
        """Whether the statement's line has to be its own."""
        return (
            unit in self.deleted
            or unit in self.moved
            or bool(self.before.get(unit) or self.after.get(unit) or self.to.get(unit))
            or any(unit in (wrap.first, wrap.last) for wrap in self.wraps)
        )


class Rewrite:
    """Changes to one tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._changes = _Changes()

    # ---------------------------------------------------------------------------------------------------- statements

    def insert_before(self, unit: Unit, text: str) -> None:
        """Insert statements before one, in front of its comments; they stand in the order in which they are asked for."""
        self._changes.before[unit] += self._statements(text, unit)

    def insert_after(self, unit: Unit, text: str) -> None:
        """Insert statements behind one."""
        self._changes.after[unit] += self._statements(text, unit)

    def delete(self, unit: Unit) -> None:
        """Delete a statement, and what around it has no more to do."""
        self._changes.deleted.add(unit)

    def move_before(self, moved: Sequence[Unit], target: Unit) -> None:
        """Move statements, comments included, to directly before another one, of their block or of one inside it.

        What else is asked for inside of a moved statement is lost if it leaves its block.
        """
        self._changes.moved.update(moved)
        self._changes.to[target] += moved

    def wrap(self, first: Unit, last: Unit, header: str) -> None:
        """Put the statements from one to another of the same block under a `with ...:` or `if ...:`.

        Raises:
            ValueError: they are not in one block.
        """
        if self.tree.path(first)[-1][0] is not self.tree.path(last)[-1][0]:
            raise ValueError("only statements of one block can be put under one header")
        self._changes.wraps.append(_Wrap(first, last, header))

    def add_method(self, definition: cst.ClassDef, text: str, after: Unit | None = None) -> None:
        """Add a method to a class, at its end or behind one of its statements, with a blank line around it."""
        assert isinstance(definition.body, Block)
        body = list(units(definition.body))
        anchor = after or body[-1]
        method, *rest = self._statements(text, anchor)
        lines = [_BLANK, *_split(method.leading_lines)[1]]
        self._changes.after[anchor] += [method.with_changes(leading_lines=lines), *rest]
        if len(body) == 1 and isinstance(anchor, cst.Pass):
            self._changes.deleted.add(anchor)

    # --------------------------------------------------------------------------------------------------- expressions

    def replace(self, expression: cst.BaseExpression, text: str) -> None:
        """Put another expression in the place of one; parentheses are set where they are needed."""
        new = cst.parse_expression(text, self.tree.root.config_for_parsing)
        around = self.tree.parents[expression]
        if expression.lpar:
            new = new.with_changes(lpar=expression.lpar, rpar=expression.rpar)
        elif not isinstance(new, _ATOMS) and not new.lpar and not isinstance(around, _ROOMY):
            new = new.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        self._changes.nodes[expression] = lambda _: new

    def add_argument(self, call: cst.Call, value: str, keyword: str | None = None) -> None:
        """Add an argument to a call: a positional one behind the positional ones, a keyword behind all but `**mapping`."""
        config = self.tree.root.config_for_parsing
        argument = cst.Arg(value=cst.parse_expression(value, config))
        if keyword is not None:
            tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
            argument = argument.with_changes(keyword=cst.Name(keyword), equal=tight)

        def add(node: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(node, cst.Call)
            return _with_argument(node, argument)

        self._node(call, add)

    def rename(self, name: cst.Name, new: str) -> None:
        """Give a name in a definition, an attribute or a call another spelling."""
        self._node(name, lambda node: node.with_changes(value=new))

    def rename_string(self, string: cst.SimpleString, new: str) -> None:
        """Give a string another content; its quotes stay."""
        quote = string.quote
        self._node(string, lambda node: node.with_changes(value=f"{string.prefix}{quote}{new}{quote}"))

    def _node(self, node: cst.CSTNode, change: Callable[[cst.CSTNode], cst.CSTNode]) -> None:
        first = self._changes.nodes.get(node)
        self._changes.nodes[node] = change if first is None else lambda updated: change(first(updated))

    # --------------------------------------------------------------------------------------------------------- edits

    def edits(self) -> tuple[Edit, ...]:
        """The changed lines of the file."""
        root = self.tree.root

        def write() -> str:
            changed = root.visit(_Pass(self.tree, self._changes))
            assert isinstance(changed, cst.Module)
            return changed.code

        return tuple(_edits(self.tree, self.tree.text.encode(), with_deep_stack(write).encode()))

    def _statements(self, text: str, beside: Unit) -> list[Statement]:
        """Statements from text, with the indentation and the line endings that they need beside another statement."""
        root = self.tree.root
        text = re.sub(r"^(?: {4})+", lambda match: root.default_indent * (len(match[0]) // 4), text, flags=re.MULTILINE)
        text = _DOCSTRING.sub(lambda match: re.sub(r"\n(?=.)", f"\n{self._indentation(beside)}", match[0]), text)
        parsed = cst.parse_module(text.replace("\n", root.default_newline), root.config_for_parsing)
        first, *rest = parsed.body
        first = first.with_changes(leading_lines=[*parsed.header, *first.leading_lines])
        return [_flush(statement) for statement in (first, *rest)]

    def _indentation(self, unit: Unit) -> str:
        """What stands before a statement on its line, or would, had it a line of its own."""
        outer = [node for node in self.tree.ancestors(unit) if isinstance(node, Block)]
        row = self.tree.source.row(self.tree.spans[unit].start)
        line = self.tree.source.line(row)
        blank = line[: len(line) - len(line.lstrip())]
        return blank + self.tree.root.default_indent if isinstance(outer[0], cst.SimpleStatementSuite) else blank


# ------------------------------------------------------------------------------------------------------------ the pass


class _Pass(cst.CSTTransformer):
    """Makes all changes, from the innermost nodes outwards."""

    def __init__(self, tree: Tree, changes: _Changes) -> None:
        super().__init__()
        self._tree = tree
        self._changes = changes
        self._emptier: set[cst.CSTNode] = set()
        """Blocks that have lost a statement."""

    def on_leave(  # type: ignore[override] # a node stays of its kind
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        """Change the node if somebody asked for it, or the statements in it."""
        if (change := self._changes.nodes.get(original_node)) is not None:
            updated_node = change(updated_node)
        if isinstance(original_node, cst.Module | cst.IndentedBlock):
            assert isinstance(updated_node, cst.Module | cst.IndentedBlock)
            return self._block(original_node, updated_node)
        if isinstance(original_node, cst.SimpleStatementSuite) and any(map(self._changes.touch, original_node.body)):
            assert isinstance(updated_node, cst.SimpleStatementSuite)
            line = cst.SimpleStatementLine(updated_node.body, (), updated_node.trailing_whitespace)
            return self._assembled(original_node, cst.IndentedBlock([]), _spread(original_node.body, line))
        return updated_node

    def _block(
        self, original: cst.Module | cst.IndentedBlock, updated: cst.Module | cst.IndentedBlock
    ) -> cst.Module | cst.IndentedBlock:
        items: list[tuple[Unit, Statement]] = []
        changed = False
        for old, new in zip(original.body, updated.body, strict=True):
            if isinstance(old, cst.SimpleStatementLine):
                assert isinstance(new, cst.SimpleStatementLine)
                touched = any(map(self._changes.touch, old.body))
                changed |= touched
                items += _spread(old.body, new) if touched else [(old.body[0], new)]
            else:
                assert isinstance(old, cst.BaseCompoundStatement)
                assert isinstance(new, cst.BaseCompoundStatement)
                changed |= self._changes.touch(old) or any(block in self._emptier for block in _blocks(old))
                items.append((old, new))
        return self._assembled(original, updated, items) if changed else updated

    def _assembled(
        self,
        original: Block,
        updated: cst.Module | cst.IndentedBlock,
        items: Sequence[tuple[Unit, Statement]],
    ) -> cst.Module | cst.IndentedBlock:
        """The block of these statements, with all that is inserted, without what goes."""
        changes = self._changes
        at = dict(items)
        out: list[Statement] = []
        waiting: list[cst.EmptyLine] = []
        opened: dict[int, int] = {}
        order = [unit for unit, _ in items]
        joined = {unit for before, unit in zip(order, order[1:]) if before in changes.moved and unit in changes.moved}
        """Statements that follow another one wherever both go."""

        def put(statements: Iterable[Statement]) -> None:
            for statement in statements:
                out.append(_led_by(statement, waiting))
                waiting.clear()

        for unit, statement in items:
            moved = [at.get(other) or self._line(other) for other in changes.to.get(unit, ())]
            moved = [line if other in joined else _bare(line) for other, line in zip(changes.to.get(unit, ()), moved)]
            arriving = [*changes.before.get(unit, ()), *moved]
            if arriving:
                blanks, lines = _split(statement.leading_lines)
                waiting += blanks
                put(arriving)
                statement = statement.with_changes(leading_lines=lines)
            opened.update((index, len(out)) for index, wrap in enumerate(changes.wraps) if wrap.first is unit)
            if unit in changes.deleted:
                waiting += _left_behind(statement)
                self._emptier.add(original)
            elif unit in joined:
                pass
            elif unit in changes.moved:
                waiting += _split(statement.leading_lines)[0]
            else:
                kept, lines = self._settled(unit, statement, original)
                put(kept)
                waiting += lines
            for index, wrap in enumerate(changes.wraps):
                if wrap.last is unit:
                    out[opened[index] :] = [_wrapped(wrap.header, out[opened[index] :])]
            put(changes.after.get(unit, ()))

        if original in self._emptier and isinstance(self._tree.parents.get(original), cst.For | cst.While):
            out, lines = _without_guards(out)
            waiting = [*lines, *waiting]
        tail = [line for line in waiting if line.comment is not None]
        if out and items and out[0] is not items[0][1] and not isinstance(updated, cst.Module):
            out[0] = out[0].with_changes(leading_lines=_split(out[0].leading_lines)[1])
        return updated.with_changes(body=out, footer=[*tail, *updated.footer])

    def _line(self, unit: Unit) -> Statement:
        """A statement as it was, on a line of its own."""
        if isinstance(unit, cst.BaseCompoundStatement):
            return unit
        line = self._tree.parents[unit]
        if isinstance(line, cst.SimpleStatementSuite):
            line = cst.SimpleStatementLine(line.body, (), line.trailing_whitespace)
        assert isinstance(line, cst.SimpleStatementLine)
        return next(statement for small, statement in _spread(line.body, line) if small is unit)

    # What a compound statement does when a block of it is empty: it goes, it gives up a part, or it holds a `pass`.

    def _settled(
        self, unit: Unit, statement: Statement, block: Block
    ) -> tuple[list[Statement], list[cst.EmptyLine]]:
        """The statements that a statement turns into, and the comment lines that outlive it."""
        kept: tuple[list[Statement], list[cst.EmptyLine]] = ([statement], [])
        match statement:
            case cst.If():
                assert isinstance(unit, cst.If)
                kept = self._settled_if(unit, statement)
            case cst.For() if _is_empty(statement.body):
                if is_pure(statement.iter) and not self._outlives(unit):
                    kept = _hoisted(statement, statement.orelse)
                else:
                    kept = [statement.with_changes(body=_passing(statement.body))], []
            case cst.With() if _is_empty(statement.body):
                if all(is_passive(item.item) for item in statement.items):
                    kept = _hoisted(statement)
                else:
                    kept = [statement.with_changes(body=_passing(statement.body))], []
            case cst.Try() | cst.TryStar():
                kept = _settled_try(statement)
            case cst.FunctionDef() | cst.ClassDef() | cst.While() if _is_empty(statement.body):
                kept = [statement.with_changes(body=_passing(statement.body))], []
            case cst.Match():
                cases = [
                    case.with_changes(body=_passing(case.body)) if _is_empty(case.body) else case
                    for case in statement.cases
                ]
                kept = [statement.with_changes(cases=cases)], []
        if kept[0] != [statement]:
            self._emptier.add(block)
        return kept

    def _settled_if(self, original: cst.If, node: cst.If) -> tuple[list[Statement], list[cst.EmptyLine]]:
        left: list[cst.EmptyLine] = []
        if isinstance(node.orelse, cst.If):
            assert isinstance(original.orelse, cst.If)
            others, left = self._settled_if(original.orelse, node.orelse)
            other = others[0] if others and isinstance(others[0], cst.If) else None
            node = node.with_changes(orelse=other) if other is not node.orelse else node
        elif isinstance(node.orelse, cst.Else) and _is_empty(node.orelse.body):
            left = _comment_lines(node.orelse)
            node = node.with_changes(orelse=None)
        if _is_empty(node.body):
            lines = _comment_lines(node.body)
            if node.orelse is None and is_pure(node.test):
                return [], [*node.leading_lines, *lines, *left]
            if isinstance(node.orelse, cst.Else) and not self._is_elif(original):
                lines += _comment_lines(*node.orelse.leading_lines)
                first, *rest = _lines(node.orelse.body)
                body = cst.IndentedBlock([_led_by(first, lines), *rest], footer=_footer(node.orelse.body))
                return [node.with_changes(test=negated(node.test), body=body, orelse=None)], left
            return [node.with_changes(body=_passing(node.body))], left
        if original.body in self._emptier and not self._is_elif(original) and (line := _needless_gate(node)) is not None:
            return [line], left
        return [node], left

    def _outlives(self, loop: Unit) -> bool:
        """Whether somebody may read the loop's variables behind it."""
        assert isinstance(loop, cst.For)
        function = self._tree.function(loop) or self._tree.root
        return bool(uses(loop.target).roots & reads_outside(function, loop))

    def _is_elif(self, original: cst.If) -> bool:
        return isinstance(self._tree.parents.get(original), cst.If)


def _settled_try(node: cst.Try | cst.TryStar) -> tuple[list[Statement], list[cst.EmptyLine]]:
    if _is_empty(node.body):
        return _hoisted(node, node.orelse, node.finalbody)
    left: list[cst.EmptyLine] = []
    handlers = [
        handler.with_changes(body=_passing(handler.body)) if _is_empty(handler.body) else handler
        for handler in node.handlers
    ]
    changes: dict[str, object] = {}
    if any(one is not other for one, other in zip(handlers, node.handlers, strict=True)):
        changes["handlers"] = handlers
    if node.orelse is not None and _is_empty(node.orelse.body):
        left += _comment_lines(node.orelse)
        changes["orelse"] = None
    if node.finalbody is not None and _is_empty(node.finalbody.body):
        left += _comment_lines(node.finalbody)
        if not node.handlers:
            return _hoisted(node, node)
        changes["finalbody"] = None
    return ([node.with_changes(**changes)] if changes else [node]), left


def _hoisted(
    node: Statement, *parts: cst.Try | cst.TryStar | cst.Else | cst.Finally | None
) -> tuple[list[Statement], list[cst.EmptyLine]]:
    """The statements of those parts of a compound statement that outlive it, or its comments alone."""
    kept = [line for part in parts if part is not None for line in _lines(part.body)]
    blanks = _split(node.leading_lines)[0]
    lines = [*blanks, *_comment_lines(node, without=kept)]
    if not kept:
        return [], lines
    return [_led_by(_bare(kept[0]), lines), *kept[1:]], []


def _without_guards(out: list[Statement]) -> tuple[list[Statement], list[cst.EmptyLine]]:
    """A loop's body without `if ...: continue` where nothing follows that it would skip, or one statement alone."""
    lines: list[cst.EmptyLine] = []
    while out and (guard := _guard(out[-1])) is not None and is_pure(guard.test):
        lines = [*_left_behind(guard), *lines]
        out = out[:-1]
    if len(out) == 2 and (guard := _guard(out[0])) is not None and isinstance(out[1], cst.SimpleStatementLine):
        inside = _comment_lines(guard.body)
        body = cst.IndentedBlock([out[1].with_changes(leading_lines=[*inside, *_split(out[1].leading_lines)[1]])])
        out = [guard.with_changes(test=negated(guard.test), body=body)]
    return out, lines


def _guard(statement: Statement) -> cst.If | None:
    """`if ...: continue`, without an `else`."""
    if isinstance(statement, cst.If) and statement.orelse is None:
        assert isinstance(statement.body, Block)
        inside = list(units(statement.body))
        if len(inside) == 1 and isinstance(inside[0], cst.Continue):
            return statement
    return None


def _needless_gate(node: cst.If) -> cst.SimpleStatementLine | None:
    """`x = None` where `if x is not None:` is all that guards it."""
    test = node.test
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1 or node.orelse is not None:
        return None
    only = test.comparisons[0]
    if not isinstance(only.operator, cst.IsNot) or dotted(only.comparator) != "None" or len(node.body.body) != 1:
        return None
    line = node.body.body[0]
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    small = line.body[0]
    if not isinstance(small, cst.Assign) or len(small.targets) != 1 or dotted(small.value) != "None":
        return None
    place = dotted(small.targets[0].target)
    if place is None or place != dotted(test.left):
        return None
    outer = _comment_lines(node.body, without=[line])
    return line.with_changes(leading_lines=[*node.leading_lines, *outer, *_split(line.leading_lines)[1]])


def _wrapped(header: str, statements: Sequence[Statement]) -> Statement:
    parsed = cst.parse_statement(f"{header}\n    pass\n")
    first = statements[0]
    lines = first.leading_lines
    body = cst.IndentedBlock([first.with_changes(leading_lines=()), *map(_flush, statements[1:])])
    wrapped = parsed.with_changes(body=body, leading_lines=lines)
    assert isinstance(wrapped, Statement)
    return wrapped


# ----------------------------------------------------------------------------------------------------- lines and blocks


def _spread(old: Sequence[cst.BaseSmallStatement], line: cst.SimpleStatementLine) -> list[tuple[Unit, Statement]]:
    """Each statement of a line on a line of its own; `old` are the statements as they were before any change."""
    last = len(old) - 1
    return [
        (
            unit,
            cst.SimpleStatementLine(
                [small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)],
                line.leading_lines if index == 0 else (),
                line.trailing_whitespace if index == last else cst.TrailingWhitespace(),
            ),
        )
        for index, (unit, small) in enumerate(zip(old, line.body, strict=True))
    ]


def _is_empty(block: cst.BaseSuite | cst.CSTNode) -> bool:
    """Only a deletion leaves a block without statements."""
    return isinstance(block, cst.IndentedBlock) and not block.body


def _passing(block: cst.BaseSuite) -> cst.BaseSuite:
    """The emptied block with a `pass` under its comments."""
    assert isinstance(block, cst.IndentedBlock)
    return block.with_changes(body=[cst.SimpleStatementLine([cst.Pass()], block.footer)], footer=())


def _lines(block: cst.BaseSuite) -> list[Statement]:
    """The statements of a block, each on a line of its own."""
    if isinstance(block, cst.SimpleStatementSuite):
        line = cst.SimpleStatementLine(block.body, (), block.trailing_whitespace)
        return [statement for _, statement in _spread(block.body, line)]
    assert isinstance(block, cst.IndentedBlock)
    return list(block.body)  # type: ignore[arg-type] # LibCST declares a base class of the two kinds of statement


def _footer(block: cst.BaseSuite) -> Sequence[cst.EmptyLine]:
    return block.footer if isinstance(block, cst.IndentedBlock) else ()


def _blocks(statement: cst.BaseCompoundStatement) -> Iterator[cst.CSTNode]:
    """The blocks of a compound statement, those of its `elif`s included."""
    parts: list[cst.CSTNode | None] = [statement]
    while parts:
        part = parts.pop()
        if part is None:
            continue
        if (body := getattr(part, "body", None)) is not None:
            yield body
        parts += [getattr(part, "orelse", None), getattr(part, "finalbody", None)]
        parts += [*getattr(part, "handlers", ()), *getattr(part, "cases", ())]


def _split(lines: Sequence[cst.EmptyLine]) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """Blank lines in front, and the rest."""
    count = next((index for index, line in enumerate(lines) if line.comment is not None), len(lines))
    return list(lines[:count]), list(lines[count:])


def _flush(statement: Statement) -> Statement:
    """The statement with nothing in the blank lines above it, wherever it will stand."""
    lines = [_BLANK if line.comment is None else line for line in statement.leading_lines]
    return statement.with_changes(leading_lines=lines)


def _led_by(statement: Statement, lines: Sequence[cst.EmptyLine]) -> Statement:
    """The statement with more lines above its own; one run of blank lines is enough between two."""
    own = list(statement.leading_lines)
    if not any(line.comment is not None for line in lines):
        lines = [] if own and own[0].comment is None else list(lines)
    return statement.with_changes(leading_lines=[*lines, *own]) if lines else statement


def _bare(statement: Statement) -> Statement:
    """The statement without blank lines above its comments."""
    return statement.with_changes(leading_lines=_split(statement.leading_lines)[1])


def _comment_lines(*nodes: cst.CSTNode, without: Sequence[cst.CSTNode] = ()) -> list[cst.EmptyLine]:
    """The comments in some nodes as lines, without those of other nodes and without what a line's end tells to a tool."""
    surviving = {comment for comment, _ in comments(*without)}
    return [
        cst.EmptyLine(comment=comment)
        for comment, ends_line in comments(*nodes)
        if comment not in surviving and not (ends_line and _PRAGMA.match(comment.value))
    ]


def _left_behind(statement: Statement) -> list[cst.EmptyLine]:
    """The lines that outlive a statement: what stands above it, and its comments."""
    return [*statement.leading_lines, *_comment_lines(statement, without=statement.leading_lines)]


# --------------------------------------------------------------------------------------------------------- expressions


def _with_argument(call: cst.Call, new: cst.Arg) -> cst.Call:
    """The call with one more argument, set as the others are: all on one line, or each on its own."""
    arguments = [_set_apart(argument) for argument in call.args]
    last = len(arguments) if new.keyword is not None else sum(1 for old in arguments if old.keyword is None)
    index = next((at for at, old in enumerate(arguments) if old.star == "**"), last)
    index = min(index, last)
    opening = call.whitespace_before_args
    broken = isinstance(opening, cst.ParenthesizedWhitespace) and all(
        isinstance(old.comma, cst.Comma) and isinstance(old.comma.whitespace_after, cst.ParenthesizedWhitespace)
        for old in arguments[:-1]
    )
    gap: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    if broken and isinstance(opening, cst.ParenthesizedWhitespace):
        gap = cst.ParenthesizedWhitespace(indent=opening.indent, last_line=opening.last_line)
    if index < len(arguments) or not arguments:
        comma = cst.Comma(whitespace_after=gap) if arguments else cst.MaybeSentinel.DEFAULT
        return call.with_changes(args=[*arguments[:index], new.with_changes(comma=comma), *arguments[index:]])

    old = arguments[-1]
    comma, closing = old.comma, old.whitespace_after_arg
    if isinstance(comma, cst.Comma):
        closing = comma.whitespace_after
    if broken and isinstance(closing, cst.ParenthesizedWhitespace):
        gap = closing.with_changes(indent=gap.indent, last_line=gap.last_line)  # type: ignore[attr-defined]
        closing = cst.ParenthesizedWhitespace(indent=closing.indent, last_line=closing.last_line)
    if isinstance(comma, cst.Comma):
        new = new.with_changes(comma=comma.with_changes(whitespace_after=closing))
    else:
        new = new.with_changes(whitespace_after_arg=closing)
    before = old.with_changes(comma=cst.Comma(whitespace_after=gap), whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*arguments[:-1], before, new])


def _set_apart(argument: cst.Arg) -> cst.Arg:
    """A generator that is a call's only argument needs parentheses when it is not any more."""
    if isinstance(argument.value, cst.GeneratorExp) and not argument.value.lpar:
        return argument.with_changes(
            value=argument.value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        )
    return argument


# --------------------------------------------------------------------------------------------------------------- edits


def _edits(tree: Tree, before: bytes, after: bytes) -> Iterator[Edit]:
    """The lines that differ; of a changed line only the part that does."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    encoding = "utf-8" if tree.source.encoding == "utf-8-sig" else tree.source.encoding
    head = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(len(old), len(new)))
    rest = min(len(old), len(new)) - head
    tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    matcher = difflib.SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            continue
        start, end = starts[head + i], starts[head + j]
        text = b"".join(new[head + k : head + m])
        if tag == "replace":
            left, right = _common(before[start:end], text)
            start, end, text = start + left, end - right, text[left : len(text) - right]
        span = Span(tree.offsets.in_file(start), tree.offsets.in_file(end))
        yield Edit(tree.source.path, span, text.decode().encode(encoding))


def _common(one: bytes, other: bytes) -> tuple[int, int]:
    """Lengths of the common beginning and the common end, in whole characters."""
    limit = min(len(one), len(other))
    left = next((at for at in range(limit) if one[at] != other[at]), limit)
    while left and left < len(one) and one[left] & 0xC0 == 0x80:
        left -= 1
    right = next((at for at in range(limit - left) if one[-1 - at] != other[-1 - at]), limit - left)
    while right and one[len(one) - right] & 0xC0 == 0x80:
        right -= 1
    return left, right
