"""Teardown code as engines write it, generated: what a safe rewrite of it must leave as it is can be measured by running it.

A program is a server of four runners over one cache, and a method that takes some of them down. The method is put together from
what such methods hold: releases of what is kept under attributes, keys and indices, objects that change places, waits, locks,
counts of users, branches, early returns, `try` and loops, and calls of code that is not in the file.
"""

from __future__ import annotations

import random
import textwrap
import types
from collections.abc import Callable
from typing import Any
from unittest import mock

PROGRAM = """
import threading

import torch
import torch.distributed as dist


class Cache:
    def __init__(self, rows):
        self.blocks = torch.empty(rows, device="cuda")

    def free(self):
        self.blocks = None


class Shared:
    held = {}
    users = 0
    lock = threading.RLock()

    @classmethod
    def get(cls, rows):
        if rows not in cls.held:
            cls.held[rows] = torch.empty(rows, device="cuda")
        return cls.held[rows]

    @classmethod
    def drop(cls):
        cls.held.clear()


class Steps:
    def __init__(self, cache):
        self.cache = cache
        self.graphs = {}
        self.outs = {}
        Shared.users += 1

    def record(self, rows):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = torch.add(self.cache.blocks, Shared.get(rows))
        self.graphs[rows] = graph
        self.outs[rows] = out

    def reset(self):
        for graph in self.graphs.values():
            graph.reset()

    def release(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        self.outs.clear()

    def close(self, flag, call):
{close}

class Server:
    def __init__(self):
        self.cache = Cache(8)
        self.main = Steps(self.cache)
        self.draft = Steps(self.cache)
        self.active = self.main
        self.by_name: dict[str, Steps] = {"a": self.main, "b": self.draft}
        self.in_order: list[Steps] = [self.main, self.draft]
        for each in self.in_order:
            each.record(1)
            each.record(2)

    def stop(self, flag, name, index, call):
"""

_RUNNERS = ("self.main", "self.draft", "self.active", 'self.by_name["a"]', "self.by_name[name]", "self.in_order[index]")
_LINES = (
    "{one}.release()",
    "{one}.release()",
    "{one}.reset()",
    "{one}.reset()",
    "{one}.outs.clear()",
    "{one}.outs.clear()",
    "{one}.graphs.clear()",
    "torch.cuda.empty_cache()",
    "torch.cuda.empty_cache()",
    "torch.cuda.synchronize()",
    "self.cache.free()",
    "self.cache.free()",
    "Shared.drop()",
    "call()",
    "dist.barrier()",
    "dist.destroy_process_group()",
    "{one}.record(1)",
    "last = {one}.outs",
    "call(len({one}.outs))",
    "{one}.close(flag, call)",
    "self.active = {one}",
    "{one}, {other} = {other}, {one}",
    "Shared.users -= 1",
)
_OWN_LINES = (
    "self.reset()",
    "self.reset()",
    "self.release()",
    "for graph in self.graphs.values():\n    graph.reset()",
    "self.graphs.clear()",
    "self.outs.clear()",
    "self.outs.clear()",
    "self.outs = {{}}",
    "torch.cuda.empty_cache()",
    "torch.cuda.empty_cache()",
    "torch.cuda.synchronize()",
    "self.record(1)",
    "last = self.outs",
    "call(len(self.outs))",
    "call()",
    "self.cache.free()",
)
_OWN_BLOCKS = ("if flag:", "if self.graphs:", "with Shared.lock:", "for _ in range(2):", "try:")
_BLOCKS = (
    "if flag:",
    "if {one}.graphs:",
    "if Shared.users == 0:",
    "with Shared.lock:",
    "for each in self.in_order:",
    "for each in self.by_name.values():",
    "for each in self.in_order[1:]:",
    "for _ in range(2):",
    "try:",
)


def program(rng: random.Random) -> str:
    """One program; the methods are `Steps.close` and `Server.stop`."""
    close = _indented(_block(rng, rng.randint(3, 6), 0, _OWN_LINES, _OWN_BLOCKS, ()))
    stop = _indented(_block(rng, rng.randint(3, 6), 0, _LINES, _BLOCKS, _RUNNERS))
    whole = PROGRAM.lstrip().replace("{close}", close) + stop
    return whole if rng.random() < 0.5 else whole.replace("Shared.get(rows))", "rows)")


