"""Which second releases are reported, by the way that leads to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, fixing, registry
from graphlint.config import Settings

RULE = "duplicate-release"

OWNER = """
import contextlib
from typing import Any

import torch


class Owner:
    def __init__(self, net):
        self.net = net
        self.table: dict[int, Any] = {}

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = self.net(n)
        self.table[n] = dict(graph=graph, y=y, x=torch.zeros(n))

    def free(self):
        for entry in self.table.values():
            entry["graph"].reset()

    def close(self):
        self.free()


class Told:
    def close(self):
        print("closing")
        super().close()

"""

CASES = {
    "a mixin passes the call on": (
        """
class Backend(Told, Owner):
    def close(self):
        super().close()
        self.free()
""",
        ["self.free()"],
    ),
    "a mixin passes the call on, and nothing else releases": (
        """
class Backend(Told, Owner):
    def close(self):
        super().close()
        self.net = None
""",
        [],
    ),
    "a stack calls back": (
        """
def use(net):
    with contextlib.ExitStack() as stack:
        owner = Owner(net)
        stack.callback(owner.free)
        owner.record(1)
        owner.free()
""",
        ["stack.callback(owner.free)"],
    ),
    "a stack alone calls back": (
        """
def use(net):
    with contextlib.ExitStack() as stack:
        owner = Owner(net)
        stack.callback(owner.free)
        owner.record(1)
""",
        [],
    ),
    "another object has it, too": (
        """
class Loop:
    def __init__(self, owner: Owner):
        self.owner = owner

    def stop(self):
        self.owner.free()


class Server:
    def __init__(self, net):
        self.owner = Owner(net)
        self.loop = Loop(self.owner)

    def close(self):
        self.loop.stop()
        self.owner.free()
""",
        ["self.owner.free()"],
    ),
    "another object has another one": (
        """
class Loop:
    def __init__(self, owner: Owner):
        self.owner = owner

    def stop(self):
        self.owner.free()


class Server:
    def __init__(self, net):
        self.owner = Owner(net)
        self.loop = Loop(Owner(net))

    def close(self):
        self.loop.stop()
        self.owner.free()
""",
        [],
    ),
    "another object may have another one by then": (
        """
class Loop:
    def __init__(self, owner: Owner):
        self.owner = owner

    def move(self, owner: Owner):
        self.owner = owner

    def stop(self):
        self.owner.free()


class Server:
    def __init__(self, net):
        self.owner = Owner(net)
        self.loop = Loop(self.owner)

    def close(self):
        self.loop.stop()
        self.owner.free()
""",
        [],
    ),
    "a list that has it, too": (
        """
class Once(Owner):
    def free(self):
        table, self.table = self.table, None
        for entry in table.values():
            entry["graph"].reset()


class Server:
    def __init__(self, net):
        self.chat = Once(net)
        self.rank = Once(net)
        self.owners = [self.chat, self.rank]

    def close(self):
        for owner in self.owners:
            owner.free()
        self.owners.clear()
        self.chat.free()
""",
        ["self.chat.free()"],
    ),
    "a list that may have others": (
        """
class Once(Owner):
    def free(self):
        table, self.table = self.table, None
        for entry in table.values():
            entry["graph"].reset()


class Server:
    def __init__(self, net):
        self.chat = Once(net)
        self.rank = Once(net)
        self.owners = [self.rank]

    def close(self):
        for owner in self.owners:
            owner.free()
        self.owners.clear()
        self.chat.free()
""",
        [],
    ),
    "one user leaves twice": (
        """
class Lease:
    def __init__(self):
        self.handle = torch.cuda.graph_pool_handle()
        self.users = 0

    def take(self):
        self.users += 1
        return self.handle

    def leave(self):
        self.users -= 1
        if self.users == 0:
            self.handle = torch.cuda.graph_pool_handle()


