"""Attributes whose names are put together: an object, a class or a module that `getattr` and `setattr` use as a table."""

from __future__ import annotations

from graphlint import flow
from graphlint.answers import Answers
from graphlint.dependence import NOTHING, Dependent, Held, Ingredient, Look, Put, lossy
from graphlint.flow import Expr
from graphlint.source import Span

_NAMESPACE = "__dict__"


class Spelled(Answers):
    """The part of a function's reading that knows what lies under a name that is put together."""

    def spelled(self, expr: flow.Call) -> Dependent | None:
        """What a call gives that reads or sets an attribute by such a name, or all of them; None for any other call."""
        match expr:
            case flow.Call(callee=flow.Name(id="getattr" | "hasattr" | "setattr" as how), args=(owner, key, *rest)) if (
                not isinstance(key, flow.Lit) and how not in self.env
            ):
                table, name = self.namespace(owner), self.value(key)
                if table is None or name.literal is not ...:
                    return None
                given = self.value(rest[0]) if rest else NOTHING
                if how == "setattr":
                    for each in table.held:
                        there = each._replace(key=each.key | name.sources, keyed=True)
                        self.put(there, "set", given, expr.span, key)
                    return Dependent(literal=None)
                found = frozenset(self.look(each, name.sources, expr.span, key) for each in table.held)
                if how == "hasattr":
                    return Dependent(sources=lossy(self.text(expr), name.sources))
                return Dependent(sources=table.sources | name.sources, held=found, memory=given.memory)
            case flow.Call(callee=flow.Name(id="vars"), args=(owner,)) if "vars" not in self.env:
                return self.namespace(owner)
            case flow.Call(callee=flow.Name(id="globals"), args=()) if "globals" not in self.env:
                return Dependent(held=frozenset((Held((f"mod:{self.module.name}", "globals()"), "module"),)))
        return None

    def namespace(self, owner: Expr) -> Dependent | None:
        """The attributes of an object, a class or a module as a table; None where it is not known what it is."""
        value = self.value(owner)
        named = sorted(value.names)
        for dotted in named if not value.held else ():
            if dotted in self.project.classes:
                return Dependent(held=frozenset((Held((f"class:{dotted}", _NAMESPACE), "class"),)))
            if dotted in self.project.modules:
                return Dependent(held=frozenset((Held((f"mod:{dotted}", "globals()"), "module"),)))
        if value.place is None:
            shared = frozenset(
                each for each in value.held if each.kind != "instance" and not each.keyed and not each.derived
            )
            return Dependent(sources=value.sources, held=shared) if shared else None
        owners = self.owners(value) if "setattr" in self.entry.facts.words else []
        if not owners:
            return None
        held = Held((owners[0], _NAMESPACE), "instance", frozenset((value.place,)))
        return Dependent(sources=value.sources, held=frozenset((held,)))

    def put(
        self, held: Held, how: str, value: Dependent, span: Span, key: Expr | None = None, *, is_field: bool = False
    ) -> None:
        if self.quiet or held.derived:
            return
        every = frozenset(ask for guard in self.guards for ask in guard)
        asks = frozenset(ask for ask in every if ask.slot == held.slot)
        asks |= frozenset(ask._replace(exact=False) for ask in value.chosen - every)
        compared = frozenset(source for ask in every for source in ask.sources if ask.slot != held.slot)
        self.result.puts.append(
            Put(held, how, value.memory, value, asks, span, self.entry.name, value.sources, key, compared, is_field)
        )

    def look(self, held: Held, key: frozenset[Ingredient], span: Span, expr: Expr | None = None) -> Held:
        found = held._replace(key=held.key | key, keyed=True)
        if not self.quiet and not held.derived:
            self.result.looks.append(Look(found, span, self.entry.name, expr, self.eager))
        return found
