"""Functions that are handed to another one, which calls them: what they do is seen where they are handed over, and in that order."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings

RULE = "pool-order"


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reported(text: str) -> list[str]:
    Path("m.py").write_text(text)
    findings = check.check(["."], Settings(), registry.select((RULE,))).findings
    whole = text.encode()
    return [whole[slice(*each.span)].decode() for each in findings]


def is_reported(text: str) -> bool:
    return len(reported(text)) == 1


PROGRAM = """
import asyncio
import functools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch.cuda import empty_cache

{helper}


class Scorer:
    def __init__(self, body, widths):
        self.body = body
        self.widths = widths
        self.tapes = {{}}
        self.scores = {{}}
        self.lock = threading.RLock()
        self.there = ThreadPoolExecutor(1)
        self.lane = Lane()
        self.plan = {plan}

    def record(self):
        for w in self.widths:
            x = torch.zeros(w, device="cuda")
            tape = torch.cuda.CUDAGraph()
            with torch.cuda.graph(tape):
                score = self.body(x)
            self.tapes[w], self.scores[w] = tape, score

    def drop(self):
        for tape in self.tapes.values():
            tape.reset()
        self.tapes.clear()

    def forget(self):
        self.scores.clear()

    def forget_one(self, w):
        print(w)

    def _run(self, work, *more, **named):
        return self.there.submit(work, *more, **named).result()

    async def _arun(self, work, *more):
        return await asyncio.get_running_loop().run_in_executor(self.there, functools.partial(work, *more))

    def _do(self, work):
        work()

    {define} close(self):
{body}
"""

LANE = """
class Lane:
    def __init__(self):
        self.jobs = queue.Queue()
        threading.Thread(target=self.serve, daemon=True).start()

    def run(self, work, *more):
        done = Future()
        self.jobs.put(({put}))
        return done.result()

    def serve(self):
{serve}
"""

PLAIN = LANE.format(put="work, more, done", serve="        return None")

SERVED = {
    "a tuple": (
        "work, more, done",
        "        while True:\n            f, a, d = self.jobs.get()\n            d.set_result(f(*a))",
    ),
    "a tuple that is taken apart later": (
        "done, functools.partial(work, *more)",
        (
            "        while True:\n            job = self.jobs.get()\n            if job is None:\n                break\n"
            "            d, f = job\n            d.set_result(f())"
        ),
    ),
    "until nothing comes": (
        "lambda: work(*more)",
        "        for f in iter(self.jobs.get, None):\n            f()",
    ),
    "as long as something comes": (
        "functools.partial(work, *more)",
        "        while (f := self.jobs.get()) is not None:\n            f()",
    ),
}

HELPERS = """
def attempt(work, times=3):
    for _ in range(times):
        try:
            return work()
        except RuntimeError:
            continue
    return None


def under(lock, work, *more, **named):
    with lock:
        return work(*more, **named)


def told(*, name, work):
    print(name)
    return under(threading.Lock(), work)


def inner(work):
    def once():
        return work()

    return once()


def all_of(steps):
    for step in steps:
        step()


def each(*steps):
    for step in steps:
        step()


def named(steps):
    for name, step in steps:
        print(name)
        step()


def of_all(scorer, steps):
    for step in steps:
        step(scorer)


@dataclass
class Job:
    name: str
    work: Callable[[], None]

    def run(self):
        print(self.name)
        self.work()


def perform(job: Job):
    job.run()


def release(scorer, how):
    print(how)
    scorer.drop()
