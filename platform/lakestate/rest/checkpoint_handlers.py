"""Handlers of requests about checkpoints."""

from lakestate.rest import checkpoint_bodies as bodies
from lakestate.rest.calls import Call, RefusedError
from lakestate.rest.job_port import JobControl
from state_engine.checkpoint import statistics as found
from state_engine.checkpoint.table import CheckpointRow

NEVER_MS = (1 << 63) - 1
"""The interval of a job without checkpoints, as Flink has it."""


def checkpoint_statistics(call: Call) -> bodies.Statistics:
    """Returns counts, the newest of each kind, a summary and the history, from `_checkpoints`."""
    job = call.job
    statistics = job.checkpoints()
    counts, latest, summary = statistics.counts, statistics.latest, statistics.summary
    none = bodies.Spread()
    return bodies.Statistics(
        counts=bodies.Counts(
            total=counts.total, in_progress=counts.in_progress, completed=counts.completed, failed=counts.failed
        ),
        summary=bodies.Summary(
            checkpointed_size=_spread(summary.bytes) if summary else none,
            state_size=_spread(summary.state_bytes) if summary else none,
            end_to_end_duration=_spread(summary.duration_ms) if summary else none,
            alignment_buffered=none,
            processed_data=none,
            persisted_data=none,
        ),
        latest=bodies.Latest(
            completed=_checkpoint(latest.completed, job) if latest.completed else None,
            savepoint=_checkpoint(latest.savepoint, job) if latest.savepoint else None,
            failed=_checkpoint(latest.failed, job) if latest.failed else None,
        ),
        history=[_checkpoint(row, job) for row in statistics.history],
    )


def checkpoint_details(call: Call) -> bodies.Checkpoint:
    """Returns one checkpoint of the history."""
    wanted = call.path["checkpointid"]
    for row in call.job.checkpoints().history:
        if str(row.checkpoint_id) == wanted:
            return _checkpoint(row, call.job)
    raise RefusedError(404, f"Could not find checkpointing statistics for checkpoint {wanted[:64]}.")


def checkpoint_config(call: Call) -> bodies.CheckpointConfigInfo:
    """Returns how checkpoints are configured."""
    settings = call.job.settings()
    return bodies.CheckpointConfigInfo(
        mode=settings.mode,
        interval=settings.interval_ms if settings.interval_ms is not None else NEVER_MS,
        timeout=settings.timeout_ms,
        min_pause=settings.min_pause_ms,
        max_concurrent=settings.max_concurrent,
        externalization=bodies.Externalization(enabled=True, delete_on_cancellation=settings.deleted_on_cancellation),
        state_backend="lakestate",
        checkpoint_storage=settings.storage,
        tolerable_failed_checkpoints=settings.tolerable_failures,
    )


def _spread(spread: found.Spread) -> bodies.Spread:
    p50, p90, p95, p99, p999 = spread.quantiles
    return bodies.Spread(
        min=spread.minimum, max=spread.maximum, avg=spread.average, p50=p50, p90=p90, p95=p95, p99=p99, p999=p999
    )


def _checkpoint(row: CheckpointRow, job: JobControl) -> bodies.Checkpoint:
    completed = row.status == "completed"
    place = _place(row, job) if completed else None
    subtasks = 1  # a checkpoint publishes one epoch, and the subtasks of that epoch have acknowledged before
    return bodies.Checkpoint(
        class_name="completed" if completed else "failed",
        id=row.checkpoint_id if row.checkpoint_id is not None else row.epoch,
        status="COMPLETED" if completed else "FAILED",
        is_savepoint=row.kind == "savepoint",
        trigger_timestamp=row.triggered_at,
        latest_ack_timestamp=row.completed_at,
        checkpointed_size=row.bytes,
        state_size=row.state_bytes,
        end_to_end_duration=row.duration_ms,
        alignment_buffered=0,
        processed_data=0,
        persisted_data=0,
        num_subtasks=subtasks,
        num_acknowledged_subtasks=subtasks if completed else 0,
        checkpoint_type="SAVEPOINT" if row.kind == "savepoint" else "CHECKPOINT",
        tasks={},
        external_path=place,
        discarded=place is None if completed else None,
        failure_timestamp=None if completed else row.completed_at,
        failure_message=None if completed else row.failure or row.status,
    )


def _place(row: CheckpointRow, job: JobControl) -> str | None:
    if row.kind == "savepoint":
        return job.savepoint_location(row.id)
    return job.location_of(row.base_path) if row.base_path is not None else None
