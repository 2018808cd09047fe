"""What a request has to show, where the files capture, before it is more than a note."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings
from graphlint.findings import Finding, Severity

CAPTURE = """
class Runner:
    def __init__(self, step):
        self.step = step
        self.graph = torch.cuda.CUDAGraph()

    def record(self):
        with torch.cuda.graph(self.graph):
            self.step()
"""

DISPLACING = """
import math

import torch

SHELF = {}


def lease(label, extent, dtype):
    need = math.prod(extent)
    piece = SHELF.get((label, dtype))
    if piece is None or piece.numel() < need:
        piece = SHELF[label, dtype] = torch.empty(need, dtype=dtype, device="cuda")
    return piece[:need].view(extent)
"""

KEEPING = """
import torch

TABLE = {}


def held(label, extent):
    if label not in TABLE:
        TABLE[label] = torch.empty(extent, device="cuda")
    return TABLE[label]
"""


def findings(folder: Path, *parts: str) -> list[Finding]:
    text = "\n\n".join(textwrap.dedent(part).strip() for part in parts) + "\n"
    (folder / "program.py").write_text(text, encoding="utf-8")
    return list(check.check([str(folder)], Settings(), registry.select(["unkeyed-buffer"])).findings)


def severity(folder: Path, *parts: str) -> Severity:
    (found,) = findings(folder, *parts)
    return found.severity


# ------------------------------------------------------------------------------------------------ calls that come to it

FLAGGED = """
def collect(x, sizes=None, shared=False):
    if sizes is None:
        return torch.empty(x.shape, dtype=x.dtype, device="cuda")
    if not shared:
        return torch.empty_like(x)
    return lease("whole", x.shape, x.dtype)
"""
BRANCHED = """
def collect(x, sizes=None, shared=False):
    if sizes is not None:
        if shared:
            return lease("whole", x.shape, x.dtype)
    return torch.empty_like(x)
"""
THROUGH = """
class Collect(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, sizes=None, shared=False):
        ctx.sizes = sizes
        ctx.shared = shared
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        shared = ctx.shared
        return collect(grad, ctx.sizes, shared), None, None
