"""What is reported as a workspace that grows under captured graphs, and what is not."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from graphlint import check, fixing, registry
from graphlint.config import Settings
from graphlint.findings import Finding, Precision, Severity

RULE = "workspace-growth"

HEAD = """
import math
from dataclasses import dataclass
from typing import NamedTuple, Optional

import torch

ROOMS = {}
OLD = []
ROOM = None


class Entry:
    def __init__(self, count, data):
        self.count = count
        self.data = data


class Room:
    def __init__(self, n, device):
        self.capacity = n
        self.data = torch.empty(n, device=device)


def round_up(n):
    return math.ceil(n / 256) * 256


class Scratch:
    room: Optional[torch.Tensor] = None
    rooms: dict = {}

    def __init__(self, device):
        self.device = device
        self.buffer = torch.empty(0, device=device)
        self.capacity = 0
        self.table = {}
        self.retired = []
        self.locked = False
        self.captured = False

    def lock(self):
        self.locked = True

    def destroy(self):
        self.buffer = None

    def fits(self, n):
        return self.buffer.numel() >= n

    def _keep(self, old):
        self.retired.append(old)

"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def getter(body: str) -> str:
    """A program with a method of this body, which gives a workspace of at least `n` numbers."""
    return HEAD + "    def get(self, n):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "        ") + "\n"


def find(files: Mapping[str, str] | str) -> Sequence[Finding]:
    for name, text in ({"m.py": files} if isinstance(files, str) else files).items():
        Path(name).write_text(textwrap.dedent(text).lstrip("\n"))
    return check.check(["."], Settings(), registry.select((RULE,))).findings


def reported(files: Mapping[str, str] | str) -> list[str]:
    """The reported lines."""
    found = []
    for each in find(files):
        content = Path(each.path).read_bytes()
        found.append(content.splitlines()[content[: each.span.start].count(b"\n")].strip().decode())
    return found


