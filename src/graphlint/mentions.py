"""Whether a text mentions one of many names: plain byte search, most of it spared.

To look for a name takes as long as to read the text, and a few dozen names take a few dozen times as long. So names that
share a piece are looked for at once: wherever the piece stands, by what is around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple, TypeAlias


class Group(NamedTuple):
    """Names that share a piece, by what they have in front of it and behind it."""

    sides: tuple[tuple[bytes, bytes], ...]
    fronts: tuple[bytes, ...]
    """What any of them has in front."""


Groups: TypeAlias = Mapping[bytes, Group]
"""By their pieces; a name that shares none is its own."""

_SHORTEST = 4
"""Bytes of a piece: shorter ones stand in most texts."""


@cache
def grouped(names: tuple[bytes, ...]) -> Groups:
    """Names in groups, the largest first; of the pieces that a group's names share, the longest stands for it."""
    holders: dict[bytes, set[bytes]] = {}
    for name in names:
        for size in range(min(_SHORTEST, len(name)), len(name) + 1):
            for start in range(len(name) - size + 1):
                holders.setdefault(name[start : start + size], set()).add(name)
    groups: dict[bytes, Group] = {}
    left = set(names)
    while left:
        piece = max(holders, key=lambda one: (len(holders[one]), len(one), one))
        sides = tuple((front, back) for name in sorted(holders[piece]) for front, _, back in [name.partition(piece)])
        groups[piece] = Group(sides, tuple(dict.fromkeys(front for front, _ in sides)))
        left -= holders[piece]
        holders = {one: kept for one, some in holders.items() if (kept := some & left)}
    return groups


def mentions(text: bytes, groups: Groups) -> bool:
    """Whether a text holds one of the names."""
    return any(piece in text and _mentions(text, piece, group) for piece, group in groups.items())


def _mentions(text: bytes, piece: bytes, group: Group) -> bool:
    size = len(piece)
    at = text.find(piece)
    while at >= 0:
        if text.endswith(group.fronts, 0, at) and any(
            text.endswith(front, 0, at) and text.startswith(back, at + size) for front, back in group.sides
        ):
            return True
        at = text.find(piece, at + 1)
    return False