def _indented(lines: list[str]) -> str:
    return textwrap.indent("\n".join(lines), " " * 8) + "\n"


def _block(
    rng: random.Random,
    size: int,
    depth: int,
    choices: tuple[str, ...],
    headers: tuple[str, ...],
    runners: tuple[str, ...],
) -> list[str]:
    found: list[str] = []
    for _ in range(size):
        values = {"one": rng.choice(runners), "other": rng.choice(runners)} if runners else {}
        kind = rng.random()
        if kind < 0.3 and depth < 2:
            header = rng.choice(headers).format(**values)
            known = (*runners, *["each"] * 4) if " each " in header else runners
            inner = _block(rng, rng.randint(1, 3), depth + 1, choices, headers, known)
            if header == "for _ in range(2):":
                inner.append("call()")
            found += [header, *(textwrap.indent(line, "    ") for line in inner)]
            if header == "try:":
                last = _block(rng, rng.randint(1, 2), depth + 1, choices, headers, runners)
                word = rng.choice(("finally:", "except RuntimeError:"))
                found += [word, *(textwrap.indent(line, "    ") for line in last)]
        elif kind < 0.34 and depth:
            found.append("return")
            break
        else:
            found.append(rng.choice(choices).format(**values))
    return found


def run(text: str, flag: bool, name: str, index: int, again: bool) -> tuple[list[Any], dict[str, Any]]:
    """Run a program: what code outside of it saw, and what is left at its end.

    Args:
        text: of the program.
        flag: the method's first argument.
        name: its second.
        index: its third.
        again: whether code outside of it records a graph when it is called.
    """
    seen: list[Any] = []
    torch, dist, live = _torch()
    space: dict[str, Any] = {}
    with mock.patch.dict("sys.modules", {"torch": torch, "torch.distributed": dist}):
        exec(compile(text, "m.py", "exec"), space)
    server, shared = space["Server"](), space["Shared"]
    everyone = {"main": server.main, "draft": server.draft}

    def state() -> dict[str, Any]:
        return {
            "live": sorted(live),
            "replayable": sorted(
                graph.number for each in everyone.values() for graph in each.graphs.values() if graph.number in live
            ),
            "outs": {key: sorted(each.outs) for key, each in everyone.items()},
            "graphs": {key: sorted(each.graphs) for key, each in everyone.items()},
            "cache": server.cache.blocks is not None,
            "shared": sorted(shared.held),
            "users": shared.users,
            "group": dist.alive,
        }

    def call(*given: object) -> None:
        seen.append((given, state()))
        if again:
            server.draft.record(3)

    dist.barrier = lambda: seen.append(("barrier", dist.alive))
    for method, given in ((server.stop, (flag, name, index, call)), (server.main.close, (flag, call))):
        try:
            method(*given)
        except RuntimeError as error:
            seen.append(str(error))
    return seen, state()


def _torch() -> tuple[types.ModuleType, Any, set[int]]:
    torch, cuda = types.ModuleType("torch"), types.ModuleType("torch.cuda")
    dist: Any = types.ModuleType("torch.distributed")
    live: set[int] = set()

    class CUDAGraph:
        count = 0

        def __init__(self) -> None:
            CUDAGraph.count += 1
            self.number = CUDAGraph.count

        def reset(self) -> None:
            live.discard(self.number)

    class Capture:
        def __init__(self, graph: CUDAGraph, **_: object) -> None:
            self.graph = graph

        def __enter__(self) -> None:
            live.add(self.graph.number)

        def __exit__(self, *_: object) -> None:
            pass

    nothing: Callable[..., None] = lambda *_, **__: None  # noqa: E731 - one line a stand-in
    made: Callable[..., object] = lambda *_, **__: object()  # noqa: E731
    vars(cuda).update(CUDAGraph=CUDAGraph, graph=Capture, empty_cache=nothing, synchronize=nothing)
    dist.alive = True
    dist.destroy_process_group = lambda: setattr(dist, "alive", False)
    vars(torch).update(cuda=cuda, distributed=dist, empty=made, add=made)
    return torch, dist, live
