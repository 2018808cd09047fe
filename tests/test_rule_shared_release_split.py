"""What becomes of a teardown that releases shared memory once an engine: destroyed all, released once, erased all.

The rewritten programs run, under a stand-in for torch that writes down what happens: a test of the text alone would not
see that a second half never runs.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from recording_torch import recording_torch

from graphlint import check, fixing, registry
from graphlint.config import Settings
from graphlint.edits import Applicability
from graphlint.findings import Finding

RULE = "shared-release"

SCRATCH = '''
import torch


class Scratch:
    """Workspaces of all engines of the process."""

    held = {}

    @classmethod
    def reserve(cls, owner):
        cls.held[owner] = torch.empty(4, device="cuda")

    @classmethod
    def drop_all(cls):
        cls.held.clear()
'''

ENGINE = '''
class Engine:
    """Decodes from a graph."""

    def __init__(self, name):
        self.name = name
        self.graph = None
        self.pool = None
        Scratch.reserve(name)

    def forward(self):
        torch.add(Scratch.held[self.name], 1)

    def capture(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=self.pool):
            self.forward()

    def release(self):
        """Take everything down."""
        self.graph.reset()
        # Behind the reset: the graph reads it.
        Scratch.drop_all()
        self.pool = None
        torch.cuda.empty_cache()
'''

SERVER = """
class Server:
    def __init__(self):
        self.target = Engine("target")
        self.draft = Engine("draft")
        for engine in (self.target, self.draft):
            engine.capture()
"""


class Held(dict[Any, Any]):
    """Shared memory that says when it is released."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self._log = log

    def clear(self) -> None:
        self._log.append("release")
        super().clear()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def dedent(text: str) -> str:
    return textwrap.dedent(text).strip("\n") + "\n"


def program(*pieces: str) -> dict[str, str]:
    """One module of these pieces."""
    return {"m.py": "\n\n\n".join(piece.strip("\n") for piece in (SCRATCH, *map(textwrap.dedent, pieces))) + "\n"}


def server(methods: str) -> str:
    """The server with these methods."""
    return SERVER.rstrip("\n") + "\n\n" + textwrap.indent(dedent(methods), "    ")


def write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")


def found(files: Mapping[str, str]) -> Sequence[Finding]:
    write(files)
    return check.check(["."], Settings(), registry.select((RULE,))).findings


def split(files: Mapping[str, str]) -> dict[str, str]:
    """The files after the fix; it must have been applied, and leave nothing for a second run."""
    write(files)
    rules = registry.select((RULE,))
    outcome = fixing.fix(check.read(["."], Settings(), {}), rules, unsafe=True)
    assert outcome.refused == ()
    assert outcome.applied, [finding.fix for finding in outcome.report.findings]
    assert outcome.report.findings == ()
    write({path: change.after.decode() for path, change in outcome.changes.items()})
    again = fixing.fix(check.read(["."], Settings(), {}), rules, unsafe=True)
    assert again.changes == {}
    return {**files, **{path: change.after.decode() for path, change in outcome.changes.items()}}


def left_alone(files: Mapping[str, str]) -> str:
    """Why the finding has no fix."""
    (finding,) = found(files)
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.SUGGEST
    assert finding.fix.edits == ()
    outcome = fixing.fix(check.read(["."], Settings(), {}), registry.select((RULE,)), unsafe=True)
    assert outcome.changes == {}
    return finding.fix.conditions[0]


def play(files: Mapping[str, str], run: Callable[[Any], Any], module: str = "m") -> list[str]:
    """What a program does: `run` is given its module."""
    write(files)
    log: list[str] = []
    own = {Path(path).parts[0].removesuffix(".py") for path in files}
    for name in [name for name in sys.modules if name.split(".")[0] in own]:
        del sys.modules[name]
    importlib.invalidate_caches()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", recording_torch(log))
        patch.setattr(sys, "dont_write_bytecode", True)
        loaded = importlib.import_module(module)
        for holder in (*vars(loaded).values(),):
            if inspect.isclass(holder) and isinstance(vars(holder).get("held"), dict):
                holder.held = Held(log)  # type: ignore[attr-defined]
        result = run(loaded)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    return list(log)


