"""Watches the graphs of one process: what each holds, whether it is still there, and who freed it.

`torch.cuda.CUDAGraph` is replaced by a subclass that keeps its graph, so that the code under test runs unchanged and
every graph can be read. When a capture ends, the blocks that the graph's addresses fall into are noted. Before each
replay, and before a reset, each of them must still be the allocation that it was:

* before a replay all but those of the graph's own pool, where the transients of the capture are free on purpose;
* before a reset those of its own pool too: what a graph reads goes after the graph.

Blocks that nobody held when the capture ended do not count: they are transients, or words that look like addresses.

That a block is allocated is not enough, since another tensor can have it by now; the allocator's history, which records
the Python stack of every call that frees, tells the two apart and names the line.
"""
# ruff: noqa: SLF001 - torch's own tools read the allocator's history by these names too

from __future__ import annotations

import inspect
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Pool = tuple[int, int]
Read = Callable[[Any], frozenset[int]]
"""The device addresses that a graph holds."""

EAGER: Pool = (0, 0)
"""The pool of everything that is allocated outside of captures."""

_HELD = "active_allocated"
_HISTORY = 1_000_000
"""Allocator events to keep; a case makes some hundreds."""


@dataclass(frozen=True)
class Block:
    """A piece of device memory as the allocator knows it."""

    start: int
    size: int
    held: bool
    pool: Pool


