"""Memory that code which is captured keeps of its own accord, and a release of it that was registered."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings


def found(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "engines.py"
    path.write_text(text)
    report = check.check([str(path)], Settings(select=("pool-order",)), registry.rules())
    source = report.sources[str(path)]
    return [" ".join(source.text(finding.span).split()) for finding in report.findings]


KEEPING = """
import torch


class Taps:
    def __init__(self):
        self.by_layer = {}

    def __setitem__(self, layer, item):
        self.by_layer[layer] = item

    def __delitem__(self, layer):
        del self.by_layer[layer]

    def drop(self):
        self.by_layer = {}


class Runner:
    def __init__(self, layers):
        self.layers = layers
        self.taps = Taps()
        self.steps = 0
        self.last = None
        self.graph = None

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            KEEP
        self.steps = self.steps + 1
        return x

    def start(self, x):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            out = self.forward(x)

    def stop(self):
        self.graph.reset()
        FIRST
        THEN
"""


@pytest.mark.parametrize(
    ("keep", "drop"),
    [
        ("self.taps[i] = x", "self.taps.drop()"),
        ("self.last = x", "self.last = None"),
        ("self.last = x.softmax(-1)", "self.last = None"),
        ("self.last, _ = layer.parts(x)", "self.last = None"),
    ],
)
def test_code_that_is_captured_keeps_what_it_computes(tmp_path: Path, keep: str, drop: str) -> None:
    text, erase = KEEPING.replace("KEEP", keep), "torch.cuda.empty_cache()"
    assert found(tmp_path, text.replace("FIRST", erase).replace("THEN", drop)) == [erase]
    assert found(tmp_path, text.replace("FIRST", drop).replace("THEN", erase)) == []


@pytest.mark.parametrize(
    ("keep", "drop"),
    [
        ("self.last = i", "self.last = None"),
        ("self.last = x.size(0)", "self.last = None"),
        ("pass", "self.steps = None"),
    ],
)
def test_numbers_that_it_keeps_are_no_memory(tmp_path: Path, keep: str, drop: str) -> None:
    text = KEEPING.replace("KEEP", keep).replace("FIRST", "torch.cuda.empty_cache()").replace("THEN", drop)
    assert found(tmp_path, text) == []


REGISTERED = """
import torch


class Sink:
    def __init__(self):
        self.last = {}

    def accept(self, n, item):
        self.last[n] = item

    def clear(self):
        self.last.clear()


class Steps:
    def __init__(self, body):
        self.body = body
        self.graphs = {}
        self.ends = []

    def add(self, x, sink):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.body(x)
        self.graphs[x.shape[0]] = graph
        sink.accept(x.shape[0], out)
        self.ends.append(sink.clear)

    def close(self):
        for graph in self.graphs.values():
            graph.reset()
        FIRST
        THEN


def main(body, x):
    steps, sink = Steps(body), Sink()
    steps.add(x, sink)
"""


def test_a_release_that_was_registered_is_of_nobody_in_sight(tmp_path: Path) -> None:
    erase, ends = "torch.cuda.empty_cache()", "[end() for end in self.ends]"
    assert found(tmp_path, REGISTERED.replace("FIRST", erase).replace("THEN", ends)) == [erase]
    assert found(tmp_path, REGISTERED.replace("FIRST", ends).replace("THEN", erase)) == []


FALLBACK = """
import torch


class Steps:
    def __init__(self, body):
        self.body = body
        self.steps = {}

    def record(self, x):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                out = self.body(x)
            self.steps[x.shape[0]] = (graph, out)
            AFTER
        except RuntimeError:
            graph.reset()
            torch.cuda.empty_cache()
            return None
        return out

    def swap(self, xs):
        before, self.steps = self.steps, {}
        for x in xs:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = self.body(x)
            self.steps[x.shape[0]] = (graph, out)
        for graph, _ in before.values():
            graph.reset()
        before.clear()
        torch.cuda.empty_cache()
