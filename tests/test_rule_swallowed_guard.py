"""What is reported as a guard whose error is swallowed, and what is not."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from graphlint import check, fixing, registry
from graphlint.config import Settings
from graphlint.findings import Finding

RULE = "swallowed-guard"

HEAD = """
import logging
import traceback

import torch

logger = logging.getLogger(__name__)


class UnderCaptureError(RuntimeError):
    pass


class OtherError(Exception):
    pass


def require_eager(what):
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(what)


class Scratch:
    def __init__(self, like):
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("make it before the capture")
        self.data = torch.empty_like(like)


class Table:
    def __init__(self):
        self.rows = {}

    def plain(self, x):
        return x

    def own(self, x):
        if torch.cuda.is_current_stream_capturing():
            raise UnderCaptureError("make it before the capture")
        return x

    def lazily(self, x):
        if x.shape not in self.rows:
            self.rows[x.shape] = Scratch(x)
        return self.rows[x.shape]

    def inner(self, x):
        try:
            return self.own(x)
        except UnderCaptureError:
            return x

"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def method(body: str) -> str:
    """A program with a method of this body."""
    return HEAD + "    def run(self, x):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "        ") + "\n"


def write(files: Mapping[str, str] | str) -> None:
    for name, text in ({"m.py": files} if isinstance(files, str) else files).items():
        Path(name).write_text(textwrap.dedent(text).lstrip("\n"))


def find(files: Mapping[str, str] | str) -> Sequence[Finding]:
    write(files)
    return check.check(["."], Settings(), registry.select((RULE,))).findings


def reported(files: Mapping[str, str] | str) -> list[str]:
    """The reported lines."""
    found = []
    for each in find(files):
        content = Path(each.path).read_bytes()
        found.append(content.splitlines()[content[: each.span.start].count(b"\n")].strip().decode())
    return found


SWALLOWED = {
    "in the same function": """
        try:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("not here")
            return self.plain(x)
        except Exception:
            return x
    """,
    "asserted": """
        try:
            assert not torch.cuda.is_current_stream_capturing()
            return self.plain(x)
        except Exception:
            return x
    """,
    "by a helper": """
        try:
            require_eager("the table")
            return self.plain(x)
        except Exception as error:
            logger.debug("the plain way: %s", error)
        return x
    """,
    "in a constructor, some calls away": """
        try:
            return self.lazily(x).data
        except RuntimeError:
            return x
    """,
    "of a class of its own, by its base": """
        try:
            return self.own(x)
        except (OtherError, RuntimeError):
            return x
    """,
    "by a bare handler": """
        try:
            return self.own(x)
        except:
            return x
    """,
    "suppressed behind a narrow one": """
        try:
            return self.own(x)
        except OtherError:
            raise
        except Exception:
            pass
        return x
    """,
    "with a warning": """
        try:
            return self.own(x)
        except Exception as error:
            logger.warning("the plain way: %s", error)
            return x
    """,
}


@pytest.mark.parametrize("body", SWALLOWED.values(), ids=SWALLOWED)
def test_a_handler_that_goes_on_is_reported(body: str) -> None:
    (line,) = reported(method(body))
    assert line.startswith("except")


LET_THROUGH = {
    "suppressed, but of another class": """
        import contextlib
        with contextlib.suppress(AttributeError, KeyError):
            return self.own(x)
        return x
    """,
    "a clause for the guard's own class": """
        try:
            return self.own(x)
        except UnderCaptureError:
            raise
        except Exception:
            return x
    """,
    "one that deals with it": """
        try:
            return self.own(x)
        except UnderCaptureError:
            return None
    """,
    "raised again": """
        try:
            return self.own(x)
        except Exception:
            logger.debug("no")
            raise
    """,
    "raised again in a capture": """
        try:
            return self.own(x)
        except Exception:
            if torch.cuda.is_current_stream_capturing():
                raise
            return x
    """,
    "raised as something else": """
        try:
            return self.own(x)
        except Exception as error:
            raise OtherError("no") from error
    """,
    "kept to be raised later": """
        failure = None
        try:
            return self.own(x)
        except Exception as error:
            failure = error
        if failure is not None:
            raise failure
    """,
    "another class of error": """
        try:
            return self.own(x)
        except (KeyError, OtherError):
            return x
    """,
    "the guard is outside": """
        self.own(x)
        try:
            return self.plain(x)
        except Exception:
            return x
    """,
    "no guard": """
        try:
            if x is None:
                raise RuntimeError("nothing there")
            return self.plain(x)
        except Exception:
            return x
    """,
    "a guard that wants a capture": """
        try:
            if not torch.cuda.is_current_stream_capturing():
                raise RuntimeError("only in a capture")
            return self.plain(x)
        except Exception:
            return x
    """,
    "caught further in": """
        try:
            return self.inner(x)
        except Exception:
            return x
    """,
    "the capture begins inside": """
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.own(x)
        except Exception:
            return None
        return graph
    """,
    "reported as an error": """
        try:
            return self.own(x)
        except Exception:
            logger.exception("no")
            return x
    """,
}


