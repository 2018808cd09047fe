"""Lets a release that runs for each of several objects run once for all of them.

The methods between the function that runs it for all and the release are parted at it: the first half destroys graphs,
the second erases their pool, and the method itself stays, as a wrapper that calls the one, releases, and calls the
other. The function calls all first halves, releases, and calls all second ones. All files change, or none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import libcst as cst

from graphlint.codemod.lines import BLANK, Statement, flush, lines_of
from graphlint.codemod.names import reference
from graphlint.codemod.parting import Change, Cut, Parter, PartingError, asking, without_comments
from graphlint.codemod.reading import uses
from graphlint.codemod.rewrite import Rewrites
from graphlint.codemod.tree import Block, Modules, Tree, Unit
from graphlint.edits import Edit
from graphlint.source import Span

_REASON = "# All graphs are dead and no pool is erased yet: the one moment for this."
_SAYS = (
    "Destroy the graphs; what they share and their pool stay.",
    "Erase the pool; nothing may point into it any more.",
)
_FINISHES = "Do what waits until the shared memory is released."


def once_for_all(ways: str, modules: Modules) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
    """The edits, and what they rest on.

    Args:
        ways: the functions, as `graphlint.descents.described` says them.
        modules: of the project.

    Raises:
        PartingError: it is not proved that they would be right.
    """
    rewrites = Rewrites(modules)
    splitter = _Splitter(json.loads(ways), modules, rewrites)
    splitter.split()
    return rewrites.edits(), tuple(dict.fromkeys(splitter.conditions))


@dataclass
class _Step:
    """A method that is parted, and the two that its halves turn into."""

    part: Mapping[str, Any]
    definition: cst.FunctionDef
    before: Sequence[Statement] = ()
    middle: Sequence[Statement] = ()
    after: Sequence[Statement] = ()
    gates: Sequence[Statement] = ()
    """`if ...: return` in front of everything."""
    names: tuple[str, str] = ("", "")
    given: tuple[bool, bool] = (False, False)
    """Whether the halves take the method's parameters."""
    wanted: list[bool] = field(default_factory=lambda: [False, False])
    """Whether a half is called although it is empty here: another class has one."""

    @property
    def halves(self) -> tuple[Sequence[Statement], Sequence[Statement]]:
        """The first and the second one."""
        return self.before, self.after


