"""The base of sinks with exactly-once effect in systems that have transactions, such as a database.

The rows of an epoch and a marker are committed in one transaction. The marker says which epoch that was. After a crash
the system itself thus knows whether it has an epoch (docs/guides/exactly-once-sink.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


class Upsert(NamedTuple):
    """How rows replace those of the same key.

    Attributes:
        keys: Columns that identify a row.
        version_by: The column whose largest value wins; None: the row that was emitted last wins.
        op: The column with Flink's short strings of a `RowKind`: a row with `-U` is left out, one with `-D` deletes.
    """

    keys: tuple[str, ...]
    version_by: str | None = None
    op: str | None = None


class Sink:
    """Base of all sinks.

    Attributes:
        upsert: How rows replace each other; None if they are appended.
    """

    upsert: Upsert | None = None


class SinkName(NamedTuple):
    """What identifies the marker of a sink: the job's name and the sink's uid. Jobs may share a system."""

    job: str
    uid: str


class SinkMarker(NamedTuple):
    """The last epoch that a system has of a sink. All three are integers that fit into 64 bits with a sign.

    Attributes:
        log: Tells apart logs of jobs with one name: the number of the log's birth id (docs/formats/birth.md).
        generation: Generation of the epoch.
        epoch: Number of the epoch; 0 where a restore has just begun the generation.
    """

    log: int
    generation: int
    epoch: int


class SinkConnection(ABC):
    """A connection of a sink to its system. The driver calls it from one thread at a time.

    An exception of any method counts as "unknown whether it has happened": the connection is closed, and the next one
    asks for the marker first. What is not an error of Lakestate's is reported as a `SinkError` with its message.
    """

    @abstractmethod
    def marker(self) -> SinkMarker | None:
        """Returns the marker as the last committed transaction left it; None if there is none. Changes nothing."""

    def check(self) -> None:
        """Checks whether the system can take the rows; changes nothing. A start calls it before it writes anything.

        Raises:
            SinkError: It cannot: a column is missing, the user may not write, …
        """

    def prepare(self) -> None:
        """Creates what the system still lacks, such as the table of the rows and that of the markers; idempotent."""

    @abstractmethod
    def commit(self, rows: Iterable[pa.RecordBatch], before: SinkMarker | None, after: SinkMarker) -> bool:
        """Writes the rows, and replaces one marker by another, in one transaction.

        Args:
            rows: The output of an epoch, batch by batch in the order in which each subtask emitted it; may be empty.
            before: The marker that the system must still have. None: it must have none.
            after: The marker that it has from then on.

        Returns:
            False if it has another marker than `before` by now: nothing was changed. The comparison has to be part of
            the transaction, so that of two drivers at most one can commit.
        """

    def rewind(self, abandoned: Iterable[pa.RecordBatch], before: SinkMarker | None, after: SinkMarker) -> bool:
        """Replaces the marker where a restore goes back and the system keeps its rows; as `commit` without rows.

        Args:
            abandoned: Rows of the epochs that the restore abandons, as far as they are still known. The system has
                them, and their input is read again.
            before: As in `commit`.
            after: As in `commit`.
        """
        return self.commit((), before, after)

    def close(self) -> None:
        """Closes the connection. Called once, also after an error; what it raises is ignored."""


class TransactionalSink(Sink, ABC):
    """A sink whose system commits the rows of an epoch and a marker in one transaction: exactly once.

    To write one, derive from this class and from `SinkConnection` (docs/guides/exactly-once-sink.md), and run the tests
    of `state_engine.testing.sink_suite` on it.
    """

    @property
    @abstractmethod
    def address(self) -> str:
        """Where the rows go, such as `shop.example/orders`. It names the sink in messages, and manifests record it.

        Another address is another sink. It must not contain a secret.
        """

    @abstractmethod
    def connect(self, name: SinkName, columns: pa.Schema | None) -> SinkConnection:
        """Connects to the system.

        Args:
            name: Identifies the marker.
            columns: Columns of the rows; None where a stopped job is restored without its code.
        """


__all__ = ["Sink", "SinkConnection", "SinkMarker", "SinkName", "TransactionalSink", "Upsert"]