GROWS = {
    "too small": """
        if self.buffer.numel() < n:
            self.buffer = torch.empty(n, device=self.device)  # 1
        return self.buffer[:n]
    """,
    "missing or too small": """
        if self.buffer is None or n > self.buffer.numel():
            self.buffer = torch.empty(n, device=self.device)  # 1
        return self.buffer
    """,
    "not there yet or too small": """
        if not hasattr(self, "late") or self.late.numel() < n:
            self.late = torch.empty(n, device=self.device)  # 1
        return self.late
    """,
    "large enough returns early": """
        if self.buffer is not None and self.buffer.shape[0] >= n:
            return self.buffer
        self.buffer = torch.empty(n, device=self.device)  # 1
        return self.buffer
    """,
    "by a capacity beside it": """
        if n > self.capacity:
            self.buffer = torch.empty(n, device=self.device)  # 1
            self.capacity = n
        return self.buffer
    """,
    "by a size of before": """
        have = self.buffer.numel() if self.buffer is not None else 0
        if have < n:
            self.buffer = torch.empty(max(n, 2 * have), device=self.device)  # 1
        return self.buffer
    """,
    "by a flag of its own": """
        grow = self.buffer is None or self.buffer.nbytes < n
        if grow:
            self.buffer = torch.empty(n, device=self.device)  # 1
        return self.buffer
    """,
    "by a method that compares": """
        if not self.fits(n):
            self.buffer = torch.empty(n, device=self.device)  # 1
        return self.buffer
    """,
    "an entry of a table": """
        found = self.table.get(self.device)
        if found is None or found.numel() < n:
            found = torch.empty(n, device=self.device)
            self.table[self.device] = found  # 1
        return found
    """,
    "an entry by its own count": """
        found = ROOMS.get(self.device)
        if found is None or found.count < n:
            found = ROOMS[self.device] = Entry(n, torch.empty(n, device=self.device))  # 1
        return found.data
    """,
    "a dict in a table of the class, under another name": """
        rooms = Scratch.rooms
        if self.device not in rooms or rooms[self.device]["size"] < (n or 0):
            rooms[self.device] = {"data": torch.empty(n, device=self.device), "size": n}  # 1
        return rooms[self.device]["data"]
    """,
    "an object that allocates": """
        room = ROOMS.get(self.device)
        if room is None or n > room.capacity:
            room = Room(n, self.device)
            ROOMS[self.device] = room  # 1
        return room.data
    """,
    "a variable of the module": """
        global ROOM
        if ROOM is None or ROOM.numel() < n:
            ROOM = torch.empty(round_up(n), device=self.device)  # 1
        return ROOM
    """,
    "an attribute of the class": """
        if Scratch.room is None or Scratch.room.numel() < n:
            Scratch.room = torch.empty(n, device=self.device)  # 1
        return Scratch.room
    """,
    "resized in place": """
        if self.buffer.numel() < n:
            self.buffer.resize_(n)  # 1
        return self.buffer
    """,
    "resized under another name": """
        cls = type(self)
        if cls.room is None:
            cls.room = torch.empty(n, device=self.device)
        elif cls.room.numel() < n:
            cls.room.resize_((n,))  # 1
        return cls.room
    """,
    "destroyed and made again": """
        if self.buffer is not None and self.buffer.numel() >= n:
            return self.buffer
        self.destroy()
        self.buffer = torch.empty(n, device=self.device)  # 1
        return self.buffer
    """,
    "another key": """
        if self.buffer is not None and self.key == (n, self.device):
            return self.buffer
        self.buffer = torch.empty(n, device=self.device)  # 1
        self.key = (n, self.device)
        return self.buffer
    """,
    "another shape": """
        if self.buffer is None or self.buffer.shape != (n, n):
            self.buffer = torch.empty(n, n, device=self.device)  # 1
        return self.buffer
    """,
    "refused in a capture only": """
        if self.buffer.numel() < n:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("too small for this capture")
            self.buffer = torch.empty(n, device=self.device)  # 1
        return self.buffer
    """,
    "only the last one is kept": """
        if self.buffer.numel() < n:
            self.previous = self.buffer
            self.buffer = torch.empty(n, device=self.device)  # 1
        return self.buffer
    """,
    "the new one is kept too": """
        if self.buffer.numel() < n:
            self.buffer = torch.empty(n, device=self.device)  # 1
            self.current = self.buffer
        return self.buffer
    """,
    "something else is kept": """
        if self.buffer.numel() < n:
            self.retired.append(n)
            self.buffer = torch.empty(n, device=self.device)  # 1
        return self.buffer
    """,
    "kept in a list of the call": """
        old = []
        if self.buffer.numel() < n:
            old.append(self.buffer)
            self.buffer = torch.empty(n, device=self.device)  # 1
        return self.buffer
    """,
}


@pytest.mark.parametrize("body", GROWS.values(), ids=GROWS)
def test_growth_by_replacement_is_reported_where_the_larger_memory_is_put(body: str) -> None:
    (line,) = reported(getter(body))
    assert line.endswith("# 1")


HANDLED = {
    "retired": """
        if self.buffer.numel() < n:
            self.retired.append(self.buffer)
            self.buffer = torch.empty(n, device=self.device)
        return self.buffer
    """,
    "retired where a capture used it": """
        if self.buffer.numel() < n:
            if self.captured:
                self.retired.append(self.buffer)
                self.captured = False
            self.buffer = torch.empty(n, device=self.device)
        if torch.cuda.is_current_stream_capturing():
            self.captured = True
        return self.buffer
    """,
    "retired by a helper": """
        if self.buffer.numel() < n:
            self._keep(self.buffer)
            self.buffer = torch.empty(n, device=self.device)
        return self.buffer
    """,
    "retired in the module": """
        found = ROOMS.get(self.device)
        if found is None or found.numel() < n:
            if found is not None:
                OLD.append(found)
            found = ROOMS[self.device] = torch.empty(n, device=self.device)
        return found
    """,
    "retired under another name": """
        previous = self.buffer
        if previous is None or previous.numel() < n:
            self.buffer = torch.empty(n, device=self.device)
            self.retired.append(previous)
        return self.buffer
    """,
    "every view is kept": """
        if self.buffer.numel() < n:
            self.buffer = torch.empty(n, device=self.device)
        self.table[n] = self.buffer[:n]
        return self.table[n]
    """,
    "larger for this call alone": """
        if self.buffer.numel() < n:
            return torch.empty(n, device=self.device)
        return self.buffer
    """,
    "refused": """
        if self.buffer.numel() < n:
            raise RuntimeError("the scratch is too small")
        return self.buffer
    """,
    "made once, refused after": """
        if self.buffer is None:
            self.buffer = torch.empty(n, device=self.device)
        elif self.buffer.numel() < n:
            raise RuntimeError("the scratch is too small")
        return self.buffer
    """,
    "made once": """
        if self.buffer is None:
            self.buffer = torch.empty(n, device=self.device)
        return self.buffer
    """,
    "a key for each size": """
        if n not in self.table:
            self.table[n] = torch.empty(n, device=self.device)
        return self.table[n]
    """,
    "refused from some point on": """
        if self.buffer.numel() < n:
            if self.locked:
                raise RuntimeError("the scratch is locked")
            self.buffer = torch.empty(n, device=self.device)
        return self.buffer
    """,
    "a number that grows": """
        if self.capacity < n:
            self.capacity = n
        return self.capacity
    """,
    "on the host": """
        if self.buffer.numel() < n:
            self.buffer = torch.empty(n, device="cpu")
        return self.buffer
    """,
    "a local tensor": """
        room = torch.empty(4, device=self.device)
        if room.numel() < n:
            room.resize_(n)
        return room
    """,
}


