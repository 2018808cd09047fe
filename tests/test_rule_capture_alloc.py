"""What is reported as memory that a capture allocates and that outlives its graph, and what is not."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from graphlint import check, fixing, registry
from graphlint.config import Settings
from graphlint.findings import Finding, Severity

RULE = "capture-alloc"

HEAD = """
import contextlib
import functools
import threading
from dataclasses import dataclass
from typing import NamedTuple, Optional

import torch

MEMORY = torch.cuda.MemPool()
NAMED = {}
SHARED = None


def recording():
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def recording_on(device):
    if device.type != "cuda":
        return False
    try:
        return torch.cuda.is_current_stream_capturing()
    except RuntimeError:
        return False


def require_eager(what):
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(what)


@contextlib.contextmanager
def own_memory():
    with torch.cuda.use_mem_pool(MEMORY):
        yield


class Rows(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@dataclass
class Pair:
    left: torch.Tensor
    right: Optional[torch.Tensor] = None


class Block:
    def __init__(self, like):
        self.data = torch.empty_like(like)


class Scratch:
    block: Optional[torch.Tensor] = None

    def __init__(self):
        self.table = {}
        self.kept = None
        self.lock = threading.Lock()

    def _make(self, x):
        return torch.empty(x.shape[0], device=x.device)

    def _put(self, key, value):
        self.table[key] = value

"""

TAIL = """


class Steps:
    def __init__(self, scratch: Scratch):
        self.scratch = scratch
        self.graphs = {}

    def step(self, x):
        return x + self.scratch.get(x)

    def record(self, x):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.step(x)
        self.graphs[x.shape[0]] = (graph, out)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def getter(body: str) -> str:
    """A program whose captured step asks a method with this body for its memory."""
    body = textwrap.indent(textwrap.dedent(body).strip("\n"), "        ")
    return HEAD + "    def get(self, x):\n" + body + "\n" + TAIL


def write(files: Mapping[str, str] | str) -> None:
    for name, text in ({"m.py": files} if isinstance(files, str) else files).items():
        Path(name).write_text(textwrap.dedent(text).lstrip("\n"))


def find(files: Mapping[str, str] | str) -> Sequence[Finding]:
    write(files)
    return check.check(["."], Settings(), registry.select((RULE,))).findings


def reported(files: Mapping[str, str] | str) -> list[str]:
    """The text of the reported allocations."""
    findings = find(files)
    return [Path(each.path).read_bytes()[slice(*each.span)].decode() for each in findings]


# ------------------------------------------------------------------------------------------------ misses under a capture

MISSES = {
    "an attribute is None": """
        if self.kept is None:
            self.kept = torch.empty_like(x)  # 1
        return self.kept
    """,
    "a hit returns early": """
        if self.kept is not None:
            return self.kept
        self.kept = torch.empty_like(x)  # 1
        return self.kept
    """,
    "an attribute that is not there yet": """
        if not hasattr(self, "later"):
            self.later = torch.empty_like(x)  # 1
        return self.later
    """,
    "getattr with a default": """
        later = getattr(self, "later", None)
        if later is None:
            later = self.later = torch.empty_like(x)  # 1
        return later
    """,
    "a table's get": """
        found = self.table.get(x.shape[0])
        if found is None:
            found = x.new_zeros(x.shape)  # 1
            self.table[x.shape[0]] = found
        return found
    """,
    "a key that is not in": """
        key = (x.shape[0], x.dtype)
        if key not in self.table:
            self.table[key] = torch.zeros(x.shape, device=x.device)  # 1
        return self.table[key]
    """,
    "a walrus": """
        if (found := self.table.get(x.shape[0])) is None:
            found = torch.empty_like(x)  # 1
            self.table[x.shape[0]] = found
        return found
    """,
    "a KeyError": """
        try:
            return self.table[x.shape[0]]
        except KeyError:
            made = torch.empty_like(x)  # 1
        self.table[x.shape[0]] = made
        return made
    """,
    "setdefault": """
        return self.table.setdefault(x.shape[0], torch.empty_like(x))  # 1
    """,
    "tested twice around a lock": """
        if self.kept is None:
            with self.lock:
                if self.kept is None:
                    self.kept = torch.empty_like(x)  # 1
        return self.kept
    """,
    "a class attribute": """
        if Scratch.block is None:
            Scratch.block = torch.empty_like(x)  # 1
        return Scratch.block
    """,
    "the object's class": """
        cls = type(self)
        if cls.block is None:
            cls.block = torch.empty_like(x)  # 1
        return cls.block
    """,
    "a module's variable": """
        global SHARED
        if SHARED is None:
            SHARED = torch.empty_like(x)  # 1
        return SHARED
    """,
    "a module's table, under another name here": """
        table = NAMED
        if x.dtype not in table:
            table[x.dtype] = torch.empty_like(x)  # 1
        return table[x.dtype]
    """,
    "a tuple": """
        if self.kept is None:
            self.kept = (torch.empty_like(x), 1)  # 1
        return self.kept[0]
    """,
    "a named tuple": """
        if self.kept is None:
            self.kept = Rows(torch.empty_like(x), x)  # 1
        return self.kept.first
    """,
    "a record": """
        found = self.table.get(x.shape[0])
        if found is None:
            left = torch.empty_like(x)  # 1
            found = self.table[x.shape[0]] = Pair(left)
        return found.left
    """,
    "a dict in a table": """
        if x.shape[0] not in self.table:
            self.table[x.shape[0]] = {"rows": torch.empty_like(x), "count": 1}  # 1
        return self.table[x.shape[0]]["rows"]
    """,
    "a list of several": """
        if not self.table:
            self.table[0] = [torch.empty_like(x) for _ in range(4)]  # 1
        return self.table[0][0]
    """,
    "an object that allocates": """
        if self.kept is None:
            self.kept = Block(x)  # 1
        return self.kept.data
    """,
    "a helper that allocates": """
        if self.kept is None:
            self.kept = self._make(x)  # 1
        return self.kept
    """,
    "a helper that keeps": """
        if x.shape[0] not in self.table:
            self._put(x.shape[0], torch.empty_like(x))  # 1
        return self.table[x.shape[0]]
    """,
    "a view of a larger one": """
        if self.kept is None:
            self.kept = torch.empty(1 << 20, device=x.device).view(-1, 4)  # 1
        return self.kept[: x.shape[0]]
    """,
    "too small": """
        if self.kept is None or self.kept.numel() < x.numel():
            self.kept = torch.empty(x.numel(), device=x.device)  # 1
        return self.kept
    """,
    "a flag beside it": """
        if not getattr(self, "ready", False):
            self.kept = torch.empty_like(x)  # 1
            self.ready = True
        return self.kept
    """,
    "a test of something else": """
        if self.table.get("other") is None and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("the other one is missing")
        if self.kept is None:
            self.kept = torch.empty_like(x)  # 1
        return self.kept
    """,
    "a refusal that comes too late": """
        if self.kept is None:
            self.kept = torch.empty_like(x)  # 1
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("run this once outside")
        return self.kept
    """,
    "a refusal of the wrong polarity": """
        if self.kept is None:
            if not torch.cuda.is_current_stream_capturing():
                raise RuntimeError("only in a capture")
            self.kept = torch.empty_like(x)  # 1
        return self.kept
    """,
    "kept only while capturing": """
        found = self.table.get(x.shape[0])
        if found is None:
            found = torch.empty_like(x)  # 1
            if torch.cuda.is_current_stream_capturing():
                self.table[x.shape[0]] = found
        return found
    """,
    "parts of one block in a record": """
        rows = self.table.get(x.shape[0])
        if rows is None:
            if torch.cuda.is_current_stream_capturing():
                print("late")
            block = x.new_empty(2, x.shape[0])  # 1
            rows = Rows(*block.unbind(0))
            self.table[x.shape[0]] = rows
        return rows.first
    """,
    "a refusal that a flag can switch off": """
        if self.kept is None:
            if self.strict and torch.cuda.is_current_stream_capturing():
                raise RuntimeError("run this once outside")
            self.kept = torch.empty_like(x)  # 1
        return self.kept
    """,
}


@pytest.mark.parametrize("body", MISSES.values(), ids=MISSES)
def test_a_miss_that_captured_code_comes_to_is_reported_at_the_allocation(body: str) -> None:
    text = getter(body)
    (finding,) = find(text)
    lines = text.lstrip("\n").splitlines()
    assert lines[Path("m.py").read_bytes()[: finding.span.start].count(b"\n")].endswith("# 1")


GUARDED = {
    "refused": """
        if self.kept is None:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("run this once outside")
            self.kept = torch.empty_like(x)
        return self.kept
    """,
    "asserted": """
        if self.kept is None:
            assert not torch.cuda.is_current_stream_capturing()
            self.kept = torch.empty_like(x)
        return self.kept
    """,
    "refused by a helper": """
        if self.kept is None:
            require_eager("the scratch")
            self.kept = torch.empty_like(x)
        return self.kept
    """,
    "refused by a wrapper": """
        if self.kept is None:
            if recording():
                raise RuntimeError("run this once outside")
            self.kept = torch.empty_like(x)
        return self.kept
    """,
    "refused by a wrapper that asks for the device": """
        if x.shape[0] in self.table:
            return self.table[x.shape[0]]
        if recording_on(x.device):
            raise RuntimeError("run this once outside")
        self.table[x.shape[0]] = torch.empty_like(x)
        return self.table[x.shape[0]]
    """,
    "refused through a variable": """
        capturing = torch.cuda.is_current_stream_capturing()
        if self.kept is None and capturing:
            raise RuntimeError("run this once outside")
        if self.kept is None:
            self.kept = torch.empty_like(x)
        return self.kept
    """,
    "nothing is given": """
        if self.kept is None:
            if torch.cuda.is_current_stream_capturing():
                return None
            self.kept = torch.empty_like(x)
        return self.kept
    """,
    "given without being kept": """
        if torch.cuda.is_current_stream_capturing():
            return torch.empty_like(x)
        if self.kept is None:
            self.kept = torch.empty_like(x)
        return self.kept
    """,
    "kept only outside": """
        found = self.table.get(x.shape[0])
        if found is None:
            found = torch.empty_like(x)
            if not torch.cuda.is_current_stream_capturing():
                self.table[x.shape[0]] = found
        return found
    """,
    "kept in the other branch": """
        found = self.table.get(x.shape[0])
        if found is not None:
            return found
        found = torch.empty_like(x)
        if recording():
            return found
        self.table[x.shape[0]] = found
        return found
    """,
    "from a pool of its own": """
        if self.kept is None:
            with torch.cuda.use_mem_pool(MEMORY):
                self.kept = torch.empty_like(x)
        return self.kept
    """,
    "from a pool of its own, by a helper": """
        if self.kept is None:
            with own_memory():
                self.kept = torch.empty_like(x)
        return self.kept
    """,
    "on the host": """
        if self.kept is None:
            self.kept = torch.empty(x.shape, device="cpu", pin_memory=True)
        return self.kept
    """,
    "in a table of the call": """
        table = {}
        if x.shape[0] not in table:
            table[x.shape[0]] = torch.empty_like(x)
        return table[x.shape[0]]
    """,
    "handed out and forgotten": """
        return torch.empty_like(x)
    """,
    "a number": """
        if self.kept is None:
            self.kept = torch.empty_like(x).numel()
        return self.kept
    """,
}


@pytest.mark.parametrize("body", GUARDED.values(), ids=GUARDED)
def test_nothing_is_reported_where_a_capture_keeps_nothing(body: str) -> None:
    assert reported(getter(body)) == []


# -------------------------------------------------------------------------------------------------- ways into a capture

LAZY = """
import contextlib
import functools
import torch


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = torch.empty_like(x)
        return x + self.kept

"""

WAYS_IN = {
    "the object is called": """
        def record(layer: Layer, x):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                layer(x)
            return graph
    """,
    "raw begin and end": """
        def record(layer: Layer, x):
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin()
            layer(x)
            graph.capture_end()
            return graph
    """,
    "a context manager of the project": """
        @contextlib.contextmanager
        def capturing(graph):
            with torch.cuda.graph(graph):
                yield

        def record(layer: Layer, x):
            graph = torch.cuda.CUDAGraph()
            with capturing(graph):
                layer(x)
            return graph
    """,
    "a function that is passed": """
        def capture(step, x):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step(x)
            return graph

        def record(layer: Layer, x):
            return capture(layer.forward, x)
    """,
    "a lambda": """
        def capture(step):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            return graph

        def record(layer: Layer, x):
            return capture(lambda: layer(x))
    """,
    "a partial": """
        def record(layer: Layer, x):
            step = functools.partial(layer.forward, x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            return graph
    """,
    "a function that the object keeps": """
        class Recorder:
            def __init__(self, step):
                self.step = step

            def record(self, x):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    self.step(x)
                return graph

        def record(layer: Layer, x):
            return Recorder(layer.forward).record(x)
    """,
    "another device module": """
        def record(layer: Layer, x):
            device = torch.get_device_module("cuda")
            graph = device.CUDAGraph()
            with device.graph(graph):
                layer(x)
            return graph
    """,
}


@pytest.mark.parametrize("program", WAYS_IN.values(), ids=WAYS_IN)
def test_captured_code_is_followed(program: str) -> None:
    assert reported(LAZY + textwrap.dedent(program)) == ["torch.empty_like(x)"]


WARM = {
    "before the capture": """
        def record(layer: Layer, x):
            layer(x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                layer(x)
            return graph
    """,
    "by the only caller": """
        def _record(layer: Layer, x):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                layer(x)
            return graph

        def record(layer: Layer, x):
            layer(x)
            return _record(layer, x)
    """,
    "for each size": """
        def record(layer: Layer, sizes, x):
            graphs = {}
            for size in sizes:
                layer(x[:size])
                graphs[size] = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graphs[size]):
                    layer(x[:size])
            return graphs
    """,
    "nothing is captured": """
        def run(layer: Layer, x):
            return layer(x)
    """,
    "after the capture": """
        def record(layer: Layer, x):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                x.add_(1)
            layer(x)
            return graph
    """,
}


@pytest.mark.parametrize("program", WARM.values(), ids=WARM)
def test_nothing_is_reported_where_the_memory_is_there_before_the_capture(program: str) -> None:
    assert reported(LAZY + textwrap.dedent(program)) == []


def test_one_caller_that_did_not_run_it_before_is_enough() -> None:
    program = (
        LAZY
        + textwrap.dedent(WARM["by the only caller"])
        + "\n\ndef again(layer: Layer, x):\n    return _record(layer, x)\n"
    )
    assert reported(program) == ["torch.empty_like(x)"]


def test_a_record_of_the_graph_may_hold_what_its_capture_allocates() -> None:
    program = """
    import torch
    from dataclasses import dataclass, field
    from typing import Optional

    @dataclass
    class Entry:
        graph: Optional[torch.cuda.CUDAGraph] = None
        out: Optional[torch.Tensor] = None

    class Steps:
        def __init__(self, model):
            self.model = model
            self.entries: dict[int, Entry] = {}

        def _run(self, entry: Entry, x):
            if entry.out is None:
                entry.out = torch.empty_like(x)
            entry.out.copy_(self.model(x))

        def record(self, x):
            entry = self.entries[x.shape[0]]
            entry.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(entry.graph):
                self._run(self.entries[x.shape[0]], x)
    """
    assert reported(program) == []


def test_outputs_that_a_capture_leaves_are_no_cache() -> None:
    program = """
    import torch

    class Steps:
        def __init__(self, model):
            self.model = model
            self.out = {}
            self.last = None

        def record(self, x):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.last = torch.zeros_like(x)
                self.out[x.shape[0]] = torch.empty_like(x)
            return graph
    """
    assert reported(program) == []


# --------------------------------------------------------------------------------------------------- streams and tests

BY_STREAM = {
    "in a tuple": """
        TABLE = {}

        def scratch(n, device):
            key = (n, device, torch.cuda.current_stream(device).cuda_stream)
            if key not in TABLE:
                TABLE[key] = torch.empty(n, device=device)
            return TABLE[key]
    """,
    "in a tuple with all that the memory depends on": """
        TABLE = {}

        def scratch(like):
            key = (torch.cuda.current_stream().cuda_stream, like.shape, like.dtype, like.device)
            if key not in TABLE:
                TABLE[key] = torch.empty_like(like)
            return TABLE[key]
    """,
    "in a string": """
        TABLE = {}

        def scratch(n, device):
            key = f"{n}/{torch.cuda.current_stream().cuda_stream}"
            found = TABLE.get(key)
            if found is None:
                found = TABLE[key] = torch.empty(n, device=device)
            return found
    """,
    "by a helper": """
        TABLE = {}

        def lane():
            return torch.cuda.current_stream().cuda_stream

        def scratch(n, device):
            key = (n, lane())
            if key not in TABLE:
                TABLE[key] = torch.empty(n, device=device)
            return TABLE[key]
    """,
    "as an argument of a memoised function": """
        @functools.lru_cache(maxsize=None)
        def _scratch(n, device, lane):
            return torch.empty(n, device=device)

        def scratch(n, device):
            return _scratch(n, device, torch.cuda.current_stream(device).cuda_stream)
    """,
    "by the parameter's name": """
        @functools.cache
        def scratch(n: int, stream: int):
            return torch.empty(n, device="cuda")
    """,
    "in a closure": """
        def make(device):
            table = {}

            def scratch(n, stream):
                if stream not in table or table[stream].numel() < n:
                    table[stream] = torch.empty(n, device=device)
                return table[stream]

            return scratch
    """,
    "with a guard in one of two callers": """
        @functools.cache
        def _scratch(n: int, stream: int):
            return torch.empty(n, device="cuda")

        def careful(n):
            if torch.cuda.is_current_stream_capturing():
                return torch.zeros(n, device="cuda")
            return _scratch(n, torch.cuda.current_stream().cuda_stream)

        def careless(n):
            return _scratch(n, torch.cuda.current_stream().cuda_stream)
    """,
}


@pytest.mark.parametrize("program", BY_STREAM.values(), ids=BY_STREAM)
def test_a_table_by_stream_always_misses_in_a_capture(program: str) -> None:
    (finding,) = find("import functools\nimport torch\n\n" + textwrap.dedent(program))
    assert finding.severity is Severity.WARNING


NOT_BY_STREAM = {
    "by shape": """
        @functools.cache
        def scratch(n: int):
            return torch.empty(n, device="cuda")
    """,
    "from a pool of its own": """
        MEMORY = torch.cuda.MemPool()

        @functools.cache
        def scratch(n: int, stream: int):
            with torch.cuda.use_mem_pool(MEMORY):
                return torch.empty(n, device="cuda")
    """,
    "behind a guard of the only caller": """
        @functools.cache
        def _scratch(n: int, stream: int):
            return torch.empty(n, device="cuda")

        def scratch(n):
            if torch.cuda.is_current_stream_capturing():
                return torch.zeros(n, device="cuda")
            return _scratch(n, torch.cuda.current_stream().cuda_stream)
    """,
    "where the caller says that nothing is captured": """
        TABLE = {}

        def _scratch(n, keep):
            if not keep:
                return torch.empty(n, device="cuda")
            key = (n, torch.cuda.current_stream().cuda_stream)
            if key not in TABLE:
                TABLE[key] = torch.empty(n, device="cuda")
            return TABLE[key]

        def scratch(n):
            return _scratch(n, not torch.cuda.is_current_stream_capturing())
    """,
    "of events": """
        TABLE = {}

        def event():
            stream = torch.cuda.current_stream()
            if stream not in TABLE:
                TABLE[stream] = torch.cuda.Event()
            return TABLE[stream]
    """,
    "of numbers": """
        @functools.cache
        def count(stream: int):
            return torch.empty(4, device="cuda").numel()
    """,
}


@pytest.mark.parametrize("program", NOT_BY_STREAM.values(), ids=NOT_BY_STREAM)
def test_other_tables_are_not_reported(program: str) -> None:
    assert reported("import functools\nimport torch\n\n" + textwrap.dedent(program)) == []


def test_an_allocation_that_a_capture_alone_makes_is_an_error() -> None:
    program = """
    import torch

    class Offload:
        def __init__(self):
            self.copies = None

        def load(self, x):
            if torch.cuda.is_current_stream_capturing():
                self.copies = torch.empty_like(x)
            return self.copies
    """
    (finding,) = find(program)
    assert finding.severity is Severity.ERROR


def test_a_phase_flag_says_nothing_of_the_stream() -> None:
    program = """
    import torch

    class Steps:
        def __init__(self):
            self.capturing = False
            self.tables = {}

        def table(self, rows):
            if self.capturing and rows not in self.tables:
                self.tables[rows] = torch.zeros(rows, device="cuda")
            return self.tables[rows]

        def forward(self, x, in_capture):
            if in_capture:
                self.tables[x.shape[0]] = torch.zeros_like(x)
            return self.tables[x.shape[0]]
    """
    assert reported(program) == []


def test_an_allocation_in_the_block_of_the_capture_is_an_error() -> None:
    program = """
    import torch

    class Steps:
        def __init__(self, model):
            self.model = model
            self.kept = None

        def record(self, x):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                if self.kept is None:
                    self.kept = torch.empty_like(x)
                self.model(x, self.kept)
            return graph
    """
    (finding,) = find(program)
    assert finding.severity is Severity.ERROR
    assert [step.effect for step in finding.trace] == ["capture", "ws_alloc"]


def test_the_path_leads_from_the_capture_to_the_store() -> None:
    files = {
        "scratch.py": """
        import torch

        class Scratch:
            _block = None

            @classmethod
            def get(cls, shape):
                if cls._block is None:
                    cls._block = torch.empty(shape, device="cuda")
                return cls._block
        """,
        "runner.py": """
        import torch
        from scratch import Scratch

        def step(x):
            return x + Scratch.get(x.shape)

        def record(x):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step(x)
            return graph
        """,
    }
    (finding,) = find(files)
    assert finding.severity is Severity.WARNING
    assert [(Path(step.path).name, step.effect) for step in finding.trace] == [
        ("runner.py", "capture"),
        ("runner.py", "call"),
        ("runner.py", "call"),
        ("scratch.py", "ws_alloc"),
    ]


# ------------------------------------------------------------------------------------------------------------------ fix


def fixed(text: str) -> str:
    write(text)
    outcome = fixing.fix(check.read(["."], Settings(), {}), registry.select((RULE,)), unsafe=True)
    return outcome.changes["m.py"].after.decode() if outcome.changes else ""


def test_the_refusal_stands_before_the_first_collective_of_the_miss() -> None:
    program = """
    import torch
    import torch.distributed as dist

    class Scratch:
        def __init__(self):
            self.table = {}

        def get(self, x):
            found = self.table.get(x.shape[0])
            if found is not None:
                return found
            group = dist.new_group()
            found = torch.empty_like(x)
            self.table[x.shape[0]] = (group, found)
            return found

        def record(self, x):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.get(x)
            return graph
    """
    after = fixed(program)
    assert after.index("is_current_stream_capturing") < after.index("dist.new_group")
    assert after.index("return found") < after.index("is_current_stream_capturing")
    Path("m.py").write_text(after)
    assert check.check(["."], Settings(), registry.select((RULE,))).findings == ()


@pytest.mark.parametrize(("annotation", "is_stream"), [("", True), (": int", True), (": str", False)])
def test_a_parameter_named_stream_is_one_unless_it_is_a_text(annotation: str, is_stream: bool) -> None:
    program = f"""
    import torch

    TABLE = {{}}

    def table(stream{annotation}, like):
        held = TABLE.get(stream)
        if held is None:
            held = TABLE[stream] = torch.empty_like(like)
        return held
    """
    Path("m.py").write_text(textwrap.dedent(program))
    assert bool(check.check(["."], Settings(), registry.select((RULE,))).findings) is is_stream


# ------------------------------------------------------------------------------------------------------ what is in doubt


def severities(folder: Path, text: str) -> list[Severity]:
    folder.mkdir(exist_ok=True)
    (folder / "m.py").write_text(textwrap.dedent(text).lstrip("\n"))
    return [each.severity for each in check.check([str(folder)], Settings(), registry.select((RULE,))).findings]


LENT = """
    import torch


    class Weights:
        def __init__(self, source):
            self.source = source
            self.loaded = None
            self.ready = None

        def give(self):
            if torch.cuda.is_current_stream_capturing():
                if self.ready is not None:
                    self.loaded = torch.empty_like(self.source, device="cuda")
                    self.ready = None
            return self.loaded

        def let_go(self):
            self.loaded = {given}
            self.ready = None


    def hook(index, layer, weights):
        def end():
            {end}

        run(layer, end, lambda: weights[index].give())
"""
LETTING = {
    "by everybody who asks": ("weights[index].let_go()", "None", "", Severity.NOTE),
    "of another object": ("weights[index + 1].let_go()", "None", "", Severity.ERROR),
    "by nobody": ("pass", "None", "", Severity.ERROR),
    "for other memory": ("weights[index].let_go()", "torch.zeros(8, device='cuda')", "", Severity.ERROR),
    "by one of two": (
        "weights[index].let_go()",
        "None",
        "    def first(weights):\n        return weights[0].give()\n",
        Severity.ERROR,
    ),
}


@pytest.mark.parametrize(("end", "given", "more", "expected"), LETTING.values(), ids=list(LETTING))
def test_what_everybody_lets_go_at_once_is_a_note(
    tmp_path: Path, end: str, given: str, more: str, expected: Severity
) -> None:
    program = LENT.replace("{end}", end).replace("{given}", given) + "\n\n" + more
    assert severities(tmp_path / "program", program) == [expected]


TABLE_BY_STREAM = """
    import torch

    TABLE = {}


    def scratch(n):
        key = (n, torch.cuda.current_stream().cuda_stream)
        if key not in TABLE:
            TABLE[key] = torch.empty(n, device="cuda")
        return TABLE[key]
"""
CAPTURES = {
    "none": ("", Severity.WARNING),
    "of it": (
        "graph = torch.cuda.CUDAGraph()\n\n\ndef record():\n    with torch.cuda.graph(graph):\n        scratch(8)\n",
        Severity.WARNING,
    ),
    "of something": (
        "graph = torch.cuda.CUDAGraph()\n\n\ndef record(step):\n    with torch.cuda.graph(graph):\n        step()\n",
        Severity.NOTE,
    ),
}


@pytest.mark.parametrize(("capture", "expected"), CAPTURES.values(), ids=list(CAPTURES))
def test_a_table_by_stream_that_no_capture_is_seen_to_come_to_is_a_note(
    tmp_path: Path, capture: str, expected: Severity
) -> None:
    assert severities(tmp_path / "program", textwrap.dedent(TABLE_BY_STREAM) + "\n\n" + capture) == [expected]


@pytest.mark.parametrize(("read", "count"), [("", 0), ("\n    def all(self):\n        return self.kept[-1]\n", 1)])
def test_a_list_that_nothing_reads_gives_nothing_out(tmp_path: Path, read: str, count: int) -> None:
    program = f"""
import torch


class Slab:
    def __init__(self):
        self.used = 0
        self.chunk = None
        self.kept = []

    def take(self, n):
        chunk = self.chunk
        if chunk is not None and self.used + n <= chunk.numel():
            self.used += n
            return chunk[self.used - n : self.used]
        if torch.cuda.is_current_stream_capturing():
            block = torch.zeros(n, device="cuda")
            self.kept.append(block)
            return block
        self.chunk = torch.zeros(1024, device="cuda")
        self.kept.append(self.chunk)
        self.used = n
        return self.chunk[:n]
{read}
"""
    assert len(severities(tmp_path / "program", program)) == count


@pytest.mark.parametrize(("number", "expected"), [("_capture_id()", Severity.NOTE), ("_lane()", Severity.ERROR)])
def test_memory_that_is_kept_with_the_number_of_its_capture_is_a_note(
    tmp_path: Path, number: str, expected: Severity
) -> None:
    program = f"""
import torch

from lanes import _capture_id, _lane

TABLE = {{}}


def scratch(name, n):
    if torch.cuda.is_current_stream_capturing():
        number = {number}
        held = TABLE.get(name)
        if held is not None and held[0] == number:
            return held[1]
        block = torch.zeros(n, device="cuda")
        TABLE[name] = (number, block)
        return block
    return None
"""
    assert severities(tmp_path / "program", program) == [expected]


WARMED = """
import torch

TABLE = {{}}


def rows(n):
    key = {key}
    if key not in TABLE:
        TABLE[key] = torch.empty(n, device="cuda")
    return TABLE[key]


class Runner:
    def step(self, x, n):
        return x + rows(n)

    def record(self, x, n):
        {before}
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.step(x, n)
        {behind}
"""
WARM_UPS = {
    "none": ("n", "pass", "pass", Severity.WARNING),
    "of the same": ("n", "for _ in range(2):\n            self.step(x, n)", "pass", Severity.NOTE),
    "of something else": ("n", "for _ in range(2):\n            self.step(x, 8)", "pass", Severity.WARNING),
    "too late": ("n", "pass", "self.step(x, n)", Severity.WARNING),
    "on another stream": (
        "(n, torch.cuda.current_stream().cuda_stream)",
        "self.step(x, n)",
        "pass",
        Severity.WARNING,
    ),
}


@pytest.mark.parametrize(("key", "before", "behind", "expected"), WARM_UPS.values(), ids=list(WARM_UPS))
def test_what_the_same_call_makes_before_the_capture_is_a_note(
    tmp_path: Path, key: str, before: str, behind: str, expected: Severity
) -> None:
    program = WARMED.format(key=key, before=before, behind=behind)
    assert severities(tmp_path / "program", program) == [expected]
