"""The data types of `operations`: a case, and the reported row."""

from collections.abc import Sequence
from statistics import median

import msgspec

OPERATIONS = "operations"
PARTS = ("native", "canonical", "restore", "rescale", "checkpoint")
"""The parts that `OPERATIONS` measures."""
OPERATION_ENGINES = ("lakestate", "flink")
"""The engines; Flink does not run `native`."""
CHECKPOINTS = {"lakestate": "each epoch", "flink": "when asked"}
"""How often an engine's work becomes durable: Flink's interval is so long that it takes no periodic checkpoints."""


class OperationCase(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one process of `OPERATIONS`.

    Attributes:
        parts: Names in `PARTS`; `native` is always alone.
        keys: Number of keys, each with a state.
        value_bytes: Length of a value; for `native` the state is a count.
        epoch_records: Records of each epoch of the stream (`native`).
        parallelism: Subtasks, task slots and shuffle partitions.
        other_parallelism: The parallelism to which, and then from which, `rescale` goes.
        backend: `heap` or `rocksdb`.
        savepoints: Number of savepoints during the stream (`native`).
        pairs: Number of pairs of phases, with and without savepoints, of the stream (`native`).
        rounds: How often all else is measured, after one round that does not count.
        work: Empty folder for inputs, state and results.
        engine: A name in `OPERATION_ENGINES`; plain PySpark runs with `lakestate`.
    """

    parts: tuple[str, ...]
    keys: int
    value_bytes: int
    epoch_records: int
    parallelism: int
    other_parallelism: int
    backend: str
    savepoints: int
    pairs: int
    rounds: int
    work: str
    engine: str = "lakestate"

    def other_than(self, parallelism: int) -> int:
        """Returns the other one of the two parallelisms."""
        return self.other_parallelism if parallelism == self.parallelism else self.parallelism


class RangeRead(msgspec.Struct, frozen=True, kw_only=True):
    """The rows and bytes that a subtask read for its key groups `first` to `last`, both inclusive."""

    first: int
    last: int
    rows: int
    bytes_read: int


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report of `OPERATIONS`; these fields are the JSON object. Missing figures are null.

    Attributes:
        workload: `OPERATIONS`.
        operation: `native savepoint`, `stream`, `canonical savepoint`, `restore`, `rescale`, `load` or `checkpoint`.
        engine: `lakestate`, `spark` (plain PySpark writes or reads the same rows), or `flink`.
        form: The form of the engine.
        backend: Where the state is held.
        key_type: `int` (64 bits).
        keys: Number of keys.
        value_bytes: Length of a value; 8 for a count.
        epoch_records: Records of each epoch of the stream.
        parallelism: Subtasks.
        from_parallelism: Parallelism of the job with the savepoint from which a `rescale` starts.
        checkpoints: How often the engine's work becomes durable; empty if it never does: PySpark runs a batch.
        runs: Number of measured savepoints, checkpoints, restores or epochs.
        median_seconds: Median of all runs.
        max_seconds: Maximum of all runs.
        rows_per_second: Rows of state over the median; for a `stream` records, the median of all phases.
        cpu_seconds_per_million: CPU of driver, JVM and Python workers, per million of these rows.
        paired_ratio: Records per second of a phase with savepoints over those of its neighbour without savepoints;
            the median of all pairs.
        bytes_total: Length of the state's files.
        bytes_read: The most bytes of them that one subtask read.
        share_read: `bytes_read` over `bytes_total`.
        ranges: The reads of each subtask.
        results_equal: Whether the resulting state equals the truth.
    """

    workload: str = OPERATIONS
    operation: str
    engine: str
    form: str
    backend: str
    key_type: str = "int"
    keys: int
    value_bytes: int
    epoch_records: int | None = None
    parallelism: int
    from_parallelism: int | None = None
    checkpoints: str = ""
    runs: int
    median_seconds: float | None = None
    max_seconds: float | None = None
    rows_per_second: float | None = None
    cpu_seconds_per_million: float | None = None
    paired_ratio: float | None = None
    bytes_total: int | None = None
    bytes_read: int | None = None
    share_read: float | None = None
    ranges: tuple[RangeRead, ...] = ()
    results_equal: bool

    @property
    def label(self) -> str:
        return f"{self.engine}/{self.form}"


def operation(
    case: OperationCase,
    name: str,
    label: str,
    seconds: Sequence[float],
    *,
    rows: int | None = None,
    cpu_seconds: Sequence[float] = (),
    equal: bool,
    **more: object,
) -> Operation:
    """Returns the row of an operation that was run several times.

    Args:
        case: The case that ran it.
        name: The operation.
        label: Engine and form, as in `Operation.label`.
        seconds: Duration of each run.
        rows: Rows of state that each run wrote or read.
        cpu_seconds: CPU seconds of each run.
        equal: Whether its results are right.
        more: Fields of the row that are otherwise null, or those of the case.
    """
    engine, form = label.split("/")
    typical = median(seconds)
    fields: dict[str, object] = {
        "operation": name,
        "engine": engine,
        "form": form,
        "backend": "delta" if engine == "spark" else case.backend,
        "keys": case.keys,
        "value_bytes": case.value_bytes,
        "parallelism": case.parallelism,
        "checkpoints": CHECKPOINTS.get(engine, ""),
        "runs": len(seconds),
        "median_seconds": round(typical, 4),
        "max_seconds": round(max(seconds), 4),
        "rows_per_second": None if rows is None else round(rows / typical, 1),
        "cpu_seconds_per_million": round(median(cpu_seconds) / rows * 1e6, 3) if rows and cpu_seconds else None,
        "results_equal": equal,
    }
    return msgspec.convert(fields | more, Operation)


__all__ = ["OPERATIONS", "OPERATION_ENGINES", "PARTS", "Operation", "OperationCase", "RangeRead", "operation"]