"""


def test_a_capture_that_failed_gave_nothing(tmp_path: Path) -> None:
    assert found(tmp_path, FALLBACK.replace("AFTER", "pass")) == []


def test_what_is_checked_after_a_capture_may_fail_with_its_outputs_there(tmp_path: Path) -> None:
    assert found(tmp_path, FALLBACK.replace("AFTER", "self.check(out); graph.replay()")) == ["torch.cuda.empty_cache()"]


def test_a_weak_reference_holds_nothing(tmp_path: Path) -> None:
    text = KEEPING.replace("KEEP", "pass").replace("out = self.forward(x)", "self.out = self.forward(x)")
    text = text.replace("return x\n\n    def start", "return x * 2\n\n    def start").replace(
        "import torch", "import torch, weakref"
    )
    text = text.replace("(self.graph):\n", "(self.graph):\n").replace(
        "FIRST", "self.out = None\n        torch.cuda.empty_cache()"
    )
    text = text.replace(
        "self.out = self.forward(x)\n", "self.out = self.forward(x)\n        self.last = REF(self.out)\n"
    )
    text = text.replace("THEN", "self.last = None")
    assert found(tmp_path, text.replace("REF", "weakref.ref")) == []
    assert found(tmp_path, text.replace("REF", "tuple")) == ["torch.cuda.empty_cache()"]


CARRIED = """
import torch


class Step:
    def __init__(self, body, x):
        self.x = x
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = body(x)

    def play(self):
        self.graph.replay()
        return self.out.clone()

    def reset(self):
        self.graph.reset()
        MORE


class Steps:
    def __init__(self, body):
        self.body = body
        self.steps = {}

    def add(self, x):
        self.steps[x.shape[0]] = Step(self.body, x)

    def sleep(self):
        for step in self.steps.values():
            step.reset()
        FIRST
        THEN
"""


def test_an_object_that_never_gives_up_its_output_carries_it(tmp_path: Path) -> None:
    erase, drop = "torch.cuda.empty_cache()", "self.steps.clear()"
    text = CARRIED.replace("MORE", "pass")
    assert found(tmp_path, text.replace("FIRST", erase).replace("THEN", drop)) == [erase]
    assert found(tmp_path, text.replace("FIRST", drop).replace("THEN", erase)) == []


@pytest.mark.parametrize("more", ["self.out = None", "del self.out"])
def test_one_that_gives_it_up_does_not(tmp_path: Path, more: str) -> None:
    text = CARRIED.replace("MORE", more)
    assert (
        found(tmp_path, text.replace("FIRST", "torch.cuda.empty_cache()").replace("THEN", "self.steps.clear()")) == []
    )


PLACES = """
import torch


class Pair:
    def __init__(self, graph, out):
        self.graph = graph
        self.out = out


class Ring:
    def __init__(self, body, size):
        self.body = body
        self.seen = {}
        self.ring = [None] * size
        body.register_forward_hook(self.see)

    def see(self, module, args, output):
        self.seen[module] = KEPT

    def fill(self, i, x):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.body(x)
        self.ring[i] = Pair(graph, out)

    def drain(self):
        for each in self.ring:
            if each is not None:
                each.graph.reset()
        FIRST
        THEN
        LAST
"""


def test_a_list_of_nothing_takes_the_place_of_one_with_outputs(tmp_path: Path) -> None:
    text = PLACES.replace("KEPT", "1").replace("LAST", "pass")
    erase, drop = "torch.cuda.empty_cache()", "self.ring = [None] * len(self.ring)"
    assert found(tmp_path, text.replace("FIRST", erase).replace("THEN", drop)) == [erase]
    assert found(tmp_path, text.replace("FIRST", drop).replace("THEN", erase)) == []


def test_a_hook_sees_what_captures_compute(tmp_path: Path) -> None:
    text = PLACES.replace("FIRST", "self.ring = []")
    erase, drop = "torch.cuda.empty_cache()", "self.seen.clear()"
    assert found(tmp_path, text.replace("KEPT", "output").replace("THEN", erase).replace("LAST", drop)) == [erase]
    assert found(tmp_path, text.replace("KEPT", "output").replace("THEN", drop).replace("LAST", erase)) == []
    assert found(tmp_path, text.replace("KEPT", "output.shape").replace("THEN", erase).replace("LAST", drop)) == []


@pytest.mark.parametrize(("end", "times"), [("self.hidden.clear()", 0), ("self.hidden = {}", 1)])
def test_one_container_under_two_names_is_emptied_for_both(tmp_path: Path, end: str, times: int) -> None:
    text = f"""
import torch


class Target:
    def __init__(self, body, x):
        self.graphs = {{}}
        self.hidden = {{}}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = body(x)
        self.graphs[8] = graph
        self.hidden[8] = out

    def end(self):
        self.graphs.clear()
        {end}
        torch.cuda.empty_cache()


class Draft:
    def __init__(self, target: Target):
        self.hidden = target.hidden

    def end(self):
        self.hidden = None


class Worker:
    def __init__(self, body, x):
        self.target = Target(body, x)
        self.draft = Draft(self.target)

    def end(self):
        self.target.end()
        self.draft.end()
"""
    assert found(tmp_path, text) == ["self.target.end()"] * times
