"""Lets the error of a guard against captures through a broad handler.

The reported place is the `except` line. A suspect's values:

    guard    name of the function that refuses
    raises   the refusals that end in the handler, one a line, tabs between: path, `start-end` of the `raise`, dotted
             name of what it raises, dotted name of its module
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from graphlint import behavior as b
from graphlint import codemod, flow
from graphlint.behavior import Behavior
from graphlint.edits import Applicability, Fix
from graphlint.effects import Effect
from graphlint.findings import MAX_STEPS, Finding, Precision, Step, Suspect
from graphlint.paths import Event, Refusal
from graphlint.source import Span
from graphlint.summaries import Analysis
from graphlint.values import Test, implies_capture
from graphlint.visiting import visit

_ERROR = "CaptureRefusedError"
_ERROR_TEXT = "Something was asked for while capturing that has to be made before."
_LOUD = ("exception", "error", "critical", "fatal", "print_exc", "print_exception", "_exit", "exit")
_LONGEST = 7
"""Most calls between a handler and the guard whose error it takes: past them a handler is there for everything."""


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    """Handlers that take a refusal to do something in a capture, and go on."""
    best: dict[tuple[str, Span], Suspect] = {}
    for root in analysis.behaviors.all():
        for node in root.nodes:
            if isinstance(node, b.Guarded) and node.handlers:
                for suspect in _in_try(analysis, root, node):
                    best.setdefault((suspect.path, suspect.at), suspect)
    yield from (best[place] for place in sorted(best))


def _in_try(analysis: Analysis, root: Behavior, node: b.Guarded) -> Iterator[Suspect]:
    guards = _guards(analysis, root, node)
    for handler in node.handlers:
        taken = [guard for guard in guards if handler is _taker(analysis, guard, node.handlers)]
        passed_on = _raises(analysis, root, handler) or _keeps(analysis, root, handler)
        if (
            taken
            and not passed_on
            and not _is_meant(analysis, handler, taken)
            and not _is_told(analysis, root, handler)
        ):
            yield _suspect(analysis, root, handler, taken)


def _guards(analysis: Analysis, root: Behavior, node: b.Guarded) -> list[Refusal]:
    """Refusals under a capture that leave the body of a `try`; none where the capture itself begins there."""
    found: list[Refusal] = []
    captures: list[Event] = []

    def see(event: Event) -> None:
        if isinstance(event.node, b.Happens) and event.node.effect is Effect.CAPTURE:
            captures.append(event)

    def refuse(refusal: Refusal) -> None:
        leaves = not any(_catches(analysis, handler, _error(analysis, refusal)) for handler in refusal.caught)
        if leaves and len(refusal.stack) <= _LONGEST and any(map(_holds_in_capture, refusal.guards)):
            found.append(refusal)

    visit(replace(root, node=node.body), analysis.behaviors.built, see, refuse)
    return [] if captures else found


def _holds_in_capture(test: Test) -> bool:
    """Whether a test is true for a capture: because of that alone, or of a lock as well (`self.locked or capturing()`)."""
    match test:
        case ("or", *inner):
            return any(map(_holds_in_capture, inner))
    return implies_capture(test)


def _taker(analysis: Analysis, guard: Refusal, handlers: Sequence[b.Handler]) -> b.Handler | None:
    return next((handler for handler in handlers if _catches(analysis, handler, _error(analysis, guard))), None)


def _error(analysis: Analysis, refusal: Refusal) -> str:
    """Class of what is raised; empty where nobody can tell."""
    if refusal.node.raises:
        return refusal.node.raises
    source = analysis.project.functions[refusal.stack[-1].function].module.source
    return "AssertionError" if source.text(refusal.stack[-1].span).startswith("assert") else ""


def _catches(analysis: Analysis, handler: b.Handler, error: str) -> bool:
    return handler.everything or not handler.types or any(name in _ancestors(analysis, error) for name in handler.types)


def _ancestors(analysis: Analysis, error: str) -> set[str]:
    """The class of an error and all that it derives from, by dotted names."""
    found = set(analysis.project.mro(error)) if error else set()
    for name in tuple(found):
        builtin = getattr(builtins, name.removeprefix("builtins."), None)
        if isinstance(builtin, type) and issubclass(builtin, BaseException):
            found |= {each.__name__ for each in builtin.__mro__}
    return found | {"Exception", "BaseException"}


def _is_meant(analysis: Analysis, handler: b.Handler, guards: Sequence[Refusal]) -> bool:
    """Whether a handler names the guard's own class, which nothing else is raised as."""
    own = {error for guard in guards if (error := _error(analysis, guard)) in analysis.project.classes}
    return bool(own) and own <= set(handler.types)


