"""What a rewrite must know of the code that it moves or removes: what it reads, binds and calls, and whether it leaves.

All answers err on the side that forbids a rewrite. Places are dotted texts: `self.graphs`, `runner`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

_PREDICATES = frozenset(
    {"bool", "callable", "get", "getattr", "hasattr", "id", "isinstance", "issubclass", "len", "type"}
)
_VIEWS = frozenset(
    {"enumerate", "items", "keys", "list", "range", "reversed", "set", "sorted", "tuple", "values", "zip"}
)
_PASSIVE_CONTEXTS = frozenset(
    {"device", "stream", "suppress", "nullcontext", "no_grad", "inference_mode", "record_function", "annotate"}
)
_QUESTIONS = ("is_", "has_")

_OPPOSITES: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.Is: cst.IsNot,
    cst.IsNot: cst.Is,
    cst.In: cst.NotIn,
    cst.NotIn: cst.In,
    cst.Equal: cst.NotEqual,
    cst.NotEqual: cst.Equal,
}


def dotted(node: cst.CSTNode) -> str | None:
    """`a.b.c` as text; None for any other expression."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        base = dotted(node.value)
        return base and f"{base}.{node.attr.value}"
    return None


def overlap(one: str, other: str) -> bool:
    """Whether two places are the same or one holds the other."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


@dataclass(frozen=True)
class Uses:
    """What code does with names. A place that is bound through an item (`x[k] = v`) counts as bound and read."""

    reads: frozenset[str] = frozenset()
    binds: frozenset[str] = frozenset()
    receivers: frozenset[str] = frozenset()
    """What methods are called on; a call may change it."""
    exits: bool = False
    """It can leave what is around it by `return`, `raise`, `break` or `continue`."""
    suspends: bool = False
    """It can stop at a `yield`."""

    def __or__(self, other: Uses) -> Uses:
        return Uses(
            self.reads | other.reads,
            self.binds | other.binds,
            self.receivers | other.receivers,
            self.exits or other.exits,
            self.suspends or other.suspends,
        )

    @property
    def roots(self) -> frozenset[str]:
        """The variables that it reads."""
        return frozenset(place.split(".", 1)[0] for place in self.reads)


def uses(*nodes: cst.CSTNode) -> Uses:
    """What these nodes do with names, nested functions included."""
    found = Uses()
    for node in nodes:
        visitor = _Visitor()
        node.visit(visitor)
        found |= visitor.uses
    return found


def reads_outside(function: cst.CSTNode, loop: cst.For) -> frozenset[str]:
    """The variables that a function reads outside of a loop, and outside of other loops that bind the same ones."""
    visitor = _Visitor()
    bound = uses(loop.target).roots

    def visit(node: cst.CSTNode) -> None:
        for child in node.children:
            if child is loop or (isinstance(child, cst.For) and bound <= uses(child.target).roots):
                continue
            if isinstance(child, cst.BaseSmallStatement | cst.BaseExpression):
                child.visit(visitor)
            else:
                visit(child)

    visit(function)
    return visitor.uses.roots


def clash(one: Uses, other: Uses) -> str | None:
    """A place that one binds and the other reads or binds, so that their order matters; None where there is none."""
    for left, right in ((one, other), (other, one)):
        for bound in sorted(left.binds):
            for place in sorted(right.reads | right.binds):
                if overlap(bound, place):
                    return bound
    return None


def comments(*nodes: cst.CSTNode) -> Iterator[tuple[cst.Comment, bool]]:
    """The comments in these nodes, in their order, and whether each ends a line of code."""
    for node in nodes:
        visitor = _Comments()
        node.visit(visitor)
        yield from visitor.found


def is_pure(expression: cst.CSTNode) -> bool:
    """Whether nobody would miss the expression, were it not evaluated.

    Attribute reads and calls of predicates (`hasattr`, `is_available`, `.get`) count as pure.
    """
    visitor = _Purity()
    expression.visit(visitor)
    return visitor.pure


def is_passive(context: cst.BaseExpression) -> bool:
    """Whether entering and leaving a context does nothing that outlasts its block: a lock, a device, a stream."""
    if isinstance(context, cst.Call):
        return (dotted(context.func) or "").rpartition(".")[2] in _PASSIVE_CONTEXTS
    return dotted(context) is not None


def negated(test: cst.BaseExpression) -> cst.BaseExpression:
    """The test that is true where this one is false; `is` and `==` turn into their opposites."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return test.expression
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        only = test.comparisons[0]
        opposite = _OPPOSITES.get(type(only.operator))
        if opposite is not None:
            return test.with_changes(comparisons=[only.with_changes(operator=opposite())])
    binds_tighter = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Comparison)
    if not isinstance(test, binds_tighter) and not getattr(test, "lpar", ()):
        test = test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.UnaryOperation(operator=cst.Not(), expression=test)


