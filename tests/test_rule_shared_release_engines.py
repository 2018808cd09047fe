"""One engine's release of what all share is reported, however the program holds its engines and ends them."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

LANE = """
import concurrent.futures
import contextlib
import weakref

import torch


class Rows:
    table: dict[int, torch.Tensor] = {}

    @classmethod
    def of(cls, n):
        if n not in cls.table:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("warm up first")
            cls.table[n] = torch.empty(n, device="cuda")
        return cls.table[n]


class Lane:
    def __init__(self, n):
        self.x = torch.zeros(n, device="cuda")
        self.step()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.step()

    def step(self):
        return self.x + Rows.of(self.x.numel())

    def play(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()

"""

SHUTDOWN = """
    def shutdown(self):
        self.graph.reset()
        Rows.table.clear()
"""

WAYS = {
    "a list that a comprehension makes": """
def main(sizes, x):
    lanes = [Lane(n) for n in sizes]
    for lane in lanes:
        lane.shutdown()
""",
    "popped until there is none": """
def main(sizes, x):
    lanes = [Lane(n) for n in sizes]
    while lanes:
        lanes.pop().shutdown()
""",
    "popped from a dictionary": """
class Fleet:
    def __init__(self, sizes):
        self.lanes = {}
        for n in sizes:
            self.lanes[n] = Lane(n)

    def stop(self):
        while self.lanes:
            _, lane = self.lanes.popitem()
            lane.shutdown()
""",
    "zipped with something": """
def main(sizes, names):
    lanes = [Lane(n) for n in sizes]
    for lane, name in zip(lanes, names):
        print(name)
        lane.shutdown()
""",
    "a generator goes over them": """
class Fleet:
    def __init__(self, sizes):
        self.lanes = {n: Lane(n) for n in sizes}

    def live(self):
        for lane in self.lanes.values():
            yield lane

    def stop(self):
        for lane in self.live():
            lane.shutdown()
""",
    "a generator passes another one on": """
class Fleet:
    def __init__(self, sizes):
        self.lanes = [Lane(n) for n in sizes]

    def live(self):
        yield from self.lanes

    def stop(self):
        for lane in self.live():
            lane.shutdown()
""",
    "another function makes the list": """
def build(sizes):
    return [Lane(n) for n in sizes]


def main(sizes):
    for lane in reversed(build(sizes)):
        lane.shutdown()
""",
    "map": """
def main(sizes):
    lanes = tuple(Lane(n) for n in sizes)
    list(map(Lane.shutdown, lanes))
""",
    "a comprehension ends them": """
def main(sizes):
    lanes = [Lane(n) for n in sizes]
    [lane.shutdown() for lane in lanes]
""",
    "unpacked": """
def main(sizes):
    first, second = (Lane(n) for n in sizes)
    first.shutdown()
    second.shutdown()
""",
    "registered on a stack, one a round": """
def main(sizes, x):
    with contextlib.ExitStack() as stack:
        for n in sizes:
            lane = Lane(n)
            stack.callback(lane.shutdown)
            print(lane.play(x))
""",
    "by threads": """
def main(sizes):
    lanes = [Lane(n) for n in sizes]
    with concurrent.futures.ThreadPoolExecutor() as threads:
        threads.map(lambda lane: lane.shutdown(), lanes)
""",
    "the base has the loop, a subclass fills the list": """
class Base:
    def __init__(self, sizes):
        self.workers = []
        self.start(sizes)

    def start(self, sizes):
        raise NotImplementedError

    def stop(self):
        for worker in self.workers:
            worker.shutdown()


class Local(Base):
    def start(self, sizes):
        for n in sizes:
            self.workers.append(Lane(n))
""",
    "the base makes them of a class that a subclass names": """
class Base:
    lane_class = None

    def __init__(self, sizes):
        self.workers = [self.lane_class(n) for n in sizes]

    def stop(self):
        for worker in self.workers:
            worker.shutdown()


class Local(Base):
    lane_class = Lane
""",
    "a subclass gives them to the base": """
class Base:
    def __init__(self, workers):
        self.workers = workers

    def stop(self):
        for worker in self.workers:
            worker.shutdown()


class Local(Base):
    def __init__(self, sizes):
        super().__init__([Lane(n) for n in sizes])
""",
    "one of two that an object has": """
class Pair:
    def __init__(self, sizes):
        self.prefill = Lane(sizes[0])
        self.decode = Lane(sizes[1])

    def stop_prefill(self):
        self.prefill.shutdown()
""",
}
ALONE = """
class Only:
    def __init__(self, n):
        self.lane = Lane(n)

    def stop(self):
        self.lane.shutdown()
"""

DROPPED = {
    "popped and deleted": """
def main(sizes, x):
    lanes = [Lane(n) for n in sizes]
    while lanes:
        lane = lanes.pop()
        print(lane.play(x))
        del lane
""",
    "deleted from a dictionary": """
class Fleet:
    def __init__(self, sizes):
        self.lanes = {n: Lane(n) for n in sizes}

    def evict(self, n):
        del self.lanes[n]
""",
    "one of two goes": """
class Pair:
    def __init__(self, sizes):
        self.prefill = Lane(sizes[0])
        self.decode = Lane(sizes[1])

    def stop_prefill(self):
        self.prefill = None
""",
}
DROPPED_ALONE = """
class Only:
    def __init__(self, n):
        self.lane = Lane(n)

    def stop(self):
        self.lane = None
"""

DESTRUCTOR = SHUTDOWN.replace("shutdown", "__del__")
FINALIZER = """
    def keep(self):
        weakref.finalize(self, Rows.table.clear)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(release: str, use: str) -> list[str]:
    text = LANE.lstrip("\n") + release + "\n" + use
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select(("shared-release",))).findings
    return [text.encode()[slice(*each.span)].decode() for each in findings]


