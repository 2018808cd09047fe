"""Which graphs a teardown is said to leave alive, where that is reported, and what the rewrite makes of it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from graphlint import check, fixing, registry
from graphlint.config import Settings
from graphlint.edits import Applicability
from graphlint.findings import Finding, Precision, Severity

RULE = "orphan-graphs"

HEAD = """
import atexit
import gc
import weakref
from multiprocessing import Process

import torch


class Steps:
    def __init__(self, body):
        self.body = body
        self.x = torch.zeros(4, device="cuda")
        self.graphs = {}

    def capture(self, n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.body(self.x)
        self.graphs[n] = graph

    def release(self):
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()


class Encoder:
    def __init__(self):
        self.graph = torch.cuda.CUDAGraph()

    def capture(self):
        with torch.cuda.graph(self.graph):
            pass

    def drop_graph(self):
        self.graph.reset()

"""
RUNNER = """
class Runner:
    def __init__(self, body, encode):
        self.steps = Steps(body)
        self.encoder = Encoder() if encode else None
        self.kv = torch.zeros(8, device="cuda")
        self.stopped = False
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def code(text: str) -> str:
    return HEAD + "\n" + textwrap.dedent(text).strip("\n") + "\n"


def runner(methods: str) -> str:
    """A runner with two holders of graphs, and these methods."""
    return HEAD + RUNNER + "\n" + textwrap.indent(textwrap.dedent(methods).strip("\n"), "    ") + "\n"


def find(text: str) -> Sequence[Finding]:
    Path("m.py").write_text(text.lstrip("\n"))
    return check.check(["m.py"], Settings(), registry.select((RULE,))).findings


def reported(text: str) -> list[tuple[str, str]]:
    """The reported lines, and what is left alive."""
    lines = text.lstrip("\n").splitlines()
    source = text.lstrip("\n").encode()
    return [
        (lines[source[: found.span.start].count(b"\n")].strip(), found.values.get("place", found.message))
        for found in find(text)
    ]


def fixed(text: str) -> str:
    """The text after the fix; empty where there is none."""
    Path("m.py").write_text(text.lstrip("\n"))
    outcome = fixing.fix(check.read(["m.py"], Settings(), {}), registry.select((RULE,)), unsafe=True)
    assert not outcome.refused, outcome.refused
    return outcome.changes["m.py"].after.decode() if outcome.changes else ""


def body(text: str, method: str) -> list[str]:
    return [line.strip() for line in text.partition(f"def {method}(self):")[2].splitlines()[1:] if line.strip()]


STOP = """
    def stop(self):
        torch.cuda.synchronize()
        self.steps.release()
        self.kv = None
"""


# ------------------------------------------------------------------------------------------- what a teardown leaves out


def test_an_attribute_that_no_teardown_reaches() -> None:
    assert reported(runner(STOP)) == [("def stop(self):", "self.encoder")]
    (found,) = find(runner(STOP))
    assert found.precision is Precision.HIGH
    assert {step.effect for step in found.trace} == {"kept", "capture", "graph_death"}


@pytest.mark.parametrize(
    "release",
    [
        "self.encoder.drop_graph()",
        "self.encoder = None",
        "del self.encoder",
        "self.encoder.graph.reset()",
        "setattr(self, 'encoder', None)",
        "for part in (self.steps, self.encoder):\n    part.drop_graph()",
        "for name in ('steps', 'encoder'):\n    setattr(self, name, None)",
        "self._rest()",
        "self.dispose_of(self.encoder)",
        "dispose(self)",
        "self.pool.submit(self.encoder.drop_graph)",
    ],
)
def test_what_reaches_it(release: str) -> None:
    rest = "\n\ndef _rest(self):\n    self.encoder.drop_graph()\n"
    text = textwrap.dedent(STOP).rstrip() + "\n" + textwrap.indent(release, "    ") + "\n" + rest
    assert reported(runner(text)) == []


@pytest.mark.parametrize("use", ["self.encoder.capture()", "log(self.encoder)", "if self.encoder: self.kv = None"])
def test_what_does_not_reach_it(use: str) -> None:
    text = textwrap.dedent(STOP).rstrip() + "\n    " + use.replace("log", "print") + "\n"
    assert reported(runner(text)) == [("def stop(self):", "self.encoder")]


def test_an_owner_without_a_teardown() -> None:
    assert reported(runner("def step(self):\n    self.steps.capture(1)")) == []


def test_a_teardown_that_has_nothing_to_do_with_the_device() -> None:
    assert reported(runner("def close(self):\n    self.stopped = True")) == []


def test_a_teardown_that_only_erases() -> None:
    text = runner("def close(self):\n    self.kv = None\n    torch.cuda.empty_cache()")
    assert reported(text) == [("def close(self):", "self.encoder"), ("def close(self):", "self.steps")]


def test_the_release_of_one_thing_is_no_teardown_of_all() -> None:
    assert reported(runner("def release_steps(self):\n    self.steps.release()")) == []
    assert reported(runner("def release_graphs(self):\n    self.steps.release()")) != []


def test_another_teardown_of_the_object_reaches_it() -> None:
    text = runner("""
        def release_encoder(self):
            self.encoder.drop_graph()

        def stop(self):
            self.steps.release()
    """)
    assert reported(text) == []


def test_the_teardown_of_its_holder_reaches_it() -> None:
    text = runner("def stop(self):\n    self.steps.release()") + textwrap.dedent("""

        class Server:
            def __init__(self, body):
                self.runner = Runner(body, True)

            def shutdown(self):
                self.runner.encoder.drop_graph()
                self.runner.stop()
    """)
    assert reported(text) == []
    assert reported(text.replace("self.runner.encoder.drop_graph()", "pass")) == [("def stop(self):", "self.encoder")]


def test_what_was_handed_over_belongs_to_somebody_else() -> None:
    text = code("""
        class Runner:
            def __init__(self, encoder: Encoder, body):
                self.encoder = encoder
                self.steps = Steps(body)

            def close(self):
                self.steps.release()
    """)
    assert reported(text) == []


def test_what_was_handed_over_with_something_that_is_released() -> None:
    text = code("""
        class Executor:
            def __init__(self, target: Steps, draft: Steps):
                self.target = target
                self.draft = draft

            def shutdown(self):
                self.target.release()
    """)
    assert reported(text) == [("def shutdown(self):", "self.draft")]
    assert reported(text + "        self.draft.release()\n") == []


def test_graphs_of_the_object_itself() -> None:
    text = code("""
        class Runner:
            def __init__(self):
                self.decode = {}
                self.prefill = torch.cuda.CUDAGraph()

            def record(self, n):
                self.decode[n] = torch.cuda.CUDAGraph()

            def close(self):
                self.decode.clear()
    """)
    assert reported(text) == [("def close(self):", "self.prefill")]


def test_another_name_for_the_same_graphs() -> None:
    text = code("""
        class Runner:
            def __init__(self, body):
                self.decode = Steps(body)
                self.prefill = Steps(body)
                self.every = [self.decode, self.prefill]
                self.current = self.decode

            def close(self):
                for steps in self.every:
                    steps.release()
    """)
    assert reported(text) == []
    assert reported(text.replace("[self.decode, self.prefill]", "[self.decode]")) == [
        ("def close(self):", "self.prefill")
    ]


def test_a_subclass_that_adds_what_the_inherited_teardown_cannot_know() -> None:
    text = code("""
        class Base:
            def __init__(self, body):
                self.steps = Steps(body)

            def close(self):
                self.steps.release()


        class Multimodal(Base):
            def __init__(self, body):
                super().__init__(body)
                self.encoder = Encoder()
    """)
    assert reported(text) == [("self.encoder = Encoder()", "self.encoder")]
    more = "\n    def close(self):\n        super().close()\n        self.encoder.drop_graph()\n"
    assert reported(text + more) == []
    assert reported(text + more.replace("super().close()", "gc.collect()")) == [("def close(self):", "self.steps")]


# --------------------------------------------------------------------------------------------------------- registries


REGISTRY = """
    class Decode:
        live = weakref.WeakSet()

        def __init__(self):
            self.graphs = [torch.cuda.CUDAGraph()]
            Decode.live.add(self)

        @classmethod
        def clear_all(cls):
            for each in list(cls.live):
                each.graphs.clear()


    class Prefill(BASES):
        def __init__(self):
            INIT
            self.graphs = [torch.cuda.CUDAGraph()]


    class Runner:
        def __init__(self):
            self.decode = Decode()
            self.prefill = Prefill()

        def shutdown(self):
            Decode.clear_all()
"""


def test_a_registry_that_misses_a_class() -> None:
    text = code(REGISTRY).replace("(BASES)", "").replace("INIT", "pass")
    assert reported(text) == [("def shutdown(self):", "self.prefill")]
    assert reported(text.replace("pass", "Decode.live.add(self)")) == []


def test_a_registry_that_the_constructor_of_a_subclass_passes_by() -> None:
    text = code(REGISTRY).replace("BASES", "Decode")
    assert reported(text.replace("INIT", "super().__init__()")) == []
    assert reported(text.replace("INIT", "pass")) == [("def shutdown(self):", "self.prefill")]


def test_release_by_type() -> None:
    text = runner("""
        def stop(self):
            for value in vars(self).values():
                if isinstance(value, KIND):
                    value.release()
    """)
    assert reported(text.replace("KIND", "Steps")) == [("def stop(self):", "self.encoder")]
    both = text.replace("KIND", "(Steps, Encoder)").replace("def drop_graph", "def release")
    assert reported(both) == []


def test_attributes_whose_names_are_made_up() -> None:
    text = runner("""
        def stop(self, names):
            for name in names:
                setattr(self, name, None)
    """)
    assert reported(text) == []


def test_releases_that_are_registered() -> None:
    for register in ("atexit.register(self.encoder.drop_graph)", "weakref.finalize(self, self.encoder.drop_graph)"):
        text = runner(f"def start(self):\n    {register}\n\n{textwrap.dedent(STOP)}")
        assert reported(text) == [], register


# -------------------------------------------------------------------------------------------------------------- gates


def gated(test: str, release: str = "self.encoder.drop_graph()") -> str:
    return runner(f"def stop(self):\n    self.steps.release()\n    if {test}:\n        {release}\n")


@pytest.mark.parametrize(
    "test",
    [
        "platform.is_rocm()",
        "torch.version.hip is not None",
        "is_npu()",
        "IS_HIP",
        "self.device_name == 'npu'",
        "not is_rocm()",
    ],
)
def test_a_release_on_one_platform(test: str) -> None:
    assert reported(gated(test)) == [(f"if {test}:", "self.encoder")]


@pytest.mark.parametrize(
    "test",
    [
        "torch.cuda.is_available()",
        "self.encoder is not None",
        "self.device.type == 'cuda'",
        "self.use_cuda_graph",
        "self.config.multimodal",
    ],
)
def test_a_release_under_another_test(test: str) -> None:
    assert reported(gated(test)) == []


def test_a_release_on_every_platform_on_its_own_branch() -> None:
    text = gated("is_rocm()") + "        else:\n            self.encoder = None\n"
    assert reported(text) == []


def test_a_platform_that_leaves_early() -> None:
    text = runner("""
        def stop(self):
            self.steps.release()
            if not is_rocm():
                return
            self.encoder.drop_graph()
    """)
    assert reported(text) == [("if not is_rocm():", "self.encoder")]


def test_graphs_that_only_one_platform_makes() -> None:
    text = gated("is_rocm()").replace(
        "self.encoder = Encoder() if encode else None", "if is_rocm():\n            self.encoder = Encoder()"
    )
    assert reported(text) == []


def test_a_flag_that_nothing_sets() -> None:
    assert reported(gated("self.stopped")) == [("if self.stopped:", "self.encoder")]
    assert reported(gated("self.stopped") + "\n    def halt(self):\n        self.stopped = True\n") == []


OTHERS_FLAG = """
    class Drafts:
        def __init__(self, body):
            self.captured = False
            self.steps = Steps(body)

        def propose(self, n):
            self.steps.capture(n)
            {note}

        def drop(self):
            self.steps.release()


    class Engine:
        def __init__(self, body):
            self.drafts = Drafts(body)

        def close(self):
            {gate}
"""


@pytest.mark.parametrize(
    "gate",
    [
        "if self.drafts is not None and self.drafts.captured:\n                self.drafts.drop()",
        "if not self.drafts.captured:\n                return\n            self.drafts.drop()",
    ],
)
def test_a_flag_of_another_object_that_nothing_sets(gate: str) -> None:
    text = code(OTHERS_FLAG.format(note="pass", gate=gate))
    assert [of for _, of in reported(text)] == ["self.drafts"]
    assert reported(code(OTHERS_FLAG.format(note="self.captured = True", gate=gate))) == []
    either = gate.replace(" and self", " or self").replace("if not self.drafts.captured", "if self.drafts is None")
    assert reported(code(OTHERS_FLAG.format(note="pass", gate=either))) == []


def test_a_helper_that_lists_what_an_object_has() -> None:
    text = code("""
        class Engine:
            def __init__(self, body):
                self.steps = Steps(body)
                self.encoder = Encoder()

            def parts(self) -> list:
                return [part for part in vars(self).values() if isinstance(part, KINDS)]

            def close(self):
                for part in self.parts():
                    part.release()
    """).replace("drop_graph(self)", "release(self)")
    assert reported(text.replace("KINDS", "(Steps, Encoder)")) == []
    assert [of for _, of in reported(text.replace("KINDS", "Steps"))] == ["self.encoder"]


GATE = """
    class Server:
        def __init__(self, body):
            self.steps = Steps(body)
            self.encoder = Encoder()

        def stop(self):
            for part in (self.steps, self.encoder):
                if hasattr(part, "NAME"):
                    part.NAME()
"""


def test_a_gate_for_a_misspelt_method() -> None:
    text = code(GATE).replace("drop_graph(self)", "release(self)")
    assert reported(text.replace("NAME", "release")) == []
    (found,) = find(text.replace("NAME", "releases"))
    assert found.precision is Precision.HIGH
    assert reported(text.replace("NAME", "releases")) == [('if hasattr(part, "releases"):', "part")]
    assert reported(text.replace("NAME", "on_close")) == []


def test_a_gate_that_passes_over_one_class() -> None:
    text = code("""
        class Engine:
            def forward(self): ...


        class Eager(Engine):
            pass


        class Compiled(Engine):
            def __init__(self, body):
                self.steps = Steps(body)

            def release_graphs(self):
                self.steps.release()


        class Auto(Engine):
            def __init__(self, body):
                self.steps = Steps(body)


        class Executor:
            def __init__(self, engine: Engine):
                self.engine = engine

            def shutdown(self):
                if hasattr(self.engine, "release_graphs"):
                    self.engine.release_graphs()
    """)
    (found,) = find(text)
    assert found.precision is Precision.MEDIUM
    assert "Auto" in found.message
    assert "Eager" not in found.message
    assert find(text.replace("class Auto(Engine)", "class Auto(Compiled)")) == ()
    assert find(text + "        else:\n            self.engine.steps.release()\n") == ()


def test_a_gate_for_a_misspelt_attribute() -> None:
    text = runner("""
        def stop(self):
            self.steps.release()
            if hasattr(self, "encoders"):
                self.encoders.drop_graph()
    """)
    assert reported(text) == [('if hasattr(self, "encoders"):', "self.encoder")]


def test_a_gate_for_something_else() -> None:
    text = runner("""
        def stop(self):
            self.steps.release()
            self.encoder.drop_graph()
            hook = getattr(self.encoder, "on_stop", None)
            if hook is not None:
                hook()
    """)
    assert reported(text) == []


# ----------------------------------------------------------------------------------------------------------- processes


def test_an_owner_that_lives_in_a_process_that_exits() -> None:
    text = runner(STOP) + textwrap.dedent("""

        def serve(body):
            runner = Runner(body, True)
            runner.stop()


        def main(body):
            Process(target=serve, args=(body,)).start()
    """)
    assert reported(text) == []
    assert reported(text + "    serve(body)\n") == [("def stop(self):", "self.encoder")]


# --------------------------------------------------------------------------------------------------------------- fixes


def test_the_release_is_wired_in_next_to_the_others() -> None:
    text = fixed(runner(STOP))
    assert body(text, "stop") == [
        "torch.cuda.synchronize()",
        "self.steps.release()",
        "if self.encoder is not None:",
        "self.encoder.drop_graph()",
        "self.kv = None",
    ]
    (found,) = find(runner(STOP))
    assert found.fix is not None
    assert found.fix.applicability is Applicability.UNSAFE
    assert found.fix.conditions


def test_it_stands_behind_a_loop_and_inside_a_lock() -> None:
    text = fixed(
        runner("""
        def stop(self):
            with self.lock:
                for part in (self.steps,):
                    part.release()
                self.kv = None
    """)
    )
    assert body(text, "stop") == [
        "with self.lock:",
        "for part in (self.steps,):",
        "part.release()",
        "if self.encoder is not None:",
        "self.encoder.drop_graph()",
        "self.kv = None",
    ]


def test_it_stands_before_the_teardowns_own_work() -> None:
    text = fixed(
        runner('''
        def stop(self):
            """Stop."""
            if self.stopped:
                return
            torch.cuda.synchronize()
            self.kv = None
            self.steps.release()
    ''')
        .replace("self.steps.release()\n", "torch.cuda.empty_cache()\n")
        .replace("self.steps = Steps(body)", "pass")
    )
    assert body(text, "stop")[3:] == [
        "torch.cuda.synchronize()",
        "if self.encoder is not None:",
        "self.encoder.drop_graph()",
        "self.kv = None",
        "torch.cuda.empty_cache()",
    ]


def test_graphs_themselves_are_let_go() -> None:
    text = fixed(
        code("""
        class Runner:
            def __init__(self):
                self.decode = {}
                self.prefill = torch.cuda.CUDAGraph()
                self.encode = []

            def record(self, n):
                self.decode[n] = torch.cuda.CUDAGraph()
                self.encode.append(torch.cuda.CUDAGraph())

            def close(self):
                self.decode.clear()
    """)
    )
    assert sorted(body(text, "close")) == ["self.decode.clear()", "self.encode.clear()", "self.prefill = None"]


def test_holders_in_a_container_are_released_one_by_one() -> None:
    text = fixed(
        code("""
        class Runner:
            def __init__(self, bodies):
                self.first = Steps(bodies[0])
                self.others = {}
                for n, each in enumerate(bodies):
                    self.others[n] = Steps(each)

            def close(self):
                self.first.release()
    """)
    )
    assert body(text, "close") == ["self.first.release()", "for each in self.others.values():", "each.release()"]


def test_the_release_is_freed_of_its_platform() -> None:
    text = fixed(gated("is_rocm()"))
    assert body(text, "stop") == ["self.steps.release()", "self.encoder.drop_graph()"]
    text = fixed(
        runner("""
        def stop(self):
            self.steps.release()
            if is_rocm():
                gc.collect()
                self.encoder.drop_graph()
    """)
    )
    assert body(text, "stop") == ["self.steps.release()", "self.encoder.drop_graph()", "if is_rocm():", "gc.collect()"]


def test_the_gate_asks_for_what_is_there() -> None:
    text = fixed(code(GATE).replace("drop_graph(self)", "release(self)").replace("NAME", "releases"))
    assert body(text, "stop") == [
        "for part in (self.steps, self.encoder):",
        'if hasattr(part, "release"):',
        "part.release()",
    ]


@pytest.mark.parametrize(
    "text",
    [
        runner(STOP).replace("def drop_graph(self):\n        self.graph.reset()", "def warm(self):\n        pass"),
        runner(STOP).replace("def drop_graph(self)", "def drop_graph(self, stream)"),
        gated("self.stopped"),
    ],
)
def test_there_is_no_fix_where_nothing_releases_them_or_a_flag_decides(text: str) -> None:
    assert len(find(text)) == 1
    assert fixed(text) == ""


IDLE = """
class Worker:
    def __init__(self, body, log):
        self.log = log
        self.steps = Steps(body)

    def shutdown(self):
        self.log.close()
"""


def test_a_teardown_that_ends_other_parts_alone_is_a_note() -> None:
    (finding,) = find(HEAD + IDLE)
    assert finding.severity is Severity.NOTE
    assert finding.message.startswith("shutdown() leaves the graphs of self.steps alive")
    assert reported(HEAD + IDLE) == [("def shutdown(self):", "self.steps")]
    assert reported(HEAD + IDLE + "        self.steps.release()\n") == []
    assert reported(HEAD + IDLE + "        stop(self.steps)\n") == []
    assert reported(HEAD + IDLE.replace("self.log.close()", "self.log.info('over')")) == []
    assert reported(HEAD + IDLE.replace("Steps(body)", "body")) == []
