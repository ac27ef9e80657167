"""The data types of a benchmark run: a case, the outcome of an engine, and the reported row."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import pyarrow as pa

RUNNING_COUNT = "running_count"
MAP_AND_LIST = "map_and_list"
TTL = "ttl"
SESSIONS = "sessions"
WINDOWS = "windows"
WORKER_MEMORY = "worker_memory"
STATE_BACKENDS = "state_backends"
SMALL_EPOCHS = "small_epochs"
LARGE_EPOCHS = "large_epochs"
NEXMARK = "nexmark"
"""Prefix: each query is a workload, such as `nexmark-q3`."""
FRAUD = "fraud"
PASS_THROUGH = "pass-through"
"""The speed limit of engines with Python functions: scan, exchange, Arrow to Python and back, without state."""
REFERENCE = "duckdb"
"""The physical reference: a query over all records at once, without state."""
PROCESS_MODE = "pyflink/process"
"""PyFlink with its functions in separate processes; it is so slow that it reads only a few records."""
VECTORISED = ("vectorised", "vectorised/rocksdb")
"""Lakestate's functions over whole batches."""
DECLARED = ("declared", "declared/rocksdb")
"""Lakestate's operators without a function."""


class Engine(NamedTuple):
    """One contender.

    Attributes:
        module: Module with `run(case) -> Outcome`; only the subprocess imports it.
        engine: `lakestate`, `spark`, `flink` or `duckdb`, as reported.
        form: Form of the API, or the peer's operator by its name in the API.
        backend: Where the state is held.
        slow: Whether it reads only the first epochs of a case, because all of them would take most of an hour.
        checkpoints: How often its work becomes durable.
        key_types: Types of keys that it supports.
        most_records: The most records that it reads, because even the first epochs would take many minutes.
    """

    module: str
    engine: str
    form: str
    backend: str
    slow: bool = False
    checkpoints: str = "each epoch"
    key_types: tuple[str, ...] = ("int", "string")
    most_records: int | None = None

    @property
    def label(self) -> str:
        return f"{self.engine}/{self.form}"

    @property
    def api(self) -> str:
        """The form, without the backend that some forms contain."""
        return self.form.removesuffix("/rocksdb")


FLINK_CHECKPOINTS_MS = 1000
_FLINK = f"{FLINK_CHECKPOINTS_MS} ms", ("int",)

ENGINES = {
    "lakestate": Engine("benchmarks.engines.lakestate", "lakestate", "row", "heap"),
    "lakestate/rocksdb": Engine("benchmarks.engines.lakestate", "lakestate", "row/rocksdb", "rocksdb"),
    "vectorised": Engine("benchmarks.engines.lakestate", "lakestate", "vectorised", "heap"),
    "vectorised/rocksdb": Engine("benchmarks.engines.lakestate", "lakestate", "vectorised/rocksdb", "rocksdb"),
    "declared": Engine("benchmarks.engines.lakestate", "lakestate", "declared", "heap"),
    "declared/rocksdb": Engine("benchmarks.engines.lakestate", "lakestate", "declared/rocksdb", "rocksdb"),
    "transformWithState": Engine("benchmarks.engines.spark", "spark", "transformWithState", "rocksdb", slow=True),
    "groupBy": Engine("benchmarks.engines.spark", "spark", "groupBy", "rocksdb"),
    "groupBy/uncounted": Engine("benchmarks.engines.spark", "spark", "groupBy/uncounted", "rocksdb"),
    "groupBy/heap": Engine("benchmarks.engines.spark", "spark", "groupBy/heap", "heap"),
    "flink-java": Engine("benchmarks.engines.flink", "flink", "java", "heap", False, *_FLINK),
    "flink-java/rocksdb": Engine("benchmarks.engines.flink", "flink", "java/rocksdb", "rocksdb", False, *_FLINK),
    "flink-sql": Engine("benchmarks.engines.flink", "flink", "sql", "heap", False, *_FLINK),
    "pyflink": Engine("benchmarks.engines.flink", "flink", "python/thread", "heap", True, *_FLINK, 1_000_000),
    "pyflink/rocksdb": Engine(
        "benchmarks.engines.flink", "flink", "python/thread/rocksdb", "rocksdb", True, *_FLINK, 1_000_000
    ),
    PROCESS_MODE: Engine("benchmarks.engines.flink", "flink", "python/process", "heap", True, *_FLINK, 100_000),
    f"{PROCESS_MODE}/rocksdb": Engine(
        "benchmarks.engines.flink", "flink", "python/process/rocksdb", "rocksdb", True, *_FLINK, 100_000
    ),
    PASS_THROUGH: Engine("benchmarks.engines.spark", "spark", PASS_THROUGH, "none", checkpoints=""),
    REFERENCE: Engine("benchmarks.engines.duckdb", "duckdb", "batch", "none", checkpoints=""),
}
"""The contenders by their names in `--engines`, in the order in which they run."""

