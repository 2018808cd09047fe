"""What is reported as memory that goes before the graphs that read it, and what is not."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from graphlint import check, fixing, registry
from graphlint.config import Settings
from graphlint.edits import Applicability
from graphlint.findings import Finding, Precision, Severity

RULE = "manager-order"

HEAD = """
import torch
import torch.distributed as dist


class Blocks:
    def __init__(self, n):
        self.keys = torch.zeros(n, device="cuda")
        self.spare = [torch.zeros(n, device="cuda")]

    def free(self):
        self.keys = None
        self.spare.clear()


class Steps:
    def __init__(self, blocks: Blocks):
        self.blocks = blocks
        self.x = torch.zeros(4, device="cuda")
        self.graphs = {}

    def capture(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.add(self.x, self.blocks.keys)
        self.graphs[n] = graph

    def release(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()


class Engine:
    def __init__(self, n):
        self.blocks = Blocks(n)
        self.steps = Steps(self.blocks)
        self.closed = False
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str) -> None:
    Path("m.py").write_text(text.lstrip("\n"))


def engine(methods: str) -> str:
    """The engine with these methods."""
    return HEAD + "\n" + textwrap.indent(textwrap.dedent(methods).strip("\n"), "    ") + "\n"


def find(text: str) -> Sequence[Finding]:
    write(text)
    return check.check(["m.py"], Settings(), registry.select((RULE,))).findings


def reported(text: str) -> list[str]:
    """The reported lines."""
    lines = text.lstrip("\n").splitlines()
    source = text.lstrip("\n").encode()
    return [lines[source[: found.span.start].count(b"\n")].strip() for found in find(text)]


def fixed(text: str, *, unsafe: bool = False) -> str:
    write(text)
    outcome = fixing.fix(check.read(["m.py"], Settings(), {}), registry.select((RULE,)), unsafe=unsafe)
    return outcome.changes["m.py"].after.decode() if outcome.changes else ""


CLOSE = """
    def close(self):
        torch.cuda.synchronize()
        self.blocks.free()
        self.steps.release()
"""


# ------------------------------------------------------------------------------------------------------------ evidence


def test_memory_that_captured_code_reads() -> None:
    (found,) = find(engine(CLOSE))
    assert found.precision is Precision.HIGH
    assert "self.blocks" in found.message
    assert [step.effect for step in found.trace][-1] == "graph_death"
    assert reported(engine(CLOSE)) == ["self.steps.release()"]


def test_the_right_order_is_silent() -> None:
    assert reported(engine("""
        def close(self):
            torch.cuda.synchronize()
            self.steps.release()
            self.blocks.free()
    """)) == []  # fmt: skip


def test_memory_of_an_object_that_the_owner_of_the_graphs_refers_to() -> None:
    text = engine(CLOSE).replace("torch.add(self.x, self.blocks.keys)", "self.x.add_(1)")
    (found,) = find(text)
    assert found.precision is Precision.MEDIUM


def test_memory_that_has_nothing_to_do_with_the_graphs() -> None:
    text = engine(CLOSE).replace("torch.add(self.x, self.blocks.keys)", "self.x.add_(1)")
    assert reported(text.replace("self.blocks = blocks\n", "self.n = 4\n")) == []


def test_the_two_releases_in_helpers_of_their_own() -> None:
    assert reported(engine("""
        def _free(self):
            self.blocks.free()

        def _drop(self):
            self.steps.release()

        def close(self):
            self._free()
            self._drop()
    """)) == ["self._drop()"]  # fmt: skip


def test_a_tensor_of_the_engine_that_captured_code_reads() -> None:
    text = """
    import torch


    class Engine:
        def __init__(self):
            self.kv = torch.zeros(8, device="cuda")
            self.graph = None

        def capture(self):
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.kv.add_(1)

        def close(self):
            self.kv = None
            self.graph.reset()
    """
    (found,) = find(textwrap.dedent(text))
    assert found.precision is Precision.HIGH
    assert reported(textwrap.dedent(text)) == ["self.graph.reset()"]
    static = textwrap.dedent(text).replace("self.kv", "self.x")
    assert reported(static) == [], "an object's own static input"


def test_managers_by_name() -> None:
    text = """
    class Executor:
        def __init__(self, engine, managers):
            self.engine = engine
            self.managers = managers

        def shutdown(self):
            for manager in self.managers:
                manager.shutdown()
            self.engine.release_graphs()
    """
    text = "import torch\n" + textwrap.dedent(text)
    (found,) = find(text)
    assert found.precision is Precision.MEDIUM
    assert reported(text.replace("managers", "metric_managers").replace("manager.", "metric_manager.").replace(
        "for manager", "for metric_manager")) == []  # fmt: skip
    assert reported(text.replace("manager.shutdown()", "manager.reset()")) == [], (
        "it goes on with the memory that it has"
    )


def test_a_cache_by_its_name_and_what_it_holds() -> None:
    text = """
    import torch


    class Runner:
        def __init__(self, model):
            self.model = model
            self.NAME: list[torch.Tensor] = []
            self.graph = torch.cuda.CUDAGraph()

        def capture(self):
            with torch.cuda.graph(self.graph):
                self.model()

        def shutdown(self):
            self.NAME.clear()
            self.graph.reset()
    """
    text = textwrap.dedent(text)
    assert reported(text.replace("NAME", "kv_caches")) == ["self.graph.reset()"]
    assert reported(text.replace("NAME", "embeddings")) == []
    assert reported(text.replace("NAME", "kv_events").replace("torch.Tensor", "str")) == []


def test_a_cache_by_name_is_silent_once_any_graph_has_died() -> None:
    text = """
    import torch


    class Runner:
        def __init__(self, model):
            self.kv_caches: list[torch.Tensor] = []
            self.graph = torch.cuda.CUDAGraph()
            self.encoder_graph = torch.cuda.CUDAGraph()

        def shutdown(self):
            self.graph.reset()
            self.kv_caches.clear()
            self.encoder_graph.reset()
    """
    assert reported(textwrap.dedent(text)) == []


def test_the_process_group() -> None:
    text = engine("""
        def close(self):
            dist.destroy_process_group()
            self.steps.release()
    """)
    assert reported(text) == ["self.steps.release()"]
    assert reported(engine("""
        def close(self):
            self.steps.release()
            dist.destroy_process_group()
    """)) == []  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- silence


def test_a_manager_on_the_host() -> None:
    text = engine(CLOSE).replace('torch.zeros(n, device="cuda")', "n")
    assert reported(text) == []


def test_a_reference_that_the_graphs_owner_shares() -> None:
    assert reported(engine("""
        def close(self):
            self.blocks = None
            self.steps.release()
    """)) == []  # fmt: skip


def test_graphs_that_are_dead_already() -> None:
    assert reported(engine("""
        def close(self):
            self.steps.release()
            self.blocks.free()
            self.steps.release()
    """)) == []  # fmt: skip


def test_graphs_that_were_captured_since() -> None:
    assert reported(engine("""
        def resize(self):
            self.blocks.free()
            self.steps.capture(1)
            self.steps.release()
    """)) == []  # fmt: skip


def test_a_second_call_behind_a_flag() -> None:
    text = """
        def close(self):
            if self.closed:
                return
            self.closed = True
            self.steps.release()
            self.blocks.free()

        def stop(self):
            self.close()
            self.close()
    """
    assert reported(engine(text)) == []


def test_releases_on_different_paths() -> None:
    assert reported(engine("""
        def close(self, early):
            if early:
                self.blocks.free()
            else:
                self.steps.release()
    """)) == []  # fmt: skip
    assert reported(engine("""
        def close(self, early):
            if early:
                self.blocks.free()
            self.steps.release()
    """)) == ["self.steps.release()"]  # fmt: skip


def test_one_engine_after_the_other_each_with_its_own() -> None:
    text = (
        HEAD
        + """

class Server:
    def __init__(self):
        self.target = Engine(4)
        self.draft = Engine(4)

    def stop(self):
        for engine in (self.target, self.draft):
            engine.steps.release()
            engine.blocks.free()
"""
    )
    assert reported(text) == []


def test_two_engines_side_by_side() -> None:
    text = """

class Server:
    def __init__(self):
        self.blocks = Blocks(4)
        self.draft_blocks = Blocks(4)
        self.steps = Steps(self.blocks)
        self.draft_steps = Steps(self.draft_blocks)

    def stop(self):
"""
    right = ["self.steps.release()", "self.blocks.free()", "self.draft_steps.release()", "self.draft_blocks.free()"]
    wrong = ["self.steps.release()", "self.draft_blocks.free()", "self.draft_steps.release()", "self.blocks.free()"]
    assert reported(HEAD + text + "".join(f"        {line}\n" for line in right)) == []
    assert reported(HEAD + text + "".join(f"        {line}\n" for line in wrong)) == ["self.draft_steps.release()"]


# --------------------------------------------------------------------------------------------------------------- fixes


def body(text: str) -> list[str]:
    return [line.strip() for line in text.partition("def close")[2].splitlines()[1:]]


def test_the_fix_moves_the_graphs_release_up() -> None:
    text = fixed(engine(CLOSE))
    assert body(text) == ["torch.cuda.synchronize()", "self.steps.release()", "self.blocks.free()"]
    assert reported(text) == []


def test_the_fix_keeps_what_waits_in_front() -> None:
    text = fixed(
        engine("""
        def close(self):
            self.blocks.free()
            torch.cuda.synchronize()
            self.steps.release()
    """)
    )
    assert body(text) == ["torch.cuda.synchronize()", "self.steps.release()", "self.blocks.free()"]


def test_the_fix_swaps_body_and_finally() -> None:
    text = fixed(
        engine("""
        def close(self):
            try:
                self.blocks.free()
            finally:
                self.steps.release()
    """)
    )
    assert body(text) == ["try:", "self.steps.release()", "finally:", "self.blocks.free()"]


def test_there_is_no_fix_where_the_first_block_uses_what_the_second_releases() -> None:
    assert fixed(engine("""
        def close(self):
            self.blocks.free()
            self.blocks.report(self.steps.graphs)
            self.steps.release()
    """), unsafe=True) == ""  # fmt: skip


def test_what_uses_the_graphs_moves_up_with_their_release() -> None:
    text = fixed(
        engine("""
        def close(self):
            self.blocks.free()
            steps = self.take(self.steps)
            self.steps.release()
            return steps
    """),
        unsafe=True,
    )
    assert body(text) == [
        "steps = self.take(self.steps)",
        "self.steps.release()",
        "self.blocks.free()",
        "return steps",
    ]


def test_an_exit_between_makes_the_fix_unsafe() -> None:
    text = engine("""
        def close(self):
            self.blocks.free()
            if self.closed:
                return
            self.steps.release()
    """)
    assert fixed(text) == ""
    (found,) = find(text)
    assert found.fix is not None
    assert found.fix.applicability is Applicability.UNSAFE
    assert body(fixed(text, unsafe=True))[0] == "self.steps.release()"


def test_a_drop_makes_the_fix_unsafe() -> None:
    text = engine("""
        def close(self):
            self.blocks.free()
            del self.steps
    """)
    (found,) = find(text)
    assert found.fix is not None
    assert found.fix.applicability is Applicability.UNSAFE
    assert body(fixed(text, unsafe=True)) == ["del self.steps", "self.blocks.free()"]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("if self.closed:", Severity.WARNING),
        ("if platform.is_rocm():", Severity.NOTE),
        ("if torch.cuda.is_available():", Severity.WARNING),
    ],
)
def test_what_names_alone_relate_on_one_platform_is_a_note(test: str, expected: Severity) -> None:
    program = f"""
import torch

import platform


class Runner:
    def __init__(self, blocks):
        self.kv_caches = [torch.zeros(blocks, device="cuda")]
        self.closed = True
        self.graphs = {{}}

    def capture(self, n, step):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step(n)
        self.graphs[n] = graph

    def free_caches(self):
        self.kv_caches.clear()


class Worker:
    def __init__(self, blocks):
        self.runner = Runner(blocks)
        self.closed = True

    def shutdown(self):
        self.runner.kv_caches.clear()
        {test}
            self.runner.graphs.clear()
"""
    assert [each.severity for each in find(program)] == [expected]
