"""Event time in real streams: watermarks, event-time timers, the end of the input."""

import datetime
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import Ahead, newest, run_all, wait_for, with_epochs

from state_engine.api import (
    Duration,
    KeyedProcessFunction,
    ListStateDescriptor,
    ProcessFunction,
    StateTtlConfig,
    Time,
    TimestampAssigner,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from state_engine.errors import EventTimeError, JobDefinitionError
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
GAP = 10
END = (1 << 63) - 1
EVENTS = "k string, v bigint, at bigint, p string"
SESSIONS = "k string, closed bigint, of array<bigint>"

Event = tuple[str, int, int | None, str]


class Files:
    """A folder of Parquet files of events, one file per epoch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.count = 0

    def add(self, *events: Event) -> "Files":
        schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.int64()), ("p", pa.string())])
        rows = [dict(zip(schema.names, event, strict=True)) for event in events]
        path = self.folder / f"part-{self.count:04d}.parquet"
        hidden = path.with_name(f".{path.name}")
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), hidden)
        os.utime(hidden, (1_600_000_000 + self.count,) * 2)  # Spark reads the oldest first
        hidden.rename(path)
        self.count += 1
        return self

    def stream(self, spark: Any, per_epoch: int = 1) -> Any:
        reader = spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", per_epoch)
        return reader.parquet(str(self.folder))


class Sessions(KeyedProcessFunction):
    """Sessions without windows: a timer `GAP` after the newest record of a key closes its session."""

    def open(self, runtime_context: Any) -> None:
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.LONG()))
        self.closes = runtime_context.get_state(ValueStateDescriptor("closes", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        timers, at = ctx.timer_service(), ctx.timestamp()
        assert at is not None
        if (closes := self.closes.value()) is not None:
            timers.delete_event_time_timer(closes)
        timers.register_event_time_timer(at + GAP)
        self.closes.update(at + GAP)
        self.values.add(value.v)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), timestamp, list(self.values)
        self.values.clear()
        self.closes.clear()


class Seen(KeyedProcessFunction):
    """Emits the event times and watermarks that a downstream operator has."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(ctx.timestamp())
        yield value.k, ctx.timestamp(), ctx.timer_service().current_watermark()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield "timer", timestamp, ctx.timer_service().current_watermark()


SEEN = "k string, at bigint, watermark bigint"


def bounded(behind: int = 0, column: str = "at") -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(behind)).with_timestamp_column(column)


def sessions_job(stream: Any, root: Path, name: str, strategy: Any = None, **options: Any) -> tuple[StreamJob, Any]:
    job, sink = StreamJob(name, root=str(root), **{"parallelism": 2, **options}), MemorySink(name)
    timed = job.from_stream(stream, bounded=True).assign_timestamps_and_watermarks(strategy or bounded())
    timed.key_by("k", order_by=["v"]).process(Sessions(), SESSIONS, uid="sessions").sink_to(sink, uid="out")
    return job, sink


def rows(sink: MemorySink) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in sink.rows())


EVENTS_IN_ORDER: list[Event] = [(f"k{n % 3}", n, 100 + n + (40 if n > 8 else 0), "p") for n in range(18)]


def expected_sessions() -> list[tuple[Any, ...]]:
    sessions: list[Any] = []
    for key in ("k0", "k1", "k2"):
        last, values = None, []
        for _, v, at, _ in (event for event in EVENTS_IN_ORDER if event[0] == key):
            assert at is not None
            if last is not None and at - last >= GAP:
                sessions.append((key, last + GAP, values))
                values = []
            last, values = at, [*values, v]
        assert last is not None
        sessions.append((key, last + GAP, values))
    return sorted(sessions)


@pytest.mark.parametrize(
    "per_file", [pytest.param(18, marks=pytest.mark.long), 5, pytest.param(1, marks=pytest.mark.long)]
)
def test_results_do_not_depend_on_where_epochs_are_cut(spark, tmp_path: Path, per_file: int) -> None:
    files = Files(tmp_path / "in")
    for n in range(0, 18, per_file):
        files.add(*EVENTS_IN_ORDER[n : n + per_file])
    job, sink = sessions_job(files.stream(spark), tmp_path / "root", f"cut-{per_file}")
    client = run_all(job)
    assert rows(sink) == expected_sessions()
    assert client.state == "FINISHED"
    assert newest(tmp_path / "root", job.name).watermarks == {"sessions": END}
    assert newest(tmp_path / "root", job.name).timers == {}


