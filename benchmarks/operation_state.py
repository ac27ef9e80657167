"""Canonical savepoints, restores from them, and what a restore reads. Runs in a process of its own.

The state is one value of so many bytes under each key, of which no two are alike and none can be compressed. What
PySpark does for comparison it does with the rows of the savepoint's own table: read and write them, or only read them.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from benchmarks.data import same_rows
from benchmarks.engines.lakestate_functions import KeepBytes
from benchmarks.engines.spark import MEMORY
from benchmarks.operation_inputs import write_changes, write_values
from benchmarks.operation_model import Operation, OperationCase, RangeRead, operation
from benchmarks.processes import cpu_of
from state_engine.inspect import read_state
from state_engine.key_groups import range_of
from state_engine.log.records import Base
from state_engine.savepoint import ProcessWriter, RangeWriter, trigger_savepoint
from state_engine.spark import DiscardingSink, JobClient, SparkWriter, StreamJob, local_session
from state_engine.storage.port import open_storage
from state_engine.storage.state_reader import Segment, load_groups, read_base
from state_engine.testing.counting import CountingStorage

JOB, UID, STATE = "benchmark", "operator", "kept"
MAX_PARALLELISM = 128


class Way(NamedTuple):
    """What is timed, and what looks afterwards whether it was right and tidies up."""

    run: Callable[[], None]
    check: Callable[[], None]


class Timed(NamedTuple):
    """What each run of something took, in seconds of the clock and of CPU."""

    seconds: list[float]
    cpu_seconds: list[float]


class Bench:
    """The job whose state is written and restored, its session, and the truth.

    Args:
        case: Sizes.

    Attributes:
        before: The state that savepoints are taken of: `k`, `v`.
        after: The state of a job that was restored and has read the rest of the input.
    """

    def __init__(self, case: OperationCase) -> None:
        self.case, self.work = case, Path(case.work)
        self.root = self.work / "root"
        self.spark = local_session(
            "benchmark-operations",
            str(case.parallelism),
            shuffle_partitions=case.parallelism,
            memory=MEMORY,
            extra={"spark.local.dir": str(self.work / "local")},
        )
        self.before = write_values(self.work / "in", case)
        self.start(self.root, case.parallelism).await_termination()
        self.after = write_changes(self.work / "in", case, self.before)

    def start(self, root: Path, parallelism: int, restore: str | None = None) -> JobClient:
        """Starts the job on the input that is there."""
        reader = self.spark.readStream.schema("k bigint, v binary").option("maxFilesPerTrigger", self.case.parallelism)
        job = StreamJob(
            JOB,
            root=str(root),
            parallelism=parallelism,
            max_parallelism=MAX_PARALLELISM,
            state_backend=self.case.backend,
        )
        keyed = job.from_stream(reader.parquet(str(self.work / "in"))).key_by("k")
        keyed.process(KeepBytes(), "k bigint", uid=UID).sink_to(DiscardingSink())
        return job.start(self.spark, available_now=True, restore=restore)


def run(case: OperationCase) -> list[Operation]:
    """Builds the state, measures the parts that are asked for, and returns the rows of the report."""
    bench = Bench(case)
    taken = trigger_savepoint(str(bench.root), JOB, kind="canonical", directory=str(bench.work / "source"))
    source = str(taken.directory)
    rows: list[Operation] = []
    if "canonical" in case.parts:
        rows += canonical(bench, source)
    if "restore" in case.parts:
        rows += restore(bench, source)
    if "rescale" in case.parts:
        rows += rescale(bench, source)
    bench.spark.stop()
    return rows


class Writes:
    """Tables that were written, each of which is compared with the truth and removed.

    Attributes:
        equal: Whether all were right.
    """

    def __init__(self, bench: Bench, source: str) -> None:
        self.equal = True
        self._bench, self._source = bench, source
        self._folder = bench.work / "written"

    def by(self, writer: RangeWriter) -> Way:
        """Writes a canonical savepoint."""

        def run() -> None:
            directory = str(self._folder)
            trigger_savepoint(str(self._bench.root), JOB, kind="canonical", directory=directory, writer=writer)

        return Way(run, self.check)

    def by_pyspark(self) -> None:
        """Reads a savepoint's table and writes its rows to another one."""
        frame = self._bench.spark.read.format("delta").load(f"{self._source}/{UID}/{STATE}")
        frame.write.format("delta").save(str(self._folder / "by pyspark" / UID / STATE))

    def check(self) -> None:
        """Compares the one table that is there."""
        [table] = self._folder.glob(f"*/{UID}/{STATE}")
        rows = DeltaTable(str(table)).to_pyarrow_table(columns=["k", "value"])
        self.equal = self.equal and same_rows(rows, self._bench.before)
        shutil.rmtree(self._folder)


def canonical(bench: Bench, source: str) -> list[Operation]:
    """Writes the state out: by this process, by Spark's workers; and the same rows by plain PySpark."""
    writes, case = Writes(bench, source), bench.case
    ways = {
        "lakestate/process": writes.by(ProcessWriter()),
        "lakestate/workers": writes.by(SparkWriter(bench.spark, least_ranges=0)),
        "spark/delta": Way(writes.by_pyspark, writes.check),
    }
    return [
        operation(
            case,
            "canonical savepoint",
            label,
            timed.seconds,
            rows=case.keys,
            cpu_seconds=timed.cpu_seconds,
            equal=writes.equal,
        )
        for label, timed in in_turn(ways, case.rounds).items()
    ]


