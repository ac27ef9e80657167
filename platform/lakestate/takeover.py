"""Checks that a job may be taken over: that would end a process of the job that runs unseen on another machine."""

from datetime import timedelta

from lakestate.control import endpoint_path
from lakestate.errors import JobMayRunError
from lakestate.rest.ends import has_ended
from state_engine.clock import SystemClock

CONFIRMED = "`stopped: true` in the Launchpad"
"""How a user of Dagster confirms that a job is stopped."""


def ensure_stopped(root: str, job: str, *, stopped: bool, by: str = "--stopped") -> None:
    """Refuses to take over a job that may be running unseen on another machine.

    In a root of the file system a process publishes its address. In a bucket none does. An old epoch there does not
    mean that nothing runs: a job that waits for input seals no epoch. An incarnation in a bucket has certainly ended
    only if it stored the results of its operations, such as a stop.

    Args:
        root: Of the storage.
        job: Name of the job; the caller has already looked for a process on this machine.
        stopped: The user confirms that it does not run.
        by: How the user confirms it.

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
        f"{timedelta(seconds=age // 1000)} ago. A bucket does not show whether its process still runs; if it does, "
        "this would end it.",
        action=f"Stop the job: `lakestate stop --url …`. If it is stopped, confirm it with {by}.",
    )


__all__ = ["CONFIRMED", "ensure_stopped"]
