"""The pipeline, on one page: files -> sieve -> project -> suspects -> rules -> suppression -> findings.

`check` is all of it. `read` and `judge` are its halves: a fix is judged over files that are not on disk yet.
What comes after the sieve is imported once a file has passed it: a hook over files that mention nothing ends there.
"""

from __future__ import annotations

import builtins
import contextlib
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from graphlint import edits, files, operators, registry, sharing, sieve, silencing, suppress, syntax, vocabulary
from graphlint.config import Settings
from graphlint.edits import Applicability, Fix
from graphlint.files import Selection
from graphlint.findings import Finding, Precision, Severity, Suspect
from graphlint.rule import Rule
from graphlint.silencing import Silenced
from graphlint.source import CPP, Source, Span
from graphlint.syntax import ParseError
from graphlint.vocabulary import Vocabulary

if TYPE_CHECKING:
    from graphlint import summaries
    from graphlint.codemod import Modules
    from graphlint.cpp import BoundEffect, Joined
    from graphlint.facts import Facts
    from graphlint.native import Native
    from graphlint.project import Project

SYNTAX_ERROR = "syntax-error"
"""What a file that does not parse is reported under; no rule has this name, so none can select or silence it."""
NEWER_SYNTAX = "newer-syntax"
"""The same for a file that a newer Python may well read."""
UNREADABLE_FILE = "unreadable-file"
"""The same for a file that the system does not let us read."""


_BUILTINS = frozenset(dir(builtins)) - {"__import__", "delattr", "eval", "exec", "getattr", "setattr", "vars"}
"""Functions that Python itself has; those are left out that can reach anything."""
_PIECE = 96
"""Files that one process reads and searches before it takes more."""
_PARSED = 8
"""The same, of files to parse."""
_MANY_FUNCTIONS = 1_500
"""From this many on, a second process pays for its start."""


class RuleError(Exception):
    """A rule's own code failed; the message says which and where. A fault of this tool, not of what it reads."""


@dataclass(frozen=True)
class Inputs:
    """What a run looks at, read once."""

    selection: Selection
    sources: Mapping[str, Source]
    """The Python files that can matter, by path."""
    others: Mapping[str, Source]
    """Files that cannot matter, and are looked at for their syntax alone: a broken one must not pass in silence.

    Only a run over few files has them. A large one does not parse what mentions nothing that any rule is about.
    """
    unreadable: tuple[str, ...]
    settings: Settings
    vocabulary: Vocabulary
    native: Native | None = None
    """The C++ files, if there are any to look at."""
    facts: dict[Source, Facts | ParseError] = field(default_factory=dict, compare=False)
    """What was parsed before: a fix changes few of the files that are judged again after it."""

    def parse(self, source: Source) -> Facts | ParseError:
        """The facts of a file, or why there are none."""
        if source not in self.facts:
            from graphlint import facts

            try:
                self.facts[source] = facts.read(source)
            except ParseError as error:
                self.facts[source] = error
        return self.facts[source]


@dataclass(frozen=True)
class Analysis:
    """What the analysis of Python says before any rule has looked at the syntax."""

    suspects: Mapping[str, Sequence[Suspect]] = field(default_factory=dict)
    """By rule."""
    problems: Sequence[Finding] = ()
    """Files that do not parse."""
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
    silenced: tuple[Silenced, ...] = ()
    """What a comment or a setting keeps from being reported."""


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
    sources = {**{path: Source(path, b"") for path in inputs.unreadable}, **inputs.others, **inputs.sources}
    confirmed = list(_confirmed(analysis, inputs, rules, warnings))
    if inputs.native is not None:
        sources |= inputs.native.sources
        confirmed += inputs.native.findings(rules, preview=inputs.settings.preview)
        warnings += inputs.native.warnings
    found = [finding for finding in confirmed if finding.path in reported]
    names = frozenset(rule.name for rule in rules)
    parted = silencing.part(
        found, _looked_at(inputs, sources), inputs.settings, names, _doubts(analysis, inputs, rules)
    )
    findings = [*parted.findings]
    warnings += parted.warnings
    for problem in analysis.problems:
        if problem.path in reported:
            findings.append(problem)
        else:
            row = sources[problem.path].row(problem.span.start)
            warnings.append(f"{problem.path}:{row}: warning: {problem.message}; the analysis goes on without this file")
    warnings += operators.unknown(inputs.sources.values(), inputs.vocabulary)
    findings.sort(key=lambda finding: (finding.path, finding.span, finding.rule, finding.message))
    return Report(
        tuple(findings),
        tuple(sorted(set(warnings))),
        tuple(analysis.unresolved),
        sources,
        tuple(parted.silenced),
    )


