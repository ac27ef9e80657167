"""Runs Lakestate: runs its functions, and reads their state back from the log."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.engines.epochs import EpochEnds
from benchmarks.engines.lakestate_batches import (
    CountWithTtlOfBatches,
    MapAndListOfBatches,
    RunningCountOfBatches,
    SessionsOfBatches,
    WindowsOfBatches,
)
from benchmarks.engines.lakestate_functions import (
    NOTED,
    CountWithTtl,
    MapAndList,
    RunningCount,
    Sessions,
    ThreeNumbers,
    WideNumbers,
    hour,
)
from benchmarks.engines.lakestate_windows import (
    OF_WINDOWS,
    EmittedRows,
    in_sessions,
    of_sessions,
    of_windows,
    open_sessions,
    open_windows,
    windowed,
)
from benchmarks.engines.spark import DDL_TYPES, MEMORY, read_stream
from benchmarks.model import (
    CONTENDERS,
    DECLARED,
    EMITTED,
    IN_FILES,
    MAP_AND_LIST,
    RUNNING_COUNT,
    SESSIONS,
    TTL,
    VECTORISED,
    WINDOWS,
    WORKER_MEMORY,
    Case,
    Outcome,
    Tables,
)
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.sessions import SESSION, gap_ms
from benchmarks.workloads.windows import OPEN, window_ms
from benchmarks.workloads.workload import checks
from state_engine.api import (
    Aggregate,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    StateBackend,
    WatermarkStrategy,
)
from state_engine.api.checkpoint_storage import DATA_INLINE_THRESHOLD
from state_engine.inspect import read_state
from state_engine.log.manifest import StoredManifest
from state_engine.spark import DiscardingSink, ForeachEpochSink, StreamJob, local_session
from state_engine.spark.graph.stream import DataStream
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage

JOB = "benchmark"
UID = "operator"


class Program(NamedTuple):
    """What an author would write: a function, and its output columns."""

    function: KeyedProcessFunction | KeyedBatchProcessFunction
    emits: str


def run(case: Case) -> Outcome:
    """Runs one case, and reads the state back from the log."""
    spark = local_session(
        "benchmark-lakestate",
        str(case.parallelism),
        shuffle_partitions=case.parallelism,
        memory=MEMORY,
        extra={"spark.local.dir": str(Path(case.work) / "local")},
    )
    ends = EpochEnds()
    spark.streams.addListener(ends)
    root = str(Path(case.work) / "root")
    job = StreamJob(
        JOB,
        root=root,
        parallelism=case.parallelism,
        max_parallelism=128,
        state_backend=state_backend(case),
        data_inline_threshold=0 if case.engine == IN_FILES else DATA_INLINE_THRESHOLD,
    )
    stream = job.from_stream(read_stream(spark, case))
    if case.workload in (SESSIONS, WINDOWS):
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("t")
        stream = stream.assign_timestamps_and_watermarks(strategy)
    emitted = EmittedRows(of_windows if case.workload == WINDOWS else of_sessions)
    sink = ForeachEpochSink(emitted) if sums_in_sink(case) else DiscardingSink()
    results(stream, case).sink_to(sink, uid="out")
    client = job.start(spark, available_now=True)
    client.await_termination()
    outcome = Outcome(ends.wait(case.epochs), final(root, case, emitted), task_ms(root, client.head))
    spark.stop()
    return outcome


def sums_in_sink(case: Case) -> bool:
    """Returns whether a sink sums the emitted rows: most window functions cannot note what they emit."""
    return case.workload == WINDOWS or (case.workload == SESSIONS and case.engine in DECLARED)


def task_ms(root: str, head: StoredManifest) -> dict[str, list[float]]:
    """Returns the times of the slowest subtask of each epoch after its last record, in ms, in order."""
    epochs = ManifestLog(open_storage(root, JOB), JOB).chain(head, down_to_base=False)
    acks = [operator.acks for epoch in epochs if (operator := epoch.manifest.operators.get(UID)) is not None]
    return {
        f"{lap}_ms": [max(ack.timings_ms[lap] for ack in of_epoch) for of_epoch in acks if of_epoch]
        for lap in ("freeze", "changes")
    }


def results(stream: DataStream, case: Case) -> DataStream:
    """Returns the output of a case's function; `declared` has no function, and emits one row per key and epoch."""
    declared = case.engine in DECLARED
    # Each record carries its event time, so windows do not need it as a column.
    if case.workload == WINDOWS:
        stream = stream.select("k", "v")
        if case.engine not in VECTORISED:
            return windowed(stream.key_by("k"), window_ms(case.keys), UID, declared=declared)
    if case.workload == SESSIONS and declared:
        return in_sessions(stream.select("k").key_by("k"), gap_ms(case.keys), UID)
    keyed = stream.key_by("k")
    if declared:
        return keyed.aggregate({"n": Aggregate.count()}, ttl=hour() if case.workload == TTL else None, uid=UID)
    function, emits = program(case)
    return keyed.process(function, emits, uid=UID)


def program(case: Case) -> Program:
    """Returns the function of a workload, in the form of the case."""
    if case.workload == WORKER_MEMORY:
        return Program(ThreeNumbers() if case.memory_mb is None else WideNumbers(), "k bigint")
    batches = case.engine in VECTORISED
    if case.workload == SESSIONS:
        gap = gap_ms(case.keys)
        return Program(SessionsOfBatches(gap) if batches else Sessions(gap), "k bigint, n bigint")
    if case.workload == WINDOWS:
        return Program(WindowsOfBatches(window_ms(case.keys)), OF_WINDOWS)
    return {
        RUNNING_COUNT: Program(
            RunningCountOfBatches() if batches else RunningCount(), f"k {DDL_TYPES[case.key_type]}, n bigint"
        ),
        MAP_AND_LIST: Program(
            MapAndListOfBatches() if batches else MapAndList(), "k bigint, item int, n bigint, total bigint"
        ),
        TTL: Program(CountWithTtlOfBatches() if batches else CountWithTtl(), "k bigint, n bigint"),
    }[case.workload]


def state_backend(case: Case) -> StateBackend:
    """Returns the backend of a case; its databases are in the case's folder."""
    if CONTENDERS[case.engine].backend == "heap":
        return HashMapStateBackend()
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(Path(case.work) / "databases"))
    if case.memory_mb is not None:
        backend.get_memory_configuration().set_fixed_memory_per_slot(case.memory_mb << 20)
    return backend


def final(root: str, case: Case, emitted: EmittedRows) -> Tables:
    """Returns the states of a job, and the sums of emitted rows that its function or its sink noted."""
    if case.workload == WORKER_MEMORY:
        return {"numbers": flat(read_state(root, JOB, UID, "numbers"))}
    if sums_in_sink(case):
        read = partial(read_state, root, JOB, UID)
        if case.workload == WINDOWS:
            return {OPEN: open_windows(read, CONTENDERS[case.engine].api), EMITTED: emitted.sums}
        return {SESSION: open_sessions(read, gap_ms(case.keys)), EMITTED: emitted.sums}
    workload = WORKLOADS[case.workload]
    states = {name: flat(read_state(root, JOB, UID, name)) for name in workload.states}
    if not workload.sums_emitted:
        return states
    noted = read_state(root, JOB, UID, NOTED).select(["value"]).flatten()
    return states | {EMITTED: checks(*(int(np.asarray(column).sum()) for column in noted.columns))}


def flat(state: pa.Table) -> pa.Table:
    """Returns key, user key and value of a state; a struct becomes one column per field."""
    return state.select([name for name in ("k", "user_key", "value") if name in state.column_names]).flatten()
