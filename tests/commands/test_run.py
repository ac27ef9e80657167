"""`lakestate run` with a runner that has no engine."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from lakestate.cli import app
from lakestate.commands import run as verb
from lakestate.supervision import driver_command

FAKE = Path(__file__).with_name("fake_job.py")
STOPPING = "\nStopping after the current epoch. A second signal (Ctrl-C) kills it.\n"
MAIN = f"""
import sys
from lakestate.cli import app
from lakestate.commands import run
from lakestate.supervision import driver_command
run.driver_command = lambda *a, **k: [sys.executable, {str(FAKE)!r}, *driver_command(*a, **k)[3:]]
app()
"""


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def command(*args: Any, **kwargs: Any) -> list[str]:
        return [sys.executable, str(FAKE), *driver_command(*args, **kwargs)[3:]]

    monkeypatch.setattr(verb, "driver_command", command)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def run(plan: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["run", "flights", "--root", "s3://bucket/state", "-o", f"plan={plan}", *arguments])


def test_a_line_per_epoch_where_there_is_no_terminal(tmp_path: Path) -> None:
    ended = run("finish")
    assert ended.exit_code == 0
    assert ended.stdout.splitlines() == [
        "flights runs from epoch 2/7 on",
        "epoch 2/8 · 1,200 records in 500 ms (2,400/s) · 10 keys · 30 state rows",
        "epoch 2/9 · 0 records in 0 ms · 10 keys · 30 state rows · checkpoint 3 at epoch 8",
        "finished at epoch 2/9",
    ]
    assert not list(tmp_path.glob("*.log"))


def test_the_runner_gets_the_arguments_of_the_command(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    extra = (
        "--restore",
        "sp-1",
        "--uid-mapping",
        "planes=aircraft",
        "--uid-mapping",
        "a=b",
        "--max-parallelism",
        "128",
        "--allow-non-restored-state",
        "--resume-state",
        "count",
        "--discard-state",
        "total",
        "--allow-changed-sources",
        "0",
        "--allow-changed-sources",
        "2",
        "--parallelism",
        "3",
        "--available-now",
        "--cores",
        "4",
        "--rest-port",
        "8081",
        "-o",
        "a=b=c",
    )
    assert run("finish", *extra, "--log", str(log)).exit_code == 0
    wanted = "flights --root s3://bucket/state --option plan=finish --option a=b=c --restore sp-1"
    wanted += " --uid-mapping planes=aircraft --uid-mapping a=b --max-parallelism 128 --allow-non-restored-state"
    wanted += " --resume-state count --discard-state total"
    wanted += " --allow-changed-sources 0 --allow-changed-sources 2"
    assert log.read_text() == f"arguments: {wanted} --parallelism 3 --cores 4 --rest-port 8081 --available-now\n"


def test_a_cluster_is_passed_on(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    cluster = ["--master", "spark://host:7077", "--python", "/opt/python", "--environment"]
    conf = ["--conf", "spark.executor.memory=4g", "--conf", "spark.x=a=b"]
    assert run("finish", *cluster, "env.tar.gz", *conf, "--log", str(log)).exit_code == 0
    assert log.read_text().rstrip().endswith(" ".join([*cluster, str(Path.cwd() / "env.tar.gz"), *conf]))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--python", "/opt/python"], "by `--master`"),
        (["--environment", "env.tar.gz"], "by `--master`"),
        (["--master", "local[4]"], "give `--cores` instead"),
        (["--master", "yarn", "--cores", "4"], "spark.executor.cores"),
        (["--conf", "spark.executor.memory"], "is not name=value"),
    ],
)
def test_settings_that_do_not_belong_together(given: list[str], told: str) -> None:
    ended = run("finish", *given)
    assert ended.exit_code == 2
    assert told in " ".join(ended.stderr.replace("│", "").split())


def test_events_for_programs() -> None:
    ended = run("finish", "--json")
    assert ended.exit_code == 0
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [one["event"] for one in events] == ["started", "epoch", "checkpoint", "epoch", "finished"]


@pytest.mark.parametrize(
    ("error", "code"), [("NothingToRestoreError", 2), ("FencedError", 1), ("ValueError", 1), ("LakestateError", 2)]
)
def test_a_failure_is_named_with_its_remedy_and_log(tmp_path: Path, error: str, code: int) -> None:
    ended = run(f"fail-{error}")
    assert ended.exit_code == code
    [log] = tmp_path.glob("lakestate-flights-*.log")
    assert ended.stderr == f"{error}: No such thing. What to do: Name another.\nIts log: {log}\n"


def test_a_runner_that_died_is_no_success(tmp_path: Path) -> None:
    ended = run("die")
    assert ended.exit_code == 1
    assert "ended by signal 9" in ended.stderr
    assert list(tmp_path.glob("*.log"))


def test_wrong_use_starts_nothing(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["run", "flihgts", "--root", "x"])
    assert ended.exit_code == 2
    assert "No job is registered as 'flihgts'. Registered jobs: flights" in ended.stderr
    for wrong, why in (
        (["-o", "novalue"], "is not name=value"),
        (["--max-parallelism", "128"], "goes with --restore"),
        (["--uid-mapping", "a=b"], "goes with --restore"),
        (["--restore", "latest", "--uid-mapping", "a"], "is not OLD=NEW"),
        (["--restore", "latest", "--uid-mapping", "a=b", "--uid-mapping", "a=c"], "mapped twice"),
    ):
        ended = CliRunner().invoke(app, ["run", "flights", "--root", "x", *wrong])
        assert (ended.exit_code, why in ended.stderr) == (2, True), ended.stderr
    assert not list(tmp_path.glob("*.log"))


@pytest.mark.parametrize(("plan", "number", "times", "code"), [
    ("wait", signal.SIGINT, 1, 0),
    ("wait", signal.SIGTERM, 1, 0),
    ("deaf", signal.SIGINT, 2, 1),
])  # fmt: skip
def test_signals_stop_the_job_and_twice_kill_it(plan: str, number: int, times: int, code: int) -> None:
    command = [sys.executable, "-c", MAIN, "run", "flights", "--root", "x", "-o", f"plan={plan}"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as ours:
        try:
            assert ours.stdout is not None
            assert ours.stderr is not None
            seen = [ours.stdout.readline() for _ in range(3)]
            assert seen[2].startswith("epoch 2/9")
            for n in range(times):
                ours.send_signal(number)
                if n == 0:
                    assert ours.stderr.readline() + ours.stderr.readline() == STOPPING
            out, err = ours.communicate(timeout=60)
        finally:
            ours.kill()
    assert ours.returncode == code, err
    assert ("stopped at epoch 2/9" in out) == (code == 0)
    assert "Traceback" not in err