def _looked_at(inputs: Inputs, sources: Mapping[str, Source]) -> list[Source]:
    """The files of the given paths that the rules have looked at."""
    native = inputs.native
    without = native.sources.keys() if native is not None and not native.is_read else frozenset[str]()
    broken = {path for path, source in inputs.sources.items() if isinstance(inputs.parse(source), ParseError)}
    return [sources[path] for path in inputs.selection.report if path in sources and path not in broken.union(without)]


def _doubts(analysis: Analysis, inputs: Inputs, rules: Sequence[Rule]) -> Mapping[str, list[tuple[str, Span]]]:
    """Where rules suspect something, by file: more than what they report."""
    there: dict[str, list[tuple[str, Span]]] = {}
    for name, suspects in analysis.suspects.items():
        for suspect in suspects:
            there.setdefault(suspect.path, []).append((name, suspect.at))
    native = inputs.native
    if native is not None and any(map(suppress.mentions, native.sources.values())):
        for finding in native.findings(rules, preview=True):
            there.setdefault(finding.path, []).append((finding.rule, finding.span))
    return there


def _confirmed(analysis: Analysis, inputs: Inputs, rules: Sequence[Rule], warnings: list[str]) -> Iterator[Finding]:
    """The suspects that their rules confirm, each with its fix; a rule reports a place once, with its shortest path."""
    if not any(analysis.suspects.values()):
        return  # and LibCST was never imported
    from graphlint.codemod import Modules, with_deep_stack

    modules, reported = Modules(inputs.sources), frozenset(inputs.selection.report)
    there: dict[str, list[tuple[Rule, Suspect]]] = {}
    for rule in rules:
        for suspect in analysis.suspects.get(rule.name, ()):
            if suspect.path not in reported:
                continue
            there.setdefault(suspect.path, []).append((rule, suspect))
    # A large file takes long: it begins. What comes of it stays in it, so no other can report the same.
    paths = sorted(there, key=lambda path: (-len(inputs.sources[path].content), path))

    def judged(number: int) -> tuple[list[Finding], list[str]]:
        said: list[str] = []
        return with_deep_stack(lambda: list(_confirmed_in(there[paths[number]], inputs, modules, said))), said

    work = range(len(paths))
    for found, said in sharing.shared(len(work), judged) if len(inputs.sources) > sieve.FEW else map(judged, work):
        yield from found
        warnings += said


def _confirmed_in(
    suspects: Sequence[tuple[Rule, Suspect]], inputs: Inputs, modules: Modules, warnings: list[str]
) -> Iterator[Finding]:
    """Those of one file."""
    from graphlint.codemod import NotParsedError, TooLargeError

    best: dict[tuple[str, Span, str], Finding] = {}
    for rule, suspect in suspects:
        precision = suspect.precision or rule.precision
        if precision is Precision.LOW and not inputs.settings.preview:
            continue
        place = f"{suspect.path}:{inputs.sources[suspect.path].row(suspect.at.start)}"
        try:
            found: Finding | None = registry.code(rule).confirm(suspect, modules[suspect.path])
            if found is None:
                continue
            found = replace(found, severity=suspect.severity or rule.severity, precision=precision)
            key = (rule.name, found.span, found.message)
            if key not in best or len(found.trace) < len(best[key].trace):
                try:
                    fix: Fix | None = registry.code(rule).fix(found, modules)
                except TooLargeError as error:
                    fix = None
                    found = replace(found, notes=(*found.notes, f"no fix: {error.path}: {error.reason}"))
                best[key] = replace(found, fix=fix and _honest(fix, found, inputs.sources))
        except NotParsedError as error:
            warnings.append(f"{place}: warning: {rule.name} could not look here: {error.reason}")
        except Exception as error:
            raise RuleError(f"{place}: the rule {rule.name} failed: {type(error).__name__}: {error}") from error
    yield from best.values()


def _honest(fix: Fix, finding: Finding, sources: Mapping[str, Source]) -> Fix:
    """The fix; if it drops a comment it is not safe, whatever its rule says: the words may matter to somebody."""
    if fix.applicability is not Applicability.SAFE:
        return fix
    from graphlint.comments import lost

    dropped: list[str] = []
    for path in sorted({edit.path for edit in fix.edits}):
        before = sources[path]
        there = [edit for edit in fix.edits if edit.path == path]
        if not any(b"#" in before.content[edit.span.start : edit.span.end] for edit in there):
            continue
        with contextlib.suppress(edits.OverlapError):  # it is refused when it is tried
            dropped += lost(before, there, finding.function if path == finding.path else None)
    if not dropped:
        return fix
    conditions = (*fix.conditions, *(f"the comment `{comment}` goes with it" for comment in dropped))
    return replace(fix, applicability=Applicability.UNSAFE, conditions=conditions)


# ------------------------------------------------------------------------------------------------------- the analysis


