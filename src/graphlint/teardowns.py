"""Methods that take an object down, and what they reach of what it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from graphlint import behavior as b
from graphlint import flow
from graphlint.behavior import Behavior
from graphlint.effects import Effect
from graphlint.enrolled import members_of
from graphlint.flow import Expr
from graphlint.project import FunctionEntry
from graphlint.summaries import Analysis, Site
from graphlint.values import ELEMENT, Place
from graphlint.vocabulary import words_in

_WHOLE = frozenset(
    ("aclose", "clean", "cleanup", "close", "deinit", "del", "destroy", "dispose", "exit", "finalize", "release",
     "shutdown", "stop", "tear", "teardown", "terminate", "uninit")
)  # fmt: skip
"""Words of methods that take an object down for good: what they release at all, they should release whole."""
_PARTIAL = frozenset(("clear", "discard", "drop", "free", "purge", "reset", "retire", "sleep", "suspend"))
"""Words of methods that may stop half-way: they count where they end graphs of the same object."""
_ALL = frozenset(
    ("all", "and", "cuda", "cudagraph", "device", "down", "everything", "gpu", "graph", "memory", "off", "resource",
     "self", "state", "up")
)  # fmt: skip
"""Words beside these that narrow nothing: `_release_cuda_graphs`, but not `_release_decode_graphs`."""
_RELEASES = frozenset(
    (
        Effect.GRAPH_DEATH,
        Effect.WS_RELEASE,
        Effect.KV_RELEASE,
        Effect.ERASE,
        Effect.COMM_DESTROY,
        Effect.POOL_RETIRE,
    )
)
_HARMLESS = frozenset(
    ("critical", "debug", "error", "exception", "format", "getattr", "hasattr", "id", "info", "isinstance", "len",
     "log", "print", "repr", "str", "type", "warning")
)  # fmt: skip


class Root(NamedTuple):
    """A method that takes its object down."""

    behavior: Behavior
    function: FunctionEntry
    is_whole: bool
    """By its name it takes the object down for good."""
    is_general: bool
    """By its name it takes all down, not one thing of several."""


class Death(NamedTuple):
    """Graphs that a teardown ends, or may end."""

    attribute: str
    """Attribute of the object through which they are reached; empty where it is not through one."""
    owners: frozenset[str]
    """Classes whose attribute held them, or whose method ended them."""
    place: Place
    site: Site
    root: Root


def is_teardown(name: str) -> bool:
    """Whether a function's name says that it takes something down, for good or in part."""
    words = words_in(name)
    return not (_WHOLE | _PARTIAL).isdisjoint(words) and "capture" not in words  # else it ends one that fails


def is_final(name: str) -> bool:
    """Whether a function's name says that it takes something down for good, and all of it."""
    return not _WHOLE.isdisjoint(words_in(name)) and _is_general(name)


def teardowns(analysis: Analysis) -> Mapping[str, tuple[Root, ...]]:
    """Classes, and the methods that take their instances down and release something there; inherited ones included."""
    found: dict[str, list[Root]] = {}
    for behavior in analysis.roots():
        function = analysis.project.functions[behavior.function]
        if function.owner is None or function.kind != "method" or not is_teardown(function.facts.name):
            continue
        kinds = analysis.kinds[behavior.key]
        is_whole = not _WHOLE.isdisjoint(words_in(function.facts.name))
        if Effect.GRAPH_DEATH not in kinds and not (is_whole and kinds & _RELEASES):
            continue
        for name in (function.owner, *_heirs(analysis, function.owner, function)):
            found.setdefault(name, []).append(Root(behavior, function, is_whole, _is_general(function.facts.name)))
    return {name: tuple(roots) for name, roots in found.items()}


def _is_general(name: str) -> bool:
    return frozenset(words_in(name)) <= _WHOLE | _PARTIAL | _ALL


def _heirs(analysis: Analysis, owner: str, function: FunctionEntry) -> Iterator[str]:
    """Subclasses that inherit a method."""
    for each in dict.fromkeys(analysis.project.subclasses.get(owner, ())):
        if analysis.project.method(each, function.facts.name) == function.name:
            yield each
            yield from _heirs(analysis, each, function)


