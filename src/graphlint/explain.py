"""What the analysis sees, for rule writers and for users who wonder: `graphlint flow` and `graphlint why`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from graphlint import behavior as b
from graphlint import check
from graphlint.check import Inputs
from graphlint.execution import Event
from graphlint.project import FunctionEntry
from graphlint.rule import Rule
from graphlint.source import Source
from graphlint.summaries import Analysis
from graphlint.typestate import place_text, test_text

_INDENT = "    "


class UnknownFunctionError(LookupError):
    """No function of the project has the name that somebody asked for."""


def flow(inputs: Inputs, name: str) -> str:
    """The effects of the functions whose dotted name is, or ends in, a name: in order, with branches, loops and calls.

    Raises:
        UnknownFunctionError: there is none; the message suggests a near name.
    """
    shown: list[str] = []
    known: list[str] = []
    for analysis, _ in check.analyses(inputs):
        for entry in list(analysis.project.functions.values()):
            known.append(entry.name)
            if entry.name == name or entry.name.endswith(f".{name}"):
                shown.append(_function(analysis, entry))
    if shown:
        return "\n".join(shown)
    near = get_close_matches(name, [each.rpartition(".")[2] for each in known], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise UnknownFunctionError(f"no function {name!r} was found among {len(known)}{hint}")


def why(inputs: Inputs, rules: Sequence[Rule], path: str, row: int) -> str:
    """What is known of a line: its findings, its effects, what its places hold, what could not be resolved."""
    lines: list[str] = []
    report = check.judge(inputs, rules)
    source = report.sources.get(path) or next((s for s in inputs.sources.values() if s.path == path), None)
    if source is None:
        return f"{path}: not read: it mentions nothing that a rule is about\n"
    lines.append(f"{path}:{row}: {source.line(row).strip()}")
    for finding in report.findings:
        if finding.path == path and source.row(finding.span.start) == row:
            lines.append(f"finding: {finding.rule}: {finding.message}")
        for number, step in enumerate(finding.trace, 1):
            if step.path == path and source.row(step.span.start) == row:
                lines.append(f"step {number} of {finding.rule} at {finding.path}: {step.message}")
    for analysis, _ in check.analyses(inputs):
        module = analysis.project.by_path.get(path)
        if module is not None:
            lines += _known(analysis, module.source, row)
    if len(lines) == 1:
        lines.append("nothing on this line has an effect on graphs or on the memory that they use")
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------------------------------- `flow`


def _function(analysis: Analysis, entry: FunctionEntry) -> str:
    source = entry.module.source
    head = f"{entry.name}  ({source.path}:{source.row(entry.facts.header.start)})"
    behavior = analysis.effectful.get(entry.name)
    if behavior is None:
        return f"{head}\n{_INDENT}no effect\n"
    lines = list(_node(analysis, behavior, behavior.node, source, 1))
    lines += [f"{_INDENT}unresolved: {label}" for label, _ in behavior.unresolved]
    return "\n".join((head, *lines)) + "\n"


def _node(analysis: Analysis, root: b.Behavior, node: b.Node, source: Source, depth: int) -> Iterator[str]:
    pad = _INDENT * depth
    match node:
        case b.Happens() | b.Touches():
            effects = analysis.effects(Event(node, node.places, (), ()))
            where = f"{source.row(node.span.start):>5}"
            place = ", ".join(place_text(each, analysis, root) for each in node.places)
            if effects:
                name = " ".join(effect.value for effect in effects)
                by_name = "  (by its name)" if isinstance(node, b.Happens) and node.by_name else ""
                entry = "  (entry of the capture)" if isinstance(node, b.Happens) and node.entry else ""
                yield f"{where}{pad}{name}  {place or 'process'}{by_name}{entry}"
            elif isinstance(node, b.Touches):
                value = ", ".join(sorted(node.tags)) or "a value"
                yield f"{where}{pad}{node.how}  {place}" + (f" = {value}" if node.how == "write" else "")
        case b.Calls():
            names = ", ".join(key.partition("|")[0] for key in node.behaviors)
            yield f"{source.row(node.span.start):>5}{pad}call {names}"
        case b.Either():
            test = test_text(node.test, analysis, root) or "?"
            yield f"{source.row(node.span.start):>5}{pad}if {test}"
            yield from _node(analysis, root, node.then, source, depth + 1)
            if node.other != b.NOTHING:
                yield f"     {pad}else"
                yield from _node(analysis, root, node.other, source, depth + 1)
        case b.Repeat():
            over = ", ".join(place_text(each, analysis, root) for each in node.over)
            yield f"{source.row(node.span.start):>5}{pad}loop" + (f" over {over}" if over else "")
            yield from _node(analysis, root, node.body, source, depth + 1)
        case b.Each():
            for number, body in enumerate(node.bodies, 1):
                yield f"{source.row(node.span.start):>5}{pad}item {number}"
                yield from _node(analysis, root, body, source, depth + 1)
        case b.Guarded():
            yield f"{source.row(node.span.start):>5}{pad}try"
            yield from _node(analysis, root, node.body, source, depth + 1)
            for handler in node.handlers:
                yield f"{source.row(handler.span.start):>5}{pad}except"
                yield from _node(analysis, root, handler.node, source, depth + 1)
            if node.final != b.NOTHING:
                yield f"     {pad}finally"
                yield from _node(analysis, root, node.final, source, depth + 1)
        case b.Within():
            yield from _node(analysis, root, node.calls, source, depth)
            yield f"     {pad}within"
            yield from _node(analysis, root, node.body, source, depth + 1)
        case b.Leaves():
            yield f"{source.row(node.span.start):>5}{pad}{node.kind}"
        case b.Yields():
            yield f"{source.row(node.span.start):>5}{pad}yield"
        case _:
            for part in b.parts(node):
                yield from _node(analysis, root, part, source, depth)


# -------------------------------------------------------------------------------------------------------------- `why`


def _known(analysis: Analysis, source: Source, row: int) -> Iterator[str]:
    seen: set[str] = set()
    for behavior in analysis.behaviors.all():
        if analysis.project.functions[behavior.function].module.source.path != source.path:
            continue
        for line in _facts(analysis, behavior, source, row):
            if line not in seen:
                seen.add(line)
                yield line


def _facts(analysis: Analysis, behavior: b.Behavior, source: Source, row: int) -> Iterator[str]:
    for node in behavior.nodes:
        span = getattr(node, "span", None)
        if span is None or source.row(span.start) != row:
            continue
        if isinstance(node, b.Happens | b.Touches):
            for effect in analysis.effects(Event(node, node.places, (), ())):
                place = ", ".join(place_text(each, analysis, behavior) for each in node.places)
                yield f"effect: {effect.value} {place or 'process'}"
            held = analysis.holds(node.slot)
            if node.slot is not None and held:
                yield f"{node.slot[0]}.{node.slot[1]} holds: {', '.join(sorted(held))}"
        elif isinstance(node, b.Calls):
            for key in node.behaviors:
                name = key.partition("|")[0]
                kinds = analysis.kinds.get(key)
                does = ", ".join(sorted(effect.value for effect in kinds)) if kinds else "no effect"
                yield f"calls: {name} ({does})"
    for label, span in behavior.unresolved:
        if source.row(span.start) == row:
            yield f"unresolved: {label}"
