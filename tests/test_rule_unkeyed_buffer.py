"""Which requests for a buffer say too little, and which say enough."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings
from graphlint.findings import Finding, Severity

RULE = "unkeyed-buffer"

DISPLACING = """
import math
from dataclasses import dataclass

import torch


class Depot:
    def __init__(self):
        self.shelf = {}

    def lease(self, label, extent, dtype, device, hold=False):
        need = math.prod(extent) * dtype.itemsize
        piece = self.shelf.get(label)
        if piece is None or piece.numel() < need:
            piece = torch.empty(need, dtype=torch.uint8, device=device)
            self.shelf[label] = piece
        return piece[:need].view(dtype).view(extent)


DEPOT = Depot()
"""

KEEPING = """
import torch

TABLE = {}


def held(label, extent, dtype, device):
    if label not in TABLE:
        TABLE[label] = torch.empty(extent, dtype=dtype, device=device)
    return TABLE[label]
"""


def findings(folder: Path, text: str, *, preview: bool = False) -> list[Finding]:
    (folder / "program.py").write_text(text, encoding="utf-8")
    report = check.check([str(folder)], Settings(preview=preview), registry.select([RULE]))
    return list(report.findings)


def rows(found: list[Finding], text: str) -> list[int]:
    return [text[: finding.span.start].count("\n") + 1 for finding in found]


def with_body(head: str, body: str) -> str:
    return f"{head}\n\n{textwrap.dedent(body).strip()}\n"


NAMES = {
    "literal": '"mix"',
    "device only": 'f"mix_{x.device}"',
    "lossy": 'f"mix_{x.shape[0] // 64}_{x.dtype}_{x.device}"',
    "compared": 'f"mix_{x.shape[0] > 8}_{x.dtype}_{x.device}"',
    "concatenated": '"mix_" + str(x.device)',
    "format": '"mix_{}".format(x.dtype)',
    "percent": '"mix_%s" % x.device',
    "local": "name",
    "helper that drops its argument": "named(x.shape[0])",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=list(NAMES))
def test_a_name_that_lacks_the_size_is_an_error_where_a_hit_displaces(tmp_path: Path, name: str) -> None:
    text = with_body(
        DISPLACING,
        f"""
        def named(rows):
            return "mix"


        def forward(x):
            name = "mix"
            return DEPOT.lease({name}, (x.shape[0], 8), x.dtype, x.device)
        """,
    )
    (found,) = findings(tmp_path, text)
    assert "DEPOT.lease" in text.splitlines()[rows([found], text)[0] - 1]
    assert found.severity is Severity.ERROR


COMPLETE = {
    "f-string": 'f"mix_{x.shape[0]}_{x.dtype}_{x.device}"',
    "whole shape": 'f"mix_{x.shape}_{x.dtype}_{x.device}"',
    "concatenated": '"mix" + str(x.shape[0]) + str(x.dtype) + str(x.device)',
    "format": '"mix_{}_{}_{}".format(x.shape[0], x.dtype, x.device)',
    "percent": '"mix_%s_%s_%s" % (x.shape[0], x.dtype, x.device)',
    "join": '"_".join(str(part) for part in ("mix", x.shape[0], x.dtype, x.device))',
    "local": "name",
    "helper": "named(x.shape[0], x.dtype, x.device)",
    "tuple": '("mix", x.size(0), x.dtype, x.device)',
}


@pytest.mark.parametrize("name", COMPLETE.values(), ids=list(COMPLETE))
def test_a_name_that_holds_everything_is_silent(tmp_path: Path, name: str) -> None:
    text = with_body(
        DISPLACING,
        f"""
        def named(*parts):
            return "mix_" + "_".join(str(part) for part in parts)


        def forward(x):
            name = f"mix_{{x.shape[0]}}_{{x.dtype}}_{{x.device}}"
            return DEPOT.lease({name}, (x.shape[0], 8), x.dtype, x.device)
        """,
    )
    assert findings(tmp_path, text, preview=True) == []


def test_one_size_for_one_name_is_silent(tmp_path: Path) -> None:
    text = with_body(
        DISPLACING,
        """
        WIDTH = 64


        def forward():
            return DEPOT.lease("flags", (8, WIDTH), torch.int32, "cuda")
        """,
    )
    assert findings(tmp_path, text, preview=True) == []


def test_a_hit_that_is_kept_is_a_warning(tmp_path: Path) -> None:
    text = with_body(KEEPING, 'def forward(x):\n    return held("mix", x.shape, x.dtype, x.device)')
    (found,) = findings(tmp_path, text)
    assert found.severity is Severity.WARNING


@pytest.mark.parametrize(
    "check_",
    [
        "if found.shape != extent or found.dtype != dtype or found.device != device:\n        raise ValueError(label)",
        "assert (found.shape, found.dtype, found.device) == (extent, dtype, device)",
        "if found.shape != extent or found.dtype != dtype or found.device != device:\n        return None",
    ],
)
def test_a_hit_that_is_checked_is_silent(tmp_path: Path, check_: str) -> None:
    text = with_body(
        "import torch\n\nTABLE = {}",
        f"""
