"""Compares the rows of a query: by sums of its final results, which every engine can report."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data import Longs
from benchmarks.workloads.workload import checks_of

FACTOR = 1_000_003
"""Base of a row's number: its columns are digits, in 64 bits with overflow; `Nexmark.java` does the same."""


def sums(rows: pa.Table) -> pa.Table:
    """Returns the sums of rows of integers, and of timestamps as ms."""
    columns = [milliseconds(column) for column in rows.columns]
    number = np.zeros(len(rows), np.int64)
    with np.errstate(over="ignore"):
        for column in columns:
            number = number * FACTOR + column
    return checks_of(columns[0], number)


def final(rows: pa.Table, key: int) -> pa.Table:
    """Returns the last row for each value of the first `key` columns, or all rows if `key` is 0."""
    if not key:
        return rows
    numbered = rows.append_column("place", pa.array(np.arange(len(rows))))
    last = numbered.group_by(rows.column_names[:key]).aggregate([("place", "max")])
    return rows.take(last.column("place_max"))


def told(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Returns some columns of the rows; for a changelog, without retracted rows, since the last row of a key counts."""
    if "op" in rows.column_names:
        rows = rows.filter(pc.is_in(rows.column("op"), pa.array(["+I", "+U"])))
    return rows.select(list(columns))


def milliseconds(column: "pa.ChunkedArray[Any]") -> Longs:
    """Returns integers as they are, and timestamps as ms since 1970."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz))
    return np.asarray(pc.cast(column, pa.int64()))


__all__ = ["FACTOR", "final", "milliseconds", "sums", "told"]
