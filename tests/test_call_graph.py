"""The corpus of `tests/corpus`: spellings that engines use, each with the calls and effects that have to be seen."""

from __future__ import annotations

from functools import cache

import pytest
from call_graph import Edge, Program, found, programs

PROGRAMS = programs()
EXPECTED = [
    pytest.param(
        program,
        edge,
        id=f"{program} {edge}",
        marks=[pytest.mark.xfail(strict=True, reason="a known limit")] if missed else [],
    )
    for program in PROGRAMS
    for edge, missed in program.expected()
]

seen = cache(found)


@pytest.mark.parametrize(("program", "edge"), EXPECTED)
def test_an_edge_is_found(program: Program, edge: Edge) -> None:
    assert edge in seen(program), sorted(map(str, (e for e in seen(program) if e[:2] == edge[:2])))


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_line_with_expectations_calls_nothing_else(program: Program) -> None:
    expected = [edge for edge, _ in program.expected()]
    rows = {edge[:2] for edge in expected}
    extra = [edge for edge in seen(program) if edge.is_call and edge[:2] in rows and edge not in expected]
    assert extra == []


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_is_small_and_says_something(program: Program) -> None:
    assert program.length <= 15 or "over five files" in program.title
    assert list(program.expected())


def test_at_least_95_percent_of_the_edges_are_found() -> None:
    expected = [(program, edge) for program in PROGRAMS for edge, _ in program.expected()]
    missed = [f"{program}: {edge}" for program, edge in expected if edge not in seen(program)]
    assert len(expected) > 300
    assert len(missed) <= 0.05 * len(expected), f"{len(missed)} of {len(expected)} missed:\n" + "\n".join(missed)
