"""The validation suite without a GPU: reading cases, running children, telling their ends apart, reporting."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from graphlint.declarations import DeclarationError
from graphlint.validation import (
    campaign,
    cases,
    command,
    measures,
    others,
    outcome,
    page,
    record,
    rewriting,
    rulepages,
    runner,
    verdict,
)
from graphlint.validation.cases import BAD, FIXED, Case, CaseError, Kind, Setting, Symptom
from graphlint.validation.runner import Done, Run
from graphlint.validation.verdict import Ended, Verdict
from graphlint.validation.watch import Block, touched

ROOT = Path(__file__).parent.parent

DEVICE = {
    "name": "Test GPU",
    "devices": 1,
    "torch": "2.0",
    "cuda": "12.0",
    "driver": "1.0",
    "python": "3.10",
    "free": 64 << 30,
    "total": 64 << 30,
}

TOML = """
summary = "a test"
rewrite = "by-hand"

[symptom.default]
kind = "corrupt"
any-of = ["sum"]
"""


def write_case(root: Path, rule: str = "some-rule", name: str = "one", toml: str = TOML, **files: str) -> Path:
    folder = root / rule / name
    folder.mkdir(parents=True)
    (folder / "fixture.toml").write_text(toml, encoding="utf-8")
    for stem, content in (files or {"bad": "x = 1  # hazard: some-rule\n", "fixed": "x = 2\n"}).items():
        (folder / f"{stem}.py").write_text(content, encoding="utf-8")
    return folder


def load_case(root: Path, **options: Any) -> Case:
    return cases.load(write_case(root, **options) / "fixture.toml")


# ---- cases


def test_markers_are_stripped_with_their_blanks_and_keep_the_rows() -> None:
    text = b"a = 1  # hazard: pool-order\nb = 2\nc = 3 # hazard: one-rule, other-rule\r\nd = '# hazard: not-one'\n"
    assert cases.strip_markers(text) == (
        b"a = 1\nb = 2\nc = 3\r\nd = '# hazard: not-one'\n",
        ((1, "pool-order"), (3, "one-rule"), (3, "other-rule")),
    )


def test_a_case_reads_its_files_without_markers(tmp_path: Path) -> None:
    case = load_case(tmp_path)
    assert case.title == "some-rule/one"
    assert case.files(BAD) == {"bad.py": b"x = 1\n"}
    assert [(marker.file, marker.row, marker.rule) for marker in case.markers(BAD)] == [("bad.py", 1, "some-rule")]
    assert case.symptoms == {Setting.DEFAULT: Symptom(Kind.CORRUPT, ("sum",))}


def test_a_case_of_folders_has_an_entry(tmp_path: Path) -> None:
    folder = tmp_path / "some-rule" / "one"
    for variant in (BAD, FIXED):
        (folder / variant).mkdir(parents=True)
        (folder / variant / "main.py").write_text("import other\n", encoding="utf-8")
        (folder / variant / "other.py").write_text("y = 1\n", encoding="utf-8")
    (folder / "fixture.toml").write_text('entry = "main.py"\n' + TOML, encoding="utf-8")
    case = cases.load(folder / "fixture.toml")
    assert set(case.files(FIXED)) == {"main.py", "other.py"}
    assert case.entry_of(BAD) == case.entry_of(FIXED) == "main.py"


def test_a_wrong_rewrite_replaces_one_text_of_fixed(tmp_path: Path) -> None:
    wrong = '\n[[wrong]]\nname = "off by one"\nfile = "fixed.py"\nreplace = "2"\nwith = "3"\n'
    case = load_case(tmp_path, toml=TOML + wrong)
    assert case.variants == (BAD, FIXED, "off by one")
    assert case.files("off by one") == {"fixed.py": b"x = 3\n"}
    with pytest.raises(CaseError, match=r"fixed\.py: the text that 'off by one' replaces is there 0 times"):
        load_case(tmp_path, name="two", toml=TOML + wrong.replace('"2"', '"7"'))


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (TOML + "\n[symptom.other]\nkind = 'leak'\n", "unknown allocator setting 'other'"),
        (TOML.replace("corrupt", "explode"), "explode"),
        (
            TOML + '\n[[wrong]]\nname = "bad"\nfile = "a"\nreplace = "b"\nwith = "c"\n',
            "is the name of a variant already",
        ),
        ("summary = 'no more'\n", "rewrite"),
    ],
)
def test_a_wrong_declaration_is_an_error_with_its_place(tmp_path: Path, toml: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message) as error:
        load_case(tmp_path, toml=toml)
    assert "fixture.toml" in str(error.value)


def test_a_missing_file_a_missing_folder_and_a_rule_without_a_case_are_errors(tmp_path: Path) -> None:
    write_case(tmp_path, bad="x = 1\n")
    with pytest.raises(CaseError, match=r"no fixed with fixed\.py"):
        cases.discover(tmp_path)
    with pytest.raises(CaseError, match="no such folder"):
        cases.discover(tmp_path / "nowhere")
    for name in ("other-rule", "some-rule/two", "one"):
        with pytest.raises(CaseError, match=f"no case of '{name}'"):
            cases.discover(tmp_path, [name])


def test_rules_and_single_cases_can_be_asked_for(tmp_path: Path) -> None:
    for rule, name in (("a-rule", "one"), ("a-rule", "two"), ("b-rule", "one"), ("b-rule", "two")):
        write_case(tmp_path, rule=rule, name=name)
    found = [case.title for case in cases.discover(tmp_path, ["b-rule", "a-rule/two", "b-rule/one"])]
    assert found == ["a-rule/two", "b-rule/one", "b-rule/two"]


def test_the_digest_sees_every_source_and_no_marker(tmp_path: Path) -> None:
    folder = write_case(tmp_path)
    before = cases.load(folder / "fixture.toml").digest()
    (folder / "bad.py").write_text("x = 1\n", encoding="utf-8")
    assert cases.load(folder / "fixture.toml").digest() == before
    (folder / "bad.py").write_text("x = 4\n", encoding="utf-8")
    assert cases.load(folder / "fixture.toml").digest() != before


# ---- runs


def child(script: str) -> runner.Command:
    """Children that run a script instead of the suite's; `EVENTS` in it is where they write."""

    def line(folder: Path, entry: str, events: Path) -> Sequence[str]:
        del folder, entry
        return [sys.executable, "-c", f"EVENTS = {str(events)!r}\n{script}"]

    return line


