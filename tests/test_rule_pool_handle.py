"""Which handles are reported for naming a pool whose graphs are dead, and which are not."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings
from graphlint.findings import Finding, Severity

RULE = "pool-handle"


def found(folder: Path, program: str) -> Sequence[Finding]:
    (folder / "program.py").write_text("import torch\n" + textwrap.dedent(program), encoding="utf-8")
    return check.check([str(folder)], Settings(), registry.select((RULE,))).findings


def lines(folder: Path, program: str) -> list[str]:
    text = "import torch\n" + textwrap.dedent(program)
    rows = [text[: each.span.start].count("\n") for each in found(folder, program)]
    return [text.splitlines()[row].strip() for row in rows]


PIECES = """
    class Pieces:
        def __init__(self, pool):
            self.pool = pool
            self.steps = []
            self.current = None

        def begin(self):
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin(pool=self.pool)
            self.current = graph

        def end(self):
            self.current.capture_end()
            {keep}
            self.current = None
"""


def test_a_graph_that_is_given_up_leaves_its_handle(tmp_path: Path) -> None:
    assert lines(tmp_path, PIECES.format(keep="pass")) == ["self.current = None"]


@pytest.mark.parametrize("keep", ["self.steps.append(self.current)", "self.steps.append(self.current.replay)"])
def test_a_graph_lives_on_in_what_keeps_it_or_a_method_of_it(tmp_path: Path, keep: str) -> None:
    assert not found(tmp_path, PIECES.format(keep=keep))


def test_nothing_follows_a_destructor(tmp_path: Path) -> None:
    program = """
        class Runner:
            def __init__(self, pool):
                self.pool = pool
                self.graph = None

            def capture(self, f):
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph, pool=self.pool):
                    f()

            def {name}(self):
                self.graph = None
    """
    assert not found(tmp_path, program.format(name="__del__"))
    assert lines(tmp_path, program.format(name="drop")) == ["self.graph = None"]


FLEETING = """
    class _Recorder:
        def __init__(self, pool):
            self.pool = pool
            self.graph = None

        def record(self, f):
            self.graph = torch.cuda.CUDAGraph()
            self.graph.capture_begin(pool=self.pool)
            try:
                f()
            except RuntimeError:
                self.graph.capture_end()
                self.graph = None
                raise
            self.graph.capture_end()
            graph, self.graph = self.graph, None
            return graph

    def record(f):
        {use}
"""


def test_an_object_that_is_made_for_one_call_has_no_second_capture(tmp_path: Path) -> None:
    assert not found(tmp_path, FLEETING.format(use="return _Recorder(torch.cuda.graph_pool_handle()).record(f)"))


def test_an_object_that_is_kept_may_capture_again(tmp_path: Path) -> None:
    use = "recorder = _Recorder(torch.cuda.graph_pool_handle()); return [recorder.record(f), recorder]"
    assert found(tmp_path, FLEETING.format(use=use))


TRIAL = """
    class Trial:
        def __init__(self, pool):
            self.pool = pool
            self.graph = None

        def record(self, f):
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, pool=self.pool):
                f()

        def discard(self):
            self.graph = None

    def best(pool, candidates, kept):
        for each in candidates:
            trial = Trial(pool)
            {use}
"""


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("trial.record(each); trial.discard()", False),
        ("trial.record(each); trial.discard(); trial.record(each)", True),
        ("trial.record(each); trial.discard(); kept.append(trial)", True),
        ("trial.record(each)", True),
    ],
)
def test_a_local_object_whose_last_call_releases_captures_no_more(tmp_path: Path, use: str, expected: bool) -> None:
    assert bool(found(tmp_path, TRIAL.format(use=use))) is expected


MANY = """
    class One:
        def __init__(self, pool):
            self.pool = pool
            self.graph = None

        def capture(self, f):
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, pool=self.pool):
                f()

        def __del__(self):
            self.graph = None

    class Many:
        def __init__(self):
            self.pool = torch.cuda.graph_pool_handle()
            self.ones = {{}}

        def __call__(self, key, f):
            if key not in self.ones:
                one = One(self.pool)
                one.capture(f)
                self.ones[key] = one
            return self.ones[key]

        def reset(self):
            self.ones.clear()
            {after}
