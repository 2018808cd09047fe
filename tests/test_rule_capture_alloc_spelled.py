"""Memory that is made on first use under an attribute whose name is put together."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
from types import SimpleNamespace

import torch

_held = SimpleNamespace()


class Scaled:
    def rows(self, count):
        name = f"_rows_{{count}}"
        {lookup}

    def __call__(self, x):
        return torch.mul(x, 2, out=self.rows(x.shape[0]))


def record(scaled: Scaled, x):
    {before}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = scaled(x)
    return graph, x, out
"""
NEW = "torch.empty(count, device='cuda')"
ASKED = "if not hasattr({0}, name):\n            setattr({0}, name, " + NEW + ")\n        return getattr({0}, name)"
FOUND = (
    "rows = getattr({0}, name, None)\n        if rows is None:\n            {1}rows = " + NEW + "\n"
    "            setattr({0}, name, rows)\n        return rows"
)
REFUSE = "if torch.cuda.is_current_stream_capturing():\n                raise RuntimeError(name)\n            "


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(lookup: str, before: str = "pass") -> list[str]:
    text = PROGRAM.format(lookup=lookup, before=before).lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("capture-alloc",))).findings
    return [text.encode()[slice(*each.span)].decode() for each in findings]


@pytest.mark.parametrize("where", ["self", "_held"])
@pytest.mark.parametrize("form", [ASKED, FOUND])
def test_a_capture_that_asks_first(form: str, where: str) -> None:
    lookup = form.format(where, "")
    (found,) = reported(lookup)
    assert NEW in found
    assert reported(lookup, "scaled(x)") == []


@pytest.mark.parametrize("where", ["self", "_held"])
def test_what_is_refused_in_a_capture(where: str) -> None:
    assert reported(FOUND.format(where, REFUSE)) == []
