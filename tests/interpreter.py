"""An interpreter of small teardown programs: what happens on each of their paths, and which hazards are among it.

It is the measure of the analysis, and shares nothing with it but the names of the effects. A program is a tree of the
statements below. `render` writes it as Python that uses torch. `Run` executes the tree itself, on objects with identity:
this dictionary holds these two graphs, that graph has been reset. What a program cannot know is a choice: what its
objects hold at first, what an unknown test says, where an exception strikes. `paths` goes through all choices, and each
path gives the events that happened, each with the calls that led there. The functions at the end look for hazards in the
events, as the rules' pages describe them.

What the two agree on ends at these limits:

* An exception that no `try` around it sees ends a path, and is not looked for. Inside of a `try` one can strike before
  and after every statement, in what it calls too, but once a path (`STRIKES`).
* Two attributes hold two objects. A container begins with at most two items (`FULL`), which are its own.
* An effect at one place, come to by the same calls on the same objects, takes part in a hazard once: its second time is
  the next round of a loop, over other graphs.
* What is given up was there, unless the path knows better: that a container is empty or a handle None is a choice only
  where a test or a loop asks for it first.
* Where several graphs or outputs of one container come to a hazard on a path, the first of these hazards must be found.
* What a generator ends before and after its `yield` need not be found as twice ended, where its caller is not in sight.
* Functions do not call themselves. Tests ask for None, emptiness and truth, or for what nobody knows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from graphlint.effects import Effect

STRIKES = 1
FULL = 2

# ---------------------------------------------------------------------------------------------------------- programs


@dataclass(frozen=True, eq=False)
class Reset:
    """Reset every graph of the object, or the first one."""

    first: bool


@dataclass(frozen=True, eq=False)
class Empty:
    """Empty a container, `graphs` or `outputs`: by `clear()`, or by taking a new one."""

    name: str
    anew: bool


@dataclass(frozen=True, eq=False)
class Pool:
    """Give the pool's handle up, or exchange it for a new one."""

    rotate: bool


@dataclass(frozen=True, eq=False)
class Erase:
    """Empty the allocator's cache."""


@dataclass(frozen=True, eq=False)
class Capture:
    """Capture a graph, with an output that is kept."""


@dataclass(frozen=True, eq=False)
class Close:
    """Set the flag of the object."""

    closed: bool


@dataclass(frozen=True, eq=False)
class Call:
    """Call a method of `self`, of an attribute of it or of the loop's `it`; or, on nothing, the function.

    `hard` is the argument as written: True, False, or `hard`, which is the caller's own.
    """

    on: str
    name: str
    hard: str


@dataclass(frozen=True, eq=False)
class If:
    test: str
    then: Block
    other: Block


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop over attributes that hold objects, under the name `it`."""

    over: tuple[str, ...]
    body: Block
    other: Block


@dataclass(frozen=True, eq=False)
class Try:
    """`catch` is Exception or RuntimeError; with neither, there is no handler and no `else`."""

    body: Block
    catch: str
    handler: Block
    other: Block
    final: Block


@dataclass(frozen=True, eq=False)
class With:
    """A block under the program's context manager, for the runner `on`."""

    on: str
    body: Block


@dataclass(frozen=True, eq=False)
class Leave:
    """return, raise, break or continue."""

    kind: str


Statement: TypeAlias = Reset | Empty | Pool | Erase | Capture | Close | Call | If | Loop | Try | With | Leave
Block: TypeAlias = tuple[Statement, ...]

TESTS = {
    "closed": "self.closed",
    "open": "not self.closed",
    "graphs": "self.graphs",
    "no graphs": "not self.graphs",
    "outputs": "self.outputs",
    "no outputs": "not self.outputs",
    "pool": "self.pool is not None",
    "no pool": "self.pool is None",
    "hard": "hard",
    "soft": "not hard",
    "unknown": "asked()",
}
"""Tests, and how they are written."""


@dataclass(frozen=True, eq=False)
class Manager:
    """A context manager: a generator that does something before and after its block, or an object with `__exit__`.

    `kept`: a generator's `after` stands in a `finally`; otherwise an exception in the block skips it.
    """

    is_class: bool
    before: Block
    after: Block
    kept: bool


