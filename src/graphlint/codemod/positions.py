"""Where the nodes of a tree stand and what is around them, noted while LibCST writes the tree's text.

LibCST's own providers tell the same (`ByteSpanPositionProvider`, `ParentNodeProvider`), each in a pass of its own, and
each slower than the writing, which a tree that was just read needs anyway: it has to be written as it was read. So one
pass does all three.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

import libcst as cst
from libcst._nodes.internal import CodegenState

from graphlint.source import Span


class Written(CodegenState):
    """The text of a tree as LibCST writes it, in tokens; for each node its first token and the one behind its last."""

    def __init__(self, root: cst.Module) -> None:
        super().__init__(root.default_indent, root.default_newline)
        self.places: dict[cst.CSTNode, tuple[int, int]] = {}
        """Without the blanks that belong to a node, as LibCST's providers have it."""
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.statements: dict[cst.CSTNode, tuple[int, int]] = {}
        """The same of the parts of the module itself, with their blanks and comments."""
        self._around: list[cst.CSTNode] = []
        self._starts: list[int] = []
        self._narrowed: list[tuple[cst.CSTNode, int, cst.CSTNode | None, cst.CSTNode | None]] = []
        self._has_dropped_newline = False
        root._codegen(self)  # noqa: SLF001 - as LibCST's providers do

    @property
    def text(self) -> str:
        """What is written."""
        return "".join(self.tokens[:-1] if self._has_dropped_newline else self.tokens)

    @property
    def offsets(self) -> Sequence[int]:
        """The byte offset of each token in UTF-8, and of the end."""
        if all(map(str.isascii, self.tokens)):
            return [0, *accumulate(map(len, self.tokens))]
        return [0, *accumulate(len(token.encode()) for token in self.tokens)]

    # ------------------------------------------------------------------------------------------- called by the nodes

    def pop_trailing_newline(self) -> None:
        """The file does not end in a newline: its last node does all the same."""
        self._has_dropped_newline = bool(self.tokens)

    def before_codegen(self, node: cst.CSTNode) -> None:
        """A node begins."""
        if self._around:
            self.parents[node] = self._around[-1]
        self._around.append(node)
        self._starts.append(len(self.tokens))

    def after_codegen(self, node: cst.CSTNode) -> None:
        """A node has ended."""
        self._around.pop()
        start = self._starts.pop()
        if node not in self.places:
            self.places[node] = (start, len(self.tokens))
        if len(self._around) == 1:
            self.statements[node] = (start, len(self.tokens))

    def record_syntactic_position(  # type: ignore[override] # a context manager, if not a generator's
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Written:
        """What a node is without the blanks around it begins here and ends with the context."""
        self._narrowed.append((node, len(self.tokens), start_node, end_node))
        return self

    def __enter__(self) -> None:
        """Nothing: `record_syntactic_position` has noted the start."""

    def __exit__(self, *_: object) -> None:
        """Note the end."""
        node, start, first, last = self._narrowed.pop()
        if first is not None:
            start = self.places[first][0]
        self.places[node] = (start, len(self.tokens) if last is None else self.places[last][1])


class Spans(Mapping[cst.CSTNode, Span]):
    """The spans of nodes; each is made when it is asked for, since few of a large tree are."""

    def __init__(self, places: Mapping[cst.CSTNode, tuple[int, int]], offsets: Sequence[int]) -> None:
        """Take the tokens of the nodes, and for each token its offset in the file."""
        self._places = places
        self._offsets = offsets

    def __getitem__(self, node: cst.CSTNode) -> Span:
        start, end = self._places[node]
        return Span(self._offsets[start], self._offsets[end])

    def __iter__(self) -> Iterator[cst.CSTNode]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def around(self, span: Span) -> Iterator[cst.CSTNode]:
        """The nodes that contain a span."""
        last_start = bisect_right(self._offsets, span.start) - 1
        first_end = bisect_left(self._offsets, span.end)
        return (node for node, (start, end) in self._places.items() if start <= last_start and end >= first_end)

    def at(self, span: Span) -> Iterator[cst.CSTNode]:
        """The nodes that have exactly this span."""
        ends = range(bisect_left(self._offsets, span.end), bisect_right(self._offsets, span.end))
        for start in range(bisect_left(self._offsets, span.start), bisect_right(self._offsets, span.start)):
            yield from (node for node, end in self._by_start.get(start, ()) if end in ends)

    @cached_property
    def _by_start(self) -> Mapping[int, Sequence[tuple[cst.CSTNode, int]]]:
        """By their first tokens, the nodes and what is behind their last."""
        found: dict[int, list[tuple[cst.CSTNode, int]]] = {}
        for node, (start, end) in self._places.items():
            found.setdefault(start, []).append((node, end))
        return found
