"""Dagster resource for the drivers of jobs on this machine."""

from datetime import timedelta
from pathlib import Path

import dagster as dg
from pydantic import Field

from lakestate.supervision import (
    HANGS_AFTER,
    Heartbeat,
    StartedDriver,
    StartRequest,
    Wanted,
    await_start,
    driver_folder,
    end_hanging,
    give_up,
    kill_driver,
    log_path,
    look,
    note_failure,
    replace_driver,
    restart_driver,
    start_driver,
    stop_driver,
    trim_log,
)
from state_engine.savepoint import SavepointRequest


class JobControlResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Starts, watches and stops drivers of registered jobs below one root, as processes that outlive Dagster's.

    What is wanted of a job is stored beside its state, so the command line and Dagster share it.
    """

    root: str = Field(description="Folder, file:// or object store address under which each job has a folder.")

    def start(self, job: str, request: StartRequest | None = None) -> StartedDriver:
        """Starts a job and records that it is wanted; does not wait for the JVM.

        Raises:
            JobAlreadyRunningError: A process of this machine holds it.
        """
        return start_driver(self.root, job, request or StartRequest())

    def await_start(self, job: str) -> Heartbeat:
        """Waits until a driver that was just started runs, has ended, or has failed; a failed one is not restarted."""
        return await_start(self.root, job)

    def log(self, job: str) -> Path:
        """Returns the path of the log of a job's newest driver."""
        return log_path(driver_folder(self.root, job))

    def stop(self, job: str, *, savepoint: SavepointRequest | None = None, drain: bool = False) -> str | None:
        """Stops a job, with a savepoint if one is requested, and waits for the end; returns where the savepoint is.

        Raises:
            JobNotRunningError: No process of this machine runs it.
            OperationFailedError: The savepoint failed; the message says whether the job goes on.
        """
        return stop_driver(self.root, job, savepoint=savepoint, drain=drain)

    def replace(self, job: str, request: StartRequest) -> None:
        """Ends a running driver in order and starts the job with another request, which is recorded first.

        Raises:
            DriverNotEndedError: The driver does not end.
        """
        replace_driver(self.root, job, request)

    def kill(self, job: str) -> None:
        """Kills a driver, such as one that hangs, and records that the job is not wanted."""
        kill_driver(self.root, job)

    def status(self, job: str, *, hangs_after: timedelta = HANGS_AFTER) -> Heartbeat:
        """Returns the condition of a job's driver, and trims its log so that it does not grow for ever."""
        trim_log(driver_folder(self.root, job))
        return look(self.root, job, hangs_after=hangs_after)

    def restart(self, job: str, seen: Wanted) -> StartedDriver | None:
        """Restarts a driver that has failed; null if what is wanted has changed since `seen` was read."""
        return restart_driver(self.root, job, seen)

    def note_failure(self, job: str, seen: Wanted, cause: str) -> Wanted | None:
        """Records that the newest start has failed; null if what is wanted has changed since `seen` was read."""
        return note_failure(self.root, job, seen, cause)

    def give_up(self, job: str, seen: Wanted, reason: str) -> Wanted | None:
        """Records why a job is not restarted any more; null if what is wanted has changed since `seen` was read."""
        return give_up(self.root, job, seen, reason)

    def end_hanging(self, job: str) -> None:
        """Kills a driver that hangs; the job is still wanted."""
        end_hanging(self.root, job)


__all__ = ["JobControlResource"]
