"""Reports workspaces that are replaced although a captured graph may read them, and keeps what one reads.

A suspect's values:

    place       what is replaced, as the message names it
    how         `assign`, `item` or `resize`; `late`: a warm-up after the capture
    captured    "yes" where the project captures code that comes to the replacement
    holder      who holds it: `self`, `class NAME` (a class of the same file, by its qualified name there), `module` or
                `function START-END` (around the reported one); absent where it is held elsewhere
    attribute   its name there; for an item, the container's
    test        `start-end` of the `if` that decides whether it grows; absent where another function decides
    capturing   qualified name of the project's own test of a capture, callable without arguments; absent where it has
                none
    refuses     "yes" where growth inside a capture is refused already
    reset       `start-end` of the statement, in a method of the same object, that resets the last graph; absent where
                the object resets none
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphlint import behavior as b
from graphlint import codemod, flow
from graphlint.edits import Applicability, Edit, Fix
from graphlint.effects import Effect
from graphlint.findings import Finding, Precision, Severity, Step, Suspect
from graphlint.growth import Growth, growths
from graphlint.keeping import Runs, own_test, stores
from graphlint.source import Span
from graphlint.summaries import Analysis
from graphlint.typestate import place_text, step
from graphlint.vocabulary import words_in

_RULE = "workspace-growth"
_TEST = "torch.cuda.is_current_stream_capturing"
_ERROR = "WorkspaceGrowthError"
_WARM_UP = frozenset(("prewarm", "warm", "warming", "warmup"))
_MOST_LOCKED = 4
_MOST_CALLS = 4
_ERROR_TEXT = "Memory that a capture reads would have to grow in it: run the largest shape once before."


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    """Places that grow by replacement while somebody may still read what was there."""
    found = stores(analysis)
    runs = Runs(analysis, found)
    captures = any(Effect.CAPTURE in kinds for kinds in analysis.kinds.values())
    best: dict[tuple[str, Span], Suspect] = {}
    locked: list[Growth] = []
    for growth in growths(analysis, found, runs):
        if not growth.is_handled(runs):
            suspect = _suspect(analysis, growth, captures=captures)
            best.setdefault((suspect.path, suspect.at), suspect)
        elif growth.locks:
            locked.append(growth)
    for suspect in _late_warm_ups(analysis, locked, runs) if captures else ():
        best.setdefault((suspect.path, suspect.at), suspect)
    yield from (best[place] for place in sorted(best))


def _late_warm_ups(analysis: Analysis, locked: Sequence[Growth], runs: Runs) -> Iterator[Suspect]:
    """Calls of a warm-up, by its name, after a capture that leaves growth unlocked: notes, for the name is all that says it."""
    for growth in locked[:_MOST_LOCKED]:
        locking = _leading_to(runs, {name for lock in growth.locks for name in growth.lockers(lock)})
        for root in analysis.roots():
            if Effect.CAPTURE not in analysis.kinds[root.key]:
                continue
            unlocked = {
                node.span
                for node in root.nodes
                if isinstance(node, b.Calls) and any(_captures(analysis, key, locking) for key in node.behaviors)
            }
            entry = analysis.project.functions[root.function]
            path = entry.module.source.path
            for late, capture in _warmed_late(entry.lowered.flow, unlocked, []) if unlocked else ():
                steps = (
                    Step(path, capture, Effect.CAPTURE.value, "captures, and leaves what can grow unlocked"),
                    Step(path, late, "called", "runs other shapes, by its name"),
                    step(analysis, growth.event._replace(effect=Effect.WS_REPLACE), 0),
                )
                values = {"place": place_text(growth.place, analysis, growth.root), "how": "late"}
                function = entry.facts.span
                yield Suspect(_RULE, path, function, late, steps, values, Severity.NOTE, Precision.MEDIUM)


def _captures(analysis: Analysis, key: str, locking: frozenset[str]) -> bool:
    """Whether a function captures, as its name says as well, and does not come to what locks."""
    name = key.partition("|")[0]
    said = analysis.vocabulary.names.captures.intersection(words_in(name.rpartition(".")[2]))
    return bool(said) and name not in locking and Effect.CAPTURE in analysis.kinds.get(key, ())


def _leading_to(runs: Runs, functions: set[str]) -> frozenset[str]:
    """Some functions, and those that come to them in a few calls."""
    found = set(functions)
    waiting = list(functions)
    for _ in range(_MOST_CALLS):
        waiting = [caller.function for name in waiting for caller in runs.callers(name) if caller.function not in found]
        found.update(waiting)
    return frozenset(found)


def _warmed_late(body: flow.Flow, captures: set[Span], begun: list[Span]) -> Iterator[tuple[Span, Span]]:
    """Statements that call a warm-up, each with the capture before it on its way; `begun` are captures, and is added to."""
    spans = [call.span for expr in flow.operands(body) for call in flow.calls(flow.Eval(expr, expr.span))]
    if isinstance(body, flow.Eval) and isinstance(body.value, flow.Call) and begun and not captures.intersection(spans):
        if not _WARM_UP.isdisjoint(words_in(flow.last_name(body.value))):
            yield body.value.span, begun[-1]
    begun += [span for span in spans if span in captures]
    if isinstance(body, flow.Alt):
        then, other = list(begun), list(begun)
        yield from _warmed_late(body.then, captures, then)
        yield from _warmed_late(body.other, captures, other)
        begun[:] = other if len(other) > len(then) else then
        return
    for part in flow.children(body):
        yield from _warmed_late(part, captures, begun)


def _suspect(analysis: Analysis, growth: Growth, *, captures: bool) -> Suspect:
    entry = analysis.project.functions[growth.root.function]
    place = place_text(growth.place, analysis, growth.root)
    steps: list[Step] = [step(analysis, each._replace(effect=Effect.WS_RELEASE), 0) for each in growth.dropped[:2]]
    steps.append(step(analysis, growth.event._replace(effect=Effect.WS_REPLACE), 0))
    values = {"place": place, "how": growth.how}
    if growth.is_captured:
        values["captured"] = "yes"
    values |= _where(analysis, growth)
    return Suspect(
        _RULE,
        entry.module.source.path,
        entry.facts.span,
        growth.event.stack[0].span,
        tuple(steps),
        values,
        _severity(growth, captures=captures),
        _precision(analysis, growth, captures=captures),
    )


def _where(analysis: Analysis, growth: Growth) -> dict[str, str]:
    """What the rewrite wants to know; little where it has nothing to offer."""
    values: dict[str, str] = {}
    entry = analysis.project.functions[growth.root.function]
    head, *rest = growth.place
    if growth.dropped or len(growth.event.stack) > 1 or len(rest) != 1 or growth.test is None:
        return values
    if head == f"${growth.root.receiver}":
        values["holder"] = "self"
    elif (
        head.startswith("class:")
        and head[6:].startswith(f"{entry.module.name}.")
        and head[6:] in analysis.project.classes
    ):
        values["holder"] = f"class {head[6:].removeprefix(f'{entry.module.name}.')}"
    elif head == f"mod:{entry.module.name}":
        values["holder"] = "module"
    elif (
        head.startswith(("cell:", "mod:"))
        and (outer := analysis.project.functions.get(head.partition(":")[2])) is not None
    ):
        values["holder"] = f"function {outer.facts.span.start}-{outer.facts.span.end}"
    else:
        return values
    values["attribute"] = rest[0]
    values["test"] = f"{growth.test.start}-{growth.test.end}"
    if growth.is_refused:
        values["refuses"] = "yes"
    if (own := own_test(analysis, growth.root.function)) is not None:
        values["capturing"] = own
    if (
        values["holder"] == "self"
        and entry.owner is not None
        and (reset := _last_reset(analysis, entry.owner)) is not None
    ):
        values["reset"] = f"{reset.start}-{reset.end}"
    return values


def _last_reset(analysis: Analysis, owner: str) -> Span | None:
    """The statement, in one method of a class, that resets the last of its graphs."""
    methods = set(analysis.project.classes[owner].methods.values()) if owner in analysis.project.classes else set()
    found: dict[str, Span] = {}
    for root in (each for method in methods for each in analysis.roots_of(method)):
        for site in analysis.sites(root):
            node = site.event.node
            if site.effect is Effect.GRAPH_DEATH and isinstance(node, b.Happens) and len(site.event.stack) == 1:
                loop = site.event.loops[0].span if site.event.loops else node.span
                found[root.function] = max(found.get(root.function, loop), loop)
    return next(iter(found.values())) if len(found) == 1 else None


def _severity(growth: Growth, *, captures: bool) -> Severity | None:
    """A note where the files capture, and none of their captures is seen to come to the place or to read it.

    Where they capture nothing, it is one for a tensor that is resized for another shape, not for more, and not scratch by its
    name: state of a model, such as a scale that its first observation gives its shape.

    So it is where a function sets everything up anew, which whoever captures calls first; where the memory is made larger
    than it is asked for: what a floor holds, as a rule every call fits in; where only a capture replaces it; where it is
    given again with the very object that it was made from; where the call that makes it asks for no memory; and where the
    new memory begins with what the old one held, which is how sequences grow, not scratch.

    Most of these are asked for by eager code alone, or with one size for the life of the process: of the notes that
    were opened in six engines, 3 of 24 could be reached. To tell them apart takes somebody who knows the engine.
    """
    if growth.how == "resize" and not captures and not growth.is_outgrown and not _is_scratch(growth):
        return Severity.NOTE
    if growth.is_captured or (growth.how == "resize" and not growth.by_name):
        return Severity.ERROR
    if growth.how == "resize":
        return None  # a caller's, by its name
    if growth.has_floor or growth.is_set_up or growth.is_of_capture or growth.is_by_identity or not growth.is_allocated:
        return Severity.NOTE
    is_read = growth.is_read and growth.is_too_small
    if growth.carries_on:
        return Severity.NOTE
    if captures and not growth.knows_captures and not is_read:
        return Severity.NOTE
    return None


def _is_scratch(growth: Growth) -> bool:
    return growth.analysis.vocabulary.names.is_scratch(growth.place[-1])


def _precision(analysis: Analysis, growth: Growth, *, captures: bool) -> Precision:
    """How sure it is that a graph reads the place.

    Where the files capture nothing, the shape alone decides. Where they do, code that none of their captures is seen to
    reach has to show otherwise that it is theirs: by asking for a capture, by being shared, or by its name. What is named
    after work that engines run without a graph is in doubt unless captured code reads it.
    """
    if growth.how == "resize" or (growth.is_captured and (growth.is_too_small or growth.is_shared)):
        return Precision.HIGH
    if growth.is_read and growth.is_too_small:
        return Precision.MEDIUM
    names = analysis.vocabulary.names
    named = _is_scratch(growth)
    entry = analysis.project.functions[growth.root.function]
    about = (entry.module.name.rpartition(".")[2], entry.facts.name, growth.place[-1])
    if any(map(names.is_uncaptured, about)):
        return Precision.LOW
    shown = growth.knows_captures or (growth.by_size and ((growth.is_shared and not growth.is_of_a_call) or named))
    shown = shown or (growth.is_captured and (growth.is_of_size or growth.is_by_note))
    return Precision.MEDIUM if shown or not captures else Precision.LOW


# ------------------------------------------------------------------------------------------------------------------ fix


def confirm(suspect: Suspect, module: codemod.Module) -> Finding | None:
    """The finding, unless the reported place is no statement any more."""
    if module.tree(suspect.function).statement(suspect.at) is None:
        return None
    return codemod.confirmed(suspect, module)


def fix(finding: Finding, modules: codemod.Modules) -> Fix | None:
    """Mark what a capture is given, keep it when it is replaced, and refuse to grow inside a capture."""
    if "test" not in finding.values:
        return None
    growing = _Growing.find(finding, modules)
    if growing is None or not growing.write() or (error := growing.define_error()) is None:
        return None
    conditions = []
    if "refuses" not in finding.values:
        conditions.append("growth in a capture raises, on every rank alike: run the largest shape once before")
    if "reset" in finding.values:
        conditions.append("what a capture was given is kept until the graphs are reset, one block for each growth")
    else:
        life = "the object" if finding.values["holder"] == "self" else "the process"
        conditions.append(f"what a capture was given is kept for the life of {life}, one block for each growth")
    if growing.how == "resize":
        conditions.append("what the workspace held is not copied when it grows")
    title = "keep what a capture was given, and refuse to grow in one"
    return Fix(title, Applicability.UNSAFE, (*error, *growing.rewrite.edits()), tuple(conditions))


@dataclass
class _Growing:
    """The statements that a growth consists of, and the names of what is noted beside it."""

    finding: Finding
    tree: codemod.Tree
    rewrite: codemod.Rewrite
    how: str
    function: codemod.cst.FunctionDef
    statement: codemod.Unit
    """What replaces the memory."""
    branch: codemod.cst.If
    """What decides whether it does."""
    test: str
    """Call that says whether the stream is being captured."""
    place: str
    """The expression that is replaced."""
    base: str
    """What stands before the names of this object, class or module."""
    key: str
    """For an item, its key."""

    @classmethod
    def find(cls, finding: Finding, modules: codemod.Modules) -> _Growing | None:
        """The parts of a growth in the file; None where they are not of a shape that can be rewritten."""
        tree = modules[finding.path].tree()
        statement = tree.statement(finding.span)
        branch = tree.statement(_span(finding.values["test"]))
        function = tree.function(statement) if statement is not None else None
        if statement is None or function is None or not isinstance(branch, codemod.cst.If):
            return None
        target = _target(statement, finding.values["attribute"])
        named = codemod.reference(
            modules, finding.path, finding.values.get("capturing", _TEST), codemod.uses(function.body)
        )
        if target is None or named is None or named.statement is not None:
            return None
        how = finding.values["how"]
        if how == "resize" and isinstance(target, codemod.cst.Subscript):
            return None
        key = ""
        if isinstance(target, codemod.cst.Subscript):
            if not codemod.is_pure(target.value) or not all(codemod.is_pure(each) for each in _indices(target)):
                return None
            key = ", ".join(tree.root.code_for_node(each) for each in target.slice)
        base = _base(finding, tree, function, target)
        if base is None:
            return None
        place = tree.root.code_for_node(target)
        rewrite = codemod.Rewrite(tree)
        return cls(finding, tree, rewrite, how, function, statement, branch, f"{named.expression}()", place, base, key)

    @property
    def names(self) -> tuple[str, str]:
        """Of the mark and of the list: beside what they are about, and named after it."""
        stem = self.finding.values["attribute"]
        if not stem.startswith("_") and self.finding.values["holder"] != "module":
            stem = f"_{stem}" if self.finding.values["holder"] == "self" else stem
        stem = stem.lower()
        return f"{stem}_captured", f"{stem}_retired"

    def write(self) -> bool:
        """Ask for all changes; False where one of them has no place."""
        cst = codemod.cst
        mark, retired = (f"{self.base}{name}" for name in self.names)
        if any(name in self.tree.text for name in self.names):
            return False
        inside = next((block for block, _ in self.tree.path(self.statement) if self._holds(block)), None)
        block, outer = self._outermost()
        if inside is not None:
            refusal: codemod.Unit | None = next(codemod.units(inside))
        else:
            following = list(codemod.units(block))
            at = following.index(outer) + 1
            refusal = following[at] if at < len(following) and not self.branch.orelse else None
            if not isinstance(self.branch.body, cst.IndentedBlock) or not codemod.uses(self.branch.body).exits:
                return False
        if refusal is None or not self._declare() or not self._share():
            return False
        marking = f"{mark}.add({self.key})" if self.key else f"{mark} = True"
        if inside is not None:
            self.rewrite.insert_after(outer, f"if {self.test}:\n    {marking}\n")
        else:
            first = next(codemod.units(_body(self.branch)))
            self.rewrite.insert_before(first, f"if {self.test}:\n    {marking}\n")
        if "refuses" not in self.finding.values:
            message = f"{self.finding.symbol} cannot grow while capturing: run the largest shape once before"
            self.rewrite.insert_before(refusal, f'if {self.test}:\n    raise {_ERROR}("{message}")\n')
        if self.key:
            kept = f"if {self.key} in {mark}:\n    {retired}.append({self.place})\n    {mark}.discard({self.key})\n"
        else:
            kept = f"if {mark}:\n    {retired}.append({self.place})\n    {mark} = False\n"
        self.rewrite.insert_before(self.statement, kept)
        if self.how == "resize":
            self._allocate()
        if reset := self.finding.values.get("reset"):
            last = self.tree.statement(_span(reset))
            if last is not None:
                self.rewrite.insert_after(last, f"{retired}.clear()\n")
        return True

    def _holds(self, block: codemod.Block) -> bool:
        return self.branch in self.tree.ancestors(block) or block is self.branch.body

    def _outermost(self) -> tuple[codemod.Block, codemod.Unit]:
        """The `if` whose chain of `elif` the branch belongs to, and the block that it stands in."""
        block, unit = self.tree.path(self.branch)[-1]
        return block, unit

    def _declare(self) -> bool:
        """Set the mark and the list up where what they are about is."""
        cst = codemod.cst
        holder, attribute = self.finding.values["holder"], self.finding.values["attribute"]
        mark, retired = self.names
        empty = "set()" if self.key else "False"
        lines = f"{{0}}{mark} = {empty}\n{{0}}{retired} = []\n"
        if holder == "self":
            owner = next((o for o in self.tree.ancestors(self.function) if isinstance(o, cst.ClassDef)), None)
            init = owner and next(
                (
                    u
                    for u in codemod.units(_body(owner))
                    if isinstance(u, cst.FunctionDef) and u.name.value == "__init__"
                ),
                None,
            )
            if not init or not init.params.params:
                return False
            me = init.params.params[0].name.value
            anchor = _assigning(_body(init), attribute, me)
            if anchor is not None:
                self.rewrite.insert_after(anchor, lines.format(f"{me}."))
            else:
                self.rewrite.insert_before(_after_docstring(_body(init)), lines.format(f"{me}."))
            return True
        if holder.startswith("class "):
            body: codemod.Block | None = self._class_body(holder.removeprefix("class "))
        elif holder == "module":
            body = self.tree.root
        else:
            start, _, end = holder.removeprefix("function ").partition("-")
            outer = self.tree.statement(Span(int(start), int(end)))
            body = _body(outer) if isinstance(outer, cst.FunctionDef) else None
        anchor = _assigning(body, attribute) if body is not None else None
        if anchor is None:
            return False
        if isinstance(anchor, cst.AnnAssign):
            kind = "set" if self.key else "bool"
            lines = f"{{0}}{mark}: {kind} = {empty}\n{{0}}{retired}: list = []\n"
        self.rewrite.insert_after(anchor, lines.format(""))
        return True

    def _class_body(self, qualified: str) -> codemod.Block | None:
        body: codemod.Block | None = self.tree.root
        for name in qualified.split("."):
            if body is None:
                return None
            found = (u for u in codemod.units(body) if isinstance(u, codemod.cst.ClassDef) and u.name.value == name)
            definition = next(found, None)
            body = _body(definition) if definition is not None else None
        return body

    def _share(self) -> bool:
        """Let the function set a mark of the module; a closure's cannot be set without more than this."""
        holder = self.finding.values["holder"]
        if self.key or holder == "self" or holder.startswith("class "):
            return True
        if holder != "module":
            return False
        for unit in codemod.units(_body(self.function)):
            if isinstance(unit, codemod.cst.Global):
                self.rewrite.insert_after(unit, f"global {self.names[0]}\n")
                return True
        return False

    def define_error(self) -> tuple[Edit, ...] | None:
        """The error, unless the module has it: an edit of its own, the same for every growth of the module.

        None where the module defines nothing at its top, so that no place for it is known.
        """
        cst = codemod.cst
        body = list(codemod.units(self.tree.root))
        if "refuses" in self.finding.values:
            return ()
        if any(isinstance(unit, cst.ClassDef) and unit.name.value == _ERROR for unit in body):
            return ()
        first = next((unit for unit in body if isinstance(unit, cst.ClassDef | cst.FunctionDef)), None)
        if first is None:
            return None
        rewrite = codemod.Rewrite(self.tree)
        rewrite.define_before(first, f'class {_ERROR}(RuntimeError):\n    """{_ERROR_TEXT}"""\n')
        return rewrite.edits()

    def _allocate(self) -> None:
        """New memory in the place of the same memory, moved."""
        call = self.statement
        assert isinstance(call, codemod.cst.Expr)
        inner = call.value
        while isinstance(inner, codemod.cst.Call) and not _is_resize(inner):
            assert isinstance(inner.func, codemod.cst.Attribute)
            inner = inner.func.value
        assert isinstance(inner, codemod.cst.Call)
        size = self.tree.root.code_for_node(inner.args[0].value)
        self.rewrite.insert_before(self.statement, f"{self.place} = {self.place}.new_empty({size})\n")
        self.rewrite.delete(self.statement)


