"""Statistics of a job's checkpoints, from the rows of `_checkpoints` alone. Pure.

As in Flink's `CheckpointStatsSnapshot`: counts, the newest of each kind, a summary and a history. A driver on an empty
disk has the same history as the driver before it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from state_engine.checkpoint.pending import PendingCheckpoint
from state_engine.checkpoint.table import CheckpointRow

HISTORY = 10
"""Number of checkpoints that a history shows; Flink's `web.checkpoints.history`."""
QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many checkpoints there were, without savepoints; `failed` are all that ended and did not complete."""

    completed: int = 0
    failed: int = 0
    in_progress: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.completed + self.failed + self.in_progress


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How a figure is spread over the completed checkpoints of a history."""

    minimum: int
    maximum: int
    average: int
    quantiles: tuple[float, ...]
    """At `QUANTILES`."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The completed checkpoints of a history: milliseconds, bytes written, bytes of the whole state."""

    duration_ms: Spread
    bytes: Spread
    state_bytes: Spread


class Latest(NamedTuple):
    """The newest of each kind."""

    completed: CheckpointRow | None
    failed: CheckpointRow | None
    savepoint: CheckpointRow | None


class CheckpointStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of a job's checkpoints (`statistics_of`)."""

    counts: Counts
    latest: Latest
    history: tuple[CheckpointRow, ...]
    summary: Summary | None
    in_progress: tuple[int, ...] = ()


def statistics_of(
    rows: Sequence[CheckpointRow], pending: Sequence[PendingCheckpoint] = (), *, history: int = HISTORY
) -> CheckpointStatistics:
    """Returns the statistics of a job.

    Args:
        rows: All rows of `_checkpoints`, oldest first.
        pending: The checkpoints under way, if a driver gives them.
        history: How many checkpoints the history and its summary go back.
    """
    checkpoints = [row for row in rows if row.kind == "checkpoint"]
    completed = [row for row in checkpoints if row.status == "completed"]
    failed = [row for row in checkpoints if row.status != "completed"]
    savepoints = [row for row in rows if row.kind == "savepoint" and row.status == "completed"]
    ended = {row.checkpoint_id for row in checkpoints}  # the driver learns of an end a little later than the table
    under_way = tuple(one.checkpoint_id for one in pending if one.checkpoint_id not in ended)
    shown = checkpoints[-history:] if history else []
    return CheckpointStatistics(
        counts=Counts(completed=len(completed), failed=len(failed), in_progress=len(under_way)),
        latest=Latest(_last(completed), _last(failed), _last(savepoints)),
        history=tuple(reversed(shown)),
        summary=_summary([row for row in shown if row.status == "completed"]),
        in_progress=under_way,
    )


def _last(rows: Sequence[CheckpointRow]) -> CheckpointRow | None:
    return rows[-1] if rows else None


def _summary(rows: Sequence[CheckpointRow]) -> Summary | None:
    if not rows:
        return None
    return Summary(
        duration_ms=_spread([row.duration_ms for row in rows]),
        bytes=_spread([row.bytes for row in rows]),
        state_bytes=_spread([row.state_bytes for row in rows]),
    )


def _spread(figures: Sequence[int]) -> Spread:
    return Spread(
        minimum=min(figures),
        maximum=max(figures),
        average=round(sum(figures) / len(figures)),
        quantiles=tuple(float(value) for value in np.quantile(figures, QUANTILES)),
    )


__all__ = ["HISTORY", "QUANTILES", "CheckpointStatistics", "Counts", "Latest", "Spread", "Summary", "statistics_of"]