WRITES = """
import json, os, signal, sys, time
def tell(**event):
    with open(EVENTS, "ab", buffering=0) as stream:
        stream.write(json.dumps(event).encode() + b"\\n")
tell(event="start")
"""


def ended(tmp_path: Path, script: str, limit: float = 20.0) -> Ended:
    case = load_case(tmp_path / "fixtures")
    run = Run(case, FIXED, Setting.DEFAULT, 1)
    (done,) = runner.run_all([run], 1, lambda _: None, limit=limit, command=child(WRITES + script))
    return done.ended


def test_a_child_that_returns(tmp_path: Path) -> None:
    result = ended(tmp_path, "tell(event='end'); print('noise'); print('more', file=sys.stderr)")
    assert (result.status, [event["event"] for event in result.events]) == (0, ["start", "end"])
    assert result.stderr == "more\n"


def test_a_child_that_dies_by_a_signal_keeps_what_it_wrote(tmp_path: Path) -> None:
    result = ended(
        tmp_path, "tell(event='canary', number=0, moment='end', elements=3); os.kill(os.getpid(), signal.SIGSEGV)"
    )
    assert result.status == -signal.SIGSEGV
    assert [event["event"] for event in result.events] == ["start", "canary"]


def test_a_child_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    begin = time.monotonic()
    mark = tmp_path / "alive"
    sleeper = f"import time; time.sleep(3); open({str(mark)!r}, 'w')"
    result = ended(
        tmp_path, f"import subprocess; subprocess.Popen([sys.executable, '-c', {sleeper!r}]); time.sleep(60)", limit=1.0
    )
    assert result.status is None
    assert time.monotonic() - begin < 20
    time.sleep(3)
    assert not mark.exists()


def test_a_line_that_the_end_cut_short_is_no_event(tmp_path: Path) -> None:
    result = ended(tmp_path, """open(EVENTS, "ab").write(b'{"event": "che')""")
    assert [event["event"] for event in result.events] == ["start"]


def test_a_fault_of_the_suite_begins_nothing_new(tmp_path: Path) -> None:
    case = load_case(tmp_path / "fixtures")
    runs = [Run(case, BAD, Setting.DEFAULT, number) for number in range(1, 9)]
    begun = tmp_path / "begun"

    def told(done: Done) -> None:
        raise RuntimeError(done.run.title)

    with pytest.raises(RuntimeError, match="#"):
        runner.run_all(runs, 1, told, command=child(WRITES + f"open({str(begun)!r}, 'a').write('x')"))
    assert len(begun.read_text(encoding="utf-8")) < len(runs)


