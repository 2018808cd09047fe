"""Puts into a buffer's key what its memory depends on.

The reported place is the request. A suspect's values:

    place       what is asked for, as the message names it
    missing     what the key lacks, as the message names it
    kind        `text` where the registry takes names only, `any` where it takes what can be hashed
    requests    JSON: every place of the reported function whose key has to change, in their order, each an object with
                  key      [start, end] of the expression that is the key, or of the tuple that it is bound to, or of
                           the items of `table[a, b]`
                  parts    texts of expressions to add, in their order; they mean the right thing at that place
                  call     [start, end] of the call that requests; absent for an item of a dictionary
                  reserve  [start, end] of the argument that keeps the buffer from being displaced, or its keyword where
                           the call has none; absent where it is right
    device      text of the device that the registry has to allocate on; absent where the request says it
    parameter   name of a parameter that `parts` and `device` use and the function lacks; absent where it lacks none
    calls       JSON: all calls of the function, each an object with path, call ([start, end]) and value (text to pass)
    capturing   qualified name of the project's own test of a capture; absent where it has none
    constant    "yes" where the missing parts never change for one owner
    elsewhere   other places that name the buffer, one a line, each a text with its path and row; absent where there are none
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from graphlint import codemod, flow
from graphlint.combinations import Combinations
from graphlint.dependence import CURRENT, Dependent, Ingredient, Look, Lossy, Put, leaves
from graphlint.edits import Applicability, Fix
from graphlint.effects import Effect
from graphlint.facts import MODULE, Param
from graphlint.findings import Finding, Precision, Severity, Step, Suspect
from graphlint.namings import namings
from graphlint.project import FunctionEntry, Project
from graphlint.registries import ASPECTS, Registries, missing, roots, text
from graphlint.requests import Request, Requests
from graphlint.source import Source, Span
from graphlint.summaries import Analysis
from graphlint.values import Place

_TEST = "torch.cuda.is_current_stream_capturing"
_DEVICE = "torch.cuda.device"
_CONSTRUCTORS = frozenset(("__init__", "__post_init__", "__new__", "__attrs_post_init__"))
_SIZES = frozenset(("size", "numel", "nelement", "dim", "element_size"))
_OPTIONS = frozenset(("requires_grad", "pin_memory", "layout", "memory_format", "generator"))
_MOST_MAKERS = 24
_SECOND = re.compile(r"cuda:[1-9]\d*")


class _Request(NamedTuple):
    """A place whose key has to change."""

    key: Span
    parts: tuple[str, ...]
    call: Span | None
    reserve: Span | str | None

    @property
    def place(self) -> Span:
        return self.call or self.key


class _NoTextError(Exception):
    """There is no right text for a part of the rewrite."""


def suspects(analysis: Analysis) -> Iterator[Suspect]:
    """Requests whose key lacks what size, dtype or device of the buffer depend on."""
    registries = Registries(analysis)
    asked = Requests(registries)
    combinations = Combinations(analysis.behaviors)
    groups: dict[tuple[str, str, bool], list[Request]] = {}
    for registry in registries.all():
        for request in asked.of(registry):
            key = (request.function, registry.name.rpartition(".")[2], request.called is None)
            known = groups.setdefault(key, [])
            if all(each.span != request.span for each in known):
                known.append(request)
    for requests in groups.values():
        requests.sort(key=lambda each: each.span)
        values = _Plan(asked, requests).values()
        for request in requests:
            yield _suspect(asked, combinations, request, values)


def _suspect(asked: Requests, combinations: Combinations, request: Request, values: Mapping[str, str]) -> Suspect:
    registries, project = asked.registries, asked.project
    entry = project.functions[request.function]
    source = entry.module.source
    lacks = {aspect for aspect in ASPECTS if request.missing[aspect]}
    words = [text(each) for aspect in ASPECTS for each in sorted(_outermost_of(request.missing[aspect]), key=text)]
    name = request.arguments.get("name")
    place = _line(source, name.span if name is not None else request.span)
    slot = request.registry.slot
    if name is None and request.registry.single and slot is not None:
        place = ".".join((slot[0].rpartition(".")[2], slot[1])) if slot[0][:4] != "mod:" else slot[1]
    return Suspect(
        "unkeyed-buffer",
        source.path,
        _outermost(project, entry).facts.span,
        request.span,
        tuple(_trace(registries, request)),
        {**values, "place": place, "missing": ", ".join(dict.fromkeys(words))},
        _severity(asked, combinations, request, lacks),
        _precision(registries, request, lacks),
    )


def _severity(asked: Requests, combinations: Combinations, request: Request, lacks: set[str]) -> Severity:
    """An error where a buffer gives way, a warning where one of another kind is handed out; a note where that is in doubt.

    What grows with what its key and its test know, and lacks another part, is in doubt. So is, where the files capture, what
    is not seen to differ between two requests of one process: where no call in the files comes to the request; where its
    size is taken off a list that others fill, once for each of them; and where nothing gives way, unless the size is of a
    tensor that changes from call to call, or a capture is seen to ask.
    """
    registry = request.registry
    analysis = asked.registries.analysis
    displaces = registry.displaces and not registry.single and lacks != {"device"}
    if lacks == {"device"} and not _drives_devices(asked.registries, request):
        return Severity.NOTE  # most processes drive one
    if displaces and registry.fitted is not None:
        lacking = asked.lacking(request)
        if registry.outgrown and lacking.isdisjoint(registry.outgrown):
            return Severity.NOTE  # that it grows is no matter of the key
        displaces = not lacking.isdisjoint(registry.fitted)
    if not any(Effect.CAPTURE in kinds for kinds in analysis.kinds.values()):
        return Severity.ERROR if displaces else Severity.WARNING
    if not combinations.reaches(request.function, request.span) or _is_worked_off(asked.project, request):
        return Severity.NOTE
    if displaces:
        return Severity.ERROR
    functions = {request.function, registry.function, *(function for function, _ in request.calls)}
    captured = any(key.partition("|")[0] in functions for key in analysis.captured)
    return Severity.WARNING if lacks == {"device"} or captured or _changes(asked, request) else Severity.NOTE


def _is_worked_off(project: Project, request: Request) -> bool:
    """Whether the size is that of an item that the function takes out of a list as it goes."""
    entry = project.functions[request.function]
    bound: dict[str, list[flow.Expr]] = {}
    for statement in flow.statements(entry.lowered.flow):
        if isinstance(statement, flow.Bind) and isinstance(statement.target, flow.Name) and statement.value is not None:
            bound.setdefault(statement.target.id, []).append(statement.value)
    waiting = [each for each in (request.arguments.get("size"),) if each is not None]
    seen: set[str] = set()
    while waiting:
        match expr := waiting.pop():
            case flow.Name(id=name) if name not in seen:
                seen.add(name)
                waiting += bound.get(name, [])
            case (
                flow.Call(callee=flow.Attr(name="popleft"), args=()) | flow.Call(callee=flow.Attr(name="pop"), args=())
            ):
                return True
            case flow.Call(callee=flow.Attr(name="pop"), args=(flow.Lit(value=int()),)):
                return True
            case _:
                waiting += flow.subexpressions(expr)
    return False


def _changes(asked: Requests, request: Request) -> bool:
    """Whether a size that is missing is of a tensor that a function is handed at each call.

    Where a constructor asks too, it asks first: for what it was configured with.
    """
    if any(_is_of_tensor(asked, request.function, each, request.key) for each in leaves(request.missing["size"])):
        return True
    if request.called is not None:
        return False
    plain = {each[0][1:] for each in leaves(request.missing["size"]) if len(each) == 1}
    sites = list(asked.calls(request.function)) if plain else []
    return not any(caller.facts.name in _CONSTRUCTORS for caller, _ in sites) and any(
        _is_of_tensor(asked, caller.name, each, frozenset())
        for caller, given in sites
        for name in plain & given.keys()
        for each in leaves(given[name].sources)
    )


def _is_of_tensor(asked: Requests, function: str, source: Place, key: frozenset[Ingredient]) -> bool:
    """Whether a place is a size of a tensor; not if the key holds another field of the record that the tensor is in."""
    if "shape" not in source[1:] or not source[0].startswith("$"):
        return False
    entry = asked.project.functions[function]
    param = next((each for each in entry.facts.params if f"${each.name}" == source[0]), None)
    field = source[: source.index("shape", 1)]
    if len(field) > 1:
        is_self = entry.kind in ("method", "property") and param == entry.facts.params[0]
        return not is_self and all(each[:1] != field[:1] or each[: len(field)] == field for each in leaves(key))
    return param is None or param.annotation is None or flow.last_name(param.annotation) in ("", "Tensor")


def _outermost_of(sources: frozenset[Ingredient]) -> Iterator[Ingredient]:
    """Without the parts of others."""
    for each in sources:
        if not any(each != other and each[: len(other)] == other for other in sources):
            yield each


def _precision(registries: Registries, request: Request, lacks: set[str]) -> Precision:
    """How sure it is that two requests differ in what is missing."""
    if request.open:
        differs = _is_given(registries, request, lacks) or _are_made_differently(registries, request, lacks)
        return Precision.MEDIUM if differs else Precision.LOW
    if lacks == {"device"}:
        sure = _drives_devices(registries, request) or _is_told_device(registries, request)
        return Precision.MEDIUM if sure else Precision.LOW
    entry = registries.project.functions[request.function]
    me = entry.facts.params[0].name if entry.facts.params and entry.owner is not None else ""
    varying = roots(source for aspect in ("size", "dtype") for source in request.missing[aspect]) - {me}
    if entry.facts.name not in _CONSTRUCTORS:
        return Precision.HIGH if varying else Precision.MEDIUM
    # objects of one class in one process are mostly told the same: it takes a request that displaces to do harm
    return Precision.MEDIUM if varying or request.registry.displaces else Precision.LOW


def _is_told_device(registries: Registries, request: Request) -> bool:
    """Whether a function is handed the device at each call, with what it does put into the key."""
    entry = registries.project.functions[request.function]
    names = {param.name for param in entry.facts.params[entry.owner is not None :]}
    told = roots(each for each in request.missing["device"] if not isinstance(each, Lossy) and len(each) == 1) & names
    return entry.facts.name not in _CONSTRUCTORS and bool(told) and bool(roots(request.key) & (names - told))


def _is_given(registries: Registries, request: Request, lacks: set[str]) -> bool:
    """Whether a size or a dtype that is missing is of a tensor that a function is handed at each call."""
    entry = registries.project.functions[request.function]
    me = entry.facts.params[0].name if entry.facts.params and entry.owner is not None else ""
    if entry.facts.name in _CONSTRUCTORS:
        return False
    missed = (each for aspect in lacks - {"device"} for each in request.missing[aspect])
    return any(
        not isinstance(each, Lossy) and len(each) > 1 and each[0].startswith("$") and each[0] != f"${me}"
        for each in missed
    )


def _are_made_differently(registries: Registries, request: Request, lacks: set[str]) -> bool:
    """Whether the project makes several objects, each otherwise, of the class that a missing size or dtype is read from."""
    project = registries.project
    entry = project.functions[request.function]
    missed = {each[0][1:] for a in lacks - {"device"} for each in request.missing[a] if not isinstance(each, Lossy)}
    for param in entry.facts.params:
        if param.name not in missed:
            continue
        for t in project.annotation(entry.module, param.annotation):
            if t.name in project.classes and len(set(_makings(registries, t.name))) > 1:
                return True
    return False


def _makings(registries: Registries, class_name: str) -> Iterator[str]:
    """Texts of the constants that objects of a class are made with."""
    short = class_name.rpartition(".")[2]
    for entry in registries.analysis.behaviors.functions_with(short)[:_MOST_MAKERS]:
        for call in entry.calls:
            if flow.last_name(call) == short:
                given = [*call.args, *(value for _, value in call.keywords)]
                yield " ".join(entry.module.source.text(each.span) for each in given if isinstance(each, flow.Lit))


def _drives_devices(registries: Registries, request: Request) -> bool:
    """Whether a module on the way works on several devices in one process."""
    names = [request.function, *(function for function, _ in request.calls), request.registry.function]
    modules = {registries.project.functions[name].module.name for name in names if name}
    functions = (each for each in list(registries.project.functions.values()) if each.module.name in modules)
    return any(_names_devices(expr) for each in functions for expr in flow.expressions(each.lowered.flow))


def _names_devices(expr: flow.Expr) -> bool:
    """Whether an expression is about more than one device: their number, a second one, all of them."""
    match expr:
        case flow.Lit(value=str(text)):
            return bool(_SECOND.fullmatch(text))
        case flow.Text(parts=(flow.Lit(value=str(text)), *_)):
            return text == "cuda:"
        case flow.Call(callee=flow.Name(id="device_count") | flow.Attr(name="device_count")):
            return True
        case flow.Each(iterable=flow.Name() | flow.Attr() as iterable):
            return flow.last_name(iterable).endswith(("devices", "device_ids"))
    return False


def _trace(registries: Registries, request: Request) -> Iterator[Step]:
    """The request, the look into the store, the allocation."""
    functions = registries.project.functions
    for function, span in request.calls[:4] or ((request.function, request.span),):
        source = functions[function].module.source
        yield Step(source.path, span, "ws_get", f"a buffer is asked for: {_line(source, span)}")
    registry = request.registry
    if registry.function is None:
        return
    source = functions[registry.function].module.source
    if registry.look is not None:
        yield Step(source.path, registry.look, "ws_get", f"it is looked up by its key: {_line(source, registry.look)}")
    if registry.memory is not None:
        source = functions[registry.memory.function].module.source
        effect, verb = ("ws_replace", "replaced by") if registry.displaces else ("ws_alloc", "made as")
        yield Step(source.path, registry.memory.span, effect, f"it is {verb} {_line(source, registry.memory.span)}")


def _line(source: Source, span: Span) -> str:
    words = " ".join(source.text(span).split())
    return words if len(words) <= 60 else f"{words[:57]}..."


def _outermost(project: Project, entry: FunctionEntry) -> FunctionEntry:
    while entry.parent is not None and entry.parent in project.functions and not entry.parent.endswith(MODULE):
        entry = project.functions[entry.parent]
    return entry


# ---------------------------------------------------------------------------------------------------- for the rewrite


class _Plan:
    """What the rewrite of one function's requests needs to know."""

    def __init__(self, asked: Requests, requests: Sequence[Request]) -> None:
        self.asked = asked
        self.project = asked.project
        self.requests = requests
        self.entry = self.project.functions[requests[0].function]
        self.source = self.entry.module.source
        self.device: str | None = None
        self.parameter: str | None = None
        self.calls: list[dict[str, object]] = []
        self.constant = True

    def values(self) -> dict[str, str]:
        """The values that the module's docstring lists; none where there is no right text for one of the requests."""
        if self.requests[0].called is None:
            places, kind = self.keys(self.requests[0])
        else:
            if any(CURRENT in each.registry.needs["device"] for each in self.requests):
                self.find_device()
            places = [place for each in self.requests if (place := self.place(each)) is not None]
            literal = (isinstance(each.arguments.get("name"), flow.Lit | flow.Text) for each in self.requests)
            kind = "text" if all(literal) else "any"
            if len(places) < len(self.requests):
                return {}
        if not places:
            return {}
        values = {"kind": kind, "requests": json.dumps(places)}
        if self.device is not None:
            values["device"] = self.device
        if self.parameter is not None:
            values["parameter"] = self.parameter
            values["calls"] = json.dumps(self.calls)
        if self.constant:
            values["constant"] = "yes"
        if elsewhere := list(self.elsewhere()):
            values["elsewhere"] = "\n".join(elsewhere)
        return values

    def elsewhere(self) -> Iterator[str]:
        """Other places that name the buffer, as `path:row` and their text."""
        mine = {(each.function, each.span) for each in self.requests}
        found = dict.fromkeys(place for each in self.requests for place in namings(self.asked, each))
        for function, span in found:
            if (function, span) not in mine:
                source = self.project.functions[function].module.source
                yield f"`{_line(source, span)}` at {source.path}:{source.row(span.start)}"

    # ------------------------------------------------------------------------------------------------ at the caller

    def place(self, request: Request) -> dict[str, object] | None:
        """One request as the rewrite reads it."""
        name = request.arguments.get("name")
        if name is None:
            return None
        parts: dict[str, None] = {}
        for aspect in ASPECTS:
            if request.missing[aspect]:
                argument = request.arguments.get(aspect)
                if argument is None:
                    return None
                parts.update(dict.fromkeys(self.parts(argument, request.key)))
        if self.device is not None:
            parts[self.device] = None
        if not parts:
            return None
        self.note_constant(parts)
        place: dict[str, object] = {"key": list(name.span), "parts": list(parts), "call": list(request.span)}
        if request.reserve is not None and request.registry.displaces:
            flag = request.arguments.get("reserve")
            place["reserve"] = list(flag.span) if flag is not None else request.reserve
        return place

    def parts(self, expr: flow.Expr, key: frozenset[Ingredient]) -> Iterator[str]:
        """Texts of the variables, attributes and sizes in an expression that a key does not hold yet."""
        match expr:
            case flow.Name() | flow.Attr() | flow.Item(key=flow.Lit()):
                value = self.look_at(expr)
                if isinstance(expr, flow.Item) and value.place is None:
                    yield from self.parts(expr.base, key)
                elif missing(value.sources, key):
                    yield self.source.text(expr.span)
            case flow.Call(callee=flow.Attr(name=name), args=args) if name in _SIZES and all(
                isinstance(each, flow.Lit) for each in args
            ):
                if missing(self.look_at(expr).sources, key):
                    yield self.source.text(expr.span)
            case flow.Call(args=args, keywords=keywords):
                for each in (*args, *(value for _, value in keywords)):
                    yield from self.parts(each, key)
            case flow.Lit() | flow.Func():
                return
            case _:
                for each in flow.subexpressions(expr):
                    yield from self.parts(each, key)

    def look_at(self, expr: flow.Expr) -> Dependent:
        return self.asked.dependences.value(self.entry.name, expr)

    def note_constant(self, parts: Iterable[str]) -> None:
        """Parts are constants of the owner if its constructor alone sets them."""
        owner = self.entry.owner
        for part in parts:
            head, _, name = part.partition(".")
            if owner is None or head != "self" or not name or "." in name:
                self.constant = False
                return
            bound = self.asked.behaviors.field_bindings(owner).get(name, ())
            if not bound or any(function.facts.name not in _CONSTRUCTORS for function, _, _ in bound):
                self.constant = False

    # ------------------------------------------------------------------------------------------------------- devices

    def find_device(self) -> None:
        """A text for the device that the registry has to allocate on, in the function or through all of its callers."""
        found = self.device_in(self.entry, self.requests)
        if found is not None:
            self.device = found
            return
        if "device" in self.entry.facts.words - {"torch"} and any(p.name == "device" for p in self.entry.facts.params):
            return
        if not self.entry.facts.name.startswith("_") or self.entry.parent is not None:
            return
        calls: list[dict[str, object]] = []
        for caller, called in self.asked.callers(self.entry.name):
            given = self.device_in(caller, ())
            if given is None:
                return
            calls.append({"path": caller.module.source.path, "call": list(called.expr.span), "value": given})
        if calls:
            self.device = self.parameter = "device"
            self.calls = calls

    def device_in(self, entry: FunctionEntry, requests: Sequence[Request]) -> str | None:
        """A device that a function knows: a parameter, that of a tensor whose type or shape is asked, its object's."""
        for param in entry.facts.params:
            if param.name == "device" or _is_device(param.annotation):
                return param.name
        for request in requests:
            for aspect in ("dtype", "size"):
                argument = request.arguments.get(aspect)
                if isinstance(argument, flow.Attr) and argument.name in ("dtype", "shape"):
                    return f"{self.source.text(argument.base.span)}.device"
        is_method = entry.owner is not None and entry.kind == "method" and entry.facts.params
        if is_method and "device" in self.asked.behaviors.field_bindings(entry.owner or ""):
            return f"{entry.facts.params[0].name}.device"
        return None

    # --------------------------------------------------------------------------------------------------- at the store

    def keys(self, request: Request) -> tuple[list[dict[str, object]], str]:
        """Every key of the store that the registry makes, with what each of them lacks."""
        registry = request.registry
        reading = self.asked.dependences.reading(request.function)
        found: dict[Span, flow.Expr] = {}
        entries: list[Look | Put] = [*reading.looks, *reading.puts]
        for each in entries:
            if each.held.slot == registry.slot and each.function == request.function and each.key is not None:
                expr = self.bound(each.key)
                found[expr.span] = expr
        memory = registry.memory
        if not found or memory is None or memory.function != request.function:
            return [], "any"
        first = min(span.start for span in found)
        parts = list(dict.fromkeys(self.made_of(memory.span, request.key, first)))
        if not parts:
            return [], "any"
        self.note_constant(parts)
        texts = all(isinstance(expr, flow.Lit | flow.Text) for expr in found.values())
        return [{"key": list(span), "parts": parts} for span in sorted(found)], "text" if texts else "any"

    def bound(self, key: flow.Expr) -> flow.Expr:
        """What a variable that holds the key is bound to."""
        if not isinstance(key, flow.Name):
            return key
        values = [bind.value for bind in self.binds(key.id)]
        return values[0] if len(values) == 1 and values[0] is not None else key

    def binds(self, name: str) -> list[flow.Bind]:
        return [
            each
            for each in flow.statements(self.entry.lowered.flow)
            if isinstance(each, flow.Bind) and isinstance(each.target, flow.Name) and each.target.id == name
        ]

    def made_of(self, span: Span, key: frozenset[Ingredient], before: int) -> Iterator[str]:
        """Parts of an allocation's arguments that a key lacks, as they can be written where the key is made."""
        for call in flow.expressions(self.entry.lowered.flow):
            if isinstance(call, flow.Call) and call.span == span:
                for argument in (*call.args, *(value for name, value in call.keywords if name not in _OPTIONS)):
                    for part in self.parts(argument, key):
                        yield from self.early(part, key, before)

    def early(self, part: str, key: frozenset[Ingredient], before: int) -> Iterator[str]:
        """A part, or where it is bound too late what it is bound to is made of."""
        binds = self.binds(part)
        if all(bind.span.start < before for bind in binds):
            param = next((p for p in self.entry.facts.params if p.name == part), None)
            yield f"tuple({part})" if param is not None and not binds and _is_sequence(param) else part
        elif len(binds) == 1 and binds[0].value is not None:
            yield from self.parts(binds[0].value, key)


