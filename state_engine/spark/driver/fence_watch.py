"""Detects that another driver has taken a job over, for a driver that seals nothing and so would not find out."""

import logging

from state_engine.clock import Clock
from state_engine.epoch.ports import Log
from state_engine.errors import NotFoundError, StorageError
from state_engine.log.manifest import StoredManifest

_log = logging.getLogger(__name__)


class FenceWatch:
    """Reads one name from storage now and then: the manifest after this driver's newest one.

    A seal shows as well that the job is still this driver's, so a busy driver never reads that name. A claim or a
    closing manifest stays where it is at least until retention frees its epoch. A driver that slept that long finds out
    with its next epoch.

    Args:
        log: The job's chain of manifests, for this alone: the driver uses its own one at the same time.
        interval_ms: Least time between two reads, and between a seal and the first read.
        clock: The clock.
    """

    def __init__(self, log: Log, interval_ms: int, clock: Clock) -> None:
        self._log = log
        self._interval = interval_ms
        self._clock = clock
        self._place = (0, 0)
        self._since = 0

    def look(self, head: StoredManifest) -> StoredManifest | None:
        """Returns the manifest after this driver's newest one; None if none exists, or it is too early to read.

        If storage does not answer, the next read comes after the same interval.

        Raises:
            CorruptionError: The manifest exists and cannot be read.
        """
        now, place = self._clock.steady_ms(), (head.manifest.generation, head.manifest.epoch)
        if place != self._place:
            self._place, self._since = place, now
        if now - self._since < self._interval:
            return None
        self._since = now
        try:
            return self._log.read(place[0], place[1] + 1)
        except NotFoundError:
            return None
        except StorageError as error:
            _log.warning("Storage does not answer whether job %r is still ours: %s", head.manifest.job, error)
            return None


__all__ = ["FenceWatch"]
