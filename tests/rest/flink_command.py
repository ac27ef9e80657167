"""Flink's own command line, from an environment of its own, and the runner of a job for it to drive."""

import fcntl
import os
import re
import subprocess
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lakestate.control import Endpoint, find_endpoint
from lakestate.rest.guard import TOKEN
from lakestate.rest.ids import job_id
from lakestate.runner_events import AnyEvent, EpochSealed, Failed
from lakestate.runner_process import RunnerProcess, runner_command
from lakestate.start_request import StartRequest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".flink-cli"
RELEASE = "2.3.0"
# Only the scripts and the jars: the other dependencies of PyFlink are not needed, and would take time.
PACKAGES = (f"apache-flink=={RELEASE}", f"apache-flink-libraries=={RELEASE}")
JOB = "counting"
JOB_ID = job_id(JOB)


def make_environment() -> Path:
    """Returns the folder of PyFlink's scripts and jars. The first of several processes makes the environment."""
    done = ENVIRONMENT / f".made-{RELEASE}"
    with open(ROOT / ".flink-cli.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            venv.EnvBuilder(with_pip=True, clear=True).create(ENVIRONMENT)
            subprocess.run([ENVIRONMENT / "bin" / "pip", "install", "--quiet", "--no-deps", *PACKAGES], check=True)
            done.touch()
    return next(ENVIRONMENT.glob("lib/python*/site-packages/pyflink"))


class Said(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    text: str


class Flink:
    """The command `flink`, as it is in the package.

    Args:
        home: Folder of PyFlink.
        logs: The folder for its log.
    """

    def __init__(self, home: Path, logs: Path) -> None:
        self._home = home
        self._logs = logs
        logs.mkdir(exist_ok=True)

    def __call__(self, endpoint: Endpoint, *arguments: str, token: str | None = None) -> Said:
        """Runs a command against an endpoint: `flink VERB -m ADDRESS …`."""
        verb, *rest = arguments
        address = endpoint.url.removeprefix("http://")
        variables = {"FLINK_HOME": str(self._home), "FLINK_LOG_DIR": str(self._logs)}
        if token is not None:
            variables["FLINK_REST_CLIENT_HEADERS"] = f"Authorization:Bearer {token}"
        done = subprocess.run(
            [self._home / "bin" / "flink", verb, "-m", address, *rest],
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=240,
        )
        return Said(done.returncode, done.stdout)


class Running:
    """A job in a runner of its own.

    Args:
        folder: The folder of the job's root, with its input in `in`.
        process: The runner.
    """

    def __init__(self, folder: Path, process: RunnerProcess) -> None:
        self.folder = folder
        self.process = process
        self.events = process.events()
        for event in self.events:
            assert not isinstance(event, Failed), event
            if isinstance(event, EpochSealed) and event.records:
                break
        endpoint = find_endpoint(str(folder), JOB)
        assert endpoint is not None
        self.endpoint = endpoint

    def end(self) -> list[AnyEvent]:
        """Waits for the end of the process, which must be a success, and returns its events."""
        told = [*self.events]
        assert self.process.wait() == 0
        return told


@contextmanager
def running_job(folder: Path, *, token: str | None = None) -> Iterator[Running]:
    """Runs the counting job in a folder until the block ends; the block begins when a new file of input was read."""
    add_input(folder)
    announce(folder / "jobs")
    variables = {"PYTHONPATH": os.pathsep.join([str(folder / "jobs"), os.environ.get("PYTHONPATH", "")])}
    if token is not None:
        variables[TOKEN] = token
    kept = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        process = RunnerProcess(runner_command(JOB, folder, StartRequest()), log=folder / "runner.log")
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    with process:
        yield Running(folder, process)


def add_input(folder: Path) -> None:
    """Writes one more file of input."""
    (folder / "in").mkdir(parents=True, exist_ok=True)
    number = len(list((folder / "in").iterdir()))
    rows = pa.table({"n": range(100 * number, 100 * number + 100), "k": [f"k{n % 7}" for n in range(100)]})
    draft = folder / "in" / f".part-{number}.tmp"
    pq.write_table(rows, draft)
    draft.rename(folder / "in" / f"part-{number}.parquet")


def announce(folder: Path) -> None:
    """Makes a distribution that announces the counting job, for the runner's path."""
    information = folder / "counting-1.dist-info"
    if information.exists():
        return
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1\n")
    (information / "entry_points.txt").write_text(f"[lakestate.jobs]\n{JOB} = counting_job:build\n")
    (folder / "counting_job.py").write_bytes((Path(__file__).parent / "counting_job.py").read_bytes())


def location_in(text: str) -> str:
    """Returns the location of a savepoint that a command has printed."""
    match = re.search(r"(?:Path: |stored in )(file://\S+?)\.?$", text, re.MULTILINE)
    assert match is not None, text
    return match[1]
