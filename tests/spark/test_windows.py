"""Windows in real streams: each kind, late records, a trigger, an evictor, a restart at another parallelism."""

import os
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import run_all, wait_for, with_epochs

from state_engine.api import (
    AggregateFunction,
    AllWindowFunction,
    Duration,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    OutputTag,
    ProcessWindowFunction,
    Time,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
    WindowFunction,
)
from state_engine.api.windows import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from state_engine.errors import JobDefinitionError, WindowsChangedError
from state_engine.inspect import open_job, read_state, run_sql
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
EVENTS = "k string, v bigint, at bigint"
SEEN = "k string, start bigint, seen string"
ms = Time.milliseconds
Event = tuple[str, int, int]


class Files:
    """A folder of Parquet files of events, one file per epoch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.count = 0

    def add(self, *events: Event) -> "Files":
        schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.int64())])
        rows = [dict(zip(schema.names, event, strict=True)) for event in events]
        path = self.folder / f"part-{self.count:04d}.parquet"
        temporary = path.with_name(f".{path.name}")
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), temporary)
        modified = 1_600_000_000 + 10 * self.count  # Spark reads the oldest first, and clocks of files are coarse
        os.utime(temporary, (modified, modified))
        temporary.rename(path)
        self.count += 1
        return self

    def stream(self, spark: Any) -> Any:
        return spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1).parquet(str(self.folder))


class Seen(WindowFunction[Any, Any, Any, Any]):
    """Emits key, start of the window, and the values of its elements."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        start = window.start if isinstance(window, TimeWindow) else getattr(window, "id", -1)
        yield key, start, " ".join(str(i.v) for i in inputs)


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value.v

    def get_result(self, accumulator: tuple[int, int]) -> Any:
        return accumulator

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def timed(job: StreamJob, df: Any, behind: int = 0, bounded: bool = True) -> Any:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(behind)).with_timestamp_column("at")
    stream = job.from_stream(df, bounded=bounded)
    return stream.assign_timestamps_and_watermarks(strategy).key_by("k", order_by=["v"])


def rows(sink: MemorySink) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in sink.rows())


def grouped(events: list[Event], windows_of: Any) -> list[tuple[Any, ...]]:
    """Returns the expected output of `Seen` for windows that a plain function assigns."""
    windows: dict[Any, list[int]] = {}
    for k, v, at in sorted(events, key=lambda e: (e[2], e[1])):
        for start in windows_of(at):
            windows.setdefault((k, start), []).append(v)
    return sorted((k, start, " ".join(map(str, vs))) for (k, start), vs in windows.items())


