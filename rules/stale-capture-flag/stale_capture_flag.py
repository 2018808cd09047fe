"""Asks whether a stream is being captured where the answer is used, not where no capture can run yet.

The reported place is the test whose answer is kept. A suspect's values:

    flag       what keeps the answer, as the message names it
    when       when it is asked, as the message says it
    reads      JSON: the places that use the answer later, each an object with path, function and span ([start, end]);
               absent where asking there is no remedy
    keeps      [start, end] of the assignment that keeps the answer, to be removed; absent where there is none
    purpose    text that says what the object is for, to take the test's place; absent where there is no such field
    test       qualified name of the test
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from graphlint import codemod, flow
from graphlint.dependence import Called, Kept
from graphlint.edits import Applicability, Fix
from graphlint.facts import MODULE
from graphlint.findings import Finding, Precision, Step, Suspect
from graphlint.project import FunctionEntry
from graphlint.provenance import Dependences
from graphlint.source import Span
from graphlint.summaries import Analysis

_CONSTRUCTORS = frozenset(("__init__", "__post_init__", "__new__", "__attrs_post_init__", "__init_subclass__"))
_STEPS = re.compile(r"forward|__call__|step|run|execute|apply|replay|decode|prefill")
"""Names of functions that run once a step, and so may run in a capture that nobody can see."""
_FLAG = re.compile(r"captur|reserv|keep|retain|graph|hold|pin|persist")
"""Words of parameters that take the answer."""
_PURPOSE = re.compile(r"graph|captur")
"""Words of fields that say what an object is for."""
_HIGHEST = 3


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    """Answers of a capture test that are kept from a time at which no capture runs."""
    finder = _Finder(analysis)
    seen: set[tuple[str, Span]] = set()
    for suspect in finder.all():
        if (suspect.path, suspect.at) not in seen:
            seen.add((suspect.path, suspect.at))
            yield suspect


class _Finder:
    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.project = analysis.project
        self.behaviors = analysis.behaviors
        self.dependences = Dependences(analysis.behaviors)
        self.captured = {key.partition("|")[0] for key in analysis.captured}

    def all(self) -> Iterator[Suspect]:
        """Suspects in every function that asks, or that is defined with a question for a default."""
        words = self._words()
        for entry in list(self.project.functions.values()):
            if words.isdisjoint(entry.facts.words):
                continue
            for kept in self.dependences.reading(entry.name).kept:
                suspect = self._judged(entry, kept)
                if suspect is not None:
                    yield suspect

    def _words(self) -> frozenset[str]:
        """Names by which a capture is asked for, those of the project's own wrappers included."""
        words = set(self.analysis.vocabulary.names.capturing) | {"is_current_stream_capturing"}
        wrappers = {
            entry.facts.name
            for entry in list(self.project.functions.values())
            if entry.facts.qualname != MODULE
            and not words.isdisjoint(entry.facts.words)
            and self.dependences.reading(entry.name).returns.capturing
        }
        return frozenset(words | wrappers)

    def _judged(self, entry: FunctionEntry, kept: Kept) -> Suspect | None:
        if kept.how == "default":
            return self._suspect(entry, kept, "a default", "where the function is defined", Precision.HIGH, {}, ())
        if kept.how == "captured":
            return self._before(entry, kept)
        if entry.facts.qualname == MODULE:
            if kept.slot is None:
                return None
            readers = self._readers(kept.slot)
            flag = kept.slot[1]
            return self._suspect(entry, kept, flag, "when the module is imported", Precision.HIGH, {}, readers)
        if entry.name in self.captured:
            return None
        building = self._builds(entry, 0)
        if kept.how in ("attribute", "branch"):
            return self._kept_in_attribute(entry, kept, building=building)
        return self._given(entry, kept) if building else None

    def _builds(self, entry: FunctionEntry, depth: int) -> bool:
        """Whether a function runs only while an object is built."""
        if entry.facts.name in _CONSTRUCTORS:
            return True
        if entry.owner is None or depth >= _HIGHEST or not entry.facts.name.startswith("_"):
            return False
        callers = [caller for caller, _ in self._calls(entry)]
        return bool(callers) and all(
            caller.owner is not None
            and entry.owner in self.project.mro(caller.owner)
            and self._builds(caller, depth + 1)
            for caller in callers
        )

    def _calls(self, entry: FunctionEntry) -> Iterator[tuple[FunctionEntry, Called]]:
        for caller in self.behaviors.functions_with(entry.facts.name):
            if caller is entry or caller.facts.qualname == MODULE:
                continue
            for called in self.dependences.reading(caller.name).calls:
                if entry.name in called.functions:
                    yield caller, called

    # ------------------------------------------------------------------------------------------------------ the forms

    def _kept_in_attribute(self, entry: FunctionEntry, kept: Kept, *, building: bool) -> Suspect | None:
        """An answer in an attribute: of an object that is built before, or read where a capture runs."""
        slot = kept.slot
        if slot is None:
            slots = self._written_in(entry, kept)
            slot = next((each for each in slots if self._readers(each)), None)
        if slot is None:
            return None
        readers = [reader for reader in self._readers(slot) if reader[0].name != entry.name]
        if not readers or self._is_renewed(entry, slot) or self._is_context(entry):
            return None
        me = f"{entry.facts.params[0].name}." if entry.facts.params and not slot[0].startswith("mod:") else ""
        flag = f"{me}{slot[1]}"
        if building:
            values = self._moved(entry, kept, readers) if kept.how == "attribute" else {}
            precision = Precision.HIGH if not self._made_in_steps(entry) else Precision.LOW
            return self._suspect(entry, kept, flag, "when the object is built", precision, values, readers)
        in_capture = [reader for reader in readers if reader[0].name in self.captured]
        if not in_capture or not self._prepares(entry):
            return None
        values = self._moved(entry, kept, readers) if kept.how == "attribute" else {}
        return self._suspect(entry, kept, flag, "before the capture begins", Precision.MEDIUM, values, in_capture)

    def _written_in(self, entry: FunctionEntry, kept: Kept) -> list[tuple[str, str]]:
        """Attributes that a branch on the answer sets to a constant."""
        found: list[tuple[str, str]] = []
        for statement in flow.statements(entry.lowered.flow):
            if not isinstance(statement, flow.Alt) or not statement.span.contains(kept.span) or entry.owner is None:
                continue
            found += [
                (entry.owner, inner.target.name)
                for inner in flow.statements(statement.then)
                if isinstance(inner, flow.Bind) and isinstance(inner.target, flow.Attr)
            ]
        return found

    def _given(self, entry: FunctionEntry, kept: Kept) -> Suspect | None:
        """An answer that a constructor passes on, for a flag."""
        called = kept.call
        if called is None or self._made_in_steps(entry) or self._is_context(entry):
            return None
        name = self._parameter(called, kept)
        if name is None or not _FLAG.search(name):
            return None
        values: dict[str, str] = {}
        purpose = self._purpose(entry)
        if purpose is not None:
            values["purpose"] = purpose
        source = entry.module.source
        text = " ".join(source.text(kept.argument.span).split()) if kept.argument is not None else name
        flag = text if text.isidentifier() else name
        precision = Precision.HIGH if any(True for _ in self._sites(entry)) else Precision.MEDIUM
        readers = [(entry, called.expr.span)]
        return self._suspect(entry, kept, flag, "when the object is built", precision, values, readers)

    def _parameter(self, called: Called, kept: Kept) -> str | None:
        """The parameter that takes the answer, or the keyword by which it is given."""
        expr = called.expr
        for keyword, value in expr.keywords:
            if value is kept.argument:
                return keyword
        for index, value in enumerate(expr.args):
            if value is kept.argument:
                function = self.project.functions.get(called.functions[0]) if called.functions else None
                if function is None:
                    return flow.last_name(value) or None
                params = [p.name for p in function.facts.params if p.kind == "positional"]
                index += function.kind in ("method", "classmethod", "property")
                return params[index] if index < len(params) else None
        return None

    def _before(self, entry: FunctionEntry, kept: Kept) -> Suspect | None:
        """An answer that was asked before a capture's block and is used in it."""
        if kept.argument is None or kept.call is None:
            return None
        name = flow.last_name(kept.argument)
        module = entry.module.source
        reads = [{"path": module.path, "function": list(entry.facts.span), "span": list(kept.argument.span)}]
        values = {"reads": json.dumps(reads)}
        readers = [(entry, kept.call.expr.span)]
        return self._suspect(entry, kept, name, "before the capture begins", Precision.HIGH, values, readers)

    # -------------------------------------------------------------------------------------------------------- evidence

    def _readers(self, slot: tuple[str, str]) -> list[tuple[FunctionEntry, Span]]:
        """Where an attribute or a module variable is read."""
        owner, name = slot
        found: list[tuple[FunctionEntry, Span]] = []
        for entry in self.behaviors.functions_with(name):
            if entry.facts.qualname == MODULE:
                continue
            targets = {
                bind.target.span
                for bind in flow.statements(entry.lowered.flow)
                if isinstance(bind, flow.Bind) and not bind.op
            }
            for expr in flow.expressions(entry.lowered.flow):
                if expr.span in targets:
                    continue
                if owner.startswith("mod:"):
                    symbol = self.project.lookup(entry.module, name)
                    is_it = symbol is not None and symbol.name == f"{owner[4:]}.{name}"
                    if is_it and isinstance(expr, flow.Name) and expr.id == name:
                        found.append((entry, expr.span))
                elif isinstance(expr, flow.Attr) and expr.name == name and self._is_of(entry, expr, owner):
                    found.append((entry, expr.span))
        return found

    def _is_of(self, entry: FunctionEntry, expr: flow.Attr, owner: str) -> bool:
        """Whether an attribute is read of an object of a class, as far as is known."""
        types = [t.name for t in self.behaviors.typed(entry, expr.base).types]
        if not types:
            params = entry.facts.params
            is_self = bool(params) and isinstance(expr.base, flow.Name) and expr.base.id == params[0].name
            return not (is_self and entry.owner is not None and owner not in self.project.mro(entry.owner))
        return any(owner in self.project.mro(each) or each in self.project.mro(owner) for each in types)

    def _sites(self, entry: FunctionEntry) -> Iterator[FunctionEntry]:
        """Functions that make an object of the class that a function belongs to."""
        if entry.owner is None:
            return
        short = entry.owner.rpartition(".")[2]
        for caller in self.behaviors.functions_with(short):
            if any(
                isinstance(expr, flow.Call) and flow.last_name(expr) == short
                for expr in flow.expressions(caller.lowered.flow)
            ):
                yield caller

    def _is_renewed(self, entry: FunctionEntry, slot: tuple[str, str]) -> bool:
        """Whether other functions set the attribute too: it follows something, and began as what the test said."""
        owner, name = slot
        if owner not in self.project.classes:
            return False
        bound = self.behaviors.field_bindings(owner).get(name, ())
        return any(function.name != entry.name and how == "set" for function, _, how in bound)

    def _is_context(self, entry: FunctionEntry) -> bool:
        """Whether the object is made where it is used: `with Collected(...):` may well stand in a capture."""
        return entry.owner is not None and self.project.method(entry.owner, "__enter__") is not None

    def _prepares(self, entry: FunctionEntry) -> bool:
        """Whether a function that captures calls it before, and nobody calls it in a capture."""
        found = False
        for caller, called in self._calls(entry):
            if called.captured:
                return False
            found |= any(each.captured for each in self.dependences.reading(caller.name).calls)
        return found

    def _made_in_steps(self, entry: FunctionEntry) -> bool:
        """Whether the object is made in what runs once a step, which a capture may run that is not seen."""
        sites = [site for site in self._sites(entry) if site.facts.qualname != MODULE]
        if not sites:
            return False
        captures = bool(self.captured)
        return any(_STEPS.search(site.facts.name) and (site.name in self.captured or not captures) for site in sites)

    # ---------------------------------------------------------------------------------------------- for the rewrite

    def _moved(self, entry: FunctionEntry, kept: Kept, readers: Sequence[tuple[FunctionEntry, Span]]) -> dict[str, str]:
        """The reads that can ask for themselves; none where one of them runs as early, or is not known for sure."""
        binds = [
            bind
            for bind in flow.statements(entry.lowered.flow)
            if isinstance(bind, flow.Bind) and bind.span.contains(kept.span) and isinstance(bind.target, flow.Attr)
        ]
        if len(binds) != 1 or binds[0].value is None or binds[0].value.span != kept.span:
            return {}
        if any(self._builds(reader, 0) or not self._is_sure(reader, span, entry.owner) for reader, span in readers):
            return {}
        reads = [
            {"path": reader.module.source.path, "function": list(reader.facts.span), "span": list(span)}
            for reader, span in readers
        ]
        return {"reads": json.dumps(reads), "keeps": json.dumps(list(binds[0].span))}

    def _is_sure(self, entry: FunctionEntry, span: Span, owner: str | None) -> bool:
        for expr in flow.expressions(entry.lowered.flow):
            if isinstance(expr, flow.Attr) and expr.span == span:
                if any(True for _ in self.behaviors.typed(entry, expr.base).types):
                    return True
                own = [name for name in self.project.classes if self._has(name, expr.name)]
                return own == [owner]
        return False

    def _has(self, class_name: str, attribute: str) -> bool:
        return attribute in self.behaviors.field_bindings(class_name) or attribute in (
            self.project.classes[class_name].attributes
        )

    def _purpose(self, entry: FunctionEntry) -> str | None:
        """The one boolean field, or parameter, that says whether a graph will read the object."""
        if entry.owner is None or not entry.facts.params:
            return None
        me = entry.facts.params[0].name
        fields = {
            attribute.name
            for each in self.project.mro(entry.owner)
            if each in self.project.classes
            for attribute in self.project.classes[each].attributes.values()
            if _PURPOSE.search(attribute.name) and _is_bool(attribute.annotation)
        }
        if len(fields) == 1:
            return f"{me}.{fields.pop()}"
        params = [p.name for p in entry.facts.params if _PURPOSE.search(p.name) and _is_bool(p.annotation)]
        return params[0] if len(params) == 1 else None

    def _test(self, entry: FunctionEntry, kept: Kept) -> str:
        """Qualified name of the test that is asked."""
        for called in self.dependences.reading(entry.name).calls:
            if called.expr.span == kept.span and not called.expr.args:
                if called.functions and self.project.functions[called.functions[0]].owner is None:
                    return called.functions[0]
                torch = [name for name in sorted(called.names) if name.startswith("torch.")]
                if torch:
                    return torch[0]
        return "torch.cuda.is_current_stream_capturing"

    def _suspect(
        self,
        entry: FunctionEntry,
        kept: Kept,
        flag: str,
        when: str,
        precision: Precision,
        values: Mapping[str, str],
        readers: Sequence[tuple[FunctionEntry, Span]],
    ) -> Suspect:
        source = entry.module.source
        steps = [Step(source.path, kept.span, "is_capturing", f"the capture is asked for {when}: {flag}")]
        for reader, span in readers[:4]:
            text = " ".join(reader.module.source.text(span).split())
            text = text if len(text) <= 60 else f"{text[:57]}..."
            steps.append(Step(reader.module.source.path, span, "is_capturing", f"the answer is used: {text}"))
        function = entry
        while function.parent is not None and not function.parent.endswith(MODULE):
            function = self.project.functions[function.parent]
        return Suspect(
            "stale-capture-flag",
            source.path,
            function.facts.span,
            kept.span,
            tuple(steps),
            {**values, "flag": flag, "when": when, "test": self._test(entry, kept)},
            None,
            precision,
        )


