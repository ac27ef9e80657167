"""The physical reference: DuckDB asks once over all records, which are there before it, and has no state to keep."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa

from benchmarks.model import RUNNING_COUNT, SESSIONS, WINDOWS, Case, Outcome, Tables
from benchmarks.workloads import event_time, running_count
from benchmarks.workloads.sessions import gap_ms
from benchmarks.workloads.windows import numbers, window_ms
from benchmarks.workloads.workload import longs

RECORDS = "records"

COUNTS = "SELECT k, COUNT(*) AS n FROM records GROUP BY k"
WINDOWED = "SELECT k, t - t % {0} AS start, COUNT(*) AS n, CAST(SUM(v) AS BIGINT) AS total FROM records GROUP BY ALL"
IN_SESSIONS = (
    "SELECT k, COUNT(*) AS n FROM (SELECT k, SUM(begins) OVER (PARTITION BY k ORDER BY t) AS session FROM "
    "(SELECT k, t, CASE WHEN t - LAG(t) OVER (PARTITION BY k ORDER BY t) <= {0} THEN 0 ELSE 1 END AS begins "
    "FROM records)) GROUP BY k, session"
)


class Asked(NamedTuple):
    """A query, and what makes of its rows what is compared."""

    sql: str
    tables: Callable[[pa.Table], Tables]


def run(case: Case) -> Outcome:
    """Runs the query of a workload."""
    asked = {
        RUNNING_COUNT: Asked(COUNTS, lambda rows: {running_count.COUNT: rows}),
        WINDOWS: Asked(WINDOWED.format(window_ms(case.keys)), _windows),
        SESSIONS: Asked(IN_SESSIONS.format(gap_ms(case.keys)), _sessions),
    }[case.workload]
    ends, rows = timed(case, asked.sql, {RECORDS: Path(case.inputs)})
    return Outcome(ends, asked.tables(rows))


def timed(case: Case, sql: str, folders: Mapping[str, Path]) -> tuple[list[float], pa.Table]:
    """Returns when a case's epochs would have ended, its time shared out evenly among them; and its rows."""
    answer(sql, folders, case.parallelism)  # the files are in memory then, as for those that read them for longer
    started = time.time()
    rows = answer(sql, folders, case.parallelism)
    each = (time.time() - started) / case.epochs
    return [started + each * epoch for epoch in range(1, case.epochs + 1)], rows


def answer(sql: str, folders: Mapping[str, Path], threads: int) -> pa.Table:
    """Returns the rows of a query.

    Args:
        sql: The query.
        folders: Of the Parquet files, by the names of the views over them.
        threads: So many work on it.
    """
    with duckdb.connect(config={"threads": threads}) as connection:
        for name, folder in folders.items():
            connection.read_parquet(str(folder / "*.parquet")).create_view(name)
        rows: pa.Table = connection.sql(sql).to_arrow_table()
        return rows


def _windows(rows: pa.Table) -> Tables:
    k, start, n, total = (longs(rows, name) for name in ("k", "start", "n", "total"))
    return event_time.right(k, numbers(start, n, total))


def _sessions(rows: pa.Table) -> Tables:
    return event_time.right(longs(rows, "k"), longs(rows, "n"))


__all__ = ["answer", "run", "timed"]
