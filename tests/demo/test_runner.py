"""The events that the runner sends about a job, with a client that has no engine."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakestate.runner import Follower, follow, state_size
from lakestate.runner_events import (
    AnyEvent,
    CheckpointCompleted,
    EpochSealed,
    Failed,
    Finished,
    Started,
    decode_event,
    encode_event,
)
from lakestate.runner_process import runner_command
from lakestate.start_request import StartRequest
from state_engine.log.records import Ack, BaseReference, Manifest, OperatorEpoch, Span, StateStatistics
from state_engine.spark.driver.progress import EpochHistory, EpochSummary
from state_engine.storage.job_lock import holding


def manifest(epoch: int, base: BaseReference | None = None) -> Manifest:
    statistics = (StateStatistics(name="legs", rows=4, keys=4), StateStatistics(name="routes", rows=9, keys=3))
    ack = Ack(uid="op", subtask=0, attempt="x", records_in=1, records_out=1, statistics=statistics)
    operator = OperatorEpoch(parallelism=2, max_parallelism=128, acks=(ack, ack))
    return Manifest(
        job="flights",
        generation=1,
        epoch=epoch,
        kind="epoch",
        incarnation="a",
        incarnation_number=1,
        predecessor="hash",
        processing_time=0,
        lineage=(Span(generation=1, first=1),),
        operators={"op": operator, "other": OperatorEpoch(parallelism=2, max_parallelism=128)},
        base=base,
    )


class FakeJob:
    """Client and channel in one. Each wait seals `per_wait` epochs, up to `last`; it keeps the newest `kept`."""

    def __init__(self, last: int, error: Exception | None = None, *, per_wait: int = 1, kept: int = 10) -> None:
        self._history = EpochHistory(kept)
        self._per_wait = per_wait
        self.epochs_after = self._history.after
        self.newest = 1
        self.spark_jobs = 0
        self.exception: Exception | None = None
        self.events: list[AnyEvent] = []
        self.stopped = False
        self.base: BaseReference | None = None
        self._last, self._error = last, error

    def await_termination(self, timeout_s: float | None = None) -> bool:
        for _ in range(self._per_wait):
            if self.newest >= self._last:
                self.exception = self._error
                return True
            self.newest += 1
            self.spark_jobs += 1
            self._history.append(EpochSummary(self.newest, "epoch", records=10, seconds=0.5))
        return False

    def stop(self) -> None:
        self.stopped = True

    @property
    def head(self) -> Any:
        return SimpleNamespace(manifest=manifest(self.newest, self.base))

    def send(self, event: AnyEvent) -> None:
        self.events.append(event)


def follower_of(job: FakeJob) -> Follower:
    as_both: Any = job
    follower = Follower(as_both, as_both)
    follower.start("flights")
    return follower


def test_keys_are_those_of_the_largest_state_and_rows_are_of_all() -> None:
    assert state_size(manifest(1)) == (8, 26)


def test_each_epoch_is_reported_once_and_in_order() -> None:
    job = FakeJob(last=4)
    follower = follower_of(job)
    assert not follow(job, follower, threading.Event())
    sealed = [EpochSealed(epoch=e, records=10, seconds=0.5, keys=8, state_rows=26, spark_jobs=e - 1) for e in (2, 3, 4)]
    assert job.events == [Started(job="flights", generation=1, epoch=1), *sealed]
    assert follower.epoch == 4
    assert not job.stopped


@pytest.mark.parametrize("per_wait", [1, 7])
def test_a_job_that_runs_longer_than_its_client_remembers_is_reported_to_the_end(per_wait: int) -> None:
    job = FakeJob(last=100, per_wait=per_wait)
    follow(job, follower_of(job), threading.Event())
    assert [event.epoch for event in job.events if isinstance(event, EpochSealed)] == list(range(2, 101))


def test_a_checkpoint_is_reported_when_a_manifest_adopts_it() -> None:
    job = FakeJob(last=4)
    follower = follower_of(job)
    job.base = BaseReference(path="b", checksum="c", generation=1, epoch=2, checkpoint_id=7)
    follow(job, follower, threading.Event())
    told = [event for event in job.events if isinstance(event, CheckpointCompleted)]
    assert told == [CheckpointCompleted(checkpoint_id=7, epoch=2)]


def test_a_request_to_stop_stops_the_job() -> None:
    job = FakeJob(last=1_000)
    stop = threading.Event()
    stop.set()
    assert follow(job, follower_of(job), stop)
    assert job.stopped


def test_what_the_job_failed_with_is_raised() -> None:
    job = FakeJob(last=3, error=ValueError("bad"))
    with pytest.raises(ValueError, match="bad"):
        follow(job, follower_of(job), threading.Event())


@pytest.mark.parametrize(
    "event",
    [
        Started(job="flights", generation=1, epoch=1),
        EpochSealed(epoch=2, records=3, seconds=0.1, keys=4, state_rows=5, spark_jobs=6),
        CheckpointCompleted(checkpoint_id=1, epoch=2),
        Finished(stopped=True, epoch=3, spark_jobs=1),
        Failed(error="FencedError", message="m", action="a"),
    ],
)
def test_an_event_is_one_line_and_comes_back(event: AnyEvent) -> None:
    line = encode_event(event)
    assert line.count(b"\n") == 1
    assert decode_event(line) == event


@pytest.mark.parametrize("line", [b"", b"text\n", b'{"event":"later"}\n', b'{"event":"started"}\n', b"\xff\n"])
def test_other_lines_are_skipped(line: bytes) -> None:
    assert decode_event(line) is None


def test_an_unknown_job_fails_by_name_before_anything_starts() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lakestate.runner", "nosuch", "--root", "unused"], capture_output=True, check=False
    )
    event = decode_event(done.stdout)
    assert done.returncode == 1
    assert isinstance(event, Failed)
    assert event.error == "JobDefinitionError"
    assert "'nosuch'" in event.message
    assert event.action


ASKED = """
import sys
import state_engine.spark
import typer
from lakestate import runner
from state_engine.errors import LakestateError