def shut_down(module: Any) -> Any:
    return module.Server().shutdown()


def assert_split(log: list[str], engines: int = 2) -> None:
    """All resets, one release, all erasures."""
    resets = [at for at, event in enumerate(log) if event.startswith("reset")]
    erasures = [at for at, event in enumerate(log) if event == "erase"]
    assert len(resets) == engines, log
    assert log.count("release") == 1, log
    assert max(resets) < log.index("release"), log
    assert not erasures or log.index("release") < min(erasures), log


# -------------------------------------------------------------------------------------------------------- the whole text


LOOP = """
    def shutdown(self):
        for engine in (self.target, self.draft):
            engine.release()
"""


def test_the_method_stays_as_a_wrapper_and_its_caller_goes_in_three_rounds() -> None:
    before = program(ENGINE, server(LOOP))
    after = split(before)
    assert after["m.py"].endswith('''
    def release(self):
        """Take everything down."""
        self.destroy_graphs()
        # Behind the reset: the graph reads it.
        Scratch.drop_all()
        self.erase_pool()

    def destroy_graphs(self) -> None:
        """Destroy the graphs; what they share and their pool stay."""
        self.graph.reset()

    def erase_pool(self) -> None:
        """Erase the pool; nothing may point into it any more."""
        self.pool = None
        torch.cuda.empty_cache()


class Server:
    def __init__(self):
        self.target = Engine("target")
        self.draft = Engine("draft")
        for engine in (self.target, self.draft):
            engine.capture()

    def shutdown(self):
        for engine in (self.target, self.draft):
            engine.destroy_graphs()
        # All graphs are dead and no pool is erased yet: the one moment for this.
        Scratch.drop_all()
        for engine in (self.target, self.draft):
            engine.erase_pool()
''')
    assert play(before, shut_down) == ["reset 1", "release", "erase", "reset 2", "release", "erase"]
    assert play(after, shut_down) == ["reset 1", "reset 2", "release", "erase", "erase"]


def test_the_wrapper_does_what_the_method_did() -> None:
    def one(module: Any) -> None:
        engine = module.Engine("alone")
        engine.capture()
        engine.release()

    before = program(ENGINE, server(LOOP))
    assert play(split(before), one) == play(before, one) == ["reset 1", "release", "erase"]


def test_the_fix_says_what_it_rests_on() -> None:
    (finding,) = found(program(ENGINE, server(LOOP)))
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.UNSAFE
    assert "`Engine.release`" in "\n".join(finding.fix.conditions)
    assert "`Server.shutdown`" in "\n".join(finding.fix.conditions)


# ---------------------------------------------------------------------------------------------------- who runs it for all


