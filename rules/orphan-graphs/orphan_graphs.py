"""Reports graphs that the teardown of their owner misses, and wires their own release into it.

A suspect's values:

    place       the attribute that holds the graphs, as the message names it
    root        the teardown, as the message names it
    reason      why it does not reach them, as the message says it
    gate        what keeps the release from running: `platform`, `name`, `flag` or `part`; absent where nothing calls one
    release     statements that release the graphs, one a line; absent where nothing is known that would, or where the
                teardown is not the place for it
    name        for a gate by name: what it asks for
    method      for a gate by name: what it should ask for; absent where no class has a method of a like name
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from graphlint import behavior as b
from graphlint import flow
from graphlint.behavior import Behavior
from graphlint.branches import asked_too_late, by_platform, dead_flag, is_made_under, test_of_another, test_span
from graphlint.edits import Applicability, Fix
from graphlint.effects import Effect
from graphlint.elsewhere import ended_elsewhere, exits_with_process, is_registered
from graphlint.entering import is_handed_on
from graphlint.findings import MAX_STEPS, Precision, Severity, Step, Suspect
from graphlint.gates import Gate, gates_by_name
from graphlint.ownership import Holding, holdings, keepers
from graphlint.project import FunctionEntry
from graphlint.reaching import is_owned, reaching_deaths
from graphlint.releases import release_of
from graphlint.source import Span
from graphlint.submodules import module_walks, passed_over
from graphlint.summaries import Analysis
from graphlint.teardowns import Death, Root, deaths, is_final, mentions, own_methods, teardowns
from graphlint.typestate import step

if TYPE_CHECKING:
    from graphlint.codemod import Module, Modules, Rewrite, Tree, Unit, cst
    from graphlint.findings import Finding

_SHARED = ("class:", "mod:")
_WAITS = frozenset(("barrier", "debug", "drain", "info", "join", "set", "synchronize", "wait", "warning"))


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    """Graphs that a teardown of their owner leaves alive, each reported where the teardown fails to reach them."""
    gates = tuple(gates_by_name(analysis))
    best: dict[tuple[str, Span, str], Suspect] = {}
    for suspect in (
        *(_gate_suspect(analysis, gate) for gate in gates),
        *_missed(analysis, gates),
        *_unregistered(analysis),
        *_idle(analysis, gates),
    ):
        best.setdefault((suspect.path, suspect.at, suspect.values["place"]), suspect)
    yield from (best[key] for key in sorted(best))


# ------------------------------------------------------------------------------------------- what a teardown leaves out


def _missed(analysis: Analysis, gates: Sequence[Gate]) -> Iterator[Suspect]:
    families = teardowns(analysis)
    outside = ended_elsewhere(analysis)
    for name in sorted(families):
        roots = families[name]
        held = holdings(analysis, name)
        if not held:
            continue
        methods = {method.key: method for root in roots for method in own_methods(analysis, name, root)}
        mentioned = mentions(analysis, tuple(methods.values()))
        if mentioned.itself:
            continue
        ended = [death for root in roots for death in deaths(analysis, root)]
        gated = _gated(gates, methods.values())
        given = _given_by_overriders(analysis, roots, methods.values())
        for holding in held:
            if holding.name in mentioned.attributes | gated | outside | given or is_registered(
                analysis, name, holding.name
            ):
                continue
            suspect = _judge(analysis, name, roots, holding, held, ended)
            if suspect is not None and not exits_with_process(analysis, name):
                if not is_handed_on(analysis, roots, holding):
                    yield suspect


def _given_by_overriders(analysis: Analysis, roots: Sequence[Root], methods: Iterable[Behavior]) -> frozenset[str]:
    """Attributes that methods of a subclass give to the inherited teardown that calls them: what it does is done to these."""
    inherited = {root.function.owner for root in roots}
    found: set[str] = set()
    for method in methods:
        owner = analysis.project.functions[method.function].owner
        if owner is None or inherited.isdisjoint(analysis.project.mro(owner)[1:]):
            continue
        waiting = [method.returns, method.yields]
        while waiting:
            value = waiting.pop()
            waiting += [*(value.items or ()), *([value.each] if value.each is not None else [])]
            found |= {place[1] for place in value.places if len(place) > 1 and place[0] == f"${method.receiver}"}
    return frozenset(found)


def _gated(gates: Sequence[Gate], methods: Iterable[Behavior]) -> frozenset[str]:
    """Attributes that some methods ask for a method that is not there: what is missed so is reported at the gate."""
    functions = {method.function for method in methods}
    return frozenset(name for gate in gates if gate.function.name in functions for name in gate.attributes)


def _idle(analysis: Analysis, gates: Sequence[Gate]) -> Iterator[Suspect]:
    """Teardowns that take other parts of their object down, and come to nothing that holds or releases device memory.

    Notes: such a class may leave its graphs to whoever made it.
    """
    families = teardowns(analysis)
    for name, entry in analysis.project.classes.items():
        if "graph" not in analysis.owns(name) or name in families:
            continue
        for method in entry.methods.values():
            function = analysis.project.functions[method]
            root = _closing(analysis, function)
            if root is None or exits_with_process(analysis, name):
                continue
            methods = own_methods(analysis, name, root)
            mentioned = mentions(analysis, methods)
            left = mentioned.attributes | _gated(gates, methods)
            for holding in () if mentioned.itself else holdings(analysis, name):
                if holding.is_made and holding.name not in left and holding.classes:
                    missed = keepers(analysis, holding)
                    if missed:
                        yield replace(
                            _orphan(analysis, name, root, holding, missed, ()),
                            severity=Severity.NOTE,
                            precision=Precision.MEDIUM,
                        )


def _unregistered(analysis: Analysis) -> Iterator[Suspect]:
    """Teardowns that go over the modules in a module, which those in a plain list or dictionary are none of."""
    for roots in teardowns(analysis).values():
        for root in roots:
            ended = [death for death in deaths(analysis, root) if death.site.event.loops]
            walks: dict[Span, tuple[FunctionEntry, flow.Attr, list[Death]]] = {}
            for death in ended:
                for loop in death.site.event.loops:
                    function = analysis.project.functions[loop.function]
                    for walk in module_walks(function, loop.span):
                        walks.setdefault(walk.span, (function, walk, []))[2].append(death)
            for at, (function, walk, reaching) in walks.items():
                for holding in passed_over(analysis, function, walk):
                    if any(holding.name in death.place for each in roots for death in deaths(analysis, each)):
                        continue
                    if all(death.owners.isdisjoint(_families(analysis, holding)) for death in reaching):
                        continue
                    text = function.module.source.text
                    reason = f"`{text(walk.span)}()` does not come to what is in a plain container"
                    found = _suspect(analysis, root, holding, function, at, reason, reaching, gate="part")
                    place = f"{text(walk.base.span)}.{holding.name}"
                    yield replace(found, values={**found.values, "place": place})


def _families(analysis: Analysis, holding: Holding) -> frozenset[str]:
    """Classes of the objects in an attribute, and their ancestors."""
    return frozenset(each for kind in holding.classes for each in analysis.project.mro(kind))


def _closing(analysis: Analysis, function: FunctionEntry) -> Root | None:
    """A method that takes its object down for good, and calls a teardown of something that the object holds."""
    if function.kind != "method" or not is_final(function.facts.name):
        return None
    built = analysis.behaviors.built(function.name)
    me = function.facts.params[0].name if function.facts.params else ""
    ends = any(
        isinstance(call.callee, flow.Attr)
        and is_final(call.callee.name)
        and any(
            len(place) > 1 and place[0] == f"${me}"
            for place in analysis.behaviors.typed(function, call.callee.base).places
        )
        for call in function.calls
    )
    return Root(built, function, is_whole=True, is_general=True) if built is not None and ends else None


def _judge(
    analysis: Analysis,
    class_name: str,
    roots: Sequence[Root],
    holding: Holding,
    held: Sequence[Holding],
    ended: Sequence[Death],
) -> Suspect | None:
    """What the teardowns of a class do to the graphs that one of its attributes holds."""
    if not is_owned(analysis, class_name, holding, held, ended):
        return None
    reaching, missed = reaching_deaths(analysis, class_name, holding, held, ended)
    if missed:
        root = _told(analysis, class_name, roots, ended)
        if root is None:
            return None
        return _orphan(analysis, class_name, root, holding, missed, ended)
    for branch, words in by_platform(analysis, reaching):
        function = analysis.project.functions[branch.frame.function]
        if is_made_under(holding, words):
            continue
        at = test_span(function, branch.frame.span)
        reason = f"it releases them on one platform only, where `{function.module.source.text(at)}`"
        if not branch.taken:
            reason = f"it does not release them where `{function.module.source.text(at)}`"
        return _suspect(analysis, reaching[0].root, holding, function, at, reason, reaching, gate="platform")
    flag = dead_flag(analysis, class_name, reaching)
    if flag is not None:
        branch, attribute = flag
        function = analysis.project.functions[branch.frame.function]
        at = test_span(function, branch.frame.span)
        reason = f"it asks `{attribute}`, which nothing ever sets"
        return _suspect(analysis, reaching[0].root, holding, function, at, reason, reaching, gate="flag")
    late = asked_too_late(analysis, reaching)
    if late is not None:
        branch, given = late
        function = analysis.project.functions[branch.frame.function]
        at = test_span(function, branch.frame.span)
        where = "not " * (not branch.taken)
        reason = (
            f"it releases them only where `{where}{function.module.source.text(at)}`, which cannot be so after "
            f"`{given.function.module.source.text(given.bind.span)}`"
        )
        return _suspect(analysis, reaching[0].root, holding, function, at, reason, reaching, gate="part")
    other = test_of_another(analysis, class_name, holding, reaching)
    if other is not None:
        function = analysis.project.functions[other.frame.function]
        at = test_span(function, other.frame.span)
        where = "not " * (not other.taken)
        reason = (
            f"it releases them only where `{where}{function.module.source.text(at)}`, and they can be there without it"
        )
        return _suspect(analysis, reaching[0].root, holding, function, at, reason, reaching, gate="part")
    return None


def _told(analysis: Analysis, class_name: str, roots: Sequence[Root], ended: Sequence[Death]) -> Root | None:
    """The teardown that should have released graphs: the one that others of the class lead up to."""
    own = {
        death.root.behavior.key
        for death in ended
        if death.attribute or not death.place or death.place[0].startswith(_SHARED)
    }
    fitting = [root for root in roots if root.is_general and (root.is_whole or root.behavior.key in own)]
    inner = {
        callee.partition("|")[0]
        for root in fitting
        for method in own_methods(analysis, class_name, root)
        for node in method.nodes
        if isinstance(node, b.Calls)
        for callee in node.behaviors
    }

    def rank(root: Root) -> tuple[bool, bool, bool, int]:
        name = root.function.facts.name
        return (root.function.name in inner, not root.is_whole, name.startswith("_"), root.function.facts.span.start)

    return min(fitting, key=rank, default=None)


# ------------------------------------------------------------------------------------------------------------ reports


def _orphan(
    analysis: Analysis,
    class_name: str,
    root: Root,
    holding: Holding,
    missed: Sequence[str],
    ended: Sequence[Death],
) -> Suspect:
    """Graphs that no teardown reaches."""
    function = root.function
    at = function.facts.header
    inherited = function.owner != class_name and class_name not in analysis.project.mro(function.owner or "")
    if inherited and holding.owner not in analysis.project.mro(function.owner or ""):
        function, at = holding.function, holding.span  # a subclass adds what the teardown that it inherits cannot know
    here = [death for death in ended if death.root.behavior.key == root.behavior.key]
    sure = holding.is_made and (root.is_whole or bool(here))
    return _suspect(
        analysis,
        root,
        holding,
        function,
        at,
        "nothing in it reaches them",
        here,
        precision=None if sure else Precision.MEDIUM,
        missed=missed,
    )


def _suspect(
    analysis: Analysis,
    root: Root,
    holding: Holding,
    function: FunctionEntry,
    at: Span,
    reason: str,
    reaching: Sequence[Death],
    gate: str = "",
    precision: Precision | None = None,
    missed: Sequence[str] = (),
) -> Suspect:
    values = {
        "place": f"self.{holding.name}",
        "root": f"{root.function.facts.name}()",
        "reason": reason,
        "gate": gate,
        "release": release_of(analysis, holding, f"{root.behavior.receiver}.{holding.name}")
        if not gate and at == root.function.facts.header
        else "",
    }
    shown = [
        *_origin_steps(analysis, holding, missed),
        *(step(analysis, death.site.event._replace(effect=Effect.GRAPH_DEATH), 0) for death in reaching),
    ]
    steps = list({(each.path, each.span): each for each in reversed(shown)}.values())[::-1]
    return Suspect(
        "orphan-graphs",
        function.module.source.path,
        function.facts.span,
        at,
        tuple(steps[:MAX_STEPS]),
        {key: value for key, value in values.items() if value},
        None,
        precision,
    )


def _origin_steps(analysis: Analysis, holding: Holding, missed: Sequence[str]) -> Iterator[Step]:
    """Where the graphs are kept, and where they are captured."""
    yield Step(holding.function.module.source.path, holding.span, "kept", f"self.{holding.name} holds graphs")
    kept_by = list(missed or keepers(analysis, holding)) if holding.classes else [holding.owner]
    for keeper in kept_by:
        for each in holdings(analysis, keeper):
            if each.is_made and each.name != holding.name:
                path = each.function.module.source.path
                yield Step(path, each.span, "kept", f"graphs are kept in {keeper.rpartition('.')[2]}.{each.name}")
    for built in analysis.behaviors.all():
        entry = analysis.project.functions[built.function]
        if "|" in built.key or not any(entry.owner in analysis.project.mro(keeper) for keeper in kept_by):
            continue
        for node in built.nodes:
            if isinstance(node, b.Happens) and node.effect is Effect.CAPTURE:
                yield Step(entry.module.source.path, node.span, "capture", f"a capture begins: {node.label}")
                break


def _gate_suspect(analysis: Analysis, gate: Gate) -> Suspect:
    function = gate.function
    source = function.module.source
    asked = source.text(gate.call.args[0].span)
    if gate.near in gate.attributes:
        asked = f"{asked}.{gate.near}"
    if gate.lacking:
        names = sorted({each.rpartition(".")[2] for each in gate.lacking})
        have = "do not have" if len(names) > 1 else "does not have"
        reason = f"it asks for `{gate.name}`, which {' and '.join(names)} {have}"
    else:
        reason = f"it asks for `{gate.name}`, which no class has"
    if gate.near:
        reason += f"; `{gate.near}` is there"
    steps: list[Step] = []
    for name in gate.lacking:
        for each in holdings(analysis, name):
            path = each.function.module.source.path
            steps.append(Step(path, each.span, "kept", f"{name.rpartition('.')[2]}.{each.name} holds graphs"))
    steps += [
        Step(source.path, call.span, "graph_death", f"the release that does not run: {source.text(call.span)[:60]}")
        for call in function.calls
        if isinstance(call.callee, flow.Attr) and call.callee.name == gate.name
    ]
    values = {
        "place": asked,
        "root": f"{function.facts.name}()",
        "reason": reason,
        "gate": "name",
        "name": gate.name,
        "method": gate.near,
    }
    precision = None if gate.is_sure and gate.near else Precision.MEDIUM
    return Suspect(
        "orphan-graphs",
        source.path,
        function.facts.span,
        gate.call.span,
        tuple(steps[:MAX_STEPS]),
        {key: value for key, value in values.items() if value},
        None,
        precision,
    )


def confirm(suspect: Suspect, module: Module) -> Finding | None:
    """The finding, unless the reported place is no code any more."""
    from graphlint.codemod import confirmed

    if module.tree(suspect.function).statement(suspect.at) is None:
        return None
    return confirmed(suspect, module)


def fix(finding: Finding, modules: Modules) -> Fix | None:
    """Call the release of the graphs next to the others, free it of its gate, or let the gate ask for what is there."""
    from graphlint.codemod import Rewrite

    tree = modules[finding.path].tree(finding.function)
    rewrite = Rewrite(tree)
    title = {
        None: f"release the graphs of {finding.values['place']} there too",
        "platform": f"release the graphs of {finding.values['place']} on every platform",
        "name": f"ask for `{finding.values.get('method')}`",
    }.get(finding.values.get("gate"))
    change = {None: _wire, "platform": _free, "name": _rename}.get(finding.values.get("gate"))
    if change is None or title is None or not change(finding, tree, rewrite):
        return None
    return Fix(
        title=title,
        applicability=Applicability.UNSAFE,
        edits=rewrite.edits(),
        conditions=(f"no replay of these graphs comes after {finding.values['root']}", *_CONDITIONS),
    )


_CONDITIONS = ("their release can run where nothing was captured, and twice",)


def _deaths(finding: Finding, tree: Tree) -> list[Unit]:
    """The statements of the reported function through which graphs die."""
    spans = [
        each.span
        for each in finding.trace
        if each.effect == Effect.GRAPH_DEATH.value
        and each.path == finding.path
        and finding.function.contains(each.span)
    ]
    return [unit for unit in map(tree.statement, dict.fromkeys(spans)) if unit is not None]


def _wire(finding: Finding, tree: Tree, rewrite: Rewrite) -> bool:
    """Insert the release behind the others, or where the teardown's own work begins."""
    from graphlint.codemod import cst

    text = finding.values.get("release")
    function = tree.statement(finding.span)
    if not text or not isinstance(function, cst.FunctionDef):
        return False
    others = [_outermost(tree, unit) for unit in _deaths(finding, tree) if tree.function(unit) is function]
    if others:
        rewrite.insert_after(max(others, key=lambda unit: tree.spans[unit]), text)
        return True
    first = _first_deed(function)
    if first is None:
        return False
    rewrite.insert_before(first, text)
    return True


