"""Runs a behavior along all of its paths: which effects happen in which order, and what tests must have said for it.

What a test has said is known to the rest of its path (`paths`), so the second call of a release that begins with
`if self.closed: return` does nothing here either. Calls are run in place with the caller's places put in (`activation`); a
function does not run inside itself.

Exceptions: a `raise` leaves; inside `try`, any point of the body may enter a handler or the `finally`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import TypeAlias

from graphlint import behavior as b
from graphlint.activation import ANSWERS, RESULT, Activation, constructs, since
from graphlint.behavior import Behavior, Node
from graphlint.effects import Effect
from graphlint.learned import Atom, Fact, Learned
from graphlint.outliving import moved_on, taken_back
from graphlint.paths import (
    CAPTURED,
    DEVICE,
    MAX_CONFIGURATIONS,
    MAX_DEPTH,
    MAX_STEPS,
    NO_FACTS,
    Config,
    Event,
    Frame,
    Monitor,
    Outcome,
    State,
    as_before,
    as_element,
    distinct,
    joined,
    knowing,
    last_part,
    merge,
    said_of,
    varies,
    with_fact,
    without_fact,
    without_single,
)
from graphlint.rebasing import sources
from graphlint.source import Span
from graphlint.values import ELEMENT, Place, Test

_BOTH = 2
_MOST_TRIED = 1_500
"""Most of these in a run that only asks what a call would do."""


Touched: TypeAlias = tuple[str, frozenset[str], tuple[Place, ...], tuple[Place, ...]]
"""What is remembered of a touch: how, the tags, the places, and the places that went into the value."""


_LEAVES = ("return", "break", "continue")
LEFT: Place = ("<left>",)
"""Stands for how control left the block of a context manager that has not ended yet."""


class ExhaustedError(Exception):
    """A run took more steps than it may."""


class _HeardError(Exception):
    """A call that is only tried does something that the monitor hears."""


@dataclass
class _Points:
    """Where a `try` may be left by an error: the paths at any point of its body."""

    scope: Activation
    configs: list[Config]
    last: Span | None = None
    """The call that ends the body. Where it fails in the middle, a handler that makes it again does what it has not done."""

    def is_last(self, node: Node, scope: Activation) -> bool:
        """Whether a node is that call."""
        return scope is self.scope and isinstance(node, b.Calls) and node.span == self.last

    def add(self, configs: Iterable[Config], scope: Activation) -> None:
        """Paths at one more point, in an activation inside of the body."""
        failed = ("failed", (scope.behavior.function,))
        self.configs += [with_fact(c, failed, True) if self._is_in_release(c, scope) else c for c in configs]

    def _is_in_release(self, config: Config, scope: Activation) -> bool:
        """Whether a path has ended graphs in a call that goes on: where it fails there, the call may be made again."""
        last = config.trace[-1] if config.trace else None
        depth = len(scope.stack)
        if last is None or last.effect is not Effect.GRAPH_DEATH or depth <= len(self.scope.stack):
            return False
        if not _is_done_once(scope.behavior):
            return False
        return len(last.stack) > depth and last.stack[:depth] == scope.stack


@dataclass
class Execution:
    """Runs behaviors. `select` gives a behavior by key, or None where it does nothing of interest."""

    select: Callable[[str], Behavior | None]
    monitor: Monitor
    tested: frozenset[str] = frozenset()
    """Attribute and variable names that some test reads; facts about others are not kept."""
    memory: frozenset[str] = frozenset()
    """Names of attributes and variables that keep device memory: what comparisons with them said is kept as well."""
    whole: Callable[[str], Behavior | None] | None = None
    """Behaviors with nothing left out. With them, the second call of a method that has ended graphs counts as ending them
    where it can only raise, or gives back once more what was given back."""
    counted: frozenset[b.Slot] = frozenset()
    """Attributes and variables that count down somewhere."""
    lent: frozenset[b.Slot] = frozenset()
    """Lists out of which somebody takes what others put in: of free slots, of idle workers."""
    doubled: frozenset[str] = frozenset()
    """Names of tables in which one object stands under several keys."""
    alike: bool = False
    """Attributes that may be one object are one."""
    renewed: Callable[[Config, Callable[[str], bool]], Config] = lambda config, _: config
    """The configuration where new objects take the names of those that were made before: says it of the roots of places."""
    outlived: frozenset[str] = frozenset()
    """Names of the attributes from which a variable has on what was there."""
    members: Mapping[Place, tuple[Place, ...]] = field(default_factory=dict)
    """Places of tables, and of the objects that stand in them."""
    moves: Mapping[Place, tuple[Place, ...]] = field(default_factory=dict)
    """Places of tables, and of the items of others that are put there."""
    steps: int = 0
    truncated: bool = False
    """Somewhere more configurations came together than are kept."""
    captured: frozenset[str] = frozenset()
    """Functions that run inside captures."""
    _rounds: list[str] = field(default_factory=list)
    """The functions of the loops around the node at hand."""
    _repeats: int = 0
    """Loops around it that have any number of rounds."""
    _capturing: dict[str, bool] = field(default_factory=dict)
    _serial: int = 0
    _points: list[_Points] = field(default_factory=list)

    def run(self, root: Behavior, start: State, facts: Iterable[tuple[Atom, bool]] = ()) -> Outcome:
        """Run one behavior from its entry.

        Raises:
            ExhaustedError: the run is too long.
        """
        self.steps = 0
        self._serial = 0
        self._repeats = 0
        self._rounds.clear()
        scope = Activation(root, {}, (), 0, is_root=True, alike=self.alike)
        return self._node(root.node, scope, [Config(start, Learned.of(facts))])

    def run_on(self, root: Behavior, configs: list[Config]) -> Outcome:
        """Run one behavior from given configurations, as the next call on the same receiver."""
        self.steps = 0
        self._repeats = 0
        self._rounds.clear()
        return self._node(root.node, Activation(root, {}, (), 0, is_root=True), configs)

    # ------------------------------------------------------------------------------------------------------ nodes

    def _node(self, node: Node, scope: Activation, configs: list[Config]) -> Outcome:
        self.steps += len(configs)
        self.truncated |= len(configs) >= MAX_CONFIGURATIONS
        if self.steps > MAX_STEPS:
            raise ExhaustedError
        match node:
            case b.Order(items=items):
                out: Outcome = {}
                points = self._points[-1].configs if self._points else []
                for at, item in enumerate(items):
                    if not configs:
                        break
                    before = len(points)
                    result = self._node(item, scope, configs)
                    configs = result.pop("next", [])
                    merge(out, result)
                    if self._points and (
                        _is_at_once(item, items[at + 1 : at + 2]) or self._points[-1].is_last(item, scope)
                    ):
                        points[before:] = _outside(points[before:], scope, item)
                    elif self._points and configs:
                        self._points[-1].add(configs, scope)
                out["next"] = configs
                return out
            case b.Happens() | b.Touches():
                after = self._happen(node, scope, configs)
                return {"next": after if all(map(is_, after, configs)) else distinct(after)}
            case b.Either(test=test, then=then, other=other):
                yes, no = self._split(test, scope, configs)
                return joined(self._node(then, scope, yes) if yes else {}, self._node(other, scope, no) if no else {})
            case b.Calls():
                return self._call(node, scope, configs, None)
            case b.Repeat():
                return self._repeat(node, scope, configs)
            case b.Each(bodies=bodies, other=other):
                out = {}
                for body in bodies:
                    self._rounds.append(scope.behavior.function)
                    result = self._node(body, scope, configs)
                    self._rounds.pop()
                    configs = distinct([*result.pop("next", []), *result.pop("continue", [])])
                    broken = result.pop("break", [])
                    merge(out, {"broken": broken})
                    merge(out, result)
                    if not configs:
                        break
                last = self._node(other, scope, configs) if configs else {}
                merge(out, last)
                merge(out, {"next": out.pop("broken", [])})
                return {kind: distinct(each) for kind, each in out.items()}
            case b.Guarded():
                return self._guarded(node, scope, configs)
            case b.Leaves(kind=kind, test=test):
                if kind == "return":
                    return {"return": self._returned(test, scope, configs)}
                return {kind: configs}
            case b.Yields():
                if scope.body is None:
                    return {"next": configs}
                body, outer = scope.body
                result = self._node(body, outer, configs)
                for kind in _LEAVES:  # the manager goes on behind its yield before control leaves
                    left = [with_fact(config, (kind, LEFT), True) for config in result.pop(kind, [])]
                    merge(result, {"next": left})
                return result
            case b.Within(calls=calls, body=body):
                return self._call(calls, scope, configs, (body, scope))
        raise AssertionError(node)

    def _happen(self, node: b.Happens | b.Touches, scope: Activation, configs: list[Config]) -> list[Config]:
        gone = isinstance(node, b.Touches) and (node.how == "drop" or (node.how == "write" and "none" in node.tags))
        places = scope.references(node.places) if gone else scope.rebase(node.places)
        stack = (*scope.stack, scope.frame(node.span))
        result: list[Config] = []
        if isinstance(node, b.Happens):
            event = Event(node, places, scope.rebase(node.pool), stack, activations=scope.activations)
            switches = _switches_capture(node)
            for config in configs:
                moved = self.monitor(config.state, event, config)
                if switches:
                    config = with_fact(config, CAPTURED, node.effect is Effect.CAPTURE)
                    if node.effect is Effect.CAPTURE:
                        config = with_fact(config, DEVICE, True)
                if moved is not None:
                    config = Config(moved[0], config.facts, (*config.trace, event._replace(effect=moved[1])))
                result.append(config)
            return result
        made = bool(node.places) and constructs(scope.behavior, node.places[0])
        event = Event(
            node, places, (), stack, scope.rebase_read(node.value_places), made, activations=scope.activations
        )
        one = node.key is not None and self._is_one_of_several(places, scope.rebase_read(sources(node.key)))
        written = self._written(node, places, one=one)
        entered = [
            _stands_in(place, item)
            for place in places
            if node.how == "add" and self.moves
            for item in self.moves.get(place, ())
            if item in event.value_places
        ]
        for config in configs:
            moved = self.monitor(config.state, event, config)
            facts = written(config.facts)
            if places[:1] and places[0] in self.members:
                facts = self._entered(facts, node, places[0], event.value_places)
            for atom in entered:
                facts = facts.with_answer(atom, True)
            if moved is not None:
                config = Config(moved[0], facts, (*config.trace, event._replace(effect=moved[1])))
            result.append(knowing(config, facts))
        return result

    def _entered(self, facts: Learned, node: b.Touches, table: Place, values: Sequence[Place]) -> Learned:
        """What is known of the objects made here that may stand in a table, after it was touched."""
        for member in self.members[table]:
            if _is_made_here(member) and node.how == "add" and member in values:
                facts = facts.with_answer(("in", (*member, *table)), True)
            elif _is_made_here(member) and node.how != "add":
                facts = facts.without(("in", (*member, *table)))
        return facts

    def _written(self, node: b.Touches, places: tuple[Place, ...], *, one: bool) -> Callable[[Learned], Learned]:
        """What is known after a touch, from what was known before. `one`: an item went in under one key of several."""
        names = [place for place in places if last_part(place) in self.tested]
        if not names:
            return lambda facts: facts
        place = places[0]
        settles = node.how in ("write", "add") and last_part(place) in self.memory and not node.tags & {"none", "empty"}
        filled = len(places) == 1 and bool(node.fresh or settles)
        new = said_of(node, place) if len(places) == 1 and not filled else NO_FACTS
        roots = [(root, [name for name in names if name[0] == root]) for root in dict.fromkeys(n[0] for n in names)]

        def forget(facts: frozenset[Fact], under: list[Place]) -> frozenset[Fact]:
            if node.how == "add":
                return frozenset([each for each in facts if each[0][1] not in under])
            if len(under) == 1:
                size, (name,) = len(under[0]), under
                return frozenset([each for each in facts if each[0][1][:size] != name])
            return frozenset([each for each in facts if not any(each[0][1][: len(name)] == name for name in under)])

        def after(facts: Learned) -> Learned:
            for root, under in roots:
                before = facts.about(root)
                known = forget(before, under) if before else before
                if filled:  # what a comparison or a lookup missed is there from now on
                    element = (*place, ELEMENT)
                    missed = [(a, not v) for a, v in before if a[0].startswith("compare") and a[1] == place]
                    known = frozenset([each for each in known if each[0][1] not in (place, element)])
                    added = {(("true", place), True)} if node.how == "add" else set()
                    added |= {(("one", element), True)} if one else set()
                    known |= {*missed, (("none", element if node.how == "add" else place), False), *added}
                saved = as_element(before, place) if "saved" in node.tags else NO_FACTS
                if node.how == "count":  # what was zero before is not zero any more
                    zero = [kind for (kind, where), value in before if where == place and value is (kind != "true")]
                    saved = frozenset([((kind, place), kind == "true") for kind in zero if kind in ("=0", "true")])
                facts = facts.put(root, known | new | saved)
            return facts

        return after

    def _repeat(self, node: b.Repeat, scope: Activation, configs: list[Config]) -> Outcome:
        over = scope.rebase(node.over)
        if (self.members or self.moves) and (result := self._each_member(node, scope, configs, over)) is not None:
            return result
        place = over[0] if len(over) == 1 and last_part(over[0]) in self.tested else None
        out: Outcome = {}
        if node.sole and place is not None:
            missing = [config for config in configs if config.fact(("none", place)) is True]
            configs = [config for config in configs if config.fact(("none", place)) is not True]
            merge(out, {"raise": missing})
        skipping: list[Config] = []
        entering: list[Config] = []
        test = _asked_each_round(node)
        captures = self._captures(node.body)  # for no size at all, nobody would write it
        for config in configs:
            full = config.fact(("true", place)) if place is not None else None
            if full is False or (full is None and not node.certain and not captures and test is None):
                skipping.append(with_fact(config, ("true", place), False) if place is not None else config)
            if full is not False:
                entering.append(with_fact(config, ("true", place), True) if place is not None else config)
        done: list[Config] = []
        if entering and captures:
            entering = [knowing(config, without_single(config.facts)) for config in entering]
        self._rounds.append(scope.behavior.function)
        self._repeats += 1
        seen: set[tuple[State, Learned]] = set()
        for at in range(2):
            if at and entering and self._tells_rounds_apart(entering):
                entering = self._next_round(entering, node.span, scope)
            entering = [config for config in entering if config[:2] not in seen]
            if not entering:
                break
            seen.update(config[:2] for config in entering)
            result = self._node(node.body, scope, entering)
            merge(out, {"next": result.pop("break", [])})
            entering = distinct([*result.pop("next", []), *result.pop("continue", [])])
            done += entering
            merge(out, result)
        self._rounds.pop()
        self._repeats -= 1
        if test is not None:  # it ends a loop; where it cannot be false, another thread makes it so
            done = [each for config in done for each in self._split(test, scope, [config])[1] or [config]]
        ended = distinct([*skipping, *done])
        merge(out, self._node(node.other, scope, ended) if ended else {})
        return {kind: distinct(each) for kind, each in out.items()}

    def _tells_rounds_apart(self, configs: Sequence[Config]) -> bool:
        """Whether it matters in which round an object was made: it stands in a list, or a stack has it, since then."""
        if any(_is_made_here(each) for members in self.members.values() for each in members):
            return True
        return any(len(place) > 1 and place[1][:1] == "<" for config in configs for (_, place), _ in config.facts)

    def _next_round(self, configs: list[Config], loop: Span, scope: Activation) -> list[Config]:
        """The configurations at the start of another round: what it makes is not what was made in the one before."""
        end = scope.own(("@",))[0][0][1:]

        def is_made(part: str) -> bool:
            start = part[1 : len(part) - len(end)]
            return (
                part[:1] in ("@", "<")
                and part.endswith(end)
                and start.isdigit()
                and loop.start <= int(start) < loop.end
            )

        result: list[Config] = []
        for config in configs:
            facts = config.facts
            for (kind, place), answer in tuple(facts):
                if place and is_made(place[0]):
                    facts = facts.put(place[0], NO_FACTS)
                elif kind == "true" and answer and len(place) > 1 and is_made(place[1].removesuffix(">") + end):
                    facts = facts.with_answer((kind, place), False)  # a stack has not yet what this round registers
            result.append(self.renewed(knowing(config, facts), is_made))
        return distinct(result)

    def _each_member(
        self, node: b.Repeat, scope: Activation, configs: list[Config], over: tuple[Place, ...]
    ) -> Outcome | None:
        """A loop over a table whose items are known, one after the other; None for another loop."""
        if not over and (test := _asked_each_round(node)) is not None and test[:2] == ("atom", "true"):
            over = scope.rebase((test[2],))
        table = over[0] if len(over) == 1 else ()
        if self.alike and table not in self.members:
            table = self._gone_over(node.body, scope) or table
        moved = [item for item in self.moves.get(table, ()) if any(c.fact(_stands_in(table, item)) for c in configs)]
        item = (*table, ELEMENT)
        members = self.members.get(table, (item,) if moved else None)
        if members is None:
            return None
        out: Outcome = {}
        for member in (*members, *moved):
            asked = [c for c in configs if member not in moved or c.fact(_stands_in(table, member))]
            others = [c for c in configs if c not in asked] if member in moved else []
            if member != item:  # itself: any other one
                scope.ways[item] = member
            within, without = asked, others
            if _is_made_here(member):  # an object made here is in it once it was put there
                within = [config for config in asked if config.fact(("in", (*member, *table)))]
                without = [*others, *(config for config in asked if not config.fact(("in", (*member, *table))))]
            result = self._node(node.body, scope, within) if within else {}
            merge(result, {"next": without})
            ended = [result.pop(kind, []) for kind in ("next", "continue", "break")]
            configs = distinct([config for each in ended for config in each])
            merge(out, result)
            scope.ways.pop(item, None)
        merge(out, self._node(node.other, scope, configs) if configs else {})
        return {kind: distinct(each) for kind, each in out.items()}

    def _gone_over(self, body: Node, scope: Activation) -> Place | None:
        """The table whose items a loop over something else calls: `for i in range(len(runners)): runners[i].free()`."""
        nodes = tuple(b.walk(body))
        if any(isinstance(node, b.Repeat) for node in nodes):
            return None
        given = (
            place for node in nodes if isinstance(node, b.Calls) for _, places in node.bindings for place in places
        )
        for place in given:
            tables = scope.rebase((place[: place.index(ELEMENT)],)) if ELEMENT in place[1:] else ()
            if len(tables) == 1 and tables[0] in self.members:
                return tables[0]
        return None

    def _is_one_of_several(self, table: Sequence[Place], key: Iterable[Place]) -> bool:
        """Whether a key is one of several, and no loop around goes through them all.

        A loop of code that is captured does not: it goes over the layers of a model.
        """
        owner = table[0][:-1] if table else ()  # which of several tables it is says nothing of the key
        own = len(owner)
        beyond = (("$", *place[own:]) if own and place[:own] == owner else place for place in key)
        return any(map(varies, beyond)) and self.captured.issuperset(self._rounds)

    def _captures(self, node: Node) -> bool:
        """Whether a capture begins in a node, or in what it calls."""
        for each in b.walk(node):
            if isinstance(each, b.Happens) and each.effect is Effect.CAPTURE:
                return True
            if isinstance(each, b.Calls) and any(map(self._captures_in, each.behaviors)):
                return True
        return False

    def _captures_in(self, key: str) -> bool:
        known = self._capturing.get(key)
        if known is None:
            self._capturing[key] = False  # of a recursion
            built = self.select(key)
            known = self._capturing[key] = built is not None and self._captures(built.node)
        return known

    def _guarded(self, node: b.Guarded, scope: Activation, configs: list[Config]) -> Outcome:
        if node.final == b.NOTHING:
            return self._caught(node, scope, configs)
        if node.sound:
            out = self._caught(node, scope, configs)
        else:  # whatever happens before it, in a handler too, the `finally` runs
            self._points.append(_Points(scope, list(configs)))
            out = self._caught(node, scope, configs)
            merge(out, {"raise": self._points.pop().configs})
        result: Outcome = {}
        for kind, each in out.items():
            after = self._node(node.final, scope, distinct(each)) if each else {}
            merge(result, {kind: after.pop("next", [])})
            merge(result, after)
        return {kind: distinct(each) for kind, each in result.items()}

    def _caught(self, node: b.Guarded, scope: Activation, configs: list[Config]) -> Outcome:
        """`try` without its `finally`."""
        if node.handlers:
            self._points.append(_Points(scope, list(configs), node.last))
        out = self._node(node.body, scope, configs)
        ended = out.pop("next", [])
        if node.handlers:
            last = self._points.pop()
            is_all = last.is_last(node.body, scope)
            points = scope.failed(_outside(last.configs, scope, node.body) if is_all else last.configs)
            items = node.body.items[-1:] if isinstance(node.body, b.Order) else (node.body,)
            if not (items and last.is_last(items[0], scope)):
                points += ended  # something may stand behind it that nobody sees
            failed = distinct([*points, *out.pop("raise", [])], spread=True)
            for handler in node.handlers:
                merge(out, self._node(handler.node, scope, failed))
                if handler.everything:
                    break
            else:
                merge(out, {"raise": failed})
        merge(out, self._node(node.other, scope, ended) if ended and node.other != b.NOTHING else {"next": ended})
        return {kind: distinct(each) for kind, each in out.items()}

    def _call(
        self, node: b.Calls, scope: Activation, configs: list[Config], body: tuple[Node, Activation] | None
    ) -> Outcome:
        out: Outcome = {}
        if self.alike and (same := self._as_before(node, scope, configs)) is not None:
            known, again = same
            merge(out, self._call(known, scope, again, body))
            configs = [config for config in configs if config not in again]
            merge(out, self._call(node, scope, configs, body) if configs else {})
            return {kind: distinct(each) for kind, each in out.items()}
        ran = False
        functions = {frame.function for frame in scope.stack} | {scope.behavior.function}
        for key in node.behaviors:
            built = self.select(key)
            if built is None or built.function in functions or len(scope.stack) >= MAX_DEPTH:
                continue
            ran = True
            self._serial += 1
            bindings = {param: scope.rebase(places) for param, places in node.bindings}
            if built.receiver is not None:
                configs = [config for config in configs if not _is_none(config, bindings.get(built.receiver, ()))]
            stack = (*scope.stack, scope.frame(node.span))
            activations = (*scope.activations, self._serial)
            inner = Activation(
                built,
                bindings,
                stack,
                self._serial,
                body,
                activations=activations,
                aliases=scope.aliases,
                alike=self.alike,
                ways=scope.ways,
            )
            inner.returns(node, scope)
            entering = [knowing(config, config.facts.put(RESULT[0], NO_FACTS)) for config in configs]
            if node.outside:
                entering = [with_fact(config, CAPTURED, False) for config in entering]
            if self.whole is not None:
                entering = [self._again(config, inner, scope.frame(node.span)) for config in entering]
            result = self._node(built.node, inner, entering)
            ended = [*result.pop("next", []), *result.pop("return", [])]
            if body is not None:
                for kind in _LEAVES:  # the manager has ended: now control leaves as the block told it to
                    left = [config for config in ended if config.fact((kind, LEFT))]
                    ended = [config for config in ended if not config.fact((kind, LEFT))]
                    merge(out, {kind: [without_fact(config, (kind, LEFT)) for config in left]})
            atom = ("returned", (node.id,))
            after = []
            values = [config.fact(("true", RESULT)) for config in ended]
            for value, config in zip(values, inner.left(ended), strict=True):
                if node.outside:
                    config = as_before(config, configs)
                after.append(with_fact(config, atom, value) if value is not None else without_fact(config, atom))
            merge(out, {"next": after})
            for kind in ("raise", "break", "continue"):
                merge(out, {kind: inner.left(result.get(kind, ()))})
        if not ran:
            if body is not None:
                return self._node(body[0], body[1], configs)
            return {"next": configs}
        return {kind: distinct(each) for kind, each in out.items()}

    def _as_before(
        self, node: b.Calls, scope: Activation, configs: list[Config]
    ) -> tuple[b.Calls, list[Config]] | None:
        """A call on one of two objects as that on the one which a path has called before, and these paths."""
        built = self.select(node.behaviors[0]) if len(node.behaviors) == 1 else None
        places = dict(node.bindings).get(built.receiver, ()) if built is not None and built.receiver else ()
        for place in places if len(places) == _BOTH else ():
            own = scope.rebase((place,))
            again = [c for c in configs if any(f.receiver == own for event in c.trace for f in event.stack[1:])]
            if again:
                bindings = tuple((name, (place,) if each is places else each) for name, each in node.bindings)
                return node._replace(bindings=bindings), again
        return None

    def _again(self, config: Config, call: Activation, frame: Frame) -> Config:
        """The configuration, moved as by the first call's effect, where a second one of the method does harm after it."""
        before = _first_of(config.trace, call, self.outlived)
        if before is None:
            return config
        stack = (*call.stack[:-1], frame)
        if before.stack[: len(stack)] == stack and not self._is_doubled(before.stack[len(stack) :]):
            return config  # the same line again is the next round of a loop, over other objects
        if not (self._is_refused(config, call) or self._gives_back(config, call)):
            return config
        event = before._replace(stack=stack, activations=call.activations[:-1])
        moved = self.monitor(config.state, event, config)
        if moved is None:
            return config
        return Config(moved[0], config.facts, (*config.trace, event._replace(effect=moved[1])))

    def _is_doubled(self, called: tuple[Frame, ...]) -> bool:
        """Whether the next round of a loop may be about the same object: it stands in the table under several keys."""
        if self.alike and not self._repeats:
            return True  # a loop over attributes that may be one object
        receiver = called[0].receiver if called else ()
        return len(receiver) == 1 and receiver[0][-1] == ELEMENT and b.last_name(receiver[0]) in self.doubled

    def _is_refused(self, config: Config, call: Activation) -> bool:
        """Whether a call can only raise."""
        if not _raises(call.behavior):
            return False
        steps, points = self.steps, self._points
        self._points = []
        refused = self._node(call.behavior.node, call, [config])
        self.steps, self._points = steps, points
        return bool(refused.get("raise")) and not any(configs for kind, configs in refused.items() if kind != "raise")

    def _gives_back(self, config: Config, call: Activation) -> bool:
        """Whether a call gives back, on every path, what a call before has given back: a share, an entry of a table."""
        if self.whole is None or (built := self.whole(call.behavior.key)) is None:
            return False

        def record(state: frozenset[Touched], event: Event, now: Config) -> tuple[State, Effect] | None:
            node = event.node
            if isinstance(node, b.Happens) and node.effect is Effect.GRAPH_DEATH and len(event.places) == 1:
                if now.fact(("none", event.places[0])):
                    return state | {("none", frozenset(), event.places, ())}, Effect.SYNC
            if isinstance(node, b.Touches) and node.how == "drop" and any(now.fact(("gone", p)) for p in event.places):
                return state | {("none", frozenset(), event.places, ())}, Effect.SYNC
            if self.monitor(config.state, event, config) is not None:
                raise _HeardError  # there is something left to end, which says more
            if not isinstance(node, b.Touches) or node.slot is None:
                return None
            how = "raise" if "raised" in node.tags and node.slot in self.counted else node.how
            made_here = any(since(place[0]) > self._serial for place in event.value_places)
            if how == "add" and node.slot in self.lent and not made_here:
                how = "return"
            return state | {(how, node.tags, event.places, event.value_places)}, Effect.SYNC

        trial = Execution(self.whole, record, tested=self.tested, memory=self.memory, captured=self.captured)
        trial.steps, trial._serial = MAX_STEPS - _MOST_TRIED, self._serial
        try:
            out = trial._node(built.node, replace(call, behavior=built), [Config(frozenset(), config.facts)])
        except (ExhaustedError, _HeardError):
            return False
        ended = [each for kind, configs in out.items() if kind != "raise" for each in configs]
        return bool(ended) and all(given_back(each.state) for each in ended)

    # ------------------------------------------------------------------------------------------------------ tests

    def _returned(self, test: Test | None, scope: Activation, configs: list[Config]) -> list[Config]:
        if test is None:
            return configs
        yes, no = self._split(test, scope, configs)
        atom = ("true", RESULT)
        both = {id(c) for c in yes} & {id(c) for c in no}
        return distinct(
            [c for c in yes if id(c) in both]
            + [with_fact(c, atom, True) for c in yes if id(c) not in both]
            + [with_fact(c, atom, False) for c in no if id(c) not in both]
        )

    def _split(self, test: Test, scope: Activation, configs: list[Config]) -> tuple[list[Config], list[Config]]:
        """Configurations in which a test can be true, and those in which it can be false."""
        match test:
            case ("const", value):
                return (configs, []) if value else ([], configs)
            case ("not", inner):
                yes, no = self._split(inner, scope, configs)
                return no, yes
            case ("and", first, *rest):
                yes, no = self._split(first, scope, configs)
                for each in rest:
                    yes, more = self._split(each, scope, yes)
                    no = distinct([*no, *more])
                return yes, no
            case ("or", first, *rest):
                yes, no = self._split(first, scope, configs)
                for each in rest:
                    more, no = self._split(each, scope, no)
                    yes = distinct([*yes, *more])
                return yes, no
            case ("returned", identity):
                return self._ask(("returned", (identity,)), configs, learn=True)
            case ("atom", "capturing" | "device" as kind, _):
                return self._ask((kind, ()), configs, learn=True)
            case ("compare", op, read, identity):
                places = scope.rebase_read(read)
                if op in ("is", "==") and len(read) == 2 and len(places) == 1:
                    if self.alike or (ELEMENT not in places[0] and len(places[0]) > 1):
                        return configs, []
                for place in reversed(places) if op == "in" else places:  # the container stands behind the key
                    named = [i for i, part in enumerate(place) if i and part in self.memory]
                    if named:
                        return self._ask((f"compare {identity}", place[: named[-1] + 1]), configs, learn=True)
                return configs, configs
            case ("atom", kind, place):
                places = scope.rebase((place,))
                if len(places) != 1:
                    return configs, configs
                gone = self._given_up(place, places, scope, configs) if kind in ("none", "true") else []
                if not gone:
                    return self._asked(kind, places[0], configs)
                yes, no = self._asked(kind, places[0], [config for config in configs if config not in gone])
                return ([*yes, *gone], no) if kind == "none" else (yes, [*no, *gone])
        return configs, configs

    def _asked(self, kind: str, root: Place, configs: list[Config]) -> tuple[list[Config], list[Config]]:
        """The same for a question about one place."""
        if root[0] in ("!capturing", "!eager") and kind == "true":
            yes, no = self._ask(CAPTURED, configs, learn=True)
            return (yes, no) if root[0] == "!capturing" else (no, yes)
        if root[0].startswith("!") and len(root) == 1:
            known = ANSWERS.get(root[0], {}).get(kind)
            if known is not None:
                return (configs, []) if known else ([], configs)
            return configs, configs
        learn = last_part(root) in self.tested or (kind == "none" and len(root) == 1 and "#" not in root[0])
        return self._ask((kind, root), configs, learn=learn)

    @staticmethod
    def _given_up(place: Place, places: tuple[Place, ...], scope: Activation, configs: list[Config]) -> list[Config]:
        """Configurations in which an attribute has been given None, whose object another name still stands for."""
        if not (scope.ways or scope.aliases) or (own := scope.references((place,))) == places or len(own) != 1:
            return []
        return [config for config in configs if config.fact(("none", own[0])) is True]

    @staticmethod
    def _ask(atom: Atom, configs: list[Config], *, learn: bool) -> tuple[list[Config], list[Config]]:
        yes: list[Config] = []
        no: list[Config] = []
        for config in configs:
            known = config.fact(atom)
            if known is None:
                yes.append(with_fact(config, atom, True) if learn else config)
                no.append(with_fact(config, atom, False) if learn else config)
            else:
                (yes if known else no).append(config)
        return yes, no


