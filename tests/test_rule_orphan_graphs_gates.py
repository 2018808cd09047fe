"""Releases that a teardown asks for too late, of what a wrapper hides, and of modules that nothing registered."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings


def reported(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    """What is reported, and whose graphs are left alive."""
    (tmp_path / "m.py").write_text(text.lstrip("\n"))
    findings = check.check([str(tmp_path)], Settings(), registry.select(("orphan-graphs",))).findings
    return [(text.lstrip("\n").encode()[slice(*each.span)].decode(), each.values["place"]) for each in findings]


PHASES = """
import enum

import torch


class Phase(enum.Enum):
    READY = 1
    ENDING = 2
    OVER = 3


class Steps:
    def __init__(self, net):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            net()

    def release(self):
        self.graph.reset()


class Stage:
    def __init__(self, net):
        self.steps = Steps(net)
        self.phase = Phase.READY
        self.closed = False

    def drain(self):
        DRAIN

    def end_steps(self):
        if self.phase is Phase.READY:
            self.steps.release()

    def shutdown(self):
        STOP
"""
FREE = "self.steps.release()"


@pytest.mark.parametrize(
    ("stop", "at"),
    [
        (
            f"self.phase = Phase.ENDING; self.drain()\n        if self.phase is Phase.READY: {FREE}",
            "self.phase is Phase.READY",
        ),
        (f"self.phase = Phase.ENDING\n        if self.phase == Phase.READY: {FREE}", "self.phase == Phase.READY"),
        (
            f"self.phase = Phase.ENDING\n        if self.phase != Phase.READY: return\n        {FREE}",
            "self.phase != Phase.READY",
        ),
        (f"self.closed = True\n        if not self.closed: {FREE}", "not self.closed"),
        (
            f"with open('lock'):\n            self.closed = True\n        if self.closed: return\n        {FREE}",
            "self.closed",
        ),
        ("self.phase = Phase.ENDING\n        self.end_steps()", "self.phase is Phase.READY"),
    ],
)
def test_a_test_of_what_was_changed_before(tmp_path: Path, stop: str, at: str) -> None:
    text = PHASES.replace("DRAIN", "pass").replace("STOP", stop)
    assert reported(tmp_path, text) == [(at, "self.steps")]


@pytest.mark.parametrize(
    ("stop", "drain"),
    [
        (f"if self.phase is Phase.READY: {FREE}\n        self.phase = Phase.ENDING", "pass"),
        (f"was, self.phase = self.phase, Phase.ENDING\n        if was is Phase.READY: {FREE}", "pass"),
        (f"phase = self.phase\n        self.phase = Phase.ENDING\n        if phase is Phase.READY: {FREE}", "pass"),
        (f"self.phase = Phase.READY\n        if self.phase is Phase.READY: {FREE}", "pass"),
        (
            f"self.phase = Phase.ENDING; self.drain()\n        if self.phase is Phase.READY: {FREE}",
            "self.phase = Phase.READY",
        ),
        (f"if self.drain(): self.phase = Phase.ENDING\n        if self.phase is Phase.READY: {FREE}", "pass"),
        (f"self.phase = Phase.ENDING\n        if self.phase is not Phase.OVER: {FREE}", "pass"),
        (f"if self.closed: return\n        self.closed = True\n        {FREE}", "pass"),
    ],
)
def test_a_test_that_can_be_true(tmp_path: Path, stop: str, drain: str) -> None:
    assert reported(tmp_path, PHASES.replace("DRAIN", drain).replace("STOP", stop)) == []


SERVING = """
import threading

import torch


class Steps:
    def __init__(self, net):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            net()

    def release(self):
        self.graph.reset()


class Base:
    def __init__(self):
        self.on = True
        self.pages = torch.zeros(8, device="cuda")

    def quiet(self):
        self.on = False
        self.pages = None

    def reopen(self):
        self.on = True


class Server(Base):
    def __init__(self, net):
        super().__init__()
        self.steps = Steps(net)
        self.state = "serving"
        self.going = threading.Event()
        self.clients = {{}}

    @property
    def is_on(self):
        return self.on

    def set_state(self, state):
        self.state = state

    def drain(self):
        torch.cuda.synchronize()
        {drain}

    async def later(self):
        self.on = False

    {kind}def shutdown(self):
        {before}
        if {test}:
            self.steps.release()
