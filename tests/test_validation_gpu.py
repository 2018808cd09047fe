"""The validation suite on a GPU: `pytest -m gpu`. One test a fixture, and one for what the audit of pointers finds."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from graphlint.validation import measures, rewriting, runner
from graphlint.validation.cases import Case, discover
from graphlint.validation.verdict import Verdict

CASES = discover(Path(__file__).parent.parent / "fixtures")

pytestmark = pytest.mark.gpu


@functools.cache
def device() -> Mapping[str, Any]:
    return runner.device()


@pytest.fixture
def devices() -> int:
    """How many GPUs there are; the test is skipped, with the reason, where there is none."""
    if "error" in device():
        pytest.skip(f"no GPU to validate on: {device()['error']}")
    return int(device()["devices"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_fixture_is_confirmed(case: Case, devices: int) -> None:
    if case.devices > devices:
        pytest.skip(f"{case.title} needs {case.devices} devices, there are {devices}")
    compared = rewriting.compare(case)
    assert compared.equal is not False, compared.note
    fixed = {} if compared.files is None else {case.title: compared.files}
    done = runner.run_all(runner.plan([case], 1, devices), 4, lambda _: None, fixed)
    wrong = [f"{each.run.title}: {each.judged.reason}" for each in done if each.judged.verdict is not Verdict.CONFIRMED]
    assert not wrong


def test_the_audit_finds_every_pointer_and_is_quick(devices: int) -> None:
    assert devices
    measured = measures.measured()
    assert measured.get("all"), measured
    assert measured["milliseconds"]["read"] < 50
    assert measured["milliseconds"]["audit"] < 50
