"""Modules together: which name means what, which class has which attributes, which function a call reaches.

Nothing here runs code or knows an effect. Names that lead out of the files that were read keep their dotted spelling
(`torch.cuda.graph`), and a relative import that leaves them is written with a question mark (`?.memory.drop`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from graphlint import facts, flow
from graphlint.facts import MODULE, Attribute, Class, Facts, Function, Lowered
from graphlint.flow import Expr
from graphlint.source import Source, Span
from graphlint.syntax import ParseError
from graphlint.values import CONTAINERS, UNKNOWN, Symbol, Type
from graphlint.words import COMMON_METHODS

_ABSTRACT_CONTAINERS = {
    "List": "list", "Dict": "dict", "Set": "set", "FrozenSet": "set", "Tuple": "tuple", "Sequence": "list",
    "MutableSequence": "list", "Iterable": "list", "Iterator": "iterator", "Collection": "list", "Mapping": "dict",
    "MutableMapping": "dict", "Deque": "deque", "DefaultDict": "dict", "OrderedDict": "dict", "defaultdict": "dict",
    "Generator": "iterator", "WeakSet": "set", "WeakKeyDictionary": "dict", "WeakValueDictionary": "dict",
    "Counter": "dict", "AbstractSet": "set", "deque": "list",
}  # fmt: skip
_TRANSPARENT = frozenset(("Optional", "Union", "ClassVar", "Final", "Annotated", "Required", "NotRequired", "InitVar"))


@dataclass
class Module:
    """One file and its names."""

    name: str
    source: Source
    facts: Facts
    is_package: bool = False
    scope: dict[str, Symbol] = field(default_factory=dict)
    """Module-level names that are imports, classes or functions."""
    variables: dict[str, list[flow.Bind]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)


@dataclass
class ClassEntry:
    """A class of the project."""

    name: str
    module: Module
    facts: Class
    methods: dict[str, str] = field(default_factory=dict)
    """Method name to the function's qualified name."""
    setters: dict[str, str] = field(default_factory=dict)
    """Property name to the function that an assignment runs."""
    attributes: dict[str, Attribute] = field(default_factory=dict)


_MEMOS = frozenset(("lru_cache", "cache"))
_ENUMERATIONS = frozenset(("Enum", "IntEnum", "StrEnum"))
BOUNDED = frozenset(("LRUCache", "LFUCache", "TTLCache", "TLRUCache", "FIFOCache", "RRCache", "MRUCache"))
"""Classes of caches that hold so many items and no more."""


