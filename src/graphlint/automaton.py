"""The data of an ordering rule: a finite automaton that reads effects and ends in a hazard.

An ordering rule is about one *subject*, say a memory pool, and each subject of a program is in one *state* of the
rule's automaton. Effects on the subject move it from state to state; one that a state does not name leaves it there.
The path that moves a subject to `HAZARD` is what the rule reports. In `rule.toml`:

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

The inputs of a state are effects and two more: `exit`, the end of the path, and `raise`, an exception that leaves the
path. A state without inputs, like `released`, is safe: it says on purpose that nothing which follows can matter. Any
other state must have a way to `HAZARD`, else its inputs would be decoration. There are no conditions and no
registers, so an automaton is a table that can be checked, drawn and run on any stream of effects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from graphlint.declarations import Document, MapOf, OneOf, Schema, suggestion
from graphlint.effects import Effect

HAZARD = "HAZARD"
"""The state that is reported; reserved, and never left."""

EXIT = "exit"
"""The input at the end of a path."""
RAISE = "raise"
"""The input where an exception leaves a path."""

INPUTS = frozenset({*(effect.value for effect in Effect), EXIT, RAISE})

SUBJECTS = ("graphs", "workspace", "memory", "pool", "process")
"""What an automaton can be about. Of all but the last a program has many, each with a state of its own; `process` is one
subject that every effect moves."""

SCHEMA: Mapping[str, Schema] = {"subject": OneOf(SUBJECTS), "start": str, "states": MapOf(MapOf(str))}
"""Keys of a `rule.toml` that declare its automaton."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Automaton:
    """States of a subject: for each the inputs that leave it, and where they lead."""

    subject: str
    start: str
    states: Mapping[str, Mapping[str, str]] = field(hash=False)

    def step(self, state: str, read: str) -> str:
        """The state after an input; the same state where it names no such input, and `HAZARD` for ever."""
        if state == HAZARD:
            return HAZARD
        return self.states[state].get(read, state)

    @cached_property
    def inputs(self) -> frozenset[str]:
        """All inputs that some state names; no other can change anything."""
        return frozenset(read for moves in self.states.values() for read in moves)

    @cached_property
    def effects(self) -> frozenset[Effect]:
        """The effects among its inputs."""
        return frozenset(Effect(read) for read in self.inputs - {EXIT, RAISE})

    def reaches(self, state: str, without: str | None = None) -> frozenset[str]:
        """The states on the paths from a state, itself included.

        Args:
            state: where the paths begin.
            without: an input that the paths do not read.
        """
        found = {state}
        waiting = [state]
        while waiting:
            for read, target in self.states.get(waiting.pop(), {}).items():
                if read != without and target not in found:
                    found.add(target)
                    waiting.append(target)
        return frozenset(found)

    def diagram(self) -> str:
        """The automaton as a Mermaid state diagram, one arrow for all inputs between two states."""
        return "\n".join(("stateDiagram-v2", f"    [*] --> {self.start}", *self._arrows())) + "\n"

    def _arrows(self) -> Iterator[str]:
        for state, moves in self.states.items():
            for target in dict.fromkeys(moves.values()):
                reads = ", ".join(read for read, to in moves.items() if to == target)
                yield f"    {state} --> {target}: {reads}"


def load(document: Document) -> Automaton:
    """The automaton of a `rule.toml` that has followed the schema.

    Raises:
        DeclarationError: a state, an input or a target is unknown, a state cannot be reached, or no path leads to the
            hazard.
    """
    start, states = document["start"], document["states"]
    for state, moves in states.items():
        if not _NAME.fullmatch(state):
            raise document.error(f"state {state!r} must be lower-case letters, digits and underscores", "states", state)
        for read, target in moves.items():
            if read not in INPUTS:
                raise document.error(f"unknown effect {read!r}{suggestion(read, INPUTS)}", "states", state, read)
            if target not in states and target != HAZARD:
                known = (*states, HAZARD)
                raise document.error(f"unknown state {target!r}{suggestion(target, known)}", "states", state, read)
            if read == EXIT and target != HAZARD:
                raise document.error(f"nothing follows {EXIT!r}: it can only lead to {HAZARD}", "states", state, read)
    if start not in states:
        raise document.error(f"unknown state {start!r}{suggestion(start, states)}", "start")

    automaton = Automaton(document["subject"], start, states)
    reachable = automaton.reaches(start)
    if HAZARD not in reachable:
        raise document.error(f"no path leads from {start!r} to {HAZARD}", "start")
    for state, moves in states.items():
        if state not in reachable:
            raise document.error(f"state {state!r} is never entered", "states", state)
        if moves and HAZARD not in automaton.reaches(state):
            message = f"state {state!r} cannot lead to {HAZARD}: leave it without inputs to say that it is safe"
            raise document.error(message, "states", state)
    return automaton