def test_a_restart_goes_on_from_the_watermark(spark, tmp_path: Path, started) -> None:
    files, root = Files(tmp_path / "in").add(("a", 1, 100, ""), ("b", 2, 103, "")), tmp_path / "root"

    def start(**options: Any) -> tuple[Any, Any]:
        job, sink = StreamJob("again", root=str(root), parallelism=2), MemorySink("again")
        timed = job.from_stream(files.stream(spark)).assign_timestamps_and_watermarks(bounded(2))
        timed.key_by("k").process(Sessions(), SESSIONS, uid="sessions").sink_to(sink, uid="out")
        return started(job.start(trigger_interval_ms=50, **options)), sink

    client, _ = start()
    with_epochs(client, 1).stop()
    assert newest(root, "again").watermarks == {"sessions": 99}
    files.add(("c", 3, 114, ""))
    client, sink = start(parallelism=3)
    with_epochs(client, 2)  # the records, then the timer that their watermark makes due
    wait_for(lambda: rows(sink), "the session of a")
    assert rows(sink) == [("a", 110, [1])]
    assert newest(root, "again").watermarks == {"sessions": 110}
    client.stop(drain=True)
    assert rows(sink) == [("a", 110, [1]), ("b", 113, [2]), ("c", 124, [3])]
    assert client.state == "CANCELED"


@pytest.mark.long  # `epoch/test_watermarks.py` has the watermark of an upstream operator
def test_a_downstream_operator_is_an_epoch_later(spark, tmp_path: Path) -> None:
    files = Files(tmp_path / "in").add(("a", 1, 100, "")).add(("a", 2, 130, "")).add(("b", 3, 160, ""))
    job = StreamJob("chain", root=str(tmp_path / "root"), parallelism=2, heartbeat_interval_ms=60_000)
    sink = MemorySink("chain")
    timed = job.from_stream(files.stream(spark), bounded=True).assign_timestamps_and_watermarks(bounded())
    closed = timed.key_by("k").process(Sessions(), SESSIONS, uid="sessions")
    closed.map(lambda row: (row.k, row.closed), "k string, closed bigint").where("closed > 0").key_by("k").process(
        Seen(), SEEN, uid="seen"
    ).sink_to(sink, uid="out")
    client = run_all(job)
    # The sessions of a close before the records at 130 and 160, in epochs 2 and 3. The watermark of `seen` is one below
    # that of `sessions` an epoch before. Its timers fire in epochs 4 (at 127) and 5; the row of b comes in epoch 4.
    records = [("a", 110, -END - 1), ("a", 140, 97), ("b", 170, 127)]
    assert rows(sink) == [*records, ("timer", 110, 127), ("timer", 140, END), ("timer", 170, END)]
    assert [e.kind for e in client.epochs] == ["epoch"] * 3 + ["idle"] * 2


RELEASES = [(100, None), (1000, "p"), (2000, "k"), (3000, None)]
"""Event times of the input, and the column that identifies the partitions."""


# `tests/epoch/test_event_time_of_a_driver.py` tests all of them, too.
@pytest.mark.parametrize("releases", [2, pytest.param(len(RELEASES), marks=pytest.mark.long)])
def test_a_later_release_may_tell_partitions_by_another_column(spark, tmp_path: Path, releases: int) -> None:
    files, root = Files(tmp_path / "in"), tmp_path / "root"
    watermarks = []
    for time, column in RELEASES[:releases]:
        files.add(("a", 1, time, f"x{time}"), ("b", 2, time - 50, f"y{time}"))
        job, sink = StreamJob("columns", root=str(root), parallelism=2), MemorySink("columns")
        strategy = bounded() if column is None else bounded().with_partition_column(column)
        timed = job.from_stream(files.stream(spark)).assign_timestamps_and_watermarks(strategy)
        timed.key_by("k").process(Seen(), SEEN, uid="seen").sink_to(sink, uid="out")
        run_all(job)
        sealed = newest(root, "columns")
        watermarks.append((sealed.watermarks["seen"], sealed.operators["seen"].partition_columns))
    assert watermarks == [(98, ()), (948, ("p",)), (1948, ("k",)), (2998, ())][:releases]


class Half(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value.at) // 2


STRATEGIES = {
    "timestamp": bounded(column="timestamp_millis(at)"),
    "ntz": bounded(column="to_timestamp_ntz(date_format(timestamp_millis(at), 'yyyy-MM-dd HH:mm:ss.SSS'))"),
    "assigner": WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Half()),
}


