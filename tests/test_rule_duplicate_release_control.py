"""Which second releases are reported, by the control flow that leads to them: unwinding, moves, flags, lists made on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "duplicate-release"

HEAD = """
import atexit
import contextlib
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import torch


class Meter:
    def __init__(self):
        self.used = 0

    def take(self, n):
        if self.used + n > 99:
            raise MemoryError
        self.used += n

    def give(self, n):
        self.used -= n


class Step:
    def __init__(self, net, meter: Meter):
        self.net = net
        self.meter = meter
        meter.take(3)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = net()

    def test(self):
        if self.net() != self.y:
            raise ValueError

    def free(self):
        self.graph.reset()
        self.meter.give(3)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.free()

"""

CASES = {
    "an item taken out, in one variable": (
        """
class Host:
    def __init__(self, meter):
        self.steps: dict[str, Step] = {}
        self.meter = meter

    def load(self, name, net):
        self.steps[name] = Step(net, self.meter)

    def drop(self, name):
        step = self.steps.pop(name)
        step.free()
        step.free()
""",
        ["step.free()"],
    ),
    "two items taken out, in one variable": (
        """
class Host:
    def __init__(self, meter):
        self.steps: dict[str, Step] = {}
        self.meter = meter

    def load(self, name, net):
        self.steps[name] = Step(net, self.meter)

    def drop(self, name, other):
        step = self.steps.pop(name)
        step.free()
        step = self.steps.pop(other)
        step.free()
""",
        [],
    ),
    "a thread that was taken out of a table ends, and its part is freed": (
        """
class Feed(threading.Thread):
    def __init__(self, step: Step, box):
        super().__init__()
        self.step = step
        self.box = box

    def run(self):
        try:
            while (item := self.box.get()) is not None:
                item()
        finally:
            self.step.free()


class Host:
    def __init__(self):
        self.feeds: dict[str, Feed] = {}

    def load(self, name, net, meter, box):
        feed = Feed(Step(net, meter), box)
        feed.start()
        self.feeds[name] = feed

    def drop(self, name):
        feed = self.feeds.pop(name)
        feed.box.put(None)
        feed.join()
        feed.step.free()
""",
        ["feed.step.free()"],
    ),
    "what a variable has on": (
        """
class Keeper:
    def __init__(self, net, meter):
        self.net, self.meter = net, meter
        self.step = Step(net, meter)

    def fail(self):
        self.step.free()
        self.renew()

    def renew(self):
        old, self.step = self.step, None
        if old is not None:
            old.free()
        self.step = Step(self.net, self.meter)
""",
        ["self.renew()"],
    ),
    "what a variable has on, once there is nothing": (
        """
class Keeper:
    def __init__(self, net, meter):
        self.net, self.meter = net, meter
        self.step = Step(net, meter)

    def fail(self):
        self.step.free()
        self.step = None
        self.renew()

    def renew(self):
        old, self.step = self.step, None
        if old is not None:
            old.free()
        self.step = Step(self.net, self.meter)
""",
        [],
    ),
    "what a variable has on, and the one that came in its place": (
        """
class Keeper:
    def __init__(self, net, meter, other: Step):
        self.step = Step(net, meter)
        self.other = other

    def renew(self):
        old = self.step
        self.step = self.other
        old.free()
        self.step.free()
""",
        [],
    ),
    "the one that came in its place, and what a variable has on": (
        """
class Keeper:
    def __init__(self, net, meter, other: Step):
        self.step = Step(net, meter)
        self.other = other

    def renew(self):
        old = self.step
        self.step = self.other
        self.step.free()
        old.free()
""",
        [],
    ),
    "a table that a variable has on": (
        """
class Keeper:
    def __init__(self, net, meter):
        self.steps = {"a": Step(net, meter), "b": Step(net, meter)}

    def stop(self):
        for step in self.steps.values():
            step.free()
        self.forget()

    def forget(self):
        old, self.steps = self.steps, {}
        for step in old.values():
            step.free()
""",
        ["self.forget()"],
    ),
    "a table that a variable has on, emptied before": (
        """
class Keeper:
    def __init__(self, net, meter):
        self.steps = {"a": Step(net, meter), "b": Step(net, meter)}

    def stop(self):
        for step in self.steps.values():
            step.free()
        self.steps.clear()
        self.forget()

    def forget(self):
        old, self.steps = self.steps, {}
        for step in old.values():
            step.free()
""",
        [],
    ),
    "a stack unwinds, and a handler goes over the list": (
        """
