from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from graphlint import cli, cpp, fixing, namesake, report, writing
from graphlint.findings import Severity

pytestmark = pytest.mark.usefixtures("toys")

GRAPHS = "import torch\ntorch.cuda.empty_cache()\n"
TOYS = Path(__file__).parent / "toys"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(namesake, "warning", lambda: None)
    return tmp_path


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return Run(capfd)


class Run:
    """Runs a command line in this process."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self.capture = capture

    def __call__(self, *arguments: str) -> Done:
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        out, err = self.capture.readouterr()
        assert isinstance(caught.value.code, int)
        return Done(caught.value.code, out, re.sub(r"; \d+ unresolved calls? \(.*\)$", "", err, flags=re.MULTILINE))


def make(path: str, text: str, head: str = GRAPHS) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(head + text)


def command(*arguments: str) -> list[str]:
    """A command line for a process of its own, with the toys for rules."""
    program = (
        "import sys, graphlint.rules\n"
        "graphlint.rules.__path__ = [sys.argv.pop(1)]\n"
        "from graphlint.cli import main\n"
        "main()"
    )
    return [sys.executable, "-c", program, str(TOYS), *arguments]


# -------------------------------------------------------------------------------------------------------------- check


def test_findings_go_to_standard_output_and_the_rest_to_standard_error(run: Run) -> None:
    make("a.py", "danger()\n")
    done = run("check")
    assert done.code == 1
    assert done.out.startswith("a.py:3:1: error[risky-call] danger() is risky\n")
    assert done.err == "1 file checked: 1 error; 1 with a safe fix: `graphlint fix`\n"


def test_without_findings_the_exit_code_is_0(run: Run) -> None:
    make("a.py", "calm()\n")
    assert run("check", ".") == Done(0, "", "1 file checked: no findings\n")


@pytest.mark.parametrize(
    ("call", "fail_on", "code"),
    [
        ("hopeless", None, 0),
        ("hopeless", "note", 1),
        ("hopeless", "warning", 0),
        ("other", None, 1),
        ("other", "error", 0),
        ("danger", "error", 1),
    ],
)
def test_the_severity_decides_about_the_exit_code(run: Run, call: str, fail_on: str | None, code: int) -> None:
    make("a.py", f"{call}()\n")
    assert run("check", *(["--fail-on", fail_on] if fail_on else [])).code == code


def test_settings_say_what_fails(run: Run) -> None:
    make("a.py", "hopeless()\n")
    make("pyproject.toml", "[tool.graphlint]\nfail-on = 'note'\n", head="")
    assert run("check").code == 1
    assert run("check", "--fail-on", "error").code == 0


def test_a_syntax_error_fails_and_newer_syntax_does_not(run: Run) -> None:
    make("a.py", "def f(:\n")
    done = run("check", "--output-format", "concise")
    assert (done.code, done.out) == (1, "a.py:3:7: error[syntax-error] invalid syntax\n")


def test_no_python_file_is_a_warning(run: Run) -> None:
    done = run("check", ".")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("warning: no Python or C++ file found under the given paths\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "nowhere.py"), "error: nowhere.py: no such file or folder\n"),
        (("check", "--rule", "riski-call"), "no rule is named 'riski-call'; did you mean 'risky-call'?"),
        (("check", "--select", "inputs"), "no rule or group is named 'inputs'; did you mean 'input'?"),
        (("check", "--ignore", "x"), "no rule or group is named 'x'"),
        (("check", "--ignore", "input,capture"), "no rule is left to look for"),
        (("check", "--output-format", "xml"), "'xml' is not one of"),
        (("check", "--config", "nowhere.toml"), "error: nowhere.toml: cannot be read: No such file"),
        (("check", "--no-such-option"), "No such option"),
        (("check", "-", "--stdin-filename", "a.py", "b.py"), "`-` stands alone"),
        (("check", "-"), "--stdin-filename says which file it is"),
        (("check", "--stdin-filename", "a.py"), "--stdin-filename goes with `-`"),
        (("check", "-", "--stdin-filename", "a.py", "--force-exclude"), "--force-exclude is about files"),
        (("rule", "riski-call"), "did you mean 'risky-call'?"),
        (("fix", "nowhere"), "error: nowhere: no such file or folder\n"),
        (("why", "a.py"), "'a.py' is not of the form PATH:LINE"),
        (("nonsense",), "No such command 'nonsense'"),
    ],
)
def test_wrong_usage_is_2(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_wrong_setting_is_2_with_its_place(run: Run) -> None:
    make("a.py", "danger()\n")
    make("pyproject.toml", "[tool.graphlint]\nselct = []\n", head="")
    assert run("check") == Done(2, "", "error: pyproject.toml:2: unknown key 'selct'; did you mean 'select'?\n")
    assert run("check", "--config", "pyproject.toml").code == 2


@pytest.mark.parametrize(
    ("arguments", "rules"),
    [
        ((), ["risky-call", "other-call"]),
        (("--rule", "other-call"), ["other-call"]),
        (("--rule", "dangerous-call"), ["risky-call"]),
        (("--rule", "risky-call", "--rule", "other-call"), ["risky-call", "other-call"]),
        (("--select", "input"), ["risky-call"]),
        (("--select", "input,capture"), ["risky-call", "other-call"]),
        (("--select", "input", "--select", "other-call"), ["risky-call", "other-call"]),
        (("--ignore", "input"), ["other-call"]),
        (("--select", "input,capture", "--ignore", "other-call"), ["risky-call"]),
    ],
)
def test_rules_can_be_chosen(run: Run, arguments: tuple[str, ...], rules: list[str]) -> None:
    make("a.py", "danger()\nother()\n")
    found = json.loads(run("check", "--output-format", "json", *arguments).out)
    assert [each["rule"] for each in found] == rules


def test_the_command_line_wins_over_the_settings(run: Run) -> None:
    make("a.py", "danger()\nother()\ndoubt()\n")
    make(
        "pyproject.toml",
        "[tool.graphlint]\nselect = ['risky-call']\nignore = ['other-call']\npreview = true\n",
        head="",
    )

    def rows(*arguments: str) -> list[int]:
        out = run("check", "--output-format", "json", *arguments).out
        return [found["location"]["row"] for found in json.loads(out)]

    assert rows() == [3, 5]
    assert rows("--rule", "other-call") == [4]
    make("pyproject.toml", "[tool.graphlint]\nignore = ['other-call']\n", head="")
    assert rows() == [3]
    assert rows("--preview") == [3, 5]


def test_every_format_and_the_file_it_is_written_to(run: Run) -> None:
    make("a.py", "danger()\nother()\n")
    for style in report.FORMATS:
        direct = run("check", "--output-format", style)
        filed = run("check", "--output-format", style, "--output-file", "out.txt")
        assert (direct.code, filed.code, filed.out) == (1, 1, "")
        assert Path("out.txt").read_text(encoding="utf-8") == direct.out != ""
    done = run("check", "--output-file", "no/such/folder/out.txt")
    assert (done.code, done.out) == (2, "")
    assert "no/such/folder/out.txt: cannot be written" in done.err


def test_formats_and_severities_are_those_of_the_report() -> None:
    assert cli._FORMATS == report.FORMATS
    assert tuple(severity.value for severity in Severity) == cli._SEVERITIES


def test_unresolved_calls_are_counted_and_listed_on_request() -> None:
    make("a.py", "def f(x):\n    x.unknown_thing(1)\n")
    done = subprocess.run(command("check", "--show-unresolved"), capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [
        "a.py:4:5: x.unknown_thing",
        "1 file checked: no findings; 1 unresolved call (--show-unresolved)",
    ]


def test_standard_input_is_the_content_of_a_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make("pkg/__init__.py", "")
    make("pkg/a.py", "calm()\n")
    make("pkg/b.py", "danger()\n")
    for name in ("pkg/a.py", "pkg/new.py"):
        feed(monkeypatch, GRAPHS + "danger()\n")
        done = run("check", "-", "--stdin-filename", name, "--output-format", "concise")
        assert (done.code, done.out) == (1, f"{name}:3:1: error[risky-call] danger() is risky\n")


def feed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


# ---------------------------------------------------------------------------------------------------------------- fix


def test_fix_writes_and_reports_what_remains(run: Run) -> None:
    make("a.py", "danger()\ntrouble()\n")
    make("b.py", "danger()\n")
    done = run("fix", "--output-format", "concise")
    assert Path("a.py").read_text() == GRAPHS + "calm()\ntrouble()\n"
    assert Path("b.py").read_text() == GRAPHS + "calm()\n"
    assert done.code == 1
    assert done.out == "a.py:4:1: error[risky-call] trouble() is risky\n"
    assert done.err.splitlines() == [
        "a.py:3: fixed risky-call: call calm instead (safe)",
        "  - it is calm",
        "b.py:3: fixed risky-call: call calm instead (safe)",
        "  - it is calm",
        "2 files checked: 1 error; 1 with an unsafe one: `graphlint fix --unsafe-fixes`",
    ]


def test_fix_is_done_after_one_run(run: Run) -> None:
    make("a.py", "danger()\ntrouble()\n")
    done = run("fix", "--unsafe-fixes")
    assert (done.code, done.out) == (0, "")
    assert Path("a.py").read_text() == GRAPHS + "calm()\ncalm()\n"
    state = Path("a.py").stat()
    assert run("fix", "--unsafe-fixes") == Done(0, "", "1 file checked: no findings\n")
    assert Path("a.py").stat() == state


def test_fix_says_what_it_refused(run: Run) -> None:
    make("a.py", "stuck()\n")
    done = run("fix")
    assert done.code == 1
    assert "a.py:3: not fixed: risky-call: the finding is still there after it\n" in done.err
    assert Path("a.py").read_text() == GRAPHS + "stuck()\n"


def test_a_diff_changes_nothing_and_stands_alone_on_standard_output(run: Run) -> None:
    make("a.py", "danger()\nother()\n")
    done = run("fix", "--select", "input,capture", "--diff", "--output-format", "concise")
    assert done.code == 1
    assert "a.py:4:1: warning[other-call] other() is another\n" in done.err
    assert done.out == (
        "--- a.py\n+++ a.py\n@@ -1,4 +1,4 @@\n import torch\n torch.cuda.empty_cache()\n-danger()\n+calm()\n other()\n"
    )
    assert "a.py:3: would fix risky-call" in done.err
    assert Path("a.py").read_text() == GRAPHS + "danger()\nother()\n"


def test_a_diff_without_a_change_is_0(run: Run) -> None:
    make("a.py", "calm()\n")
    assert run("fix", "--diff") == Done(0, "", "1 file checked: no findings\n")


def test_a_fix_of_standard_input_goes_to_standard_output(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make("a.py", "on disk\n", head="")
    feed(monkeypatch, GRAPHS + "danger()\r\n")
    done = run("fix", "-", "--stdin-filename", "a.py")
    assert (done.code, done.out) == (0, GRAPHS + "calm()\r\n")
    feed(monkeypatch, GRAPHS + "danger()\ntrouble()\n")
    done = run("fix", "-", "--stdin-filename", "a.py", "--output-format", "concise")
    assert (done.code, done.out) == (1, GRAPHS + "calm()\ntrouble()\n")
    assert "a.py:4:1: error[risky-call] trouble() is risky\n" in done.err
    assert Path("a.py").read_text() == "on disk\n"


def test_a_file_changed_in_the_meantime_is_left_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make("a.py", "danger()\n")
    make("b.py", "danger()\n")
    original = fixing.fix

    def slow(*arguments: object, **options: object) -> object:
        outcome = original(*arguments, **options)  # type: ignore[arg-type]
        make("b.py", "edited()\n")
        return outcome

    monkeypatch.setattr(fixing, "fix", slow)
    done = run("fix")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: b.py: was changed by somebody else since it was read; run again\n"
    assert Path("a.py").read_text() == GRAPHS + "danger()\n"
    assert Path("b.py").read_text() == GRAPHS + "edited()\n"


# ---------------------------------------------------------------------------------------------------- other commands


def test_rules_are_listed(run: Run) -> None:
    done = run("rules")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "rule        group    severity  precision  fix",
        "other-call  capture  warning   medium     safe  a call has another name",
        "risky-call  input    error     high       safe  a call has a risky name",
    ]
    rules = json.loads(run("rules", "--output-format", "json").out)
    assert [rule["name"] for rule in rules] == ["other-call", "risky-call"]
    assert rules[1] == {
        "name": "risky-call",
        "summary": "a call has a risky name",
        "group": "input",
        "severity": "error",
        "precision": "high",
        "kind": "shape",
        "reported_at": "the call",
        "fix": "safe",
        "trades_for": ["other-call"],
        "former_names": ["dangerous-call"],
        "since": "0.1",
    }


def test_a_rule_has_a_page(run: Run) -> None:
    page = (TOYS / "risky-call" / "README.md").read_text(encoding="utf-8")
    assert run("rule", "risky-call") == run("rule", "dangerous-call") == Done(0, page, "")


def test_flow_shows_the_effects_of_a_function(run: Run) -> None:
    make("pkg/__init__.py", "")
    make("pkg/a.py", "class Runner:\n    def clear(self):\n        if self.x:\n            torch.cuda.empty_cache()\n")
    done = run("flow", "Runner.clear", "pkg")
    assert (done.code, done.err) == (0, "")
    head, *lines = done.out.splitlines()
    assert head == "pkg.a.Runner.clear  (pkg/a.py:4)"
    assert [line.split() for line in lines if "erase" in line] == [["6", "erase", "process"]]
    done = run("flow", "clea")
    assert (done.code, done.out) == (2, "")
    assert "did you mean 'clear'?" in done.err


def test_why_shows_what_is_known_of_a_line(run: Run) -> None:
    make("a.py", "danger()\nx = 1\n")
    done = run("why", "a.py:3")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("a.py:3: danger()\nfinding: risky-call: danger() is risky\n")
    assert "effect: erase" in run("why", "a.py:2").out
    assert run("why", "a.py:4").out.endswith(
        "\nnothing on this line has an effect on graphs or on the memory that they use\n"
    )
    assert run("why", "nowhere.py:1").code == 2


def test_version_and_help(run: Run) -> None:
    assert run("--version").out.startswith("graphlint 0.")
    for arguments in (("--help",), ("-h",), ("check", "-h"), ("fix", "--help")):
        assert run(*arguments).code == 0


def test_another_distribution_of_this_name_is_warned_about(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make("a.py", "calm()\n")
    monkeypatch.setattr(namesake, "warning", lambda: "there is another")
    done = run("check")
    assert (done.code, done.err.splitlines()[0]) == (0, "warning: there is another")


# ---------------------------------------------------------------------------------------------------- when it fails


def test_an_internal_error_is_one_line_with_its_place(run: Run) -> None:
    make("a.py", "crash()\n")
    done = run("check")
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("error: internal error at graphlint/check.py:")
    assert "a.py:3: the rule risky-call failed: KeyError: 'crash'" in line
    assert "run again with --debug" in line
    assert "Traceback" in run("check", "--debug").err


@pytest.mark.parametrize("place", ["a.py:3", "a.py:3:1"])
def test_why_takes_a_place_as_findings_name_it(run: Run, place: str) -> None:
    make("a.py", "danger()\n")
    done = run("why", place)
    assert done.code == 0
    assert "finding: risky-call: danger() is risky" in done.out


@pytest.mark.parametrize(
    ("place", "said"),
    [("a.py", "not of the form PATH:LINE"), (".:3", "is a folder"), ("a.py:99", "a.py has 3 lines, and none is 99")],
)
def test_why_refuses_what_is_no_line(run: Run, place: str, said: str) -> None:
    make("a.py", "danger()\n")
    done = run("why", place)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_pattern_that_no_file_matches_is_told_by_a_run_over_the_project(run: Run) -> None:
    make("a.py", "danger()\n")
    make("pyproject.toml", "[tool.graphlint.per-file-ignores]\n'a.py' = ['input']\n'old/*' = ['input']\n", head="")
    said = "warning: per-file-ignores: no file matches 'old/*'\n"
    assert said in run("check").err
    assert "no file matches" not in run("check", "a.py").err


def test_an_interrupt_is_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make("a.py", "danger()\n")

    def interrupted(changes: object) -> None:
        raise KeyboardInterrupt(changes)

    monkeypatch.setattr(writing, "write", interrupted)
    done = run("fix")
    assert (done.code, done.out) == (130, "")
    assert "Traceback" not in done.err


def test_an_interrupted_fix_says_what_it_has_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make("a.py", "danger()\n")
    make("b.py", "danger()\n")
    replace = os.replace

    def wrapper(new: str, path: str) -> None:
        replace(new, path)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(os, "replace", wrapper)
    done = run("fix")
    assert (done.code, done.out) == (130, "")
    assert "a.py:3: fixed risky-call" in done.err
    assert "b.py:3: fixed risky-call" in done.err
    assert [Path(name).read_text() for name in ("a.py", "b.py")] == [f"{GRAPHS}calm()\n"] * 2


def test_a_fix_that_is_interrupted_early_says_that_nothing_was_changed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("a.py", "danger()\n")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fixing, "fix", interrupted)
    done = run("fix")
    assert done.code == 130
    assert done.err.startswith("interrupted: nothing was changed\n")
    assert Path("a.py").read_text() == f"{GRAPHS}danger()\n"


def test_what_was_not_fixed_is_not_said_to_have_a_fix(run: Run) -> None:
    make("a.py", "worse()\n")
    done = run("fix")
    assert "a.py:3: not fixed: risky-call: it leads to risky-call in a.py: decide() is risky\n" in done.err
    assert done.err.endswith("1 file checked: 1 error; 1 not fixed\n")


def test_a_diff_of_files_elsewhere_says_where_its_names_begin(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("x/a.py", "danger()\n")
    make("y/b.py", "calm()\n")
    monkeypatch.chdir("y")
    done = run("fix", "--diff", "../x")
    assert done.out.startswith("--- a.py\n+++ a.py\n")
    assert f"apply it with `patch -p0 -d {here / 'x'}`\n" in done.err


def test_a_file_that_was_not_read_does_not_count_as_checked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object) -> None:
        raise cpp.MissingGrammarError

    monkeypatch.setattr(cpp, "read", missing)
    make("a.py", "calm()\n")
    make("a.cpp", "void f() { at::cuda::CUDAGraph graph; graph.reset(); at::empty({8}, at::kCUDA); }\n", head="")
    done = run("check")
    assert "1 C++ file that captures may matter to was not read" in done.err
    assert done.err.endswith("1 file checked: no findings\n")


def test_a_notebook_is_refused(run: Run) -> None:
    make("a.ipynb", '{"cells": []}\n', head="")
    done = run("check", "a.ipynb")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: a.ipynb: a notebook is no Python text")
    assert run("check", ".").code == 0


def test_calls_of_python_itself_and_of_files_around_are_no_unresolved_ones(run: Run) -> None:
    make("pkg/__init__.py", "")
    make("pkg/a.py", "def f(x):\n    for i in range(len(x)):\n        x.strange_one(i)\n")
    make("pkg/b.py", "def g(x):\n    x.strange_two()\n")
    done = run("check", "pkg/a.py", "--show-unresolved")
    assert [line for line in done.err.splitlines() if line.startswith("pkg/")] == ["pkg/a.py:5:9: x.strange_one"]


def test_a_fix_names_every_file_that_it_changes(run: Run) -> None:
    make("pkg/__init__.py", "")
    make("pkg/a.py", "everywhere()\n")
    make("pkg/b.py", "everywhere()\n")
    done = run("fix", "pkg")
    assert done.err.startswith("pkg/a.py:3: fixed risky-call: ")
    assert "  in pkg/b.py too\n" in done.err


def test_a_signal_ends_a_process_with_130() -> None:
    os.mkfifo("slow.toml")  # who opens it for reading waits for a writer, who writes nothing
    process = subprocess.Popen(command("check", "--config", "slow.toml"), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while True:
        try:
            writer = os.open("slow.toml", os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError:  # nobody reads yet
            assert time.monotonic() < deadline
            time.sleep(0.01)
    try:
        while (
            process.poll() is None
        ):  # a signal between the opening and the reading of the pipe does not end the reading
            assert time.monotonic() < deadline
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        _, err = process.communicate()
    finally:
        os.close(writer)
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_disk_is_no_fault_of_this_tool() -> None:
    make("a.py", "danger()\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run(command("check"), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "Error: standard output cannot be written: No space left on device\n")


def test_a_reader_that_leaves_is_no_error() -> None:
    make("a.py", "danger()\n" * 2000)
    with subprocess.Popen(
        command("check", "--output-format", "concise"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read().decode()
    assert process.returncode == 1
    assert "Traceback" not in err
    assert "BrokenPipe" not in err
    assert "2000 errors" in err


def test_text_that_the_terminal_cannot_show_is_escaped() -> None:
    make("ü.py", "danger()  # é\n")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command("check", "."), capture_output=True, env=environment, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith(b"\\xfc.py:3:1: error")


def test_colours_are_for_terminals_without_no_color() -> None:
    import pty

    make("a.py", "danger()\n")

    def output(**environment: str) -> bytes:
        leader, follower = pty.openpty()
        inherited = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
        subprocess.run(
            command("check"), stdout=follower, stderr=subprocess.DEVNULL, env={**inherited, **environment}, check=False
        )
        os.close(follower)
        text = b""
        try:
            while piece := os.read(leader, 4096):
                text += piece
        except OSError:  # the terminal is gone with its last writer
            pass
        os.close(leader)
        return text

    assert b"\x1b[" in output(TERM="xterm")
    assert b"\x1b[" not in output(TERM="xterm", NO_COLOR="1")
    assert b"\x1b[" not in output(TERM="dumb")


def test_the_same_bytes_whatever_the_hash_seed_and_the_order_of_paths() -> None:
    for name in "abc":
        make(f"{name}.py", "danger()\nother()\ntrouble()\n")
    outputs = {
        subprocess.run(
            command("check", "--output-format", "json", "--show-unresolved", *paths),
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=False,
        ).stdout
        for seed, paths in (("0", ("a.py", "b.py", "c.py")), ("1", ("c.py", "a.py", "b.py")), ("77", ("b.py", ".")))
    }
    assert len(outputs) == 1
    assert len(json.loads(outputs.pop())) == 9


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["check", "--help"]])
def test_the_start_imports_little(arguments: list[str]) -> None:
    program = (
        "import sys; from graphlint.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not loaded & {"libcst", "pathspec", "tomli", "json", "asyncio", "multiprocessing", "rich"}
    assert {name for name in loaded if name.startswith("graphlint.")} == {"graphlint.cli", "graphlint.namesake"}


@pytest.mark.parametrize("command", ["check", "fix"])
def test_excluded_files_that_are_given_by_name_are_left_out_if_asked(run: Run, command: str) -> None:
    make("old/a.py", "danger()\n")
    make("b.py", "danger()\n")
    make("pyproject.toml", '[tool.graphlint]\nexclude = ["old/"]\n', head="")
    assert run(command, "old/a.py", "--diff" if command == "fix" else "--preview").code == 1
    done = run(command, "old/a.py", "--force-exclude")
    assert (done.code, done.out, done.err) == (0, "", "0 files checked: no findings\n")
    assert Path("old/a.py").read_text() == GRAPHS + "danger()\n"
    done = run(command, "old/a.py", "b.py", "--force-exclude")
    assert done.err.endswith("1 file checked: no findings\n" if command == "fix" else "safe fix: `graphlint fix`\n")


def test_the_vocabulary_is_listed_and_what_of_it_matches_nothing(run: Run) -> None:
    make("pkg/__init__.py", "", head="")
    make("pkg/a.py", "def drop(): ...\n", head="")
    own = '[tool.graphlint.vocabulary]\neffect = [{ calls = ["pkg.a.drop", "pkg.a.gone"], does = "erase" }]\n'
    make("pyproject.toml", own, head="")
    done = run("vocabulary")
    assert done.code == 0
    assert re.search(r"^torch\.toml:\d+ +call +torch\.cuda\.empty_cache +erase$", done.out, re.MULTILINE)
    assert re.search(r"^pyproject\.toml:2 +call +pkg\.a\.gone +erase$", done.out, re.MULTILINE)
    done = run("vocabulary", "--unused", ".")
    assert (done.code, done.out) == (1, "pyproject.toml:2  call  pkg.a.gone  erase\n")
    done = run("vocabulary", "--unused", "pkg", "--output-format", "json")
    assert json.loads(done.out) == [
        {"file": "pyproject.toml", "row": 2, "kind": "call", "name": "pkg.a.gone", "says": "erase"}
    ]
    make("pkg/a.py", "def drop(): ...\ndef gone(): ...\n", head="")
    done = run("vocabulary", "--unused", ".")
    assert (done.code, done.out, done.err) == (0, "", "")
    make("pyproject.toml", "[tool.graphlint]\n", head="")
    done = run("vocabulary", "--unused", ".", "--output-format", "json")
    assert (done.code, done.out) == (0, "[]\n")
    assert "warning: no vocabulary names a package" in done.err
    assert run("vocabulary", "--unused", "nowhere").code == 2
