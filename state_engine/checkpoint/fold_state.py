"""Folds one state range by range and gives the parts to the checkpoint storage."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from state_engine.checkpoint.plan import StatePlan, part_stem
from state_engine.log.fold import coalesce, fold
from state_engine.log.ops import KEY_GROUP
from state_engine.log.records import StateFile
from state_engine.log.state_ttl import drop_expired
from state_engine.storage.checkpoint_storage import CheckpointStorageAccess, FoldedPart, PublishedState, WrittenPart
from state_engine.storage.delta_access import EncodedPart, encode_parquet_part, put_parquet_part
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import Segment, empty_rows, read_log_rows


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
        version: Version of its table, None without a table.
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


class EncodedRange(NamedTuple):
    """A range of key groups that is folded and encoded, but not written."""

    part: EncodedPart
    rows_per_group: "np.ndarray[Any, Any]"


def fold_parts(
    write: Callable[[FoldedPart], WrittenPart], plan: StatePlan, segments: Sequence[Segment], generation: int
) -> FoldedState:
    """Folds a state range by range and writes each that has rows; memory holds one range at a time.

    Raises:
        StorageError: A part was not written.
        CorruptionError: A file to be folded is gone or damaged.
    """
    files, statistics = [], []
    per_group = np.zeros(plan.max_parallelism, np.int64)
    for first, last in plan.ranges:
        written = _fold_range(write, plan, segments, generation, first, last)
        if written is not None:
            files.append(written.file)
            statistics.append(written.statistics)
            per_group += written.rows_per_group
    return FoldedState(plan, tuple(files), tuple(statistics), skew=_skew(per_group))


def encode_range(
    plan: StatePlan, segments: Sequence[Segment], generation: int, first: int, last: int
) -> EncodedRange | None:
    """Folds key groups `first` to `last`, both inclusive, to a Parquet file in memory; None when there are no rows.

    This costs CPU and memory; `put_range` writes the file. Ranges are independent: several threads or processes may
    encode and put them, in any order, also twice.
    """
    part = _folded_part(plan, segments, generation, first, last)
    return None if part is None else EncodedRange(encode_parquet_part(part), _per_group(part))


def put_range(storage: CheckpointStorage, encoded: EncodedRange) -> WrittenRange:
    """Writes the file of an encoded range, and waits for the disk. The file is not committed to a table here.

    Its name determines its content, so a file that an earlier attempt left is used as it is.
    """
    return WrittenRange(*put_parquet_part(storage, encoded.part), encoded.rows_per_group)


def _fold_range(
    write: Callable[[FoldedPart], WrittenPart],
    plan: StatePlan,
    segments: Sequence[Segment],
    generation: int,
    first: int,
    last: int,
) -> WrittenRange | None:
    part = _folded_part(plan, segments, generation, first, last)
    return None if part is None else WrittenRange(*write(part), _per_group(part))


def _folded_part(
    plan: StatePlan, segments: Sequence[Segment], generation: int, first: int, last: int
) -> FoldedPart | None:
    rows = [empty_rows(plan.schema), *read_log_rows(segments, plan.schema, first, last)]
    folded = _fold_all(plan, rows) if plan.full else coalesce(plan.schema, rows)
    if not folded.num_rows:
        return None
    stem = part_stem(plan, first, last)
    return FoldedPart(plan.schema, plan.table, stem, generation, plan.max_parallelism, folded)


def _per_group(part: FoldedPart) -> "np.ndarray[Any, Any]":
    return np.bincount(part.rows.column(KEY_GROUP).to_numpy(), minlength=part.max_parallelism)


def _skew(per_group: "np.ndarray[Any, Any]") -> Skew:
    if not per_group.any():
        return Skew()
    largest = int(per_group.argmax())
    return Skew(int(np.count_nonzero(per_group)), largest, int(per_group[largest]))


def _fold_all(plan: StatePlan, rows: Sequence[pa.Table]) -> pa.Table:
    """Folds a state from scratch; rows that have expired at the published epoch need not be kept."""
    return drop_expired(plan.schema, fold(plan.schema, rows, copy=False), plan.processing_time, plan.watermark)


def commit_state(access: CheckpointStorageAccess, state: FoldedState, *, app_id: str, epoch: int) -> FoldedState:
    """Commits the files of a state together; safe to repeat.

    Raises:
        StorageError: The outcome is unknown, or the checkpoint storage does not take the state.
    """
    plan = state.plan
    written = tuple(map(WrittenPart, state.written, state.statistics))
    return state._replace(
        version=access.commit(
            PublishedState(plan.schema, plan.table, state.files, written, plan.full, app_id=app_id, epoch=epoch)
        )
    )


__all__ = [
    "EncodedRange",
    "FoldedState",
    "Skew",
    "WrittenRange",
    "commit_state",
    "encode_range",
    "fold_parts",
    "put_range",
]
