"""Dagster resource for the storage in which jobs keep their state."""

from contextlib import suppress

import dagster as dg
from pydantic import Field

from state_engine.checkpoint.retention.policy import RetentionPolicy, made_by_policy
from state_engine.clock import RandomIds, SystemClock
from state_engine.errors import NotFoundError
from state_engine.inspect import JobView, open_job
from state_engine.log.records import Manifest, Pin
from state_engine.log.savepoints import Savepoint
from state_engine.savepoint import (
    RangeWriter,
    Retained,
    SavepointRequest,
    list_savepoints,
    load_canonical,
    load_savepoint,
    read_pinned,
    retain,
    take_savepoint,
)
from state_engine.savepoint.catalogue import location_of
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage

TRIGGER = "dagster"
"""The `trigger` of a savepoint that a user requested in Dagster."""


def is_ours(savepoint: Savepoint) -> bool:
    """Returns whether Dagster requested a savepoint, for a user or by a policy."""
    return savepoint.trigger == TRIGGER or made_by_policy(savepoint.trigger)


class StateStoreResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Reads the state of jobs below one root and takes savepoints of them, running or not, without a JVM.

    Credentials of object stores come from the environment, where obstore finds them.
    """

    root: str = Field(description="Folder, file:// or object store address under which each job has a folder.")

    def open_job(self, job: str) -> JobView:
        """Returns the view of one job. A job that never ran has no epochs, no checkpoints and no savepoints."""
        return open_job(self.root, job)

    def uri(self, job: str, path: str = "") -> str:
        """Returns the address of a path relative to the root of a job."""
        return "/".join(part for part in (self.root.rstrip("/"), job, path) if part)

    def find_savepoint(self, job: str, label: str) -> Savepoint | None:
        """Returns the newest savepoint with this label that Dagster requested, or None.

        A label is not unique: a caller of `JobClient.trigger_savepoint` may have used the same one for another epoch.
        """
        savepoints = [one for one in list_savepoints(self.root, job) if one.label == label and is_ours(one)]
        return max(savepoints, key=lambda one: one.created_at, default=None)

    def take_savepoint(self, job: str, request: SavepointRequest, *, writer: RangeWriter | None = None) -> Savepoint:
        """Takes a savepoint of the newest sealed epoch; the job need not run, and is not interrupted.

        Args:
            job: Name of the job.
            request: Which savepoint.
            writer: Folds a canonical one; by default this process does.

        Raises:
            NothingToRestoreError: The job never sealed an epoch.
            CorruptionError: A file that a restore would need is missing or damaged.
            CondemnedError: Retention is removing files of this epoch.
            SavepointError: It could not be written.
        """
        request = request.taken_by(TRIGGER)
        return take_savepoint(self.root, job, request, clock=SystemClock(), ids=RandomIds(), writer=writer)

    def retain(self, job: str, policy: RetentionPolicy, *, dry_run: bool = False) -> Retained:
        """Deletes what a policy does not keep and nothing else needs; the job may be running.

        Raises:
            CorruptionError: A file is damaged, so it is not known what is needed; no file of the job was deleted.
            StorageError: The storage does not answer; a later call can safely go on.
        """
        return retain(self.root, job, policy, dry_run=dry_run, clock=SystemClock(), ids=RandomIds())

    def validate_savepoint(self, job: str, savepoint: Savepoint) -> list[Manifest]:
        """Checks that all files of a savepoint exist and returns the manifests that lead to its epoch.

        Lengths of files and hashes of manifests are compared; the contents of state files are not read. For a native
        savepoint the first manifest is that of the newest checkpoint at or before the epoch, unless it was removed
        meanwhile; a canonical one has only the manifest of its epoch.

        Raises:
            NothingToRestoreError: There is no such savepoint.
            CorruptionError: A file is missing or damaged.
        """
        load_savepoint(self.root, job, savepoint.savepoint_id)
        if not isinstance(savepoint, Pin):
            return [load_canonical(location_of(self.root, savepoint)).head.manifest]
        storage = open_storage(self.root, job)
        pinned = read_pinned(storage, savepoint)
        manifests = list(pinned.segment.manifests) or [pinned.head.manifest]
        if savepoint.base is not None and savepoint.base.epoch < manifests[0].epoch:
            with suppress(NotFoundError):  # it may have been removed, since it is not part of the savepoint
                base = savepoint.base
                return [ManifestLog(storage, job).read(base.generation, base.epoch).manifest, *manifests]
        return manifests


__all__ = ["TRIGGER", "StateStoreResource", "is_ours"]
