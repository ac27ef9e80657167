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
from state_engine.log.savepoints import Savepoint
from state_engine.savepoint import list_savepoints

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

TOKEN = "of-at-least-sixteen-characters"
NO_PATH = "file:///nobody-has-put-a-savepoint-here"


KEY_GROUPS = KeyGroupsRestore(source="latest", key_groups=[(0, 127)])


@pytest.fixture(scope="module")
def home() -> Path:
    return make_environment()


@pytest.fixture
def flink(home: Path, tmp_path: Path) -> Flink:
    return Flink(home, tmp_path / "flink-logs")


def savepoint_in(said: Said, folder: Path, directory: Path | None = None) -> Savepoint:
    """Returns the savepoint of the location that a command printed: in the directory, or below the job's root."""
    assert said.code == 0, said.text
    place, _, savepoint_id = location_in(said.text).rpartition("/")
    assert place == f"file://{directory or folder / JOB / '_savepoints'}"
    savepoints = {one.savepoint_id: one for one in list_savepoints(str(folder), JOB)}
    assert directory is None or (directory / savepoint_id / "_metadata").is_file()
    return savepoints[savepoint_id]


def ended(job: Running, kind: str, request_id: str) -> Any:
    """Returns the result of an operation that has ended."""
    while True:
        result = json.loads(fetch(job.endpoint, f"/jobs/{JOB_ID}/{kind}/{request_id}"))
        if result["status"]["id"] == "COMPLETED":
            return result["operation"]
        time.sleep(0.05)


def assert_failed(said: Said, *parts: str) -> None:
    assert said.code == 1, said.text
    for part in ("The program finished with the following exception", *parts):
        assert part in said.text, said.text


def assert_stopped_after(job: Running, savepoint: Savepoint) -> None:
    """The process has ended well, no endpoint is left, and no epoch came after the savepoint."""
    told = job.end()
    last = told[-1]
    assert isinstance(last, Finished), told
    assert last.stopped
    assert last.epoch == savepoint.epoch
    assert find_endpoint(str(job.folder), JOB) is None


@pytest.mark.long
def test_a_job_is_listed_gets_a_savepoint_and_is_stopped_with_one(flink: Flink, tmp_path: Path) -> None:
    with running_job(tmp_path) as job:
        listed = flink(job.endpoint, "list")
        assert listed.code == 0, listed.text
        assert f"{JOB_ID} : {JOB} (RUNNING)" in listed.text

        taken = savepoint_in(flink(job.endpoint, "savepoint", "-type", "native", JOB_ID), tmp_path)
        assert (taken.kind, taken.trigger) == ("native", "rest")

        elsewhere = tmp_path / "elsewhere"
        stopped = flink(job.endpoint, "stop", "--savepointPath", f"file://{elsewhere}", JOB_ID)
        assert_stopped_after(job, savepoint_in(stopped, tmp_path, elsewhere))
        assert f'Suspending job "{JOB_ID}" with a CANONICAL savepoint.' in stopped.text


@pytest.mark.long
def test_list_savepoint_checkpoint_and_stop(flink: Flink, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    with running_job(tmp_path) as job:
        listed = flink(job.endpoint, "list")
        assert listed.code == 0, listed.text
        assert re.search(rf"^\S+ \S+ : {JOB_ID} : {JOB} \(RUNNING\)$", listed.text, re.MULTILINE), listed.text
        assert "No scheduled jobs." in listed.text

        for kind in ("native", "canonical"):
            taken = flink(job.endpoint, "savepoint", "-type", kind, JOB_ID)
            assert savepoint_in(taken, tmp_path).kind == kind
            assert "Savepoint completed. Path: file://" in taken.text
        native = flink(job.endpoint, "savepoint", "-type", "native", JOB_ID, f"file://{elsewhere}")
        assert savepoint_in(native, tmp_path, elsewhere).kind == "native"
        by_default = flink(job.endpoint, "savepoint", JOB_ID, f"file://{elsewhere}")
        moved = savepoint_in(by_default, tmp_path, elsewhere)
        assert (moved.kind, moved.trigger) == ("canonical", "rest")

        disposed = flink(job.endpoint, "savepoint", "-dispose", location_in(by_default.text))
        assert disposed.code == 0, disposed.text
        assert f"Savepoint '{location_in(by_default.text)}' disposed." in disposed.text
        assert moved.savepoint_id not in {one.savepoint_id for one in list_savepoints(str(tmp_path), JOB)}
        assert not list((elsewhere / moved.savepoint_id).rglob("*.parquet"))

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
        assert [vertex["parallelism"] for vertex in vertices] == [3], "rescaled before the checkpoints"

        nothing = flink(job.endpoint, "savepoint", "-dispose", NO_PATH)
        assert_failed(nothing, f"No job of this process has a savepoint {NO_PATH}")
        unknown = flink(job.endpoint, "savepoint", "0" * 32)
        assert_failed(unknown, f"Could not find Flink job ({'0' * 32})")

        failed = flink(job.endpoint, "stop", "--savepointPath", "not/absolute", JOB_ID)
        assert_failed(
            failed, "Could not stop with a savepoint", "SavepointError: The directory 'not/absolute' is relative"
        )
        assert b'"RUNNING"' in fetch(job.endpoint, f"/jobs/{JOB_ID}/status"), "it runs on without a savepoint"

        stopped = flink(job.endpoint, "stop", "--savepointPath", f"file://{elsewhere}", JOB_ID)
        assert_stopped_after(job, savepoint_in(stopped, tmp_path, elsewhere))
        assert f'Suspending job "{JOB_ID}" with a CANONICAL savepoint.' in stopped.text


@pytest.mark.long
def test_stop_with_drain(flink: Flink, tmp_path: Path) -> None:
    with running_job(tmp_path) as job:
        drained = flink(job.endpoint, "stop", "--drain", "--type", "native", JOB_ID)
        last = savepoint_in(drained, tmp_path)
        assert f'Draining job "{JOB_ID}" with a NATIVE savepoint.' in drained.text
        assert_stopped_after(job, last)
    before = next(one for one in list_savepoints(str(tmp_path), JOB) if one.label == "before drain")
    assert before.epoch < last.epoch


@pytest.mark.long
def test_cancel_with_a_savepoint(flink: Flink, tmp_path: Path) -> None:
    with running_job(tmp_path) as job:
        cancelled = flink(job.endpoint, "cancel", "-s", f"file://{tmp_path}/elsewhere", JOB_ID)
        assert_stopped_after(job, savepoint_in(cancelled, tmp_path, tmp_path / "elsewhere"))
        assert f"Cancelled job {JOB_ID}. Savepoint stored in" in cancelled.text


@pytest.mark.long
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
