"""Reads the corpus of small programs in `tests/corpus`, and what the analysis sees in them.

A program is a section of a page, one file a code block. A block belongs to the file that the line before it names, or
to `a.py`. A comment at a line's end says what the analysis has to find there:

    self.clear()            # -> a.Runner.clear                 it calls this function of the program
    self.graph = None       # -> graph_death self.graph         it, or what it calls, has this effect on this place
    flush()                 # -> cache.flush, erase             several
    build()                 # -> a.build (missed)               known to be missed: finding it fails the test

A line that says something is held to it: calls of the program's functions that are not listed are reported as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from graphlint import behavior as b
from graphlint import summaries, vocabulary
from graphlint.effects import Effect
from graphlint.source import Source
from graphlint.typestate import place_text

CORPUS = Path(__file__).parent / "corpus"

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"(?:^`(?P<file>[\w/]+\.py)`:\n\n)?^```python\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_EXPECTED = re.compile(r"# -> (.+)$")
_EFFECTS = {effect.value for effect in Effect}


class Edge(NamedTuple):
    """What a line of a file leads to: a function by its dotted name, or an effect and the place it is about."""

    file: str
    row: int
    target: str

    @property
    def is_call(self) -> bool:
        return self.target.partition(" ")[0] not in _EFFECTS

    def __str__(self) -> str:
        return f"{self.file}:{self.row} -> {self.target}"


@dataclass(frozen=True)
class Program:
    """One section of a page."""

    page: str
    title: str
    files: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.page}: {self.title}"

    @property
    def length(self) -> int:
        """Rows that are not blank."""
        return sum(bool(line.strip()) for _, text in self.files for line in text.splitlines())

    def expected(self) -> Iterator[tuple[Edge, bool]]:
        """What the comments say, and whether it is known to be missed."""
        for file, text in self.files:
            for row, line in enumerate(text.splitlines(), 1):
                if match := _EXPECTED.search(line):
                    for target in match.group(1).split(", "):
                        yield Edge(file, row, target.removesuffix(" (missed)")), target.endswith(" (missed)")


def programs() -> list[Program]:
    """Every program of the corpus, page by page."""
    return [program for page in sorted(CORPUS.glob("*.md")) for program in _read(page)]


def _read(page: Path) -> Iterator[Program]:
    _, *rest = _SECTION.split(page.read_text(encoding="utf-8"))
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        files = tuple((match["file"] or "a.py", match["text"]) for match in _BLOCK.finditer(body))
        yield Program(page.stem, title, files)


def found(program: Program) -> set[Edge]:
    """Every call and effect that the analysis sees in a program."""
    sources = [Source(f"src/{file}", text.encode()) for file, text in program.files]
    edges: set[Edge] = set()
    for analysis in summaries.load(sources, vocabulary.load(), ["src"]):
        functions = analysis.project.functions
        for each in analysis.behaviors.all():
            source = functions[each.function].module.source
            for node in b.walk(each.node):
                if isinstance(node, b.Calls):
                    row = source.row(node.span.start)
                    edges |= {Edge(source.path[4:], row, _plain(key)) for key in node.behaviors}
        for root in analysis.effectful.values():
            for site in analysis.sites(root):
                frame = site.event.stack[0]
                source = functions[frame.function].module.source
                row = source.row(frame.span.start)
                places = {place_text(place, analysis, root) for place in site.places}
                for text in places or {""}:
                    edges.add(Edge(source.path[4:], row, f"{site.effect.value} {text}".strip()))
    return edges


def _plain(key: str) -> str:
    """A behavior's function: without argument types, and nested functions without their offset."""
    return re.sub(r"@\d+", "", key.partition("|")[0])
