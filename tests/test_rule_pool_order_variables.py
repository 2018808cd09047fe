"""Memory of a dead graph's pool that a local variable still holds when the pool is erased; and views, masks and records of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PROBE = """
import gc
import torch


class Probe:
    def __init__(self, model):
        self.model = model

    def cost(self, rows):
        x = torch.zeros(rows, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            RECORD
        graph.replay()
        used = torch.cuda.memory_reserved()
        END
        return used
"""


def found(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "engines.py"
    path.write_text(text)
    report = check.check([str(path)], Settings(select=("pool-order",)), registry.rules())
    source = report.sources[str(path)]
    return [" ".join(source.text(finding.span).split()) for finding in report.findings]


def probe(record: str, end: str) -> str:
    gap = "\n        "
    return PROBE.replace("RECORD", record).replace("END", end.replace("; ", gap))


@pytest.mark.parametrize(
    "record", ["out = self.model(x)", "out, mid = self.model(x)", "out = x * 2", "out = self.model(x)[0]"]
)
@pytest.mark.parametrize(
    "end", ["graph.reset(); torch.cuda.empty_cache()", "graph.reset(); torch.cuda.empty_cache(); del out"]
)
def test_a_variable_holds_what_the_dead_graph_made(tmp_path: Path, record: str, end: str) -> None:
    assert found(tmp_path, probe(record, end)) == ["torch.cuda.empty_cache()"]


@pytest.mark.parametrize(
    "end",
    [
        "graph.reset(); del out; torch.cuda.empty_cache()",
        "del out; graph.reset(); torch.cuda.empty_cache()",
        "graph.reset(); out = None; torch.cuda.empty_cache()",
        "graph.reset(); out = used; torch.cuda.empty_cache()",
        "torch.cuda.empty_cache(); graph.reset()",
        "graph.reset()",
    ],
)
def test_it_may_be_dropped_before(tmp_path: Path, end: str) -> None:
    assert found(tmp_path, probe("out = self.model(x)", end)) == []


def test_what_a_capture_computes_of_sizes_is_no_memory(tmp_path: Path) -> None:
    text = probe("n = 4", "graph.reset(); torch.cuda.empty_cache()")
    assert found(tmp_path, text) == []


def test_a_copy_is_no_memory_of_the_pool(tmp_path: Path) -> None:
    text = probe("out = self.model(x)", "out = out.clone(); graph.reset(); torch.cuda.empty_cache()")
    assert found(tmp_path, text) == []


@pytest.mark.parametrize("view", ["view = out.view(-1)", "view = out[:2]", "view = out.detach()", "view = (out, x)"])
def test_a_view_holds_it_too(tmp_path: Path, view: str) -> None:
    text = probe("out = self.model(x)", f"{view}; del out; graph.reset(); torch.cuda.empty_cache(); print(view)")
    assert found(tmp_path, text) == ["torch.cuda.empty_cache()"]


LISTS = """
import torch


def cost(body, sizes):
    graphs, outs = [], []
    for n in sizes:
        x = torch.zeros(n, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outs.append(body(x))
        graphs.append((graph, x))
    for graph, _ in graphs:
        graph.reset()
    graphs.clear()
    END


def forget(items):
    items.clear()
"""


@pytest.mark.parametrize("end", ["torch.cuda.empty_cache()", "torch.cuda.empty_cache(); outs.clear()"])
def test_a_list_of_the_function_holds_outputs(tmp_path: Path, end: str) -> None:
    assert found(tmp_path, LISTS.replace("END", end.replace("; ", "\n    "))) == ["torch.cuda.empty_cache()"]


@pytest.mark.parametrize(
    "end",
    ["outs.clear()", "del outs", "outs = []", "outs[:] = []", "del outs[:]", "while outs: outs.pop()", "forget(outs)"],
)
def test_an_emptied_list_holds_none(tmp_path: Path, end: str) -> None:
    assert found(tmp_path, LISTS.replace("END", f"{end}\n    torch.cuda.empty_cache()")) == []


MOVED = """
import torch
from typing import NamedTuple


class Step(NamedTuple):
    graph: torch.cuda.CUDAGraph
    out: torch.Tensor


class Steps:
    def __init__(self, body):
        self.body = body
        self.steps: dict[int, Step] = {}

    def record(self, x):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.body(x)
        self.steps[x.shape[0]] = Step(graph, out)

    def end(self):
        TAKE
        for graph in [step.graph for step in old.values()]:
            graph.reset()
        END
"""


@pytest.mark.parametrize("take", ["old, self.steps = self.steps, {}", "old = dict(self.steps); self.steps.clear()"])
def test_a_table_that_a_variable_stands_for_holds_them(tmp_path: Path, take: str) -> None:
    text = MOVED.replace("TAKE", take.replace("; ", "\n        "))
    assert found(tmp_path, text.replace("END", "torch.cuda.empty_cache()")) == ["torch.cuda.empty_cache()"]
    assert found(tmp_path, text.replace("END", "old.clear(); torch.cuda.empty_cache()")) == []
    assert found(tmp_path, text.replace("END", "del old; torch.cuda.empty_cache()")) == []


def test_a_table_that_others_still_have_is_told_of_itself(tmp_path: Path) -> None:
    text = MOVED.replace("TAKE", "old = self.steps").replace("END", "old.clear(); torch.cuda.empty_cache()")
    assert found(tmp_path, text) == []


TOLD = """
import torch


class Watcher:
    def __init__(self):
        self.seen: dict[int, torch.Tensor] = {}

    def watch(self, n, item):
        self.seen[n] = KEPT

    def stop(self):
        self.seen.clear()


class Runner:
    def __init__(self, watcher: Watcher):
        self.watcher = watcher
        self.graphs = {}

    def body(self, x):
        best = x.softmax(dim=-1)
        return best, MASK

    def record(self, x):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out, mask = self.body(x)
        self.graphs[x.shape[0]] = graph
        self.watcher.watch(x.shape[0], mask)

    def end(self):
        self.graphs.clear()
        FIRST
        THEN
"""


@pytest.mark.parametrize("kept", ["item", "item.view(-1)", "item.detach()", "item[:4]"])
@pytest.mark.parametrize("mask", ["best.sum()", "best > 0.5"])
def test_whoever_was_handed_a_part_of_it_holds_it(tmp_path: Path, kept: str, mask: str) -> None:
    text = TOLD.replace("KEPT", kept).replace("MASK", mask)
    erase, stop = "torch.cuda.empty_cache()", "self.watcher.stop()"
    assert found(tmp_path, text.replace("FIRST", erase).replace("THEN", stop)) == [erase]
    assert found(tmp_path, text.replace("FIRST", stop).replace("THEN", erase)) == []


def test_whoever_copied_it_does_not(tmp_path: Path) -> None:
    text = TOLD.replace("KEPT", "item.cpu()").replace("MASK", "best.sum()")
    assert (
        found(tmp_path, text.replace("FIRST", "torch.cuda.empty_cache()").replace("THEN", "self.watcher.stop()")) == []
    )


READING = """
import torch


class Target:
    def __init__(self, body, x):
        self.graphs = {}
        self.hidden = {}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = body(x)
        self.graphs[8] = graph
        self.hidden[8] = out

    def at(self, n):
        return self.hidden[n]

    def end(self):
        self.graphs.clear()
        self.hidden.clear()
        torch.cuda.empty_cache()


class Draft:
    def __init__(self, target: Target):
        self.inputs = {n: target.at(n) for n in (8, 16, 32)}

    def end(self):
        self.inputs.clear()


class Worker:
    def __init__(self, body, x):
        self.target = Target(body, x)
        self.draft = Draft(self.target)

    def end(self):
        FIRST
        THEN
"""


def test_a_table_of_what_another_one_gave(tmp_path: Path) -> None:
    one, other = "self.target.end()", "self.draft.end()"
    assert found(tmp_path, READING.replace("FIRST", one).replace("THEN", other)) == [one]
    assert found(tmp_path, READING.replace("FIRST", other).replace("THEN", one)) == []


TRIALS = """
from dataclasses import dataclass

import torch


@dataclass
class Trial:
    name: str
    out: torch.Tensor


class Tuner:
    def record(self, variant, x):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = variant(x)
        return graph, out

    def pick(self, variants, x):
        kept = []
        for name, variant in variants:
            TAKE
            graph.reset()
            KEEP
        END
        return [each for each in kept]
"""
BOTH = "graph, out = self.record(variant, x)"
PAIR = "pair = self.record(variant, x); graph = pair[0]"


@pytest.mark.parametrize(
    ("take", "keep", "end", "expected"),
    [
        (BOTH, "kept.append(out); del out", "", 1),
        (BOTH, "kept.append(Trial(name, out)); del out", "", 1),
        (BOTH, "trial = Trial(name, out); del out", "torch.cuda.empty_cache()", 2),
        (PAIR, "kept.append(pair[1]); del pair", "", 1),
        (BOTH, "kept.append(float(out.sum())); del out", "", 0),
        (BOTH, "kept.append(name); del out", "torch.cuda.empty_cache()", 0),
        (PAIR, "kept.append(pair[1].clone()); del pair", "", 0),
    ],
)
def test_a_list_of_what_each_round_records_holds_outputs(
    tmp_path: Path, take: str, keep: str, end: str, expected: int
) -> None:
    gap = "\n            "
    text = TRIALS.replace("TAKE", take.replace("; ", gap)).replace("KEEP", keep.replace("; ", gap)).replace("END", end)
    assert len(found(tmp_path, text)) == expected


TAPPED = """
import torch


class Taps:
    def __init__(self):
        self.taps: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def attach(self, n, values, places):
        self.taps[n] = (values, places)

    def detach(self):
        self.taps.clear()


class Steps:
    def __init__(self, net):
        self.net = net
        self.graphs = {}

    def record(self, x):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            values, places = self.net(x).topk(4)
        self.graphs[x.shape[0]] = graph
        return values, places

    def drop(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()


class Worker:
    def __init__(self, net):
        self.steps = Steps(net)
        self.taps = Taps()

    def wake(self, x):
        HAND

    def sleep(self):
        self.steps.drop()
        FIRST
        THEN
"""


@pytest.mark.parametrize(
    "hand",
    ["self.taps.attach(4, *self.steps.record(x))", "v, p = self.steps.record(x)\n        self.taps.attach(4, v, p)"],
)
def test_another_object_was_handed_what_the_graphs_of_a_third_gave(tmp_path: Path, hand: str) -> None:
    text = TAPPED.replace("HAND", hand)
    erase, detach = "torch.cuda.empty_cache()", "self.taps.detach()"
    assert found(tmp_path, text.replace("FIRST", erase).replace("THEN", detach)) == [erase]
    assert found(tmp_path, text.replace("FIRST", detach).replace("THEN", erase)) == []


LEFT = """
import torch


class Runner:
    def __init__(self, net):
        self.net = net
        self.graphs = {}
        self.outs = {}

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.net(n)
        self.graphs[n] = graph
        self.outs[n] = out

    def sleep(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        torch.cuda.empty_cache()

    def OTHER(self):
        DO
"""


@pytest.mark.parametrize(
    ("other", "do", "is_reported"),
    [
        ("wake", "self.outs.clear()", True),
        ("wake", "self.outs = {}", True),
        ("wake", "self.record(4)", False),
        ("__del__", "self.outs.clear()", False),
        ("close", "self.outs.clear(); self.sleep()", False),
    ],
)
def test_what_another_method_empties_is_held_over_the_erasure(
    tmp_path: Path, other: str, do: str, is_reported: bool
) -> None:
    text = LEFT.replace("OTHER", other).replace("DO", do)
    assert found(tmp_path, text) == (["torch.cuda.empty_cache()"] if is_reported else [])


OWNED = """
import torch


class Engine:
    def __init__(self, net):
        self.graphs = {}
        self.outs = {}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = net(4)
        self.graphs[4] = graph
        self.outs[4] = out

    def release(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()


class Executor:
    def __init__(self, net):
        self.engine = Engine(net)

    def shutdown(self):
        if self.engine is None:
            return
        self.engine.release()
        END
"""


@pytest.mark.parametrize("drop", ["self.engine = None", "del self.engine"])
def test_outputs_go_with_the_object_that_holds_them(tmp_path: Path, drop: str) -> None:
    erase = "torch.cuda.empty_cache()"
    assert found(tmp_path, OWNED.replace("END", f"{erase}\n        {drop}")) == [erase]
    assert found(tmp_path, OWNED.replace("END", f"{drop}\n        {erase}")) == []
    assert found(tmp_path, OWNED.replace("END", erase)) == []


PIECES = """
import torch


class Piece:
    def __init__(self, fn):
        self.fn = fn
        self.graph = None
        self.result = None


class Pieces:
    def __init__(self, fns, x):
        self.pieces = [Piece(fn) for fn in fns]
        self.x = x

    def record(self):
        for piece in self.pieces:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = piece.fn(self.x)
            piece.graph, piece.result = graph, result

    def discard(self):
        for piece in self.pieces:
            piece.graph = None
            EARLY
        torch.cuda.empty_cache()
        for piece in self.pieces:
            piece.result = None
"""


@pytest.mark.parametrize(("early", "is_reported"), [("pass", True), ("piece.result = None", False)])
def test_outputs_of_a_record_go_before_the_pool(tmp_path: Path, early: str, is_reported: bool) -> None:
    text = PIECES.replace("EARLY", early)
    assert found(tmp_path, text) == (["torch.cuda.empty_cache()"] if is_reported else [])


PARKING = """
import torch


class Parking:
    def __init__(self, net, inputs):
        self.net, self.inputs = net, inputs
        self.graphs, self.states = {{}}, {{}}

    def record(self):
        for n, x in self.inputs.items():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.states[n] = self.net(x)
            self.graphs[n] = graph

    def forget(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        self.states.clear()

    def park(self, n):
        {take}
        self.forget()
        {between}
        torch.cuda.empty_cache()
        self.parked = {parked}
"""


@pytest.mark.parametrize(
    ("take", "between", "parked", "expected"),
    [
        ("state = self.states[n]", "pass", 'state.to("cpu")', 1),
        ("state = self.states.get(n)", "pass", 'state.to("cpu")', 1),
        ("state = self.states[n]", 'state = state.to("cpu")', "state", 0),
        ("state = self.states[n]", "del state", "n", 0),
        ('state = self.states[n].to("cpu")', "pass", "state", 0),
        ("state = self.states[n].clone()", "pass", "state", 0),
        ("size = self.states[n].shape[0]", "pass", "size", 0),
        ("state = self.states.get(n)\n        if state is not None: return state", "pass", "state", 0),
    ],
)
def test_a_variable_has_an_item_of_the_table_that_a_call_empties(
    tmp_path: Path, take: str, between: str, parked: str, expected: int
) -> None:
    path = tmp_path / "parking.py"
    path.write_text(PARKING.format(take=take, between=between, parked=parked))
    report = check.check([str(path)], Settings(select=("pool-order",)), registry.rules())
    assert len(report.findings) == expected


FULL = """
import torch


class Cache:
    def __init__(self, net, most):
        self.net, self.most, self.entries = net, most, {}

    def flush(self):
        for entry in self.entries.values():
            entry[1].reset()
        self.entries.clear()

    def capture(self, n):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                out = self.net(n)
        except RuntimeError:
            self.flush()
            return None
        return out, graph

    def run(self, n):
        entry = self.entries.get(n)
        if entry is None:
            if len(self.entries) >= self.most:
                self.flush()
            entry = self.capture(n)
            if entry is None:
                return self.net(n)
            self.entries[n] = entry
        out, graph = entry
        graph.replay()
        return out.clone()
"""


def test_a_lookup_that_found_none_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cache.py"
    path.write_text(FULL)
    assert check.check([str(path)], Settings(select=("pool-order",)), registry.rules()).findings == ()
