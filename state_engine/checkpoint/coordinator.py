"""Decides on which epochs checkpoints fall, and what their ends mean. Pure: no I/O, no clock, no threads.

The barrier is a mark on an epoch (E1), the acknowledgement is the epoch's seal (E6). Publishing runs in the background
(E9); its end is reported here on the driver's thread.
"""

from collections.abc import Sequence

from state_engine.api.checkpoint_config import CheckpointConfig
from state_engine.checkpoint.failure_reasons import FailureManager, FailureReason
from state_engine.checkpoint.pending import Answer, End, PendingCheckpoint
from state_engine.checkpoint.requests import LOG_LENGTH, PERIODIC, CheckpointRequest, RequestDecider
from state_engine.epoch.inbox import Inbox
from state_engine.epoch.ports import Mark
from state_engine.errors import CheckpointFailuresError

FOLD_AFTER_EPOCHS = 1_000
"""A base is folded after this many epochs, also without configured checkpoints, so that catching up is bounded."""
FOLD_AFTER_BYTES = 256 << 20
"""A base is folded after this many bytes of changes, also without configured checkpoints."""
FOLD_AFTER_INLINED = 16 << 20
"""And after this many bytes of changes inlined in manifests: a process that follows the log has all in memory."""
REMEMBERED = 100
"""Number of ended checkpoints that are remembered, to answer late reports."""


