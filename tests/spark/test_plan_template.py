"""The epochs of any job share one plan, which is built once; an epoch that needs another plan builds its own."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from support import (
    COUNTS,
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
)

from state_engine.api import Aggregate
from state_engine.spark import MemorySink, StreamJob
from state_engine.spark.graph.plans import RowsAtHand
from state_engine.spark.plan.kept_plan import KeptPlan
from state_engine.spark.plan.local_aggregation import LocalPhase
from state_engine.spark.plan.planner import EpochPlanner
from state_engine.spark.plan.template import PlanTemplate

pytestmark = pytest.mark.spark
EPOCHS = 3


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the epochs for which a plan was built step by step."""
    epochs: list[int] = []
    whole = EpochPlanner._built

    def counted(self: EpochPlanner, batch: Any, plan: Any, partials: Any) -> Any:
        epochs.append(plan.epoch)
        return whole(self, batch, plan, partials)

    monkeypatch.setattr(EpochPlanner, "_built", counted)
    return epochs


def two_operators(job: StreamJob, stream: Any, name: str) -> list[MemorySink]:
    """Builds two operators that cannot share a task, with steps between them."""
    sinks = [MemorySink(f"{name}-tally"), MemorySink(f"{name}-totals")]
    tally = job.from_stream(stream).key_by("k", order_by=["n"]).process(Tally(), TALLY, uid="a")
    tally.sink_to(sinks[0], uid="tally")
    between = tally.select("n", "sub", "times", "k as other").where("times > 0").select("n", "sub", "times")
    between.key_by("sub", order_by=["n"]).process(Totals(), TOTALS, uid="b").sink_to(sinks[1], uid="totals")
    return sinks


def test_the_second_epoch_has_the_plan_of_the_first(spark, tmp_path: Path, built: list[int]) -> None:
    source = Input(tmp_path / "in").add_many(EPOCHS, rows=40)
    job = StreamJob("template", root=str(tmp_path / "root"), parallelism=3, max_parallelism=100)
    sinks = two_operators(job, source.stream(spark), "template")
    client = run_all(job)
    assert len(client.epochs) == EPOCHS
    assert len(built) == 1
    expected = truth(source.all)
    assert [by_n(sink.rows()) for sink in sinks] == [expected.tally, expected.totals]


@pytest.mark.long  # test_kept_plan.py has rows that declare something else
def test_a_batch_with_other_columns_has_a_plan_of_its_own(spark, tmp_path: Path, built, monkeypatch) -> None:
    source = Input(tmp_path / "in").add_many(EPOCHS, rows=40)
    job = StreamJob("no-template", root=str(tmp_path / "root"), parallelism=2)
    sinks = two_operators(job, source.stream(spark), "no-template")
    monkeypatch.setattr(PlanTemplate, "filled", lambda self, batch: None)
    monkeypatch.setattr(KeptPlan, "over", lambda self, batch: None)
    client = run_all(job)
    assert len(built) == len(client.epochs) == EPOCHS
    expected = truth(source.all)
    assert [by_n(sink.rows()) for sink in sinks] == [expected.tally, expected.totals]


@pytest.mark.long  # test_kept_plan.py has the plans of two phases
@pytest.mark.parametrize("operators", [1, 2])
def test_an_aggregation_in_two_phases_has_two_plans(
    spark, tmp_path: Path, built: list[int], monkeypatch: pytest.MonkeyPatch, operators: int
) -> None:
    """Spark's own phase has one plan, and the rest another; with several such operators each epoch builds the rest."""
    phases, whole = [], LocalPhase.apply
    monkeypatch.setattr(LocalPhase, "apply", lambda self, records: phases.append(1) or whole(self, records))
    folders, name = Folders(tmp_path, operators), f"phases-{operators}"
    folders.add(*[EPOCHS] * operators, rows=40)
    job = StreamJob(name, root=str(tmp_path / "root"), parallelism=2, agg_phase_strategy="TWO_PHASE")
    sinks = [MemorySink(f"{name}-{n}") for n in range(operators)]
    for n, (source, sink) in enumerate(zip(folders.inputs, sinks, strict=True)):
        stream = job.from_stream(source.stream(spark))
        stream.key_by("k").aggregate({"n": Aggregate.count()}, uid=f"count-{n}").sink_to(sink, uid=f"out-{n}")
    client = run_all(job)
    assert len(client.epochs) == EPOCHS
    assert (len(phases), len(built)) == (operators, 1 if operators == 1 else EPOCHS)
    for source, sink in zip(folders.inputs, sinks, strict=True):
        keys = [record.k for record in source.all]
        counts: dict[Any, int] = {}
        for row in sink.rows():
            counts[row["k"]] = max(counts.get(row["k"], 0), row["n"])
        assert counts == {key: keys.count(key) for key in keys}


