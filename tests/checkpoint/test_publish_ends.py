"""How a publish may end: given up, covered by a later one, or as a new full fold on request."""

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from state_engine.checkpoint.failure_reasons import FailureReason
from state_engine.checkpoint.floors import raise_floor
from state_engine.checkpoint.publish import CheckpointPublisher, PublishEvent
from state_engine.checkpoint.table import CheckpointRow, CheckpointTable
from state_engine.clock import RandomIds
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import Mark
from state_engine.errors import StorageError
from state_engine.inspect import read_state
from state_engine.log.retention_records import Floor
from state_engine.storage.background import OneThread
from state_engine.testing.changes import model_of
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import COUNT, random_changes, sample_job


class Gate:
    """Blocks publishing at one crash point of one epoch until it is opened; it can be moved to a later place."""

    def __init__(self, point: CrashPoint, epoch: int) -> None:
        self.move(point, epoch)

    def move(self, point: CrashPoint, epoch: int) -> threading.Event:
        """Blocks at another place from now on; returns the event that opens the old place."""
        was = getattr(self, "open", threading.Event())
        self._place = (point, epoch)
        self.reached, self.open = threading.Event(), threading.Event()
        return was

    def at(self, point: CrashPoint, epoch: int) -> None:
        if (point, epoch) == self._place:
            reached, opened = self.reached, self.open
            reached.set()
            assert opened.wait(30)


class Publishing:
    """A job that publishes its checkpoints in the background, with a gate."""

    def __init__(self, root: str, point: CrashPoint, epoch: int = 1) -> None:
        self.rng = random.Random(1)
        self.job: JobBuilder = sample_job(root)
        self.gate = Gate(point, epoch)
        self.events: list[PublishEvent] = []
        self.publisher = CheckpointPublisher(
            self.job.storage,
            self.job.job,
            clock=ManualClock(),
            ids=CountingIds(),
            crash=self.gate,
            background=OneThread("fold"),
            on_end=self.events.append,
        )

    def begin(self, checkpoint_id: int, *, full: bool = False) -> None:
        sealed = self.job.epoch(random_changes(self.rng), checkpoint_id=checkpoint_id)
        self.publisher.begin(sealed, Mark(checkpoint_id=checkpoint_id, full=full, trigger="test"))

    def end(self) -> list[tuple[int, FailureReason | None]]:
        self.gate.open.set()
        assert self.publisher.wait(30)
        self.publisher.completed()
        return [(event.checkpoint_id, event.reason) for event in self.events]

    def told(self) -> list[tuple[int, bool]]:
        """Returns the notices that functions will get."""
        return [(end.checkpoint_id, end.completed) for end in self.publisher.ended()]

    def rows(self) -> list[CheckpointRow]:
        return self.publisher._world.rows.rows()


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"memory://{tmp_path}"


def held_up(root: str, point: CrashPoint) -> Publishing:
    """Returns a job with its first checkpoint being published, blocked at a crash point."""
    running = Publishing(root, point)
    running.begin(1)
    assert running.gate.reached.wait(30)
    return running


def covering(root: str) -> Publishing:
    """Returns a job with its first checkpoint done; publishing the third, also for the second, is blocked."""
    running = held_up(root, CrashPoint.E9_PUBLISH_BEGUN)
    running.begin(2)
    running.begin(3)
    running.gate.move(CrashPoint.E9_FILES_WRITTEN, 3).set()
    assert running.gate.reached.wait(30)
    return running


EXPIRED = FailureReason.CHECKPOINT_EXPIRED
SUBSUMED = FailureReason.CHECKPOINT_SUBSUMED


@pytest.mark.parametrize("point", [CrashPoint.E9_PUBLISH_BEGUN, CrashPoint.E9_BASE_WRITTEN])
def test_what_was_given_up_never_becomes_visible_and_the_next_covers_it(root: str, point: CrashPoint) -> None:
    running = held_up(root, point)
    assert running.publisher.abandon(1)
    assert running.publisher.completed() is None
    assert [(event.checkpoint_id, event.reason) for event in running.events] == [(1, EXPIRED)], "reported at once"
    assert running.end() == [(1, EXPIRED)], "and once"
    running.begin(2)
    assert running.end() == [(1, EXPIRED), (2, None)]
    assert [(row.id, row.status, row.trigger) for row in running.rows()] == [
        ("1", "expired", "test"),
        ("2", "completed", "test"),
    ]
    live = read_state(running.job.root, running.job.job, "aircraft", "count", at="checkpoint:2")
    assert model_of(COUNT, live) == running.job.rows("aircraft", "count")


