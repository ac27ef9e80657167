"""A system with transactions, in memory, whose answers a test decides; and a job that writes to it."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
from whole_job import WholeJob

from state_engine.api.sinks import SinkConnection, SinkMarker, SinkName, TransactionalSink
from state_engine.spark.graph.nodes import SinkNode


class Ledger:
    """What outlives all connections.

    Attributes:
        rows: The numbers that it has.
        markers: By job and sink.
        faults: What happens at the next commits: `away` before it, `unanswered` after it, `refused` in its place, or
            None.
        away: Whether no connection can be made.
        abandoned: The numbers that rewinds have named.
        commits: Called after each commit.
        connections: How many are open.
    """

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.markers: dict[SinkName, SinkMarker] = {}
        self.faults: list[str | None] = []
        self.away = False
        self.abandoned: list[int] = []
        self.commits: Callable[[], None] | None = None
        self.connections = 0


class LedgerSink(TransactionalSink):
    def __init__(self, ledger: Ledger, address: str = "the ledger") -> None:
        self._ledger = ledger
        self._address = address

    @property
    def address(self) -> str:
        return self._address

    def connect(self, name: SinkName, columns: pa.Schema | None) -> "LedgerConnection":
        if self._ledger.away:
            raise ConnectionRefusedError("nobody listens")
        return LedgerConnection(self._ledger, name)


class LedgerConnection(SinkConnection):
    def __init__(self, ledger: Ledger, name: SinkName) -> None:
        self._ledger = ledger
        self._name = name
        self._open = True
        ledger.connections += 1

    def marker(self) -> SinkMarker | None:
        assert self._open
        return self._ledger.markers.get(self._name)

    def commit(self, rows: Iterable[pa.RecordBatch], before: SinkMarker | None, after: SinkMarker) -> bool:
        assert self._open
        fault = self._ledger.faults.pop(0) if self._ledger.faults else None
        if fault == "away":
            raise ConnectionResetError("the connection was lost")
        if fault == "refused" or self.marker() != before:
            return False
        numbers = [n for batch in rows for n in batch.column("n").to_pylist()]
        self._ledger.rows.extend(numbers)
        self._ledger.markers[self._name] = after
        if self._ledger.commits is not None:
            self._ledger.commits()
        if fault == "unanswered":
            raise TimeoutError("no answer came")
        return True

    def rewind(self, abandoned: Iterable[pa.RecordBatch], before: SinkMarker | None, after: SinkMarker) -> bool:
        done = self.commit((), before, after)
        if done:
            self._ledger.abandoned.extend(n for batch in abandoned for n in batch.column("n").to_pylist())
        return done

    def close(self) -> None:
        assert self._open, "closed twice"
        self._open = False
        self._ledger.connections -= 1
        raise RuntimeError("what a close raises is ignored")


class LedgerJob(WholeJob):
    """A job with the ledger as its only sink."""

    def __init__(self, folder: Path, root: str = "root", ledger: Ledger | None = None) -> None:
        super().__init__(folder, root)
        self.ledger = ledger or Ledger()
        self.address = "the ledger"

    def sinks(self) -> list[SinkNode]:
        return [SinkNode("out", "main", LedgerSink(self.ledger, self.address))]