"""
CALLS = {
    "one of the two": ("def step(x):\n    collect(x, shared=True)\n    return collect(x, x.tolist())", Severity.NOTE),
    "both": ("def step(x, sizes):\n    return collect(x, sizes, shared=True)", Severity.ERROR),
    "by way of a parameter": (
        "def outer(x, on=False):\n    return collect(x, [1], on)\n\n\ndef step(x):\n    return outer(x, on=True)",
        Severity.ERROR,
    ),
    "by way of a parameter that is off": (
        "def outer(x, on=False):\n    return collect(x, [1], on)\n\n\ndef step(x):\n    return outer(x)",
        Severity.NOTE,
    ),
    "a parameter that must be given": ("def step(x, on):\n    return collect(x, [1], on)", Severity.ERROR),
    "a value that is computed": ("def step(x, layer):\n    return collect(x, layer.sizes, layer.on)", Severity.ERROR),
    "handed on": (
        "import functools\n\n\ndef step():\n    return functools.partial(collect, shared=True)",
        Severity.ERROR,
    ),
    "more than is seen": ("def step(x, *rest):\n    return collect(x, *rest)", Severity.ERROR),
    "nobody calls it": ("", Severity.ERROR),
    "an autograd function that is told half": (
        f"{THROUGH}\n\ndef step(x):\n    return Collect.apply(x, None, True)",
        Severity.NOTE,
    ),
    "an autograd function that is told all": (
        f"{THROUGH}\n\ndef step(x, sizes):\n    return Collect.apply(x, sizes, True)",
        Severity.ERROR,
    ),
}


@pytest.mark.parametrize(("calls", "expected"), CALLS.values(), ids=list(CALLS))
def test_a_request_that_no_call_comes_to_is_a_note(tmp_path: Path, calls: str, expected: Severity) -> None:
    assert severity(tmp_path, DISPLACING, BRANCHED, calls, CAPTURE) is expected


def test_what_stands_before_a_return_is_no_branch_around_the_request(tmp_path: Path) -> None:
    assert severity(tmp_path, DISPLACING, FLAGGED, CALLS["one of the two"][0], CAPTURE) is Severity.ERROR


def test_without_a_capture_among_the_files_the_shape_alone_decides(tmp_path: Path) -> None:
    assert severity(tmp_path, DISPLACING, BRANCHED, CALLS["one of the two"][0]) is Severity.ERROR


# ------------------------------------------------------------------------------------------------------------ the sizes

TAKEN = {
    "popped": ("item = waiting.pop(0)", Severity.NOTE),
    "popped from the left": ("item = waiting.popleft()", Severity.NOTE),
    "by a name": ('item = waiting.pop("first")', Severity.ERROR),
    "read": ("item = waiting[0]", Severity.ERROR),
}


@pytest.mark.parametrize(("statement", "expected"), TAKEN.values(), ids=list(TAKEN))
def test_a_size_that_is_worked_off_a_list_is_a_note(tmp_path: Path, statement: str, expected: Severity) -> None:
    drain = f"""
        def drain(waiting):
            {statement}
            extent = list(item.shape)
            extent[0] = extent[0] * 2
            return lease("whole", extent, torch.float32)
    """
    assert severity(tmp_path, DISPLACING, drain, CAPTURE) is expected


GROWING = {
    "by what it lacks": ("block.numel() < rows * width", Severity.ERROR),
    "by something else": ("block.shape[0] < rows", Severity.NOTE),
    "and lacks what has to be the same": ("block.shape[0] < rows or block.shape[1] != width", Severity.NOTE),
    "where it is not the same": ("block.shape[1] != width", Severity.ERROR),
}


@pytest.mark.parametrize(("test", "expected"), GROWING.values(), ids=list(GROWING))
def test_what_grows_by_another_dimension_is_a_note(tmp_path: Path, test: str, expected: Severity) -> None:
    program = f"""
        import torch

        TABLE = {{}}


        def scratch(purpose, rows, width):
            block = TABLE.get(purpose)
            if block is None or {test}:
                block = TABLE[purpose] = torch.empty(rows, width, device="cuda")
            return block[:rows]


        def forward(x):
            return scratch("sums", 8, x.shape[1])
    """
    assert severity(tmp_path, program, CAPTURE) is severity(tmp_path, program) is expected


KEPT = {
    "a tensor's": ("def step(x):\n    return held('mix', x.shape)", Severity.WARNING),
    "a part of a tensor's": ("def step(x):\n    return held('mix', (x.shape[0] // 2, 8))", Severity.WARNING),
    "what an object was configured with": (
        "class Layer:\n    def step(self):\n        return held('mix', self.width)",
        Severity.NOTE,
    ),
    "of a group of processes": ("def step(group: ProcessGroup):\n    return held('mix', group.size())", Severity.NOTE),
    "in a record whose other field is in the name": (
        "def step(batch):\n    return held(f'mix_{batch.ids.shape}', batch.places.shape)",
        Severity.NOTE,
    ),
    "in a record": ("def step(batch):\n    return held('mix', batch.places.shape)", Severity.WARNING),
    "of the other tensor": ("def step(x, y):\n    return held(f'mix_{y.shape}', x.shape)", Severity.WARNING),
    "captured": (
        """
        class Layer:
            def __init__(self, width):
                self.width = width
                self.graph = torch.cuda.CUDAGraph()

            def step(self):
                return held("mix", self.width)

            def record(self):
                with torch.cuda.graph(self.graph):
                    self.step()
        """,
        Severity.WARNING,
    ),
}


@pytest.mark.parametrize(("request_", "expected"), KEPT.values(), ids=list(KEPT))
def test_what_is_handed_out_as_it_is_has_to_differ_from_call_to_call(
    tmp_path: Path, request_: str, expected: Severity
) -> None:
    assert severity(tmp_path, KEEPING, request_, CAPTURE) is expected


@pytest.mark.parametrize(("method", "expected"), [("__init__", Severity.NOTE), ("begin", Severity.WARNING)])
def test_a_constructor_that_asks_first_asks_for_all(tmp_path: Path, method: str, expected: Severity) -> None:
    program = f"""
        import torch

        BLOCK = None


        def block(width):
            global BLOCK
            if BLOCK is None:
                BLOCK = torch.empty(width, device="cuda")
            return BLOCK


        class Layer:
            def {method}(self, config):
                block(config.width)


        def step(x):
            return block(x.shape[1])
    """
    assert severity(tmp_path, program, CAPTURE) is expected


@pytest.mark.parametrize(("chunk", "reported"), [("64", False), ("x.shape[1]", True)])
def test_what_is_made_of_the_key_and_of_a_constant_is_not_missing(
    tmp_path: Path, chunk: str, *, reported: bool
) -> None:
    program = f"""
        import torch

        TABLE = {{}}


        def sums(rows, chunk):
            if rows not in TABLE:
                TABLE[rows] = torch.empty(rows // chunk, device="cuda")
            return TABLE[rows]


        def step(x):
            return sums(x.shape[0], {chunk})
    """
    assert bool(findings(tmp_path, program)) is reported


EAGER = """
    import torch

    if hasattr(torch._C, "_cuda_isCurrentStreamCapturing"):
        recording = torch._C._cuda_isCurrentStreamCapturing
    else:
        recording = torch.cuda.is_current_stream_capturing

    TABLE = {{}}


    def rows(label: str, n):
        block = TABLE.get(label)
        if block is None or block.numel() < n:
            block = TABLE[label] = torch.empty(n, device="cuda")
        return block[:n]


    def step(x):
        if {test}:
            return torch.empty(x.numel(), device="cuda")
        else:
            return rows("sums", x.numel())
"""


@pytest.mark.parametrize(("test", "count"), [("recording()", 0), ("recording() or x.is_cpu", 0), ("x.is_cpu", 1)])
def test_a_request_that_no_capture_makes_is_silent(tmp_path: Path, test: str, count: int) -> None:
    assert len(findings(tmp_path, EAGER.format(test=test))) == count


@pytest.mark.parametrize(("parameter", "count"), [("device_index", 0), ("lane", 1)])
def test_the_number_of_a_device_tells_the_device(tmp_path: Path, parameter: str, count: int) -> None:
    program = f"""
        import torch

        TABLE = {{}}


        class Stage:
            def __init__(self, device, number):
                self.device = torch.device(device)
                self.{parameter} = number

            def step(self, x):
                key = (x.shape[0], self.{parameter})
                if key not in TABLE:
                    TABLE[key] = torch.empty(x.shape[0], device=self.device)
                return TABLE[key]


        def build(plan):
            return [Stage(device, plan.lane) for device in plan.devices]
    """
    assert len(findings(tmp_path, program)) == count


@pytest.mark.parametrize(("statement", "count"), [("ready.extend(waiting.pop(0))", 0), ("waiting.pop(0)", 1)])
def test_what_moves_within_a_store_is_not_gone(tmp_path: Path, statement: str, count: int) -> None:
    program = f"""
        import torch

        SHELF = {{}}


        def lease(label: str, n):
            waiting = SHELF.setdefault(label, [])
            ready = SHELF.setdefault(label, [])
            while waiting:
                {statement}
            piece = torch.empty(n, device="cuda")
            SHELF.setdefault(label, []).append(piece)
            return piece


        def step(x):
            return lease("sums", x.shape[0])
    """
    assert len([each for each in findings(tmp_path, program) if each.severity is Severity.ERROR]) == count


@pytest.mark.parametrize(("found", "count"), [("raise KeyError(label)", 0), ("return TABLE[label]", 1)])
def test_who_is_refused_is_given_no_buffer_of_another_shape(tmp_path: Path, found: str, count: int) -> None:
    program = f"""
        import torch

        TABLE = {{}}


        def enter(label: str, n):
            if label in TABLE:
                {found}
            TABLE[label] = torch.empty(n, device="cuda")
            return TABLE[label]


        def step(x):
            return enter("sums", x.shape[0])
    """
    assert len(findings(tmp_path, program)) == count
