"""The fix loop: rewrites files in memory, looks at them again, and keeps only what holds.

A fix is believed after the fact. It stands only if the changed files parse, the finding is gone, and no finding that
was not there before stands in its place, except of the rules that its own rule declares to trade for. A fix that fails
this is taken back whole, all its files together, and the run says so. Nothing here writes a file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from graphlint import check, edits, registry
from graphlint.check import Inputs, Report
from graphlint.edits import Applicability, Edit, Fix, OverlapError
from graphlint.findings import Finding
from graphlint.rows import Rows
from graphlint.rule import Rule
from graphlint.source import Source
from graphlint.writing import Change

ROUNDS = 10
"""Most times that the files are rewritten and looked at again."""

Identity = tuple[str, str, str, str]
"""What makes two findings the same while the rows around them move: rule, path, symbol, message."""


@dataclass(frozen=True)
class Applied:
    """A fix that was applied."""

    finding: Finding
    row: int
    """Where it was found: a row of the file as it was before all fixes."""


@dataclass(frozen=True)
class Refusal:
    """A fix that was not applied although it was asked for."""

    finding: Finding
    row: int
    """Where it stands, in the file that the report speaks of."""
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What the loop did, in memory."""

    report: Report
    """What remains of the rules that were asked for."""
    changes: Mapping[str, Change]
    applied: tuple[Applied, ...]
    refused: tuple[Refusal, ...]


def fix(inputs: Inputs, rules: Sequence[Rule], *, unsafe: bool = False, stays: bool = False) -> Outcome:
    """Apply the fixes of the rules' findings until none applies any more.

    All rules judge the result, whichever were asked for: a rewrite must not trade a hazard for another one unseen.

    Args:
        inputs: the files as they are.
        rules: whose findings are fixed and reported.
        unsafe: whether to apply fixes that are right only under the conditions that they state.
        stays: whether the files stay as they are, so that the report speaks of places in them as they are.

    Raises:
        RuleError: a rule's own code failed.
    """
    every = registry.rules()
    asked = {rule.name for rule in rules}
    now, report = inputs, check.judge(inputs, every)
    first = report
    applied: list[_Found] = []
    refused: dict[Identity, str] = {}

    def ready() -> list[Finding]:
        return [
            finding
            for finding in report.findings
            if finding.rule in asked and _identity(finding) not in refused and _is_wanted(finding.fix, unsafe=unsafe)
        ]

    for _ in range(ROUNDS):
        batch = _apart(ready(), now)
        if not batch:
            break
        attempt = _attempt(batch, now, report, every, unsafe=unsafe)
        if not isinstance(attempt, str):
            now, report = attempt.inputs, attempt.report
            applied += attempt.applied
            continue
        for identity in dict.fromkeys(map(_identity, batch)):
            # One of them is to blame. Each alone, and as it looks after the ones before it.
            alone = next((finding for finding in ready() if _identity(finding) == identity), None)
            if alone is None:
                continue
            attempt = _attempt([alone], now, report, every, unsafe=unsafe)
            if isinstance(attempt, str):
                refused[identity] = attempt
            else:
                now, report = attempt.inputs, attempt.report
                applied += attempt.applied
    else:
        for finding in ready():
            refused[_identity(finding)] = f"its fix still applies after {ROUNDS} rounds"
    remaining = tuple(finding for finding in report.findings if finding.rule in asked or not _is_rule(finding, every))
    reasons = [(finding, refused[_identity(finding)]) for finding in remaining if _identity(finding) in refused]
    if stays:
        earlier = _Earlier(first, report)
        places = {id(finding): earlier.finding(finding) for finding in remaining}
        reasons = [(places[id(finding)], reason) for finding, reason in reasons]
        remaining, report = tuple(places.values()), first
    return Outcome(
        replace(report, findings=remaining),
        {
            path: Change(inputs.sources[path].content, source.content)
            for path, source in sorted(now.sources.items())
            if source is not inputs.sources[path] and source.content != inputs.sources[path].content
        },
        tuple(Applied(each.finding, _row(each, inputs.sources[each.finding.path])) for each in applied),
        tuple(
            Refusal(finding, report.sources[finding.path].row(finding.span.start), reason)
            for finding, reason in reasons
        ),
    )