def _span(text: str) -> Span:
    start, _, end = text.partition("-")
    return Span(int(start), int(end))


def _is_resize(call: codemod.cst.BaseExpression) -> bool:
    cst = codemod.cst
    return isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "resize_"


def _target(statement: codemod.Unit, attribute: str) -> codemod.cst.BaseExpression | None:
    """The expression that is replaced: the target of an assignment, or what is resized."""
    cst = codemod.cst
    candidates: list[codemod.cst.BaseExpression] = []
    if isinstance(statement, cst.Assign):
        candidates = [target.target for target in statement.targets]
    elif isinstance(statement, cst.AnnAssign):
        candidates = [statement.target]
    elif isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call) and _is_resize(statement.value):
        assert isinstance(statement.value.func, cst.Attribute)
        candidates = [statement.value.func.value] if len(statement.value.args) == 1 else []
    for each in candidates:
        if isinstance(each, cst.Subscript):
            return each
        if isinstance(each, cst.Attribute) and each.attr.value == attribute and codemod.is_pure(each.value):
            return each
        if isinstance(each, cst.Name) and each.value == attribute:
            return each
    return None


def _indices(target: codemod.cst.Subscript) -> Iterator[codemod.cst.BaseExpression]:
    for element in target.slice:
        if isinstance(element.slice, codemod.cst.Index):
            yield element.slice.value


