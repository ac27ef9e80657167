"""The future of a rescale."""

import threading

from state_engine.errors import RescaleError
from state_engine.log.manifest import StoredManifest


class RescaleFuture:
    """Lets a caller wait for a rescale of a running job, and learn how it ends.

    Args:
        job: Name of the job, for messages.
    """

    def __init__(self, job: str) -> None:
        self._job = job
        self._ended = threading.Event()
        self._sealed: StoredManifest | None = None
        self._why = ""

    def tell(self, sealed: StoredManifest | None, why: str) -> None:
        """Notes that the rescale has ended: with the first manifest of the new parallelism, or why there is none."""
        self._sealed, self._why = sealed, why
        self._ended.set()

    def done(self) -> bool:
        """Returns whether the rescale has ended."""
        return self._ended.is_set()

    def result(self, timeout_s: float | None = None) -> int:
        """Waits for the end and returns the number of the first epoch with the new parallelism.

        Raises:
            RescaleError: The job was not rescaled.
            TimeoutError: It has not ended yet.
        """
        if not self._ended.wait(timeout_s):
            raise TimeoutError(f"Job {self._job!r} was not rescaled within {timeout_s} s.")
        if self._sealed is None:
            raise RescaleError(
                f"Job {self._job!r} was not rescaled: {self._why}.",
                action="Check that the job runs, and ask again; or start it with another parallelism.",
            )
        return self._sealed.manifest.epoch


__all__ = ["RescaleFuture"]
