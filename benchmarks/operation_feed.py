"""Feeds a stream so that it never runs out of input, and measures its epochs."""

import os
import threading
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from benchmarks.data import FIRST_MODIFIED, SEED, Longs, write_epoch
from benchmarks.operation_model import OperationCase
from benchmarks.processes import cpu_of
from state_engine.spark import EpochSummary

LOAD_RECORDS = 500_000
POOL = 40
"""Number of epochs of input that are drawn; the stream reads them repeatedly."""
AHEAD = 8
"""Number of epochs of input that wait while one is read."""


class Phase(NamedTuple):
    """Consecutive epochs: their total wall-clock and CPU seconds, and the seconds of each epoch."""

    seconds: float
    cpu_seconds: float
    epochs: tuple[float, ...]


class Client(Protocol):
    """The methods of a running job that are used here."""

    @property
    def exception(self) -> BaseException | None: ...

    def epochs_after(self, epoch: int) -> list[EpochSummary]: ...


def write_load(folder: Path, keys: int, files: int) -> int:
    """Writes each key once, and returns the number of epochs."""
    starts = range(0, keys, LOAD_RECORDS)
    for epoch, start in enumerate(starts):
        numbers = np.arange(start, min(start + LOAD_RECORDS, keys), dtype=np.int64)
        write_epoch(folder, epoch, pa.table({"k": pa.array(numbers)}), files)
    return len(starts)


class Feed:
    """Writes epochs of input to a folder ahead of a stream, after the epochs that load the state.

    Args:
        folder: The folder that the stream reads.
        case: Keys, epochs, and files per epoch.
        load_epochs: Number of epochs that load the state and are already there.
    """

    def __init__(self, folder: Path, case: OperationCase, load_epochs: int) -> None:
        self._folder, self._case, self._load_epochs = folder, case, load_epochs
        self._written = 0
        self._pool = [self._draw(number) for number in range(POOL)]
        self._prepared = folder.with_name(f"{folder.name}-prepared")
        for number, keys in enumerate(self._pool):
            write_epoch(self._prepared, number, pa.table({"k": pa.array(keys)}), case.parallelism)

    def keep_ahead(self, done: int) -> None:
        """Writes input until `AHEAD` epochs wait after `done` epochs, which include those of the load."""
        while self._load_epochs + self._written < done + AHEAD:
            for part in range(self._case.parallelism):
                self._copy(self._written % POOL, self._load_epochs + self._written, part)
            self._written += 1

    def counts_after(self, records: int) -> Longs:
        """Returns the count of each key after a number of records.

        Raises:
            ValueError: The number is not that of whole epochs.
        """
        epochs, rest = divmod(records - self._case.keys, self._case.epoch_records)
        if rest or epochs < 0:
            raise ValueError(f"{records} records are not whole epochs: the stream ran out of input.")
        counts = np.ones(self._case.keys, np.int64)
        for number in range(min(epochs, POOL)):
            times = len(range(number, epochs, POOL))
            counts += times * np.bincount(self._pool[number], minlength=self._case.keys)
        return counts

    def _draw(self, number: int) -> Longs:
        random = np.random.default_rng([SEED, number])
        return random.integers(0, self._case.keys, size=self._case.epoch_records, dtype=np.int64)

    def _copy(self, number: int, epoch: int, part: int) -> None:
        """Copies a file so that it appears whole, with a modification time in the order of epochs and parts."""
        name = f"epoch-{epoch:06d}-{part}.parquet"
        temporary = self._folder / f".{name}"
        temporary.write_bytes((self._prepared / f"epoch-{number:04d}-{part}.parquet").read_bytes())
        modified = FIRST_MODIFIED + epoch * self._case.parallelism + part
        os.utime(temporary, (modified, modified))
        temporary.rename(self._folder / name)


class EpochWatch:
    """Records when each epoch of input was sealed, and the session's CPU time until then; keeps the feed ahead.

    Args:
        client: The job.
        feed: Its input.
        interval: Seconds between two checks.
    """

    def __init__(self, client: Client, feed: Feed, interval: float = 0.005) -> None:
        self._client, self._feed, self._interval = client, feed, interval
        self._ends: list[tuple[float, float]] = []
        self._newest = -1
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="epoch-watch", daemon=True)

    def __enter__(self) -> "EpochWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def count(self) -> int:
        """The number of epochs of input that have ended."""
        return len(self._ends)

    def wait_for(self, count: int, timeout: float) -> None:
        """Waits until `count` epochs have ended.

        Raises:
            RuntimeError: The job failed, or it takes too long.
        """
        deadline = time.monotonic() + timeout
        while self.count < count:
            failure = self._error or self._client.exception
            if failure is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.count} of {count} epochs have ended within {timeout:g} s.") from failure
            time.sleep(self._interval)

    def length(self, last: int = 8) -> float:
        """Returns the median length of the last epochs, in seconds."""
        return median(self._lengths(max(0, self.count - 1 - last), self.count - 1))

    def phase(self, first: int, epochs: int) -> Phase:
        """Returns the epochs after the one with index `first`."""
        (begun, cpu), (ended, cpu_at_end) = self._ends[first], self._ends[first + epochs]
        return Phase(ended - begun, cpu_at_end - cpu, tuple(self._lengths(first, first + epochs)))

    def _lengths(self, first: int, last: int) -> list[float]:
        return [after[0] - before[0] for before, after in pairwise(self._ends[first : last + 1])]

    def _run(self) -> None:
        session = os.getsid(0)
        try:
            while not self._stop.wait(self._interval):
                for summary in self._client.epochs_after(self._newest):
                    self._newest = summary.epoch
                    if summary.records:
                        self._ends.append((time.monotonic(), cpu_of(session)))
                self._feed.keep_ahead(self.count)
        except BaseException as error:
            self._error = error
            raise


__all__ = ["AHEAD", "EpochWatch", "Feed", "Phase", "write_load"]
