"""What one C++ or CUDA file says: its functions with their flows, its classes, its variables, what it binds to Python.

Functions are lowered to the same `graphlint.flow` as Python's. C++ adds this:

* a name may be qualified: `Name("c10::cuda::getCurrentCUDAStream")`; the object of a method is `Name("this")`;
* `p->x` is `Attr(Op("*", p), "x")`, `*p` and `&x` are `Op`s of one operand;
* the declared type of a variable is its bind's annotation, as `Lit("static std::map<int, at::Tensor>&")`;
* `new T(x)`, `T{x}` and `T y(x)` are calls of `Name("T")`; `delete p` is a `Drop`;
* a lambda is a `Func`; the function of that id is among the file's functions;
* both branches of an `#if` are an `Alt` whose test nobody can know: `Op("#if", ())`;
* a macro that throws where its condition fails (`TORCH_CHECK(ok, ...)`) is an `Alt` with an `Exit`, as `assert` is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from graphlint.effects import Lifetime
from graphlint.flow import Flow
from graphlint.source import Span


class Parameter(NamedTuple):
    """A parameter; `type` as written, with `&` and `*`."""

    name: str
    type: str


class Variable(NamedTuple):
    """A data member, or a variable of a namespace; static variables of functions stand in the functions' flows."""

    name: str
    type: str
    lifetime: Lifetime
    span: Span


@dataclass(frozen=True)
class Record:
    """A class, struct or union that is defined here."""

    name: str
    """Qualified by namespaces and outer classes: `engine::Runner::Slot`."""
    bases: tuple[str, ...]
    members: tuple[Variable, ...]
    span: Span


@dataclass(frozen=True)
class Function:
    """A function, method or lambda with a body."""

    name: str
    """Qualified: `engine::Runner::run`; of a lambda its id, `lambda@1234`, after the function that holds it."""
    owner: str
    """Qualified name of the class it is a method of, else empty."""
    parameters: tuple[Parameter, ...]
    result: str
    """Declared type of the result as written; empty for constructors, destructors and lambdas."""
    flow: Flow = field(repr=False, hash=False, compare=False)
    span: Span
    path: str
    is_static: bool = False
    calls: frozenset[str] = field(default=frozenset(), repr=False)
    """Last words of the names that it calls, a method's after a dot; the ids of the lambdas in it; `=` where it assigns
    an empty value."""

    @property
    def simple(self) -> str:
        """The name without qualification."""
        return self.name.rpartition("::")[2]

    @property
    def is_constructor(self) -> bool:
        """Whether the function makes an object of its class."""
        return bool(self.owner) and self.simple == self.owner.rpartition("::")[2]


@dataclass(frozen=True)
class Binding:
    """One function that Python can call."""

    call: str
    """The name under which Python calls it: `torch.ops.engine.step`; `?` is a part that the source does not say."""
    target: str
    """Name of the C++ function as written: `&engine::Runner::run` without the `&`, or a lambda's id."""
    owner: str
    """For a class's methods the class as Python finds it, else empty."""
    span: Span
    path: str


@dataclass(frozen=True)
class CppFacts:
    """Everything that is known about one file."""

    path: str
    functions: tuple[Function, ...] = ()
    records: tuple[Record, ...] = ()
    variables: tuple[Variable, ...] = ()
    """Variables of namespaces, their names qualified."""
    bindings: tuple[Binding, ...] = ()
    unread: tuple[Span, ...] = field(default=())
    """Parts that could not be read. Whatever is in them is not known."""
