from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from graphlint import registry, report
from graphlint.edits import Applicability, Edit, Fix
from graphlint.findings import Finding, Precision, Severity, Step
from graphlint.report import FORMATS, render
from graphlint.rule import Group, Kind, Rule
from graphlint.source import Source, Span

RUNNER = """\
class Runner:
    def stop(self):
        for graph in self.graphs:
            graph.reset()
        torch.cuda.empty_cache()
"""
ENGINE = "def stop(runner):\r\n\tnäme = '図'; runner.stop(\r\n\t\t1,\r\n\t)\r\n"
SOURCES = {
    "serving/runner.py": Source("serving/runner.py", RUNNER.encode()),
    "serving/engine.py": Source("serving/engine.py", ENGINE.encode()),
}


def at(path: str, text: str) -> Span:
    start = SOURCES[path].content.index(text.encode())
    return Span(start, start + len(text.encode()))


FIX = Fix(
    "release the workspaces before the erase",
    Applicability.UNSAFE,
    (
        Edit(
            "serving/runner.py",
            Span(at("serving/runner.py", "torch").start, at("serving/runner.py", "torch").start),
            b"release()\n",
        ),
        Edit("serving/engine.py", at("serving/engine.py", "1"), "'é'".encode()),
    ),
    ("no other engine holds one of them", "the next start allocates them again"),
)
ERASE = Finding(
    rule="early-erase",
    severity=Severity.ERROR,
    precision=Precision.HIGH,
    message="the pool is erased while workspaces hold memory of it",
    path="serving/runner.py",
    span=at("serving/runner.py", "torch.cuda.empty_cache()"),
    function=at("serving/runner.py", RUNNER[RUNNER.index("def") :].rstrip()),
    symbol="Runner.stop",
    trace=(
        Step("serving/runner.py", at("serving/runner.py", "graph.reset()"), "graph_death", "the graphs die"),
        Step("serving/runner.py", at("serving/runner.py", "torch.cuda.empty_cache()"), "erase", "the pool is erased"),
        Step("serving/engine.py", at("serving/engine.py", "runner.stop("), "ws_release", "the workspaces go"),
    ),
    notes=("expandable segments are unmapped under a live block",),
    fix=FIX,
)
CALL = Finding(
    rule="odd-call",
    severity=Severity.WARNING,
    precision=Precision.MEDIUM,
    message="100% odd: a, b",
    path="serving/engine.py",
    span=at("serving/engine.py", "runner.stop(\r\n\t\t1,\r\n\t)"),
    function=Span(0, len(ENGINE.encode())),
    symbol="stop",
)
NAME = replace(CALL, severity=Severity.NOTE, message="a note", span=at("serving/engine.py", "'図'"))
FINDINGS = (NAME, CALL, ERASE)
RULE = Rule(
    name="early-erase",
    summary="a pool is erased too early",
    message="a pool is erased too early",
    group=Group.TEARDOWN,
    severity=Severity.ERROR,
    precision=Precision.HIGH,
    kind=Kind.SHAPE,
    reported_at="the erase",
    fix=Applicability.SAFE,
    since="0.1",
)


@pytest.fixture(autouse=True)
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "page", lambda rule: f"# {rule.name}\n")


def shown(style: str, *findings: Finding, colour: bool = False) -> str:
    return render(style, findings, SOURCES, [RULE], colour=colour)


# --------------------------------------------------------------------------------------------------------------- text


def test_full_shows_the_source_the_path_the_notes_and_the_fix() -> None:
    assert (
        shown("full", ERASE)
        == """\
serving/runner.py:5:9: error[early-erase] the pool is erased while workspaces hold memory of it
    |
  3 |         for graph in self.graphs:
  4 |             graph.reset()
  5 |         torch.cuda.empty_cache()
    |         ^^^^^^^^^^^^^^^^^^^^^^^^
  path:
    1  serving/runner.py:4:13  graph_death  the graphs die
    2  serving/runner.py:5:9   erase        the pool is erased
    3  serving/engine.py:2:14  ws_release   the workspaces go
  note: expandable segments are unmapped under a live block
  fix (unsafe): release the workspaces before the erase
    - no other engine holds one of them
    - the next start allocates them again
"""
    )


