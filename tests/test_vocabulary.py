"""What a vocabulary can say, from the file to what the analysis makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphlint import check, config, explain, registry, vocabulary
from graphlint.config import Settings
from graphlint.declarations import DeclarationError, parse
from graphlint.summaries import Analysis


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pkg").mkdir()
    Path("pkg/__init__.py").write_text("")


def analyse(text: str, **files: str) -> Analysis:
    """The analysis of `pkg/*.py` under a project's own vocabulary."""
    Path("pyproject.toml").write_text("[tool.graphlint]\n" + text)
    for name, content in files.items():
        Path(f"pkg/{name}.py").write_text(content)
    ((found, _),) = check.analyses(check.read(["pkg"], config.load("pyproject.toml"), {}, whole=True))
    return found


def flow(text: str, function: str, **files: str) -> list[str]:
    """What `graphlint flow` says of a function, without rows."""
    analysis = analyse(text, **files)
    shown = explain._function(analysis, analysis.project.functions[f"pkg.{function}"])
    return [line.strip(" 0123456789").strip() for line in shown.splitlines()[1:]]


OBJECTS = """\
[tool.graphlint.vocabulary.objects]
"pkg.platforms.current" = "pkg.interface.Platform"
[tool.graphlint.vocabulary.aliases]
"pkg.interface.Platform.graph_pool_handle" = "torch.cuda.graph_pool_handle"
"""
INTERFACE = """\
import torch
class Platform:
    def erase(self):
        torch.cuda.empty_cache()
    def __getattr__(self, name):
        return getattr(torch.cuda, name)
"""
USER = """\
from pkg.platforms import current
def use():
    current.erase()
    return current.graph_pool_handle()
"""


def test_an_object_has_the_methods_of_its_class() -> None:
    assert flow(OBJECTS, "user.use", interface=INTERFACE, user=USER)[:2] == [
        "call pkg.interface.Platform.erase",
        "pool_mint  the object",
    ]


def test_without_the_object_nothing_is_known() -> None:
    silent = OBJECTS.replace('"pkg.platforms.current"', '"pkg.platforms.other"')
    assert flow(silent, "user.use", interface=INTERFACE, user=USER) == ["no effect"]


def test_the_class_need_not_be_there() -> None:
    assert flow(OBJECTS, "user.use", user="import torch\n" + USER)[0] == "pool_mint  the object"


def test_a_pool_that_is_handed_out_is_its_stores() -> None:
    text = """\
[[tool.graphlint.vocabulary.effect]]
call = "lib.pools.shared"
makes = "pool"
store = "pkg.user.Runner.handle"
"""
    user = """\
import torch
from lib.pools import shared
class Runner:
    handle = None
    def __init__(self):
        self.pool = shared()
"""
    analysis = analyse(text, user=user)
    assert "pool" in analysis.holds(("pkg.user.Runner", "pool"))
    assert ("pkg.user.Runner", "handle") in analysis.behaviors.slots[("pkg.user.Runner", "pool")].sources
    assert "pool_mint" not in " ".join(flow(text, "user.Runner.__init__", user=user))


DECORATOR = """\
[[tool.graphlint.vocabulary.effect]]
decorator = "pkg.breaks.eager"
does = "capture_end"
"""
BREAKS = """\
def eager(fn=None, stub=None):
    def decorator(inner):
        def wrapper(*args):
            return inner(*args)
        return wrapper
    return decorator(fn) if fn is not None else decorator
def other(fn):
    return fn
"""
LAYERS = """\
import torch
from pkg.breaks import eager, other
CACHE = {{}}
def keep(n):
    if torch.cuda.is_current_stream_capturing():
        CACHE[n] = torch.empty(n, device="cuda")
{definition}
def run(n, graph):
    with torch.cuda.graph(graph):
        layer(n)
        keep(n)
"""


@pytest.mark.parametrize(
    ("definition", "is_outside"),
    [
        ("@eager\ndef layer(n):\n    keep(n + 1)", True),
        ("@eager(stub=None)\ndef layer(n):\n    keep(n + 1)", True),
        ("def body(n):\n    keep(n + 1)\nlayer = eager(body)", True),
        ("def body(n):\n    keep(n + 1)\nlayer = eager(stub=None)(body)", True),
        ("@other\ndef layer(n):\n    keep(n + 1)", False),
        ("def layer(n):\n    keep(n + 1)", False),
        ("def body(n):\n    keep(n + 1)\nlayer = other(body)", False),
    ],
)
def test_what_a_decorator_takes_out_of_the_capture_is_not_captured(definition: str, *, is_outside: bool) -> None:
    analysis = analyse(DECORATOR, breaks=BREAKS, layers=LAYERS.format(definition=definition))
    called = "pkg.layers.body" if "body" in definition else "pkg.layers.layer"
    assert (called in analysis.captured) is not is_outside
    assert "pkg.layers.keep" in analysis.captured, "the second call is inside"


