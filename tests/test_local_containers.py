"""What a function puts into a container of its own, and takes from it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

OWNER = """
import torch


class Owner:
    def __init__(self, net):
        self.net = net
        self.graphs = {}

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net(n)
        self.graphs[n] = graph

    def free(self):
        for graph in self.graphs.values():
            graph.reset()

"""

SECOND = {
    "keys that a loop has appended": """
    def close(self):
        self.free()
        old = []
        for key in self.graphs:
            old.append(key)
        for key in old:
            self.graphs[key].reset()
""",
    "graphs that a loop has appended": """
    def close(self):
        self.free()
        old = []
        for key, graph in self.graphs.items():
            old.append(graph)
        for graph in old:
            graph.reset()
""",
    "pairs that a loop has appended": """
    def close(self):
        self.free()
        old = []
        for key, graph in self.graphs.items():
            old.append((key, graph))
        for key, graph in old:
            graph.reset()
""",
    "a list that is tested": """
    def close(self):
        self.free()
        old = []
        for key in self.graphs:
            old.append(key)
        if not old:
            return
        self.graphs[old[0]].reset()
""",
    "a list that a method makes": """
    def keys(self):
        found, n = [], 8
        while n:
            found.append(n)
            n //= 2
        return found

    def close(self):
        self.free()
        for key in self.keys():
            self.graphs[key].reset()
""",
    "functions one after the other": """
    def close(self):
        steps = [self.net.close]
        steps.append(self.free)
        for step in steps:
            step()
        self.free()
""",
    "a batch that a loop fills and empties": """
    def close(self):
        self.free()
        batch = []
        for key in self.graphs:
            if len(batch) == 4:
                for each in batch:
                    self.graphs[each].reset()
                batch = []
            batch.append(key)
""",
}

ONCE = {
    "appended, and not touched": """
    def close(self):
        self.free()
        old = []
        for key in self.graphs:
            old.append(key)
        for key in old:
            print(key)
""",
    "popped before they are reset": """
    def close(self):
        old = []
        for key in list(self.graphs):
            old.append(self.graphs.pop(key))
        for graph in old:
            graph.reset()
        self.graphs.clear()
""",
    "one function of two": """
    def close(self):
        steps = [self.free]
        steps.append(self.net.close)
        for step in steps:
            step()
""",
    "a list that stays empty": """
    def close(self):
        self.free()
        old = []
        for key in old:
            self.graphs[key].reset()
""",
}


def found(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Rules that report something where the method is added to the owner."""
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(OWNER.lstrip("\n") + method.lstrip("\n"))
    return [each.rule for each in check.check(["."], Settings(), registry.select(("duplicate-release",))).findings]


@pytest.mark.parametrize("name", SECOND)
def test_a_second_release_by_way_of_a_container_is_seen(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(SECOND[name], tmp_path, monkeypatch) == ["duplicate-release"]


@pytest.mark.parametrize("name", ONCE)
def test_what_is_only_kept_in_a_container_is_no_release(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(ONCE[name], tmp_path, monkeypatch) == []
