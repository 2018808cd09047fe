from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings

from graphlint import registry

# The same examples on every run, however slow the machine: a red test is then the fault of the change at hand.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The rules in `tests/toys` instead of the real ones: they report calls by name, whatever the analysis says."""
    monkeypatch.setattr(import_module("graphlint.rules"), "__path__", [str(Path(__file__).parent / "toys")])
    registry.rules.cache_clear()
    registry.folder.cache_clear()
    yield
    registry.rules.cache_clear()
    registry.folder.cache_clear()
