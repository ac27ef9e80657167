"""Epochs of a job have one plan, built once, whatever it is made of; what has another one is built anew."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
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
from state_engine.spark.plan import EpochPlanner
from state_engine.spark.plan_template import PlanTemplate

pytestmark = pytest.mark.spark
EPOCHS = 6


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The epochs whose plans were built step by step."""
    found: list[int] = []
    whole = EpochPlanner._built

    def counted(self: EpochPlanner, batch: Any, plan: Any) -> Any:
        found.append(plan.epoch)
        return whole(self, batch, plan)

    monkeypatch.setattr(EpochPlanner, "_built", counted)
    return found


def two_operators(job: StreamJob, stream: Any, name: str) -> list[MemorySink]:
    """A chain that cannot be one task, with steps between."""
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


def test_a_batch_with_other_columns_has_a_plan_of_its_own(spark, tmp_path: Path, built, monkeypatch) -> None:
    source = Input(tmp_path / "in").add_many(EPOCHS, rows=40)
    job = StreamJob("no-template", root=str(tmp_path / "root"), parallelism=2)
    sinks = two_operators(job, source.stream(spark), "no-template")
    monkeypatch.setattr(PlanTemplate, "filled", lambda self, batch: None)
    client = run_all(job)
    assert len(built) == len(client.epochs) == EPOCHS
    expected = truth(source.all)
    assert [by_n(sink.rows()) for sink in sinks] == [expected.tally, expected.totals]


def test_an_aggregation_in_two_phases_is_built_for_each_epoch(spark, tmp_path: Path, built: list[int]) -> None:
    source = Input(tmp_path / "in").add_many(EPOCHS, rows=40)
    sink = MemorySink("phases-template")
    job = StreamJob("phases", root=str(tmp_path / "root"), parallelism=2, agg_phase_strategy="TWO_PHASE")
    counted = job.from_stream(source.stream(spark)).key_by("k").aggregate({"n": Aggregate.count()}, uid="count")
    counted.sink_to(sink, uid="out")
    client = run_all(job)
    assert len(built) == len(client.epochs) == EPOCHS
    counts: dict[Any, int] = {}
    for row in sink.rows():
        counts[row["k"]] = max(counts.get(row["k"], 0), row["n"])
    keys = [record.k for record in source.all]
    assert counts == {key: keys.count(key) for key in keys}


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
    """Returns what `Count` makes of an input."""
    seen: Counter[Any] = Counter()
    counted = []
    for record in source.all:
        seen[record.k] += 1
        counted.append((record.n, record.k, seen[record.k]))
    return counted
