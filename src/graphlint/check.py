"""The pipeline, on one page: files -> sieve -> project -> suspects -> rules -> suppression -> findings.

`check` is all of it. `read` and `judge` are its halves: a fix is judged over files that are not on disk yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphlint import files, registry, suppress
from graphlint.config import Settings, ignored_in
from graphlint.edits import Fix
from graphlint.files import Selection
from graphlint.findings import Finding, Precision, Severity, Suspect
from graphlint.rule import Rule
from graphlint.source import Source, Span
from graphlint.vocabulary import Vocabulary

SYNTAX_ERROR = "syntax-error"
"""What a file that does not parse is reported under; no rule has this name, so none can select or silence it."""
NEWER_SYNTAX = "newer-syntax"
"""The same for a file that a newer Python may well read."""
UNREADABLE = "unreadable-file"
"""The same for a file that cannot be opened."""

_FEW = 64
"""A run over this many files or fewer parses all of them, so that a broken one does not pass in silence.

A larger run parses what can matter: the rest mentions nothing that any rule is about.
"""


class RuleError(Exception):
    """A rule's own code failed; the message says which and where. A fault of this tool, not of what it reads."""


@dataclass(frozen=True)
class Inputs:
    """What a run looks at, read once."""

    selection: Selection
    sources: Mapping[str, Source]
    """The files that can matter, by path."""
    settings: Settings
    vocabulary: Vocabulary


@dataclass(frozen=True)
class Analysis:
    """What the analysis says before any rule has looked at the syntax."""

    suspects: Mapping[str, Sequence[Suspect]] = field(default_factory=dict)
    """By rule."""
    problems: Sequence[Finding] = ()
    """Files that could not be read."""
    unresolved: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """What a run found."""

    findings: tuple[Finding, ...]
    """Sorted by path, place and rule."""
    warnings: tuple[str, ...]
    """What a reader should know besides, each with its place."""
    unresolved: tuple[str, ...]
    """Calls whose target nobody could tell, with their places: what the rules could not look into."""
    sources: Mapping[str, Source]
    """The files of all positions in the findings."""


def check(
    paths: Sequence[str], settings: Settings, rules: Sequence[Rule], unsaved: Mapping[str, bytes] | None = None
) -> Report:
    """Look for the rules' hazards in files.

    Args:
        paths: files and folders; findings outside of them are not reported.
        settings: of the project.
        rules: what to look for.
        unsaved: content of files that differs from what is on disk, as an editor holds it.

    Raises:
        PathError: a path is missing.
        DeclarationError: a vocabulary is wrong.
        RuleError: a rule's own code failed.
    """
    return judge(read(paths, settings, unsaved or {}), rules)


def judge(inputs: Inputs, rules: Sequence[Rule]) -> Report:
    """The findings of rules in files that were read.

    Raises:
        RuleError: a rule's own code failed.
    """
    reported = frozenset(inputs.selection.report)
    analysis = analyse(inputs, rules)
    warnings: list[str] = []
    found = [finding for finding in _confirmed(analysis, inputs, rules, warnings) if finding.path in reported]
    findings = list(_unsuppressed(found, inputs, warnings))
    for problem in analysis.problems:
        if problem.path in reported:
            findings.append(problem)
        else:
            row = inputs.sources[problem.path].row(problem.span.start)
            warnings.append(f"{problem.path}:{row}: {problem.message}; the analysis goes on without this file")
    findings.sort(key=lambda finding: (finding.path, finding.span, finding.rule, finding.message))
    return Report(tuple(findings), tuple(sorted(set(warnings))), tuple(analysis.unresolved), inputs.sources)


def _confirmed(analysis: Analysis, inputs: Inputs, rules: Sequence[Rule], warnings: list[str]) -> Iterator[Finding]:
    """The suspects that their rules confirm, each with its fix; a rule reports a place once, with its shortest path."""
    if not any(analysis.suspects.values()):
        return  # and LibCST was never imported
    from graphlint.codemod import Modules, NotParsedError

    modules = Modules(inputs.sources)
    for rule in rules:
        best: dict[tuple[str, Span, str], Finding] = {}
        for suspect in analysis.suspects.get(rule.name, ()):
            precision = suspect.precision or rule.precision
            if precision is Precision.LOW and not inputs.settings.preview:
                continue
            place = f"{suspect.path}:{inputs.sources[suspect.path].row(suspect.at.start)}"
            try:
                found: Finding | None = registry.code(rule).confirm(suspect, modules[suspect.path])
                if found is None:
                    continue
                found = replace(found, severity=suspect.severity or rule.severity, precision=precision)
                key = (found.path, found.span, found.message)
                if key not in best or len(found.trace) < len(best[key].trace):
                    fix: Fix | None = registry.code(rule).fix(found, modules)
                    best[key] = replace(found, fix=fix)
            except NotParsedError as error:
                warnings.append(f"{place}: {rule.name} could not look here: {error.reason}")
            except Exception as error:
                raise RuleError(f"{place}: the rule {rule.name} failed: {type(error).__name__}: {error}") from error
        yield from best.values()


def _unsuppressed(findings: Sequence[Finding], inputs: Inputs, warnings: list[str]) -> Iterator[Finding]:
    """The findings that neither a comment nor `per-file-ignores` silences."""
    for path in sorted({finding.path for finding in findings}):
        words = ignored_in(path, inputs.settings)
        silent = {rule.name for rule in registry.select(select=words)} if words else set()
        meant: list[tuple[suppress.Pragma, set[str]]] = []
        for pragma in suppress.pragmas(inputs.sources[path]):
            names: set[str] = set()
            if pragma.error is not None:
                warnings.append(f"{path}:{pragma.row}: {pragma.error}")
            for word in pragma.rules:
                try:
                    names.add(registry.by_name(word).name)
                except registry.UnknownRuleError as error:
                    warnings.append(f"{path}:{pragma.row}: {error}")
            meant.append((pragma, names))
        for finding in findings:
            if finding.path != path or finding.rule in silent:
                continue
            if not any(finding.rule in names and pragma.silences(finding.span) for pragma, names in meant):
                yield finding


# ------------------------------------------------------------------------------------------------------- the analysis


def read(paths: Sequence[str], settings: Settings, unsaved: Mapping[str, bytes]) -> Inputs:
    """Find the files of a run, and read those that can matter.

    Raises:
        PathError: a path is missing.
        DeclarationError: a vocabulary is wrong.
    """
    from graphlint import sieve, vocabulary

    selection = files.project_files(paths, settings, unsaved=unsaved)
    words = vocabulary.load(settings.vocabulary)
    sources = {source.path: source for source in sieve.select(selection.context, words)}
    sources |= {path: Source(path, content) for path, content in unsaved.items()}
    return Inputs(selection, sources, settings, words)


def analyse(inputs: Inputs, rules: Sequence[Rule]) -> Analysis:
    """Every rule's suspects."""
    raise NotImplementedError


def problem(path: str, offset: int, rule: str, message: str) -> Finding:
    """A file that could not be read, as a finding."""
    severity = Severity.NOTE if rule == NEWER_SYNTAX else Severity.ERROR
    span = Span(offset, offset)
    return Finding(rule, severity, Precision.HIGH, message, path, span, span, symbol="")