ROW_FORMS = {"row", "transformWithState", "java", "python/thread", "python/process"}
ROW_ENGINES = tuple(name for name, engine in ENGINES.items() if engine.api in ROW_FORMS)
"""The engines that run an author's function record by record."""


def _store(form: str, backend: str) -> Engine:
    return Engine("benchmarks.state_backend_engine", "lakestate", form, backend, checkpoints="")


STORES = {
    f"{shape}/{store}": _store(f"{shape}/{store}", store)
    for shape in ("value", "ttl", "map", "list", "timers")
    for store in ("heap", "rocksdb")
} | {"value/dict": _store("value/dict", "dict")}
"""What `STATE_BACKENDS` compares: a shape of state in a backend, and a plain dict with the same number of keys."""

MEMORY = {
    "lakestate/bare": Engine("benchmarks.engines.lakestate", "lakestate", "row/bare", "rocksdb"),
}
"""What `WORKER_MEMORY` also runs, besides `lakestate` and `lakestate/rocksdb`: a job with almost no state."""

IN_FILES = "lakestate/files"
SMALL = {IN_FILES: Engine("benchmarks.engines.lakestate", "lakestate", "row/files", "heap")}
"""What `SMALL_EPOCHS` also runs, besides `lakestate` and `lakestate/rocksdb`: one that never inlines changes."""


def _nexmark(form: str, backend: str = "heap") -> Engine:
    return Engine("benchmarks.nexmark.lakestate", "lakestate", form, backend)


NEXMARK_ENGINES = {
    "nexmark/lakestate": _nexmark("row"),
    "nexmark/lakestate/rocksdb": _nexmark("row/rocksdb", "rocksdb"),
    "nexmark/vectorised": _nexmark("vectorised"),
    "nexmark/vectorised/rocksdb": _nexmark("vectorised/rocksdb", "rocksdb"),
    "nexmark/declared": _nexmark("declared"),
    "nexmark/declared/rocksdb": _nexmark("declared/rocksdb", "rocksdb"),
    "nexmark/spark": Engine("benchmarks.nexmark.spark", "spark", "sql", "rocksdb"),
    "nexmark/flink-sql": Engine("benchmarks.nexmark.flink", "flink", "sql", "heap", False, *_FLINK),
    "nexmark/duckdb": Engine("benchmarks.nexmark.reference", "duckdb", "batch", "none", checkpoints=""),
}
"""The engines for the queries of `NEXMARK`: Lakestate in its forms, SQL of the peers, a batch over all events."""

FRAUD_ENGINES = {
    "fraud/bare": Engine("benchmarks.fraud.bare", "python", "bare", "none", checkpoints=""),
    "fraud/bare/written": Engine("benchmarks.fraud.bare", "python", "bare/written", "none", checkpoints=""),
    "fraud/operator": Engine("benchmarks.fraud.operator", "lakestate", "operator", "heap"),
    "fraud/operator/rocksdb": Engine("benchmarks.fraud.operator", "lakestate", "operator/rocksdb", "rocksdb"),
    "fraud/stream": Engine("benchmarks.fraud.stream", "lakestate", "six sinks", "heap"),
}
"""What `FRAUD` compares: its function over bare dicts, its operator without Spark, and its stream."""

CONTENDERS = ENGINES | STORES | MEMORY | SMALL | NEXMARK_ENGINES | FRAUD_ENGINES
_BACKENDS = {engine.label: engine.backend for engine in CONTENDERS.values()}