def _raises(analysis: Analysis, root: Behavior, handler: b.Handler) -> bool:
    """Whether a handler lets an error out, if only sometimes: somebody has thought of it."""
    found: list[Refusal] = []
    visit(replace(root, node=handler.node), analysis.behaviors.built, lambda _: None, found.append)
    return any(len(refusal.stack) == 1 for refusal in found)


def _keeps(analysis: Analysis, root: Behavior, handler: b.Handler) -> bool:
    """Whether a handler keeps the error itself, to raise or report it later."""
    waiting: list[flow.Flow] = [analysis.project.functions[root.function].lowered.flow]
    while waiting:
        each = waiting.pop()
        for found in each.handlers if isinstance(each, flow.Try) else ():
            if found.span == handler.span:
                return any(
                    isinstance(part, flow.Bind) and isinstance(part.value, flow.Name) and part.value.id == found.name
                    for part in _parts(found.body)
                )
        waiting += flow.children(each)
    return False


def _is_told(analysis: Analysis, root: Behavior, handler: b.Handler) -> bool:
    """Whether nothing falls back in silence: what the handler notes makes the function raise, or it is a destructor.

    A handler of a body that waits for the device is none for a capture either, in which that fails by itself.
    """
    entry = analysis.project.functions[root.function]
    if entry.facts.name == "__del__":
        return True
    for each in _parts(entry.lowered.flow):
        for found in each.handlers if isinstance(each, flow.Try) else ():
            if found.span == handler.span and isinstance(each, flow.Try):
                if any(flow.last_name(call) == "synchronize" for call in flow.calls(each.body)):
                    return True
                noted = {
                    part.target.id
                    for part in _parts(found.body)
                    if isinstance(part, flow.Bind) and isinstance(part.target, flow.Name)
                }
                return _raises_for(entry.lowered.flow, noted, handler.span.end)
    return False


def _raises_for(body: flow.Flow, noted: set[str], behind: int) -> bool:
    """Whether a test of what variables hold, or of what is made of them, raises behind a place."""
    known = set(noted)
    for each in _parts(body):
        if isinstance(each, flow.Bind) and isinstance(each.target, flow.Name) and each.value is not None:
            if each.span.start >= behind and known & flow.variables(each.value):
                known.add(each.target.id)
        elif isinstance(each, flow.Eval) and each.span.start >= behind and known & flow.variables(each.value):
            known |= flow.variables(
                each.value
            )  # a call that is given one of them, and puts it elsewhere: `all_gather(all, mine)`
        elif isinstance(each, flow.Alt) and each.span.start >= behind and known & flow.variables(each.test):
            if any(isinstance(part, flow.Exit) and part.kind == "raise" for part in _parts(each.then)):
                return True
    return False


def _parts(body: flow.Flow) -> Iterator[flow.Flow]:
    yield body
    for child in flow.children(body):
        yield from _parts(child)


def _is_loud(root: Behavior, handler: b.Handler) -> bool:
    """Whether a handler reports the error as one."""
    return any(label.rpartition(".")[2] in _LOUD for label, span in root.unresolved if handler.span.contains(span))


def _suspect(analysis: Analysis, root: Behavior, handler: b.Handler, guards: Sequence[Refusal]) -> Suspect:
    entry = analysis.project.functions[root.function]
    source = entry.module.source
    first = min(guards, key=lambda guard: len(guard.stack))
    steps: list[Step] = []
    for frame in first.stack[:-1]:
        module = analysis.project.functions[frame.function].module.source
        text = " ".join(module.text(frame.span).split())[:60]
        steps.append(Step(module.path, frame.span, "call", f"the body of the try calls {text}"))
    frame = first.stack[-1]
    module = analysis.project.functions[frame.function].module.source
    text = " ".join(module.text(frame.span).split())[:60]
    steps.append(
        Step(module.path, frame.span, Effect.IS_CAPTURING.value, f"refuses while a stream is captured: {text}")
    )
    start = handler.span.start
    at = Span(start, source.content.find(b":", _types_end(source.content, handler)) + 1 or handler.span.end)
    steps = [*steps[-(MAX_STEPS - 1) :], Step(source.path, at, "handler", "and the error ends here")]
    raises = []
    for guard in guards:
        where = guard.stack[-1]
        guarded = analysis.project.functions[where.function].module
        path, module_name = guarded.source.path, guarded.name
        raises.append("\t".join((path, f"{where.span.start}-{where.span.end}", _error(analysis, guard), module_name)))
    values = {"guard": frame.function.rpartition(".")[2], "raises": "\n".join(dict.fromkeys(raises))}
    if values["guard"] == "__init__":
        values["guard"] = frame.function.split(".")[-2]
    precision = Precision.LOW if _is_loud(root, handler) else None
    return Suspect("swallowed-guard", source.path, entry.facts.span, at, tuple(steps), values, None, precision)


