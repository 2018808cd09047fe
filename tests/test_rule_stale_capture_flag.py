"""Which answers of a capture test are kept from before the capture, and which are asked in time."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphlint import check, fixing, registry
from graphlint.config import Settings
from graphlint.findings import Finding

RULE = "stale-capture-flag"
TEST = "torch.cuda.is_current_stream_capturing()"


def findings(folder: Path, body: str, *, preview: bool = False) -> list[Finding]:
    text = f"import torch\n\n\n{textwrap.dedent(body).strip()}\n"
    (folder / "program.py").write_text(text, encoding="utf-8")
    report = check.check([str(folder)], Settings(preview=preview), registry.select([RULE]))
    for finding in report.findings:
        assert text[finding.span.start : finding.span.end] in (TEST, "capturing()")
    return list(report.findings)


LAYER = """
class Layer:
    def __init__(self, pool):
        self.pool = pool
        {kept}

    def forward(self, x):
        return self.pool.take(x.shape, reserve=self.keep)
"""

KEPT = {
    "attribute": f"self.keep = {TEST}",
    "local": f"flag = {TEST}\n        self.keep = flag",
    "with another test": f"self.keep = pool is not None and {TEST}",
    "choice": f"self.keep = True if {TEST} else False",
    "branch": f"self.keep = False\n        if {TEST}:\n            self.keep = True",
}


@pytest.mark.parametrize("kept", KEPT.values(), ids=list(KEPT))
def test_an_attribute_that_a_constructor_sets(tmp_path: Path, kept: str) -> None:
    assert len(findings(tmp_path, LAYER.format(kept=kept))) == 1


SILENT = {
    "a refusal": f"self.keep = True\n        if {TEST}:\n            raise RuntimeError",
    "an assertion": f"self.keep = True\n        assert not {TEST}",
    "a purpose": "self.keep = pool.for_graph",
    "the test itself": "self.keep = torch.cuda.is_current_stream_capturing",
    "asked later": f"self.keep = lambda: {TEST}",
    "never read": f"self.keep = self.other = 0\n        self.seen = {TEST}",
    "a log": f"self.keep = 0\n        print({TEST})",
}


@pytest.mark.parametrize("kept", SILENT.values(), ids=list(SILENT))
def test_a_constructor_may_ask(tmp_path: Path, kept: str) -> None:
    assert findings(tmp_path, LAYER.format(kept=kept), preview=True) == []


def test_a_flag_that_a_constructor_passes_on(tmp_path: Path) -> None:
    body = f"""
        class Meta:
            def __init__(self, book):
                self._fill(book)

            def _fill(self, book):
                self.lengths = book.get("lengths", reserve={TEST})
        """
    assert len(findings(tmp_path, body)) == 1


def test_the_test_at_the_request_is_right(tmp_path: Path) -> None:
    body = f"""
        class Layer:
            def forward(self, book):
                return book.get("lengths", reserve={TEST})
        """
    assert findings(tmp_path, body, preview=True) == []


def test_an_object_that_is_built_in_a_capture_is_told_the_truth(tmp_path: Path) -> None:
    body = LAYER.format(kept=f"self.keep = {TEST}") + (
        "\n\ndef record(graph, pool, x):\n    with torch.cuda.graph(graph):\n        return Layer(pool).forward(x)\n"
    )
    assert findings(tmp_path, body, preview=True) == []


def test_an_object_that_is_built_before_the_block_is_not(tmp_path: Path) -> None:
    body = LAYER.format(kept=f"self.keep = {TEST}") + (
        "\n\ndef record(graph, pool, x):\n    layer = Layer(pool)\n"
        "    with torch.cuda.graph(graph):\n        return layer.forward(x)\n"
    )
    assert len(findings(tmp_path, body)) == 1


def test_an_attribute_that_is_set_again_is_silent(tmp_path: Path) -> None:
    body = LAYER.format(kept=f"self.keep = {TEST}") + f"\n    def begin(self):\n        self.keep = {TEST}\n"
    assert findings(tmp_path, body, preview=True) == []


def test_a_context_manager_is_built_where_it_is_used(tmp_path: Path) -> None:
    body = f"""
        class Collected:
            def __init__(self):
                self.keep = {TEST}

            def __enter__(self):
                if self.keep:
                    torch.cuda.synchronize()

            def __exit__(self, *error):
                pass
        """
    assert findings(tmp_path, body, preview=True) == []


def test_a_wrapper_of_the_project_is_a_test_too(tmp_path: Path) -> None:
    body = f"def capturing():\n    return {TEST}\n\n" + LAYER.format(kept="self.keep = capturing()")
    assert len(findings(tmp_path, body)) == 1


def test_a_module_variable(tmp_path: Path) -> None:
    body = f"KEEP = {TEST}\n\n\ndef forward(pool, x):\n    return pool.take(x.shape, reserve=KEEP)"
    assert len(findings(tmp_path, body)) == 1


def test_a_default_is_asked_once(tmp_path: Path) -> None:
    assert len(findings(tmp_path, f"def take(shape, reserve={TEST}):\n    return shape, reserve")) == 1


def test_a_local_from_before_the_block(tmp_path: Path) -> None:
    assert len(findings(tmp_path, RECORD.format(before=f"keep = {TEST}", inside="pass"))) == 1


def test_a_local_from_inside_the_block(tmp_path: Path) -> None:
    assert findings(tmp_path, RECORD.format(before="pass", inside=f"keep = {TEST}"), preview=True) == []


# ------------------------------------------------------------------------------------------- where answers are kept

RECORD = """
def record(graph, pool, x):
    {before}
    with torch.cuda.graph(graph):
        {inside}
        return pool.take(x.shape, reserve=keep)
