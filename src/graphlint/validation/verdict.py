"""Compares what a run saw with what its fixture declares.

A run of `fixed` has to show nothing: it returns, every check holds, every audit finds each pointer in a live block. A
run of `bad` has to show the declared symptom and no other. A run of a wrong rewrite has to show anything but nothing.

After a crash or an error nothing else counts, since the memory of such a process says little. Stale pointers count
beside another symptom where the fixture names the function that frees (`freed-by`); the audit then has to name it too.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from graphlint.validation.cases import BAD, FIXED, Kind, Symptom
from graphlint.validation.child import FAILED, RAISED

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it wrote down until then."""

    status: int | None
    """Exit status; negative for a signal, None where the time limit ended it."""
    seconds: float
    events: tuple[Event, ...] = field(repr=False)
    stderr: str = field(default="", repr=False)
    """The end of what it wrote to standard error."""


@dataclass(frozen=True)
class Failure:
    """One thing that a clean run does not show."""

    kinds: frozenset[Kind]
    """What it can be called: an assertion of the allocator is an error and a crash."""
    text: str
    freed_by: tuple[str, ...] = ()
    """Of a stale pointer the functions of the fixture that were running when its block was freed, innermost first."""
    freed_at: str = ""
    """And the innermost line, as `file:line`."""


class Verdict(str, Enum):
    """What a run says about its case."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    FAULTY = "faulty"
    """The suite or the machine failed, or the time ran out: nothing is known."""


@dataclass(frozen=True)
class Judged:
    """A verdict, and why."""

    verdict: Verdict
    reason: str
    failures: tuple[Failure, ...]
    """How it ended first, stale pointers last."""
    audits: int
    """Audits before a replay or a reset."""
    pointers: int
    """Blocks that those audits looked at, added up."""


def judge(variant: str, symptom: Symptom | None, ended: Ended) -> Judged:
    """The verdict on one run.

    Args:
        variant: bad, fixed, or the name of a wrong rewrite.
        symptom: what bad has to show; of no use for other variants.
        ended: the run.
    """
    failures = tuple(sorted(_failures(ended), key=lambda failure: failure.kinds == {Kind.STALE}))
    audits = [event for event in ended.events if event["event"] == "audit"]

    def verdict(verdict: Verdict, reason: str) -> Judged:
        return Judged(verdict, reason, failures, len(audits), sum(audit["blocks"] for audit in audits))

    if ended.status is None:
        return verdict(Verdict.FAULTY, f"no end within {ended.seconds:.0f} seconds")
    if ended.status == FAILED or not any(event["event"] == "start" for event in ended.events):
        told = [event["text"] for event in ended.events if event["event"] == "failed"]
        return verdict(Verdict.FAULTY, "; ".join(told) or _last_line(ended.stderr) or f"exit status {ended.status}")
    if variant == BAD:
        assert symptom is not None, "bad is run where a symptom is declared"
        wrong = _mismatch(symptom, failures)
        return verdict(Verdict.REFUTED, wrong) if wrong else verdict(Verdict.CONFIRMED, f"shows {_shown(failures)}")
    if variant == FIXED:
        if failures:
            return verdict(Verdict.REFUTED, f"shows {_shown(failures)}")
        if not any(audit["moment"] == "replay" for audit in audits):
            return verdict(Verdict.REFUTED, "no replay was audited")
        return verdict(Verdict.CONFIRMED, "clean")
    if failures:
        return verdict(Verdict.CONFIRMED, f"rejected: {_shown(failures)}")
    return verdict(Verdict.REFUTED, "a wrong rewrite runs clean")


def _failures(ended: Ended) -> Iterable[Failure]:
    """What the run shows: how it ended, then the rest as it was seen."""
    errors = [event for event in ended.events if event["event"] == "error"]
    for event in errors:
        kinds = {Kind.ERROR, Kind.CRASH} if event["device"] else {Kind.ERROR}
        yield Failure(frozenset(kinds), f"{event['type']}: {event['text'].splitlines()[0] if event['text'] else ''}")
    if ended.status is not None and ended.status < 0:
        yield Failure(
            frozenset({Kind.CRASH}), _signal(-ended.status) + (f": {said}" if (said := _fatal(ended.stderr)) else "")
        )
    elif ended.status not in (None, 0, RAISED, FAILED):
        yield Failure(frozenset({Kind.CRASH}), f"exit status {ended.status}: {_last_line(ended.stderr)}")
    for event in ended.events:
        kind = event["event"]
        if kind == "check" and not event["ok"]:
            yield Failure(frozenset({Kind.CORRUPT}), f"{event['name']}: {event['got']}, not {event['expected']}")
        elif kind == "canary":
            yield Failure(
                frozenset({Kind.CORRUPT}), f"canary: {event['elements']} elements overwritten at {event['moment']}"
            )
        elif kind == "limit" and not event["ok"]:
            yield Failure(frozenset({Kind.LEAK}), f"{event['name']}: {event['got']}, not {event['limit']}")
        elif kind == "erased":
            text = f"pool {tuple(event['pool'])} erased under {event['size']} live bytes"
            yield Failure(frozenset({Kind.STALE, Kind.CRASH}), text)
        elif kind == "audit":
            for stale in event["stale"]:
                functions = tuple(frame[2] for frame in stale["freed"])
                place = f"{stale['freed'][0][0]}:{stale['freed'][0][1]}" if stale["freed"] else ""
                text = (
                    f"before a {event['moment']}: block {stale['address']} of {stale['size']} bytes is {stale['state']}"
                )
                by = f", freed by {functions[0]} at {place}" if functions else ""
                yield Failure(frozenset({Kind.STALE}), text + by, functions, place)


def _mismatch(symptom: Symptom, failures: tuple[Failure, ...]) -> str:
    """Why failures are not the declared symptom; empty where they are."""
    shown = [failure for failure in failures if symptom.kind in failure.kinds]
    if not shown:
        return f"declared {symptom.kind.value}, shows {_shown(failures)}"
    if symptom.any_of and not any(text in failure.text for failure in shown for text in symptom.any_of):
        return f"shows {_shown(tuple(shown))}, none of {', '.join(symptom.any_of)}"
    stale = [failure for failure in failures if failure.kinds == {Kind.STALE}]
    if symptom.freed_by is not None and not any(symptom.freed_by in failure.freed_by for failure in stale):
        return f"no audit names {symptom.freed_by} as the one that freed: {_shown(tuple(stale))}"
    if symptom.kind in (Kind.CRASH, Kind.ERROR):
        return ""
    others = [
        failure
        for failure in failures
        if symptom.kind not in failure.kinds and not (symptom.freed_by is not None and failure.kinds == {Kind.STALE})
    ]
    return f"shows more than {symptom.kind.value}: {_shown(tuple(others))}" if others else ""


def _shown(failures: tuple[Failure, ...]) -> str:
    if not failures:
        return "nothing"
    first, rest = failures[0], len(failures) - 1
    return first.text + (f" (and {rest} more)" if rest else "")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _fatal(stderr: str) -> str:
    """What libc or C++ said before it raised the signal."""
    signs = (
        "free():",
        "malloc",
        "corrupted",
        "double free",
        "what():",
        "terminate called",
        "Segmentation",
        "INTERNAL ASSERT",
    )
    return next((line.strip() for line in stderr.splitlines() if any(sign in line for sign in signs)), "")


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
