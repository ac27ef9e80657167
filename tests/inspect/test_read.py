import random
from pathlib import Path

import pytest
from deltalake import DeltaTable

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.errors import (
    DamagedFileError,
    MissingFileError,
    NotFoundError,
    NothingToRestoreError,
    UnknownOperatorError,
)
from state_engine.inspect import open_job, read_state, read_table, run_state_sql, state_sql
from state_engine.log.records import StateSchema
from state_engine.savepoint import trigger_savepoint
from state_engine.testing.changes import model_of, put
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes, sample_job


def published(root: str, *, checkpoints: int = 3) -> JobBuilder:
    """Makes a job with three checkpoints, and two epochs after the last one."""
    rng = random.Random(11)
    job = sample_job(root)
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    for checkpoint in range(1, checkpoints + 1):
        job.epoch(random_changes(rng), parallelism=checkpoint)
        publisher.begin(job.epoch(random_changes(rng), checkpoint_id=checkpoint))
        job.adopt(publisher.completed())
    job.epoch(random_changes(rng))
    job.epoch(random_changes(rng), parallelism=4)
    assert publisher.failures == 0
    return job


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"memory://{tmp_path}"


def test_state_is_base_and_change_files_at_any_epoch(root: str) -> None:
    job = published(root)
    for (generation, epoch), _ in job.models.items():
        at = job.log.read(generation, epoch)
        for schema in SCHEMAS:
            live = read_state(root, job.job, schema.uid, schema.name, at=at)
            assert model_of(schema, live) == job.rows(schema.uid, schema.name, at), (epoch, schema.name)
    assert "op" not in live.column_names


def test_state_of_a_savepoint_and_of_a_checkpoint(root: str) -> None:
    job = published(root)
    pin = trigger_savepoint(root, job.job)
    job.epoch({("aircraft", "count"): [put("N1", 77)]})
    live = read_state(root, job.job, "aircraft", "count", at=pin)
    assert model_of(SCHEMAS[0], live) == job.rows("aircraft", "count", job.log.read(pin.generation, pin.epoch))
    assert model_of(SCHEMAS[0], read_state(root, job.job, "aircraft", "count", at=pin.savepoint_id)) == model_of(
        SCHEMAS[0], live
    )
    row = open_job(root, job.job).checkpoints()[1]
    live = read_state(root, job.job, "aircraft", "legs", at="checkpoint:2")
    assert model_of(SCHEMAS[1], live) == job.rows("aircraft", "legs", job.log.read(row.generation, row.epoch))


def test_key_group_ranges_add_up(root: str) -> None:
    job = published(root)
    parts = [read_state(root, job.job, "carrier", "seen", first=g, last=g) for g in range(13)]
    whole = read_state(root, job.job, "carrier", "seen")
    assert sum(part.num_rows for part in parts) == whole.num_rows > 0


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_the_folding_query_gives_what_read_state_gives(tmp_path: Path, schema: StateSchema) -> None:
    pytest.importorskip("duckdb")
    job = published(str(tmp_path))
    for checkpoint in (1, 2, 3):
        at = f"checkpoint:{checkpoint}"
        expected = read_state(str(tmp_path), job.job, schema.uid, schema.name, at=at)
        rows = run_state_sql(str(tmp_path), job.job, schema.uid, schema.name, at=at)
        assert rows.column_names == expected.column_names
        order = [("key_group", "ascending"), ("position", "ascending"), ("seq", "ascending")]
        assert rows.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()


def test_other_dialects_are_text(tmp_path: Path) -> None:
    job = published(str(tmp_path), checkpoints=1)
    spark = state_sql(str(tmp_path), job.job, "aircraft", "legs", "spark")
    assert f"FROM delta.`{tmp_path}/flights/aircraft/legs`" in spark
    assert "newest" not in spark, "a list keeps all its elements"
    polars = state_sql(str(tmp_path), job.job, "carrier", "seen", "polars")
    compile(polars, "polars", "exec")
    assert "delta_scan" in state_sql(str(tmp_path), job.job, "carrier", "seen")


def test_without_a_checkpoint_there_is_no_table_to_query(root: str) -> None:
    job = sample_job(root)
    job.epoch({("aircraft", "count"): [put("N1", 1)]})
    assert read_state(root, job.job, "aircraft", "count").num_rows == 1
    with pytest.raises(NothingToRestoreError, match="published nothing"):
        state_sql(root, job.job, "aircraft", "count", "spark")


