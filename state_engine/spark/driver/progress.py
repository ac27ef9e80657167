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
    """One sealed epoch, for progress: its number, what the operators that sources feed have read, seconds until E8."""

    epoch: int
    kind: str
    records: int
    seconds: float


class EpochHistory:
    """The newest epochs of one incarnation, for any number of readers at their own pace.

    Epochs are asked for by number, never by place: what is old is dropped.

    Args:
        kept: How many are kept.
    """

    def __init__(self, kept: int = KEPT_EPOCHS) -> None:
        self._lock = threading.Lock()
        self._epochs: deque[EpochSummary] = deque(maxlen=kept)

    def append(self, summary: EpochSummary) -> None:
        """Adds an epoch; its number is higher than all before."""
        with self._lock:
            self._epochs.append(summary)

    def after(self, epoch: int) -> list[EpochSummary]:
        """Returns the kept epochs with higher numbers, oldest first; it costs as much as there are."""
        with self._lock:
            return [*takewhile(lambda summary: summary.epoch > epoch, reversed(self._epochs))][::-1]


class JobCounter:
    """Counts what a list that forgets its oldest entries has ever held.

    Args:
        job_ids: Gives the ids of the jobs that are remembered, in any order; later jobs have higher ids.
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
        """Counts in passing. A sealed epoch shall not fail because Spark's books cannot be read just now."""
        with suppress(Exception):
            self.count()


def jobs_of_group(context: SparkContext, group: str) -> list[int]:
    """Returns the ids of a group's jobs, as far as Spark remembers them."""
    jvm: Any = context._jvm
    found: Any = context._jsc.statusTracker().getJobIdsForGroup(group)
    text: str = jvm.java.util.Arrays.toString(found)  # one call into the JVM, and not one for each number
    return [int(number) for number in text.strip("[]").split(",") if number]


__all__ = ["EPOCHS_PER_COUNT", "EpochHistory", "EpochSummary", "JobCounter", "jobs_of_group"]