@pytest.mark.parametrize("body", LET_THROUGH.values(), ids=LET_THROUGH)
def test_a_handler_that_lets_it_out_is_not_reported(body: str) -> None:
    assert reported(method(body)) == []


def test_the_path_leads_to_the_refusal() -> None:
    (finding,) = find(method(SWALLOWED["in a constructor, some calls away"]))
    assert [step.effect for step in finding.trace] == ["call", "call", "is_capturing", "handler"]


def fixed(files: Mapping[str, str]) -> dict[str, str]:
    write(files)
    outcome = fixing.fix(check.read(["."], Settings(), {}), registry.select((RULE,)), unsafe=True)
    assert not outcome.report.findings
    return {path: change.after.decode() for path, change in outcome.changes.items()}


def test_a_guard_with_a_class_of_its_own_is_let_through() -> None:
    after = fixed({"m.py": method(SWALLOWED["with a warning"])})["m.py"]
    assert "        except UnderCaptureError:\n            raise\n        except Exception as error:\n" in after


def test_a_guard_without_one_gets_one_in_its_own_file() -> None:
    files = {
        "parts.py": """
        import torch


        class Parts:
            def __init__(self, x):
                if torch.cuda.is_current_stream_capturing():
                    raise RuntimeError("make it before")
                self.data = torch.empty_like(x)
        """,
        "attention.py": """
        from parts import Parts


        def attend(x):
            try:
                return Parts(x)
            except RuntimeError:
                return x
        """,
    }
    after = fixed(files)
    assert "class CaptureRefusedError(RuntimeError):\n" in after["parts.py"]
    assert 'raise CaptureRefusedError("make it before")' in after["parts.py"]
    assert "    except CaptureRefusedError:\n        raise\n    except RuntimeError:\n" in after["attention.py"]


LATER = """
import contextlib

import torch

from exchange import gather


def require_eager(what):
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(what)


class Layer:
    def {method}(self, x):
        failed = None
        try:
            {first}
            require_eager("prepare")
        except Exception as error:
            failed = str(error)
        {behind}
        return x
"""
BEHIND = {
    "nothing": ("step", "pass", "pass", 1),
    "it raises": ("step", "pass", "if failed:\n            raise ValueError(failed)", 0),
    "it raises for all": (
        "step",
        "pass",
        "every = [None]\n        gather(every, failed)\n        if any(every):\n            raise ValueError(every)",
        0,
    ),
    "it raises for something else": ("step", "pass", "if x is None:\n            raise ValueError(x)", 1),
    "a destructor": ("__del__", "pass", "pass", 0),
    "the body waits for the device": ("step", "torch.cuda.current_stream().synchronize()", "pass", 0),
}


@pytest.mark.parametrize(("method", "first", "behind", "count"), BEHIND.values(), ids=list(BEHIND))
def test_what_a_handler_notes_may_raise_later(method: str, first: str, behind: str, count: int) -> None:
    assert len(find(LATER.format(method=method, first=first, behind=behind))) == count


DECORATED = """
import functools

import torch

rows = {{}}


{decorator}


def plain(n):
    return n


{use}
def fused(n):
    if n not in rows:
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(n)
        rows[n] = torch.empty(n, device="cuda")
    return rows[n]


def step(n):
    return fused(n)
"""
MADE = """def with_fallback(plain):
    def decorate(fast):
        @functools.wraps(fast)
        def call(*args, **kwargs):
            try:
                return fast(*args, **kwargs)
            except {error}:
                return plain(*args, **kwargs)

        return call

    return decorate"""
SIMPLE = """def or_nothing(fast):
    def call(*args, **kwargs):
        try:
            return fast(*args, **kwargs)
        except {error}:
            return None

    return call"""


@pytest.mark.parametrize(("decorator", "use"), [(MADE, "@with_fallback(plain)"), (SIMPLE, "@or_nothing")])
def test_a_decorator_that_falls_back(decorator: str, use: str) -> None:
    def found(error: str) -> int:
        Path("m.py").write_text(DECORATED.format(decorator=decorator.format(error=error), use=use))
        return len(check.check(["."], Settings(), registry.select((RULE,))).findings)

    assert found("Exception") == 1
    assert found("NotImplementedError") == 0


def test_a_decorator_that_nothing_wears() -> None:
    Path("m.py").write_text(DECORATED.format(decorator=SIMPLE.format(error="Exception"), use=""))
    assert check.check(["."], Settings(), registry.select((RULE,))).findings == ()


def test_a_loop_over_ways_that_a_class_lists() -> None:
    def found(error: str) -> int:
        Path("m.py").write_text(f"""
import torch

rows = {{}}


class Rope:
    KINDS = ("fused", "plain")

    def fused(self, n):
        if n not in rows:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError(n)
            rows[n] = torch.empty(n, device="cuda")
        return rows[n]

    def plain(self, n):
        return n

    def __call__(self, n):
        for kind in self.KINDS:
            try:
                return getattr(self, kind)(n)
            except {error}:
                continue
        return None
""")
        return len(check.check(["."], Settings(), registry.select((RULE,))).findings)

    assert found("RuntimeError") == 1
    assert found("KeyError") == 0
