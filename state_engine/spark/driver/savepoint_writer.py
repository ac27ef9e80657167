"""Writes canonical savepoints of states that are too large for one process: one Spark task per range of key groups.

The tasks run the same fold as `ProcessWriter`, so both write files with the same names, rows and order. The driver
commits the Delta table and puts `_metadata`, as it does without Spark: both take effect once.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from state_engine import errors
from state_engine.checkpoint.fold_state import WrittenRange
from state_engine.checkpoint.plan import StatePlan
from state_engine.errors import CorruptionError, LakestateError, StorageError
from state_engine.log.records import StateFile
from state_engine.savepoint.writers import Fold, ProcessWriter, RangeWriter, WriteOrder, open_fold
from state_engine.serialization.column import Record
from state_engine.spark.wire.failures import failure_of

LEAST_RANGES = 20
"""The driver's process takes less time for a state with fewer ranges; a range has half a million rows."""


class SparkWriter:
    """Folds large states with a Spark job, and small ones in this process.

    Every worker reads the job's root and writes to the savepoint's directory itself, so all of them must see both. A
    worker needs memory for one range. The Spark job takes task slots like any other. If a stream runs on the same
    session, the job takes turns with its epochs.

    Args:
        spark: The session.
        least_ranges: A state that is cut into fewer ranges is folded in this process.
        here: The writer that folds those states.
    """

    def __init__(
        self, spark: SparkSession, *, least_ranges: int = LEAST_RANGES, here: RangeWriter | None = None
    ) -> None:
        self._spark = spark
        self._least_ranges = least_ranges
        self._here = here or ProcessWriter()

    def write(self, fold: Fold, plan: StatePlan) -> Sequence[WrittenRange]:
        """Writes the ranges of a plan; arguments and result as of `RangeWriter`.

        Raises:
            CorruptionError: A file that the fold reads is gone or damaged.
            StorageError: Spark gave up on a range.
        """
        in_memory = any(url.startswith("memory:") for url in (fold.order.root, fold.order.url))  # workers cannot see it
        if in_memory or len(plan.ranges) < self._least_ranges:
            return self._here.write(fold, plan)
        order, encoded = msgspec.json.encode(fold.order), msgspec.json.encode(plan._replace(kept=()))
        context = self._spark.sparkContext
        tasks = context.parallelize(plan.ranges, len(plan.ranges))
        try:
            encoded_results = tasks.map(lambda range_: write_in_task(order, encoded, range_)).collect()
        except (PySparkException, Py4JJavaError, Py4JError) as error:
            raise failure_of(error).as_error(
                f"Spark gave up on writing {plan.table} of savepoint {fold.order.url}/{fold.order.folder}",
                otherwise=StorageError,
                action="Look at the executors' logs, and check that they can reach the root and the directory.",
            ) from error
        results = [msgspec.json.decode(result, type=_RangeResult) for result in encoded_results]
        return [_written(result) for result in results if result.file is not None or result.error]


class _RangeResult(Record, frozen=True, kw_only=True):
    """What a task returns: a file, nothing (no rows), or an error that another attempt would only repeat."""

    file: StateFile | None = None
    statistics: str = ""
    groups: tuple[tuple[int, int], ...] = ()
    error: str = ""
    message: str = ""
    action: str = ""


def write_in_task(order: bytes, plan: bytes, range_: tuple[int, int]) -> bytes:
    """Folds one range in a worker and returns the result; raises errors that another attempt may cure."""
    try:
        written = _open(order).write(msgspec.json.decode(plan, type=StatePlan), *range_)
    except CorruptionError as error:
        result = _RangeResult(error=type(error).__name__, message=error.message, action=error.action)
    else:
        result = _result(written) if written is not None else _RangeResult()
    return msgspec.json.encode(result)


@lru_cache(maxsize=2)
def _open(order: bytes) -> Fold:
    """Opens a fold once per savepoint: a worker writes many of its ranges, and reads the manifests once."""
    return open_fold(msgspec.json.decode(order, type=WriteOrder))


def _result(written: WrittenRange) -> _RangeResult:
    groups = np.flatnonzero(written.rows_per_group)
    counts = written.rows_per_group[groups]
    return _RangeResult(
        file=written.file,
        statistics=written.statistics,
        groups=tuple(zip(groups.tolist(), counts.tolist(), strict=True)),
    )


def _written(result: _RangeResult) -> WrittenRange:
    if result.file is None:
        kind: Any = getattr(errors, result.error, CorruptionError)
        error: LakestateError = kind(result.message, action=result.action)
        raise error
    rows = np.zeros(result.file.max_parallelism, np.int64)
    for group, count in result.groups:
        rows[group] = count
    return WrittenRange(result.file, result.statistics, rows)


__all__ = ["LEAST_RANGES", "SparkWriter", "write_in_task"]
