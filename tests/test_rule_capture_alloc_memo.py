"""Memory that a decorator keeps: a capture that comes after an eager run finds it there."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
import functools

import torch


class Mixer:
    @functools.cached_property
    def space(self) -> torch.Tensor:
        return torch.empty(4, device="cuda")


@functools.cache
def table(n: int, index: int) -> torch.Tensor:
    return torch.arange(n, device=torch.device("cuda", index)).float() * 2


def step(mixer: Mixer, x):
    return x * {read}


def record(mixer: Mixer, x):
    {first}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = step(mixer, x)
    return graph, x, y
"""


@pytest.mark.parametrize(
    ("read", "kept"),
    [
        ("table(x.shape[0], x.device.index)", 'torch.arange(n, device=torch.device("cuda", index)).float() * 2'),
        ("mixer.space", 'torch.empty(4, device="cuda")'),
    ],
)
@pytest.mark.parametrize("first", ["step(mixer, x)", "pass"])
def test_what_a_decorator_keeps(
    read: str, kept: str, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PROGRAM.format(read=read, first=first).lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("capture-alloc",))).findings
    found = [text.encode()[slice(*each.span)].decode() for each in findings]
    assert len(found) == (first == "pass")
    assert all(kept in each or each in kept for each in found)


WARM = """
import torch


class Layer:
    def __init__(self, name):
        self.name = name
        self.scales = {{}}

    def __call__(self, x):
        key = {key}
        if key not in self.scales:
            self.scales[key] = torch.empty(8, device="cuda")
        return x * self.scales[key]


class Runner:
    def __init__(self, layers: list[Layer], sizes):
        self.layers = layers
        self.static = {{n: torch.zeros(n, device="cuda") for n in sizes}}
        self.graphs = {{}}
        {warm}
        for n in sizes:
            {each}
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.forward(self.static[n])
            self.graphs[n] = graph

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
LARGEST, EVERY = "self.forward(self.static[max(sizes)])", "for n in sizes:\n            self.forward(self.static[n])"


@pytest.mark.parametrize(
    ("key", "warm", "each", "is_reported"),
    [
        ("x.shape[0]", LARGEST, "pass", True),
        ("x.shape[0]", EVERY, "pass", False),
        ("x.shape[0]", "pass", "self.forward(self.static[n])", False),
        ("x.shape[0]", "pass", "pass", True),
        ("self.name", LARGEST, "pass", False),
        ("(x.device, x.dtype)", LARGEST, "pass", False),
        ("x.shape[1]", LARGEST, "pass", False),
    ],
)
def test_a_warm_up_with_one_size(
    key: str, warm: str, each: str, is_reported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(WARM.format(key=key, warm=warm, each=each))
    assert bool(check.check(["."], Settings(), registry.select(("capture-alloc",))).findings) is is_reported


REGISTERED = """
import torch
from torch import nn


class Layer(nn.Module):
    def forward(self, x):
        if not hasattr(self, "mask"):
            {guard}
            self.register_buffer("mask", torch.ones(8, device="cuda"))
        return x * self.mask


class Runner:
    def __init__(self, layer: Layer, x):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = layer(x)
"""


@pytest.mark.parametrize(
    ("guard", "is_reported"), [("pass", True), ("assert not torch.cuda.is_current_stream_capturing()", False)]
)
def test_a_buffer_that_a_module_registers_where_it_has_none(
    guard: str, is_reported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(REGISTERED.format(guard=guard))
    assert bool(check.check(["."], Settings(), registry.select(("capture-alloc",))).findings) is is_reported
