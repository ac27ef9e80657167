"""Where jobs keep their state, as a Dagster resource."""

from contextlib import suppress

import dagster as dg
from pydantic import Field

from state_engine.clock import RandomIds, SystemClock
from state_engine.errors import NotFoundError
from state_engine.inspect import JobView, open_job
from state_engine.log.records import Manifest, Pin
from state_engine.savepoint import list_savepoints, load_savepoint, read_pinned, trigger_savepoint
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import open_storage

TRIGGER = "dagster"
"""What a pin of ours says in `trigger`."""


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

    def find_savepoint(self, job: str, label: str) -> Pin | None:
        """Returns the newest savepoint with this label that `take_savepoint` took, or None.

        A label is no name: whoever calls `JobClient.trigger_savepoint` may have used the same one, for another epoch.
        """
        pins = (savepoint for savepoint in list_savepoints(self.root, job) if isinstance(savepoint, Pin))
        found = [pin for pin in pins if (pin.label, pin.trigger) == (label, TRIGGER)]
        return max(found, key=lambda pin: pin.created_at, default=None)

    def take_savepoint(self, job: str, *, label: str) -> Pin:
        """Pins the newest sealed epoch; the job neither has to run nor notices.

        Raises:
            NothingToRestoreError: The job never sealed an epoch.
            CorruptionError: A file that a restore would need is gone or damaged.
            SavepointError: The pin could not be written.
        """
        return trigger_savepoint(self.root, job, clock=SystemClock(), ids=RandomIds(), label=label, trigger=TRIGGER)

    def validate_savepoint(self, job: str, pin: Pin) -> list[Manifest]:
        """Checks that all files of a savepoint are there and returns the manifests that lead to its epoch.

        Lengths of files and hashes of manifests are compared; the contents of state files are not read. The first
        manifest is that of the newest checkpoint at or before the epoch, unless it was removed meanwhile.

        Raises:
            NothingToRestoreError: There is no such savepoint.
            CorruptionError: Something is gone or damaged.
        """
        load_savepoint(self.root, job, pin.savepoint_id)
        storage = open_storage(self.root, job)
        pinned = read_pinned(storage, pin)
        behind = list(pinned.segment.manifests) or [pinned.head.manifest]
        if pin.base is not None and pin.base.epoch < behind[0].epoch:
            with suppress(NotFoundError):  # no part of the savepoint
                return [ManifestLog(storage, job).read(pin.base.generation, pin.base.epoch).manifest, *behind]
        return behind


__all__ = ["StateStoreResource"]
