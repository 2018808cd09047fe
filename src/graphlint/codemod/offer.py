"""What the layer between findings and LibCST offers, by its names."""

import libcst as cst

from graphlint.codemod.arguments import takes_positional
from graphlint.codemod.doing import deeds, done, entered
from graphlint.codemod.finding import confirmed
from graphlint.codemod.moving import asserts, facing, meeting, mentions, other_names, swap, with_supply
from graphlint.codemod.names import Reference, reference
from graphlint.codemod.parting import PartingError
from graphlint.codemod.reading import Uses, clash, comments, dotted, is_passive, is_pure, negated, overlap, uses
from graphlint.codemod.rewrite import Rewrite, Rewrites
from graphlint.codemod.splitting import once_for_all
from graphlint.codemod.tree import (
    Block,
    Loop,
    Module,
    Modules,
    NotParsedError,
    TooLargeError,
    Tree,
    Unit,
    exclusive,
    units,
    with_deep_stack,
)

__all__ = [
    "Block",
    "Loop",
    "Module",
    "Modules",
    "NotParsedError",
    "PartingError",
    "Reference",
    "Rewrite",
    "Rewrites",
    "TooLargeError",
    "Tree",
    "Unit",
    "Uses",
    "asserts",
    "clash",
    "comments",
    "confirmed",
    "cst",
    "deeds",
    "done",
    "dotted",
    "entered",
    "exclusive",
    "facing",
    "is_passive",
    "is_pure",
    "meeting",
    "mentions",
    "negated",
    "once_for_all",
    "other_names",
    "overlap",
    "reference",
    "swap",
    "takes_positional",
    "units",
    "uses",
    "with_deep_stack",
    "with_supply",
]
