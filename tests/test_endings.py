"""What runs behind a method without being called there: cleanups of a test, and what `atexit` was told."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

HEAD = """
import atexit
import unittest
from atexit import register

import torch


class Shelf:
    def __init__(self, places):
        self.places = list(range(places))
        self.log = []

    def back(self, place):
        self.places.append(place)


class Step:
    def __init__(self, net, shelf: Shelf):
        self.shelf = shelf
        self.place = shelf.places.pop()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            net()

    def free(self):
        self.graph.reset()
        self.shelf.back(self.place)
"""

TEST = """
class Case(unittest.{case}):
    def setUp(self):
        self.steps = []
        self.shelf = Shelf(4)
        self.other = Step(print, self.shelf)
        self.step = Step(print, self.shelf)
        {up}

    def tearDown(self):
        {down}

    def make(self, net):
        step = Step(net, self.shelf)
        self.steps.append(step)
        {make}
        return step

    def test_one(self):
        self.make(print).graph.replay()
"""
BY_EACH = "for step in self.steps: step.free()"


def reported(path: Path, text: str) -> list[tuple[str, list[str]]]:
    """The text of each second release, and the rows of the path to it."""
    (path / "m.py").write_text(HEAD + text)
    rules = registry.select(("duplicate-release",))
    lines = (HEAD + text).splitlines()
    findings = check.check([str(path)], Settings(), rules)
    return [
        (
            lines[findings.sources[each.path].row(each.span.start) - 1].strip(),
            [lines[findings.sources[s.path].row(s.span.start) - 1].strip() for s in each.trace],
        )
        for each in findings.findings
    ]


@pytest.mark.parametrize("case", ["TestCase", "IsolatedAsyncioTestCase"])
def test_a_cleanup_runs_behind_the_end_of_a_test(tmp_path: Path, case: str) -> None:
    def second(up: str, down: str, make: str = "pass") -> list[str]:
        return [text for text, _ in reported(tmp_path, TEST.format(case=case, up=up, down=down, make=make))]

    assert second("self.addCleanup(self.step.free)", "self.step.free()") == ["self.step.free()"]
    assert second("self.addCleanup(self.other.free)", "self.step.free()") == []
    assert second("self.addCleanup(self.step.free)", "self.step = None") == []
    assert second("pass", BY_EACH, "self.addCleanup(step.free)") == [BY_EACH]
    assert second("pass", "self.steps.clear()", "self.addCleanup(step.free)") == []
    assert second("pass", BY_EACH, "self.addCleanup(self.other.free)") == []


def test_the_path_names_the_registration(tmp_path: Path) -> None:
    text = TEST.format(case="TestCase", up="self.addCleanup(self.step.free)", down="self.step.free()", make="pass")
    ((_, path),) = reported(tmp_path, text)
    assert path[0] == "self.addCleanup(self.step.free)"


def test_what_is_no_test_has_no_cleanups(tmp_path: Path) -> None:
    text = TEST.format(case="TestCase", up="self.addCleanup(self.step.free)", down="self.step.free()", make="pass")
    assert reported(tmp_path, text.replace("(unittest.TestCase)", "")) == []


SERVER = """
class Server:
    def __init__(self, net, shelf: Shelf):
        self.step = Step(net, shelf)
        {told}

    def close(self):
        self.step.{end}

    def {name}(self):
        {close}
"""


def test_what_atexit_was_told_runs_once_more(tmp_path: Path) -> None:
    def second(told: str, name: str = "stop", close: str = "self.close()", end: str = "free()") -> list[str]:
        return [text for text, _ in reported(tmp_path, SERVER.format(told=told, name=name, close=close, end=end))]

    assert second("atexit.register(self.close)") == ["self.close()"]
    assert second("register(self.close)") == ["self.close()"]
    assert second("atexit.register(self.close)", close="pass") == ["atexit.register(self.close)"]
    assert second("atexit.register(self.close)", name="__del__") == ["atexit.register(self.close)"]
    assert second("atexit.register(self.close)", end="graph.reset()") == []  # it finds nothing to give back
    noted = "graph.reset(); self.step.shelf.log.append(self.step)"
    assert second("atexit.register(self.close)", end=noted) == []  # nobody takes anything out of a log
    assert second("atexit.register(self.close)", name="stop", close="atexit.unregister(self.close); self.close()") == []
    assert second("atexit.register(print)") == []
    assert second("pass") == []