class _Splitter:
    """Parts the methods between some functions and a release, from the release outwards."""

    def __init__(self, ways: Mapping[str, Any], modules: Modules, rewrites: Rewrites) -> None:
        self.conditions: list[str] = []
        self._modules = modules
        self._rewrites = rewrites
        self._tops: list[Mapping[str, Any]] = ways["tops"]
        self._parts: dict[str, Mapping[str, Any]] = {part["function"]: part for part in ways["steps"]}
        self._called: str = ways["called"]
        self._shared = frozenset(ways["shared"])
        self._steps: dict[str, _Step] = {}
        self._extracted: tuple[cst.FunctionDef, cst.FunctionDef] | None = None
        erases = any(part["erases"] for part in (*self._tops, *self._parts.values()))
        self._first = self._fresh("destroy_graphs")
        self._second = self._fresh("erase_pool" if erases else "finish_release")

    def split(self) -> None:
        """Part everything.

        Raises:
            PartingError: it is not proved that this is right.
        """
        for name in self._ordered():
            self._steps[name] = self._parted(self._parts[name])
        for top in self._tops:
            self._rewrite_top(top)
        for step in self._steps.values():
            self._write(step)
        names = ", ".join(f"`{_short(name)}`" for name in sorted(self._steps))
        if names:
            self.conditions.append(f"nothing outside of these files overrides or replaces {names}")

    def _ordered(self) -> list[str]:
        """The methods, each behind those that it calls."""
        done: dict[str, None] = {}

        def add(name: str, above: tuple[str, ...]) -> None:
            if name in above:
                raise PartingError(f"`{_short(name)}` comes to itself again")
            for target in self._parts[name]["targets"]:
                for callee in target["callees"]:
                    add(callee, (*above, name))
            done[name] = None

        for name in self._parts:
            add(name, ())
        return list(done)

    def _fresh(self, name: str) -> str:
        """A name that no file mentions."""
        word = re.compile(rb"\b_?%s\b" % name.encode())
        number = 1
        new = name
        while any(word.search(source.content) for source in self._modules.sources.values()):
            number += 1
            new = f"{name}_{number}"
            word = re.compile(rb"\b_?%s\b" % new.encode())
        return new

    # ------------------------------------------------------------------------------------------------------- methods

    def _parted(self, part: Mapping[str, Any]) -> _Step:
        tree = self._rewrites[part["path"]].tree
        cuts = self._cuts(part, tree)
        definition = self._definition(part, tree, cuts)
        if len(definition.decorators) > 0:
            raise PartingError(f"`{_short(part['function'])}` is decorated")
        step = _Step(part, definition)
        changes = [Change(*change) for change in part["changes"]]
        parter = Parter(tree, cuts, changes, part["receiver"], is_whole=True)
        body = [line for _, line in parter.lines(definition.body)]
        if definition.get_docstring() is not None:
            body = body[1:]
        halves = parter.sequence(body)
        self.conditions += parter.conditions
        step.gates = parter.leading_gates(body)
        step.before = asking(halves.before, cuts.values(), is_second=False) if _acts(halves.before) else ()
        step.after = asking(halves.after, cuts.values(), is_second=True) if _acts(halves.after) else ()
        step.middle = halves.middle
        private = "_" if definition.name.value.startswith("_") and not definition.name.value.endswith("__") else ""
        step.names = (f"{private}{self._first}", f"{private}{self._second}")
        params = {name for name in uses(definition.params).binds if name != part["receiver"]}
        reads = [params & uses(*half).roots for half in step.halves]
        step.given = (bool(reads[0]), bool(reads[1]))
        if params & uses(*step.middle).roots:
            raise PartingError(f"what is released depends on how `{_short(part['function'])}` is called")
        if not any(target["callees"] for target in part["targets"]) and not self._called_plainly(cuts):
            self._extract(step, tree)
        return step

    def _cuts(self, part: Mapping[str, Any], tree: Tree) -> dict[Unit, Cut]:
        """The statements of a function at which it is parted."""
        cuts: dict[Unit, Cut] = {}
        for target in part["targets"]:
            span = Span(*target["span"])
            unit = tree.statement(span)
            if not isinstance(unit, cst.BaseSmallStatement):
                raise PartingError(f"row {tree.source.row(span.start)} is no statement of its own")
            if not target["callees"]:
                cuts[unit] = Cut()
                continue
            call = tree.node_at(span, cst.Call)
            if call is None:
                raise PartingError(f"row {tree.source.row(span.start)} calls it without saying so")
            steps = [self._steps[callee] for callee in target["callees"]]
            cuts[unit] = Cut(
                call,
                steps[0].definition.name.value,
                self._half(steps, 0),
                self._half(steps, 1),
                any(step.given[0] for step in steps),
                any(step.given[1] for step in steps),
                self._middle(part, tree, unit),
            )
        return cuts

    @staticmethod
    def _half(steps: Sequence[_Step], which: int) -> str:
        """Name of one half of what a call comes to; empty where none of it has one."""
        names = {step.names[which] for step in steps}
        if not any(step.halves[which] or step.wanted[which] for step in steps):
            return ""
        if len(names) > 1:
            raise PartingError("one call comes to methods of different names")
        given = {step.given[which] for step in steps}
        for step in steps:
            step.wanted[which] = True
            if len(given) > 1:
                step.given = (True, step.given[1]) if which == 0 else (step.given[0], True)
        return names.pop()

    def _middle(self, part: Mapping[str, Any], tree: Tree, unit: Unit) -> Sequence[Statement]:
        """The release as a function says it that only comes to it."""
        function = tree.function(unit)
        assert function is not None
        column = tree.source.position(tree.spans[unit].start).column - 1
        named = reference(self._modules, part["path"], self._called, uses(function), column)
        if named is None:
            raise PartingError(f"`{_short(part['function'])}` has another use for the name that the release needs")
        text = f"{named.statement}\n\n" if named.statement else ""
        module = cst.parse_module(f"{text}{named.expression}()\n", tree.root.config_for_parsing)
        return [flush(each) for each in module.body if isinstance(each, cst.SimpleStatementLine)]

    def _called_plainly(self, cuts: Mapping[Unit, Cut]) -> bool:
        """Whether the release is one call without arguments, of something that can be named from elsewhere."""
        return bool(self._called) and all(
            isinstance(unit, cst.Expr) and isinstance(unit.value, cst.Call) and not unit.value.args for unit in cuts
        )

    def _extract(self, step: _Step, tree: Tree) -> None:
        """Give the release a name: a method of the class."""
        receiver = step.part["receiver"]
        visitor = _OfClass(receiver, self._shared)
        body: list[Any] = [line.visit(visitor) for line in step.middle]
        used = uses(*body)
        if receiver in used.roots or any(place.split(".")[0] == receiver for place in used.binds):
            raise PartingError("the release reaches what it releases through one of the objects")
        local = {name for name in uses(step.definition.body).binds if "." not in name}
        local -= {name for line in step.middle for name in uses(line).binds}
        if local & used.roots:
            raise PartingError(f"the release depends on `{min(local & used.roots)}`")
        name = self._fresh("release_shared")
        kind, head = ("classmethod", "cls") if visitor.found else ("staticmethod", "")
        text = f'@{kind}\ndef {name}({head}) -> None:\n    """Release what all instances share."""\n'
        definition = cst.parse_statement(text, tree.root.config_for_parsing)
        assert isinstance(definition, cst.FunctionDef)
        assert isinstance(definition.body, cst.IndentedBlock)
        block = definition.body.with_changes(body=[*definition.body.body, *body])
        extracted = definition.with_changes(body=block, leading_lines=[BLANK])
        step.middle = [cst.parse_statement(f"{receiver}.{name}()\n", tree.root.config_for_parsing)]
        self._called = f"{step.part['owner']}.{name}"
        self._extracted = (step.definition, extracted)

    def _definition(self, part: Mapping[str, Any], tree: Tree, cuts: Mapping[Unit, Cut]) -> cst.FunctionDef:
        functions = {tree.function(unit) for unit in cuts}
        function = functions.pop()
        if functions or function is None or function.name.value != part["function"].rpartition(".")[2]:
            raise PartingError(f"`{_short(part['function'])}` does it in a function of its own")
        return function

    def _write(self, step: _Step) -> None:
        """Leave a wrapper in the place of a method, and add its halves behind it."""
        has = [bool(step.halves[which]) or step.wanted[which] for which in (0, 1)]
        rewrite = self._rewrites[step.part["path"]]
        added: list[Statement] = []
        if self._extracted is not None and self._extracted[0] is step.definition:
            added.append(self._extracted[1])
        if any(has) or added:
            body = lines_of(step.definition.body)
            docstring = body[:1] if step.definition.get_docstring() is not None else []
            calls = [[self._own_call(step, which, rewrite.tree)] if has[which] else [] for which in (0, 1)]
            lines = [*docstring, *step.gates, *calls[0], *step.middle, *calls[1]]
            block = step.definition.body
            is_block = isinstance(block, cst.IndentedBlock)
            filled = block.with_changes(body=lines) if is_block else cst.IndentedBlock(lines)
            rewrite.substitute(step.definition, step.definition.with_changes(body=filled))
        for which, says in enumerate(_SAYS if self._erases else (_SAYS[0], _FINISHES)):
            if has[which]:
                text = f'def {step.names[which]}(self) -> None:\n    """{says}"""\n'
                made = cst.parse_statement(text, rewrite.tree.root.config_for_parsing)
                assert isinstance(made, cst.FunctionDef)
                assert isinstance(made.body, cst.IndentedBlock)
                block = made.body.with_changes(body=[*made.body.body, *step.halves[which]])
                own = step.definition.params
                params = own if step.given[which] else cst.Parameters([cst.Param(cst.Name(step.part["receiver"]))])
                added.append(
                    made.with_changes(
                        body=block,
                        params=params,
                        asynchronous=step.definition.asynchronous,
                        leading_lines=[BLANK],
                    )
                )
        rewrite.place_after(step.definition, added)

    @property
    def _erases(self) -> bool:
        return self._second.startswith("erase")

    def _own_call(self, step: _Step, which: int, tree: Tree) -> Statement:
        """`self.destroy_graphs()`, as the wrapper says it."""
        given: list[str] = []
        params = step.definition.params
        if step.given[which]:
            given += [each.name.value for each in (*params.posonly_params, *params.params)][1:]
            if isinstance(params.star_arg, cst.Param):
                given.append(f"*{params.star_arg.name.value}")
            given += [f"{each.name.value}={each.name.value}" for each in params.kwonly_params]
            if params.star_kwarg is not None:
                given.append(f"**{params.star_kwarg.name.value}")
        wait = "await " if step.definition.asynchronous is not None else ""
        text = f"{wait}{step.part['receiver']}.{step.names[which]}({', '.join(given)})\n"
        return cst.parse_statement(text, tree.root.config_for_parsing)

    # ---------------------------------------------------------------------------------------------------------- tops

    def _rewrite_top(self, part: Mapping[str, Any]) -> None:
        """Let a function destroy the graphs of all, release once, and erase."""
        rewrite = self._rewrites[part["path"]]
        tree = rewrite.tree
        cuts = self._cuts(part, tree)
        changes = [Change(*change) for change in part["changes"]]
        parter = Parter(tree, cuts, changes, part["receiver"])
        block, holders = _meeting(tree, list(cuts))
        items = parter.lines(block)
        positions = [index for index, (unit, _) in enumerate(items) if unit in holders]
        span = items[positions[0] : positions[-1] + 1]
        halves = {unit: parter.sequence([line]) for unit, line in span if unit in holders}
        release = list(_distinct(each for half in halves.values() for each in half.middle))
        if not release:
            raise PartingError("what is released was not found")
        if not any(line.comment is not None for line in release[0].leading_lines):
            comment = cst.EmptyLine(comment=cst.Comment(_REASON))
            release[0] = release[0].with_changes(leading_lines=[comment])
        firsts = {unit: asking(half.before, cuts.values(), is_second=False) for unit, half in halves.items()}
        for unit, first in firsts.items():
            if len(first) != 1:
                raise PartingError(f"no graphs die in row {tree.source.row(tree.spans[unit].start)}")
        seconds = asking([each for half in halves.values() for each in half.after], cuts.values(), is_second=True)
        try:
            parter.sequence([line for _, line in span])
        except PartingError:
            parter.check_together([line for _, line in span])
            # what stands between them goes behind all three rounds
            head, *others = halves
            moved = [without_comments(firsts[unit][0]) for unit in others]
            rewrite.place_after(head, [*moved, *release, *seconds])
            for unit in others:
                rewrite.delete(unit)
        else:
            head, *others = halves
            for unit in others:
                rewrite.substitute(unit, _unit(firsts[unit][0]))
            rewrite.place_after(span[-1][0], [*release, *seconds])
        rewrite.substitute(head, _unit(firsts[head][0]))
        self.conditions += dict.fromkeys(parter.conditions)
        name = _short(part["function"])
        self.conditions.append(f"the release runs once in `{name}` for all of them, also where none of them has graphs")


