"""Reports workspaces that are replaced by larger ones although a captured graph may read them.

A suspect's values:

    place       what is replaced, as the message names it
    how         `assign`, `item` or `resize`
    captured    "yes" where the project captures code that comes to the replacement
"""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import codemod
from graphlint.edits import Fix
from graphlint.effects import Effect
from graphlint.findings import Finding, Precision, Severity, Step, Suspect
from graphlint.growth import Growth, growths
from graphlint.keeping import Runs, stores
from graphlint.source import Span
from graphlint.summaries import Analysis
from graphlint.typestate import place_text, step


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    """Places that grow by replacement while somebody may still read what was there."""
    found = stores(analysis)
    runs = Runs(analysis, found)
    captures = any(Effect.CAPTURE in kinds for kinds in analysis.kinds.values())
    best: dict[tuple[str, Span], Suspect] = {}
    for growth in growths(analysis, found, runs):
        if not growth.is_handled(runs):
            suspect = _suspect(analysis, growth, captures=captures)
            best.setdefault((suspect.path, suspect.at), suspect)
    yield from (best[place] for place in sorted(best))


def _suspect(analysis: Analysis, growth: Growth, *, captures: bool) -> Suspect:
    entry = analysis.project.functions[growth.root.function]
    place = place_text(growth.place, analysis, growth.root)
    steps: list[Step] = [step(analysis, each._replace(effect=Effect.WS_RELEASE), 0) for each in growth.dropped[:2]]
    steps.append(step(analysis, growth.event._replace(effect=Effect.WS_REPLACE), 0))
    values = {"place": place, "how": growth.how}
    if growth.is_captured:
        values["captured"] = "yes"
    return Suspect(
        "workspace-growth",
        entry.module.source.path,
        entry.facts.span,
        growth.event.stack[0].span,
        tuple(steps),
        values,
        Severity.ERROR if growth.how == "resize" or growth.is_captured else None,
        _precision(analysis, growth, captures=captures),
    )


def _precision(analysis: Analysis, growth: Growth, *, captures: bool) -> Precision:
    """How sure it is that a graph reads the place.

    Where the files capture nothing, the shape alone decides. Where they do, code that none of their captures is seen to reach
    has to show otherwise that it is theirs: by asking for a capture, by being shared, or by its name.
    """
    if growth.is_captured or growth.how == "resize":
        return Precision.HIGH
    named = analysis.vocabulary.names.is_workspace(growth.place[-1])
    shown = growth.knows_captures or (growth.by_size and (growth.is_shared or named))
    return Precision.MEDIUM if shown or not captures else Precision.LOW


# ------------------------------------------------------------------------------------------------------------------ fix


def confirm(suspect: Suspect, module: codemod.Module) -> Finding | None:
    """The finding, unless the reported place is no statement any more."""
    if module.tree(suspect.function).statement(suspect.at) is None:
        return None
    return codemod.confirmed(suspect, module)


def fix(finding: Finding, modules: codemod.Modules) -> Fix | None:
    """None yet."""
    return None
