"""Aggregations in two phases give the same results as in one: rows, states, counts of records, failures."""

import os
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import run_all

from state_engine.api import Aggregate, Duration, OutputTag, Time, WatermarkStrategy
from state_engine.api.windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from state_engine.epoch.ports import OperatorPlan
from state_engine.errors import EventTimeError, JobDefinitionError, UserFunctionError
from state_engine.inspect import open_job, read_state
from state_engine.log.records import Ack, Section, StateHandle
from state_engine.spark import DiscardingSink, MemorySink, StreamJob
from state_engine.spark.plan.local_aggregation import InPlace, Phases, local_aggregation
from state_engine.spark.plan.packing import planned
from state_engine.spark.plan.prepared import Prepared

pytestmark = pytest.mark.spark
COLUMNS = "k string, i int, `big one` bigint, d decimal(12,2), s string, f double, at bigint"
SCHEMA = pa.schema(
    [
        ("k", pa.string()), ("i", pa.int32()), ("big one", pa.int64()), ("d", pa.decimal128(12, 2)),
        ("s", pa.string()), ("f", pa.float64()), ("at", pa.int64()),
    ]
)  # fmt: skip
AGGREGATES = {
    "n": Aggregate.count(),
    "there": Aggregate.count("i"),
    "total": Aggregate.sum("i"),
    "exact": Aggregate.sum("big one"),
    "paid": Aggregate.sum("d"),
    "mean": Aggregate.avg("big one"),
    "mean_paid": Aggregate.avg("d"),
    "least": Aggregate.min("i"),
    "largest": Aggregate.max("d"),
    "newest": Aggregate.max("at"),
}
SLIDING = SlidingEventTimeWindows.of(Time.milliseconds(60), Time.milliseconds(20), Time.milliseconds(7))
TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(30), Time.milliseconds(-4))
BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(15)).with_timestamp_column("at")


