"""Tests that fail on the code before a fix and pass on the code after it.

A written test runs the fixed function with stand-ins for all but the function's own code: no GPU, no torch, nothing but
pytest. Which calls have the effects, and which objects they are reached through, is read from the analysis of the fixed
code; what the test asserts is what the rule declares (`graphlint.rule.Claim`). Where a stand-in could not see the effects,
because they are no calls, there is no test, and the reason is said.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from graphlint import behavior as b
from graphlint import check, flow, summaries
from graphlint.check import Inputs
from graphlint.effects import Effect
from graphlint.findings import Finding
from graphlint.fixing import Outcome
from graphlint.flow import Expr
from graphlint.paths import Event
from graphlint.project import FunctionEntry, Module
from graphlint.rule import Claim, Rule
from graphlint.source import Source, Span
from graphlint.stand_ins import EFFECTS, HELD, MEASURED, SHELL, STAND_INS
from graphlint.summaries import Analysis, Site
from graphlint.syntax import ParseError
from graphlint.values import ELEMENT, Place

_SHARED = ("class:", "mod:")
_MAPPINGS = frozenset(("dict", "OrderedDict", "defaultdict", "WeakValueDictionary"))
_CALL = re.compile(r"([\w.]+)\s*\(")
_WIDTH = 87
"""Of a line, less the comma behind an item: what formatters keep to unless told otherwise."""


class NotWrittenError(Exception):
    """There is no test for a fix; the message says why, without a period."""


@dataclass(frozen=True)
class Written:
    """A test."""

    path: str
    content: str
    finding: Finding


@dataclass(frozen=True)
class Missing:
    """A fix that no test was written for."""

    finding: Finding
    row: int
    reason: str


def tests(outcome: Outcome, inputs: Inputs, rules: Sequence[Rule], folder: str) -> tuple[list[Written], list[Missing]]:
    """The tests of the fixes that were applied, and the fixes without one.

    Args:
        outcome: of the fixes.
        inputs: the files before them.
        rules: with what a test of their rewrites asserts.
        folder: where the tests will stand; they find the code from there.
    """
    claims = {rule.name: rule.test for rule in rules}
    changed = {path: Source(path, change.after) for path, change in outcome.changes.items()}
    after = replace(inputs, sources={**inputs.sources, **changed})
    analyses = [summaries.analyse(project, inputs.vocabulary) for project in check.projects(after)]
    written: dict[str, Written] = {}
    known: set[str] = set()
    missing: list[Missing] = []
    for applied in outcome.applied:
        finding, claim = applied.finding, claims.get(applied.finding.rule)
        if claim is None:
            missing.append(Missing(finding, applied.row, "no test is known for this rule"))
            continue
        try:
            for name, text in _WRITERS[claim](analyses, finding, inputs, folder):
                if text not in known:  # one test can speak for several fixes
                    path = _free(folder, name, finding.rule, written)
                    written[path] = Written(path, text, finding)
                    known.add(text)
        except NotWrittenError as error:
            missing.append(Missing(finding, applied.row, str(error)))
    return [written[path] for path in sorted(written)], missing


def _free(folder: str, name: str, rule: str, taken: Container[str]) -> str:
    """The file of a test: it is named after the function, and after the rule too where another test has that name."""
    rule = rule.replace("-", "_")
    names = itertools.chain((name, f"{name}_{rule}"), (f"{name}_{rule}_{number}" for number in itertools.count(2)))
    return next(path for each in names if (path := os.path.join(folder, f"test_{each}.py")) not in taken)


# --------------------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True)
class _Display:
    """A call, a list or a dict: on one line, or with each item on a line of its own."""

    opening: str
    items: tuple[tuple[str, _Value], ...]
    """Each with what stands in front of it: `key=`, or `"a": `."""
    closing: str

    def __str__(self) -> str:
        return f"{self.opening}{', '.join(f'{prefix}{item}' for prefix, item in self.items)}{self.closing}"


_Value: TypeAlias = str | _Display


def _lines(prefix: str, value: _Value, indent: int = 0) -> list[str]:
    """A statement or an item."""
    blank = " " * indent
    if isinstance(value, str) or len(f"{blank}{prefix}{value}") + 4 <= _WIDTH:  # the test's own indentation
        return [f"{blank}{prefix}{value}"]
    lines = [f"{blank}{prefix}{value.opening}"]
    for key, item in value.items:
        *above, last = _lines(key, item, indent + 4)
        lines += [*above, f"{last},"]
    return [*lines, f"{blank}{value.closing}"]


def _stand_in(name: str) -> _Display:
    return _Display("StandIn(", (("", f'"{name}"'), ("", "calls")), ")")


def _strings(names: Iterable[str]) -> _Display:
    return _Display("[", tuple(("", f'"{name}"') for name in names), "]")


# ------------------------------------------------------------------------------------------------------ what is tested


def _located(analyses: Iterable[Analysis], path: str, symbol: str) -> tuple[Analysis, FunctionEntry]:
    """A function of the fixed code."""
    for analysis in analyses:
        module = analysis.project.by_path.get(path)
        entry = analysis.project.functions.get(f"{module.name}.{symbol}") if module is not None else None
        if entry is not None:
            return analysis, entry
    raise NotWrittenError(f"`{symbol or path}` is no function that a test could call")


def _named(analyses: Iterable[Analysis], name: str) -> tuple[Analysis, FunctionEntry]:
    for analysis in analyses:
        if name in analysis.project.functions:
            return analysis, analysis.project.functions[name]
    raise NotWrittenError(f"`{name}` is gone")


@dataclass
class _Subject:
    """What a test runs, as Python that runs it."""

    analysis: Analysis
    function: FunctionEntry
    folder: str
    modules: dict[str, Module] = field(default_factory=dict)
    """Whose code is real, by the names that they are imported under."""
    objects: dict[Place, str] = field(default_factory=dict)
    """Objects whose methods are real, and their classes."""
    answers: dict[str, dict[str, str]] = field(default_factory=dict)
    """Class, attribute, and what it has to be for the path to go on."""
    stores: dict[tuple[str, str], None] = field(default_factory=dict)
    """Class or module, and the attribute of it that a stand-in takes the place of."""
    denials: dict[str, None] = field(default_factory=dict)
    """Functions of torch that have to say no."""
    unpacked: dict[str, int] = field(default_factory=dict)
    """How many items code expects of what has a name that ends so."""

    def __post_init__(self) -> None:
        entry = self.function
        if ".<locals>." in entry.name or entry.kind == "property":
            raise NotWrittenError(f"`{entry.facts.qualname}` cannot be called by a test")
        if entry.facts.is_generator or entry.lowered.is_generator:
            raise NotWrittenError(f"`{entry.facts.qualname}` is a generator")
        self.real(entry.module)
        self.unpacked.update(_unpacked(entry))

    def real(self, module: Module) -> None:
        """Take a module's own code."""
        self.modules[_import_name(module)] = module

    def follow(self, event: Event) -> None:
        """Take the code, and the objects, through which an event happens."""
        functions = self.analysis.project.functions
        for frame in event.stack:
            entry = functions[frame.function]
            self.real(entry.module)
            self.unpacked.update(_unpacked(entry))
            if entry.owner is not None and entry.kind == "method" and len(frame.receiver) == 1:
                place = frame.receiver[0]
                if place[0].startswith("$") and "#" not in place[0]:
                    self.objects.setdefault(place, entry.owner)
        for branch in event.branches:
            entry = functions[branch.frame.function]
            test = next(
                (
                    each.test
                    for each in flow.statements(entry.lowered.flow)
                    if isinstance(each, flow.Alt) and each.span == branch.frame.span
                ),
                None,
            )
            if test is not None:
                self.denials.update(dict.fromkeys(_denials(test, truth=branch.taken)))
            if test is not None and entry.owner is not None and entry.facts.params:
                for path, answer in _answers(test, entry.facts.params[0].name, truth=branch.taken):
                    self.answers.setdefault(entry.owner, {}).setdefault(path, answer)

    def own_depth(self, event: Event) -> int:
        """Depth of the innermost function around an event such that the code of all down to it runs."""
        depth = 0
        for frame in event.stack[1:]:
            if self.analysis.project.functions[frame.function].module not in self.modules.values():
                break
            depth += 1
        return depth

    # ------------------------------------------------------------------------------------------------- as Python

    def alias(self, module: Module) -> str:
        """The variable that a module is in."""
        self.real(module)
        name = _import_name(module)
        last = name.rpartition(".")[2]
        same = sorted(each for each in self.modules if each.rpartition(".")[2] == last)
        return last if len(same) == 1 else name.replace(".", "_")

    def of_class(self, owner: str) -> str:
        """The expression for a class."""
        entry = self.analysis.project.classes[owner]
        return f"{self.alias(entry.module)}.{entry.facts.qualname}"

    def store(self, owner: str, name: str) -> str:
        """The expression for what a class or module keeps."""
        kind, _, dotted = owner.partition(":")
        project = self.analysis.project
        if kind == "class" and dotted in project.classes:
            return f"{self.of_class(dotted)}.{name}"
        if kind == "mod" and dotted in project.modules:
            return f"{self.alias(project.modules[dotted])}.{name}"
        raise NotWrittenError(f"`{dotted}` is not among the files")

    def run(self) -> list[str]:
        """The lines that run the function; what is called from then on is written down."""
        entry = self.function
        lines = [line for each in self.stores for line in _lines(f"{self.store(*each)} = ", _stand_in(each[1]))]
        target = self.of_class(entry.owner) if entry.owner is not None else self.alias(entry.module)
        if entry.kind == "method":
            assert entry.owner is not None
            lines += _lines("subject = ", self._object((f"${entry.facts.params[0].name}",), entry.owner))
            target = "subject"
        own = entry.facts.params[1:] if entry.kind in ("method", "classmethod") else entry.facts.params
        given = tuple(
            (
                f"{param.name}=" if param.kind == "keyword" or param.default is not None else "",
                self._value((f"${param.name}",), param.name),
            )
            for param in own
            if param.kind in ("positional", "keyword")
            and (param.default is None or any(place[0] == f"${param.name}" for place in self.objects))
        )
        call = _Display(f"{target}.{entry.facts.name}(", given, ")")
        is_async = entry.module.source.text(entry.facts.header).lstrip().startswith("async")
        run = _Display("asyncio.run(", (("", call),), ")") if is_async else call
        lines += [f"{each} = lambda: False" for each in self.denials]
        return [*lines, "calls.clear()", *_lines("", run)]

    def _object(self, place: Place, owner: str) -> _Value:
        """A shell of a class, with the objects in it that have to be real."""
        given: dict[str, _Value] = {}
        inside = [each for each in self.objects if len(each) > len(place) and each[: len(place)] == place]
        for attribute in sorted({each[len(place)] for each in inside} - {ELEMENT}):
            given[attribute] = self._value((*place, attribute), attribute, owner)
        for each in self.analysis.project.mro(owner):
            for path, answer in sorted(self.answers.get(each, {}).items()):
                attribute, _, method = path.partition(".")
                spoken = f'StandIn("{attribute}", calls, {method}={answer})' if method else answer
                given.setdefault(attribute, spoken)
        named = tuple((f"{attribute}=", value) for attribute, value in given.items())
        return _Display("shell(", (("", self.of_class(owner)), ("", "calls"), *named), ")")

    def _value(self, place: Place, name: str, owner: str = "") -> _Value:
        if place in self.objects:
            return self._object(place, self.objects[place])
        element = (*place, ELEMENT)
        if any(each[: len(element)] == element for each in self.objects):
            inner = self._value(element, name, owner)
            types = self.analysis.behaviors.field_types(owner, name) if owner else ()
            if any(each.name in _MAPPINGS for each in types):
                return _Display("{", (('"a": ', inner), ('"b": ', inner)), "}")
            return _Display("[", (("", inner), ("", inner)), "]")
        if any(each[: len(place)] == place for each in self.objects):
            raise NotWrittenError(f"it is not known what `{name}` is")
        return _stand_in(name)


