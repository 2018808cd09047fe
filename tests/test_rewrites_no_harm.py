"""What makes a rewrite of a teardown unsafe: code that it moves over, and that may do more than its names tell."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from graphlint import check, fixing, registry
from graphlint.config import Settings
from graphlint.edits import Applicability, Fix
from graphlint.findings import Finding


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def find(rule: str, text: str) -> Sequence[Finding]:
    Path("m.py").write_text(text)
    return check.check(["m.py"], Settings(), registry.select((rule,))).findings


def only(rule: str, text: str) -> Fix | None:
    (found,) = find(rule, text)
    return found.fix


def fixed(rule: str, text: str, *, unsafe: bool = False) -> str:
    Path("m.py").write_text(text)
    outcome = fixing.fix(check.read(["m.py"], Settings(), {}), registry.select((rule,)), unsafe=unsafe)
    return outcome.changes["m.py"].after.decode() if outcome.changes else ""


def method(head: str, text: str) -> str:
    """A program that ends in one more method of its last class."""
    return head.strip("\n") + "\n\n" + textwrap.indent(textwrap.dedent(text).strip("\n"), "    ") + "\n"


def lines(text: str, name: str = "close") -> list[str]:
    """The lines of the method `close`, which stands last."""
    return [line.strip() for line in text.partition(f"def {name}(")[2].splitlines()[1:]]


# ------------------------------------------------------------------------------- graphs that are released after memory


ENGINE = """
import asyncio
import logging
import threading

import torch
import torch.distributed as dist

logger = logging.getLogger(__name__)


class Cache:
    def __init__(self):
        self.keys = torch.zeros(8, device="cuda")

    def free(self):
        self.keys = None