@pytest.mark.parametrize(("decorator", "kept"), [("eager", 1), ("other", 2)])
def test_outside_of_the_capture_a_test_of_it_is_false_and_then_true_again(decorator: str, kept: int) -> None:
    definition = f"@{decorator}\ndef layer(n):\n    keep(n + 1)"
    analysis = analyse(DECORATOR, breaks=BREAKS, layers=LAYERS.format(definition=definition))
    seen: list[str] = []
    root = analysis.behaviors.built("pkg.layers.run")
    assert root is not None

    def monitor(_state: str, event: object, _config: object) -> None:
        if getattr(event.node, "how", "") == "add":  # type: ignore[attr-defined]
            seen.append(event.stack[1].function)  # type: ignore[attr-defined]

    analysis.run(root, "", monitor)
    assert len(seen) == kept


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[effect]]\ncall = "a.b"\nwith = "a.b"\ndoes = "erase"',
            "needs one of 'call', 'calls', 'with'",
        ),
        ('[[effect]]\ndoes = "erase"', "needs one of 'call'"),
        ('[[effect]]\ncall = "a.b"', "needs one of 'does' and 'makes'"),
        ('[[effect]]\ncall = "a.b"\ndoes = "erased"', "must be one of"),
        ('[[effect]]\ndecorator = "a.b"\ndoes = "erase"', "a decorator can only do 'capture_end'"),
        ('[[effect]]\ncall = "a.b"\nmakes = "graphs"', "'makes' must be one of"),
        ('[objects]\n"a.b" = 3', "must be text"),
        ("[things]", "unknown key 'things'; known here: aliases, effect, lifecycle, objects"),
    ],
)
def test_what_is_no_vocabulary_is_an_error_with_its_row(text: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message) as caught:
        vocabulary.Vocabulary().add(parse(text.encode(), "own.toml"))
    assert caught.value.path == "own.toml"
    assert caught.value.row > 0


def names() -> Iterator[str]:
    for document in vocabulary.load().documents:
        yield from document.get("aliases", {})
        for effect in document.get("effect", ()):
            yield from effect.get("calls", ())
            yield from (effect[key] for key in ("call", "with", "decorator") if key in effect)


def test_no_name_stands_in_two_files() -> None:
    seen: dict[str, set[str]] = {}
    for document in vocabulary.load().documents:
        for effect in document.get("effect", ()):
            for name in effect.get("calls") or [effect[key] for key in ("call", "with", "decorator") if key in effect]:
                seen.setdefault(name, set()).add(document.path)
    assert {name: files for name, files in seen.items() if len(files) > 1} == {}


def test_names_are_dotted() -> None:
    assert [
        name for name in names() if "." not in name or not all(part.isidentifier() for part in name.split("."))
    ] == []


# ----------------------------------------------------------------------------------------------------- the page about it

PAGE = Path(__file__).parent.parent / "docs" / "vocabulary.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", blocks("toml"))
def test_the_page_shows_what_can_be_written(text: str) -> None:
    table = parse(text.encode(), "pyproject.toml").table("tool", "graphlint", "vocabulary")
    assert table is not None
    vocabulary.Vocabulary().add(table)


def test_the_page_names_every_key_and_every_effect_of_a_vocabulary() -> None:
    said = set(re.findall(r"`([\w-]+)`", PAGE.read_text(encoding="utf-8")))
    assert set(vocabulary._EFFECT.optional) <= said
    assert set(vocabulary.SCHEMA.optional) == set(
        re.findall(r"graphlint\.vocabulary\.(\w+)", PAGE.read_text(encoding="utf-8"))
    )
    used = {
        effect["does"]
        for document in vocabulary.builtin()
        for effect in (document.get("effect", ()) if "verbs" not in document else ())
        if "does" in effect
    }
    assert used <= said


def test_the_example_of_the_page_is_found(tmp_path: Path) -> None:
    (program,), (entries, *_) = blocks("python"), blocks("toml")
    (tmp_path / "runner.py").write_text(program, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(entries, encoding="utf-8")
    settings = config.load(str(tmp_path / "pyproject.toml"))
    report = check.check([str(tmp_path)], settings, registry.rules())
    assert [finding.rule for finding in report.findings] == ["pool-order"]
    alone = check.check([str(tmp_path)], Settings(root=str(tmp_path)), registry.rules())
    assert alone.findings == ()
