"""Writes the folded files of one state and brings its table to them."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from state_engine.checkpoint.plan import StatePlan, file_name
from state_engine.errors import StorageError
from state_engine.log.change_file import checksum_of
from state_engine.log.fold import coalesce, fold
from state_engine.log.ops import KEY_GROUP, ops_to_names, table_schema
from state_engine.log.records import StateFile
from state_engine.log.state_ttl import drop_expired
from state_engine.serialization.types import ddl_to_arrow
from state_engine.storage.parquet import ParquetFile, encode_parquet
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import Segment, empty_rows, read_log_rows
from state_engine.storage.tables import TableFile, Tables, put_once

CODEC: Literal["zstd"] = "zstd"


class Skew(NamedTuple):
    """How rows are spread over key groups: how many groups have any, and which one has most."""

    groups: int = 0
    largest: int | None = None
    largest_rows: int = 0


class FoldedState(NamedTuple):
    """One state of a checkpoint.

    Attributes:
        plan: How it is published.
        written: The files that this publish wrote.
        statistics: Delta's statistics (JSON) of each of them, in order.
        version: Version of its table, null when there is none.
        skew: Of the rows that were written.
    """

    plan: StatePlan
    written: tuple[StateFile, ...]
    statistics: tuple[str, ...]
    version: int | None = None
    skew: Skew = Skew()

    @property
    def files(self) -> tuple[StateFile, ...]:
        """All files that make up the state, oldest first."""
        return self.plan.kept + self.written


class WrittenRange(NamedTuple):
    """What was written for one range of key groups: the file, its statistics (JSON), rows in each key group."""

    file: StateFile
    statistics: str
    rows_per_group: "np.ndarray[Any, Any]"


def write_files(
    storage: CheckpointStorage, plan: StatePlan, segments: Sequence[Segment], generation: int
) -> FoldedState:
    """Folds a state range by range and writes one file for each range that has rows.

    A file's name stands for its content, so a file that an earlier attempt left behind is taken as it is. Memory holds
    one range at a time.
    """
    files, statistics = [], []
    per_group = np.zeros(plan.max_parallelism, np.int64)
    for first, last in plan.ranges:
        written = write_range(storage, plan, segments, generation, first, last)
        if written is not None:
            files.append(written.file)
            statistics.append(written.statistics)
            per_group += written.rows_per_group
    return FoldedState(plan, tuple(files), tuple(statistics), skew=_skew(per_group))


def write_range(
    storage: CheckpointStorage, plan: StatePlan, segments: Sequence[Segment], generation: int, first: int, last: int
) -> WrittenRange | None:
    """Folds key groups `first` to `last`, both inclusive, and writes their file; None when there are no rows.

    Ranges do not know of each other: they may be written by several threads or processes, in any order, also twice.
    """
    rows = [empty_rows(plan.schema), *read_log_rows(segments, plan.schema, first, last)]
    folded = _fold_all(plan, rows) if plan.full else coalesce(plan.schema, rows)
    del rows
    if not folded.num_rows:
        return None
    per_group = np.bincount(folded.column(KEY_GROUP).to_numpy(), minlength=plan.max_parallelism)
    path = f"{plan.table}/{file_name(plan, first, last)}"
    file, statistics = write_file(storage, plan, path, folded, generation)
    return WrittenRange(file, statistics, per_group)


def _skew(per_group: "np.ndarray[Any, Any]") -> Skew:
    if not per_group.any():
        return Skew()
    largest = int(per_group.argmax())
    return Skew(int(np.count_nonzero(per_group)), largest, int(per_group[largest]))


def _fold_all(plan: StatePlan, rows: Sequence[pa.Table]) -> pa.Table:
    """Folds a state from its beginning; what has expired at the published epoch need not live on."""
    return drop_expired(plan.schema, fold(plan.schema, rows), plan.processing_time, plan.watermark)


def write_file(
    storage: CheckpointStorage, plan: StatePlan, path: str, folded: pa.Table, generation: int
) -> tuple[StateFile, str]:
    """Writes rows that are sorted by key group as one file; returns it, and Delta's statistics (JSON) of it.

    Raises:
        StorageError: It cannot be written, or another number of rows lies there.
    """
    data, written = encode_parquet(ops_to_names(folded), codec=CODEC)
    if not put_once(storage, path, data):
        data = pa.py_buffer(storage.get(path))
        written = _describe(path, data, expected_rows=folded.num_rows)
    file = StateFile(
        schema_id=plan.schema.schema_id,
        path=path,
        length=written.length,
        checksum=written.checksum,
        rows=written.rows,
        first=written.row_groups[0][0],
        last=written.row_groups[-1][1],
        generation=generation,
        max_parallelism=plan.max_parallelism,
        codec=CODEC,
        row_groups=written.row_groups,
    )
    return file, written.statistics


def _describe(path: str, data: pa.Buffer, *, expected_rows: int) -> ParquetFile:
    """Describes a file that an attempt of another release left: the same rows in other bytes."""
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    if metadata.num_rows != expected_rows:
        raise StorageError(
            f"{path} holds {metadata.num_rows} rows of an earlier attempt, expected {expected_rows}.",
            action="Nothing was published; the next checkpoint uses other names.",
        )
    groups = []
    for index in range(metadata.num_row_groups):
        row_group = metadata.row_group(index)
        bounds = row_group.column(0).statistics
        if bounds is None:
            raise StorageError(f"{path} has no bounds of its key groups.", action="Remove the file; nothing names it.")
        groups.append((int(str(bounds.min)), int(str(bounds.max)), row_group.num_rows))
    statistics = msgspec.json.encode({"numRecords": metadata.num_rows}).decode()
    return ParquetFile(data.size, checksum_of(data), metadata.num_rows, tuple(groups), statistics)


def commit_table(tables: Tables, state: FoldedState, *, app_id: str, epoch: int) -> FoldedState:
    """Commits the new files to the state's table, once, and checks that the table now holds the state's files.

    Raises:
        StorageError: The outcome is unknown, or somebody else writes the table. The next checkpoint is FULL.
    """
    plan = state.plan
    active = tables.active(plan.table)
    prefix = f"{plan.table}/"
    wanted = {file.path.removeprefix(prefix) for file in state.files}
    there = set(active.names if active else ())
    if there == wanted and (bool(wanted) or active is None or not plan.full):  # a full fold to nothing may bring a type
        return state._replace(version=active.version if active else None)
    version = tables.commit(
        plan.table,
        [
            TableFile(file.path.removeprefix(prefix), file.length, file.rows, statistics)
            for file, statistics in zip(state.written, state.statistics, strict=True)
        ],
        schema=table_schema(plan.schema, ddl_to_arrow),
        app_id=app_id,
        version=epoch,
        overwrite=plan.full,
        info={"lakestate.epoch": str(epoch), "lakestate.fold": "full" if plan.full else "incremental"},
    )
    active = tables.active(plan.table)
    if active is None or set(active.names) != wanted:
        raise StorageError(
            f"The table {plan.table} does not hold the files of epoch {epoch}: somebody else writes it.",
            action="Do not write, optimise or vacuum state tables; the next checkpoint rewrites the table.",
        )
    return state._replace(version=version)


__all__ = ["FoldedState", "Skew", "WrittenRange", "commit_table", "write_file", "write_files", "write_range"]
