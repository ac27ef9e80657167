"""A job with a state of every shape, its input, and its expected output, computed by a plain loop."""

import faulthandler
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from state_engine.api import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from state_engine.clock import SystemClock
from state_engine.inspect import read_state
from state_engine.spark import DeltaSink, MemorySink, StreamJob

COLUMNS = "n bigint, k string, sub string, v bigint"
TALLY = "n bigint, k string, sub string, times bigint, recent bigint, of_sub bigint, highest bigint, mean bigint"
TOTALS = "n bigint, sub string, total bigint"
NEGATIVE = OutputTag("negative", "n bigint, k string, v bigint")
STATES = ("times", "recent", "by_sub", "highest", "mean")
RECENT = 3


class Record(NamedTuple):
    """One input record; `n` numbers them all."""

    n: int
    k: str | None
    sub: str
    v: int


def records(count: int, *, seed: int = 1, keys: int = 23, first: int = 0) -> list[Record]:
    """Returns records with null keys, negative values (side output) and zeros (which clear the key's state)."""
    rng = random.Random(seed)
    return [
        Record(
            n=first + i,
            k=None if rng.random() < 0.05 else f"k{rng.randrange(keys)}",
            sub=f"s{rng.randrange(5)}",
            v=0 if rng.random() < 0.03 else rng.randrange(-20, 100),
        )
        for i in range(count)
    ]


class Ahead(SystemClock):
    """A clock that a test moves forward."""

    by_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.by_ms

    def steady_ms(self) -> int:
        return super().steady_ms() + self.by_ms  # time passes; the clock is not set


class Input:
    """A folder of Parquet files, of which each epoch reads one, oldest first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.all: list[Record] = []
        self.files: list[Path] = []

    def add(self, rows: Sequence[Record]) -> Path:
        """Writes one file; its rows are shuffled, so that only `order_by` restores their order."""
        path = self.folder / f"part-{len(self.files):04d}.parquet"
        shuffled = random.Random(len(self.files)).sample(list(rows), len(rows))
        write_rows(path, shuffled, 1_600_000_000 + 10 * len(self.files))
        self.all.extend(rows)
        self.files.append(path)
        return path

    def add_many(self, files: int, rows: int = 60, seed: int = 1) -> "Input":
        """Writes several files of random records; their numbers continue where the last file ended."""
        for number in range(files):
            first = len(self.all)
            self.add(records(rows, seed=seed * 1000 + first + number, first=first))
        return self

    def stream(self, spark: Any, per_epoch: int = 1) -> Any:
        """Returns the folder as a stream."""
        reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", per_epoch)
        return reader.parquet(str(self.folder))


class Folders:
    """Folders of input; their records share one numbering."""

    def __init__(self, folder: Path, count: int) -> None:
        self.inputs = [Input(folder / f"in{n}") for n in range(count)]

    def add(self, *files: int, rows: int = 20) -> None:
        """Adds files to the folders: each argument is the number of files for one folder."""
        for source, count in zip(self.inputs, files, strict=True):
            for _ in range(count):
                source.add(records(rows, seed=len(self.all), first=len(self.all)))

    @property
    def all(self) -> list[Record]:
        return sorted(row for source in self.inputs for row in source.all)


def write_rows(path: Path, rows: Sequence[Record], modified: int) -> None:
    """Writes a Parquet file, which gets its final name only when it is complete, with this modification time."""
    schema = pa.schema([("n", pa.int64()), ("k", pa.string()), ("sub", pa.string()), ("v", pa.int64())])
    temporary = path.with_name(f".{path.name}.tmp")
    pq.write_table(pa.Table.from_pylist([row._asdict() for row in rows], schema=schema), temporary)
    os.utime(temporary, (modified, modified))
    temporary.rename(path)


# The job ----------------------------------------------------------------------------------------------------------


class Mean(AggregateFunction):
    """Aggregates sum and count to the mean, rounded down."""

    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: int, accumulator: Any) -> Any:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> int:
        return accumulator[0] // accumulator[1] if accumulator[1] else 0

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class Tally(KeyedProcessFunction):
    """A function with all five shapes of state under one key."""

    def open(self, runtime_context: Any) -> None:
        self.times = runtime_context.get_state(ValueStateDescriptor("times", Types.LONG()))
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent", Types.LONG()))
        self.by_sub = runtime_context.get_map_state(MapStateDescriptor("by_sub", Types.STRING(), Types.LONG()))
        self.highest = runtime_context.get_reducing_state(ReducingStateDescriptor("highest", max, Types.LONG()))
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor(
                "mean", Mean(), Types.ROW_NAMED(["total", "count"], [Types.LONG(), Types.LONG()])
            )
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value.v < 0:
            yield NEGATIVE, (value.n, value.k, value.v)
            return
        if value.v == 0:
            for state in (self.times, self.recent, self.by_sub, self.highest, self.mean):
                state.clear()
            return
        times = (self.times.value() or 0) + 1
        self.times.update(times)
        self.recent.add(value.v)
        recent = list(self.recent.get())
        if len(recent) > RECENT:
            self.recent.update(recent[-RECENT:])
        self.by_sub.put(value.sub, (self.by_sub.get(value.sub) or 0) + 1)
        self.highest.add(value.v)
        self.mean.add(value.v)
        yield (
            value.n,
            ctx.get_current_key(),
            value.sub,
            times,
            sum(recent[-RECENT:]),
            self.by_sub.get(value.sub),
            self.highest.get(),
            self.mean.get(),
        )


class Totals(KeyedProcessFunction):
    """A function downstream of `Tally`: a running sum per `sub`."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        total = (self.total.value() or 0) + value.times
        self.total.update(total)
        return [(value.n, value.sub, total)]