class Pass(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield value.k, value.at


def seen_by(stream: Any, strategy: WatermarkStrategy, uid: str) -> None:
    timed = stream.assign_timestamps_and_watermarks(strategy).select("*", "1 as w")
    timed.key_by("k").process(Seen(), SEEN, uid=uid).sink_to(MemorySink(uid), uid=f"{uid}-out")


class Timed(NamedTuple):
    """A job with event times from everywhere, after its input."""

    manifest: Any
    rows: dict[str, list[Any]]
    """By operator."""

    @property
    def records(self) -> dict[str, list[Any]]:
        """The rows that are not from timers."""
        return {uid: [row for row in rows if row[0] != "timer"] for uid, rows in self.rows.items()}


AT = int(datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC).timestamp() * 1000)


@pytest.fixture(scope="module")
def timed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Timed:
    folder = tmp_path_factory.mktemp("timed")
    job = StreamJob("timed", root=str(folder / "root"), parallelism=2)

    def stream(name: str, *epochs: list[Event]) -> Any:
        files = Files(folder / name)
        for events in epochs:
            files.add(*events)
        return job.from_stream(files.stream(spark), name)

    partitions = stream(
        "partitions", [("a", 1, 100, "x"), ("a", 2, 50, "y")], [("a", 3, 300, "x")], [("a", 4, 80, "y")]
    )
    seen_by(partitions, bounded().with_partition_column("p"), "seen-partitions")
    for name, strategy in STRATEGIES.items():
        seen_by(stream(name, [("a", 1, AT, "")]), strategy, f"seen-{name}")
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    passed = stream("passed", [("a", 1, 100, "")], [("b", 2, 200, "")]).process(
        Pass(), "k string, at bigint", uid="pass"
    )
    seen_by(passed, in_order.with_timestamp_assigner(Half()).with_partition_column("'one'"), "seen-by-function")
    seen_by(passed, in_order.with_timestamp_column("at div 2").with_partition_column("'one'"), "seen-by-column")
    run_all(job)
    manifest = newest(folder / "root", "timed")
    return Timed(manifest, {uid: rows(MemorySink(uid)) for uid in manifest.operators if uid != "pass"})


def test_the_slowest_partition_holds_the_watermark(timed: Timed) -> None:
    of_a = [("a", 50, -END - 1), ("a", 80, 48), ("a", 100, -END - 1), ("a", 300, 48)]
    assert timed.records["seen-partitions"] == of_a
    times = timed.manifest.event_times["seen-partitions"]
    assert [(t.edge, t.partition, t.time) for t in times] == [(0, "x", 300), (0, "y", 80)]


@pytest.mark.parametrize("name", STRATEGIES)
def test_where_event_times_come_from(timed: Timed, name: str) -> None:
    time = AT // 2 if STRATEGIES[name].assigner else AT
    assert timed.rows[f"seen-{name}"] == [("a", time, time - 2)]


@pytest.mark.parametrize("by", ["function", "column"])
def test_a_strategy_after_an_operator(timed: Timed, by: str) -> None:
    assert timed.records[f"seen-by-{by}"] == [("a", 50, -END - 1), ("b", 100, 48)]
    assert timed.manifest.watermarks[f"seen-by-{by}"] == 98
    assert "pass" not in timed.manifest.watermarks


def test_each_source_has_its_own_watermark_and_the_least_counts(spark, tmp_path: Path) -> None:
    fast = Files(tmp_path / "fast").add(("a", 1, 500, "")).add(("a", 2, 600, ""))
    slow = Files(tmp_path / "slow").add(("b", 3, 100, "")).add(("b", 4, 120, ""))
    job, sink = StreamJob("two", root=str(tmp_path / "root"), parallelism=2), MemorySink("two")
    one = job.from_stream(fast.stream(spark), "fast", bounded=True).assign_timestamps_and_watermarks(bounded())
    other = job.from_stream(slow.stream(spark), "slow", bounded=True).assign_timestamps_and_watermarks(bounded(10))
    one.union(other).key_by("k").process(Seen(), SEEN, uid="seen").sink_to(sink, uid="out")
    run_all(job)
    assert [row for row in rows(sink) if row[0] != "timer"] == [
        ("a", 500, -END - 1),
        ("a", 600, 88),
        ("b", 100, -END - 1),
        ("b", 120, 88),
    ]
    assert [at for k, at, _ in rows(sink) if k == "timer"] == [100, 120, 500, 600]