def _base(
    finding: Finding, tree: codemod.Tree, function: codemod.cst.FunctionDef, target: codemod.cst.BaseExpression
) -> str | None:
    """What stands before the names that are noted beside the place."""
    cst = codemod.cst
    holder = finding.values["holder"]
    holding = target.value if isinstance(target, cst.Subscript) else target
    if holder == "self":
        return f"{function.params.params[0].name.value}." if function.params.params else None
    if holder.startswith("class "):
        if isinstance(holding, cst.Attribute):
            return f"{tree.root.code_for_node(holding.value)}."
        return f"{holder.removeprefix('class ')}."
    return ""


def _assigning(body: codemod.Block, attribute: str, owner: str = "") -> codemod.Unit | None:
    """The statement of a block that first gives a name, or an attribute of `owner`, a value."""
    cst = codemod.cst
    for unit in codemod.units(body):
        targets = [each.target for each in unit.targets] if isinstance(unit, cst.Assign) else []
        targets += [unit.target] if isinstance(unit, cst.AnnAssign) else []
        for target in targets:
            if codemod.dotted(target) == (f"{owner}.{attribute}" if owner else attribute):
                return unit
    return None


def _after_docstring(body: codemod.Block) -> codemod.Unit:
    cst = codemod.cst
    found = list(codemod.units(body))
    is_docstring = isinstance(found[0], cst.Expr) and isinstance(found[0].value, cst.SimpleString) and len(found) > 1
    return found[1] if is_docstring else found[0]


def _body(definition: codemod.cst.FunctionDef | codemod.cst.ClassDef | codemod.cst.If) -> codemod.Block:
    body = definition.body
    assert isinstance(body, codemod.cst.IndentedBlock | codemod.cst.SimpleStatementSuite)
    return body
