"""`lakestate retain` and `compact`."""

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakestate.control import Endpoint, publish_endpoint
from lakestate.durations import duration_of
from lakestate.rest.ids import job_id
from lakestate.rest.job_port import JobView
from lakestate.rest.server import serve
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.table import CheckpointTable
from state_engine.errors import JobDefinitionError, SavepointError, StorageError
from state_engine.inspect import open_job
from state_engine.savepoint import list_savepoints, trigger_savepoint
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import random_changes

STRAY = f"_epochs/g000001/changes/e0000000002-aircraft-0-{'f' * 32}.arrow"


@pytest.fixture
def old(job: Any) -> Any:
    """The job with three more checkpoints, one per epoch: 2 to 4, of epochs 5 to 7."""
    publisher = CheckpointPublisher(job.builder.storage, "flights", clock=ManualClock())
    for number in (2, 3, 4):
        publisher.begin(job.builder.epoch(random_changes(random.Random(number)), checkpoint_id=number))
        job.builder.adopt(publisher.completed())
    return job


def files(job: Any) -> set[str]:
    return {info.path for info in job.builder.storage.list("")}


def test_a_dry_run_says_what_goes_and_changes_nothing(old: Any) -> None:
    before = files(old)
    ended = old.run("retain", "flights", "--last", "2", "--dry-run")
    assert ended.code == 0
    assert ended.out.startswith("flights keeps every epoch from 1/6 on; checkpoints: 3, 4\n")
    assert "manifest" in ended.out
    assert "before epoch 6, the oldest that is kept" in ended.out
    facts = old.run("retain", "flights", "--last", "2", "--dry-run", "--json").json
    assert f"would remove {facts['files']} files, " in ended.out
    assert (facts["report"], facts["oldest_epoch"], facts["checkpoints"]) == (None, [1, 6], ["3", "4"])
    assert facts["bytes"] == sum(removal["bytes"] for removal in facts["removals"]) > 0
    named = old.run("retain", "flights", "--last", "2", "--dry-run", "--files").out
    assert all(removal["path"] in named for removal in facts["removals"])
    assert files(old) == before


def test_what_was_planned_is_deleted_after_the_grace_time(old: Any) -> None:
    planned = old.run("retain", "flights", "--last", "1", "--dry-run", "--json").json
    ended = old.run("retain", "flights", "--last", "1", "--grace", "1h")
    assert f"condemned {planned['files']} files, of these {planned['files']} now" in ended.out
    assert "after the grace time of 1 h 0 min" in ended.out
    assert {removal["path"] for removal in planned["removals"]} < files(old)
    report = old.run("retain", "flights", "--last", "1", "--grace", "300ms", "--wait", "--json").json["report"]
    assert set(report["removed"]) == {removal["path"] for removal in planned["removals"]}
    assert not set(report["removed"]) & files(old)
    assert old.run("retain", "flights", "--last", "1", "--grace", "0ms").out.endswith("nothing to remove\n")


def test_only_savepoints_of_policies_go(old: Any) -> None:
    nightly = [
        trigger_savepoint(old.root, "flights", trigger="policy:nightly", clock=ManualClock(1_700_000_000_000 + n))
        for n in range(2)
    ]
    mine = trigger_savepoint(old.root, "flights")
    ended = old.run("retain", "flights", "--last", "9", "--savepoints-last", "1", "--grace", "0s")
    assert ended.code == 0
    assert f"savepoint {nightly[0].savepoint_id} is to be deleted\n" in ended.out
    left = {pin.savepoint_id for pin in list_savepoints(old.root, "flights")}
    assert left == {nightly[1].savepoint_id, mine.savepoint_id}
    assert f"savepoint {mine.savepoint_id}" not in old.run("retain", "flights", "--last", "1", "--dry-run").out


def test_savepoints_of_a_pinned_label_stay(old: Any) -> None:
    for n, label in enumerate(("before-1", "night", "before-2", "later")):
        clock = ManualClock(1_700_000_000_000 + n)
        trigger_savepoint(old.root, "flights", label=label, trigger="policy:x", clock=clock)
    rules = ("--last", "9", "--savepoints-last", "1", "--grace", "0s")
    assert old.run("retain", "flights", *rules, "--keep-label", "before-*", "--keep-label", "y").code == 0
    assert {pin.label for pin in list_savepoints(old.root, "flights")} == {"before-1", "before-2", "later"}


