"""How long graphlint takes on the sources of inference engines, beside ruff, and what it finds there.

    python benchmarks/engines.py FOLDER --pairs 3

The wheels are downloaded into FOLDER/wheels once, and their sources unpacked into FOLDER/<distribution>-<version>; what is there
already is taken as it is. The two programs run on the same tree in turn, so that a machine that is busy is busy for both: the
ratio of a pair says more than its seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

ENGINES = {
    "vllm": ("0.33.0", "vllm"),
    "sglang": ("0.5.23", "sglang"),
    "lmdeploy": ("0.18.0", "lmdeploy"),
    "megatron-core": ("0.16.1", "megatron"),
    "exllamav3": ("1.6.5", "exllamav3"),
    "torchtitan": ("0.3.0", "torchtitan"),
    "flashinfer-python": ("0.7.4", "flashinfer"),
}
"""Distribution -> version, and the package in it."""

SOURCES = (".py", ".pyi", ".cpp", ".cc", ".cu", ".cuh", ".h", ".hpp")


@dataclass(frozen=True)
class Run:
    """One run of a program on a tree."""

    seconds: float
    peak: float
    """Most memory that it held, in megabytes."""
    output: str


@dataclass(frozen=True)
class Row:
    """One engine's line of the table."""

    engine: str
    files: int
    megabytes: float
    pairs: Sequence[tuple[Run, Run]]
    findings: int

    def __str__(self) -> str:
        ours, theirs = (statistics.median(run.seconds for run in runs) for runs in zip(*self.pairs, strict=True))
        ratio = statistics.median(mine.seconds / other.seconds for mine, other in self.pairs)
        peak = max(mine.peak for mine, _ in self.pairs)
        return (
            f"| {self.engine} | {self.files:,} | {self.megabytes:.1f} | {ours:.1f} | {theirs:.2f} | {ratio:.1f} "
            f"| {peak:.0f} | {self.findings} |"
        )


HEAD = """\
| engine | Python files | MB | graphlint, s | ruff, s | ratio | peak, MB | findings |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--engine", "engines", multiple=True, type=click.Choice(list(ENGINES)), help="Only this one; repeatable.")
@click.option("--pairs", default=3, show_default=True, type=click.IntRange(1), help="Runs of each program.")
@click.option("--unpack-only", is_flag=True, help="Download and unpack, and run nothing.")
def main(folder: Path, engines: Sequence[str], pairs: int, unpack_only: bool) -> None:
    """Download engines into FOLDER, run graphlint and ruff on them in turn, and print a table."""
    trees = {name: unpacked(folder, name) for name in engines or ENGINES}
    if unpack_only:
        return
    click.echo(HEAD)
    for name, tree in trees.items():
        click.echo(str(measured(name, tree, pairs)))


def unpacked(folder: Path, name: str) -> Path:
    """The sources of one engine, downloaded and unpacked unless they are there."""
    version, package = ENGINES[name]
    target = folder / f"{name}-{version}"
    if not (target / package).is_dir():
        wheels = folder / "wheels"
        pattern = f"{name.replace('-', '_')}-{version}-*.whl"
        if not any(wheels.glob(pattern)):
            command = ["pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(wheels)]
            subprocess.run([sys.executable, "-m", *command, f"{name}=={version}"], check=True)
        (wheel,) = wheels.glob(pattern)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target, [each for each in archive.namelist() if each.endswith(SOURCES)])
    return target / package


def measured(name: str, tree: Path, pairs: int) -> Row:
    """Both programs on one tree, in turn."""
    python = list(tree.rglob("*.py"))
    megabytes = sum(path.stat().st_size for path in python) / 1e6
    graphlint = [sys.executable, "-m", "graphlint", "check", "--output-format", "json", str(tree)]
    ruff = [_program("ruff"), "check", "--select", "F", "--no-cache", "--quiet", "--exit-zero", str(tree)]
    runs = [(run(graphlint), run(ruff)) for _ in range(pairs)]
    found = json.loads(runs[0][0].output)
    return Row(name, len(python), megabytes, runs, len(found))


def run(command: Sequence[str]) -> Run:
    """Run a program without what it may have kept from before.

    Raises:
        click.ClickException: it failed.
    """
    with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        environment = os.environ | {"XDG_CACHE_HOME": kept}
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):
            raise click.ClickException(f"{' '.join(command)} ended with {process.returncode}")
        output.seek(0)
        return Run(seconds, usage.ru_maxrss / 1024, output.read().decode())


def _program(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise click.ClickException(f"{name} is not installed")
    return found


if __name__ == "__main__":
    main()