def held(label, extent, dtype, device):
    if label not in TABLE:
        TABLE[label] = torch.empty(extent, dtype=dtype, device=device)
    found = TABLE[label]
    {check_}
    return found


def forward(x):
    return held("mix", x.shape, x.dtype, x.device)
""",
    )
    assert findings(tmp_path, text, preview=True) == []


FLAGS = {
    "off": ("False", True),
    "left out": ("", True),
    "read at the call": ("torch.cuda.is_current_stream_capturing()", False),
    "what it is for": ("layer.for_graph", False),
}


@pytest.mark.parametrize(("flag", "reported"), FLAGS.values(), ids=list(FLAGS))
def test_reserved_while_capturing_is_the_accepted_idiom(tmp_path: Path, flag: str, *, reported: bool) -> None:
    head = """
import math
from dataclasses import dataclass

import torch


@dataclass
class Piece:
    data: torch.Tensor
    held: bool = False


class Depot:
    def __init__(self):
        self.shelf = {}

    def lease(self, label, extent, dtype, hold=False):
        need = math.prod(extent) * dtype.itemsize
        pieces = self.shelf.get(label, [])
        if hold:
            for piece in pieces:
                if piece.data.numel() >= need:
                    piece.held = True
                    return piece.data
        for piece in list(pieces):
            if not piece.held:
                pieces.remove(piece)
        piece = Piece(torch.zeros(need, device="cuda", dtype=torch.uint8), held=hold)
        self.shelf.setdefault(label, []).append(piece)
        return piece.data


