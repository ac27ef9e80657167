"""Every verb on a root in a bucket: its output; no secret is in its output, in files, or in its arguments."""

from collections.abc import Callable
from typing import Any

import pytest
from s3_buckets import SECRET

from lakestate.rest.ends import find_end, keep_ends
from lakestate.rest.triggers import Ended, Key, Outcome
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.inspect import open_job, read_state
from state_engine.savepoint import list_savepoints
from state_engine.storage.open import open_root
from state_engine.testing.changes import append, put
from state_engine.testing.manual import ManualClock
from state_engine.testing.s3_server import S3Server
from state_engine.testing.sample_jobs import sample_job

COUNT, LEGS = ("aircraft", "count"), ("aircraft", "legs")
ROOT = "s3://bucket/state"


@pytest.fixture
def job(s3: S3Server, job_at: Callable[..., Any]) -> Any:
    builder = sample_job(ROOT)
    publisher = CheckpointPublisher(builder.storage, builder.job, clock=ManualClock())
    builder.epoch({COUNT: [put("N1", 1), put("N2", 2)]})
    publisher.begin(builder.epoch({LEGS: [append("N1", {"origin": "JFK", "minutes": 90})]}, checkpoint_id=1))
    builder.adopt(publisher.completed())
    builder.epoch({COUNT: [put("N1", 3)]})
    return job_at(ROOT, builder)


def said(ended: Any, code: int = 0) -> Any:
    assert ended.code == code, ended.err
    assert SECRET not in ended.out + ended.err
    return ended


def test_every_verb_that_looks(job: Any) -> None:
    assert [(one["job"], one["epoch"]) for one in said(job.run("list", "--json")).json] == [("flights", 3)]
    status = said(job.run("status", "flights", "--json")).json
    assert (status["url"], status["epoch"], status["process"]) == (f"{ROOT}/flights", 3, None)
    assert "1 checkpoint completed" in said(job.run("checkpoints", "flights")).out
    assert "epoch 1/3" in said(job.run("top", "flights", "--once")).out
    assert '"value": 3' in said(job.run("inspect", "flights", "count", "--json")).out
    counted = said(job.run("sql", "--job", "flights", "--live", "--format", "csv", 'select * from "aircraft"."count"'))
    assert "N1" in counted.out
    assert "unchanged" in said(job.run("savepoints", "diff", "flights", "epoch:1/2", "latest")).out
    stored = open_root("s3://bucket")
    assert all(SECRET.encode() not in stored.get(info.path) for info in stored.list(""))


@pytest.mark.parametrize("kind", ["native", "canonical"])
@pytest.mark.parametrize("directory", [None, "s3://backup/flights"])
def test_savepoints_of_a_bucket_in_a_bucket(job: Any, kind: str, directory: str | None) -> None:
    options: list[Any] = ["--directory", directory] if directory is not None else []
    savepoint_id = said(job.run("savepoint", "flights", "--type", kind, "--epoch", "2", *options)).out.split()[0]
    assert bool(open_root("s3://backup").list(f"flights/{savepoint_id}")) == (directory is not None)
    assert said(job.run("savepoints", "list", "flights", "--json")).json[0]["savepoint_id"] == savepoint_id
    said(job.run("savepoints", "show", "flights", savepoint_id, "--files"))
    assert "is sound" in said(job.run("savepoints", "validate", "flights", savepoint_id, "--without-code")).out
    said(job.run("savepoints", "dispose", "flights", savepoint_id))
    assert open_root("s3://backup").list("") == []
    assert list_savepoints(ROOT, "flights") == []


def test_a_job_in_a_bucket_is_reached_by_its_address(job: Any) -> None:
    for verb in (("stop",), ("cancel",), ("rescale", "2"), ("checkpoint",)):
        assert "--url" in said(job.run(verb[0], "flights", *verb[1:]), 2).err


TAKES_OVER = [
    ("restore", "flights", "--from", "epoch:1/2", "--without-code"),
    ("restore", "flights", "--from", "epoch:1/2", "--key-groups", "0-12"),
    ("compact", "flights"),
]


@pytest.mark.parametrize("verb", TAKES_OVER, ids=["whole", "key-groups", "compact"])
@pytest.mark.parametrize("known", [False, True])
def test_a_job_that_may_run_elsewhere_is_not_taken_over(job: Any, verb: tuple[str, ...], known: bool) -> None:
    """Whether it runs is unknown until its process has written the ends of operations, or `--stopped` confirms it."""
    before = {info.path for info in open_root(ROOT).list("")}
    refused = said(job.run(*verb), 1)
    assert "JobMayRunError: Incarnation 1 (" in refused.err
    assert "confirm it with --stopped" in refused.err
    assert {info.path for info in open_root(ROOT).list("")} == before
    manifest = job.builder.log.newest(1).manifest
    if known:
        keep_ends(ROOT, "flights", manifest.incarnation, [Ended(Key("savepoint", "", "0" * 32), 2, Outcome("s3://x"))])
    said(job.run(*verb, *(() if known else ("--stopped",))))
    newest = open_job(ROOT, "flights").newest()
    assert newest is not None
    assert newest.manifest.incarnation_number == 2
    if verb[0] == "restore":
        assert {row["tailnum"]: row["value"] for row in read_state(ROOT, "flights", *COUNT).to_pylist()} == {
            "N1": 1,
            "N2": 2,
        }


def test_what_operations_came_to_is_kept_in_the_bucket(job: Any) -> None:
    key = Key("savepoint", "", "0" * 32)
    keep_ends(ROOT, "flights", "first", [Ended(key._replace(trigger_id="1" * 32), 1, Outcome("s3://old"))])
    keep_ends(ROOT, "flights", "second", [Ended(key, 2, Outcome("s3://there"))])
    end = find_end(ROOT, "flights", key.trigger_id)
    assert end is not None
    assert end.result == "s3://there"
    assert find_end(ROOT, "flights", "1" * 32) is None
    assert said(job.run("operation", "flights", "0" * 32)).out == f"{'0' * 32} is done: savepoint s3://there\n"
