"""The verbs that ask the process of a running job, with the real server and a job without an engine."""

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lakestate.control import Endpoint, publish_endpoint
from lakestate.failure_facts import facts_of
from lakestate.rest.ends import keep_ends
from lakestate.rest.guard import TOKEN as TOKEN_VARIABLE
from lakestate.rest.ids import job_id
from lakestate.rest.job_port import JobFailure, JobStatus, JobView, SavepointRequest, SourceView
from lakestate.rest.server import serve
from state_engine.errors import SavepointError

LOCATION = "file:///state/flights/_savepoints/sp-1"
TOKEN = "a-secret-of-some-length"


class Job:
    """Records its requests; raises `error` if it is set. Its process releases it after an end."""

    job_id = job_id("flights")

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.error: Exception | None = None
        self.error_ends_it = False
        self.problems: list[JobFailure] = []
        self.state: JobStatus = "RUNNING"
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.ended = threading.Event()

    def view(self) -> JobView:
        return JobView(
            job_id=self.job_id, name="flights", state=self.state, start_ms=0, end_ms=-1, now_ms=0, changed_ms=0,
            since_ms={}, incarnation="abc", generation=1, epoch=4, epochs=4, records=4, epoch_seconds=1.0, operators=(),
            sources=(SourceView("clicks", 1234, 61.5), SourceView("files", None, None)),
        )  # fmt: skip

    def failures(self) -> list[JobFailure]:
        return self.problems

    def _do(self, *asked: Any, ends: JobStatus | None = None) -> str:
        self.asked.append(asked)
        assert self.may_go_on.wait(30)
        if self.error is not None:
            self.problems.append(JobFailure(0, str(self.error), facts_of(self.error)))
            ends = "FAILED" if self.error_ends_it else None
        if ends is not None:
            self.state = ends
            self.ended.set()
        if self.error is not None:
            raise self.error
        return LOCATION

    def stop(self, wanted: SavepointRequest, *, drain: bool, cancel: bool = False) -> str:
        return self._do("stop", *wanted, drain, cancel, ends="CANCELED" if cancel else "FINISHED")

    def cancel(self) -> None:
        self._do("cancel", ends="CANCELED")

    def rescale(self, parallelism: int | Mapping[str, int]) -> int:
        self._do("rescale", parallelism)
        return 7

    def trigger_savepoint(self, wanted: SavepointRequest) -> str:
        return self._do("savepoint", *wanted)

    def trigger_checkpoint(self, *, full: bool) -> int:
        self._do("checkpoint", full)
        return 12


class Process:
    """A process that runs the job: it holds the endpoint, and serves, until the job has ended.

    Args:
        root: The root that names its endpoint; null if no root does.
        fake: The job.
    """

    def __init__(self, root: str, fake: Job, *, publishes: bool = True) -> None:
        self.url = ""
        self._root, self._fake, self._publishes = root, fake, publishes
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self) -> None:
        with serve([self._fake], token=TOKEN) as server, ExitStack() as stack:
            self.url = server.url
            if self._publishes:
                endpoint = Endpoint(url=server.url, pid=os.getpid(), incarnation="abc", token=TOKEN)
                stack.enter_context(publish_endpoint(self._root, "flights", endpoint))
            self._ready.set()
            self._fake.ended.wait()
            server.deliver(threading.Event(), 0.5)
            keep_ends(self._root, "flights", "abc", server.ends)

    def __enter__(self) -> "Process":
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._fake.may_go_on.set()
        self._fake.ended.set()
        self.wait()

    def wait(self) -> None:
        """Waits for the end of the process."""
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.fixture
def process(job) -> Iterator[Process]:
    with Process(job.root, Job()) as process:
        yield process


@pytest.fixture
def running(process: Process) -> Job:
    return process._fake


