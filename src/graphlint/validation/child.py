"""One process of the suite: runs one variant of one case, and writes down what it saw, line by line.

    python -m graphlint.validation.child FOLDER ENTRY EVENTS
    python -m graphlint.validation.child --device

A process that CUDA or the allocator has hurt is of no more use, so each variant has its own, and every event is on disk
before the next thing happens: a crash loses nothing of what led to it. The exit status is 0 if `observe` returned, 3
if it raised (the error is among the events), 4 if the suite itself failed; anything else is the hazard's own doing.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from graphlint.validation.probe import Probe, is_device_error
from graphlint.validation.watch import Read, Watch

RAISED, FAILED = 3, 4
"""Exit statuses: the fixture raised, the suite failed."""

Emit = Callable[[Mapping[str, object]], None]


def main(arguments: list[str]) -> None:
    """Run a variant, or describe the device."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if arguments == ["--device"]:
        sys.stdout.write(json.dumps(device()))
        return
    folder, entry, events = arguments
    with open(events, "ab", buffering=0) as stream:

        def emit(event: Mapping[str, object]) -> None:
            stream.write(json.dumps(event).encode() + b"\n")

        faulthandler.enable()
        run(Path(folder), entry, emit)


def run(folder: Path, entry: str, emit: Emit) -> None:
    """Run `observe` of a module on the device, and leave as the outcome demands."""
    begin = time.perf_counter()
    try:
        import torch

        from graphlint.validation import pointers

        imported = time.perf_counter()
        torch.cuda.init()
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent has to hear of it
        _give_up(emit, error)

    ready = time.perf_counter()
    emit({"event": "ready", "import": round(imported - begin, 2), "context": round(ready - imported, 2)})

    def read(graph: Any) -> frozenset[int]:
        return pointers.addresses(graph.raw_cuda_graph())

    try:
        raised = observe(torch, read, folder.resolve(), entry, emit)
    except Exception as error:  # noqa: BLE001 - as above
        _give_up(emit, error)
    if raised is not None:
        # what the exit would do to a process in this state is of no interest
        traceback.print_exception(raised)
        sys.stderr.flush()
        os._exit(RAISED)


def load(path: Path) -> Any:
    """The module in a file, imported under the file's own name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def observe(
    torch: Any, read: Read, home: Path, entry: str, emit: Emit, import_: Callable[[Path], Any] = load
) -> Exception | None:
    """Run `observe` of a module, watched; returns what the code under test raised, if it did.

    Args:
        torch: the real one, or the stand-in.
        read: the device addresses that a graph holds.
        home: the folder of the code under test.
        entry: its module that defines `observe`.
        emit: takes the events.
        import_: imports the module.
    """
    watch = Watch(torch, read, emit, str(home))
    watch.install()
    probe = Probe(torch, watch, emit)
    sys.path.insert(0, str(home))
    sys.dont_write_bytecode = True
    emit({"event": "start"})
    try:
        import_(home / entry).observe(probe)
        torch.cuda.synchronize()
        probe.look("end")
        torch.cuda.synchronize()
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(str(home))]
        if not frames and not is_device_error(error):  # a late error of CUDA surfaces where the suite waits for it
            raise
        emit(
            {
                "event": "error",
                "type": type(error).__name__,
                "text": str(error),
                "device": is_device_error(error),
                "frames": [[frame.filename[len(str(home)) + 1 :], frame.lineno, frame.name] for frame in frames],
            }
        )
        return error
    emit({"event": "end"})
    return None


def device() -> dict[str, object]:
    """Name, driver, number and free memory of the GPUs that torch sees; `error` says why there is none."""
    try:
        import torch
    except ImportError:
        return {"error": "torch is not installed"}
    try:
        from cuda.bindings import driver
    except ImportError:
        return {"error": "cuda-bindings is not installed", "torch": torch.__version__}
    if not torch.cuda.is_available():
        return {"error": "torch sees no CUDA device", "torch": torch.__version__}
    free, total = torch.cuda.mem_get_info()
    return {
        "name": torch.cuda.get_device_name(),
        "devices": torch.cuda.device_count(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "driver": _driver_version(driver),
        "python": sys.version.split()[0],
        "free": free,
        "total": total,
    }


def _driver_version(driver: Any) -> str:
    """The kernel driver's version where the system tells, else the CUDA version that it supports."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0].split()
        return next(word for word in words if word[:1].isdigit() and "." in word)
    except (OSError, IndexError, StopIteration):
        return f"CUDA {driver.cuDriverGetVersion()[1]}"


def _give_up(emit: Emit, error: BaseException) -> NoReturn:
    emit({"event": "failed", "text": f"{type(error).__name__}: {error}"})
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(FAILED)


if __name__ == "__main__":
    main(sys.argv[1:])
