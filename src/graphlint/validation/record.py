"""The record of real runs, kept in the repository: what was observed, on which GPU, and whether it still holds.

`graphlint validate --report docs/validation` puts a run into it, `python -m graphlint.validation.campaign` what other
tools report. Either replaces what the record says of the cases that it ran and leaves the rest, so that a case for two
GPUs, run once elsewhere, stays observed. An entry holds as long as the content hash of its case is what it was; a case
that was edited since counts as unvalidated until it is run again.

    record.json         per case: verdict, hash, device, date, and each run with what it showed
    tools.json          per case what other tools report; and what the audit of pointers finds and takes
    README.md, tools.md the same as tables
    report-<n>-gpu.html the last run with so many GPUs, as a page
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphlint.validation import tables
from graphlint.validation.cases import Case
from graphlint.validation.outcome import Outcome, as_data

RECORD, TOOLS = "record.json", "tools.json"
_DEVICE = ("name", "devices", "driver", "torch", "cuda", "python")
_TEXTS = 2
"""Failures of a run that the record keeps, beside the first stale pointer; `--json` keeps them all."""

CONFIRMED = "confirmed"

Entries = Mapping[str, Mapping[str, Any]]
"""By the title of a case."""


@dataclass(frozen=True)
class Standing:
    """What the record says of some cases."""

    text: str
    """In words: `observed on NVIDIA H200, torch 2.11.0+cu130, 2026-12-01`, or `unvalidated: ...`."""
    holds: bool = False
    """Whether every one of them was confirmed and none has changed since."""


def write(folder: Path, outcome: Outcome) -> None:
    """Put a run into the record, and write its tables and its page anew."""
    from graphlint.validation import page

    data = as_data(outcome)
    entries = dict(read(folder))
    for entry in data["cases"]:
        if not entry["skipped"]:
            runs = [_kept(run) for run in entry["runs"]]
            device = {key: data["device"][key] for key in _DEVICE}
            entries[f"{entry['rule']}/{entry['case']}"] = {
                **entry,
                "runs": runs,
                "device": device,
                "when": data["when"],
            }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RECORD).write_text(_lines(dict(sorted(entries.items()))), encoding="utf-8")
    (folder / f"report-{outcome.device['devices']}-gpu.html").write_text(page.render(outcome), encoding="utf-8")
    _write_tables(folder)


def write_tools(
    folder: Path,
    device: Mapping[str, Any],
    pointers: Mapping[str, Any] | None,
    answers: Mapping[Case, Mapping[str, str]],
) -> None:
    """Put a campaign into the record, and write its tables anew.

    Args:
        folder: of the record.
        device: where it was measured.
        pointers: what the audit of pointers finds and takes; None if that was not measured.
        answers: for a case what each means reports.
    """
    origin = {
        "device": {key: device[key] for key in _DEVICE},
        "when": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
    }
    before = read_tools(folder)
    cases = dict(before.get("cases", {}))
    for case, answer in answers.items():
        cases[case.title] = {**origin, "sources": case.digest(), "reported": dict(answer)}
    folder.mkdir(parents=True, exist_ok=True)
    measured = before.get("pointers", origin) if pointers is None else {**origin, **pointers}
    told = {"pointers": measured, "cases": dict(sorted(cases.items()))}
    (folder / TOOLS).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    _write_tables(folder)


def read(folder: Path) -> Entries:
    """The record's entries; none where there is no record."""
    return _read(folder / RECORD)


def read_tools(folder: Path) -> Mapping[str, Any]:
    """What was recorded of other tools (`cases`) and of the audit (`pointers`); empty where there is no record."""
    return _read(folder / TOOLS)


def standing(entries: Entries, cases: Iterable[Case]) -> Standing:
    """What the record says of cases, say those of one rule."""
    confirmed: list[Mapping[str, Any]] = []
    for case in cases:
        entry = entries.get(case.title)
        if entry is None:
            return Standing(f"unvalidated: {case.title} was never run")
        date = entry["when"][:10]
        if entry["sources"] != case.digest():
            return Standing(f"unvalidated: {case.title} has changed since it was run on {date}")
        if entry["verdict"] != CONFIRMED:
            return Standing(f"unvalidated: {case.title} was {entry['verdict']} on {date}")
        confirmed.append(entry)
    if not confirmed:
        return Standing("unvalidated: no case shows it on a GPU")
    last = max(confirmed, key=lambda entry: str(entry["when"]))
    text = f"observed on {last['device']['name']}, torch {last['device']['torch']}, {last['when'][:10]}"
    return Standing(text, holds=True)


def _write_tables(folder: Path) -> None:
    entries, tools = read(folder), read_tools(folder)
    pages = sorted(path.name for path in folder.glob("report-*-gpu.html"))
    (folder / "README.md").write_text(tables.observed(entries, pages), encoding="utf-8")
    if tools:
        (folder / "tools.md").write_text(tables.tools(tools, entries), encoding="utf-8")


def _kept(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run without what its first failures say already."""
    failures = run["failures"]
    stale = next((failure for failure in failures[_TEXTS:] if failure["kinds"] == ["stale"]), None)
    kept = [*failures[:_TEXTS], *([stale] if stale else [])]
    return {**run, "failures": kept, "left_out": len(failures) - len(kept)}


def _lines(entries: Entries) -> str:
    """The record as JSON with a run a line, so that a difference between two runs can be read."""
    cases = []
    for title, entry in entries.items():
        head = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in entry.items() if key != "runs")
        runs = ",\n".join(f"   {json.dumps(run)}" for run in entry["runs"])
        cases.append(f' {json.dumps(title)}: {{\n{head}  "runs": [\n{runs}\n  ]\n }}')
    return "{\n" + ",\n".join(cases) + "\n}\n"


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
