"""Measures canonical savepoints, restores from them, and their reads; then checkpoints. Runs in a separate process.

The state has one value of `value_bytes` bytes for each key; all values differ, and none can be compressed. For
comparison PySpark reads and writes, or only reads, the rows of the savepoint's own table.
"""

import shutil
import time
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from benchmarks.data import same_rows
from benchmarks.operation_bench import JOB, MAX_PARALLELISM, STATE, UID, Bench, Timed, Way, in_turn
from benchmarks.operation_checkpoint import checkpoint
from benchmarks.operation_model import Operation, OperationCase, RangeRead, operation
from state_engine.inspect import read_state
from state_engine.key_groups import range_of
from state_engine.log.records import Base
from state_engine.savepoint import ProcessWriter, RangeWriter, trigger_savepoint
from state_engine.spark import JobClient, SparkWriter
from state_engine.storage.open import open_storage
from state_engine.storage.state_reader import Segment, load_groups, read_base
from state_engine.testing.counting import CountingStorage


def run(case: OperationCase) -> list[Operation]:
    """Builds the state, measures the chosen parts, and returns the rows of the report."""
    bench = Bench(case)
    savepoint = trigger_savepoint(str(bench.root), JOB, kind="canonical", directory=str(bench.work / "source"))
    source = str(savepoint.directory)
    rows: list[Operation] = []
    if "canonical" in case.parts:
        rows += canonical(bench, source)
    if "restore" in case.parts:
        rows += restore(bench, source)
    if "rescale" in case.parts:
        rows += rescale(bench, source)
    if "checkpoint" in case.parts:
        rows += checkpoint(bench, source)
    bench.spark.stop()
    return rows


class Writes:
    """Writes tables; each is compared with the truth and then removed.

    Attributes:
        equal: Whether all tables were right.
    """

    def __init__(self, bench: Bench, source: str) -> None:
        self.equal = True
        self._bench, self._source = bench, source
        self._folder = bench.work / "written"

    def by(self, writer: RangeWriter) -> Way:
        """Returns a way to write a canonical savepoint."""

        def run() -> None:
            directory = str(self._folder)
            trigger_savepoint(str(self._bench.root), JOB, kind="canonical", directory=directory, writer=writer)

        return Way(run, self.check)

    def by_pyspark(self) -> None:
        """Reads a savepoint's table and writes its rows to another one."""
        frame = self._bench.spark.read.format("delta").load(f"{self._source}/{UID}/{STATE}")
        frame.write.format("delta").save(str(self._folder / "by pyspark" / UID / STATE))

    def check(self) -> None:
        """Compares the table that was written with the truth, and removes it."""
        [table] = self._folder.glob(f"*/{UID}/{STATE}")
        rows = DeltaTable(str(table)).to_pyarrow_table(columns=["k", "value"])
        self.equal = self.equal and same_rows(rows, self._bench.before)
        shutil.rmtree(self._folder)


def canonical(bench: Bench, source: str) -> list[Operation]:
    """Measures writing the state: by this process, by Spark's workers; and the same rows by plain PySpark."""
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
    """Starts jobs from a savepoint, each under a new root, and runs them to the end of their first epoch.

    Args:
        bench: The input; its last epoch comes after the savepoint.
        source: The savepoint.
        was: Parallelism of the job of the savepoint.
        parallelism: Parallelism of these jobs.

    Attributes:
        root: Root of the last job; earlier roots are removed.
        base: The base from which that job started.
        loads: How long the slowest subtask of each job took to load its state, in seconds.
        equal: Whether all jobs have the right state.
    """

    def __init__(self, bench: Bench, source: str, was: int, parallelism: int) -> None:
        self.root = Path()
        self.base: Base
        self.loads: list[float] = []
        self.equal = True
        self._bench, self._source, self._parallelism = bench, source, parallelism
        self._name, self._after = f"restored-{was}-{parallelism}", bench.after
        self._client: JobClient

    def run(self) -> None:
        """Starts a job, and waits for an epoch with input to be sealed, or for the job to fail."""
        self.root = self._bench.work / f"{self._name}-{len(self.loads)}"
        self._client = self._bench.start(self.root, self._parallelism, self._source)
        while self._client.state == "RUNNING" and not any(epoch.records for epoch in self._client.epochs):
            time.sleep(0.005)

    def check(self) -> None:
        """Waits for the end of the job, and compares its state with the truth."""
        self._client.await_termination()
        head = self._client.head.manifest
        self.loads.append(max(ack.timings_ms["catch_up"] for ack in head.operators[UID].acks) / 1000)
        state = read_state(str(self.root), JOB, UID, STATE).select(["k", "value"])
        self.equal = self.equal and same_rows(state, self._after)
        assert head.base is not None, "the files of the savepoint are the base of the job"
        self.base = read_base(open_storage(str(self.root), JOB), head.base)
        for old in self._bench.work.glob(f"{self._name}-*"):
            if old != self.root:
                shutil.rmtree(old)


def restore(bench: Bench, source: str) -> list[Operation]:
    """Measures starting a job from a savepoint, and reading the same rows by plain PySpark."""
    starts, case = Restores(bench, source, bench.case.parallelism, bench.case.parallelism), bench.case

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
    """Measures rescaling: a start from a savepoint at another parallelism, then one from a savepoint of that job, back.

    It also measures the reads of each subtask at several parallelisms.
    """
    case, other = bench.case, bench.case.other_parallelism
    out = Restores(bench, source, case.parallelism, other)
    rows = [_rescaled(bench, out, case.parallelism, other)]
    rows += [reads(bench, out, parallelism) for parallelism in sorted({1, case.parallelism, other})]
    savepoint = trigger_savepoint(
        str(out.root), JOB, kind="canonical", directory=str(bench.work / "of other parallelism")
    )
    bench.change()
    back = Restores(bench, str(savepoint.directory), other, case.parallelism)
    return [rows[0], _rescaled(bench, back, other, case.parallelism), *rows[1:]]


def _rescaled(bench: Bench, starts: Restores, was: int, parallelism: int) -> Operation:
    case = bench.case
    [timed] = in_turn({"": Way(starts.run, starts.check)}, case.rounds).values()
    return operation(
        case,
        "rescale",
        "lakestate/start",
        timed.seconds,
        rows=case.keys,
        cpu_seconds=timed.cpu_seconds,
        from_parallelism=was,
        parallelism=parallelism,
        equal=starts.equal,
    )


def reads(bench: Bench, restored: Restores, parallelism: int) -> Operation:
    """Loads the state of each subtask from the base of a restored job, and counts the bytes read from storage."""
    storage, base = open_storage(str(restored.root), JOB), restored.base
    schema = next(one for one in base.schemas if (one.uid, one.name) == (UID, STATE))
    ranges: list[RangeRead] = []
    seconds: list[float] = []
    parts: list[pa.Table] = []
    for subtask in range(parallelism):
        owned, counting = range_of(subtask, parallelism, MAX_PARALLELISM), CountingStorage(storage)
        begun = time.perf_counter()
        live = load_groups([Segment(counting, base, ())], schema, owned.first, owned.last)
        seconds.append(time.perf_counter() - begun)
        ranges.append(RangeRead(first=owned.first, last=owned.last, rows=live.num_rows, bytes_read=counting.total()))
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


__all__ = ["run"]