def _is_device(annotation: flow.Expr | None) -> bool:
    return isinstance(annotation, flow.Attr) and annotation.name == "device"


def _is_sequence(param: Param) -> bool:
    """Whether a parameter can be a list, which no key can hold."""
    annotation = param.annotation
    base = annotation.base if isinstance(annotation, flow.Item) else annotation
    name = base.name if isinstance(base, flow.Attr) else base.id if isinstance(base, flow.Name) else ""
    return name in ("Sequence", "List", "list", "Iterable") or (annotation is None and "shape" in param.name)


def confirm(suspect: Suspect, module: codemod.Module) -> Finding | None:
    """The finding, unless the reported place is no statement any more."""
    if module.tree(suspect.function).statement(suspect.at) is None:
        return None
    return codemod.confirmed(suspect, module)


def fix(finding: Finding, modules: codemod.Modules) -> Fix | None:
    """Extend the keys, allocate on the right device, and keep what a capture has seen."""
    requests = list(_requests(finding))
    if not requests:
        return None
    rewrites = codemod.Rewrites(modules)
    try:
        _extend_keys(rewrites[finding.path], requests, takes_any=finding.values.get("kind") == "any")
        _reserve(finding, modules, rewrites[finding.path], requests)
        _change_device(finding, modules, rewrites[finding.path], requests)
        _pass_parameter(finding, rewrites)
    except _NoTextError:
        return None
    conditions = [f"{each} has to name it alike" for each in finding.values.get("elsewhere", "").splitlines()]
    if finding.values.get("constant") != "yes":
        conditions.append("every size that is asked for keeps a buffer of its own for the process")
    return Fix(
        title="name the buffer by all that its memory depends on",
        applicability=Applicability.UNSAFE if conditions else Applicability.SAFE,
        edits=rewrites.edits(),
        conditions=tuple(conditions),
    )


