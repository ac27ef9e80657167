"""Starts drivers on request, in a session of their own, so that they outlive the process that starts them."""

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lakestate.control import process_of, read_endpoint
from lakestate.registry import find_job
from lakestate.runner_process import runner_command
from lakestate.start_request import StartRequest
from lakestate.supervision.log import begin_events, begin_log
from lakestate.supervision.places import absolute_root, driver_folder
from lakestate.supervision.records import Wanted, WantedFile
from state_engine.clock import Clock, SystemClock
from state_engine.errors import LakestateError
from state_engine.inspect import open_job
from state_engine.storage.job_lock import INHERITED, Holder, already_running, name_holder, taken

Command = Callable[[str, str, StartRequest], list[str]]
"""(job, root, request) to the command line of a driver."""


class DriverStartError(LakestateError):
    """The system has refused to start the process of a driver."""


class StartedDriver(NamedTuple):
    """A driver that has just been started; its JVM needs some more seconds."""

    pid: int
    restarts: int


def driver_command(job: str, root: str, request: StartRequest, *, epochs: bool = False) -> list[str]:
    """Returns the command line of a runner that reports its start and its end, and with `epochs` each epoch too."""
    return runner_command(job, root, request, epochs=epochs)


def start_driver(
    root: str, job: str, request: StartRequest, *, clock: Clock | None = None, command: Command = driver_command
) -> StartedDriver:
    """Starts the driver of a registered job, and records that the job is wanted; returns at once.

    Args:
        root: Of the storage.
        job: Name of the registered job.
        request: How it is started, now and after failures.
        clock: Processing time.
        command: Returns the command line of the driver.

    Raises:
        JobDefinitionError: No job of this name is registered.
        JobAlreadyRunningError: A process of this machine holds the job, or is just being started.
        NoControlFolderError: The root is an object store, and no folder for control files is set.
        DriverStartError: The process cannot be started.
    """
    find_job(job)
    now_ms = (clock or SystemClock()).now_ms()
    root, folder = absolute_root(root), driver_folder(absolute_root(root), job)
    request = request.placed()
    with taken(folder) as lock:
        if lock is None or read_endpoint(root, job) is not None:
            process = process_of(root, job)
            raise already_running(root, job, process.holder if process is not None else Holder(None))
        file = WantedFile(folder)
        with file.locked():
            wanted = wanted_from(root, job, request, now_ms)
            file.write(wanted.with_start(now_ms))
        return StartedDriver(launch(folder, command(job, root, request), request.directory, lock), 0)


def wanted_from(root: str, job: str, request: StartRequest, now_ms: int) -> Wanted:
    """Returns that a job shall run, with a request; and where it is now, if what the request allows ends with that."""
    generation, epoch = newest_position(root, job) if request.restore or request.keep_output else (0, 0)
    return Wanted(state="running", since=now_ms, request=request, generation=generation, epoch=epoch)


def newest_position(root: str, job: str) -> tuple[int, int]:
    """Returns the newest generation of a job that has a sealed epoch, and that epoch; zeros if it never ran."""
    head = open_job(root, job).newest()
    return (head.manifest.generation, head.manifest.epoch) if head is not None else (0, 0)


def launch(folder: Path, command: list[str], directory: str, lock: int) -> int:
    """Starts the process that inherits the lock; returns its process id.

    Raises:
        DriverStartError: The process cannot be started.
    """
    with begin_log(folder) as log, begin_events(folder) as events:
        try:
            process = subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=events,
                stderr=log,
                pass_fds=(lock,),
                env=os.environ | {INHERITED: str(lock)},
                start_new_session=True,
            )
        except OSError as error:
            log.write(f"{error}\n".encode(errors="backslashreplace"))
            raise DriverStartError(
                f"No process could be started in {directory}: {error}.",
                action="Check that folder and interpreter exist, and that the limit of processes is not reached.",
            ) from error
    name_holder(lock, process.pid)
    # A thread waits for its end; otherwise it would stay a zombie process as long as this process lives.
    threading.Thread(target=process.wait, name=f"end-of-{process.pid}", daemon=True).start()
    return process.pid


__all__ = [
    "Command",
    "DriverStartError",
    "StartedDriver",
    "driver_command",
    "launch",
    "newest_position",
    "start_driver",
    "wanted_from",
]
