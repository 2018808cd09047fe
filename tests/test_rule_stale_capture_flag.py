"""Which answers of a capture test are kept from before the capture, and which are asked in time."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphlint import check, registry
from graphlint.config import Settings
from graphlint.findings import Finding

RULE = "stale-capture-flag"
TEST = "torch.cuda.is_current_stream_capturing()"


def findings(folder: Path, body: str, *, preview: bool = False) -> list[Finding]:
    text = f"import torch\n\n\n{textwrap.dedent(body).strip()}\n"
    (folder / "program.py").write_text(text, encoding="utf-8")
    report = check.check([str(folder)], Settings(preview=preview), registry.select([RULE]))
    for finding in report.findings:
        assert text[finding.span.start : finding.span.end] in (TEST, "capturing()")
    return list(report.findings)


LAYER = """
class Layer:
    def __init__(self, pool):
        self.pool = pool
        {kept}

    def forward(self, x):
        return self.pool.take(x.shape, reserve=self.keep)
"""

KEPT = {
    "attribute": f"self.keep = {TEST}",
    "local": f"flag = {TEST}\n        self.keep = flag",
    "with another test": f"self.keep = pool is not None and {TEST}",
    "choice": f"self.keep = True if {TEST} else False",
    "branch": f"self.keep = False\n        if {TEST}:\n            self.keep = True",
}


@pytest.mark.parametrize("kept", KEPT.values(), ids=list(KEPT))
def test_an_attribute_that_a_constructor_sets(tmp_path: Path, kept: str) -> None:
    assert len(findings(tmp_path, LAYER.format(kept=kept))) == 1


SILENT = {
    "a refusal": f"self.keep = True\n        if {TEST}:\n            raise RuntimeError",
    "an assertion": f"self.keep = True\n        assert not {TEST}",
    "a purpose": "self.keep = pool.for_graph",
    "the test itself": "self.keep = torch.cuda.is_current_stream_capturing",
    "asked later": f"self.keep = lambda: {TEST}",
    "never read": f"self.keep = self.other = 0\n        self.seen = {TEST}",
    "a log": f"self.keep = 0\n        print({TEST})",
}


@pytest.mark.parametrize("kept", SILENT.values(), ids=list(SILENT))
def test_a_constructor_may_ask(tmp_path: Path, kept: str) -> None:
    assert findings(tmp_path, LAYER.format(kept=kept), preview=True) == []


def test_a_flag_that_a_constructor_passes_on(tmp_path: Path) -> None:
    body = f"""
        class Meta:
            def __init__(self, book):
                self._fill(book)

            def _fill(self, book):
                self.lengths = book.get("lengths", reserve={TEST})
        """
    assert len(findings(tmp_path, body)) == 1


def test_the_test_at_the_request_is_right(tmp_path: Path) -> None:
    body = f"""
        class Layer:
            def forward(self, book):
                return book.get("lengths", reserve={TEST})
        """
    assert findings(tmp_path, body, preview=True) == []


def test_an_object_that_is_built_in_a_capture_is_told_the_truth(tmp_path: Path) -> None:
    body = LAYER.format(kept=f"self.keep = {TEST}") + (
        "\n\ndef record(graph, pool, x):\n    with torch.cuda.graph(graph):\n        return Layer(pool).forward(x)\n"
    )
    assert findings(tmp_path, body, preview=True) == []


def test_an_object_that_is_built_before_the_block_is_not(tmp_path: Path) -> None:
    body = LAYER.format(kept=f"self.keep = {TEST}") + (
        "\n\ndef record(graph, pool, x):\n    layer = Layer(pool)\n"
        "    with torch.cuda.graph(graph):\n        return layer.forward(x)\n"
    )
    assert len(findings(tmp_path, body)) == 1


def test_an_attribute_that_is_set_again_is_silent(tmp_path: Path) -> None:
    body = LAYER.format(kept=f"self.keep = {TEST}") + f"\n    def begin(self):\n        self.keep = {TEST}\n"
    assert findings(tmp_path, body, preview=True) == []


def test_a_context_manager_is_built_where_it_is_used(tmp_path: Path) -> None:
    body = f"""
        class Collected:
            def __init__(self):
                self.keep = {TEST}

            def __enter__(self):
                if self.keep:
                    torch.cuda.synchronize()

            def __exit__(self, *error):
                pass
        """
    assert findings(tmp_path, body, preview=True) == []


def test_a_wrapper_of_the_project_is_a_test_too(tmp_path: Path) -> None:
    body = f"def capturing():\n    return {TEST}\n\n" + LAYER.format(kept="self.keep = capturing()")
    assert len(findings(tmp_path, body)) == 1


def test_a_module_variable(tmp_path: Path) -> None:
    body = f"KEEP = {TEST}\n\n\ndef forward(pool, x):\n    return pool.take(x.shape, reserve=KEEP)"
    assert len(findings(tmp_path, body)) == 1


def test_a_default_is_asked_once(tmp_path: Path) -> None:
    assert len(findings(tmp_path, f"def take(shape, reserve={TEST}):\n    return shape, reserve")) == 1


RECORD = """
def record(graph, pool, x):
    {before}
    with torch.cuda.graph(graph):
        {inside}
        return pool.take(x.shape, reserve=keep)
"""


def test_a_local_from_before_the_block(tmp_path: Path) -> None:
    assert len(findings(tmp_path, RECORD.format(before=f"keep = {TEST}", inside="pass"))) == 1


def test_a_local_from_inside_the_block(tmp_path: Path) -> None:
    assert findings(tmp_path, RECORD.format(before="pass", inside=f"keep = {TEST}"), preview=True) == []
