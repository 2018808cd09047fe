"""Memory that gives way to other memory: what replaces it, and what keeps it for whoever still reads it.

A *growth* is a place whose memory is replaced because it is too small, or does not fit in another way: an attribute or
an item that is assigned after a comparison, a tensor that is resized in place. It is handled where what was there is
kept, where growth is refused from some point on, and where everybody who asks for the memory keeps what he was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from graphlint import behavior as b
from graphlint import flow
from graphlint.behavior import Behavior
from graphlint.combinations import Combinations
from graphlint.effects import Effect
from graphlint.inside import read_inside, run_inside
from graphlint.keeping import Runs, Store, read_by, related
from graphlint.paths import Event, Refusal
from graphlint.renewals import renews_graphs
from graphlint.source import Span
from graphlint.summaries import Analysis, binds
from graphlint.values import ELEMENT, Place, Test, asks_capture, excludes_capture, implies_capture, negated
from graphlint.visiting import visit
from graphlint.vocabulary import words_in

_SHARED = ("class:", "mod:", "cell:")
_LOCAL = ("@", "%")
_SIZES = ("<", ">", "<=", ">=")
_EXTENTS = frozenset(("shape", "numel", "size", "nbytes"))
_FIXED = ("device", "dtype")
"""Properties of a tensor that stay as they are while a process serves."""
_SET_UP = frozenset(("init", "initialize", "setup", "prepare", "allocate", "create", "build"))
"""Words of functions that make what others work with."""
_JOINS = frozenset(("cat", "concat", "concatenate", "hstack", "vstack", "dstack", "pad"))
"""Functions that make one tensor of several."""
_MOST_CALLERS = 3


@dataclass(frozen=True, eq=False)
class Growth:
    """A place whose memory gives way to other memory."""

    analysis: Analysis
    root: Behavior
    event: Event
    place: Place
    """The variable or attribute, or the container whose item is replaced."""
    how: str
    """assign, item or resize."""
    by_name: bool = False
    """Only names say that it is device memory."""
    by_helper: bool = False
    """A function that is handed what is there compares its size, and gives it back or larger memory."""

    @property
    def held(self) -> Place:
        """What a graph may read."""
        return (*self.place, ELEMENT) if self.how == "item" else self.place

    @property
    def is_shared(self) -> bool:
        """Whether a class, a module, a closure or some object that a call gave holds it, for everybody."""
        return self.place[0].startswith((*_SHARED, "@"))

    @property
    def is_captured(self) -> bool:
        """Whether the project captures code that comes to it."""
        return self.root.function in run_inside(self.analysis)

    @cached_property
    def is_read(self) -> bool:
        """Whether captured code reads the place, whoever it is that grows it."""
        return self.event.node.slot in read_inside(self.analysis)

    @cached_property
    def knows_captures(self) -> bool:
        """Whether the function asks whether the stream is being captured: somebody captures what it gives."""
        return any(isinstance(node, b.Either) and asks_capture(node.test) for node in self.whole.nodes)

    @cached_property
    def by_size(self) -> bool:
        """Whether it is replaced for being too small, or for another key, and not just for being different."""
        sized = self.how == "resize" or self.by_helper
        return sized or any(test[1] in _SIZES for test in self.comparisons) or self.is_by_note

    @cached_property
    def is_by_note(self) -> bool:
        """Whether it is replaced for what is noted beside it: a capacity, a key."""
        return any(
            place in self._noted and place[: len(self.place)] != self.place
            for test in self.comparisons
            for place in test[2]
        )

    @cached_property
    def is_of_size(self) -> bool:
        """Whether it is replaced for having another size than what it is compared with."""
        asked = [test[2] for test in self.comparisons if any(p[: len(self.place)] != self.place for p in test[2])]
        return any(part in _EXTENTS for read in asked for place in read for part in place[-2:])

    @cached_property
    def is_too_small(self) -> bool:
        """Whether it is replaced for being too small, as a comparison says that decides about it, and no assertion."""
        sized = self.how == "resize" or self.by_helper
        return sized or any(t[1] in _SIZES for guard in self._deciding for t in self._compared(guard))

    @property
    def is_outgrown(self) -> bool:
        """Whether it is compared by order, so that more is asked for, and not just another shape."""
        return self.by_helper or any(test[1] in _SIZES for test in self.comparisons)

    @cached_property
    def _deciding(self) -> tuple[Test, ...]:
        """Tests that let it happen, without those whose other side raises."""
        refused: list[Refusal] = []
        visit(self.whole, self.analysis.behaviors.built, lambda _: None, refused.append)
        asserted = [negated(each.guards[-1]) for each in refused if each.guards]
        return tuple(guard for guard in self.event.guards if guard not in asserted)

    @property
    def is_of_a_call(self) -> bool:
        """Whether an object that a call gave keeps it, and it gives way for other reasons than its size: state, such as a request's."""
        return self.place[0].startswith("@") and not self.is_too_small

    @cached_property
    def is_decided(self) -> bool:
        """Whether one of the comparisons decides that it is replaced: assertions only say when nothing happens at all."""
        called = [self.analysis.behaviors.built(frame.function) for frame in self.event.stack[1:]]
        bodies = [self.whole, *(each for each in called if each is not None)]
        if not any(isinstance(node, b.Leaves) and node.kind == "raise" for each in bodies for node in each.nodes):
            return bool(self.comparisons)
        return any(self._compared(guard) for guard in self._deciding)

    @property
    def is_of_capture(self) -> bool:
        """Whether it is replaced inside of captures alone: there the memory is a graph's own, which keeps its pool."""
        return any(map(implies_capture, self.event.guards))

    @cached_property
    def is_by_identity(self) -> bool:
        """Whether it is replaced for another object alone, or every other comparison raises where it fails."""
        operators = [test[1] for guard in self._deciding for test in self._compared(guard)]
        return bool(self.comparisons) and not any(op in _SIZES or op == "==" for op in operators)

    @cached_property
    def carries_on(self) -> bool:
        """Whether the new memory is made of the old one and more, as a sequence grows: scratch has nothing to keep."""
        entry = self.analysis.project.functions[self.root.function]
        found = list(binds(entry.lowered.flow))
        names = {""}
        for bind in found:
            if bind.span.contains(self.event.node.span):
                names |= {flow.dotted_text(bind.target)}
                names |= {bind.value.id} if isinstance(bind.value, flow.Name) else set()
        for bind in found:
            if bind.value is None or flow.dotted_text(bind.target) not in names - {""}:
                continue
            for call in flow.calls(flow.Eval(bind.value, bind.span)):
                joined = {flow.dotted_text(each) for each in flow.expressions(flow.Eval(call, call.span))}
                if flow.last_name(call.callee) in _JOINS and joined & names - {""}:
                    return True
        return False

    @cached_property
    def is_allocated(self) -> bool:
        """Whether the calls that make it may come to an allocation, by what they give for flags."""
        node = self.event.node
        entry = self.analysis.project.functions[self.root.function]
        combinations = Combinations(self.analysis.behaviors)
        origins = [each for each in node.fresh if each.within is not None] if isinstance(node, b.Touches) else []
        calls = {call.span: call for call in entry.calls}
        return not origins or any(
            each.span not in calls
            or combinations.allows(entry, calls[each.span], each.within.function, each.within.span)
            for each in origins
            if each.within is not None
        )

    @cached_property
    def has_floor(self) -> bool:
        """Whether it is made at least as large as something that is not asked for: only seldom it is too small."""
        entry = self.analysis.project.functions[self.root.function]
        bound: dict[str, list[flow.Expr]] = {}
        for each in flow.statements(entry.lowered.flow):
            if isinstance(each, flow.Bind) and isinstance(each.target, flow.Name) and each.value is not None:
                bound.setdefault(each.target.id, []).append(each.value)
        made = {origin.span for origin in self.event.node.fresh} if isinstance(self.event.node, b.Touches) else set()
        sizes = [size for call in entry.calls if call.span in made for size in call.args]
        seen: set[str] = set()
        while sizes:
            match sizes.pop():
                case flow.Group(items=items):
                    sizes += items
                case flow.Name(id=name) if name not in seen and len(bound.get(name, ())) == 1:
                    seen.add(name)
                    sizes += bound[name]
                case flow.Call(callee=flow.Name(id="max"), args=(_, _, *_) as args):
                    parts = [each for arg in args for each in flow.parts(arg)]
                    parts += [
                        each
                        for name in map(flow.last_name, parts)
                        for e in bound.get(name, ())
                        for each in flow.parts(e)
                    ]
                    if not any(flow.last_name(each) == self.place[-1] for each in parts):
                        return True
        return False

    @cached_property
    def is_set_up(self) -> bool:
        """Whether the function is named after setting up, and makes other memory anew each time that it is called."""
        name = self.root.function.rpartition(".")[2]
        if _SET_UP.isdisjoint(words_in(name)):
            return False
        found: list[Event] = []
        visit(self.whole, lambda _: None, found.append)
        return any(
            isinstance(event.node, b.Touches)
            and event.node.how == "write"
            and event.node.fresh
            and not event.guards
            and any(len(place) > 1 and place[0] == self.place[0] and place != self.place for place in event.places)
            for event in found
        )

    @cached_property
    def whole(self) -> Behavior:
        """The function with all that it does, relevant or not."""
        return self.analysis.behaviors.built(self.root.key) or self.root

    @cached_property
    def is_refused(self) -> bool:
        """Whether it raises where it would have to grow inside a capture."""
        found: list[Refusal] = []
        visit(self.whole, self.analysis.behaviors.built, lambda _: None, found.append)
        return any(any(map(implies_capture, each.guards)) for each in found)

    @cached_property
    def test(self) -> Span | None:
        """The branch that decides whether it grows, around the replacement or before it; None: another one does."""
        at = self.event.stack[0].span
        spans = [node.span for node in self.whole.nodes if isinstance(node, b.Either) and self._compared(node.test)]
        around = [span for span in spans if span.contains(at)]
        before = [span for span in spans if span.end <= at.start]
        return min(around, default=None) or max(before, default=None)

    @cached_property
    def dropped(self) -> tuple[Event, ...]:
        """Where the function gives up what the place holds before it puts other memory there."""
        found: list[Event] = []
        visit(self.whole, self.analysis.behaviors.built, found.append)
        return tuple(
            event
            for event in found
            if isinstance(event.node, b.Touches)
            and event.stack[0].span.start < self.event.stack[0].span.start
            and (event.node.how in ("drop", "clear", "pop") or event.node.tags & {"none", "empty"})
            and any(place in (self.place, self.held) for place in event.places)
        )

    @cached_property
    def _noted(self) -> frozenset[Place]:
        """Attributes and variables that the function sets: the capacity beside the buffer, the key beside the slot."""
        called = [self.analysis.behaviors.built(frame.function) for frame in self.event.stack[1:]]
        bodies = [self.whole, *(each for each in called if each is not None and each.receiver == self.root.receiver)]
        nodes = (node for body in bodies for node in body.nodes)
        touched = (node for node in nodes if isinstance(node, b.Touches) and node.how == "write")
        return frozenset(place for node in touched for place in node.places)

    @cached_property
    def _noted_beyond(self) -> frozenset[Place]:
        """The same of what it calls to have the memory made: for its own tests, for theirs are about what they have."""
        called = {frame.function for frame in self.event.stack[1:]}
        found: list[Event] = []
        visit(self.whole, lambda key: self.analysis.behaviors.built(key) if key in called else None, found.append)
        touched = (each for each in found if isinstance(each.node, b.Touches) and each.node.how == "write")
        return frozenset(place for each in touched for place in each.places)

    @cached_property
    def comparisons(self) -> tuple[Test, ...]:
        """What is compared with the place, or with what is noted beside it, before it grows."""
        return tuple(test for guard in self.event.guards for test in self._compared(guard))

    def decides(self, test: Test) -> bool:
        """Whether a test compares something with the place, or with what is noted beside it."""
        return bool(self._compared(test))

    def _compared(self, test: Test) -> list[Test]:
        """Comparisons in a test with the place, or with what is noted beside it."""
        match test:
            case ("compare", op, read, at) if op in (*_SIZES, "==", "is"):
                own = at.rpartition("@")[0] == self.root.function
                about = [place for place in read if self._is_of(place) or (own and self._is_noted_beyond(place))]
                return [test] if any(place[-1] not in _FIXED for place in about) else []
            case ("not" | "and" | "or", *inner):
                return [found for each in inner for found in self._compared(each)]
        return []

    def _is_noted_beyond(self, place: Place) -> bool:
        """Whether a place is noted by a function that is called, beside the memory that it makes."""
        return len(self.event.stack) > 1 and place[:-1] == self.place[:-1] and place in self._noted_beyond

    def _is_of(self, place: Place) -> bool:
        if place[: len(self.place)] == self.place:
            return True
        beside = self.place[:-1]
        around = beside[: len(place) - 1] == place[:-1]  # of the object that keeps the one which has the memory
        return len(place) > 1 and (place[: len(beside)] == beside or around) and place in self._noted

    def when_present(self, test: Test) -> bool | None:
        """Whether a test holds while something is in the place, as far as that says."""
        match test:
            case ("const", known):
                return bool(known)
            case ("atom", "none", place) if self._is_there_with(place):
                return False
            case ("atom", "true", place) if self._is_there_with(place):
                return True
            case ("compare", "in", read, _) if any(place[: len(self.place)] == self.place for place in read):
                return True
            case ("not", inner):
                value: bool | None = self.when_present(inner)
                return None if value is None else not value
            case ("and" | "or" as op, *inner):
                values = [self.when_present(each) for each in inner]
                decided = bool(op == "or")
                if decided in values:
                    return decided
                return None if None in values else not decided
        return None

    def _is_there_with(self, place: Place) -> bool:
        """Whether a place has something while the memory is there: it is the memory's, or of an attribute that comes along.

        Whoever makes the one makes the other, and who gives up the other gives up the one.
        """
        if place in (self.held, self.place):
            return True
        slot = self.event.node.slot
        if self.how != "assign" or slot is None or len(place) < 2 or place[:-1] != self.place[:-1]:
            return False
        beside = (slot[0], place[-1])
        if not self.analysis.holds(beside) & {"fresh", "tensor", "declared", "memory"}:
            return False
        written = _written(self.analysis)
        mine, other = written.get(slot, {}), written.get(beside, {})
        made = [function for function, empty in mine.items() if False in empty]
        given_up = [function for function, empty in other.items() if True in empty]
        is_made_too = bool(made) and all(False in other.get(function, ()) for function in made)
        return is_made_too and all(True in mine.get(function, ()) for function in given_up)

    # ----------------------------------------------------------------------------------------------- what handles it

    def is_handled(self, runs: Runs) -> bool:
        """Whether nobody is left with the address of memory that is gone."""
        return (
            bool(self.kept)
            or self._is_locked(runs)
            or self._is_bypassed()
            or self._is_left_alone(runs)
            or runs.follows_graph_death(self.root, self.event.stack[0].span)
            or self._is_for_one_object(runs)
            or self._is_kept_by_consumers(runs)
            or (not self.is_captured and renews_graphs(self.analysis, self.root, self.event))
        )

    @cached_property
    def kept(self) -> tuple[Event, ...]:
        """Where what was there is put into something else that outlives the function."""
        found: list[Event] = []
        same = {place for guard in self.event.guards for place in self._identical(guard)}

        def see(event: Event) -> None:
            node = event.node
            if not isinstance(node, b.Touches) or node.how != "add" or not event.places:
                return
            into = event.places[0]
            outlives = len(into) > 1 or not into[0].startswith(_LOCAL)
            held = any(place[: len(self.held)] == self.held or place in same for place in event.value_places)
            if outlives and held and not related(into, self.place):
                found.append(event)

        visit(self.whole, self.analysis.behaviors.built, see)
        made = {place[0] for place in self.event.value_places if len(place) == 1}
        for (root, attribute), places in self.whole.aliases.items():
            if root in made and self.held in places:  # a chain: the new one has the old one for an attribute
                found.append(self.event._replace(places=((*self.held, attribute),)))
        return tuple(found)

    def _identical(self, test: Test) -> Iterator[Place]:
        """Places that a test says are the same object as what is replaced."""
        match test:
            case ("compare", "is", read, _) if any(self._is_of(place) for place in read):
                yield from read
            case ("and", *inner):
                for each in inner:
                    yield from self._identical(each)

    def _is_locked(self, runs: Runs) -> bool:
        """Whether the growth is refused from some point on: a flag that somebody sets makes it raise.

        That it is refused inside a capture does not count: growth outside of it, later, is what takes the memory away.
        """
        return any(self._is_taken(runs, place, growing=growing) for place, growing in self.locks.items())

    @cached_property
    def locks(self) -> Mapping[Place, bool]:
        """Flags that make it raise where it would grow, each with whether the same test asks for the size."""
        locks: dict[Place, bool] = {}

        def refuse(refusal: Refusal) -> None:
            growing = any(self._compared(guard) for guard in refusal.guards)
            for guard in refusal.guards:
                if guard not in self.event.guards:  # what holds where it grows, too, is no lock
                    for place in _locks(guard):
                        if place[0] == self.place[0] and not related(place, self.place):
                            locks[place] = locks.get(place, False) or growing

        visit(self.whole, self.analysis.behaviors.built, lambda _: None, refuse)
        return locks

    def lockers(self, lock: Place) -> frozenset[str]:
        """Functions, other than constructors, that set a flag."""
        return _setters(self.analysis).get(lock[-1], frozenset())

    def _is_taken(self, runs: Runs, lock: Place, *, growing: bool) -> bool:
        """Whether somebody sets the flag; a setter without a caller counts where nobody captures in these files either.

        A flag that only constructors set tells one kind of object from another. It locks what asks for it as it grows.
        """
        later = self.lockers(lock)
        if not later:
            return growing
        return not self.is_captured or any(runs.callers(name) for name in later)

    def _is_bypassed(self) -> bool:
        """Whether a capture is given something else, before the place is looked at."""
        raised: list[Test] = []
        visit(self.whole, self.analysis.behaviors.built, lambda _: None, lambda each: raised.extend(each.guards))
        for guard in self.event.guards:
            if any(self._is_of(place) for place in read_by(guard)):
                return False
            if excludes_capture(guard):
                return not any(implies_capture(test) for test in raised)
        return False

    def _is_left_alone(self, runs: Runs) -> bool:
        """Whether it grows only until a capture was given it: a flag says so, and who asks later gets memory of his own."""
        flags = {place for guard in self.event.guards for place in _denied(guard) if not related(place, self.place)}
        return any(self._is_set_for_captures(runs, flag) for flag in flags)

    def _is_set_for_captures(self, runs: Runs, flag: Place) -> bool:
        """Whether a flag is set to what a capture's test says, where one says yes, or by who captures, himself or by a call."""

        def is_flag(node: b.Node) -> bool:
            return isinstance(node, b.Touches) and any(place[-1] == flag[-1] for place in node.places)

        for root in self.analysis.behaviors.all():
            for node in root.nodes:
                if not isinstance(node, b.Touches) or node.how != "write" or not is_flag(node):
                    continue
                if "capturing" in node.tags:
                    return True
                if "true" in node.tags:
                    if any(self._captures(each) for each in (root, *self._who_sets(runs, root))):
                        return True
                    seen: list[Event] = []
                    visit(root, lambda _: None, seen.append)
                    if any(event.node is node and any(map(implies_capture, event.guards)) for event in seen):
                        return True
        return False

    def _captures(self, root: Behavior) -> bool:
        return Effect.CAPTURE in self.analysis.kinds.get(root.key, ())

    def _who_sets(self, runs: Runs, setter: Behavior) -> Sequence[Behavior]:
        """Who calls a method that sets a flag, where that is no constructor."""
        return [] if setter.function.endswith(".__init__") else runs.callers(setter.function)

    def _is_for_one_object(self, runs: Runs) -> bool:
        """Whether only the constructor of the object asks for it."""
        if not self.place[0].startswith("$"):
            return False
        functions = self.analysis.project.functions
        owner = functions[self.root.function].owner
        callers = runs.callers(self.root.function)
        return bool(callers) and all(
            each.function.endswith(".__init__") and functions[each.function].owner == owner for each in callers
        )

    def _is_kept_by_consumers(self, runs: Runs) -> bool:
        """Whether everybody who asks for the memory keeps what he was given in an object of his own."""
        asking = [each for each in runs.callers(self.root.function) if not self._discards(each, self.root.function)]
        if not self.is_captured:  # what is run eagerly alone is done with it when it returns
            captured = [each for each in asking if self._is_for_capture(each)]
            asking = captured or asking
        return self.place[0].startswith(_SHARED) and bool(asking) and all(self._keeps(each, runs, 0) for each in asking)

    def _is_for_capture(self, caller: Behavior) -> bool:
        return caller.key in self.analysis.captured or Effect.CAPTURE in self.analysis.kinds.get(caller.key, ())

    def _keeps(self, caller: Behavior, runs: Runs, depth: int) -> bool:
        def is_it(places: tuple[Place, ...]) -> bool:
            return any(place[: len(self.place)] == self.place for place in places)

        for node in caller.nodes:
            if isinstance(node, b.Touches) and node.how in ("write", "add") and is_it(node.value_places):
                own = any(place[0].startswith("$") for place in node.places)
                if own:
                    return True
        callers = runs.callers(caller.function) if is_it(caller.returns.places) and depth < _MOST_CALLERS else []
        return bool(callers) and all(self._keeps(each, runs, depth + 1) for each in callers)

    def _discards(self, caller: Behavior, function: str) -> bool:
        """Whether a caller only sees to it that the memory is large enough."""
        calls = {
            node.span
            for node in caller.nodes
            if isinstance(node, b.Calls) and any(key.partition("|")[0] == function for key in node.behaviors)
        }
        body = self.analysis.project.functions[caller.function].lowered.flow
        return calls <= {each.value.span for each in _statements(body) if isinstance(each, flow.Eval)}


