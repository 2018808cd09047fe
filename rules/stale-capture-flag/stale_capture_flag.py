"""Asks whether a stream is being captured where the answer is used, not where no capture can run yet.

The reported place is the test whose answer is kept. A suspect's values:

    flag       what keeps the answer, as the message names it
    when       when it is asked, as the message says it
    reads      JSON: the places that use the answer later, each an object with path and span ([start, end]);
               absent where asking there is no remedy
    keeps      [start, end] of the assignment that keeps the answer, to be removed; absent where there is none
    form       what a use becomes, with `{use}` for what it is and `{test}` for the test; absent: the test alone
    rest       [start, end] of the assignment's value, an `and` or `or` whose first part stays; absent where the whole
               assignment goes
    purpose    text that says what the object is for, to take the test's place: a field, or True where it is made for the
               capture in the same function; absent where nothing says so
    test       qualified name of the test
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from graphlint import behavior as b
from graphlint import codemod, flow
from graphlint.dependence import Called, Kept
from graphlint.edits import Applicability, Fix
from graphlint.effects import Effect
from graphlint.facts import MODULE, Attribute
from graphlint.findings import Finding, Precision, Step, Suspect
from graphlint.project import FunctionEntry
from graphlint.provenance import Dependences
from graphlint.source import Span
from graphlint.summaries import Analysis

_CONSTRUCTORS = frozenset(("__init__", "__post_init__", "__new__", "__attrs_post_init__", "__init_subclass__"))
_FLAG = re.compile(r"captur|reserv|keep|retain|graph|hold|pin|persist")
"""Words of parameters of functions that are not among the files, and that take the answer."""
_TELLS = frozenset(("debug", "info", "warning", "error", "exception", "log", "print", "bool", "str", "repr", "format"))
"""Calls that only pass on, in words, what they are told."""
_ADDS = frozenset(("append", "add", "insert", "setdefault", "appendleft"))
_PURPOSE = re.compile(r"graph|captur")
"""Words of fields that say what an object is for."""
_HIGHEST = 3
_MOST_CALLERS = 24
_BUILT, _BEFORE = "when the object is built", "before the capture begins"


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
            parent = self.project.functions[entry.parent] if entry.parent is not None else entry
            if words.isdisjoint(entry.facts.words) and words.isdisjoint(parent.facts.words):
                continue
            found = self.dependences.reading(entry.name)
            for kept in found.kept:
                suspect = self._judged(entry, kept)
                if suspect is not None:
                    yield suspect
            if entry.memo is not None and (found.returns.capturing or found.returns.eager):
                yield from self._remembered(entry)
        modules = {m.name for m in self.project.modules.values() if any(w.encode() in m.source.content for w in words)}
        for owner, each in self.project.classes.items():
            if each.module.name in modules:
                yield from self._in_class(owner)

    def _words(self) -> frozenset[str]:
        """Names by which a capture is asked for, those of the project's own wrappers included."""
        words = set(self.analysis.vocabulary.names.capturing) | {"is_current_stream_capturing"}
        new = frozenset(words)
        for _ in range(_HIGHEST):
            new = frozenset(self._wrappers(new)) - words
            words |= new
        return frozenset(words)

    def _wrappers(self, words: frozenset[str]) -> Iterator[str]:
        """Names of functions that ask by one of these names and give the answer."""
        for entry in list(self.project.functions.values()) if words else ():
            if entry.facts.qualname != MODULE and not words.isdisjoint(entry.facts.words):
                returns = self.dependences.reading(entry.name).returns
                if returns.capturing or returns.eager:
                    yield entry.facts.name

    def _judged(self, entry: FunctionEntry, kept: Kept) -> Suspect | None:
        if kept.how == "default":
            return self._suspect(entry, kept, "a default", "where the function is defined", Precision.HIGH, {}, ())
        if kept.how == "captured":
            return self._before(entry, kept)
        if kept.how == "closure":
            return self._enclosed(entry, kept)
        if entry.facts.qualname == MODULE:
            if kept.slot is None:
                return None
            readers = self._readers(kept.slot)
            flag = kept.slot[1]
            return self._suspect(entry, kept, flag, "when the module is imported", Precision.HIGH, {}, readers)
        if entry.name in self.captured:
            return None
        if kept.how == "made":
            return self._made_before(entry, kept)
        if kept.how in ("attribute", "branch"):
            return self._kept_in_attribute(entry, kept)
        if self._flag(kept) is None:
            return None
        return self._given(entry, kept) if self._builds(entry, 0) else self._given_before(entry, kept)

    def _builds(self, entry: FunctionEntry, depth: int) -> bool:
        """Whether a function runs only while an object is built."""
        if entry.facts.name in _CONSTRUCTORS:
            return True
        if entry.owner is None or depth >= _HIGHEST:
            return False
        callers = [caller for caller, _ in self._calls(entry)]
        return bool(callers) and all(
            caller.owner is not None
            and entry.owner in self.project.mro(caller.owner)
            and self._builds(caller, depth + 1)
            for caller in callers
        )

    def _is_common(self, entry: FunctionEntry) -> bool:
        """Whether so many functions speak of a name that it says nothing of who is meant."""
        return len(self.behaviors.functions_with(entry.facts.name)) > _MOST_CALLERS

    def _calls(self, entry: FunctionEntry) -> Iterator[tuple[FunctionEntry, Called]]:
        if self._is_common(entry):
            return
        for caller in self.behaviors.functions_with(entry.facts.name):
            if caller is entry or caller.facts.qualname == MODULE:
                continue
            for called in self.dependences.reading(caller.name).calls:
                if entry.name in called.functions:
                    yield caller, called

    # ------------------------------------------------------------------------------------------------------ the forms

    def _kept_in_attribute(self, entry: FunctionEntry, kept: Kept) -> Suspect | None:
        """An answer in an attribute: of an object that is built before, or read where a capture runs."""
        slot = kept.slot
        if slot is None:
            slots = self._written_in(entry, kept)
            slot = next((each for each in slots if self._readers(each)), None)
        if slot is None:
            return None
        readers = [reader for reader in self._readers(slot) if reader[0].name != entry.name]
        if not readers or self._is_renewed(entry, slot) or self._is_context(entry.owner):
            return None
        me = f"{entry.facts.params[0].name}." if entry.facts.params and not slot[0].startswith("mod:") else ""
        flag = f"{me}{slot[1]}"
        if self._builds(entry, 0):
            values = self._moved(entry, kept, readers) if kept.how == "attribute" else {}
            precision = Precision.HIGH if not self._made_in_steps(entry.owner) else Precision.LOW
            return self._suspect(entry, kept, flag, _BUILT, precision, values, readers)
        in_capture = [reader for reader in readers if self._is_in_block(*reader)]
        if not in_capture or not self._runs_before(entry, kept.span, 0):
            return None
        values = self._moved(entry, kept, readers) if kept.how == "attribute" else {}
        return self._suspect(entry, kept, flag, _BEFORE, Precision.MEDIUM, values, in_capture)

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
        called, flag = kept.call, self._flag(kept)
        if called is None or flag is None or self._made_in_steps(entry.owner) or self._is_context(entry.owner):
            return None
        values: dict[str, str] = {}
        purpose = self._purpose(entry)
        if purpose is not None:
            values["purpose"] = purpose
        precision = Precision.HIGH if any(True for _ in self._sites(entry.owner)) else Precision.MEDIUM
        return self._suspect(entry, kept, flag, _BUILT, precision, values, [(entry, called.expr.span)])

    def _given_before(self, entry: FunctionEntry, kept: Kept) -> Suspect | None:
        """An answer that goes into something which is made before a capture's block and used in it."""
        called, flag = kept.call, self._flag(kept)
        if called is None or flag is None:
            return None
        users = list(self._used_in_block(entry, called.expr.span, 0))
        if not users:
            return None
        readers = [(entry, called.expr.span), *users]
        values = {"purpose": "True"} if any(user is entry for user, _ in users) else {}
        return self._suspect(entry, kept, flag, _BEFORE, Precision.MEDIUM, values, readers)

    def _made_before(self, entry: FunctionEntry, kept: Kept) -> Suspect | None:
        """An answer in a dictionary, a tuple or a list that a capture's block uses."""
        users = list(self._used_in_block(entry, kept.span, 0))
        targets = (flow.last_name(target) for target in self._targets_of(entry, kept.span))
        name = next(targets, f"what {entry.facts.name} gives")
        if not users or not name:
            return None
        return self._suspect(entry, kept, f"the flag in {name}", _BEFORE, Precision.MEDIUM, {}, users)

    def _flag(self, kept: Kept) -> str | None:
        """What takes the answer, as the message names it; None where nothing but a refusal hangs on it."""
        called, argument = kept.call, kept.argument
        if called is None or argument is None:
            return None
        text = argument.id if isinstance(argument, flow.Name) else ""
        taker = self._taker(called)
        if taker is None:  # nobody knows what it does with it: its words say
            name = next((k for k, v in called.expr.keywords if v is argument), None) or flow.last_name(argument)
            return (text or self._label(called, name, argument)) if _FLAG.search(name) else None
        parameter = self._parameter(taker, called, argument)
        if parameter is None or not (taker in self.project.classes or self._decides(taker, parameter, 0)):
            return None
        if taker in self.project.classes and not self._readers((taker, parameter)):
            return None
        return text or parameter

    @staticmethod
    def _label(called: Called, name: str, argument: flow.Expr) -> str:
        return f"the flag for {flow.last_name(called.expr)}" if name == flow.last_name(argument) else name

    def _taker(self, called: Called) -> str | None:
        """The function of the project that is called, or the class without a constructor of its own."""
        if called.functions:
            return called.functions[0]
        if "functools.partial" in called.names and called.args:
            return next(iter(called.args[0].calls), None)
        owner = next((name for name in sorted(called.names) if name in self.project.classes), None)
        if owner is not None:
            return self.project.method(owner, "__init__") or owner
        sole = self.project.sole_method(flow.last_name(called.expr)) if not called.names else None
        return sole[1] if sole is not None and isinstance(called.expr.callee, flow.Attr) else None

    def _parameter(self, taker: str, called: Called, argument: flow.Expr) -> str | None:
        """The parameter that takes an argument, or the field."""
        keyword = next((k for k, v in called.expr.keywords if v is argument), None)
        if keyword is not None or argument not in called.expr.args:
            return keyword
        index = called.expr.args.index(argument) - ("functools.partial" in called.names)
        if taker in self.project.classes:
            names = list(self.project.classes[taker].attributes)
        else:
            function = self.project.functions[taker]
            names = [p.name for p in function.facts.params if p.kind == "positional"]
            index += function.kind in ("method", "classmethod", "property")
        return names[index] if index < len(names) else None

    def _decides(self, function: str, name: str, depth: int) -> bool:
        """Whether something other than a refusal hangs on a parameter: it is tested, kept, or passed on to who does."""
        entry = self.project.functions[function]

        def named(expr: flow.Expr | None) -> bool:
            if expr is None:
                return False
            return (isinstance(expr, flow.Name) and expr.id == name) or any(map(named, flow.subexpressions(expr)))

        for each in flow.statements(entry.lowered.flow):
            match each:
                case flow.Alt(test=test, then=then, other=other) if named(test):
                    if any(side != flow.NOTHING and not _refuses(side) for side in (then, other)):
                        return True
                case flow.Bind(target=flow.Attr() | flow.Item(), value=value) if named(value):
                    return True
        if any(isinstance(expr, flow.Choice) and named(expr.test) for expr in flow.expressions(entry.lowered.flow)):
            return True
        for called in self.dependences.reading(function).calls:
            given = [e for e in (*called.expr.args, *(v for _, v in called.expr.keywords)) if named(e)]
            if not given or flow.last_name(called.expr) in _TELLS:
                continue
            taker = self._taker(called)
            if taker is None or taker in self.project.classes or depth >= _HIGHEST:
                return True
            inner = (self._parameter(taker, called, expr) for expr in given)
            if any(each is not None and self._decides(taker, each, depth + 1) for each in inner):
                return True
        return False

    def _used_in_block(self, entry: FunctionEntry, span: Span, depth: int) -> Iterator[tuple[FunctionEntry, Span]]:
        """Where the block of a capture uses what an expression gives, in this function or in one that calls it."""
        for target in self._targets_of(entry, span):
            name = flow.last_name(target)
            if isinstance(target, flow.Attr) and entry.owner is not None:
                yield from (reader for reader in self._readers((entry.owner, name)) if self._is_in_block(*reader))
                continue
            if (shared := self._variable(entry, target)) is not None:
                yield from (reader for reader in self._readers(shared) if self._is_in_block(*reader))
                continue
            yield from self._recorded(entry, target)
            for block in self._blocks(entry):
                if _within(block, span):
                    continue
                yield from (
                    (entry, expr.span)
                    for expr in flow.expressions(block.body)
                    if isinstance(expr, flow.Name) and expr.id == name
                )
        yield from (reader for reader in self._handed_on(entry, span) if self._is_in_block(*reader))
        if depth < _HIGHEST and entry.name not in self.captured and entry.facts.name not in _CONSTRUCTORS:
            for caller, called in self._calls(entry):
                if not called.captured:
                    yield from self._used_in_block(caller, called.expr.span, depth + 1)

    def _handed_on(self, entry: FunctionEntry, span: Span) -> Iterator[tuple[FunctionEntry, Span]]:
        """Readers of the module's variable into which a function that is called puts what it is given."""
        for called in self.dependences.reading(entry.name).calls:
            for argument in (*called.expr.args, *(value for _, value in called.expr.keywords)):
                if called.captured or not argument.span.contains(span):
                    continue
                for name in called.functions:
                    function = self.project.functions[name]
                    param = self._parameter(name, called, argument)
                    for bind in flow.statements(function.lowered.flow):
                        if isinstance(bind, flow.Bind) and isinstance(bind.value, flow.Name) and bind.value.id == param:
                            shared = self._variable(function, bind.target)
                            yield from self._readers(shared) if shared is not None else ()

    def _variable(self, entry: FunctionEntry, target: flow.Expr) -> tuple[str, str] | None:
        """The variable of the module that a function gives something to, itself or in an attribute."""
        while isinstance(target, flow.Attr):
            target = target.base
        if not isinstance(target, flow.Name) or target.id not in entry.module.variables:
            return None
        is_local = target.id not in entry.lowered.globals and any(
            isinstance(bind, flow.Bind) and isinstance(bind.target, flow.Name) and bind.target.id == target.id
            for bind in flow.statements(entry.lowered.flow)
        )
        return None if is_local else (f"mod:{entry.module.name}", target.id)

    def _recorded(self, entry: FunctionEntry, given: flow.Expr) -> Iterator[tuple[FunctionEntry, Span]]:
        """Where a function gives something to another one that uses it in the block of a capture."""
        for called in self.dependences.reading(entry.name).calls:
            for argument in (*called.expr.args, *(value for _, value in called.expr.keywords)):
                same = isinstance(given, flow.Name) and isinstance(argument, flow.Name) and argument.id == given.id
                if not same and argument is not given:
                    continue
                for name in called.functions:
                    function = self.project.functions[name]
                    param = self._parameter(name, called, argument)
                    used = (e for block in self._blocks(function) for e in flow.expressions(block.body))
                    if any(isinstance(e, flow.Name) and e.id == param for e in used):
                        yield entry, argument.span

    def _is_in_block(self, entry: FunctionEntry, span: Span) -> bool:
        """Whether an expression runs in a capture."""
        return entry.name in self.captured or any(_within(block, span) for block in self._blocks(entry))

    def _targets_of(self, entry: FunctionEntry, span: Span) -> Iterator[flow.Name | flow.Attr]:
        """Variables and attributes that a function gives a value which an expression is part of, or puts it into."""
        for bind in flow.statements(entry.lowered.flow):
            if isinstance(bind, flow.Scope) and isinstance(bind.target, flow.Name) and bind.context.span.contains(span):
                yield bind.target
            if isinstance(bind, flow.Bind) and bind.value is not None and bind.span.contains(span):
                target = bind.target
                while isinstance(target, flow.Item):
                    target = target.base
                if isinstance(target, flow.Name | flow.Attr):
                    yield target
            if isinstance(bind, flow.Eval | flow.Bind) and isinstance(bind.value, flow.Call):  # a context variable's
                call = bind.value
                if flow.last_name(call) == "set" and isinstance(call.callee, flow.Attr) and call.span.contains(span):
                    if isinstance(call.callee.base, flow.Name) and call.span != span:
                        yield call.callee.base

    def _blocks(self, entry: FunctionEntry) -> Iterator[flow.Scope]:
        """The blocks of captures in a function."""
        built = self.behaviors.built(entry.name)
        begun = [
            node.span
            for node in (b.walk(built.node) if built is not None else ())
            if isinstance(node, b.Happens) and node.effect is Effect.CAPTURE
        ]
        for scope in flow.statements(entry.lowered.flow) if begun else ():
            if isinstance(scope, flow.Scope) and any(scope.context.span.contains(span) for span in begun):
                yield scope
            elif isinstance(scope, flow.Seq):
                yield from _between(scope)

    def _enclosed(self, entry: FunctionEntry, kept: Kept) -> Suspect | None:
        """An answer in a variable of the function that makes another one, which runs later."""
        parent = self.project.functions[entry.parent] if entry.parent is not None else None
        if parent is None or kept.argument is None or parent.name in self.captured:
            return None
        if entry.name not in self.captured:
            flag = self._flag(kept) if self._builds(parent, 0) and _only_calls(parent, entry) else None
            reader = (entry, kept.argument.span)
            return self._suspect(parent, kept, flag, _BUILT, Precision.MEDIUM, {}, [reader]) if flag else None
        name = flow.last_name(kept.argument)
        when = f"when {entry.facts.name.partition('@')[0]} is made"
        return self._suspect(parent, kept, name, when, Precision.MEDIUM, {}, [(entry, kept.argument.span)])

    def _remembered(self, entry: FunctionEntry) -> Iterator[Suspect]:
        """An answer that a decorator keeps."""
        asked = (each for each in self.dependences.reading(entry.name).calls if not each.expr.args)
        spans = (e.expr.span for e in asked if self.dependences.value(entry.name, e.expr).capturing)
        span = next(spans, None)
        if entry.memo == "property" and entry.owner is not None:
            readers = self._readers((entry.owner, entry.facts.name))
            flag = f"{entry.facts.params[0].name}.{entry.facts.name}"
        else:
            readers = [(caller, called.expr.span) for caller, called in self._calls(entry)]
            flag = f"{entry.facts.name}()"
        if span is not None and readers:
            when = "once and remembered"
            yield self._suspect(entry, Kept("memo", span), flag, when, Precision.MEDIUM, {}, readers)

    def _in_class(self, owner: str) -> Iterator[Suspect]:
        """An answer that a class's body asks for: once for all objects, or for each as it is built."""
        each = self.project.classes[owner]
        body = f"{each.module.name}.{MODULE}"
        for attribute in each.attributes.values():
            value = attribute.value
            if value is None or body not in self.project.functions:
                continue
            factory = next((v for k, v in value.keywords if k == "default_factory"), None) if _is_field(value) else None
            if factory is not None:
                made = flow.Call(factory, (), (), factory.span)
                if not self._asks(body, made) or any(site.name in self.captured for site in self._sites(owner)):
                    continue
                when, precision = _BUILT, Precision.LOW if self._made_in_steps(owner) else Precision.HIGH
                asked = factory.span
            elif self._asks(body, value):
                when, precision, asked = "when the class is defined", Precision.HIGH, value.span
            else:
                continue
            readers = self._readers((owner, attribute.name))
            if readers:
                entry = self.project.functions[body]
                kept = Kept("class", asked)
                yield self._suspect(entry, kept, attribute.name, when, precision, {}, readers, each.facts.span)

    def _asks(self, function: str, expr: flow.Expr) -> bool:
        value = self.dependences.value(function, expr)
        return value.capturing or value.eager

    def _before(self, entry: FunctionEntry, kept: Kept) -> Suspect | None:
        """An answer that was asked before a capture's block and is used in it."""
        if not isinstance(kept.argument, flow.Name):
            return None
        path, name = entry.module.source.path, kept.argument.id
        early = [
            each.argument.span
            for each in self.dependences.reading(entry.name).kept
            if each.how == "captured" and each.span == kept.span and each.argument is not None
        ]
        reads = [{"path": path, "span": list(span)} for span in dict.fromkeys(early)]
        values = {"reads": json.dumps(reads)}
        binds = [
            each
            for each in flow.statements(entry.lowered.flow)
            if isinstance(each, flow.Bind) and isinstance(each.target, flow.Name) and each.target.id == name
        ]
        everywhere = {e.span for e in flow.expressions(entry.lowered.flow) if isinstance(e, flow.Name) and e.id == name}
        if len(binds) == 1 and binds[0].value is not None:
            if binds[0].value.span != kept.span:
                values = {}
            elif everywhere == {binds[0].target.span, *early}:
                values["keeps"] = json.dumps(list(binds[0].span))
        else:
            values = {}
        readers = [(entry, span) for span in dict.fromkeys(early)]
        return self._suspect(entry, kept, name, _BEFORE, Precision.HIGH, values, readers)

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

    def _sites(self, owner: str | None) -> Iterator[FunctionEntry]:
        """Functions that make an object of a class."""
        if owner is None:
            return
        short = owner.rpartition(".")[2]
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
        others = (each for each, _, how in bound if each.name != entry.name and how == "set")
        return any(each.facts.name not in _CONSTRUCTORS for each in others)

    def _is_context(self, owner: str | None) -> bool:
        """Whether the object is made where it is used: `with Collected(...):` may well stand in a capture."""
        return owner is not None and self.project.method(owner, "__enter__") is not None

    def _runs_before(self, entry: FunctionEntry, span: Span, depth: int) -> bool:
        """Whether what stands in a function runs before captures, and nobody runs it in one.

        That is in front of a block of its own or of one of its callers, while an object is built, or in a method that nobody
        calls, beside one that captures.
        """
        blocks = list(self._blocks(entry))
        if blocks:
            return not any(_within(block, span) for block in blocks)
        calls = list(self._calls(entry))
        if any(called.captured or caller.name in self.captured for caller, called in calls):
            return False
        if not calls:
            siblings = () if self._is_common(entry) else self._siblings(entry)
            return any(True for each in siblings for _ in self._blocks(each))
        return depth < _HIGHEST and any(
            self._builds(caller, 0) or self._runs_before(caller, called.expr.span, depth + 1)
            for caller, called in calls
        )

    def _siblings(self, entry: FunctionEntry) -> Iterator[FunctionEntry]:
        """The methods of a function's class."""
        owner = self.project.classes.get(entry.owner) if entry.owner is not None else None
        return (self.project.functions[name] for name in (owner.methods.values() if owner is not None else ()))

    def _made_in_steps(self, owner: str | None) -> bool:
        """Whether everybody who makes an object makes it for one call, which may well run in a capture."""
        sites = [site for site in self._sites(owner) if site.facts.qualname != MODULE]
        return bool(sites) and all(self._is_for_one_call(site, owner) for site in sites)

    def _is_for_one_call(self, site: FunctionEntry, owner: str | None) -> bool:
        """Whether what a function makes of a class is nobody else's when it ends, and not used in a capture of its own."""
        short = (owner or "").rpartition(".")[2]
        for each in flow.statements(site.lowered.flow):
            match each:
                case flow.Bind(target=flow.Attr() | flow.Item(), value=value) if value is not None:
                    kept = _makes(value, short)
                case flow.Bind(value=value, span=span) if value is not None and _makes(value, short):
                    kept = any(True for _ in self._used_in_block(site, span, _HIGHEST))
                case flow.Exit(kind="return", value=value) if value is not None:
                    kept = _makes(value, short) and flow.last_name(value) == short
                case flow.Eval(value=flow.Call(callee=flow.Attr(name=name)) as call):
                    kept = name in _ADDS and _makes(call, short)
                case _:
                    kept = False
            if kept:
                return False
        made = (e for e in flow.expressions(site.lowered.flow) if isinstance(e, flow.Call) and _makes(e, short))
        return not any(flow.last_name(e) == short and any(True for _ in self._recorded(site, e)) for e in made)

    # ---------------------------------------------------------------------------------------------- for the rewrite

    def _moved(self, entry: FunctionEntry, kept: Kept, readers: Sequence[tuple[FunctionEntry, Span]]) -> dict[str, str]:
        """The reads that can ask for themselves; none where one of them runs as early, or is not known for sure."""
        binds = [
            bind
            for bind in flow.statements(entry.lowered.flow)
            if isinstance(bind, flow.Bind) and bind.span.contains(kept.span) and isinstance(bind.target, flow.Attr)
        ]
        if len(binds) != 1 or binds[0].value is None:
            return {}
        parted = _parted(binds[0].value, kept.span)
        if parted is None:
            return {}
        if any(self._builds(reader, 0) or not self._is_sure(reader, span, entry.owner) for reader, span in readers):
            return {}
        declared = self._declared(entry.owner, binds[0].target)
        if declared is not None and not _has_default(declared.value):
            return {}  # a field that nobody sets fails where the object is printed or compared
        own = [expr for expr in flow.expressions(entry.lowered.flow) if isinstance(expr, flow.Attr)]
        if any(expr.name == flow.last_name(binds[0].target) and expr.span != binds[0].target.span for expr in own):
            return {}
        reads = [{"path": reader.module.source.path, "span": list(span)} for reader, span in readers]
        values = {"reads": json.dumps(reads), "form": parted}
        if "{use}" in parted:
            return {**values, "rest": json.dumps(list(binds[0].value.span))}
        return {**values, "keeps": json.dumps(list(binds[0].span))}

    def _declared(self, owner: str | None, target: flow.Expr) -> Attribute | None:
        """An attribute as a class's body declares it."""
        classes = (self.project.classes.get(each) for each in self.project.mro(owner or ""))
        found = (each.attributes.get(flow.last_name(target)) for each in classes if each is not None)
        return next((each for each in found if each is not None), None)

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
        found = {
            attribute.name: f"{me}.{attribute.name}"
            for each in self.project.mro(entry.owner)
            if each in self.project.classes
            for attribute in self.project.classes[each].attributes.values()
            if _is_bool(attribute.annotation)
        } or {p.name: p.name for p in entry.facts.params if _is_bool(p.annotation)}
        given = self._set_for_captures(entry.owner) & found.keys()
        names = given or {name for name in found if _PURPOSE.search(name)}
        return found[names.pop()] if len(names) == 1 else None

    def _set_for_captures(self, owner: str) -> set[str]:
        """Keywords that are true for the objects of a class which functions with a capture make."""
        short = owner.rpartition(".")[2]
        return {
            name
            for site in self._sites(owner)
            if any(True for _ in self._blocks(site))
            for expr in flow.expressions(site.lowered.flow)
            if isinstance(expr, flow.Call) and flow.last_name(expr) == short
            for name, value in expr.keywords
            if name is not None and isinstance(value, flow.Lit) and value.value is True
        }

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
        within: Span | None = None,
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
            within or function.facts.span,
            kept.span,
            tuple(steps),
            {**values, "flag": flag, "when": when, "test": self._test(entry, kept)},
            None,
            precision,
        )


