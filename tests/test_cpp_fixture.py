"""The fixtures that hold C++: nothing runs them, so what they show is what the analysis reads in them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from cpp_cases import reported

from graphlint import cpp, registry, summaries, typestate, vocabulary
from graphlint.effects import Effect
from graphlint.findings import MAX_STEPS, Suspect
from graphlint.source import Source
from graphlint.validation.cases import Case, discover, load, strip_markers
from graphlint.vocabulary import Entry, Vocabulary

FIXTURES = Path(__file__).parent.parent / "fixtures"
CASES = [case for path in sorted(FIXTURES.glob("*/*/fixture.toml")) if (case := load(path)).only_read]
MARKER = re.compile(rb"[ \t]*// hazard: ([a-z0-9-]+)$", re.MULTILINE)
RULES = registry.load(FIXTURES.parent / "rules")
SHAPES = {rule.cpp: rule.name for rule in RULES if rule.cpp is not None}
"""The rules that report the shapes, as the markers name them."""


def cpp_files(case: Case, variant: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (case.folder / variant).iterdir() if path.suffix in cpp.SUFFIXES}


def analysis(case: Case, variant: str) -> cpp.Analysis:
    return cpp.Analysis(cpp.read(Source(name, content)) for name, content in cpp_files(case, variant).items())


def test_there_is_one() -> None:
    assert CASES != []


def test_every_shape_has_its_rule() -> None:
    assert set(SHAPES) == set(cpp.SHAPES)


ORDERS = """
class Runner {
  void step(int64_t n, cudaStream_t stream) { if (isCapturing(stream)) { kept_ = torch::empty({n}, torch::kCUDA); } }
  void grow(int64_t n, cudaStream_t stream) { if (other_.numel() < n) { other_ = torch::empty({n}, torch::kCUDA); } }
  void stop() { graph_.reset(); c10::cuda::CUDACachingAllocator::emptyCache(); graph_.reset(); }
  at::cuda::CUDAGraph graph_;
  at::Tensor kept_;
  at::Tensor other_;
};
"""


def test_rules_report_c_plus_plus_in_their_own_words() -> None:
    source = Source("runner.cpp", ORDERS.encode())
    of = cpp.Analysis([cpp.read(source)])
    found = [cpp.finding(suspect, rule) for rule in RULES for suspect in cpp.suspects(of, rule)]
    assert {(one.rule, source.row(one.span.start), one.symbol) for one in found} == {
        ("capture-alloc", 3, "Runner.step"),
        ("workspace-growth", 4, "Runner.grow"),
        ("pool-order", 5, "Runner.stop"),
        ("duplicate-release", 5, "Runner.stop"),
    }
    assert all("Runner::" in one.message and "{" not in one.message and one.fix is None for one in found)
    assert len({one.fingerprint for one in found}) == len(found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_no_run_takes_it(case: Case) -> None:
    assert case.title not in {other.title for other in discover(FIXTURES)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
@pytest.mark.parametrize("variant", ["bad", "fixed"])
def test_the_marked_lines_are_reported(case: Case, variant: str) -> None:
    files = cpp_files(case, variant)
    marked = {
        (name, content.count(b"\n", 0, match.start()) + 1, match[1].decode())
        for name, content in files.items()
        for match in MARKER.finditer(content)
    }
    found = reported({name: MARKER.sub(b"", content).decode() for name, content in files.items()})
    assert {(place.path, place.row, SHAPES[place.rule]) for place in found} == marked
    assert marked


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_python_calls_what_is_bound(case: Case) -> None:
    python = b"".join(case.files("bad").values()).decode()
    effects = cpp.bound_effects(analysis(case, "bad"))
    allocating = [one for one in effects if one.does is Effect.WS_ALLOC]
    assert allocating
    for one in allocating:
        owner, _, method = one.call.rpartition(".")
        assert f"{owner}(" in python
        assert f".{method}(" in python
        assert one.released_by
        assert all(f".{release.rpartition('.')[2]}(" in python for release in one.released_by)


def python_suspects(case: Case, variant: str) -> list[Suspect]:
    """What the ordering rules say of a case's Python, once it knows what the C++ beside it does."""
    sources = [Source(name, content) for name, content in case.files(variant).items()]
    effects = cpp.bound_effects(analysis(case, variant))
    (first,) = summaries.load(sources, extended(effect.entry() for effect in effects))
    joined = cpp.kept_by(effects, first)
    (second,) = summaries.load(sources, extended(one.entry for one in joined))
    return [cpp.crossed(suspect, joined) for rule in RULES for suspect in typestate.suspects(second, rule)]


def extended(entries: Iterable[Entry]) -> Vocabulary:
    words = vocabulary.load()
    for entry in entries:
        words.calls.setdefault(entry.name, []).append(entry)
    return words


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
@pytest.mark.parametrize("variant", ["bad", "fixed"])
def test_python_has_its_evidence_from_the_code(case: Case, variant: str) -> None:
    marked = {
        (name, row, rule) for name, content in case.sources(variant).items() for row, rule in strip_markers(content)[1]
    }
    texts = case.files(variant)
    found = {
        (one.path, Source(one.path, texts[one.path]).row(one.at.start), one.rule)
        for one in python_suspects(case, variant)
    }
    assert found == marked


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_the_witness_crosses_the_border(case: Case) -> None:
    (suspect,) = python_suspects(case, "bad")
    trace = [(Path(step.path).suffix, step.effect) for step in suspect.trace]
    assert trace[:2] == [(".cpp", "ws_alloc"), (".cpp", "call")]
    assert (".cpp", "is_capturing") in trace
    assert trace[-1] == (".py", "erase")
    assert len(trace) <= MAX_STEPS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_without_the_code_nothing_is_known(case: Case) -> None:
    (python,) = summaries.load([Source(*item) for item in case.files("bad").items()], vocabulary.load())
    assert not [one for rule in RULES for one in typestate.suspects(python, rule)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_bad_and_fixed_differ_in_python_alone(case: Case) -> None:
    assert cpp_files(case, "bad") == cpp_files(case, "fixed")
    assert case.files("bad") != case.files("fixed")
    assert case.rule in {rule for content in case.sources("bad").values() for _, rule in strip_markers(content)[1]}