class Restores:
    """Jobs that begin with a savepoint, each under a root of its own, to the end of their first epoch.

    Attributes:
        root: The last one; those before it are removed.
        base: What its job began with.
        loads: How long the slowest subtask of each took to load its state, in seconds.
        equal: Whether all went on as they had to.
    """

    def __init__(self, bench: Bench, source: str, parallelism: int) -> None:
        self.root = Path()
        self.base: Base
        self.loads: list[float] = []
        self.equal = True
        self._bench, self._source, self._parallelism = bench, source, parallelism
        self._client: JobClient

    def run(self) -> None:
        """Starts a job, and waits for an epoch with input to be sealed, or for the job to fail."""
        self.root = self._bench.work / f"restored-{self._parallelism}-{len(self.loads)}"
        self._client = self._bench.start(self.root, self._parallelism, self._source)
        while self._client.state == "RUNNING" and not any(epoch.records for epoch in self._client.epochs):
            time.sleep(0.005)

    def check(self) -> None:
        """Waits for the end of the job and compares its state with the truth."""
        self._client.await_termination()
        head = self._client.head.manifest
        self.loads.append(max(ack.timings_ms["catch_up"] for ack in head.operators[UID].acks) / 1000)
        state = read_state(str(self.root), JOB, UID, STATE).select(["k", "value"])
        self.equal = self.equal and same_rows(state, self._bench.after)
        assert head.base is not None, "the files of the savepoint are the base of the job"
        self.base = read_base(open_storage(str(self.root), JOB), head.base)
        for old in self._bench.work.glob(f"restored-{self._parallelism}-*"):
            if old != self.root:
                shutil.rmtree(old)


def restore(bench: Bench, source: str) -> list[Operation]:
    """Begins a job with a savepoint; and reads the same rows by plain PySpark."""
    starts, case = Restores(bench, source, bench.case.parallelism), bench.case

    def read() -> None:
        frame = bench.spark.read.format("delta").load(f"{source}/{UID}/{STATE}")
        frame.write.format("noop").mode("overwrite").save()

    ways = {"lakestate/start": Way(starts.run, starts.check), "spark/delta": Way(read, lambda: None)}
    timed = in_turn(ways, case.rounds)
    timed["lakestate/load"] = Timed(starts.loads[1:], [])  # part of each start
    return [
        operation(case, "restore", label, one.seconds, rows=case.keys, cpu_seconds=one.cpu_seconds, equal=starts.equal)
        for label, one in timed.items()
    ]


def rescale(bench: Bench, source: str) -> list[Operation]:
    """Begins a job with a savepoint at another parallelism; and says what each subtask reads at several."""
    case, other = bench.case, bench.case.other_parallelism
    starts = Restores(bench, source, other)
    [timed] = in_turn({"": Way(starts.run, starts.check)}, case.rounds).values()
    row = operation(
        case,
        "restore",
        "lakestate/start",
        timed.seconds,
        rows=case.keys,
        cpu_seconds=timed.cpu_seconds,
        parallelism=other,
        equal=starts.equal,
    )
    return [row, *(reads(bench, starts, parallelism) for parallelism in sorted({1, case.parallelism, other}))]


def reads(bench: Bench, restored: Restores, parallelism: int) -> Operation:
    """Loads the state of each subtask from what a restored job began with, and counts what storage is asked for."""
    storage, base = open_storage(str(restored.root), JOB), restored.base
    schema = next(one for one in base.schemas if (one.uid, one.name) == (UID, STATE))
    ranges: list[RangeRead] = []
    seconds: list[float] = []
    parts: list[pa.Table] = []
    for subtask in range(parallelism):
        own, counting = range_of(subtask, parallelism, MAX_PARALLELISM), CountingStorage(storage)
        begun = time.perf_counter()
        live = load_groups([Segment(counting, base, ())], schema, own.first, own.last)
        seconds.append(time.perf_counter() - begun)
        ranges.append(RangeRead(first=own.first, last=own.last, rows=live.num_rows, bytes_read=counting.total()))
        parts.append(live.select(["k", "value"]))
    most, total = max(one.bytes_read for one in ranges), sum(file.length for file in base.files)
    return operation(
        bench.case,
        "load",
        "lakestate/subtask",
        seconds,
        parallelism=parallelism,
        bytes_total=total,
        bytes_read=most,
        share_read=round(most / total, 4),
        ranges=tuple(ranges),
        equal=same_rows(pa.concat_tables(parts), bench.before),
    )


def in_turn(ways: Mapping[str, Way], rounds: int) -> dict[str, Timed]:
    """Runs each way once per round, one behind the other; a first round does not count."""
    session = os.getsid(0)
    found = {name: Timed([], []) for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            begun, cpu = time.perf_counter(), cpu_of(session)
            way.run()
            if number:
                found[name].seconds.append(time.perf_counter() - begun)
                found[name].cpu_seconds.append(cpu_of(session) - cpu)
            way.check()
    return found
