"""Regions of one memory that an object gives out, and takes back all at once while graphs of others read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

GROUND = """
import torch


class Ground:
    def __init__(self, n):
        self.soil = torch.empty(n, device="cuda")
        self.edge = self.plots = 0

    def plot(self, n):
        TAKE

    def level(self):
        LEVEL


class Plant:
    def __init__(self, ground: Ground, net, n):
        self.ground, self.net = ground, net
        self.bed = BED
        self.grow()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.fruit = self.grow()

    def grow(self):
        return self.net(self.bed)

    def pick(self):
        self.graph.replay()
        return self.fruit.clone()

    def die(self):
        self.graph.reset()
        self.graph = None
        DIE


class Garden:
    def __init__(self):
        self.ground = Ground(1 << 20)
        self.plants: dict[str, Plant] = {}

    def sow(self, name, net, n):
        self.plants[name] = Plant(OURS, net, n)

    def weed(self, name):
        self.plants.pop(name).die()
        WEED

    def winter(self):
        for plant in self.plants.values():
            plant.die()
        self.ground.level()
"""
SLICE = """start = self.edge
        self.edge += n
        return self.soil[start : start + n]"""
NARROW = """edge = self.edge + n
        if edge > self.soil.numel():
            raise MemoryError(n)
        bed = self.soil.narrow(0, self.edge, n).view(-1, 1)
        self.edge = edge
        return bed"""
FRESH = """self.edge += n
        return torch.empty(n, device="cuda")"""
START = "self.edge = 0"
COUNTED = """self.plots -= 1
        if self.plots == 0:
            self.edge = 0"""


def found(tmp_path: Path, **parts: str) -> list[str]:
    text = GROUND
    given = {
        "TAKE": SLICE,
        "LEVEL": START,
        "BED": "ground.plot(n)",
        "DIE": "pass",
        "WEED": "pass",
        "OURS": "self.ground",
        **parts,
    }
    for word, part in given.items():
        text = text.replace(word, part)
    path = tmp_path / "garden.py"
    path.write_text(text)
    report = check.check([str(path)], Settings(select=("shared-release",)), registry.rules())
    source = report.sources[str(path)]
    return [source.text(each.span) for each in report.findings if each.rule == "shared-release"]


@pytest.mark.parametrize("take", [SLICE, NARROW])
def test_one_that_ends_takes_back_what_all_were_given(tmp_path: Path, take: str) -> None:
    assert found(tmp_path, TAKE=take, DIE="self.ground.level()") == ["self.ground.level()"]
    assert found(tmp_path, TAKE=take, WEED="self.ground.level()") == ["self.ground.level()"]
    assert not found(tmp_path, TAKE=take)  # once all have ended


@pytest.mark.parametrize(
    "parts",
    [
        {"TAKE": FRESH},  # a count of bytes
        {"BED": 'torch.zeros(n, device="cuda")'},  # nothing of it is read by a graph
        {"OURS": "Ground(n)"},  # each has its own
        {"LEVEL": COUNTED},
        {"LEVEL": "self.edge = self.edge"},
    ],
)
def test_nothing_of_others_is_taken_back(tmp_path: Path, parts: dict[str, str]) -> None:
    assert not found(tmp_path, DIE="self.ground.level()", **parts)


def test_under_a_test_of_who_is_left(tmp_path: Path) -> None:
    assert not found(tmp_path, WEED="if not self.plants:\n            self.ground.level()")


def test_where_one_more_does_not_fit(tmp_path: Path) -> None:
    sow = """try:
            self.plants[name] = Plant(self.ground, net, n)
        except MemoryError:
            self.ground.level()
            raise"""
    text = GROUND.replace("self.plants[name] = Plant(OURS, net, n)", sow)
    assert "OURS" not in text
    path = tmp_path / "garden.py"
    for word, part in {"TAKE": NARROW, "LEVEL": START, "BED": "ground.plot(n)", "DIE": "pass", "WEED": "pass"}.items():
        text = text.replace(word, part)
    path.write_text(text)
    findings = check.check([str(path)], Settings(), registry.rules()).findings
    assert [each.rule for each in findings] == ["shared-release"]
