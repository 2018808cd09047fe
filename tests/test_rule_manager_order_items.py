"""Objects that each take what is theirs out of a table, one item or one after the other until none is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
from typing import Optional

import torch

_rooms = {{}}


class Runner:
    def __init__(self, name, net):
        self.name = name
        _rooms[name] = torch.zeros(4, device="cuda")
        self.steps = []
        for _ in range(2):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                net(_rooms[name])
            self.steps.append((4, graph))

    def end(self):
        {end}

    def end_steps(self):
        while self.steps:
            self.steps.pop()[1].reset()


class Server:
    def __init__(self, net):
        self.main: Optional[Runner] = Runner("main", net)
        self.spare: Optional[Runner] = Runner("spare", net)

    def close(self):
        self.spare.end()
        self.main.end()
"""


def reported(tmp_path: Path, end: str, text: str = PROGRAM) -> list[str]:
    text = text.replace("{end}", end.replace("\n", "\n        ")).replace("{{}}", "{}").lstrip("\n")
    (tmp_path / "m.py").write_text(text)
    findings = check.check([str(tmp_path)], Settings(), registry.select(("manager-order",))).findings
    return [text.encode()[slice(*each.span)].decode() for each in findings]


@pytest.mark.parametrize("take", ["_rooms.pop(self.name)", "del _rooms[self.name]", "_rooms.pop(self.name, None)"])
def test_each_takes_its_own_item(tmp_path: Path, take: str) -> None:
    assert reported(tmp_path, f"self.end_steps()\n{take}") == []
    assert reported(tmp_path, f"{take}\nself.end_steps()") == ["self.end_steps()"]


@pytest.mark.parametrize("clear", ["_rooms.clear()", "while _rooms:\n    _rooms.popitem()"])
def test_one_takes_the_items_of_all(tmp_path: Path, clear: str) -> None:
    assert reported(tmp_path, f"self.end_steps()\n{clear}") == ["self.main.end()"]


def test_a_loop_that_ends_when_none_is_left_leaves_none(tmp_path: Path) -> None:
    dropped = PROGRAM.replace("self.main.end()", "self.main.end()\n        self.main = None")
    own = dropped.replace("_rooms = {{}}", "").replace("_rooms", "self.rooms")
    own = own.replace("self.name = name", "self.name = name\n        self.rooms = {{}}")
    assert reported(tmp_path, "self.end_steps()\nself.rooms.clear()", own) == []


CALLED = """
import torch


class Worker:
    def __init__(self, width):
        self.cache = torch.zeros(width, device="cuda")
        self.graphs, self.running, self.level = {{}}, False, width

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.out = self.cache * n
        self.graphs[n] = graph
        self.running = True

    def stop(self):
        if {asked}:
            self.running = False
            for graph in self.graphs.values():
                graph.reset()
            self.graphs.clear()

    def free(self):
        self.cache = None


class Executor:
    def __init__(self, workers, level):
        self.workers = [Worker(n) for n in range(workers)]
        self.level = level

    def close(self):
        for worker in self.workers:
            {first}
        for worker in self.workers:
            {second}
        self.workers = []
"""


@pytest.mark.parametrize(
    ("asked", "first", "second", "expected"),
    [
        ("self.running", "worker.stop()", "worker.free()", 0),
        ("self.graphs", "worker.stop()", "worker.free()", 0),
        ("self.running", "worker.free()", "worker.stop()", 1),
        ("self.running", "worker.free()", "pass", 1),
    ],
)
def test_what_an_idle_worker_drops_read_nothing(
    tmp_path: Path, asked: str, first: str, second: str, expected: int
) -> None:
    (tmp_path / "m.py").write_text(CALLED.format(asked=asked, first=first, second=second))
    found = check.check([str(tmp_path)], Settings(), registry.select(("manager-order",))).findings
    assert len(found) == expected
