"""Memory that is replaced where the graphs that read it are captured anew in the same call, or where nothing is replaced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "workspace-growth"

HEAD = """import enum
import torch


class Phase(enum.Enum):
    JOINED = "joined"
    SPLIT = "split"
    EAGER = "eager"


class Halves:
    def __init__(self):
        self.left = torch.cuda.CUDAGraph()
        self.right = torch.cuda.CUDAGraph()


class Decoder:
    def __init__(self, net, phase):
        self.net = net
        self.phase = phase
        self.rows = None
        self.joined = None
        self.halves = None
        self.steps = {}

    def _record(self):
        self.joined = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.joined):
            self.out = self.net(self.rows)

    def _record_halves(self):
        self.halves = Halves()
        with torch.cuda.graph(self.halves.left):
            self.mid = self.net(self.rows)
        with torch.cuda.graph(self.halves.right):
            self.out = self.net(self.mid)

    def _is_short(self, x):
        return self.rows is None or self.rows.shape[0] < x.shape[0]

    def _grow(self, x):
        self.rows = torch.zeros(x.shape[0], 16, device="cuda")
"""

RENEWED: Mapping[str, str] = {
    "the one graph": """
    def _record_halves(self):
        pass

    def run(self, x):
        if self._is_short(x):
            self._grow(x)
            self._record()
        self.joined.replay()
""",
    "of each phase, by the test that chooses what is replayed": """
    def _renew(self, x):
        self._grow(x)
        if self.phase is Phase.JOINED:
            self._record()
        elif self.phase is Phase.SPLIT:
            self._record_halves()
        elif self.phase is not Phase.EAGER:
            raise NotImplementedError

    def run(self, x):
        if self._is_short(x):
            self._renew(x)
        if self.phase is Phase.JOINED:
            self.joined.replay()
        elif self.phase is Phase.SPLIT:
            self.halves.left.replay()
            self.halves.right.replay()
""",
    "the phase changes, and the memory goes": """
    def choose(self, phase):
        self.phase = phase
        self.rows = None

    def run(self, x):
        if self._is_short(x):
            self._grow(x)
            if self.phase is Phase.JOINED:
                self._record()
            if self.phase is Phase.SPLIT:
                self._record_halves()
        if self.phase is Phase.JOINED:
            self.joined.replay()
        if self.phase is Phase.SPLIT:
            self.halves.left.replay()
            self.halves.right.replay()
""",
    "a capture may fail, and others are captured": """
    def _renew(self, x):
        self._grow(x)
        if self.phase is Phase.JOINED:
            try:
                self._record()
            except RuntimeError:
                self.phase = Phase.SPLIT
                self._record_halves()
        elif self.phase is Phase.SPLIT:
            self._record_halves()

    def run(self, x):
        if self._is_short(x):
            self._renew(x)
        if self.phase is Phase.JOINED:
            self.joined.replay()
        elif self.phase is Phase.SPLIT:
            self.halves.left.replay()
            self.halves.right.replay()
""",
    "the others are given up": """
    def run(self, x):
        if self._is_short(x):
            self._grow(x)
            self.halves = None
            self._record()
        self.joined.replay()
""",
}

STALE: Mapping[str, str] = {
    "only one of two": """
    def run(self, x):
        if self._is_short(x):
            self._grow(x)
            self._record()
        self.joined.replay()

    def run_split(self, x):
        if self.halves is None:
            self._record_halves()
        self.halves.left.replay()
        self.halves.right.replay()
""",
    "only where something else asks for it": """
    def _record_halves(self):
        pass

    def run(self, x):
        if self._is_short(x):
            self._grow(x)
            if self.phase is Phase.JOINED:
                self._record()
        if self.joined is not None:
            self.joined.replay()
""",
    "the phase changes, and the memory stays": """
    def choose(self, phase):
        self.phase = phase

    def run(self, x):
        if self._is_short(x):
            self._grow(x)
            if self.phase is Phase.JOINED:
                self._record()
            else:
                self._record_halves()
        if self.phase is Phase.JOINED:
            self.joined.replay()
        else:
            self.halves.left.replay()
            self.halves.right.replay()
""",
    "before the memory is replaced": """
    def _record_halves(self):
        pass

    def run(self, x):
        if self._is_short(x):
            if self.rows is not None:
                self._record()
            self._grow(x)
        self.joined.replay()
""",
    "replayed before it": """
    def _record_halves(self):
        pass

    def run(self, x):
        if self._is_short(x):
            self._grow(x)
            self.joined.replay()
            self._record()
        self.joined.replay()
