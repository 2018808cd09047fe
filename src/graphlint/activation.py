"""One call of a function within a run: how its places read in the function that the run began with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from graphlint import behavior as b
from graphlint.behavior import Behavior, Node
from graphlint.paths import Config, Frame, knowing
from graphlint.source import Span
from graphlint.values import WIDEST, Place, Test

RESULT: Place = ("<result>",)
"""Stands for what a returning function returned."""
ANSWERS = {
    "!none": {"none": True, "true": False},
    "!true": {"none": False, "true": True},
    "!false": {"none": False, "true": False},
}
"""What questions about the constants that stand for arguments have for answers."""


@cache
def since(root: str) -> int:
    """The serial of the activation that a place's root belongs to; 0 for those of the run's root."""
    serial = root.rpartition("#")[2] if "#" in root else ""
    return int(serial) if serial.isdigit() else 0


@dataclass
class Activation:
    """One activation: how its places read in the run's root."""

    behavior: Behavior
    bindings: Mapping[str, tuple[Place, ...]]
    stack: tuple[Frame, ...]
    serial: int
    body: tuple[Node, Activation] | None = None
    """The with-block to run where this context manager yields."""
    is_root: bool = False
    activations: tuple[int, ...] = (0,)
    """Serials of the activations that led here, and its own."""
    aliases: dict[tuple[str, str], tuple[Place, ...]] = field(default_factory=dict)
    """(root, attribute) -> what it is, for the objects made so far in the run; one table for all of its scopes."""
    ways: dict[Place, Place] = field(default_factory=dict)
    """Longer places of objects -> the places that are the same ones; one table for all scopes of a run."""
    alike: bool = False
    """Attributes that may be one object are one."""

    def __post_init__(self) -> None:
        for (root, attribute), places in self.behavior.aliases.items():
            made = self.own((root,))
            self.aliases[made[0][0], attribute] = tuple(each for place in places for each in self.own(place))
        for way, target in (*self.behavior.paths.items(), *(self.behavior.alike.items() if self.alike else ())):
            for object_ in self.own(way[:1]):
                path = (*object_, *way[1:])
                self.ways[path] = (*object_, *target[1:])

    def frame(self, span: Span) -> Frame:
        """This activation as a step on the way to what happens in a span of it."""
        return Frame(self.behavior.function, span, self.receiver)

    @cached_property
    def receiver(self) -> tuple[Place, ...]:
        """The object that it is a method of; it stays the same one."""
        name = self.behavior.receiver
        return self.rebase(((f"${name}",),)) if name is not None else ()

    def rebase(self, places: Iterable[Place]) -> tuple[Place, ...]:
        """The same places as the run's root writes them."""
        result: dict[Place, None] = {}
        for place in places:
            for each in self.own(place):
                for final in self._aliased(each, 0):
                    result[final] = None
        return tuple(result)[:WIDEST]

    def references(self, places: Iterable[Place]) -> tuple[Place, ...]:
        """The same for attributes that are given something else: not what they were, of which another name stays."""
        result: dict[Place, None] = {}
        for place in places:
            for each in self.own(place):
                if len(each) < 2:
                    return self.rebase(places)
                for owner in self._aliased(each[:-1], 0):
                    result[owner + each[-1:]] = None
        return tuple(result)[:WIDEST]

    def rebase_read(self, read: Iterable[Place]) -> tuple[Place, ...]:
        """The same for all that went into one value: none of it is an alternative that could be left out."""
        return tuple(dict.fromkeys(each for place in read for each in self.rebase((place,))))

    def own(self, place: Place) -> tuple[Place, ...]:
        root = place[0]
        if self.is_root:
            return (place,)
        if root.startswith("$"):
            bound = self.bindings.get(root[1:])
            if bound is None:
                return ((f"{root}#{self.serial}", *place[1:]),)
            return tuple((*each, *place[1:]) for each in bound)
        if root.startswith(("@", "%")):
            return ((f"{root}#{self.serial}", *place[1:]),)
        return (place,)

    def _aliased(self, place: Place, depth: int) -> Iterable[Place]:
        if depth >= 6:
            return (place,)
        alias = self.aliases.get((place[0], place[1])) if len(place) > 1 else None
        if alias:
            return [final for each in alias for final in self._aliased((*each, *place[2:]), depth + 1)]
        whole = self.aliases.get((place[0], ""))
        if whole:
            return [final for each in whole for final in self._aliased((*each, *place[1:]), depth + 1)]
        for size in range(2, len(place) + 1) if self.ways else ():
            if (same := self.ways.get(place[:size])) is not None:
                return self._aliased((*same, *place[size:]), depth + 1)
        return (place,)

    def left(self, configs: Iterable[Config]) -> list[Config]:
        """The configurations once this activation has ended: what was known of its local objects says nothing any more."""
        kept = {place[0] for places in self.aliases.values() for place in places}
        mine = f"{self.behavior.function}@"  # what its calls returned, too, is known by the function's name
        known: dict[str, bool] = {}

        def lasts(root: str) -> bool:
            value = known.get(root)
            if value is None:
                value = root != RESULT[0] and (root in kept or since(root) < self.serial) and not root.startswith(mine)
                known[root] = value
            return value

        return [knowing(config, config.facts.under(lasts)) for config in configs]

    def failed(self, configs: Iterable[Config]) -> list[Config]:
        """The configurations where a block of this activation is left by an error: all that it has called has ended."""
        kept = {place[0] for places in self.aliases.values() for place in places}
        active = {frame.function for frame in self.stack} | {self.behavior.function}
        known: dict[str, bool] = {}

        def lasts(root: str) -> bool:
            value = known.get(root)
            if value is None:
                function, at, _ = root.partition("@")
                value = known[root] = (
                    function in active if at and function else root in kept or since(root) <= self.serial
                )
            return value

        return [knowing(config, config.facts.under(lasts)) for config in configs]

    def returns(self, call: b.Calls, caller: Activation) -> None:
        """What this activation makes and returns, or hands to the block that it manages, is what the call gives its caller."""
        given = self.behavior.yields if self.behavior.yields.places else self.behavior.returns
        made = [each for each in given.places if each[0].startswith("@")]
        result = caller.own((f"@{call.span.start}",))[0][0]
        places = tuple(own for place in made for own in self.own((place[0],)) if own[0] != result)
        if places:
            self.aliases[result, ""] = tuple(dict.fromkeys(places))