def test_children_do_not_touch_each_other_and_run_at_once(tmp_path: Path) -> None:
    case = load_case(tmp_path / "fixtures", toml=TOML + "\n[symptom.expandable]\nkind = 'leak'\n")
    runs = [Run(case, variant, setting, 1) for variant in (BAD, FIXED) for setting in Setting]
    script = """
import glob
while len(glob.glob(os.path.join(os.path.dirname(os.path.dirname(EVENTS)), "*", "events"))) < 4:  # none ends before all have begun
    time.sleep(0.01)
tell(event="sample", moment=os.environ["PYTORCH_CUDA_ALLOC_CONF"], pools={})
os.kill(os.getpid(), signal.SIGABRT)
"""
    told: list[Done] = []
    done = runner.run_all(runs, 4, told.append, command=child(WRITES + script))
    assert [each.run for each in done] == runs
    assert {each.run for each in told} == set(runs)
    assert [each.ended.events[1]["moment"] for each in done] == [
        "expandable_segments:False",
        "expandable_segments:True",
    ] * 2


def test_the_rewritten_text_is_what_runs_as_fixed(tmp_path: Path) -> None:
    case = load_case(tmp_path / "fixtures")

    def line(folder: Path, entry: str, events: Path) -> Sequence[str]:
        script = f"import shutil; shutil.copy({str(folder / entry)!r}, {str(tmp_path / 'ran')!r})"
        return [sys.executable, "-c", f"EVENTS = {str(events)!r}\n{WRITES}{script}"]

    run = Run(case, FIXED, Setting.DEFAULT, 1)
    runner.run_all([run], 1, lambda _: None, {case.title: {"fixed.py": b"rewritten = 1\n"}}, command=line)
    assert (tmp_path / "ran").read_bytes() == b"rewritten = 1\n"


def test_the_plan_runs_bad_where_it_declares_a_symptom_and_leaves_out_what_needs_more_devices(tmp_path: Path) -> None:
    one = load_case(tmp_path)
    two = load_case(tmp_path, name="two", toml="devices = 2\n" + TOML)
    wrong = '\n[[wrong]]\nname = "off"\nfile = "fixed.py"\nreplace = "2"\nwith = "3"\n'
    odd = load_case(tmp_path, name="odd", toml=TOML + wrong)
    numbers = [run.number for run in runner.plan([odd], 3, devices=1) if run.variant == "off"]
    assert numbers == [1, 1]
    planned = [(run.case.name, run.variant, run.setting, run.number) for run in runner.plan([one, two], 2, devices=1)]
    assert planned == [
        ("one", variant, setting, number)
        for number in (1, 2)
        for variant, setting in (
            (BAD, Setting.DEFAULT),
            (FIXED, Setting.DEFAULT),
            (FIXED, Setting.EXPANDABLE),
        )
    ]


def test_the_child_itself_says_why_it_could_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('torch is broken here')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    case = load_case(tmp_path / "fixtures")
    (done,) = runner.run_all([Run(case, BAD, Setting.DEFAULT, 1)], 1, lambda _: None)
    assert done.judged.verdict is Verdict.FAULTY
    assert "torch is broken here" in done.judged.reason


# ---- verdicts

START = {"event": "start"}
AUDIT = {"event": "audit", "moment": "replay", "graph": 1, "blocks": 3, "seconds": 0.0, "stale": []}
STALE = {
    **AUDIT,
    "stale": [
        {
            "address": "0x1",
            "size": 8,
            "pool": [0, 0],
            "state": "reused",
            "freed": [["bad.py", 7, "get"], ["bad.py", 20, "observe"]],
        }
    ],
}
WRONG_SUM = {"event": "check", "name": "the sum", "ok": False, "got": "1", "expected": "2"}
LEFT = {"event": "limit", "name": "bytes of pool (0, 1)", "ok": False, "got": 512, "limit": 0}
CANARY = {"event": "canary", "number": 0, "moment": "replay", "elements": 9}


def raised(text: str, *, device: bool = False) -> dict[str, Any]:
    return {"event": "error", "type": "RuntimeError", "text": text, "device": device, "frames": []}


