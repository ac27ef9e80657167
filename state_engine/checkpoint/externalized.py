"""Keeps or discards a job's checkpoints when the job ends: `ExternalizedCheckpointRetention`."""

from typing import Literal

from state_engine.api.checkpoint_config import ExternalizedCheckpointRetention
from state_engine.checkpoint.retention.steps import RetentionReport, apply_retention, plan_discard
from state_engine.clock import Clock, Ids, SystemClock

JobEnd = Literal["canceled", "failed", "finished"]
"""How a job ends for good. A stop, with or without a savepoint, is no end: the job goes on with its next start."""

_GO: dict[ExternalizedCheckpointRetention, frozenset[JobEnd]] = {
    ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION: frozenset(),
    ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION: frozenset({"canceled", "finished"}),
    ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS: frozenset({"canceled", "failed", "finished"}),
}


def discards(retention: ExternalizedCheckpointRetention, end: JobEnd) -> bool:
    """Returns whether a job's checkpoints are discarded when it ends in this way. Pure.

    As Flink's `CheckpointProperties`, with two differences. `RETAIN_ON_CANCELLATION` also keeps the checkpoints of a
    job that has finished. And a stop discards nothing: in Flink a stop with a savepoint counts as finished, which
    discards them in any mode.
    """
    return end in _GO[retention]


def discard_checkpoints(
    root: str, job: str, head: str, *, clock: Clock | None = None, ids: Ids | None = None
) -> RetentionReport | None:
    """Removes all epochs and checkpoints of a job that has ended; what savepoints, leases and forks need stays.

    The log is removed with its checkpoints, since here a job goes on from its newest epoch: the next start begins anew.

    Args:
        root: Of the storage.
        job: Name of the job.
        head: Hash of the newest manifest that its last driver has sealed.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.

    Returns:
        What was removed. None if another process has sealed a manifest after that one: then the job belongs to that
        process, and nothing was removed.

    Raises:
        CorruptionError: A file is damaged, so it is not known what it needs; nothing was removed.
        StorageError: The storage does not answer; calling again continues.
    """
    clock = clock or SystemClock()
    plan = plan_discard(root, job, clock.now_ms())
    if plan.head not in (head, None):
        return None
    return apply_retention(plan, clock=clock, ids=ids)


__all__ = ["JobEnd", "discard_checkpoints", "discards"]
