"""A connection to PostgreSQL: the marker, and the transaction that replaces it together with an epoch's rows."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import pyarrow as pa

from state_engine.api.sinks import SinkConnection, SinkMarker, SinkName, Upsert
from state_engine.causes import report_of, shown
from state_engine.connectors.postgresql import statements
from state_engine.connectors.postgresql.address import Address
from state_engine.connectors.postgresql.errors import PostgresError, plainly
from state_engine.connectors.postgresql.fitting import Fit, Run, check_fits, exists
from state_engine.connectors.postgresql.statements import ORDER, STAGED, Target
from state_engine.connectors.postgresql.types import postgres_type, with_json, written_schema
from state_engine.errors import SinkError
from state_engine.extras import from_extra

with from_extra("postgresql"):
    import adbc_driver_manager
    from adbc_driver_postgresql import dbapi

_log = logging.getLogger(__name__)
_PATIENCE_SECONDS = 30.0
_LOCK_TIMEOUT = "10s"
_LOCK_NOT_AVAILABLE = "55P03"
_LONGEST_NAME = 63

ResultT = TypeVar("ResultT")


class PostgresConnection(SinkConnection):
    """A connection for one sink.

    Args:
        address: The database.
        target: The table.
        upsert: How rows replace each other; None: they are appended.
        name: Job and sink.
        columns: Columns of the rows, if they are known.
        patient: Whether to wait for a server that starts again.
    """

    def __init__(
        self,
        address: Address,
        target: Target,
        upsert: Upsert | None,
        name: SinkName,
        columns: pa.Schema | None,
        *,
        patient: bool,
    ) -> None:
        self._target = target
        self._upsert = upsert
        self._name = name
        self._columns = columns
        self._uri = address.connecting(_application(name))
        self._connection = _connected(self._uri, _PATIENCE_SECONDS if patient else 0.0)

    def marker(self) -> SinkMarker | None:
        with self._transaction() as run:
            if not exists(run, self._target.markers):
                return None
            found = run(statements.read_marker(self._target), *self._name)
            return SinkMarker(*found[0]) if found else None

    def check(self) -> None:
        if self._columns is None:
            return
        with self._transaction() as run:
            check_fits(run, self._target, self._upsert, self._columns)

    def prepare(self) -> None:
        with self._transaction() as run:
            if not exists(run, self._target.markers):  # PostgreSQL asks for the right to create also if it need not
                run(statements.create_markers(self._target))
            if self._columns is not None and not exists(run, self._target.name):
                columns = [(f.name, postgres_type(f.type)) for f in self._columns if not self._is_op(f.name)]
                keys = self._upsert.keys if self._upsert is not None else ()
                run(statements.create_table(self._target, columns, keys))
            self._connection.commit()

    def commit(self, rows: Iterable[pa.RecordBatch], before: SinkMarker | None, after: SinkMarker) -> bool:
        return self._replace(before, after, lambda run: self._write(run, rows))

    def rewind(self, abandoned: Iterable[pa.RecordBatch], before: SinkMarker | None, after: SinkMarker) -> bool:
        """Also adds the keys of abandoned rows to a table: what an upsert replaced cannot be brought back.

        It does so in a transaction of its own, before the marker moves. It is advice, and a restore must not fail for
        lack of it.
        """
        if self.marker() != before:
            return False
        if self._upsert is not None:
            try:
                with self._transaction() as run:
                    self._note_abandoned(run, self._upsert, abandoned, after)
                    self._connection.commit()
            except Exception as error:
                _log.warning(
                    "Sink %r of job %r could not note which keys the restore abandons in %s: %s",
                    self._name.uid, self._name.job, self._target.abandoned, report_of(error),
                )  # fmt: skip
        return self._replace(before, after, lambda run: None)

    def close(self) -> None:
        with suppress(adbc_driver_manager.Error):
            self._connection.close()

    def _replace(self, before: SinkMarker | None, after: SinkMarker, write: Callable[[Run], None]) -> bool:
        """Replaces the marker, and writes, in one transaction; returns False if the marker is another one.

        The marker is locked first. A session of a driver that hangs may hold the lock for ever: it is ended.
        """

        def swap(run: Run) -> bool:
            run(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            if before is None:
                return bool(run(statements.first_marker(self._target), *self._name, *after))
            return bool(run(statements.next_marker(self._target), *self._name, *after, *before))

        with self._transaction() as run:
            try:
                swapped = swap(run)
            except adbc_driver_manager.Error as error:
                if error.sqlstate != _LOCK_NOT_AVAILABLE:
                    raise
                self._connection.rollback()
                run(statements.END_OTHERS, _application(self._name))
                swapped = swap(run)
            if not swapped:
                return False
            run("SET LOCAL lock_timeout = 0")  # the table's owner may lock the table for as long as it takes
            write(run)
            self._connection.commit()
        return True

    def _write(self, run: Run, rows: Iterable[pa.RecordBatch]) -> None:
        batches = iter(rows)
        first = next(batches, None)
        if first is None:
            return
        fit = Fit.of(run, self._target, self._upsert, first.schema)
        if fit.copies:
            self._copy(fit.names, _chained(first, batches), self._target)
            return
        self._stage(run, _chained(first, batches), first.schema)
        upsert = self._upsert
        if upsert is None:
            run(statements.insert(self._target, fit.columns, None, f"{STAGED} ORDER BY {ORDER}"))
            return
        self._refuse_bad_rows(run, upsert)
        run(statements.latest(upsert, fit.columns))
        source = statements.LATEST
        if upsert.op is not None:
            run(statements.delete(self._target, fit.columns, upsert))
            source += f" WHERE {statements.quoted(upsert.op)} <> '-D'"
        run(statements.insert(self._target, fit.columns, upsert, source))

    def _refuse_bad_rows(self, run: Run, upsert: Upsert) -> None:
        remedy = "Filter such records out before the operator, and restore with keep_output=True."
        if run(statements.without_key(upsert)):
            keys = ", ".join(upsert.keys)
            raise SinkError(
                f"A row for {self._target.name} has a null in its key ({keys}), and no key is equal to a null.",
                action=remedy,
            )
        if upsert.op is not None and (found := run(statements.without_op(upsert.op))):
            raise SinkError(
                f"A row for {self._target.name} has {shown(found[0][0])} in the column {upsert.op!r}, which is none of "
                "+I, -U, +U and -D.",
                action=remedy,
            )

    def _note_abandoned(self, run: Run, upsert: Upsert, abandoned: Iterable[pa.RecordBatch], after: SinkMarker) -> None:
        batches = (batch.select(upsert.keys) for batch in abandoned)
        first = next(batches, None)
        if first is None:
            return
        keys = Fit.of(run, self._target, upsert, first.schema, partial=True).columns
        self._stage(run, _chained(first, batches), first.schema)
        run(statements.create_abandoned(self._target, keys))
        run(statements.forget_abandoned(self._target), self._name.job, after.generation)
        run(statements.insert_abandoned(self._target, keys), self._name.job, after.generation)

    def _stage(self, run: Run, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Copies rows to a table of the transaction, numbered in their order."""
        written = written_schema(schema)
        run(statements.create_staged([(f.name, _staged_type(f.type)) for f in written]))
        self._copy([*written.names, ORDER], _numbered(batches), None)

    def _copy(self, names: Sequence[str], batches: Iterable[pa.RecordBatch], target: Target | None) -> None:
        """Copies rows by PostgreSQL's binary COPY; without a target, to the table of staged rows."""
        raised: list[BaseException] = []

        def written() -> Iterator[pa.RecordBatch]:
            try:
                for batch in batches:
                    yield with_json(batch).select(names)
            except BaseException as error:
                raised.append(error)  # Arrow's C interface hands over its message alone
                raise

        source = written()
        first = next(source)
        reader = pa.RecordBatchReader.from_batches(first.schema, _chained(first, source))
        where: dict[str, Any] = {"temporary": True} if target is None else {"db_schema_name": target.schema}
        with self._connection.cursor() as cursor:
            try:
                cursor.adbc_ingest(STAGED if target is None else target.table, reader, mode="append", **where)
            except adbc_driver_manager.Error:
                if raised:
                    raise raised[0] from None
                raise

    def _is_op(self, column: str) -> bool:
        return self._upsert is not None and column == self._upsert.op

    @contextmanager
    def _transaction(self) -> Iterator[Run]:
        """Lends a function that runs a statement; what was not committed in the block is rolled back after it."""

        def run(statement: str, *parameters: str | int) -> list[Any]:
            with self._connection.cursor() as cursor:
                cursor.execute(statement, parameters or None)
                return cursor.fetchall() if cursor.description else []

        try:
            with plainly():
                yield run
        finally:
            with suppress(adbc_driver_manager.Error):  # the connection may be lost; an error of the block says so
                self._connection.rollback()


def _connected(uri: str, patience: float) -> Any:
    """Connects; tries again for some seconds."""
    until, pause = time.monotonic() + patience, 0.1
    while True:
        try:
            with plainly():
                return dbapi.connect(uri)
        except PostgresError:
            if time.monotonic() + pause > until:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 2.0)


def _application(name: SinkName) -> str:
    """Returns the name of the sessions of a sink, which PostgreSQL would cut after 63 bytes."""
    named = f"lakestate/{name.job}/{name.uid}"
    if len(named.encode()) <= _LONGEST_NAME:
        return named
    return f"lakestate/{hashlib.sha256(named.encode()).hexdigest()[:40]}"


def _staged_type(data_type: pa.DataType) -> str:
    named = postgres_type(data_type)
    return "numeric" if named.startswith("numeric(") and not named.endswith("[]") else named


def _chained(first: pa.RecordBatch, others: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Adds a column that counts the rows."""
    begin = 0
    for batch in batches:
        numbers = pa.array(range(begin, begin + batch.num_rows), pa.int64())
        begin += batch.num_rows
        yield batch.append_column(ORDER, numbers)


__all__ = ["PostgresConnection"]
