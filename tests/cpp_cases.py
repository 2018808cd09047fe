"""Small C++ programs with known answers, and how to ask for them: `// !rule` ends the lines where a rule reports."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest

from graphlint import cpp
from graphlint.automaton import Automaton
from graphlint.cpp import orders
from graphlint.findings import Precision, Suspect
from graphlint.source import Source

pytest.importorskip("tree_sitter_cpp", reason="reading C++ needs the extra cpp")

MARKER = re.compile(r"// ?!(?P<rules>[\w, -]+)")

KEPT = "kept-under-capture"
GROWN = "replaced-when-small"
ORDER = "erased-first"
TWICE = "released-twice"

ERASED_FIRST = Automaton(
    "workspace",
    "live",
    {
        "live": {"graph_death": "dead"},
        "dead": {"capture": "live", "ws_release": "released", "erase": "erased"},
        "erased": {"ws_release": "HAZARD", "exit": "HAZARD"},
        "released": {"capture": "live"},
    },
)
RELEASED_TWICE = Automaton(
    "graphs", "live", {"live": {"graph_death": "dead"}, "dead": {"capture": "live", "graph_death": "HAZARD"}}
)


class Place(NamedTuple):
    """Where something is reported."""

    path: str
    row: int
    rule: str


def sources(files: dict[str, str]) -> dict[str, Source]:
    """The files of a program, by path, with their markers blanked."""
    return {
        path: Source(path, MARKER.sub(lambda match: " " * len(match.group()), textwrap.dedent(text)).encode())
        for path, text in files.items()
    }


def analysis(files: dict[str, str]) -> cpp.Analysis:
    """What the walks over a program say."""
    return cpp.Analysis(cpp.read(source) for source in sources(files).values() if cpp.wanted(source.content))


def suspects(of: cpp.Analysis) -> Iterator[Suspect]:
    """Every hazard of a program, under a rule's name for each kind."""
    for name, shape in cpp.SHAPES.items():
        yield from shape(of, name)
    yield from orders.suspects(of, ERASED_FIRST, ORDER, "erase")
    yield from orders.suspects(of, RELEASED_TWICE, TWICE, "last")


def reported(files: dict[str, str], *, low: bool = False) -> set[Place]:
    """Where the hazards of a program are reported; those of low precision only if asked for."""
    texts = sources(files)
    return {
        Place(one.path, texts[one.path].row(one.at.start), one.rule)
        for one in suspects(analysis(files))
        if low or one.precision is not Precision.LOW
    }


def marked(files: dict[str, str]) -> set[Place]:
    """Where a program's markers say that they are."""
    return {
        Place(path, row, rule.strip())
        for path, text in files.items()
        for row, line in enumerate(textwrap.dedent(text).splitlines(), 1)
        for match in MARKER.finditer(line)
        for rule in match["rules"].split(",")
    }


def as_files(program: str | dict[str, str]) -> dict[str, str]:
    """A program of one file or of several."""
    return {"program.cpp": program} if isinstance(program, str) else program


def ids(programs: Iterable[tuple[str, object]]) -> list[str]:
    """The sentences that name the programs."""
    return [name for name, _ in programs]
