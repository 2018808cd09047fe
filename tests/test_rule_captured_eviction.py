"""What is reported as a cache that evicts what a graph reads, and what is not."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings
from graphlint.findings import Finding, Severity

RULE = "captured-eviction"

HEAD = """
import collections
import functools
from collections import OrderedDict, deque

import torch

LIMIT = 8


class Cache:
    LIMIT = 8

    def __init__(self, limit):
        self.limit = limit
        self.table = OrderedDict()
        self.order = deque()
        self.marked = set()
        self.pinned = {}
        self.retired = []

"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def getter(body: str) -> str:
    """A program with a cache whose method of this body gives a tensor of `n` rows."""
    return HEAD + "    def get(self, n):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "        ") + "\n"


def find(text: str) -> Sequence[Finding]:
    Path("m.py").write_text(textwrap.dedent(text).lstrip("\n"))
    return check.check(["."], Settings(), registry.select((RULE,))).findings


def reported(text: str) -> list[str]:
    """The reported lines."""
    findings = find(text)
    content = Path("m.py").read_bytes()
    return [content.splitlines()[content[: each.span.start].count(b"\n")].strip().decode() for each in findings]


EVICTS = {
    "the coldest": """
        if n in self.table:
            self.table.move_to_end(n)
            return self.table[n]
        made = self.table[n] = torch.empty(n, device="cuda")
        if len(self.table) > self.limit:
            self.table.popitem(last=False)  # 1
        return made
    """,
    "in a loop": """
        found = self.table.get(n)
        if found is None:
            found = self.table[n] = torch.empty(n, device="cuda")
            while len(self.table) > LIMIT:
                self.table.popitem(last=False)  # 1
        return found
    """,
    "by its key": """
        if n not in self.table:
            if len(self.table) >= self.LIMIT:
                del self.table[next(iter(self.table))]  # 1
            self.table[n] = torch.empty(n, device="cuda")
        return self.table[n]
    """,
    "by a queue of keys": """
        if n not in self.table:
            self.table[n] = torch.empty(n, device="cuda")
            self.order.append(n)
            if len(self.order) > self.limit:
                self.table.pop(self.order.popleft())  # 1
        return self.table[n]
    """,
    "all of them": """
        if n not in self.table:
            if len(self.table) >= self.limit:
                self.table.clear()  # 1
            self.table[n] = torch.empty(n, device="cuda")
        return self.table[n]
    """,
    "of several tensors": """
        if n not in self.table:
            self.table[n] = (torch.empty(n, device="cuda"), torch.zeros(n, device="cuda"))
            if len(self.table) > self.limit:
                self.table.popitem(last=False)  # 1
        return self.table[n]
    """,
    "though a miss is refused in a capture": """
        if n not in self.table:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("run this shape once before")
            if len(self.table) >= self.limit:
                self.table.popitem(last=False)  # 1
            self.table[n] = torch.empty(n, device="cuda")
        return self.table[n]
    """,
    "though a miss is not kept in a capture": """
        found = self.table.get(n)
        if found is None:
            found = torch.empty(n, device="cuda")
            if torch.cuda.is_current_stream_capturing():
                return found
            self.table[n] = found
            while len(self.table) > self.limit:
                self.table.popitem(last=False)  # 1
        return found
    """,
}


@pytest.mark.parametrize("body", EVICTS.values(), ids=EVICTS)
def test_an_eviction_is_reported_where_it_happens(body: str) -> None:
    (line,) = reported(getter(body))
    assert line.endswith("# 1")


