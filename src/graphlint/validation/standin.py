"""A torch without a GPU: it runs the fixtures, and leaves a trace of effects.

It is a model, small enough to read, of the parts of torch that decide about graphs and their memory:

* an **allocator** with pools: a block belongs to the pool of the capture that asked for it, a freed block goes to the
  next request of its size, a pool of dead graphs can be neither captured into nor erased while a block in it is held;
* **memory** that has contents: operations read and write addresses, whoever owns them by now, and a replay repeats the
  operations of its capture on the addresses of its capture. So a graph whose scratch was freed overwrites whatever lies
  there now, here as on a GPU, and a write to memory that was given back is an illegal access;
* **values** as runs `a + b * i` over the elements of a tensor, which is all that fixtures need and makes a tensor of a
  gigabyte as cheap as one of a byte.

Not modelled: expandable segments, splitting of blocks, streams that overlap in time, cuBLAS.

`run` loads a fixture with this torch in the place of the real one, under the same watch and with the same probe as on a
GPU, and returns what they saw beside the trace.
"""
# ruff: noqa: FBT002, SLF001 - torch's names, with torch's meanings and signatures; one model in many classes

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, cast

from graphlint.effects import Effect
from graphlint.validation.cases import Files
from graphlint.validation.child import RAISED, load, observe
from graphlint.validation.verdict import Ended
from graphlint.validation.watch import EAGER, Pool

DEVICES = 2
_LINE = 512
"""Bytes that sizes are rounded up to."""

Runs = tuple[tuple[int, float, float], ...]
"""Contents: lengths, each with the first value and the step from one element to the next."""

_UNKNOWN = math.nan
"""What uninitialised memory holds; equal to nothing, itself included."""


@dataclass(frozen=True)
class Traced:
    """One effect that happened."""

    effect: Effect
    pool: Pool | None
    """The pool it is about; None for all of them."""
    subject: int
    """The graph or the block, by number; 0 where it is about neither."""
    owner: int
    """The object whose method made it happen, by number; 0 for a plain function."""
    file: str
    line: int


@dataclass(frozen=True)
class Release:
    """A call of a function that resets graphs, whether or not any was left for it to reset."""

    before: int
    """Index of the effect that it comes before."""
    owner: int


@dataclass(frozen=True)
class Trace:
    """What one run left."""

    ended: Ended
    effects: tuple[Traced, ...]
    releases: tuple[Release, ...]


def run(files: Files, entry: str) -> Trace:
    """Run `observe` of a fixture's modules.

    Args:
        files: the modules.
        entry: the one that defines `observe`.
    """
    events: list[Mapping[str, Any]] = []
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="graphlint-") as place:
        for name, content in files.items():
            path = Path(place) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        home = Path(place).resolve()
        machine = Machine(str(home))
        torch = machine.torch()
        with _installed(torch, home):
            error = observe(torch, machine.read, home, entry, events.append, machine.import_)
        effects, releases = machine.finish()
    return Trace(Ended(RAISED if error else 0, time.monotonic() - begin, tuple(events)), effects, releases)


@contextlib.contextmanager
def _installed(torch: ModuleType, home: Path) -> Iterator[None]:
    """Put a torch, and what is imported from a folder, in the place of modules of the same names, for a while."""
    before = dict(sys.modules)
    path, flag = list(sys.path), sys.dont_write_bytecode
    for name in [name for name in sys.modules if name.split(".")[0] == "torch" or (home / f"{name}.py").exists()]:
        del sys.modules[name]
    sys.modules["torch"] = torch
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, flag
        sys.modules.clear()
        sys.modules.update(before)


# ---------------------------------------------------------------------------------------------------------- allocator


@dataclass(eq=False)
class Slot:
    """Device memory at one address; `number` is another for each tensor that was given it."""

    address: int
    size: int
    pool: Pool
    device: int
    number: int
    held: bool = True
    itemsize: int = 1
    runs: Runs = ()


@dataclass
class PoolState:
    """A private pool."""

    users: int = 1
    """Graphs that were captured into it and not reset."""


