"""C++ and CUDA files in a run: found, reported and silenced as Python is, and joined with Python that calls them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from graphlint import check, cpp, fixing, native, registry, sieve
from graphlint.check import Report
from graphlint.config import Settings
from graphlint.source import CPP
from graphlint.validation.cases import Case, load, strip_markers

FIXTURES = Path(__file__).parent.parent / "fixtures"
CASES = [case for path in sorted(FIXTURES.glob("*/*/fixture.toml")) if (case := load(path)).only_read]

KEPT = """class Runner {
  void step(int64_t n, cudaStream_t stream) {
    if (isCapturing(stream)) {
      kept_ = torch::empty({n}, torch::kCUDA);
    }
  }
  at::Tensor kept_;
};
"""
KEPT_ROW = 4


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def run(*paths: str, settings: Settings | None = None) -> Report:
    return check.check(paths or (".",), settings or Settings(), registry.rules())


def found(report: Report) -> list[tuple[str, int, str]]:
    return [(each.path, report.sources[each.path].row(each.span.start), each.rule) for each in report.findings]


def graphlint(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "graphlint", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


needs_grammar = pytest.mark.usefixtures("grammar")


@pytest.fixture
def grammar() -> None:
    pytest.importorskip("tree_sitter_cpp", reason="reading C++ needs the extra cpp")


@needs_grammar
@pytest.mark.parametrize("suffix", CPP)
def test_a_file_is_reported(suffix: str) -> None:
    make(f"csrc/runner{suffix}", KEPT)
    expected = [(f"csrc/runner{suffix}", KEPT_ROW, "capture-alloc")]
    assert found(run()) == found(run("csrc")) == found(run(f"csrc/runner{suffix}")) == expected


@needs_grammar
@pytest.mark.parametrize("output_format", ["full", "concise", "json", "github", "sarif"])
def test_every_format_shows_it(output_format: str) -> None:
    make("csrc/runner.cu", KEPT)
    done = graphlint("check", "csrc", f"--output-format={output_format}")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "csrc/runner.cu" in done.stdout
    assert done.stderr.splitlines()[-1].startswith("1 file checked: 1 ")


@needs_grammar
def test_only_given_files_are_reported_on() -> None:
    make("csrc/runner.cpp", KEPT)
    make("csrc/other.cpp", KEPT)
    assert found(run("csrc/other.cpp")) == [("csrc/other.cpp", KEPT_ROW, "capture-alloc")]


@needs_grammar
def test_of_files_that_are_the_same_one_is_reported_on() -> None:
    make("include/runner.cuh", KEPT)
    make("package/include/runner.cuh", KEPT)
    make("package/other.cuh", KEPT.replace("Runner", "Other"))
    rows = [("include/runner.cuh", KEPT_ROW, "capture-alloc"), ("package/other.cuh", KEPT_ROW, "capture-alloc")]
    assert found(run()) == rows
    copy = ("package/include/runner.cuh", KEPT_ROW, "capture-alloc")
    assert found(run("package")) == [copy, rows[1]]


@needs_grammar
def test_calls_are_followed_into_files_around_a_given_one() -> None:
    make("csrc/guard.h", "inline bool busy(cudaStream_t stream) { return isCapturing(stream); }\n")
    make("csrc/runner.cpp", KEPT.replace("isCapturing(stream)", "busy(stream) && kept_.numel() < n"))
    assert found(run("csrc/runner.cpp"))[:1] == [("csrc/runner.cpp", KEPT_ROW, "capture-alloc")]


@needs_grammar
def test_a_comment_silences_its_rule() -> None:
    make("a.cpp", KEPT.replace("kCUDA);", "kCUDA);  // graphlint: ignore[capture-alloc] one graph a process"))
    make("b.cpp", KEPT.replace("kCUDA);", "kCUDA);  // graphlint: ignore[pool-order]"))
    make("c.cpp", KEPT.replace("kCUDA);", "kCUDA);  // graphlint: ignore"))
    report = run()
    assert found(report) == [(path, KEPT_ROW, "capture-alloc") for path in ("b.cpp", "c.cpp")]
    idle, missing = report.warnings
    assert idle.startswith(f"b.cpp:{KEPT_ROW}: warning: nothing here is found by pool-order")
    assert missing.startswith(f"c.cpp:{KEPT_ROW}: warning: the rule that it ignores is missing")


@needs_grammar
def test_per_file_ignores(here: Path) -> None:
    make("a.cpp", KEPT)
    settings = Settings(root=str(here), per_file_ignores=(("*.cpp", ("capture-alloc",)),))
    assert found(run(settings=settings)) == []


@needs_grammar
def test_low_precision_is_for_previews() -> None:
    make(
        "cache.cpp",
        "std::unordered_map<cudaStream_t, at::Tensor> blocks;\n"
        "at::Tensor get(cudaStream_t stream, int64_t n) {\n"
        "  auto found = blocks.find(stream);\n"
        "  if (found == blocks.end()) {\n"
        "    blocks[stream] = torch::empty({n}, torch::kCUDA);\n"
        "  }\n"
        "  return blocks[stream];\n"
        "}\n",
    )
    assert found(run()) == []
    assert found(run(settings=Settings(preview=True))) == [("cache.cpp", 5, "capture-alloc")]


@needs_grammar
def test_c_plus_plus_is_never_rewritten() -> None:
    make("runner.cpp", KEPT)
    outcome = fixing.fix(check.read(["."], Settings(), {}), registry.rules(), unsafe=True)
    assert found(outcome.report) == [("runner.cpp", KEPT_ROW, "capture-alloc")]
    assert outcome.changes == {}
    assert all(finding.fix is None for finding in outcome.report.findings)


@needs_grammar
def test_parts_that_are_not_read_are_counted() -> None:
    make("odd.cpp", KEPT)
    make("generated.cpp", KEPT + "\0")
    report = run()
    assert found(report) == [("odd.cpp", KEPT_ROW, "capture-alloc")]
    assert report.warnings == ("warning: 1 part of a C++ file was not read: nothing there is known",)


def test_without_the_grammar_there_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object) -> None:
        raise cpp.MissingGrammarError

    monkeypatch.setattr(cpp, "read", missing)
    make("a.cpp", KEPT)
    make("b.cu", KEPT)
    make("c.h", "int three();\n")
    make("d.py", "import torch\ntorch.cuda.empty_cache()\n")
    report = run()
    assert report.findings == ()
    (warning,) = report.warnings
    assert warning == (
        "warning: 2 C++ files that captures may matter to were not read: install the extra that reads C++, "
        "`cudagraph-lint[cpp]`"
    )


def test_what_does_not_matter_asks_for_no_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp, "read", None)
    make("c.h", "int three();\n")
    assert run() == Report((), (), (), {})


def test_c_plus_plus_is_no_python() -> None:
    make("c.h", "int three();\n")
    make("d.cpp", "def f(:\n")
    report = run()
    assert (report.findings, report.warnings) == ((), ())


def place(name: str, variant: str) -> set[tuple[str, int, str]]:
    """Write a fixture's files without their markers; returns what is marked in them."""
    (case,) = [case for case in CASES if case.title == name]
    shutil.copytree(case.folder / variant, ".", dirs_exist_ok=True)
    marked = set()
    for path in Path().iterdir():
        content = path.read_bytes()
        if path.suffix == ".py":
            content, markers = strip_markers(content)
            marked |= {(path.name, row, rule) for row, rule in markers}
            path.write_bytes(content)
    return marked