def _import_name(module: Module) -> str:
    """The name that a module's imports take for granted: that in its packages, or as deep as it imports relatively."""
    folder, name = os.path.split(os.path.abspath(module.source.path).removesuffix(".py"))
    parts = [] if name == "__init__" else [name]
    levels = [len(match[1]) for match in re.finditer(rb"^[ \t]*from[ \t]+(\.+)", module.source.content, re.MULTILINE)]
    count = 0
    while count < max(levels, default=0) or os.path.exists(os.path.join(folder, "__init__.py")):
        folder, parent = os.path.split(folder)
        if not parent:
            break
        parts.insert(0, parent)
        count += 1
    return ".".join(parts)


def _unpacked(entry: FunctionEntry) -> Iterator[tuple[str, int]]:
    """How the names of stand-ins end that a function unpacks, and into how many."""
    for each in flow.statements(entry.lowered.flow):
        if isinstance(each, flow.Bind) and isinstance(each.target, flow.Group) and each.value is not None:
            if name := _last(each.value):
                yield name, len(each.target.items)
        elif isinstance(each, flow.Star) and isinstance(each.target, flow.Group) and each.iterable is not None:
            if name := _last(each.iterable):
                yield f"{name}[]", len(each.target.items)


def _last(expr: Expr) -> str:
    """How the name of a stand-in for an expression ends."""
    match expr:
        case flow.Attr(name=name) | flow.Name(id=name):
            return name
        case flow.Call(callee=callee):
            return f"{name}()" if (name := _last(callee)) else ""
        case flow.Item(base=base):
            return f"{name}[]" if (name := _last(base)) else ""
    return ""