""",
    "one of a table": """
    def _record_halves(self):
        pass

    def _record(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.out = self.net(self.rows)
        self.steps[self.rows.shape[0]] = graph

    def run(self, x):
        if self._is_short(x):
            self._grow(x)
            self._record()
        self.steps[x.shape[0]].replay()
""",
    "a capture may fail": """
    def _record_halves(self):
        pass

    def _record(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.out = self.net(self.rows)
        self.joined = graph

    def run(self, x):
        if self._is_short(x):
            self._grow(x)
            try:
                self._record()
            except RuntimeError:
                print("not captured")
        self.joined.replay()
""",
    "a subclass captures as well": """
    def _record_halves(self):
        pass

    def run(self, x):
        if self._is_short(x):
            self._grow(x)
            self._record()
        self.joined.replay()


class Drafting(Decoder):
    def draft(self):
        self.first = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.first):
            self.out = self.net(self.rows)

    def guess(self):
        self.first.replay()
""",
    "another graph is given to the caller": """
    def _record_halves(self):
        pass

    def export(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net(self.rows)
        return graph

    def run(self, x):
        if self._is_short(x):
            self._grow(x)
            self._record()
        self.joined.replay()
""",
    "another object captures what reads it": """
    def _record_halves(self):
        pass

    def run(self, x):
        if self._is_short(x):
            self._grow(x)
            self._record()
        self.joined.replay()


class Batch:
    def __init__(self, decoder: Decoder, net):
        self.decoder = decoder
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            net(self.decoder.rows)

    def step(self):
        self.graph.replay()
""",
}


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(text: str) -> list[str]:
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(preview=True), registry.select((RULE,))).findings
    whole = Path("m.py").read_bytes()
    return [whole[slice(*each.span)].decode() for each in findings]


@pytest.mark.parametrize("name", RENEWED)
def test_silent_where_all_graphs_are_captured_anew(name: str) -> None:
    assert reported(HEAD + RENEWED[name]) == []


@pytest.mark.parametrize("name", STALE)
def test_reported_where_a_graph_stays(name: str) -> None:
    (found,) = reported(HEAD + STALE[name])
    assert "self._grow(x)" in found or "self.rows = " in found


SHARED = """import torch


class Room:
    def __init__(self):
        self.rows = torch.zeros(4, 8, device="cuda")


class Decoder:
    def __init__(self, net, room: Room):
        self.net = net
        self.room = room
        self.graph = None

    def run(self, x):
        if self.room.rows.shape[0] < x.shape[0]:
            self.room.rows = torch.zeros(x.shape[0], 8, device="cuda")
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = self.net(self.room.rows)
        self.graph.replay()
"""


def test_what_another_object_keeps_may_be_read_by_others() -> None:
    assert len(reported(SHARED)) == 1


TWINS = """import torch


class Shapes:
    def __init__(self, net, limit):
        self.net = net
        self.limit = limit
        self.lazy = 0
        self.given = {}
        self.graphs = {}

    def _record(self, rows, width):
        key = (rows, width)
        given = torch.zeros(rows, width, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net(given)
        self.graphs[GRAPH] = graph
        self.given[key] = given

    def run(self, x):
        key = (x.shape[0], x.shape[1])
        if key not in self.graphs:
            if self.lazy >= self.limit:
                return self.net(x)
            self._record(*key)
            self.lazy += 1
        self.given[key].copy_(x)
        self.graphs[key].replay()
"""


@pytest.mark.parametrize(("key", "count"), [("key", 0), ("rows", 1)])
def test_memory_and_its_graph_have_one_key(key: str, count: int) -> None:
    """A graph under another key stays, and reads what was there before."""
    assert len(reported(TWINS.replace("GRAPH", key))) == count


REGION = """import torch


class Steps:
    def __init__(self, net):
        self.net = net
        self.given: dict[int, torch.Tensor] = {}
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def record(self, width):
        self.given[width] = torch.zeros(1, width, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net(self.given[width])
        self.graphs[width] = graph

    def step(self, x, width):
        if x.shape[1] > self.given[width].shape[1]:
            WIDE
        self.given[width]REGION = x
        self.graphs[width].replay()


class Model:
    def __init__(self, net):
        self.steps = Steps(net)

    def forward(self, parts, width):
        return self.steps.step(torch.cat(parts, dim=1), width)
"""


@pytest.mark.parametrize(
    ("region", "wide", "count"),
    [("[:, : x.shape[1]]", "return", 0), ("[..., 0]", "return", 0), ("[:, :0]", "self.given[width] = x", 1)],
)
def test_a_region_of_a_tensor_is_written_in_place(region: str, wide: str, count: int) -> None:
    assert len(reported(REGION.replace("REGION", region).replace("WIDE", wide))) == count


OPTIONAL = """import torch


class Net:
    def __init__(self, layers, width):
        self.layers = layers
        self.width = width
        self.angles = None

    def _angles_for(self, n: int) -> torch.Tensor:
        if self.angles is None or self.angles.shape[0] < n:
            self.angles = torch.zeros(n, self.width, device="cuda")
        return self.angles[:n].contiguous()

    def forward(self, x, angles: torch.Tensor | None = None):
        if angles is None:
            angles = self._angles_for(x.shape[0])
        return self.layers(x, angles)

    def step(self, x, angles: torch.Tensor | None = None):
        return self.forward(x, angles=angles)


class Steps:
    def __init__(self, net: Net):
        self.net = net
        self.graphs = {}

    def record(self, n):
        x = torch.zeros(n, 8, device="cuda")
        graph = torch.cuda.CUDAGraph()
        angles = MADE
        with torch.cuda.graph(graph):
            out = self.net.step(x, GIVEN)
        self.graphs[n] = (graph, x, angles, out)

    def run(self, n):
        self.graphs[n][0].replay()
"""


@pytest.mark.parametrize(
    ("made", "given", "count"),
    [
        ("self.net._angles_for(n)", "angles", 0),
        ("torch.zeros(n, 8, device='cuda')", "angles=angles", 0),
        ("None", "angles", 1),
        ("self.maybe(n)", "angles", 1),
        ("None", "None", 1),
        ("torch.zeros(1)", "", 1),
    ],
)
def test_a_capture_gives_what_would_be_made_otherwise(made: str, given: str, count: int) -> None:
    maybe = "\n\n    def maybe(self, n):\n        return torch.zeros(n) if n > 4 else None\n"
    text = OPTIONAL.replace("MADE", made).replace("x, GIVEN", f"x, {given}" if given else "x")
    Path("m.py").write_text(text + maybe)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert len([each for each in findings if each.severity.value != "note"]) == count


SHAPED = """import torch
from torch import nn


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("NAME", torch.tensor([1.0], device="cuda"))

    def forward(self, x, found):
        if self.NAME.TEST:
            self.NAME.resize_(found.shape)
        self.NAME.copy_(found)
        return x * self.NAME
"""


@pytest.mark.parametrize(
    ("name", "test", "severity"),
    [
        ("scale", "shape != found.shape", "note"),
        ("scale", "numel() < found.numel()", "error"),
        ("workspace", "shape != found.shape", "error"),
    ],
)
def test_state_that_gets_another_shape_where_nothing_is_captured(name: str, test: str, severity: str) -> None:
    Path("m.py").write_text(SHAPED.replace("NAME", name).replace("TEST", test))
    (found,) = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert found.severity.value == severity


STEP = """import torch


class Requests:
    def __init__(self):
        self.table = {}

    def of(self, name):
        return self.table[name]


class Sampler:
    def __init__(self, net, requests: Requests):
        self.net = net
        self.requests = requests
        self.order = 0
        self.noise = None

    def step(self, x, name):
        state = self.requests.of(name)
        self.order = self.order + x.ndim
        CHECK
        WRITE
        return self.net(x)


class Steps:
    def __init__(self, net):
        self.x = torch.zeros(8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = net(self.x)
"""


@pytest.mark.parametrize(
    ("check_", "write", "count"),
    [
        ("assert self.order > 0", "self.noise = torch.randn(x.shape, device='cuda')", 0),
        ("assert state.shape == x.shape", "state.noise = torch.randn(x.shape, device='cuda')", 0),
        ("state.frame = x.ndim", "if state.frame == 0: state.noise = torch.randn(x.shape, device='cuda')", 0),
        (
            "pass",
            "if self.noise is None or self.noise.shape[0] < x.shape[0]: self.noise = torch.zeros(x.shape, device='cuda')",
            1,
        ),
    ],
)
def test_what_each_call_sets_anew_and_state_of_requests(check_: str, write: str, count: int) -> None:
    Path("m.py").write_text(STEP.replace("CHECK", check_).replace("WRITE", write))
    settings = Settings(preview=bool(count))
    assert len(check.check(["."], settings, registry.select((RULE,))).findings) == count
