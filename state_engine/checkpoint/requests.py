"""Queues requests for checkpoints and decides which is next. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from state_engine.checkpoint.pending import PendingCheckpoint

MAX_QUEUED = 1_000

PERIODIC = "coordinator"
"""Trigger of a checkpoint that only the interval requested."""
LOG_LENGTH = "log length"
"""Trigger of a checkpoint without a request: the log after the newest base has grown long."""


def _ignore(_: "PendingCheckpoint | None") -> None:
    """The default of `tell`, for a request that no caller waits for."""


@dataclass(frozen=True, eq=False)
class CheckpointRequest:
    """A request for a checkpoint.

    Args:
        trigger: Who requested it.
        full: Whether the state is folded from scratch, whatever the last checkpoint left.
        periodic: Whether the coordinator made it by itself, so that the minimum pause holds for it.
        tell: Called with the checkpoint when it has ended, on the driver's thread; with None if it never began.
    """

    trigger: str = "user"
    full: bool = False
    periodic: bool = False
    tell: "Callable[[PendingCheckpoint | None], None]" = _ignore


@dataclass
class RequestDecider:
    """Queues requests and admits one at a time, as Flink's `CheckpointRequestDecider`.

    Requests of callers come before periodic ones. At most one periodic request waits. The minimum pause counts from the
    end of the last checkpoint and holds for periodic requests only.

    Args:
        min_pause_ms: Least time between an end and the next beginning.
        max_concurrent: How many checkpoints may be under way at once.
        max_queued: How many requests may wait.
    """

    min_pause_ms: int = 0
    max_concurrent: int = 1
    max_queued: int = MAX_QUEUED
    _queue: list[CheckpointRequest] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, request: CheckpointRequest) -> CheckpointRequest | None:
        """Queues a request.

        Returns:
            The request that was dropped because the queue is full: the periodic one, or else the new one.
        """
        if request.periodic:
            if any(waiting.periodic for waiting in self._queue):
                return None
            self._queue.append(request)
        else:
            place = next((n for n, waiting in enumerate(self._queue) if waiting.periodic), len(self._queue))
            self._queue.insert(place, request)
        if len(self._queue) <= self.max_queued:
            return None
        return self._queue.pop()  # the periodic one is last

    def clear(self) -> list[CheckpointRequest]:
        """Takes all requests out of the queue."""
        waiting, self._queue = self._queue, []
        return waiting

    def choose(self, under_way: int, last_end_ms: int | None, now_ms: int) -> CheckpointRequest | None:
        """Takes the request that may begin now out of the queue.

        Args:
            under_way: Number of checkpoints that have begun and not ended.
            last_end_ms: When the last one ended.
            now_ms: The present.
        """
        if under_way >= self.max_concurrent or not self.may_begin(False, last_end_ms, now_ms):
            return None
        return self._queue.pop(0)

    def may_begin(self, one_more: bool, last_end_ms: int | None, now_ms: int) -> bool:
        """Returns whether a request waits that the minimum pause does not hold back.

        Args:
            one_more: Whether to assume that a periodic request waits too.
            last_end_ms: When the last one ended.
            now_ms: The present.
        """
        if any(not waiting.periodic for waiting in self._queue):
            return True
        pausing = last_end_ms is not None and now_ms - last_end_ms < self.min_pause_ms
        return (one_more or bool(self._queue)) and not pausing


__all__ = ["LOG_LENGTH", "MAX_QUEUED", "PERIODIC", "CheckpointRequest", "RequestDecider"]
