"""Workload `windows`: count and sum of each key in tumbling windows of event time, each emitted once.

Nothing is late: all records of a key come in order, and the watermarks of every engine wait for its slowest source.
"""

import numpy as np
import pyarrow as pa

from benchmarks.data import SEED, Longs
from benchmarks.model import EMITTED, ENGINES, PASS_THROUGH, PROCESS_MODE, WINDOWS, Case, Tables
from benchmarks.workloads import event_time
from benchmarks.workloads.workload import Workload, longs

RECORDS = 4
"""Average number of records of a key in a window."""
VALUES = 1000
MARKS = 11
"""A row's number includes the window's start modulo this, to detect wrong windows; sizes are not multiples of it."""
OPEN = "open"
"""The table of open windows: key, start in ms, count, sum."""
NOT_HERE = {"transformWithState", PASS_THROUGH, PROCESS_MODE, f"{PROCESS_MODE}/rocksdb"}
"""Contenders without windows, and contenders that would take too long."""


def window_ms(keys: int) -> int:
    """Returns the size of a window, in ms. There is one record per ms."""
    return RECORDS * keys


def draw(records: int) -> dict[str, Longs]:
    """Returns a value `v` for each record."""
    return {"v": np.random.default_rng(SEED + 1).integers(0, VALUES, size=records, dtype=np.int64)}


def truth(records: pa.Table, keys: int) -> Tables:
    """Returns the expected sums of all windows, and that none is overdue."""
    t = longs(records, "t")
    with_start = records.append_column("start", pa.array(t - t % window_ms(keys)))
    windows = with_start.group_by(["k", "start"]).aggregate([((), "count_all"), ("v", "sum")])
    k, start, n, total = (longs(windows, name) for name in ("k", "start", "count_all", "v_sum"))
    return event_time.right(k, numbers(start, n, total))


def numbers(start: Longs, n: Longs, total: Longs) -> Longs:
    """Returns the numbers of the rows of windows, for the sums."""
    return (total + n) * MARKS + start % MARKS


def settled(final: Tables, case: Case) -> Tables:
    """Returns the sums of an engine's emitted and open windows, and the number of open ones that are overdue."""
    if OPEN not in final:
        return final
    k, start, n, total = (np.asarray(column) for column in final[OPEN].columns)
    last = start + window_ms(case.keys) - 1  # the watermark that ends the window
    return event_time.settled(final[EMITTED], k, numbers(start, n, total), last, case)


WINDOWS_WORKLOAD = Workload(
    WINDOWS,
    "Count and sum of each key in tumbling windows, by functions, row by row and vectorised, declared and in SQL.",
    engines=tuple(name for name in ENGINES if name not in NOT_HERE),
    columns={"v": "bigint", "t": "bigint"},
    draw=draw,
    truth=truth,
    states=(OPEN,),
    compared=(EMITTED, event_time.OVERDUE),
    number=f"(total + n) * {MARKS} + start % {MARKS}",
    timed=True,
    length_ms=window_ms,
    settled=settled,
    fast=("declared", "groupBy", "groupBy/uncounted", "groupBy/heap", "flink-sql"),
)
