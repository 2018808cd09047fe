"""Parts statements in two around some of them: what comes before, what comes after, and what they themselves do between.

    before, middle, after = Parter(tree, cuts, changes).sequence(statements)

A cut is a statement that moves between the halves (a release), or a call of a method that is parted too: its first half
is called in the first half, its second one in the second. Tests, loops and contexts around a cut stand around both
halves, so they are asked twice. That is right only where the first half does not change what they say, and where
evaluating them does nothing. Whatever is not proved raises `PartingError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import libcst as cst

from graphlint.codemod.lines import Statement, bare, comment_lines, lines_of, spread
from graphlint.codemod.moving import swap
from graphlint.codemod.reading import dotted, is_passive, is_pure, negated, uses
from graphlint.codemod.tree import Block, Tree, Unit

_NAMED = frozenset(("getattr", "hasattr"))
_IDENTITY = frozenset(("callable", "hasattr", "isinstance", "issubclass"))
"""Calls whose answer depends on what an object is, not on what it holds."""
_VIEWS = frozenset(("values", "items", "keys"))
_COPIES = frozenset(("list", "tuple", "sorted", "reversed", "enumerate", "zip", "range", "set"))


class PartingError(Exception):
    """Statements cannot be parted; the message says why, without a period."""


class Change(NamedTuple):
    """What the first half does to a place: write, add, drop, clear or pop."""

    how: str
    place: str
    """Dotted; `self` is the object of the function, `?` any other root."""


@dataclass(frozen=True)
class Cut:
    """A statement to part at."""

    call: cst.Call | None = None
    """The call of a method that is parted too; None: the statement is what goes between."""
    name: str = ""
    """Name of that method."""
    before: str = ""
    """Name of the method's first half; empty: it has none."""
    after: str = ""
    """Name of its second half."""
    given_before: bool = True
    """Whether the first half takes the call's arguments."""
    given_after: bool = True
    middle: Sequence[Statement] = ()
    """What goes between, for a call."""


@dataclass
class Halves:
    """Statements, parted."""

    before: list[Statement] = field(default_factory=list)
    middle: list[Statement] = field(default_factory=list)
    after: list[Statement] = field(default_factory=list)


