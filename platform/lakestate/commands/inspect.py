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
        timers = schema.kind == "timer"
        contents = "timers" if timers else f"{schema.shape} of {schema.value}"
        console.print(Text(f"{schema.uid}/{schema.name}: {contents}, epoch {place}"))
        print_rows(_columns_for_people(shown, timers=timers), Format.TABLE, limit=limit)
        if more:
            console.print(f"The first {limit:,} rows; --limit prints more, --json all.")


def _pieces(root: str, job: str, history: "History", schema: "StateSchema", keys: list[str]) -> "Iterator[pa.Table]":
    from state_engine.inspect import parse_key, rows_of_key, scan_state

    if not keys:
        yield from scan_state(root, job, history, schema)
    for key in [parse_key(schema, text) for text in keys]:
        yield rows_of_key(root, job, history, schema, key)


def _first(pieces: "Iterator[pa.Table]", schema: "StateSchema", limit: int) -> "tuple[pa.Table, bool]":
    """Returns the first rows, and whether there are more; it reads no more of the state than that needs."""
    import pyarrow as pa

    from state_engine.inspect import empty_state

    first = empty_state(schema)
    for rows in pieces:
        first = pa.concat_tables([first, rows])
        if first.num_rows > limit:
            break
    return first.slice(0, limit), first.num_rows > limit


def _columns_for_people(rows: "pa.Table", *, timers: bool) -> "pa.Table":
    """Removes the origin of rows, and the namespace if no row has one; formats last accesses as times.

    Of timers it formats the times at which they fire, too, and removes their values, which are all true.
    """
    import pyarrow as pa

    accessed = pa.array(map(format_time, rows["last_access"].to_pylist()), pa.string())
    rows = rows.drop_columns(["position", "seq", "last_access"]).append_column("last_access", accessed)
    if timers:
        times = rows["user_key"].to_pylist()
        rows = rows.drop_columns(["value", "last_access"])
        rows = rows.append_column("time", pa.array((format_time(one, ms=True) for one in times), pa.string()))
    return rows.drop_columns(["namespace"]) if rows["namespace"].null_count == rows.num_rows else rows


__all__ = ["inspect"]