def _row(found: _Found, before: Source) -> int:
    return before.row(Rows(before, found.source).span(found.finding.span).start)


class _Earlier:
    """Findings in changed files, as they stand in the files before."""

    def __init__(self, first: Report, last: Report) -> None:
        self.known: dict[Identity, list[Finding]] = {}
        for finding in first.findings:
            self.known.setdefault(_identity(finding), []).append(finding)
        self.rows = {
            path: Rows(source, last.sources[path]) for path, source in first.sources.items() if path in last.sources
        }

    def finding(self, finding: Finding) -> Finding:
        """The same finding there, or one that speaks of the nearest code and has no fix."""
        if known := self.known.get(_identity(finding)):
            return known.pop(0)
        return replace(
            finding,
            span=self.rows[finding.path].span(finding.span),
            trace=tuple(replace(step, span=self.rows[step.path].span(step.span)) for step in finding.trace),
            notes=(*finding.notes, "it comes up after these fixes, in the code that they make of this"),
            fix=None,
        )


def base(changes: Mapping[str, Change]) -> str:
    """The folder that the names in a diff begin at: the working one, if all files are below it; it is "" then."""
    if not any(os.path.isabs(path) for path in changes):
        return ""
    return os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in changes])


def diff(changes: Mapping[str, Change]) -> bytes:
    """A unified diff of the changes that `patch -p0` takes in their `base`, in the files' own encodings."""
    start = base(changes)
    names = {path: os.path.relpath(path, start) if start else path for path in changes}
    return b"".join(piece for path, change in sorted(changes.items()) for piece in _diff(names[path], change))


def _diff(path: str, change: Change) -> Iterable[bytes]:
    import difflib

    def lines(content: bytes) -> list[str]:
        # Latin-1 keeps every byte; a row here ends in LF alone, as diff and patch have it.
        return [f"{line}\n" for line in content.decode("latin-1").split("\n")]

    before, after = lines(change.before), lines(change.after)
    for each in (before, after):  # what follows the last LF: nothing, or a line without one
        each[-1] = each[-1].removesuffix("\n")
        if not each[-1]:
            each.pop()
    name = os.fsencode(path).decode("latin-1")
    if " " in name:
        name += "\t"  # else it would end at its first space
    for line in difflib.unified_diff(before, after, name, name):
        yield line.encode("latin-1")
        if not line.endswith("\n"):
            yield b"\n\\ No newline at end of file\n"


def _identity(finding: Finding) -> Identity:
    return finding.rule, finding.path, finding.symbol, finding.message


def _is_wanted(fix: Fix | None, *, unsafe: bool) -> bool:
    if fix is None or not fix.edits:
        return False
    return fix.applicability is Applicability.SAFE or (unsafe and fix.applicability is Applicability.UNSAFE)


def _edits(findings: Iterable[Finding]) -> dict[str, list[Edit]]:
    """The edits of the findings' fixes, by file."""
    result: dict[str, list[Edit]] = {}
    for finding in findings:
        for edit in finding.fix.edits if finding.fix is not None else ():
            result.setdefault(edit.path, []).append(edit)
    return result


def _apart(findings: Sequence[Finding], inputs: Inputs) -> list[Finding]:
    """As many of the findings, in their order, as have fixes that leave each other alone.

    A fix whose own edits overlap is among them, to be refused with its reason.
    """
    batch: list[Finding] = []
    for finding in findings:
        if _is_applicable([finding], inputs) and not _is_applicable([*batch, finding], inputs):
            continue
        batch.append(finding)
    return batch


