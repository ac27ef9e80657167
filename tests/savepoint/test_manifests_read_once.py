"""A restore over more manifests than a log caches reads each of them once."""

from collections import Counter
from pathlib import Path

import pytest
from canonical_jobs import NoSinks
from rekey_jobs import job_of

from state_engine.epoch import carry
from state_engine.epoch.look import newest
from state_engine.epoch.sink_moves import since
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import manifest_path
from state_engine.savepoint.restore import JobRestore
from state_engine.storage.local import LocalStorage
from state_engine.storage.manifest_log import ManifestLog
from state_engine.testing.jobs import JobBuilder

LATER = 60


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    """Four epochs, and many idle ones after them."""
    job = job_of(str(tmp_path))
    head = job.log.read(1, 4)
    for _ in range(LATER):
        head = job.log.put(carry.carried(head, "idle", incarnation="x", number=1, now_ms=0))
    return job


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts reads per path; a log caches ten manifests."""
    defaults = ManifestLog.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "cached", 10)
    found: Counter[str] = Counter()
    get = LocalStorage.get

    def counting(storage: LocalStorage, path: str) -> bytes:
        found[path] += 1
        return get(storage, path)

    monkeypatch.setattr(LocalStorage, "get", counting)
    return found


class Sinks(NoSinks):
    """Sinks that read the lineage back to the target again and again."""

    def __init__(self, log: ManifestLog) -> None:
        self._log = log

    def check_rewind(self, target: StoredManifest, generation: int) -> None:
        head = newest(self._log)
        assert head is not None
        assert len(since(self._log, head, target)) >= LATER

    def rewind(self, target: StoredManifest, generation: int, *, keep_output: bool) -> None:
        self.check_rewind(target, generation)


def test_a_restore_reads_each_manifest_of_the_way_back_once(job: JobBuilder, reads: Counter[str]) -> None:
    JobRestore(job.root, job.job, "epoch:1/3", lambda _, __, ___, log: Sinks(log)).run()
    way = [manifest_path(1, epoch) for epoch in range(5, 4 + LATER)]
    assert {reads[path] for path in way} == {1}
