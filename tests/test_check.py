from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from graphlint import check, files, registry, sieve
from graphlint.check import Report, RuleError
from graphlint.config import Settings
from graphlint.edits import Applicability
from graphlint.files import PathError
from graphlint.findings import Precision, Severity

GRAPHS = "import torch\ntorch.cuda.empty_cache()\n"
"""Without a word about graphs a file is not worth reading."""


pytestmark = pytest.mark.usefixtures("toys")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def run(*paths: str, settings: Settings | None = None, unsaved: dict[str, bytes] | None = None) -> Report:
    return check.check(paths or (".",), settings or Settings(), registry.rules(), unsaved)


def found(report: Report) -> list[str]:
    return [
        f"{finding.path}:{report.sources[finding.path].row(finding.span.start)} {finding.rule}"
        for finding in report.findings
    ]


def test_findings_are_sorted_by_path_place_and_rule() -> None:
    make("b.py", GRAPHS + "other()\ndanger()\n")
    make("a.py", GRAPHS + "if torch:\n    danger()\ndanger()\n")
    assert found(run()) == ["a.py:4 risky-call", "a.py:5 risky-call", "b.py:3 other-call", "b.py:4 risky-call"]
    assert found(run("b.py", "a.py")) == found(run("a.py", "b.py"))


def test_a_finding_has_the_words_of_its_rule() -> None:
    make("a.py", GRAPHS + "danger()\n")
    (finding,) = run().findings
    assert (finding.severity, finding.precision) == (Severity.ERROR, Precision.HIGH)
    assert finding.message == "danger() is risky"
    assert finding.notes == ("it is a toy",)
    assert finding.fix is not None
    assert [step.message for step in finding.trace] == ["danger is called"]


def test_a_suspect_may_be_less_severe_than_its_rule() -> None:
    make("a.py", GRAPHS + "hopeless()\n")
    (finding,) = run().findings
    assert (finding.severity, finding.fix) == (Severity.NOTE, None)


def test_low_precision_is_for_previews() -> None:
    make("a.py", GRAPHS + "doubt()\n")
    assert found(run()) == []
    (finding,) = run(settings=Settings(preview=True)).findings
    assert finding.precision is Precision.LOW


def test_a_suspect_that_its_rule_does_not_confirm_is_no_finding() -> None:
    make("a.py", GRAPHS + "danger()  # fine\n")
    assert found(run()) == []


def test_only_the_rules_asked_for_are_looked_for() -> None:
    make("a.py", GRAPHS + "danger()\nother()\n")
    report = check.check(["a.py"], Settings(), registry.select(("other-call",)))
    assert found(report) == ["a.py:4 other-call"]


def test_only_the_given_paths_are_reported_on() -> None:
    make("pkg/__init__.py", "")
    make("pkg/a.py", GRAPHS + "danger()\n")
    make("pkg/b.py", GRAPHS + "danger()\n")
    assert found(run("pkg/a.py")) == ["pkg/a.py:3 risky-call"]
    assert "pkg/b.py" in run("pkg/a.py").sources


def test_a_rule_that_fails_is_named_with_the_place() -> None:
    make("a.py", GRAPHS + "crash()\n")
    with pytest.raises(RuleError, match=r"^a\.py:3: the rule risky-call failed: KeyError: 'crash'$"):
        run()


def test_a_missing_path_is_an_error() -> None:
    with pytest.raises(PathError):
        run("nowhere")


def test_unsaved_content_counts_instead_of_the_file() -> None:
    make("a.py", GRAPHS + "danger()\n")
    assert found(run("a.py", unsaved={"a.py": GRAPHS.encode()})) == []
    assert found(run("new.py", unsaved={"./new.py": (GRAPHS + "danger()\n").encode()})) == ["new.py:3 risky-call"]


# -------------------------------------------------------------------------------------------------------- suppression


def test_a_comment_silences_its_rule_alone() -> None:
    make(
        "a.py",
        GRAPHS
        + "danger()  # graphlint: ignore[other-call, risky-call] tested\ndanger()  # graphlint: ignore[other-call]\n",
    )
    report = run()
    assert found(report) == ["a.py:4 risky-call"]
    assert [(each.finding.rule, each.by) for each in report.silenced] == [("risky-call", "the comment in row 3")]
    assert report.warnings == (
        "a.py:3: warning: nothing here is found by other-call, so the comment that ignores it can go",
        "a.py:4: warning: nothing here is found by other-call, so the comment that ignores it can go",
    )


def test_a_file_that_is_too_large_to_be_read_whole_has_findings_without_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphlint.codemod import tree

    monkeypatch.setattr(import_module("graphlint.rules"), "__path__", [str(Path(__file__).parent.parent / "rules")])
    registry.rules.cache_clear()
    monkeypatch.setattr(tree, "_LARGEST", 400)
    make(
        "a.py",
        """\
import torch


class Runner:
    def __init__(self):
        self.graphs = {}
        self.pool = torch.cuda.graph_pool_handle()

    def capture(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            torch.ones(n, device="cuda")
        self.graphs[n] = graph

    def release(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
""",
    )
    (finding,) = run().findings
    assert finding.rule == "pool-handle"
    assert finding.fix is None
    assert finding.notes[-1].startswith("no fix: a.py: it has 0.0 MiB")