class AcceleratorError(RuntimeError):
    """As torch's: CUDA reported an error."""


class Machine:
    """One process with its devices: allocator, streams, captures, and the trace."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._numbers = itertools.count(1)
        self._addresses = itertools.count(1)
        self._pools: dict[Pool, PoolState] = {}
        self._slots: dict[int, Slot] = {}
        self._capture: Graph | None = None
        self._graphs: weakref.WeakSet[Graph] = weakref.WeakSet()
        self._history: list[dict[str, Any]] = []
        self._freed = 0
        self._trace: list[Traced] = []
        self._calls: list[tuple[int, FunctionType, int]] = []
        self._running: list[tuple[FunctionType, int]] = []
        self._killers: set[FunctionType] = set()
        self._open = True
        self._owners: dict[int, tuple[int, weakref.ref[object]]] = {}
        self.device = 0
        self.handles = itertools.count(1)
        self.streams = itertools.count(1)
        self.stream = SimpleNamespace(cuda_stream=0)

    # ---- blocks

    def allocate(self, size: int, device: int) -> Slot:
        """A block for a tensor: of the capture's pool while capturing, a freed one of the same size if there is one."""
        size = max(_LINE, -(-size // _LINE) * _LINE)
        pool = self._capture.pool_id if self._capture is not None else EAGER
        number = next(self._numbers)
        free = [
            slot
            for slot in self._slots.values()
            if not slot.held and (slot.size, slot.pool, slot.device) == (size, pool, device)
        ]
        if free:
            slot = free[-1]
            slot.held, slot.number = True, number
        else:
            slot = Slot((next(self._addresses) << 36) + (1 << 40), size, pool, device, number)
        self._slots.pop(slot.address, None)
        self._slots[slot.address] = slot  # the block that was freed last is taken first
        self.tell(Effect.WS_ALLOC, pool, number)
        return slot

    def free(self, slot: Slot) -> None:
        """Give a block back to its pool."""
        if not self._open:
            return
        slot.held = False
        self._slots.pop(slot.address, None)
        self._slots[slot.address] = slot
        self._freed += 1
        frames = [
            {"filename": frame.f_code.co_filename, "line": frame.f_lineno, "name": frame.f_code.co_name}
            for frame in self._frames()
        ]
        event = {"action": "free_requested", "addr": slot.address, "size": slot.size, "frames": frames}
        self._history.append({**event, "time_us": time.time_ns() // 1000})
        self.tell(Effect.WS_RELEASE, slot.pool, slot.number)
        if slot.pool == EAGER:
            for graph in self._graphs:
                if slot.address in self.read(graph):
                    self.tell(Effect.KV_RELEASE, graph.pool_id, graph.number)

    def empty_cache(self) -> None:
        """Give free memory back to the driver: what nobody holds, of no pool that a graph uses."""
        self.tell(Effect.ERASE, None)
        for slot in list(self._slots.values()):
            state = self._pools.get(slot.pool)
            if not slot.held and (state is None or not state.users):
                del self._slots[slot.address]
        for pool, state in list(self._pools.items()):
            if not state.users and not any(slot.pool == pool for slot in self._slots.values()):
                del self._pools[pool]

    # ---- captures

    def begin(self, graph: Graph, pool: Pool | None) -> None:
        """Open a pool for a graph, and send all that follows to the graph."""
        if self._capture is not None:
            raise AcceleratorError("CUDA error: operation not permitted when stream is capturing")
        graph.pool_id = pool if pool is not None else (next(self.handles), 0)
        state = self._pools.get(graph.pool_id)
        self.tell(Effect.CAPTURE, graph.pool_id, graph.number)
        if state is None:
            self._pools[graph.pool_id] = PoolState()
        elif not state.users:
            raise RuntimeError("it->second->use_count > 0 INTERNAL ASSERT FAILED, please report a bug to PyTorch.")
        else:
            state.users += 1
        self._capture = graph

    def end(self, graph: Graph) -> None:
        """End the capture."""
        self._capture = None
        self._graphs.add(graph)
        self.tell(Effect.CAPTURE_END, graph.pool_id, graph.number)

    def kill(self, graph: Graph) -> None:
        """A graph gives its pool up."""
        if self._running:
            self._killers.add(self._running[-1][0])
        self._graphs.discard(graph)
        self._pools[graph.pool_id].users -= 1
        self.tell(Effect.GRAPH_DEATH, graph.pool_id, graph.number)

    @property
    def capturing(self) -> bool:
        """Whether a capture is under way."""
        return self._capture is not None

    def launch(self, operation: Operation) -> None:
        """Run an operation now, or put it into the graph that is being captured."""
        if self._capture is not None:
            self._capture.operations.append(operation)
        else:
            self.execute(operation)

    def execute(self, operation: Operation) -> None:
        """Read the operands' addresses, write the result's."""
        values = [self.load(ref) for ref in operation.reads]
        self.store(operation.writes, operation.compute(*values))

    def load(self, ref: Ref) -> Runs:
        """What lies at an address."""
        slot = self._slot(ref)
        if not slot.runs or slot.itemsize != ref.itemsize:
            return ((ref.count, _UNKNOWN, 0.0),)
        return _piece(slot.runs, ref.start, ref.count)

    def store(self, ref: Ref, runs: Runs) -> None:
        """Write to an address, whoever has it."""
        slot = self._slot(ref)
        total = slot.size // ref.itemsize
        before = slot.runs if slot.runs and slot.itemsize == ref.itemsize else ((total, _UNKNOWN, 0.0),)
        end = ref.start + ref.count
        slot.itemsize = ref.itemsize
        slot.runs = (*_piece(before, 0, ref.start), *runs, *_piece(before, end, total - end))

    def _slot(self, ref: Ref) -> Slot:
        slot = self._slots.get(ref.address)
        if slot is None:
            raise AcceleratorError("CUDA error: an illegal memory access was encountered")
        return slot

    # ---- what others see

    def snapshot(self, pool: Pool | None = None, *, include_traces: bool = True) -> list[dict[str, Any]]:
        """As `torch.cuda.memory_snapshot`: each block is a segment of its own."""
        del include_traces
        return [
            {
                "address": slot.address,
                "total_size": slot.size,
                "segment_pool_id": slot.pool,
                "blocks": [{"size": slot.size, "state": "active_allocated" if slot.held else "inactive"}],
            }
            for slot in self._slots.values()
            if pool is None or slot.pool == tuple(pool)
        ]

    def history(self) -> dict[str, Any]:
        """As `torch.cuda.memory._snapshot`."""
        return {"device_traces": [self._history]}

    def stats(self) -> dict[str, int]:
        """As `torch.cuda.memory_stats`."""
        return {"allocation.all.freed": self._freed}

    def allocated(self) -> int:
        """Bytes that tensors hold."""
        return sum(slot.size for slot in self._slots.values() if slot.held)

    def read(self, graph: Any) -> frozenset[int]:
        """The addresses that a graph holds."""
        return frozenset(ref.address for operation in graph.operations for ref in (*operation.reads, operation.writes))

    # ---- the trace

    def tell(self, effect: Effect, pool: Pool | None, subject: int = 0) -> None:
        """Put an effect into the trace, with the line of the fixture that is running."""
        if not self._open:
            return
        frame = next(self._frames(), None)
        file, line = (frame.f_code.co_filename[len(self._home) + 1 :], frame.f_lineno) if frame else ("", 0)
        owner = self._running[-1][1] if self._running else 0
        self._trace.append(Traced(effect, pool, subject, owner, file, line))

    def finish(self) -> tuple[tuple[Traced, ...], tuple[Release, ...]]:
        """Close the trace: what dies from here on, dies with the process."""
        self._open = False
        releases = (Release(index, owner) for index, function, owner in self._calls if function in self._killers)
        return tuple(self._trace), tuple(releases)

    def import_(self, path: Path) -> Any:
        """The module in a file, its classes' methods and those of what it imports wrapped to note their calls.

        A profiler would note them too, and would keep the locals of every frame alive while it does.
        """
        module = load(path)
        for name, loaded in list(sys.modules.items()):
            if str(getattr(loaded, "__file__", None)).startswith(self._home):
                for found in list(vars(loaded).values()):
                    if isinstance(found, type) and found.__module__ == name:
                        self._note(found)
        return module

    def _note(self, found: type) -> None:
        for name, member in list(vars(found).items()):
            if isinstance(member, FunctionType):
                setattr(found, name, self._noted(member))
            elif isinstance(member, classmethod):
                setattr(found, name, classmethod(self._noted(cast("FunctionType", member.__func__))))

    def _noted(self, function: FunctionType) -> Callable[..., Any]:
        @functools.wraps(function)
        def noted(owner: object, *arguments: Any, **options: Any) -> Any:
            number = self._number(owner)
            self._calls.append((len(self._trace), function, number))
            self._running.append((function, number))
            try:
                return function(owner, *arguments, **options)
            finally:
                self._running.pop()

        return noted

    def _number(self, owner: object) -> int:
        known = self._owners.get(id(owner))
        if known is None or known[1]() is not owner:  # an address is used again, a number is not
            known = self._owners[id(owner)] = (next(self._numbers), weakref.ref(owner))
        return known[0]

    def _frames(self) -> Iterator[FrameType]:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename.startswith(self._home):
                yield frame
            frame = frame.f_back

    # ---- the module

    def torch(self) -> ModuleType:
        """The module to import as torch."""
        return _torch(self)


# ------------------------------------------------------------------------------------------------------- operations


@dataclass(frozen=True)
class Ref:
    """Elements of a block."""

    address: int
    start: int
    count: int
    itemsize: int


@dataclass(frozen=True)
class Operation:
    """Computes contents from contents."""

    writes: Ref
    reads: tuple[Ref, ...]
    compute: Callable[..., Runs]


def _piece(runs: Runs, start: int, count: int) -> Runs:
    """Elements `start` to `start + count` of contents."""
    found, at = [], 0
    for length, first, step in runs:
        low, high = max(start, at), min(start + count, at + length)
        if low < high:
            found.append((high - low, first + step * (low - at) if step else first, step))
        at += length
    return tuple(found)


def _together(left: Runs, right: Runs) -> Iterator[tuple[int, float, float, float, float]]:
    """Two contents of one length, cut where either of them is: length, and first value and step of both."""
    cuts = sorted({*itertools.accumulate(run[0] for run in left), *itertools.accumulate(run[0] for run in right)})
    at = 0
    for cut in cuts:
        (_, a, b), (_, c, d) = _piece(left, at, cut - at)[0], _piece(right, at, cut - at)[0]
        yield cut - at, a, b, c, d
        at = cut


def _add(left: Runs, right: Runs) -> Runs:
    return tuple((count, a + c, b + d) for count, a, b, c, d in _together(left, right))


def _sub(left: Runs, right: Runs) -> Runs:
    return tuple((count, a - c, b - d) for count, a, b, c, d in _together(left, right))


def _mul(left: Runs, right: Runs) -> Runs:
    found = []
    for count, a, b, c, d in _together(left, right):
        if b and d:
            raise NotImplementedError("the stand-in cannot multiply two tensors that both vary")
        found.append((count, a * c, b * c + d * a))
    return tuple(found)


def _equal(left: Runs, right: Runs) -> Iterator[tuple[int, bool]]:
    for count, a, b, c, d in _together(left, right):
        yield count, a == c and (b == d or count == 1)


# ------------------------------------------------------------------------------------------------- torch's own words


class DType:
    """A type of elements."""

    def __init__(self, name: str, itemsize: int) -> None:
        self.name, self.itemsize = name, itemsize

    def __repr__(self) -> str:
        return f"torch.{self.name}"


_TYPES = {
    name: DType(name, size)
    for name, size in (("float32", 4), ("bfloat16", 2), ("int32", 4), ("int64", 8), ("uint8", 1))
}


class Size(tuple[int, ...]):
    """A shape."""

    __slots__ = ()


@dataclass(frozen=True)
class Device:
    """A device, such as `cuda:0`."""

    type: str
    index: int

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"


class Storage:
    """Owns a block for as long as a tensor uses it."""

    def __init__(self, machine: Machine, size: int, device: int) -> None:
        self.machine = machine
        self.slot = machine.allocate(size, device)

    def __del__(self) -> None:
        self.machine.free(self.slot)


class Tensor:
    """A view of contiguous elements of a storage."""

    __hash__ = object.__hash__

    def __init__(
        self,
        machine: Machine,
        shape: Sequence[int],
        dtype: DType,
        device: int,
        storage: Storage | None = None,
        start: int = 0,
    ) -> None:
        self._machine = machine
        self.shape = Size(shape)
        self.dtype = dtype
        self._device = device
        self._storage = storage or Storage(machine, math.prod(shape) * dtype.itemsize, device)
        self._start = start

    @property
    def device(self) -> Device:
        return Device("cuda", self._device)

    @property
    def nbytes(self) -> int:
        return self.numel() * self.dtype.itemsize

    def numel(self) -> int:
        return math.prod(self.shape)

    def data_ptr(self) -> int:
        return self._storage.slot.address + self._start * self.dtype.itemsize

    def ref(self) -> Ref:
        return Ref(self._storage.slot.address, self._start, self.numel(), self.dtype.itemsize)

    def view(self, *shape: int | Sequence[int]) -> Tensor:
        flat = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return Tensor(self._machine, tuple(flat), self.dtype, self._device, self._storage, self._start)  # type: ignore[arg-type]

    def flatten(self) -> Tensor:
        return self.view(self.numel())

    def __getitem__(self, index: int | slice) -> Tensor:
        row = math.prod(self.shape[1:])
        if isinstance(index, slice):
            low, high, step = index.indices(self.shape[0])
            assert step == 1, "the stand-in knows contiguous views only"
            shape: tuple[int, ...] = (max(high - low, 0), *self.shape[1:])
        else:
            low, shape = index % self.shape[0], self.shape[1:]
        return Tensor(self._machine, shape, self.dtype, self._device, self._storage, self._start + low * row)

    def resize_(self, *shape: int) -> Tensor:
        """Grow: another block, as torch does; what was in the old one comes along."""
        if math.prod(shape) * self.dtype.itemsize > self._storage.slot.size:
            before = self.ref()
            moved = Tensor(self._machine, shape, self.dtype, self._device)
            into = Ref(moved._storage.slot.address, 0, before.count, before.itemsize)
            self._machine.launch(Operation(into, (before,), lambda runs: runs))
            self._machine.free(self._storage.slot)
            self._storage.slot, moved._storage.slot = moved._storage.slot, self._storage.slot
            moved._storage.machine = _Nobody()  # type: ignore[assignment]
        self.shape = Size(shape)
        return self

    def _write(self, compute: Callable[..., Runs], *operands: Tensor) -> Tensor:
        for operand in operands:
            if operand._device != self._device:
                devices = f"{self.device} and {operand.device}"
                raise RuntimeError(f"Expected all tensors to be on the same device, but found two devices, {devices}!")
        self._machine.launch(Operation(self.ref(), tuple(operand.ref() for operand in operands), compute))
        return self

    def _fresh(self) -> Tensor:
        return Tensor(self._machine, self.shape, self.dtype, self._device)

    def fill_(self, value: float) -> Tensor:
        self._machine.tell(Effect.STATIC_WRITE, self._storage.slot.pool, self._storage.slot.number)
        count = self.numel()
        return self._write(lambda: ((count, float(value), 0.0),))

    def zero_(self) -> Tensor:
        return self.fill_(0)

    def copy_(self, source: Tensor) -> Tensor:
        self._machine.tell(Effect.STATIC_WRITE, self._storage.slot.pool, self._storage.slot.number)
        return self._write(lambda runs: runs, source)

    def clone(self) -> Tensor:
        return self._fresh()._write(lambda runs: runs, self)

    def new_empty(self, *shape: Any) -> Tensor:
        flat = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return Tensor(self._machine, tuple(flat), self.dtype, self._device)

    def repeat(self, times: int) -> Tensor:
        result = Tensor(self._machine, (self.numel() * times,), self.dtype, self._device)
        return result._write(lambda runs: runs * times, self)

    def __add__(self, other: Tensor | float) -> Tensor:
        return _binary(_add, self, other)

    def __sub__(self, other: Tensor | float) -> Tensor:
        return _binary(_sub, self, other)

    def __mul__(self, other: Tensor | float) -> Tensor:
        return _binary(_mul, self, other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> Any:
        return Mask(self, other, negated=False) if isinstance(other, (int, float)) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return Mask(self, other, negated=True) if isinstance(other, (int, float)) else NotImplemented

    def tolist(self) -> list[float]:
        return [first + step * index for count, first, step in self._machine.load(self.ref()) for index in range(count)]


class _Nobody:
    """The machine of a storage whose block was taken over."""

    def free(self, slot: Slot) -> None:
        """Leave it."""


class Mask:
    """Which elements of a tensor have a value."""

    def __init__(self, tensor: Tensor, value: float, *, negated: bool) -> None:
        runs = tensor._machine.load(tensor.ref())
        value_runs: Runs = ((tensor.numel(), float(value), 0.0),)
        self._parts = [(count, same is not negated) for count, same in _equal(runs, value_runs)]

    def all(self) -> bool:
        return all(part for _, part in self._parts)

    def sum(self) -> int:
        return sum(count for count, part in self._parts if part)


def _binary(
    compute: Callable[[Runs, Runs], Runs], left: Tensor, right: Tensor | float, out: Tensor | None = None
) -> Tensor:
    if isinstance(right, Tensor):
        assert left.shape == right.shape, f"the stand-in does not broadcast {left.shape} and {right.shape}"
        return (out or left._fresh())._write(compute, left, right)
    constant: Runs = ((left.numel(), float(right), 0.0),)
    return (out or left._fresh())._write(lambda runs: compute(runs, constant), left)


class Graph:
    """`torch.cuda.CUDAGraph`."""

    machine: Machine

    def __new__(cls, keep_graph: bool = False) -> Graph:  # noqa: PYI034 - `Self` is of Python 3.11
        del keep_graph
        return super().__new__(cls)

    def __init__(self, keep_graph: bool = False) -> None:
        del keep_graph
        self.operations: list[Operation] = []
        self.pool_id: Pool = EAGER
        self.number = next(self.machine._numbers)
        self._captured = False

    def capture_begin(self, pool: Pool | None = None, capture_error_mode: str = "global") -> None:
        del capture_error_mode
        if self._captured:
            raise RuntimeError("This CUDAGraph instance already owns a captured graph.")
        self.machine.begin(self, pool)

    def capture_end(self) -> None:
        self.machine.end(self)
        self._captured = True

    def pool(self) -> Pool:
        if not self._captured:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self.pool_id

    def replay(self) -> None:
        if not self._captured:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self.machine.tell(Effect.REPLAY, self.pool_id, self.number)
        for operation in self.operations:
            self.machine.execute(operation)

    def reset(self) -> None:
        if self._captured:
            self._captured = False
            self.machine.kill(self)

    def __del__(self) -> None:
        Graph.reset(self)


def _torch(machine: Machine) -> ModuleType:
    torch, cuda = ModuleType("torch"), ModuleType("torch.cuda")
    graph_class = type("CUDAGraph", (Graph,), {"machine": machine})

    def number_of(device: Device | str | None) -> int:
        if isinstance(device, Device):
            return device.index
        _, _, index = (device or "cuda").partition(":")
        return int(index) if index else machine.device

    def empty(*shape: Any, dtype: DType = _TYPES["float32"], device: Device | str | None = None) -> Tensor:
        flat = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return Tensor(machine, tuple(flat), dtype, number_of(device))

    def full(shape: Iterable[int], value: float, **options: Any) -> Tensor:
        return _filled(empty(tuple(shape), **options), value)

    def arange(start: float, end: float, **options: Any) -> Tensor:
        count = math.ceil(end - start)
        return empty(count, **options)._write(lambda: ((count, float(start), 1.0),))

    def like(tensor: Tensor) -> Tensor:
        return tensor._fresh()

    def equal(left: Tensor, right: Tensor) -> bool:
        return left.shape == right.shape and all(
            same for _, same in _equal(machine.load(left.ref()), machine.load(right.ref()))
        )

    def binary(compute: Callable[[Runs, Runs], Runs]) -> Callable[..., Tensor]:
        return lambda left, right, out=None: _binary(compute, left, right, out)

    for name, value in {
        "Tensor": Tensor,
        "Size": Size,
        "AcceleratorError": AcceleratorError,
        "device": lambda text: Device("cuda", number_of(text)),
        "empty": empty,
        "zeros": lambda *shape, **options: _filled(empty(*shape, **options), 0),
        "ones": lambda *shape, **options: _filled(empty(*shape, **options), 1),
        "full": full,
        "arange": arange,
        "empty_like": like,
        "zeros_like": lambda tensor: _filled(like(tensor), 0),
        "full_like": lambda tensor, value: _filled(like(tensor), value),
        "add": binary(_add),
        "sub": binary(_sub),
        "mul": binary(_mul),
        "equal": equal,
        "cuda": cuda,
        **_TYPES,
    }.items():
        setattr(torch, name, value)

    def capturing() -> bool:
        machine.tell(Effect.IS_CAPTURING, None)
        return machine.capturing

    def handle() -> Pool:
        minted = (0, next(machine.handles))
        machine.tell(Effect.POOL_MINT, minted)
        return minted

    def synchronize(device: object = None) -> None:
        del device
        if machine.capturing:
            raise AcceleratorError("CUDA error: operation not permitted when stream is capturing")
        machine.tell(Effect.SYNC, None)

    @contextlib.contextmanager
    def on(stream: Any) -> Iterator[None]:
        before, machine.stream = machine.stream, stream
        try:
            yield
        finally:
            machine.stream = before

    @contextlib.contextmanager
    def at(device: Device | str) -> Iterator[None]:
        before, machine.device = machine.device, number_of(device)
        try:
            yield
        finally:
            machine.device = before

    capture_stream = SimpleNamespace(cuda_stream=next(machine.streams))

    @contextlib.contextmanager
    def graph(captured: Graph, pool: Pool | None = None, stream: Any = None) -> Iterator[None]:
        cuda.empty_cache()
        with on(stream or capture_stream):
            captured.capture_begin(pool)
            try:
                yield
            finally:
                captured.capture_end()

    for name, value in {
        "CUDAGraph": graph_class,
        "graph": graph,
        "graphs": SimpleNamespace(CUDAGraph=graph_class),
        "graph_pool_handle": handle,
        "is_current_stream_capturing": capturing,
        "empty_cache": machine.empty_cache,
        "synchronize": synchronize,
        "Stream": lambda *_: SimpleNamespace(cuda_stream=next(machine.streams)),
        "current_stream": lambda: machine.stream,
        "stream": on,
        "device": at,
        "current_device": lambda: machine.device,
        "device_count": lambda: 1,
        "is_available": lambda: True,
        "init": lambda: None,
        "memory_allocated": machine.allocated,
        "memory_snapshot": machine.snapshot,
        "memory_stats": machine.stats,
        "memory": SimpleNamespace(_record_memory_history=lambda **_: None, _snapshot=machine.history),
    }.items():
        setattr(cuda, name, value)
    return torch


def _filled(tensor: Tensor, value: float) -> Tensor:
    count = tensor.numel()
    return tensor._write(lambda: ((count, float(value), 0.0),))
