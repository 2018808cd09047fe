"""Work that two processes share, where the system can fork one cheaply and the work is long enough to pay for it.

Both take the next piece from one queue, so neither waits for the other while there is some. The results are in the order of the
pieces, whoever did which: a run says the same with one processor and with two.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")

MOST_PIECES = 256
"""A piece is one byte in the queue."""


def shared(pieces: int, work: Callable[[int], _Result]) -> list[_Result]:
    """What `work` gives for each number from 0 on, by this process and a copy of it.

    What the copy changes in memory is lost, and its results travel as bytes. Where it fails, this process does its pieces
    again, so that an error is raised here, as it would have been without it.

    Args:
        pieces: how many there are; more than 256 are done here alone.
        work: must not depend on the order of the pieces.

    Raises:
        Exception: whatever `work` raises.
    """
    if not can_share() or not 1 < pieces <= MOST_PIECES:
        return [work(piece) for piece in range(pieces)]
    queue, filled = os.pipe()
    answers, answer = os.pipe()
    os.write(filled, bytes(range(pieces)))
    os.close(filled)
    copy = os.fork()
    if copy == 0:
        _help(queue, answer, work)
    os.close(answer)
    done: dict[int, _Result] = {}
    try:
        with os.fdopen(answers, "rb") as stream:
            while piece := os.read(queue, 1):
                done[piece[0]] = work(piece[0])
            answered = stream.read()
    except BaseException:
        import signal

        os.kill(copy, signal.SIGKILL)
        raise
    finally:
        os.close(queue)
        os.waitpid(copy, 0)
    if answered:
        import pickle

        with contextlib.suppress(pickle.UnpicklingError, EOFError):  # it was killed while it wrote
            packed: dict[int, bytes] = pickle.loads(answered)  # noqa: S301 - from the copy of this process, through a pipe
            done |= {piece: pickle.loads(each) for piece, each in packed.items()}  # noqa: S301
    return [done[piece] if piece in done else work(piece) for piece in range(pieces)]


def can_share() -> bool:
    """Whether a copy of this process can help: a processor is free for it, and no other thread would be cut off in it."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1 and threading.active_count() == 1


def _help(queue: int, answer: int, work: Callable[[int], object]) -> None:
    """Be the copy: take pieces until there are none, hand in the results, and end without a word."""
    code = 1
    try:
        import pickle

        done: dict[int, bytes] = {}
        while piece := os.read(queue, 1):  # packed at once, so that the other process takes more of the work meanwhile
            done[piece[0]] = pickle.dumps(work(piece[0]), pickle.HIGHEST_PROTOCOL)
        with os.fdopen(answer, "wb") as stream:
            pickle.dump(done, stream, pickle.HIGHEST_PROTOCOL)
        code = 0
    finally:
        os._exit(code)
