"""What a function's syntax tree says it assigns must be what its flow says."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from graphlint import facts, flow
from graphlint.assignments import assigned
from graphlint.source import Source
from graphlint.syntax import ParseError

LIBRARY = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[::4]
HERE = sorted(Path(__file__).parent.parent.glob("src/graphlint/**/*.py"))

PROGRAM = b"""
class C:
    def f(self, other):
        self.a = 1
        self.a.further = 1
        self.b: int
        self.c, (other.d, [self.e]) = other
        self.g[0] = self.h = 2
        self.i += 1
        j[0] += 1
        self.k.append(1)
        self.l.deep[1] = 3
        try:
            self.m = 1
        except ValueError:
            self.n = 1
        else:
            self.o = 1
        finally:
            self.p = 1
        match other:
            case 1:
                self.q.update(other)
        with other as self.not_this:
            self.r = 1
        for self.nor_this in other:
            while True:
                self.s = 1
        del self.nor_that
        def inner():
            self.not_here = 1
        self.t.append
        self.u.append()
        C.table[1] = other
        self.v.setdefault(1, []).append(2)
        if other: self.w = 1
        else: self.x = 1
"""


def from_flow(source: Source, function: facts.Function) -> set[str]:
    found: set[str] = set()
    body = facts.lower(source, function).flow
    for target, _, how in assigned(body):
        match target:
            case flow.Attr(base=flow.Name(id=base), name=name):
                found.add(f"{base}.{name}")
            case flow.Attr(name=name):
                found.add(f"*.{name}")
            case flow.Item(
                base=flow.Attr(base=flow.Name(id=base), name=name)
                | flow.Item(base=flow.Attr(base=flow.Name(id=base), name=name))
                | flow.Call(callee=flow.Attr(base=flow.Attr(base=flow.Name(id=base), name=name), name="setdefault"))
            ):
                found.add(f"{base}.{name}[]")
        if how == "item" and isinstance(target, flow.Item) and flow.last_name(target.base):
            found.add(f"{flow.last_name(target.base)}[]")
    for each in flow.statements(body):
        if isinstance(each, flow.Bind) and each.op and flow.last_name(each.target):
            found.add(f"{flow.last_name(each.target)}[]")
    return found


def test_program() -> None:
    source = Source("c.py", PROGRAM)
    function = next(each for each in facts.read(source).functions if each.qualname == "C.f")
    assert set(function.assigns or ()) == from_flow(source, function)
    assert {"self.a", "self.b", "self.e", "self.g[]", "self.q[]", "C.table[]", "self.x", "*.further"} <= (
        function.assigns or set()
    )
    assert not {"self.not_this", "self.nor_this", "self.not_here", "self.t[]", "self.u[]"} & (function.assigns or set())


def abstract_by_flow(source: Source, function: facts.Function) -> bool:
    body = facts.lower(source, function).flow
    return body == flow.NOTHING or (isinstance(body, flow.Exit) and body.kind == "raise")


def test_a_stack_is_left_to_the_flow() -> None:
    source = Source("s.py", b"def f(self, m):\n    with ExitStack() as s:\n        self.a = s.enter_context(m)\n")
    assert facts.read(source).functions[0].assigns is None


@pytest.mark.parametrize("path", [*LIBRARY, *HERE], ids=lambda path: path.name)
def test_real_files(path: Path) -> None:
    source = Source(path.name, path.read_bytes())
    try:
        functions = facts.read(source).functions
    except ParseError:
        pytest.skip("not of this version")
    for function in functions:
        if function.flow is None:
            assert function.is_abstract == abstract_by_flow(source, function), function.qualname
        if function.assigns is not None:
            assert function.assigns == from_flow(source, function), function.qualname
