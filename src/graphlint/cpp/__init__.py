"""C++ and CUDA: the same hazards where the code that allocates, captures and releases is not Python.

    facts = [cpp.read(source) for source in sources if cpp.wanted(source.content)]
    analysis = cpp.Analysis(facts)
    findings = [cpp.finding(suspect, rule) for suspect in cpp.suspects(analysis, rule)]

and for Python that calls it, whose rules then know what the C++ does:

    effects = cpp.bound_effects(analysis)                 # their entries: what the vocabulary of a first look needs
    joined = cpp.kept_by(effects, python)                 # their entries: what the vocabulary of the second look has
    suspects = [cpp.crossed(suspect, joined) for suspect in ...]

`read` needs tree-sitter and its C++ grammar, the extra `cpp`; importing this package does not.
"""

from collections.abc import Iterator

from graphlint.cpp import orders
from graphlint.cpp.analysis import Analysis
from graphlint.cpp.bound import BoundEffect, Joined, bound_effects, crossed, kept_by
from graphlint.cpp.facts import CppFacts
from graphlint.cpp.pragmas import pragmas
from graphlint.cpp.reader import SUFFIXES, MissingGrammarError, read, wanted
from graphlint.cpp.shapes import SHAPES
from graphlint.findings import Finding, Suspect
from graphlint.rule import Rule

__all__ = [
    "SHAPES",
    "SUFFIXES",
    "Analysis",
    "BoundEffect",
    "CppFacts",
    "Joined",
    "MissingGrammarError",
    "bound_effects",
    "crossed",
    "finding",
    "kept_by",
    "pragmas",
    "read",
    "suspects",
    "wanted",
]


def suspects(analysis: Analysis, rule: Rule) -> Iterator[Suspect]:
    """The places of a rule's hazard in C++: by its automaton, by the shape that it names as `cpp`, or none."""
    if rule.automaton is not None:
        yield from orders.suspects(analysis, rule.automaton, rule.name, rule.reported_at)
    elif rule.cpp is not None:
        yield from SHAPES[rule.cpp](analysis, rule.name)


def finding(suspect: Suspect, rule: Rule) -> Finding:
    """What a rule reports at a place in C++: nothing confirms it in another syntax tree, and nothing rewrites it."""
    return Finding(
        rule.name,
        suspect.severity or rule.severity,
        suspect.precision or rule.precision,
        rule.message.format_map(suspect.values),
        suspect.path,
        suspect.at,
        suspect.function,
        suspect.values["symbol"].replace("::", "."),
        suspect.trace,
        suspect.values,
    )
