"""Pools that an object stands for: nobody erases them while it is there, and what was allocated from them is theirs, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

BLOCK = """
import contextlib
import torch


class Block:
    def __init__(self, body, x, sizes):
        self.body = body
        self.x = x
        self.sizes = sizes
        self.region = torch.cuda.MemPool()
        self.graphs = {}
        self.outs = {}
        self.parts = {}

    @contextlib.contextmanager
    def inside(self):
        with torch.cuda.use_mem_pool(self.region):
            yield

    def made(self, n):
        with torch.cuda.use_mem_pool(self.region):
            return torch.zeros(n, device="cuda")

    def allocate(self):
        ALLOCATE

    def record(self):
        for n in self.sizes:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.region.id):
                self.outs[n] = self.body(self.x[:n], self.rows)
            self.graphs[n] = graph

    def unload(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        UNLOAD
"""

ERASE = "torch.cuda.empty_cache()"
IN_IT = "with torch.cuda.use_mem_pool(self.region): self.rows = torch.zeros(8, device='cuda')"


def found(tmp_path: Path, allocate: str, *unload: str) -> list[str]:
    path = tmp_path / "engines.py"
    path.write_text(BLOCK.replace("ALLOCATE", allocate).replace("UNLOAD", "\n        ".join(unload)))
    report = check.check([str(path)], Settings(), registry.select(("pool-order",)))
    source = report.sources[str(path)]
    assert not any(finding.fix for finding in report.findings)
    return [" ".join(source.text(finding.span).split()) for finding in report.findings]


@pytest.mark.parametrize(
    "allocate",
    [
        IN_IT,
        "with torch.cuda.use_mem_pool(self.region): rows = torch.zeros(8, device='cuda')\n        self.rows = rows",
        "with self.inside(): self.rows = torch.zeros(8, device='cuda')",
        "self.rows = self.made(8)",
    ],
)
@pytest.mark.parametrize("end", ["self.region = None", "del self.region"])
def test_what_was_allocated_from_it_is_held(tmp_path: Path, allocate: str, end: str) -> None:
    assert found(tmp_path, allocate, "self.outs.clear()", end, ERASE, "self.rows = None") == [ERASE]
    assert found(tmp_path, allocate, "self.outs.clear()", end, ERASE) == [ERASE]
    assert found(tmp_path, allocate, "self.outs.clear()", "self.rows = None", end, ERASE) == []


def test_what_lies_elsewhere_is_not(tmp_path: Path) -> None:
    allocate = "self.rows = torch.zeros(8, device='cuda')"
    assert found(tmp_path, allocate, "self.outs.clear()", "self.region = None", ERASE, "self.rows = None") == []


def test_the_object_keeps_the_pool(tmp_path: Path) -> None:
    assert found(tmp_path, IN_IT, "self.outs.clear()", ERASE, "self.rows = None") == []
    assert found(tmp_path, IN_IT, ERASE, "self.outs.clear()", "self.rows = None") == []


def test_outputs_outlive_the_object(tmp_path: Path) -> None:
    assert found(tmp_path, IN_IT, "self.rows = None", "self.region = None", ERASE, "self.outs.clear()") == [ERASE]