@dataclass
class FunctionEntry:
    """A function of the project. `name` is its module's dotted name plus its qualified name there."""

    name: str
    module: Module
    facts: Function
    parent: str | None = None
    """Name of the function that a nested one is defined in."""
    wrapped_in: tuple[Expr, ...] = ()
    """What its module calls with it, as if it were a decorator: `table = lru_cache(8)(make_table)`."""

    @cached_property
    def lowered(self) -> Lowered:
        if self.facts.flow is not None:
            return Lowered(self.facts.flow, (), self.facts.outer, self.facts.is_generator)
        return facts.lower(self.module.source, self.facts)

    @cached_property
    def calls(self) -> tuple[flow.Call, ...]:
        """Every call in its text, those in other calls too; not those of the functions in it."""
        return tuple(flow.calls(self.lowered.flow))

    @cached_property
    def owner(self) -> str | None:
        """The class that it is a method of."""
        return f"{self.module.name}.{self.facts.owner}" if self.facts.owner else None

    @cached_property
    def kind(self) -> str:
        """function, method, classmethod (`__new__` is given the class, too), staticmethod or property."""
        if self.facts.owner is None:
            return "function"
        for decorator in self.facts.decorators:
            match decorator:
                case flow.Name(id="classmethod" | "staticmethod" | "property" as kind):
                    return kind
                case flow.Name(id="cached_property") | flow.Attr(name="cached_property" | "getter"):
                    return "property"
        return "classmethod" if self.facts.name == "__new__" else "method"

    @cached_property
    def memo(self) -> str | None:
        """Who keeps what it returns: `function` (`lru_cache`: for the process), `property` (for its object), or nobody."""
        kinds = {"lru_cache": "function", "cache": "function", "cached": "function", "cached_property": "property"}
        return next((kinds[name] for name, _ in self._memos), None)

    @cached_property
    def memo_bound(self) -> Span | None:
        """The decorator that keeps a bounded number of the values that it returns, the oldest first to go."""
        for name, decorator in self._memos:
            given = (
                [*decorator.args, *(v for k, v in decorator.keywords if k == "maxsize")]
                if isinstance(decorator, flow.Call)
                else []
            )
            if name == "cached":
                if given and flow.last_name(given[0]) in BOUNDED:
                    return decorator.span
            elif name == "lru_cache" and not (given and isinstance(given[0], flow.Lit) and given[0].value is None):
                return decorator.span
        return None

    @property
    def _memos(self) -> Iterator[tuple[str, Expr]]:
        """Decorators of functools that keep values, by their names there."""
        for decorator in (*self.facts.decorators, *self.wrapped_in):
            callee = decorator.callee if isinstance(decorator, flow.Call) else decorator
            if not isinstance(callee, flow.Name | flow.Attr):
                continue
            last = callee.id if isinstance(callee, flow.Name) else callee.name
            symbol = self.module.scope.get(last) if isinstance(callee, flow.Name) else None
            name = symbol.name.rpartition(".")[2] if symbol is not None and symbol.kind == "import" else last
            foreign = symbol is not None and symbol.name != "functools.cache"
            if (
                name in ("lru_cache", "cached_property")
                or (name == "cache" and not foreign)
                or (
                    name == "cached"
                    and (symbol.name if symbol is not None else flow.dotted_text(callee)).startswith("cachetools")
                )
            ):
                yield name, decorator

    @cached_property
    def is_context_manager(self) -> bool:
        return any(
            isinstance(d, flow.Name | flow.Attr)
            and (d.id if isinstance(d, flow.Name) else d.name) in ("contextmanager", "asynccontextmanager")
            for d in self.facts.decorators
        )


@dataclass(frozen=True)
class Problem:
    """A file that could not be read as Python."""

    path: str
    offset: int
    message: str
    newer: bool


