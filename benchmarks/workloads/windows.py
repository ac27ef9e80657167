"""Workload `windows`: count and sum of each key in windows of event time, one after the other, emitted once each.

Nothing is late: all records of a key come in order, and every engine has watermarks that wait for its slowest source.
"""

import numpy as np
import pyarrow as pa

from benchmarks.data import SEED, Longs
from benchmarks.model import EMITTED, ENGINES, PASS_THROUGH, PROCESS_MODE, WINDOWS, Case, Tables
from benchmarks.workloads import event_time
from benchmarks.workloads.workload import Workload, longs

RECORDS = 4
"""Of a key in a window, on average."""
VALUES = 1000
MARKS = 11
"""Starts of windows count modulo this, so that a row of another window is noticed; sizes are no multiples of it."""
OPEN = "open"
"""The table of the windows that are not over: key, start in ms, count, sum."""
NOT_HERE = {"transformWithState", PASS_THROUGH, PROCESS_MODE, f"{PROCESS_MODE}/rocksdb"}
"""Contenders without windows of their own, and those that would take too long."""


def window_ms(keys: int) -> int:
    """Returns the size of a window, in ms. There is a record in each."""
    return RECORDS * keys


def draw(records: int) -> dict[str, Longs]:
    """Returns a value `v` for each record."""
    return {"v": np.random.default_rng(SEED + 1).integers(0, VALUES, size=records, dtype=np.int64)}


def truth(records: pa.Table, keys: int) -> Tables:
    """Returns what all windows come to, and that none is overdue."""
    t = longs(records, "t")
    placed = records.append_column("start", pa.array(t - t % window_ms(keys)))
    windows = placed.group_by(["k", "start"]).aggregate([((), "count_all"), ("v", "sum")])
    k, start, n, total = (longs(windows, name) for name in ("k", "start", "count_all", "v_sum"))
    return event_time.right(k, numbers(start, n, total))


def numbers(start: Longs, n: Longs, total: Longs) -> Longs:
    """Returns the numbers that stand for windows."""
    return (total + n) * MARKS + start % MARKS


def settled(final: Tables, case: Case) -> Tables:
    """Returns what an engine's windows come to, emitted and open, and how many of these should have been emitted."""
    if OPEN not in final:
        return final
    k, start, n, total = (np.asarray(column) for column in final[OPEN].columns)
    last = start + window_ms(case.keys) - 1  # the ms that the watermark has to reach
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
