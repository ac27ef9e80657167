"""One epoch is one Spark job with one stage per step. Each operator runs once in it, for any number of outputs."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from branches import branch_job, expected
from support import (
    COUNTS,
    NEGATIVE,
    TALLY,
    TOTALS,
    Count,
    Folders,
    Input,
    Tally,
    Totals,
    by_n,
    run_all,
    truth,
    wait_for,
)

from state_engine.api import KeyedCoProcessFunction
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
PARALLELISM = 2
STEPS = 3  # read and route; the first operator; the second


def one_more(file: str) -> None:
    """Counts calls over all workers: each call adds one byte."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, b".")
    os.close(descriptor)


class Work(NamedTuple):
    """The work of one Spark job; a stage that processes no record would also count here."""

    stages: int
    skipped_stages: int
    tasks: list[int]
    failed_tasks: int


def work_of(spark: Any, run_id: str) -> list[Work]:
    """Returns the work of the ended jobs of a query, from Spark's status store."""
    store = spark.sparkContext._jsc.sc().statusStore()
    all_jobs = items(store.jobsList(None))
    ended = [job for job in all_jobs if job.jobGroup().isDefined() and job.completionTime().isDefined()]
    jobs = [job for job in ended if job.jobGroup().get() == run_id]  # those of other tests may have no group
    return [
        Work(
            stages=job.numCompletedStages(),
            skipped_stages=job.numSkippedStages(),
            tasks=[store.lastStageAttempt(stage).numCompleteTasks() for stage in items(job.stageIds())],
            failed_tasks=job.numFailedTasks(),
        )
        for job in jobs
    ]