class Project:
    """All modules of one source tree."""

    def __init__(self) -> None:
        self.modules: dict[str, Module] = {}
        self.by_path: dict[str, Module] = {}
        self.classes: dict[str, ClassEntry] = {}
        self.functions: dict[str, FunctionEntry] = {}
        self.problems: list[Problem] = []
        self.subclasses: dict[str, list[str]] = {}
        self.methods_named: dict[str, list[str]] = {}
        self._mro: dict[str, tuple[str, ...]] = {}
        self._packages: set[str] = set()
        self._resolving: set[tuple[str, str]] = set()
        self._resolved: dict[str, Symbol] = {}
        self._overriders: dict[tuple[str, str], tuple[str, ...]] = {}

    # ------------------------------------------------------------------------------------------------- building

    def add(self, name: str, source: Source, found: Facts) -> None:
        """Take in one module."""
        is_package = os.path.basename(source.path) == "__init__.py"
        module = Module(name, source, found, is_package)
        self.modules[name] = self.by_path[source.path] = module
        for function in found.functions:
            full = _full_name(name, function)
            entry = FunctionEntry(full, module, function)
            self.functions[full] = entry
            if function.owner is None and "." not in function.qualname and function.qualname != MODULE:
                module.scope[function.qualname] = Symbol("function", full)
        for each in found.classes:
            full = f"{name}.{each.qualname}"
            entry_ = ClassEntry(full, module, each)
            entry_.attributes = {attribute.name: attribute for attribute in each.attributes}
            self.classes[full] = entry_
            if "." not in each.qualname:
                module.scope[each.qualname] = Symbol("class", full)
        for function in found.functions:
            if function.owner is not None:
                owner = self.classes.get(f"{name}.{function.owner}")
                full = _full_name(name, function)
                if owner is not None and full.endswith(_ACCESSORS):
                    if full.endswith(".setter"):
                        owner.setters[function.name] = full
                elif owner is not None:
                    owner.methods.setdefault(function.name, full)
                    self.methods_named.setdefault(function.name, []).append(owner.name)
        for alias, target, member, level, _ in found.imports:
            dotted = self.absolute(module, target, level)
            if alias == "*":
                module.stars.append(dotted)
            else:
                full = f"{dotted}.{member}" if member else dotted
                module.scope.setdefault(alias, Symbol("import", full))
        for statement in flow.statements(self.functions[f"{name}.{MODULE}"].facts.flow or flow.NOTHING):
            for bind in flow.parted(statement) if isinstance(statement, flow.Bind) else ():
                if isinstance(bind.target, flow.Name):
                    module.variables.setdefault(bind.target.id, []).append(bind)
            if isinstance(statement, flow.Bind) and isinstance(statement.target, flow.Name):
                match statement.value:
                    case flow.Call(callee=around, args=(flow.Name(id=inner),)) if flow.last_name(around) in _MEMOS:
                        if (wrapped := self.functions.get(f"{name}.{inner}")) is not None:
                            wrapped.wrapped_in += (around,)

    def finish(self) -> None:
        """Link bases once every module is in."""
        self._packages = {name.partition(".")[0] for name in self.modules}
        for entry in self.classes.values():
            for base in self.bases(entry.name):
                self.subclasses.setdefault(base, []).append(entry.name)

    def absolute(self, module: Module, target: str, level: int) -> str:
        """Dotted name of an import's target."""
        if level == 0:
            head = target.partition(".")[0]
            if head not in self.modules and "." in module.name:
                sibling = f"{module.name.rpartition('.')[0]}.{head}"
                if sibling in self.modules:  # a script that imports its neighbour
                    return f"{module.name.rpartition('.')[0]}.{target}"
            return target
        parts = module.name.split(".")
        keep = len(parts) - level + (1 if module.is_package else 0)
        if keep <= 0:
            return f"?.{target}" if target else "?"
        base = ".".join(parts[:keep])
        return f"{base}.{target}" if target else base

    # ---------------------------------------------------------------------------------------------------- names

    def resolve(self, dotted: str) -> Symbol:
        """What a dotted name means, imports followed."""
        known = self._resolved.get(dotted)
        if known is not None:
            return known
        outermost = not self._resolving and bool(self._packages)
        key = ("", dotted)
        if key in self._resolving:
            return Symbol("external", dotted)
        self._resolving.add(key)
        try:
            found = self._resolve(dotted)
        finally:
            self._resolving.discard(key)
        if outermost:  # all modules are in, and no cycle cut the answer short
            self._resolved[dotted] = found
        return found

    def _resolve(self, dotted: str) -> Symbol:
        if dotted in self.modules:
            return Symbol("module", dotted)
        head, tail = dotted, ""
        while head and head not in self.modules:
            head, _, last = head.rpartition(".")
            tail = f"{last}.{tail}" if tail else last
        if not head:
            return Symbol("module" if dotted in self._packages else "external", dotted)
        symbol = Symbol("module", head)
        for part in tail.split("."):
            symbol = self.member(symbol, part)
        return symbol

    def is_enumeration(self, class_name: str) -> bool:
        """Whether the attributes of a class are constants, each another one."""
        return any(each.rpartition(".")[2] in _ENUMERATIONS for each in self.mro(class_name)[1:])

    def member(self, symbol: Symbol, name: str) -> Symbol:
        """`symbol.name`, where symbol is a module or a class."""
        if symbol.kind == "external":
            return Symbol("external", f"{symbol.name}.{name}")
        full = f"{symbol.name}.{name}"
        if symbol.kind == "module":
            module = self.modules.get(symbol.name)
            if module is not None:
                found = self.lookup(module, name)
                if found is not None:
                    return found
            if full in self.modules:
                return Symbol("module", full)
            return Symbol("external", full)
        if symbol.kind == "class":
            if full in self.classes:
                return Symbol("class", full)
            method = self.method(symbol.name, name)
            if method is not None:
                return Symbol("function", method)
            return Symbol("attribute", full)
        return Symbol("external", full)

    def lookup(self, module: Module, name: str) -> Symbol | None:
        """A module-level name, imports followed; None if the module does not bind it."""
        symbol = module.scope.get(name)
        if symbol is None:
            if name in module.variables:
                return Symbol("variable", f"{module.name}.{name}")
            for star in module.stars:
                target = self.modules.get(star)
                key = (star, name)
                if target is not None and key not in self._resolving:
                    self._resolving.add(key)
                    try:
                        found = self.lookup(target, name)
                    finally:
                        self._resolving.discard(key)
                    if found is not None:
                        return found
            return None
        if symbol.kind != "import":
            return symbol
        if name in module.variables and module.scope[name].name == f"{module.name}.{name}":
            return Symbol("variable", f"{module.name}.{name}")
        return self.resolve(symbol.name)

    # -------------------------------------------------------------------------------------------------- classes

    def bases(self, name: str) -> tuple[str, ...]:
        """Direct bases of a class by dotted name; external ones as spelled."""
        entry = self.classes.get(name)
        if entry is None:
            return ()
        result = []
        for base in entry.facts.bases:
            if isinstance(base, flow.Item):  # Generic[T]
                base = base.base
            dotted = self.dotted(entry.module, base)
            if dotted is not None:
                result.append(dotted)
        return tuple(result)

    def mro(self, name: str) -> tuple[str, ...]:
        """The class, then its ancestors, in the order in which Python looks attributes up."""
        known = self._mro.get(name)
        if known is None:
            self._mro[name] = (name,)
            bases = self.bases(name)
            known = self._mro[name] = (name, *_merged([*map(self.mro, bases), bases]))
        return known

    def method(self, class_name: str, name: str) -> str | None:
        """The function that `instance.name` runs for an instance of exactly this class."""
        for each in self.mro(class_name):
            entry = self.classes.get(each)
            if entry is not None and name in entry.methods:
                return entry.methods[name]
        return None

    def defines(self, class_name: str, name: str) -> bool:
        """Whether a class has a method or a class attribute of its own."""
        entry = self.classes.get(class_name)
        return entry is not None and (name in entry.methods or name in entry.attributes)

    def setter(self, class_name: str, name: str) -> str | None:
        """The function that `instance.name = value` runs."""
        for each in self.mro(class_name):
            entry = self.classes.get(each)
            if entry is not None and (name in entry.setters or name in entry.methods or name in entry.attributes):
                return entry.setters.get(name)
        return None

    def implementers(self, class_name: str, name: str) -> Iterator[str]:
        """Definitions of a protocol's method in the classes that have all of its methods."""
        entry = self.classes.get(class_name)
        if entry is None or not {"typing.Protocol", "typing_extensions.Protocol"}.intersection(self.bases(class_name)):
            return
        for owner in self.methods_named.get(name, ()):
            if owner != class_name and all(self.method(owner, each) is not None for each in entry.methods):
                yield self.classes[owner].methods[name]

    def overriders(self, class_name: str, name: str) -> Sequence[str]:
        """Definitions of a method in subclasses."""
        key = class_name, name
        known = self._overriders.get(key)
        if known is None:
            found: list[str] = []
            for each in self.subclasses.get(class_name, ()):
                entry = self.classes[each]
                if name in entry.methods:
                    found.append(entry.methods[name])
                found += self.overriders(each, name)
            known = self._overriders[key] = tuple(found)
        return known

    def sole_method(self, name: str) -> tuple[str, str] | None:
        """Class and function of a method name that one class alone (with its subclasses) defines."""
        owners = self.methods_named.get(name, ())
        if not owners or name in COMMON_METHODS or "_" not in name.strip("_"):
            return None  # a single verb (`shutdown`, `advance`) says too little of its receiver
        roots = [owner for owner in dict.fromkeys(owners) if not any(o in self.mro(owner)[1:] for o in owners)]
        if len(roots) != 1:
            return None
        return roots[0], self.classes[roots[0]].methods[name]

    def namesake(self, variable: str, method: str) -> tuple[str, str] | None:
        """Class and function of a method of what a variable is named after: `recorder` of the one class `Recorder`."""
        classes = self._classes_by_word.get(variable.replace("_", "").lower(), ())
        function = self.method(classes[0], method) if len(classes) == 1 else None
        return (classes[0], function) if function is not None else None

    @cached_property
    def _classes_by_word(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for name in self.classes:
            found.setdefault(name.rpartition(".")[2].replace("_", "").lower(), []).append(name)
        return found

    def dotted(self, module: Module, expr: Expr) -> str | None:
        """Dotted name that a name or attribute expression at module level stands for; None for anything else."""
        match expr:
            case flow.Name(id=name):
                symbol = self.lookup(module, name)
                return symbol.name if symbol is not None else name
            case flow.Attr(base=base, name=name):
                head = self.dotted(module, base)
                return self.resolve(f"{head}.{name}").name if head is not None else None
            case flow.Lit(value=str(text)):
                return self.dotted(module, flow.Name(text, expr.span)) if text.isidentifier() else None
        return None

    def annotation(self, module: Module, expr: Expr | None) -> tuple[Type, ...]:
        """Types that an annotation names; `None` and what is not understood give nothing."""
        match expr:
            case None | flow.Lit(value=None):
                return ()
            case flow.Op(op="|", operands=operands):
                return tuple(t for operand in operands for t in self.annotation(module, operand))
            case flow.Lit(value=str(text)):
                parsed = facts.annotation(text)
                return self.annotation(module, parsed) if parsed is not None else ()
            case flow.Item(base=base, key=index):
                head = self.dotted(module, base) or ""
                short = head.rpartition(".")[2]
                arguments = index.items if isinstance(index, flow.Group) else (index,)
                if short in _TRANSPARENT:
                    return tuple(t for argument in arguments for t in self.annotation(module, argument))
                if short in ("ref", "ReferenceType"):
                    return (Type("ref", self.annotation(module, arguments[0])),)
                if short in ("type", "Type"):
                    return tuple(Type("type", (t,)) for t in self.annotation(module, arguments[0]))
                kind = _ABSTRACT_CONTAINERS.get(short, short)
                if kind in CONTAINERS:
                    if kind == "dict":
                        arguments = arguments[1:]
                    each = [self.annotation(module, argument) for argument in arguments]
                    if kind == "tuple" and any(each):
                        rest = isinstance(arguments[-1], flow.Lit) and arguments[-1].value is ...
                        each = [types[:1] or (UNKNOWN,) for types in (each[:-1] if rest else each)]
                    return (Type(kind, tuple(t for types in each for t in types)),)
                return (Type(head),) if head else ()
            case flow.Name() | flow.Attr():
                name = self.dotted(module, expr)
                if name is None or name in ("None", "Any", "typing.Any", "object"):
                    return ()
                alias = self._alias(module, expr)
                if alias is not None:
                    return alias
                short = _ABSTRACT_CONTAINERS.get(name.rpartition(".")[2], name)
                return (Type(short if short in CONTAINERS else name),)
        return ()

    def _alias(self, module: Module, expr: Expr) -> tuple[Type, ...] | None:
        """`Key = Dict[int, CUDAGraph]` at module level used as an annotation."""
        if not isinstance(expr, flow.Name) or expr.id in module.scope:
            return None
        for bind in module.variables.get(expr.id, ()):
            key = ("alias", f"{module.name}.{expr.id}")
            if isinstance(bind.value, flow.Item | flow.Op) and key not in self._resolving:
                self._resolving.add(key)
                try:
                    return self.annotation(module, bind.value)
                finally:
                    self._resolving.discard(key)
        return None


_ACCESSORS = (".setter", ".deleter")


def _full_name(module: str, function: Function) -> str:
    """Dotted name of a function; the setter and the deleter of a property stand beside it."""
    for decorator in function.decorators:
        if isinstance(decorator, flow.Attr) and decorator.name in ("setter", "deleter"):
            return f"{module}.{function.qualname}.{decorator.name}"
    return f"{module}.{function.qualname}"


def _merged(orders: Sequence[Sequence[str]]) -> Iterator[str]:
    """One order that keeps all given ones (C3); where they contradict each other, the first one wins."""
    waiting = [list(order) for order in orders if order]
    while waiting:
        heads = [order[0] for order in waiting]
        head = next((h for h in heads if not any(h in order[1:] for order in waiting)), heads[0])
        yield head
        waiting = [rest for order in waiting if (rest := [name for name in order if name != head])]


_DEEPEST_NAMESPACE = 3
"""Folders without `__init__.py` that may follow each other inside a package."""


def module_names(sources: Sequence[Source], roots: Sequence[str] = ()) -> dict[str, tuple[str, str]]:
    """Root folder and dotted module name for each file.

    The root is the longest of `roots` that holds the file, else the folder above the topmost of its `__init__` chain. A
    folder without `__init__.py` is taken for a package of its own, named after itself, so that relative imports between
    its files resolve.
    """
    paths = {source.path for source in sources}
    wanted = sorted((os.path.normpath(root) for root in roots), key=len, reverse=True)
    packages: dict[str, bool] = {}

    def is_package(folder: str) -> bool:
        known = packages.get(folder)
        if known is None:
            init = os.path.join(folder, "__init__.py")
            known = packages[folder] = init in paths or os.path.exists(init)
        return known

    def in_package(folder: str) -> bool:
        """Whether a folder without `__init__.py` lies in a package all the same, as a namespace of its own."""
        for _ in range(_DEEPEST_NAMESPACE):
            folder, last = os.path.split(folder)
            if not last:
                return False
            if is_package(folder):
                return True
        return False

    result: dict[str, tuple[str, str]] = {}
    for path in paths:
        folder, file = os.path.split(path)
        parts = [] if file == "__init__.py" else [file.removesuffix(".py")]
        inside = (each for each in wanted if folder == each or folder.startswith(each + os.sep))
        root = next(inside, "." if "." in wanted and not os.path.isabs(folder) else None)
        if root is not None:
            inner = os.path.relpath(folder or ".", root)
            parts = [*([] if inner == "." else inner.split(os.sep)), *parts]
        else:
            climbed = False
            while is_package(folder) or in_package(folder):
                folder, last = os.path.split(folder)
                parts.insert(0, last)
                climbed = True
                if not last:
                    break
            if not climbed:
                folder, last = os.path.split(folder or os.path.abspath(folder))
                parts.insert(0, last or "root")
            root = folder
        result[path] = (root, ".".join(parts) or "__init__")
    return _namespaced(result, sources)


_IMPORTED = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.MULTILINE)
_HIGHEST = 3
"""Most folders above a root that can belong to its packages' names."""