def _is_applicable(findings: Sequence[Finding], inputs: Inputs) -> bool:
    try:
        for path, wanted in _edits(findings).items():
            edits.apply(wanted, inputs.sources[path].content)
    except OverlapError:
        return False
    return True


@dataclass(frozen=True)
class _Attempt:
    """The files after some fixes that hold, and what is found in them."""

    inputs: Inputs
    report: Report
    applied: tuple[_Found, ...]


@dataclass(frozen=True)
class _Found:
    """A finding that was fixed, and the file that it was found in."""

    finding: Finding
    source: Source


def _attempt(
    batch: Sequence[Finding],
    inputs: Inputs,
    report: Report,
    every: Sequence[Rule],
    *,
    unsafe: bool,
    before: tuple[_Found, ...] = (),
) -> _Attempt | str:
    """The state after the fixes of `batch`, or why its fix (if it is one) must not be applied.

    A function can hold one rule's hazard several times over, of which one is reported at a place. Where a fix brings
    the next one to light, that one's fix is tried as well: all of them hold, or none is applied.

    Args:
        batch: findings whose fixes leave each other alone.
        inputs: the files that they were found in.
        report: what was found before the first of the fixes.
        every: all rules.
        unsafe: as in `fix`.
        before: the fixes that are in `inputs` already and stand or fall with those of `batch`.
    """
    given = frozenset(inputs.selection.report)
    changed: dict[str, Source] = {}
    for path, wanted in sorted(_edits(batch).items()):
        if path not in given:
            return f"it also changes {path}, which is not among the given paths"
        try:
            changed[path] = Source(path, edits.apply(wanted, inputs.sources[path].content))
        except OverlapError as error:
            return f"its edits overlap: {error}"
    applied = (*before, *(_Found(each, inputs.sources[each.path]) for each in batch))
    fixed = [each.finding for each in applied]
    inputs = replace(inputs, sources={**inputs.sources, **changed})
    after = check.judge(inputs, every)
    had, has = (Counter(map(_identity, each.findings)) for each in (report, after))
    for identity, count in Counter(map(_identity, fixed)).items():
        if has[identity] > max(0, had[identity] - count):
            return "the finding is still there after it"
    names = {finding.rule for finding in fixed}
    traded = {name for rule in every if rule.name in names for name in rule.trades_for}
    moved = _moved(report.findings, after.findings)
    more = [
        each for each in after.findings if has[_identity(each)] > had[_identity(each)] and _unplaced(each) not in moved
    ]
    new = [each for each in more if each.rule not in traded]
    if not new:
        return _Attempt(inputs, after, applied)
    places = {(finding.rule, finding.path, finding.symbol) for finding in fixed}
    if len(fixed) < ROUNDS and all(
        (each.rule, each.path, each.symbol) in places and _is_wanted(each.fix, unsafe=unsafe) for each in new
    ):
        attempt = _attempt(_apart(new, inputs), inputs, report, every, unsafe=unsafe, before=applied)
        if not isinstance(attempt, str):
            return attempt
    place = f"`{new[0].symbol}` ({new[0].path})" if new[0].symbol else new[0].path
    return f"it leads to {new[0].rule} in {place}: {new[0].message}"


def _unplaced(finding: Finding) -> tuple[str, str, str]:
    """A finding's identity wherever in its file it stands."""
    return finding.rule, finding.path, finding.message


def _moved(before: Iterable[Finding], after: Iterable[Finding]) -> frozenset[tuple[str, str, str]]:
    """What is found no more often than before, though perhaps in another function: its code was moved there."""
    had, has = Counter(map(_unplaced, before)), Counter(map(_unplaced, after))
    return frozenset(unplaced for unplaced, count in has.items() if count <= had[unplaced])


def _is_rule(finding: Finding, every: Sequence[Rule]) -> bool:
    return any(finding.rule == rule.name for rule in every)
