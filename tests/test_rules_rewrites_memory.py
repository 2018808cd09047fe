"""What the rules about pool handles, captured allocations and buffers' keys make of code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from test_codemod import format_check
from test_rules_rewrites import dedent, place, rewrite

from graphlint.edits import Applicability
from graphlint.source import Source, Span

# ------------------------------------------------------------------------------------------------------- capture-alloc

SCRATCH = """
    import torch


    class Scratch:
        by_stream = {}

        def rows(self, like):
            stream = torch.cuda.current_stream().cuda_stream
            if stream not in self.by_stream:
                size = like.shape[0]
                # one for each stream
                self.by_stream[stream] = torch.empty(size, device="cuda")
            return self.by_stream[stream]
    """


def test_a_miss_is_refused_under_capture() -> None:
    made = rewrite("capture-alloc", SCRATCH, 'torch.empty(size, device="cuda")')
    assert made is not None
    assert made.only == dedent("""
        import torch


        class Scratch:
            by_stream = {}

            def rows(self, like):
                stream = torch.cuda.current_stream().cuda_stream
                if stream not in self.by_stream:
                    size = like.shape[0]
                    if torch.cuda.is_current_stream_capturing():
                        raise RuntimeError(
                            "Scratch.rows cannot allocate while capturing: run this shape once outside"
                        )
                    # one for each stream
                    self.by_stream[stream] = torch.empty(size, device="cuda")
                return self.by_stream[stream]
        """)
    assert made.fix is not None
    assert made.fix.applicability is Applicability.UNSAFE


def test_a_refusal_precedes_the_first_collective_and_uses_the_projects_own_test() -> None:
    files = {
        "engine/scratch.py": SCRATCH.replace("import torch", "import torch\n    from .streams import busy"),
        "engine/streams.py": "def is_recording(): ...\n",
    }
    source = Source("engine/scratch.py", dedent(files["engine/scratch.py"]).encode())
    start, end = place(source, "size = like.shape[0]")
    values = {"before": f"{start}-{end}", "capturing": "engine.streams.is_recording"}
    made = rewrite("capture-alloc", files, 'torch.empty(size, device="cuda")', values=values)
    assert made is not None
    assert made.fix is not None
    text = made.files["engine/scratch.py"]
    assert text.index("from .streams import is_recording") < text.index("if is_recording():") < text.index("size =")


CAPTURE = """
    import torch


    def capture(self, graph, run):
        with torch.cuda.graph(graph):
            # for the sums
            self.sums = torch.empty(self.rows, device="cuda")
            run(self.sums)
    """


def test_an_allocation_in_the_block_of_a_capture_moves_ahead_of_it() -> None:
    steps = [("capture", "torch.cuda.graph(graph)")]
    made = rewrite("capture-alloc", CAPTURE, 'torch.empty(self.rows, device="cuda")', steps, {"unconditional": "yes"})
    assert made is not None
    assert made.only == dedent("""
        import torch


        def capture(self, graph, run):
            # for the sums
            self.sums = torch.empty(self.rows, device="cuda")
            with torch.cuda.graph(graph):
                run(self.sums)
        """)


def test_an_allocation_that_needs_the_captured_block_stays() -> None:
    program = CAPTURE.replace("            # for the sums", "            self.rows = run(None)")
    made = rewrite(
        "capture-alloc", program, 'torch.empty(self.rows, device="cuda")', [("capture", "torch.cuda.graph(graph)")]
    )
    assert made is not None
    assert made.fix is None


def test_what_every_run_allocates_is_not_refused() -> None:
    made = rewrite("capture-alloc", SCRATCH, 'torch.empty(size, device="cuda")', values={"unconditional": "yes"})
    assert made is not None
    assert made.fix is None


# ------------------------------------------------------------------------------------------------------ unkeyed-buffer

LAYER = """
    import torch

    from .arena import arena


    class Layer:
        def _from_arena(self, rows, splits):
            n = self.width
            sums = arena.request((rows, n), name="sums", keep=False)
            counts = arena.request((splits,), name=f"counts_{self.kind}", keep=False)
            return sums, counts

        def forward(self, x):
            return self._from_arena(x.shape[0], 2)
    """


def spans(text: str, **markers: str) -> dict[str, list[int]]:
    source = Source("m.py", dedent(text).encode())
    return {name: list(place(source, marker)) for name, marker in markers.items()}


def test_names_get_what_their_own_shapes_use_and_the_device() -> None:
    at = spans(
        LAYER,
        sums='"sums"',
        sums_call='arena.request((rows, n), name="sums", keep=False)',
        counts='f"counts_{self.kind}"',
        counts_call='arena.request((splits,), name=f"counts_{self.kind}", keep=False)',
        call="self._from_arena(x.shape[0], 2)",
    )
    keep = [{"reserve": [span[1] - len("False)"), span[1] - 1]} for span in (at["sums_call"], at["counts_call"])]
    requests = [
        {"key": at["sums"], "parts": ["rows", "n", "device"], "call": at["sums_call"], **keep[0]},
        {"key": at["counts"], "parts": ["splits", "device"], "call": at["counts_call"], **keep[1]},
    ]
    values = {
        "missing": "rows and the device",
        "kind": "text",
        "requests": json.dumps(requests),
        "device": "device",
        "parameter": "device",
        "calls": json.dumps([{"path": "m.py", "call": at["call"], "value": "x.device"}]),
    }
    made = rewrite("unkeyed-buffer", LAYER, 'arena.request((rows, n), name="sums", keep=False)', values=values)
    assert made is not None
    assert made.only == dedent("""
        import torch

        from .arena import arena


        class Layer:
            def _from_arena(self, rows, splits, device):
                n = self.width
                with torch.cuda.device(device):
                    capturing = torch.cuda.is_current_stream_capturing()
                    sums = arena.request(
                        (rows, n), name=f"sums_{rows}_{n}_{device}", keep=capturing
                    )
                    counts = arena.request(
                        (splits,), name=f"counts_{self.kind}_{splits}_{device}", keep=capturing
                    )
                return sums, counts

            def forward(self, x):
                return self._from_arena(x.shape[0], 2, x.device)
        """)
    assert made.fix is not None
    assert made.fix.applicability is Applicability.UNSAFE


@pytest.mark.parametrize(
    ("key", "parts", "new"),
    [
        ('"a"', ["n"], 'f"a_{n}"'),
        ("'a{b}'", ["n"], "f'a{{b}}_{n}'"),
        ('r"a\\d"', ["n"], 'fr"a\\d_{n}"'),
        ('f"a_{k}"', ["n", "x.device"], 'f"a_{k}_{n}_{x.device}"'),
        ("name", ["n"], 'f"{name}_{n}"'),
        ('names["a"]', ["n"], "f'{names[\"a\"]}_{n}'"),
        ('"a"', ['d["k"]'], None),
        ('b"a"', ["n"], "f'{b\"a\"}_{n}'"),
    ],
)
def test_a_name_grows(key: str, parts: list[str], new: str | None) -> None:
    program = f"def f(self, k, n, x, d, name, names):\n    return self.get({key}, n)\n"
    at = spans(program, key=f"{key}, n)")
    span = [at["key"][0], at["key"][0] + len(key)]
    values = {"missing": "n", "kind": "text", "requests": json.dumps([{"key": span, "parts": parts}])}
    made = rewrite("unkeyed-buffer", program, f"self.get({key}, n)", values=values)
    assert made is not None
    assert made.only == program.replace(f"({key}, n)", f"({new or key}, n)")
    assert (made.fix is None) is (new is None)


TABLE = """
    def buffer(self, name, rows):
        held = TABLE.get(name)
        if held is None:
            held = torch.empty(rows, device=self.device)
            TABLE[name] = held
        return held
    """


def test_a_dictionarys_key_grows_at_every_place() -> None:
    source = Source("m.py", dedent(TABLE).encode())
    get, item = (place(source, marker) for marker in ("TABLE.get(name)", "TABLE[name]"))
    requests = [
        {"key": [get.end - 5, get.end - 1], "parts": ["rows", "self.device"]},
        {"key": [item.end - 5, item.end - 1], "parts": ["rows", "self.device"]},
    ]
    values = {"missing": "rows", "kind": "any", "requests": json.dumps(requests), "constant": "yes"}
    made = rewrite("unkeyed-buffer", TABLE, "TABLE.get(name)", values=values)
    assert made is not None
    assert made.fix is not None
    assert made.only == dedent("""
        def buffer(self, name, rows):
            key = (name, rows, self.device)
            held = TABLE.get(key)
            if held is None:
                held = torch.empty(rows, device=self.device)
                TABLE[key] = held
            return held
        """)
    assert (made.fix.applicability, made.fix.conditions) == (Applicability.SAFE, ())


def test_the_parts_of_an_item_grow() -> None:
    program = "def f(self, rows):\n    return TABLE[rows, self.k]\n"
    values = {"missing": "device", "kind": "any"}
    values["requests"] = json.dumps([{"key": spans(program, key="rows, self.k")["key"], "parts": ["self.device"]}])
    made = rewrite("unkeyed-buffer", program, "TABLE[rows, self.k]", values=values)
    assert made is not None
    assert made.only == program.replace("self.k", "self.k, self.device")


def test_a_tuple_that_is_a_key_grows() -> None:
    program = "def f(self, rows):\n    key = (rows, self.k)\n    return TABLE.get(key)\n"
    values = {"missing": "device", "kind": "any"}
    values["requests"] = json.dumps([{"key": spans(program, key="(rows, self.k)")["key"], "parts": ["self.device"]}])
    made = rewrite("unkeyed-buffer", program, "TABLE.get(key)", values=values)
    assert made is not None
    assert made.only == program.replace("self.k)", "self.k, self.device)")


def test_a_reservation_is_added_where_the_request_has_none() -> None:
    program = 'import torch\n\n\ndef f(n):\n    return arena.get("a", n)\n'
    at = spans(program, key='"a"', call='arena.get("a", n)')
    requests = [{"key": at["key"], "parts": ["n"], "call": at["call"], "reserve": "keep"}]
    values = {"missing": "n", "kind": "text", "requests": json.dumps(requests)}
    made = rewrite("unkeyed-buffer", program, 'arena.get("a", n)', values=values)
    assert made is not None
    assert made.only.endswith('    return arena.get(f"a_{n}", n, keep=torch.cuda.is_current_stream_capturing())\n')


# --------------------------------------------------------------------------------------------------------- pool-handle

ENGINE = """
    import torch


    class Engine:
        def sleep(self):
            torch.cuda.synchronize()
            if self.graphs:
                for graph in self.graphs.values():
                    graph.reset()
                self.graphs.clear()
            log("asleep")
    """


@pytest.mark.parametrize(("lazy", "value"), [("yes", "None"), ("", "torch.cuda.graph_pool_handle()")])
def test_an_instances_handle_is_retired_behind_the_last_death(lazy: str, value: str) -> None:
    at = spans(ENGINE, death="graph.reset()")
    values = {
        "kind": "instance",
        "name": "pool",
        "lazy": lazy,
        "retire": json.dumps([{"path": "m.py", "span": at["death"], "holders": ["self.pool"]}]),
    }
    made = rewrite("pool-handle", ENGINE, "graph.reset()", values=values)
    assert made is not None
    assert made.fix is not None
    expected = dedent(ENGINE).replace('        log("asleep")', f'        self.pool = {value}\n        log("asleep")')
    assert made.only == expected
    assert made.fix.applicability is Applicability.SAFE


FILES = {
    "engine/backend.py": """
        from typing import ClassVar, Optional

        import torch


        class Backend:
            # for all engines
            _pool_handle: ClassVar[Optional[tuple[int, int]]] = None

            def __init__(self):
                self.events = []
                if Backend._pool_handle is None:
                    # the first one makes it
                    Backend._pool_handle = torch.cuda.graph_pool_handle()

            def optimize(self, graph):
                return run(graph, self._pool_handle)
        """,
    "engine/engine.py": """
        from .backend import Backend


        class Engine:
            def __init__(self):
                self.backend = Backend()
                self._pool = self.backend._pool_handle if self.enabled else None

            def release(self):
                if self.runner is not None:
                    self.runner.clear()
        """,
}


def places(files: Mapping[str, str], path: str, marker: str, **more: Any) -> dict[str, Any]:
    source = Source(path, dedent(files[path]).encode())
    return {"path": path, "span": list(place(source, marker)), **more}


def test_a_classs_handle_gets_accessors_and_every_read_uses_them(tmp_path: Path) -> None:
    values = {
        "kind": "class",
        "owner": "engine.backend.Backend",
        "name": "_pool_handle",
        "store": json.dumps(
            places(FILES, "engine/backend.py", "_pool_handle: ClassVar[Optional[tuple[int, int]]] = None")
        ),
        "mints": json.dumps(
            [places(FILES, "engine/backend.py", "Backend._pool_handle = torch.cuda.graph_pool_handle()")]
        ),
        "reads": json.dumps(
            [
                places(FILES, "engine/backend.py", "self._pool_handle"),
                places(FILES, "engine/engine.py", "self.backend._pool_handle"),
            ]
        ),
        "retire": json.dumps([places(FILES, "engine/engine.py", "self.runner.clear()", holders=["self._pool"])]),
    }
    made = rewrite("pool-handle", FILES, "if Backend._pool_handle is None", values=values)
    assert made is not None
    assert made.files["engine/backend.py"] == dedent('''
        from typing import ClassVar, Optional

        import torch


        class Backend:
            # for all engines
            _pool_handle: ClassVar[Optional[tuple[int, int]]] = None

            def __init__(self):
                self.events = []
                # the first one makes it

            @staticmethod
            def get_pool_handle() -> tuple[int, int]:
                """Return the handle of the shared pool; a new one where the last was retired."""
                if Backend._pool_handle is None:
                    Backend._pool_handle = torch.cuda.graph_pool_handle()
                return Backend._pool_handle

            @staticmethod
            def retire_pool_handle() -> None:
                """Forget the handle: the graphs captured into it are dead, and their pool goes with them."""
                Backend._pool_handle = None

            def optimize(self, graph):
                return run(graph, self.get_pool_handle())
        ''')
    assert made.files["engine/engine.py"] == dedent("""
        from .backend import Backend


        class Engine:
            def __init__(self):
                self.backend = Backend()
                self._pool = self.backend.get_pool_handle() if self.enabled else None

            def release(self):
                if self.runner is not None:
                    self.runner.clear()
                Backend.retire_pool_handle()
                self._pool = None
        """)
    assert made.fix is not None
    assert made.fix.applicability is Applicability.UNSAFE
    for path, text in made.files.items():
        (tmp_path / path.replace("/", "_")).write_text(text)
    assert format_check(tmp_path) == set()


GETTER = """
    import torch


    class Platform:
        _pool = None

        @classmethod
        def pool(cls):
            if cls._pool is None:
                cls._pool = torch.cuda.graph_pool_handle()
            return cls._pool

        def release(self):
            self.graph.reset()
            self.copy = None

        def capture(self):
            capture_into(READ)
    """


@pytest.mark.parametrize(("read", "accessors"), [("self.pool()", 1), ("self._pool", 2)])
def test_a_getter_that_makes_the_handle_stays_unless_somebody_reads_past_it(read: str, accessors: int) -> None:
    files = {"m.py": GETTER.replace("READ", read)}
    reads = [places(files, "m.py", "return cls._pool")]
    reads[0]["span"][0] += len("return ")
    if accessors == 2:
        reads.append(places(files, "m.py", "self._pool"))
    values = {
        "kind": "class",
        "owner": "m.Platform",
        "name": "_pool",
        "lazy": "yes",
        "store": json.dumps(places(files, "m.py", "_pool = None")),
        "mints": json.dumps([places(files, "m.py", "cls._pool = torch.cuda.graph_pool_handle()")]),
        "reads": json.dumps(reads),
        "retire": json.dumps([places(files, "m.py", "self.graph.reset()", holders=["self.copy"])]),
    }
    made = rewrite("pool-handle", files, "self.graph.reset()", values=values)
    assert made is not None
    assert made.only.count("@staticmethod") == accessors
    assert "        self.graph.reset()\n        Platform.retire_pool()\n        self.copy = None\n" in made.only
    assert (f"capture_into({read})" in made.only) is (accessors == 1)
    assert ("if cls._pool is None" in made.only) is (accessors == 1)


MODULE = """
    import torch

    _POOL = torch.cuda.graph_pool_handle()


    def capture(graph, run):
        with torch.cuda.graph(graph, pool=_POOL):
            run()


    def release(graphs):
        for graph in graphs:
            graph.reset()


    SIZES = (1, 2)
    """


def test_a_modules_handle_gets_functions() -> None:
    files = {"m.py": MODULE}
    values = {
        "kind": "module",
        "owner": "m",
        "name": "_POOL",
        "store": json.dumps(places(files, "m.py", "_POOL = torch.cuda.graph_pool_handle()")),
        "mints": json.dumps([places(files, "m.py", "_POOL = torch.cuda.graph_pool_handle()")]),
        "reads": json.dumps([{"path": "m.py", "span": list(read_of_pool())}]),
        "retire": json.dumps([places(files, "m.py", "graph.reset()")]),
    }
    made = rewrite("pool-handle", MODULE, "graph.reset()", values=values)
    assert made is not None
    assert made.only == dedent('''
        import torch

        _POOL = None


        def capture(graph, run):
            with torch.cuda.graph(graph, pool=get_pool()):
                run()


        def release(graphs):
            for graph in graphs:
                graph.reset()
            retire_pool()


        def get_pool() -> tuple[int, int]:
            """Return the handle of the shared pool; a new one where the last was retired."""
            global _POOL
            if _POOL is None:
                _POOL = torch.cuda.graph_pool_handle()
            return _POOL


        def retire_pool() -> None:
            """Forget the handle: the graphs captured into it are dead, and their pool goes with them."""
            global _POOL
            _POOL = None


        SIZES = (1, 2)
        ''')


def read_of_pool() -> Span:
    source = Source("m.py", dedent(MODULE).encode())
    end = place(source, "pool=_POOL").end
    return Span(end - len("_POOL"), end)


def test_a_cached_functions_handle_is_forgotten() -> None:
    files = {
        "engine/run.py": "from .pools import shared\n\n\ndef release(graphs):\n    graphs.reset()\n",
        "engine/pools.py": "@functools.cache\ndef shared():\n    return torch.cuda.graph_pool_handle()\n",
    }
    way = {
        "path": "engine/run.py",
        "span": list(place(Source("m.py", files["engine/run.py"].encode()), "graphs.reset()")),
    }
    values = {"kind": "cached", "owner": "engine.pools.shared", "retire": json.dumps([way])}
    made = rewrite("pool-handle", files, "graphs.reset()", values=values)
    assert made is not None
    assert made.files["engine/run.py"].endswith("    graphs.reset()\n    shared.cache_clear()\n")
