"""Where device memory is kept: what a function allocates and puts where it outlives the call, and what lets it do so.

Nothing here says what is wrong. A store may be a miss of a cache, the growth of a workspace, or a buffer that a
constructor makes; rules ask for the tests around it, and along which paths it is reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphlint import behavior as b
from graphlint.behavior import Behavior
from graphlint.effects import Effect
from graphlint.facts import MODULE
from graphlint.paths import Config, Event
from graphlint.project import Module
from graphlint.source import Span
from graphlint.summaries import Analysis
from graphlint.values import ELEMENT, MEMO, Origin, Place, Test
from graphlint.visiting import visit

_LOCAL = ("@", "%")
_MOST_CALLERS = 4
"""Deepest chain of callers that is looked at."""
_MOST_DEATHS = 3
"""The same, for the end of graphs before a call."""


@dataclass(frozen=True)
class Store:
    """Device memory that a function allocates and keeps, itself or through what it calls with it."""

    root: Behavior
    event: Event
    """The store, in the places of the function; its stack leads from the function to it."""
    node: b.Touches
    origins: tuple[Origin, ...]

    @property
    def function(self) -> str:
        """The function that allocates."""
        return self.root.function

    @property
    def span(self) -> Span:
        """The statement in the function that keeps the memory."""
        return self.event.stack[0].span

    @property
    def origin(self) -> Origin | None:
        """The allocation, where the function makes it."""
        return next((origin for origin in self.origins if origin.function == self.function), None)

    @property
    def is_memo(self) -> bool:
        """Whether a decorator keeps it."""
        return self.node.slot is not None and self.node.slot[1] == MEMO

    @property
    def by_name(self) -> bool:
        """Whether only names say that it is device memory."""
        return all(origin.by_name for origin in self.origins)

    def follows(self, event: Event) -> bool:
        """Whether an event of a run is this store."""
        mine = self.event.stack
        theirs = event.stack[-len(mine) :]
        return event.node.span == self.node.span and [f[:2] for f in mine] == [f[:2] for f in theirs]


def stores(analysis: Analysis) -> tuple[Store, ...]:
    """All of them, but for the places of objects that are made and dropped with the function."""
    key = "stores", ""
    if key not in analysis.known:
        analysis.known[key] = tuple(_stores(analysis))
    found: tuple[Store, ...] = analysis.known[key]
    return found


def _stores(analysis: Analysis) -> list[Store]:
    found: list[Store] = []
    keepers = _keepers(analysis)
    for root in analysis.roots():
        kwargs = {
            f"${param.name}"
            for param in analysis.project.functions[root.function].facts.params
            if param.kind == "kwargs"
        }

        def see(event: Event, root: Behavior = root, kwargs: set[str] = kwargs) -> None:
            node = event.node
            if not isinstance(node, b.Touches) or node.how not in ("write", "add") or not event.places:
                return
            own = len(event.stack) == 1
            origins = node.fresh if own else _given(root, event.value_places)
            outlives = event.places[0][0] not in kwargs and (
                len(event.places[0]) > 1 or not event.places[0][0].startswith(_LOCAL)
            )
            if origins and outlives:
                found.append(Store(root, event, node, origins))

        if root.given or any(isinstance(node, b.Touches) and node.fresh for node in root.nodes):
            visit(root, keepers.get if root.given else lambda _: None, see, ways=1)
    return found


def puts(analysis: Analysis, slot: b.Slot) -> tuple[Store, ...]:
    """Where items are put into a container, whatever they are: what makes them may be anybody's."""
    key = "puts", "\0".join(slot)
    if key not in analysis.known:
        found: list[Store] = []
        for root in _putting(analysis).get(slot, ()):

            def see(event: Event, root: Behavior = root) -> None:
                node = event.node
                if isinstance(node, b.Touches) and node.how == "add" and node.slot == slot and event.places:
                    found.append(Store(root, event, node, node.fresh))

            visit(root, lambda _: None, see)
        analysis.known[key] = tuple(found)
    stored: tuple[Store, ...] = analysis.known[key]
    return stored


