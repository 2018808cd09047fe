"""Reports a release of a whole class or process that runs once an engine.

A suspect's values:

    place   what is released, as the message names it
    scope   `class` or `process`
    loop    `path:row` of the loop over engines, or of the second call, that makes it run more than once
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphlint.codemod import Module, Modules
    from graphlint.edits import Fix
    from graphlint.findings import Finding, Suspect


def confirm(suspect: Suspect, module: Module) -> Finding | None:
    """The finding, unless the reported place is no statement any more."""
    from graphlint.codemod import confirmed

    if module.tree(suspect.function).statement(suspect.at) is None:
        return None
    return confirmed(suspect, module)


def fix(finding: Finding, modules: Modules) -> Fix | None:  # noqa: ARG001 - the shape that every rule's `fix` has
    """None: to split a release from the teardown of one engine takes every caller's consent."""
    return None
