"""What the REST server needs of a running job: the port `JobControl`, and the records that it returns."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from lakestate.failure_facts import FailureFacts
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.checkpoint.statistics import CheckpointStatistics
from state_engine.savepoint.group_report import KeyGroupRestore
from state_engine.savepoint.request import SavepointRequest
from state_engine.savepoint.retain import Retained

JobStatus = Literal["CREATED", "RUNNING", "FAILING", "FAILED", "CANCELLING", "CANCELED", "FINISHED"]

NO_END = -1
"""The end of a job that runs, in ms; Flink's."""


class Operator(NamedTuple):
    """An operator in the newest epoch of its job: the records it read and wrote there, and the size of its state."""

    uid: str
    parallelism: int
    max_parallelism: int
    upstream: tuple[str, ...]
    records_in: int
    records_out: int
    state_rows: int
    keys: int
    watermark_ms: int | None


class SourceView(NamedTuple):
    """A source, as of the moment when the last batch was planned; the figures are null where they are not known.

    Attributes:
        name: Its name.
        lag_records: How many records it had beyond the job's position.
        lag_seconds: How long before the process first saw a record that was still not read.
    """

    name: str
    lag_records: int | None
    lag_seconds: float | None


class JobView(NamedTuple):
    """A job at one moment. Times are ms since the Unix epoch, `end_ms` is -1 while it runs.

    `epochs`, `records` (read from sources), `epoch_seconds` and `retries` (of epochs) are sums since this process
    started the job.
    """

    job_id: str
    name: str
    state: JobStatus
    start_ms: int
    end_ms: int
    now_ms: int
    changed_ms: int
    since_ms: dict[JobStatus, int]
    incarnation: str
    generation: int
    epoch: int
    epochs: int
    records: int
    epoch_seconds: float
    operators: tuple[Operator, ...]
    sources: tuple[SourceView, ...] = ()
    retries: int = 0


class JobFailure(NamedTuple):
    """What a job, or an attempt to stop it with a savepoint, failed with; `text` is the report for people."""

    at_ms: int
    text: str
    facts: FailureFacts


class CheckpointSettings(NamedTuple):
    """How a job's checkpoints are configured; times in ms."""

    mode: Literal["exactly_once", "at_least_once"]
    interval_ms: int | None
    timeout_ms: int
    min_pause_ms: int
    max_concurrent: int
    tolerable_failures: int
    deleted_on_cancellation: bool
    storage: str = "DeltaCheckpointStorage"


class JobControl(Protocol):
    """A job that runs in this process, or has just ended in it. All methods may be called from any thread."""

    @property
    def job_id(self) -> str:
        """Flink's id of the job."""
        ...

    def view(self) -> JobView:
        """Returns the job at the current moment."""
        ...

    def settings(self) -> CheckpointSettings:
        """Returns how its checkpoints are configured."""
        ...

    def checkpoints(self) -> CheckpointStatistics:
        """Returns the statistics of its checkpoints."""
        ...

    def failures(self) -> Sequence[JobFailure]:
        """Returns what it failed with, newest first."""
        ...

    def location_of(self, place: str) -> str:
        """Returns the address of a folder or file of the job."""
        ...

    def savepoint_location(self, savepoint_id: str) -> str | None:
        """Returns the address of a savepoint; null if it was disposed of."""
        ...

    def trigger_checkpoint(self, *, full: bool) -> int:
        """Takes a checkpoint and returns its id.

        Raises:
            LakestateError: It failed, or the job has ended.
        """
        ...

    def rescale(self, parallelism: int | Mapping[str, int]) -> int:
        """Gives all operators, or some by uid, another parallelism and returns the first epoch that has it.

        Raises:
            LakestateError: The job cannot have this parallelism, or has ended.
        """
        ...

    def trigger_interval_ms(self) -> int:
        """Returns the time between the beginnings of two epochs with input."""
        ...

    def set_trigger_interval_ms(self, interval_ms: int) -> None:
        """Sets that time until the job's end.

        Raises:
            JobEndedError: The job has ended, or is ending.
        """
        ...

    def restore_key_groups(
        self,
        source: str,
        ranges: Sequence[tuple[int, int]] | None,
        keys: Sequence[Any] | None,
        uids: Sequence[str] | None,
        *,
        dry_run: bool,
    ) -> KeyGroupRestore:
        """Replaces the state of some key groups, or of some keys, between two epochs.

        Args:
            source: Any source of a restore, such as a savepoint id.
            ranges: Key groups, first and last inclusive.
            keys: In place of `ranges`: tuples of the key columns' values; a single column's value also without a tuple.
            uids: Operators; null for all with keyed state.
            dry_run: Report what would happen, and write nothing.

        Raises:
            LakestateError: It is refused, or the job has ended.
        """
        ...

    def trigger_savepoint(self, request: SavepointRequest) -> str:
        """Takes a savepoint and returns its location.

        Raises:
            LakestateError: It failed.
        """
        ...

    def stop(self, request: SavepointRequest, *, drain: bool, cancel: bool = False) -> str:
        """Ends the job with a savepoint and returns its location. If the savepoint fails, the job goes on.

        Args:
            request: Which savepoint.
            drain: End the input first: the last watermark passes all operators.
            cancel: The job then counts as cancelled, and not as finished.

        Raises:
            LakestateError: There is no savepoint; the job goes on, or had ended before.
        """
        ...

    def cancel(self) -> None:
        """Asks the job to end after the current epoch, and does not wait.

        Raises:
            LakestateError: It has ended.
        """
        ...

    def retain(self, policy: RetentionPolicy, *, dry_run: bool) -> Retained:
        """Deletes what the policy does not keep and nothing else needs.

        Args:
            policy: What is kept.
            dry_run: Report what would be deleted, and change nothing.

        Raises:
            LakestateError: A file is damaged, or the storage does not answer.
        """
        ...

    def dispose(self, location: str) -> bool:
        """Removes the savepoint at a location; returns whether it is one of this job's.

        Raises:
            LakestateError: It is one of this job's, but cannot be removed.
        """
        ...


__all__ = [
    "NO_END",
    "CheckpointSettings",
    "JobControl",
    "JobFailure",
    "JobStatus",
    "JobView",
    "Operator",
    "Retained",
    "SavepointRequest",
    "SourceView",
]