@pytest.mark.parametrize("use", WAYS.values(), ids=WAYS.keys())
def test_a_release_of_what_all_share_is_reported(use: str) -> None:
    assert reported(SHUTDOWN, use) == ["Rows.table.clear()"]


@pytest.mark.parametrize("use", WAYS.values(), ids=WAYS.keys())
def test_a_release_of_its_own_graph_is_not(use: str) -> None:
    assert reported(SHUTDOWN.replace("Rows.table.clear()", "print(self)"), use) == []


def test_nothing_is_reported_where_there_is_one_engine() -> None:
    assert reported(SHUTDOWN, ALONE) == []


@pytest.mark.parametrize("use", DROPPED.values(), ids=DROPPED.keys())
@pytest.mark.parametrize(
    ("release", "at"), [(DESTRUCTOR, "Rows.table.clear()"), (FINALIZER, "weakref.finalize(self, Rows.table.clear)")]
)
def test_a_destructor_that_releases_what_all_share_is_reported(release: str, at: str, use: str) -> None:
    assert reported(release, use) == [at]
    assert reported(release, DROPPED_ALONE) == []


def test_a_finalizer_of_its_own_memory_is_not_reported() -> None:
    own = FINALIZER.replace("Rows.table.clear", "self.graph.reset")
    assert [reported(own, use) for use in DROPPED.values()] == [[], [], []]


TENANTS = """
    def again(self):
        return self.play(self.x)


class Tenants:
    def __init__(self):
        self.lanes = {}

    def ask(self, name, x):
        if name not in self.lanes:
            self.lanes[name] = Lane(4)
        return self.lanes[name].play(x)
"""
ONE_TENANT = TENANTS.replace("self.lanes[name] = Lane(4)", "self.lanes = Lane(4)")


def test_a_constructor_that_releases_what_the_others_read() -> None:
    purge = LANE.replace("    def __init__(self, n):\n", "    def __init__(self, n):\n        Rows.table.clear()\n")

    def found(lane: str, use: str) -> list[str]:
        text = lane.lstrip("\n") + use
        Path("m.py").write_text(text)
        findings = check.check(["."], Settings(), registry.select(("shared-release",))).findings
        return [text.encode()[slice(*each.span)].decode() for each in findings]

    assert found(purge, TENANTS) == ["Rows.table.clear()"]
    assert found(purge, ONE_TENANT) == []
    assert found(LANE, TENANTS) == []


def test_an_object_that_is_made_has_nothing_to_destroy_yet() -> None:
    pool = """
    def close(self):
        if self.closed:
            return
        self.closed = True
        self.graph.reset()

    def __del__(self):
        self.close()


class Balancer:
    def __init__(self, count):
        self.lanes: list[Lane] = []
        self.scale(count)

    def scale(self, count):
        while len(self.lanes) > count:
            self.lanes.pop().close()
        while len(self.lanes) < count:
            self.lanes.append(Lane(4))
"""
    text = LANE.replace("        self.step()\n", "        self.closed = False\n        self.step()\n", 1) + pool
    Path("m.py").write_text(text.lstrip("\n"))
    assert check.check(["."], Settings(), registry.select(("duplicate-release",))).findings == ()
