"""A wheel, an editable install and a wheel built from the sdist all hold the same rules and vocabularies.

Nothing is downloaded: builds use the setuptools of the environment that runs the tests, and the new environments borrow
its libraries.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).parent.parent
NOT_SOURCE = shutil.ignore_patterns(
    ".*", "build", "dist", "*.egg-info", "__pycache__", "node_modules", "site", "venv", "env"
)

SAMPLE = """\
summary = "a thing is kept too long"
message = "{thing} is kept too long"
group = "lifetime"
severity = "note"
precision = "low"
kind = "shape"
reported-at = "the binding"
fix = "none"
since = "0.1"
"""

PROBE = """\
import json, pathlib, graphlint
from graphlint import registry
here = pathlib.Path(graphlint.__file__).parent
files = (path for path in here.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
print(json.dumps({
    "place": str(here),
    "version": graphlint.__version__,
    "rules": [rule.name for rule in registry.rules()],
    "pages": {rule.name: registry.page(rule) for rule in registry.rules()},
    "code": [rule.name for rule in registry.rules() if registry.code(rule).__file__],
    "files": sorted(path.relative_to(here).as_posix() for path in files if path.relative_to(here).parts[0] != "rules"),
}))
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, as a fresh clone would have them, with one more rule that no list knows."""
    copy = tmp_path_factory.mktemp("checkout") / "graphlint"
    shutil.copytree(ROOT, copy, ignore=NOT_SOURCE)
    sample = copy / "rules" / "sample-of-a-rule"
    sample.mkdir()
    (sample / "rule.toml").write_text(SAMPLE, encoding="utf-8")
    (sample / "README.md").write_text("# sample-of-a-rule\n", encoding="utf-8")
    (sample / "sample_of_a_rule.py").write_text('"""Nothing."""\n', encoding="utf-8")
    return copy


def run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(place: Path) -> Path:
    """A new environment without pip that can import the libraries of this one; returns its interpreter."""
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # Searched last, and without its .pth files: an install of this project there cannot stand in for the new one.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def install(python: Path, *what: str | Path) -> None:
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps")
    run(*pip, "--no-build-isolation", *what)


def build(checkout: Path, out: Path, *kinds: str) -> None:
    run(sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", out, checkout)


def wheel_of(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module", params=["wheel", "editable", "wheel from sdist"])
def python(request: pytest.FixtureRequest, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment in which the project is installed, in one of the ways there are."""
    place = tmp_path_factory.mktemp(request.param.replace(" ", "-"))
    interpreter = environment(place / "env")
    if request.param == "editable":
        install(interpreter, "--editable", checkout)
    else:
        build(checkout, place / "dist", *(["--wheel"] if request.param == "wheel" else []))
        install(interpreter, wheel_of(place / "dist"))
    return interpreter


def test_every_install_holds_all_rules_and_all_files(python: Path, checkout: Path, tmp_path: Path) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE, encoding="utf-8")
    seen = json.loads(run(python, "-I", probe))
    source = checkout / "src" / "graphlint"
    rules = sorted(path.parent.name for path in (checkout / "rules").glob("*/rule.toml"))

    assert Path(seen["place"]) == source or Path(seen["place"]).is_relative_to(python.parent.parent)
    assert "sample-of-a-rule" in seen["rules"]
    assert seen["rules"] == rules
    assert seen["code"] == rules
    assert seen["pages"] == {name: (checkout / "rules" / name / "README.md").read_text("utf-8") for name in rules}
    files = (path.relative_to(source) for path in source.rglob("*") if path.is_file())
    assert seen["files"] == sorted(path.as_posix() for path in files if "__pycache__" not in path.parts)


def test_every_install_has_both_commands(python: Path) -> None:
    for command in ("graphlint", "cudagraph-lint"):
        assert (python.parent / command).is_file()


def test_an_sdist_holds_what_a_packager_needs(checkout: Path, tmp_path: Path) -> None:
    build(checkout, tmp_path, "--sdist")
    (archive,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    wanted = [path for name in ("fixtures", "tests", "docs") for path in (checkout / name).rglob("*") if path.is_file()]
    wanted += [checkout / name for name in ("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml")]
    missing = [
        str(path.relative_to(checkout)) for path in wanted if not (unpacked / path.relative_to(checkout)).is_file()
    ]
    assert missing == []
