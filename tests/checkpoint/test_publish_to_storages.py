"""Checkpoints on the storages `filesystem` and `memory`: what is refused, what retention removes, what can be asked."""

import random
from pathlib import Path

import pytest

from state_engine.api import FileSystemCheckpointStorage, JobManagerCheckpointStorage
from state_engine.api.checkpoint_storage import CheckpointStorage
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.checkpoint.retention.steps import apply_retention, plan_retention
from state_engine.errors import LakestateError, StorageError
from state_engine.inspect import open_job, read_state, run_sql, state_sql
from state_engine.log.paths import parse_state_file
from state_engine.storage.faults import Fault, FaultyStorage
from state_engine.storage.state_reader import read_base
from state_engine.testing.changes import model_of, put
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import COUNT, SCHEMAS, random_changes, sample_job

FILES = FileSystemCheckpointStorage(file_state_size_threshold=0)


def publisher(job: JobBuilder, setting: CheckpointStorage, storage: FaultyStorage | None = None) -> CheckpointPublisher:
    return CheckpointPublisher(
        storage or job.storage, job.job, checkpoint_storage=setting, clock=ManualClock(), ids=CountingIds()
    )


def streams(job: JobBuilder) -> list[str]:
    return [info.path for info in job.storage.list("") if info.path.endswith(".stream")]


def test_memory_refuses_a_state_by_name_and_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    job = sample_job(str(tmp_path))
    running = publisher(job, JobManagerCheckpointStorage(max_state_size=3000))
    running.begin(job.epoch({("aircraft", "count"): [put("N1", 1)]}, checkpoint_id=1))
    first = running.completed()
    assert first is not None
    running.begin(job.epoch({("aircraft", "count"): [put(f"N{n}", n) for n in range(2000)]}, checkpoint_id=2))
    assert running.completed() == first
    [_, row] = open_job(str(tmp_path), job.job).checkpoints()
    assert row.status == "failed"
    assert "State 'count' of operator 'aircraft' has" in row.failure
    assert "more than the 3000 that the checkpoint storage 'memory' takes" in row.failure
    assert "FileSystemCheckpointStorage" in row.failure
    assert model_of(COUNT, read_state(str(tmp_path), job.job, "aircraft", "count")) == job.rows("aircraft", "count")


def test_the_limit_is_five_mebibytes_of_a_state_over_all_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("state_engine.checkpoint.plan.ROWS_PER_FILE", 100)
    rng = random.Random(1)
    job = sample_job(str(tmp_path))
    running = publisher(job, JobManagerCheckpointStorage())
    long = [put(rng.randbytes(4000).hex(), n) for n in range(600)]  # about 2.4 MB that cannot be compressed
    running.begin(job.epoch({("aircraft", "count"): long}, checkpoint_id=1))
    assert running.completed() is not None
    more = [put(rng.randbytes(4000).hex(), n) for n in range(1000)]
    running.begin(job.epoch({("aircraft", "count"): more}, checkpoint_id=2))
    row = open_job(str(tmp_path), job.job).checkpoints()[-1]
    assert f"more than the {5 * 1024 * 1024} that" in row.failure


def test_a_checkpoint_in_memory_is_its_record(tmp_path: Path) -> None:
    job = sample_job(str(tmp_path))
    running = publisher(job, JobManagerCheckpointStorage())
    sealed = job.epoch(random_changes(random.Random(1)), checkpoint_id=1)
    after_epoch = {info.path for info in job.storage.list("")}
    running.begin(sealed)
    made = {info.path for info in job.storage.list("")} - after_epoch
    base = running.completed()
    assert base is not None
    assert [path for path in made if not path.startswith("_checkpoints/")] == [base.path]


def test_files_that_nothing_names_go_with_retention(tmp_path: Path) -> None:
    """However an attempt ended, its files have unique names, and the next attempt does not find them."""
    rng = random.Random(2)
    job = sample_job(str(tmp_path))
    clock, storage = ManualClock(), FaultyStorage(job.storage)
    running = publisher(job, FILES, storage)
    storage.faults.append(Fault("before", None, "/bases/", times=None))
    running.begin(job.epoch(random_changes(rng), checkpoint_id=1))
    assert running.completed() is None
    lost = set(streams(job))
    assert lost
    assert all(parse_state_file(path) == (1, 1) for path in lost)
    storage.faults.clear()
    running.begin(job.epoch(random_changes(rng), checkpoint_id=2))
    job.adopt(running.completed())
    job.epoch(random_changes(rng))
    policy = RetentionPolicy(grace_ms=0)
    for _ in range(2):
        apply_retention(plan_retention(str(tmp_path), job.job, policy, clock.now_ms()), clock=clock, ids=CountingIds())
        clock.advance(10 * 60_000)
    assert not lost & set(streams(job))
    for schema in SCHEMAS:
        result = read_state(str(tmp_path), job.job, schema.uid, schema.name)
        assert model_of(schema, result) == job.rows(schema.uid, schema.name)


@pytest.mark.parametrize("setting", [FILES, JobManagerCheckpointStorage()], ids=["filesystem", "memory"])
def test_sql_reads_what_is_in_no_table(tmp_path: Path, setting: CheckpointStorage) -> None:
    pytest.importorskip("duckdb")
    job = sample_job(str(tmp_path))
    running = publisher(job, setting)
    running.begin(job.epoch({("aircraft", "count"): [put("N1", 1), put("N2", 5)]}, checkpoint_id=1))
    assert running.completed() is not None
    result = run_sql(str(tmp_path), job.job, "SELECT tailnum, value FROM aircraft.count ORDER BY ALL")
    assert result.to_pylist() == [{"tailnum": "N1", "value": 1}, {"tailnum": "N2", "value": 5}]
    with pytest.raises(LakestateError, match="aircraft/count of job 'flights' is in no table") as error:
        state_sql(str(tmp_path), job.job, "aircraft", "count")
    assert "canonical" in error.value.action


def test_a_full_disk_fails_the_checkpoint_and_nothing_else(tmp_path: Path) -> None:
    job = sample_job(str(tmp_path))
    storage = FaultyStorage(job.storage, [Fault("before", "write", ".stream", times=1, error=StorageError)])
    running = publisher(job, FILES, storage)
    running.begin(job.epoch({("aircraft", "count"): [put("N1", 1)]}, checkpoint_id=1))
    assert running.completed() is None
    assert streams(job) == [], "what was begun is removed"
    running.begin(job.epoch({("aircraft", "count"): [put("N2", 1)]}, checkpoint_id=2))
    assert running.completed() is not None


@pytest.mark.parametrize("setting", [FILES, JobManagerCheckpointStorage()], ids=["filesystem", "memory"])
def test_who_does_not_say_a_storage_goes_on_with_the_former_one(tmp_path: Path, setting: CheckpointStorage) -> None:
    rng = random.Random(3)
    job = sample_job(str(tmp_path))
    publisher(job, setting).begin(job.epoch(random_changes(rng), checkpoint_id=1))
    other = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    first = other.finish(job.epoch(kind="claim"))
    other.begin(job.epoch(random_changes(rng), checkpoint_id=2))
    second = other.completed()
    assert first is not None
    assert second is not None
    assert read_base(job.storage, second).storage == read_base(job.storage, first).storage
