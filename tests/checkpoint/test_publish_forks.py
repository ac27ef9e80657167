"""Forks depend on the other job's base and files until their first checkpoint makes them independent."""

import random
from pathlib import Path

import pytest

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.table import CheckpointTable
from state_engine.errors import DamagedManifestError
from state_engine.inspect import open_job, read_state
from state_engine.log.paths import manifest_path
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables
from state_engine.storage.state_reader import Segment, load_groups, read_base
from state_engine.testing.changes import model_of
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes, sample_job


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"memory://{tmp_path}"


def publisher(job: JobBuilder) -> CheckpointPublisher:
    return CheckpointPublisher(
        job.storage, job.job, clock=ManualClock(), open_job=lambda other: open_storage(job.root, other)
    )


def origin_with_a_base(root: str) -> JobBuilder:
    """Four epochs and a base of the second one; the manifest before the base is deleted."""
    rng = random.Random(5)
    job = sample_job(root)
    running = publisher(job)
    job.epoch(random_changes(rng), new_files=["a"])
    running.begin(job.epoch(random_changes(rng), new_files=["b"], checkpoint_id=1))
    job.adopt(running.completed())
    job.epoch(random_changes(rng), new_files=["c"])
    job.epoch(random_changes(rng))
    job.storage.delete(manifest_path(1, 1))
    return job


def forked(root: str) -> JobBuilder:
    fork = origin_with_a_base(root).fork("fork")
    fork.epoch(random_changes(random.Random(6)), new_files=["d"])
    return fork


def test_a_young_fork_is_read_from_the_base_of_its_origin(root: str) -> None:
    fork = forked(root)
    for schema in SCHEMAS:
        assert model_of(schema, read_state(root, "fork", schema.uid, schema.name)) == fork.rows(schema.uid, schema.name)
    inherited = {(size.uid, size.state): size.log_rows for size in open_job(root, "flights").statistics()}
    for size in open_job(root, "fork").statistics():
        assert size.log_rows > inherited[size.uid, size.state] > 0


def test_the_first_checkpoint_of_a_fork_folds_the_base_of_its_origin(root: str) -> None:
    fork = forked(root)
    running = publisher(fork)
    running.begin(fork.epoch(checkpoint_id=1))
    reference = running.completed()
    assert reference is not None, running.failures
    base = read_base(fork.storage, reference)
    for schema in SCHEMAS:
        live = load_groups([Segment(fork.storage, base, ())], schema, 0, 12)
        assert model_of(schema, live) == fork.rows(schema.uid, schema.name)
    assert [file.path for file in base.source_files[0]] == ["a", "b", "c", "d"]
    assert base.full


def test_the_files_of_the_first_checkpoint_are_cut_by_all_that_is_folded(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("state_engine.checkpoint.plan.ROWS_PER_FILE", 4)
    fork = origin_with_a_base(root).fork("fork")
    running = publisher(fork)
    running.begin(fork.epoch(checkpoint_id=1))
    reference = running.completed()
    assert reference is not None
    assert len([f for f in read_base(fork.storage, reference).files if f.path.startswith("aircraft/count")]) > 1


def test_a_base_that_does_not_join_what_was_restored_is_damage(root: str) -> None:
    origin = sample_job(root)
    running = publisher(origin)
    running.begin(origin.epoch(checkpoint_id=1))
    base = running.completed()
    other = sample_job(root, "other")
    other.epoch(random_changes(random.Random(1)))
    assert base is not None
    other.storage.put_if_absent(base.path, origin.storage.get(base.path))
    other.adopt(base)
    other.epoch()
    other.fork("fork")
    with pytest.raises(DamagedManifestError, match="was folded at"):
        read_state(root, "fork", "aircraft", "count")


def test_checkpoints_that_the_origin_owes_are_not_those_of_a_fork(root: str) -> None:
    origin = sample_job(root)
    origin.epoch(random_changes(random.Random(1)), checkpoint_id=1)
    fork = origin.fork("fork")
    head = fork.epoch()
    assert publisher(fork).finish(head) is None
    assert CheckpointTable(fork.storage, open_tables(fork.storage)).rows() == []
