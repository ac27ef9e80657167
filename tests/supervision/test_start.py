"""A driver outlives the process that started it, and there is only one."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakestate.control import Endpoint, publish_endpoint
from lakestate.supervision import (
    Condition,
    DriverStartError,
    NoControlFolderError,
    StartRequest,
    driver_folder,
    start_driver,
    wanted_of,
)
from state_engine.errors import CorruptionError, JobAlreadyRunningError, JobDefinitionError, UnsupportedVersionError
from state_engine.storage.job_lock import CONTROL_FOLDER

STARTER = """
import os, sys
from lakestate.supervision import StartRequest, start
fake, root = sys.argv[1:]
real = start.runner_command
start.runner_command = lambda *a, **k: [sys.executable, fake, *real(*a, **k)[3:]]
print(start.start_driver(root, "flights", StartRequest(options={"plan": "run"})).pid, flush=True)
os.kill(0, 9)
"""


def test_a_driver_outlives_the_process_group_that_started_it(drivers) -> None:
    fake = Path(__file__).with_name("fake_driver.py")
    command = [sys.executable, "-c", STARTER, str(fake), drivers.root]
    ended = subprocess.run(command, stdout=subprocess.PIPE, start_new_session=True, check=False)
    assert ended.returncode == -signal.SIGKILL
    seen = drivers.until(Condition.RUNNING)
    assert seen.pid == int(ended.stdout)
    assert os.getsid(seen.pid) == os.getpgid(seen.pid) == seen.pid
    assert seen.state == "RUNNING"


def test_the_request_is_stored_and_executed(drivers, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    drivers.start(options={"a": "b=c"}, parallelism=3, cores="4", rest_port=8081, directory=str(folder))
    seen = drivers.until(Condition.RUNNING)
    wanted = (
        f"flights --root {drivers.root} --option plan=run --option a=b=c --parallelism 3 --cores 4 --rest-port 8081"
    )
    assert drivers.log() == f"arguments: {wanted} --no-epochs\n"
    assert Path(f"/proc/{seen.pid}/cwd").resolve() == folder or sys.platform != "linux"
    request = StartRequest(
        options={"plan": "run", "a": "b=c"}, parallelism=3, cores="4", rest_port=8081, directory=str(folder)
    )
    assert seen.wanted is not None
    assert (seen.wanted.state, seen.wanted.request, seen.wanted.restarts) == ("running", request, 0)
    assert (drivers.folder / "wanted.json").stat().st_mode & 0o077 == 0, "options may hold what others need not see"


def test_of_many_starts_at_once_one_wins(drivers) -> None:
    def attempt(_: int) -> int | str:
        try:
            return drivers.start()
        except JobAlreadyRunningError as error:
            return str(error)

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(attempt, range(6)))
    pids = [one for one in outcomes if isinstance(one, int)]
    refused = [one for one in outcomes if isinstance(one, str)]
    assert len(pids) == 1
    assert all("holds job 'flights'" in one and "lakestate stop" in one for one in refused)
    assert drivers.until(Condition.RUNNING).pid == pids[0]
    with pytest.raises(JobAlreadyRunningError, match=f"Process {pids[0]} holds"):
        drivers.start()
    wanted = wanted_of(drivers.root, drivers.job)
    assert wanted is not None
    assert len(wanted.attempts) == 1


def test_a_job_that_runs_otherwise_is_not_started(drivers) -> None:
    endpoint = Endpoint(url="http://127.0.0.1:1", pid=os.getpid(), incarnation="abc")
    running = publish_endpoint(drivers.root, drivers.job, endpoint)
    with running, pytest.raises(JobAlreadyRunningError, match=f"Process {os.getpid()} holds"):
        drivers.start()
    assert wanted_of(drivers.root, drivers.job) is None


def test_the_number_of_an_earlier_driver_means_nothing(drivers) -> None:
    drivers.folder.mkdir(parents=True)
    (drivers.folder / "lock").write_text(f"{os.getpid()}\n")  # this process lives, and holds no lock
    assert drivers.look().condition is Condition.UNKNOWN
    drivers.start()
    assert drivers.until(Condition.RUNNING).pid != os.getpid()


def test_names_and_places_that_are_not_there(drivers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobDefinitionError, match="No job is registered as 'flihgts'"):
        start_driver(drivers.root, "flihgts", StartRequest())
    with pytest.raises(DriverStartError, match="No process could be started in /no/such"):
        drivers.start(directory="/no/such")
    assert drivers.look().condition is Condition.FAILED
    assert "/no/such" in drivers.look().last_words.cause
    monkeypatch.delenv(CONTROL_FOLDER, raising=False)
    with pytest.raises(NoControlFolderError, match=r"Set LAKESTATE_CONTROL"):
        start_driver("s3://bucket/state", "flights", StartRequest())
    monkeypatch.setenv(CONTROL_FOLDER, str(tmp_path / "control"))
    first, second = (driver_folder(root, "flights") for root in ("s3://bucket/state", "s3://other/state"))
    assert first != second
    assert first == driver_folder("s3://bucket/state/", "flights")
    assert first.is_relative_to(tmp_path / "control")


def test_each_start_has_a_log_of_its_own(drivers) -> None:
    for number in range(7):
        drivers.start("finish", options={"number": str(number)})
        drivers.until(Condition.ENDED)
    assert "number=6" in drivers.log()
    assert "number=5" in drivers.log(1)
    assert "number=2" in drivers.log(4)
    assert not (drivers.folder / "driver.log.5").exists()


def test_a_log_that_grows_is_moved_while_its_driver_writes_on(drivers) -> None:
    from lakestate.supervision import trim_log

    drivers.start()
    drivers.until(Condition.RUNNING)
    before = drivers.log()
    assert not trim_log(drivers.folder, limit=1_000)
    assert trim_log(drivers.folder, limit=10)
    assert (drivers.log(), drivers.log(1)) == ("", before)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", CorruptionError),
        ('{"version": 5, "anything": 1}', UnsupportedVersionError),
        ('{"version": 1}', CorruptionError),
    ],
)
def test_what_is_wanted_can_be_read_or_is_refused(drivers, text: str, error: type[Exception]) -> None:
    drivers.start("finish")
    drivers.until(Condition.ENDED)
    (drivers.folder / "wanted.json").write_text(text)
    with pytest.raises(error, match=r"wanted\.json"):
        drivers.look()
    with pytest.raises(error, match=r"wanted\.json"):
        wanted_of(drivers.root, drivers.job)


def start(drivers, plan: str, *arguments: str):
    from lakestate.cli import app

    return CliRunner().invoke(app, ["start", "flights", "--root", drivers.root, "-o", f"plan={plan}", *arguments])


def test_the_verb_waits_until_the_job_runs(drivers) -> None:
    ended = start(drivers, "run")
    assert ended.exit_code == 0, ended.stderr
    seen = drivers.look()
    assert ended.stdout == f"flights runs as process {seen.pid} at {seen.url}; its log: {drivers.folder}/driver.log\n"
    again = start(drivers, "run")
    assert again.exit_code == 2
    assert f"JobAlreadyRunningError: Process {seen.pid} holds job 'flights'" in again.stderr


def test_a_start_that_fails_while_the_caller_waits_is_reported_and_not_repeated(drivers) -> None:
    ended = start(drivers, "fail")
    assert ended.exit_code == 1
    assert "UserFunctionError: It raised. What to do: Correct it." in ended.stderr
    assert str(drivers.folder / "driver.log") in ended.stderr
    wanted = wanted_of(drivers.root, drivers.job)
    assert wanted is not None
    assert wanted.gave_up


def test_the_verb_can_leave_the_start_to_itself(drivers) -> None:
    ended = start(drivers, "slow", "--no-wait", "--json")
    assert ended.exit_code == 0
    seen = drivers.look()
    assert seen.condition is Condition.STARTING
    assert f'"pid": {seen.pid}' in ended.stdout
