"""Tests that `fix --with-test` writes: red on the code before the fix, green on the code after it, and fit to commit."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import engine_programs
import pytest

from graphlint import cli, namesake

ORDER = ("pool-order", "shared-release")
TWICE_WRONG = {
    path: text.replace("        self.pool = None\n        torch", "        torch")
    for path, text in engine_programs.POOL_ERASED_FIRST.items()
}
CUT_TO_SIZE = """\
import torch


class Scratch:
    def __init__(self):
        self.buffer = None

    def get(self, size):
        if self.buffer is None or self.buffer.{held} < size:
            self.buffer = torch.{made}
        return self.buffer{part}


class Layer:
    def __init__(self):
        self.scratch = Scratch()
        self.graphs = {{}}

    def capture(self, size):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.scratch.get(size).zero_()
        self.graphs[size] = graph
"""
GROWTHS = {
    "part": ("numel()", 'empty(size, device="cuda")', "[:size]"),
    "view": ("nbytes", 'empty((size,), dtype=torch.uint8, device="cuda")', ".narrow(0, 0, size)"),
    "rows": ("shape[0]", 'zeros(size, 64, device="cuda")', "[:size].view(-1)"),
    "bytes": ("nbytes", 'empty(size // 2, dtype=torch.bfloat16, device="cuda")', ""),
}
CASES = {
    "pool-order": (engine_programs.POOL_ERASED_FIRST, ("pool-order",), ["test_recorder_forget.py"]),
    "shared-release": (engine_programs.POOL_ERASED_FIRST, ORDER, ["test_loop_stop.py", "test_recorder_forget.py"]),
    "duplicate-release": (engine_programs.RELEASED_TWICE, ("duplicate-release",), ["test_start.py"]),
    "pool-handle": (engine_programs.HANDLE_OUTLIVES, ("pool-handle",), ["test_recorder_forget.py"]),
    "workspace-growth": (engine_programs.GROWN_AWAY, ("workspace-growth",), ["test_workspace_for.py"]),
    "two rules": (
        TWICE_WRONG,
        ("pool-order", "pool-handle"),
        ["test_recorder_forget.py", "test_recorder_forget_pool_order.py"],
    ),
    **{
        name: (
            {"engine/scratch.py": CUT_TO_SIZE.format(held=held, made=made, part=part)},
            ("workspace-growth",),
            ["test_scratch_get.py"],
        )
        for name, (held, made, part) in GROWTHS.items()
    },
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(namesake, "warning", lambda: None)


def write(files: Mapping[str, str]) -> None:
    for path, text in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert isinstance(caught.value.code, int)
    return caught.value.code


def fix(*rules: str, folder: str = "tests/unit") -> int:
    chosen = [word for rule in rules for word in ("--rule", rule)]
    return run("fix", *chosen, "--unsafe-fixes", "--with-test", folder, "engine")


def outcome(folder: str = "tests/unit") -> tuple[int, str]:
    """Exit code and output of pytest over the written tests, in a process without a torch."""
    options = ("-q", "-p", "no:cacheprovider", "--tb=short", "--import-mode=importlib", "-W", "error")
    without = "import sys; sys.modules['torch'] = None; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", without, *options, folder], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", CASES)
def test_a_test_is_red_before_the_fix_and_green_behind_it(name: str) -> None:
    before, rules, expected = CASES[name]
    write(before)
    assert fix(*rules) == 0
    assert sorted(path.name for path in Path("tests/unit").iterdir()) == expected
    code, said = outcome()
    assert code == 0, said
    assert f"{len(expected)} passed" in said
    write(before)
    code, said = outcome()
    assert code == 1, said
    assert f"{len(expected)} failed" in said
    assert "AssertionError" in said or "DID NOT RAISE" in said


def test_an_order_that_is_wrong_again_is_told() -> None:
    write(engine_programs.POOL_ERASED_FIRST)
    fix(*ORDER)
    loop = Path("engine/decode/loop.py")
    text = loop.read_text(encoding="utf-8")
    release = "        Experts.give_back()\n"
    assert text.count(release) == 1
    loop.write_text(text.replace(release, "") + release, encoding="utf-8")
    code, said = outcome()
    assert code == 1
    assert "erased first: ['death', 'death', 'erasure', 'erasure', 'release']" in said
    loop.write_text(
        text.replace(release, "").replace("        # before", release + "        # before"), encoding="utf-8"
    )
    code, said = outcome()
    assert code == 1


@pytest.mark.parametrize("name", CASES)
def test_a_written_test_is_clean(name: str) -> None:
    ruff = shutil.which("ruff") or shutil.which("ruff", path=str(Path(sys.executable).parent))
    if ruff is None:
        pytest.skip("ruff is not installed")
    before, rules, _ = CASES[name]
    write(before)
    fix(*rules)
    for arguments in (("check", "--isolated", "--select", "E,F,W,I,B,UP"), ("format", "--isolated", "--check")):
        done = subprocess.run([ruff, *arguments, "tests/unit"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_a_file_in_the_way_stays_and_nothing_is_changed(capfd: pytest.CaptureFixture[str]) -> None:
    before, rules, (name,) = CASES["pool-order"]
    write({**before, f"tests/unit/{name}": "# mine\n"})
    assert fix(*rules) == 2
    assert f"{name}: this file is in the way of a test; nothing was changed" in capfd.readouterr().err
    assert Path("tests/unit", name).read_text(encoding="utf-8") == "# mine\n"
    assert {path: Path(path).read_text(encoding="utf-8") for path in before} == before


def test_a_second_run_writes_nothing() -> None:
    before, rules, _ = CASES["pool-handle"]
    write(before)
    assert fix(*rules) == 0
    assert fix(*rules, folder="tests/more") == 0
    assert not Path("tests/more").exists()


def test_a_rule_without_a_test_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    write(engine_programs.NAMED_ALIKE)
    assert fix("unkeyed-buffer") == 2
    said = capfd.readouterr().err
    assert "--with-test knows no test for unkeyed-buffer" in said
    assert "duplicate-release" in said
    assert Path("engine/mixer.py").read_text(encoding="utf-8") == engine_programs.NAMED_ALIKE["engine/mixer.py"]


def test_beside_a_rule_with_one_it_is_fixed_and_said(capfd: pytest.CaptureFixture[str]) -> None:
    write(engine_programs.GROWN_AWAY)
    assert fix("workspace-growth", "capture-alloc") == 0
    said = capfd.readouterr().err
    assert "no test written: capture-alloc: no test is known for this rule" in said
    assert outcome()[0] == 0


@pytest.mark.parametrize("more", [("--diff",), ("--stdin-filename", "engine/mixer.py", "-")])
def test_a_run_that_changes_nothing_writes_no_test(
    more: tuple[str, ...], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"import torch\n")))
    write(engine_programs.POOL_ERASED_FIRST)
    paths = () if "-" in more else ("engine",)
    assert run("fix", "--rule", "pool-order", "--with-test", "tests", *more, *paths) == 2
    assert "--with-test goes with files that are rewritten" in capfd.readouterr().err
    assert not Path("tests").exists()


def test_what_a_teardown_asks_for_is_answered() -> None:
    before = dict(engine_programs.POOL_ERASED_FIRST)
    asked = """
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("not while capturing")
        if self.closed or not self.recorded:
            return
        for number, graph in self.recorded.items():
            graph.reset()