class Outputs(NamedTuple):
    """The sinks of the tally job."""

    tally: str
    negative: str
    totals: str


def outputs(folder: Path) -> Outputs:
    """Returns three Delta tables below a folder."""
    return Outputs(*(str(folder / name) for name in Outputs._fields))


def tally_job(
    df: Any,
    root: Path,
    name: str,
    sinks: Outputs,
    parallelism: int = 2,
    *,
    first: Tally | None = None,
    second: Totals | None = None,
    **options: Any,
) -> StreamJob:
    """Builds a job with two operators, a side output and three Delta sinks.

    Changes of the first operator are in change files, those of the second one in manifests.
    """
    job = StreamJob(name, root=str(root), parallelism=parallelism, **{"data_inline_threshold": 2500, **options})
    tally = job.from_stream(df).key_by("k", order_by=["n"]).process(first or Tally(), TALLY, uid="tally")
    tally.sink_to(DeltaSink(sinks.tally), uid="tally-out")
    tally.get_side_output(NEGATIVE).sink_to(DeltaSink(sinks.negative), uid="negative-out")
    totals = tally.key_by("sub", order_by=["n"]).process(second or Totals(), TOTALS, uid="totals")
    totals.sink_to(DeltaSink(sinks.totals), uid="totals-out")
    return job


class Count(KeyedProcessFunction):
    """A function with one value state: how often the key came."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        return [(value.n, value.k, count)]


COUNTS = "n bigint, k string, times bigint"


def count_job(
    df: Any, root: Path, name: str, sink: Any = None, function: Any = None, key: Sequence[str] = ("k",), **options: Any
) -> StreamJob:
    """Builds a job with one operator, `count`, and a memory sink with the job's name; its changes are in files."""
    job = StreamJob(name, root=str(root), **{"parallelism": 2, "data_inline_threshold": 0, **options})
    counted = job.from_stream(df).key_by(*key, order_by=["n"]).process(function or Count(), COUNTS, uid="count")
    counted.sink_to(sink or MemorySink(name), uid="out")
    return job


# The truth --------------------------------------------------------------------------------------------------------


class Truth(NamedTuple):
    """Outputs and final states of the tally job."""

    tally: list[tuple[Any, ...]]
    negative: list[tuple[Any, ...]]
    totals: list[tuple[Any, ...]]
    states: dict[str, dict[Any, Any]]


def truth(rows: Iterable[Record]) -> Truth:
    """Runs the tally job as a plain loop over dictionaries."""
    keys: dict[Any, dict[str, Any]] = {}
    tally, negative, totals = [], [], []
    total: dict[str, int] = {}
    for row in sorted(rows):
        if row.v < 0:
            negative.append((row.n, row.k, row.v))
        elif row.v == 0:
            keys.pop(row.k, None)
        else:
            of_key = keys.setdefault(row.k, {"values": [], "by_sub": {}})
            of_key["values"].append(row.v)
            of_key["by_sub"][row.sub] = of_key["by_sub"].get(row.sub, 0) + 1
            values = of_key["values"]
            mean = sum(values) // len(values)
            recent = sum(values[-RECENT:])
            tally.append((row.n, row.k, row.sub, len(values), recent, of_key["by_sub"][row.sub], max(values), mean))
            total[row.sub] = total.get(row.sub, 0) + len(values)
            totals.append((row.n, row.sub, total[row.sub]))
    states = {
        "times": {k: len(of_key["values"]) for k, of_key in keys.items()},
        "recent": {k: of_key["values"][-RECENT:] for k, of_key in keys.items()},
        "by_sub": {(k, sub): n for k, of_key in keys.items() for sub, n in of_key["by_sub"].items()},
        "highest": {k: max(of_key["values"]) for k, of_key in keys.items()},
        "mean": {k: {"total": sum(of_key["values"]), "count": len(of_key["values"])} for k, of_key in keys.items()},
        "total": total,
    }
    return Truth(tally, negative, totals, states)


