"""One attempt at copying state below a job's root: its progress, its cancellation, and its clean-up."""

from collections.abc import Callable

from state_engine.errors import RestoreCancelledError
from state_engine.storage.deleting import delete_all
from state_engine.storage.port import CheckpointStorage

Progress = Callable[[str, float], None]
"""Called with what is being done, and with the share that is done, from 0 to 1."""


class CopyAttempt:
    """One attempt at copying state: reports progress, ends when it is cancelled, and can remove what it wrote.

    Args:
        storage: Of the job.
        folder: Where the copies go. Files that an earlier attempt left there are kept.
        cancelled: Called between two files, or ranges of key groups; when it returns True, the attempt ends.
        progress: Called with the progress.
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
        """Adds to the total amount of work, in any unit."""
        self._total += total

    def add_done(self, amount: float, what: str) -> None:
        """Adds to the amount of work that is done, and reports the progress."""
        self._done += amount
        if self._progress is not None:
            self._progress(what, min(1.0, self._done / self._total) if self._total else 1.0)

    def raise_if_cancelled(self) -> None:
        """Raises RestoreCancelledError if the attempt was cancelled."""
        if self._cancelled is not None and self._cancelled():
            raise RestoreCancelledError(
                "The restore was cancelled while it copied state.", action="Nothing; the job is as it was."
            )

    def discard(self) -> None:
        """Removes what this attempt wrote; nothing names it yet."""
        delete_all(
            self._storage, [info.path for info in self._storage.list(self._folder) if info.path not in self._before]
        )


__all__ = ["CopyAttempt", "Progress"]
