"""What stands in the way of a C++ grammar, blanked out: CUDA's launches and qualifiers, export macros, directives.

Every function here returns bytes of the same length with the same line endings, so positions in the result are
positions in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphlint.source import Span

_CUDA = re.compile(
    rb"<<<(?!<)[^;]{1,800}?>>>"  # the launch configuration: `kernel<<<grid, block, 0, stream>>>(...)`
    rb"|\b__(?:global|device|host|forceinline|noinline|inline|restrict|shared|constant|managed|grid_constant)(?:__)?(?!\w)"
    rb"|\b__(?:launch_bounds|cluster_dims|maxnreg|block_size)__\s*\((?:[^()]|\([^()]*\))*\)"
)
_EXPORT = re.compile(
    # `class TORCH_API Runner final : ...`
    rb"(?<=\bclass)\s+[A-Z][A-Z0-9_]+(?:\([^()\n]*\))?(?=\s+\w[\w:]*\s*(?:final\s*)?[:{])"
    rb"|(?<=\bstruct)\s+[A-Z][A-Z0-9_]+(?:\([^()\n]*\))?(?=\s+\w[\w:]*\s*(?:final\s*)?[:{])"
    # `TORCH_CUDA_CPP_API void f()`
    rb"|\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:API|EXPORT|HIDDEN|INLINE|NOINLINE|DEVICE|HOST|UNUSED)\b(?=[ \t]+[\w:])"
)
_LONE_MACRO = re.compile(
    rb"^[ \t]*(?:[A-Z][A-Z0-9]*_[A-Z0-9_]+|[A-Z0-9_]*_(?:BEGIN|END|PUSH|POP)(?:_[A-Z0-9_]*)?\([^()\n]*\))[ \t]*\r?$",
    re.MULTILINE,
)
_PREPROCESSOR = re.compile(
    rb"^[ \t]*#[ \t]*(?:define|undef|include|import|pragma|error|warning|line)\b(?:[^\n\\]|\\\r?\n|\\.)*", re.MULTILINE
)
_DIRECTIVE = re.compile(
    rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b(?:[^\n\\]|\\\r?\n|\\.)*", re.MULTILINE
)
_MAX_BRANCHES = 4
"""Readings of one file; what stands in further branches alone is not read."""
_NOT_LINE_END = re.compile(rb"[^\r\n]")


def prepared(content: bytes) -> bytes:
    """The content with everything blanked that is CUDA and not C++, a macro that only decorates, or no code."""
    content = _PREPROCESSOR.sub(_blank, content)
    if b"__" in content or b"<<<" in content:
        content = _CUDA.sub(_blank, content)
    content = _EXPORT.sub(_blank, content)
    return _LONE_MACRO.sub(_blank_between_declarations, content)


def _blank_between_declarations(match: re.Match[bytes]) -> bytes:
    """Blank a macro alone on its line (`ENGINE_NAMESPACE_BEGIN`), unless it continues the line before it."""
    start = match.start()
    before = match.string[max(0, start - 4000) : start].rstrip()
    line = before[before.rfind(b"\n") + 1 :].lstrip()
    if not before or before.endswith((b";", b"{", b"}", b"*/")) or line.startswith((b"#", b"//")):
        return _blank(match)
    return match.group()


def branches(content: bytes) -> Iterator[bytes]:
    """The content with the first branch of every `#if` alone, then with the second, up to the last.

    Each is whole where the branches together, one after the other, do not have balanced braces. Of an `#if` with fewer
    branches the last stands for those that it lacks. Nothing for content without an `#else`.
    """
    directives = list(_DIRECTIVE.finditer(content))
    for chosen in range(min(_most_branches(directives), _MAX_BRANCHES)):
        pieces: list[bytes] = []
        done = 0
        for span in sorted(_hidden(directives, chosen)):
            if span.end <= done:
                continue
            start = max(span.start, done)
            pieces += (content[done:start], _NOT_LINE_END.sub(b" ", content[start : span.end]))
            done = span.end
        pieces.append(content[done:])
        yield b"".join(pieces)


def _most_branches(directives: list[re.Match[bytes]]) -> int:
    """How many branches the longest `#if` has; 0 where none has two."""
    most = 0
    open_ifs: list[int] = []
    for match in directives:
        word = match.group(1)
        if word.startswith(b"if"):
            open_ifs.append(1)
        elif open_ifs and word == b"endif":
            open_ifs.pop()
        elif open_ifs:
            open_ifs[-1] += 1
            most = max(most, open_ifs[-1])
    return most


def _hidden(directives: list[re.Match[bytes]], chosen: int) -> Iterator[Span]:
    """Spans of the directives, and of the branches that are not chosen."""
    stack: list[list[re.Match[bytes]]] = []
    for match in directives:
        yield Span(match.start(), match.end())
        word = match.group(1)
        if word.startswith(b"if"):
            stack.append([match])
        elif stack and word != b"endif":
            stack[-1].append(match)
        elif stack:
            group = [*stack.pop(), match]
            kept = min(chosen, len(group) - 2)
            for index in range(len(group) - 1):
                if index != kept:
                    yield Span(group[index].end(), group[index + 1].start())


def _blank(match: re.Match[bytes]) -> bytes:
    return _NOT_LINE_END.sub(b" ", match.group())