"""
    path = "engine/decode/recorder.py"
    plain = "\n        for graph in self.recorded.values():\n            graph.reset()\n"
    assert plain in before[path]
    before[path] = before[path].replace(plain, asked)
    write(before)
    assert fix("pool-order") == 0
    code, said = outcome()
    assert code == 0, said
    write(before)
    assert outcome()[0] == 1


def test_a_function_that_can_raise_has_no_test_of_what_it_releases(capfd: pytest.CaptureFixture[str]) -> None:
    before = dict(engine_programs.RELEASED_TWICE)
    start = "    large = Model(options)\n"
    refusing = "    if options.rank > options.size:\n        raise ValueError(options.rank)\n"
    before["engine/start.py"] = before["engine/start.py"].replace(start, refusing + start)
    write(before)
    assert fix("duplicate-release") == 0
    assert "no test written: duplicate-release: `start` can raise" in capfd.readouterr().err
    assert not Path("tests").exists()


def test_a_release_that_is_no_call_has_no_test(capfd: pytest.CaptureFixture[str]) -> None:
    before = dict(engine_programs.POOL_ERASED_FIRST)
    late = "torch.cuda.empty_cache()\n        Experts.workspaces = {}"
    before["engine/decode/recorder.py"] = before["engine/decode/recorder.py"].replace("torch.cuda.empty_cache()", late)
    write(before)
    fix("pool-order")
    assert "no test written: pool-order: `Experts.workspaces = {}` is no call" in capfd.readouterr().err
    assert not Path("tests").exists()
