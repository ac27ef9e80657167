"""What a run of `<job>/restored_state` does, apart from Dagster's side of it: finds, validates, restores.

Everything that can be refused is refused before anything is written. A part is one manifest of the job; a whole is one
new generation: a run that dies in between has restored all that it was asked for, or nothing.
"""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import dagster as dg
import msgspec

from lakestate.assets.failures import refused
from lakestate.assets.ranges import Chosen, key_groups_of
from lakestate.assets.restore_metadata import refusals_table
from lakestate.assets.savepoint_metadata import recorded_savepoints
from lakestate.job_code import operators_of_code
from lakestate.resources import JobControlResource, RestClientResource, StateStoreResource
from lakestate.supervision import Condition, Heartbeat
from state_engine.errors import LakestateError, NothingToRestoreError
from state_engine.inspect import list_jobs
from state_engine.key_groups import KeyGroupRange
from state_engine.log.records import Manifest
from state_engine.savepoint import KeyGroupRestore, resolve_restore, restore_key_groups, validate_savepoint
from state_engine.savepoint.restore import JobRestore
from state_engine.savepoint.restore_report import WholeRestore
from state_engine.savepoint.selection import joined
from state_engine.storage.job_lock import holding

_POLL_S = 0.5
_FINDINGS = 20
_START_S = 600.0


class RestartError(LakestateError):
    """A job that was stopped to be restored does not run again."""