def _is_made_here(member: Place) -> bool:
    """Whether what stands in a table is an object that the function makes."""
    return len(member) == 1 and member[0][0] == "@"


def _outside(configs: Iterable[Config], scope: Activation, call: Node) -> list[Config]:
    """The configurations that are not in the middle of a release: where a call fails there, it may be made again."""
    if not isinstance(call, b.Calls):
        return list(configs)
    stack = (*scope.stack, scope.frame(call.span))

    def is_within(event: Event) -> bool:
        return event.effect is Effect.GRAPH_DEATH and event.stack[: len(stack)] == stack

    return [config for config in configs if not (config.trace and is_within(config.trace[-1]))]


def _is_at_once(node: Node, following: Sequence[Node]) -> bool:
    """Whether what follows on a node is a write that cannot fail, right behind."""
    if not following or not isinstance(following[0], b.Touches) or isinstance(node, b.Order):
        return False
    return b.behind(node.span) in following[0].tags


def _stands_in(table: Place, item: Place) -> Atom:
    """The question whether an item of another table stands in a table, too; nobody knows once another one was taken there."""
    return f"in {'.'.join(table)}", item


def _is_done_once(behavior: Behavior) -> bool:
    """Whether a function asks first whether there is anything left to do."""
    first = behavior.node.items[0] if isinstance(behavior.node, b.Order) and behavior.node.items else behavior.node
    return isinstance(first, b.Either) and b.falls_through(first.then) != b.falls_through(first.other)