class Steps:
    def __init__(self, cache: Cache):
        self.cache = cache
        self.graphs = {}

    def capture(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.mul(self.cache.keys, 2)
        self.graphs[n] = graph

    def release(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()


class Engine:
    def __init__(self, scheduler):
        self.cache = Cache()
        self.steps = Steps(self.cache)
        self.scheduler = scheduler
        self.lock = threading.Lock()
        self.closed = False
"""


def between(*statements: str, is_async: bool = False) -> str:
    body = ["self.cache.free()", *statements, "self.steps.release()"]
    return method(ENGINE, f"{'async ' * is_async}def close(self):\n" + textwrap.indent("\n".join(body), "    "))


@pytest.mark.parametrize(
    "statement",
    ["self.closed = True", 'logger.info("closing")', "n = len(self.steps.graphs)", "del n", "print(self.lock)"],
)
def test_graphs_go_first_over_what_does_nothing(statement: str) -> None:
    supply = ["n = 1"] if statement == "del n" else []
    made = only("manager-order", between(*supply, statement))
    assert made is not None
    assert made.applicability is Applicability.SAFE


@pytest.mark.parametrize(
    "statement", ["torch.cuda.synchronize()", "dist.barrier()", "self.worker.join()", "while self.busy: pass"]
)
def test_memory_goes_behind_what_waits(statement: str) -> None:
    text = fixed("manager-order", between(statement))
    assert lines(text) == [*statement.split("\n"), "self.steps.release()", "self.cache.free()"]


@pytest.mark.parametrize(
    "statement", ["self.closed = True", "self.waiting.append(None)", 'self.state["closed"] = True']
)
def test_a_sign_that_others_may_wait_for_stays_in_front(statement: str) -> None:
    text = fixed("manager-order", between(statement))
    assert lines(text) == [statement, "self.steps.release()", "self.cache.free()"]


def test_the_graphs_go_first_where_what_follows_needs_the_release() -> None:
    text = method(ENGINE, "def close(self):\n    n = self.cache.free()\n    print(n)\n    self.steps.release()")
    assert lines(fixed("manager-order", text)) == ["self.steps.release()", "n = self.cache.free()", "print(n)"]


def test_memory_goes_behind_a_wait_of_a_coroutine() -> None:
    text = fixed("manager-order", between("await asyncio.sleep(0)", is_async=True))
    assert lines(text) == ["await asyncio.sleep(0)", "self.steps.release()", "self.cache.free()"]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("self.scheduler.drain()", "calls `self.scheduler.drain`"),
        ("with self.lock:\n    self.pending = 0", "enters `self.lock`"),
        ("self.worker.stop.remote()", "calls `self.worker.stop.remote`"),
        ("self.queue.put(None)", "calls `self.queue.put`"),
        ("for each in self.hooks:\n    each()", "calls `each`"),
        ("n = drain(self.scheduler)", "calls `drain`"),
        ("next(self.pending)", "calls `next`"),
        ("left = torch.cuda.memory_allocated()", "calls `torch.cuda.memory_allocated`"),
    ],
)
def test_memory_goes_behind_what_is_not_known_and_the_fix_says_so(statement: str, said: str) -> None:
    text = between(statement)
    made = only("manager-order", text)
    assert made is not None
    assert made.applicability is Applicability.UNSAFE
    assert said in made.conditions[0]
    assert fixed("manager-order", text) == ""
    order = lines(fixed("manager-order", text, unsafe=True))
    assert order == [*(line.strip() for line in statement.split("\n")), "self.steps.release()", "self.cache.free()"]


def test_memory_goes_behind_an_await() -> None:
    made = only("manager-order", between("await self.scheduler.drain()", is_async=True))
    assert made is not None
    assert made.applicability is Applicability.UNSAFE
    assert made.conditions == (
        "row 46 awaits `self.scheduler.drain`, where others run: it may neither need the memory to be gone nor make it anew",
    )


def test_an_assertion_that_fails_leaves() -> None:
    made = only("manager-order", between('assert not self.closed, "closed twice"'))
    assert made is not None
    assert made.applicability is Applicability.UNSAFE
    assert "can leave" in made.conditions[0]


@pytest.mark.parametrize(
    ("kind", "is_safe"), [("@property\n", False), ("@functools.cached_property\n", False), ("", True)]
)
def test_a_property_is_a_call(kind: str, *, is_safe: bool) -> None:
    text = between("n = self.count") + "\n" + textwrap.indent(f"{kind}def count(self):\n    return 1\n", "    ")
    made = only("manager-order", text)
    assert made is not None
    assert (made.applicability is Applicability.SAFE) is is_safe


@pytest.mark.parametrize(
    "block",
    ["with self.lock:\n    self.cache.free()", "if self.scheduler.stop():\n    self.cache.free()"],
)
def test_graphs_go_before_a_block_that_waits_or_calls(block: str) -> None:
    text = method(ENGINE, f"def close(self):\n{textwrap.indent(block, '    ')}\n    self.steps.release()")
    made = only("manager-order", text)
    assert made is not None
    assert made.applicability is Applicability.UNSAFE
    assert "may not need the graphs any more" in made.conditions[0]


@pytest.mark.parametrize(
    ("body", "final"),
    [
        ("self.cache.free()\ndist.barrier()", "self.steps.release()\ndist.destroy_process_group()"),
        ("self.cache.free()", "self.steps.release()\nself.scheduler.stop()"),
        ("self.scheduler.drain()\nself.cache.free()", "self.steps.release()"),
        ("self.cache.free()", "with self.lock:\n    self.steps.release()"),
    ],
)
def test_blocks_of_a_try_stay_where_they_do_more(body: str, final: str) -> None:
    parts = ["try:", textwrap.indent(body, "    "), "finally:", textwrap.indent(final, "    ")]
    text = method(ENGINE, "def close(self):\n" + textwrap.indent("\n".join(parts), "    "))
    assert only("manager-order", text) is None


def test_blocks_of_a_try_change_places_with_what_does_nothing() -> None:
    text = method(
        ENGINE,
        """
        def close(self):
            try:
                self.cache.free()
                self.closed = True
            finally:
                self.steps.release()
        """,
    )
    assert lines(fixed("manager-order", text)) == [
        "try:",
        "self.steps.release()",
        "finally:",
        "self.cache.free()",
        "self.closed = True",
    ]


# ----------------------------------------------------------------------------------- pools that are erased too early


OUTPUTS = """
import gc
import threading

import torch

LOCK = threading.Lock()


def shrink():
    gc.collect()
    torch.cuda.empty_cache()


class Runner:
    def __init__(self):
        self.graphs = {}
        self.outs = {}

    def capture(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.outs[n] = torch.ones(n, device="cuda")
        self.graphs[n] = graph

    def shrink(self):
        torch.cuda.empty_cache()
        self.count = len(self.outs)
"""


def clear(*statements: str) -> str:
    return method(
        OUTPUTS, "def close(self):\n" + textwrap.indent("\n".join(["self.graphs.clear()", *statements]), "    ")
    )


@pytest.mark.parametrize(
    "statements",
    [
        ("torch.cuda.empty_cache()", "gc.collect()", "self.outs.clear()"),
        ("shrink()", 'print("cleared")', "self.outs.clear()"),
        ("n = len(self.outs)", "torch.cuda.empty_cache()", "print(n)", "self.outs.clear()"),
        ("last = self.names", "torch.cuda.empty_cache()", "print(last)", "self.outs.clear()"),
        ("with torch.cuda.device(0):\n    torch.cuda.empty_cache()", "self.outs.clear()"),
        ("with LOCK:\n    torch.cuda.empty_cache()", "self.outs.clear()"),
    ],
)
def test_a_late_release_moves_over_what_does_nothing(statements: Sequence[str]) -> None:
    made = only("pool-order", clear(*statements))
    assert made is not None
    assert made.conditions == ()


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (("last = self.outs", "torch.cuda.empty_cache()", "print(len(last))", "self.outs.clear()"), "uses last"),
        (("outs = self.outs", "torch.cuda.empty_cache()", "print(self.outs)", "outs.clear()"), "uses self.outs"),
        (("one = self.outs[1]", "torch.cuda.empty_cache()", "self.mean = one.mean()", "self.outs.clear()"), "uses one"),
        (
            ("one = two = list(self.outs.values())", "torch.cuda.empty_cache()", "print(two)", "self.outs.clear()"),
            "uses two",
        ),
        (
            ("outs = dict(self.outs)", "torch.cuda.empty_cache()", "self.outs.clear()", "return outs"),
            "its memory stays",
        ),
        (("torch.cuda.empty_cache()", "self.report()", "self.outs.clear()"), "calls `self.report`"),
        (("torch.cuda.empty_cache()", "torch.cuda.synchronize()", "self.outs.clear()"), "waits for `torch.cuda.sync"),
        (("torch.cuda.empty_cache()", "with LOCK:\n    self.n = 0", "self.outs.clear()"), "enters `LOCK`"),
        (("self.shrink()", "self.outs.clear()"), "calls `self.shrink`"),
    ],
)
def test_what_a_late_release_overtakes_may_need_it(statements: Sequence[str], said: str) -> None:
    text = clear(*statements)
    made = only("pool-order", text)
    assert made is not None
    assert made.applicability is Applicability.UNSAFE
    assert any(said in condition for condition in made.conditions)
    assert fixed("pool-order", text) == ""


SCRATCH_LATE = """
import asyncio
import contextlib

import torch


class Scratch:
    held = {}

    @classmethod
    def drop(cls):
        cls.held.clear()


class Runner:
    def __init__(self):
        self.graphs = {}
        self.lock = asyncio.Lock()

    def capture(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            Scratch.held[n] = torch.ones(n, device="cuda")
        self.graphs[n] = graph
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "torch.cuda.empty_cache()\nasync with self.lock:\n    Scratch.drop()",
            "between the graphs' death and the erasure",
        ),
        ("async with self.lock:\n    torch.cuda.empty_cache()\nScratch.drop()", "may not wait for it"),
        ("with contextlib.suppress(OSError):\n    torch.cuda.empty_cache()\nScratch.drop()", "hides errors"),
        ("torch.cuda.empty_cache()\nawait self.drained()\nScratch.drop()", "awaits `self.drained`"),
    ],
)
def test_a_late_release_and_who_runs_meanwhile(body: str, said: str) -> None:
    text = method(SCRATCH_LATE, "async def close(self):\n    self.graphs.clear()\n" + textwrap.indent(body, "    "))
    made = only("pool-order", text)
    assert made is not None
    assert made.applicability is Applicability.UNSAFE
    assert any(said in condition for condition in made.conditions)


SCRATCH = """
import threading

import torch

LOCK = threading.Lock()


class Scratch:
    held = {}
    users = 0

    @classmethod
    def get(cls, n):
        if n not in cls.held:
            cls.held[n] = torch.empty(n, device="cuda")
        return cls.held[n]

    @classmethod
    def drop(cls):
        cls.held.clear()


class Runner:
    def __init__(self):
        self.graphs = {}

    def capture(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            Scratch.get(n).add_(1)
        self.graphs[n] = graph
"""


def test_a_missing_release_is_inserted() -> None:
    text = method(SCRATCH, "def close(self):\n    self.graphs.clear()\n    torch.cuda.empty_cache()")
    made = only("pool-order", text)
    assert made is not None
    assert made.conditions == ()
    assert lines(fixed("pool-order", text))[2:] == ["Scratch.drop()", "torch.cuda.empty_cache()"]


@pytest.mark.parametrize(
    "end",
    [
        "Scratch.users -= 1\nif Scratch.users == 0:\n    with LOCK:\n        Scratch.drop()",
        "if self.is_last:\n    with LOCK:\n        Scratch.drop()",
        "if Scratch.users:\n    return\nScratch.drop()",
    ],
)
def test_no_second_release_passes_by_a_count_or_a_lock(end: str) -> None:
    body = "self.graphs.clear()\ntorch.cuda.empty_cache()\n" + end
    text = method(SCRATCH, "def close(self):\n" + textwrap.indent(body, "    "))
    assert all(
        found.fix is None or found.fix.applicability is Applicability.UNSAFE for found in find("pool-order", text)
    )


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("Scratch.users -= 1\nif Scratch.users == 0:\n    Scratch.drop()", "behind the test `Scratch.users == 0`"),
        ("if Scratch.users:\n    return\nScratch.drop()", "behind the test `Scratch.users`"),
        ("with LOCK:\n    Scratch.drop()", "enters `LOCK`"),
    ],
)
def test_a_release_that_its_other_callers_guard_is_guarded_here_too(end: str, said: str) -> None:
    text = method(SCRATCH, "def close(self):\n    self.graphs.clear()\n    torch.cuda.empty_cache()")
    text += "\n\ndef stop():\n" + textwrap.indent(end, "    ") + "\n"
    made = only("pool-order", text)
    assert made is not None
    assert made.applicability is Applicability.UNSAFE
    assert said in made.conditions[0]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("cls.users -= 1", "counts"),
        ("cls.worker.stop()", "calls `cls.worker.stop`"),
        ("with LOCK:\n    pass", "enters `LOCK`"),
    ],
)
def test_a_release_that_does_more_states_it(more: str, said: str) -> None:
    head = SCRATCH.replace(
        "        cls.held.clear()\n", "        cls.held.clear()\n" + textwrap.indent(more, " " * 8) + "\n"
    )
    text = method(head, "def close(self):\n    self.graphs.clear()\n    torch.cuda.empty_cache()")
    made = only("pool-order", text)
    assert made is not None
    assert made.applicability is Applicability.UNSAFE
    assert said in made.conditions[0]
