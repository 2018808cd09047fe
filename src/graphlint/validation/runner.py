"""Runs cases, each variant in a process of its own, many at a time.

A process that hangs is ended with all that it started, one that crashes is read as far as it wrote, and neither touches
another: every run has its own folder, its own allocator setting and its own CUDA context.
"""
# ruff: noqa: S603 - the programs that it starts are Python, on files of the fixtures

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import graphlint
from graphlint.validation.cases import BAD, FIXED, Case, Files, Setting
from graphlint.validation.verdict import Ended, Judged, judge

LIMIT = 120.0
"""Seconds that a run may take; the slowest takes about ten on its own, and many run at a time."""
MEMORY = 6 << 30
"""Bytes of device memory to leave for each run."""
_TOLD = 20_000
"""Bytes of standard error that are kept."""


@dataclass(frozen=True)
class Run:
    """One process to start."""

    case: Case
    variant: str
    setting: Setting
    number: int

    @property
    def title(self) -> str:
        """What it is, in a line."""
        return f"{self.case.title} {self.variant} {self.setting.value} #{self.number}"


@dataclass(frozen=True)
class Done:
    """A run that ended, and what it says."""

    run: Run
    ended: Ended
    judged: Judged


Command = Callable[[Path, str, Path], Sequence[str]]
"""Folder, entry and events file to the command line of a child."""


def plan(cases: Iterable[Case], runs: int, devices: int) -> Iterator[Run]:
    """What to run, so that the first run of everything comes before the second of anything.

    Bad runs under the settings that it declares a symptom for, everything else under both; wrong rewrites only run the
    first time. Cases that need more devices are left out.
    """
    cases = [case for case in cases if case.devices <= devices]
    for number in range(1, runs + 1):
        for case in cases:
            for variant in case.variants:
                if number > 1 and variant not in (BAD, FIXED):
                    continue
                for setting in Setting:
                    if variant != BAD or setting in case.symptoms:
                        yield Run(case, variant, setting, number)


def run_all(
    runs: Iterable[Run],
    jobs: int,
    told: Callable[[Done], None],
    fixed: Mapping[str, Files] | None = None,
    limit: float = LIMIT,
    command: Command | None = None,
) -> tuple[Done, ...]:
    """Run everything.

    Args:
        runs: what to run.
        jobs: how many at a time.
        told: called with each run that ended, in the order of their ends.
        fixed: for a case's title the text to run as `fixed` instead of the fixture's own.
        limit: seconds that a run may take.
        command: the command line of a child, if not the suite's own.

    Returns:
        The runs in the order in which they were planned.
    """
    planned = list(runs)
    done: dict[Run, Done] = {}
    with tempfile.TemporaryDirectory(prefix="graphlint-") as place, ThreadPoolExecutor(jobs) as pool:
        waiting = {
            pool.submit(_run, run, Path(place) / str(index), fixed or {}, limit, command or _child): run
            for index, run in enumerate(planned)
        }
        try:
            for future in as_completed(waiting):
                result = future.result()
                done[result.run] = result
                told(result)
        except BaseException:  # an interrupt, or a fault of the suite: what has not begun would run for minutes
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return tuple(done[run] for run in planned)


def _run(run: Run, folder: Path, fixed: Mapping[str, Files], limit: float, command: Command) -> Done:
    folder.mkdir()
    files = fixed[run.case.title] if run.variant == FIXED and run.case.title in fixed else run.case.files(run.variant)
    for name, content in files.items():
        path = folder / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    entry = run.case.entry_of(run.variant)
    ended = start(command(folder / "code", entry, folder / "events"), folder, run.setting, limit)
    return Done(run, ended, judge(run.variant, run.case.symptoms.get(run.setting), ended))


def start(command: Sequence[str], folder: Path, setting: Setting, limit: float) -> Ended:
    """Run one child to its end, or to the limit.

    Args:
        command: its command line.
        folder: where `events`, which it writes, and its output go.
        setting: of the allocator.
        limit: in seconds.
    """
    begin = time.monotonic()
    with open(folder / "stdout", "wb") as stdout, open(folder / "stderr", "wb") as stderr:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(setting),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
    return Ended(status, time.monotonic() - begin, tuple(_events(folder / "events")), _tail(folder / "stderr"))


def environment(setting: Setting) -> dict[str, str]:
    """The environment of a child: this process's own, with one allocator setting and with this graphlint."""
    root = str(Path(graphlint.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    kept = {name: value for name, value in os.environ.items() if name != "PYTORCH_ALLOC_CONF"}
    return {**kept, "PYTHONPATH": path, "PYTORCH_CUDA_ALLOC_CONF": setting.configuration, "PYTHONFAULTHANDLER": "1"}


def device(limit: float = LIMIT) -> Mapping[str, Any]:
    """What the suite would run on, asked of a process of its own; with `error` where there is nothing to run on."""
    command = [sys.executable, "-m", "graphlint.validation.child", "--device"]
    try:
        asked = subprocess.run(
            command, env=environment(Setting.DEFAULT), capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"the device did not answer within {limit:.0f} seconds"}
    try:
        answer: Mapping[str, Any] = json.loads(asked.stdout)
    except ValueError:
        lines = asked.stderr.strip().splitlines() or [f"exit status {asked.returncode}"]
        return {"error": lines[-1]}
    return answer


def _child(folder: Path, entry: str, events: Path) -> Sequence[str]:
    return [sys.executable, "-m", "graphlint.validation.child", str(folder), entry, str(events)]


def _events(path: Path) -> Iterator[Mapping[str, Any]]:
    """The events that a child wrote; a line that its end cut short is none."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


def _tail(path: Path) -> str:
    content = path.read_bytes()
    return content[-_TOLD:].decode(errors="replace")
