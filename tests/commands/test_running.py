"""`lakestate stop`, `cancel`, `rescale`, against the real server with a job that has no engine behind it."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakestate.control import Endpoint, publish_endpoint
from lakestate.rest.ids import job_id
from lakestate.rest.job_port import JobView
from lakestate.rest.server import serve
from state_engine.errors import SavepointError

LOCATION = "file:///state/flights/_savepoints/sp-1"
TOKEN = "a-secret-of-some-length"


class Job:
    """Takes down what it is asked; raises `error` if there is one. Its process lets go of it behind an end."""

    job_id = job_id("flights")

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.error: Exception | None = None
        self.ended = threading.Event()

    def view(self) -> JobView:
        return JobView(
            job_id=self.job_id, name="flights", state="RUNNING", start_ms=0, end_ms=-1, now_ms=0, changed_ms=0,
            since_ms={}, incarnation="abc", generation=1, epoch=4, epochs=4, records=4, epoch_seconds=1.0, operators=(),
        )  # fmt: skip

    def _do(self, *asked: Any, ends: bool) -> str:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error
        if ends:
            self.ended.set()
        return LOCATION

    def stop(self, kind: str, directory: str | None, *, drain: bool, cancel: bool = False) -> str:
        return self._do("stop", kind, directory, drain, cancel, ends=True)

    def cancel(self) -> None:
        self._do("cancel", ends=True)

    def rescale(self, parallelism: int) -> int:
        self._do("rescale", parallelism, ends=False)
        return 7


@pytest.fixture
def running(job) -> Iterator[Job]:
    """A process that runs the job: it holds the endpoint until the job has ended."""
    fake, published = Job(), threading.Event()
    with serve([fake], token=TOKEN) as server:
        endpoint = Endpoint(url=server.url, pid=os.getpid(), incarnation="abc", token=TOKEN)

        def hold() -> None:
            with publish_endpoint(job.root, "flights", endpoint):
                published.set()
                fake.ended.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        assert published.wait(10)
        yield fake
        fake.ended.set()
        thread.join(10)


def endpoint_file(job) -> Path:
    return Path(job.root, "flights", "_control", "endpoint.json")


def test_a_stopped_job_has_a_savepoint_and_no_process(job, running: Job) -> None:
    ended = job.run("stop", "flights")
    assert (ended.code, ended.out) == (0, f"flights has stopped; its savepoint is {LOCATION}\n")
    assert running.asked == [("stop", "native", None, False, False)]
    assert not endpoint_file(job).exists()


def test_a_drain_and_programs(job, running: Job) -> None:
    assert job.run("stop", "flights", "--drain", "--json").json == {"savepoint": LOCATION}
    assert running.asked == [("stop", "native", None, True, False)]


def test_the_savepoint_of_a_stop_may_be_canonical_and_lie_elsewhere(job, running: Job) -> None:
    assert job.run("stop", "flights", "--canonical", "--directory", "/backup").code == 0
    assert running.asked == [("stop", "canonical", "/backup", False, False)]


@pytest.mark.parametrize("verb", [("stop",), ("cancel", "-s")])
def test_if_the_savepoint_fails_the_job_goes_on_and_it_is_said(job, running: Job, verb: tuple[str, ...]) -> None:
    running.error = SavepointError("The disk is full.", action="Make room.")
    ended = job.run(*verb, "flights")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("OperationFailedError: The job goes on: SavepointError: The disk is full.")
    assert endpoint_file(job).exists()
    assert job.run("status", "flights", "--json").json["process"]["pid"] == os.getpid()


def test_a_cancelled_job(job, running: Job) -> None:
    assert job.run("cancel", "flights").out == "flights was cancelled\n"
    assert running.asked == [("cancel",)]
    assert not endpoint_file(job).exists()


def test_a_cancelled_job_with_a_savepoint(job, running: Job) -> None:
    assert job.run("cancel", "flights", "-s").out == f"flights was cancelled; its savepoint is {LOCATION}\n"
    assert running.asked == [("stop", "native", None, False, True)]


def test_another_parallelism(job, running: Job) -> None:
    ended = job.run("rescale", "flights", "3")
    assert (ended.code, ended.out) == (0, "flights runs with 3 subtasks for every operator\n")
    assert running.asked == [("rescale", 3)]
    assert endpoint_file(job).exists()


def test_the_process_is_shown_and_its_token_is_not(job, running: Job) -> None:
    listed, status = job.run("list"), job.run("status", "flights")
    assert str(os.getpid()) in listed.out
    assert f"{os.getpid()}, http://127.0.0.1:" in status.out
    [one] = job.run("list", "--json").json
    assert one["process"] == job.run("status", "flights", "--json").json["process"]
    assert set(one["process"]) == {"url", "pid", "incarnation"}


@pytest.mark.parametrize("verb", [("stop",), ("cancel",), ("cancel", "-s"), ("rescale", "3")])
def test_a_job_that_does_not_run_cannot_be_asked(job, verb: tuple[str, ...]) -> None:
    ended = job.run(verb[0], "flights", *verb[1:])
    assert (ended.code, ended.out) == (2, "")
    assert "JobNotRunningError: No process of this machine runs job 'flights'" in ended.err
    assert job.run("status", "flights", "--json").json["process"] is None


def test_a_process_that_hangs_is_a_failure_and_not_a_stopped_job(job) -> None:
    endpoint = Endpoint(url="http://127.0.0.1:1", pid=os.getpid(), incarnation="abc")
    with publish_endpoint(job.root, "flights", endpoint):
        ended = job.run("stop", "flights")
        assert job.run("list", "--json").json[0]["process"]["pid"] == os.getpid()
    assert (ended.code, ended.out) == (1, "")
    assert "RunnerUnreachableError" in ended.err
