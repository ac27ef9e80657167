"""An epoch runs the physical plan of the one before over its own records, where the copy of a plan begins anew."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from support import COUNTS, Count, Folders, Input, run_all

from state_engine.api import Aggregate
from state_engine.spark import MemorySink, StreamJob
from state_engine.spark.graph.plans import RowsAtHand, below, kind_of
from state_engine.spark.plan.kept_plan import KeptPlan

pytestmark = pytest.mark.spark
EPOCHS = 4
BYTES = "cast(cast(id as string) as binary) as b"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each plan that was asked for, whether the kept one could be used."""
    answers: list[bool] = []
    whole = KeptPlan.over

    def noted(self: KeptPlan, batch: Any) -> Any:
        answers.append((plan := whole(self, batch)) is not None)
        return plan

    monkeypatch.setattr(KeptPlan, "over", noted)
    return answers


@pytest.fixture
def in_a_batch(spark) -> Iterator[None]:
    """Spark runs a query's batch as an execution."""
    spark.sparkContext.setLocalProperty("spark.sql.execution.id", "1")
    yield
    spark.sparkContext.setLocalProperty("spark.sql.execution.id", None)


def rows(spark: Any, count: int, partitions: int = 2) -> DataFrame:
    """Returns numbers in the form of the rows of a micro-batch."""
    made = spark.range(0, count, 1, partitions)._jdf.queryExecution()
    frame = spark._jsparkSession.internalCreateDataFrame(made.toRdd(), made.analyzed().schema(), False)
    return DataFrame(frame, spark)


def like(batch: DataFrame, other: DataFrame, *, single: bool = False) -> DataFrame:
    """Returns the rows of another DataFrame with the columns of a batch, as the next micro-batch has them."""
    spark = batch.sparkSession
    made, leaf = RowsAtHand(spark.sparkContext._jvm), batch._jdf.queryExecution().analyzed()
    session = batch._jdf.sparkSession()
    rdd = other._jdf.queryExecution().analyzed().rdd()
    node = made.described(leaf, leaf.output(), rdd, made.one_partition if single else made.unknown, session)
    return DataFrame(spark.sparkContext._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, node), spark)


def numbers(collected: list[Row] | None) -> list[int] | None:
    return None if collected is None else sorted(int(row.b) for row in collected)


@pytest.mark.parametrize("partitions", [1, 3])
def test_each_batch_has_its_own_rows_whatever_its_partitions(spark, in_a_batch, partitions: int) -> None:
    batch = like(rows(spark, 3), rows(spark, 3))
    frame = batch.where("id > 0").repartition(2, "id").selectExpr(BYTES)
    assert numbers(frame.collect()) == [1, 2]
    plan = KeptPlan.of(frame, batch)
    assert plan is not None
    for count in (5, 3, 0, 7):
        assert numbers(plan.collected(like(batch, rows(spark, count, partitions)))) == list(range(1, count))


def test_nothing_of_an_epoch_stays_in_the_plan(spark, in_a_batch) -> None:
    batch = rows(spark, 3)
    frame = batch.repartition(2, "id").selectExpr(BYTES)
    frame.collect()
    first = batch._jdf.queryExecution().analyzed().rdd().id()
    plan = KeptPlan.of(frame, batch)
    assert plan is not None
    leaves = [node for node in below(plan._plan) if kind_of(node) == "RDDScanExec"]
    assert [leaf.rdd().getNumPartitions() for leaf in leaves] == [0]
    assert first not in [leaf.rdd().id() for leaf in leaves]
    exchanges = [node for node in below(plan._plan) if kind_of(node) == "ShuffleExchangeExec"]
    ran = [node for node in below(frame._jdf.queryExecution().executedPlan()) if kind_of(node) == "ShuffleExchangeExec"]
    assert [one.equals(other) for one, other in zip(exchanges, ran, strict=True)] == [False]


def test_rows_that_declare_something_else_have_a_plan_of_their_own(spark, in_a_batch) -> None:
    batch = like(rows(spark, 3), rows(spark, 3))
    plan = KeptPlan.of(batch.selectExpr(BYTES), batch)
    assert plan is not None
    assert numbers(plan.collected(like(batch, rows(spark, 2)))) == [0, 1]
    assert plan.collected(like(batch, rows(spark, 2, 1), single=True)) is None, "one partition was not promised"
    assert plan.collected(rows(spark, 2)) is None, "its columns have other ids"
    assert plan.collected(spark.range(2)) is None, "it is no micro-batch"
    for_any = KeptPlan.of(batch.selectExpr(BYTES), batch, made_for_any=True)
    assert for_any is not None
    assert numbers(for_any.collected(like(batch, rows(spark, 2, 1), single=True))) == [0, 1]


