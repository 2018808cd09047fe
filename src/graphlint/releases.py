"""Statements that release the graphs in an attribute, as a rewrite puts them into a teardown that misses these."""

from __future__ import annotations

from graphlint import flow
from graphlint.effects import Effect
from graphlint.ownership import Holding
from graphlint.summaries import Analysis
from graphlint.teardowns import is_teardown
from graphlint.values import CONTAINERS
from graphlint.vocabulary import words_in

_MAPPINGS = frozenset(("dict", "OrderedDict", "defaultdict"))


def release_of(analysis: Analysis, holding: Holding, place: str) -> str:
    """Statements that release the graphs in an attribute; empty where nothing is known that would."""
    kinds = analysis.behaviors.field_types(holding.owner, holding.name)
    containers = [t.name for t in kinds if t.name in CONTAINERS]
    if not holding.classes:
        return f"{place}.clear()" if containers else f"{place} = None"
    method = _release_method(analysis, holding)
    if method is None:
        return ""
    if containers:
        each = f"{place}.values()" if set(containers) <= _MAPPINGS else place
        return f"for each in {each}:\n    each.{method}()"
    call = f"{place}.{method}()"
    return f"if {place} is not None:\n    {call}" if _can_be_none(analysis, holding) else call


def _release_method(analysis: Analysis, holding: Holding) -> str | None:
    """The method of the objects in an attribute that releases their graphs, and that takes nothing but the object."""
    names: set[str] = set()
    for name in holding.classes:
        own: list[str] = []
        for each in analysis.project.mro(name):
            entry = analysis.project.classes.get(each)
            for method, full in entry.methods.items() if entry is not None else ():
                function = analysis.project.functions[full]
                params = function.facts.params[1:]
                is_bare = not any(p.default is None and p.kind in ("positional", "keyword") for p in params)
                kinds = analysis.kinds.get(full, frozenset())
                if function.kind == "method" and Effect.GRAPH_DEATH in kinds and is_bare and is_teardown(method):
                    own.append(method)
        if not own:
            return None
        names.add(min(own, key=lambda each: (each.startswith("_"), _breadth(each), each)))
    return names.pop() if len(names) == 1 else None


def _breadth(name: str) -> int:
    """How much a method takes down, by its name: graphs alone first."""
    words = frozenset(words_in(name))
    return 0 if "graph" in words else 1 if words & {"release", "clear", "reset", "drop", "free"} else 2


def _can_be_none(analysis: Analysis, holding: Holding) -> bool:
    return any(
        _is_none(expr)
        for function, expr, how in analysis.behaviors.field_bindings(holding.owner).get(holding.name, ())
        if how == "set"
    )


def _is_none(expr: flow.Expr) -> bool:
    match expr:
        case flow.Lit(value=None):
            return True
        case flow.Choice(then=then, other=other):
            return _is_none(then) or _is_none(other)
    return False
