"""Fixtures: pairs of programs, one with a hazard and one without, and what the first has to show on a GPU.

A case is a folder `fixtures/<rule>/<case>/` that holds `bad.py` and `fixed.py`, or two folders `bad/` and `fixed/` of
modules, and a `fixture.toml`:

    summary = "scratch grows by replacement while a captured graph holds the old address"
    rewrite = "codemod"              # fixed is what the rule's codemod makes of bad; or "by-hand"
    entry = "main.py"                # of a folder: the module that defines `observe`
    devices = 2                      # GPUs that the case needs; 1 where it says nothing
    only-read = true                 # the case has C++ in it: the analysis reads it, nothing runs it; no symptoms then

    [symptom.default]                # for an allocator setting: what bad has to show, exactly
    kind = "corrupt"                 # crash | error | corrupt | leak | stale
    any-of = ["canary"]              # one of these texts has to be in what was seen
    freed-by = "get"                 # the function that the pointer audit has to name

    [[wrong]]                        # a rewrite that looks right and is not: fixed with one text replaced
    name = "growth without retiring"
    file = "fixed.py"
    replace = "self._retired.append(self.buffer)"
    with = "pass"

A line that a rule reports ends in `# hazard: <rule>`. These markers are stripped before anything else reads the text:
no run, no analysis and no comparison sees them. A marker in `fixed` is a hazard that the case's own rewrite leaves
alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from graphlint import declarations
from graphlint.declarations import Document, ListOf, MapOf, OneOf, Table

Files = Mapping[str, bytes]
"""File names, relative to the folder that a variant runs in, to contents without markers."""


class Kind(str, Enum):
    """What a hazard does that can be seen from outside."""

    CRASH = "crash"
    """The process died by a signal, CUDA or torch's allocator gave up on it, or memory in use was taken from it.

    After the last anything may end the process, so a fixture declares the loss, which is seen when it happens.
    """
    ERROR = "error"
    """An exception ended it."""
    CORRUPT = "corrupt"
    """A result differs from what it has to be, or memory that nobody may touch was overwritten."""
    LEAK = "leak"
    """Memory that has to be given back is still reserved."""
    STALE = "stale"
    """A graph holds an address of memory that is not its own any more."""


class Rewrite(str, Enum):
    """Where `fixed` comes from."""

    CODEMOD = "codemod"
    BY_HAND = "by-hand"


class Setting(str, Enum):
    """A setting of torch's allocator."""

    DEFAULT = "default"
    EXPANDABLE = "expandable"

    @property
    def configuration(self) -> str:
        """The value of `PYTORCH_CUDA_ALLOC_CONF`."""
        return f"expandable_segments:{self is Setting.EXPANDABLE}"


@dataclass(frozen=True)
class Symptom:
    """What `bad` has to show."""

    kind: Kind
    any_of: tuple[str, ...] = ()
    freed_by: str | None = None


@dataclass(frozen=True)
class Wrong:
    """A rewrite that the suite has to reject: one text of `fixed` replaced by another."""

    name: str
    file: str
    replace: str
    by: str


@dataclass(frozen=True)
class Marker:
    """A line that a rule reports."""

    file: str
    row: int
    rule: str


class CaseError(ValueError):
    """A fixture cannot be read; the message names the file."""


BAD, FIXED = "bad", "fixed"

_MARKER = re.compile(rb"[ \t]*# hazard: ([a-z0-9-]+(?:, [a-z0-9-]+)*)[ \t]*(?=\r?$)", re.MULTILINE)

_SYMPTOM = Table(
    required={"kind": OneOf(tuple(kind.value for kind in Kind))}, optional={"any-of": ListOf(str), "freed-by": str}
)
_WRONG = Table(required={"name": str, "file": str, "replace": str, "with": str})
_SCHEMA = Table(
    required={
        "summary": str,
        "rewrite": OneOf(tuple(rewrite.value for rewrite in Rewrite)),
    },
    optional={"symptom": MapOf(_SYMPTOM), "only-read": bool, "entry": str, "devices": int, "wrong": ListOf(_WRONG)},
)