# ------------------------------------------------------------------------------------------------------- finding them


def growths(analysis: Analysis, stores: tuple[Store, ...], runs: Runs, *, named: bool = False) -> Iterator[Growth]:
    """Places whose memory is replaced after a comparison, or resized in place.

    What a registry keeps under a name of its caller's counts where `named` says so: what a name must say is for those
    who ask under it.
    """
    for store in stores:
        if store.event.in_constructor or store.is_memo:
            continue
        if store.node.how == "add" and store.node.key is None:
            continue  # appended: what was there stays
        if not named and _is_named_by_caller(store):
            continue
        place = store.event.places[0]
        how = "item" if store.node.how == "add" else "assign"
        growth = Growth(analysis, store.root, store.event, place, how, store.by_name)
        same = growth.held in store.event.value_places and _compares(analysis, store)
        growth = replace(growth, by_helper=same)
        present = [growth.when_present(guard) for guard in store.event.guards]
        if False in present:
            continue
        if growth.comparisons or same:
            if not _is_long_lived(analysis, runs, growth):
                continue
            if same or growth.is_decided:
                yield growth
                continue
        yield from _decided_by_callers(analysis, store, runs)
    for root in analysis.roots():
        found: list[Event] = []
        visit(root, lambda _: None, found.append)
        for event in found:
            node = event.node
            if isinstance(node, b.Happens) and node.effect is Effect.WS_REPLACE and event.places:
                growth = Growth(analysis, root, event, event.places[0], "resize")
                if not growth.comparisons:
                    continue
                if _is_long_lived(analysis, runs, growth):
                    yield growth
                elif _is_of_caller(analysis, runs, growth):
                    yield Growth(analysis, root, event, event.places[0], "resize", by_name=True)


