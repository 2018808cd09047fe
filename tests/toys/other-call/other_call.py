"""Reports calls that come of a fix of the other toy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphlint.edits import Applicability, Edit, Fix
from graphlint.findings import Finding, Suspect
from graphlint.source import Span

if TYPE_CHECKING:
    from graphlint.codemod import Module, Modules
    from graphlint.summaries import Analysis

_CALL = re.compile(rb"^ *(swapped|other)\(.*\)", re.MULTILINE)


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    for path, module in analysis.project.by_path.items():
        for match in _CALL.finditer(module.source.content):
            whole = Span(0, len(module.source.content))
            callee = match[1].decode()
            yield Suspect("other-call", path, whole, Span(match.start(1), match.end()), (), {"callee": callee})


def confirm(suspect: Suspect, module: Module) -> Finding | None:
    from graphlint.codemod import confirmed

    return confirmed(suspect, module)


def fix(finding: Finding, modules: Modules) -> Fix | None:
    """Back to what the other toy's fix made it from, where the file asks for a quarrel."""
    if b"# quarrel" not in modules[finding.path].source.content or finding.values["callee"] != "swapped":
        return None
    edit = Edit(finding.path, Span(finding.span.start, finding.span.start + len("swapped")), b"traded")
    return Fix("call traded instead", Applicability.SAFE, (edit,))