def test_what_retention_has_freed_meanwhile_never_becomes_visible(root: str) -> None:
    """Another driver owns the job: its checkpoints are newer, and retention has removed the epoch of this one."""
    running = held_up(root, CrashPoint.E9_BASE_WRITTEN)
    floor = Floor(job=running.job.job, generation=1, epoch=1, checkpoint_id=1, raised_at=0)
    raise_floor(running.job.storage, floor)
    assert running.end() == [(1, EXPIRED)]
    assert [row.status for row in running.rows()] == ["expired"]


@pytest.mark.parametrize("scheme", ["memory://", ""])
def test_none_becomes_visible_once_a_later_generation_has_a_checkpoint(tmp_path: Path, scheme: str) -> None:
    """From then on retention frees what this one folded, and no lease bounds how long this one sleeps."""
    running = held_up(f"{scheme}{tmp_path}", CrashPoint.E9_BASE_WRITTEN)
    target = running.job.head
    assert target is not None
    running.job.epoch(random_changes(running.rng))
    running.job.restore(target)
    successor = CheckpointPublisher(running.job.storage, running.job.job, clock=ManualClock(), ids=RandomIds())
    successor.begin(running.job.epoch(random_changes(running.rng), checkpoint_id=2), Mark(checkpoint_id=2))
    assert successor.completed() is not None
    assert running.end() == [(1, FailureReason.FINALIZE_CHECKPOINT_FAILURE)]
    rows = {(row.id, row.generation, row.status) for row in running.rows()}
    assert rows == {("2", 2, "completed"), ("1", 1, "failed")}


def test_what_is_visible_cannot_be_given_up(root: str) -> None:
    running = held_up(root, CrashPoint.E9_VISIBLE)
    assert not running.publisher.abandon(1)
    assert running.end() == [(1, None)]


def test_what_waits_too_long_is_given_up_unbegun(root: str) -> None:
    running = held_up(root, CrashPoint.E9_PUBLISH_BEGUN)
    running.begin(2)
    assert running.publisher.abandon(2)
    assert running.end() == [(2, EXPIRED), (1, None)]
    assert {(row.id, row.status) for row in running.rows()} == {("1", "completed"), ("2", "expired")}


def test_giving_up_one_that_waits_gives_up_no_other(root: str) -> None:
    running = held_up(root, CrashPoint.E9_PUBLISH_BEGUN)
    running.begin(2)
    running.begin(3)
    assert running.publisher.abandon(3)
    assert running.end() == [(3, EXPIRED), (1, None), (2, None)]
    assert {(row.id, row.status) for row in running.rows()} == {
        ("1", "completed"),
        ("2", "completed"),
        ("3", "expired"),
    }


def test_of_those_that_wait_the_newest_covers_the_others(root: str) -> None:
    running = held_up(root, CrashPoint.E9_PUBLISH_BEGUN)
    for checkpoint_id in (2, 3, 4):
        running.begin(checkpoint_id, full=checkpoint_id == 3)
    assert running.end() == [(1, None), (2, SUBSUMED), (3, SUBSUMED), (4, None)]
    assert [(row.id, row.status, row.type) for row in running.rows()] == [
        ("1", "completed", "FULL"),
        ("2", "subsumed", None),
        ("3", "subsumed", None),
        ("4", "completed", "FULL"),
    ], "the full fold that the third was to do is done by the fourth"
    live = read_state(running.job.root, running.job.job, "aircraft", "count", at="checkpoint:4")
    assert model_of(COUNT, live) == running.job.rows("aircraft", "count")


def test_no_full_fold_is_done_for_one_that_was_given_up(root: str) -> None:
    running = held_up(root, CrashPoint.E9_PUBLISH_BEGUN)
    running.begin(2, full=True)
    running.begin(3)
    assert running.publisher.abandon(2)
    running.end()
    assert [(row.id, row.status, row.type) for row in running.rows()] == [
        ("1", "completed", "FULL"),
        ("2", "expired", None),
        ("3", "completed", "INCREMENTAL"),
    ]


