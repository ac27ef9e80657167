"""The example streams: drivers that `lakestate.supervision` starts, watches and stops."""

from typing import NamedTuple

from lakestate.errors import JobNotRunningError
from lakestate.examples.files import newest_number
from lakestate.start_request import StartRequest
from lakestate.supervision.heartbeat import Condition, look
from lakestate.supervision.log import log_path
from lakestate.supervision.places import driver_folder
from lakestate.supervision.start import start_driver
from lakestate.supervision.stop import DriverNotEndedError, kill_driver, stop_driver
from lakestate.up.feeder import SOURCES
from lakestate.up.layout import Layout
from state_engine.errors import JobAlreadyRunningError
from state_engine.inspect import open_job

VISITS = "visits"
"""The stream that reads Kafka."""

LIVING = (Condition.STARTING, Condition.RUNNING, Condition.HANGS)


class StreamState(NamedTuple):
    """The state of a stream.

    Attributes:
        condition: Condition of its driver.
        pid: Of the living driver.
        generation: Of the newest sealed epoch; 0 if there is none.
        epoch: The newest sealed epoch.
        checkpoint: The newest completed checkpoint.
        files: Number of input files so far; null for one that reads Kafka.
        all_files: Number of input files at the end; null if they never end.
        cause: Why it has failed.
        log: Where its driver writes.
    """

    condition: Condition
    pid: int | None
    generation: int
    epoch: int
    checkpoint: int | None
    files: int | None
    all_files: int | None
    cause: str
    log: str


class Streams:
    """All example streams below one folder.

    Args:
        layout: Of the folder.
        servers: The Kafka broker, if there is one.
    """

    def __init__(self, layout: Layout, servers: str | None = None) -> None:
        self._layout = layout
        self._root = str(layout.state)
        self._servers = servers
        self.names = (*SOURCES, *([VISITS] if servers is not None else []))

    def start(self, job: str) -> bool:
        """Starts a stream and returns at once; returns false if it runs already."""
        options = {"tables": str(self._layout.tables(job))}
        if job in SOURCES:
            self._layout.input(job).mkdir(parents=True, exist_ok=True)  # Spark wants the folder before the first file
            options["input"] = str(self._layout.input(job))
        else:
            options["servers"] = str(self._servers)
        try:
            start_driver(self._root, job, StartRequest(options=options, directory=str(self._layout.folder)))
        except JobAlreadyRunningError:
            return False
        return True

    def stop(self, job: str) -> bool:
        """Stops a stream after the current epoch, and kills it if it does not end; returns false if it did not run."""
        try:
            stop_driver(self._root, job)
        except JobNotRunningError:
            return False
        except DriverNotEndedError:
            kill_driver(self._root, job)
        return True

    def state(self, job: str) -> StreamState:
        """Returns the state of a stream."""
        seen = look(self._root, job)
        checkpoints = (row for row in open_job(self._root, job).checkpoints_backwards() if row.status == "completed")
        newest = next(checkpoints, None)
        return StreamState(
            seen.condition,
            seen.pid,
            seen.generation,
            seen.epoch,
            newest.checkpoint_id if newest is not None else None,
            newest_number(self._layout.input(job), job) if job in SOURCES else None,
            SOURCES[job].parts if job in SOURCES else None,
            seen.last_words.cause if seen.condition is Condition.FAILED else "",
            str(log_path(driver_folder(self._root, job))),
        )


__all__ = ["LIVING", "VISITS", "StreamState", "Streams"]
