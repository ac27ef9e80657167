"""Whether a job may be taken over: its process, should it run where we cannot see it, would be ended by that."""

from typing import Annotated

import typer

from lakestate.commands.formats import format_duration
from lakestate.control import endpoint_path
from lakestate.errors import JobMayRunError
from lakestate.rest.ends import has_ended
from state_engine.clock import SystemClock

Stopped = Annotated[
    bool, typer.Option("--stopped", help="Confirm that the job is stopped; this machine cannot check that.")
]


def ensure_stopped(root: str, job: str, *, stopped: bool) -> None:
    """Refuses to take over a job that may be running where we cannot see it.

    In a root of the file system a process says where it listens. In a bucket none does, and an old epoch does not mean
    that nothing runs: a job that waits for input seals none. What is known there is that an incarnation has ended which
    left behind how its operations ended, such as a stop.

    Args:
        root: Of the storage.
        job: Name of the job; a process of this machine was looked for already.
        stopped: Whoever asks knows that it does not run.

    Raises:
        JobMayRunError: Nobody knows.
    """
    from state_engine.inspect import open_job

    if stopped or endpoint_path(root, job) is not None:
        return
    head = open_job(root, job).newest()
    if head is None or has_ended(root, job, head.manifest.incarnation):
        return
    manifest, age = head.manifest, max(0, SystemClock().now_ms() - head.manifest.processing_time)
    raise JobMayRunError(
        f"Incarnation {manifest.incarnation_number} ({manifest.incarnation}) of job {job!r} sealed its newest epoch "
        f"{format_duration(age)} ago. Nobody can tell from a bucket whether its process still runs; if it does, it "
        "would be ended.",
        action="Stop the job: `lakestate stop --url …`. If it is stopped, say --stopped.",
    )


__all__ = ["Stopped", "ensure_stopped"]