def test_full_folds_a_new_base_and_says_so(root: str) -> None:
    running = Publishing(root, CrashPoint.E9_PUBLISH_BEGUN, epoch=0)
    for checkpoint_id, full in ((1, False), (2, False), (3, True), (4, False)):
        running.begin(checkpoint_id, full=full)
        running.end()
    rows = running.rows()
    assert [row.type for row in rows] == ["FULL", "INCREMENTAL", "FULL", "INCREMENTAL"]
    assert {state.reason for state in rows[2].states} == {"it was asked for"}
    assert rows[2].bytes == rows[2].state_bytes
    assert rows[3].bytes < rows[3].state_bytes


def test_what_was_given_up_or_has_ended_cannot_be_given_up_again(root: str) -> None:
    running = held_up(root, CrashPoint.E9_PUBLISH_BEGUN)
    assert running.publisher.abandon(1)
    assert not running.publisher.abandon(1)
    assert not running.publisher.abandon(99), "there never was one"
    running.end()
    running.begin(2)
    assert running.end() == [(1, EXPIRED), (2, None)]
    assert not running.publisher.abandon(2)
    assert running.told() == [(1, False), (2, True)]


def test_one_that_failed_unheard_is_not_given_up_too(root: str) -> None:
    running = held_up(root, CrashPoint.E9_PUBLISH_BEGUN)
    for info in running.job.storage.list("_epochs"):
        if "changes" in info.path:
            running.job.storage.delete(info.path)
    running.gate.open.set()
    assert running.publisher.wait(30)
    assert not running.publisher.abandon(1), "the driver has not asked for ends since"
    assert running.end() == [(1, FailureReason.FINALIZE_CHECKPOINT_FAILURE)]
    assert running.told() == [(1, False)]


def test_of_all_that_waited_there_is_a_row_however_each_ended(root: str) -> None:
    running = held_up(root, CrashPoint.E9_PUBLISH_BEGUN)
    before = {info.path for info in running.job.storage.list("_epochs")}
    for checkpoint_id in (2, 3, 4, 5):
        running.begin(checkpoint_id)
    for info in running.job.storage.list("_epochs"):
        if "changes" in info.path and info.path not in before:
            running.job.storage.delete(info.path)
    assert running.publisher.abandon(2)
    assert running.publisher.abandon(5)
    failed = FailureReason.FINALIZE_CHECKPOINT_FAILURE
    assert running.end() == [(2, EXPIRED), (5, EXPIRED), (1, None), (3, failed), (4, failed)]
    assert {(row.id, row.status) for row in running.rows()} == {
        ("1", "completed"),
        ("2", "expired"),
        ("3", "failed"),
        ("4", "failed"),
        ("5", "expired"),
    }


def test_one_that_is_given_up_while_another_covers_it_is_reported_once(root: str) -> None:
    running = covering(root)
    assert running.publisher.abandon(2)
    assert running.end() == [(1, None), (2, EXPIRED), (3, None)]
    assert running.told() == [(1, True), (2, False), (3, True)]


def test_what_would_have_covered_others_and_was_given_up_covers_none(root: str) -> None:
    running = covering(root)
    assert running.publisher.abandon(3)
    assert running.end() == [(1, None), (3, EXPIRED), (2, EXPIRED)]
    assert [(row.id, row.status) for row in running.rows()] == [
        ("1", "completed"),
        ("2", "expired"),
        ("3", "expired"),
    ]


def test_a_row_whose_append_got_no_answer_counts(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Publishing(root, CrashPoint.E9_PUBLISH_BEGUN, epoch=0)
    append = CheckpointTable.append

    def lost_answer(self: CheckpointTable, *args: Any, **kwargs: Any) -> None:
        append(self, *args, **kwargs)
        raise StorageError("simulated: the answer was lost")

    monkeypatch.setattr(CheckpointTable, "append", lost_answer)
    running.begin(1)
    assert running.end() == [(1, None)]
    assert [(row.id, row.status) for row in running.rows()] == [("1", "completed")]


def test_nothing_is_remembered_of_what_has_ended(root: str) -> None:
    running = held_up(root, CrashPoint.E9_PUBLISH_BEGUN)
    running.begin(2)
    running.begin(3)
    assert running.publisher.abandon(1)
    assert running.publisher.abandon(2)
    running.end()
    running.begin(4)
    running.end()
    assert (running.publisher._decided, running.publisher._open) == ({}, set())