@pytest.fixture
def elsewhere(job, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """A process that its root does not name."""
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    with Process(job.root, Job(), publishes=False) as process:
        yield process


def endpoint_file(job) -> Path:
    return Path(job.root, "flights", "_control", "endpoint.json")


def test_a_stopped_job_has_a_savepoint_and_no_process(job, running: Job) -> None:
    ended = job.run("stop", "flights")
    assert (ended.code, ended.out) == (0, f"flights has stopped; its savepoint is {LOCATION}\n")
    assert running.asked == [("stop", "native", None, "", "", None, "", False, False)]
    assert not endpoint_file(job).exists()


def test_a_drain_and_programs(job, running: Job) -> None:
    assert job.run("stop", "flights", "--drain", "--json").json == {"savepoint": LOCATION}
    assert running.asked == [("stop", "native", None, "", "", None, "", True, False)]


def test_the_savepoint_of_a_stop_may_be_canonical_lie_elsewhere_and_have_a_name(job, running: Job) -> None:
    options = ("--type", "canonical", "--directory", "/backup", "--label", "last", "--note", "of the year")
    assert job.run("stop", "flights", *options).code == 0
    assert running.asked == [("stop", "canonical", "/backup", "last", "of the year", None, "", False, False)]


@pytest.mark.parametrize("verb", [("stop",), ("stop", "--drain"), ("stop", "--type", "canonical"), ("cancel", "-s")])
def test_if_the_savepoint_fails_the_job_goes_on_and_it_is_said(job, running: Job, verb: tuple[str, ...]) -> None:
    running.error = SavepointError("The disk is full.", action="Make room.")
    ended = job.run(*verb, "flights")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        "OperationFailedError: The job goes on: SavepointError: The disk is full. What to do: Make room.\n"
    )
    assert endpoint_file(job).exists()
    process = job.run("status", "flights", "--json").json["process"]
    assert (process["pid"], process["state"]) == (os.getpid(), "RUNNING")
    assert process["problem"] == "SavepointError: The disk is full. What to do: Make room."
    said = job.run("status", "flights").out
    assert f"{process['url']}, RUNNING" in said
    assert "The disk is full." in said


def test_a_drain_that_failed_is_not_said_to_go_on(job, running: Job) -> None:
    running.error, running.error_ends_it = SavepointError("The disk is full."), True
    ended = job.run("stop", "flights", "--drain")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("OperationFailedError: The job does not run any more: SavepointError: The disk is full")


@pytest.mark.parametrize(
    ("verb", "kind", "result", "asked"),
    [
        (
            ("stop", "--type", "canonical"),
            "savepoint",
            LOCATION,
            ("stop", "canonical", None, "", "", None, "", False, False),
        ),
        (("savepoint", "--label", "x"), "savepoint", LOCATION, ("savepoint", "native", None, "x", "", None, "")),
        (("savepoint", "--epoch", "2"), "savepoint", LOCATION, ("savepoint", "native", None, "", "", 2, "")),
        (("checkpoint", "--full"), "checkpoint", 12, ("checkpoint", True)),
    ],
)
def test_an_operation_without_a_waiting_caller_can_be_asked_about(
    job, process: Process, running: Job, verb: tuple[str, ...], kind: str, result: Any, asked: tuple[Any, ...]
) -> None:
    running.may_go_on.clear()
    begun = job.run(*verb, "flights", "--detached")
    assert begun.code == 0
    assert re.fullmatch(r"[0-9a-f]{32}\n", begun.out)
    trigger_id = begun.out.strip()
    assert f"lakestate operation flights {trigger_id}" in begun.err
    under_way = job.run("operation", "flights", trigger_id)
    assert (under_way.code, under_way.out) == (0, f"{trigger_id} is under way\n")
    assert job.run("operation", "flights", trigger_id, "--json").json["status"] == "IN_PROGRESS"
    running.may_go_on.set()
    ended = job.run("operation", "flights", trigger_id, "--wait")
    assert (ended.code, ended.out) == (0, f"{trigger_id} is done: {kind} {result}\n")
    assert running.asked == [asked]
    running.ended.set()
    process.wait()
    answer = job.run("operation", "flights", trigger_id, "--json")
    assert answer.code == 0, "also after the end of the process"
    assert (answer.json["status"], answer.json["operation"]["result"]) == ("COMPLETED", result)


def test_programs_get_the_trigger_id_too(job, running: Job) -> None:
    assert len(job.run("checkpoint", "flights", "--detached", "--json").json["trigger_id"]) == 32