def _answers(test: Expr, me: str, *, truth: bool) -> Iterator[tuple[str, str]]:
    """What attributes of an object, or calls on them, have to answer for a test; a stand-in is true and not None."""
    match test:
        case flow.Op(op="not", operands=(inner,)):
            yield from _answers(inner, me, truth=not truth)
        case flow.Op(op="and" | "or" as op, operands=operands):
            for each in operands if (op == "and") is truth else operands[:1]:
                yield from _answers(each, me, truth=truth)
        case flow.Op(op="is" | "is not" as op, operands=(place, flow.Lit(value=None))):
            if (op == "is") is truth and (path := _path(place, me)):
                yield path, "None"
        case flow.Call(callee=callee) if not truth and "." in (path := _path(callee, me)):
            yield path, "False"
        case flow.Attr() if not truth and (path := _path(test, me)):
            yield path, "False"


def _denials(test: Expr, *, truth: bool) -> Iterator[str]:
    """Functions of torch that have to say no for a test: there is no capture, and no error."""
    match test:
        case flow.Op(op="not", operands=(inner,)):
            yield from _denials(inner, truth=not truth)
        case flow.Op(op="and" | "or" as op, operands=operands):
            for each in operands if (op == "and") is truth else operands[:1]:
                yield from _denials(each, truth=truth)
        case flow.Call(callee=flow.Attr() as callee, args=()) if not truth:
            dotted = _dotted(callee)
            if dotted.startswith("torch."):
                yield dotted