"""

POOL = """
class Pool:
    def __init__(self):
        self.spare, self.mine = {}, []

    def take(self, shape, fixed=False):
        block = self.spare.pop(tuple(shape), None)
        if block is None:
            block = torch.empty(shape, device="cuda")
        if fixed:
            self.mine.append(block)
        else:
            self.spare[tuple(shape)] = block
        return block
"""

RUNNER = """
class Runner:
    def __init__(self, layer):
        self.layer = layer
        self.graphs = {{}}
        self.pool = Pool()

    {prepare}

    def record(self, x):
        {before}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = {inside}
        self.graphs[x.shape[0]] = graph, out
"""


def runner(inside: str, before: str = "pass", prepare: str = "") -> str:
    return POOL + RUNNER.format(inside=inside, before=before, prepare=prepare)


MARKED = """
class Runner:
    def __init__(self, pool):
        self.pool = pool
        self.fixed = False

    def forward(self, x):
        return x + self.pool.take(x.shape, self.fixed)

    def record(self, graph, x):
        {before}
        with torch.cuda.graph(graph):
            return self.forward(x)
"""

HELPER = f"def room(self, x):\n        return self.pool.take(x.shape, {TEST})"
KEEPERS = {
    "what the block uses is made with the answer": runner(
        "self.layer(x, work)", f"work = self.pool.take(x.shape, {TEST})"
    ),
    "a helper makes what the block uses": runner("self.layer(x, work)", "work = self.room(x)", HELPER),
    "an attribute that the block uses": runner("self.layer(x, self.work)", "self.work = self.room(x)", HELPER),
    "a test in the block": runner("self.layer(x, 1) if keep else 0", f"keep = {TEST}").replace(
        "out = self.layer(x, 1) if keep else 0",
        "out = self.layer(x)\n            if keep:\n                self.layer.keep(out)",
    ),
    "a class method": POOL
    + f"""
class Meta:
    def __init__(self, rows):
        self.rows = rows

    @classmethod
    def build(cls, pool, shape):
        return cls(pool.take(shape, {TEST}))


def record(graph, pool, layer, x):
    meta = Meta.build(pool, x.shape)
    with torch.cuda.graph(graph):
        return layer(x, meta)
""",
    "a method that a constructor calls on another object": """
class Layer:
    def __init__(self, pool):
        self.pool = pool
        self.fixed = False

    def set_up(self):
        self.fixed = TEST

    def __call__(self, x):
        return self.pool.take(x.shape, self.fixed)