DEPOT = Depot()
"""
    argument = f", hold={flag}" if flag else ""
    text = with_body(
        head, f'def forward(layer, x):\n    return DEPOT.lease("mix", (x.shape[0], 8), torch.float32{argument})'
    )
    assert bool(findings(tmp_path, text)) is reported


def test_the_request_is_where_the_name_is_made(tmp_path: Path) -> None:
    text = with_body(
        DISPLACING,
        """
        def passed_on(label, extent, like):
            return DEPOT.lease(label, extent, like.dtype, like.device)


        def forward(x):
            whole = passed_on(f"whole_{x.shape}_{x.dtype}_{x.device}", x.shape, x)
            return passed_on("part", x.shape, x)  # here
        """,
    )
    found = findings(tmp_path, text)
    assert [text.splitlines()[row - 1].endswith("# here") for row in rows(found, text)] == [True]


def test_a_key_that_lacks_an_attribute_of_the_asking_object_is_reported_at_the_store(tmp_path: Path) -> None:
    text = with_body(
        "import torch",
        """
        class Stage:
            table = {}

            def __init__(self, width):
                self.width = width

            def scratch(self, rows):
                if rows not in self.table:  # here
                    self.table[rows] = torch.empty(rows, self.width, device="cuda")
                return self.table[rows]

            def forward(self, x):
                return self.scratch(x.shape[0])
        """,
    )
    found = findings(tmp_path, text)
    assert [text.splitlines()[row - 1].endswith("# here") for row in rows(found, text)] == [True]


def test_a_constant_of_all_objects_is_not_missing(tmp_path: Path) -> None:
    text = with_body(
        "import torch",
        """
        class Stage:
            table = {}

            def __init__(self):
                self.width = 64

            def scratch(self, rows):
                if rows not in self.table:
                    self.table[rows] = torch.empty(rows, self.width, device="cuda")
                return self.table[rows]

            def forward(self, x):
                return self.scratch(x.shape[0])
        """,
    )
    assert findings(tmp_path, text, preview=True) == []


def test_the_table_of_one_object_is_its_own_matter(tmp_path: Path) -> None:
    text = with_body(
        "import torch",
        """
        class Stage:
            def __init__(self, width):
                self.table = {}
                self.width = width

            def scratch(self, label, rows):
                if label not in self.table:
                    self.table[label] = torch.empty(rows, self.width, device="cuda")
                return self.table[label]

            def forward(self, x):
                return self.scratch("mix", x.shape[0])
        """,
    )
    assert findings(tmp_path, text, preview=True) == []


def test_a_table_that_no_capture_asks_is_silent(tmp_path: Path) -> None:
    text = with_body(
        "import torch\n\nTABLE = {}",
        """
        def scratch(label, rows, device):
            if torch.cuda.is_current_stream_capturing():
                return torch.empty(rows, device=device)
            found = TABLE.get(label)
            if found is None or found.numel() < rows:
                found = TABLE[label] = torch.empty(rows, device=device)
            return found


        def forward(x):
            return scratch("mix", x.shape[0], x.device)
        """,
    )
    assert findings(tmp_path, text, preview=True) == []


def test_the_same_guard_the_other_way_round_proves_nothing(tmp_path: Path) -> None:
    text = with_body(
        "import torch\n\nTABLE = {}",
        """
        def scratch(label, rows, device):
            if not torch.cuda.is_current_stream_capturing():
                return torch.empty(rows, device=device)
            found = TABLE.get(label)
            if found is None or found.numel() < rows:
                found = TABLE[label] = torch.empty(rows, device=device)
            return found


        def forward(x):
            return scratch("mix", x.shape[0], x.device)
        """,
    )
    assert len(findings(tmp_path, text)) == 1


def test_what_grew_out_of_use_and_is_retired_is_silent(tmp_path: Path) -> None:
    text = with_body(
        "import torch\n\nTABLE = {}\nOLD = []",
        """
        def scratch(label, rows):
            found = TABLE.get(label)
            if found is None or found.numel() < rows:
                if found is not None:
                    OLD.append(found)
                found = torch.empty(rows, device="cuda")
                TABLE[label] = found
            return found


        def forward(x):
            return scratch("mix", x.shape[0])
        """,
    )
    assert findings(tmp_path, text, preview=True) == []


DEVICES = "def build(plan):\n    return [Stage(device) for device in plan.devices]"


@pytest.mark.parametrize(("more", "reported"), [("", False), (DEVICES, True)], ids=["one device", "several devices"])
def test_a_missing_device_counts_where_a_process_drives_several(tmp_path: Path, more: str, *, reported: bool) -> None:
    text = with_body(
        "import torch",
        """
        class Stage:
            table = {}

            def __init__(self, device):
                self.device = torch.device(device)

            def scratch(self, rows):
                if rows not in self.table:
                    self.table[rows] = torch.empty(rows, device=self.device)
                return self.table[rows]

            def forward(self, x):
                return self.scratch(x.shape[0])
        """,
    )
    found = findings(tmp_path, f"{text}\n\n{more}\n")
    assert bool(found) is reported
    assert all(each.severity is Severity.WARNING for each in found)


def test_an_asserted_type_is_not_missing(tmp_path: Path) -> None:
    text = with_body(
        "import torch\n\nTABLE = {}",
        """
        def forward(logits):
            assert logits.dtype == torch.float32
            found = TABLE.get(logits.shape)
            if found is None:
                found = TABLE[logits.shape] = torch.empty(logits.shape, dtype=logits.dtype, device="cuda")
            return found
        """,
    )
    assert findings(tmp_path, text, preview=True) == []


def test_the_first_parameters_win_in_a_single_slot(tmp_path: Path) -> None:
    text = with_body(
        "from deep_ep import Buffer",
        """
        class Exchange:
            buffer = None

            @classmethod
            def get(cls, group, hidden):
                if cls.buffer is not None:
                    return cls.buffer
                cls.buffer = Buffer(group, hidden)
                return cls.buffer


        def dispatch(group, x):
            return Exchange.get(group, x.shape[1])
        """,
    )
    (found,) = findings(tmp_path, text)
    assert found.severity is Severity.WARNING
    assert "Exchange.buffer" in found.message


def test_a_vocabulary_knows_a_registry_whose_code_is_not_there(tmp_path: Path) -> None:
    text = """
