"""Windows in Lakestate, declared and by a function: what they emit and what is still open, in the same columns.

The function of a declared aggregate is nobody's who could note what it emits. So a sink sums the rows, in the driver:
Lakestate alone writes and reads them, which counts.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data import Longs
from benchmarks.engines.lakestate_functions import CountAndSum, RowOfWindow
from benchmarks.workloads.windows import numbers
from benchmarks.workloads.workload import added, checks_of, longs
from state_engine.api import Aggregate, Time
from state_engine.api.windows import TumblingEventTimeWindows
from state_engine.spark import EpochId
from state_engine.spark.keyed_stream import KeyedStream
from state_engine.spark.stream import DataStream

DECLARED = "declared"


def windowed(records: KeyedStream, form: str, size_ms: int, uid: str) -> DataStream:
    """Returns a row for each key and window that is over."""
    windows = records.window(TumblingEventTimeWindows.of(Time.milliseconds(size_ms)))
    if form == DECLARED:
        return windows.aggregate({"n": Aggregate.count(), "total": Aggregate.sum("v")}, uid=uid)
    columns = "k bigint, window_start bigint, n bigint, total bigint"
    return windows.aggregate(CountAndSum(), RowOfWindow(), output_type=columns, uid=uid)


class EmittedRows:
    """The function of a sink: sums what each epoch gave. An epoch that is given a second time counts once."""

    def __init__(self) -> None:
        self._epochs: dict[EpochId, pa.Table] = {}

    def __call__(self, epoch: EpochId, rows: pa.Table) -> None:
        start, n, total = _milliseconds(rows.column("window_start")), longs(rows, "n"), longs(rows, "total")
        self._epochs[epoch] = checks_of(longs(rows, "k"), numbers(start, n, total))

    @property
    def sums(self) -> pa.Table:
        """What all rows come to."""
        return added(*self._epochs.values())


def open_windows(read: Callable[[str], pa.Table], form: str) -> pa.Table:
    """Returns key, start, count and sum of the windows that are in the state.

    Args:
        read: Returns the rows of a state by its name.
        form: Declared aggregates keep a state for each of them, functions their accumulators.
    """
    key, value = ["k", "namespace"], ["value"]
    if form == DECLARED:
        counts, totals = (read(name).select(key + value) for name in ("count", "sum_v"))
        kept = counts.join(totals, key, join_type="inner", right_suffix="_sum")
    else:
        kept = read("window-contents").select(key + value).flatten()
    starts = [int(str(window).partition("/")[0]) for window in kept.column("namespace").to_pylist()]
    return kept.set_column(1, "start", pa.array(starts, pa.int64())).rename_columns(["k", "start", "n", "total"])


def _milliseconds(column: "pa.ChunkedArray[Any]") -> Longs:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz)).cast(pa.int64())
    return np.asarray(column)