def judged(variant: str, symptom: Symptom | None, status: int | None, *events: Any) -> tuple[Verdict, str]:
    result = verdict.judge(variant, symptom, Ended(status, 1.0, (START, *events), "abort: malloc(): corrupted\n"))
    return result.verdict, result.reason


@pytest.mark.parametrize(
    ("symptom", "status", "events", "confirmed"),
    [
        (Symptom(Kind.CORRUPT, ("sum",)), 0, [WRONG_SUM], True),
        (Symptom(Kind.CORRUPT, ("canary",)), 0, [CANARY], True),
        (Symptom(Kind.CORRUPT, ("canary",)), 0, [WRONG_SUM], False),
        (Symptom(Kind.CORRUPT), 0, [], False),
        (Symptom(Kind.CORRUPT), 0, [WRONG_SUM, LEFT], False),
        (Symptom(Kind.CORRUPT), 0, [WRONG_SUM, STALE], False),
        (Symptom(Kind.CORRUPT, (), "get"), 0, [WRONG_SUM, STALE], True),
        (Symptom(Kind.CORRUPT, (), "observe"), 0, [WRONG_SUM, STALE], True),
        (Symptom(Kind.CORRUPT, (), "put"), 0, [WRONG_SUM, STALE], False),
        (Symptom(Kind.CORRUPT, (), "get"), 0, [WRONG_SUM], False),
        (Symptom(Kind.CORRUPT), 3, [WRONG_SUM, raised("other")], True),
        (Symptom(Kind.LEAK), 0, [LEFT], True),
        (Symptom(Kind.LEAK), 0, [WRONG_SUM], False),
        (Symptom(Kind.STALE), 0, [STALE], True),
        (Symptom(Kind.ERROR, ("use_count",)), 3, [raised("use_count > 0 INTERNAL ASSERT", device=True)], True),
        (Symptom(Kind.ERROR, ("use_count",)), 3, [raised("something else")], False),
        (Symptom(Kind.CRASH), 3, [raised("something else")], False),
        (Symptom(Kind.CRASH, ("illegal",)), 3, [raised("CUDA error: an illegal memory access", device=True)], True),
        (Symptom(Kind.CRASH, ("SIGSEGV", "SIGABRT")), -6, [], True),
        (Symptom(Kind.CRASH, ("SIGSEGV",)), -6, [], False),
        (Symptom(Kind.CRASH, ("malloc",)), -6, [], True),
        (Symptom(Kind.ERROR), -6, [], False),
        (Symptom(Kind.CRASH), 7, [], True),
    ],
)
def test_bad_has_to_show_its_symptom(symptom: Symptom, status: int, events: list[Any], *, confirmed: bool) -> None:
    found, reason = judged(BAD, symptom, status, *events)
    # An undeclared error ends the run before it can be said to be corrupt.
    expected = confirmed and not (symptom.kind is Kind.CORRUPT and status == 3)
    assert (found is Verdict.CONFIRMED) is expected, reason
    assert found is not Verdict.FAULTY


@pytest.mark.parametrize("event", [WRONG_SUM, LEFT, CANARY, STALE, {"event": "erased", "pool": [0, 1], "size": 8}])
def test_fixed_has_to_show_nothing(event: Any) -> None:
    assert judged(FIXED, None, 0, AUDIT) == (Verdict.CONFIRMED, "clean")
    assert judged(FIXED, None, 0, AUDIT, event)[0] is Verdict.REFUTED
    assert judged(FIXED, None, -11, AUDIT)[0] is Verdict.REFUTED
    assert judged("a wrong rewrite", None, 0, AUDIT, event)[0] is Verdict.CONFIRMED
    assert judged("a wrong rewrite", None, 0, AUDIT) == (Verdict.REFUTED, "a wrong rewrite runs clean")


def test_fixed_is_not_confirmed_where_no_replay_was_audited() -> None:
    assert judged(FIXED, None, 0) == (Verdict.REFUTED, "no replay was audited")
    assert judged(FIXED, None, 0, {**AUDIT, "moment": "reset"})[0] is Verdict.REFUTED


@pytest.mark.parametrize("variant", [BAD, FIXED, "a wrong rewrite"])
def test_a_fault_of_the_suite_and_a_time_limit_confirm_nothing(variant: str) -> None:
    symptom = Symptom(Kind.CRASH)
    assert judged(variant, symptom, None, WRONG_SUM) == (Verdict.FAULTY, "no end within 1 seconds")
    assert judged(variant, symptom, 4, {"event": "failed", "text": "no driver"}) == (Verdict.FAULTY, "no driver")
    died = verdict.judge(variant, symptom, Ended(-11, 1.0, ()))
    assert died.verdict is Verdict.FAULTY


