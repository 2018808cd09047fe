"""Says whether the trace of a run is hazardous, by the automaton that judges the paths of a program.

An ordering rule's automaton is about a subject, and a run has many of each kind. What they are in a trace:

* **workspace**: a block of a private pool that was held when a capture into that pool ended;
* **pool**: a pool, from its first capture; its workspaces are released when the last block in it is freed;
* **graphs**: all graphs that the methods of one object capture; they die where such a method resets them, once for each
  call, whether or not a graph was left to reset;
* **memory**: what one graph reads outside of its pool, from the graph's capture to its death;
* **process**: everything at once.

Graphs of a pool are dead when the last of them is. The path ends where `observe` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphlint.automaton import EXIT, HAZARD, RAISE, Automaton
from graphlint.effects import Effect
from graphlint.validation.child import RAISED
from graphlint.validation.standin import Trace, Traced
from graphlint.validation.watch import EAGER, Pool

Read = tuple[str, Traced | None]
"""What an automaton reads, and the effect behind it."""


@dataclass(frozen=True)
class Hazard:
    """A subject that its automaton led to the hazard."""

    subject: str
    path: tuple[str, ...]
    """The inputs that moved it, with their lines."""


def hazards(automaton: Automaton, trace: Trace) -> tuple[Hazard, ...]:
    """The subjects of a trace that end in the hazard."""
    found = []
    for name, reads in _SUBJECTS[automaton.subject](trace):
        state, path = automaton.start, []
        for read, traced in (*reads, (RAISE if trace.ended.status == RAISED else EXIT, None)):
            following = automaton.step(state, read)
            if following != state:
                path.append(f"{read} {traced.file}:{traced.line}" if traced else read)
            state = following
        if state == HAZARD:
            found.append(Hazard(name, tuple(path)))
    return tuple(found)


def _workspaces(trace: Trace) -> Iterator[tuple[str, list[Read]]]:
    for number, (pool, since) in _kept(trace).items():
        reads = [
            read
            for read in _of_pool(trace, pool, since)
            if read[1] is None or read[1].effect is not Effect.WS_RELEASE or read[1].subject == number
        ]
        yield f"block {number} of pool {pool}", reads


def _kept(trace: Trace) -> dict[int, tuple[Pool, int]]:
    """Blocks that were held when a capture into their pool ended, and the index of that end."""
    held: dict[int, Pool] = {}
    kept: dict[int, tuple[Pool, int]] = {}
    for index, each in enumerate(trace.effects):
        if each.effect is Effect.WS_ALLOC and each.pool not in (None, EAGER):
            assert each.pool is not None
            held[each.subject] = each.pool
        elif each.effect is Effect.WS_RELEASE:
            held.pop(each.subject, None)
        elif each.effect is Effect.CAPTURE_END:
            for number, pool in held.items():
                if pool == each.pool:
                    kept.setdefault(number, (pool, index + 1))
    return kept


def _pools(trace: Trace) -> Iterator[tuple[str, list[Read]]]:
    pools = {
        each.pool: index for index, each in reversed(tuple(enumerate(trace.effects))) if each.effect is Effect.CAPTURE
    }
    for pool, first in pools.items():
        assert pool is not None
        held: set[int] = set()
        reads: list[Read] = []
        for name, each in _of_pool(trace, pool, first):
            assert each is not None
            if each.effect is Effect.WS_ALLOC:
                held.add(each.subject)
            elif each.effect is Effect.WS_RELEASE:
                held.discard(each.subject)
                if not held:
                    reads.append((name, each))
            else:
                reads.append((name, each))
                if each.effect is Effect.GRAPH_DEATH and not held:
                    reads.append((Effect.WS_RELEASE.value, each))  # nothing is left to release
        yield f"pool {pool}", reads


def _of_pool(trace: Trace, pool: Pool, since: int) -> Iterator[Read]:
    """What happens to a pool; of the deaths of its graphs only the last one's."""
    users = sum(each.effect is Effect.CAPTURE and each.pool == pool for each in trace.effects[:since])
    users -= sum(each.effect is Effect.GRAPH_DEATH and each.pool == pool for each in trace.effects[:since])
    for each in trace.effects[since:]:
        if each.pool not in (None, pool):
            continue
        if each.effect is Effect.CAPTURE:
            users += 1
        elif each.effect is Effect.GRAPH_DEATH:
            users -= 1
            if users:
                continue
        yield each.effect.value, each


def _graphs(trace: Trace) -> Iterator[tuple[str, list[Read]]]:
    owners = {each.subject: each.owner for each in trace.effects if each.effect is Effect.CAPTURE}
    for owner in dict.fromkeys(owners.values()):
        reads: list[Read] = []
        for index, each in enumerate((*trace.effects, None)):
            reads += [
                (Effect.GRAPH_DEATH.value, each)
                for release in trace.releases
                if (release.before, release.owner) == (index, owner)
            ]
            if each is None or each.effect is Effect.GRAPH_DEATH:
                continue
            if each.pool is None or owners.get(each.subject) == owner or each.owner == owner:
                reads.append((each.effect.value, each))
        yield f"graphs of object {owner}", reads


def _memory(trace: Trace) -> Iterator[tuple[str, list[Read]]]:
    for graph in dict.fromkeys(each.subject for each in trace.effects if each.effect is Effect.CAPTURE):
        yield f"memory of graph {graph}", [(each.effect.value, each) for each in trace.effects if each.subject == graph]


def _process(trace: Trace) -> Iterator[tuple[str, list[Read]]]:
    yield "process", [(each.effect.value, each) for each in trace.effects]


_SUBJECTS = {"workspace": _workspaces, "pool": _pools, "graphs": _graphs, "memory": _memory, "process": _process}