def _putting(analysis: Analysis) -> Mapping[b.Slot, Sequence[Behavior]]:
    """By container, the functions that put items into it."""
    key = "putting", ""
    if key not in analysis.known:
        found: dict[b.Slot, dict[str, Behavior]] = {}
        for each in analysis.behaviors.all():
            for node in each.nodes if "|" not in each.key and not each.key.endswith(MODULE) else ():
                if isinstance(node, b.Touches) and node.how == "add" and node.slot is not None:
                    found.setdefault(node.slot, {})[each.key] = each
        analysis.known[key] = {slot: tuple(each.values()) for slot, each in found.items()}
    by_slot: Mapping[b.Slot, Sequence[Behavior]] = analysis.known[key]
    return by_slot


def _keepers(analysis: Analysis) -> Mapping[str, Behavior]:
    """By key, the behaviors that put an argument somewhere, themselves or through a call."""
    handing: dict[str, set[str]] = {}
    waiting: list[str] = []
    for key, each in analysis.effectful.items():
        for node in each.nodes:
            if isinstance(node, b.Touches) and any(map(_is_argument, node.value_places)):
                waiting.append(key)
            elif isinstance(node, b.Calls) and any(
                _is_argument(place) for _, places in node.bindings for place in places
            ):
                for callee in node.behaviors:
                    handing.setdefault(callee, set()).add(key)
    found: set[str] = set()
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting += handing.get(key, ())
    return {key: analysis.effectful[key] for key in found}


def _is_argument(place: Place) -> bool:
    return len(place) == 1 and place[0].startswith("$")


def _given(root: Behavior, places: Iterable[Place]) -> tuple[Origin, ...]:
    return tuple(origin for place in places if len(place) == 1 for origin in root.given.get(place[0], ()))


# --------------------------------------------------------------------------------------------------------------- tests


def is_miss(analysis: Analysis, store: Store) -> bool:
    """Whether the memory is allocated because it was asked for and not there."""
    name = store.function.rpartition(".")[2]
    if store.is_memo or name == "__missing__" or analysis.project.functions[store.function].memo is not None:
        return True
    flags = set(_written(store.root))
    return any(
        related(read, place) or (read in flags and read[:-1] == place[: len(read) - 1] and len(read) > 1)
        for guard in store.event.guards
        for read in read_by(guard)
        for place in store.event.places
    )


def _written(root: Behavior) -> Iterator[Place]:
    """Attributes and variables that a function sets."""
    for node in root.nodes:
        if isinstance(node, b.Touches) and node.how == "write":
            yield from node.places


def read_by(test: Test) -> Iterator[Place]:
    """Places that a test asks about, or compares."""
    match test:
        case ("atom", _, place) if place:
            yield place
        case ("compare", _, places, _):
            yield from places
        case ("not" | "and" | "or", *inner):
            for each in inner:
                yield from read_by(each)


def related(one: Place, other: Place) -> bool:
    """Whether one place is the other, or in it."""
    if one and one[-1] == ELEMENT:
        one = one[:-1]
    return one[: len(other)] == other or (other[: len(one)] == one and len(one) > 1)


def own_test(analysis: Analysis, function: str) -> str | None:
    """A function that another one's module has, and that says, without arguments, whether the stream is captured."""
    module = analysis.project.functions[function].module
    key = "own test", module.name
    if key not in analysis.known:
        analysis.known[key] = _own_test(analysis, module)
    found: str | None = analysis.known[key]
    return found


def _own_test(analysis: Analysis, module: Module) -> str | None:
    for symbol in module.scope.values():
        target = analysis.project.resolve(symbol.name) if symbol.kind == "import" else symbol
        built = analysis.behaviors.built(target.name) if target.kind == "function" else None
        if built is None or not built.asks_capture:
            continue
        if all(param.default is not None for param in analysis.project.functions[target.name].facts.params):
            return target.name
    return None


# ---------------------------------------------------------------------------------------------------------------- runs