@pytest.mark.parametrize(
    "methods",
    [
        pytest.param(
            """
            def shutdown(self):
                for engine in [self.target, self.draft]:
                    if engine is not None:
                        engine.release()
            """,
            id="list",
        ),
        pytest.param(
            """
            @property
            def engines(self):
                return {"target": self.target, "draft": self.draft}

            def shutdown(self):
                for engine in (self.target, self.draft):
                    if engine is None:
                        continue
                    engine.release()
                    print("released", engine.name)
            """,
            id="continue",
        ),
        pytest.param(
            """
            def shutdown(self):
                self.target.release()
                self.draft.release()
            """,
            id="two-attributes",
        ),
        pytest.param(
            """
            def shutdown(self):
                self.target.release()
                if self.draft is not None:
                    self.draft.release()
            """,
            id="a-guarded-second",
        ),
        pytest.param(
            """
            def shutdown(self):
                if self.draft is not None:
                    self.draft.release()
                    self.draft = None
                self.target.release()
                self.target = None
            """,
            id="what-is-released-is-dropped",
        ),
        pytest.param(
            """
            def shutdown(self):
                self.target.release()
                self.target = None
                self.draft.release()
                self.draft = None
            """,
            id="dropped-in-between",
        ),
        pytest.param(
            """
            def shutdown(self):
                self.target.release(); self.draft.release()
            """,
            id="one-line",
        ),
        pytest.param(
            """
            def shutdown(self):
                for engine in (self.target, self.draft):
                    if engine is not None and hasattr(engine, "release"):
                        engine.release()
            """,
            id="hasattr",
        ),
        pytest.param(
            """
            def shutdown(self):
                for engine in (self.target, self.draft):
                    stop = getattr(engine, "release", None)
                    if stop is not None:
                        stop()
            """,
            id="getattr",
        ),
        pytest.param(
            """
            def shutdown(self):
                for name in ("target", "draft"):
                    engine = getattr(self, name, None)
                    if engine is not None:
                        engine.release()
            """,
            id="by-the-name-of-the-attribute",
        ),
        pytest.param(
            """
            def shutdown(self):
                torch.cuda.synchronize()
                try:
                    print("down")
                finally:
                    for engine in (self.target, self.draft):
                        engine.release()
            """,
            id="finally",
        ),
        pytest.param(
            """
            def shutdown(self):
                for engine in (self.target, self.draft):
                    try:
                        engine.release()
                    except RuntimeError as error:
                        print("not released:", error)
            """,
            id="an-engine-that-fails-does-not-stop-the-others",
        ),
        pytest.param(
            """
            def shutdown(self):
                with self:
                    pass

            def __enter__(self):
                return self

            def __exit__(self, *exception):
                for engine in (self.target, self.draft):
                    engine.release()
            """,
            id="context-manager",
        ),
        pytest.param(
            """
            def shutdown(self):
                for engine in (self.target, self.draft):
                    with torch.cuda.device(0):
                        engine.release()
            """,
            id="under-a-device",
        ),
        pytest.param(
            """
            def shutdown(self):
                [engine.release() for engine in (self.target, self.draft)]
            """,
            id="comprehension",
        ),
        pytest.param(
            """
            def shutdown(self):
                self._down()

            def _down(self):
                for engine in (self.target, self.draft):
                    engine.release()
            """,
            id="in-a-helper",
        ),
    ],
)
def test_who_runs_it_for_several(methods: str) -> None:
    before = program(ENGINE, server(methods))
    assert play(before, shut_down).count("release") == 2
    assert_split(play(split(before), shut_down))


@pytest.mark.parametrize(
    ("kept", "loop"),
    [
        ("[Engine(name) for name in names]", "self.engines"),
        ("{name: Engine(name) for name in names}", "self.engines.values()"),
        ("[Engine(name) for name in names]", "reversed(self.engines)"),
        ("[Engine(name) for name in names]", "list(self.engines)"),
    ],
)
def test_engines_in_a_container(kept: str, loop: str) -> None:
    pool = f"""
    class Server:
        def __init__(self, names=("one", "two", "three")):
            self.engines = {kept}
            for engine in list(self.engines if isinstance(self.engines, list) else self.engines.values()):
                engine.capture()

        def shutdown(self):
            for engine in {loop}:
                engine.release()
            self.engines.clear()
    """
    assert_split(play(split(program(ENGINE, pool)), shut_down), engines=3)


def test_engines_by_their_numbers() -> None:
    pool = """
    class Server:
        def __init__(self):
            self.engines = [Engine("one"), Engine("two")]
            for engine in self.engines:
                engine.capture()

        def shutdown(self):
            for number in range(len(self.engines)):
                self.engines[number].release()
    """
    assert_split(play(split(program(ENGINE, pool)), shut_down))


