"""Replaces the driver of a running job by one with another start request."""

from contextlib import suppress

from lakestate.control import process_of
from lakestate.errors import JobNotRunningError
from lakestate.start_request import StartRequest
from lakestate.supervision.places import absolute_root, driver_folder
from lakestate.supervision.records import WantedFile
from lakestate.supervision.restarts import restart_driver
from lakestate.supervision.start import Command, driver_command, wanted_from
from lakestate.supervision.stop import PATIENCE_S, DriverNotEndedError, end_in_order
from state_engine.clock import Clock, SystemClock


def replace_driver(
    root: str,
    job: str,
    request: StartRequest,
    *,
    clock: Clock | None = None,
    patience_s: float = PATIENCE_S,
    command: Command = driver_command,
) -> None:
    """Ends the driver of a supervised job in order, and starts it with another request.

    The new request is recorded first. So the caller may die at any time: the health sensor then starts the job with the
    new request, from its newest sealed epoch or by the restore of the request.

    Args:
        root: Of the storage.
        job: Name of the job.
        request: How it is started from now on.
        clock: Processing time.
        patience_s: How long the driver may take to end.
        command: Returns the command line of the driver.

    Raises:
        DriverNotEndedError: The driver does not end; the former request is recorded again.
        DriverStartError: The process cannot be started.
    """
    root, folder = absolute_root(root), driver_folder(absolute_root(root), job)
    now_ms = (clock or SystemClock()).now_ms()
    wanted = wanted_from(root, job, request.placed(), now_ms).with_start(now_ms)
    file = WantedFile(folder)
    with file.locked() as before:
        file.write(wanted)
    try:
        with suppress(JobNotRunningError):
            end_in_order(root, job, patience_s=patience_s)
    except DriverNotEndedError:
        with file.locked() as now:
            if now == wanted and before is not None:
                file.write(before)
        raise
    while (seen := file.read()) is not None and seen.state == "running":
        started = restart_driver(root, job, seen, clock=clock, command=command)
        if started is not None or process_of(root, job) is not None:
            return


__all__ = ["replace_driver"]
