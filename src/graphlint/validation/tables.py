"""The record as tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphlint.validation.cases import BAD, FIXED, Kind, Setting
from graphlint.validation.others import MEANS
from graphlint.validation.outcome import brief

_WIDEST = 130
"""Characters of a cell."""

Entry = Mapping[str, Any]

_OBSERVED = """\
# What a GPU showed

Written by `graphlint validate --report docs/validation`; do not edit. [record.json](record.json) holds every run;
{pages}, to be opened in a browser, shows how each case came about: memory by pool over time, and stale pointers
with the line that freed them. [tools.md](tools.md) says what else finds these hazards.

* *default*, *expandable*: what the hazardous version showed first under that setting of torch's allocator;
* *bad*: of its runs those that showed the declared symptom and no other;
* *fixed*: of the runs of the rewritten version those that showed nothing, with every pointer audited;
* *wrong*: rewrites made wrong on purpose, and how many runs of them were rejected;
* *rewrite*: whether the fixed version is what the codemod makes.
"""
_TOOLS = """\
# What finds these hazards

Written by `python -m graphlint.validation.campaign --report docs/validation`; do not edit. Measured on
{origin}.

## The bad version of each fixture, default allocator

* *compared with eager*: results, as a test of an engine compares them;
* *torch-cudagraph-debug*: private pools that its memory probe still sees after the teardown;
* *audit*: what graphlint's audit of pointers says before a replay or a reset;
* *validate*: what `graphlint validate` shows first, by all of its means;
* a dash: it ran to its end and reported nothing.
"""
_COST = """\
A graph of {kernels} kernels takes {read} ms to read when its capture ends, and {audit} ms to audit before a replay;
{audit with history} ms where something was freed since its capture, so that the allocator's history has to be asked.
"""


def observed(entries: Mapping[str, Entry], pages: Iterable[str]) -> str:
    """What a GPU showed of each case.

    Args:
        entries: of the record.
        pages: files beside it that hold runs as pages.
    """
    return "\n".join(_observed(entries, pages)) + "\n"


def tools(told: Mapping[str, Any], entries: Mapping[str, Entry]) -> str:
    """What finds the hazards of the cases, and what the audit of pointers finds and takes.

    Args:
        told: the record of other tools.
        entries: of the record of the suite itself.
    """
    return "\n".join(_tools(told, entries)).rstrip() + "\n"


def _observed(entries: Mapping[str, Entry], pages: Iterable[str]) -> Iterator[str]:
    yield _OBSERVED.format(pages=", ".join(f"[{name}]({name})" for name in pages))
    for origin, titles in _by_origin(entries).items():
        yield f"{origin}: {len(titles)} case{'' if len(titles) == 1 else 's'}."
        yield ""
    yield "| case | default | expandable | bad | fixed | wrong | rewrite |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for title, entry in entries.items():
        shown = [_cell(_first(entry, setting)) for setting in Setting]
        shown[1:] = ["the same"] if shown[0] == shown[1] else shown[1:]
        wrong = {run["variant"] for run in entry["runs"]} - {BAD, FIXED}
        counts = (_share(entry, variants) for variants in ({BAD}, {FIXED}, wrong))
        yield f"| [{title}](../../fixtures/{title}) | {' | '.join((*shown, *counts))} | {_cell(entry['codemod'])} |"


def _by_origin(entries: Mapping[str, Entry]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for title, entry in entries.items():
        found.setdefault(_origin(entry), []).append(title)
    return found


def _origin(entry: Entry) -> str:
    device = entry["device"]
    machine = "{devices} x {name}, driver {driver}, torch {torch}".format_map(device)
    return f"{entry['when'][:10]}, {machine}"


def _first(entry: Entry, setting: Setting) -> str:
    """What bad showed first under a setting."""
    runs = [run for run in entry["runs"] if run["variant"] == BAD and run["setting"] == setting.value]
    if not runs:
        return "not declared"
    return brief(runs[0]["failures"][0]["text"]) if runs[0]["failures"] else "nothing"


def _share(entry: Entry, variants: set[str]) -> str:
    runs = [run for run in entry["runs"] if run["variant"] in variants]
    return f"{sum(run['verdict'] == 'confirmed' for run in runs)} of {len(runs)}" if runs else ""


def _tools(told: Mapping[str, Any], entries: Mapping[str, Entry]) -> Iterator[str]:
    pointers = told["pointers"]
    yield _TOOLS.format(origin=_origin(pointers))
    yield f"| case | {' | '.join(MEANS.values())} | audit | validate |"
    yield f"| --- |{' --- |' * (len(MEANS) + 2)}"
    for title, case in told["cases"].items():
        cells = [case["reported"][name] for name in MEANS]
        entry = entries.get(title)
        cells += ["not run", "not run"] if entry is None else [_audited(entry), _first(entry, Setting.DEFAULT)]
        yield f"| [{title}](../../fixtures/{title}) | {' | '.join(map(_cell, cells))} |"
    yield ""
    yield "## Pointers read back from graphs"
    yield ""
    yield "| handed to | found |"
    yield "| --- | --- |"
    for name, seen in {**pointers.get("found", {}), **pointers.get("identity", {})}.items():
        yield f"| {name} | {seen if isinstance(seen, str) else 'yes' if seen else 'NO'} |"
    if "milliseconds" in pointers:
        yield ""
        yield _COST.format_map(pointers["milliseconds"])


def _audited(entry: Entry) -> str:
    """The first stale pointer that the audit found in bad, default allocator."""
    for run in entry["runs"]:
        if run["variant"] == BAD and run["setting"] == Setting.DEFAULT.value:
            for failure in run["failures"]:
                if failure["kinds"] == [Kind.STALE.value]:
                    return str(failure["text"]).partition(" bytes is ")[2]
    return "-"


def _cell(text: str) -> str:
    short = text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."
    return short.replace("|", "\\|").replace("\n", " ")