def counted(rows: Iterable[Record]) -> list[tuple[Any, ...]]:
    """Returns the expected output of the count job."""
    seen: dict[Any, int] = {}
    out = []
    for row in sorted(rows):
        seen[row.k] = seen.get(row.k, 0) + 1
        out.append((row.n, row.k, seen[row.k]))
    return out


def table_rows(path: str) -> list[tuple[Any, ...]]:
    """Returns the rows of a Delta table in order of `n`; doubles would show."""
    return by_n(DeltaTable(path).to_pyarrow_table().to_pylist())


def by_n(rows: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Returns rows as tuples in order of their first column."""
    return sorted(tuple(row.values()) for row in rows)


def state_of(root: Path, job: str, uid: str, name: str, key: str = "k", at: Any = None) -> dict[Any, Any]:
    """Returns the content of one state as a dictionary."""
    content: dict[Any, Any] = {}
    table = read_state(str(root), job, uid, name, at=at)
    for row in table.to_pylist():
        if "user_key" in row:
            content[row[key], row["user_key"]] = row["value"]
        elif name == "recent":
            content.setdefault(row[key], []).append(row["value"])
        else:
            assert row[key] not in content
            content[row[key]] = row["value"]
    return content


def assert_tally(root: Path, name: str, sinks: Outputs, rows: Sequence[Record]) -> None:
    """Compares outputs and the final content of every state with the truth."""
    expected = truth(rows)
    assert table_rows(sinks.tally) == expected.tally
    assert table_rows(sinks.negative) == expected.negative
    assert table_rows(sinks.totals) == expected.totals
    for state in STATES:
        assert state_of(root, name, "tally", state) == expected.states[state], state
    assert state_of(root, name, "totals", "total", key="sub") == expected.states["total"]


def assert_counts(root: Path, name: str, rows: Sequence[Record], sink: str | None = None) -> None:
    """Compares memory sink and state of a count job with the truth."""
    expected = counted(rows)
    assert by_n(MemorySink(sink or name).rows()) == expected
    assert state_of(root, name, "count", "count") == {k: times for _, k, times in expected}


# Waiting ----------------------------------------------------------------------------------------------------------


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 60) -> Any:
    """Waits until a condition holds. After the time limit, dumps the stacks of all threads to standard error."""
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        if time.monotonic() >= deadline:
            faulthandler.dump_traceback(all_threads=True)
            raise AssertionError(f"waited {timeout_s} s for {what}")
        time.sleep(0.02)
    return result


def run_all(job: StreamJob, **options: Any) -> Any:
    """Runs a job over the available input, to the end."""
    client = job.start(available_now=True, **options)
    assert client.await_termination(120)
    return client


def with_epochs(client: Any, count: int, *, of_input: bool = False) -> Any:
    """Waits until a running job has sealed `count` epochs, or epochs of input, in this incarnation."""

    def done() -> bool:
        assert client.state == "RUNNING", client.exception
        return sum(epoch.kind == "epoch" or not of_input for epoch in client.epochs) >= count

    wait_for(done, f"{count} epochs")
    return client


def wait_for_beats(client: Any, count: int) -> None:
    """Waits for `count` more heartbeats of a running job: everything that a heartbeat does has happened then."""
    heart, beats = client._heartbeat, []
    beat = heart._beat

    def counted() -> None:
        beat()
        beats.append(1)

    heart._beat = counted
    try:
        wait_for(lambda: len(beats) >= count, f"{count} beats of the heart")
    finally:
        heart._beat = beat


def newest(root: Path, job: str) -> Any:
    """Returns the newest sealed manifest."""
    from state_engine.inspect import open_job

    stored = open_job(str(root), job).newest()
    return stored.manifest if stored else None
