"""The command line: findings on standard output, all else on standard error.

Exit codes: 0 nothing is left that fails the run, 1 something is (or `fix --diff` would change something), 2 the run
itself failed: wrong usage, a missing path, an unknown rule or setting, a fault of this tool. An interrupt gives 130.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from graphlint import __version__

if TYPE_CHECKING:  # the modules of the pipeline are imported by the commands that need them
    from graphlint.check import Inputs, Report
    from graphlint.config import Settings
    from graphlint.fixing import Outcome, Refusal
    from graphlint.regressions import Written
    from graphlint.rule import Rule

FAILED = 2
INTERRUPTED = 130

_FORMATS = ("full", "concise", "json", "github", "sarif")
_SEVERITIES = ("error", "warning", "note")

_Command = TypeVar("_Command", bound=Callable[..., Any])


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    import gc

    from graphlint import namesake

    gc.disable()  # a run makes millions of objects that live as long as it does, and next to no cycles
    words = list(sys.argv[1:] if arguments is None else arguments)
    if (warning := namesake.warning()) is not None:
        _say(f"warning: {warning}")
    try:
        code = cli.main(words, prog_name="graphlint", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        code = FAILED
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever it is, the reader gets one line and the caller its exit code
        if "--debug" in words:
            import traceback

            traceback.print_exc()
        _say(_explanation(error))
        code = FAILED
    if arguments is None:
        _end(code)
    sys.exit(code)


def _end(code: int) -> NoReturn:
    """End the process at once: to take what a large run has built apart, object by object, would be a tenth of its time."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # nobody reads any more
        code = FAILED
    os._exit(code)


def _explanation(error: Exception) -> str:
    """One line about an error that ended the run: about the reader's input, or about a fault of this tool."""
    import traceback

    from graphlint.declarations import DeclarationError
    from graphlint.files import PathError
    from graphlint.writing import PartialWriteError, WriteError

    if isinstance(error, (DeclarationError, PathError, WriteError, PartialWriteError)):
        return f"error: {error}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(os.path.dirname(frame.filename))}/{os.path.basename(frame.filename)}:{frame.lineno}"
    return (
        f"error: internal error at {place}: {type(error).__name__}: {error}; this is a fault of graphlint "
        f"{__version__}: run again with --debug, and report the traceback with the code that led to it"
    )


# ------------------------------------------------------------------------------------------------------------ options