def read(
    paths: Sequence[str],
    settings: Settings,
    unsaved: Mapping[str, bytes],
    *,
    force_exclude: bool = False,
    whole: bool = False,
) -> Inputs:
    """Find the files of a run, and read those that can matter.

    Args:
        paths: files and folders.
        settings: of the project.
        unsaved: content of files that differs from what is on disk.
        force_exclude: whether given paths are left out if they are excluded.
        whole: whether to read the project around given files that mention nothing.

    Raises:
        PathError: a path is missing.
        DeclarationError: a vocabulary is wrong.
    """
    unsaved = {files.shown(path): content for path, content in unsaved.items()}
    words = vocabulary.load(settings.vocabulary)
    suffixes = files.PYTHON + CPP
    search = partial(files.project_files, paths, settings, unsaved, suffixes, force_exclude=force_exclude)
    selection = search(enough=sieve.FEW)
    if selection.is_cut and len(_by_language(selection.context)[0]) <= sieve.FEW:
        selection = search()  # C++ filled it, so it says nothing about Python
    report, reported_native = _by_language(selection.report)
    context, _ = _by_language(selection.context)
    given = list(_read(report, unsaved)) if len(report) <= sieve.FEW else []
    is_few = len(context) <= sieve.FEW
    everything = list(_read(context, unsaved)) if is_few else []
    if is_few:
        matters = whole or sieve.concern(everything, words)
    else:
        matters = whole or (bool(report) and (not given or bool(sieve.mention(given, words))))
    if selection.is_cut and (matters or reported_native):
        selection = search()
    context, around = _by_language(selection.context)
    native = None
    if around and (matters or reported_native):
        from graphlint.native import Native

        native = Native(_chosen(around, unsaved, Native.wanted), reported_native)
    matter: Sequence[Source] = ()
    if matters:
        effects = native.effects if native is not None else ()
        mentioning = partial(_mentioning, words=words, effects=effects)
        matter = everything if is_few else _chosen(context, unsaved, mentioning)
    sources = {source.path: source for source in matter}
    others = {source.path: source for source in given if source.path not in sources}
    known = {**sources, **others, **(native.sources if native is not None else {})}
    unreadable = tuple(path for path in selection.report if path not in known and not os.access(path, os.R_OK))
    return Inputs(
        selection,
        sources,
        others,
        unreadable,
        settings,
        words,
        native if native is not None and native.sources else None,
    )


