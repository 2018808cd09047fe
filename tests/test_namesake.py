from __future__ import annotations

import sys
from pathlib import Path

import pytest

from graphlint import namesake


@pytest.mark.parametrize(
    ("folder", "name", "warns"),
    [
        ("site-packages", "graphlint-0.8.0.dist-info", True),
        ("dist-packages", "graphlint-0.8.0.egg-info", True),
        ("site-packages", "graphlint-1.0-py3.12.egg-info", True),
        ("site-packages", "cudagraph_lint-0.1.0.dist-info", False),
        ("site-packages", "graphlint_extras-0.8.0.dist-info", False),
        ("site-packages", "graphlint", False),
        ("elsewhere", "graphlint-0.8.0.dist-info", False),
    ],
)
def test_the_other_distribution_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, name: str, *, warns: bool
) -> None:
    (tmp_path / folder / name).mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "absent" / "site-packages"), str(tmp_path / folder)])
    said = namesake.warning()
    assert (said is not None) == warns
    assert not warns or str(tmp_path / folder) in str(said)
