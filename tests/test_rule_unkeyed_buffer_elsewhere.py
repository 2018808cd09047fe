"""A buffer that gets another name where it is asked for: whoever else names it has to follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings
from graphlint.edits import Applicability, Fix

RULE = "unkeyed-buffer"

BUFFERS = """
import torch


class Buffers:
    def __init__(self):
        self.held = {}

    def ask(self, name, shape):
        found = self.held.get(name)
        if found is None or found.numel() < shape[0] * shape[1]:
            found = torch.empty(shape, device="cuda")
            self.held[name] = found
        return found[: shape[0]]

    def forget(self, name):
        self.held.pop(name, None)

    def forget_some(self, *names):
        for name in names:
            self.held.pop(name, None)

    def forget_like(self, prefix):
        for name in [name for name in self.held if name.startswith(prefix)]:
            del self.held[name]

    def forget_all(self):
        self.held.clear()

    def has(self, name):
        return name in self.held


BUFFERS = Buffers()
"""

LAYER = """
import torch

from buffers import BUFFERS


class Layer:
    ROWS = 64

    def __init__(self, width):
        self.width = width

    def forward(self, x):
        return x + BUFFERS.ask("rows", (self.ROWS, self.width))

    def close(self):
        {end}


class Steps:
    def __init__(self):
        self.layers = [Layer(64), Layer(128)]
        self.graph = None

    def run(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def capture(self, x):
        self.run(x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.run(x)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(**files: str) -> Fix | None:
    for name, text in files.items():
        Path(f"{name}.py").write_text(text)
    (found,) = check.check(["."], Settings(), registry.select((RULE,))).findings
    return found.fix


@pytest.mark.parametrize(
    "end",
    ["BUFFERS.forget_all()", 'BUFFERS.forget("columns")', 'print("rows")', 'self.name = "rows"'],
)
def test_nobody_else_names_it(end: str) -> None:
    fix = made(buffers=BUFFERS, layer=LAYER.format(end=end))
    assert fix is not None
    assert fix.applicability is Applicability.SAFE
    assert fix.conditions == ()


@pytest.mark.parametrize(
    "end",
    [
        'BUFFERS.forget("rows")',
        'BUFFERS.forget(name="rows")',
        'BUFFERS.forget_some("rows", "columns")',
        'BUFFERS.forget_like("rows")',
        'for name in ("rows", "columns"): BUFFERS.forget(name)',
        'BUFFERS.held.pop("rows", None)',
        'del BUFFERS.held["rows"]',
        'if BUFFERS.has("rows"): print(self)',
        'if "rows" in BUFFERS.held: print(self)',
    ],
)
def test_a_release_or_a_look_under_the_old_name(end: str) -> None:
    fix = made(buffers=BUFFERS, layer=LAYER.format(end=end))
    assert fix is not None
    assert fix.applicability is Applicability.UNSAFE
    assert "layer.py:17 has to name it alike" in fix.conditions[0]


def test_a_name_of_the_class() -> None:
    text = (
        LAYER.format(end="BUFFERS.forget(Layer.NAME)")
        .replace('"rows"', "self.NAME")
        .replace("ROWS = 64", 'ROWS, NAME = 64, "r"')
    )
    fix = made(buffers=BUFFERS, layer=text)
    assert fix is not None
    assert "layer.py:17" in fix.conditions[0]


def test_another_module_names_it() -> None:
    other = 'from buffers import BUFFERS\n\n\ndef stop():\n    BUFFERS.forget("rows")\n'
    fix = made(buffers=BUFFERS, layer=LAYER.format(end="pass"), stop=other)
    assert fix is not None
    assert fix.applicability is Applicability.UNSAFE
    assert "stop.py:5" in fix.conditions[0]


STORE = """
import torch

HELD = {{}}


class Layer:
    def __init__(self, width, kind):
        self.width = width
        self.kind = kind

    def buffer(self):
        if self.kind not in HELD:
            HELD[self.kind] = torch.empty(64, self.width, device="cuda")
        return HELD[self.kind]

    def close(self):
        {end}


class Steps:
    def __init__(self):
        self.layers = [Layer(64, "a"), Layer(128, "a")]

    def capture(self, x):
        self.graph = torch.cuda.CUDAGraph()
        for layer in self.layers:
            layer.buffer()
        with torch.cuda.graph(self.graph):
            for layer in self.layers:
                x = x + layer.buffer()
"""


@pytest.mark.parametrize(
    ("end", "count"), [("HELD.clear()", 0), ("HELD.pop(self.kind, None)", 1), ("del HELD[self.kind]", 1)]
)
def test_a_key_that_is_made_at_the_store(end: str, count: int) -> None:
    fix = made(layer=STORE.format(end=end))
    assert fix is not None
    assert sum("has to name it alike" in condition for condition in fix.conditions) == count
