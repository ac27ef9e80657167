"""Epochs that no batch brings: for timers that are due, and for the end of the input."""

import threading
from collections.abc import Callable


class Heartbeat:
    """A thread that looks after a job between its batches, until its query has ended.

    Args:
        name: Of the thread.
        interval_ms: How often it looks.
        has_ended: Waits up to so many seconds for the end of the query, and says whether it has ended.
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
        beat: Callable[[], None],
        at_end: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._interval = interval_ms / 1000
        self._has_ended = has_ended
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
            while not self._has_ended(self._interval) and not self._stopped.is_set():
                self._beat()
            if not self._stopped.is_set():
                self._at_end()
        except BaseException as error:
            self._failed(error)


__all__ = ["Heartbeat"]
