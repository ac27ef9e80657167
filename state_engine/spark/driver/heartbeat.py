"""Runs epochs without a batch: for timers that are due, and for the end of the input."""

import threading
from collections.abc import Callable
from typing import NamedTuple

from state_engine.clock import Clock

PATIENCE = 10
"""Due timers wait for the next batch if batches take no longer than this number of heartbeats. After longer batches
they would wait too long, and compared with these an epoch of their own costs little."""

LONGEST_S = 1.0
"""Longest time between checks whether the query has ended, its engine is gone, or another driver owns the job."""


class _Batch(NamedTuple):
    took_ms: int
    ended_ms: int


class Pace:
    """Measures how closely the batches of a job follow each other, to decide whether due timers wait for the next one.

    A batch fires the timers that the batch before it has made due. While the next batch is about to come, an epoch for
    these timers alone would only delay it. A job with windows that end in every batch took an eighth less time without
    such epochs.

    Args:
        interval_ms: How often the job checks whether something is due.
        clock: The clock.
    """

    def __init__(self, interval_ms: int, clock: Clock) -> None:
        self._interval = interval_ms
        self._clock = clock
        self._last: _Batch | None = None

    def ended(self, took_ms: int) -> None:
        """Notes that a batch has just ended, and how long it took."""
        self._last = _Batch(took_ms, self._clock.steady_ms())

    def expects_batch(self) -> bool:
        """Returns whether the next batch should come before an epoch without one is worth it; from any thread."""
        last = self._last
        if last is None or last.took_ms > PATIENCE * self._interval:
            return False
        return self._clock.steady_ms() - last.ended_ms < max(self._interval, last.took_ms)


class Heartbeat:
    """A thread that looks after a job between its batches, until its query has ended.

    Args:
        name: Name of the thread.
        interval_ms: How often it calls `beat`.
        has_ended: Waits for the end of the query, up to the seconds given, and returns whether it has ended.
        watch: Checks whether the job is still this driver's. Called at least once a second, however rare the epochs.
        beat: Runs an epoch if one is due.
        at_end: Called once the query has ended by itself.
        failed: Called with the error that any of these raised; nothing is called after it.
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
        """Waits for the end of the thread, after its query was stopped; an epoch that the thread runs ends first."""
        self._stopped.set()
        self.wait()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the end of the thread; returns whether it has ended."""
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