def test_groups_of_engines() -> None:
    groups = """
    class Group:
        def __init__(self):
            self.engines = [Engine("one"), Engine("two")]
            for engine in self.engines:
                engine.capture()

        def close(self):
            for engine in self.engines:
                engine.release()


    class Server:
        def __init__(self):
            self.groups = [Group(), Group()]

        def shutdown(self):
            for group in self.groups:
                group.close()
    """
    assert_split(play(split(program(ENGINE, groups)), shut_down), engines=4)


def test_a_function_that_runs_it_for_several() -> None:
    before = program(
        ENGINE,
        """
        def shutdown(engines: list[Engine]):
            for engine in engines:
                engine.release()


        class Server:
            def shutdown(self):
                engines = [Engine("a"), Engine("b")]
                for engine in engines:
                    engine.capture()
                shutdown(engines)
        """,
    )
    assert_split(play(split(before), shut_down))


def test_a_generator_that_serves() -> None:
    before = program(
        ENGINE,
        "import contextlib",
        server("""
            @contextlib.contextmanager
            def serving(self):
                try:
                    yield self
                finally:
                    for engine in (self.target, self.draft):
                        engine.release()

            def shutdown(self):
                with self.serving():
                    pass
        """),
    )
    assert_split(play(split(before), shut_down))


def test_all_who_run_it_for_several_change() -> None:
    methods = """
        def shutdown(self):
            for engine in (self.target, self.draft):
                engine.release()

        def suspend(self):
            self.draft.release()
            self.target.release()
    """
    after = split(program(ENGINE, server(methods)))
    assert_split(play(after, shut_down))
    assert_split(play(after, lambda module: module.Server().suspend()))


# ------------------------------------------------------------------------------------------------------- what is released


def test_a_runner_an_engine_and_an_executor_in_files_of_their_own() -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/ops/__init__.py": "",
        "pkg/ops/scratch.py": SCRATCH.lstrip("\n"),
        "pkg/run/__init__.py": "",
        "pkg/run/runner.py": dedent('''
            import torch

            from ..ops.scratch import Scratch


            class Runner:
                def __init__(self, name):
                    self.name = name
                    self.graphs = {}
                    Scratch.reserve(name)

                def capture(self, size):
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        torch.add(Scratch.held[self.name], size)
                    self.graphs[size] = graph

                def drop(self):
                    """Forget all graphs."""
                    for graph in self.graphs.values():
                        graph.reset()  # before anything else
                    self.graphs.clear()
                    Scratch.drop_all()
                    torch.cuda.empty_cache()
        '''),
        "pkg/run/engine.py": dedent("""
            from .runner import Runner


            class Engine:
                def __init__(self, name):
                    self.runner = Runner(name)
                    self.weights = object()

                def warm_up(self):
                    self.runner.capture(1)

                def stop(self):
                    # the runner first
                    if self.runner is not None:
                        self.runner.drop()
                    self.weights = None

                def __del__(self):
                    self.stop()
        """),
        "pkg/run/executor.py": dedent("""
            from pkg.run.engine import Engine


            class Executor:
                def __init__(self):
                    self.engines = {"target": Engine("target"), "draft": Engine("draft")}
                    for engine in self.engines.values():
                        engine.warm_up()

                def close(self):
                    for name, engine in self.engines.items():
                        print("stopping", name)
                        engine.stop()
        """),
    }  # fmt: skip
    after = split(files)
    assert after["pkg/run/runner.py"].endswith('''
    def drop(self):
        """Forget all graphs."""
        self.destroy_graphs()
        Scratch.drop_all()
        self.erase_pool()

    def destroy_graphs(self) -> None:
        """Destroy the graphs; what they share and their pool stay."""
        for graph in self.graphs.values():
            graph.reset()  # before anything else
        self.graphs.clear()

    def erase_pool(self) -> None:
        """Erase the pool; nothing may point into it any more."""
        torch.cuda.empty_cache()
''')
    assert after["pkg/run/engine.py"].endswith('''
    def stop(self):
        self.destroy_graphs()
        if self.runner is not None:
            from ..ops.scratch import Scratch

            Scratch.drop_all()
        self.erase_pool()

    def destroy_graphs(self) -> None:
        """Destroy the graphs; what they share and their pool stay."""
        # the runner first
        if self.runner is not None:
            self.runner.destroy_graphs()

    def erase_pool(self) -> None:
        """Erase the pool; nothing may point into it any more."""
        if self.runner is not None:
            self.runner.erase_pool()
        self.weights = None

    def __del__(self):
        self.stop()
''')
    assert after["pkg/run/executor.py"].endswith("""
    def close(self):
        for name, engine in self.engines.items():
            print("stopping", name)
            engine.destroy_graphs()
        # All graphs are dead and no pool is erased yet: the one moment for this.
        from pkg.ops.scratch import Scratch

        Scratch.drop_all()
        for name, engine in self.engines.items():
            engine.erase_pool()
""")


