"""Findings as text, and as what machines read. Each format is a function of the findings: same findings, same bytes.

`full` is for people: the source, the numbered path of effects that leads to the hazard, and what a fix would do.
`concise` has one line a finding. `json`, `github` (workflow commands) and `sarif` (2.1.0, for code scanning) are for
machines.

Rows and columns count from 1, columns in code points; an end is the position after the last character.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from graphlint.edits import Edit, Fix
from graphlint.findings import Finding, Severity
from graphlint.rule import Rule
from graphlint.source import Source, Span

FORMATS = ("full", "concise", "json", "github", "sarif")

Json = dict[str, Any]


def render(
    style: str,
    findings: Sequence[Finding],
    sources: Mapping[str, Source],
    rules: Iterable[Rule] = (),
    *,
    colour: bool = False,
) -> str:
    """The findings in one of `FORMATS`, ending in a newline where there is any text.

    Args:
        style: the format.
        findings: what is reported, in this order (`github`: the worst first).
        sources: the files of all positions, those of paths and edits included.
        rules: the rules that ran, which `sarif` describes.
        colour: whether `full` and `concise` may hold ANSI colours.
    """
    match style:
        case "full":
            return "\n".join(_full(finding, sources, _paint(colour=colour)) for finding in findings)
        case "concise":
            return "".join(f"{_headline(finding, sources, _paint(colour=colour))}\n" for finding in findings)
        case "json":
            return _dump(_json(findings, sources))
        case "github":
            return "".join(f"{_annotation(finding, sources)}\n" for finding in sorted(findings, key=_by_severity))
        case "sarif":
            return _dump(_sarif(findings, sources, rules))
    raise ValueError(f"no format is named {style!r}")


def _dump(data: Json | list[Json]) -> str:
    import json  # what people read needs no import of it

    return json.dumps(data, indent=2) + "\n"


def _by_severity(finding: Finding) -> int:
    return list(Severity).index(finding.severity)


def _fingerprints(findings: Iterable[Finding]) -> list[str]:
    """Fingerprints, made distinct: the second of two equal ones ends in `-2`."""
    seen: Counter[str] = Counter()
    result: list[str] = []
    for finding in findings:
        seen[finding.fingerprint] += 1
        count = seen[finding.fingerprint]
        result.append(finding.fingerprint if count == 1 else f"{finding.fingerprint}-{count}")
    return result


# --------------------------------------------------------------------------------------------------------------- text

Paint = Callable[[str, str], str]

_COLOURS = {"error": "1;31", "warning": "1;33", "note": "1;34", "path": "1", "frame": "34"}
_CONTEXT = 2
"""Rows shown before what is reported."""
_LONGEST = 6
"""Rows shown of what is reported; of more, the first ones."""


def _paint(*, colour: bool) -> Paint:
    return (lambda text, style: f"\x1b[{_COLOURS[style]}m{text}\x1b[0m") if colour else (lambda text, _: text)


def _place(path: str, span: Span, sources: Mapping[str, Source]) -> str:
    row, column = sources[path].position(span.start)
    return f"{_printable(path)}:{row}:{column}"


def _headline(finding: Finding, sources: Mapping[str, Source], paint: Paint) -> str:
    kind = paint(f"{finding.severity.value}[{finding.rule}]", finding.severity.value)
    return f"{paint(_place(finding.path, finding.span, sources), 'path')}: {kind} {finding.message}"


def _full(finding: Finding, sources: Mapping[str, Source], paint: Paint) -> str:
    lines = [_headline(finding, sources, paint), *_frame(sources[finding.path], finding.span, paint)]
    if finding.trace:
        lines.append("  path:")
        steps = [(_place(step.path, step.span, sources), step.effect, step.message) for step in finding.trace]
        wide = [max(len(step[i]) for step in steps) for i in range(2)]
        for number, (place, effect, message) in enumerate(steps, 1):
            lines.append(f"  {number:3}  {place:{wide[0]}}  {effect:{wide[1]}}  {message}".rstrip())
    lines += [f"  note: {note}" for note in finding.notes]
    if finding.fix is not None:
        lines.append(f"  fix ({finding.fix.applicability.value}): {finding.fix.title}")
        lines += [f"    - {condition}" for condition in finding.fix.conditions]
    return "\n".join(lines) + "\n"


def _frame(source: Source, span: Span, paint: Paint) -> list[str]:
    """The reported rows with their numbers, the first one underlined, after a little of what stands before them."""
    first, column = source.position(span.start)
    last = source.row(max(span.start, span.end - 1))
    end = source.position(span.end).column if last == first else len(source.line(first)) + 1
    wide = len(str(last))
    bar = paint("|", "frame")
    lines = [f"  {'':{wide}} {bar}"]
    for row in range(max(1, first - _CONTEXT), last + 1):
        if row == first + _LONGEST and row < last:
            lines.append(f"  {'':{wide}} {bar} ...")
            break
        text = source.line(row)
        lines.append(f"  {paint(f'{row:{wide}}', 'frame')} {bar} {_printable(text)}".rstrip())
        if row == first:
            carets = "^" * max(1, _width(text[column - 1 : end - 1].rstrip()))
            lines.append(f"  {'':{wide}} {bar} {_blank(text[: column - 1])}{paint(carets, 'error')}")
    return lines


def _printable(text: str) -> str:
    """Text that can be encoded and cannot steer a terminal: `?` for control characters and lone surrogates."""
    return text if text.isprintable() else "".join(char if char.isprintable() or char == "\t" else "?" for char in text)


def _blank(text: str) -> str:
    """White space as wide as `text`, tabs kept."""
    return "\t".join(" " * _width(part) for part in text.split("\t"))


def _width(text: str) -> int:
    """Columns of a terminal that `text` takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


