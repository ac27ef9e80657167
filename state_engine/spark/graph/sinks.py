"""The sinks that an author can use. All output is staged, and named in the manifest, until its sink has committed."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from state_engine.api.sinks import Sink
from state_engine.errors import JobDefinitionError
from state_engine.storage.roots import address


class EpochId(NamedTuple):
    """Identifies an epoch for all time; an author's own sink needs it to be idempotent.

    Attributes:
        job: Name of the job.
        generation: Generation of the epoch.
        epoch: Number of the epoch.
        previous_epoch: Only with `AT_LEAST_ONCE`: the last sealed epoch of records or timers before it. Repeated output
            has the same (generation, previous_epoch), and the last output under it counts: an epoch that was not sealed
            runs again under another number, maybe with more or fewer records.
        attempt: Only with `AT_LEAST_ONCE`: distinguishes the attempts.
    """

    job: str
    generation: int
    epoch: int
    previous_epoch: int | None = None
    attempt: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """Generation and number."""
        return self.generation, self.epoch


@dataclass(frozen=True, init=False)
class DeltaSink(Sink):
    """A Delta table, exactly once. The table is made when it is missing.

    Args:
        path: Root of the table, on a storage that both Spark and delta-rs reach.

    Raises:
        UnsupportedAddressError: The path would mean another place than it seems to.
    """

    path: str

    def __init__(self, path: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "path", address(path))


@dataclass(frozen=True)
class ForeachEpochSink(Sink):
    """A function that gets each epoch's rows, at least once, in the driver (docs/guides/foreach-epoch-sink.md).

    It is called once the epoch is sealed, and the next epoch waits until it returns. An epoch without rows makes no
    call. What it raises stops the job with a `SinkError`; the next start calls it again with the same epoch. A restore
    cannot retract what it has done, and is refused with a `SinkRewindError` unless output is kept.

        def store(epoch: EpochId, rows: pa.Table) -> None:
            upsert("counts", rows.to_pylist())

        counts.sink_to(ForeachEpochSink(store), uid="store")

    Args:
        function: Called with the epoch's id and its rows, in the columns of the stream. The same id may come again
            after a crash, with the same rows: use it to be idempotent. With `CheckpointingMode.AT_LEAST_ONCE` it is
            called before the epoch is sealed, and `EpochId.previous_epoch` is what stays the same.
    """

    function: Callable[[EpochId, pa.Table], None]


@dataclass(frozen=True)
class DiscardingSink(Sink):
    """Throws the output away, as Flink's does."""


class MemorySink(Sink):
    """Rows in the memory of the driver's process, for tests; outlives a query, not the process.

    Args:
        name: Two sinks with one name share their rows, so that a job that is built again goes on with them.
    """

    _all: ClassVar[dict[str, dict[EpochId, pa.Table]]] = {}
    _lock = threading.Lock()

    def __init__(self, name: str) -> None:
        if not name:
            raise JobDefinitionError("A MemorySink has no name.", action="Give it one.")
        self.name = name

    @property
    def epochs(self) -> dict[EpochId, pa.Table]:
        """Rows by epoch, in the order of the epochs."""
        with self._lock:
            return dict(sorted(self._all.get(self.name, {}).items(), key=lambda item: item[0].place))

    def rows(self) -> list[dict[str, Any]]:
        """Returns all rows as dicts."""
        return [row for table in self.epochs.values() for row in table.to_pylist()]

    @classmethod
    def clear_all(cls) -> None:
        """Forgets the rows of all sinks, for tests that share a process."""
        with cls._lock:
            cls._all.clear()

    def put(self, epoch: EpochId, table: pa.Table) -> None:
        """Sets the rows of an epoch."""
        with self._lock:
            self._all.setdefault(self.name, {})[epoch] = table

    def remove(self, abandoned: Callable[[EpochId], bool]) -> None:
        """Removes the rows of epochs that a restore abandoned."""
        with self._lock:
            kept = self._all.setdefault(self.name, {})
            for epoch in [e for e in kept if abandoned(e)]:
                del kept[epoch]

    def clear(self) -> None:
        """Removes all rows."""
        with self._lock:
            self._all.pop(self.name, None)


__all__ = ["DeltaSink", "DiscardingSink", "EpochId", "ForeachEpochSink", "MemorySink", "Sink"]