@dataclass(frozen=True, eq=False)
class Program:
    """A runner that owns graphs, an engine that owns two runners, a function, and a context manager.

    Methods call methods further down, an engine's also those of its runners.
    """

    runner: tuple[Block, ...]
    engine: tuple[Block, ...]
    function: Block
    manager: Manager

    def roots(self) -> Iterator[tuple[str, str]]:
        """Class and name of the functions to begin in."""
        yield from (("Runner", f"do_{index}") for index in range(len(self.runner)))
        yield from (("Engine", f"run_{index}") for index in range(len(self.engine)))
        yield ("session", "")

    def body(self, owner: str, name: str) -> Block:
        blocks = {"Runner": self.runner, "Engine": self.engine}.get(owner, (self.function,))
        return blocks[int(name.rpartition("_")[2])] if owner else blocks[0]


# --------------------------------------------------------------------------------------------------------- as Python


@dataclass
class Text:
    """A program as Python, and the row that each statement is known by."""

    lines: list[str] = field(default_factory=list)
    rows: dict[Statement, int] = field(default_factory=dict)
    depth: int = 0

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"

    def line(self, text: str) -> int:
        self.lines.append("    " * self.depth + text)
        return len(self.lines)

    def block(self, header: str, body: Block) -> int:
        row = self.line(header)
        self.depth += 1
        if not body:
            self.line("pass")
        for statement in body:
            self.rows[statement] = self.statement(statement)
        self.depth -= 1
        return row

    def statement(self, statement: Statement) -> int:
        match statement:
            case Reset(first=first):
                self.line("for graph in self.graphs.values():")
                row = self.line("    graph.reset()")
                if first:
                    self.line("    break")
                return row
            case Empty(name=name, anew=anew):
                return self.line(f"self.{name} = {{}}" if anew else f"self.{name}.clear()")
            case Pool(rotate=rotate):
                return self.line(f"self.pool = {'torch.cuda.graph_pool_handle()' if rotate else 'None'}")
            case Erase():
                return self.line("torch.cuda.empty_cache()")
            case Capture():
                self.line("graph = torch.cuda.CUDAGraph()")
                row = self.line("with torch.cuda.graph(graph, pool=self.pool):")
                self.line("    self.outputs[object()] = torch.empty(8)")
                self.line("self.graphs[object()] = graph")
                return row
            case Close(closed=closed):
                return self.line(f"self.closed = {closed}")
            case Call(on=on, name=name, hard=hard):
                return self.line(f"{expression(on)}.{name}({hard})" if on else f"{name}({hard})")
            case If(test=test, then=then, other=other):
                row = self.block(f"if {TESTS[test]}:", then)
                if other:
                    self.block("else:", other)
                return row
            case Loop(over=over, body=body, other=other):
                row = self.block(f"for it in ({', '.join(map(expression, over))},):", body)
                if other:
                    self.block("else:", other)
                return row
            case Try():
                row = self.block("try:", statement.body)
                if statement.catch:
                    self.block(f"except {statement.catch}:", statement.handler)
                    if statement.other:
                        self.block("else:", statement.other)
                if statement.final or not statement.catch:
                    self.block("finally:", statement.final)
                return row
            case With(on=on, body=body):
                return self.block(f"with session({expression(on)}):", body)
            case Leave(kind=kind):
                return self.line("raise failure()" if kind == "raise" else kind)
        raise AssertionError(statement)


def expression(name: str) -> str:
    return name if name in ("self", "it") else f"self.{name}"


