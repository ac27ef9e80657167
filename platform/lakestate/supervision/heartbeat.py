"""Checks whether a driver lives, answers and makes progress: by its lock, its REST server, the newest sealed epoch."""

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

from lakestate.control import Answer, Endpoint, RequestRefusedError, fetch, process_of
from lakestate.rest.ids import job_id
from lakestate.supervision.log import LastWords, last_words
from lakestate.supervision.places import NoControlFolderError, absolute_root, driver_folder
from lakestate.supervision.records import Wanted, WantedFile
from state_engine.clock import Clock, SystemClock
from state_engine.inspect import open_job
from state_engine.text import UNDECODABLE

HANGS_AFTER = timedelta(minutes=5)

Ask = Callable[[Endpoint, str], bytes]
"""Fetches a path from an endpoint."""


class Condition(StrEnum):
    """The condition of a job's driver."""

    UNKNOWN = "unknown"
    """No driver was started here under supervision."""
    STARTING = "starting"
    """It lives, but does not serve the job yet."""
    RUNNING = "running"
    """It lives, and answers or makes progress."""
    HANGS = "hangs"
    """It lives, but has neither answered nor sealed an epoch for too long."""
    FAILED = "failed"
    """Its process has ended although the job is wanted and has not ended."""
    ENDED = "ended"
    """The job has ended as requested, or at the end of its input."""
    STOPPED = "stopped"
    """Its process has ended, and the job is not wanted."""


class Heartbeat(NamedTuple):
    """A look at a driver.

    Attributes:
        condition: Its condition.
        wanted: What is wanted of the job; null if that was never recorded.
        pid: The living process; null if there is none.
        url: Where it serves the job.
        state: The state of the job that it reports, in Flink's words; null if it does not answer.
        generation: Of the newest sealed epoch; 0 if there is none.
        epoch: The newest sealed epoch.
        silent_ms: Time since that epoch was sealed, or since the driver started, whichever is later.
        last_words: Last event and last log line of the newest start.
    """

    condition: Condition
    wanted: Wanted | None
    pid: int | None
    url: str | None
    state: str | None
    generation: int
    epoch: int
    silent_ms: int
    last_words: LastWords


def look(
    root: str,
    job: str,
    *,
    hangs_after: timedelta = HANGS_AFTER,
    clock: Clock | None = None,
    ask: Ask = fetch,
) -> Heartbeat:
    """Looks at the driver of a job; neither waits for it nor changes anything.

    Args:
        root: Of the storage.
        job: Name of the job.
        hangs_after: How long a living driver may neither answer nor seal an epoch.
        clock: Processing time.
        ask: Sends a request to its server.

    Raises:
        NoControlFolderError: The root is an object store, and no folder for control files is set.
        LakestateError: The job's log, or what is wanted of it, cannot be read.
    """
    root, folder = absolute_root(root), driver_folder(absolute_root(root), job)
    wanted = WantedFile(folder).read()
    process = process_of(root, job)
    endpoint = process.endpoint if process is not None else None
    head = open_job(root, job).newest()
    now_ms = (clock or SystemClock()).now_ms()
    started_at = wanted.attempts[-1].started_at if wanted is not None and wanted.attempts else 0
    silent_ms = max(0, now_ms - max(started_at, head.manifest.processing_time if head is not None else 0))
    words = last_words(folder)
    state = _state(endpoint, job, ask) if endpoint is not None else None
    if process is not None:
        # Only drivers have a server. A program without one may wait for input for ever, so it never hangs.
        is_silent = state is None and silent_ms > hangs_after / timedelta(milliseconds=1)
        living = Condition.STARTING if process.is_silent else Condition.RUNNING
        condition = Condition.HANGS if is_silent and process.is_driver else living
    else:
        condition = _end(wanted, words)
    return Heartbeat(
        condition=condition,
        wanted=wanted,
        pid=process.pid if process is not None else None,
        url=endpoint.url if endpoint is not None else None,
        state=state,
        generation=head.manifest.generation if head is not None else 0,
        epoch=head.manifest.epoch if head is not None else 0,
        silent_ms=silent_ms,
        last_words=words,
    )


def failure_of(root: str, job: str) -> str | None:
    """Returns why the newest driver of a job has failed; None if it has not. No request is sent.

    If the failure was recorded (`note_failure`), the recorded cause is returned.
    """
    try:
        folder = driver_folder(absolute_root(root), job)
    except NoControlFolderError:
        return None
    wanted = WantedFile(folder).read()
    if wanted is None or process_of(root, job) is not None:
        return None
    words = last_words(folder)
    if _end(wanted, words) is not Condition.FAILED:
        return None
    newest = wanted.attempts[-1] if wanted.attempts else None
    return newest.cause if newest is not None and newest.ended_at is not None else words.cause


def _end(wanted: Wanted | None, words: LastWords) -> Condition:
    if wanted is None:
        return Condition.UNKNOWN
    if wanted.state == "stopped":
        return Condition.STOPPED
    return Condition.ENDED if words.has_ended else Condition.FAILED


def _state(endpoint: Endpoint, job: str, ask: Ask) -> str | None:
    try:
        answer = msgspec.json.decode(ask(endpoint, f"/jobs/{job_id(job)}/incarnation"), type=Answer)
    except (OSError, RequestRefusedError, *UNDECODABLE):
        return None
    return answer.state if answer.incarnation == endpoint.incarnation else None


__all__ = ["HANGS_AFTER", "Condition", "Heartbeat", "failure_of", "look"]
