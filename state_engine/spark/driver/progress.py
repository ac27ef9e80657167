"""What one incarnation has done so far: its newest epochs, and how many Spark jobs they took."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import takewhile
from typing import Any, NamedTuple

from pyspark import SparkContext

KEPT_EPOCHS = 10_000
EPOCHS_PER_COUNT = 50
"""Spark forgets jobs beyond `spark.ui.retainedJobs` (1,000), so they are counted long before."""


class EpochSummary(NamedTuple):
    """Progress of one sealed epoch.

    Attributes:
        epoch: Its number.
        kind: The kind of its manifest, such as `epoch`.
        records: How many records the operators that sources feed have read.
        seconds: From its plan to E8, with all attempts.
        attempts: How often its tasks ran. Above 1 if a worker process died, for example; the log says why each time.
            0 for a restore of key groups, which runs none.
    """

    epoch: int
    kind: str
    records: int
    seconds: float
    attempts: int = 1


class EpochHistory:
    """The newest epochs of one incarnation, for any number of readers at their own pace.

    Readers ask by epoch number, never by index, because old epochs are dropped.

    Args:
        kept: How many epochs are kept.
    """

    def __init__(self, kept: int = KEPT_EPOCHS) -> None:
        self._lock = threading.Lock()
        self._epochs: deque[EpochSummary] = deque(maxlen=kept)

    def append(self, summary: EpochSummary) -> None:
        """Adds an epoch; its number is higher than all earlier ones."""
        with self._lock:
            self._epochs.append(summary)

    def after(self, epoch: int) -> list[EpochSummary]:
        """Returns the kept epochs with higher numbers, oldest first; the cost grows with their number."""
        with self._lock:
            return [*takewhile(lambda summary: summary.epoch > epoch, reversed(self._epochs))][::-1]


class JobCounter:
    """Counts all Spark jobs that ever were in a list that forgets its oldest entries.

    Args:
        job_ids: Returns the ids of the jobs that are remembered, in any order; later jobs have higher ids.
    """

    def __init__(self, job_ids: Callable[[], Iterable[int]]) -> None:
        self._job_ids = job_ids
        self._lock = threading.Lock()
        self._highest = -1
        self._count = 0

    def count(self) -> int:
        """Returns how many jobs there were; right if none was forgotten between two calls."""
        with self._lock:
            new = [job for job in self._job_ids() if job > self._highest]
            self._count += len(new)
            self._highest = max(new, default=self._highest)
            return self._count

    def look(self) -> None:
        """Counts, and ignores errors: a sealed epoch must not fail because Spark's job list cannot be read just now."""
        with suppress(Exception):
            self.count()


def jobs_of_group(context: SparkContext, group: str) -> list[int]:
    """Returns the ids of a group's jobs, as far as Spark remembers them."""
    jvm: Any = context._jvm
    ids: Any = context._jsc.statusTracker().getJobIdsForGroup(group)
    text: str = jvm.java.util.Arrays.toString(ids)  # one call into the JVM, and not one for each number
    return [int(number) for number in text.strip("[]").split(",") if number]


__all__ = ["EPOCHS_PER_COUNT", "EpochHistory", "EpochSummary", "JobCounter", "jobs_of_group"]