@pytest.mark.parametrize("body", HANDLED.values(), ids=HANDLED)
def test_growth_that_leaves_the_old_memory_alone_is_not_reported(body: str) -> None:
    assert reported(getter(body)) == []


def test_a_closure_that_grows_its_table_is_reported() -> None:
    program = """
    import torch

    def make(device):
        table = {}
        best = None

        def get(name, n):
            if name not in table or table[name].numel() < n:
                table[name] = torch.empty(n, device=device)
            return table[name]

        def one(n):
            nonlocal best
            if best is None or best.numel() < n:
                best = torch.empty(n, device=device)
            return best

        return get, one
    """
    assert reported(program) == ["table[name] = torch.empty(n, device=device)", "best = torch.empty(n, device=device)"]


def test_a_helper_that_gives_the_same_or_a_larger_one_is_followed() -> None:
    program = """
    import torch

    def at_least(buffer, n):
        if buffer is not None and buffer.numel() >= n:
            return buffer
        return torch.empty(n, device="cuda")

    class Backend:
        def __init__(self):
            self.rows = None

        def prepare(self, n):
            self.rows = at_least(self.rows, n)
    """
    assert reported(program) == ["self.rows = at_least(self.rows, n)"]


def test_graphs_that_died_before_read_nothing() -> None:
    program = """
    import torch

    class Runner:
        def __init__(self):
            self.buffer = None
            self.graphs = {}

        def record(self, n):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.buffer.mul_(2)
            self.graphs[n] = graph

        def grow(self, n):
            if self.buffer is None or self.buffer.numel() < n:
                for graph in self.graphs.values():
                    graph.reset()
                self.graphs.clear()
                self.buffer = torch.empty(n, device="cuda")
    """
    assert reported(program) == []


CONSUMERS = """
import torch

ROOM = None

def room(n):
    global ROOM
    if ROOM is None or ROOM.numel() < n:
        ROOM = torch.empty(n, device="cuda")
    return ROOM

class Layer:
    def __init__(self, n):
        self.mine = {made}

    def forward(self, x):
        return torch.ops.engine.attend(x, {used})
"""


def test_memory_that_every_consumer_keeps_for_himself_is_not_reported() -> None:
    assert reported(CONSUMERS.replace("{made}", "room(n)").replace("{used}", "self.mine")) == []


def test_memory_that_is_asked_for_in_every_call_is_reported() -> None:
    assert reported(CONSUMERS.replace("{made}", "n").replace("{used}", "room(self.mine)")) == [
        'ROOM = torch.empty(n, device="cuda")'
    ]


ARENA = """
import torch

class Arena:
    def __init__(self, device):
        self.device = device
        self.sealed = False
        self.block = torch.empty(0, device=device)

    def ensure(self, n):
        if self.block.numel() < n:
            if self.sealed:
                raise RuntimeError("sealed")
            self.block = torch.empty(n, device=self.device)
        return self.block[:n]

    def seal(self):
        self.sealed = True

class Runner:
    def __init__(self, arena: Arena):
        self.arena = arena

    def step(self, x):
        return x + self.arena.ensure(x.shape[0])

    def record(self, x):
        self.step(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step(x)
        {last}
        return graph
"""