def all_runs(analysis: Analysis) -> Runs:
    """The runs to all stores."""
    key = "runs", ""
    if key not in analysis.known:
        analysis.known[key] = Runs(analysis, stores(analysis))
    found: Runs = analysis.known[key]
    return found


class Runs:
    """Which stores are reached from where, each run made once."""

    def __init__(self, analysis: Analysis, stores: Sequence[Store]) -> None:
        self.analysis = analysis
        self._at: dict[Span, list[Store]] = {}
        for store in stores:
            self._at.setdefault(store.node.span, []).append(store)
        self._reached: dict[tuple[str, bool | None], Mapping[int, Event] | None] = {}
        self._callers: dict[str, list[Behavior]] | None = None

    def reached(self, root: Behavior, *, capturing: bool | None) -> Mapping[int, Event] | None:
        """Stores (by id) that the paths of a function come to; None where its paths are too many.

        Args:
            root: the function.
            capturing: whether the stream is being captured from its start on; None: only stores inside of captures that
                it begins itself count.
        """
        key = (root.key, capturing)
        if key not in self._reached:
            found: dict[int, Event] = {}

            def monitor(_state: str, event: Event, config: Config) -> None:
                if not isinstance(event.node, b.Touches):
                    return
                for store in self._at.get(event.node.span, ()):
                    counts = capturing is not None or config.fact(("capturing", ())) is True
                    if counts and id(store) not in found and store.follows(event):
                        found[id(store)] = event

            if capturing is None:
                done = self.analysis.run(root, "", monitor)
            else:
                done = self.analysis.run(root, "", monitor, capturing=capturing)
            self._reached[key] = found if done is not None or found else None
        return self._reached[key]

    def callers(self, function: str) -> list[Behavior]:
        """Functions and modules of the project that call a function."""
        if self._callers is None:
            self._callers = {}
            for root in self.analysis.behaviors.all():
                calls = (node for node in root.nodes if isinstance(node, b.Calls))
                for name in {k.partition("|")[0] for call in calls for k in call.behaviors if not b.is_later(k)}:
                    if "|" not in root.key and name != root.function:
                        self._callers.setdefault(name, []).append(root)
        return self._callers.get(function, [])

    def survives(self, root: Behavior, store: Store, *, capturing: bool | None, depth: int = 0) -> bool:
        """Whether a store that a function comes to is also come to from its callers: what these did may prevent it.

        A public function that is asked for memory while somebody else captures may have callers that nobody sees.
        """
        effectful = self.analysis.effectful
        callers = [effectful[each.key] for each in self.callers(root.function) if each.key in effectful]
        is_public = not any(part.startswith("_") for part in root.function.split(".")[-2:])
        if not callers or depth >= _MOST_CALLERS or (capturing and is_public):
            return True
        for caller in callers:
            reached = self.reached(caller, capturing=capturing)
            if reached is None:
                return True
            if id(store) in reached and self.survives(caller, store, capturing=capturing, depth=depth + 1):
                return True
        return False

    def follows_graph_death(self, root: Behavior, here: Span, depth: int = 0) -> bool:
        """Whether graphs died before, in the same function or in every one that calls it, and none is captured since."""
        effectful = self.analysis.effectful
        if root.key not in effectful:
            return False
        sites = self.analysis.sites(root)
        dead = any(s.effect is Effect.GRAPH_DEATH and s.event.stack[0].span.start < here.start for s in sites)
        captures = [s.event.stack[0].span for s in sites if s.effect is Effect.CAPTURE]
        loops = [node.span for node in root.nodes if isinstance(node, b.Repeat) and node.span.contains(here)]
        if dead or depth == _MOST_DEATHS:
            return dead and not any(loop.contains(capture) for loop in loops for capture in captures)
        callers = self.callers(root.function)
        return bool(callers) and all(
            self.follows_graph_death(effectful.get(caller.key, caller), node.span, depth + 1)
            for caller in callers
            for node in caller.nodes
            if isinstance(node, b.Calls) and any(key.partition("|")[0] == root.function for key in node.behaviors)
        )
