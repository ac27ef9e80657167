"""Leases that name files, and what a checkpoint or savepoint does if its files are condemned."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from dead_processes import die_holding
from msgspec.structs import replace

from state_engine.checkpoint.floors import raise_floor
from state_engine.checkpoint.kept import ensure_kept
from state_engine.checkpoint.leases import (
    LEASE_MS,
    RENEWALS,
    HeldLease,
    expired_leases,
    files_kept,
    leased,
    read_leases,
)
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.checkpoint.retention.steps import apply_retention, plan_retention
from state_engine.checkpoint.table import CheckpointTable
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import Mark
from state_engine.errors import CondemnedError, DamagedManifestError, MissingFileError
from state_engine.log.manifest import StoredManifest, encode_manifest
from state_engine.log.paths import LEASES, condemned_path, manifest_path
from state_engine.log.retention_records import Condemned, CondemnedFile, Floor, FreeNumber, Lease, encode_condemned
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables
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


def late_driver_takes_the_number_of(running: Running, stored: StoredManifest) -> None:
    """Frees the number of a manifest, and gives it to another one, as a driver that slept meanwhile may do."""
    place = stored.manifest
    floor = Floor(job=place.job, generation=place.generation, epoch=place.epoch, checkpoint_id=9, raised_at=0)
    raise_floor(running.job.storage, floor)
    path = manifest_path(place.generation, place.epoch)
    running.job.storage.delete(path)
    data, digest = encode_manifest(replace(place, incarnation="f" * 32))
    assert digest != stored.hash
    running.job.storage.put_if_absent(path, data)


@pytest.mark.parametrize("named", [False, True])
def test_a_restore_notices_before_its_seal_that_its_epoch_has_become_another_one(running: Running, named: bool) -> None:
    running.checkpoint(1)
    running.checkpoint(2)
    target = running.job.log.read(1, 1)
    path = manifest_path(1, 1)
    held = (
        files_kept(running.job.storage, target, [path], "restore", running.clock, running.ids)
        if named
        else leased(running.job.root, target, "restore", clock=running.clock, ids=running.ids, log=running.job.log)
    )
    with held as lease:
        lease.until(FreeNumber(job=running.job.job, generation=1, epoch=3))
        late_driver_takes_the_number_of(running, target)
        with pytest.raises(MissingFileError, match=f"{path}, which retention has removed: another manifest"):
            lease.until(FreeNumber(job=running.job.job, generation=1, epoch=3))


def test_a_savepoint_notices_that_a_manifest_of_its_chain_has_become_another_one(running: Running) -> None:
    first = running.job.epoch(random_changes(running.rng))
    head = running.job.epoch(random_changes(running.rng))
    ensure_kept(running.job.root, head, "a savepoint", log=running.job.log)
    late_driver_takes_the_number_of(running, first)
    with pytest.raises(DamagedManifestError, match="The chain breaks at epoch 1"):
        ensure_kept(running.job.root, head, "a savepoint", log=running.job.log)


def test_a_checkpoint_whose_files_are_condemned_does_not_become_visible(running: Running) -> None:
    running.checkpoint(1)
    sealed = running.job.epoch(random_changes(running.rng), checkpoint_id=2)

    class Meanwhile:
        """Retention for another driver, after the last look of this one."""

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


@pytest.fixture
def held(running: Running) -> Iterator[HeldLease]:
    """A lease on the first of two epochs."""
    running.checkpoint(1)
    first = running.job.head
    running.checkpoint(2)
    assert first is not None
    with leased(running.job.root, first, "a test", clock=running.clock, ids=running.ids) as held:
        yield held


def counts(running: Running, lease: Lease) -> bool:
    return lease in read_leases(running.job.root, running.job.job, running.clock.now_ms())


def test_a_lease_is_renewed_when_some_of_its_time_is_over_and_not_before(running: Running, held: HeldLease) -> None:
    first = held.lease
    running.clock.advance(LEASE_MS // RENEWALS - 2)
    held.renew()
    assert held.lease == first
    running.clock.advance(2)
    held.renew()
    assert held.lease.expires_at > first.expires_at
    assert read_leases(running.job.root, running.job.job, running.clock.now_ms()) == [held.lease]


def test_a_lease_is_renewed_when_the_clock_was_set_back(running: Running, held: HeldLease) -> None:
    running.clock.advance(-24 * HOUR_MS)
    held.renew()
    assert held.lease.expires_at <= running.clock.now_ms() + LEASE_MS


def test_a_lease_that_is_tied_to_a_number_counts_until_that_is_taken(running: Running, held: HeldLease) -> None:
    held.until(FreeNumber(job=running.job.job, generation=1, epoch=3))
    running.clock.advance(48 * HOUR_MS)
    running.retain()
    assert counts(running, held.lease)
    running.checkpoint(3)
    assert not counts(running, held.lease)


def test_a_lease_that_is_tied_to_a_number_counts_until_that_is_freed(running: Running, held: HeldLease) -> None:
    held.until(FreeNumber(job=running.job.job, generation=1, epoch=3))
    running.clock.advance(48 * HOUR_MS)
    raise_floor(running.job.storage, Floor(job=running.job.job, generation=1, epoch=3, checkpoint_id=9, raised_at=0))
    assert not counts(running, held.lease)


def test_a_lease_may_be_tied_to_the_first_number_of_a_fork(running: Running, held: HeldLease) -> None:
    held.until(FreeNumber(job="fork", generation=1, epoch=2))
    running.clock.advance(48 * HOUR_MS)
    running.checkpoint(3)
    assert counts(running, held.lease)
    fork = open_storage(running.job.root, "fork")
    fork.put_if_absent(manifest_path(1, 2), b"whatever it is")
    assert not counts(running, held.lease)


def test_a_lease_is_not_tied_when_something_is_condemned_or_gone(running: Running, held: HeldLease) -> None:
    number = FreeNumber(job=running.job.job, generation=1, epoch=3)
    running.condemn(manifest_path(1, 1))
    with pytest.raises(CondemnedError):
        held.until(number)
    running.job.storage.delete(condemned_path("a"))
    running.job.storage.delete(manifest_path(1, 1))
    with pytest.raises(MissingFileError):
        held.until(number)


def test_a_lease_of_a_process_that_died_is_removed_when_it_has_expired(running: Running) -> None:
    for number in (1, 2):
        running.checkpoint(number)
    head = running.job.head
    assert head is not None
    die_holding(leased(running.job.root, head, "a test", clock=running.clock, ids=running.ids))
    running.retain()
    assert len(running.job.storage.list(LEASES)) == 1
    running.clock.advance(HOUR_MS)
    assert len(expired_leases(running.job.root, running.job.job, running.clock.now_ms())) == 1
    running.retain()
    assert running.job.storage.list(LEASES) == []
