"""Branches between a teardown and the graphs that it ends, behind which some of these may be left.

A platform on which nothing is released although graphs are captured there, a flag that nothing sets, a test of what the way
there has made impossible before, a test of another part of the object that can be missing while the graphs are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphlint import behavior as b
from graphlint import flow
from graphlint.absence import can_lack
from graphlint.conditions import THERE, Asked, Condition, conditions, names_in
from graphlint.last_given import HAS_ITEMS, IS_SET, Given, excludes, last_given
from graphlint.ownership import Holding
from graphlint.paths import Branch
from graphlint.platforms import alternatives, platform_words
from graphlint.project import FunctionEntry
from graphlint.source import Span
from graphlint.summaries import Analysis
from graphlint.teardowns import Death, attributes_in


def by_platform(analysis: Analysis, reaching: Sequence[Death]) -> Iterator[tuple[Branch, frozenset[str]]]:
    """Branches by platform that every death is behind, with the platform words of their tests."""
    first, *others = reaching
    for branch in first.site.event.branches:
        if not all(_same(branch, each) for each in others):
            continue
        test = _test(analysis.project.functions[branch.frame.function], branch.frame.span)
        words = frozenset(platform_words(test)) if test is not None else frozenset()
        if words:
            yield branch, words


def is_made_under(holding: Holding, words: frozenset[str]) -> bool:
    """Whether the graphs are made under a test of the same platform, so that there are none elsewhere."""
    for alternative in alternatives(holding.function.lowered.flow):
        if alternative.span.contains(holding.span) and words & frozenset(platform_words(alternative.test)):
            return True
    return False


def dead_flag(analysis: Analysis, class_name: str, reaching: Sequence[Death]) -> tuple[Branch, str] | None:
    """A branch that every death is behind and that asks a flag, of the object or of one that it has, which nothing sets."""
    first, *others = reaching
    for branch in first.site.event.branches:
        if not all(_same(branch, each) for each in others):
            continue
        function = analysis.project.functions[branch.frame.function]
        test = _test(function, branch.frame.span)
        me = function.facts.params[0].name if function.facts.params else ""
        for asked in _required(test, truth=branch.taken) if test is not None else ():
            if not isinstance(asked, flow.Attr):
                continue
            own = isinstance(asked.base, flow.Name) and asked.base.id == me
            types = analysis.behaviors.typed(function, asked.base).types if not own else ()
            owners = [class_name] if own else [t.name for t in types if t.name in analysis.project.classes]
            if owners and all(_is_never_set(analysis, owner, asked.name) for owner in owners):
                return branch, flow.dotted_text(asked) or asked.name
    return None


def _required(test: flow.Expr, *, truth: bool) -> Iterator[flow.Expr]:
    """What has to be true for a test to be true, or false."""
    match test:
        case flow.Op(op="not", operands=(inner,)):
            yield from _required(inner, truth=not truth)
        case flow.Op(op="and" | "or" as op, operands=operands):
            if (op == "and") is truth:
                for each in operands:
                    yield from _required(each, truth=truth)
        case _ if truth:
            yield test


def _is_never_set(analysis: Analysis, class_name: str, name: str) -> bool:
    """Whether all that is ever assigned to an attribute is a constant that is not true."""
    bindings = [
        (expr, how)
        for each in analysis.project.mro(class_name)
        for _, expr, how in analysis.behaviors.field_bindings(each).get(name, ())
    ]
    values = [expr for expr, how in bindings if how == "set"]
    for each in analysis.project.mro(class_name):
        entry = analysis.project.classes.get(each)
        attribute = entry.attributes.get(name) if entry is not None else None
        if attribute is not None and attribute.value is not None:
            values.append(attribute.value)
    if not values or any(how == "item" for _, how in bindings):
        return False
    if not all(isinstance(expr, flow.Lit) and not expr.value for expr in values):
        return False
    return not any(
        node.how != "drop" and not node.tags & {"none", "false"}
        for each in analysis.behaviors.all()
        for node in each.nodes
        if isinstance(node, b.Touches) and node.slot is not None and node.slot[1] == name
    )


def asked_too_late(analysis: Analysis, reaching: Sequence[Death]) -> tuple[Branch, Given] | None:
    """A branch that every death is behind, and that asks for what the way there has made impossible.

    The object's private methods are on the way, and no teardowns of their own.
    """
    found = [_impossible(analysis, death) for death in reaching]
    through = {
        frame.function
        for death, each in zip(reaching, found, strict=True)
        if each is not None
        for frame in death.site.event.stack[1:]
    }
    if any(
        each is None and not (death.root.function.name in through and death.root.function.facts.name.startswith("_"))
        for death, each in zip(reaching, found, strict=True)
    ):
        return None
    return next(filter(None, found), None)


def _impossible(analysis: Analysis, death: Death) -> tuple[Branch, Given] | None:
    """A branch on the way to a death that asks for what this way has made impossible before."""
    stack = death.site.event.stack
    for branch in death.site.event.branches:
        function = analysis.project.functions[branch.frame.function]
        test = _test(function, branch.frame.span)
        at = next((i for i, frame in enumerate(stack) if frame.function == branch.frame.function), None)
        if test is None or at is None:
            continue
        me = function.facts.params[0].name if function.facts.params else ""
        names = set(attributes_in(test, me)) - flow.variables(test)  # a variable can have what the attribute was before
        whole = {asked.name for asked in _required(test, truth=branch.taken) if isinstance(asked, flow.Attr)}
        events = {function.module.source.text(call.span): name for call, name in _events(test, me)}
        for said in conditions(Asked(test, branch.taken), function.module.source):
            if said.subject in events:
                name = events[said.subject] + IS_SET
            elif said.subject in names:
                name = _behind(analysis, function, said.subject)
            else:
                continue
            for each in (name, name + HAS_ITEMS) if name in whole else (name,):
                given = last_given(analysis.project, stack[: at + 1], branch.frame.span, each)
                if given is not None and given.function.facts.name != "__init__" and excludes(given, said):
                    return branch, given
    return None


def _events(test: flow.Expr, me: str) -> Iterator[tuple[flow.Call, str]]:
    """Questions whether an event is set that an attribute of an object holds: `self.running.is_set()`."""
    for part in flow.parts(test):
        match part:
            case flow.Call(callee=flow.Attr(base=flow.Attr(base=flow.Name(id=base), name=name), name="is_set")):
                if base == me:
                    yield part, name


def _behind(analysis: Analysis, function: FunctionEntry, name: str) -> str:
    """The attribute that a property gives as it is, else the name itself."""
    found = analysis.project.method(function.owner, name) if function.owner is not None else None
    entry = analysis.project.functions[found] if found is not None else None
    if entry is not None and entry.kind == "property" and entry.facts.params:
        body = entry.lowered.flow
        items = body.items if isinstance(body, flow.Seq) else (body,)
        match items[-1:]:
            case (flow.Exit(kind="return", value=flow.Attr(base=flow.Name(id=me), name=inner)),):
                if me == entry.facts.params[0].name and not any(isinstance(each, flow.Alt) for each in items):
                    return inner
    return name


def test_of_another(analysis: Analysis, class_name: str, holding: Holding, reaching: Sequence[Death]) -> Branch | None:
    """A branch that every death is behind, and that asks for another part of the object, which can be missing."""
    first, *others = reaching
    family = analysis.project.mro(class_name)
    for branch in first.site.event.branches:
        function = analysis.project.functions[branch.frame.function]
        own = ((f"${first.root.behavior.receiver}",),)
        if function.owner not in family or branch.frame.receiver != own:
            continue
        test = _test(function, branch.frame.span)
        if test is None or not all(_same(branch, each) for each in others):
            continue
        for name, said in _asked_of(analysis, function, Asked(test, branch.taken)):
            if name != holding.name and name not in holding.repeats and (said.is_one or said.values != THERE):
                if can_lack(analysis, class_name, holding, name, said):
                    return branch
    return None


def _asked_of(analysis: Analysis, function: FunctionEntry, test: Asked) -> Iterator[tuple[str, Condition]]:
    """Attributes of the object of a method, asked for by themselves or by a variable, and what a test says of them."""
    me = function.facts.params[0].name if function.facts.params else ""
    names = {name: name for name in attributes_in(test.expr, me)}
    for name in names_in(test.expr) - names.keys():
        places = analysis.behaviors.typed(function, flow.Name(name, test.expr.span)).places
        if len(places) == 1 and len(places[0]) == 2 and places[0][0] == f"${me}":
            names[name] = places[0][1]
    for each in conditions(test, function.module.source):
        if each.subject in names:
            yield names[each.subject], each


def _same(branch: Branch, death: Death) -> bool:
    return any(
        (each.frame.function, each.frame.span, each.taken) == (branch.frame.function, branch.frame.span, branch.taken)
        for each in death.site.event.branches
    )


def test_span(function: FunctionEntry, span: Span) -> Span:
    """Where the test of a branch stands."""
    test = _test(function, span)
    return test.span if test is not None else span


def _test(function: FunctionEntry, span: Span) -> flow.Expr | None:
    return next((each.test for each in alternatives(function.lowered.flow) if each.span == span), None)
