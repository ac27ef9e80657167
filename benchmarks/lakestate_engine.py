"""Lakestate's side: runs its functions and reads their state back from the log."""

from pathlib import Path

import pyarrow as pa

from benchmarks.epochs import EpochEnds
from benchmarks.functions import RunningCount, RunningCountOfBatches, ThreeNumbers, WideNumbers
from benchmarks.model import CONTENDERS, WORKER_MEMORY, Case, Outcome
from benchmarks.spark_engine import MEMORY, read_stream
from state_engine.api import Aggregate, EmbeddedRocksDBStateBackend, HashMapStateBackend, StateBackend
from state_engine.inspect import read_state
from state_engine.spark import DiscardingSink, StreamJob, local_session
from state_engine.spark.keyed_stream import KeyedStream
from state_engine.spark.stream import DataStream

JOB = "benchmark"
UID = "operator"


def run(case: Case) -> Outcome:
    """Runs one case and reads the state back from the log."""
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
        JOB, root=root, parallelism=case.parallelism, max_parallelism=128, state_backend=state_backend(case)
    )
    keyed = job.from_stream(read_stream(spark, case)).key_by("k")
    if case.workload == WORKER_MEMORY:
        function = ThreeNumbers() if case.memory_mb is None else WideNumbers()
        state, results = "numbers", keyed.process(function, "k bigint", uid=UID)
    else:
        state, results = "count", counted(keyed, case)
    results.sink_to(DiscardingSink())
    client = job.start(spark, available_now=True)
    client.await_termination()
    outcome = Outcome(ends.wait(case.epochs), flat(read_state(root, JOB, UID, state)))
    spark.stop()
    return outcome


def counted(keyed: KeyedStream, case: Case) -> DataStream:
    """Counts in the form that a case asks for; `declared` gives a row per key and epoch, the others one per record."""
    form = CONTENDERS[case.engine].form
    if form == "declared":
        return keyed.aggregate({"n": Aggregate.count()}, uid=UID)
    key = "bigint" if case.key_type == "int" else "string"
    function = RunningCountOfBatches() if form == "vectorised" else RunningCount()
    return keyed.process(function, f"k {key}, n bigint", uid=UID)


def state_backend(case: Case) -> StateBackend:
    """Returns the backend that a case asks for; databases lie in the case's folder."""
    if CONTENDERS[case.engine].backend == "heap":
        return HashMapStateBackend()
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(Path(case.work) / "databases"))
    if case.memory_mb is not None:
        backend.get_memory_configuration().set_fixed_memory_per_slot(case.memory_mb << 20)
    return backend


def flat(state: pa.Table) -> pa.Table:
    """Returns key and value of a state; a struct gives one column per field."""
    return state.select(["k", "value"]).flatten()