class Runner:
    def __init__(self, pool):
        self.layer = Layer(pool)
        self.layer.set_up()

    def record(self, graph, x):
        with torch.cuda.graph(graph):
            return self.layer(x)
""".replace("TEST", TEST),
    "a class": f"class Layer:\n    fixed = {TEST}\n\n    def forward(self, pool, x):\n        return pool.take(x.shape, self.fixed)",
    "a default of a dataclass": f"""
from dataclasses import dataclass


@dataclass
class Meta:
    rows: int
    fixed: bool = {TEST}


def forward(pool, meta):
    return pool.take(meta.rows, meta.fixed)
""",
    "a dictionary": LAYER.format(kept=f'self.keep = {{"reserve": {TEST}}}'),
    "the opposite": LAYER.format(kept=f"self.keep = not {TEST}"),
    "a memoised function": f"""
import functools


@functools.lru_cache(maxsize=None)
def recorded():
    return {TEST}


def forward(pool, x):
    return pool.take(x.shape, recorded())
""",
    "a property that is computed once": f"""
import functools


class Layer:
    @functools.cached_property
    def fixed(self):
        return {TEST}

    def forward(self, pool, x):
        return pool.take(x.shape, self.fixed)
""",
    "a function's own variable": f"""
def make(pool):
    fixed = {TEST}

    def forward(x):
        return pool.take(x.shape, fixed)

    return forward


class Runner:
    def __init__(self, pool):
        self.layer = make(pool)

    def record(self, graph, x):
        with torch.cuda.graph(graph):
            return self.layer(x)
""",
    "a plan before the capture, whose run is captured": """
class Wrapper:
    def __init__(self, pool):
        self.pool = pool
        self.fixed = False

    def plan(self, rows):
        self.rows = rows
        self.fixed = TEST

    def run(self, x):
        return x + self.pool.take(x.shape, self.fixed)


class Runner:
    def __init__(self, pool):
        self.wrapper = Wrapper(pool)

    def prepare(self, x):
        self.wrapper.plan(x.shape[0])

    def record(self, graph, x):
        self.prepare(x)
        with torch.cuda.graph(graph):
            return self.wrapper.run(x)
""".replace("TEST", TEST),
    "an attribute that is set in front of the block": MARKED.format(before=f"self.fixed = {TEST}"),
    "an attribute that a warm-up sets": MARKED.format(before="pass")
    + f"\n    def warm_up(self, x):\n        self.fixed = {TEST}\n        self.forward(x)\n",
    "an attribute of another object": f"""
class Meta:
    def __init__(self):
        self.fixed = False


class Runner:
    def forward(self, pool, x, meta: Meta):
        return x + pool.take(x.shape, meta.fixed)

    def record(self, graph, pool, x):
        meta = Meta()
        meta.fixed = {TEST}
        with torch.cuda.graph(graph):
            return self.forward(pool, x, meta)
""",
    "a dictionary in front of the block": RECORD.format(
        before=f'options = {{"fixed": {TEST}}}', inside="keep = pool.choose(**options)"
    ),
    "a partial call in front of the block": f"""
import functools


def forward(pool, x, fixed):
    return x + pool.take(x.shape, fixed)


def record(graph, pool, x):
    body = functools.partial(forward, pool, fixed={TEST})
    with torch.cuda.graph(graph):
        return body(x)
""",
    "a flag of whatever name that something hangs on": POOL
    + f"""
class Meta:
    def __init__(self, pool, rows):
        self.lengths = pool.take((rows,), {TEST})
""",
}


@pytest.mark.parametrize("program", KEEPERS.values(), ids=list(KEEPERS))
def test_an_answer_that_is_kept(tmp_path: Path, program: str) -> None:
    assert len(findings(tmp_path, program)) == 1


def test_a_factory_of_a_field_is_asked_while_the_object_is_built(tmp_path: Path) -> None:
    body = """
        from dataclasses import dataclass, field

        @dataclass
        class Meta:
            rows: int
            fixed: bool = field(default_factory=torch.cuda.is_current_stream_capturing)

        def forward(pool, meta):
            return pool.take(meta.rows, meta.fixed)
        """
    text = f"import torch\n\n\n{textwrap.dedent(body).strip()}\n"
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    (finding,) = check.check([str(tmp_path)], Settings(), registry.select([RULE])).findings
    assert text[finding.span.start : finding.span.end] == "torch.cuda.is_current_stream_capturing"


IN_TIME = {
    "a property": LAYER.format(kept="pass") + f"\n    @property\n    def keep(self):\n        return {TEST}\n",
    "what an object is for": runner("self.layer(x, work)", "work = self.pool.take(x.shape, True)"),
    "an object that captured code makes": POOL
    + f"""
