"""What the rules' rewrites make of code, driven by suspects as the analysis makes them."""

from __future__ import annotations

import ast
import contextlib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from graphlint import edits, registry
from graphlint.codemod import Modules
from graphlint.edits import Applicability, Fix
from graphlint.findings import Finding, Step, Suspect
from graphlint.source import Source, Span


@dataclass(frozen=True)
class Rewritten:
    """A confirmed suspect, its fix, and the files after it."""

    finding: Finding
    fix: Fix | None
    files: Mapping[str, str]

    @property
    def only(self) -> str:
        """The one file."""
        (text,) = self.files.values()
        return text


def place(source: Source, marker: str) -> Span:
    """The span of a text that stands once in a file."""
    assert source.content.count(marker.encode()) == 1, marker
    start = source.content.index(marker.encode())
    return Span(start, start + len(marker.encode()))


def definition(source: Source, inside: Span) -> Span:
    """The innermost function around a span, decorators included."""
    found: list[Span] = []
    for node in ast.walk(ast.parse(source.content)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            start = source.line_starts[min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1]
            start += len(source.line(source.row(start))) - len(source.line(source.row(start)).lstrip())
            found.append(Span(start, source.line_starts[node.end_lineno - 1] + node.end_col_offset))
    return min((span for span in found if span.contains(inside)), key=lambda span: span.end - span.start)


def rewrite(
    rule: str,
    files: Mapping[str, str] | str,
    at: str,
    steps: Sequence[tuple[str, str]] = (),
    values: Mapping[str, str] | None = None,
) -> Rewritten | None:
    """Confirm a suspect and apply its fix, whatever it rests on; None if the rule does not confirm it.

    Args:
        rule: its name.
        files: texts by path; one text is the file `m.py`. The suspect is in the first.
        at: text of the reported place.
        steps: effects of the path and the texts of their places, in the first file.
        values: of the suspect.
    """
    texts = {"m.py": files} if isinstance(files, str) else files
    sources = {path: Source(path, textwrap.dedent(text).lstrip("\n").encode()) for path, text in texts.items()}
    path, source = next(iter(sources.items()))
    span = place(source, at)
    trace = tuple(Step(path, place(source, marker), effect, f"{effect} here") for effect, marker in steps)
    suspect = Suspect(rule, path, definition(source, span), span, trace, {"place": "`workspaces`", **(values or {})})
    modules = Modules(sources)
    code = registry.code(registry.by_name(rule))
    finding = code.confirm(suspect, modules[path])
    if finding is None:
        return None
    fix = code.fix(finding, modules)
    contents = {path: source.content for path, source in sources.items()}
    for path in {edit.path for edit in fix.edits} if fix is not None else ():
        contents[path] = edits.apply([edit for edit in fix.edits if edit.path == path], contents[path])
        ast.parse(contents[path])
    return Rewritten(finding, fix, {path: content.decode() for path, content in contents.items()})


def dedent(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


# ---------------------------------------------------------------------------------------------------------- pool-order

RUNNER = """
    import torch

    from .log import log


    class Runner:
        def clear(self):
            for graph in self.graphs.values():
                graph.reset()
            self.graphs.clear()
            del self.handle
            # give it back
            torch.cuda.empty_cache()
    """
OPS = """
    class Scratch:
        @classmethod
        def drop(cls): ...
    """
DEATH = ("graph_death", "graph.reset()")
ERASE = ("erase", "torch.cuda.empty_cache()")


def test_a_missing_release_is_inserted_between_the_deaths_and_the_erasure() -> None:
    files = {"engine/run/runner.py": RUNNER, "engine/ops/scratch.py": OPS}
    made = rewrite("pool-order", files, ERASE[1], [DEATH, ERASE], {"release": "engine.ops.scratch.Scratch.drop"})
    assert made is not None
    assert made.files["engine/run/runner.py"] == dedent("""
        import torch

        from .log import log


        class Runner:
            def clear(self):
                for graph in self.graphs.values():
                    graph.reset()
                self.graphs.clear()
                del self.handle
                # Workspaces that were allocated in the graphs' pool go after the graphs and before the pool.
                from ..ops.scratch import Scratch

                Scratch.drop()
                # give it back
                torch.cuda.empty_cache()
        """)
    assert made.fix is not None
    assert made.fix.applicability is Applicability.SAFE
    assert made.fix.conditions == ()
    assert (made.finding.symbol, made.finding.notes) == ("Runner.clear", ())
    assert "`workspaces`" in made.finding.message


@pytest.mark.parametrize(
    ("value", "said"),
    [({"loop": "engine/run/executor.py:51"}, "engine/run/executor.py:51"), ({"sharers": "`Encoder`"}, "`Encoder`")],
)
def test_a_release_that_others_may_feel_states_its_condition(value: Mapping[str, str], said: str) -> None:
    made = rewrite("pool-order", RUNNER, ERASE[1], [DEATH, ERASE], {"release": "self.drop", **value})
    assert made is not None
    assert made.fix is not None
    assert made.fix.applicability is Applicability.UNSAFE
    assert [said in condition for condition in made.fix.conditions] == [True]


def test_a_loop_over_engines_in_the_function_itself_states_its_condition() -> None:
    program = """
        def close(engines):
            for engine in engines:
                engine.reset()
                torch.cuda.empty_cache()
        """
    made = rewrite("pool-order", program, ERASE[1], [("graph_death", "engine.reset()"), ERASE], {"release": "ops.drop"})
    assert made is not None
    assert made.fix is not None
    assert made.fix.applicability is Applicability.UNSAFE
    assert "m.py:4" in made.fix.conditions[0]


def test_a_release_is_inserted_in_the_branch_of_the_erasure() -> None:
    program = """
        def clear(self):
            self.runner.reset()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        """
    steps = [("graph_death", "self.runner.reset()"), ERASE]
    made = rewrite("pool-order", program, ERASE[1], steps, {"release": "self.drop"})
    assert made is not None
    assert made.only == dedent("""
        def clear(self):
            self.runner.reset()
            if torch.cuda.is_available():
                # Workspaces that were allocated in the graphs' pool go after the graphs and before the pool.
                self.drop()
                torch.cuda.empty_cache()
        """)


def test_a_release_before_captures_that_erase_comes_once() -> None:
    """The entry of a capture empties the cache; what one capture of the loop allocates the next must not release."""
    program = """
        def recapture(self, sizes):
            self.reset()
            for size in sizes:
                with torch.cuda.graph(self.graphs[size]):
                    self.run(size)
        """
    steps = [("graph_death", "self.reset()"), ("erase", "torch.cuda.graph(self.graphs[size])")]
    made = rewrite("pool-order", program, steps[1][1], steps, {"release": "self.drop"})
    assert made is not None
    assert made.only == dedent("""
        def recapture(self, sizes):
            self.reset()
            # Workspaces that were allocated in the graphs' pool go after the graphs and before the pool.
            self.drop()
            for size in sizes:
                with torch.cuda.graph(self.graphs[size]):
                    self.run(size)
        """)


def test_late_releases_move_in_front_of_the_erasure() -> None:
    program = """
        def clear(self):
            for graph in self.graphs.values():
                graph.reset()
            self.handle = None
            gc.collect()
            torch.cuda.empty_cache()  # give it back

            # scratch of the kernels
            Scratch.drop()
            if self.partials is not None:
                self.partials.clear()
            log("cleared")
        """
    steps = [DEATH, ERASE, ("ws_release", "Scratch.drop()"), ("ws_release", "self.partials.clear()")]
    made = rewrite("pool-order", program, ERASE[1], steps)
    assert made is not None
    assert made.fix is not None
    assert made.only == dedent("""
        def clear(self):
            for graph in self.graphs.values():
                graph.reset()
            self.handle = None
            gc.collect()
            # scratch of the kernels
            Scratch.drop()
            if self.partials is not None:
                self.partials.clear()
            torch.cuda.empty_cache()  # give it back

            log("cleared")
        """)
    assert made.fix.applicability is Applicability.SAFE


def test_a_late_release_brings_its_import_along() -> None:
    program = """
        def clear(self):
            self.graphs.reset()
            torch.cuda.empty_cache()
            log("erased")
            from .ops import Scratch

            scratch = Scratch.current
            scratch.drop()
        """
    steps = [("graph_death", "self.graphs.reset()"), ERASE, ("ws_release", "scratch.drop()")]
    made = rewrite("pool-order", program, ERASE[1], steps)
    assert made is not None
    assert made.only == dedent("""
        def clear(self):
            self.graphs.reset()
            from .ops import Scratch

            scratch = Scratch.current
            scratch.drop()
            torch.cuda.empty_cache()
            log("erased")
        """)


def test_a_late_release_enters_a_block_that_only_holds_statements() -> None:
    program = """
        def clear(self):
            with torch.cuda.device(self.device):
                self.graphs.reset()
                torch.cuda.empty_cache()
            self.scratch.drop()
        """
    steps = [("graph_death", "self.graphs.reset()"), ERASE, ("ws_release", "self.scratch.drop()")]
    made = rewrite("pool-order", program, ERASE[1], steps)
    assert made is not None
    assert made.only == dedent("""
        def clear(self):
            with torch.cuda.device(self.device):
                self.graphs.reset()
                self.scratch.drop()
                torch.cuda.empty_cache()
        """)


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("self.scratch = other\nself.scratch.drop()", "the name means something else before"),
        ("drop = self.find()\ndrop()", "the name is the result of a call"),
        ("if drop():\n    return", "it would leave before the erasure"),
        ("yield\ndrop()", "somebody else runs in between"),
    ],
)
def test_a_late_release_that_cannot_come_first_is_left_alone(rest: str, reason: str) -> None:
    lines = ["self.graphs.reset()", "torch.cuda.empty_cache()", *rest.splitlines()]
    program = "def clear(self):\n" + textwrap.indent("\n".join(lines), "    ")
    release = "self.scratch.drop()" if "scratch" in rest else "drop()"
    steps = [("graph_death", "self.graphs.reset()"), ERASE, ("ws_release", release)]
    made = rewrite("pool-order", f"{program}\n", ERASE[1], steps)
    assert made is not None
    assert made.fix is None, reason


