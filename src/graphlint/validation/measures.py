# ruff: noqa: S603 - it starts itself
"""Measures the audit of pointers: that it misses none, tells reuse from life, and what it costs.

    python -m graphlint.validation.measures FILE

It hands tensors to kernels of every kind that an engine launches, asks the audit for each of them, times the audit of a
graph of 600 kernels, and writes what it found to a file as JSON.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from graphlint.validation import runner
from graphlint.validation.cases import Setting
from graphlint.validation.watch import Watch, touched

KERNELS = 600
LIMIT = 240.0
"""Seconds for all of it; Triton compiles a kernel."""


def measured() -> dict[str, Any]:
    """What a process of its own measures.

    `found` says for each tensor that was handed to a kernel whether the audit finds it, `identity` whether it tells one
    tensor from another at the same address, `milliseconds` what it takes; `all` whether nothing was missed.
    """
    with tempfile.NamedTemporaryFile(prefix="graphlint-", suffix=".json") as file:
        done = subprocess.run(
            [sys.executable, "-m", "graphlint.validation.measures", file.name],
            env=runner.environment(Setting.DEFAULT),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        try:
            answer: dict[str, Any] = json.loads(Path(file.name).read_text(encoding="utf-8"))
        except ValueError:
            return {"all": False, "error": done.stderr[-3000:]}
        return answer


def main(path: Path) -> None:
    """Measure, and write it to a file."""
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