def _first_of(trace: Sequence[Event], call: Activation, names: frozenset[str]) -> Event | None:
    """The last event of a path by which the same method of the same object ended graphs, as the call sees its places.

    Args:
        trace: the path.
        call: of the method.
        names: of the attributes from which a variable has on what was there.
    """
    earlier = tuple(taken_back(place, names) for place in call.receiver)
    own = call.behavior.receiver
    given = [
        place
        for name, places in call.bindings.items()
        for place in places
        if name != own and place[0][0] != "!" and (own is None or len(place) > 1 or place[0][0] == "@")
    ]
    for event in reversed(trace):
        if event.effect is Effect.CAPTURE:
            return None
        if event.effect is Effect.GRAPH_DEATH and isinstance(event.node, b.Happens):
            if given and not any(p[: len(g)] == g for p in event.places for g in given):
                continue  # a function that was given another object
            receivers = [each.receiver for each in event.stack if each.function == call.behavior.function]
            if call.receiver in receivers:
                return event
            if earlier in receivers:
                return event._replace(places=tuple(moved_on(place, names) for place in event.places))
    return None


def _raises(behavior: Behavior) -> bool:
    """Whether a function raises under a test of its own, or where there is nothing to go over."""
    return any(
        (isinstance(node, b.Leaves) and node.kind == "raise") or (isinstance(node, b.Repeat) and node.sole)
        for node in behavior.nodes
    )


