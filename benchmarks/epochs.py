"""When each epoch ended: one instrument for every engine, since all of them are Spark streaming queries.

It counts what Spark itself does around a batch (offsets, commit logs) for every engine alike.
"""

import threading
from datetime import datetime

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

PASSED = "passed"
"""What a query calls the number of its rows, if it observes that."""


class EpochEnds(StreamingQueryListener):
    """Collects the end of each batch that ran; register it before the query starts.

    Attributes:
        passed: How many rows the query counted in all batches, if it observes that.
    """

    def __init__(self) -> None:
        self.passed = 0
        self._ends: dict[int, float] = {}
        self._terminated = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        if "addBatch" in progress.durationMs:  # otherwise the trigger found nothing to do
            started = datetime.fromisoformat(progress.timestamp).timestamp()
            self._ends[progress.batchId] = started + progress.durationMs["triggerExecution"] / 1000
            observed = progress.observedMetrics.get(PASSED)
            self.passed += observed[PASSED] if observed is not None else 0

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._terminated.set()

    def wait(self, epochs: int, timeout: float = 60.0) -> list[float]:
        """Returns the ends in order, seconds since 1970, once the query's last event has arrived.

        Raises:
            RuntimeError: Spark reported another number of batches than the input has epochs.
        """
        self._terminated.wait(timeout)
        ends = [self._ends[batch] for batch in sorted(self._ends)]
        if len(ends) != epochs:
            raise RuntimeError(f"{epochs} epochs were to run, but Spark reports {len(ends)} batches.")
        return ends
