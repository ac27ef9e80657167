"""Retention in a bucket: a thousand objects go with one request, and what is needed stays."""

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy
from state_engine.checkpoint.retention.steps import apply_retention, plan_retention
from state_engine.clock import SystemClock
from state_engine.inspect import read_state
from state_engine.storage.deleting import delete_all
from state_engine.storage.open import open_root
from state_engine.testing.changes import put, state
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.s3_server import S3Server

ROOT, JOB = "s3://bucket/state", "job"
COUNT = state("ships", "count", "name string", "bigint")


def deletes(s3: S3Server) -> int:
    return sum(one.kind == "DELETE" for one in s3.requests("bucket"))


def test_what_no_checkpoint_needs_goes_with_few_requests(s3: S3Server) -> None:
    log = JobBuilder(ROOT, JOB, [COUNT])
    publisher = CheckpointPublisher(log.storage, JOB)
    for number in range(30):
        changes = {("ships", "count"): [put(f"S{ship}", number) for ship in range(5)]}
        publisher.begin(log.epoch(changes, checkpoint_id=number // 10 + 1 if number % 10 == 9 else None))
        log.adopt(publisher.completed())
    before = read_state(ROOT, JOB, "ships", "count").to_pylist()
    policy, now = RetentionPolicy(checkpoints=Keep(last=1), grace_ms=0), SystemClock().now_ms()
    sent = deletes(s3)
    report = apply_retention(plan_retention(ROOT, JOB, policy, now))
    assert len(report.removed) > 40
    assert deletes(s3) - sent <= 4, "manifests, other files, the list"
    left = {info.path for info in open_root(f"{ROOT}/{JOB}").list("")}
    assert not left & set(report.removed)
    assert read_state(ROOT, JOB, "ships", "count").to_pylist() == before


def test_more_objects_than_one_request_takes(s3: S3Server) -> None:
    storage = open_root(ROOT)
    paths = [f"many/{number:04}" for number in range(storage.deletes_at_once + 5)]
    for path in paths:
        storage.put_if_absent(path, b"")
    storage.put_if_absent("other", b"")
    sent = deletes(s3)
    delete_all(storage, paths)
    assert deletes(s3) - sent == 2
    assert [info.path for info in storage.list("")] == ["other"]
