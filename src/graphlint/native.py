"""The C++ of a run: read once, reported by the same rules, and what the Python that calls it has to know of it.

Imported by runs that look at a C++ file, and by no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from graphlint import cpp, vocabulary
from graphlint.declarations import Document
from graphlint.findings import Finding, Precision
from graphlint.rule import Rule
from graphlint.source import Source
from graphlint.vocabulary import Entry, Vocabulary


class _Read(NamedTuple):
    analysis: cpp.Analysis
    unread: int
    """Parts of files that could not be read."""


class Native:
    """The C++ files of a run that can matter.

    A copy of another file, as packages hold of their headers, says nothing new: one of them is read, of those that are
    reported on if there is one.
    """

    def __init__(self, sources: Iterable[Source], reported: Iterable[str] = ()) -> None:
        self.sources: Mapping[str, Source] = {each.path: each for each in sources}
        self._reported = frozenset(reported)

    @property
    def _originals(self) -> Iterator[Source]:
        """The files, but one of those that are the same."""
        first: dict[bytes, Source] = {}
        for each in sorted(self.sources.values(), key=lambda source: source.path not in self._reported):
            first.setdefault(each.content, each)
        return (each for each in self.sources.values() if first[each.content] is each)

    @staticmethod
    def wanted(sources: Iterable[Source]) -> Iterator[Source]:
        """The files among these that can matter."""
        return (each for each in sources if cpp.wanted(each.content))

    @cached_property
    def _read(self) -> _Read | None:
        """What the files say; None where the extra that reads them is not installed."""
        try:
            facts = [cpp.read(source) for source in self._originals]
        except cpp.MissingGrammarError:
            return None
        return _Read(cpp.Analysis(facts), sum(len(each.unread) for each in facts))

    @property
    def is_read(self) -> bool:
        """Whether the extra that reads them is installed."""
        return self._read is not None

    @property
    def warnings(self) -> Iterator[str]:
        """What a reader should know of files, or parts of them, that were not read."""
        if self._read is None:
            kind = "that captures may matter to"
            files = _counted(len(self.sources), f"C++ file {kind}", f"C++ files {kind}")
            yield f"warning: {files} not read: install the extra that reads C++, `cudagraph-lint[cpp]`"
        elif (unread := self._read.unread) > 0:
            parts = _counted(unread, "part of a C++ file", "parts of C++ files")
            yield f"warning: {parts} not read: nothing there is known"

    @cached_property
    def effects(self) -> Sequence[cpp.BoundEffect]:
        """What the functions that Python can call do to workspaces."""
        return cpp.bound_effects(self._read.analysis) if self._read is not None else ()

    def findings(self, rules: Iterable[Rule], *, preview: bool) -> Iterator[Finding]:
        """What rules find in C++; a rule reports a place once, with its shortest path.

        Args:
            rules: what to look for.
            preview: whether findings of low precision count.
        """
        if self._read is None:
            return
        for rule in rules:
            best: dict[tuple[object, ...], Finding] = {}
            for suspect in cpp.suspects(self._read.analysis, rule):
                found = cpp.finding(suspect, rule)
                if found.precision is Precision.LOW and not preview:
                    continue
                key = (found.path, found.span, found.message)
                if key not in best or len(found.trace) < len(best[key].trace):
                    best[key] = found
            yield from best.values()


def extended(own: Document | None, entries: Iterable[Entry]) -> Vocabulary:
    """A fresh vocabulary that knows some calls besides.

    Args:
        own: the project's own part of it.
        entries: of the calls.

    Raises:
        DeclarationError: the project's part is wrong.
    """
    words = vocabulary.load(own)
    for entry in entries:
        words.calls.setdefault(entry.name, []).append(entry)
    return words


def _counted(count: int, one: str, many: str) -> str:
    return f"1 {one} was" if count == 1 else f"{count} {many} were"
