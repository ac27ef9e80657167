"""Lakestate's side: the same running count in the row form, and the state whose memory is measured."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.epochs import EpochEnds
from benchmarks.model import WORKER_MEMORY, Case, Outcome
from benchmarks.spark_engine import MEMORY, read_stream
from state_engine.api import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from state_engine.inspect import read_state
from state_engine.spark import DiscardingSink, StreamJob, local_session

JOB = "benchmark"
UID = "operator"


class RunningCount(KeyedProcessFunction):
    """Counts the records of a key and emits the count with each record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        return [(value.k, n)]


class ThreeNumbers(KeyedProcessFunction):
    """Keeps three numbers of a key: how many values it had, their sum and the largest."""

    def open(self, runtime_context: RuntimeContext) -> None:
        numbers = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
        self.numbers = runtime_context.get_state(ValueStateDescriptor("numbers", numbers))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        n, total, largest = self.numbers.value() or (0, 0, value.v)
        self.numbers.update((n + 1, total + value.v, max(largest, value.v)))
        return []


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
    job = StreamJob(JOB, root=root, parallelism=case.parallelism, max_parallelism=128)
    keyed = job.from_stream(read_stream(spark, case)).key_by("k")
    if case.workload == WORKER_MEMORY:
        state, results = "numbers", keyed.process(ThreeNumbers(), "k bigint", uid=UID)
    else:
        key = "bigint" if case.key_type == "int" else "string"
        state, results = "count", keyed.process(RunningCount(), f"k {key}, n bigint", uid=UID)
    results.sink_to(DiscardingSink())
    client = job.start(spark, available_now=True)
    client.await_termination()
    outcome = Outcome(ends.wait(case.epochs), flat(read_state(root, JOB, UID, state)))
    spark.stop()
    return outcome


def flat(state: pa.Table) -> pa.Table:
    """Returns a state with one column per number: the fields of a struct stand beside each other."""
    return state.flatten()
