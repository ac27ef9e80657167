"""Jobs of several sources, and unions: each source keeps its own position through stop, restart and restore."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support import COUNTS, Count, Folders, Input, Totals, by_n, counted, newest, run_all, state_of

from state_engine.errors import (
    JobDefinitionError,
    SourcesChangedError,
    UnsupportedTopologyError,
    UnsupportedUpstreamError,
)
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark

TOTALS = "n bigint, sub string, total bigint"
SUMMED = "n bigint, sub string, times bigint"


def union_job(spark: Any, folders: Folders, root: Path, name: str, **options: Any) -> StreamJob:
    """Builds a job that counts the records of all folders; before the union each has another order of columns."""
    job = StreamJob(name, root=str(root), **{"parallelism": 2, **options})
    first, *others = [
        job.from_stream(source.stream(spark).select(*order), name=f"in{n}").select("n", "k", "v")
        for n, (source, order) in enumerate(
            zip(folders.inputs, (("n", "k", "v"), ("v", "n", "k"), ("k", "sub", "v", "n")), strict=False)
        )
    ]
    counts = first.union(*others).where("v > -100").key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="count")
    counts.sink_to(MemorySink(name), uid="out")
    return job


def test_a_union_of_three_sources_through_restart_restore_and_rescale(spark, tmp_path: Path) -> None:
    root, folders = tmp_path / "root", Folders(tmp_path, 3)
    folders.add(2, 2, 1)

    def job(**options: Any) -> StreamJob:
        return union_job(spark, folders, root, "three", **options)

    run_all(job())
    assert len(newest(root, "three").sources) == 3
    assert_in_order_of_epochs(root, "three", folders)
    folders.add(0, 1, 1)
    run_all(job(parallelism=3))
    assert_in_order_of_epochs(root, "three", folders)
    folders.add(1, 1, 0)
    run_all(job(), restore="epoch:1/2", parallelism=1)
    assert newest(root, "three").generation == 2
    assert_in_order_of_epochs(root, "three", folders)


def assert_in_order_of_epochs(root: Path, name: str, folders: Folders) -> None:
    """Checks that each record comes once, and is counted after earlier epochs; the sources decide which those are."""
    epochs = list(MemorySink(name).epochs.values())
    assert sorted(n for rows in epochs for n in rows["n"].to_pylist()) == [row.n for row in folders.all]
    seen: dict[Any, int] = {}
    for rows in epochs:
        for row in sorted(rows.to_pylist(), key=lambda row: row["n"]):
            seen[row["k"]] = seen.get(row["k"], 0) + 1
            assert row["times"] == seen[row["k"]]
    assert state_of(root, name, "count", "count") == seen


def test_a_source_that_has_nothing_at_first(spark, tmp_path: Path) -> None:
    root, folders = tmp_path / "root", Folders(tmp_path, 2)
    folders.add(1, 0)
    run_all(union_job(spark, folders, root, "late"))
    assert [position.offset for position in newest(root, "late").sources] == ['{"logOffset":0}', "-"]
    folders.add(0, 1)
    run_all(union_job(spark, folders, root, "late"))
    folders.add(1, 1)
    run_all(union_job(spark, folders, root, "late"))
    assert_in_order_of_epochs(root, "late", folders)


def two_levels(spark: Any, folders: Folders, root: Path, name: str, **options: Any) -> StreamJob:
    """Builds a job that counts source 0, and sums the counts, source 1 and source 2 by `sub`."""
    job = StreamJob(name, root=str(root), **{"parallelism": 2, **options})
    first, second, third = (job.from_stream(source.stream(spark)) for source in folders.inputs)
    counts = first.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="count")
    counts.sink_to(MemorySink(f"{name}-counts"), uid="counts")
    others = second.select("n", "sub", "v as times").union(third.where("v > 10").select("n", "sub", "v as times"))
    both = counts.map(lambda row: (row.n, f"s{row.n % 5}", row.times), SUMMED).union(others).where("n % 3 <> 1")
    totals = both.key_by("sub", order_by=["n"]).process(Totals(), TOTALS, uid="totals")
    totals.sink_to(MemorySink(name), uid="totals")
    return job


def check_two_levels(root: Path, name: str, folders: Folders) -> None:
    first, second, third = (source.all for source in folders.inputs)
    counts = counted(first)
    assert by_n(MemorySink(f"{name}-counts").rows()) == counts
    summed = [(n, f"s{n % 5}", times) for n, _, times in counts]
    summed += [(row.n, row.sub, row.v) for row in second]
    summed += [(row.n, row.sub, row.v) for row in third if row.v > 10]
    summed = [row for row in summed if row[0] % 3 != 1]
    assert [row[:2] for row in by_n(MemorySink(name).rows())] == [row[:2] for row in sorted(summed)]
    totals: dict[str, int] = {}
    for _, sub, times in summed:
        totals[sub] = totals.get(sub, 0) + times
    assert state_of(root, name, "totals", "total", key="sub") == totals
    if first:
        assert state_of(root, name, "count", "count") == {k: times for _, k, times in counts}


@pytest.mark.long
def test_an_operators_output_united_with_other_sources(spark, tmp_path: Path) -> None:
    root, folders = tmp_path / "root", Folders(tmp_path, 3)
    folders.add(1, 2, 2)

    def job(**options: Any) -> StreamJob:
        return two_levels(spark, folders, root, "levels", **options)

    client = run_all(job())
    check_two_levels(root, "levels", folders)
    read = len(folders.inputs[0].all) + len(MemorySink("levels").rows())  # by both operators
    assert sum(epoch.records for epoch in client.epochs) == read
    folders.add(1, 0, 1)
    run_all(job(), parallelism=3)
    check_two_levels(root, "levels", folders)
    run_all(job(), restore="epoch:1/2")
    check_two_levels(root, "levels", folders)


@pytest.mark.long
def test_an_idle_epoch_of_several_sources(spark, tmp_path: Path, started) -> None:
    root, folders = tmp_path / "root", Folders(tmp_path, 3)
    folders.add(1, 1, 1)
    run_all(two_levels(spark, folders, root, "idle-levels"))
    client = started(two_levels(spark, folders, root, "idle-levels").start(trigger_interval_ms=200))
    before = client.head.manifest
    manifest = client.run_idle_epoch().manifest
    assert manifest.kind == "idle"
    assert manifest.sources == tuple(type(p)(offset=p.offset) for p in before.sources)
    assert [len(operator.acks) for operator in manifest.operators.values()] == [2, 2]
    client.stop()
    check_two_levels(root, "idle-levels", folders)


def test_one_folder_read_twice_is_two_sources(spark, tmp_path: Path) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(1)

    def job() -> StreamJob:
        job = StreamJob("twice", root=str(root), parallelism=2)
        again = job.from_stream(source.stream(spark)).select("n + 100000 as n", "k", "sub", "v")
        both = job.from_stream(source.stream(spark)).union(again)
        both.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="count").sink_to(MemorySink("twice"), uid="out")
        return job

    def expected() -> list[int]:
        return sorted(row.n + more for row in source.all for more in (0, 100000))

    run_all(job())
    assert sorted(row["n"] for row in MemorySink("twice").rows()) == expected()
    source.add_many(1)
    run_all(job())
    assert sorted(row["n"] for row in MemorySink("twice").rows()) == expected()


@pytest.mark.long  # test_sources.py has each kind; the first test of this file goes on from a union
def test_sources_of_several_kinds(spark, tmp_path: Path) -> None:
    root, folders, table = tmp_path / "root", Folders(tmp_path, 2), str(tmp_path / "table")
    written: list[int] = []

    def add_to_table() -> None:
        rows = [{"n": 100_000 + len(written) + i, "k": f"k{i % 5}"} for i in range(10)]
        write_deltalake(table, pa.Table.from_pylist(rows), mode="append")
        written.extend(row["n"] for row in rows)

    def job(**options: Any) -> StreamJob:
        job = StreamJob("kinds", root=str(root), **{"parallelism": 2, **options})
        files = job.from_stream(folders.inputs[0].stream(spark)).select("n", "k")
        delta = job.from_stream(spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(table))
        others = job.from_stream(folders.inputs[1].stream(spark)).select("n", "k")
        counts = files.union(delta, others).key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="count")
        counts.sink_to(MemorySink("kinds"), uid="out")
        return job

    def check() -> None:
        expected = sorted([*(row.n for row in folders.all), *written])
        assert sorted(row["n"] for row in MemorySink("kinds").rows()) == expected
        assert sum(state_of(root, "kinds", "count", "count").values()) == len(expected)

    folders.add(1, 1)
    add_to_table()
    run_all(job())
    kinds = [fingerprint.kind.lower() for fingerprint in newest(root, "kinds").fingerprints]
    assert [next(kind for kind in ("delta", "parquet") if kind in path) for path in kinds] == [
        "parquet",
        "delta",
        "parquet",
    ]
    check()
    add_to_table()
    folders.add(0, 1)
    run_all(job(), parallelism=3)
    check()
    run_all(job(), restore="epoch:1/2")
    check()


def test_other_sources_than_before_are_refused(spark, tmp_path: Path) -> None:
    root, folders, name = tmp_path / "root", Folders(tmp_path, 3), "others"
    folders.add(1, 1, 1)
    three = folders.inputs[:]
    folders.inputs = three[:2]
    run_all(union_job(spark, folders, root, name))
    before = newest(root, name)
    for change in {"added": three, "removed": three[:1], "exchanged": three[1::-1]}.values():
        folders.inputs = change
        with pytest.raises(SourcesChangedError) as caught:
            union_job(spark, folders, root, name).start(available_now=True)
        assert caught.value.action
        assert newest(root, name) == before


# What is refused --------------------------------------------------------------------------------------------------


@pytest.fixture
def frames(spark, tmp_path: Path) -> list[Any]:
    folders = Folders(tmp_path, 2)
    folders.add(1, 1)
    return [source.stream(spark) for source in folders.inputs]


@pytest.fixture
def job(tmp_path: Path) -> StreamJob:
    return StreamJob("refused", root=str(tmp_path / "root"), parallelism=2)


def test_a_union_of_other_columns(frames, job: StreamJob) -> None:
    one, two = map(job.from_stream, frames)
    with pytest.raises(JobDefinitionError, match=r"k:string.*sub:string.*select") as caught:
        one.union(two.select("n", "sub"))
    assert "connect()" in caught.value.action
    with pytest.raises(JobDefinitionError, match="n:int"):
        one.select("n").union(two.select("cast(n as int) as n"))


def test_a_union_with_what_is_no_stream_of_the_job(frames, job: StreamJob, tmp_path: Path) -> None:
    one, two = job.from_stream(frames[0]), StreamJob("other", root=str(tmp_path)).from_stream(frames[1])
    with pytest.raises(JobDefinitionError, match="'refused' and 'other'"):
        one.union(two)
    for wrong in (two.key_by("k"), frames[1], None):
        with pytest.raises(JobDefinitionError, match=type(wrong).__name__):
            one.union(wrong)


def test_a_union_of_a_source_with_itself(frames, job: StreamJob) -> None:
    one, two = map(job.from_stream, frames)
    for build in (
        lambda: one.union(one),
        lambda: one.union(two, one.where("v > 3")),
        lambda: two.union(one.union(two)),
    ):
        with pytest.raises(UnsupportedTopologyError, match="with itself") as caught:
            build()
        assert "an operator after it" in caught.value.action


def test_one_dataframe_twice(frames, job: StreamJob, tmp_path: Path) -> None:
    both = job.from_stream(frames[0]).union(job.from_stream(frames[0].where("v > 3")))
    both.key_by("k").process(Count(), COUNTS, uid="count")
    with pytest.raises(UnsupportedUpstreamError, match="with itself") as caught:
        job.start(available_now=True)
    assert "readStream of its own" in caught.value.action
    assert not (tmp_path / "root" / "refused" / "_epochs").exists()
    with pytest.raises(UnsupportedUpstreamError, match="with itself"):
        job.from_stream(frames[1].union(frames[1]))


def test_two_operators_on_one_of_several_streams(frames, job: StreamJob) -> None:
    one, two = map(job.from_stream, frames)
    one.union(two).key_by("k").process(Count(), COUNTS, uid="count")
    with pytest.raises(UnsupportedTopologyError, match="Two operators read the source 'source_2'"):
        two.where("n > 3").key_by("k").process(Count(), COUNTS, uid="other")


def test_steps_that_a_union_cannot_have(frames, job: StreamJob) -> None:
    one, two = map(job.from_stream, frames)
    counts = one.key_by("k").process(Count(), COUNTS, uid="count")
    both = counts.union(two.select("n", "k", "v as times"))
    with pytest.raises(UnsupportedTopologyError, match="generator"):
        both.select("explode(array(n, times)) as n")
    with pytest.raises(UnsupportedTopologyError, match="between two operators"):
        both.map(lambda row: row, COUNTS)  # a part of it comes straight from a source
    with pytest.raises(UnsupportedTopologyError, match="sink belongs"):
        both.sink_to(MemorySink("x"))
    with pytest.raises(JobDefinitionError, match="get_side_output"):
        both.get_side_output("x")  # type: ignore[arg-type]


def test_a_source_that_feeds_nothing(frames, job: StreamJob) -> None:
    job.from_stream(frames[0], name="used").key_by("k").process(Count(), COUNTS, uid="count")
    job.from_stream(frames[1], name="unused")
    with pytest.raises(JobDefinitionError, match="'unused' of job 'refused' feeds no operator"):
        job.start(available_now=True)


def test_one_of_two_sources_that_cannot_replay(spark, frames, job: StreamJob) -> None:
    forgetful = spark.readStream.format("rate").load().selectExpr("value as n", "'k' as k")
    one = job.from_stream(frames[0]).select("n", "k")
    both = one.union(job.from_stream(forgetful, name="ticks", replays=False))
    both.key_by("k").process(Count(), COUNTS, uid="count")
    with pytest.raises(JobDefinitionError, match="only 'ticks' cannot replay"):
        job.start(available_now=True)