SPARED = {
    "a capture passes the cache by": """
        if torch.cuda.is_current_stream_capturing():
            return torch.empty(n, device="cuda")
        if n not in self.table:
            self.table[n] = torch.empty(n, device="cuda")
            if len(self.table) > self.limit:
                self.table.popitem(last=False)
        return self.table[n]
    """,
    "what a capture was given is kept": """
        if n not in self.table:
            self.table[n] = torch.empty(n, device="cuda")
            if len(self.table) > self.limit:
                self.table.popitem(last=False)
        if torch.cuda.is_current_stream_capturing():
            self.pinned[n] = self.table[n]
        return self.table[n]
    """,
    "what is evicted is kept": """
        if n not in self.table:
            self.table[n] = torch.empty(n, device="cuda")
            if len(self.table) > self.limit:
                _, old = self.table.popitem(last=False)
                self.retired.append(old)
        return self.table[n]
    """,
    "no bound": """
        if n not in self.table:
            self.table[n] = torch.empty(n, device="cuda")
        return self.table[n]
    """,
    "it is given up by name": """
        self.table[n] = torch.empty(n, device="cuda")
        if n == 0:
            self.table.pop(n)
    """,
    "no device memory": """
        if n not in self.table:
            self.table[n] = list(range(n))
            if len(self.table) > self.limit:
                self.table.popitem(last=False)
        return self.table[n]
    """,
}


@pytest.mark.parametrize("body", SPARED.values(), ids=SPARED)
def test_nothing_is_reported_where_no_graph_loses_anything(body: str) -> None:
    assert reported(getter(body)) == []


def test_a_marked_entry_that_stays_is_not_reported() -> None:
    program = """
    import torch
    from dataclasses import dataclass

    @dataclass
    class Entry:
        data: torch.Tensor
        in_graph: bool = False

    class Cache:
        def __init__(self):
            self.table = {}

        def get(self, n):
            entry = self.table.get(n)
            if entry is None:
                self._room()
                entry = self.table[n] = Entry(torch.empty(n, device="cuda"))
            if torch.cuda.is_current_stream_capturing():
                entry.in_graph = True
            return entry.data

        def _room(self):
            idle = [key for key, entry in self.table.items() if not entry.in_graph]
            while idle and len(self.table) >= 8:
                del self.table[idle.pop()]
    """
    assert reported(program) == []
    assert reported(program.replace("entry.in_graph = True", "entry.data.zero_()")) == ["del self.table[idle.pop()]"]


MEMOS = {
    "@functools.lru_cache(maxsize=16)": True,
    "@functools.lru_cache(16)": True,
    "@functools.lru_cache(maxsize=LIMIT)": True,
    "@functools.lru_cache(maxsize=None)": False,
    "@functools.lru_cache(None)": False,
    "@functools.cache": False,
}


@pytest.mark.parametrize(("decorator", "evicts"), MEMOS.items(), ids=MEMOS)
def test_a_memo_evicts_where_it_has_a_bound(decorator: str, evicts: bool) -> None:
    program = f"""
    import functools
    import torch

    LIMIT = 4

    {decorator}
    def mask(n):
        return torch.ones(n, device="cuda")
    """
    assert reported(program) == ([decorator] if evicts else [])


@pytest.mark.parametrize("decorator", ["@functools.lru_cache", "@functools.lru_cache()"])
def test_a_bound_that_nobody_chose_is_wide(decorator: str) -> None:
    program = f"""
    import functools
    import torch

    {decorator}
    def mask(n):
        return torch.ones(n, device="cuda")
    """
    assert reported(program) == []
    captured = "def capture(graph, n):\n    with torch.cuda.graph(graph):\n        mask(n)\n"
    assert reported(textwrap.dedent(program) + captured) == [decorator]


def test_a_memo_of_one_value_or_of_numbers_is_not_reported() -> None:
    program = """
    import functools
    import torch

    @functools.lru_cache
    def mask():
        return torch.ones(4, device="cuda")

    @functools.lru_cache
    def count(n):
        return torch.ones(n, device="cuda").numel()
    """
    assert reported(program) == []


GRAPHS = """
import torch
from collections import OrderedDict

class Runner:
    def __init__(self, model):
        self.model = model
        self.graphs = OrderedDict()
        self.pool = None

    def record(self, x):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph{pool}):
            out = self.model(x)
        self.pool = graph.pool()
        return graph, out

    def run(self, x):
        if x.shape not in self.graphs:
            if len(self.graphs) >= 8:
                {evict}
            self.graphs[x.shape] = self.record(x)
        self.graphs[x.shape][0].replay()
"""


def test_a_graph_of_a_shared_pool_that_is_evicted_is_reported() -> None:
    text = GRAPHS.replace("{pool}", ", pool=self.pool").replace("{evict}", "self.graphs.popitem(last=False)")
    assert reported(text) == ["self.graphs.popitem(last=False)"]


