"""Delta tables that lost what a job still has to read: refused before anything is written. What is decided, and why, is
tested without Spark in `tests/epoch/test_delta_positions.py`.
"""

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from support import by_n, count_job, newest, records, run_all

from state_engine.errors import SourcePositionLostError, SourceUnavailableError
from state_engine.spark import MemorySink, StreamJob
from state_engine.spark.driver.hadoop_files import missing_files

pytestmark = pytest.mark.spark

NAME = "reads-delta"


class Table:
    """A Delta table `in {a,b}`, whose name would be a pattern for a reader of files, and a job that reads it."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder, self.path = spark, folder, folder / "in {a,b}"

    def append(self, first: int, count: int = 20) -> None:
        rows = [row._asdict() for row in records(count, seed=first, first=first)]
        write_deltalake(str(self.path), pa.Table.from_pylist(rows), mode="append")

    def job(self, **options: str) -> StreamJob:
        df = self.spark.readStream.format("delta").options(**options).load(str(self.path))
        return count_job(df, self.folder / "root", NAME)

    def refused(self, said: str, job: StreamJob | None = None, **options: Any) -> None:
        head = newest(self.folder / "root", NAME)
        with pytest.raises(SourcePositionLostError, match=said):
            (job or self.job()).start(available_now=True, **options)
        assert newest(self.folder / "root", NAME) == head

    def numbers(self) -> list[int]:
        return [row[0] for row in by_n(MemorySink(NAME).rows())]

    def clean_log(self, before: int) -> None:
        """Removes commits as Delta does when they are older than its log retention."""
        DeltaTable(str(self.path)).create_checkpoint()
        for version in range(before):
            (self.path / "_delta_log" / f"{version:020d}.json").unlink()


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Table:
    return Table(spark, tmp_path)


def test_a_table_that_is_gone_another_or_older_and_commits_that_are_gone(table: Table) -> None:
    table.append(0)
    run_all(table.job())
    older = shutil.copytree(table.path, table.folder / "older")
    table.append(20)
    run_all(table.job())
    job = table.job()  # Delta itself refuses to read a table that is gone before that
    newer = table.path.rename(table.folder / "newer")
    table.refused("does not exist", job)
    older.rename(table.path)
    table.refused("ends with version 0, before the position in version 2: an older copy")
    shutil.rmtree(table.path)
    table.append(0)
    table.append(20)
    table.refused("but the position belongs to table")
    shutil.rmtree(table.path)
    newer.rename(table.path)
    table.append(40)
    table.append(60)
    table.clean_log(before=2)
    run_all(table.job())  # it does not need the commits that are gone
    table.refused("no longer has version 1,", restore="epoch:1/3")
    assert table.numbers() == list(range(80))


def test_a_snapshot_that_can_no_longer_be_rebuilt(table: Table) -> None:
    """A restore into the middle of the first snapshot, of which each epoch has read one file."""
    table.append(0)
    table.append(20)
    run_all(table.job(maxFilesPerTrigger="1"))
    for entry in (table.path / "_delta_log").glob("*.json"):
        os.utime(entry, (month_ago := time.time() - 30 * 86_400, month_ago))
    table.append(40)
    run_all(table.job(), restore="epoch:1/2")  # although Delta refuses queries of a version that is so old
    assert table.numbers() == list(range(60))
    table.clean_log(before=2)
    table.refused("cannot rebuild version 1,", restore="epoch:1/2")


def test_files_that_were_removed_and_vacuumed_before_they_were_read(table: Table) -> None:
    table.append(0)
    run_all(table.job())
    table.append(20)
    table.append(40)
    DeltaTable(str(table.path)).optimize.compact()
    DeltaTable(str(table.path)).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    table.append(60)
    table.refused("no longer has 2 data files that the job has not read")
    table.spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        run_all(table.job())
    finally:
        table.spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    assert table.numbers() == [*range(20), *range(60, 80)]


def test_files_that_the_source_does_not_read_may_be_gone(table: Table) -> None:
    """They were compacted after they were read, or belong to commits that the source skips."""
    table.append(0)
    table.append(20)
    run_all(table.job(readChangeFeed="false"))
    delta = DeltaTable(str(table.path))
    delta.optimize.compact()
    delta.update(predicate="n < 5", updates={"v": "7"})
    delta.update(predicate="n < 5", updates={"v": "8"})
    delta.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    table.append(40)
    run_all(table.job(skipChangeCommits="true", readChangeFeed="false"))
    assert table.numbers() == list(range(60))


def test_a_table_that_cannot_be_read(table: Table) -> None:
    table.append(0)
    run_all(table.job())
    table.append(20)
    job = table.job()
    (table.path / "_delta_log" / f"{2:020d}.json").write_text("no JSON")
    with pytest.raises(SourceUnavailableError, match=r"Source 0: the Delta table at .* could not be read") as raised:
        job.start(available_now=True)
    assert "Nothing was written" in raised.value.action
    assert newest(table.folder / "root", NAME).generation == 1


def test_files_of_other_file_systems_are_asked_for_through_hadoop(spark: Any, tmp_path: Path) -> None:
    for name in ("one", "t wo"):
        (tmp_path / name).write_text(name)
    spark.conf.set("fs.viewfs.mounttable.cluster.link./in", tmp_path.as_uri())
    files = [f"viewfs://cluster/in/{name}" for name in ("one", "gone", "t%20wo", "gone%20too")]
    assert missing_files(spark, files) == [files[1], files[3]]
    assert missing_files(spark, [(tmp_path / name).as_uri() for name in ("one", "t wo")]) == []
    assert missing_files(spark, []) == []
