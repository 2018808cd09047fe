"""Buffers that lie under attributes whose names are put together: of an object, a class, a module."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
import sys
from types import SimpleNamespace

import torch

_held = SimpleNamespace()


class Held:
    pass


def rows_for(count, dtype):
    name = {name}
    {body}


def step(x):
    out = rows_for(x.shape[0], x.dtype)
    torch.mul(x, 2, out=out)
    return out.sum()


def record(x):
    step(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step(x)
    return graph, x, out
"""
NEW = "torch.empty(count, dtype=dtype, device='cuda')"
FOUND = (
    "rows = getattr({0}, name, None)\n    if rows is None:\n        rows = "
    + NEW
    + "\n        setattr({0}, name, rows)"
)
ASKED = "if not hasattr({0}, name):\n        setattr({0}, name, " + NEW + ")\n    rows = getattr({0}, name)"
TRIED = (
    "try:\n        rows = getattr({0}, name)\n    except AttributeError:\n        rows = " + NEW + "\n"
    "        setattr({0}, name, rows)"
)
TABLE = "if name not in {0}:\n        {0}[name] = " + NEW + "\n    rows = {0}[name]"
SHORT, WHOLE = "f'rows_{count}'", "f'rows_{count}_{dtype}'"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def missing(name: str, body: str) -> list[str]:
    Path("m.py").write_text(PROGRAM.format(name=name, body=body + "\n    return rows").lstrip("\n"))
    findings = check.check(["."], Settings(), registry.select(("unkeyed-buffer",))).findings
    return [each.values["missing"] for each in findings]


@pytest.mark.parametrize(
    "body",
    [
        *(form.format(where) for form in (FOUND, ASKED, TRIED) for where in ("_held", "Held")),
        *(TABLE.format(where) for where in ("vars(_held)", "_held.__dict__", "vars(Held)", "globals()")),
        "module = sys.modules[__name__]\n    " + FOUND.format("module"),
    ],
)
def test_a_name_that_lacks_the_type(body: str) -> None:
    assert missing(SHORT, body) == ["dtype"]
    assert missing(WHOLE, body) == []


def test_a_local_object_and_one_fixed_name_are_no_table() -> None:
    assert missing(SHORT, "here = object()\n    " + FOUND.format("here")) == []
    assert missing("'rows'", f"rows = getattr(Held(), name, None)\n    if rows is None:\n        rows = {NEW}") == []


SINGLE = """
import torch


class Blocks:
    def get(self, label, count, dtype):
        name = {name}
        if not hasattr(self, name):
            setattr(self, name, torch.empty(count, dtype=dtype, device='cuda'))
        return getattr(self, name)


{kept}


class Layer:
    def __init__(self, blocks: Blocks):
        self.blocks = blocks

    def forward(self, x):
        return torch.mul(x, 2, out={read}.get("mul", x.shape[0], x.dtype))
"""


@pytest.mark.parametrize(
    ("name", "kept", "read", "count"),
    [
        ("f'{label}_{count}'", "BLOCKS = Blocks()", "BLOCKS", 1),
        ("f'{label}_{count}_{dtype}'", "BLOCKS = Blocks()", "BLOCKS", 0),
        ("f'{label}_{count}'", "", "self.blocks", 0),  # each its own
    ],
)
def test_an_object_that_the_module_keeps(name: str, kept: str, read: str, count: int) -> None:
    Path("m.py").write_text(SINGLE.format(name=name, kept=kept, read=read).lstrip("\n"))
    findings = check.check(["."], Settings(), registry.select(("unkeyed-buffer",))).findings
    assert [each.values["missing"] for each in findings] == ["x.dtype"] * count
