"""Changes to statements and expressions: asked for one by one, made in one pass over the tree, handed back as edits.

    rewrite = Rewrite(module.tree(finding.function))
    rewrite.insert_before(erase, "release()")
    rewrite.delete(late_release)
    edits = rewrite.edits()

Nodes are those of the tree; changes inside each other's nodes combine. LibCST writes the new text and only the lines
that differ become edits, so everything else keeps its bytes. Text to insert is written at column 0 with four blanks a
level; it gets the indentation and the line endings of its file.

What is left behind stays tidy. A comment stays where it was when its statement goes, unless it spoke to a tool
(`# noqa`). A block that loses its last statement goes with the `if`, `for`, `with` or `try` around it, if nobody can
miss that; where somebody could, it keeps a `pass`. Lines that are joined by `;` or stand behind a colon are spread out
where one of their statements changes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import libcst as cst

from graphlint.codemod.arguments import with_argument, with_parameter
from graphlint.codemod.difference import edits_between
from graphlint.codemod.layout import Fitter, fitted, line_width
from graphlint.codemod.lines import BLANK, Statement, bare, flush, led_by, left_behind, split, spread
from graphlint.codemod.settling import blocks, settled, without_guards
from graphlint.codemod.tree import Block, Loop, Modules, Tree, Unit, units, with_deep_stack
from graphlint.edits import Edit

_DOCSTRING = re.compile(r'"""(?:[^"]|"(?!""))*"""')
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber, cst.BaseString, cst.BaseList, cst.BaseDict)
_ROOMY = (
    *(cst.Arg, cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Return, cst.Expr),
    *(cst.Element, cst.DictElement, cst.Index),
)
"""Around these an expression of any kind needs no parentheses."""


@dataclass
class _Wrap:
    units: Sequence[Unit]
    header: str


@dataclass
class _Changes:
    """What to do, by the node that it is done to."""

    before: dict[Unit, list[Statement]] = field(default_factory=lambda: defaultdict(list))
    after: dict[Unit, list[Statement]] = field(default_factory=lambda: defaultdict(list))
    set_off: set[Unit] = field(default_factory=set)
    """Statements that two blank lines set off from what is inserted in front of them."""
    deleted: set[Unit] = field(default_factory=set)
    moved: set[Unit] = field(default_factory=set)
    to: dict[Unit, list[Unit]] = field(default_factory=lambda: defaultdict(list))
    wraps: list[_Wrap] = field(default_factory=list)
    nodes: dict[cst.CSTNode, Callable[[cst.CSTNode], cst.CSTNode]] = field(default_factory=dict)

    def places(self) -> Iterator[cst.CSTNode]:
        """What something is asked for, beside or inside of."""
        yield from (*self.before, *self.after, *self.deleted, *self.moved, *self.to, *self.nodes)
        for wrap in self.wraps:
            yield from wrap.units

    def touch(self, unit: Unit) -> bool:
        """Whether the statement's line has to be its own."""
        return (
            unit in self.deleted
            or unit in self.moved
            or bool(self.before.get(unit) or self.after.get(unit) or self.to.get(unit))
            or any(unit in wrap.units for wrap in self.wraps)
        )


class Rewrite:
    """Changes to one tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._changes = _Changes()

    # ---------------------------------------------------------------------------------------------------- statements

    def insert_before(self, unit: Unit, text: str) -> None:
        """Insert statements before one, in front of its comments; the first that is asked for stands first."""
        self._changes.before[unit] += self._statements(text, unit)

    def define_before(self, unit: Unit, text: str) -> None:
        """Insert a definition in front of one of the top level, with two blank lines around it."""
        self._changes.before[unit] += self._statements(text, unit)
        self._changes.set_off.add(unit)

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

        What is inserted beside one of them stands under it too.

        Raises:
            ValueError: they are not in one block.
        """
        block = self.tree.path(first)[-1][0]
        if self.tree.path(last)[-1][0] is not block:
            raise ValueError("only statements of one block can be put under one header")
        statements = list(units(block))
        self._changes.wraps.append(_Wrap(statements[statements.index(first) : statements.index(last) + 1], header))

    def add_handler(self, handler: cst.ExceptHandler, text: str) -> None:
        """Insert an `except` clause in front of another one of its `try`."""
        root = self.tree.root
        written = f"try:\n    pass\n{text}".replace("    ", root.default_indent).replace("\n", root.default_newline)
        parsed = cst.parse_statement(written, root.config_for_parsing)
        outer = self.tree.parents[handler]
        assert isinstance(parsed, cst.Try)
        assert isinstance(outer, cst.Try)
        index = next(at for at, each in enumerate(outer.handlers) if each is handler)

        def add(node: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(node, cst.Try)
            return node.with_changes(handlers=[*node.handlers[:index], *parsed.handlers, *node.handlers[index:]])

        self._node(outer, add)

    def add_function(self, text: str, after: Unit) -> None:
        """Add a function to the top level of a module, behind one of its statements, with blank lines around it."""
        function, *rest = self._statements(text, after)
        lines = [BLANK, BLANK, *split(function.leading_lines)[1]]
        self._changes.after[after] += [function.with_changes(leading_lines=lines), *rest]

    def add_method(self, definition: cst.ClassDef, text: str, after: Unit | None = None) -> None:
        """Add a method to a class, at its end or behind one of its statements, with a blank line around it."""
        assert isinstance(definition.body, Block)
        body = list(units(definition.body))
        anchor = after or body[-1]
        method, *rest = self._statements(text, anchor)
        lines = [BLANK, *split(method.leading_lines)[1]]
        self._changes.after[anchor] += [method.with_changes(leading_lines=lines), *rest]
        if len(body) == 1 and isinstance(anchor, cst.Pass):
            self._changes.deleted.add(anchor)

    def place_after(self, unit: Unit, statements: Sequence[Statement]) -> None:
        """Insert statements that are syntax already behind one: copies of what stands elsewhere."""
        self._changes.after[unit] += self._placed(unit, statements)

    def substitute(self, unit: Unit, new: Unit) -> None:
        """Put another statement in the place of one; what else is asked for inside of it is lost."""
        if isinstance(new, cst.BaseCompoundStatement):
            (new,) = self._placed(unit, [new])  # type: ignore[assignment] # a compound statement stays one
        self._changes.nodes[unit] = lambda _: new

    def _placed(self, unit: Unit, statements: Sequence[Statement]) -> list[Statement]:
        root = self.tree.root
        fitter = Fitter(len(self._indentation(unit)), line_width(self.tree.whole), root.default_indent)
        return [flush(statement.visit(fitter)) for statement in statements]  # type: ignore[arg-type]

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
        """Add an argument to a call, positional or by keyword; it stands in front of a `**mapping`."""
        config = self.tree.root.config_for_parsing
        argument = cst.Arg(value=cst.parse_expression(value, config))
        if keyword is not None:
            tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
            argument = argument.with_changes(keyword=cst.Name(keyword), equal=tight)

        def add(node: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(node, cst.Call)
            return with_argument(node, argument)

        self._node(call, add)

    def add_index(self, item: cst.Subscript, value: str) -> None:
        """Add another part to the key of an item: `x[a, b]` gets a `c`."""
        index = cst.Index(cst.parse_expression(value, self.tree.root.config_for_parsing))

        def add(node: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(node, cst.Subscript)
            *others, last = node.slice
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            return node.with_changes(slice=[*others, last.with_changes(comma=comma), cst.SubscriptElement(index)])

        self._node(item, add)

    def add_parameter(self, function: cst.FunctionDef, name: str) -> None:
        """Add a parameter to a function: positional if nothing with a default stands before it, else a keyword.

        Raises:
            ValueError: the function takes its parameters in a way that leaves no room for another one.
        """
        with_parameter(function, cst.Param(cst.Name(name)))

        def add(node: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(node, cst.FunctionDef)
            return with_parameter(node, cst.Param(cst.Name(name)))

        self._node(function, add)

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
            return self.tree.code(changed)

        return tuple(edits_between(self.tree, with_deep_stack(write)))

    def _statements(self, text: str, beside: Unit) -> list[Statement]:
        """Statements from text, with the indentation and the line endings that they need beside another statement."""
        root = self.tree.root
        text = re.sub(r"^(?: {4})+", lambda match: root.default_indent * (len(match[0]) // 4), text, flags=re.MULTILINE)
        text = _DOCSTRING.sub(lambda match: re.sub(r"\n(?=.)", f"\n{self._indentation(beside)}", match[0]), text)
        parsed = cst.parse_module(text.replace("\n", root.default_newline), root.config_for_parsing)
        parsed = parsed.visit(Fitter(len(self._indentation(beside)), line_width(self.tree.whole), root.default_indent))
        first, *rest = parsed.body
        first = first.with_changes(leading_lines=[*parsed.header, *first.leading_lines])
        return [flush(statement) for statement in (first, *rest)]

    def _indentation(self, unit: Unit) -> str:
        """What stands before a statement on its line, or would, had it a line of its own."""
        outer = [node for node in self.tree.ancestors(unit) if isinstance(node, Block)]
        row = self.tree.source.row(self.tree.spans[unit].start)
        line = self.tree.source.line(row)
        blank = line[: len(line) - len(line.lstrip())]
        return blank + self.tree.root.default_indent if isinstance(outer[0], cst.SimpleStatementSuite) else blank


class Rewrites:
    """Changes to several files of a project."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self._made: dict[str, Rewrite] = {}

    def __getitem__(self, path: str) -> Rewrite:
        """The changes to one file; its tree is that of the whole file."""
        if path not in self._made:
            self._made[path] = Rewrite(self._modules[path].tree())
        return self._made[path]

    def edits(self) -> tuple[Edit, ...]:
        """The changed lines of all files."""
        return tuple(edit for path in sorted(self._made) for edit in self._made[path].edits())


# ------------------------------------------------------------------------------------------------------------ the pass


class _Pass(cst.CSTTransformer):
    """Makes all changes, from the innermost nodes outwards."""

    def __init__(self, tree: Tree, changes: _Changes) -> None:
        super().__init__()
        self._tree = tree
        self._changes = changes
        self._shrunk: set[cst.CSTNode] = set()
        """Blocks that have lost a statement."""
        self._width = line_width(tree.whole)
        self._changed = 0
        self._changed_before: list[int] = []
        self._around = frozenset(self._nodes_around_changes())

    def _nodes_around_changes(self) -> Iterator[cst.CSTNode]:
        """The nodes that changes are asked for in, these included; nothing changes anywhere else."""
        seen: set[cst.CSTNode] = set()
        for changed in self._changes.places():
            node: cst.CSTNode | None = changed
            while node is not None and node not in seen:
                seen.add(node)
                yield node
                node = self._tree.parents.get(node)

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Remember what was changed before a line; go where something changes, or moves to the right."""
        if isinstance(node, cst.SimpleStatementLine):
            self._changed_before.append(self._changed)
        return node in self._around or bool(self._changes.wraps)

    def on_leave(  # type: ignore[override] # a node stays of its kind
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        """Change a node if somebody asked for it, and the statements in it."""
        if (change := self._changes.nodes.get(original_node)) is not None:
            updated_node = change(updated_node)
            self._changed += 1
        if isinstance(original_node, cst.SimpleStatementLine):
            assert isinstance(updated_node, cst.SimpleStatementLine)
            return self._fitted(original_node, updated_node)
        if isinstance(original_node, cst.Module | cst.IndentedBlock):
            assert isinstance(updated_node, cst.Module | cst.IndentedBlock)
            return self._block(original_node, updated_node)
        if isinstance(original_node, cst.SimpleStatementSuite) and any(map(self._changes.touch, original_node.body)):
            assert isinstance(updated_node, cst.SimpleStatementSuite)
            line = cst.SimpleStatementLine(updated_node.body, (), updated_node.trailing_whitespace)
            return self._assembled(original_node, cst.IndentedBlock([]), spread(original_node.body, line))
        return updated_node

    def _fitted(self, original: cst.SimpleStatementLine, line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        """The line, broken if its change has made it too long or moved it too far to the right."""
        around = [original, *original.body, *self._tree.ancestors(original)] if self._changes.wraps else []
        levels = sum(any(unit in around for unit in wrap.units) for wrap in self._changes.wraps)
        if self._changed_before.pop() == self._changed and not levels:
            return line
        unit = self._tree.root.default_indent
        column = self._tree.source.position(self._tree.spans[original].start).column - 1 + levels * len(unit)
        return fitted(line, column, self._width, unit)

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
                items += spread(old.body, new) if touched else [(old.body[0], new)]
            else:
                assert isinstance(old, cst.BaseCompoundStatement)
                assert isinstance(new, cst.BaseCompoundStatement)
                changed |= self._changes.touch(old) or any(block in self._shrunk for block in blocks(old))
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
        # statements that follow another one wherever both go
        joined = {unit for (first, _), (unit, _) in pairwise(items) if {first, unit} <= changes.moved}

        def put(statements: Iterable[Statement]) -> None:
            for statement in statements:
                out.append(led_by(statement, waiting))
                waiting.clear()

        for unit, statement in items:
            moved = [(other, at.get(other) or self._line(other)) for other in changes.to.get(unit, ())]
            arriving = [
                *changes.before.get(unit, ()),
                *(line if other in joined else bare(line) for other, line in moved),
            ]
            opened.update((index, len(out)) for index, wrap in enumerate(changes.wraps) if wrap.units[0] is unit)
            if arriving:
                blanks, lines = split(statement.leading_lines)
                waiting += blanks
                put(arriving)
                apart = [BLANK, BLANK] if unit in changes.set_off else []
                statement = statement.with_changes(leading_lines=[*apart, *lines])
            if unit in changes.deleted:
                waiting += left_behind(statement)
                self._shrunk.add(original)
            elif unit in joined:
                pass
            elif unit in changes.moved:
                waiting += split(statement.leading_lines)[0]
            else:
                kept, lines = settled(self._tree, unit, statement, self._shrunk)
                if kept != [statement]:
                    self._shrunk.add(original)
                put(kept)
                waiting += lines
            put(changes.after.get(unit, ()))
            for index, wrap in enumerate(changes.wraps):
                if wrap.units[-1] is unit and len(out) > opened[index]:
                    out[opened[index] :] = [_wrapped(wrap.header, out[opened[index] :])]

        if original in self._shrunk and isinstance(self._tree.parents.get(original), Loop):
            out, lines = without_guards(out)
            waiting = [*lines, *waiting]
        tail = [line for line in waiting if line.comment is not None]
        if out and items and out[0] is not items[0][1] and not isinstance(updated, cst.Module):
            out[0] = out[0].with_changes(leading_lines=split(out[0].leading_lines)[1])
        return updated.with_changes(body=out, footer=[*tail, *updated.footer])

    def _line(self, unit: Unit) -> Statement:
        """A statement as it was, on a line of its own."""
        if isinstance(unit, cst.BaseCompoundStatement):
            return unit
        line = self._tree.parents[unit]
        if isinstance(line, cst.SimpleStatementSuite):
            line = cst.SimpleStatementLine(line.body, (), line.trailing_whitespace)
        assert isinstance(line, cst.SimpleStatementLine)
        return next(statement for small, statement in spread(line.body, line) if small is unit)


def _wrapped(header: str, statements: Sequence[Statement]) -> Statement:
    parsed = cst.parse_statement(f"{header}\n    pass\n")
    first = statements[0]
    lines = first.leading_lines
    body = cst.IndentedBlock([first.with_changes(leading_lines=()), *map(flush, statements[1:])])
    wrapped = parsed.with_changes(body=body, leading_lines=lines)
    assert isinstance(wrapped, Statement)
    return wrapped