@needs_grammar
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
@pytest.mark.parametrize("variant", ["bad", "fixed"])
@pytest.mark.parametrize("around", [0, sieve.FEW + 1])
def test_python_knows_what_the_c_plus_plus_beside_it_does(here: Path, case: Case, variant: str, around: int) -> None:
    marked = place(case.title, variant)
    for number in range(around):
        make(f"many/m{number}.py", "import os\n")
    report = run(settings=Settings(root=str(here), src=(".",)))
    assert {each for each in found(report) if each[0].endswith(".py")} == marked
    for finding in report.findings:
        if finding.path.endswith(".py"):
            assert finding.trace[0].path.endswith(CPP)
            assert finding.trace[0].path in report.sources
    paths = sorted(path.name for path in Path().glob("*.py"))
    assert set(found(run(*paths))) == marked


@needs_grammar
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_without_the_c_plus_plus_python_knows_nothing(case: Case) -> None:
    place(case.title, "bad")
    for path in Path().iterdir():
        if path.suffix in CPP:
            path.unlink()
    assert found(run()) == []


def test_a_run_over_python_does_not_import_what_reads_c_plus_plus() -> None:
    make("a.py", "import torch\ntorch.cuda.empty_cache()\n")
    program = (
        "import sys\nfrom graphlint import check, registry\nfrom graphlint.config import Settings\n"
        "check.check(['.'], Settings(), registry.rules())\n"
        "costly = ('graphlint.cpp', 'graphlint.native', 'tree_sitter')\n"
        "print(*(name for name in sys.modules if name.startswith(costly)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_there_is_one_list_of_suffixes() -> None:
    assert cpp.SUFFIXES is CPP


def test_a_fresh_vocabulary_is_extended() -> None:
    before = check.read(["."], Settings(), {}).vocabulary
    entry = next(entries[0] for entries in before.calls.values())
    assert len(native.extended(None, [entry]).calls[entry.name]) == len(before.calls[entry.name]) + 1
