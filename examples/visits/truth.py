"""The expected results of the clicks job, recomputed as one batch in DuckDB from the clicks themselves."""

from collections.abc import Iterable

import pyarrow as pa

from lakestate.examples.compare import Truth
from lakestate.examples.visits.data import Click
from state_engine.extras import from_extra

with from_extra("demo"):
    import duckdb

# Clicks that are exactly one pause apart are one visit.
_VISITS = """
        CREATE TABLE visits AS WITH steps AS (
            SELECT *, clicked - lag(clicked) OVER users > INTERVAL 30 MINUTE AS begins
            FROM clicks WINDOW users AS (PARTITION BY "user" ORDER BY clicked, number)
        ),
        numbered AS (
            SELECT *, count(*) FILTER (begins) OVER (PARTITION BY "user" ORDER BY clicked, number) AS visit FROM steps
        )
        SELECT "user", min(clicked) AS window_start, max(clicked) + INTERVAL 30 MINUTE AS window_end,
               count(*) AS clicks,
               arg_min(page, (clicked, number)) AS entry, arg_max(page, (clicked, number)) AS exit
        FROM numbered GROUP BY "user", visit"""

_OUTPUTS = {
    "visits": "SELECT * FROM visits",
    # A visit counts in the hour of its last millisecond.
    "entries": """
        SELECT entry, time_bucket(INTERVAL 1 HOUR, window_end - INTERVAL 1 MILLISECOND) AS window_start,
               window_start + INTERVAL 1 HOUR AS window_end, count(*) AS visits, sum(clicks)::BIGINT AS clicks
        FROM (SELECT * RENAME (window_start AS begun) FROM visits) GROUP BY ALL""",
}

KEYS = {"visits": ("user", "window_start"), "entries": ("entry", "window_start")}
"""The columns that identify a row of an output."""


def compute_truth(clicks: Iterable[Click], until_ms: int | None = None) -> Truth:
    """Recomputes the outputs.

    Args:
        clicks: All of them, in any order.
        until_ms: The watermark of the job: only windows that it has passed are over. None if the input has ended.
    """
    rows = [(click.number, click.user, click.page, click.at_ms * 1_000) for click in clicks]
    names = ["number", "user", "page", "clicked"]
    types: list[pa.DataType] = [pa.int64(), pa.string(), pa.string(), pa.timestamp("us", "UTC")]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    records = pa.table([pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], names=names)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("clicks", records)
        connection.execute(_VISITS)
        ended = f"WHERE epoch_ms(window_end) - 1 <= {until_ms}" if until_ms is not None else ""

        def ask(query: str) -> pa.Table:
            table: pa.Table = connection.sql(f"SELECT * FROM ({query}) {ended}").to_arrow_table()
            return table

        return Truth(len(rows), {name: ask(query) for name, query in _OUTPUTS.items()}, {}, KEYS)


__all__ = ["KEYS", "compute_truth"]
