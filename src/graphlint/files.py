"""Which files a run looks at: those it reports on, and those it reads to understand them.

A hazard seldom lives in one file, so a run over a single file (a pre-commit hook's) still reads the package around it;
it *reports* on the given paths only. Both sets depend on paths alone, never on what the files say.

Of Python only `.py` counts while a folder is walked: a `.pyi` stub has no bodies, hence no effects, and a notebook is
not Python text. A file given by name is taken whatever its suffix, and whatever is excluded unless that is to hold for
it too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphlint.config import Settings, is_pattern
from graphlint.source import CPP, Source

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

PYTHON = (".py",)
"""What a Python file's name ends with, where it is not given by name."""

NEVER_WALKED = frozenset(
    (
        ".bzr",
        ".direnv",
        ".eggs",
        ".git",
        ".git-rewrite",
        ".hg",
        ".hypothesis",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".pytype",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        "__pycache__",
        "__pypackages__",
        "buck-out",
        "build",
        "dist",
        "node_modules",
        "site-packages",
        "venv",
    )
)
"""Folders that hold no source of the project. One of them is walked only where it is itself a given path."""

_PROJECT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")


class PathError(Exception):
    """A given path does not exist, or is neither a file nor a folder; the message names it."""


@dataclass(frozen=True)
class Selection:
    """The files of one run, sorted, as `shown` spells them."""

    report: tuple[str, ...]
    """Files whose findings are reported."""
    context: tuple[str, ...]
    """Files that the analysis reads; `report` is among them."""
    roots: tuple[str, ...]
    """The `src` setting: folders that dotted names start from."""
    unreadable: tuple[str, ...]
    """Folders that could not be listed."""
    is_cut: bool = False
    """Whether there is more context than was searched for."""


def project_files(
    given: Iterable[str],
    settings: Settings,
    unsaved: Iterable[str] = (),
    suffixes: tuple[str, ...] = PYTHON,
    *,
    force_exclude: bool = False,
    enough: int | None = None,
) -> Selection:
    """The files to report on and the files to read, for the paths of a command line.

    The context of a file is everything below its root: the folders of the `src` setting that hold it, else the topmost
    package around it (`root_of`).

    Args:
        given: files and folders.
        settings: `exclude` and `src`.
        unsaved: given files that need not exist.
        suffixes: what the names of source files end with.
        force_exclude: whether given paths are left out if they are excluded.
        enough: end the search for context once it has more Python files than this; the given paths are searched all
            the same.

    Raises:
        PathError: a given path is missing.
    """
    walk = _Walk(settings, suffixes)
    report: set[str] = set()
    named = [shown(path) for path in given]
    new = {shown(path) for path in unsaved}
    for path in named:
        found = {path} if path in new else walk.given(path)
        if not (force_exclude and found and walk.excludes(path)):
            report |= found
    sources = [shown(os.path.join(settings.root, folder)) for folder in settings.src]
    roots: set[str] = set()
    for folder in {os.path.dirname(path) for path in report}:
        roots |= {source for source in sources if holds(source, folder)} or {root_of(folder)}
    context = set(report)
    missing = sorted(roots - walk.listed)
    while missing and (enough is None or _count_python(context) <= enough):
        root = missing.pop(0)
        if root not in walk.listed:
            context |= walk.below(root, enough)
    is_cut = bool(missing) or walk.is_cut
    for link in sorted(walk.links.difference(named)):
        # One file under one name: a link gives way to the file that it leads to.
        target = shown(os.path.realpath(link))
        if target in report or (link not in report and target in context):
            report.discard(link)
            context.discard(link)
        elif link in report:
            context.discard(target)
    return Selection(
        tuple(sorted(report)), tuple(sorted(context)), tuple(sources), tuple(sorted(walk.unreadable)), is_cut
    )


