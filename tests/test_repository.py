"""One name everywhere: a rule's folder, its file, its page, its fixtures and its line in the README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from graphlint import registry
from graphlint.rule import Kind, Rule

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(path for path in (ROOT / "rules").iterdir() if path.is_dir() and path.name != "__pycache__")
HEADINGS = ["What it does", "Why it is bad", "Example", "Fix safety", "Known limits"]


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    path = request.param
    assert isinstance(path, Path)
    return path


@pytest.fixture
def rule(folder: Path) -> Rule:
    return registry.by_name(folder.name)


def test_the_rules_are_those_of_this_checkout() -> None:
    assert [rule.name for rule in registry.rules()] == [folder.name for folder in FOLDERS]


def test_a_rules_folder_holds_its_three_files_and_no_others(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()} - {"__pycache__"}
    assert names == {"rule.toml", "README.md", f"{folder.name.replace('-', '_')}.py"}


def test_a_page_has_its_name_and_five_headings(folder: Path, rule: Rule) -> None:
    page = registry.page(rule)
    headings = re.findall(
        r"^(#+) (.*)$", re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    assert headings[0] == ("#", folder.name)
    assert [text for level, text in headings if level == "##"] == HEADINGS


def test_a_page_of_an_ordering_rule_shows_its_automaton(rule: Rule) -> None:
    if rule.automaton is None:
        assert "stateDiagram" not in registry.page(rule)
        return
    diagram = f"```mermaid\n{rule.automaton.diagram()}```\n"
    assert diagram in registry.page(rule), f"rules/{rule.name}/README.md must hold:\n\n{diagram}"


def test_a_rule_has_fixtures(folder: Path) -> None:
    cases = [path for path in (ROOT / "fixtures" / folder.name).iterdir() if (path / "fixture.toml").is_file()]
    assert cases != []


def test_a_rules_code_offers_what_the_pipeline_calls(rule: Rule) -> None:
    code = registry.code(rule)
    offered = {name for name in ("suspects", "confirm", "fix") if callable(getattr(code, name, None))}
    assert offered == {"confirm", "fix"} | ({"suspects"} if rule.kind is Kind.SHAPE else set())


def test_a_shape_rule_finds_suspects_without_libcst(rule: Rule) -> None:
    program = f"""
import sys
from graphlint import registry
registry.code(registry.by_name({rule.name!r}))
print("libcst" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert rule.kind is Kind.ORDERING or done.stdout == "False\n"


def test_the_readme_lists_every_rule_once_in_order() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("| rule |") :].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert rows == [
        [f"[`{rule.name}`](rules/{rule.name}/README.md)", rule.group.value, rule.summary, fix_of(rule)]
        for rule in registry.rules()
    ]


def fix_of(rule: Rule) -> str:
    return "none" if rule.fix is None else rule.fix.value


def test_the_public_words_name_the_distribution_that_is_ours() -> None:
    """Another distribution owns the name of the command, so no page may tell anybody to install that."""
    pages = [path for path in ROOT.rglob("*.md") if not {".venv", "node_modules"} & set(path.parts)]
    wrong = re.compile(r"(pip|uv|pipx|uvx|pip3)( tool)? (install|run|add)[^\n`]* graphlint\b")
    assert [str(path.relative_to(ROOT)) for path in pages if wrong.search(path.read_text(encoding="utf-8"))] == []