# --------------------------------------------------------------------------------------------------------------- json


def _json(findings: Sequence[Finding], sources: Mapping[str, Source]) -> list[Json]:
    return [
        {
            "rule": finding.rule,
            "severity": finding.severity.value,
            "precision": finding.precision.value,
            "message": finding.message,
            "filename": finding.path,
            "location": _location(sources[finding.path], finding.span.start),
            "end_location": _location(sources[finding.path], finding.span.end),
            "trace": [
                {
                    "filename": step.path,
                    "location": _location(sources[step.path], step.span.start),
                    "effect": step.effect,
                    "message": step.message,
                }
                for step in finding.trace
            ],
            "fix": finding.fix and _json_fix(finding.fix, sources),
            "fingerprint": fingerprint,
        }
        for finding, fingerprint in zip(findings, _fingerprints(findings), strict=True)
    ]


def _json_fix(fix: Fix, sources: Mapping[str, Source]) -> Json:
    return {
        "applicability": fix.applicability.value,
        "title": fix.title,
        "conditions": list(fix.conditions),
        "edits": [
            {
                "filename": edit.path,
                "location": _location(sources[edit.path], edit.span.start),
                "end_location": _location(sources[edit.path], edit.span.end),
                "content": _content(edit, sources),
            }
            for edit in sorted(fix.edits)
        ],
    }


def _location(source: Source, offset: int) -> Json:
    row, column = source.position(offset)
    return {"row": row, "column": column}


def _content(edit: Edit, sources: Mapping[str, Source]) -> str:
    return edit.content.decode(sources[edit.path].encoding, "replace")


# ------------------------------------------------------------------------------------------------------------- github

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def _annotation(finding: Finding, sources: Mapping[str, Source]) -> str:
    """A workflow command, which GitHub shows at the line it names.

    It shows ten of a severity and step, hence the order. A column of a range over several lines would be misread.
    """
    source = sources[finding.path]
    start, end = source.position(finding.span.start), source.position(finding.span.end)
    where = {
        "title": f"graphlint ({finding.rule})",
        "file": _printable(finding.path),
        "line": start.row,
        "endLine": end.row,
    }
    if start.row == end.row:
        where |= {"col": start.column, "endColumn": end.column}
    text = [finding.message]
    text += [f"{i}. {_place(step.path, step.span, sources)} {step.message}" for i, step in enumerate(finding.trace, 1)]
    text += finding.notes
    properties = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in where.items())
    return f"::{_COMMANDS[finding.severity]} {properties}::" + _escaped("\n".join(text))


