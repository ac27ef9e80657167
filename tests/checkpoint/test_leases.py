"""Leases that name files, and what a checkpoint or a savepoint does whose files are condemned."""

import random
from pathlib import Path

import pytest

from state_engine.checkpoint.leases import ensure_kept, expired_leases, leased
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention import RetentionPolicy, apply_retention, plan_retention
from state_engine.checkpoint.table import CheckpointTable
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import Mark
from state_engine.errors import CondemnedError
from state_engine.log.paths import LEASES, condemned_path
from state_engine.log.retention_records import Condemned, CondemnedFile, encode_condemned
from state_engine.storage.tables import open_tables
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import random_changes, sample_job

HOUR_MS = 3_600_000


class Running:
    """A job that checkpoints epoch after epoch."""

    def __init__(self, root: str) -> None:
        self.job: JobBuilder = sample_job(root)
        self.clock, self.ids, self.rng = ManualClock(), CountingIds(), random.Random(5)
        self.publisher = CheckpointPublisher(self.job.storage, self.job.job, clock=self.clock, ids=self.ids)

    def checkpoint(self, number: int) -> None:
        sealed = self.job.epoch(random_changes(self.rng), checkpoint_id=number)
        self.publisher.begin(sealed, Mark(checkpoint_id=number, full=True))
        self.job.adopt(self.publisher.completed())

    def condemn(self, *paths: str) -> None:
        files = tuple(CondemnedFile(path=path, bytes=1, reason="a test") for path in paths)
        condemned = Condemned(list_id="a", job=self.job.job, condemned_at=0, grace_ms=0, files=files)
        self.job.storage.put_if_absent(condemned_path("a"), encode_condemned(condemned))

    def retain(self) -> list[str]:
        policy = RetentionPolicy(grace_ms=0)
        plan = plan_retention(self.job.root, self.job.job, policy, self.clock.now_ms())
        return apply_retention(plan, clock=self.clock, ids=self.ids).removed


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(f"memory://{tmp_path}")


def test_what_a_pin_lists_may_not_be_condemned_either(running: Running) -> None:
    running.checkpoint(1)
    head = running.job.head
    assert head is not None
    running.condemn("aircraft/count/an-older-base.parquet")
    ensure_kept(running.job.root, head, "a savepoint")
    with pytest.raises(CondemnedError, match="an-older-base"):
        ensure_kept(running.job.root, head, "a savepoint", ["aircraft/count/an-older-base.parquet"])


def test_a_checkpoint_whose_files_are_condemned_does_not_become_visible(running: Running) -> None:
    running.checkpoint(1)
    sealed = running.job.epoch(random_changes(running.rng), checkpoint_id=2)

    class Meanwhile:
        """Retention for another driver, behind the last look of this one."""

        def at(self, point: CrashPoint, epoch: int) -> None:
            if point is CrashPoint.E9_BASE_WRITTEN:
                bases = running.job.storage.list("_epochs/g000001/bases")
                running.condemn(max(bases).path)

    zombie = CheckpointPublisher(
        running.job.storage, running.job.job, clock=running.clock, ids=running.ids, crash=Meanwhile()
    )
    zombie.begin(sealed, Mark(checkpoint_id=2))
    assert zombie.completed() is None
    rows = CheckpointTable(running.job.storage, open_tables(running.job.storage)).rows()
    assert [(row.id, row.status) for row in rows] == [("1", "completed"), ("2", "failed")]
    assert "retention is removing" in rows[-1].failure
    assert running.job.storage.list(LEASES) == []


def test_a_lease_of_a_process_that_died_is_removed_when_it_has_expired(running: Running) -> None:
    for number in (1, 2):
        running.checkpoint(number)
    head = running.job.head
    assert head is not None
    lease = leased(running.job.root, head, "a test", clock=running.clock, ids=running.ids)
    lease.__enter__()
    running.retain()
    assert len(running.job.storage.list(LEASES)) == 1
    running.clock.advance(HOUR_MS)
    assert len(expired_leases(running.job.storage, running.clock.now_ms())) == 1
    running.retain()
    assert running.job.storage.list(LEASES) == []
