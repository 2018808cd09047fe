"""Compiled operators that no vocabulary speaks of: if they keep memory of a capture, nobody here can see it.

`torch.ops.name.op` and `torch.classes.name.Class` run C++. A vocabulary says what those of an engine do. In a tree that
captures graphs and has no vocabulary, the run says which operators it knows nothing of: silence means "looked and found
nothing", and these could not be looked at. Operators that the tree itself defines in Python can be.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from graphlint.source import Source
from graphlint.vocabulary import Vocabulary

_USED = re.compile(rb"\btorch\.((?:ops|classes)\.\w+)\.\w+")
_DEFINED = re.compile(rb"""["'](\w+)::\w|Library\(\s*["'](\w+)["']""")
_CAPTURES = (b"CUDAGraph", b"cuda.graph(", b"capture_begin")
_OF_TORCH = frozenset(
    ("aten", "c10d", "_c10d_functional", "fbgemm", "inductor", "prim", "prims", "quantized", "symm_mem", "torchvision")
)


def unknown(sources: Iterable[Source], vocabulary: Vocabulary) -> Iterator[str]:
    """Notes, one for each library of operators that the files call and nothing speaks of."""
    sources = list(sources)
    told = (vocabulary.calls, vocabulary.contexts, vocabulary.decorators, vocabulary.aliases, vocabulary.objects)
    spoken = {name.partition(".")[0] for names in told for name in names} - {"torch"}
    if any(document.prefix for document in vocabulary.documents):
        return  # the project speaks for itself
    if not any(word in source.content for source in sources for word in _CAPTURES):
        return
    if any(not spoken.isdisjoint(re.split(r"[/\\]", source.path)) for source in sources):
        return
    used: Counter[str] = Counter()
    defined: set[str] = set()
    for source in sources:
        if b"torch.ops." in source.content or b"torch.classes." in source.content:
            used.update(match.decode() for match in _USED.findall(source.content))
        if b"::" in source.content or b"Library(" in source.content:
            defined.update((one or other).decode() for one, other in _DEFINED.findall(source.content))
    known = {".".join(name.split(".")[1:3]) for name in vocabulary.calls if name.startswith("torch.")}
    for library, count in sorted(used.items()):
        if library not in known and library.partition(".")[2] not in _OF_TORCH | defined:
            calls = f"{count} calls" if count > 1 else "1 call"
            yield (
                f"warning: no vocabulary says what torch.{library} does ({calls}): memory that it keeps from a capture, "
                "and what releases it, is not seen"
            )
