"""Second releases that find no graphs any more, and give back once more what the first has given back."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "duplicate-release"

HEAD = """
import threading

import torch

LISTED = {}


class Share:
    def __init__(self):
        self.users = 0
        self.left = 100

    def take(self):
        self.users += 1

    def give(self):
        self.users -= 1

    def charge(self, amount):
        self.left -= amount

    def refund(self, amount):
        self.left += amount


"""

OWNER = """
class Owner:
    def __init__(self, net, share: Share, slots: threading.Semaphore):
        self.net, self.share, self.slots = net, share, slots
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {{}}
        self.cost, self.ends, self.depth = 0, 0, 0

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net(n)
        self.graphs[n] = graph

    def free(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        {also}

    def close(self):
        self.free()
        {between}
        self.free()  # second
"""

CASES = {
    "a count goes down": ("self.share.give()", ""),
    "what was charged is paid back": ("self.share.refund(self.cost)", ""),
    "an entry is removed that is there once": ("del LISTED[self.net]", ""),
    "it is popped": ("LISTED.pop(self.net)", ""),
    "a semaphore": ("self.slots.release()", ""),
}
HARMLESS = {
    "nothing else": ("self.net = None", ""),
    "a count of what was done": ("self.ends += 1", ""),
    "a count that goes up and down again": ("self.depth += 1; self.depth -= 1", ""),
    "an amount that is nothing the next time": ("self.share.refund(self.cost); self.cost = 0", ""),
    "an entry that may be gone": ("LISTED.pop(self.net, None)", ""),
    "an entry that is looked for": ("if self.net in LISTED: del LISTED[self.net]", ""),
    "a count under a test": ("if self.net is not None: self.share.give(); self.net = None", ""),
    "captures in between": ("self.share.give()", "self.record(1)"),
}


def reported(path: Path, text: str) -> list[str]:
    """The reported lines of a program."""
    (path / "m.py").write_text(text)
    findings = check.check([str(path)], Settings(), registry.select((RULE,))).findings
    rows = [text.encode()[: each.span.start].count(b"\n") for each in findings]
    return [text.splitlines()[row].strip() for row in rows]


@pytest.mark.parametrize("name", CASES)
def test_a_second_release_that_gives_back_again_is_reported(tmp_path: Path, name: str) -> None:
    also, between = CASES[name]
    text = HEAD + OWNER.format(also=also, between=between)
    assert reported(tmp_path, text) == ["self.free()  # second"]


@pytest.mark.parametrize("name", HARMLESS)
def test_a_second_release_that_finds_nothing_is_silent(tmp_path: Path, name: str) -> None:
    also, between = HARMLESS[name]
    assert reported(tmp_path, HEAD + OWNER.format(also=also, between=between)) == []


def test_a_release_that_begins_with_a_question_is_silent(tmp_path: Path) -> None:
    text = OWNER.format(also="self.share.give()", between="").replace(
        "    def free(self):\n", "    def free(self):\n        if not self.graphs:\n            return\n"
    )
    assert reported(tmp_path, HEAD + text) == []


def test_each_object_of_a_loop_gives_back_its_own(tmp_path: Path) -> None:
    text = OWNER.format(also="self.share.give()", between="").replace("        self.free()  # second\n", "")
    text += """

class Fleet:
    def __init__(self, nets, share, slots):
        self.owners = [Owner(net, share, slots) for net in nets]

    def close(self):
        for owner in self.owners:
            owner.free()
"""
    assert reported(tmp_path, HEAD + text) == []
    text += "        for owner in self.owners:\n            owner.free()  # second\n"
    assert reported(tmp_path, HEAD + text) == ["owner.free()  # second"]
