"""A table that a loop takes every item out of is released whole; one that loses some of them is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
import torch

_spaces = {{}}


def space(owner, n):
    if (owner, n) not in _spaces:
        assert not torch.cuda.is_current_stream_capturing()
        _spaces[owner, n] = torch.empty(n, device="cuda")
    return _spaces[owner, n]


class Runner:
    def __init__(self, net, name):
        self.net = net
        self.name = name
        self.step()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.step()

    def step(self):
        return self.net(space(self.name, 4))

    def release(self):
        self.graph.reset()
        {end}


class Engine:
    def __init__(self, net, draft):
        self.target = Runner(net, "target")
        self.draft = Runner(draft, "draft")

    def close(self):
        self.draft.release()
        self.target.release()
"""


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("for key in list(_spaces):\n            del _spaces[key]", ["del _spaces[key]"]),
        ("for key in sorted(_spaces.keys()):\n            del _spaces[key]", ["del _spaces[key]"]),
        ("for key in list(_spaces):\n            if key[0] == self.name:\n                del _spaces[key]", []),
        ("for key in [k for k in _spaces if k[0] == self.name]:\n            del _spaces[key]", []),
    ],
)
def test_a_loop_that_deletes(end: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PROGRAM.format(end=end).lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("shared-release",))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == expected


SPACE = """
class Space:
    def __init__(self, n):
        self.block = torch.empty(n, device="cuda")
"""


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("for each in _spaces.values():\n            each.block = None", ["each.block = None"]),
        (
            "for key in [k for k in _spaces if k[0] == self.name]:\n            _spaces[key].block = None",
            [],
        ),
        (
            "stale = [k for k in _spaces if k[0] == self.name]\n        for key in stale:\n            _spaces.pop(key).block = None",
            [],
        ),
    ],
)
def test_what_items_that_were_chosen_before_hold(
    end: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PROGRAM.format(end=end).lstrip("\n").replace('torch.empty(n, device="cuda")', "Space(n)")
    text = text.replace("_spaces = {}", f"_spaces = {{}}\n{SPACE}").replace(
        "return _spaces[owner, n]", "return _spaces[owner, n].block"
    )
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("shared-release",))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == expected
