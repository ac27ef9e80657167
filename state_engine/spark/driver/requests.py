"""What a running job may be asked for that takes effect with an epoch, or between two."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from state_engine.checkpoint.pending import PendingCheckpoint
from state_engine.checkpoint.requests import CheckpointRequest
from state_engine.epoch.driver import EpochDriver
from state_engine.epoch.rescale import RescaleRequest
from state_engine.errors import FencedError, StopRequestedError
from state_engine.log.manifest import StoredManifest
from state_engine.savepoint import KeyGroupRestore
from state_engine.savepoint.group_restore import GroupRestorer
from state_engine.savepoint.selection import Groups, selection_of
from state_engine.spark.driver.checkpoint_future import CheckpointFuture
from state_engine.spark.driver.rescale_future import RescaleFuture
from state_engine.spark.driver.startup import Started
from state_engine.spark.graph.definition import JobDefinition

JobState = Literal["CREATED", "RUNNING", "FINISHED", "FAILED", "CANCELED"]


class JobRequests(ABC):
    """A checkpoint, another parallelism, the state of some key groups: the part of a client that asks for these."""

    _job: JobDefinition
    _started: Started
    _driver: EpochDriver

    @property
    @abstractmethod
    def state(self) -> JobState:
        """Where the job stands."""

    @abstractmethod
    def _record(self, run: Callable[[], StoredManifest]) -> StoredManifest:
        """Seals a manifest and notes it as progress."""

    def trigger_checkpoint(self, *, full: bool = False) -> CheckpointFuture:
        """Asks for a checkpoint with the next epoch, which comes soon, with or without input.

        Args:
            full: Fold the state from scratch, whatever the last checkpoint left.

        Returns:
            How it ends; whoever does not care need not look.
        """
        future = CheckpointFuture(self._job.name)
        self._started.coordinator.request(CheckpointRequest(full=full, tell=future.tell))
        return future

    @property
    def parallelism(self) -> dict[str, int]:
        """How many subtasks each operator has, by uid: in the newest epoch, or in the first if none is sealed yet."""
        return {operator.uid: operator.parallelism for operator in self._driver.operators}

    def rescale(self, parallelism: int | Mapping[str, int]) -> RescaleFuture:
        """Gives the running job another parallelism with its next epoch, which comes soon, with or without input.

        Nothing is restarted: the subtasks of that epoch take over the key groups that are then theirs. Starts keep the
        new parallelism as long as the job's definition says what it says now, or until a start names another.

        Args:
            parallelism: Of all operators, or of some by uid. Operators that share a task, or read one operator, have
                one parallelism: to name one of them is to name all.

        Returns:
            What is done when an epoch is sealed with it; whoever does not care need not look.

        Raises:
            RescaleError: A number is below 1 or above max parallelism, a uid is unknown, or operators that share one
                parallelism would differ. Nothing changes.
        """
        future = RescaleFuture(self._job.name)
        wanted = dict(parallelism) if isinstance(parallelism, Mapping) else parallelism
        self._driver.rescale(RescaleRequest(wanted, future.tell))
        return future

    @property
    def checkpoints_under_way(self) -> Sequence[PendingCheckpoint]:
        """The checkpoints that have begun and not ended, oldest first."""
        return self._started.coordinator.pending

    def restore_key_groups(
        self,
        source: str,
        ranges: Iterable[Groups] | None = None,
        *,
        uids: Iterable[str] | None = None,
        keys: Iterable[Any] | None = None,
        dry_run: bool = False,
        cancelled: Callable[[], bool] | None = None,
    ) -> KeyGroupRestore:
        """Replaces the state of some key groups, or of some keys, between two epochs of the running job.

        All keyed states and timers of a chosen operator move together. Input that was read since the source's epoch is
        not read again for them, and sinks keep what they have; the next epoch stands on the replaced state.

        Args:
            source: A savepoint's id, `checkpoint:<id>`, `epoch:<generation>/<epoch>`, or `<job>/<savepoint id>`.
            ranges: Key groups by number, or as (first, last), both inclusive.
            uids: Operators; all with keyed state by default.
            keys: In place of `ranges`: values of the key columns in tuples, of a single column also bare.
            dry_run: Say what would happen, and write nothing.
            cancelled: Asked now and then until the manifest is put; once it says True the restore ends, without a
                trace.

        Returns:
            What happened, or would happen; rows were counted just before.

        Raises:
            NothingToRestoreError: The source does not exist.
            RestoreError: It is refused, as its class and message say; nothing was written and the job goes on.
            RestoreCancelledError: It was cancelled.
            StopRequestedError: The job is stopping, or has ended.
            FencedError: Another driver owns the job.
        """
        if not dry_run and self.state != "RUNNING":
            raise StopRequestedError(
                f"Job {self._job.name!r} does not run any more.",
                action="Use state_engine.savepoint.restore_key_groups, which is for stopped jobs.",
            )
        restorer = GroupRestorer(
            self._job.root, self._job.name, source, selection_of(ranges, keys, uids), cancelled=cancelled
        )
        if dry_run:
            return restorer.plan(self._driver.head)
        with restorer.kept():
            report = restorer.plan(self._driver.head)  # outside the lock: reading both sides may take its time
            try:
                sealed = self._record(lambda: self._driver.restore_groups(restorer.write)).manifest
            except FencedError:
                restorer.discard()
                raise
        return replace(report, sealed=(sealed.generation, sealed.epoch))


__all__ = ["JobRequests", "JobState"]
