"""The line in a rule's page that says where its cases were observed, kept in step with the record.

    python -m graphlint.validation.rulepages

run in a checkout, writes it anew in every page of `rules/`: after a run on a GPU, and after a fixture was edited. The
line stands below the page's title, so `graphlint rule` shows it too. The project's own README has one for all rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from graphlint.validation import record
from graphlint.validation.cases import Case, discover

README_HEADING = "## Shown on a GPU"
"""Below it the line stands in the project's README."""

_LINE = re.compile(r"\n\*(?:Observed on|Unvalidated: )[^\n]*\*\n")


def line(entries: record.Entries, cases: Sequence[Case], link: str) -> str:
    """What to say of cases.

    Args:
        entries: of the record.
        cases: all that the rule has.
        link: from the page to the record's.
    """
    standing = record.standing(entries, cases)
    text = standing.text[0].upper() + standing.text[1:]
    if not standing.holds:
        return f"*{text}.*"
    runs = min(sum(run["variant"] == "fixed" for run in entries[case.title]["runs"]) for case in cases)
    counted = f"{len(cases)} case{'' if len(cases) == 1 else 's'}, each rewrite clean in {runs} runs"
    return f"*{text}: {counted} ([record]({link})).*"


def marked(page: str, text: str, heading: str | None = None) -> str:
    """A page with such a line below a heading, its title if none is given, in the place of the one that it has."""
    bare = _LINE.sub("\n", page, count=1)
    above, found, below = bare.partition(f"{heading or bare.partition(chr(10))[0]}\n")
    return f"{above}{found}\n{text}\n\n{below.lstrip()}"


def outdated(root: Path) -> dict[Path, str]:
    """The pages of a checkout whose line is not what the record says, with the text that they have to hold."""
    entries = record.read(root / "docs" / "validation")
    cases = discover(root / "fixtures")
    right: dict[Path, str] = {}
    for path in sorted((root / "rules").glob("*/README.md")):
        own = [case for case in cases if case.rule == path.parent.name]
        right[path] = marked(path.read_text(encoding="utf-8"), line(entries, own, "../../docs/validation/README.md"))
    readme = root / "README.md"
    told = line(entries, cases, "docs/validation/README.md")
    right[readme] = marked(readme.read_text(encoding="utf-8"), told, README_HEADING)
    return {path: page for path, page in right.items() if page != path.read_text(encoding="utf-8")}


if __name__ == "__main__":
    for path, text in outdated(Path()).items():
        path.write_text(text, encoding="utf-8")