@pytest.mark.parametrize(
    "release",
    [
        "self._shared.clear()",
        "Engine._shared.clear()",
        "type(self)._shared.clear()",
    ],
)
def test_a_release_that_is_no_call_gets_a_name(release: str) -> None:
    engine = f"""
    class Engine:
        _shared = {{}}

        def __init__(self, name):
            self.graph = None
            Engine._shared[name] = torch.empty(4, device="cuda")
            self.name = name

        def capture(self):
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                torch.add(Engine._shared[self.name], 1)

        def release(self):
            self.graph.reset()
            {release}
            torch.cuda.empty_cache()
    """

    def run(module: Any) -> None:
        class Shared(dict[Any, Any]):
            def clear(self) -> None:
                log.append("released")

        log: list[str] = []
        module.Engine._shared = Shared()
        module.Server().shutdown()
        assert log == ["released"]

    after = split(program(engine, server(LOOP)))
    assert after["m.py"].count("def release_shared(") == 1
    assert [event.split()[0] for event in play(after, run)] == ["reset", "reset", "erase", "erase"]


def test_a_release_by_the_engine_behind_its_runner() -> None:
    runner = """
    class Runner:
        def __init__(self, name):
            self.graph = None
            self.name = name
            Scratch.reserve(name)

        def capture(self):
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                torch.add(Scratch.held[self.name], 1)

        def clear(self):
            self.graph.reset()


    class Engine:
        def __init__(self, name):
            self.runner = Runner(name)

        def capture(self):
            self.runner.capture()

        def release(self):
            self.runner.clear()
            Scratch.drop_all()
            torch.cuda.empty_cache()
    """
    after = split(program(runner, server(LOOP)))
    assert "self.runner.clear()" in after["m.py"]
    assert_split(play(after, shut_down))


def test_a_release_between_the_graphs_of_one_loop() -> None:
    cache = """
    class Server:
        def __init__(self):
            Scratch.reserve("all")
            self.graphs = []
            for _ in range(3):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    torch.add(Scratch.held["all"], 1)
                self.graphs.append(graph)

        def shutdown(self):
            for graph in self.graphs:
                graph.reset()
                Scratch.drop_all()
                torch.cuda.empty_cache()
    """
    assert_split(play(split(program(cache)), shut_down), engines=3)


def test_what_the_release_needs_goes_with_it() -> None:
    engine = with_release("""
        self.graph.reset()
        from m import Scratch as Shared
        Shared.drop_all()
        cuda = torch.cuda
        cuda.empty_cache()
    """)
    after = split(program(engine, server(LOOP)))
    assert after["m.py"].count("from m import Scratch as Shared") == 1
    assert_split(play(after, shut_down))


