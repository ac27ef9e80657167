"""One attempt at copying state below a job's root: how far it is, whether it shall go on, and what it leaves."""

from collections.abc import Callable

from state_engine.errors import RestoreCancelledError
from state_engine.storage.port import CheckpointStorage

Progress = Callable[[str, float], None]
"""Is told what is being done, and the share that is done, from 0 to 1."""


class CopyAttempt:
    """One attempt.

    Args:
        storage: Of the job.
        folder: Where the copies go. What an earlier attempt left there is gone on with.
        cancelled: Asked between two files, or ranges of key groups; once it says True the attempt ends.
        progress: Is told how far it is.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        folder: str,
        *,
        cancelled: Callable[[], bool] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._cancelled = cancelled
        self._progress = progress
        self._before = {info.path for info in storage.list(folder)}
        self._total = self._done = 0.0

    def expect(self, total: float) -> None:
        """Takes down how much there is to do, in any unit."""
        self._total += total

    def has_done(self, amount: float, what: str) -> None:
        """Says that so much more is done."""
        self._done += amount
        if self._progress is not None:
            self._progress(what, min(1.0, self._done / self._total) if self._total else 1.0)

    def go_on(self) -> None:
        """Raises RestoreCancelledError if it was given up."""
        if self._cancelled is not None and self._cancelled():
            raise RestoreCancelledError(
                "The restore was cancelled while it copied state.", action="Nothing; the job is as it was."
            )

    def discard(self) -> None:
        """Removes what this attempt wrote; nothing names it yet."""
        for info in self._storage.list(self._folder):
            if info.path not in self._before:
                self._storage.delete(info.path)


__all__ = ["CopyAttempt", "Progress"]