class Job:
    def start(self, *, cancelled, **asked):
        raise LakestateError(f"{asked}, cancelled: {cancelled()}")

def session(kind):
    return lambda *given, **more: print(kind, given, sorted(more.items()), file=sys.stderr)

runner.load_job = lambda name: lambda spark, root, options: Job()
state_engine.spark.local_session, state_engine.spark.cluster_session = session("local"), session("cluster")
app = typer.Typer()
app.command()(runner.run)
app()
"""


def test_a_start_gets_the_arguments_of_the_command_line(tmp_path: Path) -> None:
    wanted: dict[str, Any] = {
        "restore": "sp-1",
        "uid_mapping": {"a": "b", "c": "d"},
        "max_parallelism": 128,
        "parallelism": 3,
    }
    wanted |= {"allow_non_restored_state": True, "keep_output": True, "adopt_sinks": True, "strict": True}
    event, said = asked(tmp_path, StartRequest(**wanted, allow_changed_sources=(0, 2), cores="3"))
    for name, value in {**wanted, "allow_changed_sources": [0, 2], "available_now": False}.items():
        assert f"'{name}': {value!r}" in event.message
    assert event.message.endswith("cancelled: False")
    assert "local ('lakestate-flights', '3') [('connectors', ()), ('extra', {})]" in said


def asked(root: Path, request: StartRequest) -> tuple[Failed, str]:
    """Returns how a runner ends that has neither Spark nor a job, and what it said of its session."""
    command = [sys.executable, "-c", ASKED, *runner_command("flights", root, request)[3:]]
    done = subprocess.run(command, capture_output=True, check=False)
    event = decode_event(done.stdout)
    assert isinstance(event, Failed)
    return event, done.stderr.decode()


def test_a_session_on_a_cluster_gets_its_settings(tmp_path: Path) -> None:
    cluster: Any = {"master": "spark://host:7077", "python": "/opt/python", "environment": "/env.tar.gz"}
    _, said = asked(tmp_path, StartRequest(**cluster, conf={"spark.executor.memory": "4g"}))
    more = [
        ("connectors", ()),
        ("environment", "/env.tar.gz"),
        ("extra", {"spark.executor.memory": "4g"}),
        ("python", "/opt/python"),
    ]
    assert f"cluster ('spark://host:7077', 'lakestate-flights') {more}" in said


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"master": "local[4]"}, "is no cluster"),
        ({"master": ""}, "is no cluster"),
        ({"cores": "many"}, "no number of task slots"),
        ({"python": "/opt/python"}, "`--python` is for a cluster"),
        ({"environment": "/env.tar.gz"}, "`--environment` is for a cluster"),
        ({"master": "yarn", "cores": "4"}, "for a session on this machine"),
        ({"master": "yarn", "environment": "env.tar.gz"}, "is relative"),
        ({"conf": {"spark.master": "local[4]"}}, "spark.master is not set by"),
        ({"conf": {"spark.pyspark.python": "python3"}}, "spark.pyspark.python is not set by"),
        ({"conf": {"spark.hadoop.fs.s3a.secret.key": "x"}}, "seems to be a secret"),
    ],
)
def test_settings_of_a_session_that_do_not_fit_are_refused_before_anything_starts(
    tmp_path: Path, settings: dict[str, Any], told: str
) -> None:
    event, said = asked(tmp_path, StartRequest(**settings))
    assert event.error == "SessionError"
    assert told in event.message
    assert event.action
    assert "lakestate-flights" not in said
    assert not list(tmp_path.iterdir())


def test_a_job_that_is_held_is_refused_before_spark_starts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lakestate.runner", "flights", "--root", str(tmp_path)]
    with holding(str(tmp_path), "flights", "program"):
        done = subprocess.run(command, capture_output=True, check=False)
    event = decode_event(done.stdout)
    assert isinstance(event, Failed)
    assert event.error == "JobAlreadyRunningError"
    assert f"Process {os.getpid()} (program) holds" in event.message