class _Visitor(cst.CSTVisitor):
    """Collects uses. A target counts as read too where telling it apart would take more than it is worth."""

    def __init__(self) -> None:
        super().__init__()
        self.uses = Uses()
        self._loops = 0
        self._functions = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Note what the node does; visit its parts unless they are noted with it."""
        self._loops += isinstance(node, cst.For | cst.While)
        self._functions += isinstance(node, cst.FunctionDef | cst.Lambda)
        if (handled := self._binding(node)) is not None:
            return handled
        match node:
            case cst.Name(value=name):
                self._add(reads=[name])
            case cst.Attribute():
                if (place := dotted(node)) is None:
                    node.value.visit(self)
                else:
                    self._add(reads=[place])
                return False
            case cst.Arg():
                node.value.visit(self)
                return False
            case cst.Call(func=cst.Attribute(value=receiver)):
                if (place := dotted(receiver)) is not None:
                    self._add(receivers=[place])
            case cst.Return() | cst.Raise():
                self._add(exits=not self._functions)
            case cst.Break() | cst.Continue():
                self._add(exits=not self._loops)
            case cst.Yield():
                self._add(suspends=not self._functions)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        """Count loops and functions down again."""
        self._loops -= isinstance(original_node, cst.For | cst.While)
        self._functions -= isinstance(original_node, cst.FunctionDef | cst.Lambda)

    def _binding(self, node: cst.CSTNode) -> bool | None:
        """What `on_visit` returns for a node that binds names; None for others."""
        match node:
            case cst.AssignTarget(target=target) | cst.AsName(name=target):
                self._bind(target)
                return False
            case cst.AnnAssign():
                self._bind(node.target)
                if node.value is not None:
                    node.value.visit(self)
                return False
            case cst.AugAssign() | cst.NamedExpr() | cst.For() | cst.CompFor():
                self._bind(node.target)
                return True
            case cst.Del(target=target):
                for each in [item.value for item in target.elements] if isinstance(target, cst.Tuple) else [target]:
                    self._bind(each)
                return False
            case cst.ImportAlias():
                name = node.asname.name if node.asname is not None else node.name
                self._add(binds=[(dotted(name) or "").split(".", 1)[0]])
                return False
            case cst.ImportFrom(names=names):
                for alias in () if isinstance(names, cst.ImportStar) else names:
                    alias.visit(self)
                return False
            case cst.FunctionDef() | cst.ClassDef() | cst.NameItem() | cst.Param():
                self._add(binds=[node.name.value])
                return True
        return None

    def _bind(self, target: cst.CSTNode) -> None:
        if (place := dotted(target)) is not None:
            self._add(binds=[place])
            if isinstance(target, cst.Attribute) and dotted(target.value) not in ("self", "cls"):
                target.value.visit(self)
        elif isinstance(target, cst.Subscript):
            if (place := dotted(target.value)) is not None:
                self._add(binds=[place])
            target.visit(self)
        elif isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                self._bind(element.value)
        else:
            target.visit(self)

    def _add(
        self,
        reads: Iterable[str] = (),
        binds: Iterable[str] = (),
        receivers: Iterable[str] = (),
        *,
        exits: bool = False,
        suspends: bool = False,
    ) -> None:
        self.uses |= Uses(frozenset(reads), frozenset(binds), frozenset(receivers), exits, suspends)


class _Comments(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[cst.Comment, bool]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Note a comment, and whether it has a line for itself."""
        if isinstance(node, cst.EmptyLine):
            if node.comment is not None:
                self.found.append((node.comment, False))
            return False
        if isinstance(node, cst.Comment):
            self.found.append((node, True))
        return True


class _Purity(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.pure = True

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Look for what has an effect."""
        if isinstance(node, cst.Call):
            name = node.func.attr.value if isinstance(node.func, cst.Attribute) else dotted(node.func) or ""
            self.pure &= name in _PREDICATES or name in _VIEWS or name.startswith(_QUESTIONS)
        elif isinstance(node, cst.NamedExpr | cst.Await | cst.Yield):
            self.pure = False
        return self.pure
