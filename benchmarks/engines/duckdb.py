"""Runs the physical reference: one DuckDB query over all records, which are in memory before it, without state."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.model import EMITTED, MAP_AND_LIST, RUNNING_COUNT, SESSIONS, TTL, WINDOWS, Case, Outcome, Tables
from benchmarks.workloads import event_time, running_count
from benchmarks.workloads.map_and_list import EVERY, ITEMS
from benchmarks.workloads.sessions import gap_ms
from benchmarks.workloads.windows import numbers, window_ms
from benchmarks.workloads.workload import checks_of, longs

RECORDS = "records"

COUNTS = "SELECT k, COUNT(*) AS n FROM records GROUP BY k"
WINDOWED = "SELECT k, t - t % {0} AS start, COUNT(*) AS n, CAST(SUM(v) AS BIGINT) AS total FROM records GROUP BY ALL"
IN_SESSIONS = (
    "SELECT k, COUNT(*) AS n FROM (SELECT k, SUM(begins) OVER (PARTITION BY k ORDER BY t) AS session FROM "
    "(SELECT k, t, CASE WHEN t - LAG(t) OVER (PARTITION BY k ORDER BY t) <= {0} THEN 0 ELSE 1 END AS begins "
    "FROM records)) GROUP BY k, session"
)
IN_LISTS = """
WITH numbered AS MATERIALIZED (
    SELECT k, item, v, filename AS file, file_row_number AS place,
        ROW_NUMBER() OVER (PARTITION BY k, item ORDER BY filename, file_row_number) % {0} = 0 AS emits,
        ROW_NUMBER() OVER (PARTITION BY k, item ORDER BY filename, file_row_number) AS n
    FROM records
), placed AS (
    SELECT *, COALESCE(SUM(emits::INT) OVER (
        PARTITION BY k ORDER BY file, place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), 0) AS list
    FROM numbered
)
SELECT 'count' AS what, k, item, COUNT(*) AS n, NULL AS total, NULL AS kept FROM records GROUP BY k, item
UNION ALL
SELECT CASE WHEN BOOL_OR(emits) THEN 'emitted' ELSE 'left' END, k, ANY_VALUE(item) FILTER (emits),
    ANY_VALUE(n) FILTER (emits), CAST(SUM(v) AS BIGINT), CASE WHEN NOT BOOL_OR(emits) THEN LIST(v) END
FROM placed GROUP BY k, list
"""
"""A new list begins after each record that emits, so that at most one record of a list emits."""


class Asked(NamedTuple):
    """A query, and the function that converts its rows to comparable tables."""

    sql: str
    tables: Callable[[pa.Table], Tables]


def run(case: Case) -> Outcome:
    """Runs the query of a workload."""
    query = {
        RUNNING_COUNT: Asked(COUNTS, lambda rows: {running_count.COUNT: rows}),
        TTL: Asked(COUNTS, lambda rows: {running_count.COUNT: rows}),  # nothing expires
        MAP_AND_LIST: Asked(IN_LISTS.format(EVERY), _maps_and_lists),
        WINDOWS: Asked(WINDOWED.format(window_ms(case.keys)), _windows),
        SESSIONS: Asked(IN_SESSIONS.format(gap_ms(case.keys)), _sessions),
    }[case.workload]
    ends, rows = timed(case, query.sql, {RECORDS: Path(case.inputs)})
    return Outcome(ends, query.tables(rows))


def timed(case: Case, sql: str, folders: Mapping[str, Path]) -> tuple[list[float], pa.Table]:
    """Returns the ends of the epochs of a case, with its time divided evenly among them; and its rows."""
    answer(sql, folders, case.parallelism)  # afterwards the files are cached in memory, as for engines that read longer
    started = time.time()
    rows = answer(sql, folders, case.parallelism)
    each = (time.time() - started) / case.epochs
    return [started + each * epoch for epoch in range(1, case.epochs + 1)], rows


def answer(sql: str, folders: Mapping[str, Path], threads: int) -> pa.Table:
    """Returns the rows of a query.

    Args:
        sql: The query.
        folders: Folders of Parquet files, by the names of the views over them.
        threads: Number of threads.
    """
    with duckdb.connect(config={"threads": threads}) as connection:
        for name, folder in folders.items():
            # A query that needs the order of records gets it from file names and row numbers.
            read = connection.read_parquet(str(folder / "*.parquet"), filename=True, file_row_number=True)
            read.create_view(name)
        rows: pa.Table = connection.sql(sql).to_arrow_table()
        return rows


def _maps_and_lists(rows: pa.Table) -> Tables:
    counts, emitted, rests = (rows.filter(pc.field("what") == what) for what in ("count", "emitted", "left"))
    item, n, total = (longs(emitted, name) for name in ("item", "n", "total"))
    kept = rests.column("kept").combine_chunks()
    values = pa.table([rests.column("k").take(pc.list_parent_indices(kept)), pc.list_flatten(kept)], names=["k", "v"])
    return {
        "counts": counts.select(["k", "item", "n"]),
        "values": values,
        EMITTED: checks_of(longs(emitted, "k"), (total + n) * ITEMS + item),
    }


def _windows(rows: pa.Table) -> Tables:
    k, start, n, total = (longs(rows, name) for name in ("k", "start", "n", "total"))
    return event_time.right(k, numbers(start, n, total))


def _sessions(rows: pa.Table) -> Tables:
    return event_time.right(longs(rows, "k"), longs(rows, "n"))


__all__ = ["answer", "run", "timed"]