class Parter:
    """Parts the statements of one function.

    Args:
        tree: that holds them.
        cuts: the statements to part at.
        changes: what the function does before the last of them is done.
        receiver: the function's name for its object; empty if it has none.
        is_whole: whether the function itself is parted, and not only some statements of it.
    """

    def __init__(
        self,
        tree: Tree,
        cuts: Mapping[Unit, Cut],
        changes: Sequence[Change],
        receiver: str = "",
        *,
        is_whole: bool = False,
    ) -> None:
        self.conditions: list[str] = []
        """What the result rests on; one sentence each, without a period."""
        self._tree = tree
        self._cuts = cuts
        self._changes = changes
        self._receiver = receiver
        self._is_whole = is_whole
        self._units: dict[Statement, Unit] = {}
        """Statements that stood on a line with others, by the line that each has got for itself."""
        self._around = {outer for unit in cuts for outer in tree.ancestors(unit)}

    # --------------------------------------------------------------------------------------------------- sequences

    def sequence(self, statements: Iterable[Statement], *, in_loop: bool = False) -> Halves:
        """Statements of one block, parted.

        Raises:
            PartingError: it is not proved that they can be.
        """
        items = list(self._spread(statements))
        holders = [index for index, item in enumerate(items) if self.holds(item)]
        if not holders:
            raise PartingError("it was not found where the methods would be parted")
        first, last = holders[0], holders[-1]
        gates = [item for item in items[:first] if _is_gate(item, in_loop=in_loop)]
        for item in (*items[:first], *items[last + 1 :]):
            if item not in gates:
                self._check_exits(item, is_behind=item in items[last:], in_loop=in_loop)
        parts = {index: self._parted(items[index], in_loop=in_loop) for index in holders}
        head = [item for item in items[:first] if item not in gates]
        between = [(index, items[index]) for index in range(first, last) if index not in parts]
        for at, item in between:
            self._check_exits(item, is_behind=False, in_loop=in_loop)
            for index in holders:
                if index < at:
                    self._check_swap(parts[index].after, item)
        after = [
            *(each for index in holders for each in parts[index].after),
            *items[last + 1 :],
        ]
        middle = [each for index in holders for each in parts[index].middle]
        if len(self._cuts) > 1:
            middle = list(self._distinct(middle))
        is_leading = items[: len(gates)] == gates
        if gates and after:
            after = [*map(without_comments, self._gates_again(gates, after, is_leading=is_leading)), *after]
        if gates and middle and self._is_whole and not in_loop and not is_leading:
            middle = [*map(without_comments, gates), *middle]
        supply = [*head, *(item for _, item in between)]
        middle, moved = self._supplied(middle, supply, parts[first].before)
        after, more = self._supplied(after, [item for item in supply if item not in moved] + moved, parts[first].before)
        gone = {*moved, *more}
        before: list[Statement] = []
        for index, item in enumerate(items[: last + 1]):
            if index in parts:
                before += parts[index].before
            elif item not in gone:
                before.append(item)
        return Halves(before, middle, after)

    def check_together(self, statements: Iterable[Statement]) -> None:
        """Refuse where the cuts in a sequence may not all be done before what stands between them.

        Raises:
            PartingError: what stands between has to be done first.
        """
        items = list(self._spread(statements))
        passed: list[Statement] = []
        for item in items:
            if not self.holds(item):
                self._check_exits(item, is_behind=True, in_loop=False)
                passed.append(item)
                continue
            for each in passed:
                for unit in self._smalls(each):
                    if not swap(self._tree, uses(item), unit, self.conditions):
                        raise PartingError(f"row {self._row(each)} stands between the two and changes what they use")

    def leading_gates(self, statements: Iterable[Statement]) -> list[Statement]:
        """`if ...: return` at the beginning of a function, without their comments."""
        found: list[Statement] = []
        for item in statements:
            if not _is_gate(item, in_loop=False):
                break
            found.append(without_comments(item))
        return found

    def _gates_again(
        self, gates: Sequence[Statement], after: Sequence[Statement], *, is_leading: bool
    ) -> list[Statement]:
        """The gates that stand in front of the second half too: those that the first one leaves as they are."""
        kept: list[Statement] = []
        for gate in gates:
            if (reason := self._unstable(_test(gate))) is None:
                kept.append(gate)
            elif not is_leading or not self._is_whole or not all(map(_is_idempotent, after)):
                raise PartingError(reason)
        if len(kept) < len(gates):
            self.conditions.append("what follows the release runs for an object that has nothing to release, too")
        return kept

    def lines(self, block: Block) -> list[tuple[Unit, Statement]]:
        """The statements of a block as they stand in the tree, each with a line of its own."""
        if isinstance(block, cst.SimpleStatementSuite):
            pairs = spread(block.body, cst.SimpleStatementLine(block.body, (), block.trailing_whitespace))
            self._units.update((line, unit) for unit, line in pairs)
            return pairs
        items = [*block.body] if isinstance(block, cst.Module) else lines_of(block)
        found: list[tuple[Unit, Statement]] = []
        for item in items:
            if isinstance(item, cst.SimpleStatementLine):
                pairs = spread(item.body, item) if len(item.body) > 1 else [(item.body[0], item)]
                self._units.update((line, unit) for unit, line in pairs)
                found += pairs
            else:
                assert isinstance(item, cst.BaseCompoundStatement)
                found.append((item, item))
        return found

    def holds(self, item: Statement) -> bool:
        """Whether there is a cut in a statement."""
        if isinstance(item, cst.SimpleStatementLine):
            return any(unit in self._cuts for unit in self._smalls(item))
        return item in self._around

    def _smalls(self, item: Statement) -> Sequence[Unit]:
        """The statements of a line as they stand in the tree, or the compound statement."""
        if not isinstance(item, cst.SimpleStatementLine):
            return [item]
        return [self._units[item]] if item in self._units else item.body

    def _spread(self, statements: Iterable[Statement]) -> Iterator[Statement]:
        for item in statements:
            if isinstance(item, cst.SimpleStatementLine) and len(item.body) > 1 and self.holds(item):
                for unit, line in spread(item.body, item):
                    self._units[line] = unit
                    yield line
            else:
                yield item

    def _distinct(self, statements: Sequence[Statement]) -> Iterator[Statement]:
        seen: set[str] = set()
        for each in statements:
            text = cst.Module([without_comments(each)]).code
            if text not in seen:
                seen.add(text)
                yield each

    # -------------------------------------------------------------------------------------------------- statements

    def _parted(self, item: Statement, *, in_loop: bool) -> Halves:
        match item:
            case cst.SimpleStatementLine():
                return self._parted_line(item)
            case cst.If():
                return self._parted_if(item, in_loop=in_loop)
            case cst.For():
                return self._parted_for(item)
            case cst.With() if item.asynchronous is None:
                return self._parted_with(item, in_loop=in_loop)
            case cst.Try():
                return self._parted_try(item, in_loop=in_loop)
        raise PartingError(f"row {self._row(item)} is no statement that can be done in two halves")

    def _parted_line(self, line: cst.SimpleStatementLine) -> Halves:
        (small,) = self._smalls(line)
        cut = self._cuts[small]
        if cut.call is None:
            return Halves(middle=[line])
        if not isinstance(small, cst.Expr) or not _is_call_alone(small.value, cut.call):
            raise PartingError(f"row {self._row(small)} does more than call it")
        asked = [argument.value for argument in cut.call.args]
        if not _is_super(cut.call.func):
            asked.append(cut.call.func)
        if not all(map(is_pure, asked)):
            raise PartingError(f"what the call in row {self._row(small)} is made of would be evaluated twice")
        halves = Halves(middle=list(cut.middle))
        if cut.before:
            halves.before.append(_calling(line, cut, cut.before, is_given=cut.given_before))
        if cut.after:
            second = _calling(line, cut, cut.after, is_given=cut.given_after)
            halves.after.append(without_comments(second) if cut.before else second)
        return halves

    def _parted_if(self, item: cst.If, *, in_loop: bool) -> Halves:
        here = self._block(item.body, in_loop=in_loop) if item.body in self._around else None
        other = Halves()
        if isinstance(item.orelse, cst.If) and self.holds(item.orelse):
            other = self._parted_if(item.orelse, in_loop=in_loop)
        elif isinstance(item.orelse, cst.Else) and item.orelse.body in self._around:
            other = self._block(item.orelse.body, in_loop=in_loop)
        elif here is None:
            raise PartingError(f"row {self._row(item)} asks by calling it")
        self._check_test(item.test)
        inside = here or Halves()
        is_other = isinstance(item.orelse, cst.If | cst.Else) and (
            self.holds(item.orelse) if isinstance(item.orelse, cst.If) else item.orelse.body in self._around
        )
        first: cst.If | None = item
        if here is not None:
            first = (
                None
                if not here.before and item.orelse is None
                else item.with_changes(body=_refilled(item.body, here.before))
            )
        if is_other and first is not None:
            if isinstance(item.orelse, cst.If):
                first = first.with_changes(orelse=next(iter(other.before), None))
            elif isinstance(item.orelse, cst.Else):
                block = _refilled(item.orelse.body, other.before)
                first = first.with_changes(orelse=item.orelse.with_changes(body=block) if other.before else None)
        elif here is None:
            raise PartingError(f"row {self._row(item)} asks by calling it")
        middle = [*inside.middle, *other.middle]
        if not in_loop and len(self._cuts) == 1:
            middle = self._under(item, inside.middle, other.middle)
        return Halves([first] if first is not None else [], middle, self._under(item, inside.after, other.after))

    def _under(self, item: cst.If, then: Sequence[Statement], other: Sequence[Statement]) -> list[Statement]:
        """Statements under the test of an `if`."""
        if then:
            orelse = cst.Else(_filled(other)) if other else None
            return [item.with_changes(leading_lines=(), body=_filled(then), orelse=orelse)]
        if other:
            return [cst.If(negated(item.test), _filled(other))]
        return []

    def _parted_for(self, item: cst.For) -> Halves:
        if item.asynchronous is not None or item.orelse is not None:
            raise PartingError(f"the loop in row {self._row(item)} is not a plain one")
        self._check_iterable(item)
        inside = self._block(item.body, in_loop=True)
        bound = _names(item.target)
        if bound & _free(inside.middle):
            raise PartingError(f"what is released in row {self._row(item)} is another thing in each round")
        before = [item.with_changes(body=_refilled(item.body, inside.before))] if inside.before else []
        after = [item.with_changes(leading_lines=(), body=_filled(inside.after))] if inside.after else []
        return Halves([*before], inside.middle, [*after])

    def _parted_with(self, item: cst.With, *, in_loop: bool) -> Halves:
        if not all(is_passive(each.item) and is_pure_or_call(each.item) for each in item.items):
            raise PartingError(f"the context in row {self._row(item)} would be entered twice")
        inside = self._block(item.body, in_loop=in_loop)
        self.conditions.append(f"nothing comes in between while the context in row {self._row(item)} is left")
        before = [item.with_changes(body=_refilled(item.body, inside.before))] if inside.before else []
        after = [item.with_changes(leading_lines=(), body=_filled(inside.after))] if inside.after else []
        middle: list[Statement] = list(inside.middle)
        if middle and not in_loop and len(self._cuts) == 1:
            middle = [item.with_changes(leading_lines=(), body=_filled(middle))]
        return Halves([*before], middle, [*after])

    def _parted_try(self, item: cst.Try, *, in_loop: bool) -> Halves:
        if item.body not in self._around or item.finalbody is not None or item.orelse is not None:
            raise PartingError(f"the `try` in row {self._row(item)} cannot be done in two halves")
        for handler in item.handlers:
            if _Exits.of(handler) - {"raise"}:
                raise PartingError(f"the handler in row {self._row(handler)} leaves")
        inside = self._block(item.body, in_loop=in_loop)
        before = [item.with_changes(body=_refilled(item.body, inside.before))] if inside.before else []
        after: list[Statement] = []
        if inside.after:
            handlers = [_without_leading(handler) for handler in item.handlers]
            after.append(item.with_changes(leading_lines=(), body=_filled(inside.after), handlers=handlers))
        self.conditions.append(
            f"where the first half fails and row {self._row(item.handlers[0])} goes on, what is shared is released "
            "all the same"
        )
        return Halves([*before], inside.middle, after)

    def _block(self, body: cst.BaseSuite, *, in_loop: bool) -> Halves:
        return self.sequence([line for _, line in self.lines(body)], in_loop=in_loop)

    # ------------------------------------------------------------------------------------------------------- checks

    def _check_exits(self, item: Statement, *, is_behind: bool, in_loop: bool) -> None:
        exits = _Exits.of(item) - {"raise"}
        if is_behind and not in_loop and self._is_whole:
            exits -= {"return"}
        if is_behind:
            exits -= {"continue"}
        if exits:
            raise PartingError(f"row {self._row(item)} leaves by `{min(exits)}`")

    def _check_swap(self, earlier: Sequence[Statement], passed: Statement) -> None:
        """Refuse where statements may not run behind one that they stand in front of."""
        for each in earlier:
            for unit in self._smalls(passed):
                if not swap(self._tree, uses(each), unit, self.conditions):
                    raise PartingError(f"row {self._row(passed)} stands between the two and changes what they use")

    def _check_test(self, test: cst.BaseExpression) -> None:
        if (reason := self._unstable(test)) is not None:
            raise PartingError(reason)

    def _unstable(self, test: cst.BaseExpression) -> str | None:
        """Why a test may not be asked again behind the first half; None where it may."""
        row = self._row(test)
        for atom in _atoms(test):
            by_identity = _is_by_identity(atom)
            if not is_pure(atom) or (not by_identity and _asks(atom)):
                return f"the test in row {row} does something, or asks what may have changed by then"
            for place in uses(atom).reads:
                if self._is_changed(place, by_identity=by_identity):
                    return f"the first half changes `{place}`, which the test in row {row} asks for"
        return None

    def _is_changed(self, place: str, *, by_identity: bool) -> bool:
        root, _, rest = place.partition(".")
        for how, other in self._changes:
            if by_identity and how not in ("write", "drop"):
                continue
            owner, _, attributes = other.partition(".")
            if root == self._receiver and owner == "self":
                if rest == attributes or rest.startswith(f"{attributes}."):
                    return True
            elif place.rpartition(".")[2] == attributes.rpartition(".")[2]:
                return True
        return False

    def _check_iterable(self, loop: cst.For) -> None:
        """Refuse a loop that may not run over the same items again."""
        row = self._row(loop)
        if not is_pure(loop.iter):
            raise PartingError(f"what the loop in row {row} runs over may not give the same again")
        waiting: list[cst.BaseExpression] = [loop.iter]
        while waiting:
            iterable = waiting.pop()
            match iterable:
                case cst.Call(func=cst.Name(value=name), args=args) if name in _COPIES:
                    waiting += [argument.value for argument in args]
                    continue
                case cst.Call(func=cst.Name(value="len"), args=[argument]):
                    waiting.append(argument.value)
                    continue
                case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=name)), args=[]) if name in _VIEWS:
                    waiting.append(inner)
                    continue
                case cst.Name(value=name) if not self._is_again(name, loop):
                    raise PartingError(f"`{name}` in row {row} may give its items only once")
                case cst.Name() | cst.Attribute() | cst.Subscript() | cst.Tuple() | cst.List() | cst.BaseNumber():
                    by_identity = isinstance(iterable, cst.Tuple | cst.List)
                    for place in uses(iterable).reads:
                        if self._is_changed(place, by_identity=by_identity):
                            raise PartingError(
                                f"the first half changes `{place}`, which the loop in row {row} runs over"
                            )
                case _:
                    raise PartingError(f"what the loop in row {row} runs over may not give the same again")

    def _is_again(self, name: str, loop: cst.For) -> bool:
        """Whether a variable can be run over twice: it is no generator, map or filter."""
        function = self._tree.function(loop)
        found = False
        for node in self._tree.spans:
            if isinstance(node, cst.Assign) and self._tree.function(node) is function:
                for target in node.targets:
                    if isinstance(target.target, cst.Name) and target.target.value == name:
                        value = node.value
                        if isinstance(value, cst.GeneratorExp) or (isinstance(value, cst.Call) and not _is_copy(value)):
                            return False
                        found = True
        if found or function is None:
            return True
        params = [*function.params.params, *function.params.kwonly_params, *function.params.posonly_params]
        for param in params:
            if param.name.value == name and param.annotation is not None:
                text = cst.Module([]).code_for_node(param.annotation.annotation)
                return not any(word in text for word in ("Iterator", "Iterable", "Generator"))
        return True

    # ------------------------------------------------------------------------------------------------------- supply

    def _supplied(
        self, needy: list[Statement], before: Sequence[Statement], parted: Sequence[Statement]
    ) -> tuple[list[Statement], list[Statement]]:
        """Statements with the imports and plain assignments in front that they cannot do without; those that move."""
        if not needy:
            return needy, []
        missing = _free(needy)
        chosen: list[Statement] = []
        for item in reversed(before):
            bound = {name for name in uses(item).binds if "." not in name}
            if not bound & missing:
                continue
            if not _is_plain(item):
                raise PartingError(
                    f"row {self._row(item)} says what `{min(bound & missing)}` is, and cannot do so twice"
                )
            if not _is_import(item) and (reason := self._unstable_value(item)) is not None:
                raise PartingError(reason)
            chosen.insert(0, item)
            missing |= uses(item).roots
        read = {root for item in (*before, *parted) if item not in chosen for root in uses(item).roots}
        moved = [item for item in chosen if not {n for n in uses(item).binds if "." not in n} & read]
        copies = [item if item in moved else without_comments(item) for item in chosen]
        return [*copies, *needy], moved

    def _unstable_value(self, item: Statement) -> str | None:
        assert isinstance(item, cst.SimpleStatementLine)
        for small in item.body:
            assert isinstance(small, cst.Assign | cst.AnnAssign)
            for place in uses(small).reads:
                if self._is_changed(place, by_identity=True):
                    return f"the first half changes `{place}`, which row {self._row(item)} reads"
        return None

    def _row(self, node: cst.CSTNode) -> int:
        """The row of a node, or of the first thing in it that stands in the file."""
        waiting: list[cst.CSTNode] = [node]
        while waiting:
            each = waiting.pop(0)
            if each in self._tree.spans:
                return self._tree.source.row(self._tree.spans[each].start)
            waiting += each.children
        return 0


