"""Modules as LibCST trees, parsed no further than a rule looks; a byte span finds its node.

The analysis names places by byte spans; a rule wants the syntax there. LibCST needs seconds for a megabyte, so a
`Module` parses only the function that a rule asks for, and the whole file only when a rewrite reaches beyond it. A
function's text is parsed where it stands: behind lines `if 1:` any indentation is a block, so nothing is dedented, no
string changes, and positions differ from the file's by a constant.

`ast` and LibCST agree on the span of every expression and statement, with these exceptions. To `ast` the items of
`x[a, b]` are a tuple, to LibCST there is none. The parentheses of a tuple or a generator belong to it for `ast`, and so
they do here, unless they are a call's. Where a form feed stands in the indentation of a line Python starts to count
anew behind it, LibCST does not: what stands before it is left out of what LibCST reads and put back by the positions.
Files in other encodings than UTF-8 are read as UTF-8, and positions are those of the file.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias, TypeVar

import libcst as cst

from graphlint.codemod.positions import Spans, Written
from graphlint.source import Source, Span

Unit: TypeAlias = cst.BaseSmallStatement | cst.BaseCompoundStatement
"""A statement as Python counts them: LibCST's line of small statements is a line, not a unit."""

Block: TypeAlias = cst.Module | cst.BaseSuite
"""What holds statements."""

Loop: TypeAlias = cst.For | cst.While

_PARENTHESIZED = (cst.Tuple, cst.GeneratorExp)

_Node = TypeVar("_Node", bound=cst.CSTNode)
_Result = TypeVar("_Result")

