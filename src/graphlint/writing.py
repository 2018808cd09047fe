"""Writes changed files: each atomically, several together or not at all, and never over somebody else's change.

Every new content is first written beside its file; only when all of them are there do they take the files' places, one
rename each. If one rename fails the earlier ones are taken back; an interrupt waits for the last one. A file keeps its mode
and, where the system allows it, its owner; a link stays a link, what it leads to changes. Contents are bytes: encoding and
line endings stay.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from graphlint import interrupts


@dataclass(frozen=True)
class Change:
    """New content of one file, and the content that it was made from."""

    before: bytes
    after: bytes


class WriteError(Exception):
    """Nothing was written; the message names the file and says why."""


class PartialWriteError(Exception):
    """Files were changed and could not be changed back; the message names them."""


def write(changes: Mapping[str, Change]) -> None:
    """Give every file its new content, or none of them.

    Raises:
        WriteError: a file is not what it was when it was read, cannot be written, or is given two contents.
        PartialWriteError: a rename failed, and so did undoing the ones before it.
    """
    targets: dict[str, Change] = {}
    for path, change in sorted(changes.items()):
        real = os.path.realpath(path)
        if targets.setdefault(real, change) != change:
            raise WriteError(f"{path}: is one file with another of the changed ones, and they differ")
        _check_unchanged(path, change)
    temporary: dict[str, str] = {}
    try:
        for real, change in targets.items():
            temporary[real] = _write_beside(real, change.after)
        with interrupts.put_off():
            _swap(targets, temporary)
    finally:
        for leftover in temporary.values():
            with suppress(OSError):
                os.unlink(leftover)


def _check_unchanged(path: str, change: Change) -> None:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise WriteError(f"{path}: cannot be read again: {error.strerror}") from error
    if content != change.before:
        raise WriteError(f"{path}: was changed by somebody else since it was read; run again")
    if not os.access(path, os.W_OK) or not os.stat(path).st_mode & 0o222:  # root may write to what nobody should
        raise WriteError(f"{path}: is write-protected")


def _write_beside(path: str, content: bytes) -> str:
    """A new file in the folder of `path`, with its mode and owner; returns its name."""
    try:
        status = os.stat(path)
        handle, name = tempfile.mkstemp(
            prefix=f".{os.path.basename(path)}.", suffix=".graphlint", dir=os.path.dirname(path)
        )
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if hasattr(os, "chown"):
            with suppress(OSError):  # only root may give a file away
                os.chown(name, status.st_uid, status.st_gid)
        os.chmod(name, status.st_mode & 0o7777)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError):
            raise WriteError(f"{path}: cannot be written: {error.strerror}") from error
        raise
    return name


def _swap(targets: Mapping[str, Change], temporary: Mapping[str, str]) -> None:
    done: list[str] = []
    try:
        for path, new in temporary.items():
            os.replace(new, path)
            done.append(path)
    except BaseException as error:
        stuck: list[str] = []
        for path in reversed(done):
            try:
                os.replace(_write_beside(path, targets[path].before), path)
            except (OSError, WriteError):
                stuck.append(path)
        if stuck:
            raise PartialWriteError(f"changed, and could not be changed back: {', '.join(sorted(stuck))}") from error
        if isinstance(error, OSError):
            raise WriteError(f"{path}: cannot be replaced: {error.strerror}") from error
        raise