import torch
from megatron.core.parallel_state import get_global_memory_buffer


def gather(x):
    return get_global_memory_buffer().get_tensor(x.shape, x.dtype, "mpu")


def named(x):
    return get_global_memory_buffer().get_tensor(x.shape, x.dtype, f"mpu_{x.shape}")
"""
    found = findings(tmp_path, text)
    assert rows(found, text) == [7]
    assert found[0].severity is Severity.ERROR


def test_host_memory_is_no_graphs_matter(tmp_path: Path) -> None:
    text = with_body(
        "import torch\n\nTABLE = {}",
        """
        def stage(label, rows):
            if label not in TABLE:
                TABLE[label] = torch.empty(rows, pin_memory=True)
            return TABLE[label]


        def forward(x):
            return stage("mix", x.shape[0])
        """,
    )
    assert findings(tmp_path, text, preview=True) == []


def test_what_is_given_again_with_the_very_object_needs_no_key(tmp_path: Path) -> None:
    program = """
import torch

LAST = None


def layout(offsets, lengths, total):
    global LAST
    if LAST is not None:
        (known, known_total), held = LAST
        if known IS offsets and known_total == total:
            return held
    made = torch.arange(total, device=offsets.device), torch.zeros(max(lengths.tolist()), device=offsets.device)
    LAST = ((offsets, total), made)
    return made


def attend(x, lengths):
    return layout(x, lengths, x.shape[0])
"""
    assert not findings(tmp_path, program.replace("IS", "is"))


@pytest.mark.parametrize(("wide", "missing"), [("is_new()", False), ("runner.wide", True)])
def test_what_a_process_answers_once_is_no_part_of_a_key(tmp_path: Path, wide: str, missing: bool) -> None:
    program = f"""
import torch

TABLE = {{}}
SCALE = 64


def is_new():
    return torch.version.cuda > "12"


class Layer:
    def __init__(self, runner):
        self.wide = {wide}
        self.rows = scratch("rows", SCALE if self.wide else 2 * SCALE, runner.device)


def scratch(name, n, device):
    block = TABLE.get((name, device))
    if block is None:
        block = TABLE[(name, device)] = torch.empty(n, device=device)
    return block
"""
    assert bool(findings(tmp_path, program, preview=True)) is missing


def test_a_text_of_the_function_itself_names_one_buffer_that_grows(tmp_path: Path) -> None:
    program = """
import torch

TABLE = {}


def split(rows, device):
    key = f"split:{device}"
    block = TABLE.get(key)
    if block is None or block.shape[0] < rows:
        block = torch.empty(rows, device=device)
        TABLE[key] = block
    return block[:rows]


def attend(x):
    return split(x.shape[0], x.device)
"""
    assert not findings(tmp_path, program)


TOLD = """
import torch

TABLE = {}


def steps(count: int, stride: int, device: torch.device) -> torch.Tensor:
    if (count, stride) not in TABLE:
        TABLE[(count, stride)] = torch.arange(0, count * stride, step=stride, device=device)
    return TABLE[(count, stride)]
"""


def test_a_device_that_a_function_is_told_and_leaves_out_of_the_key_is_a_note(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, TOLD)
    assert (found.severity, found.values["missing"]) == (Severity.NOTE, "device")
    keyed = TOLD.replace("(count, stride)", "(count, stride, device)")
    assert findings(tmp_path, keyed) == []
    both = 'DEVICES = [torch.device(f"cuda:{i}") for i in range(torch.cuda.device_count())]\n'
    assert [each.severity for each in findings(tmp_path, TOLD + both)] == [Severity.WARNING]
