from __future__ import annotations

import os
import signal
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from graphlint.writing import Change, PartialWriteError, WriteError, write


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(*names: str) -> dict[str, Change]:
    """Files that exist, and a change of each."""
    changes = {}
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(f"old {name}\r\n".encode())
        changes[name] = Change(f"old {name}\r\n".encode(), b"\xef\xbb\xbfnew \xff " + name.encode())
    return changes


def state(changes: Mapping[str, Change]) -> list[str]:
    return [
        {change.before: "old", change.after: "new"}.get(Path(path).read_bytes(), "neither")
        for path, change in changes.items()
    ]


def leftovers(here: Path, changes: Mapping[str, Change]) -> list[str]:
    return sorted(
        str(path.relative_to(here))
        for path in here.rglob("*")
        if path.is_file() and str(path.relative_to(here)) not in changes
    )


def test_every_file_gets_its_bytes(here: Path) -> None:
    changes = made("a.py", "b/c.py")
    write(changes)
    assert state(changes) == ["new", "new"]
    assert leftovers(here, changes) == []


def test_nothing_to_do_is_fine() -> None:
    write({})


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o664])
def test_the_mode_is_kept(mode: int) -> None:
    changes = made("a.py")
    Path("a.py").chmod(mode)
    write(changes)
    assert stat.S_IMODE(Path("a.py").stat().st_mode) == mode


def test_a_link_stays_a_link(here: Path) -> None:
    changes = made("real/a.py")
    Path("link.py").symlink_to("real/a.py")
    write({"link.py": changes["real/a.py"]})
    assert Path("link.py").is_symlink()
    assert state(changes) == ["new"]
    assert leftovers(here, {**changes, "link.py": changes["real/a.py"]}) == []


def test_one_file_under_two_names_gets_one_content() -> None:
    changes = made("a.py")
    Path("link.py").symlink_to("a.py")
    write({**changes, "link.py": changes["a.py"]})
    assert state(changes) == ["new"]
    changes = made("a.py")
    with pytest.raises(WriteError, match=r"link\.py: is one file with another"):
        write({**changes, "link.py": Change(changes["a.py"].before, b"other")})
    assert state(changes) == ["old"]


def test_a_file_that_somebody_else_changed_is_not_overwritten(here: Path) -> None:
    changes = made("a.py", "b.py")
    Path("b.py").write_bytes(b"edited meanwhile")
    with pytest.raises(WriteError, match=r"^b\.py: was changed by somebody else since it was read"):
        write(changes)
    assert state(changes) == ["old", "neither"]
    assert Path("b.py").read_bytes() == b"edited meanwhile"
    assert leftovers(here, changes) == []


def test_a_file_that_vanished_is_an_error_and_the_others_stay() -> None:
    changes = made("a.py", "b.py")
    Path("b.py").unlink()
    with pytest.raises(WriteError, match=r"^b\.py: cannot be read again: No such file"):
        write(changes)
    assert Path("a.py").read_bytes() == changes["a.py"].before
    assert not Path("b.py").exists()


def test_a_write_protected_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = made("a.py", "b.py")
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("b.py") and access(path, mode))
    with pytest.raises(WriteError, match=r"^b\.py: is write-protected"):
        write(changes)
    assert state(changes) == ["old", "old"]


def test_a_file_that_nobody_may_write_is_refused_to_root_too() -> None:
    changes = made("a.py", "b.py")
    Path("b.py").chmod(0o444)
    with pytest.raises(WriteError, match=r"^b\.py: is write-protected"):
        write(changes)
    assert state(changes) == ["old", "old"]


def failing(monkeypatch: pytest.MonkeyPatch, function: str, call: int, error: BaseException) -> None:
    """Let a function of `os` fail at its n-th call and at all later ones."""
    original = getattr(os, function)
    calls = 0

    def wrapper(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls >= call:
            raise error
        return original(*args)

    monkeypatch.setattr(os, function, wrapper)


def test_a_full_disk_changes_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = made("a.py", "b.py", "c.py")
    failing(monkeypatch, "fsync", 2, OSError(28, "No space left on device"))
    with pytest.raises(WriteError, match=r"b\.py: cannot be written: No space left"):
        write(changes)
    assert state(changes) == ["old", "old", "old"]
    assert leftovers(here, changes) == []


@pytest.mark.parametrize("error", [OSError(1, "Operation not permitted"), KeyboardInterrupt()])
def test_renames_are_taken_back_if_one_fails(here: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    changes = made("a.py", "b.py", "c.py")
    replace = os.replace
    seen: list[str] = []

    def wrapper(new: str, path: str) -> None:
        seen.append(path)
        if len(seen) == 3:
            raise error
        replace(new, path)

    monkeypatch.setattr(os, "replace", wrapper)
    with pytest.raises((WriteError, KeyboardInterrupt)):
        write(changes)
    assert len(seen) == 5
    assert state(changes) == ["old", "old", "old"]
    assert leftovers(here, changes) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_interrupt_waits_for_the_last_rename(
    here: Path, monkeypatch: pytest.MonkeyPatch, at: int, number: signal.Signals
) -> None:
    changes = made("a.py", "b.py", "c.py")
    replace = os.replace
    seen: list[str] = []

    def wrapper(new: str, path: str) -> None:
        replace(new, path)
        seen.append(path)
        if len(seen) == at:
            signal.raise_signal(number)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", wrapper)
    usual = signal.signal(number, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            write(changes)
        assert signal.getsignal(number) is interrupt
    finally:
        signal.signal(number, usual)
    assert state(changes) == ["new", "new", "new"]
    assert leftovers(here, changes) == []


def test_what_cannot_be_taken_back_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = made("a.py", "b.py")
    failing(monkeypatch, "replace", 2, OSError(5, "Input/output error"))
    with pytest.raises(PartialWriteError, match=r"changed, and could not be changed back: .*a\.py$"):
        write(changes)
    assert state(changes) == ["new", "old"]


def noting(monkeypatch: pytest.MonkeyPatch, function: str, order: list[str]) -> None:
    original = getattr(os, function)

    def wrapper(*args: Any) -> None:
        order.append(function)
        original(*args)

    monkeypatch.setattr(os, function, wrapper)


def test_the_new_content_is_on_the_disk_before_it_takes_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = made("a.py")
    order: list[str] = []
    for name in ("fsync", "replace"):
        noting(monkeypatch, name, order)
    write(changes)
    assert order == ["fsync", "replace"]
