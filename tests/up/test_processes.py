"""Processes in the background: one per name, identified by its lock, ended for certain."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakestate.up.errors import NotUpError
from lakestate.up.processes import BackgroundProcess

SLEEP = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)",
]
WITH_CHILD = [
    sys.executable,
    "-c",
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(600)",
]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BackgroundProcess]:
    process = BackgroundProcess(tmp_path / "processes", "worker")
    yield process
    process.end(with_group=True)


@pytest.fixture
def start(process: BackgroundProcess, tmp_path: Path) -> Callable[[list[str]], int]:
    def start(command: list[str]) -> int:
        assert process.start(command, directory=tmp_path, environment={"ASKED": "yes"})
        wait_for(lambda: process.last_line() or not process.is_alive)
        assert process.pid is not None
        return process.pid

    return start


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def lives(pid: int) -> bool:
    """Returns whether such a process exists and is no zombie."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(done.stdout.strip()) and not done.stdout.startswith("Z")


def test_it_is_started_once(process: BackgroundProcess, start: Callable[[list[str]], int], tmp_path: Path) -> None:
    assert not process.is_alive
    assert process.pid is None
    pid = start(SLEEP)
    assert process.is_alive
    assert not process.start(SLEEP, directory=tmp_path, environment={})
    assert process.pid == pid
    assert os.getsid(pid) == pid


def test_another_look_at_the_same_folder_finds_and_ends_it(
    process: BackgroundProcess, start: Callable[[list[str]], int], tmp_path: Path
) -> None:
    pid = start(SLEEP)
    other = BackgroundProcess(tmp_path / "processes", "worker")
    assert other.pid == pid
    assert other.end()
    assert not process.is_alive
    assert not lives(pid)
    assert not other.end()


def test_one_that_does_not_listen_is_killed(process: BackgroundProcess, start: Callable[[list[str]], int]) -> None:
    pid = start(STUBBORN)
    assert process.end(patience_s=0.3)
    assert not lives(pid)


def test_what_it_has_started_goes_with_its_group(process: BackgroundProcess, start: Callable[[list[str]], int]) -> None:
    start(WITH_CHILD)
    child = int(process.last_line())
    assert lives(child)
    assert process.end(with_group=True)
    wait_for(lambda: not lives(child))


def test_a_number_that_is_written_down_is_not_signalled_without_its_lock(tmp_path: Path) -> None:
    """As after a crash, when the number belongs to another process by now."""
    process = BackgroundProcess(tmp_path / "processes", "worker")
    (tmp_path / "processes" / "worker").mkdir(parents=True)
    with subprocess.Popen(SLEEP, stdout=subprocess.DEVNULL) as foreign:
        (tmp_path / "processes" / "worker" / "lock").write_text(f"{foreign.pid}\n")
        assert process.pid is None
        assert not process.end()
        assert foreign.poll() is None
        foreign.kill()


def test_one_that_has_crashed_is_not_there_and_its_last_line_is(
    process: BackgroundProcess, start: Callable[[list[str]], int], tmp_path: Path
) -> None:
    pid = start(SLEEP)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not process.is_alive)
    assert process.last_line() == "ready"
    assert not process.end()
    assert start([sys.executable, "-c", "import os, time; print(os.environ['ASKED'], flush=True); time.sleep(600)"])
    assert process.last_line() == "yes"
    assert process.log.with_name("log.1").read_text() == "ready\n"


def test_what_cannot_be_started_is_named(process: BackgroundProcess, tmp_path: Path) -> None:
    with pytest.raises(NotUpError, match=r"worker could not be started.*nobody"):
        process.start([str(tmp_path / "nobody")], directory=tmp_path, environment={})
    assert not process.is_alive