def _requests(finding: Finding) -> Iterator[_Request]:
    for each in json.loads(finding.values.get("requests", "[]")):
        call, reserve = each.get("call"), each.get("reserve")
        yield _Request(
            Span(*each["key"]),
            tuple(each["parts"]),
            Span(*call) if call is not None else None,
            Span(*reserve) if isinstance(reserve, list) else reserve,
        )


def _statement(tree: codemod.Tree, span: Span) -> codemod.Unit:
    """The statement of a function that holds a place."""
    unit = tree.statement(span)
    if unit is None or tree.function(unit) is None:
        raise _NoTextError
    return unit


def _used(tree: codemod.Tree, unit: codemod.Unit) -> codemod.Uses:
    return codemod.uses(tree.function(unit) or tree.root)


def _expression(tree: codemod.Tree, span: Span) -> codemod.cst.BaseExpression:
    node = tree.node_at(span, codemod.cst.BaseExpression)  # type: ignore[type-abstract] # any expression
    if node is None:
        raise _NoTextError
    return node


# ---------------------------------------------------------------------------------------------------------------- keys


def _extend_keys(rewrite: codemod.Rewrite, requests: Sequence[_Request], *, takes_any: bool) -> None:
    tree = rewrite.tree
    if any(_items(tree, request.key) is not None for request in requests):
        for request in requests:
            item = _items(tree, request.key)
            if item is None or not takes_any:
                raise _NoTextError
            for part in request.parts:
                rewrite.add_index(item, part)
        return
    keys = [(_expression(tree, request.key), request.parts) for request in requests]
    shared = {(_text(tree, key), parts) for key, parts in keys}
    if takes_any and len(keys) > 1 and len(shared) == 1 and not isinstance(keys[0][0], codemod.cst.Tuple):
        first = _statement(tree, requests[0].key)
        used = _used(tree, first)
        ((text, parts),) = shared
        name = next(name for name in ("key", "buffer_key", "whole_key") if name not in used.roots | used.binds)
        rewrite.insert_before(first, f"{name} = ({', '.join((text, *parts))})\n")
        for key, _ in keys:
            rewrite.replace(key, name)
        return
    for key, parts in keys:
        rewrite.replace(key, _tuple(tree, key, parts) if takes_any else _name(tree, key, parts))


