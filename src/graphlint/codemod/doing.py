"""What code may do that its own text does not tell: it calls somebody, waits, or lets others run.

Which names a statement reads and binds (`graphlint.codemod.reading`) says nothing of that. A rewrite that exchanges a
statement with such code rests on what the code does elsewhere. All answers err on the side that asks.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

import libcst as cst

from graphlint.codemod.reading import dotted
from graphlint.codemod.tree import Tree

_WAITS = frozenset({"barrier", "join", "monitored_barrier", "sleep", "synchronize", "wait", "wait_for", "wait_stream"})
_SAFE_BUILTINS = frozenset(name for name in dir(builtins) if name.islower()) - {
    "anext",
    "breakpoint",
    "compile",
    "delattr",
    "eval",
    "exec",
    "exit",
    "input",
    "next",
    "open",
    "quit",
    "setattr",
}
_KNOWN = frozenset(
    {
        "gc.collect",
        "log",
        "time.monotonic",
        "time.perf_counter",
        "time.time",
        "torch.cuda.empty_cache",
        "torch.cuda.ipc_collect",
        "torch.cuda.reset_peak_memory_stats",
        "torch.empty_cache",
        "warnings.warn",
    }
)
_OF_CONTAINERS = frozenset(
    (
        *(
            "add",
            "append",
            "appendleft",
            "clear",
            "copy",
            "discard",
            "extend",
            "get",
            "items",
            "keys",
            "pop",
            "popitem",
        ),
        *("popleft", "remove", "setdefault", "update", "values"),
    )
)
_OF_LOGGERS = frozenset({"critical", "debug", "error", "exception", "info", "log", "warning"})
_PROPERTY = re.compile(r"@(?:\w+\.)?(?:cached_)?property\s+def (\w+)\(")
_SUSPENDS = "lets others run in between"
_PASSIVE_CONTEXTS = frozenset(
    {"annotate", "device", "inference_mode", "no_grad", "nullcontext", "record_function", "stream", "suppress"}
)


class Deed(NamedTuple):
    """Something that code does."""

    node: cst.CSTNode
    text: str
    """As a predicate: `calls x`, `waits for x`."""
    waits: bool
    """It does nothing but wait for the device, for a thread or for other ranks."""
    suspends: bool
    """Others run meanwhile, of the same thread."""


def deeds(tree: Tree, *nodes: cst.CSTNode, known: Collection[cst.CSTNode] = ()) -> Iterator[str]:
    """What `done` finds, each as a sentence that begins with its row."""
    for deed in done(tree, *nodes, known=known):
        yield f"row {tree.source.row(tree.spans[deed.node].start)} {deed.text}"


def done(tree: Tree, *nodes: cst.CSTNode, known: Collection[cst.CSTNode] = ()) -> Iterator[Deed]:
    """What these nodes do, functions that they define not included.

    Args:
        tree: that holds the nodes; what its file defines as a property is known to be none of a plain attribute.
        nodes: to look through.
        known: statements whose calls are known, or of a compound one what it enters; that they let others run, they do
            all the same.
    """
    properties = frozenset(_PROPERTY.findall(tree.whole))
    for node in nodes:
        visitor = _Visitor(known, properties)
        node.visit(visitor)
        yield from visitor.found


def entered(block: cst.With) -> Iterator[str]:
    """What entering a block may have to wait for, each as a predicate."""
    if block.asynchronous is not None:
        yield _SUSPENDS
    for item in block.items:
        if not _is_passive(item.item):
            yield f"enters `{_name(item.item)}`, which may wait"


class _Visitor(cst.CSTVisitor):
    def __init__(self, known: Collection[cst.CSTNode], properties: Collection[str]) -> None:
        super().__init__()
        self._properties = properties
        self.found: list[Deed] = []
        self._known = known
        self._inside = 0
        """How many known statements are around."""

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Note what the node does."""
        self._inside += node in self._known and not isinstance(node, cst.BaseCompoundStatement)
        match node:
            case cst.FunctionDef() | cst.Lambda() | cst.ClassDef():
                return False
            case cst.Await(expression=cst.Call() as call):
                is_wait = _last(call) in _WAITS
                self._note(node, f"awaits `{_name(call)}`, where others run", waits=is_wait, suspends=True)
                for argument in call.args:
                    argument.visit(self)
                return False
            case cst.Await() | cst.Yield():
                self._note(node, _SUSPENDS, suspends=True)
            case cst.For(asynchronous=cst.Asynchronous()) | cst.CompFor(asynchronous=cst.Asynchronous()):
                self._note(node, _SUSPENDS, suspends=True)
            case cst.With() if node not in self._known:
                for text in entered(node):
                    self._note(node, text, suspends=text == _SUSPENDS)
            case cst.While():
                self._note(node, "loops until something has happened", waits=True)
            case cst.Raise():
                return False
            case cst.Attribute(attr=cst.Name(value=name)) if name in self._properties and not self._inside:
                self._note(node, f"calls `{_name(node)}`")
            case cst.Call() if not self._inside and not _is_known(node):
                is_wait = _last(node) in _WAITS
                self._note(node, f"{'waits for' if is_wait else 'calls'} `{_name(node)}`", waits=is_wait)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        """Count known statements down again."""
        self._inside -= original_node in self._known and not isinstance(original_node, cst.BaseCompoundStatement)

    def _note(self, node: cst.CSTNode, text: str, *, waits: bool = False, suspends: bool = False) -> None:
        self.found.append(Deed(node, text, waits, suspends))


def _is_known(call: cst.Call) -> bool:
    """Whether a call neither waits nor touches what others hold: Python's own, a container's, a message to a log."""
    name = dotted(call.func)
    if isinstance(call.func, cst.Attribute):
        method = call.func.attr.value
        is_text = isinstance(call.func.value, cst.SimpleString | cst.FormattedString)
        if is_text or method in _OF_CONTAINERS or method.startswith(("is_", "has_")):
            return True
        owner = _name(call.func.value).rpartition(".")[2].lower()
        if method in _OF_LOGGERS and "log" in owner:
            return True
    return name in _KNOWN or name in _SAFE_BUILTINS or _is_passive(call)


def _is_passive(context: cst.BaseExpression) -> bool:
    """Whether to enter a context is nothing that others could make wait."""
    return isinstance(context, cst.Call) and _last(context) in _PASSIVE_CONTEXTS


def _last(call: cst.Call) -> str:
    return _name(call).rpartition(".")[2]


def _name(node: cst.BaseExpression) -> str:
    """What is called, or entered, as a reader knows it; without arguments and items."""
    match node:
        case cst.Call(func=func):
            return _name(func)
        case cst.Attribute(value=value, attr=attr):
            return f"{_name(value)}.{attr.value}"
        case cst.Subscript(value=value):
            return f"{_name(value)}[...]"
        case cst.Name(value=name):
            return name
    return "..."
