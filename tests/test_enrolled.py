"""Parts that are put into a table, or a method of theirs, by themselves or by their owner, and who goes over that table."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

PART = """
from typing import Callable

import torch

LIVE = set()
HOOKS: dict[str, list] = {{}}


def on(event):
    def keep(function):
        HOOKS.setdefault(event, []).append(function)
        return function
    return keep


class Hub:
    def __init__(self):
        self.parts = []
        self.others = []

    def enrol(self, part):
        self.parts.append(part)

    def name(self, name, part):
        self.{named}.append((name, part))

    def end(self):
        {end}


class Part:
    def __init__(self, net, hub: Hub):
        self.net = net
        self.graphs = []
        self.record()
        {enrol}

    def record(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.net()
        self.graphs.append(graph)

    def free(self):
        assert self.graphs is not None
        for graph in self.graphs:
            graph.reset()
        self.graphs = None


class Engine:
    def __init__(self, left, right):
        self.hub = Hub()
        self.left = Part(left, self.hub)
        self.right = Part(right, self.hub)

    def close(self):
        self.hub.end()
        {then}
"""
WAYS = {
    "itself": ("for part in self.parts: part.free()", "hub.enrol(self)"),
    "itself, directly": ("for part in self.parts: part.free()", "hub.parts.append(self)"),
    "itself, in a set of the process": ("for part in list(LIVE): part.free()", "LIVE.add(self)"),
    "a method": ("for free in self.parts: free()", "hub.enrol(self.free)"),
    "a method, taken out": ("while self.parts: self.parts.pop()()", "hub.enrol(self.free)"),
    "a name and a method": (
        "while self.parts:\n            name, free = self.parts.pop()\n            free()",
        'hub.name("part", self.free)',
    ),
}


def rules_of(path: Path, text: str) -> list[str]:
    (path / "m.py").write_text(text)
    rules = registry.select(("duplicate-release", "manager-order", "orphan-graphs"))
    return [each.rule for each in check.check([str(path)], Settings(), rules).findings]


@pytest.mark.parametrize("name", WAYS)
def test_each_enrolled_part_is_released_by_the_table(tmp_path: Path, name: str) -> None:
    def rules(enrol: str, then: str) -> list[str]:
        named = "parts" if "hub.name" in WAYS[name][1] else "others"
        return rules_of(tmp_path, PART.format(end=WAYS[name][0], enrol=enrol, then=then, named=named))

    assert rules(WAYS[name][1], "self.left = None") == []
    assert rules(WAYS[name][1], "self.right.free()") == ["duplicate-release"]
    assert rules("pass", "self.right.free(); self.left.free()") == []


def test_what_a_decorator_registers_is_run_by_who_goes_over_it(tmp_path: Path) -> None:
    part = PART.format(end="pass", enrol="pass", then="self.left.free(); self.right.free()", named="others")
    told = """
    def tell(self, event):
        for function in HOOKS.get(event, ()):
            function(self)

    def stop(self):
        self.tell("stop")
        {then}


@on("stop")
def free_all(engine: Engine):
    engine.left.free()
    engine.right.free()
"""
    assert rules_of(tmp_path, part + told.format(then="pass")) == []
    assert rules_of(tmp_path, part + told.format(then="self.right.free()")) == ["duplicate-release"]


BANK = """
import collections

import torch


class Bank:
    def __init__(self, rooms):
        self.free = list(range(rooms))

    def back(self, room):
        self.free.append(room)


class Stepper:
    def __init__(self, net, bank: Bank):
        self.net, self.bank = net, bank
        self.room = bank.free.pop()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.net()

    def end(self):
        self.graph.reset()
        self.bank.back(self.room)


class Pages:
    def __init__(self):
        self.before = []
        self.note = None

    def ask(self, hook):
        self.before.append(hook)

    def unmap(self):
        for hook in self.before:
            hook()
        if self.note is not None:
            self.note()


class Engine:
    def __init__(self, net, bank: Bank, pages: Pages):
        self.pages = pages
        self.kept = bank
        self.steps = Stepper(net, bank)
        self.extra = Stepper(net, bank)
        self.hooks = []
        {given}

    def wipe(self):
        self.steps.end()

    def sleep(self):
        {sleep}
"""
GIVEN = {
    "a method of a part, to another part": ("pages.ask(self.steps.end)", "self.pages.unmap()"),
    "a method of a part, into a list of another part": (
        "self.pages.before.append(self.steps.end)",
        "self.pages.unmap()",
    ),
    "a method of its own": ("pages.ask(self.wipe)", "self.pages.unmap()"),
    "a method of its own, into a list of another part": ("self.pages.before.append(self.wipe)", "self.pages.unmap()"),
    "a method of its own, as an attribute": ("self.pages.note = self.wipe", "self.pages.unmap()"),
    "a lambda of itself": ("self.hooks.append(lambda: self.steps.end())", "for hook in self.hooks: hook()"),
}


def in_bank(path: Path, given: str, sleep: str) -> list[str]:
    return [each for each in rules_of(path, BANK.format(given=given, sleep=sleep)) if each == "duplicate-release"]


@pytest.mark.parametrize("name", GIVEN)
def test_what_the_owner_hands_out_is_its_own_part(tmp_path: Path, name: str) -> None:
    given, sleep = GIVEN[name]
    assert in_bank(tmp_path, given, sleep) == []
    assert in_bank(tmp_path, given, f"{sleep}\n        self.extra.end()") == []
    assert in_bank(tmp_path, given, f"{sleep}\n        self.steps.end()") == ["duplicate-release"]


MANY = """

class Crew:
    def __init__(self, nets, bank: Bank):
        self.ends, self.steppers, self.others = [], [], []
        for net in nets:
            stepper = Stepper(net, bank)
            self.ends.append(stepper.end)
            self.steppers.append(stepper)
            self.others.append(Stepper(net, bank))

    def stop(self):
        {stop}
"""


@pytest.mark.parametrize(
    "first",
    ["while self.ends: self.ends.pop()()", "for end in self.ends: end()", "for end in reversed(self.ends): end()"],
)
def test_methods_of_many_are_those_of_the_objects_beside_them(tmp_path: Path, first: str) -> None:
    def in_crew(then: str) -> list[str]:
        text = BANK.format(given="pass", sleep="pass") + MANY.format(stop=f"{first}\n        {then}")
        return [each for each in rules_of(tmp_path, text) if each == "duplicate-release"]

    assert in_crew("self.steppers.clear()") == []
    assert in_crew("for each in self.others: each.end()") == []
    assert in_crew("for each in self.steppers: each.end()") == ["duplicate-release"]


CLOSED_OVER = """

class Shelf:
    def __init__(self, steps: Stepper, other: Stepper):
        self.steps = steps
        self.other = other
        self.ends = [lambda name: steps.end()]

    def clear(self):
        for end in self.ends:
            end("all")
        self.{then}.end()
"""


def test_a_closure_of_a_constructor_means_what_the_object_keeps(tmp_path: Path) -> None:
    def on_shelf(then: str) -> list[str]:
        text = BANK.format(given="pass", sleep="pass") + CLOSED_OVER.format(then=then)
        return [each for each in rules_of(tmp_path, text) if each == "duplicate-release"]

    assert on_shelf("steps") == ["duplicate-release"]
    assert on_shelf("other") == []


WATCHED = """

class Watcher:
    def __init__(self, net, bank: Bank, pages: Pages):
        self.steps = Stepper(net, bank)
        pages.ask(self.told)

    def told(self):
        self.steps.end()


class Control:
    def __init__(self, pages: Pages, watcher: Watcher, {more}):
        self.pages = pages
        self.watcher = watcher
        self.second = second

    def scale(self):
        self.pages.unmap()
        {then}
"""


def test_who_asked_to_be_told_is_the_one_in_sight(tmp_path: Path) -> None:
    """An object that enters itself where it is made, and one attribute of that kind beside whom it asked: they are taken for one."""

    def found(then: str, more: str = "second: int") -> list[str]:
        text = BANK.format(given="pass", sleep="pass") + WATCHED.format(then=then, more=more)
        return [each for each in rules_of(tmp_path, text) if each == "duplicate-release"]

    assert found("pass") == []
    assert found("self.watcher.told()") == ["duplicate-release"]
    assert found("self.watcher.told()", more="second: Watcher") == []  # it may be either


def test_a_lock_that_graphs_are_named_after_is_no_graph(tmp_path: Path) -> None:
    text = """
import threading

import torch

GRAPH_SETS = threading.BoundedSemaphore(3)


class Set:
    def __init__(self, net):
        GRAPH_SETS.acquire()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            net()

    def free(self):
        self.graph.reset()
        GRAPH_SETS.release()


class Engine:
    def __init__(self, left, right):
        self.left, self.right = Set(left), Set(right)

    def close(self):
        self.left.free()
        self.right.free()
"""
    (tmp_path / "m.py").write_text(text)
    assert [each.rule for each in check.check([str(tmp_path)], Settings(), registry.rules()).findings] == []


NAMED = """

class Center:
    def __init__(self):
        self.told = {{}}

    def tell(self, name, hook):
        {put}

    def sleep(self, name):
        for hook in self.told.get(name, ()):
            hook()


class Worker:
    def __init__(self, net, bank: Bank, center: Center):
        self.center = center
        self.steps = Stepper(net, bank)
        self.extra = Stepper(net, bank)
        center.tell("steps", self.steps.end)

    def sleep(self):
        self.center.sleep("steps")
        {then}
"""


@pytest.mark.parametrize("put", ["self.told.setdefault(name, []).append(hook)", "self.told[name].append(hook)"])
def test_hooks_in_a_table_of_lists(tmp_path: Path, put: str) -> None:
    def found(then: str) -> list[str]:
        text = BANK.format(given="pass", sleep="pass") + NAMED.format(put=put, then=then)
        return [each for each in rules_of(tmp_path, text) if each == "duplicate-release"]

    assert found("pass") == []
    assert found("self.extra.end()") == []
    assert found("self.steps.end()") == ["duplicate-release"]


BUS = """

class Bus:
    def __init__(self):
        self.told: dict[str, list] = {{}}

    def on(self, topic, hook):
        self.told.setdefault(topic, []).append(hook)

    def off(self, topic, hook):
        self.told[topic].remove(hook)

    def emit(self, topic):
        for hook in list(self.told[topic]):
            hook()


class Plugin:
    def __init__(self, net, bank: Bank, bus: Bus):
        self.bus = bus
        self.steps = Stepper(net, bank)
        bus.on("stop", self.disarm)

    def disarm(self):
        self.steps.end()
        {disarm}


class Host:
    def __init__(self):
        self.bus = Bus()
        self.plugins: dict[str, Plugin] = {{}}

    def load(self, name, net, bank: Bank):
        plugin = Plugin(net, bank, self.bus)
        self.plugins[name] = plugin

    def unload(self, name):
        plugin = self.plugins.pop(name)
        self.bus.off("stop", plugin.disarm)
        plugin.disarm()

    def shutdown(self):
        self.bus.emit("stop")
        {then}
"""


def test_who_may_leave_a_table_is_in_it_until_then(tmp_path: Path) -> None:
    def found(then: str, disarm: str = "pass") -> list[str]:
        text = BANK.format(given="pass", sleep="pass") + BUS.format(then=then, disarm=disarm)
        return [each for each in rules_of(tmp_path, text) if each == "duplicate-release"]

    again = "for plugin in self.plugins.values(): plugin.disarm()"
    assert found("self.plugins.clear()") == []
    assert found(again) == ["duplicate-release"]
    assert found(again, disarm='self.bus.off("stop", self.disarm); self.steps = None') == []


BY_NAME = """
import threading

import torch


class Directory:
    def __init__(self, limit):
        self.permits = threading.BoundedSemaphore(limit)
        self.parts = {{}}

    def admit(self, part):
        self.permits.acquire()
        self.parts[part.name] = part

    def forget(self, name):
        {forget}

    def end(self):
        for part in list(self.parts.values()):
            part.end()
        self.parts.clear()


class Part:
    def __init__(self, directory, name, net):
        self.name, self.directory = name, directory
        directory.admit(self)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            net()

    def end(self):
        self.graph.reset()
        {leave}
        self.directory.permits.release()


class Engine:
    def __init__(self, net):
        self.directory = Directory(4)
        self.part = Part(self.directory, "net", net)

    def close(self):
        self.part.end()
        self.directory.end()
"""


@pytest.mark.parametrize(
    ("forget", "leave", "expected"),
    [
        ("self.parts.pop(name, None)", "pass", 1),
        ("self.parts.pop(name, None)", "self.directory.forget(self.name)", 0),
        ("del self.parts[name]", "self.directory.forget(self.name)", 0),
        ("del self.parts[name]", "self.directory.parts.pop(self.name)", 0),
    ],
)
def test_who_has_left_under_a_name_is_not_told(tmp_path: Path, forget: str, leave: str, expected: int) -> None:
    (tmp_path / "m.py").write_text(BY_NAME.format(forget=forget, leave=leave))
    report = check.check([str(tmp_path)], Settings(), registry.select(("duplicate-release",)))
    assert len(report.findings) == expected