@pytest.mark.parametrize(
    "program",
    [
        """
        def clear(self):
            try:
                self.graphs.reset()
                torch.cuda.empty_cache()
            finally:
                drop()
        """,
        """
        def clear(self):
            try:
                self.graphs.reset()
            finally:
                torch.cuda.empty_cache()
            drop()
        """,
        """
        def clear(self):
            self.graphs.reset()
            def later():
                torch.cuda.empty_cache()
            later()
            drop()
        """,
    ],
    ids=["in-a-finally", "from-behind-a-try", "in-another-function"],
)
def test_a_late_release_does_not_cross_other_headers(program: str) -> None:
    steps = [("graph_death", "self.graphs.reset()"), ERASE, ("ws_release", "drop()")]
    made = rewrite("pool-order", program, ERASE[1], steps)
    assert made is not None
    assert made.fix is None


@pytest.mark.parametrize(
    ("between", "said"),
    [
        ("if self.broken:\n    return", "row 4 can leave"),
        ("log(len(self.scratch.buffers))", "row 4 uses self.scratch"),
    ],
)
def test_what_a_late_release_overtakes_states_its_condition(between: str, said: str) -> None:
    lines = ["self.graphs.reset()", "torch.cuda.empty_cache()", *between.splitlines(), "self.scratch.drop()"]
    program = "def clear(self):\n" + textwrap.indent("\n".join(lines), "    ") + "\n"
    steps = [("graph_death", "self.graphs.reset()"), ERASE, ("ws_release", "self.scratch.drop()")]
    made = rewrite("pool-order", program, ERASE[1], steps)
    assert made is not None
    assert made.fix is not None
    assert made.fix.applicability is Applicability.UNSAFE
    assert said in made.fix.conditions[0]
    assert made.only.index("drop()") < made.only.index("empty_cache()")


