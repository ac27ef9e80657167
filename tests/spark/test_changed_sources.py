"""Sources that change between two starts: the rows that Spark and Delta really read then.

`tests/epoch/test_changed_sources.py` tests every decision, without Spark.
"""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from support import COLUMNS, Input, assert_counts, by_n, count_job, newest, records, run_all, write_rows

from state_engine.errors import SourcePositionLostError, SourcesChangedError
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


def write_table(path: Path, first: int, count: int = 20) -> None:
    rows = records(count, seed=first, first=first)
    write_deltalake(str(path), pa.Table.from_pylist([row._asdict() for row in rows]), mode="append")


@pytest.mark.long  # which options may change is tested without Spark; the next test continues with a Delta table
def test_a_delta_source_that_was_updated_goes_on_with_the_option_that_delta_asks_for(spark, tmp_path: Path) -> None:
    root, table = tmp_path / "root", tmp_path / "table"
    write_table(table, 0)

    def job(name: str = "updated", **options: str) -> StreamJob:
        return count_job(spark.readStream.format("delta").options(**options).load(str(table)), root, name)

    def numbers(name: str = "updated") -> list[int]:
        return [row[0] for row in by_n(MemorySink(name).rows())]

    pin = run_all(job()).trigger_savepoint()
    DeltaTable(str(table)).update(predicate="n < 5", updates={"v": "7"})
    write_table(table, 20)
    client = job().start(available_now=True)
    with pytest.raises(Exception, match="skipChangeCommits"):
        client.await_termination(120)
    run_all(job(skipChangeCommits="true"))
    assert numbers() == list(range(40))

    run_all(job(skipChangeCommits="true", ignoreDeletes="true"), restore=pin.savepoint_id)
    assert numbers() == list(range(40))
    assert newest(root, "updated").generation == 2
    run_all(job("fork", skipChangeCommits="true"), restore=f"updated/{pin.savepoint_id}")
    assert numbers("fork") == list(range(20, 40))


def test_a_delta_table_that_moved_keeps_its_position_and_another_one_is_refused(spark, tmp_path: Path) -> None:
    root, here, moved, other = (tmp_path / name for name in ("root", "here", "there", "other"))
    write_table(here, 0)
    write_table(other, 0)

    def job(path: Path) -> StreamJob:
        return count_job(spark.readStream.format("delta").load(str(path)), root, "moved-table")

    run_all(job(here))
    here.rename(moved)
    write_table(moved, 20)
    head = newest(root, "moved-table")
    with pytest.raises(SourcesChangedError, match=r"path was .*here, is .*there") as caught:
        job(moved).start(available_now=True)
    assert "allow_changed_sources=[0]" in caught.value.action
    with pytest.raises(SourcePositionLostError, match=r"the Delta table at .*other has the id"):
        job(other).start(available_now=True, allow_changed_sources=[0])
    assert newest(root, "moved-table") == head
    run_all(job(moved), allow_changed_sources=[0])
    assert [row[0] for row in by_n(MemorySink("moved-table").rows())] == list(range(40))


@pytest.mark.long  # test_moved_sources.py has what is read again; a later test of this file moves folders
def test_a_folder_that_moved_is_not_read_again(spark, tmp_path: Path) -> None:
    """Also when it moves again, is named through a link, and is restored to an epoch before the move."""
    root, source, name = tmp_path / "root", Input(tmp_path / "in a").add_many(2), "moved"
    state: list[Any] = []

    def run(**options: Any) -> None:
        client = run_all(count_job(source.stream(spark), root, name), **options)
        state.append([epoch.records for epoch in client.epochs if epoch.records])
        assert_counts(root, name, source.all)

    def move(folder: str) -> None:
        source.folder = source.folder.rename(tmp_path / folder)

    run()
    move("ü b")
    source.add_many(1)
    with pytest.raises(SourcesChangedError, match="path was"):
        count_job(source.stream(spark), root, name).start(available_now=True)
    run(allow_changed_sources=[0])
    source.add_many(1)
    run()  # no warning any more
    move("c")
    run(restore="epoch:1/3", allow_changed_sources=[0])  # files read after the move are read again
    (tmp_path / "link").symlink_to(source.folder)
    source.folder = tmp_path / "link"
    run(allow_changed_sources=[0])
    assert state == [[60, 60], [60], [60], [60, 60], []]


def test_folders_that_a_pattern_names_move_together(spark, tmp_path: Path) -> None:
    """Spark alone would read them all again, without a warning."""
    root, name, source = tmp_path / "root", "pattern", Input(tmp_path / "here" / "in").add_many(1)

    def run(folder: str, **options: Any) -> list[int]:
        df = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / folder / "i*"))
        return [epoch.records for epoch in run_all(count_job(df, root, name), **options).epochs if epoch.records]

    assert run("here") == [60]
    (tmp_path / "here").rename(tmp_path / "there")
    source.folder = tmp_path / "there" / "in"
    source.add_many(1)
    assert run("there", allow_changed_sources=[0]) == [60]
    assert_counts(root, name, source.all)


def test_which_files_are_new_is_sparks_decision(spark, tmp_path: Path) -> None:
    """A path that was read is never new, and a file that is a week older than the newest one is never read."""
    root, name, source = tmp_path / "root", "late", Input(tmp_path / "in").add_many(1)
    run_all(count_job(source.stream(spark), root, name))
    newest_s = source.files[0].stat().st_mtime
    os.utime(source.files[0], (newest_s + 5, newest_s + 5))
    write_rows(source.folder / "late.parquet", records(10, first=900), int(newest_s) - 8 * 86_400)
    write_rows(source.folder / "less-late.parquet", rows := records(10, first=60), int(newest_s) - 6 * 86_400)
    source.all.extend(rows)
    run_all(count_job(source.stream(spark), root, name))
    assert_counts(root, name, source.all)


def test_a_path_is_recorded_from_the_root_and_a_schema_with_it(spark, tmp_path: Path) -> None:
    here = os.path.relpath(tmp_path, os.getcwd())
    source = Input(tmp_path / "in").add_many(1)
    reader = spark.readStream.schema("n bigint, k string, sub string, v bigint")
    job = count_job(reader.parquet(f"{here}/in/"), tmp_path / "root", "relative")
    [fingerprint] = job.definition.sources.fingerprints
    assert (fingerprint.path, fingerprint.former) == (str(source.folder), ())
    assert fingerprint.options == {"schema": "struct<n:bigint,k:string,sub:string,v:bigint>"}