class Steps:
    def __init__(self, net, lease: Lease):
        self.lease = lease
        self.graphs = {}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=lease.take()):
            net(1)
        self.graphs[1] = graph

    def retire(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        self.lease.leave()


class Server:
    def __init__(self, net):
        self.lease = Lease()
        self.chat = Steps(net, self.lease)
        self.rank = Steps(net, self.lease)

    def twice(self):
        self.chat.retire()
        self.chat.retire()

    def both(self):
        self.chat.retire()
        self.rank.retire()
""",
        ["self.chat.retire()"],
    ),
}

TWO = """
class Runner:
    def __init__(self):
        self.graphs = {}
        self.pool = torch.cuda.graph_pool_handle()

    def capture(self, net):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            net(1)
        self.graphs[1] = graph

    def clear(self):
        self.graphs.clear()
        del self.pool
        self.pool = None


def size(net, two):
    main = Runner()
    draft = None
    if two:
        draft = Runner()
    for runner in (main, draft):
        if runner is not None:
            runner.capture(net)
    for runner in (main, draft):
        if runner is not None:
            runner.clear()
"""
CASES["an attribute is deleted and set to None, in either of two objects"] = (TWO, [])
CASES["either of two objects gives its pool up again"] = (
    TWO.replace("        self.pool = None\n", "").rstrip() + "\n            runner.clear()  # again\n",
    ["runner.clear()"],
)


@pytest.mark.parametrize("case", CASES)
def test_a_second_release(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rest, expected = CASES[case]
    text = OWNER.lstrip("\n") + rest
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == expected


REFUSING = """
import torch


class Tape:
    def __init__(self, body):
        self.body = body
        self.graphs = []
        self.open = True

    def record(self, n):
        x = torch.zeros(n, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.body(x)
        self.graphs.append((graph, x))

    def finish(self):
        {guard}
        self.open = False
        for graph, _ in self.graphs:
            graph.reset()


def main(body, n):
    tape = Tape(body)
    {use}
"""
FINALLY = """try:
        tape.record(n)
        tape.finish()
    finally:
        tape.finish()"""
GUARDS = ['if not self.open:\n            raise RuntimeError("finished before")', "assert self.open"]


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize(
    ("use", "expected", "is_safe"),
    [
        (FINALLY, ["tape.finish()"], False),
        ("tape.record(n)\n    tape.finish()\n    tape.finish()", ["tape.finish()"], True),
        ("tape.record(n)\n    tape.finish()\n    if tape.open:\n        tape.finish()", [], False),
        ("try:\n        tape.record(n)\n    finally:\n        tape.finish()", [], False),
    ],
)
def test_a_second_release_that_can_only_raise(
    guard: str, use: str, expected: list[str], is_safe: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = REFUSING.format(guard=guard, use=use).lstrip("\n")
    Path("m.py").write_text(text)
    rules = registry.select((RULE,))
    findings = check.check(["."], Settings(), rules).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == expected
    outcome = fixing.fix(check.read(["."], Settings(), {}), rules, unsafe=False)
    assert bool(outcome.changes) is is_safe


def test_a_refusal_for_another_reason_is_no_second_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guard = "if torch.cuda.is_current_stream_capturing():\n            raise RuntimeError('not in a capture')"
    text = REFUSING.format(guard=guard, use="tape.finish()").replace("graph.reset()", "print(graph)")
    Path("m.py").write_text(text.lstrip("\n"))
    assert check.check(["."], Settings(), registry.select((RULE,))).findings == ()


WRAPPED = """
import functools
from typing import Any

import torch


def quiet(method):
    @functools.wraps(method)
    def wrapper(self{said}, *args, **kwargs):
        {before}
        return method(self, *args, **kwargs)

    return wrapper


class Steps:
    def __init__(self, net):
        self.net = net
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            net()

    def free(self):
        self.graph.reset()


class Engine:
    def __init__(self, net):
        self.steps = Steps(net)

    @quiet
    def load(self, weights):
        {body}
"""


@pytest.mark.parametrize("said", ["", ": Any", ": object"])
def test_what_a_decorator_releases_before_the_method_does(tmp_path: Path, said: str) -> None:
    def found(before: str, body: str) -> list[str]:
        text = WRAPPED.format(said=said, before=before, body=body)
        (tmp_path / "m.py").write_text(text)
        findings = check.check([str(tmp_path)], Settings(), registry.select(("duplicate-release",))).findings
        return [text.encode()[each.span.start : each.span.end].decode() for each in findings]

    assert found("self.steps.free()", "self.steps.free()  # second") == ["self.steps.free()"]
    assert found("self.steps.free()", "print(weights)") == []
    assert found("print(args)", "self.steps.free()") == []
