"""How drivers end: what is recorded first, which processes get signals, and which do not."""

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakestate.cli import app
from lakestate.control import RequestRefusedError
from lakestate.errors import JobNotRunningError
from lakestate.supervision import Condition, DriverNotEndedError, kill_driver, stop_driver, wanted_of
from lakestate.supervision.signals import signal_holder
from state_engine.savepoint import SavepointRequest


def wanted(drivers) -> str | None:
    wanted_file = wanted_of(drivers.root, drivers.job)
    return wanted_file.state if wanted_file is not None else None


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A foreign process, in a group of its own."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True) as process:
        yield process
        process.kill()


def test_a_driver_is_asked_to_end_and_is_not_wanted_any_more(drivers) -> None:
    drivers.start()
    drivers.until(Condition.RUNNING)
    assert stop_driver(drivers.root, drivers.job) is None
    assert drivers.look().condition is Condition.STOPPED


def test_a_driver_that_is_being_started_can_be_stopped(drivers, patiently) -> None:
    drivers.start("slow")
    patiently(lambda: "arguments" in drivers.log())  # from then on it listens to signals
    stop_driver(drivers.root, drivers.job)
    assert drivers.look().condition is Condition.STOPPED


def test_a_driver_that_another_process_ends_is_still_wanted(drivers) -> None:
    pid = drivers.start()
    drivers.until(Condition.RUNNING)
    os.kill(pid, signal.SIGTERM)
    seen = drivers.until(Condition.FAILED)
    assert seen.last_words.cause == "A signal told its process to end."
    assert wanted(drivers) == "running"


def test_a_job_whose_own_server_was_asked_to_end_it_has_ended(drivers) -> None:
    drivers.start()
    seen = drivers.until(Condition.RUNNING)
    with urllib.request.urlopen(f"{seen.url}/end", timeout=10):
        pass
    drivers.until(Condition.ENDED)


def test_one_that_does_not_end_is_reported_and_killed_with_its_group(drivers, patiently) -> None:
    drivers.start("mute")
    patiently(lambda: drivers.look().url)
    with pytest.raises(DriverNotEndedError, match=r"SIGTERM and still holds job 'flights'.*--kill"):
        stop_driver(drivers.root, drivers.job, patience_s=0.2)
    assert wanted(drivers) == "stopped", "it was asked to end, and is not started again when it ends"
    kill_driver(drivers.root, drivers.job)
    assert drivers.look().condition is Condition.STOPPED


def test_a_kill_ends_the_whole_group_and_no_other_process(drivers, bystander, patiently) -> None:
    drivers.start("parent")
    drivers.until(Condition.RUNNING)
    child = int((Path(drivers.root) / "child").read_text())
    assert os.getpgid(child) == drivers.look().pid
    kill_driver(drivers.root, drivers.job)

    def is_gone() -> bool:
        try:
            stat = Path(f"/proc/{child}/stat").read_text() if sys.platform == "linux" else ""
            os.kill(child, 0)
        except (ProcessLookupError, FileNotFoundError):
            return True
        return stat.rpartition(")")[2].split()[0] == "Z"

    patiently(is_gone)
    assert bystander.poll() is None


def test_a_number_that_was_given_to_another_process_is_not_signalled(drivers, bystander) -> None:
    drivers.folder.mkdir(parents=True)
    (drivers.folder / "lock").write_text(f"{bystander.pid}\n")
    with pytest.raises(JobNotRunningError):
        kill_driver(drivers.root, drivers.job)
    answers = iter([bystander.pid, None])  # it held the lock at the look, and not any more before the signal
    assert not signal_holder(lambda: next(answers), signal.SIGKILL, group=True)
    answers = iter([bystander.pid, bystander.pid + 1])
    assert not signal_holder(lambda: next(answers), signal.SIGTERM)
    assert bystander.poll() is None


def test_a_savepoint_that_is_refused_leaves_the_job_wanted(drivers) -> None:
    drivers.start()
    drivers.until(Condition.RUNNING)
    with pytest.raises(RequestRefusedError):  # the fake has no such route
        stop_driver(drivers.root, drivers.job, savepoint=SavepointRequest())
    assert drivers.look().condition is Condition.RUNNING
    assert wanted(drivers) == "running"


def test_a_job_that_does_not_run_is_not_started_again_once_it_is_stopped(drivers) -> None:
    drivers.start("die")
    drivers.until(Condition.FAILED)
    ended = CliRunner().invoke(app, ["stop", "flights", "--root", drivers.root])
    assert (ended.exit_code, ended.stdout) == (0, "flights does not run, and will not be restarted\n")
    assert wanted(drivers) == "stopped"
    assert CliRunner().invoke(app, ["stop", "flights", "--root", drivers.root]).exit_code == 2


def test_the_verb_kills_one_that_hangs(drivers, patiently) -> None:
    drivers.start("mute")
    patiently(lambda: drivers.look().url)
    assert CliRunner().invoke(app, ["stop", "flights", "--root", drivers.root, "--kill", "--drain"]).exit_code == 2
    ended = CliRunner().invoke(app, ["stop", "flights", "--root", drivers.root, "--kill"])
    assert ended.exit_code == 0, ended.stderr
    assert drivers.look().condition is Condition.STOPPED
