"""Finds the folder of a driver's control files: `<root>/<job>/_control/driver`, or below `LAKESTATE_CONTROL`.

They describe processes of this machine, so they are stored on it even if the state is not.
"""

from pathlib import Path

from state_engine.errors import LakestateError
from state_engine.storage.job_lock import CONTROL_FOLDER, lock_folder
from state_engine.storage.roots import address


class NoControlFolderError(LakestateError):
    """The root is an object store, and no folder for control files is set."""


def driver_folder(root: str, job: str) -> Path:
    """Returns the folder of the control files of a job's driver; it may not exist yet.

    Raises:
        NoControlFolderError: The root is an object store, and `LAKESTATE_CONTROL` is not set.
        JobDefinitionError: The name cannot be that of a job.
    """
    folder = lock_folder(root, job)
    if folder is None:
        raise NoControlFolderError(
            f"Job {job!r} keeps its state in an object store, which has no place for the control files of a process.",
            action=f"Set {CONTROL_FOLDER} to a local folder, for all processes that start, watch and stop the job.",
        )
    return folder


def absolute_root(root: str) -> str:
    """Returns a root that does not depend on the working directory, which may be another one for a driver."""
    return address(root).rstrip("/")


__all__ = ["NoControlFolderError", "absolute_root", "driver_folder"]
