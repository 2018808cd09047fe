"""Five engines in small, each with a hazard that its teardown, or its next start, runs into; several files each.

Tests rewrite them and run what came out under stand-ins, to see what happens and not only what is written there.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping


def files(**modules: str) -> dict[str, str]:
    """A package `engine` of these modules, `__` for a folder."""
    found = {"engine/__init__.py": ""}
    for name, text in modules.items():
        path = f"engine/{name.replace('__', '/')}.py"
        while (folder := path.rpartition("/")[0]) and f"{folder}/__init__.py" not in found:
            found[f"{folder}/__init__.py"] = ""
        found[path] = textwrap.dedent(text).strip("\n") + "\n"
    return found


POOL_ERASED_FIRST: Mapping[str, str] = files(
    kernels__experts="""
        import torch


        class Experts:
            # one set of workspaces for all that run in the process
            workspaces = {}

            @classmethod
            def workspace(cls, rows):
                if rows not in cls.workspaces:
                    cls.workspaces[rows] = torch.empty(rows, 4096, device="cuda")
                return cls.workspaces[rows]

            @classmethod
            def give_back(cls):
                cls.workspaces.clear()
    """,
    decode__recorder='''
        import torch

        from ..kernels.experts import Experts


        class Recorder:
            """Keeps one graph per number of rows."""

            def __init__(self):
                self.recorded = {}
                self.outputs = {}
                self.pool = None

            def step(self, rows):
                return torch.add(Experts.workspace(rows), 1)

            def record(self, rows):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=self.pool):
                    out = self.step(rows)
                self.recorded[rows] = graph
                self.outputs[rows] = out
                self.pool = graph.pool()

            def forget(self):
                """Forget all graphs, and give their memory back."""
                for graph in self.recorded.values():
                    graph.reset()
                self.recorded.clear()
                self.outputs.clear()
                self.pool = None
                torch.cuda.empty_cache()
    ''',
    decode__model="""
        from .recorder import Recorder


        class Model:
            def __init__(self, name):
                self.name = name
                self.recorder = Recorder()
                self.weights = object()

            def prepare(self):
                self.recorder.record(1)

            def _drop_graphs(self):
                if self.recorder is not None:
                    self.recorder.forget()

            def __del__(self):
                self._drop_graphs()
    """,
    decode__loop="""
        import torch

        from .model import Model


        class Loop:
            def __init__(self, large: Model, small: Model, watchdog):
                self.large = large
                self.small = small
                self.watchdog = watchdog
                self.large.prepare()
                if self.small is not None:
                    self.small.prepare()

            def stop(self):
                if self.watchdog.hangs():
                    return
                # before what they read
                for model in (self.large, self.small):
                    if model is not None and hasattr(model, "_drop_graphs"):
                        model._drop_graphs()
                torch.cuda.synchronize()
    """,
)
"""A pool is erased before the workspaces in it are given back, once for each of two models."""

RELEASED_TWICE: Mapping[str, str] = files(
    model="""
        import torch


        class Model:
            def __init__(self, options):
                self.graphs = {}
                self.plan = object()
                self.pool = torch.cuda.graph_pool_handle()
                self.x = torch.zeros(8, device="cuda")

            def record(self, rows):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=self.pool):
                    self.x.add_(rows)
                self.graphs[rows] = graph

            def drop_graphs(self):
                for graph in self.graphs.values():
                    graph.reset()
                self.pool = torch.cuda.graph_pool_handle()
    """,
    loop="""
        from .model import Model


        class Loop:
            def __init__(self, large: Model, small: Model):
                self.large, self.small = large, small
                for model in (self.large, self.small):
                    model.record(1)

            def stop(self):
                for model in (self.large, self.small):
                    if model is not None:
                        model.drop_graphs()
    """,
    estimate="""
        from .loop import Loop


        class Estimate:
            def __init__(self, large, small):
                self.large, self.small = large, small

            def fill(self, loop: Loop):
                try:
                    loop.large.record(2)
                finally:
                    loop.stop()
    """,
    start="""
        from .estimate import Estimate
        from .loop import Loop
        from .model import Model


        def start(options):
            large = Model(options)
            small = Model(options)
            estimate = Estimate(large, small)
            trial = Loop(large, small)
            estimate.fill(trial)
            del trial
            for model in [large, small]:
                if model is None:
                    continue
                if model.plan is not None:
                    if options.records:
                        model.drop_graphs()
                    model.plan = None
            return Loop(large, small)
    """,
)
"""A trial run ends with the graphs released, and whoever started it releases them again."""

NAMED_ALIKE: Mapping[str, str] = files(
    arena="""
        import math

        import torch


        class Arena:
            def __init__(self):
                self.blocks = {}

            def request(self, name, shape, device):
                block = self.blocks.get(name)
                if block is None or block.numel() < math.prod(shape):
                    block = torch.empty(math.prod(shape), device=device)
                    self.blocks[name] = block
                return block


        ARENA = Arena()
    """,
    mixer="""
        import torch

        from .arena import ARENA


        class Mixer:
            def __init__(self, width):
                self.width = width
                self.graphs = {}
                self.hidden = {}

            def forward(self, rows):
                hidden = self.hidden[rows]
                scaled = ARENA.request("scaled", (rows, self.width), hidden.device)
                torch.mul(hidden, 2, out=scaled)

            def record(self, rows):
                self.forward(rows)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    self.forward(rows)
                self.graphs[rows] = graph
    """,
)
"""Two shapes and two devices ask for memory under one name."""

HANDLE_OUTLIVES: Mapping[str, str] = files(
    compiler="""
        import torch


        class Compiler:
            # for the graphs of every compiled model, and for those around them
            _pool = None

            def __init__(self):
                if Compiler._pool is None:
                    Compiler._pool = torch.cuda.graph_pool_handle()
    """,
    recorder="""
        import torch


        class Recorder:
            def __init__(self, pool):
                self.pool = pool
                self.graphs = {}
                self.x = torch.zeros(8, device="cuda")

            def record(self, rows):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=self.pool):
                    self.x.add_(rows)
                self.graphs[rows] = graph

            def forget(self):
                for graph in self.graphs.values():
                    graph.reset()
                self.graphs.clear()
                self.pool = None
    """,
    model="""
        from .compiler import Compiler
        from .recorder import Recorder


        class Model:
            def __init__(self):
                self.compiler = Compiler()
                self.recorder = Recorder(self.compiler._pool)

            def prepare(self):
                self.recorder.record(1)

            def close(self):
                self.recorder.forget()


        def serve():
            for _ in range(2):
                model = Model()
                model.prepare()
                model.close()
    """,
)
"""The handle of a pool stays with a class after the graphs of the pool are dead."""

GROWN_AWAY: Mapping[str, str] = files(
    reduce="""
        import math

        import torch

        _BLOCK = 8 << 20


        class Reduce:
            workspaces: dict = {}

            def __init__(self, group, dtype):
                self.group, self.dtype = group, dtype
                self.graphs = {}

            def record(self, rows):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    workspace_for(self.group, self.dtype, rows)
                self.graphs[rows] = graph


        def workspace_for(group, dtype, size=None):
            workspaces = Reduce.workspaces
            if group not in workspaces or workspaces[group]["size"] < (size or 0):
                rounded = math.ceil((size or _BLOCK) / _BLOCK) * _BLOCK
                buffer = torch.empty(rounded, dtype=torch.uint8, device="cuda")
                workspaces[group] = {"buffer": buffer, "size": rounded}
            return workspaces[group]
    """,
)
"""A workspace is replaced by a larger one while graphs read it."""
