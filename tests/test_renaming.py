"""What a project calls its things changes no finding, as long as the vocabulary speaks of them by the same names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from renaming import other

from graphlint import check, registry, vocabulary
from graphlint.cli import cli
from graphlint.config import Settings
from graphlint.validation.cases import BAD, Case, discover

ROOT = Path(__file__).parent.parent
CASES = [case for case in discover(ROOT / "fixtures") if all(name.endswith(".py") for name in case.files(BAD))]


def found(files: Mapping[str, str], place: Path) -> list[tuple[str, int, str]]:
    for name, text in files.items():
        (place / name).write_text(text)
    report = check.judge(check.read((str(place),), Settings(root=str(place), src=(".",)), {}), registry.rules())
    return sorted(
        (Path(each.path).name, report.sources[each.path].row(each.span.start), each.rule) for each in report.findings
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_fixture_under_other_names_has_the_same_findings(case: Case, tmp_path: Path) -> None:
    files = {name: content.decode() for name, content in case.files(BAD).items()}
    renamed_files, names = other(files, case.title)
    assert sum(old != new for old, new in names.items()) > 5
    assert found(renamed_files, tmp_path) == sorted(
        (Path(marker.file).name, marker.row, marker.rule) for marker in case.markers(BAD)
    )


CHAIN = {
    "kernels.py": """
        import torch

        class Experts:
            table = {}

            def forward(self, rows):
                return torch.ops.house.experts(rows)

            @classmethod
            def forget(cls):
                cls.table.clear()
        """,
    "model.py": """
        from kernels import Experts

        class Model:
            def __init__(self):
                self.experts = Experts()

            def forward(self, rows):
                return self.experts.forward(rows)
        """,
    "recorder.py": """
        import torch
        from model import Model

        class Recorder:
            def __init__(self):
                self.graphs = {}
                self.model = Model()

            def record(self, size, rows):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    self.model.forward(rows)
                self.graphs[size] = graph

            def wipe(self):
                for graph in self.graphs.values():
                    graph.reset()
                self.graphs.clear()
                tidy()
        from memory import tidy
        """,
    "memory.py": """
        import torch

        def tidy():
            flush()

        def flush():
            torch.cuda.empty_cache()
        """,
    "server.py": """
        from kernels import Experts
        from recorder import Recorder

        class Server:
            def __init__(self):
                self.recorder = Recorder()

            def shutdown(self):
                self.end()
                Experts.forget()

            def end(self):
                self.recorder.wipe()
        """,
}
"""A server whose shutdown erases a pool, through five files, before it lets go of what a compiled operator keeps there."""
VOCABULARY = """
[[tool.graphlint.vocabulary.effect]]
call = "torch.ops.house.experts"
does = "ws_alloc"
while = "capturing"
store = "kernels.Experts.table"
released-by = "kernels.Experts.forget"
scope = "process"

[[tool.graphlint.vocabulary.effect]]
call = "kernels.Experts.forget"
does = "ws_release"
of = "kernels.Experts.table"
scope = "process"
"""


def concise(place: Path, files: Mapping[str, str], settings: str) -> tuple[list[str], str]:
    """Places and rules that the command reports, and what it says on standard error."""
    place.mkdir()
    (place / "pyproject.toml").write_text('[tool.graphlint]\nsrc = ["."]\n' + settings)
    for name, text in files.items():
        (place / name).write_text(text)
    done = CliRunner().invoke(
        cli, ["check", str(place), "--config", str(place / "pyproject.toml"), "--output-format", "concise"]
    )
    assert done.exit_code in (0, 1), done.output
    return [
        re.sub(r"^.*?([\w.]+:\d+:\d+: \w+\[[\w-]+\]).*$", r"\1", line) for line in done.stdout.splitlines()
    ], done.stderr


def dedented(files: Mapping[str, str]) -> dict[str, str]:
    return {name: re.sub(r"^ {8}", "", text, flags=re.MULTILINE).strip() + "\n" for name, text in files.items()}


def test_a_chain_of_calls_under_other_names(tmp_path: Path) -> None:
    files = dedented(CHAIN)
    lines, said = concise(tmp_path / "before", files, VOCABULARY)
    assert any("[pool-order]" in line for line in lines), said
    others, names = other(files, "chain")
    settings = re.sub(
        r'"[\w.]+"',
        lambda text: ".".join(names.get(word, word) for word in re.split(r"\.", text[0][1:-1])).join('""'),
        VOCABULARY,
    )
    assert settings != VOCABULARY
    again, _ = concise(tmp_path / "after", others, settings)
    assert [line.split(": ")[1] for line in again] == [line.split(": ")[1] for line in lines]
    assert [line.split(":")[:2] for line in again] == [line.split(":")[:2] for line in lines]


def test_without_its_vocabulary_a_run_says_what_it_cannot_see(tmp_path: Path) -> None:
    lines, said = concise(tmp_path / "tree", dedented(CHAIN), "")
    assert not any("[pool-order]" in line for line in lines)
    assert "no vocabulary says what torch.ops.house does (1 call)" in said
    _, said = concise(tmp_path / "spoken", dedented(CHAIN), VOCABULARY)
    assert "no vocabulary" not in said


def test_what_an_engine_loses_with_its_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        name: text.replace("torch.ops.house.experts", "torch.ops.trtllm.fused_moe")
        for name, text in dedented(CHAIN).items()
    }
    _, said = concise(tmp_path / "with", files, "")
    assert "no vocabulary" not in said
    rest = tuple(document for document in vocabulary.builtin() if not document.path.endswith("tensorrt-llm.toml"))
    monkeypatch.setattr(vocabulary, "builtin", lambda: rest)
    _, said = concise(tmp_path / "without", files, "")
    assert "no vocabulary says what torch.ops.trtllm does (1 call)" in said


def test_an_engine_with_a_vocabulary_of_any_kind_is_spoken_of(tmp_path: Path) -> None:
    _, said = concise(tmp_path / "vllm", dedented(CHAIN), "")  # its vocabulary has aliases and objects, and no call
    assert "no vocabulary" not in said


def test_operators_that_the_tree_defines_are_read_like_the_rest(tmp_path: Path) -> None:
    files = dedented(CHAIN)
    files["kernels.py"] += (
        '\n\n@torch.library.custom_op("house::experts", mutates_args=())\ndef experts(rows):\n    return rows\n'
    )
    _, said = concise(tmp_path / "tree", files, "")
    assert "no vocabulary" not in said
