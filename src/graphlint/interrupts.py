"""Signals that end a process wait while it does what must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))


@contextmanager
def put_off() -> Iterator[None]:
    """Let a signal that comes in this block have its effect at the end of the block, once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # no signal interrupts another one
        return
    came: list[int] = []
    usual: dict[int, signal._HANDLER] = {}

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    try:
        for number in _ENDING:
            if signal.getsignal(number) not in (None, signal.SIG_IGN):
                usual[number] = signal.signal(number, note)
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(came):
            signal.raise_signal(number)
