"""Between findings and LibCST: the syntax under a span, and rewrites of it as edits.

Outside this package only the rules' own Python files import LibCST, and nothing imports either before there is a
suspect: LibCST takes longer to import than most runs take.
"""

from graphlint.codemod.arguments import takes_positional
from graphlint.codemod.finding import confirmed
from graphlint.codemod.names import Reference, reference
from graphlint.codemod.reading import Uses, clash, comments, dotted, is_passive, is_pure, negated, overlap, uses
from graphlint.codemod.rewrite import Rewrite, Rewrites
from graphlint.codemod.tree import Block, Loop, Module, Modules, NotParsedError, Tree, Unit, exclusive, units

__all__ = [
    "Block",
    "Loop",
    "Module",
    "Modules",
    "NotParsedError",
    "Reference",
    "Rewrite",
    "Rewrites",
    "Tree",
    "Unit",
    "Uses",
    "clash",
    "comments",
    "confirmed",
    "dotted",
    "exclusive",
    "is_passive",
    "is_pure",
    "negated",
    "overlap",
    "reference",
    "takes_positional",
    "units",
    "uses",
]
