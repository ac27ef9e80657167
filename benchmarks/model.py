"""The words of a benchmark run: a case, what an engine hands back, and the row that is reported."""

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
"""A workload for each query of it, `nexmark-q3`."""
PASS_THROUGH = "pass-through"
"""The limit of every engine with functions in Python: scan, exchange, Arrow to Python and back, without any state."""
REFERENCE = "duckdb"
"""The physical reference: a query over all records at once, without state."""
PROCESS_MODE = "pyflink/process"
"""PyFlink with its functions in processes of their own, so slow that it reads few records."""
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
        slow: Reads only the first epochs of a case, because all of them would take most of an hour.
        checkpoints: How often what it did is durable.
        key_types: What its keys may be.
        most_records: Reads no more than these, because even the first epochs would take it many minutes.
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
        """The form, without the backend that some of them name."""
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
"""The contenders by the name that `--engines` takes, in the order in which they take turns."""

ROW_FORMS = {"row", "transformWithState", "java", "python/thread", "python/process"}
ROW_ENGINES = tuple(name for name, engine in ENGINES.items() if engine.api in ROW_FORMS)
"""Those that run an author's function, record by record."""


def _store(form: str, backend: str) -> Engine:
    return Engine("benchmarks.state_backend_engine", "lakestate", form, backend, checkpoints="")


STORES = {
    f"{shape}/{store}": _store(f"{shape}/{store}", store)
    for shape in ("value", "ttl", "map", "list", "timers")
    for store in ("heap", "rocksdb")
} | {"value/dict": _store("value/dict", "dict")}
"""What `STATE_BACKENDS` compares: a shape of state in a backend, and a bare dict of as many keys."""

MEMORY = {
    "lakestate/bare": Engine("benchmarks.engines.lakestate", "lakestate", "row/bare", "rocksdb"),
}
"""What `WORKER_MEMORY` runs besides `lakestate` and `lakestate/rocksdb`: a job with next to no state in RocksDB."""

IN_FILES = "lakestate/files"
SMALL = {IN_FILES: Engine("benchmarks.engines.lakestate", "lakestate", "row/files", "heap")}
"""What `SMALL_EPOCHS` runs besides `lakestate` and `lakestate/rocksdb`: with a change file, however little changed."""


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
"""What runs the queries of `NEXMARK`: Lakestate in its forms, SQL of the peers, and a batch over all events."""

CONTENDERS = ENGINES | STORES | MEMORY | SMALL | NEXMARK_ENGINES
_BACKENDS = {engine.label: engine.backend for engine in CONTENDERS.values()}


def with_backend(label: str) -> str:
    """Returns a contender's label, with where it holds its state if the label does not say so."""
    backend = _BACKENDS.get(label, "none")
    return label if backend == "none" or backend in label.split("/") else f"{label} on {backend}"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine runs once, in a process of its own.

    Attributes:
        workload: A name in `benchmarks.workloads`, `WORKER_MEMORY` or `STATE_BACKENDS`.
        engine: A name in `CONTENDERS`.
        key_type: `int` (64 bits) or `string`.
        keys: Number of keys that the data are drawn from.
        epochs: Number of epochs to be read.
        epoch_records: Records of each epoch.
        files_per_epoch: Input files of each epoch.
        parallelism: Subtasks, task slots and shuffle partitions.
        inputs: Folder of the input files.
        work: Empty folder for state, checkpoints and results.
        memory_mb: Block cache and write buffers of RocksDB in one worker, in MiB; None for the backend's own.
        most_records: Where fewer records are read: that many stand in `inputs`, and count as so many epochs.
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
        """How many records are read."""
        return self.epochs * self.epoch_records if self.most_records is None else self.most_records


Tables = Mapping[str, pa.Table]
"""What an engine arrived at, or has to arrive at, by name: its states, `EMITTED`."""
EMITTED = "emitted"
"""The name of the sums by which what was emitted is compared."""


class Outcome(NamedTuple):
    """What an engine hands back.

    Attributes:
        ends: When each epoch ended, in order; seconds since 1970.
        final: Its states afterwards, key columns, then value columns; and sums of what it emitted, where they are told.
        task_ms: What a task of each epoch did between its last record and its ack, in ms, the slowest subtask's; in
            order, by the name of the figure in `Result`. Empty where nobody tells.
    """

    ends: list[float]
    final: Tables
    task_ms: Mapping[str, Sequence[float]] = MappingProxyType({})


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report; these fields are the JSON object.

    Attributes:
        workload: Which benchmark.
        engine: `lakestate`, `spark`, `flink` or `duckdb`.
        form: Form of the API, or the peer's operator.
        backend: Where the state is held.
        key_type: `int` or `string`.
        keys: Number of keys that the data are drawn from.
        records: Records that this engine read, its warm-up included.
        epoch_records: Records of each epoch.
        parallelism: Subtasks.
        records_per_second: Throughput of the steady part.
        cpu_seconds_per_million: CPU of driver, JVM and Python workers in the steady part, per million records.
        peak_rss_mb: Largest resident memory until the last epoch ended, in MiB, of the same processes together; for
            `worker_memory` of the largest Python worker alone.
        results_equal: The state afterwards equals the truth computed from the same files.
        memory_mb: What RocksDB may use for block cache and write buffers in one worker, in MiB, where that was set.
        checkpoints: How often what the engine did is durable; empty where nothing is.
        freeze_ms: What a task does between its last record and its ack besides writing what changed and what it
            emitted, in ms: of each epoch the slowest subtask, of the steady part the median. None where nobody tells.
        changes_ms: Likewise, how long it gathers, encodes and writes what changed.
        look_ns: What a look into memory took just before the run or just after it, in ns, the longer one: where it is
            much more than beside other rows, somebody else had the processor's cache, and the row is too slow.
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
    """What became of one threshold.

    Attributes:
        name: The threshold, as a person would say it.
        measured: The figure; None when the run did not hold all that it needs.
        reached: Whether it holds; rows with wrong results never reach anything.
        note: Why not, where the figure does not say so.
        missing: The rows that it needs and the run did not have.
    """

    name: str
    measured: float | None
    reached: bool
    note: str = ""
    missing: tuple[str, ...] = ()
