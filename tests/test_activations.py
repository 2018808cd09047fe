"""Two calls of one function are two activations: a path that goes through both has no place in common further in."""

from __future__ import annotations

from graphlint import behavior as b
from graphlint import vocabulary
from graphlint.effects import Effect
from graphlint.paths import Config, Event, Frame
from graphlint.source import Source, Span
from graphlint.summaries import load
from graphlint.typestate import common_depth

PROGRAM = b"""
import torch

def helper():
    torch.cuda.empty_cache()

def twice():
    for _ in range(3):
        helper()

def once():
    helper()
"""


def event(activations: tuple[int, ...], row: int) -> Event:
    stack = (Frame("m.outer", Span(10, 20)), Frame("m.inner", Span(row, row + 1)))
    node = b.Happens(Effect.ERASE, (), None, Span(row, row + 1), "torch.cuda.empty_cache")
    return Event(node, (), (), stack, activations=activations)


def test_events_of_one_activation_meet_in_it() -> None:
    assert common_depth([event((0, 1), 1), event((0, 1), 5)]) == 1


def test_events_of_two_activations_meet_in_their_caller() -> None:
    assert common_depth([event((0, 1), 5), event((0, 2), 1)]) == 0


def activations(function: str) -> set[tuple[int, ...]]:
    (analysis,) = load([Source("m.py", PROGRAM)], vocabulary.load())
    root = next(each for each in analysis.effectful.values() if each.function.endswith(f".{function}"))
    seen: set[tuple[int, ...]] = set()

    def monitor(state: str, happened: Event, _: Config) -> tuple[str, Effect]:
        seen.add(happened.activations)
        assert len(happened.activations) == len(happened.stack)
        return state + "e", Effect.ERASE

    assert analysis.run(root, "", monitor) is not None
    return seen


def test_each_round_of_a_loop_is_an_activation_of_its_own() -> None:
    assert len(activations("twice")) == 2
    assert len(activations("once")) == 1
