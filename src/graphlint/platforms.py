"""Branches that run on the hardware of one vendor, or of one of its stacks, only."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import flow
from graphlint.source import Span
from graphlint.vocabulary import words_in

_PLATFORMS = frozenset(("amd", "cuda", "gaudi", "hip", "hpu", "musa", "npu", "nvidia", "rocm", "xpu"))


def platform_words(test: flow.Expr) -> Iterator[str]:
    """Vendors and their stacks that a test names, where it is one of the platform."""
    waiting = [test]
    while waiting:
        part = waiting.pop()
        name = part.name if isinstance(part, flow.Attr) else part.id if isinstance(part, flow.Name) else ""
        if isinstance(part, flow.Lit) and isinstance(part.value, str):
            name = part.value if part.value != "cuda" else ""  # what ROCm calls its devices too
        words = frozenset(words_in(name))
        if "graph" not in words and "available" not in words:
            yield from words & _PLATFORMS
        if not isinstance(part, flow.Attr):
            waiting += flow.subexpressions(part)
        elif isinstance(part.base, flow.Call):
            waiting.append(part.base)


def alternatives(body: flow.Flow) -> Iterator[flow.Alt]:
    """Every branch in a flow."""
    return (each for each in flow.statements(body) if isinstance(each, flow.Alt))


def is_on_one_platform(body: flow.Flow, span: Span) -> bool:
    """Whether a place stands in a branch whose test asks for the platform."""
    return any(each.span.contains(span) and any(platform_words(each.test)) for each in alternatives(body))
