"""What the codemod makes of a case's bad version, now and in memory.

The GPU run is of use without the linter's own dependencies, as on a machine that has torch and no package index. There
the comparison is not made, and the result says so: it never counts as passed.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from graphlint.validation.cases import BAD, FIXED, Case, Files, Rewrite


@dataclass(frozen=True)
class Compared:
    """A codemod's text beside the fixture's."""

    files: Files | None
    """What the codemod made; None where it was not run."""
    equal: bool | None
    """Whether that is byte for byte `fixed`; None where it was not compared."""
    note: str
    """Why it was not compared, or how it differs."""


def compare(case: Case) -> Compared:
    """The codemod's text for a case, and whether it is `fixed`."""
    if case.rewrite is Rewrite.BY_HAND:
        return Compared(None, None, "written by hand")
    try:
        files = rewritten(case)
    except ImportError as error:
        return Compared(None, None, f"not checked: {error.name or error} is not installed")
    except Exception as error:  # noqa: BLE001 - whatever stops the linter must not stop the GPU from being asked
        return Compared(None, equal=False, note=f"the codemod failed: {type(error).__name__}: {error}")
    expected = case.files(FIXED)
    given = {name if case.entry else f"{FIXED}.py": content for name, content in files.items()}
    differing = sorted(name for name in {*given, *expected} if given.get(name) != expected.get(name))
    return Compared(given, not differing, f"differs in {', '.join(differing)}" if differing else "byte for byte")


def rewritten(case: Case) -> Files:
    """The files of bad after the fixes of the case's rule, safe and unsafe.

    Raises:
        ImportError: the linter's dependencies or its rules are not installed.
    """
    from graphlint import check, fixing, registry
    from graphlint.config import Settings

    before = case.files(BAD)
    with tempfile.TemporaryDirectory(prefix="graphlint-") as place:
        for name, content in before.items():
            path = Path(place) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        inputs = check.read((place,), Settings(root=place, src=(".",)), {})
        outcome = fixing.fix(inputs, (registry.by_name(case.rule),), unsafe=True)
        changed = {Path(path).resolve(): change.after for path, change in outcome.changes.items()}
        root = Path(place).resolve()
        return {name: changed.get(root / name, content) for name, content in before.items()}