def _outermost(tree: Tree, unit: Unit) -> Unit:
    """The statement of the function's body that holds another one; of a `with` or `try`, the one in its block."""
    from graphlint.codemod import cst

    function = tree.function(unit)
    inside = [each for block, each in tree.path(unit) if function is None or function in tree.ancestors(block)]
    return next((each for each in inside if not isinstance(each, cst.With | cst.Try)), unit)


def _first_deed(function: cst.FunctionDef) -> Unit | None:
    """The first statement behind the docstring, early returns, and calls that wait or log."""
    from graphlint.codemod import cst, dotted, units

    for unit in units(function.body):
        match unit:
            case cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString()):
                continue
            case cst.Expr(value=cst.Call(func=func)) if (dotted(func) or "").rpartition(".")[2] in _WAITS:
                continue
            case cst.If(orelse=None, body=block) if all(isinstance(each, cst.Return) for each in units(block)):
                continue
            case cst.Assign(value=cst.Name(value="True" | "False")):
                continue
        return unit
    return None


def _free(finding: Finding, tree: Tree, rewrite: Rewrite) -> bool:
    """Take the release out of the branch."""
    from graphlint.codemod import cst

    gate = tree.statement(finding.span)
    if not isinstance(gate, cst.If) or gate.orelse is not None or not tree.spans[gate.test].contains(finding.span):
        return False
    if isinstance(tree.parents.get(gate), cst.If):
        return False  # an `elif`
    moved = [
        each for unit in _deaths(finding, tree) for block, each in tree.path(unit) if tree.parents.get(block) is gate
    ]
    if not moved:
        return False
    rewrite.move_before(list(dict.fromkeys(moved)), gate)
    return True


def _rename(finding: Finding, tree: Tree, rewrite: Rewrite) -> bool:
    """Ask for the method that is there, wherever the function asks for the other."""
    from graphlint.codemod import cst

    name, method = finding.values["name"], finding.values.get("method")
    if method is None:
        return False
    found = False
    for node in tree.spans:
        if isinstance(node, cst.SimpleString) and node.raw_value == name:
            rewrite.rename_string(node, method)
            found = True
        elif isinstance(node, cst.Attribute) and node.attr.value == name:
            rewrite.rename(node.attr, method)
    return found