def build(nets, meter):
    steps = []
    try:
        with contextlib.ExitStack() as exits:
            for net in nets:
                steps.append(exits.enter_context(Step(net, meter)))
                steps[-1].test()
            return steps, exits.pop_all()
    except ValueError:
        for step in steps:
            step.free()
        raise
""",
        ["step.free()"],
    ),
    "a stack unwinds, and a handler counts the list": (
        """
def build(nets, meter):
    steps = []
    try:
        with contextlib.ExitStack() as exits:
            for net in nets:
                steps.append(exits.enter_context(Step(net, meter)))
                steps[-1].test()
            return steps, exits.pop_all()
    except ValueError:
        print(len(steps))
        raise
""",
        [],
    ),
    "a stack has handed over before it could unwind": (
        """
def build(net, meter, ready):
    step = None
    try:
        with contextlib.ExitStack() as exits:
            step = exits.enter_context(Step(net, meter))
            kept = exits.pop_all()
        ready(step)
        return step, kept
    except ValueError:
        step.free()
        raise
""",
        [],
    ),
    "a stack hands over too late": (
        """
def build(net, meter, ready):
    step = None
    try:
        with contextlib.ExitStack() as exits:
            step = exits.enter_context(Step(net, meter))
            ready(step)
            step.test()
            return step, exits.pop_all()
    except ValueError:
        step.free()
        raise
""",
        ["step.free()"],
    ),
    "a list has what was freed": (
        """
def build(nets, meter, fits):
    steps = []
    for net in nets:
        step = Step(net, meter)
        steps.append(step)
        if not fits(net):
            step.free()
    for each in steps:
        each.free()
""",
        ["each.free()"],
    ),
    "what was freed leaves the list": (
        """
def build(nets, meter, fits):
    steps = []
    for net in nets:
        step = Step(net, meter)
        steps.append(step)
        if not fits(net):
            steps.remove(step)
            step.free()
    for each in steps:
        each.free()
""",
        [],
    ),
    "what was freed never comes into the list": (
        """
class Late:
    def __init__(self, meter: Meter):
        self.meter = meter
        self.graph = torch.cuda.CUDAGraph()

    def free(self):
        self.graph.reset()
        self.meter.give(1)


def build(nets, meter, fits):
    steps = []
    for net in nets:
        step = Late(meter)
        if fits(net):
            steps.append(step)
        else:
            step.free()
    for each in steps:
        each.free()
""",
        [],
    ),
    "a flag is set at once": (
        """
def warm(net, meter):
    step = Step(net, meter)
    freed = False
    try:
        step.test()
    except ValueError:
        step.free()
        freed = True
        raise
    finally:
        if not freed:
            step.free()
""",
        [],
    ),
    "a flag is set after something that can fail": (
        """
def warm(net, meter):
    step = Step(net, meter)
    freed = False
    try:
        step.test()
    except ValueError:
        step.free()
        meter.take(1)
        freed = True
        raise
    finally:
        if not freed:
            step.free()
""",
        ["step.free()"],
    ),
    "a flag is never set": (
        """
def warm(net, meter):
    step = Step(net, meter)
    freed = False
    try:
        step.test()
    except ValueError:
        step.free()
        raise
    finally:
        if not freed:
            step.free()
""",
        ["step.free()"],
    ),
    "a process ends behind a function that has freed": (
        """
def serve(net, meter, items):
    step = Step(net, meter)
    atexit.register(step.free)
    try:
        for item in items:
            yield item
    finally:
        step.free()
""",
        ["atexit.register(step.free)"],
    ),
    "a process ends behind a function that has called it off": (
        """
def serve(net, meter, items):
    step = Step(net, meter)
    atexit.register(step.free)
    try:
        for item in items:
            yield item
    finally:
        atexit.unregister(step.free)
        step.free()
""",
        [],
    ),
    "a process ends behind another branch": (
        """
def serve(net, meter, stays):
    step = Step(net, meter)
    if stays:
        atexit.register(step.free)
        return step
    step.free()
    return None
""",
        [],
    ),
    "a process ends with what asks a flag": (
        """
class Host:
    def __init__(self, net, meter):
        self.step = Step(net, meter)
        self.up = True

    def close(self):
        if not self.up:
            return
        self.up = False
        self.step.free()


def serve(net, meter):
    host = Host(net, meter)
    atexit.register(host.close)
    host.close()
""",
        [],
    ),
    "a process ends with a function in this one": (
        """
def serve(net, meter):
    step = Step(net, meter)
    atexit.register(lambda: step.free())
    step.free()
""",
        ["atexit.register(lambda: step.free())"],
    ),
    "a finalizer of something else runs at the latest when the process ends": (
        """
def serve(net, meter):
    step = Step(net, meter)
    weakref.finalize(net, step.free)
    step.free()