# ---- pointers


def test_an_address_belongs_to_the_block_around_it() -> None:
    blocks = [Block(4096, 512, held=True, pool=(0, 0)), Block(1024, 512, held=False, pool=(0, 1))]
    assert touched(blocks, [1023, 1536, 4095, 4608]) == ()
    assert touched(blocks, [4096, 4607, 1535]) == (blocks[1], blocks[0])


# ---- results


@pytest.fixture
def result(tmp_path: Path) -> outcome.Outcome:
    """Two cases that ran, of which one is not as it has to be, and one that was skipped."""
    found = [load_case(tmp_path / "fixtures", name=name) for name in ("one", "three", "two")]
    done = []
    for case in found[:2]:
        for variant in (BAD, FIXED):
            events = (
                (START, AUDIT)
                if variant == FIXED
                else (START, WRONG_SUM)
                if case.name == "one"
                else (START, STALE, LEFT)
            )
            samples = ({"event": "sample", "moment": "<capture>", "pools": {"0.0": 1 << 20, "1.0": 5 << 20}},)
            end = Ended(0, 1.0, events + samples, "<script>\x00")
            run = Run(case, variant, Setting.DEFAULT, 1)
            done.append(Done(run, end, verdict.judge(variant, case.symptoms[Setting.DEFAULT], end)))
    compared = {case.title: rewriting.compare(case) for case in found}
    return outcome.gather(found, compared, done, {found[2].title: "needs 2 devices"}, DEVICE, 2.0)


def test_a_result_is_confirmed_only_as_a_whole(result: outcome.Outcome) -> None:
    assert [case.verdict for case in result.cases] == ["confirmed", "not confirmed", "skipped"]
    assert not result.confirmed
    assert [case.count(BAD) for case in result.cases] == [(1, 1), (0, 1), (0, 0)]
    assert "declared corrupt, shows bytes of pool" in outcome.shown(result.cases[1])
    assert outcome.shown(result.cases[2]) == "SKIPPED        some-rule/two: needs 2 devices"


def test_the_json_holds_each_run(result: outcome.Outcome) -> None:
    data = json.loads(outcome.as_json(result, events=True))
    assert [case["verdict"] for case in data["cases"]] == ["confirmed", "not confirmed", "skipped"]
    assert data["cases"][1]["runs"][0]["failures"] == [
        {"kinds": ["leak"], "text": "bytes of pool (0, 1): 512, not 0", "freed_at": None},
        {
            "kinds": ["stale"],
            "text": "before a replay: block 0x1 of 8 bytes is reused, freed by get at bad.py:7",
            "freed_at": "bad.py:7",
        },
    ]
    assert data["cases"][0]["runs"][0]["events"][1] == WRONG_SUM
    assert "events" not in json.loads(outcome.as_json(result))["cases"][0]["runs"][0]


def test_the_junit_is_read_as_junit(result: outcome.Outcome) -> None:
    root = ET.fromstring(outcome.as_junit(result))
    (suite,) = root
    assert suite.attrib == {"name": "some-rule", "tests": "5", "failures": "1", "errors": "0", "skipped": "1"}
    (failure,) = root.iter("failure")
    assert "declared corrupt" in failure.attrib["message"]


def test_the_page_needs_nothing_else_and_escapes(result: outcome.Outcome) -> None:
    text = page.render(result)
    assert "http" not in text.replace("http-equiv", "")
    assert "<script" not in text
    assert "&lt;capture&gt;: pool (1, 0), 5 MiB" in text
    assert "get (bad.py:7) ← observe (bad.py:20)" in text
    assert "1 of 2 cases confirmed" in text