def _decided_by_callers(analysis: Analysis, store: Store, runs: Runs) -> Iterator[Growth]:
    """The same where a method that makes the memory is called again once it is too small."""
    if not store.event.places[0][0].startswith("$"):
        return
    near = runs.callers(store.function)
    between = frozenset((store.function, *(caller.function for caller in near)))
    found = list(_decided_by(analysis, store, runs, near, between))
    if not found:
        far = {
            each.key: each for caller in near[:_MOST_CALLERS] for each in runs.callers(caller.function)[:_MOST_CALLERS]
        }
        found = list(_decided_by(analysis, store, runs, list(far.values()), between))
    yield from found


def _decided_by(
    analysis: Analysis, store: Store, runs: Runs, callers: Sequence[Behavior], between: frozenset[str]
) -> Iterator[Growth]:
    """Those of some callers, which come to it through the functions `between`."""

    def near(key: str) -> Behavior | None:
        each = analysis.effectful.get(key)
        return each if each is not None and each.function in between else None

    for caller in callers:
        if caller.function.endswith(".__init__"):
            continue
        found: list[Event] = []
        visit(caller, near, found.append)
        reached = [event for event in found if event.node is store.node]
        for event in reached:
            if len(event.stack) not in (2, 3) or not event.places:
                continue
            growth = Growth(analysis, caller, event, event.places[0], "assign", store.by_name)
            present = [growth.when_present(guard) for guard in event.guards]
            before = event.guards[: len(event.guards) - len(store.event.guards)]  # what the callers ask
            either_way = [guard for guard in before if any(negated(guard) in other.guards for other in reached)]
            if not any(growth.decides(guard) for guard in before if guard not in either_way):
                continue
            if False not in present and _is_long_lived(analysis, runs, growth):
                yield growth