def test_a_graph_with_a_pool_of_its_own_is_not() -> None:
    text = GRAPHS.replace("{pool}", "").replace("{evict}", "self.graphs.popitem(last=False)")
    assert reported(text) == []


def test_all_graphs_of_a_pool_may_go_together() -> None:
    text = GRAPHS.replace("{pool}", ", pool=self.pool").replace("{evict}", "self.graphs.clear()")
    assert reported(text) == []


def test_a_full_table_may_be_told_by_equality() -> None:
    body = """
        if n not in self.table:
            if len(self.table) == self.limit:
                self.table.pop(min(self.table))
            self.table[n] = torch.empty(n, device="cuda")
        return self.table[n]
    """
    assert reported(getter(body)) == ["self.table.pop(min(self.table))"]


MEMO_OF_GRAPHS = """
import functools
import torch

POOL = None

class Runner:
    def __init__(self, model, limit):
        self.model = model
        self.pool = torch.cuda.graph_pool_handle()

        @functools.lru_cache(maxsize=limit)
        def recorded(shape):
            return self.record(shape)

        self.recorded = recorded

    def record(self, shape):
        rows = torch.zeros(shape, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            out = self.model(rows)
        return rows, out, graph

    def run(self, x):
        rows, out, graph = self.recorded(tuple(x.shape))
        rows.copy_(x)
        graph.replay()
        return out.clone()
"""


def test_a_memo_of_graphs_of_one_pool_evicts_them_one_by_one() -> None:
    (finding,) = find(MEMO_OF_GRAPHS)
    assert finding.message.startswith("the cache of recorded evicts")
    assert reported(MEMO_OF_GRAPHS) == ["@functools.lru_cache(maxsize=limit)"]
    assert reported(MEMO_OF_GRAPHS.replace(", pool=self.pool", "")) == []
    assert reported(MEMO_OF_GRAPHS.replace("maxsize=limit", "maxsize=None")) == []


def test_a_memo_of_tensors_is_a_note_where_no_capture_is_seen_to_reach_it() -> None:
    program = """
    import functools
    import torch

    @functools.lru_cache
    def mask(n):
        return torch.ones(n, device="cuda")

    def record(graph, step):
        with torch.cuda.graph(graph):
            step()
    """
    assert reported(program) == []
    chosen = program.replace("lru_cache", "lru_cache(maxsize=limit())")
    assert [each.severity for each in find(chosen)] == [Severity.NOTE]
    assert [each.severity for each in find(program.replace("step()", "mask(4)"))] == [Severity.WARNING]


PLANS = """
import functools
import cudnn

@functools.{memo}
def plan(shape, handle):
    with cudnn.graph(handle) as (graph, _):
        graph.matmul(graph.tensor(dim=shape), graph.tensor(dim=shape))
    return graph
"""


def test_a_memo_of_plans_evicts_what_a_capture_launches() -> None:
    assert reported(PLANS.replace("{memo}", "lru_cache(maxsize=128)")) == ["@functools.lru_cache(maxsize=128)"]
    assert reported(PLANS.replace("{memo}", "cache")) == []
    assert reported(PLANS.replace("{memo}", "lru_cache(maxsize=128)").replace("return graph", "return shape")) == []


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("torch.cuda.CUDAGraph", Severity.WARNING), ("SplitCUDAGraph", Severity.NOTE)],
    ids=["graphs", "what is named after graphs"],
)
def test_graphs_that_are_known_by_their_names_alone_are_a_note(kind: str, expected: Severity) -> None:
    program = f"""
        from collections import OrderedDict
        from dataclasses import dataclass

        import torch

        from elsewhere import split_capture


        class SplitCUDAGraph:
            def __init__(self):
                self.parts = []


        @dataclass
        class Entry:
            graph: {kind}
            output: torch.Tensor


        class Wrapper:
            def __init__(self, model, limit):
                self.model = model
                self.limit = limit
                self.entries: OrderedDict[tuple, Entry] = OrderedDict()
                self.pool = None

            def record(self, key, x):
                if self.pool is None:
                    self.pool = torch.cuda.graph_pool_handle()
                output = torch.zeros_like(x)
                graph = {kind}()
                with {"torch.cuda.graph" if "torch" in kind else "split_capture"}(graph, pool=self.pool):
                    output.copy_(self.model(x))
                while len(self.entries) > self.limit:
                    self.entries.popitem(last=False)
                self.entries[key] = Entry(graph, output)
    """
    assert [each.severity for each in find(program)] == [expected]


