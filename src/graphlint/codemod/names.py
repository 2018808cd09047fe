"""How a module can say the name of something that is defined elsewhere: a name that it has, or one more import.

Whether an import leads to a module is told by files, not by dotted names: what a folder is called from outside depends
on where the program was started, what stands beside a file does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from graphlint.codemod.layout import line_width
from graphlint.codemod.reading import Uses, dotted
from graphlint.codemod.tree import Modules, stem_of


@dataclass(frozen=True)
class Reference:
    """An expression for a qualified name, and the import that it needs, if any."""

    expression: str
    statement: str | None = None


def reference(modules: Modules, path: str, qualified: str, used: Uses, column: int = 0) -> Reference | None:
    """How a function of the module at `path` can name what has this qualified name.

    Names that the module imports at its top level are used as they are. Else one import is added, in the way in which
    the module imports from its project: relatively, or from the same root.

    Args:
        modules: of the project.
        path: of the module that holds the function.
        qualified: `package.module.Class.method`, or `self.method` for an attribute of the function's own object.
        used: what the function does with names; none of them may come to mean something else.
        column: where the import will stand.

    Returns:
        None where the name is taken in the function, or where no import can name the module.
    """
    if qualified.startswith(("self.", "cls.")):
        return Reference(qualified)
    module, attributes = _split(modules, qualified, path)
    target = find_path(modules, module, path)
    if target == path:
        return Reference(".".join(attributes)) if attributes[0] not in used.binds else None
    body = modules[path].tree().root.body
    for known in _imports(body):
        if known.alias.split(".", 1)[0] in used.binds:
            continue
        if known.name == attributes[0] and _leads_to(modules, path, known, module, target):
            return Reference(".".join((known.alias, *attributes[1:])))
        whole = known.whole
        if _leads_to(modules, path, whole, module, target):
            return Reference(".".join((known.alias, *attributes)))
        if target is None and known.level == 0 and module.startswith(f"{whole.module}."):
            # of a library: its top module is taken to bring its parts along, as `import torch` does
            return Reference(known.alias + qualified.removeprefix(whole.module))
    if attributes[0] in used.roots | used.binds:
        return None
    source = module if target is None else _spelled(modules, path, body, module, target)
    if not all(part.isidentifier() for part in source.lstrip(".").split(".") if part):
        return None  # a file or a folder that no import can name
    statement = f"from {source} import {attributes[0]}"
    if column + len(statement) > line_width(modules[path].text):
        statement = f"from {source} import (\n    {attributes[0]},\n)"
    return Reference(".".join(attributes), statement)


def find_path(modules: Modules, module: str, near: str) -> str | None:
    """The path of a module by its dotted name, the nearest to another if there are several; None if it was not read."""
    end = f"/{module.replace('.', '/')}"
    found = [path for path, known in modules.stems.items() if known.replace(".", "/").endswith(end)]  # it may be `v1.2`
    return max(found, key=lambda path: len(os.path.commonpath((stem_of(path), stem_of(near)))), default=None)


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path)).replace(os.sep, "/")


def _split(modules: Modules, qualified: str, near: str) -> tuple[str, list[str]]:
    """The module and the attributes in it: by the files that exist, else by the first word in capitals."""
    parts = qualified.split(".")
    for count in range(len(parts) - 1, 0, -1):
        if find_path(modules, ".".join(parts[:count]), near) is not None:
            return ".".join(parts[:count]), parts[count:]
    count = next((at for at, part in enumerate(parts) if at and part.lstrip("_")[:1].isupper()), len(parts) - 1)
    return ".".join(parts[:count]), parts[count:]


# --------------------------------------------------------------------------------------------- what imports lead to


@dataclass(frozen=True)
class _Import:
    """One name that an import binds: `alias` is `name` of the module, or the module itself where `name` is empty."""

    alias: str
    level: int
    module: str
    name: str = ""

    @property
    def whole(self) -> _Import:
        """The import as if it bound a module."""
        module = ".".join(filter(None, (self.module, self.name)))
        return _Import(self.alias, self.level, module)


def _imports(body: Iterable[cst.CSTNode]) -> Iterator[_Import]:
    """What imports at the top level bind; not those that only a type checker runs."""
    for line in body:
        for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(small, cst.ImportFrom) and not isinstance(small.names, cst.ImportStar):
                module = (small.module and dotted(small.module)) or ""
                for alias in small.names:
                    name = alias.evaluated_name
                    yield _Import(alias.evaluated_alias or name, len(small.relative), module, name)
            elif isinstance(small, cst.Import):
                for alias in small.names:
                    name = alias.evaluated_name
                    yield _Import(alias.evaluated_alias or name, 0, name)
                    if alias.asname is None and "." in name:
                        yield _Import(name.split(".", 1)[0], 0, name.split(".", 1)[0])


def _leads_to(modules: Modules, path: str, known: _Import, module: str, target: str | None) -> bool:
    """Whether an import of the module at `path` is from this module, or of it."""
    if target is None:
        return known.level == 0 and known.module == module
    if known.level == 0:
        return bool(known.module) and find_path(modules, known.module, path) == target
    folder = _folder(path)
    for _ in range(known.level - 1):
        folder = os.path.dirname(folder)
    return "/".join(filter(None, (folder, *known.module.split(".")))) == stem_of(target)


def _spelled(modules: Modules, path: str, body: Iterable[cst.CSTNode], module: str, target: str) -> str:
    """The module as the file at `path` imports it: relatively if it does so, and from the root that it imports from."""
    stem, folder = stem_of(target), _folder(path)
    root = stem.removesuffix(module.replace(".", "/"))
    imports = list(_imports(body))
    if any(known.level for known in imports) and f"{folder}/".startswith(f"{root}{module.split('.', 1)[0]}/"):
        here, there = folder.split("/"), stem.split("/")
        common = len(os.path.commonpath((folder, stem)).split("/"))
        return "." * (len(here) - common + 1) + ".".join(there[common:])
    for known in imports:
        if known.level or (where := find_path(modules, known.module, path)) is None:
            continue
        other = stem_of(where).removesuffix(known.module.replace(".", "/"))
        if stem.startswith(other):
            return stem.removeprefix(other).replace("/", ".")
    return module
