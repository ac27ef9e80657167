"""Savepoints of one job by their locations."""

from lakestate.rest.job_port import SavepointRequest
from state_engine.errors import CorruptionError, SavepointError
from state_engine.log.paths import savepoint_folder
from state_engine.log.records import Pin
from state_engine.log.savepoints import Savepoint
from state_engine.savepoint import RangeWriter, dispose_savepoint, read_catalogue, trigger_savepoint
from state_engine.savepoint.catalogue import DamagedSavepoint, find_savepoint
from state_engine.storage.open import open_storage
from state_engine.storage.roots import address

TRIGGER = "rest"
"""Who asked, in `_checkpoints`, if the request does not say it."""


class JobSavepoints:
    """Takes savepoints of a job, and finds them again by what it said where they are.

    Args:
        root: Of the storage.
        job: Name of the job.
        writer: Who folds canonical savepoints; this process by default.
    """

    def __init__(self, root: str, job: str, writer: RangeWriter | None = None) -> None:
        self._root = root
        self._job = job
        self._writer = writer

    def location_of(self, place: str) -> str:
        """Returns the address of a place below the job's root: `file:///…`, `s3://…`."""
        return address_of(f"{open_storage(self._root, self._job).url.rstrip('/')}/{place}")

    def location_of_savepoint(self, savepoint_id: str) -> str | None:
        """Returns the address of a savepoint; null if there is none (any more)."""
        try:
            found = find_savepoint(open_storage(self._root, self._job), savepoint_id)
        except CorruptionError:  # whoever restores it is told
            return self.location_of(savepoint_folder(savepoint_id))
        if found is None:
            return None
        if isinstance(found, Pin) or found.directory is None:
            return self.location_of(savepoint_folder(savepoint_id))
        return address_of(found.directory)

    def trigger(self, wanted: SavepointRequest) -> str:
        """Takes a savepoint and returns its location.

        Raises:
            LakestateError: It came to nothing.
        """
        taken = trigger_savepoint(self._root, self._job, **wanted.arguments(TRIGGER), writer=self._writer)
        if taken.directory is None:
            return self.location_of(savepoint_folder(taken.savepoint_id))
        return address_of(taken.directory)

    def dispose(self, location: str) -> bool:
        """Removes the savepoint of a location; returns whether it is one of this job's.

        Raises:
            LakestateError: It is, and cannot be removed.
        """
        savepoint_id = self.find(location)
        return savepoint_id is not None and dispose_savepoint(self._root, self._job, savepoint_id)

    def find(self, location: str) -> str | None:
        """Returns the id of the savepoint of a location, or of that id; null if the job has none there."""
        known, wanted = read_catalogue(self._root, self._job), normal(location)
        found = [one.savepoint_id for one in known.savepoints if self._is_at(one, wanted)]
        found += [one.savepoint_id for one in known.damaged if wanted in (one.savepoint_id, self._place(one))]
        return next(iter(found), None)

    def _place(self, savepoint: Savepoint | DamagedSavepoint) -> str:
        """Where a savepoint lies below the job's root, if it lies there."""
        return normal(self.location_of(savepoint_folder(savepoint.savepoint_id)))

    def _is_at(self, savepoint: Savepoint, wanted: str) -> bool:
        if wanted == savepoint.savepoint_id:
            return True
        if wanted == self._place(savepoint):
            return isinstance(savepoint, Pin) or savepoint.directory is None
        return savepoint.directory is not None and wanted == normal(savepoint.directory)


def checked_directory(directory: str) -> str:
    """Returns a directory as a local path or as an address.

    Raises:
        SavepointError: It is relative, and this process is somewhere else than whoever asked.
        UnsupportedAddressError: It would be another place than it seems.
    """
    found = address(directory)
    if directory.startswith("/") or "://" in directory or directory.startswith("file:"):
        return found
    raise SavepointError(
        f"The directory {directory!r} is relative.", action="Give an absolute path or an address, such as file:///…."
    )


def address_of(location: str) -> str:
    """Returns an address also for a path."""
    return f"file://{location}" if location.startswith("/") else location


def normal(location: str) -> str:
    """Returns one spelling of what may be spelt `file:/a`, `file:///a` or `/a`, with or without a slash behind."""
    for scheme in ("file://", "file:"):
        if location.startswith(scheme):
            location = location.removeprefix(scheme)
            break
    return location.rstrip("/")


__all__ = ["TRIGGER", "JobSavepoints", "address_of", "checked_directory", "normal"]