def _dotted(expr: Expr) -> str:
    match expr:
        case flow.Name(id=name):
            return name
        case flow.Attr(base=base, name=name):
            return f"{_dotted(base)}.{name}"
    return ""


def _path(expr: Expr, me: str) -> str:
    """One or two attributes behind an object, dotted."""
    match expr:
        case flow.Attr(base=flow.Name(id=base), name=name) if base == me:
            return name
        case flow.Attr(base=flow.Attr(base=flow.Name(id=base), name=outer), name=name) if base == me:
            return f"{outer}.{name}"
    return ""


# --------------------------------------------------------------------------------------------------------------- order


def _order(analyses: Sequence[Analysis], finding: Finding, _: Inputs, folder: str) -> Iterator[tuple[str, str]]:
    """That graphs die before the release, and the pool is erased behind it."""
    if "ways" in finding.values:
        tops = json.loads(finding.values["ways"])["tops"]
        found = [_named(analyses, top["function"]) for top in tops]
    else:
        found = [_located(analyses, finding.path, finding.symbol)]
    for analysis, entry in found:
        yield _snake(entry), _order_test(_Subject(analysis, entry, folder))


def _order_test(subject: _Subject) -> str:
    deaths, releases, erasures = _teardown(subject)
    for site in (*deaths, *erasures):
        subject.follow(site.event)
    for site in releases:
        subject.follow(site.event._replace(stack=site.event.stack[: subject.own_depth(site.event) + 1]))
    named = {
        effect: _names(subject, sites)
        for effect, sites in (("death", deaths), ("release", releases), ("erasure", erasures))
        if sites
    }
    ends = tuple((f"{effect}=", _strings(names)) for effect, names in named.items())
    lines = [
        *subject.run(),
        *_lines("order = ", _Display("effects(", (("", "calls"), *ends), ")")),
        'assert "death" in order, "no graph died"',
        'assert "release" in order, f"nothing was released: {order}"',
        'at = order.index("release")',
        'assert "death" not in order[at:], f"released under living graphs: {order}"',
    ]
    if erasures:
        lines.append('assert "erasure" not in order[:at], f"erased first: {order}"')
    name = subject.function.facts.qualname
    says = f"{name}: graphs die, then what they read is released{', then their pool erased' if erasures else ''}."
    return _file(subject, says, "test_the_order_of_the_teardown", lines, SHELL, EFFECTS)


