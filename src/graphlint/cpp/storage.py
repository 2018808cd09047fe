"""Where names lead, and what is put there: the part of a walk that knows places."""

from __future__ import annotations

from graphlint.cpp import conditions
from graphlint.cpp.conditions import CAPTURING, SEEN
from graphlint.cpp.facts import Function
from graphlint.cpp.places import NOTHING, Cell, Guard, Kind, Place, Value, all_fresh
from graphlint.cpp.program import Program
from graphlint.cpp.state import MAX_HAPPENINGS, Frame, Happening, Kept, State, Walked
from graphlint.cpp.vocabulary import Vocabulary, has_word
from graphlint.effects import Effect
from graphlint.flow import Expr, Lit
from graphlint.source import Span


class Storage:
    """Reads and writes places, and records what happens to the memory in them."""

    def __init__(
        self,
        program: Program,
        vocabulary: Vocabulary,
        relevant: frozenset[Function],
        latches: frozenset[Cell],
        found: Walked,
    ) -> None:
        self.program = program
        self.relevant = relevant
        self.vocabulary = vocabulary
        self.words = vocabulary.words
        self.latches = latches
        self.found = found
        self.frames = 0
        self.has_allocated = False
        self.stack: list[tuple[str, str]] = []
        self._seen_kept: set[tuple[Span, Span, str, tuple[Guard, ...]]] = set()

    def _local(self, frame: Frame, name: str, state: State) -> Value:
        root = frame.key(name)
        known = state.env.get(root)
        if known.place is not None:  # a reference, or a static variable
            return self._stored(known.place, state, known)
        type_text = frame.types[name]
        is_parameter = any(parameter.name == name for parameter in frame.function.parameters)
        place = Place(
            root, Kind.PARAMETER if is_parameter else Kind.LOCAL, (Cell(frame.function.name, name),), (), type_text
        )
        return self._with_parts(known._replace(place=place), place, state)

    def _stored(self, place: Place, state: State, known: Value = NOTHING) -> Value:
        """The value in a place, as far as the walk has seen one put there."""
        value = state.env.get(place.root, place.path, known)._replace(place=place)
        if place.cells and place.cell in self.latches:
            value = value._replace(truth=SEEN)
        value = value._replace(asks=value.asks | frozenset(place.cells))
        return self._with_parts(value, place, state)

    def _with_parts(self, value: Value, place: Place, state: State) -> Value:
        """With the memory that the parts of an object hold, where the object is a local one."""
        if not self.has_allocated or place.kind not in (Kind.LOCAL, Kind.PARAMETER):
            return value
        parts = [part for _, part in state.env.below(place.root, place.path) if part.fresh]
        return value._replace(fresh=tuple(dict.fromkeys((*value.fresh, *all_fresh(parts))))) if parts else value

    def _this(self, frame: Frame) -> Place | None:
        scope: Frame | None = frame
        while scope is not None:
            if scope.this is not None:
                return scope.this
            scope = scope.parent
        return None

    def _outer(self, name: str, frame: Frame) -> Place | None:
        """The member or the variable of a namespace that a name means; None for a constant, a type or a function."""
        owner = frame.owner
        this = self._this(frame)
        last = name.rpartition("::")[2]
        if "::" in name:
            scope = name.rpartition("::")[0]
            if (member := self.program.member(scope, last)) is not None and "static" in member.variable.type.split():
                return _variable(member.record, last, member.variable.type, Kind.CLASS)
            if (variable := self.program.variable(name, frame.function)) is not None:
                return _variable(variable.name.rpartition("::")[0], last, variable.type, Kind.MODULE)
            return None
        if owner and (member := self.program.member(owner, name)) is not None:
            if "static" in member.variable.type.split():
                return _variable(member.record, name, member.variable.type, Kind.CLASS)
            return self._member_of(this, Cell(member.record, name), member.variable.type)
        if (variable := self.program.variable(name, frame.function)) is not None:
            if "constexpr" in variable.type.split():
                return None
            return _variable(variable.name.rpartition("::")[0], name, variable.type, Kind.MODULE)
        if _is_constant(name) or not name.isidentifier() or self.program.named(name):
            return None
        if owner:
            # The header that declares the class is not there: a name that is nothing else is a member.
            return self._member_of(this, Cell(owner, name), "")
        return _variable("", name, "", Kind.MODULE)

    @staticmethod
    def _member_of(this: Place | None, cell: Cell, type_text: str) -> Place:
        if this is None:
            return Place(f"this:{cell.owner}", Kind.INSTANCE, (cell,), (cell.name,), type_text)
        return this.part(cell.name, cell, type_text)

    def _part(self, place: Place, name: str, frame: Frame) -> Place:
        record = self.program.record(place.type, frame.owner or frame.function.name) if place.type else None
        if record is not None and (member := self.program.member(record.name, name)) is not None:
            return place.part(name, Cell(member.record, name), member.variable.type)
        if not place.cells:  # a member of `this` that no header declares
            return place.part(name, Cell(place.type, name), "")
        outer = place.cell
        return place.part(name, Cell(f"{outer.owner}::{outer.name}" if outer.owner else outer.name, name), "")

    def _copied(self, value: Value, root: str, name: str, frame: Frame) -> Value:
        """A value as a variable of its own holds it."""
        pointee = value.pointee or value.place
        if pointee is None and value.is_looked_up and not value.fresh:
            pointee = Place(f"*{root}", Kind.POINTEE, (Cell(frame.function.name, name),), (), "")
        return value._replace(place=None, pointee=pointee)

    def _copy_parts(self, value: Value, root: str, state: State) -> None:
        """`auto copy = local`: what the parts of a local object hold, the copy's parts hold too."""
        if value.place is None or value.place.kind is not Kind.LOCAL:
            return
        for path, part in state.env.below(value.place.root, value.place.path):
            state.env.put(root, path, part)

    def _assign(
        self, target: Value, value: Value, written: Expr | None, state: State, frame: Frame, span: Span
    ) -> None:
        place = target.place
        if place is None:
            return
        if place.kind.is_kept:
            if value.place is not None and value.place.kind.is_kept and value.place.cells != place.cells:
                state.parked |= {value.place.cell}
            if isinstance(written, Lit) and written.value is True and place.cells:
                self._latch(place, state)
            if value.fresh:
                self._keep(place, value, state, frame, span)
            elif value.is_empty:
                self._give_up(target, "=", state, frame, span)
            if place.cells:
                self.found.bound.setdefault(place.cell, []).append(state.guards)
        stored = value._replace(place=None, pointee=value.pointee or value.place)
        if stored.says_nothing:
            state.env.drop(place.root, place.path)
        else:
            state.env.put(place.root, place.path, stored)
        if place.kind is Kind.LOCAL:
            self._copy_parts_below(value, place, state)

    def _copy_parts_below(self, value: Value, place: Place, state: State) -> None:
        for path, _ in state.env.below(place.root, place.path):
            state.env.drop(place.root, (*place.path, *path))
        if value.place is not None and value.place.kind is Kind.LOCAL:
            for path, part in state.env.below(value.place.root, value.place.path):
                state.env.put(place.root, (*place.path, *path), part)

    def _latch(self, place: Place, state: State) -> None:
        if any(conditions.occurs(guard.formula, CAPTURING, positively=True) for guard in state.guards):
            self.found.latches.add(place.cell)

    def _keep(
        self, place: Place, value: Value, state: State, frame: Frame, span: Span, *, in_place: bool = False
    ) -> None:
        parked = bool(state.parked.intersection(place.cells))
        for fresh in value.fresh:
            identity = (fresh.span, span, place.root, state.guards)
            if identity not in self._seen_kept:
                self._seen_kept.add(identity)
                self.found.kept.append(Kept(place, fresh, frame.function.path, span, state.guards, parked, in_place))

    def _give_up(self, value: Value, operation: str, state: State, frame: Frame, span: Span) -> None:
        """A place is cleared, deleted, or given an empty value."""
        place = value.place or value.pointee
        if place is None or not place.cells:
            return
        is_graph = self._is_graph(place)
        effect = Effect.GRAPH_DEATH if is_graph is not None else Effect.WS_RELEASE
        if effect is Effect.WS_RELEASE and not place.kind.is_kept:
            return
        self._happen(effect, place, operation, state, frame, span, is_sure=is_graph is not False)

    def _is_graph(self, place: Place) -> bool | None:
        """Whether a place holds a captured graph: by its type (True), by its name alone (False), or not (None)."""
        if any(has_word(place.type, word) for word in self.words.graph_types):
            return True
        if place.type or not place.cells:
            return None
        name = place.cell.name.lower()
        return False if "graph" in name and "pool" not in name else None

    def _happen(
        self,
        effect: Effect,
        place: Place | None,
        operation: str,
        state: State,
        frame: Frame,
        span: Span,
        *,
        once: bool = False,
        is_sure: bool = True,
    ) -> None:
        function = frame.function
        happening = Happening(
            effect,
            place,
            function.path,
            span,
            function.span,
            frame.symbol,
            state.guards,
            frame.calls,
            operation,
            once,
            is_sure,
        )
        state.traces = tuple((*trace, happening) if len(trace) < MAX_HAPPENINGS else trace for trace in state.traces)


def _variable(owner: str, name: str, type_text: str, kind: Kind) -> Place:
    return Place(f"{kind.value}:{owner}::{name}", kind, (Cell(owner, name),), (), type_text)


def _is_constant(name: str) -> bool:
    """Whether a name is spelled like a constant or a macro: `MAX_SIZE`, `kAlignment`."""
    return (
        name.isupper() or (len(name) > 1 and name[0] == "k" and name[1].isupper()) or name in ("std", "true", "false")
    )
