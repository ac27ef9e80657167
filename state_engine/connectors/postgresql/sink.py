"""`PostgresSink`: what an author gives to `sink_to`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from state_engine.api.sinks import SinkConnection, SinkName, TransactionalSink, Upsert
from state_engine.connectors.postgresql.address import parse
from state_engine.connectors.postgresql.statements import Target
from state_engine.errors import JobDefinitionError
from state_engine.extras import check_extra

if TYPE_CHECKING:
    import pyarrow as pa


class PostgresSink(TransactionalSink):
    """A table of PostgreSQL, exactly once (docs/guides/postgresql-sink.md). The table is made when it is missing.

    The rows of an epoch, and a row that says which epoch it was, are written in one transaction.

    Args:
        table: Name of the table.
        uri: `postgresql://user@host:5432/database?sslmode=verify-full`, with any option of libpq but the password. What
            it lacks comes from the environment of the driver's process (`PGHOST`, `PGPASSWORD`, `~/.pgpass`, …).
        schema: The schema of the table. It also gets a table `lakestate_sinks`.
        mode: `append`, or `upsert`: a row replaces the one with the same key.
        keys: With `upsert`: the columns that identify a row. They contain the key of the operator that emits the rows,
            unless there is `version_by`. An existing table needs a unique index of these columns.
        version_by: With `upsert`: the column whose largest value wins. Without it the row that was emitted last wins.
        op: With `upsert`: the column of a changelog that says what a row is, `op` for our declared operators. Rows with
            `-U` are left out, and those with `-D` delete. The table does not get this column.

    Raises:
        JobDefinitionError: The URI is none or has a password, or the arguments do not fit each other.
        MissingExtraError: The extra `postgresql` is not installed.
    """

    def __init__(
        self,
        table: str,
        uri: str = "postgresql://",
        *,
        schema: str = "public",
        mode: Literal["append", "upsert"] = "append",
        keys: Sequence[str] = (),
        version_by: str | None = None,
        op: str | None = None,
    ) -> None:
        check_extra("postgresql", "adbc_driver_postgresql")
        if not table or not schema:
            raise JobDefinitionError("A PostgresSink has no table.", action="Give it a table and a schema.")
        self._target = Target(schema, table)
        self._address = parse(uri)
        self.upsert = _upsert(mode, [keys] if isinstance(keys, str) else keys, version_by, op)
        self._has_connected = False

    @property
    def address(self) -> str:
        """Host, port, database, schema and table."""
        return f"{self._address.place}/{self._target.schema}.{self._target.table}"

    @property
    def options(self) -> dict[str, str]:
        """What manifests record, so that a stopped job can be restored without its code."""
        upsert = self.upsert._asdict() if self.upsert is not None else None
        known = {"uri": self._address.uri, "schema": self._target.schema, "table": self._target.table}
        return known | ({"upsert": json.dumps(upsert)} if upsert is not None else {})

    @classmethod
    def recorded(cls, options: Mapping[str, str]) -> PostgresSink:
        """Returns the sink that a manifest records."""
        upsert = json.loads(options["upsert"]) if "upsert" in options else None
        mode: Literal["append", "upsert"] = "append" if upsert is None else "upsert"
        return cls(options["table"], options["uri"], schema=options["schema"], mode=mode, **(upsert or {}))

    def connect(self, name: SinkName, columns: pa.Schema | None) -> SinkConnection:
        """Connects; a sink that has been connected before waits up to half a minute for a server that starts again."""
        from state_engine.connectors.postgresql.connection import PostgresConnection

        connection = PostgresConnection(
            self._address, self._target, self.upsert, name, columns, patient=self._has_connected
        )
        self._has_connected = True
        return connection


def _upsert(mode: str, keys: Sequence[str], version_by: str | None, op: str | None) -> Upsert | None:
    if mode not in ("append", "upsert"):
        raise JobDefinitionError(f"A PostgresSink has no mode {mode!r}.", action="Choose append or upsert.")
    if mode == "append":
        if keys or version_by is not None or op is not None:
            raise JobDefinitionError(
                "A PostgresSink that appends has no keys, version_by and op.",
                action="Leave them out, or use upsert.",
            )
        return None
    if not keys or len(set(keys)) < len(keys) or op in keys or (op is not None and op == version_by):
        raise JobDefinitionError(
            "A PostgresSink that upserts needs keys: different columns, none of them the column of op.",
            action="Give keys=[…], the columns that identify a row.",
        )
    return Upsert(tuple(keys), version_by, op)


__all__ = ["PostgresSink"]