MEMO = """
    import functools

    import torch


    @functools.lru_cache(maxsize=16)
    def bias(n):
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("make it before the capture")
        rows = torch.arange(n, device="cuda")
        return (rows[:, None] - rows[None, :]).abs() * 2


    class Runner:
        def __init__(self, n):
            self.x = torch.zeros(n, device="cuda")
            bias(n)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = self.x + {read}
"""


def test_what_refuses_to_make_an_entry_in_a_capture_gives_out_those_made_before() -> None:
    assert reported(MEMO.format(read="bias(self.x.numel())")) == ["@functools.lru_cache(maxsize=16)"]
    assert reported(MEMO.format(read="1")) == []


KEPT = """
    import torch


    class Plans:
        def __init__(self):
            self.plans = {{}}

        def lookup(self, n):
            plan = self.plans.get(n)
            if plan is None:
                if torch.cuda.is_current_stream_capturing():
                    raise RuntimeError(n)
                plan = self.plans[n] = torch.empty(n, device="cuda")
                while len(self.plans) > 8:
                    self.plans.pop(next(iter(self.plans)))
            return plan


    class Runner:
        def __init__(self, plans: Plans, n):
            self.plans = plans
            {warm} plans.lookup(n)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.step(n)

        def step(self, n):
            return self.plans.lookup(n) + 1
"""


def test_who_captures_may_keep_what_the_cache_gave() -> None:
    assert reported(KEPT.format(warm="self.plan =")) == []
    assert reported(KEPT.format(warm="plan =")) == ["self.plans.pop(next(iter(self.plans)))"]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [("pass", Severity.WARNING), ("if not self.entries:\n                        self.pool = None", Severity.NOTE)],
)
def test_whoever_gives_the_pool_up_with_its_graphs_has_thought_of_it(statement: str, expected: Severity) -> None:
    program = f"""
        from collections import OrderedDict

        import torch


        class Wrapper:
            def __init__(self, model, limit):
                self.model = model
                self.limit = limit
                self.entries: OrderedDict[int, torch.cuda.CUDAGraph] = OrderedDict()
                self.pool = None

            def record(self, key, x):
                while len(self.entries) > self.limit:
                    self.entries.popitem(last=False)
                    {statement}
                if self.pool is None:
                    self.pool = torch.cuda.graph_pool_handle()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=self.pool):
                    self.model(x)
                self.entries[key] = graph
    """
    assert [each.severity for each in find(program)] == [expected]


@pytest.mark.parametrize(("test", "count"), [("x.is_cuda and", 0), ("x.shape[0] > 8 and", 1)])
def test_what_a_capture_works_on_lies_on_the_device(test: str, count: int) -> None:
    program = f"""
        import torch

        TABLE = {{}}


        def packed(x, n):
            if {test} torch.cuda.is_current_stream_capturing():
                return torch.empty(n, device="cuda")
            if n not in TABLE:
                while len(TABLE) > 8:
                    TABLE.pop(next(iter(TABLE)))
                TABLE[n] = torch.empty(n, device="cuda")
            return TABLE[n]
    """
    assert len(find(program)) == count


RING = """
    import torch


    class Maps:
        def __init__(self):
            self.keep = 8
            self.maps = {{}}
            self.order = []
            self.by_age = self.maps

        def get(self, n):
            if n in self.maps:
                {hit}
                return self.maps[n]
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError(n)
            {full}
            self.maps[n] = torch.arange(n, device="cuda")
            self.order.append(n)
            return self.maps[n]


    class Runner:
        def __init__(self, maps: Maps, n):
            self.maps = maps
            self.maps.get(n)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = self.step(n)

        def step(self, n):
            return self.maps.get(n) + 1
"""
FULL = "if len(self.order) == self.keep:\n                self.maps.pop(self.order.pop(0))"
OTHER_NAME = "while len(self.by_age) > self.keep:\n                self.by_age.pop(next(iter(self.by_age)))"
LEAVES = "if torch.cuda.is_current_stream_capturing():\n                    self.order.remove(n)"


