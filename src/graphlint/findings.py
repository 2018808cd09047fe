"""What a rule says: suspects from the analysis, findings from the rule, both with the path of effects that shows the hazard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from graphlint.edits import Fix
from graphlint.source import Span


class Severity(str, Enum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Precision(str, Enum):
    """How sure a finding is. Low precision is reported only with `--preview`."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


MAX_STEPS = 8
"""Longest path that a report shows."""


@dataclass(frozen=True)
class Step:
    """One effect on the path to a hazard."""

    path: str
    span: Span
    effect: str
    message: str


@dataclass(frozen=True)
class Suspect:
    """A place that can be hazardous, and the path that says so. Made by the analysis; a rule confirms it."""

    rule: str
    path: str
    function: Span
    """Span of the function (or class, or module) that holds `at`, decorators included."""
    at: Span
    """What is reported: the code that an engineer would change."""
    trace: tuple[Step, ...]
    values: Mapping[str, str] = field(default_factory=dict)
    """Names for the message's `{placeholders}`, and what the rule's rewrite wants to know."""
    severity: Severity | None = None
    """Overrides the rule's own severity."""
    precision: Precision | None = None
    """Overrides the rule's own precision."""


@dataclass(frozen=True)
class Finding:
    """A confirmed suspect, as reported."""

    rule: str
    severity: Severity
    precision: Precision
    message: str
    path: str
    span: Span
    function: Span
    symbol: str
    """Qualified name of the enclosing function or class inside its module; empty at module level."""
    trace: tuple[Step, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Sentences that follow the message: what makes it worse, what was not proved."""
    fix: Fix | None = None

    @property
    def fingerprint(self) -> str:
        """Identity of the finding that survives edits elsewhere in the file: no line numbers in it."""
        import hashlib

        parts = (self.rule, self.path, self.symbol, self.message, *(step.effect for step in self.trace))
        return hashlib.sha256("\0".join(parts).encode(errors="backslashreplace")).hexdigest()[:16]