def test_only_files_that_are_reported_are_looked_at_by_a_rule() -> None:
    make("pkg/__init__.py", "")
    make("pkg/a.py", GRAPHS + "danger()\n")
    make("pkg/b.py", GRAPHS + "crash()\n")
    assert found(run("pkg/a.py")) == ["pkg/a.py:3 risky-call"]


def test_a_comment_can_name_a_group_and_is_spelled_freely() -> None:
    group = next(rule.group.value for rule in registry.rules() if rule.name == "risky-call")
    make("a.py", f"{GRAPHS}danger()  # Graphlint: Ignore[{group}] tested\ndanger()\n")
    report = run()
    assert found(report) == ["a.py:4 risky-call"]
    assert report.warnings == ()


def test_a_comment_that_silences_nothing_is_told_where_its_rule_was_looked_for() -> None:
    make("a.py", f"{GRAPHS}calm()  # graphlint: ignore[risky-call] no more\n")
    said = "a.py:3: warning: nothing here is found by risky-call, so the comment that ignores it can go"
    assert run().warnings == (said,)
    other = check.check(["."], Settings(), registry.select(("other-call",)))
    assert other.warnings == ()
    make("a.py", f"{GRAPHS}doubt()  # graphlint: ignore[risky-call] of low precision\n")
    assert run().warnings == ()
    make("a.py", f"{GRAPHS}def (  # graphlint: ignore[risky-call] not read\n")
    assert run().warnings == ()


def test_a_former_name_silences_too() -> None:
    make("a.py", GRAPHS + "danger()  # graphlint: ignore[dangerous-call]\n")
    assert found(run()) == []


def test_a_comment_that_silences_nothing_is_warned_about() -> None:
    make("a.py", GRAPHS + "danger()  # graphlint: ignore\n# graphlint: ignore[riski-call] x\ndanger()\n")
    report = run()
    assert found(report) == ["a.py:3 risky-call", "a.py:5 risky-call"]
    assert report.warnings == (
        "a.py:3: warning: the rule that it ignores is missing; write `# graphlint: ignore[rule] reason`",
        "a.py:4: warning: no rule or group is named 'riski-call'; did you mean 'risky-call'?",
    )


def test_per_file_ignores(here: Path) -> None:
    make("a.py", GRAPHS + "danger()\nother()\n")
    make("tests/t.py", GRAPHS + "danger()\nother()\n")
    settings = Settings(root=str(here), per_file_ignores=(("tests/", ("input",)), ("a.py", ("other-call",))))
    assert found(run(settings=settings)) == ["a.py:3 risky-call", "tests/t.py:4 other-call"]


# ------------------------------------------------------------------------------------------- files that cannot be read


def test_a_file_that_does_not_parse_is_a_finding_and_the_others_go_on() -> None:
    make("a.py", GRAPHS + "danger()\n")
    make("broken.py", GRAPHS + "def f(:\n    pass\n")
    report = run()
    assert found(report) == ["a.py:3 risky-call", "broken.py:3 syntax-error"]
    assert report.findings[1].severity is Severity.ERROR
    assert report.sources["broken.py"].position(report.findings[1].span.start) == (3, 7)


def test_in_a_small_run_a_broken_file_is_found_even_if_it_says_nothing_of_graphs() -> None:
    make("broken.py", "def f(:\n")
    assert found(run()) == ["broken.py:1 syntax-error"]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the syntax is not newer than this Python")
def test_newer_syntax_is_a_note() -> None:
    make("new.py", GRAPHS + 'x = t"{torch}"\n')
    report = run()
    assert found(report) == ["new.py:3 newer-syntax"]
    assert report.findings[0].severity is Severity.NOTE


def test_a_broken_file_that_is_only_context_is_a_warning() -> None:
    make("pkg/__init__.py", "")
    make("pkg/a.py", GRAPHS + "danger()\n")
    make("pkg/broken.py", GRAPHS + "def f(:\n")
    report = run("pkg/a.py")
    assert found(report) == ["pkg/a.py:3 risky-call"]
    (warning,) = report.warnings
    assert warning.startswith("pkg/broken.py:3: warning: ")
    assert warning.endswith("; the analysis goes on without this file")


@pytest.mark.parametrize("content", [b"x = '\xff'\n", b"\x00\n", b"# coding: nothing\nx = 1\n", b"x = (" * 1000])
def test_no_bytes_end_the_run(content: bytes) -> None:
    make("a.py", GRAPHS + "danger()\n")
    Path("odd.py").write_bytes(GRAPHS.encode() + content)
    report = run()
    assert "a.py:3 risky-call" in found(report)


