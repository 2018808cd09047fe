"""Reports calls by their names. Each name leads the fix loop into another corner."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphlint.edits import Applicability, Edit, Fix
from graphlint.findings import Finding, Precision, Severity, Step, Suspect
from graphlint.source import Span

if TYPE_CHECKING:
    from graphlint.codemod import Module, Modules
    from graphlint.summaries import Analysis

CALMER = {
    "danger": ("calm", Applicability.SAFE),
    "wordy": ("calm()\ncalm", Applicability.SAFE),
    "trouble": ("calm", Applicability.UNSAFE),
    "decide": ("calm", Applicability.SUGGEST),
    "stuck": ("stuck", Applicability.SAFE),
    "broken": ("calm(", Applicability.SAFE),
    "worse": ("decide", Applicability.SAFE),
    "layered": ("danger", Applicability.SAFE),
    "deep": ("worse", Applicability.SAFE),
    "traded": ("swapped", Applicability.SAFE),
    "everywhere": ("calm", Applicability.SAFE),
    "crash": ("", Applicability.SAFE),
    "tangled": ("calm", Applicability.SAFE),
}
"""Name of a call -> what its fix calls instead, and how far that may be trusted."""

_CALL = re.compile(rb"^( *)(" + "|".join((*CALMER, "doubt", "hopeless")).encode() + rb")\(.*\)", re.MULTILINE)


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    for path, module in analysis.project.by_path.items():
        for match in _CALL.finditer(module.source.content):
            callee = match[2].decode()
            yield Suspect(
                rule="risky-call",
                path=path,
                function=Span(0, len(module.source.content)),
                at=Span(match.start(2), match.end()),
                trace=(Step(path, Span(match.start(2), match.end(2)), "erase", f"{callee} is called"),),
                values={"callee": callee},
                precision=Precision.LOW if callee == "doubt" else None,
                severity=Severity.NOTE if callee == "hopeless" else None,
            )


def confirm(suspect: Suspect, module: Module) -> Finding | None:
    from graphlint.codemod import confirmed

    if b"# fine" in module.source.content:
        return None
    return confirmed(suspect, module, "it is a toy")


def fix(finding: Finding, modules: Modules) -> Fix | None:
    callee = finding.values["callee"]
    if callee not in CALMER:
        return None
    if callee == "crash":
        raise KeyError(callee)
    calmer, applicability = CALMER[callee]
    start = finding.span.start
    edits = [Edit(finding.path, Span(start, start + len(callee)), calmer.encode())]
    if callee == "everywhere":
        edits = [
            Edit(path, Span(match.start(2), match.end(2)), calmer.encode())
            for path, module in sorted(modules.items())
            for match in _CALL.finditer(module.source.content)
            if match[2] == b"everywhere"
        ]
    if callee == "tangled":
        edits.append(Edit(finding.path, Span(start, start + 1), b"x"))
    if modules[finding.path].source.content[start:].startswith(b"danger()  # gone"):
        edits = [Edit(finding.path, Span(start, start + len(b"danger()  # gone")), b"calm()")]
    return Fix(f"call {calmer} instead", applicability, tuple(edits), ("it is calm",))
