"""Runs DuckDB over all events at once: the physical reference, and the expected results."""

from pathlib import Path

import pyarrow as pa

from benchmarks.engines import duckdb
from benchmarks.model import EMITTED, Case, Outcome
from benchmarks.nexmark.queries import QUERIES, query_of, sql_of
from benchmarks.nexmark.rows import sums


def run(case: Case) -> Outcome:
    """Runs a query over all events at once."""
    ends, rows = duckdb.timed(case, sql_of(case.workload, "duckdb"), _folders(case.workload, case.inputs))
    return Outcome(ends, {EMITTED: sums(rows)})


def answer(workload: str, inputs: str, threads: int) -> pa.Table:
    """Returns the expected rows for the events in a folder.

    Args:
        workload: A name that ends with the name of a query.
        inputs: The folder.
        threads: Number of threads.
    """
    return duckdb.answer(sql_of(workload, "duckdb"), _folders(workload, inputs), threads)


def _folders(workload: str, inputs: str) -> dict[str, Path]:
    return {kind: Path(inputs) / kind for kind in QUERIES[query_of(workload)].reads}


__all__ = ["answer", "run"]