def _written(analysis: Analysis) -> Mapping[b.Slot, Mapping[str, frozenset[bool]]]:
    """By attribute, the functions that assign it, each with whether that leaves nothing there."""
    key = "written", ""
    if key not in analysis.known:
        found: dict[b.Slot, dict[str, frozenset[bool]]] = {}
        for each in analysis.behaviors.all():
            for node in each.nodes:
                if isinstance(node, b.Touches) and node.slot is not None and node.how in ("write", "drop"):
                    functions = found.setdefault(node.slot, {})
                    is_empty = node.how == "drop" or "none" in node.tags
                    functions[each.function] = functions.get(each.function, frozenset()) | {is_empty}
        analysis.known[key] = found
    written: Mapping[b.Slot, Mapping[str, frozenset[bool]]] = analysis.known[key]
    return written


def _setters(analysis: Analysis) -> Mapping[str, frozenset[str]]:
    """By its last name, the functions, other than constructors, that set an attribute or variable to something."""
    key = "setters", ""
    if key not in analysis.known:
        found: dict[str, set[str]] = {}
        for each in analysis.behaviors.all():
            if each.function.rpartition(".")[2] in ("__init__", "__post_init__"):
                continue
            for node in each.nodes:
                if isinstance(node, b.Touches) and node.how == "write" and not node.tags & {"none", "false"}:
                    for place in node.places:
                        found.setdefault(place[-1], set()).add(each.function)
        analysis.known[key] = {name: frozenset(functions) for name, functions in found.items()}
    setters: Mapping[str, frozenset[str]] = analysis.known[key]
    return setters


