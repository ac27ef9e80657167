"""Writes input files, computes the truth about them, and compares it with an engine's results.

Every engine reads the same files. The files of an epoch have consecutive modification times. Each epoch has one file
per subtask, because Spark gives one small Parquet file to one task whatever its row groups.
"""

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.model import Tables

SEED = 20_260_101
FIRST_MODIFIED = 1_700_000_000
"""Modification time of the first file, in seconds; each later file is one second younger."""

Longs = npt.NDArray[np.int64]


def draw_keys(records: int, keys: int) -> Longs:
    """Returns the key numbers of a data set, uniform over `keys`; every call returns the same numbers."""
    return np.random.default_rng(SEED).integers(0, keys, size=records, dtype=np.int64)


def key_column(numbers: Longs, key_type: str) -> "pa.Array[Any]":
    """Converts key numbers to keys: 64-bit integers, or strings of 15 characters."""
    if key_type == "int":
        return pa.array(numbers)
    if key_type == "string":
        return pa.array([f"user-{number:010d}" for number in numbers.tolist()])
    raise ValueError(f"Key type {key_type!r} is neither int nor string.")


def write_worker_memory(folder: Path, *, keys: int, passes: int, epoch_records: int, files_per_epoch: int) -> None:
    """Writes each key once per pass, in a different order each time, with a number `v`."""
    random = np.random.default_rng(SEED)
    numbers = np.concatenate([random.permutation(keys) for _ in range(passes)]).astype(np.int64)
    values = random.integers(0, 1_000_000, size=len(numbers), dtype=np.int64)
    for epoch, start in enumerate(range(0, len(numbers), epoch_records)):
        part = slice(start, start + epoch_records)
        write_epoch(
            folder, epoch, pa.table({"k": pa.array(numbers[part]), "v": pa.array(values[part])}), files_per_epoch
        )


def write_epoch(folder: Path, epoch: int, table: pa.Table, files: int) -> None:
    """Writes the records of one epoch as `files` files of nearly equal size."""
    borders = [len(table) * part // files for part in range(files + 1)]
    write_files(folder, epoch, [table.slice(start, end - start) for start, end in pairwise(borders)])


def write_files(folder: Path, epoch: int, tables: Sequence[pa.Table]) -> None:
    """Writes each table as a file of an epoch; all epochs must have the same number of tables."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, table in enumerate(tables):
        path = folder / f"epoch-{epoch:04d}-{part}.parquet"
        pq.write_table(table, path)
        modified = FIRST_MODIFIED + epoch * len(tables) + part
        os.utime(path, (modified, modified))


def first_epochs(folder: Path, target: Path, files: int) -> Path:
    """Returns a folder with hard links to the first `files` files of another folder."""
    if not target.exists():
        target.mkdir(parents=True)
        for path in sorted(folder.glob("*.parquet"))[:files]:
            os.link(path, target / path.name)
    return target


def first_records(folder: Path, target: Path, records: int) -> Path:
    """Returns a folder with one epoch of first records: the same number from the files of each part number."""
    if not target.exists():
        numbers = sorted({path.stem.rpartition("-")[2] for path in folder.glob("*.parquet")})
        epochs = [ds.dataset(sorted(map(str, folder.glob(f"*-{number}.parquet")))) for number in numbers]
        write_files(target, 0, [epoch.head(records // len(numbers)) for epoch in epochs])
    return target


def records_truth(folder: Path) -> pa.Table:
    """Returns the number of records in the files: column `records`."""
    return pa.table({"records": [read_inputs(folder).num_rows]})


def numbers_truth(folder: Path) -> pa.Table:
    """Returns the state of `worker_memory` for each key: `k`, `n` (records), `total` and `largest` of `v`."""
    grouped = read_inputs(folder).group_by("k").aggregate([((), "count_all"), ("v", "sum"), ("v", "max")])
    return grouped.rename_columns(["k", "n", "total", "largest"])


def same_tables(actual: Tables, truth: Tables) -> bool:
    """Returns whether both have the same tables with the same rows; false if there is nothing to compare."""
    same = bool(truth) and actual.keys() == truth.keys()
    return same and all(same_rows(actual[name], table) for name, table in truth.items())


def same_rows(actual: pa.Table, truth: pa.Table) -> bool:
    """Returns whether two tables have the same rows equally often, in any order; columns are matched by position."""
    if actual.num_columns != truth.num_columns or len(actual) != len(truth):
        return False
    try:
        actual = actual.rename_columns(truth.column_names).cast(truth.schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    order: list[tuple[str, Literal["ascending", "descending"]]] = [(name, "ascending") for name in truth.column_names]
    return bool(actual.sort_by(order).equals(truth.sort_by(order)))


def read_inputs(folder: Path) -> pa.Table:
    """Returns all records, file after file."""
    return ds.dataset(str(folder), format="parquet").to_table()