def _items(tree: codemod.Tree, key: Span) -> codemod.cst.Subscript | None:
    """The item whose several parts are the key: `table[a, b]`."""
    item = tree.enclosing(key, codemod.cst.Subscript)
    if item is None or len(item.slice) < 2:
        return None
    parts = [tree.spans[element] for element in item.slice]
    return item if parts[0].start == key.start and tree.spans[item.slice[-1].slice].end == key.end else None


def _text(tree: codemod.Tree, node: codemod.cst.CSTNode) -> str:
    return tree.source.text(tree.spans[node])


def _tuple(tree: codemod.Tree, key: codemod.cst.BaseExpression, parts: Sequence[str]) -> str:
    """The key as a tuple with more items."""
    if isinstance(key, codemod.cst.Tuple):
        text = ", ".join((*(_text(tree, element) for element in key.elements), *parts))
        return text if key.lpar else f"({text})"
    return f"({', '.join((_text(tree, key), *parts))})"


def _name(tree: codemod.Tree, key: codemod.cst.BaseExpression, parts: Sequence[str]) -> str:
    """The key as a text with more parts.

    Raises:
        _NoTextError: its quotes would end inside of a part, which Python before 3.12 cannot read.
    """
    tail = "".join(f"_{{{part}}}" for part in parts)
    text = _text(tree, key)
    if isinstance(key, codemod.cst.SimpleString) and "b" not in key.prefix:
        prefix, quote = f"f{key.prefix.replace('u', '')}", key.quote
        inside = key.raw_value.replace("{", "{{").replace("}", "}}")
    elif isinstance(key, codemod.cst.FormattedString):
        prefix, quote = key.prefix, key.end
        inside = text[len(key.start) : len(text) - len(key.end)]
    else:
        prefix, quote, inside = "f", "'" if '"' in text else '"', ""
        tail = f"{{{text}}}{tail}"
    if quote[0] in tail or "\\" in tail:
        raise _NoTextError
    return f"{prefix}{quote}{inside}{tail}{quote}"