"""


@pytest.mark.parametrize(
    ("before", "test", "drain"),
    [
        ("self.drain()", "self.on", "self.on = False"),
        ("self.drain()", "self.is_on", "self.on = False"),
        ("self.drain()", "self.on", "self.quiet()"),
        ("self.drain()", "self.on", "with threading.Lock():\n            self.on = False"),
        ("super().quiet()", "self.on", "pass"),
        ("self.set_state('ending')", "self.state == 'serving'", "pass"),
        ("self.set_state(state='ending')", "self.state == 'serving'", "pass"),
        ("self.going.clear()", "self.going.is_set()", "pass"),
        ("self.drain()", "not self.going.is_set()", "self.going.set()"),
        ("self.clients.clear()", "self.clients", "pass"),
        ("await self.later()", "self.on", "pass"),
    ],
)
def test_another_method_has_changed_what_is_asked(tmp_path: Path, before: str, test: str, drain: str) -> None:
    text = SERVING.format(drain=drain, before=before, test=test, kind="async " if "await" in before else "")
    assert reported(tmp_path, text) == [(test, "self.steps")]


@pytest.mark.parametrize(
    ("before", "test", "drain"),
    [
        ("self.drain()\n        self.reopen()", "self.on", "self.on = False"),
        ("self.drain()", "not self.on", "self.on = False"),
        ("self.drain()", "self.on", "if self.clients:\n            self.on = False"),
        ("self.drain()", "self.on", "if not self.clients:\n            return\n        self.on = False"),
        ("self.drain()", "self.on", "try:\n            self.on = False\n        finally:\n            pass"),
        ("on = self.on\n        self.drain()", "on", "self.on = False"),
        ("self.set_state(self.state)", "self.state == 'serving'", "pass"),
        ("self.going.clear()", "self.going is not None", "pass"),
        ("self.going.clear()\n        self.going.set()", "self.going.is_set()", "pass"),
        ("self.clients.clear()", "self.clients is not None", "pass"),
        ("self.clients.clear()\n        self.clients.update(a=1)", "self.clients", "pass"),
    ],
)
def test_what_is_asked_may_be_so(tmp_path: Path, before: str, test: str, drain: str) -> None:
    text = SERVING.format(drain=drain, before=before, test=test, kind="")
    assert all(at != test for at, _ in reported(tmp_path, text))


def test_an_heir_may_do_something_else_in_the_method(tmp_path: Path) -> None:
    text = SERVING.format(drain="self.on = False", before="self.drain()", test="self.on", kind="")
    assert reported(tmp_path, text + "\n\nclass Other(Server):\n    def drain(self):\n        pass\n") == []


def test_a_private_method_is_on_the_way_and_a_public_one_a_teardown_of_its_own(tmp_path: Path) -> None:
    text = PHASES.replace("DRAIN", "pass").replace("STOP", "self.phase = Phase.ENDING\n        self.end_steps()")
    private, public = text.replace("end_steps", "_release"), text.replace("end_steps", "release_graphs")
    assert reported(tmp_path, private) == [("self.phase is Phase.READY", "self.steps")]
    assert reported(tmp_path, public) == []


WRAPPED = """
import torch


class Trunk:
    def __init__(self, net):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            net()

    def __call__(self, x):
        self.graph.replay()

    def release_graphs(self):
        self.graph.reset()


class Timed:
    def __init__(self, name, stage):
        self.name, self._stage = name, stage

    def __call__(self, x):
        return self._stage(x)
    FORWARD


class Pipeline:
    def __init__(self, net, head):
        self.stages: list[Timed] = [Timed("trunk", Trunk(net)), Timed("head", head)]

    def stop(self):
        for stage in self.stages:
            if hasattr(stage, "release_graphs"):
                stage.release_graphs()
        torch.cuda.empty_cache()
"""


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("", [('hasattr(stage, "release_graphs")', "stage")]),
        ("\n    def __getattr__(self, name):\n        return getattr(self._stage, name)", []),
        ("\n    def release_graphs(self):\n        self._stage.release_graphs()", []),
    ],
)
def test_a_wrapper_that_hides_the_release(tmp_path: Path, forward: str, expected: list[tuple[str, str]]) -> None:
    assert reported(tmp_path, WRAPPED.replace("FORWARD", forward)) == expected


MODULES = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def record(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.forward()
        self.graph = graph

    def release(self):
        if self.graph is not None:
            self.graph.reset()
        self.graph = None


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = Block()
        self.blocks = BLOCKS
        for block in BLOCKS_OF:
            block.record()


class Service:
    def __init__(self):
        self.tower = Tower()

    def close(self):
        for module in self.tower.modules():
            if isinstance(module, Block):
                module.release()
        MORE
        torch.cuda.empty_cache()
"""


@pytest.mark.parametrize(
    ("blocks", "more", "is_missed"),
    [
        ("[Block() for _ in range(4)]", "pass", True),
        ("(Block(), Block())", "pass", True),
        ("{i: Block() for i in range(4)}", "pass", True),
        ("nn.ModuleList([Block() for _ in range(4)])", "pass", False),
        ("nn.ModuleDict({'a': Block(), 'b': Block()})", "pass", False),
        ("[Block() for _ in range(4)]", "for each in self.tower.blocks: each.release()", False),
        ("[Block() for _ in range(4)]; self.layers = nn.ModuleList(self.blocks)", "pass", False),
        ("[Block() for _ in range(4)]; [self.add_module(str(i), m) for i, m in enumerate(self.blocks)]", "pass", False),
    ],
)
def test_modules_in_a_plain_container(tmp_path: Path, blocks: str, more: str, is_missed: bool) -> None:
    of = "self.blocks.values()" if blocks.startswith(("{", "nn.ModuleDict")) else "self.blocks"
    text = MODULES.replace("BLOCKS_OF", of).replace("BLOCKS", blocks).replace("MORE", more)
    expected = [("self.tower.modules", "self.tower.blocks")] if is_missed else []
    assert reported(tmp_path, text) == expected
