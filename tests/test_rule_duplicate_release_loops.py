"""Second releases by way of managers, tables of methods and loops that capture; and first ones that only look like some."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

OWNER = """
from contextlib import contextmanager

import torch


class Owner:
    def __init__(self, net):
        self.net = net
        self.handle = torch.cuda.graph_pool_handle()
        self.graphs = []

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.handle):
            self.net(n)
        self.graphs.append(graph)

    def free(self):
        for graph in self.graphs:
            graph.reset()

    def rotate(self):
        self.free()
        self.graphs = []
        self.handle = torch.cuda.graph_pool_handle()


@contextmanager
def recorded(net, n):
    owner = Owner(net)
    owner.record(n)
    try:
        yield owner
    finally:
        owner.free()


"""

REPORTED = {
    "a manager frees what its block has freed": (
        """
def use(net, n):
    with recorded(net, n) as made:
        made.graphs[0].replay()
        made.free()
""",
        "recorded(net, n)",
    ),
    "a method out of a table": (
        """
class Server:
    def __init__(self, net):
        self.owner = Owner(net)
        self.actions = {"stop": self.stop, "free": self.owner.free}

    def stop(self):
        self.owner.free()

    def finish(self):
        self.actions["stop"]()
        self.owner.free()
""",
        "self.owner.free()",
    ),
    "behind a loop that captures, twice": (
        """
def refit(owner: Owner, sizes):
    for n in sizes:
        owner.record(n)
    owner.free()
    owner.free()
""",
        "owner.free()",
    ),
}

SILENT = {
    "a manager alone frees": """
def use(net, n):
    with recorded(net, n) as made:
        made.graphs[0].replay()
""",
    "another one than the manager's": """
def use(net, other: Owner, n):
    with recorded(net, n) as made:
        other.free()
""",
    "a loop captures in between": """
def refit(owner: Owner, sizes):
    owner.rotate()
    for n in sizes:
        owner.record(n)
    owner.rotate()
""",
    "another method out of the table": """
class Server:
    def __init__(self, net):
        self.owner = Owner(net)
        self.actions = {"stop": self.stop, "record": self.owner.record}

    def stop(self):
        self.owner.free()

    def finish(self):
        self.actions["record"](4)
        self.owner.free()
""",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(text: str) -> list[str]:
    Path("m.py").write_text((OWNER + text).lstrip("\n"))
    content = Path("m.py").read_bytes()
    findings = check.check(["."], Settings(), registry.select(("duplicate-release",))).findings
    return [content[slice(*each.span)].decode() for each in findings]


@pytest.mark.parametrize("name", REPORTED)
def test_a_second_release_is_reported(name: str) -> None:
    text, place = REPORTED[name]
    assert found(text) == [place]


@pytest.mark.parametrize("name", SILENT)
def test_what_is_released_once_is_not(name: str) -> None:
    assert found(SILENT[name]) == []
