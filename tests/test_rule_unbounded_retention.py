"""What is noted as a list of retired memory that only grows, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings
from graphlint.findings import Severity

RULE = "unbounded-retention"

PROGRAM = """
import torch


class Scratch:
    def __init__(self):
        self.buffer = torch.empty(4, device="cuda")
        self.retired = []

    def get(self, n):
        if self.buffer.numel() < n:
            self.retired.append(self.buffer)
            self.buffer = torch.empty(n, device="cuda")
        return self.buffer[:n]
{method}

class Runner:
    def __init__(self, scratch: Scratch):
        self.scratch = scratch
        self.graph = None

    def step(self, x):
        return x + self.scratch.get(x.shape[0])

    def record(self, x):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step(x)

    def release(self):
        {release}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def noted(release: str = "self.graph.reset()", method: str = "") -> list[str]:
    """The noted lines of the program, with this release and this further method of the scratch."""
    text = PROGRAM.replace("{release}", release).replace("{method}", method).lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert all(each.severity is Severity.NOTE for each in findings)
    return [text.encode()[slice(*each.span)].decode() for each in findings]


def test_a_list_that_nothing_takes_from_is_noted() -> None:
    assert noted() == ["self.retired.append(self.buffer)"]


@pytest.mark.parametrize(
    "method",
    [
        "\n    def free(self):\n        self.retired.clear()\n",
        "\n    def free(self):\n        self.retired = []\n",
        "\n    def free(self):\n        while self.retired:\n            self.retired.pop()\n",
        "\n    def free(self):\n        del self.retired[:]\n",
    ],
)
def test_a_list_that_something_empties_is_not(method: str) -> None:
    assert noted(method=method) == []


def test_a_list_that_its_owner_empties_is_not() -> None:
    assert noted(release="self.graph.reset()\n        self.scratch.retired.clear()") == []


def test_nothing_is_noted_where_no_graph_is_reset() -> None:
    assert noted(release="pass") == []


def test_nothing_is_noted_where_nothing_captures_it() -> None:
    text = (
        PROGRAM.replace("{release}", "self.graph.reset()")
        .replace("{method}", "")
        .replace("self.step(x)\n\n", "pass\n\n")
    )
    Path("m.py").write_text(text)
    assert check.check(["."], Settings(), registry.select((RULE,))).findings == ()


READ = """
import torch


class Bank:
    def __init__(self):
        self.table = torch.zeros(8, 4, device="cuda")
        self.count = 0
        self.former = []

    def add(self, row):
        if self.count == self.table.shape[0]:
            self.double()
        self.table[self.count].copy_(row)
        self.count += 1

    def double(self):
        former = self.table
        self.former.append(former)
        self.table = torch.zeros(2 * former.shape[0], 4, device="cuda")


class Runner:
    def __init__(self, bank: Bank):
        self.bank = bank
        self.graph = torch.cuda.CUDAGraph()

    def record(self, net, x):
        with torch.cuda.graph(self.graph):
            net(x, {table})

    def release(self):
        self.graph.reset()
"""


@pytest.mark.parametrize(("table", "expected"), [("self.bank.table", ["self.former.append(former)"]), ("x", [])])
def test_what_grows_outside_of_captures_and_is_read_in_them(table: str, expected: list[str]) -> None:
    text = READ.format(table=table)
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == expected


NAMED = """
import collections

import torch


class Spaces:
    def __init__(self):
        self.current = {{}}
        self.parked = collections.defaultdict(list)

    def at_least(self, name: str, n):
        have = self.current.get(name)
        if have is not None and have.numel() >= n:
            return have[:n]
        if have is not None:
            self.parked[name].append(have)
        self.current[name] = torch.empty(n, device="cuda")
        return self.current[name]


class Runner:
    def __init__(self, spaces: Spaces):
        self.spaces = spaces
        self.graph = torch.cuda.CUDAGraph()

    def record(self, x):
        with torch.cuda.graph(self.graph):
            x + self.spaces.at_least("states", x.numel())

    def release(self):
        self.graph.reset()
        {end}
"""


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("pass", ["self.parked[name].append(have)"]),
        ("self.spaces.parked.clear()", []),
        ("for old in self.spaces.parked.values():\n            old.clear()", []),
    ],
)
def test_lists_by_name(end: str, expected: list[str]) -> None:
    text = NAMED.format(end=end)
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == expected


@pytest.mark.parametrize(
    ("start", "keep", "kept"),
    [
        ("()", "self.retired = (*self.retired, self.buffer)", True),
        ("[]", "self.retired = self.retired + [self.buffer]", True),
        ("[]", "self.retired = [*self.retired, self.buffer]", True),
        ("[]", "self.retired = [self.buffer]", False),
    ],
)
def test_a_container_that_is_made_longer(start: str, keep: str, kept: bool) -> None:
    program = PROGRAM.replace("self.retired = []", f"self.retired = {start}")
    text = program.replace("self.retired.append(self.buffer)", keep)
    text = text.replace("{release}", "self.graph.reset()").replace("{method}", "").lstrip("\n")
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    assert [text.encode()[slice(*each.span)].decode() for each in findings] == ([keep] if kept else [])