def _teardown(subject: _Subject) -> tuple[list[Site], list[Site], list[Site]]:
    """Deaths of graphs, releases of what they share with others, and erasures of the pool, in the function."""
    root = subject.analysis.effectful.get(subject.function.name)
    sites = [site for site in subject.analysis.sites(root) if _is_called(site)] if root is not None else []
    dead = [site for site in sites if site.effect is Effect.GRAPH_DEATH]
    deaths = [site for site in dead if isinstance(site.event.node, b.Happens)] or dead
    releases = [
        site
        for site in sites
        if site.effect is Effect.WS_RELEASE
        and (not site.places or any(place[0].startswith(_SHARED) for place in site.places))
    ]
    erasures = [
        site
        for site in sites
        if site.effect is Effect.ERASE and isinstance(site.event.node, b.Happens) and not site.event.node.entry
    ]
    if not deaths or not releases:
        raise NotWrittenError(f"`{subject.function.facts.qualname}` does not end graphs and release what they share")
    return deaths, releases, erasures


def _is_called(site: Site) -> bool:
    """Whether an effect comes from calls that stand in the code: not from a destructor."""
    return not any(frame.function.endswith(".__del__") for frame in site.event.stack[1:])


def _names(subject: _Subject, sites: Sequence[Site]) -> list[str]:
    """How the names end under which stand-ins write down the calls that have an effect."""
    found: dict[str, None] = {}
    unseen: list[str] = []
    for site in sites:
        frame = site.event.stack[subject.own_depth(site.event)]
        entry = subject.analysis.project.functions[frame.function]
        calls = (each for each in flow.expressions(entry.lowered.flow) if isinstance(each, flow.Call))
        call = next((each for each in calls if each.span == frame.span), None)
        if call is None:
            unseen.append(" ".join(entry.module.source.text(frame.span).split()))
            continue
        found[_end(entry, call.callee)] = None
        for place in site.places:
            if place[0].startswith(_SHARED) and len(place) > 1 and _is_inside(subject, place[0].partition(":")[2]):
                subject.stores[place[0], place[1]] = None
    if not found:
        raise NotWrittenError(f"`{unseen[0]}` is no call that a stand-in could see")
    return list(found)


def _is_inside(subject: _Subject, owner: str) -> bool:
    """Whether a class or module is code that runs."""
    return any(owner == module.name or owner.startswith(f"{module.name}.") for module in subject.modules.values())


def _end(entry: FunctionEntry, callee: Expr) -> str:
    """The last two names of what is called, or the last alone where the first is a variable."""
    match callee:
        case flow.Attr(base=flow.Name(id=base), name=name):
            return name if base in _variables(entry) else f"{base}.{name}"
        case flow.Attr(base=flow.Attr(name=outer), name=name):
            return f"{outer}.{name}"
        case flow.Attr(name=name) | flow.Name(id=name):
            return name
    return ""


def _variables(entry: FunctionEntry) -> set[str]:
    """Variables of a function that are no imports."""
    names = {param.name for param in entry.facts.params}
    for each in flow.statements(entry.lowered.flow):
        if isinstance(each, flow.Bind) and isinstance(each.value, flow.Imported):
            continue
        if isinstance(each, flow.Bind | flow.Star | flow.Scope) and each.target is not None:
            names |= set(_targets(each.target))
    return names


