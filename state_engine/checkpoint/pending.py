"""A checkpoint from its mark to its end. Pure."""

from enum import Enum
from typing import NamedTuple

from state_engine.checkpoint.failure_reasons import FailureReason
from state_engine.checkpoint.requests import CheckpointRequest


class Answer(Enum):
    """The coordinator's answer to a report about a checkpoint; no answer is an error."""

    SUCCESS = "success"
    DUPLICATE = "duplicate"
    """The same was reported before."""
    DISCARDED = "discarded"
    """The checkpoint had already ended, in another way than reported."""
    UNKNOWN = "unknown"
    """There never was a checkpoint of this id in this incarnation."""


class End(NamedTuple):
    """How a checkpoint ended; `reason` is None if it became visible."""

    at_ms: int
    reason: FailureReason | None = None
    message: str = ""


class PendingCheckpoint:
    """A checkpoint that was marked on an epoch.

    ```
    marked ──> sealed (all subtasks acknowledged, E6) ──> publishing ──> visible
       │            └───────── expired, failed, subsumed, shut down ─────┘
       └── declined (the epoch was not sealed)
    ```

    Args:
        checkpoint_id: Its id.
        epoch: The epoch that carries its barrier.
        request: The request for it.
        began_ms: When it was marked.
    """

    def __init__(self, checkpoint_id: int, epoch: int, request: CheckpointRequest, began_ms: int) -> None:
        self.checkpoint_id = checkpoint_id
        self.epoch = epoch
        self.request = request
        self.began_ms = began_ms
        self.sealed_ms: int | None = None
        self.end: End | None = None

    def acknowledge(self, now_ms: int) -> Answer:
        """Notes that all subtasks acknowledged, and that the epoch is sealed."""
        if self.end is not None:
            return Answer.DISCARDED
        if self.sealed_ms is not None:
            return Answer.DUPLICATE
        self.sealed_ms = now_ms
        return Answer.SUCCESS

    def finish(self, end: End) -> Answer:
        """Notes how it ended."""
        if self.end is not None:
            return Answer.DUPLICATE if self.end.reason is end.reason else Answer.DISCARDED
        self.end = end
        return Answer.SUCCESS

    def has_expired(self, now_ms: int, timeout_ms: int) -> bool:
        """Returns whether it takes too long. The time counts from the mark, as in Flink."""
        return self.end is None and now_ms - self.began_ms >= timeout_ms


__all__ = ["Answer", "End", "PendingCheckpoint"]
