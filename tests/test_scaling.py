"""Twice as much code takes about twice as long: what is done is counted, not timed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RUNNER = """\
import torch


class Runner:
    def __init__(self):
        self.graphs = {}

    def capture(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            n.run()
        self.graphs[n] = graph

    def release(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        torch.cuda.empty_cache()


"""
MANY = {
    "tiny functions": """\
def f{0}(x):
    y = torch.empty(x, device="cuda")
    for k in range({0}):
        y = y + k
    return y


""",
    "workspaces": """\
class Workspace{0}:
    def __init__(self):
        self.buffer = None

    def get(self, n):
        if self.buffer is None or self.buffer.numel() < n:
            self.buffer = torch.empty(n, device="cuda")
        return self.buffer


""",
}


def deeds(folder: Path, text: str, count: int) -> int:
    """How many calls of Python functions a run over so many copies of a text makes."""
    folder.mkdir()
    (folder / "code.py").write_text(RUNNER + "".join(text.format(number) for number in range(count)))
    calls = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        check.check([str(folder)], Settings(root=str(folder)), registry.rules())
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("kind", MANY)
def test_the_work_grows_with_the_code(tmp_path: Path, kind: str) -> None:
    few, many = (deeds(tmp_path / str(count), MANY[kind], count) for count in (400, 1200))
    assert many < 4 * few


def test_calls_that_are_deeper_than_the_stack_end_no_run(tmp_path: Path) -> None:
    chain = "".join(f"def f{number}(n):\n    return f{number + 1}(n)\n\n\n" for number in range(600))
    released = "def stop(runner):\n    runner.release()\n    runner.release()\n"
    (tmp_path / "code.py").write_text(
        f"{RUNNER}{chain}def f600(n):\n    return torch.empty(n)\n\n\nRUNNER = Runner()\nRUNNER.capture(f0)\n\n\n{released}"
    )
    report = check.check([str(tmp_path)], Settings(root=str(tmp_path)), registry.rules())
    assert {finding.rule for finding in report.findings} <= {"duplicate-release"}
