"""`lakestate inspect`: the entries of a state, as rows."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lakestate.commands.common import At, Job, Root, make_console, named_errors
from lakestate.commands.formats import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from state_engine.inspect import History
    from state_engine.log.records import StateSchema


def inspect(
    job: Job,
    state: Annotated[
        str,
        typer.Argument(metavar="STATE", help="OPERATOR_UID/STATE_NAME, or only the state's name if it is unique."),
    ],
    root: Root,
    key: Annotated[
        list[str] | None,
        typer.Option(help='Only this key: its value, or a JSON array such as ["UA", 2013]. Repeatable.'),
    ] = None,
    at: At = "latest",
    limit: Annotated[
        int, typer.Option(min=1, help="Maximum number of rows in the table. --json prints all rows.")
    ] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row, for programs.")] = False,
) -> None:
    """Show the entries of one state at an epoch, including changes that no checkpoint contains yet."""
    with named_errors():
        from lakestate.sql import Format, print_rows
        from state_engine.inspect import find_state, history_kept

        with history_kept(root, job, at, purpose="inspect") as history:
            schema = find_state(history, job, state)
            pieces = _pieces(root, job, history, schema, key or [])
            if as_json:
                for rows in pieces:
                    print_rows(rows, Format.JSON)
                return
            shown, more = _first(pieces, schema, limit)
        console = make_console()
        place = f"{history.head.manifest.generation}/{history.head.manifest.epoch}"
        console.print(Text(f"{schema.uid}/{schema.name}: {schema.shape} of {schema.value}, epoch {place}"))
        print_rows(_columns_for_people(shown), Format.TABLE, limit=limit)
        if more:
            console.print(f"The first {limit:,} rows; --limit prints more, --json all.")


def _pieces(root: str, job: str, history: "History", schema: "StateSchema", keys: list[str]) -> "Iterator[pa.Table]":
    from state_engine.inspect import parse_key, rows_of_key, scan_state

    if not keys:
        yield from scan_state(root, job, history, schema)
    for key in [parse_key(schema, text) for text in keys]:
        yield rows_of_key(root, job, history, schema, key)


def _first(pieces: "Iterator[pa.Table]", schema: "StateSchema", limit: int) -> "tuple[pa.Table, bool]":
    """The first rows, and whether there are more: no more of the state is read than that takes."""
    import pyarrow as pa

    from state_engine.inspect import empty_state

    found = empty_state(schema)
    for rows in pieces:
        found = pa.concat_tables([found, rows])
        if found.num_rows > limit:
            break
    return found.slice(0, limit), found.num_rows > limit


def _columns_for_people(rows: "pa.Table") -> "pa.Table":
    """Leaves out where a row came from, and the namespace where there is none; last accesses become times."""
    import pyarrow as pa

    accessed = pa.array(map(format_time, rows["last_access"].to_pylist()), pa.string())
    rows = rows.drop_columns(["position", "seq", "last_access"]).append_column("last_access", accessed)
    return rows.drop_columns(["namespace"]) if rows["namespace"].null_count == rows.num_rows else rows


__all__ = ["inspect"]
