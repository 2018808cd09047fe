"""`graphlint validate`: the validation suite on the GPU at hand.

Exit codes: 0 every case that was run is confirmed, 1 one is not, 2 nothing could be run. Without a device nothing is
confirmed, so that is 2 as well.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

FAILED = 2

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("validate", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("wanted", nargs=-1, metavar="[RULE|RULE/CASE]...")
@click.option(
    "--fixtures",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("fixtures"),
    show_default=True,
    help="Folder of the cases.",
)
@click.option("--runs", type=click.IntRange(1), default=1, show_default=True, help="How often each case is run.")
@click.option("--jobs", type=click.IntRange(1), help="Processes at a time.  [default: as CPUs and device memory allow]")
@click.option(
    "--limit", type=click.FloatRange(1), default=120.0, show_default=True, help="Seconds that a process may take."
)
@click.option("--junit", type=_FILE, help="Write the result as JUnit XML.")
@click.option("--json", "json_", type=_FILE, help="Write the result as JSON, with all that each process saw.")
@click.option("--html", type=_FILE, help="Write the result as a page.")
@click.option(
    "--report", type=click.Path(file_okay=False, path_type=Path), help="Write the record of this run to a folder."
)
@click.option("--debug", is_flag=True, hidden=True, expose_value=False)
@click.pass_context
def validate(
    context: click.Context,
    wanted: tuple[str, ...],
    fixtures: Path,
    runs: int,
    jobs: int | None,
    limit: float,
    junit: Path | None,
    json_: Path | None,
    html: Path | None,
    report: Path | None,
) -> None:
    """Show hazards, and prove rewrites, on a GPU.

    Each fixture's bad version must show the symptom that it declares, its fixed version none, under both settings of
    torch's allocator, and with every pointer of its graphs in live memory.
    """
    from graphlint.validation import cases, outcome, page, record, rewriting, runner

    try:
        found = cases.discover(fixtures, wanted)
    except cases.CaseError as error:
        raise click.UsageError(str(error)) from None
    if not found:
        raise click.UsageError(f"{fixtures}: no case")
    device = runner.device()
    if "error" in device:
        click.echo(f"nothing was validated: {device['error']}", err=True)
        context.exit(FAILED)
    click.echo("{devices} x {name}, driver {driver}, torch {torch}, CUDA {cuda}".format_map(device), err=True)
    begin = time.monotonic()
    compared = {case.title: rewriting.compare(case) for case in found}
    rewritten = {title: each.files for title, each in compared.items() if each.files is not None}
    skipped = {
        case.title: f"needs {case.devices} devices, there are {device['devices']}"
        for case in found
        if case.devices > device["devices"]
    }
    for title, reason in skipped.items():
        click.echo(f"SKIPPED {title}: {reason}", err=True)
    planned = list(runner.plan(found, runs, device["devices"]))
    jobs = jobs or max(1, min(os.cpu_count() or 1, device["free"] // runner.MEMORY))
    ended = 0

    def told(done: runner.Done) -> None:
        nonlocal ended
        ended += 1
        judged = done.judged
        click.echo(f"[{ended}/{len(planned)}] {judged.verdict.value:9} {done.run.title}: {judged.reason}", err=True)

    done = runner.run_all(planned, jobs, told, rewritten, limit)
    result = outcome.gather(found, compared, done, skipped, device, time.monotonic() - begin)
    for case in result.cases:
        click.echo(outcome.shown(case))
    for path, text in (
        (junit, outcome.as_junit),
        (json_, lambda result: outcome.as_json(result, events=True)),
        (html, page.render),
    ):
        if path is not None:
            path.write_text(text(result), encoding="utf-8")
    if report is not None:
        record.write(report, result)
    context.exit(0 if result.confirmed else 1)


if __name__ == "__main__":
    validate()
