from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphlint import automaton
from graphlint.automaton import HAZARD, INPUTS, Automaton
from graphlint.declarations import DeclarationError, Table, parse
from graphlint.effects import Effect

POOL = """\
subject = "pool"
start = "live"

[states.live]
graph_death = "dead"

[states.dead]
ws_release = "released"
erase = "erased"

[states.erased]
ws_release = "HAZARD"
exit = "HAZARD"

[states.released]
"""


def load(text: str) -> Automaton:
    return automaton.load(parse(text.encode(), "rule.toml").check(Table(required=automaton.SCHEMA)))


def run(loaded: Automaton, *reads: str) -> str:
    state = loaded.start
    for read in reads:
        state = loaded.step(state, read)
    return state


@pytest.mark.parametrize(
    ("reads", "state"),
    [
        ((), "live"),
        (("erase", "ws_release", "replay"), "live"),
        (("graph_death", "erase"), "erased"),
        (("graph_death", "erase", "graph_death"), "erased"),
        (("graph_death", "ws_release", "erase", "exit"), "released"),
        (("graph_death", "erase", "exit"), HAZARD),
        (("graph_death", "erase", "ws_release", "graph_death"), HAZARD),
        (("graph_death", "erase", "raise"), "erased"),
    ],
)
def test_inputs_lead_from_state_to_state(reads: tuple[str, ...], state: str) -> None:
    assert run(load(POOL), *reads) == state


def test_effects_are_inputs_as_they_are() -> None:
    assert run(load(POOL), Effect.GRAPH_DEATH, Effect.ERASE) == "erased"


def test_the_inputs_that_matter() -> None:
    assert load(POOL).inputs == {"graph_death", "erase", "ws_release", "exit"}


@pytest.mark.parametrize(
    ("old", "new", "row", "message"),
    [
        ('"pool"', '"pol"', 1, "'subject' must be one of graphs, workspace, memory, pool, process, not 'pol'"),
        ('start = "live"', 'start = "life"', 2, "unknown state 'life'; did you mean 'live'?"),
        ("graph_death", "graph_deth", 5, "unknown effect 'graph_deth'; did you mean 'graph_death'?"),
        ("exit", "leave", 13, "unknown effect 'leave'"),
        ('"released"', '"relesed"', 8, "unknown state 'relesed'; did you mean 'released'?"),
        ('"HAZARD"\nexit', '"HAZZARD"\nexit', 12, "unknown state 'HAZZARD'; did you mean 'HAZARD'?"),
        ('exit = "HAZARD"', 'exit = "live"', 13, "nothing follows 'exit': it can only lead to HAZARD"),
        ('ws_release = "released"\n', "", 14, "state 'released' is never entered"),
        (
            "[states.released]",
            '[states.released]\nsync = "done"\n\n[states.done]',
            15,
            "state 'released' cannot lead to",
        ),
        ("[states.released]", '[states.released]\nsync = "released"', 15, "state 'released' cannot lead to HAZARD"),
        ('ws_release = "HAZARD"\nexit = "HAZARD"', "", 2, "no path leads from 'live' to HAZARD"),
        ("[states.live]\ngraph_death", "[states.HAZARD]\ngraph_death", 4, "state 'HAZARD' must be lower-case letters"),
        ("released", '"is released"', 8, "not valid TOML"),
        (
            "[states.released]",
            '[states.released]\n[states."is released"]',
            16,
            "state 'is released' must be lower-case letters",
        ),
        ("[states.released]", "[states]\nreleased = 1", 16, "'states.released' must be a table, not a whole number"),
        ("erase = ", "# erase = ", 2, "no path leads from 'live' to HAZARD"),
    ],
)
def test_a_wrong_automaton_is_an_error_with_its_row(old: str, new: str, row: int, message: str) -> None:
    assert old in POOL
    with pytest.raises(DeclarationError) as caught:
        load(POOL.replace(old, new, 1))
    assert caught.value.message.startswith(message)
    assert caught.value.row == row


@pytest.mark.parametrize("key", ["subject", "start", "states"])
def test_no_key_has_a_default(key: str) -> None:
    head, states = POOL.split("\n\n", 1)
    kept = [line for line in head.splitlines() if not line.startswith(key)]
    text = "\n".join(kept if key == "states" else [*kept, states])
    with pytest.raises(DeclarationError, match=f"key '{key}' is missing"):
        load(text)


def test_the_diagram_shows_every_transition_once() -> None:
    assert load(POOL).diagram() == (
        "stateDiagram-v2\n"
        "    [*] --> live\n"
        "    live --> dead: graph_death\n"
        "    dead --> released: ws_release\n"
        "    dead --> erased: erase\n"
        "    erased --> HAZARD: ws_release, exit\n"
    )


NAMES = ["a", "b", "c", "d"]
MOVES = st.dictionaries(st.sampled_from(["sync", "erase", "raise"]), st.sampled_from([*NAMES, HAZARD]), max_size=3)


@given(st.dictionaries(st.sampled_from(NAMES), MOVES, min_size=1))
def test_what_is_loaded_is_sound_and_what_is_sound_is_loaded(states: dict[str, dict[str, str]]) -> None:
    """Against an oracle that walks every sequence of inputs that is long enough to show every state."""
    start = min(states)
    text = f'subject = "graphs"\nstart = "{start}"\n' + "".join(
        f"[states.{name}]\n" + "".join(f'{read} = "{target}"\n' for read, target in moves.items())
        for name, moves in states.items()
    )

    def reached(state: str) -> set[str]:
        found = {state}
        for reads in itertools.product(["sync", "erase", "raise"], repeat=len(NAMES)):
            here = state
            for read in reads:
                here = states.get(here, {}).get(read, here)
                found.add(here)
        return found

    known = all(target in states or target == HAZARD for moves in states.values() for target in moves.values())
    sound = (
        known
        and reached(start) >= {*states, HAZARD}
        and all(HAZARD in reached(state) for state, moves in states.items() if moves)
    )
    try:
        loaded = load(text)
    except DeclarationError:
        assert not sound
    else:
        assert sound
        assert loaded.reaches(start) == reached(start)


def test_every_effect_is_an_input() -> None:
    assert {effect.value for effect in Effect} | {"exit", "raise"} == INPUTS
