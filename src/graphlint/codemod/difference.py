"""From a text before and after to the lines that differ."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from graphlint.codemod.tree import Tree
from graphlint.edits import Edit
from graphlint.source import Span


def edits_between(tree: Tree, after: str) -> Iterator[Edit]:
    """The edits that turn a tree's text into another: whole lines, or the part of a line that differs."""
    old = tree.text.encode().splitlines(keepends=True)
    new = after.encode().splitlines(keepends=True)
    encoding = "utf-8" if tree.source.encoding == "utf-8-sig" else tree.source.encoding
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    matcher = difflib.SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            continue
        start, end = starts[head + i], starts[head + j]
        text = b"".join(new[head + k : head + m])
        if tag == "replace":
            left, right = _common(b"".join(old[head + i : head + j]), text)
            start, end, text = start + left, end - right, text[left : len(text) - right]
        span = Span(tree.offsets.in_file(start), tree.offsets.in_file(end))
        yield Edit(tree.source.path, span, text.decode().encode(encoding))


def _common(one: bytes, other: bytes) -> tuple[int, int]:
    """Lengths of the common beginning and the common end, in whole characters."""
    limit = min(len(one), len(other))
    left = next((at for at in range(limit) if one[at] != other[at]), limit)
    while left and left < len(one) and one[left] & 0xC0 == 0x80:
        left -= 1
    right = next((at for at in range(limit - left) if one[-1 - at] != other[-1 - at]), limit - left)
    while right and one[len(one) - right] & 0xC0 == 0x80:
        right -= 1
    return left, right