def _targets(target: Expr) -> Iterator[str]:
    if isinstance(target, flow.Name):
        yield target.id
    elif isinstance(target, flow.Group):
        for item in target.items:
            yield from _targets(item)


# ---------------------------------------------------------------------------------------------------------------- once


def _once(analyses: Sequence[Analysis], finding: Finding, inputs: Inputs, folder: str) -> Iterator[tuple[str, str]]:
    """That a function does not release again what another one, or it itself, has released."""
    analysis, entry = _located(analyses, finding.path, finding.symbol)
    subject = _Subject(analysis, entry, folder)
    source = inputs.sources[finding.path]
    second = _CALL.search(source.text(finding.span))
    if second is None:
        raise NotWrittenError("the second release was no call that a stand-in could see")
    name = second[1].rpartition(".")[2]
    earlier = [each for each in finding.trace if each.path == finding.path and each.span.start < finding.span.start]
    firsts = [match[1].rpartition(".")[2] for each in earlier if (match := _CALL.search(source.text(each.span)))]
    first = firsts[0] if firsts else "another function"
    leaves = [each for each in flow.statements(entry.lowered.flow) if isinstance(each, flow.Exit)]
    if any(each.kind == "raise" and entry.module.source.text(each.span).startswith("raise") for each in leaves):
        raise NotWrittenError(f"`{entry.facts.qualname}` can raise, and what it asks for is not known")
    if analysis.project.method(entry.owner or "", name) is not None:
        raise NotWrittenError(f"`{name}` is a method of the same class, so that its own code would run")
    lines = [
        *(
            line
            for each in _helpers(entry)
            for line in _lines(f"{subject.alias(entry.module)}.{each} = ", _stand_in(each))
        ),
        *subject.run(),
        f'released = [call for call in calls if call.endswith(".{name}")]',
    ]
    if first == name:
        lines.append('assert len(released) == len({*released}), f"released twice: {released}"')
        says = f"{entry.facts.qualname} releases nothing twice."
    else:
        lines += [f"# {first} has done so before", 'assert not released, f"released again: {released}"']
        says = f"{entry.facts.qualname} leaves the release of graphs to {first}."
    yield (
        _snake(entry),
        _file(subject, says, "test_nothing_is_released_twice", lines, *([SHELL] if entry.kind == "method" else [])),
    )


def _helpers(entry: FunctionEntry) -> list[str]:
    """Functions and classes of the same module that a function mentions."""
    names = {each.id for each in flow.expressions(entry.lowered.flow) if isinstance(each, flow.Name)}
    scope = entry.module.scope
    own = (entry.facts.qualname, (entry.facts.owner or "").partition(".")[0])
    return sorted(name for name in names if name in scope and scope[name].kind != "import" and name not in own)


# ------------------------------------------------------------------------------------------------------------- retired


def _retired(analyses: Sequence[Analysis], finding: Finding, inputs: Inputs, folder: str) -> Iterator[tuple[str, str]]:
    """That the handle of a pool is given up with the graphs of the pool."""
    ways = json.loads(finding.values.get("retire", "[]"))
    kind = finding.values.get("kind")
    if not ways or kind not in ("class", "module", "instance"):
        raise NotWrittenError("the handle is not retired with the graphs, it is kept in another way")
    for way in ways:
        analysis, entry = _located(analyses, way["path"], _around(inputs, way["path"], Span(*way["span"])))
        subject = _Subject(analysis, entry, folder)
        root = analysis.effectful.get(entry.name)
        for site in analysis.sites(root) if root is not None else ():
            if site.effect is Effect.GRAPH_DEATH and _is_called(site):
                subject.follow(site.event)
        if kind == "instance":
            holders = [each.partition(".")[2] for each in way["holders"] if each.startswith("self.")]
            if not holders or entry.kind != "method":
                raise NotWrittenError("the handle is not kept by the object that ends the graphs")
            store = f"subject.{holders[0]}"
        else:
            store = subject.store(
                f"{'class' if kind == 'class' else 'mod'}:{finding.values['owner']}", finding.values["name"]
            )
        lines = subject.run()
        at = lines.index("calls.clear()")
        lines[at : at + 1] = ["stale = (0, 1)", f"{store} = stale"]
        lines += [f"held = {store}", 'assert held is not stale, "the next capture goes into a dead pool"']
        says = f"{entry.facts.qualname} gives up the handle of the pool with the graphs."
        yield _snake(entry), _file(subject, says, "test_the_handle_goes_with_the_graphs", lines, SHELL)