def _words(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The words of an option that may be repeated and may hold several, separated by commas."""
    return tuple(word.strip() for value in values for word in value.split(",") if word.strip())


def _options(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_paths = click.argument("paths", nargs=-1, metavar="[PATH]...")
_config = click.option(
    "--config", type=click.Path(), metavar="FILE", help="The TOML file whose [tool.graphlint] counts."
)
_debug = click.option("--debug", is_flag=True, help="Show the traceback of an internal error.")
_selection = _options(
    click.option("--rule", multiple=True, callback=_words, metavar="NAME", help="Only this rule; may be repeated."),
    click.option("--select", multiple=True, callback=_words, metavar="NAMES", help="Only these rules or groups."),
    click.option("--ignore", multiple=True, callback=_words, metavar="NAMES", help="Not these rules or groups."),
    click.option("--preview", is_flag=True, help="Report findings of low precision too."),
)
_output = _options(
    click.option("--output-format", type=click.Choice(_FORMATS), default="full", show_default=True),
    click.option("--output-file", type=click.Path(), metavar="FILE", help="Write the findings there."),
    click.option("--fail-on", type=click.Choice(_SEVERITIES), help="The least severity that fails the run. [warning]"),
    click.option("--show-unresolved", is_flag=True, help="List the calls whose target is unknown."),
    click.option("--force-exclude", is_flag=True, help="Leave excluded files out even if they are given by name."),
    click.option("--stdin-filename", metavar="FILE", help="The file that `-`, the standard input, is the content of."),
    _config,
    _debug,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="graphlint %(version)s")
def cli() -> None:
    """Find CUDA-graph memory-lifetime hazards in the source of inference engines, and rewrite them."""


# ----------------------------------------------------------------------------------------------------------- commands


@cli.command("check")
@_paths
@_selection
@_output
def check_(paths: tuple[str, ...], **options: Any) -> int:
    """Report hazards in files and folders; PATH is the working directory if none is given."""
    from graphlint import check

    settings, rules, inputs = _inputs(paths, options)
    report = check.judge(inputs, rules)
    _print_findings(report, rules, options)
    _say_warnings(paths, inputs, report, options)
    _say(_summary(inputs, report))
    return _exit_code(report, settings)


@cli.command("fix")
@_paths
@_selection
@click.option("--diff", is_flag=True, help="Print what would change, and change nothing.")
@click.option("--unsafe-fixes", is_flag=True, help="Apply the fixes that hold only under the conditions they state.")
@click.option(
    "--with-test",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write a test of each fix there, for pytest, that fails on the code before it and needs no GPU.",
)
@_output
def fix_(paths: tuple[str, ...], *, diff: bool, unsafe_fixes: bool, with_test: str | None, **options: Any) -> int:
    """Rewrite hazards in files and folders, and report those that remain.

    A fix is applied only if afterwards its finding is gone and no other stands in its place.
    """
    from graphlint import fixing, interrupts, writing

    try:
        settings, rules, inputs = _inputs(paths, options)
        if with_test is not None:
            _check_tests(rules, changes_nothing=diff or "-" in paths)
        outcome = fixing.fix(inputs, rules, unsafe=unsafe_fixes, stays=diff)
        tests = _tests(outcome, inputs, rules, with_test) if with_test is not None else ()
    except KeyboardInterrupt:
        _say("interrupted: nothing was changed")
        raise
    if diff:
        _write(fixing.diff(outcome.changes))
        if base := fixing.base(outcome.changes):
            _say(f"the names in the diff begin at {base}: apply it with `patch -p0 -d {base}`")
    elif "-" in paths:
        (given,) = inputs.selection.report
        _write(outcome.report.sources[given].content)
    else:
        with interrupts.put_off():  # until it is said what was written
            writing.write(outcome.changes)
            _say_fixes(outcome, would="fixed")
            _write_tests(tests)
    _print_findings(outcome.report, rules, options, is_taken=diff or "-" in paths)
    if diff or "-" in paths:
        _say_fixes(outcome, would="would fix" if diff else "fixed")
    _say_warnings(paths, inputs, outcome.report, options)
    _say(_summary(inputs, outcome.report, outcome.refused, unsafe=unsafe_fixes))
    return 1 if diff and outcome.changes else _exit_code(outcome.report, settings)


def _check_tests(rules: Sequence[Rule], *, changes_nothing: bool) -> None:
    """Refuse to write tests where no fix is written, and where no rule has one.

    Raises:
        UsageError: there would be no test, whatever is fixed.
    """
    from graphlint import registry

    if changes_nothing:
        raise click.UsageError("--with-test goes with files that are rewritten, and here none is")
    if not any(rule.test for rule in rules):
        known = ", ".join(rule.name for rule in registry.rules() if rule.test)
        raise click.UsageError(f"--with-test knows no test for {', '.join(r.name for r in rules)}; it does for {known}")


def _tests(outcome: Outcome, inputs: Inputs, rules: Sequence[Rule], folder: str) -> Sequence[Written]:
    """The tests of the fixes; what has none is said.

    Raises:
        ClickException: a file is in the way of one.
    """
    from graphlint import regressions

    tests, missing = regressions.tests(outcome, inputs, rules, folder)
    for test in tests:
        if os.path.lexists(test.path):
            raise click.ClickException(f"{test.path}: this file is in the way of a test; nothing was changed")
    for each in missing:
        _say(f"{each.finding.path}:{each.row}: no test written: {each.finding.rule}: {each.reason}")
    return tests


def _write_tests(tests: Sequence[Written]) -> None:
    """Write tests beside a rewrite that is on disk already.

    Raises:
        ClickException: one cannot be written.
    """
    for test in tests:
        try:
            os.makedirs(os.path.dirname(test.path), exist_ok=True)
            with open(test.path, "x", encoding="utf-8", newline="\n") as out:
                out.write(test.content)
        except OSError as error:
            raise click.ClickException(f"{test.path}: cannot be written: {error.strerror}") from error
        _say(f"{test.path}: wrote a test of {test.finding.rule}")


@cli.command("rules")
@click.option("--output-format", type=click.Choice(("text", "json")), default="text", show_default=True)
@_debug
def rules_(*, output_format: str, **_: Any) -> None:
    """List the rules."""
    from graphlint import registry

    rules = registry.rules()
    if output_format == "json":
        import json

        _write(json.dumps([_described(rule) for rule in rules], indent=2) + "\n")
        return
    rows = [("rule", "group", "severity", "precision", "fix", "")]
    rows += [
        (
            rule.name,
            rule.group.value,
            rule.severity.value,
            rule.precision.value,
            rule.fix.value if rule.fix else "none",
            rule.summary,
        )
        for rule in rules
    ]
    _write_table(rows)


@cli.command("rule")
@click.argument("name")
@_debug
def rule_(name: str, **_: Any) -> None:
    """Print a rule's page."""
    from graphlint import registry

    try:
        _write(registry.page(registry.by_name(name)))
    except registry.UnknownRuleError as error:
        raise click.UsageError(str(error)) from None


@cli.command("vocabulary")
@click.option("--unused", type=click.Path(), metavar="PATH", help="List only names that match nothing in this tree.")
@click.option("--output-format", type=click.Choice(("text", "json")), default="text", show_default=True)
@_config
@_debug
def vocabulary_(*, unused: str | None, output_format: str, **options: Any) -> int:
    """List the names that have an effect: torch's, every engine's, and the project's own.

    With --unused, the exit code is 1 if there is one: engines move, and a name that matches nothing says nothing.
    """
    from graphlint import listing, vocabulary

    settings = _settings([unused] if unused is not None else ["."], options)
    words = vocabulary.load(settings.vocabulary)
    if unused is None:
        found = listing.items(words)
    elif (missing := listing.unused([unused], settings, words)) is not None:
        found = missing
    else:
        found = []
        _say(f"warning: no vocabulary names a package under {unused}")
    if output_format == "json":
        import json

        _write(json.dumps([item._asdict() for item in found], indent=2) + "\n")
    else:
        _write_table([(f"{item.file}:{item.row}", item.kind, item.name, item.says) for item in found])
    return int(unused is not None and bool(found))


@cli.command("flow")
@click.argument("function")
@_paths
@_config
@_debug
def flow_(function: str, paths: tuple[str, ...], **options: Any) -> None:
    """Show the effects of a function as the rules see them.

    FUNCTION is its dotted name, or the end of it: `Runner.clear`.
    """
    from graphlint import explain

    _, _, inputs = _inputs(paths, options, whole=True)
    try:
        _write(explain.flow(inputs, function))
    except explain.UnknownFunctionError as error:
        raise click.UsageError(str(error)) from None


@cli.command("why")
@click.argument("place", metavar="PATH:LINE[:COLUMN]")
@_config
@_debug
def why_(place: str, **options: Any) -> None:
    """Show what is known of a line, and why there is no finding."""
    import re

    match = re.fullmatch(r"(?P<path>.+?):(?P<row>\d+)(?::\d+)?", place, re.DOTALL)
    if match is None:
        raise click.UsageError(f"{place!r} is not of the form PATH:LINE")
    if os.path.isdir(match["path"]):
        raise click.UsageError(f"{match['path']!r} is a folder")
    from graphlint import explain

    _, rules, inputs = _inputs((match["path"],), options, whole=True)
    try:
        _write(explain.why(inputs, rules, inputs.selection.report[0], int(match["row"])))
    except explain.UnknownRowError as error:
        raise click.UsageError(str(error)) from None


@cli.command("owners")
@_paths
@click.option("--output-format", type=click.Choice(("text", "json")), default="text", show_default=True)
@_config
@_debug
def owners_(paths: tuple[str, ...], *, output_format: str, **options: Any) -> None:
    """List what holds graphs, pools and workspaces: made where, captured how, released by whom, erased where.

    What nobody releases is an orphan; what is released twice on one path is a duplicate.
    """
    from graphlint import owners

    _, _, inputs = _inputs(paths, options, whole=True)
    found = owners.owners(inputs)
    if output_format == "json":
        import json

        _write(json.dumps(owners.described(found, inputs), indent=2) + "\n")
    else:
        _write(owners.text(found, inputs))


@cli.command("validate", add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def validate_(context: click.Context, arguments: tuple[str, ...]) -> int:
    """Show hazards, and prove rewrites, on a GPU."""
    from graphlint.validation import command

    # its options are known there, and reading them here would import it for the list of commands
    code: int = command.validate.main(arguments, prog_name=context.command_path, standalone_mode=False)
    return code


# -------------------------------------------------------------------------------------------------------------- input


def _inputs(
    paths: tuple[str, ...], options: Mapping[str, Any], *, whole: bool = False
) -> tuple[Settings, tuple[Rule, ...], Inputs]:
    """The settings, the rules to run and the files to look at, as a command's arguments say.

    Args:
        paths: files and folders, or `-`.
        options: of the command line.
        whole: whether to read the project around files that mention nothing that a rule is about.
    """
    from graphlint import check

    filename = options.get("stdin_filename")
    unsaved: dict[str, bytes] = {}
    if "-" in paths:
        if len(paths) > 1 or filename is None:
            raise click.UsageError("`-` stands alone, and --stdin-filename says which file it is")
        if options.get("force_exclude"):
            raise click.UsageError("--force-exclude is about files, and `-` is none")
        unsaved[filename] = sys.stdin.buffer.read()
        paths = (filename,)
    elif filename is not None:
        raise click.UsageError("--stdin-filename goes with `-`")
    paths = paths or (".",)
    settings = _settings(paths, options)
    rules = _rules(settings, options)
    if not rules:
        raise click.UsageError("no rule is left to look for")
    return (
        settings,
        rules,
        check.read(paths, settings, unsaved, force_exclude=options.get("force_exclude", False), whole=whole),
    )


def _settings(paths: Sequence[str], options: Mapping[str, Any]) -> Settings:
    from graphlint import config
    from graphlint.findings import Severity

    file = options["config"] or config.find(paths)
    settings = config.Settings() if file is None else config.load(file)
    if options.get("preview"):
        settings = replace(settings, preview=True)
    if options.get("fail_on"):
        settings = replace(settings, fail_on=Severity(options["fail_on"]))
    return settings


def _rules(settings: Settings, options: Mapping[str, Any]) -> tuple[Rule, ...]:
    """The rules to run. Naming rules on the command line overrides what the settings say about which to run."""
    from graphlint import registry

    names, select, ignore = (options.get(key, ()) for key in ("rule", "select", "ignore"))
    if not names and not select:
        select, ignore = settings.select, (*settings.ignore, *ignore)
    try:
        return registry.select(names, select, ignore)
    except registry.UnknownRuleError as error:
        raise click.UsageError(str(error)) from None


# ------------------------------------------------------------------------------------------------------------- output


def _print_findings(
    report: Report, rules: Sequence[Rule], options: Mapping[str, Any], *, is_taken: bool = False
) -> None:
    """Print the findings, or write them to the file that is asked for.

    Args:
        report: what was found.
        rules: what was looked for.
        options: of the command line.
        is_taken: whether standard output holds a text or a diff, so that findings must go to standard error.
    """
    from graphlint.report import render

    file = options["output_file"]
    stream = sys.stderr if is_taken else sys.stdout
    colour = file is None and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    text = render(options["output_format"], report.findings, report.sources, rules, colour=colour)
    if file is not None:
        try:
            with open(file, "w", encoding="utf-8", newline="\n") as out:
                out.write(text)
        except OSError as error:
            raise click.ClickException(f"{file}: cannot be written: {error.strerror}") from error
    elif not is_taken:
        _write(text)
    elif text:
        _say(text.removesuffix("\n"))


def _say_warnings(paths: Sequence[str], inputs: Inputs, report: Report, options: Mapping[str, Any]) -> None:
    from graphlint import config, files

    settings = inputs.settings
    if settings.per_file_ignores and any(files.holds(path, settings.root) for path in paths or (".",)):
        for pattern in config.idle_patterns(inputs.selection.report, settings):
            _say(f"warning: per-file-ignores: no file matches {pattern!r}")
    for folder in inputs.selection.unreadable:
        _say(f"{folder}: warning: this folder cannot be listed")
    if not inputs.selection.report and not options["force_exclude"]:
        _say("warning: no Python or C++ file found under the given paths")
    for warning in report.warnings:
        _say(warning)
    if options["show_unresolved"]:
        for call in report.unresolved:
            _say(call)


def _say_fixes(outcome: Outcome, *, would: str) -> None:
    for applied in outcome.applied:
        finding, fix = applied.finding, applied.finding.fix
        assert fix is not None
        _say(f"{finding.path}:{applied.row}: {would} {finding.rule}: {fix.title} ({fix.applicability.value})")
        for condition in fix.conditions:
            _say(f"  - {condition}")
        if others := sorted({edit.path for edit in fix.edits} - {finding.path}):
            _say(f"  in {', '.join(others)} too")
    for refusal in outcome.refused:
        _say(f"{refusal.finding.path}:{refusal.row}: not fixed: {refusal.finding.rule}: {refusal.reason}")


def _summary(inputs: Inputs, report: Report, refused: Sequence[Refusal] = (), *, unsafe: bool = False) -> str:
    counts = Counter(finding.severity.value for finding in report.findings)
    found = ", ".join(_counted(counts[severity], severity) for severity in _SEVERITIES if counts[severity])
    native = inputs.native
    unread = native.sources.keys() if native is not None and not native.is_read else frozenset[str]()
    looked_at = [path for path in inputs.selection.report if path not in unread]
    text = f"{_counted(len(looked_at), 'file')} checked: {found or 'no findings'}"
    failed = {id(refusal.finding) for refusal in refused}
    fixes = Counter(
        finding.fix.applicability.value
        for finding in report.findings
        if finding.fix and finding.fix.edits and id(finding) not in failed
    )
    hints = []
    if failed:
        hints.append(f"{len(failed)} not fixed")
    if fixes["safe"]:
        hints.append(f"{fixes['safe']} with a safe fix: `graphlint fix`")
    if fixes["unsafe"] and not unsafe:
        hints.append(f"{fixes['unsafe']} with an unsafe one: `graphlint fix --unsafe-fixes`")
    if report.unresolved:
        hints.append(f"{_counted(len(report.unresolved), 'unresolved call')} (--show-unresolved)")
    return "; ".join((text, *hints))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _exit_code(report: Report, settings: Settings) -> int:
    fails = _SEVERITIES[: _SEVERITIES.index(settings.fail_on.value) + 1]
    return int(any(finding.severity.value in fails for finding in report.findings))


def _described(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "summary": rule.summary,
        "group": rule.group.value,
        "severity": rule.severity.value,
        "precision": rule.precision.value,
        "kind": rule.kind.value,
        "reported_at": rule.reported_at,
        "fix": rule.fix.value if rule.fix else None,
        "trades_for": list(rule.trades_for),
        "former_names": list(rule.former_names),
        "since": rule.since,
    }


def _write_table(rows: Sequence[Sequence[str]]) -> None:
    """Write rows with their columns aligned."""
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, wide, strict=True)).rstrip() for row in rows)
    _write("".join(f"{line}\n" for line in lines))


def _say(text: str) -> None:
    click.echo(text.encode(sys.stderr.encoding or "utf-8", "backslashreplace"), err=True)


def _write(text: str | bytes) -> None:
    """Write to standard output. A reader that has gone away is no error: its run goes on to its exit code."""
    content = text.encode(sys.stdout.encoding or "utf-8", "backslashreplace") if isinstance(text, str) else text
    try:
        click.echo(content, nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
    except OSError as error:
        _forget_output()
        raise click.ClickException(f"standard output cannot be written: {error.strerror}") from error


def _forget_output() -> None:
    """What is still buffered would be written once more at exit, and fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