def test_a_complete_savepoint_in_no_list_is_reported(old: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise StorageError("The network is down.")

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointTable, "append", refuse)
        with pytest.raises(SavepointError):
            trigger_savepoint(old.root, "flights", clock=ManualClock())
    said = old.run("retain", "flights", "--last", "1", "--dry-run").out
    [unlisted] = old.run("retain", "flights", "--last", "1", "--dry-run", "--json").json["unlisted"]
    assert f"native savepoint {unlisted['savepoint_id']} is complete and in no list; it holds " in said
    assert unlisted["bytes"] > 0
    assert old.run("savepoints", "dispose", "flights", unlisted["savepoint_id"]).code == 0
    assert "in no list" not in old.run("retain", "flights", "--last", "1", "--dry-run").out


@pytest.mark.parametrize("arguments", [(), ("--savepoints-last", "3"), ("--last", "0"), ("--for", "soon")])
def test_what_does_not_say_what_is_kept_is_wrong_use(old: Any, arguments: tuple[str, ...]) -> None:
    before = files(old)
    assert old.run("retain", "flights", *arguments).code == 2
    assert files(old) == before


def test_lengths_of_time() -> None:
    assert [duration_of(text) for text in ("5ms", "90s", "10 min", "12h", "7d", " 2w ")] == [
        5, 90_000, 600_000, 43_200_000, 604_800_000, 1_209_600_000,
    ]  # fmt: skip
    for text in ("", "7", "d", "-1d", "1.5h", "1 y", "1m", "٣d"):
        with pytest.raises(JobDefinitionError, match="not a length of time"):
            duration_of(text)


# Compact ------------------------------------------------------------------------------------------------------------


def test_a_stopped_job_is_folded_and_cleared(old: Any) -> None:
    old.builder.storage.put_if_absent(STRAY, b"x")
    before = old.run("compact", "flights", "--dry-run")
    assert before.code == 0
    assert "flights is at epoch 1/7" in before.out
    assert "no manifest references it" in before.out
    assert "would fold the state, and remove 1 files, 1 B" in before.out
    ended = old.run("compact", "flights", "--grace", "0s")
    assert ended.code == 0
    assert "checkpoint 5 of epoch 8: " in ended.out
    assert "removed 1 file, 1 B" in ended.out
    [row] = [row for row in open_job(old.root, "flights").checkpoints() if row.id == "5"]
    assert (row.type, row.trigger) == ("FULL", "compaction")
    again = old.run("compact", "flights", "--json").json
    assert (again["plan"]["needed"], again["checkpoint"], again["strays"]["files"]) == (False, None, 0)


def test_a_job_that_may_run_elsewhere_is_not_ended(old: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed_at = old.builder.log.read(1, 7).manifest.processing_time
    clock = ManualClock(sealed_at + 59_000)
    monkeypatch.setattr("lakestate.commands.compact.SystemClock", lambda: clock)
    ended = old.run("compact", "flights")
    assert ended.code == 1
    assert "JobMayRunError: Job 'flights' sealed its newest epoch 59.0 s ago" in ended.err
    assert old.builder.log.epochs(1)[-1] == 7
    assert old.run("compact", "flights", "--stopped").code == 0
    assert old.builder.log.epochs(1)[-1] == 8


def test_a_job_that_is_not_there_is_wrong_use(job: Any) -> None:
    assert job.run("compact", "nobody").code == 2


class Running:
    """The process of a job, which answers; the publisher of this test takes the requested checkpoints."""

    job_id = job_id("flights")

    def __init__(self, job: Any) -> None:
        self.job = job
        self.asked: list[bool] = []

    def view(self) -> JobView:
        return JobView(
            job_id=self.job_id, name="flights", state="RUNNING", start_ms=0, end_ms=-1, now_ms=0, changed_ms=0,
            since_ms={}, incarnation="abc", generation=1, epoch=7, epochs=4, records=4, epoch_seconds=1.0, operators=(),
        )  # fmt: skip

    def trigger_checkpoint(self, *, full: bool) -> int:
        self.asked.append(full)
        publisher = CheckpointPublisher(self.job.builder.storage, "flights", clock=ManualClock())
        publisher.begin(self.job.builder.epoch(checkpoint_id=5))
        return 5


@pytest.fixture
def running(old: Any) -> Iterator[Running]:
    fake, published, over = Running(old), threading.Event(), threading.Event()
    with serve([fake]) as server:  # type: ignore[list-item]

        def hold() -> None:
            with publish_endpoint(old.root, "flights", Endpoint(url=server.url, pid=os.getpid(), incarnation="abc")):
                published.set()
                over.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        assert published.wait(10)
        yield fake
        over.set()
        thread.join(10)


def test_a_running_job_folds_its_state_itself(old: Any, running: Running) -> None:
    ended = old.run("compact", "flights")
    assert ended.code == 0
    assert running.asked == [True]
    assert "checkpoint 5 of epoch 8: " in ended.out
    assert old.builder.log.read(1, 8).manifest.incarnation_number == 1, "it was not claimed"
    assert Path(old.root, "flights", "_control", "endpoint.json").exists()
