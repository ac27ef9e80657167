"""Checks that a job may be taken over: that would end a process of the job that runs unseen on another machine."""

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
    """Refuses to take over a job that may be running unseen on another machine.

    In a root of the file system a process publishes its address. In a bucket none does. An old epoch there does not
    mean that nothing runs: a job that waits for input seals no epoch. An incarnation in a bucket has certainly ended
    only if it stored the results of its operations, such as a stop.

    Args:
        root: Of the storage.
        job: Name of the job; the caller has already looked for a process on this machine.
        stopped: The user confirms that it does not run.

    Raises:
        JobMayRunError: It is not known whether the job runs.
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
        f"{format_duration(age)} ago. A bucket does not show whether its process still runs; if it does, this would "
        "end it.",
        action="Stop the job: `lakestate stop --url …`. If it is stopped, confirm it with --stopped.",
    )


__all__ = ["Stopped", "ensure_stopped"]
