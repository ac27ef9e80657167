"""Each kind of source through stop, restart and restore: rows are compared, nothing is lost or read twice."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support import (
    Input,
    Record,
    assert_counts,
    by_n,
    count_job,
    counted,
    newest,
    records,
    run_all,
    state_of,
    with_epochs,
)

from state_engine.errors import SourceFileMissingError, SourcesChangedError
from state_engine.spark import MemorySink

pytestmark = pytest.mark.spark


def run_through(start: Any, add: Any, root: Path, name: str, rows: list[Record]) -> None:
    """Runs, restarts with more input, restores epoch 2 with another parallelism, and restarts again."""
    run_all(start())
    add()
    run_all(start())
    assert_counts(root, name, rows)
    run_all(start(), restore="epoch:1/2", parallelism=3)
    assert newest(root, name).generation == 2
    assert_counts(root, name, rows)
    add()
    run_all(start())
    assert_counts(root, name, rows)


@pytest.mark.long
def test_more_files_than_spark_compacts_at_once(spark, tmp_path: Path) -> None:
    """After the tenth log entry Spark writes `9.compact`; a seed is made of all entries."""
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(12, rows=10)
    run_through(
        lambda: count_job(source.stream(spark), root, "compact"),
        lambda: source.add_many(11, rows=10),
        root,
        "compact",
        source.all,
    )


class DeltaInput:
    """A Delta table that grows by one file per commit."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder)
        self.all: list[Record] = []

    def add(self, commits: int, rows: int = 40) -> None:
        for _ in range(commits):
            added = records(rows, seed=len(self.all), first=len(self.all))
            write_deltalake(self.path, pa.Table.from_pylist([r._asdict() for r in added]), mode="append")
            self.all.extend(added)

    def stream(self, spark: Any) -> Any:
        return spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(self.path)


@pytest.mark.long  # test_changed_sources restarts a Delta source
def test_delta_after_its_initial_snapshot(spark, tmp_path: Path) -> None:
    root, source = tmp_path / "root", DeltaInput(tmp_path / "table")
    source.add(1)
    name = "delta-after"
    run_all(count_job(source.stream(spark), root, name))
    source.add(2)
    run_all(count_job(source.stream(spark), root, name))
    assert '"isStartingVersion":false' in newest(root, name).sources[0].offset
    assert_counts(root, name, source.all)
    source.add(1)
    run_all(count_job(source.stream(spark), root, name), restore=f"epoch:1/{newest(root, name).epoch - 1}")
    assert_counts(root, name, source.all)


@pytest.mark.long
def test_delta_in_the_middle_of_its_initial_snapshot(spark, tmp_path: Path, started) -> None:
    root, source = tmp_path / "root", DeltaInput(tmp_path / "table")
    source.add(3)
    name = "delta-snapshot"
    job = count_job(source.stream(spark), root, name)
    client = with_epochs(started(job.start(trigger_interval_ms=600_000)), 1)
    client.stop()
    assert len(client.epochs) == 1
    assert '"isStartingVersion":true' in newest(root, name).sources[0].offset
    source.add(1)
    run_all(count_job(source.stream(spark), root, name))
    # Delta decides with which file the snapshot begins, so counts per record do not follow the order of `n`.
    rows = MemorySink(name).rows()
    assert sorted(row["n"] for row in rows) == [row.n for row in source.all]
    expected = {k: times for _, k, times in counted(source.all)}
    assert state_of(root, name, "count", "count") == expected
    run_all(count_job(source.stream(spark), root, name, parallelism=3), restore="epoch:1/2")
    assert sorted(row["n"] for row in MemorySink(name).rows()) == [row.n for row in source.all]
    assert state_of(root, name, "count", "count") == expected


