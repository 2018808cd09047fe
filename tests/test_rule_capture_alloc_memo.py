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
