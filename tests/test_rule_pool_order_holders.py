"""Which memory of a graph's pool is seen where another object holds it than the one that captured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "pool-order"


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(text: str) -> list[str]:
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    whole = text.encode()
    return [whole[slice(*each.span)].decode() for each in findings]


PROGRAM = """
import asyncio
from functools import partial

import torch


class Target:
    def __init__(self, model, inputs):
        self.model = model
        self.inputs = inputs
        self.hooks = []
        self.steps = {{}}

    def drop(self):
        while self.steps:
            self.steps.popitem()[1][0].reset()

    def record(self, sink):
        seen = {{}}
        for n, x in self.inputs.items():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                logits, hidden = self.model(x)
            self.steps[n] = (graph, logits)
            {give}
        return seen


class Drafter:
    def __init__(self):
        self.hidden = {{}}

    def bind(self, n, hidden):
        self.keep(n, hidden)

    def keep(self, n, hidden):
        self.hidden[n] = hidden

    def unbind(self):
        self.hidden.clear()


class Server:
    def __init__(self, model, inputs):
        self.target = Target(model, inputs)
        self.drafter = Drafter()
        self.hidden = {{}}
        {start}

    async def suspend(self):
        self.target.drop()
        {end}
"""

ERASE = "torch.cuda.empty_cache()"
HOLDERS: Mapping[str, tuple[str, str, str]] = {
    "a method that is handed in": ("sink(n, hidden)", "self.target.record(self.drafter.bind)", "self.drafter.unbind()"),
    "a method with arguments": (
        "sink(hidden=hidden)",
        "self.target.record(partial(self.drafter.bind, 3))",
        "self.drafter.unbind()",
    ),
    "an object that is handed in": (
        "sink.keep(n, hidden)",
        "self.target.record(self.drafter)",
        "self.drafter.hidden = {}",
    ),
    "its attribute": ("sink.hidden[n] = hidden", "self.target.record(self.drafter)", "self.drafter.unbind()"),
    "a table that is handed in": ("sink[n] = hidden", "self.target.record(self.hidden)", "self.hidden.clear()"),
    "a table by its method": (
        "sink.__setitem__(n, hidden)",
        "self.target.record(self.hidden)",
        "self.hidden.clear()",
    ),
    "a function": (
        "sink(n, hidden)",
        "self.target.record(lambda n, each: self.hidden.update({n: each}))",
        "self.hidden.clear()",
    ),
    "who asked for it": ("seen[n] = hidden", "self.hidden = self.target.record(None)", "self.hidden = None"),
}


@pytest.mark.parametrize(("give", "start", "release"), HOLDERS.values(), ids=HOLDERS)
def test_memory_that_another_object_holds(give: str, start: str, release: str) -> None:
    late = PROGRAM.format(give=give, start=start, end=f"{ERASE}\n        {release}")
    early = PROGRAM.format(give=give, start=start, end=f"{release}\n        {ERASE}")
    assert reported(late) == [ERASE]
    assert reported(early) == []


def test_what_is_no_memory_of_the_pool_may_go_later() -> None:
    cloned = PROGRAM.format(
        give="sink(n, hidden.clone())",
        start="self.target.record(self.drafter.bind)",
        end=f"{ERASE}\n        self.drafter.unbind()",
    )
    assert reported(cloned) == []


def test_the_graphs_of_another_object_of_the_class_read_other_memory() -> None:
    two = PROGRAM.format(
        give="sink(n, hidden)",
        start="self.target.record(self.drafter.bind)\n        self.draft = Target(model, inputs)\n"
        "        self.spare = Drafter()\n        self.draft.record(self.spare.bind)",
        end=f"self.drafter.unbind()\n        {ERASE}\n        self.target.steps.clear()",
    )
    assert reported(two) == []


@pytest.mark.parametrize("run", ["await asyncio.to_thread({})", "await loop.run_in_executor(None, {})"])
def test_a_thread_may_empty_the_cache(run: str) -> None:
    erase = run.format("torch.cuda.empty_cache")
    program = PROGRAM.format(
        give="sink(n, hidden)",
        start="self.target.record(self.drafter.bind)",
        end=f"loop = asyncio.get_running_loop()\n        {erase}\n        self.drafter.unbind()",
    )
    assert [text.removeprefix("await ") for text in reported(program)] == [erase.removeprefix("await ")]


AGAIN = """
import torch


class Steps:
    def __init__(self, model):
        self.model = model
        self.graphs = {{}}
        self.outs = {{}}

    def record(self, inputs):
        for n, x in inputs.items():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = self.model(x)
            self.graphs[n] = graph
            self.outs[n] = out

    def again(self, n, inputs):
        {end}
        self.record(inputs)
"""


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("while self.graphs:\n            self.graphs.popitem()[1].reset()", ["self.record(inputs)"]),
        ("for graph in self.graphs.values():\n            graph.reset()", ["self.record(inputs)"]),
        ("while self.graphs:\n            self.graphs.popitem()[1].reset()\n        self.outs.clear()", []),
        ("self.outs = {}\n        self.graphs.clear()", []),
        ("self.graphs.pop(n).reset()", []),  # the others keep the pool
    ],
)
def test_what_dead_graphs_made_is_in_the_table_until_the_next_ones_fill_it(end: str, expected: list[str]) -> None:
    assert reported(AGAIN.format(end=end)) == expected


SLEEPERS = """
import torch


class Steps:
    def __init__(self, net, inputs):
        self.net, self.inputs = net, inputs
        self.graphs, self.outputs, self.gates = {{}}, {{}}, {{}}

    def record(self):
        for n, x in self.inputs.items():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.outputs[n], self.gates[n] = self.net(x)
            self.graphs[n] = graph

    def balance(self, n):
        return self.gates[n].mean()

    def reset(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        self.outputs.clear()
        {own}

    def forget(self):
        self.gates.clear()


class Sleeper:
    def __init__(self, models: list[Steps]):
        self.models = models

    def wake(self):
        for model in self.models:
            model.forget()
            model.record()

    def sleep(self):
        for model in self.models:
            model.reset()
            {each}
        torch.cuda.empty_cache()

    def close(self):
        {before}
        self.sleep()
"""


@pytest.mark.parametrize(
    ("own", "each", "before", "expected"),
    [
        ("pass", "pass", "pass", [ERASE]),
        ("self.gates.clear()", "pass", "pass", []),
        ("pass", "model.forget()", "pass", []),
        ("pass", "model.gates.clear()", "pass", []),
        ("pass", "pass", "for model in self.models: model.forget()", []),
    ],
)
def test_each_of_several_objects_keeps_what_its_own_method_empties(
    own: str, each: str, before: str, expected: list[str]
) -> None:
    assert reported(SLEEPERS.format(own=own, each=each, before=before)) == expected
