"""What rewritten programs do: each runs under a torch that writes down what happens, before its rewrite and after it."""

from __future__ import annotations

import gc
import importlib
import itertools
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import engine_programs
import pytest
from recording_torch import recording_torch

from graphlint import check, fixing, registry
from graphlint.config import Settings


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "engine"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def rewritten(files: Mapping[str, str], *rules: str) -> dict[str, str]:
    """The files after the rules' fixes, which leave nothing for a second run."""
    write(files)
    outcome = fixing.fix(check.read(["."], Settings(), {}), registry.select(rules), unsafe=True)
    assert outcome.applied
    assert outcome.refused == ()
    after = {**files, **{path: change.after.decode() for path, change in outcome.changes.items()}}
    write(after)
    assert fixing.fix(check.read(["."], Settings(), {}), registry.select(rules), unsafe=True).changes == {}
    return after


def write(files: Mapping[str, str]) -> None:
    for path, text in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")


def play(files: Mapping[str, str], run: Callable[[Any, types.ModuleType], Any]) -> tuple[list[str], Any]:
    """What a program does, and what `run` gives, which gets the function that imports its modules, and torch."""
    write(files)
    forget()
    log: list[str] = []
    torch = recording_torch(log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", torch)
        patch.setitem(sys.modules, "torch.cuda", torch.cuda)
        return log, run(lambda name: importlib.import_module(f"engine.{name}"), torch)


# ------------------------------------------------------------------------------------ the pool, the release, the graphs


def stop_both(load: Callable[[str], Any], torch: types.ModuleType) -> list[str]:
    experts = load("kernels.experts").Experts
    model, loop = load("decode.model").Model, load("decode.loop").Loop
    both = loop(model("large"), model("small"), types.SimpleNamespace(hangs=lambda: False))

    class Held(dict[Any, Any]):
        def clear(self) -> None:
            log.append("release")
            super().clear()

    log: list[str] = []
    torch.cuda.empty_cache = lambda: log.append("erase")
    for name in ("large", "small"):
        for graph in getattr(both, name).recorder.recorded.values():
            graph.reset = lambda name=name: log.append(f"reset {name}")
    experts.workspaces = Held()
    both.stop()
    return list(log)  # as it is before a destructor adds to it


def test_once_for_each_model_it_is_released_behind_the_graphs_and_before_the_pool() -> None:
    before = engine_programs.POOL_ERASED_FIRST
    assert play(before, stop_both)[1] == ["reset large", "erase", "reset small", "erase"]
    after = rewritten(before, "pool-order")
    one = ["release", "erase"]
    assert play(after, stop_both)[1] == ["reset large", *one, "reset small", *one]


@pytest.mark.parametrize("at_once", [True, False])
def test_it_is_released_once_behind_all_graphs_and_before_all_pools(at_once: bool) -> None:
    after: Mapping[str, str] = engine_programs.POOL_ERASED_FIRST
    for rules in [("pool-order", "shared-release")] if at_once else [("pool-order",), ("shared-release",)]:
        after = rewritten(after, *rules)
    assert play(after, stop_both)[1] == ["reset large", "reset small", "release", "erase", "erase"]


def test_one_model_alone_goes_down_as_before() -> None:
    def one(load: Callable[[str], Any], _: types.ModuleType) -> None:
        model = load("decode.model").Model("alone")
        model.prepare()
        model._drop_graphs()

    after = rewritten(engine_programs.POOL_ERASED_FIRST, "pool-order", "shared-release")
    assert play(after, one)[0][:2] == ["reset 1", "erase"]


# ------------------------------------------------------------------------------------------------------- released twice


def test_whoever_starts_it_leaves_the_release_to_the_trial_run() -> None:
    def start(load: Callable[[str], Any], _: types.ModuleType) -> tuple[list[int], bool]:
        models: list[Any] = []
        real = load("model").Model

        class Model(real):  # type: ignore[misc, valid-type] # made as the test runs
            def __init__(self, options: object) -> None:
                super().__init__(options)
                self.drops = 0
                models.append(self)

            def drop_graphs(self) -> None:
                self.drops += 1

        starting = load("start")
        starting.Model = Model
        starting.start(types.SimpleNamespace(records=True))
        return [model.drops for model in models], all(model.plan is None for model in models)

    before = engine_programs.RELEASED_TWICE
    assert play(before, start)[1] == ([2, 2], True)
    assert play(rewritten(before, "duplicate-release"), start)[1] == ([1, 1], True)


# ---------------------------------------------------------------------------------------------------------- named alike


def test_a_name_is_one_shape_on_one_device() -> None:
    def ask(load: Callable[[str], Any], torch: types.ModuleType) -> int:
        asked: dict[str, tuple[object, ...]] = {}
        violations = 0
        mixing = load("mixer")

        class Arena:
            def request(self, name: str, *what: object) -> object:
                nonlocal violations
                violations += asked.setdefault(name, what) != what
                return torch.empty()

        mixing.ARENA = Arena()
        for width, rows, device in itertools.product((64, 128), (1, 8), ("cuda:0", "cuda:1")):
            mixer = mixing.Mixer(width)
            mixer.hidden[rows] = types.SimpleNamespace(device=device)
            mixer.forward(rows)
        return violations

    before = engine_programs.NAMED_ALIKE
    assert play(before, ask)[1] > 0
    assert play(rewritten(before, "unkeyed-buffer"), ask)[1] == 0


# ------------------------------------------------------------------------------------------------ a handle that outlives


def test_a_second_model_gets_a_pool_of_its_own() -> None:
    def twice(load: Callable[[str], Any], _: types.ModuleType) -> list[object]:
        handles = []
        for _number in range(2):
            model = load("model").Model()
            model.prepare()
            handles.append(model.recorder.pool)
            model.close()
        return handles

    before = engine_programs.HANDLE_OUTLIVES
    one, other = play(before, twice)[1]
    assert one == other is not None
    one, other = play(rewritten(before, "pool-handle"), twice)[1]
    assert None not in (one, other)
    assert one != other


# -------------------------------------------------------------------------------------------------------------- growth


def grow(load: Callable[[str], Any], torch: types.ModuleType) -> tuple[bool, bool, bool]:
    """Whether what a capture was given survives, what none was given is freed, and growth in a capture is refused."""
    get = load("reduce").workspace_for
    get("group", "half", 16 << 20)
    torch.cuda.capturing = True
    captured = weakref.ref(get("group", "half", 16 << 20)["buffer"])
    try:
        get("group", "half", 64 << 20)
        refused = False
    except RuntimeError:
        refused = True
    torch.cuda.capturing = False
    free = weakref.ref(get("group", "half", 112 << 20)["buffer"])
    get("group", "half", 224 << 20)
    gc.collect()
    return captured() is not None, free() is None, refused


@pytest.mark.parametrize("rules", [("workspace-growth",), ("workspace-growth", "capture-alloc")])
def test_growth_keeps_what_a_capture_was_given_and_nothing_else(rules: Sequence[str]) -> None:
    before = engine_programs.GROWN_AWAY
    assert play(before, grow)[1] == (False, True, False)
    assert play(rewritten(before, *rules), grow)[1] == (True, True, True)
