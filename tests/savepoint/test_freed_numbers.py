"""At a freed number only a manifest that a savepoint keeps is an epoch; one that a late driver put there is none."""

from pathlib import Path

import pytest
from canonical_jobs import model, running_job, state_of
from msgspec.structs import replace

from state_engine.checkpoint.floors import raise_floor
from state_engine.checkpoint.leases import leased
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.errors import NothingToRestoreError
from state_engine.inspect import read_state
from state_engine.log.manifest import StoredManifest, encode_manifest
from state_engine.log.paths import manifest_path
from state_engine.log.retention_records import Floor
from state_engine.savepoint import resolve_restore, trigger_savepoint
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    """Four epochs, and a checkpoint of the fourth."""
    job = running_job(str(tmp_path / "root"))
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    publisher.begin(job.epoch({}, checkpoint_id=2))
    job.adopt(publisher.completed())
    return job


def free(job: JobBuilder, epoch: int) -> None:
    """Raises the floor, as retention does first."""
    raise_floor(job.storage, Floor(job=job.job, generation=1, epoch=epoch, checkpoint_id=2, raised_at=0))


def leave(job: JobBuilder, epoch: int) -> StoredManifest:
    """Puts what a driver had begun before the number was freed: another manifest after the same one."""
    path = manifest_path(1, epoch)
    mine = replace(job.log.read(1, epoch).manifest, incarnation="f" * 32)
    job.storage.delete(path)
    data, digest = encode_manifest(mine)
    job.storage.put_if_absent(path, data)
    return StoredManifest(mine, digest)


def test_what_a_late_driver_left_at_a_freed_number_is_not_restored_and_not_read(job: JobBuilder) -> None:
    [newest] = job.log.epochs(1)[-1:]
    free(job, newest - 1)
    leave(job, 2)
    for use in (
        lambda: resolve_restore(job.root, job.job, "epoch:1/2"),
        lambda: read_state(job.root, job.job, "aircraft", "count", at="epoch:1/2"),
    ):
        with pytest.raises(
            NothingToRestoreError, match=rf"up to epoch {newest - 1}, and no savepoint keeps.*of epoch 2"
        ):
            use()
    assert resolve_restore(job.root, job.job, f"epoch:1/{newest}").stored == job.log.read(1, newest)


@pytest.mark.parametrize("kind", ["native", "canonical"])
def test_what_a_savepoint_keeps_there_is(job: JobBuilder, kind: str) -> None:
    taken = trigger_savepoint(job.root, job.job, kind=kind, epoch=2)
    free(job, 3)
    assert resolve_restore(job.root, job.job, "epoch:1/2").stored.hash == taken.manifest
    assert state_of(job.root, job.job, "epoch:1/2") == model(job, 2)
    leave(job, 2)
    with pytest.raises(NothingToRestoreError):
        resolve_restore(job.root, job.job, "epoch:1/2")


def test_what_leads_to_a_savepoint_is_there_as_well(job: JobBuilder) -> None:
    trigger_savepoint(job.root, job.job, epoch=4)  # from the base of the second epoch on
    free(job, 4)
    assert state_of(job.root, job.job, "epoch:1/3") == model(job, 3)


def test_what_a_lease_names_is_there_and_so_is_the_first_manifest_of_the_job(job: JobBuilder) -> None:
    stored = job.log.read(1, 3)
    with leased(job.root, stored, "read"):
        free(job, 3)
        assert resolve_restore(job.root, job.job, "epoch:1/3").stored == stored
    with pytest.raises(NothingToRestoreError):
        resolve_restore(job.root, job.job, "epoch:1/3")
    assert resolve_restore(job.root, job.job, "epoch:1/1").stored == job.log.read(1, 1)


def test_a_checkpoint_is_known_by_its_hash(job: JobBuilder) -> None:
    [newest] = job.log.epochs(1)[-1:]
    free(job, newest)
    assert resolve_restore(job.root, job.job, "checkpoint:2").stored == job.log.read(1, newest)