def test_locals_that_both_halves_read() -> None:
    engine = with_release("""
        name = self.name
        print(name)
        self.graph.reset()
        Scratch.drop_all()
        print("erased", name)
        torch.cuda.empty_cache()
    """)
    after = split(program(engine, server(LOOP)))
    assert after["m.py"].count("name = self.name") == 2
    assert_split(play(after, shut_down))


# -------------------------------------------------------------------------------------------------------------- the method


def with_release(body: str, head: str = "def release(self):") -> str:
    """The engine with another release."""
    start = ENGINE.index("    def release(self):")
    return ENGINE[:start] + textwrap.indent(dedent(f"{head}\n") + textwrap.indent(dedent(body), "    "), "    ")


@pytest.mark.parametrize(
    ("body", "log"),
    [
        pytest.param(
            """
            if self.closed:
                return
            self.graph.reset()
            Scratch.drop_all()
            torch.cuda.empty_cache()
            self.closed = True
            """,
            ["reset 1", "reset 2", "release", "erase", "erase"],
            id="a-flag-that-the-end-sets",
        ),
        pytest.param(
            """
            if self.graph is None:
                return
            self.graph.reset()
            self.graph = None
            Scratch.drop_all()
            torch.cuda.empty_cache()
            """,
            ["reset 1", "reset 2", "release", "erase", "erase"],
            id="nothing-to-do",
        ),
        pytest.param(
            """
            with self.lock:
                self.graph.reset()
                Scratch.drop_all()
                torch.cuda.empty_cache()
            """,
            ["reset 1", "reset 2", "release", "erase", "erase"],
            id="under-a-lock",
        ),
        pytest.param(
            """
            if self.name is not None:
                self.graph.reset()
                Scratch.drop_all()
            torch.cuda.empty_cache()
            """,
            ["reset 1", "reset 2", "release", "erase", "erase"],
            id="under-a-test",
        ),
        pytest.param(
            """
            self.graph.reset()
            Scratch.drop_all()
            """,
            ["reset 1", "reset 2", "release"],
            id="nothing-behind-it",
        ),
    ],
)
def test_what_the_method_does(body: str, log: list[str]) -> None:
    fields = ("self.pool = None", "self.closed = False", "self.lock = threading.Lock()")
    engine = with_release(body).replace(fields[0], "\n        ".join(fields))
    before = program("import threading", engine, server(LOOP))
    after = split(before)
    assert play(after, shut_down) == log

    def one(module: Any) -> None:
        one = module.Engine("one")
        one.capture()
        one.release()
        if "return" in body:
            one.release()

    assert play(after, one) == play(before, one)


def test_parameters_go_to_the_half_that_reads_them() -> None:
    engine = with_release(
        """
        if wait:
            torch.cuda.synchronize()
        self.graph.reset()
        Scratch.drop_all()
        torch.cuda.empty_cache()
        """,
        "def release(self, wait=True, *, why: str = ''):",
    )
    methods = LOOP.replace("engine.release()", "engine.release(False, why='down')")
    after = split(program(engine, server(methods)))
    assert "def destroy_graphs(self, wait=True, *, why: str = '') -> None:" in after["m.py"]
    assert "self.destroy_graphs(wait, why=why)" in after["m.py"]
    assert "def erase_pool(self) -> None:" in after["m.py"]
    assert "engine.destroy_graphs(False, why='down')" in after["m.py"]
    assert_split(play(after, shut_down))


def test_a_coroutine() -> None:
    engine = with_release(
        """
        self.graph.reset()
        Scratch.drop_all()
        torch.cuda.empty_cache()
        """,
        "async def release(self):",
    )
    methods = LOOP.replace("def shutdown", "async def shutdown").replace("engine.release()", "await engine.release()")
    after = split(program(engine, server(methods)))
    assert "await self.destroy_graphs()" in after["m.py"]
    assert_split(play(after, shut_down))