def _namespaced(names: dict[str, tuple[str, str]], sources: Sequence[Source]) -> dict[str, tuple[str, str]]:
    """The same, where folders above a root begin the dotted names by which files import what is below it.

    A folder without `__init__.py` above packages is a package too (PEP 420): `megatron/core/utils.py` is
    `megatron.core.utils`, and nothing but the imports in its neighbours says so.
    """
    tops: dict[str, set[str]] = {}
    for root, name in names.values():
        tops.setdefault(root, set()).add(name.partition(".")[0])
    imported: set[str] = set()
    for source in sources:
        for dotted in set(_IMPORTED.findall(source.content)):
            parts = dotted.decode().split(".")
            imported.update(".".join(parts[:i]) for i in range(2, len(parts) + 1))
    above: dict[str, tuple[str, str]] = {}
    for root, inside in tops.items():
        folder, prefix = root, ""
        for _ in range(_HIGHEST):
            folder, last = os.path.split(folder)
            if not last.isidentifier() or last in inside:
                break
            prefix = f"{last}.{prefix}"
            if any(f"{prefix}{top}" in imported for top in inside):
                above[root] = (folder, prefix)
    return {
        path: (above[root][0], above[root][1] + name) if root in above else (root, name)
        for path, (root, name) in names.items()
    }


