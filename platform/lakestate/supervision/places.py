"""Where the control files of a driver lie: `<root>/<job>/_control/driver`, or below `LAKESTATE_CONTROL`.

They are about processes of this machine, so they are on it even if the state is not.
"""

from pathlib import Path

from state_engine.errors import LakestateError
from state_engine.storage.job_lock import CONTROL_FOLDER, lock_folder
from state_engine.storage.roots import address


class NoControlFolderError(LakestateError):
    """The root is an object store, and nothing says where control files go."""


def driver_folder(root: str, job: str) -> Path:
    """Returns the folder of the control files of a job's driver; it may not be there yet.

    Raises:
        NoControlFolderError: The root is an object store, and `LAKESTATE_CONTROL` is not set.
        JobDefinitionError: The name cannot be that of a job.
    """
    folder = lock_folder(root, job)
    if folder is None:
        raise NoControlFolderError(
            f"Job {job!r} keeps its state in an object store, which has no place for the control files of a process.",
            action=f"Set {CONTROL_FOLDER} to a local folder, for whoever starts, watches and stops the job.",
        )
    return folder


def absolute_root(root: str) -> str:
    """Returns a root that means the same in every folder that a driver may be started in."""
    return address(root).rstrip("/")


__all__ = ["NoControlFolderError", "absolute_root", "driver_folder"]
