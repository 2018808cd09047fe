"""A torch that has what small programs ask for, and writes down what graphs and the allocator are asked to do."""

from __future__ import annotations

import contextlib
import itertools
import types
from typing import Any


class Tensor:
    """Memory that can be told from other memory."""

    device = "cuda:0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: self


def recording_torch(log: list[str]) -> types.ModuleType:
    """A module to put in the place of torch.

    What happens goes into `log`: `reset N` for the N-th graph, `erase`, `sync`. `cuda.capturing` says whether a stream is
    being captured, and may be set.
    """
    torch = types.ModuleType("torch")
    cuda = types.ModuleType("torch.cuda")
    graphs, handles = itertools.count(1), itertools.count(1)

    class CUDAGraph:
        def __init__(self) -> None:
            self.number = next(graphs)

        def reset(self) -> None:
            log.append(f"reset {self.number}")

        def pool(self) -> tuple[int, int]:
            return (1, self.number)

    members: dict[str, Any] = {
        "CUDAGraph": CUDAGraph,
        "graph": lambda *_, **__: contextlib.nullcontext(),
        "device": lambda *_, **__: contextlib.nullcontext(),
        "empty_cache": lambda: log.append("erase"),
        "synchronize": lambda *_: log.append("sync"),
        "graph_pool_handle": lambda: (0, next(handles)),
        "capturing": False,
        "is_current_stream_capturing": lambda: cuda.capturing,
    }
    vars(cuda).update(members)
    made: dict[str, Any] = {name: lambda *_, **__: Tensor() for name in ("empty", "zeros", "mul")}
    vars(torch).update(made, cuda=cuda, add=lambda *_, **__: None, uint8="uint8")
    return torch
