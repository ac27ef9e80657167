"""Whether a table takes the rows of an output, and how they get into it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import adbc_driver_manager
import pyarrow as pa

from state_engine.api.sinks import Upsert
from state_engine.connectors.postgresql import statements
from state_engine.connectors.postgresql.errors import said
from state_engine.connectors.postgresql.statements import Target
from state_engine.connectors.postgresql.types import TableColumn, postgres_type
from state_engine.errors import SinkError

Run = Callable[..., list[Any]]

_ORDINARY = ("r", "p")
"""Tables, and those that are partitioned. Views, foreign tables and the like are not."""


class Fit(NamedTuple):
    """How rows get into a table.

    Attributes:
        columns: The table's columns, in the order of the rows' columns.
        copies: Whether the rows can be copied to the table as they are; otherwise they are staged and inserted.
    """

    columns: list[TableColumn]
    copies: bool

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @classmethod
    def of(cls, run: Run, target: Target, upsert: Upsert | None, schema: pa.Schema, *, partial: bool = False) -> "Fit":
        """Compares the columns of rows with those of the table.

        Args:
            run: Runs a statement.
            target: The table.
            upsert: How rows replace each other.
            schema: Columns of the rows.
            partial: Whether the rows have some columns alone, and are not written to this table.

        Raises:
            SinkError: The table does not exist, or does not take the rows.
        """
        kinds = run(statements.KIND_OF, target.name)
        if not kinds:
            raise SinkError(
                f"The PostgreSQL table {target.name} does not exist.", action="Start again: it is made then."
            )
        [(kind, secured)] = kinds
        fields = [field for field in schema if upsert is None or field.name != upsert.op]
        known = {one.name: one for one in (TableColumn(*row) for row in run(statements.COLUMNS_OF, target.name))}
        if obstacles := _obstacles(kind, fields, known, partial=partial):
            raise SinkError(
                f"The PostgreSQL table {target.name} does not take the rows: {'; '.join(obstacles)}.",
                action="Change the table, cast the output to its types, or give the sink another table.",
            )
        columns = [known[field.name] for field in fields]
        same = all(column.takes_bytes(field.type) for column, field in zip(columns, fields, strict=True))
        return cls(columns, copies=upsert is None and same and not secured)


def check_fits(run: Run, target: Target, upsert: Upsert | None, schema: pa.Schema) -> None:
    """Checks whether rows can be written: PostgreSQL itself plans the statement, and runs nothing.

    Args:
        run: Runs a statement.
        target: The table.
        upsert: How rows replace each other.
        schema: Columns of the rows.

    Raises:
        SinkError: They cannot.
    """
    if not run("SELECT 1 WHERE to_regnamespace($1) IS NOT NULL", statements.quoted(target.schema)):
        raise SinkError(
            f"PostgreSQL has no schema {target.schema!r}.", action="Create it, or give the sink another one."
        )
    _check_rights(run, target)
    if not exists(run, target.name):
        return
    fit = Fit.of(run, target, upsert, schema)
    nulls = ", ".join(f"NULL::{postgres_type(schema.field(n).type)} AS {statements.quoted(n)}" for n in fit.names)
    planned = statements.insert(target, fit.columns, upsert, f"(SELECT {nulls}) AS nothing")
    try:
        if upsert is not None and upsert.op is not None:
            run(f"DO $lakestate$ BEGIN EXECUTE $planned$ EXPLAIN DELETE FROM {target.name} $planned$; END $lakestate$")
        run(f"DO $lakestate$ BEGIN EXECUTE $planned$ EXPLAIN {planned} $planned$; END $lakestate$")
    except adbc_driver_manager.Error as error:
        raise SinkError(
            f"PostgreSQL refuses to write to {target.name}: {said(error)}.",
            action="Grant the user INSERT on it (for upserts also SELECT, UPDATE, and DELETE with op); an upsert needs "
            "a unique index of its keys.",
        ) from error


def exists(run: Run, name: str) -> bool:
    """Returns whether a table exists, by its quoted name."""
    return bool(run("SELECT 1 WHERE to_regclass($1) IS NOT NULL", name))


def _check_rights(run: Run, target: Target) -> None:
    """Checks the rights that PostgreSQL does not check when it plans the statement."""
    missing = [name for name in (target.name, target.markers) if not exists(run, name)]
    schema = statements.quoted(target.schema)
    if missing and not run("SELECT 1 WHERE has_schema_privilege($1, 'CREATE')", target.schema):
        raise SinkError(
            f"The PostgreSQL table {missing[0]} does not exist, and the user may not create it.",
            action=f"Create it, or let the user do so: GRANT CREATE ON SCHEMA {schema} TO …",
        )
    rights = (
        "has_table_privilege($1, 'SELECT') AND has_table_privilege($1, 'INSERT') AND has_table_privilege($1, 'UPDATE')"
    )
    if target.markers not in missing and not run(f"SELECT 1 WHERE {rights}", target.markers):
        raise SinkError(
            f"The user may not read and write the PostgreSQL table {target.markers}, which has the sinks' markers.",
            action=f"GRANT SELECT, INSERT, UPDATE ON {target.markers} TO …",
        )


def _obstacles(kind: str, fields: "list[pa.Field[Any]]", known: dict[str, TableColumn], *, partial: bool) -> list[str]:
    if kind not in _ORDINARY:
        return ["it is a view, a foreign table, or another kind of relation than a table"]
    found = []
    for field in fields:
        column = known.get(field.name)
        if column is None:
            found.append(f"it has no column {field.name!r}")
        elif not column.takes(field.type):
            found.append(f"column {field.name!r} is {column.type}, and the output has {postgres_type(field.type)}")
    names = {field.name for field in fields}
    given = [one.name for one in known.values() if one.must_be_given and one.name not in names and not partial]
    return found + [f"column {name!r} must not be null, has no default, and is not in the output" for name in given]


__all__ = ["Fit", "Run", "check_fits", "exists"]
