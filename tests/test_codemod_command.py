"""The rules' rewrites under LibCST's own tool."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = """\
import torch


class Runner:
    def __init__(self):
        self.graphs = {}
        self.outputs = {}

    def capture(self, key, run):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.outputs[key] = run()
        self.graphs[key] = graph

    def clear(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        torch.cuda.empty_cache()  # give it back
        self.outputs.clear()
"""
FIXED = RUNNER.replace(
    "        torch.cuda.empty_cache()  # give it back\n        self.outputs.clear()\n",
    "        self.outputs.clear()\n        torch.cuda.empty_cache()  # give it back\n",
)


def libcst_tool(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "libcst.tool", "codemod", "-x", "graphlint.codemod_command.Command"]
    command += ["--no-format", "--hide-progress", "--jobs", "1", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "runner.py").write_text(RUNNER)
    (tmp_path / "other.py").write_text("x = 1\n")
    return tmp_path


def test_a_rules_rewrite_runs_as_a_codemod(project: Path) -> None:
    done = libcst_tool(project, "--rule", "pool-order", ".")
    assert done.returncode == 0, done.stderr
    assert (project / "runner.py").read_text() == FIXED
    assert (project / "other.py").read_text() == "x = 1\n"


def test_it_does_what_the_command_line_does(project: Path) -> None:
    command = [sys.executable, "-m", "graphlint", "fix", "--rule", "pool-order", "."]
    subprocess.run(command, cwd=project, capture_output=True, check=False)
    assert (project / "runner.py").read_text() == FIXED


def test_an_unknown_rule_is_an_error(project: Path) -> None:
    done = libcst_tool(project, "--rule", "pool-ordre", ".")
    assert done.returncode == 2
    assert "did you mean" in done.stderr
    assert (project / "runner.py").read_text() == RUNNER


def test_code_without_a_file_is_left_alone(project: Path) -> None:
    command = [sys.executable, "-m", "libcst.tool", "codemod", "-x", "graphlint.codemod_command.Command"]
    command += ["--no-format", "--rule", "pool-order", "-"]
    done = subprocess.run(command, cwd=project, input=RUNNER, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert "Failed to codemod" in done.stderr


def test_the_settings_of_the_project_hold(project: Path) -> None:
    settings = '[tool.graphlint.vocabulary]\n[[tool.graphlint.vocabulary.effect]]\ncall = "a.b"\ndoes = "erase"\n'
    (project / "pyproject.toml").write_text(f'[tool.graphlint]\nexclude = ["runner.py"]\n{settings}')
    libcst_tool(project, "--rule", "pool-order", ".")
    assert (project / "runner.py").read_text() == FIXED  # LibCST chooses the files, and this one was named
