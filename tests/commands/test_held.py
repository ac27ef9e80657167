"""A process holds the job and serves no requests: each verb names it, and none says that the job does not run."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakestate.commands import ending
from lakestate.start_request import StartRequest
from lakestate.supervision import Condition, look
from lakestate.supervision.places import driver_folder
from lakestate.supervision.records import Wanted, WantedFile
from state_engine.inspect import open_job
from state_engine.storage.job_lock import holding

PID = os.getpid()


@pytest.fixture
def held(job) -> Iterator[Any]:
    """The job, held by a user's program, which is this process."""
    with holding(job.root, "flights", "program"):
        yield job


def want(job: Any) -> WantedFile:
    """Writes that the job shall run, as `lakestate start` does."""
    file = WantedFile(driver_folder(job.root, "flights"))
    with file.locked():
        file.write(Wanted(state="running", since=1, request=StartRequest()).with_start(1))
    return file


@pytest.mark.parametrize(
    ("verb", "code"),
    [
        ("start flights", 2),
        ("run flights", 2),
        ("restore flights --from epoch:1/2 --without-code", 1),
        ("restore flights --from epoch:1/2 --key-groups 0-3", 1),
        ("compact flights --stopped", 1),
        ("rescale flights 3", 1),
        ("checkpoint flights", 1),
        ("savepoint flights --detached", 1),
        ("cancel flights", 1),
        ("stop flights", 1),
        ("stop flights --drain", 1),
        ("stop flights --detached", 1),
    ],
)
def test_each_verb_that_would_run_or_ask_the_job_names_the_holder(held, verb: str, code: int) -> None:
    wanted, newest = want(held), open_job(held.root, "flights").newest()
    ended = held.run(*verb.split())
    assert ended.code == code
    assert "not be restarted" not in ended.out
    assert f"Process {PID} (program) holds job 'flights'" in ended.err
    assert "What to do: " in ended.err
    assert open_job(held.root, "flights").newest() == newest
    now = wanted.read()
    assert now is not None
    assert now.state == "running", "it was not ended, so it is still wanted"


def test_status_list_and_top_name_the_same_process(held) -> None:
    told = {"url": None, "pid": PID, "incarnation": None, "kind": "program"}
    assert [one["process"] for one in held.run("list", "--json").json] == [told]
    assert held.run("status", "flights", "--json").json["process"] == told | {"state": None, "problem": None}
    assert f"{PID} (program), serves no requests" in held.run("status", "flights").out
    assert str(PID) in held.run("list").out
    assert f"process {PID}" in held.run("top", "flights", "--once").out
    seen = look(held.root, "flights")
    assert (seen.condition, seen.pid) == (Condition.RUNNING, PID), "it need not answer, however long it waits for input"


def test_a_driver_that_serves_nothing_is_waited_for_and_then_named(job, monkeypatch: pytest.MonkeyPatch) -> None:
    real, wanted = ending.await_endpoint, want(job)
    monkeypatch.setattr(ending, "await_endpoint", lambda root, name: real(root, name, 0.2))
    with holding(job.root, "flights", "driver"):
        ended = job.run("stop", "flights")
        assert "serves no requests" in job.run("status", "flights").out
    assert (ended.code, ended.out) == (1, "")
    assert f"Process {PID} holds job 'flights' and serves no requests" in ended.err
    assert "lakestate stop --kill" in ended.err
    now = wanted.read()
    assert now is not None
    assert now.state == "running"


def test_a_job_without_a_holder_is_restored_and_held_meanwhile(job, monkeypatch: pytest.MonkeyPatch) -> None:
    from state_engine.savepoint.restore import JobRestore

    seen: list[str] = []
    real = JobRestore.run

    def run(self: JobRestore) -> Any:
        seen.append(job.run("status", "flights").out)
        return real(self)

    monkeypatch.setattr(JobRestore, "run", run)
    assert job.run("restore", "flights", "--from", "epoch:1/2", "--without-code").code == 0
    assert f"{PID} (restore), serves no requests" in seen[0]
    assert "none on this machine" in job.run("status", "flights").out


def test_a_refused_run_begins_no_process(held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakestate.commands import run as verb

    monkeypatch.setattr(verb, "RunnerProcess", None)
    assert held.run("run", "flights", "--log", str(tmp_path / "run.log")).code == 2
    assert not (tmp_path / "run.log").exists()
