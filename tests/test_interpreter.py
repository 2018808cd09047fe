"""The analysis against the interpreter: no hazard of a path is missed, and none is reported that no path has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from hypothesis import HealthCheck, Phase, given, settings
from interpreter import MAY_BE_FOUND, RULES, STRIKES, Hazard, Program, TooManyPathsError, hazards, paths, render
from programs import programs
from recording import execute

from graphlint import registry, summaries, typestate, vocabulary
from graphlint.findings import Suspect
from graphlint.source import Source

PHASES = (Phase.generate, Phase.shrink)
"""To explain a failure, Hypothesis would trace every line of the analysis, on every run."""
MOST_PATHS = 3000
SESSION = ("session", "")
NAMES = tuple(dict.fromkeys(rule.rule for rule in RULES))


def concrete(program: Program, most: int = MOST_PATHS, strikes: int = STRIKES) -> tuple[list[Hazard], list[Hazard]]:
    """The hazards that must be found, and all that there are."""
    text = render(program)
    first: dict[object, Hazard] = {}
    found: dict[object, Hazard] = {}
    for path in paths(program, text, most=most, strikes=strikes):
        for rule in RULES:
            seen = set()
            for hazard in hazards(rule, path.events):
                key = (hazard.rule, tuple((step.effect, step.stack) for step in hazard.steps))
                found.setdefault(key, hazard)
                if path.root == SESSION and spans_yield(hazard, str(text)):
                    continue
                if (what := hazard.steps[-1].what) not in seen:
                    seen.add(what)
                    first.setdefault(key, hazard)
        for rule in MAY_BE_FOUND:
            for hazard in hazards(rule, path.events):
                found.setdefault((hazard.rule, tuple((step.effect, step.stack) for step in hazard.steps)), hazard)
    return list(first.values()), list(found.values())


def spans_yield(hazard: Hazard, text: str) -> bool:
    """Whether something is ended twice by a generator alone: its caller goes on in between, and nobody knows how."""
    row = next((row for row, line in enumerate(text.splitlines(), 1) if line.strip() == "yield"), 0)
    return hazard.rule == "duplicate-release" and hazard.steps[0].rows[0] < row < hazard.steps[-1].rows[0]


def suspected(source: Source) -> list[Suspect]:
    """What the analysis says of a file.

    Raises:
        TooManyPathsError: it has not followed all paths, and says so.
    """
    (analysis,) = summaries.load([source], vocabulary.load())
    found = [suspect for name in NAMES for suspect in typestate.suspects(analysis, registry.by_name(name))]
    if analysis.exhausted:
        raise TooManyPathsError
    return found


def shows(suspect: Suspect, hazard: Hazard, source: Source) -> bool:
    """Whether a suspect's path is a hazard's: the same effects, at rows through which they were come to.

    A path tells the reported step twice where it is further in: as a step of the function, and at its own row.
    """
    at = range(len(hazard.steps))[hazard.at]
    twice = (*hazard.steps[: at + 1], *hazard.steps[at:])
    return suspect.rule == hazard.rule and any(
        [step.effect for step in suspect.trace] == [step.effect.value for step in steps]
        and all(
            source.row(step.span.start) in happened.rows for step, happened in zip(suspect.trace, steps, strict=True)
        )
        for steps in (hazard.steps, twice)
    )


def disagreements(program: Program, most: int = MOST_PATHS) -> Iterator[str]:
    """Hazards that were not found, and suspects that are none."""
    first, real = concrete(program, most)
    source = Source("program.py", str(render(program)).encode())
    suspects = suspected(source)
    places = {(each.rule, source.row(each.at.start)) for each in suspects}
    for hazard in first:
        if not any((hazard.rule, row) in places for row in hazard.steps[hazard.at].rows):
            steps = ", ".join(f"{step.effect.value} {step.rows}" for step in hazard.steps)
            yield f"missed {hazard.rule}: {steps}"
    unreal = [each for each in suspects if not any(shows(each, hazard, source) for hazard in real)]
    if unreal:  # the analysis does not count exceptions
        try:
            _, real = concrete(program, 5 * most, strikes=6)
        except TooManyPathsError:
            return  # nobody knows
    for suspect in unreal:
        if not any(shows(suspect, hazard, source) for hazard in real):
            rows = [(step.effect, source.row(step.span.start)) for step in suspect.trace]
            yield f"false {suspect.rule}: {rows}"


@settings(max_examples=200, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(programs())
def test_the_analysis_agrees_with_the_interpreter(program: Program) -> None:
    try:
        found = list(disagreements(program))
    except TooManyPathsError:
        return
    numbered = "\n".join(f"{row:3} {line}" for row, line in enumerate(str(render(program)).splitlines(), 1))
    assert not found, "\n".join((*found, numbered))


@settings(max_examples=60, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(programs())
def test_the_interpreter_agrees_with_python(program: Program) -> None:
    text = render(program)
    with suppress(TooManyPathsError):
        for path in paths(program, text, most=50, strikes=0):
            happened = execute(str(text), path)
            assert happened == [(event.effect, event.rows) for event in path.events], f"{path.root}\n{text}"
