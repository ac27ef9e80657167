"""Dagster's command `dg` in a project of a user: scaffold, list, check, refresh and start."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

DG = str(Path(sys.executable).with_name("dg"))
PYPROJECT = """
[project]
name = "my_streams"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["lakestate"]

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "my_streams"
"""
DEFINITIONS = """
from pathlib import Path

import dagster as dg


@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
EVENTS = """
{ assetOrError(assetKey: {path: ["flights", "checkpoint"]}) { ... on Asset { assetMaterializations { runId } } } }
"""


class Project:
    """A `dg` project in a folder, whose code runs in the environment of the tests."""

    def __init__(self, folder, root):
        self.folder, self.defs = folder, folder / "src" / "my_streams" / "defs"
        self.defs.mkdir(parents=True)
        (folder / "home").mkdir()
        (folder / "home" / "dagster.yaml").touch()
        for module in (self.defs, self.defs.parent):
            (module / "__init__.py").touch()
        (folder / "pyproject.toml").write_text(PYPROJECT)
        (self.defs.parent / "definitions.py").write_text(DEFINITIONS)
        paths = [str(folder / "src"), os.environ.get("PYTHONPATH", "")]
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "LAKESTATE_ROOT": str(root),
            "HOME": str(folder / "home"),
            "DAGSTER_HOME": str(folder / "home"),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "COLUMNS": "200",
        }

    def dg(self, *arguments):
        """Runs the command; returns its exit code and what it printed."""
        done = subprocess.run(
            [DG, *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=240
        )
        return done.returncode, done.stdout + done.stderr

    def succeed(self, *arguments):
        code, said = self.dg(*arguments)
        assert code == 0, said
        return said


@pytest.fixture
def project(tmp_path, stream):
    stream.checkpoints(1, 1)
    return Project(tmp_path / "project", stream.state_store.root)


@pytest.mark.long  # `init/test_new_project.py` checks a new project with `dg`
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_stream_is_listed_scaffolded_and_checked(project):
    listed = project.succeed("list", "components")
    assert "lakestate.dagster.StreamJobComponent" in listed
    assert "lakestate.dagster.StreamRootComponent" in listed
    said = project.succeed("scaffold", "defs", "lakestate.dagster.StreamJobComponent", "flights", "--job", "flights")
    assert "Creating defs at" in said
    written = yaml.safe_load((project.defs / "flights" / "defs.yaml").read_text())
    assert written == {
        "type": "lakestate.dagster.StreamJobComponent",
        "attributes": {"job": "flights", "root": "{{ env.LAKESTATE_ROOT }}"},
    }
    assert "All component YAML validated successfully" in project.succeed("check", "yaml")
    assert "All definitions loaded successfully" in project.succeed("check", "defs")
    assert '"flights/savepoint"' in project.succeed("list", "defs", "--json")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_wrong_setting_is_named_with_its_line(project):
    project.succeed("scaffold", "defs", "lakestate.dagster.StreamJobComponent", "flights", "--job", "flights")
    with (project.defs / "flights" / "defs.yaml").open("a") as file:
        file.write("  polices: {}\n")
    code, said = project.dg("check", "yaml")
    assert code != 0
    assert "polices" in said
    path = project.defs / "flights" / "defs.yaml"
    path.write_text(path.read_text().replace("polices: {}", "policies: {report_evry: 30s}"))
    code, said = project.dg("check", "defs")
    assert code != 0
    assert "report_evry is not a setting" in said


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_jobs_of_a_root_are_refreshed_by_dg(project, stream, new_stream):
    project.succeed("scaffold", "defs", "lakestate.dagster.StreamRootComponent", "streams")
    project.succeed("utils", "refresh-defs-state")
    assert "flights/states/aircraft.legs" in project.succeed("list", "defs", "--json")
    new_stream(Path(stream.state_store.root), "tides").checkpoints(1, 1)
    project.succeed("utils", "refresh-defs-state")
    assert "tides/states/aircraft.legs" in project.succeed("list", "defs", "--json")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_dg_dev_reports_the_checkpoint_of_a_stream(project):
    project.succeed("scaffold", "defs", "lakestate.dagster.StreamJobComponent", "flights", "--job", "flights")
    with (project.defs / "flights" / "defs.yaml").open("a") as file:
        file.write("  policies: {report_every: 1s}\n")
    with dg_dev(project) as url:
        wait_for(lambda: materialized(url), project.folder / "log")


@contextlib.contextmanager
def dg_dev(project):
    """Starts `dg dev` on a free port of the loopback, and ends it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (project.folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [DG, "dev", "--host", "127.0.0.1", "--port", str(port)],
            cwd=project.folder,
            env=project.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield f"http://127.0.0.1:{port}/graphql"
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def materialized(url):
    """Returns the newest materialization of the checkpoint; null while there is none, or no server."""
    body = json.dumps({"query": EVENTS}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
        answer = json.loads(urllib.request.urlopen(request, timeout=30).read())
        return answer["data"]["assetOrError"].get("assetMaterializations")
    return None


def wait_for(look, log, patience_s=300):
    deadline = time.monotonic() + patience_s
    while not (found := look()):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(1)
    return found
