"""A rescale that somebody waits for."""

import threading

from state_engine.errors import RescaleError
from state_engine.log.manifest import StoredManifest


class RescaleFuture:
    """How a rescale of a running job ends.

    Args:
        job: Name of the job, for messages.
    """

    def __init__(self, job: str) -> None:
        self._job = job
        self._ended = threading.Event()
        self._sealed: StoredManifest | None = None
        self._why = ""

    def tell(self, sealed: StoredManifest | None, why: str) -> None:
        """Takes the end: the first manifest with the new parallelism, or why there is none."""
        self._sealed, self._why = sealed, why
        self._ended.set()

    def done(self) -> bool:
        """Says whether it has ended."""
        return self._ended.is_set()

    def result(self, timeout_s: float | None = None) -> int:
        """Waits for the end and returns the number of the first epoch with the new parallelism.

        Raises:
            RescaleError: It came to nothing.
            TimeoutError: It has not ended yet.
        """
        if not self._ended.wait(timeout_s):
            raise TimeoutError(f"Job {self._job!r} was not rescaled within {timeout_s} s.")
        if self._sealed is None:
            raise RescaleError(
                f"Job {self._job!r} was not rescaled: {self._why}.",
                action="See whether the job runs, and ask again; or start it with another parallelism.",
            )
        return self._sealed.manifest.epoch


__all__ = ["RescaleFuture"]
