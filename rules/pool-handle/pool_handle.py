"""Retires a pool handle where the last graph of its pool dies.

The reported place is what kills the graphs without retiring the handle, or the handle's store where nothing ever
retires it. A suspect's values (places are JSON objects with path and span, `[start, end]`):

    place    what keeps the handle, as the message names it
    kind     who keeps it: `instance`, `class`, `module`, or `cached` for a function that remembers its result
    owner    qualified name of that class, module or function; nothing for an instance
    name     name of the attribute or variable; nothing for a function
    lazy     "yes" where the handle is made only where there is none; of a class or module it has to be a function that
             makes it and hands it out, for whoever reads the store itself would find none
    store    place of the statement that defines it in its class or module; nothing for an instance or a function
    mints    JSON list: places of the statements that make a handle and keep it there
    reads    JSON list: places of the expressions that read it, but for those that only decide whether to make one
    retire   JSON list, one for each way down: path and span of what kills the last graph, and `holders`, texts of
             attributes that hold the handle there (of an instance the store itself, else copies)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from graphlint import codemod
from graphlint.edits import Applicability, Fix
from graphlint.findings import Finding, Suspect
from graphlint.source import Span

_MINT = "torch.cuda.graph_pool_handle"


class _NoTextError(Exception):
    """There is no right text for a part of the rewrite."""


def confirm(suspect: Suspect, module: codemod.Module) -> Finding | None:
    """The finding, unless the reported place is no statement any more."""
    if module.tree(suspect.function).statement(suspect.at) is None:
        return None
    return codemod.confirmed(suspect, module)


def fix(finding: Finding, modules: codemod.Modules) -> Fix | None:
    """Retire the handle on every way down, and make one anew where it is read."""
    ways = json.loads(finding.values.get("retire", "[]"))
    if not ways:
        return None
    rewrites = codemod.Rewrites(modules)
    kind, owner = (finding.values.get(key, "") for key in ("kind", "owner"))
    lazy = finding.values.get("lazy") == "yes" and not (kind in ("class", "module") and _is_read_raw(finding, rewrites))
    try:
        for way in ways:
            if kind == "instance":
                _retire(rewrites, modules, way, None, mint=not lazy)
            elif kind == "cached":
                _retire(rewrites, modules, way, f"{owner}.cache_clear")
            else:
                _retire(rewrites, modules, way, f"{owner}.{_accessor('retire', finding)}")
        if kind in ("class", "module"):
            _add_accessors(finding, modules, rewrites, ["retire"] if lazy else ["get", "retire"])
            if not lazy:
                _read_through_accessor(finding, rewrites)
    except _NoTextError:
        return None
    edits = rewrites.edits()
    conditions: list[str] = []
    if finding.values.get("rest"):
        conditions.append(
            "no graph of the pool is left: the loop that ends them goes over something else than their table"
        )
    if (count := len({edit.path for edit in edits})) > 1:
        place = finding.values["place"]
        conditions.append(f"{count} files change together, and whoever else reads {place} has to ask the accessor")
    return Fix(
        title="retire the pool handle with the last graph of its pool",
        applicability=Applicability.UNSAFE if conditions else Applicability.SAFE,
        edits=edits,
        conditions=tuple(conditions),
    )


def _accessor(verb: str, finding: Finding) -> str:
    return f"{verb}_{finding.values['name'].lstrip('_').lower()}"


def _at(place: Mapping[str, Any]) -> Span:
    return Span(*place["span"])


def _places(finding: Finding, key: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = json.loads(finding.values.get(key, "[]"))
    return found


# ------------------------------------------------------------------------------------------------------ on the way down


def _retire(
    rewrites: codemod.Rewrites,
    modules: codemod.Modules,
    way: Mapping[str, Any],
    release: str | None,
    *,
    mint: bool = False,
) -> None:
    """Give the handle up behind the statement that kills the last graph.

    Args:
        rewrites: of all files.
        modules: of the project.
        way: down, as the suspect's values have it.
        release: qualified name of what retires a handle that others share.
        mint: whether the holders get a new handle at once, since nobody makes one later.
    """
    rewrite = rewrites[way["path"]]
    tree = rewrite.tree
    death = tree.statement(_at(way))
    function = None if death is None else tree.function(death)
    if death is None or function is None or isinstance(death, codemod.cst.Return | codemod.cst.Raise):
        raise _NoTextError
    last = _behind_all(tree, death, function)
    used = codemod.uses(function)
    column = tree.source.position(tree.spans[last].start).column - 1
    lines: list[str] = []

    def name(qualified: str) -> str:
        found = codemod.reference(modules, way["path"], qualified, used, column)
        if found is None:
            raise _NoTextError
        if found.statement is not None:
            lines.extend((found.statement, ""))
        return found.expression

    if release is not None:
        lines.append(f"{name(release)}()")
    value = f"{name(_MINT)}()" if mint else "None"
    bound = _bound_behind(tree, last)
    lines += [f"{holder} = {value}" for holder in way.get("holders", ()) if holder not in bound]
    if lines:
        rewrite.insert_after(last, "\n".join(lines) + "\n")


def _bound_behind(tree: codemod.Tree, unit: codemod.Unit) -> frozenset[str]:
    """What the statements behind one in its block bind, whatever happens."""
    behind = list(codemod.units(tree.path(unit)[-1][0]))
    plain = (codemod.cst.Assign, codemod.cst.AnnAssign)
    return codemod.uses(*(each for each in behind[behind.index(unit) + 1 :] if isinstance(each, plain))).binds


def _behind_all(tree: codemod.Tree, death: codemod.Unit, function: codemod.cst.FunctionDef) -> codemod.Unit:
    """The outermost loop around a statement, or `if` that only asks for what dies, with nothing but those in between."""
    last = death
    for block, unit in reversed(tree.path(death)):
        if tree.function(unit) is not function:
            break
        if unit is not death and not isinstance(unit, codemod.Loop):
            if not isinstance(unit, codemod.cst.If) or last not in codemod.units(unit.body):
                break
            if not _asks_for(unit.test, last):
                break
        last = unit
        if block is function.body:
            break
    return last


def _asks_for(test: codemod.cst.BaseExpression, unit: codemod.Unit) -> bool:
    """Whether a test asks for no more than whether there is what a statement works with."""
    cst = codemod.cst
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return _asks_for(test.left, unit) and _asks_for(test.right, unit)
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        only = test.comparisons[0]
        limit = codemod.dotted(only.comparator) or getattr(only.comparator, "value", None)
        if isinstance(only.operator, cst.IsNot) and limit == "None":
            return True
        if not isinstance(only.operator, cst.GreaterThan | cst.NotEqual) or limit != "0":
            return False
        test = test.left
    if isinstance(test, cst.Call) and codemod.dotted(test.func) in ("len", "bool", "hasattr", "getattr"):
        test = test.args[0].value
    place = codemod.dotted(test)
    return place is not None and codemod.mentions(codemod.uses(unit), place)


# ---------------------------------------------------------------------------------------------------- where it is kept


def _is_read_raw(finding: Finding, rewrites: codemod.Rewrites) -> bool:
    """Whether somebody reads the handle elsewhere than in a function that makes one if there is none."""
    makers = set()
    for mint in _places(finding, "mints"):
        tree = rewrites[mint["path"]].tree
        statement = tree.statement(_at(mint))
        makers.add(statement and tree.function(statement))
    for read in _places(finding, "reads"):
        tree = rewrites[read["path"]].tree
        statement = tree.statement(_at(read))
        if statement is not None and tree.function(statement) not in makers:
            return True
    return False


def _add_accessors(
    finding: Finding, modules: codemod.Modules, rewrites: codemod.Rewrites, verbs: Sequence[str]
) -> None:
    """Give the owner what retires the handle, and what hands it out if nothing does yet."""
    store = json.loads(finding.values["store"])
    rewrite = rewrites[store["path"]]
    tree = rewrite.tree
    statement = tree.statement(_at(store))
    if statement is None:
        raise _NoTextError
    holder = next((outer for outer in tree.ancestors(statement) if isinstance(outer, codemod.cst.ClassDef)), None)
    if (holder is not None) is not (finding.values["kind"] == "class"):
        raise _NoTextError
    names = [_accessor(verb, finding) for verb in verbs]
    block = tree.root if holder is None else holder.body
    assert isinstance(block, codemod.Block)
    members = list(codemod.units(block))
    if any(isinstance(each, codemod.cst.FunctionDef) and each.name.value in names for each in members):
        raise _NoTextError
    anchor = _anchor(finding, tree, members)
    for name in names:
        text = (
            _getter(finding, modules, tree, statement, holder) if name.startswith("get") else _retirer(finding, holder)
        )
        if holder is not None:
            rewrite.add_method(holder, text, anchor)
        else:
            rewrite.add_function(text, anchor)


def _anchor(finding: Finding, tree: codemod.Tree, members: Sequence[codemod.Unit]) -> codemod.Unit:
    """The member to put the accessors behind: what made the handle so far, else the last definition."""
    definitions = [each for each in members if isinstance(each, codemod.cst.FunctionDef | codemod.cst.ClassDef)]
    made = {_at(mint) for mint in _places(finding, "mints")}
    makers = [each for each in definitions if any(tree.spans[each].contains(span) for span in made)]
    return (makers or definitions or members)[-1]


def _getter(
    finding: Finding,
    modules: codemod.Modules,
    tree: codemod.Tree,
    store: codemod.Unit,
    holder: codemod.cst.ClassDef | None,
) -> str:
    made = codemod.reference(modules, tree.source.path, _MINT, codemod.Uses())
    if made is None or made.statement is not None:
        raise _NoTextError
    name = finding.values["name"]
    place = name if holder is None else f"{holder.name.value}.{name}"
    return "\n".join(
        (
            *(() if holder is None else ("@staticmethod",)),
            f"def {_accessor('get', finding)}() -> {_type(tree, store)}:",
            '    """Return the handle of the shared pool; a new one where the last was retired."""',
            *((f"    global {name}",) if holder is None else ()),
            f"    if {place} is None:",
            f"        {place} = {made.expression}()",
            f"    return {place}",
            "",
        )
    )


def _retirer(finding: Finding, holder: codemod.cst.ClassDef | None) -> str:
    name = finding.values["name"]
    place = name if holder is None else f"{holder.name.value}.{name}"
    return "\n".join(
        (
            *(() if holder is None else ("@staticmethod",)),
            f"def {_accessor('retire', finding)}() -> None:",
            '    """Forget the handle: the graphs captured into it are dead, and their pool goes with them."""',
            *((f"    global {name}",) if holder is None else ()),
            f"    {place} = None",
            "",
        )
    )


def _type(tree: codemod.Tree, store: codemod.Unit) -> str:
    """What the store's annotation says that a handle is."""
    text = "tuple[int, int]"
    if isinstance(store, codemod.cst.AnnAssign):
        text = tree.source.text(tree.spans[store.annotation.annotation])
        while wrapped := re.fullmatch(r"(?:\w+\.)?(?:ClassVar|Optional|Final)\[(.*)\]", text, re.DOTALL):
            text = wrapped[1]
        text = re.sub(r"\s*\|\s*None$|^None\s*\|\s*", "", text)
    return text


