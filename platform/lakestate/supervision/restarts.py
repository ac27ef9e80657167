"""Starts drivers that have failed again, as they were started, and keeps what is known of their failures.

Whether and when is somebody else's decision (`lakestate.policies.restart`).
"""

import msgspec

from lakestate.control import read_endpoint
from lakestate.supervision.places import absolute_root, driver_folder
from lakestate.supervision.records import Wanted, WantedFile
from lakestate.supervision.start import Command, StartedDriver, driver_command, launch, newest_generation
from state_engine.clock import Clock, SystemClock
from state_engine.storage.job_lock import taken


def restart_driver(
    root: str, job: str, seen: Wanted, *, clock: Clock | None = None, command: Command = driver_command
) -> StartedDriver | None:
    """Starts a driver that has failed; returns null if that is not wanted any more.

    It goes on from the newest sealed epoch. If it was to restore something, and died before that was done, it does.

    Args:
        root: Of the storage.
        job: Name of the job.
        seen: What was wanted when the restart was decided. If somebody has said or done anything since, nothing is
            started.
        clock: Processing time.
        command: What is run.

    Raises:
        DriverStartError: There is no process.
    """
    root, folder = absolute_root(root), driver_folder(absolute_root(root), job)
    with taken(folder) as lock:
        if lock is None or read_endpoint(root, job) is not None:
            return None
        file = WantedFile(folder)
        with file.locked() as wanted:
            if wanted is None or wanted != seen or wanted.state != "running":
                return None
            wanted = wanted.with_start((clock or SystemClock()).now_ms())
            file.write(wanted)
        # What a person says once, at one moment, is not said again.
        request = msgspec.structs.replace(wanted.request, adopt_sinks=False, allow_changed_sources=())
        if request.restore and newest_generation(root, job) > wanted.generation:
            request = request.restored()
        return StartedDriver(launch(folder, command(job, root, request), request.directory, lock), wanted.restarts)


def note_failure(root: str, job: str, seen: Wanted, cause: str, *, clock: Clock | None = None) -> Wanted | None:
    """Keeps that the newest start has failed, once; returns what is wanted then, null if somebody has said otherwise.

    The time of a failure is when it was first noted: a delay is counted from there.
    """
    return _change(root, job, seen, seen.with_end(cause, (clock or SystemClock()).now_ms()))


def give_up(root: str, job: str, seen: Wanted, reason: str) -> Wanted | None:
    """Keeps why nobody restarts the job until somebody starts it; returns null if somebody has said otherwise."""
    return _change(root, job, seen, seen.with_surrender(reason))


def _change(root: str, job: str, seen: Wanted, changed: Wanted) -> Wanted | None:
    file = WantedFile(driver_folder(absolute_root(root), job))
    with file.locked() as wanted:
        if wanted != seen:
            return None
        if changed != seen:
            file.write(changed)
    return changed


__all__ = ["give_up", "note_failure", "restart_driver"]
