"""Every fixture as the linter reads it: bad is reported at its markers and nowhere else, and its rewrite is `fixed`."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry, summaries
from graphlint.config import Settings
from graphlint.validation import rewriting
from graphlint.validation.cases import BAD, FIXED, Case, Rewrite, discover

ROOT = Path(__file__).parent.parent
CASES = discover(ROOT / "fixtures")
THERE = frozenset(rule.name for rule in registry.rules())

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
each_variant = pytest.mark.parametrize("variant", [BAD, FIXED])


def reported(case: Case, variant: str, place: Path) -> list[tuple[str, int, str]]:
    """File, row and rule of what all rules find in the modules of a variant, which are all there is in a place."""
    for name, content in case.files(variant).items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    report = check.judge(check.read((str(place),), Settings(root=str(place), src=(".",)), {}), registry.rules())
    assert not report.warnings
    rows = {path: source.row for path, source in report.sources.items()}
    return sorted(
        (Path(finding.path).relative_to(place).as_posix(), rows[finding.path](finding.span.start), finding.rule)
        for finding in report.findings
    )


@each_case
@each_variant
def test_findings_are_at_the_markers_and_nowhere_else(case: Case, variant: str, tmp_path: Path) -> None:
    marked = [(marker.file, marker.row, marker.rule) for marker in case.markers(variant) if marker.rule in THERE]
    assert reported(case, variant, tmp_path) == sorted(marked)


@each_case
@each_variant
def test_findings_are_the_same_in_a_large_project(
    case: Case, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, only functions are looked at for which something speaks."""
    monkeypatch.setattr(summaries, "FEW_FUNCTIONS", 0)
    test_findings_are_at_the_markers_and_nowhere_else(case, variant, tmp_path)


@each_case
def test_the_rewrite_comes_from_where_the_case_says(case: Case) -> None:
    """A rewrite is written by hand only where the codemod of the rule, if there is one, has nothing to offer."""
    if case.rewrite is Rewrite.CODEMOD:
        assert rewriting.compare(case).note == "byte for byte"
    elif case.rule in THERE:
        assert rewriting.rewritten(case) == case.files(BAD)


def test_no_rule_that_a_fixture_marks_is_missing() -> None:
    marked = {marker.rule for case in CASES for variant in (BAD, FIXED) for marker in case.markers(variant)}
    assert sorted(marked - THERE) == []