class _OfClass(cst.CSTTransformer):
    """Reaches a class's own attributes through `cls` instead of through an object."""

    def __init__(self, receiver: str, attributes: frozenset[str]) -> None:
        super().__init__()
        self._receiver = receiver
        self._attributes = attributes
        self.found = False

    def leave_Attribute(self, _: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:  # noqa: N802
        """`self.shared`, `self.__class__`."""
        if isinstance(updated_node.value, cst.Name) and updated_node.value.value == self._receiver:
            if updated_node.attr.value == "__class__":
                self.found = True
                return cst.Name("cls")
            if updated_node.attr.value in self._attributes:
                self.found = True
                return updated_node.with_changes(value=cst.Name("cls"))
        return updated_node

    def leave_Call(self, _: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:  # noqa: N802
        """`type(self)`."""
        match updated_node:
            case cst.Call(func=cst.Name(value="type"), args=[cst.Arg(value=cst.Name(value=name))]):
                if name == self._receiver:
                    self.found = True
                    return cst.Name("cls")
        return updated_node


def _unit(statement: Statement) -> Unit:
    """A statement without its line."""
    return statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement


def _acts(statements: Sequence[Statement]) -> bool:
    """Whether one of them does more than to prepare or to ask."""
    return any(not _prepares(each) for each in statements)


def _prepares(item: Statement) -> bool:
    if isinstance(item, cst.If):
        return item.orelse is None and all(
            isinstance(small, cst.Return | cst.Pass)
            for line in lines_of(item.body)
            for small in (line.body if isinstance(line, cst.SimpleStatementLine) else [cst.Break()])
        )
    return isinstance(item, cst.SimpleStatementLine) and all(
        isinstance(small, cst.Import | cst.ImportFrom | cst.Pass)
        or (isinstance(small, cst.Assign) and all(isinstance(each.target, cst.Name) for each in small.targets))
        for small in item.body
    )


def _meeting(tree: Tree, cuts: Sequence[Unit]) -> tuple[Block, list[Unit]]:
    """The block in which what is done for several objects stands side by side, and its statements that hold a cut.

    A loop over the objects is one statement, with all loops around it.
    """
    function = tree.function(cuts[0])
    paths = [[each for each in tree.path(unit) if tree.function(each[1]) is function] for unit in cuts]
    depth = 0
    while all(len(path) > depth + 1 and path[depth + 1][0] is paths[0][depth + 1][0] for path in paths):
        depth += 1
    if len({path[depth][1] for path in paths}) == 1 or isinstance(tree.parents[paths[0][depth][0]], cst.For):
        loops = [at for at in range(len(paths[0])) if at <= depth and isinstance(paths[0][at][1], cst.For)]
        depth = loops[-1] if loops else depth
        while depth and isinstance(paths[0][depth - 1][1], cst.For):
            depth -= 1
    return paths[0][depth][0], list(dict.fromkeys(path[depth][1] for path in paths))


def _distinct(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Each text once."""
    seen: set[str] = set()
    for each in statements:
        text = cst.Module([each.with_changes(leading_lines=())]).code
        if text not in seen:
            seen.add(text)
            yield each


def _short(name: str) -> str:
    """Class and method of a qualified name."""
    return ".".join(name.split(".")[-2:])