class Meta:
    def __init__(self, pool, rows):
        self.lengths = pool.take((rows,), {TEST})


class Layer:
    def __init__(self, pool):
        self.pool = pool

    def __call__(self, x):
        return x + Meta(self.pool, x.shape[0]).lengths


def record(graph, layer, x):
    layer(x)
    with torch.cuda.graph(graph):
        return layer(x)
""",
    "a helper that captured code calls, and a warm-up before": runner(
        "self.layer(x, self.room(x))", "self.layer(x, self.room(x))", HELPER
    ),
    "what the block does not use": runner("self.layer(x)", "spare = self.room(x)", HELPER),
    "an attribute that is set in the block": MARKED.format(before="pass").replace(
        "            return self.forward", f"            self.fixed = {TEST}\n            return self.forward"
    ),
    "an attribute that captured code sets for itself": MARKED.format(before="self.forward(x)").replace(
        "        return x + self.pool", f"        self.fixed = {TEST}\n        return x + self.pool"
    ),
    "a nested capture": f"""
def record(graph, x):
    nested = {TEST}
    if nested:
        return x + 1
    with torch.cuda.graph(graph):
        return x + 1
""",
    "a parameter that only a refusal hangs on": f"""
def check(recording, what):
    if recording:
        raise RuntimeError(what)


class Layer:
    def __init__(self, pool):
        check({TEST}, "a layer")
        self.pool = pool
""",
    "a flag for the time of the capture": LAYER.format(kept="self.keep = False")
    + """
    def record(self, graph, x):
        self.keep = True
        with torch.cuda.graph(graph):
            self.forward(x)
        self.keep = False
""",
    "a captured function's own variable": f"""
class Layer:
    def __call__(self, pool, x):
        fixed = {TEST}

        def take():
            return pool.take(x.shape, fixed)

        return take()


def record(graph, pool, x):
    layer = Layer()
    with torch.cuda.graph(graph):
        layer(pool, x)
""",
    "a function that nobody remembers": LAYER.format(kept="pass").replace("self.keep", "recorded()")
    + f"\n\ndef recorded():\n    return {TEST}\n",
}


@pytest.mark.parametrize("program", IN_TIME.values(), ids=list(IN_TIME))
def test_an_answer_that_is_asked_in_time(tmp_path: Path, program: str) -> None:
    assert findings(tmp_path, program, preview=True) == []


# -------------------------------------------------------------------------------------- programs after public threads

ARENA = """
class Arena:
    def __init__(self):
        self.blocks = {}

    def lend(self, name, shape, own):
        if own:
            return torch.zeros(shape, device="cuda")
        if (name, shape) not in self.blocks:
            self.blocks[name, shape] = torch.zeros(shape, device="cuda")
        return self.blocks[name, shape]
"""

METADATA = """
import copy
from dataclasses import dataclass


@dataclass
class Lengths:
    arena: Arena
    rows: int
    is_recorded: bool = False

    def __post_init__(self):
        own = ASKED
        self.lengths = self.arena.lend("lengths", (self.rows,), own)

    def recorded(self):
        copied = copy.copy(self)
        copied.is_recorded = True
        copied.__post_init__()
        return copied


def record(graph, layer, eager):
    meta = eager.recorded()
    with torch.cuda.graph(graph):
        return layer(meta.lengths)
"""

PLAN = """
class Indexer:
    def __init__(self, arena, rows, for_graph: bool):
        self.arena = arena
        self.for_graph = for_graph
        self.plan = None
        self._plan(rows)

    def _plan(self, rows):
        self.plan = self._table(rows, own=ASKED)

    def _table(self, rows, own):
        return self.arena.lend("plan", (rows, 4), own)


