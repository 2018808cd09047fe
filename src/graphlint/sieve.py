"""Which files are worth parsing: plain byte search, before any parser.

A file matters by itself if it mentions a distinctive name of the vocabulary. It matters through others if it mentions a
name that an effectful file defines together with that file's class or module: a helper that only calls
`runner.release_graphs()` has no token of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from graphlint.effects import Effect
from graphlint.mentions import grouped, mentions
from graphlint.source import Source
from graphlint.vocabulary import Vocabulary
from graphlint.words import COMMON_METHODS

FEW = 64
"""A project of this many files or fewer is read whole, unless `concern` says that it is about something else."""

_ALLOCATES = (b"torch.empty", b"torch.zeros", b"torch.ones", b"torch.full", b"torch.arange", b"new_empty", b"new_zeros")
_SIZES = (b".numel() ", b".shape[0] ", b".size(0) ", b"nbytes ", b"nbytes() ")
"""Of a tensor, in front of a `<`."""
_MEMOS = (b"lru_cache", b"functools.cache")
_MEMO_BY_STREAM = re.compile(
    rb"@(?:functools\.)?(?:lru_cache|cache)\b[^\n]*\n\s*(?:@[^\n]*\n\s*)*(?:async )?def \w+\([^)]*stream"
)
_WORD = re.compile(rb"[A-Za-z_]\w*")

_GENERIC = COMMON_METHODS | frozenset(
    ("pool", "pools", "graph", "Graph", "Stream", "Tensor", "tensor", "empty", "zeros", "ones", "full", "rand", "randn",
     "randint", "arange", "linspace", "eye", "empty_strided", "empty_like", "zeros_like", "ones_like", "full_like",
     "rand_like", "randn_like", "new_empty", "new_zeros", "new_ones", "new_full", "new_tensor", "clone", "concat", "concatenate",
     "hstack", "vstack", "dstack", "tile", "repeat", "repeat_interleave", "randperm", "empty_permuted", "current_stream",
     "default_stream", "get_tensor", "cuda", "memory", "streams", "graphs", "synchronize", "get_device_module", "capture", "forward"),
)  # fmt: skip


def identifiers(vocabulary: Vocabulary) -> frozenset[str]:
    """Names whose mention alone says that a function may have an effect."""
    names = {
        _telling(name, any(entry.makes == "memory" for entry in entries))
        for known in (vocabulary.calls, vocabulary.contexts)
        for name, entries in known.items()
        if any(entry.does is not Effect.WS_ALLOC for entry in entries)
    }
    names |= {name.rpartition(".")[2] for name in vocabulary.aliases}
    return frozenset(name for name in names if name not in _GENERIC and len(name) > 5) | {
        "empty_cache",
        "graph_pool",
        "mem_pool",
    }


def _telling(name: str, is_library: bool) -> str:
    """The word of a dotted name that few other files have: its last; the class of a common method; a library's package."""
    head, _, last = name.rpartition(".")
    if is_library and "_" not in last:
        return name.partition(".")[0]
    owner = head.rpartition(".")[2]
    return owner if last in _GENERIC and owner[:1].isupper() else last


def tokens(vocabulary: Vocabulary) -> tuple[bytes, ...]:
    """The same as they stand in a file; one token that is part of another finds its files too."""
    found = identifiers(vocabulary) | {"cuda.graph(", "mempool"}
    return tuple(sorted(name.encode() for name in found if not any(o != name and o in name for o in found)))


def mention(sources: Iterable[Source], vocabulary: Vocabulary) -> list[Source]:
    """The files that mention a distinctive name, or keep device memory in a telling way, in order."""
    wanted = tokens(vocabulary)
    return [
        source for source in sources if any(token in source.content for token in wanted) or keeps_memory(source.content)
    ]


def select(sources: Iterable[Source], vocabulary: Vocabulary) -> list[Source]:
    """The files of a large project to read, in order: those that mention something, and those that hand names on.

    A package's `__init__.py` has no effect; but a name that is imported from it is found through it only.
    """
    wanted = grouped(tokens(vocabulary))
    return [
        source
        for source in sources
        if mentions(source.content, wanted)
        or keeps_memory(source.content)
        or (source.path.endswith("__init__.py") and b"import" in source.content)
    ]


def keeps_memory(text: bytes) -> bool:
    """Whether a text resizes a tensor, or makes one where another is too small, or for a cache that has a bound.

    None of these needs a name of the vocabulary: such code has graphs only in the files that call it.
    """
    if b".resize_(" in text:
        return True
    replaces = b"popitem(" in text or any(part.endswith(_SIZES) for part in text.split(b"<")[:-1])
    if not replaces and (not any(word in text for word in _MEMOS) or _MEMO_BY_STREAM.search(text) is None):
        return False
    return any(word in text for word in _ALLOCATES)


def concern(sources: Sequence[Source], vocabulary: Vocabulary) -> bool:
    """Whether something in a few files can have an effect.

    Besides the distinctive names, it has to name a graph (what cannot be resolved is judged by its name), or to
    mention torch and any name at all of the vocabulary: most of these are everyday words elsewhere.
    """
    if mention(sources, vocabulary) or any(b"graph" in source.content.lower() for source in sources):
        return True
    if not any(b"torch" in source.content for source in sources):
        return False
    words = vocabulary.tokens()
    return any(not words.isdisjoint(_WORD.findall(source.content)) for source in sources)


def mentioning(sources: Iterable[Source], pairs: Iterable[tuple[str, str]]) -> list[Source]:
    """Files that mention both words of some pair: a function's name, and its class's or module's."""
    by_owner: dict[str, set[str]] = {}
    for name, owner in pairs:
        by_owner.setdefault(owner, set()).add(name)
    if not by_owner:
        return []
    owners = [
        (owner.encode(), re.compile(b"|".join(sorted(n.encode() for n in names)))) for owner, names in by_owner.items()
    ]
    return [
        source
        for source in sources
        if any(owner in source.content and names.search(source.content) for owner, names in owners)
    ]
