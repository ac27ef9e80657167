"""The input files of a workload.

All records of a key are in files of one part number, in order. So they reach every engine in this order, from one task.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data import draw_keys, key_column, write_files
from benchmarks.workloads.event_time import START_MS
from benchmarks.workloads.workload import Workload

ARROW_TYPES = {"int": pa.int32(), "bigint": pa.int64()}


def write_stream(
    folder: Path,
    workload: Workload,
    *,
    records: int,
    keys: int,
    key_type: str,
    epochs: int,
    epoch_records: int,
    files_per_epoch: int,
) -> None:
    """Writes the epochs of a workload. A short data set is replayed, with event times that continue."""
    drawn = {"k": draw_keys(records, keys), **workload.draw(records)}
    for epoch in range(epochs):
        positions = np.arange(epoch * epoch_records, (epoch + 1) * epoch_records)
        columns = {name: values.take(positions, mode="wrap") for name, values in drawn.items()}
        if workload.timed:
            columns["t"] = START_MS + positions
        numbers = columns.pop("k")
        table = pa.table(
            {"k": key_column(numbers, key_type)}
            | {name: pa.array(values, ARROW_TYPES[workload.columns[name]]) for name, values in columns.items()}
        )
        parts = numbers % files_per_epoch
        write_files(folder, epoch, [table.filter(pa.array(parts == part)) for part in range(files_per_epoch)])
