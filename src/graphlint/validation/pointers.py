"""Every device address that a captured graph holds, read back from its nodes.

A graph is a list of nodes with their arguments baked in. The arguments of a kernel node are bytes of known sizes; what
among them is an address is not known, so every aligned 8-byte word counts that falls into a block of torch's allocator:
plain pointers, pointers in structures that are passed by value, and the 64-byte descriptors of tensor copies alike.
Kernels of cuBLAS pass one packed buffer instead of an array of arguments; both forms are read. Memory copies and memory
sets name their addresses.

Not seen: addresses that lie in device memory themselves, such as tables of pointers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

WORD = 8
LOWEST = 1 << 32
"""No device address is below this; sizes, strides and scalars mostly are."""

_PARAM_END, _PARAM_POINTER, _PARAM_SIZE = 0, 1, 2
"""Tags of a packed argument buffer: `CU_LAUNCH_PARAM_END`, `_BUFFER_POINTER`, `_BUFFER_SIZE`."""


class PointerError(RuntimeError):
    """The driver refused to tell."""


def addresses(raw_graph: int) -> frozenset[int]:
    """Words of a graph's arguments that can be device addresses.

    Args:
        raw_graph: a `cudaGraph_t`, as `torch.cuda.CUDAGraph.raw_cuda_graph` gives it.

    Raises:
        PointerError: a call of the driver failed.
    """
    from cuda.bindings import driver

    return frozenset(word for word in _words(driver, driver.CUgraph(raw_graph)) if word >= LOWEST)


def _words(driver: Any, graph: Any) -> Iterator[int]:
    _, count = _check(driver.cuGraphGetNodes(graph, 0))
    nodes, count = _check(driver.cuGraphGetNodes(graph, count))
    kinds = driver.CUgraphNodeType
    for node in nodes[:count]:
        kind = _check(driver.cuGraphNodeGetType(node))
        if kind == kinds.CU_GRAPH_NODE_TYPE_KERNEL:
            for data in _arguments(driver, _check(driver.cuGraphKernelNodeGetParams(node))):
                yield from memoryview(data[: len(data) // WORD * WORD]).cast("Q")
        elif kind == kinds.CU_GRAPH_NODE_TYPE_MEMCPY:
            copy = _check(driver.cuGraphMemcpyNodeGetParams(node))
            yield from (int(copy.srcDevice), int(copy.dstDevice))
        elif kind == kinds.CU_GRAPH_NODE_TYPE_MEMSET:
            yield int(_check(driver.cuGraphMemsetNodeGetParams(node)).dst)
        elif kind == kinds.CU_GRAPH_NODE_TYPE_GRAPH:
            yield from _words(driver, _check(driver.cuGraphChildGraphNodeGetGraph(node)))


def _arguments(driver: Any, params: Any) -> Iterator[bytes]:
    """The bytes of each argument of a kernel node, or of all of them in one piece."""
    if int(params.kernelParams):
        argv = ctypes.cast(int(params.kernelParams), ctypes.POINTER(ctypes.c_void_p))
        for index in range(1 << 12):
            if int(params.kern):
                error, _, size = driver.cuKernelGetParamInfo(params.kern, index)
            else:
                error, _, size = driver.cuFuncGetParamInfo(params.func, index)
            if int(error):  # one past the last argument
                return
            yield ctypes.string_at(argv[index], size)
    elif params.extra:
        extra = ctypes.cast(int(params.extra), ctypes.POINTER(ctypes.c_void_p))
        buffer, size, index = None, 0, 0
        while extra[index]:
            if extra[index] == _PARAM_POINTER:
                buffer = extra[index + 1]
            elif extra[index] == _PARAM_SIZE:
                size = ctypes.cast(extra[index + 1], ctypes.POINTER(ctypes.c_size_t))[0]
            index += 2
        if buffer is not None:
            yield ctypes.string_at(buffer, size)


def _check(result: Any) -> Any:
    error, *values = result
    if int(error):
        raise PointerError(f"the driver answered {error.name}")
    return values[0] if len(values) == 1 else tuple(values)