def test_full_keeps_tabs_counts_wide_characters_and_shows_all_rows() -> None:
    assert (
        shown("full", CALL)
        == """\
serving/engine.py:2:14: warning[odd-call] 100% odd: a, b
    |
  1 | def stop(runner):
  2 | \tnäme = '図'; runner.stop(
    | \t             ^^^^^^^^^^^^
  3 | \t\t1,
  4 | \t)
"""
    )


def test_full_parts_findings_by_a_blank_line() -> None:
    assert "\n\nserving/engine.py" in shown("full", ERASE, CALL)
    assert shown("full") == ""


def test_of_a_long_statement_the_first_rows_are_shown() -> None:
    text = "call(\n" + "".join(f"    {i},\n" for i in range(20)) + ")\n"
    finding = replace(CALL, path="a.py", span=Span(0, len(text) - 1))
    lines = render("full", [finding], {"a.py": Source("a.py", text.encode())}).splitlines()
    assert lines[1:4] == ["     |", "   1 | call(", "     | ^^^^^"]
    assert lines[-2:] == ["   6 |     4,", "     | ..."]


def test_a_finding_at_the_end_of_an_empty_file_has_a_frame() -> None:
    finding = replace(CALL, path="a.py", span=Span(0, 0))
    assert render("full", [finding], {"a.py": Source("a.py", b"")}).splitlines()[1:] == ["    |", "  1 |", "    | ^"]


def test_source_cannot_steer_the_terminal() -> None:
    source = Source("a.py", b"x = '\x1b[31m\x07' # \xff\n")
    finding = replace(CALL, path="a.py", span=Span(0, 1))
    assert "  1 | x = '?[31m?' # \ufffd\n" in render("full", [finding], {"a.py": source})


def test_concise_is_one_line_a_finding() -> None:
    assert (
        shown("concise", *FINDINGS)
        == """\
serving/engine.py:2:9: note[odd-call] a note
serving/engine.py:2:14: warning[odd-call] 100% odd: a, b
serving/runner.py:5:9: error[early-erase] the pool is erased while workspaces hold memory of it
"""
    )


def test_colours_change_nothing_but_colours() -> None:
    import re

    for style in ("full", "concise"):
        plain, coloured = shown(style, *FINDINGS), shown(style, *FINDINGS, colour=True)
        assert plain != coloured
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    for style in ("json", "github", "sarif"):
        assert shown(style, *FINDINGS, colour=True) == shown(style, *FINDINGS)


# --------------------------------------------------------------------------------------------------------------- json


def record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": list(properties), "properties": properties}


TEXT = {"type": "string"}
LOCATION = record(row={"type": "integer", "minimum": 1}, column={"type": "integer", "minimum": 1})
EDIT = record(filename=TEXT, location=LOCATION, end_location=LOCATION, content=TEXT)
FIX_SCHEMA = record(
    applicability={"enum": ["safe", "unsafe", "suggest"]},
    title=TEXT,
    conditions={"type": "array", "items": TEXT},
    edits={"type": "array", "items": EDIT},
)
JSON_SCHEMA = {
    "type": "array",
    "items": record(
        rule=TEXT,
        severity={"enum": ["error", "warning", "note"]},
        precision={"enum": ["high", "medium", "low"]},
        message=TEXT,
        filename=TEXT,
        location=LOCATION,
        end_location=LOCATION,
        trace={"type": "array", "items": record(filename=TEXT, location=LOCATION, effect=TEXT, message=TEXT)},
        fix={"oneOf": [{"type": "null"}, FIX_SCHEMA]},
        fingerprint={"type": "string", "pattern": "^[0-9a-f]{16}(-[0-9]+)?$"},
    ),
}


def test_json_follows_its_schema() -> None:
    for findings in ((), FINDINGS):
        jsonschema.validate(json.loads(shown("json", *findings)), JSON_SCHEMA)


