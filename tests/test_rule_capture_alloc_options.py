"""A refusal to allocate in a capture that only an option asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

HEAD = """
import os

import torch

CAREFUL = os.environ.get("CAREFUL") == "1"
ALWAYS = True
_kept = {}


def refuse(what):
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(what)


"""
FUNCTION = """
def space(rows, device, careful={default}):
    if rows not in _kept:
        {guard}
        _kept[rows] = torch.empty(rows, device=device)
    return _kept[rows]


def step(x):
    return torch.mul(x, 2, out=space(x.shape[0], x.device))
"""
METHOD = """
class Space:
    def __init__(self, config, careful={default}):
        self.config = config
        self.careful = {value}
        self.kept = None

    def late(self):
        {late}

    def get(self, rows, device):
        if self.kept is None:
            {guard}
            self.kept = torch.empty(rows, device=device)
        return self.kept
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(text: str) -> list[str]:
    text = (HEAD + text).lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("capture-alloc",))).findings
    return [text.encode()[slice(*each.span)].decode() for each in findings]


NEW = "torch.empty(rows, device=device)"
ASK = "if {}:\n            refuse('rows')"


@pytest.mark.parametrize(
    ("guard", "default", "is_found"),
    [
        (ASK.format("careful"), "False", True),
        (ASK.format("careful"), "None", True),
        (ASK.format("careful"), "CAREFUL", True),
        (ASK.format("CAREFUL"), "False", True),
        ("if CAREFUL and torch.cuda.is_current_stream_capturing(): raise RuntimeError('rows')", "False", True),
        (ASK.format("careful"), "True", False),  # who switches it off knows why
        (ASK.format("ALWAYS"), "False", False),
        (ASK.format("not careful"), "False", False),
        (ASK.format("rows > 8"), "False", False),
        ("refuse('rows')", "False", False),
        ("if careful: print(rows)\n        refuse('rows')", "False", False),
        (ASK.format("careful") + "\n        refuse('rows again')", "False", False),
        ("if careful or torch.cuda.is_current_stream_capturing(): raise RuntimeError('rows')", "False", False),
    ],
)
def test_an_option_of_a_function(guard: str, default: str, is_found: bool) -> None:
    assert reported(FUNCTION.format(guard=guard, default=default)) == [NEW] * is_found


@pytest.mark.parametrize(
    ("option", "value", "late", "default", "is_found"),
    [
        ("self.careful", "careful", "pass", "False", True),
        ("self.careful", "config.careful", "pass", "False", True),
        ("self.config.careful", "careful", "pass", "False", True),
        ("self.careful", "careful", "pass", "True", False),
        ("self.careful", "True", "pass", "False", False),
        ("self.careful", "careful", "self.careful = True", "False", False),  # a state, and no option
        ("self.config.use_cuda_graphs", "careful", "pass", "False", False),  # nothing is captured without it
    ],
)
def test_an_option_of_an_object(option: str, value: str, late: str, default: str, is_found: bool) -> None:
    guard = f"if {option}:\n                refuse('rows')"
    text = METHOD.format(guard=guard, value=value, late=late, default=default)
    assert reported(text) == [NEW] * is_found
