"""Writes the input of jobs with a state to save: random bytes for each key, then other values for some keys."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data import SEED, write_epoch
from benchmarks.operation_model import OperationCase

LOAD_RECORDS = 400_000
CHANGED = 1_000
"""Number of keys with another value in the epoch that ends a restore: a restored job continues once it seals one."""


def write_values(folder: Path, case: OperationCase) -> pa.Table:
    """Writes the epochs that create the state, and returns that state: `k`, `v`."""
    tables = list(load(case))
    for epoch, table in enumerate(tables):
        write_epoch(folder, epoch, table, case.parallelism)
    return pa.concat_tables(tables)


def write_changes(folder: Path, case: OperationCase, before: pa.Table, number: int = 0) -> pa.Table:
    """Writes one more epoch, with other values for the first keys, and returns the state after it.

    Args:
        folder: Folder of the input; a job may be reading it, so files appear whole.
        case: The sizes.
        before: The state before.
        number: Number of such epochs so far.
    """
    changed = changes(case, number)
    apart = folder.with_name(f"{folder.name}-changes")
    write_epoch(apart, -(-case.keys // LOAD_RECORDS) + number, changed, case.parallelism)
    for file in sorted(apart.iterdir()):
        file.rename(folder / file.name)
    return replaced(before, changed)


def load(case: OperationCase) -> Iterator[pa.Table]:
    """Yields the records of the epochs that create the state; every call yields the same."""
    random = np.random.default_rng(SEED)
    for start in range(0, case.keys, LOAD_RECORDS):
        keys = np.arange(start, min(start + LOAD_RECORDS, case.keys), dtype=np.int64)
        yield pa.table({"k": pa.array(keys), "v": _values(random, len(keys), case.value_bytes)})


def changes(case: OperationCase, number: int = 0) -> pa.Table:
    """Returns other values for the first keys, which differ for each number."""
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
