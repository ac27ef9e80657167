"""Workloads `running_count` and `ttl`: emit with each record the number of records of its key so far.

`ttl` keeps the count with a time to live of an hour. Nothing expires: it measures the cost of tracking access times.
"""

import numpy as np
import pyarrow as pa

from benchmarks.model import DECLARED, EMITTED, ENGINES, REFERENCE, ROW_ENGINES, RUNNING_COUNT, TTL, VECTORISED, Tables
from benchmarks.workloads.workload import Workload, checks

COUNT = "count"


def truth(records: pa.Table, keys: int) -> Tables:
    """Returns the count of each key, and with 64-bit keys the sums of all emitted counts."""
    counts = records.group_by("k").aggregate([((), "count_all")]).rename_columns(["k", "n"])
    if not pa.types.is_int64(counts.schema.field("k").type):
        return {COUNT: counts}
    number, n = (np.asarray(counts.column(name)) for name in ("k", "n"))
    squares = n * (n + 1) * (2 * n + 1) // 6
    emitted = checks(int(n.sum()), int((n * (n + 1) // 2).sum()), int((squares * number).sum()))
    return {COUNT: counts, EMITTED: emitted}


RUNNING_COUNT_WORKLOAD = Workload(
    RUNNING_COUNT,
    "The running count of each key, by every engine, at every size of epoch.",
    engines=tuple(ENGINES),
    columns={},
    draw=lambda records: {},
    truth=truth,
    states=(COUNT,),
    compared=(COUNT,),
    number="n",
    key_types=("int", "string"),
    fast=tuple(name for name, engine in ENGINES.items() if not engine.slow and name != REFERENCE),
)
TTL_WORKLOAD = RUNNING_COUNT_WORKLOAD._replace(
    name=TTL,
    about="The running count with a time to live of an hour, by functions, row by row and vectorised, and declared.",
    engines=(*ROW_ENGINES, *VECTORISED, *DECLARED, REFERENCE),
    key_types=("int",),
    fast=(),
)