def asking(statements: Iterable[Statement], cuts: Iterable[Cut], *, is_second: bool) -> list[Statement]:
    """One half, asking for itself by name wherever it asked for the whole: `hasattr(engine, "release")`.

    Raises:
        PartingError: a method is called through a variable, and what it is called there was not found.
    """
    visitor = _Asking(cuts, is_second=is_second)
    found = [statement.visit(visitor) for statement in statements]
    if found and visitor.missing:
        raise PartingError(f"it is not seen how `{min(visitor.missing)}` comes to be called")
    return found  # type: ignore[return-value] # statements stay statements


class _Asking(cst.CSTTransformer):
    def __init__(self, cuts: Iterable[Cut], *, is_second: bool) -> None:
        super().__init__()
        self._names: list[tuple[str | None, str, str]] = []
        self.missing: set[str] = set()
        for cut in cuts:
            if cut.call is None:
                continue
            new = cut.after if is_second else cut.before
            if isinstance(cut.call.func, cst.Attribute):
                self._names.append((cst.Module([]).code_for_node(cut.call.func.value), cut.name, new))
            else:
                self._names.append((None, cut.name, new))
                self.missing.add(cut.name)

    def leave_Call(self, _: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:  # noqa: N802
        """Rename the string by which a method is asked for."""
        if not isinstance(updated_node.func, cst.Name) or updated_node.func.value not in _NAMED:
            return updated_node
        if len(updated_node.args) < 2 or not isinstance(name := updated_node.args[1].value, cst.SimpleString):
            return updated_node
        asked = cst.Module([]).code_for_node(updated_node.args[0].value)
        for receiver, old, new in self._names:
            if new and name.raw_value == old and receiver in (None, asked):
                if updated_node.func.value == "getattr":
                    self.missing.discard(old)
                args = [*updated_node.args]
                args[1] = args[1].with_changes(
                    value=name.with_changes(value=f"{name.prefix}{name.quote}{new}{name.quote}")
                )
                return updated_node.with_changes(args=args)
        return updated_node


def _calling(line: cst.SimpleStatementLine, cut: Cut, name: str, *, is_given: bool) -> cst.SimpleStatementLine:
    """The statement of a cut, calling one half of the method."""
    call = cut.call
    assert call is not None
    func = call.func
    if isinstance(func, cst.Attribute):
        func = func.with_changes(attr=cst.Name(name))
    elif not isinstance(func, cst.Name):
        raise PartingError("it is called by an expression that is no name")
    args = call.args if is_given else ()
    changed = line.deep_replace(call, call.with_changes(func=func, args=args))
    assert isinstance(changed, cst.SimpleStatementLine)
    return changed


# ------------------------------------------------------------------------------------------------------------ what it is


class _Exits(cst.CSTVisitor):
    """How a statement can leave what is around it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self._loops = 0

    @classmethod
    def of(cls, item: cst.CSTNode) -> set[str]:
        """The statements' names by which it can."""
        visitor = cls()
        item.visit(visitor)
        return visitor.found

    def on_visit(self, node: cst.CSTNode) -> bool:
        match node:
            case cst.FunctionDef() | cst.Lambda() | cst.ClassDef():
                return False
            case cst.For() | cst.While():
                self._loops += 1
            case cst.Return(value=value):
                self.found.add("return" if value is None else "return ...")
            case cst.Raise():
                self.found.add("raise")
            case cst.Yield():
                self.found.add("yield")
            case cst.Break() if not self._loops:
                self.found.add("break")
            case cst.Continue() if not self._loops:
                self.found.add("continue")
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.For | cst.While):
            self._loops -= 1


