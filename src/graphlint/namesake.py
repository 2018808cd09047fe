"""Notices another distribution whose import package is `graphlint` too.

This project is the distribution `cudagraph-lint`. An unrelated distribution is called `graphlint` and installs a
package and a command of that name too. With both in one environment, the last one has overwritten files of the first.
"""

from __future__ import annotations

import os
import re
import sys

_METADATA = re.compile(r"graphlint-\d.*\.(dist|egg)-info")


def warning() -> str | None:
    """What to tell the reader where the other distribution is installed; None where it is not.

    It reads names of folders only: `importlib.metadata` takes half as long to import as all of the command line.
    """
    for place in sys.path:
        if os.path.basename(place) not in ("site-packages", "dist-packages"):
            continue
        try:
            names = os.listdir(place)
        except OSError:
            continue
        if any(_METADATA.fullmatch(name) for name in names):
            return (
                f"another distribution named graphlint is installed in {place}, over the same files: "
                "uninstall it, then reinstall cudagraph-lint"
            )
    return None
