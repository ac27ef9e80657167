"""Savepoints of one job by their locations."""

from lakestate.rest.job_port import SavepointKind
from state_engine.errors import SavepointError
from state_engine.log.paths import savepoint_folder
from state_engine.savepoint import list_savepoints, trigger_savepoint
from state_engine.storage.port import open_storage

TRIGGER = "rest"
"""Who asked, in `_checkpoints`."""


class JobSavepoints:
    """Takes savepoints of a job, and finds them again by what it said where they are.

    Args:
        root: Of the storage.
        job: Name of the job.
    """

    def __init__(self, root: str, job: str) -> None:
        self._root = root
        self._job = job

    def location_of(self, place: str) -> str:
        """Returns the address of a place below the job's root: `file:///…`, `s3://…`."""
        url = open_storage(self._root, self._job).url.rstrip("/")
        return f"file://{url}/{place}" if url.startswith("/") else f"{url}/{place}"

    def check(self, kind: SavepointKind, directory: str | None) -> None:
        """Refuses what cannot be taken, whatever the job's state is.

        Raises:
            SavepointError: No savepoint of this kind can lie there.
        """
        if kind == "canonical":
            raise SavepointError(
                "Savepoints in the canonical format cannot be taken yet.", action="Give -type native (REST: NATIVE)."
            )
        if directory is not None:
            raise SavepointError(
                f"A native savepoint is a pin of files of job {self._job!r}, and cannot lie in {directory}.",
                action="Leave the directory out.",
            )

    def trigger(self, kind: SavepointKind, directory: str | None) -> str:
        """Takes a savepoint of the newest sealed epoch and returns its location.

        Raises:
            LakestateError: It came to nothing.
        """
        self.check(kind, directory)
        return self.pin()

    def pin(self, label: str = "") -> str:
        """Takes a native savepoint and returns its location.

        Raises:
            LakestateError: It came to nothing.
        """
        pin = trigger_savepoint(self._root, self._job, label=label, trigger=TRIGGER)
        return self.location_of(savepoint_folder(pin.savepoint_id))

    def dispose(self, location: str) -> bool:
        """Removes the savepoint of a location; returns whether it is one of this job's.

        Raises:
            LakestateError: It is, and cannot be removed.
        """
        if self.find(location) is None:
            return False
        raise SavepointError("Savepoints cannot be disposed of yet.", action="Leave it where it is.")

    def find(self, location: str) -> str | None:
        """Returns the id of the savepoint of a location; null if the job has none there."""
        wanted = normal(location)
        ids = [pin.savepoint_id for pin in list_savepoints(self._root, self._job)]
        return next((one for one in ids if normal(self.location_of(savepoint_folder(one))) == wanted), None)


def normal(location: str) -> str:
    """Returns one spelling of what may be spelt `file:/a`, `file:///a` or `/a`, with or without a slash behind."""
    for scheme in ("file://", "file:"):
        if location.startswith(scheme):
            location = location.removeprefix(scheme)
            break
    return location.rstrip("/")


__all__ = ["TRIGGER", "JobSavepoints", "normal"]