def shapes(spark: Any, batch: DataFrame) -> dict[str, DataFrame]:
    small = spark.range(2).withColumnRenamed("id", "other")
    # Spark reads whatever equals a cached table from it, so nothing else here may be like it.
    cached = spark.range(7).cache()
    parts = batch.repartition(2, "id")
    return {
        "a broadcast": batch.join(F.broadcast(small), F.col("id") == F.col("other")).selectExpr(BYTES),
        "an exchange that is read twice": parts.selectExpr(BYTES).union(parts.selectExpr(BYTES)),
        "a subquery": batch.where("id in (select max(id) from range(2))").selectExpr(BYTES),
        "a scalar subquery": batch.selectExpr(
            "cast(cast(id + (select max(id) from range(3)) as string) as binary) as b"
        ),
        "an exchange of no batch": batch.selectExpr(BYTES).union(spark.range(2).repartition(2, "id").selectExpr(BYTES)),
        "a cached table": batch.union(cached).selectExpr(BYTES),
        "other rows": batch.union(rows(spark, 1)).selectExpr(BYTES),
        "no micro-batch": spark.range(2).selectExpr(BYTES),
    }


@pytest.mark.parametrize(
    "what",
    [
        "a broadcast",
        "an exchange that is read twice",
        "a subquery",
        "a scalar subquery",
        "an exchange of no batch",
        "a cached table",
        "other rows",
        "no micro-batch",
    ],
)
def test_what_would_stay_that_of_the_first_epoch_is_not_kept(spark, in_a_batch, what: str) -> None:
    batch = rows(spark, 3)
    assert KeptPlan.of(shapes(spark, batch)[what], batch) is None


def test_an_exchange_that_is_read_twice_is_one_node(spark) -> None:
    """Otherwise the test above would show nothing."""
    frame = shapes(spark, rows(spark, 3))["an exchange that is read twice"]
    assert "ReusedExchangeExec" in [kind_of(node) for node in below(frame._jdf.queryExecution().executedPlan())]


def test_outside_a_batch_no_plan_is_kept(spark) -> None:
    """Another thread may have another active session, or none, and copies of nodes take it."""
    batch = rows(spark, 3)
    assert KeptPlan.of(batch.selectExpr(BYTES), batch) is None


def test_epochs_of_a_job_share_one_plan(spark, tmp_path: Path, kept: list[bool]) -> None:
    source = Input(tmp_path / "in").add_many(EPOCHS, rows=40)
    job = StreamJob("kept", root=str(tmp_path / "root"), parallelism=3, max_parallelism=100)
    job.from_stream(source.stream(spark)).key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="count").sink_to(
        MemorySink("kept"), uid="out"
    )
    client = run_all(job)
    assert len(client.epochs) == EPOCHS
    assert kept == [True] * (EPOCHS - 1)
    assert sorted(row["n"] for row in MemorySink("kept").rows()) == sorted(record.n for record in source.all)


def test_two_phases_have_two_plans(spark, tmp_path: Path, kept: list[bool]) -> None:
    source = Input(tmp_path / "in").add_many(EPOCHS, rows=40)
    job = StreamJob("kept-phases", root=str(tmp_path / "root"), parallelism=2, agg_phase_strategy="TWO_PHASE")
    stream = job.from_stream(source.stream(spark)).key_by("k")
    stream.aggregate({"n": Aggregate.count(), "most": Aggregate.max("n")}, uid="count").sink_to(
        MemorySink("kept-phases"), uid="out"
    )
    client = run_all(job)
    assert len(client.epochs) == EPOCHS
    assert kept == [True, True] * (EPOCHS - 1)
    last = {row["k"]: (row["n"], row["most"]) for row in sorted(MemorySink("kept-phases").rows(), key=lambda r: r["n"])}
    of_key: dict[Any, list[int]] = {}
    for record in source.all:
        of_key.setdefault(record.k, []).append(record.n)
    assert last == {key: (len(found), max(found)) for key, found in of_key.items()}


def test_operators_that_read_the_sources_get_their_own_records(spark, tmp_path: Path, kept: list[bool]) -> None:
    folders = Folders(tmp_path, 2)
    folders.add(EPOCHS, EPOCHS - 2, rows=30)
    job = StreamJob("kept-readers", root=str(tmp_path / "root"), parallelism=2)
    sinks = [MemorySink(f"kept-readers-{n}") for n in range(2)]
    for n, source in enumerate(folders.inputs):
        counts = job.from_stream(source.stream(spark)).key_by("k", order_by=["n"])
        counts.process(Count(), COUNTS, uid=f"count{n}").sink_to(sinks[n], uid=f"out{n}")
    client = run_all(job)
    assert len(client.epochs) == EPOCHS
    assert kept == [True] * (EPOCHS - 1)
    for source, sink in zip(folders.inputs, sinks, strict=True):
        assert sorted(row["n"] for row in sink.rows()) == sorted(record.n for record in source.all)
