from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import config, listing, vocabulary
from graphlint.files import PathError
from graphlint.listing import Item

SETTINGS = """\
[tool.graphlint.vocabulary]
aliases = { "pkg.proxy.Proxy.graph_pool_handle" = "torch.cuda.graph_pool_handle" }

[[tool.graphlint.vocabulary.effect]]
calls = ["pkg.runner.Runner.drop", "pkg.runner.flush"]
does = "ws_release"

[[tool.graphlint.vocabulary.effect]]
call = "torch.ops.pkg.launch"
does = "ws_alloc"
while = "capturing"
store = "pkg.runner.Runner.kept"
released-by = "pkg.runner.Runner.forget"

[[tool.graphlint.vocabulary.effect]]
with = "pkg.runner.capturing"
does = "capture"

[tool.graphlint.vocabulary.lifecycle]
"pkg.runner.Runner" = "__init__ run* drop"
"""

RUNNER = """\
from contextlib import contextmanager

import torch


class Base:
    def drop(self): ...


class Runner(Base):
    def __init__(self):
        self.kept = None

    def forget(self): ...

    def run(self):
        torch.ops.pkg.launch(self.kept)


def flush(): ...


@contextmanager
def capturing():
    yield
"""

PROXY = """\
import torch


class Proxy:
    def __getattr__(self, name):
        return getattr(torch.cuda, name)


def mint(proxy: Proxy):
    return proxy.graph_pool_handle()
"""


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pkg").mkdir()
    for name, text in {
        "pyproject.toml": SETTINGS,
        "pkg/__init__.py": "",
        "pkg/runner.py": RUNNER,
        "pkg/proxy.py": PROXY,
    }.items():
        Path(name).write_text(text)


def change(path: str, old: str, new: str) -> None:
    text = Path(path).read_text()
    assert old in text
    Path(path).write_text(text.replace(old, new))


def unused(path: str = ".") -> list[str] | None:
    settings = config.load("pyproject.toml")
    found = listing.unused([path], settings, vocabulary.load(settings.vocabulary))
    return None if found is None else [f"{item.row} {item.kind} {item.name}" for item in found]


def test_what_is_defined_or_called_matches() -> None:
    assert unused() == []
    assert unused("pkg") == []


@pytest.mark.parametrize(
    ("path", "old", "new", "missing"),
    [
        ("pkg/runner.py", "def drop(", "def let_go(", "5 call pkg.runner.Runner.drop"),
        ("pkg/runner.py", "class Runner(Base)", "class Runner", "5 call pkg.runner.Runner.drop"),
        ("pkg/runner.py", "def flush(", "def clean(", "5 call pkg.runner.flush"),
        ("pkg/runner.py", "pkg.launch(", "pkg.start(", "9 call torch.ops.pkg.launch"),
        ("pkg/runner.py", "self.kept = None", "self.held = None", "12 store pkg.runner.Runner.kept"),
        ("pkg/runner.py", "def forget(", "def lose(", "13 released-by pkg.runner.Runner.forget"),
        ("pkg/runner.py", "def capturing(", "def recording(", "16 with pkg.runner.capturing"),
        ("pkg/proxy.py", "proxy.graph_pool_handle", "proxy.handle", "2 alias pkg.proxy.Proxy.graph_pool_handle"),
    ],
)
def test_what_was_renamed_does_not(path: str, old: str, new: str, missing: str) -> None:
    change(path, old, new)
    assert unused() == [missing]


def test_a_moved_class_takes_everything_of_it_along() -> None:
    Path("pkg/runner.py").rename("pkg/moved.py")
    assert unused() == [
        "5 call pkg.runner.Runner.drop",
        "5 call pkg.runner.flush",
        "12 store pkg.runner.Runner.kept",
        "13 released-by pkg.runner.Runner.forget",
        "16 with pkg.runner.capturing",
        "20 lifecycle pkg.runner.Runner",
    ]


def test_what_is_imported_from_elsewhere_is_there() -> None:
    Path("pkg/runner.py").rename("pkg/moved.py")
    Path("pkg/runner.py").write_text("from pkg.moved import Runner, capturing, flush\n")
    assert unused() == []


def test_an_unreadable_file_defines_nothing() -> None:
    change("pkg/runner.py", "class Base:", "class Base")
    found = unused()
    assert found is not None
    assert "16 with pkg.runner.capturing" in found


def test_only_vocabularies_about_the_tree_are_looked_at() -> None:
    Path("pyproject.toml").write_text("[tool.graphlint]\n")
    assert unused() is None
    Path("pkg").rename("sglang")
    found = unused()
    assert found
    names = {item.name for item in listing.items(vocabulary.load()) if item.file == "sglang.toml"}
    assert {line.split()[2] for line in found} <= names


def test_a_path_must_exist() -> None:
    with pytest.raises(PathError, match="nowhere"):
        unused("nowhere")


def test_the_list_has_every_name_of_every_file() -> None:
    settings = config.load("pyproject.toml")
    items = listing.items(vocabulary.load(settings.vocabulary))
    assert Item("torch.toml", 0, "call", "torch.cuda.empty_cache", "erase") in [item._replace(row=0) for item in items]
    own = [item for item in items if item.file == "pyproject.toml"]
    assert [item.row for item in own] == [2, 5, 5, 9, 12, 13, 16, 20]
    assert own[2].says == "ws_release"
    assert own[3].says == "ws_alloc while capturing"
    assert own[-1] == Item("pyproject.toml", 20, "lifecycle", "pkg.runner.Runner", "__init__ run* drop")
    assert len({item.file for item in items}) > 3
