"""The future of a checkpoint on demand."""

import threading

from state_engine.checkpoint.pending import PendingCheckpoint
from state_engine.errors import CheckpointFailedError


class CheckpointFuture:
    """Lets a caller wait for a checkpoint that it has requested, and learn how it ends.

    Args:
        job: Name of the job, for messages.
    """

    def __init__(self, job: str) -> None:
        self._job = job
        self._ended = threading.Event()
        self._checkpoint: PendingCheckpoint | None = None

    def tell(self, checkpoint: PendingCheckpoint | None) -> None:
        """Notes that the checkpoint has ended; None if it never began."""
        self._checkpoint = checkpoint
        self._ended.set()

    def done(self) -> bool:
        """Returns whether the checkpoint has ended."""
        return self._ended.is_set()

    def result(self, timeout_s: float | None = None) -> int:
        """Waits for the end and returns the checkpoint's id.

        Raises:
            CheckpointFailedError: The checkpoint failed, or never began.
            TimeoutError: It has not ended yet.
        """
        if not self._ended.wait(timeout_s):
            raise TimeoutError(f"The checkpoint of job {self._job!r} has not ended within {timeout_s} s.")
        checkpoint = self._checkpoint
        if checkpoint is None or checkpoint.end is None:
            raise CheckpointFailedError(
                f"No checkpoint of job {self._job!r} was begun.",
                action="The job has ended, or too many requests wait already; check that it runs and ask again.",
            )
        if checkpoint.end.reason is not None:
            raise CheckpointFailedError(
                f"Checkpoint {checkpoint.checkpoint_id} of job {self._job!r} {checkpoint.end.reason.status}: "
                f"{checkpoint.end.message or checkpoint.end.reason.name.replace('_', ' ').lower()}",
                action="Every sealed epoch is kept. Fix the cause and ask again.",
            )
        return checkpoint.checkpoint_id


__all__ = ["CheckpointFuture"]