def _around(inputs: Inputs, path: str, span: Span) -> str:
    """Qualified name of the function that holds a span in the code before the fix."""
    facts = inputs.parse(inputs.sources[path])
    if isinstance(facts, ParseError):
        raise NotWrittenError(f"{path} cannot be read")
    around = [each for each in facts.functions if each.span.contains(span)]
    if not around:
        raise NotWrittenError("what ends the graphs is in no function")
    return min(around, key=lambda each: each.span.end - each.span.start).qualname


# ---------------------------------------------------------------------------------------------------------------- kept


def _kept(analyses: Sequence[Analysis], finding: Finding, _: Inputs, folder: str) -> Iterator[tuple[str, str]]:
    """That growth keeps what a capture was given, and is refused inside of one."""
    analysis, entry = _located(analyses, finding.path, finding.symbol)
    subject = _Subject(analysis, entry, folder)
    if "capturing" in finding.values:
        raise NotWrittenError("the project has a test of its own for captures")
    own = entry.facts.params[1:] if entry.kind in ("method", "classmethod") else entry.facts.params
    sizes = _sizes(entry)
    size = next((param.name for param in own if param.name in sizes), None)
    if size is None or entry.facts.name.startswith("__"):
        raise NotWrittenError("no parameter of it says how much is wanted")
    required = [param.name for param in own if param.kind == "positional" and param.default is None]
    small, large = (
        _Display(
            "get(",
            (
                *(("", each if name == size else name) for name in required),
                *(() if size in required else ((f"{size}=", each),)),
            ),
            ")",
        )
        for each in ("SMALL", "LARGE")
    )
    lines = [
        "stream = SimpleNamespace(captures=False)",
        "torch.cuda.is_current_stream_capturing = lambda: stream.captures",
        "measure(torch, calls)",
        *(line for name in required if name != size for line in _lines(f"{name} = ", _stand_in(name))),
    ]
    target = subject.of_class(entry.owner) if entry.owner is not None else subject.alias(entry.module)
    held = "given"
    if entry.kind == "method":
        assert entry.owner is not None
        lines += _lines("subject = ", _made(subject, entry.owner))
        target = "subject"
        if finding.values.get("holder") == "self":
            held = f"[given, subject.{finding.values['attribute']}]"
    lines += [
        f"get = {target}.{entry.facts.name}",
        *_lines("", small),
        "stream.captures = True",
        *_lines("given = ", small),
        f"used = [weakref.ref(each) for each in stand_ins({held})]",
        "del given",
        'assert used, "nothing was handed out"',
        "with pytest.raises(RuntimeError):",
        *_lines("", large, 4),
        "stream.captures = False",
        *_lines("", large),
        "gc.collect()",
        'assert all(each() for each in used), "a graph reads what was dropped"',
    ]
    says = f"{entry.facts.qualname} keeps what a capture was given, and does not grow inside of one."
    name = "test_what_a_capture_was_given_survives_growth"
    yield (
        _snake(entry),
        _file(subject, says, name, lines, MEASURED, HELD, constant="SMALL, LARGE = 16 << 20, 256 << 20"),
    )


def _made(subject: _Subject, owner: str) -> _Display:
    """An object that its constructor has made of stand-ins."""
    init = subject.analysis.project.method(owner, "__init__")
    params = subject.analysis.project.functions[init].facts.params[1:] if init is not None else ()
    required = [each.name for each in params if each.kind in ("positional", "keyword") and each.default is None]
    given = tuple((f"{name}=", _stand_in(name)) for name in required)
    return _Display(f"{subject.of_class(owner)}(", given, ")")