def test_rate_micro_batch(spark, tmp_path: Path, started) -> None:
    root, name = tmp_path / "root", "rate"

    def start(**options: Any) -> Any:
        df = (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", 30)
            .option("numPartitions", 2)
            .load()
            .selectExpr("value as n", "concat('k', value % 7) as k")
        )
        return started(count_job(df, root, name).start(trigger_interval_ms=100, **options))

    def check() -> None:
        rows = by_n(MemorySink(name).rows())
        assert rows == [(n, f"k{n % 7}", n // 7 + 1) for n in range(len(rows))]
        assert rows
        assert len(rows) % 30 == 0

    for options in ({}, {"restore": "epoch:1/2"}, {"parallelism": 3}):
        with_epochs(start(**options), 2).stop()
        check()
    assert newest(root, name).generation == 2


class Both:
    """Two folders as one stream."""

    def __init__(self, folder: Path) -> None:
        self.inputs = (Input(folder / "one"), Input(folder / "two"))
        self.all: list[Record] = []

    def add(self, *counts: int) -> None:
        for source, count in zip(self.inputs, counts, strict=True):
            for _ in range(count):
                rows = records(30, seed=len(self.all), first=len(self.all))
                source.add(rows)
                self.all.extend(rows)

    def stream(self, spark: Any, *, swapped: bool = False) -> Any:
        one, two = (source.stream(spark) for source in (self.inputs[::-1] if swapped else self.inputs))
        return one.union(two)


@pytest.mark.long  # test_offsets.py has a source that ran dry, test_shared_jobs.py a union
def test_a_union_of_two_folders_of_which_one_runs_dry(spark, tmp_path: Path) -> None:
    root, name, source = tmp_path / "root", "union", Both(tmp_path / "in")
    source.add(2, 1)
    expected = lambda: {k: times for _, k, times in counted(source.all)}  # noqa: E731

    def check() -> None:
        assert sorted(row["n"] for row in MemorySink(name).rows()) == [row.n for row in source.all]
        assert state_of(root, name, "count", "count") == expected()

    run_all(count_job(source.stream(spark), root, name))
    check()
    source.add(1, 2)
    run_all(count_job(source.stream(spark), root, name), restore="epoch:1/2", parallelism=3)
    check()
    source.add(0, 1)
    run_all(count_job(source.stream(spark), root, name))
    check()


def test_two_sources_in_another_order_are_refused(spark, tmp_path: Path) -> None:
    root, name, source = tmp_path / "root", "swapped", Both(tmp_path / "in")
    source.add(1, 1)
    run_all(count_job(source.stream(spark), root, name))
    with pytest.raises(SourcesChangedError, match="source 0: path"):
        count_job(source.stream(spark, swapped=True), root, name).start(available_now=True)


def test_a_restore_whose_files_are_gone(spark, tmp_path: Path) -> None:
    root, name, source = tmp_path / "root", "files-gone", Input(tmp_path / "in").add_many(3)
    run_all(count_job(source.stream(spark), root, name))
    head = newest(root, name)
    hidden = source.files[2].rename(tmp_path / "hidden")
    with pytest.raises(SourceFileMissingError, match=source.files[2].name) as caught:
        count_job(source.stream(spark), root, name).start(available_now=True, restore="epoch:1/2")
    assert caught.value.action
    assert newest(root, name) == head
    source.add_many(1)
    run_all(count_job(source.stream(spark), root, name))  # it is not needed to continue
    hidden.rename(source.files[2])
    run_all(count_job(source.stream(spark), root, name), restore="epoch:1/2")
    assert_counts(root, name, source.all)


def test_before_the_first_seal_the_options_say_where_to_start(spark, tmp_path: Path, started) -> None:
    """A start that sealed nothing leaves no position, and the sources may still change."""
    root, name, source = tmp_path / "root", "unsealed", DeltaInput(tmp_path / "table")
    other = Input(tmp_path / "in")
    run_all(count_job(other.stream(spark), root, name))
    source.add(2)
    version = spark.readStream.format("delta").option("startingVersion", 1).load(source.path)
    run_all(count_job(version, root, name))
    assert [row["n"] for row in sorted(MemorySink(name).rows(), key=lambda r: r["n"])] == [r.n for r in source.all[40:]]
