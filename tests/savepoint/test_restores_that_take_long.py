"""Restores that copy for longer than a lease lasts, and beside retention with a clock that is ahead."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from canonical_jobs import NoSinks
from rekey_jobs import SCHEMAS, job_of

from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy
from state_engine.epoch.look import newest
from state_engine.errors import CondemnedError, MissingFileError, NothingToRestoreError
from state_engine.inspect import read_state
from state_engine.log.paths import LEASES
from state_engine.savepoint import restore_key_groups, retain, trigger_savepoint
from state_engine.savepoint.restore import JobRestore
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock

MINUTE_MS = 60_000
NOW_MS = 1_700_000_200_000


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    return job_of(str(tmp_path), epochs=10, published=(2, 6, 9))


class Retaining:
    """The progress of a restore; runs retention at each step."""

    def __init__(self, job: JobBuilder, act: Callable[[], None]) -> None:
        self.job, self.act = job, act
        self.steps = 0

    def __call__(self, what: str, share: float) -> None:
        self.steps += 1
        self.act()


def restored(job: JobBuilder, source: str, clock: ManualClock, act: Callable[[], None], **options: Any) -> None:
    progress = Retaining(job, act)
    JobRestore(job.root, job.job, source, lambda *_: NoSinks(), clock=clock, progress=progress, **options).run()
    assert progress.steps > 1


def everything_can_be_read(job: JobBuilder) -> None:
    for schema in SCHEMAS:
        read_state(job.root, job.job, schema.uid, schema.name)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("canonical", {}), ("canonical", {"max_parallelism": 128}), ("native", {"max_parallelism": 128})],
)
def test_a_lease_is_renewed_while_copies_are_made(job: JobBuilder, kind: Any, options: dict[str, Any]) -> None:
    clock = ManualClock(NOW_MS)
    taken = trigger_savepoint(job.root, job.job, kind=kind, epoch=9, clock=clock)
    removed: list[str] = []

    def half_an_hour() -> None:
        clock.advance(30 * MINUTE_MS)
        policy = RetentionPolicy(checkpoints=Keep(last=1), grace_ms=0)
        removed.extend(retain(job.root, job.job, policy, clock=clock).report.removed)

    restored(job, taken.savepoint_id, clock, half_an_hour, **options)
    assert clock.now_ms() > NOW_MS + 90 * MINUTE_MS, "longer than a lease"
    assert [path for path in removed if path.startswith("_restored")] == []
    everything_can_be_read(job)
    assert job.storage.list(LEASES) == []


def test_the_leases_of_a_restore_of_key_groups_are_renewed(job: JobBuilder) -> None:
    clock = ManualClock(NOW_MS)
    names: list[set[str]] = []

    def asked() -> bool:
        clock.advance(10 * MINUTE_MS)
        names.append({info.path for info in job.storage.list(LEASES)})
        return False

    restore_key_groups(job.root, job.job, "epoch:1/3", [(0, 5)], clock=clock, cancelled=asked)
    assert all(names)
    assert len(set().union(*names)) > 3
    assert job.storage.list(LEASES) == []


@pytest.mark.parametrize("source", ["canonical", "epoch:1/3"])
@pytest.mark.parametrize("ahead_minutes", [54, 61, 60 * 24])
def test_retention_with_a_clock_that_is_ahead_spares_a_restore_or_the_restore_is_refused(
    job: JobBuilder, source: str, ahead_minutes: int
) -> None:
    clock, ahead = ManualClock(NOW_MS), ManualClock(NOW_MS + ahead_minutes * MINUTE_MS)
    if source == "canonical":
        source = trigger_savepoint(job.root, job.job, kind="canonical", epoch=9, clock=clock).savepoint_id
    head = newest(job.log)

    def retention() -> None:
        retain(job.root, job.job, RetentionPolicy(checkpoints=Keep(last=1), grace_ms=0), clock=ahead)

    if ahead_minutes < 55:
        restored(job, source, clock, retention)
    else:
        with pytest.raises((CondemnedError, MissingFileError, NothingToRestoreError)):
            restored(job, source, clock, retention)
        assert newest(job.log) == head, "nothing is sealed, and the job goes on"
    everything_can_be_read(job)
