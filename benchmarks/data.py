"""Input files, the truth about them, and the comparison with what an engine arrived at.

Every engine reads the same files. The files of an epoch are consecutive in modification time, and there is one per
subtask, because Spark gives one small Parquet file to one task whatever its row groups.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

SEED = 20_260_101
FIRST_MODIFIED = 1_700_000_000
"""Modification time of the first file; each later one is a second younger."""

CHECKS = ("records", "sum", "weighted")

Longs = npt.NDArray[np.int64]


def draw_keys(records: int, keys: int) -> Longs:
    """Returns the key numbers of a data set, uniform over `keys`; the same ones at every call."""
    return np.random.default_rng(SEED).integers(0, keys, size=records, dtype=np.int64)


def key_column(numbers: Longs, key_type: str) -> "pa.Array[Any]":
    """Returns key numbers as keys: 64-bit integers, or strings of 15 characters."""
    if key_type == "int":
        return pa.array(numbers)
    if key_type == "string":
        return pa.array([f"user-{number:010d}" for number in numbers.tolist()])
    raise ValueError(f"Key type {key_type!r} is neither int nor string.")


def write_running_count(
    folder: Path, *, records: int, keys: int, key_type: str, epochs: int, epoch_records: int, files_per_epoch: int
) -> None:
    """Writes the epochs of a running count: one column `k`; the data set is replayed when it is too short."""
    drawn = draw_keys(records, keys)
    for epoch in range(epochs):
        positions = np.arange(epoch * epoch_records, (epoch + 1) * epoch_records)
        numbers = drawn.take(positions, mode="wrap")
        write_epoch(folder, epoch, pa.table({"k": key_column(numbers, key_type)}), files_per_epoch)


def write_worker_memory(folder: Path, *, keys: int, passes: int, epoch_records: int, files_per_epoch: int) -> None:
    """Writes each key once per pass, in another order each time, with a number `v`."""
    random = np.random.default_rng(SEED)
    numbers = np.concatenate([random.permutation(keys) for _ in range(passes)]).astype(np.int64)
    values = random.integers(0, 1_000_000, size=len(numbers), dtype=np.int64)
    for epoch, start in enumerate(range(0, len(numbers), epoch_records)):
        part = slice(start, start + epoch_records)
        write_epoch(
            folder, epoch, pa.table({"k": pa.array(numbers[part]), "v": pa.array(values[part])}), files_per_epoch
        )


def write_epoch(folder: Path, epoch: int, table: pa.Table, files: int) -> None:
    """Writes the records of one epoch as so many files of nearly equal size."""
    folder.mkdir(parents=True, exist_ok=True)
    borders = [len(table) * part // files for part in range(files + 1)]
    for part in range(files):
        path = folder / f"epoch-{epoch:04d}-{part}.parquet"
        pq.write_table(table.slice(borders[part], borders[part + 1] - borders[part]), path)
        modified = FIRST_MODIFIED + epoch * files + part
        os.utime(path, (modified, modified))


def first_epochs(folder: Path, target: Path, files: int) -> Path:
    """Returns a folder with the first so many files of another: the same files, by hard link."""
    if not target.exists():
        target.mkdir(parents=True)
        for path in sorted(folder.glob("*.parquet"))[:files]:
            os.link(path, target / path.name)
    return target


def checks_of_counts(folder: Path) -> pa.Table:
    """Returns what the rows of a running count with 64-bit keys come to, in 64 bits that overflow.

    Returns:
        One row: `records`, the `sum` of the counts that were emitted, and of them times their keys (`weighted`).
    """
    truth = count_truth(folder)
    keys, counts = (np.asarray(truth.column(name)) for name in ("k", "n"))
    emitted = counts * (counts + 1) // 2
    return pa.table(dict(zip(CHECKS, ([int(one.sum())] for one in (counts, emitted, emitted * keys)), strict=True)))


def records_truth(folder: Path) -> pa.Table:
    """Returns how many records there are in the files: `records`."""
    return pa.table({"records": [_read(folder).num_rows]})


def count_truth(folder: Path) -> pa.Table:
    """Returns how often each key occurs in the files: `k`, `n`."""
    return _read(folder).group_by("k").aggregate([((), "count_all")]).rename_columns(["k", "n"])


def numbers_truth(folder: Path) -> pa.Table:
    """Returns what `worker_memory` keeps of each key: `k`, `n` (records), `total` and `largest` of `v`."""
    grouped = _read(folder).group_by("k").aggregate([((), "count_all"), ("v", "sum"), ("v", "max")])
    return grouped.rename_columns(["k", "n", "total", "largest"])


def same_rows(actual: pa.Table, truth: pa.Table) -> bool:
    """Returns whether two tables with unique keys in their first column hold the same rows, by position of columns."""
    if actual.num_columns != truth.num_columns or len(actual) != len(truth):
        return False
    try:
        actual = actual.rename_columns(truth.column_names).cast(truth.schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    key = truth.column_names[0]
    return bool(actual.sort_by(key).equals(truth.sort_by(key)))


def _read(folder: Path) -> pa.Table:
    return ds.dataset(str(folder), format="parquet").to_table()