def render(program: Program) -> Text:
    """The program as Python; `asked` and `failure` are given to it."""
    text = Text()
    for line in _HEAD.splitlines():
        text.line(line)
    text.depth = 1
    for index, body in enumerate(program.runner):
        text.block(f"def do_{index}(self, hard):", body)
    text.depth = 0
    for line in _ENGINE.splitlines():
        text.line(line)
    text.depth = 1
    for index, body in enumerate(program.engine):
        text.block(f"def run_{index}(self, hard):", body)
    text.depth = 0
    text.block("def flush(hard):", program.function)
    manager = program.manager
    if manager.is_class:
        for line in _SESSION.splitlines():
            text.line(line)
        text.depth = 1
        text.block("def __exit__(self, *exc):", manager.after)
        return text
    text.line("@contextlib.contextmanager")
    text.block("def session(self: Runner):", manager.before)
    text.depth = 1
    if manager.kept:
        text.line("try:")
        text.line("    yield")
        text.block("finally:", manager.after)
    else:
        text.line("yield")
        text.block("if True:", manager.after)
    return text


_HEAD = """\
import contextlib
import torch
class Runner:
    def __init__(self):
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.outputs: dict[int, torch.Tensor] = {}
        self.pool = torch.cuda.graph_pool_handle()
        self.closed = False
    def record(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self.outputs[object()] = torch.empty(8)
        self.graphs[object()] = graph"""

_ENGINE = """\
class Engine:
    def __init__(self):
        self.left = Runner()
        self.right = Runner()
        self.closed = False"""

_SESSION = """\
class session:
    def __init__(self, runner: Runner):
        self.runner = runner
    def __enter__(self):
        return self"""

# --------------------------------------------------------------------------------------------------------- execution


class Frame(NamedTuple):
    """One call on the way to an event: the row that it goes on at, and the object that the function is a method of."""

    row: int
    on: str


class Event(NamedTuple):
    """Something happened to `what`, an object's attribute; `item` is the graph that is reset, or the output."""

    effect: Effect
    what: tuple[str, str]
    stack: tuple[Frame, ...]
    item: object = None

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(frame.row for frame in self.stack)


class Failure(Exception):  # noqa: N818 - it is what a program raises
    """An exception in the program. `known`: a RuntimeError."""

    def __init__(self, known: bool) -> None:
        super().__init__()
        self.known = known


class TooManyPathsError(Exception):
    """A program has more paths than anybody wants to go through."""


class Choices:
    """Answers to what the program cannot know: those given first, then the first of each."""

    def __init__(self, given: Sequence[int]) -> None:
        self.given = given
        self.taken: list[int] = []
        self.widths: list[int] = []
        self.answers: list[bool] = []
        """What the program itself asked for: unknown tests and arguments, and kinds of exceptions that it raised."""

    def choose(self, width: int) -> int:
        index = len(self.taken)
        self.taken.append(self.given[index] if index < len(self.given) else 0)
        self.widths.append(width)
        return self.taken[-1]

    def answer(self) -> bool:
        self.answers.append(bool(self.choose(2)))
        return self.answers[-1]


class Object:
    """A runner or an engine. What an attribute holds at first is chosen when it is first looked at."""

    def __init__(self, name: str, choices: Choices) -> None:
        self.name = name
        self.choices = choices
        self.values: dict[str, object] = {}
        self.first: dict[str, int] = {}
        self.parts: dict[str, Object] = {}

    def get(self, name: str, *, full: bool = False) -> object:
        """What an attribute holds; `full`: something, if nobody knows yet."""
        if name not in self.values:
            most = FULL if name == "graphs" else 1
            chosen = most if full else self.choices.choose(most + 1)
            self.first[name] = chosen
            self.values[name] = [object() for _ in range(chosen)] if name in ("graphs", "outputs") else bool(chosen)
        return self.values[name]

    def items(self, name: str, *, full: bool = False) -> list[object]:
        value = self.get(name, full=full)
        assert isinstance(value, list)
        return value

    def part(self, name: str) -> Object:
        if name not in self.parts:
            self.parts[name] = Object(f"{self.name}.{name}", self.choices)
        return self.parts[name]


@dataclass
class Argument:
    """An argument, which a call can hand on. None: nobody has looked at it yet."""

    value: bool | None = None


@dataclass
class Activation:
    """One call: the object it runs on, the calls around it, the argument."""

    on: Object | None
    stack: tuple[Frame, ...]
    hard: Argument = field(default_factory=Argument)
    it: Object | None = None


