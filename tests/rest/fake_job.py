"""A job without an engine, for handlers: operations wait for `let_go`, then return or raise what a test has set."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient

from lakestate.rest.app import make_app
from lakestate.rest.calls import Cluster
from lakestate.rest.end_requests import JobEndedError
from lakestate.rest.guard import Guard
from lakestate.rest.ids import job_id
from lakestate.rest.job_port import (
    CheckpointSettings,
    JobFailure,
    JobStatus,
    JobView,
    Operator,
    SavepointRequest,
    SourceView,
)
from lakestate.rest.operations import Operations
from state_engine.checkpoint.retention.decision import Removal
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.checkpoint.retention.savepoints import Disposal
from state_engine.checkpoint.retention.steps import RetentionPlan, RetentionReport
from state_engine.checkpoint.statistics import CheckpointStatistics, statistics_of
from state_engine.checkpoint.table import CheckpointRow
from state_engine.log.records import Origin
from state_engine.savepoint.group_report import KeyGroupRestore
from state_engine.savepoint.retain import Retained

NOW = 1_700_000_060_000
START = 1_700_000_000_000


class FakeJob:
    """Records its requests; returns `answer` or raises `error`, once `let_go` is set."""

    def __init__(self, name: str = "orders") -> None:
        self.name = name
        self.state: JobStatus = "RUNNING"
        self.asked: list[tuple[Any, ...]] = []
        self.answer: Any = "file:/state/orders/_savepoints/sp-1"
        self.error: Exception | None = None
        self.let_go = threading.Event()
        self.let_go.set()
        self.disposed: set[str] = set()
        self.rows: list[CheckpointRow] = []
        self.problems: list[JobFailure] = []
        self.interval_ms = 1_000

    @property
    def job_id(self) -> str:
        return job_id(self.name)

    def view(self) -> JobView:
        ended = self.state in ("FAILED", "CANCELED", "FINISHED")
        return JobView(
            job_id=self.job_id,
            name=self.name,
            state=self.state,
            start_ms=START,
            end_ms=NOW if ended else -1,
            now_ms=NOW,
            changed_ms=START,
            since_ms={"RUNNING": START},
            incarnation="abc",
            generation=2,
            epoch=17,
            epochs=7,
            records=700,
            epoch_seconds=3.5,
            retries=2,
            operators=(
                Operator("count", 2, 128, (), 100, 90, 40, 23, NOW - 2_000),
                Operator("total", 3, 128, ("count",), 90, 10, 5, 5, None),
            ),
            sources=(SourceView("clicks", 42, 61.5), SourceView("files", None, None)),
        )

    def settings(self) -> CheckpointSettings:
        return CheckpointSettings("exactly_once", None, 600_000, 0, 1, 0, False)

    def checkpoints(self) -> CheckpointStatistics:
        return statistics_of(self.rows)

    def failures(self) -> Sequence[JobFailure]:
        return self.problems

    def location_of(self, place: str) -> str:
        return f"file:/state/{self.name}/{place}"

    def savepoint_location(self, savepoint_id: str) -> str | None:
        return None if savepoint_id in self.disposed else f"s3://kept/{savepoint_id}"

    def _operation(self, *asked: Any) -> Any:
        self.asked.append(asked)
        assert self.let_go.wait(10)
        if self.error is not None:
            raise self.error
        return self.answer

    def trigger_checkpoint(self, *, full: bool) -> int:
        return int(self._operation("checkpoint", full))

    def rescale(self, parallelism: int | Mapping[str, int]) -> int:
        return int(self._operation("rescale", parallelism))

    def trigger_interval_ms(self) -> int:
        return self.interval_ms

    def set_trigger_interval_ms(self, interval_ms: int) -> None:
        if self.state != "RUNNING":
            raise JobEndedError(f"Job {self.name!r} is {self.state}.")
        self.interval_ms = interval_ms

    def restore_key_groups(self, source: str, ranges: Any, keys: Any, uids: Any, *, dry_run: bool) -> KeyGroupRestore:
        self._operation("key groups", source, ranges, keys, uids, dry_run)
        origin = Origin(job=self.name, generation=1, epoch=4, manifest="h", savepoint_id="sp-1")
        return KeyGroupRestore(job=self.name, source=origin, onto=17, operators=(), states=(), sealed=(2, 18))

    def trigger_savepoint(self, request: SavepointRequest) -> str:
        return str(self._operation("savepoint", *request))

    def stop(self, request: SavepointRequest, *, drain: bool, cancel: bool = False) -> str:
        location = str(self._operation("cancel" if cancel else "stop", *request, drain))
        self.state = "CANCELED" if cancel else "FINISHED"
        return location

    def cancel(self) -> None:
        self._operation("cancel")
        self.state = "CANCELED"

    def retain(self, policy: RetentionPolicy, *, dry_run: bool) -> Retained:
        self._operation("retain", policy, dry_run)
        removal = Removal("_epochs/g000001/e0000000001.json", 7, "manifest", "it is old", "checkpoints")
        gone = (Disposal("sp-1", 9),)
        plan = RetentionPlan("/state", self.name, policy, NOW, (removal,), ("sp-0",), gone, ("3", "4"), (1, 5), "h")
        report = RetentionReport(condemned=1, removed=[removal.path], bytes=7, waiting=2)
        return Retained(plan) if dry_run else Retained(plan, report, ("sp-1",))

    def dispose(self, location: str) -> bool:
        return location == self._operation("dispose", location)


@contextmanager
def client_of(*jobs: FakeJob, token: str | None = None, host: str = "127.0.0.1") -> Iterator[TestClient]:
    """Yields a client of an application with these jobs; no socket is opened."""
    operations = Operations(lambda: NOW)
    cluster = Cluster({job.job_id: job for job in jobs}, operations, lambda: NOW)
    with TestClient(make_app(cluster, Guard(host, token)), base_url="http://localhost:8081") as client:
        yield client


def result_of(client: TestClient, path: str, request_id: str) -> dict[str, Any]:
    """Polls until the operation has ended; returns its result."""
    for _ in range(1000):
        answer = client.get(f"{path}/{request_id}").json()
        if answer["status"]["id"] == "COMPLETED":
            return dict(answer)
        threading.Event().wait(0.005)
    raise AssertionError("it has not ended")
