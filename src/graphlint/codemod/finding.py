"""A suspect that a rule has confirmed, as a finding."""

from __future__ import annotations

from graphlint import registry
from graphlint.codemod.tree import Module
from graphlint.findings import Finding, Suspect


def confirmed(suspect: Suspect, module: Module, *notes: str) -> Finding:
    """The finding that a suspect turns into, in the words of its rule's declaration."""
    rule = registry.by_name(suspect.rule)
    return Finding(
        rule=rule.name,
        severity=suspect.severity or rule.severity,
        precision=suspect.precision or rule.precision,
        message=rule.message.format_map(suspect.values),
        path=suspect.path,
        span=suspect.at,
        function=suspect.function,
        symbol=module.symbol(suspect.function),
        trace=suspect.trace,
        values=suspect.values,
        notes=notes,
    )