@dataclass(frozen=True, eq=False)
class Case:
    """One fixture."""

    rule: str
    name: str
    folder: Path
    summary: str
    rewrite: Rewrite
    entry: str | None
    """Of a case made of folders the module that defines `observe`; None where `bad.py` and `fixed.py` do."""
    devices: int
    symptoms: Mapping[Setting, Symptom]
    wrong: tuple[Wrong, ...]
    only_read: bool = False
    """Whether no run can show anything, because a part of the case is no Python."""

    @property
    def title(self) -> str:
        """`<rule>/<case>`."""
        return f"{self.rule}/{self.name}"

    @property
    def variants(self) -> tuple[str, ...]:
        """All that can be run: bad, fixed, and each wrong rewrite by its name."""
        return (BAD, FIXED, *(wrong.name for wrong in self.wrong))

    def entry_of(self, variant: str) -> str:
        """The file that defines `observe`, relative to the folder that the variant runs in."""
        return self.entry or f"{BAD if variant == BAD else FIXED}.py"

    def files(self, variant: str) -> Files:
        """The variant's modules, without markers.

        Raises:
            CaseError: a wrong rewrite's text is not in the file exactly once.
        """
        if variant in (BAD, FIXED):
            return {name: strip_markers(content)[0] for name, content in self.sources(variant).items()}
        wrong = next(wrong for wrong in self.wrong if wrong.name == variant)
        files = dict(self.files(FIXED))
        before = files.get(wrong.file, b"").decode()
        times = before.count(wrong.replace)
        if times != 1:
            raise CaseError(f"{self.folder / wrong.file}: the text that {variant!r} replaces is there {times} times")
        files[wrong.file] = before.replace(wrong.replace, wrong.by).encode()
        return files

    def sources(self, variant: str) -> Files:
        """The files of bad or fixed as they are on disk, markers and all."""
        if self.entry is None:
            return {f"{variant}.py": (self.folder / f"{variant}.py").read_bytes()}
        folder = self.folder / variant
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.py"))}

    def markers(self, variant: str) -> tuple[Marker, ...]:
        """The marked lines of bad or fixed."""
        return tuple(
            Marker(name, row, rule)
            for name, content in self.sources(variant).items()
            for row, rule in strip_markers(content)[1]
        )

    def digest(self) -> str:
        """Content hash of everything that the case's outcome depends on: its sources and its declaration."""
        return digest(
            {
                "fixture.toml": (self.folder / "fixture.toml").read_bytes(),
                **{
                    f"{variant}/{name}": content
                    for variant in (BAD, FIXED)
                    for name, content in self.files(variant).items()
                },
            }
        )


def digest(files: Files) -> str:
    """Content hash of named files."""
    total = hashlib.sha256()
    for name, content in sorted(files.items()):
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def strip_markers(content: bytes) -> tuple[bytes, tuple[tuple[int, str], ...]]:
    """The text without its markers, and the row (from 1) and rule of each."""
    found = tuple(
        (content.count(b"\n", 0, match.start()) + 1, rule)
        for match in _MARKER.finditer(content)
        for rule in match[1].decode().split(", ")
    )
    return _MARKER.sub(b"", content), found


def discover(fixtures: Path, wanted: Iterable[str] = ()) -> tuple[Case, ...]:
    """The cases under a folder that can run, sorted by rule and name.

    Args:
        fixtures: the folder.
        wanted: rules, and cases as `<rule>/<case>`; all cases if there are none.

    Raises:
        CaseError: the folder is missing, nothing is there of what is wanted, or a case lacks a file.
        DeclarationError: a `fixture.toml` is wrong.
    """
    if not fixtures.is_dir():
        raise CaseError(f"{fixtures}: no such folder")
    paths = {path.parent.relative_to(fixtures).as_posix(): path for path in fixtures.glob("*/*/fixture.toml")}
    names = frozenset(wanted)
    for name in sorted(names):
        if not any(name in (title, title.partition("/")[0]) for title in paths):
            raise CaseError(f"{fixtures}: no case of {name!r}")
    cases = (
        load(path) for title, path in sorted(paths.items()) if not names or {title, title.partition("/")[0]} & names
    )
    return tuple(case for case in cases if not case.only_read)


def load(path: Path) -> Case:
    """The case that a `fixture.toml` declares.

    Raises:
        CaseError: `bad` or `fixed` is missing, or the text that a wrong rewrite replaces is not there exactly once.
        DeclarationError: the file is wrong.
    """
    document = declarations.read(path).check(_SCHEMA)
    settings = {setting.value: setting for setting in Setting}
    symptoms = document.get("symptom", {})
    only_read = document.get("only-read", False)
    if only_read == bool(symptoms):
        raise document.error("a case has symptoms, or nothing runs it ('only-read')", "symptom")
    for name in symptoms:
        if name not in settings:
            raise document.error(f"unknown allocator setting {name!r}", "symptom", name)
    case = Case(
        rule=path.parent.parent.name,
        name=path.parent.name,
        folder=path.parent,
        summary=document["summary"],
        rewrite=Rewrite(document["rewrite"]),
        entry=document.get("entry"),
        devices=document.get("devices", 1),
        symptoms={settings[name]: _symptom(declared) for name, declared in symptoms.items()},
        wrong=_wrong(document),
        only_read=only_read,
    )
    for variant in (BAD, FIXED):
        if not (case.folder / (variant if case.entry else "") / case.entry_of(variant)).is_file():
            raise CaseError(f"{case.folder}: no {variant} with {case.entry_of(variant)}")
    for wrong in case.wrong:
        case.files(wrong.name)
    return case


def _symptom(declared: Mapping[str, object]) -> Symptom:
    any_of, freed_by = declared.get("any-of", []), declared.get("freed-by")
    assert isinstance(any_of, list)
    return Symptom(Kind(declared["kind"]), tuple(any_of), None if freed_by is None else str(freed_by))


def _wrong(document: Document) -> tuple[Wrong, ...]:
    found = tuple(
        Wrong(each["name"], each["file"], each["replace"], each["with"]) for each in document.get("wrong", ())
    )
    for index, wrong in enumerate(found):
        if wrong.name in (BAD, FIXED, *(earlier.name for earlier in found[:index])):
            raise document.error(f"{wrong.name!r} is the name of a variant already", "wrong", index)
    return found
