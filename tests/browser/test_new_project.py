"""`lakestate init`, `dg dev`, and then only clicks: the stream starts, its checkpoint appears, a savepoint is taken."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster_pages import AssetPage, shows
from playwright.sync_api import Page, expect

from lakestate.init.project import create_project
from state_engine.inspect import read_state
from state_engine.savepoint import list_savepoints

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]
BIN = Path(sys.executable).parent
PATIENCE_MS = 180_000


class Project:
    """A new project, and `dg dev` in it as a process of its own.

    Args:
        folder: The project's folder.
        port: Of Dagster's UI.
    """

    def __init__(self, folder: Path, port: int) -> None:
        create_project(folder)
        self.folder, self.url = folder, f"http://127.0.0.1:{port}"
        hidden = ("PYTEST", "LAKESTATE", "PYTHONPATH", "DAGSTER")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        self._environment = kept | {"PATH": f"{BIN}{os.pathsep}{kept['PATH']}"}
        self._log = folder.parent / "dg-dev.log"
        with self._log.open("wb") as log:
            command = [BIN / "dg", "dev", "--host", "127.0.0.1", "--port", str(port)]
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_loaded(self) -> None:
        """Waits until the web server knows the assets."""
        query = json.dumps({"query": "{ assetNodes { assetKey { path } } }"}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", query, {"Content-Type": "application/json"})
        until = time.monotonic() + PATIENCE_MS / 1_000
        while True:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                answer: Any = json.load(urllib.request.urlopen(request, timeout=10))
                if {"assetKey": {"path": ["clicks", "checkpoint"]}} in answer["data"]["assetNodes"]:
                    return
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < until, self._log.read_text()
            time.sleep(0.2)

    def lakestate(self, *arguments: str) -> None:
        """Runs a command of `lakestate` in the project."""
        command = [BIN / "lakestate", *arguments]
        subprocess.run(command, cwd=self.folder, env=self._environment, capture_output=True, timeout=120, check=False)

    def end(self) -> None:
        """Stops the stream, then everything of `dg dev`."""
        self.lakestate("cancel", "clicks", "--root", "state")
        self._process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    project = Project(tmp_path / "demo", port)
    try:
        yield project
    finally:
        project.end()


def test_a_new_project_is_operated_by_clicks(project: Project, page: Page) -> None:
    project.wait_until_loaded()
    page.goto(f"{project.url}/locations/demo/jobs/clicks_start/playground")
    page.get_by_role("button", name="Launch Run").click()
    expect(page.get_by_text("Success").first).to_be_visible(timeout=PATIENCE_MS)

    checkpoint = AssetPage(page, project.url, "clicks/checkpoint")
    expect(checkpoint.open("events")).to_contain_text("Checkpoint 1 at epoch", timeout=PATIENCE_MS)
    AssetPage(page, project.url, "clicks/savepoint").materialize_new_partition("first")
    until = time.monotonic() + PATIENCE_MS / 1_000
    while not (taken := list_savepoints(str(project.folder / "state"), "clicks")):
        assert time.monotonic() < until, "no savepoint was taken"
        time.sleep(0.2)
    [savepoint] = taken
    assert savepoint.label == "first"
    state = read_state(str(project.folder / "state"), "clicks", "count", "clicks")
    assert dict(zip(state["user"].to_pylist(), state["value"].to_pylist(), strict=True)) == {"ann": 2, "bob": 1}
    shows(AssetPage(page, project.url, "clicks/states/count.clicks").open(), ["bigint"])