def test_json_says_all_about_a_finding() -> None:
    (found,) = json.loads(shown("json", ERASE))
    assert found["fingerprint"] == ERASE.fingerprint
    del found["fingerprint"]
    assert found == {
        "rule": "early-erase",
        "severity": "error",
        "precision": "high",
        "message": "the pool is erased while workspaces hold memory of it",
        "filename": "serving/runner.py",
        "location": {"row": 5, "column": 9},
        "end_location": {"row": 5, "column": 33},
        "trace": [
            {
                "filename": "serving/runner.py",
                "location": {"row": 4, "column": 13},
                "effect": "graph_death",
                "message": "the graphs die",
            },
            {
                "filename": "serving/runner.py",
                "location": {"row": 5, "column": 9},
                "effect": "erase",
                "message": "the pool is erased",
            },
            {
                "filename": "serving/engine.py",
                "location": {"row": 2, "column": 14},
                "effect": "ws_release",
                "message": "the workspaces go",
            },
        ],
        "fix": {
            "applicability": "unsafe",
            "title": "release the workspaces before the erase",
            "conditions": ["no other engine holds one of them", "the next start allocates them again"],
            "edits": [
                {
                    "filename": "serving/engine.py",
                    "location": {"row": 3, "column": 3},
                    "end_location": {"row": 3, "column": 4},
                    "content": "'é'",
                },
                {
                    "filename": "serving/runner.py",
                    "location": {"row": 5, "column": 9},
                    "end_location": {"row": 5, "column": 9},
                    "content": "release()\n",
                },
            ],
        },
    }


def test_json_columns_are_code_points() -> None:
    (found,) = json.loads(shown("json", CALL))
    assert (found["location"], found["end_location"]) == ({"row": 2, "column": 14}, {"row": 4, "column": 3})
    assert found["fix"] is None


def test_equal_fingerprints_are_made_distinct() -> None:
    prints = [found["fingerprint"] for found in json.loads(shown("json", CALL, ERASE, CALL, CALL))]
    assert prints == [CALL.fingerprint, ERASE.fingerprint, f"{CALL.fingerprint}-2", f"{CALL.fingerprint}-3"]


# ------------------------------------------------------------------------------------------------------------- github


def test_github_shows_the_worst_first_and_escapes() -> None:
    assert shown("github", *FINDINGS).splitlines() == [
        (
            "::error title=graphlint (early-erase),file=serving/runner.py,line=5,endLine=5,col=9,endColumn=33"
            "::the pool is erased while workspaces hold memory of it"
            "%0A1. serving/runner.py:4:13 the graphs die"
            "%0A2. serving/runner.py:5:9 the pool is erased"
            "%0A3. serving/engine.py:2:14 the workspaces go"
            "%0Aexpandable segments are unmapped under a live block"
        ),
        "::warning title=graphlint (odd-call),file=serving/engine.py,line=2,endLine=4::100%25 odd: a, b",
        "::notice title=graphlint (odd-call),file=serving/engine.py,line=2,endLine=2,col=9,endColumn=12::a note",
    ]


def test_github_properties_are_escaped() -> None:
    path = "a,b:c%.py"
    line = render("github", [replace(CALL, path=path)], {path: SOURCES[CALL.path]})
    assert ",file=a%2Cb%3Ac%25.py," in line


# -------------------------------------------------------------------------------------------------------------- sarif

MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": TEXT}}
REGION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["startLine", "startColumn", "endLine", "endColumn"],
    "properties": {
        name: {"type": "integer", "minimum": 1} for name in ("startLine", "startColumn", "endLine", "endColumn")
    },
}
ARTIFACT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["uri"],
    "properties": {"uri": {"type": "string", "pattern": r"^[!-~]*$"}, "uriBaseId": {"const": "%SRCROOT%"}},
}
PLACE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["physicalLocation"],
    "properties": {"physicalLocation": record(artifactLocation=ARTIFACT, region=REGION), "message": MESSAGE},
}


def some(items: Any) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "items": items}


# The part of SARIF 2.1.0 that is written, closed: what the standard knows and this tool does not write is an error.
SARIF_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["$schema", "version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": record(
                tool=record(
                    driver=record(
                        name={"const": "graphlint"},
                        semanticVersion=TEXT,
                        rules={
                            "type": "array",
                            "uniqueItems": True,
                            "items": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["id"],
                                "properties": {
                                    "id": TEXT,
                                    "shortDescription": MESSAGE,
                                    "help": record(text=TEXT, markdown=TEXT),
                                    "defaultConfiguration": record(
                                        level={"enum": ["none", "note", "warning", "error"]}
                                    ),
                                    "properties": {"type": "object"},
                                },
                            },
                        },
                    )
                ),
                automationDetails=record(id=TEXT),
                columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                results={
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
                        "properties": {
                            "ruleId": TEXT,
                            "ruleIndex": {"type": "integer", "minimum": 0},
                            "level": {"enum": ["none", "note", "warning", "error"]},
                            "message": MESSAGE,
                            "locations": some(PLACE),
                            "partialFingerprints": {"type": "object", "additionalProperties": TEXT},
                            "properties": {"type": "object"},
                            "codeFlows": some(record(threadFlows=some(record(locations=some(record(location=PLACE)))))),
                            "fixes": some(
                                record(
                                    description=MESSAGE,
                                    artifactChanges=some(
                                        record(
                                            artifactLocation=ARTIFACT,
                                            replacements=some(record(deletedRegion=REGION, insertedContent=MESSAGE)),
                                        )
                                    ),
                                )
                            ),
                        },
                    },
                },
            ),
        },
    },
}


