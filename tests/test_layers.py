"""The order of the modules: each imports only from the left, and the costly libraries only where they are needed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "graphlint"
RULES = ROOT / "rules"

LAYERS = """
    source words mentions namesake sharing interrupts stand_ins targets | syntax edits flow effects values | comments
    findings declarations behavior learned | facts automaton vocabulary | rule operators | project | paths | activation
    rebasing outliving | sieve execution visiting dependence assignments | records bindings conditions constructors dispatch
    handed handing | knowledge emptying last_given | holding steps | frame | lookups hooks | kinship | deferred | endings | awaiting |
    queues | calls | expressions | evaluate slices | candidates holdings origins | answers meanings | spelled summaries |
    inherited obtained | provenance | enrolled | engines fleeting identity inside keeping ownership portions readers teardowns stores
    combinations platforms | renewals | absence options arenas cohabitants descents elsewhere entering gates growth likeness
    moving registries releases retention submodules takings variables warming filling | branches reaching workspaces | typestate
    requests | namings pools | registry suppress | cpp codemod | config native | files | report rows writing silencing |
    check | explain fixing listing owners | regressions | validation | cli codemod_command | __main__
"""
RANK = {name: rank for rank, layer in enumerate(LAYERS.split("|")) for name in layer.split()}

LAZY = ("libcst", "pathspec", "torch", "tree_sitter", "tree_sitter_cpp", "cuda")
"""Imported inside the functions that need them: each costs more than the whole rest of the start."""


def unit(path: Path) -> str:
    """What a file belongs to: a module of graphlint, or a package inside it, whose files rank as one."""
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Dotted names that a file imports, at its top or inside a function; `from a import b` gives `a.b`."""
    tree = ast.parse(path.read_bytes())
    here = ("graphlint", *path.relative_to(SRC).parts) if SRC in path.parents else ()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join((*here[: -node.level], *filter(None, [node.module]))) if node.level else str(node.module)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def libraries(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


def sources() -> list[Path]:
    return [path for path in sorted(SRC.rglob("*.py")) if path != SRC / "__init__.py"]


def test_every_module_has_a_place() -> None:
    assert {unit(path) for path in sources()} <= set(RANK)


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(SRC)))
def test_a_module_imports_only_from_lower_layers(path: Path) -> None:
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "graphlint" or len(parts) == 1 or parts[1] in (unit(path), "__version__"):
            continue
        assert RANK[parts[1]] < RANK[unit(path)], f"{unit(path)} must not import {name}"


def test_the_package_itself_imports_nothing() -> None:
    assert list(imports(SRC / "__init__.py")) == []


def test_python_is_read_below_the_analysis_and_written_above_it() -> None:
    assert {unit(path) for path in sources() if "ast" in libraries(path)} <= {"syntax", "targets", "facts"}
    assert {unit(path) for path in sources() if "libcst" in libraries(path)} <= {"codemod", "codemod_command"}
    assert [path for path in RULES.rglob("*.py") if "ast" in libraries(path)] == []


def test_nothing_in_the_tool_names_a_rule() -> None:
    names = [path.parent.name for path in RULES.glob("*/rule.toml")]
    naming = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])") if names else re.compile(r"(?!)")
    found = [
        f"{path.relative_to(ROOT)}:{row}: {match[0]}"
        for path in sorted(SRC.rglob("*"))
        if path.suffix in (".py", ".toml")
        for row, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in naming.finditer(line)
    ]
    assert found == []


def modules() -> list[str]:
    return [f"graphlint.{'.'.join(path.relative_to(SRC).with_suffix('').parts)}" for path in sources()]


@pytest.mark.parametrize("module", [name for name in modules() if not name.startswith("graphlint.codemod")])
def test_no_costly_library_is_imported_with_a_module(module: str) -> None:
    program = f"import sys, {module}; print(*sorted(set(sys.modules) & set({LAZY!r})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
