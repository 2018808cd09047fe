"""What is released through the name of a method: `collective_rpc("sleep")`."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

WORKER = """
from functools import partial
from typing import Any

import torch


class Worker:
    def __init__(self, net):
        self.net = net
        self.graphs = []

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net(n)
        self.graphs.append(graph)

    def drop(self):
        for graph in self.graphs:
            graph.reset()

    def idle(self):
        pass

    def close(self):
        self.drop()

    def tell(self, name: str, *args: Any) -> Any:
        return getattr(self, name)(*args)


def run(target: Any, name, args):
    function = getattr(target, name) if isinstance(name, str) else partial(name, target)
    return function(*args)

"""

BODIES = {
    "by a method of the worker": """
class Hub:
    def __init__(self, nets):
        self.workers = [Worker(net) for net in nets]

    def all(self, name: str, *args):
        return [worker.tell(name, *args) for worker in self.workers]

    def record(self, n):
        self.all("record", n)

    def close(self):
        self.all("{first}")
        self.all("{second}")
""",
    "by a function": """
class Hub:
    def __init__(self, net):
        self.worker = Worker(net)

    def one(self, name, args=()):
        return run(self.worker, name, args)

    def close(self):
        self.one("{first}")
        self.one(name="{second}")
""",
    "with a default": """
class Hub:
    def __init__(self, net):
        self.worker = Worker(net)

    def one(self, name: str = "{first}"):
        return getattr(self.worker, name)()

    def close(self):
        self.one()
        self.one("{second}")
""",
}


def rules_of(path: Path, text: str) -> list[str]:
    (path / "m.py").write_text(text)
    rules = registry.select(("duplicate-release", "orphan-graphs"))
    return [each.rule for each in check.check([str(path)], Settings(), rules).findings]


@pytest.mark.parametrize("name", BODIES)
def test_a_method_is_known_by_the_text_of_its_name(tmp_path: Path, name: str) -> None:
    def rules(first: str, second: str) -> list[str]:
        return rules_of(tmp_path, WORKER + BODIES[name].format(first=first, second=second))

    assert rules("drop", "close") == ["duplicate-release"]
    assert rules("idle", "close") == []
    assert rules("drop", "idle") == []


def test_a_name_that_nobody_knows_may_release(tmp_path: Path) -> None:
    text = """
class Hub:
    def __init__(self, net, ends):
        self.left = Worker(net)
        self.right = Worker(net)
        self.ends = ends

    def close(self):
        self.left.drop()
        self.right.{call}
"""
    assert rules_of(tmp_path, WORKER + text.format(call="tell(self.ends)")) == []
    assert rules_of(tmp_path, WORKER + text.format(call="idle()")) == ["orphan-graphs"]
