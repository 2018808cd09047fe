"""Which call, with-block or attribute has which effect: TOML data, all always loaded, of torch and of every engine.

A vocabulary holds only what the analysis cannot infer. That `flush()` empties the cache because it calls
`torch.cuda.empty_cache` is found by reading `flush`; that a C++ operator allocates while capturing is not.

Format of a file (unknown keys are errors, with file and row):

    [aliases]                      other spellings of one object, matched by dotted prefix
    "torch.cuda.graphs" = "torch.cuda"

    [objects]                      the class of a module's variable, where its module does not say it
    "a.b.current" = "a.b.Class"

    [[effect]]
    call = "torch.cuda.empty_cache"    a dotted name; `calls = [...]` for several, `with =` for a context manager
    does = "erase"                     an effect of graphlint.effects; or `makes =`
                                       tensor | memory | pool | mempool | graph | plan (compiled kernels and what they
                                       run with) | module:NAME | type:NAME
    of = "self"                        what it is about: self | result | process | argN | a keyword's name
    pool = "pool"                      capture only: the parameter that names the pool, and its position
    while = "capturing"                the effect happens only while a stream is captured
    store = "a.b.Class.attribute"      what keeps the memory, or the pool that is handed out
    released-by = "a.b.Class.method"   what gives it up
    scope = "process"                  instance | class | process: whose memory

    [[effect]]
    decorator = "a.b.eager"            a decorator: calls of what it decorates
    does = "capture_end"               run outside of the capture, whatever captures around them

    [[effect]]                         a registry that hands out buffers
    call = "a.b.Arena.get"
    does = "ws_get"
    name = "buffer_name:2"             which parameter is the name, with its position (the receiver is not counted);
    shape = "tensor_shape:0"           the same for `shape`, `dtype`, `device`, and for `reserve`, the flag that keeps
    dtype = "dtype:1"                  a buffer from being displaced; a registry without `device` allocates on the
    reserve = "reserve_buffer:3"       current one
    key = ["name"]                     parts of the request by which a buffer is found; `name` alone where not given
    on-misfit = "displace"             a buffer that does not fit gives way to a new one; `return`: it is handed out as
                                       it is

    [lifecycle]
    "a.b.Engine" = "__init__ (forward | sleep wake_up)* shutdown"
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from graphlint import declarations
from graphlint.declarations import Document, ListOf, MapOf, OneOf, Table
from graphlint.effects import Effect

_PARTS = ("name", "shape", "dtype", "device", "reserve")
_KINDS = ("tensor", "memory", "pool", "mempool", "graph", "plan")
_PREFIXES = ("module:", "type:")


@dataclass(frozen=True)
class Request:
    """How a registry of buffers is asked."""

    parts: Mapping[str, str] = field(hash=False)
    """name, shape, dtype, device, reserve -> parameter and position."""
    key: tuple[str, ...] = ("name",)
    """Parts by which a buffer is found."""
    displaces: bool = False
    """A buffer that does not fit gives way to a new one."""


@dataclass(frozen=True)
class Entry:
    """One effect of one call or context."""

    name: str
    does: Effect | None
    makes: str | None = None
    of: str = "process"
    pool: str | None = None
    while_capturing: bool = False
    store: str | None = None
    released_by: str | None = None
    scope: str = "process"
    request: Request | None = None
    """ws_get: how it is asked; None where that is not known."""


@dataclass(frozen=True)
class Names:
    """Words that tell a release by its name alone, where a callee cannot be resolved."""

    verbs: frozenset[str] = frozenset()
    anew: frozenset[str] = frozenset()
    """Those of them after which a manager goes on with the memory that it has."""
    workspace: frozenset[str] = frozenset()
    graph: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    manager: frozenset[str] = frozenset()
    cache: frozenset[str] = frozenset()
    host: frozenset[str] = frozenset()
    captures: frozenset[str] = frozenset()
    capturing: frozenset[str] = frozenset()
    """Functions and properties that say whether the stream is being captured now."""
    makers: frozenset[str] = frozenset()
    """First words of a function that makes what the rest of its name says."""
    stream: frozenset[str] = frozenset()
    """Words of names that hold the identity of a stream."""
    uncaptured: frozenset[str] = frozenset()
    """Words of functions and modules whose shapes differ from call to call, so that engines run them without a graph."""

    def makes_memory(self, callee: str) -> bool:
        """Whether the name of a callee that cannot be read says that it makes a workspace."""
        words = words_in(callee)
        if not words or words[-1] not in self.workspace:
            return False
        return callee.lstrip("_")[:1].isupper() or words[0] in self.makers

    def is_graph(self, name: str) -> bool:
        """Whether a class is named after captured graphs."""
        words = words_in(name)
        return (
            "cudagraph" in words
            or ({"cuda", "graph"} <= set(words) and words[-1] in self.graph)
            or name.endswith("CUDAGraph")
        )

    def is_scratch(self, name: str) -> bool:
        """Whether an attribute or a variable is named after scratch memory, more than as some buffer."""
        return bool((self.workspace - {"buffer"}).intersection(words_in(name)))

    def is_uncaptured(self, name: str) -> bool:
        """Whether a function, a module or a buffer is named after work that engines do not capture."""
        return bool(self.uncaptured.intersection(words_in(name)))

    def is_stream(self, name: str) -> frozenset[str]:
        """The tag `stream` where a name says that its value identifies a stream."""
        return _STREAM if not self.stream.isdisjoint(words_in(name)) else _NO_TAG

    def effect(self, callee: str, receiver: str) -> Effect | None:
        """Effect of calling `receiver.callee(...)`, read from the words of the two names."""
        words = words_in(callee)
        if words[:1] and words[0] in self.captures and self.graph.intersection((*words, *words_in(receiver))):
            return Effect.CAPTURE
        verbs = self.verbs.intersection(words)
        if not verbs:
            return None
        subject = set(words) - self.verbs or set(words_in(receiver))
        if subject & self.graph and not subject & (self.workspace | self.parts):
            return Effect.GRAPH_DEATH
        if subject & self.workspace:
            return Effect.WS_RELEASE
        if subject & self.manager and not subject & self.host and not verbs <= self.anew:
            return Effect.KV_RELEASE
        return None

    def is_object(self, name: str) -> bool:
        """Whether a name is that of an object that works with graphs (`graph_runner`), not of a container of them."""
        words = words_in(name)
        return not self.graph.isdisjoint(words) and words[-1] in self.objects

    def is_cache(self, name: str, *, owned: bool) -> bool:
        """Whether an attribute's name says that its device memory is the requests' cache.

        Args:
            name: of the attribute.
            owned: the memory belongs to an object there; a tensor's name has to say more.
        """
        subject = set(words_in(name))
        return bool(subject & (self.cache if owned else self.manager)) and not subject & self.host


_STREAM = frozenset(("stream",))
_NO_TAG: frozenset[str] = frozenset()


@cache
def words_in(name: str) -> tuple[str, ...]:
    """Words of an identifier in any case style, lower case, plural s removed."""
    parts: list[str] = []
    for piece in name.split("_"):
        start = 0
        for i in range(1, len(piece)):
            if piece[i].isupper() and not piece[i - 1].isupper():
                parts.append(piece[start:i])
                start = i
        parts.append(piece[start:])
    lowered = [part.lower() for part in parts if part]
    return tuple(
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in lowered
    )


@dataclass
class Vocabulary:
    """Everything that is known about calls, by canonical dotted name."""

    calls: dict[str, list[Entry]] = field(default_factory=dict)
    contexts: dict[str, list[Entry]] = field(default_factory=dict)
    decorators: dict[str, list[Entry]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    objects: dict[str, str] = field(default_factory=dict)
    """Variable to the class of what it holds."""
    lifecycles: dict[str, tuple[str, Document]] = field(default_factory=dict)
    """Class name to its lifecycle, and where it is declared."""
    names: Names = field(default_factory=Names)
    documents: list[Document] = field(default_factory=list)
    """The files that it was read from."""
    matched: set[str] = field(default_factory=set)
    """Names and aliases that something matched so far."""

    def __post_init__(self) -> None:
        self._canonical: dict[str, str] = {}
        self._suffixes: dict[str, str] | None = None

    def canonical(self, name: str) -> str:
        """The one spelling of a dotted name, aliases resolved from the longest prefix on."""
        known = self._canonical.get(name)
        if known is None:
            known = self._canonical[name] = self._resolve(name)
        return known

    def called(self, names: Iterable[str]) -> list[Entry]:
        """What is known of a call of something that has these canonical names."""
        return self._matching(self.calls, names)

    def entered(self, names: Iterable[str]) -> list[Entry]:
        """What is known of a with-block of something that has these canonical names."""
        return self._matching(self.contexts, names)

    def decorated(self, names: Iterable[str]) -> list[Entry]:
        """What is known of a decorator that has these canonical names."""
        return self._matching(self.decorators, names)

    @cached_property
    def acting(self) -> frozenset[str]:
        """Last words of what does something where it is called."""
        return frozenset(
            name.rpartition(".")[2] for name, entries in self.calls.items() if any(each.does for each in entries)
        ) | {alias.rpartition(".")[2] for alias in self.aliases}

    def object(self, name: str) -> str | None:
        """The class of what a variable holds, where it is known."""
        found = self.objects.get(name)
        if found is not None:
            self.matched.add(name)
        return found

    def knows(self, name: str) -> bool:
        """Whether a dotted name has another spelling, or something is said of it."""
        return self.canonical(name) != name or name in self.calls or name in self.contexts

    def _matching(self, known: Mapping[str, list[Entry]], names: Iterable[str]) -> list[Entry]:
        found = [name for name in names if name in known]
        if not found:
            return []
        self.matched.update(found)
        return [entry for name in found for entry in known[name]]

    def _resolve(self, name: str) -> str:
        if name.startswith("?."):
            return self._suffix(name[2:]) or name
        for _ in range(8):
            head, tail = name, ""
            while head:
                if head in self.aliases:
                    self.matched.add(head)
                    name = self.aliases[head] + tail
                    break
                head, _, last = head.rpartition(".")
                tail = f".{last}{tail}"
            else:
                return name
        return name

    def _suffix(self, name: str) -> str | None:
        """The known name that ends in `name`, where an import leaves the tree that is read.

        `from ..memory import drop` in a folder whose parents are not there gives `memory.drop`; a vocabulary that knows
        one name with that ending means it. A bare name without its module says too little.
        """
        if self._suffixes is None:
            self._suffixes = {}
            for known in (*self.calls, *self.contexts, *self.decorators, *self.lifecycles):
                parts = known.split(".")
                for i in range(1, len(parts) - 1):
                    ending = ".".join(parts[i:])
                    self._suffixes[ending] = "" if ending in self._suffixes else known
        parts = name.split(".")
        for end in range(len(parts), 1, -1):
            if found := self._suffixes.get(".".join(parts[:end])):
                return ".".join((found, *parts[end:]))
        return None

    def tokens(self) -> frozenset[bytes]:
        """Last words of all names: a file without any of them has no effect of its own."""
        names = (*self.calls, *self.contexts, *self.decorators, *self.aliases)
        return frozenset(name.rpartition(".")[2].encode() for name in names)

    def add(self, document: Document) -> None:
        """Take in one vocabulary file, or the `[tool.graphlint.vocabulary]` table of a project.

        Raises:
            DeclarationError: an unknown key, effect or kind, with its file and row.
        """
        document.check(SCHEMA)
        self.documents.append(document)
        self.aliases.update(document.get("aliases", {}))
        self.objects.update(document.get("objects", {}))
        for index, item in enumerate(document.get("effect", ())):
            for entry in _entries(document, index, item):
                known = self.contexts if "with" in item else self.decorators if "decorator" in item else self.calls
                known.setdefault(entry.name, []).append(entry)
        for name, expression in document.get("lifecycle", {}).items():
            self.lifecycles[name] = (expression, document)
        self._canonical.clear()
        self._suffixes = None


_EFFECT = Table(
    optional={
        "call": str,
        "calls": ListOf(str),
        "with": str,
        "decorator": str,
        "does": OneOf(tuple(effect.value for effect in Effect)),
        "makes": str,
        "of": str,
        "pool": str,
        "while": OneOf(("capturing",)),
        "store": str,
        "released-by": str,
        "scope": OneOf(("instance", "class", "process")),
        "key": ListOf(OneOf(("name", "shape", "dtype", "device"))),
        "on-misfit": OneOf(("displace", "return")),
        **dict.fromkeys(_PARTS, str),
    }
)
SCHEMA = Table(
    optional={"aliases": MapOf(str), "objects": MapOf(str), "effect": ListOf(_EFFECT), "lifecycle": MapOf(str)}
)
_NAMES = Table(
    optional={
        key: ListOf(str)
        for key in (
            "verbs",
            "workspace",
            "graph",
            "parts",
            "objects",
            "anew",
            "manager",
            "cache",
            "host",
            "captures",
            "capturing",
            "makers",
            "uncaptured",
            "stream",
        )
    }
)


def _entries(document: Document, index: int, item: Mapping[str, Any]) -> Iterator[Entry]:
    if len({"call", "calls", "with", "decorator"}.intersection(item)) != 1:
        raise document.error("an effect needs one of 'call', 'calls', 'with' and 'decorator'", "effect", index)
    if ("does" in item) == ("makes" in item):
        raise document.error("an effect needs one of 'does' and 'makes'", "effect", index)
    makes = item.get("makes")
    if makes is not None and makes not in _KINDS and not makes.startswith(_PREFIXES):
        raise document.error(f"'makes' must be one of {', '.join((*_KINDS, *_PREFIXES))}", "effect", index, "makes")
    if "decorator" in item and item.get("does") != Effect.CAPTURE_END.value:
        raise document.error(f"a decorator can only do {Effect.CAPTURE_END.value!r}", "effect", index)
    for name in item.get("calls") or [item[key] for key in ("call", "with", "decorator") if key in item]:
        yield Entry(
            name,
            Effect(item["does"]) if "does" in item else None,
            makes,
            item.get("of", "process"),
            item.get("pool"),
            "while" in item,
            item.get("store"),
            item.get("released-by"),
            item.get("scope", "process"),
            _request(document, index, item),
        )


def _request(document: Document, index: int, item: Mapping[str, Any]) -> Request | None:
    """How a registry is asked, from an entry that says so."""
    parts = {part: item[part] for part in _PARTS if part in item}
    if item.get("does") != Effect.WS_GET.value:
        for key in ("key", "on-misfit", *parts):
            if key in item:
                raise document.error(
                    f"{key!r} belongs to an entry that does {Effect.WS_GET.value!r}", "effect", index, key
                )
        return None
    for part, spec in parts.items():
        name, colon, position = spec.partition(":")
        if not name.isidentifier() or (colon and not position.isdigit()):
            raise document.error(
                f"{part!r} must be a parameter and its position, as in 'size:1'", "effect", index, part
            )
    found_by = tuple(item.get("key", ("name",)))
    for part in found_by:
        if parts and part not in parts:
            raise document.error(f"'key' names {part!r}, which the entry does not place", "effect", index, "key")
    return Request(parts, found_by, item.get("on-misfit") == "displace") if parts else None


@cache
def builtin() -> tuple[Document, ...]:
    """The vocabulary files that ship with graphlint, parsed."""
    folder = os.path.join(os.path.dirname(__file__), "vocabularies")  # `importlib.resources` is slow to import
    files = sorted(file for file in os.listdir(folder) if file.endswith(".toml") and file != "cpp.toml")
    return tuple(declarations.read(os.path.join(folder, file)) for file in files)


def load(own: Document | None = None) -> Vocabulary:
    """Torch's vocabulary, every engine's, and a project's own.

    Raises:
        DeclarationError: a file or the project's table is not a vocabulary.
    """
    vocabulary = Vocabulary()
    for document in builtin():
        if document.path.endswith("names.toml"):
            document.check(_NAMES)
            vocabulary.names = Names(**{key: frozenset(words) for key, words in document.items()})
        else:
            vocabulary.add(document)
    if own is not None:
        vocabulary.add(own)
    return vocabulary