""",
        ["weakref.finalize(net, step.free)"],
    ),
    "a finalizer of something else is detached": (
        """
def serve(net, meter):
    step = Step(net, meter)
    end = weakref.finalize(net, step.free)
    end.detach()
    step.free()
""",
        [],
    ),
    "a thread runs a function in this one": (
        """
def serve(net, meter, items):
    step = Step(net, meter)

    def work():
        try:
            for item in items:
                item()
        finally:
            step.free()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    step.free()
""",
        ["step.free()"],
    ),
    "a thread runs a function in this one that frees nothing": (
        """
def serve(net, meter, items):
    step = Step(net, meter)

    def work():
        for item in items:
            step.test()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    step.free()
""",
        [],
    ),
    "an executor has run all by its end": (
        """
def serve(net, meter):
    step = Step(net, meter)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(step.free)
    step.free()
""",
        ["step.free()"],
    ),
    "an executor is shut down": (
        """
class Host:
    def __init__(self, net, meter):
        self.step = Step(net, meter)
        self.threads = ThreadPoolExecutor(1)

    def stop(self):
        self.threads.submit(self.step.free)
        self.threads.shutdown()
        self.step.free()
""",
        ["self.step.free()"],
    ),
    "an executor runs once what is waited for twice": (
        """
class Host:
    def __init__(self, net, meter):
        self.step = Step(net, meter)
        self.threads = ThreadPoolExecutor(1)

    def stop(self):
        done = self.threads.submit(self.step.free)
        done.result()
        self.threads.shutdown(wait=True)
""",
        [],
    ),
    "a call that ends the block fails in the middle": (
        """
def serve(net, meter, items):
    step = Step(net, meter)
    try:
        for item in items:
            item()
        step.free()
        return True
    except RuntimeError:
        step.free()
        raise
""",
        [],
    ),
    "something behind the call fails": (
        """
def serve(net, meter, items, told):
    step = Step(net, meter)
    try:
        for item in items:
            item()
        step.free()
        told(items)
    except RuntimeError:
        step.free()
        raise
""",
        ["step.free()"],
    ),
    "a call that ends the block records": (
        """
class Late:
    def __init__(self, net, meter: Meter):
        self.net, self.meter = net, meter
        self.graphs = []

    def record(self):
        for n in range(3):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.net(n)
            self.graphs.append(graph)

    def free(self):
        for graph in self.graphs:
            graph.reset()
        self.meter.give(1)


def serve(net, meter):
    late = Late(net, meter)
    try:
        late.record()
    except RuntimeError:
        late.free()
    late.free()
""",
        ["late.free()"],
    ),
    "a process ends behind a function of the module": (
        """
STEP = None


def stop():
    STEP.free()


atexit.register(stop)


def serve(net, meter):
    global STEP
    STEP = Step(net, meter)
    stop()
""",
        ["stop()"],
    ),
    "a process ends behind a function of the module that asks": (
        """
STEP = None


def stop():
    global STEP
    if STEP is None:
        return
    STEP.free()
    STEP = None


atexit.register(stop)


def serve(net, meter):
    global STEP
    STEP = Step(net, meter)
    stop()
""",
        [],
    ),
    "a function of the module is called off": (
        """
STEP = None


def stop():
    STEP.free()


def serve(net, meter):
    global STEP
    STEP = Step(net, meter)
    atexit.register(stop)
    atexit.unregister(stop)
    stop()
""",
        [],
    ),
    "a handler says that there is none": (
        """
def serve(net, meter, ready):
    step = Step(net, meter)
    try:
        ready()
    except OSError:
        step.free()
        step = None
    if step is not None:
        step.free()
""",
        [],
    ),
    "a handler says that there is none, and raises": (
        """
def serve(net, meter, ready):
    step = Step(net, meter)
    try:
        ready()
    except OSError:
        step.free()
        step = None
        raise
    finally:
        if step is not None:
            step.free()
""",
        [],
    ),
    "a handler does not say that there is none": (
        """
def serve(net, meter, ready):
    step = Step(net, meter)
    try:
        ready()
    except OSError:
        step.free()
    if step is not None:
        step.free()
""",
        ["step.free()"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_control_flow_leads_to_a_second_release(tmp_path: Path, case: str) -> None:
    text, expected = CASES[case]
    (tmp_path / "m.py").write_text(HEAD + text)
    findings = check.check([str(tmp_path)], Settings(), registry.select((RULE,)))
    lines = (HEAD + text).splitlines()
    rows = sorted({findings.sources[each.path].row(each.span.start) for each in findings.findings})
    assert [lines[row - 1].strip() for row in rows] == expected
