"""A base and the chain of manifests after it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from state_engine.checkpoint.fold_inputs import follow, newest_fold_inputs, read_fold_inputs
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.table import CheckpointTable
from state_engine.errors import DamagedManifestError
from state_engine.storage.open_access import open_tables
from state_engine.testing.changes import put
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import sample_job


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    """Epochs 1 to 5 with checkpoints at 2 and 4; no manifest names the base of the second checkpoint."""
    job = sample_job(f"memory://{tmp_path}")
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    for checkpoint in (1, 2):
        job.epoch({("aircraft", "count"): [put("N1", checkpoint)]})
        publisher.begin(job.epoch(checkpoint_id=checkpoint))
        if checkpoint == 1:
            job.adopt(publisher.completed())
    job.epoch()
    return job


def test_the_newest_visible_base_is_taken_also_when_no_manifest_names_it(job: JobBuilder) -> None:
    assert job.head is not None
    chain_after = newest_fold_inputs(
        job.storage, job.log, CheckpointTable(job.storage, open_tables(job.storage)), job.head
    )
    assert chain_after.reference is not None
    assert chain_after.reference.epoch == 4 > job.base.epoch  # type: ignore[union-attr]
    assert [manifest.epoch for manifest in chain_after.manifests] == [5]
    older = read_fold_inputs(job.storage, job.log, job.head, job.base)
    assert [manifest.epoch for manifest in older.manifests] == [3, 4, 5]


def test_no_manifest_follows_a_base_at_its_own_epoch(job: JobBuilder) -> None:
    rows = CheckpointTable(job.storage, open_tables(job.storage))
    chain_after = newest_fold_inputs(job.storage, job.log, rows, job.log.read(1, 4))
    assert chain_after.base is not None
    assert chain_after.chain == ()


def test_a_base_that_was_folded_at_another_manifest_is_refused(job: JobBuilder) -> None:
    assert job.head is not None
    base = read_fold_inputs(job.storage, job.log, job.head, job.base).base
    assert base is not None
    chain = job.log.chain(job.head)
    assert len(follow(base, chain)) == 3
    with pytest.raises(DamagedManifestError, match="Epoch 3 of generation 1 follows the manifest"):
        follow(replace(base, manifest="xxh3:" + "0" * 32), chain)
    with pytest.raises(DamagedManifestError, match="Epoch 4"):
        follow(base, chain[-2:])


def test_without_a_base_the_whole_chain_counts(job: JobBuilder) -> None:
    head = job.log.read(1, 2)
    chain_after = read_fold_inputs(job.storage, job.log, head, None)
    assert chain_after.base is None
    assert [manifest.epoch for manifest in chain_after.manifests] == [1, 2]
