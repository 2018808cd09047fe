"""Between findings and LibCST: the syntax under a span, and rewrites of it as edits.

Outside this package only the rules' own Python files use LibCST, and nothing imports it before there is a suspect: that
takes longer than most runs take. So this package is empty until one of its names is asked for; LibCST is `codemod.cst`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphlint.codemod.offer import *  # noqa: F403 - the names that `__getattr__` finds


def __getattr__(name: str) -> object:
    """The part of the package that has this name, imported when it is first wanted."""
    if name.startswith("__"):
        raise AttributeError(name)
    found: object = getattr(import_module("graphlint.codemod.offer"), name)
    globals()[name] = found
    return found
