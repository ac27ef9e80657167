"""`lakestate init`: the project that it writes is complete, tested, loads in Dagster and runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakestate.cli import app
from lakestate.errors import ProjectError
from lakestate.init import write_project

FILES = {
    ".gitignore",
    "README.md",
    "data/clicks/1.json",
    "pyproject.toml",
    "src/my_shop/__init__.py",
    "src/my_shop/clicks.plan.json",
    "src/my_shop/clicks.py",
    "src/my_shop/definitions.py",
    "src/my_shop/defs/__init__.py",
    "src/my_shop/defs/clicks/defs.yaml",
    "tests/test_clicks.py",
    "tests/test_definitions.py",
}


class Installed:
    """A project of `lakestate init` in an empty folder, installed beside it."""

    def __init__(self, folder):
        self.folder = folder / "my_shop"
        write_project("my_shop", self.folder)
        site = folder / "site"
        self._run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"),
                *("--no-build-isolation", "--target", str(site), "."),
            ],
            os.environ,
        )
        (folder / "home").mkdir()
        (folder / "home" / "dagster.yaml").touch()
        paths = [str(self.folder / "src"), str(site), os.environ.get("PYTHONPATH", "")]
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "LAKESTATE_ROOT": str(self.folder / "state"),
            "HOME": str(folder / "home"),
            "LAKESTATE_JARS_CACHE": os.environ.get("LAKESTATE_JARS_CACHE", str(Path.home() / ".cache/lakestate/jars")),
            "DAGSTER_HOME": str(folder / "home"),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
        }

    def _run(self, command, environment):
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def run(self, program, *arguments):
        """Runs a program of the environment of the tests in the project; returns what it printed."""
        return self._run([str(Path(sys.executable).with_name(program)), *arguments], self._environment)


@pytest.fixture
def project(tmp_path):
    return Installed(tmp_path)


def test_all_files_have_the_name_of_the_project(tmp_path):
    written = write_project("my_shop", tmp_path / "shop")
    assert {str(path) for path in written} == FILES
    for path in written:
        assert "my_streams" not in (tmp_path / "shop" / path).read_text()


@pytest.mark.parametrize("name", ["My-Shop", "1shop", "class", "lakestate", "../shop", ""])
def test_a_name_that_no_package_can_have_is_refused(name, tmp_path):
    with pytest.raises(ProjectError) as refused:
        write_project(name, tmp_path / "shop")
    assert "lower-case letters" in refused.value.action
    assert not (tmp_path / "shop").exists()


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "notes").touch()
    with pytest.raises(ProjectError, match="already contains something"):
        write_project("my_shop", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_the_command_says_what_to_do_next_and_a_wrong_name_is_wrong_use(tmp_path):
    runner = CliRunner()
    done = runner.invoke(app, ["init", "my_shop", "--directory", str(tmp_path / "shop")])
    assert done.exit_code == 0
    assert "Wrote 12 files" in done.output
    assert "lakestate run clicks" in done.output
    assert runner.invoke(app, ["init", "My-Shop"]).exit_code == 2
    printed = runner.invoke(app, ["init", "my_shop", "--directory", str(tmp_path / "other"), "--json"]).output
    assert set(json.loads(printed)["files"]) == FILES


def test_the_project_is_clean_and_formatted(tmp_path):
    write_project("my_shop", tmp_path / "shop")
    ruff, rules = str(Path(sys.executable).with_name("ruff")), ["--no-cache", "--isolated", "--line-length", "120"]
    for command in ([ruff, "check", *rules, "--select", "E,F,B,UP,SIM"], [ruff, "format", "--check", *rules]):
        done = subprocess.run([*command, str(tmp_path / "shop")], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_its_tests_pass_its_definitions_load_and_its_plan_is_that_of_its_code(project):
    assert "2 passed" in project.run("pytest", "-q", "-p", "no:cacheprovider")
    assert "All definitions loaded successfully" in project.run("dg", "check", "defs")
    assert "All component YAML validated successfully" in project.run("dg", "check", "yaml")
    plan = project.folder / "src" / "my_shop" / "clicks.plan.json"
    assert json.loads(project.run("lakestate", "explain", "clicks", "--json")) == json.loads(plan.read_text())


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_it_runs_at_once(project):
    options = ["-o", "input=data/clicks", "-o", "output=data", "--available-now"]
    project.run("lakestate", "run", "clicks", "--root", "state", *options)
    query = "select user, value from count.clicks order by user"
    rows = project.run("lakestate", "sql", query, "--root", "state", "--job", "clicks", "--live", "--format", "csv")
    assert rows.split() == ["user,value", "ann,2", "bob,1"]