class CheckpointCoordinator:
    """Marks epochs by time, by demand, or because the log has grown long; implements the `Barriers` port.

    Semantics of Flink's `CheckpointCoordinator`. Ids grow by one per job and are never used twice: the caller begins at
    the id after the highest durable one (`CheckpointPublisher.next_checkpoint_id`). An epoch that is run again keeps
    its id.

    Times are those of a steady clock (`Clock.steady_ms`): setting the wall clock changes no interval and no timeout.

    Args:
        config: Interval, pause, timeout and so on; by default there are checkpoints on demand only. It is read once.
        next_id: Id of the first checkpoint.
        last_epoch: Epoch of the newest base, from which the length of the log is counted.
        fold_after_epochs: Length of the log that causes a checkpoint by itself.
        fold_after_bytes: Bytes of changes that cause a checkpoint by themselves.
        fold_after_inlined: Bytes of changes inlined in manifests that cause a checkpoint by themselves.
    """

    def __init__(
        self,
        config: CheckpointConfig | None = None,
        *,
        next_id: int = 1,
        last_epoch: int = 0,
        fold_after_epochs: int = FOLD_AFTER_EPOCHS,
        fold_after_bytes: int = FOLD_AFTER_BYTES,
        fold_after_inlined: int = FOLD_AFTER_INLINED,
    ) -> None:
        config = config or CheckpointConfig()
        enabled, pause = config.is_checkpointing_enabled(), config.get_min_pause_between_checkpoints()
        self._interval_ms = config.get_checkpoint_interval() if enabled else None
        self._timeout_ms = config.get_checkpoint_timeout()
        # As in Flink: with a minimum pause only one checkpoint is under way at a time.
        self._decider = RequestDecider(pause, 1 if pause else config.get_max_concurrent_checkpoints())
        # A job without configured checkpoints does not fail because checkpoints fail.
        self._failures = FailureManager(config.get_tolerable_checkpoint_failure_number() if enabled else None)
        self._fold_after_epochs = fold_after_epochs
        self._fold_after_bytes = fold_after_bytes
        self._fold_after_inlined = fold_after_inlined
        self._log_bytes = self._inlined_bytes = 0
        self._next_id = next_id
        self._marked: tuple[int, Mark] | None = None
        self._last_epoch = self._newest_epoch = self._completed_epoch = last_epoch
        self._last_mark_ms: int | None = None
        self._last_end_ms: int | None = None
        self._inbox = Inbox[CheckpointRequest](lambda request: request.tell(None))
        self._pending: dict[int, PendingCheckpoint] = {}
        self._ended: dict[int, PendingCheckpoint] = {}

    # Beginnings -----------------------------------------------------------------------------------------------------

    def request(self, request: CheckpointRequest | None = None) -> None:
        """Requests a checkpoint at the next epoch at which one may begin; from any thread.

        The interval and the minimum pause do not matter. If the queue is full, or the driver has ended, the request is
        refused: its `tell` gets None.
        """
        self._inbox.put(request or CheckpointRequest())

    def resume(
        self,
        *,
        next_id: int,
        last_epoch: int,
        log_bytes: int = 0,
        inlined_bytes: int = 0,
        newest_epoch: int = 0,
        now_ms: int = 0,
    ) -> None:
        """Continues after a dead driver: begins at the id after the highest durable one, with nothing under way.

        Args:
            next_id: The id after the highest durable one.
            last_epoch: Epoch of the newest base.
            log_bytes: Bytes of changes after it.
            inlined_bytes: How many of them are inlined in manifests.
            newest_epoch: The newest epoch that has anything to fold. If no checkpoint covers it, the first interval
                begins now.
            now_ms: The present.
        """
        self._next_id = max(self._next_id, next_id)
        self._last_epoch = self._completed_epoch = last_epoch
        self._newest_epoch = max(newest_epoch, last_epoch)
        self._log_bytes, self._inlined_bytes = log_bytes, inlined_bytes
        self._last_mark_ms = now_ms if newest_epoch > last_epoch else None
        self._pending.clear()

    def checkpoint_at(self, epoch: int, now_ms: int) -> Mark | None:
        """Returns the checkpoint to take with this epoch, or None.

        The first call begins the first interval, unless `resume` did: a job that has just started has nothing to fold.
        """
        if self._marked is not None and self._marked[0] == epoch:
            return self._marked[1]
        if self._last_mark_ms is None:
            self._last_mark_ms = now_ms
        self._queue(epoch, now_ms)
        request = self._decider.choose(len(self._pending), self._last_end_ms, now_ms)
        if request is None:
            return None
        mark = Mark(checkpoint_id=self._next_id, full=request.full, trigger=request.trigger)
        self._next_id += 1
        self._marked = (epoch, mark)
        self._pending[mark.checkpoint_id] = PendingCheckpoint(mark.checkpoint_id, epoch, request, now_ms)
        self._last_mark_ms, self._last_epoch = now_ms, epoch
        self._log_bytes = self._inlined_bytes = 0
        return mark

    def _queue(self, epoch: int, now_ms: int) -> None:
        for request in self._inbox.take():
            refused = self._decider.add(request)
            if refused is not None:
                refused.tell(None)
        if self._interval_is_over(now_ms):
            self._decider.add(CheckpointRequest(PERIODIC, periodic=True))
        elif self._log_is_long(epoch):
            self._decider.add(CheckpointRequest(LOG_LENGTH, periodic=True))

    def _log_is_long(self, epoch: int) -> bool:
        return (
            epoch - self._last_epoch >= self._fold_after_epochs
            or self._log_bytes >= self._fold_after_bytes
            or self._inlined_bytes >= self._fold_after_inlined
        )

    def wants_epoch(self, now_ms: int) -> bool:
        """Returns whether an idle job should seal an epoch that carries a checkpoint; from any thread.

        It should if a checkpoint was requested, or if the interval is over and there are epochs that no checkpoint
        covers.
        """
        if len(self._pending) >= self._decider.max_concurrent:
            return False
        covered = max((one.epoch for one in tuple(self._pending.values())), default=self._completed_epoch)
        uncovered = self._newest_epoch > covered and self._interval_is_over(now_ms)
        return bool(self._inbox) or self._decider.may_begin(uncovered, self._last_end_ms, now_ms)

    def _interval_is_over(self, now_ms: int) -> bool:
        started = self._last_mark_ms
        return self._interval_ms is not None and started is not None and now_ms - started >= self._interval_ms

    def next_id(self) -> int:
        """Returns the id that the next checkpoint gets."""
        return self._next_id

    @property
    def pending(self) -> Sequence[PendingCheckpoint]:
        """The checkpoints that are under way, oldest first."""
        return tuple(self._pending.values())

    # News -----------------------------------------------------------------------------------------------------------

    def sealed(self, epoch: int, log_bytes: int, inlined_bytes: int = 0) -> None:
        """Counts a sealed epoch: `log_bytes` of changes, of these `inlined_bytes` in its manifest."""
        self._newest_epoch = epoch
        self._log_bytes += log_bytes
        self._inlined_bytes += inlined_bytes

    def acknowledged(self, checkpoint_id: int, now_ms: int) -> Answer:
        """Notes that the epoch that carries the checkpoint was sealed."""
        checkpoint = self._known(checkpoint_id)
        return Answer.UNKNOWN if checkpoint is None else checkpoint.acknowledge(now_ms)

    def completed(self, checkpoint_id: int, now_ms: int) -> Answer:
        """Notes that a checkpoint became visible. Earlier ones that have not ended are subsumed: it covers them."""
        answer = self._finish(checkpoint_id, End(now_ms))
        if answer is Answer.SUCCESS:
            self._failures.completed()
            self._completed_epoch = self._ended[checkpoint_id].epoch
            for earlier in [number for number in self._pending if number < checkpoint_id]:
                self._finish(earlier, End(now_ms, FailureReason.CHECKPOINT_SUBSUMED))
        return answer

    def failed(self, checkpoint_id: int, now_ms: int, reason: FailureReason, message: str = "") -> Answer:
        """Notes that a checkpoint did not complete; the next one covers its interval."""
        answer = self._finish(checkpoint_id, End(now_ms, reason, message))
        if answer is Answer.SUCCESS:
            self._failures.failed(checkpoint_id, reason, message)
        return answer

    def declined(self, checkpoint_id: int, now_ms: int, message: str = "") -> Answer:
        """Notes that the epoch that was to carry the checkpoint was not sealed."""
        if self._marked is not None and self._marked[1].checkpoint_id == checkpoint_id:
            self._marked = None  # an epoch that is run again may carry another one
        return self.failed(checkpoint_id, now_ms, FailureReason.CHECKPOINT_DECLINED, message)

    def overdue(self, now_ms: int) -> list[int]:
        """Returns the checkpoints that take longer than the timeout, for their publisher to abandon.

        Those that are just becoming visible cannot be abandoned any more; the others end as `CHECKPOINT_EXPIRED`.
        """
        return [number for number, pending in self._pending.items() if pending.has_expired(now_ms, self._timeout_ms)]

    def shut_down(self, now_ms: int) -> None:
        """Notes that the driver ends: checkpoints under way are left to the next driver, waiting requests refused."""
        for number in list(self._pending):
            self._finish(number, End(now_ms, FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN))
        self._inbox.close()
        for request in self._decider.clear():
            request.tell(None)

    @property
    def error(self) -> CheckpointFailuresError | None:
        """The error with which the job has to fail, if more checkpoints failed in a row than it tolerates."""
        return self._failures.error

    def _known(self, checkpoint_id: int) -> PendingCheckpoint | None:
        return self._pending.get(checkpoint_id) or self._ended.get(checkpoint_id)

    def _finish(self, checkpoint_id: int, end: End) -> Answer:
        checkpoint = self._known(checkpoint_id)
        if checkpoint is None:
            return Answer.UNKNOWN
        answer = checkpoint.finish(end)
        if answer is Answer.SUCCESS:
            del self._pending[checkpoint_id]
            self._ended[checkpoint_id] = checkpoint
            self._last_end_ms = end.at_ms
            while len(self._ended) > REMEMBERED:
                del self._ended[next(iter(self._ended))]
            checkpoint.request.tell(checkpoint)
        return answer


__all__ = ["FOLD_AFTER_BYTES", "FOLD_AFTER_EPOCHS", "CheckpointCoordinator"]
