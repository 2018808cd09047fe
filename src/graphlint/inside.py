"""What runs inside captures, by what the calls on the way give for optional arguments.

A function that makes something where its argument is None (`if table is None: table = self.make_table()`) does not make it
for callers that give it one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from graphlint import behavior as b
from graphlint import flow
from graphlint.assignments import falls_through, given_locally, returning
from graphlint.behavior import Behavior
from graphlint.summaries import Analysis
from graphlint.values import Test

_MOST_WAYS = 8
"""Most choices of arguments of one function that are told apart."""
_ASKING = frozenset(("get", "pop", "getattr", "next"))
"""Calls that give what is there, or None."""

_Given: TypeAlias = Mapping[str, bool]
"""By parameter, whether it is given something; parameters of which that is not known are left out."""


def run_inside(analysis: Analysis) -> frozenset[str]:
    """Functions that captured code calls."""
    key = "run inside", ""
    if key not in analysis.known:
        analysis.known[key] = frozenset(each.partition("|")[0] for each in _keys(analysis))
    found: frozenset[str] = analysis.known[key]
    return found


def read_inside(analysis: Analysis) -> frozenset[b.Slot]:
    """Attributes and variables that captured code reads."""
    key = "read inside", ""
    if key not in analysis.known:
        found: set[b.Slot] = set()
        for each in analysis.behaviors.all():
            found |= each.reads_in_capture
            for name in each.params_in_capture:
                found |= analysis.behaviors.slots_given.get((each.function, name), set())
        for name in _keys(analysis):
            built = analysis.behaviors.built(name)
            found |= built.reads if built is not None else frozenset()
        analysis.known[key] = frozenset(found)
    slots: frozenset[b.Slot] = analysis.known[key]
    return slots


def _keys(analysis: Analysis) -> frozenset[str]:
    """Keys of the behaviors that captured code calls."""
    key = "keys inside", ""
    if key not in analysis.known:
        analysis.known[key] = _run_inside(analysis)
    found: frozenset[str] = analysis.known[key]
    return found


def _run_inside(analysis: Analysis) -> frozenset[str]:
    waiting: list[tuple[str, _Given]] = []
    for each in analysis.behaviors.all():
        for node in each.nodes if each.calls_in_capture else ():
            if isinstance(node, b.Calls):
                given = _given(analysis, each, node, {})
                waiting += [(key, given) for key in node.behaviors if key in each.calls_in_capture]
    seen: dict[str, list[_Given]] = {}
    while waiting:
        key, given = waiting.pop()
        built = analysis.behaviors.built(key)
        ways = seen.setdefault(key, [])
        if built is None or given in ways or {} in ways:
            continue
        if len(ways) >= _MOST_WAYS:
            given = {}
        ways.append(given)
        for call in _calls(built.node, given):
            passed = _given(analysis, built, call, given)
            waiting += [(name, passed) for name in call.behaviors]
    return frozenset(key for key, ways in seen.items() if ways)


def _calls(node: b.Node, given: _Given) -> Iterator[b.Calls]:
    """Calls that run inside the capture which a node runs in."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, b.Calls):
            if not node.outside:
                yield node
        elif isinstance(node, b.Either) and (answer := _answer(node.test, given)) is not None:
            waiting.append(node.then if answer else node.other)
        else:
            waiting += b.parts(node)


def _answer(test: Test, given: _Given) -> bool | None:
    """The answer to a question about arguments, as far as it is known which are given."""
    match test:
        case ("atom", "none", (name,)) if name[:1] == "$":
            known = given.get(name[1:])
            return not known if known is not None else None
        case ("atom", "true", (name,)) if name[:1] == "$":
            return False if given.get(name[1:]) is False else None
        case ("not", inner):
            answer = _answer(inner, given)
            return not answer if answer is not None else None
        case ("and" | "or" as op, *inner):
            answers = [_answer(each, given) for each in inner]
            decides = bool(op == "or")
            if decides in answers:
                return decides
            return not decides if None not in answers else None
    return None


def _given(analysis: Analysis, caller: Behavior, call: b.Calls, known: _Given) -> _Given:
    """Which parameters a call gives something, and which it gives None."""
    found: dict[str, bool] = {}
    for name, places in call.bindings:
        match places:
            case (("!none",),):
                found[name] = False
            case ((root,),) if root[:1] == "$" and root[1:] in known:
                found[name] = known[root[1:]]
            case ((root,),) if root[:1] == "@" and _is_made(analysis, caller, root):
                found[name] = True
    return found


def _is_made(analysis: Analysis, caller: Behavior, root: str) -> bool:
    """Whether a place stands for what a call in a function gives, and that is never None, as far as it can be read."""
    offset = root[1:].partition(".")[0]
    if not offset.isdigit() or int(offset) not in _calls_alone(analysis, caller.function):
        return False
    called = {
        key
        for node in caller.nodes
        if isinstance(node, b.Calls) and node.span.start == int(offset)
        for key in node.behaviors
    }
    return not any(_may_be_nothing(analysis, key.partition("|")[0]) for key in called)


def _calls_alone(analysis: Analysis, function: str) -> frozenset[int]:
    """Where a function has calls that no larger expression with other outcomes begins with."""
    key = "calls alone", function
    if key not in analysis.known:
        found = list(flow.expressions(analysis.project.functions[function].lowered.flow))
        others = {each.span.start for each in found if isinstance(each, flow.Choice | flow.Op)}
        certain = (each for each in found if isinstance(each, flow.Call) and flow.last_name(each) not in _ASKING)
        analysis.known[key] = frozenset(each.span.start for each in certain) - others
    offsets: frozenset[int] = analysis.known[key]
    return offsets


def _may_be_nothing(analysis: Analysis, function: str) -> bool:
    """Whether a function of the project may return None: where it ends without a return, or by what it returns."""
    body = analysis.project.functions[function].lowered.flow
    if falls_through(body):
        return True
    returned = [each.value for each in returning(body)]
    parts = [part for value in returned if value is not None for part in flow.parts(value)]
    names = {part.id for part in parts if isinstance(part, flow.Name)}
    parts += [part for name, value, _ in given_locally(body) if name in names for part in flow.parts(value)]
    return None in returned or any(isinstance(part, flow.Lit) and part.value is None for part in parts)