def test_unknown_states_and_jobs_are_named(root: str) -> None:
    job = published(root, checkpoints=1)
    with pytest.raises(UnknownOperatorError, match="aircraft/count, aircraft/legs, carrier/seen"):
        read_state(root, job.job, "aircraft", "cuont")
    with pytest.raises(NothingToRestoreError, match="no sealed epoch"):
        read_state(root, "other", "aircraft", "count")


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    job = published(str(tmp_path), checkpoints=1)
    row = open_job(str(tmp_path), job.job).checkpoints()[0]
    file = next(Path(tmp_path, "flights", "aircraft", "count").glob("*.parquet"))
    data = file.read_bytes()
    file.write_bytes(data[:40] + b"x" + data[41:])
    with pytest.raises(DamagedFileError, match=file.name):
        read_state(str(tmp_path), job.job, "aircraft", "count")
    file.unlink()
    with pytest.raises(MissingFileError, match=r"is gone.*What to do: "):
        read_state(str(tmp_path), job.job, "aircraft", "count")
    file.write_bytes(data)
    assert row.base is not None
    job.storage.delete(row.base.path)
    with pytest.raises(MissingFileError, match="base"):
        read_state(str(tmp_path), job.job, "aircraft", "count")


def test_a_damaged_change_file_is_named(tmp_path: Path) -> None:
    job = published(str(tmp_path), checkpoints=1)
    assert job.head is not None
    handle = next(ack.changes for ack in job.head.manifest.operators["aircraft"].acks if ack.changes)
    file = Path(tmp_path, "flights", handle.path)
    file.chmod(0o644)
    data = bytearray(file.read_bytes())
    data[handle.sections[0].offset + 20] ^= 1
    file.write_bytes(data)
    with pytest.raises(DamagedFileError, match=file.name):
        read_state(str(tmp_path), job.job, "aircraft", "count")


def test_a_view_without_reading_state(root: str) -> None:
    view = open_job(root, "flights")
    assert (view.newest(), view.generations, view.epochs(), view.checkpoints()) == (None, [], [], [])
    assert (view.savepoints(), view.statistics(), view.sinks(), view.newest_checkpoint()) == ([], [], [], None)
    job = published(root)
    trigger_savepoint(root, job.job, label="before the weekend")
    assert view.newest() == job.head
    assert view.generations == [1]
    assert [stored.manifest.epoch for stored in view.epochs(3)] == [8, 7, 6]
    assert [row.checkpoint_id for row in view.checkpoints()] == [1, 2, 3]
    newest = view.newest_checkpoint()
    assert newest is not None
    assert newest.checkpoint_id == 3
    assert [pin.label for pin in view.savepoints()] == ["before the weekend"]
    sizes = {size.state: size for size in view.statistics()}
    at = job.log.read(1, 7)  # subtasks report what they held before the epoch
    assert sizes["count"].rows == len(job.rows("aircraft", "count", at))
    assert sizes["count"].bytes > 0


def test_a_sensor_reads_only_the_rows_that_are_new(root: str) -> None:
    job = published(root)
    fetched: list[str] = []
    view = open_job(root, job.job)
    get = view._storage.get
    view._storage.get = lambda path: fetched.append(path) or get(path)  # type: ignore[method-assign,func-returns-value]
    assert [row.checkpoint_id for row in view.checkpoints(1)] == [3]
    assert len([path for path in fetched if path.endswith(".parquet")]) == 1


def test_a_table_of_checkpoints_that_another_tool_compacted_is_still_read(tmp_path: Path) -> None:
    job = published(str(tmp_path))
    pin = trigger_savepoint(str(tmp_path), job.job)
    DeltaTable(Path(tmp_path, "flights", "_checkpoints")).optimize.compact()
    view = open_job(str(tmp_path), job.job)
    assert [row.checkpoint_id for row in view.checkpoints()] == [1, 2, 3]
    assert view.savepoints() == [pin]
    assert CheckpointPublisher(job.storage, job.job).next_checkpoint_id() == 4


def test_reads_any_delta_table(tmp_path: Path) -> None:
    published(str(tmp_path))
    assert read_table(str(tmp_path / "flights" / "_checkpoints")).num_rows == 3
    with pytest.raises(NotFoundError, match="no Delta table"):
        read_table(str(tmp_path / "nothing"))


def test_epochs_cross_generations_along_the_lineage(root: str) -> None:
    job = sample_job(root)
    target = job.epoch({("aircraft", "count"): [put("N1", 1)]})
    job.epoch()
    job.restore(target)
    job.epoch()
    epochs = [(stored.manifest.generation, stored.manifest.epoch) for stored in open_job(root, job.job).epochs()]
    assert epochs == [(2, 3), (2, 2), (1, 1)]
