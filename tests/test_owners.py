"""The inventory of graphs, pools and workspaces: where each is made, captured, released and erased, and who owns it."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from graphlint import check
from graphlint.cli import cli
from graphlint.config import Settings
from graphlint.owners import Owned, owners

CODE = """
import torch
from typing import NamedTuple


class Entry(NamedTuple):
    graph: torch.cuda.CUDAGraph
    out: torch.Tensor


class Runner:
    def __init__(self):
        self.pool = torch.cuda.graph_pool_handle()
        self.x = torch.zeros(4, device="cuda")
        self.graphs = {}
        self.entries = {}
        self.outputs = {}

    def capture(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            out = self.x * 2
        self.graphs[n] = graph
        self.outputs[n] = out

    def record(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.x * 3
        self.entries[n] = Entry(graph, out)

    def clear(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        self.outputs.clear()
        self.pool = None
        torch.cuda.empty_cache()


class Server:
    def __init__(self):
        self.runner = Runner()

    def shutdown(self):
        self.runner.clear()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(code: str = CODE) -> dict[str, Owned]:
    Path("m.py").write_text(code.lstrip("\n"))
    return {each.name: each for each in owners(check.read(["m.py"], Settings(), {}))}


def rows(sites: Any, code: str = CODE) -> list[str]:
    source = code.lstrip("\n").encode()
    lines = source.decode().splitlines()
    return [lines[source[: site.span.start].count(b"\n")].strip() for site in sites]


def test_kinds_and_names() -> None:
    assert {each.name: each.kind for each in found().values()} == {
        "Runner.pool": "pool",
        "Runner.graphs": "graphs",
        "Runner.entries": "graphs",
        "Runner.outputs": "workspace",
    }


def test_a_container_of_graphs() -> None:
    graphs = found()["Runner.graphs"]
    assert rows(graphs.made) == ["self.graphs[n] = graph"]
    assert rows(graphs.captured) == ["with torch.cuda.graph(graph, pool=self.pool):"]
    assert [site.note for site in graphs.captured] == ["pool Runner.pool"]
    assert [site.function for site in graphs.released] == ["Runner.clear"]
    assert rows(graphs.erased) == ["torch.cuda.empty_cache()"]
    assert graphs.verdict == "owned"


def test_a_pool() -> None:
    pool = found()["Runner.pool"]
    assert rows(pool.made) == ["self.pool = torch.cuda.graph_pool_handle()"]
    assert rows(pool.captured) == ["with torch.cuda.graph(graph, pool=self.pool):"]
    assert rows(pool.released) == ["self.pool = None"]
    assert pool.verdict == "owned"


def test_nobody_releases_an_orphan() -> None:
    entries = found()["Runner.entries"]
    assert entries.verdict == "orphan"
    assert (entries.released, entries.erased) == ((), ())
    assert [site.note for site in entries.captured] == ["a pool of its own"]


def test_a_record_is_released_through_its_field() -> None:
    code = CODE.replace(
        "    def clear(self):\n",
        "    def clear(self):\n        for entry in self.entries.values():\n            entry.graph.reset()\n",
    )
    entries = found(code)["Runner.entries"]
    assert rows(entries.released, code) == ["entry.graph.reset()"]
    assert entries.verdict == "owned"


def test_two_releases_on_one_path_are_a_duplicate() -> None:
    code = CODE + "        self.runner.clear()\n"
    graphs = found(code)["Runner.graphs"]
    assert graphs.verdict == "owned", "the second finds nothing"
    code = code.replace("        self.graphs.clear()\n", "")
    graphs = found(code)["Runner.graphs"]
    assert graphs.verdict == "duplicate"
    assert [site.function for site in graphs.twice] == ["Server.shutdown", "Server.shutdown"]
    recaptured = code.replace(
        "        self.runner.clear()\n        self.runner.clear()\n",
        "        self.runner.clear()\n        self.runner.capture(1)\n        self.runner.clear()\n",
    )
    assert found(recaptured)["Runner.graphs"].verdict == "owned"


def test_releases_that_exclude_each_other() -> None:
    code = CODE.replace("        self.graphs.clear()\n", "").replace(
        "    def shutdown(self):\n        self.runner.clear()\n",
        "    def shutdown(self, fast):\n        if fast:\n            self.runner.clear()\n"
        "        else:\n            self.runner.clear()\n",
    )
    assert found(code)["Runner.graphs"].verdict == "owned"


def test_a_variable_of_a_module() -> None:
    code = """
    import torch

    _graphs = {}


    def record(n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            pass
        _graphs[n] = graph


    def drop():
        _graphs.clear()
    """
    owned = found(textwrap.dedent(code))["m._graphs"]
    assert (owned.kind, owned.verdict) == ("graphs", "owned")
    assert [site.function for site in owned.released] == ["drop"]


def test_an_object_that_owns_graphs_is_no_container() -> None:
    assert "Server.runner" not in found()


def test_only_what_is_made_in_the_given_files_is_listed() -> None:
    Path("a.py").write_text(CODE)
    Path("b.py").write_text(CODE.replace("Runner", "Other"))
    names = {each.name for each in owners(check.read(["a.py"], Settings(), {}))}
    assert names == {"Runner.pool", "Runner.graphs", "Runner.entries", "Runner.outputs"}


def test_the_command_prints_text() -> None:
    Path("m.py").write_text(CODE.lstrip("\n"))
    done = CliRunner().invoke(cli, ["owners", "m.py"])
    assert done.exit_code == 0
    assert done.output.splitlines()[:5] == [
        "pool Runner.pool",
        "    made      m.py:12  Runner.__init__",
        "    captured  m.py:20  Runner.capture",
        "    released  m.py:36  Runner.clear",
        "    erased    m.py:37  Runner.clear",
    ]
    assert "graphs Runner.entries: orphan, nothing releases it" in done.output
    assert "captured  m.py:20  Runner.capture, pool Runner.pool" in done.output


def test_the_command_prints_json() -> None:
    Path("m.py").write_text(CODE.lstrip("\n"))
    done = CliRunner().invoke(cli, ["owners", "m.py", "--output-format", "json"])
    listed = json.loads(done.output)
    assert [set(each) for each in listed] == [
        {"kind", "name", "verdict", "made", "captured", "released", "erased", "twice"}
    ] * 4
    (graphs,) = [each for each in listed if each["name"] == "Runner.graphs"]
    assert graphs["captured"] == [
        {
            "filename": "m.py",
            "location": {"row": 20, "column": 14},
            "function": "Runner.capture",
            "pool": "pool Runner.pool",
        }
    ]


def test_nothing_to_list() -> None:
    Path("m.py").write_text("import torch\n")
    done = CliRunner().invoke(cli, ["owners", "m.py"])
    assert (done.exit_code, done.output) == (0, "")


def test_a_handle_that_is_only_given_is_borrowed() -> None:
    code = CODE.replace(
        "def __init__(self):\n        self.pool = torch.cuda.graph_pool_handle()",
        "def __init__(self, pool):\n        self.pool = pool",
    )
    code = code.replace("        self.pool = None\n", "").replace("Runner()", "Runner(torch.cuda.graph_pool_handle())")
    assert found(code)["Runner.pool"].verdict == "borrowed"


def test_a_handle_that_is_made_on_first_use_is_not_released_by_it() -> None:
    code = """
    import torch


    class Backend:
        pool = None

        @classmethod
        def handle(cls):
            if cls.pool is None:
                cls.pool = torch.cuda.graph_pool_handle()
            return cls.pool
    """
    pool = found(textwrap.dedent(code))["Backend.pool"]
    assert (pool.verdict, pool.released) == ("orphan", ())
    rotated = textwrap.dedent(code).replace("if cls.pool is None", "if cls.pool is not None")
    assert found(rotated)["Backend.pool"].verdict == "owned", "it takes the place of another"


def test_a_workspace_of_the_process() -> None:
    code = """
    import torch

    _scratch = {}


    def scratch(name, size):
        if name not in _scratch:
            _scratch[name] = torch.empty(size, device="cuda")
        return _scratch[name]
    """
    orphan = found(textwrap.dedent(code))["m._scratch"]
    assert (orphan.kind, orphan.verdict) == ("workspace", "orphan")
    assert [site.function for site in orphan.made] == ["scratch"]
    owned = found(textwrap.dedent(code) + "\n\ndef release():\n    _scratch.clear()\n")["m._scratch"]
    assert [site.function for site in owned.released] == ["release"]


def test_what_captured_code_is_given_and_gives_back_is_no_workspace_of_the_capture() -> None:
    code = """
import torch


class Runner:
    def __init__(self):
        self.graphs = {}
        self.inputs = {}
        self.outputs = {}

    def capture(self, n):
        x = torch.zeros(n, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.forward(x)
        self.graphs[n] = graph
        self.inputs[n] = x
        self.outputs[n] = out

    def forward(self, x):
        x.add_(1)
        return x
"""
    assert set(found(code)) == {"Runner.graphs"}
    other = code.replace("return x", "return x * 2")
    assert set(found(other)) == {"Runner.graphs", "Runner.outputs"}
