"""`lakestate init` makes a project that works at once."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lakestate.cli import app
from lakestate.errors import ProjectError
from lakestate.init.project import create_project

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
FILES = {
    ".env",
    ".gitignore",
    "README.md",
    "compose.yaml",
    "dagster.yaml",
    "input/1.json",
    "postgres/dagster.yaml",
    "pyproject.toml",
    "shop_streams/__init__.py",
    "shop_streams/clicks.plan.json",
    "shop_streams/clicks.py",
    "shop_streams/definitions.py",
    "shop_streams/defs/clicks/defs.yaml",
    "tests/test_clicks.py",
    "tests/test_definitions.py",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new") / "shop-streams"
    create_project(folder)
    return folder


def run(project: Path, *command: str) -> str:
    """Runs a command of the environment in the project, as after `pip install`; returns its output."""
    paths = os.pathsep.join([str(BIN), os.environ["PATH"]])
    environment = {
        name: value for name, value in os.environ.items() if "PYTEST" not in name and "LAKESTATE" not in name
    }
    done = subprocess.run(
        [BIN / command[0], *command[1:]],
        cwd=project,
        env=environment | {"PATH": paths},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def texts(project: Path) -> Iterator[str]:
    yield from (path.read_text() for path in project.rglob("*") if path.is_file())


def test_the_files_have_the_name_of_the_project(project: Path) -> None:
    assert {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()} == FILES
    assert not [text for text in texts(project) if "my_streams" in text]
    assert tomllib.loads((project / "pyproject.toml").read_text())["project"]["name"] == "shop_streams"


def test_the_command_says_what_it_wrote_and_what_to_do(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["init", str(tmp_path / "demo")])
    assert done.exit_code == 0, done.output
    assert f"{tmp_path}/demo/demo/clicks.py" in done.output
    assert "dg dev" in done.output


@pytest.mark.parametrize("name", ["1st", "Shop", "a b", "class", "json", "dagster", "tests"])
def test_a_name_that_no_package_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ProjectError) as refused:
        create_project(tmp_path / name)
    assert refused.value.action
    assert not list(tmp_path.iterdir())


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine.txt").write_text("mine")
    done = CliRunner().invoke(app, ["init", str(tmp_path / "demo")])
    assert done.exit_code == 2
    assert "is not empty" in done.output
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["mine.txt"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    create_project(tmp_path / "demo")
    assert (tmp_path / "demo" / "pyproject.toml").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_dagster_has_the_settings_of_the_repository(project: Path) -> None:
    def settings(path: Path) -> dict[str, object]:
        return yaml.safe_load(path.read_text())

    assert settings(project / "dagster.yaml") == settings(ROOT / "dagster.yaml")
    stored, ours = (
        settings(project / "postgres" / "dagster.yaml"),
        settings(ROOT / "deploy" / "postgres" / "dagster.yaml"),
    )
    assert stored.keys() == ours.keys()
    assert {name: value for name, value in stored.items() if name != "storage"} == {
        name: value for name, value in ours.items() if name != "storage"
    }


def test_the_database_of_the_composition_is_that_of_the_settings(project: Path) -> None:
    [service] = yaml.safe_load((project / "compose.yaml").read_text())["services"].values()
    database = yaml.safe_load((project / "postgres" / "dagster.yaml").read_text())["storage"]["postgres"]["postgres_db"]
    assert service["environment"]["POSTGRES_DB"] == database["db_name"]
    assert service["environment"]["POSTGRES_USER"] == database["username"]
    assert service["ports"] == [f"{database['hostname']}:{database['port']}:5432"]


@pytest.mark.slow
def test_the_job_is_found_without_an_installation_and_its_plan_is_up_to_date(project: Path) -> None:
    plan = json.loads(run(project, "lakestate", "explain", "clicks", "--json"))
    assert plan == json.loads((project / "shop_streams" / "clicks.plan.json").read_text())


@pytest.mark.slow
def test_its_tests_pass_and_its_code_is_clean(project: Path) -> None:
    assert "3 passed" in run(project, "pytest", "-q", "-p", "no:cacheprovider")
    run(project, "ruff", "check", "--no-cache", "--select", "E,F,I,UP,B", ".")
    run(project, "ruff", "format", "--no-cache", "--check", ".")


@pytest.mark.slow
def test_dg_finds_no_fault(project: Path) -> None:
    assert "All definitions loaded successfully." in run(project, "dg", "check", "defs")


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_the_stream_runs(project: Path) -> None:
    run(project, "lakestate", "run", "clicks", "--root", "state", "--available-now")
    query = ("select user, value from count.clicks", "--root", "state", "--job", "clicks", "--live", "--format", "csv")
    assert sorted(run(project, "lakestate", "sql", *query).splitlines()) == ["ann,2", "bob,1", "user,value"]
