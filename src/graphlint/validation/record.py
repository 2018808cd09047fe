"""The record of real runs, kept in the repository: what was observed, on which GPU, and whether it still holds.

`graphlint validate --report docs/validation` writes it. A run replaces what the record says of the cases that were run
and leaves the rest, so that a case for two GPUs, run once elsewhere, stays observed. An entry holds as long as the
content hash of its case is what it was; a case that was edited since counts as unvalidated until it is run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphlint.validation.cases import BAD, FIXED, Case
from graphlint.validation.outcome import Outcome, as_data

RECORD, SUMMARY, PAGE = "record.json", "README.md", "report.html"

CONFIRMED = "confirmed"


@dataclass(frozen=True)
class Standing:
    """What the record says of some cases."""

    text: str
    """In words: `observed on NVIDIA H200, torch 2.11.0+cu130, 2026-12-01`, or `unvalidated: ...`."""
    holds: bool = False
    """Whether every one of them was confirmed and none has changed since."""


def write(folder: Path, outcome: Outcome) -> None:
    """Put a run into the record, and write its summary and its page anew."""
    from graphlint.validation import page

    folder.mkdir(parents=True, exist_ok=True)
    entries = read(folder)
    data = as_data(outcome)
    for entry in data["cases"]:
        if not entry["skipped"]:
            entries[f"{entry['rule']}/{entry['case']}"] = {**entry, "device": data["device"], "when": data["when"]}
    ordered = dict(sorted(entries.items()))
    (folder / RECORD).write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    (folder / SUMMARY).write_text(_summary(ordered), encoding="utf-8")
    (folder / PAGE).write_text(page.render(outcome), encoding="utf-8")


def read(folder: Path) -> dict[str, Any]:
    """The record's entries by title of their case; none where there is no record."""
    path = folder / RECORD
    if not path.exists():
        return {}
    entries: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return entries


def standing(entries: Mapping[str, Any], cases: Iterable[Case]) -> Standing:
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


def _summary(entries: Mapping[str, Any]) -> str:
    lines = [
        "# What a GPU showed",
        "",
        f"Written by `graphlint validate --report docs/validation`; the runs themselves are in [`{RECORD}`]({RECORD}),",
        f"the last run as a page in [`{PAGE}`]({PAGE}). *bad* counts the runs of the hazardous version that showed the",
        "declared symptom and no other, *fixed* those of the rewritten version that showed nothing while every pointer",
        "of its graphs was audited, *wrong* the rewrites made wrong on purpose that the suite rejected.",
        "",
        "| rule | case | default | expandable segments | bad | fixed | wrong | rewrite | on |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for entry in entries.values():
        by_setting = {
            run["setting"]: run["failures"][0]["text"] if run["failures"] else "nothing"
            for run in reversed(entry["runs"])
            if run["variant"] == BAD
        }
        wrong = {run["variant"] for run in entry["runs"]} - {BAD, FIXED}
        device = entry["device"]
        lines.append(
            f"| `{entry['rule']}` | {entry['case']} | {_cell(by_setting.get('default', '-'))} "
            f"| {_cell(by_setting.get('expandable', '-'))} | {_share(entry, {BAD})} | {_share(entry, {FIXED})} "
            f"| {_share(entry, wrong) if wrong else '-'} | {entry['codemod']} "
            f"| {device['name']}, driver {device['driver']}, torch {device['torch']}, {entry['when'][:10]} |"
        )
    return "\n".join(lines) + "\n"


def _share(entry: Mapping[str, Any], variants: set[str]) -> str:
    runs = [run for run in entry["runs"] if run["variant"] in variants]
    return f"{sum(run['verdict'] == CONFIRMED for run in runs)} of {len(runs)}"


def _cell(text: str) -> str:
    short = text if len(text) <= 110 else text[:107] + "..."
    return short.replace("|", "\\|").replace("\n", " ")
