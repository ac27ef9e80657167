"""Epochs that no batch brings: for timers that are due, and for the end of the input."""

import threading
from collections.abc import Callable
from typing import NamedTuple

from state_engine.clock import Clock

PATIENCE = 10
"""Timers wait for the next batch where batches take no longer than so many heartbeats; behind longer ones they would
wait too long, and an epoch of their own costs little beside these."""

LONGEST_S = 1.0
"""Longest time without a look whether the query has ended, its engine is gone, or another driver owns the job."""


class _Batch(NamedTuple):
    took_ms: int
    ended_ms: int


class Pace:
    """How closely the batches of a running job follow each other.

    A batch fires the timers that the one before has made due. As long as the next one is about to come, an epoch for
    them alone would only keep it waiting: a job whose windows end in every batch took an eighth less time without it.

    Args:
        interval_ms: How often the job looks whether something is due.
        clock: Time.
    """

    def __init__(self, interval_ms: int, clock: Clock) -> None:
        self._interval = interval_ms
        self._clock = clock
        self._last: _Batch | None = None

    def ended(self, took_ms: int) -> None:
        """Takes that a batch has ended which took so long."""
        self._last = _Batch(took_ms, self._clock.steady_ms())

    def expects_batch(self) -> bool:
        """Says whether the next batch should be there before it is worth an epoch without one; from any thread."""
        last = self._last
        if last is None or last.took_ms > PATIENCE * self._interval:
            return False
        return self._clock.steady_ms() - last.ended_ms < max(self._interval, last.took_ms)


class Heartbeat:
    """A thread that looks after a job between its batches, until its query has ended.

    Args:
        name: Of the thread.
        interval_ms: How often it looks.
        has_ended: Waits up to so many seconds for the end of the query, and says whether it has ended.
        watch: Looks whether the job is still this driver's; at least once a second, however rare the epochs.
        beat: Runs an epoch if one is due.
        at_end: Called once the query has ended by itself.
        failed: Is told what either of them raised; nothing is called after it.
    """

    def __init__(
        self,
        name: str,
        interval_ms: int,
        *,
        has_ended: Callable[[float], bool],
        watch: Callable[[], None],
        beat: Callable[[], None],
        at_end: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._interval = interval_ms / 1000
        self._has_ended = has_ended
        self._watch = watch
        self._beat = beat
        self._at_end = at_end
        self._failed = failed
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Waits for the end of the thread, whose query was stopped; the epoch that it may be running ends first."""
        self._stopped.set()
        self.wait()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the end of the thread; says whether it has ended."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def running(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._ends_within(self._interval) and not self._stopped.is_set():
                self._beat()
            if not self._stopped.is_set():
                self._at_end()
        except BaseException as error:
            self._failed(error)

    def _ends_within(self, left_s: float) -> bool:
        while left_s > 0:
            piece = min(left_s, LONGEST_S)
            if self._has_ended(piece):
                return True
            if self._stopped.is_set():
                return False
            self._watch()
            left_s -= piece
        return False


__all__ = ["LONGEST_S", "PATIENCE", "Heartbeat", "Pace"]
