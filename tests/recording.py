"""Runs an interpreter's program as Python, under a torch that records: the measure of the interpreter itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from graphlint.effects import Effect

if TYPE_CHECKING:
    from interpreter import Path

FILE = "<program>"

Happened = tuple[Effect, tuple[int, ...]]
"""An effect, and the rows of the program on the stack."""


class Recorder:
    """What happens while a program runs, and the answers that it gets."""

    def __init__(self, answers: tuple[bool, ...]) -> None:
        self.happened: list[Happened] = []
        self.answers = iter(answers)

    def record(self, effect: Effect) -> None:
        rows = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == FILE:
                rows.append(frame.f_lineno)
            frame = frame.f_back
        self.happened.append((effect, tuple(reversed(rows))))

    def failure(self) -> Exception:
        return RuntimeError() if next(self.answers) else OSError()


class Argument:
    """A truth that is asked for when somebody wants to know it, and stays."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.value: bool | None = None

    def __bool__(self) -> bool:
        if self.value is None:
            self.value = next(self.recorder.answers)
        return self.value


class Items(dict[object, object]):
    """A container of graphs or outputs."""

    def __init__(self, recorder: Recorder, name: str, items: dict[object, object]) -> None:
        super().__init__(items)
        self.recorder = recorder
        self.name = name

    def __setitem__(self, key: object, value: object) -> None:
        super().__setitem__(key, value)
        if self.name == "outputs":
            self.recorder.record(Effect.WS_ALLOC)

    def clear(self) -> None:
        if self.name == "outputs":
            for _ in self:
                self.recorder.record(Effect.WS_RELEASE)
        elif self:
            self.recorder.record(Effect.GRAPH_DEATH)
        super().clear()


def torch_of(recorder: Recorder) -> ModuleType:
    """A torch that only records."""

    class Graph:
        def reset(self) -> None:
            recorder.record(Effect.GRAPH_DEATH)

    @contextmanager
    def capture(_graph: Graph, pool: object) -> Iterator[None]:
        del pool
        recorder.record(Effect.ERASE)
        recorder.record(Effect.CAPTURE)
        yield

    torch = ModuleType("torch")
    torch.Tensor = object  # type: ignore[attr-defined]
    torch.empty = lambda _size: object()  # type: ignore[attr-defined]
    torch.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        CUDAGraph=Graph,
        graph=capture,
        graph_pool_handle=object,
        empty_cache=lambda: recorder.record(Effect.ERASE),
    )
    return torch


def execute(text: str, path: Path) -> list[Happened]:
    """The effects of one path of a program, as CPython runs it."""
    recorder = Recorder(path.answers)
    torch = torch_of(recorder)
    names: dict[str, Any] = {
        "__name__": "program",
        "asked": lambda: next(recorder.answers),
        "failure": recorder.failure,
    }
    with mock.patch.dict(sys.modules, torch=torch):
        exec(compile(text, FILE, "exec"), names)

    def set_attribute(runner: object, name: str, value: Any) -> None:
        before = runner.__dict__.get(name)
        if name in ("graphs", "outputs"):
            if before is not None:
                before.clear()
            value = Items(recorder, name, value)
        elif name == "pool" and before is not None:
            recorder.record(Effect.POOL_RETIRE)
        runner.__dict__[name] = value

    names["Runner"].__setattr__ = set_attribute

    def runner(name: str) -> Any:
        made = names["Runner"].__new__(names["Runner"])
        for attribute in ("graphs", "outputs"):
            items: dict[object, object] = {
                object(): torch.cuda.CUDAGraph() for _ in range(path.first.get(f"{name}.{attribute}", 0))
            }
            made.__dict__[attribute] = Items(recorder, attribute, items)
        made.__dict__["pool"] = object() if path.first.get(f"{name}.pool") else None
        made.__dict__["closed"] = bool(path.first.get(f"{name}.closed"))
        return made

    def engine() -> Any:
        made = names["Engine"].__new__(names["Engine"])
        made.left, made.right = runner("self.left"), runner("self.right")
        made.closed = bool(path.first.get("self.closed"))
        return made

    owner, name = path.root
    try:
        if owner != "session":
            getattr(engine() if owner == "Engine" else runner("self"), name)(Argument(recorder))
        elif isinstance(names["session"], type):
            names["session"](runner("self.runner")).__exit__(None, None, None)
        else:
            with names["session"](runner("self")):
                pass
    except (RuntimeError, OSError):
        pass
    assert list(recorder.answers) == [], "the program did not ask for all that it was told"
    return recorder.happened
