"""Bodies about checkpoints, with Flink's names: `CheckpointingStatistics` and `CheckpointConfigInfo`."""

from typing import Literal

import msgspec

NaN = Literal["NaN"]


class Counts(msgspec.Struct, kw_only=True):
    """Number of checkpoints since the job's first start. Every start is a restore, so restores are not counted."""

    restored: int = 0
    total: int
    in_progress: int
    completed: int
    failed: int


class Spread(msgspec.Struct, kw_only=True):
    """The distribution of a figure over the completed checkpoints of the history."""

    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float | NaN = "NaN"
    p90: float | NaN = "NaN"
    p95: float | NaN = "NaN"
    p99: float | NaN = "NaN"
    p999: float | NaN = "NaN"


class Summary(msgspec.Struct, kw_only=True):
    """Bytes written, bytes of the state, milliseconds; there is no barrier alignment, so the rest has no figures."""

    checkpointed_size: Spread
    state_size: Spread
    end_to_end_duration: Spread
    alignment_buffered: Spread
    processed_data: Spread
    persisted_data: Spread


class Checkpoint(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One checkpoint or savepoint. `id` of a native savepoint is its epoch."""

    class_name: Literal["completed", "failed", "in_progress"] = msgspec.field(name="className")
    id: int
    status: Literal["COMPLETED", "FAILED", "IN_PROGRESS"]
    is_savepoint: bool
    trigger_timestamp: int
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: Literal["CHECKPOINT", "SAVEPOINT"]
    tasks: dict[str, str]
    external_path: str | None = None
    discarded: bool | None = None
    failure_timestamp: int | None = None
    failure_message: str | None = None


class Latest(msgspec.Struct, kw_only=True):
    """The newest of each kind."""

    completed: Checkpoint | None
    savepoint: Checkpoint | None
    failed: Checkpoint | None
    restored: None = None


class Statistics(msgspec.Struct, kw_only=True):
    """The statistics of a job's checkpoints; the history is newest first."""

    counts: Counts
    summary: Summary
    latest: Latest
    history: list[Checkpoint]


class Externalization(msgspec.Struct, kw_only=True):
    """What happens to checkpoints when the job is cancelled."""

    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfigInfo(msgspec.Struct, kw_only=True):
    """How checkpoints are configured; times in ms."""

    mode: Literal["exactly_once", "at_least_once"]
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool = False
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int = 0
    checkpoints_after_tasks_finish: bool = True
    state_changelog_enabled: bool = True
    changelog_storage: str = "epochs"
    changelog_periodic_materialization_interval: int = 0