def test_a_file_that_cannot_be_read_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    make("a.py", GRAPHS + "danger()\n")
    make("closed.py", GRAPHS)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != "closed.py" and access(path, mode))
    read = files.read
    monkeypatch.setattr(files, "read", lambda path: None if path == "closed.py" else read(path))
    assert found(run()) == ["a.py:3 risky-call", "closed.py:1 unreadable-file"]


def test_libcst_is_imported_for_suspects_only() -> None:
    make("a.py", GRAPHS)
    program = (
        "import sys\nfrom graphlint import check, registry\nfrom graphlint.config import Settings\n"
        "import graphlint.rules; graphlint.rules.__path__ = [sys.argv[1]]\n"
        "check.check(['.'], Settings(), registry.rules())\nprint('libcst' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(Path(__file__).parent / "toys")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
    make("a.py", GRAPHS + "danger()\n")
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


@pytest.mark.parametrize("files", [1, sieve.FEW + 1])
def test_a_file_that_mentions_nothing_ends_before_the_analysis_is_imported(files: int) -> None:
    for number in range(files):
        make(f"many/m{number}.py", "import os\n\n\ndef components() -> list[str]:\n    return os.listdir()\n")
    program = (
        "import sys\nfrom graphlint import cli\ntry:\n    cli.main(['check', 'many/m0.py'])\n"
        "except SystemExit as end:\n    print(end.code)\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    code, modules = done.stdout.splitlines()
    costly = {"libcst", "pathspec", "difflib", "multiprocessing", "concurrent.futures", "hashlib", "json"}
    analysis = {f"graphlint.{name}" for name in ("facts", "flow", "project", "evaluate", "summaries", "typestate")}
    assert code == "0"
    assert done.stderr == "1 file checked: no findings\n"
    assert (costly | analysis).intersection(modules.split()) == set()


def test_in_a_small_project_a_file_matters_that_mentions_nothing_itself() -> None:
    make("pkg/__init__.py", "")
    make("pkg/a.py", GRAPHS)
    make("pkg/b.py", "danger()\n")
    assert found(run("pkg/b.py")) == ["pkg/b.py:1 risky-call"]
    make("pkg/a.py", "")
    assert found(run("pkg/b.py")) == []


@pytest.mark.parametrize(
    "line", ["runner.clear_cuda_graph()", "import torch; x = torch.zeros(3)", "import torch; x = y.new_empty(3)"]
)
def test_few_files_are_read_for_what_only_many_files_have_too_often(line: str) -> None:
    make("a.py", f"{line}\ndanger()\n")
    assert found(run()) == ["a.py:2 risky-call"]


def test_in_a_large_project_the_files_around_are_read_for_one_that_mentions_something() -> None:
    make("pkg/__init__.py", "")
    for number in range(sieve.FEW):
        make(f"pkg/m{number}.py", "")
    make("pkg/a.py", GRAPHS + "danger()\n")
    make("pkg/b.py", "danger()\n")
    assert found(run("pkg/b.py")) == []
    assert found(run("pkg/a.py")) == found(run("pkg")) == ["pkg/a.py:3 risky-call"]
    assert found(run("pkg/b.py", unsaved={"pkg/b.py": b"empty_cache()\ndanger()\n"})) == ["pkg/b.py:2 risky-call"]


def test_of_a_large_project_the_packages_that_hand_names_on_are_read_too() -> None:
    for number in range(sieve.FEW):
        make(f"pkg/m{number}.py", "import os\n")
    make("pkg/__init__.py", "from pkg.a import release\n")
    make("pkg/sub/__init__.py", "")
    make("pkg/a.py", GRAPHS + "danger()\n")
    inputs = check.read(["pkg"], Settings(), {})
    assert sorted(inputs.sources) == ["pkg/__init__.py", "pkg/a.py"]


def test_cpp_in_a_small_python_project_does_not_make_it_a_large_one() -> None:
    make("pkg/__init__.py", "")
    make("pkg/a.py", GRAPHS)
    for number in range(sieve.FEW):
        make(f"pkg/csrc/a{number}.cpp", "int x;\n")
    make("pkg/zz/b.py", "danger()\n")
    assert found(run("pkg/zz/b.py")) == ["pkg/zz/b.py:1 risky-call"]


def test_of_several_paths_to_one_place_the_shortest_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    make("a.py", GRAPHS + "danger()\n")
    code = registry.code(registry.by_name("risky-call"))
    original = code.suspects

    def thrice(analysis: object) -> object:
        for suspect in original(analysis):
            yield replace(suspect, trace=suspect.trace * 3)
            yield suspect
            yield replace(suspect, trace=suspect.trace * 2)

    monkeypatch.setattr(code, "suspects", thrice)
    (finding,) = run().findings
    assert len(finding.trace) == 1


def test_a_fix_that_drops_a_comment_is_not_safe() -> None:
    make("a.py", GRAPHS + "danger()  # gone\n")
    (finding,) = run().findings
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.UNSAFE
    assert finding.fix.conditions == ("it is calm", "the comment `# gone` goes with it")