def test_a_lock_that_is_taken_silences() -> None:
    assert reported(ARENA.replace("{last}", "self.arena.seal()")) == []


def test_a_lock_that_nobody_takes_does_not() -> None:
    (finding,) = find(ARENA.replace("{last}", "pass"))
    assert finding.severity is Severity.ERROR


def test_a_lock_is_for_the_callers_of_a_library_to_take() -> None:
    assert reported(ARENA.partition("class Runner")[0]) == []


def test_a_library_without_captures_is_a_warning() -> None:
    (finding,) = find(getter(GROWS["too small"]))
    assert finding.severity is Severity.WARNING


def test_a_resized_tensor_is_an_error() -> None:
    (finding,) = find(getter(GROWS["resized in place"]))
    assert finding.severity is Severity.ERROR


# ------------------------------------------------------------------------------------------------------------------ fix

NOT_REWRITTEN = {
    "destroyed and made again",  # what it was is gone before it could be kept
}


def fixed(text: str) -> tuple[str, Sequence[Finding]]:
    """The program after the fix, and what is still found in it."""
    Path("m.py").write_text(textwrap.dedent(text).lstrip("\n"))
    outcome = fixing.fix(check.read(["."], Settings(), {}), registry.select((RULE,)), unsafe=True)
    changed = outcome.changes["m.py"].after.decode() if outcome.changes else ""
    return changed, outcome.report.findings


@pytest.mark.parametrize(
    "body", [GROWS[name] for name in GROWS.keys() - NOT_REWRITTEN], ids=GROWS.keys() - NOT_REWRITTEN
)
def test_the_rewrite_marks_retires_and_refuses(body: str) -> None:
    after, left = fixed(getter(body))
    assert left == ()
    compile(after, "m.py", "exec")
    assert after.count("is_current_stream_capturing()") == 2
    assert after.count("_retired") == 2
    assert fixed(after)[0] == ""


def test_growths_of_one_module_share_the_error() -> None:
    text = getter(GROWS["too small"]) + CONSUMERS.partition("class Layer")[0].replace("import torch\n", "")
    after, left = fixed(text)
    assert left == ()
    assert after.count("class WorkspaceGrowthError") == 1
    assert after.count("raise WorkspaceGrowthError") == 2


@pytest.mark.parametrize("name", sorted(NOT_REWRITTEN))
def test_what_has_no_right_text_is_left_alone(name: str) -> None:
    after, left = fixed(getter(GROWS[name]))
    assert after == ""
    assert len(left) == 1


def test_the_retired_list_goes_with_the_graphs_of_the_same_object() -> None:
    after, _ = fixed("""
    import torch

    class Runner:
        def __init__(self):
            self.room = None
            self.graphs = {}

        def get(self, n):
            if self.room is None or self.room.numel() < n:
                self.room = torch.empty(n, device="cuda")
            return self.room

        def record(self, x):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                x.add_(self.get(x.shape[0]))
            self.graphs[x.shape[0]] = graph

        def release(self):
            for graph in self.graphs.values():
                graph.reset()
            self.graphs.clear()
    """)
    assert after.index("graph.reset()") < after.index("self._room_retired.clear()")


@pytest.mark.parametrize(("name", "precision"), [("rows", Precision.MEDIUM), ("prefill_rows", Precision.LOW)])
def test_work_that_engines_do_not_capture_is_in_doubt(name: str, precision: Precision) -> None:
    program = f"""
    import torch

    ROOM = None

    def {name}(n):
        global ROOM
        if ROOM is None or ROOM.numel() < n:
            ROOM = torch.empty(n, device="cuda")
        return ROOM[:n]
    """
    Path("m.py").write_text(textwrap.dedent(program))
    report = check.check(["."], Settings(preview=True), registry.select((RULE,)))
    assert [each.precision for each in report.findings] == [precision]


