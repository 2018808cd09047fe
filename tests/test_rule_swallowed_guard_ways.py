"""By which ways a handler's body is seen to come to a guard: tables of functions, fields, registries, subclasses."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

GUARDED = """
from dataclasses import dataclass
from typing import Callable, NamedTuple

import torch

BENIGN = (ValueError, TypeError)
BROAD = (ValueError, RuntimeError)
kept = {}


def room(n):
    if n not in kept:
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("make the room first")
        kept[n] = torch.empty(n, device="cuda")
    return kept[n]


def quick(n):
    return room(n)


def slow(n):
    return torch.empty(n, device="cuda")


"""

WAYS = {
    "tuples that an attribute lists": """
class Sum:
    def __init__(self):
        self.ways = [("quick", self.quick), ("slow", self.slow)]

    def quick(self, n):
        return room(n)

    def slow(self, n):
        return n

    def __call__(self, n):
        for name, way in self.ways:
            try:
                return way(n)
            except {error} as error:
                print(name, error)
""",
    "one place of tuples in a table": """
TABLE = {{"quick": (slow, quick), "slow": (slow, slow)}}


def ask(key, n):
    try:
        return TABLE[key][1](n)
    except {error}:
        return n
""",
    "objects among functions that an attribute lists": """
class Staged:
    def __call__(self, n):
        return room(n)


class Sum:
    def __init__(self):
        self.ways = [Staged(), slow]

    def __call__(self, n):
        for way in self.ways:
            try:
                return way(n)
            except {error} as error:
                print(error)
""",
    "a lock that refuses as well": """
class Locked:
    def __init__(self):
        self.locked = False
        self.kept = {{}}

    def lock(self):
        self.locked = True

    def room(self, n):
        if n not in self.kept:
            if self.locked or torch.cuda.is_current_stream_capturing():
                raise RuntimeError("make the room first")
            self.kept[n] = torch.empty(n, device="cuda")
        return self.kept[n]

    def ask(self, n):
        try:
            return self.room(n)
        except {error}:
            return slow(n)
""",
    "a field of a named tuple": """
class Way(NamedTuple):
    name: str
    run: Callable


class Sum:
    def __init__(self):
        self.ways = {{"quick": Way("quick", quick), "slow": Way("slow", slow)}}

    def __call__(self, key, n):
        way = self.ways[key]
        try:
            return way.run(n)
        except {error}:
            return n
""",
    "a field of a dataclass": """
@dataclass
class Either:
    first: Callable[[int], torch.Tensor]
    second: Callable[[int], torch.Tensor]

    def __call__(self, n):
        try:
            return self.first(n)
        except {error}:
            return self.second(n)


either = Either(quick, second=slow)
either_way = either


def make():
    return Either(quick, second=slow)
""",
    "a registry that a decorator fills": """
WAYS = {{}}


def way(name):
    def add(function):
        WAYS[name] = function
        return function

    return add


@way("wide")
def wide(n):
    return room(2 * n)


def ask(name, n):
    try:
        return WAYS[name](n)
    except {error}:
        return slow(n)
""",
    "a registry of classes": """
class Registry:
    def __init__(self):
        self.known = {{}}

    def add(self, cls):
        self.known[cls.__name__] = cls
        return cls


registry = Registry()


@registry.add
class Wide:
    def run(self, n):
        return room(2 * n)


class Sum:
    def __init__(self, name):
        self.impl = registry.known[name]()

    def ask(self, n):
        try:
            return self.impl.run(n)
        except {error}:
            return n
""",
    "a method that a subclass has": """
class Step:
    def handle(self, n):
        try:
            return self.work(n)
        except {error}:
            return n

    def work(self, n):
        return n


class Wide(Step):
    def work(self, n):
        return room(2 * n)


def use(n):
    return Wide().handle(n)
""",
    "a tuple of classes that has a name": """
def ask(n):
    try:
        return quick(n)
    except {named}:
        return n
""",
}


def found(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text((GUARDED + text).lstrip("\n"))
    return len(check.check(["."], Settings(), registry.select(("swallowed-guard",))).findings)


@pytest.mark.parametrize("way", WAYS)
def test_a_guard_is_found_by_the_way_that_leads_to_it(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(WAYS[way].format(error="Exception", named="BROAD"), tmp_path, monkeypatch) == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_handler_of_other_errors_is_left_alone(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(WAYS[way].format(error="ValueError", named="BENIGN"), tmp_path, monkeypatch) == 0


def test_functions_at_another_place_of_the_tuples_are_not_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = WAYS["one place of tuples in a table"].format(error="Exception")
    assert found(text.replace("[1]", "[0]"), tmp_path, monkeypatch) == 0