def _sizes(entry: FunctionEntry) -> set[str]:
    """Variables that are compared by size, and are no keys."""
    compared: set[str] = set()
    keys: set[str] = set()
    for each in flow.expressions(entry.lowered.flow):
        if isinstance(each, flow.Op) and each.op in ("<", "<=", ">", ">="):
            compared |= {name for part in each.operands for name in _read(part)}
        elif isinstance(each, flow.Item):
            parts = each.key.items if isinstance(each.key, flow.Group) else (each.key,)
            keys |= {name for part in parts if not _is_range(part) for name in _read(part)}
    return compared - keys


def _is_range(key: Expr) -> bool:
    """Whether a key takes a part, `[:size]`, and no item."""
    return isinstance(key, flow.Op) and key.op == "Slice"


def _read(expr: Expr) -> Iterator[str]:
    """Variables in an expression, but for those that only choose an item."""
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        if isinstance(part, flow.Name):
            yield part.id
        elif not isinstance(part, flow.Item):
            waiting += flow.subexpressions(part)


_WRITERS: Mapping[Claim, Callable[[Sequence[Analysis], Finding, Inputs, str], Iterator[tuple[str, str]]]] = {
    Claim.ORDER: _order,
    Claim.ONCE: _once,
    Claim.RETIRED: _retired,
    Claim.KEPT: _kept,
}


# ------------------------------------------------------------------------------------------------------------ the file

_IMPORTS = (
    "asyncio",
    "gc",
    "importlib.abc",
    "importlib.machinery",
    "importlib.util",
    "math",
    "sys",
    "types",
    "weakref",
)


def _file(subject: _Subject, says: str, name: str, lines: Sequence[str], *helpers: str, constant: str = "") -> str:
    """The text of a test file."""
    body = "\n".join(lines)
    modules = sorted(subject.modules.items())
    loads = [
        line
        for each, module in modules
        if re.search(rf"\b{(alias := subject.alias(module))}\.", body)
        for line in _lines(f"{alias} = ", _Display("importlib.import_module(", (("", f'"{each}"'),), ")"))
    ]
    if "torch.cuda" in body:
        loads.insert(0, 'torch = importlib.import_module("torch")')
    paths = {each: os.path.abspath(module.source.path) for each, module in modules}
    root = os.path.commonpath([os.path.dirname(path) for path in paths.values()])
    above = os.path.relpath(root, subject.folder).replace(os.sep, "/")
    code = tuple((f'"{each}": ', f'"{_below(root, path)}"') for each, path in paths.items())
    tops = {"torch", *(each.partition(".")[0] for each in paths)}
    for module in subject.modules.values():
        tops |= {
            match[1].decode()
            for match in re.finditer(rb"^[ \t]*(?:from|import)[ \t]+(\w+)", module.source.content, re.MULTILINE)
        }
    tops -= {*sys.stdlib_module_names, "pytest"}
    unpacked = sorted({"items()[]": 2, **subject.unpacked}.items())
    used = "".join((STAND_INS, *helpers, body))
    table = _Display("{", code, "}")
    head = [
        f'"""{says}',
        "",
        "All but the code under test is a stand-in: no GPU is needed, and no torch.",
        '"""',
        "",
        *(f"import {each}" for each in _IMPORTS if f"{each}." in used),
        "from pathlib import Path",
        *(["from types import SimpleNamespace"] if "SimpleNamespace" in body else []),
        "from unittest import mock",
        "",
        "import pytest",
        "",
        f'ROOT = Path(__file__).parent / "{above}"',
        *_lines("CODE = ", table),
        *_lines("STOOD_IN = ", _Display("{", tuple(("", f'"{each}"') for each in sorted(tops)), "}")),
        *_lines("UNPACKED = ", _Display("{", tuple((f'"{end}": ', str(count)) for end, count in unpacked), "}")),
        *([constant] if constant else []),
    ]
    test = [f"def {name}(calls):", *(f"    {line}" for line in (*loads, *lines))]
    parts = ("\n".join(head), STAND_INS, *helpers, "\n".join(test))
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"


def _below(root: str, path: str) -> str:
    return os.path.relpath(path, root).replace(os.sep, "/")


def _snake(entry: FunctionEntry) -> str:
    """`Runner.clear` as `runner_clear`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", entry.facts.qualname.replace(".", "_"))
    return re.sub(r"_+", "_", words.lower()).strip("_")
