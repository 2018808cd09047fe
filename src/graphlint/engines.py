"""Objects that are made more than once in a process, and what runs once for each of them.

An engine, a runner, a backend: whatever owns graphs and has siblings. That one has siblings is read from the calls: one
function of the project calls a method on two receivers, or on every item of a collection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphlint import behavior as b
from graphlint import flow
from graphlint.behavior import Behavior
from graphlint.effects import Effect
from graphlint.paths import Event, Frame
from graphlint.source import Span
from graphlint.summaries import Analysis, binds
from graphlint.values import ELEMENT, Place

_GIVES_UP = frozenset(
    (
        Effect.GRAPH_DEATH,
        Effect.WS_RELEASE,
        Effect.KV_RELEASE,
        Effect.COMM_DESTROY,
        Effect.POOL_RETIRE,
        Effect.ERASE,
    )
)


_MOST_OWNERS = 3


@dataclass(frozen=True)
class Repetition:
    """Where a method runs for several receivers."""

    root: str
    """The function that calls it for all of them."""
    receivers: tuple[Place, ...]
    """In the order of the calls, in the root's places; one alone is any item of a collection."""
    frames: tuple[Frame, ...]
    """The last of the calls, in the root."""


def repeated(analysis: Analysis) -> Mapping[str, tuple[Repetition, ...]]:
    """Methods that some function runs for two receivers or more, with the functions that do."""
    found: dict[str, list[Repetition]] = {}
    beside = _Siblings(analysis)
    for root in analysis.roots():
        if analysis.kinds[root.key].isdisjoint(_GIVES_UP):
            continue  # what it runs for several objects releases nothing
        receivers: dict[str, dict[Place, Frame]] = {}
        for site in analysis.sites(root):
            for depth, frame in enumerate(site.event.stack):
                for place in frame.receiver if depth else ():  # several: it is one of them, and the others are there
                    receivers.setdefault(frame.function, {}).setdefault(place, site.event.stack[0])
        many = root.many | _collected(root) if receivers else root.many
        for function, places in receivers.items():
            looped = [place for place in places if ELEMENT in place or place[0] in many]
            own = {place for place in places if place[0].startswith(("$", "@", "mod:", "class:"))}
            if looped or len(own) > 1 or any(beside.has(root.function, function, place) for place in own):
                repetition = Repetition(root.function, tuple(places), tuple(places.values()))
                found.setdefault(function, []).append(repetition)
    return {function: tuple(each) for function, each in found.items()}


def has_sibling(analysis: Analysis, root: str, method: str, place: Place) -> bool:
    """Whether the object in an attribute, which a method runs on, has one of its class in another attribute beside it."""
    return _Siblings(analysis).has(root, method, place)


def has_others(analysis: Analysis, class_name: str, depth: int = 0) -> bool:
    """Whether the project makes more than one object of a class: in two places, in a loop, or for each of several owners."""
    short = class_name.rpartition(".")[2]
    makers = [
        (entry, call)
        for entry in analysis.behaviors.functions_with(short)
        for call in entry.calls
        if flow.last_name(call.callee) == short and isinstance(call.callee, flow.Name | flow.Attr)
    ]
    if len(makers) != 1:
        return len(makers) > 1
    (entry, call), *_ = makers
    body = entry.lowered.flow
    loops = [each.span for each in flow.statements(body) if isinstance(each, flow.Star)]
    loops += [each.span for each in flow.expressions(body) if isinstance(each, flow.Each)]
    if any(span.contains(call.span) for span in loops):
        return True
    return entry.owner is not None and depth < _MOST_OWNERS and has_others(analysis, entry.owner, depth + 1)


def joining(analysis: Analysis, class_name: str) -> tuple[str, Span] | None:
    """Where a method makes an object of a class although another attribute of its own object may hold one already.

    Returns:
        The method, and the call.
    """
    short = class_name.rpartition(".")[2]
    for entry in analysis.behaviors.functions_with(short):
        if entry.owner is None or entry.facts.name == "__init__":
            continue
        for bind in binds(entry.lowered.flow):
            match bind:
                case flow.Bind(target=flow.Attr(name=name), value=flow.Call() as call) if flow.last_name(
                    call.callee
                ) == short and _has_another(analysis, entry.owner, class_name, name):
                    return entry.name, call.span
    return None


def _has_another(analysis: Analysis, holder: str, class_name: str, name: str) -> bool:
    """Whether the constructor of a class gives an attribute, other than the one of this name, an object of another class."""
    short = class_name.rpartition(".")[2]
    for each in analysis.project.mro(holder):
        if each in analysis.project.classes:
            for attribute, bound in analysis.behaviors.field_bindings(each).items():
                for entry, value, how in bound if attribute != name else ():
                    if how == "set" and entry.facts.name == "__init__" and flow.last_name(value) == short:
                        return isinstance(value, flow.Call)
    return False


def _collected(root: Behavior) -> set[str]:
    """Roots of objects that a function puts into a container beside others: each call, or each round, makes one more."""
    return {
        place[0]
        for node in root.nodes
        if isinstance(node, b.Touches) and node.how == "add"
        for place in node.value_places
        if len(place) == 1 and place[0][0] == "@"
    }


class _Siblings:
    """Attributes of one object that hold objects of one class: a prefill runner beside a decode runner."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._held: dict[str, list[tuple[str, frozenset[str]]]] = {}

    def has(self, root: str, method: str, place: Place) -> bool:
        """Whether the object that a method runs on has a sibling in an attribute of the root's own.

        It lies in another one of these attributes, or the root makes it, and is done with it, beside what lies there.
        """
        functions = self._analysis.project.functions
        holder, owner = functions[root].owner, functions[method].owner
        params = functions[root].facts.params
        if holder is None or owner is None or not params or functions[root].facts.name == "__init__":
            return False
        is_own = len(place) == 2 and place[0] == f"${params[0].name}"
        is_made = len(place) == 1 and place[0][0] == "@" and not method.endswith(".__init__")
        is_made = is_made and not self._is_preparing(root)
        if not is_own and not is_made:
            return False
        named = [name for name, classes in self._fields(holder) if owner in classes]
        return bool(named) if is_made else place[1] in named and len(named) > 1

    def _is_preparing(self, root: str) -> bool:
        """Whether constructors alone call a function: what they make may not be there yet."""
        callers = self._analysis.callers.get(root, frozenset())
        return bool(callers) and all(key.partition("|")[0].endswith(".__init__") for key in callers)

    def _fields(self, holder: str) -> list[tuple[str, frozenset[str]]]:
        known = self._held.get(holder)
        if known is None:
            behaviors, mro = self._analysis.behaviors, self._analysis.project.mro
            known = self._held[holder] = [
                (name, frozenset(each for t in behaviors.field_types(holder, name) for each in mro(t.name)))
                for each in mro(holder)
                if each in self._analysis.project.classes
                for name in behaviors.field_bindings(each)
            ]
        return known


def releasing_frame(event: Event) -> int | None:
    """Depth of the innermost method on an object of its own around an event: what an engine does for itself."""
    for depth in range(len(event.stack) - 1, -1, -1):
        receiver = event.stack[depth].receiver
        if len(receiver) == 1 and not receiver[0][0].startswith(("class:", "mod:")):
            return depth
    return None
