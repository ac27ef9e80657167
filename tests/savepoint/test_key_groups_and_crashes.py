"""A restore of key groups that dies, is fenced or is cancelled takes effect as a whole, or not at all."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from group_jobs import (
    COUNT,
    assert_found_again_after_a_publish,
    expected,
    group_of,
    job_with_history,
    models_at,
    name,
    states_of,
)

from state_engine.epoch import carry
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.look import newest
from state_engine.errors import (
    FencedError,
    RestoreCancelledError,
    RestoreError,
)
from state_engine.log.manifest import StoredManifest
from state_engine.savepoint import restore_key_groups
from state_engine.storage.open import open_storage
from state_engine.testing.changes import put
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"memory://{tmp_path}"


class Crashed(BaseException):
    """The process has died: nothing of it runs any more."""


class CrashAt:
    def __init__(self, point: CrashPoint | None) -> None:
        self.point = point
        self.passed: list[CrashPoint] = []

    def at(self, point: CrashPoint, epoch: int) -> None:
        self.passed.append(point)
        if point is self.point:
            raise Crashed


POINTS = [
    CrashPoint.S1_HEAD_FOUND,
    CrashPoint.S2_BEFORE_CLAIM,
    CrashPoint.S2_CLAIMED,
    CrashPoint.E5_CHANGE_FILE_WRITTEN,
    CrashPoint.E6_BEFORE_PUT,
    CrashPoint.E6_SEALED,
]


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_crash_leaves_the_whole_or_nothing_and_it_may_be_repeated(root: str, point: CrashPoint) -> None:
    job = job_with_history(root, random.Random(10))
    wanted = expected(job.model, models_at(job, 2), lambda s, e: group_of(s, e) < 7, ["aircraft", "carrier"])
    with pytest.raises(Crashed):
        restore_key_groups(root, "flights", "epoch:1/2", [(0, 6)], crash=CrashAt(point))
    assert states_of(root, "flights") == (wanted if point is CrashPoint.E6_SEALED else job.model)
    restore_key_groups(root, "flights", "epoch:1/2", [(0, 6)])
    assert states_of(root, "flights") == wanted
    assert_found_again_after_a_publish(job, wanted)


def test_every_one_of_these_points_is_passed_in_this_order(root: str) -> None:
    job_with_history(root, random.Random(10))
    crash = CrashAt(None)
    restore_key_groups(root, "flights", "epoch:1/2", [(0, 6)], crash=crash)
    assert list(dict.fromkeys(crash.passed)) == POINTS


def drivers(job: JobBuilder) -> Iterator[StoredManifest]:
    """A driver that goes on as if nothing had happened: each step seals an epoch after the newest one."""
    while True:
        head = newest(job.log)
        assert head is not None
        yield job.log.put(carry.carried(head, "idle", incarnation="f" * 32, number=1, now_ms=0))


class Meanwhile:
    """Runs a function when a crash point is passed for the first time."""

    def __init__(self, point: CrashPoint, work: Any) -> None:
        self.point, self.work, self.times = point, work, 0

    def at(self, point: CrashPoint, epoch: int) -> None:
        if point is self.point:
            self.times += 1
            if self.times == 1:
                self.work()


def test_an_epoch_that_an_older_driver_seals_before_the_claim_is_kept(root: str) -> None:
    job = job_with_history(root, random.Random(11))
    change = {name(COUNT): [put("N5", 555)]}
    meanwhile = Meanwhile(CrashPoint.S2_BEFORE_CLAIM, lambda: job.epoch(change))
    restore_key_groups(root, "flights", "epoch:1/1", keys=["N1"], uids=["aircraft"], crash=meanwhile)
    assert meanwhile.times == 2
    wanted = expected(job.model, models_at(job, 1), lambda s, e: e[0] == ("N1",), ["aircraft"])
    assert wanted[name(COUNT)][("N5",), None, None] == 555
    assert states_of(root, "flights") == wanted


def test_a_zombie_finds_its_number_taken(root: str) -> None:
    job = job_with_history(root, random.Random(12))
    zombie = job.head
    assert zombie is not None
    restore_key_groups(root, "flights", "epoch:1/1", [0])
    from state_engine.epoch.seal import seal

    late = carry.carried(zombie, "idle", incarnation=zombie.manifest.incarnation, number=1, now_ms=0)
    assert not seal(job.log, late, 3).mine


def test_a_driver_that_takes_the_job_over_fences_the_restore_which_leaves_nothing(root: str) -> None:
    job = job_with_history(root, random.Random(13))

    def take_over() -> None:
        head = newest(job.log)
        assert head is not None
        number = head.manifest.incarnation_number + 1
        job.log.put(carry.carried(head, "claim", incarnation="e" * 32, number=number, now_ms=0))

    files = {info.path for info in job.storage.list("_epochs/g000001/changes")}
    for point, count in ((CrashPoint.E6_BEFORE_PUT, 2), (CrashPoint.S2_BEFORE_CLAIM, 1)):
        before = newest(job.log)
        with pytest.raises(FencedError):
            restore_key_groups(root, "flights", "epoch:1/1", [(0, 12)], crash=Meanwhile(point, take_over))
        after = newest(job.log)
        assert before is not None
        assert after is not None
        assert after.manifest.epoch == before.manifest.epoch + count
        assert {info.path for info in job.storage.list("_epochs/g000001/changes")} == files
        assert states_of(root, "flights") == job.model


class CancelledAt:
    """Is cancelled from the n-th check on."""

    def __init__(self, question: int) -> None:
        self.left = question

    def __call__(self) -> bool:
        self.left -= 1
        return self.left <= 0


def test_a_restore_that_is_cancelled_leaves_nothing(root: str) -> None:
    job = job_with_history(root, random.Random(14))
    files = {info.path for info in job.storage.list("_epochs/g000001/changes")}
    for asked in range(1, 200):
        try:
            restore_key_groups(root, "flights", "epoch:1/1", [(0, 6)], cancelled=CancelledAt(asked))
        except RestoreCancelledError:
            assert {info.path for info in job.storage.list("_epochs/g000001/changes")} == files
            assert states_of(root, "flights") == job.model
        else:
            break
    assert asked > 5, "it was asked between files"
    wanted = expected(job.model, models_at(job, 1), lambda s, e: group_of(s, e) < 7, ["aircraft", "carrier"])
    assert states_of(root, "flights") == wanted


def test_a_job_between_two_generations_is_refused(root: str) -> None:
    job = job_with_history(root, random.Random(15))
    target = job.log.read(1, 2)
    claim = job.restore(target)
    job.storage.delete(f"_epochs/g000002/e{claim.manifest.epoch:010d}.json")
    with pytest.raises(RestoreError, match="begun and not finished"):
        restore_key_groups(root, "flights", "epoch:1/1", [1])


def test_names_of_files_are_new_each_time(root: str) -> None:
    job_with_history(root, random.Random(16))
    ids = CountingIds()
    for _ in range(2):
        restore_key_groups(root, "flights", "epoch:1/1", [(0, 12)], ids=ids, clock=ManualClock())
    changes = open_storage(root, "flights").list("_epochs/g000001/changes")
    assert len({info.path for info in changes}) == len(changes)
