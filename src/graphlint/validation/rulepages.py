"""The line in a rule's page that says where its cases were observed, kept in step with the record.

    python -m graphlint.validation.rulepages

run in a checkout, writes it anew in every page of `rules/`: after a run on a GPU, and after a fixture was edited. The
line stands below the page's title, so `graphlint rule` shows it too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from graphlint.validation import record
from graphlint.validation.cases import Case, discover

_LINE = re.compile(r"\n\*(?:Observed on|Unvalidated: )[^\n]*\*\n")


def line(entries: record.Entries, cases: Sequence[Case]) -> str:
    """What to say of the cases of one rule.

    Args:
        entries: of the record.
        cases: all that the rule has.
    """
    standing = record.standing(entries, cases)
    text = standing.text[0].upper() + standing.text[1:]
    if not standing.holds:
        return f"*{text}.*"
    runs = min(sum(run["variant"] == "fixed" for run in entries[case.title]["runs"]) for case in cases)
    counted = f"{len(cases)} case{'' if len(cases) == 1 else 's'}, each rewrite clean in {runs} runs"
    return f"*{text}: {counted} ([record](../../docs/validation/README.md)).*"


def marked(page: str, text: str) -> str:
    """A page with such a line below its title, in the place of the one that it has."""
    title, rest = _LINE.sub("\n", page, count=1).split("\n", 1)
    return f"{title}\n\n{text}\n\n{rest.lstrip()}"


def outdated(root: Path) -> dict[Path, str]:
    """The pages of a checkout whose line is not what the record says, with the text that they have to hold."""
    entries = record.read(root / "docs" / "validation")
    cases = discover(root / "fixtures")
    found = {}
    for path in sorted((root / "rules").glob("*/README.md")):
        page = path.read_text(encoding="utf-8")
        right = marked(page, line(entries, [case for case in cases if case.rule == path.parent.name]))
        if right != page:
            found[path] = right
    return found


if __name__ == "__main__":
    for path, text in outdated(Path()).items():
        path.write_text(text, encoding="utf-8")
