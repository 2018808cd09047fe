"""A teardown that asks for one part of its object before it releases another, where the one can be missing."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

HEAD = """
import torch


class Graphs:
    def __init__(self, net):
        self.net = net
        self.by_size = {}

    def record(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net(1)
        self.by_size[1] = graph

    def release(self):
        for graph in self.by_size.values():
            graph.reset()
        self.by_size.clear()


class Recorded(Graphs):
    def __init__(self, net):
        super().__init__(net)
        self.record()

"""
STOP = """
    def stop(self):
        if self.text is None:
            return
        self.text.release()
        if self.image is not None:
            self.image.release()
"""
EACH = """
    def stop(self):
        if self.text is not None:
            self.text.release()
        if self.image is not None:
            self.image.release()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(init: str, stop: str, params: str = "self, net, role, text=None") -> list[str]:
    body = f"def __init__({params}):\n" + textwrap.indent(textwrap.dedent(init).strip("\n"), "    ") + "\n"
    text = HEAD + "class Worker:\n" + textwrap.indent(body, "    ") + stop
    text = text.lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("orphan-graphs",))).findings
    return [text.encode()[slice(*each.span)].decode() for each in findings]


ROLES = """
    self.text = None
    self.image = None
    if role != "image":
        self.text = Recorded(net)
    if role != "text":
        self.image = Recorded(net)
"""


@pytest.mark.parametrize(
    "init",
    [
        ROLES,
        "self.text = Recorded(net) if role in ('text', 'both') else None\nself.image = Recorded(net)",
        "self.text = text\nself.image = Graphs(net)\nself.image.record()",
        "self.image = Recorded(net)\nif role == 'image':\n    self.text = None\n    return\nself.text = Recorded(net)",
        "self.text = None\nself.image = Recorded(net)\nif role in ('text', 'both'):\n    self.text = Recorded(net)",
    ],
)
def test_a_part_that_can_be_missing(init: str) -> None:
    assert reported(init, STOP) == ["self.text is None"]
    assert reported(init, EACH) == []


@pytest.mark.parametrize(
    "stop",
    [
        "if self.text is not None:\n    self.text.release()\n    self.image.release()",
        "if not self.text:\n    return\nself.image.release()\nself.text.release()",
        "text = self.text\nif text is None:\n    return\ntext.release()\nself.image.release()",
        "if self.text is None or self.image is None:\n    return\nself.text.release()\nself.image.release()",
    ],
)
def test_other_ways_to_ask(stop: str) -> None:
    method = "\n    def stop(self):\n" + textwrap.indent(stop, "        ") + "\n"
    assert len(set(reported(ROLES, method))) == 1


@pytest.mark.parametrize(
    "init",
    [
        "self.text = Recorded(net)\nself.image = Recorded(net)",  # it is missing after the first call alone
        "self.text = self.image = None\nif role:\n    self.text = Recorded(net)\n    self.image = Recorded(net)",
        "self.text = self.image = None\nif role:\n    self.text = Recorded(net)\nif role and text:\n    self.image = Recorded(net)",
        "self.text = None\nif role in ('a', 'b'):\n    self.text = Recorded(net)\nself.image = Recorded(net) if role == 'a' else None",
        "self.text = Recorded(net) if role else None\nself.image = Recorded(net) if self.text is not None else None",
        "self.text = Recorded(net) if role else None\nself.image = Graphs(net)\nif self.text:\n    self.image.record()",
        "self.text = text\nself.image = Recorded(text)",
        "self.text = Recorded(net) if role else None\nself.image = Graphs(net)",  # nothing is said of when it records
        "self.text = self.image = None\nif role > 1:\n    self.text = Recorded(net)\nif role > 2:\n    self.image = Recorded(net)",
    ],
)
def test_a_part_that_is_there_whenever_the_other_is(init: str) -> None:
    assert reported(init, STOP) == []


def test_another_way_down_that_does_not_ask() -> None:
    rest = "\n    def close(self):\n        self.stop()\n        self.image = None\n"
    assert reported(ROLES, STOP + rest) == []


RANKS = """
    self.rank = rank
    self.image = Recorded(net)
    self.text = None
"""
LATER = RANKS.replace("= Recorded", "= Graphs") + "    if rank == 0:\n        self.image.record()\n"


@pytest.mark.parametrize(
    ("init", "params", "test", "expected"),
    [
        (RANKS, "self, net, rank: int", "self.rank == 0", ["self.rank == 0"]),
        (RANKS, "self, net, rank: bool", "self.rank", ["self.rank"]),
        (RANKS.replace("= rank", "= rank.local"), "self, net, rank", "self.rank == 0", ["self.rank == 0"]),
        (RANKS, "self, net, rank: int", "self.rank != 3", ["self.rank != 3"]),
        (RANKS.replace("= Recorded(net)", "= Recorded(net) if rank == 0 else None"), "self, net, rank", "self.rank == 0", []),
        (RANKS.replace("= rank", "= 0"), "self, net, rank", "self.rank == 0", []),
        (RANKS + "    self.rank = 1\n", "self, net, rank", "self.rank == 0", []),
        (LATER, "self, net, rank", "self.rank == 0", []),
    ],
)  # fmt: skip
def test_what_the_constructor_was_told(init: str, params: str, test: str, expected: list[str]) -> None:
    stop = f"\n    def stop(self):\n        if {test}:\n            self.image.release()\n        self.text = None\n"
    assert reported(init, stop, params) == expected


def test_a_field_that_may_be_none() -> None:
    def found(field: str) -> int:
        text = f"""
from dataclasses import dataclass, field
{HEAD}
@dataclass
class Worker:
    net: object
    {field}
    image: Graphs = field(init=False)

    def __post_init__(self):
        self.image = Recorded(self.net)

    def stop(self):
        if self.text is None:
            return
        self.image.release()
        self.text = None
"""
        Path("m.py").write_text(text.lstrip("\n"))
        return len(check.check(["."], Settings(), registry.select(("orphan-graphs",))).findings)

    assert found("text: torch.Tensor | None = None") == 1
    assert found("text: torch.Tensor") == 0