def test_a_late_release_among_other_work_states_its_condition() -> None:
    program = """
        def clear(self):
            self.graphs.reset()
            torch.cuda.empty_cache()
            for each in self.scratch:
                self.report(each)
                each.drop()
        """
    steps = [("graph_death", "self.graphs.reset()"), ERASE, ("ws_release", "each.drop()")]
    made = rewrite("pool-order", program, ERASE[1], steps)
    assert made is not None
    assert made.fix is not None
    assert made.fix.conditions == ("rows 4 to 6 do more than release, and now run before the pool is erased",)


def test_no_text_is_made_up_where_no_release_is_known() -> None:
    made = rewrite("pool-order", RUNNER, ERASE[1], [DEATH, ERASE])
    assert made is not None
    assert made.fix is None


def test_a_path_that_the_syntax_forbids_is_no_finding() -> None:
    program = """
        def clear(self, hard):
            if hard:
                self.graphs.reset()
            else:
                torch.cuda.empty_cache()
        """
    steps = [("graph_death", "self.graphs.reset()"), ERASE]
    assert rewrite("pool-order", program, ERASE[1], steps) is None
    loop = dedent(program).replace("    if", "    for hard in (1, 0):\n      if").replace("    else", "      else")
    assert rewrite("pool-order", loop, ERASE[1], steps) is not None


# --------------------------------------------------------------------------------------------------- duplicate-release

CREATOR = """
    def create(target, draft, options):
        probe = make(target, draft)
        probe.shutdown()

        with scope("cache"):
            resize()
            # whatever is left of the probe
            for engine in [target, draft]:
                if engine is None:
                    continue
                if engine.metadata is not None:
                    if options.graphs is not None:
                        engine.release_graphs()
                    engine.metadata = None
        return make(target, draft)
    """


