"""A fix that is called safe changes nothing that code outside of the file can see, and takes nothing from a live graph."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path
from typing import Any

import pytest
from teardowns import program, run

from graphlint import check, fixing, registry
from graphlint.config import Settings
from graphlint.findings import Finding

SEEDS = range(int(os.environ.get("GRAPHLINT_TEARDOWNS", "150")))
LEAST = 10
"""Safe fixes that the first hundred programs must have to mean something."""
INPUTS = list(itertools.product((False, True), ("a", "b"), (0, 1), (False, True)))


def fixed(text: str) -> tuple[str, list[Finding]]:
    """A program after its safe fixes."""
    Path("m.py").write_text(text)
    inputs = check.read(["."], Settings(), {})
    outcome = fixing.fix(inputs, registry.rules())
    change = outcome.changes.get("m.py")
    return (change.after.decode() if change is not None else text), [each.finding for each in outcome.applied]


def is_no_worse(before: Any, after: Any) -> bool:
    """Whether code outside finds at least what it found: it may use what is there, and may not miss what is gone later."""
    if not (isinstance(before, tuple) and isinstance(after, tuple)) or before[0] != after[0] or before[0] == "barrier":
        return bool(before == after)
    was, now = before[1], after[1]
    return (
        set(was["replayable"]) <= set(now["replayable"])
        and all(set(was["outs"][key]) <= set(now["outs"][key]) for key in was["outs"])
        and set(was["shared"]) <= set(now["shared"])
        and was["cache"] <= now["cache"]
        and was["group"] <= now["group"]
        and was["users"] == now["users"]
    )


def taken(state: dict[str, Any]) -> set[str]:
    """What graphs that live have lost."""
    if not state["live"]:
        return set()
    return {name for name in ("cache", "group") if not state[name]} | ({"shared"} if not state["shared"] else set())


def _methods(text: str) -> str:
    return text[text.index("    def close") : text.index("class Server")] + text[text.index("    def stop") :]


def test_there_are_safe_fixes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    applied = [each.rule for seed in SEEDS[:100] for each in fixed(program(random.Random(seed)))[1]]
    assert len(applied) >= LEAST
    assert len(set(applied)) > 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_safe_fix_is_safe(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = program(random.Random(seed))
    after, applied = fixed(text)
    if not applied:
        return
    said = f"{[f'{each.rule} {each.symbol}' for each in applied]}\n{text[text.index('    def stop') :]}\n->\n"
    said += _methods(after)
    for given in INPUTS:
        seen, left = run(text, *given)
        seen_after, left_after = run(after, *given)
        for one, other in itertools.zip_longest(seen, seen_after):
            assert is_no_worse(one, other), f"{given}: code outside sees less: {one} -> {other}\n{said}"
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
