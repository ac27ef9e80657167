"""Whether another driver has taken a job over, for a driver that seals nothing and so would not find out."""

import logging

from state_engine.clock import Clock
from state_engine.epoch.ports import Log
from state_engine.errors import NotFoundError, StorageError
from state_engine.log.manifest import StoredManifest

_log = logging.getLogger(__name__)


class FenceWatch:
    """Asks storage now and then for one name: the manifest behind the newest one of this driver.

    A seal shows as well that the job is still this driver's, so that a busy one is never asked for. A claim or a
    closing manifest stays where it is at least until retention frees its epoch: a driver that slept as long finds out
    with its next epoch.

    Args:
        log: The job's chain of manifests, for this alone: the driver's own is in use meanwhile.
        interval_ms: Least time between two questions, and between a seal and the first one.
        clock: Time.
    """

    def __init__(self, log: Log, interval_ms: int, clock: Clock) -> None:
        self._log = log
        self._interval = interval_ms
        self._clock = clock
        self._place = (0, 0)
        self._since = 0

    def look(self, head: StoredManifest) -> StoredManifest | None:
        """Returns the manifest behind the newest one of this driver; null if there is none, or it is too early to ask.

        What storage does not answer is asked again after the same time.

        Raises:
            CorruptionError: There is one, and it cannot be read.
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
            _log.warning("Storage does not say whether job %r is still ours: %s", head.manifest.job, error)
            return None


__all__ = ["FenceWatch"]
