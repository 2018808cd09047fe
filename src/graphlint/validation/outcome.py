"""The suite's result as data: what each case showed in each run, for JSON, JUnit, the page and the record."""

from __future__ import annotations

import datetime as dt
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphlint.validation.cases import BAD, FIXED, Case, digest
from graphlint.validation.rewriting import Compared
from graphlint.validation.runner import Done
from graphlint.validation.verdict import Failure, Verdict


@dataclass(frozen=True)
class CaseOutcome:
    """One case: its runs and its rewrite."""

    case: Case
    compared: Compared
    done: tuple[Done, ...]
    skipped: str = ""
    """Why nothing was run."""

    @property
    def confirmed(self) -> bool:
        """Whether every run of it is as it has to be, and its codemod makes what was run."""
        return (
            bool(self.done)
            and all(done.judged.verdict is Verdict.CONFIRMED for done in self.done)
            and self.compared.equal is not False
        )

    @property
    def verdict(self) -> str:
        """`confirmed`, `skipped`, or `not confirmed`."""
        return "skipped" if self.skipped else "confirmed" if self.confirmed else "not confirmed"

    def count(self, *variants: str) -> tuple[int, int]:
        """How many runs of some variants were as they have to be, and how many there were."""
        runs = [done for done in self.done if done.run.variant in variants]
        return sum(done.judged.verdict is Verdict.CONFIRMED for done in runs), len(runs)


@dataclass(frozen=True)
class Outcome:
    """All of it."""

    device: Mapping[str, Any]
    when: dt.datetime
    seconds: float
    cases: tuple[CaseOutcome, ...]

    @property
    def confirmed(self) -> bool:
        """Whether every case that was run is confirmed, and any was run."""
        ran = [case for case in self.cases if not case.skipped]
        return bool(ran) and all(case.confirmed for case in ran)


def gather(
    cases: Sequence[Case],
    compared: Mapping[str, Compared],
    done: Iterable[Done],
    skipped: Mapping[str, str],
    device: Mapping[str, Any],
    seconds: float,
) -> Outcome:
    """The result of a run; mappings are by the case's title."""
    runs: dict[str, list[Done]] = {}
    for each in done:
        runs.setdefault(each.run.case.title, []).append(each)
    return Outcome(
        device,
        dt.datetime.now(dt.timezone.utc),
        seconds,
        tuple(
            CaseOutcome(case, compared[case.title], tuple(runs.get(case.title, ())), skipped.get(case.title, ""))
            for case in cases
        ),
    )


def as_json(outcome: Outcome, *, events: bool = False) -> str:
    """The result as JSON, with all that each process wrote down if asked for."""
    return json.dumps(as_data(outcome, events=events), indent=1) + "\n"


def as_data(outcome: Outcome, *, events: bool = False) -> dict[str, Any]:
    """The result as JSON's own types."""
    return {
        "device": {name: value for name, value in outcome.device.items() if name not in ("free", "total")},
        "when": outcome.when.isoformat(timespec="seconds"),
        "seconds": round(outcome.seconds),
        "confirmed": outcome.confirmed,
        "cases": [_case(case, events=events) for case in outcome.cases],
    }


def _case(case: CaseOutcome, *, events: bool) -> dict[str, Any]:
    return {
        "rule": case.case.rule,
        "case": case.case.name,
        "summary": case.case.summary,
        "rewrite": case.case.rewrite.value,
        "codemod": case.compared.note,
        "verdict": case.verdict,
        "skipped": case.skipped or None,
        "sources": case.case.digest(),
        "rewritten": None if case.compared.files is None else digest(case.compared.files),
        "runs": [_run(done, events=events) for done in case.done],
    }


def _run(done: Done, *, events: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "variant": done.run.variant,
        "setting": done.run.setting.value,
        "number": done.run.number,
        "verdict": done.judged.verdict.value,
        "reason": done.judged.reason,
        "seconds": round(done.ended.seconds, 1),
        "status": done.ended.status,
        "audits": done.judged.audits,
        "pointers": done.judged.pointers,
        "failures": [_failure(failure) for failure in done.judged.failures],
    }
    return {**told, "events": list(done.ended.events), "stderr": done.ended.stderr} if events else told


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "kinds": sorted(kind.value for kind in failure.kinds),
        "text": failure.text,
        "freed_at": failure.freed_at or None,
    }


def as_junit(outcome: Outcome) -> str:
    """The result as JUnit has it: a suite for each rule, a test for each run."""
    root = ET.Element("testsuites", name="graphlint validate", time=f"{outcome.seconds:.1f}")
    suites: dict[str, ET.Element] = {}
    for case in outcome.cases:
        suite = suites.get(case.case.rule)
        if suite is None:
            suite = suites[case.case.rule] = ET.SubElement(root, "testsuite", name=case.case.rule)
        if case.skipped:
            test = ET.SubElement(suite, "testcase", classname=case.case.rule, name=case.case.name, time="0")
            ET.SubElement(test, "skipped", message=case.skipped)
        if case.compared.equal is False:
            test = ET.SubElement(
                suite, "testcase", classname=case.case.rule, name=f"{case.case.name} codemod", time="0"
            )
            ET.SubElement(test, "failure", message=case.compared.note)
        for done in case.done:
            name = f"{case.case.name} {done.run.variant} {done.run.setting.value} #{done.run.number}"
            test = ET.SubElement(
                suite, "testcase", classname=case.case.rule, name=name, time=f"{done.ended.seconds:.1f}"
            )
            if done.judged.verdict is not Verdict.CONFIRMED:
                kind = "failure" if done.judged.verdict is Verdict.REFUTED else "error"
                ET.SubElement(test, kind, message=_xml(done.judged.reason)).text = _xml(done.ended.stderr)
    for suite in suites.values():
        tests = suite.findall("testcase")
        suite.set("tests", str(len(tests)))
        for kind in ("failure", "error", "skipped"):
            suite.set(
                {"failure": "failures", "error": "errors"}.get(kind, kind),
                str(sum(test.find(kind) is not None for test in tests)),
            )
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def brief(text: str) -> str:
    """What a failure shows in few words: of a tensor its first element, of an assertion the condition."""
    text = re.sub(r"tensor of \([^)]*\)(?: from element \d+)?: \[([^,\]]*)[^\]]*\]", r"\1 ...", text)
    return re.sub(r"(INTERNAL ASSERT FAILED) at .*", r"\1", text)


def _xml(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return "".join(character for character in text if character in "\t\n" or character >= " ")


def shown(case: CaseOutcome) -> str:
    """One line on a case, for a terminal."""
    if case.skipped:
        return f"SKIPPED        {case.case.title}: {case.skipped}"
    parts = [f"{label} {right}/{all_}" for label, (right, all_) in _counts(case) if all_]
    first = next((done for done in case.done if done.judged.verdict is not Verdict.CONFIRMED), None)
    reason = (
        f"; {first.run.variant} {first.run.setting.value} #{first.run.number}: {first.judged.reason}" if first else ""
    )
    return f"{case.verdict:14} {case.case.title}: {', '.join(parts)}; rewrite {case.compared.note}{reason}"


def _counts(case: CaseOutcome) -> Iterable[tuple[str, tuple[int, int]]]:
    yield "bad shows it", case.count(BAD)
    yield "fixed clean", case.count(FIXED)
    yield "wrong rewrites rejected", case.count(*(wrong.name for wrong in case.case.wrong))
