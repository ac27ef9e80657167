"""Where jobs keep their state, as a Dagster resource."""

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
    trigger_savepoint,
)
from state_engine.savepoint.catalogue import location_of
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage

TRIGGER = "dagster"
"""What a savepoint says in `trigger` that a person asked Dagster for."""


def is_ours(savepoint: Savepoint) -> bool:
    """Says whether Dagster asked for a savepoint, for a person or by a policy."""
    return savepoint.trigger == TRIGGER or made_by_policy(savepoint.trigger)


class StateStoreResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Reads the state of jobs below one root and takes savepoints of it, running or not, without a JVM.

    Credentials of object stores come from the environment, as obstore finds them.
    """

    root: str = Field(description="Folder, file:// or object store address under which each job has a folder.")

    def open_job(self, job: str) -> JobView:
        """Returns the view of one job. A job that never ran has no epochs, no checkpoints and no savepoints."""
        return open_job(self.root, job)

    def uri(self, job: str, path: str = "") -> str:
        """Returns the address of a path relative to the root of a job."""
        return "/".join(part for part in (self.root.rstrip("/"), job, path) if part)

    def find_savepoint(self, job: str, label: str) -> Savepoint | None:
        """Returns the newest savepoint with this label that Dagster asked for, or None.

        A label is no name: whoever calls `JobClient.trigger_savepoint` may have used the same one, for another epoch.
        """
        found = [one for one in list_savepoints(self.root, job) if one.label == label and is_ours(one)]
        return max(found, key=lambda one: one.created_at, default=None)

    def take_savepoint(self, job: str, wanted: SavepointRequest, *, writer: RangeWriter | None = None) -> Savepoint:
        """Takes a savepoint of the newest sealed epoch; the job neither has to run nor notices.

        Args:
            job: Name of the job.
            wanted: Which savepoint.
            writer: Who folds a canonical one; this process by default.

        Raises:
            NothingToRestoreError: The job never sealed an epoch.
            CorruptionError: A file that a restore would need is gone or damaged.
            CondemnedError: Retention is removing files of this epoch.
            SavepointError: It could not be written.
        """
        taken: Savepoint = trigger_savepoint(
            self.root, job, clock=SystemClock(), ids=RandomIds(), writer=writer, **wanted.arguments(TRIGGER)
        )
        return taken

    def retain(self, job: str, policy: RetentionPolicy, *, dry_run: bool = False) -> Retained:
        """Deletes what a policy does not keep and nobody needs; the job may be running.

        Raises:
            CorruptionError: Something is damaged, so nobody knows what it needs; no file of the job was deleted.
            StorageError: The storage does not answer; going on later is safe.
        """
        return retain(self.root, job, policy, dry_run=dry_run, clock=SystemClock(), ids=RandomIds())

    def validate_savepoint(self, job: str, savepoint: Savepoint) -> list[Manifest]:
        """Checks that all files of a savepoint are there and returns the manifests that lead to its epoch.

        Lengths of files and hashes of manifests are compared; the contents of state files are not read. Of a native
        savepoint the first manifest is that of the newest checkpoint at or before the epoch, unless it was removed
        meanwhile; a canonical one has the manifest of its epoch alone.

        Raises:
            NothingToRestoreError: There is no such savepoint.
            CorruptionError: Something is gone or damaged.
        """
        load_savepoint(self.root, job, savepoint.savepoint_id)
        if not isinstance(savepoint, Pin):
            return [load_canonical(location_of(self.root, savepoint)).head.manifest]
        storage = open_storage(self.root, job)
        pinned = read_pinned(storage, savepoint)
        behind = list(pinned.segment.manifests) or [pinned.head.manifest]
        if savepoint.base is not None and savepoint.base.epoch < behind[0].epoch:
            with suppress(NotFoundError):  # no part of the savepoint
                base = savepoint.base
                return [ManifestLog(storage, job).read(base.generation, base.epoch).manifest, *behind]
        return behind


__all__ = ["TRIGGER", "StateStoreResource", "is_ours"]