def deaths(analysis: Analysis, root: Root) -> Iterator[Death]:
    """The graphs that a teardown can end, whichever path it takes."""
    me = f"${root.behavior.receiver}"
    for site in analysis.sites(root.behavior):
        if site.effect is not Effect.GRAPH_DEATH:
            continue
        node = site.event.node
        acting = [analysis.project.functions[frame.function].owner for frame in site.event.stack[1:]]
        owners = frozenset(filter(None, (node.slot[0] if node.slot is not None else None, *acting)))
        for place in site.places or ((),):
            attribute = place[1] if len(place) > 1 and place[0] == me else ""
            yield Death(attribute, owners, place, site, root)
            for way in _enrolled(analysis, root, place):
                whole = (me, *way, *place[place.index(ELEMENT) + 1 :])
                yield Death(whole[1] if len(whole) > 1 else "", owners, whole, site, root)


def _enrolled(analysis: Analysis, root: Root, place: Place) -> tuple[Place, ...]:
    """What of an object stands in the table through which a place leads, as ways from it."""
    if ELEMENT not in place or place[0] != f"${root.behavior.receiver}" or root.function.owner is None:
        return ()
    return members_of(analysis, root.function.owner).get(place[1 : place.index(ELEMENT)], ())


def own_methods(analysis: Analysis, class_name: str, root: Root) -> tuple[Behavior, ...]:
    """The teardown and the methods of the same object that it can come to, overriding ones included."""
    ancestors = analysis.project.mro(class_name)
    found: dict[str, Behavior] = {}
    waiting = [root.behavior.key]
    while waiting:
        key = waiting.pop()
        built = analysis.behaviors.built(key)
        if built is None or key in found:
            continue
        if analysis.project.functions[built.function].owner not in ancestors:
            continue
        found[key] = built
        for node in built.nodes:
            if isinstance(node, b.Calls):
                waiting += node.behaviors
                for callee in node.behaviors:
                    if b.is_later(callee):
                        continue
                    name = callee.partition("|")[0].rpartition(".")[2]
                    own = analysis.project.method(class_name, name)
                    waiting += [own] if own is not None else []
    return tuple(found.values())


class Mentions(NamedTuple):
    """What a teardown hands to code that nobody can look into."""

    attributes: frozenset[str]
    itself: bool
    """The object itself, or attributes of names that are made up as it runs."""


def mentions(analysis: Analysis, methods: Sequence[Behavior]) -> Mentions:
    """What some methods of an object use in calls whose target is not known."""
    attributes: set[str] = set()
    itself = False
    for method in methods:
        function = analysis.project.functions[method.function]
        me = method.receiver or ""
        attributes.update(_told_by_name(analysis, method))
        unknown = {span: label for label, span in method.unresolved}
        for call in function.calls:
            label = unknown.get(call.span)
            if label is None:
                continue
            last = label.rpartition(".")[2]
            parts: list[Expr] = [*call.args, *(value for _, value in call.keywords)]
            if label in ("getattr", "setattr", "delattr", "vars"):
                itself |= any(isinstance(part, flow.Name) and part.id == me for part in parts[:1])
                continue
            if last not in _HARMLESS:
                itself |= any(isinstance(part, flow.Name) and part.id == me for part in parts)
                attributes |= {name for part in (*parts, call.callee) for name in attributes_in(part, me)}
    return Mentions(frozenset(attributes), itself)


def _told_by_name(analysis: Analysis, method: Behavior) -> Iterator[str]:
    """Attributes whose objects a method calls by a name that nobody knows: `worker.execute(method)`."""
    for node in method.nodes:
        if not isinstance(node, b.Calls):
            continue
        built = (analysis.behaviors.built(key) for key in node.behaviors)
        if any(each is not None and any(label == "getattr" for label, _ in each.unresolved) for each in built):
            for _, places in node.bindings:
                yield from (place[1] for place in places if place[0] == f"${method.receiver}" and len(place) > 1)


def attributes_in(expr: Expr, me: str) -> Iterator[str]:
    """Attributes of an object that an expression mentions."""
    for part in flow.parts(expr):
        if isinstance(part, flow.Attr) and isinstance(part.base, flow.Name) and part.base.id == me:
            yield part.name