class Run:
    """One path through a program."""

    def __init__(self, program: Program, text: Text, choices: Choices, *, strikes: int = STRIKES) -> None:
        self.program = program
        self.rows = text.rows
        self.choices = choices
        self.strikes = strikes
        self.trying = 0
        self.events: list[Event] = []

    def root(self, owner: str, name: str) -> Object:
        """Run one function with objects of which nothing is known."""
        me = Object("self", self.choices)
        with contextlib.suppress(Failure):
            if owner == "session":  # its `self`: a runner, or what holds one
                self.managed(Activation(me, ()), lambda: None)
            else:
                self.block(self.program.body(owner, name), Activation(me, ()))
        return me

    def block(self, body: Block, here: Activation) -> str | None:
        """Run statements; what makes control leave, if something does."""
        for statement in body:
            self.strike()
            left = self.statement(statement, here)
            if left is not None:
                return left
        return None

    def strike(self) -> None:
        """An exception may come out of nowhere."""
        if self.trying and self.strikes and self.choices.choose(2):
            self.strikes -= 1
            raise Failure(known=bool(self.choices.choose(2)))

    def happen(self, effect: Effect, row: int, here: Activation, name: str = "", item: object = None) -> None:
        on = here.on.name if here.on is not None else ""
        self.events.append(Event(effect, (on, name), (*here.stack, Frame(row, on)), item))

    def statement(self, statement: Statement, here: Activation) -> str | None:
        row = self.rows[statement]
        me = here.on
        match statement:
            case Reset(first=first):
                assert me is not None
                for graph in me.items("graphs"):
                    self.happen(Effect.GRAPH_DEATH, row, here, "graphs", graph)
                    if first:
                        break
                    self.strike()
            case Empty(name="graphs"):
                assert me is not None
                if me.items("graphs", full=True):
                    self.happen(Effect.GRAPH_DEATH, row, here, "graphs")
                me.values["graphs"] = []
            case Empty():
                assert me is not None
                for output in me.items("outputs", full=True):
                    self.happen(Effect.WS_RELEASE, row, here, "outputs", output)
                me.values["outputs"] = []
            case Pool(rotate=rotate):
                assert me is not None
                if me.get("pool", full=True):
                    self.happen(Effect.POOL_RETIRE, row, here, "pool")
                me.values["pool"] = rotate
            case Erase():
                self.happen(Effect.ERASE, row, here)
            case Capture():
                assert me is not None
                self.happen(Effect.ERASE, row, here)
                self.happen(Effect.CAPTURE, row, here)
                self.strike()
                me.items("outputs", full=True).append(object())
                self.happen(Effect.WS_ALLOC, row + 1, here, "outputs", me.items("outputs")[-1])
                self.strike()
                me.items("graphs", full=True).append(object())
            case Close(closed=closed):
                assert me is not None
                me.values["closed"] = closed
            case Call():
                self.call(statement, row, here)
            case If(test=test, then=then, other=other):
                return self.block(then if self.test(test, here) else other, here)
            case Loop():
                return self.loop(statement, here)
            case Try():
                return self.attempt(statement, here)
            case With():
                return self.under(statement, row, here)
            case Leave(kind="raise"):
                raise Failure(known=self.choices.answer())
            case Leave(kind=kind):
                return kind
        return None

    def test(self, test: str, here: Activation) -> bool:
        match test:
            case "unknown":
                return self.choices.answer()
            case "hard" | "soft":
                return self.argument(here) is (test == "hard")
        assert here.on is not None
        name = {"open": "closed"}.get(test, test.removeprefix("no "))
        return bool(here.on.get(name)) is (test == name)

    def argument(self, here: Activation) -> bool:
        if here.hard.value is None:
            here.hard.value = self.choices.answer()
        return here.hard.value

    def object(self, name: str, here: Activation) -> Object | None:
        if name == "it":
            return here.it
        return here.on.part(name) if name not in ("", "self") and here.on is not None else here.on if name else None

    def call(self, call: Call, row: int, here: Activation) -> None:
        on = self.object(call.on, here)
        hard = here.hard if call.hard == "hard" else Argument(call.hard == "True")
        owner = "Runner" if call.name.startswith("do_") else "Engine" if call.name.startswith("run_") else ""
        self.block(self.program.body(owner, call.name), self.inner(on, row, here, hard))

    @staticmethod
    def inner(on: Object | None, row: int, here: Activation, hard: Argument | None = None) -> Activation:
        """A call of a function in a row of another."""
        stack = (*here.stack, Frame(row, here.on.name if here.on is not None else ""))
        return Activation(on, stack, hard or Argument())

    def loop(self, loop: Loop, here: Activation) -> str | None:
        for name in loop.over:
            here.it = self.object(name, here)
            left = self.block(loop.body, here)
            if left == "break":
                return None
            if left not in (None, "continue"):
                return left
        return self.block(loop.other, here)

    def attempt(self, tried: Try, here: Activation) -> str | None:
        """The `finally` runs, whatever happened before it, in a handler too."""
        if not tried.final and tried.catch:
            return self.caught(tried, here)
        try:
            left = self.guarded(lambda: self.caught(tried, here))
        except Failure:
            self.block(tried.final, here)
            raise
        return self.block(tried.final, here) or left

    def caught(self, tried: Try, here: Activation) -> str | None:
        """A `try` without its `finally`."""
        if not tried.catch:
            return self.block(tried.body, here)
        try:
            left = self.guarded(lambda: self.block(tried.body, here))
        except Failure as failure:
            if tried.catch == "RuntimeError" and not failure.known:
                raise
            return self.block(tried.handler, here)
        return left or self.block(tried.other, here)

    def guarded(self, body: Callable[[], str | None]) -> str | None:
        """Run a body in which exceptions strike."""
        self.trying += 1
        try:
            left = body()
            self.strike()
        finally:
            self.trying -= 1
        return left

    def under(self, scope: With, row: int, here: Activation) -> str | None:
        """A block under the context manager."""
        runner = self.object(scope.on, here)
        inside = self.inner(runner, row, here)
        if self.program.manager.is_class:
            assert runner is not None
            session = Object("session", self.choices)
            session.parts["runner"] = runner
            inside = self.inner(session, row, here)
        return self.managed(inside, lambda: self.block(scope.body, here))

    def managed(self, inside: Activation, body: Callable[[], str | None]) -> str | None:
        manager = self.program.manager
        self.block(manager.before, inside)
        if not manager.kept and not manager.is_class:
            left = body()
            self.block(manager.after, inside)
            return left
        try:
            left = self.guarded(body)
        except Failure:
            self.block(manager.after, inside)
            raise
        self.block(manager.after, inside)
        return left


