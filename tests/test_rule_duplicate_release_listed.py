"""Objects that a dictionary lists beside the attributes that have them: a loop over it comes to each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
import torch


class Arena:
    def __init__(self):
        self.users = 0

    def enter(self):
        self.users += 1

    def leave(self):
        if self.users == 0:
            raise RuntimeError("nobody is left")
        self.users -= 1


class Tapes:
    def __init__(self, body, widths):
        self.body = body
        self.widths = widths
        self.tapes = {{}}
        self.ready = False

    def record(self):
        for w in self.widths:
            x = torch.zeros(w, device="cuda")
            tape = torch.cuda.CUDAGraph()
            with torch.cuda.graph(tape):
                self.body(x)
            self.tapes[w] = tape
        self.ready = True

    def close(self):
        if not self.ready:
            raise RuntimeError("not recorded")
        self.ready = False
        for tape in self.tapes.values():
            tape.reset()
        self.tapes.clear()


class Cache:
    def close(self):
        print("closed")


class Server:
    def __init__(self, body):
        cache = Cache()
        self.tapes = Tapes(body, [1, 2])
        self.cache = cache
        self.parts = {{"cache": cache, "tapes": {listed}}}

    def start(self):
        self.tapes.record()

    def stop(self):
        self.tapes.close()
        {loop}
"""


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(listed: str, loop: str) -> int:
    Path("m.py").write_text(PROGRAM.format(listed=listed, loop=loop.replace("\n", "\n        ")))
    return len(check.check(["."], Settings(), registry.select(("duplicate-release",))).findings)


@pytest.mark.parametrize(
    "loop",
    ["for part in self.parts.values():\n    part.close()", "for name, part in self.parts.items():\n    part.close()"],
)
def test_a_loop_over_a_dictionary_of_parts_ends_each_of_them(loop: str) -> None:
    assert reported("self.tapes", loop) == 1
    assert reported("Cache()", loop) == 0


def test_one_part_that_is_left_out() -> None:
    assert reported("self.tapes", "self.parts['cache'].close()") == 0
