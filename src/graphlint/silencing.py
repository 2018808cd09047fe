"""Which findings are silenced, by a comment or by `per-file-ignores`; and which comments silence nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphlint import registry
from graphlint.config import Settings, ignored_in
from graphlint.findings import Finding
from graphlint.source import CPP, Source, Span
from graphlint.suppress import Pragma, mentions


@dataclass(frozen=True)
class Silenced:
    """A finding that is not reported."""

    finding: Finding
    by: str
    """What silences it."""


@dataclass(frozen=True)
class Parted:
    """Findings that are reported, and those that are not."""

    findings: Sequence[Finding]
    silenced: Sequence[Silenced]
    warnings: Sequence[str]
    """Comments that say nothing, each with its place."""


def part(
    findings: Iterable[Finding],
    sources: Iterable[Source],
    settings: Settings,
    ran: frozenset[str],
    doubts: Mapping[str, Sequence[tuple[str, Span]]],
) -> Parted:
    """Part the findings by what the comments of their files and the settings say.

    Args:
        findings: of the rules.
        sources: the files that were looked at; no comment in another one counts.
        settings: of the project.
        ran: the rules that were looked for.
        doubts: by file, rules and places of what is not reported though something is there: a comment can mean that.
    """
    reported: list[Finding] = []
    silenced: list[Silenced] = []
    warnings: list[str] = []
    there: dict[str, list[Finding]] = {}
    for finding in findings:
        there.setdefault(finding.path, []).append(finding)
    for source in sources:
        found = there.pop(source.path, [])
        comments = [(pragma, _meant(pragma, source.path, warnings)) for pragma in _pragmas(source)]
        ignored = [(pattern, _rules(words)) for pattern, words in (ignored_in(source.path, settings) if found else ())]
        for finding in found:
            by = next((f"per-file-ignores, {pattern!r}" for pattern, names in ignored if finding.rule in names), None)
            for pragma, meant in comments:
                if pragma.silences(finding.span) and any(finding.rule in names for names in meant.values()):
                    by = f"the comment in row {pragma.row}"
            if by is None:
                reported.append(finding)
            else:
                silenced.append(Silenced(finding, by))
        places = [*((each.rule, each.span) for each in found), *doubts.get(source.path, ())]
        for pragma, meant in comments:
            here = {rule for rule, span in places if pragma.silences(span)}
            if idle := [word for word, names in meant.items() if names <= ran and not names & here]:
                warnings.append(
                    f"{source.path}:{pragma.row}: warning: nothing here is found by {', '.join(idle)}, "
                    "so the comment that ignores it can go"
                )
    return Parted([*reported, *(each for found in there.values() for each in found)], silenced, warnings)


def _meant(pragma: Pragma, path: str, warnings: list[str]) -> dict[str, frozenset[str]]:
    """The words of a comment, and the rules that each stands for."""
    if pragma.error is not None:
        warnings.append(f"{path}:{pragma.row}: warning: {pragma.error}")
    meant: dict[str, frozenset[str]] = {}
    for word in pragma.rules:
        try:
            meant[word] = _rules((word,))
        except registry.UnknownRuleError as error:
            warnings.append(f"{path}:{pragma.row}: warning: {error}")
    return meant


def _rules(words: Iterable[str]) -> frozenset[str]:
    return frozenset(rule.name for rule in registry.select(select=words))


def _pragmas(source: Source) -> Sequence[Pragma]:
    """The comments of a file that are addressed to this tool."""
    if not mentions(source):
        return ()
    if source.path.endswith(CPP):
        from graphlint.cpp import pragmas
    else:
        from graphlint.suppress import pragmas
    return pragmas(source)