def test_the_record_keeps_what_was_not_run_and_knows_what_changed(result: outcome.Outcome, tmp_path: Path) -> None:
    folder = tmp_path / "record"
    record.write(folder, result)
    first, third, second = (case.case for case in result.cases)
    entries = record.read(folder)
    assert set(entries) == {first.title, third.title}
    assert record.standing(entries, [first]) == record.Standing(
        f"observed on Test GPU, torch 2.0, {result.when:%Y-%m-%d}", holds=True
    )
    assert "was not confirmed on" in record.standing(entries, [first, third]).text
    assert record.standing(entries, [second]).text == "unvalidated: some-rule/two was never run"
    assert not record.standing(entries, []).holds
    (first.folder / "fixed.py").write_text("x = 5\n", encoding="utf-8")
    assert "has changed since it was run on" in record.standing(entries, [first]).text
    only = outcome.Outcome(result.device, result.when, 1.0, result.cases[:1])
    record.write(folder, only)
    assert set(record.read(folder)) == {first.title, third.title}
    table = (folder / "README.md").read_text(encoding="utf-8")
    assert "one) | the sum: 1, not 2 | not declared | 1 of 1 | 1 of 1 |  | written by hand |" in table
    assert "1 x Test GPU, driver 1.0, torch 2.0: 2 cases." in table
    assert "[report-1-gpu.html](report-1-gpu.html)" in table


def test_runs_with_more_devices_join_the_record(result: outcome.Outcome, tmp_path: Path) -> None:
    folder = tmp_path / "record"
    record.write(folder, result)
    more = outcome.Outcome({**DEVICE, "devices": 2}, result.when, 1.0, result.cases[:1])
    record.write(folder, more)
    entries = record.read(folder)
    assert [entries[case.case.title]["device"]["devices"] for case in result.cases[:2]] == [2, 1]
    assert {path.name for path in folder.glob("*.html")} == {"report-1-gpu.html", "report-2-gpu.html"}
    assert "2 x Test GPU, driver 1.0, torch 2.0: 1 case." in (folder / "README.md").read_text(encoding="utf-8")


def test_the_record_keeps_of_each_run_its_first_failures_and_a_stale_pointer(tmp_path: Path) -> None:
    case = load_case(tmp_path / "fixtures")
    end = Ended(0, 1.0, (START, WRONG_SUM, LEFT, CANARY, STALE, STALE))
    done = Done(Run(case, BAD, Setting.DEFAULT, 1), end, verdict.judge(BAD, case.symptoms[Setting.DEFAULT], end))
    compared = {case.title: rewriting.compare(case)}
    record.write(tmp_path / "record", outcome.gather([case], compared, [done], {}, DEVICE, 1.0))
    (run,) = record.read(tmp_path / "record")[case.title]["runs"]
    assert [failure["kinds"] for failure in run["failures"]] == [["corrupt"], ["leak"], ["stale"]]
    assert run["left_out"] == 2


def test_the_table_of_tools_joins_two_campaigns_and_the_suites_own_record(
    result: outcome.Outcome, tmp_path: Path
) -> None:
    folder = tmp_path / "record"
    one, three, two = (case.case for case in result.cases)
    record.write(folder, result)
    pointers = {
        "found": {"elementwise: x": True, "odd: y": False, "Triton kernel": "not measured: no compiler"},
        "identity": {"a block is told": True},
        "milliseconds": {"kernels": 600, "read": 12.5, "audit": 0.5, "audit with history": 1.5},
    }
    silent = dict.fromkeys(others.MEANS, "-")
    record.write_tools(folder, DEVICE, pointers, {one: silent, three: {**silent, "sanitizer": "Invalid read | at 0"}})
    record.write_tools(folder, {**DEVICE, "devices": 2}, pointers, {two: silent})
    lines = (folder / "tools.md").read_text(encoding="utf-8").splitlines()
    cells = {line.split("](")[0].strip("| ["): line.split(" | ")[1:] for line in lines if line.startswith("| [some")}
    assert cells == {
        "some-rule/one": ["-", "-", "-", "-", "-", "the sum: 1, not 2 |"],
        "some-rule/three": [
            *("-", "Invalid read \\| at 0", "-", "-"),
            *("reused, freed by get at bad.py:7", "bytes of pool (0, 1): 512, not 0 |"),
        ],
        "some-rule/two": ["-", "-", "-", "-", "not run", "not run |"],
    }
    assert {"| elementwise: x | yes |", "| odd: y | NO |", "| Triton kernel | not measured: no compiler |"} <= {*lines}
    assert any("0.5 ms to audit before a replay" in line for line in lines)


# ---- rules' pages