def test_an_error_past_an_early_return_is_no_lock() -> None:
    program = """
    import torch

    class Room:
        def __init__(self):
            self.ready = False
            self.workspace = torch.empty(1, device="cuda")

        def prepare(self, n):
            if self.ready and self.workspace.numel() >= n:
                return
            if n <= 0:
                raise ValueError(n)
            self.workspace = torch.empty(n, device="cuda")
            self.ready = True

    def serve(room, n):
        room.prepare(n)
    """
    assert reported(program) == ['self.workspace = torch.empty(n, device="cuda")']


def test_an_input_that_is_replaced_for_being_empty_did_not_grow() -> None:
    program = """
    import torch

    class Batch:
        def __init__(self, lengths):
            self.lengths = lengths

        def pad(self, n):
            if self.lengths.shape[0] == 0:
                self.lengths = torch.tensor([n], device="cuda")

    class Runner:
        def __init__(self, batch):
            self.batch = batch
            self.graph = torch.cuda.CUDAGraph()

        def capture(self):
            with torch.cuda.graph(self.graph):
                self.batch.lengths.sum()
    """
    assert reported(program) == []


@pytest.mark.parametrize(
    ("check_of_width", "is_reported"), [("pass", True), ("assert self.rows.shape[1] >= 64", False)]
)
def test_an_assertion_about_the_size_is_no_comparison_that_makes_it_grow(
    check_of_width: str, is_reported: bool
) -> None:
    program = f"""
    import torch

    class Meta:
        def __init__(self, rows):
            self.rows = rows

        def pad(self):
            n = self.rows.shape[0]
            {check_of_width}
            full = (n + 63) // 64 * 64
            if {"full > n" if is_reported else "full != n"}:
                self.rows = torch.full((full, 64), 0, device="cuda")
            return self.rows

    class Runner:
        def __init__(self, meta: Meta):
            self.meta = meta
            self.graph = torch.cuda.CUDAGraph()

        def capture(self):
            with torch.cuda.graph(self.graph):
                self.meta.pad().sum()
    """
    assert bool(reported(program)) is is_reported


CALLERS = """
import torch

def run(graph, out, workspace_buffer):
    size = graph.get_workspace_size()
    if workspace_buffer.numel() < size:
        workspace_buffer.resize_(size)
    graph.execute(out, workspace_buffer)
"""


def test_the_workspace_of_a_caller_is_not_the_callee_s_to_resize() -> None:
    (finding,) = find(CALLERS)
    assert finding.severity is Severity.WARNING
    assert reported(CALLERS.replace("workspace_buffer", "out")) == []
    own = "def step(graph, out):\n    run(graph, out, torch.empty(8, device='cuda'))\n"
    assert reported(CALLERS + own) == []
    assert len(find(CALLERS + own.replace("torch.empty(8, device='cuda')", "graph.scratch"))) == 1


LEFT_ALONE = """
    import torch

    _room = None
    _in_graphs = False


    def room(n):
        global _room, _in_graphs
        have = 0 if _room is None else _room.numel()
        if have < n:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError(n)
            if {flag}:
                return torch.empty(n, device="cuda")
            _room = torch.empty(max(n, 2 * have), device="cuda")
        {note}
        return _room[:n]


    class Runner:
        def __init__(self, n):
            self.x = torch.zeros(n, device="cuda")
            self.graph = torch.cuda.CUDAGraph()

        def step(self):
            return self.x + room(self.x.numel())

        def record(self):
            self.step()
            with torch.cuda.graph(self.graph):
                self.y = self.step()
"""
NOTED = {
    "an expression": "_in_graphs = _in_graphs or torch.cuda.is_current_stream_capturing()",
    "a branch": "if torch.cuda.is_current_stream_capturing():\n            _in_graphs = True",
}


@pytest.mark.parametrize("note", NOTED.values(), ids=NOTED.keys())
def test_who_asks_after_a_capture_may_get_memory_of_his_own(note: str) -> None:
    assert reported(LEFT_ALONE.format(flag="_in_graphs", note=note)) == []
    assert len(reported(LEFT_ALONE.format(flag="n > 1 << 20", note=note))) == 1
    assert len(reported(LEFT_ALONE.format(flag="_in_graphs", note="_in_graphs = n > 4"))) == 1