def _is_gate(item: Statement, *, in_loop: bool) -> bool:
    """`if ...: continue` in a loop, or `if ...: return` outside of any."""
    if not isinstance(item, cst.If) or item.orelse is not None:
        return False
    inside = lines_of(item.body)
    if len(inside) != 1 or not isinstance(inside[0], cst.SimpleStatementLine) or len(inside[0].body) != 1:
        return False
    only = inside[0].body[0]
    return isinstance(only, cst.Continue) if in_loop else isinstance(only, cst.Return) and only.value is None


def _test(gate: Statement) -> cst.BaseExpression:
    assert isinstance(gate, cst.If)
    return gate.test


def _atoms(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The questions that a test joins by `and`, `or` and `not`; of `(x := y) is not None` also the value."""
    match test:
        case cst.BooleanOperation(left=left, right=right):
            yield from _atoms(left)
            yield from _atoms(right)
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            yield from _atoms(inner)
        case cst.NamedExpr(value=value):
            yield from _atoms(value)
        case cst.Comparison(left=cst.NamedExpr() as named):
            yield test.with_changes(left=named.value)
        case _:
            yield test


def _is_by_identity(atom: cst.BaseExpression) -> bool:
    """Whether a question is about which object stands in a place, not about what it holds."""
    match atom:
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.Is() | cst.IsNot())]):
            return True
        case cst.Call(func=cst.Name(value=name)):
            return name in _IDENTITY
    return False


def _asks(atom: cst.BaseExpression) -> bool:
    """Whether a question calls a method of an object that may answer differently later."""
    visitor = _Methods()
    atom.visit(visitor)
    return visitor.found


class _Methods(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802
        if isinstance(node.func, cst.Attribute):
            name = dotted(node.func) or ""
            self.found |= not name.startswith(("torch.", "os.", "sys."))
        elif not (isinstance(node.func, cst.Name) and node.func.value in {*_NAMED, *_IDENTITY, "len", "bool", "type"}):
            self.found = True


def _is_plain_call(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Name) and call.func.value in _COPIES


def _is_copy(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Name) and call.func.value in ("list", "tuple", "sorted", "set", "dict", "getattr")


def is_pure_or_call(context: cst.BaseExpression) -> bool:
    """Whether a context is a plain object, or made by a call whose arguments do nothing."""
    return not isinstance(context, cst.Call) or all(is_pure(argument.value) for argument in context.args)


def _is_call_alone(value: cst.BaseExpression, call: cst.Call) -> bool:
    """Whether an expression is a call, awaited or made for every item of a list, and nothing else."""
    if isinstance(value, cst.Await):
        value = value.expression
    if isinstance(value, cst.ListComp | cst.SetComp):
        parts = (value.for_in.iter, *(each.test for each in value.for_in.ifs))
        return value.elt is call and value.for_in.inner_for_in is None and all(map(is_pure, parts))
    return value is call


def _is_super(func: cst.BaseExpression) -> bool:
    """`super().method`."""
    match func:
        case cst.Attribute(value=cst.Call(func=cst.Name(value="super"))):
            return True
    return False


def _is_import(item: Statement) -> bool:
    return isinstance(item, cst.SimpleStatementLine) and all(
        isinstance(small, cst.Import | cst.ImportFrom) for small in item.body
    )


def _is_plain(item: Statement) -> bool:
    """Whether a statement only binds names, to what takes nothing to evaluate."""
    if _is_import(item):
        return True
    if not isinstance(item, cst.SimpleStatementLine):
        return False
    for small in item.body:
        match small:
            case cst.Assign(targets=targets, value=value):
                if not is_pure(value) or not all(isinstance(each.target, cst.Name) for each in targets):
                    return False
            case cst.AnnAssign(target=cst.Name(), value=cst.BaseExpression() as value):
                if not is_pure(value):
                    return False
            case _:
                return False
    return True


def _is_idempotent(item: Statement) -> bool:
    """Whether doing it where there is nothing to do changes nothing: what drops, clears or empties."""
    if not isinstance(item, cst.SimpleStatementLine):
        return False
    for small in item.body:
        match small:
            case cst.Assign(value=cst.Name(value="None") | cst.Dict(elements=[]) | cst.List(elements=[])):
                continue
            case cst.Assign(value=cst.Name(value="True" | "False")):
                continue
            case cst.Expr(value=cst.Call(func=func, args=[])) if (dotted(func) or "").rpartition(".")[2] in (
                "clear", "collect", "empty_cache", "synchronize",
            ):  # fmt: skip
                continue
            case cst.Import() | cst.ImportFrom():
                continue
            case _:
                return False
    return True


def _names(target: cst.CSTNode) -> set[str]:
    return set(uses(target).roots)


def _free(statements: Iterable[Statement]) -> set[str]:
    """Variables that statements read before they bind them themselves."""
    free: set[str] = set()
    bound: set[str] = set()
    for item in statements:
        used = uses(item)
        own: set[str] = set()
        if not isinstance(item, cst.SimpleStatementLine):
            visitor = _Targets()
            item.visit(visitor)
            own = visitor.found
        free |= set(used.roots) - own - bound
        if isinstance(item, cst.SimpleStatementLine):
            bound |= {name for name in used.binds if "." not in name}
    return free


class _Targets(cst.CSTVisitor):
    """Variables that loops, contexts and tests bind as they begin."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.For | cst.CompFor | cst.NamedExpr):
            self.found |= set(uses(node.target).roots)
        elif isinstance(node, cst.AsName):
            self.found |= set(uses(node.name).roots)
        return True


# ------------------------------------------------------------------------------------------------------------ new nodes


def _filled(statements: Sequence[Statement]) -> cst.IndentedBlock:
    return cst.IndentedBlock(_opening(statements) or [cst.SimpleStatementLine([cst.Pass()])])


def _refilled(block: cst.BaseSuite, statements: Sequence[Statement]) -> cst.IndentedBlock:
    """A block with other statements; its header and what stands at its end stay."""
    body = _opening(statements) or [cst.SimpleStatementLine([cst.Pass()])]
    if isinstance(block, cst.IndentedBlock):
        return block.with_changes(body=body)
    return cst.IndentedBlock(body)


def _opening(statements: Sequence[Statement]) -> list[Statement]:
    """Statements as a block begins with them: no blank line above the first."""
    return [bare(each) if index == 0 else each for index, each in enumerate(statements)]


def without_comments(item: Statement) -> Statement:
    """A copy of a statement that stays where it is: its comments stay there too."""
    changed = item.visit(_Silenced())
    assert isinstance(changed, cst.SimpleStatementLine | cst.BaseCompoundStatement)
    return changed.with_changes(leading_lines=())


def _without_leading(handler: cst.ExceptHandler) -> cst.ExceptHandler:
    changed = handler.visit(_Silenced())
    assert isinstance(changed, cst.ExceptHandler)
    return changed.with_changes(leading_lines=())


class _Silenced(cst.CSTTransformer):
    """Drops comments, but for those that speak to a tool."""

    def leave_TrailingWhitespace(  # noqa: N802
        self, original_node: cst.TrailingWhitespace, updated_node: cst.TrailingWhitespace
    ) -> cst.TrailingWhitespace:
        """The end of a line."""
        if updated_node.comment is None or not comment_lines(original_node):
            return updated_node
        return cst.TrailingWhitespace(newline=updated_node.newline)

    def leave_EmptyLine(  # noqa: N802
        self, _: cst.EmptyLine, updated_node: cst.EmptyLine
    ) -> cst.EmptyLine | cst.RemovalSentinel:
        """A line for itself."""
        return cst.RemoveFromParent() if updated_node.comment is not None else updated_node
