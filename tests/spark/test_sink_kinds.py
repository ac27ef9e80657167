"""Sinks other than Delta: what they get, how often, and how a restore affects them."""

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from support import COUNTS, Count, Input, assert_counts, by_n, count_job, counted, newest, run_all, state_of

from state_engine.errors import SinkError, SinkRewindError
from state_engine.spark import DeltaSink, DiscardingSink, EpochId, ForeachEpochSink, MemorySink, StreamJob
from state_engine.spark.sinks.commits import SinkCommits
from state_engine.storage.delta import live_files

pytestmark = pytest.mark.spark


class Kinds(NamedTuple):
    """A job of two operators: the first has one sink of each kind, the second has none. It has read three files."""

    source: Input
    root: Path
    table: str
    got: dict[EpochId, pa.Table]
    """The arguments of all calls of the function."""


@pytest.fixture(scope="module")
def kinds(spark, tmp_path_factory: pytest.TempPathFactory) -> Kinds:
    folder = tmp_path_factory.mktemp("kinds")
    source, got = Input(folder / "in").add_many(3), dict[EpochId, pa.Table]()
    made = Kinds(source, folder / "root", str(folder / "table"), got)
    job = StreamJob("kinds", root=str(made.root), parallelism=2)
    counts = job.from_stream(source.stream(spark)).key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="count")
    counts.sink_to(ForeachEpochSink(lambda epoch, table: got.update({epoch: table})), uid="function")
    counts.sink_to(DeltaSink(made.table), uid="table").sink_to(DiscardingSink(), uid="discarded")
    counts.key_by("k").process(Count(), COUNTS, uid="sinkless")
    run_all(job)
    return made


def test_a_function_gets_each_epoch_with_its_id(kinds: Kinds) -> None:
    assert list(kinds.got) == [EpochId("kinds", 1, epoch) for epoch in (2, 3, 4)]
    assert by_n(row for table in kinds.got.values() for row in table.to_pylist()) == counted(kinds.source.all)


def test_an_epoch_that_the_function_refused_comes_again_with_the_same_rows(spark, tmp_path: Path) -> None:
    calls: list[tuple[EpochId, list[Any]]] = []
    broken = [True]

    def take(epoch: EpochId, table: pa.Table) -> None:
        calls.append((epoch, by_n(table.to_pylist())))
        if broken[0] and epoch.epoch == 3:
            raise ConnectionError("the other side is away")

    source = Input(tmp_path / "in").add_many(2)
    root = tmp_path / "root"
    client = count_job(source.stream(spark), root, "refusing", sink=ForeachEpochSink(take)).start(available_now=True)
    with pytest.raises(SinkError, match="the other side is away") as caught:
        client.await_termination(120)
    assert caught.value.action
    assert newest(root, "refusing").epoch == 3  # sealed: its output is owed
    broken[0] = False
    run_all(count_job(source.stream(spark), root, "refusing", sink=ForeachEpochSink(take)))
    assert len([1 for epoch, _ in calls if epoch.epoch == 3]) > 1
    assert len({tuple(rows) for epoch, rows in calls if epoch.epoch == 3}) == 1
    unique = dict(calls)
    assert sorted(row for rows in unique.values() for row in rows) == counted(source.all)


def test_a_function_cannot_take_back_what_it_did(spark, tmp_path: Path) -> None:
    got: list[EpochId] = []
    source = Input(tmp_path / "in").add_many(2)
    root = tmp_path / "root"

    def job() -> StreamJob:
        sink = ForeachEpochSink(lambda epoch, table: got.append(epoch))
        return count_job(source.stream(spark), root, "no-way-back", sink=sink)

    run_all(job())
    with pytest.raises(SinkRewindError, match="'out'") as caught:
        job().start(available_now=True, restore="epoch:1/2")
    assert "keep_output" in caught.value.action
    run_all(job(), restore="epoch:1/2", keep_output=True)
    assert got[-1] == EpochId("no-way-back", 2, 4)


def test_output_of_a_memory_sink_goes_back(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(2)
    root = tmp_path / "root"
    run_all(count_job(source.stream(spark), root, "memory"))
    run_all(count_job(source.stream(spark), root, "memory"), restore="epoch:1/2")
    assert [(e.generation, e.epoch) for e in MemorySink("memory").epochs] == [(1, 2), (2, 4)]
    assert_counts(root, "memory", source.all)


@pytest.mark.long  # `epoch/test_forks.py`
def test_output_that_a_restore_keeps_is_kept_by_the_start_that_finishes_it(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: Any, **__: Any) -> None:
        raise ConnectionError("the driver ends after the closing manifest")

    source = Input(tmp_path / "in").add_many(2)
    root, sink = tmp_path / "root", DeltaSink(str(tmp_path / "table"))

    def job() -> StreamJob:
        return count_job(source.stream(spark), root, "keeping", sink=sink)

    run_all(job())
    before = set(live_files(sink.path))
    with monkeypatch.context() as patched:
        patched.setattr(SinkCommits, "rewind", die)
        with pytest.raises(ConnectionError):
            job().start(available_now=True, restore="epoch:1/2", keep_output=True)
    assert newest(root, "keeping").kind == "closing"
    run_all(job())
    assert newest(root, "keeping").generation == 2
    assert before < set(live_files(sink.path))


def test_nothing_is_staged_for_a_discarding_sink(kinds: Kinds) -> None:
    assert list(kinds.root.rglob("*-function.parquet"))
    assert not list(kinds.root.rglob("*-discarded.parquet"))
    assert not list(Path().glob("part-*.parquet")), "nor in the working directory, although other sinks have the output"
    assert state_of(kinds.root, "kinds", "count", "count") == {k: n for _, k, n in counted(kinds.source.all)}


def test_an_operator_without_any_sink(kinds: Kinds) -> None:
    assert sum(state_of(kinds.root, "kinds", "sinkless", "count").values()) == len(kinds.source.all)


def test_two_jobs_may_write_one_delta_table(spark, tmp_path: Path) -> None:
    one, two = Input(tmp_path / "one").add_many(2), Input(tmp_path / "two").add_many(2, seed=9)
    table, root = str(tmp_path / "table"), tmp_path / "root"
    for name, source in (("writer-one", one), ("writer-two", two)):
        run_all(count_job(source.stream(spark), root, name, sink=DeltaSink(table)))
    run_all(count_job(one.stream(spark), root, "writer-one", sink=DeltaSink(table)), restore="epoch:1/2")
    rows = [tuple(r.values()) for r in DeltaTable(table).to_pyarrow_table().to_pylist()]
    key = lambda row: (row[0], row[1] or "", row[2])  # noqa: E731
    assert sorted(rows, key=key) == sorted(counted(one.all) + counted(two.all), key=key)


def test_spark_reads_the_table_with_its_statistics(spark, kinds: Kinds) -> None:
    df = spark.read.format("delta").load(kinds.table)
    assert df.count() == len(kinds.source.all)
    assert df.where("n between 70 and 80").count() == 11
    assert DeltaTable(kinds.table).metadata().configuration == {}, "the table has Delta's defaults"
    history = spark.sql(f"describe history delta.`{kinds.table}`").count()
    assert history >= 3