LOCK = """
    import torch


    class Planes:
        def __init__(self):
            self.capacity = 0
            self.locked = False
            self.rows = None

        def ensure(self, n):
            if n > self.capacity:
                if torch.cuda.is_current_stream_capturing() {op} self.locked:
                    raise RuntimeError(n)
                self.rows = torch.empty(n, device="cuda")
                self.capacity = n
            return self.rows[:n]


    class Runner:
        def __init__(self, n):
            self.planes = Planes()
            self.graphs = {{}}
            self.planes.ensure(256)

        def record(self, n):
            x = torch.zeros(n, device="cuda")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = x + self.planes.ensure(n)
            self.planes.locked = True
            self.graphs[n] = graph, x, y

        def run(self, x):
            if x.numel() not in self.graphs:
                self.record(x.numel())
            self.graphs[x.numel()][0].replay()
"""


@pytest.mark.parametrize(("op", "is_reported"), [("or", False), ("and", True)])
def test_a_lock_beside_the_test_of_a_capture(op: str, is_reported: bool) -> None:
    assert bool(reported(LOCK.format(op=op))) is is_reported


LATE = """
import torch

class Arena:
    def __init__(self):
        self.locked = False
        self.buffer = None

    def room(self, n):
        if self.buffer is None or self.buffer.numel() < n:
            if self.locked:
                raise RuntimeError("locked")
            self.buffer = torch.empty(n, device="cuda")
        return self.buffer[:n]

    def lock(self):
        self.locked = True

ARENA = Arena()

class OldRunner:
    def capture_model(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            ARENA.room(64)
        ARENA.lock()

class Runner:
    def capture_model(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            ARENA.room(64)

class Worker:
    def __init__(self, runner: Runner, step):
        self.runner = runner
        self.step = step

    def start(self, eager):
        if not eager:
            self.runner.capture_model()
        warm_up_kernels(self.runner)
        self.step()
"""


def test_a_warm_up_after_a_capture_that_locks_nothing_is_a_note() -> None:
    (finding,) = find(LATE)
    assert finding.severity is Severity.NOTE
    assert reported(LATE) == ["warm_up_kernels(self.runner)"]
    assert reported(LATE.replace("runner: Runner", "runner: OldRunner")) == []
    assert reported(LATE.replace("        warm_up_kernels(self.runner)\n", "")) == []
    moved = LATE.replace("        warm_up_kernels(self.runner)\n", "").replace(
        "        if not eager:\n", "        warm_up_kernels(self.runner)\n        if not eager:\n"
    )
    assert reported(moved) == []
    assert reported(LATE.replace("        warm_up", "        else:\n            warm_up")) == []


SIZES = {
    "a floor": ("max(n, 64)", "", Severity.NOTE),
    "a floor of something that is known": ("(bound, 8)", "bound = max(n, self.rows * 8)", Severity.NOTE),
    "what there was": ("max(n, 2 * self.scratch.numel())", "", Severity.WARNING),
    "what there was, by another name": ("max(n, 2 * have)", "have = self.scratch.numel()", Severity.WARNING),
    "what is asked for": ("n", "", Severity.WARNING),
    "a part of a product": ("n * max(self.rows, 2)", "", Severity.WARNING),
    "one number": ("max(sizes)", "", Severity.WARNING),
}


@pytest.mark.parametrize(("size", "statement", "expected"), SIZES.values(), ids=list(SIZES))
def test_what_is_made_larger_than_asked_for_is_a_note(size: str, statement: str, expected: Severity) -> None:
    program = f"""
import torch


class Mixer:
    def __init__(self, rows):
        self.rows = rows
        self.scratch = None

    def mix(self, x, sizes):
        n = x.numel()
        {statement or "pass"}
        if self.scratch is None or self.scratch.numel() < n:
            self.scratch = torch.empty({size}, device="cuda")
        return self.scratch[:n]
"""
    assert [each.severity for each in find(program)] == [expected]