def given_back(touched: frozenset[Touched]) -> bool:
    """Whether these touches together give back something that is there to be given back once, or ask it of None.

    A count that goes down, or up where others take from it, what goes back into a list to be taken again, and an entry that
    must be there to be removed. Not where both directions meet, and not where the amount is an attribute that is written on
    the way: the next time it is none.
    """
    written = {place for how, _, places, _ in touched if how == "write" for place in places}
    down, up = ({places for how, _, places, _ in touched if how == each} for each in ("count", "raise"))
    for how, tags, places, amount in touched:
        if places and written.isdisjoint(amount):
            if how == "none" or (how == "return" and amount):
                return True
            if (places in down | up and places not in down & up) or (how == "pop" and "strict" in tags):
                return True
    return False


def _is_none(config: Config, places: tuple[Place, ...]) -> bool:
    """Whether a path knows that an object is None, so that no method of it can run."""
    return len(places) == 1 and ELEMENT not in places[0] and config.fact(("none", places[0])) is True


def _switches_capture(node: b.Happens) -> bool:
    """Whether from here on the stream is being captured, or is not any more."""
    if node.effect is Effect.CAPTURE_END:
        return True
    return node.effect is Effect.CAPTURE and not node.by_name and (not node.raw or node.label.endswith("capture_begin"))


def _asked_each_round(loop: b.Repeat) -> Test | None:
    """What a `while` asks before every round."""
    match loop.body:
        case b.Either(test=test, other=b.Leaves(kind="break", span=span)) if span == loop.span:
            return test
    return None
