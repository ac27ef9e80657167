"""The words of `operations`: a case, and the row that is reported."""

from collections.abc import Sequence
from statistics import median

import msgspec

OPERATIONS = "operations"
PARTS = ("native", "canonical", "restore", "rescale", "checkpoint")
"""What `OPERATIONS` measures."""
OPERATION_ENGINES = ("lakestate", "flink")
"""What does it; Flink has no part in `native`."""
CHECKPOINTS = {"lakestate": "each epoch", "flink": "when asked"}
"""How often what an engine did is durable: Flink's interval is so long that it takes none of its own accord."""


class OperationCase(msgspec.Struct, frozen=True, kw_only=True):
    """What one process of `OPERATIONS` does.

    Attributes:
        parts: Names in `PARTS`; `native` always alone.
        keys: Number of keys, each with a state.
        value_bytes: Length of a value; for `native` the state is a count.
        epoch_records: Records of each epoch of the stream (`native`).
        parallelism: Subtasks, task slots and shuffle partitions.
        other_parallelism: To which `rescale` goes, and from which it comes back.
        backend: `heap` or `rocksdb`.
        savepoints: How many are taken beside the stream (`native`).
        pairs: Into how many pairs of phases, with savepoints and without, the stream is cut (`native`).
        rounds: How often everything else is measured, behind one round that does not count.
        work: Empty folder for inputs, state and results.
        engine: A name in `OPERATION_ENGINES`; plain PySpark goes along with `lakestate`.
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
    """What a subtask fetched for its key groups `first` to `last`, both inclusive."""

    first: int
    last: int
    rows: int
    bytes_read: int


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report of `OPERATIONS`; these fields are the JSON object. Null is what a row does not measure.

    Attributes:
        workload: `OPERATIONS`.
        operation: `native savepoint`, `stream`, `canonical savepoint`, `restore`, `rescale`, `load` or `checkpoint`.
        engine: `lakestate`, `spark` where plain PySpark writes or reads the same rows, or `flink`.
        form: What of the engine.
        backend: Where the state is held.
        key_type: `int` (64 bits).
        keys: Number of keys.
        value_bytes: Length of a value; 8 for a count.
        epoch_records: Records of each epoch of the stream.
        parallelism: Subtasks.
        from_parallelism: Of the job whose savepoint a `rescale` begins with.
        checkpoints: How often what the engine did is durable; empty where nothing is: PySpark runs a batch.
        runs: Savepoints, checkpoints, restores or epochs that were measured.
        median_seconds: Of all runs.
        max_seconds: Of all runs.
        rows_per_second: Rows of state over the median; of a `stream` records, the median of all phases.
        cpu_seconds_per_million: CPU of driver, JVM and Python workers, per million of these rows.
        paired_ratio: Records per second of a phase with savepoints over those of the phase next to it without; the
            median of all pairs.
        bytes_total: Length of the state's files.
        bytes_read: The most that one subtask fetched of them.
        share_read: That over `bytes_total`.
        ranges: What each subtask fetched.
        results_equal: The state that came of it equals the truth.
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
        case: Where it was run.
        name: The operation.
        label: Engine and form, as `Operation.label` has them.
        seconds: What each run took.
        rows: Of state, that each run wrote or read.
        cpu_seconds: Of each run.
        equal: Whether what came of it is right.
        more: Fields of the row that are otherwise null, or the case's.
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
