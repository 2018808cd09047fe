"""Requests for buffers: from a registry up through its callers, to where the name that is asked for is made.

Where a registry's key holds a name that callers give, the request is theirs, and the name may hold what the key lacks
otherwise. A caller that passes a name on is no request but a step on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphlint import flow
from graphlint.behavior import Slot
from graphlint.dependence import NOTHING, Called, Dependent, Ingredient, Lossy, Rebase, bindings, leaves
from graphlint.facts import MODULE
from graphlint.project import FunctionEntry
from graphlint.registries import ASPECTS, Registries, Registry, missing, roots
from graphlint.source import Span
from graphlint.words import COMMON_METHODS

_PREDICATE = re.compile(r"(is|has|can|fits|check|validate|ensure)_|fits$")
"""Methods of a buffer that say whether it will do."""
_MOST_CALLERS = 64
_HIGHEST = 5
"""Most callers in each other that a name is followed through."""


@dataclass(frozen=True)
class Step:
    """One function on the way of a name: what its key holds, and what a buffer depends on, over its own parameters."""

    registry: Registry
    function: str
    key: frozenset[Ingredient]
    needs: Mapping[str, frozenset[Ingredient]] = field(hash=False)
    names: frozenset[str] = frozenset()
    reserve: str | None = None
    calls: tuple[tuple[str, Span], ...] = ()
    """Functions and spans on the way from here to the registry, outermost first."""


@dataclass(frozen=True)
class Request:
    """Where a name is made that lacks something."""

    registry: Registry
    function: str
    span: Span
    missing: Mapping[str, frozenset[Ingredient]] = field(hash=False)
    key: frozenset[Ingredient]
    calls: tuple[tuple[str, Span], ...]
    """Functions and spans on the way from here to the registry, outermost first."""
    called: Called | None = None
    """The call; None where the registry itself makes the key."""
    arguments: Mapping[str, flow.Expr] = field(default_factory=dict, hash=False)
    """name, size, dtype, device, reserve -> what the call gives for it, as far as one argument alone does."""
    reserve: str | None = None
    """Parameter of the called function that keeps a buffer from being displaced."""
    open: bool = False
    """The name is still a parameter here, and no caller was found."""


class Requests:
    """What is asked of the registries of a project."""

    def __init__(self, registries: Registries) -> None:
        self.registries = registries
        self.project = registries.project
        self.vocabulary = registries.vocabulary
        self.dependences = registries.dependences
        self.behaviors = registries.analysis.behaviors

    def of(self, registry: Registry) -> list[Request]:
        """Requests whose key lacks what their buffer depends on, where the key is made.

        That is in the callers where they give a name, else, or where its own class alone asks, in the registry.
        """
        start = Step(registry, registry.function or "", registry.key, registry.needs, registry.names, registry.reserve)
        lacking = {aspect: missing(registry.needs[aspect], registry.key) for aspect in ASPECTS}
        if not any(lacking.values()):
            return []
        found = list(self._ask(start, 0))
        if registry.function is None or registry.look is None:
            return found
        owner = self.project.functions[registry.function].owner
        at_home = owner is not None and all(self.project.functions[each.function].owner == owner for each in found)
        if registry.names and not (found and at_home and registry.entry is None):
            return found
        sites = list(self._sites(start))
        if registry.single and any(self._checks(entry, registry.slot) for entry, _ in sites):
            return []
        if sites:
            lacking = {aspect: self._varying(lacking[aspect], start, sites) for aspect in ASPECTS}
            if not any(lacking.values()):
                return []
        calls = found[0].calls if found else ()
        return [Request(registry, registry.function, registry.look, lacking, registry.key, calls)]

    def _varying(
        self, sources: frozenset[Ingredient], step: Step, sites: Sequence[tuple[FunctionEntry, Called]]
    ) -> frozenset[Ingredient]:
        """Those sources that do not come from a parameter for which every caller gives a constant."""

        def varies(source: Ingredient) -> bool:
            if isinstance(source, Lossy):  # what is made of the key and of constants is known with them
                return not roots([source]) or any(varies(each) for each in missing(source.of, step.key))
            return not roots([source]) or any(self._varies(source, step, *site) for site in sites)

        return frozenset(filter(varies, sources))

    def _varies(self, source: Ingredient, step: Step, entry: FunctionEntry, called: Called) -> bool:
        """Whether a caller may give different things at different times."""
        given = self._given(step, called)
        pinned = self.dependences.reading(entry.name).pinned
        found = Rebase(given, nested=False).source(source) - pinned
        values = [given.get(name, NOTHING) for name in roots([source])]
        constant = all(v.literal is not ... or _is_shared(v) or v.sources for v in values)
        return bool(found) or not constant

    def _ask(self, step: Step, depth: int) -> Iterator[Request]:
        """Requests that come through a function, itself included where nobody calls it."""
        sites = list(self._sites(step)) if depth < _HIGHEST else []
        found = False
        for entry, called in sites:
            found = True
            yield from self._asked(step, entry, called, depth)
        if not found and step.function and depth:
            function, span = step.calls[0]
            lacking = {aspect: missing(step.needs[aspect], step.key) for aspect in ASPECTS}
            yield Request(step.registry, function, span, lacking, step.key, step.calls, open=True)

    def _asked(self, step: Step, entry: FunctionEntry, called: Called, depth: int) -> Iterator[Request]:
        if called.eager:
            return  # what a graph reads never comes from here
        given = self._given(step, called)
        nested = step.function in self.project.functions and self.project.functions[step.function].parent == entry.name
        rebase = Rebase(given, called.devices, nested=nested)
        key = rebase.sources(step.key)
        words = {"size": "shape", "dtype": "dtype", "device": "device"}
        pinned = self.dependences.reading(entry.name).pinned
        needs = {aspect: rebase.sources(step.needs[aspect], words[aspect]) - pinned for aspect in ASPECTS}
        lacking = {aspect: missing(needs[aspect], key) for aspect in ASPECTS}
        calls = ((entry.name, called.expr.span), *step.calls)
        reserve: str | None = None
        if step.reserve is not None:
            flag = given.get(step.reserve, NOTHING)
            if flag.place is not None and len(flag.place) == 1 and flag.place[0].startswith("$"):
                reserve = flag.place[0][1:]
            elif step.registry.displaces and not (flag.literal in (False, None) or (flag == NOTHING)):
                return  # kept while a graph may use it, as far as the flag says
        if not any(lacking.values()):
            return
        made = [
            name for name in roots(s for needed in step.needs.values() for s in needed) if self._is_factory(step, name)
        ]
        if any(not given.get(name, NOTHING).memory and not _is_param(given.get(name, NOTHING)) for name in made):
            return  # what is made there is no device memory
        if not step.registry.displaces and self._checks(entry, step.registry.slot):
            return  # whoever asks looks whether it fits
        sizing = roots(source for needed in needs.values() for source in needed)
        me = entry.facts.params[0].name if entry.facts.params and entry.kind == "method" else None
        names = (
            roots(source for name in step.names for source in given.get(name, NOTHING).sources) - sizing - {me or ""}
        )
        if names:
            outer = replace(step, function=entry.name, key=key, needs=needs, names=names, reserve=reserve, calls=calls)
            yield from self._ask(outer, depth + 1)
            return
        if reserve is not None and step.registry.displaces and not self._never_reserved(entry, reserve):
            return
        arguments = dict(self._arguments(step, called))
        yield Request(step.registry, entry.name, called.expr.span, lacking, key, calls, called, arguments, step.reserve)

    def _checks(self, entry: FunctionEntry, slot: Slot | None) -> bool:
        """Whether a function tests what it is given before it uses it."""
        reading = self.dependences.reading(entry.name)
        if slot is None:
            return False
        return bool(reading.checked.get(slot)) or any(
            _PREDICATE.match(flow.last_name(called.expr.callee))
            and any(held.slot == slot for held in called.receiver.held)
            for called in reading.calls
        )

    def _is_factory(self, step: Step, name: str) -> bool:
        """Whether a parameter is a function that makes the buffer."""
        source: Ingredient = (f"${name}",)
        return all(source in step.needs[aspect] for aspect in ASPECTS)

    def callers(self, function: str) -> Iterator[tuple[FunctionEntry, Called]]:
        """Calls of a function, anywhere in the project."""
        return self._sites(Step(Registry(function, function, frozenset(), {}), function, frozenset(), {}))

    def lacking(self, request: Request) -> frozenset[str]:
        """Parameters of the registry by which it is given what the key lacks."""
        registry = request.registry
        found = roots(each for aspect in ASPECTS for each in missing(registry.needs[aspect], registry.key))
        if request.called is None or len(request.calls) != 1:
            return found
        given = self._given(Step(registry, registry.function or "", registry.key, registry.needs), request.called)
        lacks = {each for aspect in ASPECTS for each in leaves(request.missing[aspect])}
        return frozenset(
            name for name in found if name not in given or not lacks.isdisjoint(leaves(given[name].sources))
        )

    def calls(self, function: str) -> Iterator[tuple[FunctionEntry, dict[str, Dependent]]]:
        """Functions that call a function, and what they give by parameter."""
        step = Step(Registry(function, function, frozenset(), {}), function, frozenset(), {})
        return ((entry, self._given(step, called)) for entry, called in self._sites(step))

    def _never_reserved(self, entry: FunctionEntry, flag: str) -> bool:
        """Whether every caller leaves a flag off."""
        flags = [given.get(flag, NOTHING) for _, given in self.calls(entry.name)]
        return bool(flags) and all(each.literal in (False, None) for each in flags)

    def _arguments(self, step: Step, called: Called) -> Iterator[tuple[str, flow.Expr]]:
        """What a call gives for the name and for what a buffer depends on, where that is one argument."""
        expr = called.expr
        params = self._params(step)
        given = dict(zip(params, expr.args, strict=False)) | {k: v for k, v in expr.keywords if k is not None}
        wanted = {"name": step.names, "reserve": frozenset(filter(None, (step.reserve,)))}
        wanted |= {aspect: roots(step.needs[aspect]) for aspect in ASPECTS}
        for part, names in wanted.items():
            found = [given[name] for name in params if name in names and name in given]
            found += [given[name] for name in sorted(names - set(params)) if name in given]
            if len(found) == 1:
                yield part, found[0]

    def _params(self, step: Step) -> tuple[str, ...]:
        function = self.project.functions.get(step.function)
        if function is None or (step.registry.entry is not None and step.function == (step.registry.function or "")):
            return step.registry.params
        skip = 1 if function.kind in ("method", "classmethod", "property") else 0
        return tuple(p.name for p in function.facts.params if p.kind == "positional")[skip:]

    def _given(self, step: Step, called: Called) -> dict[str, Dependent]:
        """Parameter of the function that is asked -> what a call gives for it."""
        declared = step.registry.entry is not None and step.function == (step.registry.function or "")
        function = self.project.functions.get(step.function)
        if function is not None and not declared:
            return bindings(function, called.receiver, called)
        params = step.registry.params
        result = dict(zip(params, called.args, strict=False))
        result.update(called.keywords)
        if function is not None:
            for param in function.facts.params:
                if param.name not in result and isinstance(param.default, flow.Lit):
                    result[param.name] = Dependent(literal=param.default.value)
        return result

    def _sites(self, step: Step) -> Iterator[tuple[FunctionEntry, Called]]:
        """Calls of a function, anywhere in the project."""
        function = self.project.functions.get(step.function)
        name = step.function or step.registry.name
        if function is not None and function.parent is not None:
            word = function.facts.name.partition("@")[0]
            parent = self.project.functions[function.parent]
            callers = [
                parent,
                *(f for f in self.project.functions.values() if f.parent == parent.name and f is not function),
            ]
        else:
            word = name.rpartition(".")[2]
            callers = list(self._callers(word, name))
        for entry in callers:
            if entry is function:
                continue
            for called in self.dependences.reading(entry.name).calls:
                if flow.last_name(called.expr.callee) != word and not (
                    called.functions and step.function in called.functions
                ):
                    continue
                if (
                    step.function
                    and (step.function in called.functions or self._overrides(called.functions, step.function))
                ) or (
                    step.registry.entry is not None
                    and not step.calls
                    and (step.registry.name in map(self.vocabulary.canonical, called.names))
                    and not (step.function or self._in_tree(called))
                ):
                    yield entry, called

    def _in_tree(self, called: Called) -> bool:
        return any(
            self.registries.is_named(function, self.vocabulary.canonical(function))
            and function in self.project.functions
            for function in called.functions
        )

    def _overrides(self, functions: Sequence[str], name: str) -> bool:
        base = self.project.functions[name]
        if base.owner is None:
            return False
        return any(
            (other := self.project.functions[each]).owner is not None
            and other.facts.name == base.facts.name
            and other.owner in self.project.mro(base.owner)
            for each in functions
        )

    def _callers(self, word: str, name: str) -> Iterator[FunctionEntry]:
        """Functions that may call a function, by its name; where that says little they mention its class too."""
        owner = name.rpartition(".")[0].rpartition(".")[2]
        telling = "_" in word.strip("_") and word not in COMMON_METHODS
        holders = self.registries.stores.holders(name.rpartition(".")[0]) if not telling else frozenset()
        seen = 0
        for entry in self.behaviors.functions_with(word):
            module = self.project.functions[f"{entry.module.name}.{MODULE}"]
            near = name.rpartition(".")[0] == entry.module.name
            if telling or near or owner in module.facts.words or not holders.isdisjoint(module.facts.words):
                seen += 1
                if seen > _MOST_CALLERS:
                    return
                yield entry


def _is_shared(value: Dependent) -> bool:
    """Whether it is read from a module or a class."""
    return bool(value.held) and all(held.kind != "instance" and not held.keyed for held in value.held)


def _is_param(value: Dependent) -> bool:
    return value.place is not None and len(value.place) == 1
