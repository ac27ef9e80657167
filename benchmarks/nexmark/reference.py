"""The physical reference: DuckDB, which has all events before it, and no state to keep."""

import time
from pathlib import Path

import duckdb
import pyarrow as pa

from benchmarks.model import EMITTED, Case, Outcome
from benchmarks.nexmark.queries import QUERIES, query_of, sql_of
from benchmarks.nexmark.rows import sums


def run(case: Case) -> Outcome:
    """Runs a query over all events at once. It has no epochs: its time is shared out among them evenly."""
    answer(case.workload, case.inputs, case.parallelism)  # the files are in memory then, for it as for a stream
    started = time.time()
    rows = answer(case.workload, case.inputs, case.parallelism)
    each = (time.time() - started) / case.epochs
    return Outcome([started + each * epoch for epoch in range(1, case.epochs + 1)], {EMITTED: sums(rows)})


def answer(workload: str, inputs: str, threads: int) -> pa.Table:
    """Returns the rows that are right for the events in a folder.

    Args:
        workload: Ends with the name of a query.
        inputs: The folder.
        threads: So many work on it.
    """
    with duckdb.connect(config={"threads": threads}) as connection:
        for kind in QUERIES[query_of(workload)].reads:
            connection.read_parquet(str(Path(inputs) / kind / "*.parquet")).create_view(kind)
        rows: pa.Table = connection.sql(sql_of(workload, "duckdb")).to_arrow_table()
        return rows


__all__ = ["answer", "run"]
