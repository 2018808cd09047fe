"""Every fixture under the torch without a GPU: bad shows its hazard, fixed does not, and wrong rewrites are caught."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from graphlint import registry
from graphlint.rule import Rule
from graphlint.validation import judge, standin
from graphlint.validation.cases import BAD, FIXED, Case, Kind, Setting, discover
from graphlint.validation.verdict import Verdict
from graphlint.validation.verdict import judge as verdict

ROOT = Path(__file__).parent.parent
CASES = discover(ROOT / "fixtures")
RULES = {rule.name: rule for rule in registry.load(ROOT / "rules")}
ORDERED = [(case, RULES[case.rule]) for case in CASES if case.rule in RULES and RULES[case.rule].automaton]


def titled(value: object) -> str | None:
    return value.title if isinstance(value, Case) else value.name if isinstance(value, Rule) else None


@pytest.mark.parametrize("case", CASES, ids=titled)
def test_bad_shows_what_it_declares_and_nothing_else(case: Case) -> None:
    trace = standin.run(case.files(BAD), case.entry_of(BAD))
    judged = verdict(BAD, case.symptoms[Setting.DEFAULT], trace.ended)
    assert judged.verdict is Verdict.CONFIRMED, (judged.reason, judged.failures)


@pytest.mark.parametrize("case", CASES, ids=titled)
def test_fixed_is_clean_and_its_pointers_are_audited(case: Case) -> None:
    judged = verdict(FIXED, None, standin.run(case.files(FIXED), case.entry_of(FIXED)).ended)
    assert judged.verdict is Verdict.CONFIRMED, (judged.reason, judged.failures)
    assert judged.pointers


WRONG = [(case, wrong.name) for case in CASES for wrong in case.wrong]


@pytest.mark.parametrize(("case", "name"), WRONG, ids=[f"{case.title}: {name}" for case, name in WRONG])
def test_a_wrong_rewrite_is_rejected(case: Case, name: str) -> None:
    judged = verdict(name, None, standin.run(case.files(name), case.entry_of(name)).ended)
    assert judged.verdict is Verdict.CONFIRMED, judged.reason
    assert not any("NameError" in failure.text or "SyntaxError" in failure.text for failure in judged.failures)


@pytest.mark.parametrize(("case", "rule"), ORDERED, ids=[case.title for case, _ in ORDERED])
def test_the_rules_automaton_judges_the_trace(case: Case, rule: Rule) -> None:
    assert rule.automaton is not None
    assert judge.hazards(rule.automaton, standin.run(case.files(BAD), case.entry_of(BAD)))
    assert not judge.hazards(rule.automaton, standin.run(case.files(FIXED), case.entry_of(FIXED)))


def test_the_wrong_rewrites_that_people_make_are_among_those_rejected() -> None:
    assert {
        "release after erase",
        "release before reset",
        "growth without retiring",
        "retire without marking",
        "name without shape",
        "name without device",
    } <= {name for _, name in WRONG}


@pytest.mark.parametrize("case", CASES, ids=titled)
def test_bad_marks_a_line_of_its_own_rule(case: Case) -> None:
    assert case.rule in {marker.rule for marker in case.markers(BAD)}
    assert case.rule not in {marker.rule for marker in case.markers(FIXED)}


@pytest.mark.parametrize("case", CASES, ids=titled)
def test_a_fixture_imports_torch_and_nothing_that_has_to_be_installed(case: Case) -> None:
    for variant in (BAD, FIXED):
        files = case.files(variant)
        own = {name.removesuffix(".py") for name in files}
        for content in files.values():
            for node in ast.walk(ast.parse(content)):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
                for name in names:
                    assert name == "torch" or name in own or name in sys.stdlib_module_names, name


@pytest.mark.parametrize("case", CASES, ids=titled)
def test_bad_and_fixed_observe_the_same(case: Case) -> None:
    def observes(variant: str) -> str:
        tree = ast.parse(case.files(variant)[case.entry_of(variant)])
        found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "observe"]
        return ast.dump(found[0])

    assert observes(BAD) == observes(FIXED)


def test_every_rule_that_the_project_is_named_for_has_two_cases() -> None:
    named = ("pool-handle", "capture-alloc", "pool-order", "duplicate-release", "unkeyed-buffer")
    assert {rule: sum(case.rule == rule for case in CASES) >= 2 for rule in named} == dict.fromkeys(named, True)


def test_each_kind_of_symptom_is_shown_by_some_case() -> None:
    shown = {symptom.kind for case in CASES for symptom in case.symptoms.values()}
    assert shown >= {Kind.CRASH, Kind.ERROR, Kind.CORRUPT, Kind.LEAK}


def test_a_fixture_is_formatted(tmp_path: Path) -> None:
    for case in CASES:
        for variant in (BAD, FIXED):
            for name, content in case.files(variant).items():
                (tmp_path / f"{case.rule}-{case.name}-{variant}-{name.replace('/', '-')}").write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--diff", "--isolated", "--line-length", "88", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


class TestStandIn:
    """The model itself: without these a fixture could pass because the model cannot fail."""

    @staticmethod
    def shown(body: str) -> list[str]:
        source = "import torch\n\n\ndef observe(probe):\n" + "".join(f"    {line}\n" for line in body.splitlines())
        trace = standin.run({"bad.py": source.encode()}, "bad.py")
        return [failure.text for failure in verdict("any", None, trace.ended).failures]

    def test_a_replay_repeats_the_operations_on_the_captured_addresses(self) -> None:
        assert not self.shown(
            "x = torch.zeros(4, device='cuda')\n"
            "g = torch.cuda.CUDAGraph()\n"
            "with torch.cuda.graph(g):\n"
            "    y = x * 2 + 1\n"
            "x.fill_(3)\n"
            "probe.replay(g)\n"
            "probe.check('y', y, torch.full((4,), 7.0, device='cuda'))\n"
            "probe.check('list', y.tolist(), [7.0] * 4)"
        )

    def test_a_capture_runs_nothing(self) -> None:
        (text,) = self.shown(
            "x = torch.ones(4, device='cuda')\n"
            "g = torch.cuda.CUDAGraph()\n"
            "with torch.cuda.graph(g):\n"
            "    y = x * 2\n"
            "probe.check('y', y, x * 2)"
        )
        assert text.startswith("y: tensor of (4,): [nan")

    def test_a_freed_block_goes_to_the_next_of_its_size_and_a_graph_goes_on_writing_there(self) -> None:
        texts = self.shown(
            "x = torch.ones(1024, device='cuda')\n"
            "w = torch.zeros(1024, device='cuda')\n"
            "g = torch.cuda.CUDAGraph()\n"
            "with torch.cuda.graph(g):\n"
            "    w.copy_(x)\n"
            "del w\n"
            "probe.canary(x)\n"
            "probe.replay(g)"
        )
        assert any("is reused, freed by observe at bad.py:10" in text for text in texts)
        assert "canary: 1024 elements overwritten at replay" in texts

    def test_memory_that_was_given_back_is_illegal(self) -> None:
        texts = self.shown(
            "x = torch.ones(1024, device='cuda')\n"
            "g = torch.cuda.CUDAGraph()\n"
            "with torch.cuda.graph(g):\n"
            "    y = x * 2\n"
            "del x\n"
            "torch.cuda.empty_cache()\n"
            "probe.replay(g)"
        )
        assert "AcceleratorError: CUDA error: an illegal memory access was encountered" in texts

    def test_a_pool_of_dead_graphs_takes_no_capture_while_a_block_is_held(self) -> None:
        body = (
            "x = torch.ones(8, device='cuda')\n"
            "h = torch.cuda.graph_pool_handle()\n"
            "g = torch.cuda.CUDAGraph()\n"
            "with torch.cuda.graph(g, pool=h):\n"
            "    y = x * 2\n"
            "g.reset()\n"
            "{}\n"
            "with torch.cuda.graph(g, pool=h):\n"
            "    z = x * 3"
        )
        assert any("use_count > 0" in text for text in self.shown(body.format("pass")))
        assert not self.shown(body.format("del y"))

    def test_a_partial_write_leaves_the_rest(self) -> None:
        assert not self.shown(
            "x = torch.arange(0.0, 6.0, device='cuda')\n"
            "x[2:4].fill_(9)\n"
            "probe.check('x', x.tolist(), [0.0, 1.0, 9.0, 9.0, 4.0, 5.0])\n"
            "probe.check('sum', (x + x * 2).tolist(), [0.0, 3.0, 27.0, 27.0, 12.0, 15.0])"
        )

    def test_resizing_moves_a_tensor_and_keeps_its_contents(self) -> None:
        assert not self.shown(
            "x = torch.ones(1024, device='cuda')\n"
            "before = x.data_ptr()\n"
            "x.resize_(4096)\n"
            "probe.check('moved', x.data_ptr() != before, True)\n"
            "probe.check('kept', x[:1024], torch.ones(1024, device='cuda'))\n"
            "probe.check('held', torch.cuda.memory_allocated() >= 16384, True)"
        )

    def test_a_difference_is_shown_where_it_begins(self) -> None:
        (text,) = self.shown(
            "x = torch.zeros(1000, device='cuda')\n"
            "x[700:].fill_(5)\n"
            "probe.check('x', x, torch.zeros(1000, device='cuda'))"
        )
        assert text == (
            "x: tensor of (1000,) from element 700: [5.0, 5.0, 5.0, 5.0], "
            "not tensor of (1000,) from element 700: [0.0, 0.0, 0.0, 0.0]"
        )

    def test_it_leaves_the_interpreter_as_it_was(self) -> None:
        before = (dict(sys.modules), list(sys.path), sys.getprofile())
        self.shown("pass")
        assert (dict(sys.modules), list(sys.path), sys.getprofile()) == before