def _types_end(content: bytes, handler: b.Handler) -> int:
    """Where the header of a handler can end at the earliest: its colon is the first one outside of brackets."""
    depth = 0
    for offset in range(handler.span.start, handler.span.end):
        byte = content[offset : offset + 1]
        depth += (byte in b"([{") - (byte in b")]}")
        if byte == b":" and depth == 0:
            return offset
    return handler.span.start


# ------------------------------------------------------------------------------------------------------------------ fix


def confirm(suspect: Suspect, module: codemod.Module) -> Finding | None:
    """The finding, unless the reported place is no statement any more."""
    if module.tree(suspect.function).statement(suspect.at) is None:
        return None
    return codemod.confirmed(suspect, module)


def fix(finding: Finding, modules: codemod.Modules) -> Fix | None:
    """Let the guard's error through in front of the handler, under a class of its own."""
    cst = codemod.cst
    guards = [_Guard(*line.split("\t")) for line in finding.values["raises"].split("\n")]
    tree = modules[finding.path].tree()
    handler = tree.enclosing(finding.span, cst.ExceptHandler)
    attempt = tree.parents.get(handler) if handler is not None else None
    function = tree.function(handler) if handler is not None else None
    if handler is None or not isinstance(attempt, cst.Try) or function is None:
        return None
    rewrites = {finding.path: codemod.Rewrite(tree)}  # by file; the definition of an error is a change of its own
    names: dict[str, str | None] = {}
    column = tree.source.position(tree.spans[attempt].start).column - 1
    for guard in guards:
        qualified = guard.error if _is_own(guard.error, modules) else _retyped(guard, modules, rewrites)
        named = qualified and codemod.reference(modules, finding.path, qualified, codemod.uses(function), column)
        if not named:
            return None
        names[named.expression] = named.statement
    for statement in filter(None, dict.fromkeys(names.values())):
        rewrites[finding.path].insert_before(attempt, f"{statement}\n")
    caught = next(iter(names)) if len(names) == 1 else f"({', '.join(names)})"
    rewrites[finding.path].add_handler(handler, f"except {caught}:\n    raise\n")
    return Fix(
        title="let the guard's error through",
        applicability=Applicability.UNSAFE,
        edits=tuple(edit for rewrite in rewrites.values() for edit in rewrite.edits()),
        conditions=("a capture that fell back without a word now raises: run what it needs once before",),
    )


@dataclass(frozen=True)
class _Guard:
    """A refusal: where it is raised, and as what."""

    path: str
    at: str
    error: str
    module: str

    @property
    def span(self) -> Span:
        start, _, end = self.at.partition("-")
        return Span(int(start), int(end))


def _is_own(error: str, modules: codemod.Modules) -> bool:
    """Whether an error's class is the project's: nobody else raises it."""
    return "." in error and not error.startswith(("builtins.", "torch.")) and _defines(error, modules)


def _defines(error: str, modules: codemod.Modules) -> bool:
    name = error.rpartition(".")[2].encode()
    return any(b"class " + name in modules[path].source.content for path in modules)


def _retyped(guard: _Guard, modules: codemod.Modules, rewrites: dict[str, codemod.Rewrite]) -> str | None:
    """Raise a class of its own, which derives from what is raised now; its name, or None where that cannot be."""
    cst = codemod.cst
    tree = rewrites[guard.path].tree if guard.path in rewrites else modules[guard.path].tree()
    raising = tree.statement(guard.span)
    if not isinstance(raising, cst.Raise) or not isinstance(raising.exc, cst.Call):
        return None
    if not isinstance(raising.exc.func, cst.Name):
        return None
    rewrite = rewrites.setdefault(guard.path, codemod.Rewrite(tree))
    rewrite.rename(raising.exc.func, _ERROR)
    body = list(codemod.units(tree.root))
    if not any(isinstance(unit, cst.ClassDef) and unit.name.value == _ERROR for unit in body):
        first = next((unit for unit in body if isinstance(unit, cst.ClassDef | cst.FunctionDef)), None)
        if first is None:
            return None
        definition = codemod.Rewrite(tree)
        text = f'class {_ERROR}({raising.exc.func.value}):\n    """{_ERROR_TEXT}"""\n'
        definition.define_before(first, text)
        rewrites.setdefault(f"{guard.path}:{_ERROR}", definition)
    return f"{guard.module}.{_ERROR}"