class Epochs:
    """A folder of two files per epoch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = 0
        folder.mkdir()

    def add(self, *rows: dict[str, Any]) -> "Epochs":
        for part in range(2):
            path = self.folder / f"epoch-{self.written:03d}-{part}.parquet"
            hidden = path.with_name(f".{path.name}")
            pq.write_table(pa.Table.from_pylist(list(rows[part::2]), SCHEMA), hidden)
            os.utime(hidden, (1_600_000_000 + 10 * self.written,) * 2)
            hidden.rename(path)
        self.written += 1
        return self

    def add_random(self, count: int, keys: int = 7) -> "Epochs":
        rng, first = random.Random(self.written), self.written * 60
        far = 2**54
        return self.add(*(
            {
                "k": rng.choice([None, "", *(f"k{n}" for n in range(keys))]),
                "i": rng.choice([None, -(2**31), 2**31 - 1, rng.randrange(100)]),
                "big one": rng.choice([None, far, -far, -far, far, -1, rng.randrange(-(2**40), 2**40)]),
                "d": rng.choice([None, Decimal("9999999999.99"), Decimal(rng.randrange(-999, 999)) / 100]),
                "s": rng.choice([None, "", "ä", "z", f"s{rng.randrange(9)}"]),
                "at": first + rng.randrange(-40, 60),
            }
            for _ in range(count)
        ))  # fmt: skip

    def stream(self, spark: Any) -> Any:
        return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 2).parquet(str(self.folder))


def shown(sink: str) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in MemorySink(sink).rows())


def per_key(stream: Any, uid: str = "op") -> Any:
    return stream.key_by("k").aggregate(AGGREGATES, uid=uid)


def per_window(assigner: Any) -> Callable[..., Any]:
    def build(stream: Any, uid: str = "op") -> Any:
        return stream.assign_timestamps_and_watermarks(BOUNDED).key_by("k").window(assigner).aggregate(
            {name: one for name, one in AGGREGATES.items() if name != "exact"}, uid=uid
        )  # fmt: skip

    return build


BUILDS: dict[str, Callable[..., Any]] = {
    "key": per_key,
    "sliding": per_window(SLIDING),
    "tumbling": per_window(TUMBLING),
}


STARTS = [
    ({"rows": (80, 90)}, ("ONE_PHASE", "TWO_PHASE"), 2, "heap"),
    ({"rows": (70, 60), "restore": "epoch:1/2"}, ("TWO_PHASE", "ONE_PHASE"), 3, "rocksdb"),
    ({"rows": (100, 1)}, ("ONE_PHASE", "TWO_PHASE"), 1, "rocksdb"),
]
"""For each start: the input of the two jobs, their phases, and the parallelism and backend of both."""


@pytest.mark.long
def test_two_phases_give_what_one_gives(spark: Any, tmp_path: Path) -> None:
    """Two jobs differ by their phases, have an aggregation per key and one of windows, and change their phases."""
    source, root = Epochs(tmp_path / "in"), str(tmp_path / "root")
    for number, (reads, phases, parallelism, backend) in enumerate(STARTS, 1):
        options: dict[str, Any] = dict(reads)
        for count in options.pop("rows"):
            source.add_random(count)
        for name, strategy in zip(("one", "two"), phases, strict=True):
            job = StreamJob(name, root=root, agg_phase_strategy=strategy, state_backend=backend)
            for uid in BUILDS:
                stream = job.from_stream(source.stream(spark), bounded=number == len(STARTS))
                BUILDS[uid](stream, uid).sink_to(MemorySink(f"{name}-{uid}"), uid=f"{uid}-out")
            run_all(job, parallelism=parallelism, **options)
        if number < len(STARTS):
            assert_same_state(root)
    for uid in BUILDS:
        assert shown(f"one-{uid}") == shown(f"two-{uid}"), uid
        assert len(shown(f"one-{uid}")) > 30


def assert_same_state(root: str) -> None:
    """Compares the state values of both jobs.

    After the last epoch of either job an idle epoch may have come, in which windows fired.
    """
    manifest = open_job(root, "one").newest().manifest
    for uid, state in ((schema.uid, schema.name) for schema in manifest.schemas if schema.shape == "value"):
        one, two = (
            {(row["k"], row["namespace"]): row["value"] for row in read_state(root, job, uid, state).to_pylist()}
            for job in ("one", "two")
        )
        common = one.keys() & two.keys()
        assert {at: one[at] for at in common} == {at: two[at] for at in common}, (uid, state)
        assert common or uid != "key"


def job_of(source: Epochs, root: Path, spark: Any, build: Callable[[Any], Any], **options: Any) -> StreamJob:
    options.setdefault("agg_phase_strategy", "TWO_PHASE")
    job = StreamJob("job", root=str(root), parallelism=2, **options)
    build(job.from_stream(source.stream(spark))).sink_to(DiscardingSink(), uid="out")
    return job


def test_records_are_counted_and_not_partials(spark: Any, tmp_path: Path) -> None:
    source = Epochs(tmp_path / "in").add_random(75, keys=2)
    run_all(job_of(source, tmp_path / "root", spark, per_key))
    acks = open_job(str(tmp_path / "root"), "job").newest().manifest.operators["op"].acks
    assert sum(ack.records_in for ack in acks) == 75
    assert sum(ack.records_out for ack in acks) <= 4


def test_a_sum_without_room_stops_the_job_and_one_that_comes_back_does_not(spark: Any, tmp_path: Path) -> None:
    source, root, most = Epochs(tmp_path / "in"), tmp_path / "root", 2**63 - 1

    def build(stream: Any) -> Any:
        return stream.key_by("k").aggregate({"total": Aggregate.sum("big one")}, uid="op")

    source.add({"k": "a", "big one": most}).add(*({"k": "a", "big one": one} for one in (most, most, -most, -most)))
    run_all(job_of(source, root, spark, build))
    source.add({"k": "a", "big one": -most}, {"k": "a", "big one": -most})  # 2^64 less, in addition to the existing sum
    run_all(job_of(source, root, spark, build))
    assert [row["value"] for row in read_state(str(root), "job", "op", "sum_big_one").to_pylist()] == [-most]
    source.add({"k": "a", "big one": -2})
    with pytest.raises(UserFunctionError, match="'total', the sum of 'big one': a sum outgrew bigint"):
        run_all(job_of(source, root, spark, build))
    assert [row["value"] for row in read_state(str(root), "job", "op", "sum_big_one").to_pylist()] == [-most]


@pytest.mark.parametrize(
    "build",
    [
        per_window(TUMBLING),
        pytest.param(lambda s: per_key(s.assign_timestamps_and_watermarks(BOUNDED)), marks=pytest.mark.long),
    ],
)
def test_a_record_without_event_time_is_not_lost_in_its_group(spark: Any, tmp_path: Path, build: Any) -> None:
    source = Epochs(tmp_path / "in").add({"k": "a", "at": 1}).add({"k": "a", "at": 2}, {"k": "a"}, {"k": "a", "at": 3})
    with pytest.raises(EventTimeError, match="no event time"):
        run_all(job_of(source, tmp_path / "root", spark, build))
    [row] = read_state(str(tmp_path / "root"), "job", "op", "count").to_pylist()
    assert row["value"] == 1


def test_an_event_time_that_no_window_can_have_is_named(spark: Any, tmp_path: Path) -> None:
    source = Epochs(tmp_path / "in").add({"k": "a", "at": -(2**63) + 1})
    with pytest.raises(UserFunctionError, match="its windows have bounds outside the range"):
        run_all(job_of(source, tmp_path / "root", spark, per_window(TUMBLING)))


def test_the_epoch_before_decides(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[int] = []

    class Counted(InPlace):
        def apply(self, batch: Any) -> Any:
            partials = super().apply(batch)
            applied.extend([] if partials is None else [1])
            return partials

    monkeypatch.setattr("state_engine.spark.plan.local_aggregation.ENOUGH_RECORDS", 50)
    monkeypatch.setattr("state_engine.spark.plan.prepared.InPlace", Counted)
    source = Epochs(tmp_path / "in")
    for count, keys in ((60, 2), (60, 2), (10, 2), (60, 2), (60, 50), (60, 2)):
        source.add_random(count, keys)

    def build(stream: Any) -> Any:
        return stream.key_by("k").aggregate({"n": Aggregate.count()}, uid="op")

    job = job_of(source, tmp_path / "root", spark, build, agg_phase_strategy="AUTO")
    client = job.start(available_now=True)
    client.await_termination()
    assert len(applied) == 3, "after the epochs of 60 records with 2 keys that are not the last"
    assert [s.records for s in client.epochs if s.records] == [60, 60, 10, 60, 60, 60]


def test_what_wants_records_has_one_phase(spark: Any, tmp_path: Path) -> None:
    job = StreamJob("plan", root=str(tmp_path), agg_phase_strategy="TWO_PHASE")
    stream = job.from_stream(Epochs(tmp_path / "in").stream(spark)).assign_timestamps_and_watermarks(BOUNDED)
    told = stream.key_by("k").aggregate({"n": Aggregate.count()}, uid="counted")
    told.key_by("k").aggregate({"n": Aggregate.count("n")}, uid="after-another")
    assert [local_aggregation(node) is not None for node in job.operators] == [True, False]

    def has_two(aggregate: Aggregate) -> bool:
        alone = StreamJob("alone", root=str(tmp_path))
        source = alone.from_stream(Epochs(tmp_path / str(len(os.listdir(tmp_path)))).stream(spark))
        source.key_by("k").aggregate({"n": Aggregate.count(), "r": aggregate}, uid="op")
        return local_aggregation(alone.operators[0]) is not None

    of = Aggregate
    assert all(map(has_two, [of.sum("i"), of.sum("d"), of.avg("i"), of.min("d"), of.max("at"), of.count("f")]))
    by_order = [
        of.sum("f"),
        of.avg("f"),
        of.min("f"),
        of.min("s"),
        of.first("i"),
        of.last("i"),
        of.collect("i"),
        of.stddev("i"),
    ]
    assert not any(map(has_two, by_order))


def test_late_records_that_are_read_need_one_phase(spark: Any, tmp_path: Path) -> None:
    late = OutputTag("late", COLUMNS)
    for tag, expected in ((None, True), (late, False)):
        job = StreamJob("late", root=str(tmp_path))
        source = Epochs(tmp_path / f"in-{expected}").stream(spark)
        windows = job.from_stream(source).assign_timestamps_and_watermarks(BOUNDED).key_by("k").window(SLIDING)
        if tag is not None:
            windows = windows.side_output_late_data(tag)
        windows.aggregate({"n": Aggregate.count()}, uid="op")
        assert (local_aggregation(job.operators[0]) is not None) is expected


def test_a_strategy_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobDefinitionError, match="AUTO, ONE_PHASE, TWO_PHASE"):
        StreamJob("x", root=str(tmp_path), agg_phase_strategy="THREE_PHASE")  # type: ignore[arg-type]


def test_windows_of_all_records_have_one_phase(spark: Any, tmp_path: Path) -> None:
    """Their key is a column of the engine, which partials do not have."""
    source = Epochs(tmp_path / "in").add_random(120)
    job = StreamJob("all", root=str(tmp_path / "root"), agg_phase_strategy="TWO_PHASE")
    stream = job.from_stream(source.stream(spark), bounded=True).assign_timestamps_and_watermarks(BOUNDED)
    rows = stream.window_all(TUMBLING).aggregate({"n": Aggregate.count()}, uid="op")
    rows.sink_to(MemorySink("all"), uid="out")
    run_all(job)
    assert sum(row["n"] for row in MemorySink("all").rows()) == 120


@pytest.mark.parametrize(("size", "slide", "expected"), [(60, 20, True), (20, 60, True), (50, 20, False)])
def test_windows_of_many_pieces_have_one_phase(
    spark: Any, tmp_path: Path, size: int, slide: int, expected: bool
) -> None:
    job = StreamJob("pieces", root=str(tmp_path))
    stream = job.from_stream(Epochs(tmp_path / "in").stream(spark)).assign_timestamps_and_watermarks(BOUNDED)
    windows = stream.key_by("k").window(SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide)))
    windows.aggregate({"n": Aggregate.count()}, uid="op")
    assert (local_aggregation(job.operators[0]) is not None) is expected


def test_rows_of_a_key_whose_event_times_are_read_stay_in_order(spark: Any, tmp_path: Path) -> None:
    job = StreamJob("order", root=str(tmp_path))
    stream = job.from_stream(Epochs(tmp_path / "in").stream(spark)).assign_timestamps_and_watermarks(BOUNDED)
    counts = stream.key_by("k").aggregate({"n": Aggregate.count()}, uid="op")

    def is_sorted() -> bool:
        [chain, *_] = planned(job.definition)
        own = OperatorPlan(uid="op", parallelism=2, max_parallelism=128)
        prepared = Prepared(spark, chain.head, chain.tail, chain.function, own, job.definition.sources)
        return prepared._order is not None

    assert not is_sorted()
    counts.key_by("k").latest(uid="newest")
    assert is_sorted()


def test_epochs_without_records_say_nothing() -> None:
    def ack(subtask: int, records: int, keys: int) -> Ack:
        section = Section(
            schema_id="s", name="count", first=0, last=1, offset=0, length=1, rows=keys, checksum="xxh3:0"
        )
        changes = StateHandle(path="p", length=1, checksum="xxh3:0", rows=keys, codec="none", sections=(section,))
        return Ack(uid="op", subtask=subtask, attempt="a", records_in=records, records_out=0, changes=changes)

    own = OperatorPlan(uid="op", parallelism=2, max_parallelism=128)
    phases = Phases("AUTO")
    assert not phases.two(own)
    many = [ack(0, 30_000, 3_000), ack(1, 30_000, 3_000)]
    phases.learn([own], many)
    assert phases.two(own)
    phases.learn([own], [])
    phases.learn([own], [Ack(uid="op", subtask=0, attempt="a", records_in=0, records_out=0)])
    phases.learn([own], [ack(0, 0, 5)])
    assert phases.two(own)
    phases.learn([own], [ack(0, 30_000, 5_100), ack(1, 30_000, 5_000)])
    assert not phases.two(own), "fewer than three for each key and subtask"
    phases.learn([own], [ack(0, 10_001, 1), ack(0, 10_001, 1)])
    assert not phases.two(own), "an ack that came twice"
    phases.learn([own], many)
    phases.learn([own], [ack(0, 100, 1)])
    assert not phases.two(own), "too few for another exchange"
    assert Phases("TWO_PHASE").two(own)