class Restoring:
    """One restore of one job from one savepoint.

    Args:
        job: Name of the job.
        state_store: Where its state is.
        rest_client: Asks its process, if it runs.
        job_control: Stops and starts it, for a restore of the whole job.
        log: Of the run.
    """

    def __init__(
        self,
        job: str,
        state_store: StateStoreResource,
        rest_client: RestClientResource,
        job_control: JobControlResource,
        log: Any,
    ) -> None:
        self._job, self._root = job, state_store.root
        self._state_store, self._rest_client, self._job_control = state_store, rest_client, job_control
        self._log = log

    def find(self, instance: dg.DagsterInstance, partition: str) -> str:
        """Returns the id of the savepoint that a partition stands for.

        Raises:
            Failure: There is none, or it is another job's.
        """
        for recorded in recorded_savepoints(instance, self._job, partitions=[partition]):
            return recorded.savepoint_id
        if partition in self._ids_of(self._job):
            return partition
        found = self._state_store.find_savepoint(self._job, partition)
        if found is not None:
            return found.savepoint_id
        owner = self._owner_of(partition)
        if owner is not None:
            raise refused(
                f"Savepoint {partition!r} is one of job {owner!r}, not of {self._job!r}.",
                action=f"Choose a savepoint of {self._job!r}. State of another job comes by "
                f"`lakestate restore {self._job} --from {owner}/{partition}`.",
            )
        raise refused(
            f"Partition {partition!r} has no savepoint: it was never taken, or it was removed.",
            action=f"Materialise {self._job}/savepoint for it first, or choose another one.",
        )

    def _owner_of(self, savepoint_id: str) -> str | None:
        others = (summary.job for summary in list_jobs(self._root) if summary.job != self._job)
        return next((other for other in others if savepoint_id in self._ids_of(other)), None)

    def _ids_of(self, job: str) -> set[str]:
        return self._state_store.open_job(job).savepoint_ids()

    def validate(self, savepoint_id: str) -> None:
        """Reads the savepoint whole.

        Raises:
            Failure: It is damaged.
        """
        report = validate_savepoint(self._root, self._job, savepoint_id)
        if report.ok:
            self._log.info(f"Savepoint {savepoint_id} is sound: {report.files} files, {report.rows:,} rows of its log.")
            return
        first = report.findings[0]
        more = f", and {len(report.findings) - 1} more" if len(report.findings) > 1 else ""
        failure = refused(
            f"Savepoint {savepoint_id} is damaged, so nothing was restored: {first}{more}.",
            action="Choose another savepoint.",
        )
        found = [(finding.path, finding.problem, "") for finding in report.findings[:_FINDINGS]]
        raise dg.Failure(
            failure.description, metadata={**failure.metadata, "findings": refusals_table(found)}, allow_retries=False
        )

    def key_groups(self, savepoint_id: str, chosen: Chosen) -> tuple[tuple[KeyGroupRange, ...], int]:
        """Returns the key groups that were chosen, in as few ranges as there can be, and how many the savepoint has."""
        manifest = resolve_restore(self._root, self._job, savepoint_id).stored.manifest
        number = _max_parallelism(manifest)
        found = (key_groups_of(index, number) for index in chosen.ranges)
        return joined(one for one in found if one.size), number

    @property
    def is_running(self) -> bool:
        """Whether a process holds the job."""
        return self._rest_client.is_running(self._job)

    # A part ----------------------------------------------------------------------------------------------------------

    def restore_part(
        self, savepoint_id: str, groups: Sequence[KeyGroupRange], operators: Sequence[str] | None, *, dry_run: bool
    ) -> KeyGroupRestore:
        """Replaces key groups; a running job does so between two epochs.

        Raises:
            LakestateError: It is refused, or it failed; nothing of it is there then.
        """
        ranges = [(first, last) for first, last in groups]
        if self.is_running:
            return self._rest_client.restore_key_groups(
                self._job, savepoint_id, ranges, operators=operators, dry_run=dry_run
            )
        with nullcontext() if dry_run else holding(self._root, self._job, "restore"):
            return restore_key_groups(self._root, self._job, savepoint_id, ranges, uids=operators, dry_run=dry_run)

    # The whole -------------------------------------------------------------------------------------------------------

    def plan_whole(self, savepoint_id: str, **asked: Any) -> WholeRestore:
        """Says what a restore of the whole job would do; reads all state, and writes nothing.

        Raises:
            Failure: It would be refused; all reasons are told.
        """
        report = self._whole(savepoint_id, **asked).plan()
        if report.refusals:
            first = report.refusals[0]
            told = [(one.error, one.message, one.action) for one in report.refusals]
            raise dg.Failure(
                f"{first.error}: {first.message}",
                metadata={"action": first.action, "refusals": refusals_table(told)},
                allow_retries=False,
            )
        return report

    def restore_stopped(self, savepoint_id: str, **asked: Any) -> WholeRestore:
        """Takes a stopped job back; its next start goes on from there.

        Raises:
            LakestateError: It is refused, or it failed.
        """
        with holding(self._root, self._job, "restore"):
            return self._whole(savepoint_id, validate=False, **asked).run()  # validated by the run

    def restore_running(self, savepoint_id: str, plan: WholeRestore, *, parallelism: int | None = None) -> WholeRestore:
        """Stops a running job and starts it from the savepoint, with the rest as it was started before.

        The start restores: it asks the code, and its claim is the restore. If it fails the job is started again from
        where it stood. If this run dies on the way, the health sensor goes on with the restore.

        Raises:
            Failure: Nobody knows how the job was started.
            RestartError: The start from the savepoint failed.
        """
        seen = self._job_control.status(self._job)
        if seen.wanted is None or seen.wanted.state != "running":
            raise refused(
                f"Process {seen.pid} runs job {self._job!r}, and nobody knows how it was started, so it cannot be "
                "stopped and started again.",
                action=f"Stop it (`lakestate stop {self._job}`), then launch this again; or start it by `lakestate "
                "start` or Dagster from now on.",
            )
        again = seen.wanted.request.restored()
        self._log.info(f"Stop {self._job}, which is at epoch {seen.generation}/{seen.epoch}.")
        anew = msgspec.structs.replace(again, restore=savepoint_id, parallelism=parallelism or again.parallelism)
        self._job_control.replace(self._job, anew)
        ended = self._await_generation(seen.generation)
        if ended.generation <= seen.generation:
            self._job_control.replace(self._job, again)  # also what a health sensor may have tried meanwhile
            raise RestartError(
                f"Job {self._job!r} did not start from savepoint {savepoint_id}: {ended.last_words.cause} It was "
                "started again from where it stood.",
                action="Correct what it says, or restore ranges of key groups without `rewind`.",
            )
        newest = self._state_store.open_job(self._job).newest()
        assert newest is not None
        first = newest.manifest.lineage[-1]
        return msgspec.structs.replace(plan, sealed=(first.generation, first.first))

    def _await_generation(self, before: int) -> Heartbeat:
        """Waits until the start has sealed the first epoch of a new generation, or has ended."""
        until = time.monotonic() + _START_S
        while True:
            seen = self._job_control.status(self._job)
            is_under_way = seen.condition in (Condition.STARTING, Condition.RUNNING)
            if seen.generation > before or not is_under_way or time.monotonic() > until:
                return seen
            time.sleep(_POLL_S)

    def _whole(self, savepoint_id: str, *, validate: bool = False, **asked: Any) -> JobRestore:
        from state_engine.spark.sinks.recorded import RecordedSinks

        return JobRestore(
            self._root,
            self._job,
            savepoint_id,
            RecordedSinks,
            operators_of=operators_of_code(self._job, self._root),
            validate=validate,
            **asked,
        )


def _max_parallelism(manifest: Manifest) -> int:
    """All operators of a job have the same number of key groups."""
    if not manifest.operators:
        raise NothingToRestoreError(
            f"Epoch {manifest.epoch} of job {manifest.job!r} has no operators.", action="Choose another savepoint."
        )
    return max(operator.max_parallelism for operator in manifest.operators.values())


__all__ = ["RestartError", "Restoring"]
