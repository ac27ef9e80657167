"""Input of the jobs whose state is written out: a value of random bytes for each key, then other values for some."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data import SEED, write_epoch
from benchmarks.operation_model import OperationCase

LOAD_RECORDS = 400_000
CHANGED = 1_000
"""So many keys get another value in the epoch that ends a restore: a job goes on when it has sealed one."""


def write_values(folder: Path, case: OperationCase) -> pa.Table:
    """Writes the epochs that make the state and returns what it is afterwards: `k`, `v`."""
    random, tables = np.random.default_rng(SEED), []
    for epoch, start in enumerate(range(0, case.keys, LOAD_RECORDS)):
        keys = np.arange(start, min(start + LOAD_RECORDS, case.keys), dtype=np.int64)
        tables.append(pa.table({"k": pa.array(keys), "v": _values(random, len(keys), case.value_bytes)}))
        write_epoch(folder, epoch, tables[-1], case.parallelism)
    return pa.concat_tables(tables)


def write_changes(folder: Path, case: OperationCase, before: pa.Table) -> pa.Table:
    """Writes one more epoch, with other values of the first keys, and returns the state behind it."""
    count = min(CHANGED, case.keys)
    values = _values(np.random.default_rng(SEED + 1), count, case.value_bytes)
    changed = pa.table({"k": pa.array(np.arange(count, dtype=np.int64)), "v": values})
    write_epoch(folder, -(-case.keys // LOAD_RECORDS), changed, case.parallelism)
    return pa.concat_tables([changed, before.slice(count)])


def _values(random: np.random.Generator, count: int, length: int) -> "pa.Array[Any]":
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(length)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(random.bytes(count * length))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


__all__ = ["CHANGED", "write_changes", "write_values"]