"""


def test_the_owner_of_the_runners_kills_their_graphs(tmp_path: Path) -> None:
    assert lines(tmp_path, MANY.format(after="pass")) == ["self.ones.clear()"]


def test_a_handle_made_anew_with_the_runners(tmp_path: Path) -> None:
    assert not found(tmp_path, MANY.format(after="self.pool = torch.cuda.graph_pool_handle()"))


SHARED = """
    class Runner:
        pool = None

        def __init__(self):
            self.graphs = {{}}

        def capture(self, key, f):
            if Runner.pool is None:
                Runner.pool = torch.cuda.graph_pool_handle()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=Runner.pool):
                f()
            {keep}
"""


def test_a_handle_of_the_class_outlives_graphs_of_its_objects(tmp_path: Path) -> None:
    findings = found(tmp_path, SHARED.format(keep="self.graphs[key] = graph"))
    assert [each.severity for each in findings] == [Severity.NOTE]
    assert [each.effect for each in findings[0].trace][:2] == ["kept", "pool_store"]


@pytest.mark.parametrize(("statement", "severity"), [("None", Severity.WARNING), ("Runner()", Severity.NOTE)])
def test_objects_that_are_dropped_take_their_graphs_along(tmp_path: Path, statement: str, severity: Severity) -> None:
    program = f"""
{SHARED.format(keep="self.graphs[key] = graph")}

    class Engine:
        def __init__(self):
            self.runner = Runner()

        def stop(self):
            self.runner = {statement}
"""
    assert [each.severity for each in found(tmp_path, program)] == [severity]


def test_graphs_of_the_class_live_as_long_as_its_handle(tmp_path: Path) -> None:
    program = SHARED.format(keep="Runner.all[key] = graph").replace(
        "pool = None\n", "pool = None\n        all = {}\n", 1
    )
    assert not found(tmp_path, program)


def test_a_pool_object_in_a_table_keeps_its_pool(tmp_path: Path) -> None:
    program = """
        POOLS = {}

        def pool():
            if "graphs" not in POOLS:
                POOLS["graphs"] = [(torch.cuda.MemPool(), None)]
            return POOLS["graphs"][0][0].id

        class Runner:
            def __init__(self):
                self.graphs = {}

            def capture(self, key, f):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool()):
                    f()
                self.graphs[key] = graph

            def release(self):
                self.graphs.clear()
    """
    assert not found(tmp_path, program)


TENANTS = """
    class Shared:
        def __init__(self):
            self.handle = None
            self.tenants = 0

        def enter(self):
            if self.handle is None:
                self.handle = torch.cuda.graph_pool_handle()
            self.tenants += 1
            return self.handle

        def leave(self):
            assert self.tenants > 0
            self.tenants -= 1
            if {left}:
                self.handle = None


    class Engine:
        def __init__(self, shared: Shared):
            self.shared = shared
            self.steps = {{}}
            self.awake = False

        def wake(self, n):
            handle = self.shared.enter()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=handle):
                torch.zeros(n)
            self.steps[n] = graph
            self.awake = True

        def sleep(self):
            if not self.awake:
                return
            self.awake = False
            for graph in self.steps.values():
                graph.reset()
            self.steps.clear()
            self.shared.leave()
"""


@pytest.mark.parametrize(("left", "expected"), [("self.tenants == 0", []), ("self.large", ["graph.reset()"])])
def test_the_last_of_several_users_retires_the_handle(left: str, expected: list[str], tmp_path: Path) -> None:
    assert lines(tmp_path, TENANTS.format(left=left)) == expected