# ----------------------------------------------------------------------------------------------------- where it is read


def _read_through_accessor(finding: Finding, rewrites: codemod.Rewrites) -> None:
    """Ask the accessor at every read; what made a handle ahead of them has no more to do."""
    deciding: set[codemod.cst.CSTNode] = set()
    store = json.loads(finding.values["store"])
    for mint in _places(finding, "mints"):
        rewrite = rewrites[mint["path"]]
        statement = rewrite.tree.statement(_at(mint))
        if statement is None:
            raise _NoTextError
        if rewrite.tree.statement(_at(store)) is statement and mint["path"] == store["path"]:
            if not isinstance(statement, codemod.cst.Assign | codemod.cst.AnnAssign) or statement.value is None:
                raise _NoTextError
            rewrite.replace(statement.value, "None")
            continue
        deciding.update(outer.test for outer in rewrite.tree.ancestors(statement) if isinstance(outer, codemod.cst.If))
        deciding.add(statement)
        rewrite.delete(statement)
    getter = _accessor("get", finding)
    for read in _places(finding, "reads"):
        rewrite = rewrites[read["path"]]
        tree = rewrite.tree
        node = tree.node_at(_at(read), codemod.cst.BaseExpression)  # type: ignore[type-abstract] # any expression
        if node is None or not deciding.isdisjoint((node, *tree.ancestors(node))):
            continue
        if isinstance(node, codemod.cst.Attribute) and node.attr.value == finding.values["name"]:
            rewrite.replace(node, f"{tree.source.text(tree.spans[node.value])}.{getter}()")
        elif (
            isinstance(node, codemod.cst.Name) and finding.values["kind"] == "module" and read["path"] == store["path"]
        ):
            rewrite.replace(node, f"{getter}()")
        else:
            raise _NoTextError
