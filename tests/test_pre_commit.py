"""The hooks, run by pre-commit itself: it clones this project, builds it in an environment of its own, and calls it.

Slow, and the only tests that download something: the build's requirements, from the package index.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.hooks

ROOT = Path(__file__).parent.parent
SHIPPED = (".pre-commit-hooks.yaml", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "rules", "src")

RUNNER = """\
import torch


class Runner{n}:
    def __init__(self):
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs = []

    def capture(self, step):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            step()
        self.graphs.append(graph)

    def drop_all(self):
        for graph in self.graphs:
            graph.reset()
        self.graphs.clear()
        self.pool = torch.cuda.graph_pool_handle()
"""

ENGINE = """\
import torch

from {package}.{runner} import Runner{n}


class Engine{n}:
    def __init__(self):
        self.runner = Runner{n}()

    def shutdown(self):
        torch.cuda.synchronize()
        self.runner.drop_all()
        torch.cuda.empty_cache()
        self.runner.drop_all()
"""
"""The hazard is in its last line, and only the file of the runner says so."""

HAZARD = re.compile(r"^(\S+\.py):(\d+):\d+: ", re.MULTILINE)


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, cwd=cwd, capture_output=True, text=True)


def git(*arguments: str, cwd: Path) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    done = run("git", *identity, *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This project as a repository that pre-commit can clone, with whatever is not committed yet."""
    place = tmp_path_factory.mktemp("hooks") / "graphlint"
    place.mkdir()
    for name in SHIPPED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, place / name)
    git("init", "--quiet", cwd=place)
    git("add", ".", cwd=place)
    git("commit", "--quiet", "--message", "As it is", cwd=place)
    return place


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """pre-commit's clones and environments: built once for this module, and apart from those of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRE_COMMIT_HOME", str(tmp_path_factory.mktemp("pre-commit")))
        for name in ("PYTHONPATH", "PYTHONHOME", "GIT_DIR", "GIT_INDEX_FILE"):
            patch.delenv(name, raising=False)
        yield


class Project:
    """A repository with the hooks in it."""

    def __init__(self, place: Path, hooks: Path, *lines: str) -> None:
        self.place = place
        rev = run("git", "rev-parse", "HEAD", cwd=hooks).stdout.strip()
        self.write(
            ".pre-commit-config.yaml",
            "\n".join((f"repos:\n- repo: {hooks}\n  rev: {rev}\n  hooks:", *(f"  {line}" for line in lines), "")),
        )
        git("init", "--quiet", cwd=place)

    def write(self, path: str, text: str) -> None:
        file = self.place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self) -> None:
        git("add", ".", cwd=self.place)
        git("commit", "--quiet", "--no-verify", "--message", "A step", cwd=self.place)

    def hook(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the hooks, by default over what is staged."""
        git("add", ".", cwd=self.place)
        done = run(sys.executable, "-m", "pre_commit", "run", "--color=never", *arguments, cwd=self.place)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done


def found(done: subprocess.CompletedProcess[str]) -> set[tuple[str, int]]:
    """Places of the findings in concise output."""
    return {(path, int(row)) for path, row in HAZARD.findall(done.stdout)}


def engines(project: Project, count: int, package: str = "pkg") -> set[tuple[str, int]]:
    """Write engines with a hazard each; where they are."""
    project.write(f"{package}/__init__.py", "")
    for n in range(count):
        project.write(f"{package}/runner{n}.py", RUNNER.format(n=n))
        project.write(f"{package}/engine{n}.py", ENGINE.format(n=n, package=package, runner=f"runner{n}"))
    return {(f"{package}/engine{n}.py", len(ENGINE.splitlines())) for n in range(count)}


CONCISE = "args: [--rule, duplicate-release, --output-format, concise]"


def test_a_commit_is_seen_with_the_project_around_it(tmp_path: Path, hooks: Path) -> None:
    project = Project(tmp_path, hooks, "- id: graphlint", f"  {CONCISE}")
    hazards = engines(project, 2)
    late = tmp_path / "pkg" / "engine1.py"
    text = late.read_text()
    late.unlink()
    project.commit()

    project.write("pkg/notes.py", "x = 1\n")
    calm = project.hook()
    assert calm.returncode == 0, calm.stdout
    project.commit()

    project.write("pkg/engine1.py", text)
    loud = project.hook()
    assert loud.returncode == 1
    assert found(loud) == {place for place in hazards if "engine1" in place[0]}


def test_no_file_is_seen_otherwise_for_being_handed_over_apart_from_others(tmp_path: Path, hooks: Path) -> None:
    project = Project(tmp_path, hooks, "- id: graphlint", f"  {CONCISE}", "  verbose: true")
    package = "a_package_whose_name_is_long_for_the_sake_of_a_long_list_of_arguments" + "_" * 60
    hazards = engines(project, 12, package)
    for n in range(1_500):
        project.write(f"{package}/m{n}.py", f"x = {n}\n")
    assert sum(len(str(path)) for path in tmp_path.rglob("*.py")) > 2**17

    done = project.hook("--all-files")
    runs = re.findall(r"^(\d+) files checked", done.stdout, re.MULTILINE)
    assert len(runs) > 1, "all of it fitted into one list of arguments"
    assert sum(map(int, runs)) == 12 * 2 + 1_500 + 1
    assert done.returncode == 1
    assert found(done) == hazards


def test_excluded_files_are_left_out_though_they_are_handed_over(tmp_path: Path, hooks: Path) -> None:
    project = Project(tmp_path, hooks, "- id: graphlint", f"  {CONCISE}")
    engines(project, 1, "vendored")
    hazards = engines(project, 1)
    assert {path for path, _ in found(project.hook())} == {"pkg/engine0.py", "vendored/engine0.py"}
    project.write("pyproject.toml", '[tool.graphlint]\nexclude = ["vendored/"]\n')
    assert found(project.hook()) == hazards
    project.write("pyproject.toml", '[tool.graphlint]\nexclude = ["vendored/", "pkg/"]\n')
    assert project.hook().returncode == 0


def test_a_fix_changes_the_file_and_fails_the_hook(tmp_path: Path, hooks: Path) -> None:
    project = Project(tmp_path, hooks, "- id: graphlint-fix", "  args: [--rule, duplicate-release, --unsafe-fixes]")
    engines(project, 1)
    before = (tmp_path / "pkg/engine0.py").read_text()
    first = project.hook()
    assert first.returncode == 1
    assert "files were modified by this hook" in first.stdout
    assert (tmp_path / "pkg/engine0.py").read_text() == before.removesuffix("        self.runner.drop_all()\n")
    second = project.hook()
    assert second.returncode == 0, second.stdout


def test_before_a_push_the_whole_project_is_looked_at(tmp_path: Path, hooks: Path) -> None:
    project = Project(tmp_path, hooks, "- id: graphlint-full", f"  {CONCISE}")
    hazards = engines(project, 2)
    project.commit()
    project.write("pkg/notes.py", "x = 1\n")
    assert found(project.hook()) == set()
    assert found(project.hook("--hook-stage=pre-push")) == hazards
    assert found(project.hook("--hook-stage=manual")) == hazards
    project.commit()
    project.write("notes.txt", "no Python\n")
    assert "Skipped" in project.hook("--hook-stage=pre-push").stdout


def test_the_hooks_are_what_pre_commit_takes_for_hooks() -> None:
    done = run(sys.executable, "-m", "pre_commit", "validate-manifest", ROOT / ".pre-commit-hooks.yaml", cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
