"""Tables that some items are left out of: they lose these items, and keep the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
import torch

RECORDS = []
SPACES = {{}}


class Record:
    def __init__(self, owner, graph):
        self.owner = owner
        self.graph = graph


def space(owner):
    if owner not in SPACES:
        SPACES[owner] = torch.empty(4, device="cuda")
    return SPACES[owner]


def end(owner):
    global RECORDS, SPACES
    for record in RECORDS:
        {free}
    {records}
    {spaces}


class Engine:
    def __init__(self, name, net):
        self.name = name
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(space(name))
        RECORDS.append(Record(name, graph))

    def suspend(self):
        end(self.name)


class Rollout:
    def __init__(self, net):
        self.policy = Engine("policy", net)
        self.reference = Engine("reference", net)

    def close(self):
        self.policy.suspend()
        self.reference.suspend()
"""
OWN = "if record.owner == owner:\n            record.graph.reset()"
ALL = "record.graph.reset()"


@pytest.mark.parametrize(
    ("free", "records", "spaces", "is_reported"),
    [
        (OWN, "RECORDS[:] = [r for r in RECORDS if r.owner != owner]", "pass", False),
        (OWN, "RECORDS = [r for r in list(RECORDS) if r.owner != owner]", "pass", False),
        (OWN, "pass", "SPACES = {n: s for n, s in SPACES.items() if n != owner}", False),
        (OWN, "pass", "SPACES = {n: s.clone() for n, s in SPACES.items() if n != owner}", True),
        (OWN, "pass", "SPACES = {}", True),
        (ALL, "RECORDS.clear()", "pass", True),
        (OWN, "RECORDS.clear()", "pass", True),
    ],
)
def test_who_leaves_his_own_items_out_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: str, records: str, spaces: str, is_reported: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(PROGRAM.format(free=free, records=records, spaces=spaces))
    findings = check.check(["."], Settings(), registry.select(("shared-release", "duplicate-release"))).findings
    assert bool(findings) is is_reported
