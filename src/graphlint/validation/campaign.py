# ruff: noqa: T201 - a program of its own: it prints
"""The measurements behind the suite's claims: what the audit of pointers finds, and what other tools report.

    python -m graphlint.validation.campaign [--fixtures DIR] [--report DIR] [--jobs N] [RULE|RULE/CASE ...]

Prints them, and puts them into the record in the report's folder. Where cases are named, only other tools are asked.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from graphlint.validation import cases, measures, others, record, runner


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the record; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m graphlint.validation.campaign")
    parser.add_argument("wanted", nargs="*", metavar="RULE|RULE/CASE")
    parser.add_argument("--fixtures", type=Path, default=Path("fixtures"))
    parser.add_argument("--report", type=Path)
    parser.add_argument("--jobs", type=int, default=8)
    given = parser.parse_args(arguments)
    device = runner.device()
    if "error" in device:
        print(f"nothing was measured: {device['error']}", file=sys.stderr)
        return 2
    found = [case for case in cases.discover(given.fixtures, given.wanted) if case.devices <= device["devices"]]
    pointers = None if given.wanted else measures.measured()
    if pointers is not None:
        print(json.dumps(pointers, indent=1), flush=True)
    with tempfile.TemporaryDirectory(prefix="graphlint-") as place, ThreadPoolExecutor(given.jobs) as pool:
        answers = {}
        for case, answer in zip(found, pool.map(lambda case: others.reported(case, Path(place)), found), strict=True):
            print(case.title, json.dumps(answer), flush=True)
            answers[case] = answer
    if given.report:
        record.write_tools(given.report, device, pointers, answers)
    return 0 if pointers is None or pointers["all"] else 1


if __name__ == "__main__":
    sys.exit(main())
