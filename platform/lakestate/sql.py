"""`lakestate sql`: runs SQL over the state of a job, or prints the statement, without Spark and without the job."""

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.table import Table
from rich.text import Text

from lakestate.commands.common import At, Root, make_console, named_errors

_ROWS_ON_A_SCREEN = 100


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class Dialect(StrEnum):
    """Engines that `--show` can write statements for."""

    DUCKDB = "duckdb"
    SPARK = "spark"
    POLARS = "polars"


def sql(
    root: Root,
    job: Annotated[str, typer.Option(help="Name of the job. It may be running.")],
    statement: Annotated[
        str, typer.Argument(help='For instance "select * from aircraft.legs". Without a query, list the states.')
    ] = "",
    at: At = "latest",
    live: Annotated[
        bool,
        typer.Option("--live", help="Include sealed changes that no checkpoint contains yet; read into memory."),
    ] = False,
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.TABLE,
    show: Annotated[Dialect | None, typer.Option(help="Print the statement for this engine, and run nothing.")] = None,
) -> None:
    """Query the state of a job with SQL. Each state is a table named OPERATOR_UID.STATE_NAME."""
    with named_errors():
        # Imported here, so that the command line starts quickly.
        from state_engine.inspect import run_sql, show_sql

        if show is not None:
            typer.echo(show_sql(root, job, statement, show.value, at=at), nl=False)
        elif statement.strip():
            print_rows(run_sql(root, job, statement, at=at, live=live), format)
        else:
            print_rows(_states(root, job, at), format)


def print_rows(rows: pa.Table, format: Format, *, limit: int = _ROWS_ON_A_SCREEN) -> None:
    """Prints rows on standard output: a table has only the first ones, JSON (one object a line) and CSV have all."""
    match format:
        case Format.TABLE:
            _print_table(rows, limit)
        case Format.JSON:
            names = _distinct(rows.column_names)
            for row in _tuples(rows):
                typer.echo(json.dumps(dict(zip(names, row, strict=True)), default=_text, ensure_ascii=False))
        case Format.CSV:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(rows.column_names)
            writer.writerows(map(_cell, row) for row in _tuples(rows))


def _tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yields rows as tuples, not as dictionaries, since a join may have two columns of one name."""
    for batch in rows.to_batches(max_chunksize=10_000):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _distinct(names: Sequence[str]) -> list[str]:
    """Adds a number to the second and later columns with the same name."""
    return [f"{name}_{n}" if (n := names[:i].count(name)) else name for i, name in enumerate(names)]


def _states(root: str, job: str, at: str) -> pa.Table:
    from state_engine.inspect import list_states

    rows = [
        {
            "table": f'"{schema.uid}"."{schema.name}"',
            "shape": schema.shape,
            "key": ", ".join(f"{column.name} {column.type}" for column in schema.key),
            "user_key": schema.user_key,
            "value": schema.value,
        }
        for schema in list_states(root, job, at=at)
    ]
    names = ("table", "shape", "key", "user_key", "value")
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in names]))


def _print_table(rows: pa.Table, limit: int) -> None:
    console = make_console()
    table = Table()
    for name in rows.column_names:
        table.add_column(Text(name), overflow="fold")
    for row in _tuples(rows.slice(0, limit)):
        table.add_row(*(Text(_cell(value)) for value in row))
    console.print(table)
    if rows.num_rows > limit:
        console.print(f"{limit:,} of {rows.num_rows:,} rows; --format json or csv prints all.")


def _cell(value: Any) -> str:
    """A value as one cell: nested ones as JSON, a null as nothing."""
    if value is None:
        return ""
    return json.dumps(value, default=_text, ensure_ascii=False) if isinstance(value, dict | list) else _text(value)


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


__all__ = ["Dialect", "Format", "print_rows", "sql"]