def with_backend(label: str) -> str:
    """Returns a contender's label, with its backend if the label does not contain it."""
    backend = _BACKENDS.get(label, "none")
    return label if backend == "none" or backend in label.split("/") else f"{label} on {backend}"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one engine, in a separate process.

    Attributes:
        workload: A name in `benchmarks.workloads`, `WORKER_MEMORY` or `STATE_BACKENDS`.
        engine: A name in `CONTENDERS`.
        key_type: `int` (64 bits) or `string`.
        keys: Number of keys from which the data set is drawn.
        epochs: Number of epochs to read.
        epoch_records: Records of each epoch.
        files_per_epoch: Input files of each epoch.
        parallelism: Subtasks, task slots and shuffle partitions.
        inputs: Folder of the input files.
        work: Empty folder for state, checkpoints and results.
        memory_mb: Limit of RocksDB's block cache and write buffers in one worker, in MiB; None for the backend's
            default.
        most_records: If set, `inputs` has only this number of records, and they count as `epochs` epochs.
    """

    workload: str
    engine: str
    key_type: str
    keys: int
    epochs: int
    epoch_records: int
    files_per_epoch: int
    parallelism: int
    inputs: str
    work: str
    memory_mb: int | None = None
    most_records: int | None = None

    @property
    def records(self) -> int:
        """The number of records that are read."""
        return self.epochs * self.epoch_records if self.most_records is None else self.most_records


Tables = Mapping[str, pa.Table]
"""The actual or expected results of an engine, by name: its states, and `EMITTED`."""
EMITTED = "emitted"
"""The name of the sums by which emitted rows are compared."""


class Outcome(NamedTuple):
    """The outcome of one engine.

    Attributes:
        ends: When each epoch ended, in order; seconds since 1970.
        final: Its final states, with key columns before value columns; and sums of its emitted rows, if it reports
            them.
        task_ms: What the slowest subtask of each epoch took between its last record and its ack, in ms, in order, by
            the name of the figure in `Result`. Empty if the engine does not report it.
    """

    ends: list[float]
    final: Tables
    task_ms: Mapping[str, Sequence[float]] = MappingProxyType({})


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report; these fields are the JSON object.

    Attributes:
        workload: Name of the workload.
        engine: `lakestate`, `spark`, `flink` or `duckdb`.
        form: Form of the API, or the peer's operator.
        backend: Where the state is held.
        key_type: `int` or `string`.
        keys: Number of keys from which the data set is drawn.
        records: Records that this engine read, including its warm-up.
        epoch_records: Records of each epoch.
        parallelism: Subtasks.
        records_per_second: Throughput of the steady part.
        cpu_seconds_per_million: CPU of driver, JVM and Python workers in the steady part, per million records.
        peak_rss_mb: Largest resident memory until the last epoch ended, in MiB, of the same processes together; for
            `worker_memory` of the largest Python worker alone.
        results_equal: Whether the final results equal the truth computed from the same files.
        memory_mb: Limit of RocksDB's block cache and write buffers in one worker, in MiB, if it was set.
        checkpoints: How often the engine's work becomes durable; empty if it never does.
        freeze_ms: Time of a task between its last record and its ack, except for writing changes and output, in ms: the
            median over the steady part of the slowest subtask of each epoch. None if the engine does not report it.
        changes_ms: Likewise, the time for gathering, encoding and writing changes.
        look_ns: The time of a memory access just before or just after the run, in ns, whichever is longer. If it is
            much longer than in other rows, another guest used the processor's cache, and the row is too slow.
    """

    workload: str
    engine: str
    form: str
    backend: str
    key_type: str
    keys: int
    records: int
    epoch_records: int
    parallelism: int
    records_per_second: float
    cpu_seconds_per_million: float
    peak_rss_mb: float
    results_equal: bool
    memory_mb: int | None = None
    checkpoints: str = ""
    freeze_ms: float | None = None
    changes_ms: float | None = None
    look_ns: float | None = None

    @property
    def label(self) -> str:
        return f"{self.engine}/{self.form}"


class Verdict(NamedTuple):
    """The result of checking one threshold.

    Attributes:
        name: The threshold, as a sentence.
        measured: The figure; None if the run lacks rows that it needs.
        reached: Whether it is reached; rows with wrong results never reach a threshold.
        note: Why it is not reached, if the figure does not show it.
        missing: The rows that it needs and the run lacks.
    """

    name: str
    measured: float | None
    reached: bool
    note: str = ""
    missing: tuple[str, ...] = ()
