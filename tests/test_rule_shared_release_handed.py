"""Memory that an object hands to all that it holds, and that one of these releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
import torch


class Scratch:
    def __init__(self, n):
        self.users = 0
        self.data = torch.empty(n, device="cuda")

    def free(self):
        {free}


class Engine:
    def __init__(self, net, scratch, n):
        self.net = net
        self.scratch = scratch
        self.own = Scratch(n)
        {init}
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = net(scratch.data, self.own.data)

    def close(self):
        self.graph.reset()
        {close}


class Server:
    def __init__(self, nets):
        self.scratch = Scratch(1024)
        self.engines = {{name: Engine(net, {given}, 4) for name, net in nets.items()}}

    def unload(self, name):
        engine = self.engines.pop(name)
        engine.close()
"""
FREE = "self.scratch.free()"
COUNTED = "self.users -= 1\n        if self.users == 0:\n            self.data = None"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, [FREE]),
        ({"close": "self.scratch.data = None"}, ["self.scratch.data = None"]),
        ({"close": "self.own.free()"}, []),
        ({"close": "self.scratch = None"}, []),
        ({"given": "Scratch(8)"}, []),
        ({"free": COUNTED}, []),
        ({"init": "self.rows = scratch.data"}, []),
    ],
)
def test_who_releases_what_all_were_handed(
    parts: dict[str, str], expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    usual = {"free": "self.data = None", "init": "pass", "close": FREE, "given": "self.scratch"}
    text = PROGRAM.format(**{**usual, **parts}).lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("shared-release",))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == expected
    assert all("whole Server" in each.message for each in findings)


DEEP = """
import torch


class Sheets:
    def __init__(self):
        self.by_size = {}

    def sheet(self, n):
        if n not in self.by_size:
            self.by_size[n] = torch.ones(n, device="cuda")
        return self.by_size[n]

    def clear(self):
        self.by_size.clear()


class Printer:
    def __init__(self, sheets):
        self.sheets = sheets

    def print(self, x):
        return x * self.sheets.sheet(x.shape[0])

    def close(self):
        self.sheets.clear()


class Press:
    def __init__(self, printer, n):
        self.printer, self.x = printer, torch.zeros(n, device="cuda")
        self.printer.print(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.page = self.printer.print(self.x)

    def run(self):
        self.graph.replay()
        return self.page.clone()

    def stop(self):
        self.graph.reset()

    def close(self):
        self.stop()
        self.printer.close()


class House:
    def __init__(self):
        self.sheets = Sheets()
        self.presses: dict[str, Press] = {}

    def add(self, name, n):
        self.presses[name] = Press(Printer(SHEETS), n)

    CLOSE
"""
ONE = "def remove(self, name):\n        self.presses.pop(name).close()"
ROUNDS = """def close(self):
        for press in self.presses.values():
            press.stop()
        for press in self.presses.values():
            press.close()"""


@pytest.mark.parametrize(
    ("sheets", "close", "expected"),
    [("self.sheets", ONE, 1), ("Sheets()", ONE, 0), ("self.sheets", ROUNDS, 0)],
)
def test_memory_of_a_part_of_a_part(tmp_path: Path, sheets: str, close: str, expected: int) -> None:
    (tmp_path / "m.py").write_text(DEEP.replace("SHEETS", sheets).replace("CLOSE", close))
    rules = registry.select(("shared-release",))
    assert len(check.check([str(tmp_path)], Settings(), rules).findings) == expected