"""

CALLS = {
    "again until it works": "attempt({})",
    "a lambda": "attempt(lambda: ({})())",
    "under a lock": "under(self.lock, {})",
    "by a name": "told(name='x', work={})",
    "through a function in the helper": "inner({})",
    "a method of the same object": "self._do({})",
    "in a thread that is waited for": "self._run({})",
    "in two": "attempt(lambda: self._run({}))",
    "a record": "perform(Job('x', {}))",
    "a partial": "attempt(functools.partial({}))",
    "a partial of the helper": "functools.partial(under, self.lock, {})()",
}


def program(body: str, *, plan: str = "()", lane: str = PLAIN, define: str = "def") -> str:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return PROGRAM.format(helper=HELPERS + lane, plan=plan, define=define, body=lines)


def in_order(call: str, *steps: str) -> str:
    return "\n".join(call.format(step) for step in steps)


BAD = ("self.drop", "torch.cuda.empty_cache", "self.forget")
GOOD = ("self.drop", "self.forget", "torch.cuda.empty_cache")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_what_is_handed_over_is_called_there(call: str) -> None:
    assert is_reported(program(in_order(call, *BAD)))
    assert reported(program(in_order(call, *GOOD))) == []


def test_it_is_reported_where_it_is_handed_over() -> None:
    assert reported(program(in_order("attempt({})", *BAD))) == ["attempt(torch.cuda.empty_cache)"]


def test_an_imported_name_is_handed_over_too() -> None:
    call = "under(self.lock, {})"
    assert is_reported(program(in_order(call, "self.drop", "empty_cache", "self.forget")))
    assert reported(program(in_order(call, "self.drop", "self.forget", "empty_cache"))) == []


def test_in_an_executor_of_an_event_loop() -> None:
    for steps, found in ((BAD, True), (GOOD, False)):
        assert is_reported(program(in_order("await self._arun({})", *steps), define="async def")) is found


def test_an_argument_goes_with_it() -> None:
    bad = "under(self.lock, release, self, how='x')\nattempt(torch.cuda.empty_cache)\nattempt(self.forget)"
    good = "under(self.lock, release, self, how='x')\nattempt(self.forget)\nattempt(torch.cuda.empty_cache)"
    assert is_reported(program(bad))
    assert reported(program(good)) == []


def test_methods_of_tables_and_graphs_of_local_variables() -> None:
    start = "for tape in self.tapes.values():\n    attempt(tape.reset)\nattempt(self.tapes.clear)\n"
    assert is_reported(program(start + in_order("attempt({})", *BAD[1:])))
    assert reported(program(start + in_order("attempt({})", "self.scores.clear", BAD[1]))) == []


STEPS = {
    "a list": "all_of([{}])",
    "a tuple": "all_of(({}))",
    "arguments": "each({})",
    "a comprehension": "all_of(step for step in ({}))",
}


@pytest.mark.parametrize("call", STEPS.values(), ids=STEPS.keys())
def test_several_are_called_in_their_order(call: str) -> None:
    assert is_reported(program(call.format(", ".join(BAD))))
    assert reported(program(call.format(", ".join(GOOD)))) == []


def test_several_with_names() -> None:
    def pairs(steps: tuple[str, ...]) -> str:
        return f"named([{', '.join(f'({step!r}, {step})' for step in steps)}])"

    assert is_reported(program(pairs(BAD)))
    assert reported(program(pairs(GOOD))) == []


def test_functions_that_the_constructor_lists() -> None:
    for body in ("all_of(self.plan)", "for step in self.plan:\n    step()"):
        assert is_reported(program(body, plan=f"({', '.join(BAD)})"))
        assert reported(program(body, plan=f"({', '.join(GOOD)})")) == []


def test_functions_that_a_module_lists() -> None:
    trim = "\n\ndef trim(scorer):\n    torch.cuda.empty_cache()\n\n\nSTEPS = ({})\n"
    body = "of_all(self, STEPS)"
    bad, good = "Scorer.drop, trim, Scorer.forget", "Scorer.drop, Scorer.forget, trim"
    assert is_reported(program(body) + trim.format(bad))
    assert reported(program(body) + trim.format(good)) == []


@pytest.mark.parametrize(("put", "serve"), SERVED.values(), ids=SERVED.keys())
def test_a_loop_that_takes_functions_out_of_a_queue(put: str, serve: str) -> None:
    lane = LANE.replace("({put})", "{put}" if "," not in put else "({put})").format(put=put, serve=serve)
    assert is_reported(program(in_order("self.lane.run({})", *BAD), lane=lane))
    assert reported(program(in_order("self.lane.run({})", *GOOD), lane=lane)) == []


def test_a_queue_whose_items_nobody_calls() -> None:
    serve = "        while True:\n            f, a, d = self.jobs.get()\n            print(f)"
    lane = LANE.format(put="work, more, done", serve=serve)
    assert reported(program(in_order("self.lane.run({})", *BAD), lane=lane)) == []


def test_what_is_only_kept_is_not_called() -> None:
    assert reported(program(in_order("self.kept.append({})", *BAD))) == []
    assert reported(program(in_order("print({})", *BAD))) == []


def test_a_helper_calls_what_it_is_handed_here_and_not_what_others_hand_it() -> None:
    body = "attempt(self.drop)\nattempt(self.forget_one)\nattempt(self.forget)"
    other = "\n    def trim(self):\n        attempt(torch.cuda.empty_cache)\n"
    assert reported(program(body) + other) == []


def test_a_thread_that_takes_functions_out_of_a_deque() -> None:
    serve = "        while True:\n            if self.jobs:\n                f, a, d = self.jobs.popleft()\n"
    serve += "                d.set_result(f(*a))"
    lane = (
        LANE.format(put="work, more, done", serve=serve)
        .replace("queue.Queue()", "deque()")
        .replace(".put(", ".append(")
    )
    lane = "from collections import deque\n" + lane
    assert is_reported(program(in_order("self.lane.run({})", *BAD), lane=lane))
    assert reported(program(in_order("self.lane.run({})", *GOOD), lane=lane)) == []


def test_what_waits_in_a_list_until_there_is_time_for_it_has_not_run_yet() -> None:
    serve = "        while self.jobs:\n            f, a, d = self.jobs.pop()\n            d.set_result(f(*a))"
    lane = LANE.format(put="work, more, done", serve=serve).replace("queue.Queue()", "[]").replace(".put(", ".append(")
    lane = lane.replace("        threading.Thread(target=self.serve, daemon=True).start()\n", "")
    assert reported(program(in_order("self.lane.run({})", *BAD), lane=lane)) == []


def test_futures_that_are_waited_for_together() -> None:
    call = "wait([self.there.submit({})])"
    head = "from concurrent.futures import wait\n"
    assert is_reported(head + program(in_order(call, *BAD)))
    assert reported(head + program(in_order(call, *GOOD))) == []


def test_paths_that_fail_do_not_hide_those_that_do_not() -> None:
    again = "\n\ndef again(work):\n    for _ in range(3):\n        try:\n            return work()\n"
    again += "        except RuntimeError:\n            continue\n"
    assert is_reported(program(in_order("again({})", *BAD)) + again)
    assert reported(program(in_order("again({})", *GOOD)) + again) == []