def test_a_method_on_one_line() -> None:
    start = ENGINE.index("    def release")
    engine = (
        ENGINE[:start] + "    def release(self): self.graph.reset(); Scratch.drop_all(); torch.cuda.empty_cache()\n"
    )
    methods = """
        def shutdown(self):
            for engine in (self.target, self.draft): engine.release()
    """
    assert_split(play(split(program(engine, server(methods))), shut_down))


def test_a_private_method_has_private_halves() -> None:
    after = split(program(ENGINE.replace("def release", "def _release"), server(LOOP.replace(".release", "._release"))))
    assert "def _destroy_graphs(self)" in after["m.py"]
    assert_split(play(after, shut_down))


def test_a_name_that_is_taken_is_not_taken_again() -> None:
    after = split(program(ENGINE, "def destroy_graphs():\n    pass\n", server(LOOP)))
    assert "engine.destroy_graphs_2()" in after["m.py"]
    assert_split(play(after, shut_down))


def test_crlf_and_tabs_are_kept() -> None:
    text = program(ENGINE, server(LOOP))["m.py"].replace("    ", "\t")
    write({"m.py": text})
    Path("m.py").write_bytes(text.replace("\n", "\r\n").encode())
    outcome = fixing.fix(check.read(["."], Settings(), {}), registry.select((RULE,)), unsafe=True)
    after = outcome.changes["m.py"].after
    assert b"\r\n\tdef destroy_graphs(self) -> None:\r\n" in after
    assert after.count(b"\n") == after.count(b"\r\n")
    assert b"    " not in after


# ------------------------------------------------------------------------------------------------------------- subclasses


def test_a_subclass_that_inherits_the_method() -> None:
    draft = "class Draft(Engine):\n    pass\n"
    after = split(program(ENGINE, draft, server(LOOP).replace('Engine("draft")', 'Draft("draft")')))
    assert_split(play(after, shut_down))


def test_a_subclass_that_adds_to_it() -> None:
    draft = """
    class Draft(Engine):
        def release(self):
            print("draft")
            super().release()
            self.extra = None
    """
    after = split(program(ENGINE, draft, server(LOOP).replace('Engine("draft")', 'Draft("draft")')))
    assert "super().destroy_graphs()" in after["m.py"]
    assert "super().erase_pool()" in after["m.py"]
    log = play(after, shut_down)
    assert_split(log)


def test_a_base_that_only_declares_it() -> None:
    base = """
    import abc


    class Base(abc.ABC):
        @abc.abstractmethod
        def release(self): ...


    class Other(Base):
        def release(self):
            raise NotImplementedError
    """
    pool = """
    class Server:
        def __init__(self):
            self.engines: list[Base] = [Engine("one"), Engine("two")]
            for engine in self.engines:
                engine.capture()

        def shutdown(self):
            for engine in self.engines:
                engine.release()
    """
    engine = ENGINE.replace("class Engine:", "class Engine(Base):")
    assert_split(play(split(program(base, engine, pool)), shut_down))
    lacking = base.replace("raise NotImplementedError", "self.graph = None")
    assert "`Other.release`" in left_alone(program(lacking, engine, pool))


# --------------------------------------------------------------------------------------------------------------- refusals


