"""Folds the state of a job into one layer: in the process that runs the job, or here if none does."""

from lakestate.errors import JobMayRunError
from lakestate.rest.bodies import CheckpointTrigger
from lakestate.running_job import RunningJob
from lakestate.takeover import ensure_stopped
from state_engine.checkpoint.compaction import CompactionPlan, compact
from state_engine.checkpoint.table import CheckpointRow
from state_engine.inspect import open_job
from state_engine.storage.job_lock import holding

QUIET_MS = 60_000
"""A job that sealed its newest epoch within this time may be running on another machine."""


def fold_state(
    root: str,
    plan: CompactionPlan,
    now_ms: int,
    *,
    running: RunningJob | None = None,
    stopped: bool = False,
    by: str = "--stopped",
) -> CheckpointRow | None:
    """Folds the state of a job from scratch, and returns the checkpoint; None if there was nothing to fold.

    A running job gets a request for a FULL checkpoint. The state of a job that does not run is folded here. That ends
    a driver that runs unnoticed on another machine, so it is refused while the newest epoch is young.

    Args:
        root: Of the storage.
        plan: Of `plan_compaction`.
        now_ms: The current time.
        running: The job, if a process runs it.
        stopped: The caller knows that the job does not run, whatever the age of its newest epoch.
        by: How the user says so.

    Raises:
        JobMayRunError: It may run elsewhere.
        JobAlreadyRunningError: A process of this machine holds it by now.
        OperationFailedError: The running job could not take the checkpoint.
        LakestateError: As `state_engine.checkpoint.compaction.compact`.
    """
    if running is not None:
        done = running.operate("checkpoints", body=CheckpointTrigger(checkpoint_type="FULL"))
        rows = open_job(root, plan.job).checkpoints_backwards()
        return next((row for row in rows if row.checkpoint_id == done.result), None)
    ensure_stopped(root, plan.job, stopped=stopped, by=by)
    age_ms = now_ms - plan.sealed_at
    if age_ms < QUIET_MS and not stopped:
        raise JobMayRunError(
            f"Job {plan.job!r} sealed its newest epoch {max(0, age_ms) / 1000:.1f} s ago; no process of this machine "
            "runs it, but one elsewhere might, and compaction would end that process.",
            action="Ask that process for a FULL checkpoint (`POST /jobs/<id>/checkpoints`). If the job is stopped, "
            f"confirm it with {by}, or wait a minute.",
        )
    with holding(root, plan.job, "compaction"):
        return compact(root, plan.job)


__all__ = ["QUIET_MS", "fold_state"]
