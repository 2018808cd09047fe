from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from graphlint import check, fixing, registry
from graphlint.config import Settings
from graphlint.fixing import Outcome
from graphlint.writing import Change

pytestmark = pytest.mark.usefixtures("toys")

GRAPHS = "import torch\ntorch.cuda.empty_cache()\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(GRAPHS + text)


def fix(*paths: str, rule: str = "risky-call", unsafe: bool = False) -> Outcome:
    inputs = check.read(paths or (".",), Settings(), {})
    return fixing.fix(inputs, registry.select((rule,)), unsafe=unsafe)


def texts(outcome: Outcome) -> dict[str, str]:
    return {path: change.after.decode().removeprefix(GRAPHS) for path, change in outcome.changes.items()}


def reasons(outcome: Outcome) -> list[str]:
    return [refusal.reason for refusal in outcome.refused]


def test_all_safe_fixes_are_applied_and_nothing_is_written() -> None:
    make("a.py", "danger()\nif torch:\n    danger()\n")
    make("b.py", "danger(1)\n")
    make("c.py", "calm()\n")
    outcome = fix()
    assert texts(outcome) == {"a.py": "calm()\nif torch:\n    calm()\n", "b.py": "calm(1)\n"}
    assert outcome.changes["b.py"].before == (GRAPHS + "danger(1)\n").encode()
    assert len(outcome.applied) == 3
    assert (outcome.report.findings, outcome.refused) == ((), ())
    assert Path("b.py").read_text() == GRAPHS + "danger(1)\n"


def test_without_a_finding_nothing_changes() -> None:
    make("a.py", "calm()\n")
    assert fix().changes == {}


def test_unsafe_fixes_wait_for_their_flag() -> None:
    make("a.py", "trouble()\ndanger()\n")
    careful, bold = fix(), fix(unsafe=True)
    assert texts(careful) == {"a.py": "trouble()\ncalm()\n"}
    assert [finding.message for finding in careful.report.findings] == ["trouble() is risky"]
    assert careful.refused == ()
    assert texts(bold) == {"a.py": "calm()\ncalm()\n"}
    assert bold.report.findings == ()


def test_suggestions_are_never_applied() -> None:
    make("a.py", "decide()\n")
    outcome = fix(unsafe=True)
    assert (outcome.changes, outcome.applied, outcome.refused) == ({}, (), ())
    assert len(outcome.report.findings) == 1


def test_only_the_rules_asked_for_are_fixed_and_reported() -> None:
    make("a.py", "danger()\nother()\n")
    outcome = fix(rule="other-call")
    assert outcome.changes == {}
    assert [finding.rule for finding in outcome.report.findings] == ["other-call"]


def test_a_fix_that_leaves_its_finding_is_refused() -> None:
    make("a.py", "stuck()\n")
    outcome = fix()
    assert outcome.changes == {}
    assert reasons(outcome) == ["the finding is still there after it"]
    assert len(outcome.report.findings) == 1


def test_a_fix_that_breaks_the_file_is_refused() -> None:
    make("a.py", "broken()\n")
    outcome = fix()
    assert outcome.changes == {}
    (reason,) = reasons(outcome)
    assert reason.startswith("it leads to syntax-error in a.py: ")


def test_a_fix_that_leads_to_another_finding_is_refused() -> None:
    make("a.py", "worse()\n")
    outcome = fix()
    assert outcome.changes == {}
    assert reasons(outcome) == ["it leads to risky-call in a.py: decide() is risky"]


def test_a_finding_of_the_same_rule_that_a_fix_uncovers_is_fixed_with_it_or_neither_is() -> None:
    make("a.py", "layered()\n")
    outcome = fix()
    assert texts(outcome) == {"a.py": "calm()\n"}
    assert [(each.finding.message, each.row) for each in outcome.applied] == [
        ("layered() is risky", 3),
        ("danger() is risky", 3),
    ]
    make("a.py", "deep()\n")
    outcome = fix()
    assert outcome.changes == {}
    assert reasons(outcome) == ["it leads to risky-call in a.py: worse() is risky"]


def test_a_finding_that_the_rule_trades_for_is_accepted_and_reported_by_its_own_rule() -> None:
    make("a.py", "traded()\n")
    outcome = fix()
    assert texts(outcome) == {"a.py": "swapped()\n"}
    assert outcome.report.findings == ()
    assert [finding.rule for finding in check.check(["a.py"], Settings(), registry.rules()).findings] == ["risky-call"]


def test_a_bad_fix_does_not_stand_in_the_way_of_good_ones() -> None:
    make("a.py", "danger()\nworse()\ndanger()\n")
    make("b.py", "stuck()\ndanger()\nbroken()\n")
    outcome = fix()
    assert texts(outcome) == {"a.py": "calm()\nworse()\ncalm()\n", "b.py": "stuck()\ncalm()\nbroken()\n"}
    assert len(outcome.applied) == 3
    assert [refusal.finding.message for refusal in outcome.refused] == [
        "worse() is risky",
        "stuck() is risky",
        "broken() is risky",
    ]


def test_files_change_together_or_not_at_all() -> None:
    make("pkg/__init__.py", "")
    make("pkg/a.py", "everywhere()\n")
    make("pkg/b.py", "everywhere()\n")
    assert texts(fix("pkg")) == {"pkg/a.py": "calm()\n", "pkg/b.py": "calm()\n"}
    alone = fix("pkg/a.py")
    assert alone.changes == {}
    assert reasons(alone) == ["it also changes pkg/b.py, which is not among the given paths"]