def _is_named_by_caller(store: Store) -> bool:
    """Whether a registry keeps the memory under a name that its caller makes up."""
    key = store.node.key
    is_given = key is not None and bool(key.places) and all(len(p) == 1 and p[0].startswith("$") for p in key.places)
    return is_given and any(t.name == "str" for t in key.types)  # type: ignore[union-attr]


def _compares(analysis: Analysis, store: Store) -> bool:
    """Whether a function that gives the same memory or new memory decides it by a comparison of sizes."""
    makers = {origin.within.function for origin in store.origins if origin.within is not None}
    built = (each for name in makers if (each := analysis.behaviors.built(name)) is not None)
    return any(
        isinstance(node, b.Either) and any(op in _SIZES for op in _operators(node.test))
        for each in built
        for node in each.nodes
    )


def _is_long_lived(analysis: Analysis, runs: Runs, growth: Growth, depth: int = 0) -> bool:
    """Whether the place outlives the call: of an argument of no known class, some caller has to say so."""
    root, place = growth.root, growth.place
    if place[0].startswith(_LOCAL):
        return len(place) > 1
    if not place[0].startswith("$") or place[0] == f"${root.receiver}":
        return True
    slot = growth.event.node.slot
    if len(place) > 1 and slot is not None and slot[0] in analysis.project.classes:
        return True
    for caller in runs.callers(root.function) if depth < _MOST_CALLERS else ():
        for node in caller.nodes:
            if isinstance(node, b.Calls) and any(key.partition("|")[0] == root.function for key in node.behaviors):
                for given in dict(node.bindings).get(place[0][1:], ()):
                    if given[0].startswith(_SHARED) or (len(given) > 1 and given[0] == f"${caller.receiver}"):
                        return True
    return False