def _only_calls(parent: FunctionEntry, nested: FunctionEntry) -> bool:
    """Whether a function calls one that it defines, and hands it to nobody who could call it later."""
    name = nested.facts.name.partition("@")[0]
    named = [expr for expr in flow.expressions(parent.lowered.flow) if isinstance(expr, flow.Name) and expr.id == name]
    called = {call.callee.span for call in parent.calls} | {nested.facts.span}
    return len(named) > 1 and all(expr.span in called for expr in named)


def _between(body: flow.Seq) -> Iterator[flow.Scope]:
    """What stands between a graph's `capture_begin` and its `capture_end`, as the block of that call."""
    for at, first in enumerate(body.items):
        begin = _called(first, "capture_begin")
        if begin is None:
            continue
        inside: list[flow.Flow] = []
        for item in body.items[at + 1 :]:
            if isinstance(item, flow.Try) and any(_called(each, "capture_end") for each in flow.statements(item.final)):
                inside.append(item.body)
                break
            if _called(item, "capture_end") is not None:
                break
            inside.append(item)
        ends = [each.span.end for each in inside for each in flow.statements(each) if not isinstance(each, flow.Seq)]
        if ends:
            yield flow.Scope(begin, None, flow.Seq(tuple(inside)), Span(begin.span.start, max(ends)))


