"""A sink of an author's own: rows and marker in SQLite. The page docs/guides/exactly-once-sink.md explains it."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from state_engine.spark import SinkConnection, SinkMarker, SinkName, TransactionalSink


class SqliteSink(TransactionalSink):
    """Appends rows (k, n) to the table `counts` of a database file."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def address(self) -> str:
        return f"the SQLite database {self._path}"

    def connect(self, name: SinkName, columns: pa.Schema | None) -> "SqliteConnection":
        return SqliteConnection(self._path, name)


class SqliteConnection(SinkConnection):
    def __init__(self, path: str, name: SinkName) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._name = name

    def marker(self) -> SinkMarker | None:
        try:
            found = self._connection.execute(
                "SELECT log, gen, epoch FROM markers WHERE job = ? AND sink = ?", self._name
            )
        except sqlite3.OperationalError:  # no such table
            return None
        row = found.fetchone()
        return SinkMarker(*row) if row else None

    def prepare(self) -> None:
        self._connection.execute("CREATE TABLE IF NOT EXISTS counts (k TEXT, n INTEGER)")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS markers (job TEXT, sink TEXT, log INTEGER, gen INTEGER, epoch INTEGER, "
            "PRIMARY KEY (job, sink))"
        )

    def commit(self, rows: Iterable[pa.RecordBatch], before: SinkMarker | None, after: SinkMarker) -> bool:
        self._connection.execute("BEGIN IMMEDIATE")  # from here on no other connection writes
        try:
            if self.marker() != before:
                return False
            for batch in rows:
                values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
                self._connection.executemany("INSERT INTO counts VALUES (?, ?)", values)
            self._connection.execute("REPLACE INTO markers VALUES (?, ?, ?, ?, ?)", (*self._name, *after))
            self._connection.execute("COMMIT")
            return True
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


def rows_of(path: Path | str) -> list[tuple[str, int]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT k, n FROM counts ORDER BY rowid").fetchall()
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()
