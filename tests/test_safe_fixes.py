"""A fix that is called safe changes nothing that code outside of the file can see, and takes nothing from a live graph."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path
from typing import Any

import pytest
from teardowns import PROGRAM, method, run

from graphlint import check, fixing, registry
from graphlint.config import Settings
from graphlint.findings import Finding

SEEDS = range(int(os.environ.get("GRAPHLINT_TEARDOWNS", "150")))
INPUTS = list(itertools.product((False, True), ("a", "b"), (0, 1), (False, True)))


def fixed(text: str) -> tuple[str, list[Finding]]:
    """A program after its safe fixes."""
    Path("m.py").write_text(text)
    inputs = check.read(["."], Settings(), {})
    outcome = fixing.fix(inputs, registry.rules())
    change = outcome.changes.get("m.py")
    return (change.after.decode() if change is not None else text), [each.finding for each in outcome.applied]


def taken(state: dict[str, Any]) -> set[str]:
    """What graphs that live have lost."""
    if not state["live"]:
        return set()
    return {name for name in ("cache", "group") if not state[name]} | ({"shared"} if not state["shared"] else set())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_safe_fix_is_safe(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PROGRAM.lstrip() + method(random.Random(seed))
    after, applied = fixed(text)
    if not applied:
        return
    said = f"{[f'{each.rule} {each.symbol}' for each in applied]}\n{text[text.index('    def stop') :]}\n->\n"
    said += after[after.index("    def stop") :]
    for given in INPUTS:
        seen, left = run(text, *given)
        seen_after, left_after = run(after, *given)
        assert seen_after == seen, f"{given}: code outside sees another state\n{said}"
        for name in ("live", "outs", "graphs", "shared"):
            before, now = left[name], left_after[name]
            if isinstance(before, dict):
                assert all(set(now[key]) <= set(before[key]) for key in before), f"{given}: {name} is kept\n{said}"
            else:
                assert set(now) <= set(before), f"{given}: {name} is kept\n{said}"
        assert taken(left_after) <= taken(left), f"{given}: a live graph loses memory\n{said}"
        assert (left["cache"], left["group"], left["users"]) == (
            left_after["cache"],
            left_after["group"],
            left_after["users"],
        ), f"{given}\n{said}"
