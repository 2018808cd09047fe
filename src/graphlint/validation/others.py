# ruff: noqa: T201, S603 - a program of its own: it prints, and starts programs that it names itself
"""What other means report of the bad version of a case, with the default allocator.

* comparing results with eager, which is what a test of an engine does;
* NVIDIA's `compute-sanitizer --tool memcheck`;
* torch's own `check_input_liveness`, where this torch has it;
* the memory probe of `torch-cudagraph-debug`, where it can be imported.

    python -m graphlint.validation.others MEANS FILE

runs `observe` of a module under one of them, without graphlint's own watch.
"""

from __future__ import annotations

import gc
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from graphlint.validation import runner
from graphlint.validation.cases import BAD, Case, Setting
from graphlint.validation.child import load

LIMIT = 240.0
"""Seconds for one case under one of them; a sanitizer starts slowly."""

MEANS: Mapping[str, str] = {
    "compare": "compared with eager",
    "sanitizer": "compute-sanitizer memcheck",
    "liveness": "`check_input_liveness`",
    "memory-debug": "torch-cudagraph-debug",
}
"""Each by the title of its column."""

NOTHING = "-"
"""It ran to its end and reported nothing."""
MISSING = "NOT THERE"
"""First words of a program that cannot do what it was asked; what follows says why."""


def reported(case: Case, place: Path) -> dict[str, str]:
    """What each means reports, by its name; files go to a place of its own."""
    folder = place / case.title.replace("/", "-")
    for name, content in case.files(BAD).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    entry = str(folder / case.entry_of(BAD))
    answers = (_compare(_inside("plain", entry)), _sanitizer(entry), _liveness(entry), _memory_debug(entry))
    return dict(zip(MEANS, answers, strict=True))


# -------------------------------------------------------------------------------------------------- reading an answer


def _inside(what: str, path: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-m", "graphlint.validation.others", what, path]
    try:
        return subprocess.run(
            command, env=runner.environment(Setting.DEFAULT), capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -9, "", "no end within the limit")


def _compare(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode:
        return f"ended by {_error(done.stderr)}"
    wrong = [line.removeprefix("DIFFERS ") for line in done.stdout.splitlines() if line.startswith("DIFFERS ")]
    return f"differs: {', '.join(wrong[:2])}{', ...' if len(wrong) > 2 else ''}" if wrong else NOTHING


def _sanitizer(entry: str) -> str:
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return "not installed"
    done = _inside("plain", entry, (tool, "--tool", "memcheck", "--print-limit", "3"))
    said = done.stdout + done.stderr
    if "Device not supported" in said:
        return "does not run here"
    errors = next((line for line in said.splitlines() if "ERROR SUMMARY" in line), "")
    if not errors:
        return f"no summary: {_error(said)}"
    if "SUMMARY: 0 errors" in errors:
        return NOTHING
    first = next((line for line in said.splitlines() if "Invalid" in line or "Program hit" in line), errors)
    return first.strip("= ")[:90]


def _liveness(entry: str) -> str:
    done = _inside("liveness", entry)
    if MISSING in done.stdout:
        return _missing(done.stdout)
    return _error(done.stderr) if "dead tensor" in done.stderr else NOTHING


def _memory_debug(entry: str) -> str:
    done = _inside("memory-debug", entry)
    if MISSING in done.stdout:
        return _missing(done.stdout)
    left = [line.removeprefix("LEFT ") for line in done.stdout.splitlines() if line.startswith("LEFT ")]
    if left:
        return left[0]
    return f"ended by {_error(done.stderr)}" if done.returncode else NOTHING


def _missing(said: str) -> str:
    return next(line.partition(MISSING)[2].strip() for line in said.splitlines() if MISSING in line)


def _error(text: str) -> str:
    """The line that names the error, or else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception)\b", line)]
    line = (named or lines or ["nothing said"])[-1]
    return line.partition(" INTERNAL ASSERT FAILED at ")[0][:100]


# ----------------------------------------------------------------------------------------------- in the other process


class _PlainProbe:
    """A probe that only compares, as a test would: no audit, no canary."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def check(self, name: str, got: Any, expected: Any) -> None:
        both = isinstance(got, self._torch.Tensor) and isinstance(expected, self._torch.Tensor)
        if not (self._torch.equal(got, expected) if both else got == expected):
            print(f"DIFFERS {name}", flush=True)

    def canary(self, like: Any) -> Any:
        return self._torch.zeros_like(like)

    def replay(self, graph: Any) -> None:
        graph.replay()
        self._torch.cuda.synchronize()

    def reserved(self, pool: tuple[int, int]) -> int:
        del pool
        return 0

    def at_most(self, name: str, got: int, limit: int) -> int:
        del name, limit
        return got

    def eager(self, run: Callable[[], Any]) -> Any:
        return run()

    def refused(self, run: Callable[[], object]) -> bool:
        try:
            run()
        except RuntimeError as error:
            return "CUDA" not in str(error)
        return False


class _SnapshotProbe(_PlainProbe):
    """Takes a snapshot where a fixture asks for the bytes of a pool, which is after its teardown."""

    def __init__(self, torch: Any, snapshot: Callable[[], Any]) -> None:
        super().__init__(torch)
        self._snapshot = snapshot

    def reserved(self, pool: tuple[int, int]) -> int:
        return _left(self._snapshot(), pool)


def _left(snapshot: Any, pool: tuple[int, int] | None = None) -> int:
    """Bytes of a pool in a snapshot, or of all private pools; they are printed where there are any."""
    total = 0
    for key, stats in snapshot.pool_stats.items():
        one, size = tuple(key.pool_id), int(getattr(stats, "reserved_bytes", 0))
        if size and (one == tuple(pool) if pool is not None else one != (0, 0)):
            print(f"LEFT private pool {one} keeps {size} bytes", flush=True)
            total += size
    return total


def _observe(path: Path, probe: _PlainProbe) -> None:
    import torch

    sys.path.insert(0, str(path.parent))
    load(path).observe(probe)
    torch.cuda.synchronize()


def _plain(path: Path) -> None:
    import torch

    _observe(path, _PlainProbe(torch))


def _with_liveness(path: Path) -> None:
    import torch

    original = torch.cuda.graph
    if "check_input_liveness" not in inspect.signature(original.__init__).parameters:
        print(f"{MISSING} not in torch {torch.__version__.partition('+')[0]}")
        return

    def graph(*arguments: Any, **options: Any) -> Any:
        return original(*arguments, **{"check_input_liveness": True, **options})

    torch.cuda.graph = graph
    _observe(path, _PlainProbe(torch))


def _with_memory_debug(path: Path) -> None:
    try:
        memory_debug = import_module("torch_cudagraph_debug.memory_debug")
    except ImportError:
        print(f"{MISSING} not installed")
        return
    import torch

    torch.cuda.init()
    probe = memory_debug.MemoryProbe(name="case")
    probe.snapshot()
    _observe(path, _SnapshotProbe(torch, probe.snapshot))
    gc.collect()
    torch.cuda.empty_cache()
    _left(probe.snapshot())


_PROGRAMS: Mapping[str, Callable[[Path], None]] = {
    "plain": _plain,
    "liveness": _with_liveness,
    "memory-debug": _with_memory_debug,
}


if __name__ == "__main__":
    _PROGRAMS[sys.argv[1]](Path(sys.argv[2]))