def test_a_fix_whose_own_edits_overlap_is_refused() -> None:
    make("a.py", "tangled()\ndanger()\n")
    outcome = fix()
    assert texts(outcome) == {"a.py": "tangled()\ncalm()\n"}
    assert reasons(outcome) == ["its edits overlap: a.py: two edits touch byte 38"]


def test_two_fixes_that_quarrel_come_to_an_end() -> None:
    make("a.py", "traded()  # quarrel\n")
    inputs = check.read(["."], Settings(), {})
    outcome = fixing.fix(inputs, registry.rules())
    assert reasons(outcome) == ["its fix still applies after 10 rounds"]
    assert len(outcome.applied) == 10


@pytest.mark.parametrize("body", ["danger()\n", "traded()\nstuck()\ndanger()\n", "everywhere()\ntrouble()\nworse()\n"])
def test_a_second_run_changes_nothing(body: str) -> None:
    make("a.py", body)
    for path, change in fix(unsafe=True).changes.items():
        Path(path).write_bytes(change.after)
    assert fix(unsafe=True).changes == {}


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfimport torch\r\ntorch.cuda.empty_cache()\r\ndanger()\r\n",
        b"# coding: latin-1\nimport torch\ntorch.cuda.empty_cache('\xe9')\ndanger()",
        b"import torch\ntorch.cuda.empty_cache()\n\x0c\ndanger()  # \x1c\n",
    ],
)
def test_bytes_outside_of_the_edit_stay(content: bytes) -> None:
    Path("a.py").write_bytes(content)
    (change,) = fix().changes.values()
    assert change.after == content.replace(b"danger", b"calm")


def test_a_silenced_finding_is_not_fixed() -> None:
    make("a.py", "danger()  # graphlint: ignore[risky-call] on purpose\n")
    assert fix().changes == {}


def test_where_a_fix_was_made_is_told_as_the_files_were_before_all_of_them() -> None:
    make("a.py", "wordy()\nlayered()\n")
    outcome = fix()
    assert texts(outcome) == {"a.py": "calm()\ncalm()\ncalm()\n"}
    assert [(each.finding.message, each.row) for each in outcome.applied] == [
        ("wordy() is risky", 3),
        ("layered() is risky", 4),
        ("danger() is risky", 4),
    ]


@pytest.mark.parametrize(("stays", "row"), [(False, 5), (True, 4)])
def test_what_remains_is_told_as_the_files_are(*, stays: bool, row: int) -> None:
    make("a.py", "wordy()\nworse()\n")
    inputs = check.read((".",), Settings(), {})
    outcome = fixing.fix(inputs, registry.select(("risky-call",)), stays=stays)
    (finding,) = outcome.report.findings
    assert outcome.report.sources["a.py"].row(finding.span.start) == row
    assert outcome.report.sources["a.py"].text(finding.span) == "worse()"
    assert [refusal.row for refusal in outcome.refused] == [row]


def test_what_comes_up_after_a_fix_is_told_where_it_comes_from() -> None:
    make("a.py", "wordy()\ntraded()\n")
    inputs = check.read((".",), Settings(), {})
    outcome = fixing.fix(inputs, registry.rules(), stays=True)
    (finding,) = outcome.report.findings
    assert (finding.rule, finding.fix) == ("other-call", None)
    assert outcome.report.sources["a.py"].text(finding.span) == "traded()"
    assert finding.notes[-1].startswith("it comes up after these fixes")


# --------------------------------------------------------------------------------------------------------------- diff


def test_a_diff_is_unified() -> None:
    make("pkg/a.py", "danger()\n")
    assert (
        fixing.diff(fix().changes).decode()
        == """\
--- pkg/a.py
+++ pkg/a.py
@@ -1,3 +1,3 @@
 import torch
 torch.cuda.empty_cache()
-danger()
+calm()
"""
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb\n", b"a\nc\n"),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nb"),
        (b"a\r\nb\r\n", b"a\r\nc\r\n"),
        (b"a\rb\rc\n", b"a\rb\n"),
        (b"\xff\xfe\n\x0c\x1c\n", b"\xff\xff\n\x0c\x1c\n"),
        (b"a\n\n\nb", b"a\n\n\nc"),
    ],
)
def test_patch_turns_the_one_into_the_other(before: bytes, after: bytes) -> None:
    Path("a b.py").write_bytes(before)
    patch = shutil.which("git")
    assert patch is not None
    diff = fixing.diff({"a b.py": Change(before, after)})
    subprocess.run(
        [patch, "apply", "-p0", "--whitespace=nowarn", "-"],
        input=diff,
        check=True,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(Path.cwd().parent)},
    )
    assert Path("a b.py").read_bytes() == after


@pytest.mark.parametrize("name", ["a.py", "a b.py", "pkg/a.py", "c d/é.py"])
def test_the_tool_patch_takes_a_diff(name: str) -> None:
    tool = shutil.which("patch")
    if tool is None:
        pytest.skip("patch is not installed")
    make(name, "danger()\n")
    diff = fixing.diff(fix().changes)
    subprocess.run([tool, "-p0"], input=diff, check=True)
    assert Path(name).read_text() == f"{GRAPHS}calm()\n"


def test_names_above_the_working_directory_begin_where_all_files_are(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("x/a.py", "danger()\n")
    make("x/y/b.py", "danger()\n")
    make("z/c.py", "calm()\n")
    monkeypatch.chdir("z")
    changes = fix("..").changes
    assert fixing.base(changes) == str(here / "x")
    names = [line for line in fixing.diff(changes).decode().splitlines() if line.startswith("---")]
    assert names == ["--- a.py", "--- y/b.py"]
