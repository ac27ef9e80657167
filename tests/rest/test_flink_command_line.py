"""Flink's unmodified command line, release 2.3 from PyPI, drives a job of ours."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from flink_command import JOB, JOB_ID, Flink, Running, Said, location_in, make_environment, running_job

from lakestate.control import fetch, find_endpoint
from lakestate.rest.bodies import KeyGroupsRestore
from lakestate.runner_events import Finished
from state_engine.log.records import Pin
from state_engine.savepoint import list_savepoints

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

TOKEN = "of-at-least-sixteen-characters"
NO_PATH = "/tmp/nobody-has-put-a-savepoint-here"


KEY_GROUPS = KeyGroupsRestore(source="latest", key_groups=[(0, 127)])


@pytest.fixture(scope="module")
def home() -> Path:
    return make_environment()


@pytest.fixture
def flink(home: Path, tmp_path: Path) -> Flink:
    return Flink(home, tmp_path / "flink-logs")


def savepoint_at(folder: Path, location: str) -> Pin:
    """The savepoint of a location that the command line printed."""
    assert location.startswith(f"file://{folder}/{JOB}/_savepoints/")
    found = {pin.savepoint_id: pin for pin in list_savepoints(str(folder), JOB)}
    return found[location.rpartition("/")[2]]


def ended(job: Running, kind: str, request_id: str) -> Any:
    """What an operation has given, once it has ended."""
    while True:
        result = json.loads(fetch(job.endpoint, f"/jobs/{JOB_ID}/{kind}/{request_id}"))
        if result["status"]["id"] == "COMPLETED":
            return result["operation"]
        time.sleep(0.05)


def assert_failed(said: Said, *parts: str) -> None:
    assert said.code == 1, said.text
    for part in ("The program finished with the following exception", *parts):
        assert part in said.text, said.text


def assert_stopped_behind(job: Running, pin: Pin) -> None:
    """The process has ended well, nobody is to be found, and no epoch came behind the savepoint."""
    told = job.end()
    last = told[-1]
    assert isinstance(last, Finished), told
    assert last.stopped
    assert last.epoch == pin.epoch
    assert find_endpoint(str(job.folder), JOB) is None


def test_list_savepoint_checkpoint_and_stop(flink: Flink, tmp_path: Path) -> None:
    with running_job(tmp_path) as job:
        listed = flink(job.endpoint, "list")
        assert listed.code == 0, listed.text
        assert re.search(rf"^\S+ \S+ : {JOB_ID} : {JOB} \(RUNNING\)$", listed.text, re.MULTILINE), listed.text
        assert "No scheduled jobs." in listed.text

        taken = flink(job.endpoint, "savepoint", "-type", "native", JOB_ID)
        assert taken.code == 0, taken.text
        assert "Savepoint completed. Path: file://" in taken.text
        assert savepoint_at(tmp_path, location_in(taken.text)).trigger == "rest"

        detached = flink(job.endpoint, "savepoint", "-detached", "-type", "native", JOB_ID)
        assert detached.code == 0, detached.text
        triggered = re.search(r"Successfully trigger manual savepoint, triggerId: ([0-9a-f]{32})\b", detached.text)
        assert triggered is not None, detached.text
        assert "/_savepoints/" in ended(job, "savepoints", triggered[1])["location"]

        assert b'lakestate_records_total{job="counting"} 100.0' in fetch(job.endpoint, "/metrics")
        fetch(job.endpoint, f"/jobs/{JOB_ID}/rescaling?parallelism=3", method="PATCH")

        for option, printed in ((), "Checkpoint 1 for job"), (("-full",), "Checkpoint(FULL) 2 for job"):
            checkpoint = flink(job.endpoint, "checkpoint", *option, JOB_ID)
            assert checkpoint.code == 0, checkpoint.text
            assert f"{printed} {JOB_ID} completed." in checkpoint.text

        begun = fetch(job.endpoint, f"/jobs/{JOB_ID}/key-groups", method="POST", body=KEY_GROUPS)
        report = ended(job, "key-groups", json.loads(begun)["request-id"])["report"]
        assert [(state["removed"], state["written"]) for state in report["states"]] == [(7, 7)]
        assert report["sealed"] is not None

        vertices = json.loads(fetch(job.endpoint, f"/jobs/{JOB_ID}"))["vertices"]
        assert [vertex["parallelism"] for vertex in vertices] == [3], "rescaled in front of the checkpoints"

        elsewhere = flink(job.endpoint, "savepoint", "-type", "native", JOB_ID, f"file://{NO_PATH}")
        assert_failed(elsewhere, "SavepointError: A native savepoint", NO_PATH)
        nothing = flink(job.endpoint, "savepoint", "-dispose", f"file://{NO_PATH}")
        assert_failed(nothing, f"No job of this process has a savepoint file://{NO_PATH}")
        unknown = flink(job.endpoint, "savepoint", "-type", "native", "0" * 32)
        assert_failed(unknown, f"Could not find Flink job ({'0' * 32})")

        failed = flink(job.endpoint, "stop", "--type", "native", "--savepointPath", f"file://{NO_PATH}", JOB_ID)
        assert_failed(failed, "Could not stop with a savepoint", NO_PATH)
        assert b'"RUNNING"' in fetch(job.endpoint, f"/jobs/{JOB_ID}/status"), "it runs on without a savepoint"

        stopped = flink(job.endpoint, "stop", "--type", "native", JOB_ID)
        assert stopped.code == 0, stopped.text
        assert f'Suspending job "{JOB_ID}" with a NATIVE savepoint.' in stopped.text
        assert_stopped_behind(job, savepoint_at(tmp_path, location_in(stopped.text)))


def test_stop_with_drain(flink: Flink, tmp_path: Path) -> None:
    with running_job(tmp_path) as job:
        drained = flink(job.endpoint, "stop", "--drain", "--type", "native", JOB_ID)
        assert drained.code == 0, drained.text
        assert f'Draining job "{JOB_ID}" with a NATIVE savepoint.' in drained.text
        pin = savepoint_at(tmp_path, location_in(drained.text))
        assert_stopped_behind(job, pin)
    before = next(one for one in list_savepoints(str(tmp_path), JOB) if one.label == "before drain")
    assert before.epoch < pin.epoch


def test_cancel_with_a_savepoint(flink: Flink, tmp_path: Path) -> None:
    with running_job(tmp_path) as job:
        cancelled = flink(job.endpoint, "cancel", "-type", "native", "-s", JOB_ID)
        assert cancelled.code == 0, cancelled.text
        assert f"Cancelled job {JOB_ID}. Savepoint stored in" in cancelled.text
        assert_stopped_behind(job, savepoint_at(tmp_path, location_in(cancelled.text)))


def test_cancel_of_a_job_that_wants_a_token(flink: Flink, tmp_path: Path) -> None:
    with running_job(tmp_path, token=TOKEN) as job:
        assert_failed(flink(job.endpoint, "cancel", JOB_ID), "A bearer token is needed")
        cancelled = flink(job.endpoint, "cancel", JOB_ID, token=TOKEN)
        assert cancelled.code == 0, cancelled.text
        assert f"Cancelled job {JOB_ID}." in cancelled.text
        told = job.end()
        assert isinstance(told[-1], Finished)
        assert told[-1].stopped
    assert find_endpoint(str(tmp_path), JOB) is None
    assert list_savepoints(str(tmp_path), JOB) == []
