# ruff: noqa: T201, S603 - a program of its own: it prints, and starts programs that it names itself
"""Measurements behind the suite's claims: that the audit misses no pointer, what it costs, and what other tools report.

    python -m graphlint.validation.campaign [--fixtures DIR] [--report DIR] [--jobs N] [--rules RULE...]

It hands tensors to kernels of every kind that an engine launches and asks the audit for each of them; it times the
audit of a graph of 600 kernels; and it runs the bad version of every fixture under other means that one could trust:

* comparing results with eager, which is what a test of an engine does;
* NVIDIA's `compute-sanitizer --tool memcheck`;
* torch's own `check_input_liveness`, where this torch has it;
* the memory probe of `torch-cudagraph-debug`, where it can be imported.

The tables go to `tools.md` and `tools.json` in the report's folder.
"""

from __future__ import annotations

import argparse
import inspect
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from graphlint.validation import cases, runner
from graphlint.validation.cases import BAD, Case, Setting
from graphlint.validation.child import load
from graphlint.validation.watch import Watch, touched

KERNELS = 600
LIMIT = 240.0
"""Seconds for one case under one tool; a sanitizer starts slowly."""
_NO = "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m graphlint.validation.campaign")
    parser.add_argument("--fixtures", type=Path, default=Path("fixtures"))
    parser.add_argument("--report", type=Path)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--rules", nargs="*", default=[])
    parser.add_argument("--inside", nargs=2, metavar=("WHAT", "PATH"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.inside:
        _INSIDE[given.inside[0]](Path(given.inside[1]))
        return 0
    device = runner.device()
    if "error" in device:
        print(f"nothing was measured: {device['error']}", file=sys.stderr)
        return 2
    found = [case for case in cases.discover(given.fixtures, given.rules) if case.devices <= device["devices"]]
    pointers = measured("pointers")
    print(json.dumps(pointers, indent=1))
    with tempfile.TemporaryDirectory(prefix="graphlint-") as place, ThreadPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(lambda case: _case(case, Path(place)), found))
    for row in rows:
        print(json.dumps(row))
    if given.report:
        given.report.mkdir(parents=True, exist_ok=True)
        told = {
            "device": {key: device[key] for key in ("name", "driver", "torch")},
            "pointers": pointers,
            "tools": rows,
        }
        (given.report / "tools.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        (given.report / "tools.md").write_text("\n".join(_markdown(told)) + "\n", encoding="utf-8")
    return 0 if pointers.get("all") else 1


# --------------------------------------------------------------------------------------------------- other tools


def _case(case: Case, place: Path) -> dict[str, str]:
    """What each means reports on the bad version of a case, with the default allocator."""
    folder = place / case.title.replace("/", "-")
    for name, content in case.files(BAD).items():
        path = folder / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    entry = str(folder / "code" / case.entry_of(BAD))
    return {
        "case": case.title,
        "compare": _compare(_inside("plain", entry)),
        "sanitizer": _sanitizer(entry),
        "liveness": _liveness(entry),
        "memory-debug": _memory_debug(entry),
    }


def _inside(what: str, path: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-m", "graphlint.validation.campaign", "--inside", what, path]
    try:
        return subprocess.run(
            command, env=runner.environment(Setting.DEFAULT), capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -9, "", "no end within the limit")


def _compare(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode:
        return f"fails: {_last(done.stderr)}"
    wrong = [line for line in done.stdout.splitlines() if line.startswith("DIFFERS ")]
    return f"{len(wrong)} results differ" if wrong else _NO


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
        return f"no summary: {_last(said)}"
    if "SUMMARY: 0 errors" in errors:
        return _NO
    first = next((line for line in said.splitlines() if "Invalid" in line or "Program hit" in line), errors)
    return first.strip("= ")[:90]


def _liveness(entry: str) -> str:
    done = _inside("liveness", entry)
    if "NO SUCH OPTION" in done.stdout:
        return "not in this torch"
    return _last(done.stderr) if "dead tensor" in done.stderr else _NO


def _memory_debug(entry: str) -> str:
    done = _inside("memory-debug", entry)
    if "NOT INSTALLED" in done.stdout:
        return "not installed"
    left = next((line for line in done.stdout.splitlines() if line.startswith("LEFT ")), "")
    if left:
        return left[5:]
    return _NO if not done.returncode else f"process ended: {_last(done.stderr)}"


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


def _plain(path: Path) -> None:
    import torch

    sys.path.insert(0, str(path.parent))
    load(path).observe(_PlainProbe(torch))
    torch.cuda.synchronize()


def _with_liveness(path: Path) -> None:
    import torch

    if "check_input_liveness" not in inspect.signature(torch.cuda.graph.__init__).parameters:
        print("NO SUCH OPTION")
        return
    original = torch.cuda.graph

    def graph(*arguments: Any, **options: Any) -> Any:
        return original(*arguments, **{"check_input_liveness": True, **options})

    torch.cuda.graph = graph
    _plain(path)


def _with_memory_debug(path: Path) -> None:
    try:
        MemoryProbe = import_module("torch_cudagraph_debug.memory_debug").MemoryProbe  # noqa: N806 - a class
    except ImportError:
        print("NOT INSTALLED")
        return
    import gc

    import torch

    torch.cuda.init()
    probe = MemoryProbe(name="case")
    probe.snapshot()
    _plain(path)
    gc.collect()
    after = probe.snapshot()
    for key, stats in after.pool_stats.items():
        reserved = getattr(stats, "reserved_bytes", 0)
        if tuple(key.pool_id) != (0, 0) and reserved:
            print(f"LEFT private pool {tuple(key.pool_id)} reserves {reserved} bytes", flush=True)
            return


# ------------------------------------------------------------------------------------------------------- pointers


def measured(what: str) -> dict[str, Any]:
    """What a process of its own measures: `pointers` is the only such measurement."""
    with tempfile.NamedTemporaryFile(prefix="graphlint-", suffix=".json") as file:
        done = _inside(what, file.name)
        try:
            answer: dict[str, Any] = json.loads(Path(file.name).read_text(encoding="utf-8"))
        except ValueError:
            return {"all": False, "error": _last(done.stderr), "stderr": done.stderr[-3000:]}
        return answer


def _pointers(path: Path) -> None:
    """Hand tensors to kernels of every kind, and ask for each of them."""
    import torch

    events: list[Mapping[str, Any]] = []
    watch = Watch(torch, _addresses, events.append, str(Path(__file__).parent))
    watch.install()
    found = dict(_kinds(torch, watch))
    told: dict[str, Any] = {"found": found, "milliseconds": _cost(torch, watch), "identity": _identity(torch, watch)}
    told["all"] = all(isinstance(seen, str) or seen for seen in found.values()) and all(told["identity"].values())
    path.write_text(json.dumps(told), encoding="utf-8")


def _captured(torch: Any, step: Callable[[], object]) -> Any:
    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    graph.result = result
    return graph


def _kinds(torch: Any, watch: Watch) -> Iterator[tuple[str, bool | str]]:
    """For each kind of node and each tensor handed to it whether a read of the graph finds that tensor."""
    device = torch.device("cuda:0")
    wide = {"device": device, "dtype": torch.bfloat16}
    a, b = torch.randn(256, 1024, **wide), torch.randn(1024, 512, **wide)
    q, k, v = (torch.randn(2, 8, 256, 64, **wide) for _ in range(3))
    x, y, out = (torch.randn(1 << 20, device=device) for _ in range(3))
    target, cleared = torch.empty(1 << 20, device=device), torch.ones(1 << 20, device=device)
    index = torch.arange(1 << 20, device=device)
    normal, weight = torch.randn(64, 1024, device=device), torch.ones(1024, device=device)
    attend = torch.nn.functional.scaled_dot_product_attention
    steps: dict[str, tuple[Callable[[], object], dict[str, Any]]] = {
        "elementwise": (lambda: torch.add(x, y, out=out), {"x": x, "y": y, "out": out}),
        "strided elementwise": (lambda: torch.add(x[::2], y[1::2], out=out[: 1 << 19]), {"x": x, "y": y, "out": out}),
        "reduction": (x.sum, {"x": x}),
        "gather": (lambda: torch.gather(x, 0, index), {"x": x, "index": index}),
        "layer norm": (
            lambda: torch.nn.functional.layer_norm(normal, (1024,), weight),
            {"input": normal, "weight": weight},
        ),
        "cuBLAS matmul": (lambda: a @ b, {"a": a, "b": b}),
        "attention": (lambda: attend(q, k, v), {"q": q, "k": k, "v": v}),
        "memcpy node": (lambda: target.copy_(x), {"source": x, "target": target}),
        "memset node": (cleared.zero_, {"cleared": cleared}),
    }
    for name, (step, tensors) in steps.items():
        seen = _seen(watch, _captured(torch, step))
        for label, tensor in tensors.items():
            yield f"{name}: {label}", tensor.data_ptr() in seen
    try:
        step, tensors = _triton(x, y, out)
        seen = _seen(watch, _captured(torch, step))
    except Exception as error:  # noqa: BLE001 - a machine without a C compiler cannot build Triton's launcher
        yield "Triton kernel", f"not measured: {type(error).__name__}: {error}"[:200]
        return
    for label, tensor in tensors.items():
        yield f"Triton kernel: {label}", tensor.data_ptr() in seen


def _seen(watch: Watch, graph: Any) -> frozenset[int]:
    return frozenset(block.start for block in touched(watch.blocks(), _addresses(graph)))


def _addresses(graph: Any) -> frozenset[int]:
    from graphlint.validation import pointers

    return pointers.addresses(graph.raw_cuda_graph())


def _triton(x: Any, y: Any, out: Any) -> tuple[Callable[[], object], dict[str, Any]]:
    import importlib.util

    source = (
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def add(x, y, out, size, BLOCK: tl.constexpr):\n"
        "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    tl.store(out + at, tl.load(x + at, at < size) + tl.load(y + at, at < size), at < size)\n"
    )
    path = Path(tempfile.mkdtemp(prefix="graphlint-")) / "add.py"
    path.write_text(source, encoding="utf-8")  # Triton reads a kernel's source from its file
    spec = importlib.util.spec_from_file_location("add", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    size = x.numel()
    return lambda: module.add[(size // 1024,)](x, y, out, size, BLOCK=1024), {"x": x, "y": y, "out": out}


def _cost(torch: Any, watch: Watch) -> dict[str, Any]:
    """Milliseconds to read a graph of 600 kernels, and to audit it before a replay."""
    tensors = [torch.ones(4096, device="cuda") for _ in range(64)]

    def step() -> None:
        for number in range(KERNELS):
            tensors[number % 64].add_(tensors[(number * 7 + 1) % 64])

    graph = _captured(torch, step)
    read = _times(lambda: touched(watch.blocks(), _addresses(graph)))
    audit = _times(lambda: watch.stale(graph))
    keep = torch.ones(16, device="cuda")
    del keep  # a free since the capture: the audit has to ask the history
    history = _times(lambda: watch.stale(graph))
    return {"kernels": KERNELS, "read": read, "audit": audit, "audit with history": history}


def _times(run: Callable[[], object]) -> float:
    """Median of nine, in milliseconds."""
    measured = []
    for _ in range(9):
        begin = time.perf_counter()
        run()
        measured.append(1e3 * (time.perf_counter() - begin))
    return round(statistics.median(measured), 2)


def _identity(torch: Any, watch: Watch) -> dict[str, bool]:
    """Whether the audit tells a block from another tensor at the same address, in both directions."""
    size = 8 << 20
    earlier = torch.ones(size, device="cuda")
    address = earlier.data_ptr()
    del earlier
    x = torch.ones(size, device="cuda")
    out = torch.empty(size, device="cuda")
    graph = _captured(torch, lambda: torch.add(x, 1, out=out))
    before = watch.stale(graph)
    reused_before = x.data_ptr() == address
    torch.ones(1, device="cuda")
    unrelated = watch.stale(graph)
    old = x.data_ptr()
    x = _drop(torch, size)
    taker = torch.zeros(size, device="cuda")
    reused_after = taker.data_ptr() == old
    after = watch.stale(graph)
    return {
        "a block that was reused before the capture is no finding": reused_before and not before,
        "frees of other blocks are no finding": not unrelated,
        "a block that another tensor has now is one": reused_after and [each.address for each in after] == [old],
        "the function that freed it is named": bool(
            after and after[0].freed and after[0].freed[0].function == "_identity"
        ),
    }


def _drop(torch: Any, size: int) -> Any:
    return torch.zeros(2 * size, device="cuda")


_INSIDE: Mapping[str, Callable[[Path], None]] = {
    "plain": _plain,
    "liveness": _with_liveness,
    "memory-debug": _with_memory_debug,
    "pointers": _pointers,
}


def _markdown(told: Mapping[str, Any]) -> Iterator[str]:
    device, pointers = told["device"], told["pointers"]
    yield "# What finds these hazards"
    yield ""
    yield f"Measured on {device['name']}, driver {device['driver']}, torch {device['torch']}"
    yield "by `python -m graphlint.validation.campaign`."
    yield ""
    yield "## The bad version of each fixture, default allocator"
    yield ""
    yield "*Compared*: results against eager, as a test would. *-*: ran to its end and reported nothing."
    yield ""
    yield "| fixture | compared | compute-sanitizer memcheck | `check_input_liveness` | torch-cudagraph-debug |"
    yield "| --- | --- | --- | --- | --- |"
    for row in told["tools"]:
        cells = (row[key].replace("|", "\\|") for key in ("compare", "sanitizer", "liveness", "memory-debug"))
        yield f"| {row['case']} | " + " | ".join(cells) + " |"
    yield ""
    yield "`graphlint validate` reports each of them: see [README.md](README.md)."
    yield ""
    yield "## Pointers read back from graphs"
    yield ""
    yield "| handed to | found |"
    yield "| --- | --- |"
    for name, seen in pointers.get("found", {}).items():
        yield f"| {name} | {seen if isinstance(seen, str) else 'yes' if seen else 'NO'} |"
    for name, holds in pointers.get("identity", {}).items():
        yield f"| {name} | {'yes' if holds else 'NO'} |"
    cost = pointers.get("milliseconds", {})
    yield ""
    yield f"A graph of {cost.get('kernels')} kernels takes {cost.get('read')} ms to read when its capture ends, and"
    yield f"{cost.get('audit')} ms to audit before a replay; {cost.get('audit with history')} ms where something was"
    yield "freed since its capture, so that the allocator's history has to be asked."


def _last(text: str) -> str:
    return next((line.strip()[:120] for line in reversed(text.splitlines()) if line.strip()), "nothing said")


if __name__ == "__main__":
    sys.exit(main())
