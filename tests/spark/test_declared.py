"""Declared operators in jobs: restarts at other parallelisms, other backends, event times for what stands behind."""

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from support import Input, run_all, state_of

from state_engine.api import Aggregate, Duration, KeyedProcessFunction, WatermarkStrategy
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
AGGREGATES = {
    "records": Aggregate.count(),
    "total": Aggregate.sum("v"),
    "least": Aggregate.min("v"),
    "mean": Aggregate.avg("v"),
    "newest": Aggregate.last("n"),
}


def expected(rows: Any) -> dict[Any, tuple[Any, ...]]:
    """What a key's records come to."""
    of_key = defaultdict(list)
    for row in sorted(rows):
        of_key[row.k].append(row)
    return {
        k: (len(own), sum(r.v for r in own), min(r.v for r in own), sum(r.v for r in own) / len(own), own[-1].n)
        for k, own in of_key.items()
    }


def test_aggregates_go_on_at_other_parallelisms(spark: Any, tmp_path: Path) -> None:
    source, root, rows = Input(tmp_path / "in"), tmp_path / "root", []
    for backend, parallelism in (("heap", 2), ("rocksdb", 3), ("heap", 1)):
        source.add_many(2)
        job = StreamJob("sums", root=str(root), parallelism=parallelism, state_backend=backend)
        keyed = job.from_stream(source.stream(spark)).key_by("k", order_by=["n"])
        keyed.aggregate(AGGREGATES, uid="sums").sink_to(MemorySink("sums"), uid="out")
        run_all(job, parallelism=parallelism)
        rows = MemorySink("sums").rows()
        newest = {row["k"]: tuple(row.values())[1:] for row in sorted(rows, key=lambda row: row["newest"])}
        assert newest == expected(source.all)
    per_epoch = [{row.k for row in source.all[start : start + 60]} for start in range(0, len(source.all), 60)]
    assert len(rows) == sum(map(len, per_epoch)), "one row per key and epoch"
    assert state_of(root, "sums", "sums", "sum_v") == {k: one[1] for k, one in expected(source.all).items()}
    assert math.fsum(state_of(root, "sums", "sums", "avg_v.sum").values()) == sum(row.v for row in source.all)


def test_duplicates_in_other_epochs_and_runs(spark: Any, tmp_path: Path) -> None:
    source = Input(tmp_path / "in")
    for parallelism in (2, 1, 3):
        source.add_many(2)
        job = StreamJob("once", root=str(tmp_path / "root"), parallelism=parallelism)
        keyed = job.from_stream(source.stream(spark)).key_by("k", "sub", order_by=["n"])
        keyed.deduplicate(uid="once").sink_to(MemorySink("once"), uid="out")
        run_all(job, parallelism=parallelism)
    first: dict[Any, Any] = {}
    for row in sorted(source.all):
        first.setdefault((row.k, row.sub), tuple(row))
    assert sorted(tuple(row.values()) for row in MemorySink("once").rows()) == sorted(first.values())


class TellsTime(KeyedProcessFunction):
    """Gives the event time of each record."""

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        return [(ctx.get_current_key(), ctx.timestamp())]


def test_rows_have_event_times(spark: Any, tmp_path: Path) -> None:
    """Of an aggregate: the latest of its key's records in the epoch; of a first record: its own."""
    source, told = Input(tmp_path / "in").add_many(3), "k string, at bigint"
    job = StreamJob("timed", root=str(tmp_path / "root"), parallelism=2)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(60)).with_timestamp_column("n")
    stream = job.from_stream(source.stream(spark)).assign_timestamps_and_watermarks(strategy)
    once = stream.where("k is not null").key_by("k", "sub", order_by=["n"]).deduplicate(uid="once")
    once.key_by("k").process(TellsTime(), told, uid="of-once").sink_to(MemorySink("of-once"), uid="once-out")
    sums = once.key_by("k").aggregate({"records": Aggregate.count()}, uid="sums")
    sums.key_by("k").process(TellsTime(), told, uid="of-sums").sink_to(MemorySink("of-sums"), uid="sums-out")
    run_all(job)
    first: dict[Any, Any] = {}
    for row in sorted(source.all):
        if row.k is not None:
            first.setdefault((row.k, row.sub), row)
    assert sorted(tuple(row.values()) for row in MemorySink("of-once").rows()) == sorted(
        (row.k, row.n) for row in first.values()
    )
    latest: dict[Any, int] = {}
    for row in first.values():
        epoch = row.n // 60
        latest[epoch, row.k] = max(row.n, latest.get((epoch, row.k), 0))
    assert sorted(tuple(row.values()) for row in MemorySink("of-sums").rows()) == sorted(
        (k, at) for (_, k), at in latest.items()
    )
