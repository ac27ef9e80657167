"""Restarts drivers that have failed, with the same request, and records their failures.

`lakestate.policies.restart` decides whether and when.
"""

import msgspec

from lakestate.control import read_endpoint
from lakestate.supervision.places import absolute_root, driver_folder
from lakestate.supervision.records import Wanted, WantedFile
from lakestate.supervision.start import Command, StartedDriver, driver_command, launch, newest_position
from state_engine.clock import Clock, SystemClock
from state_engine.inspect import open_job
from state_engine.storage.job_lock import taken


def restart_driver(
    root: str, job: str, seen: Wanted, *, clock: Clock | None = None, command: Command = driver_command
) -> StartedDriver | None:
    """Restarts a driver that has failed; returns null if that is not wanted any more.

    It goes on from the newest sealed epoch. If it was to restore something, and died before that was done, it restores
    it now.

    Args:
        root: Of the storage.
        job: Name of the job.
        seen: What was wanted when the restart was decided. If that has changed since, or another process holds the job,
            nothing is started.
        clock: Processing time.
        command: Returns the command line of the driver.

    Raises:
        DriverStartError: The process cannot be started.
    """
    root, folder = absolute_root(root), driver_folder(absolute_root(root), job)
    with taken(folder) as lock:
        if lock is None or read_endpoint(root, job) is not None:
            return None
        file = WantedFile(folder)
        with file.locked() as wanted:
            if wanted is None or wanted != seen or wanted.state != "running":
                return None
            wanted = _without_done(root, job, wanted).with_start((clock or SystemClock()).now_ms())
            file.write(wanted)
        # These confirmations were given for one start only, so a restart does not repeat them.
        request = msgspec.structs.replace(wanted.request, adopt_sinks=False, allow_changed_sources=())
        if request.restore and newest_position(root, job)[0] > wanted.generation:
            request = request.restored()
        return StartedDriver(launch(folder, command(job, root, request), request.directory, lock), wanted.restarts)


def _without_done(root: str, job: str, wanted: Wanted) -> Wanted:
    """Returns what is wanted without `keep_output` once an epoch has been sealed, unless it belongs to a restore.

    Until then the output that was left out is still owed by the log, and each start leaves it out anew. Later debts
    must not be left out.
    """
    request = wanted.request
    if not request.keep_output or request.restore:
        return wanted
    head = open_job(root, job).newest()
    if head is None or head.manifest.kind not in ("epoch", "idle"):
        return wanted
    if (head.manifest.generation, head.manifest.epoch) <= (wanted.generation, wanted.epoch):
        return wanted
    return msgspec.structs.replace(wanted, request=msgspec.structs.replace(request, keep_output=False))


def note_failure(root: str, job: str, seen: Wanted, cause: str, *, clock: Clock | None = None) -> Wanted | None:
    """Records once that the newest start has failed; returns what is wanted then, null if that has changed meanwhile.

    The time of a failure is when it was first recorded; a delay counts from there.
    """
    return _change(root, job, seen, seen.with_end(cause, (clock or SystemClock()).now_ms()))


def give_up(root: str, job: str, seen: Wanted, reason: str) -> Wanted | None:
    """Records why the job is not restarted until a user starts it; returns null if what is wanted has changed."""
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
