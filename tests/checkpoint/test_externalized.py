"""What happens to checkpoints when a job ends, on a log that is built directly; `tests/spark` has real streams."""

import random
from pathlib import Path

import pytest

from state_engine.api import ExternalizedCheckpointRetention
from state_engine.checkpoint.externalized import JobEnd, discard_checkpoints, discards
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.policy import HOUR_MS, RetentionPolicy
from state_engine.checkpoint.retention.steps import apply_retention, plan_retention
from state_engine.epoch import look
from state_engine.inspect import open_job
from state_engine.savepoint import list_savepoints, load_savepoint, trigger_savepoint
from state_engine.storage.manifest_log import ManifestLog
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import random_changes, sample_job

RETAIN = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
DELETE = ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
NONE = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

# `CheckpointProperties` of Flink 2.3: discardCancelled, discardFailed, discardFinished.
FLINK: dict[ExternalizedCheckpointRetention, dict[JobEnd, bool]] = {
    NONE: {"canceled": True, "failed": True, "finished": True},
    DELETE: {"canceled": True, "failed": False, "finished": True},
    RETAIN: {"canceled": False, "failed": False, "finished": True},
}


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"memory://{tmp_path}"


def with_checkpoints(root: str, count: int = 3) -> JobBuilder:
    job, rng = sample_job(root), random.Random(5)
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock(), ids=CountingIds())
    for number in range(1, count + 1):
        job.epoch(random_changes(rng))
        publisher.begin(job.epoch(random_changes(rng), checkpoint_id=number))
        job.adopt(publisher.completed())
    return job


def hash_of(job: JobBuilder) -> str:
    assert job.head is not None
    return job.head.hash


def newest(job: JobBuilder) -> object:
    return look.newest(ManifestLog(job.storage, job.job))


def test_ends_mean_what_they_mean_in_flink_but_for_one() -> None:
    here = {mode: {end: discards(mode, end) for end in ends} for mode, ends in FLINK.items()}
    assert here == {**FLINK, RETAIN: {**FLINK[RETAIN], "finished": False}}
    assert set(FLINK) == set(ExternalizedCheckpointRetention)


def test_everything_goes_but_what_a_savepoint_needs(root: str) -> None:
    job = with_checkpoints(root)
    pin = trigger_savepoint(root, job.job, epoch=3)
    canonical = trigger_savepoint(root, job.job, kind="canonical")
    report = discard_checkpoints(root, job.job, hash_of(job))
    assert report is not None
    assert report.removed
    assert newest(job) is None
    for savepoint in (pin, canonical):
        load_savepoint(root, job.job, savepoint.savepoint_id)
    left = [info.path for info in job.storage.list("_epochs") if "/floors/" not in info.path]
    assert set(left) <= {path for path, _ in (*pin.manifests, *pin.handles)}
    assert [row.status for row in open_job(root, job.job).checkpoints()] == ["completed"] * 3, "history stays"


def test_a_job_that_another_driver_has_taken_over_is_left_alone(root: str) -> None:
    job = with_checkpoints(root)
    fenced = hash_of(job)
    job.epoch(random_changes(random.Random(1)))
    before = [info.path for info in job.storage.list("")]
    assert discard_checkpoints(root, job.job, fenced) is None
    assert [info.path for info in job.storage.list("")] == before


def test_what_a_policy_has_condemned_for_later_goes_at_once(root: str) -> None:
    job, clock, ids = with_checkpoints(root), ManualClock(), CountingIds()
    policy = RetentionPolicy(grace_ms=HOUR_MS)
    waiting = apply_retention(plan_retention(root, job.job, policy, clock.now_ms()), clock=clock, ids=ids)
    assert waiting.waiting
    discard_checkpoints(root, job.job, hash_of(job), clock=clock, ids=ids)
    assert newest(job) is None
    assert [info.path for info in job.storage.list("_epochs") if "/floors/" not in info.path] == []


def test_it_may_be_done_twice(root: str) -> None:
    job = with_checkpoints(root)
    discard_checkpoints(root, job.job, hash_of(job))
    report = discard_checkpoints(root, job.job, hash_of(job))
    assert report is not None
    assert report.removed == []
    assert list_savepoints(root, job.job) == []