def _is_bool(annotation: flow.Expr | None) -> bool:
    return isinstance(annotation, flow.Name) and annotation.id == "bool"


# ------------------------------------------------------------------------------------------------------------- rewrite


def confirm(suspect: Suspect, module: codemod.Module) -> Finding | None:
    """The finding, unless the reported place is no expression any more."""
    tree = module.tree() if suspect.function.start == 0 else module.tree(suspect.function)
    if tree.enclosing(suspect.at, codemod.cst.BaseExpression) is None:  # type: ignore[type-abstract] # any
        return None
    return codemod.confirmed(suspect, module)


def fix(finding: Finding, modules: codemod.Modules) -> Fix | None:
    """Ask at every use and keep no answer; or take the field that says what the object is for."""
    rewrites = codemod.Rewrites(modules)
    if (purpose := finding.values.get("purpose")) is not None:
        test = rewrites[finding.path].tree.node_at(finding.span, codemod.cst.BaseExpression)  # type: ignore[type-abstract]
        if test is None:
            return None
        rewrites[finding.path].replace(test, purpose)
        condition = f"whoever makes the object has to set {purpose} for every object that a graph reads"
        return Fix("say what the object is for", Applicability.UNSAFE, rewrites.edits(), (condition,))
    reads = json.loads(finding.values.get("reads", "[]"))
    if not reads or not all(_asks(finding, modules, rewrites, each) for each in reads):
        return None
    if (keeps := finding.values.get("keeps")) is not None:
        rewrite = rewrites[finding.path]
        statement = rewrite.tree.statement(Span(*json.loads(keeps)))
        if statement is None:
            return None
        rewrite.delete(statement)
    condition = "what the flag decides now also happens in the capture itself, where it never did"
    return Fix("ask for the capture where the answer is used", Applicability.UNSAFE, rewrites.edits(), (condition,))


def _asks(finding: Finding, modules: codemod.Modules, rewrites: codemod.Rewrites, read: Mapping[str, object]) -> bool:
    """Put the test in the place of one read of its answer."""
    path, span = str(read["path"]), read["span"]
    assert isinstance(span, list)
    rewrite = rewrites[path]
    node = rewrite.tree.node_at(Span(*span), codemod.cst.BaseExpression)  # type: ignore[type-abstract] # any
    function = rewrite.tree.function(node) if node is not None else None
    if node is None or function is None:
        return False
    test = codemod.reference(modules, path, finding.values["test"], codemod.uses(function))
    if test is None or test.statement is not None:
        return False
    rewrite.replace(node, f"{test.expression}()")
    return True