def test_a_subclass_that_replaces_the_method() -> None:
    draft = """
    class Draft(Engine):
        def release(self):
            self.graph.reset()
    """
    assert "`Draft.release`" in left_alone(program(ENGINE, draft, server(LOOP)))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(
            """
            if self.graph:
                self.graph.reset()
                self.graph = None
                Scratch.drop_all()
                torch.cuda.empty_cache()
            """,
            "changes `self.graph`",
            id="what-it-asks-for-is-gone",
        ),
        pytest.param(
            """
            if self.closed:
                return
            self.closed = True
            self.graph.reset()
            Scratch.drop_all()
            self.forward()
            torch.cuda.empty_cache()
            """,
            "changes `self.closed`",
            id="a-flag-that-the-beginning-sets",
        ),
        pytest.param(
            """
            try:
                self.graph.reset()
            finally:
                Scratch.drop_all()
                torch.cuda.empty_cache()
            """,
            "`try`",
            id="finally",
        ),
        pytest.param(
            """
            self.graph.reset()
            Scratch.drop_all()
            torch.cuda.empty_cache()
            return True
            """,
            "`return ...`",
            id="a-result",
        ),
        pytest.param(
            """
            n = self.count()
            self.graph.reset()
            Scratch.drop_all()
            torch.cuda.empty_cache()
            print(n)
            """,
            "`n`",
            id="a-local-that-is-computed",
        ),
        pytest.param(
            """
            self.graph.reset()
            Scratch.drop_all()
            self.capture()
            """,
            "captures graphs behind",
            id="captured-again",
        ),
        pytest.param(
            """
            Scratch.drop_all()
            self.graph.reset()
            torch.cuda.empty_cache()
            """,
            "die",
            id="released-first",
        ),
    ],
)
def test_a_method_that_cannot_be_parted(body: str, reason: str) -> None:
    engine = with_release(body) + "\n    def count(self):\n        return 1\n"
    engine = engine.replace("self.pool = None", "self.pool = None\n        self.closed = False", 1)
    assert reason in left_alone(program(engine, server(LOOP)))


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        (
            """
            def shutdown(self):
                for engine in (self.target, self.draft):
                    if engine.release():
                        print("released")
            """,
            "row",
        ),
        (
            """
            def shutdown(self):
                for engine in (self.target, self.draft):
                    engine.release()
                    if engine is self.target:
                        break
            """,
            "`break`",
        ),
        (
            """
            def shutdown(self):
                engines = (engine for engine in (self.target, self.draft))
                for engine in engines:
                    engine.release()
            """,
            "only once",
        ),
        (
            """
            def shutdown(self):
                for engine in (self.target, self.draft):
                    with open("log") as file:
                        engine.release()
            """,
            "entered twice",
        ),
        (
            """
            def shutdown(self):
                for engine in (self.target, self.draft):
                    if engine.graph is not None:
                        engine.release()
            """,
            "engine.graph",
        ),
    ],
)
def test_a_caller_that_cannot_go_in_rounds(methods: str, reason: str) -> None:
    engine = ENGINE.replace("self.graph.reset()", "self.graph.reset()\n        self.graph = None")
    assert reason in left_alone(program(engine, server(methods)))


def test_engines_that_are_taken_out_one_by_one() -> None:
    pool = """
    class Server:
        def __init__(self):
            self.engines = {"one": Engine("one"), "two": Engine("two")}
            for engine in self.engines.values():
                engine.capture()

        def shutdown(self):
            for name in list(self.engines):
                self.engines.pop(name).release()
    """
    assert "evaluated twice" in left_alone(program(ENGINE, pool))


def test_a_method_under_a_decorator() -> None:
    engine = ENGINE.replace("    def release", "    @torch.inference_mode()\n    def release")
    assert "decorated" in left_alone(program(engine, server(LOOP)))


def test_a_class_of_the_same_method_that_does_not_release() -> None:
    other = """
    class Plain:
        def capture(self):
            pass

        def release(self):
            pass
    """
    text = server(LOOP).replace('self.draft = Engine("draft")', 'self.draft = Engine("draft") if torch else Plain()')
    assert "does not come to this release" in left_alone(program(ENGINE, other, text))


def test_all_files_or_none() -> None:
    files = {
        "engines.py": program(ENGINE)["m.py"],
        "server.py": "import torch\n\nfrom engines import Engine\n\n\n" + server(LOOP).lstrip("\n"),
    }
    write(files)
    rules = registry.select((RULE,))
    outcome = fixing.fix(check.read(["engines.py"], Settings(), {}), rules, unsafe=True)
    assert outcome.changes == {}
    (refusal,) = outcome.refused
    assert "server.py" in refusal.reason
