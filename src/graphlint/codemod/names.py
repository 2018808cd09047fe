"""How a module can say the name of something that is defined elsewhere: a name that it has, or one more import."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import libcst as cst

from graphlint.codemod.layout import line_width
from graphlint.codemod.reading import Uses, dotted
from graphlint.codemod.tree import Modules


@dataclass(frozen=True)
class Reference:
    """An expression for a qualified name, and the import that it needs, if any."""

    expression: str
    statement: str | None = None


def reference(modules: Modules, path: str, qualified: str, used: Uses, column: int = 0) -> Reference | None:
    """How a function of the module at `path` can name what has this qualified name.

    Names that the module imports at its top level are used as they are; else the import is relative where the module
    imports relatively.

    Args:
        modules: of the project.
        path: of the module that holds the function.
        qualified: `package.module.Class.method`, or `self.method` for an attribute of the function's own object.
        used: what the function does with names; none of them may come to mean something else.
        column: where the import will stand.

    Returns:
        None where the name is taken in the function.
    """
    if qualified.startswith(("self.", "cls.")):
        return Reference(qualified)
    module, attributes = _split(modules, qualified)
    name = attributes[0]
    own = _own_name(modules, path, module)
    if own == module:
        return Reference(".".join(attributes)) if name not in used.binds else None
    package = own if own is not None and path.endswith("__init__.py") else (own or "").rpartition(".")[0]
    body = modules[path].tree().root.body
    for alias, meant in _imports(body, package):
        if alias in used.binds:
            continue
        if meant == f"{module}.{name}":
            return Reference(".".join((alias, *attributes[1:])))
        if meant == module:
            return Reference(".".join((alias, *attributes)))
        if module.startswith(f"{meant}.") and find_path(modules, module) is None:
            # of a library: its top module is taken to bring its parts along, as `import torch` does
            return Reference(alias + qualified.removeprefix(meant))
    if name in used.roots | used.binds:
        return None
    source = module
    if package and _imports_relatively(body) and package.split(".", 1)[0] == module.split(".", 1)[0]:
        source = _relative(package, module)
    statement = f"from {source} import {name}"
    if column + len(statement) > line_width(modules[path].text):
        statement = f"from {source} import (\n    {name},\n)"
    return Reference(".".join(attributes), statement)


def find_path(modules: Modules, module: str) -> str | None:
    """The path of a module by its dotted name; None where it is not among the files that were read."""
    stem = module.replace(".", "/")
    for end in (f"{stem}.py", f"{stem}/__init__.py"):
        for path in modules:
            if path == end or path.endswith(f"/{end}"):
                return path
    return None


def _split(modules: Modules, qualified: str) -> tuple[str, list[str]]:
    """The module and the attributes in it: by the files that exist, else by the first word in capitals."""
    parts = qualified.split(".")
    for count in range(len(parts) - 1, 0, -1):
        if find_path(modules, ".".join(parts[:count])) is not None:
            return ".".join(parts[:count]), parts[count:]
    count = next((at for at, part in enumerate(parts) if at and part.lstrip("_")[:1].isupper()), len(parts) - 1)
    return ".".join(parts[:count]), parts[count:]


def _own_name(modules: Modules, path: str, module: str) -> str | None:
    """Dotted name of the module at a path, as `module` spells names; None where the two share no package."""
    where = find_path(modules, module)
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    if where is not None:
        root = where.removesuffix(".py").removesuffix("/__init__").removesuffix(module.replace(".", "/"))
        return ".".join(parts[root.count("/") :]) if path.startswith(root) else None
    top = module.split(".", 1)[0]
    folders = parts[:-1]
    if top not in folders:
        return None
    return ".".join(parts[len(folders) - 1 - folders[::-1].index(top) :])


def _imports(body: Iterable[cst.CSTNode], package: str) -> Iterable[tuple[str, str]]:
    """Names that imports bind at the top level, and what they mean."""
    for line in body:
        if not isinstance(line, cst.SimpleStatementLine):
            continue
        for small in line.body:
            if isinstance(small, cst.ImportFrom) and not isinstance(small.names, cst.ImportStar):
                source = _absolute(small, package)
                for alias in small.names:
                    yield alias.evaluated_alias or alias.evaluated_name, f"{source}.{alias.evaluated_name}"
            elif isinstance(small, cst.Import):
                for alias in small.names:
                    name = alias.evaluated_name if alias.asname is not None else alias.evaluated_name.split(".", 1)[0]
                    yield alias.evaluated_alias or name, name


def _absolute(statement: cst.ImportFrom, package: str) -> str:
    base = (statement.module and dotted(statement.module)) or ""
    level = len(statement.relative)
    if level == 0:
        return base
    parents = package.split(".")
    return ".".join([*parents[: len(parents) - level + 1], *([base] if base else [])])


def _imports_relatively(body: Iterable[cst.CSTNode]) -> bool:
    return any(
        isinstance(small, cst.ImportFrom) and small.relative
        for line in body
        if isinstance(line, cst.SimpleStatementLine)
        for small in line.body
    )


def _relative(package: str, module: str) -> str:
    here, there = package.split("."), module.split(".")
    common = 0
    while common < min(len(here), len(there)) and here[common] == there[common]:
        common += 1
    return "." * (len(here) - common + 1) + ".".join(there[common:])
