"""Where C++ keeps things: the storage that an expression denotes, and what is known about a value in it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from graphlint.cpp.conditions import UNKNOWN, Formula
from graphlint.source import Span


class Kind(Enum):
    """What holds a place, shortest life first."""

    LOCAL = "local"
    PARAMETER = "parameter"
    """A parameter by value: a tensor in it is a handle on the caller's."""
    ARGUMENT = "argument"
    """What a parameter refers or points to: the caller's."""
    POINTEE = "pointee"
    """What a call returned a reference or pointer to: it was there before, and stays."""
    INSTANCE = "instance"
    CLASS = "class"
    MODULE = "module"
    STATIC = "static"
    """A static or thread-local variable of a function."""

    @property
    def is_kept(self) -> bool:
        """Whether what is put there outlives the function."""
        return self not in (Kind.LOCAL, Kind.PARAMETER)

    @property
    def scope(self) -> str:
        """Whose memory it is, in the words of a vocabulary."""
        return {"class": "class", "module": "process", "static": "process"}.get(self.value, "instance")


class Cell(NamedTuple):
    """A data member of a class, or a variable: the same wherever it is reached from."""

    owner: str
    name: str

    def __str__(self) -> str:
        owner = self.owner.rpartition("::")[2]
        return f"{owner}::{self.name}" if owner else self.name


class Place(NamedTuple):
    """Storage: a variable or member, and the way from it to the part that is meant."""

    root: str
    """The variable, apart from every other one."""
    kind: Kind
    cells: tuple[Cell, ...]
    """The members on the way, outermost first; a part has all the cells of the whole."""
    path: tuple[str, ...] = ()
    """`("[stream]", "workspace")`: elements and members below the root."""
    type: str = ""

    @property
    def cell(self) -> Cell:
        """The innermost member on the way."""
        return self.cells[-1]

    def part(self, name: str, cell: Cell | None, type_text: str) -> Place:
        """A part of it: a member or an element."""
        return Place(
            self.root, self.kind, self.cells if cell is None else (*self.cells, cell), (*self.path, name), type_text
        )

    def __str__(self) -> str:
        return str(self.cells[0])


class Guard(NamedTuple):
    """A condition that holds where something happens: the test, in the polarity that leads there."""

    formula: Formula
    path: str
    span: Span
    sized: frozenset[Cell] = frozenset()
    """Whose sizes it compares."""
    asks: frozenset[Cell] = frozenset()
    """Whose state it asks for."""
    asked: tuple[str, Span] | None = None
    """File and place of the call that asks whether a capture is under way."""
    outgrown: frozenset[Cell] = frozenset()
    """Those of `sized` that it asks to be large enough, not just the same."""


class Call(NamedTuple):
    """A call on the way from the function that was looked at to what happens."""

    path: str
    span: Span
    name: str


class Fresh(NamedTuple):
    """Device memory, where it is allocated."""

    path: str
    span: Span
    function: Span
    symbol: str
    """Qualified name of the function that allocates."""
    name: str
    """Of the call that allocates."""
    guards: tuple[Guard, ...]
    calls: tuple[Call, ...]
    is_certain: bool = True
    """Whether the options say that it is on the device."""
    is_raw: bool = False
    """Whether nothing frees it but a call: the memory of a pointer, not of an object."""
    is_scoped: bool = False
    """Whether a pool of its own was opened for it."""
    in_capture: bool = False
    """Whether a capture begun by the same code is under way."""


class Value(NamedTuple):
    """What is known about the value of an expression."""

    place: Place | None = None
    """The storage that the expression denotes."""
    pointee: Place | None = None
    """The storage that the value points to: of a pointer, an iterator, a smart pointer."""
    fresh: tuple[Fresh, ...] = ()
    """Device memory that was allocated on the way here and is now in this value."""
    truth: Formula = UNKNOWN
    is_status: bool = False
    """Whether it is a capture status, to be compared: `truth` then is that of `status != None`."""
    is_empty: bool = False
    """Whether it holds nothing: `nullptr`, `{}`, `at::Tensor()`."""
    is_looked_up: bool = False
    """Whether it came from a call that nobody could look into."""
    measures: frozenset[Cell] = frozenset()
    """Whose size it is computed from."""
    sized: frozenset[Cell] = frozenset()
    asks: frozenset[Cell] = frozenset()
    asked: tuple[str, Span] | None = None
    function: str = ""
    """The id of the lambda that it is."""
    outgrown: frozenset[Cell] = frozenset()
    options: frozenset[str] = frozenset()
    """`host` or `device`, where it says where a tensor goes."""

    @property
    def says_nothing(self) -> bool:
        """Whether a place that holds it is as good as one that nobody has looked at."""
        return self._replace(place=None, is_empty=False, is_looked_up=False) == NOTHING


NOTHING = Value()


def all_fresh(values: Iterable[Value]) -> tuple[Fresh, ...]:
    """The memory that any of the values holds."""
    return tuple(dict.fromkeys(fresh for value in values for fresh in value.fresh))