OPEN_WINDOWS = """select distinct namespace from windows."window-contents" where k = 'k0' order by namespace"""
EVENTS_IN_ORDER: list[Event] = [(f"k{n % 3}", n, 7 * n + (200 if n > 11 else 0)) for n in range(24)]
SESSIONS = EventTimeSessionWindows.with_gap(ms(50))
TIME_WINDOWS: dict[str, Any] = {
    "tumbling": (TumblingEventTimeWindows.of(ms(20), ms(3)), lambda at: [(at - 3) // 20 * 20 + 3]),
    "sliding": (SlidingEventTimeWindows.of(ms(20), ms(10)), lambda at: [at // 10 * 10, at // 10 * 10 - 10]),
    "sessions": (SESSIONS, lambda at: [at % 7 + 7 * (at // 7 % 3) if at < 200 else 0]),
}


QUICK = [("tumbling", 24)]


@pytest.mark.parametrize(
    ("kind", "per_file"),
    [pytest.param(*pair, marks=() if pair in QUICK else pytest.mark.long) for pair in product(TIME_WINDOWS, (24, 5))],
)
def test_windows_by_event_time(spark, tmp_path: Path, kind: str, per_file: int) -> None:
    files = Files(tmp_path / "in")
    for n in range(0, 24, per_file):
        files.add(*EVENTS_IN_ORDER[n : n + per_file])
    assigner, windows_of = TIME_WINDOWS[kind]
    if kind == "sessions":
        starts = {(k, late): min(at for k2, _, at in EVENTS_IN_ORDER if k2 == k and (at > 250) == late)
                  for k in ("k0", "k1", "k2") for late in (False, True)}  # fmt: skip
        key_of = {at: k for k, _, at in EVENTS_IN_ORDER}

        def windows_of(at: int) -> list[int]:
            return [starts[key_of[at], at > 250]]

    root, name = tmp_path / "root", f"{kind}-{per_file}"
    job, sink = StreamJob(name, root=str(root), parallelism=2), MemorySink(name)
    timed(job, files.stream(spark)).window(assigner).apply(Seen(), SEEN, uid="windows").sink_to(sink, uid="out")
    assert run_all(job).state == "FINISHED"
    assert rows(sink) == grouped(EVENTS_IN_ORDER, windows_of)
    assert read_state(str(root), name, "windows", "window-contents").num_rows == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "backend",
    [
        pytest.param(HashMapStateBackend(), id="heap"),
        pytest.param(EmbeddedRocksDBStateBackend(), id="rocksdb"),
    ],
)
def test_windows_are_loaded_from_published_tables(spark, tmp_path: Path, backend: Any) -> None:
    files, root = Files(tmp_path / "in"), tmp_path / "root"
    name = f"published-{type(backend).__name__}"
    sink = MemorySink(name)
    for first, last, ends, still_open in (
        (0, 6, False, ["0/40", "20/60"]),
        (6, 15, False, ["260/300", "280/320"]),
        (15, 24, True, []),
    ):
        for n in range(first, last, 5):
            files.add(*EVENTS_IN_ORDER[n : min(n + 5, last)])
        job = StreamJob(name, root=str(root), parallelism=2 + ends, state_backend=backend, checkpoint_interval_ms=10)
        windows = timed(job, files.stream(spark), bounded=ends).window(SlidingEventTimeWindows.of(ms(40), ms(20)))
        windows.apply(Seen(), SEEN, uid="windows").sink_to(sink, uid="out")
        run_all(job)
        assert any(row.status == "completed" for row in open_job(str(root), name).checkpoints())
        if not ends:
            stored = run_sql(str(root), name, OPEN_WINDOWS, live=True).to_pylist()
            assert [row["namespace"] for row in stored] == still_open
    assert rows(sink) == grouped(EVENTS_IN_ORDER, lambda at: [at // 20 * 20, at // 20 * 20 - 20])


@pytest.mark.long  # `runtime/windows/test_lateness_and_triggers.py`
def test_late_records_within_and_after_the_lateness(spark, tmp_path: Path) -> None:
    late = OutputTag("late", EVENTS)
    files = Files(tmp_path / "in")
    files.add(("a", 1, 5), ("b", 2, 3)).add(("a", 3, 30)).add(("a", 4, 6), ("b", 5, 31)).add(("a", 6, 60)).add(
        ("a", 7, 7)
    )
    job = StreamJob("late", root=str(tmp_path / "root"), parallelism=2)
    windows = timed(job, files.stream(spark)).window(TumblingEventTimeWindows.of(ms(20)))
    means = windows.allowed_lateness(30).side_output_late_data(late).aggregate(
        Mean(), output_type="n bigint, total bigint", uid="windows"
    )  # fmt: skip
    sink, late_sink = MemorySink("late-main"), MemorySink("late-side")
    means.sink_to(sink, uid="out")
    means.get_side_output(late).sink_to(late_sink, uid="late-out")
    run_all(job)
    # Windows of a: the first one at its end, and again with the late 4; at 20; at 60. Windows of b: at 0 and at 20.
    assert rows(sink) == sorted([(1, 1), (2, 5), (1, 3), (1, 6), (1, 2), (1, 5)])
    assert rows(late_sink) == [("a", 7, 7)]


class Numbered(ProcessWindowFunction[Any, Any, Any, Any]):
    """Numbers the results of a key."""

    def open(self, runtime_context: Any) -> None:
        self.number = runtime_context.get_state(ValueStateDescriptor("number", Types.LONG()))

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        self.number.update((self.number.value() or 0) + 1)
        yield key, self.number.value(), " ".join(str(e.v) for e in elements)


def test_sessions_go_on_after_a_restart_at_another_parallelism(spark, tmp_path: Path, started) -> None:
    root, files, sink = tmp_path / "root", Files(tmp_path / "in"), MemorySink("again")
    files.add(("a", 1, 100), ("b", 2, 100), ("a", 3, 180))

    def start(parallelism: int, assigner: Any = SESSIONS) -> Any:
        job = StreamJob("again", root=str(root), parallelism=parallelism)
        windows = timed(job, files.stream(spark), behind=100, bounded=False).window(assigner)
        windows.process(Numbered(), SEEN, uid="sessions").sink_to(sink, uid="out")
        return started(job.start(trigger_interval_ms=50))

    with_epochs(start(2), 1).stop()
    stored = read_state(str(root), "again", "sessions", "merging-window-set").to_pylist()
    windows = {row["k"]: sorted(window for window, _ in row["value"]) for row in stored}
    assert windows == {"a": ["100/150", "180/230"], "b": ["100/150"]}
    files.add(("a", 4, 140), ("b", 5, 300))
    client = start(3)
    wait_for(lambda: rows(sink) or client.exception, "the first session")
    assert rows(sink) == [("b", 1, "2")]
    client.stop(drain=True)
    assert rows(sink) == [("a", 1, "1 3 4"), ("b", 1, "2"), ("b", 2, "5")]
    with pytest.raises(WindowsChangedError, match="'sessions' changed: they were sessions, and are windows of time"):
        start(3, TumblingEventTimeWindows.of(ms(20)))


@pytest.mark.long  # `runtime/windows/test_count_windows_and_evictors.py`
def test_count_windows_global_windows_and_an_evictor(spark, tmp_path: Path) -> None:
    events = [(k, n, 0) for n in range(1, 8) for k in ("a", "b")]
    expected = {
        "count": ["1 2 3", "4 5 6"],
        "sliding": ["1 2 3", "3 4 5", "5 6 7"],
        "global": ["1 2", "2 3 4", "4 5 6"],
    }
    job = StreamJob("counting", root=str(tmp_path / "root"), parallelism=2)
    sinks = {name: MemorySink(f"windows-{name}") for name in expected}
    for name, windows in {
        "count": lambda keyed: keyed.count_window(3),
        "sliding": lambda keyed: keyed.count_window(3, 2),
        "global": lambda keyed: (
            keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2)).evictor(CountEvictor.of(3))
        ),
    }.items():
        files = Files(tmp_path / name).add(*events[:5]).add(*events[5:])
        keyed = job.from_stream(files.stream(spark)).key_by("k", order_by=["v"])
        windows(keyed).apply(Seen(), SEEN, uid=name).sink_to(sinks[name], uid=f"{name}-out")
    run_all(job)
    for name, sink in sinks.items():
        assert [seen for k, _, seen in rows(sink) if k == "a"] == expected[name]
        assert [seen for k, _, seen in rows(sink) if k == "b"] == expected[name]


def test_windows_by_processing_time_end_while_no_record_comes(spark, tmp_path: Path, started) -> None:
    files = Files(tmp_path / "in").add(("a", 1, 0), ("a", 2, 0), ("b", 3, 0))
    job, sink = StreamJob("processing", root=str(tmp_path / "root"), parallelism=2), MemorySink("processing")
    windows = job.from_stream(files.stream(spark)).key_by("k").window(TumblingProcessingTimeWindows.of(ms(100)))
    windows.reduce(lambda a, b: (a.k, a.v + b.v, 0), uid="windows").sink_to(sink, uid="out")
    client = started(job.start(trigger_interval_ms=50))
    wait_for(lambda: rows(sink) or client.exception, "the end of the window")
    assert rows(sink) == [("a", 3, 0), ("b", 3, 0)]


class SeenOfAll(AllWindowFunction[Any, Any, Any]):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        start = window.start if isinstance(window, TimeWindow) else window.id
        yield "all", start, " ".join(f"{i.k}{i.v}" for i in inputs)


@pytest.fixture(scope="module")
def ended(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    """Output of several kinds of windows, in one job, by sink."""
    folder = tmp_path_factory.mktemp("ended")
    job = StreamJob("ended", root=str(folder / "root"), parallelism=2)

    def add(one: Any, other: Any) -> Any:
        return one.k, one.v + other.v, other.at

    files = Files(folder / "early").add(("a", 1, 1)).add(("a", 2, 12), ("a", 3, 25))
    windows = timed(job, files.stream(spark)).window(TumblingEventTimeWindows.of(ms(100)))
    early = windows.trigger(ContinuousEventTimeTrigger.of(ms(10))).reduce(add, uid="early")
    files = Files(folder / "fives")
    for n in range(0, 24, 6):
        files.add(*[("a", v, v * 5) for v in range(n, n + 6)])
    tens = timed(job, files.stream(spark)).window(TumblingEventTimeWindows.of(ms(10))).reduce(add, uid="tens")
    windows = tens.key_by("k").window(TumblingEventTimeWindows.of(ms(40)))
    forties = windows.apply(Seen(), SEEN, uid="forties")
    files = Files(folder / "all").add(("a", 1, 1), ("b", 2, 2)).add(("c", 3, 3), ("a", 4, 12))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    stream = job.from_stream(files.stream(spark), bounded=True).assign_timestamps_and_watermarks(strategy)
    tens = stream.window_all(TumblingEventTimeWindows.of(ms(10))).apply(SeenOfAll(), SEEN, uid="tens-of-all")
    pairs = tens.count_window_all(2).reduce(lambda a, b: (a.k, b.start, f"{a.seen}, {b.seen}"), uid="pairs")
    for name, output in {"early": early, "forties": forties, "pairs": pairs}.items():
        output.sink_to(MemorySink(f"ended-{name}"), uid=f"{name}-out")
    run_all(job)
    return {name: rows(MemorySink(f"ended-{name}")) for name in ("early", "forties", "pairs")}


def test_a_trigger_that_fires_early(ended: dict[str, list[Any]]) -> None:
    assert sorted(v for _, v, _ in ended["early"]) == [1, 3, *[6] * 8]


def test_windows_feed_windows_by_the_time_of_their_ends(ended: dict[str, list[Any]]) -> None:
    pairs = [2 * v + 1 for v in range(0, 24, 2)]
    assert ended["forties"] == [("a", 40 * n, " ".join(map(str, pairs[4 * n : 4 * n + 4]))) for n in range(3)]


def test_windows_of_all_records(ended: dict[str, list[Any]]) -> None:
    assert ended["pairs"] == [("all", 10, "a1 b2 c3, a4")]


def test_a_column_of_the_windows_own_name_is_refused(spark, tmp_path: Path) -> None:
    job = StreamJob("other", root=str(tmp_path / "root"))
    with pytest.raises(JobDefinitionError, match="a column 'window_all'"):
        job.from_stream(Files(tmp_path / "in").stream(spark).selectExpr("k as window_all")).count_window_all(2)


def test_event_time_windows_need_event_time(spark, tmp_path: Path) -> None:
    job = StreamJob("untimed", root=str(tmp_path / "root"))
    keyed = job.from_stream(Files(tmp_path / "in").stream(spark)).key_by("k")
    for assigner in (TumblingEventTimeWindows.of(ms(5)), SESSIONS):
        with pytest.raises(JobDefinitionError, match=r"without event time.*assign_timestamps_and_watermarks"):
            keyed.window(assigner)
    with pytest.raises(JobDefinitionError, match="WindowAssigner"):
        keyed.window(TumblingEventTimeWindows)  # type: ignore[arg-type]
