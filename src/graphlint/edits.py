"""Edits are data on the original bytes; one function applies them, and overlap is an error, never a guess."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from graphlint.source import Span


class Applicability(str, Enum):
    """How far a fix may be trusted without a reader."""

    SAFE = "safe"
    """Proved by the analysis to keep what the code does; `fix` applies it."""
    UNSAFE = "unsafe"
    """Right under conditions that the fix states; applied with `--unsafe-fixes`."""
    SUGGEST = "suggest"
    """Shown, never applied: no text is right without a decision by the author."""


@dataclass(frozen=True, order=True)
class Edit:
    """Replace the bytes of `span` in the file `path` by `content`."""

    path: str
    span: Span
    content: bytes


@dataclass(frozen=True)
class Fix:
    """A rewrite of one or more files; all of its edits are applied, or none."""

    title: str
    applicability: Applicability
    edits: tuple[Edit, ...]
    conditions: tuple[str, ...] = ()
    """What must hold for the rewrite to be right, and what it costs; one sentence each."""


class OverlapError(ValueError):
    """Two edits touch the same bytes."""


def apply(edits: Iterable[Edit], content: bytes) -> bytes:
    """Apply the edits of one file to its content.

    Raises:
        OverlapError: two edits overlap, or insert at one place.
    """
    pieces: list[bytes] = []
    done = 0
    previous: Edit | None = None
    for edit in sorted(edits, key=lambda edit: edit.span):
        if edit == previous:
            continue
        if edit.span.start < done or (previous is not None and edit.span.start == previous.span.start):
            raise OverlapError(f"{edit.path}: two edits touch byte {edit.span.start}")
        pieces += (content[done : edit.span.start], edit.content)
        done, previous = edit.span.end, edit
    pieces.append(content[done:])
    return b"".join(pieces)


def smallest(path: str, before: bytes, after: bytes) -> Edit | None:
    """The one edit that turns `before` into `after` with the fewest bytes changed; None if they are equal."""
    if before == after:
        return None
    limit = min(len(before), len(after))
    head = next((i for i in range(limit) if before[i] != after[i]), limit)
    tail = next((i for i in range(limit - head) if before[-1 - i] != after[-1 - i]), limit - head)
    return Edit(path, Span(head, len(before) - tail), after[head : len(after) - tail])