def rows_at_hand(spark: Any, count: int) -> DataFrame:
    """Returns numbers in the form of the rows of a Spark micro-batch."""
    made = spark.range(count)._jdf.queryExecution()
    session = spark._jsparkSession
    return DataFrame(session.internalCreateDataFrame(made.toRdd(), made.analyzed().schema(), False), spark)


def test_a_template_does_not_grow(spark, tmp_path: Path) -> None:
    """DataFrames write their numbers into a plan, and copies of a plan share these entries."""
    batch = rows_at_hand(spark, 3)
    template = PlanTemplate.of(batch.selectExpr("id + 1 as n").where("n > 1"), batch)
    assert template is not None
    leaf, rows = batch._jdf.queryExecution().analyzed(), RowsAtHand(spark.sparkContext._jvm)
    for count in range(4, 20):
        rdd = rows_at_hand(spark, count)._jdf.queryExecution().analyzed().rdd()
        session = batch._jdf.sparkSession()
        made = rows.described(leaf, leaf.output(), rdd, rows.unknown, session)
        other = DataFrame(spark.sparkContext._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, made), spark)
        assert [row.n for row in template.filled(other).collect()] == list(range(2, count + 1))
    tag = spark.sparkContext._jvm.org.apache.spark.sql.catalyst.trees.TreeNodeTag("dataset_id")
    assert template._root.node.getTagValue(tag).isEmpty()


def test_a_plan_with_a_subquery_is_none(spark, tmp_path: Path) -> None:
    """The table that it reads may have changed when the next epoch begins."""
    batch = rows_at_hand(spark, 3)
    spark.range(2).write.parquet(str(tmp_path / "known"))
    among = f"id in (select id from parquet.`{tmp_path / 'known'}`)"
    assert PlanTemplate.of(batch.where("id > 1"), batch) is not None
    assert PlanTemplate.of(batch.where(among), batch) is None
    assert PlanTemplate.of(batch.selectExpr(f"{among} as there"), batch) is None


def test_rows_that_several_operators_read_are_those_of_each_epoch(spark, tmp_path: Path, built: list[int]) -> None:
    folders = Folders(tmp_path, 2)
    folders.add(EPOCHS, EPOCHS, rows=30)
    job = StreamJob("shared-rows", root=str(tmp_path / "root"), parallelism=2)
    first, second = (job.from_stream(source.stream(spark)) for source in folders.inputs)
    sinks = {name: MemorySink(f"shared-rows-{name}") for name in ("one", "other", "apart")}
    tally = first.key_by("k", order_by=["n"]).process(Tally(), TALLY, uid="tally")
    for name in ("one", "other"):
        tally.key_by("sub", order_by=["n"]).process(Totals(), TOTALS, uid=name).sink_to(sinks[name], uid=f"{name}-out")
    second.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="apart").sink_to(sinks["apart"], uid="apart-out")
    client = run_all(job)
    assert len(built) == len(client.epochs) == EPOCHS
    totals = truth(folders.inputs[0].all).totals
    assert [by_n(sinks[name].rows()) for name in ("one", "other")] == [totals, totals]
    assert by_n(sinks["apart"].rows()) == counts_of(folders.inputs[1])


@pytest.mark.long  # test_kept_plan.py has two operators that read the sources
def test_two_operators_that_read_the_sources_have_one_plan(spark, tmp_path: Path, built: list[int]) -> None:
    folders = Folders(tmp_path, 2)
    folders.add(EPOCHS, EPOCHS - 2, rows=30)
    job = StreamJob("two-readers", root=str(tmp_path / "root"), parallelism=2)
    sinks = [MemorySink(f"two-readers-{n}") for n in range(2)]
    for n, source in enumerate(folders.inputs):
        stream = job.from_stream(source.stream(spark).coalesce(1) if n else source.stream(spark))
        stream.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid=f"count{n}").sink_to(sinks[n], uid=f"out{n}")
    client = run_all(job)
    assert len(client.epochs) == EPOCHS
    assert len(built) == 1
    assert [by_n(sink.rows()) for sink in sinks] == [counts_of(source) for source in folders.inputs]


def counts_of(source: Input) -> list[tuple[Any, ...]]:
    """Returns the expected output of `Count` for an input."""
    seen: Counter[Any] = Counter()
    counted = []
    for record in source.all:
        seen[record.k] += 1
        counted.append((record.n, record.k, seen[record.k]))
    return counted
