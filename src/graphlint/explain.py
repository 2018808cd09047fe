"""What the analysis sees, for rule writers and for users who wonder: `graphlint flow` and `graphlint why`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

from graphlint import behavior as b
from graphlint import check, files, registry
from graphlint.check import Inputs
from graphlint.findings import Finding, Precision
from graphlint.paths import Event
from graphlint.project import FunctionEntry
from graphlint.rule import Rule
from graphlint.source import CPP, Source
from graphlint.summaries import Analysis
from graphlint.typestate import place_text, test_text

_INDENT = "    "


class UnknownFunctionError(LookupError):
    """No function of the project has the name that somebody asked for."""


class UnknownRowError(LookupError):
    """A file has no such row."""


def flow(inputs: Inputs, name: str) -> str:
    """The effects of the functions whose dotted name is, or ends in, a name: in order, with branches, loops and calls.

    Raises:
        UnknownFunctionError: there is none; the message suggests a near name.
    """
    shown: list[str] = []
    known: list[str] = []
    ending = name.rpartition(".")[2]
    for analysis, _ in check.analyses(inputs):
        for entry in list(analysis.project.functions.values()):
            known.append(entry.name)
            if entry.name == name or entry.name.endswith(f".{name}"):
                shown.append(_function(analysis, entry))
    if shown:
        return "\n".join(shown)
    same = [each for each in known if each.rpartition(".")[2] == ending]
    # as many parts of the names as were asked for, so that it can be asked for again
    parts = name.count(".") + 1
    near = get_close_matches(name, [".".join(each.split(".")[-parts:]) for each in same or known], n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise UnknownFunctionError(f"no function {name!r} was found among {len(known)}{hint}")


def why(inputs: Inputs, rules: Sequence[Rule], path: str, row: int) -> str:
    """What is known of a line: its findings, its effects, what its places hold, what could not be resolved.

    Findings that are not reported are among them, with the reason.

    Raises:
        UnknownRowError: there is no such line.
    """
    report = check.judge(replace(inputs, settings=replace(inputs.settings, preview=True)), registry.rules())
    source = report.sources.get(path) or files.read(path)
    if source is None:
        return f"{path}: cannot be read\n"
    count = len(source.line_starts) - (source.line_starts[-1] == len(source.content))
    if not 1 <= row <= count:
        raise UnknownRowError(f"{path} has {count} lines, and none is {row}")
    if path not in report.sources:
        return f"{path}: not looked at: it mentions nothing that a rule is about\n"
    lines = [f"{path}:{row}: {source.line(row).strip()}"]
    asked = {rule.name for rule in rules}
    found = [(finding, _hidden(finding, asked, inputs)) for finding in report.findings]
    found += [(each.finding, f"silenced by {each.by}") for each in report.silenced]
    for finding, hidden in found:
        if finding.path == path and source.row(finding.span.start) == row:
            lines.append(f"{f'not reported, {hidden}' if hidden else 'finding'}: {finding.rule}: {finding.message}")
        for number, step in enumerate(finding.trace, 1):
            if step.path == path and source.row(step.span.start) == row:
                at = f"{finding.path}:{report.sources[finding.path].row(finding.span.start)}"
                lines.append(f"step {number} of {finding.rule} at {at}: {step.message}")
    if path.endswith(CPP):
        if inputs.native is not None and not inputs.native.is_read:
            lines.append("not read: install the extra that reads C++, `cudagraph-lint[cpp]`")
        elif len(lines) == 1:
            lines.append("no finding is about this line; effects of C++ are not shown")
        return "\n".join(lines) + "\n"
    for analysis, _ in check.analyses(inputs):
        module = analysis.project.by_path.get(path)
        if module is not None:
            lines += _known(analysis, module.source, row)
    if len(lines) == 1:
        lines.append("nothing on this line has an effect on graphs or on the memory that they use")
    return "\n".join(lines) + "\n"


def _hidden(finding: Finding, asked: set[str], inputs: Inputs) -> str:
    """Why a finding is not reported; empty if it is."""
    if finding.rule not in asked and any(finding.rule == rule.name for rule in registry.rules()):
        return "the settings leave its rule out"
    if finding.precision is Precision.LOW and not inputs.settings.preview:
        return "of low precision, so with --preview only"
    return ""


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
                value = ", ".join(sorted(tag.removeprefix("=") for tag in node.tags)) or "a value"
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
