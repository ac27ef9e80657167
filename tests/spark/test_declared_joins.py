"""Declared joins in jobs: restores, late records, downstream operators, and streams that cannot be joined."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import Folders, Record, newest, run_all, state_of

from state_engine.api import Aggregate, Duration, OutputTag, Time, WatermarkStrategy
from state_engine.api.windows import TumblingEventTimeWindows
from state_engine.errors import JobDefinitionError
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
LOWER, UPPER = -10, 15


def in_order(stream: Any) -> Any:
    """Orders the records by `n`, which is their event time."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_column("n")
    return stream.assign_timestamps_and_watermarks(strategy)


def add(folders: Folders, files: int) -> None:
    """Adds files with 40 more milliseconds each to both folders: each record to one of them, some to both."""
    for _ in range(files):
        first = 1 + max((row.n for row in folders.all), default=-1)
        rows = [Record(n, None if n % 13 == 0 else f"k{n * 7 % 5}", f"s{n % 3}", n) for n in range(first, first + 40)]
        folders.inputs[0].add([row for row in rows if row.n % 3])
        folders.inputs[1].add([row for row in rows if row.n % 4 in (0, 1)])


def streams(job: StreamJob, spark: Any, folders: Folders, *, bounded: bool) -> list[Any]:
    sources = [job.from_stream(source.stream(spark), bounded=bounded) for source in folders.inputs]
    orders, shipments = map(in_order, sources)
    return [
        orders.select("k", "sub", "n as ordered").key_by("k"),
        shipments.select("n as sent", "k as of").key_by("of"),
    ]


def interval_job(spark: Any, folders: Folders, root: Path, how: Any, *, bounded: bool, backend: str) -> StreamJob:
    job = StreamJob(f"interval-{how}", root=str(root), parallelism=2, state_backend=backend)
    orders, shipments = streams(job, spark, folders, bounded=bounded)
    near = orders.interval_join(shipments).between(Time.milliseconds(LOWER), Time.milliseconds(UPPER))
    near.join(how, uid="near").sink_to(MemorySink(job.name), uid="out")
    return job


def partners(folders: Folders) -> set[tuple[int, int]]:
    orders, shipments = (source.all for source in folders.inputs)
    return {
        (one.n, other.n)
        for one in orders
        for other in shipments
        if one.k is not None and one.k == other.k and one.n + LOWER <= other.n <= one.n + UPPER
    }


@pytest.mark.long  # test_shared_jobs.py has the left one
@pytest.mark.parametrize("how", ["left", "inner", "right"])
def test_an_interval_join_through_restart_restore_and_rescale(spark: Any, tmp_path: Path, how: str) -> None:
    root, folders = tmp_path / "root", Folders(tmp_path, 2)

    def run(backend: str = "heap", *, bounded: bool = False, **options: Any) -> None:
        run_all(interval_job(spark, folders, root, how, bounded=bounded, backend=backend), **options)

    def rows() -> list[tuple[Any, Any]]:
        output = MemorySink(f"interval-{how}").rows()
        names = {row.n: (row.k, row.sub) for row in folders.inputs[0].all}
        assert all(row["ordered"] is None or names[row["ordered"]] == (row["k"], row["sub"]) for row in output)
        return [(row["ordered"], row["sent"]) for row in output]

    add(folders, 2)
    run()
    assert {pair for pair in rows() if None not in pair} == partners(folders)
    add(folders, 1)
    run("rocksdb", parallelism=3)
    run(restore="epoch:1/2", parallelism=1)
    assert newest(root, f"interval-{how}").generation == 2
    add(folders, 1)
    run(bounded=True)
    pairs = partners(folders)
    alone: list[Any] = []
    if how == "left":
        alone = [(row.n, None) for row in folders.inputs[0].all if row.n not in {one for one, _ in pairs}]
    if how == "right":
        alone = [(None, row.n) for row in folders.inputs[1].all if row.n not in {other for _, other in pairs}]
    assert Counter(rows()) == Counter([*pairs, *alone])
    assert alone or how == "inner"
    assert not state_of(root, f"interval-{how}", "near", "left"), "nothing is left of what is over"