def items(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


@pytest.mark.parametrize("epochs", [6, pytest.param(50, marks=pytest.mark.long)])
def test_each_epoch_is_one_job_and_each_operator_runs_once(spark, tmp_path: Path, epochs: int) -> None:
    tally_calls, totals_calls = str(tmp_path / "tally-calls"), str(tmp_path / "totals-calls")

    class CountedTally(Tally):
        def process_element(self, value: Any, ctx: Any) -> Any:
            one_more(tally_calls)
            return super().process_element(value, ctx)

    class CountedTotals(Totals):
        def process_element(self, value: Any, ctx: Any) -> Any:
            one_more(totals_calls)
            return super().process_element(value, ctx)

    source = Input(tmp_path / "in").add_many(epochs, rows=20)
    job = StreamJob("each", root=str(tmp_path / "root"), parallelism=PARALLELISM)
    tally = job.from_stream(source.stream(spark)).key_by("k", order_by=["n"]).process(CountedTally(), TALLY, uid="a")
    sinks = [MemorySink(f"each-{name}") for name in ("first", "second", "negative", "totals")]
    tally.sink_to(sinks[0], uid="first").sink_to(sinks[1], uid="second")
    tally.get_side_output(NEGATIVE).sink_to(sinks[2], uid="negative")
    tally.key_by("sub", order_by=["n"]).process(CountedTotals(), TOTALS, uid="b").sink_to(sinks[3], uid="totals")
    client = run_all(job)

    expected = truth(source.all)
    assert len(client.epochs) == epochs
    assert client.spark_jobs == epochs
    # The status store is updated a moment after the query.
    wait_for(lambda: len(work_of(spark, str(client.query.runId))) == epochs, "the end of all jobs in Spark's books")
    for work in work_of(spark, str(client.query.runId)):
        assert work == Work(stages=STEPS, skipped_stages=0, tasks=[PARALLELISM] * STEPS, failed_tasks=0)
    assert os.path.getsize(tally_calls) == len(source.all)
    assert os.path.getsize(totals_calls) == len(expected.tally)
    assert [by_n(sink.rows()) for sink in sinks] == [expected.tally, expected.tally, expected.negative, expected.totals]


def test_a_batch_of_many_files_is_one_job_too(spark, tmp_path: Path) -> None:
    """Spark would look at more than 32 files in a job of its own."""
    source = Input(tmp_path / "in").add_many(33, rows=1)
    job = StreamJob("many-files", root=str(tmp_path / "root"), parallelism=PARALLELISM)
    counts = job.from_stream(source.stream(spark, per_epoch=100)).key_by("k").process(Count(), COUNTS, uid="count")
    counts.sink_to(MemorySink("many-files"), uid="out")
    client = run_all(job)
    assert [epoch.records for epoch in client.epochs] == [33]
    wait_for(lambda: len(work_of(spark, str(client.query.runId))) >= 1, "the end of all jobs in Spark's books")
    assert client.spark_jobs == len(work_of(spark, str(client.query.runId))) == 1


def test_connected_streams_are_one_job_too_and_each_operator_takes_a_record_once(spark, tmp_path: Path) -> None:
    calls = {name: str(tmp_path / name) for name in ("one", "two", "of-first", "of-source")}

    class Counted(Count):
        def __init__(self, name: str) -> None:
            self.file = calls[name]

        def process_element(self, value: Any, ctx: Any) -> Any:
            one_more(self.file)
            return super().process_element(value, ctx)

    class Both(KeyedCoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> Any:
            one_more(calls["of-first"])
            return [(value.n, value.k, 1)]

        def process_element2(self, value: Any, ctx: Any) -> Any:
            one_more(calls["of-source"])
            return [(value.n, value.k, 2)]

    folders = Folders(tmp_path, 4)
    folders.add(2, 2, 2, 2)
    job = StreamJob("connected-jobs", root=str(tmp_path / "root"), parallelism=PARALLELISM)
    streams = [job.from_stream(source.stream(spark)) for source in folders.inputs]
    one = streams[0].union(streams[1]).key_by("k").process(Counted("one"), COUNTS, uid="one")
    two = streams[2].key_by("k").process(Counted("two"), COUNTS, uid="two")
    last = streams[3].select("n", "k", "v as times")
    both = one.union(two).connect(last).key_by("k", "k").process(Both(), COUNTS, uid="both")
    both.sink_to(MemorySink("connected-jobs"), uid="out")
    client = run_all(job)

    assert len(client.epochs) == client.spark_jobs == 2
    wait_for(lambda: len(work_of(spark, str(client.query.runId))) == 2, "the end of all jobs in Spark's books")
    for work in work_of(spark, str(client.query.runId)):
        # Two first operators read and route beside each other.
        assert (work.stages, work.skipped_stages, work.failed_tasks) == (4, 0, 0)
    sizes = [len(source.all) for source in folders.inputs]
    expected = [sizes[0] + sizes[1], sizes[2], sum(sizes[:3]), sizes[3]]
    assert [os.path.getsize(file) for file in calls.values()] == expected
    assert sorted(row["n"] for row in MemorySink("connected-jobs").rows()) == [row.n for row in folders.all]


@pytest.mark.long  # test_plan_template.py and `epoch/test_operators_that_several_read.py` have several readers
def test_an_operator_that_three_others_read_runs_once(spark, tmp_path: Path) -> None:
    calls = str(tmp_path / "calls")

    class Counted(Tally):
        def process_element(self, value: Any, ctx: Any) -> Any:
            one_more(calls)
            return super().process_element(value, ctx)

    source = Input(tmp_path / "in").add_many(2, rows=20)
    client = run_all(branch_job(source.stream(spark), tmp_path / "root", "three-readers", first=Counted()))

    assert len(client.epochs) == client.spark_jobs == 2
    wait_for(lambda: len(work_of(spark, str(client.query.runId))) == 2, "the end of all jobs in Spark's books")
    for work in work_of(spark, str(client.query.runId)):
        # Read and route; the first operator; its outputs, on the way to three others; two that meet; the two ends.
        assert (work.stages, work.skipped_stages, work.failed_tasks) == (7, 0, 0)
        assert sorted(work.tasks) == [PARALLELISM] * 5 + [2 * PARALLELISM] * 2
    assert os.path.getsize(calls) == len(source.all)
    assert by_n(MemorySink("three-readers-met").rows()) == expected(source.all).met
