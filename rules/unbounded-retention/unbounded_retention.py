"""Reports lists of replaced memory that are never emptied, although the graphs that could read it are reset.

A suspect's values:

    place    the list, as the message names it
    why      what it keeps too long, as the message says it
"""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import behavior as b
from graphlint import codemod
from graphlint.edits import Fix
from graphlint.effects import Effect
from graphlint.findings import Finding, Step, Suspect
from graphlint.growth import growths
from graphlint.keeping import Runs, stores
from graphlint.paths import Event
from graphlint.retention import Retention, is_looked_at, retentions
from graphlint.source import Span
from graphlint.summaries import Analysis
from graphlint.typestate import place_text, step
from graphlint.values import ELEMENT

_TAKES = ("pop", "drop", "clear")
_OUTGROWN = "nothing takes from it when the graphs are reset that could read what it keeps"
_REPLACED = "it gets the graphs that others take the place of, and nothing takes them out again"


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    """Places that keep memory for graphs which these files capture and reset, and never give any back."""
    deaths = [
        (root, node)
        for root in analysis.roots()
        for node in root.nodes
        if isinstance(node, b.Happens) and node.effect is Effect.GRAPH_DEATH and not node.by_name
    ]
    best: dict[tuple[str, Span], Suspect] = {}
    found = stores(analysis)
    runs = Runs(analysis, found)
    for growth in growths(analysis, found, runs, named=True) if deaths else ():
        for event in growth.kept if growth.is_captured or growth.is_read else ():
            if not _is_emptied(analysis, event):
                suspect = _suspect(analysis, growth.root, event, _OUTGROWN, deaths[0])
                best.setdefault((suspect.path, suspect.at), suspect)
    for each in retentions(analysis, runs):
        of_graphs = "graph" in analysis.holds(each.given_up)
        if of_graphs or (deaths and _is_read(analysis, each)):
            keyed = isinstance(each.event.node, b.Touches) and each.event.node.key is not None
            if (keyed or of_graphs) and is_looked_at(analysis, b.last_name(each.event.places[0])):
                continue  # a table that graphs are found in
            why, death = (_REPLACED, None) if of_graphs else (_OUTGROWN, deaths[0])
            suspect = _suspect(analysis, each.root, each.event, why, death)
            best.setdefault((suspect.path, suspect.at), suspect)
    yield from (best[place] for place in sorted(best))


def _is_read(analysis: Analysis, retention: Retention) -> bool:
    """Whether captured code reads what is kept, or the capture made it."""
    slot = retention.given_up
    return any(slot in slots for slots in analysis.captured_reads.values()) or "captured" in analysis.holds(slot)


def _is_emptied(analysis: Analysis, event: Event) -> bool:
    """Whether something takes from a container, or makes it anew, after its making."""
    name = next(part for part in reversed(event.places[0]) if part != ELEMENT)
    inner = event.places[0][-1] == ELEMENT  # of a table of lists, each may be emptied
    for each in analysis.behaviors.all():
        makes = each.function.endswith((".__init__", ".__post_init__", "<module>"))
        for node in each.nodes:
            if not isinstance(node, b.Touches):
                continue
            if not any(place[-1] == name or (inner and place[-2:] == (name, ELEMENT)) for place in node.places):
                continue
            if node.how in _TAKES or (node.how == "write" and not makes):
                return True
    return False


def _suspect(
    analysis: Analysis, root: b.Behavior, event: Event, why: str, death: tuple[b.Behavior, b.Happens] | None
) -> Suspect:
    frame = event.stack[-1]
    entry = analysis.project.functions[frame.function]
    steps = [step(analysis, event._replace(effect=Effect.WS_ALLOC), len(event.stack) - 1)]
    if death is not None:
        killer, reset = death
        module = analysis.project.functions[killer.function].module.source
        steps.append(Step(module.path, reset.span, Effect.GRAPH_DEATH.value, f"graphs die: {reset.label}"))
    values = {"place": place_text(event.places[0], analysis, root), "why": why}
    return Suspect("unbounded-retention", entry.module.source.path, entry.facts.span, frame.span, tuple(steps), values)


def confirm(suspect: Suspect, module: codemod.Module) -> Finding | None:
    """The finding, unless the reported place is no statement any more."""
    if module.tree(suspect.function).statement(suspect.at) is None:
        return None
    return codemod.confirmed(suspect, module)


def fix(finding: Finding, modules: codemod.Modules) -> Fix | None:
    """None: who resets the last graph that may read the list is for its owner to say."""
    return None
