"""Why a checkpoint ended without becoming visible, and when that fails the job. Pure."""

from enum import Enum
from typing import Literal

from state_engine.errors import CheckpointFailuresError


class FailureReason(Enum):
    """Why a checkpoint, or a request for one, came to nothing; the value is its status in `_checkpoints`.

    Named after Flink's `CheckpointFailureReason`, as far as such a reason can arise here.
    """

    FINALIZE_CHECKPOINT_FAILURE = "failed"
    """Publishing raised: storage, a damaged log."""
    CHECKPOINT_DECLINED = "declined"
    """The epoch that carried the barrier was not sealed. It has no row, as nothing durable knows of it."""
    CHECKPOINT_EXPIRED = "expired"
    """It took longer than the timeout."""
    CHECKPOINT_SUBSUMED = "subsumed"
    """A later checkpoint became visible first, which covers it."""
    CHECKPOINT_COORDINATOR_SHUTDOWN = "aborted"
    """The driver ended first; the next start covers it."""

    @property
    def status(self) -> Literal["failed", "declined", "expired", "subsumed", "aborted"]:
        """What `_checkpoints` says."""
        return self.value

    @property
    def counts(self) -> bool:
        """Whether it counts towards the failures that a job tolerates.

        As in Flink, what is nobody's failure does not: to be covered by a later checkpoint, an end of the job.
        """
        return self in _COUNTED


_COUNTED = frozenset(
    {
        FailureReason.FINALIZE_CHECKPOINT_FAILURE,
        FailureReason.CHECKPOINT_DECLINED,
        FailureReason.CHECKPOINT_EXPIRED,
    }
)


class FailureManager:
    """Counts failures in a row, by Flink's `CheckpointFailureManager`.

    Args:
        tolerable: How many in a row are no reason to fail the job; null: any number.
    """

    def __init__(self, tolerable: int | None) -> None:
        self._tolerable = tolerable
        self._last = ""
        self.in_a_row = 0

    def failed(self, checkpoint_id: int, reason: FailureReason, message: str = "") -> None:
        """Takes a failure into account; one that does not count changes nothing."""
        if reason.counts:
            self.in_a_row += 1
            self._last = f"Checkpoint {checkpoint_id} {reason.value}{f': {message}' if message else '.'}"

    def completed(self) -> None:
        """A checkpoint that became visible ends the row."""
        self.in_a_row, self._last = 0, ""

    @property
    def error(self) -> CheckpointFailuresError | None:
        """What the job has to fail with, if anything."""
        if self._tolerable is None or self.in_a_row <= self._tolerable:
            return None
        return CheckpointFailuresError(
            f"{self.in_a_row} checkpoints in a row failed; the job tolerates {self._tolerable}. {self._last}",
            action="No sealed epoch is lost: mend what the last one failed with and start the job again. More are "
            "tolerated with set_tolerable_checkpoint_failure_number().",
        )


__all__ = ["FailureManager", "FailureReason"]