def of(text: str) -> list[str]:
    """The noted lines of a program."""
    Path("m.py").write_text(text.lstrip("\n"))
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    content = Path("m.py").read_bytes()
    return [content.splitlines()[content[: each.span.start].count(b"\n")].strip().decode() for each in findings]


GRAPHS = """
import torch


class Session:
    def __init__(self, net, n):
        self.x = torch.zeros(n, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = net(self.x)

    def run(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


class Server:
    def __init__(self, net):
        self.net = net
        self.count = 0
        self.session = Session(net, 4)
        self.graphs = {}
        self.old = KIND

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net(n)
        self.graphs[n] = graph

BODY
"""

KEPT = {
    "appended": (
        "[]",
        """
    def resize(self, n):
        self.old.append(self.session)
        self.session = Session(self.net, n)
""",
        "self.old.append(self.session)",
    ),
    "behind a variable": (
        "[]",
        """
    def resize(self, n):
        before = self.session
        self.session = Session(self.net, n)
        self.old.append(before)
""",
        "self.old.append(before)",
    ),
    "under a number": (
        "{}",
        """
    def resize(self, n):
        self.count += 1
        self.old[self.count] = self.session
        self.session = Session(self.net, n)
""",
        "self.old[self.count] = self.session",
    ),
    "a table of graphs": (
        "[]",
        """
    def again(self):
        self.old.append(self.graphs)
        self.graphs = {}
        print(len(self.old))
""",
        "self.old.append(self.graphs)",
    ),
    "by a helper": (
        "[]",
        """
    def again(self, n):
        self._park(self.session)
        self.session = Session(self.net, n)

    def _park(self, what):
        self.old += [what]
""",
        "self.old += [what]",
    ),
}

LEFT = {
    "taken out again": (
        "[]",
        """
    def resize(self, n):
        self.old.append(self.session)
        self.session = Session(self.net, n)

    def close(self):
        while self.old:
            self.old.pop()
""",
    ),
    "found again": (
        "{}",
        """
    def resize(self, n):
        self.old[self.count] = self.session
        self.session = self.old[n] if n in self.old else Session(self.net, n)
""",
    ),
    "run again": (
        "[]",
        """
    def resize(self, n):
        self.old.append(self.session)
        self.session = Session(self.net, n)

    def run(self, x):
        return [each.run(x) for each in self.old]
""",
    ),
    "a number": (
        "[]",
        """
    def resize(self, n):
        self.old.append(self.count)
        self.count = n
""",
    ),
    "not replaced": (
        "[]",
        """
    def keep(self):
        self.old.append(self.session)
""",
    ),
    "for the call alone": (
        "[]",
        """
    def resize(self, n):
        before = []
        before.append(self.session)
        self.session = Session(self.net, n)
""",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_graphs_that_are_replaced_and_kept(name: str) -> None:
    kind, body, line = KEPT[name]
    assert of(GRAPHS.replace("KIND", kind).replace("BODY", body.strip("\n"))) == [line]


@pytest.mark.parametrize("name", LEFT)
def test_graphs_that_are_used_again_or_not_replaced(name: str) -> None:
    kind, body = LEFT[name]
    assert of(GRAPHS.replace("KIND", kind).replace("BODY", body.strip("\n"))) == []


STORE = """
import torch


class Tensors:
    def __init__(self):
        self.by_name = {}
        self.stale = []

    def put(self, name, tensor):
        before = self.by_name.get(name)
        if before is not None and before.shape != tensor.shape:
            self.stale.append(before)
        self.by_name[name] = tensor

    def __getitem__(self, name):
        return self.by_name[name]


class Recorder:
    def __init__(self):
        self.tensors = Tensors()
        self.resize(8)

    def resize(self, n):
        self.tensors.put("ids", torch.zeros(n, device="cuda"))

    def record(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.tensors["ids"] + 1

    def reset(self):
        self.graph.reset()
        # and then
"""


def test_memory_that_is_put_into_the_place_of_other_memory() -> None:
    assert of(STORE) == ["self.stale.append(before)"]
    assert of(STORE.replace("# and then", "self.tensors.stale.clear()")) == []
    assert of(STORE.replace('self.tensors["ids"] + 1', "torch.ones(1)")) == []  # no graph reads it


CHAIN = """
import torch


class Block:
    def __init__(self, n, before=None):
        self.data = torch.empty(n, device="cuda")
        self.before = before


class Arena:
    def __init__(self):
        self.top = Block(16)

    def take(self, n):
        if self.top.data.numel() < n:
            self.top = Block(n, self.top)
        return self.top.data[:n]


class Steps:
    def __init__(self):
        self.arena = Arena()

    def record(self, n):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.arena.take(n).zero_()

    def reset(self):
        self.graph.reset()
        # and then
"""


def test_a_chain_of_what_was_outgrown() -> None:
    assert of(CHAIN) == ["self.top = Block(n, self.top)"]
    assert of(CHAIN.replace("# and then", "self.arena.top.before = None")) == []