def _escaped(text: str, more: str = "") -> str:
    return "".join(f"%{ord(char):02X}" if char in "%\r\n" + more else char for char in text)


# -------------------------------------------------------------------------------------------------------------- sarif


def _sarif(findings: Sequence[Finding], sources: Mapping[str, Source], rules: Iterable[Rule]) -> Json:
    from graphlint import __version__

    descriptions = {rule.name: _description(rule) for rule in sorted(rules, key=lambda rule: rule.name)}
    for finding in findings:  # a file that does not parse is reported under a name that no rule has
        descriptions.setdefault(finding.rule, {"id": finding.rule})
    index = {name: number for number, name in enumerate(descriptions)}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "graphlint",
                        "semanticVersion": __version__,
                        "rules": list(descriptions.values()),
                    }
                },
                "automationDetails": {"id": "graphlint/"},
                "columnKind": "unicodeCodePoints",
                "results": [
                    _result(finding, fingerprint, index[finding.rule], sources)
                    for finding, fingerprint in zip(findings, _fingerprints(findings), strict=True)
                ],
            }
        ],
    }


def _description(rule: Rule) -> Json:
    from graphlint import registry

    return {
        "id": rule.name,
        "shortDescription": {"text": rule.summary},
        "help": {"text": rule.summary, "markdown": registry.page(rule)},
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {
            "precision": rule.precision.value,
            "problem.severity": _PROBLEM_SEVERITIES[rule.severity],
            "tags": ["cuda-graphs", rule.group.value],
        },
    }


_PROBLEM_SEVERITIES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "recommendation"}
"""Severities as code scanning names them."""


def _result(finding: Finding, fingerprint: str, index: int, sources: Mapping[str, Source]) -> Json:
    result: Json = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity.value,
        "message": {"text": " ".join((finding.message, *(f"({note})" for note in finding.notes)))},
        "locations": [_physical(finding.path, finding.span, sources)],
        "partialFingerprints": {"graphlint/v1": fingerprint},
        "properties": {"precision": finding.precision.value},
    }
    if finding.trace:
        steps = [
            {
                "location": _physical(step.path, step.span, sources)
                | {"message": {"text": f"{step.effect}: {step.message}"}}
            }
            for step in finding.trace
        ]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    if finding.fix is not None and finding.fix.edits:
        result["fixes"] = [_sarif_fix(finding.fix, sources)]
    return result


def _sarif_fix(fix: Fix, sources: Mapping[str, Source]) -> Json:
    words = f"{fix.title} ({fix.applicability.value})"
    by_file: dict[str, list[Edit]] = {}
    for edit in sorted(fix.edits):
        by_file.setdefault(edit.path, []).append(edit)
    return {
        "description": {"text": ". ".join((words, *fix.conditions))},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(path),
                "replacements": [
                    {
                        "deletedRegion": _region(sources[path], edit.span),
                        "insertedContent": {"text": _content(edit, sources)},
                    }
                    for edit in edits
                ],
            }
            for path, edits in by_file.items()
        ],
    }


def _physical(path: str, span: Span, sources: Mapping[str, Source]) -> Json:
    return {"physicalLocation": {"artifactLocation": _artifact(path), "region": _region(sources[path], span)}}


def _artifact(path: str) -> Json:
    """A file by a URI relative to the repository, where it lies below the working directory: no path of a machine."""
    from urllib.parse import quote

    uri = quote(os.fsencode(path.replace(os.sep, "/")))
    return {"uri": f"file://{uri}"} if os.path.isabs(path) else {"uri": uri, "uriBaseId": "%SRCROOT%"}


def _region(source: Source, span: Span) -> Json:
    start, end = source.position(span.start), source.position(span.end)
    return {"startLine": start.row, "startColumn": start.column, "endLine": end.row, "endColumn": end.column}