def test_a_pages_line_follows_the_record(result: outcome.Outcome, tmp_path: Path) -> None:
    record.write(tmp_path / "docs" / "validation", outcome.Outcome(DEVICE, result.when, 1.0, result.cases[:1]))
    case = result.cases[0].case
    (tmp_path / "rules" / "some-rule").mkdir(parents=True)
    page_ = tmp_path / "rules" / "some-rule" / "README.md"
    page_.write_text("# some-rule\n\n## What it does\n\nThings.\n", encoding="utf-8")
    readme = tmp_path / "README.md"
    readme.write_text(f"# all\n\n{rulepages.README_HEADING}\n\nThings.\n", encoding="utf-8")
    for name in ("two", "three"):
        shutil.rmtree(tmp_path / "fixtures" / "some-rule" / name)

    def written() -> str:
        for path, text in rulepages.outdated(tmp_path).items():
            path.write_text(text, encoding="utf-8")
        assert not rulepages.outdated(tmp_path)
        return page_.read_text(encoding="utf-8")

    assert written() == (
        f"# some-rule\n\n*Observed on Test GPU, torch 2.0, {result.when:%Y-%m-%d}: 1 case, each rewrite clean "
        "in 1 runs ([record](../../docs/validation/README.md)).*\n\n## What it does\n\nThings.\n"
    )
    told = "in 1 runs ([record](docs/validation/README.md)).*\n\nThings.\n"
    assert readme.read_text(encoding="utf-8").endswith(told)
    assert readme.read_text(encoding="utf-8").startswith(
        f"# all\n\n{rulepages.README_HEADING}\n\n*Observed on Test GPU"
    )
    (case.folder / "bad.py").write_text("x = 7  # hazard: some-rule\n", encoding="utf-8")
    assert written().splitlines()[2].startswith("*Unvalidated: some-rule/one has changed since it was run on")
    shutil.rmtree(tmp_path / "docs")
    assert written().splitlines()[2] == "*Unvalidated: some-rule/one was never run.*"


def test_every_page_says_what_the_record_says() -> None:
    outdated = [str(path.relative_to(ROOT)) for path in rulepages.outdated(ROOT)]
    assert outdated == [], "run: python -m graphlint.validation.rulepages"


def test_the_records_tables_are_those_of_its_data(tmp_path: Path) -> None:
    folder = ROOT / "docs" / "validation"
    shutil.copytree(folder, tmp_path / "validation")
    record._write_tables(tmp_path / "validation")
    for name in ("README.md", "tools.md"):
        assert (tmp_path / "validation" / name).read_text("utf-8") == (folder / name).read_text("utf-8")


# ---- other tools


@pytest.mark.parametrize(
    ("stderr", "line"),
    [
        ('Traceback\nRuntimeError: it->second->use_count > 0 INTERNAL ASSERT FAILED at "a.cpp":3, please\n', None),
        ("torch.AcceleratorError: CUDA error: gone\nCompile with `TORCH_USE_CUDA_DSA`.\n\n", None),
        ("only\nwords\n", "words"),
        ("", "nothing said"),
    ],
)
def test_of_an_error_the_line_that_names_it_is_told(stderr: str, line: str | None) -> None:
    told = others._error(stderr)
    wanted = line or next(text for text in stderr.splitlines() if "Error" in text).partition(" INTERNAL")[0]
    assert told == wanted


def test_a_tool_that_is_missing_says_so(tmp_path: Path) -> None:
    torch = "__version__ = '2.11.0+x'\nclass cuda:\n    class graph:\n        def __init__(self, graph): pass\n"
    (tmp_path / "torch.py").write_text(torch, encoding="utf-8")
    (tmp_path / "case.py").write_text("def observe(probe):\n    probe.check('sum', 1, 2)\n", encoding="utf-8")
    environment = {"PYTHONPATH": f"{tmp_path}:{Path(cases.__file__).parent.parent.parent}"}

    def said(what: str) -> str:
        command = [sys.executable, "-m", "graphlint.validation.others", what, str(tmp_path / "case.py")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout

    assert others._missing(said("liveness")) == "not in torch 2.11.0"
    assert others._missing(said("memory-debug")) == "not installed"


# ---- the campaign


def test_a_campaign_without_a_device_measures_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "device", lambda: {"error": "torch is not installed"})
    assert campaign.main(["--report", str(tmp_path / "record")]) == 2
    assert capsys.readouterr().err == "nothing was measured: torch is not installed\n"
    assert not (tmp_path / "record").exists()


