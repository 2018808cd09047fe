"""What is found in released engines, against what was found there before and judged: noise must not grow unseen.

A file in `tests/engines` names a release, and every finding in it: its place, its rule, its severity, and the verdict of
somebody who opened it. `python benchmarks/engines.py FOLDER --unpack-only` fetches the releases; GRAPHLINT_ENGINES=FOLDER
names the folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import tomli

from graphlint import check, registry
from graphlint.config import Settings

SNAPSHOTS = sorted((Path(__file__).parent / "engines").glob("*.toml"))
VERDICTS = ("right", "wrong", "unsure")
MOST = 25
"""Most findings of one engine that are more than notes."""
MOST_NAMED = 15
"""Most of them of the rules that the project began with."""
LEAST = 8
"""Least of them in all engines."""
LEAST_RIGHT = 0.8
"""Least part of them that is right."""
NAMED = ("pool-handle", "capture-alloc", "pool-order", "duplicate-release", "unkeyed-buffer")


class Known(NamedTuple):
    """A finding, as far as it stays the same from run to run."""

    place: str
    rule: str
    severity: str


def read(snapshot: Path) -> tuple[str, dict[Known, dict[str, str]]]:
    """The package of a snapshot, and its findings with what was said of them."""
    data = tomli.loads(snapshot.read_text(encoding="utf-8"))
    return data["package"], {
        Known(each["place"], each["rule"], each["severity"]): each for each in data.get("finding", ())
    }


def found(tree: Path, package: str) -> Iterator[tuple[Known, str]]:
    report = check.check([str(tree / package)], Settings(), registry.rules())
    for each in report.findings:
        place = Path(each.path).resolve().relative_to(tree.resolve()).as_posix()
        row = report.sources[each.path].row(each.span.start)
        yield Known(f"{place}:{row}", each.rule, each.severity.value), each.message


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=[path.stem for path in SNAPSHOTS])
def test_a_snapshot_says_of_every_finding_whether_it_is_right(snapshot: Path) -> None:
    data = tomli.loads(snapshot.read_text(encoding="utf-8"))
    findings = data.get("finding", [])
    assert [set(each) for each in findings] == [{"place", "rule", "severity", "verdict", "reason"}] * len(findings)
    assert {each["verdict"] for each in findings} <= set(VERDICTS)
    assert all(each["reason"] and each["place"].startswith(f"{data['package']}/") for each in findings)
    assert findings == sorted(findings, key=lambda each: (each["place"].rpartition(":")[0], each["rule"]))
    loud = [each for each in findings if each["severity"] != "note"]
    assert len(loud) <= MOST
    assert sum(each["rule"] in NAMED for each in loud) <= MOST_NAMED


def test_of_what_is_more_than_a_note_most_is_right() -> None:
    verdicts = [
        each["verdict"]
        for snapshot in SNAPSHOTS
        for each in tomli.loads(snapshot.read_text(encoding="utf-8")).get("finding", ())
        if each["severity"] != "note"
    ]
    assert len(verdicts) >= LEAST
    assert verdicts.count("right") >= LEAST_RIGHT * len(verdicts)


@pytest.mark.engines
@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=[path.stem for path in SNAPSHOTS])
def test_an_engine_has_the_findings_that_it_had(snapshot: Path) -> None:
    folder = os.environ.get("GRAPHLINT_ENGINES")
    if folder is None:
        pytest.skip("GRAPHLINT_ENGINES does not name a folder: see benchmarks/engines.py, --unpack-only")
    tree = Path(folder) / snapshot.stem
    if not tree.is_dir():
        pytest.skip(f"{tree} is not there: run benchmarks/engines.py {folder} --unpack-only")
    package, known = read(snapshot)
    now = dict(found(tree, package))
    gone = [
        f"- {each.place} {each.rule} {each.severity} ({known[each]['verdict']})"
        for each in sorted(known.keys() - now.keys())
    ]
    new = [f"+ {each.place} {each.rule} {each.severity}: {now[each]}" for each in sorted(now.keys() - known.keys())]
    assert not [*gone, *new], "\n".join(["", *gone, *new, "", f"Open them, and say so in {snapshot.name}."])
