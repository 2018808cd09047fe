"""Who else ends the graphs of an object that no teardown of its own does: another's teardown, a callback, the end of a process."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import behavior as b
from graphlint import flow
from graphlint.effects import Effect
from graphlint.frame import last_word
from graphlint.paths import Event
from graphlint.summaries import Analysis
from graphlint.teardowns import is_teardown
from graphlint.values import ELEMENT, Place


def ended_elsewhere(analysis: Analysis) -> frozenset[str]:
    """Names of attributes that teardowns of other objects, and functions that tear down, go through to end graphs."""
    found: set[str] = set()
    for behavior in analysis.roots():
        function = analysis.project.functions[behavior.function]
        if Effect.GRAPH_DEATH not in analysis.kinds[behavior.key] or not is_teardown(function.facts.name):
            continue
        for site in analysis.sites(behavior):
            if site.effect is Effect.GRAPH_DEATH:
                for place in site.places:
                    found |= set(_foreign(site.event, place))
    return frozenset(found)


def _foreign(event: Event, place: Place) -> Iterator[str]:
    """The attributes of other objects that a method goes through, on the way from the first method to a place."""
    receivers = [frame.receiver[0] if len(frame.receiver) == 1 else () for frame in event.stack]
    for here, there in zip(receivers, [*receivers[1:], place], strict=True):
        is_own = bool(here) and there[: len(here)] == here
        parts = there[len(here) + 1 :] if is_own else there[1:]  # of its own, what is behind an attribute
        yield from (part for part in parts if part != ELEMENT)


def is_registered(analysis: Analysis, class_name: str, name: str) -> bool:
    """Whether an object hands a method of what its attribute holds to somebody who calls it later."""
    for each in analysis.project.mro(class_name):
        entry = analysis.project.classes.get(each)
        for method in entry.methods.values() if entry is not None else ():
            function = analysis.project.functions[method]
            me = function.facts.params[0].name if function.facts.params else ""
            for call in function.calls:
                for part in (*call.args, *(value for _, value in call.keywords)):
                    match part:
                        case flow.Attr(base=flow.Attr(base=flow.Name(id=base), name=held), name=used) if (
                            base == me and held == name and is_teardown(used)
                        ):
                            return True
    return False


def exits_with_process(analysis: Analysis, class_name: str) -> bool:
    """Whether instances of a class are made only in functions that a process runs until it exits."""
    short = class_name.rpartition(".")[2]
    makers = [function for function in analysis.behaviors.functions_with(short) if function.owner != class_name]
    makers = [function for function in makers if any(last_word(call.callee) == short for call in function.calls)]
    if not makers:
        return False
    return {function.name for function in makers} <= _in_processes(analysis)


def _in_processes(analysis: Analysis) -> frozenset[str]:
    """Functions that run only as, or under, the target of a process."""
    targets: set[str] = set()
    for function in analysis.behaviors.functions_with("Process"):
        for call in function.calls:
            if last_word(call.callee) == "Process":
                for name, value in call.keywords:
                    if name == "target":
                        targets |= {bound.function for bound in analysis.behaviors.typed(function, value).calls}
    callers: dict[str, set[str]] = {}
    for each in analysis.behaviors.all():
        for node in each.nodes:
            if isinstance(node, b.Calls):
                for callee in node.behaviors:
                    callers.setdefault(callee.partition("|")[0], set()).add(each.function)
    inside = {target for target in targets if not callers.get(target)}
    grown = True
    while grown:
        grown = False
        for callee, those in callers.items():
            if callee not in inside and those <= inside:
                inside.add(callee)
                grown = True
    return frozenset(inside)
