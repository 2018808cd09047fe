"""Rewrites of hazards in foreign files: programs with hazards are put into real files, in many a style, and fixed there.

The programs are the fixtures that a codemod rewrites, with other names every time. The files around them are the standard
library's and those of installed packages. With `GRAPHLINT_ENGINES` in the environment, folders of engines' sources
separated like `PATH`, their files serve as well; nothing is written to them.
"""

from __future__ import annotations

import ast
import io
import itertools
import os
import random
import re
import sysconfig
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from renaming import other

from graphlint import check, fixing, registry
from graphlint.check import Inputs
from graphlint.config import Settings
from graphlint.validation.cases import BAD, FIXED, Case, Rewrite, discover

ROOT = Path(__file__).parent.parent
CASES = [
    case
    for case in discover(ROOT / "fixtures")
    if case.rewrite is Rewrite.CODEMOD and all(name.endswith(".py") for name in case.files(BAD))
]
ENGINES = "GRAPHLINT_ENGINES"
LEAST = 200
"""Fixes that the run must have applied to mean something."""


@dataclass(frozen=True)
class Style:
    """How a file is written."""

    indent: str = "    "
    crlf: bool = False
    bom: bool = False
    final_newline: bool = True
    comments: bool = False
    """Beside every statement."""
    decorated: bool = False
    """Every class has a decorator more."""
    block: bool = False
    """The program stands in a block of the module."""
    first: bool = False
    """The program stands before what else the file holds."""

    def write(self, program: str, host: str) -> tuple[str, str, str]:
        """The file as what is before the program, the program, and what is after it."""
        if self.decorated:
            program = re.sub(r"^( *)(?=class )", r"\1@_typing.final\n\1", program, flags=re.MULTILINE)
            program = re.sub(
                r"^(?=(?:import|from) )", "import typing as _typing\n", program, count=1, flags=re.MULTILINE
            )
        if self.comments:
            program = _commented(program)
        if self.block:
            program = "if True:\n" + re.sub(r"^(?=.)", "    ", program, flags=re.MULTILINE)
        program, host = self.indented(program), self.indented(host)
        before, after = ("", f"\n\n{host}") if self.first else (f"{host}\n\n", "")
        parts = (before, program.strip("\n") + "\n", after)
        last = parts[2] or parts[1]
        if not self.final_newline:
            last = last.rstrip("\n")
        parts = (before, parts[1] if after else last, last if after else "")
        return parts if not self.crlf else tuple(part.replace("\n", "\r\n") for part in parts)  # type: ignore[return-value]

    def indented(self, text: str) -> str:
        return re.sub(r"^( {4})+", lambda spaces: self.indent * (len(spaces[0]) // 4), text, flags=re.MULTILINE)

    def encoded(self, text: str) -> bytes:
        return text.encode("utf-8-sig" if self.bom else "utf-8")


STYLES = (
    Style(comments=True),
    Style(indent="\t", crlf=True),
    Style(indent="  ", final_newline=False, first=True),
    Style(crlf=True, bom=True, comments=True),
    Style(decorated=True, bom=True),
    Style(indent="   ", block=True, comments=True),
    Style(indent="\t", decorated=True, comments=True, final_newline=False),
    Style(indent="  ", block=True, crlf=True, decorated=True),
    Style(crlf=True, comments=True, decorated=True, first=True),
    Style(indent="\t", bom=True, first=True, final_newline=False),
)


def _commented(program: str) -> str:
    """A comment at the end of every statement's line, and one above every third."""
    lines = program.split("\n")
    tokens = list(tokenize.generate_tokens(io.StringIO(program).readline))
    ends = [token.start for token in tokens if token.type == tokenize.NEWLINE]
    for number, (row, column) in enumerate(ends):
        lines[row - 1] = f"{lines[row - 1][:column]}  # note {number}{lines[row - 1][column:]}"
    return "\n".join(lines)


def hosts(folders: list[Path], most: int) -> list[str]:
    """Texts of Python files that say nothing of graphs and can stand in front of or behind something else."""
    found: list[str] = []
    paths = sorted(path for folder in folders for path in folder.rglob("*.py") if 1500 < path.stat().st_size < 6000)
    random.Random(0).shuffle(paths)
    for path in paths:
        try:
            text = path.read_bytes().decode()
            ast.parse(text)
        except (UnicodeDecodeError, SyntaxError, ValueError):
            continue
        if "\r" in text or "\f" in text or re.search(r"^from (\.|__future__)|# -\*-|coding[:=]", text, re.MULTILINE):
            continue
        if not re.search(r"torch|[Gg]raph|cuda|^\t| \\$", text, re.MULTILINE):
            found.append(text.strip("\n") + "\n")
        if len(found) == most:
            break
    return found


def installed() -> list[Path]:
    """The standard library's own folders and a few packages that the tests need anyway."""
    import click
    import hypothesis
    import libcst

    library = Path(sysconfig.get_path("stdlib"))
    return [
        *(library / name for name in ("json", "email", "logging", "concurrent", "unittest", "importlib", "http")),
        *(Path(str(package.__file__)).parent for package in (click, hypothesis, libcst)),
    ]


def read(folder: Path) -> Inputs:
    return check.read((str(folder),), Settings(root=str(folder), src=(".",)), {})


def comments(content: bytes) -> Counter[str]:
    return Counter(
        token.string for token in tokenize.tokenize(io.BytesIO(content).readline) if token.type == tokenize.COMMENT
    )


def wrongs(case: Case, style: Style, host: str, salt: str, folder: Path) -> Iterator[int | str]:
    """Seed a fixture, fix it, and look at the result: the number of fixes that were applied, and what is wrong."""
    files, _ = other({name: content.decode() for name, content in case.files(BAD).items()}, salt)
    written = {name: style.write(text, host) for name, text in files.items()}
    for name, parts in written.items():
        (folder / name).write_bytes(style.encoded("".join(parts)))
    rule = registry.by_name(case.rule)
    outcome = fixing.fix(read(folder), [rule], unsafe=True)
    found = len(outcome.applied) + len(outcome.report.findings)
    if found != (expected := sum(marker.rule == case.rule for marker in case.markers(BAD))):
        yield f"{found} of {expected} found"
    yield len(outcome.applied)
    for refusal in outcome.refused:
        yield f"{refusal.finding.rule} refused: {refusal.reason}"
    conditions = " ".join(c for each in outcome.applied if each.finding.fix for c in each.finding.fix.conditions)
    for path, change in outcome.changes.items():
        yield from _harmed(
            change.before, change.after, written[Path(path).relative_to(folder).as_posix()], style, conditions
        )
        Path(path).write_bytes(change.after)
    again = fixing.fix(read(folder), [rule], unsafe=True)
    if again.changes:
        yield "a second run changes something"
    left = sum(not style.block or finding.fix is not None for finding in again.report.findings)
    if style.block and not outcome.applied:
        return  # some rewrites need their program at the top of its module, and are not offered elsewhere
    if left != sum(marker.rule == case.rule for marker in case.markers(FIXED)):
        yield f"{left} left"


def _harmed(before: bytes, after: bytes, parts: tuple[str, str, str], style: Style, conditions: str) -> Iterator[str]:
    """What a rewrite must not have done to a file."""
    try:
        ast.parse(after)
    except SyntaxError as error:
        yield f"does not parse: {error}"
        return
    head, tail = parts[0].encode(), parts[2].encode()
    if not _holds(after.removeprefix(b"\xef\xbb\xbf"), head) or not after.endswith(tail):
        yield "what is around the program has changed"
    if after.startswith(b"\xef\xbb\xbf") != style.bom or after.startswith(b"\xef\xbb\xbf" * 2):
        yield "the byte order mark has changed"
    if not tail and after.endswith(b"\n") != before.endswith(b"\n"):
        yield "the end of the file has changed"
    if style.crlf and re.search(rb"(?<!\r)\n", after):
        yield "a line ends otherwise"
    if not style.crlf and b"\r" in after:
        yield "a line ends otherwise"
    if style.indent == "\t":
        odd = set(re.findall(rb"^\t* .*$", after, re.MULTILINE)) - set(re.findall(rb"^\t* .*$", before, re.MULTILINE))
        yield from (f"indented otherwise: {line!r}" for line in odd)
    lost = comments(before) - comments(after)
    yield from (f"lost {comment}" for comment in lost if comment not in conditions)


def _holds(content: bytes, part: bytes) -> bool:
    """Whether all lines of a part are in a file, in their order: only whole lines have been put between them."""
    lines = iter(content.splitlines(keepends=True))
    return all(any(line == each for each in lines) for line in part.splitlines(keepends=True))


def run(texts: list[str], styles: tuple[Style, ...], tmp_path: Path) -> tuple[int, list[str]]:
    """Every fixture in every style, each in another of the texts."""
    count, failures = 0, []
    for number, (case, style) in enumerate(itertools.product(CASES, styles)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for what in wrongs(case, style, texts[number % len(texts)], str(number), folder):
            if isinstance(what, int):
                count += what
            else:
                failures.append(f"{case.title} in {style}, {folder}: {what}")
    return count, failures


def test_fixes_in_foreign_files(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    count, failures = run(hosts(installed(), len(CASES) * len(STYLES)), STYLES, tmp_path)
    print(f"{count} fixes applied")  # noqa: T201 - the figure that the run is for
    record_property("fixes", count)
    assert not failures, "\n".join(failures)
    assert count >= LEAST


@pytest.mark.parametrize("case", [case for case in CASES if case.entry is None], ids=lambda case: case.title)
def test_a_file_that_defines_nothing_at_its_top(case: Case, tmp_path: Path) -> None:
    body = "".join(
        f"    {line}" if line.strip() else line for line in case.files(BAD)["bad.py"].decode().splitlines(True)
    )
    (tmp_path / "bad.py").write_text(f"if True:\n{body}", encoding="utf-8")
    report = check.check([str(tmp_path)], Settings(root=str(tmp_path), src=(".",)), registry.rules())
    assert case.rule in {finding.rule for finding in report.findings}


@pytest.mark.skipif(ENGINES not in os.environ, reason=f"{ENGINES} names no folders of engines' sources")
def test_fixes_in_engines(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    folders = [Path(name) for name in os.environ[ENGINES].split(os.pathsep)]
    count, failures = run(hosts(folders, len(CASES) * len(STYLES)), STYLES, tmp_path)
    print(f"{count} fixes applied")  # noqa: T201 - the figure that the run is for
    record_property("fixes", count)
    assert not failures, "\n".join(failures)
    assert count >= LEAST
