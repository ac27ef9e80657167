"""The floor of a generation: numbers up to it were sealed and freed, and are never used again."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from state_engine.checkpoint.floors import raise_floor
from state_engine.epoch.seal import seal
from state_engine.errors import FencedError, StorageError
from state_engine.log.paths import manifest_path
from state_engine.log.retention_records import Floor
from state_engine.storage.faults import Fault, FaultyStorage
from state_engine.testing.sample_jobs import sample_job
from state_engine.testing.simulated import Faults
from state_engine.testing.simulator import Simulation


def floor_at(job: str, epoch: int) -> Floor:
    return Floor(job=job, generation=1, epoch=epoch, checkpoint_id=0, raised_at=0)


@pytest.mark.parametrize(("floor", "sealed"), [(2, True), (3, False), (4, False)])
def test_no_epoch_is_sealed_at_the_floor_or_below_it(tmp_path: Path, floor: int, sealed: bool) -> None:
    job = sample_job(f"memory://{tmp_path}")
    job.epoch()
    second = job.epoch()
    raise_floor(job.storage, floor_at(job.job, floor))
    third = replace(second.manifest, epoch=3, predecessor=second.hash)
    if sealed:
        assert seal(job.log, third, 3).mine
    else:
        with pytest.raises(FencedError, match=f"the generation's floor is {floor}"):
            seal(job.log, third, 3)
    assert (job.log.newest(1) is not None) == sealed
    assert job.log.read(1, 3).manifest == third, "it stays: other epochs may be based on it"


@pytest.mark.parametrize("floor", [2, 3, 4])
def test_a_manifest_at_the_floor_or_below_it_is_not_the_newest(tmp_path: Path, floor: int) -> None:
    """Such a manifest was kept by a savepoint, or put by a driver that had slept."""
    job = sample_job(f"memory://{tmp_path}")
    newest = [job.epoch() for _ in range(3)][-1]
    raise_floor(job.storage, floor_at(job.job, floor))
    assert job.log.newest(1) == (newest if floor < 3 else None)


def test_a_floor_that_exists_is_made_durable(tmp_path: Path) -> None:
    """The process that raised it got an error and may have died; manifests below it are going to be deleted."""
    job = sample_job(f"memory://{tmp_path}")
    storage = FaultyStorage(job.storage, [Fault("after", "put_if_absent")])
    with pytest.raises(StorageError):
        raise_floor(storage, floor_at(job.job, 2))
    storage.faults.append(Fault("before", "put_if_absent"))
    with pytest.raises(StorageError):
        raise_floor(storage, floor_at(job.job, 2))
    raise_floor(storage, floor_at(job.job, 1))
    assert [call for call, _ in storage.calls].count("put_if_absent") == 3


def test_a_job_whose_epochs_were_all_freed_begins_a_generation_of_its_own() -> None:
    simulation = Simulation(0)
    simulation.finish(Faults())
    world = simulation.world
    newest = simulation.head.manifest
    raise_floor(world.storage, floor_at(world.job, newest.epoch))
    for epoch in range(1, newest.epoch + 1):
        world.storage.delete(manifest_path(1, epoch))
    world.log = world.open_log()
    simulation.start()
    assert (simulation.head.manifest.generation, simulation.head.manifest.epoch) == (2, 1)
