"""Registers asynchronous operations by trigger id, as Flink's `AbstractAsynchronousOperationHandlers` does. Pure."""

import threading
from collections.abc import Callable
from typing import Literal, NamedTuple

from state_engine.errors import LakestateError

Kind = Literal["savepoint", "checkpoint", "savepoint-disposal", "rescaling", "key-groups", "retention"]

KEPT_MS = 300_000
"""How long the result of an operation is available; Flink's `rest.async.store-duration`."""
MAX_RUNNING = 100
"""Maximum number of operations under way."""


class UnknownOperationError(LakestateError):
    """There is no such operation, or it ended long ago."""


class TooManyOperationsError(LakestateError):
    """Too many operations are under way."""


class Key(NamedTuple):
    """The key of an operation. `job_id` is empty for an operation that belongs to no job."""

    kind: Kind
    job_id: str
    trigger_id: str


class Outcome(NamedTuple):
    """How an operation ended: with a result, or with an error."""

    result: object = None
    error: BaseException | None = None


class Ended(NamedTuple):
    """An operation that has ended, and when, in ms."""

    key: Key
    at_ms: int
    outcome: Outcome


class _Entry:
    """One operation; `read` is whether a client has read its result."""

    def __init__(self) -> None:
        self.outcome: Outcome | None = None
        self.ended_ms = 0
        self.read = False


class TriggerRegistry:
    """Registers operations, and returns their results once they have ended. Safe for threads.

    Args:
        new_id: Returns new trigger ids of 32 hexadecimal digits.
        now_ms: Returns the current time.
        kept_ms: How long a result is remembered.
        max_running: How many operations may be under way.
    """

    def __init__(
        self,
        new_id: Callable[[], str],
        now_ms: Callable[[], int],
        *,
        kept_ms: int = KEPT_MS,
        max_running: int = MAX_RUNNING,
    ) -> None:
        self._new_id = new_id
        self._now_ms = now_ms
        self._kept_ms = kept_ms
        self._max_running = max_running
        self._lock = threading.Lock()
        self._entries: dict[Key, _Entry] = {}

    def begin(self, kind: Kind, job_id: str, trigger_id: str | None = None) -> tuple[Key, bool]:
        """Registers an operation.

        Args:
            kind: Of the operation.
            job_id: Of the job, or empty.
            trigger_id: The caller's own id. A second request with it begins nothing.

        Returns:
            The key, and whether the operation is new, so that it has to be started.

        Raises:
            TooManyOperationsError: Too many are under way.
        """
        with self._lock:
            self._forget()
            key = Key(kind, job_id, trigger_id or self._new_id())
            if key in self._entries:
                return key, False
            if self._running() >= self._max_running:
                raise TooManyOperationsError(
                    f"{self._max_running} operations are under way.", action="Wait for some of them to end."
                )
            self._entries[key] = _Entry()
            return key, True

    def end(self, key: Key, outcome: Outcome) -> None:
        """Records how an operation ended."""
        with self._lock:
            entry = self._entries[key]
            entry.outcome, entry.ended_ms = outcome, self._now_ms()

    def look(self, key: Key) -> Outcome | None:
        """Returns how an operation ended; null while it is under way.

        Raises:
            UnknownOperationError: There is none with this key.
        """
        with self._lock:
            self._forget()
            entry = self._entries.get(key)
            if entry is None:
                raise UnknownOperationError(
                    f"Operation not found under key: (triggerId={key.trigger_id}, jobId={key.job_id}).",
                    action=f"Results are remembered for {self._kept_ms // 1000} s; check the ids.",
                )
            entry.read = entry.read or entry.outcome is not None
            return entry.outcome

    @property
    def running(self) -> int:
        """Number of operations under way."""
        with self._lock:
            return self._running()

    @property
    def unread(self) -> int:
        """Number of operations that are under way, or that have ended with a result that no client has read."""
        with self._lock:
            return sum(not entry.read for entry in self._entries.values())

    def ends(self) -> list[Ended]:
        """Returns the remembered operations that have ended, oldest first."""
        with self._lock:
            self._forget()
            entries = [(key, entry.ended_ms, entry.outcome) for key, entry in self._entries.items()]
        return [Ended(key, at_ms, outcome) for key, at_ms, outcome in entries if outcome is not None]

    def _running(self) -> int:
        return sum(entry.outcome is None for entry in self._entries.values())

    def _forget(self) -> None:
        horizon = self._now_ms() - self._kept_ms
        old = [key for key, entry in self._entries.items() if entry.outcome is not None and entry.ended_ms < horizon]
        for key in old:
            del self._entries[key]


__all__ = [
    "KEPT_MS",
    "MAX_RUNNING",
    "Ended",
    "Key",
    "Kind",
    "Outcome",
    "TooManyOperationsError",
    "TriggerRegistry",
    "UnknownOperationError",
]
