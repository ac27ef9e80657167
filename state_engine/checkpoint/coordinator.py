"""Decides on which epochs a checkpoint falls. Pure: no I/O, no clock, no threads.

The barrier is a mark on an epoch (E1). Publishing takes place in the background (E9) and is reported back by
`completed` and `failed`, on the driver's thread.
"""

FOLD_AFTER_EPOCHS = 1_000
"""Without any configured checkpoint a base is folded after this many epochs, so that catching up is bounded."""


class CheckpointCoordinator:
    """Marks epochs by time, by demand, or because the log has grown long; implements the `Barriers` port.

    Semantics of Flink's `CheckpointCoordinator` for interval, minimum pause and concurrent checkpoints. Ids grow by
    one per job and are never used twice: the caller begins at the id after the highest durable one
    (`CheckpointPublisher.next_checkpoint_id`). An epoch that is run again keeps its id.

    Args:
        interval_ms: Time between two marks; null means that only demand and log length cause checkpoints.
        min_pause_ms: Time between the end of one checkpoint and the next mark.
        max_concurrent: Checkpoints that may be under way at once.
        next_id: Id of the first checkpoint.
        last_epoch: Epoch of the newest base, from which the length of the log is counted.
        fold_after_epochs: Length of the log that causes a checkpoint by itself.
    """

    def __init__(
        self,
        interval_ms: int | None,
        min_pause_ms: int = 0,
        max_concurrent: int = 1,
        *,
        next_id: int = 1,
        last_epoch: int = 0,
        fold_after_epochs: int = FOLD_AFTER_EPOCHS,
    ) -> None:
        if (interval_ms is not None and interval_ms < 1) or min_pause_ms < 0 or max_concurrent < 1:
            raise ValueError("interval_ms and max_concurrent must be at least 1, min_pause_ms at least 0")
        self._interval_ms = interval_ms
        self._min_pause_ms = min_pause_ms
        self._max_concurrent = max_concurrent
        self._fold_after_epochs = fold_after_epochs
        self._next_id = next_id
        self._marked: tuple[int, int] | None = None
        self._last_epoch = last_epoch
        self._last_mark_ms: int | None = None
        self._last_end_ms: int | None = None
        self._demanded = False
        self._under_way: set[int] = set()
        self.consecutive_failures = 0

    def request(self) -> None:
        """Asks for a checkpoint at the next epoch at which one may be under way; the interval does not matter."""
        self._demanded = True

    def resume(self, *, next_id: int, last_epoch: int) -> None:
        """Begins at the id after the highest durable one; what was under way belongs to a dead driver."""
        self._next_id = max(self._next_id, next_id)
        self._last_epoch = last_epoch
        self._under_way.clear()

    def checkpoint_at(self, epoch: int, now_ms: int) -> int | None:
        """Returns the id of the checkpoint to take with this epoch, or None.

        The first call begins the first interval, as a job that has just started has nothing new to fold.
        """
        if self._marked is not None and self._marked[0] == epoch:
            return self._marked[1]
        if self._last_mark_ms is None:
            self._last_mark_ms = now_ms
        if len(self._under_way) >= self._max_concurrent or not self._is_due(epoch, now_ms):
            return None
        checkpoint_id = self._next_id
        self._next_id += 1
        self._marked = (epoch, checkpoint_id)
        self._under_way.add(checkpoint_id)
        self._last_mark_ms, self._last_epoch, self._demanded = now_ms, epoch, False
        return checkpoint_id

    def next_id(self) -> int:
        """Returns the id that the next checkpoint gets."""
        return self._next_id

    def completed(self, checkpoint_id: int, now_ms: int) -> None:
        """A checkpoint became visible."""
        self._under_way.discard(checkpoint_id)
        self._last_end_ms = now_ms
        self.consecutive_failures = 0

    def failed(self, checkpoint_id: int, now_ms: int) -> None:
        """A checkpoint was given up; the next one covers its interval."""
        self._under_way.discard(checkpoint_id)
        self._last_end_ms = now_ms
        self.consecutive_failures += 1

    def _is_due(self, epoch: int, now_ms: int) -> bool:
        if self._demanded:
            return True
        if self._last_end_ms is not None and now_ms - self._last_end_ms < self._min_pause_ms:
            return False
        if epoch - self._last_epoch >= self._fold_after_epochs:
            return True
        started = self._last_mark_ms
        return self._interval_ms is not None and started is not None and now_ms - started >= self._interval_ms


__all__ = ["FOLD_AFTER_EPOCHS", "CheckpointCoordinator"]