@pytest.mark.parametrize(
    ("name", "other", "expected"),
    [
        ("init_graph_state", "self.lengths = torch.ones(rows, device='cuda')", Severity.NOTE),
        ("init_graph_state", "self.lengths.zero_()", Severity.WARNING),
        ("init_graph_state", "if rows > 8: self.lengths = torch.ones(rows, device='cuda')", Severity.WARNING),
        ("step", "self.lengths = torch.ones(rows, device='cuda')", Severity.WARNING),
    ],
)
def test_a_set_up_that_makes_the_rest_anew_is_a_note(name: str, other: str, expected: Severity) -> None:
    program = f"""
import torch


class Backend:
    def __init__(self, rows):
        self.starts = torch.zeros(rows, device="cuda")
        self.lengths = torch.zeros(rows, device="cuda")

    def {name}(self, rows):
        if rows > self.starts.shape[0]:
            self.starts = torch.zeros(rows, device="cuda")
        {other}

    def run(self, rows):
        self.{name}(rows)
"""
    assert [each.severity for each in find(program)] == [expected]


DOUBTED = {
    "a size": ("self.scratch is None or self.scratch.numel() < n", "torch.empty(n, device='cuda')", Severity.WARNING),
    "the object": ("self.scratch is None or self.source is not x", "torch.empty(n, device='cuda')", Severity.NOTE),
    "a call that allocates": ("self.scratch is None or self.scratch.numel() < n", "made(n, True)", Severity.WARNING),
    "a call that does not": ("self.scratch is None or self.scratch.numel() < n", "made(n, False)", Severity.NOTE),
    "in a capture alone": (
        "torch.cuda.is_current_stream_capturing() and (self.scratch is None or self.scratch.numel() < n)",
        "torch.empty(n, device='cuda')",
        Severity.NOTE,
    ),
}


@pytest.mark.parametrize(("test", "value", "expected"), DOUBTED.values(), ids=list(DOUBTED))
def test_what_is_no_growth_for_somebody_later_is_a_note(test: str, value: str, expected: Severity) -> None:
    program = f"""
import torch


def made(n, owned):
    block = None
    if owned:
        block = torch.empty(n, device="cuda")
    return block


class Mixer:
    def __init__(self):
        self.scratch = None
        self.source = None

    def mix(self, x):
        n = x.numel()
        if {test}:
            self.source = x
            self.scratch = {value}
        return self.scratch
"""
    assert [each.severity for each in find(program)] == [expected]


HELPER = """
    import torch


    def at_least(have: torch.Tensor, rows: int) -> torch.Tensor:
        if {test}:
            return have
        return have.new_empty((2 * rows, *have.shape[1:]))


    class Indexer:
        def __init__(self):
            self.scores = torch.empty(16, 4, device="cuda")

        def forward(self, q):
            self.scores = at_least(self.scores, q.shape[0])
            return self.scores[: q.shape[0]] + q


    class Runner:
        def __init__(self, indexer: Indexer, q):
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = indexer.forward(q)
"""


@pytest.mark.parametrize(("test", "is_reported"), [("have.shape[0] >= rows", True), ("True", False)])
def test_a_helper_gives_back_what_is_there_or_more(test: str, is_reported: bool) -> None:
    assert bool(reported(HELPER.format(test=test))) is is_reported


@pytest.mark.parametrize(
    ("larger", "expected"),
    [
        ("torch.cat((self.data, torch.empty(n, device='cuda')))", Severity.NOTE),
        ("torch.empty(2 * n, device='cuda')", Severity.WARNING),
    ],
)
def test_a_sequence_that_grows_is_less_sure_than_scratch(larger: str, expected: Severity) -> None:
    program = f"""
import torch


class Tokens:
    def __init__(self):
        self.data = torch.empty(16, device="cuda")

    def reserve(self, n):
        if n > self.data.numel():
            self.data = {larger}
        return self.data
"""
    assert [each.severity for each in find(program)] == [expected]


def test_memory_that_is_put_together_from_what_was_there_and_more() -> None:
    program = """
    import torch

    class Arena:
        def __init__(self):
            self.data = torch.empty(1024, device="cuda")

        def reserve(self, n):
            if n <= self.data.numel():
                return
            self.data = torch.cat([self.data, torch.empty(n - self.data.numel(), device="cuda")])

    class Runner:
        def __init__(self, arena: Arena, x):
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                arena.reserve(x.numel())
                self.out = x + arena.data
    """
    assert len(reported(program)) == 1
    locked = program.replace(
        "                return\n",
        "                return\n            if self.locked:\n                raise ValueError\n",
    )
    locked = locked.replace("self.out = x + arena.data", "self.out = x + arena.data\n            arena.locked = True")
    assert reported(locked) == []
