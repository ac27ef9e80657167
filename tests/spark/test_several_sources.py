"""Jobs of several sources, and unions: what is refused, an idle epoch, and the positions of the others."""

from pathlib import Path
from typing import Any

import pytest
from shared_jobs import STARTS, Ran
from shared_jobs.sources import UnitedWithAnOperator
from support import COUNTS, Count, Folders, Input, newest, run_all

from state_engine.errors import (
    JobDefinitionError,
    SourcesChangedError,
    UnsupportedTopologyError,
    UnsupportedUpstreamError,
)
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


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


@pytest.mark.long
def test_an_idle_epoch_of_several_sources(spark, tmp_path: Path, started) -> None:
    root, part, start = tmp_path / "root", UnitedWithAnOperator(spark, tmp_path, Input(tmp_path / "in")), STARTS[0]
    part.add(start)

    def job() -> StreamJob:
        job = StreamJob("idle-levels", root=str(root), parallelism=2)
        part.build(job, start)
        return job

    client = run_all(job())
    read = len(part.folders.inputs[0].all) + len(MemorySink("level-totals").rows())  # by both operators
    assert sum(epoch.records for epoch in client.epochs) == read
    client = started(job().start(trigger_interval_ms=200))
    before = client.head.manifest
    manifest = client.run_idle_epoch().manifest
    assert manifest.kind == "idle"
    assert manifest.sources == tuple(type(p)(offset=p.offset) for p in before.sources)
    assert [len(operator.acks) for operator in manifest.operators.values()] == [2, 2]
    client.stop()
    part.check(Ran(root, "idle-levels", start))


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