class Path(NamedTuple):
    """What happened on one path: where it began, what it was told, what the objects held at first, and the events."""

    root: tuple[str, str]
    answers: tuple[bool, ...]
    first: dict[str, int]
    events: tuple[Event, ...]


def paths(program: Program, text: Text, *, most: int, strikes: int = STRIKES) -> Iterator[Path]:
    """Every path of every function of a program.

    Raises:
        TooManyPathsError: there are more than `most`.
    """
    count = 0
    for owner, name in program.roots():
        waiting: list[tuple[int, ...]] = [()]
        while waiting:
            given = waiting.pop()
            choices = Choices(given)
            run = Run(program, text, choices, strikes=strikes)
            me = run.root(owner, name)
            count += 1
            if count > most:
                raise TooManyPathsError
            yield Path((owner, name), tuple(choices.answers), _first(me), tuple(run.events))
            for index in range(len(given), len(choices.taken)):
                before = choices.taken[:index]
                waiting.extend((*before, other) for other in range(1, choices.widths[index]))


def _first(me: Object) -> dict[str, int]:
    result = {f"{me.name}.{name}": value for name, value in me.first.items()}
    for part in me.parts.values():
        result |= _first(part)
    return result


# ----------------------------------------------------------------------------------------------------------- hazards


class Hazard(NamedTuple):
    """The events that make a hazard, and which of them a report points at."""

    rule: str
    steps: tuple[Event, ...]
    at: int


Subject: TypeAlias = tuple[object, ...]
"""An object's name and its attribute; of a reset graph, the graph as well."""