class Runner:
    def __init__(self, arena, layer):
        self.layer = layer
        self.indexers = {rows: Indexer(arena, rows, True) for rows in (8, 16)}

    def record(self, graph, rows):
        with torch.cuda.graph(graph):
            return self.layer(self.indexers[rows].plan)
"""

TWO_PASSES = """
class Runner:
    def __init__(self, arena: Arena, layer):
        self.arena = arena
        self.layer = layer
        self.ready = {}
        self.graphs = {}

    def _prepare(self, rows):
        self.ready[rows] = self.arena.lend("work", (rows, 64), own=ASKED)

    def warm_up(self, sizes):
        for rows in sizes:
            self._prepare(rows)
            self.layer(self.ready[rows])
        for rows in sizes:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.layer(self.ready[rows])
            self.graphs[rows] = graph
"""

LENT = """
class Lengths:
    def __init__(self, arena: Arena, rows, for_graph: bool):
        own = ASKED

        def lent(name, *shape):
            return arena.lend(name, shape, own)

        self.lengths = lent("lengths", rows)
        self.offsets = lent("offsets", rows, 4)
"""

THREADS = {
    "NVIDIA/TensorRT-LLM#10393": (METADATA, "self.is_recorded"),
    "NVIDIA/TensorRT-LLM#10393, through a closure": (LENT, "for_graph"),
    "NVIDIA/TensorRT-LLM#16291": (PLAN, "self.for_graph"),
    "NVIDIA/TensorRT-LLM#16319": (TWO_PASSES, "True"),
}
"""Metadata that is copied for a graph and built again, a plan that metadata makes for itself, and inputs that a pass of
warm-up prepares for the pass that captures; each with what took the place of the test."""


@pytest.mark.parametrize(("program", "remedy"), THREADS.values(), ids=list(THREADS))
def test_programs_after_public_threads(tmp_path: Path, program: str, remedy: str) -> None:
    assert len(findings(tmp_path, ARENA + program.replace("ASKED", TEST))) == 1
    assert findings(tmp_path, ARENA + program.replace("ASKED", remedy), preview=True) == []


def test_a_closure_that_is_kept_asks_when_it_was_made_and_may_be_called_in_a_capture(tmp_path: Path) -> None:
    kept = LENT.replace("ASKED", TEST).replace('self.lengths = lent("lengths", rows)', "self.lent = lent")
    assert findings(tmp_path, ARENA + kept) == []


# --------------------------------------------------------------------------------------------------------- rewrites


def fixed(folder: Path, program: str) -> str:
    """The program after the rule's fixes, which must leave no finding."""
    path = folder / "program.py"
    path.write_text(f"import torch\n\n\n{program.strip()}\n", encoding="utf-8")
    inputs = check.read((str(folder),), Settings(), {})
    outcome = fixing.fix(inputs, registry.select([RULE]), unsafe=True)
    for name, change in outcome.changes.items():
        Path(name).write_bytes(change.after)
    assert not check.check([str(folder)], Settings(), registry.select([RULE])).findings
    return path.read_text(encoding="utf-8")


def test_every_read_asks_for_itself(tmp_path: Path) -> None:
    text = fixed(tmp_path, LAYER.format(kept=f"self.keep = {TEST}"))
    assert "self.keep" not in text
    assert f"reserve={TEST})" in text


FORMS = {
    "denied": (f"self.keep = not {TEST}", f"reserve=not {TEST}", False),
    "as a bool": (f"self.keep = bool({TEST})", f"reserve={TEST})", False),
    "behind another test": (
        f"self.keep = pool is not None and {TEST}",
        f"reserve=self.keep and {TEST}",
        True,
    ),
    "or denied": (f"self.keep = pool is None or not {TEST}", f"reserve=self.keep or not {TEST}", True),
}


@pytest.mark.parametrize(("kept", "read", "stays"), FORMS.values(), ids=list(FORMS))
def test_a_read_of_part_of_an_answer(tmp_path: Path, kept: str, read: str, stays: bool) -> None:
    text = fixed(tmp_path, LAYER.format(kept=kept))
    assert read in text
    assert text.count(TEST) == 1
    assert ("self.keep = pool is" in text) is stays