# ----------------------------------------------------------------------------------------------- reservation and device


def _reserve(
    finding: Finding, modules: codemod.Modules, rewrite: codemod.Rewrite, requests: Sequence[_Request]
) -> None:
    """Keep what a capture asks for: the capture is asked at the request, and once for all of several."""
    tree = rewrite.tree
    changing = [request for request in requests if request.reserve is not None]
    if not changing:
        return
    first = _statement(tree, changing[0].place)
    used = _used(tree, first)
    test = codemod.reference(modules, finding.path, finding.values.get("capturing", _TEST), used)
    if test is None:
        raise _NoTextError
    if test.statement:
        rewrite.insert_before(first, f"{test.statement}\n\n")
    flag = f"{test.expression}()"
    if len(changing) > 1 and "capturing" not in used.roots | used.binds:
        rewrite.insert_before(first, f"capturing = {flag}\n")
        flag = "capturing"
    for request in changing:
        if isinstance(request.reserve, Span):
            rewrite.replace(_expression(tree, request.reserve), flag)
        elif isinstance(call := _expression(tree, request.place), codemod.cst.Call):
            rewrite.add_argument(call, flag, request.reserve)


def _change_device(
    finding: Finding, modules: codemod.Modules, rewrite: codemod.Rewrite, requests: Sequence[_Request]
) -> None:
    """Put the requests under their device: under one header if they share a block."""
    device = finding.values.get("device")
    if device is None:
        return
    tree = rewrite.tree
    statements = list(dict.fromkeys(_statement(tree, request.place) for request in requests))
    context = codemod.reference(modules, finding.path, _DEVICE, _used(tree, statements[0]))
    if context is None or context.statement is not None:
        raise _NoTextError
    header = f"with {context.expression}({device}):"
    if len({tree.path(unit)[-1][0] for unit in statements}) == 1:
        rewrite.wrap(statements[0], statements[-1], header)
        return
    for unit in statements:
        rewrite.wrap(unit, unit, header)


def _pass_parameter(finding: Finding, rewrites: codemod.Rewrites) -> None:
    """Give the function the parameter that it lacks, and pass it in all calls."""
    name = finding.values.get("parameter")
    if name is None:
        return
    rewrite = rewrites[finding.path]
    function = rewrite.tree.function(_statement(rewrite.tree, finding.span))
    assert function is not None
    keyword = None if codemod.takes_positional(function) else name
    try:
        rewrite.add_parameter(function, name)
    except ValueError as error:
        raise _NoTextError from error
    for each in json.loads(finding.values.get("calls", "[]")):
        call = _expression(rewrites[each["path"]].tree, Span(*each["call"]))
        if not isinstance(call, codemod.cst.Call) or any(argument.star for argument in call.args):
            raise _NoTextError
        rewrites[each["path"]].add_argument(call, each["value"], keyword)
