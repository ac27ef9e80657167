"""What a chain of manifests still owes to sinks, also if retention has removed a part of the chain."""

import pytest
from msgspec.structs import replace

from state_engine.epoch import carry, debts
from state_engine.errors import DamagedManifestError, NotFoundError
from state_engine.log.manifest import StoredManifest, encode_manifest
from state_engine.log.paths import manifest_path
from state_engine.log.records import BaseReference, Manifest
from state_engine.spark.sinks.commits import SinkCommits
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.memory import MemoryStorage
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.sample_jobs import sample_job


@pytest.fixture
def job() -> JobBuilder:
    """Two epochs and a claim after them: the second epoch is the newest one with output."""
    MemoryStorage.forget("debts/flights")
    job = sample_job("memory://debts")
    for kind in ("epoch", "epoch", "claim"):
        job.epoch(kind=kind)  # type: ignore[arg-type]
    return job


def log_of(job: JobBuilder) -> ManifestLog:
    """Returns a log without cached manifests."""
    return ManifestLog(job.storage, job.job)


def published(manifest: Manifest) -> StoredManifest:
    """Returns the manifest with a base of the epoch before it."""
    base = BaseReference(path="b", checksum="c", generation=1, epoch=manifest.epoch - 1, checkpoint_id=1)
    changed = replace(manifest, base=base)
    return StoredManifest(changed, encode_manifest(changed)[1])


def leave(job: JobBuilder, epoch: int) -> None:
    """Replaces a manifest by another one, as a late driver does once the number is freed."""
    other = replace(log_of(job).read(1, epoch).manifest, incarnation="f" * 32)
    job.storage.delete(manifest_path(1, epoch))
    job.storage.put_if_absent(manifest_path(1, epoch), encode_manifest(other)[0])


def test_a_claim_owes_what_the_epoch_before_it_owes(job: JobBuilder) -> None:
    head = log_of(job).read(1, 3)
    assert debts.owed(log_of(job), head) == log_of(job).read(1, 2)
    assert debts.owed(log_of(job), published(head.manifest)) == log_of(job).read(1, 2)


@pytest.mark.parametrize("left", [False, True])
def test_an_epoch_that_retention_has_removed_owes_nothing_whatever_a_late_driver_left_there(
    job: JobBuilder, left: bool
) -> None:
    head = log_of(job).read(1, 3)
    if left:
        leave(job, 2)
    else:
        job.storage.delete(manifest_path(1, 2))
    assert debts.owed(log_of(job), published(head.manifest)) is None
    with pytest.raises(DamagedManifestError if left else NotFoundError):
        debts.owed(log_of(job), head)


@pytest.mark.parametrize("what", ["there", "gone", "left"])
def test_output_is_named_by_the_previous_epoch_with_output_also_if_that_was_removed(job: JobBuilder, what: str) -> None:
    head = log_of(job).read(1, 3)
    if what == "gone":
        job.storage.delete(manifest_path(1, 2))
    elif what == "left":
        leave(job, 2)
    epoch = carry.carried(head, "epoch", incarnation="a" * 32, number=2, now_ms=0)
    commits = SinkCommits(job.job, (), job.storage, log_of(job), lambda *_: None, early=True)
    assert commits._id(epoch).previous_epoch == 2
