"""What a written test needs besides the test: stand-ins for all but the code under test, as the text of Python.

Every written test holds a copy, so that it can be moved, read and run alone. `CODE` (modules by the names that they are
imported under, and their files below `ROOT`), `STOOD_IN` (top-level packages) and `UNPACKED` (how many items a stand-in
has whose name ends so) are the test's own.
"""

STAND_INS = '''
# methods that give the same memory
VIEWS = {"view", "view_as", "narrow", "reshape", "flatten", "unflatten"}


class StandIn:
    """Anything: read, called, run over, entered, compared. Calls go into `calls`."""

    def __init__(self, name, calls, **answers):
        vars(self).update(_name=name, _calls=calls)
        for method, answer in answers.items():
            vars(self)[method] = lambda *_, answer=answer, **__: answer

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in VIEWS:
            return self._same
        made = stood_in(name, f"{self._name}.{name}", self._calls)
        vars(self)[name] = made
        return made

    def __call__(self, *args, **_):
        if len(args) == 1 and is_real(args[0]):
            return args[0]  # as a decorator it changes nothing
        self._calls.append(self._name)
        return StandIn(f"{self._name}()", self._calls)

    def __iter__(self):
        count = UNPACKED.get(self._name.rpartition(".")[2], 1)
        return iter([StandIn(f"{self._name}[]", self._calls) for _ in range(count)])

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(each, slice) for each in keys):
            return self  # a part of it is the same memory
        return StandIn(f"{self._name}[]", self._calls)

    def __await__(self):
        yield from ()
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def _nothing(self, *_):
        return None

    def _same(self, *_, **__):
        return self

    def _true(self, *_):
        return True

    def _one(self):
        return 1

    __setitem__ = __delitem__ = _nothing
    __contains__ = __lt__ = __le__ = __gt__ = __ge__ = _true
    __len__ = __int__ = __index__ = _one
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = _same
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = _same
    __or__ = __and__ = __neg__ = _same


class StandInClass(type):
    """A class that can be a base, has every attribute, and is made of anything."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = stood_in(name, f"{cls.__name__}.{name}", cls.calls)
        setattr(cls, name, made)
        return made

    def __getitem__(cls, _):
        return cls

    def __call__(cls, *args, **named):
        if is_real(cls):  # with a stand-in as its base
            return super().__call__(*args, **named)
        cls.made += 1
        return StandIn(f"{cls.__name__}{cls.made}", cls.calls)


def is_real(thing):
    """Whether it is a function or a class of the code under test."""
    if isinstance(thing, type):
        return "calls" not in vars(thing)
    return isinstance(thing, types.FunctionType)


def stood_in(name, path, calls):
    """A stand-in for a member: a class if it is named like one."""
    if name.endswith(("Error", "Exception")):
        return type(name, (Exception,), {})
    if not name[:1].isupper() or name.isupper():
        return StandIn(path, calls)
    blank = {"calls": calls, "made": 0, "__init__": lambda self, *_, **__: None}
    return StandInClass(name, (), blank)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the code under test, and for the rest modules that have every name."""

    def __init__(self, calls):
        self.calls = calls

    def find_spec(self, name, path, target=None):
        if name in CODE:
            return importlib.util.spec_from_file_location(name, ROOT / CODE[name])
        if name.partition(".")[0] in STOOD_IN:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: self.member(module, name)
        return module

    def exec_module(self, module):
        module.__path__ = []

    def member(self, module, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = stood_in(name, f"{module.__name__}.{name}", self.calls)
        vars(module)[name] = made
        return made


@pytest.fixture
def calls():
    """The calls on stand-ins, in their order."""
    calls = []
    path = [Finder(calls), *sys.meta_path]
    known = [name for name in sys.modules if name.partition(".")[0] in STOOD_IN]
    with mock.patch.dict(sys.modules), mock.patch.object(sys, "meta_path", path):
        for name in known:
            del sys.modules[name]
        yield calls
'''
"""Modules, classes and objects that have everything, and the fixture that puts them in place."""

SHELL = '''
def shell(cls, calls, **known):
    """An object without its constructor; what is not known of it is a stand-in."""

    def member(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = StandIn(f"{cls.__name__}.{name}", calls)
        vars(self)[name] = made
        return made

    def forget(self, name):
        vars(self).pop(name, None)

    own = {"__getattr__": member, "__delattr__": forget, "__del__": lambda _: None}
    kind = type(cls.__name__, (cls,), own)
    kind.__abstractmethods__ = frozenset()
    made = object.__new__(kind)
    vars(made).update(known)
    return made
'''
"""Objects whose methods are real, and nothing else."""

EFFECTS = '''
def effects(calls, **ends):
    """The effects of calls, in their order; a call is known by how its name ends."""
    return [
        effect
        for call in calls
        for effect, names in ends.items()
        if any(f".{call}".endswith(f".{name}") for name in names)
    ]
'''
"""From calls to effects."""

HELD = '''
def stand_ins(value):
    """The stand-ins in a value."""
    if isinstance(value, StandIn):
        yield value
    elif isinstance(value, dict):
        yield from stand_ins(list(value.values()))
    elif isinstance(value, (list, tuple, set)):
        for each in value:
            yield from stand_ins(each)
'''
"""From a workspace to what it holds."""

MEASURED = '''
def measure(torch, calls):
    """Let what torch allocates know how much it is; of an unknown number, it is one."""

    def maker(name):
        def make(*shape, size=None, dtype="float32", **_):
            calls.append(f"torch.{name}")
            given = shape if size is None else (size,)
            if given and isinstance(given[0], (tuple, list)):
                given = given[0]
            sizes = tuple(each if isinstance(each, int) else 1 for each in given)
            count = math.prod(sizes)
            kind = getattr(dtype, "_name", dtype).rpartition(".")[2].partition("_")[0]
            width = max(1, int("".join(filter(str.isdigit, kind)) or 32) // 8)
            known = {"numel": count, "nelement": count, "element_size": width}
            made = StandIn(f"torch.{name}()", calls, **known)
            vars(made).update(shape=sizes, nbytes=count * width)
            vars(made)["size"] = lambda dim=None: sizes if dim is None else sizes[dim]
            return made

        return make

    def times(self, other):
        return other if isinstance(other, int) else self

    for name in ("empty", "full", "ones", "zeros"):
        setattr(torch, name, maker(name))
    StandIn.__mul__ = StandIn.__rmul__ = times
'''
"""Memory that answers for its size."""