def test_the_order_of_the_entries_is_full() -> None:
    assert reported(RING.format(hit="pass", full=FULL)) == ["self.maps.pop(self.order.pop(0))"]
    assert reported(RING.format(hit=LEAVES, full=FULL)) == []
    assert reported(RING.format(hit="pass", full="pass")) == []


def test_entries_go_by_another_name_of_the_cache() -> None:
    assert reported(RING.format(hit="pass", full=OTHER_NAME)) == ["self.by_age.pop(next(iter(self.by_age)))"]
    other = OTHER_NAME.replace("self.by_age", "self.others")
    assert reported(RING.format(hit="pass", full=other).replace("self.by_age = self.maps", "self.others = {}")) == []


BOUNDED = """
    import collections
    import functools

    import cachetools
    import torch

    {made}


    {get}


    class Runner:
        def __init__(self, n):
            self.x = torch.zeros(n, device="cuda")
            table(n)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = self.x + table(self.x.numel())
"""
LOOK = """def table(n):
        if n not in tables:
            tables[n] = torch.arange(n, device="cuda")
        return tables[n]"""
SEARCH = """def table(n):
        for rows, value in tables:
            if rows == n:
                return value
        value = torch.arange(n, device="cuda")
        tables.append((n, value))
        return value"""
MAKE = """def make(n):
        return torch.arange(n, device="cuda")


    table = {wrapped}"""
CACHED = """@{decorator}
    def table(n):
        return torch.arange(n, device="cuda")"""


@pytest.mark.parametrize(
    ("made", "get", "expected"),
    [
        ("tables = cachetools.LRUCache(maxsize=4)", LOOK, ["tables = cachetools.LRUCache(maxsize=4)"]),
        ("tables = {}", LOOK, []),
        ("tables = collections.deque(maxlen=4)", SEARCH, ["tables = collections.deque(maxlen=4)"]),
        ("tables = collections.deque(maxlen=None)", SEARCH, []),
        ("tables = collections.deque()", SEARCH, []),
        ("", MAKE.format(wrapped="functools.lru_cache(8)(make)"), ["table = functools.lru_cache(8)(make)"]),
        ("", MAKE.format(wrapped="functools.lru_cache(maxsize=None)(make)"), []),
        ("", MAKE.format(wrapped="functools.cache(make)"), []),
        (
            "",
            CACHED.format(decorator="cachetools.cached(cachetools.TTLCache(8, 60))"),
            ["@cachetools.cached(cachetools.TTLCache(8, 60))"],
        ),
        ("", CACHED.format(decorator="cachetools.cached({})"), []),
    ],
)
def test_a_container_with_a_bound(made: str, get: str, expected: list[str]) -> None:
    assert reported(BOUNDED.format(made=made, get=get)) == expected


def test_a_class_of_the_project_is_judged_by_what_it_does() -> None:
    own = "class LRUCache(dict):\n        pass\n\n\n    tables = LRUCache()"
    assert reported(BOUNDED.format(made=own, get=LOOK)) == []


PINS = """
    def pin(self, n):
        self.marked.add(n)
        return self.get(n)

    def unpin(self, n):
        self.marked.discard(n)


cache = Cache(4)


def record(n):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cache.get(n).mul_(2)
    return graph
"""


@pytest.mark.parametrize(
    ("movable", "count"),
    [
        ("self.table.keys() - self.marked", 0),
        ("set(self.table).difference(self.marked)", 0),
        ("[key for key in self.table if key not in self.marked]", 0),
        ("self.table.keys()", 1),
    ],
)
def test_what_its_users_have_pinned_is_taken_off_first(movable: str, count: int) -> None:
    body = f"""
        if n not in self.table:
            if len(self.table) >= self.limit:
                self.table.pop(min({movable}))
            self.table[n] = torch.empty(n, device="cuda")
        return self.table[n]
    """
    assert len(find(getter(body) + PINS)) == count
