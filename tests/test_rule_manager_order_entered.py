"""Memory of an object that its `__enter__` makes and its `__exit__` gives up."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROGRAM = """
import contextlib

import torch


class Bank:
    def __init__(self):
        self.states = None

    def __enter__(self):
        self.states = torch.zeros(4, device="cuda")
        return self

    def __exit__(self, *failure):
        self.states = None


class Steps:
    def __init__(self, bank: Bank, net):
        self.bank = bank
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            net(self.bank.states)

    def release(self):
        self.graph.reset()


"""
OUTSIDE = """
def serve(net, requests):
    steps = None
    try:
        with Bank() as bank:
            steps = Steps(bank, net)
            for each in requests:
                yield each
    finally:
        if steps is not None:
            steps.release()
"""
INSIDE = """
def serve(net, requests):
    with Bank() as bank:
        steps = Steps(bank, net)
        try:
            for each in requests:
                yield each
        finally:
            steps.release()
"""
STACK = """
def serve(net, requests):
    with contextlib.ExitStack() as stack:
        bank = stack.enter_context(Bank())
        steps = Steps(bank, net)
        stack.callback(steps.release)
        for each in requests:
            yield each
"""


@pytest.mark.parametrize(("serve", "expected"), [(OUTSIDE, ["steps.release()"]), (INSIDE, []), (STACK, [])])
def test_graphs_of_what_a_with_statement_ends(tmp_path: Path, serve: str, expected: list[str]) -> None:
    text = (PROGRAM + serve).lstrip("\n")
    (tmp_path / "m.py").write_text(text)
    findings = check.check([str(tmp_path)], Settings(), registry.select(("manager-order",))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == expected