def test_a_failed_operation_without_a_waiting_caller_has_exit_code_1(job, process: Process, running: Job) -> None:
    running.error = SavepointError("The disk is full.", action="Make room.")
    trigger_id = job.run("stop", "flights", "--detached").out.strip()
    for lives in (True, False):
        ended = job.run("operation", "flights", trigger_id, "--wait")
        assert (ended.code, ended.out) == (1, "")
        assert ended.err == (
            f"OperationFailedError: The savepoint {trigger_id} failed: SavepointError: The disk is full. "
            "What to do: Make room.\n"
        )
        answer = job.run("operation", "flights", trigger_id, "--json")
        assert (answer.code, answer.json["status"], answer.json["operation"]["error"]) == (
            1,
            "FAILED",
            "SavepointError",
        )
        if lives:
            assert running.state == "RUNNING"
            running.ended.set()
            process.wait()


@pytest.mark.parametrize("trigger_id", ["0" * 32, "../../etc/passwd", ""])
def test_an_unknown_operation(job, trigger_id: str, running: Job) -> None:
    for _ in range(2):
        ended = job.run("operation", "flights", trigger_id)
        assert (ended.code, ended.out) == (2, "")
        running.ended.set()


def test_a_checkpoint_is_waited_for(job, running: Job) -> None:
    ended = job.run("checkpoint", "flights")
    assert (ended.code, ended.out) == (0, "flights has completed checkpoint 12\n")
    assert job.run("checkpoint", "flights", "--full", "--json").json == {"checkpoint": 12}
    assert running.asked == [("checkpoint", False), ("checkpoint", True)]


def test_a_cancelled_job(job, running: Job) -> None:
    assert job.run("cancel", "flights").out == "flights was cancelled\n"
    assert running.asked == [("cancel",)]
    assert not endpoint_file(job).exists()


def test_a_cancelled_job_with_a_savepoint(job, running: Job) -> None:
    assert job.run("cancel", "flights", "-s").out == f"flights was cancelled; its savepoint is {LOCATION}\n"
    assert running.asked == [("stop", "native", None, "", "", None, "", False, True)]


def test_the_savepoint_of_a_cancel_may_be_canonical_and_lie_elsewhere(job, running: Job) -> None:
    assert job.run("cancel", "flights", "-s", "--type", "canonical", "--directory", "/backup").code == 0
    assert running.asked == [("stop", "canonical", "/backup", "", "", None, "", False, True)]


def test_a_cancel_without_savepoint_has_no_options_of_one(job, running: Job) -> None:
    assert job.run("cancel", "flights", "--directory", "/backup").code == 2
    assert running.asked == []


def test_another_parallelism(job, running: Job) -> None:
    ended = job.run("rescale", "flights", "3")
    assert (ended.code, ended.out) == (0, "flights runs with 3 subtasks for every operator\n")
    assert running.asked == [("rescale", 3)]
    assert endpoint_file(job).exists()


def test_another_parallelism_without_waiting_for_it(job, running: Job) -> None:
    for wanted, asked in ((("--parallelism", "3"), 3), (("--operator", "c=1"), {"c": 1})):
        trigger_id = job.run("rescale", "flights", *wanted, "--detached").out.strip()
        said = job.run("operation", "flights", trigger_id, "--wait")
        assert (said.code, said.out) == (0, f"{trigger_id} is done: rescaling\n")
        assert running.asked[-1] == ("rescale", asked)


def test_another_parallelism_of_some_operators(job, running: Job) -> None:
    ended = job.run("rescale", "flights", "--operator", "a=b=3", "--operator", "c=1")
    assert (ended.code, ended.out) == (0, "flights runs a=b with 3, c with 1 subtasks\n")
    assert running.asked == [("rescale", {"a=b": 3, "c": 1})]
    assert job.run("rescale", "flights", "--operator", "c=2", "--json").json == {"operators": {"c": 2}}


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("3", "--operator", "a=1"),
        ("--parallelism", "3", "--operator", "a=1"),
        ("--parallelism", "3", "4"),
        ("--operator", "a"),
        ("--operator", "a=0"),
        ("--operator", "=1"),
        ("0",),
    ],
)
def test_a_rescale_that_says_too_little_or_too_much(job, running: Job, options: tuple[str, ...]) -> None:
    assert job.run("rescale", "flights", *options).code == 2
    assert running.asked == []