_FORM_FEED = re.compile(r"^[ \t\x0c]*\x0c", re.MULTILINE)
_INDENTED = re.compile(r":[ \t]*(?:#[^\r\n]*)?(?:\r\n|\n|\r)(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\n|\r))*([ \t]+)[^\s#]")
_DEFINITION = re.compile(r"([ \t]*)(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
_HEADER = "if 1:"
_LARGEST = 1 << 20
"""Bytes of a file that LibCST is given whole: more would take longer than anybody waits."""
_STACK = 256 << 20
_RECURSION = 20_000
_HERE = threading.local()
"""Of this thread: whether its stack is deep."""


class NotParsedError(ValueError):
    """LibCST cannot read a file that the analysis has read."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: LibCST cannot read this file: {reason}")
        self.path = path
        self.reason = reason


class TooLargeError(NotParsedError):
    """A file would have to be read whole, and is too large for that."""

    def __init__(self, path: str, size: int) -> None:
        super().__init__(path, f"it has {size / (1 << 20):.1f} MiB, and would have to be read whole")


def with_deep_stack(work: Callable[[], _Result]) -> _Result:
    """Run `work` in a thread whose stack is deep enough for hundreds of nested expressions, and give back its result.

    Inside of `work` more of it is done where it is: the stack is deep there.
    """
    if getattr(_HERE, "is_deep", False):
        return work()
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        _HERE.is_deep = True
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    recursion, stack = sys.getrecursionlimit(), threading.stack_size(_STACK)
    sys.setrecursionlimit(max(recursion, _RECURSION))
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(stack)
        sys.setrecursionlimit(recursion)
    if errors:
        raise errors[0]
    return results[0]


class Modules(Mapping[str, "Module"]):
    """The modules of a project by path, each made when it is first asked for."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.sources = sources
        self._made: dict[str, Module] = {}

    def __getitem__(self, path: str) -> Module:
        if path not in self._made:
            self._made[path] = Module(self.sources[path])
        return self._made[path]

    @cached_property
    def stems(self) -> Mapping[str, str]:
        """What the path and the dotted name of each module have in common."""
        return {path: stem_of(path) for path in self.sources}

    def __iter__(self) -> Iterator[str]:
        return iter(self.sources)

    def __len__(self) -> int:
        return len(self.sources)


def stem_of(path: str) -> str:
    """What a module's path and its dotted name have in common."""
    return os.path.abspath(path).replace(os.sep, "/").removesuffix(".py").removesuffix("/__init__")


class Module:
    """One file, and the trees made of its parts."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._trees: dict[Span | None, Tree] = {}

    @cached_property
    def text(self) -> str:
        """The file's content.

        Raises:
            NotParsedError: it is not in its encoding.
        """
        try:
            return self.source.content.decode(self.source.encoding)
        except UnicodeDecodeError as error:
            raise NotParsedError(self.source.path, str(error)) from error

    def tree(self, definition: Span | None = None) -> Tree:
        """The tree of a function or class, or of the whole file; comments that end its block belong to it.

        Raises:
            NotParsedError: LibCST cannot read it.
            TooLargeError: the whole of it takes too long.
        """
        piece = definition and _piece(self.source, definition)
        if piece is None and len(self.source.content) > _LARGEST:
            raise TooLargeError(self.source.path, len(self.source.content))
        if piece not in self._trees:
            try:
                self._trees[piece] = with_deep_stack(lambda: _parse(self.source, self.text, piece))
            except RecursionError as error:  # Python 3.12 has a limit of its own, which no program can raise
                raise NotParsedError(self.source.path, "it is nested too deeply") from error
        return self._trees[piece]

    def symbol(self, definition: Span) -> str:
        """Qualified name of a function or class inside the module: `Runner.clear`; empty for the module itself.

        Read off the lines above by their indentation, since a parser would have to read the whole file for it.
        """
        names: list[str] = []
        limit = sys.maxsize
        first = self.source.row(definition.start)
        while (match := _DEFINITION.match(self.source.line(first))) is None:  # decorators
            first += 1
            if first > self.source.row(definition.end):
                return ""
        for row in range(first, 0, -1):
            if (match := _DEFINITION.match(self.source.line(row))) and len(match[1].expandtabs()) < limit:
                limit = len(match[1].expandtabs())
                names.append(match[2])
                if limit == 0:
                    break
        return ".".join(reversed(names))


class Tree:
    """The syntax of a file or of a part of it. Spans are byte offsets in the file."""

    def __init__(
        self, source: Source, whole: str, text: str, root: cst.Module, written: Written, offsets: Offsets
    ) -> None:
        self.source = source
        self.whole = whole
        """The text of the whole file."""
        self.text = text
        """What LibCST has read."""
        self.root = root
        self.offsets = offsets
        self.parents: Mapping[cst.CSTNode, cst.CSTNode] = written.parents
        """The node around each node that is written; a blank for a part that a pattern has not got is not."""
        self._written = written
        self._tokens = written.offsets

    @cached_property
    def spans(self) -> Spans:
        """Where each node stands."""
        places = self._written.places
        first = bisect_left(self._tokens, self.offsets.prefix)
        if first:
            frame = self.offsets.frame
            places = {node: place for node, place in places.items() if place[0] >= first and node not in frame}
        for node in [node for node in places if node.__class__ in _PARENTHESIZED]:  # `ast` counts their parentheses in
            assert isinstance(node, _PARENTHESIZED)
            if node.lpar:
                places[node] = (places[node.lpar[-1]][0], places[node.rpar[0]][1])
        return Spans(places, [self.offsets.in_file(offset) for offset in self._tokens])

    def code(self, changed: cst.Module) -> str:
        """The text of this tree as it is after changes: LibCST writes what is new, the rest is copied."""
        if not changed.has_trailing_newline:
            return changed.code  # LibCST takes the last of its tokens back
        tokens, known = self._written.tokens, self._written.statements
        pieces: list[str] = []
        for part in (*changed.header, *changed.body, *changed.footer):
            if part in known:
                pieces += tokens[slice(*known[part])]
            else:
                pieces.append(changed.code_for_node(part))
        return "".join(pieces) or changed.code

    def node_at(self, span: Span, kind: type[_Node]) -> _Node | None:
        """The node of this kind that has exactly this span; the outermost, should there be several."""
        found = [node for node in self.spans.at(span) if isinstance(node, kind)]
        return min(found, key=self._depth) if len(found) > 1 else next(iter(found), None)

    def enclosing(self, span: Span, kind: type[_Node]) -> _Node | None:
        """The smallest node of this kind around a span; a node that has the span itself counts."""
        around = [node for node in self.spans.around(span) if isinstance(node, kind)]

        def size(node: _Node) -> tuple[int, int]:
            start, end = self.spans[node]
            return end - start, -self._depth(node)

        return min(around, key=size, default=None)

    def statement(self, span: Span) -> Unit | None:
        """The smallest statement around a span: a small one, or the compound one whose header holds it.

        An `elif` is part of its `if`.
        """
        found = self.enclosing(span, cst.CSTNode)  # type: ignore[type-abstract] # any node
        if found is None:
            return None
        around = (outer for outer in (found, *self.ancestors(found)) if isinstance(outer, Unit))
        return next((outer for outer in around if not isinstance(self.parents.get(outer), cst.If)), None)

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The function around a node; a function is not around itself."""
        return next((outer for outer in self.ancestors(node) if isinstance(outer, cst.FunctionDef)), None)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around a node, innermost first."""
        while (outer := self.parents.get(node)) is not None:
            if outer in self.offsets.frame:
                return
            yield outer
            node = outer

    def path(self, node: cst.CSTNode) -> tuple[tuple[Block, Unit], ...]:
        """The blocks around a node, outermost first, each with its statement that holds the node."""
        found: list[tuple[Block, Unit]] = []
        unit: cst.CSTNode = node
        for outer in self.ancestors(node):
            if isinstance(outer, Block) and isinstance(unit, Unit):
                found.append((outer, unit))
            if not isinstance(outer, cst.SimpleStatementLine):
                unit = outer
        return tuple(reversed(found))

    def _depth(self, node: cst.CSTNode) -> int:
        return sum(1 for _ in self.ancestors(node))


class Offsets:
    """Where the text that LibCST has read stands in its file."""

    def __init__(self, start: int, prefix: int, in_file: Sequence[int] | None, frame: frozenset[cst.CSTNode]) -> None:
        self.prefix = prefix
        """Bytes of the line in front of the text that is not in the file."""
        self.frame = frame
        """Nodes made by that line."""
        self._start = start
        self._in_file = in_file

    def in_file(self, offset: int) -> int:
        """Offset in the file of a byte of the text (in UTF-8)."""
        if self._in_file is None or offset < self.prefix:
            return self._start + offset - self.prefix
        return self._in_file[min(offset - self.prefix, len(self._in_file) - 1)]


def exclusive(tree: Tree, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two nodes stand in different branches of one statement, so that a run passes one of them at most.

    In a loop a run can pass both, one after the other.
    """
    above = [one, *tree.ancestors(one)]
    below = [other, *tree.ancestors(other)]
    meeting = next((node for node in above if node in below), None)
    if not isinstance(meeting, cst.If | cst.Match) or meeting in (one, other):
        return False
    if any(isinstance(outer, Loop) for outer in tree.ancestors(meeting)):
        return False
    if isinstance(meeting, cst.Match):
        return True
    return above[above.index(meeting) - 1] is not meeting.test and below[below.index(meeting) - 1] is not meeting.test


def units(block: Block) -> Iterator[Unit]:
    """The statements of a block, one by one."""
    for item in block.body:
        if isinstance(item, cst.SimpleStatementLine):
            yield from item.body
        elif isinstance(item, Unit):
            yield item


def _piece(source: Source, definition: Span) -> Span | None:
    """The lines of a definition and the comments that end its block; None where the whole file has to be read."""
    content, starts = source.content, source.line_starts
    row = source.row(definition.start)
    start = starts[row - 1]
    lead = content[start : definition.start]
    if lead.strip(b" \t\x0c") or (definition.start == 0 and definition.end == len(content)):
        return None
    if _DEFINITION.match(source.text(definition)) is None and not content.startswith(b"@", definition.start):
        return None
    following = source.row(max(definition.start, definition.end - 1)) + 1
    end = following
    while following <= len(starts):
        line = source.line(following)
        code = line.lstrip(" \t\x0c")
        if code and (not code.startswith("#") or len(line) - len(code) <= len(lead)):
            break
        following += 1
        if code:
            end = following
    return Span(start, starts[end - 1] if end <= len(starts) else len(content))


def _parse(source: Source, whole: str, piece: Span | None) -> Tree:
    start, end = piece or Span(3 if source.encoding == "utf-8-sig" else 0, len(source.content))
    codec = "utf-8" if source.encoding == "utf-8-sig" else source.encoding
    text = source.content[start:end].decode(codec)
    newline = match[0] if (match := re.search(r"\r\n|\n|\r", whole)) else "\n"
    unit = match[1] if (match := _INDENTED.search(whole)) else "    "
    in_file = None
    if codec != "utf-8" or "\x0c" in text:
        text, in_file = _without_form_feeds(text, start, codec)
    prefix = _headers(text, unit, newline) if piece is not None else ""
    text = prefix + text
    try:
        root = cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise NotParsedError(source.path, f"{error.message} at row {error.raw_line}") from error
    written = Written(root)
    if written.text != text:
        raise NotParsedError(source.path, "it would be written differently than read")
    frame: list[cst.CSTNode] = []
    outer: cst.CSTNode = root
    for _ in range(prefix.count(_HEADER)):
        assert isinstance(outer, cst.Module | cst.IndentedBlock)
        (header,) = outer.body
        assert isinstance(header, cst.If)
        frame += (outer, header)
        outer = header.body
    offsets = Offsets(start, len(prefix), in_file, frozenset([*frame, outer] if frame else ()))
    return Tree(source, whole, text, root, written, offsets)


def _headers(text: str, unit: str, newline: str) -> str:
    """The lines that make a text's indentation that of a block; LibCST takes the first one's for its file's."""
    indentation = text[: len(text) - len(text.lstrip(" \t"))]
    if not indentation:
        return ""
    levels = len(indentation) // len(unit)
    if indentation != unit * levels:
        return _HEADER + newline
    return "".join(f"{unit * level}{_HEADER}{newline}" for level in range(levels))


def _without_form_feeds(text: str, start: int, codec: str) -> tuple[str, Sequence[int]]:
    """The text without form feeds among its indentation, and for each of its bytes in UTF-8 the offset in the file."""
    dropped = {at for match in _FORM_FEED.finditer(text) for at in range(*match.span())}
    kept: list[str] = []
    offsets: list[int] = []
    at = start
    for index, character in enumerate(text):
        if index not in dropped:
            kept.append(character)
            offsets += [at] * len(character.encode())
        at += len(character.encode(codec))
    return "".join(kept), (*offsets, at)
