"""Windows and sessions in Lakestate: emitted rows and open windows, in the same columns for all forms.

A declared aggregate has no function of the author that could note emitted rows. So a sink in the driver sums them. Only
Lakestate has to write and read these rows, and this is part of its measured cost.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data import Longs
from benchmarks.engines.lakestate_functions import CountAndSum, RowOfWindow
from benchmarks.workloads.windows import numbers
from benchmarks.workloads.workload import added, checks_of, longs
from state_engine.api import Aggregate, Time
from state_engine.api.windows import EventTimeSessionWindows, TumblingEventTimeWindows
from state_engine.spark import EpochId
from state_engine.spark.graph.keyed_stream import KeyedStream
from state_engine.spark.graph.stream import DataStream

OF_WINDOWS = "k bigint, window_start bigint, n bigint, total bigint"
"""Columns of the rows that functions emit for windows."""
Rows = tuple[Longs, Longs]
"""Keys and numbers of rows."""


def windowed(records: KeyedStream, size_ms: int, uid: str, *, declared: bool) -> DataStream:
    """Returns one row for each key and window that is over."""
    windows = records.window(TumblingEventTimeWindows.of(Time.milliseconds(size_ms)))
    if declared:
        return windows.aggregate({"n": Aggregate.count(), "total": Aggregate.sum("v")}, uid=uid)
    return windows.aggregate(CountAndSum(), RowOfWindow(), output_type=OF_WINDOWS, uid=uid)


def in_sessions(records: KeyedStream, gap_ms: int, uid: str) -> DataStream:
    """Returns a row for each session that is over."""
    sessions = records.window(EventTimeSessionWindows.with_gap(Time.milliseconds(gap_ms)))
    return sessions.aggregate({"n": Aggregate.count()}, uid=uid)


def of_windows(rows: pa.Table) -> Rows:
    """Returns keys and numbers of rows of windows."""
    start, n, total = _milliseconds(rows.column("window_start")), longs(rows, "n"), longs(rows, "total")
    return longs(rows, "k"), numbers(start, n, total)


def of_sessions(rows: pa.Table) -> Rows:
    """Returns keys and numbers of rows of sessions."""
    return longs(rows, "k"), longs(rows, "n")


class EmittedRows:
    """A sink function that sums the rows of each epoch. An epoch that comes a second time counts once.

    Args:
        told: Returns keys and numbers of rows.
    """

    def __init__(self, told: Callable[[pa.Table], Rows]) -> None:
        self._told = told
        self._epochs: dict[EpochId, pa.Table] = {}

    def __call__(self, epoch: EpochId, rows: pa.Table) -> None:
        self._epochs[epoch] = checks_of(*self._told(rows))

    @property
    def sums(self) -> pa.Table:
        """The sums of all rows."""
        return added(*self._epochs.values())


def open_windows(read: Callable[[str], pa.Table], form: str) -> pa.Table:
    """Returns key, start, count and sum of the windows in the state.

    Args:
        read: Returns the rows of a state by name.
        form: `declared` keeps a state for each aggregate, `row` keeps accumulators, and the `vectorised` function keeps
            a map by start.
    """
    if form == "vectorised":
        return read("windows").select(["k", "user_key", "value"]).flatten().rename_columns(["k", "start", "n", "total"])
    key, value = ["k", "namespace"], ["value"]
    if form == "declared":
        counts, totals = (read(name).select(key + value) for name in ("count", "sum_v"))
        kept = counts.join(totals, key, join_type="inner", right_suffix="_sum")
    else:
        kept = read("window-contents").select(key + value).flatten()
    starts = [int(str(window).partition("/")[0]) for window in kept.column("namespace").to_pylist()]
    return kept.set_column(1, "start", pa.array(starts, pa.int64())).rename_columns(["k", "start", "n", "total"])


def open_sessions(read: Callable[[str], pa.Table], gap_ms: int) -> pa.Table:
    """Returns key, count and time of the last record of the sessions in the state.

    Args:
        read: Returns the rows of a state by name.
        gap_ms: Time from the last record of a session to its end.
    """
    bounds = read("sessions").select(["k", "value"]).flatten().rename_columns(["k", "start", "end", "namespace"])
    counts = read("count").select(["k", "namespace", "value"])
    kept = bounds.join(counts, ["k", "namespace"], join_type="full outer")
    last = pc.subtract(kept.column("end"), gap_ms)
    return pa.table([kept.column("k"), kept.column("value"), last], names=["k", "count", "last"])


def _milliseconds(column: "pa.ChunkedArray[Any]") -> Longs:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz)).cast(pa.int64())
    return np.asarray(column)