def rebased(test: Test, scope: Activation) -> Test:
    """A test with the places of the run's root."""
    match test:
        case ("atom", kind, place) if place:
            places = scope.rebase((place,))
            return ("atom", kind, places[0] if places else place)
        case ("compare", op, read, identity):
            return ("compare", op, scope.rebase_read(read), identity)
        case ("not" | "and" | "or" as op, *inner):
            return (op, *(rebased(each, scope) for each in inner))
    return test


def decided(test: Test, scope: Activation) -> bool | None:
    """The answer to a question about a constant that a caller gives as an argument."""
    match test:
        case ("not", inner):
            answer = decided(inner, scope)
            return not answer if answer is not None else None
        case ("and" | "or" as op, *inner):
            answers = [decided(each, scope) for each in inner]
            decides = bool(op == "or")
            if decides in answers:
                return decides
            return not decides if None not in answers else None
        case ("atom", kind, (root,)) if root[0] == "$" and not scope.is_root:
            places = scope.rebase(((root,),))
            return ANSWERS.get(places[0][0], {}).get(kind) if len(places) == 1 and len(places[0]) == 1 else None
    return None


def constructs(behavior: Behavior, place: Place) -> bool:
    """Whether a function gives a new object of its class what a place is."""
    if behavior.function.endswith(".__init__"):
        return place[0] == "$self" and not behavior.is_later
    return behavior.function.endswith(".__new__") and (len(place) > 2 or (place[0][0] == "@" and len(place) > 1))
