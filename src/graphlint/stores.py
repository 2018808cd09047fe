"""Stores that outlive a call: tables and variables of modules and classes, and of the objects that these keep.

A store that belongs to one object is nobody else's business; one that a module, a class or a lasting object holds is
met again by everybody who asks there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from graphlint import flow
from graphlint.behavior import Slot
from graphlint.facts import MODULE
from graphlint.project import FunctionEntry, Module
from graphlint.summaries import Analysis

_TABLES = frozenset(("dict", "OrderedDict", "defaultdict", "WeakValueDictionary", "UserDict", "SimpleNamespace"))
_SPELLING = frozenset(("setattr", "globals", "vars", "__dict__"))
"""What a function that makes up names of attributes mentions."""


class Stores:
    """The shared stores of a project."""

    def __init__(self, analysis: Analysis) -> None:
        self.behaviors = analysis.behaviors
        self.project = analysis.project

    def opening(self) -> list[FunctionEntry]:
        """Functions whose text can name a shared table, or set a shared variable that begins as None."""
        by_class = {name: self._tables(name) for name in self.project.classes}
        by_module = {module.name: self._variables(module) for module in self.project.modules.values()}
        reach = {name: tables for name in self.classes if (tables := by_class.get(name, frozenset()))}
        holders = {name: self.holders(name) for name in reach}

        def opens(entry: FunctionEntry) -> bool:
            mine = entry.facts.words
            tables, unset = by_module[entry.module.name]
            owned = (by_class.get(each, frozenset()) for each in self.project.mro(entry.owner)) if entry.owner else ()
            return (
                not mine.isdisjoint(tables)
                or not mine.isdisjoint(_SPELLING)
                or any(not mine.isdisjoint(each) for each in owned)
                or ("global" in mine and not mine.isdisjoint(unset))
                or any(not mine.isdisjoint(reach[name]) and not mine.isdisjoint(holders[name]) for name in reach)
            )

        functions = list(self.project.functions.values())
        return [entry for entry in functions if entry.facts.qualname != MODULE and opens(entry)]

    def _variables(self, module: Module) -> tuple[frozenset[str], frozenset[str]]:
        """Variables of a module that are tables, its own and imported ones, and its own that begin as None."""
        found: set[str] = set()
        for name, binds in module.variables.items():
            if any(_is_table(bind.value) for bind in binds):
                found.add(name)
        for name, symbol in module.scope.items():
            if symbol.kind == "import":
                head, _, last = symbol.name.rpartition(".")
                other = self.project.modules.get(head)
                if other is not None and any(_is_table(bind.value) for bind in other.variables.get(last, ())):
                    found.add(name)
        unset = {name for name, binds in module.variables.items() if any(_is_none(bind.value) for bind in binds)}
        return frozenset(found), frozenset(unset)

    def _tables(self, name: str) -> frozenset[str]:
        """Attributes of a class that are tables, or begin as None in its body; of a shared one its objects' too."""
        entry = self.project.classes[name]
        found = {each.name for each in entry.attributes.values() if _is_table(each.value) or _is_none(each.value)}
        if name in self.classes:
            found |= {
                attribute
                for attribute, bound in self.behaviors.field_bindings(name).items()
                if any(_is_table(value) and how == "set" for _, value, how in bound)
            }
        return frozenset(found)

    @cached_property
    def classes(self) -> frozenset[str]:
        """Classes of which a module or a class keeps an object for good, and of the objects that these keep."""
        found: set[str] = set()
        waiting = list(self._find_shared())
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            for attribute, bound in self.behaviors.field_bindings(name).items():
                if any(isinstance(value, flow.Call) and how == "set" for _, value, how in bound):
                    types = self.behaviors.field_types(name, attribute)
                    waiting += self._classes(t.name for t in types if t.name in self.project.classes)
        return frozenset(found)

    def _values(self, slot: Slot) -> Iterator[flow.Expr | None]:
        """What the body of a class or a module gives an attribute or a variable of it."""
        owner, name = slot
        module = self.project.modules.get(owner[4:]) if owner.startswith("mod:") else None
        yield from (bind.value for bind in module.variables.get(name, ())) if module is not None else ()
        entry = self.project.classes.get(owner)
        if entry is not None and name in entry.attributes:
            yield entry.attributes[name].value

    def _find_shared(self) -> Iterator[str]:
        behaviors = self.behaviors
        for module in self.project.modules.values():
            for name, binds in module.variables.items():
                if any(isinstance(bind.value, flow.Call) and not _is_roll(bind.value) for bind in binds):
                    yield from self._classes(t.name for t in behaviors.variable_types(f"{module.name}.{name}"))
        for (owner, name), notes in list(behaviors.slots.items()):
            classes = list(self._classes(notes.types))
            if not classes or any(map(_is_roll, self._values((owner, name)))):
                continue
            if owner.startswith("mod:"):
                if self._is_made_for(owner[4:], name):
                    yield from classes
            elif behaviors.is_shared(owner, name) is not None:
                yield from classes
        for entry in self.project.classes.values():
            for attribute in entry.attributes.values():
                if (
                    isinstance(attribute.value, flow.Call)
                    and not _is_roll(attribute.value)
                    and behaviors.is_shared(entry.name, attribute.name) is not None
                ):
                    yield from self._classes(t.name for t in behaviors.field_types(entry.name, attribute.name))
            if any("Singleton" in (self.project.dotted(entry.module, base) or "") for base in entry.facts.bases):
                yield entry.name
        for function in list(self.project.functions.values()):
            if not function.facts.params and any(
                flow.last_name(d) in ("cache", "lru_cache") for d in function.facts.decorators
            ):
                yield from self._classes(t.name for t in behaviors.return_value(function.name).types)

    def _is_made_for(self, module: str, variable: str) -> bool:
        """Whether some function makes what a module variable keeps, so that it is no context that comes and goes."""
        for entry in self.behaviors.functions_with(variable):
            if entry.module.name != module or entry.facts.qualname == MODULE or variable not in entry.lowered.globals:
                continue
            for statement in flow.statements(entry.lowered.flow):
                match statement:
                    case flow.Bind(target=flow.Name(id=name), value=flow.Call()) if name == variable:
                        return True
        return False

    def _classes(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            if name in self.project.classes:
                yield from (each for each in self.project.mro(name) if each in self.project.classes)

    def holders(self, owner: str) -> frozenset[str]:
        """Module variables and functions that give an instance of a class."""
        found: set[str] = set()
        for module in self.project.modules.values():
            for name, binds in module.variables.items():
                if any(isinstance(bind.value, flow.Call) for bind in binds):
                    types = self.behaviors.variable_types(f"{module.name}.{name}")
                    if any(owner in self.project.mro(t.name) for t in types):
                        found.add(name)
        for (holder, name), notes in list(self.behaviors.slots.items()):
            if holder.startswith("mod:") and any(owner in self.project.mro(t) for t in notes.types):
                found.add(name)
        home = owner.rpartition(".")[0]
        for function in list(self.project.functions.values()):
            if function.module.name != home or function.owner is not None or function.facts.qualname == MODULE:
                continue
            if any(owner in self.project.mro(t.name) for t in self.behaviors.return_value(function.name).types):
                found.add(function.facts.name)
        return frozenset(found)


def _is_roll(value: flow.Expr | None) -> bool:
    """Whether it only lists the objects that there are: nobody finds one of them there by a name."""
    return isinstance(value, flow.Call) and flow.last_name(value) == "WeakSet"


def _is_table(value: flow.Expr | None) -> bool:
    match value:
        case flow.Group(kind="dict"):
            return True
        case flow.Call(callee=callee, keywords=keywords):
            made = dict(keywords).get("default_factory")
            return flow.last_name(callee) in _TABLES or (isinstance(made, flow.Name) and made.id in _TABLES)
    return False


def _is_none(value: flow.Expr | None) -> bool:
    return isinstance(value, flow.Lit) and value.value is None
