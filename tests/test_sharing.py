"""Work shared by two processes: the results, their order and the errors are those of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphlint.sharing import can_share, shared

needs_two = pytest.mark.skipif(not can_share(), reason="one processor, or a system that this is not done on")


def test_results_come_in_the_order_of_the_pieces() -> None:
    def work(piece: int) -> int:
        time.sleep(0.001 * (7 - piece % 7))
        return piece * piece

    assert shared(40, work) == [n * n for n in range(40)]


@pytest.mark.parametrize("pieces", [0, 1, 2, 256, 257])
def test_any_number_of_pieces_is_done(pieces: int) -> None:
    assert shared(pieces, str) == [str(n) for n in range(pieces)]


@needs_two
def test_two_processes_take_part() -> None:
    def work(_: int) -> int:
        time.sleep(0.02)
        return os.getpid()

    assert len(set(shared(20, work))) == 2


def test_an_error_is_raised_here_whoever_met_it() -> None:
    def work(piece: int) -> int:
        time.sleep(0.005)
        if piece == 7:
            raise ValueError("piece 7")
        return piece

    with pytest.raises(ValueError, match="piece 7"):
        shared(10, work)


@needs_two
def test_the_pieces_of_a_copy_that_dies_are_done_again() -> None:
    here = os.getpid()

    def work(piece: int) -> int:
        time.sleep(0.005)
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return piece

    assert shared(10, work) == list(range(10))


@needs_two
def test_what_a_copy_cannot_hand_in_is_done_again() -> None:
    def work(piece: int) -> object:
        time.sleep(0.002)
        return lambda: piece

    assert [each() for each in shared(10, work)] == list(range(10))  # type: ignore[operator]


@needs_two
def test_an_interrupt_ends_both(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "from graphlint.sharing import shared\n"
        "def work(piece):\n"
        f"    open(os.path.join({str(tmp_path)!r}, str(os.getpid())), 'w').close()\n"
        "    time.sleep(60)\n"
        "try:\n"
        "    shared(2, work)\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(130)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGINT)
    _, said = run.communicate(timeout=30)
    assert run.returncode == 130
    assert said == b""
    for each in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(each.name), 0)
