"""C++ and CUDA: the same hazards where the code that allocates, captures and releases is not Python.

    facts = [cpp.read(source) for source in sources if cpp.wanted(source.content)]
    analysis = cpp.Analysis(facts)
    suspects = cpp.suspects(analysis, kind="kept-under-capture", rule=name)
    effects = cpp.bound_effects(analysis)

`read` needs tree-sitter and its C++ grammar, the extra `cpp`; importing this package does not.
"""

from collections.abc import Iterator

from graphlint.cpp.facts import CppFacts
from graphlint.cpp.hazards import HAZARDS, Analysis, BoundEffect, bound_effects
from graphlint.cpp.reader import SUFFIXES, MissingGrammarError, read, wanted
from graphlint.findings import Suspect

__all__ = [
    "HAZARDS",
    "SUFFIXES",
    "Analysis",
    "BoundEffect",
    "CppFacts",
    "MissingGrammarError",
    "bound_effects",
    "read",
    "suspects",
    "wanted",
]


def suspects(analysis: Analysis, *, kind: str, rule: str) -> Iterator[Suspect]:
    """The places of one kind of hazard (a key of `HAZARDS`), as suspects of a rule."""
    return HAZARDS[kind](analysis, rule)
