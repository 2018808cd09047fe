"""What runs at an end by somebody else's promise, called by nobody in sight.

Finalizers run when their object goes, what `atexit` was told when the process ends, and the cleanups of a test behind its
`tearDown`. Each is evaluated where it is registered. A method that does the same as one of them is kept a second time, together
with it, for rules that look for what is done twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphlint import behavior as b
from graphlint import flow
from graphlint.assignments import assigned
from graphlint.behavior import Behavior, Node
from graphlint.deferred import Deferring
from graphlint.project import FunctionEntry, Project
from graphlint.source import Span
from graphlint.values import ELEMENT, NOTHING_KNOWN, Bound, Place, Value

_CLEANUPS = "<cleanups>"
_TEST_ENDS = ("tearDown", "asyncTearDown")
_CALLS_OFF = frozenset(("unregister",))
_TAKERS = frozenset(("pop", "popleft"))
_EXITS = "%<exits>"
_DEEPEST = 3


class Ending(Deferring):
    """The evaluation of what is registered for an end."""

    def ending(self, expr: flow.Call) -> Value | None:
        """A call that registers something for the end of a test or of the process; None for any other call."""
        match expr:
            case flow.Call(
                callee=flow.Attr(base=flow.Name(id=base), name="addCleanup" | "addAsyncCleanup"), args=(first, *_)
            ):
                if f"${base}" == self.me and self._is_test():
                    self._clean_up(self.value(first), expr.span)
                    return NOTHING_KNOWN
            case flow.Call(args=(first, *others)) if flow.last_name(expr) == "register":
                if self.project.dotted(self.module, expr.callee) == "atexit.register":
                    self._exit(flow.Call(first, tuple(others), expr.keywords, expr.span))
                    return NOTHING_KNOWN
            case flow.Call(args=(_,)) if flow.last_name(expr) == "unregister" and self.exits:
                if self.project.dotted(self.module, expr.callee) == "atexit.unregister":
                    for _, span in self.exits:
                        self._say_exit(span, registered=False)
                    return NOTHING_KNOWN
        return None

    # -------------------------------------------------------------------------------------------------- finalizers

    def finalizer(self, expr: flow.Call) -> None:
        """`weakref.finalize(object, function, ...)`: what runs when an object of the class goes."""
        one, first, *others = expr.args
        owner = self.value(one)
        call = flow.Call(first, tuple(others), expr.keywords, expr.span)
        node = self.nodes(lambda: self.value(call))
        params = self.entry.facts.params
        if (
            not self.emitting
            or node == b.NOTHING
            or not owner.types
            or not params
            or owner.places != ((f"${params[0].name}",),)
        ):
            if owner.places != ((self.me,),) and not self._names_of(expr):
                self._exit_of_local(node, expr.span)  # it runs at the end of the process at the latest
            return
        key = self.later(self.entry.name, expr.span, node, params[0].name, self.entry.name)
        self.all.finalizers.setdefault(owner.types[0].name, {})[key] = params[0].name
        names = self._names_of(expr)
        runs = _runs(node)
        for built in self._repeating(owner.types[0].name, runs, names):
            if not runs.isdisjoint(_callees(built)):
                self._note_twice(built, key, b.FINALIZED)

    def _names_of(self, expr: flow.Call) -> frozenset[str]:
        """Names of the variables and attributes that have what a call gives."""
        return frozenset(flow.last_name(t) for t, value, _ in assigned(self.entry.lowered.flow) if value == expr)

    def finalized(self, class_name: str, places: tuple[Place, ...], span: Span) -> Iterator[Node]:
        """What the finalizers of an object do."""
        self.build_those_with(class_name, frozenset(("finalize",)))
        for each in self.project.mro(class_name):
            for key, receiver in self.all.finalizers.get(each, {}).items():
                yield self.run_later(key, receiver, places, span)

    # ------------------------------------------------------------------------------------------------- at the exit

    def _exit(self, call: flow.Call) -> None:
        """What runs at the end of the process, for an object that stays alive until then."""
        node = self.nodes(lambda: self.value(call))
        self._exit_of_local(node, call.span)
        if self.emitting and not any(places for _, places in _bindings(node)):
            plain = {name for name in _runs(node) if self.project.functions[name].kind == "function"}
            self.all.at_exit.update(name for name in plain if "<locals>" not in name and self._gives_back(name))
        if not self.emitting or not any(places == ((self.me,),) for _, places in _bindings(node)):
            return
        key = self.later(self.entry.name, call.span, node, self.me[1:], self.entry.name)
        runs = _runs(node)
        ends = [
            each for each in self._repeating(self.owner, runs, _CALLS_OFF) if not each.function.endswith(".__del__")
        ]
        callers = [each for each in ends if not runs.isdisjoint(_callees(each))]
        for built in callers:
            self._note_twice(built, key, b.EXITED)
        if not callers:  # whoever has the object calls it
            for built in (each for each in ends if each.function in runs):
                me = ((self.me,),)
                first = b.Calls((built.key,), ((built.receiver or "", me),), self.entry.facts.header, f"{key}@")
                whole = Behavior(
                    f"{self.entry.name}|{b.EXITED}",
                    self.entry.name,
                    b.order([first, node]),
                    NOTHING_KNOWN,
                    NOTHING_KNOWN,
                    self.me[1:],
                )
                self.all.put(whole)

    def _exit_of_local(self, node: Node, span: Span) -> None:
        """What is registered for an object that the function makes."""
        made = any(len(each) == 1 and each[0][0] == "@" for _, places in _bindings(node) for each in places[:1])
        inner = any(each.startswith(f"{self.entry.name}.<locals>") for each in _runs(node))
        if self.emitting and (made or inner) and not self.loops:
            self.exits.append((node, span))
            self._say_exit(span, registered=True)

    def _say_exit(self, span: Span, *, registered: bool) -> None:
        """Note whether a registration holds."""
        tags = frozenset(("true" if registered else "false",))
        self.emit(b.Touches("write", ((_EXITS, f"<{span.start}>"),), None, span, tags))

    def keep_exits(self, node: Node) -> None:
        """Keep the function a second time, together with what runs behind it for objects that it makes."""
        for facts in self.entry.lowered.nested:
            if any(self.project.dotted(self.module, each) == "atexit.register" for each in facts.decorators):
                self.exits.append(
                    (self._run(Bound(f"{self.module.name}.{facts.qualname}", None), facts.header), facts.header)
                )
        given = [(each, span) for each, span in self.exits if any(map(self._gives_back, sorted(_runs(each))))]
        if not given or not self.emitting:
            return
        ends = [b.Either(("atom", "true", (_EXITS, f"<{s.start}>")), each, b.NOTHING, s) for each, s in reversed(given)]
        before: list[Node] = []
        for _, span in given:
            tags = frozenset(("false",))
            before.append(b.Touches("write", ((_EXITS, f"<{span.start}>"),), None, span, tags))
        facts = self.entry.facts
        whole = b.Guarded(node, (), b.NOTHING, b.order(list(ends)), facts.span, sound=True)
        is_method = self.entry.owner is not None and self.entry.kind in ("method", "property")
        receiver = facts.params[0].name if is_method and facts.params else None
        key = f"{self.entry.name}|{b.EXITED}"
        self.all.put(
            Behavior(
                key, self.entry.name, b.order([*before, whole]), NOTHING_KNOWN, NOTHING_KNOWN, receiver, self.aliases
            )
        )

    def _run(self, bound: Bound, span: Span) -> Node:
        return self.nodes(lambda: self.call_functions((bound,), (), (), span))

    # ----------------------------------------------------------------------------------------- at the end of a test

    def _is_test(self) -> bool:
        mro = self.project.mro(self.owner) if self.owner in self.project.classes else ()
        return any(each.startswith("unittest.") and each.endswith("TestCase") for each in mro)

    def _clean_up(self, function: Value, span: Span) -> None:
        """A table of functions that nobody in sight goes over: the test does, behind its end."""
        self.touch("add", ((self.me, _CLEANUPS),), (self.owner, _CLEANUPS), span, function)
        if not self.emitting:
            return
        known = self.all.cleanups.setdefault(self.owner, {})
        known.update((each.function, (self.entry.name, span)) for each in function.calls if each.receiver is not None)
        for name in _TEST_ENDS:
            method = self.project.method(self.owner, name)
            built = self.all.build(method) if method is not None else None
            if built is not None and built.receiver is not None and known:
                end = self._run_cleanups(built, known)
                self.all.put(b.partial(built, f"{method}|{b.CLEANED}", b.order([end, built.node])))

    def _run_cleanups(self, end: Behavior, known: dict[str, tuple[str, Span]]) -> Node:
        header = self.project.functions[end.function].facts.header
        table: Place = (f"${end.receiver}", _CLEANUPS)
        calls: list[Node] = []
        for function in sorted(known):
            params = self.project.functions[function].facts.params
            built = self.all.build(function)
            if built is not None and params:
                bindings = ((params[0].name, ((*table, ELEMENT),)),)
                calls.append(b.Calls((built.key,), bindings, header, f"{end.function}@{header.start}"))
        return b.Repeat(b.order(calls), b.NOTHING, (table,), header)

    # ------------------------------------------------------------------------------------------------------- twice

    def _repeating(self, class_name: str, runs: frozenset[str], names: frozenset[str]) -> list[Behavior]:
        """The methods of a class, where what is registered gives back a second time what they may have given back.

        Args:
            class_name: of the object.
            runs: the functions that are registered.
            names: words of a method that calls what is registered itself, or calls it off: then there are none.
        """
        entry = self.project.classes.get(class_name)
        if entry is None or not any(map(self._gives_back, sorted(runs))):
            return []
        methods = [self.project.functions[name] for name in entry.methods.values() if name != self.entry.name]
        if any(not names.isdisjoint(method.facts.words) for method in methods):
            return []
        built = (self.all.build(method.name) for method in methods)
        return [each for each in built if each is not None and each.receiver is not None]

    def _note_twice(self, method: Behavior, key: str, end: str) -> None:
        """Keep a method together with what does the same once more."""
        entry: FunctionEntry = self.project.functions[method.function]
        again = self.run_later(key, self.entry.facts.params[0].name, ((f"${method.receiver}",),), entry.facts.header)
        self.all.put(b.partial(method, f"{entry.name}|{end}", b.order([again, method.node])))

    def _gives_back(self, function: str, depth: int = 0) -> bool:
        """Whether a function takes from a count, takes out what must be there or puts back what it has, itself or in a call."""
        built = self.all.build(function)
        if built is None or depth > _DEEPEST:
            return False
        return any(
            isinstance(node, b.Touches)
            and (
                node.how == "count"
                or node.tags & {"raised", "strict"}
                or (node.how == "add" and self._is_put_back(node))
            )
            for node in built.nodes
        ) or any(self._gives_back(each, depth + 1) for each in sorted(_callees(built)))

    def _is_put_back(self, node: b.Touches) -> bool:
        """Whether something that was there before goes into a table out of which somebody takes, as far as the text says."""
        is_old = any(place[0].startswith("$") for place in node.value_places)
        users = self.all.functions_with(node.slot[1]) if is_old and node.slot is not None else ()
        return any(not _TAKERS.isdisjoint(each.facts.words) for each in users)


def behind_all(behaviors: Iterable[Behavior], at_exit: frozenset[str], project: Project) -> Iterator[Behavior]:
    """Functions that call what runs at the end of the process, too, each together with that."""
    for each in behaviors:
        entry = project.functions[each.function]
        if each.key != each.function or each.function in at_exit or not _CALLS_OFF.isdisjoint(entry.facts.words):
            continue
        again = sorted(at_exit.intersection(each.callees))
        if again:
            header = entry.facts.header
            last = b.order([b.Calls((name,), (), header, f"{each.function}@{header.start}") for name in again])
            node = b.Guarded(each.node, (), b.NOTHING, last, header, sound=True)
            yield b.partial(each, f"{each.function}|{b.EXITED}", node)


def _callees(behavior: Behavior) -> set[str]:
    """Functions that a behavior calls."""
    return {key.partition("|")[0] for key in behavior.callees}


def _runs(node: Node) -> frozenset[str]:
    """Functions that calls in a node run."""
    calls = (each for each in b.walk(node) if isinstance(each, b.Calls))
    return frozenset(key.partition("|")[0] for each in calls for key in each.behaviors)


def _bindings(node: Node) -> Iterator[tuple[str, tuple[Place, ...]]]:
    """Parameters of calls in a node, and what they are given."""
    for each in b.walk(node):
        if isinstance(each, b.Calls):
            yield from each.bindings
