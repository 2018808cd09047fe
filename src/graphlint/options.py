"""Options: what a caller, a configuration or the environment says once, and what that leaves unasked.

A refusal to do something in a capture that an option has to ask for is none where nobody sets the option.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import behavior as b
from graphlint import flow
from graphlint.flow import Expr
from graphlint.keeping import Store, read_by, related
from graphlint.paths import Refusal
from graphlint.project import FunctionEntry
from graphlint.summaries import Analysis
from graphlint.values import Place, Test, implies_capture
from graphlint.visiting import visit
from graphlint.vocabulary import words_in

_SETTING = ("__init__", "__post_init__", "__new__")
_OF_CAPTURES = frozenset(("graph", "cudagraph", "cuda", "gpu", "device", "enabled", "enable"))
"""Words of options without which nothing is captured."""


def asked_for(analysis: Analysis, store: Store) -> Refusal | None:
    """The refusal in front of a store that only an option asks for; None where there is none, or one that always refuses."""
    root = analysis.behaviors.built(store.root.key)
    refusing = _refusing(analysis)
    if root is None or (root.key not in refusing and root.callees.isdisjoint(refusing)):
        return None
    found: list[Refusal] = []
    keys = {root.key, *(root.callees & refusing)}

    def refuse(refusal: Refusal) -> None:
        if refusal.stack[0].span.start < store.span.end and any(map(_asks, _conjuncts(refusal.guards))):
            found.append(refusal)

    visit(root, lambda key: analysis.behaviors.built(key) if key in keys else None, lambda _: None, refuse, ways=1)
    missed = set(_conjuncts(store.event.guards))
    for refusal in found:
        others = [
            test
            for test in _conjuncts(refusal.guards)
            if not _asks(test)
            and test not in missed
            and not any(related(read, place) for read in read_by(test) for place in store.event.places)
        ]
        if not others or not all(_is_option(analysis, store, test) for test in others):
            return None
    return found[0] if found else None


def _refusing(analysis: Analysis) -> frozenset[str]:
    """Keys of behaviors that raise where the stream is being captured."""
    key = "refusing", ""
    if key not in analysis.known:
        analysis.known[key] = frozenset(
            each.key for each in analysis.behaviors.all() if any(map(b.refuses, each.nodes))
        )
    found: frozenset[str] = analysis.known[key]
    return found


def _conjuncts(tests: tuple[Test, ...]) -> Iterator[Test]:
    for test in tests:
        if test[0] == "and":
            yield from _conjuncts(test[1:])
        else:
            yield test


def _asks(test: Test) -> bool:
    """Whether a test holds in every capture."""
    return implies_capture(test) or (test[0] == "or" and any(map(_asks, test[1:])))


def _is_option(analysis: Analysis, store: Store, test: Test) -> bool:
    """Whether a test is for an option that somebody has to set."""
    match test:
        case ("atom", "true", (*_, str(name)) as parts) if _OF_CAPTURES.isdisjoint(words_in(name)):
            place: Place = tuple(parts)
        case _:
            return False
    function = analysis.project.functions[store.function]
    root, *rest = place
    if root.startswith("mod:") and len(rest) == 1:
        module = analysis.project.modules.get(root[4:])
        values = [bind.value for bind in module.variables.get(rest[0], ())] if module is not None else []
        return len(values) == 1 and not _is_on(values[0])
    if root == f"${store.root.receiver}":
        return bool(rest) and _is_set_once(analysis, function, rest)
    return root.startswith("$") and not rest and _is_off(function, root[1:])


def _is_set_once(analysis: Analysis, method: FunctionEntry, way: list[str]) -> bool:
    """Whether the constructor alone gives an attribute its value, which is not simply true."""
    bound = [
        (function, value)
        for each in (analysis.project.mro(method.owner) if method.owner is not None else ())
        for function, value, how in analysis.behaviors.field_bindings(each).get(way[0], ())
        if how != "annotation"
    ]
    if not bound or any(function.facts.name not in _SETTING or _is_on(value) for function, value in bound):
        return False
    return len(way) > 1 or all(
        not isinstance(value, flow.Name)
        or all(param.name != value.id for param in function.facts.params)
        or _is_off(function, value.id)
        for function, value in bound
    )


def _is_off(function: FunctionEntry, name: str) -> bool:
    """Whether a parameter is not simply true where no caller says what it is."""
    return any(
        param.name == name and param.default is not None and not _is_on(param.default)
        for param in function.facts.params
    )


def _is_on(value: Expr | None) -> bool:
    return isinstance(value, flow.Lit) and bool(value.value)