def test_a_record_without_event_time_stops_the_job(spark, tmp_path: Path) -> None:
    files = Files(tmp_path / "in").add(("a", 1, 100, "")).add(("b", 2, None, ""))
    job, _ = sessions_job(files.stream(spark), tmp_path / "root", "null-time")
    with pytest.raises(EventTimeError, match=r"no event time: \{'k': 'b', 'v': 2"):
        run_all(job)
    assert newest(tmp_path / "root", "null-time").epoch == 2


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (WatermarkStrategy.for_monotonous_timestamps(), "without timestamps"),
        (bounded(column="k"), "gives a string"),
        (bounded(column="nothing"), "nothing"),
        (bounded().with_partition_column("nothing"), "nothing"),
        ("at", "got 'at'"),
    ],
)
def test_a_strategy_that_cannot_be_is_refused(spark, tmp_path: Path, strategy: Any, message: str) -> None:
    stream = StreamJob("refused", root=str(tmp_path)).from_stream(Files(tmp_path / "in").stream(spark))
    with pytest.raises(JobDefinitionError, match=message):
        stream.assign_timestamps_and_watermarks(strategy)


def test_a_bounded_input_has_to_be_read_to_its_end(spark, tmp_path: Path) -> None:
    job, _ = sessions_job(Files(tmp_path / "in").stream(spark), tmp_path / "root", "unbounded")
    with pytest.raises(JobDefinitionError, match="available_now"):
        job.start()


class Alternating(KeyedProcessFunction):
    """Registers a processing-time timer for each record; the row that the timer emits has no event time."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), 1


class Stamp(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value.k, ctx.timestamp()


def test_a_row_of_a_processing_time_timer_has_no_event_time(spark, tmp_path: Path, started) -> None:
    files = Files(tmp_path / "in").add(("a", 1, 100, ""))
    job, sink = StreamJob("no-time", root=str(tmp_path / "root"), parallelism=2), MemorySink("no-time")
    timed = job.from_stream(files.stream(spark)).assign_timestamps_and_watermarks(bounded())
    fired = timed.key_by("k").process(Alternating(), "k string, n bigint", uid="fire")
    fired.key_by("k").process(Stamp(), "k string, at bigint", uid="stamp").sink_to(sink, uid="out")
    client = started(job.start(trigger_interval_ms=50))
    wait_for(lambda: rows(sink) or client.exception, "a row")
    assert rows(sink) == [("a", None)]


@pytest.mark.long  # `epoch/test_watermarks.py` has idle partitions
def test_an_idle_partition_holds_no_watermark_back(
    spark, tmp_path: Path, started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("state_engine.spark.driver.client.SystemClock", Ahead)
    files = Files(tmp_path / "in").add(("a", 1, 300, "x"), ("b", 2, 50, "y"))
    job, sink = StreamJob("sleepy", root=str(tmp_path / "root"), parallelism=2), MemorySink("sleepy")
    strategy = bounded().with_partition_column("p").with_idleness(Duration.of_hours(1))
    timed = job.from_stream(files.stream(spark)).assign_timestamps_and_watermarks(strategy)
    timed.key_by("k").process(Sessions(), SESSIONS, uid="sessions").sink_to(sink, uid="out")
    client = with_epochs(started(job.start(trigger_interval_ms=50)), 1)
    client.run_idle_epoch()
    assert newest(tmp_path / "root", "sleepy").watermarks == {"sessions": 48}
    assert rows(sink) == []
    monkeypatch.setattr(Ahead, "by_ms", 3_600_000)
    files.add(("c", 3, 400, "x"))
    wait_for(lambda: len(rows(sink)) == 2 or client.exception, "the sessions that y held back")
    assert rows(sink) == [("a", 310, [1]), ("b", 60, [2])]
    assert newest(tmp_path / "root", "sleepy").watermarks == {"sessions": 398}


class Recent(KeyedProcessFunction):
    """Counts the records of a key that came without a gap of `GAP` in event time."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("recent", Types.LONG(), default_value=0)
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(GAP)).use_event_time().build())
        self.recent = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.recent.update(self.recent.value() + 1)
        yield value.k, value.v, self.recent.value()


@pytest.mark.long  # `runtime/test_ttl_and_epochs.py`
def test_values_expire_by_event_time(spark, tmp_path: Path) -> None:
    files = Files(tmp_path / "in").add(("a", 1, 100, ""), ("a", 2, 105, ""), ("b", 3, 106, ""))
    files.add(("a", 4, 114, ""), ("a", 5, 130, ""), ("b", 6, 131, ""), ("b", 7, 132, ""))
    job, sink = StreamJob("recent", root=str(tmp_path / "root"), parallelism=2), MemorySink("recent")
    timed = job.from_stream(files.stream(spark)).assign_timestamps_and_watermarks(bounded())
    counted = timed.key_by("k", order_by=["v"]).process(Recent(), "k string, v bigint, n bigint", uid="recent")
    counted.sink_to(sink, uid="out")
    run_all(job)
    assert [n for _, _, n in sorted(rows(sink), key=lambda row: row[1])] == [1, 2, 1, 3, 1, 1, 2]
