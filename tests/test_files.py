from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from graphlint.config import Settings
from graphlint.files import PathError, Selection, project_files, root_of, shown


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(*paths: str, content: str = "") -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(content)


def select(
    *given: str, unsaved: Iterable[str] = (), root: str = "", exclude: Sequence[str] = (), src: Sequence[str] = ()
) -> Selection:
    return project_files(given, Settings(root=root, exclude=tuple(exclude), src=tuple(src)), unsaved)


def reported(*given: str, root: str = "", exclude: Sequence[str] = ()) -> list[str]:
    return list(select(*given, root=root, exclude=exclude).report)


# ------------------------------------------------------------------------------------------------- what is reported on


def test_a_folder_is_walked_and_its_files_are_sorted() -> None:
    make("b/z.py", "b/a.py", "a.py", "b/c/d.py", "b/data.txt", "b/stub.pyi", "b/notebook.ipynb")
    assert reported(".") == ["a.py", "b/a.py", "b/c/d.py", "b/z.py"]
    assert reported("b") == ["b/a.py", "b/c/d.py", "b/z.py"]


def test_paths_are_spelled_relative_to_the_working_directory_however_they_are_given(here: Path) -> None:
    make("b/a.py")
    for given in ("b", "./b/", str(here / "b"), "b/../b", "b//a.py", str(here / "b" / "a.py")):
        assert reported(given) == ["b/a.py"], given