class Automaton(NamedTuple):
    """A rule: the subjects that the events of a path give it, and how an event moves it for one of these."""

    rule: str
    subjects: Callable[[Sequence[Event]], Iterable[Subject]]
    move: Callable[[str, Event, Subject], str]
    at: int


def hazards(rule: Automaton, events: Sequence[Event]) -> list[Hazard]:
    """Hazards of one path, one for each subject at most, in the order in which they come about."""
    found = [(events.index(hazard.steps[-1]), hazard) for hazard in _hazards(rule, events)]
    return [hazard for _, hazard in sorted(found, key=lambda pair: pair[0])]


def _hazards(rule: Automaton, events: Sequence[Event]) -> Iterator[Hazard]:
    for subject in dict.fromkeys(rule.subjects(events)):
        state = "live"
        steps: list[Event] = []
        for event in events:
            if any(event.stack == earlier.stack for earlier in steps):
                continue  # the next round of a loop
            after = rule.move(state, event, subject)
            if after == "live":  # what was before has nothing to do with what comes
                state, steps = after, []
            elif after != state:
                state = after
                steps.append(event)
            if state == "hazard":
                yield Hazard(rule.rule, tuple(steps), rule.at)
                break


def _pool_order(state: str, event: Event, subject: Subject) -> str:
    """Graphs die, the cache is emptied, and an output that lies in their pool is given up only then."""
    effect, mine = event.effect, (*event.what, event.item) == subject
    match state:
        case _ if effect is Effect.WS_ALLOC and mine:
            return "live"
        case "live" if effect is Effect.GRAPH_DEATH and event.what[0] == subject[0]:
            return "dead"
        case "dead" if effect is Effect.ERASE:
            return "erased"
        case "live" | "dead" if effect is Effect.WS_RELEASE and mine:
            return "released"
        case "erased" if effect is Effect.WS_RELEASE and mine:
            return "hazard"
    return state


def _filled_again(state: str, event: Event, subject: Subject) -> str:
    """Graphs die, and their pool is erased, while a table that a capture fills again holds what they made."""
    match state:
        case "live" if event.effect is Effect.GRAPH_DEATH and event.what[0] == subject[0]:
            return "dead"
        case "dead" if event.effect is Effect.ERASE:
            return "hazard"
    return state


def _twice_reset(state: str, event: Event, subject: Subject) -> str:
    """A graph is reset that was reset before, and nothing was captured in between."""
    if event.effect is Effect.CAPTURE:
        return "live"
    if event.effect is not Effect.GRAPH_DEATH or (*event.what, event.item) != subject:
        return state
    return "dead" if state == "live" else "hazard"


def _twice_retired(state: str, event: Event, subject: Subject) -> str:
    """A pool's handle is given up a second time after graphs died."""
    if event.effect is Effect.CAPTURE:
        return "live"
    match state:
        case "live" if event.effect is Effect.GRAPH_DEATH:
            return "dead"
        case "dead" if event.effect is Effect.POOL_RETIRE and event.what == subject:
            return "retired"
        case "retired" if event.effect is Effect.POOL_RETIRE and event.what == subject:
            return "hazard"
    return state


def _outputs(events: Sequence[Event]) -> Iterable[Subject]:
    return ((*event.what, event.item) for event in events if event.effect is Effect.WS_RELEASE)


def _filled(events: Sequence[Event]) -> Iterable[Subject]:
    return (event.what for event in events if event.effect is Effect.WS_ALLOC)


def _pools(events: Sequence[Event]) -> Iterable[Subject]:
    return (event.what for event in events if event.effect is Effect.POOL_RETIRE)


def _reset_graphs(events: Sequence[Event]) -> Iterable[Subject]:
    return ((*event.what, event.item) for event in events if event.effect is Effect.GRAPH_DEATH and event.item)


RULES = (
    Automaton("pool-order", _outputs, _pool_order, -2),
    Automaton("duplicate-release", _reset_graphs, _twice_reset, -1),
    Automaton("duplicate-release", _pools, _twice_retired, -1),
)
MAY_BE_FOUND = (Automaton("pool-order", _filled, _filled_again, -1),)
"""What is a hazard as well, and is looked for in the methods of the object alone."""
