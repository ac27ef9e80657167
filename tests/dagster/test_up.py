"""`lakestate up` as a new user runs it: streams, input, Dagster; and `lakestate down`, which leaves no process."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from graphql_client import GraphQLClient
from typer.testing import CliRunner

from lakestate.cli import app

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

JOBS = ("flights", "orders")


def lakestate(*arguments: str, folder: Path) -> str:
    command = [sys.executable, "-m", "lakestate.cli", *arguments, "--dir", str(folder)]
    environment = {name: value for name, value in os.environ.items() if name not in ("DAGSTER_HOME", "LAKESTATE_ROOT")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def here(*arguments: str, folder: Path) -> str:
    """Runs a verb that starts nothing in this process; returns its output."""
    result = CliRunner().invoke(app, [*arguments, "--dir", str(folder)])
    assert result.exit_code == 0, result.output
    return result.stdout


def status_of(folder: Path) -> Any:
    return json.loads(here("up", "--status", "--json", folder=folder))


def processes_of(folder: Path) -> list[str]:
    """Returns command lines of all processes that name the folder, or were started in it."""
    command_lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            works_in = (process / "cwd").readlink()
        except OSError:
            continue
        if str(folder) in words or works_in.is_relative_to(folder):
            command_lines.append(words)
    return command_lines


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_everything_comes_up_goes_on_after_a_crash_and_ends(tmp_path: Path) -> None:
    folder = tmp_path / "up"
    try:
        shown = lakestate("up", "--every", "3", folder=folder)
        url = re.findall(r"http://127\.0\.0\.1:\d+", shown)[-1]
        client = GraphQLClient(url)
        assert {f"{job}/{name}" for job in JOBS for name in ("checkpoint", "savepoint")} <= client.assets()
        for job in JOBS:
            client.wait_for(lambda job=job: client.materializations(f"{job}/checkpoint"), f"the sensor of {job}")

        assert "Already running" in here("up", folder=folder)
        look = status_of(folder)
        os.kill(look["streams"]["orders"]["pid"], signal.SIGKILL)
        os.kill(look["processes"]["web-server"]["pid"], signal.SIGKILL)
        shown = lakestate("up", folder=folder)
        assert "Already running" in shown
        assert url in shown
        again = status_of(folder)
        assert all(stream["condition"] == "running" for stream in again["streams"].values())
        assert all(process["is_alive"] for process in again["processes"].values())
        assert again["streams"]["flights"]["pid"] == look["streams"]["flights"]["pid"]
        assert again["streams"]["orders"]["epoch"] >= look["streams"]["orders"]["epoch"]

        os.kill(again["processes"]["daemon"]["pid"], signal.SIGKILL)
    finally:
        shown = lakestate("down", folder=folder)
    for job in JOBS:
        assert f"{job} has stopped after epoch 1/" in shown
    assert processes_of(folder) == []
    ended = status_of(folder)
    assert all(stream["condition"] == "stopped" for stream in ended["streams"].values())
