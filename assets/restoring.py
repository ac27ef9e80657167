"""The work of a run of `<job>/restored_state`, without Dagster's side of it: finds, validates, restores.

All refusals come before anything is written. The restore of a part is one manifest of the job; that of the whole job is
one new generation. So a run that dies has restored everything that was requested, or nothing.
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
from lakestate.takeover import CONFIRMED, ensure_stopped
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
    """A job that was stopped for a restore did not start from the savepoint."""


class Restoring:
    """One restore of one job from one savepoint.

    Args:
        job: Name of the job.
        state_store: Where its state is stored.
        rest_client: Sends requests to its process, if it runs.
        job_control: Stops and starts it, for a restore of the whole job.
        log: Of the run.
        stopped: The user confirms that no process runs it.
    """

    def __init__(
        self,
        job: str,
        state_store: StateStoreResource,
        rest_client: RestClientResource,
        job_control: JobControlResource,
        log: Any,
        *,
        stopped: bool = False,
    ) -> None:
        self._job, self._root = job, state_store.root
        self._state_store, self._rest_client, self._job_control = state_store, rest_client, job_control
        self._stopped = stopped
        self._log = log

    def find(self, instance: dg.DagsterInstance, partition: str, *, key: dg.AssetKey | None = None) -> str:
        """Returns the id of the savepoint of a partition.

        Args:
            instance: Of Dagster.
            partition: The partition key.
            key: Key of the savepoints of the job; by default `<job>/savepoint`.

        Raises:
            Failure: There is none, or it belongs to another job.
        """
        for recorded in recorded_savepoints(instance, self._job, partitions=[partition], key=key):
            return recorded.savepoint_id
        if partition in self._ids_of(self._job):
            return partition
        savepoint = self._state_store.find_savepoint(self._job, partition)
        if savepoint is not None:
            return savepoint.savepoint_id
        owner = self._owner_of(partition)
        if owner is not None:
            raise refused(
                f"Savepoint {partition!r} is one of job {owner!r}, not of {self._job!r}.",
                action=f"Choose a savepoint of {self._job!r}. To restore state of another job, use "
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
        """Reads and checks the whole savepoint.

        Raises:
            Failure: It is damaged.
        """
        report = validate_savepoint(self._root, self._job, savepoint_id)
        if report.ok:
            self._log.info(f"Savepoint {savepoint_id} is sound: {report.files} files, {report.rows:,} rows of the log.")
            return
        first = report.findings[0]
        more = f", and {len(report.findings) - 1} more" if len(report.findings) > 1 else ""
        failure = refused(
            f"Savepoint {savepoint_id} is damaged, so nothing was restored: {first}{more}.",
            action="Choose another savepoint.",
        )
        rows = [(finding.path, finding.problem, "") for finding in report.findings[:_FINDINGS]]
        raise dg.Failure(
            failure.description, metadata={**failure.metadata, "findings": refusals_table(rows)}, allow_retries=False
        )

    def key_groups(self, savepoint_id: str, chosen: Chosen) -> tuple[tuple[KeyGroupRange, ...], int]:
        """Returns the chosen key groups, in as few ranges as possible, and the number of the savepoint's key groups."""
        manifest = resolve_restore(self._root, self._job, savepoint_id).stored.manifest
        number = _max_parallelism(manifest)
        ranges = (key_groups_of(index, number) for index in chosen.ranges)
        return joined(one for one in ranges if one.size), number

    @property
    def is_running(self) -> bool:
        """Whether a process holds the job."""
        return not self._stopped and self._rest_client.is_running(self._job)

    def _ensure_stopped(self) -> None:
        ensure_stopped(self._root, self._job, stopped=self._stopped, by=CONFIRMED)

    # A part ----------------------------------------------------------------------------------------------------------

    def restore_part(
        self, savepoint_id: str, groups: Sequence[KeyGroupRange], operators: Sequence[str] | None, *, dry_run: bool
    ) -> KeyGroupRestore:
        """Replaces key groups; a running job does so between two epochs.

        Raises:
            LakestateError: It is refused, or it failed; then nothing was restored.
        """
        ranges = [(first, last) for first, last in groups]
        if self.is_running:
            return self._rest_client.restore_key_groups(
                self._job, savepoint_id, ranges, operators=operators, dry_run=dry_run
            )
        if not dry_run:
            self._ensure_stopped()
        with nullcontext() if dry_run else holding(self._root, self._job, "restore"):
            return restore_key_groups(self._root, self._job, savepoint_id, ranges, uids=operators, dry_run=dry_run)

    # The whole -------------------------------------------------------------------------------------------------------

    def plan_whole(self, savepoint_id: str, **asked: Any) -> WholeRestore:
        """Returns what a restore of the whole job would do; reads all state, and writes nothing.

        Raises:
            Failure: It would be refused; the failure contains all reasons.
        """
        report = self._whole(savepoint_id, **asked).plan()
        if report.refusals:
            first = report.refusals[0]
            rows = [(one.error, one.message, one.action) for one in report.refusals]
            raise dg.Failure(
                f"{first.error}: {first.message}",
                metadata={"action": first.action, "refusals": refusals_table(rows)},
                allow_retries=False,
            )
        return report

    def restore_stopped(self, savepoint_id: str, **asked: Any) -> WholeRestore:
        """Restores a stopped job; its next start goes on from the restored epoch.

        Raises:
            LakestateError: It is refused, or it failed.
        """
        self._ensure_stopped()
        with holding(self._root, self._job, "restore"):
            return self._whole(savepoint_id, validate=False, **asked).run()  # this run has already validated it

    def restore_running(
        self,
        savepoint_id: str,
        plan: WholeRestore,
        *,
        allow_non_restored_state: bool = False,
        keep_output: bool = False,
        parallelism: int | None = None,
    ) -> WholeRestore:
        """Stops a running job and starts it from the savepoint, otherwise with the same request as before.

        The start does the restore: it checks the code, and its claim is the restore. If it fails, the job is started
        again from its newest sealed epoch. If this run dies meanwhile, the health sensor goes on with the restore.

        Raises:
            Failure: There is no record of how the job was started.
            RestartError: The start from the savepoint failed.
        """
        seen = self._job_control.status(self._job)
        if seen.wanted is None or seen.wanted.state != "running":
            raise refused(
                f"Process {seen.pid} runs job {self._job!r}, but there is no record of how it was started, so it "
                "cannot be stopped and started again.",
                action=f"Stop it (`lakestate stop {self._job}`), then launch this again; or start it by `lakestate "
                "start` or Dagster from now on.",
            )
        request = seen.wanted.request.restored()
        self._log.info(f"Stop {self._job}, which is at epoch {seen.generation}/{seen.epoch}.")
        restoring = msgspec.structs.replace(
            request,
            restore=savepoint_id,
            allow_non_restored_state=allow_non_restored_state or request.allow_non_restored_state,
            keep_output=keep_output,
            parallelism=parallelism or request.parallelism,
        )
        self._job_control.replace(self._job, restoring)
        ended = self._await_generation(seen.generation)
        if ended.generation <= seen.generation:
            self._job_control.replace(self._job, request)  # also replaces what a health sensor may have started
            raise RestartError(
                f"Job {self._job!r} did not start from savepoint {savepoint_id}: {ended.last_words.cause} It was "
                "started again from its newest sealed epoch.",
                action="Correct that cause, or restore ranges of key groups without `rewind`.",
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
    """Returns the number of key groups, which is the same for all operators of a job."""
    if not manifest.operators:
        raise NothingToRestoreError(
            f"Epoch {manifest.epoch} of job {manifest.job!r} has no operators.", action="Choose another savepoint."
        )
    return max(operator.max_parallelism for operator in manifest.operators.values())


__all__ = ["RestartError", "Restoring"]
