"""Takes, finds and removes savepoints of one job by their locations."""

from state_engine.errors import CorruptionError, SavepointError
from state_engine.log.paths import savepoint_folder
from state_engine.log.records import Pin
from state_engine.log.savepoints import Savepoint
from state_engine.savepoint import RangeWriter, SavepointRequest, dispose_savepoint, read_catalogue, take_savepoint
from state_engine.savepoint.catalogue import DamagedSavepoint, find_savepoint
from state_engine.storage.open import open_storage
from state_engine.storage.roots import address

TRIGGER = "rest"
"""The trigger that `_checkpoints` records if the request names none."""


class JobSavepoints:
    """Takes savepoints of a job, and finds them again by the locations that it returned.

    Args:
        root: Of the storage.
        job: Name of the job.
        writer: Folds canonical savepoints; by default this process does.
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
            savepoint = find_savepoint(open_storage(self._root, self._job), savepoint_id)
        except CorruptionError:  # a restore of it reports the damage
            return self.location_of(savepoint_folder(savepoint_id))
        if savepoint is None:
            return None
        if isinstance(savepoint, Pin) or savepoint.directory is None:
            return self.location_of(savepoint_folder(savepoint_id))
        return address_of(savepoint.directory)

    def trigger(self, request: SavepointRequest) -> str:
        """Takes a savepoint and returns its location.

        Raises:
            LakestateError: It failed.
        """
        taken = take_savepoint(self._root, self._job, request.taken_by(TRIGGER), writer=self._writer)
        if taken.directory is None:
            return self.location_of(savepoint_folder(taken.savepoint_id))
        return address_of(taken.directory)

    def dispose(self, location: str) -> bool:
        """Removes the savepoint at a location; returns whether it is one of this job's.

        Raises:
            LakestateError: It is one of this job's, but cannot be removed.
        """
        savepoint_id = self.find(location)
        return savepoint_id is not None and dispose_savepoint(self._root, self._job, savepoint_id)

    def find(self, location: str) -> str | None:
        """Returns the id of the savepoint at a location, or with that id; null if the job has none there."""
        catalogue, wanted = read_catalogue(self._root, self._job), normal(location)
        ids = [one.savepoint_id for one in catalogue.savepoints if self._is_at(one, wanted)]
        ids += [one.savepoint_id for one in catalogue.damaged if wanted in (one.savepoint_id, self._place(one))]
        return next(iter(ids), None)

    def _place(self, savepoint: Savepoint | DamagedSavepoint) -> str:
        """Returns the folder of a savepoint that is stored below the job's root."""
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
        SavepointError: It is relative, and this process may have another working directory than the client.
        UnsupportedAddressError: It would lead to another place than it seems.
    """
    absolute = address(directory)
    if directory.startswith("/") or "://" in directory or directory.startswith("file:"):
        return absolute
    raise SavepointError(
        f"The directory {directory!r} is relative.", action="Give an absolute path or an address, such as file:///…."
    )


def address_of(location: str) -> str:
    """Returns an address; a path becomes a `file://` address."""
    return f"file://{location}" if location.startswith("/") else location


def normal(location: str) -> str:
    """Returns one spelling of a location that may be `file:/a`, `file:///a` or `/a`, with or without a final slash."""
    for scheme in ("file://", "file:"):
        if location.startswith(scheme):
            location = location.removeprefix(scheme)
            break
    return location.rstrip("/")


__all__ = ["TRIGGER", "JobSavepoints", "address_of", "checked_directory", "normal"]