@pytest.mark.long  # test_shared_jobs.py has the left one
@pytest.mark.parametrize("how", ["left", "inner"])
def test_a_temporal_join_through_restart_restore_and_rescale(spark: Any, tmp_path: Path, how: Any) -> None:
    root, folders = tmp_path / "root", Folders(tmp_path, 2)

    def run(backend: str = "heap", *, bounded: bool = False, **options: Any) -> None:
        job = StreamJob(f"temporal-{how}", root=str(root), parallelism=2, state_backend=backend)
        orders, versions = streams(job, spark, folders, bounded=bounded)
        joined = orders.temporal_join(versions, how, uid="versioned")
        joined.sink_to(MemorySink(job.name), uid="out")
        run_all(job, **options)

    add(folders, 2)
    run()
    assert MemorySink(f"temporal-{how}").rows()
    add(folders, 1)
    run("rocksdb", parallelism=3)
    run(restore="epoch:1/2", parallelism=1)
    add(folders, 1)
    run(bounded=True)
    wanted = []
    for order in folders.inputs[0].all:
        valid = [v.n for v in folders.inputs[1].all if v.k == order.k and v.k is not None and v.n <= order.n]
        if valid or how == "left":
            wanted.append((order.k, order.sub, order.n, max(valid, default=None)))
    output = [tuple(row.values()) for row in MemorySink(f"temporal-{how}").rows()]
    assert Counter(output) == Counter(wanted)
    kept = state_of(root, f"temporal-{how}", "versioned", "versions")  # fails if a key has more than one
    newest_of = {row.k: row.n for row in sorted(folders.inputs[1].all) if row.k is not None}
    assert {key: version["at"] for key, version in kept.items()} == newest_of


def test_windows_after_joins_lose_nothing(spark: Any, tmp_path: Path) -> None:
    """Rows have event times that are not late for downstream operators; so have rows without a partner."""
    folders = Folders(tmp_path, 2)
    add(folders, 2)
    job = StreamJob("behind", root=str(tmp_path / "root"), parallelism=2)
    orders, shipments = streams(job, spark, folders, bounded=True)
    near = orders.interval_join(shipments).between(Time.milliseconds(LOWER), Time.milliseconds(UPPER))
    joined = near.join("left", uid="near")
    joined.sink_to(MemorySink("behind-rows"), uid="rows")
    late = OutputTag("late", "k string, sub string, ordered bigint, sent bigint")
    windows = joined.key_by("k").window(TumblingEventTimeWindows.of(Time.milliseconds(20))).side_output_late_data(late)
    counted = windows.aggregate({"n": Aggregate.count()}, uid="counts")
    counted.sink_to(MemorySink("behind-counts"), uid="counts-out")
    counted.get_side_output(late).sink_to(MemorySink("behind-late"), uid="late-out")
    run_all(job)
    assert not MemorySink("behind-late").rows()
    rows = MemorySink("behind-rows").rows()
    assert sum(row["n"] for row in MemorySink("behind-counts").rows()) == len(rows) >= len(partners(folders))


def test_late_records_of_both_streams(spark: Any, tmp_path: Path) -> None:
    folders = Folders(tmp_path, 2)
    first, second = folders.inputs
    for source in (first, second):
        source.add([Record(n, "a", "s", n) for n in (10, 50)])
    first.add([Record(20, "a", "late", 1), Record(60, "a", "s", 1)])
    second.add([Record(30, "a", "late", 1), Record(60, "a", "s", 1)])
    one, other = OutputTag("one", "k string, sub string, ordered bigint"), OutputTag("two", "sent bigint, of string")
    job = StreamJob("late", root=str(tmp_path / "root"), parallelism=1)
    orders, shipments = streams(job, spark, folders, bounded=True)
    near = orders.interval_join(shipments).between(Time.milliseconds(0), Time.milliseconds(0))
    joined = near.side_output_left_late_data(one).side_output_right_late_data(other).join(uid="near")
    joined.sink_to(MemorySink("late-rows"), uid="rows")
    joined.get_side_output(one).sink_to(MemorySink("late-one"), uid="one")
    joined.get_side_output(other).sink_to(MemorySink("late-two"), uid="two")
    run_all(job)
    assert sorted(row["sent"] for row in MemorySink("late-rows").rows()) == [10, 50, 60]
    assert [row["ordered"] for row in MemorySink("late-one").rows()] == [20]
    assert [row["sent"] for row in MemorySink("late-two").rows()] == [30]


def test_streams_that_cannot_be_joined_are_refused(spark: Any, tmp_path: Path) -> None:
    folders = Folders(tmp_path, 2)
    job = StreamJob("refused", root=str(tmp_path / "root"))
    plain, other = (job.from_stream(source.stream(spark)) for source in folders.inputs)
    keyed = in_order(plain).select("k", "n").key_by("k")
    with pytest.raises(JobDefinitionError, match="without event time"):
        keyed.interval_join(other.select("k", "v").key_by("k"))
    with pytest.raises(JobDefinitionError, match=r"Call key_by\(\.\.\.\) on both first"):
        keyed.temporal_join(in_order(other))
    with pytest.raises(JobDefinitionError, match="the stream has"):
        keyed.temporal_join(in_order(other).select("k", "v").key_by("k"), late_data=OutputTag("late", "x int"))