def test_a_job_is_asked_by_its_address_where_its_root_does_not_lead_to_it(job, elsewhere: Process) -> None:
    at = ("--url", f"{elsewhere.url}/")
    assert job.run("stop", "flights").code == 2, "the root names no process"
    assert job.run("savepoint", "flights", *at).out == f"flights has taken the savepoint {LOCATION}\n"
    assert job.run("rescale", "flights", "3", *at).code == 0
    trigger_id = job.run("checkpoint", "flights", "--detached", *at).out.strip()
    assert job.run("operation", "flights", trigger_id, "--wait", *at).out == f"{trigger_id} is done: checkpoint 12\n"
    assert job.run("stop", "flights", *at, "--root", "s3://bucket/state").code == 0
    assert elsewhere._fake.state == "FINISHED"


def test_another_job_or_another_token_or_no_process_at_an_address(
    job, elsewhere: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = job.run("stop", "orders", "--url", elsewhere.url)
    assert (other.code, other.out) == (2, "")
    assert f"The server at {elsewhere.url} does not run job 'orders'" in other.err
    monkeypatch.setenv(TOKEN_VARIABLE, "another-of-some-length")
    refused = job.run("stop", "flights", "--url", elsewhere.url)
    assert refused.code == 1
    assert f"Set {TOKEN_VARIABLE}" in refused.err
    assert "another-of-some-length" not in refused.err
    nobody = job.run("stop", "flights", "--url", "http://127.0.0.1:1")
    assert (nobody.code, nobody.out) == (1, "")
    assert "RunnerUnreachableError: No server answers for job 'flights' at http://127.0.0.1:1" in nobody.err
    assert elsewhere._fake.asked == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--url", "http://me:secret@host:8081"),
        ("--url", "http://host:8081/?token=secret"),
        ("--url", "host:8081"),
        ("--root", "s3://key:secret@bucket/state"),
        ("--root", "az://container/state?sig=secret"),
    ],
)
def test_secrets_on_the_command_line_are_refused_and_not_repeated(job, option: str, value: str) -> None:
    ended = job.run("stop", "flights", option, value)
    assert ended.code == 2
    assert "secret" not in ended.out + ended.err.replace("Put secrets into", "")
    assert "environment" in ended.err or "http://host:8081" in ended.err


def test_the_process_is_shown_and_its_token_is_not(job, running: Job) -> None:
    listed, status = job.run("list"), job.run("status", "flights")
    assert str(os.getpid()) in listed.out
    assert f"{os.getpid()}, http://127.0.0.1:" in status.out
    [one] = job.run("list", "--json").json
    assert set(one["process"]) == {"url", "pid", "incarnation", "kind"}
    asked = {"state": "RUNNING", "problem": None}
    assert job.run("status", "flights", "--json").json["process"] == one["process"] | asked
    assert TOKEN not in listed.out + status.out


@pytest.mark.parametrize(
    "verb",
    [("stop",), ("cancel",), ("cancel", "-s"), ("rescale", "3"), ("checkpoint",), ("savepoint", "--detached")],
)
def test_a_job_that_does_not_run_cannot_be_asked(job, verb: tuple[str, ...]) -> None:
    ended = job.run(verb[0], "flights", *verb[1:])
    assert (ended.code, ended.out) == (2, "")
    assert "JobNotRunningError: No process of this machine runs job 'flights'" in ended.err
    assert job.run("status", "flights", "--json").json["process"] is None


def test_status_shows_how_far_sources_are_behind(job, running: Job) -> None:
    shown = job.run("status", "flights").out
    assert re.search(r"source +records behind +for\n.*\nclicks +1,234 +1 min 1 s\n", shown)
    assert "files" not in shown, "how far it is behind is not known"
    told = job.run("status", "flights", "--json").json["sources"]
    assert told == [
        {"name": "clicks", "lag_records": 1234, "lag_seconds": 61.5},
        {"name": "files", "lag_records": None, "lag_seconds": None},
    ]


def test_a_process_that_hangs_is_a_failure_and_not_a_stopped_job(job) -> None:
    endpoint = Endpoint(url="http://127.0.0.1:1", pid=os.getpid(), incarnation="abc")
    with publish_endpoint(job.root, "flights", endpoint):
        ended = job.run("stop", "flights")
        assert job.run("list", "--json").json[0]["process"]["pid"] == os.getpid()
        said = job.run("status", "flights")
    assert (ended.code, ended.out) == (1, "")
    assert "RunnerUnreachableError" in ended.err
    assert said.code == 0
    assert "http://127.0.0.1:1, does not answer" in said.out