@dataclass(frozen=True)
class Frame:
    """A line of Python."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Stale:
    """A block that a graph reads or writes and that is not what it was."""

    address: int
    size: int
    pool: Pool
    state: str
    """`free`, `reused` by another tensor, or `unmapped`: given back to the driver."""
    freed: tuple[Frame, ...]
    """Stack of the call that freed it, innermost first; empty where the history does not know."""


@dataclass
class _Held:
    """What a graph held when its capture ended."""

    pool: Pool
    blocks: tuple[Block, ...]
    since: int
    """Microseconds since the epoch."""
    freed: int
    """Frees that the process had made by then."""


class Watch:
    """Installs itself in torch, and reports events to `emit` as dictionaries that JSON can hold."""

    def __init__(self, torch: Any, read: Read, emit: Callable[[Mapping[str, object]], None], home: str) -> None:
        """Watch a torch.

        Args:
            torch: the module.
            read: reads a graph.
            emit: takes one event.
            home: folder of the code under test; of a stack only its frames are told.
        """
        self._torch = torch
        self._read = read
        self._emit = emit
        self._home = home
        self._held: dict[int, _Held] = {}
        self._erased = False
        self._brief = (
            {"include_traces": False}
            if "include_traces" in inspect.signature(torch.cuda.memory_snapshot).parameters
            else {}
        )

    def install(self) -> None:
        """Replace `torch.cuda.CUDAGraph` and `torch.cuda.empty_cache`, and start the allocator's history."""
        torch = self._torch
        torch.cuda.memory._record_memory_history(context="all", stacks="python", max_entries=_HISTORY)
        torch.cuda.CUDAGraph = torch.cuda.graphs.CUDAGraph = watched_graph(torch.cuda.CUDAGraph, self)
        torch.cuda.empty_cache = self._watched_erase(torch.cuda.empty_cache)

    # ------------------------------------------------------------------------------------------------- what is told

    def captured(self, graph: Any) -> None:
        """Note what a graph holds; called when its capture ended."""
        if self._erased:
            return
        blocks = self.blocks()
        found = touched(blocks, self._read(graph))
        held = _Held(tuple(graph.pool()), found, time.time_ns() // 1000, self._frees())
        self._held[id(graph)] = held
        self._emit({"event": "captured", "graph": id(graph), "pool": held.pool, "blocks": len(held.blocks)})
        self.sample("capture", blocks)

    def before_replay(self, graph: Any) -> None:
        """Audit a graph that is about to run."""
        self._audit(graph, "replay")

    def before_reset(self, graph: Any) -> None:
        """Audit a graph that is about to go."""
        self._audit(graph, "reset")
        self._held.pop(id(graph), None)

    def sample(self, moment: str, blocks: Iterable[Block] | None = None) -> None:
        """Tell the bytes that each pool holds."""
        if self._erased:
            return
        bytes_of: dict[str, int] = {}
        for block in self.blocks() if blocks is None else blocks:
            name = f"{block.pool[0]}.{block.pool[1]}"
            bytes_of[name] = bytes_of.get(name, 0) + block.size
        self._emit({"event": "sample", "moment": moment, "pools": bytes_of})

    def reserved(self, pool: Pool) -> int:
        """Bytes of device memory that a pool keeps from everybody else; 0 if there is no such pool."""
        return sum(segment["total_size"] for segment in self._torch.cuda.memory_snapshot(tuple(pool), **self._brief))

    # ------------------------------------------------------------------------------------------------------ audits

    def stale(self, graph: Any, moment: str = "replay") -> tuple[Stale, ...]:
        """Blocks of a graph that are not what they were when it was captured."""
        held = self._held.get(id(graph))
        if held is None:
            return ()
        now = {block.start: block for block in self.blocks()}
        relevant = [block for block in held.blocks if block.held and (moment == "reset" or block.pool != held.pool)]
        states = {block: _state(now, block) for block in relevant}
        if self._frees() == held.freed:
            history: list[Mapping[str, Any]] = []
        else:
            history = self._history(held.since)
        frees = _frees(history, {block.start for block in relevant})
        return tuple(
            Stale(block.start, block.size, block.pool, state or "reused", self._frames(frees.get(block.start)))
            for block, state in states.items()
            if state or block.start in frees
        )

    def _audit(self, graph: Any, moment: str) -> None:
        held = self._held.get(id(graph))
        if held is None or self._erased:
            return
        begin = time.perf_counter()
        stale = self.stale(graph, moment)
        seconds = time.perf_counter() - begin
        self._emit(
            {
                "event": "audit",
                "moment": moment,
                "graph": id(graph),
                "blocks": len(held.blocks),
                "seconds": round(seconds, 6),
                "stale": [
                    {
                        "address": hex(each.address),
                        "size": each.size,
                        "pool": each.pool,
                        "state": each.state,
                        "freed": [[frame.file, frame.line, frame.function] for frame in each.freed],
                    }
                    for each in stale
                ],
            }
        )

    def _watched_erase(self, erase: Callable[[], None]) -> Callable[[], None]:
        def empty_cache() -> None:
            if self._erased or self._torch.cuda.is_current_stream_capturing():
                erase()
                return
            live: dict[Pool, int] = {}
            for block in self.blocks():
                if block.held and block.pool != EAGER:
                    live[block.pool] = live.get(block.pool, 0) + block.size
            erase()
            for pool, size in live.items():
                if not self.reserved(pool):
                    # From here on the allocator reads freed memory whenever it touches those blocks: look no more.
                    self._erased = True
                    self._emit({"event": "erased", "pool": pool, "size": size})
            self.sample("empty_cache")

        return empty_cache

    def blocks(self) -> list[Block]:
        """Everything that the allocator has now."""
        found = []
        for segment in self._torch.cuda.memory_snapshot(**self._brief):
            start, pool = segment["address"], tuple(segment["segment_pool_id"])
            for block in segment["blocks"]:
                found.append(Block(start, block["size"], block["state"] == _HELD, pool))
                start += block["size"]
        return found

    def _frees(self) -> int:
        return (
            int(self._torch.cuda.memory_stats().get("allocation.all.freed", 0))
            if self._one_device()
            else -time.time_ns()
        )

    def _one_device(self) -> bool:
        """Whether the counters of the current device are those of all; else each look at them differs from the last."""
        return int(self._torch.cuda.device_count()) == 1

    def _history(self, since: int) -> list[Mapping[str, Any]]:
        traces = self._torch.cuda.memory._snapshot()["device_traces"]
        return [event for trace in traces for event in trace if event.get("time_us", 0) >= since]

    def _frames(self, event: Mapping[str, Any] | None) -> tuple[Frame, ...]:
        frames = event.get("frames", ()) if event else ()
        return tuple(
            Frame(frame["filename"][len(self._home) :].lstrip("/"), frame["line"], frame["name"])
            for frame in frames
            if frame["filename"].startswith(self._home)
        )


def touched(blocks: Iterable[Block], addresses: Iterable[int]) -> tuple[Block, ...]:
    """The blocks that addresses fall into, by address."""
    ordered = sorted(blocks, key=lambda block: block.start)
    starts = [block.start for block in ordered]
    found = set()
    for address in addresses:
        index = bisect_right(starts, address) - 1
        if index >= 0 and address < starts[index] + ordered[index].size:
            found.add(index)
    return tuple(ordered[index] for index in sorted(found))


def _state(now: Mapping[int, Block], block: Block) -> str:
    """What became of a block, as far as the allocator's present state tells: empty if it looks the same."""
    current = now.get(block.start)
    if current is None:
        # merged with a free neighbour, or gone
        around = touched(now.values(), (block.start,))
        return "unmapped" if not around else "reused" if around[0].held else "free"
    return "" if current.held else "free"


def _frees(history: Iterable[Mapping[str, Any]], starts: Iterable[int]) -> dict[int, Mapping[str, Any]]:
    """For each block the event that freed it first; a request comes before its completion and knows the caller."""
    wanted = frozenset(starts)
    found: dict[int, Mapping[str, Any]] = {}
    for event in history:
        if event["action"].startswith("free") and event["addr"] in wanted:
            found.setdefault(event["addr"], event)
    return found


def watched_graph(base: type, watch: Watch) -> type:
    """A `torch.cuda.CUDAGraph` that keeps its graph and tells a watch what happens to it."""

    class CUDAGraph(base):  # type: ignore[misc]
        def __new__(cls, keep_graph: bool = False) -> CUDAGraph:  # noqa: ARG004, FBT002, PYI034 - as torch's
            return super().__new__(cls, keep_graph=True)  # type: ignore[no-any-return]

        def __init__(self, keep_graph: bool = False) -> None:  # noqa: ARG002, FBT002 - as torch's
            super().__init__(keep_graph=True)

        def capture_end(self) -> None:
            super().capture_end()
            watch.captured(self)

        def replay(self) -> None:
            watch.before_replay(self)
            super().replay()

        def reset(self) -> None:
            watch.before_reset(self)
            super().reset()

    return CUDAGraph