def _called(statement: flow.Flow, name: str) -> flow.Call | None:
    """The call of a method of this name that a statement is."""
    value = statement.value if isinstance(statement, flow.Eval) else None
    return value if isinstance(value, flow.Call) and flow.last_name(value) == name else None


def _parted(value: flow.Expr, test: Span) -> str | None:
    """What the uses of an assigned value become where its test is asked there; None where it stands in it otherwise.

    Of `a and test()` they become `{use} and {test}`, with `a` for what is assigned.
    """
    if value.span == test:
        return "{test}"
    match value:
        case flow.Op(op="not", operands=(inner,)) if inner.span == test:
            return "not {test}"
        case flow.Call(callee=flow.Name(id="bool"), args=(inner,), keywords=()) if inner.span == test:
            return "{test}"
        case flow.Op(op="and" | "or" as op, operands=(_, *_, last)):
            parted = _parted(last, test)
            return f"{{use}} {op} {parted}" if parted is not None and "{use}" not in parted else None
    return None


def _has_default(value: flow.Expr | None) -> bool:
    """Whether a declared attribute has a value if nobody sets it."""
    if value is None or not _is_field(value):
        return value is not None
    return any(name in ("default", "default_factory") for name, _ in value.keywords)


def _is_field(value: flow.Expr) -> TypeGuard[flow.Call]:
    return isinstance(value, flow.Call) and flow.last_name(value) == "field"