def test_a_read_that_denies_a_denied_answer(tmp_path: Path) -> None:
    layer = LAYER.format(kept=f"self.keep = not {TEST}").replace("reserve=self.keep", "reserve=not self.keep")
    assert f"reserve={TEST})" in fixed(tmp_path, layer)


RAW = {
    "one after the other": """
    graph.capture_begin()
    out = pool.take(x.shape, reserve=keep)
    graph.capture_end()
    {after}
""",
    "ended in any case": """
    graph.capture_begin(pool=None)
    try:
        out = pool.take(x.shape, reserve=keep)
    finally:
        graph.capture_end()
    {after}
""",
}


@pytest.mark.parametrize("block", RAW.values(), ids=list(RAW))
def test_a_capture_that_begins_and_ends_by_hand(tmp_path: Path, block: str) -> None:
    def record(before: str, block: str) -> str:
        return f"def record(graph: torch.cuda.CUDAGraph, pool, x):\n    {before}\n{block}"

    early = record(f"keep = {TEST}", block.format(after="return out"))
    late = block.format(after="return out").replace("    out =", f"    keep = {TEST}; out =")
    outside = block.replace("reserve=keep", "reserve=True").format(after="return pool.take(x.shape, reserve=keep)")
    assert len(findings(tmp_path, early)) == 1
    assert findings(tmp_path, record("pass", late)) == []
    assert findings(tmp_path, record(f"keep = {TEST}", outside)) == []


def test_a_variable_from_before_the_block_goes(tmp_path: Path) -> None:
    body = RECORD.format(before=f"keep = {TEST}", inside="pool.mark(keep)")
    text = fixed(tmp_path, body)
    assert "keep =" not in text
    assert text.count(TEST) == 2


def test_a_variable_that_is_read_elsewhere_too_stays(tmp_path: Path) -> None:
    body = RECORD.format(before=f"keep = {TEST}\n    print(keep)", inside="pass")
    text = fixed(tmp_path, body)
    assert f"keep = {TEST}\n    print(keep)" in text
    assert f"reserve={TEST})" in text


def test_what_is_made_for_the_capture_says_so(tmp_path: Path) -> None:
    text = fixed(tmp_path, KEEPERS["what the block uses is made with the answer"])
    assert "work = self.pool.take(x.shape, True)" in text


@pytest.mark.parametrize("field", ["for_graph", "q7"])
def test_the_field_that_captures_set_says_what_the_object_is_for(tmp_path: Path, field: str) -> None:
    program = f"""
from dataclasses import dataclass


@dataclass
class Meta:
    pool: Pool
    rows: int
    verbose: bool = False
    {field}: bool = False

    def __post_init__(self):
        self.lengths = self.pool.take((self.rows,), {TEST})


def record(graph, pool, layer, x):
    meta = Meta(pool, x.shape[0], {field}=True)
    with torch.cuda.graph(graph):
        return layer(x, meta.lengths)
"""
    text = fixed(tmp_path, POOL + program)
    assert f"self.pool.take((self.rows,), self.{field})" in text


@pytest.mark.parametrize(
    "kept",
    [
        f"self.keep = {TEST}\n        pool.note(self.keep)",
        f"self.keep = 'graph' if {TEST} else 'eager'",
        f"self.keep = {TEST} and pool is not None",
    ],
)
def test_other_forms_have_no_fix(tmp_path: Path, kept: str) -> None:
    (finding,) = findings(tmp_path, LAYER.format(kept=kept))
    assert finding.fix is None


def test_a_field_that_nobody_would_set_stays(tmp_path: Path) -> None:
    body = f"""
        from dataclasses import dataclass, field

        @dataclass
        class Meta:
            keep: bool = field(init=False)
            other: int = 0

            def __post_init__(self):
                self.keep = {TEST}

            def take(self, pool):
                return pool.take(self.other, self.keep)
        """
    (finding,) = findings(tmp_path, body)
    assert finding.fix is None
