"""Implements the port `JobControl` for a job that a `JobClient` of this process runs."""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakestate.failure_facts import facts_of
from lakestate.rest.end_requests import EndRequest, EndRequests, JobEndedError
from lakestate.rest.ids import job_id
from lakestate.rest.job_port import (
    NO_END,
    CheckpointSettings,
    JobFailure,
    JobStatus,
    JobView,
    SavepointRequest,
    SourceView,
)
from lakestate.rest.operators import OperatorCounts
from lakestate.rest.savepoints import JobSavepoints, checked_directory
from state_engine.api.checkpoint_config import CheckpointingMode, ExternalizedCheckpointRetention
from state_engine.api.checkpoint_storage import DeltaCheckpointStorage
from state_engine.causes import report_of
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.checkpoint.statistics import CheckpointStatistics, statistics_of
from state_engine.checkpoint.table import CheckpointTable
from state_engine.savepoint import RangeWriter
from state_engine.savepoint.group_report import KeyGroupRestore
from state_engine.savepoint.retain import Retained, retain
from state_engine.savepoint.stop import stop_with_savepoint
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables


class ClientControl:
    """Implements `JobControl`, and ends the job on the thread that calls `serve`.

    A job counts as ended once that thread calls `ended`, when no part of it can write any more. Until then its Spark
    query may have ended, and the job is `CANCELLING` or `FAILING`.

    Args:
        job: The `StreamJob`.
        client: The `JobClient` that it was started with.
        now_ms: Returns the current time.
        writer: Folds canonical savepoints; by default this process does.
    """

    def __init__(self, job: Any, client: Any, now_ms: Callable[[], int], *, writer: RangeWriter | None = None) -> None:
        self._job = job
        self._client = client
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._savepoints = JobSavepoints(job.root, job.name, writer)
        self._counts = OperatorCounts(job.operators, client.head.manifest.epoch)
        self._ends = EndRequests(job.name)
        self._ending: JobStatus | None = None
        self._final: JobStatus | None = None
        self._failures: list[JobFailure] = []
        self._start_ms = now_ms()
        self._since: dict[JobStatus, int] = {"CREATED": self._start_ms, "RUNNING": self._start_ms}

    @property
    def job_id(self) -> str:
        return job_id(self._job.name)

    # Looks ---------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Counts what has been sealed since the last look."""
        with self._lock:
            self._counts.look(self._client)

    def view(self) -> JobView:
        self.look()
        now, state, head = self._now_ms(), self.state, self._client.head.manifest
        ended = self._final is not None
        sources = () if ended else tuple(SourceView(*lag) for lag in self._client.source_lags())
        with self._lock:
            self._since.setdefault(state, now)
            return JobView(
                job_id=self.job_id,
                name=self._job.name,
                state=state,
                start_ms=self._start_ms,
                end_ms=NO_END if self._final is None else self._since[self._final],
                now_ms=now,
                changed_ms=max(self._since.values()),
                since_ms=dict(self._since),
                incarnation=head.incarnation,
                generation=head.generation,
                epoch=head.epoch,
                epochs=self._counts.epochs,
                records=self._counts.records,
                epoch_seconds=self._counts.seconds,
                retries=self._counts.retries,
                operators=self._counts.operators(head),
                sources=sources,
            )

    @property
    def state(self) -> JobStatus:
        """The state of the job, in Flink's words."""
        if self._final is not None:
            return self._final
        state: JobStatus = self._client.state
        passing: dict[JobStatus, JobStatus] = {"FAILED": "FAILING", "CANCELED": "CANCELLING", "FINISHED": "RUNNING"}
        return self._ending or passing.get(state, state)

    def settings(self) -> CheckpointSettings:
        config = self._job.settings.checkpoint_config
        exactly_once = config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
        retention = config.get_externalized_checkpoint_retention()
        return CheckpointSettings(
            mode="exactly_once" if exactly_once else "at_least_once",
            interval_ms=config.get_checkpoint_interval() if config.is_checkpointing_enabled() else None,
            timeout_ms=config.get_checkpoint_timeout(),
            min_pause_ms=config.get_min_pause_between_checkpoints(),
            max_concurrent=config.get_max_concurrent_checkpoints(),
            tolerable_failures=config.get_tolerable_checkpoint_failure_number(),
            deleted_on_cancellation=retention is not ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
            storage=type(config.get_checkpoint_storage() or DeltaCheckpointStorage()).__name__,
        )

    def checkpoints(self) -> CheckpointStatistics:
        storage = open_storage(self._job.root, self._job.name)
        rows = CheckpointTable(storage, open_tables(storage)).rows()
        pending = self._client.checkpoints_under_way if self._final is None else ()
        return statistics_of(rows, pending)

    def failures(self) -> Sequence[JobFailure]:
        return tuple(reversed(self._failures))

    def location_of(self, place: str) -> str:
        return self._savepoints.location_of(place)

    def savepoint_location(self, savepoint_id: str) -> str | None:
        return self._savepoints.location_of_savepoint(savepoint_id)

    # Operations ------------------------------------------------------------------------------------------------------

    def trigger_checkpoint(self, *, full: bool) -> int:
        checkpoint: int = self._client.trigger_checkpoint(full=full).result()
        return checkpoint

    def rescale(self, parallelism: int | Mapping[str, int]) -> int:
        epoch: int = self._client.rescale(parallelism).result()
        return epoch

    def trigger_interval_ms(self) -> int:
        interval_ms: int = self._client.trigger_interval_ms
        return interval_ms

    def set_trigger_interval_ms(self, interval_ms: int) -> None:
        if self.state != "RUNNING":
            raise JobEndedError(f"Job {self._job.name!r} is {self.state}.")
        self._client.trigger_interval_ms = interval_ms

    def restore_key_groups(
        self,
        source: str,
        ranges: Sequence[tuple[int, int]] | None,
        keys: Sequence[Any] | None,
        uids: Sequence[str] | None,
        *,
        dry_run: bool,
    ) -> KeyGroupRestore:
        report: KeyGroupRestore = self._client.restore_key_groups(source, ranges, keys=keys, uids=uids, dry_run=dry_run)
        return report

    def trigger_savepoint(self, request: SavepointRequest) -> str:
        return self._savepoints.trigger(_checked(request))

    def stop(self, request: SavepointRequest, *, drain: bool, cancel: bool = False) -> str:
        end_request = self._ends.ask("CANCELED" if cancel else "FINISHED", request, drain=drain)
        location = end_request.result()
        assert location is not None
        return location

    def cancel(self) -> None:
        self._ends.ask("CANCELED")

    def retain(self, policy: RetentionPolicy, *, dry_run: bool) -> Retained:
        return retain(self._job.root, self._job.name, policy, dry_run=dry_run)

    def dispose(self, location: str) -> bool:
        return self._savepoints.dispose(location)

    # The thread that the job belongs to ------------------------------------------------------------------------------

    def serve(self) -> bool:
        """Carries out the queued requests; returns whether one of them has ended the job."""
        return self._ends.serve(self)

    def carry_out(self, request: EndRequest) -> bool:
        """Ends the job, with a savepoint if one is requested; returns whether it has ended."""
        if self._client.state != "RUNNING":
            request.done.set_exception(self._ends.refusal())
            return False
        try:
            location = self._end(request)
        except Exception as error:
            over: bool = self._client.state != "RUNNING"
            if over:
                self.ended(error)
            else:
                self._ending = None
                self._note(error)
            request.done.set_exception(error)
            return over
        self._finish(request.final)
        request.done.set_result(location)
        return True

    def _end(self, request: EndRequest) -> str | None:
        if request.savepoint is None:
            self._ending = "CANCELLING"
            self._client.cancel()
            return None
        end = self._client.cancel if request.final == "CANCELED" else self._client.stop
        return stop_with_savepoint(end, self._savepoints.trigger, _checked(request.savepoint), drain=request.drain)

    def ended(self, error: BaseException | None = None) -> None:
        """Records that the job has ended by itself, or because its process was told to end it."""
        if self._final is not None:
            return
        if error is not None:
            self._note(error)
        state: JobStatus = self._client.state
        with contextlib.suppress(Exception):
            self.look()
        self._finish("FAILED" if error is not None else "CANCELED" if state == "RUNNING" else state)

    def _finish(self, state: JobStatus) -> None:
        self._final = state
        self._since.setdefault(state, self._now_ms())
        self._ends.refuse()

    def _note(self, error: BaseException) -> None:
        self._failures.append(JobFailure(self._now_ms(), report_of(error), facts_of(error)))


def _checked(request: SavepointRequest) -> SavepointRequest:
    """Returns the request after checking that its directory means the same to this process and to the client."""
    return (
        request._replace(directory=checked_directory(request.directory)) if request.directory is not None else request
    )


__all__ = ["ClientControl"]