def _by_language(paths: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Files of Python, and of C++."""
    return [path for path in paths if not path.endswith(CPP)], [path for path in paths if path.endswith(CPP)]


def _chosen(
    paths: Sequence[str], unsaved: Mapping[str, bytes], choose: Callable[[Iterator[Source]], Iterable[Source]]
) -> list[Source]:
    """The files that a search chooses, in order; two processes read and search where there are many."""
    size = max(_PIECE, -(-len(paths) // sharing.MOST_PIECES))
    pieces = [paths[start : start + size] for start in range(0, len(paths), size)]
    found = sharing.shared(len(pieces), lambda number: list(choose(_read(pieces[number], unsaved))))
    return [source for each in found for source in each]


def _mentioning(sources: Iterator[Source], words: Vocabulary, effects: Sequence[BoundEffect]) -> Sequence[Source]:
    """The files of a large project that can matter: by what they mention, or as they call C++ that does."""
    if not effects:
        return sieve.select(sources, words)
    everything = list(sources)
    calls = [effect.call.split(".") for effect in effects]
    calling = sieve.mentioning(everything, [(call[-1], call[-2]) for call in calls if len(call) > 1])
    chosen = {each.path for each in (*sieve.select(everything, words), *calling)}
    return [each for each in everything if each.path in chosen]


def _read(paths: Sequence[str], unsaved: Mapping[str, bytes]) -> Iterator[Source]:
    """The files that can be read."""
    for path in paths:
        source = Source(path, unsaved[path]) if path in unsaved else files.read(path)
        if source is not None:
            yield source


def projects(inputs: Inputs) -> Iterator[Project]:
    """The files as projects: one, unless several source roots define the same module."""
    from graphlint import project

    _parse(inputs)
    names = project.module_names(list(inputs.sources.values()), inputs.selection.roots)
    for paths in project.group(names):
        members = [inputs.sources[path] for path in paths]
        yield project.load([(source, inputs.parse(source)) for source in members], names)


def _parse(inputs: Inputs) -> None:
    """Parse the files of a run that were not parsed before; two processes do where they are many."""
    waiting = [source for source in inputs.sources.values() if source not in inputs.facts]
    if len(waiting) <= sieve.FEW:
        return  # each is when it is asked for
    size = max(_PARSED, -(-len(waiting) // sharing.MOST_PIECES))
    pieces = [waiting[start : start + size] for start in range(0, len(waiting), size)]
    for piece, parsed in zip(
        pieces, sharing.shared(len(pieces), lambda n: [*map(inputs.parse, pieces[n])]), strict=True
    ):
        inputs.facts.update(zip(piece, parsed, strict=True))


def analyse(inputs: Inputs, rules: Sequence[Rule]) -> Analysis:
    """Every rule's suspects in the files of a run."""
    suspects: dict[str, list[Suspect]] = {rule.name: [] for rule in rules}
    unresolved: list[str] = []
    reported = frozenset(inputs.selection.report)
    if inputs.sources:
        for analysis, joined in analyses(inputs):
            for rule, found in zip(rules, _by_rule(analysis, joined, rules), strict=True):
                suspects[rule.name] += found
            unresolved += _unresolved(analysis, reported)
    return Analysis(suspects, list(_problems(inputs)), sorted(unresolved))


def analyses(inputs: Inputs) -> Iterator[tuple[summaries.Analysis, Sequence[Joined]]]:
    """The analysis of each project of a run, and what it calls in C++."""
    for project in projects(inputs):
        yield _analysed(project, inputs)


def _analysed(project: Project, inputs: Inputs) -> tuple[summaries.Analysis, Sequence[Joined]]:
    """The analysis of a project, and what it calls in C++.

    Where C++ has bound something that matters, a first look tells which variables of Python keep its objects.
    """
    from graphlint import summaries

    if inputs.native is None or not inputs.native.effects:
        return summaries.analyse(project, inputs.vocabulary), ()
    from graphlint import cpp
    from graphlint.native import extended

    own, effects = inputs.settings.vocabulary, inputs.native.effects
    entries = [each.entry() for each in effects]
    first = summaries.analyse(project, extended(own, entries))
    joined = cpp.kept_by(effects, first)
    if [each.entry for each in joined] == entries:
        return first, joined  # no variable of Python's keeps any
    return summaries.analyse(project, extended(own, (each.entry for each in joined))), joined


def _crossed(suspects: Iterator[Suspect], joined: Sequence[Joined]) -> Iterator[Suspect]:
    """Suspects whose paths begin in C++ where what they are about does."""
    if not joined:
        return suspects
    from graphlint.cpp import crossed

    return (crossed(suspect, joined) for suspect in suspects)


def _by_rule(
    analysis: summaries.Analysis, joined: Sequence[Joined], rules: Sequence[Rule]
) -> Sequence[Sequence[Suspect]]:
    """The suspects of each rule, in the rules' order; two processes look for them in a large project."""

    def look(number: int) -> list[Suspect]:
        return list(_crossed(_suspects(analysis, ordered[number]), joined))

    if len(analysis.project.functions) < _MANY_FUNCTIONS:
        ordered = rules
        return [look(number) for number in range(len(rules))]
    analysis.prepare()
    ordered = sorted(rules, key=lambda rule: rule.automaton is None)  # those that run paths take longest: they begin
    found = dict(zip((rule.name for rule in ordered), sharing.shared(len(rules), look), strict=True))
    return [found[rule.name] for rule in rules]


def _suspects(analysis: summaries.Analysis, rule: Rule) -> Iterator[Suspect]:
    from graphlint import pools, typestate

    if rule.automaton is None:
        return iter(registry.code(rule).suspects(analysis))
    if rule.automaton.subject == "pool":
        return pools.suspects(analysis, rule)
    return typestate.suspects(analysis, rule)


def _problems(inputs: Inputs) -> Iterator[Finding]:
    """The files that cannot be analysed."""
    for path in inputs.unreadable:
        yield _problem(UNREADABLE_FILE, path, 0, "the file cannot be read")
    read = [(source, _syntax_error(source)) for source in inputs.others.values()]
    for source, result in (*read, *((source, inputs.parse(source)) for source in inputs.sources.values())):
        if isinstance(result, ParseError):
            name = NEWER_SYNTAX if result.newer else SYNTAX_ERROR
            yield _problem(name, source.path, result.offset, result.message)


def _syntax_error(source: Source) -> ParseError | None:
    try:
        syntax.parse(source)
    except ParseError as error:
        return error
    return None


def _problem(name: str, path: str, offset: int, message: str) -> Finding:
    """A file that cannot be analysed, as a finding."""
    severity = Severity.NOTE if name == NEWER_SYNTAX else Severity.ERROR
    span = Span(offset, offset)
    return Finding(name, severity, Precision.HIGH, message, path, span, span, symbol="")


def _unresolved(analysis: summaries.Analysis, reported: Container[str]) -> Iterator[str]:
    """The calls in functions that were looked into, in the given paths, whose target nobody could tell."""
    for behavior in analysis.behaviors.all():
        source = analysis.project.functions[behavior.function].module.source
        if source.path not in reported:
            continue
        for label, span in behavior.unresolved:
            if label in _BUILTINS:
                continue
            row, column = source.position(span.start)
            yield f"{source.path}:{row}:{column}: {label}"