def test_paths_outside_of_the_working_directory_are_absolute(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make("b/a.py", "elsewhere/x.py")
    monkeypatch.chdir(here / "elsewhere")
    assert reported("../b") == [str(here / "b" / "a.py")]
    assert shown(str(here / "elsewhere")) == ""
    assert shown(str(here / "elsewhere2")) == str(here / "elsewhere2")


def test_a_file_under_several_given_paths_is_taken_once() -> None:
    make("a/x.py")
    assert reported("a", "a/x.py", ".", "a") == ["a/x.py"]


@pytest.mark.parametrize(
    "folder",
    [".git", ".venv", "venv", "node_modules", "build", "dist", "__pycache__", ".tox", ".eggs", "site-packages"],
)
def test_folders_without_source_of_the_project_are_not_walked(folder: str) -> None:
    make("a.py", f"{folder}/b.py", f"deep/{folder}/c/d.py")
    assert reported(".") == ["a.py"]


def test_such_a_folder_is_walked_where_it_is_named() -> None:
    make("a.py", "build/b.py", "build/venv/c.py")
    assert reported("build") == ["build/b.py"]
    assert reported(".", "build/b.py") == ["a.py", "build/b.py"]


def test_a_virtual_environment_is_known_by_its_mark_whatever_its_name() -> None:
    make("a.py", "env39/pyvenv.cfg", "env39/x.py", "env39/lib/y.py")
    assert reported(".") == ["a.py"]


def test_a_named_file_is_always_taken() -> None:
    make("tools/run", "a.pyi", "build/x.py", "ignored.py")
    make(".gitignore", content="ignored.py\n")
    names = ["a.pyi", "build/x.py", "ignored.py", "tools/run"]
    assert reported(*names, exclude=("build", "*.pyi", "tools")) == names


def test_a_missing_path_is_an_error_that_names_it() -> None:
    make("a.py")
    with pytest.raises(PathError, match=r"^nowhere/x\.py: no such file or folder$"):
        reported("a.py", "nowhere/x.py")


def test_a_pipe_is_no_file() -> None:
    os.mkfifo("pipe.py")
    with pytest.raises(PathError, match="neither a file nor a folder"):
        reported("pipe.py")
    assert reported(".") == []


def test_no_python_file_is_no_error() -> None:
    make("readme.md")
    assert select(".") == Selection((), (), (), ())


def test_a_folder_that_cannot_be_listed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    make("a.py", "closed/b.py")
    scandir = os.scandir

    def refusing(folder: str) -> Iterator[os.DirEntry[str]]:
        if folder == "closed":
            raise PermissionError(13, "Permission denied", folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refusing)
    selection = select(".")
    assert (selection.report, selection.unreadable) == (("a.py",), ("closed",))


# --------------------------------------------------------------------------------------------------------------- links


def test_a_loop_of_links_does_not_hang() -> None:
    make("a/b/x.py")
    Path("a/b/up").symlink_to("../..", target_is_directory=True)
    Path("a/self").symlink_to("self")
    assert reported(".") == ["a/b/x.py"]


def test_a_linked_folder_is_walked_where_it_is_named_only() -> None:
    make("real/x.py")
    Path("linked").symlink_to("real", target_is_directory=True)
    assert reported(".") == ["real/x.py"]
    assert reported("linked") == ["linked/x.py"]


def test_a_file_is_taken_under_one_name() -> None:
    make("real/x.py", "outside.py")
    Path("real/link.py").symlink_to("x.py")
    Path("real/other.py").symlink_to("../outside.py")
    Path("real/dangling.py").symlink_to("missing.py")
    assert reported("real") == ["real/other.py", "real/x.py"]
    assert reported(".") == ["outside.py", "real/x.py"]
    assert reported("real", "real/link.py") == ["real/link.py", "real/other.py", "real/x.py"]


# -------------------------------------------------------------------------------------------------------- ignore files


def test_ignored_files_are_left_out() -> None:
    make("a.py", "gen/x.py", "gen/keep.py", "sub/gen/y.py", "sub/local.py", "sub/deep/local.py", "top.py", "sub/top.py")
    make(".gitignore", content="# generated\n\ngen/*\n!gen/keep.py\nlocal.py\n/top.py\n*.so\nnowhere/\n")
    assert reported(".") == ["a.py", "gen/keep.py", "sub/gen/y.py", "sub/top.py"]


def test_ignored_folders_are_pruned_at_any_depth() -> None:
    make("a.py", "gen/x.py", "sub/gen/y.py")
    make(".gitignore", content="gen/\n")
    assert reported(".") == ["a.py"]


def test_the_nearest_ignore_file_decides() -> None:
    make("x.py", "a/x.py", "a/b/x.py", "a/b/y.py")
    make(".gitignore", content="x.py\n")
    make("a/.gitignore", content="!x.py\n")
    make("a/b/.gitignore", content="/y.py\n")
    assert reported(".") == ["a/b/x.py", "a/x.py"]


def test_ignore_files_above_hold_within_a_repository() -> None:
    make("outer/repo/.git/HEAD", "outer/repo/pkg/gen.py", "outer/repo/pkg/a.py", "outer/repo/pkg/b.py")
    make("outer/.gitignore", content="a.py\n")
    make("outer/repo/.gitignore", content="/pkg/gen.py\n")
    assert reported("outer/repo/pkg") == ["outer/repo/pkg/a.py", "outer/repo/pkg/b.py"]


def test_a_folder_that_is_ignored_as_a_whole_is_walked_where_it_is_named() -> None:
    make(".git/HEAD", "gen/a.py", "gen/b.py")
    make(".gitignore", content="gen\n")
    make("gen/.gitignore", content="b.py\n")
    assert reported("gen") == ["gen/a.py"]


def test_lines_that_are_no_patterns_are_passed_over() -> None:
    make("a.py", "b.py")
    make(".gitignore", content="!\n[z-a]\n\\\n/\nb.py\n")
    assert reported(".") == ["a.py"]


def test_an_ignore_file_may_hold_any_bytes() -> None:
    make("a.py", "b.py")
    Path(".gitignore").write_bytes(b"\xef\xbb\xbfb.py\r\n\xff\xfe\n")
    assert reported(".") == ["a.py"]


def test_excluded_patterns_are_relative_to_the_settings(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make("pkg/a.py", "pkg/third/b.py", "third/c.py", "pkg/x_test.py", "pkg/sub/third/d.py")
    root = str(here)
    assert reported(".", exclude=("pkg/third", "*_test.py"), root=root) == [
        "pkg/a.py",
        "pkg/sub/third/d.py",
        "third/c.py",
    ]
    monkeypatch.chdir("pkg")
    assert reported(".", exclude=("pkg/third", "*_test.py"), root=root) == ["a.py", "sub/third/d.py"]
    assert reported("third", exclude=("pkg/third",), root=root) == ["third/b.py"]


def test_an_ignore_file_cannot_bring_back_what_is_excluded() -> None:
    make("a.py", "b.py")
    make(".gitignore", content="!b.py\n")
    assert reported(".", exclude=("b.py",)) == ["a.py"]


def test_pathspec_is_imported_for_patterns_only() -> None:
    make("a.py")
    program = (
        "import sys\nfrom graphlint.config import Settings\nfrom graphlint.files import project_files\n"
        "project_files(['.'], Settings())\nprint('pathspec' in sys.modules)"
    )
    run = [sys.executable, "-c", program]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "False\n"
    make(".gitignore", content="b.py\n")
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "True\n"


# ------------------------------------------------------------------------------------------------------------- context


def test_the_context_of_a_file_is_the_package_around_it() -> None:
    make("repo/pkg/__init__.py", "repo/pkg/a.py", "repo/pkg/sub/__init__.py", "repo/pkg/sub/b.py", "repo/setup.py")
    selection = select("repo/pkg/sub/b.py")
    assert selection.report == ("repo/pkg/sub/b.py",)
    assert selection.context == (
        "repo/pkg/__init__.py",
        "repo/pkg/a.py",
        "repo/pkg/sub/__init__.py",
        "repo/pkg/sub/b.py",
    )


def test_the_context_of_a_folder_is_the_package_around_it_too() -> None:
    make("pkg/__init__.py", "pkg/a.py", "pkg/sub/__init__.py", "pkg/sub/b.py")
    assert select("pkg/sub").report == ("pkg/sub/__init__.py", "pkg/sub/b.py")
    assert select("pkg/sub").context == ("pkg/__init__.py", "pkg/a.py", "pkg/sub/__init__.py", "pkg/sub/b.py")


def test_without_a_package_the_context_is_the_folder() -> None:
    make("scripts/a.py", "scripts/b.py", "scripts/lib/__init__.py", "other/c.py")
    assert select("scripts/a.py").context == ("scripts/a.py", "scripts/b.py", "scripts/lib/__init__.py")


def test_a_folder_without_init_below_a_package_belongs_to_it() -> None:
    make("repo/pyproject.toml", "repo/pkg/__init__.py", "repo/pkg/plain/deep/a.py", "repo/pkg/plain/vendored/setup.py")
    make("repo/pkg/plain/vendored/b.py")
    assert root_of("repo/pkg/plain/deep") == "repo/pkg"
    assert root_of("repo/pkg/plain/vendored") == "repo/pkg/plain/vendored"
    assert root_of("repo") == "repo"


def test_the_src_setting_gives_the_context() -> None:
    make("src/pkg/__init__.py", "src/pkg/a.py", "src/plain/b.py", "tools/c.py", "tools/d.py")
    selection = select("src/pkg/a.py", src=("src",))
    assert selection.context == ("src/pkg/__init__.py", "src/pkg/a.py", "src/plain/b.py")
    assert selection.roots == ("src",)
    assert select("tools/c.py", src=("src",)).context == ("tools/c.py", "tools/d.py")


def test_files_that_are_not_on_disk_yet_have_a_context() -> None:
    make("pkg/__init__.py", "pkg/a.py")
    selection = select("pkg/new.py", unsaved=["pkg/new.py"])
    assert (selection.report, selection.context) == (("pkg/new.py",), ("pkg/__init__.py", "pkg/a.py", "pkg/new.py"))


def test_parts_of_a_command_line_have_parts_of_the_whole_answer() -> None:
    make("pkg/__init__.py", "pkg/a.py", "pkg/sub/__init__.py", "pkg/sub/b.py", "tests/t.py")
    whole = select(".")
    parts = [select("pkg/a.py", "tests/t.py"), select("pkg/sub/b.py", "pkg/sub/__init__.py", "pkg/__init__.py")]
    assert set(whole.report) == {path for part in parts for path in part.report}
    assert all(set(part.context) <= set(whole.context) for part in parts)


def test_a_search_that_has_found_enough_context_ends() -> None:
    make("pkg/__init__.py", *(f"pkg/sub{i}/m{j}.py" for i in range(9) for j in range(9)), "given/a.py", "given/b.py")
    assert len(project_files(["pkg/sub0/m0.py"], Settings()).context) == 82
    assert 3 < len(project_files(["pkg/sub0/m0.py"], Settings(), enough=3).context) < 82
    assert len(project_files(["pkg"], Settings(), enough=3).report) == 82
    assert project_files(["pkg/sub0/m0.py"], Settings(), enough=3).is_cut
    assert not project_files(["pkg"], Settings(), enough=3).is_cut
    assert project_files(["given"], Settings(), enough=1).context == ("given/a.py", "given/b.py")


@pytest.mark.parametrize(
    ("path", "is_left"),
    [
        ("old/a.py", False),
        ("old/deep/er/a.py", False),
        ("new/gen.py", False),
        ("new/a.py", True),
        ("new/build/a.py", False),
        ("build", False),
        ("old", False),
        ("new", True),
        ("../elsewhere/old/a.py", True),
    ],
)
def test_what_is_excluded_can_be_left_out_of_what_is_given(
    path: str, is_left: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("old/a.py", "old/deep/er/a.py", "new/gen.py", "new/a.py", "new/build/a.py", "build/a.py")
    make(str(tmp_path.parent / "elsewhere/old/a.py"))
    settings = Settings(root=str(tmp_path), exclude=("old/", "gen.py"))
    assert project_files([path], settings).report
    assert bool(project_files([path], settings, force_exclude=True).report) == is_left
    monkeypatch.chdir("new")
    path = os.path.relpath(tmp_path / path)
    assert bool(project_files([path], settings, force_exclude=True).report) == is_left


def test_an_excluded_folder_above_the_settings_excludes_nothing(tmp_path: Path) -> None:
    make("build/repo/a.py")
    root = str(tmp_path / "build" / "repo")
    assert project_files(["build/repo/a.py"], Settings(root=root), force_exclude=True).report == ("build/repo/a.py",)
