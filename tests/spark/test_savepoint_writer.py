"""Canonical savepoints that Spark's workers write have the same tables as those of one process."""

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from state_engine.errors import MissingFileError, StorageError
from state_engine.log.savepoints import CanonicalSavepoint
from state_engine.savepoint import ProcessWriter, list_savepoints, trigger_savepoint, validate_savepoint
from state_engine.spark import SparkWriter
from state_engine.testing.changes import put
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import sample_job

pytestmark = pytest.mark.spark
KEYS = 300


class RefusingWriter:
    """A writer in place of this process, which must not fold."""

    def write(self, fold: Any, plan: Any) -> Any:
        raise AssertionError(f"{plan.table} was not folded by Spark")


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state_engine.checkpoint.plan.ROWS_PER_FILE", 40)


def job_at(root: str) -> None:
    job = sample_job(root)
    job.epoch({("aircraft", "count"): [put(f"N{number}", number) for number in range(KEYS)]})
    job.epoch({("aircraft", "count"): [put(f"N{number}", -1) for number in range(0, KEYS, 3)]})
    job.epoch({("carrier", "seen"): [put(("UA", 2013), 0.5, user_key=f"u{number}") for number in range(KEYS)]})


def taken(root: str, writer: Any, directory: Path) -> CanonicalSavepoint:
    return trigger_savepoint(
        root,
        "flights",
        kind="canonical",
        writer=writer,
        directory=str(directory),
        clock=ManualClock(1_700_000_000_000),
        ids=CountingIds(),
    )


@pytest.mark.long
def test_tables_are_the_same_and_are_read_by_delta_rs_and_by_spark(spark: Any, tmp_path: Path) -> None:
    roots = [str(tmp_path / name) for name in ("by process", "by spark")]
    writers = [ProcessWriter(), SparkWriter(spark, least_ranges=0, here=RefusingWriter())]
    savepoints = []
    for root, writer in zip(roots, writers, strict=True):
        job_at(root)
        savepoints.append(taken(root, writer, Path(f"{root} backup")))
        assert validate_savepoint(root, "flights", savepoints[-1].savepoint_id).ok
    one, other = savepoints
    assert max(len(table.files) for table in one.tables) > 3
    assert one.tables == other.tables, "files with their names and checksums, in order"

    for table in one.tables:
        paths = [f"{savepoint.directory}/{table.path}" for savepoint in savepoints]
        rows = [DeltaTable(path).to_pyarrow_table() for path in paths]
        assert rows[0].equals(rows[1])
        by_spark = spark.read.format("delta").load(paths[1])
        assert by_spark.columns == rows[1].column_names
        order = ["key_group", "position", "seq"]
        found = [tuple(row.asDict(recursive=True).values()) for row in by_spark.orderBy(*order).collect()]
        expected = rows[1].sort_by([(name, "ascending") for name in order])
        assert found == [tuple(row.values()) for row in expected.to_pylist()]


@pytest.mark.long  # `savepoint/test_bytes_read.py` counts what is read
def test_spark_reads_only_the_files_of_the_requested_key_groups(spark: Any, tmp_path: Path) -> None:
    """Bounds of key groups are in the Delta log, whichever writer wrote the files."""
    root = str(tmp_path / "root")
    job_at(root)
    savepoint = taken(root, SparkWriter(spark, least_ranges=0, here=RefusingWriter()), tmp_path / "backup")
    table = next(table for table in savepoint.tables if table.path == "aircraft/count")
    frame = spark.read.format("delta").load(f"{savepoint.directory}/aircraft/count").where("key_group = 12")
    expected = [file.path for file in table.files if file.first <= 12 <= file.last]
    assert 0 < len(expected) < len(table.files)
    assert sorted(Path(path).name for path in frame.inputFiles()) == sorted(Path(path).name for path in expected)


def test_small_states_stay_in_this_process(spark: Any, tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    job_at(root)
    with pytest.raises(AssertionError, match="was not folded by Spark"):
        taken(root, SparkWriter(spark, here=RefusingWriter()), tmp_path / "backup")
    assert taken(root, SparkWriter(spark), tmp_path / "backup").rows == 2 * KEYS


def test_a_missing_file_is_named_and_nothing_is_left(spark: Any, tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    job_at(root)
    victim = next(path for path in Path(root, "flights", "_epochs").rglob("*aircraft*") if path.is_file())
    writer = SparkWriter(spark, least_ranges=0, here=RefusingWriter())

    class Late:
        """Removes a change file after the verification of the pin."""

        def write(self, fold: Any, plan: Any) -> Any:
            victim.unlink(missing_ok=True)
            return writer.write(fold, plan)

    with pytest.raises(MissingFileError, match=victim.name):
        taken(root, Late(), tmp_path / "backup")
    assert list(Path(tmp_path / "backup").rglob("*.parquet")) == []
    assert list_savepoints(root, "flights") == []


def test_what_workers_cannot_write_is_a_storage_error(spark: Any, tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    job_at(root)

    class Blocked:
        """Writes a file where the workers need a folder."""

        def write(self, fold: Any, plan: Any) -> Any:
            folder = Path(fold.order.url) / plan.table
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.touch()
            return SparkWriter(spark, least_ranges=0, here=RefusingWriter()).write(fold, plan)

    with pytest.raises(StorageError, match="Spark gave up on writing"):
        taken(root, Blocked(), tmp_path / "backup")
    assert list_savepoints(root, "flights") == []
