"""Two ways to one object: what objects were made with, what a constructor gives two names, what stands in a table besides.

Noted where a function gives its object something, and asked where a path ends the same object by another name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from graphlint import behavior as b
from graphlint.behavior import Node, Slot
from graphlint.constructors import Given
from graphlint.frame import is_made_in
from graphlint.lookups import Lookups
from graphlint.rebasing import given_to
from graphlint.source import Span
from graphlint.values import ELEMENT, NOTHING_KNOWN, Bound, Place, Value


class Kinship(Lookups):
    """The evaluation of which names stand for one object."""

    def parts_given(
        self, made: Value, given: Mapping[str, Value], known: Collection[str], span: Span
    ) -> dict[str, Value]:
        """The attributes of an object made here that are parts of what it was made with, or copies; those left out that are known."""
        name, (place,) = made.types[0].name, made.places
        found: dict[str, Value] = {}
        for attribute, each in self.all.given_attributes(name).items():
            value = self._argument(each, given, span) if attribute not in known else NOTHING_KNOWN
            if not value.places:
                continue
            if each.copied:
                if value.element.places:
                    copied = self.attribute(made, attribute, span, quiet=True)
                    tags = copied.tags | value.tags & {"part"}
                    found[attribute] = copied._replace(each=value.element, tags=tags)
                continue
            found[attribute] = value
            self.aliases[place[0], attribute] = value.places
        return found

    def _argument(self, each: Given, given: Mapping[str, Value], span: Span) -> Value:
        """What an attribute is given of the arguments of a call; nothing is known where that may be something else later."""
        value = given.get(each.param, NOTHING_KNOWN)
        if each.or_other and not self.is_object(value):
            return NOTHING_KNOWN
        for step in each.way:
            lasts = len(value.types) == 1 and self.all.is_set_once(value.types[0].name, step)
            value = self.attribute(value, step, span, quiet=True) if lasts else NOTHING_KNOWN
        return value

    def hand_in(self, bound: Bound, bindings: Mapping[str, Value], span: Span) -> None:
        """Note what the constructor hands a method of its own object, or of one that it has made, which keeps it.

        `super().__init__(self.runner)`, `self.proposer.share(self.runner)`.
        """
        if not self.is_first or bound.receiver is None or len(bound.receiver.places) != 1:
            return
        place = bound.receiver.places[0]
        function = self.project.functions[bound.function]
        is_base = place == (self.me,) and function.facts.name == "__init__"
        is_part = len(place) == 2 and place[0] == self.me and function.facts.name != "__init__"
        if function.owner is None or self.entry.owner is None or not (is_base or is_part):
            return
        for attribute, each in self.all.given_attributes(function.owner, function.name).items():
            value = self._argument(each, bindings, span)
            if len(value.places) != 1 or each.copied or not self.is_object(value):
                continue
            if is_base:
                slot = (self.entry.owner, attribute)
                self.initial.append((slot, value.places))
                self.passed_in += [(slot, way, place) for way, place in given_to(value, self.all.is_set_once)]
            elif self.all.is_set_once(function.owner, attribute):
                self.passed_in.append(((self.entry.owner, place[1]), (attribute,), value.places[0]))

    def note_ways(self, node: Node) -> None:
        """Note which attributes of the object are reached through others, too: `self.loop = Loop(self.steps)`."""
        if not self.passed_in and not self.initial:
            return
        for (owner, name), way, place in self.passed_in:
            if way[-1:] == (ELEMENT,):
                continue
            if place[0] == self.me:
                self.all.ways.setdefault(owner, {}).setdefault((name, *way), set()).add(place[1:])
            for attribute in self._kept_by(owner, place):
                self.all.ways.setdefault(owner, {}).setdefault((name, *way), set()).add((attribute,))
        self._note_names()
        self._note_parts()
        self._note_items(node)

    def _kept_by(self, owner: str, place: Place) -> Iterator[str]:
        """Attributes of the objects of a class that keep what a place stands for."""
        for keeper, attribute in self.keepers.get(place, ()):
            if keeper in self.project.mro(owner) or owner in self.project.mro(keeper):
                yield attribute

    def _note_parts(self) -> None:
        """Note what several objects were made with, and what stands in a table and is an attribute besides."""
        names: dict[Place, Place] = {}
        for (_, name), places in self.initial:
            if len(places) == 1 and self._is_single(places[0]):
                names.setdefault(places[0], (name,))
        for (owner, name), way, place in self.passed_in:
            if ELEMENT in way or ELEMENT in place or place[0] == self.me or place[0] in self.many:
                continue
            if not self._is_single(place):
                continue
            root = names.get(place[:1])
            known = (*root, *place[1:]) if root is not None else names.setdefault(place, (name, *way))
            if known != (name, *way) and not any(self._kept_by(owner, place)):
                self.all.ways.setdefault(owner, {}).setdefault((name, *way), set()).add(known)

    def _note_items(self, node: Node) -> None:
        """Note which attributes are items of a table that the object has, too."""
        kept: dict[Place, list[Place]] = {}
        found: list[tuple[str, Place, set[Place]]] = []
        for (owner, name), places in self.initial:
            for place in places:
                kept.setdefault(place, []).append((name,))
                if place[0] == self.me and ELEMENT not in place[:-1] and place[-1] == ELEMENT:
                    found.append((owner, place[1:-1], {(name,)}))
        for (owner, name), way, place in self.passed_in:
            if way[-1:] == (ELEMENT,) and ELEMENT not in way[:-1]:
                members = {each for each in kept.get(place, ()) if each != (name,)}
                if place[0] == self.me and ELEMENT not in place:
                    members.add(place[1:])
                if members:
                    found.append((owner, (name, *way[:-1]), members))
        if not found:
            return
        taken = {
            place
            for each in b.walk(node)
            if isinstance(each, b.Touches) and each.how in ("pop", "drop")
            for place in each.places
        }
        if any(place[0] != self.me for place in taken):
            return  # what was taken out of a list is in it no more
        for owner, table, members in found:
            if (self.me, *table) not in taken:
                self.all.picked.setdefault(owner, {}).setdefault(table, set()).update(members)

    def _is_single(self, place: Place) -> bool:
        """Whether a place stands for one object, wherever in the function: not for what each round of a loop makes."""
        if place[0][0] == "$":
            return ELEMENT not in place
        return (
            place[0][0] == "@" and place[0] not in self.many and not any(is_made_in(place, s) for s in self.went_round)
        )

    def _note_names(self) -> None:
        """Note which attributes the constructor gives one object, or one that may be another's: `self.draft = draft or target`."""
        names: dict[Place, str] = {}
        given: dict[Slot, set[str]] = {}
        for slot, places in self.initial:
            if len(places) == 1 and self._is_single(places[0]):
                names.setdefault(places[0], slot[1])
        for slot, places in self.initial:
            mine = given.setdefault(slot, set() if self.is_first else {slot[1]})
            for place in places:
                own = place[1] if len(place) == 2 and place[0] == self.me else names.get(place, slot[1])
                mine.add(own if ELEMENT not in place else slot[1])
        for (owner, name), others in given.items():
            writes = [places for slot, places in self.initial if slot == (owner, name)]
            if self.is_first and len(writes) == 1 and len(writes[0]) == 1 and others != {name}:
                self.all.ways.setdefault(owner, {}).setdefault((name,), set()).update((each,) for each in others)
            elif others - {name}:
                self.all.alike.setdefault(owner, {}).setdefault(name, set()).update(others - {name})
