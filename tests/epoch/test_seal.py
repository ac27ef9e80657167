"""Sealing if the storage does not report the outcome of a put."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from state_engine.epoch.seal import seal
from state_engine.errors import StorageError
from state_engine.storage.faults import Fault, FaultyStorage
from state_engine.storage.manifest_log import ManifestLog
from state_engine.testing.sample_jobs import sample_job


@pytest.fixture
def second(tmp_path: Path) -> Any:
    """A job with one epoch, and the manifest of the next."""
    job = sample_job(str(tmp_path))
    first = job.epoch()
    return job, replace(first.manifest, epoch=2, predecessor=first.hash)


def test_a_manifest_of_its_own_is_sealed_when_the_storage_says_that_it_stays(second: Any) -> None:
    """An fsync may have failed after the put, so being able to read the manifest proves nothing."""
    job, manifest = second
    storage = FaultyStorage(job.storage, [Fault("after", "put_if_absent")])
    assert seal(ManifestLog(storage, job.job), manifest, 3).mine
    calls = [call for call, _ in storage.calls if call in ("put_if_absent", "get")]
    assert calls == ["put_if_absent", "get", "put_if_absent"]


def test_a_manifest_whose_folder_cannot_be_synced_is_not_sealed(second: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job, manifest = second
    fsync = os.fsync

    def fail_for_folders(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, "broken")
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_for_folders)
        with pytest.raises(StorageError, match="It is unknown"):
            seal(ManifestLog(job.storage, job.job), manifest, 3)
    assert seal(ManifestLog(job.storage, job.job), manifest, 1).mine


def test_the_manifest_of_another_needs_no_second_answer(second: Any) -> None:
    job, manifest = second
    ManifestLog(job.storage, job.job).put(replace(manifest, incarnation="another"))
    storage = FaultyStorage(job.storage, [Fault("before", "put_if_absent")])
    assert not seal(ManifestLog(storage, job.job), manifest, 1).mine
