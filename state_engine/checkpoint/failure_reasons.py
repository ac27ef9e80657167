"""Why a checkpoint ended without becoming visible, and when that fails the job. Pure."""

from enum import Enum
from typing import Literal

from state_engine.errors import CheckpointFailuresError


class FailureReason(Enum):
    """Why a checkpoint, or a request for one, did not complete; the value is its status in `_checkpoints`.

    Named after Flink's `CheckpointFailureReason`, as far as such a reason can arise here.
    """

    FINALIZE_CHECKPOINT_FAILURE = "failed"
    """Publishing raised an error: of the storage, or because the log is damaged."""
    CHECKPOINT_DECLINED = "declined"
    """The epoch that carried the barrier was not sealed. It has no row, as nothing durable records it."""
    CHECKPOINT_EXPIRED = "expired"
    """It took longer than the timeout."""
    CHECKPOINT_SUBSUMED = "subsumed"
    """A later checkpoint became visible first, which covers it."""
    CHECKPOINT_COORDINATOR_SHUTDOWN = "aborted"
    """The driver ended first; the next start covers it."""

    @property
    def status(self) -> Literal["failed", "declined", "expired", "subsumed", "aborted"]:
        """The status in `_checkpoints`."""
        return self.value

    @property
    def counts(self) -> bool:
        """Whether it counts towards the failures that a job tolerates.

        As in Flink, what is not a failure does not count: a later checkpoint covered it, or the driver ended.
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
        tolerable: Number of failures in a row that do not fail the job; None for any number.
    """

    def __init__(self, tolerable: int | None) -> None:
        self._tolerable = tolerable
        self._last = ""
        self.in_a_row = 0

    def failed(self, checkpoint_id: int, reason: FailureReason, message: str = "") -> None:
        """Counts a failure; one with a reason that does not count changes nothing."""
        if reason.counts:
            self.in_a_row += 1
            self._last = f"Checkpoint {checkpoint_id} {reason.value}{f': {message}' if message else '.'}"

    def completed(self) -> None:
        """Notes that a checkpoint became visible: the count of failures in a row begins anew."""
        self.in_a_row, self._last = 0, ""

    @property
    def error(self) -> CheckpointFailuresError | None:
        """The error with which the job has to fail, if any."""
        if self._tolerable is None or self.in_a_row <= self._tolerable:
            return None
        return CheckpointFailuresError(
            f"{self.in_a_row} checkpoints in a row failed; the job tolerates {self._tolerable}. {self._last}",
            action="No sealed epoch is lost: fix the cause of the last failure and start the job again. More are "
            "tolerated with set_tolerable_checkpoint_failure_number().",
        )


__all__ = ["FailureManager", "FailureReason"]
