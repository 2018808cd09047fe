"""What a key lacks, where records carry the request, and where a search replaces what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "unkeyed-buffer"

RECORD = """
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Request:
    layer: str
    rows: int
    cols: int
    dtype: torch.dtype
    device: torch.device


class Spaces:
    _lent = {{}}

    def lend(self, req: Request):
        key = {key}
        if key not in self._lent:
            self._lent[key] = torch.empty(req.rows, req.cols, dtype=req.dtype, device=req.device)
        return self._lent[key]


class Mlp:
    def __init__(self, spaces: Spaces, name):
        self.spaces = spaces
        self.name = name

    def __call__(self, x):
        return self.spaces.lend(Request(self.name, x.shape[0], x.shape[1], x.dtype, x.device))
"""

ARENA = """
import torch


class Arena:
    def __init__(self):
        self.blocks = {{}}

    def get(self, n, name, keep=False):
        row = self.blocks.setdefault(name, [])
        for data, _ in row:
            if data.numel() >= n:
                return data
        {makes_room}
        data = torch.empty(n, device="cuda")
        row.append((data, keep))
        return data


ARENA = Arena()


def head(x):
    return ARENA.get(x.shape[0], "head")
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def missing(text: str) -> list[str]:
    Path("m.py").write_text(text.lstrip("\n"))
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    return sorted({each.values["missing"] for each in findings})


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("(req.layer, req.rows, req.device)", ["req.cols, req.dtype"]),
        ("(req.layer, req.rows, req.cols, req.dtype, req.device)", []),
        ("req", []),
    ],
)
def test_fields_of_a_record(key: str, expected: list[str]) -> None:
    assert missing(RECORD.format(key=key)) == expected


@pytest.mark.parametrize(
    ("makes_room", "expected"),
    [("row[:] = [each for each in row if each[1]]", ["x.shape[0]"]), ("pass", [])],
)
def test_a_search_that_makes_room(makes_room: str, expected: list[str]) -> None:
    assert missing(ARENA.format(makes_room=makes_room)) == expected


STAGING = """
import torch

_staging = None


def staging(nbytes={default}):
    global _staging
    if _staging is None:
        _staging = torch.empty(nbytes, device="cuda")
    return _staging


def send(x):
    return torch.ops.a.send(x, staging())


def pull(x):
    return torch.ops.a.pull(x, staging({given}))
"""


@pytest.mark.parametrize(("default", "given", "found"), [("1 << 24", "", 0), ("64", "", 0), ("64", "x.nbytes", 1)])
def test_a_size_that_is_always_the_default(default: str, given: str, found: int) -> None:
    assert len(missing(STAGING.format(default=default, given=given))) == found


FACTORY = """
from dataclasses import dataclass

import torch

_made = {{}}


def named(name, make):
    found = _made.get(name)
    if found is None:
        found = _made[name] = make()
    return found


@dataclass(frozen=True)
class Sizes:
    width: int
    rows: int
    dtype: torch.dtype = torch.bfloat16


class Layer:
    def __init__(self, index, sizes: Sizes):
        name = {name}
        self.rows = named(name, lambda: torch.empty(sizes.rows, sizes.width, dtype=sizes.dtype, device="cuda"))


def pair():
    return Layer(0, Sizes(4096, 8)), Layer(0, Sizes({draft}, 8))
"""
WHOLE = 'f"rows.{index}.{sizes.rows}.{sizes.width}.{sizes.dtype}"'


@pytest.mark.parametrize(
    ("name", "draft", "expected"),
    [('f"rows.{index}"', 1024, 1), (WHOLE, 1024, 0), ('f"rows.{index}"', 4096, 0)],
)
def test_objects_of_one_class_that_are_made_differently(
    name: str, draft: int, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(FACTORY.format(name=name, draft=draft))
    assert len(check.check(["."], Settings(), registry.select((RULE,))).findings) == expected