def test_a_campaign_runs_what_the_devices_allow_and_fails_where_the_audit_misses_a_pointer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_case(tmp_path / "fixtures")
    write_case(tmp_path / "fixtures", name="pair", toml="devices = 2\n" + TOML)
    monkeypatch.setattr(runner, "device", lambda: DEVICE)
    monkeypatch.setattr(others, "reported", lambda _case, _place: dict.fromkeys(others.MEANS, "-"))
    arguments = ["--fixtures", str(tmp_path / "fixtures"), "--report", str(tmp_path / "record")]
    for found in (True, False):
        told = {"found": {"x": found}, "all": found}
        monkeypatch.setattr(measures, "measured", lambda told=told: told)
        assert campaign.main(arguments) == (0 if found else 1)
        assert set(record.read_tools(tmp_path / "record")["cases"]) == {"some-rule/one"}
        assert record.read_tools(tmp_path / "record")["pointers"]["found"] == {"x": found}
    monkeypatch.setattr(runner, "device", lambda: {**DEVICE, "devices": 2})
    assert campaign.main(["some-rule/pair", *arguments]) == 0
    assert set(record.read_tools(tmp_path / "record")["cases"]) == {"some-rule/one", "some-rule/pair"}
    assert record.read_tools(tmp_path / "record")["pointers"]["found"] == {"x": False}


# ---- the command


def test_without_a_device_it_says_so_and_confirms_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_case(tmp_path)
    monkeypatch.setattr(runner, "device", lambda: {"error": "torch sees no CUDA device"})
    result = CliRunner().invoke(command.validate, ["--fixtures", str(tmp_path)])
    assert result.exit_code == 2
    assert "nothing was validated: torch sees no CUDA device" in result.output


@pytest.mark.parametrize("arguments", [["--fixtures", "nowhere"], ["no-such-rule"], ["--runs", "0"]])
def test_wrong_usage_is_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    write_case(tmp_path / "fixtures")
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(command.validate, arguments).exit_code == 2


def test_exit_codes_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_case(tmp_path / "fixtures")
    write_case(tmp_path / "fixtures", name="pair", toml="devices = 2\n" + TOML)

    def line(folder: Path, entry: str, events: Path) -> Sequence[str]:
        del folder
        shows = "tell(event='check', name='the sum', ok=False, got='1', expected='2')" if entry == "bad.py" else ""
        audit = 'tell(event="audit", moment="replay", graph=1, blocks=1, seconds=0.0, stale=[])'
        return [sys.executable, "-c", f"EVENTS = {str(events)!r}\n{WRITES}\n{audit}\n{shows}"]

    monkeypatch.setattr(runner, "device", lambda: DEVICE)
    monkeypatch.setattr(runner, "_child", line)
    monkeypatch.chdir(tmp_path)
    files = ["--junit", "a.xml", "--json", "a.json", "--html", "a.html", "--report", "record"]
    result = CliRunner().invoke(command.validate, [*files, "--jobs", "2"])
    assert result.exit_code == 0, result.output
    assert "SKIPPED some-rule/pair: needs 2 devices, there are 1" in result.output
    assert "[3/3] confirmed" in result.output
    assert {path.name for path in tmp_path.iterdir()} >= {"a.xml", "a.json", "a.html", "record"}
    monkeypatch.setattr(runner, "_child", child(WRITES))
    assert CliRunner().invoke(command.validate, []).exit_code == 1


def test_a_codemod_that_differs_is_not_confirmed_and_one_that_cannot_run_is_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = load_case(tmp_path, toml=TOML.replace("by-hand", "codemod"))

    def answer(files: dict[str, bytes]) -> Callable[[Case], cases.Files]:
        return lambda _: files

    monkeypatch.setattr(rewriting, "rewritten", answer({"bad.py": b"x = 2\n"}))
    assert rewriting.compare(case) == rewriting.Compared({"fixed.py": b"x = 2\n"}, equal=True, note="byte for byte")
    monkeypatch.setattr(rewriting, "rewritten", answer({"bad.py": b"x = 9\n"}))
    assert rewriting.compare(case).note == "differs in fixed.py"

    def missing(_: Case) -> cases.Files:
        raise ImportError("none", name="libcst")

    monkeypatch.setattr(rewriting, "rewritten", missing)
    compared = rewriting.compare(case)
    assert (compared.equal, compared.note) == (None, "not checked: libcst is not installed")

    def broken(_: Case) -> cases.Files:
        raise KeyError("x")

    monkeypatch.setattr(rewriting, "rewritten", broken)
    assert rewriting.compare(case).equal is False