def _is_of_caller(analysis: Analysis, runs: Runs, growth: Growth) -> bool:
    """Whether it is scratch memory, by its name, that a function is passed, and no caller that is seen made it itself."""
    parameter = growth.place[0].removeprefix("$")
    is_parameter = len(growth.place) == 1 and parameter != growth.place[0]
    if not is_parameter or not analysis.vocabulary.names.is_scratch(parameter):
        return False
    given = [
        place[0] in caller.given
        for caller in runs.callers(growth.root.function)
        for node in caller.nodes
        if isinstance(node, b.Calls) and any(key.partition("|")[0] == growth.root.function for key in node.behaviors)
        for place in dict(node.bindings).get(parameter, ())
    ]
    return not given or not all(given)


def _operators(test: Test) -> Iterator[str]:
    match test:
        case ("compare", op, _, _):
            yield op
        case ("not" | "and" | "or", *inner):
            for each in inner:
                yield from _operators(each)


def _flags(test: Test) -> Iterator[Place]:
    match test:
        case ("atom", "true", place) if len(place) > 1:
            yield place
        case ("not" | "and" | "or", *inner):
            for each in inner:
                yield from _flags(each)


def _locks(test: Test) -> Iterator[Place]:
    """Flags that make a test true by themselves, whether the stream is being captured or not."""
    match test:
        case ("or", *inner):
            for each in inner:
                yield from _locks(each)
        case _ if not asks_capture(test):
            yield from _flags(test)


def _denied(test: Test) -> Iterator[Place]:
    """Flags that are not set where a test is true."""
    match test:
        case ("not", ("atom", "true", place)) if len(place) > 1:
            yield place
        case ("not", ("or", *inner)):
            for each in inner:
                yield from _denied(negated(each))
        case ("and", *inner):
            for each in inner:
                yield from _denied(each)


def _statements(body: flow.Flow) -> Iterator[flow.Flow]:
    yield body
    for child in flow.children(body):
        yield from _statements(child)
