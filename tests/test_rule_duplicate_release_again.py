"""Second releases that find no graphs any more, and give back once more what the first has given back."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "duplicate-release"

HEAD = """
import asyncio
import threading

import torch

LISTED = {}


class Share:
    def __init__(self):
        self.users = 0
        self.left = 100
        self.places = list(range(8))
        self.names = set()
        self.log = []

    def take(self):
        self.users += 1

    def give(self):
        self.users -= 1

    def place(self):
        self.names.pop()
        return self.places.pop()

    def back(self, place):
        self.places.append(place)

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
        self.mine = share.place()

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
    "a place goes back into a list": ("self.share.back(self.mine)", ""),
    "a place goes back, directly": ("self.share.places.append(self.mine)", ""),
}
HARMLESS = {
    "nothing else": ("self.net = None", ""),
    "a count of what was done": ("self.ends += 1", ""),
    "a count that goes up and down again": ("self.depth += 1; self.depth -= 1", ""),
    "an amount that is nothing the next time": ("self.share.refund(self.cost); self.cost = 0", ""),
    "an entry that may be gone": ("LISTED.pop(self.net, None)", ""),
    "an entry that is looked for": ("if self.net in LISTED: del LISTED[self.net]", ""),
    "a count under a test": ("if self.net is not None: self.share.give(); self.net = None", ""),
    "a place goes back, and is forgotten": ("self.share.back(self.mine); self.mine = None", ""),
    "a name goes back into a set": ("self.share.names.add(self.mine)", ""),
    "a line in a log": ("self.share.log.append(self.mine)", ""),
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


WAITING = """
class Service:
    def __init__(self, net, share: Share):
        self.owner = Owner(net, share, None)
        self.halt = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        self.owner.record(1)
        try:
            while not self.halt.wait(1):
                pass
        finally:
            {first}

    def stop(self):
        self.halt.set()
        self.thread.join()
        self.owner.free()  # second
"""


def test_what_a_thread_does_at_its_end_is_done_where_it_is_joined(tmp_path: Path) -> None:
    owner = HEAD + OWNER.format(also="self.share.give()", between="").replace("        self.free()  # second\n", "")
    assert reported(tmp_path, owner + WAITING.format(first="self.owner.free()")) == ["self.owner.free()  # second"]
    assert reported(tmp_path, owner + WAITING.format(first="print()")) == []


TASK = """
class Service:
    def __init__(self, net, share: Share):
        self.owner = Owner(net, share, None)

    async def serve(self):
        self.owner.record(1)
        while True:
            if await asyncio.sleep(1):
                break
        {first}

    async def main(self):
        task = asyncio.create_task(self.serve())
        await task
        self.owner.free()  # second
"""


def test_what_a_task_does_at_its_end_is_done_where_it_is_awaited(tmp_path: Path) -> None:
    owner = HEAD + OWNER.format(also="self.share.give()", between="").replace("        self.free()  # second\n", "")
    assert reported(tmp_path, owner + TASK.format(first="self.owner.free()")) == ["self.owner.free()  # second"]
    assert reported(tmp_path, owner + TASK.format(first="print()")) == []


ROUNDS = """
def tune(nets, share: Share):
    for net in nets:
        owner = Owner(net, share, None)
        try:
            owner.record(1)
        except RuntimeError:
            owner.free()
            {then}
        owner.free()  # second
"""


def test_each_round_of_a_loop_makes_an_object_of_its_own(tmp_path: Path) -> None:
    owner = HEAD + OWNER.format(also="self.share.give()", between="").replace("        self.free()  # second\n", "")
    assert reported(tmp_path, owner + ROUNDS.format(then="continue")) == []
    assert reported(tmp_path, owner + ROUNDS.format(then="print(net)")) == ["owner.free()  # second"]


TABLE = """
class Table:
    def __init__(self):
        self.owners: dict[str, Owner] = {{}}

    def drop(self, name: str, other: str):
        self.owners[name].free()
        self.remove({key})  # second

    def remove(self, key: str):
        self.owners.pop(key).free()

    def close(self):
        try:
            self.rest()
        finally:
            self.rest()

    def rest(self):
        while self.owners:
            self.owners.popitem()[1].free()
"""


def test_an_item_is_the_same_under_the_same_key(tmp_path: Path) -> None:
    owner = HEAD + OWNER.format(also="self.share.give()", between="").replace("        self.free()  # second\n", "")
    assert reported(tmp_path, owner + TABLE.format(key="name")) == ["self.remove(name)  # second"]
    assert reported(tmp_path, owner + TABLE.format(key="other")) == []


FINALIZED = """
import weakref


def give(owner: Owner, share: Share):
    owner.free()
    {also}


class Kept:
    def __init__(self, net, share: Share):
        self.owner = Owner(net, share, None)
        self.share = share
        self.owner.record(1)
        {keep}

    def close(self):
        {close}
"""
ALIVE = "weakref.finalize(self, give, self.owner, share)"
KEPT = "self.end = weakref.finalize(self, give, self.owner, share)"
GIVE = "give(self.owner, self.share)  # second"


def test_a_finalizer_that_stays_alive_releases_once_more(tmp_path: Path) -> None:
    owner = HEAD + OWNER.format(also="", between="").replace("        self.free()  # second\n", "")

    def second(also: str, keep: str, close: str) -> list[str]:
        return reported(tmp_path, owner + FINALIZED.format(also=also, keep=keep, close=close))

    assert second("share.give()", ALIVE, GIVE) == [GIVE]
    assert second("share.give()", KEPT, GIVE) == [GIVE]
    assert second("print()", ALIVE, GIVE) == []  # it finds nothing to do
    assert second("share.give()", KEPT, "self.end()") == []
    assert second("share.give()", KEPT, "self.end.detach(); " + GIVE) == []
    assert second("share.give()", "pass", GIVE) == []


TOLD = """
class Several:
    def __init__(self, net, share: Share):
        self.left, self.right = Owner(net, share, None), Owner(net, share, None)
        self.share = share
        self.tables: dict[str, list[torch.cuda.CUDAGraph]] = {{}}

    def drop(self, owner: Owner, why: str):
        owner.free()
        self.share.give()

    def drop_named(self, name: str):
        for graph in self.tables[name]:
            graph.reset()
        self.tables[name] = []
        self.share.give()

    def close(self, why: str):
        {first}
        {second}  # second
"""


def test_a_method_that_is_told_something_else_releases_that(tmp_path: Path) -> None:
    owner = HEAD + OWNER.format(also="", between="").replace("        self.free()  # second\n", "")

    def second(first: str, again: str) -> list[str]:
        return reported(tmp_path, owner + TOLD.format(first=first, second=again))

    assert second("self.drop(self.left, why)", "self.drop(self.left, why)") == ["self.drop(self.left, why)  # second"]
    assert second("self.drop(self.left, why)", "self.drop(self.right, why)") == []
    assert second('self.drop_named("a")', 'self.drop_named("b")') == []


SEATS = """
class Seats:
    def __init__(self):
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {{}}
        self.free = [1, 2, 3]

    def open(self, net):
        seat = self.free.pop()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net()
        self.graphs[seat] = graph
        return seat

    def leave(self, seat):
        graph = self.graphs.pop(seat, None)
        {leave}


class Talk:
    def __init__(self, seats: Seats):
        self.seats = seats

    def run(self, net, lines):
        seat = self.seats.open(net)
        try:
            for line in lines:
                if line == "bye":
                    {bye}
                    break
        finally:
            self.seats.leave(seat)  # second
"""


def test_what_is_gone_the_second_time_gives_its_place_back_all_the_same(tmp_path: Path) -> None:
    always = "if graph is not None: graph.reset()\n        self.free.append(seat)"
    once = "if graph is not None: graph.reset(); self.free.append(seat)"

    def second(leave: str, bye: str) -> list[str]:
        return reported(tmp_path, HEAD + SEATS.format(leave=leave, bye=bye))

    assert second(always, "self.seats.leave(seat)") == ["self.seats.leave(seat)  # second"]
    assert second(once, "self.seats.leave(seat)") == []
    assert second(always, "print(line)") == []


WATCHED_TASK = """
class Loop:
    def __init__(self, owner: Owner):
        self.owner = owner
        self.task = None

    async def start(self):
        self.task = asyncio.create_task(self.spin())
        {when_done}

    async def spin(self):
        self.owner.record(1)
        while True:
            await asyncio.sleep(0)

    def done(self, task):
        self.owner.free()

    async def stop(self):
        task, self.task = self.task, None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        {stop}
"""


def test_a_callback_runs_when_its_task_is_done(tmp_path: Path) -> None:
    owner = HEAD + OWNER.format(also="self.slots.release()", between="").replace("        self.free()  # second\n", "")

    def second(when_done: str, stop: str) -> list[str]:
        return reported(tmp_path, owner + WATCHED_TASK.format(when_done=when_done, stop=stop))

    told = "self.task.add_done_callback(self.done)"
    assert second(told, "self.owner.free()") == ["self.owner.free()"]
    assert second(told, "print()") == []
    assert second("pass", "self.owner.free()") == []
