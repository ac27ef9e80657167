"""The sinks that an author can use. All output is staged, and named in the manifest, until its sink has committed."""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from state_engine.api.sinks import Sink
from state_engine.errors import JobDefinitionError
from state_engine.storage.partitions import can_partition
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
        partition_by: Columns by which the table is divided into folders: texts, integers, booleans or dates.
            Each epoch makes a file for each of their values and each subtask that has it.

    Raises:
        JobDefinitionError: A column is named twice.
        UnsupportedAddressError: The path would mean another place than it seems to.
    """

    path: str
    partition_by: tuple[str, ...]

    def __init__(self, path: str | os.PathLike[str], *, partition_by: str | Sequence[str] = ()) -> None:
        object.__setattr__(self, "path", address(path))
        columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        if len(set(columns)) < len(columns):
            raise JobDefinitionError(f"DeltaSink got partition_by={list(columns)}.", action="Name each column once.")
        object.__setattr__(self, "partition_by", columns)

    def check_columns(self, output: pa.Schema) -> None:
        """Checks that an output can be divided as it should.

        Raises:
            JobDefinitionError: It lacks a column, has one of another type, or would have no column left.
        """
        if missing := [name for name in self.partition_by if name not in output.names]:
            raise JobDefinitionError(
                f"DeltaSink got partition_by={missing[0]!r}; the stream has {', '.join(output.names)}.",
                action="Name columns of the stream.",
            )
        kinds = {name: output.field(name).type for name in self.partition_by}
        if other := [name for name, kind in kinds.items() if not can_partition(kind)]:
            raise JobDefinitionError(
                f"DeltaSink got partition_by={other[0]!r}, a column of type {kinds[other[0]]}.",
                action="Partition by a text, a date, an integer or a boolean, for example "
                f"cast({other[0]} AS date) for times.",
            )
        if len(kinds) == len(output):
            raise JobDefinitionError(
                "DeltaSink got all columns of the stream in partition_by.", action="Leave one of them out."
            )


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
