"""Ends drivers as a person wants it. That it is wanted is said first, so that nobody starts the job again meanwhile."""

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
from state_engine.savepoint.stop import SavepointRequest

PATIENCE_S = 60.0
_POLL_S = 0.1


class DriverNotEndedError(LakestateError):
    """A driver was told to end, and has not."""


@contextmanager
def wanted_stopped(root: str, job: str, *, clock: Clock | None = None) -> Iterator[bool]:
    """Keeps that a job shall not run any more; takes that back if the block fails by name and the job goes on.

    Gives whether a supervised job was wanted to run until now. A job that nobody supervises has nothing to be kept.
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
        raise  # it was told, and ends some time: nobody shall start it again then
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
    """Stops a job and waits until its driver has let go of it; returns where the savepoint is, if one was wanted.

    Without a savepoint the driver is told by SIGTERM, and ends behind the epoch at hand. What is sealed is kept.

    Args:
        root: Of the storage.
        job: Name of the job.
        savepoint: Take it first; if that fails the job goes on.
        drain: End the input in front of the savepoint.
        clock: Processing time.
        patience_s: How long a driver may take that was told by a signal.

    Raises:
        JobNotRunningError: No process of this machine runs it. It is not wanted any more all the same.
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
    """Ends a driver and its JVM at once, as one that hangs; what is sealed is kept.

    Raises:
        JobNotRunningError: No process of this machine runs it.
        DriverNotEndedError: It has not ended all the same.
    """
    with wanted_stopped(root, job, clock=clock):
        end_hanging(root, job, patience_s=patience_s)


def end_in_order(root: str, job: str, *, patience_s: float = PATIENCE_S) -> None:
    """Ends a driver behind the epoch at hand, without a word about what is wanted: another one is to take its place.

    Raises:
        JobNotRunningError: No process of this machine runs it.
        DriverNotEndedError: It does not end.
    """
    _signal(root, job, signal.SIGTERM, patience_s)


def end_hanging(root: str, job: str, *, patience_s: float = PATIENCE_S) -> None:
    """Ends a driver and its JVM at once, without a word about what is wanted: another one may take its place."""
    _signal(root, job, signal.SIGKILL, patience_s)


def await_endpoint(root: str, job: str, patience_s: float = PATIENCE_S) -> None:
    """Waits until a driver that is being started serves its job, or is gone."""
    until = time.monotonic() + patience_s
    while (found := process_of(root, job)) is not None and found.is_silent and time.monotonic() < until:
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
    driver_folder(root, job)  # where nobody could be found, say so
    until = time.monotonic() + patience_s

    def find() -> int | None:
        found = process_of(root, job)
        return found.pid if found is not None else None

    while (found := process_of(root, job)) is not None and found.pid is None and time.monotonic() < until:
        time.sleep(_POLL_S)  # it is just being started
    told = signal_holder(find, number, group=number is signal.SIGKILL)
    if not told and process_of(root, job) is None:
        raise JobNotRunningError(
            f"No process of this machine runs job {job!r} under {root}.",
            action="Check root and name (`lakestate list`). It will not be started again until somebody says so.",
        )
    while (left := process_of(root, job)) is not None:
        if time.monotonic() > until:
            raise DriverNotEndedError(
                f"{left} was sent {number.name} and still holds job {job!r} after {patience_s:.0f} s.",
                action="Wait, or end it with `lakestate stop --kill`: what is sealed is kept.",
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
