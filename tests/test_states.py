"""What a path knows of an object's state that is a member of an enumeration, or a string."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
import enum

import torch


class State(enum.Enum):
    SERVING = "serving"
    ASLEEP = "asleep"
    DOWN = "down"


class Worker:
    def __init__(self, net):
        self.net = net
        self.graphs = {{}}
        self.state = {serving}

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net(n)
        self.graphs[n] = graph

    def release(self):
        for graph in self.graphs.values():
            graph.reset()

    def sleep(self):
        if self.state is {serving}:
            self.release()
            self.state = {after}

    def shutdown(self):
        {shutdown}

    def drain(self):
        self.sleep()
        self.shutdown()
"""
AWAKE = "if self.state is {0}:\n            self.release()\n        self.state = {1}"
EARLY = "if self.state in ({1}, {2}):\n            return\n        self.release()"
MATCH = "match self.state:\n            case {1} | {2}:\n                pass\n            case _:\n                self.release()"
LATE = "if self.state in ({0}, {1}):\n            self.release()"
ALWAYS = "match self.state:\n            case {2}:\n                pass\n            case _:\n                self.release()"
ENUM = ("State.SERVING", "State.ASLEEP", "State.DOWN")
TEXT = ('"serving"', '"asleep"', '"down"')


@pytest.mark.parametrize("names", [ENUM, TEXT])
@pytest.mark.parametrize(
    ("shutdown", "after", "is_reported"),
    [
        (AWAKE, 1, False),
        (EARLY, 1, False),
        (EARLY, 0, True),
        (MATCH, 1, False),
        (MATCH, 2, False),
        (LATE, 1, True),
        (LATE, 2, False),
        (ALWAYS, 1, True),
        (ALWAYS, 2, False),
    ],
)
def test_a_state_says_what_has_been_released(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, ...],
    shutdown: str,
    after: int,
    is_reported: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PROGRAM.format(serving=names[0], after=names[after], shutdown=shutdown.format(*names))
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("duplicate-release",))).findings
    assert bool(findings) is is_reported


def test_members_of_two_enumerations_do_not_exclude_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = "class Mode(enum.Enum):\n    AWAKE = 1\n\n\nclass Worker"
    text = PROGRAM.format(
        serving="State.SERVING", after="State.ASLEEP", shutdown="if self.state is Mode.AWAKE: self.release()"
    )
    Path("m.py").write_text(text.replace("class Worker", other))
    assert check.check(["."], Settings(), registry.select(("duplicate-release",))).findings
