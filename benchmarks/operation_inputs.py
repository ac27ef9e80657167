"""Input of the jobs whose state is written out: a value of random bytes for each key, then other values for some."""

from collections.abc import Iterator
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
    tables = list(load(case))
    for epoch, table in enumerate(tables):
        write_epoch(folder, epoch, table, case.parallelism)
    return pa.concat_tables(tables)


def write_changes(folder: Path, case: OperationCase, before: pa.Table, number: int = 0) -> pa.Table:
    """Writes one more epoch, with other values of the first keys, and returns the state behind it.

    Args:
        folder: Of the input; a job may be reading it, so files appear whole.
        case: Sizes.
        before: The state before.
        number: How many such epochs there are.
    """
    changed = changes(case, number)
    apart = folder.with_name(f"{folder.name}-changes")
    write_epoch(apart, -(-case.keys // LOAD_RECORDS) + number, changed, case.parallelism)
    for file in sorted(apart.iterdir()):
        file.rename(folder / file.name)
    return replaced(before, changed)


def load(case: OperationCase) -> Iterator[pa.Table]:
    """Yields what the epochs have that make the state, the same at every call."""
    random = np.random.default_rng(SEED)
    for start in range(0, case.keys, LOAD_RECORDS):
        keys = np.arange(start, min(start + LOAD_RECORDS, case.keys), dtype=np.int64)
        yield pa.table({"k": pa.array(keys), "v": _values(random, len(keys), case.value_bytes)})


def changes(case: OperationCase, number: int = 0) -> pa.Table:
    """Returns other values of the first keys, other ones for each number."""
    count = min(CHANGED, case.keys)
    values = _values(np.random.default_rng(SEED + 1 + number), count, case.value_bytes)
    return pa.table({"k": pa.array(np.arange(count, dtype=np.int64)), "v": values})


def replaced(before: pa.Table, changed: pa.Table) -> pa.Table:
    """Returns a state after its first keys got other values."""
    return pa.concat_tables([changed, before.slice(len(changed))])


def _values(random: np.random.Generator, count: int, length: int) -> "pa.Array[Any]":
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(length)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(random.bytes(count * length))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


__all__ = ["CHANGED", "changes", "load", "replaced", "write_changes", "write_values"]
