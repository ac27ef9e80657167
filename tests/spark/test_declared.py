"""Declared operators in jobs: restarts with other parallelisms and backends, event times for downstream operators."""

import math
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import Input, Record, run_all, state_of

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
    """Returns the expected aggregates of each key."""
    of_key = defaultdict(list)
    for row in sorted(rows):
        of_key[row.k].append(row)
    return {
        k: (
            len(records),
            sum(r.v for r in records),
            min(r.v for r in records),
            sum(r.v for r in records) / len(records),
            records[-1].n,
        )
        for k, records in of_key.items()
    }


class Ran(NamedTuple):
    """Input and output of three runs of one job; `after` has the sums after each run."""

    records: list[Record]
    root: Path
    sums: list[dict[str, Any]]
    once: list[dict[str, Any]]
    after: list[tuple[list[Record], list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Runs aggregates and a deduplication in one job, with another backend and parallelism each time."""
    folder, after = tmp_path_factory.mktemp("declared"), []
    source, root = Input(folder / "in"), folder / "root"
    for backend, parallelism, files in (("heap", 2, 2), ("rocksdb", 3, 1), ("heap", 1, 1)):
        source.add_many(files)
        job = StreamJob("declared", root=str(root), parallelism=parallelism, state_backend=backend)
        keyed = job.from_stream(source.stream(spark)).key_by("k", order_by=["n"])
        keyed.aggregate(AGGREGATES, uid="sums").sink_to(MemorySink("sums"), uid="sums-out")
        keyed = job.from_stream(source.stream(spark)).key_by("k", "sub", order_by=["n"])
        keyed.deduplicate(uid="once").sink_to(MemorySink("once"), uid="once-out")
        run_all(job, parallelism=parallelism)
        after.append((list(source.all), MemorySink("sums").rows()))
    return Ran(source.all, root, MemorySink("sums").rows(), MemorySink("once").rows(), after)


def test_aggregates_go_on_at_other_parallelisms(ran: Ran) -> None:
    for records, rows in ran.after:
        newest = {row["k"]: tuple(row.values())[1:] for row in sorted(rows, key=lambda row: row["newest"])}
        assert newest == expected(records)
    per_epoch = [{row.k for row in ran.records[start : start + 60]} for start in range(0, len(ran.records), 60)]
    assert len(ran.sums) == sum(map(len, per_epoch)), "one row per key and epoch"
    totals = {k: one[1] for k, one in expected(ran.records).items()}
    assert state_of(ran.root, "declared", "sums", "sum_v") == totals
    means = state_of(ran.root, "declared", "sums", "avg_v.sum")
    assert math.fsum(means.values()) == sum(row.v for row in ran.records)


def test_duplicates_in_other_epochs_and_runs(ran: Ran) -> None:
    first: dict[Any, Any] = {}
    for row in sorted(ran.records):
        first.setdefault((row.k, row.sub), tuple(row))
    assert sorted(tuple(row.values()) for row in ran.once) == sorted(first.values())


class TellsTime(KeyedProcessFunction):
    """Emits the event time of each record."""

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        return [(ctx.get_current_key(), ctx.timestamp())]


def test_rows_have_event_times(spark: Any, tmp_path: Path) -> None:
    """An aggregate has the latest event time of its key's records in the epoch; a first record has its own."""
    source, told = Input(tmp_path / "in").add_many(2), "k string, at bigint"
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
