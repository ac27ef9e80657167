"""Workload `postgresql`: an epoch of a million rows into a table of PostgreSQL, next to the driver's bare bulk load.

Both write the same rows in one transaction, over one connection, in turn. `bare` has the rows in memory. The sink reads
staged files, compares their checksums, and replaces its marker. No JVM, no Spark.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from adbc_driver_postgresql import dbapi

from benchmarks.loads.model import APPENDS, BARE, CASTS, POSTGRESQL, UPSERTS, LoadReport, Way, in_turn, staged
from state_engine.api.sinks import SinkConnection, SinkMarker, SinkName
from state_engine.spark import PostgresSink
from state_engine.storage.local import LocalStorage
from state_engine.storage.staged import StagedRows
from state_engine.testing.postgres_server import PASSWORD, postgres_programs, postgres_server

ROWS = 1_000_000
_LOG = 7
_CHECK = "SELECT count(*), sum(id), sum(n), count(note) FROM written"
_COLUMNS = "(id {0}, k text, n {0}, price double precision, at timestamptz, note text)"


def measure(folder: Path, tell: Callable[[str], None], rows: int = ROWS, rounds: int = 3) -> LoadReport:
    """Returns a row for each way to write.

    Args:
        folder: Folder for staged files.
        tell: Called with lines of progress.
        rows: Rows of an epoch.
        rounds: How many epochs each way writes; they take turns.
    """
    programs = postgres_programs()
    if programs is None:
        return LoadReport([], ["no PostgreSQL; Debian: apt-get install postgresql"])
    table = _rows(rows)
    epoch = StagedRows(LocalStorage(str(folder)), staged(folder, table))
    with postgres_server(programs) as server, _password():
        writers = {
            APPENDS: _Writer(PostgresSink("written", server.uri), epoch),
            CASTS: _Writer(PostgresSink("written", server.uri), epoch),
            UPSERTS: _Writer(PostgresSink("written", server.uri, mode="upsert", keys=["id"]), epoch),
        }
        holds = partial(_holds, server.uri, rows)
        ways = {BARE: Way(lambda: _make_table(server.uri, BARE), partial(_write_bare, server.uri, table), holds)}
        for label, writer in writers.items():
            ways[label] = Way(partial(writer.prepare, server.uri, label), writer.write, holds)
        return LoadReport(in_turn(POSTGRESQL, ways, rows, rounds, tell), [])


class _Writer:
    """A sink, and the epoch that it writes."""

    def __init__(self, sink: PostgresSink, epoch: StagedRows) -> None:
        self._sink = sink
        self._epoch = epoch
        self._connection: SinkConnection
        self._marker: SinkMarker | None = None

    def prepare(self, uri: str, label: str) -> None:
        _make_table(uri, label)
        self._connection = self._sink.connect(SinkName("job", label), None)
        self._connection.prepare()
        self._marker = self._connection.marker()

    def write(self) -> None:
        after = SinkMarker(_LOG, 1, self._marker.epoch + 1 if self._marker is not None else 0)
        with closing(self._connection):
            assert self._connection.commit(self._epoch, self._marker, after)


def _write_bare(uri: str, table: pa.Table) -> None:
    with closing(dbapi.connect(uri)) as connection, closing(connection.cursor()) as cursor:
        cursor.adbc_ingest("written", table.to_reader(65_536), mode="append")
        connection.commit()


def _make_table(uri: str, label: str) -> None:
    """Makes the empty table."""
    key = ["ALTER TABLE written ADD PRIMARY KEY (id)"] if label == UPSERTS else []
    columns = _COLUMNS.format("numeric" if label == CASTS else "bigint")
    _run(uri, "DROP TABLE IF EXISTS written", f"CREATE TABLE written {columns}", *key)


def _holds(uri: str, rows: int) -> bool:
    total = rows * (rows - 1) // 2
    return tuple(map(int, _run(uri, _CHECK)[0])) == (rows, total, total, rows - (rows + 2) // 3)


def _rows(count: int) -> pa.Table:
    """Returns rows of about 100 bytes."""
    numbers = np.arange(count)
    return pa.table(
        {
            "id": pa.array(numbers),
            "k": [f"customer-{n % 5_000:08}" for n in range(count)],
            "n": pa.array(numbers[::-1]),
            "price": pa.array(numbers / 7),
            "at": pa.array(1_700_000_000_000_000 + numbers, pa.timestamp("us", tz="UTC")),
            "note": [None if n % 3 == 0 else f"paid with card {n % 97:02}, not yet sent" for n in range(count)],
        }
    )


def _run(uri: str, *statements: str) -> list[Any]:
    with closing(dbapi.connect(uri)) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)
        found = cursor.fetchall() if cursor.description else []
        connection.commit()
        return found


@contextmanager
def _password() -> Iterator[None]:
    before = os.environ.get("PGPASSWORD")
    os.environ["PGPASSWORD"] = PASSWORD
    try:
        yield
    finally:
        os.environ.pop("PGPASSWORD")
        if before is not None:
            os.environ["PGPASSWORD"] = before


__all__ = ["ROWS", "measure"]