def read(path: str) -> Source | None:
    """A file from disk; None where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return Source(path, file.read())
    except OSError:
        return None


def root_of(folder: str) -> str:
    """The topmost package that holds the files of `folder`, or the folder itself where it belongs to none.

    A folder without `__init__.py` below a package is part of it (PEP 420), as long as both belong to one project.
    """
    package = os.path.abspath(folder)
    while not _is_package(package):
        parent = os.path.dirname(package)
        if parent == package or any(os.path.exists(os.path.join(package, mark)) for mark in _PROJECT_MARKS):
            return folder
        package = parent
    while _is_package(parent := os.path.dirname(package)) and parent != package:
        package = parent
    return shown(package)


def shown(path: str) -> str:
    """The spelling of a path in reports: relative below the working directory (which is itself ""), else absolute."""
    path = os.path.abspath(path)
    here = os.getcwd()
    return path[len(here) :].lstrip(os.sep) if holds(here, path) else path


def holds(folder: str, path: str) -> bool:
    """Whether `path` is `folder` or lies below it."""
    folder, path = os.path.abspath(folder), os.path.abspath(path)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _count_python(paths: Iterable[str]) -> int:
    return sum(not path.endswith(CPP) for path in paths)


def _is_package(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "__init__.py"))


class _Walk:
    """Walks folders and remembers what it met on the way."""

    def __init__(self, settings: Settings, suffixes: tuple[str, ...]) -> None:
        self.settings = settings
        self.suffixes = suffixes
        self.listed: set[str] = set()
        self.unreadable: set[str] = set()
        self.links: set[str] = set()
        self.is_cut = False

    def given(self, path: str) -> set[str]:
        """The files that a path of the command line stands for."""
        if path.endswith(".ipynb"):
            raise PathError(f"{path}: a notebook is no Python text; `jupyter nbconvert --to script` makes one of it")
        if os.path.isfile(path):
            return {path}
        if os.path.isdir(path or "."):
            return self.below(path)
        raise PathError(
            f"{path}: {'neither a file nor a folder' if os.path.exists(path) else 'no such file or folder'}"
        )

    def excludes(self, path: str) -> bool:
        """Whether the settings, or the name of a folder above it, leave a path out of a walk from their folder."""
        base, path = os.path.abspath(self.settings.root), os.path.abspath(path)
        if not holds(base, path):
            return False
        below = _relative(path, base).removesuffix("/")
        if NEVER_WALKED.intersection(below.split("/")[: None if os.path.isdir(path) else -1]):
            return True
        spelled = f"{below}/" if os.path.isdir(path) else below
        return any(one.folders.match_file(spelled) for one in self._compiled(self.settings.exclude))

    def below(self, root: str, enough: int | None = None) -> set[str]:
        """The source files below a folder; the search may end once more than `enough` of them are Python.

        Links to folders are not followed, so no loop of links can hold a run up.
        """
        found: set[str] = set()
        python = 0
        excluded, above = self._patterns_above(root)
        # A folder, the same below the root and with a final slash, and the ignore files that hold for what is in it.
        pending = [(root, "", above)]
        while pending and (enough is None or python <= enough):
            folder, below, ignores = pending.pop()
            self.listed.add(folder)
            prefix = os.path.join(folder, "")
            files: list[str] = []
            folders: list[str] = []
            try:
                with os.scandir(folder or ".") as entries:
                    for entry in entries:
                        name = entry.name
                        if name.endswith(self.suffixes) and entry.is_file():
                            files.append(name)
                            if entry.is_symlink():
                                self.links.add(prefix + name)
                        elif name == ".gitignore":
                            ignores = (*ignores, *self._gitignore(folder, cut=len(below)))
                        elif name == "pyvenv.cfg" and below:
                            # A virtual environment under a name of its own.
                            files, folders = [], []
                            break
                        elif name not in NEVER_WALKED and entry.is_dir(follow_symlinks=False):
                            folders.append(name)
            except OSError:
                self.unreadable.add(folder or ".")
            for name in files:
                if not _matches(excluded, below + name) and not _matches(ignores, below + name):
                    found.add(prefix + name)
                    python += not name.endswith(CPP)
            for name in folders:
                inner = below + name + "/"
                if not _matches(excluded, inner) and not _matches(ignores, inner):
                    pending.append((prefix + name, inner, ignores))
        self.is_cut |= bool(pending)
        return found

    def _patterns_above(self, root: str) -> tuple[tuple[_Patterns, ...], tuple[_Patterns, ...]]:
        """The `exclude` setting, and the ignore files above `root` up to its repository's top.

        Those that would ignore `root` itself are left out: who names a folder wants to see it.
        """
        top = os.path.abspath(root)
        base = os.path.abspath(self.settings.root)
        excluded = self._compiled(self.settings.exclude, prefix=_relative(top, base) if holds(base, top) else "")
        ignores: tuple[_Patterns, ...] = ()
        folder = top
        while not os.path.exists(os.path.join(folder, ".git")) and folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
        if os.path.exists(os.path.join(folder, ".git")):
            while folder != top:
                ignores += self._gitignore(folder, prefix=_relative(top, folder))
                folder = os.path.join(folder, os.path.relpath(top, folder).split(os.sep, 1)[0])
        if any(one.ignores_its_walk() for one in ignores):
            ignores = ()
        return tuple(one for one in excluded if not one.ignores_its_walk()), ignores

    def _gitignore(self, folder: str, *, prefix: str = "", cut: int = 0) -> tuple[_Patterns, ...]:
        """The patterns of a folder's ignore file; none where there is none, or it cannot be read."""
        try:
            with open(os.path.join(folder, ".gitignore"), encoding="utf-8-sig", errors="surrogateescape") as file:
                lines = file.read().splitlines()
        except OSError:
            return ()
        return self._compiled(lines, prefix=prefix, cut=cut)

    def _compiled(self, lines: Iterable[str], *, prefix: str = "", cut: int = 0) -> tuple[_Patterns, ...]:
        """The patterns in the lines of an ignore file. A line that is no pattern is passed over, as Git does."""
        lines = [line for line in lines if line.strip() and not line.startswith("#")]
        if not lines:
            return ()
        from pathspec import GitIgnoreSpec

        try:
            folders = GitIgnoreSpec.from_lines(lines)
        except (ValueError, re.error):
            lines = [line for line in lines if is_pattern(line)]
            folders = GitIgnoreSpec.from_lines(lines)
        files = GitIgnoreSpec.from_lines([line for line in lines if _can_match(line, self.suffixes)])
        return (_Patterns(folders, files, prefix, cut),)


