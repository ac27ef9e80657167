"""Stops drivers on request. The request is recorded first, so that nothing restarts the job meanwhile."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakestate.control import process_of
from lakestate.errors import JobNotRunningError
from lakestate.rest.bodies import stop_with_savepoint
from lakestate.running_job import RunningJob
from lakestate.supervision.places import NoControlFolderError, absolute_root, driver_folder
from lakestate.supervision.records import WantedFile
from lakestate.supervision.signals import signal_holder
from state_engine.clock import Clock, SystemClock
from state_engine.errors import LakestateError
from state_engine.savepoint.request import SavepointRequest

PATIENCE_S = 60.0
_POLL_S = 0.1


class DriverNotEndedError(LakestateError):
    """A driver was told to end, but has not ended."""


@contextmanager
def wanted_stopped(root: str, job: str, *, clock: Clock | None = None) -> Iterator[bool]:
    """Records that a job shall not run any more; undoes that if the block fails with a named error and the job goes on.

    Yields whether a supervised job was wanted to run until now. For a job without supervision nothing is recorded.
    """
    try:
        root, folder = absolute_root(root), driver_folder(absolute_root(root), job)
    except NoControlFolderError:
        yield False
        return
    was_wanted = _say_stopped(folder, clock or SystemClock())
    try:
        yield was_wanted
    except DriverNotEndedError:
        raise  # it was told to end and will end at some time: it must not be restarted then
    except LakestateError:
        if was_wanted and process_of(root, job) is not None:
            file = WantedFile(folder)
            with file.locked() as wanted:
                if wanted is not None:
                    file.write(wanted.running())
        raise


def stop_driver(
    root: str,
    job: str,
    *,
    savepoint: SavepointRequest | None = None,
    drain: bool = False,
    clock: Clock | None = None,
    patience_s: float = PATIENCE_S,
) -> str | None:
    """Stops a job and waits until its driver has released it; returns where the savepoint is, if one was requested.

    Without a savepoint the driver gets SIGTERM, and ends after the current epoch. Sealed epochs are kept.

    Args:
        root: Of the storage.
        job: Name of the job.
        savepoint: Take it first; if that fails the job goes on.
        drain: End the input before the savepoint.
        clock: Processing time.
        patience_s: How long a driver may take to end after the signal.

    Raises:
        JobNotRunningError: No process of this machine runs it. It is recorded as not wanted all the same.
        OperationFailedError: The savepoint failed; the message says whether the job goes on.
        DriverNotEndedError: It does not end; `kill_driver` ends one that hangs.
    """
    with wanted_stopped(root, job, clock=clock):
        if savepoint is not None or drain:
            await_endpoint(root, job, patience_s)
            running = RunningJob(root, job)
            body = stop_with_savepoint(savepoint or SavepointRequest(), drain=drain)
            location = running.operate("stop", body=body).result
            running.await_end()
            return str(location)
        _signal(root, job, signal.SIGTERM, patience_s)
        return None


def kill_driver(root: str, job: str, *, clock: Clock | None = None, patience_s: float = PATIENCE_S) -> None:
    """Kills a driver and its JVM at once, such as one that hangs; sealed epochs are kept.

    Raises:
        JobNotRunningError: No process of this machine runs it.
        DriverNotEndedError: It has not ended nevertheless.
    """
    with wanted_stopped(root, job, clock=clock):
        end_hanging(root, job, patience_s=patience_s)


def end_in_order(root: str, job: str, *, patience_s: float = PATIENCE_S) -> None:
    """Ends a driver after the current epoch. What is wanted does not change, since another driver is to replace it.

    Raises:
        JobNotRunningError: No process of this machine runs it.
        DriverNotEndedError: It does not end.
    """
    _signal(root, job, signal.SIGTERM, patience_s)


def end_hanging(root: str, job: str, *, patience_s: float = PATIENCE_S) -> None:
    """Kills a driver and its JVM at once. What is wanted does not change, since another driver may replace it."""
    _signal(root, job, signal.SIGKILL, patience_s)


def await_endpoint(root: str, job: str, patience_s: float = PATIENCE_S) -> None:
    """Waits until a driver that is being started serves its job, or has ended."""
    until = time.monotonic() + patience_s
    while (process := process_of(root, job)) is not None and process.is_silent and time.monotonic() < until:
        time.sleep(_POLL_S)


def _say_stopped(folder: Path, clock: Clock) -> bool:
    file = WantedFile(folder)
    if file.read() is None:
        return False
    with file.locked() as wanted:
        if wanted is None or wanted.state == "stopped":
            return False
        file.write(wanted.stopped(clock.now_ms()))
        return True


def _signal(root: str, job: str, number: signal.Signals, patience_s: float) -> None:
    """Signals the process that holds a job, and waits for its end."""
    driver_folder(root, job)  # raises an error if the root has no control files, by which a process could be found
    until = time.monotonic() + patience_s

    def find() -> int | None:
        process = process_of(root, job)
        return process.pid if process is not None else None

    while (process := process_of(root, job)) is not None and process.pid is None and time.monotonic() < until:
        time.sleep(_POLL_S)  # it is just being started
    was_sent = signal_holder(find, number, group=number is signal.SIGKILL)
    if not was_sent and process_of(root, job) is None:
        raise JobNotRunningError(
            f"No process of this machine runs job {job!r} under {root}.",
            action="Check root and name (`lakestate list`). The job is not restarted until a user starts it.",
        )
    while (remaining := process_of(root, job)) is not None:
        if time.monotonic() > until:
            raise DriverNotEndedError(
                f"{remaining} was sent {number.name} and still holds job {job!r} after {patience_s:.0f} s.",
                action="Wait, or end it with `lakestate stop --kill`. Sealed epochs are kept.",
            )
        time.sleep(_POLL_S)


__all__ = [
    "PATIENCE_S",
    "DriverNotEndedError",
    "await_endpoint",
    "end_hanging",
    "end_in_order",
    "kill_driver",
    "stop_driver",
    "wanted_stopped",
]