def test_a_second_release_goes_and_the_rest_of_its_block_stays() -> None:
    values = {"dominates": "no", "skips": "the watchdog has fired\nsizing is switched off"}
    made = rewrite("duplicate-release", CREATOR, "engine.release_graphs()", values=values)
    assert made is not None
    assert made.fix is not None
    assert made.only == dedent("""
        def create(target, draft, options):
            probe = make(target, draft)
            probe.shutdown()

            with scope("cache"):
                resize()
                # whatever is left of the probe
                for engine in [target, draft]:
                    if engine is not None:
                        engine.metadata = None
            return make(target, draft)
        """)
    assert made.fix.applicability is Applicability.UNSAFE
    assert made.fix.conditions == (
        "nothing releases where the watchdog has fired",
        "nothing releases where sizing is switched off",
    )


def test_the_rewritten_creator_drops_the_metadata_of_every_engine() -> None:
    made = rewrite("duplicate-release", CREATOR, "engine.release_graphs()", values={"dominates": "yes"})
    assert made is not None
    events: list[str] = []

    class Engine:
        def __init__(self, metadata: object) -> None:
            self.metadata = metadata

        def release_graphs(self) -> None:
            events.append("released")

    names: dict[str, Any] = {
        "make": lambda *_: type("Executor", (), {"shutdown": lambda _: events.append("shutdown")})(),
        "scope": lambda _: contextlib.nullcontext(),
        "resize": lambda: None,
    }
    exec(made.only, names)
    engines = [Engine("old"), Engine(None)]
    for draft in (None, engines[1]):
        names["create"](engines[0], draft, type("Options", (), {"graphs": 1}))
    assert [engine.metadata for engine in engines] == [None, None]
    assert events == ["shutdown", "shutdown"]


def test_a_second_release_behind_the_first_is_safe_to_delete() -> None:
    program = """
        async def close(self):
            await super().close()
            # again
            await self.ledger.leave()
            self.delta.clear()
        """
    values = {"dominates": "yes", "again": "it counts"}
    made = rewrite("duplicate-release", program, "self.ledger.leave()", values=values)
    assert made is not None
    assert made.fix is not None
    assert made.only == dedent("""
        async def close(self):
            await super().close()
            # again
            self.delta.clear()
        """)
    assert (made.fix.applicability, made.fix.conditions) == (Applicability.SAFE, ())
    assert made.finding.notes == ("it counts",)


def test_a_second_release_takes_its_own_import_along() -> None:
    program = """
        def close(self):
            from .pool import Pool, kept

            if self.shared:
                from .ledger import Ledger

                Ledger.leave()
            Pool.reset(kept)
        """
    made = rewrite("duplicate-release", program, "Ledger.leave()", values={"dominates": "yes"})
    assert made is not None
    assert made.only == dedent("""
        def close(self):
            from .pool import Pool, kept

            Pool.reset(kept)
        """)


@pytest.mark.parametrize(
    ("statement", "deleted"),
    [
        ("[graph.reset() for graph in self.graphs]", True),
        ("graph.reset()", True),
        ("graph.reset(force=self.hard)", True),
        ("count = graph.reset()", False),
        ("return graph.reset()", False),
        ("graph.reset(self.pop())", False),
        ("log(graph.reset())", False),
        ("[graph.reset() for graph in self.drain()]", False),
    ],
)
def test_only_a_statement_that_does_nothing_else_is_deleted(statement: str, *, deleted: bool) -> None:
    program = f"def close(self, graph):\n    first()\n    {statement}\n    last()\n"
    call = statement[statement.index("graph.reset") : statement.index(")") + 1]
    made = rewrite("duplicate-release", program, call, values={"dominates": "yes"})
    assert made is not None
    assert (made.fix is not None) is deleted
    if deleted:
        assert made.only == "def close(self, graph):\n    first()\n    last()\n"


# ------------------------------------------------------------------------------------------------------ shared-release


def test_a_shared_release_is_reported_and_not_rewritten() -> None:
    program = """
        def shutdown(self):
            for engine in self.engines:
                engine.release()
        """
    made = rewrite("shared-release", program, "engine.release()", values={"scope": "process", "loop": "m.py:2"})
    assert made is not None
    assert made.fix is None
    assert "`workspaces`" in made.finding.message


def test_a_suspect_that_overrides_its_rule_is_taken_at_its_word() -> None:
    from graphlint.findings import Precision, Severity

    source = Source("m.py", b"def f():\n    a.close()\n")
    suspect = Suspect("duplicate-release", "m.py", Span(0, 23), place(source, "a.close()"), (), {"place": "`a`"})
    suspect = replace(suspect, severity=Severity.ERROR, precision=Precision.LOW)
    found = registry.code(registry.by_name("duplicate-release")).confirm(suspect, Modules({"m.py": source})["m.py"])
    assert (found.severity, found.precision) == (Severity.ERROR, Precision.LOW)