def group(names: Mapping[str, tuple[str, str]]) -> list[list[str]]:
    """Files that belong to one project: roots together unless they hold the same dotted name, which makes two projects."""
    by_root: dict[str, list[str]] = {}
    for path in sorted(names):
        by_root.setdefault(names[path][0], []).append(path)
    groups: list[tuple[set[str], list[str]]] = []
    for root in sorted(by_root):
        files = by_root[root]
        taken = {names[path][1] for path in files}
        for known, members in groups:
            if not known & taken:
                known |= taken
                members += files
                break
        else:
            groups.append((taken, list(files)))
    return [members for _, members in groups]


def load(sources: Iterable[tuple[Source, Facts | ParseError]], names: Mapping[str, tuple[str, str]]) -> Project:
    """One project from files that were read; what does not parse becomes a problem, the rest goes on."""
    project = Project()
    parsed: list[tuple[Source, Facts]] = []
    for source, found in sources:
        if isinstance(found, ParseError):
            project.problems.append(Problem(source.path, found.offset, found.message, found.newer))
        else:
            parsed.append((source, found))
    for source, _ in parsed:  # names first: an import of a neighbour needs to know that it is there
        project.modules[names[source.path][1]] = None  # type: ignore[assignment]
    for source, found in parsed:
        project.add(names[source.path][1], source, found)
    project.finish()
    return project