def sarif(*findings: Finding) -> Any:
    return json.loads(shown("sarif", *findings))["runs"][0]


def test_sarif_follows_its_schema() -> None:
    for findings in ((), FINDINGS):
        jsonschema.validate(json.loads(shown("sarif", *findings)), SARIF_SCHEMA)


def test_sarif_describes_the_rules_and_refers_to_them() -> None:
    run = sarif(*FINDINGS)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["early-erase", "odd-call"]
    assert rules[0]["help"]["markdown"] == "# early-erase\n"
    assert rules[0]["properties"] == {
        "precision": "high",
        "problem.severity": "error",
        "tags": ["cuda-graphs", "teardown"],
    }
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [
        ("odd-call", "note"),
        ("odd-call", "warning"),
        ("early-erase", "error"),
    ]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])


def test_sarif_carries_the_path_as_a_code_flow() -> None:
    (result,) = sarif(ERASE)["results"]
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["location"]["message"]["text"] for step in steps] == [
        "graph_death: the graphs die",
        "erase: the pool is erased",
        "ws_release: the workspaces go",
    ]
    assert steps[2]["location"]["physicalLocation"] == {
        "artifactLocation": {"uri": "serving/engine.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 2, "startColumn": 14, "endLine": 2, "endColumn": 26},
    }


def test_sarif_carries_the_fix_by_file() -> None:
    (fix,) = sarif(ERASE)["results"][0]["fixes"]
    assert [change["artifactLocation"]["uri"] for change in fix["artifactChanges"]] == [
        "serving/engine.py",
        "serving/runner.py",
    ]
    assert fix["artifactChanges"][0]["replacements"] == [
        {
            "deletedRegion": {"startLine": 3, "startColumn": 3, "endLine": 3, "endColumn": 4},
            "insertedContent": {"text": "'é'"},
        }
    ]
    assert "fixes" not in sarif(replace(ERASE, fix=replace(FIX, edits=())))["results"][0]


def test_sarif_fingerprints_tell_results_apart() -> None:
    prints = [result["partialFingerprints"]["graphlint/v1"] for result in sarif(CALL, CALL)["results"]]
    assert prints == [CALL.fingerprint, f"{CALL.fingerprint}-2"]


@pytest.mark.parametrize(
    ("path", "uri"),
    [("a b/ü.py", "a%20b/%C3%BC.py"), ("odd\udcff.py", "odd%FF.py"), ("/abs/a#b.py", "file:///abs/a%23b.py")],
)
def test_sarif_uris_are_escaped(path: str, uri: str) -> None:
    run = json.loads(render("sarif", [replace(CALL, path=path)], {path: SOURCES[CALL.path]}))["runs"][0]
    artifact = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact["uri"] == uri


# ------------------------------------------------------------------------------------------------------ all of them


def test_an_unknown_format_is_an_error() -> None:
    with pytest.raises(ValueError, match="no format is named 'xml'"):
        shown("xml")


@pytest.mark.parametrize("style", FORMATS)
def test_text_ends_in_a_newline(style: str) -> None:
    assert shown(style, *FINDINGS).endswith("\n")
    assert not shown(style, *FINDINGS).endswith("\n\n")


@pytest.mark.parametrize("style", FORMATS)
def test_a_path_that_is_no_text_can_be_reported(style: str) -> None:
    path = "odd\udcff.py"
    render(style, [replace(CALL, path=path)], {path: SOURCES[CALL.path]}).encode("utf-8")


def test_the_same_bytes_for_every_hash_seed() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_report as t\n"
        "t.registry.page = lambda rule: ''\n"
        "print(*(t.shown(style, *t.FINDINGS) for style in t.FORMATS))"
    )
    run = [sys.executable, "-c", program, str(Path(__file__).parent)]
    outputs = {
        subprocess.run(run, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1
    assert report.FORMATS == ("full", "concise", "json", "github", "sarif")
