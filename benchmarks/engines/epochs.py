"""Measures the end of each epoch, in the same way for Lakestate and Spark's own operators: all are streaming queries.

It includes Spark's own work around a batch (offsets, commit logs), for all of them alike.
"""

import json
import threading
from collections import Counter
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)


class EpochEnds(StreamingQueryListener):
    """Collects the end of each batch that ran; register it before the query starts.

    Attributes:
        observed: The metrics that the query observed, by name, summed over all batches.
    """

    def __init__(self) -> None:
        self.observed: Counter[str] = Counter()
        self._ends: dict[int, float] = {}
        self._terminated = threading.Event()

    @cached_property
    def _jlistener(self) -> Any:
        """The JVM object that Spark calls."""
        jvm: Any = SparkContext._jvm
        return jvm.PythonStreamingQueryListenerWrapper(_ByJson(self))

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        if "addBatch" in progress.durationMs:  # otherwise the trigger had nothing to do
            started = datetime.fromisoformat(progress.timestamp).timestamp()
            self._ends[progress.batchId] = started + progress.durationMs["triggerExecution"] / 1000
            for row in progress.observedMetrics.values():
                self.observed.update({name: int(value or 0) for name, value in row.asDict().items()})

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._terminated.set()

    @property
    def reported(self) -> int:
        """Number of batches so far that ran."""
        return len(self._ends)

    def wait(self, epochs: int, timeout: float = 60.0, *, more: bool = False) -> list[float]:
        """Returns the ends in order, seconds since 1970, once the query's last event has arrived.

        Args:
            epochs: Number of epochs of the input.
            timeout: Seconds to wait for that event.
            more: Whether more epochs may follow at the end of the input; these are not returned.

        Raises:
            RuntimeError: Spark reported another number of batches than the input has epochs.
        """
        self._terminated.wait(timeout)
        ends = [self._ends[batch] for batch in sorted(self._ends)]
        if more:
            ends = ends[:epochs]
        if len(ends) != epochs:
            raise RuntimeError(f"{epochs} epochs were expected, but Spark reports {len(ends)} batches.")
        return ends


class _ByJson(JStreamingQueryListener):
    """Reads the progress of a batch from the JVM as one JSON text.

    PySpark reads its parts from the JVM one by one, and looks up the class that converts observed metrics package by
    package. This costs 60 ms of CPU in each epoch, which are not an engine's work.
    """

    def onQueryProgress(self, jevent: Any) -> None:
        progress = json.loads(jevent.progress().json(), parse_float=Decimal)  # sums are exact
        self.pylistener.onQueryProgress(QueryProgressEvent.fromJson({"progress": progress}))