# ---------------------------------------------------------------------------------------------------- ignore patterns


@dataclass(frozen=True)
class _Patterns:
    """The patterns of one ignore file, for the paths of one walk.

    A path below the walk's root turns into one below the ignore file's folder by losing `cut` characters and gaining
    `prefix`.
    """

    folders: GitIgnoreSpec
    files: GitIgnoreSpec
    prefix: str = ""
    cut: int = 0

    def match(self, path: str) -> bool | None:
        """Whether the patterns ignore a path (True), keep it (False) or say nothing about it (None)."""
        spec = self.folders if path.endswith("/") else self.files
        return spec.check_file(self.prefix + path[self.cut :]).include

    def ignores_its_walk(self) -> bool:
        """Whether the folder that the walk starts in is itself ignored."""
        return bool(self.prefix) and self.folders.match_file(self.prefix)


def _matches(patterns: Sequence[_Patterns], path: str) -> bool:
    """Whether a path is ignored; of several ignore files the last that says something decides, as in Git."""
    for one in reversed(patterns):
        verdict = one.match(path)
        if verdict is not None:
            return verdict
    return False


def _relative(path: str, base: str) -> str:
    """`path` below `base`, with slashes, ending in one; empty for `base` itself."""
    return "" if path == base else os.path.relpath(path, base).replace(os.sep, "/") + "/"


def _can_match(pattern: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a pattern can match a source file itself, not only a folder above it.

    Most patterns name folders and build products. Asking only the others for each file makes the walk of a large
    tree several times faster.
    """
    pattern = pattern.strip()
    tail = re.split(r"[*?/\]\\]", pattern)[-1]
    if not tail:
        return not pattern.endswith("/")
    return any(suffix.endswith(tail) or tail.endswith(suffix) for suffix in suffixes)