def _within(block: flow.Scope, span: Span) -> bool:
    """Whether an expression stands in a block, and not in its header."""
    return block.span.contains(span) and not block.context.span.contains(span)


def _makes(expr: flow.Expr, short: str) -> bool:
    """Whether an expression holds a call of this name."""
    return (isinstance(expr, flow.Call) and flow.last_name(expr) == short) or any(
        _makes(inner, short) for inner in flow.subexpressions(expr)
    )


def _refuses(body: flow.Flow) -> bool:
    """Whether a flow ends in a raise, whatever else it does before."""
    if isinstance(body, flow.Seq):
        return bool(body.items) and _refuses(body.items[-1])
    return isinstance(body, flow.Exit) and body.kind == "raise"


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
        condition = (
            "what is made here is for the graph alone: no eager step may be given it"
            if purpose == "True"
            else f"whoever makes the object has to set {purpose} for every object that a graph reads"
        )
        return Fix("say what the object is for", Applicability.UNSAFE, rewrites.edits(), (condition,))
    reads = json.loads(finding.values.get("reads", "[]"))
    if not reads or not all(_asks(finding, modules, rewrites, each) for each in reads):
        return None
    if (rest := finding.values.get("rest")) is not None:
        rewrite = rewrites[finding.path]
        value = rewrite.tree.node_at(Span(*json.loads(rest)), codemod.cst.BooleanOperation)
        if value is None:
            return None
        rewrite.replace(value, rewrite.tree.root.code_for_node(value.left))
    if (keeps := finding.values.get("keeps")) is not None:
        rewrite = rewrites[finding.path]
        statement = rewrite.tree.statement(Span(*json.loads(keeps)))
        if statement is None:
            return None
        rewrite.delete(statement)
    conditions = ["what the flag decides now also happens in the capture itself, where it never did"]
    if "." in finding.values["flag"]:
        conditions.append(f"nothing outside of these files reads {finding.values['flag']}")
    title = "ask for the capture where the answer is used"
    return Fix(title, Applicability.UNSAFE, rewrites.edits(), tuple(conditions))


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
    use = rewrite.tree.root.code_for_node(node)
    form = finding.values.get("form", "{test}")
    around = rewrite.tree.parents[node]
    whole: codemod.cst.BaseExpression = node
    if isinstance(around, codemod.cst.UnaryOperation) and isinstance(around.operator, codemod.cst.Not):
        if form == "not {test}":  # `not self.eager`
            whole, form = around, "{test}"
    rewrite.replace(whole, form.format(use=use, test=f"{test.expression}()"))
    return True
