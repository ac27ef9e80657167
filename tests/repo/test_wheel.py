"""What `make dist` builds is complete, and works without a checkout."""

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

WANTED = {
    "state_engine/py.typed",
    "state_engine/__init__.py",
    "state_engine/spark/log4j2.properties",
    "state_engine/testing/state_suite.py",
    "lakestate/py.typed",
    "lakestate/cli.py",
    "lakestate/definitions.py",
    "lakestate/assets/__init__.py",
    "lakestate/resources/__init__.py",
    "lakestate/examples/flights/job.py",
    "lakestate/examples/fraud/job.py",
    "lakestate/examples/fraud/job.plan.json",
    "lakestate/examples/orders/job.py",
    "lakestate/dagster.py",
    "lakestate/init/template/my_streams/clicks.py.tmpl",
    "lakestate/init/template/gitignore.tmpl",
}
UNWANTED = re.compile(r"ruff\.toml|_cache/|\.pyc$|^(assets|resources|examples|tests|benchmarks|platform)/")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel and source archive, built as `make dist` does; the wheel is built from the archive."""
    assert "$(BIN)/python -m build --no-isolation\n" in (ROOT / "Makefile").read_text()
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)], folder)
    return folder


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and, through a path entry, the locked packages of the tests.

    The `.pth` files of these packages' folder are not read there: one of them would lead to the checkout.
    """
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    run(
        [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel_in(dist)],
        folder,
    )
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    inside = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    Path(inside, "locked.pth").write_text("\n".join(sorted(paths)) + "\n")
    return folder


def wheel_in(dist: Path) -> Path:
    [wheel] = dist.glob("*.whl")
    return wheel


def run(command: list[str | Path], cwd: Path) -> str:
    """Runs a command outside the checkout, without variables that lead there; returns its output."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def modules(names: set[str]) -> set[str]:
    return {name for name in names if name.endswith(".py")}


def test_the_wheel_holds_both_packages_and_nothing_else(dist: Path) -> None:
    names = set(zipfile.ZipFile(wheel_in(dist)).namelist())
    assert not WANTED - names
    assert not {name for name in names if UNWANTED.search(name)}
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"state_engine", "lakestate"}


def test_the_wheel_holds_every_module_of_the_checkout(dist: Path) -> None:
    names = set(zipfile.ZipFile(wheel_in(dist)).namelist())
    places = {"state_engine": ROOT / "state_engine", "lakestate": ROOT / "platform" / "lakestate"}
    places |= {f"lakestate/{name}": ROOT / name for name in ("assets", "resources", "examples")}
    packaged = {f"{top}/{file.relative_to(folder)}" for top, folder in places.items() for file in folder.rglob("*.py")}
    assert modules(names) == packaged


def test_the_source_archive_holds_what_the_wheel_is_built_from_and_the_papers(dist: Path) -> None:
    [archive] = dist.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    papers = {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    assert not (papers | {"requirements.lock", "PKG-INFO"}) - names
    in_wheel = modules(set(zipfile.ZipFile(wheel_in(dist)).namelist()))
    in_archive = {name.removeprefix("platform/") for name in modules(names)}
    assert in_archive == in_wheel


def test_the_checkout_and_the_source_archive_build_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    """The wheel in `dist` is built from the archive; this one is built from the checkout itself."""
    run([sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), str(ROOT)], tmp_path)
    built = wheel_in(tmp_path)
    assert built.name == wheel_in(dist).name
    with zipfile.ZipFile(built) as one, zipfile.ZipFile(wheel_in(dist)) as other:
        assert one.namelist() == other.namelist()
        assert [name for name in one.namelist() if one.read(name) != other.read(name)] == []


def test_a_package_index_would_accept_both(dist: Path) -> None:
    checked = run([sys.executable, "-m", "twine", "check", "--strict", *sorted(dist.iterdir())], dist)
    assert checked.count("PASSED") == 2


LOOK = """
import importlib, importlib.metadata, importlib.util, json
names = ["state_engine", "state_engine.testing.state_suite", "lakestate", "lakestate.assets", "lakestate.resources",
         "lakestate.definitions", "lakestate.examples.flights.job", "lakestate.examples.orders.job"]
print(json.dumps({
    "files": {name: importlib.import_module(name).__file__ for name in names},
    "bare": [name for name in ("assets", "resources", "examples") if importlib.util.find_spec(name)],
    "version": [importlib.metadata.version("lakestate"), importlib.import_module("state_engine").__version__],
}))
"""


def test_everything_is_imported_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    packaged = json.loads(run([installed / "bin" / "python", "-W", "error::ImportWarning", "-c", LOOK], tmp_path))
    outside = {name: file for name, file in packaged["files"].items() if not Path(file).is_relative_to(installed)}
    assert not outside
    assert packaged["bare"] == []
    assert len(set(packaged["version"])) == 1


def test_the_command_is_there(installed: Path, tmp_path: Path) -> None:
    printed = run([installed / "bin" / "lakestate", "--help"], tmp_path)
    assert "demo" in printed
    assert "sql" in printed


@pytest.mark.spark
@pytest.mark.long
def test_the_job_of_the_readme_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    [job] = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    [ask] = re.findall(r"^\.venv/bin/lakestate (sql .*)$", readme, re.MULTILINE)
    (tmp_path / "clicks.py").write_text(job)
    (tmp_path / "clicks").mkdir()
    clicks = [{"user": "ann", "page": "/"}, {"user": "bob", "page": "/"}, {"user": "ann", "page": "/cart"}]
    (tmp_path / "clicks" / "1.json").write_text("\n".join(map(json.dumps, clicks)))
    assert "cart" in run([installed / "bin" / "python", "clicks.py"], tmp_path)
    rows = run([installed / "bin" / "lakestate", *shlex.split(ask), "--format", "csv"], tmp_path).splitlines()
    assert sorted(rows) == ["ann,2", "bob,1", "user,value"]
