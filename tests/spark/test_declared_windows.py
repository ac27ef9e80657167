"""Declared aggregates of windows in jobs, beside the row form: checkpoints, a restore, late records."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support import Input, Record, run_all

from state_engine.api import Aggregate, Duration, OutputTag, Time, WatermarkStrategy, WindowFunction
from state_engine.api.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from state_engine.inspect import open_job, read_state
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
LATE = OutputTag("late", "n bigint, k string, sub string, v bigint")
WINDOWS = SlidingEventTimeWindows.of(Time.milliseconds(50), Time.milliseconds(20))
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(9))
AGGREGATES = {
    "records": Aggregate.count(),
    "total": Aggregate.sum("v"),
    "mean": Aggregate.avg("v"),
    "first_n": Aggregate.first("n"),
    "sub": Aggregate.max("sub"),
    "numbers": Aggregate.collect("n"),
}
ROWS = "k string, window_start timestamp, window_end timestamp, records bigint, total bigint, mean double, first_n bigint, sub string, numbers array<bigint>"  # fmt: skip  # noqa: E501


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


class ByRows(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        rows = list(inputs)
        total = sum(row.v for row in rows)
        yield (
            key, at(window.start), at(window.end), len(rows), total, total / len(rows), rows[0].n,
            max(row.sub for row in rows), [row.n for row in rows],
        )  # fmt: skip


def rows(sink: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in MemorySink(sink).rows()), key=repr)


@pytest.mark.long
def test_equals_the_row_form_through_checkpoints_and_a_restore(spark: Any, tmp_path: Path) -> None:
    source, root = Input(tmp_path / "in"), str(tmp_path / "root")

    def run(parallelism: int, backend: str, bounded: bool = False, **options: Any) -> None:
        job = StreamJob("windows", root=root, state_backend=backend, checkpoint_interval_ms=10)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(30)).with_timestamp_column("n")
        for form in ("columns", "rows"):
            stream = job.from_stream(source.stream(spark), bounded=bounded).assign_timestamps_and_watermarks(strategy)
            windows = stream.key_by("k", order_by=["n"]).window(WINDOWS).side_output_late_data(LATE)
            if form == "columns":
                results = windows.aggregate(AGGREGATES, uid=form)
            else:
                results = windows.apply(ByRows(), ROWS, uid=form)
            results.sink_to(MemorySink(form), uid=f"{form}-out")
            results.get_side_output(LATE).sink_to(MemorySink(f"late {form}"), uid=f"{form}-late")
        run_all(job, parallelism=parallelism, **options)

    source.add_many(2)
    run(2, "heap")
    stored = read_state(root, "windows", "columns", "count").to_pylist()
    by_rows = read_state(root, "windows", "rows", "window-contents").to_pylist()
    still_open = {(row["k"], row["namespace"]) for row in by_rows}
    assert still_open == {(row["k"], row["namespace"]) for row in stored}
    source.add([Record(n=-5, k="late", sub="s", v=1), Record(n=130, k="k1", sub="s", v=2)])
    source.add_many(1)
    run(3, "rocksdb")
    assert any(row.status == "completed" for row in open_job(root, "windows").checkpoints())
    run(1, "rocksdb", bounded=True, restore="epoch:1/3")
    results = rows("columns")
    assert results == rows("rows")
    assert len(results) > 100
    assert rows("late columns") == rows("late rows") == [(-5, "late", "s", 1)]
    assert read_state(root, "windows", "columns", "count").num_rows == 0


def test_windows_that_an_epoch_makes_due_fire_in_it(spark: Any, tmp_path: Path) -> None:
    """With partitions, a subtask does not know the records of the other partitions: windows wait for the next epoch."""
    source, root = Input(tmp_path / "in").add_many(1), str(tmp_path / "root")
    # No heartbeat brings the next epoch while the query ends.
    job = StreamJob("due", root=root, parallelism=2, heartbeat_interval_ms=60_000)
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("n")
    strategies = {"whole": in_order, "in-partitions": in_order.with_partition_column("n % 2")}
    for uid, strategy in strategies.items():
        stream = job.from_stream(source.stream(spark)).assign_timestamps_and_watermarks(strategy)
        windows = stream.key_by("k").window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        windows.aggregate({"records": Aggregate.count()}, uid=uid).sink_to(MemorySink(f"due-{uid}"), uid=f"{uid}-out")
    run_all(job)
    early = [at(start) for start in range(0, 40, 10)]  # each subtask has later records
    for uid in strategies:
        epochs = {
            epoch.epoch
            for epoch, table in MemorySink(f"due-{uid}").epochs.items()
            for row in table.to_pylist()
            if row["window_start"] in early
        }
        assert epochs == ({2} if uid == "whole" else set()), "epoch 1 is a claim"
        stored = read_state(root, "due", uid, "count").to_pylist()
        assert any(int(row["namespace"].partition("/")[0]) < 40 for row in stored) == (uid != "whole")


@pytest.mark.long
def test_sessions_equal_the_row_form_through_checkpoints_and_a_restore(spark: Any, tmp_path: Path) -> None:
    source, root = Input(tmp_path / "in"), str(tmp_path / "root")

    def run(parallelism: int, backend: str, bounded: bool = False, **options: Any) -> None:
        job = StreamJob("sessions", root=root, state_backend=backend, checkpoint_interval_ms=10)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(30)).with_timestamp_column("n")
        for form in ("columns", "rows"):
            stream = job.from_stream(source.stream(spark), bounded=bounded).assign_timestamps_and_watermarks(strategy)
            sessions = stream.key_by("k", order_by=["n"]).window(SESSIONS).side_output_late_data(LATE)
            if form == "columns":
                results = sessions.aggregate(AGGREGATES, uid=form)
            else:
                results = sessions.apply(ByRows(), ROWS, uid=form)
            results.sink_to(MemorySink(f"{form} of sessions"), uid=f"{form}-out")
            results.get_side_output(LATE).sink_to(MemorySink(f"late {form} of sessions"), uid=f"{form}-late")
        run_all(job, parallelism=parallelism, **options)

    source.add_many(2)
    run(2, "heap")
    stored = read_state(root, "sessions", "columns", "sessions").to_pylist()
    counted = read_state(root, "sessions", "columns", "count").to_pylist()
    assert stored
    assert {(row["k"], row["value"]["namespace"]) for row in stored} == {
        (row["k"], row["namespace"]) for row in counted
    }
    source.add([Record(n=-50, k="late", sub="s", v=1), Record(n=130, k="k1", sub="s", v=2)])
    source.add_many(1)
    run(3, "rocksdb")
    run(1, "rocksdb", bounded=True, restore="epoch:1/3")
    results = rows("columns of sessions")
    assert results == rows("rows of sessions")
    assert len(results) > 20
    assert any(len(row[-1]) > 1 for row in results)
    assert rows("late columns of sessions") == rows("late rows of sessions") == [(-50, "late", "s", 1)]
    assert read_state(root, "sessions", "columns", "count").num_rows == 0
    assert read_state(root, "sessions", "columns", "sessions").num_rows == 0


def test_windows_by_columns_feed_windows_of_all(spark: Any, tmp_path: Path) -> None:
    source, root = Input(tmp_path / "in").add_many(3), str(tmp_path / "root")
    job = StreamJob("fed", root=root, parallelism=2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("n")
    stream = job.from_stream(source.stream(spark), bounded=True).assign_timestamps_and_watermarks(strategy)
    tens = TumblingEventTimeWindows.of(Time.milliseconds(10))
    counts = stream.key_by("k").window(tens).aggregate({"records": Aggregate.count()}, uid="tens")
    forties = counts.window_all(TumblingEventTimeWindows.of(Time.milliseconds(40)))
    forties.aggregate({"total": Aggregate.sum("records"), "rows": Aggregate.count()}, uid="forties").sink_to(
        MemorySink("forties"), uid="out"
    )
    run_all(job)
    wanted = []
    for start in range(0, 180, 40):
        records = [row for row in source.all if start <= row.n < start + 40]
        wanted.append((at(start), at(start + 40), len(records), len({(row.k, row.n // 10) for row in records})))
    assert rows("forties") == sorted(wanted, key=repr)
