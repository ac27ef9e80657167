"""Finding the newest sealed epoch while generations begin and are freed."""

from pathlib import Path

from state_engine.checkpoint.floors import raise_floor
from state_engine.epoch.look import newest
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import manifest_path
from state_engine.log.retention_records import Floor
from state_engine.storage.manifest_log import ManifestLog
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.sample_jobs import sample_job


class Meanwhile(ManifestLog):
    """After its first listing of generations the job is restored, and retention frees the old generation."""

    def __init__(self, job: JobBuilder, kept: int) -> None:
        super().__init__(job.storage, job.job)
        self.job, self.kept, self.looks = job, kept, 0

    def generations(self) -> list[int]:
        numbers = super().generations()
        self.looks += 1
        if self.looks == 1:
            old = self.job.head
            assert old is not None
            self.job.restore(self.job.log.read(1, self.kept))
            self.free(old)
        return numbers

    def free(self, old: StoredManifest) -> None:
        raise_floor(
            self.job.storage,
            Floor(job="flights", generation=1, epoch=old.manifest.epoch + 1, checkpoint_id=0, raised_at=0),
        )
        for epoch in range(self.kept + 1, old.manifest.epoch + 2):  # also the closing one; `kept` is pinned
            self.job.storage.delete(manifest_path(1, epoch))


def test_a_generation_that_was_begun_meanwhile_is_found(tmp_path: Path) -> None:
    job = sample_job(f"memory://{tmp_path}")
    for _ in range(4):
        job.epoch()
    head = newest(Meanwhile(job, kept=2))
    assert head is not None
    assert (head.manifest.generation, head.manifest.epoch) == (2, 3)


def test_a_manifest_that_is_freed_after_its_listing_is_not_missed(tmp_path: Path) -> None:
    job = sample_job(f"memory://{tmp_path}")
    for _ in range(4):
        job.epoch()

    class Slow(Meanwhile):
        """Returns the floors from before the restore, so that manifests are read after they were freed."""

        def floors(self) -> dict[int, int]:
            before = super().floors()
            if self.looks == 0:
                self.generations()
            return before

    slow = Slow(job, kept=2)
    assert slow.newest(1) is None


def test_a_job_whose_epochs_were_all_freed_has_none(tmp_path: Path) -> None:
    job = sample_job(f"memory://{tmp_path}")
    job.epoch()
    raise_floor(job.storage, Floor(job="flights", generation=1, epoch=9, checkpoint_id=0, raised_at=0))
    assert newest(job.log) is None
