"""What a start restores is kept until the start is over: in the log of its job or of another one, and in copies."""

import random
import shutil
from pathlib import Path

import pytest
from canonical_jobs import model, request, running_job, state_of
from msgspec.structs import replace

from state_engine.checkpoint.leases import read_leases
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.needs import changes_of
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.epoch.request import StartRequest
from state_engine.errors import CondemnedError, MissingFileError
from state_engine.log.paths import RESTORED, manifest_path
from state_engine.log.retention_records import Lease
from state_engine.savepoint import kept_for_start, resolve_restore, retain, trigger_savepoint
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import random_changes

AT_ONCE = RetentionPolicy(grace_ms=0)


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    """Five epochs; checkpoints at the second and the fifth, so that nothing needs the first ones."""
    job = running_job(str(tmp_path / "root"))
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    publisher.begin(job.epoch(random_changes(random.Random(9)), checkpoint_id=2))
    job.adopt(publisher.completed())
    return job


def asking_for(root: str, job: str, source: str | None) -> StartRequest:
    target = resolve_restore(root, job, source) if source is not None else None
    return replace(request(root, job), restore=target)


def leases(root: str, job: str) -> list[Lease]:
    return read_leases(root, job, ManualClock().now_ms())


def changes_are_there(job: JobBuilder, epoch: int) -> bool:
    return all(job.storage.exists(path) for path in changes_of(job.log.read(1, epoch).manifest))


def test_an_epoch_stays_until_the_start_is_over_and_no_longer(job: JobBuilder) -> None:
    wanted, clock = asking_for(job.root, job.job, "epoch:1/1"), ManualClock()
    with kept_for_start(wanted, clock=clock):
        assert sorted((lease.epoch, lease.folder) for lease in leases(job.root, job.job)) == [(0, RESTORED), (1, "")]
        retain(job.root, job.job, AT_ONCE, clock=clock)
        assert changes_are_there(job, 1)
        assert state_of(job.root, job.job, job.log.read(1, 1)) == model(job, 1)
    assert leases(job.root, job.job) == []
    retain(job.root, job.job, AT_ONCE, clock=clock)
    assert not changes_are_there(job, 1)
    with pytest.raises(MissingFileError), kept_for_start(wanted, clock=clock):
        pass
    assert leases(job.root, job.job) == []


def test_a_start_that_fails_gives_its_leases_back(job: JobBuilder) -> None:
    with pytest.raises(KeyError), kept_for_start(asking_for(job.root, job.job, "epoch:1/1"), clock=ManualClock()):
        raise KeyError
    assert leases(job.root, job.job) == []


def test_a_start_that_restores_nothing_by_name_needs_none(job: JobBuilder) -> None:
    with kept_for_start(asking_for(job.root, job.job, None), clock=ManualClock()):
        assert leases(job.root, job.job) == []


def test_what_retention_has_condemned_is_not_begun_with(job: JobBuilder) -> None:
    clock, wanted = ManualClock(), asking_for(job.root, job.job, "epoch:1/1")
    retain(job.root, job.job, RetentionPolicy(grace_ms=1_000), clock=clock)
    with pytest.raises(CondemnedError, match="retention is removing"), kept_for_start(wanted, clock=clock):
        pass
    assert leases(job.root, job.job) == []


def test_the_log_leads_to_a_canonical_savepoint_of_the_job_itself(job: JobBuilder) -> None:
    """It contains its state, but still needs the manifest of its epoch: sinks are rewound along the log."""
    taken = trigger_savepoint(job.root, job.job, kind="canonical", epoch=3)
    with kept_for_start(asking_for(job.root, job.job, taken.savepoint_id), clock=ManualClock()):
        [_, lease] = sorted(leases(job.root, job.job), key=lambda lease: lease.epoch)
        assert (lease.epoch, lease.files) == (3, (manifest_path(1, 3),))
        retain(job.root, job.job, AT_ONCE, clock=ManualClock())
        assert job.storage.exists(manifest_path(1, 3))
    assert leases(job.root, job.job) == []


def test_a_fork_leases_in_the_job_that_it_begins_with(job: JobBuilder) -> None:
    with kept_for_start(asking_for(job.root, "fork", f"flights/{trigger_savepoint(job.root, job.job).savepoint_id}")):
        assert [lease.folder for lease in leases(job.root, "fork")] == [RESTORED]
        assert [lease.epoch for lease in leases(job.root, job.job)] == [5]


def test_a_savepoint_from_elsewhere_keeps_only_the_copies(job: JobBuilder, tmp_path: Path) -> None:
    taken = trigger_savepoint(job.root, job.job, kind="canonical")
    there = shutil.move(Path(job.root, job.job, "_savepoints", taken.savepoint_id), tmp_path / "moved")
    new = str(tmp_path / "new")
    with kept_for_start(asking_for(new, "copy", str(there)), clock=ManualClock()):
        assert [lease.folder for lease in leases(new, "copy")] == [RESTORED]
    assert leases(new, "copy") == []
